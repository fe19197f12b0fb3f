/* SPDX-License-Identifier: Apache-2.0
 *
 * embodiment.c: slot, cameras, joint groups and statistics of one embodiment tag.
 * In: embodiment_id.json, processor_kwargs.modality_configs of processor_config.json, statistics.json. Out: cfg->emb.
 * Only the chosen embodiment is checked: a published snapshot carries others that it has no statistics for, or whose action types
 * we do not implement. The width of a group is the length of its `min` table; nothing else in the files says it. */
#include "model/embodiment.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/config_read.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { MAX_GROUPS = 256, MAX_CAMERAS = 64, MAX_FRAMES = 64, MAX_GROUP_DIM = 4096, MAX_TAGS = 4096 };

/* ------------------------------------------------------------------------------------------------- tables */

/* Six tables of one group, [dim] or [steps, dim]; q01 and q99 may be NULL. */
enum { T_MIN, T_MAX, T_MEAN, T_STD, T_Q01, T_Q99, N_TABLES };
static const char *const table_keys[N_TABLES] = {"min", "max", "mean", "std", "q01", "q99"};

struct tables {
    int steps, dim; /* steps 0: flat */
    const double *t[N_TABLES];
};

static enum gr_status read_row(const struct gr_scope *s, const char *where, const struct gr_json *row, int dim,
                               double *out, struct gr_err *err)
{
    if (gr_json_kind(row) != GR_JSON_ARRAY || gr_json_len(row) != (size_t)dim) {
        return gr_scope_fail(s, where, row, err, "expected an array of %d numbers", dim);
    }
    for (int i = 0; i < dim; i++) {
        const struct gr_json *v = gr_json_at(row, (size_t)i);
        /* Beyond float32 every result would be infinite. */
        if (!gr_json_is_number(v) || !(fabs(gr_json_number(v)) <= (double)FLT_MAX)) {
            char item[96];
            (void)snprintf(item, sizeof item, "%.64s[%d]", where, i);
            return gr_scope_fail(s, item, v, err, "expected a number that is finite in float32");
        }
        out[i] = gr_json_number(v);
    }
    return GR_OK;
}

static enum gr_status read_table(const struct gr_scope *s, const char *key, const struct tables *shape,
                                 const double **out, struct gr_err *err)
{
    const struct gr_json *v = gr_json_get(s->object, key);
    int rows = shape->steps == 0 ? 1 : shape->steps;
    double *table = gr_config_alloc(s->cfg, (size_t)rows * (size_t)shape->dim, sizeof *table, err);
    if (table == NULL) {
        return GR_ERR_NOMEM;
    }
    *out = table;
    if (v == NULL) {
        return gr_scope_fail(s, key, v, err, "expected an array of numbers");
    }
    if (shape->steps == 0) {
        return read_row(s, key, v, shape->dim, table, err);
    }
    if (gr_json_kind(v) != GR_JSON_ARRAY || gr_json_len(v) != (size_t)shape->steps) {
        return gr_scope_fail(s, key, v, err, "expected an array of %d rows, one a step of the action", shape->steps);
    }
    for (int r = 0; r < shape->steps; r++) {
        char where[64];
        (void)snprintf(where, sizeof where, "%s[%d]", key, r);
        GR_TRY(read_row(s, where, gr_json_at(v, (size_t)r), shape->dim, table + (ptrdiff_t)r * shape->dim, err));
    }
    return GR_OK;
}

/* lo <= hi, element by element. */
static enum gr_status check_order(const struct gr_scope *s, const struct tables *t, int lo, int hi, struct gr_err *err)
{
    int n = t->dim * (t->steps == 0 ? 1 : t->steps);
    for (int i = 0; i < n; i++) {
        if (t->t[lo][i] > t->t[hi][i]) {
            char at[48];
            if (t->steps == 0) {
                (void)snprintf(at, sizeof at, "[%d]", i);
            } else {
                (void)snprintf(at, sizeof at, "[%d][%d]", i / t->dim, i % t->dim);
            }
            return gr_fail(err, GR_ERR_FORMAT, "%s: %s%s%s is %.10g, expected at most %s%s %.10g", s->file, s->path,
                           table_keys[lo], at, t->t[lo][i], table_keys[hi], at, t->t[hi][i]);
        }
    }
    return GR_OK;
}

