/* SPDX-License-Identifier: Apache-2.0
 *
 * lfs_plan.c: the LFS batch call. Its answer decides where our bytes go, so every address and number in it is looked at: absolute, no step down
 * from https to http, as many parts as the size needs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hub/lfs_plan.h"
#include "hub/upload_call.h"

/* Parts: the store's own limit is 10000. Headers: signed addresses have none or two. */
enum { PARTS_MAX = 100000, HEADERS_MAX = 16, HEADER_BYTES = 4096 };

static enum gr_status no_sense(const struct gr_lfs_object *o, const char *what, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_NETWORK, "the Hub's answer about %s makes no sense: %s", o->file->path, what);
}

static enum gr_status no_memory(const struct gr_lfs_object *o, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its addresses", o->file->path);
}

void gr_lfs_object_free(struct gr_lfs_object *o)
{
    for (int i = 0; o->addresses != NULL && i < o->n_parts; i++) {
        free(o->addresses[i]);
    }
    for (int i = 0; o->headers != NULL && o->headers[i] != NULL; i++) {
        free(o->headers[i]);
    }
    free(o->addresses);
    free(o->headers);
    free(o->etags);
    free(o->complete);
    free(o->verify);
    o->addresses = o->headers = NULL;
    o->etags = NULL;
    o->complete = o->verify = NULL;
}

static enum gr_status take_address(const struct gr_lfs_object *o, const char *endpoint, const char *url, char **out,
                                   struct gr_err *err)
{
    struct gr_url parts, hub;
    if (url == NULL || !gr_url_parse(url, &parts)) {
        return no_sense(o, "no address", err);
    }
    if (gr_url_parse(endpoint, &hub) && hub.secure && !parts.secure) {
        return no_sense(o, "an address without https", err);
    }
    *out = strdup(url);
    return *out != NULL ? GR_OK : no_memory(o, err);
}

/* "00001": 1; anything else 0. */
static long part_number(const char *key)
{
    const size_t n = strlen(key);
    return n > 0 && n <= 9 && strspn(key, "0123456789") == n ? strtol(key, NULL, 10) : 0;
}

static enum gr_status read_parts(const char *endpoint, const struct gr_json *header, uint64_t chunk,
                                 struct gr_lfs_object *o, struct gr_err *err)
{
    const uint64_t n = o->file->size / chunk + (o->file->size % chunk != 0);
    if (n == 0 || n > PARTS_MAX) {
        return no_sense(o, "a part size that does not fit", err);
    }
    o->multipart = true;
    o->chunk = chunk;
    o->addresses = calloc((size_t)n, sizeof *o->addresses);
    o->etags = calloc((size_t)n, sizeof *o->etags);
    if (o->addresses == NULL || o->etags == NULL) {
        return no_memory(o, err);
    }
    o->n_parts = (int)n;
    int found = 0;
    for (void *it = gr_json_first(header); it != NULL; it = gr_json_next(header, it)) {
        const long number = part_number(gr_json_key(it));
        const struct gr_json *v = gr_json_value(it);
        if (number == 0) {
            continue;
        }
        if (number > o->n_parts || o->addresses[number - 1] != NULL) {
            return no_sense(o, "more parts than its size needs", err);
        }
        GR_TRY(take_address(o, endpoint, gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : NULL,
                            &o->addresses[number - 1], err));
        found++;
    }
    return found == o->n_parts ? GR_OK : no_sense(o, "fewer parts than its size needs", err);
}

/* Header lines that the store wants with a single PUT. */
static enum gr_status read_headers(const struct gr_json *header, struct gr_lfs_object *o, struct gr_err *err)
{
    int n = 0;
    if (gr_json_len(header) == 0) {
        return GR_OK;
    }
    if (gr_json_len(header) > HEADERS_MAX || (o->headers = calloc(HEADERS_MAX + 1, sizeof *o->headers)) == NULL) {
        return gr_json_len(header) > HEADERS_MAX ? no_sense(o, "too many headers", err) : no_memory(o, err);
    }
    for (void *it = gr_json_first(header); it != NULL; it = gr_json_next(header, it)) {
        const char *key = gr_json_key(it), *value = gr_upload_text(header, key);
        if (value == NULL || strlen(key) + strlen(value) > HEADER_BYTES || strpbrk(key, " :\r\n") != NULL ||
            strpbrk(value, "\r\n") != NULL) {
            return no_sense(o, "a header that is none", err);
        }
        const size_t size = strlen(key) + strlen(value) + 3;
        if ((o->headers[n] = malloc(size)) == NULL) {
            return no_memory(o, err);
        }
        (void)snprintf(o->headers[n++], size, "%s: %s", key, value);
    }
    return GR_OK;
}

/* "16777216" or 16777216; 0: not given. */
static uint64_t chunk_size(const struct gr_json *header)
{
    const struct gr_json *v = gr_json_get(header, "chunk_size");
    if (gr_json_kind(v) == GR_JSON_INT) {
        return gr_json_int(v) > 0 ? (uint64_t)gr_json_int(v) : 0;
    }
    const char *text = gr_upload_text(header, "chunk_size");
    return text != NULL && strlen(text) <= 18 && strspn(text, "0123456789") == strlen(text) ? strtoull(text, NULL, 10)
                                                                                            : 0;
}

