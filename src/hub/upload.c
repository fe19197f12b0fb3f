/* SPDX-License-Identifier: Apache-2.0
 *
 * upload.c: the order of a push: what is there, the repository, the card, what differs, the large files, then everything at once in one commit.
 * Nothing that a reader of the repository can see changes before that commit but its visibility: private first, public last. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "hub/upload.h"
#include "hub/upload_call.h"

enum { PREUPLOAD_FILES = 256, URL_BYTES = 2 * GR_HUB_ID_BYTES + 64 };

struct run {
    struct gr_hub *hub;
    const struct gr_push *push;
    struct gr_pushed *out;
    struct gr_upload_list list;
    struct gr_hub_repo remote; /* empty: there is none yet */
    bool exists;
    const char **deleted; /* into remote */
    int n_deleted;
};

static void tell(const struct run *r, const char *what, const char *path, uint64_t bytes)
{
    if (r->push->step != NULL) {
        r->push->step(r->push->user, what, path, bytes);
    }
}

static bool keep_404(int status) { return status == 404; }
static bool keep_409(int status) { return status == 409; }
static bool keep_card(int status) { return status == 400 || status == 404; }

static enum gr_status exists(struct run *r, struct gr_err *err)
{
    char url[URL_BYTES];
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    (void)snprintf(url, sizeof url, "/api/models/%s", r->push->id);
    const struct gr_upload_call call = {.method = "GET", .url = url, .keep = keep_404, .what = r->push->id};
    enum gr_status status = gr_upload_json(r->hub, &call, &reply, &root, err);
    r->exists = status == GR_OK && reply.status < 300;
    gr_json_free(root);
    gr_http_reply_free(&reply);
    return status;
}

/* 409: there is one already, for instance ours when the first answer was lost. */
static enum gr_status create(struct run *r, struct gr_err *err)
{
    const char *slash = strchr(r->push->id, '/');
    const bool is_private = r->push->visibility != GR_VISIBILITY_PUBLIC;
    char organization[GR_HUB_ID_BYTES];
    struct gr_buf body = {0};
    struct gr_jw w = {.out = &body, .compact = true};
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    (void)snprintf(organization, sizeof organization, "%.*s", (int)(slash - r->push->id), r->push->id);
    gr_jw_object(&w);
    gr_jw_put_string(&w, "name", slash + 1);
    gr_jw_put_string(&w, "organization", organization);
    gr_jw_put_string(&w, "type", "model");
    gr_jw_put_bool(&w, "private", is_private);
    gr_jw_end_object(&w);
    const struct gr_upload_call call = {
        .method = "POST", .url = "/api/repos/create", .body = &body, .keep = keep_409, .what = r->push->id};
    enum gr_status status = gr_upload_json(r->hub, &call, &reply, &root, err);
    gr_json_free(root);
    gr_http_reply_free(&reply);
    gr_buf_free(&body);
    return status;
}

enum gr_status gr_hub_set_visibility(struct gr_hub *hub, const char *id, enum gr_visibility v, struct gr_err *err)
{
    char url[URL_BYTES];
    struct gr_buf body = {0};
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    if (v == GR_VISIBILITY_KEEP) {
        return GR_OK;
    }
    (void)snprintf(url, sizeof url, "/api/models/%s/settings", id);
    gr_buf_puts(&body, v == GR_VISIBILITY_PRIVATE ? "{\"private\":true}" : "{\"private\":false}");
    const struct gr_upload_call call = {.method = "PUT", .url = url, .body = &body, .blind = true, .what = id};
    enum gr_status status = gr_upload_json(hub, &call, &reply, &root, err);
    gr_http_reply_free(&reply);
    gr_buf_free(&body);
    return status;
}

static enum gr_status change_visibility(struct run *r, enum gr_visibility v, struct gr_err *err)
{
    const bool is_private = v == GR_VISIBILITY_PRIVATE;
    if (r->push->visibility != v || r->remote.is_private == is_private) {
        return GR_OK;
    }
    tell(r, is_private ? "private" : "public", r->out->id, 0);
    if (!r->push->dry_run) {
        GR_TRY(gr_hub_set_visibility(r->hub, r->out->id, v, err));
    }
    r->remote.is_private = r->out->is_private = is_private;
    r->out->changed_visibility = true;
    return GR_OK;
}

