/* SPDX-License-Identifier: Apache-2.0
 *
 * test_weights.c: tensors by role on the demo snapshot, and every disagreement between config.json and the tensors ends with the
 * name of the tensor. */
#include <stdlib.h>
#include <string.h>

#include "gr_test.h"
#include "model/synth.h"
#include "model/weights.h"

static char *demo_dir;
static struct gr_snapshot *snap;

static int open_demo(void **state)
{
    (void)state;
    struct gr_err err;
    demo_dir = strdup(gr_test_temp_dir());
    return gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, demo_dir, 1, NULL, NULL, &err) == GR_OK &&
                   gr_snapshot_open(demo_dir, &snap, &err) == GR_OK
               ? 0
               : -1;
}

static int close_demo(void **state)
{
    gr_snapshot_close(snap);
    free(demo_dir);
    return gr_test_temp_clean(state);
}

static struct gr_config *config(void)
{
    struct gr_err err;
    struct gr_config *cfg = NULL;
    gr_test_ok(gr_config_open(demo_dir, "gr1", &cfg, &err), &err);
    return cfg;
}

static void roles_have_their_shapes_and_unused_tensors_are_known(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_weights *w = NULL;
    struct gr_config *cfg = config();
    gr_test_ok(gr_weights_open(snap, cfg, NULL, NULL, &w, &err), &err);
    assert_int_equal(w->dims.vit.hidden, 64);
    assert_int_equal(w->dims.dit.width, 128);
    assert_int_equal(w->dims.vit.table_side, 16);
    assert_int_equal(w->llm[1].down.w.shape[0], w->dims.llm.hidden);
    assert_int_equal(w->llm[1].down.w.shape[1], w->dims.llm.mlp);
    assert_null(w->llm[0].q.b.data);
    /* Even blocks look at the backbone, odd ones at themselves. */
    assert_int_equal(w->dit[0].k.w.shape[1], w->dims.llm.hidden);
    assert_int_equal(w->dit[1].k.w.shape[1], w->dims.dit.width);
    assert_true(gr_weights_uses(w, "action_head.vlln.weight"));
    assert_false(gr_weights_uses(w, "backbone.model.vision_model.vision_model.head.probe"));
    assert_false(gr_weights_uses(w, "no such tensor"));
    gr_weights_free(w);
    gr_weights_free(NULL);
    gr_config_free(cfg);
}

static void a_config_that_does_not_fit_the_tensors_is_refused_by_name(void **state)
{
    (void)state;
    struct gr_config *probe = config();
    const size_t at = (size_t)((char *)&probe->dims - (char *)probe);
    gr_config_free(probe);
#define DIM(field) (at + offsetof(struct gr_dims, field))
    const struct {
        size_t field;
        int value;
        const char *text;
    } cases[] = {
        {DIM(dit.layers), 9, "transformer_blocks.8."},
        {DIM(dit.layers), 7, "layers"},
        {DIM(dit.heads), 3, "heads"},
        {DIM(dit.max_state), 64, "max_state_dim"},
        {DIM(dit.hidden), 77, "hidden_size"},
        {DIM(dit.out), 1000, "output_dim"},
        {DIM(dit.slots), 32, "max_num_embodiments"},
        {DIM(dit.horizon), 5000, "position table"},
        {DIM(llm.layers), 3, "language_model.model.layers.2."},
        {DIM(llm.hidden), 48, "backbone_embedding_dim"},
        {DIM(llm.heads), 2, "num_attention_heads"},
        {DIM(vit.layers), 3, "encoder.layers.2."},
        {DIM(vit.heads), 5, "heads"},
        {DIM(vit.hidden), 32, "hidden_size"},
    };
#undef DIM
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_err err;
        struct gr_weights *w = NULL;
        struct gr_config *cfg = config();
        memcpy((char *)cfg + cases[i].field, &cases[i].value, sizeof(int));
        gr_test_fails(gr_weights_open(snap, cfg, NULL, NULL, &w, &err), &err, GR_ERR_FORMAT, cases[i].text);
        assert_null(w);
        gr_config_free(cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles_have_their_shapes_and_unused_tensors_are_known),
        cmocka_unit_test(a_config_that_does_not_fit_the_tensors_is_refused_by_name),
    };
    return cmocka_run_group_tests_name("weights", tests, open_demo, close_demo);
}
