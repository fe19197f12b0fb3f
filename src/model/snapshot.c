/* SPDX-License-Identifier: Apache-2.0
 *
 * snapshot.c: all weights of a snapshot folder under one name table. The index file and the shards must tell the same story
 * in both directions; what is missing is said before anything big is read. File names in the index are names, not paths. */
#include "model/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/json.h"

static const char index_name[] = "model.safetensors.index.json";
static const char single_name[] = "model.safetensors";
static const char suffix[] = ".safetensors";

enum { INDEX_MAX = 64 << 20 };

struct names {
    char **v; /* sorted, unique, owned */
    size_t n, cap;
};

struct entry {
    const struct gr_tensor *tensor;
    size_t shard;
};

struct gr_snapshot {
    struct names files;             /* the shards, by file name */
    struct gr_safetensors **shards; /* [files.n] */
    struct entry *entries;          /* [count], by tensor name */
    size_t count, bytes;
};

/* ---- lists of names ---- */

static bool names_add(struct names *names, const char *name)
{
    if (names->n == names->cap) {
        size_t cap = names->cap == 0 ? 8 : 2 * names->cap;
        char **v = realloc(names->v, cap * sizeof *v);
        if (v == NULL) {
            return false;
        }
        names->v = v;
        names->cap = cap;
    }
    names->v[names->n] = strdup(name);
    return names->v[names->n++] != NULL;
}

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->n; i++) {
        free(names->v[i]);
    }
    free(names->v);
    *names = (struct names){0};
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void names_sort(struct names *names)
{
    if (names->n < 2) {
        return;
    }
    qsort(names->v, names->n, sizeof *names->v, by_text);
    size_t w = 1;
    for (size_t i = 1; i < names->n; i++) {
        if (strcmp(names->v[i], names->v[w - 1]) == 0) {
            free(names->v[i]);
        } else {
            names->v[w++] = names->v[i];
        }
    }
    names->n = w;
}

/* Position in a sorted list, SIZE_MAX when absent. */
static size_t names_find(const struct names *names, const char *name)
{
    char *const *hit = names->n == 0 ? NULL : bsearch(&name, names->v, names->n, sizeof *names->v, by_text);
    return hit == NULL ? SIZE_MAX : (size_t)(hit - names->v);
}

/* Every name in the folder that holds ".safetensors": shards, and the pieces some tools leave. */
static enum gr_status list_folder(const char *dir, struct names *all, struct gr_err *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "snapshot folder %s: cannot open", dir);
    }
    enum gr_status status = GR_OK;
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (e == NULL) {
            if (errno != 0) {
                status = gr_fail_errno(err, GR_ERR_IO, errno, "snapshot folder %s: cannot read", dir);
            }
            break;
        }
        if (e->d_name[0] != '.' && strstr(e->d_name, suffix) != NULL && !names_add(all, e->d_name)) {
            status = gr_fail(err, GR_ERR_NOMEM, "snapshot folder %s: no memory for its file list", dir);
            break;
        }
    }
    (void)closedir(d);
    names_sort(all);
    return status;
}

/* ---- the index ---- */

static enum gr_status check_file_name(const char *tensor, const char *file, struct gr_err *err)
{
    if (file[0] == '.' || strchr(file, '/') != NULL || strchr(file, '\\') != NULL || strstr(file, "..") != NULL ||
        !gr_ends_with(file, suffix) || strlen(file) > NAME_MAX) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: weight_map.%s is '%s', expected the plain name of a .safetensors file in this folder",
                       index_name, tensor, file);
    }
    return GR_OK;
}

