/* SPDX-License-Identifier: Apache-2.0
 *
 * test_launch.c: command lines of packages, state files and what is done when they are damaged or stale, start and stop of a child, entry forms. */
#include "gr_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/entry.h"
#include "launch/launch.h"
#include "launch/native.h"
#include "launch/spawn.h"

static struct gr_state_dirs dirs;
static char *environment[] = {(char[]){"PATH=/usr/bin:/bin"}, (char[]){"GR00T_THREADS=9"}, (char[]){"KEPT=1"}, NULL};

static const char manifest_text[] =
    "{\"schema_version\": \"5.1\", \"name\": \"pack\", \"tt_metal_version\": \"none\", \"arch\": \"blackhole\", "
    "\"device_count\": 1, \"producer\": {\"tt_kernel_version\": \"0\", \"created_at\": \"2026-11-29T00:00:00+00:00\"}, "
    "\"weights\": {\"repo_id\": \"org/model\", \"revision\": \"d0814e7ecb19202e7c8468b46098b0b7ef3a6d61\"}, "
    "\"container\": {\"image\": {\"registry\": \"hf\", \"repository\": \"pack\", \"tag\": \"tt-model/pack:0123456789ab\", "
    "\"digest\": \"sha256:1e56bb8e83adc24487ec0d4d9695373434cd48b0c8da275f3e14101af6896084\"}, "
    "\"kind\": \"tt-dit-server\", \"runtime\": {\"app\": \"pack.native:app\", \"mesh_shape_env\": \"TT_MESH_SHAPE\"}, "
    "\"serve\": {\"hardware\": \"p150\", \"mesh_device\": \"P150\", \"args\": [\"--queue\", [\"--threads\", 2]], "
    "\"env\": {\"TEXT\": \"it's two words\", \"CACHE_AT\": \"/weight-cache/x\"}}, "
    "\"serve_profiles\": [{\"name\": \"cpu\", \"env\": {\"GR00T_DEVICE\": \"cpu\"}}, {\"name\": \"card\"}], "
    "\"default_profile\": \"cpu\", \"code_dir\": \"code\"}}";

static void read_manifest(struct gr_manifest *m)
{
    struct gr_err err;
    gr_test_ok(gr_manifest_parse_wire(manifest_text, strlen(manifest_text), "manifest", m, &err), &err);
}

static struct gr_launch launch_of(const struct gr_manifest *m, const char *engine)
{
    return (struct gr_launch){.dirs = &dirs,
                              .target = "/packs/pack",
                              .manifest = m,
                              .engine = engine,
                              .program = "/opt/gr00t",
                              .user = "10:20",
                              .port = 20007,
                              .hf_home = "/home/u/hf",
                              .hub_cache = "/home/u/hf/hub",
                              .environment = environment};
}

static char *line_of(const struct gr_launch *l)
{
    struct gr_command_line c;
    struct gr_buf text = {0};
    struct gr_err err;
    gr_test_ok(gr_launch_compose(l, &c, &err), &err);
    gr_command_line_text(&c, &text);
    gr_command_line_free(&c);
    return text.data;
}

#define EXPECT(l, want)                 \
    do {                                \
        char *got = line_of(l);         \
        assert_string_equal(got, want); \
        free(got);                      \
    } while (0)

#define SNAPSHOT "models--org--model/snapshots/d0814e7ecb19202e7c8468b46098b0b7ef3a6d61"

static int set_up(void **state)
{
    (void)state;
    struct gr_err err;
    return gr_state_dirs(gr_test_temp_dir(), NULL, &dirs, &err) == GR_OK ? 0 : -1;
}

/* ---- lines ---- */

static void a_card_profile_has_the_reference_line(void **state)
{
    (void)state;
    struct gr_manifest m;
    char want[4 * GR_PATH_BYTES];
    read_manifest(&m);
    struct gr_launch l = launch_of(&m, "docker");
    l.profile = "card";
    l.cards = true;
    (void)snprintf(
        want, sizeof want,
        "docker run --name tt-model-pack-card --user 10:20 --label org.tenstorrent.tt-model=pack --label "
        "org.tenstorrent.tt-model.profile=card --device /dev/tenstorrent --ipc host --mount "
        "type=bind,src=/dev/hugepages-1G,dst=/dev/hugepages-1G --volume /home/u/hf:/hf --env HF_HOME=/hf --volume "
        "%s/pack/cache:/cache --env TT_METAL_CACHE=/cache --volume %s/pack/weights:/weight-cache --env "
        "TT_DIT_CACHE_DIR=/weight-cache --volume %s/pack/tensors:/tensor-cache --env TT_CACHE_PATH=/tensor-cache "
        "--publish 20007:20007 --env CACHE_AT=/weight-cache/x --env HF_MODEL=/hf/hub/" SNAPSHOT
        " --env MESH_DEVICE=P150 --env 'TEXT=it'\"'\"'s two words' --env TT_MESH_SHAPE=1x1 tt-model/pack:0123456789ab python "
        "-m uvicorn --host 0.0.0.0 --port 20007 --lifespan on --queue --threads 2 pack.native:app",
        dirs.tools, dirs.tools, dirs.tools);
    EXPECT(&l, want);
    gr_manifest_free(&m);
}

