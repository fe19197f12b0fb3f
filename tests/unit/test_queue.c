/* SPDX-License-Identifier: Apache-2.0
 *
 * test_queue.c: order, bound and end of the queue between threads. */
#include "gr_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "server/queue.h"

static struct gr_queue *new_queue(int capacity)
{
    struct gr_queue *q = NULL;
    struct gr_err err;
    gr_test_ok(gr_queue_new(capacity, &q, &err), &err);
    return q;
}

static void items_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    struct gr_queue *q = new_queue(3);
    char items[9];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3; i++) {
            assert_true(gr_queue_push(q, &items[round * 3 + i]));
        }
        assert_int_equal(gr_queue_depth(q), 3);
        for (int i = 0; i < 3; i++) {
            assert_ptr_equal(gr_queue_pop(q), &items[round * 3 + i]);
        }
    }
    gr_queue_free(q);
}

static void a_full_queue_refuses_and_takes_again_after_a_pop(void **state)
{
    (void)state;
    struct gr_queue *q = new_queue(2);
    char item;
    assert_true(gr_queue_push(q, &item));
    assert_true(gr_queue_push(q, &item));
    assert_false(gr_queue_push(q, &item));
    (void)gr_queue_pop(q);
    assert_true(gr_queue_push(q, &item));
    (void)gr_queue_pop(q);
    (void)gr_queue_pop(q);
    gr_queue_free(q);
}

static void a_closed_queue_refuses_and_hands_out_what_is_left(void **state)
{
    (void)state;
    struct gr_queue *q = new_queue(4);
    char a, b;
    assert_true(gr_queue_push(q, &a));
    assert_true(gr_queue_push(q, &b));
    gr_queue_close(q);
    assert_false(gr_queue_push(q, &a));
    assert_ptr_equal(gr_queue_pop(q), &a);
    assert_ptr_equal(gr_queue_pop(q), &b);
    assert_null(gr_queue_pop(q));
    assert_null(gr_queue_pop(q));
    gr_queue_free(q);
}

static void a_peek_shows_what_the_next_pop_returns(void **state)
{
    (void)state;
    struct gr_queue *q = new_queue(2);
    char a, b, c;
    assert_null(gr_queue_peek(q));
    assert_true(gr_queue_push(q, &a));
    assert_ptr_equal(gr_queue_peek(q), &a);
    assert_true(gr_queue_push(q, &b));
    assert_ptr_equal(gr_queue_peek(q), &a); /* whatever comes behind it */
    assert_int_equal(gr_queue_depth(q), 2);
    assert_ptr_equal(gr_queue_pop(q), &a);
    assert_ptr_equal(gr_queue_peek(q), &b);
    assert_true(gr_queue_push(q, &c)); /* the first place of the ring again */
    gr_queue_close(q);
    assert_ptr_equal(gr_queue_peek(q), &b);
    assert_ptr_equal(gr_queue_pop(q), &b);
    assert_ptr_equal(gr_queue_peek(q), &c);
    assert_ptr_equal(gr_queue_pop(q), &c);
    assert_null(gr_queue_peek(q));
    gr_queue_free(q);
}

static void wrong_capacities_are_refused(void **state)
{
    (void)state;
    struct gr_queue *q = NULL;
    struct gr_err err;
    gr_test_fails(gr_queue_new(0, &q, &err), &err, GR_ERR_USAGE, "1..");
    gr_test_fails(gr_queue_new(-5, &q, &err), &err, GR_ERR_USAGE, "-5");
    gr_test_fails(gr_queue_new(INT32_MAX, &q, &err), &err, GR_ERR_USAGE, "2147483647");
    assert_null(q);
    gr_queue_free(NULL);
}

enum { PER_THREAD = 20000, PUSHERS = 3, POPPERS = 2 };
struct traffic {
    struct gr_queue *q;
    _Atomic uint64_t pushed, popped, sum_pushed, sum_popped;
};

static void *push_many(void *arg)
{
    struct traffic *t = arg;
    for (uintptr_t i = 1; i <= PER_THREAD; i++) {
        while (!gr_queue_push(t->q, (void *)i)) {
        }
        atomic_fetch_add(&t->pushed, 1);
        atomic_fetch_add(&t->sum_pushed, i);
    }
    return NULL;
}

static void *pop_all(void *arg)
{
    struct traffic *t = arg;
    for (void *p = gr_queue_pop(t->q); p != NULL; p = gr_queue_pop(t->q)) {
        atomic_fetch_add(&t->popped, 1);
        atomic_fetch_add(&t->sum_popped, (uintptr_t)p);
    }
    return NULL;
}

static void nothing_is_lost_between_threads(void **state)
{
    (void)state;
    struct traffic t = {.q = new_queue(5)};
    pthread_t pushers[PUSHERS], poppers[POPPERS];
    for (int i = 0; i < POPPERS; i++) {
        assert_int_equal(pthread_create(&poppers[i], NULL, pop_all, &t), 0);
    }
    for (int i = 0; i < PUSHERS; i++) {
        assert_int_equal(pthread_create(&pushers[i], NULL, push_many, &t), 0);
    }
    for (int i = 0; i < PUSHERS; i++) {
        pthread_join(pushers[i], NULL);
    }
    gr_queue_close(t.q);
    for (int i = 0; i < POPPERS; i++) {
        pthread_join(poppers[i], NULL);
    }
    assert_int_equal(atomic_load(&t.popped), PUSHERS * PER_THREAD);
    assert_int_equal(atomic_load(&t.sum_popped), atomic_load(&t.sum_pushed));
    gr_queue_free(t.q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_full_queue_refuses_and_takes_again_after_a_pop),
        cmocka_unit_test(a_closed_queue_refuses_and_hands_out_what_is_left),
        cmocka_unit_test(a_peek_shows_what_the_next_pop_returns),
        cmocka_unit_test(wrong_capacities_are_refused),
        cmocka_unit_test(nothing_is_lost_between_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
