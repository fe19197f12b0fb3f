/* SPDX-License-Identifier: Apache-2.0
 *
 * demo_snapshot.h: the demo snapshot in a temporary folder, and copies of it with one thing changed. */
#ifndef DEMO_SNAPSHOT_H
#define DEMO_SNAPSHOT_H

#include <stdio.h>
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

/* A copy, to be changed. */
static inline const char *demo_copy(void)
{
    const char *dir = gr_test_temp_dir();
    gr_test_copy_dir(demo_dir, dir);
    return dir;
}

/* Sets every 64 bytes of a bf16 tensor, in whichever file of the snapshot has it, to a value. */
static inline void spoil_tensor(const char *dir, const char *tensor, uint16_t value)
{
    static const char offsets[] = "\"data_offsets\":[";
    bool found = false;
    for (int part = 1; part <= 3 && !found; part++) {
        char path[600], name[200];
        size_t n = 0;
        uint64_t header = 0;
        unsigned long begin = 0, last = 0;
        (void)snprintf(path, sizeof path, "%s/model-%05d-of-00003.safetensors", dir, part);
        (void)snprintf(name, sizeof name, "%s\":", tensor);
        uint8_t *file = gr_test_read(path, &n);
        memcpy(&header, file, sizeof header);
        const char *at = memmem(file, n, name, strlen(name));
        at = at != NULL ? strstr(at, offsets) : NULL;
        found = at != NULL && sscanf(at + sizeof offsets - 1, "%lu,%lu", &begin, &last) == 2;
        for (size_t i = begin; found && i < last; i += 64) {
            memcpy(file + sizeof header + header + i, &value, sizeof value);
        }
        if (found) {
            gr_test_write(path, file, n);
        }
        free(file);
    }
    assert_true(found);
}

/* A copy whose robot has a second camera. */
static inline const char *two_camera_snapshot(void)
{
    static const char one[] = "\"ego_view_bg_crop_pad_res256_freq20\"", wrist[] = ", \"wrist\"";
    const char *dir = demo_copy(), *path = gr_test_join(dir, "processor_config.json");
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
