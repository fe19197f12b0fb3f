/* SPDX-License-Identifier: Apache-2.0
 *
 * test_config.c: what of a snapshot's JSON files is followed and what is ignored, tags and folders. Refusals: test_config_refused.c. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "side_files.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---------------------------------------------------------------------------------------------- followed */

static void the_published_files_give_the_published_network(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    struct gr_config *cfg = side_files_config(&files, NULL);
    const struct gr_dims *d = &cfg->dims;
    assert_false(cfg->have_backbone);
    assert_string_equal(cfg->model_type, "Gr00tN1d6");
    const int got[] = {d->vit.hidden,       d->vit.mlp,     d->vit.layers,    d->vit.heads,        d->vit.table_side,
                       d->vit.image_side,   d->vit.grid,    d->vit.patches,   d->vit.tokens,       d->llm.hidden,
                       d->llm.mlp,          d->llm.layers,  d->llm.heads,     d->llm.kv_heads,     d->llm.head_dim,
                       d->dit.layers,       d->dit.heads,   d->dit.head_dim,  d->dit.width,        d->dit.mlp,
                       d->dit.out,          d->dit.hidden,  d->dit.max_state, d->dit.max_action,   d->dit.horizon,
                       d->dit.slots,        d->dit.max_seq, d->dit.steps,     d->dit.time_buckets, d->dit.text_every,
                       d->dit.time_channels};
    const int want[] = {1152, 4304, 27,   16,   0,    252,  18,  324, 81, 2048, 6144, 16, 16,   8, 128, 32,
                        32,   48,   1536, 6144, 1024, 1024, 128, 128, 50, 32,   1024, 4,  1000, 2, 256};
    assert_int_equal(COUNT(got), COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++) {
        if (got[i] != want[i]) {
            fail_msg("dimension %zu is %d, expected %d", i, got[i], want[i]);
        }
    }
    assert_int_equal(cfg->shortest_image_edge, 256);
    assert_true(cfg->crop_fraction == 0.95);
    assert_true(cfg->formalize_language && cfg->clip_outliers && cfg->apply_sincos_state_encoding &&
                cfg->use_relative_action);
    assert_false(cfg->use_percentiles);
    assert_int_equal(cfg->n_ignored, 0);
    gr_config_free(cfg);
    side_files_free(&files);
}

static void gr1_has_its_camera_groups_and_tables(void **state)
{
    (void)state;
    static const char *const names[] = {"left_arm", "right_arm", "left_hand", "right_hand", "waist"};
    static const int dims[] = {7, 7, 6, 6, 3};
    struct side_files files;
    side_files_load(&files, false);
    struct gr_config *cfg = side_files_config(&files, "gr1");
    const struct gr_embodiment *e = &cfg->emb;
    assert_string_equal(e->tag, "gr1");
    assert_int_equal(e->slot, 20);
    assert_int_equal(e->n_cameras, 1);
    assert_int_equal(e->frames_per_camera, 1);
    assert_string_equal(e->cameras[0], "ego_view_bg_crop_pad_res256_freq20");
    assert_int_equal(e->state_dim, 29);
    assert_int_equal(e->action_dim, 29);
    assert_int_equal(e->action_steps, 16);
    assert_int_equal(e->n_state, 5);
    assert_int_equal(e->n_action, 5);
    for (int i = 0, offset = 0; i < 5; offset += dims[i++]) {
        assert_string_equal(e->state[i].name, names[i]);
        assert_int_equal(e->state[i].dim, dims[i]);
        assert_int_equal(e->state[i].mode, GR_NORM_SIN_COS);
        assert_int_equal(e->state[i].state_offset, offset);
        assert_string_equal(e->action[i].name, names[i]);
        assert_int_equal(e->action[i].dim, dims[i]);
        assert_int_equal(e->action[i].mode, GR_NORM_MIN_MAX);
        assert_int_equal(e->action[i].relative, i < 4);
        assert_int_equal(e->action[i].per_step, i < 4);
        if (i < 4) {
            assert_int_equal(e->action[i].state_index, i);
            assert_int_equal(e->action[i].state_offset, offset);
        }
    }
    assert_true(e->state[0].lo[3] == -2.87371 && e->state[0].hi[0] == 0.339074);
    gr_config_free(cfg);
    side_files_free(&files);
}