static void device_numbers_token_and_a_hub_cache_elsewhere_have_their_places(void **state)
{
    (void)state;
    struct gr_manifest m;
    read_manifest(&m);
    struct gr_launch l = launch_of(&m, "podman");
    static const char *const words[] = {"--policy", "exact"};
    l.profile = "card";
    l.cards = l.detach = l.has_token = true;
    l.devices = "1";
    l.hub_cache = "/data/hub";
    l.host = "127.0.0.1";
    l.words = words;
    l.n_words = 2;
    char *got = line_of(&l);
    assert_non_null(strstr(got, "podman run --detach --name tt-model-pack-card "));
    assert_non_null(strstr(got, "--label org.tenstorrent.tt-model.devices=1 --device "
                                "/dev/tenstorrent/1:/dev/tenstorrent/1 --ipc host "));
    assert_non_null(strstr(got, "--publish 127.0.0.1:20007:20007 --volume /data/hub:/hf-hub --env HF_HUB_CACHE=/hf-hub "
                                "--env HF_TOKEN --env CACHE_AT="));
    assert_non_null(strstr(got, "HF_MODEL=/hf-hub/" SNAPSHOT " "));
    assert_non_null(strstr(got, "--env TT_MESH_GRAPH_DESC_PATH=/opt/tt-metal/"));
    assert_non_null(strstr(got, " pack.native:app --policy exact"));
    free(got);
    l.devices = "0,1";
    got = line_of(&l);
    assert_non_null(strstr(got, "--device /dev/tenstorrent/0:/dev/tenstorrent/0 --device /dev/tenstorrent/1:"));
    assert_null(strstr(got, "TT_MESH_GRAPH_DESC_PATH"));
    free(got);
    struct gr_command_line c;
    struct gr_err err;
    static const char *const bad[] = {"", "x", "0,", ",1", "0,12345", "0 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        l.devices = bad[i];
        gr_test_fails(gr_launch_compose(&l, &c, &err), &err, GR_ERR_USAGE, "--device-id");
    }
    gr_manifest_free(&m);
}

static void the_cpu_profile_mounts_no_card_and_stays_on_this_machine(void **state)
{
    (void)state;
    struct gr_manifest m;
    struct gr_profile p;
    struct gr_err err;
    const struct gr_env other = {"GR00T_DEVICE", "blackhole"};
    read_manifest(&m);
    gr_test_ok(gr_manifest_profile(&m, "cpu", &p, &err), &err);
    assert_true(gr_launch_on_cpu(&p, NULL, 0));
    assert_false(gr_launch_on_cpu(&p, &other, 1));
    gr_profile_free(&p);
    struct gr_launch l = launch_of(&m, "docker");
    char *got = line_of(&l);
    assert_null(strstr(got, "tenstorrent/"));
    assert_null(strstr(got, "--device "));
    assert_null(strstr(got, "hugepages"));
    assert_null(strstr(got, "--ipc"));
    assert_non_null(strstr(got, "--publish 127.0.0.1:20007:20007 "));
    free(got);
    gr_manifest_free(&m);
}

static void a_native_run_has_the_same_words_and_folders_of_this_machine(void **state)
{
    (void)state;
    struct gr_manifest m;
    char want[4 * GR_PATH_BYTES];
    read_manifest(&m);
    struct gr_launch l = launch_of(&m, "native");
    const struct gr_env own[] = {{"TT_CACHE_PATH", "/elsewhere"}};
    l.env = own;
    l.n_env = 1;
    l.snapshot = "/home/u/hf/hub/" SNAPSHOT;
    (void)snprintf(
        want, sizeof want,
        "CACHE_AT=%s/pack/weights/x GR00T_DEVICE=cpu HF_HOME=/home/u/hf HF_HUB_CACHE=/home/u/hf/hub "
        "HF_MODEL=/home/u/hf/hub/" SNAPSHOT " MESH_DEVICE=P150 TEXT='it'\"'\"'s two words' "
        "TT_CACHE_PATH=/elsewhere TT_DIT_CACHE_DIR=%s/pack/weights TT_MESH_SHAPE=1x1 TT_METAL_CACHE=%s/pack/cache "
        "/opt/gr00t python -m uvicorn --host 127.0.0.1 --port 20007 --lifespan on --queue --threads 2 "
        "pack.native:app",
        dirs.tools, dirs.tools, dirs.tools);
    EXPECT(&l, want);
    gr_manifest_free(&m);
}

static void a_snapshot_is_served_by_this_program(void **state)
{
    (void)state;
    struct gr_launch l = launch_of(NULL, "native");
    static const char *const words[] = {"--threads", "2"};
    const struct gr_env own[] = {{"B", ""}, {"A", "x y"}};
    l.name = "demo-1";
    l.snapshot = "/data/my demo";
    l.words = words;
    l.n_words = 2;
    l.env = own;
    l.n_env = 2;
    EXPECT(&l, "A='x y' B= /opt/gr00t serve --model '/data/my demo' --host 127.0.0.1 --port 20007 --threads 2");
    l.engine = "docker";
    struct gr_command_line c;
    struct gr_err err;
    gr_test_fails(gr_launch_compose(&l, &c, &err), &err, GR_ERR_USAGE, "needs a package with an image");
}

static void names_that_would_leave_their_place_are_refused(void **state)
{
    (void)state;
    struct gr_manifest m;
    struct gr_command_line c;
    struct gr_err err;
    read_manifest(&m);
    struct gr_launch l = launch_of(&m, "docker");
    static const char *const bad[] = {"../x", "a/b", "-x", "A", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        m.name = bad[i];
        gr_test_fails(gr_launch_compose(&l, &c, &err), &err, GR_ERR_FORMAT, "name");
    }
    m.name = "pack";
    m.image_tag = "--privileged";
    gr_test_fails(gr_launch_compose(&l, &c, &err), &err, GR_ERR_FORMAT, "no image");
    m.image_tag = "tt-model/pack:1";
    m.kind = "vllm-plugin";
    gr_test_fails(gr_launch_compose(&l, &c, &err), &err, GR_ERR_FORMAT, "vllm-plugin");
    m.kind = "tt-dit-server";
    const struct gr_env own[] = {{"A=B", "x"}};
    l.env = own;
    l.n_env = 1;
    gr_test_fails(gr_launch_compose(&l, &c, &err), &err, GR_ERR_USAGE, "no name of a variable");
    gr_manifest_free(&m);
}

