/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.c, core B: fills and checks L1, then carries blocks to DRAM and back, written through one NoC and read through the other, both
 * ways round. Words in and out: enum gr_memory_word. */
#include "device/blackhole/kernels/tensix_hw.h"
#include "device/blackhole/small_programs.h"

void kernel_main(void);

/* A value for every address that a stuck or crossed address line changes (multiplier of Knuth's hash). */
static uint32_t pattern(uint32_t addr, uint32_t seed) { return (addr + seed) * 2654435761u; }

static void fill(uint32_t at, uint32_t bytes, uint32_t label, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i += 4) {
        L1_32(at + i) = pattern(label + i, seed);
    }
}

/* Counts wrong words in word `count`; the first of all is kept. */
static void check(uint32_t at, uint32_t bytes, uint32_t label, uint32_t seed, uint32_t count)
{
    for (uint32_t i = 0; i < bytes; i += 4) {
        const uint32_t found = L1_32(at + i);
        const uint32_t expected = pattern(label + i, seed);
        if (found != expected) {
            if (ARG(GR_MEMORY_BAD_L1) + ARG(GR_MEMORY_BAD_NOC01) + ARG(GR_MEMORY_BAD_NOC10) == 0) {
                ARG(GR_MEMORY_BAD_ADDRESS) = label + i;
                ARG(GR_MEMORY_EXPECTED) = expected;
                ARG(GR_MEMORY_FOUND) = found;
            }
            ARG(count) += 1;
        }
    }
}

static void carry(uint32_t out_noc, uint32_t count)
{
    const uint32_t in_noc = 1 - out_noc;
    const uint32_t block = ARG(GR_MEMORY_BLOCK), from = ARG(GR_MEMORY_L1), back = from + block,
                   xy = ARG(GR_MEMORY_DRAM_XY), seed = ARG(GR_MEMORY_SEED) + out_noc;
    const uint64_t dram = ARG(GR_MEMORY_DRAM_LO) | (uint64_t)ARG(GR_MEMORY_DRAM_HI) << 32;
    uint32_t acks = noc_rd(out_noc, NOC_CNT_WR_ACK), reads = noc_rd(in_noc, NOC_CNT_RD_RESP);
    for (uint32_t off = 0; off < ARG(GR_MEMORY_DRAM_BYTES);
         off += block) { /* all out first, so that a short address is seen */
        fill(from, block, (uint32_t)dram + off, seed);
        noc_write(out_noc, 1, xy, dram + off, from, block);
        acks++;
        while ((int32_t)(noc_rd(out_noc, NOC_CNT_WR_ACK) - acks) < 0) {
        }
    }
    for (uint32_t off = 0; off < ARG(GR_MEMORY_DRAM_BYTES); off += block) {
        fill(back, block, 0, ~seed);
        noc_read(in_noc, 0, xy, dram + off, back, block);
        reads++;
        while ((int32_t)(noc_rd(in_noc, NOC_CNT_RD_RESP) - reads) < 0) {
        }
        check(back, block, (uint32_t)dram + off, seed, count);
    }
}

void kernel_main(void)
{
    const uint32_t l1 = ARG(GR_MEMORY_L1), bytes = ARG(GR_MEMORY_L1_BYTES), seed = ARG(GR_MEMORY_SEED);
    for (uint32_t i = GR_MEMORY_DONE; i <= GR_MEMORY_FOUND; i++) {
        ARG(i) = 0;
    }
    fill(l1, bytes, l1, seed);
    check(l1, bytes, l1, seed, GR_MEMORY_BAD_L1);
    carry(0, GR_MEMORY_BAD_NOC01);
    carry(1, GR_MEMORY_BAD_NOC10);
    ARG(GR_MEMORY_DONE) = 1;
}
