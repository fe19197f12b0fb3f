/* SPDX-License-Identifier: Apache-2.0
 *
 * test_settings_serve.c: options and variables of `gr00t serve`, with a made-up environment and Hub cache. */
#include "gr_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/log.h"
#include "cli/settings_serve.h"
#include "cli/variables.h"
#include "demo_snapshot.h"

static const char commit[] = "d0814e7ecb19202e7c8468b46098b0b7ef3a6d61";
static char hub[GR_PATH_BYTES], log_path[GR_PATH_BYTES];
static char hub_variable[GR_PATH_BYTES + 32];

static int set_up(void **state)
{
    struct gr_err err;
    snprintf(hub, sizeof hub, "%s", gr_test_temp_dir());
    snprintf(log_path, sizeof log_path, "%s", gr_test_join(hub, "log"));
    snprintf(hub_variable, sizeof hub_variable, "HF_HUB_CACHE=%s", hub);
    const char *model = gr_test_join(hub, "models--nvidia--GR00T-N1.6-3B");
    char text[80];
    int n = snprintf(text, sizeof text, "%s\n", commit);
    bool ok = make_demo(state) == 0 && gr_fs_mkdirs(gr_test_join(model, "refs"), &err) == GR_OK &&
              gr_fs_mkdirs(gr_test_join(model, "snapshots"), &err) == GR_OK &&
              symlink(demo_dir, gr_test_join(model, "snapshots/%s", commit)) == 0;
    gr_test_write(gr_test_join(model, "refs/main"), text, (size_t)n);
    gr_test_write(gr_test_join(model, "refs/gone"), "0123456789012345678901234567890123456789", 40);
    gr_test_write(gr_test_join(model, "refs/evil"), "../../..", 8);
    return ok ? 0 : -1;
}

/* ---- one call with a made-up environment; its log lines are caught ---- */

static struct gr_serve_settings settings;
static struct gr_err err;
static char logged[16384];

