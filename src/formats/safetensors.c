/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors.c: reads and writes the header of a .safetensors file. Nothing in the header is trusted: a tensor that this
 * file hands out lies inside the mapping, has the size its shape says, and shares no byte with another one.
 * Offsets in the header count from the end of the header, not from the start of the file. */
#include "formats/safetensors.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are little endian and used in place");

enum { LENGTH_BYTES = 8, HEADER_MAX = 100 << 20 }; /* 100 MiB: the limit of the format's own library */

struct gr_safetensors {
    struct gr_map map;
    struct gr_json *header;    /* owns the names */
    struct gr_tensor *tensors; /* [count], name order */
    size_t count;
};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [GR_BF16] = {"BF16", 2}, [GR_F16] = {"F16", 2},   [GR_F32] = {"F32", 4}, [GR_F64] = {"F64", 8},
    [GR_U8] = {"U8", 1},     [GR_I8] = {"I8", 1},     [GR_I16] = {"I16", 2}, [GR_I32] = {"I32", 4},
    [GR_I64] = {"I64", 8},   [GR_BOOL] = {"BOOL", 1}, [GR_U16] = {"U16", 2}, [GR_U32] = {"U32", 4},
    [GR_U64] = {"U64", 8},
};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

size_t gr_dtype_bytes(enum gr_dtype dtype) { return dtypes[dtype].bytes; }

const char *gr_dtype_name(enum gr_dtype dtype) { return dtypes[dtype].name; }

/* ---- reading ---- */

static bool starts_with_word(const struct gr_map *map, const char *word)
{
    size_t at = 0, n = strlen(word);
    while (at < map->size && at < 256 && (map->data[at] <= ' ')) {
        at++;
    }
    return map->size - at >= n && strncasecmp((const char *)map->data + at, word, n) == 0;
}

/* What people find in place of weights most often. */
static enum gr_status check_kind(const struct gr_map *map, const char *path, struct gr_err *err)
{
    if (map->size == 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: empty file, expected safetensors weights", path);
    }
    if (starts_with_word(map, "version https://git-lfs")) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: is a git-lfs pointer of %zu bytes, not the weights; fetch them with 'git lfs pull'", path,
                       map->size);
    }
    if (starts_with_word(map, "<!DOCTYPE") || starts_with_word(map, "<html")) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: is an HTML page (a log-in or error page saved by a download), not the weights", path);
    }
    if (map->size < LENGTH_BYTES) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %zu bytes, a safetensors file has at least %d", path, map->size,
                       (int)LENGTH_BYTES);
    }
    return GR_OK;
}

static enum gr_status parse_header(struct gr_safetensors *st, const char *path, size_t *data_at, struct gr_err *err)
{
    GR_TRY(check_kind(&st->map, path, err));
    uint64_t n;
    memcpy(&n, st->map.data, LENGTH_BYTES);
    if (n > HEADER_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: header length %llu, limit %d; not a safetensors file, or damaged", path,
                       (unsigned long long)n, (int)HEADER_MAX);
    }
    if (n > st->map.size - LENGTH_BYTES) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: header length %llu, but only %zu bytes follow: file is truncated or damaged", path,
                       (unsigned long long)n, st->map.size - LENGTH_BYTES);
    }
    const char *text = (const char *)st->map.data + LENGTH_BYTES;
    if (n < 2 || text[0] != '{') {
        return gr_fail(err, GR_ERR_FORMAT, "%s: header does not start with '{'; not a safetensors file, or damaged",
                       path);
    }
    GR_TRY(gr_json_parse(text, (size_t)n, path, GR_ERR_FORMAT, &st->header, err));
    *data_at = LENGTH_BYTES + (size_t)n;
    return GR_OK;
}

static enum gr_status check_metadata(const struct gr_json *meta, const char *path, struct gr_err *err)
{
    if (gr_json_kind(meta) != GR_JSON_OBJECT) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: __metadata__ is %s, expected object", path,
                       gr_json_kind_name(gr_json_kind(meta)));
    }
    for (void *it = gr_json_first(meta); it != NULL; it = gr_json_next(meta, it)) {
        if (gr_json_kind(gr_json_value(it)) != GR_JSON_STRING) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: __metadata__.%s is %s, expected string", path, gr_json_key(it),
                           gr_json_kind_name(gr_json_kind(gr_json_value(it))));
        }
    }
    return GR_OK;
}

