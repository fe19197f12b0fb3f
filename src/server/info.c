/* SPDX-License-Identifier: Apache-2.0
 *
 * info.c: GET /info: which program serves which weights how, and what its self-check found. The contract of requests and replies
 * is in info_contract.c. */
#include "server/info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/fs.h"
#include "policy/policy.h"
#include "server/info_parts.h"

/* package/gr00t/LICENSE-NOTICE.md, written into the program at build time; not NUL-terminated. */
extern const unsigned char gr_embed_license_notice[];
extern const size_t gr_embed_license_notice_size;

static void hardware(struct gr_jw *w, const struct gr_service_config *cfg, const struct gr_boot_facts *facts)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    gr_jw_put_object(w, "hardware");
    gr_jw_put_string(w, "device", cfg->device);
    gr_jw_put_string(w, "cpu", gr_cpu_name());
    gr_jw_put_int(w, "cpus", gr_cpu_count());
    gr_jw_put_string(w, "isa", info->isa);
    gr_jw_put_int(w, "threads", info->threads);
    gr_jw_put_string(w, "threads_reason", facts->threads_reason);
    gr_jw_end_object(w);
}

static void fidelity(struct gr_jw *w, const struct gr_info *info)
{
    gr_jw_put_array(w, "fidelity");
    for (int i = 0; i < info->n_fidelity; i++) {
        const struct gr_fidelity *f = &info->fidelity[i];
        gr_jw_object(w);
        gr_jw_put_int(w, "observation", i + 1);
        gr_jw_put_bool(w, "gate", f->gate);
        gr_jw_put_f64(w, "pcc_actions", f->pcc);
        gr_jw_put_f64(w, "pcc_slice", f->pcc_slice);
        gr_jw_put_f64(w, "max_abs", f->max_abs);
        gr_jw_put_string(w, "worst_group", f->worst_group[0] != '\0' ? f->worst_group : NULL);
        gr_jw_put_f64(w, "worst_pcc", f->worst_pcc);
        gr_jw_put_bool(w, "pass", f->pass);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
}

/* How the network lies on the card; names as in the card's other services. */
static void card_stage(struct gr_jw *w, const struct gr_card_info *c)
{
    gr_jw_put_string(w, "dit_backend", c->dit_backend);
    gr_jw_put_string(w, "mk_arena_dtype", c->arena);
    gr_jw_put_int(w, "num_command_queues", c->command_queues);
    gr_jw_put_bool(w, "cq1_uploads", c->uploads_overlap);
    gr_jw_put_int(w, "worker_l1_size", c->l1_bytes);
    gr_jw_put_int(w, "worker_l1_used", c->l1_used);
    gr_jw_put_string(w, "adapter_mem", "L1");
    gr_jw_put_int(w, "tiles", c->tiles_used);
    gr_jw_put_int(w, "operations", c->operations);
    gr_jw_put_object(w, "build_ms");
    gr_jw_put_milli(w, "open", c->open_ms);
    gr_jw_put_milli(w, "program", c->build_ms);
    gr_jw_put_milli(w, "arena", c->pack_ms);
    gr_jw_put_milli(w, "upload", c->upload_ms);
    gr_jw_put_milli(w, "start", c->start_ms);
    gr_jw_end_object(w);
    gr_jw_put_string(w, "note",
                     "vision, language model, adapter and denoise are one resident program: one upload, one download a "
                     "request");
}

static void versions(struct gr_jw *w, const char *key, const uint32_t *v, int n)
{
    struct gr_buf text = {0};
    for (int i = 0; i < n; i++) {
        gr_buf_printf(&text, i == 0 ? "%u" : ".%u", v[i]);
    }
    w->out->failed |= text.failed;
    gr_jw_put_string(w, key, v[0] != 0 || v[1] != 0 ? text.data : NULL);
    gr_buf_free(&text);
}

/* What the card says of itself; null: not told. */
static void card_facts(struct gr_jw *w, const struct gr_card_info *c)
{
    gr_jw_put_object(w, "card");
    gr_jw_put_string(w, "node", c->node);
    gr_jw_put_bool(w, "simulator", c->simulator);
    gr_jw_put_string(w, "board", c->board[0] != '\0' ? c->board : NULL);
    gr_jw_put_string(w, "pci", c->pci[0] != '\0' ? c->pci : NULL);
    gr_jw_put_int(w, "tensix_tiles", c->tiles);
    gr_jw_put_int(w, "dram_channels", c->channels);
    versions(w, "firmware", c->firmware, 4);
    versions(w, "driver", c->driver, 3);
    gr_jw_put_int(w, "aiclk_mhz", c->aiclk_mhz);
    gr_jw_put_int(w, "dram_mts", c->dram_mts);
    gr_jw_put_string(w, "note", c->note);
    gr_jw_end_object(w);
}

static void stage(struct gr_jw *w, const struct gr_boot_facts *facts)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    struct gr_buf served = {0};
    if (info->card != NULL) {
        gr_buf_puts(&served, strcmp(info->card->dit_backend, "ops") == 0 ? "stage1-ops" : "stage2-megakernel");
    } else {
        gr_buf_printf(&served, "%s-%s", info->device, info->precision);
    }
    w->out->failed |= served.failed;
    gr_jw_put_object(w, "stage");
    gr_jw_put_string(w, "served", served.data);
    gr_jw_put_string(w, "kernels", info->isa);
    gr_jw_put_string(w, "policy", info->precision);
    gr_jw_put_string(w, "policy_asked", info->precision_asked);
    gr_jw_put_string(w, "policy_step", info->precision_step);
    gr_jw_put_string(w, "half", info->half[0] != '\0' ? info->half : NULL); /* exact asks for none */
    gr_plan_put_peaks(w, gr_policy_plan(facts->policy));
    fidelity(w, info);
    gr_jw_put_object(w, "weights");
    gr_jw_put_int(w, "tensors", info->n_tensors);
    gr_jw_put_u64(w, "packed_bytes", info->weight_bytes);
    gr_jw_put_int(w, "skipped_tensors", info->n_skipped);
    gr_jw_put_u64(w, "skipped_bytes", info->skipped_bytes);
    gr_jw_end_object(w);
    if (info->card != NULL) {
        card_stage(w, info->card);
    }
    gr_jw_end_object(w);
    gr_buf_free(&served);
}

