/* SPDX-License-Identifier: Apache-2.0
 *
 * oci_read.c: a layout from disk: index -> manifest -> config and layers, every blob against size and digest before it is used.
 * manifest.json,
 * which an engine may load instead, must name the same blobs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "package/oci_layout.h"
#include "package/oci_tar.h"

enum { DOCUMENT_MAX = 4 << 20, READ_STEP = 1 << 20 };

static bool is_digest(const char *text)
{
    static const char prefix[] = "sha256:";
    const size_t n = sizeof prefix - 1;
    return strncmp(text, prefix, n) == 0 && strlen(text) == n + 64 && strspn(text + n, "0123456789abcdef") == 64;
}

static const char *text_of(const struct gr_json *v)
{
    return gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "";
}

enum gr_status gr_oci_blob_path(const struct gr_oci_layout *l, const struct gr_oci_blob *b, char out[GR_PATH_BYTES],
                                struct gr_err *err)
{
    char name[GR_OCI_DIGEST_BYTES + 16] = "blobs/sha256/";
    strcat(name, b->digest + strlen("sha256:"));
    return gr_path_join(out, l->dir, name, err);
}

/* digest, size and media type of a descriptor; `what` for messages. */
static enum gr_status read_descriptor(const struct gr_oci_layout *l, const struct gr_json *d, const char *what,
                                      struct gr_oci_blob *out, struct gr_err *err)
{
    const char *digest = text_of(gr_json_get(d, "digest"));
    const struct gr_json *size = gr_json_get(d, "size");
    if (!is_digest(digest)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: digest of the %s is \"%.80s\", expected sha256: and 64 hex digits",
                       l->dir, what, digest);
    }
    if (gr_json_kind(size) != GR_JSON_INT || gr_json_int(size) < 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: size of the %s is missing or no count of bytes", l->dir, what);
    }
    memcpy(out->digest, digest, strlen(digest) + 1);
    out->size = (uint64_t)gr_json_int(size);
    return GR_OK;
}

static enum gr_status digest_file(int fd, const char *path, uint64_t size, char hex[GR_DIGEST_HEX_BYTES],
                                  struct gr_err *err)
{
    struct gr_digest *d = NULL;
    char *step = malloc(READ_STEP);
    enum gr_status status =
        step != NULL ? gr_digest_new(GR_SHA256, &d, err) : gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path);
    for (uint64_t at = 0; at < size && status == GR_OK;) {
        const size_t n = size - at < READ_STEP ? (size_t)(size - at) : READ_STEP;
        status = gr_fs_read_at(fd, path, step, n, at, err);
        if (status == GR_OK) {
            gr_digest_add(d, step, n);
        }
        at += n;
    }
    free(step);
    if (status != GR_OK) {
        gr_digest_free(d);
        return status;
    }
    return gr_digest_end(d, hex, err);
}

static enum gr_status check_blob(const struct gr_oci_layout *l, const struct gr_oci_blob *b, const char *what,
                                 struct gr_err *err)
{
    char path[GR_PATH_BYTES], hex[GR_DIGEST_HEX_BYTES];
    int fd = -1;
    size_t size = 0;
    GR_TRY(gr_oci_blob_path(l, b, path, err));
    GR_TRY(gr_fs_need_file(path, GR_ERR_FORMAT, err));
    GR_TRY(gr_fs_open(path, &fd, &size, err));
    enum gr_status status = GR_OK;
    if (size != b->size) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: %s has %zu bytes, its descriptor says %llu", path, what, size,
                         (unsigned long long)b->size);
    }
    if (status == GR_OK) {
        status = digest_file(fd, path, b->size, hex, err);
    }
    (void)close(fd);
    if (status == GR_OK && strcmp(hex, b->digest + strlen("sha256:")) != 0) {
        status = gr_fail(err, GR_ERR_FORMAT, "%s: %s is damaged: its bytes have SHA-256 %s", path, what, hex);
    }
    return status;
}

static enum gr_status read_document(const struct gr_oci_layout *l, const struct gr_oci_blob *b, const char *what,
                                    struct gr_json **out, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    if (b->size > DOCUMENT_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: the %s has %llu bytes, more than the limit of %d", l->dir, what,
                       (unsigned long long)b->size, DOCUMENT_MAX);
    }
    GR_TRY(check_blob(l, b, what, err));
    GR_TRY(gr_oci_blob_path(l, b, path, err));
    return gr_json_read(path, DOCUMENT_MAX, GR_ERR_FORMAT, out, err);
}