static enum gr_status check_std(const struct gr_scope *s, const struct tables *t, struct gr_err *err)
{
    int n = t->dim * (t->steps == 0 ? 1 : t->steps);
    for (int i = 0; i < n; i++) {
        if (t->t[T_STD][i] < 0.0) {
            return gr_fail(err, GR_ERR_FORMAT, "%s: %sstd has %.10g at index %d, expected 0 or more", s->file, s->path,
                           t->t[T_STD][i], i);
        }
    }
    return GR_OK;
}

/* The tables of one group inside `modality` ("gr1.state."). steps 0: flat. dim 0: the file says it. */
static enum gr_status read_tables(const struct gr_scope *modality, const char *group, int steps, int dim,
                                  bool percentiles, struct tables *out, struct gr_err *err)
{
    struct gr_scope s;
    GR_TRY(gr_scope_enter(modality, group, &s, err));
    *out = (struct tables){.steps = steps, .dim = dim};
    if (dim == 0) {
        const struct gr_json *min = gr_json_get(s.object, "min");
        size_t n = gr_json_len(min);
        if (gr_json_kind(min) != GR_JSON_ARRAY || n < 1 || n > MAX_GROUP_DIM) {
            return gr_scope_fail(&s, "min", min, err, "expected an array of 1..%d numbers", MAX_GROUP_DIM);
        }
        out->dim = (int)n;
    }
    for (int i = 0; i < N_TABLES; i++) {
        const struct gr_json *v = gr_json_get(s.object, table_keys[i]);
        bool needed = i < T_Q01 || percentiles;
        if (needed || gr_json_kind(v) != GR_JSON_NULL) {
            GR_TRY(read_table(&s, table_keys[i], out, &out->t[i], err));
        }
    }
    GR_TRY(check_order(&s, out, T_MIN, T_MAX, err));
    if (out->t[T_Q01] != NULL && out->t[T_Q99] != NULL) {
        GR_TRY(check_order(&s, out, T_Q01, T_Q99, err));
    }
    return check_std(&s, out, err);
}

static void use_tables(struct gr_group_config *g, const struct tables *t, bool percentiles)
{
    g->dim = t->dim;
    g->per_step = t->steps != 0;
    g->lo = t->t[percentiles ? T_Q01 : T_MIN];
    g->hi = t->t[percentiles ? T_Q99 : T_MAX];
    g->mean = t->t[T_MEAN];
    g->std = t->t[T_STD];
}

/* ------------------------------------------------------------------------------------- modality configs */

/* Known keys of one modality; others are listed. */
static enum gr_status enter_modality(const struct gr_scope *embodiment, const char *name, struct gr_scope *out,
                                     struct gr_err *err)
{
    GR_TRY(gr_scope_enter(embodiment, name, out, err));
    const struct gr_rule rules[] = {
        {.key = "delta_indices", .kind = GR_RULE_ELSEWHERE},
        {.key = "modality_keys", .kind = GR_RULE_ELSEWHERE},
        {.key = "sin_cos_embedding_keys", .kind = GR_RULE_ELSEWHERE},
        {.key = "mean_std_embedding_keys", .kind = GR_RULE_ELSEWHERE},
        {.key = "action_configs", .kind = GR_RULE_ELSEWHERE},
    };
    return gr_scope_apply(out, rules, COUNT(rules), NULL, err);
}

/* 1..max integers: 0, 1, 2 ... or (video) rising up to 0. */
static enum gr_status read_deltas(const struct gr_scope *s, int max, bool from_zero, int *n, struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(s->object, "delta_indices");
    size_t len = gr_json_len(list);
    if (gr_json_kind(list) != GR_JSON_ARRAY || len < 1 || len > (size_t)max) {
        return gr_scope_fail(s, "delta_indices", list, err, "expected an array of 1..%d integers", max);
    }
    int64_t before = 0;
    for (size_t i = 0; i < len; i++) {
        const struct gr_json *v = gr_json_at(list, i);
        char where[48];
        (void)snprintf(where, sizeof where, "delta_indices[%zu]", i);
        if (gr_json_kind(v) != GR_JSON_INT) {
            return gr_scope_fail(s, where, v, err, "expected an integer");
        }
        if (from_zero && gr_json_int(v) != (int64_t)i) {
            return gr_scope_fail(s, where, v, err, "supported: %zu (0, 1, 2 ... without gaps)", i);
        }
        if (!from_zero && (gr_json_int(v) > 0 || (i > 0 && gr_json_int(v) <= before))) {
            return gr_scope_fail(s, where, v, err, "expected rising times up to 0");
        }
        before = gr_json_int(v);
    }
    *n = (int)len;
    return GR_OK;
}

