/* SPDX-License-Identifier: Apache-2.0
 *
 * request.c: the fields of a predict request, one after the other; what is cheap first, pictures last. The document is read by
 * request_body.c, numbers by request_state.c, pictures by request_images.c. */
#include "server/request.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "server/request_parts.h"
#include "server/request_state.h"

enum { NAME_MAX_BYTES = 24, VALUES_MAX = 1 << 16 };

static const char *const fields[] = {"images",     "state", "instruction", "language",    "prompt",
                                     "embodiment", "seed",  "noise",       "state_dtype", "return_normalized"};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

struct ctx {
    const struct gr_info *info;
    struct gr_body body;
    struct gr_request *out;
    struct gr_request_error *why;
    struct gr_err *err;
};

#define REFUSE(c, status, ...) gr_refuse((c)->why, (c)->err, status, __VA_ARGS__)

/* ---- Names. */

static const char *field_at(const void *ctx, int i)
{
    (void)ctx;
    return fields[i];
}

/* The known field that `name` probably means, NULL when none is near. */
static const char *nearest(const char *name)
{
    const size_t len = strlen(name);
    return len < NAME_MAX_BYTES ? gr_nearest(name, len <= 3 ? 1 : len <= 6 ? 2 : 3, field_at, NULL, N_FIELDS) : NULL;
}

static enum gr_status check_names(const struct ctx *c)
{
    for (void *it = gr_json_first(c->body.root); it != NULL; it = gr_json_next(c->body.root, it)) {
        const char *name = gr_json_key(it);
        int i = 0;
        while (i < N_FIELDS && strcmp(name, fields[i]) != 0) {
            i++;
        }
        if (i == N_FIELDS) {
            char field[GR_FIELD_BYTES], hint[64] = "";
            const char *near = nearest(name);
            if (near != NULL) {
                snprintf(hint, sizeof hint, ", did you mean \"%s\"?", near);
            }
            return REFUSE(
                c, GR_ERR_SCHEMA, "unknown_field", gr_field_join(field, "", name),
                "unknown field \"%.80s\"%s (known: images, state, instruction, language, prompt, embodiment, seed, "
                "noise, state_dtype, return_normalized)",
                name, hint);
        }
    }
    return GR_OK;
}

/* A field; NULL when it is absent or null. */
static const struct gr_json *get(const struct ctx *c, const char *name)
{
    const struct gr_json *v = gr_json_get(c->body.root, name);
    return gr_json_kind(v) == GR_JSON_NULL ? NULL : v;
}

/* A field that must be there; null counts as a value of the wrong type. */
static enum gr_status need(const struct ctx *c, const char *name, const struct gr_json **v)
{
    *v = gr_json_get(c->body.root, name);
    return *v != NULL ? GR_OK : REFUSE(c, GR_ERR_SCHEMA, "missing_field", name, "field \"%s\" is missing", name);
}

/* ---- Instruction. */

/* White space as the cleaning of instructions knows it: what Python's str.strip() removes. */
static bool is_space(const unsigned char *p, int len)
{
    if (len == 1) {
        return p[0] == ' ' || (p[0] >= 0x09 && p[0] <= 0x0d) || (p[0] >= 0x1c && p[0] <= 0x1f);
    }
    if (len == 2) {
        return p[0] == 0xc2 && (p[1] == 0x85 || p[1] == 0xa0);
    }
    static const char three[][4] = {"\xe1\x9a\x80", "\xe2\x80\xa8", "\xe2\x80\xa9",
                                    "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    for (size_t i = 0; len == 3 && i < sizeof three / sizeof three[0]; i++) {
        if (memcmp(p, three[i], 3) == 0) {
            return true;
        }
    }
    return len == 3 && p[0] == 0xe2 && p[1] == 0x80 && p[2] >= 0x80 && p[2] <= 0x8a; /* U+2000..200A */
}

/* Cuts white space off both ends and counts the characters that stay. The text is valid UTF-8: the parser has seen to it. */
static size_t strip(const char **text, size_t *n)
{
    size_t first = *n, end = 0, count = 0, kept = 0;
    for (size_t at = 0; at < *n;) {
        int len = gr_utf8_length(*text + at, *n - at);
        size_t step = len > 0 ? (size_t)len : 1;
        bool space = is_space((const unsigned char *)*text + at, len);
        if (!space) {
            first = end == 0 ? at : first;
            end = at + step;
        }
        count += end > 0;
        kept = space ? kept : count;
        at += step;
    }
    *text += end > 0 ? first : 0;
    *n = end > 0 ? end - first : 0;
    return kept;
}

