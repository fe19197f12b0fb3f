/* SPDX-License-Identifier: Apache-2.0
 *
 * instructions.h: Tensix instruction words that the kernels use, and the thread registers they set. Opcode in bits 31..24; field layouts as
 * the vendor's public ISA documentation has them. */
#ifndef GR_KERNEL_INSTRUCTIONS_H
#define GR_KERNEL_INSTRUCTIONS_H

#define I_REPLAY(start, len, exec_while_load, load) \
    (0x04000000u | ((start) << 14) | ((len) << 4) | ((exec_while_load) << 1) | (load))
#define I_ZEROACC(mode, use32, addrmod, where) \
    (0x10000000u | ((mode) << 19) | ((use32) << 18) | ((addrmod) << 14) | (where))
#define I_MVMUL(clr, addrmod, dst) (0x26000000u | ((clr) << 22) | ((addrmod) << 14) | (dst))
#define I_ELWMUL(clr, acc, bcast, addrmod, dst) \
    (0x27000000u | ((clr) << 22) | ((acc) << 21) | ((bcast) << 19) | ((addrmod) << 14) | (dst))
/* column maximum of 16 SrcA rows and Dst row into Dst row; SrcB row 0 must be ones, the next three Dst rows become 0 */
#define I_GMPOOL(clr, addrmod, dst) (0x33000000u | ((clr) << 22) | (1u << 19) | ((addrmod) << 15) | (dst))
#define I_SETRWC(clr, cr, d, b, a, mask) \
    (0x37000000u | ((clr) << 22) | ((cr) << 18) | ((d) << 14) | ((b) << 10) | ((a) << 6) | (mask))
#define I_PACR(addrmod, intf, last) (0x41000000u | ((addrmod) << 15) | ((intf) << 8) | (last))
/* unp: 0 -> SrcA (unpacker 0), 1 -> SrcB (unpacker 1) */
#define I_UNPACR(unp, incs, valid) (0x42000000u | ((unp) << 23) | ((incs) << 15) | (1u << 7) | ((valid) << 6) | 1u)
#define I_SETADCXY(who, y1, x1, y0, x0, mask) \
    (0x51000000u | ((who) << 21) | ((y1) << 15) | ((x1) << 12) | ((y0) << 9) | ((x0) << 6) | (mask))
#define I_SETADCZW(who, w1, z1, w0, z0, mask) \
    (0x54000000u | ((who) << 21) | ((w1) << 15) | ((z1) << 12) | ((w0) << 9) | ((z0) << 6) | (mask))
#define I_SETADCXX(who, x_end, x_start) (0x5E000000u | ((who) << 21) | ((x_end) << 10) | (x_start))
#define I_STALLWAIT(block, wait) (0xA2000000u | ((block) << 15) | (wait))
#define I_SEMINIT(max, init, semmask) (0xA3000000u | ((max) << 20) | ((init) << 16) | ((semmask) << 2))
#define I_SEMPOST(semmask) (0xA4000000u | ((semmask) << 2))
#define I_SEMGET(semmask) (0xA5000000u | ((semmask) << 2))
#define I_SEMWAIT(block, semmask, cond) (0xA6000000u | ((block) << 15) | ((semmask) << 2) | (cond))
#define I_SETC16(reg, v) (0xB2000000u | ((reg) << 16) | ((v)&0xFFFFu))
/* read-modify-write of byte `b` of a configuration register */
#define I_RMWCIB(b, reg, mask, data) \
    (0xB3000000u + ((uint32_t)(b) << 24) + (((mask)&0xFFu) << 16) + (((data)&0xFFu) << 8) + (reg))
#define I_SETDMAREG(halfidx, v) (0x45000000u | (((v)&0xFFFFu) << 8) | (halfidx))
#define I_DMANOP 0x60000000u
#define I_WRCFG(gpr, reg) (0xB0000000u | ((gpr) << 16) | (reg))

