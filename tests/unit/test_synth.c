/* SPDX-License-Identifier: Apache-2.0
 *
 * test_synth.c: synthetic snapshots as files: published hashes, threads, the demo, and what is left behind when writing
 * fails. What the values are: test_synth_fill.c. */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "gr_test.h"

#include "base/fs.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "model/synth.h"
#include "model/synth_inventory.h"

/* ---- helpers ---- */

static void synth(enum gr_synth_kind kind, enum gr_synth_weights weights, uint64_t seed, const char *dir, int threads)
{
    struct gr_err err;
    gr_test_ok(gr_synth_write(kind, weights, seed, dir, threads, NULL, NULL, &err), &err);
}

static void assert_hash(const char *path, const char *expected)
{
    struct gr_err err;
    struct gr_map map;
    char hex[65];
    gr_test_ok(gr_fs_map(path, &map, &err), &err);
    gr_test_sha256(map.data, map.size, hex);
    gr_fs_unmap(&map);
    assert_string_equal(hex, expected);
}

static void assert_hashes(const char *dir, const char *const *expected, int n)
{
    for (int i = 0; i < n; i++) {
        assert_hash(gr_test_join(dir, "model-%05d-of-%05d.safetensors", i + 1, n), expected[i]);
    }
}

static void assert_same_file(const char *a, const char *b)
{
    size_t na, nb;
    uint8_t *x = gr_test_read(a, &na), *y = gr_test_read(b, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na);
    free(x);
    free(y);
}

/* Entries of a folder, "." and ".." not counted; -1 when there is no such folder. */
static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    if (d == NULL) {
        return -1;
    }
    while (readdir(d) != NULL) {
        n++;
    }
    closedir(d);
    return n - 2;
}

/* ---- uniform ---- */

/* The figures are those of the specification, section 9; its Python generator made them. tools/acceptance.sh checks the full size. */
static void tiny_has_the_published_hashes(void **state)
{
    (void)state;
    static const char *const expected[] = {"97cdcc3087d002391cef16d0d5d8b3f6fea94b1f9d214669e05cfc2e26d5c380",
                                           "e344fb7d33b36010d6e164f1fb507af35c85104fb0db73ef3d62c95ea3046440"};
    const char *dir = gr_test_temp_dir();
    synth(GR_SYNTH_TINY, GR_SYNTH_UNIFORM, 1600, dir, 2);
    assert_hashes(dir, expected, 2);
}

static void the_largest_seed_works_as_in_the_python_generator(void **state)
{
    (void)state;
    static const char *const expected[] = {"40aa712018ed142fbbd4ca5bb0b1fdf77fb0df2a3465de6049e53732ec600705",
                                           "9e98dd1ef8a264f60be475ff4747a303de05511c5d0d9cf01d2fd981e1235c66"};
    const char *dir = gr_test_temp_dir();
    synth(GR_SYNTH_TINY, GR_SYNTH_UNIFORM, UINT64_MAX, dir, 1);
    assert_hashes(dir, expected, 2);
}

/* The committed golden was computed on these very weights. */
static void the_demo_snapshot_is_the_one_of_the_golden(void **state)
{
    (void)state;
    static const char *const expected[] = {"7da95265cf93d5c2e1e4c063f46c8952b16e2480415809e4a68b3985c90d3fda",
                                           "309cb04f0dd219ce0b2b4a72d6f86c5b184bf3950df580c4bf7f07fb411e0b16",
                                           "354ddf60302c5d9e1809f71c5ae54dcf8feb0aa1929cb0acd157e9e7053ea823"};
    const char *dir = gr_test_temp_dir();
    synth(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, dir, 2);
    assert_hashes(dir, expected, 3);
    assert_same_file(gr_test_source("data/demo/frame.png"), gr_test_source("data/demo/golden/image.png"));
    static const char *const copied[][2] = {{"tokenizer/vocab.json", "tokenizer/vocab.json"},
                                            {"tokenizer/merges.txt", "tokenizer/merges.txt"},
                                            {"demo/frame.png", "frame.png"},
                                            {"demo/state.json", "state.json"},
                                            {"demo/instruction.txt", "instruction.txt"},
                                            {"demo/golden/obs.json", "golden/obs.json"},
                                            {"demo/golden/image.png", "golden/image.png"},
                                            {"demo/golden/expected.json", "golden/expected.json"},
                                            {"demo/golden/inputs.safetensors", "golden/inputs.safetensors"},
                                            {"demo/golden/taps_fp32.safetensors", "golden/taps_fp32.safetensors"},
                                            {"tokenizer/added_tokens.json", "tokenizer/added_tokens.json"}};
    for (size_t i = 0; i < sizeof copied / sizeof copied[0]; i++) {
        assert_same_file(gr_test_join(dir, "%s", copied[i][0]), gr_test_source("data/demo/%s", copied[i][1]));
    }
}

