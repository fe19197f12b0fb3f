/* SPDX-License-Identifier: Apache-2.0
 *
 * reply.h: a chunk or an error to the JSON text of a reply, and a status to its HTTP number: the only such table. */
#ifndef GR_SERVER_REPLY_H
#define GR_SERVER_REPLY_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "gr00t.h"

struct gr_reply_view {
    const struct gr_info *info;
    const struct gr_observation *obs;
    const struct gr_chunk *chunk;
    const char *model, *version, *layout; /* "GR00T-N1.6-3B-cpu", "n16", "gr1"; layout NULL: left out */
    bool return_normalized;
    double decode_ms; /* base64, pictures, validation */
    double
        queue_ms; /* waiting for the engine; timing_ms.queue, so that the parts add up to the total. Negative: left out */
    double total_ms;
    const struct gr_image *images; /* [obs->n_frames] or NULL: an EXIF orientation other than 1 is reported */
};

/* The 200 reply of POST /predict; also what `gr00t predict --json` prints. GR_ERR_DEVICE "non-finite action ..." when a value cannot
 * be JSON; nothing is written then. GR_ERR_NOMEM. */
enum gr_status gr_reply_chunk(const struct gr_reply_view *view, bool compact, struct gr_buf *out, struct gr_err *err);

/* {"error": {"code", "message", "field"}, "detail": ...}. detail: for 422 FastAPI's list [{"type", "loc": ["body", ...], "msg", "input": null}],
 * else the message. field "" becomes null. Valid JSON and UTF-8 whatever the strings hold. */
void gr_reply_error(int http_status, const char *code, const char *message, const char *field, struct gr_buf *out);

/* 422, 400, 503, 500 ... for a failed predict; GR_OK is 200. */
int gr_reply_http_status(enum gr_status status);

#endif
