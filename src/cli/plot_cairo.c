/* SPDX-License-Identifier: Apache-2.0
 *
 * plot_cairo.c: the PNG canvas, when the program is built with cairo (GR_HAVE_CAIRO); the only file that knows it. Without, it says so. */
#include "cli/plot.h"

#ifdef GR_HAVE_CAIRO
#include <cairo.h>
#include <math.h>

#include "base/utf8.h"
#include "cli/plot_canvas.h"

enum { TEXT_BYTES = 512 };

static void set_color(cairo_t *cr, unsigned rgb)
{
    cairo_set_source_rgb(cr, (rgb >> 16 & 255u) / 255.0, (rgb >> 8 & 255u) / 255.0, (rgb & 255u) / 255.0);
}

static void stroke(cairo_t *cr, const struct gr_ink_style *s)
{
    set_color(cr, s->stroke);
    cairo_set_line_width(cr, s->width);
    cairo_stroke(cr);
}

static void draw_rect(void *user, enum gr_ink ink, double x, double y, double w, double h)
{
    cairo_rectangle(user, x, y, w, h);
    set_color(user, gr_inks[ink].fill);
    cairo_fill_preserve(user);
    stroke(user, &gr_inks[ink]);
}

static void draw_text(void *user, enum gr_ink ink, double x, double y, bool upwards, const char *text)
{
    const struct gr_ink_style *s = &gr_inks[ink];
    char clean[TEXT_BYTES];
    cairo_text_extents_t size;
    (void)gr_utf8_clean(clean, sizeof clean, text); /* cairo stops for good at text that is no UTF-8 */
    cairo_select_font_face(user, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           s->bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(user, s->size);
    cairo_text_extents(user, clean, &size);
    cairo_save(user);
    cairo_translate(user, x, y);
    cairo_rotate(user, upwards ? -acos(0.0) : 0.0);
    cairo_move_to(user, -s->anchor * size.x_advance, 0.0);
    set_color(user, s->fill);
    cairo_show_text(user, clean);
    cairo_restore(user);
    cairo_new_path(user);
}

static void draw_line(void *user, enum gr_ink ink, const double *xy, int n)
{
    cairo_set_line_join(user, CAIRO_LINE_JOIN_ROUND);
    for (int i = 0; i < n; i++) {
        if (!isfinite(xy[2 * i]) || !isfinite(xy[2 * i + 1])) {
            cairo_new_sub_path(user);
        } else {
            cairo_line_to(user, xy[2 * i], xy[2 * i + 1]);
        }
    }
    stroke(user, &gr_inks[ink]);
}

static void note_panel(void *user, bool begin)
{
    (void)user;
    (void)begin;
}

static cairo_status_t take(void *user, const unsigned char *bytes, unsigned n)
{
    struct gr_buf *out = user;
    gr_buf_put(out, bytes, n);
    return out->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

bool gr_plot_has_png(void) { return true; }

enum gr_status gr_plot_png(const struct gr_plot *plot, struct gr_buf *out, struct gr_err *err)
{
    int width, height;
    gr_plot_size(plot, &width, &height);
    cairo_surface_t *page = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
    cairo_t *cr = cairo_create(page);
    const struct gr_canvas canvas = {cr, draw_rect, draw_text, draw_line, note_panel};
    cairo_set_source_rgb(cr, 1.0, 1.0, 1.0);
    cairo_paint(cr);
    gr_plot_draw(plot, &canvas);
    cairo_status_t status = cairo_status(cr);
    cairo_destroy(cr);
    if (status == CAIRO_STATUS_SUCCESS) {
        status = cairo_surface_write_to_png_stream(page, take, out);
    }
    cairo_surface_destroy(page);
    return status == CAIRO_STATUS_SUCCESS
               ? GR_OK
               : gr_fail(err, GR_ERR_NOMEM, "a PNG of %d x %d pixels cannot be drawn: %s; SVG has no such limit", width,
                         height, cairo_status_to_string(status));
}

#else

bool gr_plot_has_png(void) { return false; }

enum gr_status gr_plot_png(const struct gr_plot *plot, struct gr_buf *out, struct gr_err *err)
{
    (void)plot;
    (void)out;
    return gr_fail(err, GR_ERR_USAGE, "this program was built without cairo: SVG only");
}

#endif
