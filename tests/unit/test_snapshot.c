/* SPDX-License-Identifier: Apache-2.0
 *
 * test_snapshot.c: shards and their index must tell the same story. Each test makes a small folder and breaks one thing. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/safetensors.h"
#include "model/snapshot.h"

#define SHARD1 "model-00001-of-00002.safetensors"
#define SHARD2 "model-00002-of-00002.safetensors"
#define INDEX "model.safetensors.index.json"

/* A file of tensors "name[elements]" of F32, values 1, 2, 3 ... */
static void put_shard(const char *dir, const char *file, const char *const *names, size_t n, int64_t elements)
{
    struct gr_tensor t[8] = {{0}};
    struct gr_err err;
    uint8_t *header = NULL;
    size_t header_bytes = 0, data_bytes = n * (size_t)elements * 4;
    for (size_t i = 0; i < n; i++) {
        t[i] = (struct gr_tensor){.name = names[i], .dtype = GR_F32, .ndim = 1, .shape = {elements}};
    }
    gr_test_ok(gr_safetensors_header(t, n, &header, &header_bytes, &err), &err);
    uint8_t *bytes = malloc(header_bytes + data_bytes + 1);
    assert_non_null(bytes);
    memcpy(bytes, header, header_bytes);
    for (size_t i = 0; i < n * (size_t)elements; i++) {
        float v = (float)(i + 1);
        memcpy(bytes + header_bytes + 4 * i, &v, 4);
    }
    gr_test_write(gr_test_join(dir, "%s", file), bytes, header_bytes + data_bytes);
    free(bytes);
    free(header);
}

static void put_index(const char *dir, const char *text)
{
    gr_test_write(gr_test_join(dir, INDEX), text, strlen(text));
}

static const char good_index[] = "{\"metadata\":{\"total_size\":60},\"weight_map\":{\"a\":\"" SHARD1
                                 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD1 "\"}}";

/* a, c in shard 1, b in shard 2; 5 elements each. */
static const char *good_folder(void)
{
    static const char *const first[] = {"a", "c"}, *const second[] = {"b"};
    const char *dir = gr_test_temp_dir();
    put_shard(dir, SHARD1, first, 2, 5);
    put_shard(dir, SHARD2, second, 1, 5);
    put_index(dir, good_index);
    return dir;
}

static void assert_refused(const char *dir, enum gr_status code, const char *message)
{
    struct gr_snapshot *snap = NULL;
    struct gr_err err;
    gr_test_fails(gr_snapshot_open(dir, &snap, &err), &err, code, message);
    assert_null(snap);
}

static void shards_become_one_table_in_name_order(void **state)
{
    (void)state;
    const char *dir = good_folder();
    struct gr_snapshot *snap = NULL;
    struct gr_err err;
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    assert_int_equal(gr_snapshot_count(snap), 3);
    assert_int_equal(gr_snapshot_shards(snap), 2);
    assert_int_equal(gr_snapshot_bytes(snap), 60);
    for (size_t i = 0; i < 3; i++) {
        const char name[2] = {(char)('a' + i), 0};
        assert_string_equal(gr_snapshot_at(snap, i)->name, name);
        assert_ptr_equal(gr_snapshot_at(snap, i), gr_snapshot_find(snap, name));
    }
    assert_null(gr_snapshot_at(snap, 3));
    assert_null(gr_snapshot_find(snap, "d"));
    struct gr_tensor copy = *gr_snapshot_find(snap, "c");
    assert_true(gr_tensor_f32(&copy, 0) == 6.0f);
    gr_snapshot_done(snap, &copy);
    assert_true(gr_tensor_f32(&copy, 4) == 10.0f);
    gr_snapshot_close(snap);
    gr_snapshot_close(NULL);
}

static void a_single_file_needs_no_index(void **state)
{
    (void)state;
    static const char *const names[] = {"x", "y"};
    const char *dir = gr_test_temp_dir();
    struct gr_snapshot *snap = NULL;
    struct gr_err err;
    put_shard(dir, "model.safetensors", names, 2, 3);
    gr_test_write(gr_test_join(dir, "config.json"), "{}", 2);
    gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
    assert_int_equal(gr_snapshot_count(snap), 2);
    assert_int_equal(gr_snapshot_shards(snap), 1);
    gr_snapshot_close(snap);
    put_shard(dir, "other.safetensors", names, 1, 3);
    assert_refused(dir, GR_ERR_FORMAT, "other.safetensors is in the folder, but the model is model.safetensors alone");
}

