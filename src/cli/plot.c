/* SPDX-License-Identifier: Apache-2.0
 *
 * plot.c: what stands where, and the SVG canvas, written by hand. Panels stand in rows of seven at most; a new joint group starts a new
 * row, so that groups are seen at a glance. Coordinates are printed with one decimal, so that the bytes do not depend on the last bit
 * of a division. */
#include "cli/plot.h"

#include <math.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/plot_canvas.h"

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

enum { INK = 0x222222, LABEL_BYTES = 160 };

const struct gr_ink_style gr_inks[GR_N_INKS] = {
    [GR_INK_TITLE] = {"title", INK, 0, true, false, 0.0, 17.0, true, 0.0},
    [GR_INK_SUB] = {"sub", INK, 0, true, false, 0.0, 12.0, false, 0.0},
    [GR_INK_NAME] = {"name", INK, 0, true, false, 0.0, 12.0, true, 0.0},
    [GR_INK_X] = {"x", INK, 0, true, false, 0.0, 10.0, false, 0.5},
    [GR_INK_Y] = {"y", INK, 0, true, false, 0.0, 10.0, false, 1.0},
    [GR_INK_FRAME] = {"frame", 0xfafafa, 0x999999, true, true, 1.0, 0.0, false, 0.0},
    [GR_INK_GRID] = {"grid", 0, 0xdddddd, false, true, 1.0, 0.0, false, 0.0},
    [GR_INK_CHUNK] = {"chunk", 0, 0x1f6fb2, false, true, 1.6, 0.0, false, 0.0},
    /* wide and below, so that it shows under a line that agrees with it */
    [GR_INK_GOLDEN] = {"golden", 0, 0xf6b95a, false, true, 5.0, 0.0, false, 0.0},
};

/* ---- SVG ---- */

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

static void svg_rect(void *user, enum gr_ink ink, double x, double y, double w, double h)
{
    gr_buf_printf(user, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n",
                  gr_inks[ink].name, x, y, w, h);
}

static void svg_text(void *user, enum gr_ink ink, double x, double y, bool upwards, const char *text)
{
    gr_buf_printf(user,
                  upwards ? "<text class=\"%s\" transform=\"translate(%.1f %.1f) rotate(-90)\">"
                          : "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">",
                  gr_inks[ink].name, x, y);
    put_xml(user, text);
    gr_buf_puts(user, "</text>\n");
}

static void svg_line(void *user, enum gr_ink ink, const double *xy, int n)
{
    bool pen_down = false;
    gr_buf_printf(user, "<path class=\"%s\" d=\"", gr_inks[ink].name);
    for (int i = 0; i < n; i++) {
        if (!isfinite(xy[2 * i]) || !isfinite(xy[2 * i + 1])) {
            pen_down = false;
            continue;
        }
        gr_buf_printf(user, "%c%.1f %.1f", pen_down ? 'L' : 'M', xy[2 * i], xy[2 * i + 1]);
        pen_down = true;
    }
    gr_buf_puts(user, "\"/>\n");
}

static void svg_panel(void *user, bool begin) { gr_buf_puts(user, begin ? "<g>\n" : "</g>\n"); }

static void svg_style(struct gr_buf *out)
{
    gr_buf_puts(out, "<style>text{font-family:DejaVu Sans,Helvetica,Arial,sans-serif}");
    for (int i = 0; i < GR_N_INKS; i++) {
        const struct gr_ink_style *s = &gr_inks[i];
        gr_buf_printf(out, ".%s{", s->name);
        if (s->filled) {
            gr_buf_printf(out, "fill:#%06x", s->fill);
        } else {
            gr_buf_puts(out, "fill:none");
        }
        if (s->stroked) {
            gr_buf_printf(out, ";stroke:#%06x;stroke-width:%g;stroke-linejoin:round", s->stroke, s->width);
        }
        if (s->size > 0.0) {
            gr_buf_printf(out, ";font-size:%gpx;text-anchor:%s%s", s->size,
                          s->anchor == 0.0  ? "start"
                          : s->anchor < 1.0 ? "middle"
                                            : "end",
                          s->bold ? ";font-weight:bold" : "");
        }
        gr_buf_puts(out, "}");
    }
    gr_buf_puts(out, "</style>\n");
}

void gr_plot_svg(const struct gr_plot *plot, struct gr_buf *out)
{
    int width, height;
    const struct gr_canvas canvas = {out, svg_rect, svg_text, svg_line, svg_panel};
    gr_plot_size(plot, &width, &height);
    gr_buf_printf(out,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
                  width, height, width, height);
    svg_style(out);
    gr_buf_printf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height);
    gr_plot_draw(plot, &canvas);
    gr_buf_puts(out, "</svg>\n");
}

/* ---- what stands where ---- */

struct panel {
    double x, y; /* of the plotting area */
    double w, h;
    double lo, hi; /* value range */
    int steps;
};

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

