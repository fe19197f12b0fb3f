/* SPDX-License-Identifier: Apache-2.0
 *
 * gr_test.h: what every unit test needs: cmocka with its headers in the right order, paths, files, SHA-256, temporary
 * folders, and the one way to skip. Helpers fail the running test (fail_msg) instead of returning errors, so they are called
 * from inside a test, not from main().
 *
 * Paths that helpers return live in a ring of 16 static buffers: good for the next fifteen calls, never to be freed. */
#ifndef GR_TEST_H
#define GR_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/err.h"

/* 1 in a build with the address sanitizer (gr_big_alloc then takes the heap) or with any that has its own malloc. */
#ifdef __has_feature
#define GR_TEST_FEATURE(name) __has_feature(name)
#else
#define GR_TEST_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || GR_TEST_FEATURE(address_sanitizer)
#define GR_TEST_ASAN 1
#else
#define GR_TEST_ASAN 0
#endif
#if GR_TEST_ASAN || defined(__SANITIZE_THREAD__) || GR_TEST_FEATURE(thread_sanitizer) || \
    GR_TEST_FEATURE(memory_sanitizer)
#define GR_TEST_FOREIGN_MALLOC 1
#else
#define GR_TEST_FOREIGN_MALLOC 0
#endif

/* Folder of the source tree: GR00T_SOURCE_ROOT, else ".". */
const char *gr_test_source_root(void);
/* Folder of the long lists (specification, goldens): GR00T_SHARED, else <source root>/../shared; NULL when it is not there. */
const char *gr_test_shared_root(void);

/* A path below dir / the source root / the shared folder, printf-style. gr_test_shared skips the test when the folder is absent. */
const char *gr_test_join(const char *dir, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
const char *gr_test_source(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *gr_test_shared(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints "skipped: <why>" and leaves the test as skipped. */
void gr_test_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
/* First line of a test that reads the shared folder: skips with one clear line when it is absent. */
void gr_test_need_shared(void);

/* Whole file in malloc'ed memory with a NUL behind it; *n (may be NULL) without the NUL. */
uint8_t *gr_test_read(const char *path, size_t *n);
void gr_test_write(const char *path, const void *bytes, size_t n);
bool gr_test_exists(const char *path);

/* Lower-case hex with NUL. */
void gr_test_sha256(const void *bytes, size_t n, char hex[65]);

/* A new empty folder below TMPDIR (else /tmp), registered for removal by gr_test_temp_clean. Malloc'ed name is owned by the helper. */
const char *gr_test_temp_dir(void);
/* Removes every folder made by gr_test_temp_dir; suitable as a cmocka group teardown. */
int gr_test_temp_clean(void **state);
/* Copies a folder with everything in it (regular files and folders; links are followed). `to` is created. */
void gr_test_copy_dir(const char *from, const char *to);
void gr_test_remove_dir(const char *path);

/* Highest resident memory of this process so far, KiB. Only grows: measure before larger things have run. */
long gr_test_peak_kib(void);
/* CPU time so far, ms, of CLOCK_THREAD_CPUTIME_ID or CLOCK_PROCESS_CPUTIME_ID: unlike the time on the wall it does not depend on what else
 * runs. */
double gr_test_cpu_ms(clockid_t clock);

/* Nothing here takes so long, however busy the machine is: what a test waits for in vain ends then. */
enum { GR_TEST_HANG_MS = 60000 };
/* Until cond holds, for so long at most; who waits then asserts it. */
#define gr_test_wait(cond)                                     \
    do {                                                       \
        const double gr_end = gr_clock_ms() + GR_TEST_HANG_MS; \
        while (!(cond) && gr_clock_ms() < gr_end) {            \
            gr_clock_sleep(1);                                 \
        }                                                      \
    } while (0)

/* A call that must succeed (prints the message when it does not), and one that must fail with this code and mention `text`. */
#define gr_test_ok(call, err)                                                       \
    do {                                                                            \
        if ((call) != GR_OK) {                                                      \
            fail_msg("%s: %s: %s", #call, gr_status_name((err)->code), (err)->msg); \
        }                                                                           \
    } while (0)
#define gr_test_fails(call, err, want, text) \
    gr_test_check_failure((call), (err), (want), (text), #call, __FILE__, __LINE__)
void gr_test_check_failure(enum gr_status got, const struct gr_err *err, enum gr_status want, const char *text,
                           const char *call, const char *file, int line);

#endif