static enum gr_status settle(const struct gr_serve_flags *flags, const char *const *variables)
{
    int kept = dup(STDERR_FILENO), file = open(log_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    gr_serve_settings_free(&settings);
    memset(&err, 0, sizeof err);
    dup2(file, STDERR_FILENO);
    gr_log_setup(GR_LOG_INFO, false);
    gr_settings_use_env(variables);
    enum gr_status status = gr_settings_serve(flags, &settings, &err);
    gr_settings_use_env(NULL);
    dup2(kept, STDERR_FILENO);
    close(kept);
    ssize_t n = pread(file, logged, sizeof logged - 1, 0);
    logged[n > 0 ? n : 0] = '\0';
    close(file);
    return status;
}

#define ENV(...) ((const char *const[]){__VA_ARGS__, NULL})
static const char home[] = "HOME=/home/robot";

static struct gr_serve_flags with_model(void) { return (struct gr_serve_flags){.model = demo_dir}; }

static void accepts(const struct gr_serve_flags *flags, const char *const *variables)
{
    gr_test_ok(settle(flags, variables), &err);
}

static void refuses(const struct gr_serve_flags *flags, const char *const *variables, enum gr_status want,
                    const char *text)
{
    gr_test_fails(settle(flags, variables), &err, want, text);
}

/* One variable beside a good start. */
static void refuses_variable(const char *variable, const char *text)
{
    struct gr_serve_flags f = with_model();
    refuses(&f, ENV(home, variable), GR_ERR_USAGE, text);
}

/* ---- tests ---- */

static void the_defaults_are_the_documented_ones(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    accepts(&f, ENV(home));
    const struct gr_server_config *c = &settings.server;
    assert_string_equal(logged, "");
    assert_string_equal(c->snapshot_dir, demo_dir);
    assert_null(c->weights_repo);
    assert_string_equal(c->layout, "gr1");
    assert_int_equal(c->engine.max_text_tokens, 24);
    assert_string_equal(c->engine.precision, "auto");
    assert_null(c->engine.half);
    assert_false(c->engine.remeasure || c->engine.no_prefix_cache);
    assert_string_equal(c->engine.cache_dir, "/home/robot/.cache/gr00t");
    assert_true(c->engine.threads >= 1);
    assert_non_null(strstr(c->threads_reason, "CPU"));
    assert_int_equal(c->queue, 8);
    assert_int_equal(c->limits.connections, 4096);
    assert_int_equal(c->limits.body_bytes, 96 << 20);
    assert_int_equal(c->limits.head_bytes, 16 << 10);
    assert_true(c->limits.head_s == 10 && c->limits.body_s == 30 && c->limits.idle_s == 60 && c->drain_s == 8);
    assert_int_equal(c->warmup_runs, 3);
    assert_true(c->warmup_pcc_min == 0.999);
    assert_int_equal(c->listen.port, 0);
    assert_int_equal(c->listen.inherited_fd, -1);
    assert_null(c->api_key);
}

/* What the seed's package sets. */
static void the_seed_s_environment_is_accepted_and_noted_once(void **state)
{
    (void)state;
    struct gr_serve_flags f = {0};
    accepts(&f, ENV(home, hub_variable, "HF_MODEL=nvidia/GR00T-N1.6-3B",
                    "TT_WEIGHTS_REVISION=d0814e7ecb19202e7c8468b46098b0b7ef3a6d61", "GR00T_VERSION=n16",
                    "GR00T_EMBODIMENT=gr1", "GR00T_LAYOUT=gr1", "GR00T_POLICY=mixed_dit",
                    "GR00T_TRACE_LAYOUT=per_stage", "GR00T_DIT_BACKEND=megakernel", "GR00T_MK_ARENA_DTYPE=auto",
                    "GR00T_NUM_CQS=2", "GR00T_TT_CACHE=/weight-cache/gr00t-tt", "GR00T_WARMUP_RUNS=3",
                    "GR00T_WARMUP_PCC_MIN=0.999", "MESH_DEVICE=P150", "TT_MESH_SHAPE=1x1", "TT_METAL_CACHE=/cache",
                    "TT_DIT_CACHE_DIR=/weight-cache", "TT_CACHE_PATH=/tensor-cache"));
    const struct gr_server_config *c = &settings.server;
    assert_string_equal(c->weights_repo, "nvidia/GR00T-N1.6-3B");
    assert_string_equal(c->weights_revision, commit);
    assert_string_equal(c->engine.precision, "auto");
    assert_string_equal(c->engine.cache_dir, "/weight-cache/gr00t-tt");
    assert_non_null(strstr(logged, "change nothing: GR00T_VERSION=n16, GR00T_TRACE_LAYOUT=per_stage"));
    assert_ptr_equal(strchr(logged, '\n') + 1, logged + strlen(logged)); /* one line */
}

static void what_only_the_card_can_do_is_refused_on_the_cpu(void **state)
{
    (void)state;
    refuses_variable("GR00T_DIT_BACKEND=ttnn", "only \"megakernel\"");
    refuses_variable("GR00T_NUM_CQS=1", "GR00T_NUM_CQS is \"1\"");
    refuses_variable("GR00T_TRACE_LAYOUT=one", "per_stage");
    refuses_variable("GR00T_VERSION=n17", "n16");
    refuses_variable("TT_MESH_SHAPE=1x2", "1x1");
    refuses_variable("TT_DEVICE_ID=3", "TT_DEVICE_ID");
    refuses_variable("GR00T_MK_ARENA_DTYPE=fp4", "auto, bf16 or bfp8_b");
    struct gr_serve_flags f = with_model();
    f.engine.num_cqs = "7";
    refuses(&f, ENV(home, "GR00T_NUM_CQS=2"), GR_ERR_USAGE, "--num-cqs is \"7\"");
    f = with_model();
    f.engine.sim = "/x/libttsim.so";
    refuses(&f, ENV(home), GR_ERR_USAGE, "--sim is for --device blackhole");
}

#define CARD "GR00T_DEVICE=blackhole"

/* The seed's environment, on what it was made for. */
static void the_seed_s_environment_starts_a_card(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    accepts(&f, ENV(home, CARD, "GR00T_VERSION=n16", "GR00T_POLICY=mixed_dit", "GR00T_TRACE_LAYOUT=per_stage",
                    "GR00T_DIT_BACKEND=megakernel", "GR00T_MK_ARENA_DTYPE=auto", "GR00T_NUM_CQS=2", "MESH_DEVICE=P150",
                    "TT_MESH_SHAPE=1x1", "TT_DEVICE_ID=0", "TT_METAL_VISIBLE_DEVICES=0"));
    const struct gr_options *e = &settings.server.engine;
    assert_string_equal(e->device, "blackhole");
    assert_int_equal(e->card, 0);
    assert_null(e->simulator);
    assert_string_equal(e->arena, "auto");
    assert_string_equal(e->dit_backend, "megakernel");
    assert_int_equal(e->command_queues, 2);
    assert_string_equal(e->precision, "auto");
    assert_int_equal(e->max_text_tokens, 24);
    assert_non_null(strstr(logged, "here these change nothing: GR00T_VERSION=n16"));
    assert_null(strstr(logged, "GR00T_NUM_CQS"));
}

static void the_card_s_settings_reach_the_engine(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    const struct gr_options *e = &settings.server.engine;
    accepts(&f, ENV(home, CARD, "GR00T_DIT_BACKEND=ttnn", "GR00T_MK_ARENA_DTYPE=bf16", "GR00T_NUM_CQS=1",
                    "TT_DEVICE_ID=3"));
    assert_string_equal(e->dit_backend, "ttnn");
    assert_string_equal(e->arena, "bf16");
    assert_int_equal(e->command_queues, 1);
    assert_int_equal(e->card, 3);
    f.engine.dit_backend = "ops";
    f.engine.mk_arena_dtype = "bfp8_b";
    f.engine.num_cqs = "2";
    f.engine.device = "blackhole";
    accepts(&f, ENV(home, "GR00T_DIT_BACKEND=megakernel", "GR00T_MK_ARENA_DTYPE=bf16", "GR00T_NUM_CQS=1"));
    assert_string_equal(e->dit_backend, "ops");
    assert_string_equal(e->arena, "bfp8_b");
    assert_int_equal(e->command_queues, 2);
}

/* --sim, --device-id, TTSIM_LIB, TT_DEVICE_ID: in this order; the number counts in the list of visible ones, as for the card's own software. */
static void the_chip_is_found_in_order(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    const struct gr_options *e = &settings.server.engine;
    accepts(&f, ENV(home, CARD, "TT_DEVICE_ID=1", "TT_METAL_VISIBLE_DEVICES=4,7"));
    assert_int_equal(e->card, 7);
    accepts(&f, ENV(home, CARD, "TT_METAL_VISIBLE_DEVICES=4,7"));
    assert_int_equal(e->card, 4);
    accepts(&f, ENV(home, CARD, "TT_DEVICE_ID=1", "TTSIM_LIB=/x/libttsim.so"));
    assert_string_equal(e->simulator, "/x/libttsim.so");
    f.engine.device_id = "2";
    accepts(&f, ENV(home, CARD, "TT_DEVICE_ID=1", "TTSIM_LIB=/x/libttsim.so", "TT_METAL_VISIBLE_DEVICES=4,7"));
    assert_null(e->simulator);
    assert_int_equal(e->card, 2);
    f.engine.sim = "/y/libttsim.so";
    refuses(&f, ENV(home, CARD), GR_ERR_USAGE, "two devices");
    f.engine.device_id = NULL;
    accepts(&f, ENV(home, CARD, "TTSIM_LIB=/x/libttsim.so"));
    assert_string_equal(e->simulator, "/y/libttsim.so");
}

static void what_a_card_cannot_do_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *variable, *text;
    } cases[] = {{"GR00T_DIT_BACKEND=x", "GR00T_DIT_BACKEND is \"x\", expected megakernel or ops"},
                 {"GR00T_NUM_CQS=3", "GR00T_NUM_CQS is \"3\", expected 1 or 2"},
                 {"GR00T_MK_ARENA_DTYPE=fp4", "auto, bf16 or bfp8_b"},
                 {"GR00T_TRACE_LAYOUT=one", "only \"per_stage\""},
                 {"GR00T_VERSION=n17", "n16"},
                 {"TT_MESH_SHAPE=1x2", "1x1"},
                 {"TT_DEVICE_ID=x", "TT_DEVICE_ID"},
                 {"TT_METAL_VISIBLE_DEVICES=a", "TT_METAL_VISIBLE_DEVICES"},
                 {"GR00T_POLICY=exact", "--policy (GR00T_POLICY) is for the CPU"},
                 {"GR00T_HALF=f16", "--half (GR00T_HALF) is for the CPU"}};
    struct gr_serve_flags f = with_model();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        refuses(&f, ENV(home, CARD, cases[i].variable), GR_ERR_USAGE, cases[i].text);
    }
    refuses(&f, ENV(home, CARD, "TT_DEVICE_ID=2", "TT_METAL_VISIBLE_DEVICES=4,7"), GR_ERR_USAGE, "lists 2 cards");
    f.engine.device = "gpu";
    refuses(&f, ENV(home), GR_ERR_USAGE, "--device is \"gpu\", this build has: cpu, blackhole");
}

