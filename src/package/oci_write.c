/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_write.c: an OCI layout out of lists of files: layers, config, manifest, index, and manifest.json for older engines. Nothing in it
 * depends on
 * the time, the folder or the machine, so equal input gives equal digests. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/jsonout.h"
#include "package/oci_tar.h"
#include "package/tree.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE "application/vnd.oci.image.layer.v1.tar+gzip"
enum { LAYERS_MAX = 16, FOLDER_MODE = 0755 };

struct blob {
    char digest[GR_OCI_DIGEST_BYTES], diff_id[GR_OCI_DIGEST_BYTES];
    uint64_t bytes;
};

/* ---- entries of a layer: sorted, with a folder for every parent ---- */

struct entries {
    struct gr_oci_entry *items;
    int n, cap;
    char **made; /* names of parents, owned */
    int n_made;
};

static void entries_free(struct entries *e)
{
    for (int i = 0; i < e->n_made; i++) {
        free(e->made[i]);
    }
    free(e->made);
    free(e->items);
    *e = (struct entries){0};
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct gr_oci_entry *)a)->path, ((const struct gr_oci_entry *)b)->path);
}

static bool plain_path(const char *path)
{
    for (const char *part = path;; part = strchr(part, '/') + 1) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.') ||
            strncmp(part, ".wh.", 4) == 0) {
            return false;
        }
        if (part[n] == '\0') {
            return true;
        }
    }
}

/* Room for every parent of every entry: they are made unique after sorting. */
static enum gr_status add_parents(const struct gr_oci_layer *layer, struct entries *e, struct gr_err *err)
{
    int n_parents = 0;
    for (int i = 0; i < layer->n; i++) {
        if (!plain_path(layer->entries[i].path)) {
            return gr_fail(err, GR_ERR_INPUT, "%s: cannot be a name in an image", layer->entries[i].path);
        }
        for (const char *at = layer->entries[i].path; (at = strchr(at, '/')) != NULL; at++) {
            n_parents++;
        }
    }
    e->cap = layer->n + n_parents;
    e->items = calloc((size_t)e->cap + 1, sizeof *e->items);
    e->made = calloc((size_t)n_parents + 1, sizeof *e->made);
    if (e->items == NULL || e->made == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the %d entries of a layer", e->cap);
    }
    for (int i = 0; i < layer->n; i++) {
        e->items[e->n++] = layer->entries[i];
        for (const char *path = layer->entries[i].path, *at = path; (at = strchr(at, '/')) != NULL; at++) {
            char *name = strndup(path, (size_t)(at - path));
            if (name == NULL) {
                return gr_fail(err, GR_ERR_NOMEM, "no memory for the %d entries of a layer", e->cap);
            }
            e->made[e->n_made++] = name;
            e->items[e->n++] = (struct gr_oci_entry){.path = name, .mode = -1}; /* weaker than one that is given */
        }
    }
    return GR_OK;
}

static enum gr_status sort_entries(const struct gr_oci_layer *layer, struct entries *e, struct gr_err *err)
{
    GR_TRY(add_parents(layer, e, err));
    if (e->n > 0) {
        qsort(e->items, (size_t)e->n, sizeof *e->items, compare_entries);
    }
    int kept = 0;
    for (int i = 0; i < e->n; i++) {
        struct gr_oci_entry *last = kept > 0 ? &e->items[kept - 1] : NULL;
        if (last == NULL || strcmp(last->path, e->items[i].path) != 0) {
            e->items[kept++] = e->items[i];
            continue;
        }
        const struct gr_oci_entry *given = last->mode == -1 ? &e->items[i] : last;
        const struct gr_oci_entry *other = given == last ? &e->items[i] : last;
        if (other->mode != -1 || given->source != NULL || given->link != NULL) {
            return gr_fail(err, GR_ERR_INPUT, "%s: is in the image twice", given->path);
        }
        *last = *given;
    }
    e->n = kept;
    for (int i = 0; i < e->n; i++) {
        e->items[i].mode = e->items[i].mode == -1 ? FOLDER_MODE : e->items[i].mode;
    }
    return GR_OK;
}

/* ---- blobs ---- */

/* What a layer's tar goes through: its own checksum, gzip, and behind that checksum, size and file. */
struct layer_stream {
    struct gr_digest *diff, *digest;
    struct gr_gzip *gzip;
    const char *path;
    int fd;
    uint64_t bytes;
    const volatile sig_atomic_t *stop;
};