/* Collects the files of weight_map, sorted. */
static enum gr_status index_files(const struct gr_json *index, struct names *files, struct gr_err *err)
{
    const struct gr_json *map = gr_json_get(index, "weight_map");
    if (gr_json_kind(map) != GR_JSON_OBJECT || gr_json_len(map) == 0) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: weight_map is missing or empty, expected an object of tensor name to file name",
                       index_name);
    }
    const char *last = NULL;
    for (void *it = gr_json_first(map); it != NULL; it = gr_json_next(map, it)) {
        const struct gr_json *v = gr_json_value(it);
        if (gr_json_kind(v) != GR_JSON_STRING) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: weight_map.%s is %s, expected a file name", index_name,
                           gr_json_key(it), gr_json_kind_name(gr_json_kind(v)));
        }
        const char *file = gr_json_string(v);
        if (last != NULL && strcmp(file, last) == 0) {
            continue; /* neighbours mostly share a file */
        }
        GR_TRY(check_file_name(gr_json_key(it), file, err));
        if (!names_add(files, file)) {
            return gr_fail(err, GR_ERR_NOMEM, "%s: no memory", index_name);
        }
        last = file;
    }
    names_sort(files);
    return GR_OK;
}

/* metadata.total_size; *known is false when the index does not state it. Some writers make it a real. */
static enum gr_status index_total(const struct gr_json *index, size_t *total, bool *known, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(gr_json_get(index, "metadata"), "total_size");
    *known = v != NULL;
    if (v == NULL) {
        return GR_OK;
    }
    double d = gr_json_is_number(v) ? gr_json_number(v) : -1.0;
    if (!(d >= 0 && d < 0x1p63)) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: metadata.total_size is not a size in bytes", index_name);
    }
    *total = gr_json_kind(v) == GR_JSON_INT ? (size_t)gr_json_int(v) : (size_t)d;
    if (gr_json_kind(v) == GR_JSON_REAL && (double)*total != d) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: metadata.total_size is not a whole number", index_name);
    }
    return GR_OK;
}

/* ---- what the folder lacks or has too much ---- */

/* A link that leads nowhere is there, but broken: opening it explains that better than "missing". */
static bool is_there(const char *dir, const char *file)
{
    char path[GR_PATH_BYTES];
    struct stat st;
    struct gr_err ignored;
    return gr_path_join(path, dir, file, &ignored) == GR_OK && lstat(path, &st) == 0;
}

static size_t count_tensors(const struct gr_json *map, const char *file, const char **first)
{
    size_t n = 0;
    for (void *it = gr_json_first(map); it != NULL; it = gr_json_next(map, it)) {
        if (strcmp(gr_json_string(gr_json_value(it)), file) == 0 && n++ == 0) {
            *first = gr_json_key(it);
        }
    }
    return n;
}

/* Tensor bytes of the shards that are there; false when one of them cannot be read. */
static bool bytes_present(const char *dir, const struct names *files, size_t *sum)
{
    *sum = 0;
    for (size_t i = 0; i < files->n; i++) {
        char path[GR_PATH_BYTES];
        struct gr_safetensors *st = NULL;
        struct gr_err ignored;
        if (!is_there(dir, files->v[i])) {
            continue;
        }
        if (gr_path_join(path, dir, files->v[i], &ignored) != GR_OK ||
            gr_safetensors_open(path, &st, &ignored) != GR_OK) {
            return false;
        }
        for (size_t k = 0; k < gr_safetensors_count(st); k++) {
            *sum += gr_safetensors_at(st, k)->bytes;
        }
        gr_safetensors_close(st);
    }
    return true;
}

/* Files called <shard>.<something> or <shard>-<something>: an unfinished download or a shard cut in pieces. */
static void describe_pieces(const struct names *all, const char *file, char *out, size_t cap)
{
    size_t n = strlen(file), count = 0;
    const char *example = "";
    for (size_t i = 0; i < all->n; i++) {
        if (strncmp(all->v[i], file, n) == 0 && all->v[i][n] != '\0') {
            example = count++ == 0 ? all->v[i] : example;
        }
    }
    out[0] = '\0';
    if (count > 0) {
        (void)snprintf(out, cap, "; there %s %zu piece%s of it (%.80s): unfinished download, or pieces to be joined",
                       count == 1 ? "is" : "are", count, count == 1 ? "" : "s", example);
    }
}

