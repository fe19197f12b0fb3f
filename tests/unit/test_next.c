/* SPDX-License-Identifier: Apache-2.0
 *
 * test_next.c: who comes next, from the queue of the service through the policy to the device. The device of this program is the CPU
 * behind one that does what a card does: while a predict runs it asks for the next inputs and copies them, and when that request comes it
 * computes from its copy. HTTP is a stand-in: a request is a body, and a reply that is kept. */
#include "gr_test.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "boot_fixture.h"
#include "policy/encode.h"
#include "policy/policy.h"
#include "server/service_parts.h"

enum { N = 4, RUNS = 16 };
static const uint64_t NO_SERIAL = UINT64_MAX; /* the device was told of a request without one */

static struct gr_boot_fixture fixture;

/* ---- the device ---- */

static struct {
    gr_next_input_fn next;
    void *user;
    struct gr_model_input copies[2]; /* the running one may be computed from one while the other is written */
    _Atomic bool hold;               /* a predict stays in its program, asking, until this is false */
    _Atomic uint64_t told;           /* by the last answer: a serial; 0: nobody was known */
    int n_runs;
    struct run {
        uint64_t serial, told;
        bool from_copy;
    } runs[RUNS];
} device;

static void *copy(void *old, const void *from, size_t n)
{
    void *to = realloc(old, n);
    assert_non_null(to);
    return memcpy(to, from, n);
}

static void write_inputs(struct gr_model_input *to, const struct gr_model_input *from)
{
    const struct gr_dims *d = gr_policy_dims(fixture.policy);
    const size_t side = (size_t)d->vit.image_side, actions = (size_t)d->dit.horizon * (size_t)d->dit.max_action;
    const struct gr_model_input old = *to;
    *to = *from;
    to->pixels = copy((void *)old.pixels, from->pixels, (size_t)from->n_images * 3 * side * side * sizeof(float));
    to->ids = copy((void *)old.ids, from->ids, (size_t)from->n_tokens * sizeof *from->ids);
    to->state = copy((void *)old.state, from->state, (size_t)d->dit.max_state * sizeof(float));
    to->noise = copy((void *)old.noise, from->noise, actions * sizeof(float));
}

static void ask_who(struct gr_model_input *spare)
{
    struct gr_model_input in = {0};
    const bool known = device.next != NULL && device.next(device.user, &in);
    if (known && in.serial != spare->serial) {
        write_inputs(spare, &in);
    }
    atomic_store(&device.told, !known ? 0 : in.serial != 0 ? in.serial : NO_SERIAL);
}

static enum gr_status predict(struct gr_device *dev, const struct gr_model_input *in, float *action,
                              struct gr_timing *t, const struct gr_tap_sink *taps, struct gr_err *err)
{
    int mine = 0;
    struct gr_model_input *c = device.copies;
    for (int i = 0; i < 2; i++) {
        mine = in->serial != 0 && c[i].serial == in->serial ? i : mine;
    }
    const bool from_copy = in->serial != 0 && c[mine].serial == in->serial;
    do {
        ask_who(&c[!mine]);
    } while (atomic_load(&device.hold) && (gr_clock_sleep(1), true));
    enum gr_status status = gr_device_cpu.predict(dev, from_copy ? &c[mine] : in, action, t, taps, err);
    if (device.n_runs < RUNS) {
        device.runs[device.n_runs++] = (struct run){in->serial, atomic_load(&device.told), from_copy};
    }
    return status;
}

static void set_next(struct gr_device *dev, gr_next_input_fn next, void *user)
{
    (void)dev;
    device.next = next;
    device.user = user;
}

/* In place of device.c. */
const char gr_device_names[] = "cpu";
const struct gr_device_ops *gr_device_find(const char *name)
{
    static struct gr_device_ops asking;
    asking = gr_device_cpu;
    asking.predict = predict;
    asking.set_next = set_next;
    return strcmp(name, "cpu") == 0 ? &asking : NULL;
}

/* ---- the policy ---- */