/* A non-negative integer of a header field. */
static bool read_size(const struct gr_json *v, size_t *out)
{
    if (gr_json_kind(v) != GR_JSON_INT || gr_json_int(v) < 0) {
        return false;
    }
    *out = (size_t)gr_json_int(v);
    return true;
}

static enum gr_status read_dtype(const struct gr_json *info, const char *path, struct gr_tensor *t, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(info, "dtype");
    if (gr_json_kind(v) != GR_JSON_STRING) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: dtype is %s, expected string", path, t->name,
                       v == NULL ? "missing" : gr_json_kind_name(gr_json_kind(v)));
    }
    for (int i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].name, gr_json_string(v)) == 0) {
            t->dtype = (enum gr_dtype)i;
            return GR_OK;
        }
    }
    return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: dtype %s is not supported", path, t->name, gr_json_string(v));
}

static enum gr_status read_shape(const struct gr_json *info, const char *path, struct gr_tensor *t, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(info, "shape");
    if (gr_json_kind(v) != GR_JSON_ARRAY) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: shape is %s, expected array", path, t->name,
                       v == NULL ? "missing" : gr_json_kind_name(gr_json_kind(v)));
    }
    if (gr_json_len(v) > GR_TENSOR_DIMS) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: %zu dimensions, at most %d are supported", path, t->name,
                       gr_json_len(v), (int)GR_TENSOR_DIMS);
    }
    t->ndim = (int)gr_json_len(v);
    size_t bytes = gr_dtype_bytes(t->dtype);
    for (int i = 0; i < t->ndim; i++) {
        size_t side;
        if (!read_size(gr_json_at(v, (size_t)i), &side)) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: shape[%d] is not a non-negative integer", path, t->name,
                           i);
        }
        t->shape[i] = (int64_t)side;
        if (!gr_size_mul(bytes, side, &bytes)) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: size of its shape overflows", path, t->name);
        }
    }
    t->bytes = bytes;
    return GR_OK;
}

/* Leaves the start offset in *from; whether it lies inside the file is known after all tensors are read. */
static enum gr_status read_offsets(const struct gr_json *info, const char *path, const struct gr_tensor *t,
                                   size_t *from, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(info, "data_offsets");
    size_t to;
    if (gr_json_kind(v) != GR_JSON_ARRAY || gr_json_len(v) != 2 || !read_size(gr_json_at(v, 0), from) ||
        !read_size(gr_json_at(v, 1), &to)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: data_offsets %s, expected two non-negative integers", path,
                       t->name, v == NULL ? "missing" : "wrong");
    }
    if (to < *from) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: data_offsets [%zu, %zu] run backwards", path, t->name, *from,
                       to);
    }
    if (to - *from != t->bytes) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: tensor %s: data_offsets [%zu, %zu] hold %zu bytes, shape and dtype %s need %zu", path,
                       t->name, *from, to, to - *from, gr_dtype_name(t->dtype), t->bytes);
    }
    return GR_OK;
}

struct range {
    size_t from;
    struct gr_tensor *t;
};

static enum gr_status read_tensor(const struct gr_json *info, const char *path, struct range *r, struct gr_err *err)
{
    const char *name = r->t->name;
    if (gr_json_kind(info) != GR_JSON_OBJECT) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: entry is %s, expected object", path, name,
                       gr_json_kind_name(gr_json_kind(info)));
    }
    GR_TRY(read_dtype(info, path, r->t, err));
    GR_TRY(read_shape(info, path, r->t, err));
    GR_TRY(read_offsets(info, path, r->t, &r->from, err));
    if (gr_json_len(info) != 3) {
        for (void *it = gr_json_first(info); it != NULL; it = gr_json_next(info, it)) {
            const char *key = gr_json_key(it);
            if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 && strcmp(key, "data_offsets") != 0) {
                return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: unknown key %s", path, name, key);
            }
        }
    }
    return GR_OK;
}

static int by_offset(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    size_t x_end = x->from + x->t->bytes, y_end = y->from + y->t->bytes;
    if (x->from != y->from) {
        return x->from < y->from ? -1 : 1;
    }
    return x_end < y_end ? -1 : x_end > y_end;
}

