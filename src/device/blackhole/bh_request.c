/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_request.c: a whole predict as one program: which tiles, the stages on them, and the inputs of an observation. */
#include "device/blackhole/bh_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/backbone.h"

#define MASKED (-1e4f)
enum { TILE = 32, FIRST_X = 1, FIRST_Y = 2, LAST_BEFORE_GAP = 7, GAP = 2, PIXELS = 255, MORE_PARTS = 3 };

struct gr_bh_request {
    struct gr_bh_request_cfg cfg; /* w: only while building */
    struct gr_dims d;
    struct gr_tensor embed;
    uint32_t *xy;
    struct gr_bh_grid grid;
    struct gr_bh_denoise_weights *head;
    struct gr_bh_backbone_weights *backbone;
    struct gr_bh_build *build;
    const struct gr_bh_program *program;
    struct gr_bh_request_l1 l1;
    int text_rows;
    float *values; /* one input at a time */
    size_t room;
};

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }
static size_t up_tiles(int n) { return (size_t)gr_bh_tiles_of(n); }

/* ---- tiles ---- */

/* Tiles that the widest stage needs: the row groups of the vision tower when there is room for them. */
static int tiles_needed(const struct gr_bh_request *r)
{
    const struct gr_dims *d = &r->d;
    int n = most(gr_bh_tiles_of(d->dit.width), gr_bh_tiles_of(d->dit.max_action));
    if (r->backbone != NULL) {
        const int groups = gr_bh_backbone_groups(r->backbone, r->cfg.columns * r->cfg.rows);
        n = most(n, groups * gr_bh_tiles_of(d->vit.hidden));
        n = most(n, gr_bh_tiles_of(d->llm.hidden));
        n = most(n, d->llm.heads * r->backbone->head_tiles);
    }
    return n;
}

static enum gr_status choose_tiles(struct gr_bh_request *r, struct gr_err *err)
{
    const int n = tiles_needed(r), columns = r->cfg.columns;
    if (columns < 1 || r->cfg.rows < 1 || n > columns * r->cfg.rows) {
        return gr_fail(err, GR_ERR_DEVICE, "the network needs %d tiles, the chip has %d x %d", n, columns, r->cfg.rows);
    }
    r->xy = calloc((size_t)n, sizeof *r->xy);
    if (r->xy == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %d tiles", n);
    }
    for (int i = 0; i < n; i++) {
        const uint32_t x = FIRST_X + (uint32_t)(i % columns), y = FIRST_Y + (uint32_t)(i / columns);
        r->xy[i] = (x > LAST_BEFORE_GAP ? x + GAP : x) | y << 6;
    }
    const int last = n < columns ? n - 1 : columns - 1;
    const uint32_t corner = (r->xy[last] & 63) | r->xy[n - 1] >> 6 << 6;
    r->grid = (struct gr_bh_grid){.tiles = n, .xy = r->xy, .xy0 = r->xy[0], .xy1 = corner};
    return GR_OK;
}

/* ---- building ---- */

static void emit(struct gr_bh_request *r, int mlp_parts)
{
    struct gr_bh_build *b = r->build;
    const struct gr_bh_denoise d = {.w = r->head,
                                    .text_rows = r->text_rows,
                                    .image_rows = r->d.vit.tokens,
                                    .steps = r->d.dit.steps,
                                    .vl_computed = r->backbone != NULL};
    struct gr_bh_denoise_plan *p = gr_bh_denoise_plan_new(b, &d);
    if (p == NULL) {
        return;
    }
    struct gr_bh_backbone backbone = {.b = b,
                                      .w = r->backbone,
                                      .mlp_parts = mlp_parts,
                                      .text_rows = d.text_rows,
                                      .image_rows = d.image_rows,
                                      .tokens = r->cfg.max_tokens};
    const uint32_t mark = gr_bh_l1_mark(b);
    (void)gr_bh_l1_lowest(b);
    gr_bh_denoise_place(p, r->backbone != NULL ? mark - gr_bh_backbone_kept(&backbone) : mark);
    r->l1 = (struct gr_bh_request_l1){.denoise = GR_BH_L1_END - gr_bh_l1_lowest(b)};
    if (r->backbone != NULL) {
        backbone.groups = gr_bh_backbone_groups(r->backbone, r->grid.tiles);
        backbone.t = gr_bh_tiles_new(b);
        gr_bh_backbone_place(&backbone);
        gr_bh_emit_backbone(&backbone, gr_bh_denoise_vl(p, true), gr_bh_denoise_vl(p, false));
        r->l1.vision = backbone.used[0];
        r->l1.connector = backbone.used[1];
        r->l1.llm = backbone.used[2];
    }
    gr_bh_denoise_emit(p);
    gr_bh_denoise_plan_free(p);
}