static void total_size_may_be_absent_or_a_whole_real(void **state)
{
    (void)state;
    const char *dir = good_folder();
    static const char *const heads[] = {"", "\"metadata\":{},", "\"metadata\":{\"total_size\":60.0},",
                                        "\"metadata\":{\"total_parameters\":15},"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        char text[512];
        struct gr_snapshot *snap = NULL;
        struct gr_err err;
        snprintf(text, sizeof text,
                 "{%s\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD1 "\"}}", heads[i]);
        put_index(dir, text);
        gr_test_ok(gr_snapshot_open(dir, &snap, &err), &err);
        gr_snapshot_close(snap);
    }
}

static void a_missing_shard_is_named_with_its_size(void **state)
{
    (void)state;
    const char *dir = good_folder();
    assert_int_equal(unlink(gr_test_join(dir, SHARD1)), 0);
    assert_refused(dir, GR_ERR_FORMAT, "1 of 2 shards missing: " SHARD1 " (2 tensors, first a), 40 bytes of tensors");
    assert_int_equal(unlink(gr_test_join(dir, SHARD2)), 0);
    assert_refused(dir, GR_ERR_FORMAT,
                   "2 of 2 shards missing: " SHARD1 " (2 tensors, first a), 60 bytes of tensors in all");
}

static void a_shard_in_pieces_is_recognised(void **state)
{
    (void)state;
    const char *dir = good_folder();
    assert_int_equal(rename(gr_test_join(dir, SHARD2), gr_test_join(dir, SHARD2 ".aa")), 0);
    gr_test_write(gr_test_join(dir, SHARD2 ".ab"), "x", 1);
    assert_refused(dir, GR_ERR_FORMAT,
                   "there are 2 pieces of it (" SHARD2 ".aa): unfinished download, or pieces to be joined");
}

static void a_dangling_link_is_explained(void **state)
{
    (void)state;
    const char *dir = good_folder();
    assert_int_equal(unlink(gr_test_join(dir, SHARD2)), 0);
    assert_int_equal(symlink("../../blobs/0123", gr_test_join(dir, SHARD2)), 0);
    assert_refused(dir, GR_ERR_FORMAT, SHARD2 ": is a link to ../../blobs/0123, which does not exist");
}

static void a_truncated_shard_is_refused(void **state)
{
    (void)state;
    const char *dir = good_folder();
    const char *path = gr_test_join(dir, SHARD2);
    size_t n;
    uint8_t *bytes = gr_test_read(path, &n);
    gr_test_write(path, bytes, n - 1);
    free(bytes);
    assert_refused(dir, GR_ERR_FORMAT,
                   SHARD2 ": 19 bytes of data, the header describes 20: file is truncated, 1 bytes are missing");
}

static void an_extra_shard_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"d"};
    const char *dir = good_folder();
    put_shard(dir, "model-00003-of-00003.safetensors", names, 1, 1);
    assert_refused(dir, GR_ERR_FORMAT,
                   "model-00003-of-00003.safetensors is in the folder, but " INDEX " does not name it");
}

