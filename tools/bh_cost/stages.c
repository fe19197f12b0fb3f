/* SPDX-License-Identifier: Apache-2.0
 *
 * stages.c: names for the operations of a list. An operation with weights is known by the matrix in its stream; one without prepares the
 * next that has some. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"

/* Matrix names that contain both parts: what multiplies them, what comes before. The first that fits. */
static const struct {
    const char *part, *also, *stage, *before;
} known[] = {
    {"vision_model", "self_attn.out", "vision: output", "vision: attention"},
    {"vision_model", "self_attn", "vision: queries, keys, values", "vision: first norm"},
    {"vision_model", ".mlp.", "vision: MLP", "vision: second norm"},
    {"vision_model", "", "vision: patches", "vision: patches"},
    {"language_model", "self_attn.o_", "language: output", "language: attention"},
    {"language_model", "self_attn", "language: queries, keys, values", "language: first norm"},
    {"language_model", "mlp.down", "language: MLP", "language: MLP"},
    {"language_model", ".mlp.", "language: MLP", "language: second norm"},
    {"backbone", ".mlp", "connector", "connector"},
    {"attn1.to_out", "", "attention, output", "attention"},
    {"attn1.to_", "", "queries, keys, values", "first norm"},
    {".ff.", "", "MLP", "second norm"},
    {"action_encoder", "", "action encoder", "action encoder"},
    {"state_encoder", "", "state encoder", "state encoder"},
    {"position_embedding", "", "positions", "positions"},
    {"proj_out_2", "", "output projection", "last norm"},
    {"action_decoder", "", "decoder", "decoder"},
};

/* Parts of the name without numbers, without its last. */
static void plain_name(const char *name, char out[BH_COST_NAME])
{
    const char *last = strrchr(name, '.');
    size_t n = 0;
    for (const char *p = name; *p != 0 && p != last && n + 1 < BH_COST_NAME; p++) {
        if (!isdigit((unsigned char)*p) && !(*p == '.' && n > 0 && out[n - 1] == '.')) {
            out[n++] = *p;
        }
    }
    out[n] = 0;
}

static int stage_of(struct bh_cost_stages *s, const char *name)
{
    for (int i = 0; i < s->n; i++) {
        if (strcmp(s->name[i], name) == 0) {
            return i;
        }
    }
    if (s->n == BH_COST_STAGES) {
        return BH_COST_STAGES - 1;
    }
    (void)snprintf(s->name[s->n], BH_COST_NAME, "%s", name);
    return s->n++;
}

static int named(struct bh_cost_stages *s, const char *matrix, bool before)
{
    char text[BH_COST_NAME], plain[BH_COST_NAME - 8];
    for (size_t i = 0; matrix != NULL && i < sizeof known / sizeof known[0]; i++) {
        if (strstr(matrix, known[i].part) != NULL && strstr(matrix, known[i].also) != NULL) {
            return stage_of(s, before ? known[i].before : known[i].stage);
        }
    }
    if (matrix == NULL) {
        return stage_of(s, "end");
    }
    plain_name(matrix, text);
    (void)snprintf(plain, sizeof plain, "%.*s", (int)sizeof plain - 1, text);
    (void)snprintf(text, sizeof text, "%s%s", before ? "before " : "", plain);
    return stage_of(s, text);
}

/* Notes in matrix[op] which matrix the operations of a tile find in their streams. */
static void walk_tile(const struct gr_bh_program *p, int tile, enum gr_bh_format weights, const char **matrix)
{
    const struct gr_bh_head *h = p->list[tile];
    const struct gr_bh_op *ops = (const struct gr_bh_op *)(h + 1), *o;
    size_t at[GR_BH_STREAMS] = {0}, mark[GR_BH_NESTING][GR_BH_STREAMS];
    struct gr_bh_walk w = {0};
    uint32_t index;
    for (;;) {
        const enum gr_bh_step step = gr_bh_next(&w, ops, &o, &index);
        if (step == GR_BH_STEP_END) {
            return;
        }
        if (step == GR_BH_STEP_ENTER) {
            memcpy(mark[w.depth - 1], at, sizeof at);
        }
        for (unsigned s = 0; step == GR_BH_STEP_AGAIN && s < GR_BH_STREAMS; s++) {
            at[s] = o->rewind & 1u << s ? mark[w.depth - 1][s] : at[s];
        }
        const struct gr_bh_stream_plan *plan = &p->plan[tile * GR_BH_STREAMS + o->stream];
        uint64_t left = step == GR_BH_STEP_OP ? (uint64_t)o->chunk * o->nt : 0;
        while (left > 0 && at[o->stream] < plan->pieces) {
            const struct gr_bh_piece *piece = &plan->piece[at[o->stream]++];
            const size_t bytes = gr_bh_piece_bytes(piece, weights);
            if (piece->kind == GR_BH_PIECE_COLUMN && piece->w != NULL) {
                matrix[o - ops] = piece->w->name;
            }
            left = bytes < left ? left - bytes : 0;
        }
    }
}

enum gr_status bh_cost_stages_new(const struct gr_bh_program *p, enum gr_bh_format weights, struct bh_cost_stages *out,
                                  struct gr_err *err)
{
    const uint32_t ops = ((const struct gr_bh_head *)p->list[0])->ops;
    *out = (struct bh_cost_stages){.stage = calloc(ops, sizeof(int))};
    const char **matrix = calloc(ops, sizeof *matrix), *next = NULL;
    if (out->stage == NULL || matrix == NULL) {
        free(matrix);
        bh_cost_stages_free(out);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the stages of %u operations", ops);
    }
    for (int t = 0; t < p->grid->tiles; t++) {
        walk_tile(p, t, weights, matrix);
    }
    for (uint32_t i = ops; i-- > 0;) {
        const bool before = matrix[i] == NULL;
        next = before ? next : matrix[i];
        out->stage[i] = named(out, next, before);
    }
    free(matrix);
    return GR_OK;
}

void bh_cost_stages_free(struct bh_cost_stages *s)
{
    free(s->stage);
    s->stage = NULL;
}
