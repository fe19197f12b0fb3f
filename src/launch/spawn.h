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
/* As gr_spawn in a session of its own, but the program waits until gr_spawn_go. When this process ends before that, so does the child: nothing runs that
 * was not written down. After GR_OK exactly one of gr_spawn_go and gr_spawn_drop. */
struct gr_held {
    pid_t pid;
    int go, failed; /* pipes */
};
enum gr_status gr_spawn_held(const struct gr_spawn *s, struct gr_held *out, struct gr_err *err);
/* GR_ERR_INPUT: `program` cannot be run. */
enum gr_status gr_spawn_go(struct gr_held *h, const char *program, struct gr_err *err);
/* The program never runs. */
void gr_spawn_drop(struct gr_held *h);
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