static void an_image_of_a_registry_goes_by_its_digest(void **state)
{
    (void)state;
    struct gr_manifest m;
    char ref[256];
    struct gr_err err;
    read_manifest(&m);
    gr_test_ok(gr_container_image_ref(&m, ref, &err), &err);
    assert_string_equal(ref, "tt-model/pack:0123456789ab");
    m.registry = "reg.example/team/";
    gr_test_ok(gr_container_image_ref(&m, ref, &err), &err);
    assert_string_equal(
        ref, "reg.example/team/pack@sha256:1e56bb8e83adc24487ec0d4d9695373434cd48b0c8da275f3e14101af6896084");
    m.image_digest = NULL;
    m.repository = NULL;
    gr_test_ok(gr_container_image_ref(&m, ref, &err), &err);
    assert_string_equal(ref, "reg.example/team/pack:0123456789ab");
    gr_manifest_free(&m);
}

/* ---- folders ---- */

static void the_older_folder_is_used_when_only_that_exists(void **state)
{
    (void)state;
    const char *home = gr_test_temp_dir(), *xdg = gr_test_temp_dir();
    struct gr_state_dirs d;
    struct gr_err err;
    gr_test_ok(gr_state_dirs(home, NULL, &d, &err), &err);
    assert_string_equal(d.tools, gr_test_join(home, ".cache/tt-model"));
    assert_string_equal(d.installed, gr_test_join(home, ".cache/tt-model/installed.json"));
    gr_test_ok(gr_fs_mkdirs(gr_test_join(home, ".cache/tt-kernel"), &err), &err);
    gr_test_ok(gr_state_dirs(home, xdg, &d, &err), &err);
    assert_string_equal(d.tools, gr_test_join(home, ".cache/tt-kernel"));
    assert_string_equal(d.installed, gr_test_join(xdg, "tt-model/installed.json"));
    gr_test_ok(gr_fs_mkdirs(gr_test_join(home, ".cache/tt-model"), &err), &err);
    gr_test_ok(gr_state_dirs(home, "relative", &d, &err), &err);
    assert_string_equal(d.tools, gr_test_join(home, ".cache/tt-model"));
    assert_string_equal(d.installed, gr_test_join(home, ".cache/tt-model/installed.json"));
    gr_test_fails(gr_state_dirs(NULL, NULL, &d, &err), &err, GR_ERR_USAGE, "HOME");
}

/* ---- installed.json ---- */

static void installed_packages_come_back_and_foreign_fields_stay(void **state)
{
    (void)state;
    struct gr_installed_list list;
    struct gr_err err;
    static const char before[] =
        "{\"org/a\": {\"repo_id\": \"org/a\", \"container\": true, \"image\": \"old\", \"theirs\": "
        "[1, 2.5, {\"x\": null}]}, \"org/b\": {\"revision\": 5, \"extra\": \"kept\"}}";
    gr_test_ok(gr_installed_read(&dirs, &list, &err), &err);
    assert_int_equal(list.n, 0);
    gr_installed_free(&list);
    gr_test_ok(gr_fs_mkdirs(dirs.tools, &err), &err);
    gr_test_write(dirs.installed, before, strlen(before));
    const char *profiles[] = {"cpu", "card"};
    struct gr_installed item = {.id = "org/a",
                                .revision = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61",
                                .arch = "blackhole",
                                .image = "tt-model/a:1",
                                .image_digest = "sha256:12",
                                .manifest = "/m.json",
                                .profile = "cpu",
                                .profiles = {profiles, 2}};
    gr_test_ok(gr_installed_put(&dirs, &item, &err), &err);
    gr_test_ok(gr_installed_read(&dirs, &list, &err), &err);
    assert_int_equal(list.n, 2);
    const struct gr_installed *a = gr_installed_find(&list, "org/a"), *b = gr_installed_find(&list, "org/b");
    assert_string_equal(a->image, "tt-model/a:1");
    assert_string_equal(a->revision, item.revision);
    assert_string_equal(a->image_loaded_id, "");
    assert_int_equal(a->profiles.n, 2);
    assert_string_equal(a->profiles.items[1], "card");
    assert_string_equal(b->revision, "");
    assert_null(gr_installed_find(&list, "org/c"));
    gr_installed_free(&list);
    char *text = (char *)gr_test_read(dirs.installed, NULL);
    assert_non_null(strstr(text, "\"theirs\": [1, 2.5, {\"x\": null}]"));
    assert_non_null(strstr(text, "\"extra\": \"kept\""));
    assert_null(strstr(text, "\"old\""));
    free(text);
    gr_test_ok(gr_installed_remove(&dirs, "org/a", &err), &err);
    gr_test_ok(gr_installed_remove(&dirs, "org/a", &err), &err);
    gr_test_ok(gr_installed_read(&dirs, &list, &err), &err);
    assert_int_equal(list.n, 1);
    gr_installed_free(&list);
    gr_test_fails(gr_installed_remove(&dirs, "../x", &err), &err, GR_ERR_USAGE, "ORG/NAME");
}

static void a_damaged_list_is_told_and_left_alone(void **state)
{
    (void)state;
    struct gr_installed_list list;
    struct gr_err err;
    struct gr_installed item = {.id = "org/a"};
    static const char *const bad[] = {"{\"org/a\": ", "[]", "{\"org/a\": 3}", "", "{\"org/a\": {}, \"org/a\": {}}"};
    gr_test_ok(gr_fs_mkdirs(dirs.tools, &err), &err);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gr_test_write(dirs.installed, bad[i], strlen(bad[i]));
        gr_test_fails(gr_installed_read(&dirs, &list, &err), &err, GR_ERR_FORMAT, "installed.json");
        gr_test_fails(gr_installed_put(&dirs, &item, &err), &err, GR_ERR_FORMAT, "installed.json");
        char *text = (char *)gr_test_read(dirs.installed, NULL);
        assert_string_equal(text, bad[i]);
        free(text);
    }
    /* an id that would become a path outside is no entry */
    static const char hostile[] = "{\"../../x\": {\"manifest\": \"/m\"}, \"org/ok\": {}}";
    gr_test_write(dirs.installed, hostile, strlen(hostile));
    gr_test_ok(gr_installed_read(&dirs, &list, &err), &err);
    assert_int_equal(list.n, 1);
    assert_string_equal(list.items[0].id, "org/ok");
    gr_installed_free(&list);
}

/* ---- state files ---- */