/* The hidden columns of the language model in as few parts as L1 has room for: beside a ring of two chunks, if need be of one. */
static enum gr_status build(struct gr_bh_request *r, struct gr_err *err)
{
    const enum gr_bh_format f = r->cfg.weights;
    struct gr_bh_build_cfg cfg = {.grid = &r->grid,
                                  .weights = f,
                                  .weight_phases =
                                      r->cfg.weight_phases > 0 ? r->cfg.weight_phases : gr_bh_weight_phases(f)};
    const int hidden = gr_bh_tiles_of(r->d.llm.mlp), columns = gr_bh_tiles_of(r->d.llm.hidden);
    const int fewest = (hidden + columns - 1) / columns,
              most_parts = r->backbone != NULL ? fewest + MORE_PARTS : fewest;
    enum gr_status status = GR_ERR_DEVICE;
    for (int ring = 0; ring < 2 && status == GR_ERR_DEVICE; ring++) {
        cfg.ring_fits = ring > 0;
        for (int parts = fewest; parts <= most_parts && status == GR_ERR_DEVICE; parts++) {
            gr_bh_build_free(r->build);
            r->build = NULL;
            GR_TRY(gr_bh_build_new(&cfg, &r->build, err));
            emit(r, parts);
            status = gr_bh_build_finish(r->build, &r->program, err);
        }
    }
    return status;
}

static enum gr_status take_room(struct gr_bh_request *r, struct gr_err *err)
{
    const struct gr_dims *d = &r->d;
    const size_t rows = TILE * up_tiles(r->cfg.max_tokens);
    size_t n = (size_t)d->vit.patches * (size_t)(3 * GR_PATCH * GR_PATCH);
    n = larger(n, rows * (size_t)d->llm.hidden);
    n = larger(n, rows * TILE * (up_tiles(r->text_rows) + up_tiles(d->vit.tokens)));
    r->room = n;
    r->values = calloc(n, sizeof *r->values);
    return r->values != NULL ? GR_OK : gr_fail(err, GR_ERR_NOMEM, "no memory for inputs of %zu values", n);
}

static enum gr_status make(struct gr_bh_request *r, struct gr_err *err)
{
    const struct gr_weights *w = r->cfg.w;
    r->text_rows = r->cfg.max_tokens - r->d.vit.tokens;
    if (r->text_rows < 1) {
        return gr_fail(err, GR_ERR_DEVICE, "a layout of %d tokens, %d of them of the image", r->cfg.max_tokens,
                       r->d.vit.tokens);
    }
    GR_TRY(gr_bh_denoise_weights_new(w, r->cfg.slot, &r->head, err));
    if (!r->cfg.denoise_only) {
        GR_TRY(gr_bh_backbone_weights_new(w, r->cfg.max_tokens, r->cfg.backbone_weights, &r->backbone, err));
    }
    GR_TRY(choose_tiles(r, err));
    GR_TRY(take_room(r, err));
    return build(r, err);
}

enum gr_status gr_bh_request_new(const struct gr_bh_request_cfg *cfg, struct gr_bh_request **out, struct gr_err *err)
{
    *out = NULL;
    struct gr_bh_request *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the program of a predict");
    }
    r->cfg = *cfg;
    r->d = cfg->w->dims;
    r->embed = cfg->w->embed;
    const enum gr_status status = make(r, err);
    if (status != GR_OK) {
        gr_bh_request_free(r);
        return status;
    }
    r->cfg.w = NULL;
    *out = r;
    return GR_OK;
}

void gr_bh_request_free(struct gr_bh_request *r)
{
    if (r == NULL) {
        return;
    }
    gr_bh_build_free(r->build);
    gr_bh_backbone_weights_free(r->backbone);
    gr_bh_denoise_weights_free(r->head);
    free(r->xy);
    free(r->values);
    free(r);
}

const struct gr_bh_program *gr_bh_request_program(const struct gr_bh_request *r) { return r->program; }
const struct gr_bh_grid *gr_bh_request_grid(const struct gr_bh_request *r) { return &r->grid; }
struct gr_bh_request_l1 gr_bh_request_l1(const struct gr_bh_request *r) { return r->l1; }

/* ---- an observation ---- */

static float *cleared(struct gr_bh_request *r)
{
    memset(r->values, 0, r->room * sizeof *r->values);
    return r->values;
}

/* Patches in raster order: channel fastest, then column, then row. */
static enum gr_status write_patches(struct gr_bh_request *r, struct gr_bh_machine *m, const float *pixels,
                                    struct gr_err *err)
{
    const struct gr_dims *d = &r->d;
    const size_t side = (size_t)d->vit.image_side;
    float *out = r->values;
    for (int p = 0; p < d->vit.patches; p++) {
        const size_t y0 = (size_t)(p / d->vit.grid) * GR_PATCH, x0 = (size_t)(p % d->vit.grid) * GR_PATCH;
        for (size_t i = 0; i < 3 * GR_PATCH * GR_PATCH; i++) {
            const size_t c = i % 3, x = i / 3 % GR_PATCH, y = i / 3 / GR_PATCH;
            *out++ = PIXELS * pixels[(c * side + y0 + y) * side + x0 + x];
        }
    }
    return gr_bh_write_input(r->program, m, "patches", r->values, err);
}

