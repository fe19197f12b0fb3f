/* SPDX-License-Identifier: Apache-2.0
 *
 * test_steady_state.c: once warm, a predict takes no memory and gives none back, whatever its part: tokens, picture, device, actions. The
 * program's own malloc stands before the C library's, so calls of the shared libraries count too. */
#include "gr_test.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "demo_snapshot.h"
#include "gr00t.h"
#include "policy/observation.h"
#include "policy/policy.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CAN_COUNT 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAN_COUNT 0
#endif
#endif
#ifndef CAN_COUNT
#define CAN_COUNT 1
#endif

static _Atomic bool counting;
static _Atomic int calls;

#if CAN_COUNT
/* glibc's own names of its functions. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *p);

static void count(void)
{
    if (counting) {
        calls++;
    }
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    count();
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t n, size_t bytes)
{
    count();
    return __libc_calloc(n, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t bytes)
{
    count();
    return __libc_realloc(p, bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes)
{
    count();
    return __libc_memalign(alignment, bytes);
}

__attribute__((visibility("default"))) int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    count();
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? ENOMEM : 0;
}

__attribute__((visibility("default"))) void free(void *p)
{
    if (p != NULL) {
        count();
    }
    __libc_free(p);
}
#endif

static void the_count_sees_a_call(void **state)
{
    (void)state;
    if (!CAN_COUNT) {
        print_message("skipped: memory calls cannot be counted in this build\n");
        return;
    }
    void *volatile p;
    counting = true;
    p = malloc(16);
    free(p);
    counting = false;
    assert_int_equal(calls, 2);
    calls = 0;
}

static void a_warm_predict_takes_no_memory(void **state)
{
    (void)state;
    enum { PREDICTS = 20, WARM = 2 };
    struct gr_err err;
    for (int threads = 1; threads <= 3; threads++) {
        struct gr_policy *p;
        struct gr_chunk *c;
        struct gr_sample s;
        struct gr_options o = {.threads = threads};
        gr_test_ok(gr_policy_open(demo_dir, &o, &p, &err), &err);
        gr_test_ok(gr_chunk_new(p, &c, &err), &err);
        gr_test_ok(gr_sample_make(gr_policy_config(p), 1, &s, &err), &err);
        for (int i = 0; i < WARM + PREDICTS; i++) {
            s.obs.seed = i;
            counting = i >= WARM;
            enum gr_status status = gr_policy_predict(p, &s.obs, c, &err);
            counting = false;
            gr_test_ok(status, &err);
        }
        assert_int_equal(calls, 0);
        gr_sample_free(&s);
        gr_chunk_free(c);
        gr_policy_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_count_sees_a_call),
        cmocka_unit_test(a_warm_predict_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, make_demo, gr_test_temp_clean);
}
