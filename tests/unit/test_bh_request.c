/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_request.c: a whole predict as one program, on the CPU interpreter, against the fp32 goldens of the tiny snapshot: vision, connector,
 * language model, vlln, action head. BIT_EXACT also proves that buffers are overlaid without races. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bh_golden.h"
#include "bh_memory.h"
#include "bh_predict.h"
#include "device/blackhole/bh_request.h"
#include "device/blackhole/tile_format.h"

static struct bh_net net;

static int open_tiny(void **state)
{
    (void)state;
    bh_net_synthetic(&net, GR_SYNTH_TINY);
    return 0;
}
static int close_tiny(void **state)
{
    bh_net_close(&net);
    return gr_test_temp_clean(state);
}

/* Two observations on one machine; the first again at the end, which must not depend on what the second left behind. */
static void tiny_goldens(int columns, int rows, enum gr_bh_format weights, enum gr_bh_arithmetic arithmetic,
                         double bound)
{
    gr_test_need_shared();
    struct bh_predict p;
    const size_t n = (size_t)net.w->dims.dit.horizon * (size_t)net.w->dims.dit.max_action;
    float *first = malloc(n * sizeof *first), *action = malloc(n * sizeof *action);
    bh_predict_open(&p, &net, columns, rows, weights);
    bh_predict_cpu(&p, arithmetic, 2);
    static const char *const name[] = {"t1_64x64", "t7_333x101_noise", "t1_64x64"};
    for (int i = 0; i < 3; i++) {
        const double pcc = bh_predict_case(&p, gr_test_shared("spec/goldens_tiny/%s", name[i]), i == 0, action);
        printf("# %d x %d tiles, %s, %s: action_pred %.6f\n", columns, rows, weights == GR_BH_BF16 ? "bf16" : "bfp8_b",
               name[i], pcc);
        if (!(pcc >= bound)) {
            fail_msg("PCC %.6f, at least %.4f", pcc, bound);
        }
        if (i == 0) {
            memcpy(first, action, n * sizeof *first);
        }
    }
    assert_memory_equal(first, action, n * sizeof *first);
    bh_predict_close(&p);
    free(first);
    free(action);
}

static void fast_in_row_groups_with_weights_in_bf16(void **state)
{
    (void)state;
    tiny_goldens(3, 2, GR_BH_BF16, GR_BH_FAST, 0.9995);
}
static void fast_with_weights_in_bfp8_in_the_action_head_alone(void **state)
{
    (void)state;
    bh_predict_backbone = GR_BH_BF16;
    tiny_goldens(3, 2, GR_BH_BFP8, GR_BH_FAST, 0.99995);
    bh_predict_backbone = 0;
}
static void exact_in_one_group_with_weights_in_bfp8(void **state)
{
    (void)state;
    tiny_goldens(2, 2, GR_BH_BFP8, GR_BH_BIT_EXACT, 0.999);
}
static void exact_in_halves_of_the_rows(void **state)
{
    (void)state;
    gr_test_need_shared();
    struct bh_predict p;
    bh_predict_halves = true;
    bh_predict_open(&p, &net, 3, 2, GR_BH_BFP8);
    bh_predict_halves = false;
    bh_predict_cpu(&p, GR_BH_BIT_EXACT, 2);
    const double pcc = bh_predict_case(&p, gr_test_shared("spec/goldens_tiny/t1_64x64"), false, NULL);
    printf("# in halves: action_pred %.6f\n", pcc);
    assert_true(pcc >= 0.999);
    bh_predict_close(&p);
}
static void exact_in_row_groups_with_weights_in_bfp8(void **state)
{
    (void)state;
    tiny_goldens(3, 2, GR_BH_BFP8, GR_BH_BIT_EXACT, 0.999);
}

