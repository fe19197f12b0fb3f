/* SPDX-License-Identifier: Apache-2.0
 *
 * download_text.c: one small file of a repository in memory, for those who want to read it before they fetch the rest (a manifest, a card). */
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "hub/download_parts.h"

static enum gr_status hash_of(const struct gr_hub_file *f, const struct gr_buf *text, char hex[GR_DIGEST_HEX_BYTES],
                              struct gr_err *err)
{
    struct gr_digest *digest = NULL;
    char head[48];
    GR_TRY(gr_digest_new(f->lfs ? GR_SHA256 : GR_SHA1, &digest, err));
    if (!f->lfs) {
        const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)f->size);
        gr_digest_add(digest, head, (size_t)n + 1);
    }
    gr_digest_add(digest, text->data != NULL ? text->data : "", text->len);
    return gr_digest_end(digest, hex, err);
}

static bool is_right(const struct gr_hub_file *f, const struct gr_buf *text)
{
    char hex[GR_DIGEST_HEX_BYTES];
    struct gr_err ignored;
    return text->len == f->size && hash_of(f, text, hex, &ignored) == GR_OK && strcmp(hex, f->oid) == 0;
}

static bool from_cache(const struct gr_hub_config *cfg, const struct gr_hub_repo *repo, const struct gr_hub_file *f,
                       struct gr_buf *out)
{
    char path[GR_PATH_BYTES], *text = NULL;
    size_t n = 0;
    struct gr_err ignored;
    if (cfg->cache_root == NULL || !gr_cache_has(cfg->cache_root, repo->id, f) ||
        gr_cache_blob(cfg->cache_root, repo->id, f->oid, path, &ignored) != GR_OK ||
        gr_fs_read(path, (size_t)f->size, &text, &n, &ignored) != GR_OK) {
        return false;
    }
    gr_buf_put(out, text, n);
    free(text);
    if (!out->failed && is_right(f, out)) {
        return true;
    }
    gr_buf_free(out);
    return false;
}

static enum gr_status from_hub(struct gr_hub *hub, const struct gr_hub_repo *repo, const struct gr_hub_file *f,
                               struct gr_buf *out, struct gr_err *err)
{
    static const char *const headers[] = {"Accept-Encoding: identity", NULL};
    struct gr_buf url = {0};
    enum gr_status status = GR_ERR_FORMAT;
    gr_dl_address(repo, f->path, &url);
    if (url.failed) {
        gr_buf_free(&url);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a request");
    }
    const struct gr_http_request request = {.method = "GET",
                                            .url = url.data,
                                            .headers = headers,
                                            .follow = GR_HTTP_FOLLOW_ALL,
                                            .max_body = (size_t)f->size + 1};
    for (int i = 0; i < 2 && status == GR_ERR_FORMAT; i++) {
        struct gr_http_reply reply = {0};
        status = gr_hub_call(hub, &request, NULL, &reply, err);
        if (status == GR_OK && is_right(f, &reply.body)) {
            *out = reply.body;
            reply.body = (struct gr_buf){0};
        } else if (status == GR_OK) {
            status =
                gr_fail(err, GR_ERR_FORMAT, "%s: %s does not hash to the id that the Hub lists", repo->id, f->path);
        }
        gr_http_reply_free(&reply);
    }
    gr_buf_free(&url);
    return status;
}

enum gr_status gr_hub_fetch_text(struct gr_hub *hub, const struct gr_hub_repo *repo, const char *path, size_t max_bytes,
                                 struct gr_buf *out, struct gr_err *err)
{
    const struct gr_hub_file *f = gr_hub_repo_find(repo, path);
    memset(out, 0, sizeof *out);
    if (f == NULL) {
        return gr_fail(err, GR_ERR_INPUT, "%s @ %s has no %s", repo->id, repo->commit, path);
    }
    if (f->size > max_bytes) {
        return gr_fail(err, GR_ERR_INPUT, "%s: %s has %llu bytes, the limit here is %zu", repo->id, path,
                       (unsigned long long)f->size, max_bytes);
    }
    return from_cache(gr_hub_settings(hub), repo, f, out) ? GR_OK : from_hub(hub, repo, f, out, err);
}