/* The licence text that came with the weights; "": their folder has none. */
static void license_file(const char *snapshot_dir, char out[GR_PATH_BYTES])
{
    static const char *const names[] = {"LICENSE", "LICENSE.md", "LICENSE.txt"};
    struct gr_err ignored;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (gr_path_join(out, snapshot_dir, names[i], &ignored) == GR_OK && gr_fs_is_file(out)) {
            return;
        }
    }
    out[0] = '\0';
}

static void weights(struct gr_jw *w, const struct gr_boot_facts *facts)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    char license[GR_PATH_BYTES];
    license_file(facts->snapshot_dir, license);
    gr_jw_put_object(w, "weights");
    gr_jw_put_string(w, "repo", facts->weights_repo);
    gr_jw_put_string(w, "revision", facts->weights_revision);
    gr_jw_put_string(w, "snapshot_dir", facts->snapshot_dir);
    gr_jw_put_string(w, "digest", info->weights_digest[0] != '\0' ? info->weights_digest : NULL);
    gr_jw_put_string(w, "digest_of", "SHA-256 over all tensor headers and sampled blocks");
    gr_jw_put_string(w, "tokenizer_dir", facts->tokenizer_dir);
    gr_jw_put_string(w, "model_type", info->model_type);
    gr_jw_put_string(w, "license_file", license[0] != '\0' ? license : NULL);
    gr_jw_end_object(w);
}

static void source(struct gr_jw *w)
{
    gr_jw_put_object(w, "source");
    gr_jw_put_string(w, "server_version", gr_version());
#if defined(__clang__)
    gr_jw_put_string(w, "compiler", "clang " __clang_version__);
#else
    gr_jw_put_string(w, "compiler", "gcc " __VERSION__);
#endif
#if defined(__OPTIMIZE__)
    gr_jw_put_string(w, "build", "optimized");
#else
    gr_jw_put_string(w, "build", "not optimized");
#endif
    gr_jw_end_object(w);
}

