/* SPDX-License-Identifier: Apache-2.0
 *
 * root_libs.c: the closure of a program's shared libraries, searched as the loader does: RUNPATH, ld.so.cache, default folders. Variants
 * for
 * special CPUs (glibc-hwcaps) are passed over: an image runs on any. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/root_elf.h"

struct finder {
    struct gr_libraries *out;
    struct gr_map cache; /* /etc/ld.so.cache; empty when there is none */
    uint16_t machine;
    struct gr_elf elf; /* of the file being looked at: large, so not on the stack */
};

struct cache_head {
    char magic[20]; /* "glibc-ld.so.cache1.1" */
    uint32_t n_libs, n_strings;
    uint32_t unused[5];
};
struct cache_entry {
    int32_t flags;
    uint32_t name, path, os;
    uint64_t hwcap;
};

/* True when the file is a library for this machine. */
static bool fits(struct finder *f, const char *path)
{
    struct gr_err ignored;
    struct gr_elf *probe = malloc(sizeof *probe);
    const bool ok = probe != NULL && gr_fs_is_file(path) && gr_elf_read(path, probe, &ignored) == GR_OK &&
                    probe->machine == f->machine;
    free(probe);
    return ok;
}

static bool in_folders(struct finder *f, const char *list, const char *origin, const char *name,
                       char out[GR_PATH_BYTES])
{
    static const char *const marks[] = {"$ORIGIN", "${ORIGIN}"};
    for (const char *at = list; *at != '\0';) {
        const size_t n = strcspn(at, ":");
        const char *dir = "";
        int skip = 0;
        for (size_t i = 0; i < 2; i++) {
            if (strncmp(at, marks[i], strlen(marks[i])) == 0) {
                dir = origin;
                skip = (int)strlen(marks[i]);
            }
        }
        const int w = snprintf(out, GR_PATH_BYTES, "%s%.*s/%s", dir, (int)n - skip, at + skip, name);
        if (n > 0 && w > 0 && w < GR_PATH_BYTES && fits(f, out)) {
            return true;
        }
        at += n + (at[n] == ':');
    }
    return false;
}

static const char *cache_text(const struct finder *f, size_t base, uint32_t offset)
{
    const size_t at = base + offset;
    return at < f->cache.size && memchr(f->cache.data + at, '\0', f->cache.size - at) != NULL
               ? (const char *)f->cache.data + at
               : "";
}

/* The file begins with the table, or has it behind one of an older form; offsets count from the table's head. */
static bool in_cache(struct finder *f, const char *name, char out[GR_PATH_BYTES])
{
    static const char magic[] = "glibc-ld.so.cache1.1";
    struct cache_head head;
    const uint8_t *start = f->cache.size > sizeof head ? memmem(f->cache.data, f->cache.size, magic, 20) : NULL;
    if (start == NULL || f->cache.size - (size_t)(start - f->cache.data) < sizeof head) {
        return false;
    }
    const size_t base = (size_t)(start - f->cache.data);
    memcpy(&head, start, sizeof head);
    for (uint32_t i = 0; i < head.n_libs; i++) {
        struct cache_entry e;
        const size_t at = base + sizeof head + (size_t)i * sizeof e;
        if (at + sizeof e > f->cache.size) {
            return false;
        }
        memcpy(&e, f->cache.data + at, sizeof e);
        if (e.hwcap != 0 || strcmp(cache_text(f, base, e.name), name) != 0) {
            continue;
        }
        const char *path = cache_text(f, base, e.path);
        if (strlen(path) < GR_PATH_BYTES && fits(f, path)) {
            memcpy(out, path, strlen(path) + 1);
            return true;
        }
    }
    return false;
}

static bool locate(struct finder *f, const char *name, const char *origin, char out[GR_PATH_BYTES])
{
    const char *defaults = f->machine == EM_AARCH64
                               ? "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib"
                               : "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
    return in_folders(f, f->elf.search, origin, name, out) || in_cache(f, name, out) ||
           in_folders(f, defaults, "", name, out);
}

