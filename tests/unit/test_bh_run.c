/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_run.c: running a built program: what load writes, arrays on their way to tiles and back, requests with and without taps; then one
 * product over two tiles through builder, arena and the CPU interpreter. */
#include "gr_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bh_chip.h"
#include "bh_memory.h"
#include "device/blackhole/bh_build.h"
#include "device/blackhole/tensix.h"
#include "device/blackhole/tile_format.h"

#define XY(x, y) ((uint32_t)(x) | (uint32_t)(y) << 6)
enum { BFP8_TILE = 1088 };

static const uint32_t xy[] = {XY(1, 2), XY(2, 2), XY(1, 3)};
static const struct gr_bh_grid two = {.tiles = 2, .xy = xy, .xy0 = XY(1, 2), .xy1 = XY(2, 2)};
static const struct gr_bh_grid three = {
    .tiles = 3, .xy = xy, .xy0 = XY(1, 2), .xy1 = XY(2, 3)}; /* one tile of four is unused */

static struct gr_bh_build *make(const struct gr_bh_grid *grid)
{
    struct gr_err err;
    struct gr_bh_build *b;
    const struct gr_bh_build_cfg cfg = {.grid = grid, .weights = GR_BH_BFP8, .weight_phases = 3};
    assert_int_equal(gr_bh_build_new(&cfg, &b, &err), GR_OK);
    return b;
}

static const struct gr_bh_program *finished(struct gr_bh_build *b)
{
    struct gr_err err = {.msg = ""};
    const struct gr_bh_program *p = NULL;
    gr_test_ok(gr_bh_build_finish(b, &p, &err), &err);
    return p;
}

static void emit(struct gr_bh_build *b, int times)
{
    for (int i = 0; i < times; i++) {
        struct gr_bh_op *o = gr_bh_emit(b);
        for (int t = 0; t < 3; t++) {
            o[t].mt = o[t].nt = o[t].nseg = 1;
        }
    }
}

static float diagonal(void *user, int r, int c)
{
    (void)user;
    return r == c ? 1.0f : 0.0f;
}

static void load_writes_zeros_lists_and_constants(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_build *b = make(&three);
    (void)gr_bh_constant(b, "one", GR_BH_FP32, diagonal, NULL);
    const struct gr_bh_buf x = gr_bh_alloc(b, "x", 1, 1, GR_BH_FP32);
    emit(b, 1);
    const struct gr_bh_program *p = finished(b);
    struct bh_memory m = bh_memory_of(3);
    assert_int_equal(gr_bh_program_load(p, &m.m, &err), GR_OK);
    static const uint8_t zeros[4096];
    for (int t = 0; t < 3; t++) {
        assert_memory_equal(m.l1[t] + GR_BH_PROGRAM, p->list[t], p->list_bytes);
        assert_memory_equal(m.l1[t] + x.addr, zeros, 4096);
        assert_memory_equal(m.l1[t] + p->constant[0].addr, p->constant[0].bytes, 4096);
        assert_int_equal(m.l1[t][p->data - 1], 0xff);
        assert_int_equal(((const struct gr_bh_head *)p->list[t])->release_tiles, 3); /* the unused tile answers, too */
    }
    assert_int_equal(m.started, 1);
    bh_memory_free(&m);
    gr_bh_build_free(b);
}

