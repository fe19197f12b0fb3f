/* SPDX-License-Identifier: Apache-2.0
 *
 * test_config_refused.c: every rule about a snapshot's JSON files has one file here that breaks it: right status, and a message that
 * names the file, the key, what was found and what was expected. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "side_files.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct refusal {
    enum side_file which;
    const char *anchor, *key, *value, *message;
};

static void check_refusals(const struct refusal *cases, size_t n, bool tiny)
{
    for (size_t i = 0; i < n; i++) {
        const struct refusal *c = &cases[i];
        struct side_files files;
        struct gr_config *cfg = NULL;
        struct gr_err err = {0};
        side_files_load(&files, tiny);
        side_files_set(&files, c->which, c->anchor, c->key, c->value);
        enum gr_status status = side_files_parse(&files, "gr1", &cfg, &err);
        if (status != GR_ERR_FORMAT || err.code != GR_ERR_FORMAT || cfg != NULL) {
            fail_msg("%s %s = %s: expected a format error, got %s", side_file_name(c->which), c->key, c->value,
                     gr_status_name(status));
        }
        if (strstr(err.msg, c->message) == NULL || strstr(err.msg, ".json: ") == NULL) {
            fail_msg("%s = %s: message \"%s\" does not say \"%s\"", c->key, c->value, err.msg, c->message);
        }
        side_files_free(&files);
    }
}

static void config_json_settings_we_do_not_implement_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {SIDE_CONFIG, NULL, "model_type", "\"gr00t_n1_5\"",
         "config.json: model_type is \"gr00t_n1_5\", supported: \"Gr00tN1d6\""},
        {SIDE_CONFIG, NULL, "model_type", "null", "model_type is null"},
        {SIDE_CONFIG, NULL, "backbone_model_type", "\"qwen\"", "backbone_model_type is \"qwen\", supported: \"eagle\""},
        {SIDE_CONFIG, NULL, "model_name", "\"nvidia/Cosmos-2B\"", "model_name is \"nvidia/Cosmos-2B\""},
        {SIDE_CONFIG, NULL, "reproject_vision", "true", "reproject_vision is true, supported: false"},
        {SIDE_CONFIG, NULL, "collator_overwrite_image_inputs", "true",
         "collator_overwrite_image_inputs is true, supported: false"},
        {SIDE_CONFIG, NULL, "use_albumentations_transforms", "false",
         "use_albumentations_transforms is false, supported: true"},
        {SIDE_CONFIG, NULL, "add_pos_embed", "false", "add_pos_embed is false, supported: true"},
        {SIDE_CONFIG, NULL, "add_pos_embed", "1", "add_pos_embed is 1, supported: true"},
        {SIDE_CONFIG, NULL, "use_vlln", "false", "use_vlln is false, supported: true"},
        {SIDE_CONFIG, NULL, "use_alternate_vl_dit", "false", "use_alternate_vl_dit is false, supported: true"},
        {SIDE_CONFIG, NULL, "norm_type", "\"layer_norm\"",
         "diffusion_model_cfg.norm_type is \"layer_norm\", supported: \"ada_norm\""},
        {SIDE_CONFIG, NULL, "positional_embeddings", "\"sinusoidal\"",
         "positional_embeddings is \"sinusoidal\", supported: null"},
        {SIDE_CONFIG, NULL, "interleave_self_attention", "false",
         "interleave_self_attention is false, supported: true"},
        {SIDE_CONFIG, NULL, "interleave_self_attention", "true, \"activation_fn\": \"geglu\"",
         "activation_fn is \"geglu\""},
        {SIDE_CONFIG, NULL, "interleave_self_attention", "true, \"attention_bias\": false", "attention_bias is false"},
        {SIDE_CONFIG, NULL, "interleave_self_attention", "true, \"norm_elementwise_affine\": true",
         "norm_elementwise_affine is true"},
        {SIDE_CONFIG, NULL, "interleave_self_attention", "true, \"norm_eps\": 0.001",
         "norm_eps is 0.001, supported: 1e-05"},
    };
    check_refusals(cases, COUNT(cases), false);
    check_refusals(cases, COUNT(cases), true);
}

static void config_json_dimensions_have_ranges(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {SIDE_CONFIG, NULL, "select_layer", "0", "select_layer is 0, expected an integer 1..256"},
        {SIDE_CONFIG, NULL, "select_layer", "-1", "select_layer is -1"},
        {SIDE_CONFIG, NULL, "select_layer", "16.0", "select_layer is 16, expected an integer"},
        {SIDE_CONFIG, NULL, "select_layer", "\"16\"", "select_layer is \"16\", expected an integer"},
        {SIDE_CONFIG, NULL, "backbone_embedding_dim", "1024", "backbone_embedding_dim is 1024, expected 2048"},
        {SIDE_CONFIG, NULL, "input_embedding_dim", "65537",
         "input_embedding_dim is 65537, expected an integer 1..65536"},
        {SIDE_CONFIG, NULL, "input_embedding_dim", "1535", "is 1536, expected input_embedding_dim 1535"},
        {SIDE_CONFIG, NULL, "hidden_size", "9223372036854775807", "hidden_size is 9223372036854775807"},
        {SIDE_CONFIG, NULL, "hidden_size", "0", "hidden_size is 0"},
        {SIDE_CONFIG, NULL, "max_state_dim", "5000", "max_state_dim is 5000"},
        {SIDE_CONFIG, NULL, "max_state_dim", "64",
         "processor_kwargs.max_state_dim is 128, but config.json: max_state_dim is 64"},
        {SIDE_CONFIG, NULL, "max_action_dim", "null", "max_action_dim is null"},
        {SIDE_CONFIG, NULL, "max_action_dim", "64",
         "processor_kwargs.max_action_dim is 128, but config.json: max_action_dim is 64"},
        {SIDE_CONFIG, NULL, "action_horizon", "0", "action_horizon is 0, expected an integer 1..1024"},
        {SIDE_CONFIG, NULL, "action_horizon", "40", "max_action_horizon is 50, but config.json: action_horizon is 40"},
        {SIDE_CONFIG, NULL, "max_num_embodiments", "0", "max_num_embodiments is 0"},
        {SIDE_CONFIG, NULL, "max_num_embodiments", "20", "gr1 is 20, expected a slot 0..19"},
        {SIDE_CONFIG, NULL, "max_seq_len", "49", "max_seq_len is 49, expected at least action_horizon 50"},
        {SIDE_CONFIG, NULL, "max_seq_len", "1e9", "max_seq_len is 1000000000, expected an integer"},
        {SIDE_CONFIG, NULL, "num_inference_timesteps", "0", "num_inference_timesteps is 0"},
        {SIDE_CONFIG, NULL, "num_inference_timesteps", "1001", "num_inference_timesteps is 1001"},
        {SIDE_CONFIG, NULL, "num_timestep_buckets", "0", "num_timestep_buckets is 0"},
        {SIDE_CONFIG, NULL, "attend_text_every_n_blocks", "0", "attend_text_every_n_blocks is 0"},
        {SIDE_CONFIG, NULL, "num_layers", "257", "diffusion_model_cfg.num_layers is 257"},
        {SIDE_CONFIG, NULL, "num_attention_heads", "0", "num_attention_heads is 0"},
        {SIDE_CONFIG, NULL, "num_attention_heads", "31", "num_attention_heads 31 x attention_head_dim 48 is 1488"},
        {SIDE_CONFIG, NULL, "attention_head_dim", "[48]", "attention_head_dim is an array of 1"},
        {SIDE_CONFIG, NULL, "output_dim", "-1024", "output_dim is -1024"},
        {SIDE_CONFIG, NULL, "diffusion_model_cfg", "null", "diffusion_model_cfg is null, expected an object"},
    };
    check_refusals(cases, COUNT(cases), false);
    static const struct refusal eagle[] = {
        {SIDE_CONFIG, NULL, "eagle_config", "7", "eagle_config is 7, expected an object"},
        {SIDE_CONFIG, NULL, "vision_config", "[]", "eagle_config.vision_config is an array of 0, expected an object"},
        {SIDE_CONFIG, "\"vision_config\"", "hidden_size", "49",
         "vision_config.hidden_size is 49, expected a multiple of num_attention_heads 2"},
        {SIDE_CONFIG, "\"vision_config\"", "num_hidden_layers", "0", "vision_config.num_hidden_layers is 0"},
        {SIDE_CONFIG, "\"vision_config\"", "num_hidden_layers", "2, \"patch_size\": 16",
         "patch_size is 16, supported: 14"},
        {SIDE_CONFIG, "\"vision_config\"", "intermediate_size", "70000", "vision_config.intermediate_size is 70000"},
        {SIDE_CONFIG, "\"text_config\"", "hidden_size", "32", "backbone_embedding_dim is 16, expected 32"},
        {SIDE_CONFIG, "\"text_config\"", "num_hidden_layers", "1",
         "num_hidden_layers is 1, expected at least select_layer 2"},
        {SIDE_CONFIG, "\"text_config\"", "num_attention_heads", "3, \"rope_theta\": 10000",
         "rope_theta is 10000, supported: 1e+06"},
        {SIDE_CONFIG, "\"text_config\"", "num_key_value_heads", "3",
         "num_attention_heads is 2, expected a multiple of num_key_value_heads 3"},
        {SIDE_CONFIG, "\"text_config\"", "head_dim", "15", "head_dim is 15, expected an even number"},
        {SIDE_CONFIG, "\"text_config\"", "head_dim", "16, \"rope_scaling\": {}",
         "rope_scaling is an object, supported: null"},
    };
    check_refusals(eagle, COUNT(eagle), true);
}

static void attention_wider_than_the_range_of_widths_is_refused(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, true);
    side_files_set(&files, SIDE_CONFIG, "\"text_config\"", "num_attention_heads", "65");
    side_files_set(&files, SIDE_CONFIG, "\"text_config\"", "head_dim", "1024");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "eagle_config.text_config.num_attention_heads 65 x head_dim 1024 exceeds 65536");
    side_files_free(&files);
}

static void processor_settings_out_of_range_or_not_implemented_are_refused(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {SIDE_PROCESSOR, NULL, "processor_class", "\"Gr00tN1d7Processor\"",
         "processor_class is \"Gr00tN1d7Processor\""},
        {SIDE_PROCESSOR, NULL, "processor_kwargs", "[]", "processor_kwargs is an array of 0, expected an object"},
        {SIDE_PROCESSOR, NULL, "modality_configs", "null",
         "processor_kwargs.modality_configs is null, expected an object"},
        {SIDE_PROCESSOR, NULL, "model_type", "\"qwen\"",
         "processor_kwargs.model_type is \"qwen\", supported: \"eagle\""},
        {SIDE_PROCESSOR, NULL, "model_name", "\"other\"", "processor_kwargs.model_name is \"other\""},
        {SIDE_PROCESSOR, NULL, "use_albumentations", "false",
         "processor_kwargs.use_albumentations is false, supported: true"},
        {SIDE_PROCESSOR, NULL, "use_albumentations", "true, \"collator_overwrite_image_inputs\": true",
         "collator_overwrite_image_inputs is true"},
        {SIDE_PROCESSOR, NULL, "shortest_image_edge", "27", "shortest_image_edge is 27, expected an integer 28..1024"},
        {SIDE_PROCESSOR, NULL, "shortest_image_edge", "1025", "shortest_image_edge is 1025"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "0", "crop_fraction is 0, expected a number above 0 up to 1"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "0.001", "crop_fraction is 0.001, expected a number above 0 up to 1"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "1.01", "crop_fraction is 1.01, expected a number 0..1"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "-0.5", "crop_fraction is -0.5"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "\"0.95\"", "crop_fraction is \"0.95\""},
        {SIDE_PROCESSOR, NULL, "formalize_language", "1", "formalize_language is 1, expected true or false"},
        {SIDE_PROCESSOR, NULL, "use_percentiles", "null", "use_percentiles is null, expected true or false"},
        {SIDE_PROCESSOR, NULL, "clip_outliers", "\"yes\"", "clip_outliers is \"yes\""},
        {SIDE_PROCESSOR, NULL, "apply_sincos_state_encoding", "0", "apply_sincos_state_encoding is 0"},
        {SIDE_PROCESSOR, NULL, "use_relative_action", "{}", "use_relative_action is an object"},
        {SIDE_PROCESSOR, NULL, "max_state_dim", "64", "max_state_dim is 64, but config.json: max_state_dim is 128"},
        {SIDE_PROCESSOR, NULL, "max_action_dim", "0", "max_action_dim is 0"},
        {SIDE_PROCESSOR, NULL, "max_action_horizon", "16",
         "max_action_horizon is 16, but config.json: action_horizon is 50"},
    };
    check_refusals(cases, COUNT(cases), false);
}

static void modality_configs_of_the_chosen_embodiment_are_checked(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {SIDE_PROCESSOR, NULL, "gr1", "[]", "modality_configs.gr1 is an array of 0, expected an object"},
        {SIDE_PROCESSOR, SIDE_AT_GR1, "video", "null", "gr1.video is null, expected an object"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "delta_indices", "[]", "gr1.video.delta_indices is an array of 0"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "delta_indices", "[0, 1]",
         "gr1.video.delta_indices[1] is 1, expected rising times up to 0"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "delta_indices", "[-2, -2]",
         "gr1.video.delta_indices[1] is -2, expected rising times"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "delta_indices", "[0.5]",
         "gr1.video.delta_indices[0] is 0.5, expected an integer"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "modality_keys", "[]",
         "gr1.video.modality_keys is an array of 0, expected an array of 1..64 names"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "modality_keys", "[\"a\", \"a\"]",
         "gr1.video.modality_keys[1] is \"a\", which is listed twice"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "modality_keys", "[\"\"]",
         "gr1.video.modality_keys[0] is \"\", expected a name"},
        {SIDE_PROCESSOR, SIDE_AT_VIDEO, "modality_keys", "[7]", "gr1.video.modality_keys[0] is 7, expected a name"},
        {SIDE_PROCESSOR, SIDE_AT_GR1, "state", "3", "gr1.state is 3, expected an object"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "delta_indices", "[-1, 0]", "gr1.state.delta_indices is an array of 2"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "delta_indices", "[-1]", "gr1.state.delta_indices[0] is -1, supported: 0"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "modality_keys", "null", "gr1.state.modality_keys is null"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "modality_keys", "[\"left_leg\"]",
         "gr1.state.sin_cos_embedding_keys[0] is \"left_arm\", expected a group"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "sin_cos_embedding_keys", "[\"waist\", \"head\"]",
         "gr1.state.sin_cos_embedding_keys[1] is \"head\""},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "sin_cos_embedding_keys", "\"waist\"",
         "gr1.state.sin_cos_embedding_keys is \"waist\", expected null or"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "mean_std_embedding_keys", "[null]",
         "gr1.state.mean_std_embedding_keys[0] is null"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "mean_std_embedding_keys", "[\"head\"]",
         "gr1.action.mean_std_embedding_keys[0] is \"head\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "sin_cos_embedding_keys", "[\"head\"]",
         "gr1.action.sin_cos_embedding_keys[0] is \"head\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "delta_indices", "[1, 2, 3]",
         "gr1.action.delta_indices[0] is 1, supported: 0"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "delta_indices", "[0, 2]", "gr1.action.delta_indices[1] is 2, supported: 1"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "delta_indices", "[0, 1]",
         "relative_action.left_arm.min is an array of 16, expected an array of 2 rows"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "modality_keys", "[\"left_arm\", \"right_arm\", \"left_hand\", \"waist\"]",
         "action_configs is an array of 5, expected null or an array of 4"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "action_configs", "{}",
         "gr1.action.action_configs is an object, expected null or an array of 5"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "action_configs", "[1, 2, 3, 4, 5]",
         "gr1.action.action_configs[0] is 1, expected an object"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "type", "\"EEF\"",
         "processor_config.json: processor_kwargs.modality_configs.gr1.action.action_configs[0].type is \"EEF\", supported: \"NON_EEF\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION "|\"waist\"|\"ABSOLUTE\"", "type", "\"EEF\"",
         "action_configs[4].type is \"EEF\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "format", "\"XYZ_ROT6D\"",
         "action_configs[0].format is \"XYZ_ROT6D\", supported: \"DEFAULT\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "rep", "\"DELTA\"",
         "action_configs[0].rep is \"DELTA\", supported: \"RELATIVE\", \"ABSOLUTE\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "rep", "1", "action_configs[0].rep is 1"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "state_key", "7", "action_configs[0].state_key is 7"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "state_key", "\"head\"",
         "there is no state group \"head\" for the relative action group \"left_arm\""},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "state_key", "\"waist\"",
         "action.left_arm has 7 numbers, expected 3 as in the state group waist"},
    };
    check_refusals(cases, COUNT(cases), false);
}

static void too_many_images_action_steps_and_cameras_are_refused(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    char list[4096];
    size_t n = 0;
    for (int i = 0; i < 51; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%d", i == 0 ? "[" : ", ", i);
    }
    snprintf(list + n, sizeof list - n, "]");
    side_files_load(&files, false);
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_ACTION, "delta_indices", list);
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "gr1.action.delta_indices is an array of 51, expected an array of 1..50");
    side_files_free(&files);

    side_files_load(&files, false);
    n = 0;
    for (int i = 0; i < 64; i++) {
        n += (size_t)snprintf(list + n, sizeof list - n, "%s\"camera %d\"", i == 0 ? "[" : ", ", i);
    }
    snprintf(list + n, sizeof list - n, "]");
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_VIDEO, "modality_keys", list);
    side_files_set(&files, SIDE_PROCESSOR, SIDE_AT_VIDEO, "delta_indices", "[-7, -6, -5, -4, -3, -2, -1, 0]");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "64 cameras x 8 frames x 81 image tokens exceed");
    side_files_free(&files);
}

static void statistics_of_the_chosen_embodiment_are_checked(void **state)
{
    (void)state;
    static const struct refusal cases[] = {
        {SIDE_STATISTICS, NULL, "gr1", "null", "statistics.json: gr1 is null, expected an object"},
        {SIDE_STATISTICS, SIDE_AT_GR1, "state", "[]", "gr1.state is an array of 0, expected an object"},
        {SIDE_STATISTICS, SIDE_AT_GR1, "action", "true", "gr1.action is true, expected an object"},
        {SIDE_STATISTICS, SIDE_AT_GR1, "relative_action", "null", "gr1.relative_action is null, expected an object"},
        {SIDE_STATISTICS, SIDE_AT_STATE, "waist", "{}", "gr1.state.waist.min is missing"},
        {SIDE_STATISTICS, SIDE_AT_STATE, "waist", "{\"min\": [0, 0, 0], \"max\": [1, 1, 1], \"mean\": [0, 0, 0]}",
         "gr1.state.waist.std is missing"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "min", "[]", "gr1.state.left_arm.min is an array of 0"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "min", "{\"0\": 1}", "gr1.state.left_arm.min is an object"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "max", "[1, 1, 1, 1, 1, 1]",
         "left_arm.max is an array of 6, expected an array of 7 numbers"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "min", "[0, 0, 0, 0, 0, 0]",
         "left_arm.max is an array of 7, expected an array of 6 numbers"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "mean", "[0, 0, 0, null, 0, 0, 0]",
         "left_arm.mean[3] is null, expected a number that is finite"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "std", "[0, 0, 0, \"1\", 0, 0, 0]",
         "left_arm.std[3] is \"1\""},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "std", "[0, 0, 0, 0, -1e-3, 0, 0]",
         "left_arm.std has -0.001 at index 4"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "std", "[0, 0, 0, 1e39, 0, 0, 0]",
         "left_arm.std[3] is 1e+39, expected a number that is finite in float32"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"waist\"", "max", "[-9, 1, 1]", "expected at most max[0] -9"},
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"waist\"", "q01", "[1, 2, null]",
         "waist.q01[2] is null"}, /* present, though unused */
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"waist\"", "q01", "[1e6, 2, 3]",
         "waist.q01[0] is 1000000, expected at most q99[0]"},
        {SIDE_STATISTICS, SIDE_AT_ACTION, "waist", "null", "gr1.action.waist is null, expected an object"},
        {SIDE_STATISTICS, SIDE_AT_ACTION "|\"waist\"", "std", "[1, 1]",
         "gr1.action.waist.std is an array of 2, expected an array of 3"},
        {SIDE_STATISTICS, SIDE_AT_ACTION "|\"waist\"", "mean", "[1, 1, 1, 1]",
         "gr1.action.waist.mean is an array of 4"},
        {SIDE_STATISTICS, SIDE_AT_RELATIVE, "right_hand", "7",
         "gr1.relative_action.right_hand is 7, expected an object"},
        {SIDE_STATISTICS, SIDE_AT_RELATIVE "|\"left_arm\"", "min", "[1, 2, 3, 4, 5, 6, 7]",
         "relative_action.left_arm.min is an array of 7, expected an array of 16 rows"},
        {SIDE_STATISTICS, SIDE_AT_RELATIVE "|\"left_arm\"", "max",
         "[[1], [], 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]",
         "relative_action.left_arm.max[0] is an array of 1, expected an array of 7 numbers"},
    };
    check_refusals(cases, COUNT(cases), false);
}

