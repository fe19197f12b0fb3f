/* SPDX-License-Identifier: Apache-2.0
 *
 * observation.c: draws and fills the observations of a snapshot. Only integer arithmetic touches the picture, so that every
 * machine calibrates on the same bytes. */
#include "policy/observation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = GR_SAMPLE_SIDE, THINGS = 7, FARTHEST = 104 /* row of things */, GRAIN = 9 };

/* splitmix64: the same stream on every machine. */
static uint64_t draw(uint64_t *s)
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int between(uint64_t *s, int lo, int hi) { return lo + (int)(draw(s) % (uint64_t)(hi - lo + 1)); }

static uint8_t clamp_u8(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

/* Wall above, table with a grain of wood below, both shaded. Colours, light, grain and the edge of the table differ from picture to
 * picture: what is calibrated on one must not be judged on its twin. */
static void draw_scene(uint64_t *s, uint8_t *rgb)
{
    const int edge = between(s, 56, 160), grain = between(s, 3, 23), depth = between(s, 2, 18);
    const int light_x = between(s, -32, 32), light_y = between(s, -32, 32);
    int wall[3], table[3];
    for (int c = 0; c < 3; c++) {
        wall[c] = between(s, 90, 225);
        table[c] = between(s, 40, 185);
    }
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            const bool above = y < edge;
            const int light = (x - SIDE / 2) * light_x / (SIDE / 2) + (y - SIDE / 2) * light_y / (SIDE / 2);
            const int wood = above ? 0 : ((x * 5 + y * 3) / grain % 2) * depth;
            for (int c = 0; c < 3; c++) {
                rgb[(y * SIDE + x) * 3 + c] = clamp_u8((above ? wall : table)[c] + light + wood);
            }
        }
    }
}

/* A thing on the table: disc (round) or square, lit from the upper left. */
static void draw_thing(int cx, int cy, int radius, bool round, const int color[3], uint8_t *rgb)
{
    for (int y = cy - radius; y <= cy + radius; y++) {
        for (int x = cx - radius; x <= cx + radius; x++) {
            int dx = x - cx, dy = y - cy;
            bool inside = x >= 0 && x < SIDE && y >= 0 && y < SIDE && (!round || dx * dx + dy * dy <= radius * radius);
            for (int c = 0; inside && c < 3; c++) {
                rgb[(y * SIDE + x) * 3 + c] = clamp_u8(color[c] - 40 * (dx + dy) / (2 * radius));
            }
        }
    }
}

void gr_sample_picture(int k, int view, uint8_t *rgb)
{
    static const int plate[3] = {236, 236, 230};
    uint64_t s = (uint64_t)k * 1000003u + (uint64_t)view * 7919u;
    draw_scene(&s, rgb);
    /* A draw a statement: C leaves the order of arguments and initialisers to the compiler. */
    int plate_radius = between(&s, 30, 42);
    int plate_y = between(&s, 150, 210);
    int plate_x = between(&s, 80, 180);
    draw_thing(plate_x, plate_y, plate_radius, true, plate, rgb);
    for (int i = 0; i < THINGS; i++) {
        int color[3];
        for (int c = 0; c < 3; c++) {
            color[c] = between(&s, 20, 235);
        }
        int radius = between(&s, 7, 21);
        bool round = between(&s, 0, 2) != 0;
        int x = between(&s, 12, SIDE - 12), y = between(&s, FARTHEST, SIDE - 12);
        draw_thing(x, y, radius, round, color, rgb);
    }
    for (int i = 0; i < SIDE * SIDE * 3; i++) {
        rgb[i] =
            clamp_u8(rgb[i] + between(&s, -GRAIN, GRAIN)); /* sensor noise keeps patches from being exactly constant */
    }
}

void gr_sample_instruction(int k, char out[GR_SAMPLE_TEXT_BYTES])
{
    /* One token each in the Qwen2 vocabulary, as "plate" of the demo, so that all observations have the same length. */
    static const char *const words[] = {"bowl", "basket", "box", "tray", "cup", "pan", "pot", "bin", "drawer"};
    const int n = sizeof words / sizeof words[0];
    snprintf(out, GR_SAMPLE_TEXT_BYTES, "pick the pear from the counter and place it in the %s", words[(k - 1) % n]);
}

static void fill_state(const struct gr_embodiment *e, int k, double *state)
{
    for (int g = 0; g < e->n_state; g++) {
        for (int i = 0; i < e->state[g].dim; i++) {
            *state++ = e->state[g].mean[i] + (double)k / 10.0 * e->state[g].std[i];
        }
    }
}

enum gr_status gr_sample_make(const struct gr_config *cfg, int k, struct gr_sample *out, struct gr_err *err)
{
    const struct gr_embodiment *e = &cfg->emb;
    const size_t bytes = (size_t)SIDE * SIDE * 3, n = (size_t)e->n_cameras * (size_t)e->frames_per_camera;
    memset(out, 0, sizeof *out);
    if (k < 1) {
        return gr_fail(err, GR_ERR_USAGE, "observation %d does not exist, they count from 1", k);
    }
    out->rgb = malloc(n * bytes);
    out->frames = calloc(n, sizeof *out->frames);
    out->state = calloc((size_t)e->state_dim + 1, sizeof *out->state);
    if (out->rgb == NULL || out->frames == NULL || out->state == NULL) {
        gr_sample_free(out);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for an observation of %zu pictures", n);
    }
    for (size_t i = 0; i < n; i++) {
        gr_sample_picture(k, (int)i, out->rgb + i * bytes);
        out->frames[i] = (struct gr_frame){out->rgb + i * bytes, SIDE, SIDE};
    }
    fill_state(e, k, out->state);
    gr_sample_instruction(k, out->instruction);
    out->obs = (struct gr_observation){.frames = out->frames,
                                       .n_frames = (int)n,
                                       .state = out->state,
                                       .state_dim = e->state_dim,
                                       .state_dtype = GR_STATE_F32,
                                       .instruction = out->instruction,
                                       .noise_kind = GR_NOISE_SEED,
                                       .seed = 41u + (uint64_t)k};
    return GR_OK;
}

void gr_sample_free(struct gr_sample *sample)
{
    free(sample->rgb);
    free(sample->frames);
    free(sample->state);
    memset(sample, 0, sizeof *sample);
}
