/* SPDX-License-Identifier: Apache-2.0
 *
 * choose.c: tries the steps of the ladder. Each matrix is quantised once for each format that a step asks for (a variant); a step only
 * points the network to them. What was chosen is then copied, matrix after matrix in order of use, into one store. */
#include "device/cpu/choose.h"

#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "device/cpu/calibrate.h"
#include "device/cpu/keys.h"
#include "device/cpu/load.h"

/* A matrix whose int8 error is this many times the median is an outlier of its network and gets 16 bits. */
static const double OUTLIER = 3.0;

struct variant {
    void *block; /* NULL: not made */
    size_t bytes;
    struct gr_mat mat;
    double error;
};

struct chooser {
    struct gr_device *dev;
    const struct gr_calibration *cal;
    struct cpu_layout *l;
    struct cpu_capture capture;
    const struct gr_weights *w;
    struct variant *variants; /* [l->n][GR_MAT_FORMATS] */
    bool *dropped;            /* [l->n]: the exact matrix was given back once a variant of it was made */
    float *exact;             /* [GR_PLAN_OBSERVATIONS][chunk] */
    float *action;            /* [chunk] */
    size_t chunk;
    enum gr_mat_format half;
    struct gr_err *err;
};

static struct variant *variant_of(const struct chooser *c, int i, enum gr_mat_format f)
{
    return &c->variants[(size_t)i * GR_MAT_FORMATS + f];
}

static void show(const struct chooser *c, const char *what, uint64_t done, uint64_t total)
{
    if (c->dev->cfg.progress != NULL) {
        c->dev->cfg.progress(c->dev->cfg.progress_user, what, done, total);
    }
}

/* ---- formats of this CPU ---- */

static enum gr_status measure_peaks(struct chooser *c)
{
    struct gr_plan *plan = &c->dev->plan;
    double gops[GR_MAT_FORMATS];
    _Static_assert((int)GR_PLAN_PEAKS >= (int)GR_MAT_FORMATS, "a plan has room for the peaks of all formats");
    plan->n_peaks = 0;
    for (int f = 0; f < GR_MAT_FORMATS; f++) {
        gops[f] = c->dev->kernels.peak[f]();
        strcpy(plan->peaks[plan->n_peaks].format, gr_format_name((enum gr_mat_format)f));
        strcpy(plan->peaks[plan->n_peaks].isa, c->dev->kernels.gemm_isa[f]);
        plan->peaks[plan->n_peaks++].gops = gops[f];
    }
    c->half = gr_recipe_half(gops);
    const char *asked = c->dev->cfg.half;
    if (asked != NULL && (!gr_format_find(asked, &c->half) || gr_mat_exact(c->half) || c->half == GR_MAT_I8)) {
        return gr_fail(c->err, GR_ERR_USAGE, "16-bit format \"%s\" is unknown, expected f16, bf16p or i16", asked);
    }
    strcpy(plan->half, gr_format_name(c->half));
    return GR_OK;
}

/* ---- predicts ---- */

static enum gr_status predict(struct chooser *c, int observation, struct cpu_capture *capture, float *action)
{
    struct gr_model_input in;
    GR_TRY(c->cal->input(c->cal->user, observation, &in, c->err));
    struct cpu_run run = {.kernels = &c->dev->kernels, .capture = capture};
    return gr_cpu_predict(c->dev, &run, &in, action, c->err);
}

static enum gr_status run_exact(struct chooser *c)
{
    for (int i = 0; i < GR_PLAN_OBSERVATIONS; i++) {
        show(c, "calibrate", (uint64_t)i, GR_PLAN_OBSERVATIONS);
        GR_TRY(predict(c, i, gr_plan_calibrates(i) ? &c->capture : NULL, c->exact + (size_t)i * c->chunk));
    }
    show(c, "calibrate", GR_PLAN_OBSERVATIONS, GR_PLAN_OBSERVATIONS);
    gr_capture_finish(&c->capture);
    return GR_OK;
}

/* ---- variants ---- */

/* Memory never holds both networks: an exact matrix goes when it has been quantised, and is packed again in the rare case that a later
 * step wants it in another format. */
