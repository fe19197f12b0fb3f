/* SPDX-License-Identifier: Apache-2.0
 *
 * golden.c: goldens in and out. A kept one is a file of a few lines of text that say what it belongs to, then the floats as this machine
 * stores them, then the SHA-256 of all of it: a file of another kind, another machine or with a flipped bit is never believed. */
#include "policy/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/fs.h"
#include "base/json.h"
#include "device/plan.h"
#include "model/embedded.h"
#include "policy/policy.h"

enum { HEX = GR_DIGEST_HEX_BYTES - 1, FILE_MAX = 64 << 20, DIGEST_SHORT = 16, TAG_MAX = 80 };

static size_t actions_bytes(const struct gr_info *info)
{
    return (size_t)info->action_steps * (size_t)info->action_dim * sizeof(float);
}

static size_t normalized_bytes(const struct gr_info *info)
{
    return (size_t)info->horizon * (size_t)info->max_action_dim * sizeof(float);
}

enum gr_status gr_golden_new(const struct gr_info *info, struct gr_golden *out, struct gr_err *err)
{
    *out =
        (struct gr_golden){.actions = calloc(1, actions_bytes(info)), .normalized = calloc(1, normalized_bytes(info))};
    if (out->actions == NULL || out->normalized == NULL) {
        gr_golden_free(out);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for a golden chunk");
    }
    return GR_OK;
}

void gr_golden_free(struct gr_golden *golden)
{
    free(golden->actions);
    free(golden->normalized);
    *golden = (struct gr_golden){0};
}

/* ---- what it belongs to ---- */

enum gr_status gr_golden_key_make(const struct gr_policy *policy, const struct gr_observation *obs, int n_tokens,
                                  struct gr_golden_key *out, struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES];
    *out = (struct gr_golden_key){.info = gr_policy_info(policy), .obs = obs, .n_tokens = n_tokens};
    GR_TRY(gr_config_digest(gr_policy_config(policy), hex, err));
    snprintf(out->identity, sizeof out->identity, "weights %s\nconfig %s\n", out->info->weights_digest, hex);
    return GR_OK;
}

/* ---- built in ---- */

bool gr_golden_is_shipped(const struct gr_golden_key *key, const struct gr_demo *demo)
{
    return demo->shipped && strcmp(key->info->embodiment, "gr1") == 0 &&
           strlen(key->identity) == gr_embed_demo_identity_size &&
           memcmp(key->identity, gr_embed_demo_identity, gr_embed_demo_identity_size) == 0;
}

static enum gr_status broken_build(const char *what, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_DEVICE, "the built-in golden has no %s of the demo's size", what);
}

static enum gr_status shipped_actions(const struct gr_info *info, float *actions, struct gr_err *err)
{
    struct gr_json *root = NULL;
    GR_TRY(gr_json_parse((const char *)gr_embed_demo_expected, gr_embed_demo_expected_size, "built-in expected.json",
                         GR_ERR_DEVICE, &root, err));
    const struct gr_json *groups = gr_json_get(root, "actions_fp32");
    bool ok = true;
    for (int g = 0, column = 0; g < info->n_action_groups; column += info->action_groups[g].dim, g++) {
        const struct gr_json *rows = gr_json_get(groups, info->action_groups[g].name);
        for (int r = 0; ok && r < info->action_steps; r++) {
            const struct gr_json *row = gr_json_at(rows, (size_t)r);
            ok = gr_json_len(row) == (size_t)info->action_groups[g].dim;
            for (size_t i = 0; ok && i < gr_json_len(row); i++) {
                actions[r * info->action_dim + column + (int)i] = (float)gr_json_number(gr_json_at(row, i));
            }
        }
    }
    gr_json_free(root);
    return ok ? GR_OK : broken_build("actions", err);
}

