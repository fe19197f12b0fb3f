/* SPDX-License-Identifier: Apache-2.0
 *
 * test_policy_cancel.c: a predict that is cancelled, at any moment, ends soon with GR_ERR_BUSY and harms none that follow; and the
 * reference path, which computes the same with other kernels. */
#include "gr_test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cpu.h"
#include "demo_snapshot.h"
#include "gr00t.h"
#include "policy/observation.h"
#include "policy/policy.h"

struct fixture {
    struct gr_policy *p;
    struct gr_sample s;
    struct gr_chunk *good, *c;
    size_t n;
};

static struct fixture begin_with(const char *precision, const char *cpu, int threads)
{
    struct fixture f = {0};
    struct gr_err err;
    struct gr_options o = {.precision = precision, .cpu = cpu, .threads = threads};
    gr_test_ok(gr_policy_open(demo_dir, &o, &f.p, &err), &err);
    gr_test_ok(gr_chunk_new(f.p, &f.good, &err), &err);
    gr_test_ok(gr_chunk_new(f.p, &f.c, &err), &err);
    f.n = (size_t)f.c->horizon * (size_t)f.c->max_action_dim;
    return f;
}

static struct fixture begin(const char *cpu, int threads) { return begin_with("exact", cpu, threads); }

/* The sample must not move once it is made. */
static void first_answer(struct fixture *f)
{
    struct gr_err err;
    gr_test_ok(gr_sample_make(gr_policy_config(f->p), 1, &f->s, &err), &err);
    gr_test_ok(gr_policy_predict(f->p, &f->s.obs, f->good, &err), &err);
}

static void end(struct fixture *f)
{
    gr_chunk_free(f->good);
    gr_chunk_free(f->c);
    gr_sample_free(&f->s);
    gr_policy_close(f->p);
}

static void still_good(struct fixture *f)
{
    struct gr_err err;
    gr_test_ok(gr_policy_predict(f->p, &f->s.obs, f->c, &err), &err);
    assert_memory_equal(f->c->normalized, f->good->normalized, f->n * sizeof(float));
    assert_memory_equal(f->c->actions, f->good->actions, (size_t)f->c->steps * (size_t)f->c->dim * sizeof(float));
}

static void a_cancelled_policy_refuses_until_it_is_cleared(void **state)
{
    (void)state;
    struct fixture f = begin(NULL, 2);
    struct gr_err err;
    first_answer(&f);
    gr_policy_set_cancel(f.p, true);
    for (int i = 0; i < 3; i++) {
        gr_test_fails(gr_policy_predict(f.p, &f.s.obs, f.c, &err), &err, GR_ERR_BUSY, "cancelled");
    }
    gr_policy_set_cancel(f.p, false);
    still_good(&f);
    end(&f);
}

/* Cancels when the tap of one name comes by. */
struct trigger {
    struct gr_policy *p;
    const char *name;
    bool armed;
    int after; /* taps of later layers */
};

static void on_tap(void *user, const char *name, const float *data, int rows, int cols, int ld)
{
    struct trigger *t = user;
    (void)data;
    (void)rows;
    (void)cols;
    (void)ld;
    if (strcmp(name, t->name) == 0) {
        gr_policy_set_cancel(t->p, true);
        t->armed = true;
    } else if (t->armed) {
        t->after++;
    }
}

static void every_part_of_a_predict_ends_within_two_layers(void **state)
{
    (void)state;
    static const char *const places[] = {
        "pixel_values",     "vit.patch_embed",
        "vit.layer0",       "vit.out",
        "mlp1.out",         "llm.input",
        "llm.layer0",       "llm.out",
        "vlln.out",         "state_features",
        "dit.block0.step0", "dit.block1.step0",
        "dit.out.step0",    "action_features.step1",
        "dit.block0.step1", "velocity.step1",
        "dit.block0.step2", "dit.block0.step3",
    };
    static const int threads[] = {1, 3};
    for (int k = 0; k < 2; k++) {
        struct fixture f = begin(NULL, threads[k]);
        first_answer(&f);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            struct trigger t = {.p = f.p, .name = places[i]};
            struct gr_tap_sink sink = {.put = on_tap, .user = &t};
            struct gr_err err;
            enum gr_status status = gr_policy_predict_taps(f.p, &f.s.obs, f.c, &sink, &err);
            assert_true(t.armed);
            gr_test_fails(status, &err, GR_ERR_BUSY, "cancelled");
            if (t.after > 9) { /* the most that two layers and the ends of a stage hand out */
                fail_msg("%d taps after %s", t.after, places[i]);
            }
            gr_policy_set_cancel(f.p, false);
        }
        still_good(&f);
        end(&f);
    }
}