static void drop_exact(struct chooser *c, int i)
{
    const struct cpu_entry *e = &c->l->entries[i];
    gr_big_drop((void *)(uintptr_t)e->exact.data, e->pack.data_bytes);
    c->dropped[i] = true;
}

static enum gr_status restore_exact(struct chooser *c, int i)
{
    const struct cpu_entry *e = &c->l->entries[i];
    if (!c->dropped[i]) {
        return GR_OK;
    }
    c->dropped[i] = false;
    return gr_load_matrix(c->dev, c->w, e, c->err);
}

static enum gr_status make_variant(struct chooser *c, int i, enum gr_mat_format format)
{
    struct variant *v = variant_of(c, i, format);
    const struct cpu_entry *e = &c->l->entries[i];
    if (v->block != NULL) {
        return GR_OK;
    }
    GR_TRY(restore_exact(c, i));
    struct gr_store s = {.bytes = SIZE_MAX};
    struct gr_quant_parts parts;
    GR_TRY(gr_layout_take(&s, e, format, &parts, c->err));
    v->bytes = s.at;
    GR_TRY(gr_big_alloc(v->bytes, "quantised weights", &v->block, c->err));
    s = (struct gr_store){.base = v->block, .bytes = v->bytes};
    GR_TRY(gr_layout_take(&s, e, format, &parts, c->err));
    const struct gr_quantiser q = {.pool = c->dev->pool,
                                   .kernels = &c->dev->kernels,
                                   .scratch = c->dev->s.thread,
                                   .smooth = true,
                                   .feedback = true,
                                   .bias = true};
    enum gr_status status =
        gr_quantise(&q, &e->exact, &c->capture.of[i].rows, format, &parts, &v->mat, &v->error, c->err);
    drop_exact(c, i);
    if (status == GR_ERR_FORMAT) {
        const struct gr_err why = *c->err;
        return gr_fail(c->err, status, "%s: %s", e->name, why.msg);
    }
    return status;
}

static void free_variant(struct variant *v)
{
    if (v->block != NULL) {
        gr_big_free(v->block, v->bytes);
        v->block = NULL;
    }
}

