/* SPDX-License-Identifier: Apache-2.0
 *
 * server.c: the life of the service. The main thread opens the port, starts HTTP and the boot thread, and from then on only waits:
 * for a signal, for the end of the start, for a fatal fault of the engine. Signals come through a descriptor, so that no handler runs
 * anywhere and a signal that arrives before the wait is not lost. */
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/boot.h"
#include "server/service.h"

enum {
    SPARE_FDS = 64,      /* descriptors besides connections: files of the snapshot, epoll, log */
    BOOT_END_MS = 300,   /* for a start that is stopped */
    REPLIES_END_MS = 500 /* for the 503 of cancelled requests to reach their clients */
};
#define WAIT_STEP_MS 20.0

struct server {
    const struct gr_server_config *cfg;
    struct gr_service_config names;
    char device[32]; /* "cpu:0", "blackhole:1" */
    struct gr_listener listener;
    struct gr_service *service;
    struct gr_httpd *http;
    struct gr_boot *boot;
    int signals, wake; /* signalfd, eventfd */
    sigset_t mask_before;
    struct sigaction hup_before;
};

/* ---- signals and wake-ups ---- */

static enum gr_status take_signals(struct server *s, struct gr_err *err)
{
    sigset_t set;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &set, &s->mask_before); /* all threads to come inherit it */
    (void)sigaction(SIGHUP, &ignore, &s->hup_before);
    s->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->signals < 0 || s->wake < 0) {
        return gr_fail_errno(err, GR_ERR_DEVICE, errno, "no descriptor for signals");
    }
    return GR_OK;
}

static void give_signals_back(struct server *s)
{
    if (s->signals >= 0) {
        (void)close(s->signals);
    }
    if (s->wake >= 0) {
        (void)close(s->wake);
    }
    (void)sigaction(SIGHUP, &s->hup_before, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &s->mask_before, NULL);
}

static void wake_up(void *user)
{
    const struct server *s = user;
    const uint64_t one = 1;
    ssize_t n = write(s->wake, &one, sizeof one);
    (void)n; /* full: it is awake already */
}

/* Name of a signal that has arrived, NULL when none has. */
static const char *next_signal(struct server *s)
{
    struct signalfd_siginfo info;
    ssize_t n = read(s->signals, &info, sizeof info);
    return n != (ssize_t)sizeof info ? NULL : info.ssi_signo == SIGINT ? "SIGINT" : "SIGTERM";
}

static void sleep_until_something(struct server *s)
{
    struct pollfd fds[] = {{.fd = s->signals, .events = POLLIN}, {.fd = s->wake, .events = POLLIN}};
    uint64_t count;
    (void)poll(fds, 2, -1);
    ssize_t n = read(s->wake, &count, sizeof count);
    (void)n;
}

/* ---- up ---- */

/* Room for the connections; with less, fewer are taken, so that accept never fails for want of a descriptor. */
static int fit_connections(int wanted)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return wanted;
    }
    rlim_t need = (rlim_t)wanted + SPARE_FDS;
    if (limit.rlim_cur < need) {
        limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= need) {
        return wanted;
    }
    int fds = (int)limit.rlim_cur, room = fds > 2 * SPARE_FDS ? fds - SPARE_FDS : fds / 2;
    gr_log(GR_LOG_WARN, "only %d descriptors are allowed (ulimit -n): %d connections instead of %d", fds, room, wanted);
    return room;
}

static void tell_address(const struct server *s)
{
    const struct gr_server_config *c = s->cfg;
    gr_log(GR_LOG_INFO, "Started server process [%ld]", (long)getpid());
    if (s->listener.moved) { /* clients that know the default would talk to another program */
        gr_log(GR_LOG_WARN, "port %d is in use by another program; serving on %d instead", GR_PORT_FIRST,
               s->listener.port);
    }
    gr_log(GR_LOG_INFO, "Listening on %s%s", s->listener.url, s->listener.inherited ? " (socket handed over)" : "");
    if (s->listener.is_public && c->api_key == NULL) {
        gr_log(GR_LOG_WARN, "%s can be reached from other machines and asks for no key; --api-key-file sets one",
               s->listener.url);
    }
    if (s->listener.is_public && c->api_key != NULL && c->tls_cert == NULL) {
        gr_log(GR_LOG_WARN, "the key crosses the network in the clear: no --tls-cert");
    }
}