static void the_policy_is_found_in_order(void **state)
{
    (void)state;
    static const char *const names[] = {"exact", "high", "balanced", "fast", "mixed", "fastest", "auto"};
    struct gr_serve_flags f = with_model();
    const struct gr_options *e = &settings.server.engine;
    accepts(&f, ENV(home, "GR00T_MK_ARENA_DTYPE=bf16"));
    assert_string_equal(e->precision, "balanced");
    accepts(&f, ENV(home, "GR00T_MK_ARENA_DTYPE=bfp8_b"));
    assert_string_equal(e->precision, "mixed");
    accepts(&f, ENV(home, "GR00T_MK_ARENA_DTYPE=bfp8_b", "GR00T_POLICY=high"));
    assert_string_equal(e->precision, "high");
    accepts(&f, ENV(home, "GR00T_MK_ARENA_DTYPE=bfp8_b", "GR00T_POLICY=mixed_dit"));
    assert_string_equal(e->precision, "auto");
    f.engine.mk_arena_dtype = "auto";
    accepts(&f, ENV(home, "GR00T_MK_ARENA_DTYPE=bf16"));
    assert_string_equal(e->precision, "auto");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        f = with_model();
        f.engine.policy = names[i];
        accepts(&f, ENV(home, "GR00T_MK_ARENA_DTYPE=bf16", "GR00T_POLICY=high"));
        assert_string_equal(e->precision, names[i]);
    }
    f.engine.policy = "fp4";
    refuses(&f, ENV(home), GR_ERR_USAGE,
            "--policy: policy \"fp4\" is unknown, expected auto, exact, high, balanced, fast, "
            "mixed or fastest");
    refuses_variable("GR00T_POLICY=Mixed", "GR00T_POLICY: policy \"Mixed\"");
}