/* The groups named under `key` (null and absent: none) get `mark` as their mode. */
static enum gr_status mark_groups(const struct gr_scope *s, const char *key, struct gr_group_config *groups, int n,
                                  bool apply, enum gr_norm_mode mark, struct gr_err *err)
{
    const struct gr_json *list = gr_json_get(s->object, key);
    if (gr_json_kind(list) == GR_JSON_NULL) {
        return GR_OK;
    }
    if (gr_json_kind(list) != GR_JSON_ARRAY) {
        return gr_scope_fail(s, key, list, err, "expected null or an array of group names");
    }
    for (size_t i = 0; i < gr_json_len(list); i++) {
        const struct gr_json *v = gr_json_at(list, i);
        int g = 0;
        while (g < n && (gr_json_kind(v) != GR_JSON_STRING || strcmp(groups[g].name, gr_json_string(v)) != 0)) {
            g++;
        }
        if (g == n) {
            char where[64];
            (void)snprintf(where, sizeof where, "%s[%zu]", key, i);
            return gr_scope_fail(s, where, v, err, "expected a group of modality_keys");
        }
        if (apply) {
            groups[g].mode = mark;
        }
    }
    return GR_OK;
}

static enum gr_status new_groups(const struct gr_scope *s, struct gr_group_config **groups, int *n, struct gr_err *err)
{
    const char **names = NULL;
    GR_TRY(gr_scope_names(s, "modality_keys", MAX_GROUPS, &names, n, err));
    *groups = gr_config_alloc(s->cfg, (size_t)*n, sizeof **groups, err);
    if (*groups == NULL) {
        return GR_ERR_NOMEM;
    }
    for (int i = 0; i < *n; i++) {
        (*groups)[i].name = names[i];
        (*groups)[i].mode = GR_NORM_MIN_MAX;
    }
    return GR_OK;
}

static enum gr_status read_video(const struct gr_scope *embodiment, struct gr_embodiment *e, struct gr_err *err)
{
    struct gr_scope s;
    GR_TRY(enter_modality(embodiment, "video", &s, err));
    GR_TRY(read_deltas(&s, MAX_FRAMES, false, &e->frames_per_camera, err));
    GR_TRY(gr_scope_names(&s, "modality_keys", MAX_CAMERAS, &e->cameras, &e->n_cameras, err));
    int tokens = s.cfg->dims.vit.tokens, images = e->n_cameras * e->frames_per_camera;
    if (images * tokens > GR_MAX_POSITIONS) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: %s%d cameras x %d frames x %d image tokens exceed the language model's %d positions",
                       s.file, s.path, e->n_cameras, e->frames_per_camera, tokens, GR_MAX_POSITIONS);
    }
    return GR_OK;
}

static enum gr_status read_state(const struct gr_scope *embodiment, const struct gr_scope *stats,
                                 struct gr_embodiment *e, struct gr_err *err)
{
    struct gr_config *cfg = embodiment->cfg;
    struct gr_scope s, tables_of;
    int times = 0, encoded = 0;
    GR_TRY(enter_modality(embodiment, "state", &s, err));
    GR_TRY(read_deltas(&s, 1, true, &times, err));
    GR_TRY(new_groups(&s, &e->state, &e->n_state, err));
    /* Sine/cosine goes before mean/std where a group is in both lists. */
    GR_TRY(mark_groups(&s, "mean_std_embedding_keys", e->state, e->n_state, true, GR_NORM_MEAN_STD, err));
    GR_TRY(mark_groups(&s, "sin_cos_embedding_keys", e->state, e->n_state, cfg->apply_sincos_state_encoding,
                       GR_NORM_SIN_COS, err));
    GR_TRY(gr_scope_enter(stats, "state", &tables_of, err));
    for (int i = 0; i < e->n_state; i++) {
        struct gr_group_config *g = &e->state[i];
        struct tables t;
        GR_TRY(read_tables(&tables_of, g->name, 0, 0, cfg->use_percentiles, &t, err));
        use_tables(g, &t, cfg->use_percentiles);
        g->state_index = i;
        g->state_offset = e->state_dim;
        e->state_dim += g->dim;
        encoded += g->mode == GR_NORM_SIN_COS ? 2 * g->dim : g->dim;
    }
    if (encoded > cfg->dims.dit.max_state) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: the state groups of %s encode to %d numbers, expected at most max_state_dim %d",
                       tables_of.file, e->tag, encoded, cfg->dims.dit.max_state);
    }
    return GR_OK;
}

