/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_chip.c: see bh_chip.h. */
#include "bh_chip.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/blackhole/tensix.h"
#include "gr_test.h"

#define INSTALLED "/usr/local/lib/libttsim.so"

static struct gr_chip *open_chip;

const char *bh_simulator_path(const char **why)
{
    const char *lib = getenv("TTSIM_LIB");
    if (lib == NULL || lib[0] == '\0') {
        lib = access(INSTALLED, R_OK) == 0 ? INSTALLED : NULL;
    }
    *why = lib == NULL          ? "no simulator: TTSIM_LIB is not set and there is no " INSTALLED
           : !gr_tensix_built() ? "the build has no programs for the chip (gcc-riscv64-unknown-elf)"
                                : NULL;
    return *why == NULL ? lib : NULL;
}

const char *bh_simulator(void)
{
    const char *why, *lib = bh_simulator_path(&why);
    if (lib == NULL) {
        printf("1..0 # SKIP %s\n", why);
    }
    return lib;
}

struct gr_chip *bh_chip(void)
{
    if (open_chip == NULL) {
        struct gr_err err;
        const struct gr_chip_cfg cfg = {.sim = bh_simulator()};
        gr_test_ok(gr_chip_open(&cfg, &open_chip, &err), &err);
    }
    return open_chip;
}

int bh_chip_close(void **state)
{
    (void)state;
    gr_chip_close(open_chip);
    open_chip = NULL;
    return 0;
}
