/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_device.c: the Blackhole device behind the policy, with the CPU interpreter in place of the chip: boot, predict, close, boot again;
 * backends, taps, faults, settings, cache, golden. The same on the simulator: test_bh_device_sim.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "base/fs.h"
#include "demo_snapshot.h"
#include "device/blackhole/blackhole_device.h"
#include "device/blackhole/program.h"
#include "device/blackhole/tensix.h"
#include "gr00t.h"
#include "policy/demo.h"
#include "policy/observation.h"
#include "policy/policy.h"
#include "policy/selfcheck.h"

enum { COLUMNS = 11, ROWS = 10, PREDICTS = 20 };
static const char *other_dir;

/* ---- a chip in this process, which can fail ---- */

static int fail_at; /* this many runs from now; 0: never */
static int machines, starts, stops;
static const struct gr_bh_machine_ops *real;
static struct gr_bh_machine_ops faulty;

static enum gr_status run(struct gr_bh_machine *m, uint32_t n, struct gr_err *err)
{
    if (fail_at > 0 && --fail_at == 0) {
        return gr_fail(err, GR_ERR_DEVICE, "tile 0 (1, 2): no progress for 5000 ms: T1 waits");
    }
    return real->run(m, n, err);
}
static int reads, read_fails_at; /* which read since `reads` was 0; 0: none */
static enum gr_status l1_read(struct gr_bh_machine *m, int tile, uint32_t addr, void *dst, size_t bytes,
                              struct gr_err *err)
{
    if (++reads == read_fails_at) {
        return gr_fail(err, GR_ERR_DEVICE, "(1, 2) answers all ones");
    }
    return real->l1_read(m, tile, addr, dst, bytes, err);
}
static enum gr_status start(struct gr_bh_machine *m, struct gr_err *err)
{
    starts++;
    return real->start(m, err);
}
static enum gr_status stop(struct gr_bh_machine *m, struct gr_err *err)
{
    stops++;
    return real->stop(m, err);
}
static void close_machine(struct gr_bh_machine *m)
{
    machines--;
    real->close(m);
}

static enum gr_status interpreter(void *user, const struct gr_bh_grid *grid, struct gr_bh_machine **out,
                                  struct gr_err *err)
{
    (void)user;
    const enum gr_status status = gr_bh_machine_cpu(grid, GR_BH_FAST, 2, out, err);
    if (status == GR_OK) {
        real = (*out)->ops;
        faulty = *real;
        faulty.run = run;
        faulty.l1_read = l1_read;
        faulty.start = start;
        faulty.stop = stop;
        faulty.close = close_machine;
        (*out)->ops = &faulty;
        machines++;
    }
    return status;
}
static const struct gr_blackhole_stand_in chip = {.columns = COLUMNS, .rows = ROWS, .machine = interpreter};

static int set_up(void **state)
{
    struct gr_err err;
    gr_blackhole_use(&chip);
    other_dir = gr_test_temp_dir();
    const bool ok = make_demo(state) == 0 &&
                    gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 7, other_dir, 1, NULL, NULL, &err) == GR_OK;
    return ok ? 0 : -1;
}
static int clean_up(void **state)
{
    gr_blackhole_use(NULL);
    return gr_test_temp_clean(state);
}

/* ---- one policy with its observation ---- */

struct boot {
    struct gr_policy *policy;
    struct gr_chunk *chunk;
    struct gr_sample sample;
    size_t n;
};
static const struct gr_options plain = {.device = "blackhole", .threads = 2};

