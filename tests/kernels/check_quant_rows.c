/* SPDX-License-Identifier: Apache-2.0
 *
 * check_quant_rows.c: rows packed into the low-precision formats. Scalar is checked against the definitions in kernels.h written out
 * once more; without a norm every set must give its bits. A norm's own roundings may move an element over a rounding border, so there
 * numbers are compared, one step of the format apart at most. */
#include "check_operands.h"

#include <math.h>
#include <string.h>

enum {
    SLOT_X = SLOT_FREE,
    SLOT_INDEX,
    SLOT_SMOOTH,
    SLOT_GAMMA,
    SLOT_SCRATCH,
    SLOT_OTHER,
    SLOT_OTHER_SCALE,
    SLOT_OTHER_ZERO,
    SLOT_OUT
};
enum row_kind { ROW_HUGE = FAMILY_COUNT, ROW_TINY, ROW_CONSTANT, ROW_NEGATIVE, ROW_ALL_ZERO, ROW_KINDS };

static const enum gr_row_format formats[] = {GR_ROWS_F32, GR_ROWS_U8, GR_ROWS_I16, GR_ROWS_F16, GR_ROWS_BF16};
static const char *const format_name[GR_ROW_FORMATS] = {"f32", "u8", "i16", "f16", "bf16"};

static void fill_row(float *x, int n, int kind)
{
    for (int i = 0; i < n; i++) {
        const float v = check_value(kind < (int)FAMILY_COUNT ? (enum check_family)kind : FAMILY_NORMAL);
        x[i] = kind == ROW_HUGE       ? 1e30f * v
               : kind == ROW_TINY     ? 1e-25f * v
               : kind == ROW_CONSTANT ? -3.7f
               : kind == ROW_NEGATIVE ? -1.0f - fabsf(v)
               : kind == ROW_ALL_ZERO ? 0.0f
                                      : v;
    }
}

struct rows {
    enum gr_row_format format;
    int m, k, ldx, with_index, with_smooth, with_norm;
    struct gr_row_norm norm;
    struct gr_row_source src;
    float *smooth; /* [k]: what src.smooth points to, or ones */
};

/* Random rows of all kinds, for norms of the ordinary one. */
static struct rows make_rows(enum gr_row_format format, int m, int k, int options)
{
    struct rows c = {.format = format,
                     .m = m,
                     .k = k,
                     .ldx = k + check_below(5),
                     .with_index = options & 1,
                     .with_smooth = options >> 1 & 1,
                     .with_norm = options >> 2 & 1};
    const int source = c.with_index ? 1 + check_below(2 * m) : m;
    float *x = check_floats(SLOT_X, (size_t)(source - 1) * (size_t)c.ldx + (size_t)k);
    for (int r = 0; r < source; r++) {
        fill_row(x + (size_t)r * (size_t)c.ldx, k, c.with_norm ? (int)FAMILY_NORMAL : check_below(ROW_KINDS));
    }
    int32_t *index = check_slot(SLOT_INDEX, (size_t)m * sizeof *index);
    for (int r = 0; r < m; r++) {
        index[r] = check_below(source);
    }
    float *gamma = check_floats(SLOT_GAMMA, (size_t)k);
    check_fill(gamma, (size_t)k, FAMILY_NORMAL);
    c.smooth = check_floats(SLOT_SMOOTH, (size_t)k);
    for (int i = 0; i < k; i++) {
        c.smooth[i] = c.with_smooth ? 1.5f + 0.4f * check_value(FAMILY_NORMAL) : 1.0f;
    }
    c.norm = (struct gr_row_norm){.kind = check_below(2) ? GR_ROW_LAYER : GR_ROW_RMS, .eps = 1e-6f, .gamma = gamma};
    c.norm.beta = c.norm.kind == GR_ROW_LAYER && check_below(2) ? gamma : NULL;
    c.src = (struct gr_row_source){
        .x = x, .ldx = c.ldx, .index = c.with_index ? index : NULL, .smooth = c.with_smooth ? c.smooth : NULL};
    return c;
}

