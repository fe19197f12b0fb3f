/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_safetensors.c: any bytes as a .safetensors file. Every tensor that is handed out is read to its last byte, so that a
 * range outside the file cannot go unseen, and the sizes must add up to the data section. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <stdio.h>
#include <unistd.h>

#include "formats/safetensors.h"

static float total; /* keeps the reads alive */

static void touch(const struct gr_tensor *t)
{
    const uint8_t *p = t->data;
    size_t elements = 1;
    for (int i = 0; i < t->ndim; i++) {
        elements *= (size_t)t->shape[i];
    }
    if (elements * gr_dtype_bytes(t->dtype) != t->bytes) {
        abort();
    }
    for (size_t i = 0; i < t->bytes; i++) {
        total += (float)p[i];
    }
    for (size_t i = 0; i < elements; i++) {
        total += gr_tensor_f32(t, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct gr_safetensors *st = NULL;
    struct gr_err err = {.code = GR_OK};
    int fd = memfd_create("safetensors", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        abort();
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (gr_safetensors_open(path, &st, &err) == GR_OK) {
        size_t bytes = 0;
        for (size_t i = 0; i < gr_safetensors_count(st); i++) {
            const struct gr_tensor *t = gr_safetensors_at(st, i);
            if (gr_safetensors_find(st, t->name) != t) {
                abort();
            }
            touch(t);
            bytes += t->bytes;
            gr_safetensors_done(st, t);
        }
        if (bytes > size - 8) {
            abort();
        }
        gr_safetensors_close(st);
    } else if (st != NULL || err.code != GR_ERR_FORMAT || err.msg[0] == '\0') {
        abort();
    }
    close(fd);
    return 0;
}
