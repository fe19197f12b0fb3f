/* SPDX-License-Identifier: Apache-2.0
 *
 * flops.h: arithmetic of one predict, for the benches. */
#ifndef GR_CLI_FLOPS_H
#define GR_CLI_FLOPS_H

#include "model/spec.h"

struct gr_flops {
    double vision, llm, adapter, denoise, total; /* floating point operations, a multiply-add counts 2 */
};

/* n_images pictures, S tokens. Pure function. */
struct gr_flops gr_flops_of(const struct gr_dims *d, int n_images, int n_tokens);

#endif
