/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_look.c: what a repository holds at a revision. In: the Hub's JSON (foreign: every name, id and size is checked); out: struct gr_hub_repo
 * with the files in path order. The revision becomes a commit first, and the listing is that commit's: a branch may move in between. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hub/hub.h"

enum { FILES_MAX = 1 << 20, PAGES_MAX = 20000, TAGS_MAX = 10000, URL_BYTES = 8192 };

void gr_hub_repo_free(struct gr_hub_repo *repo)
{
    for (int i = 0; i < repo->n_tags; i++) {
        free(repo->tags[i]);
    }
    for (int i = 0; i < repo->n_files; i++) {
        free(repo->files[i].path);
    }
    free(repo->tags);
    free(repo->files);
    memset(repo, 0, sizeof *repo);
}

static const char *text_of(const struct gr_json *object, const char *key)
{
    const struct gr_json *v = gr_json_get(object, key);
    return gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "";
}

static bool is_hex(const char *text, size_t n) { return strlen(text) == n && strspn(text, "0123456789abcdef") == n; }

static enum gr_status read_tags(const struct gr_json *tags, struct gr_hub_repo *out, struct gr_err *err)
{
    const size_t n = gr_json_len(tags) < TAGS_MAX ? gr_json_len(tags) : TAGS_MAX;
    out->tags = calloc(n + 1, sizeof *out->tags);
    if (out->tags == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the tags of %s", out->id);
    }
    for (size_t i = 0; i < n; i++) {
        const struct gr_json *tag = gr_json_at(tags, i);
        if (gr_json_kind(tag) != GR_JSON_STRING) {
            continue;
        }
        if ((out->tags[out->n_tags] = strdup(gr_json_string(tag))) == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for the tags of %s", out->id);
        }
        out->n_tags++;
    }
    return GR_OK;
}

static enum gr_status read_info(const struct gr_json *info, const char *asked, struct gr_hub_repo *out,
                                struct gr_err *err)
{
    const char *id = text_of(info, "id"), *sha = text_of(info, "sha");
    const struct gr_json *gated = gr_json_get(info, "gated"), *is_private = gr_json_get(info, "private");
    if (!gr_hub_is_commit(sha)) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub's answer names no commit", asked);
    }
    (void)snprintf(out->id, sizeof out->id, "%s", gr_hub_is_id(id) ? id : asked);
    (void)snprintf(out->commit, sizeof out->commit, "%s", sha);
    out->is_private = gr_json_kind(is_private) == GR_JSON_BOOL && gr_json_bool(is_private);
    if (gr_json_kind(gated) == GR_JSON_STRING) {
        (void)snprintf(out->gated, sizeof out->gated, "%.15s", gr_json_string(gated));
    }
    return read_tags(gr_json_get(info, "tags"), out, err);
}

/* GR_OK without a new file for a folder. */
static enum gr_status read_entry(const struct gr_json *entry, const char *id, struct gr_hub_repo *out,
                                 struct gr_err *err)
{
    const char *path = text_of(entry, "path");
    const struct gr_json *lfs = gr_json_get(entry, "lfs");
    const bool is_lfs = gr_json_kind(lfs) == GR_JSON_OBJECT;
    const struct gr_json *size = gr_json_get(is_lfs ? lfs : entry, "size");
    const char *oid = text_of(is_lfs ? lfs : entry, "oid"), *blob_id = text_of(entry, "oid");
    if (strcmp(text_of(entry, "type"), "file") != 0) {
        return GR_OK;
    }
    if (!gr_hub_is_path(path)) {
        return gr_fail(err, GR_ERR_INPUT,
                       "%s lists a file called \"%.200s\", which is no safe name: nothing is fetched", id, path);
    }
    if (!is_hex(oid, is_lfs ? 64 : 40) || !is_hex(blob_id, 40)) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub lists %.200s without a usable object id", id, path);
    }
    if (gr_json_kind(size) != GR_JSON_INT || gr_json_int(size) < 0) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub lists %.200s without a size", id, path);
    }
    struct gr_hub_file *f = &out->files[out->n_files];
    *f = (struct gr_hub_file){.path = strdup(path), .size = (uint64_t)gr_json_int(size), .lfs = is_lfs};
    if (f->path == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the files of %s", id);
    }
    (void)snprintf(f->oid, sizeof f->oid, "%s", oid);
    (void)snprintf(f->blob_id, sizeof f->blob_id, "%s", blob_id);
    out->n_files++;
    return GR_OK;
}

static enum gr_status read_page(const struct gr_json *page, const char *id, struct gr_hub_repo *out, struct gr_err *err)
{
    const size_t n = gr_json_len(page);
    if (gr_json_kind(page) != GR_JSON_ARRAY) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub's listing is no list", id);
    }
    if (n > (size_t)(FILES_MAX - out->n_files)) {
        return gr_fail(err, GR_ERR_INPUT, "%s lists more than %d files", id, (int)FILES_MAX);
    }
    struct gr_hub_file *files = realloc(out->files, ((size_t)out->n_files + n + 1) * sizeof *files);
    if (files == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the files of %s", id);
    }
    out->files = files;
    for (size_t i = 0; i < n; i++) {
        GR_TRY(read_entry(gr_json_at(page, i), id, out, err));
    }
    return GR_OK;
}

