/* SPDX-License-Identifier: Apache-2.0
 *
 * hub.h: a model Hub by its HTTP interface (docs/PACKAGES.md): where it is, who asks, what a repository holds at a revision, and what its refusals mean.
 * One gr_hub may be used by several threads; each call takes an HTTP handle of its own from it. */
#ifndef GR_HUB_HUB_H
#define GR_HUB_HUB_H

#include "base/json.h"
#include "net/exchange.h"

enum { GR_HUB_ID_BYTES = 200, GR_HUB_REVISION_BYTES = 200, GR_HUB_COMMIT_BYTES = 41, GR_HUB_OID_BYTES = 65 };

struct gr_hub_config {
    const char *endpoint;   /* NULL: https://huggingface.co */
    const char *token;      /* NULL: none */
    const char *cache_root; /* folder of the cache (models--ORG--NAME below it) */
    bool offline;           /* every request fails with GR_ERR_NETWORK before a socket is opened */
    const char *ca_file;    /* NULL: the system's */
    double time_limit_s;    /* silence on a connection; 0: 10 */
    double slow_s;          /* less than 1 KiB/s for so long is as bad as silence; 0: 60 */
    int tries; /* of an exchange that another try may mend; 0: 6; 2 while nothing at all has answered to a connection */
    const _Atomic bool *cancel;                 /* NULL: none */
    void (*note)(void *user, const char *line); /* "429, waiting 8 s"; NULL: none; any thread */
    void *note_user;
};
struct gr_hub;
/* Copies what it is given. GR_ERR_USAGE (endpoint), GR_ERR_NOMEM, GR_ERR_DEVICE. */
enum gr_status gr_hub_open(const struct gr_hub_config *cfg, struct gr_hub **out, struct gr_err *err);
void gr_hub_close(struct gr_hub *hub); /* NULL is allowed */
const struct gr_hub_config *gr_hub_settings(const struct gr_hub *hub);

/* "ORG/NAME" of letters, digits, "-._", no part starting with a dot; a commit or a branch or tag name without "..". */
bool gr_hub_is_id(const char *text);
bool gr_hub_is_commit(const char *text);
bool gr_hub_is_revision(const char *text);
/* "ORG/NAME" or "ORG/NAME@REV"; revision "" when none is named. GR_ERR_USAGE. */
enum gr_status gr_hub_parse_id(const char *text, char id[GR_HUB_ID_BYTES], char revision[GR_HUB_REVISION_BYTES],
                               struct gr_err *err);
/* Of a path inside a repository: UTF-8, relative, no "..", no empty part, no control characters. */
bool gr_hub_is_path(const char *path);

/* One exchange, tried again with back-off (1 s doubling to 8 s, Retry-After wins, at most 60 s) on 408, 429, 5xx and broken connections.
 * request->url may start with "/": below the endpoint, with the token; an absolute one goes without. A status >= 400 that remains is turned
 * into an error with its remedy by gr_hub_refused unless `keep` says that the caller wants it. */
enum gr_status gr_hub_call(struct gr_hub *hub, const struct gr_http_request *request, bool (*keep)(int status),
                           struct gr_http_reply *reply, struct gr_err *err);
/* GR_ERR_ACCESS: 401, 403, gated (names the page where the terms are accepted, and whether a token was sent: never the token).
 * GR_ERR_INPUT: 404 (not found, or private and no access), 409, 413, 422. GR_ERR_NETWORK: 429, 5xx and the rest. `what`: "nvidia/GR00T-N1.6-3B". */
enum gr_status gr_hub_refused(const struct gr_hub *hub, const char *what, const struct gr_http_reply *reply,
                              struct gr_err *err);
/* For callers that try again in their own way: one exchange, as gr_hub_call sends it, any status; whether another try may mend what came of it;
 * the wait before that try (tried: how many have failed, 1 ..). GR_ERR_BUSY: cancelled. */
enum gr_status gr_hub_send(struct gr_hub *hub, const struct gr_http_request *request, struct gr_http_reply *reply,
                           struct gr_err *err);
