/* SPDX-License-Identifier: Apache-2.0
 *
 * check_attention16.c: attention on 16-bit integers. The scalar one is checked against a plain double-precision loop, the others
 * against the scalar one, which rounds the same numbers in the same way.
 *
 * Tolerances. Against double precision: 12 bits a row put a product of q and k off by at most half a step of either times the
 * other, and d such errors add up like random ones: 6 sigma of that. An exponential turns it, twice (score and maximum), into a
 * relative error of the probabilities; these are off by half a step each, values by half a step of their column. Over a whole
 * head the error must stay below 2e-3 of the outputs: that is what the kernel is for.
 * Against the scalar set: integers up to the scores are the same; the polynomial for e^x is 1.03e-4 off, and a probability may be
 * rounded to the other side. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT_Q, SLOT_K, SLOT_V, SLOT_O, SLOT_SCRATCH, SLOT_PACKED, SLOT_WANT, SLOT_P, SLOT_PART };
enum { MOST = 2047, P_MOST = 8191 };

struct head {
    int m, s, d, causal, gap; /* gap: floats between rows of all four arrays */
    float scale;
    enum check_family family;
};

static size_t extent(int rows, int d, int ld) { return (size_t)(rows - 1) * (size_t)ld + (size_t)d; }

static struct gr_attention prepare(const struct head *h)
{
    const int ld = h->d + h->gap;
    const struct {
        int slot, rows;
    } parts[] = {{SLOT_Q, h->m}, {SLOT_K, h->s}, {SLOT_V, h->s}};
    float *x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = check_floats(parts[i].slot, extent(parts[i].rows, h->d, ld));
        for (int r = 0; r < parts[i].rows; r++) {
            check_fill(x[i] + (size_t)r * (size_t)ld, (size_t)h->d, h->family);
        }
    }
    check_case("m %d s %d d %d%s family %d", h->m, h->s, h->d, h->causal ? " causal" : "", (int)h->family);
    return (struct gr_attention){.q = x[0],
                                 .ldq = ld,
                                 .k = x[1],
                                 .ldk = ld,
                                 .v = x[2],
                                 .ldv = ld,
                                 .ldo = ld,
                                 .m = h->m,
                                 .s = h->s,
                                 .d = h->d,
                                 .causal = h->causal,
                                 .scale = h->scale};
}

/* Runs set s into a new slot o. */
static float *run(struct gr_attention *a, int s)
{
    a->o = check_floats(SLOT_O, extent(a->m, a->d, a->ldo));
    check_sets[s].attention16(a, check_scratch(SLOT_SCRATCH, gr_attention_scratch_bytes(a->m, a->s, a->d)));
    check_slots(s);
    return a->o;
}

/* What row i gives, in double, and how far a rounded one may be from it. */
struct row {
    double sum;         /* of p */
    double total;       /* of |p v| / sum, of one column */
    double score_error; /* absolute */
};

static int weights(const struct gr_attention *a, int i, double *p, struct row *row)
{
    const int n = a->causal ? i + a->s - a->m + 1 : a->s;
    double max = -INFINITY, q_most = 0.0, q_norm = 0.0, worst = 0.0;
    const float *q = a->q + (size_t)i * (size_t)a->ldq;
    for (int c = 0; c < a->d; c++) {
        q_most = fmax(q_most, fabs((double)q[c]));
        q_norm += (double)q[c] * (double)q[c];
    }
    for (int j = 0; j < n; j++) {
        const float *k = a->k + (size_t)j * (size_t)a->ldk;
        double y = 0.0, most = 0.0, norm = 0.0;
        for (int c = 0; c < a->d; c++) {
            y += (double)q[c] * (double)k[c];
            most = fmax(most, fabs((double)k[c]));
            norm += (double)k[c] * (double)k[c];
        }
        const double of_k = q_norm * most * most, of_q = norm * q_most * q_most;
        p[j] = (double)a->scale * y;
        max = fmax(max, p[j]);
        worst = fmax(worst, fabs((double)a->scale) * (6.0 / sqrt(12.0) / MOST * sqrt(of_k + of_q) + 1e-6 * fabs(y)));
    }
    *row = (struct row){.score_error = worst};
    for (int j = 0; j < n; j++) {
        p[j] = exp(p[j] - max);
        row->sum += p[j];
    }
    return n;
}

/* Largest |v| of a column. */
static double column_most(const struct gr_attention *a, int c)
{
    double most = 0.0;
    for (int j = 0; j < a->s; j++) {
        most = fmax(most, fabs((double)a->v[(size_t)j * (size_t)a->ldv + (size_t)c]));
    }
    return most;
}

