/* SPDX-License-Identifier: Apache-2.0
 *
 * hello.c: every core says that it is there: words from GR_HELLO_OUT on. */
#include "device/blackhole/kernels/tensix_hw.h"
#include "device/blackhole/small_programs.h"

void kernel_main(void);

void kernel_main(void)
{
    volatile uint32_t on_stack = CORE_ID;
    const uint32_t out = GR_HELLO_OUT + 4 * CORE_ID;
    ARG(out + 1) = ARG(GR_HELLO_A) * ARG(GR_HELLO_B) + on_stack; /* uses the M extension */
    ARG(out + 2) = (uint32_t)(uintptr_t)&on_stack;
    ARG(out + 3) = REG32(HW_WALL_CLOCK_LO);
    ARG(out) = GR_HELLO_SEEN + CORE_ID; /* last: the host waits for it */
}
