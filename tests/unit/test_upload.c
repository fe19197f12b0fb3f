/* SPDX-License-Identifier: Apache-2.0
 *
 * test_upload.c: what of an upload can be looked at without a Hub: the files of a folder and their ids, and what is made of the Hub's answer about
 * large files. The calls themselves are tested in tests/package/test_push.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gr_test.h"
#include "hub/lfs_plan.h"
#include "hub/upload.h"
#include "hub/upload_files.h"

#define HUB "https://hub.example"

static void put(const char *dir, const char *name, const char *text)
{
    gr_test_write(gr_test_join(dir, "%s", name), text, strlen(text));
}

static const char *folder(void)
{
    struct gr_err err = {0};
    const char *dir = gr_test_temp_dir();
    gr_test_ok(gr_fs_mkdirs(gr_test_join(dir, "code/sub"), &err), &err);
    gr_test_ok(gr_fs_mkdirs(gr_test_join(dir, ".git"), &err), &err);
    put(dir, "code/sub/hello.txt", "hello\n");
    put(dir, "code/empty", "");
    put(dir, "code-x", "x");
    put(dir, ".git/config", "[core]");
    return dir;
}

static void files_get_the_ids_that_git_and_sha256sum_give(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_upload_list l;
    gr_test_ok(gr_upload_walk(folder(), &l, &err), &err);
    gr_test_ok(gr_upload_hash(&l, NULL, &err), &err);
    assert_int_equal(l.n, 3); /* .git is left out */
    const struct gr_upload_file *hello = gr_upload_find(&l, "code/sub/hello.txt"),
                                *empty = gr_upload_find(&l, "code/empty");
    assert_non_null(hello);
    assert_non_null(empty);
    assert_null(gr_upload_find(&l, "code"));
    assert_string_equal(hello->git_oid, "ce013625030ba8dba906f756967f9e9ca394464a");
    assert_string_equal(hello->sha256, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
    assert_string_equal(empty->git_oid, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    assert_memory_equal(hello->sample, "hello\n", 6);
    assert_true(gr_upload_is(hello, hello->sha256) && gr_upload_is(hello, hello->git_oid));
    assert_false(gr_upload_is(hello, empty->git_oid) || gr_upload_is(hello, "") || gr_upload_is(empty, hello->sha256));
    gr_upload_list_free(&l);
}

static void a_text_takes_the_place_of_the_files_bytes(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_upload_list l;
    struct gr_buf text = {0};
    char *bytes = NULL;
    int fd = 0;
    gr_test_ok(gr_upload_walk(folder(), &l, &err), &err);
    struct gr_upload_file *f = gr_upload_find(&l, "code-x");
    gr_buf_puts(&text, "hello\n");
    gr_upload_set_text(f, &text);
    gr_test_ok(gr_upload_hash(&l, NULL, &err), &err);
    assert_string_equal(f->git_oid, "ce013625030ba8dba906f756967f9e9ca394464a");
    gr_test_ok(gr_upload_open(&l, f, &fd, &err), &err);
    assert_int_equal(fd, -1);
    gr_test_ok(gr_upload_read(&l, f, &bytes, &err), &err);
    assert_string_equal(bytes, "hello\n");
    free(bytes);
    gr_upload_list_free(&l);
}

static void a_file_that_changes_after_it_was_hashed_is_noticed(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_upload_list l;
    char *bytes = NULL;
    int fd;
    const char *dir = folder();
    gr_test_ok(gr_upload_walk(dir, &l, &err), &err);
    gr_test_ok(gr_upload_hash(&l, NULL, &err), &err);
    put(dir, "code/sub/hello.txt", "hellO\n");
    struct gr_upload_file *f = gr_upload_find(&l, "code/sub/hello.txt");
    f->changed.tv_nsec ^= 1; /* clocks of file systems are coarse */
    gr_test_fails(gr_upload_open(&l, f, &fd, &err), &err, GR_ERR_INPUT, "has changed");
    f->changed.tv_nsec ^= 1;
    struct stat st;
    assert_int_equal(stat(gr_test_join(dir, "code/sub/hello.txt"), &st), 0);
    f->changed = st.st_mtim; /* same size, same time, other bytes */
    gr_test_fails(gr_upload_read(&l, f, &bytes, &err), &err, GR_ERR_INPUT, "has changed");
    gr_upload_list_free(&l);
}

static void links_and_empty_folders_are_refused(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_upload_list l;
    const char *dir = folder(), *empty = gr_test_temp_dir();
    gr_test_fails(gr_upload_walk(empty, &l, &err), &err, GR_ERR_INPUT, "no files");
    gr_test_fails(gr_upload_walk(gr_test_join(dir, "none"), &l, &err), &err, GR_ERR_INPUT, "none");
    assert_int_equal(symlink("/etc/hostname", gr_test_join(dir, "code/link")), 0);
    gr_test_fails(gr_upload_walk(dir, &l, &err), &err, GR_ERR_INPUT, "code/link is a symbolic link");
}

/* ---- the Hub's answer about one large file ---- */

static enum gr_status read_answer(const char *text, uint64_t size, struct gr_lfs_object *o, struct gr_err *err)
{
    static struct gr_upload_file file;
    struct gr_json *root = NULL;
    file = (struct gr_upload_file){.path = "image/blob", .size = size};
    *o = (struct gr_lfs_object){.file = &file};
    gr_test_ok(gr_json_parse(text, strlen(text), "answer", GR_ERR_NETWORK, &root, err), err);
    enum gr_status status = gr_lfs_read_object(HUB, root, o, err);
    gr_json_free(root);
    return status;
}

static void an_answer_without_actions_means_it_is_there(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_lfs_object o;
    gr_test_ok(read_answer("{\"oid\": \"a\"}", 10, &o, &err), &err);
    assert_int_equal(o.n_parts, 0);
    gr_lfs_object_free(&o);
}

static void one_address_means_one_put(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_lfs_object o;
    gr_test_ok(
        read_answer("{\"actions\": {\"upload\": {\"href\": \"https://store.example/a?sig=1\", \"header\": {\"x-a\": "
                    "\"b\"}}, \"verify\": {\"href\": \"" HUB "/v\"}}}",
                    10, &o, &err),
        &err);
    assert_int_equal(o.n_parts, 1);
    assert_false(o.multipart);
    assert_string_equal(o.addresses[0], "https://store.example/a?sig=1");
    assert_string_equal(o.headers[0], "x-a: b");
    assert_null(o.headers[1]);
    assert_string_equal(o.verify, HUB "/v");
    gr_lfs_object_free(&o);
}

static void parts_are_put_in_their_order(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_lfs_object o;
    struct gr_buf body = {0};
    gr_test_ok(
        read_answer("{\"actions\": {\"upload\": {\"href\": \"" HUB "/complete\", \"header\": {\"00002\": "
                    "\"https://store.example/2\", \"chunk_size\": \"6\", \"00001\": \"https://store.example/1\"}}}}",
                    10, &o, &err),
        &err);
    assert_true(o.multipart);
    assert_int_equal(o.n_parts, 2);
    assert_int_equal(o.chunk, 6);
    assert_string_equal(o.addresses[0], "https://store.example/1");
    assert_string_equal(o.addresses[1], "https://store.example/2");
    strcpy(o.etags[0], "\"e1\"");
    strcpy(o.etags[1], "e2");
    gr_lfs_completion(&o, &body);
    assert_string_equal(body.data,
                        "{\"oid\":\"\",\"parts\":[{\"partNumber\":1,\"etag\":\"\\\"e1\\\"\"},{\"partNumber\":2,"
                        "\"etag\":\"e2\"}]}");
    gr_buf_free(&body);
    gr_lfs_object_free(&o);
}

static void answers_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum gr_status code;
        const char *words;
    } cases[] = {
        {"{\"actions\": {\"upload\": {}}}", GR_ERR_NETWORK, "no address"},
        {"{\"actions\": {\"upload\": {\"href\": 7}}}", GR_ERR_NETWORK, "no address"},
        {"{\"actions\": {\"upload\": {\"href\": \"file:///etc/passwd\"}}}", GR_ERR_NETWORK, "no address"},
        {"{\"actions\": {\"upload\": {\"href\": \"/api/here\"}}}", GR_ERR_NETWORK, "no address"},
        {"{\"actions\": {\"upload\": {\"href\": \"http://store.example/a\"}}}", GR_ERR_NETWORK, "without https"},
        {"{\"actions\": {\"upload\": {\"href\": \"https://s.example/a\", \"header\": {\"a\": \"b\\r\\nc: d\"}}}}",
         GR_ERR_NETWORK, "header"},
        {"{\"actions\": {\"upload\": {\"href\": \"https://s.example/a\", \"header\": {\"a\": 1}}}}", GR_ERR_NETWORK,
         "header"},
        {"{\"actions\": {\"upload\": {\"href\": \"https://s.example/a\"}, \"verify\": {\"href\": \"\"}}}",
         GR_ERR_NETWORK, "no address"},
        {"{\"actions\": {\"upload\": {\"href\": \"" HUB "/c\", \"header\": {\"chunk_size\": \"6\", \"00001\": "
         "\"https://s.example/1\"}}}}",
         GR_ERR_NETWORK, "fewer parts"},
        {"{\"actions\": {\"upload\": {\"href\": \"" HUB "/c\", \"header\": {\"chunk_size\": 20, \"00001\": "
         "\"https://s.example/1\", \"00002\": \"https://s.example/2\"}}}}",
         GR_ERR_NETWORK, "more parts"},
        {"{\"actions\": {\"upload\": {\"href\": \"" HUB "/c\", \"header\": {\"chunk_size\": 20, \"00001\": "
         "\"https://s.example/1\", \"1\": \"https://s.example/2\"}}}}",
         GR_ERR_NETWORK, "more parts"},
        {"{\"actions\": {\"upload\": {\"href\": \"" HUB "/c\", \"header\": {\"chunk_size\": 20, \"00001\": \"x\"}}}}",
         GR_ERR_NETWORK, "no address"},
        {"{\"error\": {\"code\": 403, \"message\": \"not yours\"}}", GR_ERR_ACCESS, "not yours"},
        {"{\"error\": {\"code\": 422, \"message\": \"too big\"}}", GR_ERR_INPUT, "too big"},
        {"{\"error\": {\"code\": 500}}", GR_ERR_NETWORK, "no reason"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gr_err err = {0};
        struct gr_lfs_object o;
        gr_test_fails(read_answer(cases[i].text, 10, &o, &err), &err, cases[i].code, cases[i].words);
        gr_lfs_object_free(&o);
    }
}

