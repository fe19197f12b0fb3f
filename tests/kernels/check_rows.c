/* SPDX-License-Identifier: Apache-2.0
 *
 * check_rows.c: norms, packing and rotation of every set against double precision.
 *
 * Tolerance of a norm: the mean may be MEAN_ULPS roundings of the largest element off (it is a float, and its sum
 * has roundings of its own), which the reciprocal deviation magnifies; the rest is some roundings of the terms. */
#include "check.h"

#include <math.h>
#include <string.h>

enum { SLOT_X, SLOT_OUT, SLOT_GAMMA, SLOT_BETA, SLOT_SCRATCH, SLOT_INDEX, SLOT_KEEP, SLOT_COS, SLOT_SIN };
enum { MEAN_ULPS = 4 };

/* One row in double with the tolerance of each element. */
static void normed(const float *x, int n, const struct gr_row_norm *norm, int i, double *y, double *tolerance)
{
    double mean = 0.0, square = 0.0, largest = 0.0;
    for (int j = 0; j < n; j++) {
        mean += norm->kind == GR_ROW_LAYER ? (double)x[j] / n : 0.0;
        largest = fmax(largest, fabs((double)x[j]));
    }
    for (int j = 0; j < n; j++) {
        square += ((double)x[j] - mean) * ((double)x[j] - mean) / n;
    }
    const double gamma = norm->gamma != NULL ? (double)norm->gamma[i] : 1.0,
                 beta = norm->beta != NULL ? (double)norm->beta[i] : 0.0;
    const double rstd = 1.0 / sqrt(square + (double)norm->eps), bare = ((double)x[i] - mean) * rstd * gamma;
    *y = bare + beta;
    *tolerance = EPS * (fabs(gamma) * rstd * largest * (norm->kind == GR_ROW_LAYER ? MEAN_ULPS : 0) + 8.0 * fabs(bare) +
                        2.0 * fabs(beta));
    *tolerance += EPS * sqrt(n) * fabs(bare);                       /* roundings of the sum of squares */
    *tolerance += 1.5e-45 * (4.0 * rstd + 1.0) * (fabs(gamma) + 1); /* denormals have absolute steps */
}

/* Rows of the families, and for LayerNorm rows of equal values: variance 0. */
static void fill_row(float *x, int n, int kind)
{
    static const float constant[] = {0.0f, 1.0f, -3.7f, 100.3f, 1e4f, -0.0f};
    if (kind < FAMILY_COUNT) {
        check_fill(x, (size_t)n, (enum check_family)kind);
        return;
    }
    for (int i = 0; i < n; i++) {
        x[i] = constant[kind - FAMILY_COUNT];
    }
}
enum { ROW_KINDS = FAMILY_COUNT + 6 };

static struct gr_row_norm random_norm(int n)
{
    struct gr_row_norm norm = {.kind = check_below(2) ? GR_ROW_LAYER : GR_ROW_RMS,
                               .eps = check_below(2) ? 1e-6f : 1e-5f};
    if (check_below(3)) {
        float *gamma = check_floats(SLOT_GAMMA, (size_t)n);
        check_fill(gamma, (size_t)n, FAMILY_NORMAL);
        norm.gamma = gamma;
    }
    if (norm.kind == GR_ROW_LAYER && check_below(3)) {
        float *beta = check_floats(SLOT_BETA, (size_t)n);
        check_fill(beta, (size_t)n, FAMILY_NORMAL);
        norm.beta = beta;
    }
    return norm;
}

static void check_norm_rows(int rows, int n, int in_place)
{
    const int ldx = n + check_below(5), ldo = in_place ? ldx : n + check_below(5);
    const size_t x_count = (size_t)(rows - 1) * (size_t)ldx + (size_t)n,
                 o_count = (size_t)(rows - 1) * (size_t)ldo + (size_t)n;
    float *x = check_floats(SLOT_X, x_count), *keep = check_floats(SLOT_KEEP, x_count);
    for (int r = 0; r < rows; r++) {
        fill_row(x + (size_t)r * (size_t)ldx, n, check_below(ROW_KINDS));
    }
    memcpy(keep, x, x_count * sizeof(float));
    const struct gr_row_norm norm = random_norm(n);
    const int r0 = check_below(rows), r1 = r0 + 1 + check_below(rows - r0);
    check_case("norm_rows %d..%d of %d, %d columns%s", r0, r1, rows, n, in_place ? ", in place" : "");
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, norm_rows)) {
            continue;
        }
        float *out = in_place ? x : check_floats(SLOT_OUT, o_count);
        memcpy(x, keep, x_count * sizeof(float));
        check_sets[s].norm_rows(x, ldx, out, ldo, n, &norm, r0, r1);
        check_slots(s);
        for (int r = 0; r < rows; r++) {
            const float *row = keep + (size_t)r * (size_t)ldx, *got = out + (size_t)r * (size_t)ldo;
            for (int i = 0; i < (r + 1 < rows ? ldo : n); i++) {
                double y, tolerance;
                if (i < n && r >= r0 && r < r1) {
                    normed(row, n, &norm, i, &y, &tolerance);
                    check_near(s, "out", r, i, (double)got[i], y, tolerance);
                } else {
                    check_true(s, "wrote outside its rows and columns",
                               in_place ? memcmp(got + i, row + i, sizeof *got) == 0 : check_is_canary(got[i]));
                }
            }
        }
    }
}

