/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_ps.c: `gr00t ps`: the services that `serve TARGET` started, and containers of the vendor's tool, each asked what it is doing. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/jsonout.h"
#include "cli/cli.h"
#include "cli/launch_target.h"
#include "cli/table.h"

struct options {
    bool json;
};

static const struct gr_arg args[] = {
    {.name = "json", .kind = GR_ARG_FLAG, .offset = offsetof(struct options, json), .help = "print the list as JSON"},
};

/* "ready", "starting", "running" (it answers, but not as ours does, or has no address), "ended". */
static const char *state_of(const struct gr_running *r, char *const *environment)
{
    if (!gr_launch_alive(r, environment)) {
        return "ended";
    }
    if (r->url[0] == '\0') {
        return "running";
    }
    const int status = gr_running_ask(r);
    return status == 200 ? "ready" : status == 0 || status == 503 ? "starting" : "running";
}

/* Of a container that ended: only an engine remembers it. */
static bool out_of_memory(const struct gr_running *r, const char *state, char *const *environment)
{
    struct gr_killed killed = {0};
    if (strcmp(state, "ended") == 0 && strcmp(r->engine, "native") != 0) {
        gr_launch_killed(r, environment, &killed);
    }
    return killed.memory;
}

static void put_json(const struct gr_running *r, const char *state, bool memory, struct gr_jw *w)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "name", r->name);
    gr_jw_put_string(w, "state", state);
    gr_jw_put_bool(w, "out_of_memory", memory);
    gr_jw_put_string(w, "target", r->target[0] != '\0' ? r->target : NULL);
    gr_jw_put_bool(w, "other", r->other);
    gr_jw_put_string(w, "package", r->package);
    gr_jw_put_string(w, "profile", r->profile);
    gr_jw_put_string(w, "engine", r->engine);
    if (r->pid > 0) {
        gr_jw_put_int(w, "pid", r->pid);
    }
    if (r->port > 0) {
        gr_jw_put_int(w, "port", r->port);
    }
    gr_jw_put_string(w, "url", r->url[0] != '\0' ? r->url : NULL);
    gr_jw_put_string(w, "log", r->log[0] != '\0' ? r->log : NULL);
    gr_jw_end_object(w);
}

static void put_row(const struct gr_running *r, const char *state, bool memory, struct gr_table *t)
{
    gr_table_cell(t, r->name);
    gr_table_cell(t, memory ? "ended, out of memory" : state);
    gr_table_cell(t, r->engine);
    if (r->pid > 0) {
        gr_table_cellf(t, "%ld", (long)r->pid);
    } else {
        gr_table_cell(t, "-");
    }
    gr_table_cell(t, r->url[0] != '\0' ? r->url : "-");
    gr_table_cellf(t, "%s%s", r->target[0] != '\0' ? r->target : r->package,
                   r->other ? " (started by another tool)" : "");
}

static enum gr_status run(struct gr_cli *cli, const void *options, const char *const *words, int n_words,
                          struct gr_err *err)
{
    (void)words;
    (void)n_words;
    const struct options *o = options;
    struct gr_state_dirs dirs;
    struct gr_running_set set;
    struct gr_table table = {.columns = 6, .align = "lllrll"};
    struct gr_jw w = {.out = &cli->out};
    GR_TRY(gr_settings_tool_dirs(&dirs, err));
    GR_TRY(gr_running_find(&dirs, NULL, NULL, &set, err));
    char **environment = gr_launch_environment();
    if (o->json) {
        gr_jw_array(&w);
    } else if (set.n > 0) {
        static const char *const heads[] = {"NAME", "STATE", "ENGINE", "PID", "URL", "TARGET"};
        for (int i = 0; i < table.columns; i++) {
            gr_table_cell(&table, heads[i]);
        }
    }
    for (int i = 0; i < set.n; i++) {
        const char *state = state_of(&set.items[i], environment);
        const bool memory = out_of_memory(&set.items[i], state, environment);
        if (o->json) {
            put_json(&set.items[i], state, memory, &w);
        } else {
            put_row(&set.items[i], state, memory, &table);
        }
    }
    free(environment);
    if (o->json) {
        gr_jw_end_array(&w);
    } else if (set.n == 0) {
        gr_buf_puts(&cli->out, "nothing running; `gr00t serve TARGET` starts a service\n");
    } else {
        gr_table_print(&table, &cli->out);
    }
    gr_running_set_free(&set);
    return GR_OK;
}

const struct gr_command gr_cmd_ps = {
    .name = "ps",
    .summary = "List the services that `serve TARGET` started, and the vendor's tool",
    .synopsis = "[--json]",
    .more =
        "STATE: ready, starting, running (it answers, but is none of ours), ended (`gr00t stop` forgets it; `gr00t logs` shows its\n"
        "log until the next start). Containers that the vendor's tool started in docker are listed too.",
    .args = args,
    .n_args = sizeof args / sizeof args[0],
    .options_bytes = sizeof(struct options),
    .max_words = 0,
    .words = "option",
    .run = run,
};
_Static_assert(sizeof(struct options) <= GR_CLI_OPTIONS_BYTES, "options do not fit");