/* Writes a pattern, reads it back, and looks at one element of L1 and at the padding. */
static void round_trip(enum gr_bh_place place, enum gr_bh_format fmt, int row0, int rows, int cols, bool reversed)
{
    struct gr_err err;
    struct gr_bh_build *b = make(&three);
    const uint32_t size = GR_BH_TILE_BYTES(fmt);
    struct gr_bh_buf buf = gr_bh_alloc(b, "x", 3, 3, fmt);
    if (place == GR_BH_COLUMNS) { /* the first column of a wider buffer */
        buf.nt = 1;
    }
    if (reversed) { /* column by column */
        buf.m_stride = size;
        buf.n_stride = 3 * size;
    }
    const struct gr_bh_io io = {.name = "x", .buf = buf, .place = place, .row0 = row0, .rows = rows, .cols = cols};
    gr_bh_input(b, io);
    emit(b, 1);
    gr_bh_output(b, io);
    const struct gr_bh_program *p = finished(b);
    struct bh_memory m = bh_memory_of(3);
    static float values[96 * 96], back[96 * 96];
    for (int i = 0; i < rows * cols; i++) {
        values[i] = (float)(i % 119 + 1); /* exact in bf16 */
        back[i] = -1.0f;
    }
    assert_int_equal(gr_bh_write_input(p, &m.m, "x", values, &err), GR_OK);
    assert_int_equal(gr_bh_read_io(p, &m.m, gr_bh_find_output(p, "x"), back, &err), GR_OK);
    assert_memory_equal(values, back, (size_t)(rows * cols) * sizeof(float));
    for (int r = 0; r < 96; r++) {
        for (int c = 0; c < (cols + 31) / 32 * 32; c++) {
            const bool in = r >= row0 && r < row0 + rows && c < cols;
            const int tile = place == GR_BH_COLUMNS ? c / 32 : r % 3, n = place == GR_BH_COLUMNS ? 0 : c / 32;
            float block[32 * 32];
            gr_bh_tile_get(fmt, m.l1[tile] + buf.addr + (uint32_t)(r / 32) * buf.m_stride + (uint32_t)n * buf.n_stride,
                           block, 32);
            assert_true(block[r % 32 * 32 + c % 32] == (in ? values[(r - row0) * cols + c] : 0.0f));
        }
    }
    assert_int_equal(gr_bh_write_input(p, &m.m, "y", values, &err), GR_ERR_DEVICE);
    assert_string_equal(err.msg, "the program has no input y");
    bh_memory_free(&m);
    gr_bh_build_free(b);
}

static void arrays_reach_their_tiles_and_come_back(void **state)
{
    (void)state;
    round_trip(GR_BH_EVERYWHERE, GR_BH_FP32, 0, 96, 96, false);
    round_trip(GR_BH_EVERYWHERE, GR_BH_BF16, 1, 50, 70, false);
    round_trip(GR_BH_EVERYWHERE, GR_BH_BF16, 40, 3, 33, true);
    round_trip(GR_BH_COLUMNS, GR_BH_FP32, 1, 64, 65, false);
    round_trip(GR_BH_COLUMNS, GR_BH_FP32, 31, 2, 1, true);
}

/* Two row groups of one row tile each on tiles 0 and 1; rows backwards. The second has fewer, and zeros where the first has values. */
static void rows_go_where_their_map_says(void **state)
{
    (void)state;
    struct gr_err err;
    enum { ROWS_OF_TWO = 50, COLS = 20 };
    int row[ROWS_OF_TWO];
    static float values[ROWS_OF_TWO * COLS], back[ROWS_OF_TWO * COLS];
    for (int r = 0; r < ROWS_OF_TWO; r++) {
        row[r] = ROWS_OF_TWO - 1 - r;
    }
    for (int i = 0; i < ROWS_OF_TWO * COLS; i++) {
        values[i] = (float)(i % 119 + 1);
    }
    struct gr_bh_build *b = make(&three);
    struct gr_bh_io io = {.name = "groups",
                          .buf = gr_bh_alloc(b, "groups", 1, 1, GR_BH_FP32),
                          .place = GR_BH_COLUMNS,
                          .rows = ROWS_OF_TWO,
                          .cols = COLS,
                          .row = row,
                          .groups = 2,
                          .columns = 1};
    gr_bh_input(b, io);
    emit(b, 1);
    gr_bh_output(b, io);
    const uint32_t addr = io.buf.addr;
    io.buf = gr_bh_alloc(b, "all", 2, 1, GR_BH_BF16);
    io.name = "all";
    io.place = GR_BH_EVERYWHERE;
    io.groups = 0;
    gr_bh_input(b, io);
    const struct gr_bh_program *p = finished(b);
    struct bh_memory m = bh_memory_of(3);
    gr_test_ok(gr_bh_write_input(p, &m.m, "groups", values, &err), &err);
    gr_test_ok(gr_bh_write_input(p, &m.m, "all", values, &err), &err);
    gr_test_ok(gr_bh_read_io(p, &m.m, gr_bh_find_output(p, "groups"), back, &err), &err);
    assert_memory_equal(values, back, sizeof values);
    for (int r = 0; r < 64; r++) {
        float own[32 * 32], all[32 * 32];
        gr_bh_tile_get(GR_BH_FP32, m.l1[r / 32] + addr, own, 32);
        gr_bh_tile_get(GR_BH_BF16, m.l1[2] + io.buf.addr + (uint32_t)(r / 32) * io.buf.m_stride, all, 32);
        const float want = r < ROWS_OF_TWO ? values[(ROWS_OF_TWO - 1 - r) * COLS + 7] : 0.0f;
        assert_true(own[r % 32 * 32 + 7] == want && all[r % 32 * 32 + 7] == want);
    }
    bh_memory_free(&m);
    gr_bh_build_free(b);
    b = make(&three);
    row[3] = 64;
    gr_bh_input(
        b,
        (struct gr_bh_io){
            .name = "x", .buf = gr_bh_alloc(b, "x", 2, 1, GR_BH_BF16), .rows = ROWS_OF_TWO, .cols = COLS, .row = row});
    emit(b, 1);
    gr_test_fails(gr_bh_build_finish(b, &p, &err), &err, GR_ERR_DEVICE, "do not fit");
    gr_bh_build_free(b);
}

