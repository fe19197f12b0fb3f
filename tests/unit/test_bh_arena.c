/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_arena.c: weights as streams: every kind of matrix against element by element expectations, the same bytes for any number of
 * threads, its file under damage and in the place of another. */
#include "gr_test.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/arena.h"
#include "device/blackhole/tile_format.h"

enum { SLOTS = 3, IN = 75, OUT = 90, K = 70, N = 50, BF16_TILE = 2048, BFP8_TILE = 1088 };

/* Exact in bf16, not in bfp8_b. */
static float weight(int slot, int i, int c) { return (float)((slot * 31 + i * 7 + c * 13) % 509 - 254) / 256.0f; }
static float bias(int slot, int c) { return (float)((slot * 5 + c * 3) % 90 + 1) / 8.0f; }

static uint16_t linear_w[OUT * IN], linear_b[OUT], slots_w[SLOTS * IN * OUT], slots_b[SLOTS * OUT];
static const struct gr_tensor t_linear_w = {"linear.w", GR_BF16, 2, {OUT, IN}, linear_w, sizeof linear_w};
static const struct gr_tensor t_linear_b = {"linear.b", GR_BF16, 1, {OUT}, linear_b, sizeof linear_b};
static const struct gr_tensor t_slots_w = {"slots.w", GR_BF16, 3, {SLOTS, IN, OUT}, slots_w, sizeof slots_w};
static const struct gr_tensor t_slots_b = {"slots.b", GR_BF16, 2, {SLOTS, OUT}, slots_b, sizeof slots_b};
static float computed[N], scale[N], shift[N];
static int moved[N]; /* column map: backwards, some twice, some zeros */

static int set_up(void **state)
{
    (void)state;
    for (int s = 0; s < SLOTS; s++) {
        for (int c = 0; c < OUT; c++) {
            slots_b[s * OUT + c] = gr_bh_bf16(bias(s, c));
            for (int i = 0; i < IN; i++) {
                slots_w[(s * IN + i) * OUT + c] = gr_bh_bf16(weight(s, i, c));
            }
        }
    }
    for (int c = 0; c < OUT; c++) {
        linear_b[c] = gr_bh_bf16(bias(0, c));
        for (int i = 0; i < IN; i++) {
            linear_w[c * IN + i] = gr_bh_bf16(weight(0, i, c));
        }
    }
    for (int j = 0; j < N; j++) {
        computed[j] = (float)(j + 1) / 4.0f;
        scale[j] = (float)(j % 5) / 8.0f;
        shift[j] = -(float)(j + 1) / 2.0f;
        moved[j] = j % 7 == 3 ? -1 : OUT - 1 - j / 2;
    }
    return 0;
}

/* ---- pieces ---- */

static float at(const uint8_t *tiles, size_t size, enum gr_bh_format fmt, int k, int r, int c)
{
    float v[32 * 32];
    gr_bh_tile_get(fmt, tiles + (size_t)k * size, v, 32);
    return v[r * 32 + c];
}

