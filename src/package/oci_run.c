/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_run.c: what a checked layout is for: the command of its config, and the tar that `docker load` reads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "package/oci_layout.h"
#include "package/oci_tar.h"

/* ---- the command ---- */

/* All strings and arrays of a gr_oci_run in one allocation. */
struct room {
    char *text;
    const char **items;
    size_t n_text, n_items;
    bool counting;
};

static const char *take_text(struct room *r, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *to = r->counting ? NULL : r->text + r->n_text;
    if (to != NULL) {
        memcpy(to, text, n);
    }
    r->n_text += n;
    return to;
}

static const char *take_string(struct room *r, const struct gr_json *v)
{
    return gr_json_kind(v) == GR_JSON_STRING && gr_json_string(v)[0] != '\0' ? take_text(r, gr_json_string(v)) : NULL;
}

static enum gr_status take_strings(struct room *r, const struct gr_json *config, const char *key,
                                   struct gr_strings *out, struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(config, key);
    if (gr_json_kind(list) != GR_JSON_ARRAY && gr_json_kind(list) != GR_JSON_NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "image config: %s is not a list", key);
    }
    const size_t n = gr_json_len(list);
    const char **items = r->counting ? NULL : r->items + r->n_items;
    r->n_items += n;
    for (size_t i = 0; i < n; i++) {
        const struct gr_json *v = gr_json_at(list, i);
        if (gr_json_kind(v) != GR_JSON_STRING) {
            return gr_fail(err, GR_ERR_FORMAT, "image config: %s[%zu] is not a string", key, i);
        }
        const char *text = take_text(r, gr_json_string(v));
        if (items != NULL) {
            items[i] = text;
        }
    }
    *out = (struct gr_strings){items, (int)n};
    return GR_OK;
}

static enum gr_status take_run(struct room *r, const struct gr_json *config, struct gr_oci_run *out, struct gr_err *err)
{
    GR_TRY(take_strings(r, config, "Entrypoint", &out->entrypoint, err));
    GR_TRY(take_strings(r, config, "Cmd", &out->cmd, err));
    GR_TRY(take_strings(r, config, "Env", &out->env, err));
    out->user = take_string(r, gr_json_get(config, "User"));
    out->workdir = take_string(r, gr_json_get(config, "WorkingDir"));
    out->stop_signal = take_string(r, gr_json_get(config, "StopSignal"));
    return GR_OK;
}

enum gr_status gr_oci_read_run(const char *dir, struct gr_oci_run *out, struct gr_err *err)
{
    struct gr_oci_layout l;
    struct room r = {.counting = true};
    *out = (struct gr_oci_run){0};
    enum gr_status status = gr_oci_layout_open(dir, &l, err);
    const struct gr_json *config = status == GR_OK ? gr_json_get(l.config_doc, "config") : NULL;
    if (status == GR_OK) {
        status = take_run(&r, config, out, err);
    }
    if (status == GR_OK) {
        const size_t n_items = r.n_items;
        char *memory = malloc(n_items * sizeof *r.items + r.n_text + 1);
        if (memory == NULL) {
            status = gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the image's config", dir);
        } else {
            r = (struct room){.items = (const char **)(void *)memory, .text = memory + n_items * sizeof *r.items};
            status = take_run(&r, config, out, err);
            out->memory = memory;
        }
    }
    gr_oci_layout_free(&l);
    if (status != GR_OK) {
        gr_oci_run_free(out);
    }
    return status;
}

void gr_oci_run_free(struct gr_oci_run *r)
{
    free(r->memory);
    *r = (struct gr_oci_run){0};
}

/* ---- the tar ---- */

static enum gr_status to_descriptor(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    const int fd = *(const int *)user;
    for (const char *at = bytes; n > 0;) {
        const ssize_t w = write(fd, at, n);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            return gr_fail_errno(err, GR_ERR_IO, w < 0 ? errno : EIO, "cannot hand the image on");
        }
        at += w;
        n -= (size_t)w;
    }
    return GR_OK;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct gr_oci_entry *)a)->path, ((const struct gr_oci_entry *)b)->path);
}

enum { DOCUMENTS = 3, FILES_MAX = GR_OCI_LAYERS_MAX + 2 + DOCUMENTS };
struct stream {
    struct gr_oci_layout layout;
    struct gr_oci_entry entries[FILES_MAX];
    char sources[FILES_MAX][GR_PATH_BYTES];
    int n;
};

/* The name inside the tar is the source's end. */
static enum gr_status add(struct stream *s, const char *name, struct gr_err *err)
{
    char *source = s->sources[s->n];
    GR_TRY(gr_path_join(source, s->layout.dir, name, err));
    const char *path = source + strlen(source) - strlen(name);
    s->entries[s->n++] = (struct gr_oci_entry){.path = path, .source = source, .mode = 0644};
    return GR_OK;
}

static enum gr_status add_blob(struct stream *s, const struct gr_oci_blob *b, struct gr_err *err)
{
    char name[GR_OCI_DIGEST_BYTES + 16] = "blobs/sha256/";
    strcat(name, b->digest + strlen("sha256:"));
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->entries[i].path, name) == 0) {
            return GR_OK; /* two equal layers are one file */
        }
    }
    return add(s, name, err);
}

static enum gr_status list_files(struct stream *s, struct gr_err *err)
{
    static const char *const documents[DOCUMENTS] = {"index.json", "oci-layout", "manifest.json"};
    GR_TRY(add_blob(s, &s->layout.manifest, err));
    GR_TRY(add_blob(s, &s->layout.config, err));
    for (int i = 0; i < s->layout.n_layers; i++) {
        GR_TRY(add_blob(s, &s->layout.layers[i], err));
    }
    for (int i = 0; i < DOCUMENTS; i++) {
        GR_TRY(add(s, documents[i], err));
        if (!gr_fs_is_file(s->sources[s->n - 1])) {
            s->n--; /* manifest.json may be absent */
        }
    }
    qsort(s->entries, (size_t)s->n, sizeof s->entries[0], compare_entries);
    return GR_OK;
}

enum gr_status gr_oci_stream(const char *dir, int fd, struct gr_err *err)
{
    struct stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory to stream it", dir);
    }
    enum gr_status status = gr_oci_layout_open(dir, &s->layout, err);
    if (status == GR_OK) {
        status = gr_oci_layout_layers(&s->layout, err);
    }
    if (status == GR_OK) {
        status = list_files(s, err);
    }
    if (status == GR_OK) {
        const struct gr_tar_sink sink = {to_descriptor, &fd};
        status = gr_tar_write(s->entries, s->n, &sink, err);
    }
    gr_oci_layout_free(&s->layout);
    free(s);
    return status;
}
