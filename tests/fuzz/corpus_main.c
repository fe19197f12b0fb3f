/* SPDX-License-Identifier: Apache-2.0
 *
 * corpus_main.c: runs files through a fuzz target without libFuzzer, so that seed corpora and old crashes are ordinary tests.
 * Arguments are files, or folders whose files are all run in name order. An empty folder is an error: it would test nothing. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_BYTES = 4096 };

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (f == NULL || fstat(fileno(f), &st) != 0) {
        perror(path);
        if (f != NULL) {
            fclose(f);
        }
        return 0;
    }
    size_t size = (size_t)st.st_size;
    /* Exactly as large as the input, so that a sanitizer sees a read behind its end. */
    uint8_t *data = malloc(size == 0 ? 1 : size);
    int ok = data != NULL && fread(data, 1, size, f) == size;
    fclose(f);
    if (ok) {
        (void)LLVMFuzzerTestOneInput(data, size);
    } else {
        fprintf(stderr, "%s: cannot read\n", path);
    }
    free(data);
    return ok;
}

static int visible(const struct dirent *e) { return e->d_name[0] != '.'; }

/* Number of files run, -1 on a failure. */
static int run_folder(const char *dir)
{
    struct dirent **entries = NULL;
    int n = scandir(dir, &entries, visible, alphasort), ran = 0, failed = n < 0;
    for (int i = 0; i < n; i++) {
        char path[PATH_BYTES];
        struct stat st;
        int w = snprintf(path, sizeof path, "%s/%s", dir, entries[i]->d_name);
        free(entries[i]);
        if (w < 0 || w >= PATH_BYTES || stat(path, &st) != 0) {
            failed = 1;
        } else if (S_ISREG(st.st_mode)) {
            ran++;
            failed |= !run_file(path);
        }
    }
    free(entries);
    if (ran == 0) {
        fprintf(stderr, "%s: no input files\n", dir);
        failed = 1;
    }
    return failed ? -1 : ran;
}

int main(int argc, char **argv)
{
    int total = 0, failed = argc < 2;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        int ran;
        if (stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) {
            ran = run_folder(argv[i]);
        } else {
            ran = run_file(argv[i]) ? 1 : -1;
        }
        failed |= ran < 0;
        total += ran > 0 ? ran : 0;
    }
    printf("%d inputs run\n", total);
    return failed ? 1 : 0;
}