/* A column array of 128 rows: some have values, the others are zeros that lie nowhere. */
enum { SOME_ROWS = 120, SOME_COLS = 70, FIRST_ROWS = 34, LATER = 113, LATER_ROWS = 3 };
static float some[SOME_ROWS * SOME_COLS];
static const float *some_row(void *user, int r)
{
    (void)user;
    return r < FIRST_ROWS || (r >= LATER && r < LATER + LATER_ROWS) ? some + r * SOME_COLS : NULL;
}

static void write_some(enum gr_bh_format fmt, int row0, bool all, struct bh_memory *m)
{
    struct gr_err err;
    struct gr_bh_build *b = make(&three);
    const struct gr_bh_buf buf = gr_bh_alloc(b, "x", 4, 1, fmt);
    const struct gr_bh_io io = {
        .name = "x", .buf = buf, .place = GR_BH_COLUMNS, .row0 = row0, .rows = SOME_ROWS, .cols = SOME_COLS};
    gr_bh_input(b, io);
    emit(b, 1);
    const struct gr_bh_program *p = finished(b);
    for (int i = 0; i < SOME_ROWS * SOME_COLS; i++) {
        some[i] = (float)(i % 119 + 1);
    }
    bh_memory_spoil(m);
    gr_test_ok(all ? gr_bh_write_input(p, &m->m, "x", some, &err)
                   : gr_bh_write_rows(p, &m->m, "x", some_row, NULL, &err),
               &err);
    for (int tile = 0; tile < 3; tile++) {
        for (int at = 0; at < 128; at++) {
            float block[32 * 32];
            const int r = at - row0;
            const bool in = r >= 0 && r < SOME_ROWS && (all || some_row(NULL, r) != NULL);
            gr_bh_tile_get(fmt, m->l1[tile] + buf.addr + (uint32_t)(at / 32) * buf.m_stride, block, 32);
            for (int c = 0; c < 32; c++) {
                const float want = in && tile * 32 + c < SOME_COLS ? some[r * SOME_COLS + tile * 32 + c] : 0.0f;
                assert_true(fabsf(block[at % 32 * 32 + c] - want) <= (fmt == GR_BH_BFP8 ? 1.0f : 0.0f));
            }
        }
    }
    assert_int_equal(m->twice, 0);
    gr_bh_build_free(b);
}

