/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels.h: the table of compute kernels. gr_kernels_init fills in the scalar set completely, then each instruction set of the
 * CPU overwrites what it does better. The scalar set is the specification: short, fixed order, never tuned.
 *
 * Rules that every set keeps, so that results do not depend on threads or on how many rows run:
 *   - an output row depends on its own input row only, in a fixed order over k;
 *   - a kernel works on a range (panels, rows, heads) and the caller splits ranges over threads.
 * Integer formats give the same bits in every set up to the epilogue's activation function; float formats differ in rounding.
 *
 * Layouts. Weights stand in panels of gr_mat_cols() columns, k after k, so that a panel is one contiguous stream. Activations are
 * packed into tiles of at most 13 rows: [tile][chunk of 64 bytes of k][row][64 bytes], so that a tile is read front to back
 * (rows at a power-of-two stride would fall on one cache set). k is padded to whole chunks, with zeros in the weights. The same
 * bytes serve as operands of AMX tiles: 16 rows of 64 bytes of weights (stride 128), up to 13 rows of activations (stride 64). */
#ifndef GR_KERNELS_KERNELS_H
#define GR_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GR_PANEL = 32, GR_PANEL_MAX = 64, GR_TILE_ROWS = 13, GR_CHUNK = 16, GR_CHUNK_BYTES = 64 };

enum { GR_I8_DEPTH = INT32_MAX / (255 * 127) }; /* largest k of an int8 product: its sums fit int32 */
enum { GR_F16_LEAST_EXPONENT = -66 };           /* of a row's scale */
enum { GR_ATTENTION16_WIDTH = 512 };            /* widest head of attention on 16-bit operands */

/* Formats of packed rows: [tile][chunk][row][64 bytes]. */
enum gr_row_format {
    GR_ROWS_F32,  /* 16 floats a chunk */
    GR_ROWS_U8,   /* 64 bytes a chunk: q = rint(x / scale) + zero_point, 0..255, per row */
    GR_ROWS_I16,  /* 32 a chunk: q = rint(x / scale), 14 bits (+-8191), per row */
    GR_ROWS_F16,  /* 16 a chunk, each half twice: a dword broadcast feeds 32 lanes; x / scale, scale a power of two */
    GR_ROWS_BF16, /* 32 a chunk, rounded to nearest even */
    GR_ROW_FORMATS
};

enum gr_mat_format {
    GR_MAT_F32,   /* [panels][k_pad][32] float; rows F32 */
    GR_MAT_BF16,  /* [panels][k_pad][16] uint32: column c in the low half, column c + 16 in the high half; rows F32 */
    GR_MAT_I8,    /* [panels][k_pad / 4][32][4] int8; rows U8: vpdpbusd, tdpbusd */
    GR_MAT_I16,   /* [panels][k_pad / 2][32][2] int16, 12 bits (+-2047); rows I16: vpdpwssd */
    GR_MAT_F16,   /* [panels of 64][k_pad][64] half; rows F16: vfmadd231ph */
    GR_MAT_BF16P, /* [panels][k_pad / 2][32][2] bf16; rows BF16: vdpbf16ps, tdpbf16ps */
    GR_MAT_FORMATS
};

/* "f32", "bf16", "i8", "i16", "f16", "bf16p"; and back: false for other names. */
const char *gr_format_name(enum gr_mat_format format);
bool gr_format_find(const char *name, enum gr_mat_format *out);

/* Weights as they are stored, multiplied in fp32. */
static inline bool gr_mat_exact(enum gr_mat_format f) { return f == GR_MAT_F32 || f == GR_MAT_BF16; }

/* k of one chunk: 16, 64, 32, 16, 32. */
static inline int gr_row_chunk(enum gr_row_format f)
{
    return f == GR_ROWS_U8 ? 64 : f == GR_ROWS_I16 || f == GR_ROWS_BF16 ? 32 : 16;
}
static inline enum gr_row_format gr_mat_rows(enum gr_mat_format f)
{
    return f == GR_MAT_I8      ? GR_ROWS_U8
           : f == GR_MAT_I16   ? GR_ROWS_I16
           : f == GR_MAT_F16   ? GR_ROWS_F16
           : f == GR_MAT_BF16P ? GR_ROWS_BF16
                               : GR_ROWS_F32;
}
static inline int gr_row_pad(enum gr_row_format f, int k)
{
    int chunk = gr_row_chunk(f);
    return (k + chunk - 1) / chunk * chunk;
}
/* Columns of a panel. */
static inline int gr_mat_cols(enum gr_mat_format f) { return f == GR_MAT_F16 ? 64 : 32; }
/* Bytes of one k of a panel: 128 (F32, F16), 64 (BF16, BF16P, I16), 32 (I8). */
static inline size_t gr_mat_k_bytes(enum gr_mat_format f)
{
    return f == GR_MAT_F32 || f == GR_MAT_F16 ? 128 : f == GR_MAT_I8 ? 32 : 64;
}

