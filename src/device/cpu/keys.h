/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.h: keys of what is kept on disk: all that its content depends on, as text. */
#ifndef GR_CPU_KEYS_H
#define GR_CPU_KEYS_H

#include "device/cpu/layout.h"

enum { GR_KEY_BYTES = GR_CACHE_KEY_BYTES };

/* Of the plan that a load with this cfg makes; isa: highest instruction set of its kernels. */
void gr_key_plan(const struct gr_device_cfg *cfg, const struct gr_dims *d, const char *isa, char out[GR_KEY_BYTES]);
/* Of packed weights in the layout's formats, chosen as `step` of the ladder. */
void gr_key_packed(const struct gr_device *dev, const struct gr_dims *d, const struct cpu_layout *l, const char *step,
                   char out[GR_KEY_BYTES]);
/* dir/plan-<hash of key>.json */
enum gr_status gr_plan_path(const char *dir, const char *key, char out[GR_PATH_BYTES], struct gr_err *err);

#endif
