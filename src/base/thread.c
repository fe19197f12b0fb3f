/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.c: the signal mask of a new thread is that of its creator at the moment of creation. */
#include "base/thread.h"

#include <signal.h>

int gr_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    sigset_t quiet, before;
    (void)sigfillset(&quiet);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        (void)sigdelset(&quiet, faults[i]);
    }
    (void)pthread_sigmask(SIG_SETMASK, &quiet, &before);
    int failed = pthread_create(thread, NULL, fn, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}