static void a_group_renamed_in_the_statistics_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *anchor, *message;
    } cases[] = {{SIDE_AT_STATE, "statistics.json: gr1.state.right_hand is missing, expected an object"},
                 {SIDE_AT_ACTION, "statistics.json: gr1.action.right_hand is missing, expected an object"},
                 {SIDE_AT_RELATIVE, "statistics.json: gr1.relative_action.right_hand is missing, expected an object"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct side_files files;
        struct gr_config *cfg = NULL;
        struct gr_err err = {0};
        side_files_load(&files, false);
        side_files_edit(&files, SIDE_STATISTICS, cases[i].anchor, "\"right_hand\"", "\"right_palm\"");
        gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, cases[i].message);
        side_files_free(&files);
    }
}

static void percentile_tables_are_needed_only_with_use_percentiles(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    side_files_edit(&files, SIDE_STATISTICS, SIDE_AT_STATE "|\"waist\"", "\"q01\"", "\"p01\"");
    side_files_edit(&files, SIDE_STATISTICS, SIDE_AT_RELATIVE "|\"left_arm\"", "\"q99\"",
                    "\"p99\""); /* never: relative groups have no percentiles */
    gr_config_free(side_files_config(&files, "gr1"));
    side_files_set(&files, SIDE_PROCESSOR, NULL, "use_percentiles", "true");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, "gr1.state.waist.q01 is missing");
    side_files_edit(&files, SIDE_STATISTICS, SIDE_AT_STATE "|\"waist\"", "\"p01\"", "\"q01\"");
    gr_config_free(side_files_config(&files, "gr1"));
    side_files_free(&files);
}