/* The tensor "action_pred" of the built-in safetensors file; formats/safetensors.h reads files only. */
static enum gr_status shipped_normalized(const struct gr_info *info, float *normalized, struct gr_err *err)
{
    const unsigned char *file = gr_embed_demo_taps;
    const size_t size = gr_embed_demo_taps_size, want = normalized_bytes(info);
    uint64_t header = 0;
    if (size > sizeof header) {
        memcpy(&header, file, sizeof header);
    }
    if (header == 0 || header > size - sizeof header) {
        return broken_build("taps", err);
    }
    struct gr_json *root = NULL;
    GR_TRY(
        gr_json_parse((const char *)file + sizeof header, (size_t)header, "built-in taps", GR_ERR_DEVICE, &root, err));
    const struct gr_json *range = gr_json_get(gr_json_get(root, "action_pred"), "data_offsets");
    bool ok = gr_json_kind(gr_json_at(range, 0)) == GR_JSON_INT && gr_json_kind(gr_json_at(range, 1)) == GR_JSON_INT;
    uint64_t from = ok ? (uint64_t)gr_json_int(gr_json_at(range, 0)) : 0;
    uint64_t to = ok ? (uint64_t)gr_json_int(gr_json_at(range, 1)) : 0;
    gr_json_free(root);
    if (!ok || to < from || to > size - sizeof header - header || to - from != want) {
        return broken_build("action_pred", err);
    }
    memcpy(normalized, file + sizeof header + header + from, want);
    return GR_OK;
}

enum gr_status gr_golden_shipped(const struct gr_info *info, struct gr_golden *out, struct gr_err *err)
{
    GR_TRY(shipped_actions(info, out->actions, err));
    GR_TRY(shipped_normalized(info, out->normalized, err));
    snprintf(out->kernels, sizeof out->kernels, "numpy");
    return GR_OK;
}

/* ---- kept ---- */

/* A card's golden is exact: the same as that of an exact service on the CPU. */
static const char *formats_of_golden(const struct gr_info *info)
{
    return info->card != NULL ? "exact" : info->precision_step;
}

enum gr_status gr_golden_path(const char *cache_dir, const struct gr_golden_key *key, char *out, struct gr_err *err)
{
    char name[2 * DIGEST_SHORT + TAG_MAX + 32], tag[TAG_MAX + 1];
    snprintf(tag, sizeof tag, "%s", key->info->embodiment);
    for (char *c = tag; *c != '\0'; c++) { /* a tag comes from a file and is part of a name here */
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '-';
        *c = plain ? *c : '_';
    }
    /* The served policy is in the name, so that two services that share the folder do not take turns in replacing one file. */
    snprintf(name, sizeof name, "golden-%.*s-%s-%.8s-%.16s.bin", DIGEST_SHORT, key->info->weights_digest, tag,
             strstr(key->identity, "config ") + strlen("config "),
             key->info->card != NULL ? "exact" : key->info->precision);
    return gr_path_join(out, cache_dir, name, err);
}

static enum gr_status digest_of(const void *bytes, size_t n, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err)
{
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, bytes, n);
    return gr_digest_end(d, hex, err);
}

static enum gr_status observation_digest(const struct gr_observation *obs, char hex[GR_DIGEST_HEX_BYTES],
                                         struct gr_err *err)
{
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    for (int i = 0; i < obs->n_frames; i++) {
        const struct gr_frame *f = &obs->frames[i];
        int32_t sides[2] = {f->height, f->width};
        gr_digest_add(d, sides, sizeof sides);
        gr_digest_add(d, f->rgb, (size_t)f->height * (size_t)f->width * 3);
    }
    uint64_t numbers[2] = {obs->seed, (uint64_t)obs->state_dtype};
    gr_digest_add(d, obs->state, (size_t)obs->state_dim * sizeof *obs->state);
    gr_digest_add(d, obs->instruction, strlen(obs->instruction));
    gr_digest_add(d, numbers, sizeof numbers);
    return gr_digest_end(d, hex, err);
}

/* Everything before the name of the kernels. The version is in it: a program that computes something else must not be measured by
 * what an earlier one computed. */
