/* SPDX-License-Identifier: Apache-2.0
 *
 * spawn.h: child processes: started in a session of their own, or run to their end with their output read. */
#ifndef GR_LAUNCH_SPAWN_H
#define GR_LAUNCH_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct gr_spawn {
    char *const *argv; /* argv[0] is looked up in PATH unless it has a slash */
    char *const *environment;
    int in, out, error; /* descriptors; -1: /dev/null */
    bool session;       /* of its own: no terminal, no signals of the caller's */
};
/* GR_ERR_INPUT: the program cannot be run. */
enum gr_status gr_spawn(const struct gr_spawn *s, pid_t *pid, struct gr_err *err);
/* Waits for a child: its exit code, 128 + signal. */
int gr_spawn_wait(pid_t pid);

struct gr_ran {
    int code; /* exit code, 128 + signal */
    struct gr_buf out;
    char complaint[256]; /* last line on its stderr */
};
/* To its end, at most limit_s seconds; then it is killed and GR_ERR_DEVICE. At most 1 MiB of output is kept. Any exit code is GR_OK. Free out with
 * gr_buf_free. */
enum gr_status gr_spawn_run(char *const *argv, char *const *environment, double limit_s, struct gr_ran *out,
                            struct gr_err *err);

#endif
