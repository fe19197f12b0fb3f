/* SPDX-License-Identifier: Apache-2.0
 *
 * root.c: a minimal root: no shell, no package manager; the program, its libraries and loader, certificates, an account, folders that any
 * user may write to, and the licences of all of it. */
#include "package/root.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "gr00t.h"
#include "package/lock.h"
#include "package/root_elf.h"
#include "package/stage.h"

enum { ENTRIES_MAX = 1 << 16, OPEN_FOLDER = 0777, PLAIN = 0644, RUNNABLE = 0755 };
#define PROGRAM "usr/bin/gr00t"
#define CODE "opt/tt-metal/"

static const char *keep(struct gr_root *r, const char *text)
{
    if (text == NULL) {
        return NULL;
    }
    if (r->n_texts == r->cap_texts) {
        const int cap = r->cap_texts == 0 ? 256 : r->cap_texts * 2;
        char **grown = realloc(r->texts, (size_t)cap * sizeof *grown);
        if (grown == NULL) {
            return NULL;
        }
        r->texts = grown;
        r->cap_texts = cap;
    }
    char *copy = strdup(text);
    if (copy != NULL) {
        r->texts[r->n_texts++] = copy;
    }
    return copy;
}

static enum gr_status add(struct gr_root *r, bool app, const char *path, const char *source, const char *link, int mode,
                          struct gr_err *err)
{
    struct gr_oci_entry **list = app ? &r->app : &r->base;
    int *n = app ? &r->n_app : &r->n_base;
    struct stat st;
    if (*n == ENTRIES_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%s: an image of more than %d files", path, ENTRIES_MAX);
    }
    if ((*n & (*n - 1)) == 0) { /* a power of two is full */
        struct gr_oci_entry *grown = realloc(*list, (size_t)(*n == 0 ? 1 : *n * 2) * sizeof *grown);
        if (grown == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to list it", path);
        }
        *list = grown;
    }
    const struct gr_oci_entry e = {
        .path = keep(r, path), .source = keep(r, source), .link = keep(r, link), .mode = mode};
    if (e.path == NULL || (source != NULL && e.source == NULL) || (link != NULL && e.link == NULL)) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to list it", path);
    }
    r->root_bytes += source != NULL && stat(source, &st) == 0 ? (uint64_t)st.st_size : 0;
    (*list)[(*n)++] = e;
    return GR_OK;
}

/* A small file of the image's own, by way of the scratch folder. */
static enum gr_status add_text(struct gr_root *r, const struct gr_root_plan *p, bool app, const char *path,
                               const char *text, struct gr_err *err)
{
    char name[32], file[GR_PATH_BYTES];
    (void)snprintf(name, sizeof name, "text%d", r->n_texts);
    GR_TRY(gr_path_join(file, p->scratch, name, err));
    GR_TRY(gr_fs_write(file, text, strlen(text), err));
    return add(r, app, path, file, NULL, PLAIN, err);
}

static enum gr_status add_system(struct gr_root *r, const struct gr_root_plan *p, struct gr_err *err)
{
    static const struct {
        const char *path;
        int mode;
    } folders[] = {{"cache", OPEN_FOLDER},
                   {"dev", RUNNABLE},
                   {"hf", OPEN_FOLDER},
                   {"home/tt", OPEN_FOLDER},
                   {"home/tt/work", OPEN_FOLDER},
                   {"proc", RUNNABLE},
                   {"sys", RUNNABLE},
                   {"tensor-cache", OPEN_FOLDER},
                   {"tmp", 01777},
                   {"weight-cache", OPEN_FOLDER}};
    static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                          "/etc/ssl/ca-bundle.pem"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        GR_TRY(add(r, false, folders[i].path, NULL, NULL, folders[i].mode, err));
    }
    for (size_t i = 0; i < sizeof bundles / sizeof bundles[0] && !r->certificates; i++) {
        if (gr_fs_is_file(bundles[i])) {
            r->certificates = true;
            GR_TRY(add(r, false, "etc/ssl/certs/ca-certificates.crt", bundles[i], NULL, PLAIN, err));
        }
    }
    GR_TRY(add_text(r, p, false, "etc/passwd",
                    "root:x:0:0:root:/:/usr/bin/gr00t\ntt:x:1000:1000:tt:/home/tt:/usr/bin/gr00t\n", err));
    GR_TRY(add_text(r, p, false, "etc/group", "root:x:0:\ntt:x:1000:\n", err));
    return add_text(r, p, false, "etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", err);
}

