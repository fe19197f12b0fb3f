/* SPDX-License-Identifier: Apache-2.0
 *
 * download_fetch.c: bytes of one object from the Hub or from the storage host that it sends to. In: a range; out: exactly its bytes, or a word
 * about why it must be done in another way. A cut body goes on where it stopped; signed addresses are asked for again when they are refused;
 * tries are counted only while nothing comes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hub/download_parts.h"

enum {
    PROGRESS_BYTES = 64 << 10,
    MUCH_BYTES = 1 << 20
}; /* so much between two cuts: counts from the start; not even a wait */

struct fetch {
    struct gr_dl *dl;
    struct gr_dl_transfer *t;
    struct gr_dl_part *part; /* NULL: to gr_dl_put */
    uint64_t at, end;        /* bytes [at, end) are still to come */
    uint64_t skip;           /* of this answer: known already */
    bool ranged;             /* asked for a range */
    enum gr_dl_trouble trouble;
    bool wrong; /* the answer is not about what was asked for */
};

void gr_dl_address(const struct gr_hub_repo *repo, const char *path, struct gr_buf *out)
{
    gr_buf_printf(out, "/%s/resolve/%s/", repo->id, repo->commit);
    gr_url_encode(out, path, "/");
}

/* "bytes FROM-TO/TOTAL" begins where it was asked for, and the total is the listed one. */
static bool range_fits(const struct fetch *f, const struct gr_http_reply *reply)
{
    char text[96];
    unsigned long long from = 0, to = 0, total = 0;
    if (!gr_http_reply_header(reply, "Content-Range", text, sizeof text)) {
        return false;
    }
    const int n = sscanf(text, "bytes %llu-%llu/%llu", &from, &to, &total);
    return n >= 2 && from == f->at && to < f->end && (n == 2 || total == f->t->blob->files[0]->size);
}

static bool want(void *user, const struct gr_http_reply *reply)
{
    struct fetch *f = user;
    if (reply->status == 206) {
        f->wrong = !range_fits(f, reply);
        return true;
    }
    if (reply->status == 200 && f->ranged) {
        if (f->part != NULL) {
            f->trouble = GR_DL_NO_RANGES;
        }
        f->skip =
            f->at; /* the whole file: what is there already is passed over, the hash says whether it was the same */
    }
    return reply->status == 200;
}

static enum gr_status put_in_part(struct fetch *f, const void *bytes, size_t n)
{
    struct gr_dl_part *p = f->part;
    memcpy(p->bytes + p->filled, bytes, n);
    (void)pthread_mutex_lock(&f->dl->lock);
    p->filled += n;
    if (p == &f->t->parts[f->t->head]) {
        (void)pthread_cond_signal(&f->t->data);
    }
    (void)pthread_mutex_unlock(&f->dl->lock);
    return GR_OK;
}

static enum gr_status sink(void *user, const void *bytes, size_t n, struct gr_err *err)
{
    struct fetch *f = user;
    const char *p = bytes;
    if (f->dl->stop || f->trouble != GR_DL_NONE || f->t->trouble != GR_DL_NONE) {
        return gr_fail(err, GR_ERR_BUSY, "given up");
    }
    const size_t skip = f->skip < n ? (size_t)f->skip : n;
    f->skip -= skip;
    p += skip;
    n -= skip;
    if (f->wrong || n > f->end - f->at) {
        f->wrong = true;
        return gr_fail(err, GR_ERR_NETWORK, "%s: the server sends other bytes than it was asked for",
                       f->t->blob->files[0]->path);
    }
    if (n > 0) {
        GR_TRY(f->part != NULL ? put_in_part(f, p, n) : gr_dl_put(f->dl, f->t, p, n, err));
        f->at += n;
    }
    return GR_OK;
}

/* ---- addresses ---- */

static char *known_address(struct fetch *f)
{
    (void)pthread_mutex_lock(&f->dl->lock);
    char *url = f->t->url != NULL ? strdup(f->t->url) : NULL;
    (void)pthread_mutex_unlock(&f->dl->lock);
    return url;
}

/* `url` NULL: forget `old` if it is still the one that is known. */
static void keep_address(struct fetch *f, const char *url, const char *old)
{
    struct gr_dl_transfer *t = f->t;
    (void)pthread_mutex_lock(&f->dl->lock);
    if (url != NULL && t->url == NULL) {
        t->url = strdup(url); /* without memory the Hub is asked again */
    } else if (url == NULL && old != NULL && t->url != NULL && strcmp(t->url, old) == 0) {
        free(t->url);
        t->url = NULL;
    }
    (void)pthread_mutex_unlock(&f->dl->lock);
}

static bool is_storage(const struct fetch *f, const struct gr_http_reply *reply)
{
    const char *endpoint = f->dl->cfg->endpoint;
    const size_t n = strlen(endpoint);
    return reply->url != NULL && (strncmp(reply->url, endpoint, n) != 0 || strchr("/?", reply->url[n]) == NULL);
}

