/* SPDX-License-Identifier: Apache-2.0
 *
 * noise.h: the initial noise of a request, bit-exact with the reference generator (spec/noise.md). */
#ifndef GR_MODEL_NOISE_H
#define GR_MODEL_NOISE_H

#include <stddef.h>
#include <stdint.h>

/* out [n] standard normal float32, n at least GR_NOISE_MIN (config.c checks it; the reference has another generator below). Only
 * the low 32 bits of the seed matter. */
enum { GR_NOISE_MIN = 16 };
void gr_noise(uint64_t seed, float *out, size_t n);

#endif
