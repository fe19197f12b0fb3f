/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_folder.h: a temporary folder for readers that open files by name. It is made at the first use and removed at exit. */
#ifndef GR_FUZZ_FOLDER_H
#define GR_FUZZ_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FUZZ_FILES_MAX = 8, FUZZ_PATH_BYTES = 320 };

static char fuzz_dir[256];
static const char *fuzz_files[FUZZ_FILES_MAX]; /* names that may exist in it */

static inline void fuzz_clean(void)
{
    char path[FUZZ_PATH_BYTES];
    for (int i = 0; i < FUZZ_FILES_MAX && fuzz_files[i] != NULL; i++) {
        snprintf(path, sizeof path, "%s/%s", fuzz_dir, fuzz_files[i]);
        unlink(path);
    }
}

static inline void fuzz_remove(void)
{
    fuzz_clean();
    rmdir(fuzz_dir);
}

static inline const char *fuzz_folder(void)
{
    if (fuzz_dir[0] == '\0') {
        const char *tmp = getenv("TMPDIR");
        snprintf(fuzz_dir, sizeof fuzz_dir, "%.200s/gr00t-fuzz-XXXXXX", tmp != NULL ? tmp : "/tmp");
        if (mkdtemp(fuzz_dir) == NULL) {
            perror(fuzz_dir);
            abort();
        }
        atexit(fuzz_remove);
    }
    return fuzz_dir;
}

/* name: static text without a slash. */
static inline void fuzz_put(const char *name, const void *data, size_t n)
{
    char path[FUZZ_PATH_BYTES];
    int i = 0;
    while (i < FUZZ_FILES_MAX - 1 && fuzz_files[i] != NULL && fuzz_files[i] != name) {
        i++;
    }
    fuzz_files[i] = name;
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    FILE *f = fopen(path, "wb");
    if (f == NULL || (n > 0 && fwrite(data, 1, n, f) != n)) {
        abort();
    }
    fclose(f);
}

#endif