static void encoded_state_and_action_must_fit_the_network(void **state)
{
    (void)state;
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    side_files_set(&files, SIDE_CONFIG, NULL, "max_state_dim", "57");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "max_state_dim", "57");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "encode to 58 numbers, expected at most max_state_dim 57");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "apply_sincos_state_encoding", "false"); /* 29 numbers */
    gr_config_free(side_files_config(&files, "gr1"));
    side_files_set(&files, SIDE_CONFIG, NULL, "max_action_dim", "28");
    side_files_set(&files, SIDE_PROCESSOR, NULL, "max_action_dim", "28");
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                  "have 29 numbers, expected at most max_action_dim 28");
    side_files_free(&files);
}

static void a_key_that_is_missing_is_named(void **state)
{
    (void)state;
    static const struct {
        enum side_file which;
        const char *anchor, *key, *message;
    } cases[] = {
        {SIDE_CONFIG, NULL, "model_type", "config.json: model_type is missing"},
        {SIDE_CONFIG, NULL, "select_layer", "config.json: select_layer is missing"},
        {SIDE_CONFIG, NULL, "positional_embeddings",
         "config.json: diffusion_model_cfg.positional_embeddings is missing"},
        {SIDE_CONFIG, NULL, "interleave_self_attention",
         "config.json: diffusion_model_cfg.interleave_self_attention is missing"},
        {SIDE_CONFIG, NULL, "diffusion_model_cfg", "config.json: diffusion_model_cfg is missing, expected an object"},
        {SIDE_PROCESSOR, NULL, "use_albumentations",
         "processor_config.json: processor_kwargs.use_albumentations is missing"},
        {SIDE_PROCESSOR, NULL, "clip_outliers", "processor_config.json: processor_kwargs.clip_outliers is missing"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "processor_config.json: processor_kwargs.crop_fraction is missing"},
        {SIDE_PROCESSOR, SIDE_AT_STATE, "delta_indices", "gr1.state.delta_indices is missing"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "modality_keys", "gr1.action.modality_keys is missing"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "type", "gr1.action.action_configs[0].type is missing"},
        {SIDE_PROCESSOR, SIDE_AT_ACTION, "rep", "gr1.action.action_configs[0].rep is missing"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct side_files files;
        struct gr_config *cfg = NULL;
        struct gr_err err = {0};
        char old[96], new_key[96];
        snprintf(old, sizeof old, "\"%s\"", cases[i].key);
        snprintf(new_key, sizeof new_key, "\"%s_\"", cases[i].key);
        side_files_load(&files, false);
        side_files_edit(&files, cases[i].which, cases[i].anchor, old, new_key);
        gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, cases[i].message);
        side_files_free(&files);
    }
}