/* Of 128 rows 37 have values: those go to their tiles with what lies between them, the others to all at once, and no byte twice. */
static void rows_of_zeros_go_to_all_tiles_at_once(void **state)
{
    (void)state;
    struct bh_memory m = bh_memory_of(3);
    /* In rows of faces: 0 to 33 are a tile, 2 on the left, 14 of zeros, 2 on the right; 113 to 115 are 3, 13, 3, and 12 to the end. */
    const size_t used = 64 + 2 + 14 + 2 + 3 + 13 + 3 + 12;
    write_some(GR_BH_BF16, 0, false, &m);
    assert_int_equal(m.written, 3 * used * 32);
    assert_int_equal(m.filled, (256 - used) * 32);
    write_some(GR_BH_FP32, 0, false, &m); /* as many rows are twice the bytes: a gap of at most 16 is sent */
    assert_int_equal(m.written, 3 * used * 64);
    assert_int_equal(m.filled, (256 - used) * 64);
    write_some(GR_BH_BF16, 5, false, &m);
    assert_true(m.filled > 0 && m.written > 0);
    write_some(GR_BH_BF16, 5, true, &m); /* 5 and 3 rows of zeros are not worth a write */
    assert_true(m.filled == 0 && m.written == 3 * 4 * 2048);
    write_some(GR_BH_BFP8, 0, false, &m); /* whole tiles: exponents lie apart */
    assert_true(m.filled == 0 && m.written == 3 * 4 * BFP8_TILE);
    bh_memory_free(&m);
}

/* Bytes across the bus: reading is what is slow there. */
static void of_an_output_only_its_rows_are_read(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_build *b = make(&three);
    const struct gr_bh_buf buf = gr_bh_alloc(b, "x", 2, 1, GR_BH_FP32);
    emit(b, 1);
    gr_bh_output(b,
                 (struct gr_bh_io){.name = "x", .buf = buf, .place = GR_BH_COLUMNS, .row0 = 1, .rows = 50, .cols = 96});
    const struct gr_bh_program *p = finished(b);
    struct bh_memory m = bh_memory_of(3);
    static float back[50 * 96];
    for (int tile = 0; tile < 3; tile++) {
        float block[64 * 32];
        for (int i = 0; i < 64 * 32; i++) {
            block[i] = (float)(10000 * tile + i);
        }
        gr_bh_tile_put(GR_BH_FP32, block, 32, m.l1[tile] + buf.addr);
        gr_bh_tile_put(GR_BH_FP32, block + 32 * 32, 32, m.l1[tile] + buf.addr + buf.m_stride);
    }
    gr_test_ok(gr_bh_read_io(p, &m.m, gr_bh_find_output(p, "x"), back, &err), &err);
    for (int i = 0; i < 50 * 96; i++) {
        const int r = i / 96 + 1, c = i % 96;
        assert_true(back[i] == (float)(10000 * (c / 32) + r * 32 + c % 32));
    }
    assert_int_equal(m.read, 3 * 50 * 128);
    bh_memory_free(&m);
    gr_bh_build_free(b);
}

static int taps_seen;
static void see(void *user, const char *name, const float *values, int rows, int cols)
{
    const struct bh_memory *m = user;
    char expected[32];
    (void)snprintf(expected, sizeof expected, "x%d", taps_seen++);
    assert_string_equal(name, expected);
    assert_true(rows == 2 && cols == 40 && values[79] == 0.0f);
    assert_true(m->started == 1);
}

static void a_request_runs_all_operations_with_and_without_taps(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_build *b = make(&three);
    struct gr_bh_buf x = gr_bh_alloc(b, "x", 1, 1, GR_BH_FP32);
    emit(b, 2);
    gr_bh_tap(b, "x0", x, GR_BH_COLUMNS, 0, 2, 40);
    gr_bh_tap(b, "x1", x, GR_BH_COLUMNS, 0, 2, 40);
    emit(b, 3);
    gr_bh_tap(b, "x2", x, GR_BH_COLUMNS, 0, 2, 40);
    emit(b, 1);
    const struct gr_bh_program *p = finished(b);
    struct bh_memory m = bh_memory_of(3);
    assert_int_equal(gr_bh_program_load(p, &m.m, &err), GR_OK);
    assert_int_equal(gr_bh_program_run(p, &m.m, NULL, NULL, &err), GR_OK);
    assert_true(m.runs == 1 && m.ran[0] == 6);
    taps_seen = 0;
    assert_int_equal(gr_bh_program_run(p, &m.m, see, &m, &err), GR_OK);
    assert_true(m.runs == 4 && m.ran[1] == 2 && m.ran[2] == 3 && m.ran[3] == 1 && taps_seen == 3);
    bh_memory_free(&m);
    gr_bh_build_free(b);
}