static void boot(struct boot *b, const char *dir, const struct gr_options *o)
{
    struct gr_err err;
    memset(b, 0, sizeof *b);
    gr_test_ok(gr_policy_open(dir, o, &b->policy, &err), &err);
    gr_test_ok(gr_chunk_new(b->policy, &b->chunk, &err), &err);
    gr_test_ok(gr_sample_make(gr_policy_config(b->policy), 1, &b->sample, &err), &err);
    b->n = (size_t)b->chunk->horizon * (size_t)b->chunk->max_action_dim;
}
static void end(struct boot *b)
{
    gr_chunk_free(b->chunk);
    gr_sample_free(&b->sample);
    gr_policy_close(b->policy);
}
static float *predict(struct boot *b)
{
    struct gr_err err;
    float *copy = malloc(b->n * sizeof *copy);
    gr_test_ok(gr_policy_predict(b->policy, &b->sample.obs, b->chunk, &err), &err);
    memcpy(copy, b->chunk->normalized, b->n * sizeof *copy);
    return copy;
}

/* ---- tests ---- */

static void boots_predicts_20_times_and_boots_again(void **state)
{
    (void)state;
    float *first = NULL;
    for (int round = 0; round < 2; round++) {
        struct boot b;
        starts = stops = 0;
        boot(&b, demo_dir, &plain);
        assert_int_equal(starts, 1);
        for (int i = 0; i < (round == 0 ? PREDICTS : 1); i++) {
            float *got = predict(&b);
            if (first == NULL) {
                first = got;
                continue;
            }
            assert_memory_equal(got, first, b.n * sizeof *got);
            free(got);
        }
        assert_true(b.chunk->timing.device > 0 && b.chunk->timing.total >= b.chunk->timing.device);
        end(&b);
        assert_int_equal(starts, 1); /* one resident program for all of them */
        assert_int_equal(machines, 0);
    }
    free(first);
}

static void says_what_runs_where(void **state)
{
    (void)state;
    struct boot b;
    boot(&b, demo_dir, &plain);
    const struct gr_info *info = gr_policy_info(b.policy);
    const struct gr_card_info *c = info->card;
    assert_string_equal(info->device, "blackhole");
    assert_string_equal(info->isa, "tensix");
    assert_string_equal(info->precision, "bfp8_b");
    assert_string_equal(info->precision_asked, "auto");
    assert_int_equal(info->max_text_tokens, 24);
    assert_true(info->weight_bytes > 0 && info->n_tensors > 0);
    assert_int_equal(info->cache, GR_CACHE_OFF);
    assert_null(gr_policy_plan(b.policy));
    assert_string_equal(c->dit_backend, "megakernel");
    assert_string_equal(c->arena, "bfp8_b");
    assert_int_equal(c->command_queues, 2);
    assert_true(c->uploads_overlap);
    assert_int_equal(c->tiles, COLUMNS * ROWS);
    assert_true(c->tiles_used >= 1 && c->tiles_used <= c->tiles && c->operations > 0);
    assert_true(c->l1_used > 0 && c->l1_used <= c->l1_bytes + GR_BH_PROGRAM);
    end(&b);
}

/* What is taken for a tap, and how often. */
struct seen {
    int taps, named, rows;
};
static void count_tap(void *user, const char *name, const float *data, int rows, int cols, int ld)
{
    struct seen *s = user;
    assert_true(rows > 0 && cols > 0 && ld >= cols && isfinite(data[0]));
    s->taps++;
    s->named += strcmp(name, "velocity.step3") == 0 || strcmp(name, "action_pred") == 0;
    if (strcmp(name, "vlln.out") == 0) {
        s->rows = rows;
    }
}

