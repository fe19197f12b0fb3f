/* SPDX-License-Identifier: Apache-2.0
 *
 * test_fs.c: reading, mapping and atomic writing of files, on good and on hostile paths. */
#include "gr_test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

static int count_entries(const char *dir)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    closedir(d);
    return n;
}

static void assert_content(const char *path, const char *text)
{
    size_t n;
    uint8_t *data = gr_test_read(path, &n);
    assert_int_equal(n, strlen(text));
    assert_memory_equal(data, text, n);
    free(data);
}

static void paths_join_with_one_slash(void **state)
{
    (void)state;
    char out[GR_PATH_BYTES];
    struct gr_err err;
    gr_test_ok(gr_path_join(out, "a", "b", &err), &err);
    assert_string_equal(out, "a/b");
    gr_test_ok(gr_path_join(out, "a/", "b", &err), &err);
    assert_string_equal(out, "a/b");
    gr_test_ok(gr_path_join(out, "", "b", &err), &err);
    assert_string_equal(out, "b");
    char longest[GR_PATH_BYTES];
    memset(longest, 'x', sizeof longest);
    longest[GR_PATH_BYTES - 3] = '\0';
    gr_test_ok(gr_path_join(out, "a", longest + 1, &err), &err);
    gr_test_fails(gr_path_join(out, "aa", longest, &err), &err, GR_ERR_IO, "too long");
}

static void a_file_is_read_whole_with_a_nul_behind(void **state)
{
    (void)state;
    const char *path = gr_test_join(gr_test_temp_dir(), "f");
    struct gr_err err;
    char *data = NULL;
    size_t n = 99;
    gr_test_write(path, "", 0);
    gr_test_ok(gr_fs_read(path, 10, &data, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_int_equal(data[0], 0);
    free(data);
    gr_test_write(path, "0123456789", 10);
    gr_test_ok(gr_fs_read(path, 10, &data, &n, &err), &err);
    assert_int_equal(n, 10);
    assert_string_equal(data, "0123456789");
    free(data);
    gr_test_fails(gr_fs_read(path, 9, &data, &n, &err), &err, GR_ERR_IO, "10 bytes, the limit here is 9");
}

static void files_that_hide_their_size_are_read_and_limited(void **state)
{
    (void)state;
    struct gr_err err;
    char *data = NULL;
    size_t n = 0;
    gr_test_ok(gr_fs_read("/proc/self/maps", 16 << 20, &data, &n, &err), &err);
    assert_true(n > 500);
    free(data);
    gr_test_fails(gr_fs_read("/proc/self/maps", 100, &data, &n, &err), &err, GR_ERR_IO, "more than 100 bytes");
}

static void what_is_not_a_regular_file_is_refused_by_kind(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    const char *fifo = gr_test_join(d, "fifo"), *link = gr_test_join(d, "link");
    struct gr_err err;
    struct gr_map map;
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(symlink("../../blobs/abc", link), 0);
    gr_test_fails(gr_fs_read(d, 10, &data, &n, &err), &err, GR_ERR_IO, "is a directory");
    gr_test_fails(gr_fs_read(fifo, 10, &data, &n, &err), &err, GR_ERR_IO, "is a FIFO"); /* and does not hang */
    gr_test_fails(gr_fs_map(fifo, &map, &err), &err, GR_ERR_IO, "is a FIFO");
    gr_test_fails(gr_fs_map("/dev/null", &map, &err), &err, GR_ERR_IO, "is a character device");
    gr_test_fails(gr_fs_map(link, &map, &err), &err, GR_ERR_IO, "is a link to ../../blobs/abc, which does not exist");
    gr_test_fails(gr_fs_map(gr_test_join(d, "none"), &map, &err), &err, GR_ERR_IO, "No such file");
    assert_false(gr_fs_is_file(fifo) || gr_fs_is_file(d) || gr_fs_is_file(link));
    assert_true(gr_fs_is_dir(d) && !gr_fs_is_dir(fifo));
}

static void an_unreadable_file_says_so(void **state)
{
    (void)state;
    if (geteuid() == 0) {
        gr_test_skip("permissions do not bind root");
    }
    const char *path = gr_test_join(gr_test_temp_dir(), "f");
    struct gr_err err;
    struct gr_map map;
    gr_test_write(path, "x", 1);
    assert_int_equal(chmod(path, 0), 0);
    gr_test_fails(gr_fs_map(path, &map, &err), &err, GR_ERR_IO, "Permission denied");
}

static void a_mapping_shows_the_file_and_survives_done(void **state)
{
    (void)state;
    enum { SIZE = 5 * 4096 + 123 };
    const char *path = gr_test_join(gr_test_temp_dir(), "f");
    static char bytes[SIZE];
    struct gr_err err;
    struct gr_map map;
    for (int i = 0; i < SIZE; i++) {
        bytes[i] = (char)(i * 7 + i / 4096);
    }
    gr_test_write(path, bytes, SIZE);
    gr_test_ok(gr_fs_map(path, &map, &err), &err);
    assert_int_equal(map.size, SIZE);
    static const size_t ranges[][2] = {{0, SIZE},     {1, 4096}, {4095, 2},     {0, 0},
                                       {SIZE - 1, 1}, {SIZE, 5}, {SIZE + 9, 1}, {100, SIZE_MAX}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        assert_memory_equal(map.data, bytes, SIZE);
        gr_fs_map_done(&map, ranges[i][0], ranges[i][1]);
    }
    assert_memory_equal(map.data, bytes, SIZE);
    gr_fs_unmap(&map);
    assert_null(map.data);
    gr_fs_unmap(&map);
}

/* Kilobytes of the mapping at p that are in this process's memory, from /proc/self/smaps. */
static long resident_kb(const void *p)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    char line[512];
    unsigned long from, to;
    long kb = -1;
    bool inside = false;
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
            inside = (uintptr_t)p >= from && (uintptr_t)p < to;
        }
        if (inside && sscanf(line, "Rss: %ld kB", &kb) == 1) {
            break;
        }
    }
    fclose(f);
    return kb;
}

