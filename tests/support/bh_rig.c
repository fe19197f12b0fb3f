/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_rig.c: build, arena and machine of one program, and measures of nearness. */
#include "bh_rig.h"

#include <math.h>
#include <string.h>

void bh_rig_begin(struct bh_rig *r, int width, int height, enum gr_bh_format weights)
{
    struct gr_err err;
    *r = (struct bh_rig){.weights = weights};
    assert_true(width * height <= BH_RIG_TILES);
    for (int i = 0; i < width * height; i++) {
        const uint32_t x = 1 + (uint32_t)(i % width), y = 2 + (uint32_t)(i / width);
        r->xy[i] = (x > 7 ? x + 2 : x) | y << 6; /* columns 8 and 9 are no Tensix */
    }
    r->grid =
        (struct gr_bh_grid){.tiles = width * height, .xy = r->xy, .xy0 = r->xy[0], .xy1 = r->xy[width * height - 1]};
    const struct gr_bh_build_cfg cfg = {
        .grid = &r->grid, .weights = weights, .weight_phases = weights == GR_BH_BFP8 ? 3 : 4};
    gr_test_ok(gr_bh_build_new(&cfg, &r->build, &err), &err);
}

void bh_rig_finish(struct bh_rig *r)
{
    struct gr_err err;
    gr_test_ok(gr_bh_build_finish(r->build, &r->program, &err), &err);
    size_t bytes = 0;
    for (int i = 0; i < r->grid.tiles * GR_BH_STREAMS; i++) {
        bytes += r->program->plan[i].bytes;
    }
    const struct gr_bh_arena_cfg cfg = {.weights = r->weights, .threads = 2};
    if (bytes > 0) { /* an arena of nothing is refused */
        gr_test_ok(gr_bh_arena_open(r->program->plan, r->grid.tiles, &cfg, &r->arena, &err), &err);
    }
}

void bh_rig_load(struct bh_rig *r, struct gr_bh_machine *machine)
{
    struct gr_err err;
    r->machine = machine;
    if (r->arena != NULL) {
        gr_test_ok(gr_bh_arena_upload(r->arena, machine, &err), &err);
    }
    gr_test_ok(gr_bh_program_load(r->program, machine, &err), &err);
}

void bh_rig_load_cpu(struct bh_rig *r, enum gr_bh_arithmetic arithmetic, int threads)
{
    struct gr_err err;
    struct gr_bh_machine *machine = NULL;
    gr_test_ok(gr_bh_machine_cpu(&r->grid, arithmetic, threads, &machine, &err), &err);
    bh_rig_load(r, machine);
}

void bh_rig_input(struct bh_rig *r, const char *name, const float *values)
{
    struct gr_err err;
    gr_test_ok(gr_bh_write_input(r->program, r->machine, name, values, &err), &err);
}

void bh_rig_run(struct bh_rig *r, gr_bh_tap_fn tap, void *user)
{
    struct gr_err err;
    gr_test_ok(gr_bh_program_run(r->program, r->machine, tap, user, &err), &err);
}

void bh_rig_output(struct bh_rig *r, const char *name, float *values)
{
    struct gr_err err;
    const struct gr_bh_io *io = gr_bh_find_output(r->program, name);
    assert_non_null(io);
    gr_test_ok(gr_bh_read_io(r->program, r->machine, io, values, &err), &err);
}

void bh_rig_unload(struct bh_rig *r)
{
    if (r->machine != NULL) {
        struct gr_err err;
        gr_test_ok(r->machine->ops->stop(r->machine, &err), &err);
        r->machine->ops->close(r->machine);
        r->machine = NULL;
    }
}

void bh_rig_end(struct bh_rig *r)
{
    bh_rig_unload(r);
    if (r->arena != NULL) {
        gr_bh_arena_close(r->arena);
    }
    gr_bh_build_free(r->build);
    memset(r, 0, sizeof *r);
}

double bh_pcc(const float *a, const float *b, size_t n)
{
    double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
    for (size_t i = 0; i < n; i++) {
        ma += (double)a[i] / (double)n;
        mb += (double)b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        const double x = (double)a[i] - ma, y = (double)b[i] - mb;
        aa += x * x;
        bb += y * y;
        ab += x * y;
    }
    return ab / sqrt(aa * bb);
}

double bh_relative_rms(const float *got, const double *want, size_t n)
{
    double error = 0, signal = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = (double)got[i] - want[i];
        error += e * e;
        signal += want[i] * want[i];
    }
    return sqrt(error / signal);
}

float bh_uniform(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return (float)(int32_t)*state / 2147483648.0f;
}
