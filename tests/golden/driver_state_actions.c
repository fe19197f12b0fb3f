/* SPDX-License-Identifier: Apache-2.0
 *
 * driver_state_actions.c: state encoding and action decoding as a filter, for random_state_actions.py.
 * stdin, a case: uint32 sizes of config.json, processor_config.json, embodiment_id.json, statistics.json and those texts; int32 is_f64;
 * uint32 n and n float64 of state; uint32 n and n float32 of normalised actions.
 * stdout, a case: int32 status of the encoding, then [max_state] float32 when it is 0; int32 status of the decoding, then [steps, dim].
 * Statuses are those of gr_status. Byte order of the machine. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/actions.h"
#include "model/state.h"

/* What the texts hold is ours; only a driver that is out of step could send more. */
enum { MAX_BYTES = 1 << 26 };

static void *get(size_t n)
{
    void *p = n <= MAX_BYTES ? malloc(n + 1) : NULL;
    if (p == NULL || fread(p, 1, n, stdin) != n) {
        fprintf(stderr, "driver_state_actions: input ended early\n");
        exit(1);
    }
    return p;
}

static uint32_t get_u32(void)
{
    uint32_t *p = get(sizeof *p), v = *p;
    free(p);
    return v;
}

static void put(const void *p, size_t n)
{
    if (fwrite(p, 1, n, stdout) != n) {
        exit(1);
    }
}

static void put_result(enum gr_status status, const float *values, size_t n)
{
    int32_t code = (int32_t)status;
    put(&code, sizeof code);
    if (status == GR_OK) {
        put(values, n * sizeof *values);
    }
}

static struct gr_config *get_config(const uint32_t sizes[4])
{
    char *texts[4];
    struct gr_config *cfg = NULL;
    struct gr_err err = {0};
    for (int i = 0; i < 4; i++) {
        texts[i] = get(sizes[i]);
    }
    const struct gr_config_texts t = {.config = {texts[0], sizes[0]},
                                      .processor = {texts[1], sizes[1]},
                                      .embodiment_id = {texts[2], sizes[2]},
                                      .statistics = {texts[3], sizes[3]}};
    if (gr_config_parse(&t, "gr1", &cfg, &err) != GR_OK) {
        fprintf(stderr, "driver_state_actions: %s\n", err.msg);
        exit(1);
    }
    for (int i = 0; i < 4; i++) {
        free(texts[i]);
    }
    return cfg;
}

int main(void)
{
    uint32_t sizes[4];
    while (fread(sizes, sizeof sizes, 1, stdin) == 1) {
        struct gr_config *cfg = get_config(sizes);
        struct gr_err err = {0};
        bool is_f64 = get_u32() != 0;
        uint32_t n_state = get_u32();
        double *state = get(n_state * sizeof *state);
        uint32_t n_normalized = get_u32();
        float *normalized = get(n_normalized * sizeof *normalized);
        size_t n_encoded = (size_t)cfg->dims.dit.max_state,
               n_actions = (size_t)cfg->emb.action_steps * (size_t)cfg->emb.action_dim;
        float *out = malloc((n_encoded + n_actions) * sizeof *out);
        if (out == NULL || n_normalized != (uint32_t)(cfg->dims.dit.horizon * cfg->dims.dit.max_action)) {
            return 1;
        }
        enum gr_status status = gr_state_encode(cfg, state, (int)n_state, is_f64, out, &err);
        put_result(status, out, n_encoded);
        status = gr_actions_decode(cfg, normalized, state, is_f64, out + n_encoded, &err);
        put_result(status, out + n_encoded, n_actions);
        fflush(stdout);
        free(out);
        free(normalized);
        free(state);
        gr_config_free(cfg);
    }
    return 0;
}
