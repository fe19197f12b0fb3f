/* SPDX-License-Identifier: Apache-2.0
 *
 * test_metrics.c: the Prometheus text: every family announced once, histograms cumulative, labels escaped, counts right. */
#include "gr_test.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/metrics.h"

static struct gr_metrics *new_metrics(void)
{
    struct gr_metrics *m = NULL;
    struct gr_err err;
    gr_test_ok(gr_metrics_new(&m, &err), &err);
    return m;
}

static char *print(const struct gr_metrics *m, const char *model)
{
    const struct gr_metrics_now now = {.state = "ok",
                                       .queue_depth = 2,
                                       .queue_capacity = 8,
                                       .busy = 1,
                                       .open_requests = 3,
                                       .connections = 4,
                                       .busy_s = 0.25,
                                       .version = "0.1.0",
                                       .model = model,
                                       .device = "cpu:0",
                                       .isa = "avx2",
                                       .policy = "exact"};
    struct gr_buf out = {0};
    gr_metrics_print(m, &now, &out);
    assert_false(out.failed);
    assert_true(out.len > 0 && out.data[out.len - 1] == '\n');
    return out.data;
}

static void assert_has(const char *text, const char *line)
{
    if (strstr(text, line) == NULL) {
        fail_msg("no line \"%s\"", line);
    }
}

static void counts_appear_with_route_and_status(void **state)
{
    (void)state;
    struct gr_metrics *m = new_metrics();
    gr_metrics_request(m, GR_ROUTE_HEALTH, 200, 0.5);
    gr_metrics_request(m, GR_ROUTE_HEALTH, 200, 3);
    gr_metrics_request(m, GR_ROUTE_OTHER, 404, 1);
    gr_metrics_request(m, GR_ROUTE_PREDICT, 499, 60000);
    gr_metrics_request(m, GR_ROUTES, 200, 1); /* no such route: ignored */
    gr_metrics_request(m, GR_ROUTE_INFO, 7, 1);
    gr_metrics_dropped(m);
    gr_metrics_out_of_range(m, 3);
    gr_metrics_out_of_range(m, -1);
    char *text = print(m, "m");
    assert_has(text, "\ngr00t_requests_total{route=\"/health\",status=\"200\"} 2\n");
    assert_has(text, "\ngr00t_requests_total{route=\"other\",status=\"404\"} 1\n");
    assert_has(text, "\ngr00t_requests_total{route=\"/predict\",status=\"499\"} 1\n");
    assert_has(text, "\ngr00t_requests_total{route=\"/predict\",status=\"200\"} 0\n");
    assert_null(strstr(text, "status=\"7\""));
    assert_has(text, "\ngr00t_request_seconds_bucket{route=\"/health\",le=\"0.001\"} 1\n");
    assert_has(text, "\ngr00t_request_seconds_bucket{route=\"/health\",le=\"0.005\"} 2\n");
    assert_has(text, "\ngr00t_request_seconds_bucket{route=\"/health\",le=\"+Inf\"} 2\n");
    assert_has(text, "\ngr00t_request_seconds_sum{route=\"/health\"} 0.0035\n");
    assert_has(
        text,
        "\ngr00t_request_seconds_bucket{route=\"/predict\",le=\"0.8\"} 0\n"); /* the alert of contrib/prometheus */
    assert_has(text, "\ngr00t_request_seconds_bucket{route=\"/predict\",le=\"10\"} 0\n");
    assert_has(text, "\ngr00t_request_seconds_count{route=\"/predict\"} 1\n");
    assert_has(text, "\ngr00t_dropped_total 1\n");
    assert_has(text, "\ngr00t_state_out_of_range_total 3\n");
    assert_has(text, "\ngr00t_queue_depth 2\n");
    assert_has(text, "\ngr00t_busy_seconds 0.25\n");
    assert_has(text, "\ngr00t_state{state=\"ok\"} 1\n");
    assert_has(text, "\ngr00t_state{state=\"draining\"} 0\n");
    free(text);
    gr_metrics_free(m);
}

static void stages_are_seconds(void **state)
{
    (void)state;
    struct gr_metrics *m = new_metrics();
    const struct gr_timing t = {
        .encode = 1, .vision = 10, .llm = 20, .adapter = 2, .denoise = 100, .decode_actions = 0.2};
    gr_metrics_predict(m, 4, NAN, &t, 140);
    char *text = print(m, "m");
    assert_has(text, "\ngr00t_stage_seconds_sum{stage=\"decode\"} 0.004\n");
    assert_has(text, "\ngr00t_stage_seconds_sum{stage=\"queue\"} 0\n");
    assert_has(text, "\ngr00t_stage_seconds_sum{stage=\"denoise\"} 0.1\n");
    assert_has(text, "\ngr00t_stage_seconds_bucket{stage=\"denoise\",le=\"0.05\"} 0\n");
    assert_has(text, "\ngr00t_stage_seconds_bucket{stage=\"denoise\",le=\"0.1\"} 1\n");
    assert_has(text, "\ngr00t_stage_seconds_count{stage=\"total\"} 1\n");
    free(text);
    gr_metrics_free(m);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    struct gr_metrics *m = new_metrics();
    char *text = print(m, "a\"b\\c\nd");
    assert_has(text, "model=\"a\\\"b\\\\c\\nd\",device=\"cpu:0\",isa=\"avx2\",policy=\"exact\"} 1\n");
    free(text);
    gr_metrics_free(m);
}

static void each_family_is_announced_once_before_its_samples(void **state)
{
    (void)state;
    struct gr_metrics *m = new_metrics();
    char *text = print(m, "m"), family[80] = "";
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "# HELP ", 7) == 0) {
            snprintf(family, sizeof family, "%.*s", (int)strcspn(line + 7, " "), line + 7);
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            assert_memory_equal(line + 7, family, strlen(family));
        } else {
            assert_memory_equal(line, family, strlen(family)); /* name, name_bucket, name_sum, name_count */
        }
    }
    free(text);
    gr_metrics_free(m);
}

static double value_of(const char *text, const char *name)
{
    char key[80];
    snprintf(key, sizeof key, "\n%s ", name);
    const char *at = strstr(text, key);
    assert_non_null(at);
    return strtod(at + strlen(key), NULL);
}

static void the_process_is_described(void **state)
{
    (void)state;
    struct gr_metrics *m = new_metrics();
    char *text = print(m, "m");
    assert_true(value_of(text, "process_resident_memory_bytes") > 100e3);
    assert_true(value_of(text, "process_open_fds") >= 3);
    assert_true(value_of(text, "process_cpu_seconds_total") >= 0);
    const double start = value_of(text, "process_start_time_seconds");
    assert_true(fabs((double)time(NULL) - start) < 300);
    free(text);
    gr_metrics_free(m);
}

static void *record(void *arg)
{
    for (int i = 0; i < 5000; i++) {
        gr_metrics_request(arg, GR_ROUTE_PREDICT, 200, i % 50);
    }
    return NULL;
}

static void threads_record_while_another_prints(void **state)
{
    (void)state;
    struct gr_metrics *m = new_metrics();
    pthread_t t[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, record, m), 0);
    }
    for (int i = 0; i < 20; i++) {
        free(print(m, "m"));
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
    }
    char *text = print(m, "m");
    assert_has(text, "\ngr00t_requests_total{route=\"/predict\",status=\"200\"} 15000\n");
    free(text);
    gr_metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_appear_with_route_and_status),
        cmocka_unit_test(stages_are_seconds),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(each_family_is_announced_once_before_its_samples),
        cmocka_unit_test(the_process_is_described),
        cmocka_unit_test(threads_record_while_another_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