/* SFPU (32 lanes x fp32) */
#define I_SFPLOAD(l, fmt, addrmod, off) (0x70000000u | ((l) << 20) | ((fmt) << 16) | ((addrmod) << 13) | (off))
#define I_SFPLOADI(l, mode, imm) (0x71000000u | ((l) << 20) | ((mode) << 16) | ((imm)&0xFFFFu))
#define I_SFPSTORE(l, fmt, addrmod, off) (0x72000000u | ((l) << 20) | ((fmt) << 16) | ((addrmod) << 13) | (off))
#define I_SFPIADD(imm, c, d, m) (0x79000000u | (((imm)&0xFFFu) << 12) | ((c) << 8) | ((d) << 4) | (m))
#define I_SFPSHFT(imm, c, d, m) (0x7A000000u | (((imm)&0xFFFu) << 12) | ((c) << 8) | ((d) << 4) | (m))
#define I_SFPSETEXP(imm, c, d, m) (0x82000000u | ((imm) << 12) | ((c) << 8) | ((d) << 4) | (m))
#define I_SFPMAD(a, b, c, d, m) (0x84000000u | ((a) << 16) | ((b) << 12) | ((c) << 8) | ((d) << 4) | (m))
#define I_SFPMUL(a, b, d) (0x86000000u | ((a) << 16) | ((b) << 12) | (9u << 8) | ((d) << 4))
#define I_SFPADD(b, c, d) (0x85000000u | (10u << 16) | ((b) << 12) | ((c) << 8) | ((d) << 4))
#define I_SFPENCC(imm, m) (0x8A000000u | ((imm) << 12) | (m))
#define I_SFPSWAP(c, d, m) (0x92000000u | ((c) << 8) | ((d) << 4) | (m))
#define I_SFPARECIP(c, d, m) (0x99000000u | ((c) << 8) | ((d) << 4) | (m))

/* STALLWAIT / SEMWAIT operand bits */
#define BLK_TDMA 0x001u
#define BLK_SYNC 0x002u
#define BLK_PACK 0x004u
#define BLK_UNPACK 0x008u
#define BLK_THCON 0x020u
#define BLK_MATH 0x040u
#define BLK_CFG 0x080u
#define BLK_SFPU 0x100u
#define WAIT_THCON 0x001u
#define WAIT_UNPACK0 0x002u
#define WAIT_UNPACK1 0x004u
#define WAIT_PACK 0x008u
#define WAIT_MATH 0x010u
#define WAIT_SRCA_VLD 0x080u
#define WAIT_SRCB_VLD 0x100u
#define WAIT_TRISC_CFG 0x400u
#define WAIT_SFPU 0x800u
#define SEM_ON_ZERO 1u
#define SEM_ON_MAX 2u

#define ADC_UNP0 1u
#define ADC_UNP1 2u
#define ADC_PACK 4u

/* thread-local configuration register numbers (SETC16) */
#define T_CFG_STATE 0u
#define T_MATH_DST_OFFSET 1u
#define T_SRCA_FMT 2u /* 0: source formats follow the unpacked banks */
#define T_SRCB_FMT 3u
#define T_SRCA_SET 5u
#define T_CLR_DVALID 7u
#define T_ADDRMOD_AB(i) (12u + (i))
#define T_ADDRMOD_DST(i) (28u + (i))
#define T_ADDRMOD_PACK(i) (37u + (i))
#define T_UNPACK_CTX 41u
#define T_ADDRMOD_BIAS(i) (47u + (i))

#define AM_AB(ai, acr, aclr, bi, bcr, bclr) \
    ((ai) | ((acr) << 6) | ((aclr) << 7) | ((bi) << 8) | ((bcr) << 14) | ((bclr) << 15))
#define AM_DST(di, dcr, dclr, fi, fclr) ((di) | ((dcr) << 10) | ((dclr) << 11) | ((fi) << 13) | ((fclr) << 15))

#define SET_ADDRMOD(i, ab, dst)               \
    do {                                      \
        TTI(I_SETC16(T_ADDRMOD_AB(i), ab));   \
        TTI(I_SETC16(T_ADDRMOD_DST(i), dst)); \
        TTI(I_SETC16(T_ADDRMOD_BIAS(i), 0));  \
    } while (0)

#endif
