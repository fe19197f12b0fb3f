/* SPDX-License-Identifier: Apache-2.0
 *
 * boot_tile.c: what core B does before its program: brings the tile into a known state and releases the other cores. The host starts B
 * only, because the instruction caches cannot be reached from outside. */
#include "device/blackhole/kernels/tensix_hw.h"

void boot_tile(void);

void boot_tile(void)
{
    cfg_wr(185, 0x1F);                 /* drop all five instruction caches */
    REG32(0xFFB12240u) = 0;            /* Dst clock gating off */
    REG32(0xFFB11024u) = 0x3F;         /* unpacker and packer clock gates */
    for (uint32_t n = 0; n < 2; n++) { /* NoC clock gating on, as the vendor's firmware does */
        REG32(HW_NOC_BASE(n) + 0x100u) |= 1u;
        REG32(HW_NOC_BASE(n) + 0x104u) |= 1u;
    }
    REG32(HW_T0_RESET_PC) = GR_BH_CODE + 2 * GR_BH_CODE_BYTES;
    REG32(HW_T1_RESET_PC) = GR_BH_CODE + 3 * GR_BH_CODE_BYTES;
    REG32(HW_T2_RESET_PC) = GR_BH_CODE + 4 * GR_BH_CODE_BYTES;
    REG32(HW_T_PC_OVERRIDE) = 7;
    REG32(HW_N_RESET_PC) = GR_BH_CODE + GR_BH_CODE_BYTES;
    REG32(HW_N_PC_OVERRIDE) = 1;
    REG32(HW_SOFT_RESET) = L1_32(GR_BH_HOLD);
}
