/* SPDX-License-Identifier: Apache-2.0
 *
 * request_cases.h: small requests for tests of the request parser: a GR1 and a two-camera embodiment, pictures of 64 pixels, and a
 * body that is put together from pieces. Only data: included by unit tests and fuzz targets. */
#ifndef REQUEST_CASES_H
#define REQUEST_CASES_H

#include "gr00t.h"

#define CASE_PNG                                                                                                     \
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAUklEQVR42u3PMQ0AMAgAMJgQbvyrQNZUcJC0DppTHZe9OE5AQEBAQEBAQEBAQE" \
    "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBg3wcl9QGOEzlJcAAAAABJRU5ErkJggg=="
#define CASE_JPEG                                                                                                    \
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABsSFBcUERsXFhceHBsgKEIrKCUlKFE6PTBCYFVlZF9VXVtqeJmBanGQc1tdhbWGkJ6jq62rZ4C8yb" \
    "qmx5moq6T/wAALCABQAEABAREA/8QAFQABAQAAAAAAAAAAAAAAAAAAAAL/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/9oACAEBAAA/AJAAAAAAAAAA" \
    "AAAAAAAAAAAAAAAAH//Z"
#define CASE_CAMERA "ego_view_bg_crop_pad_res256_freq20"
#define CASE_IMAGES "\"images\":{\"" CASE_CAMERA "\":\"" CASE_PNG "\"}"
#define CASE_STATE                                                                                                      \
    "\"state\":{\"left_arm\":[0,1,2,3,4,5,6],\"right_arm\":[[7,8,9,10,11,12,13]],\"left_hand\":[0,0,0,0,-0.003,1.721]," \
    "\"right_hand\":[0.5,0.25,0.1,0,0,0],\"waist\":[0.0,0.5,-1e-3]}"
#define CASE_TEXT "\"instruction\":\"pick the pear\""

static const struct gr_group case_groups[] = {{"left_arm", 7, true},
                                              {"right_arm", 7, true},
                                              {"left_hand", 6, true},
                                              {"right_hand", 6, true},
                                              {"waist", 3, false}};
static const char *const case_cameras[] = {CASE_CAMERA};
static const struct gr_info case_gr1 = {.embodiment = "gr1",
                                        .n_cameras = 1,
                                        .frames_per_camera = 1,
                                        .cameras = case_cameras,
                                        .n_state_groups = 5,
                                        .state_dim = 29,
                                        .state_groups = case_groups,
                                        .horizon = 50,
                                        .max_action_dim = 128};

/* Two cameras with two frames each, one group, little noise. */
static const struct gr_group case_arm[] = {{"arm", 2, false}};
static const char *const case_two_cameras[] = {"wrist", "observation.top"};
static const struct gr_info case_two = {.embodiment = "bimanual",
                                        .n_cameras = 2,
                                        .frames_per_camera = 2,
                                        .cameras = case_two_cameras,
                                        .n_state_groups = 1,
                                        .state_dim = 2,
                                        .state_groups = case_arm,
                                        .horizon = 2,
                                        .max_action_dim = 3};

#endif