/* A packed weight matrix of n columns (outputs) and k rows (inputs). Pad columns and pad k hold zeros. All vectors are 64-byte
 * aligned and owned by the device's weight block. */
struct gr_mat {
    enum gr_mat_format format;
    int n, k;
    int panels;          /* ceil(n / cols); gate/up matrices: ceil(n / 2 / (cols / 2)) */
    const void *data;    /* 64-byte aligned */
    const float *bias;   /* [panels * cols], zeros when the layer has none; never NULL */
    const float *scale;  /* [panels * cols] of a column's sums; I8, I16, F16 (powers of two); else NULL */
    const float *offset; /* [panels * cols] I8: scale * sum of the column's weights; else NULL */
    const float *smooth; /* [k] factors of the rows, which the weights were divided by; NULL: none */
};
static inline size_t gr_mat_panel_bytes(const struct gr_mat *w)
{
    return (size_t)gr_row_pad(gr_mat_rows(w->format), w->k) * gr_mat_k_bytes(w->format);
}

/* Packed activations of one product. Tile t of `tiles` starts at row gr_tile_first; a row takes k_pad / chunk * 64 bytes. */
struct gr_acts {
    enum gr_row_format format;
    int m, k, k_pad;
    void *data;   /* [m * gr_acts_row_bytes], 64-byte aligned */
    float *scale; /* [m]: U8, I16, F16; else unused */
    float *zero;  /* [m]: U8: -scale * zero_point; else unused */
};
static inline size_t gr_acts_row_bytes(enum gr_row_format f, int k)
{
    return (size_t)(gr_row_pad(f, k) / gr_row_chunk(f)) * GR_CHUNK_BYTES;
}

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

/* Where the rows of a product come from: x, normalised, multiplied with smooth, in this order. */
struct gr_row_source {
    const float *x;
    int ldx;                        /* floats from row to row */
    const int32_t *index;           /* row r is taken from x row index[r] (gather); NULL: row r */
    const struct gr_row_norm *norm; /* NULL: none */
    const float *smooth;            /* [k]; NULL: ones */
};

/* Quantised rows, with lo = min(0, min x), hi = max(0, max x), largest = max |x|; every operation in float:
 *   U8   scale = (hi - lo) / 255, at least 1e-20; inverse = 1 / scale; zero_point = rint(-lo * inverse) within 0..255;
 *        q = rint(x * inverse) + zero_point within 0..255; zero = -scale * zero_point. Pad k: zero_point or anything else, the
 *        weights there are 0.
 *   I16  scale = largest / 8191, at least 1e-20; q = rint(x * (1 / scale)).
 *   F16  scale = 2^(e - 3) where largest = f 2^e, 0.5 <= f < 1 (largest 0: scale 1): the row's maximum lies in [4, 8). The exponent is at
 *        least GR_F16_LEAST_EXPONENT (about 1e-20), so that 1 / scale is a float.
 * A row that holds NaN or infinity gets scale NaN (U8: zero too; BF16 and F16 elements stay NaN or infinite as well), so that all its
 * outputs are NaN: a broken input must be seen.
 * Products, s = exact integer sum, each line in float with fused multiply-adds (the order all sets keep):
 *   I8   y = fma(float(s) * w.scale, row.scale, fma(row.zero, w.offset, bias))
 *   I16  int32 sums of up to 4 chunks (128 k: they cannot overflow), converted to float and added in order of k: t;
 *        y = fma(t * w.scale, row.scale, bias)
 *   F16  half sums of up to 8 chunks (128 k), converted to float and added in order of k: t; y = fma(t * w.scale, row.scale, bias).
 *        Sets without half arithmetic sum in float.
 *   BF16P  float sums; y = t + bias. */

enum gr_epilogue {
    GR_EPI_STORE,     /* out = y */
    GR_EPI_ADD,       /* out += y: residual */
    GR_EPI_GELU_TANH, /* 0.5 y (1 + tanh(sqrt(2/pi) (y + 0.044715 y^3))) */
    GR_EPI_GELU_ERF,  /* 0.5 y (1 + erf(y / sqrt 2)) */
    GR_EPI_SILU,      /* y / (1 + e^-y) */
    GR_EPI_RELU,
    GR_EPI_SILU_MUL /* a panel alternates 16 gate and 16 up columns; pair j of panel p: out columns 16 (p cols / 32 + j) .. + 15 =
                       silu(gate) * up; out has n / 2 columns */
};