static void the_demo_vocabulary_fits_the_demo_weights(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_json *added = NULL, *vocab = NULL;
    const struct gr_synth_config *c = gr_synth_config_of(GR_SYNTH_DEMO);
    gr_test_ok(
        gr_json_read(gr_test_source("data/demo/tokenizer/added_tokens.json"), 1 << 20, GR_ERR_FORMAT, &added, &err),
        &err);
    gr_test_ok(gr_json_read(gr_test_source("data/demo/tokenizer/vocab.json"), 1 << 20, GR_ERR_FORMAT, &vocab, &err),
               &err);
    assert_int_equal(gr_json_int(gr_json_get(added, "<|im_start|>")), c->llm.template_ids[0]);
    assert_int_equal(gr_json_int(gr_json_get(added, "<|im_end|>")), c->llm.template_ids[1]);
    assert_int_equal(gr_json_len(vocab) + gr_json_len(added), c->llm.vocab);
    gr_json_free(added);
    gr_json_free(vocab);
}

static void a_demo_with_other_weights_has_no_golden(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    synth(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1600, dir, 2);
    assert_true(gr_test_exists(gr_test_join(dir, "demo/golden/expected.json")));
    synth(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1601, dir, 2);
    assert_false(gr_test_exists(gr_test_join(dir, "demo/golden")));
    assert_true(gr_test_exists(gr_test_join(dir, "demo/frame.png")));
}

static void names_and_shapes_are_the_published_ones(void **state)
{
    (void)state;
    char *table = (char *)gr_test_read(gr_test_shared("spec/tensors.tsv"), NULL), *rest = table;
    struct gr_synth_inventory full = {0};
    struct gr_err err;
    size_t seen = 0;
    gr_test_ok(gr_synth_inventory_make(gr_synth_config_of(GR_SYNTH_FULL), &full, &err), &err);
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        char *name = strsep(&line, "\t"), *shape = line == NULL ? NULL : strsep(&line, "\t");
        const struct gr_synth_tensor *t = shape == NULL ? NULL : gr_synth_inventory_find(&full, name);
        if (t == NULL) {
            continue; /* heading; the count below finds a name that is missing */
        }
        int dim = 0;
        for (char *p = shape; *p != '\0';) {
            char *end;
            const long v = strtol(p, &end, 10);
            if (end == p) {
                p++;
                continue;
            }
            assert_true(dim < t->ndim);
            assert_int_equal(v, t->shape[dim++]);
            p = end;
        }
        assert_int_equal(dim, t->ndim);
        seen++;
    }
    free(table);
    assert_int_equal(seen, 1106);
    assert_int_equal(full.count, 1106);
    assert_int_equal(full.bytes, 6573217664);
    gr_synth_inventory_free(&full);
}

static void files_open_and_the_index_names_every_tensor(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_json *index = NULL;
    const char *dir = gr_test_temp_dir();
    size_t found = 0;
    uint64_t bytes = 0;
    synth(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 3, dir, 2);
    gr_test_ok(gr_json_read(gr_test_join(dir, "model.safetensors.index.json"), 1 << 20, GR_ERR_FORMAT, &index, &err),
               &err);
    const struct gr_json *map = gr_json_get(index, "weight_map");
    for (int i = 1; i <= 3; i++) {
        struct gr_safetensors *st = NULL;
        char name[64];
        snprintf(name, sizeof name, "model-%05d-of-00003.safetensors", i);
        gr_test_ok(gr_safetensors_open(gr_test_join(dir, "%s", name), &st, &err), &err);
        for (size_t k = 0; k < gr_safetensors_count(st); k++, found++) {
            const struct gr_tensor *t = gr_safetensors_at(st, k);
            assert_non_null(gr_json_get(map, t->name));
            assert_string_equal(gr_json_string(gr_json_get(map, t->name)), name);
            bytes += t->bytes;
        }
        gr_safetensors_close(st);
    }
    assert_int_equal(gr_json_len(map), found);
    assert_int_equal(gr_json_int(gr_json_get(gr_json_get(index, "metadata"), "total_size")), bytes);
    gr_json_free(index);
}