static struct gr_running sample(void)
{
    return (struct gr_running){.name = "tt-model-pack-cpu",
                               .target = "/packs/pack",
                               .package = "pack",
                               .profile = "cpu",
                               .engine = "native",
                               .pid = 12345,
                               .start = 6789012345,
                               .boot = "b-1",
                               .port = 20001,
                               .log = "/l.log",
                               .url = "http://127.0.0.1:20001"};
}

static void assert_same(const struct gr_running *a, const struct gr_running *b)
{
    const char *const texts[][2] = {{a->name, b->name},        {a->target, b->target}, {a->package, b->package},
                                    {a->profile, b->profile},  {a->engine, b->engine}, {a->boot, b->boot},
                                    {a->image, b->image},      {a->log, b->log},       {a->url, b->url},
                                    {a->tls_cert, b->tls_cert}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_string_equal(texts[i][0], texts[i][1]);
    }
    assert_int_equal(a->pid, b->pid);
    assert_true(a->start == b->start);
    assert_int_equal(a->port, b->port);
    assert_int_equal(a->cards, b->cards);
}

static void a_running_service_comes_back_as_it_was(void **state)
{
    (void)state;
    struct gr_running r = sample(), got;
    struct gr_err err;
    char(*names)[GR_RUN_NAME_BYTES];
    int n;
    gr_test_fails(gr_running_read(&dirs, r.name, &got, &err), &err, GR_ERR_INPUT, "not known to run");
    gr_test_ok(gr_running_list(&dirs, &names, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_null(names);
    gr_test_ok(gr_running_write(&dirs, &r, &err), &err);
    gr_test_ok(gr_running_read(&dirs, r.name, &got, &err), &err);
    assert_same(&got, &r);
    strcpy(r.name, "tt-model-abc-x");
    gr_test_ok(gr_running_write(&dirs, &r, &err), &err);
    gr_test_write(gr_test_join(dirs.tools, "run/other.json"), "{}", 2);
    gr_test_write(gr_test_join(dirs.tools, "run/tt-model-x.log"), "", 0);
    gr_test_ok(gr_running_list(&dirs, &names, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_string_equal(names[0], "tt-model-abc-x");
    assert_string_equal(names[1], "tt-model-pack-cpu");
    free(names);
    gr_running_remove(&dirs, r.name);
    gr_test_ok(gr_running_list(&dirs, &names, &n, &err), &err);
    assert_int_equal(n, 1);
    free(names);
}

static void no_service_is_too_many_to_be_listed(void **state)
{
    (void)state;
    enum { MANY = 300 };
    struct gr_err err;
    struct gr_running r = sample();
    char(*names)[GR_RUN_NAME_BYTES], last[GR_RUN_NAME_BYTES] = "";
    int n;
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(last, sizeof last, "tt-model-pack-p%03d", i);
        strcpy(r.name, last);
        gr_test_ok(gr_running_write(&dirs, &r, &err), &err);
    }
    gr_test_ok(gr_running_list(&dirs, &names, &n, &err), &err);
    assert_int_equal(n, MANY);
    assert_string_equal(names[MANY - 1], last);
    free(names);
}

/* A state file of a version that did not know the field is as good; one whose field is nonsense is not. */
static void a_state_file_may_lack_the_certificate(void **state)
{
    (void)state;
    struct gr_running r = sample(), got;
    struct gr_err err;
    strcpy(r.tls_cert, "/c.pem");
    gr_test_ok(gr_running_write(&dirs, &r, &err), &err);
    gr_test_ok(gr_running_read(&dirs, r.name, &got, &err), &err);
    assert_string_equal(got.tls_cert, "/c.pem");
    const char *path = gr_test_join(dirs.tools, "run/tt-model-pack-cpu.json");
    char *text = (char *)gr_test_read(path, NULL), *field = strstr(text, "\"tls_cert\"");
    assert_non_null(field);
    memcpy(field, "\"xls_cert\"", 10);
    gr_test_write(path, text, strlen(text));
    gr_test_ok(gr_running_read(&dirs, r.name, &got, &err), &err);
    assert_string_equal(got.tls_cert, "");
    memcpy(field, "\"tls_cert\"", 10);
    memcpy(strstr(field, "\"/c.pem\""), "12345678", 8);
    gr_test_write(path, text, strlen(text));
    gr_test_fails(gr_running_read(&dirs, r.name, &got, &err), &err, GR_ERR_FORMAT, "tls_cert");
    free(text);
}

static void names_of_services_cannot_leave_their_folder(void **state)
{
    (void)state;
    struct gr_running got;
    struct gr_err err;
    static const char *const bad[] = {"tt-model-../../x", "../tt-model-x", "x", "tt-model-a/b", "tt-model-a b", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gr_test_fails(gr_running_read(&dirs, bad[i], &got, &err), &err, GR_ERR_INPUT, "no name of a service");
    }
}

/* The name comes out of a downloaded file, and its folder lies beside the tool's own files. */
static void a_package_cannot_take_the_place_of_the_tools_own_files(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    struct gr_err err;
    static const char *const bad[] = {"run", "pulled", "installed.json", "installed.json.lock", "../x", "Pack", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        gr_test_fails(gr_state_package(&dirs, bad[i], path, &err), &err, GR_ERR_FORMAT, "no safe name");
    }
    gr_test_ok(gr_state_package(&dirs, "running", path, &err), &err);
    assert_string_equal(path, gr_test_join(dirs.tools, "running"));
}

/* Each text with one field broken; nothing is read from it that could be signalled. */
static void damaged_state_files_are_told(void **state)
{
    (void)state;
    static const char good[] =
        "{\"name\": \"tt-model-pack-cpu\", \"target\": \"/p\", \"package\": \"pack\", \"profile\": \"cpu\", \"engine\": "
        "\"native\", \"pid\": 12345, \"start\": 77, \"boot\": \"\", \"port\": 20001, \"cards\": false, \"image\": \"\", "
        "\"log\": \"/l\", \"url\": \"http://x\"}";
    static const struct {
        const char *from, *to, *field;
    } cases[] = {{"12345", "1", "pid"},
                 {"12345", "0", "pid"},
                 {"12345", "-1", "pid"},
                 {"12345", "9999999999", "pid"},
                 {"12345", "\"12345\"", "pid"},
                 {"\"pid\"", "\"pidd\"", "pid"},
                 {"77", "0", "start"},
                 {"77", "-5", "start"},
                 {"20001", "70000", "port"},
                 {"\"native\"", "\"rkt\"", "engine"},
                 {"\"engine\": \"native\"", "\"engine\": null", "engine"},
                 {"tt-model-pack-cpu", "tt-model-other-x", "name"}};
    const char *path = gr_test_join(dirs.tools, "run/tt-model-pack-cpu.json");
    struct gr_running got;
    struct gr_err err;
    gr_test_ok(gr_fs_mkdirs(gr_test_join(dirs.tools, "run"), &err), &err);
    gr_test_write(path, good, strlen(good));
    gr_test_ok(gr_running_read(&dirs, "tt-model-pack-cpu", &got, &err), &err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        const char *at = strstr(good, cases[i].from);
        assert_non_null(at);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, cases[i].to, at + strlen(cases[i].from));
        gr_test_write(path, text, strlen(text));
        gr_test_fails(gr_running_read(&dirs, "tt-model-pack-cpu", &got, &err), &err, GR_ERR_FORMAT, cases[i].field);
    }
    for (size_t n = 0; n < strlen(good); n += 7) { /* cut short */
        gr_test_write(path, good, n);
        gr_test_fails(gr_running_read(&dirs, "tt-model-pack-cpu", &got, &err), &err, GR_ERR_FORMAT,
                      "tt-model-pack-cpu");
    }
}

/* A token given by --env is on no command line, and not in the line that is printed. */
static void a_token_goes_through_the_environment_only(void **state)
{
    (void)state;
    static const char *const engines[] = {"docker", "native"};
    const struct gr_env env[] = {{"A", "x"}, {"HF_TOKEN", "hf_geheim"}};
    struct gr_manifest m;
    struct gr_err err;
    read_manifest(&m);
    for (int i = 0; i < 2; i++) {
        struct gr_launch l = launch_of(&m, engines[i]);
        struct gr_command_line c;
        struct gr_buf text = {0};
        l.env = env;
        l.n_env = 2;
        l.has_token = true;
        gr_test_ok(gr_launch_compose(&l, &c, &err), &err);
        int named = 0;
        for (int k = 0; k < c.argc; k++) {
            assert_null(strstr(c.argv[k], "geheim"));
            named += strcmp(c.argv[k], "HF_TOKEN") == 0;
        }
        assert_int_equal(named, i == 0 ? 1 : 0);
        bool there = false;
        for (int k = 0; k < c.n_env; k++) {
            there = there || (strcmp(c.env[k].name, "HF_TOKEN") == 0 && strcmp(c.env[k].value, "hf_geheim") == 0);
        }
        assert_true(there);
        gr_command_line_text(&c, &text);
        assert_null(strstr(text.data, "geheim"));
        assert_non_null(strstr(text.data, "HF_TOKEN=***"));
        gr_buf_free(&text);
        gr_command_line_free(&c);
    }
    gr_manifest_free(&m);
}

/* ---- life ---- */

/* A shell as the service. */
static void start_shell(const char *script, struct gr_running *r)
{
    struct gr_launch l = launch_of(NULL, "native");
    struct gr_command_line c = {.port = 20055};
    struct gr_err err;
    strcpy(c.name, "tt-model-shell-default");
    strcpy(c.package, "shell");
    strcpy(c.profile, "default");
    gr_command_line_word(&c, "/bin/sh");
    gr_command_line_word(&c, "-c");
    gr_command_line_word(&c, "%s", script);
    gr_command_line_env(&c, "OWN", "o n");
    gr_test_ok(gr_launch_start(&l, &c, r, &err), &err);
    gr_command_line_free(&c);
}

static const double hang_s = GR_TEST_HANG_MS / 1e3;

static bool log_has(const struct gr_running *r, const char *text)
{
    char *log = (char *)gr_test_read(r->log, NULL);
    const bool there = strstr(log, text) != NULL;
    free(log);
    return there;
}

static void wait_for_log(const struct gr_running *r, const char *text)
{
    gr_test_wait(log_has(r, text));
    if (!log_has(r, text)) {
        fail_msg("%s never came", text);
    }
}

/* Holds `touch FILE`, and tells its pid. */
static void hold_touch(const char *file, struct gr_held *held)
{
    char program[] = "/bin/sh", option[] = "-c", script[GR_PATH_BYTES + 16];
    char *argv[] = {program, option, script, NULL}, *none[] = {NULL};
    struct gr_err err;
    (void)snprintf(script, sizeof script, ": > %s", file);
    const struct gr_spawn s = {argv, none, -1, -1, -1, true};
    gr_test_ok(gr_spawn_held(&s, held, &err), &err);
}

static void a_held_program_runs_when_it_is_let_go_and_only_then(void **state)
{
    (void)state;
    const char *file = gr_test_join(dirs.tools, "touched");
    char absent[] = "/nonexistent/program", *argv[] = {absent, NULL}, *none[] = {NULL};
    const struct gr_spawn wrong = {argv, none, -1, -1, -1, true};
    struct gr_held held;
    struct gr_err err;
    gr_test_ok(gr_fs_mkdirs(dirs.tools, &err), &err);
    hold_touch(file, &held);
    gr_clock_sleep(50);
    assert_false(gr_fs_is_file(file));
    gr_spawn_drop(&held);
    assert_int_equal(gr_process_start(held.pid), 0);
    assert_false(gr_fs_is_file(file));
    hold_touch(file, &held);
    gr_test_ok(gr_spawn_go(&held, "sh", &err), &err);
    assert_int_equal(gr_spawn_wait(held.pid), 0);
    assert_true(gr_fs_is_file(file));
    gr_test_ok(gr_spawn_held(&wrong, &held, &err), &err);
    assert_int_equal(gr_spawn_go(&held, absent, &err), GR_ERR_INPUT);
    assert_non_null(strstr(err.msg, "cannot run /nonexistent/program"));
}

/* As a launcher that is killed before it has written down what it starts. */
static void a_held_program_never_runs_when_its_parent_is_killed(void **state)
{
    (void)state;
    const char *file = gr_test_join(dirs.tools, "touched");
    struct gr_held held;
    struct gr_err err;
    int tell[2];
    pid_t grandchild = 0;
    gr_test_ok(gr_fs_mkdirs(dirs.tools, &err), &err);
    assert_int_equal(pipe(tell), 0);
    const pid_t launcher = fork();
    if (launcher == 0) {
        hold_touch(file, &held);
        (void)!write(tell[1], &held.pid, sizeof held.pid);
        (void)pause();
    }
    assert_int_equal(read(tell[0], &grandchild, sizeof grandchild), sizeof grandchild);
    (void)close(tell[0]);
    (void)close(tell[1]);
    assert_int_equal(kill(launcher, SIGKILL), 0);
    (void)gr_spawn_wait(launcher);
    gr_test_wait(!gr_process_runs(grandchild, gr_process_start(grandchild), ""));
    assert_false(gr_process_runs(grandchild, gr_process_start(grandchild), ""));
    assert_false(gr_fs_is_file(file));
}

static void a_service_is_started_once_and_ends_with_sigterm(void **state)
{
    (void)state;
    struct gr_running r, again;
    enum gr_stop_kind how;
    struct gr_err err;
    start_shell("trap 'echo bye; exit 0' TERM; echo up $OWN $KEPT; while :; do sleep 0.02; done", &r);
    wait_for_log(&r, "up o n 1\n");
    assert_true(gr_launch_alive(&r, environment));
    assert_int_equal(getsid(r.pid), r.pid);
    struct gr_launch l = launch_of(NULL, "native");
    struct gr_command_line c = {.port = 1};
    strcpy(c.name, r.name);
    gr_command_line_word(&c, "/bin/true");
    gr_test_fails(gr_launch_start(&l, &c, &again, &err), &err, GR_ERR_BUSY, "runs already");
    gr_command_line_free(&c);
    gr_test_ok(gr_running_read(&dirs, r.name, &again, &err), &err);
    gr_test_ok(gr_launch_stop(&dirs, &again, environment, hang_s, &how, &err), &err);
    assert_int_equal(how, GR_STOP_CLEAN);
    wait_for_log(&r, "bye\n");
    assert_false(gr_launch_alive(&r, environment));
    gr_test_fails(gr_running_read(&dirs, r.name, &again, &err), &err, GR_ERR_INPUT, "not known");
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, hang_s, &how, &err), &err);
    assert_int_equal(how, GR_STOP_NOTHING);
}