/* The entry whose ref name is "latest"; without any such, the only one. */
static enum gr_status choose_manifest(struct gr_oci_layout *l, struct gr_err *err)
{
    static const char hub[] = "docker.io/";
    const struct gr_json *list = gr_json_get(l->index, "manifests"), *chosen = NULL;
    int latest = 0;
    for (size_t i = 0; i < gr_json_len(list); i++) {
        const struct gr_json *entry = gr_json_at(list, i), *notes = gr_json_get(entry, "annotations");
        if (strcmp(text_of(gr_json_get(notes, "org.opencontainers.image.ref.name")), "latest") == 0) {
            const char *digest =
                text_of(gr_json_get(entry, "digest")); /* one manifest may be listed under several names */
            latest += chosen == NULL || strcmp(digest, text_of(gr_json_get(chosen, "digest"))) != 0;
            chosen = entry;
        }
    }
    if (latest == 0 && gr_json_len(list) == 1) {
        chosen = gr_json_at(list, 0);
    }
    if (chosen == NULL || latest > 1) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: index.json has %zu manifests, %d of them called latest; expected one",
                       l->dir, gr_json_len(list), latest);
    }
    const char *type = text_of(gr_json_get(chosen, "mediaType"));
    if (strstr(type, "image.manifest") == NULL && strstr(type, "distribution.manifest.v2") == NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: index.json names a \"%.80s\", expected one image's manifest", l->dir,
                       type);
    }
    const char *name = text_of(gr_json_get(gr_json_get(chosen, "annotations"), "io.containerd.image.name"));
    name += strncmp(name, hub, sizeof hub - 1) == 0 ? sizeof hub - 1 : 0;
    if (strlen(name) < sizeof l->tag && name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-/:")] == '\0') {
        memcpy(l->tag, name, strlen(name) + 1);
    }
    return read_descriptor(l, chosen, "manifest", &l->manifest, err);
}

static enum gr_status read_layers(struct gr_oci_layout *l, struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(l->manifest_doc, "layers");
    const struct gr_json *diffs = gr_json_get(gr_json_get(l->config_doc, "rootfs"), "diff_ids");
    const size_t n = gr_json_len(list);
    if (gr_json_kind(list) != GR_JSON_ARRAY || n < 1 || n > GR_OCI_LAYERS_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: the manifest has %zu layers, expected 1 to %d", l->dir, n,
                       GR_OCI_LAYERS_MAX);
    }
    if (gr_json_len(diffs) != n) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: the config has %zu diff_ids for %zu layers", l->dir, gr_json_len(diffs),
                       n);
    }
    for (size_t i = 0; i < n; i++) {
        struct gr_oci_blob *b = &l->layers[i];
        const char *type = text_of(gr_json_get(gr_json_at(list, i), "mediaType"));
        const char *diff = text_of(gr_json_at(diffs, i));
        GR_TRY(read_descriptor(l, gr_json_at(list, i), "layer", b, err));
        b->gzip = gr_ends_with(type, "+gzip") || gr_ends_with(type, ".gzip");
        if (!b->gzip && !gr_ends_with(type, ".tar")) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: layer %zu is a \"%.80s\", expected a tar, plain or with gzip",
                           l->dir, i + 1, type);
        }
        if (!is_digest(diff)) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: diff_ids[%zu] of the config is no sha256 digest", l->dir, i);
        }
        memcpy(b->diff_id, diff, strlen(diff) + 1);
    }
    l->n_layers = (int)n;
    return GR_OK;
}

static bool names_blob(const struct gr_json *v, const struct gr_oci_blob *b)
{
    static const char folder[] = "blobs/sha256/";
    const char *path = text_of(v);
    return strncmp(path, folder, sizeof folder - 1) == 0 &&
           strcmp(path + sizeof folder - 1, b->digest + strlen("sha256:")) == 0;
}

/* `docker load` of older engines reads this file and nothing else: what it runs must be what was checked. */
static enum gr_status check_archive_form(const struct gr_oci_layout *l, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_json *doc = NULL;
    GR_TRY(gr_path_join(path, l->dir, "manifest.json", err));
    if (!gr_fs_is_file(path)) {
        return GR_OK;
    }
    GR_TRY(gr_json_read(path, DOCUMENT_MAX, GR_ERR_FORMAT, &doc, err));
    const struct gr_json *image = gr_json_at(doc, 0), *layers = gr_json_get(image, "Layers");
    bool same = gr_json_len(doc) == 1 && gr_json_kind(doc) == GR_JSON_ARRAY &&
                names_blob(gr_json_get(image, "Config"), &l->config) && gr_json_len(layers) == (size_t)l->n_layers;
    for (int i = 0; i < l->n_layers && same; i++) {
        same = names_blob(gr_json_at(layers, (size_t)i), &l->layers[i]);
    }
    gr_json_free(doc);
    return same ? GR_OK : gr_fail(err, GR_ERR_FORMAT, "%s: names other blobs than index.json", path);
}

