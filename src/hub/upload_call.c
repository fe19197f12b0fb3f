/* SPDX-License-Identifier: Apache-2.0
 *
 * upload_call.c: JSON to the Hub and back. A proxy's or a captive portal's page instead of an answer must not be taken for one. */
#include <stdio.h>
#include <string.h>

#include "hub/upload_call.h"

enum { ANSWER_MAX_BYTES = 64 << 20 }; /* addresses of the parts of 256 large files */

/* Refusals are worded here, where the repository is known: not every address names it. */
static bool keep_all(int status)
{
    (void)status;
    return true;
}

enum gr_status gr_upload_json(struct gr_hub *hub, const struct gr_upload_call *call, struct gr_http_reply *reply,
                              struct gr_json **root, struct gr_err *err)
{
    char type[96], accept[96];
    const char *kind = call->type != NULL ? call->type : "application/json";
    (void)snprintf(type, sizeof type, "Content-Type: %s", kind);
    (void)snprintf(accept, sizeof accept, "Accept: %s",
                   strcmp(kind, "application/x-ndjson") == 0 ? "application/json" : kind);
    const char *const headers[] = {accept, call->body != NULL ? type : NULL, NULL};
    const struct gr_http_request request = {.method = call->method,
                                            .url = call->url,
                                            .headers = headers,
                                            .follow = GR_HTTP_FOLLOW_ORIGIN,
                                            .stall_s = GR_UPLOAD_STALL_S,
                                            .body = call->body != NULL ? call->body->data : NULL,
                                            .body_bytes = call->body != NULL ? call->body->len : 0,
                                            .max_body = ANSWER_MAX_BYTES};
    *root = NULL;
    if (call->body != NULL && (call->body->failed || call->body->data == NULL)) {
        *reply = (struct gr_http_reply){0};
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the request", call->what);
    }
    GR_TRY(gr_hub_call(hub, &request, keep_all, reply, err));
    if (reply->status >= 300 && (call->keep == NULL || !call->keep(reply->status))) {
        return gr_hub_refused(hub, call->what, reply, err);
    }
    if (call->blind) {
        return GR_OK;
    }
    struct gr_err why = {0};
    const enum gr_status status = gr_hub_json(hub, call->what, reply, root, &why);
    if (status != GR_OK && reply->status < 300) {
        *err = why;
        return status;
    }
    return GR_OK;
}

const char *gr_upload_text(const struct gr_json *object, const char *key)
{
    const struct gr_json *v = gr_json_get(object, key);
    return gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : NULL;
}
