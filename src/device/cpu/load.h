/* SPDX-License-Identifier: Apache-2.0
 *
 * load.h: from a checkpoint, or from what an earlier start stored, to a device that is ready. */
#ifndef GR_CPU_LOAD_H
#define GR_CPU_LOAD_H

#include "device/cpu/layout.h"

/* The load of device.h. */
enum gr_status gr_cpu_load(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct gr_err *err);
enum gr_status gr_cpu_find_plan(const struct gr_device_cfg *cfg, const struct gr_dims *dims, struct gr_plan *out,
                                struct gr_err *err);

/* Keys of what is kept on disk: all that its content depends on, as text. */
enum { GR_KEY_BYTES = GR_CACHE_KEY_BYTES };
void gr_key_plan(const struct gr_device_cfg *cfg, const struct gr_dims *d, const char *isa, char out[GR_KEY_BYTES]);
void gr_key_packed(const struct gr_device *dev, const struct gr_dims *d, const struct cpu_layout *l, const char *step,
                   char out[GR_KEY_BYTES]);
/* dir/plan-<hash of key>.json */
enum gr_status gr_plan_path(const char *dir, const char *key, char out[GR_PATH_BYTES], struct gr_err *err);

#endif
