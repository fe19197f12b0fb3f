/* SPDX-License-Identifier: Apache-2.0
 *
 * load.c: fills the store: from the file of packed weights where there is one that fits, else from the checkpoint. The checkpoint's pages
 * are given back as soon as a matrix is packed, so memory never holds both. */
#include "device/cpu/load.h"

#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "device/cpu/choose.h"
#include "device/cpu/constants.h"
#include "device/cpu/keys.h"

enum { READ_AHEAD = 6 /* matrices; some 60 MB at full size */ };

/* Starts reading what entry i packs, so that a snapshot that is not in the page cache comes in large pieces. */
static void read_ahead(const struct cpu_layout *l, int i)
{
    for (int s = 0; i < l->n && s < l->entries[i].pack.n_src; s++) {
        const struct cpu_source *src = &l->entries[i].pack.src[s];
        size_t bytes = src->w->bytes, at = 0;
        if (src->per_slot) {
            bytes /= (size_t)src->w->shape[0];
            at = bytes * (size_t)src->slot;
        }
        gr_fs_map_soon((const char *)src->w->data + at, bytes);
    }
}

enum gr_status gr_load_matrix(struct gr_device *dev, const struct gr_weights *w, const struct cpu_entry *e,
                              struct gr_err *err)
{
    GR_TRY(gr_cpu_pack(dev->pool, &e->pack, err));
    for (int s = 0; s < e->pack.n_src; s++) {
        gr_snapshot_done(w->snap, e->pack.src[s].w);
    }
    return GR_OK;
}

static enum gr_status pack_matrices(struct gr_device *dev, const struct gr_weights *w, const struct cpu_layout *l,
                                    struct gr_err *err)
{
    for (int i = 0; i < READ_AHEAD; i++) {
        read_ahead(l, i);
    }
    for (int i = 0; i < l->n; i++) {
        const struct cpu_entry *e = &l->entries[i];
        read_ahead(l, i + READ_AHEAD);
        GR_TRY(gr_load_matrix(dev, w, e, err));
        if (dev->cfg.progress != NULL) {
            dev->cfg.progress(dev->cfg.progress_user, "pack weights", e->at + e->bytes, l->matrices_end);
        }
    }
    return GR_OK;
}

static enum gr_status widen_vectors(const struct cpu_layout *l, struct gr_err *err)
{
    for (int i = 0; i < l->n_vectors; i++) {
        const struct cpu_vector *v = &l->vectors[i];
        const size_t n = v->t->bytes / gr_dtype_bytes(v->t->dtype);
        gr_tensor_to_f32(v->t, 0, n, v->data);
        GR_TRY(gr_cpu_check_finite(v->data, n, v->t, err));
    }
    return GR_OK;
}

struct finite_job {
    const struct gr_tensor *t;
    _Atomic int64_t bad; /* a row that holds NaN or infinity; -1: none */
};

static void finite_share(int id, int n, void *arg)
{
    struct finite_job *job = arg;
    enum { PIECE = 4096 };
    float x[PIECE];
    const size_t width = (size_t)job->t->shape[1];
    int r0, r1;
    gr_pool_share(id, n, (int)job->t->shape[0], &r0, &r1);
    for (size_t at = (size_t)r0 * width; at < (size_t)r1 * width;) {
        const size_t left = (size_t)r1 * width - at, take = left < PIECE ? left : PIECE;
        gr_tensor_to_f32(job->t, at, take, x);
        if (!gr_cpu_all_finite(x, take)) {
            job->bad = (int64_t)(at / width);
            return;
        }
        at += take;
    }
}

/* The embedding is not packed: its rows are read where they stand. */
static enum gr_status check_embedding(struct gr_device *dev, struct gr_err *err)
{
    struct finite_job job = {.t = &dev->net.embed, .bad = -1};
    gr_pool_run(dev->pool, finite_share, &job);
    return job.bad < 0 ? GR_OK
                       : gr_fail(err, GR_ERR_FORMAT, "tensor %s holds NaN or infinity near row %lld", job.t->name,
                                 (long long)job.bad);
}

/* Placed store from the file that the layout's formats and `step` name. False: none that fits; the store is zeroed then. */
static enum gr_status read_packed(struct gr_device *dev, struct cpu_layout *l, const char *step, bool *found,
                                  struct gr_err *err)
{
    GR_TRY(gr_layout_store(dev, l, &dev->store, err));
    *found = false;
    if (dev->cfg.cache_dir == NULL) {
        return GR_OK;
    }
    char key[GR_KEY_BYTES];
    gr_key_packed(dev, &dev->dims, l, step, key);
    gr_cache_init(&dev->cache, dev->cfg.cache_dir, key);
    *found = gr_cache_read(&dev->cache, dev->store.base, dev->store.bytes);
    return dev->cache.dirty ? gr_layout_store(dev, l, &dev->store, err) : GR_OK;
}

