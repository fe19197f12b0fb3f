/* SPDX-License-Identifier: Apache-2.0
 *
 * log.h: lines on stderr, as text or JSON. Set up once by the command line; the library below it never logs. */
#ifndef GR_BASE_LOG_H
#define GR_BASE_LOG_H

#include <stdbool.h>

enum gr_log_level { GR_LOG_ERROR, GR_LOG_WARN, GR_LOG_INFO, GR_LOG_DEBUG };

void gr_log_setup(enum gr_log_level max_level, bool json);
/* For a service: text lines read "2026-11-29T23:40:12.123Z info  ..." from now on. */
void gr_log_stamp(bool on);
bool gr_log_stamped(void);
/* One line: text "gr00t: warning: ...", or {"ts":..., "level":"warn", "msg":"..."}. Thread-safe. */
void gr_log(enum gr_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* From now on a thread of its own writes the lines, so that a reader of stderr who stands still stops nobody: what does not fit
 * into GR_LOG_WAITING_BYTES is dropped and counted. Without a thread (refused by the system) lines are written as before. */
enum { GR_LOG_WAITING_BYTES = 256 << 10 };
void gr_log_start_thread(void);
/* Waits at most timeout_ms for the waiting lines and goes back to direct writing; when the reader still stands still, the
 * rest is dropped and later lines are too. */
void gr_log_stop_thread(double timeout_ms);

#endif
