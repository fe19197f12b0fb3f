/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c: writes SVG by hand. Panels stand in rows of seven at most; a new joint group starts a new row, so that groups are seen at a
 * glance. Coordinates are printed with one decimal, so that the bytes do not depend on the last bit of a division. */
#include "cli/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PER_ROW = 7,
    PANEL_W = 224,
    PANEL_H = 148,
    GAP = 12,
    MARGIN = 20,
    HEAD = 76,    /* title, subtitle, legend */
    INNER_L = 54, /* inside a panel: room for y labels, title, x labels */
    INNER_T = 22,
    INNER_R = 8,
    INNER_B = 32,
    TICKS = 8
};

#define CHUNK_COLOR "#1f6fb2"
#define GOLDEN_COLOR "#f6b95a"

struct panel {
    double x, y; /* of the plotting area */
    double w, h;
    double lo, hi; /* value range */
    int steps;
};

static void put_xml(struct gr_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        switch (c) {
        case '&':
            gr_buf_puts(out, "&amp;");
            break;
        case '<':
            gr_buf_puts(out, "&lt;");
            break;
        case '>':
            gr_buf_puts(out, "&gt;");
            break;
        case '"':
            gr_buf_puts(out, "&quot;");
            break;
        default:
            gr_buf_put(out, c < 0x20 ? "?" : text, 1);
            break;
        }
    }
}

/* Distance between ticks: 1, 2 or 5 times a power of ten, for about four of them. */
static double tick_step(double range)
{
    double raw = range / 4.0, power = pow(10.0, floor(log10(raw)));
    double m = raw / power;
    return (m < 1.5 ? 1.0 : m < 3.5 ? 2.0 : m < 7.5 ? 5.0 : 10.0) * power;
}

static void value_range(const struct gr_plot *plot, int d, double *lo, double *hi)
{
    *lo = INFINITY;
    *hi = -INFINITY;
    for (int line = 0; line < 2; line++) {
        const float *v = line == 0 ? plot->chunk : plot->golden;
        for (int s = 0; v != NULL && s < plot->steps; s++) {
            double x = (double)v[(size_t)s * (size_t)plot->dim + (size_t)d];
            if (isfinite(x)) {
                *lo = fmin(*lo, x);
                *hi = fmax(*hi, x);
            }
        }
    }
    if (!(*lo <= *hi)) {
        *lo = 0.0;
        *hi = 0.0;
    }
    /* A nearly constant dimension must not look like a wild one: at least 0.02 rad high. */
    double pad = fmax(0.08 * (*hi - *lo), 0.01 - 0.5 * (*hi - *lo));
    pad = fmax(pad, 1e-6 * fmax(fabs(*lo), fabs(*hi)));
    *lo -= pad;
    *hi += pad;
}

static double px(const struct panel *p, int step)
{
    return p->x + p->w * (p->steps > 1 ? (double)step / (double)(p->steps - 1) : 0.5);
}
static double py(const struct panel *p, double v) { return p->y + p->h * (p->hi - v) / (p->hi - p->lo); }

static void put_axes(const struct panel *p, struct gr_buf *out)
{
    gr_buf_printf(out, "<rect class=\"frame\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", p->x, p->y,
                  p->w, p->h);
    double step = tick_step(p->hi - p->lo);
    int decimals = step < 1.0 ? (int)ceil(-log10(step) - 1e-9) : 0;
    double first = ceil(p->lo / step - 1e-9);
    for (int i = 0; i < TICKS; i++) {
        double v = (first + i) * step;
        if (v > p->hi + 1e-9 * step) {
            break;
        }
        v = fabs(v) < 0.5 * step ? 0.0 : v; /* no "-0.0" */
        gr_buf_printf(
            out, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/><text class=\"y\" x=\"%.1f\" y=\"%.1f\">%.*f</text>\n",
            p->x, py(p, v), p->w, p->x - 4.0, py(p, v) + 3.0, decimals, v);
    }
    int every = p->steps > 40 ? 20 : p->steps > 10 ? 5 : p->steps > 4 ? 2 : 1;
    for (int s = 0; s < p->steps; s += every) {
        gr_buf_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">%d</text>\n", px(p, s), p->y + p->h + 11.0, s);
    }
}

static void put_line(const struct gr_plot *plot, const struct panel *p, const float *v, int d, const char *class,
                     struct gr_buf *out)
{
    bool pen_down = false;
    gr_buf_printf(out, "<path class=\"%s\" d=\"", class);
    for (int s = 0; s < plot->steps; s++) {
        double x = (double)v[(size_t)s * (size_t)plot->dim + (size_t)d];
        if (!isfinite(x)) {
            pen_down = false;
            continue;
        }
        gr_buf_printf(out, "%c%.1f %.1f", pen_down ? 'L' : 'M', px(p, s), py(p, x));
        pen_down = true;
    }
    gr_buf_puts(out, "\"/>\n");
}

