/* SPDX-License-Identifier: Apache-2.0
 *
 * device.c: the devices of this build by name. */
#include "device/device.h"

#include <string.h>

static const struct gr_device_ops *const devices[] = {&gr_device_cpu, &gr_device_blackhole};
const char gr_device_names[] = "cpu, blackhole";

const struct gr_device_ops *gr_device_find(const char *name)
{
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        if (strcmp(devices[i]->name, name) == 0) {
            return devices[i];
        }
    }
    return NULL;
}
