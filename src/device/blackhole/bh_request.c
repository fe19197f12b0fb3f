/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_request.c: a whole predict as one program: which tiles, the stages on them, and the inputs of an observation. */
#include "device/blackhole/bh_request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/backbone.h"
#include "device/blackhole/tile_format.h"

#define MASKED (-1e4f)
enum {
    TILE = 32,
    FIRST_X = 1,
    FIRST_Y = 2,
    LAST_BEFORE_GAP = 7,
    GAP = 2,
    PIXELS = 255,
    FACE_BYTES = 1024, /* of fp32 */
    PATCH_VALUES = 3 * GR_PATCH * GR_PATCH,
    MORE_PARTS = 5,
    AHEAD_PARTS = 8 /* 64 KB at a time: what a running predict may have to wait for */
};

/* A program and what is known of it. */
struct built {
    struct gr_bh_build *build;
    const struct gr_bh_program *program;
    struct gr_bh_request_l1 l1;
    struct gr_bh_buf watch; /* of the norms that see what has overflowed, on the first tile of each of the row groups */
};

struct gr_bh_request {
    struct gr_bh_request_cfg cfg; /* w: only while building */
    struct gr_dims d;
    struct gr_tensor embed;
    uint32_t *xy;
    struct gr_bh_grid grid;
    struct gr_bh_denoise_weights *head;
    struct gr_bh_backbone_weights *backbone;
    struct built built;
    int text_rows;
    float *values; /* rows of the values of one input */
    float *unit;   /* [2 unit_at] zeros, a one in the middle */
    int unit_at;
    /* Of an observation: what row of the sequence each row of vl is, what row of the image each row of the sequence is; -1: none. */
    int *vl_token, *image_row;
};

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static int most(int a, int b) { return a > b ? a : b; }

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

/* The next tiles: those of a rectangle row by row, as far as `end`. */
static int number_rectangle(struct gr_bh_request *r, int at, int end, int x0, int y0, int width, int height)
{
    for (int i = 0; i < width * height && at < end; i++) {
        const uint32_t x = FIRST_X + (uint32_t)(x0 + i % width), y = FIRST_Y + (uint32_t)(y0 + i / width);
        r->xy[at++] = (x > LAST_BEFORE_GAP ? x + GAP : x) | y << 6;
    }
    return at;
}

/* Row groups of the vision tower are rectangles side by side, as many as there is room for: so what goes to all tiles of one is a single
 * multicast. Then come the columns beside them, then the rows below. */
static void number_tiles(struct gr_bh_request *r, int n)
{
    const int width = r->cfg.columns, height = r->cfg.rows, each = gr_bh_tiles_of(r->d.vit.hidden);
    const int groups = r->backbone != NULL ? gr_bh_backbone_groups(r->backbone, width * height) : 1;
    int w = 1;
    while (each % w != 0 || each / w > height) {
        w++;
    }
    const int beside = groups == 1 ? 0 : groups < width / w ? groups : width / w, high = each / w;
    int at = 0;
    for (int g = 0; g < beside; g++) {
        at = number_rectangle(r, at, n, g * w, 0, w, high);
    }
    at = number_rectangle(r, at, n, beside * w, 0, width - beside * w, height);
    (void)number_rectangle(r, at, n, 0, high, beside * w, height - high);
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
    number_tiles(r, n);
    r->grid = (struct gr_bh_grid){.tiles = n, .xy = r->xy, .xy0 = r->xy[0], .xy1 = r->xy[0]};
    for (int i = 0; i < n; i++) {
        const uint32_t x = (uint32_t)most((int)(r->grid.xy1 & 63), (int)(r->xy[i] & 63));
        const uint32_t y = (uint32_t)most((int)(r->grid.xy1 >> 6), (int)(r->xy[i] >> 6));
        r->grid.xy1 = x | y << 6;
    }
    return GR_OK;
}

/* ---- building ---- */

static void emit_vl(void *user, bool text, int first, struct gr_bh_buf vl) { gr_bh_emit_vl(user, text, first, vl); }

