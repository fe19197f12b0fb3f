/* SPDX-License-Identifier: Apache-2.0
 *
 * synth_side.c: writes the files beside the tensors, byte for byte as Python's json.dumps(indent=2) lays them out, so that
 * snapshots of this program and of the Python generator are equal file by file.
 *
 * The JSON files that describe embodiments come out of one embedded document, data/snapshot_side_files.json (indent 1, one
 * member a file), as text: numbers are never parsed, so none can change. */
#include "model/synth_side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "model/embedded.h"

static enum gr_status write_buf(const char *dir, const char *name, struct gr_buf *b, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    enum gr_status status = gr_path_join(path, dir, name, err);
    if (status == GR_OK && b->failed) {
        status = gr_fail(err, GR_ERR_NOMEM, "out of memory for %s", name);
    }
    if (status == GR_OK) {
        status = gr_fs_write(path, b->data, b->len, err);
    }
    gr_buf_free(b);
    return status;
}

static enum gr_status write_bytes(const char *dir, const char *name, const void *bytes, size_t n, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, name, err));
    return gr_fs_write(path, bytes, n, err);
}

/* ---- config.json ---- */

static void put_head_config(struct gr_buf *b, const struct gr_synth_config *c)
{
    gr_buf_printf(b,
                  "  \"max_state_dim\": %d,\n  \"max_action_dim\": %d,\n  \"action_horizon\": %d,\n"
                  "  \"hidden_size\": %d,\n  \"input_embedding_dim\": %d,\n  \"add_pos_embed\": true,\n"
                  "  \"attn_dropout\": 0.2,\n  \"use_vlln\": true,\n  \"max_seq_len\": %d,\n"
                  "  \"use_alternate_vl_dit\": true,\n  \"attend_text_every_n_blocks\": %d,\n",
                  c->head.max_state, c->head.max_action, c->head.horizon, c->head.hidden, c->head.in_emb,
                  c->head.max_seq, c->head.text_every);
    gr_buf_printf(
        b,
        "  \"diffusion_model_cfg\": {\n    \"positional_embeddings\": null,\n    \"num_layers\": %d,\n"
        "    \"num_attention_heads\": %d,\n    \"attention_head_dim\": %d,\n    \"norm_type\": \"ada_norm\",\n"
        "    \"dropout\": 0.2,\n    \"final_dropout\": true,\n    \"output_dim\": %d,\n"
        "    \"interleave_self_attention\": true\n  },\n",
        c->head.layers, c->head.heads, c->head.head_dim, c->head.out);
    gr_buf_printf(b,
                  "  \"num_inference_timesteps\": %d,\n  \"noise_beta_alpha\": 1.5,\n  \"noise_beta_beta\": 1.0,\n"
                  "  \"noise_s\": 0.999,\n  \"num_timestep_buckets\": 1000,\n  \"tune_projector\": true,\n"
                  "  \"tune_diffusion_model\": true,\n  \"tune_vlln\": true,\n  \"state_dropout_prob\": 0.0,\n"
                  "  \"state_additive_noise_scale\": 0.0,\n  \"max_num_embodiments\": %d,\n"
                  "  \"transformers_version\": \"4.51.3\"",
                  c->head.steps, c->head.slots);
}

/* Numbers of the backbone, which the published config.json does not carry: only for sizes other than the published ones. */
static void put_backbone_config(struct gr_buf *b, const struct gr_synth_config *c)
{
    gr_buf_printf(
        b,
        ",\n  \"eagle_config\": {\n    \"vision_config\": {\n      \"hidden_size\": %d,\n"
        "      \"intermediate_size\": %d,\n      \"num_hidden_layers\": %d,\n      \"num_attention_heads\": %d\n    },\n",
        c->vit.hidden, c->vit.mlp, c->vit.layers, c->vit.heads);
    gr_buf_printf(
        b,
        "    \"text_config\": {\n      \"hidden_size\": %d,\n      \"intermediate_size\": %d,\n"
        "      \"num_hidden_layers\": %d,\n      \"num_attention_heads\": %d,\n      \"num_key_value_heads\": %d,\n"
        "      \"head_dim\": %d\n    }\n  }",
        c->llm.hidden, c->llm.mlp, c->llm.layers, c->llm.heads, c->llm.kv_heads, c->llm.head_dim);
}