/* The repository as it is, made when it is missing. */
static enum gr_status settle_repo(struct run *r, struct gr_err *err)
{
    GR_TRY(exists(r, err));
    if (!r->exists) {
        r->out->created = true;
        r->out->is_private = r->push->visibility != GR_VISIBILITY_PUBLIC;
        tell(r, "create", r->push->id, 0);
        if (r->push->dry_run) {
            return GR_OK;
        }
        GR_TRY(create(r, err));
    }
    GR_TRY(gr_hub_look(r->hub, r->push->id, NULL, true, &r->remote, err));
    (void)snprintf(r->out->id, sizeof r->out->id, "%s", r->remote.id);
    r->out->is_private = r->remote.is_private;
    return change_visibility(r, GR_VISIBILITY_PRIVATE, err);
}

static enum gr_status rewrite_card(struct run *r, struct gr_err *err)
{
    struct gr_upload_file *card = gr_upload_find(&r->list, "README.md");
    struct gr_buf text = {0};
    char *bytes = NULL;
    size_t n = 0;
    char path[GR_PATH_BYTES];
    if (r->push->rewrite == NULL || card == NULL) {
        return GR_OK;
    }
    GR_TRY(gr_path_join(path, r->list.dir, card->path, err));
    GR_TRY(gr_fs_read(path, 4 << 20, &bytes, &n, err));
    gr_buf_put(&text, bytes, n);
    free(bytes);
    enum gr_status status = text.failed ? gr_fail(err, GR_ERR_NOMEM, "%s: no memory", path) : GR_OK;
    if (status == GR_OK) {
        status = r->push->rewrite(r->push->user, r->exists ? &r->remote : NULL, &text, err);
    }
    if (status == GR_OK && text.data != NULL) {
        gr_upload_set_text(card, &text);
    }
    gr_buf_free(&text);
    return status;
}

/* What to send and what to delete. */
static enum gr_status compare(struct run *r, struct gr_err *err)
{
    for (int i = 0; i < r->list.n; i++) {
        struct gr_upload_file *f = &r->list.files[i];
        const struct gr_hub_file *there = gr_hub_repo_find(&r->remote, f->path);
        f->there = there != NULL;
        f->send = there == NULL || !gr_upload_is(f, there->oid);
    }
    r->deleted = calloc((size_t)r->remote.n_files + 1, sizeof *r->deleted);
    if (r->deleted == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its list of files", r->push->id);
    }
    for (int i = 0; i < r->remote.n_files; i++) {
        const char *path = r->remote.files[i].path;
        bool owned = false;
        for (const char *const *at = r->push->owned; at != NULL && *at != NULL; at++) {
            owned = owned || strncmp(path, *at, strlen(*at)) == 0;
        }
        if (gr_upload_find(&r->list, path) != NULL) {
            continue;
        }
        if (owned) {
            r->deleted[r->n_deleted++] = path;
        }
        tell(r, owned ? "delete" : "keep", path, r->remote.files[i].size);
    }
    return GR_OK;
}

static enum gr_status read_modes(struct run *r, const struct gr_json *root, struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(root, "files");
    for (size_t i = 0; i < gr_json_len(list); i++) {
        const struct gr_json *it = gr_json_at(list, i);
        const char *path = gr_upload_text(it, "path"), *mode = gr_upload_text(it, "uploadMode");
        const char *oid = gr_upload_text(it, "oid");
        struct gr_upload_file *f = path != NULL ? gr_upload_find(&r->list, path) : NULL;
        if (f == NULL || mode == NULL || (strcmp(mode, "lfs") != 0 && strcmp(mode, "regular") != 0)) {
            return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub's answer does not say how to send %.200s", r->out->id,
                           path != NULL ? path : "a file");
        }
        f->lfs = f->size > 0 && strcmp(mode, "lfs") == 0; /* an empty file has no LFS form */
        f->known = true;
        /* shouldIgnore (a line of the repository's .gitignore) does not count: a package without one of its files is none. */
        f->send = oid == NULL || !gr_upload_is(f, oid);
    }
    return GR_OK;
}

