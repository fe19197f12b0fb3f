/* SPDX-License-Identifier: Apache-2.0
 *
 * boot.h: the start of the service on a thread of its own: weights, self-check, ready. The landmark lines of the log come from here. */
#ifndef GR_SERVER_BOOT_H
#define GR_SERVER_BOOT_H

#include <stdbool.h>

#include "base/err.h"
#include "server/server.h"
#include "server/service.h"

struct gr_boot;

/* Starts the thread. Borrows everything until gr_boot_free. on_end is called on the thread when it is done. GR_ERR_NOMEM, GR_ERR_DEVICE. */
enum gr_status gr_boot_start(const struct gr_server_config *cfg, const struct gr_service_config *facts,
                             struct gr_service *service, void (*on_end)(void *user), void *user, struct gr_boot **out,
                             struct gr_err *err);
/* True when the thread is done; then *status and err tell how. */
bool gr_boot_done(struct gr_boot *b, enum gr_status *status, struct gr_err *err);
/* Asks the thread to end (a predict of the self-check ends at the next layer, the packing of weights does not) and waits at most timeout_ms.
 * False: it still runs, nothing that it uses may be freed. */
bool gr_boot_stop(struct gr_boot *b, double timeout_ms);
/* After gr_boot_stop said true, and after gr_service_free: closes the policy. NULL is allowed. */
void gr_boot_free(struct gr_boot *b);

#endif