static enum gr_status parse_instruction(const struct ctx *c)
{
    static const char *const names[] = {"instruction", "language", "prompt"};
    const char *name = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (get(c, names[i]) == NULL) {
            continue;
        }
        if (name != NULL) {
            return REFUSE(c, GR_ERR_SCHEMA, "two_instructions", names[i],
                          "\"%s\" and \"%s\" mean the same, expected one of them", name, names[i]);
        }
        name = names[i];
    }
    if (name == NULL) {
        return REFUSE(c, GR_ERR_SCHEMA, "missing_field", "instruction",
                      "field \"instruction\" (or \"language\" or \"prompt\") is missing");
    }
    const struct gr_json *v = get(c, name);
    if (gr_json_kind(v) != GR_JSON_STRING) {
        return gr_refuse_type(c->why, c->err, name, v, "a string");
    }
    size_t n = 0;
    const char *text = gr_body_string(&c->body, v, &n);
    size_t chars = strip(&text, &n);
    if (chars == 0) { /* the words of model/prompt.c, which sees what is empty only after cleaning */
        return REFUSE(c, GR_ERR_INPUT, "empty_instruction", name,
                      "instruction is empty after cleaning: white space and punctuation do not count");
    }
    if (chars > GR_INSTRUCTION_MAX_CHARS) {
        return REFUSE(c, GR_ERR_INPUT, "long_instruction", name,
                      "instruction has %zu characters, at most %d are allowed", chars, GR_INSTRUCTION_MAX_CHARS);
    }
    c->out->instruction = malloc(n + 1);
    if (c->out->instruction == NULL) {
        return REFUSE(c, GR_ERR_NOMEM, "no_memory", name, "no memory for the instruction");
    }
    memcpy(c->out->instruction, text, n);
    c->out->instruction[n] = '\0';
    c->out->obs.instruction = c->out->instruction;
    return GR_OK;
}

/* ---- Small fields. */

/* *equal: the string value is `want`. */
static enum gr_status compare_string(const struct ctx *c, const char *name, const char *want, bool *equal)
{
    const struct gr_json *v = get(c, name);
    if (gr_json_kind(v) != GR_JSON_STRING) {
        return gr_refuse_type(c->why, c->err, name, v, "a string");
    }
    size_t n = 0;
    const char *text = gr_body_string(&c->body, v, &n);
    *equal = n == strlen(want) && memcmp(text, want, n) == 0;
    return GR_OK;
}

static enum gr_status parse_embodiment(const struct ctx *c)
{
    bool equal;
    if (get(c, "embodiment") == NULL) {
        return GR_OK;
    }
    GR_TRY(compare_string(c, "embodiment", c->info->embodiment, &equal));
    if (equal) {
        return GR_OK;
    }
    size_t n = 0;
    const char *text = gr_body_string(&c->body, get(c, "embodiment"), &n);
    return REFUSE(c, GR_ERR_INPUT, "unknown_embodiment", "embodiment",
                  "embodiment \"%.*s\" is not served, expected: %s (lower and upper case differ)",
                  (int)(n < 80 ? n : 80), text, c->info->embodiment);
}

static enum gr_status parse_dtype(const struct ctx *c)
{
    bool f64, f32;
    c->out->obs.state_dtype = GR_STATE_F32;
    if (get(c, "state_dtype") == NULL) {
        return GR_OK;
    }
    GR_TRY(compare_string(c, "state_dtype", "float32", &f32));
    GR_TRY(compare_string(c, "state_dtype", "float64", &f64));
    if (!f32 && !f64) {
        return REFUSE(c, GR_ERR_SCHEMA, "unknown_value", "state_dtype",
                      "state_dtype is something else than \"float32\" and \"float64\"");
    }
    c->out->obs.state_dtype = f64 ? GR_STATE_F64 : GR_STATE_F32;
    return GR_OK;
}

