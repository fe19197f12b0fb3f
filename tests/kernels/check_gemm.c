/* SPDX-License-Identifier: Apache-2.0
 *
 * check_gemm.c: products of every set against a plain double-precision loop.
 *
 * Tolerance of one sum. The kernels add at most BLOCK products in a chain and then the blocks, L roundings in all,
 * each at most EPS times a partial sum, and no partial sum exceeds S = sum |a w|. Roundings of random operands are
 * independent, so their sum stays below 2 sqrt(L) EPS S (more than six standard deviations); for the families made
 * to cancel the bound without luck, L EPS S, is used. Epilogues have slopes below 1.13 and add a few roundings of
 * the result. */
#include "check.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 384 };
enum {
    SLOT_W,
    SLOT_X,
    SLOT_PANELS,
    SLOT_ACTS,
    SLOT_BIAS,
    SLOT_OVERRIDE,
    SLOT_OUT,
    SLOT_SCRATCH,
    SLOT_START,
    SLOT_OTHER
};

struct product {
    int m, n, k;
    enum gr_mat_format format;
    enum gr_epilogue epilogue;
    int override_bias, gap; /* gap: columns between rows of out */
    enum check_family family;
};

static const char *const epilogue_name[] = {"store", "add", "gelu_tanh", "gelu_erf", "silu", "relu", "silu_mul"};

static int gate_up(const struct product *c) { return c->epilogue == GR_EPI_SILU_MUL; }
static int out_columns(const struct product *c) { return gate_up(c) ? c->n / 2 : c->n; }

static struct check_result sum_of(const struct product *c, const float *a, const float *w, float bias)
{
    double y = 0.0, size = 0.0;
    for (int i = 0; i < c->k; i++) {
        const double term = (double)a[i] * (double)w[i];
        y += term;
        size += fabs(term);
    }
    const double chain = fmin(c->k, BLOCK) + c->k / BLOCK + 4;
    const double roundings = c->family == FAMILY_CANCEL ? chain : 2.0 * sqrt(chain);
    return (struct check_result){y + (double)bias,
                                 EPS * (roundings * size + 2.0 * fabs((double)bias)) + c->k * 1.5e-45};
}

static double silu(double y) { return y / (1.0 + exp(-y)); }

struct check_result check_activate(enum gr_epilogue e, struct check_result v)
{
    double y = v.y;
    switch (e) {
    case GR_EPI_GELU_TANH:
        y = 0.5 * y * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (y + 0.044715 * y * y * y)));
        break;
    case GR_EPI_GELU_ERF:
        y = 0.5 * y * (1.0 + erf(y * sqrt(0.5)));
        break;
    case GR_EPI_SILU:
        y = silu(y);
        break;
    case GR_EPI_RELU:
        y = y > 0.0 ? y : 0.0;
        break;
    default:
        return v;
    }
    return (struct check_result){y, 1.2 * v.error + 16.0 * EPS * fabs(v.y) + 1e-44};
}

/* What out[r][j] must be, given what stood there. */
static struct check_result expected(const struct product *c, const float *x, const float *w, const float *bias, int r,
                                    int j, float before)
{
    const float *a = x + (size_t)r * (size_t)c->k;
    if (gate_up(c)) {
        const int up = c->n / 2 + j, at = j / 16 * GR_PANEL + j % 16;
        const struct check_result u = sum_of(c, a, w + (size_t)up * (size_t)c->k, bias[at + 16]);
        const struct check_result g = check_activate(GR_EPI_SILU, sum_of(c, a, w + (size_t)j * (size_t)c->k, bias[at]));
        return (struct check_result){g.y * u.y, g.error * fabs(u.y) + u.error * fabs(g.y) + g.error * u.error +
                                                    2.0 * EPS * fabs(g.y * u.y) + 1e-37};
    }
    struct check_result v = sum_of(c, a, w + (size_t)j * (size_t)c->k, bias[j]);
    if (c->epilogue == GR_EPI_ADD) {
        v.y += (double)before;
        v.error += 2.0 * EPS * fabs(v.y);
    }
    return check_activate(c->epilogue, v);
}

/* Runs all panels in random pieces, in random order of the pieces' ends. */
static void run_in_pieces(const struct gr_kernels *set, const struct gr_gemm *g, void *scratch)
{
    for (int p = 0; p < g->w->panels;) {
        const int end = p + 1 + check_below(g->w->panels - p);
        set->gemm[g->w->format](g, p, end, scratch);
        p = end;
    }
}

struct buffers {
    float *w, *x, *bias, *instead, *out, *start;
    struct gr_mat mat;
    struct gr_acts acts;
    void *scratch;
    size_t out_count;
    int ldo;
};

