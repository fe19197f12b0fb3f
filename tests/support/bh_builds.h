/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_builds.h: builds for tests of the builder. A failure fails the running test. */
#ifndef GR_BH_BUILDS_TEST_H
#define GR_BH_BUILDS_TEST_H

#include "device/blackhole/bh_build.h"

#define XY(x, y) ((uint32_t)(x) | (uint32_t)(y) << 6)

/* Two tiles, across the gap between columns 7 and 10. */
extern const struct gr_bh_grid bh_two;

/* bfp8_b weights, three phases. */
struct gr_bh_build *bh_build_for(const struct gr_bh_grid *grid);
const struct gr_bh_program *bh_build_finished(struct gr_bh_build *b);
/* Ends the build: it must fail, with `words` in the message. */
void bh_build_refused(struct gr_bh_build *b, const char *words);
struct gr_bh_piece bh_piece_of(int mark); /* MODULATE, column number `mark` */
/* An operation of one output tile on every tile; reads one bh_piece_of(mark + tile) of `stream`, unless stream < 0. */
struct gr_bh_op *bh_build_operation(struct gr_bh_build *b, int tiles, int stream, int mark, uint32_t out);

#endif
