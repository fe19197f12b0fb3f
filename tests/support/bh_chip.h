/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_chip.h: the simulator for tests of the Blackhole device. There is one per process, so a program opens it once. */
#ifndef GR_BH_CHIP_TEST_H
#define GR_BH_CHIP_TEST_H

#include "device/blackhole/chip.h"

/* TTSIM_LIB, else /usr/local/lib/libttsim.so; NULL when there is none or the build has no programs for the chip: then it has printed why,
 * and the program's main returns GR_TEST_SKIPPED. */
const char *bh_simulator(void);
enum { GR_TEST_SKIPPED = 77 };
/* The same for one test of a program: prints nothing, the reason in *why. */
const char *bh_simulator_path(const char **why);

/* Opened by the first call, the same chip for all later ones; closed by bh_chip_close (a group's teardown). */
struct gr_chip *bh_chip(void);
int bh_chip_close(void **state);

#endif