static enum gr_status make_variants(struct chooser *c)
{
    for (int i = 0; i < c->l->n; i++) {
        GR_TRY(make_variant(c, i, c->l->entries[i].format));
        show(c, "quantise weights", (uint64_t)i + 1, (uint64_t)c->l->n);
    }
    return GR_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Int8 matrices that stand out to 16 bits. */
static enum gr_status guard(struct chooser *c)
{
    double *errors = c->l->n > 0 ? calloc((size_t)c->l->n, sizeof *errors) : NULL;
    if (errors == NULL) {
        return gr_fail(c->err, GR_ERR_NOMEM, "no memory for the errors of %d matrices", c->l->n);
    }
    int n = 0;
    for (int i = 0; i < c->l->n; i++) {
        if (c->l->entries[i].format == GR_MAT_I8) {
            errors[n++] = variant_of(c, i, GR_MAT_I8)->error;
        }
    }
    qsort(errors, (size_t)n, sizeof *errors, by_value);
    const double limit = n > 0 ? OUTLIER * errors[n / 2] : 0.0;
    free(errors);
    for (int i = 0; i < c->l->n; i++) {
        struct cpu_entry *e = &c->l->entries[i];
        if (e->format == GR_MAT_I8 && variant_of(c, i, GR_MAT_I8)->error > limit) {
            e->format = c->half;
        }
    }
    return make_variants(c);
}

/* Points the network to what the recipe asks for. */
static enum gr_status use(struct chooser *c, const struct gr_recipe *r)
{
    for (int i = 0; i < c->l->n; i++) {
        struct cpu_entry *e = &c->l->entries[i];
        e->format = e->exact.k > GR_I8_DEPTH ? c->half : gr_recipe_format(r, c->half, e->part, e->layer, e->layers);
    }
    GR_TRY(make_variants(c));
    if (r->guard) {
        GR_TRY(guard(c));
    }
    for (int i = 0; i < c->l->n; i++) {
        c->l->entries[i].matrix->mat = variant_of(c, i, c->l->entries[i].format)->mat;
    }
    c->dev->net.attention16 = gr_load_attention16(&c->dev->dims);
    gr_prefix_clear(c->dev);
    return GR_OK;
}

/* ---- the ladder ---- */

/* Judges the network as it is on all observations, or up to the first gate that fails when the next step would be tried anyway. */
static enum gr_status judge(struct chooser *c, bool all, struct gr_plan_try *t)
{
    t->judged = 0;
    t->pass = true;
    for (int i = 0; i < GR_PLAN_OBSERVATIONS && (t->pass || all); i++) {
        show(c, "try a policy", (uint64_t)i, GR_PLAN_OBSERVATIONS);
        GR_TRY(predict(c, i, NULL, c->action));
        struct gr_verdict *v = &t->verdict[t->judged++];
        c->cal->judge(c->cal->user, i, c->exact + (size_t)i * c->chunk, c->action, v);
        t->pass = t->pass && (v->pass || !gr_plan_gates(i));
    }
    show(c, "try a policy", GR_PLAN_OBSERVATIONS, GR_PLAN_OBSERVATIONS);
    return GR_OK;
}

static struct gr_plan_try *new_try(struct gr_plan *plan, const char *step)
{
    struct gr_plan_try *t = &plan->tries[plan->n_tries++]; /* recipe.c sees to it that the ladder is no longer */
    *t = (struct gr_plan_try){0};
    strcpy(t->step, step);
    return t;
}

static enum gr_status climb(struct chooser *c, const struct gr_recipe **chosen)
{
    const bool automatic = strcmp(c->dev->cfg.policy, "auto") == 0;
    *chosen = automatic ? gr_recipe_ladder() : gr_recipe_find(c->dev->cfg.policy);
    if (*chosen == NULL) {
        return gr_fail(c->err, GR_ERR_USAGE, "policy \"%s\" is unknown", c->dev->cfg.policy);
    }
    for (; !(*chosen)->exact; (*chosen)++) {
        struct gr_plan_try *t = new_try(&c->dev->plan, (*chosen)->step);
        GR_TRY(use(c, *chosen));
        GR_TRY(judge(c, !automatic, t));
        if (t->pass || !automatic) {
            return GR_OK;
        }
    }
    new_try(&c->dev->plan, (*chosen)->step)->pass = true;
    return GR_OK;
}

/* ---- what was chosen ---- */

/* Copies the variants in use, vectors and constants into a store of their own, which replaces the exact one. */
static enum gr_status collect(struct chooser *c)
{
    struct gr_device *dev = c->dev;
    struct gr_store old = dev->store, fresh = {0};
    const size_t tail = c->l->matrices_end; /* of the exact store */
    enum gr_status status = gr_layout_store(dev, c->l, &fresh, c->err);
    if (status != GR_OK) {
        return status;
    }
    for (int i = 0; i < c->l->n; i++) {
        const struct cpu_entry *e = &c->l->entries[i];
        memcpy((char *)fresh.base + e->at, variant_of(c, i, e->format)->block, e->bytes);
        for (int f = 0; f < GR_MAT_FORMATS; f++) {
            free_variant(variant_of(c, i, (enum gr_mat_format)f));
        }
    }
    memcpy((char *)fresh.base + c->l->matrices_end, (const char *)old.base + tail, old.bytes - tail);
    gr_big_free(old.base, old.bytes);
    dev->store = fresh;
    return GR_OK;
}

static enum gr_status describe(struct gr_device *dev, const struct cpu_layout *l, const struct gr_recipe *r,
                               const struct chooser *c, struct gr_err *err)
{
    struct gr_plan *plan = &dev->plan;
    strcpy(plan->asked, dev->cfg.policy);
    strcpy(plan->policy, r->policy);
    strcpy(plan->step, r->step);
    (void)strncpy(plan->cpu, gr_cpu_name(), sizeof plan->cpu - 1);
    plan->matrices = calloc((size_t)l->n, sizeof *plan->matrices);
    if (plan->matrices == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "no memory for the plan of %d matrices", l->n);
    }
    plan->n_matrices = l->n;
    for (int i = 0; i < l->n; i++) {
        struct gr_plan_matrix *m = &plan->matrices[i];
        const struct cpu_entry *e = &l->entries[i];
        memcpy(m->name, e->name, sizeof m->name);
        strcpy(m->format, gr_format_name(e->format));
        m->error = c != NULL && e->format != e->exact.format ? variant_of(c, i, e->format)->error : 0.0;
    }
    return GR_OK;
}

