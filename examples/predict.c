/* SPDX-License-Identifier: Apache-2.0
 *
 * predict.c: the whole of libgr00t in one page: predict SNAPSHOT_DIR PICTURE "instruction".
 * cc predict.c -o predict $(pkg-config --cflags --libs gr00t) */
#include <stdio.h>

#include "gr00t.h"

static char file[64 << 20]; /* a camera picture, PNG or JPEG */
/* Joint angles in radians, in the order of gr_info's groups: the demo's, of a GR1. Here the robot's own would stand. */
static const double state[29] = {
    0.0591,  0.0128,  0.0233, -2.1804, 0.0469,  -0.0802, 0.0918, /* left_arm */
    -0.2166, -0.3355, 0.1747, -1.6935, 0.7029,  0.3454,  0.7983, /* right_arm */
    -0.39,   -0.74,   -0.53,  -0.88,   -0.0028, 1.6991,          /* left_hand */
    0.6667,  0.3051,  0.4093, 0.1823,  0.16,    1.6466,          /* right_hand */
    0.035,   0.1267,  0.0048,                                    /* waist */
};

int main(int argc, char **argv)
{
    struct gr_err err = {GR_ERR_USAGE, "usage: predict SNAPSHOT_DIR PICTURE INSTRUCTION; the picture must be readable"};
    struct gr_policy *policy = NULL;
    struct gr_chunk *chunk = NULL;
    struct gr_image image = {0};
    FILE *f = argc == 4 ? fopen(argv[2], "rb") : NULL;
    size_t n = f != NULL ? fread(file, 1, sizeof file, f) : 0;
    enum gr_status status = n > 0 ? gr_image_decode(file, n, &image, &err) : err.code;
    if (status == GR_OK && (status = gr_policy_open(argv[1], NULL, &policy, &err)) == GR_OK &&
        (status = gr_chunk_new(policy, &chunk, &err)) == GR_OK) {
        struct gr_frame frame = {image.rgb, image.height, image.width};
        struct gr_observation obs = {&frame, 1, state, .instruction = argv[3], .seed = GR_DEFAULT_SEED};
        obs.state_dim =
            sizeof state / sizeof state[0]; /* another robot's snapshot is refused: gr_policy_info names its groups */
        status = gr_policy_predict(policy, &obs, chunk, &err);
    }
    for (int i = 0; status == GR_OK && i < chunk->steps * chunk->dim; i++) {
        printf("%9.5f%s", (double)chunk->actions[i], (i + 1) % chunk->dim != 0 ? " " : "\n");
    }
    if (status != GR_OK) {
        fprintf(stderr, "predict: %s\n", err.msg);
    }
    gr_image_free(&image);
    gr_chunk_free(chunk);
    gr_policy_close(policy);
    return status == GR_OK ? 0 : 1;
}
