/* SPDX-License-Identifier: Apache-2.0
 *
 * services.c: from a word on the command line to what runs, or was stopped. The same word that started a service finds it again, whatever has become of the
 * folder since: what it meant stands in the state file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/launch_target.h"
#include "cli/settings.h"
#include "launch/container.h"
#include "net/http_client.h"

#define ASK_S 0.5 /* a loopback answer takes a millisecond */
enum { LISTED = 4 };

char **gr_launch_environment(void)
{
    int n = 0;
    while (gr_settings_env_at(n) != NULL) {
        n++;
    }
    char **out = calloc((size_t)n + 1, sizeof *out);
    for (int i = 0; i < n && out != NULL; i++) {
        out[i] = (char *)(uintptr_t)gr_settings_env_at(i); /* the type of execve */
    }
    return out;
}

/* ---- what a word means ---- */

/* The name of the package that was pulled as `id`; "" when there is none. */
static void name_of_installed(const struct gr_state_dirs *d, const char *id, char out[128])
{
    struct gr_installed_list list;
    struct gr_manifest m;
    struct gr_err ignored;
    out[0] = '\0';
    if (gr_installed_read(d, &list, &ignored) != GR_OK) {
        return;
    }
    const struct gr_installed *item = gr_installed_find(&list, id);
    if (item != NULL && gr_manifest_read_wire(item->manifest, &m, &ignored) == GR_OK) {
        (void)snprintf(out, 128, "%s", m.name != NULL ? m.name : "");
        gr_manifest_free(&m);
    }
    gr_installed_free(&list);
}

/* The texts that a service's target, package or name may be for this word. */
struct meaning {
    const char *word; /* NULL: all services */
    const char *profile;
    char folder[GR_PATH_BYTES]; /* absolute; of a file the one that it is in; "" */
    char id[GR_HUB_ID_BYTES];
    char package[128]; /* of the repository `id`, for a service that does not say what it was started from */
};

static void understand(const struct gr_state_dirs *d, const char *word, const char *profile, struct meaning *out)
{
    char revision[GR_HUB_REVISION_BYTES];
    struct gr_err ignored;
    *out = (struct meaning){.word = word, .profile = profile};
    if (word == NULL) {
        return;
    }
    if (gr_target_folder(word, out->folder, &ignored) != GR_OK) {
        out->folder[0] = '\0';
        if (gr_hub_parse_id(word, out->id, revision, &ignored) == GR_OK) {
            name_of_installed(d, out->id, out->package);
        } else {
            out->id[0] = '\0';
        }
    }
}

static bool means(const struct meaning *m, const struct gr_running *r)
{
    if (m->profile != NULL && strcmp(r->profile, m->profile) != 0) {
        return false;
    }
    if (m->word == NULL || strcmp(r->name, m->word) == 0 || strcmp(r->target, m->word) == 0) {
        return true;
    }
    return (strchr(m->word, '/') == NULL && strcmp(r->package, m->word) == 0) ||
           (m->folder[0] != '\0' && strcmp(r->target, m->folder) == 0) ||
           (m->id[0] != '\0' && strcmp(r->target, m->id) == 0) ||
           (r->target[0] == '\0' && m->package[0] != '\0' && strcmp(r->package, m->package) == 0);
}

/* ---- finding ---- */

static enum gr_status add(struct gr_running_set *set, const struct gr_running *r, struct gr_err *err)
{
    struct gr_running *items = realloc(set->items, ((size_t)set->n + 1) * sizeof *items);
    if (items == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of services");
    }
    set->items = items;
    set->items[set->n++] = *r;
    return GR_OK;
}

static enum gr_status add_records(const struct gr_state_dirs *d, bool stopped, const struct meaning *m,
                                  struct gr_running_set *set, struct gr_err *err)
{
    int n;
    char(*names)[GR_RUN_NAME_BYTES];
    GR_TRY(stopped ? gr_stopped_list(d, &names, &n, err) : gr_running_list(d, &names, &n, err));
    enum gr_status status = GR_OK;
    for (int i = 0; i < n && status == GR_OK; i++) {
        struct gr_running r;
        struct gr_err why = {0};
        const enum gr_status read =
            stopped ? gr_stopped_read(d, names[i], &r, &why) : gr_running_read(d, names[i], &r, &why);
        if (read == GR_ERR_INPUT) {
            continue; /* stopped between the list and the look */
        }
        if (read != GR_OK) {
            gr_log(GR_LOG_WARN, "%s", why.msg);
        } else if (means(m, &r)) {
            status = add(set, &r, err);
        }
    }
    free(names);
    return status;
}

/* A docker that is podman by another name shows podman's containers too. */
static bool is_podman(char *const *environment)
{
    static const char *const words[] = {"--version", NULL};
    char text[64];
    return gr_container_answer("docker", words, environment, text, sizeof text) && strncmp(text, "podman", 6) == 0;
}

/* Containers with the vendor's labels of which there is no state file. */
static enum gr_status add_others(const struct gr_state_dirs *d, const struct meaning *m, struct gr_running_set *set,
                                 struct gr_err *err)
{
    static bool hangs; /* asked once: some verbs look twice */
    struct gr_running *others = NULL, known;
    struct gr_err ignored;
    int n = 0;
    char **environment = gr_launch_environment();
    enum gr_status status = environment == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory for the environment")
                            : hangs             ? GR_OK
                                                : gr_container_others(environment, &others, &n, err);
    if (status == GR_ERR_BUSY) {
        gr_log(GR_LOG_WARN, "%s", err->msg);
        hangs = true;
        status = GR_OK;
    }
    for (int i = 0; i < n && status == GR_OK; i++) {
        const bool ours = gr_running_read(d, others[i].name, &known, &ignored) == GR_OK &&
                          (strcmp(known.engine, others[i].engine) == 0 ||
                           (strcmp(known.engine, "podman") == 0 && is_podman(environment)));
        if (!ours && means(m, &others[i])) {
            status = add(set, &others[i], err);
        }
    }
    free(others);
    free(environment);
    return status;
}