static void cache(struct gr_jw *w, const struct gr_info *info)
{
    static const char *const states[] = {[GR_CACHE_OFF] = "off",
                                         [GR_CACHE_WARM] = "warm",
                                         [GR_CACHE_WRITTEN] = "written",
                                         [GR_CACHE_UNWRITTEN] = "unwritten"};
    gr_jw_put_object(w, "cache");
    gr_jw_put_string(w, "state", states[info->cache]);
    gr_jw_put_string(w, "file", info->cache_file);
    gr_jw_put_string(w, "note", info->cache_note);
    gr_jw_end_object(w);
}

static void limits(struct gr_jw *w, const struct gr_service_config *cfg, const struct gr_info *info)
{
    const struct gr_httpd_limits *l = &cfg->limits;
    gr_jw_put_object(w, "limits");
    gr_jw_put_int(w, "connections", l->connections);
    gr_jw_put_int(w, "head_bytes", (int64_t)l->head_bytes);
    gr_jw_put_int(w, "body_bytes", (int64_t)(l->body_bytes));
    gr_jw_put_int(w, "bodies_bytes", (int64_t)l->bodies_bytes);
    gr_jw_put_milli(w, "head_s", l->head_s);
    gr_jw_put_milli(w, "body_s", l->body_s);
    gr_jw_put_milli(w, "idle_s", l->idle_s);
    gr_jw_put_int(w, "queue", cfg->queue);
    gr_jw_put_int(w, "batch", 1);
    gr_jw_put_int(w, "instruction_chars", GR_INSTRUCTION_MAX_CHARS);
    gr_jw_put_int(w, "text_tokens", info->max_text_tokens);
    gr_jw_put_int(w, "image_side_min", GR_SIDE_MIN);
    gr_jw_put_int(w, "image_side_max", GR_SIDE_MAX);
    gr_jw_end_object(w);
}

static void device_facts(struct gr_jw *w, const struct gr_boot_facts *facts)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    const struct gr_dims *d = gr_policy_dims(facts->policy);
    gr_jw_put_object(w, "device_facts");
    gr_jw_put_string(w, "name", info->device);
    gr_jw_put_int(w, "image_tokens_per_frame", d->vit.tokens);
    gr_jw_put_int(w, "denoise_steps", d->dit.steps);
    gr_jw_put_int(w, "vision_layers", d->vit.layers);
    gr_jw_put_int(w, "llm_layers", d->llm.layers);
    gr_jw_put_int(w, "dit_layers", d->dit.layers);
    gr_jw_put_milli(w, "load_s", info->load_ms / 1e3);
    gr_jw_put_milli(w, "model_built_s", facts->model_built_s);
    gr_jw_put_milli(w, "boot_s", facts->boot_s);
    if (info->card != NULL) {
        card_facts(w, info->card);
    }
    gr_jw_end_object(w);
}

