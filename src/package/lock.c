/* SPDX-License-Identifier: Apache-2.0
 *
 * lock.c: dpkg's file lists and status file. Since /lib became a link to /usr/lib, lists may name a file either way. */
#include "package/lock.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/fs.h"

enum { LIST_MAX = 64 << 20, STATUS_MAX = 256 << 20 };

static const char *without_usr(const char *path) { return strncmp(path, "/usr/", 5) == 0 ? path + 4 : path; }

/* "zlib1g:amd64.list" or "ca-certificates.list" */
static void set_owner(struct gr_owner *o, const char *file)
{
    const size_t n = strlen(file) - strlen(".list"), name = strcspn(file, ":");
    (void)snprintf(o->package, sizeof o->package, "%.*s", (int)(name < n ? name : n), file);
    (void)snprintf(o->arch, sizeof o->arch, "%.*s", name < n ? (int)(n - name - 1) : 0,
                   file + (name < n ? name + 1 : 0));
}

static bool is_line(const char *line, size_t width, const char *path)
{
    return strncmp(line, path, width) == 0 && path[width] == '\0';
}

static enum gr_status scan_list(const char *info, const char *file, struct gr_owner *owners, int n, struct gr_err *err)
{
    char path[GR_PATH_BYTES], *text = NULL;
    size_t len;
    GR_TRY(gr_path_join(path, info, file, err));
    GR_TRY(gr_fs_read(path, LIST_MAX, &text, &len, err));
    for (const char *line = text; *line != '\0';) {
        const size_t width = strcspn(line, "\n");
        for (int i = 0; i < n; i++) {
            if (is_line(line, width, owners[i].path) || is_line(line, width, without_usr(owners[i].path))) {
                set_owner(&owners[i], file);
            }
        }
        line += width + (line[width] == '\n');
    }
    free(text);
    return GR_OK;
}

static enum gr_status scan_lists(const char *info, struct gr_owner *owners, int n, struct gr_err *err)
{
    DIR *d = opendir(info);
    struct dirent *e;
    enum gr_status status = GR_OK;
    while (d != NULL && status == GR_OK && (e = readdir(d)) != NULL) {
        if (gr_ends_with(e->d_name, ".list")) {
            status = scan_list(info, e->d_name, owners, n, err);
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return status;
}

/* The value of "Key: value" in a stanza; its length. */
static const char *field(const char *stanza, const char *end, const char *key, size_t *n)
{
    const size_t len = strlen(key);
    for (const char *at = stanza; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        stop = stop != NULL ? stop : end;
        if ((size_t)(stop - at) > len + 2 && strncmp(at, key, len) == 0 && at[len] == ':') {
            *n = (size_t)(stop - at) - len - 2;
            return at + len + 2;
        }
        at = stop + 1;
    }
    *n = 0;
    return "";
}

static bool field_is(const char *stanza, const char *end, const char *key, const char *want)
{
    size_t n;
    const char *value = field(stanza, end, key, &n);
    return n == strlen(want) && strncmp(value, want, n) == 0;
}

static void fill_versions(const char *text, struct gr_owner *owners, int n)
{
    for (const char *at = text; *at != '\0';) {
        const char *end = strstr(at, "\n\n");
        end = end != NULL ? end : at + strlen(at);
        for (int i = 0; i < n; i++) {
            struct gr_owner *o = &owners[i];
            if (o->package[0] != '\0' && field_is(at, end, "Package", o->package) &&
                (o->arch[0] == '\0' || field_is(at, end, "Architecture", o->arch))) {
                size_t len;
                const char *version = field(at, end, "Version", &len);
                (void)snprintf(o->version, sizeof o->version, "%.*s", (int)len, version);
            }
        }
        at = *end != '\0' ? end + 2 : end;
    }
}

enum gr_status gr_lock_owners(const char *dpkg, struct gr_owner *owners, int n, struct gr_err *err)
{
    char path[GR_PATH_BYTES], *text = NULL;
    size_t len;
    GR_TRY(gr_path_join(path, dpkg, "info", err));
    GR_TRY(scan_lists(path, owners, n, err));
    GR_TRY(gr_path_join(path, dpkg, "status", err));
    if (!gr_fs_is_file(path)) {
        return GR_OK;
    }
    GR_TRY(gr_fs_read(path, STATUS_MAX, &text, &len, err));
    fill_versions(text, owners, n);
    free(text);
    return GR_OK;
}

static enum gr_status file_digest(const char *path, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err)
{
    struct gr_map map;
    struct gr_digest *d = NULL;
    GR_TRY(gr_fs_map(path, &map, err));
    enum gr_status status = gr_digest_new(GR_SHA256, &d, err);
    if (status == GR_OK && map.size > 0) {
        gr_digest_add(d, map.data, map.size);
    }
    gr_fs_unmap(&map);
    return status == GR_OK ? gr_digest_end(d, hex, err) : status;
}

static int compare_lines(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static enum gr_status owner_line(const struct gr_owner *o, char **out, struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES];
    const char *slash = strrchr(o->path, '/');
    struct gr_buf line = {0};
    if (o->package[0] != '\0' && o->version[0] != '\0') {
        gr_buf_printf(&line, "%s==%s", o->package, o->version);
    } else {
        GR_TRY(file_digest(o->path, hex, err));
        gr_buf_printf(&line, "%s==sha256:%s", slash != NULL ? slash + 1 : o->path, hex);
    }
    *out = line.data;
    return line.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the lock file") : GR_OK;
}

enum gr_status gr_lock_text(const struct gr_owner *owners, int n, const char *const *extra, int n_extra,
                            struct gr_buf *out, struct gr_err *err)
{
    const int total = n + n_extra;
    char **lines = calloc((size_t)total + 1, sizeof *lines);
    enum gr_status status = lines != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory for the lock file");
    for (int i = 0; i < total && status == GR_OK; i++) {
        if (i < n) {
            status = owner_line(&owners[i], &lines[i], err);
        } else if ((lines[i] = strdup(extra[i - n])) == NULL) {
            status = gr_fail(err, GR_ERR_NOMEM, "no memory for the lock file");
        }
    }
    if (status == GR_OK && total > 0) {
        qsort(lines, (size_t)total, sizeof *lines, compare_lines);
    }
    for (int i = 0; i < total && status == GR_OK; i++) {
        if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0) {
            gr_buf_printf(out, "%s\n", lines[i]);
        }
    }
    for (int i = 0; lines != NULL && i < total; i++) {
        free(lines[i]);
    }
    free(lines);
    return status == GR_OK && out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the lock file") : status;
}