/* A picture of one bright patch: each row group has a watch of its own. */
static bool overflows(struct bh_predict *p, float *pixels, int patch, float value)
{
    const struct gr_dims *d = &net.w->dims;
    const size_t side = (size_t)d->vit.image_side;
    const size_t at = (size_t)(patch / d->vit.grid * GR_PATCH) * side + (size_t)(patch % d->vit.grid * GR_PATCH);
    float *state = calloc((size_t)d->dit.max_state, sizeof *state);
    float *noise = calloc((size_t)d->dit.horizon * (size_t)d->dit.max_action, sizeof *noise);
    int32_t ids[100] = {0};
    struct gr_err err;
    bool overflow = false;
    for (int t = 0; t < 81; t++) {
        ids[t] = BH_PREDICT_IMAGE_TOKEN;
    }
    pixels[at] = value;
    const struct gr_bh_observation o = {.pixels = pixels, .ids = ids, .n_tokens = 100, .state = state, .noise = noise};
    gr_test_ok(gr_bh_request_inputs(p->request, p->machine, &o, 0, &err), &err);
    gr_test_ok(gr_bh_program_run(p->program, p->machine, NULL, NULL, &err), &err);
    gr_test_ok(gr_bh_request_overflow(p->request, p->machine, &overflow, &err), &err);
    pixels[at] = 0;
    free(state);
    free(noise);
    return overflow;
}

static void what_overflows_in_any_row_group_is_seen(void **state)
{
    (void)state;
    const size_t side = (size_t)net.w->dims.vit.image_side;
    const int patches = net.w->dims.vit.patches, patch[] = {0, patches / 2, patches - 1};
    float *pixels = calloc(3 * side * side, sizeof *pixels);
    struct bh_predict p;
    bh_predict_open(&p, &net, 3, 2, GR_BH_BFP8);
    bh_predict_cpu(&p, GR_BH_FAST, 2);
    for (int i = 0; i < 3; i++) {
        assert_true(overflows(&p, pixels, patch[i], 1e30f));
        assert_false(overflows(&p, pixels, patch[i], 1.0f)); /* the next request begins anew */
    }
    bh_predict_close(&p);
    free(pixels);
}

static void observations_that_the_program_has_no_room_for_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct bh_predict p;
    bh_predict_open(&p, &net, 3, 2, GR_BH_BFP8);
    bh_predict_cpu(&p, GR_BH_FAST, 1);
    int32_t ids[BH_PREDICT_TOKENS + 1] = {0};
    const struct {
        int n_tokens, image;
        int32_t id;
        const char *text;
    } cases[] = {
        {BH_PREDICT_TOKENS + 1, 81, 0, "129 tokens for a program of 128"},
        {0, 0, 0, "0 tokens"},
        {100, 80, 0, "80 image tokens of 100"},
        {100, 81, -1, "token 99 is -1"},
        {100, 81, net.w->dims.llm.vocab, "the vocabulary has"},
        {81, 81, BH_PREDICT_IMAGE_TOKEN, "81 image tokens of 81"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int s = 0; s < BH_PREDICT_TOKENS + 1; s++) {
            ids[s] = s < cases[i].image ? BH_PREDICT_IMAGE_TOKEN : 0;
        }
        if (cases[i].n_tokens > 0) {
            ids[cases[i].n_tokens - 1] = cases[i].id;
        }
        const struct gr_bh_observation o = {.ids = ids, .n_tokens = cases[i].n_tokens};
        gr_test_fails(gr_bh_request_inputs(p.request, p.machine, &o, 0, &err), &err, GR_ERR_INPUT, cases[i].text);
    }
    const struct gr_dims *d = &net.w->dims;
    const size_t n = (size_t)d->dit.horizon * (size_t)d->dit.max_action;
    float *state_row = calloc((size_t)d->dit.max_state, sizeof *state_row), *noise = calloc(n, sizeof *noise);
    for (int s = 0; s < 100; s++) {
        ids[s] = s < 81 ? BH_PREDICT_IMAGE_TOKEN : 0;
    }
    const struct gr_bh_observation o = {.ids = ids, .n_tokens = 100, .state = state_row, .noise = noise};
    noise[n - 1] = 1e38f;
    gr_test_fails(gr_bh_request_inputs(p.request, p.machine, &o, 0, &err), &err, GR_ERR_INPUT, "noise: element");
    state_row[2] = -65536.0f;
    gr_test_fails(gr_bh_request_inputs(p.request, p.machine, &o, 0, &err), &err, GR_ERR_INPUT,
                  "state: element 2 is -65536, and this device computes with magnitudes below 65536");
    free(state_row);
    free(noise);
    bh_predict_close(&p);
}

/* ---- inputs, against arrays made the plain way ---- */

enum { GROUP_TILES = 6 };

struct plain {
    float *pixels, *state, *noise;
    int32_t ids[BH_PREDICT_TOKENS];
    int n_tokens;
};