static enum gr_status parse_return_normalized(const struct ctx *c)
{
    const struct gr_json *v = get(c, "return_normalized");
    if (v != NULL && gr_json_kind(v) != GR_JSON_BOOL) {
        return gr_refuse_type(c->why, c->err, "return_normalized", v, "true or false");
    }
    c->out->return_normalized = v != NULL && gr_json_bool(v);
    return GR_OK;
}

static enum gr_status parse_seed(const struct ctx *c, const struct gr_json *v)
{
    const double exact = 9007199254740992.0; /* 2^53: up to here a float64 holds every integer */
    char text[32];
    if (gr_json_kind(v) == GR_JSON_INT) {
        if (gr_json_int(v) < 0) {
            return REFUSE(c, GR_ERR_SCHEMA, "out_of_range", "seed",
                          "seed is %" PRId64 ", expected 0 to 9223372036854775807", gr_json_int(v));
        }
        c->out->obs.seed = (uint64_t)gr_json_int(v);
        return GR_OK;
    }
    if (gr_json_kind(v) != GR_JSON_REAL) {
        return gr_refuse_type(c->why, c->err, "seed", v, "an integer");
    }
    double x = gr_json_number(v);
    if (!(x >= 0.0 && x <= exact && x == floor(x))) {
        gr_format_f64(text, x);
        return REFUSE(
            c, GR_ERR_SCHEMA, "out_of_range", "seed",
            "seed is %s, expected an integer from 0 to 9223372036854775807 (in the form of a real up to 2^53)", text);
    }
    c->out->obs.seed = (uint64_t)x;
    return GR_OK;
}

static enum gr_status parse_noise(const struct ctx *c)
{
    const struct gr_json *seed = get(c, "seed"), *noise = get(c, "noise");
    size_t n = (size_t)c->info->horizon * (size_t)c->info->max_action_dim;
    c->out->obs.noise_kind = noise != NULL ? GR_NOISE_GIVEN : GR_NOISE_SEED;
    c->out->obs.seed = GR_DEFAULT_SEED;
    if (seed != NULL) {
        GR_TRY(parse_seed(c, seed));
    }
    if (noise == NULL) {
        return GR_OK;
    }
    if (seed != NULL) {
        return REFUSE(c, GR_ERR_INPUT, "seed_with_noise", "noise",
                      "\"seed\" and \"noise\" exclude each other, expected one of them");
    }
    c->out->obs.seed = 0;
    c->out->noise = malloc(n * sizeof *c->out->noise);
    if (c->out->noise == NULL) {
        return REFUSE(c, GR_ERR_NOMEM, "no_memory", "noise", "no memory for the noise");
    }
    c->out->obs.noise = c->out->noise;
    return gr_request_noise(noise, c->info, c->out->noise, c->why, c->err);
}

/* ---- State and pictures. */

static void check_ranges(const struct gr_info *info, const struct gr_state_range *ranges, struct gr_request *out)
{
    for (int g = 0, d = 0; g < info->n_state_groups; g++) {
        for (int i = 0; i < info->state_groups[g].dim; i++, d++) {
            double lo = ranges[d].lo, hi = ranges[d].hi, x = out->state[d];
            if (!(lo <= hi) || (x >= lo && x <= hi)) {
                continue;
            }
            if (out->out_of_range++ == 0) {
                char value[32], low[32], high[32];
                gr_format_f64(value, x);
                gr_format_f32(low, (float)lo);
                gr_format_f32(high, (float)hi);
                snprintf(out->out_of_range_text, sizeof out->out_of_range_text,
                         "state.%.23s[%d] = %s, recorded range %s to %s", info->state_groups[g].name, i, value, low,
                         high);
            }
        }
    }
}

static enum gr_status parse_state(const struct ctx *c, const struct gr_state_range *ranges)
{
    const struct gr_json *v;
    GR_TRY(need(c, "state", &v));
    c->out->state = calloc((size_t)c->info->state_dim + 1, sizeof *c->out->state);
    if (c->out->state == NULL) {
        return REFUSE(c, GR_ERR_NOMEM, "no_memory", "state", "no memory for the state");
    }
    GR_TRY(gr_request_state(v, c->info, c->out->obs.state_dtype == GR_STATE_F32, c->out->state, c->why, c->err));
    c->out->obs.state = c->out->state;
    c->out->obs.state_dim = c->info->state_dim;
    if (ranges != NULL) {
        check_ranges(c->info, ranges, c->out);
    }
    return GR_OK;
}