static void put_panel(const struct gr_plot *plot, const struct gr_group *group, int index, int d, double left,
                      double top, struct gr_buf *out)
{
    struct panel p = {left + INNER_L, top + INNER_T, PANEL_W - INNER_L - INNER_R, PANEL_H - INNER_T - INNER_B, 0.0, 0.0,
                      plot->steps};
    value_range(plot, d, &p.lo, &p.hi);
    gr_buf_puts(out, "<g>\n<text class=\"name\"");
    gr_buf_printf(out, " x=\"%.1f\" y=\"%.1f\">", left + INNER_L, top + 14.0);
    put_xml(out, group->name);
    gr_buf_printf(out, "[%d]</text>\n", index);
    put_axes(&p, out);
    gr_buf_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%.1f\">step</text>\n", p.x + p.w / 2.0, p.y + p.h + 24.0);
    gr_buf_printf(out, "<text class=\"x\" transform=\"translate(%.1f %.1f) rotate(-90)\">", left + 9.0,
                  p.y + p.h / 2.0);
    put_xml(out, group->name);
    gr_buf_printf(out, "[%d]</text>\n", index);
    if (plot->golden != NULL) {
        put_line(plot, &p, plot->golden, d, "golden", out);
    }
    put_line(plot, &p, plot->chunk, d, "chunk", out);
    gr_buf_puts(out, "</g>\n");
}

static void put_head(const struct gr_plot *plot, int width, int height, struct gr_buf *out)
{
    gr_buf_printf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
                  width, height, width, height);
    gr_buf_puts(out, "<style>text{font-family:DejaVu Sans,Helvetica,Arial,sans-serif;fill:#222}"
                     ".title{font-size:17px;font-weight:bold}.sub{font-size:12px}.name{font-size:12px;font-weight:bold}"
                     ".x{font-size:10px;text-anchor:middle}.y{font-size:10px;text-anchor:end}"
                     ".frame{fill:#fafafa;stroke:#999}.grid{stroke:#ddd;fill:none}"
                     ".chunk{stroke:" CHUNK_COLOR ";stroke-width:1.6;fill:none}"
                     /* wide and below, so that it shows under a line that agrees with it */
                     ".golden{stroke:" GOLDEN_COLOR ";stroke-width:5;stroke-linejoin:round;fill:none}</style>\n");
    gr_buf_printf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n<text class=\"title\" x=\"%d\" y=\"28\">",
                  width, height, MARGIN);
    put_xml(out, plot->title);
    gr_buf_puts(out, "</text>\n");
    if (plot->subtitle != NULL) {
        gr_buf_printf(out, "<text class=\"sub\" x=\"%d\" y=\"46\">", MARGIN);
        put_xml(out, plot->subtitle);
        gr_buf_puts(out, "</text>\n");
    }
    for (int i = 0; i < (plot->golden != NULL ? 2 : 1); i++) {
        int x = MARGIN + i * 220;
        gr_buf_printf(out, "<path class=\"%s\" d=\"M%d 61h34\"/><text class=\"sub\" x=\"%d\" y=\"65\">",
                      i == 0 ? "chunk" : "golden", x, x + 42);
        put_xml(out, i == 0 ? plot->chunk_name : plot->golden_name);
        gr_buf_puts(out, "</text>\n");
    }
}

void gr_plot_svg(const struct gr_plot *plot, struct gr_buf *out)
{
    int rows = 0, columns = 1;
    for (int g = 0; g < plot->n_groups; g++) {
        int dim = plot->groups[g].dim;
        rows += (dim + PER_ROW - 1) / PER_ROW;
        columns = dim > columns ? dim : columns;
    }
    columns = columns > PER_ROW ? PER_ROW : columns < 4 ? 4 : columns;
    int width = 2 * MARGIN + columns * PANEL_W + (columns - 1) * GAP;
    put_head(plot, width, HEAD + rows * (PANEL_H + GAP) + MARGIN - GAP, out);
    int row = 0, d = 0;
    for (int g = 0; g < plot->n_groups; g++) {
        for (int i = 0; i < plot->groups[g].dim; i++, d++) {
            double left = MARGIN + (i % PER_ROW) * (PANEL_W + GAP), top = HEAD + (row + i / PER_ROW) * (PANEL_H + GAP);
            put_panel(plot, &plot->groups[g], i, d, left, top, out);
        }
        row += (plot->groups[g].dim + PER_ROW - 1) / PER_ROW;
    }
    gr_buf_puts(out, "</svg>\n");
}
