/* SPDX-License-Identifier: Apache-2.0
 *
 * test_log.c: log lines as text and as JSON, with stderr caught in a file. */
#include "gr_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"

static int kept_stderr = -1;
static char caught_path[4096];

static void catch_stderr(void)
{
    snprintf(caught_path, sizeof caught_path, "%s", gr_test_join(gr_test_temp_dir(), "stderr"));
    int fd = open(caught_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    kept_stderr = dup(STDERR_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

/* What was written since; free it. */
static char *caught(void)
{
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
    return (char *)gr_test_read(caught_path, NULL);
}

static void text_lines_carry_their_level(void **state)
{
    (void)state;
    catch_stderr();
    gr_log_setup(GR_LOG_DEBUG, false);
    gr_log(GR_LOG_ERROR, "e %d", 1);
    gr_log(GR_LOG_WARN, "w");
    gr_log(GR_LOG_INFO, "i");
    gr_log(GR_LOG_DEBUG, "d");
    char *text = caught();
    assert_string_equal(text, "gr00t: error: e 1\ngr00t: warning: w\ngr00t: i\ngr00t: debug: d\n");
    free(text);
}

static void lines_above_the_level_are_dropped(void **state)
{
    (void)state;
    catch_stderr();
    gr_log_setup(GR_LOG_WARN, false);
    errno = 77;
    gr_log(GR_LOG_INFO, "no");
    gr_log(GR_LOG_WARN, "yes");
    int kept = errno;
    char *text = caught();
    assert_string_equal(text, "gr00t: warning: yes\n");
    assert_int_equal(kept, 77);
    free(text);
}

static void a_message_cannot_break_its_line(void **state)
{
    (void)state;
    catch_stderr();
    gr_log_setup(GR_LOG_INFO, false);
    gr_log(GR_LOG_INFO, "%s", "a\nb\x1b[31mc");
    char *text = caught();
    assert_string_equal(text, "gr00t: a?b?[31mc\n");
    free(text);
}

static void json_lines_parse_and_name_time_level_and_message(void **state)
{
    (void)state;
    struct gr_json *root = NULL;
    struct gr_err err;
    catch_stderr();
    gr_log_setup(GR_LOG_INFO, true);
    gr_log(GR_LOG_WARN, "say \"%s\"\n", "\xc3\xa9");
    char *text = caught();
    gr_log_setup(GR_LOG_INFO, false);
    size_t n = strlen(text);
    assert_int_equal(text[n - 1], '\n');
    gr_test_ok(gr_json_parse(text, n, "line", GR_ERR_INPUT, &root, &err), &err);
    assert_int_equal(gr_json_len(root), 3);
    const char *ts = gr_json_string(gr_json_get(root, "ts"));
    assert_int_equal(strlen(ts), strlen("2025-01-31T12:34:56.789Z"));
    assert_true(ts[4] == '-' && ts[10] == 'T' && ts[23] == 'Z');
    assert_string_equal(gr_json_string(gr_json_get(root, "level")), "warn");
    assert_string_equal(gr_json_string(gr_json_get(root, "msg")), "say \"\xc3\xa9\"\n");
    gr_json_free(root);
    free(text);
}

enum { THREADS = 4, LINES = 200 };

static void *chatter(void *arg)
{
    for (int i = 0; i < LINES; i++) {
        gr_log(GR_LOG_INFO, "thread %c%c%c%c%c%c%c%c", *(char *)arg, *(char *)arg, *(char *)arg, *(char *)arg,
               *(char *)arg, *(char *)arg, *(char *)arg, *(char *)arg);
    }
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    char names[THREADS] = {'a', 'b', 'c', 'd'};
    int counts[THREADS] = {0}, lines = 0;
    catch_stderr();
    gr_log_setup(GR_LOG_INFO, false);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, chatter, &names[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    char *text = caught(), *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest), lines++) {
        char want[32], c = line[strlen(line) - 1];
        assert_true(c >= 'a' && c < 'a' + THREADS);
        snprintf(want, sizeof want, "gr00t: thread %c%c%c%c%c%c%c%c", c, c, c, c, c, c, c, c);
        assert_string_equal(line, want);
        counts[c - 'a']++;
    }
    assert_int_equal(lines, THREADS * LINES);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(counts[i], LINES);
    }
    free(text);
}

static void a_service_s_lines_carry_the_time(void **state)
{
    (void)state;
    catch_stderr();
    gr_log_setup(GR_LOG_INFO, false);
    gr_log_stamp(true);
    gr_log(GR_LOG_INFO, "up");
    gr_log(GR_LOG_ERROR, "down");
    gr_log_stamp(false);
    char *text = caught();
    assert_true(text[4] == '-' && text[10] == 'T' && text[23] == 'Z');
    assert_memory_equal(text + 24, " info  up\n", 10);
    assert_string_equal(text + 34 + 24, " error down\n");
    free(text);
}

static void a_thread_writes_every_line_in_order(void **state)
{
    (void)state;
    catch_stderr();
    gr_log_setup(GR_LOG_INFO, false);
    gr_log_start_thread();
    gr_log_start_thread(); /* a second call changes nothing */
    for (int i = 0; i < 1000; i++) {
        gr_log(GR_LOG_INFO, "line %d", i);
    }
    gr_log_stop_thread(60000); /* a hang, not a speed */
    gr_log(GR_LOG_INFO, "direct");
    char *text = caught(), *at = text;
    for (int i = 0; i < 1000; i++) {
        char want[32];
        int n = snprintf(want, sizeof want, "gr00t: line %d\n", i);
        assert_memory_equal(at, want, (size_t)n);
        at += n;
    }
    assert_string_equal(at, "gr00t: direct\n");
    free(text);
}

/* Last: afterwards this process has no log. */
static void a_reader_who_stands_still_stops_nobody(void **state)
{
    (void)state;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    int kept = dup(STDERR_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    gr_log_setup(GR_LOG_INFO, false);
    gr_log_start_thread();
    for (int i = 0; i < 20000; i++) { /* the pipe holds 64 KiB, the buffers 256 KiB each */
        gr_log(GR_LOG_INFO, "a line of some length that nobody is going to read, number %d", i);
    }
    gr_log_stop_thread(50);
    gr_log(GR_LOG_INFO, "dropped");
    close(pipe_ends[0]); /* ends the write that hangs */
    usleep(100000);
    dup2(kept, STDERR_FILENO);
    close(kept);
    close(pipe_ends[1]);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* as the program does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_carry_their_level),
        cmocka_unit_test(lines_above_the_level_are_dropped),
        cmocka_unit_test(a_message_cannot_break_its_line),
        cmocka_unit_test(json_lines_parse_and_name_time_level_and_message),
        cmocka_unit_test(lines_of_threads_do_not_mix),
        cmocka_unit_test(a_service_s_lines_carry_the_time),
        cmocka_unit_test(a_thread_writes_every_line_in_order),
        cmocka_unit_test(a_reader_who_stands_still_stops_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
