/* SPDX-License-Identifier: Apache-2.0
 *
 * variables.c: the table of environment variables. */
#include "cli/variables.h"

#include <string.h>

#include "cli/args.h"
#include "base/nearest.h"

const struct gr_variable gr_variables[] = {
    {"GR00T_WEIGHTS_DIR", "--model", GR_VARIABLE_USED, NULL, "snapshot folder"},
    {"HF_MODEL", "--hf-model", GR_VARIABLE_USED, NULL, "the same, or a repository in the Hub cache: ORG/NAME"},
    {"TT_WEIGHTS_REVISION", "--revision", GR_VARIABLE_USED, NULL, "commit or branch of that repository [main]"},
    {"GR00T_TOKENIZER_DIR", "--tokenizer", GR_VARIABLE_USED, NULL, "folder of the tokenizer files"},
    {"GR00T_EMBODIMENT", "--embodiment", GR_VARIABLE_USED, NULL, "robot [gr1]"},
    {"GR00T_LAYOUT", "--layout", GR_VARIABLE_USED, NULL, "gr1, gr1_long_text or auto [gr1]"},
    {"GR00T_POLICY", "--policy", GR_VARIABLE_USED, NULL, "number formats; mixed_dit means auto [auto]"},
    {"GR00T_HALF", "--half", GR_VARIABLE_USED, NULL, "16-bit format: f16, bf16p or i16 [the fastest measured]"},
    {"GR00T_DEVICE", "--device", GR_VARIABLE_USED, NULL, "where to compute: cpu or blackhole [cpu]"},
    {"GR00T_CPU", "--cpu", GR_VARIABLE_USED, NULL, "highest instruction set"},
    {"GR00T_THREADS", "--threads", GR_VARIABLE_USED, NULL, "compute threads"},
    {"GR00T_CACHE", "--cache", GR_VARIABLE_USED, NULL, "folder for packed weights, or off [~/.cache/gr00t]"},
    {"GR00T_TT_CACHE", "--cache", GR_VARIABLE_USED, NULL, "the same, when GR00T_CACHE is not set"},
    {"GR00T_WARMUP_RUNS", "--warmup-runs", GR_VARIABLE_USED, NULL, "predicts of the self-check [3]"},
    {"GR00T_WARMUP_PCC_MIN", "--warmup-pcc-min", GR_VARIABLE_USED, NULL, "least correlation with the golden [0.999]"},
    {"GR00T_MK_ARENA_DTYPE", "--mk-arena-dtype", GR_VARIABLE_USED, NULL,
     "card: the action head's weights in bf16 or bfp8_b [auto: bfp8_b]; CPU: policy when --policy gives none: auto, "
     "bf16 (balanced), bfp8_b (mixed)"},
    {"GR00T_VERSION", "--model-version", GR_VARIABLE_CARD, "n16", "model version: only n16"},
    {"GR00T_TRACE_LAYOUT", "--trace-layout", GR_VARIABLE_CARD, "per_stage", "card: how traces are cut: only per_stage"},
    {"GR00T_DIT_BACKEND", "--dit-backend", GR_VARIABLE_CARD, "megakernel",
     "card: megakernel, or ops (ttnn): many launches [megakernel]"},
    {"GR00T_NUM_CQS", "--num-cqs", GR_VARIABLE_CARD, "2", "card: command queues, 1 or 2 [2]"},
    {"TT_MESH_SHAPE", "--mesh-shape", GR_VARIABLE_CARD, "1x1", "card: chips: only 1x1"},
    {"TT_DEVICE_ID", "--device-id", GR_VARIABLE_CARD, "0", "card: which one [the first there is]"},
    {"TT_METAL_VISIBLE_DEVICES", "--visible-devices", GR_VARIABLE_CARD, "0", "card: which ones may be seen [all]"},
    {"TTSIM_LIB", "--sim", GR_VARIABLE_USED, NULL,
     "card: the simulator instead, libttsim.so; ignored with --device-id"},
    {"MESH_DEVICE", NULL, GR_VARIABLE_FOREIGN, NULL, "kind of card"},
    {"ARCH_NAME", NULL, GR_VARIABLE_FOREIGN, NULL, "kind of chip"},
    {"TT_METAL_HOME", NULL, GR_VARIABLE_FOREIGN, NULL, "folder of the card's software"},
    {"TT_METAL_RUNTIME_ROOT", NULL, GR_VARIABLE_FOREIGN, NULL, "the same"},
    {"TT_METAL_CACHE", NULL, GR_VARIABLE_FOREIGN, NULL, "its compiled kernels"},
    {"TT_DIT_CACHE_DIR", NULL, GR_VARIABLE_FOREIGN, NULL, "its packed weights"},
    {"TT_CACHE_PATH", NULL, GR_VARIABLE_FOREIGN, NULL, "its tensors"},
    {"TT_MESH_GRAPH_DESC_PATH", NULL, GR_VARIABLE_FOREIGN, NULL, "its description of the chips"},
    {"HF_HUB_CACHE", NULL, GR_VARIABLE_USED, NULL, "the Hub cache; HUGGINGFACE_HUB_CACHE is the older name"},
    {"HF_HOME", NULL, GR_VARIABLE_USED, NULL, "folder with hub/ in it, when HF_HUB_CACHE is not set"},
    {"XDG_CACHE_HOME", NULL, GR_VARIABLE_USED, NULL, "the user's cache folder [~/.cache]"},
    {"HF_ENDPOINT", NULL, GR_VARIABLE_USED, NULL, "TARGET: the Hub [https://huggingface.co]"},
    {"HF_TOKEN", NULL, GR_VARIABLE_USED, NULL,
     "TARGET: token for it, else the file HF_TOKEN_PATH, else $HF_HOME/token"},
    {"HF_TOKEN_PATH", NULL, GR_VARIABLE_USED, NULL, "TARGET: file with the token"},
    {"HF_HUB_OFFLINE", NULL, GR_VARIABLE_USED, NULL, "TARGET: 1: open no connection, serve what is there"},
    {"HF_HUB_DOWNLOAD_TIMEOUT", NULL, GR_VARIABLE_USED, NULL,
     "TARGET: seconds of silence before a try is given up [10]"},
    {"TT_MODEL_PROGRESS", NULL, GR_VARIABLE_USED, NULL, "TARGET: ndjson: events as JSON lines"},
    {"TT_MODEL_READY_TIMEOUT", NULL, GR_VARIABLE_USED, NULL, "TARGET: seconds until the watch of a start ends [14400]"},
    {"NOTIFY_SOCKET", NULL, GR_VARIABLE_USED, NULL, "systemd: where to say that the start is done"},
    {"LISTEN_FDS", NULL, GR_VARIABLE_USED, NULL, "systemd, with LISTEN_PID: a socket is handed over"},
};
const int gr_n_variables = sizeof gr_variables / sizeof gr_variables[0];