static void nan_in_a_file_is_named_with_its_place(void **state)
{
    (void)state;
    static const struct {
        enum side_file which;
        const char *anchor, *key, *value, *message;
    } cases[] = {
        {SIDE_STATISTICS, SIDE_AT_STATE "|\"left_arm\"", "min", "[NaN, -1, -1, -1, -1, -1, -1]",
         "NaN in gr1.state.left_arm.min[0], expected a finite number"},
        {SIDE_STATISTICS, SIDE_AT_RELATIVE "|\"left_hand\"", "std", "[[0, 1, Infinity]]",
         "Infinity in gr1.relative_action.left_hand.std[0][2]"},
        {SIDE_STATISTICS, SIDE_AT_ACTION "|\"waist\"", "max", "[1, -Infinity, 1]",
         "Infinity in gr1.action.waist.max[1]"},
        {SIDE_CONFIG, NULL, "noise_s", "NaN", "NaN in noise_s"},
        {SIDE_PROCESSOR, NULL, "crop_fraction", "NaN", "NaN in processor_kwargs.crop_fraction"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct side_files files;
        struct gr_config *cfg = NULL;
        struct gr_err err = {0};
        side_files_load(&files, false);
        side_files_set(&files, cases[i].which, cases[i].anchor, cases[i].key, cases[i].value);
        gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, cases[i].message);
        assert_non_null(strstr(err.msg, "line "));
        assert_int_equal(strncmp(err.msg, side_file_name(cases[i].which), strlen(side_file_name(cases[i].which))), 0);
        side_files_free(&files);
    }
}

