/* SPDX-License-Identifier: Apache-2.0
 *
 * dispatch.c: fills the kernel table for the instruction sets the caller allows, lowest first, and states how much
 * scratch the kernels need. The figures are upper bounds over all sets, so that one arena fits whichever set runs. */
#include "kernels/kernels.h"

#include "base/cpu.h"
#include "kernels/scalar/scalar.h"

enum {
    WIDE_PANELS = 8,   /* panels one block pass of a set may hold at once */
    WIDE_K = 384,      /* k of one block of widened weights: 384 x 32 floats = 48 KiB, L1 and L2 hold it */
    SLACK = 64 * 1024, /* alignment of the parts, pad rows, transposes */
    LINE_FLOATS = 16   /* floats in a cache line; parts are padded to it */
};

static size_t pad_to(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

size_t gr_row_scratch_bytes(int k) { return pad_to((size_t)(k > 0 ? k : 0), LINE_FLOATS) * sizeof(float) + 4096; }

/* Widened weights of one k block, sums of every row, slack. */
size_t gr_gemm_scratch_bytes(int m)
{
    size_t rows = (size_t)(m > 0 ? m : 0);
    size_t weights = (size_t)WIDE_PANELS * WIDE_K * GR_PANEL;
    return (weights + rows * WIDE_PANELS * GR_PANEL) * sizeof(float) + SLACK;
}

/* Transposed keys, values in panels, and for one tile of rows: queries, scores, probabilities, outputs. */
size_t gr_attention_scratch_bytes(int m, int s, int d)
{
    (void)m; /* rows are taken a tile at a time */
    size_t keys = pad_to((size_t)(s > 0 ? s : 0), GR_PANEL) + GR_PANEL;
    size_t width = pad_to((size_t)(d > 0 ? d : 0), GR_PANEL);
    size_t panels = 2 * keys * width;
    size_t tile = (size_t)GR_TILE_ROWS * (2 * keys + 2 * width);
    return (panels + tile) * sizeof(float) + SLACK;
}

/* Keys and values at 16 bits, a scale for every key and column, and a line for what concerns all of them. */
size_t gr_attention16_packed_bytes(int s, int d)
{
    size_t keys = pad_to((size_t)(s > 0 ? s : 0), GR_PANEL), width = pad_to((size_t)(d > 0 ? d : 0), GR_PANEL);
    return 2 * keys * width * sizeof(int16_t) + (keys + width + LINE_FLOATS) * sizeof(float);
}

void gr_kernels_init(struct gr_kernels *table, unsigned flags)
{
    *table = (struct gr_kernels){0};
    gr_kernels_scalar(table);
#if defined(__x86_64__)
    /* In the order of gr_cpu_mask: the name of the last one stands for all that are in use. */
    static const struct {
        unsigned flag;
        void (*add)(struct gr_kernels *table);
    } sets[] = {
        {GR_CPU_AVX2, gr_kernels_avx2},
        {GR_CPU_AVXVNNI, gr_kernels_avxvnni},
        {GR_CPU_AVX512, gr_kernels_avx512},
        {GR_CPU_AVX512VNNI, gr_kernels_avx512vnni},
        {GR_CPU_AVX512FP16, gr_kernels_avx512fp16},
        {GR_CPU_AVX512BF16, gr_kernels_avx512bf16},
        {GR_CPU_AMX, gr_kernels_amx},
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (flags & sets[i].flag) {
            sets[i].add(table);
        }
    }
    if (table->attention != gr_scalar_attention && table->attention16 == gr_scalar_attention16) {
        /* The scalar set's is slower than fp32 attention on vectors. */
        table->attention16 = NULL;
        table->attention16_pack = NULL;
        table->attention16_run = NULL;
    }
#else
    (void)flags;
#endif
}
