/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_ahead.c: inputs of the next request are written while the Blackhole device computes one, with the CPU interpreter in place of the chip:
 * what is written when, and that no bit depends on it, whoever comes next in the end. */
#include <stdlib.h>
#include <string.h>

#include "demo_snapshot.h"
#include "device/blackhole/blackhole_device.h"
#include "gr00t.h"
#include "policy/observation.h"
#include "policy/policy.h"

enum { COLUMNS = 11, ROWS = 10, REQUESTS = 3 };

/* ---- a chip that counts the bytes that reach a tile ---- */

static const struct gr_bh_machine_ops *real;
static struct gr_bh_machine_ops counting;
static bool running;
static size_t beside, between; /* bytes written while a program runs, and while none does */
static bool writes_fail;       /* beside a program */
static int fills;              /* of many tiles, beside a program */

static enum gr_status count(size_t bytes, struct gr_err *err)
{
    *(running ? &beside : &between) += bytes;
    return running && writes_fail ? gr_fail(err, GR_ERR_DEVICE, "no window") : GR_OK;
}
static enum gr_status l1_write(struct gr_bh_machine *m, int tile, uint32_t addr, const void *src, size_t bytes,
                               struct gr_err *err)
{
    GR_TRY(count(bytes, err));
    return real->l1_write(m, tile, addr, src, bytes, err);
}
static enum gr_status l1_fill(struct gr_bh_machine *m, uint32_t addr, const void *src, size_t bytes, struct gr_err *err)
{
    fills += running;
    GR_TRY(count(bytes, err));
    return real->l1_fill(m, addr, src, bytes, err);
}
static enum gr_status run(struct gr_bh_machine *m, uint32_t n, struct gr_err *err)
{
    running = true;
    const enum gr_status status = real->run(m, n, err);
    running = false;
    return status;
}
static enum gr_status interpreter(void *user, const struct gr_bh_grid *grid, struct gr_bh_machine **out,
                                  struct gr_err *err)
{
    (void)user;
    const enum gr_status status = gr_bh_machine_cpu(grid, GR_BH_FAST, 2, out, err);
    if (status == GR_OK) {
        real = (*out)->ops;
        counting = *real;
        counting.l1_write = l1_write;
        counting.l1_fill = l1_fill;
        counting.run = run;
        (*out)->ops = &counting;
    }
    return status;
}
static const struct gr_blackhole_stand_in chip = {.columns = COLUMNS, .rows = ROWS, .machine = interpreter};

/* ---- a policy with three observations, and the chunk of each alone ---- */

static float *alone[REQUESTS];

struct boot {
    struct gr_policy *policy;
    struct gr_chunk *chunk;
    struct gr_sample sample[REQUESTS];
    struct gr_encoded *request[REQUESTS];
    size_t bytes;
    const struct gr_encoded *next;
    int asked;
};

static const struct gr_encoded *next(void *user)
{
    struct boot *b = user;
    b->asked++;
    return b->next;
}

static void encode(struct boot *b, int k, int observation)
{
    struct gr_err err;
    gr_test_ok(gr_policy_encode(b->policy, &b->sample[observation].obs, b->request[k], &err), &err);
}

/* Request k, which has observation k or `as`, while `following` is next; -1: nobody. */
static void predict(struct boot *b, int k, int as, int following)
{
    struct gr_err err;
    b->next = following < 0 ? NULL : b->request[following];
    beside = between = 0;
    gr_test_ok(gr_policy_predict_encoded(b->policy, b->request[k], b->chunk, &err), &err);
    if (alone[as] == NULL) {
        alone[as] = malloc(b->bytes);
        memcpy(alone[as], b->chunk->normalized, b->bytes);
    }
    assert_memory_equal(b->chunk->normalized, alone[as], b->bytes);
}

static void boot(struct boot *b, const struct gr_options *o)
{
    struct gr_err err;
    memset(b, 0, sizeof *b);
    gr_test_ok(gr_policy_open(demo_dir, o, &b->policy, &err), &err);
    gr_test_ok(gr_chunk_new(b->policy, &b->chunk, &err), &err);
    b->bytes = (size_t)b->chunk->horizon * (size_t)b->chunk->max_action_dim * sizeof(float);
    for (int k = 0; k < REQUESTS; k++) {
        gr_test_ok(gr_sample_make(gr_policy_config(b->policy), k + 1, &b->sample[k], &err), &err);
        gr_test_ok(gr_policy_encoded_new(b->policy, &b->request[k], &err), &err);
        encode(b, k, k);
    }
    gr_policy_set_next(b->policy, next, b);
}