static void eagle_config_replaces_the_backbone_constants(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, true);
    struct gr_config *cfg = side_files_config(&files, "gr1");
    const struct gr_dims *d = &cfg->dims;
    assert_true(cfg->have_backbone);
    const int got[] = {d->vit.hidden, d->vit.mlp,    d->vit.layers, d->vit.heads,    d->llm.hidden,
                       d->llm.mlp,    d->llm.layers, d->llm.heads,  d->llm.kv_heads, d->llm.head_dim,
                       d->dit.layers, d->dit.width,  d->dit.slots,  d->dit.max_seq};
    const int want[] = {48, 104, 2, 2, 16, 40, 2, 2, 1, 16, 4, 48, 21, 64};
    assert_memory_equal(got, want, sizeof want);
    gr_config_free(cfg);
    side_files_free(&files);
}

static void the_image_side_is_the_edge_rounded_to_28_with_halves_to_even(void **state)
{
    (void)state;
    static const struct {
        const char *edge;
        int side;
    } cases[] = {{"28", 28},   {"41", 28},   {"42", 56},   {"69", 56},    {"70", 56},   {"71", 84},
                 {"98", 112},  {"126", 112}, {"154", 168}, {"224", 224},  {"256", 252}, {"266", 280},
                 {"294", 280}, {"448", 448}, {"512", 504}, {"1024", 1036}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct side_files files;
        side_files_load(&files, false);
        side_files_set(&files, SIDE_PROCESSOR, NULL, "shortest_image_edge",
                       cases[i].edge); /* image_target_size stays 256 */
        struct gr_config *cfg = side_files_config(&files, "gr1");
        const struct gr_dims *d = &cfg->dims;
        assert_int_equal(d->vit.image_side, cases[i].side);
        assert_int_equal(d->vit.grid, cases[i].side / 14);
        assert_int_equal(d->vit.patches, d->vit.grid * d->vit.grid);
        assert_int_equal(d->vit.tokens, (d->vit.grid / 2) * (d->vit.grid / 2));
        gr_config_free(cfg);
        side_files_free(&files);
    }
}

static void null_edge_and_crop_come_from_the_two_sizes(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, NULL, "shortest_image_edge", "null");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "crop_fraction", "null");
    struct gr_config *cfg = side_files_config(&files, "gr1");
    assert_int_equal(cfg->shortest_image_edge, 256);
    assert_true(cfg->crop_fraction == 230.0 / 256.0);
    gr_config_free(cfg);
    cfg = NULL;

    static const struct {
        const char *key, *value, *message;
    } wrong[] = {
        {"image_crop_size", "[257, 257]", "crop_fraction is null, expected"},
        {"image_crop_size", "null", "crop_fraction is null, expected"},
        {"image_target_size", "[1400, 1400]", "image_target_size is an array of 2, expected a square of 28..1024"},
        {"image_target_size", "null", "image_target_size is null, expected a square of 28..1024"}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct gr_err err = {0};
        side_files_set(&files, SIDE_PROCESSOR, NULL, wrong[i].key, wrong[i].value);
        gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, wrong[i].message);
    }
    side_files_free(&files);
}

static void switches_and_modes_are_followed(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, NULL, "apply_sincos_state_encoding", "false");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "use_percentiles", "true");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "clip_outliers", "false");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "formalize_language", "false");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "crop_fraction", "1");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_STATE, "mean_std_embedding_keys", "[\"waist\", \"left_arm\"]");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_ACTION, "mean_std_embedding_keys", "[\"right_hand\", \"waist\"]");
    struct gr_config *cfg = side_files_config(&files, "gr1");
    const struct gr_embodiment *e = &cfg->emb;
    assert_true(cfg->use_percentiles && !cfg->clip_outliers && !cfg->formalize_language &&
                !cfg->apply_sincos_state_encoding);
    assert_true(cfg->crop_fraction == 1.0);
    assert_int_equal(e->state[0].mode, GR_NORM_MEAN_STD);
    assert_int_equal(e->state[1].mode, GR_NORM_MIN_MAX);
    assert_int_equal(e->state[4].mode, GR_NORM_MEAN_STD);
    assert_int_equal(e->action[3].mode, GR_NORM_MEAN_STD);
    assert_true(e->action[3].relative && e->action[3].per_step);
    assert_int_equal(e->action[0].mode, GR_NORM_MIN_MAX);
    gr_config_free(cfg);

    /* Sine and cosine win where a group is in both lists. */
    side_files_set(&files, SIDE_PROCESSOR, NULL, "apply_sincos_state_encoding", "true");
    cfg = side_files_config(&files, "gr1");
    assert_int_equal(cfg->emb.state[0].mode, GR_NORM_SIN_COS);
    gr_config_free(cfg);

    side_files_set(&files, SIDE_PROCESSOR, NULL, "use_relative_action", "false");
    cfg = side_files_config(&files, "gr1");
    assert_false(cfg->emb.action[0].relative || cfg->emb.action[0].per_step);
    gr_config_free(cfg);
    side_files_free(&files);
}