static bool known(const struct finder *f, const char *name)
{
    const char *loader = strrchr(f->out->loader, '/');
    if (loader != NULL && strcmp(loader + 1, name) == 0) {
        return true;
    }
    for (int i = 0; i < f->out->n; i++) {
        if (strcmp(f->out->items[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static void folder_of(const char *path, char out[GR_PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 0 : (size_t)(slash - path);
    memcpy(out, path, n);
    out[n] = '\0';
}

static enum gr_status add_library(struct finder *f, const char *name, const char *found, struct gr_err *err)
{
    if (f->out->n == GR_LIBRARIES_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s: more than %d shared libraries", name, GR_LIBRARIES_MAX);
    }
    struct gr_library *lib = &f->out->items[f->out->n];
    char *real = realpath(found, NULL);
    if (real == NULL || strlen(real) >= sizeof lib->path) {
        free(real);
        return gr_fail(err, GR_ERR_INPUT, "%s: cannot be followed", found);
    }
    (void)snprintf(lib->name, sizeof lib->name, "%s", name);
    memcpy(lib->path, real, strlen(real) + 1);
    free(real);
    if (strcmp(name, "libc.so.6") == 0) {
        folder_of(found, f->out->folder);
    }
    f->out->n++;
    return GR_OK;
}

/* What f->elf needs. */
static enum gr_status add_needed(struct finder *f, const char *path, struct gr_err *err)
{
    char origin[GR_PATH_BYTES], found[GR_PATH_BYTES];
    folder_of(path, origin);
    for (int i = 0; i < f->elf.n_needed; i++) {
        const char *name = f->elf.needed[i];
        if (known(f, name)) {
            continue;
        }
        if (strchr(name, '/') != NULL || !locate(f, name, origin, found)) {
            return gr_fail(err, GR_ERR_INPUT, "%s: needs the shared library %s, which is not installed here", path,
                           name);
        }
        GR_TRY(add_library(f, name, found, err));
    }
    return GR_OK;
}

static enum gr_status find_all(struct finder *f, const char *program, struct gr_err *err)
{
    char found[GR_PATH_BYTES];
    GR_TRY(gr_elf_read(program, &f->elf, err));
    f->machine = f->elf.machine;
    memcpy(f->out->loader, f->elf.loader, sizeof f->out->loader);
    GR_TRY(add_needed(f, program, err));
    if (f->out->n == 0) {
        return GR_OK;
    }
    f->elf.search[0] = '\0';
    /* glibc loads it by name when a thread ends early; without it the process aborts */
    if (!known(f, "libgcc_s.so.1") && locate(f, "libgcc_s.so.1", "", found)) {
        GR_TRY(add_library(f, "libgcc_s.so.1", found, err));
    }
    for (int i = 0; i < f->out->n; i++) { /* grows on the way */
        GR_TRY(gr_elf_read(f->out->items[i].path, &f->elf, err));
        GR_TRY(add_needed(f, f->out->items[i].path, err));
    }
    if (f->out->folder[0] == '\0') {
        return gr_fail(err, GR_ERR_INPUT, "%s: needs shared libraries, but not libc.so.6 of glibc", program);
    }
    return GR_OK;
}

enum gr_status gr_libraries_find(const char *program, struct gr_libraries *out, struct gr_err *err)
{
    struct gr_err ignored;
    struct finder *f = calloc(1, sizeof *f);
    *out = (struct gr_libraries){.items = calloc(GR_LIBRARIES_MAX, sizeof *out->items)};
    if (f == NULL || out->items == NULL) {
        free(f);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of shared libraries");
    }
    f->out = out;
    (void)gr_fs_map("/etc/ld.so.cache", &f->cache, &ignored);
    const enum gr_status status = find_all(f, program, err);
    gr_fs_unmap(&f->cache);
    free(f);
    return status;
}

void gr_libraries_free(struct gr_libraries *l)
{
    free(l->items);
    l->items = NULL;
    l->n = 0;
}