/* One entry of action_configs; says whether the group is relative and which state group it is relative to. */
static enum gr_status read_action_config(const struct gr_scope *action, const struct gr_json *v, int i,
                                         struct gr_embodiment *e, struct gr_err *err)
{
    struct gr_group_config *g = &e->action[i];
    struct gr_scope s = {.cfg = action->cfg, .file = action->file, .object = v};
    char where[48];
    (void)snprintf(where, sizeof where, "action_configs[%d]", i);
    (void)snprintf(s.path, sizeof s.path, "%.200s%s.", action->path, where);
    if (gr_json_kind(v) != GR_JSON_OBJECT) {
        return gr_scope_fail(action, where, v, err, "expected an object");
    }
    const struct gr_rule rules[] = {
        {.key = "type", .kind = GR_RULE_ONLY_TEXT, .text = "NON_EEF"},
        {.key = "format", .kind = GR_RULE_ONLY_TEXT, .text = "DEFAULT"},
        {.key = "rep", .kind = GR_RULE_ELSEWHERE},
        {.key = "state_key", .kind = GR_RULE_ELSEWHERE},
    };
    GR_TRY(gr_scope_apply(&s, rules, COUNT(rules), NULL, err));
    const struct gr_json *rep = gr_json_get(v, "rep"), *key = gr_json_get(v, "state_key");
    const char *rep_text = gr_json_kind(rep) == GR_JSON_STRING ? gr_json_string(rep) : "";
    bool relative = strcmp(rep_text, "RELATIVE") == 0;
    if (!relative && strcmp(rep_text, "ABSOLUTE") != 0) {
        return gr_scope_fail(&s, "rep", rep, err, "supported: \"RELATIVE\", \"ABSOLUTE\"");
    }
    bool named = gr_json_kind(key) != GR_JSON_NULL;
    if (named && gr_json_kind(key) != GR_JSON_STRING) {
        return gr_scope_fail(&s, "state_key", key, err, "expected null or the name of a state group");
    }
    if (!relative || !s.cfg->use_relative_action) {
        return GR_OK;
    }
    const char *name = named && gr_json_string(key)[0] != '\0' ? gr_json_string(key)
                                                               : g->name; /* "" counts as none, as in the original */
    int j = 0;
    while (j < e->n_state && strcmp(e->state[j].name, name) != 0) {
        j++;
    }
    if (j == e->n_state) {
        return gr_scope_fail(&s, "state_key", key, err,
                             "and there is no state group \"%.60s\" for the relative action group \"%.60s\"", name,
                             g->name);
    }
    g->relative = true;
    g->state_index = j;
    g->state_offset = e->state[j].state_offset;
    return GR_OK;
}

static enum gr_status read_action_tables(const struct gr_scope *stats, struct gr_group_config *g,
                                         const struct gr_embodiment *e, struct gr_err *err)
{
    bool percentiles = stats->cfg->use_percentiles;
    struct gr_scope s;
    struct tables t;
    GR_TRY(gr_scope_enter(stats, "action", &s, err));
    GR_TRY(read_tables(&s, g->name, 0, 0, percentiles, &t, err));
    use_tables(g, &t, percentiles);
    if (!g->relative) {
        return GR_OK;
    }
    const struct gr_group_config *state = &e->state[g->state_index];
    if (state->dim != g->dim) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: %s%s has %d numbers, expected %d as in the state group %s it is relative to", s.file,
                       s.path, g->name, g->dim, state->dim, state->name);
    }
    GR_TRY(gr_scope_enter(stats, "relative_action", &s, err));
    GR_TRY(read_tables(&s, g->name, e->action_steps, g->dim, false, &t, err));
    use_tables(g, &t, false);
    return GR_OK;
}

