/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c: the four JSON files of a snapshot to a checked struct gr_config. This file reads config.json (the network) and the
 * settings of processor_config.json (pictures, language, normalisation switches); embodiment.c the rest.
 *
 * Three fates of a key: it changes results and is followed, with a range; it changes results and only the published value is
 * implemented, so another one ends the load with its name; it is without influence on inference and is ignored. What no table
 * below knows is ignored too, and listed for `gr00t inspect`. */
#include "model/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "model/config_read.h"
#include "model/embodiment.h"
#include "model/preprocess.h"
#include "model/noise.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Largest accepted side files; the published ones have 2 KB, 9 KB, 45 KB and more, 171 bytes. */
enum { MAX_CONFIG = 1 << 20, MAX_PROCESSOR = 4 << 20, MAX_IDS = 1 << 20, MAX_STATISTICS = 64 << 20 };

/* Ranges: wide enough for any network of this family, narrow enough that no product of two widths and four bytes leaves 64 bits. */
enum {
    MAX_WIDTH = 65536,
    MAX_LAYERS = 256,
    MAX_HEADS = 1024,
    MAX_HEAD_DIM = 1024,
    MAX_VECTOR = 4096,
    MAX_HORIZON = 1024
};

/* The backbone that config.json is silent about: SigLIP2-so400m and Qwen3-1.7B (spec/model.md 2). */
static void published_backbone(struct gr_dims *d)
{
    d->vit.hidden = 1152;
    d->vit.mlp = 4304;
    d->vit.layers = 27;
    d->vit.heads = GR_VIT_HEADS;
    d->llm.hidden = 2048;
    d->llm.mlp = 6144;
    d->llm.heads = 16;
    d->llm.kv_heads = 8;
    d->llm.head_dim = 128;
}

/* ------------------------------------------------------------------------------------------- config.json */

static enum gr_status read_vision(const struct gr_scope *eagle, struct gr_dims *d, struct gr_err *err)
{
    struct gr_scope s;
    GR_TRY(gr_scope_enter(eagle, "vision_config", &s, err));
    static const char *const ignored[] = {"image_size", "num_patches", "attention_dropout", "model_type", NULL};
    const struct gr_rule rules[] = {
        {.key = "hidden_size", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->vit.hidden},
        {.key = "intermediate_size", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->vit.mlp},
        {.key = "num_hidden_layers", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_LAYERS, .to_int = &d->vit.layers},
        {.key = "num_attention_heads", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HEADS, .to_int = &d->vit.heads},
        {.key = "patch_size", .kind = GR_RULE_ONLY_NUMBER, .lo = GR_PATCH, .optional = true},
        {.key = "num_channels", .kind = GR_RULE_ONLY_NUMBER, .lo = 3, .optional = true},
        {.key = "layer_norm_eps", .kind = GR_RULE_ONLY_NUMBER, .lo = 1e-6, .optional = true},
        {.key = "hidden_act", .kind = GR_RULE_ONLY_TEXT, .text = "gelu_pytorch_tanh", .optional = true},
    };
    GR_TRY(gr_scope_apply(&s, rules, COUNT(rules), ignored, err));
    if (d->vit.hidden % d->vit.heads != 0) {
        return gr_scope_fail(&s, "hidden_size", gr_json_get(s.object, "hidden_size"), err,
                             "expected a multiple of num_attention_heads %d", d->vit.heads);
    }
    return GR_OK;
}

