/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h: from a checkpoint, or from what an earlier start stored, to a device that is ready. */
#ifndef GR_CPU_LOAD_H
#define GR_CPU_LOAD_H

#include "device/cpu/layout.h"

/* The load and the find_plan of device.h. */
enum gr_status gr_cpu_load(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct gr_err *err);
enum gr_status gr_cpu_find_plan(const struct gr_device_cfg *cfg, const struct gr_dims *dims, struct gr_plan *out,
                                struct gr_err *err);

/* Whether the heads are narrow enough for attention on 16-bit operands. */
bool gr_load_attention16(const struct gr_dims *dims);
/* Exact network into dev->store; *warm: from the cache. */
enum gr_status gr_load_exact(struct gr_device *dev, const struct gr_weights *w, struct cpu_layout *l, bool *warm,
                             struct gr_err *err);
/* Packs one exact matrix to its place and gives the checkpoint's pages back. */
enum gr_status gr_load_matrix(struct gr_device *dev, const struct gr_weights *w, const struct cpu_entry *e,
                              struct gr_err *err);
/* Stores dev->store under the key of the layout's formats and `step`. */
void gr_load_keep(struct gr_device *dev, const struct cpu_layout *l, const char *step);

#endif