static void warmup(struct gr_jw *w, const struct gr_selfcheck *check)
{
    gr_jw_put_array(w, "warmup_latency_ms");
    for (int i = 0; i < check->runs && i < GR_WARMUP_RUNS_MAX; i++) {
        gr_jw_milli(w, check->times[i].total);
    }
    gr_jw_end_array(w);
    gr_jw_put_object(w, "warmup_fidelity_vs_golden");
    gr_jw_put_string(w, "source", gr_golden_source_name(check->source));
    gr_jw_put_string(w, "kernels", check->golden_kernels);
    gr_jw_put_string(w, "note", check->golden_note[0] != '\0' ? check->golden_note : NULL);
    gr_jw_put_f64(w, "pcc_actions", check->has_pcc ? check->pcc : (double)NAN);
    gr_jw_put_f64(w, "max_abs", check->max_abs);
    gr_jw_put_f64(w, "pcc_slice", check->pcc_slice);
    gr_jw_put_array(w, "per_group");
    for (int i = 0; i < check->n_groups; i++) {
        const struct gr_group_check *g = &check->groups[i];
        gr_jw_object(w);
        gr_jw_put_string(w, "key", g->name);
        gr_jw_put_f64(w, "pcc", g->has_pcc ? g->pcc : (double)NAN);
        gr_jw_put_f64(w, "max_abs", g->max_abs);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
    gr_jw_put_int(w, "runs", check->runs);
    gr_jw_put_f64(w, "repeat_max_abs", check->repeat_max_abs);
    gr_jw_end_object(w);
}

/* Decisions a client cannot see from outside. */
static void policies(struct gr_jw *w, const struct gr_boot_facts *facts)
{
    const struct gr_config *c = gr_policy_config(facts->policy);
    gr_jw_put_object(w, "policies");
    gr_jw_put_string(w, "precision", gr_policy_info(facts->policy)->precision);
    gr_jw_put_string(w, "determinism",
                     "same observation and noise, same bits: whatever came before, for any thread count");
    gr_jw_put_string(w, "order", "one predict at a time, in order of arrival; more than the queue holds get 503");
    gr_jw_put_string(w, "disconnect", "a queued request whose client has gone is not computed");
    gr_jw_put_string(w, "names", "cameras and groups are matched by exact name, never by position");
    gr_jw_put_bool(w, "use_relative_action", c->use_relative_action);
    gr_jw_put_bool(w, "use_percentiles", c->use_percentiles);
    gr_jw_put_bool(w, "clip_outliers", c->clip_outliers);
    gr_jw_put_bool(w, "apply_sincos_state_encoding", c->apply_sincos_state_encoding);
    gr_jw_put_bool(w, "formalize_language", c->formalize_language);
    gr_jw_put_int(w, "shortest_image_edge", c->shortest_image_edge);
    gr_jw_put_f64(w, "crop_fraction", c->crop_fraction);
    gr_jw_end_object(w);
}

/* Which licence covers what: one line, and the notice that every package carries. */
static void licenses(struct gr_jw *w)
{
    char *notice = strndup((const char *)gr_embed_license_notice, gr_embed_license_notice_size);
    w->out->failed |= notice == NULL;
    gr_jw_put_string(w, "license",
                     "program: Apache-2.0; weights and tokenizer: the licences that come with them (GR00T N1.6: NVIDIA "
                     "License, non-commercial)");
    gr_jw_put_string(w, "license_notice", notice);
    free(notice);
}

enum gr_status gr_info_json(const struct gr_service_config *cfg, const struct gr_boot_facts *facts, struct gr_buf *out,
                            struct gr_err *err)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    struct gr_jw w = {.out = out, .compact = true};
    gr_jw_object(&w);
    gr_jw_put_string(&w, "status", "ok");
    gr_jw_put_string(&w, "model", cfg->model);
    gr_jw_put_string(&w, "version", cfg->version);
    gr_jw_put_string(&w, "task", "robot policy: camera pictures, joint state and an instruction to a chunk of actions");
    gr_jw_put_string(&w, "layout", cfg->layout);
    gr_jw_put_object(&w, "embodiment");
    gr_jw_put_string(&w, "tag", info->embodiment);
    gr_jw_put_int(&w, "slot", info->embodiment_slot);
    gr_jw_end_object(&w);
    hardware(&w, cfg, facts);
    stage(&w, facts);
    weights(&w, facts);
    source(&w);
    cache(&w, info);
    gr_info_inputs(&w, cfg, facts);
    gr_info_outputs(&w, facts);
    gr_jw_put_object(&w, "noise");
    gr_jw_put_int(&w, "default_seed", GR_DEFAULT_SEED);
    gr_jw_end_object(&w);
    limits(&w, cfg, info);
    device_facts(&w, facts);
    warmup(&w, facts->check);
    policies(&w, facts);
    licenses(&w);
    gr_jw_end_object(&w);
    return out->failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the text of /info") : GR_OK;
}
