/* SPDX-License-Identifier: Apache-2.0
 *
 * config.h: what config.json, processor_config.json, embodiment_id.json and statistics.json say, checked.
 * Decides what is followed, ignored or refused (design decision "Settings in the files"). */
#ifndef GR_MODEL_CONFIG_H
#define GR_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/digest.h"
#include "base/err.h"
#include "model/spec.h"

enum gr_norm_mode { GR_NORM_MIN_MAX, GR_NORM_MEAN_STD, GR_NORM_SIN_COS };

/* One state or action group of the chosen embodiment with its tables. Pointers are owned by the config. */
struct gr_group_config {
    const char *name;
    int dim;
    enum gr_norm_mode mode;
    bool relative;    /* action only: offset composed onto state group `state_index` */
    int state_index;  /* action only, relative only: index into state groups */
    int state_offset; /* where that group starts in the state vector */
    /* Tables in double. State and absolute action: [dim]. Relative action: [steps, dim]. lo/hi are min/max, or q01/q99 with
     * use_percentiles (never for relative ones). */
    const double *lo, *hi, *mean, *std;
    bool per_step;
};

struct gr_embodiment {
    const char *tag;
    int slot;
    int n_cameras, frames_per_camera;
    const char **cameras;
    int n_state, state_dim;
    struct gr_group_config *state;
    int n_action, action_dim, action_steps; /* action_steps = number of action delta_indices */
    struct gr_group_config *action;
};

struct gr_config {
    struct gr_dims dims; /* vit.mlp, vocab, slots and such are completed and checked from tensor shapes in weights.c */
    bool have_backbone;  /* config.json has eagle_config (synthetic snapshots); else published constants */
    const char *model_type; /* "Gr00tN1d6" */
    /* processor_config.json */
    int shortest_image_edge; /* 256 */
    double crop_fraction;    /* 0.95 */
    bool formalize_language, use_percentiles, clip_outliers, apply_sincos_state_encoding, use_relative_action;
    const char *
        image_note; /* NULL, or a setting of processor_config.json that the image chain does not follow: a warning at load */
    struct gr_embodiment emb; /* the chosen one */
    /* for inspect */
    int n_tags;        /* file order */
    const char **tags; /* of embodiment_id.json */
    const int *slots;
    const bool *tag_usable; /* has modality config and statistics */
    int n_ignored;
    const char **ignored; /* unknown keys, "file: key" */
};

/* The four files as text; JSON needs no NUL behind it. */
struct gr_config_text {
    const char *text;
    size_t n_bytes;
};
struct gr_config_texts {
    struct gr_config_text config, processor, embodiment_id, statistics;
};

/* Reads the four files of folder `dir` for embodiment `tag`. An unknown tag lists the known ones (GR_ERR_INPUT); everything else wrong
 * in the files is GR_ERR_FORMAT with file, key, expected and found. Non-finite or missing statistics of the chosen embodiment
 * are refused. Free with gr_config_free. */
enum gr_status gr_config_open(const char *dir, const char *tag, struct gr_config **out, struct gr_err *err);
void gr_config_free(struct gr_config *cfg); /* NULL is allowed */

/* The same from memory: gr_config_open without the reading of files. Nothing of `texts` is kept. */
enum gr_status gr_config_parse(const struct gr_config_texts *texts, const char *tag, struct gr_config **out,
                               struct gr_err *err);

/* Of everything outside the weights that changes actions: groups, statistics, cameras, settings. Hex SHA-256. */
enum gr_status gr_config_digest(const struct gr_config *c, char hex[GR_DIGEST_HEX_BYTES], struct gr_err *err);

#endif
