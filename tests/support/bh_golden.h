/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_golden.h: the denoise program of a snapshot on a rig, and golden cases as its inputs. */
#ifndef BH_GOLDEN_H
#define BH_GOLDEN_H

#include "bh_rig.h"
#include "device/blackhole/denoise.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "model/synth.h"

struct bh_net {
    struct gr_snapshot *snap;
    struct gr_config *cfg;
    struct gr_weights *w;
    struct gr_bh_denoise_weights *head;
    int slot;
};
void bh_net_open(struct bh_net *net, const char *dir);
void bh_net_close(struct bh_net *net);
/* A synthetic snapshot of seed 1600 in a temporary folder; goldens_tiny is for the tiny one. */
void bh_net_synthetic(struct bh_net *net, enum gr_synth_kind kind);
/* The published shapes with zeros for weights, in files that take no space: for programs that are built and not run. */
void bh_net_hollow(struct bh_net *net);

/* A golden folder: its inputs, with room for more rows of text than it has, and its fp32 taps. */
struct bh_case {
    struct gr_safetensors *inputs, *taps;
    int text_room, text_rows, image_rows;
    float *state, *noise, *vl_text, *vl_image, *text_mask, *image_mask;
};
void bh_case_open(struct bh_case *c, const struct bh_net *net, const char *dir, int text_room);
/* Random ones, without taps. */
void bh_case_random(struct bh_case *c, const struct bh_net *net, int text_rows, int text_room);
void bh_case_close(struct bh_case *c);
void bh_case_input(struct bh_rig *r, const struct bh_case *c);
/* Values of a tap, malloc'ed; NULL when it is not stored. */
float *bh_case_tap(const struct bh_case *c, const char *name, size_t *n);

/* The action head on width x height tiles, packed. */
void bh_golden_program(struct bh_rig *r, const struct gr_bh_denoise *d, int width, int height,
                       enum gr_bh_format weights);

#endif