static struct gr_encoded *encoded(uint64_t seed)
{
    struct gr_err err;
    struct gr_encoded *r = NULL;
    struct gr_observation obs = fixture.demo.obs;
    obs.noise_kind = GR_NOISE_SEED;
    obs.seed = seed;
    gr_test_ok(gr_policy_encoded_new(fixture.policy, &r, &err), &err);
    gr_test_ok(gr_policy_encode(fixture.policy, &obs, r, &err), &err);
    return r;
}

/* What the device was told while it computed r. */
static struct run compute(const struct gr_encoded *r, struct gr_chunk *c)
{
    struct gr_err err;
    device.n_runs = 0;
    gr_test_ok(gr_policy_predict_encoded(fixture.policy, r, c, &err), &err);
    return device.runs[0];
}

static bool same(const struct gr_chunk *a, const struct gr_chunk *b)
{
    return memcmp(a->normalized, b->normalized, (size_t)a->horizon * (size_t)a->max_action_dim * sizeof(float)) == 0;
}

static const struct gr_encoded *offer(void *user) { return *(const struct gr_encoded **)user; }

static void a_device_is_told_of_filled_requests_of_its_policy(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_encoded *a = encoded(1), *b = encoded(2), *empty = NULL, *offered = NULL;
    struct gr_encoded foreign = *b;
    struct gr_chunk *alone, *c;
    gr_test_ok(gr_policy_encoded_new(fixture.policy, &empty, &err), &err);
    gr_test_ok(gr_chunk_new(fixture.policy, &alone, &err), &err);
    gr_test_ok(gr_chunk_new(fixture.policy, &c, &err), &err);
    foreign.policy = NULL;
    assert_int_equal(compute(b, alone).told, 0);
    gr_policy_set_next(fixture.policy, offer, &offered);
    assert_int_equal(compute(a, c).told, 0);
    offered = empty;
    assert_int_equal(compute(a, c).told, 0);
    offered = &foreign;
    assert_int_equal(compute(a, c).told, 0);
    offered = b;
    assert_int_equal(compute(a, c).told, b->serial);
    assert_false(same(c, alone));
    offered = a;
    const struct run run = compute(b, c);
    assert_true(run.from_copy && run.serial == b->serial && run.told == a->serial);
    assert_true(same(c, alone));
    gr_policy_set_next(fixture.policy, NULL, NULL);
    assert_int_equal(compute(a, c).told, 0);
    gr_encoded_free(a);
    gr_encoded_free(b);
    gr_encoded_free(empty);
    gr_chunk_free(alone);
    gr_chunk_free(c);
}

static void memory_that_is_filled_again_is_not_the_request_that_was_told(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_encoded *a = encoded(1), *b = encoded(2), *offered = b;
    struct gr_observation obs = fixture.demo.obs; /* other noise than seed 2 */
    struct gr_chunk *c, *whole;
    gr_test_ok(gr_chunk_new(fixture.policy, &c, &err), &err);
    gr_test_ok(gr_chunk_new(fixture.policy, &whole, &err), &err);
    gr_policy_set_next(fixture.policy, offer, &offered);
    assert_int_equal(compute(a, c).told, b->serial);
    gr_policy_set_next(fixture.policy, NULL, NULL);
    gr_test_ok(gr_policy_encode(fixture.policy, &obs, b, &err), &err);
    assert_false(compute(b, c).from_copy);
    gr_test_ok(gr_policy_predict(fixture.policy, &obs, whole, &err), &err);
    assert_true(same(c, whole));
    gr_encoded_free(a);
    gr_encoded_free(b);
    gr_chunk_free(c);
    gr_chunk_free(whole);
}

/* ---- HTTP without a network ---- */

struct gr_httpd_request {
    char *body;
    void *user;
    _Atomic bool gone;
    _Atomic int replies;
    int status;
    struct gr_buf text;
};

