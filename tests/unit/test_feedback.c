/* SPDX-License-Identifier: Apache-2.0
 *
 * test_feedback.c: rounding with error feedback against a textbook GPTQ in double that inverts the K x K matrix, and the plain product
 * that it runs on, in every set of this CPU. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "device/cpu/feedback.h"
#include "gr_test.h"

enum { N = GR_PANEL, K_MOST = 160, R_MOST = 40 };

static const unsigned SETS[] = {0, GR_CPU_AVX2, GR_CPU_AVX2 | GR_CPU_AVX512};
enum { SET_COUNT = sizeof SETS / sizeof SETS[0] };

static uint64_t seed = 5;

static double uniform(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(seed >> 11) * 0x1p-53;
}

static double gaussian(void) { return sqrt(-2 * log(1 - uniform())) * cos(6.283185307179586 * uniform()); }

/* r rows of a common mean plus noise, k weights of N columns. */
struct fixture {
    int r, k;
    float x[R_MOST * K_MOST], w[K_MOST * N], smooth[K_MOST], scale[N], inverse[N];
    double lambda;
    int order[K_MOST];                       /* by energy, largest first */
    double h[K_MOST * K_MOST];               /* X^T X + lambda I, then its inverse */
    double want[K_MOST * N];                 /* weights, then whole numbers */
    float left[K_MOST * N], got[K_MOST * N]; /* ours, in the order of rounding */
};

/* Input k as the product sees it: smoothed. */
static double input(const struct fixture *f, int r, int k) { return (double)f->x[r * f->k + k] * (double)f->smooth[k]; }

static void fill(struct fixture *f, int r, int k, double damping)
{
    f->r = r;
    f->k = k;
    double energy = 0;
    for (int i = 0; i < k; i++) {
        const double mean = gaussian();
        f->smooth[i] = (float)exp(0.5 * gaussian());
        for (int j = 0; j < r; j++) {
            f->x[j * k + i] = (float)(mean + 0.5 * gaussian());
            energy += input(f, j, i) * input(f, j, i);
        }
        for (int c = 0; c < N; c++) {
            f->w[i * N + c] = (float)gaussian();
            f->want[i * N + c] = (double)f->w[i * N + c];
        }
    }
    for (int c = 0; c < N; c++) {
        f->scale[c] = (float)(0.02 + 0.01 * uniform()); /* some weights are beyond 127 steps: clamped */
        f->inverse[c] = 1.0f / f->scale[c];
    }
    f->lambda = damping * energy / r;
    for (int i = 0; i < k * k; i++) {
        f->h[i] = i / k == i % k ? f->lambda : 0;
        for (int j = 0; j < r; j++) {
            f->h[i] += input(f, j, i / k) * input(f, j, i % k);
        }
    }
    for (int i = 0, at; i < k; i++) {
        for (at = i; at > 0 && f->h[f->order[at - 1] * (k + 1)] < f->h[i * (k + 1)]; at--) {
            f->order[at] = f->order[at - 1];
        }
        f->order[at] = i;
    }
}

static void invert(double *h, int n)
{
    for (int p = 0; p < n; p++) {
        const double d = 1 / h[p * n + p];
        for (int j = 0; j < n; j++) {
            h[p * n + j] = j == p ? d : h[p * n + j] * d;
        }
        for (int i = 0; i < n; i++) {
            const double a = h[i * n + p];
            for (int j = 0; j < n && i != p; j++) {
                h[i * n + j] = j == p ? -a * d : h[i * n + j] - a * h[p * n + j];
            }
        }
    }
}

/* After weight k, with H the inverse, the weights to come take -e H[k][j] / H[k][k]; then k is eliminated from H. */
static void round_as_the_textbook(struct fixture *f)
{
    const int n = f->k;
    invert(f->h, n);
    for (int i = 0; i < n; i++) {
        const int k = f->order[i];
        double column[K_MOST];
        for (int j = 0; j < n; j++) {
            column[j] = f->h[k * n + j] / f->h[k * n + k];
        }
        for (int c = 0; c < N; c++) {
            const double v = f->want[k * N + c], s = (double)f->scale[c], q = fmin(fmax(rint(v / s), -127), 127);
            f->want[k * N + c] = q;
            for (int j = i + 1; j < n; j++) {
                f->want[f->order[j] * N + c] -= (v - q * s) * column[f->order[j]];
            }
        }
        for (int a = i + 1; a < n; a++) {
            for (int b = i + 1; b < n; b++) {
                f->h[f->order[a] * n + f->order[b]] -= f->h[k * n + f->order[b]] * column[f->order[a]];
            }
        }
    }
}

