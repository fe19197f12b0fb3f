/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_builds.c: see bh_builds.h. */
#include "bh_builds.h"

#include <string.h>

#include "gr_test.h"

static const uint32_t two_xy[] = {XY(7, 2), XY(10, 2)};
const struct gr_bh_grid bh_two = {.tiles = 2, .xy = two_xy, .xy0 = XY(7, 2), .xy1 = XY(10, 2)};

struct gr_bh_build *bh_build_for(const struct gr_bh_grid *grid)
{
    struct gr_err err;
    struct gr_bh_build *b;
    const struct gr_bh_build_cfg cfg = {.grid = grid, .weights = GR_BH_BFP8, .weight_phases = 3};
    assert_int_equal(gr_bh_build_new(&cfg, &b, &err), GR_OK);
    return b;
}

const struct gr_bh_program *bh_build_finished(struct gr_bh_build *b)
{
    struct gr_err err = {.msg = ""};
    const struct gr_bh_program *p = NULL;
    if (gr_bh_build_finish(b, &p, &err) != GR_OK) {
        fail_msg("%s", err.msg);
    }
    return p;
}

void bh_build_refused(struct gr_bh_build *b, const char *words)
{
    struct gr_err err = {.msg = ""};
    const struct gr_bh_program *p;
    assert_int_equal(gr_bh_build_finish(b, &p, &err), GR_ERR_DEVICE);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, err.msg);
    }
    gr_bh_build_free(b);
}

static const float vector[64 * 64];
struct gr_bh_piece bh_piece_of(int mark)
{
    return (struct gr_bh_piece){.kind = GR_BH_PIECE_MODULATE,
                                .col = mark,
                                .scale = vector,
                                .shift = vector,
                                .n = (int)(sizeof vector / sizeof *vector)};
}
struct gr_bh_op *bh_build_operation(struct gr_bh_build *b, int tiles, int stream, int mark, uint32_t out)
{
    struct gr_bh_op *o = gr_bh_emit(b);
    for (int t = 0; t < tiles; t++) {
        o[t].mt = o[t].nt = o[t].nseg = 1;
        o[t].out = out;
        if (stream >= 0) {
            o[t].stream = (uint16_t)stream;
            o[t].chunk = gr_bh_piece_add(b, t, stream, bh_piece_of(mark + t));
        }
    }
    return o;
}