static void megakernel_ops_and_taps_have_the_same_bits(void **state)
{
    (void)state;
    struct gr_options o = plain;
    struct gr_tap_sink sink = {.put = count_tap};
    struct gr_err err;
    float *want = NULL;
    for (int i = 0; i < 3; i++) {
        struct boot b;
        struct seen seen = {0};
        o.dit_backend = i == 0 ? "megakernel" : i == 1 ? "ops" : "ttnn";
        o.command_queues = i == 0 ? 2 : 1;
        boot(&b, demo_dir, &o);
        assert_string_equal(gr_policy_info(b.policy)->card->dit_backend, i == 0 ? "megakernel" : "ops");
        assert_int_equal(gr_policy_info(b.policy)->card->command_queues, i == 0 ? 2 : 1);
        float *got = predict(&b);
        want = want == NULL ? got : want;
        assert_memory_equal(got, want, b.n * sizeof *got);
        sink.user = &seen;
        gr_test_ok(gr_policy_predict_taps(b.policy, &b.sample.obs, b.chunk, &sink, &err), &err);
        assert_memory_equal(b.chunk->normalized, want, b.n * sizeof *want);
        assert_true(seen.taps > 30);
        assert_int_equal(seen.named, 2);
        assert_int_equal(seen.rows, b.chunk->n_tokens); /* not the program's length */
        if (got != want) {
            free(got);
        }
        end(&b);
    }
    free(want);
}

static void both_weight_formats_are_near_the_exact_chunk(void **state)
{
    (void)state;
    static const char *const formats[] = {"bf16", "bfp8_b", "auto"};
    struct gr_err err;
    struct gr_options exact = {.precision = "exact", .threads = 2, .max_text_tokens = 24};
    struct boot cpu;
    boot(&cpu, demo_dir, &exact);
    gr_test_ok(gr_policy_predict(cpu.policy, &cpu.sample.obs, cpu.chunk, &err), &err);
    for (int i = 0; i < 3; i++) {
        struct gr_options o = plain;
        struct boot b;
        o.arena = formats[i];
        boot(&b, demo_dir, &o);
        assert_string_equal(gr_policy_info(b.policy)->precision, i == 0 ? "bf16" : "bfp8_b");
        free(predict(&b));
        const int steps = b.chunk->steps, dim = b.chunk->dim;
        const int width = b.chunk->max_action_dim;
        const struct gr_diff d = gr_compare(b.chunk->actions, dim, cpu.chunk->actions, dim, steps, dim);
        const struct gr_diff slice = gr_compare(b.chunk->normalized, width, cpu.chunk->normalized, width, steps, dim);
        printf("# %s: actions PCC %.6f, max|d| %.2e; normalised PCC %.6f\n", formats[i], d.pcc, d.max_abs, slice.pcc);
        assert_true(d.pcc >= 0.9998 && slice.pcc >= 0.9995); /* `check` and the self-check want 0.999 */
        end(&b);
    }
    end(&cpu);
}

/* ---- snapshots of other shapes and contents ---- */

static void every_cross_block_may_look_at_the_text(void **state)
{
    (void)state;
    static const char name[] = "\"attend_text_every_n_blocks\": ";
    struct gr_err err;
    struct boot cpu, b;
    struct gr_options exact = {.precision = "exact", .threads = 2, .max_text_tokens = 24}, o = plain;
    const char *dir = demo_copy();
    char path[600];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/config.json", dir);
    char *text = (char *)gr_test_read(path, &n), *at = memmem(text, n, name, sizeof name - 1);
    assert_non_null(at);
    at[sizeof name - 1] = '1'; /* instead of 2: no block has the mask of the image */
    gr_test_write(path, text, n);
    free(text);
    o.arena = "bf16";
    boot(&cpu, dir, &exact);
    gr_test_ok(gr_policy_predict(cpu.policy, &cpu.sample.obs, cpu.chunk, &err), &err);
    boot(&b, dir, &o);
    free(predict(&b));
    const int width = b.chunk->max_action_dim, steps = b.chunk->steps, dim = b.chunk->dim;
    const struct gr_diff d = gr_compare(b.chunk->normalized, width, cpu.chunk->normalized, width, steps, dim);
    printf("# normalised PCC %.6f\n", d.pcc);
    assert_true(d.pcc >= 0.9995);
    end(&b);
    end(&cpu);
}