static void round_ours(struct fixture *f, const struct gr_kernels *kernels, int threads, double damping)
{
    struct gr_pool *pool;
    struct gr_err err;
    struct gr_feedback feedback;
    float s[R_MOST * N] = {0};
    gr_test_ok(gr_pool_new(threads, &pool, &err), &err);
    gr_test_ok(gr_feedback_make(pool, kernels, f->x, f->r, f->k, f->smooth, damping, &feedback, &err), &err);
    memset(f->left, 0, sizeof f->left);
    for (int i = 0; i < feedback.k_pad; i++) {
        assert_int_equal(feedback.order[i], i < f->k ? f->order[i] : i);
        for (int c = 0; c < N && i < f->k; c++) {
            f->left[i * N + c] = f->w[f->order[i] * N + c];
        }
    }
    for (int b = 0; b < feedback.k_pad / GR_FEEDBACK_BLOCK; b++) {
        const int first = b * GR_FEEDBACK_BLOCK * N;
        gr_feedback_round(&feedback, kernels, b, f->left + first, f->scale, f->inverse, f->got + first, s);
    }
    gr_feedback_free(&feedback);
    gr_pool_free(pool);
}

static void error_feedback_gives_the_weights_of_a_dense_gptq(void **state)
{
    (void)state;
    static struct fixture f;
    static const int dims[][2] = {{1, 1}, {5, 24}, {7, 80}, {40, 130}};
    static const double damping[] = {0.003, 0.03, 0.3};
    int moved = 0, clamped = 0, all = 0;
    for (int i = 0; i < 12 * SET_COUNT; i++) {
        struct gr_kernels kernels;
        const int set = i / 12, *dim = dims[i % 4];
        if ((SETS[set] & gr_cpu_detect()) != SETS[set]) {
            continue;
        }
        gr_kernels_init(&kernels, SETS[set]);
        fill(&f, dim[0], dim[1], damping[i / 4 % 3]);
        round_as_the_textbook(&f);
        round_ours(&f, &kernels, 1 + i % 3, damping[i / 4 % 3]);
        for (int at = 0; at < f.k * N; at++, all++) {
            const int k = f.order[at / N], c = at % N;
            const double want = f.want[k * N + c], w = (double)f.w[k * N + c], scale = (double)f.scale[c];
            assert_true((double)f.got[at] == want);
            assert_true(fabs((double)f.left[at] - (w - want * scale)) < 1e-5);
            moved += fabs(want - w / scale) > 0.51;
            clamped += fabs(want) == 127;
        }
    }
    printf("# %d weights, %d not rounded to nearest, %d clamped\n", all, moved, clamped);
    assert_true(moved > all / 10 && clamped > 0); /* it is not plain rounding */
}

/* Every set's plain product against double, and the same bits when rows and columns are cut. */
static void multiply_add_is_a_plain_product_in_every_set(void **state)
{
    (void)state;
    enum { M = 43, WIDE = 96, K = 37, LDA = 41, LDB = 99, LDC = 101 };
    static float a[M * LDA], b[K * LDB], c[M * LDC], d[M * LDC];
    const unsigned flags = gr_cpu_detect();
    for (size_t s = 0; s < SET_COUNT; s++) {
        struct gr_kernels kernels;
        if ((SETS[s] & flags) != SETS[s]) {
            continue;
        }
        gr_kernels_init(&kernels, SETS[s]);
        for (int m = 1; m <= M; m++) {
            for (int i = 0; i < M * LDA; i++) {
                a[i] = (float)gaussian();
            }
            for (int i = 0; i < K * LDB; i++) {
                b[i] = (float)gaussian();
            }
            for (int i = 0; i < M * LDC; i++) {
                c[i] = d[i] = (float)gaussian();
            }
            struct gr_multiply p = {
                .a = a, .lda = LDA, .b = b, .ldb = LDB, .c = c, .ldc = LDC, .m = m, .n = WIDE, .k = m % 2 ? K : 1};
            kernels.multiply_add(&p);
            for (int i = 0; i < M * LDC; i++) {
                const int row = i / LDC, col = i % LDC;
                double want = (double)d[i];
                for (int k = 0; k < p.k && row < m && col < WIDE; k++) {
                    want += (double)a[row * LDA + k] * (double)b[k * LDB + col];
                }
                assert_true(fabs((double)c[i] - want) <= (row < m && col < WIDE ? 3e-5 : 0.0));
            }
            for (int col = 0; col < WIDE; col += GR_PANEL) {
                for (int row = 0; row < m; row++) {
                    p = (struct gr_multiply){.a = a + row * LDA,
                                             .lda = LDA,
                                             .b = b + col,
                                             .ldb = LDB,
                                             .m = 1,
                                             .n = GR_PANEL,
                                             .k = p.k,
                                             .c = d + row * LDC + col,
                                             .ldc = LDC};
                    kernels.multiply_add(&p);
                }
            }
            assert_memory_equal(c, d, sizeof c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_feedback_gives_the_weights_of_a_dense_gptq),
        cmocka_unit_test(multiply_add_is_a_plain_product_in_every_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