static void the_16_bit_format_and_the_switches_reach_the_engine(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    const struct gr_options *e = &settings.server.engine;
    accepts(&f, ENV(home, "GR00T_HALF=i16"));
    assert_string_equal(e->half, "i16");
    f.engine.half = "bf16p";
    f.engine.remeasure = f.engine.no_prefix_cache = true;
    accepts(&f, ENV(home, "GR00T_HALF=i16"));
    assert_string_equal(e->half, "bf16p");
    assert_true(e->remeasure && e->no_prefix_cache);
    f.engine.half = "fp16";
    refuses(&f, ENV(home), GR_ERR_USAGE, "--half: 16-bit format \"fp16\" is unknown, expected f16, bf16p or i16");
    refuses_variable("GR00T_HALF=8", "GR00T_HALF: ");
}

static void values_are_parsed_strictly(void **state)
{
    (void)state;
    refuses_variable("GR00T_WARMUP_RUNS=0", "from 1 to 100");
    refuses_variable("GR00T_WARMUP_RUNS=3x", "3x");
    refuses_variable("GR00T_WARMUP_RUNS= 3", "whole number");
    refuses_variable("GR00T_WARMUP_RUNS=99999999999999999999", "whole number");
    refuses_variable("GR00T_WARMUP_PCC_MIN=1.5", "from 0 to 1");
    refuses_variable("GR00T_WARMUP_PCC_MIN=nan", "number");
    refuses_variable("GR00T_WARMUP_PCC_MIN=0,999", "number");
    refuses_variable("GR00T_WARMUP_PCC_MIN=-1", "number");
    refuses_variable("GR00T_WARMUP_PCC_MIN=.", "number");
    refuses_variable("GR00T_THREADS=0", "GR00T_THREADS");
    refuses_variable("GR00T_THREADS=two", "GR00T_THREADS");
    refuses_variable("GR00T_LAYOUT=GR1", "gr1, gr1_long_text or auto");
    refuses_variable("GR00T_CPU=fast", "instruction set");
    refuses_variable("GR00T_CACHE=1", "a folder or off");
    struct gr_serve_flags f = with_model();
    f.drain_s = "soon";
    refuses(&f, ENV(home), GR_ERR_USAGE, "--drain-s is \"soon\"");
}