static void more_parts_than_any_store_takes_are_refused(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_lfs_object o;
    gr_test_fails(read_answer("{\"actions\": {\"upload\": {\"href\": \"" HUB "/c\", \"header\": {\"chunk_size\": 1}}}}",
                              UINT64_MAX, &o, &err),
                  &err, GR_ERR_NETWORK, "part size");
    gr_lfs_object_free(&o);
}

static void only_the_hubs_own_addresses_are_asked_with_the_token(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_hub *hub = NULL;
    const struct gr_hub_config cfg = {.endpoint = HUB "/"};
    gr_test_ok(gr_hub_open(&cfg, &hub, &err), &err);
    assert_string_equal(gr_hub_below(hub, HUB "/verify?x=1"), "/verify?x=1");
    assert_string_equal(gr_hub_below(hub, HUB ".evil.example/verify"), HUB ".evil.example/verify");
    assert_string_equal(gr_hub_below(hub, "https://huggingface.co/api/verify"),
                        "/api/verify"); /* HUB is a mirror of it */
    assert_string_equal(gr_hub_below(hub, "https://store.example/verify"), "https://store.example/verify");
    gr_hub_close(hub);
}

static void a_push_needs_a_repository_name(void **state)
{
    (void)state;
    struct gr_err err = {0};
    struct gr_hub *hub = NULL;
    struct gr_pushed done;
    const struct gr_hub_config cfg = {.endpoint = HUB, .offline = true};
    gr_test_ok(gr_hub_open(&cfg, &hub, &err), &err);
    struct gr_push p = {.dir = folder(), .id = "../up", .summary = "x"};
    gr_test_fails(gr_hub_push(hub, &p, &done, &err), &err, GR_ERR_USAGE, "no repository");
    p.id = "org/name";
    gr_test_fails(gr_hub_push(hub, &p, &done, &err), &err, GR_ERR_NETWORK, "HF_HUB_OFFLINE");
    gr_hub_close(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_get_the_ids_that_git_and_sha256sum_give),
        cmocka_unit_test(a_text_takes_the_place_of_the_files_bytes),
        cmocka_unit_test(a_file_that_changes_after_it_was_hashed_is_noticed),
        cmocka_unit_test(links_and_empty_folders_are_refused),
        cmocka_unit_test(an_answer_without_actions_means_it_is_there),
        cmocka_unit_test(one_address_means_one_put),
        cmocka_unit_test(parts_are_put_in_their_order),
        cmocka_unit_test(answers_that_make_no_sense_are_refused),
        cmocka_unit_test(more_parts_than_any_store_takes_are_refused),
        cmocka_unit_test(only_the_hubs_own_addresses_are_asked_with_the_token),
        cmocka_unit_test(a_push_needs_a_repository_name),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
