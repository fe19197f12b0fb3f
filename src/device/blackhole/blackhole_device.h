/* SPDX-License-Identifier: Apache-2.0
 *
 * blackhole_device.h: what tests may put in place of the chip. Users reach the device through device.h. */
#ifndef GR_BLACKHOLE_DEVICE_H
#define GR_BLACKHOLE_DEVICE_H

#include "device/blackhole/machine.h"

struct gr_blackhole_stand_in {
    int columns, rows; /* of Tensix tiles */
    enum gr_status (*machine)(void *user, const struct gr_bh_grid *grid, struct gr_bh_machine **out,
                              struct gr_err *err);
    void *user;
};

/* Devices that are opened from now on run on its machines, without a chip. NULL: on chips again. Borrowed. */
void gr_blackhole_use(const struct gr_blackhole_stand_in *stand_in);

#endif
