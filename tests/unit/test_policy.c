/* SPDX-License-Identifier: Apache-2.0
 *
 * test_policy.c: a predict from end to end on the demo snapshot: determinism, no allocation, wrong observations, several cameras,
 * other storage formats. Values against the reference are the golden tests' job. */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu.h"
#include "gr_test.h"
#include "gr00t.h"
#include "model/snapshot.h"
#include "model/synth.h"
#include "policy/policy.h"

/* ---- memory that is refused while a predict runs: the heap, and mmap behind gr_big_alloc ---- */

#define OWN_MALLOC (!GR_TEST_FOREIGN_MALLOC)

#if OWN_MALLOC
static _Atomic bool forbid_malloc;
static _Atomic int forbidden_calls;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t a, size_t b);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);

static bool refuse(void)
{
    if (atomic_load(&forbid_malloc)) {
        atomic_fetch_add(&forbidden_calls, 1);
        return true;
    }
    return false;
}
void *malloc(size_t n) { return refuse() ? NULL : __libc_malloc(n); }
void *calloc(size_t a, size_t b) { return refuse() ? NULL : __libc_calloc(a, b); }
void *realloc(void *p, size_t n) { return refuse() ? NULL : __libc_realloc(p, n); }
void *aligned_alloc(size_t alignment, size_t n) { return refuse() ? NULL : __libc_memalign(alignment, n); }
void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if (refuse()) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}
#endif

/* ---- one snapshot for all tests, one observation ---- */

static const char *demo_dir;
static uint8_t picture[2][128 * 96 * 3];
static double state_values[64];

static int make_demo(void **state)
{
    (void)state;
    struct gr_err err;
    demo_dir = strdup(gr_test_temp_dir());
    for (int p = 0; p < 2; p++) {
        uint32_t x = 12345u + (uint32_t)p;
        for (size_t i = 0; i < sizeof picture[p]; i++) {
            x = x * 1664525u + 1013904223u;
            picture[p][i] = (uint8_t)(x >> 24);
        }
    }
    for (int i = 0; i < 64; i++) {
        state_values[i] = 0.1 * sin(i);
    }
    return gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, demo_dir, 1, NULL, NULL, &err) == GR_OK ? 0 : -1;
}

static int clean_up(void **state)
{
    free((char *)demo_dir);
    return gr_test_temp_clean(state);
}

static struct gr_frame frame_of(int which)
{
    return (struct gr_frame){.rgb = picture[which], .height = 96, .width = 128};
}

static struct gr_observation observation(const struct gr_frame *frames, int n)
{
    return (struct gr_observation){.frames = frames,
                                   .n_frames = n,
                                   .state = state_values,
                                   .state_dim = 29,
                                   .instruction = "pick the pear from the counter and place it in the plate",
                                   .noise_kind = GR_NOISE_SEED,
                                   .seed = GR_DEFAULT_SEED};
}

static struct gr_policy *open_policy(const char *dir, const char *cpu, int threads)
{
    struct gr_err err;
    struct gr_policy *p = NULL;
    struct gr_options o = {.precision = "exact", .cpu = cpu, .threads = threads};
    gr_test_ok(gr_policy_open(dir, &o, &p, &err), &err);
    return p;
}

static struct gr_chunk *predict(struct gr_policy *p, const struct gr_observation *obs)
{
    struct gr_err err;
    struct gr_chunk *c = NULL;
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_policy_predict(p, obs, c, &err), &err);
    return c;
}

static void assert_same_chunk(const struct gr_chunk *a, const struct gr_chunk *b)
{
    assert_memory_equal(a->actions, b->actions, (size_t)a->steps * (size_t)a->dim * sizeof(float));
    assert_memory_equal(a->normalized, b->normalized, (size_t)a->horizon * (size_t)a->max_action_dim * sizeof(float));
}

static bool has_set(const char *cpu)
{
    unsigned flags = gr_cpu_detect();
    struct gr_err err;
    return gr_cpu_mask(cpu, &flags, &err) == GR_OK;
}

/* ---- tests ---- */