/* The scalar set against double precision. */
static void check_exact(const struct gr_attention *a, const float *o, enum check_family family)
{
    double *p = check_slot(SLOT_P, (size_t)a->s * sizeof(double)), size = 0.0, error = 0.0;
    for (int i = 0; i < a->m; i++) {
        struct row row;
        const int n = weights(a, i, p, &row);
        for (int c = 0; c < a->d; c++) {
            double y = 0.0, part = 0.0, all = 0.0;
            for (int j = 0; j < n; j++) {
                const double v = (double)a->v[(size_t)j * (size_t)a->ldv + (size_t)c];
                y += p[j] / row.sum * v;
                part += p[j] / row.sum * fabs(v);
                all += fabs(v);
            }
            const double got = (double)o[(size_t)i * (size_t)a->ldo + (size_t)c], step = column_most(a, c) / MOST;
            const double tolerance =
                part * 2.0 * (exp(2.0 * row.score_error) - 1.0) + (all + n * part) * 0.5 / P_MOST / row.sum + step;
            check_near(0, "o", i, c, got, y, tolerance + 1e-30);
            size += y * y;
            error += (got - y) * (got - y);
        }
    }
    if (family == FAMILY_NORMAL && a->m * a->d > 500) {
        check_near(0, "error of the head", 0, 0, sqrt(error / size), 0.0, 2e-3);
    }
}

/* Another set against the scalar one. */
static void check_against(const struct gr_attention *a, const float *o, const float *want, int s)
{
    double *p = check_slot(SLOT_P, (size_t)a->s * sizeof(double));
    for (int i = 0; i < a->m; i++) {
        struct row row;
        const int n = weights(a, i, p, &row);
        for (int c = 0; c < a->d; c++) {
            double all = 0.0, part = 0.0;
            for (int j = 0; j < n; j++) {
                const double v = fabs((double)a->v[(size_t)j * (size_t)a->ldv + (size_t)c]);
                all += p[j] * P_MOST > 0.25 ? v : 0.0; /* below that both round to 0 */
                part += p[j] * v;
            }
            const size_t at = (size_t)i * (size_t)a->ldo + (size_t)c;
            const double spread = exp(2.0 * row.score_error); /* the sum is that of rounded scores */
            const double tolerance = spread * (2.0 * all / P_MOST / row.sum + 4e-4 * part / row.sum);
            check_near(s, "o", i, c, (double)o[at], (double)want[at], tolerance + 1e-30);
        }
        for (int c = a->d; c < a->ldo && i + 1 < a->m; c++) {
            check_true(s, "a column beyond d was written", check_is_canary(o[(size_t)i * (size_t)a->ldo + (size_t)c]));
        }
    }
}

static int has_own(int s) { return check_sets[s].attention16 != NULL && CHECK_OWN(s, attention16); }

static void check_head(const struct head *h)
{
    struct gr_attention a = prepare(h);
    const size_t count = extent(a.m, a.d, a.ldo);
    float *want = check_floats(SLOT_WANT, count);
    memcpy(want, run(&a, 0), count * sizeof *want);
    if (has_own(0)) {
        check_exact(&a, want, h->family);
    }
    for (int s = 1; s < check_set_count; s++) {
        if (has_own(s)) {
            check_against(&a, run(&a, s), want, s);
        }
    }
}

static const int widths[] = {16, 24, 48, 72, 80, 128};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void sizes(void)
{
    check_begin("16-bit attention: odd sizes, head widths of the model, causal with more keys than rows");
    for (int w = 0; w < WIDTHS; w++) {
        for (int i = 0; i < 12; i++) {
            const int m = 1 + check_below(i < 6 ? 15 : 40);
            check_head(&(struct head){.m = m,
                                      .s = i % 2 ? m + check_below(150) : 1 + check_below(90),
                                      .d = widths[w],
                                      .causal = i % 2,
                                      .gap = check_below(3) * 7,
                                      .scale = 1.0f / sqrtf((float)widths[w])});
        }
    }
    for (int d = 1; d <= 100; d++) {
        check_head(&(struct head){.m = 1 + check_below(14),
                                  .s = 14 + check_below(20),
                                  .d = d,
                                  .causal = d % 2,
                                  .gap = d % 3,
                                  .scale = d % 5 ? 0.3f : -0.3f});
    }
    static const int model[][3] = {{324, 324, 72}, {51, 51, 48}, {51, 81, 48}, {51, 35, 48}};
    for (size_t i = 0; i < sizeof model / sizeof model[0]; i++) {
        const int d = model[i][2];
        check_head(
            &(struct head){.m = model[i][0], .s = model[i][1], .d = d, .gap = 2 * d, .scale = 1.0f / sqrtf((float)d)});
    }
    check_head(&(struct head){.m = 3, .s = 40, .d = 512, .scale = 0.05f});
    check_end();
}

static void families(void)
{
    check_begin("16-bit attention: cancelling, denormal and zero values");
    static const enum check_family list[] = {FAMILY_CANCEL, FAMILY_DENORMAL, FAMILY_ZERO};
    for (size_t f = 0; f < sizeof list / sizeof list[0]; f++) {
        for (int w = 0; w < WIDTHS; w++) {
            const int m = 1 + check_below(30);
            check_head(&(struct head){
                .m = m, .s = m + check_below(40), .d = widths[w], .causal = w % 2, .scale = 0.2f, .family = list[f]});
        }
    }
    check_end();
}