enum gr_httpd_method gr_httpd_method(const struct gr_httpd_request *r) { return r != NULL ? GR_HTTPD_POST : 0; }
const char *gr_httpd_method_name(const struct gr_httpd_request *r) { return r != NULL ? "POST" : NULL; }
const char *gr_httpd_path(const struct gr_httpd_request *r) { return r != NULL ? "/predict" : NULL; }
double gr_httpd_arrived_ms(const struct gr_httpd_request *r) { return r != NULL ? 1 : 0; }
const char *gr_httpd_peer(const struct gr_httpd_request *r) { return r != NULL ? "test" : ""; }
void gr_httpd_set_user(struct gr_httpd_request *r, void *user) { r->user = user; }
void *gr_httpd_user(const struct gr_httpd_request *r) { return r->user; }
bool gr_httpd_gone(const struct gr_httpd_request *r) { return atomic_load(&r->gone); }
int gr_httpd_open_requests(const struct gr_httpd *http) { return http != NULL; }
int gr_httpd_connections(const struct gr_httpd *http) { return http != NULL; }

const char *gr_httpd_header(const struct gr_httpd_request *r, const char *name)
{
    return r != NULL && strcasecmp(name, "Content-Length") == 0 ? "1" : NULL;
}

const char *gr_httpd_body(const struct gr_httpd_request *r, size_t *n)
{
    *n = strlen(r->body);
    return r->body;
}

void gr_httpd_release_body(struct gr_httpd_request *r)
{
    free(r->body);
    r->body = NULL;
}

void gr_httpd_reply(struct gr_httpd_request *r, const struct gr_httpd_reply *reply, struct gr_buf *body)
{
    r->status = reply->status;
    if (body != NULL) {
        r->text = *body;
        *body = (struct gr_buf){0};
    }
    atomic_fetch_add(&r->replies, 1);
}

/* ---- the service ---- */

static struct gr_service *ready_service(void)
{
    struct gr_service_config cfg = fixture.config;
    struct gr_service *s = NULL;
    struct gr_err err;
    cfg.queue = N;
    atomic_store(&device.hold, false); /* a test before this one may have failed while it was set */
    gr_test_ok(gr_service_new(&cfg, &s, &err), &err);
    gr_test_ok(gr_service_ready(s, &fixture.facts, &err), &err);
    return s;
}

/* The demo request with noise of its own. */
static void post(struct gr_service *s, struct gr_httpd_request *r, int seed)
{
    const struct gr_httpd_callbacks on = gr_service_callbacks(s);
    const char *begin = strstr(s->demo.data, "{\"images\""), *last = strstr(s->demo.data, ",\"expected\":");
    assert_true(begin != NULL && last != NULL && seed < 10);
    memset(r, 0, sizeof *r);
    r->body = strndup(begin, (size_t)(last - begin));
    char *at = strstr(r->body, "\"seed\":42");
    assert_non_null(at);
    at[7] = ' ';
    at[8] = (char)('0' + seed);
    on.on_head(on.user, r);
    on.on_body(on.user, r);
}

static void wait_reply(struct gr_httpd_request *r)
{
    gr_test_wait(atomic_load(&r->replies) > 0);
    assert_int_equal(atomic_load(&r->replies), 1);
}

/* Encoded and waiting, while the device holds the one before. */
static void wait_depth(const struct gr_service *s, int depth)
{
    gr_test_wait(gr_queue_depth(s->waiting) == depth);
    assert_int_equal(gr_queue_depth(s->waiting), depth);
}

static void wait_told(void)
{
    gr_test_wait(atomic_load(&device.told) != 0);
    assert_true(atomic_load(&device.told) != 0);
}

/* The actions, to be freed: "" of a refusal. */
static char *end(struct gr_service *s, struct gr_httpd_request *r)
{
    const struct gr_httpd_callbacks on = gr_service_callbacks(s);
    const char *last = strstr(r->text.data, "\"action_horizon\"");
    char *actions = strndup(r->text.data, last != NULL ? (size_t)(last - r->text.data) : 0);
    on.on_end(on.user, r, !atomic_load(&r->gone));
    gr_buf_free(&r->text);
    free(r->body);
    return actions;
}

static void end_as(struct gr_service *s, struct gr_httpd_request *r, int status, const char *expected)
{
    assert_int_equal(r->status, status);
    char *actions = end(s, r);
    assert_string_equal(actions, expected);
    free(actions);
}

