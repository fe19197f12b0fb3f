/* SPDX-License-Identifier: Apache-2.0
 *
 * reference.h: the exact network on this machine's CPU, for the golden chunk of a device that has no reference path of its own: a card.
 * Nothing that is served comes from here. */
#ifndef GR_POLICY_REFERENCE_H
#define GR_POLICY_REFERENCE_H

#include "device/device.h"
#include "model/config.h"
#include "model/snapshot.h"

struct gr_reference {
    const struct gr_snapshot *snapshot;
    const struct gr_config *config;
    struct gr_device_cfg
        device; /* threads, cpu_flags, max_images, max_tokens, slot, image_token; the rest is set here */
};

/* Packs the exact weights, computes one chunk, and gives everything back: seconds, and memory for the exact network. action [horizon,
 * max_action]; *kernels: name of the set, static text. Statuses of the CPU device. */
enum gr_status gr_reference_predict(const struct gr_reference *r, const struct gr_model_input *in, float *action,
                                    struct gr_timing *time, const char **kernels, struct gr_err *err);

#endif