static enum gr_status check_present(const char *dir, const struct gr_json *index, const struct names *files,
                                    const struct names *all, struct gr_err *err)
{
    size_t missing = 0, total = 0, present = 0;
    const char *first = NULL;
    for (size_t i = 0; i < files->n; i++) {
        if (!is_there(dir, files->v[i])) {
            first = missing++ == 0 ? files->v[i] : first;
        }
    }
    if (missing == 0) {
        return GR_OK;
    }
    char size[64] = "", pieces[192];
    bool known = false;
    GR_TRY(index_total(index, &total, &known, err));
    if (known && bytes_present(dir, files, &present) && total >= present) {
        (void)snprintf(size, sizeof size, ", %zu bytes of tensors%s", total - present, missing > 1 ? " in all" : "");
    }
    describe_pieces(all, first, pieces, sizeof pieces);
    const char *tensor = "";
    size_t tensors = count_tensors(gr_json_get(index, "weight_map"), first, &tensor);
    return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: %zu of %zu shards missing: %s (%zu tensors, first %s)%s%s", dir,
                   missing, files->n, first, tensors, tensor, size, pieces);
}

static enum gr_status check_no_extra(const char *dir, const struct names *files, const struct names *all,
                                     struct gr_err *err)
{
    for (size_t i = 0; i < all->n; i++) {
        if (gr_ends_with(all->v[i], suffix) && names_find(files, all->v[i]) == SIZE_MAX) {
            return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: %s is in the folder, but %s", dir, all->v[i],
                           strcmp(files->v[0], single_name) == 0 ? "the model is model.safetensors alone"
                                                                 : "model.safetensors.index.json does not name it");
        }
    }
    return GR_OK;
}

/* ---- shards and name table ---- */

static enum gr_status open_shards(struct gr_snapshot *snap, const char *dir, struct gr_err *err)
{
    snap->shards = calloc(snap->files.n, sizeof(struct gr_safetensors *));
    if (snap->shards == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "snapshot %s: no memory for %zu shards", dir, snap->files.n);
    }
    for (size_t i = 0; i < snap->files.n; i++) {
        char path[GR_PATH_BYTES];
        GR_TRY(gr_path_join(path, dir, snap->files.v[i], err));
        GR_TRY(gr_fs_need_file(path, GR_ERR_FORMAT, err)); /* a link that leads nowhere: an incomplete snapshot */
        GR_TRY(gr_safetensors_open(path, &snap->shards[i], err));
    }
    return GR_OK;
}

static int by_tensor(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static enum gr_status make_table(struct gr_snapshot *snap, const char *dir, struct gr_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < snap->files.n; i++) {
        n += gr_safetensors_count(snap->shards[i]);
    }
    if (n == 0) {
        return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: no tensor in %zu files", dir, snap->files.n);
    }
    snap->entries = calloc(n, sizeof *snap->entries);
    if (snap->entries == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "snapshot %s: no memory for %zu tensors", dir, n);
    }
    for (size_t i = 0; i < snap->files.n; i++) {
        for (size_t k = 0; k < gr_safetensors_count(snap->shards[i]); k++) {
            const struct gr_tensor *t = gr_safetensors_at(snap->shards[i], k);
            snap->entries[snap->count++] = (struct entry){t, i};
            snap->bytes += t->bytes;
        }
    }
    qsort(snap->entries, n, sizeof *snap->entries, by_tensor);
    for (size_t i = 1; i < n; i++) {
        const struct entry *a = &snap->entries[i - 1], *b = &snap->entries[i];
        if (strcmp(a->tensor->name, b->tensor->name) == 0) {
            return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: tensor %s is in two shards, %s and %s", dir,
                           a->tensor->name, snap->files.v[a->shard], snap->files.v[b->shard]);
        }
    }
    return GR_OK;
}

static const struct entry *find_entry(const struct gr_snapshot *snap, const char *name)
{
    struct gr_tensor key = {.name = name};
    struct entry wanted = {&key, 0};
    return bsearch(&wanted, snap->entries, snap->count, sizeof wanted, by_tensor);
}