static void check_column(const struct gr_bh_matrix *w, int k0, int k1, int col, bool with_bias)
{
    const struct gr_bh_piece p = {
        .kind = GR_BH_PIECE_COLUMN, .bias = with_bias, .k0 = k0, .k1 = k1, .col = col, .w = w};
    const size_t bytes = (size_t)(k1 - k0 + with_bias) * BF16_TILE;
    struct gr_bh_piece_error error;
    struct gr_err err = {.msg = ""};
    if (gr_bh_piece_check(&p, &err) != GR_OK) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(gr_bh_piece_bytes(&p, GR_BH_BF16), bytes);
    assert_int_equal(gr_bh_piece_bytes(&p, GR_BH_BFP8), (k1 - k0) * BFP8_TILE + with_bias * BF16_TILE);
    uint8_t *dst = malloc(bytes);
    memset(dst, 0x7f, bytes);
    gr_bh_piece_put(&p, GR_BH_BF16, dst, &error);
    assert_true(error.error == 0.0);
    double signal = 0;
    for (int i = k0 * 32; i < k1 * 32; i++) {
        for (int j = col * 32; j < col * 32 + 32; j++) {
            const int c = j >= w->n ? -1 : w->column != NULL ? w->column[j] : j;
            const float v = i < w->k && c >= 0 ? weight(w->slot < 0 ? 0 : w->slot, i, c) : 0.0f;
            assert_true(at(dst, BF16_TILE, GR_BH_BF16, i / 32 - k0, i % 32, j % 32) == v);
            signal += (double)v * v;
        }
    }
    assert_true(fabs(error.signal - signal) <= 1e-9 * signal);
    for (int j = 0; with_bias && j < 32 * 32; j++) {
        const int n = col * 32 + j % 32, c = n >= w->n ? -1 : w->column != NULL ? w->column[n] : n;
        const float from_b = w->b != NULL && c >= 0 ? bias(w->slot < 0 ? 0 : w->slot, c) : 0.0f;
        const float v = j >= 32 || n >= w->n ? 0.0f : w->bias != NULL ? w->bias[n] : from_b;
        assert_true(at(dst, BF16_TILE, GR_BH_BF16, k1 - k0, j / 32, j % 32) == v);
    }
    free(dst);
}

static void columns_come_from_the_right_places_padded_with_zeros(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        const struct gr_tensor *w = kind ? &t_slots_w : &t_linear_w, *b = kind ? &t_slots_b : &t_linear_b;
        const int slot = kind ? 2 : -1;
        for (int map = 0; map < 2; map++) {
            const int *column = map ? moved : NULL;
            const struct gr_bh_matrix plain = {"plain", K, N, w, b, slot, column, NULL, NULL, 0};
            const struct gr_bh_matrix given = {"given", K, N, w, NULL, slot, column, computed, NULL, 0};
            const struct gr_bh_matrix none = {"none", K, N, w, NULL, slot, column, NULL, NULL, 0};
            check_column(&plain, 0, 3, 0, true);
            check_column(&plain, 1, 3, 1, true); /* the last tiles of both sides are partly padding */
            check_column(&plain, 0, 2, 1, false);
            check_column(&given, 2, 3, 1, true);
            check_column(&none, 0, 1, 0, true);
        }
    }
}

static void rows_come_from_the_right_places(void **state)
{
    (void)state;
    int map[K];
    for (int i = 0; i < K; i++) {
        map[i] = i % 5 == 2 ? -1 : IN - 1 - i / 2;
    }
    struct gr_bh_matrix w = {"rows", K, N, &t_linear_w, NULL, -1, moved, NULL, map, 0};
    struct gr_bh_piece p = {.kind = GR_BH_PIECE_COLUMN, .k0 = 1, .k1 = 3, .col = 1, .w = &w};
    struct gr_err err;
    uint8_t dst[2 * BF16_TILE];
    gr_test_ok(gr_bh_piece_check(&p, &err), &err);
    gr_bh_piece_put(&p, GR_BH_BF16, dst, NULL);
    for (int i = 32; i < 96; i++) {
        for (int j = 32; j < 64; j++) {
            const int r = i < K ? map[i] : -1, c = j < N ? moved[j] : -1;
            const float v = r >= 0 && c >= 0 ? weight(0, r, c) : 0.0f;
            assert_true(at(dst, BF16_TILE, GR_BH_BF16, i / 32 - 1, i % 32, j % 32) == v);
        }
    }
    uint8_t again[2 * BF16_TILE];
    w.fmt = GR_BH_BF16; /* of its own, whatever the others have */
    assert_int_equal(gr_bh_piece_bytes(&p, GR_BH_BFP8), sizeof again);
    gr_bh_piece_put(&p, GR_BH_BFP8, again, NULL);
    assert_memory_equal(dst, again, sizeof again);
    map[40] = IN;
    gr_test_fails(gr_bh_piece_check(&p, &err), &err, GR_ERR_DEVICE, "row");
    map[40] = 0;
    w.w = &t_slots_w;
    w.slot = 0;
    gr_test_fails(gr_bh_piece_check(&p, &err), &err, GR_ERR_DEVICE, "cannot give");
}