static void broken_json_names_the_file_and_line(void **state)
{
    (void)state;
    for (int which = 0; which < SIDE_FILES; which++) {
        static const char *const texts[] = {"",
                                            "[1, 2",
                                            "{\"a\": 1}\n{\"b\": 2}",
                                            "{\"a\": 1, \"a\": 2}",
                                            "\"NaN\" is in here but",
                                            "<!DOCTYPE html><html>"};
        for (size_t i = 0; i < COUNT(texts); i++) {
            struct side_files files;
            struct gr_config *cfg = NULL;
            struct gr_err err = {0};
            side_files_load(&files, false);
            side_files_put(&files, (enum side_file)which, texts[i]);
            gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                          side_file_name((enum side_file)which));
            assert_null(strstr(err.msg, "NaN and Infinity"));
            side_files_free(&files);
        }
        struct side_files files;
        struct gr_config *cfg = NULL;
        struct gr_err err = {0};
        side_files_load(&files, false);
        side_files_put(&files, (enum side_file)which, "[1]");
        gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT,
                      "the file holds an array of 1, expected an object");
        side_files_put(&files, (enum side_file)which,
                       "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
        gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, "Git LFS pointer");
        side_files_free(&files);
    }
}

static void reported_statistics_faults_stop_the_start(void **state)
{
    (void)state;
    gr_test_need_shared();
    struct side_files files;
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    side_files_load(&files, false);
    uint8_t *nan = gr_test_read(gr_test_shared("pain/files/weights/stats_nan/statistics_fragment.json"), NULL);
    side_files_set(&files, SIDE_STATISTICS, SIDE_AT_GR1, "state", (const char *)nan);
    gr_test_fails(side_files_parse(&files, "gr1", &cfg, &err), &err, GR_ERR_FORMAT, "NaN in gr1.state.left_arm.min[0]");
    free(nan);
    side_files_free(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(config_json_settings_we_do_not_implement_are_refused),
        cmocka_unit_test(config_json_dimensions_have_ranges),
        cmocka_unit_test(attention_wider_than_the_range_of_widths_is_refused),
        cmocka_unit_test(processor_settings_out_of_range_or_not_implemented_are_refused),
        cmocka_unit_test(modality_configs_of_the_chosen_embodiment_are_checked),
        cmocka_unit_test(too_many_images_action_steps_and_cameras_are_refused),
        cmocka_unit_test(statistics_of_the_chosen_embodiment_are_checked),
        cmocka_unit_test(a_group_renamed_in_the_statistics_is_named),
        cmocka_unit_test(percentile_tables_are_needed_only_with_use_percentiles),
        cmocka_unit_test(encoded_state_and_action_must_fit_the_network),
        cmocka_unit_test(a_key_that_is_missing_is_named),
        cmocka_unit_test(nan_in_a_file_is_named_with_its_place),
        cmocka_unit_test(broken_json_names_the_file_and_line),
        cmocka_unit_test(reported_statistics_faults_stop_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