/* The texts that copyright files refer to. */
static enum gr_status add_common_licenses(struct gr_root *r, struct gr_err *err)
{
    static const char dir[] = "/usr/share/common-licenses";
    DIR *d = opendir(dir);
    struct dirent *e;
    enum gr_status status = GR_OK;
    while (d != NULL && status == GR_OK && (e = readdir(d)) != NULL) {
        char path[GR_PATH_BYTES];
        struct stat st;
        status = gr_path_join(path, dir, e->d_name, err);
        if (status == GR_OK && lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
            status = add(r, false, path + 1, path, NULL, PLAIN, err);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return status;
}

static enum gr_status add_copyrights(struct gr_root *r, const struct gr_owner *owners, int n, struct gr_err *err)
{
    for (int i = 0; i < n; i++) {
        char path[GR_PATH_BYTES];
        bool done = owners[i].package[0] == '\0';
        for (int k = 0; k < i && !done; k++) {
            done = strcmp(owners[k].package, owners[i].package) == 0;
        }
        (void)snprintf(path, sizeof path, "/usr/share/doc/%s/copyright", owners[i].package);
        if (!done && gr_fs_is_file(path)) {
            GR_TRY(add(r, false, path + 1, path, NULL, PLAIN, err));
        }
    }
    return GR_OK;
}

/* What is in the image and comes from a package: libraries, loader, certificates, and what was linked in statically. */
static enum gr_status add_origins(struct gr_root *r, const struct gr_root_plan *p, const struct gr_libraries *libs,
                                  struct gr_err *err)
{
    enum { MORE = 3 };
    static const char certificates[] = "/usr/sbin/update-ca-certificates", archive[] = "/usr/include/archive.h";
    struct gr_owner *owners = calloc((size_t)libs->n + MORE, sizeof *owners);
    char version[64];
    int n = 0;
    if (owners == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the lock file");
    }
    char *loader = libs->loader[0] != '\0' ? realpath(libs->loader, NULL) : NULL;
    bool has_archive = false;
    for (int i = 0; i < libs->n; i++) {
        owners[n++].path = libs->items[i].path;
        has_archive = has_archive || strncmp(libs->items[i].name, "libarchive.", 11) == 0;
    }
    if (loader != NULL) {
        owners[n++].path = loader;
    }
    if (r->certificates && gr_fs_is_file(certificates)) {
        owners[n++].path = certificates;
    }
    if (!has_archive && gr_fs_is_file(archive)) {
        owners[n++].path = archive;
    }
    enum gr_status status = gr_lock_owners(p->dpkg, owners, n, err);
    (void)snprintf(version, sizeof version, "gr00t==%s", gr_version());
    const char *extra = version;
    if (status == GR_OK) {
        status = gr_lock_text(owners, n, &extra, 1, &r->lock, err);
    }
    if (status == GR_OK) {
        status = add_copyrights(r, owners, n, err);
    }
    free(owners);
    free(loader);
    return status;
}

static enum gr_status add_libraries(struct gr_root *r, const struct gr_root_plan *p, struct gr_err *err)
{
    struct gr_libraries libs;
    char path[GR_PATH_BYTES];
    enum gr_status status = gr_libraries_find(p->program, &libs, err);
    if (status == GR_OK && libs.loader[0] == '/') {
        status = add(r, false, libs.loader + 1, libs.loader, NULL, RUNNABLE, err);
    }
    for (int i = 0; i < libs.n && status == GR_OK; i++) {
        status = gr_path_join(path, libs.folder, libs.items[i].name, err);
        status = status == GR_OK ? add(r, false, path + 1, libs.items[i].path, NULL, PLAIN, err) : status;
    }
    if (status == GR_OK) {
        status = add_origins(r, p, &libs, err);
    }
    r->n_libraries = libs.n;
    gr_libraries_free(&libs);
    return status;
}

static enum gr_status add_program(struct gr_root *r, const struct gr_root_plan *p, struct gr_err *err)
{
    struct stat st;
    GR_TRY(gr_fs_need_file(p->program, GR_ERR_INPUT, err));
    r->program_bytes = stat(p->program, &st) == 0 ? (uint64_t)st.st_size : 0;
    GR_TRY(add(r, true, PROGRAM, p->program, NULL, RUNNABLE, err));
    /* names under which launchers call: `python -m uvicorn ...`, and `tt-smi -r all` after a forced stop */
    GR_TRY(add(r, true, "usr/bin/python", NULL, "gr00t", RUNNABLE, err));
    GR_TRY(add(r, true, "usr/bin/tt-smi", NULL, "gr00t", RUNNABLE, err));
    GR_TRY(add_text(r, p, true, "usr/share/doc/gr00t/LICENSE", p->license, err));
    return add_text(r, p, true, "usr/share/doc/gr00t/LICENSE-NOTICE.md", p->notice, err);
}

/* The program itself may be what is listed as code: then a link, instead of the same bytes twice. */
static enum gr_status add_code(struct gr_root *r, const struct gr_root_plan *p, struct gr_err *err)
{
    for (int i = 0; i < p->files->n; i++) {
        char source[GR_PATH_BYTES], path[GR_PATH_BYTES];
        struct stat st;
        GR_TRY(gr_path_join(source, p->code, p->files->paths[i], err));
        GR_TRY(gr_path_join(path, CODE, p->files->paths[i], err));
        if (stat(source, &st) != 0) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot look at it", source);
        }
        if ((uint64_t)st.st_size == r->program_bytes && gr_stage_same(source, p->program)) {
            GR_TRY(add(r, true, path, NULL, "/" PROGRAM, RUNNABLE, err));
        } else {
            GR_TRY(add(r, true, path, source, NULL, (st.st_mode & S_IXUSR) != 0 ? RUNNABLE : PLAIN, err));
        }
    }
    return GR_OK;
}

enum gr_status gr_root_make(const struct gr_root_plan *plan, struct gr_root *out, struct gr_err *err)
{
    *out = (struct gr_root){0};
    GR_TRY(add_program(out, plan, err));
    GR_TRY(add_code(out, plan, err));
    GR_TRY(add_system(out, plan, err));
    GR_TRY(add_libraries(out, plan, err));
    return add_common_licenses(out, err);
}

void gr_root_free(struct gr_root *r)
{
    for (int i = 0; i < r->n_texts; i++) {
        free(r->texts[i]);
    }
    free(r->texts);
    free(r->base);
    free(r->app);
    gr_buf_free(&r->lock);
    *r = (struct gr_root){0};
}
