/* SPDX-License-Identifier: Apache-2.0
 *
 * check_quant.c: products in the low-precision formats. Scalar is checked against a double-precision loop over the packed numbers. The
 * integer formats must then give its bits in every set, up to the roundings of an activation function; the float formats are each
 * checked against the loop.
 *
 * Tolerances of float sums, S = sum |a w|: as in check_gemm.c, at most L roundings in a chain, each EPS (half sums: HALF_EPS) times a partial
 * sum; 2 sqrt(L) of them for random operands, L where all have one sign and one size. Half sums run over at most 128 k and may be
 * subnormal, where a rounding is absolute. */
#include "check_operands.h"

#include <math.h>
#include <string.h>

enum {
    SLOT_OVERRIDE = SLOT_FREE,
    SLOT_OUT,
    SLOT_SCRATCH,
    SLOT_START,
    SLOT_WANT,
    SLOT_PART,
    SLOT_PART_SCALE,
    SLOT_PART_ZERO,
    SLOT_KEEP
};
enum { HALF_CHAIN = 128 };
#define HALF_EPS 4.8828125e-4 /* half a unit in the last place of 1.0 as half */
#define HALF_TINY 2.98023224e-8

static const enum gr_mat_format formats[] = {GR_MAT_I8, GR_MAT_I16, GR_MAT_F16, GR_MAT_BF16P};
enum { FORMATS = sizeof formats / sizeof *formats };

struct product {
    int m, n, k;
    enum gr_mat_format format;
    enum gr_epilogue epilogue;
    int override_bias, gap; /* gap: columns between rows of out */
    enum check_operand_kind kind;
};

struct buffers {
    struct check_weights w;
    struct check_acts x;
    float *instead, *out, *start;
    size_t out_count;
    int ldo;
};

static const char *const epilogue_name[] = {"store", "add", "gelu_tanh", "gelu_erf", "silu", "relu", "silu_mul"};

static int gate_up(const struct product *c) { return c->epilogue == GR_EPI_SILU_MUL; }
static int out_columns(const struct product *c) { return gate_up(c) ? c->n / 2 : c->n; }
static int is_integer(enum gr_mat_format f) { return f == GR_MAT_I8 || f == GR_MAT_I16; }

static void name_case(const struct product *c)
{
    check_case("m %d n %d k %d %s %s%s kind %d", c->m, c->n, c->k, gr_format_name(c->format),
               epilogue_name[c->epilogue], c->override_bias ? " own bias" : "", (int)c->kind);
}

/* y of row r with row `j` of the weights, which stands at `column` of the panels. */
static struct check_result sum_of(const struct product *c, const struct buffers *b, int r, int j, int column)
{
    const float *x = b->x.meant + (size_t)r * (size_t)c->k, *w = b->w.meant + (size_t)j * (size_t)c->k;
    const double bias = (double)(c->override_bias ? b->instead : b->w.mat.bias)[column];
    double t = 0.0, size = 0.0;
    for (int i = 0; i < c->k; i++) {
        t += (double)x[i] * (double)w[i];
        size += fabs((double)x[i] * (double)w[i]);
    }
    if (c->format == GR_MAT_BF16P) {
        const double chain = c->kind == OPERANDS_WORST ? c->k : 2.0 * sqrt(c->k + 2);
        return (struct check_result){t + bias,
                                     EPS * (chain * size + 2.0 * fabs(bias) + 2.0 * fabs(t)) + c->k * 1.2e-38};
    }
    const double scale = (double)b->w.mat.scale[column] * (double)b->x.acts.scale[r];
    if (c->format == GR_MAT_I8) {
        const double shift = (double)b->x.acts.zero[r] * (double)b->w.mat.offset[column];
        return (struct check_result){t * scale + shift + bias,
                                     4.0 * EPS * (fabs(t * scale) + fabs(shift) + fabs(bias))};
    }
    double error = EPS * ((c->k / HALF_CHAIN + 4) * size * scale + 2.0 * fabs(bias));
    if (c->format == GR_MAT_F16) {
        const double links = fmin(c->k, HALF_CHAIN), chain = c->kind == OPERANDS_WORST ? links : 2.0 * sqrt(links + 2);
        error += (HALF_EPS * chain * size + HALF_TINY * c->k) * scale;
    }
    return (struct check_result){t * scale + bias, error};
}

/* What out[r][j] must be, given what stood there; functions: roundings of the activation function alone. */
static struct check_result expected(const struct product *c, const struct buffers *b, int r, int j, float before,
                                    double *functions)
{
    if (gate_up(c)) {
        const struct check_result u = sum_of(c, b, r, c->n / 2 + j, check_column_at(j, 1, 1));
        const struct check_result y = sum_of(c, b, r, j, check_column_at(j, 1, 0)), g = check_activate(GR_EPI_SILU, y);
        *functions = 20.0 * EPS * fabs(y.y * u.y) + 1e-37;
        return (struct check_result){g.y * u.y, g.error * fabs(u.y) + u.error * fabs(g.y) + g.error * u.error +
                                                    2.0 * EPS * fabs(g.y * u.y) + 1e-37};
    }
    struct check_result v = sum_of(c, b, r, j, j);
    *functions = 20.0 * EPS * fabs(v.y) + 1e-44;
    if (c->epilogue == GR_EPI_ADD) {
        v.y += (double)before;
        v.error += 2.0 * EPS * fabs(v.y);
    }
    return check_activate(c->epilogue, v);
}