bool gr_hub_may_mend(enum gr_status sent, const struct gr_http_reply *reply);
enum gr_status gr_hub_pause(const struct gr_hub *hub, int tried, const struct gr_http_reply *reply, const char *why,
                            struct gr_err *err);
/* The same; also ends, with GR_ERR_BUSY, when *stop becomes true. */
enum gr_status gr_hub_pause_or_stop(const struct gr_hub *hub, int tried, const struct gr_http_reply *reply,
                                    const char *why, const _Atomic bool *stop, struct gr_err *err);
bool gr_hub_cancelled(const struct gr_hub *hub);
/* The body of a reply as JSON; GR_ERR_NETWORK says when it is a page for people instead (a proxy's or a login's), or when the token is in it, so that no
 * message made of it shows the secret. Free with gr_json_free. */
enum gr_status gr_hub_json(const struct gr_hub *hub, const char *what, const struct gr_http_reply *reply,
                           struct gr_json **out, struct gr_err *err);
/* Address behind rel="next" of a Link header, as gr_hub_call takes it, into out[n]; "" on the last page. GR_ERR_NETWORK: one that is not the Hub's
 * own, or too long: a listing without its end is none. */
enum gr_status gr_hub_next_page(const struct gr_hub *hub, const struct gr_http_reply *reply, char *out, size_t n,
                                struct gr_err *err);
/* GET of a JSON document at `url`, as gr_hub_call takes it, and the address of its next page (NULL: not asked for; it may be where url stands). Free *out
 * with gr_json_free. */
enum gr_status gr_hub_get_json(struct gr_hub *hub, const char *url, const char *what, char *next, size_t next_bytes,
                               struct gr_json **out, struct gr_err *err);
/* An address of the Hub itself without its origin, so that the call carries the token; others as they are. A mirror may pass on the answers of the
 * Hub behind it; then it is the mirror that is asked, as by the Python client. */
const char *gr_hub_below(const struct gr_hub *hub, const char *url);

struct gr_hub_file {
    char *path;
    uint64_t size;
    /* Of its content: SHA-256 when lfs, else the git blob id (SHA-1 of "blob <size>\0" + content). */
    char oid[GR_HUB_OID_BYTES];
    bool lfs;
    /* Git's id of the entry: that of the pointer file when lfs; for trees/<commit>.json. */
    char blob_id[GR_HUB_COMMIT_BYTES];
};
struct gr_hub_repo {
    char id[GR_HUB_ID_BYTES];         /* as the Hub spells it now (renames) */
    char commit[GR_HUB_COMMIT_BYTES]; /* of the revision */
    bool is_private;
    char gated[16]; /* "", "auto", "manual" */
    char **tags;
    int n_tags;
    struct gr_hub_file *files; /* by path; with gr_hub_look(.., true) */
    int n_files;
};
/* revision NULL: main. `files`: also the listing at that commit, all pages. Names that gr_hub_is_path refuses fail the call (GR_ERR_INPUT).
 * Free with gr_hub_repo_free. */
enum gr_status gr_hub_look(struct gr_hub *hub, const char *id, const char *revision, bool files,
                           struct gr_hub_repo *out, struct gr_err *err);
void gr_hub_repo_free(struct gr_hub_repo *repo);
/* Brings the files in path order, in which gr_hub_repo_find wants them. */
void gr_hub_repo_sort(struct gr_hub_repo *repo);
/* NULL: no such file. */
const struct gr_hub_file *gr_hub_repo_find(const struct gr_hub_repo *repo, const char *path);

/* Shell patterns on the whole path as the Hub's clients read them: case counts, "*" also matches "/", a pattern that ends in "/" means
 * everything below; ignore wins. n_allow 0: everything. */
struct gr_hub_patterns {
    const char *const *allow, *const *ignore;
    int n_allow, n_ignore;
};
bool gr_hub_matches(const struct gr_hub_patterns *p, const char *path);

#endif