static void end(struct boot *b)
{
    for (int k = 0; k < REQUESTS; k++) {
        gr_sample_free(&b->sample[k]);
        gr_encoded_free(b->request[k]);
    }
    gr_chunk_free(b->chunk);
    gr_policy_close(b->policy);
}

static const struct gr_options two = {.device = "blackhole", .threads = 2};
static struct boot b; /* of most tests */

static int set_up(void **state)
{
    gr_blackhole_use(&chip);
    if (make_demo(state) != 0) {
        return -1;
    }
    boot(&b, &two);
    return 0;
}
static int clean_up(void **state)
{
    end(&b);
    for (int k = 0; k < REQUESTS; k++) {
        free(alone[k]);
    }
    gr_blackhole_use(NULL);
    return gr_test_temp_clean(state);
}

/* ---- tests ---- */

static void most_of_the_next_request_is_there_when_it_begins(void **state)
{
    (void)state;
    for (int k = 0; k < REQUESTS; k++) {
        predict(&b, k, k, -1);
        assert_true(k == 0 || memcmp(alone[k], alone[0], b.bytes) != 0);
    }
    predict(&b, 0, 0, 0);
    const size_t all = between;
    assert_true(beside > all / 2); /* patches and rows of tokens */
    predict(&b, 0, 0, 1);
    assert_true(between > 0 && between < all / 2);
    predict(&b, 1, 1, 2);
    predict(&b, 2, 2, -1);
    assert_int_equal(beside, 0);
    predict(&b, 0, 0, -1);
    assert_int_equal(between, all);
    assert_int_equal(fills, 0); /* the host cannot reserve the way of a multicast, as the program's have theirs */
}

static void another_request_than_the_one_announced_is_served_right(void **state)
{
    (void)state;
    predict(&b, 0, 0, 1);
    assert_true(beside > 0);
    predict(&b, 2, 2, -1); /* 1 has gone */
    predict(&b, 1, 1, -1);
    predict(&b, 0, 0, 1);
    encode(&b, 1, 2); /* memory of 1 is filled again, nobody has told */
    predict(&b, 1, 2, -1);
    predict(&b, 1, 2, 0);
    struct gr_err err;
    gr_policy_set_cancel(b.policy, true);
    gr_test_fails(gr_policy_predict_encoded(b.policy, b.request[0], b.chunk, &err), &err, GR_ERR_BUSY, "cancelled");
    gr_policy_set_cancel(b.policy, false);
    predict(&b, 0, 0, -1);
    encode(&b, 1, 1);
}

static void what_cannot_be_written_ahead_is_written_later(void **state)
{
    (void)state;
    writes_fail = true;
    predict(&b, 0, 0, 1); /* is not what fails */
    writes_fail = false;
    assert_true(beside > 0);
    predict(&b, 1, 1, -1);
}

static void one_queue_and_ops_write_nothing_ahead(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct gr_options o = two;
        struct boot one;
        o.command_queues = i == 0 ? 1 : 2;
        o.dit_backend = i == 0 ? "megakernel" : "ops";
        boot(&one, &o);
        assert_false(gr_policy_info(one.policy)->card->uploads_overlap);
        predict(&one, 0, 0, 1);
        predict(&one, 1, 1, -1);
        assert_int_equal(beside, 0);
        assert_int_equal(one.asked, 0);
        end(&one);
    }
}

static void nobody_is_asked_any_more(void **state)
{
    (void)state;
    predict(&b, 0, 0, 1);
    assert_true(b.asked > 0);
    b.asked = 0;
    gr_policy_set_next(b.policy, NULL, NULL);
    predict(&b, 1, 1, 2);
    assert_int_equal(b.asked, 0);
    assert_int_equal(beside, 0);
    gr_policy_set_next(b.policy, next, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(most_of_the_next_request_is_there_when_it_begins),
                                       cmocka_unit_test(another_request_than_the_one_announced_is_served_right),
                                       cmocka_unit_test(what_cannot_be_written_ahead_is_written_later),
                                       cmocka_unit_test(one_queue_and_ops_write_nothing_ahead),
                                       cmocka_unit_test(nobody_is_asked_any_more)};
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
