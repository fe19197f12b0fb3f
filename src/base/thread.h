/* SPDX-License-Identifier: Apache-2.0
 *
 * thread.h: threads that leave signals to the thread which waits for them. Their own faults (SIGBUS, SIGSEGV ...) still reach the
 * process's handlers: a blocked fault would end the process without a word. */
#ifndef GR_BASE_THREAD_H
#define GR_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create: 0, or an errno value. */
int gr_thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

#endif
