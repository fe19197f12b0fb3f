/* SPDX-License-Identifier: Apache-2.0
 *
 * synth.c: writes a synthetic snapshot folder: kind, family and seed in, files out (docs/SYNTHETIC.md).
 *
 * Order matters: all tensor files are complete before the first of them gets its name, and the index, without which nobody
 * loads the folder, is removed before and written last. So a failure while weights are made changes nothing, and one later
 * leaves whole files but no snapshot that looks complete. */
#include "model/synth.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/fs.h"
#include "model/synth_inventory.h"
#include "model/synth_shard.h"
#include "model/synth_side.h"

enum { MAX_THREADS = 256, GOLDEN_SEED = 1600 /* of the committed golden, data/demo/golden */ };
static const char INDEX_NAME[] = "model.safetensors.index.json", SUMS_NAME[] = "SHA256SUMS";

/* All that is written beside the tensors; a tokenizer may also have been put there for a snapshot without one. */
static bool is_side_file(const char *name, enum gr_synth_kind kind)
{
    static const char *const names[] = {
        INDEX_NAME,           SUMS_NAME, "config.json", "processor_config.json", "statistics.json",
        "embodiment_id.json", "LICENSE", "tokenizer"};
    bool found = kind == GR_SYNTH_DEMO && strcmp(name, "demo") == 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || strcmp(name, names[i]) == 0;
    }
    return found;
}

/* A folder with anything else in it is refused, before somebody's download or project is mixed with random weights. Names with a dot in
 * front are what writers, file managers and the Hub's client leave. */
static enum gr_status check_folder(const char *dir, enum gr_synth_kind kind, const struct gr_synth_shard *shards,
                                   size_t n, struct gr_err *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot read the folder", dir);
    }
    enum gr_status status = GR_OK;
    for (struct dirent *e = readdir(d); e != NULL && status == GR_OK; e = readdir(d)) {
        bool ours = e->d_name[0] == '.' || is_side_file(e->d_name, kind);
        for (size_t i = 0; i < n && !ours; i++) {
            ours = strcmp(e->d_name, shards[i].name) == 0;
        }
        if (!ours) {
            status = gr_fail(err, GR_ERR_USAGE,
                             "%s holds %s, which is not part of this snapshot: choose an empty or new folder", dir,
                             e->d_name);
        }
    }
    (void)closedir(d);
    return status;
}

static enum gr_status check_space(const char *dir, uint64_t needed, struct gr_err *err)
{
    struct statvfs fs;
    if (statvfs(dir, &fs) != 0) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot find out the free space", dir);
    }
    const uint64_t available = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (available < needed) {
        return gr_fail(err, GR_ERR_IO, "%s: the snapshot needs %llu bytes, %llu are free", dir,
                       (unsigned long long)needed, (unsigned long long)available);
    }
    return GR_OK;
}

static enum gr_status remove_file(const char *dir, const char *name, struct gr_err *err)
{
    char path[GR_PATH_BYTES];
    GR_TRY(gr_path_join(path, dir, name, err));
    if (unlink(path) != 0 && errno != ENOENT) {
        return gr_fail_errno(err, GR_ERR_IO, errno, "%s: cannot replace", path);
    }
    return GR_OK;
}

static enum gr_status write_snapshot(enum gr_synth_kind kind, bool with_golden, const struct gr_synth_inventory *inv,
                                     struct gr_synth_shard *shards, size_t n, const char *dir,
                                     struct gr_synth_crew *crew, struct gr_err *err)
{
    GR_TRY(check_folder(dir, kind, shards, n, err));
    for (size_t i = 0; i < n; i++) {
        crew->total += shards[i].file_bytes;
    }
    GR_TRY(check_space(dir, crew->total + GR_SYNTH_SIDE_BYTES, err));
    for (size_t i = 0; i < n; i++) {
        GR_TRY(gr_synth_shard_write(&shards[i], dir, crew, err));
    }
    GR_TRY(remove_file(dir, INDEX_NAME, err));
    GR_TRY(remove_file(dir, SUMS_NAME, err));
    for (size_t i = 0; i < n; i++) {
        GR_TRY(gr_synth_shard_publish(&shards[i], err));
    }
    GR_TRY(gr_synth_side_write(kind, inv->config, with_golden, dir, err));
    return gr_synth_index_write(inv, shards, n, dir, err);
}

enum gr_status gr_synth_write(enum gr_synth_kind kind, enum gr_synth_weights weights, uint64_t seed, const char *dir,
                              int threads, gr_progress_fn progress, void *user, struct gr_err *err)
{
    const struct gr_synth_config *config = gr_synth_config_of(kind);
    if (config == NULL || weights > GR_SYNTH_OUTLIERS) {
        return gr_fail(err, GR_ERR_USAGE, "unknown kind of snapshot or weights (%d, %d)", (int)kind, (int)weights);
    }
    if (dir == NULL || dir[0] == '\0') {
        return gr_fail(err, GR_ERR_USAGE, "no folder given for the %s snapshot", config->word);
    }
    threads = threads <= 0 ? gr_cpu_count() : threads;
    threads = threads > MAX_THREADS ? MAX_THREADS : threads;
    const bool with_golden = weights == GR_SYNTH_UNIFORM && seed == GOLDEN_SEED;
    struct gr_synth_inventory inv = {0};
    struct gr_synth_shard *shards = NULL;
    struct gr_synth_crew crew = {0};
    size_t n = 0;
    const bool was_there = gr_fs_is_dir(dir);
    enum gr_status status = gr_fs_mkdirs(dir, err);
    if (status == GR_OK) {
        status = gr_synth_inventory_make(config, &inv, err);
    }
    if (status == GR_OK) {
        status = gr_synth_shards_plan(&inv, &shards, &n, err);
    }
    if (status == GR_OK) {
        status = gr_synth_crew_new(config, weights, seed, threads, &crew, err);
    }
    if (status == GR_OK) {
        crew.progress = progress;
        crew.user = user;
        status = write_snapshot(kind, with_golden, &inv, shards, n, dir, &crew, err);
    }
    gr_synth_crew_free(&crew);
    gr_synth_shards_free(shards, n);
    gr_synth_inventory_free(&inv);
    if (status != GR_OK && !was_there) {
        (void)rmdir(dir); /* only when it is empty */
    }
    return status;
}
