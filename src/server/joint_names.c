/* SPDX-License-Identifier: Apache-2.0
 *
 * joint_names.c: joints of the GR1 groups in the order of the recordings that the model was trained on.
 *
 * Arms and waist: NVIDIA/Isaac-GR00T issue 124, where a maintainer names robosuite's models/assets/robots/gr1/robot.xml as the order of each
 * limb; issue 180 says the same in words. The recorded ranges agree (index 3 of an arm is the elbow: -2.9 to -1.3 rad).
 * Hands: issue 180 gives little, ring, middle, index finger, then the two thumb joints, and a reader's correction that bending comes
 * before rotation. That is the actuator order of robosuite's fourier_left_hand.xml and fourier_right_hand.xml, and the recorded ranges allow
 * nothing else: index 4 stays within -0.1 to 0.75 rad, index 5 spans 0 to 1.74, the range of the thumb's rotation (bending ends at 1.22).
 * A finger has one recorded value: its proximal joint; the other one follows it. */
#include "server/joint_names.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *embodiment, *group;
    int dim;
    const char *const *names;
} lists[] = {
    {"gr1", "left_arm", 7,
     (const char *const[]){"left_shoulder_pitch", "left_shoulder_roll", "left_shoulder_yaw", "left_elbow_pitch",
                           "left_wrist_yaw", "left_wrist_roll", "left_wrist_pitch"}},
    {"gr1", "right_arm", 7,
     (const char *const[]){"right_shoulder_pitch", "right_shoulder_roll", "right_shoulder_yaw", "right_elbow_pitch",
                           "right_wrist_yaw", "right_wrist_roll", "right_wrist_pitch"}},
    {"gr1", "left_hand", 6,
     (const char *const[]){"left_pinky", "left_ring", "left_middle", "left_index", "left_thumb_bend",
                           "left_thumb_rotation"}},
    {"gr1", "right_hand", 6,
     (const char *const[]){"right_pinky", "right_ring", "right_middle", "right_index", "right_thumb_bend",
                           "right_thumb_rotation"}},
    {"gr1", "waist", 3, (const char *const[]){"waist_yaw", "waist_pitch", "waist_roll"}},
};

const char *gr_joint_name(const char *embodiment, const char *group, int dim, int i)
{
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        if (lists[k].dim == dim && strcmp(lists[k].embodiment, embodiment) == 0 && strcmp(lists[k].group, group) == 0) {
            return i >= 0 && i < dim ? lists[k].names[i] : NULL;
        }
    }
    return NULL;
}