/* The compiler's copy of c.norm moves with the struct, so it is pointed to last. */
static void pack(int s, struct rows *c, const struct gr_acts *a, int r0, int r1)
{
    c->src.norm = c->with_norm ? &c->norm : NULL;
    check_sets[s].pack_rows[c->format](a, &c->src, r0, r1, check_scratch(SLOT_SCRATCH, gr_row_scratch_bytes(c->k)));
    check_slots(s);
}

/* Element i of row r before it is quantised; without norm. */
static float input(const struct rows *c, int r, int i)
{
    const size_t row = (size_t)(c->src.index != NULL ? c->src.index[r] : r);
    return c->src.x[row * (size_t)c->ldx + (size_t)i] * c->smooth[i];
}

struct scales {
    float scale, inverse, zero;
    int zero_point;
};

static struct scales define_scales(const struct rows *c, int r)
{
    float lo = 0.0f, hi = 0.0f, largest = 0.0f;
    for (int i = 0; i < c->k; i++) {
        lo = fminf(lo, input(c, r, i));
        hi = fmaxf(hi, input(c, r, i));
        largest = fmaxf(largest, fabsf(input(c, r, i)));
    }
    struct scales d = {.scale = 1.0f};
    if (c->format == GR_ROWS_U8) {
        d.scale = fmaxf((hi - lo) / 255.0f, 1e-20f);
        d.inverse = 1.0f / d.scale;
        d.zero_point = (int)fminf(fmaxf(rintf(-lo * d.inverse), 0.0f), 255.0f);
        d.zero = -d.scale * (float)d.zero_point;
    } else if (c->format == GR_ROWS_I16) {
        d.scale = fmaxf(largest / 8191.0f, 1e-20f);
        d.inverse = 1.0f / d.scale;
    } else if (c->format == GR_ROWS_F16) {
        int e = 3;
        (void)frexpf(largest, &e);
        d.scale = largest > 0.0f ? ldexpf(1.0f, e - 3 < GR_F16_LEAST_EXPONENT ? GR_F16_LEAST_EXPONENT : e - 3) : 1.0f;
    }
    return d;
}

/* Scalar's packed row against the definitions. */
static void check_definition(int s, const struct rows *c, const struct gr_acts *a, int r)
{
    const struct scales d = define_scales(c, r);
    if (c->format != GR_ROWS_F32 && c->format != GR_ROWS_BF16) {
        check_near(s, "scale", r, 0, (double)a->scale[r], (double)d.scale, 0.0);
    }
    if (c->format == GR_ROWS_U8) {
        check_near(s, "zero", r, 0, (double)a->zero[r], (double)d.zero, 0.0);
    }
    for (int i = 0; i < c->k; i++) {
        const double x = (double)input(c, r, i), q = (double)check_element(a, r, i);
        switch (c->format) {
        case GR_ROWS_U8: {
            const float want = rintf((float)x * d.inverse) + (float)d.zero_point;
            check_near(s, "q", r, i, q, (double)fminf(fmaxf(want, 0.0f), 255.0f), 0.0);
            check_near(s, "q scale + zero", r, i, q * (double)d.scale + (double)d.zero, x, 1.001 * (double)d.scale);
            break;
        }
        case GR_ROWS_I16:
            check_near(s, "q", r, i, q, (double)rintf((float)x * d.inverse), 0.0);
            check_near(s, "q scale", r, i, q * (double)d.scale, x, 0.51 * (double)d.scale);
            break;
        case GR_ROWS_F16: /* half a unit in the last place, at least half the smallest subnormal */
            check_near(s, "q scale", r, i, q * (double)d.scale, x, fmax(fabs(x) * 0x1p-11, 0x1p-25 * (double)d.scale));
            check_true(s, "a row's maximum below 8", fabs(q) <= 8.0);
            break;
        case GR_ROWS_BF16:
            check_near(s, "q", r, i, q, x, fmax(fabs(x) * 0x1p-8, 0x1p-134));
            break;
        default:
            check_near(s, "q", r, i, q, x, 0.0);
        }
    }
}

