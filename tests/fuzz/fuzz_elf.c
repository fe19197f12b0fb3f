/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_elf.c: any bytes as the program of an image: its loader and libraries are read without leaving the file. */
#include <stdint.h>
#include <string.h>

#include "fuzz_folder.h"
#include "package/root_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct gr_elf elf;
    struct gr_err err = {0};
    char path[FUZZ_PATH_BYTES];
    fuzz_put("program", data, size);
    snprintf(path, sizeof path, "%s/program", fuzz_folder());
    const enum gr_status status = gr_elf_read(path, &elf, &err);
    if ((status != GR_OK && err.msg[0] == '\0') || elf.n_needed > GR_ELF_NEEDED_MAX ||
        memchr(elf.loader, '\0', sizeof elf.loader) == NULL || memchr(elf.search, '\0', sizeof elf.search) == NULL) {
        abort();
    }
    return 0;
}