static void the_number_of_threads_changes_no_bit(void **state)
{
    (void)state;
    for (int w = GR_SYNTH_UNIFORM; w <= GR_SYNTH_OUTLIERS; w++) {
        const char *one = gr_test_temp_dir(), *two = gr_test_temp_dir(), *many = gr_test_temp_dir();
        synth(GR_SYNTH_TINY, (enum gr_synth_weights)w, 5, one, 1);
        synth(GR_SYNTH_TINY, (enum gr_synth_weights)w, 5, two, 2);
        synth(GR_SYNTH_TINY, (enum gr_synth_weights)w, 5, many, 7);
        for (int i = 1; i <= 2; i++) {
            assert_same_file(gr_test_join(one, "model-0000%d-of-00002.safetensors", i),
                             gr_test_join(two, "model-0000%d-of-00002.safetensors", i));
            assert_same_file(gr_test_join(one, "model-0000%d-of-00002.safetensors", i),
                             gr_test_join(many, "model-0000%d-of-00002.safetensors", i));
        }
        (void)gr_test_temp_clean(NULL);
    }
}

/* ---- random families ---- */

static void the_random_families_are_pinned(void **state)
{
    (void)state;
    static const char *const gaussian[] = {"cc9576997168e4ef61d16aeb012a7d01fd9b22737e393c49517bce0d56533439",
                                           "0b736106d6f2905e0b60d91d97fdcda12bc1baf7a62e35545aa06955c7a69ff7"};
    static const char *const outliers[] = {"15946f360a6608b993215291d6fa0a47bcd152743aea88156d2d067846ef0eee",
                                           "0b736106d6f2905e0b60d91d97fdcda12bc1baf7a62e35545aa06955c7a69ff7"};
    const char *dir = gr_test_temp_dir();
    synth(GR_SYNTH_TINY, GR_SYNTH_GAUSSIAN, 1600, dir, 2);
    assert_hashes(dir, gaussian, 2);
    synth(GR_SYNTH_TINY, GR_SYNTH_OUTLIERS, 1600, dir, 2);
    assert_hashes(dir, outliers, 2);
}

/* ---- progress and failures ---- */

struct seen {
    uint64_t last, total;
    int calls;
};

static void watch(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct seen *s = user;
    assert_non_null(what);
    assert_true(done >= s->last && done <= total);
    *s = (struct seen){.last = done, .total = total, .calls = s->calls + 1};
}

static void progress_ends_at_the_size_of_the_files(void **state)
{
    (void)state;
    struct gr_err err;
    struct seen seen = {0};
    const char *dir = gr_test_temp_dir();
    gr_test_ok(gr_synth_write(GR_SYNTH_TINY, GR_SYNTH_UNIFORM, 1, dir, 2, watch, &seen, &err), &err);
    assert_true(seen.calls >= 2);
    assert_int_equal(seen.last, seen.total);
    struct stat a, b;
    assert_int_equal(stat(gr_test_join(dir, "model-00001-of-00002.safetensors"), &a), 0);
    assert_int_equal(stat(gr_test_join(dir, "model-00002-of-00002.safetensors"), &b), 0);
    assert_int_equal(seen.total, a.st_size + b.st_size);
}

static void bad_folders_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_temp_dir(), *file = gr_test_join(dir, "file");
    gr_test_write(file, "x", 1);
    gr_test_fails(gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, file, 1, NULL, NULL, &err), &err, GR_ERR_IO,
                  "file");
    gr_test_fails(
        gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, gr_test_join(dir, "file/below"), 1, NULL, NULL, &err), &err,
        GR_ERR_IO, "file");
    gr_test_fails(gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, "", 1, NULL, NULL, &err), &err, GR_ERR_USAGE,
                  "folder");
    gr_test_fails(gr_synth_write((enum gr_synth_kind)9, GR_SYNTH_UNIFORM, 1, dir, 1, NULL, NULL, &err), &err,
                  GR_ERR_USAGE, "9");
    assert_int_equal(count_entries(dir), 1);
}

