/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h: command-line option, else GR00T_* variable, else default. The only file that reads the environment is
 * settings.c (settings_hub.c and settings_serve.c ask it); everything below receives plain values. */
#ifndef GR_CLI_SETTINGS_H
#define GR_CLI_SETTINGS_H

#include <stdbool.h>

#include "base/fs.h"
#include "base/thread_pool.h"
#include "cli/args.h"
#include "gr00t.h"

/* Value of a variable, NULL when it is not set or empty. */
const char *gr_settings_env(const char *name);
/* Variable i of the environment, "NAME=value"; NULL behind the last one. */
const char *gr_settings_env_at(int i);
/* Warns of every GR00T_ variable that is none of ours. First thing of a command that reads settings: a misspelt one measures the default. */
void gr_settings_unknown_variables(void);
/* text is a, b or c. */
bool gr_settings_one_of(const char *text, const char *a, const char *b, const char *c);
/* For tests: this list, which ends with NULL, takes the place of the environment; NULL: the process's own again. */
void gr_settings_use_env(const char *const *variables);

/* Strict numbers, digits only: GR_ERR_USAGE "NAME is "x", expected ..." for anything else. */
enum gr_status gr_settings_int(const char *name, const char *text, long min, long max, long *out, struct gr_err *err);
enum gr_status gr_settings_real(const char *name, const char *text, double min, double max, double *out,
                                struct gr_err *err);

/* The engine options that several commands share; a member of their options struct. */
struct gr_engine_flags {
    const char *embodiment, *tokenizer, *policy, *half, *device, *cpu, *cache;
    const char *device_id, *sim, *dit_backend, *mk_arena_dtype, *num_cqs; /* settings_card.h */
    bool remeasure, no_prefix_cache;
    struct gr_arg_int threads;
};

/* Table rows for a `struct gr_engine_flags` member `m` of options struct `type`. */
#define GR_ENGINE_ARGS(type, m)                                                                                       \
    {.name = "embodiment",                                                                                            \
     .kind = GR_ARG_STRING,                                                                                           \
     .offset = offsetof(type, m.embodiment),                                                                          \
     .value = "TAG",                                                                                                  \
     .help = "robot in embodiment_id.json [GR00T_EMBODIMENT, gr1]"},                                                  \
        {.name = "tokenizer",                                                                                         \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.tokenizer),                                                                       \
         .value = "DIR",                                                                                              \
         .help =                                                                                                      \
             "folder with vocab.json and merges.txt [GR00T_TOKENIZER_DIR,\nthe snapshot's tokenizer/, Hub cache of "  \
             "Qwen/Qwen3-1.7B]"},                                                                                     \
        {.name = "policy",                                                                                            \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.policy),                                                                          \
         .value = "NAME",                                                                                             \
         .help = "number formats: exact, high, balanced, fast, mixed, fastest, or auto:\nthe fastest that keeps the " \
                 "actions [GR00T_POLICY, auto]"},                                                                     \
        {.name = "half",                                                                                              \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.half),                                                                            \
         .value = "FORMAT",                                                                                           \
         .help = "16-bit format: f16, bf16p, i16 [GR00T_HALF, the fastest measured]"},                                \
        {.name = "remeasure",                                                                                         \
         .kind = GR_ARG_FLAG,                                                                                         \
         .offset = offsetof(type, m.remeasure),                                                                       \
         .help = "measure and choose again, whatever is stored"},                                                     \
        {.name = "no-prefix-cache",                                                                                   \
         .kind = GR_ARG_FLAG,                                                                                         \
         .offset = offsetof(type, m.no_prefix_cache),                                                                 \
         .help = "compute the instruction's text anew in every predict:\nsame bits, slower, for measuring"},          \
        {.name = "cache",                                                                                             \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.cache),                                                                           \
         .value = "DIR",                                                                                              \
         .help = "folder for packed weights and what was measured, or off\n[GR00T_CACHE, ~/.cache/gr00t]"},           \
        {.name = "device",                                                                                            \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.device),                                                                          \
         .value = "NAME",                                                                                             \
         .help = "where to compute: cpu, or blackhole for a Tenstorrent card [GR00T_DEVICE, cpu]"},                   \
        {.name = "device-id",                                                                                         \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.device_id),                                                                       \
         .value = "N",                                                                                                \
         .help = "card: /dev/tenstorrent/N [TT_DEVICE_ID, the first one]"},                                           \
        {.name = "sim",                                                                                               \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.sim),                                                                             \
         .value = "LIB",                                                                                              \
         .help = "card: the simulator instead, libttsim.so [TTSIM_LIB, when no card is named]"},                      \
        {.name = "dit-backend",                                                                                       \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.dit_backend),                                                                     \
         .value = "NAME",                                                                                             \
         .help = "card: megakernel, one launch a predict, or ops, many: same bits [GR00T_DIT_BACKEND,\nmegakernel]"}, \
        {.name = "mk-arena-dtype",                                                                                    \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.mk_arena_dtype),                                                                  \
         .value = "NAME",                                                                                             \
         .help = "card: action head in auto (bfp8_b), bf16, bfp8_b; CPU: policy when none is given\n"                 \
                 "[GR00T_MK_ARENA_DTYPE, auto]"},                                                                     \
        {.name = "num-cqs",                                                                                           \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.num_cqs),                                                                         \
         .value = "N",                                                                                                \
         .help = "card: 2 uploads a request that waits meanwhile, 1 does not: same bits\n[GR00T_NUM_CQS, 2]"},        \
        {.name = "cpu",                                                                                               \
         .kind = GR_ARG_STRING,                                                                                       \
         .offset = offsetof(type, m.cpu),                                                                             \
         .value = "SET",                                                                                              \
         .help = "highest instruction set: scalar, avx2, avxvnni, avx512, avx512vnni,\n"                              \
                 "avx512fp16, avx512bf16, amx [GR00T_CPU, what this CPU has]"},                                       \
    {                                                                                                                 \
        .name = "threads", .kind = GR_ARG_INT, .offset = offsetof(type, m.threads), .value = "N", .min = 1,           \
        .max = GR_POOL_THREADS_MAX, .help = "compute threads [GR00T_THREADS, CPUs this process may use]"              \
    }