static enum gr_status parse_images(const struct ctx *c, const struct gr_json *v)
{
    size_t n = (size_t)c->info->n_cameras * (size_t)c->info->frames_per_camera;
    c->out->images = calloc(n + 1, sizeof *c->out->images);
    c->out->frames = calloc(n + 1, sizeof *c->out->frames);
    if (c->out->images == NULL || c->out->frames == NULL) {
        return REFUSE(c, GR_ERR_NOMEM, "no_memory", "images", "no memory for %zu pictures", n);
    }
    c->out->obs.frames = c->out->frames;
    c->out->obs.n_frames = (int)n;
    return gr_request_images(&c->body, v, c->info, c->out->images, c->out->frames, &c->out->pictures_ms, c->why,
                             c->err);
}

static enum gr_status parse_fields(const struct ctx *c, const struct gr_state_range *ranges)
{
    const struct gr_json *images;
    GR_TRY(check_names(c));
    GR_TRY(need(c, "images", &images));
    GR_TRY(parse_dtype(c));
    GR_TRY(parse_return_normalized(c));
    GR_TRY(parse_embodiment(c));
    GR_TRY(parse_state(c, ranges));
    GR_TRY(parse_instruction(c));
    GR_TRY(parse_noise(c));
    return parse_images(c, images);
}

enum gr_status gr_request_parse(const char *body, size_t n, const struct gr_info *info,
                                const struct gr_state_range *ranges, struct gr_request *out,
                                struct gr_request_error *why, struct gr_err *err)
{
    struct ctx c = {.info = info, .out = out, .why = why, .err = err};
    const double start = gr_clock_ms();
    const size_t max_values = VALUES_MAX + 2 * (size_t)info->horizon * (size_t)info->max_action_dim;
    *out = (struct gr_request){0};
    *why = (struct gr_request_error){0};
    enum gr_status status = gr_body_parse(body, n, max_values, &c.body, why, err);
    if (status == GR_OK) {
        status = parse_fields(&c, ranges);
    }
    gr_body_free(&c.body);
    out->decode_ms = gr_clock_ms() - start;
    return status;
}

void gr_request_drop_pictures(struct gr_request *r)
{
    for (int i = 0; r->images != NULL && i < r->obs.n_frames; i++) {
        free(r->images[i].rgb);
        r->images[i].rgb = NULL;
        r->frames[i].rgb = NULL;
    }
}

void gr_request_free(struct gr_request *r)
{
    for (int i = 0; r->images != NULL && i < r->obs.n_frames; i++) {
        gr_image_free(&r->images[i]);
    }
    free(r->images);
    free(r->frames);
    free(r->state);
    free(r->instruction);
    free(r->noise);
    *r = (struct gr_request){0};
}

void gr_request_explain(const struct gr_err *err, struct gr_request_error *why)
{
    static const struct {
        const char *begin, *code, *field;
    } rows[] = {
        {"n_text exceeds L_max", "long_instruction", "instruction"},
        {"instruction is empty", "empty_instruction", "instruction"},
        {"instruction", "long_instruction", "instruction"},
        {"state", "not_finite", "state"},
        {"noise", "noise_range", "noise"},
    };
    *why = (struct gr_request_error){.in_body = true};
    snprintf(why->code, sizeof why->code, "%s",
             err->code == GR_ERR_INPUT ? "bad_observation" : gr_status_name(err->code));
    for (size_t i = 0; err->code == GR_ERR_INPUT && i < sizeof rows / sizeof rows[0]; i++) {
        if (strncmp(err->msg, rows[i].begin, strlen(rows[i].begin)) == 0) {
            snprintf(why->code, sizeof why->code, "%s", rows[i].code);
            /* "state.left_arm[3] is ...", "noise[2][7] is ...": the message begins with the path. */
            bool path = strcmp(rows[i].field, "instruction") != 0;
            int n = (int)(path ? strcspn(err->msg, " ") : strlen(rows[i].field));
            snprintf(why->field, sizeof why->field, "%.*s", n, path ? err->msg : rows[i].field);
            why->in_body = false;
            return;
        }
    }
}
