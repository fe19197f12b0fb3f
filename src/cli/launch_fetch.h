/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_fetch.h: what `serve TARGET` fetches before a start: a package that is not here yet, and the weights that a package names. */
#ifndef GR_CLI_LAUNCH_FETCH_H
#define GR_CLI_LAUNCH_FETCH_H

#include "cli/boot_view.h"
#include "cli/settings_tool.h"
#include "package/manifest.h"

/* `gr00t pull WORD` as a child, its report on stderr. what: WORD in messages. Status by its exit code. A bare commit becomes "main" where the cache has none. */
enum gr_status gr_launch_pull(struct gr_boot_view *v, const struct gr_tool_hub *tool, const char *program,
                              const char *word, const char *what, bool force, char *const *environment,
                              struct gr_err *err);

/* Where a service that is this program will find its tokenizer. */
struct gr_tokenizer_need {
    const char *const *words; /* to it */
    int n_words;
    const struct gr_env *env; /* --env */
    int n_env;
    const struct gr_profile *profile; /* NULL: of none, or not known yet */
    bool callers_env;                 /* it sees the variables of this process */
    const char *dir;                  /* folder of the weights; NULL: not here */
    const char *id, *revision;        /* NULL, or a repository that is pulled next, in `patterns`: it may bring one */
    struct gr_hub_patterns patterns;
};
/* One is there, was named, or comes with the repository; else `gr00t pull --tokenizer`. fetch false: GR_ERR_FORMAT instead. Before the weights are
 * fetched: hours of a download must not end in a service that cannot start. */
enum gr_status gr_launch_tokenizer(struct gr_boot_view *v, const struct gr_tool_hub *tool, const char *program,
                                   const struct gr_tokenizer_need *need, bool fetch, char *const *environment,
                                   struct gr_err *err);
/* The package's service is this program. */
bool gr_launch_is_own(const struct gr_manifest *m);
/* That one is there, for a package that is served as it says. */
bool gr_launch_has_tokenizer(const struct gr_manifest *m, const struct gr_profile *p);
/* The revision and the files that the manifest names, into the Hub cache; what is there is not fetched again. A failure is a warning, since what is there may
 * do, but for a full disk (GR_ERR_IO), a profile whose variables lead into the folder of these weights (the service could not fetch them for itself), a
 * repository that is none (GR_ERR_FORMAT), and a cancelled transfer. fetch false: only looks. snapshot: the folder of the
 * weights; "" when they are not here. */
enum gr_status gr_launch_weights(struct gr_boot_view *v, const struct gr_tool_hub *tool, const struct gr_manifest *m,
                                 const struct gr_profile *p, bool fetch, char snapshot[GR_PATH_BYTES],
                                 struct gr_err *err);

#endif
