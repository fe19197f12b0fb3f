/* SPDX-License-Identifier: Apache-2.0
 *
 * info_parts.h: pieces of the texts of info.h that stand in files of their own. */
#ifndef GR_SERVER_INFO_PARTS_H
#define GR_SERVER_INFO_PARTS_H

#include "base/jsonout.h"
#include "server/service.h"

/* The members "inputs" and "outputs" of /info. */
void gr_info_inputs(struct gr_jw *w, const struct gr_service_config *cfg, const struct gr_boot_facts *facts);
void gr_info_outputs(struct gr_jw *w, const struct gr_boot_facts *facts);
/* Rate of the recordings in Hz as the camera keys say it ("..._freq20"); 0: they do not, or not with one voice. */
int gr_info_rate_hz(const struct gr_info *info);

#endif
