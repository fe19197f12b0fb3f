/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.h: which number formats are served. The exact network computes the calibration observations; then steps of the ladder are tried
 * from the cheapest on until one agrees with it on all observations that gate. */
#ifndef GR_CPU_CHOOSE_H
#define GR_CPU_CHOOSE_H

#include "device/cpu/layout.h"

/* Loads the exact network, chooses by dev->cfg.policy ("auto", or the one step to take whatever its verdict), packs what was
 * chosen into dev->store, fills in dev->plan and stores both in the cache folder. GR_ERR_FORMAT names the matrix or tensor that holds
 * NaN or infinity; GR_ERR_USAGE: no such policy or 16-bit format; GR_ERR_BUSY: cancelled; GR_ERR_NOMEM. */
enum gr_status gr_choose(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                         struct cpu_layout *l, struct gr_err *err);
/* dev->plan of the exact policy: nothing was chosen. */
enum gr_status gr_choose_exact(struct gr_device *dev, const struct cpu_layout *l, struct gr_err *err);

#endif
