/* SPDX-License-Identifier: Apache-2.0
 *
 * container.h: what launch.c asks of docker and podman for one container. */
#ifndef GR_LAUNCH_CONTAINER_H
#define GR_LAUNCH_CONTAINER_H

#include "launch/launch.h"
#include "launch/spawn.h"

/* engine and words, NULL-terminated, run to the end: gr_spawn_run. */
enum gr_status gr_container_ask(const char *engine, const char *const *words, char *const *environment, double limit_s,
                                struct gr_ran *out, struct gr_err *err);
/* First line of what the engine says; false when it refuses. */
bool gr_container_answer(const char *engine, const char *const *words, char *const *environment, char *out, size_t n);

/* Runs the composed line with this environment; a dead container of that name goes first. GR_ERR_DEVICE with what the engine complains about. */
enum gr_status gr_container_start(const struct gr_launch *l, const struct gr_command_line *c, char *const *environment,
                                  struct gr_err *err);
/* `stop` with this grace, its log to r->log, then `rm`; resets the cards after a kill. */
enum gr_status gr_container_stop(const struct gr_running *r, char *const *environment, double grace_s,
                                 enum gr_stop_kind *how, struct gr_err *err);

#endif