static void an_empty_variable_is_not_set(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    accepts(&f, ENV(home, "GR00T_WARMUP_RUNS=", "GR00T_LAYOUT=", "GR00T_NUM_CQS=", "GR00T_THREADS=", "GR00T_CACHE=",
                    "NOTIFY_SOCKET="));
    assert_int_equal(settings.server.warmup_runs, 3);
    assert_null(settings.server.notify_socket);
    assert_string_equal(logged, "");
}

static void options_go_before_variables(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    f.warmup_runs = (struct gr_arg_int){true, 5};
    f.layout = "auto";
    f.engine.cache = "/flag";
    f.warmup_pcc_min = "0.5";
    f.engine.threads = (struct gr_arg_int){true, 1};
    accepts(&f, ENV(home, "GR00T_WARMUP_RUNS=7", "GR00T_LAYOUT=gr1_long_text", "GR00T_CACHE=/variable",
                    "GR00T_WARMUP_PCC_MIN=0.7", "GR00T_THREADS=2"));
    const struct gr_server_config *c = &settings.server;
    assert_int_equal(c->warmup_runs, 5);
    assert_string_equal(c->layout, "auto");
    assert_int_equal(c->engine.max_text_tokens, 8000);
    assert_string_equal(c->engine.cache_dir, "/flag");
    assert_true(c->warmup_pcc_min == 0.5);
    assert_int_equal(c->engine.threads, 1);
    assert_string_equal(c->threads_reason, "set by --threads");
    f = with_model();
    accepts(&f, ENV(home, "GR00T_LAYOUT=gr1_long_text", "GR00T_THREADS=2"));
    assert_int_equal(c->engine.max_text_tokens, 152);
    assert_string_equal(c->threads_reason, "set by GR00T_THREADS");
    const int cpus = gr_cpu_count(), most = 8 * cpus > 64 ? 8 * cpus : 64;
    f.engine.threads = (struct gr_arg_int){true, most};
    accepts(&f, ENV(home));
    f.engine.threads.value++;
    refuses(&f, ENV(home), GR_ERR_USAGE, "this process may use");
    f = with_model();
    refuses(&f, ENV(home, "GR00T_THREADS=1024"), GR_ERR_USAGE, "GR00T_THREADS is 1024, expected at most");
}