static enum gr_status check_index(const struct gr_snapshot *snap, const char *dir, const struct gr_json *index,
                                  struct gr_err *err)
{
    const struct gr_json *map = gr_json_get(index, "weight_map");
    for (void *it = gr_json_first(map); it != NULL; it = gr_json_next(map, it)) {
        const char *name = gr_json_key(it), *file = gr_json_string(gr_json_value(it));
        const struct entry *e = find_entry(snap, name);
        if (e == NULL) {
            return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: tensor %s: the index says %s, no shard holds it", dir,
                           name, file);
        }
        if (strcmp(snap->files.v[e->shard], file) != 0) {
            return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: tensor %s: the index says %s, it is in %s", dir, name,
                           file, snap->files.v[e->shard]);
        }
    }
    for (size_t i = 0; i < snap->count; i++) {
        const struct entry *e = &snap->entries[i];
        if (gr_json_get(map, e->tensor->name) == NULL) {
            return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: tensor %s of %s is not in the index", dir, e->tensor->name,
                           snap->files.v[e->shard]);
        }
    }
    size_t total = 0;
    bool known = false;
    GR_TRY(index_total(index, &total, &known, err));
    if (known && total != snap->bytes) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "snapshot %s: the shards hold %zu bytes of tensors, the index says %zu (metadata.total_size)",
                       dir, snap->bytes, total);
    }
    return GR_OK;
}

/* ---- public ---- */

static enum gr_status open_sharded(struct gr_snapshot *snap, const char *dir, const struct names *all,
                                   struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    struct gr_json *index = NULL;
    GR_TRY(gr_path_join(path, dir, index_name, err));
    GR_TRY(gr_json_read(path, INDEX_MAX, GR_ERR_FORMAT, &index, err));
    enum gr_status status = index_files(index, &snap->files, err);
    if (status == GR_OK) {
        status = check_present(dir, index, &snap->files, all, err);
    }
    if (status == GR_OK) {
        status = check_no_extra(dir, &snap->files, all, err);
    }
    if (status == GR_OK) {
        status = open_shards(snap, dir, err);
    }
    if (status == GR_OK) {
        status = make_table(snap, dir, err);
    }
    if (status == GR_OK) {
        status = check_index(snap, dir, index, err);
    }
    gr_json_free(index);
    return status;
}

static enum gr_status open_single(struct gr_snapshot *snap, const char *dir, const struct names *all,
                                  struct gr_err *err)
{
    if (!is_there(dir, single_name)) {
        char found[160] = "no .safetensors file";
        if (all->n > 0) {
            (void)snprintf(found, sizeof found, "%.120s", all->v[0]);
        }
        return gr_fail(err, GR_ERR_FORMAT, "snapshot %s: neither %s nor %s; found %s", dir, index_name, single_name,
                       found);
    }
    if (!names_add(&snap->files, single_name)) {
        return gr_fail(err, GR_ERR_NOMEM, "snapshot %s: no memory", dir);
    }
    GR_TRY(check_no_extra(dir, &snap->files, all, err));
    GR_TRY(open_shards(snap, dir, err));
    return make_table(snap, dir, err);
}

enum gr_status gr_snapshot_open(const char *dir, struct gr_snapshot **out, struct gr_err *err)
{
    struct gr_snapshot *snap = calloc(1, sizeof *snap);
    struct names all = {0};
    if (snap == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "snapshot %s: no memory", dir);
    }
    enum gr_status status = list_folder(dir, &all, err);
    if (status == GR_OK) {
        status = is_there(dir, index_name) ? open_sharded(snap, dir, &all, err) : open_single(snap, dir, &all, err);
    }
    names_free(&all);
    if (status != GR_OK) {
        gr_snapshot_close(snap);
        return status;
    }
    *out = snap;
    return GR_OK;
}

void gr_snapshot_close(struct gr_snapshot *snap)
{
    if (snap == NULL) {
        return;
    }
    for (size_t i = 0; snap->shards != NULL && i < snap->files.n; i++) {
        gr_safetensors_close(snap->shards[i]);
    }
    free(snap->shards);
    free(snap->entries);
    names_free(&snap->files);
    free(snap);
}

size_t gr_snapshot_count(const struct gr_snapshot *snap) { return snap->count; }