static struct buffers prepare(const struct product *c)
{
    struct buffers b = {.ldo = out_columns(c) + c->gap};
    b.w = check_floats(SLOT_W, (size_t)c->n * (size_t)c->k);
    b.x = check_floats(SLOT_X, (size_t)c->m * (size_t)c->k);
    check_fill(b.w, (size_t)c->n * (size_t)c->k, c->family == FAMILY_DENORMAL ? FAMILY_NORMAL : c->family);
    check_fill(b.x, (size_t)c->m * (size_t)c->k, c->family == FAMILY_LARGE ? FAMILY_NORMAL : c->family);
    for (size_t i = 0; c->format == GR_MAT_BF16 && i < (size_t)c->n * (size_t)c->k; i++) {
        b.w[i] = check_bf16(b.w[i]);
    }
    b.mat = check_pack_weights(SLOT_PANELS, b.w, c->n, c->k, c->format, gate_up(c));
    b.acts = check_pack_acts(SLOT_ACTS, b.x, c->m, c->k);
    b.bias = check_floats(SLOT_BIAS, (size_t)b.mat.panels * GR_PANEL);
    check_fill(b.bias, (size_t)b.mat.panels * GR_PANEL, c->family == FAMILY_DENORMAL ? FAMILY_DENORMAL : FAMILY_NORMAL);
    b.mat.bias = b.bias;
    b.instead = check_floats(SLOT_OVERRIDE, (size_t)b.mat.panels * GR_PANEL);
    check_fill(b.instead, (size_t)b.mat.panels * GR_PANEL, FAMILY_NORMAL);
    b.out_count = (size_t)(c->m - 1) * (size_t)b.ldo + (size_t)out_columns(c);
    b.start = check_floats(SLOT_START, b.out_count);
    for (int r = 0; r < c->m; r++) {
        check_fill(b.start + (size_t)r * (size_t)b.ldo, (size_t)out_columns(c), FAMILY_NORMAL);
    }
    b.out = check_floats(SLOT_OUT, b.out_count);
    return b;
}

static void run(const struct product *c, struct buffers *b, int s)
{
    const size_t bytes = gr_gemm_scratch_bytes(c->m);
    b->scratch = check_scratch(SLOT_SCRATCH, bytes);
    memcpy(b->out, b->start, b->out_count * sizeof(float));
    const struct gr_gemm g = {.w = &b->mat,
                              .a = &b->acts,
                              .bias = c->override_bias ? b->instead : NULL,
                              .out = b->out,
                              .ldo = b->ldo,
                              .epilogue = c->epilogue};
    run_in_pieces(&check_sets[s], &g, b->scratch);
    check_slots(s);
}

static void check_product(const struct product *c)
{
    struct buffers b = prepare(c);
    check_case("m %d n %d k %d %s %s%s family %d", c->m, c->n, c->k, c->format == GR_MAT_F32 ? "f32" : "bf16",
               epilogue_name[c->epilogue], c->override_bias ? " own bias" : "", (int)c->family);
    const float *bias = c->override_bias ? b.instead : b.bias;
    float *const reference = check_floats(SLOT_OTHER, 2 * (size_t)c->m * (size_t)out_columns(c));
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, gemm[c->format])) {
            continue;
        }
        run(c, &b, s);
        size_t at = 0;
        for (int r = 0; r < c->m; r++) {
            const float *row = b.out + (size_t)r * (size_t)b.ldo;
            for (int j = 0; j < out_columns(c); j++, at++) {
                struct check_result v;
                if (s == 0) { /* kept for the other sets; a float is enough for the tolerance, not for the value */
                    v = expected(c, b.x, b.w, bias, r, j, b.start[(size_t)r * (size_t)b.ldo + (size_t)j]);
                    reference[2 * at] = (float)v.y;
                    reference[2 * at + 1] = (float)v.error;
                }
                v.y = (double)reference[2 * at];
                v.error = (double)reference[2 * at + 1] + 2.0 * EPS * fabs(v.y);
                check_near(s, "out", r, j, (double)row[j], v.y, v.error);
            }
            for (int j = out_columns(c); j < b.ldo && r + 1 < c->m; j++) {
                check_true(s, "a column beyond n was written", check_is_canary(row[j]));
            }
        }
    }
}

static void sizes(void)
{
    check_begin("gemm: odd sizes, all epilogues, both formats");
    for (int m = 1; m <= 60; m++) {
        for (int i = 0; i < 4; i++) {
            struct product c = {.m = m,
                                .n = 1 + check_below(130),
                                .k = 1 + check_below(200),
                                .format = i % 2 ? GR_MAT_F32 : GR_MAT_BF16,
                                .epilogue = (enum gr_epilogue)check_below(GR_EPI_SILU_MUL + 1),
                                .override_bias = check_below(2),
                                .gap = check_below(3) * check_below(40)};
            c.n += gate_up(&c) && c.n % 2;
            check_product(&c);
        }
    }
    for (int e = 0; e <= GR_EPI_SILU_MUL; e++) { /* every n around the vector widths once */
        for (int n = 1; n <= 70; n++) {
            check_product(&(struct product){.m = 1 + check_below(14),
                                            .n = e == GR_EPI_SILU_MUL ? 2 * n : n,
                                            .k = 1 + check_below(40),
                                            .format = n % 2 ? GR_MAT_F32 : GR_MAT_BF16,
                                            .epilogue = (enum gr_epilogue)e,
                                            .gap = n % 3});
        }
    }
    check_end();
    check_begin("gemm: long k and many rows");
    static const int big[][3] = {{324, 40, 588}, {324, 34, 1152}, {51, 66, 1536}, {116, 33, 2048},
                                 {13, 65, 4304}, {7, 40, 6144},   {1, 64, 4304},  {81, 48, 1537}};
    for (size_t i = 0; i < sizeof big / sizeof big[0]; i++) {
        for (int f = 0; f < 2; f++) {
            check_product(&(struct product){.m = big[i][0],
                                            .n = big[i][1],
                                            .k = big[i][2],
                                            .format = (enum gr_mat_format)f,
                                            .epilogue = i % 2 ? GR_EPI_ADD : GR_EPI_STORE,
                                            .gap = 5});
        }
    }
    check_end();
}