/* ---- builder, arena and interpreter ---- */

static float one_column(void *user, int r, int c)
{
    (void)user;
    (void)r;
    return c == 0 ? 1.0f : 0.0f;
}
enum { ROWS = 40, K = 70, N = 50, ROUNDS = 2 };
static uint16_t product_w[ROUNDS][N * K], product_b[ROUNDS][N]; /* [out, in] */
static const struct gr_tensor tensor_w[ROUNDS] = {
    {"one.w", GR_BF16, 2, {N, K}, product_w[0], sizeof product_w[0]},
    {"two.w", GR_BF16, 2, {N, K}, product_w[1], sizeof product_w[1]},
};
static const struct gr_tensor tensor_b[ROUNDS] = {
    {"one.b", GR_BF16, 1, {N}, product_b[0], sizeof product_b[0]},
    {"two.b", GR_BF16, 1, {N}, product_b[1], sizeof product_b[1]},
};
static const struct gr_bh_matrix products[ROUNDS] = {
    {"one", K, N, &tensor_w[0], &tensor_b[0], -1, NULL, NULL, NULL, 0},
    {"two", K, N, &tensor_w[1], &tensor_b[1], -1, NULL, NULL, NULL, 0},
};

static void make_weights(void)
{
    for (int p = 0; p < ROUNDS; p++) {
        for (int i = 0; i < N * K; i++) {
            product_w[p][i] = gr_bh_bf16((float)((i * 13 + p * 31) % 509 - 254) / 256.0f);
        }
        for (int j = 0; j < N; j++) {
            product_b[p][j] = gr_bh_bf16((float)(j * 3 % 90 + p) / 8.0f);
        }
    }
}

/* y [ROWS, N] = y0 + sum over rounds of x W + b, column n of y on tile n; z: y gathered on every tile. */
static void emit_product(struct gr_bh_build *b)
{
    struct gr_bh_buf e0 = gr_bh_constant(b, "e0", GR_BH_BF16, one_column, NULL),
                     eye = gr_bh_constant(b, "eye", GR_BH_BF16, diagonal, NULL);
    struct gr_bh_buf x = gr_bh_alloc(b, "x", 2, 3, GR_BH_BF16), y = gr_bh_alloc(b, "y", 2, 1, GR_BH_FP32);
    struct gr_bh_buf z = gr_bh_alloc(b, "z", 2, 2, GR_BH_FP32);
    gr_bh_input(b, (struct gr_bh_io){.name = "x", .buf = x, .place = GR_BH_EVERYWHERE, .rows = ROWS, .cols = K});
    gr_bh_input(b, (struct gr_bh_io){.name = "y0", .buf = y, .place = GR_BH_COLUMNS, .rows = ROWS, .cols = N});
    gr_bh_loop(b, ROUNDS, 0);
    for (int i = 0; i < ROUNDS; i++) {
        gr_bh_round(b, i);
        struct gr_bh_op *o = gr_bh_emit(b);
        for (int t = 0; t < 2; t++) {
            o[t].mt = 2, o[t].nt = 1, o[t].nseg = 2, o[t].flags = GR_BH_OP_ACCUMULATE, o[t].out = y.addr,
            o[t].out_m = y.m_stride;
            o[t].seg[0] = (struct gr_bh_segment){.flags = GR_BH_SEG_RING,
                                                 .fmt_a = GR_BH_BF16,
                                                 .fmt_b = GR_BH_BFP8,
                                                 .kcount = 3,
                                                 .a = x.addr,
                                                 .a_m = x.m_stride,
                                                 .a_k = x.n_stride,
                                                 .b_k = BFP8_TILE};
            o[t].seg[1] = (struct gr_bh_segment){.flags = GR_BH_SEG_RING,
                                                 .fmt_a = GR_BH_BF16,
                                                 .fmt_b = GR_BH_BF16,
                                                 .kcount = 1,
                                                 .a = e0.addr,
                                                 .b = 3 * BFP8_TILE};
            o[t].chunk = gr_bh_piece_add(
                b, t, 0,
                (struct gr_bh_piece){.kind = GR_BH_PIECE_COLUMN, .bias = true, .k1 = 3, .col = t, .w = &products[i]});
        }
    }
    gr_bh_loop_end(b);
    gr_bh_tap(b, "sum", y, GR_BH_COLUMNS, 0, ROWS, N);
    struct gr_bh_op *o = gr_bh_emit(b);
    for (int t = 0; t < 2; t++) {
        o[t].mt = 2, o[t].nt = 1, o[t].nseg = 1, o[t].flags = GR_BH_OP_BARRIER, o[t].out_m = o[t].to_m = z.m_stride;
        o[t].out = o[t].to = z.addr + (uint32_t)t * z.n_stride;
        o[t].seg[0] = (struct gr_bh_segment){
            .fmt_a = GR_BH_FP32, .fmt_b = GR_BH_BF16, .kcount = 1, .a = y.addr, .a_m = y.m_stride, .b = eye.addr};
        o[t].dest = gr_bh_dest_all(b, t, false);
        o[t].dests = 1;
    }
    gr_bh_output(b, (struct gr_bh_io){.name = "y", .buf = y, .place = GR_BH_COLUMNS, .rows = ROWS, .cols = N});
    gr_bh_output(b, (struct gr_bh_io){.name = "z", .buf = z, .place = GR_BH_EVERYWHERE, .rows = ROWS, .cols = N});
}

