/* SPDX-License-Identifier: Apache-2.0
 *
 * test_quantise.c: exact matrices to the low-precision formats: layouts and scales element by element, what smoothing, feedback and bias
 * correction gain in figures, threads, and inputs at the edge. Scalar kernels unless a test says otherwise. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "device/cpu/quantise.h"
#include "gr_test.h"

enum { THREADS = 3, COLS_MOST = 256 };

/* An exact matrix, calibration rows, rows of the same kind that were held back, and room for the result. */
struct fixture {
    int n, k, panels, r;
    float *w; /* [k][panels * 32] as the packed matrix has it */
    float *x, *held, *largest, *mean;
    struct gr_mat exact, out;
    struct gr_quant_rows rows;
    struct gr_quant_parts parts;
    struct gr_kernels kernels;
    struct gr_quantiser q;
    void *scratch[THREADS];
    double error;
};

static uint64_t seed;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static double gaussian(void) { return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform()); }

static void *zeros(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
    assert_non_null(p);
    return memset(p, 0, (bytes + 127) / 64 * 64);
}

static float bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float *weight(const struct fixture *f, int k, int c) { return &f->w[k * f->panels * GR_PANEL + c]; }

/* Packs f->w into f->exact; BF16 rounds f->w first. */
static void pack_exact(struct fixture *f, enum gr_mat_format format)
{
    const int k_pad = gr_pad16(f->k);
    f->exact = (struct gr_mat){.format = format, .n = f->n, .k = f->k, .panels = f->panels};
    char *data = zeros((size_t)f->panels * gr_mat_panel_bytes(&f->exact));
    float *bias = zeros((size_t)f->panels * GR_PANEL * sizeof(float));
    for (int k = 0; k < f->k; k++) {
        for (int c = 0; c < f->panels * GR_PANEL; c++) {
            const int p = c / GR_PANEL, in = c % GR_PANEL;
            if (format == GR_MAT_F32) {
                ((float *)data)[(p * k_pad + k) * GR_PANEL + in] = *weight(f, k, c);
            } else {
                *weight(f, k, c) = bf16(*weight(f, k, c));
                memcpy(data + (((p * k_pad + k) * 16 + in % 16) * 2 + in / 16) * 2, (char *)weight(f, k, c) + 2, 2);
            }
            bias[c] = c < f->n ? 0.25f : 0.0f;
        }
    }
    f->exact.data = data;
    f->exact.bias = bias;
}

static void make(struct fixture *f, int n, int k, int r)
{
    struct gr_err err;
    *f = (struct fixture){.n = n, .k = k, .r = r, .panels = (n + GR_PANEL - 1) / GR_PANEL};
    assert_true(n <= COLS_MOST);
    seed = 5;
    const size_t cols = (size_t)(f->panels + 1) * GR_PANEL;
    f->w = zeros((size_t)k * cols * sizeof(float));
    f->x = zeros((size_t)(r * k) * sizeof(float));
    f->held = zeros((size_t)(r * k) * sizeof(float));
    f->largest = zeros((size_t)k * sizeof(float));
    f->mean = zeros((size_t)k * sizeof(float));
    f->rows = (struct gr_quant_rows){.n = r, .k = k, .x = f->x, .largest = f->largest, .mean = f->mean};
    f->parts = (struct gr_quant_parts){.data = zeros(cols * (size_t)(k + 64) * 2),
                                       .scale = zeros(cols * sizeof(float)),
                                       .offset = zeros(cols * sizeof(float)),
                                       .smooth = zeros((size_t)k * sizeof(float)),
                                       .bias = zeros(cols * sizeof(float))};
    gr_kernels_init(&f->kernels, 0);
    const size_t gemm = gr_gemm_scratch_bytes(GR_QUANT_ROWS), row = gr_row_scratch_bytes(k);
    for (int t = 0; t < THREADS; t++) {
        f->scratch[t] = zeros(gemm > row ? gemm : row);
    }
    f->q = (struct gr_quantiser){.kernels = &f->kernels, .scratch = f->scratch};
    gr_test_ok(gr_pool_new(1, &f->q.pool, &err), &err);
    for (int i = 0; i < k; i++) {
        for (int c = 0; c < n; c++) {
            *weight(f, i, c) = (float)(gaussian() / sqrt(k));
        }
    }
}