/* Set s against scalar, where no norm came before: bits. */
static void check_bits(int s, const struct rows *c, const struct gr_acts *a, const struct gr_acts *scalar, int r)
{
    if (c->format == GR_ROWS_U8 || c->format == GR_ROWS_I16 || c->format == GR_ROWS_F16) {
        check_same(s, "scale", a->scale + r, scalar->scale + r, 1);
    }
    if (c->format == GR_ROWS_U8) {
        check_same(s, "zero", a->zero + r, scalar->zero + r, 1);
    }
    const size_t bytes = (size_t)(GR_CHUNK_BYTES / gr_row_chunk(c->format));
    for (int i = 0; i < c->k; i++) {
        const char *got = (const char *)a->data + check_byte_at(a, r, i),
                   *want = (const char *)scalar->data + check_byte_at(a, r, i);
        /* the instruction that makes BF16 takes subnormals for zeros */
        const int subnormal =
            c->format == GR_ROWS_BF16 && fabsf(input(c, r, i)) < 0x1p-126f && check_element(a, r, i) == 0.0f;
        check_true(s, "other bits than scalar's", subnormal || memcmp(got, want, bytes) == 0);
    }
}

/* Set s against scalar behind a norm: the numbers, one step apart. */
static void check_step(int s, const struct rows *c, const struct gr_acts *a, const struct gr_acts *scalar, int r)
{
    const int scaled = c->format == GR_ROWS_U8 || c->format == GR_ROWS_I16 || c->format == GR_ROWS_F16;
    const double scale = scaled ? (double)scalar->scale[r] : 1.0, own = scaled ? (double)a->scale[r] : 1.0;
    const double zero = c->format == GR_ROWS_U8 ? (double)scalar->zero[r] : 0.0,
                 own_zero = c->format == GR_ROWS_U8 ? (double)a->zero[r] : 0.0;
    for (int i = 0; i < c->k; i++) {
        const double want = (double)check_element(scalar, r, i) * scale + zero,
                     got = (double)check_element(a, r, i) * own + own_zero;
        const double step = c->format == GR_ROWS_U8 || c->format == GR_ROWS_I16 ? scale
                            : c->format == GR_ROWS_F16                          ? fabs(want) * 0x1p-10 + 0x1p-24 * scale
                            : c->format == GR_ROWS_BF16                         ? fabs(want) * 0x1p-7
                                                                                : 0.0;
        check_near(s, "q scale + zero", r, i, got, want, 1.001 * step + 1e-5);
    }
}

static int is_pad_free(enum gr_row_format f) { return f == GR_ROWS_U8 || f == GR_ROWS_I16; }

static void check_outside(int s, const struct rows *c, const struct gr_acts *a, int r0, int r1)
{
    for (int r = 0; r < c->m; r++) {
        const int inside = r >= r0 && r < r1;
        for (int i = 0; i < a->k_pad; i++) {
            const char *at = (const char *)a->data + check_byte_at(a, r, i);
            float line;
            memcpy(&line, at - (uintptr_t)at % sizeof line, sizeof line);
            check_true(s, "wrote outside its rows", inside || check_is_canary(line));
            check_true(s, "pad k is not zero",
                       !inside || i < c->k || is_pad_free(c->format) || check_element(a, r, i) == 0.0f);
        }
        check_true(s, "wrote outside its scales",
                   inside || (check_is_canary(a->scale[r]) && check_is_canary(a->zero[r])));
    }
}

