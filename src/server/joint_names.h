/* SPDX-License-Identifier: Apache-2.0
 *
 * joint_names.h: names of the joints of known groups, in the order of the recordings. The snapshot does not hold them; the source of
 * each list stands in joint_names.c. */
#ifndef GR_SERVER_JOINT_NAMES_H
#define GR_SERVER_JOINT_NAMES_H

/* Name of joint i of a group; NULL when this program does not know it (another embodiment, another width). */
const char *gr_joint_name(const char *embodiment, const char *group, int dim, int i);

#endif