static void percentiles_choose_q01_and_q99_except_for_relative_groups(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, NULL, "use_percentiles", "true");
    side_files_set(&files, SIDE_STATISTICS, SIDE_AT_STATE "|\"waist\"", "q01", "[-9, -8, -7]");
    side_files_set(&files, SIDE_STATISTICS, SIDE_AT_ACTION "|\"waist\"", "q99", "[9, 8, 7]");
    struct gr_config *cfg = side_files_config(&files, "gr1");
    assert_true(cfg->emb.state[4].lo[0] == -9.0 && cfg->emb.state[4].lo[2] == -7.0);
    assert_true(cfg->emb.action[4].hi[1] == 8.0);
    const double min_and_max[2] = {cfg->emb.action[0].lo[0], cfg->emb.action[0].hi[0]};
    gr_config_free(cfg);
    side_files_set(&files, SIDE_PROCESSOR, NULL, "use_percentiles", "false");
    cfg = side_files_config(&files, "gr1");
    assert_true(min_and_max[0] == cfg->emb.action[0].lo[0] && min_and_max[1] == cfg->emb.action[0].hi[0]);
    assert_true(cfg->emb.state[4].lo[0] != -9.0);
    gr_config_free(cfg);
    side_files_free(&files);
}

static void several_cameras_and_frames_and_a_shorter_action_load(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_VIDEO, "delta_indices", "[-15, -5, 0]");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_VIDEO, "modality_keys", "[\"front\", \"left wrist\"]");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_ACTION, "delta_indices", "[0, 1, 2, 3]");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_ACTION, "action_configs", "null");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_ACTION, "modality_keys", "[\"waist\", \"left_hand\"]");
    struct gr_config *cfg = side_files_config(&files, "gr1");
    const struct gr_embodiment *e = &cfg->emb;
    assert_int_equal(e->n_cameras, 2);
    assert_int_equal(e->frames_per_camera, 3);
    assert_string_equal(e->cameras[1], "left wrist");
    assert_int_equal(e->action_steps, 4);
    assert_int_equal(e->action_dim, 9);
    assert_false(e->action[0].relative || e->action[1].relative);
    assert_int_equal(e->n_state, 5);
    gr_config_free(cfg);
    side_files_free(&files);
}

static void state_key_names_the_state_group_of_a_relative_group(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_ACTION, "state_key", "\"right_arm\"");
    struct gr_config *cfg = side_files_config(&files, "gr1");
    assert_int_equal(cfg->emb.action[0].state_index, 1);
    assert_int_equal(cfg->emb.action[0].state_offset, 7);
    gr_config_free(cfg);
    side_files_free(&files);
}

/* ----------------------------------------------------------------------------------------------- ignored */

