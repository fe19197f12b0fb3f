/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_request.c: any bytes as the body of a predict, for two embodiments. What is accepted is a whole observation; what is refused has a code,
 * a field and a message, and the reply made of them is valid JSON. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../support/request_cases.h"
#include "base/json.h"
#include "server/reply.h"
#include "server/request.h"

static void check(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void check_accepted(const struct gr_request *r, const struct gr_info *info)
{
    unsigned sum = 0;
    check(r->obs.n_frames == info->n_cameras * info->frames_per_camera && r->obs.state_dim == info->state_dim);
    for (int i = 0; i < r->obs.n_frames; i++) {
        const struct gr_frame *f = &r->obs.frames[i];
        check(f->height >= GR_SIDE_MIN && f->height <= GR_SIDE_MAX && f->width >= GR_SIDE_MIN &&
              f->width <= GR_SIDE_MAX);
        sum += f->rgb[(size_t)f->height * (size_t)f->width * 3 - 1];
    }
    for (int i = 0; i < info->state_dim; i++) {
        check(isfinite(r->obs.state[i]) != 0);
    }
    for (int i = 0; r->obs.noise != NULL && i < info->horizon * info->max_action_dim; i++) {
        check(isfinite(r->obs.noise[i]) != 0);
    }
    check((r->obs.noise_kind == GR_NOISE_GIVEN) == (r->obs.noise != NULL));
    check(r->obs.seed <= INT64_MAX && strlen(r->obs.instruction) > 0 && sum < 1u << 20);
}

static void check_refused(const struct gr_request_error *why, const struct gr_err *err)
{
    struct gr_buf b = {0};
    struct gr_json *root = NULL;
    struct gr_err inner;
    check(err->code == GR_ERR_SCHEMA || err->code == GR_ERR_INPUT);
    check(why->code[0] != '\0' && err->msg[0] != '\0' && why->in_body == (why->field[0] == '\0'));
    gr_reply_error(gr_reply_http_status(err->code), why->code, err->msg, why->field, &b);
    check(gr_json_parse(b.data, b.len, "reply", GR_ERR_INPUT, &root, &inner) == GR_OK);
    /* Cleaned text is printed as it is: a broken byte would have become U+FFFD. */
    check(strcmp(gr_json_string(gr_json_get(gr_json_get(root, "error"), "message")), err->msg) == 0);
    gr_json_free(root);
    gr_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gr_info *infos[] = {&case_gr1, &case_two};
    char *text = malloc(size > 0 ? size : 1); /* of exactly this size */
    check(text != NULL);
    memcpy(text, data, size);
    for (size_t i = 0; i < 2; i++) {
        struct gr_request r;
        struct gr_request_error why;
        struct gr_err err = {.code = GR_OK};
        struct gr_state_range ranges[32] = {{0, 1}};
        if (gr_request_parse(text, size, infos[i], ranges, &r, &why, &err) == GR_OK) {
            check_accepted(&r, infos[i]);
        } else {
            check_refused(&why, &err);
        }
        gr_request_free(&r);
    }
    free(text);
    return 0;
}