static enum gr_status start(struct server *s, struct gr_err *err)
{
    const struct gr_server_config *c = s->cfg;
    GR_TRY(gr_listen(&c->listen, c->tls_cert != NULL, &s->listener, err));
    tell_address(s);
    const bool card = c->engine.device != NULL && strcmp(c->engine.device, "blackhole") == 0;
    (void)snprintf(s->device, sizeof s->device, card ? "blackhole:%d" : "cpu:0", c->engine.card);
    s->names = (struct gr_service_config){.model = card ? "GR00T-N1.6-3B-p150" : "GR00T-N1.6-3B-cpu",
                                          .device = s->device,
                                          .version = "n16",
                                          .layout = c->layout,
                                          .api_key = c->api_key,
                                          .cors_origin = c->cors_origin,
                                          .queue = c->queue,
                                          .limits = c->limits};
    s->names.limits.connections = fit_connections(c->limits.connections);
    GR_TRY(gr_service_new(&s->names, &s->service, err));
    gr_service_on_fatal(s->service, wake_up, s);
    struct gr_httpd_config http = {.listen_fd = s->listener.fd,
                                   .inherited = s->listener.inherited,
                                   .unix_socket = s->listener.is_unix,
                                   .tls_cert = c->tls_cert,
                                   .tls_key = c->tls_key,
                                   .limits = s->names.limits,
                                   .on = gr_service_callbacks(s->service)};
    GR_TRY(gr_httpd_start(&http, &s->http, err));
    gr_service_set_http(s->service, s->http);
    return gr_boot_start(c, &s->names, s->service, wake_up, s, &s->boot, err);
}

/* ---- down ---- */

/* Waits for the open requests. False: a second signal came. */
static bool drain(struct server *s, double seconds)
{
    double end = gr_clock_ms() + seconds * 1000.0;
    gr_notify(s->cfg->notify_socket, "STOPPING=1\nSTATUS=answering accepted requests");
    gr_service_drain(s->service);
    gr_httpd_drain(s->http);
    while (!gr_httpd_wait_idle(s->http, WAIT_STEP_MS) && gr_clock_ms() < end) {
        const char *again = next_signal(s);
        if (again != NULL) {
            gr_log(GR_LOG_WARN, "%s again: ending now, requests unanswered: %d", again,
                   gr_httpd_open_requests(s->http));
            return false;
        }
    }
    return true;
}

/* Ends everything that start() began. False: a thread of the start still runs and nothing can be freed. */
static bool take_down(struct server *s)
{
    if (s->boot != NULL && !gr_boot_stop(s->boot, BOOT_END_MS)) {
        gr_listen_close(&s->listener);
        return false;
    }
    if (s->service != NULL) {
        int left = s->http != NULL ? gr_httpd_open_requests(s->http) : 0;
        if (left > 0) {
            gr_log(GR_LOG_WARN, "time is up: requests that get 503: %d", left);
        }
        gr_service_stop(s->service);
    }
    if (s->http != NULL) {
        gr_httpd_drain(s->http);
        (void)gr_httpd_wait_idle(s->http, REPLIES_END_MS);
        gr_httpd_free(s->http);
    }
    gr_service_free(s->service);
    gr_boot_free(s->boot);
    gr_listen_close(&s->listener);
    return true;
}

/* Until a reason to end has come. GR_OK for a signal: *by names it. */
static enum gr_status wait_for_end(struct server *s, const char **by, struct gr_err *err)
{
    bool booted = false;
    for (;;) {
        enum gr_status status;
        *by = next_signal(s);
        if (*by != NULL) {
            return GR_OK;
        }
        if (!booted && gr_boot_done(s->boot, &status, err)) {
            GR_TRY(status);
            booted = true;
        }
        if (gr_service_fatal(s->service, err)) {
            return GR_ERR_DEVICE;
        }
        sleep_until_something(s);
    }
}

/* As long as the process lives when a thread could not be stopped. */
static struct server the_server;

enum gr_status gr_server_run(const struct gr_server_config *cfg, bool *unfinished, struct gr_err *err)
{
    struct server *s = &the_server;
    const char *by = NULL;
    *unfinished = false;
    *s = (struct server){.cfg = cfg, .signals = -1, .wake = -1, .listener = {.fd = -1}};
    enum gr_status status = take_signals(s, err);
    if (status == GR_OK) {
        status = start(s, err);
    }
    if (status == GR_OK) {
        status = wait_for_end(s, &by, err);
    }
    if (by != NULL) {
        enum gr_status boot_status;
        struct gr_err ignored;
        bool ready = gr_boot_done(s->boot, &boot_status, &ignored);
        gr_log(GR_LOG_INFO, "Shutting down (%s): requests open: %d, time for them: %g s", by,
               gr_httpd_open_requests(s->http), cfg->drain_s);
        if (!drain(s, ready ? cfg->drain_s : 0.0)) {
            *unfinished = true; /* no time to free things in order */
            gr_listen_close(&s->listener);
            return GR_OK;
        }
    }
    *unfinished = !take_down(s);
    if (by != NULL) {
        gr_log(GR_LOG_INFO, "Finished server process [%ld]", (long)getpid());
    }
    if (!*unfinished) {
        give_signals_back(s);
    }
    return status;
}
