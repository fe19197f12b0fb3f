/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_target.h: what a TARGET word of serve, stop, logs and curl means: something that can be started, or services that were. */
#ifndef GR_CLI_LAUNCH_TARGET_H
#define GR_CLI_LAUNCH_TARGET_H

#include "cli/package_target.h"
#include "cli/settings_tool.h"
#include "launch/launch.h"

enum { GR_LAUNCH_SLUG_BYTES = 64 };
struct gr_launch_target {
    char canonical[GR_PATH_BYTES]; /* absolute folder, or ORG/NAME */
    bool is_snapshot;
    char slug[GR_LAUNCH_SLUG_BYTES];  /* of a snapshot */
    char snapshot[GR_PATH_BYTES];     /* of a snapshot: its folder */
    struct gr_package_target package; /* else */
    char image_dir[GR_PATH_BYTES];    /* of a package: layout beside it; "": none */
};
/* A folder, a wire manifest, or ORG/NAME[@REV] that is on this machine. *absent: ORG/NAME is a repository that is not here (GR_OK; it may be pulled).
 * GR_ERR_USAGE, GR_ERR_FORMAT. Free with gr_launch_target_free, also after a failure. */
enum gr_status gr_launch_target(const struct gr_tool_hub *tool, const char *word, struct gr_launch_target *out,
                                bool *absent, struct gr_err *err);
void gr_launch_target_free(struct gr_launch_target *t);
/* Absolute path of a folder, or of the folder that a file is in. GR_ERR_INPUT: there is none. */
enum gr_status gr_target_folder(const char *word, char out[GR_PATH_BYTES], struct gr_err *err);

/* The services that `word` means, of that profile (NULL: any): a path or ORG/NAME those that were served from it; a bare word those of the packages
 * with that name, whatever repository they are from; a name as `ps` prints it that one; NULL all. Containers that the vendor's tool started are
 * among them. Damaged state files are noted in the log and left out. */
struct gr_running_set {
    struct gr_running *items;
    int n;
};
enum gr_status gr_running_find(const struct gr_state_dirs *d, const char *word, const char *profile,
                               struct gr_running_set *out, struct gr_err *err);
void gr_running_set_free(struct gr_running_set *s);
/* GR_ERR_INPUT: `word` means services from several targets that are alive; says which, and how to name each. */
enum gr_status gr_running_one_target(const struct gr_running_set *s, const char *word, char *const *environment,
                                     struct gr_err *err);
/* Exactly one that is alive when several match; *alive: it is (NULL: not asked). GR_ERR_INPUT: none, or several. */
enum gr_status gr_running_one(const struct gr_state_dirs *d, const char *word, const char *profile,
                              struct gr_running *out, bool *alive, struct gr_err *err);
/* The same for its log: when none runs, one that was stopped; *stopped. */
enum gr_status gr_running_logged(const struct gr_state_dirs *d, const char *word, const char *profile,
                                 struct gr_running *out, bool *stopped, struct gr_err *err);

/* HTTP status of its /ready; 0: it does not answer. */
int gr_running_ask(const struct gr_running *r);
/* "K=V" of this process, NULL-terminated; the strings are the environment's. free() it. NULL: no memory. */
char **gr_launch_environment(void);

#endif
