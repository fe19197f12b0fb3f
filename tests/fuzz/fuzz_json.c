/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_json.c: any bytes through the JSON reader. What it accepts is walked whole; what it refuses must have said why. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"

/* Writes the value again; returns its depth. */
static int walk(const struct gr_json *v, struct gr_buf *b)
{
    int depth = 0;
    switch (gr_json_kind(v)) {
    case GR_JSON_STRING:
        gr_buf_json_string(b, gr_json_string(v));
        break;
    case GR_JSON_INT:
        gr_buf_printf(b, "%lld", (long long)gr_json_int(v));
        break;
    case GR_JSON_REAL:
        gr_buf_json_f64(b, gr_json_number(v) + 0.0); /* -0.0 would come back as the integer 0 */
        break;
    case GR_JSON_BOOL:
        gr_buf_puts(b, gr_json_bool(v) ? "true" : "false");
        break;
    case GR_JSON_NULL:
        gr_buf_puts(b, "null");
        break;
    case GR_JSON_ARRAY:
        gr_buf_puts(b, "[");
        for (size_t i = 0; i < gr_json_len(v); i++) {
            gr_buf_puts(b, i == 0 ? "" : ",");
            int d = walk(gr_json_at(v, i), b);
            depth = d > depth ? d : depth;
        }
        gr_buf_puts(b, "]");
        return depth + 1;
    case GR_JSON_OBJECT:
        gr_buf_puts(b, "{");
        for (void *it = gr_json_first(v); it != NULL; it = gr_json_next(v, it)) {
            if (gr_json_get(v, gr_json_key(it)) != gr_json_value(it)) {
                abort();
            }
            gr_buf_puts(b, b->data[b->len - 1] == '{' ? "" : ",");
            gr_buf_json_string(b, gr_json_key(it));
            gr_buf_puts(b, ":");
            int d = walk(gr_json_value(it), b);
            depth = d > depth ? d : depth;
        }
        gr_buf_puts(b, "}");
        return depth + 1;
    }
    return depth;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gr_json *root = NULL, *again = NULL;
    struct gr_err err = {.code = GR_OK};
    struct gr_buf first = {0}, second = {0};
    if (gr_json_parse((const char *)data, size, "input", GR_ERR_INPUT, &root, &err) != GR_OK) {
        if (root != NULL || err.code == GR_OK || strncmp(err.msg, "input: ", 7) != 0) {
            abort();
        }
        return 0;
    }
    if (walk(root, &first) > 64 || first.failed) {
        abort();
    }
    /* What our writers print, our reader accepts, and it means the same. */
    if (gr_json_parse(first.data, first.len, "own", GR_ERR_INPUT, &again, &err) != GR_OK) {
        abort();
    }
    (void)walk(again, &second);
    if (first.len != second.len || memcmp(first.data, second.data, first.len) != 0) {
        abort();
    }
    gr_json_free(root);
    gr_json_free(again);
    gr_buf_free(&first);
    gr_buf_free(&second);
    return 0;
}
