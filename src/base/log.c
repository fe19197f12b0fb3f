/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c: log lines. Each line is one write(2), so that lines of several threads or processes do not mix. */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"

static _Atomic int max_level_set = GR_LOG_INFO;
static _Atomic bool json_set = false;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void gr_log_setup(enum gr_log_level max_level, bool json)
{
    atomic_store(&max_level_set, (int)max_level);
    atomic_store(&json_set, json);
}

static const char *level_name(enum gr_log_level level)
{
    switch (level) {
    case GR_LOG_ERROR:
        return "error";
    case GR_LOG_WARN:
        return "warn";
    case GR_LOG_INFO:
        return "info";
    case GR_LOG_DEBUG:
        return "debug";
    }
    return "info";
}

static const char *level_prefix(enum gr_log_level level)
{
    switch (level) {
    case GR_LOG_ERROR:
        return "gr00t: error: ";
    case GR_LOG_WARN:
        return "gr00t: warning: ";
    case GR_LOG_INFO:
        return "gr00t: ";
    case GR_LOG_DEBUG:
        return "gr00t: debug: ";
    }
    return "gr00t: ";
}

static void put_time(struct gr_buf *b)
{
    struct timespec now;
    struct tm utc;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    gr_buf_printf(b, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                  utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
}

static void write_all(const char *data, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDERR_FILENO, data, n);
        if (w < 0 && errno == EINTR) {
            continue;
        }
        if (w <= 0) {
            return; /* nobody is left to be told */
        }
        data += w;
        n -= (size_t)w;
    }
}

void gr_log(enum gr_log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load(&max_level_set)) {
        return;
    }
    int saved = errno;
    char *msg = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&msg, fmt, ap);
    va_end(ap);
    if (n < 0) {
        errno = saved;
        return;
    }
    struct gr_buf b = {0};
    if (atomic_load(&json_set)) {
        gr_buf_puts(&b, "{\"ts\":\"");
        put_time(&b);
        gr_buf_printf(&b, "\",\"level\":\"%s\",\"msg\":", level_name(level));
        gr_buf_json_string(&b, msg);
        gr_buf_puts(&b, "}\n");
    } else {
        gr_buf_puts(&b, level_prefix(level));
        gr_buf_line(&b, "%s\n", msg);
    }
    if (!b.failed) {
        (void)pthread_mutex_lock(&lock);
        write_all(b.data, b.len);
        (void)pthread_mutex_unlock(&lock);
    }
    gr_buf_free(&b);
    free(msg);
    errno = saved;
}
