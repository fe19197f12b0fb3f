/* SPDX-License-Identifier: Apache-2.0
 *
 * inspect_data.c: reads a snapshot folder as the engine would, up to the point where weights would be packed. */
#include "cli/inspect_data.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "model/weights.h"

const char *gr_part_name(enum gr_part part)
{
    static const char *const names[GR_PARTS] = {"vision", "connector", "language", "action head", "unused"};
    return names[part];
}

static int by_name(const void *a, const void *b)
{
    const struct gr_inspect_file *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static enum gr_status add_file(const char *dir, const char *name, struct gr_inspect *in, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct stat st;
    GR_TRY(gr_path_join(path, dir, name, err));
    if (name[0] == '.' || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        return GR_OK;
    }
    struct gr_inspect_file *files = realloc(in->files, (in->n_files + 1) * sizeof *files);
    char *copy = strdup(name);
    if (files != NULL) {
        in->files = files;
    }
    if (files == NULL || copy == NULL) {
        free(copy);
        return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for the list of files", dir);
    }
    in->files[in->n_files++] = (struct gr_inspect_file){copy, (uint64_t)st.st_size};
    return GR_OK;
}

enum gr_status gr_inspect_files(const char *dir, struct gr_inspect *in, struct gr_err *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot list", dir);
    }
    enum gr_status status = GR_OK;
    for (struct dirent *e; status == GR_OK && (e = readdir(d)) != NULL;) {
        status = add_file(dir, e->d_name, in, err);
    }
    closedir(d);
    if (in->n_files > 1) {
        qsort(in->files, in->n_files, sizeof *in->files, by_name);
    }
    return status;
}

/* One line about an embodiment: what it takes and returns, or why it cannot be used. */
static char *describe_tag(const char *dir, const char *tag, bool *usable)
{
    struct gr_config *c = NULL;
    struct gr_err err;
    char text[GR_ERR_MSG_BYTES + 32];
    *usable = gr_config_open(dir, tag, &c, &err) == GR_OK;
    if (*usable) {
        const struct gr_embodiment *e = &c->emb;
        snprintf(text, sizeof text, "%d camera%s x %d, state %d, chunk %d x %d", e->n_cameras,
                 e->n_cameras == 1 ? "" : "s", e->frames_per_camera, e->state_dim, e->action_steps, e->action_dim);
    } else {
        snprintf(text, sizeof text, "not usable: %s", err.msg);
    }
    gr_config_free(c);
    return strdup(text);
}

enum gr_status gr_inspect_config(const char *dir, const char *tag, struct gr_inspect *in, struct gr_err *err)
{
    GR_TRY(gr_config_open(dir, tag, &in->config, err));
    size_t n = (size_t)in->config->n_tags;
    in->tag_usable = calloc(n + 1, sizeof *in->tag_usable);
    in->tag_notes = calloc(n + 1, sizeof *in->tag_notes);
    if (in->tag_usable == NULL || in->tag_notes == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu embodiments", n);
    }
    for (size_t i = 0; i < n; i++) {
        if (in->config->tag_usable[i]) {
            in->tag_notes[i] = describe_tag(dir, in->config->tags[i], &in->tag_usable[i]);
        } else {
            in->tag_notes[i] = strdup("no modality configuration or statistics");
        }
        if (in->tag_notes[i] == NULL) {
            return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu embodiments", n);
        }
    }
    return GR_OK;
}

static bool starts(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

static enum gr_part part_of(const char *name)
{
    static const struct {
        const char *prefix;
        enum gr_part part;
    } prefixes[] = {{"backbone.model.vision_model.", GR_PART_VISION},
                    {"backbone.model.mlp1.", GR_PART_CONNECTOR},
                    {"backbone.model.language_model.", GR_PART_LANGUAGE},
                    {"action_head.", GR_PART_ACTION}};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (starts(name, prefixes[i].prefix)) {
            return prefixes[i].part;
        }
    }
    return GR_PART_UNUSED;
}

/* A name that finds no memory is left out: the error of gr_weights_open counts it all the same. */
static void add_missing(void *user, const char *name)
{
    struct gr_inspect *in = user;
    char **names = realloc(in->missing, (in->n_missing + 1) * sizeof *names);
    if (names == NULL) {
        return;
    }
    in->missing = names;
    names[in->n_missing] = strdup(name);
    in->n_missing += names[in->n_missing] != NULL;
}

enum gr_status gr_inspect_snapshot(const char *dir, struct gr_inspect *in, struct gr_err *err)
{
    struct gr_weights *w = NULL;
    GR_TRY(gr_snapshot_open(dir, &in->snapshot, err));
    GR_TRY(gr_weights_open(in->snapshot, in->config, add_missing, in, &w, err));
    size_t n = gr_snapshot_count(in->snapshot);
    in->unused = calloc(n + 1, sizeof *in->unused);
    if (in->unused == NULL) {
        gr_weights_free(w);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for %zu tensor names", n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct gr_tensor *t = gr_snapshot_at(in->snapshot, i);
        enum gr_part part = gr_weights_uses(w, t->name) ? part_of(t->name) : GR_PART_UNUSED;
        in->dtypes[t->dtype]++;
        in->parts[part].tensors++;
        in->parts[part].bytes += t->bytes;
        if (part == GR_PART_UNUSED) {
            in->unused[in->n_unused++] = t->name;
        }
    }
    gr_weights_free(w);
    return GR_OK;
}

void gr_inspect_free(struct gr_inspect *in)
{
    for (size_t i = 0; i < in->n_files; i++) {
        free(in->files[i].name);
    }
    for (int i = 0; in->config != NULL && in->tag_notes != NULL && i < in->config->n_tags; i++) {
        free(in->tag_notes[i]);
    }
    for (size_t i = 0; i < in->n_missing; i++) {
        free(in->missing[i]);
    }
    free(in->missing);
    free(in->files);
    free(in->tag_usable);
    free(in->tag_notes);
    free(in->unused);
    gr_config_free(in->config);
    gr_snapshot_close(in->snapshot);
    *in = (struct gr_inspect){0};
}
