/* SPDX-License-Identifier: Apache-2.0
 *
 * obs_files.h: an observation from files: pictures, state.json, noise.npy. Knows the model only through gr_info, so that it
 * works for any embodiment and any number of cameras. */
#ifndef GR_CLI_OBS_FILES_H
#define GR_CLI_OBS_FILES_H

#include "base/err.h"
#include "base/json.h"
#include "cli/args.h"
#include "gr00t.h"

/* Pictures of one observation, decoded. Zero-initialise; free with gr_obs_images_free. */
struct gr_obs_images {
    int n;
    struct gr_image *images; /* [n], time-major: all cameras of the oldest time first */
    struct gr_frame *frames; /* [n], views of images */
    const char **paths;      /* [n], borrowed from the command line */
    double decode_ms;
};

/* Reads --image values: "FILE", or "CAMERA=FILE" when there is more than one camera. Pictures of one camera are given oldest
 * first. GR_ERR_INPUT: wrong number of pictures, unknown camera (the known ones are listed), undecodable picture.
 * GR_ERR_IO: a file that cannot be read. */
enum gr_status gr_obs_images_read(const struct gr_arg_list *list, const struct gr_info *info, struct gr_obs_images *out,
                                  struct gr_err *err);
void gr_obs_images_free(struct gr_obs_images *images);

/* One picture file; every failure names it. */
enum gr_status gr_obs_image_read(const char *path, struct gr_image *out, struct gr_err *err);

/* Reads {"group": [numbers]}, {"group": [[numbers]]} or {"state": {...}}: groups by exact name in any order.
 * *state: [info->state_dim] in group order, malloc'ed. GR_ERR_INPUT names group, index, expected and found. */
enum gr_status gr_obs_state_read(const char *path, const struct gr_info *info, double **state, struct gr_err *err);
/* The same from a parsed object; `what` names it in messages. state [info->state_dim]. */
enum gr_status gr_obs_state_parse(const struct gr_json *groups, const char *what, const struct gr_info *info,
                                  double *state, struct gr_err *err);

/* Reads [horizon, max_action_dim] or [1, horizon, max_action_dim] finite numbers; malloc'ed. GR_ERR_INPUT, GR_ERR_IO. */
enum gr_status gr_obs_noise_read(const char *path, const struct gr_info *info, float **noise, struct gr_err *err);

#endif
