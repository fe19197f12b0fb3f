/* SPDX-License-Identifier: Apache-2.0
 *
 * waves.c: sinusoidal embeddings of the Euler steps' times. */
#include "model/waves.h"

#include <math.h>
#include <stddef.h>

/* Time of Euler step k: int(k / steps * buckets). */
static float step_time(const struct gr_dims *d, int k)
{
    return (float)(int)((double)k / (double)d->dit.steps * (double)d->dit.time_buckets);
}

void gr_time_waves(const struct gr_dims *d, float *out)
{
    const int half = d->dit.time_channels / 2;
    for (int k = 0; k < d->dit.steps; k++) {
        float t = step_time(d, k), *row = out + (size_t)k * (size_t)d->dit.time_channels;
        for (int i = 0; i < half; i++) {
            float exponent = (float)-log(GR_TIME_PERIOD) * (float)i / (float)(half - 1);
            float angle = t * (float)exp((double)exponent);
            row[i] = (float)cos((double)angle);
            row[half + i] = (float)sin((double)angle);
        }
    }
}

void gr_action_waves(const struct gr_dims *d, float *out)
{
    const int half = d->dit.width / 2;
    const float step = (float)log(GR_TIME_PERIOD) / (float)half;
    for (int k = 0; k < d->dit.steps; k++) {
        float t = step_time(d, k), *row = out + (size_t)k * (size_t)d->dit.width;
        for (int i = 0; i < half; i++) {
            float angle = t * (float)exp((double)(-(float)i * step));
            row[i] = (float)sin((double)angle);
            row[half + i] = (float)cos((double)angle);
        }
    }
}