static enum gr_status read_text(const struct gr_scope *eagle, struct gr_dims *d, struct gr_err *err)
{
    struct gr_scope s;
    int layers = 0; /* of the whole language model; the first select_layer of them are used */
    GR_TRY(gr_scope_enter(eagle, "text_config", &s, err));
    static const char *const ignored[] = {
        "vocab_size", "max_position_embeddings", "tie_word_embeddings", "attention_dropout", "model_type", NULL};
    const struct gr_rule rules[] = {
        {.key = "hidden_size", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->llm.hidden},
        {.key = "intermediate_size", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->llm.mlp},
        {.key = "num_hidden_layers", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_LAYERS, .to_int = &layers},
        {.key = "num_attention_heads", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HEADS, .to_int = &d->llm.heads},
        {.key = "num_key_value_heads", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HEADS, .to_int = &d->llm.kv_heads},
        {.key = "head_dim", .kind = GR_RULE_INT, .lo = 2, .hi = MAX_HEAD_DIM, .to_int = &d->llm.head_dim},
        {.key = "rms_norm_eps", .kind = GR_RULE_ONLY_NUMBER, .lo = 1e-6, .optional = true},
        {.key = "rope_theta", .kind = GR_RULE_ONLY_NUMBER, .lo = 1e6, .optional = true},
        {.key = "rope_scaling", .kind = GR_RULE_ONLY_NULL, .optional = true},
        {.key = "attention_bias", .kind = GR_RULE_ONLY_FALSE, .optional = true},
        {.key = "hidden_act", .kind = GR_RULE_ONLY_TEXT, .text = "silu", .optional = true},
    };
    GR_TRY(gr_scope_apply(&s, rules, COUNT(rules), ignored, err));
    if (d->llm.heads % d->llm.kv_heads != 0) {
        return gr_scope_fail(&s, "num_attention_heads", gr_json_get(s.object, "num_attention_heads"), err,
                             "expected a multiple of num_key_value_heads %d", d->llm.kv_heads);
    }
    if (d->llm.heads * d->llm.head_dim > MAX_WIDTH) {
        return gr_fail(err, GR_ERR_FORMAT, "config.json: %snum_attention_heads %d x head_dim %d exceeds %d", s.path,
                       d->llm.heads, d->llm.head_dim, MAX_WIDTH);
    }
    if (d->llm.head_dim % 2 != 0) { /* rope turns pairs */
        return gr_scope_fail(&s, "head_dim", gr_json_get(s.object, "head_dim"), err, "expected an even number");
    }
    if (layers < d->llm.layers) {
        return gr_scope_fail(&s, "num_hidden_layers", gr_json_get(s.object, "num_hidden_layers"), err,
                             "expected at least select_layer %d", d->llm.layers);
    }
    return GR_OK;
}

/* eagle_config is the synthetic snapshots' extension; the published file has no word on its backbone. */
static enum gr_status read_backbone(const struct gr_scope *root, struct gr_config *cfg, struct gr_err *err)
{
    struct gr_dims *d = &cfg->dims;
    const struct gr_json *eagle = gr_json_get(root->object, "eagle_config");
    cfg->have_backbone = gr_json_kind(eagle) != GR_JSON_NULL;
    if (!cfg->have_backbone) {
        published_backbone(d);
    } else {
        struct gr_scope s;
        GR_TRY(gr_scope_enter(root, "eagle_config", &s, err));
        const struct gr_rule rules[] = {{.key = "vision_config", .kind = GR_RULE_ELSEWHERE},
                                        {.key = "text_config", .kind = GR_RULE_ELSEWHERE}};
        GR_TRY(gr_scope_apply(&s, rules, COUNT(rules), NULL, err));
        GR_TRY(read_vision(&s, d, err));
        GR_TRY(read_text(&s, d, err));
    }
    const struct gr_json *width = gr_json_get(root->object, "backbone_embedding_dim");
    if (gr_json_int(width) != d->llm.hidden) {
        return gr_scope_fail(root, "backbone_embedding_dim", width, err,
                             "expected %d, the width of the %s language model", d->llm.hidden,
                             cfg->have_backbone ? "configured (eagle_config.text_config.hidden_size)" : "published");
    }
    d->vit.table_side = 0; /* no key says it: weights.c reads it from the table */
    return GR_OK;
}

