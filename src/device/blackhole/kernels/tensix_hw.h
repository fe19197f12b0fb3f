/* SPDX-License-Identifier: Apache-2.0
 *
 * tensix_hw.h: registers of one Blackhole Tensix tile as its five rv32 cores see them, and the NoC. Plain C: no vendor header, no vendor
 * compiler. B and N move data; T0, T1, T2 feed the coprocessor's threads (unpack, math, pack). docs/DEVICES.md has the map. */
#ifndef GR_KERNEL_TENSIX_HW_H
#define GR_KERNEL_TENSIX_HW_H

#include <stdint.h>

#include "device/blackhole/program.h"

#define REG32(a) (*(volatile uint32_t *)(uintptr_t)(a))
#define L1_32(a) (*(volatile uint32_t *)(uintptr_t)(a))

#define HW_SOFT_RESET 0xFFB121B0u
#define HW_T0_RESET_PC 0xFFB12228u
#define HW_T1_RESET_PC 0xFFB1222Cu
#define HW_T2_RESET_PC 0xFFB12230u
#define HW_T_PC_OVERRIDE 0xFFB12234u
#define HW_N_RESET_PC 0xFFB12238u
#define HW_N_PC_OVERRIDE 0xFFB1223Cu
#define HW_WALL_CLOCK_LO 0xFFB121F0u
#define HW_NOC_BASE(n) (0xFFB20000u + ((n) << 16))
#define HW_INSTRUCTIONS 0xFFE40000u /* push window of this thread */
#define HW_SYNC 0xFFE80000u         /* +4: wait until the thread is idle; +0x20 + 4 i: semaphore i */
#define HW_CFG 0xFFEF0000u          /* configuration of the coprocessor's back end */

#define ARG(i) L1_32(GR_BH_ARGS + 4u * (i))
#define FLAG(i) L1_32(GR_BH_FLAGS + 16u * (i))

/* The L1 data cache is off (crt0.S), so polled words are fresh on silicon; the fence keeps that so if it is ever switched on. */
static inline void l1_refresh(void) { __asm__ volatile("fence" ::: "memory"); }

/* A Tensix instruction rotated left by two is an rv32 custom opcode, which the core pushes: it stalls when the queue is full. */
#define TTI(w) __asm__ volatile(".word %0" ::"i"((uint32_t)(((uint32_t)(w) << 2) | ((uint32_t)(w) >> 30))))
/* Words made at run time. The simulator has no back-pressure here: keep some TTI between. */
static inline void tt_push(uint32_t w) { REG32(HW_INSTRUCTIONS) = w; }

/* Waits until what this thread pushed is done. */
static inline void tensix_sync(void)
{
    REG32(HW_SYNC + 4) = 0;
    (void)REG32(HW_SYNC + 4);
}

static inline void cfg_wr(uint32_t reg, uint32_t v) { REG32(HW_CFG + 4u * reg) = v; }

enum { SEM_MATH_PACK = 1, SEM_UNPACK = 5 };

static inline uint32_t sem_read(uint32_t i) { return REG32(HW_SYNC + 0x20u + 4u * i); }
static inline void sem_post(uint32_t i) { REG32(HW_SYNC + 0x20u + 4u * i) = 0; }

/* Register formats; L1 codes are enum gr_bh_format. */
enum { FMT_FP32 = GR_BH_FP32, FMT_TF32 = 4, FMT_BF16 = GR_BH_BF16 };

/* ------------------------------------------------------------------ NoC: four command buffers each, 0x800 apart */
enum {
    NOC_TARG_LO = 0x00,
    NOC_TARG_MID = 0x04,
    NOC_TARG_HI = 0x08,
    NOC_RET_LO = 0x0C,
    NOC_RET_MID = 0x10,
    NOC_RET_HI = 0x14,
    NOC_CTRL = 0x1C,
    NOC_LEN = 0x20,
    NOC_AT_DATA = 0x28,
    NOC_GO = 0x40,
    NOC_ID_LOGICAL = 0x148,
    NOC_CNT_ATOMIC_RESP = 0x200,
    NOC_CNT_WR_ACK = 0x204,
    NOC_CNT_RD_RESP = 0x208,
    NOC_MOST_BYTES = 16384 /* a command */
};
#define NOC_F_ATOMIC (1u << 0)
#define NOC_F_WRITE (1u << 1)
#define NOC_F_RESP (1u << 4)
#define NOC_F_MCAST (1u << 5)
#define NOC_F_STATIC_VC (1u << 7)
#define NOC_F_PATH_RESERVE (1u << 8)
#define NOC_F_SRC_INCLUDE (1u << 17)
#define NOC_F_VC(v) ((v) << 13)