static void a_folder_with_foreign_weights_is_left_alone(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    gr_test_write(gr_test_join(dir, "model.safetensors"), "precious", 8);
    gr_test_fails(gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, dir, 1, NULL, NULL, &err), &err, GR_ERR_USAGE,
                  "model.safetensors");
    assert_int_equal(count_entries(dir), 1);
}

/* Lets files grow to `limit` bytes; the old limit comes back. */
static struct rlimit limit_file_size(rlim_t limit)
{
    struct rlimit old, new;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    new = (struct rlimit){.rlim_cur = limit, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &new), 0);
    return old;
}

static void a_write_that_fails_leaves_nothing_behind(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_join(gr_test_temp_dir(), "new");
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit old = limit_file_size(1 << 20);
    const enum gr_status status = gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, dir, 2, NULL, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    gr_test_fails(status, &err, GR_ERR_IO, "model-00001-of-00003.safetensors");
    assert_int_equal(count_entries(dir), -1);
}

static void a_write_that_fails_keeps_the_older_snapshot(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_temp_dir(), *same = gr_test_temp_dir();
    synth(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, dir, 2);
    synth(GR_SYNTH_DEMO, GR_SYNTH_UNIFORM, 1, same, 2);
    const int before = count_entries(dir);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    const struct rlimit old = limit_file_size(2500000); /* the second file fits, the first does not */
    const enum gr_status status = gr_synth_write(GR_SYNTH_DEMO, GR_SYNTH_GAUSSIAN, 2, dir, 2, NULL, NULL, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    gr_test_fails(status, &err, GR_ERR_IO, "bytes");
    assert_int_equal(count_entries(dir), before);
    for (int i = 1; i <= 3; i++) {
        assert_same_file(gr_test_join(dir, "model-0000%d-of-00003.safetensors", i),
                         gr_test_join(same, "model-0000%d-of-00003.safetensors", i));
    }
    assert_same_file(gr_test_join(dir, "model.safetensors.index.json"),
                     gr_test_join(same, "model.safetensors.index.json"));
}

static void a_full_disk_is_found_first_with_both_figures(void **state)
{
    (void)state;
    struct gr_err err;
    const char *dir = gr_test_temp_dir();
    if (mount("tmpfs", dir, "tmpfs", 0, "size=4m") != 0) {
        gr_test_skip("no small file system for the full disk: needs the right to mount");
    }
    const enum gr_status status = gr_synth_write(GR_SYNTH_TINY, GR_SYNTH_UNIFORM, 1, dir, 2, NULL, NULL, &err);
    const int left = count_entries(dir);
    struct statvfs fs;
    const int rc = statvfs(dir, &fs);
    assert_int_equal(umount(dir), 0);
    assert_int_equal(rc, 0);
    char figure[32];
    snprintf(figure, sizeof figure, "%llu are free", (unsigned long long)fs.f_bavail * fs.f_frsize);
    gr_test_fails(status, &err, GR_ERR_IO, figure);
    assert_int_equal(left, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_has_the_published_hashes),
        cmocka_unit_test(the_largest_seed_works_as_in_the_python_generator),
        cmocka_unit_test(the_demo_snapshot_is_the_one_of_the_golden),
        cmocka_unit_test(the_demo_vocabulary_fits_the_demo_weights),
        cmocka_unit_test(a_demo_with_other_weights_has_no_golden),
        cmocka_unit_test(names_and_shapes_are_the_published_ones),
        cmocka_unit_test(files_open_and_the_index_names_every_tensor),
        cmocka_unit_test(the_number_of_threads_changes_no_bit),
        cmocka_unit_test(the_random_families_are_pinned),
        cmocka_unit_test(progress_ends_at_the_size_of_the_files),
        cmocka_unit_test(bad_folders_are_refused),
        cmocka_unit_test(a_folder_with_foreign_weights_is_left_alone),
        cmocka_unit_test(a_write_that_fails_leaves_nothing_behind),
        cmocka_unit_test(a_write_that_fails_keeps_the_older_snapshot),
        cmocka_unit_test(a_full_disk_is_found_first_with_both_figures),
    };
    return cmocka_run_group_tests_name("synth", tests, NULL, gr_test_temp_clean);
}