static void a_lying_index_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *index, *message;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"" SHARD2 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD1 "\"}}",
         "tensor a: the index says " SHARD2 ", it is in " SHARD1},
        {"{\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD1 "\",\"d\":\"" SHARD1 "\"}}",
         "tensor d: the index says " SHARD1 ", no shard holds it"},
        {"{\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\"}}", "tensor c of " SHARD1 " is not in the index"},
        {"{\"metadata\":{\"total_size\":61},\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD1
         "\"}}",
         "the shards hold 60 bytes of tensors, the index says 61"},
        {"{\"metadata\":{\"total_size\":\"60\"},\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2
         "\",\"c\":\"" SHARD1 "\"}}",
         "total_size is not a size"},
        {"{\"metadata\":{\"total_size\":-1},\"weight_map\":{\"a\":\"" SHARD1 "\",\"b\":\"" SHARD2 "\",\"c\":\"" SHARD1
         "\"}}",
         "total_size is not a size"},
        {"{\"weight_map\":{\"a\":\"../" SHARD1 "\"}}", "weight_map.a is '../" SHARD1 "', expected the plain name"},
        {"{\"weight_map\":{\"a\":\"sub/x.safetensors\"}}", "expected the plain name"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "expected the plain name"},
        {"{\"weight_map\":{\"a\":\"\"}}", "expected the plain name"},
        {"{\"weight_map\":{\"a\":\".safetensors\"}}", "expected the plain name"},
        {"{\"weight_map\":{\"a\":\"model.bin\"}}", "expected the plain name"},
        {"{\"weight_map\":{\"a\":5}}", "weight_map.a is integer, expected a file name"},
        {"{\"weight_map\":{}}", "weight_map is missing or empty"},
        {"{\"weight_map\":[]}", "weight_map is missing or empty"},
        {"{}", "weight_map is missing or empty"},
        {"[]", "weight_map is missing or empty"},
        {"{\"weight_map\":{\"a\":\"" SHARD1 "\",\"a\":\"" SHARD2 "\"}}", "key appears twice"},
        {"", INDEX ": empty"},
    };
    const char *dir = good_folder();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_index(dir, cases[i].index);
        assert_refused(dir, GR_ERR_FORMAT, cases[i].message);
    }
}

static void a_tensor_in_two_shards_is_refused(void **state)
{
    (void)state;
    static const char *const second[] = {"a", "b"};
    const char *dir = good_folder();
    put_shard(dir, SHARD2, second, 2, 5);
    assert_refused(dir, GR_ERR_FORMAT, "tensor a is in two shards, " SHARD1 " and " SHARD2);
}

static void a_folder_without_weights_says_what_is_there(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    assert_refused(dir, GR_ERR_FORMAT, "found no .safetensors file");
    gr_test_write(gr_test_join(dir, SHARD1), "x", 1);
    assert_refused(dir, GR_ERR_FORMAT, "neither " INDEX " nor model.safetensors; found " SHARD1);
    assert_refused(gr_test_join(dir, "none"), GR_ERR_IO, "No such file");
    assert_refused(gr_test_join(dir, SHARD1), GR_ERR_IO, "Not a directory");
    static const char *const names[] = {"x"};
    unlink(gr_test_join(dir, SHARD1));
    put_shard(dir, "model.safetensors", names, 0, 0);
    assert_refused(dir, GR_ERR_FORMAT, "no tensor in 1 files");
}

static void damaged_folders_seen_in_the_field_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *folder, *message;
    } cases[] = {
        {"html_instead", SHARD1 ": is an HTML page"},
        {"index_maps_wrong_shard", "tensor a.weight: the index says " SHARD2 ", it is in " SHARD1},
        {"lfs_pointer", SHARD1 ": is a git-lfs pointer"},
        {"missing_shard", "1 of 2 shards missing: " SHARD2},
        {"truncated_1_byte", SHARD1 ": 7 bytes of data, the header describes 8"},
    };
    gr_test_need_shared();
    struct gr_snapshot *snap = NULL;
    struct gr_err err;
    gr_test_ok(gr_snapshot_open(gr_test_shared("pain/files/weights/ok_tiny"), &snap, &err), &err);
    assert_int_equal(gr_snapshot_count(snap), 2);
    gr_snapshot_close(snap);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_refused(gr_test_shared("pain/files/weights/%s", cases[i].folder), GR_ERR_FORMAT, cases[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_become_one_table_in_name_order),
        cmocka_unit_test(a_single_file_needs_no_index),
        cmocka_unit_test(total_size_may_be_absent_or_a_whole_real),
        cmocka_unit_test(a_missing_shard_is_named_with_its_size),
        cmocka_unit_test(a_shard_in_pieces_is_recognised),
        cmocka_unit_test(a_dangling_link_is_explained),
        cmocka_unit_test(a_truncated_shard_is_refused),
        cmocka_unit_test(an_extra_shard_is_refused),
        cmocka_unit_test(a_lying_index_is_refused),
        cmocka_unit_test(a_tensor_in_two_shards_is_refused),
        cmocka_unit_test(a_folder_without_weights_says_what_is_there),
        cmocka_unit_test(damaged_folders_seen_in_the_field_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