static void drop(struct fixture *f)
{
    gr_pool_free(f->q.pool);
    for (int t = 0; t < THREADS; t++) {
        free(f->scratch[t]);
    }
    void *const owned[] = {
        f->w,          f->x,           f->held,         f->largest,      f->mean,       (void *)f->exact.data,
        f->parts.data, f->parts.scale, f->parts.offset, f->parts.smooth, f->parts.bias, (void *)f->exact.bias};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
}

static void measure_rows(struct fixture *f)
{
    for (int k = 0; k < f->k; k++) {
        f->largest[k] = 0;
        double sum = 0;
        for (int r = 0; r < f->r; r++) {
            f->largest[k] = fmaxf(f->largest[k], fabsf(f->x[r * f->k + k]));
            sum += (double)f->x[r * f->k + k];
        }
        f->mean[k] = (float)(sum / f->r);
    }
}

/* Rows as transformers have them: a strong common mean, a few shared directions, some noise; `outliers` channels 40 times as large. */
static void make_rows(struct fixture *f, int outliers)
{
    enum { RANK = 12 };
    double *basis = zeros((size_t)(RANK + 1) * (size_t)f->k * sizeof(double));
    for (int i = 0; i < (RANK + 1) * f->k; i++) {
        basis[i] = gaussian();
    }
    for (int r = 0; r < 2 * f->r; r++) {
        double z[RANK];
        for (int j = 0; j < RANK; j++) {
            z[j] = gaussian() / sqrt(RANK);
        }
        for (int k = 0; k < f->k; k++) {
            double v = basis[RANK * f->k + k] + 0.3 * gaussian();
            for (int j = 0; j < RANK; j++) {
                v += z[j] * basis[j * f->k + k];
            }
            v *= k % 53 == 7 && k / 53 < outliers ? 40 : 1;
            (r < f->r ? f->x : f->held)[(r % f->r) * f->k + k] = (float)v;
        }
    }
    free(basis);
    measure_rows(f);
}

static void quantise(struct fixture *f, enum gr_mat_format format, bool with_rows)
{
    struct gr_err err;
    gr_test_ok(gr_quantise(&f->q, &f->exact, with_rows ? &f->rows : NULL, format, &f->parts, &f->out, &f->error, &err),
               &err);
}