static enum gr_status check_version(const char *dir, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_json *doc = NULL;
    GR_TRY(gr_path_join(path, dir, "oci-layout", err));
    GR_TRY(gr_fs_need_file(path, GR_ERR_FORMAT, err));
    GR_TRY(gr_json_read(path, DOCUMENT_MAX, GR_ERR_FORMAT, &doc, err));
    char version[32] = "";
    const char *got = text_of(gr_json_get(doc, "imageLayoutVersion"));
    if (strlen(got) < sizeof version) {
        memcpy(version, got, strlen(got) + 1);
    }
    gr_json_free(doc);
    return strcmp(version, "1.0.0") == 0
               ? GR_OK
               : gr_fail(err, GR_ERR_FORMAT, "%s: imageLayoutVersion is \"%s\", expected 1.0.0", path, version);
}

enum gr_status gr_oci_layout_open(const char *dir, struct gr_oci_layout *out, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    memset(out, 0, sizeof *out);
    out->dir = dir;
    GR_TRY(gr_fs_need_dir(dir, GR_ERR_FORMAT, err));
    GR_TRY(check_version(dir, err));
    GR_TRY(gr_path_join(path, dir, "index.json", err));
    GR_TRY(gr_fs_need_file(path, GR_ERR_FORMAT, err));
    GR_TRY(gr_json_read(path, DOCUMENT_MAX, GR_ERR_FORMAT, &out->index, err));
    GR_TRY(choose_manifest(out, err));
    GR_TRY(read_document(out, &out->manifest, "manifest", &out->manifest_doc, err));
    GR_TRY(read_descriptor(out, gr_json_get(out->manifest_doc, "config"), "config", &out->config, err));
    GR_TRY(read_document(out, &out->config, "config", &out->config_doc, err));
    GR_TRY(read_layers(out, err));
    return check_archive_form(out, err);
}

void gr_oci_layout_free(struct gr_oci_layout *l)
{
    gr_json_free(l->index);
    gr_json_free(l->manifest_doc);
    gr_json_free(l->config_doc);
    l->index = l->manifest_doc = l->config_doc = NULL;
}

static enum gr_status add_to_digest(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    (void)err;
    gr_digest_add(user, bytes, n);
    return GR_OK;
}

static enum gr_status check_layer(const struct gr_oci_layout *l, const struct gr_oci_blob *b, struct gr_err *err)
{
    char path[GR_PATH_BYTES], hex[GR_DIGEST_HEX_BYTES];
    struct gr_digest *d = NULL;
    GR_TRY(check_blob(l, b, "layer", err));
    GR_TRY(gr_oci_blob_path(l, b, path, err));
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    const struct gr_tar_sink sink = {add_to_digest, d};
    const enum gr_status status = gr_tar_inflate(path, b->gzip, GR_OCI_UNPACKED_MAX, &sink, err);
    if (status != GR_OK) {
        gr_digest_free(d);
        return status;
    }
    GR_TRY(gr_digest_end(d, hex, err));
    return strcmp(hex, b->diff_id + strlen("sha256:")) == 0
               ? GR_OK
               : gr_fail(err, GR_ERR_FORMAT, "%s: unpacks to SHA-256 %s, the config's diff_id is %s", path, hex,
                         b->diff_id);
}

enum gr_status gr_oci_layout_layers(const struct gr_oci_layout *l, struct gr_err *err)
{
    for (int i = 0; i < l->n_layers; i++) {
        GR_TRY(check_layer(l, &l->layers[i], err));
    }
    return GR_OK;
}

void gr_oci_layout_facts(const struct gr_oci_layout *l, struct gr_oci_image *out)
{
    *out = (struct gr_oci_image){.n_layers = l->n_layers};
    memcpy(out->config_digest, l->config.digest, sizeof out->config_digest);
    memcpy(out->manifest_digest, l->manifest.digest, sizeof out->manifest_digest);
    memcpy(out->tag, l->tag, sizeof out->tag);
    for (int i = 0; i < l->n_layers; i++) {
        out->layer_bytes += l->layers[i].size;
    }
}

enum gr_status gr_oci_check(const char *dir, struct gr_oci_image *out, struct gr_err *err)
{
    struct gr_oci_layout l;
    enum gr_status status = gr_oci_layout_open(dir, &l, err);
    if (status == GR_OK) {
        status = gr_oci_layout_layers(&l, err);
    }
    if (status == GR_OK) {
        gr_oci_layout_facts(&l, out);
    }
    gr_oci_layout_free(&l);
    return status;
}
