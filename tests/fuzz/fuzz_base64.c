/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_base64.c: any bytes as base64. What is accepted encodes back to the same text without its white space; what is refused names a byte. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0, kept = 0;
    struct gr_err err = {.code = GR_OK};
    char *text = malloc(size > 0 ? size : 1); /* of exactly this size: reading beyond it shows */
    unsigned char *out = malloc(gr_base64_max(size));
    if (text == NULL || out == NULL) {
        abort();
    }
    memcpy(text, data, size);
    if (gr_base64_decode(text, size, out, &n, &err) != GR_OK) {
        if (err.code != GR_ERR_INPUT || strstr(err.msg, "byte ") == NULL) {
            abort();
        }
    } else {
        char *back = malloc(gr_base64_length(n) + 1);
        if (back == NULL || n > gr_base64_max(size)) {
            abort();
        }
        gr_base64_encode(out, n, back);
        for (size_t i = 0; i < size; i++) {
            if (text[i] != '\0' && strchr(" \t\r\n", text[i]) == NULL) {
                text[kept++] = text[i];
            }
        }
        if (kept != gr_base64_length(n) || memcmp(back, text, kept) != 0) {
            abort();
        }
        free(back);
    }
    free(text);
    free(out);
    return 0;
}