/* Token rows come from the snapshot's file in every request, so that a bad one is met only by who says the word. */
static void a_token_whose_row_is_no_number_is_refused(void **state)
{
    (void)state;
    struct gr_err err;
    struct boot b;
    const char *dir = demo_copy();
    spoil_tensor(dir, "embed_tokens.weight", 0x7fc0); /* NaN; rows are longer than 64 bytes */
    boot(&b, dir, &plain);
    gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_FORMAT,
                  "embed_tokens.weight: element");
    end(&b);
}

/* Where a CPU computes NaN the tiles go on with numbers: a chunk that looks right must not come of it. */
static void a_network_that_overflows_gives_no_chunk(void **state)
{
    (void)state;
    static const char *const gated[] = {"layers.1.post_attention_layernorm.weight", "layers.1.mlp.gate_proj.weight",
                                        "layers.1.mlp.up_proj.weight", "layers.1.mlp.down_proj.weight"};
    struct gr_err err;
    struct boot b;
    const char *dir = demo_copy();
    for (int k = 0; k < 4; k++) {
        spoil_tensor(dir, gated[k], 0x477f); /* 65280: in the range, and then 2^84 */
    }
    boot(&b, dir, &plain);
    for (int again = 0; again < 2; again++) { /* the card is not at fault: the next request is computed */
        gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_DEVICE, "overflowed");
    }
    end(&b);
}

static void weights_beyond_the_range_are_refused(void **state)
{
    (void)state;
    static const char *const tensor[] = {"vision_model.encoder.layers.0.mlp.fc1.weight",
                                         "layers.1.mlp.up_proj.weight",
                                         "model.norm.weight",
                                         "position_embedding.weight",
                                         "transformer_blocks.1.norm1.linear.weight",
                                         "transformer_blocks.1.ff.net.2.weight"};
    for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++) {
        struct gr_err err;
        struct gr_policy *p = NULL;
        const char *dir = demo_copy();
        spoil_tensor(dir, tensor[i], 0x4790); /* 73728 */
        gr_test_fails(gr_policy_open(dir, &plain, &p, &err), &err, GR_ERR_FORMAT, tensor[i]);
        assert_non_null(strstr(err.msg, "65536"));
    }
}

static void a_fault_is_final_and_never_computed_elsewhere(void **state)
{
    (void)state;
    struct gr_err err;
    struct boot b;
    boot(&b, demo_dir, &plain);
    float *good = predict(&b);
    fail_at = 1;
    stops = 0;
    gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_DEVICE, "no progress");
    assert_int_equal(stops, 1); /* the tiles are in reset */
    for (int i = 0; i < 2; i++) {
        gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_DEVICE, "has stopped");
        assert_non_null(strstr(err.msg, "no progress"));
    }
    end(&b);
    assert_int_equal(machines, 0);
    boot(&b, demo_dir, &plain); /* the chip itself is usable */
    float *again = predict(&b);
    assert_memory_equal(again, good, b.n * sizeof *good);
    free(again);
    free(good);
    end(&b);
}

/* Every read of a predict, that of the watch over its numbers too. */
static void a_read_that_fails_is_a_fault(void **state)
{
    (void)state;
    struct gr_err err;
    struct boot b;
    boot(&b, demo_dir, &plain);
    reads = 0;
    free(predict(&b));
    const int n = reads;
    end(&b);
    for (int k = 1; k <= n; k += n - 1) { /* the first and the last */
        boot(&b, demo_dir, &plain);
        reads = 0;
        read_fails_at = k;
        gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_DEVICE, "all ones");
        read_fails_at = 0;
        gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_DEVICE, "has stopped");
        end(&b);
    }
}

static void a_fault_of_the_warm_up_is_the_device_s(void **state)
{
    (void)state;
    struct gr_err err;
    struct boot b;
    struct gr_demo demo;
    struct gr_selfcheck check;
    const struct gr_selfcheck_config cfg = {.runs = 1, .pcc_min = 0.999};
    boot(&b, demo_dir, &plain);
    gr_test_ok(gr_demo_make(b.policy, &demo, &err), &err);
    fail_at = 1;
    gr_test_fails(gr_selfcheck_run(b.policy, &demo, &cfg, &check, &err), &err, GR_ERR_DEVICE, "no progress");
    gr_selfcheck_free(&check);
    gr_demo_free(&demo);
    end(&b);
}