/* Between the end of a service and the removal of its file somebody may have started it again. */
static void a_stop_leaves_the_file_of_the_next_start(void **state)
{
    (void)state;
    struct gr_running r, next;
    enum gr_stop_kind how;
    struct gr_err err;
    start_shell("exec sleep 3600", &r);
    next = r;
    next.pid = getpid();
    next.start = gr_process_start(getpid());
    gr_test_ok(gr_running_write(&dirs, &next, &err), &err);
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, hang_s, &how, &err), &err);
    assert_int_equal(how, GR_STOP_CLEAN);
    gr_test_ok(gr_running_read(&dirs, r.name, &next, &err), &err);
    assert_int_equal(next.pid, getpid());
    gr_running_remove(&dirs, r.name);
}

static void a_stopped_service_is_remembered_until_it_is_forgotten(void **state)
{
    (void)state;
    struct gr_running r, back;
    struct gr_err err;
    enum gr_stop_kind how;
    char(*names)[GR_RUN_NAME_BYTES];
    int n;
    start_shell("echo here; exec sleep 3600", &r);
    wait_for_log(&r, "here");
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, hang_s, &how, &err), &err);
    gr_test_ok(gr_running_list(&dirs, &names, &n, &err), &err);
    assert_int_equal(n, 0);
    gr_test_ok(gr_stopped_list(&dirs, &names, &n, &err), &err);
    assert_int_equal(n, 1);
    assert_string_equal(names[0], r.name);
    free(names);
    gr_test_ok(gr_stopped_read(&dirs, r.name, &back, &err), &err);
    assert_same(&back, &r);
    gr_stopped_forget(&dirs, "/another", NULL, true);
    gr_stopped_forget(&dirs, r.target, "another", true);
    gr_test_ok(gr_stopped_read(&dirs, r.name, &back, &err), &err);
    gr_stopped_forget(&dirs, r.target, r.profile, true);
    assert_int_equal(gr_stopped_read(&dirs, r.name, &back, &err), GR_ERR_INPUT);
    assert_false(gr_fs_is_file(r.log));
}

