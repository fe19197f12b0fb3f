/* SPDX-License-Identifier: Apache-2.0
 *
 * test_encode.c: the two halves of a predict: the same bits as the whole, also when the next observation is encoded meanwhile, and wrong calls. */
#include "gr_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "demo_snapshot.h"
#include "gr00t.h"
#include "policy/encode.h"
#include "policy/observation.h"
#include "policy/policy.h"

enum { N = 3, ROUNDS = 12 };

static struct gr_policy *policy;
static struct gr_sample samples[N];
static struct gr_chunk *whole[N]; /* what gr_policy_predict gives */

static struct gr_policy *open_demo(void)
{
    struct gr_err err;
    struct gr_policy *p = NULL;
    struct gr_options o = {.precision = "exact", .threads = 2};
    gr_test_ok(gr_policy_open(demo_dir, &o, &p, &err), &err);
    return p;
}

static int set_up(void **state)
{
    struct gr_err err;
    struct gr_options o = {.precision = "exact", .threads = 2};
    bool ok = make_demo(state) == 0 && gr_policy_open(demo_dir, &o, &policy, &err) == GR_OK;
    for (int k = 0; ok && k < N; k++) {
        ok = gr_sample_make(gr_policy_config(policy), k + 1, &samples[k], &err) == GR_OK &&
             gr_chunk_new(policy, &whole[k], &err) == GR_OK &&
             gr_policy_predict(policy, &samples[k].obs, whole[k], &err) == GR_OK;
    }
    return ok ? 0 : -1;
}

static int clean_up(void **state)
{
    for (int k = 0; k < N; k++) {
        gr_sample_free(&samples[k]);
        gr_chunk_free(whole[k]);
    }
    gr_policy_close(policy);
    return gr_test_temp_clean(state);
}

static bool same(const struct gr_chunk *a, const struct gr_chunk *b)
{
    return memcmp(a->actions, b->actions, (size_t)a->steps * (size_t)a->dim * sizeof(float)) == 0 &&
           memcmp(a->normalized, b->normalized, (size_t)a->horizon * (size_t)a->max_action_dim * sizeof(float)) == 0 &&
           a->n_tokens == b->n_tokens && a->n_text == b->n_text;
}

static void the_halves_give_the_bits_of_the_whole(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_encoded *r[N];
    struct gr_chunk *c;
    gr_test_ok(gr_chunk_new(policy, &c, &err), &err);
    for (int k = 0; k < N; k++) {
        gr_test_ok(gr_policy_encoded_new(policy, &r[k], &err), &err);
        gr_test_ok(gr_policy_encode(policy, &samples[k].obs, r[k], &err), &err);
    }
    for (int k = 2 * N - 1; k >= 0; k--) { /* in another order, and twice: a predict takes nothing out of its request */
        gr_test_ok(gr_policy_predict_encoded(policy, r[k % N], c, &err), &err);
        assert_true(same(c, whole[k % N]));
        assert_true(c->timing.encode > 0 && c->timing.total >= c->timing.encode + c->timing.device);
    }
    for (int k = 0; k < N; k++) {
        gr_encoded_free(r[k]);
    }
    gr_chunk_free(c);
}

/* Fills the two requests in turn while the main thread computes the other one. */
struct feeder {
    struct gr_encoded *r[2];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int encoded, computed;
    _Atomic bool failed;
};

static void *feed(void *arg)
{
    struct feeder *f = arg;
    struct gr_err err;
    for (int i = 0; i < ROUNDS; i++) {
        (void)pthread_mutex_lock(&f->lock);
        while (i - f->computed >= 2) {
            (void)pthread_cond_wait(&f->moved, &f->lock);
        }
        (void)pthread_mutex_unlock(&f->lock);
        if (gr_policy_encode(policy, &samples[i % N].obs, f->r[i % 2], &err) != GR_OK) {
            atomic_store(&f->failed, true);
        }
        (void)pthread_mutex_lock(&f->lock);
        f->encoded = i + 1;
        (void)pthread_cond_broadcast(&f->moved);
        (void)pthread_mutex_unlock(&f->lock);
    }
    return NULL;
}