static double half_value(uint16_t h)
{
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 0 ? m * 0x1p-24 : e == 31 ? INFINITY : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

/* What stands for weight (k, c) in f->out, times its scale; k may lie in the padding. */
static double stored(const struct fixture *f, int k, int c)
{
    const int cols = gr_mat_cols(f->out.format), p = c / cols, in = c % cols;
    const char *panel = (const char *)f->out.data + (size_t)p * gr_mat_panel_bytes(&f->out);
    const uint16_t *wide = (const uint16_t *)panel;
    const int pair = (k / 2 * GR_PANEL + in) * 2 + k % 2;
    uint32_t bits;
    float value;
    switch (f->out.format) {
    case GR_MAT_I8:
        return (double)((const int8_t *)panel)[(k / 4 * GR_PANEL + in) * 4 + k % 4] * (double)f->out.scale[c];
    case GR_MAT_I16:
        return (double)(int16_t)wide[pair] * (double)f->out.scale[c];
    case GR_MAT_F16:
        return half_value(wide[k * 64 + in]) * (double)f->out.scale[c];
    default:
        bits = (uint32_t)wide[pair] << 16;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
}

/* The weight that the matrix multiplies an original input with. */
static double effective(const struct fixture *f, int k, int c)
{
    return stored(f, k, c) * (f->out.smooth != NULL ? (double)f->out.smooth[k] : 1.0);
}

/* |X Wq + bq - X W - b| / |X W| over all columns. */
static double error_on(const struct fixture *f, const float *x)
{
    double difference = 0, exact = 0;
    for (int c = 0; c < f->n; c++) {
        double wq[2048];
        for (int k = 0; k < f->k; k++) {
            wq[k] = effective(f, k, c);
        }
        for (int r = 0; r < f->r; r++) {
            double d = (double)f->out.bias[c] - (double)f->exact.bias[c], y = 0;
            for (int k = 0; k < f->k; k++) {
                const double v = (double)x[r * f->k + k], w = (double)*weight(f, k, c);
                d += v * (wq[k] - w);
                y += v * w;
            }
            difference += d * d;
            exact += y * y;
        }
    }
    return sqrt(difference / exact);
}

/* Half of the last place of a stored weight. (w times a rounded 1 / scale may fall on the other side of a half: 2.4e-7.) */
static double rounding_of(const struct fixture *f, int c, double w)
{
    int e;
    switch (f->out.format) {
    case GR_MAT_I8:
    case GR_MAT_I16:
        return 0.5 * (double)f->out.scale[c];
    case GR_MAT_F16:
        frexp(w / (double)f->out.scale[c], &e);
        return ldexp((double)f->out.scale[c], (e < -13 ? -13 : e) - 12);
    default:
        frexp(w, &e);
        return ldexp(1.0, e - 9);
    }
}

static void check_layout(struct fixture *f, enum gr_mat_format format)
{
    quantise(f, format, false);
    assert_true(f->error == -1.0);
    const int cols = f->out.panels * gr_mat_cols(format), have = f->panels * GR_PANEL;
    assert_int_equal(f->out.panels, format == GR_MAT_F16 ? (f->panels + 1) / 2 : f->panels);
    assert_int_equal(gr_quant_data_bytes(&f->exact, format), (size_t)f->out.panels * gr_mat_panel_bytes(&f->out));
    assert_true((f->out.n == f->n) & (f->out.k == f->k) & (f->out.smooth == NULL));
    for (int c = 0; c < cols; c++) {
        double sum = 0, largest = 0;
        for (int k = 0; k < gr_row_pad(gr_mat_rows(format), f->k); k++) {
            const double w = k < f->k && c < have ? (double)*weight(f, k, c) : 0.0, got = stored(f, k, c);
            sum += got;
            largest = fmax(largest, fabs(w));
            if (!(fabs(got - w) <= rounding_of(f, c, w) + 2.4e-7 * fabs(w))) {
                fail_msg("%d x %d to format %d: k %d column %d: %.9g stands for %.9g, scale %.9g", f->k, f->n, format,
                         k, c, got, w, f->out.scale != NULL ? (double)f->out.scale[c] : 1.0);
            }
            if (w == 0) {
                assert_true(got == 0);
            }
        }
        assert_true(f->out.bias[c] == (c < f->n ? 0.25f : 0.0f));
        if (format == GR_MAT_I8) {
            assert_true(fabs((double)f->out.offset[c] - sum) <= 1e-6 * (fabs(sum) + largest));
        }
        if (c < f->n && (format == GR_MAT_I8 || format == GR_MAT_I16)) {
            assert_true(f->out.scale[c] == (float)largest / (format == GR_MAT_I8 ? 127.0f : 2047.0f));
        }
        if (format == GR_MAT_F16 && c < f->n) {
            int e;
            assert_true(frexp((double)f->out.scale[c], &e) == 0.5);
            assert_true(largest / (double)f->out.scale[c] >= 0.5 && largest / (double)f->out.scale[c] < 1);
        }
    }
}

static void every_format_holds_the_rounded_weights_in_its_layout(void **state)
{
    (void)state;
    static const int dims[][2] = {{70, 37}, {32, 64}, {1, 1}, {160, 130}};
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        for (int source = GR_MAT_F32; source <= GR_MAT_BF16; source++) {
            struct fixture f;
            make(&f, dims[i][0], dims[i][1], 1);
            for (int k = 0; k < f.k; k++) { /* a column whose halves are subnormal, and one far below 1 */
                *weight(&f, k, 0) *= k % 3 == 0 ? 1e-6f : 1.0f;
                *weight(&f, k, f.n / 2) *= 1e-20f;
            }
            pack_exact(&f, (enum gr_mat_format)source);
            for (int format = GR_MAT_I8; format < GR_MAT_FORMATS; format++) {
                check_layout(&f, (enum gr_mat_format)format);
            }
            drop(&f);
        }
    }
}

static void bf16_panels_become_bf16_pairs_without_any_loss(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, 40, 50, 1);
    *weight(&f, 3, 3) = FLT_MAX / 2;
    *weight(&f, 4, 3) = -0x1p-133f; /* subnormal */
    pack_exact(&f, GR_MAT_BF16);
    quantise(&f, GR_MAT_BF16P, false);
    for (int k = 0; k < f.k; k++) {
        for (int c = 0; c < f.n; c++) {
            assert_true(stored(&f, k, c) == (double)*weight(&f, k, c));
        }
    }
    drop(&f);
}

