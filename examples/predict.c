/* SPDX-License-Identifier: Apache-2.0
 *
 * predict.c: the whole of libgr00t in one page: predict SNAPSHOT_DIR PICTURE "instruction".
 * cc predict.c $(pkg-config --cflags --libs gr00t) */
#include <stdio.h>
#include <stdlib.h>

#include "gr00t.h"

static char file[64 << 20]; /* a camera picture, PNG or JPEG */

int main(int argc, char **argv)
{
    struct gr_err err = {GR_ERR_USAGE, "usage: predict SNAPSHOT_DIR PICTURE INSTRUCTION"};
    struct gr_policy *policy = NULL;
    struct gr_chunk *chunk = NULL;
    struct gr_image image = {0};
    double *state = NULL;
    FILE *f = argc == 4 ? fopen(argv[2], "rb") : NULL;
    size_t n = f != NULL ? fread(file, 1, sizeof file, f) : 0;
    if (n == 0 || gr_policy_open(argv[1], NULL, &policy, &err) != GR_OK ||
        gr_chunk_new(policy, &chunk, &err) != GR_OK || gr_image_decode(file, n, &image, &err) != GR_OK) {
        goto out;
    }
    const struct gr_info *info = gr_policy_info(policy);
    const struct gr_frame frame = {image.rgb, image.height, image.width};
    state =
        calloc((size_t)info->state_dim, sizeof *state); /* joint angles in radians: here the robot's own would stand */
    const struct gr_observation obs = {.frames = &frame,
                                       .n_frames = 1,
                                       .state = state,
                                       .state_dim = info->state_dim,
                                       .instruction = argv[3],
                                       .noise_kind = GR_NOISE_SEED,
                                       .seed = GR_DEFAULT_SEED};
    if (state == NULL || gr_policy_predict(policy, &obs, chunk, &err) != GR_OK) {
        goto out;
    }
    for (int s = 0; s < chunk->steps; s++) {
        for (int d = 0; d < chunk->dim; d++) {
            printf("%9.5f%s", (double)chunk->actions[s * chunk->dim + d], d + 1 < chunk->dim ? " " : "\n");
        }
    }
    err.code = GR_OK;
out:
    if (err.code != GR_OK) {
        fprintf(stderr, "predict: %s\n", err.msg);
    }
    gr_image_free(&image);
    gr_chunk_free(chunk);
    gr_policy_close(policy);
    free(state);
    return err.code == GR_OK ? 0 : 1;
}
