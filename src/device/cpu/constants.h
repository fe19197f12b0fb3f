/* SPDX-License-Identifier: Apache-2.0
 *
 * constants.h: what depends on the checkpoint alone and is computed once, at load. */
#ifndef GR_CPU_CONSTANTS_H
#define GR_CPU_CONSTANTS_H

#include "device/cpu/cpu_device.h"

/* Rotary tables: they depend on the longest sequence, not on the weights. */
enum gr_status gr_cpu_rotary(struct gr_device *dev, struct gr_err *err);
/* Positions, time embeddings, AdaLN, action encoder's time half. First their places in the store, then their values. */
enum gr_status gr_cpu_place_constants(struct gr_device *dev, struct gr_store *s, struct gr_err *err);
enum gr_status gr_cpu_constants(struct gr_device *dev, const struct gr_weights *w, struct gr_err *err);

#endif