static int by_name(const void *a, const void *b)
{
    const struct gr_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Sorts the ranges and checks that they tile the data section of n bytes exactly. */
static enum gr_status check_ranges(struct range *ranges, size_t count, size_t n, const char *path, struct gr_err *err)
{
    if (count > 0) {
        qsort(ranges, count, sizeof *ranges, by_offset);
    }
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        const struct range *r = &ranges[i];
        if (r->from < end) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: tensor %s: starts at %zu, inside tensor %s, which ends at %zu",
                           path, r->t->name, r->from, ranges[i - 1].t->name, end);
        }
        if (r->from > end) {
            return gr_fail(err, GR_ERR_FORMAT,
                           "%s: tensor %s: starts at %zu, expected %zu: a gap that no tensor covers", path, r->t->name,
                           r->from, end);
        }
        end = r->from + r->t->bytes; /* both below 2^63 */
    }
    if (end > n) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: %zu bytes of data, the header describes %zu: file is truncated, %zu bytes are missing",
                       path, n, end, end - n);
    }
    if (end < n) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %zu bytes of data, the header describes %zu: %zu bytes too many", path,
                       n, end, n - end);
    }
    return GR_OK;
}

static enum gr_status read_tensors(struct gr_safetensors *st, const char *path, size_t data_at, struct gr_err *err)
{
    size_t entries = gr_json_len(st->header);
    struct range *ranges = calloc(entries + 1, sizeof *ranges);
    st->tensors = calloc(entries + 1, sizeof *st->tensors);
    enum gr_status status = GR_OK;
    if (ranges == NULL || st->tensors == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %zu tensors", path, entries);
        goto out;
    }
    for (void *it = gr_json_first(st->header); it != NULL; it = gr_json_next(st->header, it)) {
        const char *name = gr_json_key(it);
        if (strcmp(name, "__metadata__") == 0) {
            status = check_metadata(gr_json_value(it), path, err);
        } else {
            struct range *r = &ranges[st->count];
            r->t = &st->tensors[st->count++];
            r->t->name = name;
            status = read_tensor(gr_json_value(it), path, r, err);
        }
        if (status != GR_OK) {
            goto out;
        }
    }
    status = check_ranges(ranges, st->count, st->map.size - data_at, path, err);
    if (status != GR_OK) {
        goto out;
    }
    for (size_t i = 0; i < st->count; i++) {
        ranges[i].t->data = st->map.data + data_at + ranges[i].from;
    }
    if (st->count > 0) {
        qsort(st->tensors, st->count, sizeof *st->tensors, by_name); /* after this `ranges` points at the wrong ones */
    }
out:
    free(ranges);
    return status;
}

enum gr_status gr_safetensors_open(const char *path, struct gr_safetensors **out, struct gr_err *err)
{
    struct gr_safetensors *st = calloc(1, sizeof *st);
    if (st == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to open", path);
    }
    size_t data_at = 0;
    enum gr_status status = gr_fs_map(path, &st->map, err);
    if (status == GR_OK) {
        status = parse_header(st, path, &data_at, err);
    }
    if (status == GR_OK) {
        status = read_tensors(st, path, data_at, err);
    }
    if (status != GR_OK) {
        gr_safetensors_close(st);
        return status;
    }
    *out = st;
    return GR_OK;
}

void gr_safetensors_close(struct gr_safetensors *st)
{
    if (st == NULL) {
        return;
    }
    free(st->tensors);
    gr_json_free(st->header);
    gr_fs_unmap(&st->map);
    free(st);
}

size_t gr_safetensors_count(const struct gr_safetensors *st) { return st->count; }

const struct gr_tensor *gr_safetensors_at(const struct gr_safetensors *st, size_t i)
{
    return i < st->count ? &st->tensors[i] : NULL;
}

const struct gr_tensor *gr_safetensors_find(const struct gr_safetensors *st, const char *name)
{
    struct gr_tensor key = {.name = name};
    return st->count == 0 ? NULL : bsearch(&key, st->tensors, st->count, sizeof *st->tensors, by_name);
}

uint64_t gr_safetensors_state(const struct gr_safetensors *st) { return st->map.state; }

void gr_safetensors_done(const struct gr_safetensors *st, const struct gr_tensor *t)
{
    if (t->data != NULL && t->bytes > 0) {
        gr_fs_map_done(&st->map, (size_t)((const uint8_t *)t->data - st->map.data), t->bytes);
    }
}