/* Options for gr_policy_open. Pointers go into the flags, the environment, `tokenizer` and `cache`. */
struct gr_settings {
    struct gr_options engine;
    char tokenizer[GR_PATH_BYTES], cache[GR_PATH_BYTES];
};

/* Fills *out. Looks for the tokenizer in this order: --tokenizer, GR00T_TOKENIZER_DIR, DIR/tokenizer, the Hub cache of
 * Qwen/Qwen3-1.7B. A place that was named must hold vocab.json and merges.txt, or tokenizer.json; when nothing is found the message (GR_ERR_FORMAT)
 * lists every place tried. GR_ERR_USAGE: a variable with an impossible value. */
enum gr_status gr_settings_engine(const char *dir, const struct gr_engine_flags *flags, struct gr_settings *out,
                                  struct gr_err *err);
/* A tokenizer that nobody has to name: in DIR/tokenizer (dir NULL: no folder), else in the Hub cache. */
bool gr_settings_find_tokenizer(const char *dir, char out[GR_PATH_BYTES]);
/* Only the search for the tokenizer; flag may be NULL. */
enum gr_status gr_settings_tokenizer(const char *dir, const char *flag, char out[GR_PATH_BYTES], struct gr_err *err);
/* --embodiment, GR00T_EMBODIMENT, "gr1". */
const char *gr_settings_embodiment(const char *flag);
/* --threads, GR00T_THREADS, 0. GR_ERR_USAGE: more than 8 a CPU and more than 64. */
enum gr_status gr_settings_threads(const struct gr_arg_int *flag, int *out, struct gr_err *err);
/* Number formats for the engine: --policy, GR00T_POLICY, then what arena (value of GR00T_MK_ARENA_DTYPE, may be NULL) stands for, then
 * "auto", which mixed_dit means too. GR_ERR_USAGE: no such name. */
enum gr_status gr_settings_policy(const char *flag, const char *arena, const char **out, struct gr_err *err);
/* Folder for packed weights: --cache, GR00T_CACHE, GR00T_TT_CACHE, $XDG_CACHE_HOME/gr00t, ~/.cache/gr00t; "" for off, and when none of
 * the variables is set. GR_ERR_USAGE: no folder and not off. */
enum gr_status gr_settings_cache(const char *flag, char out[GR_PATH_BYTES], struct gr_err *err);
/* Folder of the Hub cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
 * ~/.cache/huggingface/hub. GR_ERR_USAGE when none of them is set. */
enum gr_status gr_settings_hub_root(char out[GR_PATH_BYTES], struct gr_err *err);
/* A snapshot in the Hub cache. */
enum { GR_HUB_NAME_BYTES = 256 };
struct gr_hub_place {
    char model[GR_PATH_BYTES]; /* the repository's folder, filled in also on failure; "" when there is no cache */
    char dir[GR_PATH_BYTES];   /* its snapshot */
    char commit[GR_HUB_NAME_BYTES];
};
/* revision: a commit, or a name in refs/; NULL: "main". Nothing is downloaded. GR_ERR_FORMAT says what was looked for and which command would fetch it;
 * GR_ERR_USAGE: repo or revision cannot be one, no cache folder. */
enum gr_status gr_hub_find(const char *repo, const char *revision, struct gr_hub_place *out, struct gr_err *err);

/* Where the weights are. */
struct gr_weights_flags {
    const char *model, *hf_model, *revision;
};
struct gr_weights_place {
    char dir[GR_PATH_BYTES];
    char repo[GR_HUB_NAME_BYTES], revision[GR_HUB_NAME_BYTES]; /* "" when unknown: a folder outside the Hub cache */
};
/* --model, GR00T_WEIGHTS_DIR: a folder; --hf-model, HF_MODEL: a folder, or a repository with --revision, TT_WEIGHTS_REVISION. Statuses of gr_hub_find;
 * GR_ERR_USAGE when nothing was named. */
enum gr_status gr_settings_weights(const struct gr_weights_flags *flags, struct gr_weights_place *out,
                                   struct gr_err *err);

/* The key in file `path`, which --api-key-file named: one word of printable ASCII; white space around it is dropped. malloc'ed.
 * GR_ERR_USAGE: no such word; GR_ERR_IO. */
enum gr_status gr_settings_key(const char *path, char **out, struct gr_err *err);

/* NO_COLOR is set, or the terminal is dumb. */
bool gr_settings_no_color(void);

#endif
