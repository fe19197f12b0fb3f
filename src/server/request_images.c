/* SPDX-License-Identifier: Apache-2.0
 *
 * request_images.c: "images" of a request to RGB frames. A value is base64 text of a PNG or JPEG file and nothing else: what looks like a path
 * or an address is refused, never opened. The type comes from the bytes; a data URL's prefix is skipped without being believed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/clock.h"
#include "server/request_parts.h"

enum { LIST_BYTES = 320, URL_HEAD_BYTES = 256, PATH_BYTES = 1024 };

/* One frame: where it stands in the request and where it goes. */
struct slot {
    const char *field;
    struct gr_image *image;
    struct gr_frame *frame;
};

static const char *camera_list(const struct gr_info *info, char list[LIST_BYTES])
{
    list[0] = '\0';
    for (int c = 0; c < info->n_cameras; c++) {
        size_t used = strlen(list);
        snprintf(list + used, LIST_BYTES - used, "%s%s", c > 0 ? ", " : "", info->cameras[c]);
    }
    return list;
}

static bool known_camera(const struct gr_info *info, const char *name)
{
    for (int c = 0; c < info->n_cameras; c++) {
        if (strcmp(info->cameras[c], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Frame t of a camera. A plain string is a list of one. */
static const struct gr_json *frame_at(const struct gr_json *v, size_t t)
{
    return gr_json_kind(v) == GR_JSON_ARRAY ? gr_json_at(v, t) : v;
}

static void frame_field(char field[GR_FIELD_BYTES], const struct gr_json *v, const char *camera, int t)
{
    gr_field_join(field, "images", camera);
    if (gr_json_kind(v) == GR_JSON_ARRAY) {
        size_t used = strlen(field);
        snprintf(field + used, GR_FIELD_BYTES - used, "[%d]", t);
    }
}

static enum gr_status check_camera(const struct gr_json *v, const char *camera, int frames,
                                   struct gr_request_error *why, struct gr_err *err)
{
    char field[GR_FIELD_BYTES];
    gr_field_join(field, "images", camera);
    bool list = gr_json_kind(v) == GR_JSON_ARRAY;
    if (!list && gr_json_kind(v) != GR_JSON_STRING) {
        return gr_refuse_type(why, err, field, v, "base64 text of a PNG or JPEG file, or a list of them");
    }
    size_t n = list ? gr_json_len(v) : 1;
    for (size_t t = 0; t < n; t++) {
        const struct gr_json *f = frame_at(v, t);
        if (gr_json_kind(f) != GR_JSON_STRING) {
            frame_field(field, v, camera, (int)t);
            return gr_refuse_type(why, err, field, f, "base64 text of a PNG or JPEG file");
        }
    }
    if (n != (size_t)frames) {
        return gr_refuse(why, err, GR_ERR_INPUT, "wrong_frame_count", field, "%s has %zu frame%s, expected %d%s", field,
                         n, n == 1 ? "" : "s", frames, frames > 1 ? ", oldest first" : "");
    }
    return GR_OK;
}

/* Names and counts, before any picture costs time. */
static enum gr_status check_all(const struct gr_json *v, const struct gr_info *info, struct gr_request_error *why,
                                struct gr_err *err)
{
    char list[LIST_BYTES], field[GR_FIELD_BYTES];
    if (gr_json_kind(v) != GR_JSON_OBJECT) {
        char expected[LIST_BYTES + 64];
        snprintf(expected, sizeof expected, "an object of cameras: %s", camera_list(info, list));
        return gr_refuse_type(why, err, "images", v, expected);
    }
    for (void *it = gr_json_first(v); it != NULL; it = gr_json_next(v, it)) {
        const char *name = gr_json_key(it);
        if (!known_camera(info, name)) {
            return gr_refuse(why, err, GR_ERR_INPUT, "unknown_camera", gr_field_join(field, "images", name),
                             "unknown camera \"%.80s\", expected: %s", name, camera_list(info, list));
        }
    }
    for (int c = 0; c < info->n_cameras; c++) {
        const struct gr_json *camera = gr_json_get(v, info->cameras[c]);
        if (camera == NULL) {
            return gr_refuse(why, err, GR_ERR_INPUT, "missing_camera", gr_field_join(field, "images", info->cameras[c]),
                             "camera %s is missing, expected: %s", info->cameras[c], camera_list(info, list));
        }
        GR_TRY(check_camera(camera, info->cameras[c], info->frames_per_camera, why, err));
    }
    return GR_OK;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* Length of a data URL's head including the comma, 0 when the text is none, SIZE_MAX when its payload is not base64. */
static size_t url_head(const char *text, size_t n)
{
    static const char scheme[] = "data:", end[] = ";base64";
    size_t at = 0;
    while (at < n && is_blank(text[at])) {
        at++;
    }
    if (n - at < sizeof scheme - 1 || strncasecmp(text + at, scheme, sizeof scheme - 1) != 0) {
        return 0;
    }
    const char *comma = memchr(text + at, ',', n - at < URL_HEAD_BYTES ? n - at : URL_HEAD_BYTES);
    size_t len = sizeof end - 1;
    if (comma == NULL || (size_t)(comma - text) < at + len || strncasecmp(comma - len, end, len) != 0) {
        return SIZE_MAX;
    }
    return (size_t)(comma - text) + 1;
}

static bool looks_like_path(const char *text, size_t n)
{
    return n > 0 && n < PATH_BYTES &&
           (text[0] == '/' || text[0] == '~' || text[0] == '.' || memchr(text, '.', n) != NULL ||
            (n > 3 && memchr(text, ':', n) != NULL));
}

static bool png_or_jpeg(const unsigned char *p, size_t n)
{
    return (n >= 8 && memcmp(p, "\x89PNG\r\n\x1A\n", 8) == 0) || (n >= 3 && memcmp(p, "\xFF\xD8\xFF", 3) == 0);
}

static enum gr_status decode_base64(const struct slot *s, const char *text, size_t n, unsigned char *out, size_t *n_out,
                                    struct gr_request_error *why, struct gr_err *err)
{
    size_t head = url_head(text, n);
    if (head == SIZE_MAX) {
        return gr_refuse(why, err, GR_ERR_INPUT, "bad_base64", s->field,
                         "%s is not base64 PNG/JPEG: a data URL without \";base64,\"", s->field);
    }
    struct gr_err inner;
    if (gr_base64_decode(text + head, n - head, out, n_out, &inner) == GR_OK) {
        return GR_OK;
    }
    char behind[64] = "";
    if (head > 0) {
        snprintf(behind, sizeof behind, " (counted behind the %zu bytes of prefix)", head);
    }
    return gr_refuse(why, err, GR_ERR_INPUT, "bad_base64", s->field, "%s is not base64 PNG/JPEG: %s%s%s", s->field,
                     inner.msg, behind, looks_like_path(text, n) ? "; a path or an address is never opened" : "");
}

static enum gr_status decode_frame(const struct slot *s, const char *text, size_t n, double *pictures_ms,
                                   struct gr_request_error *why, struct gr_err *err)
{
    size_t n_bytes = 0;
    unsigned char *bytes = malloc(gr_base64_max(n));
    if (bytes == NULL) {
        return gr_refuse(why, err, GR_ERR_NOMEM, "no_memory", s->field, "no memory for a picture of %zu characters", n);
    }
    enum gr_status status = decode_base64(s, text, n, bytes, &n_bytes, why, err);
    if (status == GR_OK) {
        struct gr_err inner = {.code = GR_OK};
        double start = gr_clock_ms();
        status = gr_image_decode(bytes, n_bytes, s->image, &inner);
        *pictures_ms += gr_clock_ms() - start;
        if (status == GR_ERR_NOMEM) {
            (void)gr_refuse(why, err, status, "no_memory", s->field, "%s: %s", s->field, inner.msg);
        } else if (status != GR_OK) {
            bool picture = png_or_jpeg(bytes, n_bytes);
            status = gr_refuse(why, err, GR_ERR_INPUT, picture ? "bad_image" : "not_an_image", s->field, "%s%s: %s",
                               s->field, picture ? "" : " is not base64 PNG/JPEG", inner.msg);
        }
    }
    free(bytes);
    *s->frame = (struct gr_frame){s->image->rgb, s->image->height, s->image->width};
    return status;
}

enum gr_status gr_request_images(const struct gr_body *body, const struct gr_json *v, const struct gr_info *info,
                                 struct gr_image *images, struct gr_frame *frames, double *pictures_ms,
                                 struct gr_request_error *why, struct gr_err *err)
{
    GR_TRY(check_all(v, info, why, err));
    for (int t = 0; t < info->frames_per_camera; t++) {
        for (int c = 0; c < info->n_cameras; c++) {
            char field[GR_FIELD_BYTES];
            const struct gr_json *camera = gr_json_get(v, info->cameras[c]);
            size_t n = 0, i = (size_t)t * (size_t)info->n_cameras + (size_t)c;
            frame_field(field, camera, info->cameras[c], t);
            const char *text = gr_body_string(body, frame_at(camera, (size_t)t), &n);
            GR_TRY(decode_frame(&(struct slot){field, &images[i], &frames[i]}, text, n, pictures_ms, why, err));
        }
    }
    return GR_OK;
}
