/* SPDX-License-Identifier: Apache-2.0
 *
 * upload_commit.c: one commit, said once: every attempt names the parent, so that a second one cannot take effect after the first, and when the
 * answer is lost or says that the head has moved, what the head holds now tells whether it was us. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "hub/upload_call.h"

/* Small files of one commit, in memory with a third on top. The Hub takes files below 10 MB as small ones. */
enum { SMALL_MAX_BYTES = 256 << 20 };

static void begin_line(struct gr_jw *w, const char *key)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "key", key);
    gr_jw_put_object(w, "value");
}

static void end_line(struct gr_jw *w)
{
    gr_jw_end_object(w);
    gr_jw_end_object(w);
    gr_buf_puts(w->out, "\n");
    *w = (struct gr_jw){.out = w->out, .compact = true};
}

static enum gr_status put_small(struct gr_jw *w, const struct gr_upload_list *l, const struct gr_upload_file *f,
                                struct gr_err *err)
{
    char *bytes = NULL;
    const size_t n = (size_t)f->size, len = gr_base64_length(n);
    GR_TRY(gr_upload_read(l, f, &bytes, err));
    char *text = malloc(len + 3);
    if (text == NULL) {
        free(bytes);
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for its base64 text", f->path);
    }
    text[0] = text[len + 1] = '"';
    gr_base64_encode((const unsigned char *)bytes, n, text + 1);
    text[len + 2] = '\0';
    begin_line(w, "file");
    gr_jw_key(w, "content");
    gr_jw_raw(w, text);
    gr_jw_put_string(w, "path", f->path);
    gr_jw_put_string(w, "encoding", "base64");
    end_line(w);
    free(text);
    free(bytes);
    return GR_OK;
}

static void put_large(struct gr_jw *w, const struct gr_upload_file *f)
{
    begin_line(w, "lfsFile");
    gr_jw_put_string(w, "path", f->path);
    gr_jw_put_string(w, "algo", "sha256");
    gr_jw_put_string(w, "oid", f->sha256);
    gr_jw_put_u64(w, "size", f->size);
    end_line(w);
}

static enum gr_status write_body(const struct gr_upload_commit *c, struct gr_buf *out, struct gr_err *err)
{
    struct gr_jw w = {.out = out, .compact = true};
    uint64_t small = 0;
    begin_line(&w, "header");
    gr_jw_put_string(&w, "summary", c->summary);
    gr_jw_put_string(&w, "description", "");
    gr_jw_put_string(&w, "parentCommit", c->parent);
    end_line(&w);
    for (int i = 0; i < c->n_deleted; i++) {
        begin_line(&w, "deletedFile");
        gr_jw_put_string(&w, "path", c->deleted[i]);
        end_line(&w);
    }
    for (int i = 0; i < c->list->n; i++) {
        const struct gr_upload_file *f = &c->list->files[i];
        if (!f->send) {
            continue;
        }
        if (f->lfs) {
            put_large(&w, f);
            continue;
        }
        small += f->size;
        if (f->size > SMALL_MAX_BYTES || small > SMALL_MAX_BYTES) {
            return gr_fail(err, GR_ERR_INPUT,
                           "%s: the files that the Hub takes inside the commit come to more than %d MiB; let "
                           "a line of .gitattributes make %s an LFS file",
                           c->id, SMALL_MAX_BYTES >> 20, f->path);
        }
        GR_TRY(put_small(&w, c->list, f, err));
    }
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the commit", c->id) : GR_OK;
}

/* What the commit was to change is so in the repository. */
static bool holds(const struct gr_hub_repo *repo, const struct gr_upload_commit *c)
{
    for (int i = 0; i < c->list->n; i++) {
        const struct gr_upload_file *f = &c->list->files[i];
        const struct gr_hub_file *there = f->send ? gr_hub_repo_find(repo, f->path) : NULL;
        if (f->send && (there == NULL || !gr_upload_is(f, there->oid))) {
            return false;
        }
    }
    for (int i = 0; i < c->n_deleted; i++) {
        if (gr_hub_repo_find(repo, c->deleted[i]) != NULL) {
            return false;
        }
    }
    return true;
}

