/* SPDX-License-Identifier: Apache-2.0
 *
 * check_attention.c: attention of every set against a plain double-precision loop.
 *
 * Tolerance. A score is a sum of d products plus the scaling: at most 2 sqrt(d + 4) EPS S off, with S = |scale|
 * sum |q k| (see check_gemm.c). An exponential turns that, twice (score and maximum), into a relative error, to
 * which the exponential function adds about 4 EPS; the sums over s keys add 2 sqrt(s) EPS each. All of it is
 * relative to sum p |v|. */
#include "check.h"

#include <math.h>
#include <string.h>

enum { SLOT_Q, SLOT_K, SLOT_V, SLOT_O, SLOT_SCRATCH, SLOT_P, SLOT_KEEP, SLOT_PART };

struct head {
    int m, s, d, causal, gap; /* gap: floats between rows of all four arrays */
    float scale;
    enum check_family family;
};

struct buffers {
    float *q, *k, *v, *o;
    int ld;
    size_t o_count, k_count;
};

static float *rows_of(int slot, int rows, int d, int ld, enum check_family family)
{
    float *x = check_floats(slot, (size_t)(rows - 1) * (size_t)ld + (size_t)d);
    for (int r = 0; r < rows && slot != SLOT_O; r++) {
        check_fill(x + (size_t)r * (size_t)ld, (size_t)d, family);
    }
    return x;
}

static struct buffers prepare(const struct head *h)
{
    const int ld = h->d + h->gap;
    const enum check_family family = h->family;
    return (struct buffers){.q = rows_of(SLOT_Q, h->m, h->d, ld, family == FAMILY_LARGE ? FAMILY_NORMAL : family),
                            .k = rows_of(SLOT_K, h->s, h->d, ld, family),
                            .v = rows_of(SLOT_V, h->s, h->d, ld, family),
                            .o = rows_of(SLOT_O, h->m, h->d, ld, family),
                            .ld = ld,
                            .o_count = (size_t)(h->m - 1) * (size_t)ld + (size_t)h->d,
                            .k_count = (size_t)(h->s - 1) * (size_t)ld + (size_t)h->d};
}

static void run(const struct head *h, const struct buffers *b, const float *q, int m, float *o, int s)
{
    const struct gr_attention a = {.q = q,
                                   .ldq = b->ld,
                                   .k = b->k,
                                   .ldk = b->ld,
                                   .v = b->v,
                                   .ldv = b->ld,
                                   .o = o,
                                   .ldo = b->ld,
                                   .m = m,
                                   .s = h->s,
                                   .d = h->d,
                                   .causal = h->causal,
                                   .scale = h->scale};
    check_sets[s].attention(&a, check_scratch(SLOT_SCRATCH, gr_attention_scratch_bytes(m, h->s, h->d)));
    check_slots(s);
}

/* Weights of row i in double, not yet divided by *sum; returns how many keys it sees. *error: bound of a score's
 * error. */
static int weights_of(const struct head *h, const struct buffers *b, int i, double *p, double *sum, double *error)
{
    const int n = h->causal ? i + h->s - h->m + 1 : h->s;
    double max = -INFINITY;
    *sum = *error = 0.0;
    for (int j = 0; j < n; j++) {
        double y = 0.0, size = 0.0;
        for (int c = 0; c < h->d; c++) {
            const double term = (double)h->scale * (double)b->q[i * b->ld + c] * (double)b->k[j * b->ld + c];
            y += term;
            size += fabs(term);
        }
        p[j] = y;
        max = y > max ? y : max;
        *error = fmax(*error, 2.0 * sqrt(h->d + 4) * EPS * size);
    }
    for (int j = 0; j < n; j++) {
        p[j] = exp(p[j] - max);
        *sum += p[j];
    }
    return n;
}

/* Compares row i of `outs`, one array a set. */
static void check_row(const struct head *h, const struct buffers *b, int i, double *p, float *const *outs)
{
    double sum, error;
    const int n = weights_of(h, b, i, p, &sum, &error);
    for (int c = 0; c < h->d; c++) {
        double y = 0.0, size = 0.0;
        for (int j = 0; j < n; j++) {
            y += p[j] / sum * (double)b->v[j * b->ld + c];
            size += p[j] / sum * fabs((double)b->v[j * b->ld + c]);
        }
        const double relative = 2.0 * (exp(2.0 * error) - 1.0) + EPS * (12.0 + 4.0 * sqrt(n));
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, attention)) {
                continue;
            }
            check_near(s, "o", i, c, (double)outs[s][i * b->ld + c], y, relative * size + 1e-37);
        }
    }
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, attention)) {
            continue;
        }
        for (int c = h->d; c < b->ld && i + 1 < h->m; c++) {
            check_true(s, "a column beyond d was written", check_is_canary(outs[s][i * b->ld + c]));
        }
    }
}

static void check_head(const struct head *h)
{
    struct buffers b = prepare(h);
    float *keep = check_floats(SLOT_KEEP, SETS_MAX * b.o_count), *outs[SETS_MAX];
    double *p = check_slot(SLOT_P, (size_t)h->s * sizeof(double));
    check_case("m %d s %d d %d%s family %d", h->m, h->s, h->d, h->causal ? " causal" : "", (int)h->family);
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, attention)) {
            continue;
        }
        b.o = rows_of(SLOT_O, h->m, h->d, b.ld, h->family);
        outs[s] = keep + (size_t)s * b.o_count;
        run(h, &b, b.q, h->m, b.o, s);
        memcpy(outs[s], b.o, b.o_count * sizeof(float));
    }
    for (int i = 0; i < h->m; i++) {
        check_row(h, &b, i, p, outs);
    }
}