static void arrays_computed_at_load_are_tiles_of_theirs(void **state)
{
    (void)state;
    static float rows[64 * 40];
    for (int i = 0; i < 64 * 40; i++) {
        rows[i] = (float)(i % 251);
    }
    struct gr_bh_piece p = {.kind = GR_BH_PIECE_ROWS, .k0 = 1, .k1 = 2, .col = 1, .n = 40, .rows = rows};
    struct gr_err err;
    uint8_t dst[BF16_TILE];
    gr_test_ok(gr_bh_piece_check(&p, &err), &err);
    assert_int_equal(gr_bh_piece_bytes(&p, GR_BH_BFP8), BF16_TILE);
    gr_bh_piece_put(&p, GR_BH_BFP8, dst, NULL);
    for (int i = 0; i < 32 * 32; i++) {
        const int r = 32 + i / 32, c = 32 + i % 32;
        assert_true(at(dst, BF16_TILE, GR_BH_BF16, 0, i / 32, i % 32) == (c < 40 ? rows[r * 40 + c] : 0.0f));
    }
    p.col = 2;
    gr_test_fails(gr_bh_piece_check(&p, &err), &err, GR_ERR_DEVICE, "rows of 40");
}

static void bfp8_columns_are_tiles_of_the_same_blocks(void **state)
{
    (void)state;
    const struct gr_bh_matrix w = {"w", K, N, &t_linear_w, &t_linear_b, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_piece p = {.kind = GR_BH_PIECE_COLUMN, .bias = true, .k0 = 1, .k1 = 2, .col = 0, .w = &w};
    uint8_t got[BFP8_TILE + BF16_TILE], expected[BFP8_TILE];
    float block[32 * 32], rounded[32 * 32];
    struct gr_bh_piece_error error;
    for (int i = 0; i < 32 * 32; i++) {
        block[i] = weight(0, 32 + i / 32, i % 32);
    }
    gr_bh_tile_put(GR_BH_BFP8, block, 32, expected);
    gr_bh_tile_get(GR_BH_BFP8, expected, rounded, 32);
    double sum = 0;
    for (int i = 0; i < 32 * 32; i++) {
        sum += ((double)rounded[i] - block[i]) * ((double)rounded[i] - block[i]);
    }
    gr_bh_piece_put(&p, GR_BH_BFP8, got, &error);
    assert_memory_equal(got, expected, BFP8_TILE);
    assert_true(error.error == sum);
    assert_true(at(got + BFP8_TILE, 0, GR_BH_BF16, 0, 0, 31) == bias(0, 31));
}

static void tensors_beyond_the_range_are_refused(void **state)
{
    (void)state;
    const float broken[] = {NAN, INFINITY, -INFINITY, 65536.0f, -1e30f};
    for (int i = 0; i < 10; i++) {
        float w[2 * 2] = {1, 2, 3, 4}, b[2] = {5, 6};
        (i < 5 ? w : b)[1] = broken[i % 5];
        const struct gr_tensor tw = {.name = "w", .dtype = GR_F32, .ndim = 2, .shape = {2, 2}, .data = w};
        const struct gr_tensor tb = {.name = "b", .dtype = GR_F32, .ndim = 1, .shape = {2}, .data = b};
        const struct gr_bh_matrix m = {.name = "some.weight", .k = 2, .n = 2, .w = &tw, .b = &tb, .slot = -1};
        const struct gr_bh_piece p = {.kind = GR_BH_PIECE_COLUMN, .bias = true, .k1 = 1, .w = &m};
        struct gr_bh_stream_plan plan[GR_BH_STREAMS] = {
            {.piece = &p, .pieces = 1, .bytes = gr_bh_piece_bytes(&p, GR_BH_BFP8)}};
        const struct gr_bh_arena_cfg cfg = {.weights = GR_BH_BFP8, .threads = 1};
        struct gr_bh_arena *arena = NULL;
        struct gr_err err;
        gr_test_fails(gr_bh_arena_open(plan, 1, &cfg, &arena, &err), &err, GR_ERR_FORMAT,
                      "tensor some.weight or its bias holds NaN or a magnitude of 65536 or more");
    }
}

static void modulations_are_one_plus_scale_and_shift_in_row_0(void **state)
{
    (void)state;
    const struct gr_bh_piece p = {.kind = GR_BH_PIECE_MODULATE, .col = 1, .scale = scale, .shift = shift, .n = N};
    uint8_t dst[2 * BF16_TILE];
    struct gr_err err;
    assert_int_equal(gr_bh_piece_check(&p, &err), GR_OK);
    assert_int_equal(gr_bh_piece_bytes(&p, GR_BH_BFP8), sizeof dst);
    memset(dst, 0x7f, sizeof dst);
    gr_bh_piece_put(&p, GR_BH_BFP8, dst, NULL);
    for (int i = 0; i < 32 * 32; i++) {
        const int r = i / 32, c = i % 32, n = 32 + c;
        assert_true(at(dst, BF16_TILE, GR_BH_BF16, 0, r, c) == (n < N ? 1.0f + scale[n] : 0.0f));
        assert_true(at(dst, BF16_TILE, GR_BH_BF16, 1, r, c) == (n < N && r == 0 ? shift[n] : 0.0f));
    }
}

static void pieces_that_would_read_past_a_tensor_are_refused(void **state)
{
    (void)state;
    static const int far[N] = {OUT};
    static const struct gr_tensor whole = {"whole", GR_I32, 2, {OUT, IN}, linear_w, sizeof linear_w}, absent = {0};
    const struct gr_bh_matrix tall = {"tall", IN + 1, N, &t_linear_w, NULL, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix wide = {"wide", K, OUT + 1, &t_linear_w, NULL, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix map = {"map", K, N, &t_linear_w, NULL, -1, far, NULL, NULL, 0};
    const struct gr_bh_matrix slot = {"slot", K, N, &t_slots_w, NULL, SLOTS, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix flat = {"flat", K, N, &t_linear_w, NULL, 0, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix type = {"type", K, N, &whole, NULL, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix none = {"none", K, N, &absent, NULL, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix other = {"other", K, N, &t_linear_w, &t_slots_b, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_matrix good = {"good", K, N, &t_linear_w, NULL, -1, NULL, NULL, NULL, 0};
    const struct gr_bh_piece cases[] = {
        {.k1 = 3, .col = 0, .w = &tall},
        {.k1 = 3, .col = 2, .w = &wide},
        {.k1 = 3, .col = 0, .w = &map},
        {.k1 = 3, .col = 0, .w = &slot},
        {.k1 = 3, .col = 0, .w = &flat},
        {.k1 = 3, .col = 0, .w = &type},
        {.k1 = 3, .w = &none},
        {.k1 = 3, .col = 0, .w = &other},
        {.k1 = 4, .col = 0, .w = &good},
        {.k1 = 3, .col = 2, .w = &good},
        {.k0 = 1, .k1 = 1, .w = &good},
        {.k1 = 1, .col = -1, .w = &good},
        {.k1 = 1, .w = NULL},
        {.kind = GR_BH_PIECE_MODULATE, .scale = scale, .shift = shift, .n = N, .col = 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_err err;
        assert_int_equal(gr_bh_piece_check(&cases[i], &err), GR_ERR_DEVICE);
        assert_true(strncmp(err.msg, "stream: ", 8) == 0);
    }
}

/* ---- arenas ---- */

enum { TILES = 3, PIECES = 40 };
static const struct gr_bh_matrix matrices[] = {
    {"first", K, N, &t_linear_w, &t_linear_b, -1, NULL, NULL, NULL, 0},
    {"second", K, N, &t_slots_w, &t_slots_b, 1, moved, NULL, NULL, 0},
    {"third", K, N, &t_slots_w, NULL, 1, NULL, computed, NULL, 0},
};

struct some_plan {
    struct gr_bh_piece piece[TILES * GR_BH_STREAMS][PIECES];
    struct gr_bh_stream_plan stream[TILES * GR_BH_STREAMS];
};

static void make_plan(struct some_plan *p, enum gr_bh_format fmt)
{
    uint64_t end[TILES] = {4096, 8192, 64};
    for (int s = 0; s < TILES * GR_BH_STREAMS; s++) {
        p->stream[s] = (struct gr_bh_stream_plan){.piece = p->piece[s], .channel = s / 2, .addr = end[s / 2]};
        for (int i = 0; i < (s == 3 ? 0 : PIECES - s); i++) {
            p->piece[s][i] = i % 4 == 3
                                 ? (struct gr_bh_piece){.kind = GR_BH_PIECE_MODULATE,
                                                        .col = s % 2,
                                                        .scale = scale,
                                                        .shift = shift,
                                                        .n = N}
                                 : (struct gr_bh_piece){
                                       .bias = i % 3 > 0, .k0 = s % 2, .k1 = 3, .col = i % 2, .w = &matrices[i % 4]};
            p->stream[s].pieces++;
            p->stream[s].bytes += gr_bh_piece_bytes(&p->piece[s][i], fmt);
        }
        end[s / 2] += p->stream[s].bytes;
    }
}

static struct gr_bh_arena *open_arena(const struct some_plan *p, const struct gr_bh_arena_cfg *cfg)
{
    struct gr_err err = {.msg = ""};
    struct gr_bh_arena *a = NULL;
    if (gr_bh_arena_open(p->stream, TILES, cfg, &a, &err) != GR_OK) {
        fail_msg("%s", err.msg);
    }
    return a;
}

static void check_bytes(const struct some_plan *p, const struct gr_bh_arena *a, enum gr_bh_format fmt)
{
    uint64_t sum = 0;
    for (int s = 0; s < TILES * GR_BH_STREAMS; s++) {
        const uint8_t *got = gr_bh_arena_stream(a, s / GR_BH_STREAMS, s % GR_BH_STREAMS);
        for (size_t i = 0; i < p->stream[s].pieces; i++) {
            uint8_t expected[4 * BF16_TILE];
            const size_t n = gr_bh_piece_bytes(&p->piece[s][i], fmt);
            gr_bh_piece_put(&p->piece[s][i], fmt, expected, NULL);
            assert_memory_equal(got, expected, n);
            got += n;
        }
        sum += p->stream[s].bytes;
    }
    assert_int_equal(gr_bh_arena_bytes(a), sum);
}

static struct some_plan plan;

static void streams_are_their_pieces_for_any_number_of_threads(void **state)
{
    (void)state;
    const enum gr_bh_format formats[] = {GR_BH_BF16, GR_BH_BFP8};
    for (int i = 0; i < 4; i++) {
        const struct gr_bh_arena_cfg cfg = {.weights = formats[i / 2], .threads = i % 2 ? 3 : 1};
        make_plan(&plan, cfg.weights);
        struct gr_bh_arena *a = open_arena(&plan, &cfg);
        check_bytes(&plan, a, cfg.weights);
        assert_int_equal(gr_bh_arena_cache(a), GR_CACHE_OFF);
        gr_bh_arena_close(a);
    }
}

static void a_plan_that_does_not_fit_its_pieces_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_bh_arena *a;
    make_plan(&plan, GR_BH_BFP8);
    const struct gr_bh_arena_cfg cfg = {.weights = GR_BH_BF16, .threads = 1};
    assert_int_equal(gr_bh_arena_open(plan.stream, TILES, &cfg, &a, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "stream 0 of tile 0: its pieces have"));
}

static char report[3][64];
static int lines;
static void keep_line(void *user, const char *text)
{
    (void)user;
    assert_true(lines < 3);
    (void)snprintf(report[lines++], sizeof report[0], "%s", text);
}

static void the_report_has_every_matrix_largest_error_first(void **state)
{
    (void)state;
    static char first[3][64];
    make_plan(&plan, GR_BH_BFP8);
    for (int threads = 1; threads <= 3; threads += 2) {
        struct gr_bh_arena *a = open_arena(&plan, &(struct gr_bh_arena_cfg){.weights = GR_BH_BFP8, .threads = threads});
        lines = 0;
        gr_bh_arena_report(a, keep_line, NULL);
        gr_bh_arena_close(a);
        assert_int_equal(lines, 3);
        if (threads == 1) {
            memcpy(first, report, sizeof first);
        }
        assert_memory_equal(first, report, sizeof first);
    }
    double last = 1;
    for (int i = 0; i < 3; i++) {
        const double e = strtod(strchr(report[i], '\t') + 1, NULL);
        assert_true(e > 1e-3 && e < 1e-2 && e <= last); /* 7 bits for 16 values of one exponent */
        last = e;
    }
}

struct dram {
    struct gr_bh_machine m;
    uint8_t bytes[TILES][6 << 20];
    size_t written;
};
static enum gr_status dram_write(struct gr_bh_machine *m, int channel, uint64_t addr, const void *src, size_t bytes,
                                 struct gr_err *err)
{
    struct dram *d = (struct dram *)m;
    (void)err;
    assert_true(channel < TILES && addr + bytes <= sizeof d->bytes[0]);
    memcpy(d->bytes[channel] + addr, src, bytes);
    d->written += bytes;
    return GR_OK;
}

static uint64_t shown;
static void show(void *user, const char *what, uint64_t done, uint64_t total)
{
    (void)user;
    if (strcmp(what, "upload weights") == 0) {
        assert_true(done > shown && done <= total);
        shown = done;
    }
}

static void upload_puts_every_stream_where_the_plan_says(void **state)
{
    (void)state;
    static const struct gr_bh_machine_ops ops = {.dram_write = dram_write};
    static struct dram d = {.m = {.ops = &ops}};
    struct gr_err err;
    make_plan(&plan, GR_BH_BFP8);
    struct gr_bh_arena *a =
        open_arena(&plan, &(struct gr_bh_arena_cfg){.weights = GR_BH_BFP8, .threads = 2, .progress = show});
    assert_int_equal(gr_bh_arena_upload(a, &d.m, &err), GR_OK);
    for (int s = 0; s < TILES * GR_BH_STREAMS; s++) {
        assert_memory_equal(d.bytes[plan.stream[s].channel] + plan.stream[s].addr, gr_bh_arena_stream(a, s / 2, s % 2),
                            plan.stream[s].bytes);
    }
    assert_int_equal(d.written, gr_bh_arena_bytes(a));
    assert_int_equal(shown, d.written);
    gr_bh_arena_close(a);
}

static void long_streams_are_uploaded_in_parts(void **state)
{
    (void)state;
    static const struct gr_bh_machine_ops ops = {.dram_write = dram_write};
    static struct dram d = {.m = {.ops = &ops}};
    enum { MANY = 650, BYTES = 4 * BF16_TILE };
    static struct gr_bh_piece piece[MANY];
    struct gr_bh_stream_plan streams[GR_BH_STREAMS] = {
        {.piece = piece, .pieces = MANY, .bytes = MANY * BYTES, .addr = 640}};
    struct gr_err err = {.msg = ""};
    struct gr_bh_arena *a;
    for (int i = 0; i < MANY; i++) {
        piece[i] = (struct gr_bh_piece){.bias = true, .k1 = 3, .col = i % 2, .w = &matrices[i % 3]};
    }
    const struct gr_bh_arena_cfg cfg = {.weights = GR_BH_BF16, .threads = 2};
    gr_test_ok(gr_bh_arena_open(streams, 1, &cfg, &a, &err), &err);
    gr_test_ok(gr_bh_arena_upload(a, &d.m, &err), &err);
    assert_int_equal(d.written, MANY * BYTES);
    assert_memory_equal(d.bytes[0] + 640, gr_bh_arena_stream(a, 0, 0), MANY * BYTES);
    gr_bh_arena_close(a);
}

/* ---- the file ---- */

static int files_in(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    (void)closedir(d);
    return n;
}

/* Opens with the cache, checks the bytes, and keeps path and note. */
static enum gr_cache_state through_cache(const char *dir, const char *digest, char path[GR_ERR_MSG_BYTES],
                                         char note[GR_ERR_MSG_BYTES])
{
    const struct gr_bh_arena_cfg cfg = {
        .weights = GR_BH_BFP8, .threads = 2, .cache_dir = dir, .weights_digest = digest};
    make_plan(&plan, GR_BH_BFP8);
    struct gr_bh_arena *a = open_arena(&plan, &cfg);
    check_bytes(&plan, a, GR_BH_BFP8);
    const enum gr_cache_state found = gr_bh_arena_cache(a);
    (void)snprintf(path, GR_ERR_MSG_BYTES, "%s", gr_bh_arena_file(a));
    (void)snprintf(note, GR_ERR_MSG_BYTES, "%s", gr_bh_arena_note(a));
    lines = 0;
    gr_bh_arena_report(a, keep_line, NULL);
    assert_int_equal(lines, found == GR_CACHE_WARM ? 0 : 3);
    gr_bh_arena_close(a);
    return found;
}

static void the_file_is_used_when_it_is_whole_and_of_these_weights(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    char path[GR_ERR_MSG_BYTES], other[GR_ERR_MSG_BYTES], note[GR_ERR_MSG_BYTES];
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
    assert_string_equal(note, "");
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WARM);
    assert_int_equal(through_cache(dir, "abd", other, note),
                     GR_CACHE_WRITTEN); /* other weights have a file of their own */
    assert_string_not_equal(path, other);
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
    assert_non_null(strstr(note, "belongs to other weights"));
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WARM);
}

static void a_damaged_file_is_built_anew(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    char path[GR_ERR_MSG_BYTES], note[GR_ERR_MSG_BYTES];
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
    for (int i = 0; i < 2; i++) {
        size_t n;
        uint8_t *bytes = gr_test_read(path, &n);
        bytes[i ? n - 5 : 30] ^= 1; /* header, last stream */
        gr_test_write(path, bytes, n);
        free(bytes);
        assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
        assert_non_null(strstr(note, "damaged"));
        assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WARM);
    }
    assert_int_equal(files_in(dir), 1);
}

static void whatever_changes_the_bytes_changes_the_file(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    char path[GR_ERR_MSG_BYTES], note[GR_ERR_MSG_BYTES];
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
    float *const values[] = {&computed[0], &scale[0], &shift[40]};
    for (int i = 0; i < 3; i++) {
        const float before = *values[i];
        *values[i] += 1.0f;
        assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
        *values[i] = before;
    }
    moved[N - 1]++;
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WRITTEN);
    moved[N - 1]--;
    assert_int_equal(through_cache(dir, "abc", path, note), GR_CACHE_WARM);
    assert_int_equal(files_in(dir), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_come_from_the_right_places_padded_with_zeros),
        cmocka_unit_test(rows_come_from_the_right_places),
        cmocka_unit_test(tensors_beyond_the_range_are_refused),
        cmocka_unit_test(arrays_computed_at_load_are_tiles_of_theirs),
        cmocka_unit_test(bfp8_columns_are_tiles_of_the_same_blocks),
        cmocka_unit_test(modulations_are_one_plus_scale_and_shift_in_row_0),
        cmocka_unit_test(pieces_that_would_read_past_a_tensor_are_refused),
        cmocka_unit_test(streams_are_their_pieces_for_any_number_of_threads),
        cmocka_unit_test(a_plan_that_does_not_fit_its_pieces_is_refused),
        cmocka_unit_test(the_report_has_every_matrix_largest_error_first),
        cmocka_unit_test(upload_puts_every_stream_where_the_plan_says),
        cmocka_unit_test(long_streams_are_uploaded_in_parts),
        cmocka_unit_test(the_file_is_used_when_it_is_whole_and_of_these_weights),
        cmocka_unit_test(a_damaged_file_is_built_anew),
        cmocka_unit_test(whatever_changes_the_bytes_changes_the_file),
    };
    return cmocka_run_group_tests(tests, set_up, gr_test_temp_clean);
}