/* ---- files by their paths ---- */

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct gr_hub_file *)a)->path, ((const struct gr_hub_file *)b)->path);
}

void gr_hub_repo_sort(struct gr_hub_repo *repo)
{
    if (repo->n_files > 1) {
        qsort(repo->files, (size_t)repo->n_files, sizeof *repo->files, by_path);
    }
}

/* The first n bytes of a path. */
struct beginning {
    const char *text;
    size_t n;
};

static int by_beginning(const void *key, const void *file)
{
    const struct beginning *k = key;
    const char *path = ((const struct gr_hub_file *)file)->path;
    const int d = strncmp(k->text, path, k->n);
    return d != 0 ? d : path[k->n] == '\0' ? 0 : -1;
}

static const struct gr_hub_file *find(const struct gr_hub_repo *repo, const char *path, size_t n)
{
    const struct beginning key = {path, n};
    return repo->n_files == 0 ? NULL
                              : bsearch(&key, repo->files, (size_t)repo->n_files, sizeof *repo->files, by_beginning);
}

const struct gr_hub_file *gr_hub_repo_find(const struct gr_hub_repo *repo, const char *path)
{
    return find(repo, path, strlen(path));
}

/* One path twice, or a file where another name needs a folder, cannot both be on disk. */
static enum gr_status check_paths(const struct gr_hub_repo *repo, struct gr_err *err)
{
    for (int i = 0; i < repo->n_files; i++) {
        const char *path = repo->files[i].path;
        const struct gr_hub_file *other =
            i > 0 && strcmp(repo->files[i - 1].path, path) == 0 ? &repo->files[i - 1] : NULL;
        for (const char *slash = path; other == NULL && (slash = strchr(slash, '/')) != NULL; slash++) {
            other = find(repo, path, (size_t)(slash - path));
        }
        if (other != NULL) {
            return gr_fail(err, GR_ERR_INPUT, "%s lists \"%.150s\" and \"%.150s\", which exclude each other", repo->id,
                           other->path, path);
        }
    }
    return GR_OK;
}

enum gr_status gr_hub_get_json(struct gr_hub *hub, const char *url, const char *what, char *next, size_t next_bytes,
                               struct gr_json **out, struct gr_err *err)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    const struct gr_http_request request = {
        .method = "GET", .url = url, .headers = headers, .follow = GR_HTTP_FOLLOW_ORIGIN};
    struct gr_http_reply reply = {0};
    enum gr_status status = gr_hub_call(hub, &request, NULL, &reply, err);
    if (status == GR_OK) {
        status = gr_hub_json(hub, what, &reply, out, err);
    }
    if (status == GR_OK && next != NULL && (status = gr_hub_next_page(hub, &reply, next, next_bytes, err)) != GR_OK) {
        gr_json_free(*out);
        *out = NULL;
    }
    gr_http_reply_free(&reply);
    return status;
}

static enum gr_status list_files(struct gr_hub *hub, struct gr_hub_repo *out, struct gr_err *err)
{
    char url[URL_BYTES], next[URL_BYTES];
    (void)snprintf(url, sizeof url, "/api/models/%s/tree/%s?recursive=true&expand=false", out->id, out->commit);
    for (int page = 0; url[0] != '\0'; page++) {
        struct gr_json *root = NULL;
        if (page == PAGES_MAX) {
            return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub's listing does not end after %d pages", out->id, page);
        }
        GR_TRY(gr_hub_get_json(hub, url, out->id, next, sizeof next, &root, err));
        enum gr_status status = read_page(root, out->id, out, err);
        gr_json_free(root);
        GR_TRY(status);
        if (strcmp(url, next) == 0) {
            return gr_fail(err, GR_ERR_NETWORK, "%s: a page of the Hub's listing names itself as the next one",
                           out->id);
        }
        memcpy(url, next, sizeof url);
    }
    gr_hub_repo_sort(out);
    return check_paths(out, err);
}

enum gr_status gr_hub_look(struct gr_hub *hub, const char *id, const char *revision, bool files,
                           struct gr_hub_repo *out, struct gr_err *err)
{
    struct gr_buf url = {0};
    struct gr_json *root = NULL;
    memset(out, 0, sizeof *out);
    revision = revision != NULL ? revision : "main";
    if (!gr_hub_is_id(id) || !gr_hub_is_revision(revision)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" @ \"%.200s\" is no repository and revision", id, revision);
    }
    gr_buf_printf(&url, "/api/models/%s/revision/", id);
    gr_url_encode(&url, revision, "");
    if (url.failed) {
        gr_buf_free(&url);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a request");
    }
    enum gr_status status = gr_hub_get_json(hub, url.data, id, NULL, 0, &root, err);
    gr_buf_free(&url);
    if (status == GR_OK) {
        status = read_info(root, id, out, err);
    }
    gr_json_free(root);
    if (status == GR_OK && gr_hub_is_commit(revision) && strcmp(revision, out->commit) != 0) {
        status =
            gr_fail(err, GR_ERR_NETWORK, "%s: asked for commit %s, the Hub answers with %s", id, revision, out->commit);
    }
    if (status == GR_OK && files) {
        status = list_files(hub, out, err);
    }
    if (status != GR_OK) {
        gr_hub_repo_free(out);
    }
    return status;
}