static const int widths[] = {16, 24, 48, 72, 80, 128};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void sizes(void)
{
    check_begin("attention: odd sizes, head widths of the model, causal with more keys than rows");
    for (int w = 0; w < WIDTHS; w++) {
        for (int i = 0; i < 24; i++) {
            const int m = 1 + check_below(i < 12 ? 15 : 60);
            check_head(&(struct head){.m = m,
                                      .s = i % 2 ? m + check_below(70) : 1 + check_below(90),
                                      .d = widths[w],
                                      .causal = i % 2,
                                      .gap = check_below(3) * 7,
                                      .scale = 1.0f / sqrtf((float)widths[w])});
        }
    }
    for (int d = 1; d <= 100; d++) {
        check_head(&(struct head){
            .m = 1 + check_below(14), .s = 14 + check_below(20), .d = d, .causal = d % 2, .gap = d % 3, .scale = 0.3f});
    }
    check_head(&(struct head){.m = 84, .s = 116, .d = 128, .causal = 1, .scale = 0.088388348f});
    check_head(&(struct head){.m = 324, .s = 324, .d = 72, .gap = 144, .scale = 0.11785113f});
    check_end();
}

static void families(void)
{
    check_begin("attention: large, cancelling, denormal, spread and zero values");
    for (int f = FAMILY_LARGE; f < FAMILY_COUNT; f++) {
        for (int w = 0; w < WIDTHS; w++) {
            const int m = 1 + check_below(30);
            check_head(&(struct head){.m = m,
                                      .s = m + check_below(40),
                                      .d = widths[w],
                                      .causal = w % 2,
                                      .scale = 0.2f,
                                      .family = (enum check_family)f});
        }
    }
    check_end();
}

/* Rows [first, last) alone give the bits of the whole; with a causal mask the last rows, so that i + s - m stays
 * what it was. */
static void independence(void)
{
    check_begin("attention: a row's bits do not depend on other rows or on keys it does not see");
    for (int i = 0; i < 24; i++) {
        const struct head h = {
            .m = 10 + check_below(50), .s = 70, .d = widths[i % WIDTHS], .causal = i % 2, .gap = 3, .scale = 0.2f};
        struct buffers b = prepare(&h);
        float *keep = check_floats(SLOT_KEEP, b.o_count);
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, attention)) {
                continue;
            }
            const int first = check_below(h.m), count = h.causal ? h.m - first : 1 + check_below(h.m - first);
            const size_t at = (size_t)first * (size_t)b.ld, n = (size_t)(count - 1) * (size_t)b.ld + (size_t)h.d;
            check_case("m %d s %d d %d%s, rows %d..%d alone", h.m, h.s, h.d, h.causal ? " causal" : "", first,
                       first + count - 1);
            b.o = rows_of(SLOT_O, h.m, h.d, b.ld, FAMILY_NORMAL);
            run(&h, &b, b.q, h.m, b.o, s);
            memcpy(keep, b.o, b.o_count * sizeof(float));
            float *part = check_floats(SLOT_PART, n);
            run(&h, &b, b.q + at, count, part, s);
            check_same(s, "part", part, keep + at, n);
            if (h.causal) { /* other values in the last keys: rows that do not see them stay, the last row sees them */
                const int later = 1 + check_below(h.m - 1);
                const size_t from = (size_t)(h.s - later) * (size_t)b.ld, rest = b.k_count - from;
                check_case("m %d s %d d %d causal, last %d keys changed", h.m, h.s, h.d, later);
                check_fill(b.k + from, rest, FAMILY_NORMAL);
                check_fill(b.v + from, rest, FAMILY_LARGE);
                run(&h, &b, b.q, h.m, b.o, s);
                check_same(s, "earlier rows", b.o, keep, (size_t)(h.m - later) * (size_t)b.ld);
                check_true(s, "the last row ignored its keys",
                           memcmp(b.o + b.o_count - h.d, keep + b.o_count - h.d, (size_t)h.d * sizeof(float)) != 0);
            }
        }
    }
    check_end();
}

static void not_a_number(void)
{
    check_begin("attention: NaN in a query stays in its row and reaches every output of it");
    for (int w = 0; w < WIDTHS; w++) {
        const struct head h = {.m = 20, .s = 40, .d = widths[w], .causal = w % 2, .scale = 0.2f};
        struct buffers b = prepare(&h);
        check_case("d %d", h.d);
        b.q[7 * b.ld + h.d / 2] = NAN;
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, attention)) {
                continue;
            }
            run(&h, &b, b.q, h.m, b.o, s);
            for (int i = 0; i < h.m * h.d; i++) {
                check_true(s, "NaN lost or spread", isnan(b.o[i]) == (i / h.d == 7));
            }
        }
    }
    check_end();
}

void check_attention_all(void)
{
    sizes();
    families();
    independence();
    not_a_number();
}