static void check_rows(enum gr_row_format format, int m, int k, int options)
{
    struct rows c = make_rows(format, m, k, options);
    const int r0 = check_below(m), r1 = r0 + 1 + check_below(m - r0);
    check_case("%s rows %d..%d of %d, k %d%s%s%s", format_name[format], r0, r1, m, k, c.with_index ? ", index" : "",
               c.with_smooth ? ", smooth" : "", c.with_norm ? ", norm" : "");
    struct gr_acts scalar = {0};
    for (int s = 0; s < check_set_count; s++) {
        if (!CHECK_OWN(s, pack_rows[format])) {
            continue;
        }
        const struct gr_acts a = s == 0 ? check_empty_acts(format, m, k, SLOT_OTHER, SLOT_OTHER_SCALE, SLOT_OTHER_ZERO)
                                        : check_empty_acts(format, m, k, SLOT_ACTS, SLOT_ACT_SCALE, SLOT_ACT_ZERO);
        scalar = s == 0 ? a : scalar;
        pack(s, &c, &a, r0, r1);
        check_outside(s, &c, &a, r0, r1);
        for (int r = r0; r < r1; r++) {
            if (c.with_norm) {
                check_step(s, &c, &a, &scalar, r);
            } else if (s == 0) {
                check_definition(s, &c, &a, r);
            } else {
                check_bits(s, &c, &a, &scalar, r);
            }
        }
    }
}

/* Rows in one call, or one by one: the same bits. */
static void independence(void)
{
    check_begin("quantised rows: a row's bits do not depend on the range");
    for (int i = 0; i < 40; i++) {
        const enum gr_row_format f = formats[1 + i % (GR_ROW_FORMATS - 1)];
        const int m = 1 + check_below(40), k = 1 + check_below(300);
        struct rows c = make_rows(f, m, k, i % 8);
        check_case("%s, %d rows, k %d, options %d", format_name[f], m, k, i % 8);
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, pack_rows[f])) {
                continue;
            }
            const struct gr_acts a = check_empty_acts(f, m, k, SLOT_ACTS, SLOT_ACT_SCALE, SLOT_ACT_ZERO),
                                 b = check_empty_acts(f, m, k, SLOT_OTHER, SLOT_OTHER_SCALE, SLOT_OTHER_ZERO);
            pack(s, &c, &a, 0, m);
            for (int r = m - 1; r >= 0; r--) {
                pack(s, &c, &b, r, r + 1);
            }
            check_same(s, "row", a.data, b.data, (size_t)m * gr_acts_row_bytes(f, k) / sizeof(float));
            check_same(s, "scale", a.scale, b.scale, (size_t)m);
            check_same(s, "zero", a.zero, b.zero, (size_t)m);
        }
    }
    check_end();
}

/* One NaN or infinity, at every place of a vector: pack_rows and gemm of the set together. */
static void broken_rows(void)
{
    check_begin("quantised rows: NaN or infinity in a row makes all of its outputs NaN, and no other's");
    static const enum gr_mat_format mats[] = {GR_MAT_I8, GR_MAT_I16, GR_MAT_F16, GR_MAT_BF16P};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 4 * 3 * 70; i++) {
        const enum gr_mat_format f = mats[i % 4];
        const float value = bad[i / 4 % 3];
        const int m = 9, k = 70, n = 40, where = i / 12;
        struct check_weights w = check_make_weights(f, n, k, 0, OPERANDS_RANDOM);
        struct rows c = make_rows(gr_mat_rows(f), m, k, 0);
        float *x = check_floats(SLOT_X, (size_t)m * (size_t)k);
        check_fill(x, (size_t)m * (size_t)k, FAMILY_NORMAL);
        x[4 * k + where] = value;
        c.src.x = x;
        c.src.ldx = k;
        check_case("%s, %g at %d", gr_format_name(f), (double)value, where);
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, pack_rows[c.format]) && !CHECK_OWN(s, gemm[f])) {
                continue;
            }
            const struct gr_acts a = check_empty_acts(c.format, m, k, SLOT_ACTS, SLOT_ACT_SCALE, SLOT_ACT_ZERO);
            pack(s, &c, &a, 0, m);
            float *out = check_floats(SLOT_OUT, (size_t)m * (size_t)n);
            const struct gr_gemm g = {.w = &w.mat, .a = &a, .out = out, .ldo = n};
            check_sets[s].gemm[f](&g, 0, w.mat.panels, check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(m)));
            for (int j = 0; j < m * n; j++) {
                /* BF16 has no scale to carry the mark: an infinite element gives infinite sums */
                const int broken = f == GR_MAT_BF16P && isinf(value) ? !isfinite(out[j]) : isnan(out[j]);
                check_true(s, "a broken row's output is a number, or another row's is not", broken == (j / n == 4));
            }
        }
    }
    check_end();
}

