/* SPDX-License-Identifier: Apache-2.0
 *
 * request_parts.h: what the files request*.c share: the document of a body, and how a refusal is worded.
 * The parser takes time for every character of a long string and copies it three times, and a picture is nothing but one long string.
 * So long plain strings are cut out first: the parser sees a short stand-in, and gr_body_string gives the bytes of the body back. */
#ifndef GR_SERVER_REQUEST_PARTS_H
#define GR_SERVER_REQUEST_PARTS_H

#include "base/json.h"
#include "server/request.h"

/* Fills *why and *err and returns `status`. field: path as in JSON, cleaned here; "" for the body as a whole. */
enum gr_status gr_refuse(struct gr_request_error *why, struct gr_err *err, enum gr_status status, const char *code,
                         const char *field, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The refusal of a value of the wrong JSON type. */
enum gr_status gr_refuse_type(struct gr_request_error *why, struct gr_err *err, const char *field,
                              const struct gr_json *v, const char *expected);
/* "base.name" into field, name cleaned and cut; returns field. base "" leaves out the dot. */
const char *gr_field_join(char field[GR_FIELD_BYTES], const char *base, const char *name);

struct gr_body_span {
    size_t at, len; /* characters of a string without its quotes */
};

struct gr_body {
    const char *text;
    size_t n;
    struct gr_json *root; /* an object */
    char *reduced;        /* the text with stand-ins; NULL when nothing was worth it */
    struct gr_body_span *spans;
    size_t n_spans;
};

/* Parses the body. Fails with 422, or with 400 when the fault is a number of `state` or `noise` that is not finite. `max_values`: more
 * values than a sensible request has are refused before they take memory. Free with gr_body_free, also after a failure. */
enum gr_status gr_body_parse(const char *text, size_t n, size_t max_values, struct gr_body *out,
                             struct gr_request_error *why, struct gr_err *err);
void gr_body_free(struct gr_body *body);
/* Characters of a string value; not NUL-terminated. v is a GR_JSON_STRING of this body. */
const char *gr_body_string(const struct gr_body *body, const struct gr_json *v, size_t *n);

/* "images": checks names and counts, then decodes. images and frames: [n_cameras * frames_per_camera], zeroed, time-major. */
enum gr_status gr_request_images(const struct gr_body *body, const struct gr_json *v, const struct gr_info *info,
                                 struct gr_image *images, struct gr_frame *frames, double *pictures_ms,
                                 struct gr_request_error *why, struct gr_err *err);
/* "noise": out [horizon, max_action_dim]. */
enum gr_status gr_request_noise(const struct gr_json *v, const struct gr_info *info, float *out,
                                struct gr_request_error *why, struct gr_err *err);

#endif