static float *random_values(size_t n, uint32_t seed)
{
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = (float)(int32_t)seed / 2147483648.0f;
    }
    return v;
}

/* `before` tokens of text, the image, `behind` tokens of text. */
static struct plain plain_new(int before, int behind)
{
    const struct gr_dims *d = &net.w->dims;
    const size_t chunk = (size_t)d->dit.horizon * (size_t)d->dit.max_action;
    struct plain p = {.n_tokens = before + d->vit.tokens + behind};
    p.pixels = random_values(3 * (size_t)d->vit.image_side * (size_t)d->vit.image_side, 1);
    p.state = random_values((size_t)d->dit.max_state, 2);
    p.noise = random_values(chunk, 3);
    for (int i = 0; i < p.n_tokens; i++) {
        const bool image = i >= before && i < before + d->vit.tokens;
        p.ids[i] = image ? BH_PREDICT_IMAGE_TOKEN : (i * 37 + before) % d->llm.vocab;
    }
    return p;
}
static void plain_free(struct plain *p) { free(p->pixels), free(p->state), free(p->noise); }

static float pixel_of_patch(const struct plain *p, int patch, int i)
{
    const struct gr_dims *d = &net.w->dims;
    const int c = i % 3, x = i / 3 % GR_PATCH, y = i / 3 / GR_PATCH, side = d->vit.image_side;
    const int row = patch / d->vit.grid * GR_PATCH + y, column = patch % d->vit.grid * GR_PATCH + x;
    return 255 * p->pixels[(c * side + row) * side + column];
}

/* Number of tokens before t that are of the image, or are not. */
static int count(const struct plain *p, int t, bool image)
{
    int n = 0;
    for (int i = 0; i < t; i++) {
        n += (p->ids[i] == BH_PREDICT_IMAGE_TOKEN) == image;
    }
    return n;
}

static float token_value(const struct plain *p, int t, int c)
{
    const size_t D = (size_t)net.w->dims.llm.hidden;
    float v = 0;
    if (t < p->n_tokens && p->ids[t] != BH_PREDICT_IMAGE_TOKEN) {
        gr_tensor_to_f32(&net.w->embed, (size_t)p->ids[t] * D + (size_t)c, 1, &v);
    }
    return v;
}

/* Element (r, c) of an input. */
static float wanted(const struct plain *p, const char *name, int r, int c)
{
    const struct gr_dims *d = &net.w->dims;
    const int text_rows = (BH_PREDICT_TOKENS - d->vit.tokens + 31) / 32 * 32;
    if (strcmp(name, "patches") == 0) {
        return pixel_of_patch(p, r, c);
    }
    if (strcmp(name, "token_rows") == 0) {
        return token_value(p, r, c);
    }
    if (strcmp(name, "image_rows") == 0) {
        return r < p->n_tokens && p->ids[r] == BH_PREDICT_IMAGE_TOKEN && c == count(p, r, true) ? 1.0f : 0.0f;
    }
    if (strcmp(name, "vl_rows") == 0) {
        const bool image = c < p->n_tokens && p->ids[c] == BH_PREDICT_IMAGE_TOKEN;
        return c < p->n_tokens && r == (image ? text_rows : 0) + count(p, c, image) ? 1.0f : 0.0f;
    }
    if (strcmp(name, "text_mask") == 0) {
        return c < count(p, p->n_tokens, false) ? 0.0f : -1e4f;
    }
    if (strcmp(name, "image_mask") == 0) {
        return c < d->vit.tokens ? 0.0f : -1e4f;
    }
    if (strcmp(name, "state") == 0) {
        return p->state[c];
    }
    assert_string_equal(name, "noise");
    return p->noise[r * d->dit.max_action + c];
}

/* Tile (row, column) of an input as the header of tile_format.h has it. */
static void compare_tile(const struct plain *p, const struct gr_bh_io *io, int row, int column, const uint8_t *tile)
{
    float block[32 * 32] = {0};
    uint8_t expected[4096];
    for (int r = 0; r < io->rows; r++) {
        const int at = (io->row != NULL ? io->row[r] : io->row0 + r) - 32 * row;
        for (int c = 0; c < 32 && at >= 0 && at < 32 && 32 * column + c < io->cols; c++) {
            block[at * 32 + c] = wanted(p, io->name, r, 32 * column + c);
        }
    }
    gr_bh_tile_put(io->buf.fmt, block, 32, expected);
    if (memcmp(tile, expected, GR_BH_TILE_BYTES(io->buf.fmt)) != 0) {
        fail_msg("input %s: tile (%d, %d)", io->name, row, column);
    }
}

