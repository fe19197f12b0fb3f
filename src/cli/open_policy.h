/* SPDX-License-Identifier: Apache-2.0
 *
 * open_policy.h: how every command opens a policy: settings, progress bar, library. */
#ifndef GR_CLI_OPEN_POLICY_H
#define GR_CLI_OPEN_POLICY_H

#include "cli/cli.h"
#include "cli/settings.h"
#include "gr00t.h"

/* Statuses as gr_settings_engine and gr_policy_open. Close with gr_policy_close. */
enum gr_status gr_cli_open_policy(const struct gr_cli *cli, const char *dir, const struct gr_engine_flags *flags,
                                  struct gr_policy **policy, struct gr_err *err);

#endif