enum gr_status gr_lfs_read_object(const char *endpoint, const struct gr_json *answer, struct gr_lfs_object *o,
                                  struct gr_err *err)
{
    const struct gr_json *error = gr_json_get(answer, "error"), *actions = gr_json_get(answer, "actions");
    const struct gr_json *upload = gr_json_get(actions, "upload"), *verify = gr_json_get(actions, "verify");
    const struct gr_json *header = gr_json_get(upload, "header");
    if (gr_json_kind(error) == GR_JSON_OBJECT) {
        const struct gr_json *code = gr_json_get(error, "code");
        const int64_t http = gr_json_kind(code) == GR_JSON_INT ? gr_json_int(code) : 0;
        const char *text = gr_upload_text(error, "message");
        return gr_fail(err,
                       http == 401 || http == 403  ? GR_ERR_ACCESS
                       : http >= 400 && http < 500 ? GR_ERR_INPUT
                                                   : GR_ERR_NETWORK,
                       "the Hub refuses %s: %.200s (code %d)", o->file->path, text != NULL ? text : "no reason given",
                       (int)http);
    }
    if (gr_json_kind(upload) != GR_JSON_OBJECT) {
        return GR_OK; /* it is there */
    }
    if (gr_json_get(verify, "href") != NULL) {
        GR_TRY(take_address(o, endpoint, gr_upload_text(verify, "href"), &o->verify, err));
    }
    const uint64_t chunk = chunk_size(header);
    if (chunk > 0) {
        GR_TRY(take_address(o, endpoint, gr_upload_text(upload, "href"), &o->complete, err));
        return read_parts(endpoint, header, chunk, o, err);
    }
    if ((o->addresses = calloc(1, sizeof *o->addresses)) == NULL) {
        return no_memory(o, err);
    }
    o->chunk = o->file->size;
    o->n_parts = 1;
    GR_TRY(take_address(o, endpoint, gr_upload_text(upload, "href"), &o->addresses[0], err));
    return read_headers(header, o, err);
}

static void write_request(const struct gr_upload_file *const *files, int n, struct gr_buf *out)
{
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "operation", "upload");
    gr_jw_put_array(&w, "transfers");
    gr_jw_string(&w, "basic");
    gr_jw_string(&w, "multipart");
    gr_jw_end_array(&w);
    gr_jw_put_string(&w, "hash_algo", "sha256");
    gr_jw_put_object(&w, "ref");
    gr_jw_put_string(&w, "name", "main");
    gr_jw_end_object(&w);
    gr_jw_put_array(&w, "objects");
    for (int i = 0; i < n; i++) {
        gr_jw_object(&w);
        gr_jw_put_string(&w, "oid", files[i]->sha256);
        gr_jw_put_u64(&w, "size", files[i]->size);
        gr_jw_end_object(&w);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
}

static enum gr_status read_answer(const char *endpoint, const struct gr_json *root, struct gr_lfs_object *objects,
                                  int n, struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(root, "objects");
    for (int i = 0; i < n; i++) {
        const struct gr_json *mine = NULL;
        for (size_t k = 0; k < gr_json_len(list) && mine == NULL; k++) {
            const struct gr_json *it =
                gr_json_at(list, (k + (size_t)i) % gr_json_len(list)); /* usually the same order */
            const char *oid = gr_upload_text(it, "oid");
            mine = oid != NULL && strcmp(oid, objects[i].file->sha256) == 0 ? it : NULL;
        }
        if (mine == NULL) {
            return no_sense(&objects[i], "it is not in it", err);
        }
        GR_TRY(gr_lfs_read_object(endpoint, mine, &objects[i], err));
    }
    return GR_OK;
}

enum gr_status gr_lfs_plan(struct gr_hub *hub, const char *id, const struct gr_upload_file *const *files, int n,
                           struct gr_lfs_object *objects, struct gr_err *err)
{
    struct gr_buf path = {0}, body = {0};
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    for (int i = 0; i < n; i++) {
        objects[i].file = files[i];
    }
    gr_buf_printf(&path, "/%s.git/info/lfs/objects/batch", id);
    write_request(files, n, &body);
    const struct gr_upload_call call = {.method = "POST",
                                        .url = path.failed ? "" : path.data,
                                        .type = "application/vnd.git-lfs+json",
                                        .body = &body,
                                        .what = id};
    enum gr_status status = gr_upload_json(hub, &call, &reply, &root, err);
    if (status == GR_OK) {
        status = read_answer(gr_hub_settings(hub)->endpoint, root, objects, n, err);
    }
    gr_json_free(root);
    gr_http_reply_free(&reply);
    gr_buf_free(&path);
    gr_buf_free(&body);
    return status;
}

void gr_lfs_completion(const struct gr_lfs_object *o, struct gr_buf *out)
{
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "oid", o->file->sha256);
    gr_jw_put_array(&w, "parts");
    for (int i = 0; i < o->n_parts; i++) {
        gr_jw_object(&w);
        gr_jw_put_int(&w, "partNumber", i + 1);
        gr_jw_put_string(&w, "etag", o->etags[i]);
        gr_jw_end_object(&w);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
}

void gr_lfs_verification(const struct gr_lfs_object *o, struct gr_buf *out)
{
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "oid", o->file->sha256);
    gr_jw_put_u64(&w, "size", o->file->size);
    gr_jw_end_object(&w);
}