static inline uint32_t noc_rd(uint32_t noc, uint32_t off) { return REG32(HW_NOC_BASE(noc) + off); }
static inline void noc_wr(uint32_t noc, uint32_t buf, uint32_t off, uint32_t v)
{
    REG32(HW_NOC_BASE(noc) + buf * 0x800u + off) = v;
}
static inline uint32_t noc_my_xy(uint32_t noc) { return noc_rd(noc, NOC_ID_LOGICAL) & 0xFFFu; }

/* Fills command buffer `buf` and starts it. Target is read from for reads and is the local side of writes. */
static inline void noc_go(uint32_t noc, uint32_t buf, uint32_t ctrl, uint64_t targ, uint32_t targ_xy, uint64_t ret,
                          uint32_t ret_xy, uint32_t len)
{
    while (REG32(HW_NOC_BASE(noc) + buf * 0x800u + NOC_GO) & 1u) {
    }
    noc_wr(noc, buf, NOC_CTRL, ctrl);
    noc_wr(noc, buf, NOC_TARG_LO, (uint32_t)targ);
    noc_wr(noc, buf, NOC_TARG_MID, (uint32_t)(targ >> 32));
    noc_wr(noc, buf, NOC_TARG_HI, targ_xy);
    noc_wr(noc, buf, NOC_RET_LO, (uint32_t)ret);
    noc_wr(noc, buf, NOC_RET_MID, (uint32_t)(ret >> 32));
    noc_wr(noc, buf, NOC_RET_HI, ret_xy);
    noc_wr(noc, buf, NOC_LEN, len);
    noc_wr(noc, buf, NOC_GO, 1);
}

/* Remote memory to L1, at most NOC_MOST_BYTES. A DRAM source and its destination agree modulo 64. */
static inline void noc_read(uint32_t noc, uint32_t buf, uint32_t xy, uint64_t from, uint32_t to, uint32_t len)
{
    noc_go(noc, buf, NOC_F_RESP | NOC_F_STATIC_VC | NOC_F_VC(1), from, xy, to, noc_my_xy(noc), len);
}
/* L1 to remote memory; one acknowledgement. */
static inline void noc_write(uint32_t noc, uint32_t buf, uint32_t xy, uint64_t to, uint32_t from, uint32_t len)
{
    noc_go(noc, buf, NOC_F_WRITE | NOC_F_RESP | NOC_F_STATIC_VC | NOC_F_VC(1), from, noc_my_xy(noc), to, xy, len);
}
/* To the same address of all tiles of the rectangle xy0 <= xy1; an acknowledgement of each. The sender takes part only when `self`. */
static inline void noc_multicast(uint32_t noc, uint32_t buf, uint32_t xy0, uint32_t xy1, uint32_t to, uint32_t from,
                                 uint32_t len, uint32_t self)
{
    const uint32_t ctrl = NOC_F_WRITE | NOC_F_RESP | NOC_F_MCAST | NOC_F_PATH_RESERVE | NOC_F_STATIC_VC | NOC_F_VC(4) |
                          (self ? NOC_F_SRC_INCLUDE : 0u);
    noc_go(noc, buf, ctrl, from, noc_my_xy(noc), to, xy1 | xy0 << 12, len);
}
/* Adds to a 16-byte aligned L1 word of a tile; its old value lands at `old`. */
static inline void noc_add(uint32_t noc, uint32_t buf, uint32_t xy, uint32_t word, uint32_t old, uint32_t v)
{
    noc_wr(noc, buf, NOC_AT_DATA, v);
    noc_go(noc, buf, NOC_F_ATOMIC | NOC_F_RESP, word, xy, old, noc_my_xy(noc), (1u << 12) | (31u << 2));
}

#endif