static void put_axes(const struct panel *p, const struct gr_canvas *c)
{
    char label[LABEL_BYTES];
    c->rect(c->user, GR_INK_FRAME, p->x, p->y, p->w, p->h);
    double step = tick_step(p->hi - p->lo);
    int decimals = step < 1.0 ? (int)ceil(-log10(step) - 1e-9) : 0;
    double first = ceil(p->lo / step - 1e-9);
    for (int i = 0; i < TICKS; i++) {
        double v = (first + i) * step;
        if (v > p->hi + 1e-9 * step) {
            break;
        }
        v = fabs(v) < 0.5 * step ? 0.0 : v; /* no "-0.0" */
        const double xy[] = {p->x, py(p, v), p->x + p->w, py(p, v)};
        c->line(c->user, GR_INK_GRID, xy, 2);
        snprintf(label, sizeof label, "%.*f", decimals, v);
        c->text(c->user, GR_INK_Y, p->x - 4.0, py(p, v) + 3.0, false, label);
    }
    int every = p->steps > 40 ? 20 : p->steps > 10 ? 5 : p->steps > 4 ? 2 : 1;
    for (int s = 0; s < p->steps; s += every) {
        snprintf(label, sizeof label, "%d", s);
        c->text(c->user, GR_INK_X, px(p, s), p->y + p->h + 11.0, false, label);
    }
}

static void put_line(const struct gr_plot *plot, const struct panel *p, const float *v, int d, enum gr_ink ink,
                     const struct gr_canvas *c)
{
    double xy[2 * GR_PLOT_STEPS_MAX];
    int n = plot->steps < GR_PLOT_STEPS_MAX ? plot->steps : GR_PLOT_STEPS_MAX;
    for (int s = 0; s < n; s++) {
        xy[2 * s] = px(p, s);
        xy[2 * s + 1] = py(p, (double)v[(size_t)s * (size_t)plot->dim + (size_t)d]);
    }
    c->line(c->user, ink, xy, n);
}

static void put_panel(const struct gr_plot *plot, const struct gr_group *group, int index, int d, double left,
                      double top, const struct gr_canvas *c)
{
    struct panel p = {left + INNER_L, top + INNER_T, PANEL_W - INNER_L - INNER_R, PANEL_H - INNER_T - INNER_B, 0.0, 0.0,
                      plot->steps};
    char label[LABEL_BYTES];
    value_range(plot, d, &p.lo, &p.hi);
    size_t n = gr_utf8_clean(label, LABEL_BYTES - 16, group->name);
    snprintf(label + n, sizeof label - n, "[%d]", index);
    c->panel(c->user, true);
    c->text(c->user, GR_INK_NAME, left + INNER_L, top + 14.0, false, label);
    put_axes(&p, c);
    c->text(c->user, GR_INK_X, p.x + p.w / 2.0, p.y + p.h + 24.0, false, "step");
    c->text(c->user, GR_INK_X, left + 9.0, p.y + p.h / 2.0, true, label);
    if (plot->golden != NULL) {
        put_line(plot, &p, plot->golden, d, GR_INK_GOLDEN, c);
    }
    put_line(plot, &p, plot->chunk, d, GR_INK_CHUNK, c);
    c->panel(c->user, false);
}

static void put_head(const struct gr_plot *plot, const struct gr_canvas *c)
{
    c->text(c->user, GR_INK_TITLE, MARGIN, 28.0, false, plot->title);
    if (plot->subtitle != NULL) {
        c->text(c->user, GR_INK_SUB, MARGIN, 46.0, false, plot->subtitle);
    }
    for (int i = 0; i < (plot->golden != NULL ? 2 : 1); i++) {
        double x = MARGIN + i * 220;
        const double xy[] = {x, 61.0, x + 34.0, 61.0};
        c->line(c->user, i == 0 ? GR_INK_CHUNK : GR_INK_GOLDEN, xy, 2);
        c->text(c->user, GR_INK_SUB, x + 42.0, 65.0, false, i == 0 ? plot->chunk_name : plot->golden_name);
    }
}

void gr_plot_size(const struct gr_plot *plot, int *width, int *height)
{
    int rows = 0, columns = 1;
    for (int g = 0; g < plot->n_groups; g++) {
        int dim = plot->groups[g].dim;
        rows += (dim + PER_ROW - 1) / PER_ROW;
        columns = dim > columns ? dim : columns;
    }
    columns = columns > PER_ROW ? PER_ROW : columns < 4 ? 4 : columns;
    *width = 2 * MARGIN + columns * PANEL_W + (columns - 1) * GAP;
    *height = HEAD + rows * (PANEL_H + GAP) + MARGIN - GAP;
}

void gr_plot_draw(const struct gr_plot *plot, const struct gr_canvas *canvas)
{
    put_head(plot, canvas);
    for (int g = 0, row = 0, d = 0; g < plot->n_groups; g++) {
        for (int i = 0; i < plot->groups[g].dim; i++, d++) {
            double left = MARGIN + (i % PER_ROW) * (PANEL_W + GAP), top = HEAD + (row + i / PER_ROW) * (PANEL_H + GAP);
            put_panel(plot, &plot->groups[g], i, d, left, top, canvas);
        }
        row += (plot->groups[g].dim + PER_ROW - 1) / PER_ROW;
    }
}

void gr_plot_subtitle(char *out, size_t cap, const char *instruction, size_t most, const uint64_t *seed)
{
    size_t full = strlen(instruction), n = full < most ? full : most;
    while (n < full && n > 0 && ((unsigned char)instruction[n] & 0xC0) == 0x80) {
        n--;
    }
    snprintf(out, cap, "%.*s%s", (int)n, instruction, n < full ? "..." : "");
    if (seed != NULL) {
        size_t used = strlen(out);
        snprintf(out + used, cap - used, "%sseed %" PRIu64, used > 0 ? ", " : "", *seed);
    }
}