static enum gr_status to_file(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    struct layer_stream *s = user;
    const char *at = bytes;
    gr_digest_add(s->digest, bytes, n);
    s->bytes += n;
    while (n > 0) {
        const ssize_t w = write(s->fd, at, n);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            return gr_fail_errno(err, GR_ERR_IO, w < 0 ? errno : EIO, "%s: cannot write", s->path);
        }
        at += w;
        n -= (size_t)w;
    }
    return GR_OK;
}

static enum gr_status to_gzip(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    struct layer_stream *s = user;
    if (s->stop != NULL && *s->stop != 0) {
        return gr_fail(err, GR_ERR_CHECK, "interrupted");
    }
    gr_digest_add(s->diff, bytes, n);
    return gr_gzip_add(s->gzip, bytes, n, err);
}

static enum gr_status end_digest(struct gr_digest **d, char out[GR_OCI_DIGEST_BYTES], struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES];
    struct gr_digest *mine = *d;
    *d = NULL;
    GR_TRY(gr_digest_end(mine, hex, err));
    (void)snprintf(out, GR_OCI_DIGEST_BYTES, "sha256:%s", hex);
    return GR_OK;
}

static enum gr_status stream_layer(const struct entries *e, struct layer_stream *s, struct blob *out,
                                   struct gr_err *err)
{
    const struct gr_tar_sink file = {to_file, s}, gzip = {to_gzip, s};
    GR_TRY(gr_digest_new(GR_SHA256, &s->diff, err));
    GR_TRY(gr_digest_new(GR_SHA256, &s->digest, err));
    GR_TRY(gr_gzip_new(&file, &s->gzip, err));
    GR_TRY(gr_tar_write(e->items, e->n, &gzip, err));
    struct gr_gzip *z = s->gzip;
    s->gzip = NULL;
    GR_TRY(gr_gzip_end(z, err));
    GR_TRY(end_digest(&s->diff, out->diff_id, err));
    GR_TRY(end_digest(&s->digest, out->digest, err));
    out->bytes = s->bytes;
    return GR_OK;
}

/* Its name is its checksum, known at the end only. */
static enum gr_status write_layer(const char *blobs, const struct gr_oci_layer *layer,
                                  const volatile sig_atomic_t *stop, struct blob *out, struct gr_err *err)
{
    char temp[GR_PATH_BYTES], path[GR_PATH_BYTES];
    struct entries e = {0};
    struct layer_stream s = {.path = temp, .fd = -1, .stop = stop};
    enum gr_status status = gr_path_join(temp, blobs, ".layer", err);
    if (status == GR_OK) {
        status = sort_entries(layer, &e, err);
    }
    if (status == GR_OK) {
        s.fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        status = s.fd >= 0 ? stream_layer(&e, &s, out, err)
                           : gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot create", temp);
    }
    if (s.fd >= 0 && close(s.fd) != 0 && status == GR_OK && errno != EINTR) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot write", temp);
    }
    gr_gzip_free(s.gzip);
    gr_digest_free(s.diff);
    gr_digest_free(s.digest);
    entries_free(&e);
    if (status == GR_OK) {
        status = gr_path_join(path, blobs, out->digest + strlen("sha256:"), err);
    }
    if (status == GR_OK && rename(temp, path) != 0) {
        status = gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot write", path);
    }
    return status;
}

static enum gr_status write_text_blob(const char *blobs, const struct gr_buf *text, struct blob *out,
                                      struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_digest *d = NULL;
    if (text->failed || text->data == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the image's description");
    }
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, text->data, text->len);
    GR_TRY(end_digest(&d, out->digest, err));
    out->bytes = text->len;
    GR_TRY(gr_path_join(path, blobs, out->digest + strlen("sha256:"), err));
    return gr_fs_write(path, text->data, text->len, err);
}

/* ---- the documents ---- */

static void put_strings(struct gr_jw *w, const char *key, const struct gr_strings *s)
{
    gr_jw_put_array(w, key);
    for (int i = 0; i < s->n; i++) {
        gr_jw_string(w, s->items[i]);
    }
    gr_jw_end_array(w);
}

static int compare_env(const void *a, const void *b)
{
    return strcmp(((const struct gr_env *)a)->name, ((const struct gr_env *)b)->name);
}