static void emit(struct gr_bh_request *r, int row_parts, int mlp_parts)
{
    struct gr_bh_build *b = r->built.build;
    r->built.watch = gr_bh_alloc(b, "norms that are watched", 1, 1, GR_BH_FP32);
    struct gr_bh_backbone backbone = {.b = b,
                                      .watch = r->built.watch,
                                      .w = r->backbone,
                                      .row_parts = row_parts,
                                      .mlp_parts = mlp_parts,
                                      .text_rows = r->text_rows,
                                      .image_rows = r->d.vit.tokens,
                                      .tokens = r->cfg.max_tokens};
    const struct gr_bh_denoise d = {.w = r->head,
                                    .text_rows = r->text_rows,
                                    .image_rows = r->d.vit.tokens,
                                    .steps = r->d.dit.steps,
                                    .vl = r->backbone != NULL ? emit_vl : NULL,
                                    .vl_user = &backbone,
                                    .watch = r->built.watch,
                                    .narrow = row_parts > 1};
    struct gr_bh_denoise_plan *p = gr_bh_denoise_plan_new(b, &d);
    if (p == NULL) {
        return;
    }
    const uint32_t mark = gr_bh_l1_mark(b);
    (void)gr_bh_l1_lowest(b);
    gr_bh_denoise_place(p, r->backbone != NULL ? mark - gr_bh_backbone_kept(&backbone) : mark);
    backbone.free = gr_bh_l1_lowest(b);
    r->built.l1 = (struct gr_bh_request_l1){.denoise = GR_BH_L1_END - backbone.free};
    if (r->backbone != NULL) {
        backbone.groups = gr_bh_backbone_groups(r->backbone, r->grid.tiles);
        backbone.t = gr_bh_tiles_new(b);
        gr_bh_emit_zeros(b, &backbone.t, r->built.watch);
        gr_bh_backbone_place(&backbone);
        gr_bh_emit_backbone(&backbone);
        r->built.l1.vision = backbone.used[0];
        r->built.l1.connector = backbone.used[1];
        r->built.l1.llm = backbone.used[2];
    }
    gr_bh_denoise_emit(p);
    gr_bh_emit_barrier(b); /* so that the host need look at one tile alone */
    gr_bh_denoise_plan_free(p);
}

static enum gr_status build_parts(struct gr_bh_request *r, int row_parts, int mlp_parts, struct gr_err *err)
{
    const enum gr_bh_format f = r->cfg.weights;
    const struct gr_bh_build_cfg cfg = {.grid = &r->grid,
                                        .weights = f,
                                        .weight_phases =
                                            r->cfg.weight_phases > 0 ? r->cfg.weight_phases : gr_bh_weight_phases(f),
                                        .ring_fits = true};
    GR_TRY(gr_bh_build_new(&cfg, &r->built.build, err));
    emit(r, row_parts, mlp_parts);
    return gr_bh_build_finish(r->built.build, &r->built.program, err);
}

static uint32_t ring_bytes(const struct built *b)
{
    return ((const struct gr_bh_head *)b->program->list[0])->ring_bytes;
}

/* The hidden columns of the language model in as few parts as leave L1 the largest ring, of two chunks at most. */
static enum gr_status build_rows(struct gr_bh_request *r, int row_parts, struct gr_err *err)
{
    const int hidden = gr_bh_tiles_of(r->d.llm.mlp), columns = gr_bh_tiles_of(r->d.llm.hidden);
    const int fewest = (hidden + columns - 1) / columns,
              most_parts = r->backbone != NULL ? fewest + MORE_PARTS : fewest;
    struct built best = {0};
    enum gr_status status = GR_OK;
    for (int parts = fewest; parts <= most_parts && (status == GR_OK || status == GR_ERR_DEVICE); parts++) {
        r->built = (struct built){0};
        status = build_parts(r, row_parts, parts, err);
        if (status == GR_OK && (best.build == NULL || ring_bytes(&r->built) > ring_bytes(&best))) {
            gr_bh_build_free(best.build);
            best = r->built;
            continue;
        }
        gr_bh_build_free(r->built.build);
        if (best.build != NULL) {
            break;
        }
    }
    r->built = best;
    return best.build != NULL && (status == GR_OK || status == GR_ERR_DEVICE) ? GR_OK : status;
}