static void compare_input(const struct plain *p, const struct gr_bh_io *io, const struct bh_memory *m)
{
    const bool columns = io->place == GR_BH_COLUMNS;
    const int tiles = io->groups > 0 ? io->columns : m->tiles, groups = io->groups > 0 ? io->groups : 1;
    for (int t = 0; t < m->tiles && !(columns && t >= groups * tiles); t++) {
        for (int n = 0; n < io->buf.nt; n++) {
            const int column = columns ? t % tiles + n * tiles : n;
            for (int row = 0; row < io->buf.mt && column < gr_bh_tiles_of(io->cols); row++) {
                compare_tile(p, io, (columns ? t / tiles * io->buf.mt : 0) + row, column,
                             m->l1[t] + io->buf.addr + (uint32_t)row * io->buf.m_stride +
                                 (uint32_t)n * io->buf.n_stride);
            }
        }
    }
}

/* Twice on one machine, whose buffers other layers have used in between; prompts of other lengths. */
static void inputs_have_the_bits_of_plain_arrays(void **state)
{
    (void)state;
    struct gr_err err;
    struct bh_predict built;
    bh_predict_build(&built, &net, 3, 2, GR_BH_BFP8);
    const struct gr_bh_program *program = built.program;
    struct bh_memory m = bh_memory_of(program->grid->tiles);
    static const int before[] = {44, 23, 1}, behind[] = {3, 3, 0};
    assert_int_equal(m.tiles, GROUP_TILES);
    for (int i = 0; i < 3; i++) {
        struct plain p = plain_new(before[i], behind[i]);
        const struct gr_bh_observation o = {
            .pixels = p.pixels, .ids = p.ids, .n_tokens = p.n_tokens, .state = p.state, .noise = p.noise};
        bh_memory_spoil(&m);
        gr_test_ok(gr_bh_request_inputs(built.request, &m.m, &o, 0, &err), &err);
        assert_int_equal(m.twice, 0);
        for (int k = 0; k < program->inputs; k++) {
            compare_input(&p, &program->input[k], &m);
        }
        plain_free(&p);
    }
    assert_int_equal(program->inputs, 8);
    bh_memory_free(&m);
    gr_bh_request_free(built.request);
}

/* 11 x 10 tiles, 128 rows. */
static void the_published_size_fits_into_l1(void **state)
{
    (void)state;
    struct bh_net full;
    bh_net_hollow(&full);
    for (int i = 0; i < 2; i++) {
        struct bh_predict p = {0};
        bh_predict_build(&p, &full, 11, 10, i == 0 ? GR_BH_BFP8 : GR_BH_BF16);
        const struct gr_bh_request_l1 l1 = gr_bh_request_l1(p.request);
        const struct gr_bh_head *head = p.program->list[0];
        printf(
            "# %s: %d tiles; L1 %u of %d bytes: lists %zu (%u operations, %u executed), constants %d tiles, ring %u; "
            "buffers of vision %u, connector %u, language model %u, action head %u\n",
            i == 0 ? "bfp8_b" : "bf16", p.program->grid->tiles, p.program->l1_used, GR_BH_L1_END, p.program->list_bytes,
            head->ops, p.program->executed, p.program->constants, head->ring_bytes, l1.vision, l1.connector, l1.llm,
            l1.denoise);
        assert_int_equal(p.program->grid->tiles, 108);
        assert_true(p.program->l1_used <= GR_BH_L1_END);
        gr_bh_request_free(p.request);
    }
    bh_net_close(&full);
}

/* Whatever columns a p150 has left: 108 tiles, the same operations at the same addresses, so the same bits. The interpreter refuses a destination
 * whose acknowledgements are not the tiles of its rectangle. */
