/* SPDX-License-Identifier: Apache-2.0
 *
 * hub_errors.c: what a refusal of the Hub means and what to do about it. In: the reply; out: a status and one line. The Hub says "not found"
 * also for what one may not see, so both readings are named; the token is never part of a text, only whether there is one. */
#include <stdio.h>
#include <string.h>

#include "hub/hub.h"

struct refusal {
    const struct gr_hub_config *cfg;
    const char *what;
    int status;
    char code[64], said[160]; /* the Hub's own code and words; "" when there are none */
};

static bool is(const struct refusal *r, const char *code) { return strcmp(r->code, code) == 0; }

static const char *with_token(const struct refusal *r)
{
    return r->cfg->token != NULL ? "the token in use may not see it" : "no token was sent";
}

static enum gr_status gated(const struct refusal *r, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_ACCESS, "%s is gated: accept its terms at %s/%s in a browser, then %s", r->what,
                   r->cfg->endpoint, r->what,
                   r->cfg->token != NULL
                       ? "try again (the account of the token in use has no access yet)"
                       : "`gr00t login` with a token of that account, or set HF_TOKEN (no token was sent)");
}

static enum gr_status no_access(const struct refusal *r, struct gr_err *err)
{
    if (is(r, "GatedRepo")) {
        return gated(r, err);
    }
    if (r->status == 401 && r->cfg->token != NULL && (r->code[0] == '\0' || strstr(r->said, "credentials") != NULL)) {
        return gr_fail(err, GR_ERR_ACCESS,
                       "%s: the Hub does not accept the token (HF_TOKEN, or the token file): make a new one at "
                       "%s/settings/tokens",
                       r->what, r->cfg->endpoint);
    }
    if (r->status == 401) {
        return gr_fail(
            err, GR_ERR_ACCESS,
            "%s: no such repository, or it is private and %s (401): check the name; `gr00t login`, or set HF_TOKEN",
            r->what, with_token(r));
    }
    return gr_fail(err, GR_ERR_ACCESS, "%s: the Hub forbids it (403%s%s): %s", r->what, r->said[0] != '\0' ? ", " : "",
                   r->said,
                   r->cfg->token != NULL ? "the token needs another role or its owner other rights"
                                         : "no token was sent: `gr00t login`, or set HF_TOKEN");
}

static enum gr_status not_found(const struct refusal *r, struct gr_err *err)
{
    if (is(r, "RevisionNotFound")) {
        return gr_fail(err, GR_ERR_INPUT,
                       "%s has no such revision (%s): no other one is taken in its place; those it has are at "
                       "%s/%s/commits/main, without @REVISION it is main",
                       r->what, r->said[0] != '\0' ? r->said : "404", r->cfg->endpoint, r->what);
    }
    if (is(r, "EntryNotFound")) {
        return gr_fail(err, GR_ERR_INPUT, "%s has no such file at this revision (404)", r->what);
    }
    return gr_fail(err, GR_ERR_INPUT,
                   "%s: no such repository, or it is private and %s (404): check the name and HF_TOKEN", r->what,
                   with_token(r));
}

static enum gr_status other(const struct refusal *r, const struct gr_http_reply *reply, struct gr_err *err)
{
    const char *sep = r->said[0] != '\0' ? ": " : "";
    const double wait_s = gr_http_retry_after(reply);
    if (r->status == 429) {
        char wait[48] = "a while";
        if (wait_s > 0.0) {
            (void)snprintf(wait, sizeof wait, "%.0f s", wait_s);
        }
        return gr_fail(err, GR_ERR_NETWORK, "%s: too many requests for the Hub (429): try again in %s%s", r->what, wait,
                       r->cfg->token == NULL ? "; with HF_TOKEN set the limit is higher" : "");
    }
    if (r->status >= 500) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub has a fault of its own (%d%s%s): try again later", r->what,
                       r->status, sep, r->said);
    }
    if (r->status >= 300 && r->status < 400) {
        return gr_fail(err, GR_ERR_NETWORK, "%s: the Hub sends elsewhere (%d) and this is not followed there", r->what,
                       r->status);
    }
    if (r->status == 409) {
        return gr_fail(err, GR_ERR_INPUT, "%s exists already (409%s%s)", r->what, sep, r->said);
    }
    if (r->status == 413) {
        return gr_fail(err, GR_ERR_INPUT, "%s: too large for the Hub (413%s%s)", r->what, sep, r->said);
    }
    if (r->status == 400 || r->status == 412 || r->status == 422) {
        return gr_fail(err, GR_ERR_INPUT, "%s: the Hub refuses what was sent (%d%s%s)", r->what, r->status, sep,
                       r->said);
    }
    return gr_fail(err, GR_ERR_NETWORK, "%s: unexpected answer %d of the Hub%s%s", r->what, r->status, sep, r->said);
}

enum gr_status gr_hub_refused(const struct gr_hub *hub, const char *what, const struct gr_http_reply *reply,
                              struct gr_err *err)
{
    struct refusal r = {.cfg = gr_hub_settings(hub), .what = what, .status = reply->status};
    (void)gr_http_reply_header(reply, "X-Error-Code", r.code, sizeof r.code);
    (void)gr_http_reply_header(reply, "X-Error-Message", r.said, sizeof r.said);
    /* An answer that repeats the secret is not repeated; looked for in the whole head, as `said` may hold a part of it. */
    if (r.cfg->token != NULL && reply->headers != NULL && strstr(reply->headers, r.cfg->token) != NULL) {
        r.said[0] = '\0';
    }
    switch (reply->status) {
    case 401:
    case 403:
        return no_access(&r, err);
    case 404:
        return not_found(&r, err);
    default:
        return other(&r, reply, err);
    }
}