void gr_load_keep(struct gr_device *dev, const struct cpu_layout *l, const char *step)
{
    if (dev->cfg.cache_dir != NULL) {
        char key[GR_KEY_BYTES];
        gr_key_packed(dev, &dev->dims, l, step, key);
        gr_cache_init(&dev->cache, dev->cfg.cache_dir, key);
        gr_cache_write(&dev->cache, dev->store.base, dev->store.bytes);
    }
}

bool gr_load_attention16(const struct gr_dims *dims)
{
    return dims->vit.hidden / dims->vit.heads <= GR_ATTENTION16_WIDTH && dims->dit.head_dim <= GR_ATTENTION16_WIDTH;
}

enum gr_status gr_load_exact(struct gr_device *dev, const struct gr_weights *w, struct cpu_layout *l, bool *warm,
                             struct gr_err *err)
{
    for (int i = 0; i < l->n; i++) {
        l->entries[i].format = l->entries[i].exact.format;
    }
    dev->net.attention16 = false;
    GR_TRY(read_packed(dev, l, "exact", warm, err));
    if (*warm) {
        return GR_OK;
    }
    GR_TRY(check_embedding(dev, err));
    GR_TRY(pack_matrices(dev, w, l, err));
    GR_TRY(widen_vectors(l, err));
    return gr_cpu_constants(dev, w, err);
}

/* ---- a stored choice ---- */

/* Formats of the plan to the layout; false when they are not of this network. */
static bool apply_plan(const struct gr_plan *plan, struct cpu_layout *l)
{
    if (plan->n_matrices != l->n) {
        return false;
    }
    for (int i = 0; i < l->n; i++) {
        enum gr_mat_format f;
        if (strcmp(plan->matrices[i].name, l->entries[i].name) != 0 || !gr_format_find(plan->matrices[i].format, &f)) {
            return false;
        }
        if (gr_mat_exact(f) && f != l->entries[i].exact.format) {
            return false;
        }
        l->entries[i].format = f;
    }
    return true;
}

/* A choice of an earlier start and the weights packed by it. */
static enum gr_status load_chosen(struct gr_device *dev, struct cpu_layout *l, bool *found, struct gr_err *err)
{
    struct gr_err why;
    *found = false;
    if (dev->cfg.cache_dir == NULL || dev->cfg.cache_dir[0] == '\0' || dev->cfg.remeasure) {
        return GR_OK;
    }
    gr_writer_sweep(dev->cfg.cache_dir, "plan-");
    enum gr_status status = gr_cpu_find_plan(&dev->cfg, &dev->dims, &dev->plan, &why);
    if (status != GR_OK) {
        if (status != GR_ERR_IO) { /* IO: there is none, and nothing to say */
            gr_cache_say(&dev->cache, why.msg);
        }
        return GR_OK;
    }
    if (apply_plan(&dev->plan, l)) {
        GR_TRY(read_packed(dev, l, dev->plan.step, found, err));
    }
    if (*found) {
        dev->net.attention16 = strcmp(dev->plan.policy, "exact") != 0 && gr_load_attention16(&dev->dims);
    } else {
        gr_plan_free(&dev->plan);
    }
    return GR_OK;
}

enum gr_status gr_cpu_find_plan(const struct gr_device_cfg *cfg, const struct gr_dims *dims, struct gr_plan *out,
                                struct gr_err *err)
{
    char key[GR_KEY_BYTES], path[GR_PATH_BYTES];
    struct gr_kernels kernels;
    if (cfg->cache_dir == NULL) {
        return gr_fail(err, GR_ERR_IO, "no cache folder");
    }
    gr_kernels_init(&kernels, cfg->cpu_flags);
    gr_key_plan(cfg, dims, kernels.isa, key);
    GR_TRY(gr_plan_path(cfg->cache_dir, key, path, err));
    return gr_plan_read(path, key, out, err);
}

/* ---- load ---- */

static enum gr_status load(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct cpu_layout *l, struct gr_err *err)
{
    bool found;
    GR_TRY(gr_layout_make(dev, w, l, err));
    GR_TRY(gr_cpu_scratch(dev, err));
    GR_TRY(gr_cpu_rotary(dev, err));
    if (strcmp(dev->cfg.policy, "exact") == 0) {
        GR_TRY(gr_load_exact(dev, w, l, &found, err));
        if (!found) {
            gr_load_keep(dev, l, "exact");
        }
        return gr_choose_exact(dev, l, err);
    }
    GR_TRY(load_chosen(dev, l, &found, err));
    return found ? GR_OK : gr_choose(dev, w, calibration, l, err);
}

enum gr_status gr_cpu_load(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                           struct gr_err *err)
{
    struct cpu_layout l = {0};
    dev->dims = w->dims;
    dev->net.embed = w->embed;
    enum gr_status status = load(dev, w, calibration, &l, err);
    gr_layout_free(&l);
    return status;
}
