/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_predict.c: see bh_predict.h. */
#include "bh_predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/safetensors.h"

enum gr_bh_format bh_predict_backbone;
int bh_predict_tokens = BH_PREDICT_TOKENS;
bool bh_predict_halves;

void bh_predict_build(struct bh_predict *p, const struct bh_net *net, int columns, int rows, enum gr_bh_format weights)
{
    struct gr_err err;
    *p = (struct bh_predict){.net = net};
    const struct gr_bh_request_cfg cfg = {.w = net->w,
                                          .slot = net->slot,
                                          .max_tokens = bh_predict_tokens,
                                          .image_token = BH_PREDICT_IMAGE_TOKEN,
                                          .columns = columns,
                                          .rows = rows,
                                          .weights = weights,
                                          .backbone_weights = bh_predict_backbone,
                                          .halves = bh_predict_halves};
    gr_test_ok(gr_bh_request_new(&cfg, &p->request, &err), &err);
    p->program = gr_bh_request_program(p->request);
}

void bh_predict_open(struct bh_predict *p, const struct bh_net *net, int columns, int rows, enum gr_bh_format weights)
{
    struct gr_err err;
    bh_predict_build(p, net, columns, rows, weights);
    /* Packing the full size takes a minute: GR00T_BH_CACHE names a folder to keep it in. */
    const struct gr_bh_arena_cfg arena = {
        .weights = weights, .threads = 2, .cache_dir = getenv("GR00T_BH_CACHE"), .weights_digest = "test"};
    gr_test_ok(gr_bh_arena_open(p->program->plan, p->program->grid->tiles, &arena, &p->arena, &err), &err);
}

void bh_predict_load(struct bh_predict *p, struct gr_bh_machine *machine)
{
    struct gr_err err;
    p->machine = machine;
    gr_test_ok(gr_bh_arena_upload(p->arena, machine, &err), &err);
    gr_test_ok(gr_bh_program_load(p->program, machine, &err), &err);
}

void bh_predict_cpu(struct bh_predict *p, enum gr_bh_arithmetic arithmetic, int threads)
{
    struct gr_err err;
    struct gr_bh_machine *machine = NULL;
    gr_test_ok(gr_bh_machine_cpu(gr_bh_request_grid(p->request), arithmetic, threads, &machine, &err), &err);
    bh_predict_load(p, machine);
}

void bh_predict_unload(struct bh_predict *p)
{
    if (p->machine != NULL) {
        struct gr_err err;
        gr_test_ok(p->machine->ops->stop(p->machine, &err), &err);
        p->machine->ops->close(p->machine);
        p->machine = NULL;
    }
}

void bh_predict_close(struct bh_predict *p)
{
    bh_predict_unload(p);
    gr_bh_arena_close(p->arena);
    gr_bh_request_free(p->request);
    *p = (struct bh_predict){0};
}

static float *values(const struct gr_safetensors *st, const char *name, size_t *n)
{
    const struct gr_tensor *t = gr_safetensors_find(st, name);
    if (t == NULL) {
        return NULL;
    }
    *n = t->bytes / gr_dtype_bytes(t->dtype);
    float *v = malloc(*n * sizeof *v);
    gr_tensor_to_f32(t, 0, *n, v);
    return v;
}

/* Full-size goldens store the picture only: planes of (v - 127.5) / 127.5. */
static float *pixels_of(const struct gr_safetensors *st)
{
    size_t n = 0;
    float *v = values(st, "pixel_values", &n);
    const struct gr_tensor *t = gr_safetensors_find(st, "img.bicubic252");
    if (v == NULL) {
        assert_non_null(t);
        const size_t plane = t->bytes / 3;
        const uint8_t *rgb = t->data;
        v = malloc(t->bytes * sizeof *v);
        for (size_t i = 0; i < t->bytes; i++) {
            v[i % 3 * plane + i / 3] = ((float)rgb[i] - 127.5f) / 127.5f;
        }
    }
    return v;
}

/* Rows of the language model behind the last token are nobody's. */
static void compare_tap(void *user, const char *name, const float *v, int rows, int cols)
{
    size_t n = 0;
    float *want = values(user, name, &n);
    if (want == NULL) {
        return;
    }
    assert_true(n <= (size_t)rows * (size_t)cols && n % (size_t)cols == 0);
    printf("# %s %.6f\n", name, bh_pcc(v, want, n));
    free(want);
}

double bh_predict_case(struct bh_predict *p, const char *dir, bool taps, float *action)
{
    struct gr_err err;
    struct gr_safetensors *in, *out;
    gr_test_ok(gr_safetensors_open(gr_test_join(dir, "inputs.safetensors"), &in, &err), &err);
    gr_test_ok(gr_safetensors_open(gr_test_join(dir, "taps_fp32.safetensors"), &out, &err), &err);
    size_t n = 0;
    float *pixels = pixels_of(in), *state = values(in, "state", &n), *noise = values(in, "noise", &n);
    const struct gr_tensor *id = gr_safetensors_find(in, "input_ids");
    int32_t *ids = malloc(id->bytes);
    memcpy(ids, id->data, id->bytes);
    const struct gr_bh_observation o = {
        .pixels = pixels, .ids = ids, .n_tokens = (int)(id->bytes / sizeof *ids), .state = state, .noise = noise};
    gr_test_ok(gr_bh_request_inputs(p->request, p->machine, &o, 0, &err), &err);
    gr_test_ok(gr_bh_program_run(p->program, p->machine, taps ? compare_tap : NULL, out, &err), &err);
    float *want = values(out, "action_pred", &n), *got = malloc(n * sizeof *got);
    gr_test_ok(gr_bh_request_action(p->request, p->machine, got, &err), &err);
    const double pcc = bh_pcc(got, want, n);
    if (action != NULL) {
        memcpy(action, got, n * sizeof *got);
    }
    gr_safetensors_close(in);
    gr_safetensors_close(out);
    free(pixels);
    free(state);
    free(noise);
    free(ids);
    free(want);
    free(got);
    return pcc;
}