static void put_run_config(struct gr_jw *w, const struct gr_oci_config *cfg, const struct gr_env *labels)
{
    char text[32];
    struct gr_buf pair = {0};
    gr_jw_put_object(w, "config");
    gr_jw_put_string(w, "User", cfg->user);
    if (cfg->port > 0) {
        (void)snprintf(text, sizeof text, "%d/tcp", cfg->port);
        gr_jw_put_object(w, "ExposedPorts");
        gr_jw_put_object(w, text);
        gr_jw_end_object(w);
        gr_jw_end_object(w);
    }
    gr_jw_put_array(w, "Env");
    for (int i = 0; i < cfg->n_env; i++) {
        pair.len = 0;
        gr_buf_printf(&pair, "%s=%s", cfg->env[i].name, cfg->env[i].value);
        gr_jw_string(w, pair.failed ? "" : pair.data);
    }
    gr_jw_end_array(w);
    w->out->failed = w->out->failed || pair.failed;
    gr_buf_free(&pair);
    put_strings(w, "Entrypoint", &cfg->entrypoint);
    put_strings(w, "Cmd", &cfg->cmd);
    gr_jw_put_string(w, "WorkingDir", cfg->workdir);
    gr_jw_put_object(w, "Labels");
    for (int i = 0; i < cfg->n_labels; i++) {
        gr_jw_put_string(w, labels[i].name, labels[i].value);
    }
    gr_jw_end_object(w);
    gr_jw_put_string(w, "StopSignal", cfg->stop_signal);
    gr_jw_end_object(w);
}