static enum gr_status put_head(const struct gr_golden_key *key, struct gr_buf *out, struct gr_err *err)
{
    const struct gr_info *info = key->info;
    const bool exact =
        strcmp(formats_of_golden(info), "exact") == 0; /* else the reference path reads weights of the served formats */
    char observation[GR_DIGEST_HEX_BYTES];
    GR_TRY(observation_digest(key->obs, observation, err));
    gr_buf_printf(out,
                  "gr00t golden 3\nprogram %s\n%scontent %s\nembodiment %s\nobservation %s\ntokens %d\n"
                  "actions %d %d\nnormalized %d %d\nformats %s, 16-bit %s, recipe %d\nkernels ",
                  GR00T_VERSION, key->identity, info->weights_content, info->embodiment, observation, key->n_tokens,
                  info->action_steps, info->action_dim, info->horizon, info->max_action_dim, formats_of_golden(info),
                  exact ? "none" : info->half, exact ? 0 : GR_RECIPE_EDITION);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a golden chunk") : GR_OK;
}

/* Takes the parts of a whole, undamaged file. */
static enum gr_status take(const char *path, const char *data, size_t n, const struct gr_buf *head,
                           const struct gr_info *info, struct gr_golden *out, struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES];
    size_t floats = actions_bytes(info) + normalized_bytes(info);
    if (n < HEX) {
        return gr_fail(err, GR_ERR_FORMAT, "%s has %zu bytes, which is no golden", path, n);
    }
    GR_TRY(digest_of(data, n - HEX, hex, err));
    if (memcmp(hex, data + n - HEX, HEX) != 0) {
        return gr_fail(err, GR_ERR_FORMAT, "%s is damaged: its checksum does not fit", path);
    }
    if (n < head->len || memcmp(data, head->data, head->len) != 0) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s belongs to other weights, other settings, another observation or another version", path);
    }
    const char *kernels = data + head->len, *end = memchr(kernels, '\n', n - head->len);
    if (end == NULL || (size_t)(end - kernels) >= sizeof out->kernels || (size_t)(end + 1 - data) + floats + HEX != n) {
        return gr_fail(err, GR_ERR_FORMAT, "%s is no golden of this size", path);
    }
    snprintf(out->kernels, sizeof out->kernels, "%.*s", (int)(end - kernels), kernels);
    memcpy(out->actions, end + 1, actions_bytes(info));
    memcpy(out->normalized, end + 1 + actions_bytes(info), normalized_bytes(info));
    return GR_OK;
}

enum gr_status gr_golden_load(const char *path, const struct gr_golden_key *key, struct gr_golden *out, bool *found,
                              struct gr_err *err)
{
    char *data = NULL;
    size_t n = 0;
    struct gr_buf head = {0};
    *found = false;
    if (!gr_fs_is_file(path)) {
        return GR_OK;
    }
    enum gr_status status = gr_fs_read(path, FILE_MAX, &data, &n, err);
    if (status == GR_OK && (status = put_head(key, &head, err)) == GR_OK) {
        status = take(path, data, n, &head, key->info, out, err);
    }
    *found = status == GR_OK;
    gr_buf_free(&head);
    free(data);
    return status;
}

enum gr_status gr_golden_store(const char *path, const struct gr_golden_key *key, const struct gr_golden *golden,
                               struct gr_err *err)
{
    struct gr_buf file = {0};
    char hex[GR_DIGEST_HEX_BYTES], dir[GR_PATH_BYTES];
    snprintf(dir, sizeof dir, "%s", path);
    *strrchr(dir, '/') = '\0'; /* gr_golden_path joined it */
    enum gr_status status = put_head(key, &file, err);
    if (status == GR_OK) {
        gr_buf_printf(&file, "%s\n", golden->kernels);
        gr_buf_put(&file, golden->actions, actions_bytes(key->info));
        gr_buf_put(&file, golden->normalized, normalized_bytes(key->info));
        status = file.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a golden chunk")
                             : digest_of(file.data, file.len, hex, err);
    }
    if (status == GR_OK) {
        gr_buf_puts(&file, hex);
        status = file.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for a golden chunk") : gr_fs_mkdirs(dir, err);
    }
    if (status == GR_OK) {
        status = gr_fs_write(path, file.data, file.len, err);
    }
    gr_buf_free(&file);
    return status;
}