static struct buffers prepare(const struct product *c)
{
    struct buffers b = {.ldo = out_columns(c) + c->gap};
    b.w = check_make_weights(c->format, c->n, c->k, gate_up(c), c->kind);
    b.x = check_make_acts(gr_mat_rows(c->format), c->m, c->k, c->kind);
    const size_t columns = (size_t)b.w.mat.panels * (size_t)gr_mat_cols(c->format);
    b.instead = check_floats(SLOT_OVERRIDE, columns);
    check_fill(b.instead, columns, FAMILY_NORMAL);
    b.out_count = (size_t)(c->m - 1) * (size_t)b.ldo + (size_t)out_columns(c);
    b.start = check_floats(SLOT_START, b.out_count);
    for (int r = 0; r < c->m; r++) {
        check_fill(b.start + (size_t)r * (size_t)b.ldo, (size_t)out_columns(c), FAMILY_NORMAL);
    }
    b.out = check_floats(SLOT_OUT, b.out_count);
    return b;
}

/* Runs all panels in random pieces; every other piece knows what comes next. */
static void run(const struct product *c, const struct buffers *b, int s)
{
    memcpy(b->out, b->start, b->out_count * sizeof(float));
    struct gr_gemm g = {.w = &b->w.mat,
                        .a = &b->x.acts,
                        .bias = c->override_bias ? b->instead : NULL,
                        .out = b->out,
                        .ldo = b->ldo,
                        .epilogue = c->epilogue};
    void *scratch = check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(c->m));
    for (int p = 0; p < g.w->panels;) {
        const int end = p + 1 + check_below(g.w->panels - p);
        g.next = check_below(2) ? b->w.mat.data : NULL;
        g.next_bytes = g.next != NULL ? gr_mat_panel_bytes(g.w) : 0;
        check_sets[s].gemm[c->format](&g, p, end, scratch);
        p = end;
    }
    check_slots(s);
}

static void check_product(const struct product *c)
{
    const struct buffers b = prepare(c);
    const size_t cols = (size_t)out_columns(c);
    struct want {
        double y, error, functions;
        float scalar;
    } *want = check_slot(SLOT_WANT, (size_t)c->m * cols * sizeof *want);
    name_case(c);
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, gemm[c->format])) {
            continue;
        }
        run(c, &b, s);
        for (int r = 0; r < c->m; r++) {
            const float *row = b.out + (size_t)r * (size_t)b.ldo;
            for (int j = 0; j < (int)cols; j++) {
                struct want *v = want + (size_t)r * cols + (size_t)j;
                if (s == 0) {
                    const float before = b.start[(size_t)r * (size_t)b.ldo + (size_t)j];
                    const struct check_result e = expected(c, &b, r, j, before, &v->functions);
                    v->y = e.y;
                    v->error = e.error;
                    v->scalar = row[j];
                }
                if (s == 0 || !is_integer(c->format)) {
                    check_near(s, "out", r, j, (double)row[j], v->y, v->error);
                } else if (c->epilogue == GR_EPI_STORE || c->epilogue == GR_EPI_ADD || c->epilogue == GR_EPI_RELU) {
                    check_true(s, "an integer product has other bits than scalar's",
                               memcmp(row + j, &v->scalar, sizeof *row) == 0);
                } else {
                    check_near(s, "out", r, j, (double)row[j], (double)v->scalar, v->functions);
                }
            }
            for (int j = (int)cols; j < b.ldo && r + 1 < c->m; j++) {
                check_true(s, "a column beyond n was written", check_is_canary(row[j]));
            }
        }
    }
}

static void small_sizes(void)
{
    check_begin("quantised gemm: odd sizes, all epilogues, all formats");
    for (int m = 1; m <= 60; m++) {
        for (int f = 0; f < FORMATS; f++) {
            struct product c = {.m = m,
                                .n = 1 + check_below(140),
                                .k = 1 + check_below(300),
                                .format = formats[f],
                                .epilogue = (enum gr_epilogue)check_below(GR_EPI_SILU_MUL + 1),
                                .override_bias = check_below(2),
                                .gap = check_below(3) * check_below(40),
                                .kind = check_below(4) == 0 ? OPERANDS_SPREAD : OPERANDS_RANDOM};
            c.n += gate_up(&c) && c.n % 2;
            check_product(&c);
        }
    }
    for (int e = 0; e <= GR_EPI_SILU_MUL; e++) { /* every n around the widths of vectors and panels */
        for (int n = 1; n <= 132; n += n < 70 ? 1 : 5) {
            for (int f = 0; f < FORMATS; f++) {
                check_product(&(struct product){.m = 1 + check_below(14),
                                                .n = e == GR_EPI_SILU_MUL ? 2 * n : n,
                                                .k = 1 + check_below(70),
                                                .format = formats[f],
                                                .epilogue = (enum gr_epilogue)e,
                                                .gap = n % 3});
            }
        }
    }
    check_end();
}

