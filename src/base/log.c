/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c: log lines. Each line is one write(2), so that lines of several threads or processes do not mix. A service hands them to
 * a thread: two buffers change places, one is filled while the other is written, and only the writer ever waits for the reader. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/thread.h"

static _Atomic int max_level_set = GR_LOG_INFO;
static _Atomic bool json_set = false;
static _Atomic bool stamp_set = false;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The writing thread; everything under the lock, but for the buffer that it is writing. */
static struct {
    enum { DIRECT, THREAD, ENDING, STUCK } mode; /* STUCK: the thread hangs in a write and is left alone */
    pthread_t thread;
    pthread_cond_t wake, done;
    char lines[2][GR_LOG_WAITING_BYTES];
    size_t n; /* bytes in lines[filling] */
    int filling;
    bool writing;
    unsigned dropped; /* lines since the last write */
} writer;

void gr_log_setup(enum gr_log_level max_level, bool json)
{
    atomic_store(&max_level_set, (int)max_level);
    atomic_store(&json_set, json);
}

void gr_log_stamp(bool on) { atomic_store(&stamp_set, on); }

bool gr_log_stamped(void) { return atomic_load(&stamp_set); }

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
        if (w < 0 && errno == EAGAIN && poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 1000) > 0) {
            continue;
        }
        if (w <= 0) {
            return; /* nobody is left to be told */
        }
        data += w;
        n -= (size_t)w;
    }
}

static void *write_lines(void *unused)
{
    (void)unused;
    (void)pthread_mutex_lock(&lock);
    for (;;) {
        while (writer.n == 0 && writer.mode == THREAD) {
            (void)pthread_cond_wait(&writer.wake, &lock);
        }
        if (writer.n == 0 || writer.mode == STUCK) {
            break;
        }
        char *lines = writer.lines[writer.filling], note[64];
        size_t n = writer.n;
        unsigned dropped = writer.dropped;
        writer.filling ^= 1;
        writer.n = 0;
        writer.dropped = 0;
        writer.writing = true;
        (void)pthread_mutex_unlock(&lock);
        write_all(lines, n);
        if (dropped > 0) {
            int len = snprintf(note, sizeof note,
                               atomic_load(&json_set) ? "{\"dropped_lines\":%u}\n" : "(%u lines lost)\n", dropped);
            write_all(note, (size_t)len);
        }
        (void)pthread_mutex_lock(&lock);
        writer.writing = false;
        (void)pthread_cond_broadcast(&writer.done);
    }
    (void)pthread_mutex_unlock(&lock);
    return NULL;
}

void gr_log_start_thread(void)
{
    pthread_condattr_t monotonic;
    (void)pthread_mutex_lock(&lock);
    if (writer.mode == DIRECT) {
        (void)pthread_condattr_init(&monotonic);
        (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        (void)pthread_cond_init(&writer.wake, NULL);
        (void)pthread_cond_init(&writer.done, &monotonic);
        (void)pthread_condattr_destroy(&monotonic);
        writer.mode = THREAD;
        if (gr_thread_start(&writer.thread, write_lines, NULL) != 0) {
            writer.mode = DIRECT;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

void gr_log_stop_thread(double timeout_ms)
{
    const struct timespec end = gr_clock_after(timeout_ms);
    (void)pthread_mutex_lock(&lock);
    if (writer.mode != THREAD) {
        (void)pthread_mutex_unlock(&lock);
        return;
    }
    writer.mode = ENDING;
    (void)pthread_cond_signal(&writer.wake);
    int waited = 0;
    while ((writer.n > 0 || writer.writing) && waited == 0) {
        waited = pthread_cond_timedwait(&writer.done, &lock, &end);
    }
    bool stuck = writer.n > 0 || writer.writing;
    writer.mode = stuck ? STUCK : DIRECT;
    (void)pthread_mutex_unlock(&lock);
    if (stuck) {
        (void)pthread_detach(writer.thread);
    } else {
        (void)pthread_join(writer.thread, NULL);
    }
}

/* One finished line: written, or left to the thread. */
static void deliver(const char *line, size_t n)
{
    (void)pthread_mutex_lock(&lock);
    if (writer.mode == DIRECT) {
        write_all(line, n);
    } else if (writer.mode == STUCK || n > GR_LOG_WAITING_BYTES - writer.n) {
        writer.dropped++;
    } else {
        memcpy(writer.lines[writer.filling] + writer.n, line, n);
        writer.n += n;
        (void)pthread_cond_signal(&writer.wake);
    }
    (void)pthread_mutex_unlock(&lock);
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
        if (atomic_load(&stamp_set)) {
            put_time(&b);
            gr_buf_printf(&b, " %-5s ", level_name(level));
        } else {
            gr_buf_puts(&b, level_prefix(level));
        }
        gr_buf_line(&b, "%s\n", msg);
    }
    if (!b.failed) {
        deliver(b.data, b.len);
    }
    gr_buf_free(&b);
    free(msg);
    errno = saved;
}