/* Elements of the packed tile against x, bit for bit without a norm. */
static void compare_packed(int s, const struct gr_acts *a, const float *x, int ldx, const int32_t *index,
                           const struct gr_row_norm *norm, int r0, int r1)
{
    for (int r = 0; r < a->m; r++) {
        const float *row = x + (size_t)(index != NULL ? index[r] : r) * (size_t)ldx;
        for (int i = 0; i < a->k_pad; i++) {
            const float got = ((const float *)a->data)[check_acts_at(a, r, i)], zero = 0.0f;
            double y, tolerance;
            if (r < r0 || r >= r1) {
                check_true(s, "wrote outside its rows", check_is_canary(got));
            } else if (i >= a->k) {
                check_true(s, "pad k is not zero", memcmp(&got, &zero, sizeof got) == 0);
            } else if (norm == NULL) {
                check_true(s, "a copied element differs", memcmp(&got, row + i, sizeof got) == 0);
            } else {
                normed(row, a->k, norm, i, &y, &tolerance);
                check_near(s, "packed", r, i, (double)got, y, tolerance);
            }
        }
    }
}

static void check_pack_rows(int m, int k, int with_norm, int with_index)
{
    const int ldx = k + check_below(5), source = with_index ? 1 + check_below(2 * m) : m;
    const size_t x_count = (size_t)(source - 1) * (size_t)ldx + (size_t)k;
    float *x = check_floats(SLOT_X, x_count);
    for (int r = 0; r < source; r++) {
        fill_row(x + (size_t)r * (size_t)ldx, k, check_below(ROW_KINDS));
    }
    const struct gr_row_norm norm = random_norm(k);
    int32_t *index = check_slot(SLOT_INDEX, (size_t)m * sizeof *index);
    for (int r = 0; r < m; r++) {
        index[r] = check_below(source);
    }
    const int r0 = check_below(m), r1 = r0 + 1 + check_below(m - r0);
    check_case("pack_rows %d..%d of %d, k %d%s%s", r0, r1, m, k, with_norm ? ", norm" : "",
               with_index ? ", index" : "");
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, pack_rows[GR_ROWS_F32])) {
            continue;
        }
        struct gr_acts a = {.m = m, .k = k, .k_pad = gr_pad16(k)};
        a.data = check_floats(SLOT_OUT, (size_t)m * (size_t)a.k_pad);
        const struct gr_row_source src = {
            .x = x, .ldx = ldx, .index = with_index ? index : NULL, .norm = with_norm ? &norm : NULL};
        check_sets[s].pack_rows[GR_ROWS_F32](&a, &src, r0, r1, check_scratch(SLOT_SCRATCH, gr_row_scratch_bytes(k)));
        check_slots(s);
        compare_packed(s, &a, x, ldx, with_index ? index : NULL, with_norm ? &norm : NULL, r0, r1);
    }
}