static void unknown_keys_are_listed_and_training_keys_are_not(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, true);
    side_files_edit(&files, SIDE_CONFIG, NULL, "{", "{\"zeta\": 1, \"letter_box_transform\": true, ");
    side_files_edit(&files, SIDE_CONFIG, "\"diffusion_model_cfg\":", "{", "{\"eta\": [1, {}], ");
    side_files_edit(&files, SIDE_CONFIG, "\"vision_config\":", "{", "{\"theta\": null, ");
    side_files_set(&files, SIDE_CONFIG, NULL, "crop_fraction",
                   "0.5"); /* a training-time copy: processor_config.json decides */
    side_files_set(&files, SIDE_CONFIG, NULL, "formalize_language", "false");
    side_files_set(&files, SIDE_CONFIG, NULL, "random_rotation_angle", "7");
    side_files_edit(&files, SIDE_PROCESSOR, NULL, "{", "{\"iota\": {}, ");
    side_files_edit(&files, SIDE_PROCESSOR, "\"processor_kwargs\":", "{",
                    "{\"kappa\": true, \"extra_augmentation_config\": {}, ");
    side_files_edit(&files, SIDE_PROCESSOR, SIDE_AT_STATE, "{", "{\"lambda\": 2, ");
    side_files_edit(&files, SIDE_PROCESSOR, SIDE_AT_GR1, "{", "{\"mu\": 2, ");
    side_files_edit(&files, SIDE_PROCESSOR, "\"unitree_g1\"", "{", "{\"nu\": 2, "); /* not the chosen embodiment */
    struct gr_config *cfg = side_files_config(&files, "gr1");
    static const char *const want[] = {"config.json: zeta",
                                       "config.json: eagle_config.vision_config.theta",
                                       "config.json: diffusion_model_cfg.eta",
                                       "processor_config.json: iota",
                                       "processor_config.json: processor_kwargs.kappa",
                                       "processor_config.json: processor_kwargs.modality_configs.gr1.mu",
                                       "processor_config.json: processor_kwargs.modality_configs.gr1.state.lambda"};
    assert_int_equal(cfg->n_ignored, COUNT(want));
    for (size_t i = 0; i < COUNT(want); i++) {
        assert_string_equal(cfg->ignored[i], want[i]);
    }
    assert_true(cfg->crop_fraction == 0.95 && cfg->formalize_language);
    gr_config_free(cfg);
    side_files_free(&files);
}

/* The image chain pads to a square always: a file that wants otherwise is followed for square frames only, and that is said. */
static void a_letterbox_that_is_not_wanted_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool told;
    } cases[] = {{NULL, false}, {"true", false}, {"false", true}, {"null", true}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct side_files files;
        char edit[64];
        side_files_load(&files, true);
        if (cases[i].value != NULL) {
            snprintf(edit, sizeof edit, "{\"letter_box_transform\": %s, ", cases[i].value);
            side_files_edit(&files, SIDE_PROCESSOR, "\"processor_kwargs\":", "{", edit);
        }
        struct gr_config *cfg = side_files_config(&files, "gr1");
        assert_int_equal(cfg->n_ignored, 0);
        assert_true((cfg->image_note != NULL) == cases[i].told);
        if (cases[i].told) {
            assert_non_null(strstr(cfg->image_note, "processor_kwargs.letter_box_transform is not true"));
        }
        gr_config_free(cfg);
        side_files_free(&files);
    }
}

static void hundreds_of_unknown_keys_are_all_listed(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    for (int i = 0; i < 300; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"extra_%d\": 0, ", i);
        side_files_edit(&files, SIDE_CONFIG, NULL, "{", text);
    }
    struct gr_config *cfg = side_files_config(&files, "gr1");
    assert_int_equal(cfg->n_ignored, 300);
    assert_string_equal(cfg->ignored[299], "config.json: extra_0");
    gr_config_free(cfg);
    side_files_free(&files);
}

static void other_embodiments_are_listed_and_not_checked(void **state)
{
    (void)state;
    struct side_files files;
    side_files_load(&files, false);
    side_files_set(&files, SIDE_IDS, NULL, "oxe_google", "-5");
    side_files_set(&files, SIDE_PROCESSOR, "\"unitree_g1\"|\"action\":", "type", "\"EEF\"");
    struct gr_config *cfg = side_files_config(&files, "gr1");
    assert_int_equal(cfg->n_tags, 9);
    assert_string_equal(cfg->tags[0], "robocasa_panda_omron");
    assert_int_equal(cfg->slots[1], 20);
    for (int i = 0; i < cfg->n_tags; i++) {
        assert_int_equal(cfg->tag_usable[i], strcmp(cfg->tags[i], "gr1") == 0);
    }
    gr_config_free(cfg);
    side_files_free(&files);
}

/* ------------------------------------------------------------------------------------- tags and folders */