/* A chip without room for the row groups of the vision tower holds all its rows on every tile: what is short then are tiles. */
static enum gr_status say_tiles(const struct gr_bh_request *r, enum gr_status status, struct gr_err *err)
{
    const int tiles = r->cfg.columns * r->cfg.rows;
    if (status != GR_ERR_DEVICE || r->backbone == NULL || gr_bh_backbone_groups(r->backbone, tiles) > 1 ||
        r->backbone->blocks == 1) {
        return status;
    }
    const struct gr_err why = *err;
    return gr_fail(err, status, "%.300s; %d tiles would share this out, the chip has %d", why.msg,
                   r->backbone->blocks * gr_bh_tiles_of(r->d.vit.hidden), tiles);
}

/* The rows of the language model all at once; if L1 has no room for that, half of them and then the others. */
static enum gr_status build(struct gr_bh_request *r, struct gr_err *err)
{
    const bool halves = r->backbone != NULL && r->backbone->rows % 2 == 0;
    enum gr_status status =
        r->cfg.halves ? gr_fail(err, GR_ERR_DEVICE, "an odd number of row tiles has no halves") : build_rows(r, 1, err);
    if (status == GR_ERR_DEVICE && halves) {
        status = build_rows(r, 2, err);
    }
    return say_tiles(r, status, err);
}

static int sequence_rows(const struct gr_bh_request *r) { return TILE * gr_bh_tiles_of(r->cfg.max_tokens); }
static int vl_rows(const struct gr_bh_request *r)
{
    return TILE * (gr_bh_tiles_of(r->text_rows) + gr_bh_tiles_of(r->d.vit.tokens));
}

static enum gr_status take_room(struct gr_bh_request *r, struct gr_err *err)
{
    const int rows = sequence_rows(r);
    size_t n = larger((size_t)r->d.vit.patches * PATCH_VALUES, (size_t)vl_rows(r)); /* patches, a mask */
    n = larger(n, (size_t)rows * (size_t)r->d.llm.hidden);
    r->unit_at = most(rows, TILE * gr_bh_tiles_of(r->d.vit.tokens));
    r->values = calloc(n, sizeof *r->values);
    r->unit = calloc(2 * (size_t)r->unit_at, sizeof *r->unit);
    r->vl_token = calloc((size_t)vl_rows(r), sizeof *r->vl_token);
    r->image_row = calloc((size_t)rows, sizeof *r->image_row);
    if (r->values == NULL || r->unit == NULL || r->vl_token == NULL || r->image_row == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for inputs of %zu values", n);
    }
    r->unit[r->unit_at] = 1.0f;
    return GR_OK;
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
    gr_bh_build_free(r->built.build);
    gr_bh_backbone_weights_free(r->backbone);
    gr_bh_denoise_weights_free(r->head);
    free(r->xy);
    free(r->values);
    free(r->unit);
    free(r->vl_token);
    free(r->image_row);
    free(r);
}

const struct gr_bh_program *gr_bh_request_program(const struct gr_bh_request *r) { return r->built.program; }
const struct gr_bh_grid *gr_bh_request_grid(const struct gr_bh_request *r) { return &r->grid; }
struct gr_bh_request_l1 gr_bh_request_l1(const struct gr_bh_request *r) { return r->built.l1; }

/* ---- an observation ---- */

/* Whose rows are asked for. */
struct source {
    struct gr_bh_request *r;
    const struct gr_bh_observation *o;
};

/* Patches in raster order: channel fastest, then column, then row. */
static enum gr_status read_patches(struct gr_bh_request *r, const struct gr_bh_observation *o, struct gr_err *err)
{
    (void)err;
    const size_t side = (size_t)r->d.vit.image_side, plane = side * side, grid = (size_t)r->d.vit.grid;
    float *out = r->values;
    for (size_t p = 0; p < (size_t)r->d.vit.patches; p++) {
        const float *in = o->pixels + p / grid * GR_PATCH * side + p % grid * GR_PATCH;
        for (int y = 0; y < GR_PATCH; y++, in += side) {
            for (int x = 0; x < GR_PATCH; x++, out += 3) {
                out[0] = PIXELS * in[x];
                out[1] = PIXELS * in[plane + (size_t)x];
                out[2] = PIXELS * in[2 * plane + (size_t)x];
            }
        }
    }
    return GR_OK;
}

static const float *patch(void *user, int p)
{
    const struct source *s = user;
    return s->r->values + (size_t)p * PATCH_VALUES;
}