enum gr_status gr_running_find(const struct gr_state_dirs *d, const char *word, const char *profile,
                               struct gr_running_set *out, struct gr_err *err)
{
    struct meaning m;
    *out = (struct gr_running_set){0};
    understand(d, word, profile, &m);
    enum gr_status status = add_records(d, false, &m, out, err);
    if (status == GR_OK) {
        status = add_others(d, &m, out, err);
    }
    if (status != GR_OK) {
        gr_running_set_free(out);
    }
    return status;
}

void gr_running_set_free(struct gr_running_set *s)
{
    free(s->items);
    *s = (struct gr_running_set){0};
}

/* ---- one of several ---- */

static const char *target_of(const struct gr_running *r) { return r->target[0] != '\0' ? r->target : "another tool"; }

enum gr_status gr_running_one_target(const struct gr_running_set *s, const char *word, char *const *environment,
                                     struct gr_err *err)
{
    const struct gr_running *first = NULL;
    bool several = false;
    char list[GR_ERR_MSG_BYTES] = "";
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        const struct gr_running *r = &s->items[i];
        if (s->n == 1 || !gr_launch_alive(r, environment)) {
            continue;
        }
        const size_t at = strlen(list);
        several = several || (first != NULL && strcmp(first->target, r->target) != 0);
        first = first != NULL ? first : r;
        if (n++ < LISTED) {
            (void)snprintf(list + at, sizeof list - at, "%s%.90s (from %.90s)", n > 1 ? ", " : "", r->name,
                           target_of(r));
        }
    }
    return several
               ? gr_fail(
                     err, GR_ERR_INPUT,
                     "%.80s means services from several targets: %s%s; name the one that is meant by its target, or "
                     "by its own name",
                     word, list, n > LISTED ? ", ..." : "")
               : GR_OK;
}

static enum gr_status pick(const struct gr_running_set *set, const char *word, struct gr_running *out, bool *alive,
                           struct gr_err *err)
{
    int n_alive = 0, at = 0;
    char **environment = gr_launch_environment();
    enum gr_status status = environment == NULL ? gr_fail(err, GR_ERR_NOMEM, "no memory for the environment")
                                                : gr_running_one_target(set, word, environment, err);
    for (int i = 0; i < set->n && status == GR_OK && (set->n > 1 || alive != NULL); i++) {
        if (gr_launch_alive(&set->items[i], environment)) {
            at = i;
            n_alive++;
        }
    }
    free(environment);
    GR_TRY(status);
    if (set->n > 1 && n_alive != 1) {
        return gr_fail(err, GR_ERR_INPUT, "%d services of %.200s are known (%s, %s%s): name one, or its --profile",
                       set->n, word, set->items[0].name, set->items[1].name, set->n > 2 ? ", ..." : "");
    }
    *out = set->items[at];
    if (alive != NULL) {
        *alive = n_alive == 1;
    }
    return GR_OK;
}

static enum gr_status not_known(const char *word, const char *profile, struct gr_err *err)
{
    return gr_fail(err, GR_ERR_INPUT, "no service of %.200s%s%.60s is known; `gr00t ps` lists them", word,
                   profile != NULL ? " with profile " : "", profile != NULL ? profile : "");
}

enum gr_status gr_running_logged(const struct gr_state_dirs *d, const char *word, const char *profile,
                                 struct gr_running *out, bool *stopped, struct gr_err *err)
{
    struct gr_running_set set;
    struct meaning m;
    GR_TRY(gr_running_find(d, word, profile, &set, err));
    *stopped = set.n == 0;
    enum gr_status status = GR_OK;
    if (*stopped) {
        understand(d, word, profile, &m);
        status = add_records(d, true, &m, &set, err);
    }
    if (status == GR_OK) {
        status = set.n > 0 ? pick(&set, word, out, NULL, err) : not_known(word, profile, err);
    }
    gr_running_set_free(&set);
    return status;
}

enum gr_status gr_running_one(const struct gr_state_dirs *d, const char *word, const char *profile,
                              struct gr_running *out, bool *alive, struct gr_err *err)
{
    struct gr_running_set set;
    struct gr_err why = {0};
    bool stopped;
    GR_TRY(gr_running_find(d, word, profile, &set, err));
    enum gr_status status = GR_OK;
    if (set.n > 0) {
        status = pick(&set, word, out, alive, err);
    } else if (gr_running_logged(d, word, profile, out, &stopped, &why) == GR_OK && stopped) {
        status =
            gr_fail(err, GR_ERR_INPUT, "%s is stopped: `gr00t serve %.200s` starts it again", out->name, out->target);
    } else {
        status = not_known(word, profile, err);
    }
    gr_running_set_free(&set);
    return status;
}

int gr_running_ask(const struct gr_running *r)
{
    const struct gr_client_config cfg = {.url = r->url,
                                         .ca_file = r->tls_cert[0] != '\0' ? r->tls_cert : NULL,
                                         .any_name = true,
                                         .connect_s = ASK_S,
                                         .total_s = 2.0 * ASK_S};
    struct gr_client *client = NULL;
    struct gr_client_reply reply = {0};
    struct gr_err ignored;
    const bool answered = gr_client_open(&cfg, &client, &ignored) == GR_OK &&
                          gr_client_send(client, "/ready", NULL, 0, &reply, &ignored) == GR_OK;
    gr_buf_free(&reply.body);
    gr_client_close(client);
    return answered ? reply.status : 0;
}
