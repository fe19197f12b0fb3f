/* SPDX-License-Identifier: Apache-2.0
 *
 * preprocess.h: camera frame to the vision encoder's input, bit for bit as the reference chain: letterbox, area resize, centre
 * crop, area resize, Pillow bicubic, normalisation (spec/preprocess.md 2). */
#ifndef GR_MODEL_PREPROCESS_H
#define GR_MODEL_PREPROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Tables and scratch for one setting; one caller at a time. */
struct gr_preprocess;

enum { GR_EDGE_MIN = 28, GR_EDGE_MAX = 1024 }; /* from one image token; 1024 bounds the scratch */

/* edge: shortest_image_edge (256), GR_EDGE_MIN..GR_EDGE_MAX; fraction: crop_fraction (0.95), above 0 up to 1; else GR_ERR_FORMAT.
 * Takes scratch for the largest frame; its pages cost nothing until used. GR_ERR_NOMEM. */
enum gr_status gr_preprocess_new(int edge, double fraction, struct gr_preprocess **out, struct gr_err *err);
void gr_preprocess_free(struct gr_preprocess *p); /* NULL is allowed */

/* Side of the last stage: edge rounded to a multiple of 28 = patch 14 x unshuffle 2, halves to even as Python rounds: 252. */
int gr_preprocess_side(int edge);

/* rgb [height, width, 3] uint8. u8 [side, side, 3] uint8: the last integer stage. No allocation.
 * GR_ERR_INPUT when a side is outside GR_SIDE_MIN..GR_SIDE_MAX. */
enum gr_status gr_preprocess_frame(struct gr_preprocess *p, const uint8_t *rgb, int height, int width, uint8_t *u8,
                                   struct gr_err *err);

/* pixels [3, side, side] float32 = (u8 - 127.5) / 127.5. */
void gr_preprocess_pixels(const uint8_t *u8, int side, float *pixels);

/* Single stages, for tests: area resize of a square picture, and Pillow bicubic of a square picture. */
enum { GR_STAGE_LETTERBOX, GR_STAGE_RESIZE, GR_STAGE_CROP, GR_STAGE_RESIZE_B, GR_STAGE_BICUBIC, GR_STAGES };
/* Called after each stage with a borrowed square picture [side, side, 3]; set to NULL to switch off. */
typedef void (*gr_stage_fn)(void *user, int stage, const uint8_t *rgb, int side);
void gr_preprocess_watch(struct gr_preprocess *p, gr_stage_fn fn, void *user);

#endif