static void same_observation_gives_same_bits_whatever_came_before(void **state)
{
    (void)state;
    struct gr_policy *p = open_policy(demo_dir, NULL, 2);
    struct gr_frame a = frame_of(0), b = frame_of(1);
    struct gr_observation one = observation(&a, 1), other = observation(&b, 1);
    other.instruction = "wave";
    other.seed = 7;
    struct gr_chunk *first = predict(p, &one), *between = predict(p, &other), *again = predict(p, &one);
    assert_same_chunk(first, again);
    assert_memory_not_equal(first->actions, between->actions,
                            (size_t)first->steps * (size_t)first->dim * sizeof(float));
    gr_chunk_free(first);
    gr_chunk_free(between);
    gr_chunk_free(again);
    gr_policy_close(p);
}

static void threads_do_not_change_a_bit_in_any_set(void **state)
{
    (void)state;
    static const char *const sets[] = {"scalar", "avx2", "avx512"};
    static const int threads[] = {1, 2, 3, 7};
    struct gr_frame f = frame_of(0);
    struct gr_observation obs = observation(&f, 1);
    for (int s = 0; s < 3; s++) {
        if (!has_set(sets[s])) {
            print_message("skipped: this CPU has no %s\n", sets[s]);
            continue;
        }
        struct gr_chunk *first = NULL;
        for (int t = 0; t < 4; t++) {
            struct gr_policy *p = open_policy(demo_dir, sets[s], threads[t]);
            assert_string_equal(gr_policy_info(p)->isa, sets[s]);
            struct gr_chunk *c = predict(p, &obs);
            gr_policy_close(p);
            if (first == NULL) {
                first = c;
            } else {
                assert_same_chunk(first, c);
                gr_chunk_free(c);
            }
        }
        gr_chunk_free(first);
    }
}

static void predict_allocates_nothing(void **state)
{
    (void)state;
#if OWN_MALLOC
    struct gr_policy *p = open_policy(demo_dir, NULL, 2);
    struct gr_frame f = frame_of(0);
    struct gr_observation obs = observation(&f, 1);
    struct gr_chunk *c = predict(p, &obs);
    struct gr_err err;
    obs.instruction = "move every single cup and every bowl from the kitchen counter to the lower shelf of the cabinet";
    atomic_store(&forbid_malloc, true);
    enum gr_status status = gr_policy_predict(p, &obs, c, &err);
    atomic_store(&forbid_malloc, false);
    assert_int_equal(atomic_load(&forbidden_calls), 0);
    gr_test_ok(status, &err);
    gr_chunk_free(c);
    gr_policy_close(p);
#else
    gr_test_skip("the sanitizer owns malloc in this build");
#endif
}

static void wrong_observations_are_refused_and_lose_nothing(void **state)
{
    (void)state;
    struct gr_policy *p = open_policy(demo_dir, NULL, 1);
    struct gr_frame f = frame_of(0), tiny = {.rgb = picture[0], .height = 63, .width = 64}, two[2] = {f, f};
    struct gr_observation good = observation(&f, 1), bad;
    struct gr_chunk *first = predict(p, &good), *c = predict(p, &good);
    struct gr_err err;
    double state_copy[29];
    memcpy(state_copy, state_values, sizeof state_copy);
    float *noise = calloc(50 * 128, sizeof *noise);
    char *long_text = malloc(2002);
    memset(long_text, 'a', 2001);
    long_text[2001] = '\0';

    bad = observation(two, 2);
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "2 frames");
    bad = observation(&tiny, 1);
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "63");
    bad = good;
    bad.state_dim = 28;
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "28");
    bad = good;
    bad.state = state_copy;
    state_copy[8] = NAN;
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "right_arm");
    state_copy[8] = 1e300; /* finite in float64, infinite in float32 */
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "right_arm");
    static const char *const texts[][2] = {{"", "empty"}, {"  \t\n", "empty"}, {"?!...", "empty"}, {"a\xff", "UTF-8"}};
    for (int i = 0; i < 4; i++) {
        bad = good;
        bad.instruction = texts[i][0];
        gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, texts[i][1]);
    }
    bad.instruction = long_text;
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "2000");
    bad = good;
    bad.seed = UINT64_MAX;
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "seed");
    bad = good;
    bad.noise_kind = GR_NOISE_GIVEN;
    bad.noise = noise;
    noise[129] = INFINITY;
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_INPUT, "noise[1][1]");

    struct gr_chunk *after = predict(p, &good);
    assert_same_chunk(first, after);
    free(noise);
    free(long_text);
    gr_chunk_free(first);
    gr_chunk_free(c);
    gr_chunk_free(after);
    gr_policy_close(p);
}

