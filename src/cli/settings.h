/* SPDX-License-Identifier: Apache-2.0
 *
 * settings.h: command-line option, else GR00T_* variable, else default. The only file that reads the environment is
 * settings.c; everything below receives plain values. */
#ifndef GR_CLI_SETTINGS_H
#define GR_CLI_SETTINGS_H

#include <stdbool.h>

#include "base/fs.h"
#include "base/thread_pool.h"
#include "cli/args.h"
#include "gr00t.h"

/* The engine options that several commands share; a member of their options struct. */
struct gr_engine_flags {
    const char *embodiment, *tokenizer, *policy, *device, *cpu;
    struct gr_arg_int threads;
};

/* Table rows for a `struct gr_engine_flags` member `m` of options struct `type`. */
#define GR_ENGINE_ARGS(type, m)                                                                                      \
    {.name = "embodiment",                                                                                           \
     .kind = GR_ARG_STRING,                                                                                          \
     .offset = offsetof(type, m.embodiment),                                                                         \
     .value = "TAG",                                                                                                 \
     .help = "robot in embodiment_id.json [GR00T_EMBODIMENT, gr1]"},                                                 \
        {.name = "tokenizer",                                                                                        \
         .kind = GR_ARG_STRING,                                                                                      \
         .offset = offsetof(type, m.tokenizer),                                                                      \
         .value = "DIR",                                                                                             \
         .help =                                                                                                     \
             "folder with vocab.json and merges.txt [GR00T_TOKENIZER_DIR,\nthe snapshot's tokenizer/, Hub cache of " \
             "Qwen/Qwen3-1.7B]"},                                                                                    \
        {.name = "policy",                                                                                           \
         .kind = GR_ARG_STRING,                                                                                      \
         .offset = offsetof(type, m.policy),                                                                         \
         .value = "NAME",                                                                                            \
         .help = "number formats; exact: fp32 [GR00T_POLICY, exact]"},                                               \
        {.name = "device",                                                                                           \
         .kind = GR_ARG_STRING,                                                                                      \
         .offset = offsetof(type, m.device),                                                                         \
         .value = "NAME",                                                                                            \
         .help = "where to compute [GR00T_DEVICE, cpu]"},                                                            \
        {.name = "cpu",                                                                                              \
         .kind = GR_ARG_STRING,                                                                                      \
         .offset = offsetof(type, m.cpu),                                                                            \
         .value = "SET",                                                                                             \
         .help = "highest instruction set: scalar, avx2, avx512 [GR00T_CPU,\nwhat this CPU has]"},                   \
    {                                                                                                                \
        .name = "threads", .kind = GR_ARG_INT, .offset = offsetof(type, m.threads), .value = "N", .min = 1,          \
        .max = GR_POOL_THREADS_MAX, .help = "compute threads [GR00T_THREADS, CPUs this process may use]"             \
    }

/* Options for gr_policy_open. Pointers go into the flags, the environment and `tokenizer`. */
struct gr_settings {
    struct gr_options engine;
    char tokenizer[GR_PATH_BYTES];
};

/* Fills *out. Looks for the tokenizer in this order: --tokenizer, GR00T_TOKENIZER_DIR, DIR/tokenizer, the Hub cache of
 * Qwen/Qwen3-1.7B. A place that was named must hold vocab.json and merges.txt, or tokenizer.json; when nothing is found the message (GR_ERR_FORMAT)
 * lists every place tried. GR_ERR_USAGE: a variable with an impossible value. */
enum gr_status gr_settings_engine(const char *dir, const struct gr_engine_flags *flags, struct gr_settings *out,
                                  struct gr_err *err);
/* Only the search for the tokenizer; flag may be NULL. */
enum gr_status gr_settings_tokenizer(const char *dir, const char *flag, char out[GR_PATH_BYTES], struct gr_err *err);
/* --embodiment, GR00T_EMBODIMENT, "gr1". */
const char *gr_settings_embodiment(const char *flag);
/* --threads, GR00T_THREADS, 0. */
enum gr_status gr_settings_threads(const struct gr_arg_int *flag, int *out, struct gr_err *err);
/* Folder of the Hub cache: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub,
 * ~/.cache/huggingface/hub. GR_ERR_USAGE when none of them is set. */
enum gr_status gr_settings_hub_root(char out[GR_PATH_BYTES], struct gr_err *err);
/* NO_COLOR is set, or the terminal is dumb. */
bool gr_settings_no_color(void);

#endif
