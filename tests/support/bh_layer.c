/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_layer.c: see bh_layer.h. */
#include "bh_layer.h"

#include <stdlib.h>

#include "device/blackhole/tile_format.h"

float *bh_layer_uniform(size_t n, float scale)
{
    static uint32_t seed = 2463534242u;
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) {
        v[i] = gr_bh_from_bf16(gr_bh_bf16(scale * bh_uniform(&seed)));
    }
    return v;
}

void bh_layer_io(struct bh_rig *r, bool in, const char *name, struct gr_bh_buf buf, enum gr_bh_place place, int rows,
                 int cols)
{
    const struct gr_bh_io v = {.name = name, .buf = buf, .place = place, .rows = rows, .cols = cols};
    if (in) {
        gr_bh_input(r->build, v);
    } else {
        gr_bh_output(r->build, v);
    }
}

void bh_layer_near(const char *what, int d, const float *got, const double *want, size_t n, double bound)
{
    const double rms = bh_relative_rms(got, want, n);
    if (!(rms <= bound)) {
        fail_msg("%s, width %d: relative rms %.2e, at most %.1e", what, d, rms, bound);
    }
}
