/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_npy.c: any bytes as a .npy file; an accepted array has as many values as its shape says. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gr_npy npy = {0};
    struct gr_err err = {.code = GR_OK};
    if (gr_npy_parse(data, size, "input", &npy, &err) != GR_OK) {
        if (npy.values != NULL || err.code != GR_ERR_INPUT || strncmp(err.msg, "input: ", 7) != 0) {
            abort();
        }
        return 0;
    }
    size_t count = 1;
    volatile float sum = 0;
    for (int i = 0; i < npy.ndim; i++) {
        count *= npy.shape[i];
    }
    if (count != npy.count || count > size / 4) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        sum = sum + npy.values[i];
    }
    gr_npy_free(&npy);
    return 0;
}
