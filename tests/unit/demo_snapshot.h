/* SPDX-License-Identifier: Apache-2.0
 *
 * demo_snapshot.h: the demo snapshot in a temporary folder, and a copy of it with one thing changed. */
#ifndef DEMO_SNAPSHOT_H
#define DEMO_SNAPSHOT_H

#include <stdlib.h>
#include <string.h>

#include "gr_test.h"
#include "model/synth.h"

static const char *demo_dir;

/* Group setup. */
static inline int make_demo(void **state)
{
    (void)state;
    struct gr_err err;
    demo_dir = gr_test_temp_dir();
    return gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, demo_dir, 1, NULL, NULL, &err) == GR_OK ? 0 : -1;
}

/* A copy whose robot has a second camera. */
static inline const char *two_camera_snapshot(void)
{
    static const char one[] = "\"ego_view_bg_crop_pad_res256_freq20\"", wrist[] = ", \"wrist\"";
    const char *dir = gr_test_temp_dir(), *path = gr_test_join(dir, "processor_config.json");
    gr_test_copy_dir(demo_dir, dir);
    size_t n;
    char *text = (char *)gr_test_read(path, &n), *at = strstr(text, one);
    assert_non_null(at);
    size_t head = (size_t)(at - text) + strlen(one);
    char *out = malloc(n + sizeof wrist);
    memcpy(out, text, head);
    strcpy(out + head, wrist);
    strcat(out, text + head);
    gr_test_write(path, out, strlen(out));
    free(text);
    free(out);
    return dir;
}

#endif