enum gr_status gr_choose_exact(struct gr_device *dev, const struct cpu_layout *l, struct gr_err *err)
{
    return describe(dev, l, gr_recipe_find("exact"), NULL, err);
}

static void keep_plan(struct gr_device *dev)
{
    char key[GR_KEY_BYTES];
    struct gr_err why; /* the next start chooses again; gr_plan.kept tells */
    if (dev->cfg.cache_dir == NULL || dev->cfg.cache_dir[0] == '\0') {
        return;
    }
    gr_key_plan(&dev->cfg, &dev->dims, dev->kernels.isa, key);
    dev->plan.kept = gr_plan_path(dev->cfg.cache_dir, key, dev->plan.file, &why) == GR_OK &&
                     gr_plan_write(dev->plan.file, key, &dev->plan, &why) == GR_OK;
    if (!dev->plan.kept) {
        gr_cache_say(&dev->cache, why.msg);
        dev->plan.file[0] = '\0';
    }
}

static enum gr_status choose(struct chooser *c)
{
    struct gr_device *dev = c->dev;
    const struct gr_recipe *chosen;
    bool warm;
    GR_TRY(gr_load_exact(dev, c->w, c->l, &warm, c->err));
    GR_TRY(measure_peaks(c));
    GR_TRY(gr_capture_new(c->l, &c->capture, c->err));
    GR_TRY(run_exact(c));
    GR_TRY(climb(c, &chosen));
    if (chosen->exact) {
        for (int i = 0; i < c->l->n; i++) {
            struct cpu_entry *e = &c->l->entries[i];
            GR_TRY(restore_exact(c, i));
            e->format = e->exact.format;
            e->matrix->mat = e->exact;
        }
        dev->net.attention16 = false;
    }
    GR_TRY(describe(dev, c->l, chosen, c, c->err));
    if (!chosen->exact) {
        gr_capture_free(&c->capture);
        GR_TRY(collect(c));
    }
    gr_prefix_clear(dev);
    if (!(chosen->exact && warm)) {
        gr_load_keep(dev, c->l, chosen->step);
    }
    keep_plan(dev);
    return GR_OK;
}

enum gr_status gr_choose(struct gr_device *dev, const struct gr_weights *w, const struct gr_calibration *calibration,
                         struct cpu_layout *l, struct gr_err *err)
{
    struct chooser c = {.dev = dev,
                        .cal = calibration,
                        .w = w,
                        .l = l,
                        .chunk = (size_t)dev->dims.dit.horizon * (size_t)dev->dims.dit.max_action,
                        .err = err};
    c.variants = calloc((size_t)l->n * GR_MAT_FORMATS, sizeof *c.variants);
    c.dropped = calloc((size_t)l->n, sizeof *c.dropped);
    c.exact = calloc((GR_PLAN_OBSERVATIONS + 1) * c.chunk, sizeof *c.exact);
    enum gr_status status;
    if (c.variants == NULL || c.dropped == NULL || c.exact == NULL) {
        status = gr_fail(err, GR_ERR_NOMEM, "no memory for the choice of number formats");
    } else {
        c.action = c.exact + GR_PLAN_OBSERVATIONS * c.chunk;
        status = choose(&c);
    }
    for (size_t i = 0; c.variants != NULL && i < (size_t)l->n * GR_MAT_FORMATS; i++) {
        free_variant(&c.variants[i]);
    }
    gr_capture_free(&c.capture);
    free(c.variants);
    free(c.dropped);
    free(c.exact);
    return status;
}
