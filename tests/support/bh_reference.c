/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_reference.c: see bh_reference.h. Short rather than fast: a full-width block takes seconds. */
#include "bh_reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/waves.h"

static double *doubles(size_t n) { return calloc(n, sizeof(double)); }

static double relu(double x) { return x > 0 ? x : 0; }
static double silu(double x) { return x / (1 + exp(-x)); }
static double gelu(double x) { return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }
static double same(double x) { return x; }

/* y [m, n] = f(x W' + b), malloc'ed. */
static double *linear(const struct gr_linear *l, const double *x, int m, double (*f)(double))
{
    const int n = (int)l->w.shape[0], k = (int)l->w.shape[1];
    double *y = doubles((size_t)m * (size_t)n);
    float *row = malloc((size_t)k * sizeof *row);
    for (int j = 0; j < n; j++) {
        gr_tensor_to_f32(&l->w, (size_t)j * (size_t)k, (size_t)k, row);
        for (int r = 0; r < m; r++) {
            double s = (double)gr_tensor_f32(&l->b, (size_t)j);
            for (int i = 0; i < k; i++) {
                s += x[(size_t)r * (size_t)k + (size_t)i] * (double)row[i];
            }
            y[(size_t)r * (size_t)n + (size_t)j] = f(s);
        }
    }
    free(row);
    return y;
}

/* The same for a layer of slots, whose matrix is [k, n]. */
static double *of_slot(const struct gr_cat_linear *l, int slot, const double *x, int m, double (*f)(double))
{
    const int k = (int)l->w.shape[1], n = (int)l->w.shape[2];
    double *y = doubles((size_t)m * (size_t)n);
    float *row = malloc((size_t)n * sizeof *row);
    for (int i = -1; i < k; i++) {
        const size_t at = i < 0 ? (size_t)slot : (size_t)slot * (size_t)k + (size_t)i;
        gr_tensor_to_f32(i < 0 ? &l->b : &l->w, at * (size_t)n, (size_t)n, row);
        for (int r = 0; r < m; r++) {
            const double v = i < 0 ? 1.0 : x[(size_t)r * (size_t)k + (size_t)i];
            for (int j = 0; j < n; j++) {
                y[(size_t)r * (size_t)n + (size_t)j] += v * (double)row[j];
            }
        }
    }
    for (size_t i = 0; i < (size_t)m * (size_t)n; i++) {
        y[i] = f(y[i]);
    }
    free(row);
    return y;
}

static double *widened(const float *x, size_t n)
{
    double *y = doubles(n);
    for (size_t i = 0; i < n; i++) {
        y[i] = (double)x[i];
    }
    return y;
}

static double *norm(const double *x, int m, int d, const double *modulation)
{
    double *y = doubles((size_t)m * (size_t)d);
    for (int r = 0; r < m; r++) {
        const double *row = x + (size_t)r * (size_t)d;
        double mean = 0, square = 0;
        for (int i = 0; i < d; i++) {
            mean += row[i] / d;
        }
        for (int i = 0; i < d; i++) {
            square += (row[i] - mean) * (row[i] - mean) / d;
        }
        for (int i = 0; i < d; i++) {
            const double v = (row[i] - mean) / sqrt(square + (double)GR_DIT_EPS);
            y[(size_t)r * (size_t)d + (size_t)i] = modulation == NULL ? v : v * (1 + modulation[i]) + modulation[d + i];
        }
    }
    return y;
}

/* out [m, d] of all heads; k, v [keys, d]. */
static double *attention(const struct gr_dims *dims, const double *q, const double *k, const double *v, int m, int keys)
{
    const int d = dims->dit.width, w = dims->dit.head_dim;
    double *out = doubles((size_t)m * (size_t)d), *p = doubles((size_t)keys);
    for (int i = 0; i < m * dims->dit.heads; i++) {
        const int r = i / dims->dit.heads, first = i % dims->dit.heads * w;
        double top = -1e300, sum = 0;
        for (int j = 0; j < keys; j++) {
            p[j] = 0;
            for (int c = first; c < first + w; c++) {
                p[j] += q[r * d + c] * k[j * d + c] / sqrt((double)w);
            }
            top = fmax(top, p[j]);
        }
        for (int j = 0; j < keys; j++) {
            p[j] = exp(p[j] - top);
            sum += p[j];
        }
        for (int j = 0; j < keys; j++) {
            for (int c = first; c < first + w; c++) {
                out[r * d + c] += p[j] / sum * v[j * d + c];
            }
        }
    }
    free(p);
    return out;
}

