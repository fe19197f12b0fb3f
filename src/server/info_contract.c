/* SPDX-License-Identifier: Apache-2.0
 *
 * info_contract.c: "inputs" and "outputs" of /info: what a request must hold and what the numbers of a reply mean. Everything that a client
 * would otherwise have to guess (order, unit, relative or absolute, what happens to a picture) is said here. */
#include "server/info_parts.h"

#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "server/joint_names.h"

int gr_info_rate_hz(const struct gr_info *info)
{
    long rate = 0;
    for (int c = 0; c < info->n_cameras; c++) {
        const char *at = strstr(info->cameras[c], "freq");
        char *end;
        const long hz = at != NULL ? strtol(at + 4, &end, 10) : 0;
        if (hz < 1 || hz > 10000 || *end != '\0' || (rate != 0 && hz != rate)) {
            return 0;
        }
        rate = hz;
    }
    return (int)rate;
}

/* ---- groups ---- */

static void table(struct gr_jw *w, const char *key, const double *values, int rows, int dim)
{
    gr_jw_key(w, key);
    if (values == NULL) {
        gr_jw_null(w);
        return;
    }
    gr_jw_array(w);
    for (int r = 0; r < rows; r++) {
        if (rows > 1) {
            gr_jw_array(w);
        }
        for (int i = 0; i < dim; i++) {
            gr_jw_f64(w, values[r * dim + i]);
        }
        if (rows > 1) {
            gr_jw_end_array(w);
        }
    }
    gr_jw_end_array(w);
}

/* Groups of other robots hold positions, quaternions and grippers as well; what this program does not know it does not claim. */
static const char *unit(const struct gr_info *info, const char *group, int dim)
{
    return gr_joint_name(info->embodiment, group, dim, 0) != NULL ? "rad" : "as recorded";
}

static void joints(struct gr_jw *w, const char *embodiment, const char *group, int dim)
{
    gr_jw_key(w, "joints");
    if (gr_joint_name(embodiment, group, dim, 0) == NULL) {
        gr_jw_null(w);
        return;
    }
    gr_jw_array(w);
    for (int i = 0; i < dim; i++) {
        gr_jw_string(w, gr_joint_name(embodiment, group, dim, i));
    }
    gr_jw_end_array(w);
}

/* How a group is scaled between physical units and the model, with the tables that do it. */
static void normalization(struct gr_jw *w, const struct gr_config *c, const struct gr_group_config *g, int steps)
{
    const int rows = g->per_step ? steps : 1;
    const bool percentiles = c->use_percentiles && !g->relative;
    gr_jw_put_object(w, "normalization");
    switch (g->mode) {
    case GR_NORM_MIN_MAX:
        gr_jw_put_string(w, "mode", percentiles ? "q01_q99" : "min_max");
        break;
    case GR_NORM_MEAN_STD:
        gr_jw_put_string(w, "mode", "mean_std");
        break;
    case GR_NORM_SIN_COS:
        gr_jw_put_string(w, "mode", "sin_cos");
        break;
    }
    gr_jw_put_bool(w, "per_step", g->per_step);
    if (g->mode == GR_NORM_MEAN_STD) {
        table(w, "mean", g->mean, rows, g->dim);
        table(w, "std", g->std, rows, g->dim);
    } else {
        table(w, percentiles ? "q01" : "min", g->lo, rows, g->dim);
        table(w, percentiles ? "q99" : "max", g->hi, rows, g->dim);
    }
    gr_jw_end_object(w);
}

/* ---- inputs ---- */

