/* SPDX-License-Identifier: Apache-2.0
 *
 * arena_impl.h: what arena.c and arena_key.c share. */
#ifndef GR_BLACKHOLE_ARENA_IMPL_H
#define GR_BLACKHOLE_ARENA_IMPL_H

#include "device/blackhole/arena.h"

/* Everything the bytes of a plan depend on, as text for the header of its file. */
enum gr_status gr_bh_arena_key(const struct gr_bh_stream_plan *plan, int tiles, const struct gr_bh_arena_cfg *cfg,
                               char *key, size_t size, struct gr_err *err);

#endif