static void add(double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] += y[i];
    }
    free(y);
}

void bh_reference_rows(const struct bh_net *net, const struct bh_case *c, double *x)
{
    const struct gr_weights *w = net->w;
    const struct gr_dims *d = &w->dims;
    const int D = d->dit.width, N = d->dit.horizon;
    double *state = widened(c->state, (size_t)d->dit.max_state),
           *noise = widened(c->noise, (size_t)N * (size_t)d->dit.max_action);
    double *h = of_slot(&w->state1, net->slot, state, 1, relu), *features = of_slot(&w->state2, net->slot, h, 1, same);
    double *u = of_slot(&w->action1, net->slot, noise, N, same), *wide = doubles((size_t)N * 2 * (size_t)D);
    float *tau = calloc((size_t)d->dit.steps * (size_t)D, sizeof *tau);
    gr_action_waves(d, tau);
    for (int r = 0; r < N; r++) {
        for (int i = 0; i < D; i++) {
            wide[r * 2 * D + i] = u[r * D + i];
            wide[r * 2 * D + D + i] = (double)tau[i];
        }
    }
    double *v = of_slot(&w->action2, net->slot, wide, N, silu), *a = of_slot(&w->action3, net->slot, v, N, same);
    memcpy(x, features, (size_t)D * sizeof *x);
    for (int i = 0; i < N * D; i++) {
        x[D + i] = a[i] + (double)gr_tensor_f32(&w->action_pos, (size_t)i);
    }
    void *const all[] = {state, noise, h, features, u, wide, tau, v, a};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        free(all[i]);
    }
}

/* [scale | shift] of block i at time 0, whose waves are ones and zeros. */
static double *modulation(const struct gr_weights *w, int i)
{
    const int channels = w->dims.dit.time_channels;
    double *waves = doubles((size_t)channels);
    for (int j = 0; j < channels / 2; j++) {
        waves[j] = 1;
    }
    double *h = linear(&w->time1, waves, 1, silu), *st = linear(&w->time2, h, 1, silu),
           *out = linear(&w->dit[i].ada, st, 1, same);
    free(waves);
    free(h);
    free(st);
    return out;
}

void bh_reference_block(const struct bh_net *net, const struct bh_case *c, int i, double *x)
{
    const struct gr_weights *w = net->w;
    const struct gr_dims *d = &w->dims;
    const struct gr_dit_block *b = &w->dit[i];
    const int D = d->dit.width, T = d->dit.horizon + 1;
    const bool cross = i % 2 == 0, text = i % (2 * d->dit.text_every) == 0;
    const int keys = !cross ? T : text ? c->text_rows : c->image_rows;
    double *mod = modulation(w, i), *h = norm(x, T, D, mod);
    double *src = !cross ? NULL : widened(text ? c->vl_text : c->vl_image, (size_t)keys * (size_t)d->llm.hidden);
    double *q = linear(&b->q, h, T, same), *k = linear(&b->k, cross ? src : h, keys, same),
           *v = linear(&b->v, cross ? src : h, keys, same);
    double *o = attention(d, q, k, v, T, keys);
    add(x, linear(&b->out, o, T, same), (size_t)T * (size_t)D);
    double *g = norm(x, T, D, NULL), *f = linear(&b->ff1, g, T, gelu);
    add(x, linear(&b->ff2, f, T, same), (size_t)T * (size_t)D);
    double *const all[] = {mod, h, src, q, k, v, o, g, f};
    for (size_t j = 0; j < sizeof all / sizeof *all; j++) {
        free(all[j]);
    }
}
