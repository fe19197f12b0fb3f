/* SPDX-License-Identifier: Apache-2.0
 *
 * peak_avx512.h: measures how many multiply-adds a 512-bit instruction does at this moment. CPUID does not tell: there are CPUs
 * that report an instruction and run it at half the rate of fp32. */
#ifndef GR_KERNELS_PEAK_AVX512_H
#define GR_KERNELS_PEAK_AVX512_H

#include "base/clock.h"

enum { GR_PEAK_LOOPS = 40000, GR_PEAK_CHAINS = 24, GR_PEAK_TRIES = 3 };

#define GR_PEAK_24(f, x)                                                                                       \
    f(x, 0) f(x, 1) f(x, 2) f(x, 3) f(x, 4) f(x, 5) f(x, 6) f(x, 7) f(x, 8) f(x, 9) f(x, 10) f(x, 11) f(x, 12) \
        f(x, 13) f(x, 14) f(x, 15) f(x, 16) f(x, 17) f(x, 18) f(x, 19) f(x, 20) f(x, 21) f(x, 22) f(x, 23)
#define GR_PEAK_CLEAR(x, r) "vpxord %%zmm" #r ",%%zmm" #r ",%%zmm" #r "\n"
#define GR_PEAK_MULTIPLY(instruction, r) instruction " %%zmm24,%%zmm25,%%zmm" #r "\n"

/* Defines `static double name(void)`: Gop/s of the instruction (a string) that does `adds` multiply-adds. 24 independent chains
 * hide the latency of 4 to 6 cycles on two ports. The compiler does not see these registers: without vzeroupper all SSE code that
 * follows runs several times slower. */
#define GR_PEAK_FUNCTION(name, instruction, adds)                                                                    \
    static double name(void)                                                                                         \
    {                                                                                                                \
        double best_ms = 1e30;                                                                                       \
        for (int i = 0; i < GR_PEAK_TRIES; i++) {                                                                    \
            double start_ms = gr_clock_ms();                                                                         \
            long n = GR_PEAK_LOOPS;                                                                                  \
            __asm__ volatile(GR_PEAK_24(GR_PEAK_CLEAR, ) GR_PEAK_CLEAR(, 24) GR_PEAK_CLEAR(, 25) "1:\n" GR_PEAK_24(  \
                                 GR_PEAK_MULTIPLY, instruction) "dec %0\njnz 1b\nvzeroupper\n"                       \
                             : "+r"(n)                                                                               \
                             :                                                                                       \
                             : "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", \
                               "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18",      \
                               "zmm19", "zmm20", "zmm21", "zmm22", "zmm23", "zmm24", "zmm25");                       \
            double ms = gr_clock_ms() - start_ms;                                                                    \
            best_ms = ms < best_ms ? ms : best_ms;                                                                   \
        }                                                                                                            \
        return 2.0 * (adds)*GR_PEAK_CHAINS * GR_PEAK_LOOPS / best_ms / 1e6;                                          \
    }

#endif
