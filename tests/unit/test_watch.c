/* SPDX-License-Identifier: Apache-2.0
 *
 * test_watch.c: lines of a boot log to rows: our own server's landmarks, other servers', lines cut anywhere, and why a start did not succeed. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launch/watch.h"

#define STAMP "2026-11-29T23:40:12.123Z info  "

struct seen {
    char text[4096]; /* "+server -server +weights ... !ready" */
};

static const char *word_of(enum gr_phase p)
{
    static const char *const words[] = {"none", "server", "weights", "device", "model", "warmup", "ready"};
    return words[p];
}

static void note(void *user, const struct gr_watch *w, enum gr_watch_event e, enum gr_phase row)
{
    struct seen *s = user;
    const size_t n = strlen(s->text);
    char more[64];
    (void)snprintf(more, sizeof more, "%d%% ", w->percent);
    if (e != GR_WATCH_PROGRESS) {
        (void)snprintf(more, sizeof more, "%s%s ",
                       e == GR_WATCH_OPENED  ? "+"
                       : e == GR_WATCH_READY ? "!"
                                             : "-",
                       word_of(row));
    }
    (void)snprintf(s->text + n, sizeof s->text - n, "%s", more);
}

static struct gr_watch *fresh(void)
{
    static struct gr_watch w;
    memset(&w, 0, sizeof w);
    w.percent = -1;
    return &w;
}

static void feed(struct gr_watch *w, struct seen *s, const char *text)
{
    gr_watch_feed(w, text, strlen(text), note, s);
}

static const char own_boot[] = STAMP
    "Started server process [17]\n" STAMP "Listening on http://127.0.0.1:20000\n" STAMP
    "Loading weights: org/name @ abc\n" STAMP "Tokenizer files: /t\n" STAMP "Opening device cpu:0 (threads=2)\n" STAMP
    "Loading pipeline: gr_policy_open(/d, embodiment gr1, layout gr1)\n" STAMP
    "pack weights 40 % (120 of 300 MB)\n" STAMP "Model built in 1.4 s (weights 5 MB)\n" STAMP
    "Number formats: high (asked: auto; 16-bit: f16)\n" STAMP
    "Warming up: 3 predicts of the n16 demo observation\n" STAMP "Warmup 1/3: 7.1 ms\n" STAMP
    "Warmup 3/3: 7.0 ms\n" STAMP "Warm-up fidelity vs golden fp32: actions PCC 0.999\n" STAMP
    "Warmup complete (3 runs, 0.1 s)\n" STAMP "Application startup complete (2.0 s)\n";
static const char own_rows[] = "+server -server +weights -weights +device -device +model 40% -model +warmup 33% 100% "
                               "-warmup !ready ";

static void our_own_boot_opens_its_rows_in_order(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    feed(w, &s, own_boot);
    assert_string_equal(s.text, own_rows);
    assert_string_equal(w->detail, "Warmup complete (3 runs, 0.1 s)");
}

static void the_cuts_between_pieces_do_not_matter(void **state)
{
    (void)state;
    for (size_t step = 1; step < 70; step += 3) {
        struct seen s = {""};
        struct gr_watch *w = fresh();
        for (size_t at = 0; at < sizeof own_boot - 1; at += step) {
            const size_t rest = sizeof own_boot - 1 - at;
            gr_watch_feed(w, own_boot + at, rest < step ? rest : step, note, &s);
        }
        assert_string_equal(s.text, own_rows);
    }
}

static void details_are_what_follows_the_landmark(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    feed(w, &s, STAMP "Loading weights: org/name @ abc\n");
    assert_string_equal(w->detail, "org/name @ abc");
    feed(w, &s, "{\"ts\": \"x\", \"level\": \"info\", \"msg\": \"Model built in 1.4 s (5 MB)\"}\n");
    assert_string_equal(w->detail, "Model built in 1.4 s (5 MB)");
    w = fresh();
    feed(w, &s, "INFO:     Waiting for application startup.\n");
    assert_string_equal(w->detail, "Waiting for application startup.");
}

static void another_servers_landmarks_open_rows_too(void **state)
{
    (void)state;
    struct seen s = {""};
    feed(fresh(), &s,
         "INFO:     Started server process [1]\nFetching 14 files:  50%|#####     | 7/14 [00:01<00:01]\r"
         "Fetching 14 files: 100%|##########| 14/14 [00:02<00:00]\n"
         "Opening user mode device driver\nFabric initialized on 4 devices\nCapturing trace 1\n"
         "INFO:     Application startup complete.\n");
    assert_string_equal(s.text, "+server -server +weights 50% 100% -weights +device -device +warmup -warmup !ready ");
}

static void phases_never_go_back(void **state)
{
    (void)state;
    struct seen s = {""};
    feed(fresh(), &s,
         "Warming up: 3\nOpening device 0\nLoading weights: x\nStarted server process [1]\nModel built in 2 s\n");
    assert_string_equal(s.text, "+warmup ");
}