/* What requests 0..N-1 get when nobody waits behind them. */
static void answer_alone(struct gr_service *s, char *alone[N])
{
    struct gr_httpd_request r;
    device.n_runs = 0;
    for (int i = 0; i < N; i++) {
        post(s, &r, i);
        wait_reply(&r);
        assert_int_equal(r.status, 200);
        alone[i] = end(s, &r);
        assert_true(i == 0 || strcmp(alone[i], alone[i - 1]) != 0);
        assert_true(device.runs[i].told == 0 && !device.runs[i].from_copy);
    }
    device.n_runs = 0;
}

static void each_predict_is_told_of_the_one_behind_it(void **state)
{
    (void)state;
    struct gr_service *s = ready_service();
    struct gr_httpd_request r[N];
    char *alone[N];
    answer_alone(s, alone);
    atomic_store(&device.hold, true);
    for (int i = 0; i < N; i++) {
        post(s, &r[i], i);
    }
    wait_depth(s, N - 1);
    wait_told(); /* the first found nobody behind it when it began, and asks on */
    assert_int_equal(gr_queue_depth(s->waiting), N - 1);
    atomic_store(&device.hold, false);
    for (int i = 0; i < N; i++) {
        wait_reply(&r[i]);
        end_as(s, &r[i], 200, alone[i]);
        free(alone[i]);
    }
    assert_int_equal(device.n_runs, N);
    for (int i = 0; i < N; i++) {
        assert_int_equal(device.runs[i].told, i + 1 < N ? device.runs[i + 1].serial : 0);
        assert_int_equal(device.runs[i].from_copy, i > 0);
    }
    gr_service_stop(s);
    gr_service_free(s);
}

static void a_request_that_is_dropped_after_it_was_told_harms_nobody(void **state)
{
    (void)state;
    struct gr_service *s = ready_service();
    struct gr_httpd_request r[3];
    char *alone[N];
    answer_alone(s, alone);
    atomic_store(&device.hold, true);
    for (int i = 0; i < 3; i++) {
        post(s, &r[i], i);
    }
    wait_depth(s, 2);
    wait_told();
    atomic_store(&r[1].gone, true);
    atomic_store(&device.hold, false);
    for (int i = 0; i < 3; i++) {
        wait_reply(&r[i]);
        end_as(s, &r[i], i == 1 ? 503 : 200, i == 1 ? "" : alone[i]); /* 499 is in our books only */
    }
    assert_int_equal(device.n_runs, 2);
    assert_true(device.runs[0].told != 0 && device.runs[0].told != device.runs[1].serial);
    assert_false(device.runs[1].from_copy);
    for (int i = 0; i < N; i++) {
        free(alone[i]);
    }
    gr_service_stop(s);
    gr_service_free(s);
}

static void a_service_that_has_stopped_is_not_asked(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_chunk *c;
    gr_test_ok(gr_chunk_new(fixture.policy, &c, &err), &err);
    struct gr_service *s = ready_service();
    assert_non_null(device.next);
    gr_service_stop(s);
    assert_null(device.next);
    gr_service_free(s);
    gr_test_ok(gr_policy_predict(fixture.policy, &fixture.demo.obs, c, &err), &err);
    gr_chunk_free(c);
}

static int make(void **state)
{
    (void)state;
    gr_log_setup(GR_LOG_ERROR, false);
    return gr_boot_fixture_make(&fixture);
}

static int clean(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        free((void *)device.copies[i].pixels);
        free((void *)device.copies[i].ids);
        free((void *)device.copies[i].state);
        free((void *)device.copies[i].noise);
    }
    gr_boot_fixture_free(&fixture);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_told_of_filled_requests_of_its_policy),
        cmocka_unit_test(memory_that_is_filled_again_is_not_the_request_that_was_told),
        cmocka_unit_test(each_predict_is_told_of_the_one_behind_it),
        cmocka_unit_test(a_request_that_is_dropped_after_it_was_told_harms_nobody),
        cmocka_unit_test(a_service_that_has_stopped_is_not_asked),
    };
    return cmocka_run_group_tests(tests, make, clean);
}
