/* SPDX-License-Identifier: Apache-2.0
 *
 * root_elf.h: what a program needs to run: its dynamic loader and its shared libraries, found as the loader would find them. */
#ifndef GR_PACKAGE_ROOT_ELF_H
#define GR_PACKAGE_ROOT_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fs.h"

enum { GR_ELF_NEEDED_MAX = 64, GR_ELF_NAME_BYTES = 128, GR_LIBRARIES_MAX = 256 };

struct gr_elf {
    uint16_t machine;
    char loader[GR_PATH_BYTES]; /* PT_INTERP; "" for a static program or a library */
    char search[GR_PATH_BYTES]; /* DT_RUNPATH or DT_RPATH, "" for none */
    char needed[GR_ELF_NEEDED_MAX][GR_ELF_NAME_BYTES];
    int n_needed;
};
/* GR_ERR_FORMAT: not a 64-bit little-endian ELF file, or damaged. */
enum gr_status gr_elf_read(const char *path, struct gr_elf *out, struct gr_err *err);

struct gr_library {
    char name[GR_ELF_NAME_BYTES]; /* as the loader asks for it: "libz.so.1" */
    char path[GR_PATH_BYTES];     /* the file here, links resolved */
};
struct gr_libraries {
    struct gr_library *items; /* [n], in order of discovery */
    int n;
    char loader[GR_PATH_BYTES]; /* "" for a static program */
    char folder[GR_PATH_BYTES]; /* where the C library lies: a folder that this loader searches by itself */
};
/* Everything `program` needs, directly or not; without the loader itself. GR_ERR_INPUT: one is not to be found. Free with
 * gr_libraries_free. */
enum gr_status gr_libraries_find(const char *program, struct gr_libraries *out, struct gr_err *err);
void gr_libraries_free(struct gr_libraries *l);

#endif