/* Column j of product w at (k, j), as the streams have it. */
static void rounded_weights(const struct gr_bh_matrix *w, double *out)
{
    for (int k = 0; k < 3; k++) {
        for (int col = 0; col < 2; col++) {
            uint8_t tile[BFP8_TILE];
            float v[32 * 32];
            gr_bh_piece_put(&(struct gr_bh_piece){.k0 = k, .k1 = k + 1, .col = col, .w = w}, GR_BH_BFP8, tile, NULL);
            gr_bh_tile_get(GR_BH_BFP8, tile, v, 32);
            for (int i = 0; i < 32 * 32; i++) {
                out[(k * 32 + i / 32) * 64 + col * 32 + i % 32] = (double)v[i];
            }
        }
    }
}

/* Worst |got - expected| over the sum of what was added: errors of aligned products grow with that. */
static double worst_error(const float *x, const float *y0, const float *got)
{
    static double w[ROUNDS][96 * 64];
    double worst = 0;
    for (int p = 0; p < ROUNDS; p++) {
        rounded_weights(&products[p], w[p]);
    }
    for (int r = 0; r < ROWS; r++) {
        for (int j = 0; j < N; j++) {
            double sum = (double)y0[r * N + j], size = fabs(sum);
            for (int p = 0; p < ROUNDS; p++) {
                const double b = (double)gr_bh_from_bf16(product_b[p][j]);
                sum += b;
                size += fabs(b);
                for (int i = 0; i < K; i++) {
                    sum += (double)x[r * K + i] * w[p][i * 64 + j];
                    size += fabs((double)x[r * K + i] * w[p][i * 64 + j]);
                }
            }
            worst = fmax(worst, fabs((double)got[r * N + j] - sum) / size);
        }
    }
    return worst;
}

static float tapped[ROWS * N];
static void keep_tap(void *user, const char *name, const float *values, int rows, int cols)
{
    (void)user;
    assert_string_equal(name, "sum");
    memcpy(tapped, values, (size_t)(rows * cols) * sizeof *values);
}

static float y[ROWS * N], z[ROWS * N];