static void the_next_request_is_encoded_while_one_is_computed(void **state)
{
    (void)state;
    struct feeder f = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    struct gr_err err;
    struct gr_chunk *c;
    pthread_t thread;
    gr_test_ok(gr_chunk_new(policy, &c, &err), &err);
    gr_test_ok(gr_policy_encoded_new(policy, &f.r[0], &err), &err);
    gr_test_ok(gr_policy_encoded_new(policy, &f.r[1], &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        (void)pthread_mutex_lock(&f.lock);
        while (f.encoded <= i) {
            (void)pthread_cond_wait(&f.moved, &f.lock);
        }
        (void)pthread_mutex_unlock(&f.lock);
        wrong += gr_policy_predict_encoded(policy, f.r[i % 2], c, &err) != GR_OK || !same(c, whole[i % N]);
        /* A whole predict beside it encodes too. */
        wrong +=
            i == ROUNDS / 2 && (gr_policy_predict(policy, &samples[0].obs, c, &err) != GR_OK || !same(c, whole[0]));
        (void)pthread_mutex_lock(&f.lock);
        f.computed = i + 1;
        (void)pthread_cond_broadcast(&f.moved);
        (void)pthread_mutex_unlock(&f.lock);
    }
    (void)pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
    assert_false(atomic_load(&f.failed));
    gr_encoded_free(f.r[0]);
    gr_encoded_free(f.r[1]);
    gr_chunk_free(c);
}

static void a_request_that_was_not_filled_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_encoded *r = NULL, *none = NULL;
    struct gr_observation bad = samples[0].obs;
    struct gr_policy *other = open_demo();
    gr_test_ok(gr_policy_encoded_new(policy, &r, &err), &err);
    gr_test_fails(gr_policy_predict_encoded(policy, r, whole[0], &err), &err, GR_ERR_USAGE, "empty");
    gr_test_ok(gr_policy_encode(policy, &samples[0].obs, r, &err), &err);
    bad.instruction = " ?! ";
    gr_test_fails(gr_policy_encode(policy, &bad, r, &err), &err, GR_ERR_INPUT, "instruction is empty");
    gr_test_fails(gr_policy_predict_encoded(policy, r, whole[0], &err), &err, GR_ERR_USAGE, "empty"); /* half filled */
    gr_test_fails(gr_policy_encode(other, &samples[0].obs, r, &err), &err, GR_ERR_USAGE, "another policy");
    gr_test_fails(gr_policy_predict_encoded(other, r, whole[0], &err), &err, GR_ERR_USAGE, "another policy");
    gr_test_fails(gr_policy_encode(NULL, &bad, r, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_encode(policy, NULL, r, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_encode(policy, &bad, NULL, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_predict_encoded(policy, NULL, whole[0], &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_encoded_new(NULL, &none, &err), &err, GR_ERR_USAGE, "NULL");
    assert_null(none);
    gr_policy_close(other);
    gr_encoded_free(r);
    gr_encoded_free(NULL);
}

static void every_encode_gets_a_serial_of_its_own(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_encoded *r[2];
    struct gr_policy *other = open_demo();
    struct gr_observation bad = samples[0].obs;
    gr_test_ok(gr_policy_encoded_new(policy, &r[0], &err), &err);
    gr_test_ok(gr_policy_encoded_new(other, &r[1], &err), &err);
    assert_true(r[0]->serial == 0 && gr_encoded_input(r[0], NULL).serial == 0);
    gr_test_ok(gr_policy_encode(policy, &samples[0].obs, r[0], &err), &err);
    const uint64_t first = r[0]->serial;
    assert_true(first != 0 && gr_encoded_input(r[0], NULL).serial == first);
    gr_test_ok(gr_policy_encode(policy, &samples[0].obs, r[0], &err), &err); /* the same bytes in the same memory */
    assert_true(r[0]->serial > first);
    gr_test_ok(gr_policy_encode(other, &samples[0].obs, r[1], &err), &err);
    assert_true(r[1]->serial > r[0]->serial); /* another policy counts on */
    bad.instruction = " ?! ";
    gr_test_fails(gr_policy_encode(policy, &bad, r[0], &err), &err, GR_ERR_INPUT, "instruction is empty");
    assert_int_equal(r[0]->serial, 0);
    gr_policy_close(other);
    gr_encoded_free(r[0]);
    gr_encoded_free(r[1]);
}

static const struct gr_encoded *count_asks(void *user)
{
    ++*(int *)user;
    return NULL;
}

static void the_cpu_does_not_ask_who_comes_next(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_chunk *c;
    int asked = 0;
    gr_test_ok(gr_chunk_new(policy, &c, &err), &err);
    gr_policy_set_next(policy, count_asks, &asked);
    gr_test_ok(gr_policy_predict(policy, &samples[1].obs, c, &err), &err);
    gr_policy_set_next(policy, NULL, NULL);
    assert_true(same(c, whole[1]));
    assert_int_equal(asked, 0);
    gr_chunk_free(c);
}

static void a_cancelled_policy_does_not_encode(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_encoded *r = NULL;
    gr_test_ok(gr_policy_encoded_new(policy, &r, &err), &err);
    gr_policy_set_cancel(policy, true);
    gr_test_fails(gr_policy_encode(policy, &samples[0].obs, r, &err), &err, GR_ERR_BUSY, "cancelled");
    gr_policy_set_cancel(policy, false);
    gr_test_ok(gr_policy_encode(policy, &samples[0].obs, r, &err), &err);
    gr_encoded_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_halves_give_the_bits_of_the_whole),
        cmocka_unit_test(the_next_request_is_encoded_while_one_is_computed),
        cmocka_unit_test(a_request_that_was_not_filled_is_refused),
        cmocka_unit_test(every_encode_gets_a_serial_of_its_own),
        cmocka_unit_test(the_cpu_does_not_ask_who_comes_next),
        cmocka_unit_test(a_cancelled_policy_does_not_encode),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
