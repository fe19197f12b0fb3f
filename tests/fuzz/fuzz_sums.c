/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_sums.c: any bytes as the SHA256SUMS of a folder with one file. Nothing outside the folder may be counted, and "ok" is
 * said only when the file's real hash is in the text. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "fuzz_folder.h"
#include "model/verify.h"

/* SHA-256 of "abc" (FIPS 180-2, appendix B.1) */
static const char abc_hash[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void each(void *user, const struct gr_verify_file *file)
{
    (void)user;
    bool right = file->expected != NULL && strcmp(file->expected, abc_hash) == 0;
    if (file->name[0] == '/' || strncmp(file->name, "../", 3) == 0 ||
        (file->result == GR_VERIFY_OK) != (right && file->found)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gr_verify_counts counts;
    struct gr_err err = {0};
    fuzz_put("abc.txt", "abc", 3);
    fuzz_put("SHA256SUMS", data, size);
    enum gr_status status = gr_verify_dir(fuzz_folder(), NULL, NULL, NULL, each, NULL, &counts, &err);
    if ((status != GR_OK && err.msg[0] == '\0') || counts.ok + counts.mismatch > 1) {
        abort();
    }
    return 0;
}