const struct gr_tensor *gr_snapshot_at(const struct gr_snapshot *snap, size_t i)
{
    return i < snap->count ? snap->entries[i].tensor : NULL;
}

const struct gr_tensor *gr_snapshot_find(const struct gr_snapshot *snap, const char *name)
{
    const struct entry *e = find_entry(snap, name);
    return e == NULL ? NULL : e->tensor;
}

void gr_snapshot_done(const struct gr_snapshot *snap, const struct gr_tensor *t)
{
    const struct entry *e = find_entry(snap, t->name); /* `t` may be a copy */
    if (e != NULL) {
        gr_safetensors_done(snap->shards[e->shard], e->tensor);
    }
}

/* ---- digest ---- */

/* Blocks of a larger tensor at even distances, the first and the last one among them. */
enum { SAMPLE = 4096, SAMPLES = 18, DIGEST_AHEAD = 8 /* tensors whose blocks are on their way while one is hashed */ };

static size_t sample_count(const struct gr_tensor *t) { return t->bytes <= (size_t)SAMPLE * SAMPLES ? 1 : SAMPLES; }

static const uint8_t *sample_at(const struct gr_tensor *t, size_t i, size_t *n)
{
    const uint8_t *data = t->data;
    if (sample_count(t) == 1) {
        *n = t->bytes;
        return data;
    }
    *n = SAMPLE;
    size_t last = t->bytes - SAMPLE;
    return data + (i == SAMPLES - 1 ? last : last / (SAMPLES - 1) * i);
}

static void add_u64(struct gr_digest *d, uint64_t v)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(v >> 8 * i);
    }
    gr_digest_add(d, bytes, sizeof bytes);
}

static void add_tensor(struct gr_digest *d, const struct gr_tensor *t)
{
    const char *dtype = gr_dtype_name(t->dtype);
    gr_digest_add(d, t->name, strlen(t->name) + 1);
    gr_digest_add(d, dtype, strlen(dtype) + 1);
    add_u64(d, (uint64_t)t->ndim);
    for (int i = 0; i < t->ndim; i++) {
        add_u64(d, (uint64_t)t->shape[i]);
    }
    add_u64(d, t->bytes);
    for (size_t i = 0; i < sample_count(t); i++) {
        size_t n;
        const uint8_t *block = sample_at(t, i, &n);
        if (n > 0) {
            gr_digest_add(d, block, n);
        }
    }
}

static void samples_soon(const struct gr_tensor *t)
{
    for (size_t i = 0; t != NULL && i < sample_count(t); i++) {
        size_t n;
        const uint8_t *block = sample_at(t, i, &n);
        if (n > 0) {
            gr_fs_map_soon(block, n);
        }
    }
}

enum gr_status gr_snapshot_digest(const struct gr_snapshot *snap, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err)
{
    static const char kind[] = "gr00t weights 1";
    struct gr_digest *d;
    GR_TRY(gr_digest_new(GR_SHA256, &d, err));
    gr_digest_add(d, kind, sizeof kind);
    for (size_t i = 0; i < DIGEST_AHEAD; i++) {
        samples_soon(gr_snapshot_at(snap, i));
    }
    for (size_t i = 0; i < snap->count; i++) {
        samples_soon(gr_snapshot_at(snap, i + DIGEST_AHEAD));
        add_tensor(d, snap->entries[i].tensor);
        gr_safetensors_done(snap->shards[snap->entries[i].shard], snap->entries[i].tensor);
    }
    return gr_digest_end(d, hex, err);
}

uint64_t gr_snapshot_state(const struct gr_snapshot *snap)
{
    uint64_t state = 0;
    for (size_t i = 0; i < snap->files.n; i++) {
        const uint64_t one = gr_safetensors_state(snap->shards[i]);
        state = gr_hash64(&one, sizeof one, state);
    }
    return state;
}

int gr_snapshot_shards(const struct gr_snapshot *snap) { return (int)snap->files.n; }

size_t gr_snapshot_bytes(const struct gr_snapshot *snap) { return snap->bytes; }