static enum gr_status send_once(struct fetch *f, bool *signed_before, struct gr_http_reply *reply, struct gr_err *err)
{
    static const char *const headers[] = {"Accept-Encoding: identity", NULL};
    struct gr_buf hub_url = {0};
    const uint64_t size = f->t->blob->files[0]->size;
    char *url = known_address(f);
    gr_dl_address(f->dl->repo, f->t->blob->files[0]->path, &hub_url);
    f->ranged = f->at > 0 || f->end < size;
    f->skip = 0;
    f->wrong = false;
    *signed_before = url != NULL;
    const struct gr_http_request request = {.method = "GET",
                                            .url = url != NULL ? url : hub_url.data,
                                            .headers = headers,
                                            .follow = GR_HTTP_FOLLOW_ALL,
                                            .range_from = f->ranged ? f->at : 0,
                                            .range_to = f->ranged ? f->end - 1 : 0,
                                            .want = want,
                                            .sink = sink,
                                            .user = f};
    enum gr_status status = hub_url.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a request")
                                           : gr_hub_send(f->dl->hub, &request, reply, err);
    if (url != NULL && status == GR_OK && reply->status >= 400 && reply->status < 429) {
        keep_address(f, NULL, url); /* expired */
    } else if (url == NULL && status == GR_OK && reply->status < 300 && is_storage(f, reply)) {
        keep_address(f, reply->url, NULL);
    }
    gr_buf_free(&hub_url);
    free(url);
    return status;
}

/* ---- tries ---- */

static void say_why(const struct fetch *f, enum gr_status status, const struct gr_http_reply *reply,
                    const struct gr_err *err, char *out, size_t n)
{
    const char *path = f->t->blob->files[0]->path;
    if (status != GR_OK) {
        (void)snprintf(out, n, "%.200s: %.290s", path, err->msg);
    } else if (reply->status >= 300) {
        (void)snprintf(out, n, "%.200s: %s answers %d", path, is_storage(f, reply) ? "its storage host" : "the Hub",
                       reply->status);
    } else {
        (void)snprintf(out, n, "%.200s: the answer ends %llu bytes too early", path,
                       (unsigned long long)(f->end - f->at));
    }
}

/* What came cannot be mended by another try. */
static enum gr_status give_up(const struct fetch *f, enum gr_status status, const struct gr_http_reply *reply,
                              const char *why, struct gr_err *err)
{
    if (status != GR_OK) {
        return status;
    }
    if (reply->status >= 300 && !is_storage(f, reply)) {
        return gr_hub_refused(f->dl->hub, f->dl->repo->id, reply, err);
    }
    return gr_fail(err, GR_ERR_NETWORK, "%s (%d tries)", why, f->dl->cfg->tries);
}

/* After an exchange that left bytes missing: GR_OK for another try, after the wait it takes. */
static enum gr_status after_try(struct fetch *f, enum gr_status status, const struct gr_http_reply *reply,
                                bool signed_before, uint64_t came, int *tried, struct gr_err *err)
{
    char why[GR_ERR_MSG_BYTES];
    const bool answered = status == GR_OK && reply->status >= 400, cut = status == GR_OK && reply->status < 300;
    const bool expired = answered && signed_before && reply->status < 429;
    const bool mends =
        f->wrong || cut || expired || gr_hub_may_mend(status, reply) || (answered && is_storage(f, reply));
    if (f->dl->stop) {
        return gr_fail(err, GR_ERR_BUSY, "given up");
    }
    say_why(f, status, reply, err, why, sizeof why);
    *tried = came >= PROGRESS_BYTES ? 1 : *tried + 1;
    if (!mends || *tried >= f->dl->cfg->tries) {
        return give_up(f, status, reply, why, err);
    }
    return expired || came >= MUCH_BYTES ? GR_OK
                                         : gr_hub_pause_or_stop(f->dl->hub, *tried, reply, why, &f->dl->stop, err);
}

/* Fetches [at, end), unless there is trouble. */
static enum gr_status fetch(struct fetch *f, struct gr_err *err)
{
    int tried = 0;
    while (f->at < f->end && f->trouble == GR_DL_NONE && f->t->trouble == GR_DL_NONE) {
        struct gr_http_reply reply = {0};
        bool signed_before = false;
        const uint64_t before = f->at;
        enum gr_status status = send_once(f, &signed_before, &reply, err);
        if (status == GR_OK && reply.status == 416) {
            f->trouble = GR_DL_SPOILED; /* shorter than listed: not what was listed */
        }
        const bool over = f->at >= f->end || f->trouble != GR_DL_NONE || f->t->trouble != GR_DL_NONE;
        status = over ? GR_OK : after_try(f, status, &reply, signed_before, f->at - before, &tried, err);
        gr_http_reply_free(&reply);
        GR_TRY(status);
    }
    return GR_OK;
}

enum gr_status gr_dl_fetch_rest(struct gr_dl *dl, struct gr_dl_transfer *t, enum gr_dl_trouble *trouble,
                                struct gr_err *err)
{
    struct fetch f = {.dl = dl, .t = t, .at = t->written, .end = t->blob->files[0]->size};
    enum gr_status status = fetch(&f, err);
    *trouble = f.trouble;
    return status;
}

enum gr_status gr_dl_fetch_part(struct gr_dl *dl, struct gr_dl_transfer *t, struct gr_dl_part *part,
                                enum gr_dl_trouble *trouble, struct gr_err *err)
{
    struct fetch f = {.dl = dl, .t = t, .part = part, .at = part->from, .end = part->from + part->n};
    enum gr_status status = fetch(&f, err);
    *trouble = f.trouble;
    return status;
}