/* Of this program's tests, which start it with them. */
static const char *const of_tests[] = {"GR00T_BIN", "GR00T_SOURCE_ROOT", "GR00T_SHARED", "GR00T_EXAMPLE"};

void gr_variables_help(struct gr_buf *out)
{
    gr_buf_puts(out, "Variables, each with the option that goes before it\n");
    for (int i = 0; i < gr_n_variables; i++) {
        const struct gr_variable *v = &gr_variables[i];
        gr_buf_printf(out, "  %-24s %-17s %s", v->name, v->flag != NULL ? v->flag : "", v->meaning);
        if (v->kind == GR_VARIABLE_CARD && strstr(v->meaning, ": only ") == NULL) {
            gr_buf_printf(out, "; on the CPU only %s", v->accepted);
        }
        gr_buf_puts(out, v->kind == GR_VARIABLE_FOREIGN ? "; not looked at\n" : "\n");
    }
}

static const char *name_at(const void *ctx, int i)
{
    (void)ctx;
    return gr_variables[i].name;
}

const char *gr_variable_near(const char *name, bool *known)
{
    *known = false;
    for (size_t i = 0; i < sizeof of_tests / sizeof of_tests[0]; i++) {
        *known = *known || strcmp(name, of_tests[i]) == 0;
    }
    for (int i = 0; i < gr_n_variables; i++) {
        *known = *known || strcmp(name, gr_variables[i].name) == 0;
    }
    return *known ? NULL : gr_nearest(name, GR_ARG_EDITS, name_at, NULL, gr_n_variables);
}