static enum gr_status write_tokens(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                   struct gr_err *err)
{
    const size_t D = (size_t)r->d.llm.hidden, blocks = TILE * up_tiles(r->d.vit.tokens);
    float *v = cleared(r);
    for (int s = 0; s < o->n_tokens; s++) {
        if (o->ids[s] != r->cfg.image_token) {
            float *row = v + (size_t)s * D;
            gr_tensor_to_f32(&r->embed, (size_t)o->ids[s] * D, D, row);
            for (size_t i = 0; i < D; i++) {
                if (!isfinite(row[i])) { /* written to a tile it would be a number */
                    return gr_fail(err, GR_ERR_FORMAT, "tensor %s holds NaN or infinity in row %d", r->embed.name,
                                   o->ids[s]);
                }
            }
        }
    }
    GR_TRY(gr_bh_write_input(r->program, m, "token_rows", v, err));
    v = cleared(r);
    for (int s = 0, image = 0; s < o->n_tokens; s++) {
        if (o->ids[s] == r->cfg.image_token) {
            v[(size_t)s * blocks + (size_t)image++] = 1.0f;
        }
    }
    return gr_bh_write_input(r->program, m, "image_rows", v, err);
}

/* A network whose blocks all look at the text, or all at the image, has one mask. */
static enum gr_status write_mask(struct gr_bh_request *r, struct gr_bh_machine *m, const char *name, int room, int rows,
                                 struct gr_err *err)
{
    float *v = cleared(r);
    if (gr_bh_find_input(r->program, name) == NULL) {
        return GR_OK;
    }
    for (size_t i = (size_t)rows; i < TILE * up_tiles(room); i++) {
        v[i] = MASKED;
    }
    return gr_bh_write_input(r->program, m, name, v, err);
}

/* Text rows first, then image rows from a new row tile on. */
static enum gr_status write_vl_rows(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                    struct gr_err *err)
{
    const size_t rows = TILE * up_tiles(r->cfg.max_tokens);
    size_t text = 0, image = TILE * up_tiles(r->text_rows);
    float *v = cleared(r);
    for (int s = 0; s < o->n_tokens; s++) {
        const size_t to = o->ids[s] == r->cfg.image_token ? image++ : text++;
        v[to * rows + (size_t)s] = 1.0f;
    }
    GR_TRY(gr_bh_write_input(r->program, m, "vl_rows", v, err));
    GR_TRY(write_mask(r, m, "text_mask", r->text_rows, (int)text, err));
    return write_mask(r, m, "image_mask", r->d.vit.tokens, r->d.vit.tokens, err);
}

static enum gr_status check(const struct gr_bh_request *r, const struct gr_bh_observation *o, struct gr_err *err)
{
    int image = 0;
    if (r->backbone == NULL || o->n_tokens < 1 || o->n_tokens > r->cfg.max_tokens) {
        return gr_fail(err, GR_ERR_INPUT, "%d tokens for a program of %d", o->n_tokens,
                       r->backbone == NULL ? 0 : r->cfg.max_tokens);
    }
    for (int s = 0; s < o->n_tokens; s++) {
        if (o->ids[s] == r->cfg.image_token) {
            image++;
        } else if (o->ids[s] < 0 || o->ids[s] >= r->d.llm.vocab) {
            return gr_fail(err, GR_ERR_INPUT, "token %d is %d, the vocabulary has %d", s, o->ids[s], r->d.llm.vocab);
        }
    }
    return image == r->d.vit.tokens && o->n_tokens - image >= 1
               ? GR_OK
               : gr_fail(err, GR_ERR_INPUT, "%d image tokens of %d tokens; the program takes %d", image, o->n_tokens,
                         r->d.vit.tokens);
}

enum gr_status gr_bh_request_inputs(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                    struct gr_err *err)
{
    GR_TRY(check(r, o, err));
    GR_TRY(write_patches(r, m, o->pixels, err));
    GR_TRY(write_tokens(r, m, o, err));
    GR_TRY(write_vl_rows(r, m, o, err));
    GR_TRY(gr_bh_write_input(r->program, m, "state", o->state, err));
    return gr_bh_write_input(r->program, m, "noise", o->noise, err);
}

enum gr_status gr_bh_request_action(struct gr_bh_request *r, struct gr_bh_machine *m, float *action, struct gr_err *err)
{
    return gr_bh_read_io(r->program, m, gr_bh_find_output(r->program, "action_pred"), action, err);
}