/* ---- values ---- */

/* Tensor data may start at any byte. */
typedef uint16_t u16_any __attribute__((aligned(1), may_alias));
typedef uint32_t u32_any __attribute__((aligned(1), may_alias));

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Selects with masks instead of branches, so that the loop vectorises. Numbers below 2^-14 are multiples of 2^-24. */
static float widen_f16(uint16_t h)
{
    int32_t rest = h & 0x7fff;
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t is_small = -(uint32_t)(rest < 0x400), is_special = -(uint32_t)(rest > 0x7bff); /* infinity or NaN */
    uint32_t wide = ((uint32_t)rest << 13) + (112u << 23) + (is_special & (112u << 23));
    float small = (float)rest * 0x1p-24f;
    uint32_t small_bits;
    memcpy(&small_bits, &small, 4);
    return float_of(sign | (is_small & small_bits) | (~is_small & wide));
}

void gr_tensor_to_f32(const struct gr_tensor *t, size_t first, size_t n, float *restrict out)
{
    if (n == 0) {
        return;
    }
    switch (t->dtype) {
    case GR_BF16: {
        const u16_any *p = (const u16_any *)t->data + first;
        for (size_t i = 0; i < n; i++) {
            out[i] = float_of((uint32_t)p[i] << 16);
        }
        break;
    }
    case GR_F16: {
        const u16_any *p = (const u16_any *)t->data + first;
        for (size_t i = 0; i < n; i++) {
            out[i] = widen_f16(p[i]);
        }
        break;
    }
    case GR_F32:
        memcpy(out, (const uint8_t *)t->data + 4 * first, 4 * n);
        break;
    default: /* the caller has checked the dtype; never hand out rubbish */
        for (size_t i = 0; i < n; i++) {
            out[i] = float_of(0x7fc00000u);
        }
        break;
    }
}

float gr_tensor_f32(const struct gr_tensor *t, size_t i)
{
    float value;
    gr_tensor_to_f32(t, i, 1, &value);
    return value;
}

/* ---- writing ---- */

static bool put_entry(struct gr_buf *b, const struct gr_tensor *t, size_t *offset)
{
    size_t bytes = gr_dtype_bytes(t->dtype);
    gr_buf_puts(b, ",");
    gr_buf_json_string(b, t->name);
    gr_buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", gr_dtype_name(t->dtype));
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || !gr_size_mul(bytes, (size_t)t->shape[i], &bytes)) {
            return false;
        }
        gr_buf_printf(b, "%s%lld", i == 0 ? "" : ",", (long long)t->shape[i]);
    }
    size_t end;
    if (!gr_size_add(*offset, bytes, &end) || end > INT64_MAX) {
        return false;
    }
    gr_buf_printf(b, "],\"data_offsets\":[%zu,%zu]}", *offset, end);
    *offset = end;
    return true;
}

enum gr_status gr_safetensors_header(const struct gr_tensor *tensors, size_t n, uint8_t **header, size_t *header_bytes,
                                     struct gr_err *err)
{
    static const char blanks[] = "        ";
    struct gr_buf b = {0};
    enum gr_status status = GR_OK;
    size_t offset = 0;
    gr_buf_put(&b, blanks, LENGTH_BYTES); /* place of the length */
    gr_buf_puts(&b, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; i < n; i++) {
        const struct gr_tensor *t = &tensors[i];
        if (t->ndim < 0 || t->ndim > GR_TENSOR_DIMS || !put_entry(&b, t, &offset)) {
            status = gr_fail(err, GR_ERR_USAGE, "tensor %s: shape cannot be written", t->name);
            goto out;
        }
    }
    gr_buf_puts(&b, "}");
    gr_buf_put(&b, blanks, (8 - b.len % 8) % 8);
    if (b.failed) {
        status = gr_fail(err, GR_ERR_NOMEM, "no memory for a header of %zu tensors", n);
        goto out;
    }
    uint64_t length = b.len - LENGTH_BYTES;
    memcpy(b.data, &length, LENGTH_BYTES);
    *header = (uint8_t *)b.data;
    *header_bytes = b.len;
    b.data = NULL;
out:
    gr_buf_free(&b);
    return status;
}