static enum gr_status ask_modes(struct run *r, const int *which, int n, struct gr_err *err)
{
    char url[URL_BYTES], sample[4 * (GR_UPLOAD_SAMPLE_BYTES / 3 + 1) + 1];
    struct gr_buf body = {0};
    struct gr_jw w = {.out = &body, .compact = true};
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    gr_jw_object(&w);
    gr_jw_put_array(&w, "files");
    for (int i = 0; i < n; i++) {
        const struct gr_upload_file *f = &r->list.files[which[i]];
        const size_t len = f->size < sizeof f->sample ? (size_t)f->size : sizeof f->sample;
        gr_base64_encode(f->sample, len, sample);
        sample[gr_base64_length(len)] = '\0';
        gr_jw_object(&w);
        gr_jw_put_string(&w, "path", f->path);
        gr_jw_put_u64(&w, "size", f->size);
        gr_jw_put_string(&w, "sample", sample);
        gr_jw_end_object(&w);
    }
    gr_jw_end_array(&w);
    gr_jw_end_object(&w);
    (void)snprintf(url, sizeof url, "/api/models/%s/preupload/main", r->out->id);
    const struct gr_upload_call call = {.method = "POST", .url = url, .body = &body, .what = r->out->id};
    enum gr_status status = gr_upload_json(r->hub, &call, &reply, &root, err);
    if (status == GR_OK) {
        status = read_modes(r, root, err);
    }
    for (int i = 0; i < n && status == GR_OK; i++) {
        if (!r->list.files[which[i]].known) {
            status = gr_fail(err, GR_ERR_NETWORK, "%s: the Hub's answer leaves out %s", r->out->id,
                             r->list.files[which[i]].path);
        }
    }
    gr_json_free(root);
    gr_http_reply_free(&reply);
    gr_buf_free(&body);
    return status;
}

static enum gr_status preupload(struct run *r, struct gr_err *err)
{
    int which[PREUPLOAD_FILES], n = 0;
    for (int i = 0; i < r->list.n; i++) {
        if (r->list.files[i].send) {
            which[n++] = i;
        }
        if (n == PREUPLOAD_FILES || (n > 0 && i == r->list.n - 1)) {
            GR_TRY(ask_modes(r, which, n, err));
            n = 0;
        }
    }
    return GR_OK;
}

static enum gr_status read_card_verdict(const struct run *r, const struct gr_http_reply *reply,
                                        const struct gr_json *root, struct gr_err *err)
{
    const struct gr_json *errors = gr_json_get(root, "errors"), *warnings = gr_json_get(root, "warnings");
    const struct gr_hub_config *cfg = gr_hub_settings(r->hub);
    char text[400] = "", line[300];
    for (size_t i = 0; i < gr_json_len(errors); i++) {
        const char *message = gr_upload_text(gr_json_at(errors, i), "message");
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used, "%s%.200s", used > 0 ? "; " : "",
                       message != NULL ? message : "?");
    }
    for (size_t i = 0; i < gr_json_len(warnings) && cfg->note != NULL; i++) {
        const char *message = gr_upload_text(gr_json_at(warnings, i), "message");
        (void)snprintf(line, sizeof line, "README.md: %.200s", message != NULL ? message : "a warning without words");
        cfg->note(cfg->note_user, line);
    }
    if (reply->status == 400 || gr_json_len(errors) > 0) {
        return gr_fail(err, GR_ERR_FORMAT, "README.md: the Hub refuses its front matter: %s",
                       text[0] != '\0' ? text : "no reason given");
    }
    return GR_OK;
}

static enum gr_status check_card(struct run *r, struct gr_err *err)
{
    const struct gr_upload_file *card = gr_upload_find(&r->list, "README.md");
    char *bytes = NULL;
    struct gr_buf body = {0};
    struct gr_jw w = {.out = &body, .compact = true};
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    if (card == NULL || !card->send) {
        return GR_OK;
    }
    GR_TRY(gr_upload_read(&r->list, card, &bytes, err));
    gr_jw_object(&w);
    gr_jw_put_string(&w, "content", bytes);
    gr_jw_put_string(&w, "repoType", "model");
    gr_jw_end_object(&w);
    free(bytes);
    const struct gr_upload_call call = {
        .method = "POST", .url = "/api/validate-yaml", .body = &body, .keep = keep_card, .what = "README.md"};
    enum gr_status status = gr_upload_json(r->hub, &call, &reply, &root, err);
    if (status == GR_OK && reply.status != 404) { /* 404: a Hub that has no such check */
        status = read_card_verdict(r, &reply, root, err);
    }
    gr_json_free(root);
    gr_http_reply_free(&reply);
    gr_buf_free(&body);
    return status;
}