/* One product y = a w + bias with its epilogue. */
struct gr_gemm {
    const struct gr_mat *w;
    const struct gr_acts *a; /* a->format == gr_mat_rows(w->format) */
    const float *bias;       /* [panels * cols], replaces w->bias when not NULL */
    float *out;              /* [m, n] (SILU_MUL: [m, n / 2]), row stride ldo */
    int ldo;
    enum gr_epilogue epilogue;
    const void *next;  /* what this thread streams after its panels, to be fetched ahead; NULL: nothing known */
    size_t next_bytes; /* readable there */
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

/* Attention on 16-bit operands: relative error about 1e-3, integer sums that cannot overflow whatever the data (d <= GR_ATTENTION16_WIDTH).
 *   q, k  12 bits, one scale a row: scale = max |x| / 2047, at least 1e-30; rint(x * (2047 / max |x|)). q's sign is that of a.scale.
 *   v     the same, one scale a column
 *   p     rint(8191 e^(y - max y)) for the scores y of a row; at most 128 keys a sum: 128 * 8192 * 2047 < 2^31
 *   o     sum of p v (int32 up to 128 keys, then float) times the column's scale, over the sum of these p
 * NaN or infinity in a row of q makes that row's outputs NaN, in v all of its column, in k all outputs. */

/* Plain row-major product c += a b for work at load (error feedback): c [m, n], a [m, k], b [k, n]; n a multiple of GR_PANEL. An element
 * is a chain over k in order that starts from c (fused in all sets but scalar), so it does not depend on how rows and columns are cut. */
struct gr_multiply {
    const float *a, *b;
    float *c;
    int lda, ldb, ldc; /* floats from row to row */
    int m, n, k;
};

struct gr_kernels {
    const char *isa;                      /* highest set in use: "scalar", "avx2", ... "amx" */
    const char *gemm_isa[GR_MAT_FORMATS]; /* set that computes each format */
    /* Packs rows [r0, r1) of `src` into a; a->format chooses the entry. Writes a->scale and a->zero of these rows. scratch: at least
     * gr_row_scratch_bytes(k), 64-byte aligned. */
    void (*pack_rows[GR_ROW_FORMATS])(const struct gr_acts *a, const struct gr_row_source *src, int r0, int r1,
                                      void *scratch);
    /* out rows [r0, r1) = norm(x), plain layout. out may be x. */
    void (*norm_rows)(const float *x, int ldx, float *out, int ldo, int cols, const struct gr_row_norm *norm, int r0,
                      int r1);
    /* Panels [p0, p1) of a product; the format of the weights chooses the entry. scratch: at least gr_gemm_scratch_bytes(m), 64-byte
     * aligned, one per thread. */
    void (*gemm[GR_MAT_FORMATS])(const struct gr_gemm *g, int p0, int p1, void *scratch);
    /* One head. scratch: at least gr_attention_scratch_bytes(m, s, d), 64-byte aligned, one per thread. */
    void (*attention)(const struct gr_attention *a, void *scratch);
    /* The same on 16-bit operands (see struct gr_attention), in one call, and in two where keys and values stay while queries
     * change: pack reads k, v, s, d of a; run reads the rest and what pack made of the same k, v. packed: at least
     * gr_attention16_packed_bytes(s, d), 64-byte aligned. Values share a scale over all keys, so a row depends on keys that it does not
     * attend to: not for causal attention whose rows must stay the same when later rows change. All three NULL: the set has none
     * that is faster than `attention`. */
    void (*attention16)(const struct gr_attention *a, void *scratch);
    void (*attention16_pack)(const struct gr_attention *a, void *packed);
    void (*attention16_run)(const struct gr_attention *a, const void *packed, void *scratch);
    /* For rows [r0, r1) and each of `heads` heads of dh elements: RMSNorm with gamma [dh], then rotation by position r:
     * out[i] = x[i] cos - x[i + dh/2] sin, out[i + dh/2] = x[i + dh/2] cos + x[i] sin. cos, sin [rows, dh/2]. In place. */
    void (*rms_rope)(float *x, int ldx, int heads, int dh, const float *gamma, float eps, const float *cos,
                     const float *sin, int r0, int r1);
    /* Peak of the multiply instruction of each format, one thread, at this moment: Gop/s (a multiply-add is two), operands in
     * registers. Takes some ms. */
    double (*peak[GR_MAT_FORMATS])(void);
    void (*multiply_add)(const struct gr_multiply *p);
};

size_t gr_row_scratch_bytes(int k);
size_t gr_gemm_scratch_bytes(int m);
size_t gr_attention_scratch_bytes(int m, int s, int d);
size_t gr_attention16_packed_bytes(int s, int d);

/* flags: enum gr_cpu_flags. */
void gr_kernels_init(struct gr_kernels *table, unsigned flags);

/* One per set, called by gr_kernels_init in this order. Each overwrites what it does better and nothing else. */
void gr_kernels_scalar(struct gr_kernels *table);
void gr_kernels_avx2(struct gr_kernels *table);
void gr_kernels_avxvnni(struct gr_kernels *table);
void gr_kernels_avx512(struct gr_kernels *table);
void gr_kernels_avx512vnni(struct gr_kernels *table);
void gr_kernels_avx512fp16(struct gr_kernels *table);
void gr_kernels_avx512bf16(struct gr_kernels *table);
void gr_kernels_amx(struct gr_kernels *table);

#endif
