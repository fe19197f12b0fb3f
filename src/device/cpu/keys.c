/* SPDX-License-Identifier: Apache-2.0
 *
 * keys.c: what packed weights and plans on disk depend on, as text: a file with another key is not ours. */
#include "device/cpu/keys.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/digest.h"
#include "base/hash.h"
#include "device/plan.h"

enum { DIMS_BYTES = 512, NAME_HEX = 32 };

static void dims_text(const struct gr_dims *d, char out[DIMS_BYTES])
{
    (void)snprintf(
        out, DIMS_BYTES,
        "vision %d %d %d %d, table %d, image %d, grid %d, patches %d, tokens %d; language %d %d %d %d %d %d %d; head %d %d "
        "%d %d %d, out %d, hidden %d, state %d, action %d, horizon %d, slots %d, positions %d, steps %d of %d, text every "
        "%d, time %d",
        d->vit.hidden, d->vit.mlp, d->vit.layers, d->vit.heads, d->vit.table_side, d->vit.image_side, d->vit.grid,
        d->vit.patches, d->vit.tokens, d->llm.hidden, d->llm.mlp, d->llm.layers, d->llm.heads, d->llm.kv_heads,
        d->llm.head_dim, d->llm.vocab, d->dit.layers, d->dit.heads, d->dit.head_dim, d->dit.width, d->dit.mlp,
        d->dit.out, d->dit.hidden, d->dit.max_state, d->dit.max_action, d->dit.horizon, d->dit.slots, d->dit.max_seq,
        d->dit.steps, d->dit.time_buckets, d->dit.text_every, d->dit.time_channels);
}

void gr_key_plan(const struct gr_device_cfg *cfg, const struct gr_dims *d, const char *isa, char out[GR_KEY_BYTES])
{
    char dims[DIMS_BYTES];
    dims_text(d, dims);
    (void)snprintf(out, GR_KEY_BYTES,
                   "plan 1; weights %s %s; calibration %s; program " GR00T_VERSION
                   "; recipe %d; cpu %s, kernels %s; policy %s; half %s; slot %d; %s",
                   cfg->weights_digest, cfg->weights_content, cfg->calibration_digest, GR_RECIPE_EDITION, gr_cpu_name(),
                   isa, cfg->policy, cfg->half != NULL ? cfg->half : "measured", cfg->slot, dims);
}

void gr_key_packed(const struct gr_device *dev, const struct gr_dims *d, const struct cpu_layout *l, const char *step,
                   char out[GR_KEY_BYTES])
{
    char dims[DIMS_BYTES];
    dims_text(d, dims);
    uint64_t formats = 0;
    for (int i = 0; i < l->n; i++) {
        const int32_t f = (int32_t)l->entries[i].format;
        formats = gr_hash64(&f, sizeof f, formats + (uint64_t)i);
    }
    /* Exact weights serve all cameras and groups of joints; what was rounded remembers the observations it was calibrated with. Kernels,
     * because they compute constants and calibration rows. */
    const bool rounded = strcmp(step, "exact") != 0;
    (void)snprintf(out, GR_KEY_BYTES,
                   "weights %s %s; calibration %s; program " GR00T_VERSION
                   "; recipe %d; kernels %s; step %s, formats %016llx; slot %d; panel %d; %s",
                   dev->cfg.weights_digest, dev->cfg.weights_content, rounded ? dev->cfg.calibration_digest : "any",
                   GR_RECIPE_EDITION, dev->kernels.gemm_isa[GR_MAT_F32], step, (unsigned long long)formats,
                   dev->cfg.slot, GR_PANEL, dims);
}

enum gr_status gr_plan_path(const char *dir, const char *key, char out[GR_PATH_BYTES], struct gr_err *err)
{
    char hex[GR_DIGEST_HEX_BYTES], name[64];
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, key, strlen(key));
    GR_TRY(gr_digest_end(d, hex, err));
    (void)snprintf(name, sizeof name, "plan-%.*s.json", NAME_HEX, hex);
    return gr_path_join(out, dir, name, err);
}
