/* SPDX-License-Identifier: Apache-2.0
 *
 * installed.c: installed.json, the list of pulled packages. The vendor's tool reads and writes the same file, so entries and fields that are not ours pass
 * through a change as they are. It takes no lock; ours keeps at least our own processes apart. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_copy.h"
#include "launch/launch_state.h"

enum { INSTALLED_MAX_BYTES = 16 << 20 };

/* Root object of the file; *root NULL: there is none. */
static enum gr_status read_root(const struct gr_state_dirs *d, struct gr_json **root, struct gr_err *err)
{
    *root = NULL;
    if (access(d->installed, F_OK) != 0) {
        return GR_OK;
    }
    GR_TRY(gr_json_read(d->installed, INSTALLED_MAX_BYTES, GR_ERR_FORMAT, root, err));
    for (void *it = gr_json_first(*root); it != NULL; it = gr_json_next(*root, it)) {
        if (gr_json_kind(gr_json_value(it)) != GR_JSON_OBJECT) {
            (void)gr_fail(err, GR_ERR_FORMAT, "%s: entry \"%s\" is no object; repair or delete the file", d->installed,
                          gr_json_key(it));
            gr_json_free(*root);
            *root = NULL;
            return err->code;
        }
    }
    if (gr_json_kind(*root) != GR_JSON_OBJECT) {
        gr_json_free(*root);
        *root = NULL;
        return gr_fail(err, GR_ERR_FORMAT, "%s: expected an object of packages; repair or delete the file",
                       d->installed);
    }
    return GR_OK;
}

/* ---- reading ---- */

static void take(const struct gr_json *entry, const char *key, char *out, size_t n)
{
    const struct gr_json *v = gr_json_get(entry, key);
    const char *text = gr_json_kind(v) == GR_JSON_STRING ? gr_json_string(v) : "";
    (void)snprintf(out, n, "%s", strlen(text) < n ? text : "");
}

/* The names stay in the document. */
static bool take_profiles(const struct gr_json *entry, struct gr_strings *out)
{
    const struct gr_json *list = gr_json_get(entry, "profiles");
    const size_t n = gr_json_kind(list) == GR_JSON_ARRAY ? gr_json_len(list) : 0;
    *out = (struct gr_strings){0};
    if (n == 0) {
        return true;
    }
    if ((out->items = calloc(n, sizeof *out->items)) == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct gr_json *v = gr_json_at(list, i);
        if (gr_json_kind(v) == GR_JSON_STRING) {
            out->items[out->n++] = gr_json_string(v);
        }
    }
    return true;
}

enum gr_status gr_installed_read(const struct gr_state_dirs *d, struct gr_installed_list *out, struct gr_err *err)
{
    struct gr_json *root = NULL;
    *out = (struct gr_installed_list){0};
    GR_TRY(read_root(d, &root, err));
    out->memory = root;
    if (gr_json_len(root) == 0) {
        return GR_OK;
    }
    if ((out->items = calloc(gr_json_len(root), sizeof *out->items)) == NULL) {
        gr_installed_free(out);
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of packages");
    }
    for (void *it = gr_json_first(root); it != NULL; it = gr_json_next(root, it)) {
        const struct gr_json *entry = gr_json_value(it);
        struct gr_installed *p = &out->items[out->n];
        if (!gr_hub_is_id(gr_json_key(it))) {
            continue; /* its id becomes paths: what is none stays out */
        }
        (void)snprintf(p->id, sizeof p->id, "%s", gr_json_key(it));
        take(entry, "revision", p->revision, sizeof p->revision);
        take(entry, "arch", p->arch, sizeof p->arch);
        take(entry, "image", p->image, sizeof p->image);
        take(entry, "image_digest", p->image_digest, sizeof p->image_digest);
        take(entry, "image_loaded_id", p->image_loaded_id, sizeof p->image_loaded_id);
        take(entry, "manifest", p->manifest, sizeof p->manifest);
        take(entry, "profile", p->profile, sizeof p->profile);
        if (!take_profiles(entry, &p->profiles)) {
            gr_installed_free(out);
            return gr_fail(err, GR_ERR_NOMEM, "no memory for the list of packages");
        }
        out->n++;
    }
    return GR_OK;
}