struct canceller {
    struct gr_policy *p;
    long delay_us;
};

static void *cancel_later(void *arg)
{
    struct canceller *c = arg;
    struct timespec t = {.tv_nsec = c->delay_us * 1000};
    nanosleep(&t, NULL);
    gr_policy_set_cancel(c->p, true);
    return NULL;
}

static void cancel_at_any_moment(const char *precision)
{
    struct fixture f = begin_with(precision, NULL, 2);
    first_answer(&f);
    long total_us = (long)(f.good->timing.total * 1000);
    int cancelled = 0;
    for (int i = 0; i < 30 || (cancelled == 0 && i < 1000);
         i++) { /* a busy machine may wake the other thread too late each time */
        struct canceller c = {.p = f.p, .delay_us = total_us * (i % 30) / 25};
        pthread_t thread;
        struct gr_err err;
        assert_int_equal(pthread_create(&thread, NULL, cancel_later, &c), 0);
        enum gr_status status = gr_policy_predict(f.p, &f.s.obs, f.c, &err);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (status == GR_OK) {
            assert_memory_equal(f.c->normalized, f.good->normalized, f.n * sizeof(float));
        } else {
            assert_int_equal(status, GR_ERR_BUSY);
            cancelled++;
        }
        gr_policy_set_cancel(f.p, false);
    }
    assert_true(cancelled > 0);
    still_good(&f);
    assert_true(f.c->timing.n_prefix > 0); /* what was known of the instruction survives */
    end(&f);
}

static void another_thread_may_cancel_at_any_moment(void **state)
{
    (void)state;
    cancel_at_any_moment("exact");
    cancel_at_any_moment("mixed");
}

static void the_reference_path_agrees_with_the_served_one(void **state)
{
    (void)state;
    static const char *const sets[][2] = {{"scalar", "scalar"}, {"avx2", "avx2"}, {"avx512", "avx2"}};
    for (int i = 0; i < 3; i++) {
        unsigned flags = gr_cpu_detect();
        struct gr_err err;
        if (gr_cpu_mask(sets[i][0], &flags, &err) != GR_OK) {
            print_message("skipped: this CPU has no %s\n", sets[i][0]);
            continue;
        }
        struct fixture f = begin(sets[i][0], 2);
        const char *kernels = NULL;
        first_answer(&f);
        gr_test_ok(gr_policy_predict_reference(f.p, &f.s.obs, f.c, &kernels, &err), &err);
        assert_string_equal(kernels, sets[i][1]);
        float largest = 0.0f;
        for (size_t k = 0; k < f.n; k++) {
            largest = fmaxf(largest, fabsf(f.c->normalized[k] - f.good->normalized[k]));
        }
        /* Same arithmetic, other order of sums: the bound of the golden tests, 1e-4 of a chunk whose values are near 1. */
        assert_true(largest <= 1e-4f);
        assert_true((largest == 0.0f) == (strcmp(sets[i][0], sets[i][1]) == 0));
        gr_policy_set_cancel(f.p, true);
        gr_test_fails(gr_policy_predict_reference(f.p, &f.s.obs, f.c, &kernels, &err), &err, GR_ERR_BUSY, "cancelled");
        gr_policy_set_cancel(f.p, false);
        still_good(&f); /* the served path is not changed by it */
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cancelled_policy_refuses_until_it_is_cleared),
        cmocka_unit_test(every_part_of_a_predict_ends_within_two_layers),
        cmocka_unit_test(another_thread_may_cancel_at_any_moment),
        cmocka_unit_test(the_reference_path_agrees_with_the_served_one),
    };
    return cmocka_run_group_tests(tests, make_demo, gr_test_temp_clean);
}
