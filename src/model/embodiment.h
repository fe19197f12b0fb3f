/* SPDX-License-Identifier: Apache-2.0
 *
 * embodiment.h: what one robot (embodiment tag) sends and gets: slot, cameras, joint groups, statistics. Part of config.c,
 * which alone calls it. */
#ifndef GR_MODEL_EMBODIMENT_H
#define GR_MODEL_EMBODIMENT_H

#include "base/json.h"
#include "model/config.h"

/* Fills cfg->tags, slots, tag_usable and cfg->emb from the parsed files. The switches of processor_config.json
 * (use_percentiles ...) and cfg->dims are already in cfg. `tag` as in gr_config_open. */
enum gr_status gr_embodiment_read(struct gr_config *cfg, const struct gr_json *processor, const struct gr_json *ids,
                                  const struct gr_json *statistics, const char *tag, struct gr_err *err);

#endif