static void chips_with_more_columns_run_the_same_program(void **state)
{
    (void)state;
    static const int columns[] = {11, 12, 14}, rows[] = {10, 10, 8};
    struct gr_bh_head first = {0};
    uint32_t executed = 0;
    struct bh_net full;
    bh_net_hollow(&full);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct gr_err err;
        struct gr_bh_machine *machine = NULL;
        struct bh_predict p = {0};
        bh_predict_build(&p, &full, columns[i], rows[i], GR_BH_BFP8);
        const struct gr_bh_head *head = p.program->list[0];
        first = i == 0 ? *head : first;
        executed = i == 0 ? p.program->executed : executed;
        assert_int_equal(p.program->grid->tiles, 108);
        assert_int_equal(p.program->executed, executed);
        assert_int_equal(head->ops, first.ops);
        assert_int_equal(head->ring_bytes, first.ring_bytes);
        gr_test_ok(gr_bh_machine_cpu(p.program->grid, GR_BH_FAST, 1, &machine, &err), &err);
        gr_test_ok(gr_bh_program_load(p.program, machine, &err), &err);
        machine->ops->close(machine);
        gr_bh_request_free(p.request);
    }
    bh_net_close(&full);
}

/* 152 tokens of text make 256 rows. */
static void the_long_layout_of_the_published_size_fits_into_l1(void **state)
{
    (void)state;
    struct gr_err err;
    struct bh_net full;
    struct gr_bh_request *r;
    bh_net_hollow(&full);
    const struct gr_bh_request_cfg cfg = {.w = full.w,
                                          .slot = full.slot,
                                          .max_tokens = 2 * BH_PREDICT_TOKENS,
                                          .image_token = BH_PREDICT_IMAGE_TOKEN,
                                          .columns = 11,
                                          .rows = 10,
                                          .weights = GR_BH_BFP8,
                                          .backbone_weights = GR_BH_BF16};
    gr_test_ok(gr_bh_request_new(&cfg, &r, &err), &err);
    const struct gr_bh_request_l1 l1 = gr_bh_request_l1(r);
    printf(
        "# L1 %u of %d bytes: lists %zu, ring %u; buffers of vision %u, connector %u, language model %u, action head %u\n",
        gr_bh_request_program(r)->l1_used, GR_BH_L1_END, gr_bh_request_program(r)->list_bytes,
        ((const struct gr_bh_head *)gr_bh_request_program(r)->list[0])->ring_bytes, l1.vision, l1.connector, l1.llm,
        l1.denoise);
    assert_true(gr_bh_request_program(r)->l1_used <= GR_BH_L1_END);
    gr_bh_request_free(r);
    bh_net_close(&full);
}

static void what_does_not_fit_the_chip_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_request *r;
    struct bh_net full;
    struct gr_bh_request_cfg cfg = {.w = net.w,
                                    .slot = net.slot,
                                    .max_tokens = BH_PREDICT_TOKENS,
                                    .image_token = BH_PREDICT_IMAGE_TOKEN,
                                    .columns = 1,
                                    .rows = 1,
                                    .weights = GR_BH_BFP8};
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "the chip has 1 x 1");
    assert_null(r);
    cfg.columns = 4;
    cfg.max_tokens = 81;
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "81 of them of the image");
    cfg.max_tokens = 4000;
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "L1: ");
    bh_net_hollow(&full);
    cfg.w = full.w;
    cfg.slot = full.slot;
    cfg.max_tokens = BH_PREDICT_TOKENS;
    cfg.columns = cfg.rows = 10;
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE,
                  "108 tiles would share this out, the chip has 100");
    cfg.columns = 11;
    cfg.max_tokens = 400;
    gr_test_fails(gr_bh_request_new(&cfg, &r, &err), &err, GR_ERR_DEVICE, "L1: vl_text needs");
    bh_net_close(&full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_the_chip_is_refused),
        cmocka_unit_test(the_published_size_fits_into_l1),
        cmocka_unit_test(chips_with_more_columns_run_the_same_program),
        cmocka_unit_test(what_overflows_in_any_row_group_is_seen),
        cmocka_unit_test(observations_that_the_program_has_no_room_for_are_refused),
        cmocka_unit_test(inputs_have_the_bits_of_plain_arrays),
        cmocka_unit_test(fast_in_row_groups_with_weights_in_bf16),
        cmocka_unit_test(fast_with_weights_in_bfp8_in_the_action_head_alone),
        cmocka_unit_test(exact_in_one_group_with_weights_in_bfp8),
        cmocka_unit_test(exact_in_row_groups_with_weights_in_bfp8),
        cmocka_unit_test(exact_in_halves_of_the_rows),
        cmocka_unit_test(the_long_layout_of_the_published_size_fits_into_l1),
    };
    return cmocka_run_group_tests_name("bh_request", tests, open_tiny, close_tiny);
}