static void error_feedback_halves_the_error_on_rows_it_has_not_seen(void **state)
{
    (void)state;
    unsigned flags = gr_cpu_detect();
    const unsigned sets[] = {0, GR_CPU_AVX2, GR_CPU_AVX2 | GR_CPU_AVX512};
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++) {
        struct fixture f;
        if ((sets[s] & flags) != sets[s]) {
            continue;
        }
        make(&f, 64, 1000, 60);
        gr_kernels_init(&f.kernels, sets[s]);
        make_rows(&f, 0);
        pack_exact(&f, GR_MAT_BF16);
        quantise(&f, GR_MAT_I8, true);
        const double nearest = error_on(&f, f.held);
        f.q.feedback = true;
        quantise(&f, GR_MAT_I8, true);
        const double seen = error_on(&f, f.x), held = error_on(&f, f.held);
        f.q.bias = true;
        quantise(&f, GR_MAT_I8, true);
        printf("# %s: to nearest %.5f, feedback %.5f (rows of the calibration %.5f), with bias %.5f\n", f.kernels.isa,
               nearest, held, seen, error_on(&f, f.held));
        assert_true(held < nearest / 2 && seen < nearest / 4);
        drop(&f);
    }
}

static void smoothing_makes_rows_with_outliers_accurate(void **state)
{
    (void)state;
    struct fixture f;
    double error[4];
    make(&f, 64, 600, 40);
    make_rows(&f, 4);
    for (int k = 0; k < f.k; k++) { /* channels with large inputs have small weights */
        for (int c = 0; c < f.n; c++) {
            *weight(&f, k, c) /= f.largest[k] > 30 ? 20.0f : 1.0f;
        }
    }
    pack_exact(&f, GR_MAT_BF16);
    for (int i = 0; i < 4; i++) {
        f.q.smooth = i & 1;
        f.q.feedback = f.q.bias = i & 2;
        quantise(&f, GR_MAT_I8, true);
        error[i] = f.error;
    }
    printf("# plain %.5f, smoothed %.5f, feedback and bias %.5f, all %.5f\n", error[0], error[1], error[2], error[3]);
    assert_true(error[1] < error[0] / 4);
    assert_true(error[3] < error[1] * 0.7);
    assert_true(error[3] < error[2] / 4);
    drop(&f);
}

static void bias_correction_keeps_the_product_with_the_mean_row(void **state)
{
    (void)state;
    struct fixture f;
    make(&f, 50, 200, 20);
    make_rows(&f, 1);
    pack_exact(&f, GR_MAT_F32);
    f.q.smooth = f.q.bias = true;
    for (int feedback = 0; feedback < 2; feedback++) {
        f.q.feedback = feedback;
        quantise(&f, GR_MAT_I8, true);
        for (int c = 0; c < f.n; c++) {
            double d = (double)f.out.bias[c] - 0.25, size = 0;
            for (int k = 0; k < f.k; k++) {
                d += (double)f.mean[k] * (effective(&f, k, c) - (double)*weight(&f, k, c));
                size += fabs((double)f.mean[k] * (double)*weight(&f, k, c));
            }
            assert_true(fabs(d) < 1e-5 * size);
        }
    }
    drop(&f);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_err err;
    make(&f, 250, 150, 35);
    make_rows(&f, 2);
    pack_exact(&f, GR_MAT_BF16);
    f.q.smooth = f.q.feedback = f.q.bias = true;
    quantise(&f, GR_MAT_I8, true);
    const size_t bytes = gr_quant_data_bytes(&f.exact, GR_MAT_I8), vector = (size_t)f.panels * GR_PANEL * sizeof(float);
    char *data = memcpy(zeros(bytes), f.out.data, bytes), *bias = memcpy(zeros(vector), f.out.bias, vector);
    const double error = f.error;
    for (int threads = 2; threads <= THREADS; threads++) {
        gr_pool_free(f.q.pool);
        gr_test_ok(gr_pool_new(threads, &f.q.pool, &err), &err);
        memset(f.parts.data, 0x55, bytes);
        quantise(&f, GR_MAT_I8, true);
        assert_memory_equal(f.out.data, data, bytes);
        assert_memory_equal(f.out.bias, bias, vector);
        assert_true(f.error == error);
    }
    free(data);
    free(bias);
    drop(&f);
}