static const float *token(void *user, int t)
{
    const struct source *s = user;
    const bool text = t < s->o->n_tokens && s->o->ids[t] != s->r->cfg.image_token;
    return text ? s->r->values + (size_t)t * (size_t)s->r->d.llm.hidden : NULL;
}

/* A row of zeros with a one in column c. */
static const float *unit(const struct gr_bh_request *r, int c) { return c < 0 ? NULL : r->unit + (r->unit_at - c); }

static const float *image_place(void *user, int t)
{
    const struct source *s = user;
    return unit(s->r, s->r->image_row[t]);
}

static const float *vl_place(void *user, int row)
{
    const struct source *s = user;
    return unit(s->r, s->r->vl_token[row]);
}

/* Of vl: text rows first, then image rows from a new row tile on. */
static void index_rows(struct gr_bh_request *r, const struct gr_bh_observation *o)
{
    const int first = TILE * gr_bh_tiles_of(r->text_rows);
    int text = 0, image = 0;
    for (int i = 0; i < vl_rows(r); i++) {
        r->vl_token[i] = -1;
    }
    for (int t = 0; t < sequence_rows(r); t++) {
        r->image_row[t] = -1;
        if (t < o->n_tokens && o->ids[t] == r->cfg.image_token) {
            r->vl_token[first + image] = t;
            r->image_row[t] = image++;
        } else if (t < o->n_tokens) {
            r->vl_token[text++] = t;
        }
    }
}

static enum gr_status read_tokens(struct gr_bh_request *r, const struct gr_bh_observation *o, struct gr_err *err)
{
    const size_t D = (size_t)r->d.llm.hidden;
    for (int t = 0; t < o->n_tokens; t++) {
        if (o->ids[t] != r->cfg.image_token) {
            float *row = r->values + (size_t)t * D;
            gr_tensor_to_f32(&r->embed, (size_t)o->ids[t] * D, D, row);
            const size_t bad = gr_bh_first_out_of_range(row, D);
            if (bad < D) {
                return gr_fail(err, GR_ERR_FORMAT, "row %d of " GR_BH_OUT_OF_RANGE, o->ids[t], r->embed.name, (int)bad,
                               (double)row[bad]);
            }
        }
    }
    return GR_OK;
}

static const float *mask(struct gr_bh_request *r, int room, int rows)
{
    for (int i = 0; i < TILE * gr_bh_tiles_of(room); i++) {
        r->values[i] = i < rows ? 0.0f : MASKED;
    }
    return r->values;
}

static const float *text_mask(void *user, int row)
{
    const struct source *s = user;
    (void)row;
    return mask(s->r, s->r->text_rows, s->o->n_tokens - s->r->d.vit.tokens);
}

static const float *image_mask(void *user, int row)
{
    const struct source *s = user;
    (void)row;
    return mask(s->r, s->r->d.vit.tokens, s->r->d.vit.tokens);
}

static const float *state(void *user, int row)
{
    (void)row;
    return ((const struct source *)user)->o->state;
}

static const float *noise(void *user, int row)
{
    const struct source *s = user;
    return s->o->noise + (size_t)row * (size_t)s->r->d.dit.max_action;
}

/* What the inputs of the program are: rows, after all of them were read when that is worth it. */
struct input {
    const char *name;
    enum gr_status (*read)(struct gr_bh_request *r, const struct gr_bh_observation *o, struct gr_err *err);
    gr_bh_row_fn row;
};
static enum gr_status find_input(const char *name, const struct input **in, struct gr_err *err)
{
    static const struct input all[] = {{"patches", read_patches, patch},
                                       {"token_rows", read_tokens, token},
                                       {"image_rows", NULL, image_place},
                                       {"vl_rows", NULL, vl_place},
                                       {"text_mask", NULL, text_mask},
                                       {"image_mask", NULL, image_mask},
                                       {"state", NULL, state},
                                       {"noise", NULL, noise}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(all[i].name, name) == 0) {
            *in = &all[i];
            return GR_OK;
        }
    }
    return gr_fail(err, GR_ERR_DEVICE, "the program has an input %s, which no observation has", name);
}

static enum gr_status read_rows(const struct input *in, const struct source *s, struct gr_err *err)
{
    return in->read != NULL ? in->read(s->r, s->o, err) : GR_OK;
}