static enum gr_status read_action(const struct gr_scope *embodiment, const struct gr_scope *stats,
                                  struct gr_embodiment *e, struct gr_err *err)
{
    struct gr_config *cfg = embodiment->cfg;
    struct gr_scope s;
    GR_TRY(enter_modality(embodiment, "action", &s, err));
    GR_TRY(read_deltas(&s, cfg->dims.dit.horizon, true, &e->action_steps, err));
    GR_TRY(new_groups(&s, &e->action, &e->n_action, err));
    GR_TRY(mark_groups(&s, "mean_std_embedding_keys", e->action, e->n_action, true, GR_NORM_MEAN_STD, err));
    /* The original reads this list for the state only; names are checked, nothing follows from them. */
    GR_TRY(mark_groups(&s, "sin_cos_embedding_keys", e->action, e->n_action, false, GR_NORM_SIN_COS, err));
    const struct gr_json *list = gr_json_get(s.object, "action_configs");
    if (gr_json_kind(list) != GR_JSON_NULL) {
        if (gr_json_kind(list) != GR_JSON_ARRAY || gr_json_len(list) != (size_t)e->n_action) {
            return gr_scope_fail(&s, "action_configs", list, err, "expected null or an array of %d, one a group",
                                 e->n_action);
        }
        for (int i = 0; i < e->n_action; i++) {
            GR_TRY(read_action_config(&s, gr_json_at(list, (size_t)i), i, e, err));
        }
    }
    for (int i = 0; i < e->n_action; i++) {
        GR_TRY(read_action_tables(stats, &e->action[i], e, err));
        e->action_dim += e->action[i].dim;
    }
    if (e->action_dim > cfg->dims.dit.max_action) {
        return gr_fail(err, GR_ERR_FORMAT,
                       "%s: the action groups of %s have %d numbers, expected at most max_action_dim %d", stats->file,
                       e->tag, e->action_dim, cfg->dims.dit.max_action);
    }
    return GR_OK;
}

/* --------------------------------------------------------------------------------------------------- tags */

static const struct gr_json *object_at(const struct gr_json *object, const char *key)
{
    const struct gr_json *v = gr_json_get(object, key);
    return gr_json_kind(v) == GR_JSON_OBJECT ? v : NULL;
}

static enum gr_status read_tags(const struct gr_scope *ids, const struct gr_json *modality_configs,
                                const struct gr_json *statistics, struct gr_err *err)
{
    struct gr_config *cfg = ids->cfg;
    size_t n = gr_json_len(ids->object);
    if (n < 1 || n > MAX_TAGS) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %zu embodiments, expected 1..%d", ids->file, n, MAX_TAGS);
    }
    const char **tags = gr_config_alloc(cfg, n, sizeof *tags, err);
    int *slots = gr_config_alloc(cfg, n, sizeof *slots, err);
    bool *usable = gr_config_alloc(cfg, n, sizeof *usable, err);
    if (tags == NULL || slots == NULL || usable == NULL) {
        return GR_ERR_NOMEM;
    }
    int i = 0;
    for (void *it = gr_json_first(ids->object); it != NULL; it = gr_json_next(ids->object, it), i++) {
        const struct gr_json *v = gr_json_value(it);
        if (gr_json_kind(v) != GR_JSON_INT || gr_json_int(v) < INT_MIN || gr_json_int(v) > INT_MAX) {
            return gr_scope_fail(ids, gr_json_key(it), v, err, "expected an integer slot");
        }
        tags[i] = gr_config_copy(cfg, gr_json_key(it), err);
        if (tags[i] == NULL) {
            return GR_ERR_NOMEM;
        }
        slots[i] = (int)gr_json_int(v);
        usable[i] = object_at(modality_configs, tags[i]) != NULL && object_at(statistics, tags[i]) != NULL;
    }
    cfg->tags = tags;
    cfg->slots = slots;
    cfg->tag_usable = usable;
    cfg->n_tags = i;
    return GR_OK;
}

