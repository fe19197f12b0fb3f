/* SPDX-License-Identifier: Apache-2.0
 *
 * open_policy.c: opens a policy with the settings of flags and environment, behind a progress bar. */
#include "cli/open_policy.h"

#include "base/log.h"
#include "cli/progress.h"
#include "policy/policy.h"

enum gr_status gr_cli_open_policy(const struct gr_cli *cli, const char *dir, const struct gr_engine_flags *flags,
                                  struct gr_policy **policy, struct gr_err *err)
{
    struct gr_settings settings;
    struct gr_progress progress;
    gr_settings_unknown_variables();
    GR_TRY(gr_settings_engine(dir, flags, &settings, err));
    gr_progress_begin(&progress, cli);
    settings.engine.progress = gr_progress_report;
    settings.engine.progress_user = &progress;
    enum gr_status status = gr_policy_open(dir, &settings.engine, policy, err);
    gr_progress_end(&progress);
    if (status == GR_OK && gr_policy_info(*policy)->cache_note != NULL) { /* packing and choosing anew takes minutes */
        gr_log(GR_LOG_WARN, "%s", gr_policy_info(*policy)->cache_note);
    }
    const struct gr_card_info *card = status == GR_OK ? gr_policy_info(*policy)->card : NULL;
    if (card != NULL && card->note != NULL) {
        gr_log(GR_LOG_WARN, "%s: %s", card->node, card->note);
    }
    if (status == GR_OK && gr_policy_config(*policy)->image_note != NULL) {
        gr_log(GR_LOG_WARN, "%s", gr_policy_config(*policy)->image_note);
    }
    return status;
}
