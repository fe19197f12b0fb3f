/* SPDX-License-Identifier: Apache-2.0
 *
 * state.c: joint state in physical units to the network's state vector, bit for bit as encode_state of the reference.
 * In: [state_dim] values with their request dtype. Out: [max_state] float32, groups side by side, zeros behind them.
 * The request dtype matters: a float32 request rounds to float32 in the middle of the min/max formula, a float64 request at its end. */
#include "model/state.h"

#include <math.h>
#include <string.h>

/* Sine and cosine in float32 as the reference's array library computes them on a CPU with FMA (spec/preprocess.md 4): reduction by
 * pi/2 in three pieces, polynomials in z = r*r. fmaf must be exact, which C guarantees. Valid while q fits the rounding trick and int. */
static void sin_cos_f32(float v, float *sine, float *cosine)
{
    const float round_to_int = 0x1.8p23f;
    float q = v * 0.636619772367581343f;
    q = (q + round_to_int) - round_to_int;
    float r = fmaf(q, -0x1.921fb0p+0f, v);
    r = fmaf(q, -0x1.5110b4p-22f, r);
    r = fmaf(q, -0x1.846988p-48f, r);
    float z = r * r;
    float c = 0x1.98e616p-16f;
    c = fmaf(c, z, -0x1.6c06dcp-10f);
    c = fmaf(c, z, 0x1.55553cp-5f);
    c = fmaf(c, z, -0.5f);
    c = fmaf(c, z, 1.0f);
    float s = 0x1.7d3bbcp-19f;
    s = fmaf(s, z, -0x1.a06bbap-13f);
    s = fmaf(s, z, 0x1.11119ap-7f);
    s = fmaf(s, z, -0x1.555556p-3f);
    s = fmaf(s * z, r, r);
    unsigned i = (unsigned)(int)q; /* the two low bits of a negative int are those of its two's complement */
    unsigned j = i + 1U;
    *sine = (i & 1U) != 0 ? c : s;
    *cosine = (j & 1U) != 0 ? c : s;
    if ((i & 2U) != 0) {
        *sine = -*sine;
    }
    if (v == 0.0f) { /* the last fmaf makes +0 of -0; the recorded encodings keep the sign */
        *sine = v;
    }
    if ((j & 2U) != 0) {
        *cosine = -*cosine;
    }
}

/* The value as the request's dtype holds it. */
static double take(double x, bool is_f64) { return is_f64 ? x : (double)(float)x; }

/* state: the group's first value. */
static void encode_sin_cos(const struct gr_group_config *g, const double *state, bool is_f64, float *out)
{
    for (int i = 0; i < g->dim; i++) {
        float *sine = &out[i], *cosine = &out[g->dim + i];
        double v = take(state[i], is_f64);
        if (is_f64) {
            *sine = (float)sin(v);
            *cosine = (float)cos(v);
        } else if (fabs(v) < 0x1p22) {
            sin_cos_f32((float)v, sine, cosine);
        } else { /* beyond the rounding trick: the C library */
            *sine = sinf((float)v);
            *cosine = cosf((float)v);
        }
    }
}

static void encode_mean_std(const struct gr_group_config *g, const double *state, bool is_f64, float *out)
{
    for (int i = 0; i < g->dim; i++) {
        double v = take(state[i], is_f64);
        bool constant = g->std[i] == 0.0;
        out[i] = (float)(constant ? v : (v - g->mean[i]) / g->std[i]);
    }
}

static float clip_f32(float x) { return x < -1.0f ? -1.0f : x > 1.0f ? 1.0f : x; }

static void encode_min_max(const struct gr_group_config *g, const double *state, bool is_f64, bool clip, float *out)
{
    for (int i = 0; i < g->dim; i++) {
        double lo = g->lo[i], hi = g->hi[i];
        if (fabs(hi - lo) <= 1e-8 + 1e-5 * fabs(lo)) { /* constant in the recording: carries no information */
            out[i] = 0.0f;
            continue;
        }
        double x = (take(state[i], is_f64) - lo) / (hi - lo);
        if (is_f64) {
            double y = 2.0 * x - 1.0;
            out[i] = (float)(!clip ? y : y < -1.0 ? -1.0 : y > 1.0 ? 1.0 : y);
        } else {
            float y = 2.0f * (float)x - 1.0f;
            out[i] = clip ? clip_f32(y) : y;
        }
    }
}

/* Finite in float32 whatever the request's dtype, since actions are composed in it. */
static enum gr_status check_group(const struct gr_group_config *g, const double *state, struct gr_err *err)
{
    for (int i = 0; i < g->dim; i++) {
        if (!isfinite((float)state[i])) {
            return gr_fail(err, GR_ERR_INPUT, "state.%.80s[%d] is %g, expected a number that is finite in float32",
                           g->name, i, state[i]);
        }
    }
    return GR_OK;
}

static enum gr_status check_encoded(const struct gr_group_config *g, const double *state, const float *out, int width,
                                    struct gr_err *err)
{
    for (int i = 0; i < width; i++) {
        if (!isfinite(out[i])) {
            return gr_fail(err, GR_ERR_INPUT,
                           "state.%.80s[%d] is %g, too far from its statistics: not finite once normalised", g->name,
                           i % g->dim, state[i % g->dim]);
        }
    }
    return GR_OK;
}

enum gr_status gr_state_encode(const struct gr_config *cfg, const double *state, int state_dim, bool is_f64, float *out,
                               struct gr_err *err)
{
    const struct gr_embodiment *e = &cfg->emb;
    int at = 0;
    if (state_dim != e->state_dim) {
        return gr_fail(err, GR_ERR_INPUT, "state has %d numbers, expected %d", state_dim, e->state_dim);
    }
    for (int k = 0; k < e->n_state; k++) {
        const struct gr_group_config *g = &e->state[k];
        const double *v = state + g->state_offset;
        int width = g->mode == GR_NORM_SIN_COS ? 2 * g->dim : g->dim;
        GR_TRY(check_group(g, v, err));
        switch (g->mode) {
        case GR_NORM_SIN_COS:
            encode_sin_cos(g, v, is_f64, out + at);
            break;
        case GR_NORM_MEAN_STD:
            encode_mean_std(g, v, is_f64, out + at);
            break;
        case GR_NORM_MIN_MAX:
            encode_min_max(g, v, is_f64, cfg->clip_outliers, out + at);
            break;
        }
        GR_TRY(check_encoded(g, v, out + at, width, err));
        at += width;
    }
    memset(out + at, 0, (size_t)(cfg->dims.dit.max_state - at) * sizeof *out);
    return GR_OK;
}