static void a_service_that_does_not_listen_is_killed(void **state)
{
    (void)state;
    struct gr_running r;
    enum gr_stop_kind how;
    struct gr_err err;
    start_shell("trap '' TERM; echo up; while :; do sleep 0.02; done", &r);
    wait_for_log(&r, "up\n");
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, 0.1, &how, &err), &err);
    assert_int_equal(how, GR_STOP_KILLED);
    assert_false(gr_launch_alive(&r, environment));
}

/* The pid of a state file belongs to somebody else by now. */
static void another_process_with_that_pid_is_never_signalled(void **state)
{
    (void)state;
    enum gr_stop_kind how;
    struct gr_err err;
    const pid_t child = fork();
    if (child == 0) { /* does not outlive a test that failed, and holds no pipe of it */
        (void)close(STDOUT_FILENO);
        (void)close(STDERR_FILENO);
        (void)alarm(3600);
        (void)pause();
        _exit(0);
    }
    struct gr_running r = sample();
    r.pid = child;
    r.boot[0] = '\0';
    r.start = gr_process_start(child) - 1;
    gr_test_ok(gr_running_write(&dirs, &r, &err), &err);
    assert_false(gr_launch_alive(&r, environment));
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, 0.1, &how, &err), &err);
    assert_int_equal(how, GR_STOP_NOTHING);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    r.start = gr_process_start(child); /* the same number and time, of another boot of the machine */
    strcpy(r.boot, "another-boot");
    assert_false(gr_launch_alive(&r, environment));
    gr_process_boot(r.boot);
    assert_true(gr_launch_alive(&r, environment));
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    assert_false(gr_launch_alive(&r, environment));
}