static void check_rope(int rows, int heads, int dh)
{
    const int half = dh / 2, ldx = heads * dh + check_below(9);
    const size_t count = (size_t)(rows - 1) * (size_t)ldx + (size_t)(heads * dh);
    float *x = check_floats(SLOT_X, count), *keep = check_floats(SLOT_KEEP, count),
          *gamma = check_floats(SLOT_GAMMA, (size_t)dh);
    float *cosine = check_floats(SLOT_COS, (size_t)(rows * half)),
          *sine = check_floats(SLOT_SIN, (size_t)(rows * half));
    for (int r = 0; r < rows; r++) {
        fill_row(x + (size_t)r * (size_t)ldx, heads * dh, check_below(FAMILY_COUNT));
        for (int i = 0; i < half; i++) {
            cosine[r * half + i] = cosf((float)(r * (i + 1)));
            sine[r * half + i] = sinf((float)(r * (i + 1)));
        }
    }
    check_fill(gamma, (size_t)dh, FAMILY_NORMAL);
    memcpy(keep, x, count * sizeof(float));
    const struct gr_row_norm norm = {.kind = GR_ROW_RMS, .eps = 1e-6f, .gamma = gamma};
    const int r0 = check_below(rows), r1 = r0 + 1 + check_below(rows - r0);
    check_case("rms_rope rows %d..%d of %d, %d heads of %d", r0, r1, rows, heads, dh);
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, rms_rope)) {
            continue;
        }
        memcpy(x, keep, count * sizeof(float));
        check_sets[s].rms_rope(x, ldx, heads, dh, gamma, norm.eps, cosine, sine, r0, r1);
        check_slots(s);
        for (int r = 0; r < rows; r++) {
            for (int i = 0; i < (r + 1 < rows ? ldx : heads * dh); i++) {
                const size_t at = (size_t)r * (size_t)ldx + (size_t)i;
                if (r < r0 || r >= r1 || i >= heads * dh) {
                    check_true(s, "wrote outside its rows and heads", memcmp(x + at, keep + at, sizeof *x) == 0);
                    continue;
                }
                const int e = i % dh, lo = e % half;
                const float *head = keep + at - e;
                double a, b, ta, tb, c = (double)cosine[r * half + lo], d = (double)sine[r * half + lo];
                normed(head, dh, &norm, lo, &a, &ta);
                normed(head, dh, &norm, lo + half, &b, &tb);
                const double y = e < half ? a * c - b * d : b * c + a * d;
                check_near(s, "x", r, i, (double)x[at], y, ta + tb + 4.0 * EPS * (fabs(a) + fabs(b)));
            }
        }
    }
}

/* Rows in one call, or one by one: the same bits. */
static void independence(void)
{
    check_begin("rows: a row's bits do not depend on the range");
    for (int i = 0; i < 20; i++) {
        const int m = 1 + check_below(40), k = 1 + check_below(200);
        float *x = check_floats(SLOT_X, (size_t)m * (size_t)k);
        check_fill(x, (size_t)m * (size_t)k, FAMILY_NORMAL);
        const struct gr_row_norm norm = random_norm(k);
        struct gr_acts a = {.m = m, .k = k, .k_pad = gr_pad16(k)}, b = a;
        a.data = check_floats(SLOT_OUT, (size_t)m * (size_t)a.k_pad);
        b.data = check_floats(SLOT_KEEP, (size_t)m * (size_t)a.k_pad);
        void *scratch = check_scratch(SLOT_SCRATCH, gr_row_scratch_bytes(k));
        const struct gr_row_source src = {.x = x, .ldx = k, .norm = &norm};
        check_case("pack_rows %d rows, k %d", m, k);
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, pack_rows[GR_ROWS_F32])) {
                continue;
            }
            check_sets[s].pack_rows[GR_ROWS_F32](&a, &src, 0, m, scratch);
            for (int r = m - 1; r >= 0; r--) {
                check_sets[s].pack_rows[GR_ROWS_F32](&b, &src, r, r + 1, scratch);
            }
            check_same(s, "row", a.data, b.data, (size_t)m * (size_t)a.k_pad);
        }
    }
    check_end();
}

static void peaks(void)
{
    check_begin("peaks are rates");
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        check_case("one call of format %d", f);
        for (int s = 0; s < check_set_count; s++) {
            if (CHECK_OWN(s, peak[f])) {
                const double rate = check_sets[s].peak[f]();
                check_true(s, "between 0.001 and 100000 Gop/s", rate > 1e-3 && rate < 1e5);
            }
        }
    }
    check_end();
}

void check_rows_all(void)
{
    check_begin("norm_rows: odd sizes, all row kinds, in place");
    for (int n = 1; n <= 200; n++) {
        check_norm_rows(1 + check_below(6), n, n % 2);
    }
    check_norm_rows(20, 1152, 0);
    check_norm_rows(20, 2048, 1);
    check_norm_rows(9, 4304, 0);
    check_end();
    check_begin("pack_rows: odd sizes, all row kinds, gather, norm");
    for (int i = 0; i < 240; i++) {
        check_pack_rows(1 + i / 4, 1 + check_below(200), i % 2, i / 2 % 2);
    }
    check_pack_rows(324, 588, 0, 1);
    check_pack_rows(116, 1152, 1, 0);
    check_pack_rows(30, 4304, 1, 1);
    check_end();
    check_begin("rms_rope: head widths, row ranges");
    for (int i = 0; i < 60; i++) {
        check_rope(1 + check_below(20), 1 + check_below(4), i < 40 ? 2 * (1 + i) : 128);
    }
    check_end();
    independence();
    peaks();
}
