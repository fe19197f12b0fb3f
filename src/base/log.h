/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h: lines on stderr, as text or JSON. Set up once by the command line; the library below it never logs. */
#ifndef GR_BASE_LOG_H
#define GR_BASE_LOG_H

#include <stdbool.h>

enum gr_log_level { GR_LOG_ERROR, GR_LOG_WARN, GR_LOG_INFO, GR_LOG_DEBUG };

void gr_log_setup(enum gr_log_level max_level, bool json);
/* One line: text "gr00t: warning: ...", or {"ts":..., "level":"warn", "msg":"..."}. Thread-safe. */
void gr_log(enum gr_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
