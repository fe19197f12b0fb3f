/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.h: one .safetensors file: u64 header length, JSON header, data. Read through a mapping,
 * written in order. Every header field is checked before it is used; nothing is copied. */
#ifndef GR_FORMATS_SAFETENSORS_H
#define GR_FORMATS_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum gr_dtype {
    GR_BF16,
    GR_F16,
    GR_F32,
    GR_F64,
    GR_U8,
    GR_I8,
    GR_I16,
    GR_I32,
    GR_I64,
    GR_BOOL,
    GR_U16,
    GR_U32,
    GR_U64
};
size_t gr_dtype_bytes(enum gr_dtype dtype);
const char *gr_dtype_name(enum gr_dtype dtype); /* "BF16" as in the file */

enum { GR_TENSOR_DIMS = 8 };

/* A tensor inside a mapped file; data is borrowed from it and may be unaligned. */
struct gr_tensor {
    const char *name;
    enum gr_dtype dtype;
    int ndim;
    int64_t shape[GR_TENSOR_DIMS];
    const void *data; /* NULL: no such tensor (optional ones) */
    size_t bytes;
};

struct gr_safetensors;

/* Maps the file and checks its header: length within the file, strict JSON, names unique, dtype known, shape product equal to
 * the byte range, ranges inside the file, without overlap and without gaps, in total exactly the data section.
 * A git-lfs pointer or an HTML page in place of the file is named as such. GR_ERR_FORMAT, GR_ERR_IO. */
enum gr_status gr_safetensors_open(const char *path, struct gr_safetensors **out, struct gr_err *err);
void gr_safetensors_close(struct gr_safetensors *st); /* NULL is allowed */

size_t gr_safetensors_count(const struct gr_safetensors *st);
const struct gr_tensor *gr_safetensors_at(const struct gr_safetensors *st, size_t i);           /* in name order */
const struct gr_tensor *gr_safetensors_find(const struct gr_safetensors *st, const char *name); /* NULL when absent */
uint64_t gr_safetensors_state(const struct gr_safetensors *st); /* of the file, as struct gr_map says */
/* The tensor's pages are not needed soon. */
void gr_safetensors_done(const struct gr_safetensors *st, const struct gr_tensor *t);

/* Element i of a BF16, F16 or F32 tensor, widened exactly. */
float gr_tensor_f32(const struct gr_tensor *t, size_t i);
/* Elements [first, first + n) widened to out. BF16, F16, F32 only. */
void gr_tensor_to_f32(const struct gr_tensor *t, size_t first, size_t n, float *out);

/* Header text for tensors in the given order (offsets are filled by the function): 8-byte length, JSON, padded with blanks to a
 * multiple of 8, byte for byte what Python's json.dumps(..., separators=(",", ":")) gives for ASCII names, behind
 * "__metadata__":{"format":"pt"}. malloc'ed. Sizes come from dtype and shape (name, dtype, ndim, shape are read, nothing else).
 * Data follows in the same order. */
enum gr_status gr_safetensors_header(const struct gr_tensor *tensors, size_t n, uint8_t **header, size_t *header_bytes,
                                     struct gr_err *err);

#endif