static enum gr_status write_config(enum gr_synth_kind kind, const struct gr_synth_config *c, const char *dir,
                                   struct gr_err *err)
{
    struct gr_buf b = {0};
    gr_buf_printf(&b,
                  "{\n  \"architectures\": [\n    \"Gr00tN1d6\"\n  ],\n  \"model_type\": \"Gr00tN1d6\",\n"
                  "  \"torch_dtype\": \"bfloat16\",\n  \"model_dtype\": \"bfloat16\",\n"
                  "  \"model_name\": \"nvidia/Eagle-Block2A-2B-v2\",\n  \"model_revision\": null,\n"
                  "  \"backbone_model_type\": \"eagle\",\n  \"backbone_embedding_dim\": %d,\n"
                  "  \"tune_top_llm_layers\": 4,\n  \"tune_llm\": false,\n  \"tune_visual\": false,\n"
                  "  \"select_layer\": %d,\n",
                  c->llm.hidden, c->llm.layers);
    gr_buf_puts(&b, "  \"reproject_vision\": false,\n  \"use_flash_attention\": true,\n  \"load_bf16\": true,\n"
                    "  \"collator_overwrite_image_inputs\": false,\n  \"eagle_collator\": true,\n"
                    "  \"backbone_trainable_params_fp32\": true,\n  \"image_crop_size\": [\n    230,\n    230\n  ],\n"
                    "  \"image_target_size\": [\n    256,\n    256\n  ],\n  \"shortest_image_edge\": 256,\n"
                    "  \"crop_fraction\": 0.95,\n  \"random_rotation_angle\": null,\n  \"color_jitter_params\": null,\n"
                    "  \"use_albumentations_transforms\": true,\n  \"formalize_language\": true,\n"
                    "  \"apply_sincos_state_encoding\": true,\n  \"use_relative_action\": true,\n");
    put_head_config(&b, c);
    if (kind != GR_SYNTH_FULL) {
        put_backbone_config(&b, c);
    }
    gr_buf_puts(&b, "\n}\n");
    return write_buf(dir, "config.json", &b, err);
}

/* ---- embedded members ---- */

/* The member `name` of the embedded document with indent 2 instead of 1. */
static enum gr_status write_member(const char *dir, const char *name, struct gr_err *err)
{
    const char *text = (const char *)gr_embed_side_files, *end = text + gr_embed_side_files_size;
    char head[64];
    const int head_len = snprintf(head, sizeof head, "\n \"%s\": {\n", name);
    const char *at = memmem(text, gr_embed_side_files_size, head, (size_t)head_len);
    if (at == NULL) {
        return gr_fail(err, GR_ERR_FORMAT, "the built-in side files have no member %s", name);
    }
    struct gr_buf b = {0};
    gr_buf_puts(&b, "{\n");
    bool closed = false;
    for (at += head_len; at < end && !closed;) {
        const char *eol = memchr(at, '\n', (size_t)(end - at));
        eol = eol == NULL ? end : eol;
        int depth = 0;
        while (at < eol && *at == ' ') {
            depth++;
            at++;
        }
        closed = depth == 1; /* " }" or " }," ends the member */
        for (int i = 1; i < depth; i++) {
            gr_buf_puts(&b, "  ");
        }
        gr_buf_put(&b, at, closed ? 1 : (size_t)(eol - at));
        gr_buf_puts(&b, "\n");
        at = eol + 1;
    }
    return write_buf(dir, name, &b, err);
}

/* The demo has few slots: it would be mostly unused weights otherwise. */
static const char DEMO_SLOTS[] = "{\n  \"new_embodiment\": 0,\n  \"robocasa_panda_omron\": 1,\n  \"gr1\": 2\n}\n";

/* ---- demonstration ---- */

struct file {
    const char *name;
    const unsigned char *bytes;
    const size_t *n;
};

static enum gr_status write_files(const char *dir, const struct file *files, size_t n, struct gr_err *err)
{
    GR_TRY(gr_fs_mkdirs(dir, err));
    for (size_t i = 0; i < n; i++) {
        GR_TRY(write_bytes(dir, files[i].name, files[i].bytes, *files[i].n, err));
    }
    return GR_OK;
}