static void an_observation_without_one_of_its_parts_is_refused(void **state)
{
    (void)state;
    struct gr_policy *p = open_policy(demo_dir, NULL, 1);
    struct gr_frame f = frame_of(0), empty = {.height = 96, .width = 128};
    struct gr_observation good = observation(&f, 1);
    struct gr_chunk *c = predict(p, &good);
    struct gr_observation bad[5] = {observation(&empty, 1), observation(NULL, 1), good, good, good};
    static const char *const texts[5] = {"no pixels", "no frames", "no instruction", "no state", "no noise"};
    struct gr_err err;
    bad[2].instruction = NULL;
    bad[3].state = NULL;
    bad[4].noise_kind = GR_NOISE_GIVEN;
    for (int i = 0; i < 5; i++) {
        gr_test_fails(gr_policy_predict(p, &bad[i], c, &err), &err, GR_ERR_INPUT, texts[i]);
    }
    gr_chunk_free(c);
    gr_policy_close(p);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    struct gr_policy *p = open_policy(demo_dir, NULL, 1), *none = NULL;
    struct gr_frame f = frame_of(0);
    struct gr_observation good = observation(&f, 1), bad = good;
    struct gr_chunk *c = predict(p, &good), *no_chunk = NULL, foreign = *c;
    struct gr_err err;
    gr_test_fails(gr_policy_open(NULL, NULL, &none, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_open(demo_dir, NULL, NULL, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_predict(NULL, &good, c, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_predict(p, NULL, c, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_policy_predict(p, &good, NULL, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_chunk_new(NULL, &no_chunk, &err), &err, GR_ERR_USAGE, "NULL");
    gr_test_fails(gr_image_decode(NULL, 5, &(struct gr_image){0}, &err), &err, GR_ERR_USAGE, "NULL");
    foreign.steps++; /* as from a policy of another embodiment: its memory would be too small or too large */
    gr_test_fails(gr_policy_predict(p, &good, &foreign, &err), &err, GR_ERR_USAGE, "gr_chunk_new");
    memset(&bad.noise_kind, 9, sizeof bad.noise_kind);
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_USAGE, "noise_kind");
    bad = good;
    memset(&bad.state_dtype, 9, sizeof bad.state_dtype);
    gr_test_fails(gr_policy_predict(p, &bad, c, &err), &err, GR_ERR_USAGE, "state_dtype");
    assert_null(none);
    assert_null(no_chunk);
    gr_chunk_free(c);
    gr_policy_close(p);
}

static void wrong_options_are_refused_by_name(void **state)
{
    (void)state;
    struct gr_policy *p = NULL;
    struct gr_err err;
    static const struct {
        struct gr_options o;
        enum gr_status code;
        const char *text;
    } cases[] = {{{.device = "gpu"}, GR_ERR_USAGE, "gpu"},
                 {{.precision = "half"}, GR_ERR_USAGE, "half"},
                 {{.cpu = "mmx"}, GR_ERR_USAGE, "mmx"},
                 {{.threads = -1}, GR_ERR_USAGE, "threads"},
                 {{.embodiment = "r2d2"}, GR_ERR_INPUT, "gr1"},
                 {{.tokenizer_dir = "/nowhere"}, GR_ERR_FORMAT, "/nowhere"},
                 {{.max_text_tokens = 60000}, GR_ERR_USAGE, "40960"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum gr_status status = gr_policy_open(demo_dir, &cases[i].o, &p, &err);
        gr_test_fails(status, &err, cases[i].code, cases[i].text);
        assert_null(p);
    }
}

/* ---- taps ---- */

struct kept {
    const char *name;
    float *data;
    int rows, cols;
};

static void keep_tap(void *user, const char *name, const float *data, int rows, int cols, int ld)
{
    struct kept *k = user;
    if (strcmp(name, k->name) != 0) {
        return;
    }
    free(k->data);
    k->rows = rows;
    k->cols = cols;
    k->data = malloc((size_t)rows * (size_t)cols * sizeof(float));
    for (int r = 0; r < rows; r++) {
        memcpy(k->data + (size_t)r * (size_t)cols, data + (size_t)r * (size_t)ld, (size_t)cols * sizeof(float));
    }
}

static struct kept tap_of(struct gr_policy *p, const struct gr_observation *obs, const char *name)
{
    struct kept k = {.name = name};
    struct gr_tap_sink sink = {.put = keep_tap, .user = &k};
    struct gr_chunk *c = NULL;
    struct gr_err err;
    gr_test_ok(gr_chunk_new(p, &c, &err), &err);
    gr_test_ok(gr_policy_predict_taps(p, obs, c, &sink, &err), &err);
    gr_chunk_free(c);
    assert_non_null(k.data);
    return k;
}

static void text_before_the_image_does_not_see_it(void **state)
{
    (void)state;
    struct gr_policy *p = open_policy(demo_dir, NULL, 2);
    struct gr_frame a = frame_of(0), b = frame_of(1);
    struct gr_observation one = observation(&a, 1), two = observation(&b, 1);
    struct kept x = tap_of(p, &one, "llm.out"), y = tap_of(p, &two, "llm.out");
    const int before = x.rows - gr_policy_dims(p)->vit.tokens - 3; /* </img> <|im_end|> \n follow the image */
    assert_memory_equal(x.data, y.data, (size_t)before * (size_t)x.cols * sizeof(float));
    assert_memory_not_equal(x.data, y.data, (size_t)x.rows * (size_t)x.cols * sizeof(float));
    free(x.data);
    free(y.data);
    gr_policy_close(p);
}

static void replace_in_file(const char *path, const char *from, const char *to)
{
    size_t n;
    char *text = (char *)gr_test_read(path, &n), *at = strstr(text, from);
    assert_non_null(at);
    char *out = malloc(n + strlen(to) + 1);
    size_t head = (size_t)(at - text);
    memcpy(out, text, head);
    strcpy(out + head, to);
    strcat(out, at + strlen(from));
    gr_test_write(path, out, strlen(out));
    free(text);
    free(out);
}

static void several_cameras_see_their_own_image_only(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    gr_test_copy_dir(demo_dir, dir);
    replace_in_file(gr_test_join(dir, "processor_config.json"), "\"ego_view_bg_crop_pad_res256_freq20\"",
                    "\"ego_view_bg_crop_pad_res256_freq20\", \"wrist\"");
    struct gr_policy *single = open_policy(demo_dir, NULL, 2), *both = open_policy(dir, NULL, 2);
    assert_int_equal(gr_policy_info(both)->n_cameras, 2);
    struct gr_frame frames[2] = {frame_of(0), frame_of(1)}, swapped[2] = {frame_of(1), frame_of(0)};
    struct gr_observation one = observation(frames, 1), other = observation(frames + 1, 1),
                          two = observation(frames, 2);
    struct kept a = tap_of(single, &one, "mlp1.out"), b = tap_of(single, &other, "mlp1.out"),
                ab = tap_of(both, &two, "mlp1.out");
    assert_int_equal(ab.rows, 2 * a.rows);
    const size_t n = (size_t)a.rows * (size_t)a.cols;
    assert_memory_equal(ab.data, a.data, n * sizeof(float));
    assert_memory_equal(ab.data + n, b.data, n * sizeof(float));
    struct gr_observation reversed = observation(swapped, 2);
    struct gr_chunk *c = predict(both, &two), *d = predict(both, &reversed);
    assert_memory_not_equal(c->actions, d->actions, (size_t)c->steps * (size_t)c->dim * sizeof(float));
    gr_chunk_free(c);
    gr_chunk_free(d);
    free(a.data);
    free(b.data);
    free(ab.data);
    gr_policy_close(single);
    gr_policy_close(both);
}

/* ---- storage ---- */

/* Rewrites a snapshot's shards as one F32 file. */
static void merge_as_f32(const char *dir)
{
    struct gr_err err;
    struct gr_snapshot *snap = NULL;
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    size_t n = gr_snapshot_count(snap), header_bytes = 0, total = 0;
    struct gr_tensor *t = calloc(n, sizeof *t);
    for (size_t i = 0; i < n; i++) {
        t[i] = *gr_snapshot_at(snap, i);
        t[i].dtype = GR_F32;
        t[i].bytes *= 2;
        total += t[i].bytes;
    }
    uint8_t *header = NULL;
    gr_test_ok(gr_safetensors_header(t, n, &header, &header_bytes, &err), &err);
    uint8_t *file = malloc(header_bytes + total);
    memcpy(file, header, header_bytes);
    size_t at = header_bytes;
    for (size_t i = 0; i < n; i++) {
        float *values = malloc(t[i].bytes);
        gr_tensor_to_f32(gr_snapshot_at(snap, i), 0, t[i].bytes / 4, values);
        memcpy(file + at, values, t[i].bytes);
        free(values);
        at += t[i].bytes;
    }
    char index[4096];
    snprintf(index, sizeof index, "%s", gr_test_join(dir, "model.safetensors.index.json"));
    int shards = gr_snapshot_shards(snap);
    gr_snapshot_close(snap);
    for (int i = 1; i <= shards; i++) {
        assert_int_equal(remove(gr_test_join(dir, "model-%05d-of-%05d.safetensors", i, shards)), 0);
    }
    assert_int_equal(remove(index), 0);
    gr_test_write(gr_test_join(dir, "model.safetensors"), file, at);
    free(file);
    free(header);
    free(t);
}

static void one_f32_file_gives_the_same_bits_as_bf16_shards(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    gr_test_copy_dir(demo_dir, dir);
    merge_as_f32(dir);
    struct gr_policy *bf16 = open_policy(demo_dir, NULL, 2), *f32 = open_policy(dir, NULL, 2);
    assert_true(gr_policy_info(f32)->weight_bytes == 2 * gr_policy_info(bf16)->weight_bytes);
    struct gr_frame f = frame_of(0);
    struct gr_observation obs = observation(&f, 1);
    struct gr_chunk *a = predict(bf16, &obs), *b = predict(f32, &obs);
    assert_same_chunk(a, b);
    gr_chunk_free(a);
    gr_chunk_free(b);
    gr_policy_close(bf16);
    gr_policy_close(f32);
}

/* Where a tensor starts in a single-file snapshot. */
static size_t offset_of(const char *dir, const char *name, size_t file_bytes)
{
    struct gr_err err;
    struct gr_snapshot *snap = NULL;
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    const struct gr_tensor *t = gr_snapshot_find(snap, name), *first = gr_snapshot_at(snap, 0);
    assert_non_null(t);
    size_t header = file_bytes - gr_snapshot_bytes(snap);
    size_t offset = header + (size_t)((const char *)t->data - (const char *)first->data);
    gr_snapshot_close(snap);
    return offset;
}

static void a_weight_that_is_not_a_number_ends_the_load_by_name(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        /* the damaged tensor; what the message says */
        {"backbone.model.language_model.model.layers.0.mlp.down_proj.weight", "layers.0.mlp.down_proj.weight"},
        {"backbone.model.vision_model.vision_model.encoder.layers.1.mlp.fc1.bias",
         "bias of tensor backbone.model.vision_model"},
        {"backbone.model.vision_model.vision_model.embeddings.position_embedding.weight", "position_embedding.weight"},
        {"action_head.vlln.weight", "action_head.vlln.weight"},
        {"action_head.position_embedding.weight", "action_head.position_embedding.weight"},
        {"action_head.model.transformer_blocks.0.norm1.linear.weight", "blocks.0.norm1.linear.weight"}};
    const uint8_t nan_bits[4] = {0, 0, 0xc0, 0x7f};
    const char *dir = gr_test_temp_dir();
    gr_test_copy_dir(demo_dir, dir);
    merge_as_f32(dir);
    char path[4096];
    snprintf(path, sizeof path, "%s", gr_test_join(dir, "model.safetensors"));
    size_t n;
    uint8_t *file = gr_test_read(path, &n);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        uint8_t *at = file + offset_of(dir, names[i][0], n) + 40, good[4];
        memcpy(good, at, 4);
        memcpy(at, nan_bits, 4);
        gr_test_write(path, file, n);
        struct gr_options o = {.precision = "exact", .threads = 2};
        struct gr_policy *p = NULL;
        struct gr_err err;
        gr_test_fails(gr_policy_open(dir, &o, &p, &err), &err, GR_ERR_FORMAT, names[i][1]);
        memcpy(at, good, 4);
        gr_test_write(path, file, n);
    }
    free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_observation_gives_same_bits_whatever_came_before),
        cmocka_unit_test(threads_do_not_change_a_bit_in_any_set),
        cmocka_unit_test(predict_allocates_nothing),
        cmocka_unit_test(wrong_observations_are_refused_and_lose_nothing),
        cmocka_unit_test(an_observation_without_one_of_its_parts_is_refused),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(text_before_the_image_does_not_see_it),
        cmocka_unit_test(several_cameras_see_their_own_image_only),
        cmocka_unit_test(one_f32_file_gives_the_same_bits_as_bf16_shards),
        cmocka_unit_test(a_weight_that_is_not_a_number_ends_the_load_by_name),
    };
    return cmocka_run_group_tests(tests, make_demo, clean_up);
}
