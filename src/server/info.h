/* SPDX-License-Identifier: Apache-2.0
 *
 * info.h: the texts of GET /info, /demo and /openapi.json for an open policy. Made once at the end of the start. */
#ifndef GR_SERVER_INFO_H
#define GR_SERVER_INFO_H

#include "base/buf.h"
#include "base/err.h"
#include "server/service.h"

/* GR_ERR_NOMEM. */
enum gr_status gr_info_json(const struct gr_service_config *cfg, const struct gr_boot_facts *facts, struct gr_buf *out,
                            struct gr_err *err);
/* {"request": body to post as it is, "expected": {"actions", "action_pred_normalized", "gates", "source"}} */
enum gr_status gr_demo_json(const struct gr_boot_facts *facts, struct gr_buf *out, struct gr_err *err);
/* docs/openapi.yaml with the cameras and groups of this embodiment. */
enum gr_status gr_openapi_json(const struct gr_service_config *cfg, const struct gr_boot_facts *facts,
                               struct gr_buf *out, struct gr_err *err);

#endif
