/* SPDX-License-Identifier: Apache-2.0
 *
 * crt0.S: entry of every core: control bits, stack at the top of core-private RAM, kernel_main, then spin. CORE_ID and CORE_STACK_TOP are
 * given on the command line. */
    .option arch, +zicsr
    .section .text.start, "ax"
    .globl _start
_start:
    .option push
    .option norelax
    la   gp, __global_pointer$
    .option pop
    li   sp, CORE_STACK_TOP
    /* CSR 0x7C0: bit 18 = never gather pushed Tensix instructions (work-around of an erratum; bit 1 has to be set around it), bit 3 =
     * L1 data cache off, so that polled words are always fresh */
    li   t1, 0x2
    csrrs zero, 0x7c0, t1
    li   t1, 0x40000
    fence
    csrrs zero, 0x7c0, t1
    li   t1, 0x2
    csrrc zero, 0x7c0, t1
    fence
    li   t1, 0x8
    csrrs zero, 0x7c0, t1
#if CORE_ID == 0
    call boot_tile
#endif
    call kernel_main
1:  j    1b
