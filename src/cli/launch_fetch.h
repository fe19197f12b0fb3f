/* SPDX-License-Identifier: Apache-2.0
 *
 * launch_fetch.h: what `serve TARGET` fetches before a start: a package that is not here yet, and the weights that a package names. */
#ifndef GR_CLI_LAUNCH_FETCH_H
#define GR_CLI_LAUNCH_FETCH_H

#include "cli/boot_view.h"
#include "cli/settings_tool.h"
#include "package/manifest.h"

/* `gr00t pull WORD` as a child, its report on stderr. Status by its exit code. A bare commit becomes "main" where the cache has none. */
enum gr_status gr_launch_pull(struct gr_boot_view *v, const struct gr_tool_hub *tool, const char *program,
                              const char *word, bool force, char *const *environment, struct gr_err *err);
/* The revision and the files that the manifest names, into the Hub cache; what is there is not fetched again. A failure is a warning, since what is there may
 * do, but for a full disk (GR_ERR_IO), a profile whose variables lead into the folder of these weights (the service could not fetch them for itself), a
 * repository that is none (GR_ERR_FORMAT), and a cancelled transfer. fetch false: only looks. snapshot: the folder of the
 * weights; "" when they are not here. */
enum gr_status gr_launch_weights(struct gr_boot_view *v, const struct gr_tool_hub *tool, const struct gr_manifest *m,
                                 const struct gr_profile *p, bool fetch, char snapshot[GR_PATH_BYTES],
                                 struct gr_err *err);

#endif