static void assert_finite(const struct fixture *f)
{
    const int cols = f->out.panels * gr_mat_cols(f->out.format);
    assert_true(isfinite(f->error) && f->error >= 0);
    for (int c = 0; c < cols; c++) {
        assert_true(isfinite(f->out.bias[c]));
        assert_true(f->out.scale == NULL || (isfinite(f->out.scale[c]) && f->out.scale[c] > 0));
        assert_true(f->out.offset == NULL || isfinite(f->out.offset[c]));
        for (int k = 0; k < f->k; k++) {
            assert_true(isfinite(effective(f, k, c)));
        }
    }
    for (int k = 0; k < f->k && f->out.smooth != NULL; k++) {
        assert_true(isfinite(f->out.smooth[k]) && f->out.smooth[k] >= 0);
    }
}

static void zero_constant_and_extreme_values_stay_finite(void **state)
{
    (void)state;
    for (int variant = 0; variant < 8; variant++) {
        struct fixture f;
        make(&f, 40, 70, variant == 1 ? 1 : 9);
        make_rows(&f, 1);
        for (int k = 0; k < f.k; k++) {
            *weight(&f, k, 0) = 0;                             /* a column of zeros */
            *weight(&f, k, 1) = 0.125f;                        /* a constant one */
            *weight(&f, k, 2) *= variant == 2 ? 1e-40f : 1.0f; /* subnormal */
            *weight(&f, k, 3) *= variant == 3 ? 1e30f : 1.0f;  /* large */
            for (int c = 0; c < f.n && k < 3; c++) {
                *weight(&f, k, c) = 0; /* an input that nothing listens to */
            }
            for (int r = 0; r < f.r; r++) {
                float *x = &f.x[r * f.k + k];
                *x = k % 7 == 0 || variant == 4 ? 0 : *x; /* an input that is silent; all are */
                *x *= variant == 5 ? 1e-30f : variant == 6 ? 1e15f : 1.0f;
                *x = variant == 7 && r > 0 ? f.x[k] : *x; /* all rows the same */
            }
        }
        measure_rows(&f);
        pack_exact(&f, GR_MAT_F32);
        f.q.smooth = f.q.feedback = f.q.bias = true;
        for (int format = GR_MAT_I8; format < GR_MAT_FORMATS; format++) {
            quantise(&f, (enum gr_mat_format)format, true);
            assert_finite(&f);
            assert_true(f.error < 0.05);
            for (int k = 0; k < f.k; k++) {
                assert_true(stored(&f, k, 0) == 0);
            }
        }
        drop(&f);
    }
}

static void rows_that_are_not_finite_or_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct gr_err err;
    make(&f, 40, 70, 9);
    make_rows(&f, 0);
    pack_exact(&f, GR_MAT_F32);
    f.q.smooth = f.q.feedback = f.q.bias = true;
#define QUANTISE(format) gr_quantise(&f.q, &f.exact, &f.rows, format, &f.parts, &f.out, &f.error, &err)
    f.rows.k = 69;
    gr_test_fails(QUANTISE(GR_MAT_I8), &err, GR_ERR_USAGE, "calibration");
    f.rows.k = 70;
    f.x[100] = NAN;
    gr_test_fails(QUANTISE(GR_MAT_I8), &err, GR_ERR_FORMAT, "NaN or infinity");
    gr_test_fails(QUANTISE(GR_MAT_F16), &err, GR_ERR_FORMAT, "NaN or infinity");
    f.largest[3] = INFINITY;
    gr_test_fails(QUANTISE(GR_MAT_I8), &err, GR_ERR_FORMAT, "input 3");
    f.rows.n = 0;
    quantise(&f, GR_MAT_I8, true); /* no rows at all: to nearest */
    assert_true(f.error == -1.0 && f.out.smooth == NULL && f.parts.smooth[5] == 1.0f);
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_holds_the_rounded_weights_in_its_layout),
        cmocka_unit_test(bf16_panels_become_bf16_pairs_without_any_loss),
        cmocka_unit_test(error_feedback_halves_the_error_on_rows_it_has_not_seen),
        cmocka_unit_test(smoothing_makes_rows_with_outliers_accurate),
        cmocka_unit_test(bias_correction_keeps_the_product_with_the_mean_row),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(zero_constant_and_extreme_values_stay_finite),
        cmocka_unit_test(rows_that_are_not_finite_or_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
