/* SPDX-License-Identifier: Apache-2.0
 *
 * npy.h: NumPy .npy files, format 1.0 to 3.0, C order, little endian float32/float64. */
#ifndef GR_FORMATS_NPY_H
#define GR_FORMATS_NPY_H

#include <stddef.h>

#include "base/err.h"

struct gr_npy {
    int ndim;
    size_t shape[8];
    size_t count;
    float *values; /* float64 files are rounded to float32; owned, free with gr_npy_free */
};
/* Reads from memory. Object arrays, Fortran order, other dtypes, wrong sizes: GR_ERR_INPUT naming `what`. */
enum gr_status gr_npy_parse(const void *bytes, size_t n, const char *what, struct gr_npy *out, struct gr_err *err);
void gr_npy_free(struct gr_npy *npy);

#endif