static void unknown_variables_of_ours_are_named_with_the_nearest(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    accepts(&f, ENV(home, "GR00T_NUM_CQ=1", "GR00T_SOMETHING_ELSE=1", "TT_MODEL_PROGRESS=1", "GR00T_SHARED=/x"));
    assert_non_null(strstr(logged, "GR00T_NUM_CQ is unknown and changes nothing, did you mean GR00T_NUM_CQS?"));
    assert_non_null(strstr(logged, "GR00T_SOMETHING_ELSE is unknown"));
    assert_null(strstr(logged, "TT_MODEL"));
    assert_null(strstr(logged, "GR00T_SHARED"));
}

static void the_cache_folder_is_found_in_order(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    const struct gr_options *e = &settings.server.engine;
    accepts(&f, ENV(home, "XDG_CACHE_HOME=/xdg"));
    assert_string_equal(e->cache_dir, "/xdg/gr00t");
    accepts(&f, ENV(home, "XDG_CACHE_HOME=relative"));
    assert_string_equal(e->cache_dir, "/home/robot/.cache/gr00t");
    accepts(&f, ENV(home, "GR00T_TT_CACHE=/tt", "GR00T_CACHE=/ours"));
    assert_string_equal(e->cache_dir, "/ours");
    accepts(&f, ENV(home, "GR00T_TT_CACHE=/tt", "GR00T_CACHE=off"));
    assert_null(e->cache_dir);
    accepts(&f, ENV("PATH=/bin"));
    assert_null(e->cache_dir);
    assert_non_null(strstr(logged, "HOME is not set"));
}

static void weights_are_found_in_order(void **state)
{
    (void)state;
    struct gr_serve_flags f = {0};
    const struct gr_server_config *c = &settings.server;
    char variable[GR_PATH_BYTES + 32];
    refuses(&f, ENV(home), GR_ERR_USAGE, "--model DIR");
    snprintf(variable, sizeof variable, "GR00T_WEIGHTS_DIR=%s", demo_dir);
    accepts(&f, ENV(home, variable, "HF_MODEL=nvidia/none", hub_variable));
    assert_string_equal(c->snapshot_dir, demo_dir);
    accepts(&f, ENV(home, "HF_MODEL=nvidia/GR00T-N1.6-3B", hub_variable)); /* refs/main */
    assert_string_equal(c->weights_revision, commit);
    assert_non_null(strstr(c->snapshot_dir, commit));
    /* the folder itself, as newer tools mount it */
    snprintf(variable, sizeof variable, "HF_MODEL=%s",
             gr_test_join(hub, "models--nvidia--GR00T-N1.6-3B/snapshots/%s", commit));
    accepts(&f, ENV(home, variable));
    assert_string_equal(c->weights_repo, "nvidia/GR00T-N1.6-3B");
    assert_string_equal(c->weights_revision, commit);
    refuses(&f, ENV(home, variable, "TT_WEIGHTS_REVISION=0123456789012345678901234567890123456789"), GR_ERR_USAGE,
            "is pinned");
    f.hf_model = "nvidia/GR00T-N1.6-3B"; /* an option goes before GR00T_WEIGHTS_DIR */
    accepts(&f, ENV(home, hub_variable, "GR00T_WEIGHTS_DIR=/nowhere"));
    assert_string_equal(c->weights_repo, "nvidia/GR00T-N1.6-3B");
    f.model = demo_dir;
    refuses(&f, ENV(home), GR_ERR_USAGE, "exclude each other");
    f = (struct gr_serve_flags){.model = "/nowhere"};
    refuses(&f, ENV(home), GR_ERR_FORMAT, "/nowhere");
}