/* All probabilities and all values at their largest: the sums would be the first to leave their range. */
static void extremes(void)
{
    check_begin("16-bit attention: the largest sums stay exact");
    for (int i = 0; i < 8; i++) {
        const struct head h = {
            .m = 14, .s = i < 4 ? 128 : 400, .d = i % 2 ? 512 : 72, .causal = i / 2 % 2, .scale = i < 6 ? 1.0f : 1e-6f};
        struct gr_attention a = prepare(&h);
        const float value = ldexpf(1.0f, 8 * i - 24);
        for (size_t j = 0; j < extent(h.m, h.d, a.ldq); j++) {
            ((float *)a.q)[j] = j / (size_t)a.ldq % 2 ? -1.0f : 1.0f;
        }
        for (size_t j = 0; j < extent(h.s, h.d, a.ldk); j++) {
            ((float *)a.k)[j] = 1e3f;
            ((float *)a.v)[j] = -value;
        }
        for (int s = 0; s < check_set_count; s++) {
            if (has_own(s)) {
                const float *o = run(&a, s);
                for (int r = 0; r < h.m * h.d; r++) {
                    check_near(s, "o", r / h.d, r % h.d, (double)o[r], -(double)value, 1e-6 * (double)value);
                }
            }
        }
    }
    check_end();
}

static void parts(void)
{
    check_begin("16-bit attention: same bits with keys packed before, and for rows alone");
    for (int i = 0; i < 24; i++) {
        const struct head h = {.m = 10 + check_below(50),
                               .s = 60 + check_below(150),
                               .d = widths[i % WIDTHS],
                               .causal = i % 2,
                               .scale = 0.2f};
        struct gr_attention a = prepare(&h);
        const size_t count = extent(a.m, a.d, a.ldo);
        for (int s = 0; s < check_set_count; s++) {
            if (!has_own(s)) {
                continue;
            }
            float *want = check_floats(SLOT_WANT, count);
            memcpy(want, run(&a, s), count * sizeof *want);
            void *packed = check_scratch(SLOT_PACKED, gr_attention16_packed_bytes(a.s, a.d));
            check_sets[s].attention16_pack(&a, packed);
            check_slots(s);
            const int first = check_below(h.m), rows = h.causal ? h.m - first : 1 + check_below(h.m - first);
            struct gr_attention part = a;
            part.q = a.q + (size_t)first * (size_t)a.ldq;
            part.k = part.v = NULL; /* not read */
            part.m = rows;
            part.o = check_floats(SLOT_PART, extent(rows, a.d, a.ldo));
            check_sets[s].attention16_run(&part, packed,
                                          check_scratch(SLOT_SCRATCH, gr_attention_scratch_bytes(rows, a.s, a.d)));
            check_slots(s);
            check_same(s, "rows", part.o, want + (size_t)first * (size_t)a.ldo, extent(rows, a.d, a.ldo));
        }
    }
    check_end();
}

static void not_a_number(void)
{
    check_begin(
        "16-bit attention: what is not finite reaches the outputs; a query's stays in its row, a value's in its column");
    for (int i = 0; i < 3 * WIDTHS; i++) {
        const struct head h = {.m = 20, .s = 40 + 10 * i, .d = widths[i % WIDTHS], .causal = i / 6 == 1, .scale = 0.2f};
        struct gr_attention a = prepare(&h);
        const int where = i % 3, at = h.d / 2;
        float *x = where == 0 ? (float *)a.q : where == 1 ? (float *)a.k : (float *)a.v;
        x[7 * h.d + at] = i % 2 ? NAN : -INFINITY;
        for (int s = 0; s < check_set_count; s++) {
            if (!has_own(s)) {
                continue;
            }
            const float *o = run(&a, s);
            for (int r = 0; r < h.m * h.d; r++) {
                const int hit = where == 0 ? r / h.d == 7 : where == 1 || r % h.d == at;
                check_true(s, "not finite lost or spread", isnan(o[r]) == hit);
            }
        }
    }
    check_end();
}

static void nothing_seen(void)
{
    check_begin("16-bit attention: a row that sees no key gives zeros");
    struct gr_attention a = prepare(&(struct head){.m = 30, .s = 9, .d = 48, .causal = 1, .scale = 0.2f});
    for (int s = 0; s < check_set_count; s++) {
        if (has_own(s)) {
            const float *o = run(&a, s);
            for (int r = 0; r < a.m * a.d; r++) {
                check_true(s, "wrong rows are zero", (o[r] == 0.0f) == (r / a.d < a.m - a.s));
            }
        }
    }
    check_end();
}

void check_attention16_all(void)
{
    sizes();
    families();
    extremes();
    parts();
    not_a_number();
    nothing_seen();
}