/* Three requests; y and z are those of the last. */
static void run_product(struct gr_bh_machine *m, double bound)
{
    static float x[ROWS * K], y0[ROWS * N];
    struct gr_err err = {.msg = ""};
    struct gr_bh_build *b;
    struct gr_bh_arena *a;
    make_weights();
    b = make(&two);
    emit_product(b);
    const struct gr_bh_program *p = finished(b);
    const struct gr_bh_arena_cfg cfg = {.weights = GR_BH_BFP8, .threads = 1};
    gr_test_ok(gr_bh_arena_open(p->plan, 2, &cfg, &a, &err), &err);
    gr_test_ok(gr_bh_arena_upload(a, m, &err), &err);
    gr_test_ok(gr_bh_program_load(p, m, &err), &err);
    for (int request = 0; request < 3; request++) { /* streams start again */
        for (int i = 0; i < ROWS * K; i++) {
            x[i] = gr_bh_from_bf16(gr_bh_bf16((float)((i * 37 + request * 11) % 101 - 50) / 50.0f));
        }
        for (int i = 0; i < ROWS * N; i++) {
            y0[i] = (float)(i % 17 + request);
        }
        gr_test_ok(gr_bh_write_input(p, m, "x", x, &err), &err);
        gr_test_ok(gr_bh_write_input(p, m, "y0", y0, &err), &err);
        gr_test_ok(gr_bh_program_run(p, m, request == 1 ? keep_tap : NULL, NULL, &err), &err);
        gr_test_ok(gr_bh_read_io(p, m, gr_bh_find_output(p, "y"), y, &err), &err);
        gr_test_ok(gr_bh_read_io(p, m, gr_bh_find_output(p, "z"), z, &err), &err);
        const double e = worst_error(x, y0, y);
        if (e > bound) {
            fail_msg("request %d: %.2e, expected at most %.2e", request, e, bound);
        }
        for (int i = 0; i < ROWS * N; i++) {
            assert_true(fabsf(z[i] - y[i]) <=
                        fabsf(y[i]) / 512); /* read as tf32, of which the FPU takes 10 bits at least */
        }
        if (request == 1) {
            assert_memory_equal(tapped, y, sizeof y);
        }
    }
    m->ops->close(m);
    gr_bh_arena_close(a);
    gr_bh_build_free(b);
}

static struct gr_bh_machine *cpu(enum gr_bh_arithmetic arithmetic)
{
    struct gr_err err;
    struct gr_bh_machine *m;
    gr_test_ok(gr_bh_machine_cpu(&two, arithmetic, 2, &m, &err), &err);
    return m;
}

static void a_product_over_two_tiles_is_what_the_host_computes(void **state)
{
    (void)state;
    run_product(cpu(GR_BH_FAST), 1e-6);      /* fp32 sums of 142 terms */
    run_product(cpu(GR_BH_BIT_EXACT), 2e-4); /* aligned products: measured 7.6e-5; a fidelity phase less costs 1e-3 */
}

static void the_simulated_chip_gives_the_bits_of_the_interpreter(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_machine *m;
    static float cpu_y[ROWS * N], cpu_z[ROWS * N];
    const char *why;
    if (bh_simulator_path(&why) == NULL) {
        gr_test_skip("%s", why);
    }
    run_product(cpu(GR_BH_BIT_EXACT), 2e-4);
    memcpy(cpu_y, y, sizeof y);
    memcpy(cpu_z, z, sizeof z);
    gr_test_ok(gr_bh_machine_chip(bh_chip(), &two, 20000, &m, &err), &err);
    run_product(m, 2e-4);
    assert_memory_equal(y, cpu_y, sizeof y);
    assert_memory_equal(z, cpu_z, sizeof z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_writes_zeros_lists_and_constants),
        cmocka_unit_test(arrays_reach_their_tiles_and_come_back),
        cmocka_unit_test(rows_go_where_their_map_says),
        cmocka_unit_test(rows_of_zeros_go_to_all_tiles_at_once),
        cmocka_unit_test(of_an_output_only_its_rows_are_read),
        cmocka_unit_test(a_request_runs_all_operations_with_and_without_taps),
        cmocka_unit_test(a_product_over_two_tiles_is_what_the_host_computes),
        cmocka_unit_test(the_simulated_chip_gives_the_bits_of_the_interpreter),
    };
    return cmocka_run_group_tests(tests, NULL, bh_chip_close);
}
