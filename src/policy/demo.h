/* SPDX-License-Identifier: Apache-2.0
 *
 * demo.h: the demo observation of an open policy: what /demo hands out and what the self-check at start runs. For an embodiment with the cameras
 * and groups of the shipped demo it is that recording; for any other one it is observation 1 of observation.h with its pictures
 * written as PNG. */
#ifndef GR_POLICY_DEMO_H
#define GR_POLICY_DEMO_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "gr00t.h"

struct gr_demo_picture {
    const void *png;
    size_t n_bytes;
};
struct gr_demo {
    struct gr_observation obs;        /* seed 42; points into this struct's memory */
    struct gr_demo_picture *pictures; /* [obs.n_frames], the files that obs.frames were decoded from */
    bool shipped;                     /* the built-in recording */
    void *memory;                     /* private */
};

/* Free with gr_demo_free; the struct must not be moved in between. GR_ERR_NOMEM, GR_ERR_DEVICE. */
enum gr_status gr_demo_make(const struct gr_policy *policy, struct gr_demo *out, struct gr_err *err);
void gr_demo_free(struct gr_demo *demo);

#endif