static void count_files(struct run *r)
{
    for (int i = 0; i < r->list.n; i++) {
        const struct gr_upload_file *f = &r->list.files[i];
        tell(r, !f->send ? "unchanged" : f->there ? "replace" : "send", f->path, f->size);
        r->out->n_sent += f->send;
        r->out->n_unchanged += !f->send;
        r->out->bytes_sent += f->send && !f->lfs ? f->size : 0;
    }
    r->out->n_deleted = r->n_deleted;
}

static enum gr_status send_all(struct run *r, struct gr_err *err)
{
    uint64_t sent = 0;
    GR_TRY(preupload(r, err));
    count_files(r);
    if (r->out->n_sent == 0 && r->n_deleted == 0) {
        return GR_OK;
    }
    GR_TRY(check_card(r, err));
    GR_TRY(gr_upload_lfs(r->hub, r->out->id, &r->list, r->push->progress, r->push->user, &sent, err));
    r->out->bytes_sent += sent;
    const struct gr_upload_commit commit = {.id = r->out->id,
                                            .parent = r->remote.commit,
                                            .summary = r->push->summary,
                                            .list = &r->list,
                                            .deleted = r->deleted,
                                            .n_deleted = r->n_deleted};
    return gr_upload_commit(r->hub, &commit, r->out->commit, r->out->url, sizeof r->out->url, err);
}

enum gr_status gr_hub_push(struct gr_hub *hub, const struct gr_push *push, struct gr_pushed *out, struct gr_err *err)
{
    struct run r = {.hub = hub, .push = push, .out = out};
    *out = (struct gr_pushed){0};
    if (!gr_hub_is_id(push->id)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository, expected ORG/NAME", push->id);
    }
    (void)snprintf(out->id, sizeof out->id, "%s", push->id);
    GR_TRY(gr_upload_walk(push->dir, &r.list, err));
    enum gr_status status = settle_repo(&r, err);
    if (status == GR_OK) {
        status = rewrite_card(&r, err);
    }
    if (status == GR_OK) {
        status = gr_upload_hash(&r.list, gr_hub_settings(hub)->cancel, err);
    }
    if (status == GR_OK) {
        status = compare(&r, err);
    }
    if (status == GR_OK && push->dry_run) {
        count_files(&r);
    } else if (status == GR_OK) {
        status = send_all(&r, err);
    }
    if (status == GR_OK) {
        status = change_visibility(&r, GR_VISIBILITY_PUBLIC, err);
    }
    if (out->url[0] == '\0') {
        (void)snprintf(out->url, sizeof out->url, "%.255s/%s", gr_hub_settings(hub)->endpoint, out->id);
    }
    gr_upload_list_free(&r.list);
    gr_hub_repo_free(&r.remote);
    free(r.deleted);
    return status;
}

enum gr_status gr_hub_put_text(struct gr_hub *hub, const struct gr_hub_repo *repo, const char *path,
                               const struct gr_buf *text, const char *summary, char commit[GR_HUB_COMMIT_BYTES],
                               struct gr_err *err)
{
    char url[512];
    struct gr_upload_file file = {.path = (char *)path, .text = text->data, .size = text->len, .send = true};
    struct gr_upload_list list = {.files = &file, .n = 1};
    const struct gr_upload_commit c = {.id = repo->id, .parent = repo->commit, .summary = summary, .list = &list};
    if (text->failed || text->data == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its text", path);
    }
    GR_TRY(gr_upload_hash(&list, NULL, err));
    return gr_upload_commit(hub, &c, commit, url, sizeof url, err);
}

enum gr_status gr_hub_whoami(struct gr_hub *hub, char name[GR_HUB_ID_BYTES], struct gr_err *err)
{
    struct gr_http_reply reply;
    struct gr_json *root = NULL;
    const struct gr_upload_call call = {.method = "GET", .url = "/api/whoami-v2", .what = "the token"};
    enum gr_status status = gr_upload_json(hub, &call, &reply, &root, err);
    const char *who = gr_upload_text(root, "name");
    if (status == GR_OK && who == NULL) {
        status = gr_fail(err, GR_ERR_NETWORK, "the Hub does not say whose token it is");
    }
    (void)snprintf(name, GR_HUB_ID_BYTES, "%s", status == GR_OK ? who : "");
    gr_json_free(root);
    gr_http_reply_free(&reply);
    return status;
}
