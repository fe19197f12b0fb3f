/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_golden.c: see bh_golden.h. */
#include "bh_golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "model/synth_shard.h"
#include "model/synth_side.h"

void bh_net_open(struct bh_net *net, const char *dir)
{
    struct gr_err err;
    *net = (struct bh_net){0};
    gr_test_ok(gr_config_open(dir, "gr1", &net->cfg, &err), &err);
    gr_test_ok(gr_snapshot_open(dir, &net->snap, &err), &err);
    gr_test_ok(gr_weights_open(net->snap, net->cfg, NULL, NULL, &net->w, &err), &err);
    net->slot = net->cfg->emb.slot;
    gr_test_ok(gr_bh_denoise_weights_new(net->w, net->slot, &net->head, &err), &err);
}

void bh_net_close(struct bh_net *net)
{
    gr_bh_denoise_weights_free(net->head);
    gr_weights_free(net->w);
    gr_config_free(net->cfg);
    gr_snapshot_close(net->snap);
}

void bh_net_synthetic(struct bh_net *net, enum gr_synth_kind kind)
{
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    gr_test_ok(gr_synth_write(kind, GR_SYNTH_UNIFORM, 1600, dir, 1, NULL, NULL, &err), &err);
    bh_net_open(net, dir);
}

void bh_net_hollow(struct bh_net *net)
{
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    const struct gr_synth_config *config = gr_synth_config_of(GR_SYNTH_FULL);
    struct gr_synth_inventory inventory = {0};
    struct gr_synth_shard *shard = NULL;
    size_t shards = 0;
    gr_test_ok(gr_synth_inventory_make(config, &inventory, &err), &err);
    gr_test_ok(gr_synth_shards_plan(&inventory, &shard, &shards, &err), &err);
    for (size_t i = 0; i < shards; i++) {
        FILE *f = fopen(gr_test_join(dir, "%s", shard[i].name), "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(shard[i].header, 1, shard[i].header_bytes, f), shard[i].header_bytes);
        assert_int_equal(fflush(f), 0);
        assert_int_equal(ftruncate(fileno(f), (off_t)shard[i].file_bytes), 0);
        assert_int_equal(fclose(f), 0);
    }
    gr_test_ok(gr_synth_side_write(GR_SYNTH_FULL, config, false, dir, &err), &err);
    gr_test_ok(gr_synth_index_write(&inventory, shard, shards, dir, &err), &err);
    gr_synth_shards_free(shard, shards);
    gr_synth_inventory_free(&inventory);
    bh_net_open(net, dir);
}

static float *values(const struct gr_safetensors *st, const char *name, size_t *n)
{
    const struct gr_tensor *t = gr_safetensors_find(st, name);
    if (t == NULL) {
        return NULL;
    }
    const size_t count = t->bytes / gr_dtype_bytes(t->dtype);
    float *out = malloc(count * sizeof *out);
    gr_tensor_to_f32(t, 0, count, out);
    if (n != NULL) {
        *n = count;
    }
    return out;
}

float *bh_case_tap(const struct bh_case *c, const char *name, size_t *n) { return values(c->taps, name, n); }

/* LayerNorm of the backbone's rows: full-size goldens store what goes into it. */
static void vlln(float *x, int rows, const struct gr_weights *w)
{
    const int d = w->dims.llm.hidden;
    for (int r = 0; r < rows; r++, x += d) {
        double mean = 0, square = 0;
        for (int i = 0; i < d; i++) {
            mean += (double)x[i] / d;
        }
        for (int i = 0; i < d; i++) {
            square += ((double)x[i] - mean) * ((double)x[i] - mean) / d;
        }
        for (int i = 0; i < d; i++) {
            const double v = ((double)x[i] - mean) / sqrt(square + (double)GR_VLLN_EPS);
            x[i] = (float)(v * (double)gr_tensor_f32(&w->vlln.w, (size_t)i) +
                           (double)gr_tensor_f32(&w->vlln.b, (size_t)i));
        }
    }
}

/* The id that stands for image tokens: the one that is there as often as there are of these. */
static int32_t image_id(const int32_t *ids, int n, int image_tokens)
{
    for (int i = 0; i < n; i++) {
        int count = 0;
        for (int j = 0; j < n; j++) {
            count += ids[j] == ids[i];
        }
        if (count == image_tokens) {
            return ids[i];
        }
    }
    fail_msg("no id is there %d times", image_tokens);
    return -1;
}

static float *mask(int room, int rows)
{
    const int n = (room + 31) / 32 * 32;
    float *m = calloc((size_t)n, sizeof *m);
    for (int i = rows; i < n; i++) {
        m[i] = -1e4f;
    }
    return m;
}

void bh_case_open(struct bh_case *c, const struct bh_net *net, const char *dir, int text_room)
{
    struct gr_err err;
    const int hidden = net->w->dims.llm.hidden, images = net->w->dims.vit.tokens;
    *c = (struct bh_case){.text_room = text_room};
    gr_test_ok(gr_safetensors_open(gr_test_join(dir, "inputs.safetensors"), &c->inputs, &err), &err);
    gr_test_ok(gr_safetensors_open(gr_test_join(dir, "taps_fp32.safetensors"), &c->taps, &err), &err);
    c->state = values(c->inputs, "state", NULL);
    c->noise = values(c->inputs, "noise", NULL);
    const struct gr_tensor *ids = gr_safetensors_find(c->inputs, "input_ids");
    const int rows = (int)ids->shape[0];
    int32_t *id = malloc(ids->bytes);
    memcpy(id, ids->data, ids->bytes);
    float *vl = values(c->taps, "vlln.out", NULL);
    if (vl == NULL) {
        vl = values(c->taps, "llm.out", NULL);
        vlln(vl, rows, net->w);
    }
    c->vl_text = calloc((size_t)text_room * (size_t)hidden, sizeof *c->vl_text);
    c->vl_image = calloc((size_t)images * (size_t)hidden, sizeof *c->vl_image);
    const int32_t image = image_id(id, rows, images);
    assert_true(rows - images <= text_room);
    for (int i = 0; i < rows; i++) {
        float *to = id[i] == image ? c->vl_image + (size_t)c->image_rows++ * (size_t)hidden
                                   : c->vl_text + (size_t)c->text_rows++ * (size_t)hidden;
        memcpy(to, vl + (size_t)i * (size_t)hidden, (size_t)hidden * sizeof *to);
    }
    c->text_mask = mask(text_room, c->text_rows);
    c->image_mask = mask(images, images);
    free(vl);
    free(id);
}

static float *random_values(int rows, int cols, int room, uint32_t *seed)
{
    float *v = calloc((size_t)room * (size_t)cols, sizeof *v);
    for (int i = 0; i < rows * cols; i++) {
        v[i] = 1.7f * bh_uniform(seed);
    }
    return v;
}

void bh_case_random(struct bh_case *c, const struct bh_net *net, int text_rows, int text_room)
{
    const struct gr_dims *d = &net->w->dims;
    const int images = d->vit.tokens;
    uint32_t seed = 88172645u;
    *c = (struct bh_case){.text_room = text_room, .text_rows = text_rows, .image_rows = images};
    c->state = random_values(1, d->dit.max_state, 1, &seed);
    c->noise = random_values(d->dit.horizon, d->dit.max_action, d->dit.horizon, &seed);
    c->vl_text = random_values(text_rows, d->llm.hidden, text_room, &seed);
    c->vl_image = random_values(images, d->llm.hidden, images, &seed);
    c->text_mask = mask(text_room, text_rows);
    c->image_mask = mask(images, images);
}

void bh_case_close(struct bh_case *c)
{
    gr_safetensors_close(c->inputs);
    gr_safetensors_close(c->taps);
    free(c->state);
    free(c->noise);
    free(c->vl_text);
    free(c->vl_image);
    free(c->text_mask);
    free(c->image_mask);
}

void bh_case_input(struct bh_rig *r, const struct bh_case *c)
{
    bh_rig_input(r, "noise", c->noise);
    bh_rig_input(r, "state", c->state);
    bh_rig_input(r, "vl_text", c->vl_text);
    bh_rig_input(r, "text_mask", c->text_mask);
    bh_rig_input(r, "vl_image", c->vl_image);
    bh_rig_input(r, "image_mask", c->image_mask);
}

void bh_golden_program(struct bh_rig *r, const struct gr_bh_denoise *d, int width, int height,
                       enum gr_bh_format weights)
{
    bh_rig_begin(r, width, height, weights);
    gr_bh_emit_denoise(r->build, d);
    bh_rig_finish(r);
}
