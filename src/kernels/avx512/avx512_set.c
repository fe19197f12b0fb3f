/* SPDX-License-Identifier: Apache-2.0
 *
 * avx512_set.c: registers the AVX-512 kernels (F, BW, DQ, VL) and measures the multiply-add peak. */
#include "base/clock.h"
#include "kernels/avx512/avx512.h"

enum { PEAK_LOOPS = 40000, PEAK_CHAINS = 24, PEAK_TRIES = 3 };

/* 24 independent chains hide the latency of 4 cycles on two ports three times over. */
static double fma_peak(void)
{
    double best = 1e30;
    for (int i = 0; i < PEAK_TRIES; i++) {
        double start = gr_clock_ms();
        long n = PEAK_LOOPS;
#define CLEAR(r) "vpxord %%zmm" #r ",%%zmm" #r ",%%zmm" #r "\n"
#define FMA(r) "vfmadd231ps %%zmm24,%%zmm25,%%zmm" #r "\n"
#define CHAINS(X) \
    X(0)          \
    X(1)          \
    X(2)          \
    X(3)          \
    X(4)          \
    X(5)          \
    X(6)          \
    X(7)          \
    X(8)          \
    X(9)          \
    X(10)         \
    X(11)         \
    X(12)         \
    X(13)         \
    X(14)         \
    X(15)         \
    X(16)         \
    X(17)         \
    X(18)         \
    X(19)         \
    X(20)         \
    X(21)         \
    X(22)         \
    X(23)
        /* The compiler does not see these registers: without vzeroupper all SSE code that follows runs several times slower. */
        __asm__ volatile(CHAINS(CLEAR) CLEAR(24) CLEAR(25) "1:\n" CHAINS(FMA) "dec %0\njnz 1b\nvzeroupper\n"
                         : "+r"(n)
                         :
                         : "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9",
                           "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19",
                           "zmm20", "zmm21", "zmm22", "zmm23", "zmm24", "zmm25");
        double ms = gr_clock_ms() - start;
        best = ms < best ? ms : best;
    }
    return 2.0 * 16.0 * PEAK_CHAINS * PEAK_LOOPS / best / 1e6;
}

void gr_kernels_avx512(struct gr_kernels *table)
{
    table->isa = "avx512";
    table->pack_rows[GR_ROWS_F32] = gr_pack_f32_avx512;
    table->norm_rows = gr_norm_rows_avx512;
    table->gemm[GR_MAT_F32] = table->gemm[GR_MAT_BF16] = gr_gemm_avx512;
    table->gemm_isa[GR_MAT_F32] = table->gemm_isa[GR_MAT_BF16] = "avx512";
    table->attention = gr_attention_avx512;
    table->rms_rope = gr_rms_rope_avx512;
    table->peak[GR_MAT_F32] = table->peak[GR_MAT_BF16] = fma_peak;
}
