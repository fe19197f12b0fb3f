/* SPDX-License-Identifier: Apache-2.0
 *
 * native.h: what compose.c needs to know about a run without an engine: paths of the image and of its mounts as paths of this machine, and how the
 * image's program is started. */
#ifndef GR_LAUNCH_NATIVE_H
#define GR_LAUNCH_NATIVE_H

#include "launch/launch.h"

/* What follows `dir` in path ("" or "/x"); NULL: path is not below dir. */
const char *gr_path_below(const char *path, const char *dir);
/* A value that is a path in the container, as the path here (in `path`); other values as they are. cache: the package's folder. */
const char *gr_native_value(const struct gr_launch *l, const char *cache, const char *value, char path[GR_PATH_BYTES]);
/* The image's own variables, but for those about its user and its folders. */
void gr_native_image_env(const struct gr_launch *l, const char *cache, struct gr_command_line *c);
/* The variables that say where the mounts are, which the profile does not name. */
void gr_native_folders(const struct gr_launch *l, const char *cache, struct gr_command_line *c);
/* First words of the command: the image's program, through the image's own dynamic loader when it has one. GR_ERR_FORMAT: the image's program is no
 * program of this machine. */
enum gr_status gr_native_program(const struct gr_launch *l, struct gr_command_line *c, struct gr_err *err);

#endif