static void large_sizes(void)
{
    check_begin("quantised gemm: long k and many rows");
    static const int big[][3] = {{324, 37, 588}, {324, 34, 1152}, {51, 66, 1536}, {116, 33, 2048}, {81, 35, 4304},
                                 {84, 65, 1537}, {13, 65, 4304},  {7, 40, 6144},  {1, 64, 6143},   {116, 96, 588}};
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        for (int f = 0; f < FORMATS; f++) {
            static const enum gr_epilogue some[] = {GR_EPI_STORE, GR_EPI_ADD, GR_EPI_GELU_TANH};
            check_product(&(struct product){.m = big[i][0],
                                            .n = big[i][1],
                                            .k = big[i][2],
                                            .format = formats[f],
                                            .epilogue = some[(i + (size_t)f) % 3],
                                            .gap = 5});
        }
    }
    for (int f = 0; f < FORMATS; f++) {
        check_product(
            &(struct product){.m = 116, .n = 192, .k = 512, .format = formats[f], .epilogue = GR_EPI_SILU_MUL});
    }
    check_end();
    check_begin("quantised gemm: the largest sums that can occur");
    for (int f = 0; f < FORMATS; f++) {
        for (int e = 0; e <= GR_EPI_SILU_MUL; e++) {
            check_product(&(struct product){.m = 14,
                                            .n = 66,
                                            .k = 6144,
                                            .format = formats[f],
                                            .epilogue = (enum gr_epilogue)e,
                                            .kind = OPERANDS_WORST});
        }
    }
    check_end();
}

/* The same rows alone, in other company, at other places of a tile, panels in other pieces: the same bits. */
static void independence(void)
{
    check_begin("quantised gemm: a row's bits do not depend on the other rows or on pieces");
    for (int i = 0; i < FORMATS * (GR_EPI_SILU_MUL + 1); i++) {
        const struct product all = {.m = 116,
                                    .n = 134,
                                    .k = 840 + i,
                                    .format = formats[i % FORMATS],
                                    .epilogue = (enum gr_epilogue)(i / FORMATS)};
        struct buffers b = prepare(&all);
        const int cols = out_columns(&all);
        float *keep = check_floats(SLOT_KEEP, b.out_count);
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, gemm[all.format])) {
                continue;
            }
            name_case(&all);
            run(&all, &b, s);
            memcpy(keep, b.out, b.out_count * sizeof(float));
            run(&all, &b, s);
            check_same(s, "second run", b.out, keep, b.out_count);
            for (int m = 1; m <= 60; m = m < 14 ? m + 1 : m + 23) {
                const int first = check_below(all.m - m + 1);
                const size_t at = (size_t)first * (size_t)cols, count = (size_t)m * (size_t)cols;
                check_case("m %d from row %d n %d k %d %s %s", m, first, all.n, all.k, gr_format_name(all.format),
                           epilogue_name[all.epilogue]);
                const struct gr_acts acts =
                    check_part_of_acts(&b.x.acts, first, m, SLOT_PART, SLOT_PART_SCALE, SLOT_PART_ZERO);
                float *out = check_floats(SLOT_WANT, count);
                memcpy(out, b.start + at, count * sizeof(float));
                const struct gr_gemm g = {.w = &b.w.mat, .a = &acts, .out = out, .ldo = cols, .epilogue = all.epilogue};
                check_sets[s].gemm[all.format](&g, 0, b.w.mat.panels,
                                               check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(m)));
                check_slots(s);
                check_same(s, "row", out, keep + at, count);
            }
        }
    }
    check_end();
}

/* A broken row, as pack_rows marks it, must come out in all of its columns and nowhere else. */
static void not_a_number(void)
{
    check_begin("quantised gemm: a broken row is NaN in every output, and no other");
    for (int i = 0; i < FORMATS * (GR_EPI_SILU_MUL + 1); i++) {
        const struct product c = {
            .m = 20, .n = 70, .k = 40, .format = formats[i % FORMATS], .epilogue = (enum gr_epilogue)(i / FORMATS)};
        const struct buffers b = prepare(&c);
        const uint16_t nan_bits = c.format == GR_MAT_BF16P ? 0x7fc0 : 0x7e00;
        name_case(&c);
        b.x.acts.scale[11] = b.x.acts.zero[11] = NAN;
        if (!is_integer(c.format)) {
            memcpy((char *)b.x.acts.data + check_byte_at(&b.x.acts, 11, 17), &nan_bits, sizeof nan_bits);
        }
        for (int s = 0; s < check_set_count; s++) {
            if (CHECK_OWN(s, gemm[c.format])) {
                run(&c, &b, s);
                for (size_t j = 0; j < b.out_count; j++) {
                    check_true(s, "NaN lost or spread", isnan(b.out[j]) == ((int)(j / (size_t)b.ldo) == 11));
                }
            }
        }
    }
    check_end();
}

void check_quant_all(void)
{
    small_sizes();
    large_sizes();
    independence();
    not_a_number();
}
