/* SPDX-License-Identifier: Apache-2.0
 *
 * preprocess.c: the image chain of spec/preprocess.md 2 with its buffers. In: one RGB frame of any allowed size. Out: the last
 * integer stage [side, side, 3], and from that the float planes of the vision encoder.
 * The letterbox is never built: the area resize sees it through struct gr_square, and the crop is a pointer into the resized
 * picture. Only when somebody watches the stages are these two copied out. */
#include "model/preprocess.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gr00t.h"
#include "model/resize.h"
#include "model/spec.h"

enum { UNIT = GR_PATCH * GR_UNSHUFFLE, SCRATCH_ALIGN = 64 };

struct gr_preprocess {
    int edge, crop, side;
    struct gr_area first, second; /* any side -> edge, crop -> edge */
    struct gr_bicubic last;       /* edge -> side */
    uint8_t *resized, *again;     /* [edge, edge, 3] */
    uint8_t *show; /* [GR_SIDE_MAX, GR_SIDE_MAX, 3] for watched stages; its pages stay untouched otherwise */
    void *block;
    size_t block_bytes;
    gr_stage_fn watch;
    void *watch_user;
};

int gr_preprocess_side(int edge) { return (int)rint(edge / (double)UNIT) * UNIT; }

/* Lays the scratch out in `memory`; NULL only counts. */
static size_t place(struct gr_preprocess *p, uint8_t *memory)
{
    const size_t square = (3 * (size_t)p->edge * (size_t)p->edge + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    size_t used = 0;
    used += gr_area_place(&p->first, GR_SIDE_MAX, p->edge, memory);
    used += gr_area_place(&p->second, p->edge, p->edge, memory == NULL ? NULL : memory + used);
    used += gr_bicubic_place(&p->last, p->edge, p->side, memory == NULL ? NULL : memory + used);
    p->resized = memory == NULL ? NULL : memory + used;
    used += square;
    p->again = memory == NULL ? NULL : memory + used;
    used += square;
    p->show = memory == NULL ? NULL : memory + used;
    return used + 3 * (size_t)GR_SIDE_MAX * GR_SIDE_MAX;
}

enum gr_status gr_preprocess_new(int edge, double fraction, struct gr_preprocess **out, struct gr_err *err)
{
    if (edge < GR_EDGE_MIN || edge > GR_EDGE_MAX) {
        return gr_fail(err, GR_ERR_FORMAT, "shortest_image_edge is %d, expected %d..%d", edge, (int)GR_EDGE_MIN,
                       (int)GR_EDGE_MAX);
    }
    if (!(fraction > 0.0 && fraction <= 1.0)) {
        return gr_fail(err, GR_ERR_FORMAT, "crop_fraction is %g, expected above 0 and at most 1", fraction);
    }
    struct gr_preprocess *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the image chain");
    }
    p->edge = edge;
    p->crop = (int)(edge * fraction);
    p->crop = p->crop < 1 ? 1 : p->crop;
    p->side = gr_preprocess_side(edge);
    p->block_bytes = place(p, NULL);
    enum gr_status status = gr_big_alloc(p->block_bytes, "image chain", &p->block, err);
    if (status != GR_OK) {
        free(p);
        return status;
    }
    place(p, p->block);
    gr_area_plan(&p->second, p->crop);
    *out = p;
    return GR_OK;
}

void gr_preprocess_free(struct gr_preprocess *p)
{
    if (p != NULL) {
        gr_big_free(p->block, p->block_bytes);
        free(p);
    }
}

void gr_preprocess_watch(struct gr_preprocess *p, gr_stage_fn fn, void *user)
{
    p->watch = fn;
    p->watch_user = user;
}

static void show(const struct gr_preprocess *p, int stage, const uint8_t *rgb, int side)
{
    if (p->watch != NULL) {
        p->watch(p->watch_user, stage, rgb, side);
    }
}

/* Copies a virtual square out for the watcher. */
static void show_square(const struct gr_preprocess *p, int stage, const struct gr_square *s)
{
    if (p->watch == NULL) {
        return;
    }
    const size_t row_bytes = 3 * (size_t)s->side;
    memset(p->show, 0, row_bytes * (size_t)s->side);
    for (int y = 0; y < s->height; y++) {
        memcpy(p->show + (size_t)(y + s->top) * row_bytes + 3 * (size_t)s->left, s->rgb + (size_t)y * s->stride_bytes,
               3 * (size_t)s->width);
    }
    show(p, stage, p->show, s->side);
}

enum gr_status gr_preprocess_frame(struct gr_preprocess *p, const uint8_t *rgb, int height, int width, uint8_t *u8,
                                   struct gr_err *err)
{
    if (height < GR_SIDE_MIN || height > GR_SIDE_MAX || width < GR_SIDE_MIN || width > GR_SIDE_MAX) {
        return gr_fail(err, GR_ERR_INPUT, "image is %dx%d pixels, sides must be %d..%d", width, height,
                       (int)GR_SIDE_MIN, (int)GR_SIDE_MAX);
    }
    const int square = height > width ? height : width;
    const struct gr_square frame = {.rgb = rgb,
                                    .stride_bytes = 3 * (size_t)width,
                                    .height = height,
                                    .width = width,
                                    .top = (square - height) / 2,
                                    .left = (square - width) / 2,
                                    .side = square};
    show_square(p, GR_STAGE_LETTERBOX, &frame);
    gr_area_plan(&p->first, square);
    gr_area_run(&p->first, &frame, p->resized);
    show(p, GR_STAGE_RESIZE, p->resized, p->edge);

    const size_t edge_bytes = 3 * (size_t)p->edge, offset = (size_t)((p->edge - p->crop) / 2);
    const struct gr_square centre = {.rgb = p->resized + offset * edge_bytes + 3 * offset,
                                     .stride_bytes = edge_bytes,
                                     .height = p->crop,
                                     .width = p->crop,
                                     .side = p->crop};
    show_square(p, GR_STAGE_CROP, &centre);
    gr_area_run(&p->second, &centre, p->again);
    show(p, GR_STAGE_RESIZE_B, p->again, p->edge);

    gr_bicubic_run(&p->last, p->again, u8);
    show(p, GR_STAGE_BICUBIC, u8, p->side);
    return GR_OK;
}

void gr_preprocess_pixels(const uint8_t *u8, int side, float *pixels)
{
    const size_t plane = (size_t)side * (size_t)side;
    float value[256];
    for (int i = 0; i < 256; i++) {
        value[i] = ((float)i - 127.5f) / 127.5f;
    }
    for (size_t i = 0; i < plane; i++) {
        pixels[i] = value[u8[3 * i]];
        pixels[plane + i] = value[u8[3 * i + 1]];
        pixels[2 * plane + i] = value[u8[3 * i + 2]];
    }
}
