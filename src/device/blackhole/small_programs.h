/* SPDX-License-Identifier: Apache-2.0
 *
 * small_programs.h: words in and out of the programs "hello" and "memory", shared by host and kernels; word i is at GR_BH_ARGS + 4 i. */
#ifndef GR_BLACKHOLE_SMALL_PROGRAMS_H
#define GR_BLACKHOLE_SMALL_PROGRAMS_H

enum gr_hello_word {
    GR_HELLO_A, /* in: two numbers */
    GR_HELLO_B,
    GR_HELLO_OUT = 16, /* out, four words a core: GR_HELLO_SEEN + core, A * B + core, its stack pointer, its clock */
    GR_HELLO_SEEN = 0xC0DE
};
enum gr_memory_word {
    GR_MEMORY_L1, /* in: range of L1 to fill and check, multiples of 64; the blocks on their way lie at its start, two at a time */
    GR_MEMORY_L1_BYTES,
    GR_MEMORY_DRAM_XY, /* range of DRAM, multiples of `block` */
    GR_MEMORY_DRAM_LO,
    GR_MEMORY_DRAM_HI,
    GR_MEMORY_DRAM_BYTES,
    GR_MEMORY_BLOCK, /* at most 16384, a multiple of 64 */
    GR_MEMORY_SEED,
    GR_MEMORY_DONE = 16,   /* out: 1 at the end */
    GR_MEMORY_BAD_L1,      /* wrong words in L1, */
    GR_MEMORY_BAD_NOC01,   /* in DRAM written by NoC 0 and read by NoC 1, */
    GR_MEMORY_BAD_NOC10,   /* the other way round */
    GR_MEMORY_BAD_ADDRESS, /* of the first wrong word: where it was (low 32 bits of a DRAM address), */
    GR_MEMORY_EXPECTED,    /* what should have been there, */
    GR_MEMORY_FOUND        /* and what was */
};

#endif
