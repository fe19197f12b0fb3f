/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_config.c: config.json, processor_config.json, embodiment_id.json and statistics.json in one input, separated by NUL bytes
 * (missing ones are empty). What loads is used: a state is encoded and actions are decoded with it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model/actions.h"
#include "model/config.h"
#include "model/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The promises of config.h that later size arithmetic stands on. */
static void check(const struct gr_config *cfg)
{
    const struct gr_embodiment *e = &cfg->emb;
    int encoded = 0, actions = 0;
    for (int i = 0; i < e->n_state; i++) {
        encoded += e->state[i].dim * (e->state[i].mode == GR_NORM_SIN_COS ? 2 : 1);
    }
    for (int i = 0; i < e->n_action; i++) {
        actions += e->action[i].dim;
        if (e->action[i].relative && e->action[i].state_offset + e->action[i].dim > e->state_dim) {
            abort();
        }
    }
    if (encoded > cfg->dims.dit.max_state || actions > cfg->dims.dit.max_action ||
        e->action_steps > cfg->dims.dit.horizon || e->slot < 0 || e->slot >= cfg->dims.dit.slots ||
        cfg->dims.vit.tokens * 4 != cfg->dims.vit.patches || cfg->dims.vit.tokens < 1) {
        abort();
    }
}

static void use(const struct gr_config *cfg)
{
    const struct gr_embodiment *e = &cfg->emb;
    size_t n_normalized = (size_t)cfg->dims.dit.horizon * (size_t)cfg->dims.dit.max_action;
    double *state = malloc((size_t)e->state_dim * sizeof *state);
    float *encoded = malloc((size_t)cfg->dims.dit.max_state * sizeof *encoded),
          *normalized = malloc(n_normalized * sizeof *normalized);
    float *actions = malloc((size_t)e->action_steps * (size_t)e->action_dim * sizeof *actions);
    struct gr_err err = {0};
    if (state != NULL && encoded != NULL && normalized != NULL && actions != NULL) {
        for (int i = 0; i < e->state_dim; i++) {
            state[i] = 0.1 * i - 1.0;
        }
        for (size_t i = 0; i < n_normalized; i++) {
            normalized[i] = 0.5f;
        }
        for (int is_f64 = 0; is_f64 < 2; is_f64++) {
            if (gr_state_encode(cfg, state, e->state_dim, is_f64 != 0, encoded, &err) == GR_OK) {
                for (int i = 0; i < cfg->dims.dit.max_state; i++) {
                    if (!isfinite(encoded[i])) {
                        abort();
                    }
                }
            }
            (void)gr_actions_decode(cfg, normalized, state, is_f64 != 0, actions, &err);
        }
    }
    free(state);
    free(encoded);
    free(normalized);
    free(actions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gr_config_text part[4];
    const char *text = (const char *)data, *end = text + size;
    if (size == 0) {
        return 0;
    }
    for (int i = 0; i < 4; i++) {
        const char *stop = i < 3 ? memchr(text, '\0', (size_t)(end - text)) : NULL;
        size_t n = (size_t)((stop != NULL ? stop : end) - text);
        part[i] = (struct gr_config_text){text, n};
        text += n + (stop != NULL);
    }
    const struct gr_config_texts texts = {
        .config = part[0], .processor = part[1], .embodiment_id = part[2], .statistics = part[3]};
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    if (gr_config_parse(&texts, "gr1", &cfg, &err) == GR_OK) {
        check(cfg);
        use(cfg);
        gr_config_free(cfg);
    } else if (err.code == GR_OK || memchr(err.msg, '\0', sizeof err.msg) == NULL || err.msg[0] == '\0') {
        abort();
    }
    return 0;
}
