/* SPDX-License-Identifier: Apache-2.0
 *
 * test_inspect.c: what an engine (a shell script here) says about running containers: services of another tool, chips that are taken, its version and
 * rights; and the memory limit of a control group. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "launch/launch.h"

static char dir[GR_PATH_BYTES], nodes[GR_PATH_BYTES], path[GR_PATH_BYTES + 32], *environment[] = {path, NULL};

static void put(const char *file, const char *text, mode_t mode)
{
    gr_test_write(file, text, strlen(text));
    assert_int_equal(chmod(file, mode), 0);
}

/* A folder for the engine, and nodes 0, 1, 2 and 10. */
static int set_up(void **state)
{
    (void)state;
    static const char *const names[] = {"10", "0", "2", "1", "by-id"};
    (void)snprintf(dir, sizeof dir, "%s", gr_test_temp_dir());
    (void)snprintf(nodes, sizeof nodes, "%s", gr_test_join(dir, "nodes"));
    (void)snprintf(path, sizeof path, "PATH=%s:/usr/bin:/bin", dir);
    (void)setenv("PATH", path + strlen("PATH="), 1); /* where the program is looked for */
    assert_int_equal(mkdir(nodes, 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put(gr_test_join(nodes, "%s", names[i]), "", 0600);
    }
    return 0;
}

/* A docker with these containers (the array of `inspect`; NULL: none), this version and these security options. */
static void engine(const char *containers, const char *version, const char *options)
{
    char script[8192];
    (void)snprintf(script, sizeof script,
                   "#!/bin/sh\ncase \"$1\" in\nps) %s;;\ncontainer) cat <<'END'\n%s\nEND\n;;\nversion) echo '%s';;\n"
                   "info) echo '%s';;\nesac\n",
                   containers != NULL ? "echo one" : ":", containers != NULL ? containers : "", version, options);
    put(gr_test_join(dir, "docker"), script, 0755);
}

/* One container with this node of ours ("": the whole folder; NULL: none), privileged or not, in this IPC namespace. */
static void engine_with(const char *node, bool privileged, const char *ipc)
{
    char text[4096], devices[2048] = "";
    if (node != NULL) {
        (void)snprintf(devices, sizeof devices, "{\"PathOnHost\": \"%.1000s%s%s\"}", nodes, node[0] != '\0' ? "/" : "",
                       node);
    }
    (void)snprintf(text, sizeof text,
                   "[{\"Name\": \"/busy\", \"State\": {\"Running\": true}, \"HostConfig\": {\"IpcMode\": \"%s\", "
                   "\"Privileged\": %s, \"Devices\": [%s]}}]",
                   ipc, privileged ? "true" : "false", devices);
    engine(text, "25.0.1", "");
}

static void expect_chips(const char *given, int want, const char *chips, enum gr_status status, const char *part)
{
    char out[GR_CHIPS_BYTES];
    struct gr_err err = {0};
    const enum gr_status got = gr_container_chips("docker", nodes, given, want, environment, out, &err);
    if (status == GR_OK) {
        gr_test_ok(got, &err);
        assert_string_equal(out, chips);
    } else {
        assert_int_equal(got, status);
        if (strstr(err.msg, part) == NULL) {
            fail_msg("\"%s\" is not in \"%s\"", part, err.msg);
        }
    }
}

static void the_lowest_free_chips_are_taken(void **state)
{
    (void)state;
    engine(NULL, "25.0.1", "");
    expect_chips(NULL, 1, "0", GR_OK, NULL);
    expect_chips(NULL, 4, "0,1,2,10", GR_OK, NULL);
    expect_chips(NULL, 5, NULL, GR_ERR_DEVICE, "too few chips free: the profile needs 5, 4 of 4 are free");
    engine_with("1", false, "host");
    expect_chips(NULL, 3, "0,2,10", GR_OK, NULL);
    expect_chips(NULL, 4, NULL, GR_ERR_DEVICE, "needs 4, 3 of 4 are free; one is taken by container busy");
    engine_with("", false, "host");
    expect_chips(NULL, 1, NULL, GR_ERR_DEVICE, "0 of 4 are free");
    engine_with(NULL, true, "host");
    expect_chips(NULL, 1, NULL, GR_ERR_DEVICE, "0 of 4 are free");
    engine_with("1", true, "private");
    expect_chips(NULL, 4, "0,1,2,10", GR_OK, NULL);
}

static void given_chips_are_distinct_there_free_and_as_many_as_needed(void **state)
{
    (void)state;
    engine_with("1", false, "host");
    expect_chips("10,0", 2, "10,0", GR_OK, NULL);
    expect_chips("1", 1, NULL, GR_ERR_DEVICE, "chip 1 is taken by container busy");
    expect_chips("0,0", 2, NULL, GR_ERR_USAGE, "names chip 0 twice");
    expect_chips("0,2", 1, NULL, GR_ERR_USAGE, "names 2 chips, the profile needs 1");
    expect_chips("3", 1, NULL, GR_ERR_DEVICE, "there is no chip 3");
    static const char *const wrong[] = {"", "0,", ",0", "x", "-1", "99999999999999999999", "0 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        expect_chips(wrong[i], 1, NULL, GR_ERR_USAGE, "expected numbers like 0 or 0,1");
    }
}

static void an_engine_that_says_nonsense_leaves_no_chip_free(void **state)
{
    (void)state;
    engine("[{\"Name\":", "25", "");
    expect_chips(NULL, 1, NULL, GR_ERR_DEVICE, "the engine's answer");
}

static void other_tools_services_are_read_from_their_labels(void **state)
{
    (void)state;
    struct gr_running *all;
    struct gr_err err;
    int n;
    engine(
        "[{\"Name\": \"/tt-model-pack-card\", \"State\": {\"Running\": true}, \"Config\": {\"Image\": \"tt-model/pack:1\", \"Labels\": "
        "{\"org.tenstorrent.tt-model\": \"pack\", \"org.tenstorrent.tt-model.profile\": \"card\", \"org.tenstorrent.tt-model.repo\": "
        "\"org/pack\"}}, \"HostConfig\": {\"Devices\": [{\"PathOnHost\": \"/dev/tenstorrent/0\"}]}, \"NetworkSettings\": {\"Ports\": "
        "{\"8000/tcp\": null, \"20000/tcp\": [{\"HostIp\": \"0.0.0.0\", \"HostPort\": \"20003\"}]}}}, "
        "{\"Name\": \"/something else\", \"State\": {\"Running\": true}}, {\"Name\": \"tt-model-bare-x\", \"State\": {\"Running\": true}}, "
        "{\"Name\": \"/tt-model-dead-x\", \"State\": {\"Running\": false}}, 7]",
        "25", "");
    gr_test_ok(gr_container_others(environment, &all, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_string_equal(all[0].name, "tt-model-pack-card");
    assert_string_equal(all[0].package, "pack");
    assert_string_equal(all[0].profile, "card");
    assert_string_equal(all[0].target, "org/pack");
    assert_string_equal(all[0].url, "http://127.0.0.1:20003");
    assert_int_equal(all[0].port, 20003);
    assert_true(all[0].cards && all[0].other);
    assert_string_equal(all[1].name, "tt-model-bare-x"); /* podman's names have no slash */
    assert_string_equal(all[1].url, "");
    free(all);
    (void)setenv("PATH", "/nonexistent", 1);
    gr_test_ok(gr_container_others(environment, &all, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_null(all);
}

static void cards_want_a_docker_that_the_vendors_tool_takes(void **state)
{
    (void)state;
    struct gr_err err;
    engine(NULL, "25.0.1", "[name=seccomp]");
    gr_test_ok(gr_container_fit("docker", nodes, environment, &err), &err);
    engine(NULL, "20.10.24+dfsg1", "[name=seccomp]");
    assert_int_equal(gr_container_fit("docker", nodes, environment, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "20.10.24+dfsg1; packages for cards want 25"));
    engine(NULL, "", "");
    assert_int_equal(gr_container_fit("docker", nodes, environment, &err), GR_ERR_DEVICE);
    engine(NULL, "25.0.1", "[name=rootless]");
    if (getuid() != 0) { /* root may do everything, whatever the engine calls itself */
        gr_test_ok(gr_container_fit("docker", nodes, environment, &err), &err);
        put(gr_test_join(nodes, "1"), "", 0060);
        assert_int_equal(gr_container_fit("docker", nodes, environment, &err), GR_ERR_DEVICE);
        assert_non_null(strstr(err.msg, "groups do not count"));
    }
}

static void the_tightest_limit_of_a_control_group_counts(void **state)
{
    (void)state;
    const char *root = dir;
    struct gr_killed k;
    struct gr_err err;
    gr_test_ok(gr_fs_mkdirs(gr_test_join(root, "a/b"), &err), &err);
    put(gr_test_join(root, "a/memory.max"), "300000000\n", 0600);
    put(gr_test_join(root, "a/b/memory.max"), "max\n", 0600);
    put(gr_test_join(root, "a/b/memory.events"), "low 0\noom 1\noom_kill 1\n", 0600);
    gr_killed_group(root, "/a/b", &k);
    assert_true(k.memory);
    assert_int_equal(k.limit, 300000000);
    gr_killed_group(root, "/a", &k);
    assert_false(k.memory);
    gr_killed_group(root, "/none", &k);
    assert_false(k.memory);
    assert_int_equal(k.limit, 0);
}

#define T(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(the_lowest_free_chips_are_taken),
        T(given_chips_are_distinct_there_free_and_as_many_as_needed),
        T(an_engine_that_says_nonsense_leaves_no_chip_free),
        T(other_tools_services_are_read_from_their_labels),
        T(cards_want_a_docker_that_the_vendors_tool_takes),
        T(the_tightest_limit_of_a_control_group_counts),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