void gr_installed_free(struct gr_installed_list *l)
{
    for (int i = 0; i < l->n; i++) {
        free(l->items[i].profiles.items);
    }
    free(l->items);
    gr_json_free(l->memory);
    *l = (struct gr_installed_list){0};
}

const struct gr_installed *gr_installed_find(const struct gr_installed_list *l, const char *id)
{
    for (int i = 0; i < l->n; i++) {
        if (strcmp(l->items[i].id, id) == 0) {
            return &l->items[i];
        }
    }
    return NULL;
}

/* ---- changing ---- */

static void put_text(struct gr_jw *w, const char *key, const char *text)
{
    gr_jw_put_string(w, key, text[0] != '\0' ? text : NULL);
}

static void put_entry(const struct gr_json *before, const struct gr_installed *item, struct gr_jw *w)
{
    static const char *const ours[] = {"repo_id",      "container",       "image",   "revision", "manifest", "arch",
                                       "image_digest", "image_loaded_id", "profile", "profiles", NULL};
    gr_json_rewrite_members(before, ours, w);
    gr_jw_put_string(w, "repo_id", item->id);
    gr_jw_put_bool(w, "container", true);
    put_text(w, "image", item->image);
    put_text(w, "revision", item->revision);
    put_text(w, "manifest", item->manifest);
    put_text(w, "arch", item->arch);
    put_text(w, "image_digest", item->image_digest);
    put_text(w, "image_loaded_id", item->image_loaded_id);
    put_text(w, "profile", item->profile);
    gr_jw_put_array(w, "profiles");
    for (int i = 0; i < item->profiles.n; i++) {
        gr_jw_string(w, item->profiles.items[i]);
    }
    gr_jw_end_array(w);
    gr_jw_end_object(w);
}

/* The file again without `id`, and with `item` unless that is NULL. */
static enum gr_status change(const struct gr_state_dirs *d, const char *id, const struct gr_installed *item,
                             struct gr_err *err)
{
    struct gr_json *root = NULL;
    struct gr_buf text = {0};
    struct gr_jw w = {.out = &text};
    const char *const skip[] = {id, NULL};
    GR_TRY(read_root(d, &root, err));
    gr_json_rewrite_members(root, skip, &w);
    if (item != NULL) {
        gr_jw_key(&w, item->id);
        put_entry(gr_json_get(root, id), item, &w);
    }
    gr_jw_end_object(&w);
    gr_json_free(root);
    enum gr_status status = text.failed ? gr_fail(err, GR_ERR_NOMEM, "no memory for the list of packages")
                                        : gr_state_write(d->installed, &text, err);
    gr_buf_free(&text);
    return status;
}

static enum gr_status change_locked(const struct gr_state_dirs *d, const char *id, const struct gr_installed *item,
                                    struct gr_err *err)
{
    char folder[GR_PATH_BYTES];
    int lock;
    if (!gr_hub_is_id(id)) {
        return gr_fail(err, GR_ERR_USAGE, "\"%.200s\" is no repository, expected ORG/NAME", id);
    }
    (void)snprintf(folder, sizeof folder, "%s", d->installed);
    *strrchr(folder, '/') = '\0';
    GR_TRY(gr_fs_mkdirs(folder, err));
    GR_TRY(gr_state_lock(d->installed, &lock, err));
    enum gr_status status = change(d, id, item, err);
    (void)close(lock);
    return status;
}

enum gr_status gr_installed_put(const struct gr_state_dirs *d, const struct gr_installed *item, struct gr_err *err)
{
    return change_locked(d, item->id, item, err);
}

enum gr_status gr_installed_remove(const struct gr_state_dirs *d, const char *id, struct gr_err *err)
{
    return change_locked(d, id, NULL, err);
}