static void a_package_does_not_inherit_settings_that_overrule_its_profile(void **state)
{
    (void)state;
    struct gr_manifest m;
    struct gr_running r;
    struct gr_err err;
    enum gr_stop_kind how;
    read_manifest(&m);
    struct gr_launch l = launch_of(&m, "native");
    char hf[GR_PATH_BYTES + 8];
    (void)snprintf(hf, sizeof hf, "%s/hf", dirs.tools);
    l.hf_home = l.hub_cache = hf;
    struct gr_command_line c = {.port = 20055};
    strcpy(c.name, "tt-model-pack-cpu");
    gr_command_line_word(&c, "/bin/sh");
    gr_command_line_word(&c, "-c");
    gr_command_line_word(&c, "echo [$GR00T_THREADS] [$KEPT]; exec sleep 3600");
    gr_test_ok(gr_launch_start(&l, &c, &r, &err), &err);
    wait_for_log(&r, "[] [1]\n");
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, 1.0, &how, &err), &err);
    gr_command_line_free(&c);
    gr_manifest_free(&m);
}

/* Also between the start of a service and the moment it listens. */
static void the_port_of_a_service_that_starts_is_not_given_out_again(void **state)
{
    (void)state;
    struct gr_running r;
    struct gr_err err;
    enum gr_stop_kind how;
    int first, second;
    gr_test_ok(gr_launch_port(&dirs, GR_LAUNCH_PORT, &first, &err), &err);
    start_shell("exec sleep 3600", &r);
    r.port = first;
    gr_test_ok(gr_running_write(&dirs, &r, &err), &err);
    gr_test_ok(gr_launch_port(&dirs, GR_LAUNCH_PORT, &second, &err), &err);
    assert_true(second > first);
    gr_test_ok(gr_launch_stop(&dirs, &r, environment, 1.0, &how, &err), &err);
}