/* After an attempt without a good answer: `said` is what it ended with. */
static enum gr_status look_again(struct gr_hub *hub, const struct gr_upload_commit *c, const struct gr_err *said,
                                 char commit[GR_HUB_COMMIT_BYTES], struct gr_err *err)
{
    struct gr_hub_repo repo;
    struct gr_err why = {0};
    enum gr_status status = gr_hub_look(hub, c->id, NULL, true, &repo, &why);
    if (status != GR_OK) {
        return gr_fail(err, said->code,
                       "%s: whether the commit took effect is not known (%.200s); run again: what is there is not "
                       "sent again",
                       c->id, said->msg);
    }
    if (strcmp(repo.commit, c->parent) == 0) {
        *err = *said; /* nothing happened */
        status = said->code;
    } else if (holds(&repo, c)) {
        (void)snprintf(commit, GR_HUB_COMMIT_BYTES, "%s", repo.commit);
    } else {
        status = gr_fail(err, GR_ERR_BUSY,
                         "%s: somebody else committed meanwhile (head is %.12s, was %.12s); nothing of this push is "
                         "in it; run again: what was sent is not sent again",
                         c->id, repo.commit, c->parent);
    }
    gr_hub_repo_free(&repo);
    return status;
}

/* 412: the head is not the parent (any more). 409 is what other Hubs say. */
static bool keep_moved(int status) { return status == 409 || status == 412; }

enum gr_status gr_upload_commit(struct gr_hub *hub, const struct gr_upload_commit *c, char commit[GR_HUB_COMMIT_BYTES],
                                char *url, size_t url_bytes, struct gr_err *err)
{
    struct gr_buf path = {0}, body = {0};
    struct gr_http_reply reply = {0};
    struct gr_json *root = NULL;
    commit[0] = url[0] = '\0';
    gr_buf_printf(&path, "/api/models/%s/commit/main", c->id);
    enum gr_status status = write_body(c, &body, err);
    if (status == GR_OK && path.failed) {
        status = gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the commit", c->id);
    }
    if (status != GR_OK) {
        goto out;
    }
    const struct gr_upload_call call = {.method = "POST",
                                        .url = path.data,
                                        .type = "application/x-ndjson",
                                        .body = &body,
                                        .keep = keep_moved,
                                        .what = c->id};
    status = gr_upload_json(hub, &call, &reply, &root, err);
    const char *oid = gr_upload_text(root, "commitOid"), *page = gr_upload_text(root, "commitUrl");
    if (status == GR_OK && reply.status < 300 && oid != NULL && gr_hub_is_commit(oid)) {
        (void)snprintf(commit, GR_HUB_COMMIT_BYTES, "%s", oid);
        (void)snprintf(url, url_bytes, "%s", page != NULL && strlen(page) < url_bytes ? page : "");
        goto out;
    }
    if (status == GR_ERR_ACCESS || status == GR_ERR_INPUT || status == GR_ERR_NOMEM) {
        goto out; /* refused: the Hub did nothing */
    }
    if (status == GR_OK) {
        status = reply.status < 300
                     ? gr_fail(err, GR_ERR_NETWORK, "%s: the answer to the commit names none", c->id)
                     : gr_fail(err, GR_ERR_BUSY,
                               "%s: the Hub refused the commit (status %d) as another one is under way; run again",
                               c->id, reply.status);
    }
    const struct gr_err said = *err;
    status = look_again(hub, c, &said, commit, err);
out:
    gr_json_free(root);
    gr_http_reply_free(&reply);
    gr_buf_free(&path);
    gr_buf_free(&body);
    return status;
}