static enum gr_status read_dit(const struct gr_scope *root, struct gr_dims *d, struct gr_err *err)
{
    struct gr_scope s;
    GR_TRY(gr_scope_enter(root, "diffusion_model_cfg", &s, err));
    static const char *const ignored[] = {"dropout",
                                          "final_dropout",
                                          "upcast_attention",
                                          "num_embeds_ada_norm",
                                          "max_num_positional_embeddings",
                                          "compute_dtype",
                                          NULL};
    const struct gr_rule rules[] = {
        {.key = "num_layers", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_LAYERS, .to_int = &d->dit.layers},
        {.key = "num_attention_heads", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HEADS, .to_int = &d->dit.heads},
        {.key = "attention_head_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HEAD_DIM, .to_int = &d->dit.head_dim},
        {.key = "output_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->dit.out},
        /* Absent would mean something else for the next two: the model's own defaults are "sinusoidal" and false. */
        {.key = "positional_embeddings", .kind = GR_RULE_ONLY_NULL},
        {.key = "interleave_self_attention", .kind = GR_RULE_ONLY_TRUE},
        {.key = "norm_type", .kind = GR_RULE_ONLY_TEXT, .text = "ada_norm", .optional = true},
        {.key = "norm_elementwise_affine", .kind = GR_RULE_ONLY_FALSE, .optional = true},
        {.key = "norm_eps", .kind = GR_RULE_ONLY_NUMBER, .lo = 1e-5, .optional = true},
        {.key = "attention_bias", .kind = GR_RULE_ONLY_TRUE, .optional = true},
        {.key = "activation_fn", .kind = GR_RULE_ONLY_TEXT, .text = "gelu-approximate", .optional = true},
    };
    GR_TRY(gr_scope_apply(&s, rules, COUNT(rules), ignored, err));
    if (d->dit.heads * d->dit.head_dim != d->dit.width) {
        return gr_fail(
            err, GR_ERR_FORMAT,
            "config.json: diffusion_model_cfg.num_attention_heads %d x attention_head_dim %d is %d, expected input_embedding_dim %d",
            d->dit.heads, d->dit.head_dim, d->dit.heads * d->dit.head_dim, d->dit.width);
    }
    if (d->dit.width % 2 != 0) { /* the sine half and the cosine half of the time embedding */
        return gr_fail(err, GR_ERR_FORMAT, "config.json: input_embedding_dim is %d, expected an even number",
                       d->dit.width);
    }
    d->dit.mlp = 4 * d->dit.width;
    return GR_OK;
}

/* Keys of config.json without influence on inference. */
static const char *const ignored_in_config[] = {
    /* Training-time copies of what processor_config.json decides: see below. */
    "image_crop_size", "image_target_size", "shortest_image_edge", "crop_fraction", "letter_box_transform",
    "formalize_language", "apply_sincos_state_encoding", "use_relative_action",
    /* Training only. The collator of this model always brings pictures to a multiple of 28, whatever eagle_collator says. */
    "eagle_collator", "random_rotation_angle", "color_jitter_params", "extra_augmentation_config", "attn_dropout",
    "state_dropout_prob", "state_additive_noise_scale", "noise_beta_alpha", "noise_beta_beta", "noise_s",
    "tune_projector", "tune_diffusion_model", "tune_vlln", "tune_llm", "tune_visual", "tune_top_llm_layers",
    "backbone_trainable_params_fp32", "use_flash_attention", "load_bf16", "model_dtype", "model_revision",
    /* Bookkeeping of the training library. */
    "architectures", "torch_dtype", "dtype", "transformers_version", "auto_map", "_name_or_path", "name_or_path", NULL};

/* Preprocessing keys of config.json (crop_fraction, formalize_language ...) are what training was started with; inference
 * builds its processor from processor_config.json alone. Fine-tuned folders do carry different values here, and the
 * original program never looks, so they are no contradiction and are ignored. The exceptions: a training without
 * albumentations made another network input, and is refused in both files; max_state_dim, max_action_dim and the horizon are one
 * number in two files (the width of the vectors that processor and network exchange): see read_processor. */
static enum gr_status read_network(const struct gr_scope *s, struct gr_config *cfg, struct gr_err *err)
{
    struct gr_dims *d = &cfg->dims;
    int backbone_dim = 0;
    const struct gr_rule rules[] = {
        {.key = "model_type",
         .kind = GR_RULE_ONLY_TEXT,
         .text = "Gr00tN1d6"}, /* first: another model differs in all the rest */
        {.key = "backbone_model_type", .kind = GR_RULE_ONLY_TEXT, .text = "eagle", .optional = true},
        {.key = "model_name",
         .kind = GR_RULE_TEXT_END,
         .text = "Eagle-Block2A-2B-v2",
         .optional = true}, /* or a path to a copy */
        {.key = "select_layer", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_LAYERS, .to_int = &d->llm.layers},
        {.key = "backbone_embedding_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &backbone_dim},
        {.key = "input_embedding_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->dit.width},
        {.key = "hidden_size", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->dit.hidden},
        {.key = "max_state_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_VECTOR, .to_int = &d->dit.max_state},
        {.key = "max_action_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_VECTOR, .to_int = &d->dit.max_action},
        {.key = "action_horizon", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HORIZON, .to_int = &d->dit.horizon},
        {.key = "max_num_embodiments", .kind = GR_RULE_INT, .lo = 1, .hi = 4096, .to_int = &d->dit.slots},
        {.key = "max_seq_len", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->dit.max_seq},
        {.key = "num_inference_timesteps", .kind = GR_RULE_INT, .lo = 1, .hi = 1000, .to_int = &d->dit.steps},
        {.key = "num_timestep_buckets", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_WIDTH, .to_int = &d->dit.time_buckets},
        {.key = "attend_text_every_n_blocks",
         .kind = GR_RULE_INT,
         .lo = 1,
         .hi = MAX_LAYERS,
         .to_int = &d->dit.text_every},
        {.key = "use_alternate_vl_dit", .kind = GR_RULE_ONLY_TRUE, .optional = true},
        {.key = "use_vlln", .kind = GR_RULE_ONLY_TRUE, .optional = true},
        {.key = "add_pos_embed", .kind = GR_RULE_ONLY_TRUE, .optional = true},
        {.key = "reproject_vision", .kind = GR_RULE_ONLY_FALSE, .optional = true},
        {.key = "collator_overwrite_image_inputs", .kind = GR_RULE_ONLY_FALSE, .optional = true},
        {.key = "use_albumentations_transforms", .kind = GR_RULE_ONLY_TRUE, .optional = true},
        {.key = "diffusion_model_cfg", .kind = GR_RULE_ELSEWHERE},
        {.key = "eagle_config", .kind = GR_RULE_ELSEWHERE},
    };
    GR_TRY(gr_scope_apply(s, rules, COUNT(rules), ignored_in_config, err));
    if (d->dit.max_seq < d->dit.horizon) {
        return gr_scope_fail(s, "max_seq_len", gr_json_get(s->object, "max_seq_len"), err,
                             "expected at least action_horizon %d", d->dit.horizon);
    }
    d->dit.time_channels = 256; /* spec/model.md 7 */
    cfg->model_type = gr_config_copy(cfg, gr_json_string(gr_json_get(s->object, "model_type")), err);
    if (cfg->model_type == NULL) {
        return GR_ERR_NOMEM;
    }
    GR_TRY(read_backbone(s, cfg, err));
    return read_dit(s, d, err);
}

/* --------------------------------------------------------------------------------- processor_config.json */

/* [n, n]: the side of a square; 0 when the key is absent or null. */
static enum gr_status read_square(const struct gr_scope *s, const char *key, int *side, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(s->object, key);
    *side = 0;
    if (gr_json_kind(v) == GR_JSON_NULL) {
        return GR_OK;
    }
    const struct gr_json *a = gr_json_at(v, 0), *b = gr_json_at(v, 1);
    if (gr_json_len(v) != 2 || gr_json_kind(a) != GR_JSON_INT || gr_json_kind(b) != GR_JSON_INT || gr_json_int(a) < 1 ||
        gr_json_int(a) > MAX_WIDTH || gr_json_int(a) != gr_json_int(b)) {
        return gr_scope_fail(s, key, v, err, "expected [height, width] of a square, 1..%d", MAX_WIDTH);
    }
    *side = (int)gr_json_int(a);
    return GR_OK;
}

/* shortest_image_edge null means image_target_size, crop_fraction null means image_crop_size / image_target_size, as
 * build_image_transformations_albumentations of the original does; beside both numbers the two sizes are never looked at. */
static enum gr_status finish_pictures(const struct gr_scope *s, struct gr_config *cfg, bool edge_null, bool crop_null,
                                      struct gr_err *err)
{
    int target = 0, crop = 0;
    if (edge_null || crop_null) {
        GR_TRY(read_square(s, "image_target_size", &target, err));
    }
    const struct gr_json *target_value = gr_json_get(s->object, "image_target_size");
    if (edge_null) {
        if (target < GR_EDGE_MIN || target > GR_EDGE_MAX) {
            return gr_scope_fail(s, "image_target_size", target_value, err,
                                 "expected a square of %d..%d (shortest_image_edge is null)", GR_EDGE_MIN, GR_EDGE_MAX);
        }
        cfg->shortest_image_edge = target;
    }
    if (crop_null) {
        GR_TRY(read_square(s, "image_crop_size", &crop, err));
        if (crop < 1 || target < 1 || crop > target) {
            return gr_fail(
                err, GR_ERR_FORMAT,
                "%s: %scrop_fraction is null, expected a number above 0 up to 1, or image_crop_size within image_target_size",
                s->file, s->path);
        }
        cfg->crop_fraction = (double)crop / (double)target;
    }
    if ((int)(cfg->shortest_image_edge * cfg->crop_fraction) < 1) {
        return gr_scope_fail(s, "crop_fraction", gr_json_get(s->object, "crop_fraction"), err,
                             "expected a number above 0 up to 1");
    }
    return GR_OK;
}

/* What the vision encoder sees. */
static void fill_grid(struct gr_dims *d, int edge)
{
    d->vit.image_side = gr_preprocess_side(edge);
    d->vit.grid = d->vit.image_side / GR_PATCH;
    d->vit.patches = d->vit.grid * d->vit.grid;
    d->vit.tokens = d->vit.patches / (GR_UNSHUFFLE * GR_UNSHUFFLE);
}

static bool is_null(const struct gr_json *v) { return v != NULL && gr_json_kind(v) == GR_JSON_NULL; }

/* One number in two files. */
static enum gr_status same_as_config(const struct gr_scope *s, const char *key, int here, const char *config_key,
                                     int there, struct gr_err *err)
{
    if (here != there) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s%s is %d, but config.json: %s is %d", s->file, s->path, key, here,
                       config_key, there);
    }
    return GR_OK;
}

static const char *const ignored_in_processor[] = {"random_rotation_angle", "color_jitter_params",
                                                   "extra_augmentation_config", "transformers_loading_kwargs", NULL};

static enum gr_status read_processor(const struct gr_scope *root, struct gr_config *cfg, struct gr_err *err)
{
    const struct gr_rule root_rules[] = {
        {.key = "processor_class", .kind = GR_RULE_ONLY_TEXT, .text = "Gr00tN1d6Processor", .optional = true},
        {.key = "processor_kwargs", .kind = GR_RULE_ELSEWHERE},
    };
    GR_TRY(gr_scope_apply(root, root_rules, COUNT(root_rules), NULL, err));
    struct gr_scope s;
    GR_TRY(gr_scope_enter(root, "processor_kwargs", &s, err));
    bool edge_null = is_null(gr_json_get(s.object, "shortest_image_edge")),
         crop_null = is_null(gr_json_get(s.object, "crop_fraction"));
    bool letterbox = !is_null(gr_json_get(s.object, "letter_box_transform"));
    int max_state = 0, max_action = 0, horizon = 0;
    /* The original's constructor has other defaults than the published values (edge 512, no relative actions ...): absent keys
     * are errors, its writer always writes them all. */
    const struct gr_rule rules[] = {
        {.key = "model_type", .kind = GR_RULE_ONLY_TEXT, .text = "eagle", .optional = true},
        {.key = "model_name", .kind = GR_RULE_TEXT_END, .text = "Eagle-Block2A-2B-v2", .optional = true},
        {.key = "use_albumentations", .kind = GR_RULE_ONLY_TRUE},
        {.key = "shortest_image_edge",
         .kind = edge_null ? GR_RULE_ELSEWHERE : GR_RULE_INT,
         .lo = GR_EDGE_MIN,
         .hi = GR_EDGE_MAX,
         .to_int = &cfg->shortest_image_edge},
        {.key = "crop_fraction",
         .kind = crop_null ? GR_RULE_ELSEWHERE : GR_RULE_NUMBER,
         .lo = 0,
         .hi = 1,
         .to_number = &cfg->crop_fraction},
        {.key = "letter_box_transform",
         .kind = letterbox ? GR_RULE_BOOL : GR_RULE_ELSEWHERE,
         .optional = true,
         .to_bool = &letterbox},
        {.key = "formalize_language", .kind = GR_RULE_BOOL, .to_bool = &cfg->formalize_language},
        {.key = "use_percentiles", .kind = GR_RULE_BOOL, .to_bool = &cfg->use_percentiles},
        {.key = "clip_outliers", .kind = GR_RULE_BOOL, .to_bool = &cfg->clip_outliers},
        {.key = "apply_sincos_state_encoding", .kind = GR_RULE_BOOL, .to_bool = &cfg->apply_sincos_state_encoding},
        {.key = "use_relative_action", .kind = GR_RULE_BOOL, .to_bool = &cfg->use_relative_action},
        {.key = "max_state_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_VECTOR, .to_int = &max_state},
        {.key = "max_action_dim", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_VECTOR, .to_int = &max_action},
        {.key = "max_action_horizon", .kind = GR_RULE_INT, .lo = 1, .hi = MAX_HORIZON, .to_int = &horizon},
        {.key = "collator_overwrite_image_inputs", .kind = GR_RULE_ONLY_FALSE, .optional = true},
        {.key = "modality_configs", .kind = GR_RULE_ELSEWHERE},
        {.key = "image_target_size", .kind = GR_RULE_ELSEWHERE},
        {.key = "image_crop_size", .kind = GR_RULE_ELSEWHERE},
    };
    GR_TRY(gr_scope_apply(&s, rules, COUNT(rules), ignored_in_processor, err));
    /* The served layout of image tokens needs the square; square frames give the same with either value. */
    if (!letterbox) {
        cfg->image_note =
            "processor_config.json: processor_kwargs.letter_box_transform is not true, but frames that are not square are "
            "padded to a square here; only square frames give the numbers of training";
    }
    GR_TRY(same_as_config(&s, "max_state_dim", max_state, "max_state_dim", cfg->dims.dit.max_state, err));
    GR_TRY(same_as_config(&s, "max_action_dim", max_action, "max_action_dim", cfg->dims.dit.max_action, err));
    GR_TRY(same_as_config(&s, "max_action_horizon", horizon, "action_horizon", cfg->dims.dit.horizon, err));
    if (horizon * max_action < GR_NOISE_MIN) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: %smax_action_horizon x max_action_dim is %d x %d, expected at least %d numbers of noise",
                       s.file, s.path, horizon, max_action, GR_NOISE_MIN);
    }
    GR_TRY(finish_pictures(&s, cfg, edge_null, crop_null, err));
    fill_grid(&cfg->dims, cfg->shortest_image_edge);
    return GR_OK;
}

/* ------------------------------------------------------------------------------------------------- files */

struct documents {
    struct gr_json *config, *processor, *ids, *statistics;
};

static enum gr_status parse_text(const struct gr_config_text *text, const char *file, struct gr_json **out,
                                 struct gr_err *err)
{
    static const char lfs[] = "version https://git-lfs";
    char where[256];
    if (text->n_bytes >= sizeof lfs - 1 && memcmp(text->text, lfs, sizeof lfs - 1) == 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: a Git LFS pointer, expected JSON: the download is incomplete", file);
    }
    enum gr_status status = gr_json_parse(text->text, text->n_bytes, file, GR_ERR_FORMAT, out, err);
    if (status == GR_ERR_FORMAT && gr_find_nonfinite(text, where, sizeof where)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %s, expected a finite number (NaN and Infinity are not JSON)", file,
                       where);
    }
    return status;
}

static enum gr_status read_documents(const struct documents *doc, const char *tag, struct gr_config *cfg,
                                     struct gr_err *err)
{
    struct gr_scope s;
    GR_TRY(gr_scope_root(cfg, "config.json", doc->config, &s, err));
    GR_TRY(read_network(&s, cfg, err));
    GR_TRY(gr_scope_root(cfg, "processor_config.json", doc->processor, &s, err));
    GR_TRY(read_processor(&s, cfg, err));
    return gr_embodiment_read(cfg, doc->processor, doc->ids, doc->statistics, tag, err);
}

enum gr_status gr_config_parse(const struct gr_config_texts *texts, const char *tag, struct gr_config **out,
                               struct gr_err *err)
{
    struct documents doc = {0};
    struct gr_config *cfg = NULL;
    enum gr_status status = gr_config_new(&cfg, err);
    if (status == GR_OK) {
        status = parse_text(&texts->config, "config.json", &doc.config, err);
    }
    if (status == GR_OK) {
        status = parse_text(&texts->processor, "processor_config.json", &doc.processor, err);
    }
    if (status == GR_OK) {
        status = parse_text(&texts->embodiment_id, "embodiment_id.json", &doc.ids, err);
    }
    if (status == GR_OK) {
        status = parse_text(&texts->statistics, "statistics.json", &doc.statistics, err);
    }
    if (status == GR_OK) {
        status = read_documents(&doc, tag, cfg, err);
    }
    gr_json_free(doc.config);
    gr_json_free(doc.processor);
    gr_json_free(doc.ids);
    gr_json_free(doc.statistics);
    if (status != GR_OK) {
        gr_config_free(cfg);
        return status;
    }
    *out = cfg;
    return GR_OK;
}

static enum gr_status read_file(const char *dir, const char *name, size_t max_bytes, char **owner,
                                struct gr_config_text *text, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, name, err));
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        struct stat link; /* one that leads nowhere: the blob is gone, or not mounted */
        return lstat(path, &link) == 0
                   ? gr_fs_need_file(path, GR_ERR_FORMAT, err)
                   : gr_fail(err, GR_ERR_FORMAT, "%s is missing in the snapshot folder %s", name, dir);
    }
    GR_TRY(gr_fs_read(path, max_bytes, owner, &text->n_bytes, err));
    text->text = *owner;
    return GR_OK;
}

enum gr_status gr_config_open(const char *dir, const char *tag, struct gr_config **out, struct gr_err *err)
{
    struct gr_config_texts texts = {0};
    char *owned[4] = {NULL};
    enum gr_status status = GR_OK;
    GR_TRY(gr_fs_need_dir(dir, GR_ERR_IO, err));
    const struct {
        const char *name;
        size_t max_bytes;
        struct gr_config_text *text;
    } files[4] = {{"config.json", MAX_CONFIG, &texts.config},
                  {"processor_config.json", MAX_PROCESSOR, &texts.processor},
                  {"embodiment_id.json", MAX_IDS, &texts.embodiment_id},
                  {"statistics.json", MAX_STATISTICS, &texts.statistics}};
    for (size_t i = 0; i < COUNT(files) && status == GR_OK; i++) {
        status = read_file(dir, files[i].name, files[i].max_bytes, &owned[i], files[i].text, err);
    }
    if (status == GR_OK) {
        status = gr_config_parse(&texts, tag, out, err);
    }
    for (size_t i = 0; i < COUNT(files); i++) {
        free(owned[i]);
    }
    return status;
}
