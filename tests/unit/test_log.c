/* SPDX-License-Identifier: Apache-2.0
 *
 * test_log.c: log lines as text and as JSON, with stderr caught in a file. */
#include "gr_test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_carry_their_level),
        cmocka_unit_test(lines_above_the_level_are_dropped),
        cmocka_unit_test(a_message_cannot_break_its_line),
        cmocka_unit_test(json_lines_parse_and_name_time_level_and_message),
        cmocka_unit_test(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