/* "gr1, oxe_droid": all tags, or those that can be used. */
static void list_tags(const struct gr_config *cfg, bool usable_only, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < cfg->n_tags && used < cap; i++) {
        if (!usable_only || cfg->tag_usable[i]) {
            int n = snprintf(out + used, cap - used, "%s%.60s", used > 0 ? ", " : "", cfg->tags[i]);
            used += n > 0 ? (size_t)n : 0;
        }
    }
    if (out[0] == '\0') {
        (void)snprintf(out, cap, "none");
    }
}

static enum gr_status choose_tag(const struct gr_scope *ids, const struct gr_json *modality_configs,
                                 const struct gr_json *statistics, const char *tag, struct gr_err *err)
{
    struct gr_config *cfg = ids->cfg;
    struct gr_embodiment *e = &cfg->emb;
    char known[360];
    int i = gr_name_index(cfg->tags, cfg->n_tags, tag);
    if (i < 0) {
        list_tags(cfg, false, known, sizeof known);
        return gr_fail(err, GR_ERR_INPUT, "embodiment \"%.60s\" is unknown, this snapshot knows: %s", tag, known);
    }
    if (gr_json_get(modality_configs, tag) == NULL) {
        list_tags(cfg, true, known, sizeof known);
        return gr_fail(err, GR_ERR_INPUT,
                       "embodiment \"%.60s\" has a slot but no modality_configs in processor_config.json, usable: %s",
                       tag, known);
    }
    if (gr_json_get(statistics, tag) == NULL) {
        list_tags(cfg, true, known, sizeof known);
        return gr_fail(err, GR_ERR_FORMAT, "statistics.json: %.60s is missing, expected an object; usable: %s", tag,
                       known);
    }
    if (cfg->slots[i] < 0 || cfg->slots[i] >= cfg->dims.dit.slots) {
        return gr_fail(err, GR_ERR_FORMAT, "%s: %.60s is %d, expected a slot 0..%d (config.json: max_num_embodiments)",
                       ids->file, tag, cfg->slots[i], cfg->dims.dit.slots - 1);
    }
    e->tag = cfg->tags[i];
    e->slot = cfg->slots[i];
    return GR_OK;
}

enum gr_status gr_embodiment_read(struct gr_config *cfg, const struct gr_json *processor, const struct gr_json *ids,
                                  const struct gr_json *statistics, const char *tag, struct gr_err *err)
{
    struct gr_scope root, kwargs, configs, embodiment, stats_root, stats, id_scope;
    const char *wanted = tag != NULL ? tag : "gr1";
    GR_TRY(gr_scope_root(cfg, "processor_config.json", processor, &root, err));
    GR_TRY(gr_scope_enter(&root, "processor_kwargs", &kwargs, err));
    GR_TRY(gr_scope_enter(&kwargs, "modality_configs", &configs, err));
    GR_TRY(gr_scope_root(cfg, "embodiment_id.json", ids, &id_scope, err));
    GR_TRY(gr_scope_root(cfg, "statistics.json", statistics, &stats_root, err));
    GR_TRY(read_tags(&id_scope, configs.object, statistics, err));
    GR_TRY(choose_tag(&id_scope, configs.object, statistics, wanted, err));
    GR_TRY(gr_scope_enter(&configs, wanted, &embodiment, err));
    static const char *const ignored[] = {"language", NULL}; /* names the instruction's column in a recording */
    const struct gr_rule modalities[] = {
        {.key = "video", .kind = GR_RULE_ELSEWHERE},
        {.key = "state", .kind = GR_RULE_ELSEWHERE},
        {.key = "action", .kind = GR_RULE_ELSEWHERE},
    };
    GR_TRY(gr_scope_apply(&embodiment, modalities, COUNT(modalities), ignored, err));
    GR_TRY(gr_scope_enter(&stats_root, wanted, &stats, err));
    GR_TRY(read_video(&embodiment, &cfg->emb, err));
    GR_TRY(read_state(&embodiment, &stats, &cfg->emb, err));
    return read_action(&embodiment, &stats, &cfg->emb, err);
}