static const struct file TOKENIZER[] = {
    {"vocab.json", gr_embed_demo_vocab, &gr_embed_demo_vocab_size},
    {"merges.txt", gr_embed_demo_merges, &gr_embed_demo_merges_size},
    {"added_tokens.json", gr_embed_demo_added_tokens, &gr_embed_demo_added_tokens_size},
};
static const struct file DEMO[] = {
    {"frame.png", gr_embed_demo_frame, &gr_embed_demo_frame_size},
    {"state.json", gr_embed_demo_state, &gr_embed_demo_state_size},
    {"instruction.txt", gr_embed_demo_instruction, &gr_embed_demo_instruction_size},
};
static const struct file GOLDEN[] = {
    {"obs.json", gr_embed_demo_obs, &gr_embed_demo_obs_size},
    {"image.png", gr_embed_demo_frame, &gr_embed_demo_frame_size},
    {"inputs.safetensors", gr_embed_demo_inputs, &gr_embed_demo_inputs_size},
    {"taps_fp32.safetensors", gr_embed_demo_taps, &gr_embed_demo_taps_size},
    {"expected.json", gr_embed_demo_expected, &gr_embed_demo_expected_size},
};
enum { GOLDEN_FILES = sizeof GOLDEN / sizeof GOLDEN[0] };

/* The golden of other weights would be wrong for these ones. */
static enum gr_status remove_golden(const char *dir, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    for (size_t i = 0; i < GOLDEN_FILES; i++) {
        GR_TRY(gr_path_join(path, dir, GOLDEN[i].name, err));
        if (unlink(path) != 0 && errno != ENOENT) {
            return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot remove the golden of other weights", path);
        }
    }
    (void)rmdir(dir); /* only when it is empty */
    return GR_OK;
}

static enum gr_status write_demo(const char *dir, bool with_golden, struct gr_err *err)
{
    char tokenizer[GR_PATH_BYTES], demo[GR_PATH_BYTES], golden[GR_PATH_BYTES];
    GR_TRY(gr_path_join(tokenizer, dir, "tokenizer", err));
    GR_TRY(gr_path_join(demo, dir, "demo", err));
    GR_TRY(gr_path_join(golden, demo, "golden", err));
    GR_TRY(write_files(tokenizer, TOKENIZER, sizeof TOKENIZER / sizeof TOKENIZER[0], err));
    GR_TRY(write_files(demo, DEMO, sizeof DEMO / sizeof DEMO[0], err));
    return with_golden ? write_files(golden, GOLDEN, GOLDEN_FILES, err) : remove_golden(golden, err);
}

/* ---- entry points ---- */

enum gr_status gr_synth_side_write(enum gr_synth_kind kind, const struct gr_synth_config *config, bool with_golden,
                                   const char *dir, struct gr_err *err)
{
    static const char LICENSE[] = "Synthetic random weights for testing; no rights reserved.\n";
    GR_TRY(write_config(kind, config, dir, err));
    GR_TRY(write_member(dir, "processor_config.json", err));
    GR_TRY(write_member(dir, "statistics.json", err));
    if (kind == GR_SYNTH_DEMO) {
        GR_TRY(write_bytes(dir, "embodiment_id.json", DEMO_SLOTS, sizeof DEMO_SLOTS - 1, err));
        GR_TRY(write_demo(dir, with_golden, err));
    } else {
        GR_TRY(write_member(dir, "embodiment_id.json", err));
    }
    return write_bytes(dir, "LICENSE", LICENSE, sizeof LICENSE - 1, err);
}

struct entry {
    const char *tensor, *shard;
};

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->tensor, ((const struct entry *)b)->tensor);
}

enum gr_status gr_synth_index_write(const struct gr_synth_inventory *inv, const struct gr_synth_shard *shards, size_t n,
                                    const char *dir, struct gr_err *err)
{
    struct entry *entries = calloc(inv->count, sizeof *entries);
    if (entries == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the index of %zu tensors", inv->count);
    }
    size_t count = 0;
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < shards[s].count; i++) {
            entries[count++] = (struct entry){shards[s].tensors[i]->name, shards[s].name};
        }
    }
    qsort(entries, count, sizeof *entries, by_tensor);
    struct gr_buf b = {0};
    gr_buf_printf(&b, "{\n  \"metadata\": {\n    \"total_size\": %llu\n  },\n  \"weight_map\": {",
                  (unsigned long long)inv->bytes);
    for (size_t i = 0; i < count; i++) {
        gr_buf_printf(&b, "%s\n    \"%s\": \"%s\"", i == 0 ? "" : ",", entries[i].tensor, entries[i].shard);
    }
    gr_buf_puts(&b, "\n  }\n}\n");
    free(entries);
    return write_buf(dir, "model.safetensors.index.json", &b, err);
}
