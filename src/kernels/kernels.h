/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h: the table of compute kernels. gr_kernels_init fills in the scalar set completely, then each instruction set of the
 * CPU overwrites what it does better. The scalar set is the specification: short, fixed order, never tuned.
 *
 * Rules that every set keeps, so that results do not depend on threads or on how many rows run:
 *   - an output row depends on its own input row only, in a fixed order over k;
 *   - a kernel works on a range (panels, rows, heads) and the caller splits ranges over threads.
 *
 * Layouts. Weights stand in panels of 32 columns, k after k, so that a panel is one contiguous stream. Activations are packed
 * into tiles of at most 13 rows: [tile][chunk of 16 k][row][16], so that a tile is read front to back (rows at a power-of-two
 * stride would fall on one cache set). k is padded to 16 with zeros on both sides. */
#ifndef GR_KERNELS_KERNELS_H
#define GR_KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { GR_PANEL = 32, GR_TILE_ROWS = 13, GR_CHUNK = 16 };

enum gr_mat_format {
    GR_MAT_F32, /* [panels][k_pad][32] float */
    GR_MAT_BF16 /* [panels][k_pad][16] uint32: column c in the low half, column c + 16 in the high half */
};

/* A packed weight matrix of n columns (outputs) and k rows (inputs). Pad columns and pad k hold zeros. */
struct gr_mat {
    enum gr_mat_format format;
    int n, k;
    int panels;        /* ceil(n / 32); for gate/up matrices ceil(n / 2 / 16) */
    const void *data;  /* 64-byte aligned, owned by the device's weight block */
    const float *bias; /* [panels * 32], zeros when the layer has none; never NULL */
};

/* Packed activations of one product. Tile t of `tiles` starts at row gr_tile_first and at data + first * k_pad. */
struct gr_acts {
    int m, k, k_pad;
    float *data; /* [m * k_pad], 64-byte aligned */
};

static inline int gr_tile_count(int m) { return (m + GR_TILE_ROWS - 1) / GR_TILE_ROWS; }
/* Tiles are as even as possible: the first m % tiles ones have one row more. t = gr_tile_count(m) gives m. */
static inline int gr_tile_first(int m, int t)
{
    int tiles = gr_tile_count(m), base = m / tiles, extra = m % tiles;
    return t * base + (t < extra ? t : extra);
}
static inline int gr_pad16(int k) { return (k + 15) & ~15; }

enum gr_row_norm_kind { GR_ROW_LAYER, GR_ROW_RMS };
/* LayerNorm: (x - mean) / sqrt(var + eps) * gamma + beta, mean and variance in two passes.
 * RMSNorm: x / sqrt(mean(x^2) + eps) * gamma. gamma, beta [k]; NULL: one, zero. AdaLN passes 1 + scale and shift. */
struct gr_row_norm {
    enum gr_row_norm_kind kind;
    float eps;
    const float *gamma, *beta;
};

enum gr_epilogue {
    GR_EPI_STORE,     /* out = y */
    GR_EPI_ADD,       /* out += y: residual */
    GR_EPI_GELU_TANH, /* 0.5 y (1 + tanh(sqrt(2/pi) (y + 0.044715 y^3))) */
    GR_EPI_GELU_ERF,  /* 0.5 y (1 + erf(y / sqrt 2)) */
    GR_EPI_SILU,      /* y / (1 + e^-y) */
    GR_EPI_RELU,
    GR_EPI_SILU_MUL /* a panel holds 16 gate and 16 up columns; out column 16 p + c = silu(gate) * up; out has n / 2 columns */
};

/* One product y = a w + bias with its epilogue. */
struct gr_gemm {
    const struct gr_mat *w;
    const struct gr_acts *a;
    const float *bias; /* [panels * 32], replaces w->bias when not NULL */
    float *out;        /* [m, n] (SILU_MUL: [m, n / 2]), row stride ldo */
    int ldo;
    enum gr_epilogue epilogue;
};

/* Softmax attention of one head: o[i] = sum_j softmax_j(scale q[i].k[j]) v[j]. */
struct gr_attention {
    const float *q;
    int ldq; /* [m, d] */
    const float *k;
    int ldk; /* [s, d] */
    const float *v;
    int ldv; /* [s, d] */
    float *o;
    int ldo; /* [m, d] */
    int m, s, d;
    int causal; /* 1: row i sees keys 0 .. i + s - m; 0: all */
    float scale;
};

struct gr_kernels {
    const char *isa; /* "scalar", "avx2", "avx512" */
    /* Packs rows [r0, r1) of x (row stride ldx) into a, after `norm` when not NULL. index: row r is taken from x row index[r] (gather);
     * NULL: row r. Sets pad k to zero. scratch: at least gr_row_scratch_bytes(k). */
    void (*pack_rows)(const struct gr_acts *a, const float *x, int ldx, const int32_t *index,
                      const struct gr_row_norm *norm, int r0, int r1, void *scratch);
    /* out rows [r0, r1) = norm(x), plain layout. out may be x. */
    void (*norm_rows)(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                      int r1);
    /* Panels [p0, p1) of a product. scratch: at least gr_gemm_scratch_bytes(m), 64-byte aligned, one per thread. */
    void (*gemm)(const struct gr_gemm *g, int p0, int p1, void *scratch);
    /* One head. scratch: at least gr_attention_scratch_bytes(m, s, d), 64-byte aligned, one per thread. */
    void (*attention)(const struct gr_attention *a, void *scratch);
    /* For rows [r0, r1) and each of `heads` heads of dh elements: RMSNorm with gamma [dh], then rotation by position r:
     * out[i] = x[i] cos - x[i + dh/2] sin, out[i + dh/2] = x[i + dh/2] cos + x[i] sin. cos, sin [rows, dh/2]. In place. */
    void (*rms_rope)(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                     const float *sin, int r0, int r1);
    /* Multiply-add peak of one thread at this moment, GFLOP/s: independent accumulators, operands in registers. */
    double (*fma_peak)(void);
};

size_t gr_row_scratch_bytes(int k);
size_t gr_gemm_scratch_bytes(int m);
size_t gr_attention_scratch_bytes(int m, int s, int d);

/* flags: enum gr_cpu_flags. */
void gr_kernels_init(struct gr_kernels *table, unsigned flags);

/* One per set, called by gr_kernels_init in this order. */
void gr_kernels_scalar(struct gr_kernels *table);
void gr_kernels_avx2(struct gr_kernels *table);
void gr_kernels_avx512(struct gr_kernels *table);

#endif