static void nothing_after_ready_counts(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    feed(w, &s, "xx Application startup complete yy error Loading weights: z\nOpening device 0\nerror: late\n");
    assert_string_equal(s.text, "!ready ");
    assert_int_equal(w->n_tail, 1);
}

static void foreign_bytes_are_made_harmless(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    static const char bytes[] = "\033[32mLoading weights: a\xff\x01z\033[0m\n";
    feed(w, &s, bytes);
    assert_string_equal(w->detail, "a??z");
    gr_watch_feed(w, "a\0b\n", 4, note, &s);
    assert_string_equal(w->tail[1], "a?b");
}

static void long_lines_and_many_lines_stay_in_their_bounds(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    char *line = malloc(100001);
    memset(line, 'x', 100000);
    line[99999] = '\n';
    for (int i = 0; i < 200; i++) {
        gr_watch_feed(w, line, 100000, note, &s);
        feed(w, &s, "some error here\n");
    }
    free(line);
    assert_string_equal(s.text, "");
    struct gr_watch_failure f;
    gr_watch_explain(w, false, &f);
    assert_string_equal(f.line, "some error here");
}

static void failures_are_told_in_the_order_of_their_weight(void **state)
{
    (void)state;
    static const struct {
        const char *log, *cause, *line;
    } cases[] = {
        {"a\nerror: Address already in use\nerror: later\n", "port in use", "error: Address already in use"},
        {"gr00t: serve: unknown option --foo\nAddress already in use\n", "rejected option",
         "gr00t: serve: unknown option --foo"},
        {"CHIP_IN_USE\nAddress already in use\n", "device held", "CHIP_IN_USE"},
        {"RuntimeError: bad\nbye\n", "ended during the start", "RuntimeError: bad"},
        {STAMP "port 20000 is in use; serving on 20001 instead\nbye\n", "ended during the start", "bye"},
        {"serve: org/x @ main is not in the Hub cache: no /x\n", "weights missing",
         "serve: org/x @ main is not in the Hub cache: no /x"},
        {"serve: no memory for packed weights\n", "not enough memory", "serve: no memory for packed weights"},
        {"error: one\nerror: two\nbye\n", "ended during the start", "error: two"},
        {"only words\n", "ended during the start", "only words"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct seen s = {""};
        struct gr_watch *w = fresh();
        struct gr_watch_failure f;
        feed(w, &s, cases[i].log);
        gr_watch_explain(w, false, &f);
        assert_string_equal(f.cause, cases[i].cause);
        assert_string_equal(f.line, cases[i].line);
        assert_non_null(f.actions[0]);
        gr_watch_explain(w, true, &f);
        assert_string_equal(f.cause, "still starting");
    }
    struct gr_watch_failure f;
    gr_watch_explain(fresh(), false, &f);
    assert_null(f.line);
}

/* The line that says why may be long gone from the last 40. */
static void a_cause_outlives_the_tail(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    struct gr_watch_failure f;
    feed(w, &s, "CHIP_IN_USE by 17\n");
    for (int i = 0; i < 100; i++) {
        feed(w, &s, "retrying\n");
    }
    gr_watch_explain(w, false, &f);
    assert_string_equal(f.line, "CHIP_IN_USE by 17");
}

static void a_killed_service_is_told_with_its_limit_and_its_need(void **state)
{
    (void)state;
    struct seen s = {""};
    struct gr_watch *w = fresh();
    struct gr_watch_failure f;
    gr_watch_killed(w, false, 0, &f);
    assert_string_equal(f.sentence, "The service was killed, perhaps for want of memory.");
    feed(w, &s, STAMP "Loading weights 10 % (657 of 6573 MB)\n" STAMP "Loading weights 20 % (1314 of 6573 MB)\n");
    gr_watch_killed(w, true, 512000000, &f);
    assert_string_equal(f.cause, "out of memory");
    assert_string_equal(f.sentence, "The service was killed; out of memory: limit 512 MB, needs more than 6573 MB.");
    feed(w, &s, STAMP "Model built in 9.0 s (weights 6573 MB, 1204 tensors, 3000 MB packed, cache path warm)\n");
    gr_watch_killed(w, false, 0, &f);
    assert_string_equal(f.sentence, "The service was killed, perhaps for want of memory: needs more than 9573 MB.");
    assert_non_null(strstr(f.line, "Model built"));
    assert_non_null(f.actions[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_boot_opens_its_rows_in_order),
        cmocka_unit_test(the_cuts_between_pieces_do_not_matter),
        cmocka_unit_test(details_are_what_follows_the_landmark),
        cmocka_unit_test(another_servers_landmarks_open_rows_too),
        cmocka_unit_test(phases_never_go_back),
        cmocka_unit_test(nothing_after_ready_counts),
        cmocka_unit_test(foreign_bytes_are_made_harmless),
        cmocka_unit_test(long_lines_and_many_lines_stay_in_their_bounds),
        cmocka_unit_test(failures_are_told_in_the_order_of_their_weight),
        cmocka_unit_test(a_cause_outlives_the_tail),
        cmocka_unit_test(a_killed_service_is_told_with_its_limit_and_its_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
