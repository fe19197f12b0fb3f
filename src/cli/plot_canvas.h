/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_canvas.h: what a plot is drawn on: text, boxes and lines in pixels, y downwards. plot.c decides what stands where and writes
 * SVG; plot_cairo.c is the canvas for PNG. */
#ifndef GR_CLI_PLOT_CANVAS_H
#define GR_CLI_PLOT_CANVAS_H

#include <stdbool.h>

/* Kinds of marks; both canvases give them the same look (gr_inks in plot.c). */
enum gr_ink {
    GR_INK_TITLE,
    GR_INK_SUB,
    GR_INK_NAME,
    GR_INK_X,
    GR_INK_Y,
    GR_INK_FRAME,
    GR_INK_GRID,
    GR_INK_CHUNK,
    GR_INK_GOLDEN,
    GR_N_INKS
};

struct gr_ink_style {
    const char *name;      /* class in the SVG */
    unsigned fill, stroke; /* 0xRRGGBB */
    bool filled, stroked;
    double width; /* of the stroke */
    double size;  /* of text; 0: no text */
    bool bold;
    double anchor; /* where x stands in the text: 0 left, 0.5 middle, 1 right */
};
extern const struct gr_ink_style gr_inks[GR_N_INKS];

struct gr_canvas {
    void *user;
    void (*rect)(void *user, enum gr_ink ink, double x, double y, double w, double h);
    /* Baseline at y; upwards: turned by 90 degrees to the left around (x, y). */
    void (*text)(void *user, enum gr_ink ink, double x, double y, bool upwards, const char *text);
    /* [n] points as x, y pairs; a point that is not finite leaves a gap. */
    void (*line)(void *user, enum gr_ink ink, const double *xy, int n);
    /* Begin and end of one panel's marks. */
    void (*panel)(void *user, bool begin);
};

struct gr_plot;
/* Size of the picture, and everything on it. GR_PLOT_STEPS_MAX steps at most are drawn. */
enum { GR_PLOT_STEPS_MAX = 4096 };
void gr_plot_size(const struct gr_plot *plot, int *width, int *height);
void gr_plot_draw(const struct gr_plot *plot, const struct gr_canvas *canvas);

#endif
