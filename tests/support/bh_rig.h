/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_rig.h: a program for a few tiles from building to running: for tests of layers and of the denoise program. */
#ifndef BH_RIG_H
#define BH_RIG_H

#include "device/blackhole/bh_build.h"
#include "gr_test.h"

enum { BH_RIG_TILES = 140 };

struct bh_rig {
    uint32_t xy[BH_RIG_TILES];
    struct gr_bh_grid grid;
    struct gr_bh_build *build;
    const struct gr_bh_program *program;
    enum gr_bh_format weights;
    struct gr_bh_arena *arena;
    struct gr_bh_machine *machine;
};

/* A new build for a rectangle of width x height tiles; weights GR_BH_BF16 (4 phases) or GR_BH_BFP8 (3). */
void bh_rig_begin(struct bh_rig *r, int width, int height, enum gr_bh_format weights);
/* Ends the build and packs the streams. */
void bh_rig_finish(struct bh_rig *r);
/* Uploads and loads; the rig owns the machine from here on. One machine at a time. */
void bh_rig_load(struct bh_rig *r, struct gr_bh_machine *machine);
void bh_rig_load_cpu(struct bh_rig *r, enum gr_bh_arithmetic arithmetic, int threads);
void bh_rig_input(struct bh_rig *r, const char *name, const float *values);
void bh_rig_run(struct bh_rig *r, gr_bh_tap_fn tap, void *user);
void bh_rig_output(struct bh_rig *r, const char *name, float *values);
void bh_rig_unload(struct bh_rig *r);
void bh_rig_end(struct bh_rig *r);

/* How near two arrays are. */
double bh_pcc(const float *a, const float *b, size_t n);
double bh_relative_rms(const float *got, const double *want, size_t n);
/* Uniform in [-1, 1), the same sequence in every run. */
float bh_uniform(uint32_t *state);

#endif