static void an_unknown_embodiment_lists_the_known_ones(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    gr_test_fails(
        side_files_parse(&files, "GR1", &cfg, &err), &err, GR_ERR_INPUT,
        "embodiment \"GR1\" is unknown, this snapshot knows: robocasa_panda_omron, gr1, behavior_r1_pro, unitree_g1, libero_panda");
    assert_non_null(strstr(err.msg, "new_embodiment"));
    gr_test_fails(side_files_parse(&files, "new_embodiment", &cfg, &err), &err, GR_ERR_INPUT, "usable: gr1");
    gr_test_fails(side_files_parse(&files, "", &cfg, &err), &err, GR_ERR_INPUT, "is unknown");
    gr_test_fails(side_files_parse(&files, "unitree_g1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "statistics.json: unitree_g1 is missing");
    side_files_set(&files, SIDE_IDS, NULL, "gr1", "\"20\"");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "embodiment_id.json: gr1 is \"20\", expected an integer slot");
    side_files_put(&files, SIDE_IDS, "{}");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "embodiment_id.json: 0 embodiments");
    side_files_put(&files, SIDE_IDS, "{\"gr1\": 32}");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, "gr1 is 32, expected a slot 0..31");
    side_files_put(&files, SIDE_IDS, "{\"gr1\": -1}");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, "gr1 is -1, expected a slot 0..31");
    side_files_free(&files);
}

static void a_long_list_of_tags_is_cut_not_overrun(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    for (int i = 0; i < 200; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"robot number %d\": 0, ", i);
        side_files_edit(&files, SIDE_IDS, NULL, "{", text);
    }
    gr_test_fails(side_files_parse(&files, "x", &cfg, &err), &err, GR_ERR_INPUT, "robot number 199");
    side_files_free(&files);
}

static void a_folder_opens_and_each_missing_file_is_named(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_err err = {0};
    struct gr_config *cfg = NULL;
    const char *dir = gr_test_temp_dir();
    side_files_load(&files, true);
    side_files_write(&files, dir);
    gr_test_ok(gr_config_open(dir, "gr1", &cfg, &err), &err);
    assert_int_equal(cfg->emb.slot, 20);
    gr_config_free(cfg);
    for (int i = 0; i < SIDE_FILES; i++) {
        const char *path = gr_test_join(dir, "%s", side_file_name((enum side_file)i));
        char want[128];
        snprintf(want, sizeof want, "%s is missing in the snapshot folder", side_file_name((enum side_file)i));
        assert_int_equal(unlink(path), 0);
        gr_test_fails(gr_config_open(dir, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, want);
        assert_int_equal(mkdir(path, 0700), 0); /* there, but not a file */
        gr_test_fails(gr_config_open(dir, "gr1", &cfg, &err), &err, GR_ERR_IO, side_file_name((enum side_file)i));
        assert_int_equal(rmdir(path), 0);
        side_files_write(&files, dir);
    }
    gr_test_fails(gr_config_open(gr_test_join(dir, "nowhere"), "gr1", &cfg, &err), &err, GR_ERR_IO, "no such folder");
    side_files_free(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_files_give_the_published_network),
        cmocka_unit_test(gr1_has_its_camera_groups_and_tables),
        cmocka_unit_test(eagle_config_replaces_the_backbone_constants),
        cmocka_unit_test(the_image_side_is_the_edge_rounded_to_28_with_halves_to_even),
        cmocka_unit_test(null_edge_and_crop_come_from_the_two_sizes),
        cmocka_unit_test(switches_and_modes_are_followed),
        cmocka_unit_test(percentiles_choose_q01_and_q99_except_for_relative_groups),
        cmocka_unit_test(several_cameras_and_frames_and_a_shorter_action_load),
        cmocka_unit_test(state_key_names_the_state_group_of_a_relative_group),
        cmocka_unit_test(unknown_keys_are_listed_and_training_keys_are_not),
        cmocka_unit_test(a_letterbox_that_is_not_wanted_is_told),
        cmocka_unit_test(hundreds_of_unknown_keys_are_all_listed),
        cmocka_unit_test(other_embodiments_are_listed_and_not_checked),
        cmocka_unit_test(an_unknown_embodiment_lists_the_known_ones),
        cmocka_unit_test(a_long_list_of_tags_is_cut_not_overrun),
        cmocka_unit_test(a_folder_opens_and_each_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