static enum gr_status check_range(const char *what, const float *v, size_t n, struct gr_err *err)
{
    const size_t bad = gr_bh_first_out_of_range(v, n);
    return bad == n ? GR_OK : gr_fail(err, GR_ERR_INPUT, GR_BH_OUT_OF_RANGE, what, (int)bad, (double)v[bad]);
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
    if (image != r->d.vit.tokens || o->n_tokens - image < 1) {
        return gr_fail(err, GR_ERR_INPUT, "%d image tokens of %d tokens; the program takes %d", image, o->n_tokens,
                       r->d.vit.tokens);
    }
    GR_TRY(check_range("state", o->state, (size_t)r->d.dit.max_state, err));
    return check_range("noise", o->noise, (size_t)r->d.dit.horizon * (size_t)r->d.dit.max_action, err);
}

enum gr_status gr_bh_request_inputs(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                    uint32_t written, struct gr_err *err)
{
    const struct gr_bh_program *p = r->built.program;
    struct source s = {.r = r, .o = o};
    GR_TRY(check(r, o, err));
    index_rows(r, o);
    for (int i = 0; i < p->inputs; i++) {
        const struct input *in = NULL;
        if ((written >> i & 1) == 0) {
            GR_TRY(find_input(p->input[i].name, &in, err));
            GR_TRY(read_rows(in, &s, err));
            GR_TRY(gr_bh_write_rows(p, m, in->name, in->row, &s, err));
        }
    }
    return GR_OK;
}

/* The first in columns that is free and not written; -1: none. */
static int next_ahead(const struct gr_bh_program *p, uint32_t done, uint32_t written)
{
    for (int i = 0; i < p->inputs; i++) {
        if (p->input[i].place == GR_BH_COLUMNS && p->input[i].after <= done && (written >> i & 1) == 0) {
            return i;
        }
    }
    return -1;
}

enum gr_status gr_bh_request_ahead(struct gr_bh_request *r, struct gr_bh_machine *m, const struct gr_bh_observation *o,
                                   uint32_t done, struct gr_bh_ahead *a, bool *more, struct gr_err *err)
{
    const struct gr_bh_program *p = r->built.program;
    struct source s = {.r = r, .o = o};
    const struct input *in = NULL;
    *more = false;
    const int i = a->part > 0 ? a->input : next_ahead(p, done, a->written);
    if (i < 0) {
        return GR_OK;
    }
    const struct gr_bh_io *io = &p->input[i];
    GR_TRY(find_input(io->name, &in, err));
    if (a->part == 0) {
        GR_TRY(a->written == 0 ? check(r, o, err) : GR_OK);
        GR_TRY(read_rows(in, &s, err));
        a->input = i;
    }
    for (int n = 0; n < AHEAD_PARTS && a->part < gr_bh_io_parts(io); n++) {
        GR_TRY(gr_bh_write_part(p, m, io, a->part++, in->row, &s, err));
    }
    if (a->part == gr_bh_io_parts(io)) {
        a->written |= UINT32_C(1) << i;
        a->part = 0;
    }
    *more = true;
    return GR_OK;
}

enum gr_status gr_bh_request_action(struct gr_bh_request *r, struct gr_bh_machine *m, float *action, struct gr_err *err)
{
    return gr_bh_read_io(r->built.program, m, gr_bh_find_output(r->built.program, "action_pred"), action, err);
}

enum gr_status gr_bh_request_overflow(struct gr_bh_request *r, struct gr_bh_machine *m, bool *overflow,
                                      struct gr_err *err)
{
    const int groups = r->backbone != NULL ? gr_bh_backbone_groups(r->backbone, r->grid.tiles) : 0;
    *overflow = false;
    for (int g = 0; g < groups; g++) {
        for (uint32_t half = 0; half < 2; half++) { /* of row 0, in two faces */
            float v[TILE / 2];
            GR_TRY(m->ops->l1_read(m, g * gr_bh_tiles_of(r->d.vit.hidden), r->built.watch.addr + half * FACE_BYTES, v,
                                   sizeof v, err));
            for (int i = 0; i < TILE / 2; i++) {
                *overflow = *overflow || !isfinite(v[i]);
            }
        }
    }
    return GR_OK;
}
