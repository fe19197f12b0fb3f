/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_index.c: any bytes as model.safetensors.index.json beside a shard with the tensors "a" and "b". A snapshot that opens must
 * hand out exactly these two. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fuzz_folder.h"
#include "model/snapshot.h"

static const char shard[] = "model-00001-of-00001.safetensors";

static void put_shard(void)
{
    static const struct gr_tensor tensors[] = {{.name = "a", .dtype = GR_BF16, .ndim = 1, .shape = {4}},
                                               {.name = "b", .dtype = GR_F32, .ndim = 1, .shape = {2}}};
    uint8_t *header = NULL;
    size_t n = 0;
    struct gr_err err;
    if (gr_safetensors_header(tensors, 2, &header, &n, &err) != GR_OK) {
        abort();
    }
    uint8_t *file = calloc(1, n + 16);
    if (file == NULL) {
        abort();
    }
    memcpy(file, header, n);
    fuzz_put(shard, file, n + 16);
    free(header);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool have_shard;
    struct gr_snapshot *snap = NULL;
    struct gr_err err = {0};
    if (!have_shard) {
        put_shard();
        have_shard = true;
    }
    fuzz_put("model.safetensors.index.json", data, size);
    if (gr_snapshot_open(fuzz_folder(), &snap, &err) == GR_OK) {
        if (gr_snapshot_count(snap) != 2 || gr_snapshot_bytes(snap) != 16 || gr_snapshot_find(snap, "a") == NULL ||
            gr_snapshot_find(snap, "b") == NULL) {
            abort();
        }
    } else if (snap != NULL || err.msg[0] == '\0') {
        abort();
    }
    gr_snapshot_close(snap);
    return 0;
}
