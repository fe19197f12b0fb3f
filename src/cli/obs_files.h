/* SPDX-License-Identifier: Apache-2.0
 *
 * obs_files.h: an observation on the command line: its options, and its files: pictures, state.json, noise.npy. Knows the model only
 * through gr_info, so that it works for any embodiment and any number of cameras. */
#ifndef GR_CLI_OBS_FILES_H
#define GR_CLI_OBS_FILES_H

#include "base/err.h"
#include "base/json.h"
#include "cli/args.h"
#include "formats/npy.h"
#include "gr00t.h"

/* The options that say what the observation is; a member of a command's options struct. */
struct gr_obs_flags {
    const char *state, *instruction, *noise;
    struct gr_arg_list images;
    struct gr_arg_int seed;
};

/* Table rows for a `struct gr_obs_flags` member `m` of options struct `type`. must: whether pictures, state and instruction have to be
 * given; otherwise, seed_otherwise: literals, what holds when they or the seed are not. */
#define GR_OBS_ARGS(type, m, must, otherwise, seed_otherwise)                                           \
    {.name = "image",                                                                                   \
     .kind = GR_ARG_LIST,                                                                               \
     .offset = offsetof(type, m.images),                                                                \
     .value = "[CAMERA=]FILE",                                                                          \
     .required = (must),                                                                                \
     .help = "PNG or JPEG, sides 64 to 4096; once for each picture" otherwise},                         \
        {.name = "state",                                                                               \
         .kind = GR_ARG_STRING,                                                                         \
         .offset = offsetof(type, m.state),                                                             \
         .value = "FILE",                                                                               \
         .required = (must),                                                                            \
         .help = "joint state in radians: {\"group\": [numbers], ...}" otherwise},                      \
        {.name = "instruction",                                                                         \
         .kind = GR_ARG_STRING,                                                                         \
         .offset = offsetof(type, m.instruction),                                                       \
         .value = "TEXT",                                                                               \
         .required = (must),                                                                            \
         .empty_ok = true,                                                                              \
         .help = "what to do, 1 to 2000 characters" otherwise},                                         \
        {.name = "seed",                                                                                \
         .kind = GR_ARG_INT,                                                                            \
         .offset = offsetof(type, m.seed),                                                              \
         .value = "N",                                                                                  \
         .min = 0,                                                                                      \
         .max = INT64_MAX,                                                                              \
         .help = "seed of the initial noise " seed_otherwise},                                          \
    {                                                                                                   \
        .name = "noise", .kind = GR_ARG_STRING, .offset = offsetof(type, m.noise), .value = "FILE.npy", \
        .help = "the initial noise itself, [50, 128] numbers"                                           \
    }

/* What can be refused before a model is loaded or a service asked. GR_ERR_USAGE: seed with noise; GR_ERR_IO: a file that is not there,
 * with the option that names it. */
enum gr_status gr_obs_flags_check(const struct gr_obs_flags *flags, struct gr_err *err);
/* One file or folder that `option` names. */
enum gr_status gr_obs_need(const char *option, const char *path, bool dir, struct gr_err *err);

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

/* A .npy file of noise, unchecked: npy->values, and its shape without a leading dimension of 1. Free with gr_npy_free. GR_ERR_INPUT, GR_ERR_IO. */
enum gr_status gr_obs_npy_read(const char *path, struct gr_npy *npy, const size_t **shape, int *ndim,
                               struct gr_err *err);
/* Reads [horizon, max_action_dim] or [1, horizon, max_action_dim] finite numbers; malloc'ed. GR_ERR_INPUT, GR_ERR_IO. */
enum gr_status gr_obs_noise_read(const char *path, const struct gr_info *info, float **noise, struct gr_err *err);

#endif