static void families(void)
{
    check_begin("gemm: large, cancelling, denormal, spread and zero values");
    for (int f = FAMILY_LARGE; f < FAMILY_COUNT; f++) {
        for (int e = 0; e <= GR_EPI_SILU_MUL; e++) {
            for (int i = 0; i < 2; i++) {
                check_product(&(struct product){.m = 1 + check_below(30),
                                                .n = 2 + 2 * check_below(40),
                                                .k = 1 + check_below(600),
                                                .format = (enum gr_mat_format)i,
                                                .epilogue = (enum gr_epilogue)e,
                                                .family = (enum check_family)f});
            }
        }
    }
    check_end();
}

/* The same rows alone, in other company, at other places of a tile: the same bits. */
static void independence(void)
{
    check_begin("gemm: a row's bits do not depend on the other rows or on pieces");
    for (int e = 0; e <= GR_EPI_SILU_MUL; e++) {
        struct product all = {
            .m = 116, .n = 70, .k = 840, .format = (enum gr_mat_format)(e % 2), .epilogue = (enum gr_epilogue)e};
        struct buffers b = prepare(&all);
        const int cols = out_columns(&all);
        float *other = check_floats(SLOT_OTHER, (size_t)all.m * (size_t)all.k), *part_out, *part_in = other;
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, gemm[all.format])) {
                continue;
            }
            check_case("m 116 n %d k %d %s, all rows twice", all.n, all.k, epilogue_name[e]);
            run(&all, &b, s);
            memcpy(b.w, b.out, b.out_count * sizeof(float)); /* the row-major weights are no longer needed */
            run(&all, &b, s);
            check_same(s, "second run", b.out, b.w, b.out_count);
            for (int m = 1; m <= 60; m = m < 14 ? m + 1 : m + 23) {
                const int first = check_below(all.m - m + 1);
                check_case("m %d from row %d n %d k %d %s", m, first, all.n, all.k, epilogue_name[e]);
                memcpy(part_in, b.x + (size_t)first * (size_t)all.k, (size_t)m * (size_t)all.k * sizeof(float));
                const struct gr_acts acts = check_pack_acts(SLOT_ACTS, part_in, m, all.k);
                part_out = check_floats(SLOT_OUT, (size_t)m * (size_t)cols);
                memcpy(part_out, b.start + (size_t)first * (size_t)cols, (size_t)m * (size_t)cols * sizeof(float));
                const struct gr_gemm g = {
                    .w = &b.mat, .a = &acts, .out = part_out, .ldo = cols, .epilogue = all.epilogue};
                check_sets[s].gemm[g.w->format](&g, 0, b.mat.panels,
                                                check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(m)));
                check_same(s, "row", part_out, b.w + (size_t)first * (size_t)cols, (size_t)m * (size_t)cols);
            }
            b.acts = check_pack_acts(SLOT_ACTS, b.x, all.m, all.k);
            b.out = check_floats(SLOT_OUT, b.out_count);
        }
    }
    check_end();
}

/* A NaN in one row must come out in all columns of that row (a broken weight or input must be seen, not clamped
 * away) and nowhere else. */
static void not_a_number(void)
{
    check_begin("gemm: NaN stays in its row and reaches every output of it");
    for (int e = 0; e <= GR_EPI_SILU_MUL; e++) {
        struct product c = {.m = 20, .n = 70, .k = 40, .epilogue = (enum gr_epilogue)e};
        struct buffers b = prepare(&c);
        check_case("%s", epilogue_name[e]);
        ((float *)b.acts.data)[check_acts_at(&b.acts, 11, 17)] = NAN;
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, gemm[c.format])) {
                continue;
            }
            run(&c, &b, s);
            for (size_t i = 0; i < b.out_count; i++) {
                check_true(s, "NaN lost or spread", isnan(b.out[i]) == ((int)(i / (size_t)b.ldo) == 11));
            }
        }
    }
    check_end();
}

void check_gemm_all(void)
{
    sizes();
    families();
    independence();
    not_a_number();
}