static void images(struct gr_jw *w, const struct gr_info *info)
{
    gr_jw_put_object(w, "images");
    gr_jw_put_array(w, "cameras");
    for (int c = 0; c < info->n_cameras; c++) {
        gr_jw_object(w);
        gr_jw_put_string(w, "key", info->cameras[c]);
        gr_jw_put_int(w, "frames", info->frames_per_camera);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
    gr_jw_put_string(
        w, "form",
        info->frames_per_camera == 1
            ? "base64 of the file, or a list with that one string; a data: prefix and white space are allowed"
            : "list of base64 files, oldest frame first; a data: prefix and white space are allowed");
    gr_jw_put_array(w, "formats");
    gr_jw_string(w, "PNG");
    gr_jw_string(w, "JPEG");
    gr_jw_end_array(w);
    gr_jw_put_int(w, "side_min", GR_SIDE_MIN);
    gr_jw_put_int(w, "side_max", GR_SIDE_MAX);
    gr_jw_put_string(w, "color", "sRGB; grey and palette become RGB as Pillow's convert(\"RGB\") makes them");
    gr_jw_put_string(w, "alpha", "dropped, never composed");
    gr_jw_put_string(w, "exif_orientation", "never applied; sizes are the stored ones");
    gr_jw_put_string(w, "damaged_files", "refused, also when a decoder could go on");
    gr_jw_end_object(w);
}

static void state(struct gr_jw *w, const struct gr_info *info, const struct gr_config *c)
{
    gr_jw_put_object(w, "state");
    gr_jw_put_string(w, "values", "raw physical joint state as the robot reports it; the server normalises them");
    gr_jw_put_string(w, "form", "[D] or [[D]] for each group, finite numbers");
    gr_jw_put_string(w, "dtype", "float32");
    gr_jw_put_array(w, "dtypes");
    gr_jw_string(w, "float32");
    gr_jw_string(w, "float64");
    gr_jw_end_array(w);
    gr_jw_put_int(w, "dim", info->state_dim);
    gr_jw_put_array(w, "groups");
    for (int i = 0; i < c->emb.n_state; i++) {
        const struct gr_group_config *g = &c->emb.state[i];
        gr_jw_object(w);
        gr_jw_put_string(w, "key", g->name);
        gr_jw_put_int(w, "dim", g->dim);
        gr_jw_put_string(w, "unit", unit(info, g->name, g->dim));
        joints(w, info->embodiment, g->name, g->dim);
        normalization(w, c, g, 1);
        gr_jw_end_object(w);
    }
    gr_jw_end_array(w);
    gr_jw_put_string(w, "out_of_range", "values outside min..max are accepted, counted in /metrics and logged");
    gr_jw_end_object(w);
}

static void noise(struct gr_jw *w, const struct gr_info *info)
{
    gr_jw_put_object(w, "noise");
    gr_jw_put_array(w, "shape");
    gr_jw_int(w, info->horizon);
    gr_jw_int(w, info->max_action_dim);
    gr_jw_end_array(w);
    gr_jw_put_string(w, "form", "these rows, or the same in one list more; exclusive with seed");
    gr_jw_end_object(w);
    gr_jw_put_object(w, "seed");
    gr_jw_put_int(w, "default", GR_DEFAULT_SEED);
    gr_jw_put_int(w, "min", 0);
    gr_jw_put_int(w, "max", INT64_MAX);
    gr_jw_put_string(w, "rule", "noise depends on the seed alone; the generator uses the low 32 bits of it");
    gr_jw_end_object(w);
}

void gr_info_inputs(struct gr_jw *w, const struct gr_service_config *cfg, const struct gr_boot_facts *facts)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    const struct gr_config *c = gr_policy_config(facts->policy);
    gr_jw_put_object(w, "inputs");
    images(w, info);
    state(w, info, c);
    gr_jw_put_object(w, "instruction");
    gr_jw_put_int(w, "min_chars", 1);
    gr_jw_put_int(w, "max_chars", GR_INSTRUCTION_MAX_CHARS);
    gr_jw_put_int(w, "max_tokens", info->max_text_tokens);
    gr_jw_put_string(w, "too_long", "refused, never cut");
    gr_jw_put_bool(w, "formalize_language", c->formalize_language);
    gr_jw_put_array(w, "aliases");
    gr_jw_string(w, "language");
    gr_jw_string(w, "prompt");
    gr_jw_end_array(w);
    gr_jw_end_object(w);
    gr_jw_put_object(w, "embodiment");
    gr_jw_put_string(w, "must_be", info->embodiment);
    gr_jw_put_bool(w, "required", false);
    gr_jw_end_object(w);
    noise(w, info);
    gr_jw_put_object(w, "return_normalized");
    gr_jw_put_bool(w, "default", false);
    gr_jw_put_string(w, "adds", "action_pred_normalized, action_pred_valid_hd; actions stay as they are");
    gr_jw_end_object(w);
    gr_jw_put_string(w, "unknown_fields", "refused with 422");
    gr_jw_put_string(w, "content_type", "absent or JSON (application/json, +json), UTF-8, not compressed");
    gr_jw_put_int(w, "max_body_bytes", (int64_t)(cfg->limits.body_bytes));
    gr_jw_end_object(w);
}

/* ---- outputs ---- */

static void group_key(struct gr_jw *w, const struct gr_info *info, const struct gr_config *c,
                      const struct gr_group_config *g)
{
    gr_jw_object(w);
    gr_jw_put_string(w, "key", g->name);
    gr_jw_put_int(w, "dim", g->dim);
    gr_jw_put_string(w, "unit", unit(info, g->name, g->dim));
    gr_jw_put_string(w, "representation",
                     g->relative ? "relative in the model, absolute on the wire"
                                 : "absolute in the model and on the wire");
    gr_jw_put_string(w, "relative_to", g->relative ? c->emb.state[g->state_index].name : NULL);
    joints(w, info->embodiment, g->name, g->dim);
    normalization(w, c, g, info->action_steps);
    gr_jw_end_object(w);
}

void gr_info_outputs(struct gr_jw *w, const struct gr_boot_facts *facts)
{
    const struct gr_info *info = gr_policy_info(facts->policy);
    const struct gr_config *c = gr_policy_config(facts->policy);
    const int rate_hz = gr_info_rate_hz(info);
    gr_jw_put_object(w, "outputs");
    gr_jw_put_int(w, "action_horizon", info->action_steps);
    gr_jw_put_int(w, "action_dim", info->action_dim);
    gr_jw_key(w, "action_rate_hz");
    if (rate_hz > 0) {
        gr_jw_int(w, rate_hz);
    } else {
        gr_jw_null(w);
    }
    gr_jw_put_string(w, "action_rate_source",
                     rate_hz > 0 ? "suffix of the camera keys"
                                 : "the snapshot does not say at which rate it was recorded");
    gr_jw_put_string(
        w, "rows",
        "row k is the joint target for k steps of the recordings after the observation: row 0 for its own moment, to be commanded at once");
    gr_jw_put_bool(w, "normalized", false);
    gr_jw_put_string(w, "normalized_means",
                     "false: actions are physical joint targets, nothing is to be scaled or added by the client");
    gr_jw_put_string(w, "dtype", "float32, printed so that it reads back bit by bit");
    gr_jw_put_array(w, "groups");
    for (int i = 0; i < c->emb.n_action; i++) {
        group_key(w, info, c, &c->emb.action[i]);
    }
    gr_jw_end_array(w);
    gr_jw_put_object(w, "action_pred_normalized");
    gr_jw_put_array(w, "shape");
    gr_jw_int(w, info->horizon);
    gr_jw_int(w, info->max_action_dim);
    gr_jw_end_array(w);
    gr_jw_put_string(w, "meaning", "the network's own numbers; only rows and columns of action_pred_valid_hd are used");
    gr_jw_end_object(w);
    gr_jw_end_object(w);
}
