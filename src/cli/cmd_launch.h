/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_launch.h: `gr00t serve TARGET`: a package or snapshot started as a process of its own or in a container, watched until it is ready. */
#ifndef GR_CLI_CMD_LAUNCH_H
#define GR_CLI_CMD_LAUNCH_H

#include "cli/cli.h"

/* The options of serve that make sense with a TARGET only. */
struct gr_launch_flags {
    bool print, dry_run, container, detach, no_weights, local_only, force, refresh, no_update_check;
    const char *engine, *profile, *arch;
    struct gr_arg_list env;
};
/* What the word TARGET and the options of the service say. */
struct gr_launch_request {
    const char *target;
    const struct gr_launch_flags *flags;
    struct gr_arg_int port;
    const char *host, *devices;
    const char *const *words; /* for the service */
    int n_words;
};
/* Table rows for a `struct gr_launch_flags` member `m` of options struct `type`. */
#define GR_LAUNCH_FLAG(option, type, field, text)                                          \
    {                                                                                      \
        .name = option, .kind = GR_ARG_FLAG, .offset = offsetof(type, field), .help = text \
    }
#define GR_LAUNCH_ARGS(type, m)                                                                                     \
    GR_LAUNCH_FLAG("print", type, m.print, "TARGET: print the command that would run, and do not run it"),          \
        GR_LAUNCH_FLAG("dry-run", type, m.dry_run, "the same"),                                                     \
        GR_LAUNCH_FLAG("detach", type, m.detach, "TARGET: return as soon as it runs, do not watch the start"),      \
        GR_LAUNCH_FLAG("container", type, m.container, "TARGET: in a container, with docker or else podman"),       \
        {.name = "engine",                                                                                          \
         .kind = GR_ARG_STRING,                                                                                     \
         .offset = offsetof(type, m.engine),                                                                        \
         .value = "NAME",                                                                                           \
         .help = "TARGET: native, docker or podman [native]"},                                                      \
        {.name = "profile",                                                                                         \
         .kind = GR_ARG_STRING,                                                                                     \
         .offset = offsetof(type, m.profile),                                                                       \
         .value = "NAME",                                                                                           \
         .help = "TARGET: serve profile of the package [its default]"},                                             \
        {.name = "env",                                                                                             \
         .kind = GR_ARG_LIST,                                                                                       \
         .offset = offsetof(type, m.env),                                                                           \
         .value = "K=V",                                                                                            \
         .help = "TARGET: variable for the service, over the profile's"},                                           \
        {.name = "arch",                                                                                            \
         .kind = GR_ARG_STRING,                                                                                     \
         .offset = offsetof(type, m.arch),                                                                          \
         .value = "NAME",                                                                                           \
         .help = "TARGET: refuse a package for another chip"},                                                      \
        GR_LAUNCH_FLAG("no-weights", type, m.no_weights, "TARGET: do not fetch weights"),                           \
        GR_LAUNCH_FLAG("local-only", type, m.local_only, "TARGET: fetch nothing at all"),                           \
        GR_LAUNCH_FLAG("force", type, m.force, "TARGET: go on although this machine lacks what the profile wants"), \
        GR_LAUNCH_FLAG("refresh", type, m.refresh, "TARGET: pull the package again first"),                         \
        GR_LAUNCH_FLAG("no-update-check", type, m.no_update_check, "TARGET: accepted; nothing is ever checked")

/* Name of the first of these options that was given, NULL: none. */
const char *gr_launch_flag_given(const struct gr_launch_flags *flags);
enum gr_status gr_launch_verb(struct gr_cli *cli, const struct gr_launch_request *request, struct gr_err *err);

#endif