static void done_gives_pages_back(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    const char *path = gr_test_join(gr_test_temp_dir(), "f");
    static char bytes[SIZE];
    struct gr_err err;
    struct gr_map map;
    gr_test_write(path, bytes, SIZE);
    gr_test_ok(gr_fs_map(path, &map, &err), &err);
    unsigned sum = 0;
    for (size_t i = 0; i < SIZE; i += 4096) {
        sum += map.data[i];
    }
    assert_int_equal(sum, 0);
    long before = resident_kb(map.data);
    gr_fs_map_done(&map, 0, SIZE);
    long after = resident_kb(map.data);
    gr_fs_unmap(&map);
    assert_true(before < 0 || before >= SIZE / 1024);
    assert_true(after < 16);
}

static void an_empty_file_maps_to_nothing(void **state)
{
    (void)state;
    const char *path = gr_test_join(gr_test_temp_dir(), "f");
    struct gr_err err;
    struct gr_map map = {.data = (const uint8_t *)"x", .size = 9};
    gr_test_write(path, "", 0);
    gr_test_ok(gr_fs_map(path, &map, &err), &err);
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    gr_fs_map_done(&map, 0, 10);
    gr_fs_unmap(&map);
}

static void a_file_appears_at_commit_and_not_before(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir(), *path = gr_test_join(d, "out.bin");
    struct gr_err err;
    struct gr_writer *w = NULL;
    gr_test_ok(gr_writer_open(path, &w, &err), &err);
    gr_test_ok(gr_writer_write(w, "abc", 3, &err), &err);
    gr_test_ok(gr_writer_write(w, "", 0, &err), &err);
    gr_test_ok(gr_writer_write(w, "def", 3, &err), &err);
    assert_false(gr_test_exists(path));
    gr_test_ok(gr_writer_commit(w, &err), &err);
    assert_content(path, "abcdef");
    assert_int_equal(count_entries(d), 1);
    gr_test_ok(gr_fs_write(path, "new", 3, &err), &err);
    assert_content(path, "new");
    assert_int_equal(count_entries(d), 1);
}

static void an_abort_leaves_the_old_file(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir(), *path = gr_test_join(d, "out.bin");
    struct gr_err err;
    struct gr_writer *w = NULL;
    gr_test_write(path, "old", 3);
    gr_test_ok(gr_writer_open(path, &w, &err), &err);
    gr_test_ok(gr_writer_write(w, "abc", 3, &err), &err);
    gr_writer_abort(w);
    gr_writer_abort(NULL);
    assert_content(path, "old");
    assert_int_equal(count_entries(d), 1);
}