static enum gr_status config_text(const struct gr_oci_config *cfg, const struct blob *layers, int n, struct gr_buf *out,
                                  struct gr_err *err)
{
    const char *created = cfg->created != NULL ? cfg->created : "1970-01-01T00:00:00Z";
    struct gr_jw w = {.out = out, .compact = true};
    struct gr_env *labels = calloc((size_t)cfg->n_labels + 1, sizeof *labels);
    if (labels == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the image's labels");
    }
    if (cfg->n_labels > 0) {
        memcpy(labels, cfg->labels, (size_t)cfg->n_labels * sizeof *labels);
        qsort(labels, (size_t)cfg->n_labels, sizeof *labels, compare_env);
    }
    gr_jw_object(&w);
    gr_jw_put_string(&w, "created", created);
    gr_jw_put_string(&w, "architecture", "amd64");
    gr_jw_put_string(&w, "os", "linux");
    put_run_config(&w, cfg, labels);
    gr_jw_put_object(&w, "rootfs");
    gr_jw_put_string(&w, "type", "layers");
    gr_jw_put_array(&w, "diff_ids");
    for (int i = 0; i < n; i++) {
        gr_jw_string(&w, layers[i].diff_id);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
    gr_jw_put_array(&w, "history");
    for (int i = 0; i < n; i++) {
        gr_jw_object(&w);
        gr_jw_put_string(&w, "created", created);
        gr_jw_put_string(&w, "created_by", "gr00t package");
        gr_jw_end_object(&w);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
    free(labels);
    return GR_OK;
}

static void put_descriptor(struct gr_jw *w, const char *type, const struct blob *b)
{
    gr_jw_put_string(w, "mediaType", type);
    gr_jw_put_string(w, "digest", b->digest);
    gr_jw_put_u64(w, "size", b->bytes);
}

static void manifest_text(const struct blob *config, const struct blob *layers, int n, struct gr_buf *out)
{
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_int(&w, "schemaVersion", 2);
    gr_jw_put_string(&w, "mediaType", MANIFEST_TYPE);
    gr_jw_put_object(&w, "config");
    put_descriptor(&w, CONFIG_TYPE, config);
    gr_jw_end_object(&w);
    gr_jw_put_array(&w, "layers");
    for (int i = 0; i < n; i++) {
        gr_jw_object(&w);
        put_descriptor(&w, LAYER_TYPE, &layers[i]);
        gr_jw_end_object(&w);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
}

/* skopeo looks for the ref name "latest", containerd for its own annotation. */
static void index_text(const struct blob *manifest, const char *tag, struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    struct gr_buf name = {0};
    gr_buf_printf(&name, "docker.io/%s", tag);
    gr_jw_object(&w);
    gr_jw_put_int(&w, "schemaVersion", 2);
    gr_jw_put_array(&w, "manifests");
    gr_jw_object(&w);
    put_descriptor(&w, MANIFEST_TYPE, manifest);
    gr_jw_put_object(&w, "platform");
    gr_jw_put_string(&w, "architecture", "amd64");
    gr_jw_put_string(&w, "os", "linux");
    gr_jw_end_object(&w);
    gr_jw_put_object(&w, "annotations");
    gr_jw_put_string(&w, "org.opencontainers.image.ref.name", "latest");
    gr_jw_put_string(&w, "io.containerd.image.name", name.failed ? "" : name.data);
    gr_jw_end_object(&w);
    gr_jw_end_object(&w);
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
    out->failed = out->failed || name.failed;
    gr_buf_free(&name);
}

/* What `docker load` of the classic store reads. */
static void archive_text(const struct blob *config, const struct blob *layers, int n, const char *tag,
                         struct gr_buf *out)
{
    struct gr_jw w = {.out = out};
    char path[128];
    gr_jw_array(&w);
    gr_jw_object(&w);
    (void)snprintf(path, sizeof path, "blobs/sha256/%s", config->digest + strlen("sha256:"));
    gr_jw_put_string(&w, "Config", path);
    gr_jw_put_array(&w, "RepoTags");
    gr_jw_string(&w, tag);
    gr_jw_end_array(&w);
    gr_jw_put_array(&w, "Layers");
    for (int i = 0; i < n; i++) {
        (void)snprintf(path, sizeof path, "blobs/sha256/%s", layers[i].digest + strlen("sha256:"));
        gr_jw_string(&w, path);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
    gr_jw_end_array(&w);
}

static enum gr_status write_text(const char *dir, const char *name, struct gr_buf *text, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    enum gr_status status = text->failed || text->data == NULL
                                ? gr_fail(err, GR_ERR_NOMEM, "no memory for the image's %s", name)
                                : gr_path_join(path, dir, name, err);
    if (status == GR_OK) {
        status = gr_fs_write(path, text->data, text->len, err);
    }
    gr_buf_free(text);
    return status;
}

static enum gr_status write_documents(const char *dir, const char *blobs, const struct gr_oci_config *cfg,
                                      const struct blob *layers, int n, struct gr_oci_image *out, struct gr_err *err)
{
    struct blob config, manifest;
    struct gr_buf text = {0};
    enum gr_status status = config_text(cfg, layers, n, &text, err);
    status = status == GR_OK ? write_text_blob(blobs, &text, &config, err) : status;
    gr_buf_free(&text);
    GR_TRY(status);
    manifest_text(&config, layers, n, &text);
    status = write_text_blob(blobs, &text, &manifest, err);
    gr_buf_free(&text);
    GR_TRY(status);
    memcpy(out->config_digest, config.digest, sizeof config.digest);
    memcpy(out->manifest_digest, manifest.digest, sizeof manifest.digest);
    (void)snprintf(out->tag, sizeof out->tag, "tt-model/%s:%.12s", cfg->name, config.digest + strlen("sha256:"));
    index_text(&manifest, out->tag, &text);
    GR_TRY(write_text(dir, "index.json", &text, err));
    archive_text(&config, layers, n, out->tag, &text);
    GR_TRY(write_text(dir, "manifest.json", &text, err));
    gr_buf_puts(&text, "{\"imageLayoutVersion\":\"1.0.0\"}");
    return write_text(dir, "oci-layout", &text, err);
}

static enum gr_status write_layout(const char *dir, const struct gr_oci_config *cfg, const struct gr_oci_layer *layers,
                                   int n_layers, struct gr_oci_image *out, struct gr_err *err)
{
    char blobs[GR_PATH_BYTES];
    struct blob done[LAYERS_MAX];
    GR_TRY(gr_path_join(blobs, dir, "blobs/sha256", err));
    GR_TRY(gr_fs_mkdirs(blobs, err));
    for (int i = 0; i < n_layers; i++) {
        GR_TRY(write_layer(blobs, &layers[i], cfg->stop, &done[i], err));
        out->layer_bytes += done[i].bytes;
    }
    out->n_layers = n_layers;
    return write_documents(dir, blobs, cfg, done, n_layers, out, err);
}

enum gr_status gr_oci_write(const char *dir, const struct gr_oci_config *cfg, const struct gr_oci_layer *layers,
                            int n_layers, struct gr_oci_image *out, struct gr_err *err)
{
    struct stat st;
    struct gr_err ignored;
    *out = (struct gr_oci_image){0};
    if (n_layers < 1 || n_layers > LAYERS_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "%d layers, expected 1 to %d", n_layers, LAYERS_MAX);
    }
    if (lstat(dir, &st) == 0) {
        return gr_fail(err, GR_ERR_IO, "%s: exists already", dir);
    }
    const enum gr_status status = write_layout(dir, cfg, layers, n_layers, out, err);
    if (status != GR_OK) {
        (void)gr_tree_remove(dir, &ignored);
    }
    return status;
}