/* The words that make it so are the service's own; a shell is as good a service here. */
static void a_service_with_a_certificate_has_an_https_address(void **state)
{
    (void)state;
    const char *cert = gr_test_join(dirs.tools, "cert.pem");
    struct gr_err err;
    struct gr_running r;
    enum gr_stop_kind how;
    char equals[GR_PATH_BYTES + 16];
    (void)snprintf(equals, sizeof equals, "--tls-cert=%s", cert);
    gr_test_ok(gr_fs_mkdirs(dirs.tools, &err), &err);
    gr_test_write(cert, "x", 1);
    const struct {
        const char *host, *words[2], *url, *trusted;
    } cases[] = {{NULL, {"--tls-cert", cert}, "https://127.0.0.1:20007", cert},
                 {"0.0.0.0", {equals, "--queue"}, "https://127.0.0.1:20007", cert},
                 {"::1", {"--ssl-certfile", "/nonexistent.pem"}, "https://[::1]:20007", ""},
                 {NULL, {"--tls-certificate", cert}, "http://127.0.0.1:20007", ""},
                 {NULL, {"--queue", "--tls-cert"}, "http://127.0.0.1:20007", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_launch l = {.dirs = &dirs,
                              .target = "/t",
                              .name = "demo",
                              .engine = "native",
                              .host = cases[i].host,
                              .environment = environment};
        struct gr_command_line c = {
            .port = 20007, .name = "tt-model-demo-default", .package = "demo", .profile = "default"};
        gr_command_line_word(&c, "/bin/sh");
        gr_command_line_word(&c, "-c");
        gr_command_line_word(&c, "exec sleep 3600");
        gr_command_line_word(&c, "%s", cases[i].words[0]);
        gr_command_line_word(&c, "%s", cases[i].words[1]);
        gr_test_ok(gr_launch_start(&l, &c, &r, &err), &err);
        gr_command_line_free(&c);
        gr_test_ok(gr_launch_stop(&dirs, &r, environment, hang_s, &how, &err), &err);
        assert_string_equal(r.url, cases[i].url);
        assert_string_equal(r.tls_cert, cases[i].trusted);
    }
}

/* ---- an image's root ---- */

static void make_file(const char *root, const char *path)
{
    char folder[GR_PATH_BYTES];
    struct gr_err err;
    (void)snprintf(folder, sizeof folder, "%s", gr_test_join(root, "%s", path));
    *strrchr(folder, '/') = '\0';
    gr_test_ok(gr_fs_mkdirs(folder, &err), &err);
    gr_test_write(gr_test_join(root, "%s", path), "x", 1);
}

/* Every link of the way is the image's: an absolute one, and one with too many "..", begins at its root and not at this machine's. */
static void links_of_an_image_stay_in_its_root(void **state)
{
    (void)state;
    struct gr_native_root root = {0};
    struct gr_launch l = {.root = &root, .hf_home = "/hf-here", .hub_cache = "/hub-here"};
    char *base = realpath(gr_test_temp_dir(), NULL), got[GR_PATH_BYTES];
    (void)snprintf(root.dir, sizeof root.dir, "%s/root", base);
    make_file(root.dir, "opt/real/model/passwd");
    make_file(root.dir, "opt/real/model/own");
    make_file(base, "outside/passwd"); /* what "../../outside" from the root would be here */
    const char *const links[][2] = {{"etc", "/opt/real/model"},
                                    {"up", "../../../../../../../../../../opt/real"},
                                    {"opt/one", "real"},
                                    {"opt/chain", "/opt/one/../../etc/passwd"},
                                    {"loop", "/loop"},
                                    {"leave", "../outside"},
                                    {"opt/real/name", "model/own"},
                                    {"tmp-link", base}};
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        assert_int_equal(symlink(links[i][1], gr_test_join(root.dir, "%s", links[i][0])), 0);
    }
    const struct {
        const char *value, *below; /* NULL: it is not in the image and stays as it is */
    } cases[] = {{"/etc/passwd", "/opt/real/model/passwd"},
                 {"/etc", "/opt/real/model"},
                 {"/up/model/own", "/opt/real/model/own"},
                 {"/opt/one/model/own", "/opt/one/model/own"}, /* harmless: the name stays */
                 {"/opt/real/name", "/opt/real/name"},
                 {"/opt/chain", "/opt/real/model/passwd"},
                 {"/../../etc/./passwd", "/opt/real/model/passwd"},
                 {"/loop/x", NULL},
                 {"/leave/passwd", NULL},
                 {"/tmp-link/outside/passwd", NULL},
                 {"/etc/passwd/x", NULL},
                 {"/etc/shadow", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[GR_PATH_BYTES], want[2 * GR_PATH_BYTES];
        (void)snprintf(want, sizeof want, "%s%s", cases[i].below != NULL ? root.dir : "",
                       cases[i].below != NULL ? cases[i].below : cases[i].value);
        (void)snprintf(got, sizeof got, "%s", gr_native_value(&l, "/cache-here", cases[i].value, path));
        assert_string_equal(got, want);
    }
    free(base);
}

/* ---- entry ---- */

static void expect_entry(const char *const *in, const char *const *want)
{
    struct gr_err err;
    char **out;
    int argc = 0, n;
    while (in[argc] != NULL) {
        argc++;
    }
    assert_true(gr_entry_is_python(argc, (char **)(uintptr_t)in));
    gr_test_ok(gr_entry_serve(argc, (char **)(uintptr_t)in, &n, &out, &err), &err);
    for (int i = 0; i <= n; i++) {
        assert_true((out[i] == NULL) == (want[i] == NULL));
        if (want[i] != NULL) {
            assert_string_equal(out[i], want[i]);
        }
    }
    free(out);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void uvicorns_command_line_is_a_serve(void **state)
{
    (void)state;
    expect_entry(
        WORDS("/usr/bin/gr00t", "python", "-m", "uvicorn", "--host", "0.0.0.0", "--port", "8000", "--lifespan", "on",
              "--queue", "4", "gr00t.native:app", "--threads", "2"),
        WORDS("/usr/bin/gr00t", "serve", "--host", "0.0.0.0", "--port", "8000", "--queue", "4", "--threads", "2"));
    expect_entry(WORDS("/usr/bin/python3.12", "-m", "uvicorn", "a:b", "--no-access-log", "--workers=2", "--uds=/s",
                       "--timeout-keep-alive", "5", "--cors-origin", "http://x:1"),
                 WORDS("/usr/bin/python3.12", "serve", "--unix", "/s", "--idle-s", "5", "--cors-origin", "http://x:1"));
    struct gr_err err;
    char **out;
    int n;
    gr_test_fails(gr_entry_serve(3, (char *[]){(char[]){"python"}, (char[]){"-c"}, (char[]){"1"}}, &n, &out, &err),
                  &err, GR_ERR_USAGE, "no Python");
    assert_false(gr_entry_is_python(2, (char *[]){(char[]){"gr00t"}, (char[]){"serve"}}));
    assert_false(gr_entry_is_python(1, (char *[]){(char[]){"gr00t"}}));
    assert_false(gr_entry_is_python(0, (char *[]){NULL}));
    assert_false(gr_entry_is_python(2, (char *[]){(char[]){"gr00t"}, (char[]){"pythonic"}}));
}

static void tt_smi_says_what_it_cannot_do(void **state)
{
    (void)state;
    char *argv[] = {(char[]){"/usr/bin/tt-smi"}, (char[]){"-r"}, (char[]){"all"}, NULL};
    struct gr_buf out = {0};
    assert_true(gr_entry_is_smi(3, argv));
    assert_int_equal(gr_entry_smi(3, argv, false, &out), 0);
    assert_non_null(strstr(out.data, "nothing to reset"));
    assert_int_equal(gr_entry_smi(3, argv, true, &out), 1); /* 0 would be read as "reset" */
    assert_non_null(strstr(out.data, "cannot reset"));
    gr_buf_free(&out);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {
        T(a_card_profile_has_the_reference_line),
        T(device_numbers_token_and_a_hub_cache_elsewhere_have_their_places),
        T(the_cpu_profile_mounts_no_card_and_stays_on_this_machine),
        T(a_native_run_has_the_same_words_and_folders_of_this_machine),
        T(a_snapshot_is_served_by_this_program),
        T(names_that_would_leave_their_place_are_refused),
        T(an_image_of_a_registry_goes_by_its_digest),
        T(the_older_folder_is_used_when_only_that_exists),
        T(installed_packages_come_back_and_foreign_fields_stay),
        T(a_damaged_list_is_told_and_left_alone),
        T(a_running_service_comes_back_as_it_was),
        T(no_service_is_too_many_to_be_listed),
        T(a_state_file_may_lack_the_certificate),
        T(names_of_services_cannot_leave_their_folder),
        T(a_package_cannot_take_the_place_of_the_tools_own_files),
        T(damaged_state_files_are_told),
        T(a_token_goes_through_the_environment_only),
        T(a_held_program_runs_when_it_is_let_go_and_only_then),
        T(a_held_program_never_runs_when_its_parent_is_killed),
        T(a_service_is_started_once_and_ends_with_sigterm),
        T(a_stop_leaves_the_file_of_the_next_start),
        T(a_stopped_service_is_remembered_until_it_is_forgotten),
        T(a_service_that_does_not_listen_is_killed),
        T(another_process_with_that_pid_is_never_signalled),
        T(a_package_does_not_inherit_settings_that_overrule_its_profile),
        T(the_port_of_a_service_that_starts_is_not_given_out_again),
        T(a_service_with_a_certificate_has_an_https_address),
        T(links_of_an_image_stay_in_its_root),
        T(uvicorns_command_line_is_a_serve),
        T(tt_smi_says_what_it_cannot_do),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