static void two_writers_of_one_name_do_not_meet(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir(), *path = gr_test_join(d, "out.bin");
    struct gr_err err;
    struct gr_writer *a = NULL, *b = NULL;
    gr_test_ok(gr_writer_open(path, &a, &err), &err);
    gr_test_ok(gr_writer_open(path, &b, &err), &err);
    gr_test_ok(gr_writer_write(a, "first", 5, &err), &err);
    gr_test_ok(gr_writer_write(b, "second", 6, &err), &err);
    gr_test_ok(gr_writer_commit(b, &err), &err);
    assert_content(path, "second");
    gr_test_ok(gr_writer_commit(a, &err), &err);
    assert_content(path, "first");
    assert_int_equal(count_entries(d), 1);
}

static void a_file_with_the_longest_name_can_be_written(void **state)
{
    (void)state;
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    const char *d = gr_test_temp_dir();
    struct gr_err err;
    gr_test_ok(gr_fs_write(gr_test_join(d, "%s", name), "x", 1, &err), &err);
    assert_int_equal(count_entries(d), 1);
}

static void a_write_that_fails_leaves_nothing(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir(), *path = gr_test_join(d, "out.bin");
    static char bytes[65536];
    struct gr_err err;
    struct rlimit before, small = {40000, 40000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum gr_status direct = gr_fs_write(path, bytes, sizeof bytes, &err);
    /* a caller that ignores the failed write and commits all the same */
    struct gr_err ignored, late;
    struct gr_writer *w = NULL;
    enum gr_status opened = gr_writer_open(path, &w, &ignored), after = GR_OK;
    if (opened == GR_OK) {
        (void)gr_writer_write(w, bytes, sizeof bytes, &ignored);
        (void)gr_writer_write(w, bytes, 1, &ignored);
        after = gr_writer_commit(w, &late);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old);
    assert_int_equal(direct, GR_ERR_IO);
    assert_non_null(strstr(err.msg, "cannot write: File too large"));
    assert_int_equal(opened, GR_OK);
    assert_int_equal(after, GR_ERR_IO);
    assert_int_equal(count_entries(d), 0);
}

static void targets_that_cannot_be_written_are_refused(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir(), *fifo = gr_test_join(d, "fifo");
    struct gr_err err;
    assert_int_equal(mkfifo(fifo, 0600), 0);
    gr_test_fails(gr_fs_write(d, "x", 1, &err), &err, GR_ERR_IO, "is a directory");
    gr_test_fails(gr_fs_write(fifo, "x", 1, &err), &err, GR_ERR_IO, "FIFO");
    gr_test_fails(gr_fs_write("/dev/null", "x", 1, &err), &err, GR_ERR_IO, "device");
    gr_test_fails(gr_fs_write("", "x", 1, &err), &err, GR_ERR_IO, "called ''");
    gr_test_fails(gr_fs_write(gr_test_join(d, "new/"), "x", 1, &err), &err, GR_ERR_IO, "new/");
    gr_test_fails(gr_fs_write(gr_test_join(d, "none/f"), "x", 1, &err), &err, GR_ERR_IO, "No such file");
    assert_int_equal(count_entries(d), 1);
}

static void what_is_needed_is_named_with_its_kind(void **state)
{
    (void)state;
    struct gr_err err;
    const char *d = gr_test_temp_dir();
    char *file = strdup(gr_test_join(d, "file")), *link = strdup(gr_test_join(d, "dangling"));
    gr_test_ok(gr_fs_write(file, "x", 1, &err), &err);
    assert_int_equal(symlink("nowhere", link), 0);
    gr_test_ok(gr_fs_need_file(file, GR_ERR_INPUT, &err), &err);
    gr_test_ok(gr_fs_need_dir(d, GR_ERR_INPUT, &err), &err);
    gr_test_fails(gr_fs_need_dir(file, GR_ERR_FORMAT, &err), &err, GR_ERR_FORMAT, "file: is a file, expected a folder");
    gr_test_fails(gr_fs_need_file(d, GR_ERR_INPUT, &err), &err, GR_ERR_INPUT,
                  "is a directory, expected a regular file");
    gr_test_fails(gr_fs_need_file("/dev/null", GR_ERR_INPUT, &err), &err, GR_ERR_INPUT, "is a character device");
    gr_test_fails(gr_fs_need_file(link, GR_ERR_INPUT, &err), &err, GR_ERR_INPUT, "is a link to nowhere");
    gr_test_fails(gr_fs_need_dir(gr_test_join(d, "none"), GR_ERR_FORMAT, &err), &err, GR_ERR_FORMAT,
                  "none: no such folder");
    gr_test_fails(gr_fs_need_file(gr_test_join(file, "x"), GR_ERR_INPUT, &err), &err, GR_ERR_INPUT, "Not a directory");
    gr_test_fails(gr_fs_need_dir("", GR_ERR_FORMAT, &err), &err, GR_ERR_FORMAT, "name of a folder is empty");
    free(file);
    free(link);
}

static void a_write_follows_a_link_to_its_target(void **state)
{
    (void)state;
    struct gr_err err;
    char out[GR_PATH_BYTES];
    const char *d = gr_test_temp_dir();
    char *file = strdup(gr_test_join(d, "target")), *link = strdup(gr_test_join(d, "link"));
    gr_test_ok(gr_fs_write(file, "x", 1, &err), &err);
    assert_int_equal(symlink("target", link), 0);
    gr_test_ok(gr_fs_follow(out, link, &err), &err);
    assert_string_equal(strrchr(out, '/'), "/target");
    gr_test_ok(gr_fs_follow(out, file, &err), &err);
    assert_string_equal(out, file);
    gr_test_ok(gr_fs_follow(out, "not/there/yet", &err), &err);
    assert_string_equal(out, "not/there/yet");
    assert_int_equal(unlink(file), 0);
    gr_test_fails(gr_fs_follow(out, link, &err), &err, GR_ERR_IO, "is a link to target, which does not exist");
    free(file);
    free(link);
}

static void folders_are_made_with_their_parents(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    struct gr_err err;
    gr_test_ok(gr_fs_mkdirs(gr_test_join(d, "a/b//c/"), &err), &err);
    gr_test_ok(gr_fs_mkdirs(gr_test_join(d, "a/b/c"), &err), &err);
    assert_true(gr_fs_is_dir(gr_test_join(d, "a/b/c")));
    gr_test_write(gr_test_join(d, "a/file"), "x", 1);
    gr_test_fails(gr_fs_mkdirs(gr_test_join(d, "a/file/sub"), &err), &err, GR_ERR_IO, "Not a directory");
    gr_test_fails(gr_fs_mkdirs("", &err), &err, GR_ERR_IO, "folder");
}

static void a_part_of_a_file_is_read_in_place(void **state)
{
    (void)state;
    const char *path = gr_test_join(gr_test_temp_dir(), "part");
    struct gr_err err;
    char got[8] = "";
    int fd = -1;
    size_t size = 0;
    uint64_t room = 0;
    gr_test_write(path, "0123456789", 10);
    gr_test_ok(gr_fs_open(path, &fd, &size, &err), &err);
    assert_int_equal(size, 10);
    gr_test_ok(gr_fs_read_at(fd, path, got, 4, 3, &err), &err);
    assert_memory_equal(got, "3456", 4);
    gr_test_ok(gr_fs_read_at(fd, path, got, 0, 99, &err), &err);
    gr_test_fails(gr_fs_read_at(fd, path, got, 4, 8, &err), &err, GR_ERR_IO, "ends 2 bytes too early");
    close(fd);
    gr_test_ok(gr_fs_free_bytes(path, &room, &err), &err);
    assert_true(room > 0);
    gr_test_fails(gr_fs_free_bytes("/nowhere/at/all", &room, &err), &err, GR_ERR_IO, "No such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_join_with_one_slash),
        cmocka_unit_test(a_file_is_read_whole_with_a_nul_behind),
        cmocka_unit_test(files_that_hide_their_size_are_read_and_limited),
        cmocka_unit_test(what_is_not_a_regular_file_is_refused_by_kind),
        cmocka_unit_test(an_unreadable_file_says_so),
        cmocka_unit_test(a_mapping_shows_the_file_and_survives_done),
        cmocka_unit_test(done_gives_pages_back),
        cmocka_unit_test(an_empty_file_maps_to_nothing),
        cmocka_unit_test(a_file_appears_at_commit_and_not_before),
        cmocka_unit_test(an_abort_leaves_the_old_file),
        cmocka_unit_test(two_writers_of_one_name_do_not_meet),
        cmocka_unit_test(a_file_with_the_longest_name_can_be_written),
        cmocka_unit_test(a_write_that_fails_leaves_nothing),
        cmocka_unit_test(targets_that_cannot_be_written_are_refused),
        cmocka_unit_test(what_is_needed_is_named_with_its_kind),
        cmocka_unit_test(a_write_follows_a_link_to_its_target),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(a_part_of_a_file_is_read_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