static void cancelled_requests_are_not_begun(void **state)
{
    (void)state;
    struct gr_err err;
    struct boot b;
    boot(&b, demo_dir, &plain);
    gr_policy_set_cancel(b.policy, true);
    gr_test_fails(gr_policy_predict(b.policy, &b.sample.obs, b.chunk, &err), &err, GR_ERR_BUSY, "cancelled");
    gr_policy_set_cancel(b.policy, false);
    free(predict(&b));
    end(&b);
}

static void wrong_settings_are_refused_by_name(void **state)
{
    (void)state;
    struct gr_policy *p = NULL;
    struct gr_err err;
    static const struct {
        struct gr_options o;
        const char *text;
    } cases[] = {{{.precision = "exact"}, "policy \"exact\" is for the CPU"},
                 {{.half = "f16"}, "\"f16\" is for the CPU"},
                 {{.arena = "fp4"}, "\"fp4\""},
                 {{.dit_backend = "metal"}, "\"metal\""},
                 {{.command_queues = 3}, "3 command queues"},
                 {{.card = -1}, "card -1"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_options o = cases[i].o;
        o.device = "blackhole";
        gr_test_fails(gr_policy_open(demo_dir, &o, &p, &err), &err, GR_ERR_USAGE, cases[i].text);
    }
    assert_int_equal(machines, 0);
}

static void chips_that_are_not_there_are_named(void **state)
{
    (void)state;
    struct gr_policy *p = NULL;
    struct gr_err err;
    struct gr_options o = plain;
    gr_blackhole_use(NULL);
    o.card = 4321;
    const char *text = gr_tensix_built() ? "/dev/tenstorrent/4321" : "riscv64-unknown-elf-gcc";
    gr_test_fails(gr_policy_open(demo_dir, &o, &p, &err), &err, GR_ERR_DEVICE, text);
    o.simulator = "/nowhere/libttsim.so";
    gr_test_fails(gr_policy_open(demo_dir, &o, &p, &err), &err, GR_ERR_DEVICE,
                  gr_tensix_built() ? "/nowhere/libttsim.so" : text);
    assert_null(p);
    gr_blackhole_use(&chip);
}

static void a_network_for_a_larger_chip_is_refused(void **state)
{
    (void)state;
    struct gr_policy *p = NULL;
    struct gr_err err;
    const struct gr_blackhole_stand_in small = {.columns = 1, .rows = 1, .machine = interpreter};
    gr_blackhole_use(&small);
    assert_int_equal(gr_policy_open(demo_dir, &plain, &p, &err), GR_ERR_DEVICE);
    assert_true(err.msg[0] != '\0');
    assert_null(p);
    gr_blackhole_use(&chip);
}

/* The first start packs, the second reads, and what belongs to other weights or is damaged is made anew. */
static void weights_are_kept_in_the_cache(void **state)
{
    (void)state;
    struct gr_options o = plain;
    struct boot b;
    char *cache = strdup(gr_test_temp_dir()), *file;
    o.cache_dir = cache;
    boot(&b, demo_dir, &o);
    assert_int_equal(gr_policy_info(b.policy)->cache, GR_CACHE_WRITTEN);
    file = strdup(gr_policy_info(b.policy)->cache_file);
    float *want = predict(&b);
    end(&b);
    char *report = (char *)gr_test_read(
        gr_test_join(cache, "%.*s.errors.tsv", (int)strcspn(strrchr(file, '/') + 1, "."), strrchr(file, '/') + 1),
        NULL);
    assert_non_null(strstr(report, "\t")); /* matrix, error */
    assert_true(strtod(strchr(report, '\t'), NULL) > 1e-3 && strtod(strchr(report, '\t'), NULL) < 0.1);
    free(report);
    boot(&b, demo_dir, &o);
    assert_int_equal(gr_policy_info(b.policy)->cache, GR_CACHE_WARM);
    float *got = predict(&b);
    assert_memory_equal(got, want, b.n * sizeof *got);
    free(got);
    end(&b);
    boot(&b, other_dir, &o); /* its own file */
    assert_int_equal(gr_policy_info(b.policy)->cache, GR_CACHE_WRITTEN);
    char *foreign = strdup(gr_policy_info(b.policy)->cache_file);
    assert_string_not_equal(foreign, file);
    end(&b);
    size_t n;
    uint8_t *bytes = gr_test_read(foreign, &n);
    gr_test_write(file, bytes, n);
    free(bytes);
    boot(&b, demo_dir, &o);
    assert_int_equal(gr_policy_info(b.policy)->cache, GR_CACHE_WRITTEN);
    assert_non_null(gr_policy_info(b.policy)->cache_note);
    got = predict(&b);
    assert_memory_equal(got, want, b.n * sizeof *got);
    free(got);
    end(&b);
    free(want);
    free(file);
    free(foreign);
    free(cache);
}

static void note_golden(void *user, const char *text)
{
    assert_non_null(strstr(text, "exact arithmetic on the CPU"));
    ++*(int *)user;
}

/* The demo's golden is part of the program; for other weights the exact network computes one on the CPU, once. */
static void the_start_compares_with_an_exact_golden(void **state)
{
    (void)state;
    struct gr_options o = plain;
    char *cache = strdup(gr_test_temp_dir());
    o.cache_dir = cache;
    for (int i = 0; i < 3; i++) {
        struct gr_err err;
        struct boot b;
        struct gr_demo demo;
        struct gr_selfcheck check;
        int computed = 0;
        boot(&b, i == 0 ? demo_dir : other_dir, &o);
        const struct gr_selfcheck_config cfg = {
            .runs = 2, .pcc_min = 0.999, .cache_dir = cache, .on_golden = note_golden, .user = &computed};
        gr_test_ok(gr_demo_make(b.policy, &demo, &err), &err);
        gr_test_ok(gr_selfcheck_run(b.policy, &demo, &cfg, &check, &err), &err);
        assert_int_equal(check.source, i == 0 ? GR_GOLDEN_SHIPPED : i == 1 ? GR_GOLDEN_COMPUTED : GR_GOLDEN_CACHED);
        assert_int_equal(computed, i == 1);
        assert_true(check.pcc >= 0.999 && check.max_abs > 0); /* exact and bfp8_b do differ */
        gr_selfcheck_free(&check);
        gr_demo_free(&demo);
        end(&b);
    }
    free(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boots_predicts_20_times_and_boots_again),
        cmocka_unit_test(says_what_runs_where),
        cmocka_unit_test(megakernel_ops_and_taps_have_the_same_bits),
        cmocka_unit_test(both_weight_formats_are_near_the_exact_chunk),
        cmocka_unit_test(every_cross_block_may_look_at_the_text),
        cmocka_unit_test(a_token_whose_row_is_no_number_is_refused),
        cmocka_unit_test(a_network_that_overflows_gives_no_chunk),
        cmocka_unit_test(weights_beyond_the_range_are_refused),
        cmocka_unit_test(a_fault_is_final_and_never_computed_elsewhere),
        cmocka_unit_test(a_read_that_fails_is_a_fault),
        cmocka_unit_test(a_fault_of_the_warm_up_is_the_device_s),
        cmocka_unit_test(cancelled_requests_are_not_begun),
        cmocka_unit_test(wrong_settings_are_refused_by_name),
        cmocka_unit_test(chips_that_are_not_there_are_named),
        cmocka_unit_test(a_network_for_a_larger_chip_is_refused),
        cmocka_unit_test(weights_are_kept_in_the_cache),
        cmocka_unit_test(the_start_compares_with_an_exact_golden),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