static void a_revision_that_is_not_there_is_never_replaced(void **state)
{
    (void)state;
    struct gr_serve_flags f = {.hf_model = "nvidia/GR00T-N1.6-3B"};
    f.revision = "0000000000000000000000000000000000000000";
    refuses(&f, ENV(home, hub_variable), GR_ERR_FORMAT,
            "snapshots/0000000000000000000000000000000000000000; `gr00t pull");
    f.revision = "gone"; /* refs/gone names a commit that is not there */
    refuses(&f, ENV(home, hub_variable), GR_ERR_FORMAT, "gr00t pull nvidia/GR00T-N1.6-3B@gone");
    f.revision = "other";
    refuses(&f, ENV(home, hub_variable), GR_ERR_FORMAT, "other is not in the Hub cache, but");
    f.revision = "evil";
    refuses(&f, ENV(home, hub_variable), GR_ERR_FORMAT, "no commit");
    static const char *const unusable[] = {"../../x", "other/", "other//x", "x/.y", ""}; /* as `pull` refuses them */
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        f.revision = unusable[i];
        refuses(&f, ENV(home, hub_variable), GR_ERR_USAGE, "is no commit, branch or tag name");
    }
    f.revision = NULL;
    f.hf_model = "nvidia/other";
    refuses(&f, ENV(home, hub_variable), GR_ERR_FORMAT, "models--nvidia--other/refs/main");
    f.hf_model = "../x";
    refuses(&f, ENV(home, hub_variable), GR_ERR_FORMAT, "../x");
    f.hf_model = "nvidia/GR00T-N1.6-3B";
    refuses(&f, ENV("PATH=/bin"), GR_ERR_USAGE, "no Hub cache folder");
}

static void a_fixed_layout_needs_its_one_picture(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    f.engine.embodiment = "nobody";
    refuses(&f, ENV(home), GR_ERR_INPUT, "nobody");
    f = (struct gr_serve_flags){.model = two_camera_snapshot()};
    refuses(&f, ENV(home), GR_ERR_USAGE, "use --layout auto");
    f.layout = "auto";
    accepts(&f, ENV(home));
    assert_int_equal(settings.server.engine.max_text_tokens, 8000);
}