/* Rows and product together against the unquantised rows: what the scheme as a whole costs. */
static void whole_products(void)
{
    check_begin("quantised rows and gemm: error of a product against unquantised rows");
    static const struct {
        enum gr_mat_format format;
        double
            bound; /* relative, over all outputs. U8: half a step of 1/255 of the range is 0.5 % of these rows' size */
    } cases[] = {{GR_MAT_I8, 0.01}, {GR_MAT_I16, 5e-4}, {GR_MAT_F16, 3e-3}, {GR_MAT_BF16P, 3e-3}};
    for (int i = 0; i < 4 * 12; i++) {
        const enum gr_mat_format f = cases[i % 4].format;
        const int m = 1 + check_below(60), k = 64 + check_below(800), n = 1 + check_below(80);
        const struct check_weights w = check_make_weights(f, n, k, 0, OPERANDS_RANDOM);
        struct rows c = make_rows(gr_mat_rows(f), m, k, 2);
        float *x = check_floats(SLOT_X, (size_t)m * (size_t)k);
        check_fill(x, (size_t)m * (size_t)k, FAMILY_NORMAL);
        c.src.x = x;
        c.src.ldx = c.ldx = k;
        check_case("%s m %d n %d k %d", gr_format_name(f), m, n, k);
        for (int s = 0; s < check_set_count; s++) {
            if (!CHECK_OWN(s, pack_rows[c.format]) && !CHECK_OWN(s, gemm[f])) {
                continue;
            }
            const struct gr_acts a = check_empty_acts(c.format, m, k, SLOT_ACTS, SLOT_ACT_SCALE, SLOT_ACT_ZERO);
            pack(s, &c, &a, 0, m);
            float *out = check_floats(SLOT_OUT, (size_t)m * (size_t)n);
            const struct gr_gemm g = {.w = &w.mat, .a = &a, .out = out, .ldo = n};
            check_sets[s].gemm[f](&g, 0, w.mat.panels, check_scratch(SLOT_SCRATCH, gr_gemm_scratch_bytes(m)));
            double off = 0.0, size = 0.0;
            for (int j = 0; j < m * n; j++) {
                double y = 0.0;
                for (int e = 0; e < k; e++) {
                    y += (double)input(&c, j / n, e) * (double)w.meant[(size_t)(j % n) * (size_t)k + (size_t)e];
                }
                y *= w.mat.scale != NULL ? (double)w.mat.scale[j % n] : 1.0;
                const double d = (double)out[j] - (double)w.mat.bias[j % n] - y;
                off += d * d;
                size += y * y;
            }
            check_near(s, "relative error", 0, 0, sqrt(off / size), 0.0, cases[i % 4].bound);
        }
    }
    check_end();
}

void check_quant_rows_all(void)
{
    check_begin("quantised rows: odd sizes, all kinds of rows, gather, smoothing, norm");
    for (int i = 0; i < 60 * 8; i++) {
        for (int f = 0; f < GR_ROW_FORMATS; f++) {
            check_rows(formats[f], 1 + i / 8, 1 + check_below(300), i % 8);
        }
    }
    for (int f = 0; f < GR_ROW_FORMATS; f++) {
        for (int options = 0; options < 8; options++) {
            check_rows(formats[f], 20, 4304, options);
        }
        check_rows(formats[f], 324, 588, 1);
        check_rows(formats[f], 116, 1152, 6);
    }
    check_end();
    independence();
    broken_rows();
    whole_products();
}