static const char *key_file(const char *text, mode_t mode)
{
    const char *path = gr_test_join(hub, "key");
    gr_test_write(path, text, strlen(text));
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void a_key_is_one_word_from_a_private_file(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    f.api_key_file = key_file("  s3cret-Key!\r\n", 0600);
    accepts(&f, ENV(home));
    assert_string_equal(settings.server.api_key, "s3cret-Key!");
    assert_string_equal(logged, "");
    f.api_key_file = key_file("s3cret", 0644);
    accepts(&f, ENV(home));
    assert_non_null(strstr(logged, "chmod 600"));
    assert_null(strstr(logged, "s3cret"));
    f.api_key_file = key_file(" \n", 0600);
    refuses(&f, ENV(home), GR_ERR_USAGE, "is empty");
    f.api_key_file = key_file("two words", 0600);
    refuses(&f, ENV(home), GR_ERR_USAGE, "more than one word");
    assert_null(strstr(err.msg, "two words"));
    f.api_key_file = "/nowhere/key";
    refuses(&f, ENV(home), GR_ERR_IO, "/nowhere/key");
    f.api_key_file = key_file("k", 0600);
    f.cors_origin = "*";
    refuses(&f, ENV(home), GR_ERR_USAGE, "--cors-origin \"*\"");
    f.cors_origin = "https://page.example";
    accepts(&f, ENV(home));
}

/* Before a port is taken, and with the name of the file. */
static void certificate_and_key_are_tried_before_the_start(void **state)
{
    (void)state;
    static const char key[] = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    static const char cert[] = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    struct gr_serve_flags f = with_model();
    const char *cert_file = gr_test_join(hub, "cert.pem"), *key_file_name = gr_test_join(hub, "key.pem");
    gr_test_write(cert_file, cert, strlen(cert));
    gr_test_write(key_file_name, key, strlen(key));
    f.tls_cert = f.tls_key = cert_file;
    refuses(&f, ENV(home), GR_ERR_USAGE, "cert.pem holds no private key");
    f.tls_cert = f.tls_key = key_file_name;
    refuses(&f, ENV(home), GR_ERR_USAGE, "key.pem holds no certificate");
    f.tls_cert = cert_file;
    refuses(&f, ENV(home), GR_ERR_USAGE, "cert.pem with --tls-key");
    f.tls_key = "/nowhere/key.pem";
    refuses(&f, ENV(home), GR_ERR_IO, "/nowhere/key.pem");
}

static void options_that_contradict_are_refused(void **state)
{
    (void)state;
    struct gr_serve_flags f = with_model();
    f.unix_path = "/tmp/x.sock";
    f.host = "0.0.0.0";
    refuses(&f, ENV(home), GR_ERR_USAGE, "--unix excludes");
    f = with_model();
    f.tls_cert = "/x";
    refuses(&f, ENV(home), GR_ERR_USAGE, "belong together");
    f = with_model();
    f.cors_origin = "page.example";
    refuses(&f, ENV(home), GR_ERR_USAGE, "http://HOST");
}

static void every_variable_has_a_line_of_help(void **state)
{
    (void)state;
    struct gr_buf text = {0};
    gr_variables_help(&text);
    for (int i = 0; i < gr_n_variables; i++) {
        const struct gr_variable *v = &gr_variables[i];
        assert_non_null(strstr(text.data, v->name));
        assert_true(v->meaning[0] != '\0');
        assert_true((v->kind == GR_VARIABLE_CARD) == (v->accepted != NULL));
        assert_true(strncmp(v->name, "GR00T_", 6) != 0 || v->flag != NULL); /* each of ours has an option */
    }
    gr_buf_free(&text);
}

static int clean_up(void **state)
{
    gr_serve_settings_free(&settings);
    return gr_test_temp_clean(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_defaults_are_the_documented_ones),
        cmocka_unit_test(the_seed_s_environment_is_accepted_and_noted_once),
        cmocka_unit_test(what_only_the_card_can_do_is_refused_on_the_cpu),
        cmocka_unit_test(the_seed_s_environment_starts_a_card),
        cmocka_unit_test(the_card_s_settings_reach_the_engine),
        cmocka_unit_test(the_chip_is_found_in_order),
        cmocka_unit_test(what_a_card_cannot_do_is_refused),
        cmocka_unit_test(the_policy_is_found_in_order),
        cmocka_unit_test(the_16_bit_format_and_the_switches_reach_the_engine),
        cmocka_unit_test(values_are_parsed_strictly),
        cmocka_unit_test(an_empty_variable_is_not_set),
        cmocka_unit_test(options_go_before_variables),
        cmocka_unit_test(unknown_variables_of_ours_are_named_with_the_nearest),
        cmocka_unit_test(the_cache_folder_is_found_in_order),
        cmocka_unit_test(weights_are_found_in_order),
        cmocka_unit_test(a_revision_that_is_not_there_is_never_replaced),
        cmocka_unit_test(a_fixed_layout_needs_its_one_picture),
        cmocka_unit_test(a_key_is_one_word_from_a_private_file),
        cmocka_unit_test(certificate_and_key_are_tried_before_the_start),
        cmocka_unit_test(options_that_contradict_are_refused),
        cmocka_unit_test(every_variable_has_a_line_of_help),
    };
    return cmocka_run_group_tests_name("settings_serve", tests, set_up, clean_up);
}
