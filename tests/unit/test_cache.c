/* SPDX-License-Identifier: Apache-2.0
 *
 * test_cache.c: the file of packed weights under every kind of damage and neglect: it is used only when it is whole and ours, and nothing
 * about it ever ends a load. */
#include "gr_test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/cache.h"

enum { CHUNK = 1 << 20, BYTES = 2 * CHUNK + CHUNK / 2 + 3, HEAD = 4096, FIXED = 48 };

static const char key[] = "weights 0123; kernels avx2; policy exact; slot 20";
static struct gr_pool *pool;
static uint8_t *block, *out;

static int set_up(void **state)
{
    (void)state;
    struct gr_err err;
    block = malloc(4 * CHUNK);
    out = malloc(4 * CHUNK);
    uint32_t x = 7;
    for (size_t i = 0; i < 4 * CHUNK; i++) {
        x = x * 1664525u + 1013904223u;
        block[i] = (uint8_t)(x >> 24);
    }
    return gr_pool_new(3, &pool, &err) == GR_OK ? 0 : -1;
}

static int clean_up(void **state)
{
    gr_pool_free(pool);
    free(block);
    free(out);
    return gr_test_temp_clean(state);
}

static struct gr_cache cache_in(const char *dir, const char *k)
{
    struct gr_cache c = {.pool = pool};
    gr_cache_init(&c, dir, k);
    return c;
}

static bool reads(const char *dir, struct gr_cache *c)
{
    *c = cache_in(dir, key);
    memset(out, 0, BYTES);
    bool warm = gr_cache_read(c, out, BYTES);
    assert_int_equal(c->state, warm ? GR_CACHE_WARM : GR_CACHE_UNWRITTEN);
    if (warm) {
        assert_memory_equal(out, block, BYTES);
        assert_string_equal(c->note, "");
    }
    return warm;
}

static void writes(const char *dir, char path[GR_PATH_BYTES])
{
    struct gr_cache c = cache_in(dir, key);
    gr_cache_write(&c, block, BYTES);
    if (c.state != GR_CACHE_WRITTEN) {
        fail_msg("not written: %s", c.note);
    }
    snprintf(path, GR_PATH_BYTES, "%s", c.path);
}

static int files_in(const char *dir, const char *part)
{
    DIR *d = opendir(dir);
    int n = 0;
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strstr(e->d_name, part) != NULL;
    }
    closedir(d);
    return n;
}

/* The file at path is refused with a note that has `text`, then replaced by a good one. */
static void refused_then_rebuilt(const char *dir, const char *path, const char *text)
{
    struct gr_cache c;
    char again[GR_PATH_BYTES];
    if (reads(dir, &c) || strstr(c.note, text) == NULL) {
        fail_msg("expected a note with '%s', found '%s', state %d", text, c.note, (int)c.state);
    }
    gr_cache_write(&c, block, BYTES);
    assert_int_equal(c.state, GR_CACHE_WRITTEN);
    assert_true(strstr(c.note, text) != NULL); /* why it was rebuilt stays to be read */
    assert_string_equal(c.path, path);
    assert_true(reads(dir, &c));
    writes(dir, again);
    assert_int_equal(files_in(dir, ""), 1);
}

static void flip(const char *path, size_t at, int mask)
{
    int fd = open(path, O_RDWR);
    uint8_t b;
    assert_int_equal(pread(fd, &b, 1, (off_t)at), 1);
    b ^= (uint8_t)mask;
    assert_int_equal(pwrite(fd, &b, 1, (off_t)at), 1);
    close(fd);
}

/* ---- good files ---- */

static void what_is_stored_comes_back(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const char *dir = gr_test_temp_dir();
        struct gr_cache c = cache_in(dir, key);
        assert_false(gr_cache_read(&c, out, sizes[i]));
        assert_string_equal(c.note, "");
        gr_cache_write(&c, block, sizes[i]);
        assert_int_equal(c.state, GR_CACHE_WRITTEN);
        memset(out, 0xee, 4 * CHUNK);
        c = cache_in(dir, key);
        assert_true(gr_cache_read(&c, out, sizes[i]));
        assert_memory_equal(out, block, sizes[i]);
        assert_int_equal(out[sizes[i]], 0xee);
    }
}

static void the_folder_and_its_parents_are_made(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_join(gr_test_temp_dir(), "a/b/c");
    struct gr_cache c;
    assert_false(reads(dir, &c));
    assert_string_equal(c.note, "");
    writes(dir, path);
    assert_true(reads(dir, &c));
    assert_true(reads(gr_test_join(dir, "/"), &c));
}

static void other_keys_have_other_files(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    writes(dir, path);
    struct gr_cache c = cache_in(dir, "weights 0124");
    assert_string_not_equal(c.path, path);
    assert_false(gr_cache_read(&c, out, BYTES));
    gr_cache_write(&c, block, BYTES);
    assert_int_equal(files_in(dir, "packed-"), 2);
    assert_true(reads(dir, &c));
}

struct seen {
    int calls;
    uint64_t last, total;
    const char *what;
};

static void see(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct seen *s = user;
    assert_true(s->what == NULL || strcmp(s->what, what) != 0 || done >= s->last);
    *s = (struct seen){.calls = s->calls + 1, .last = done, .total = total, .what = what};
}

static void progress_names_the_step_and_ends_at_the_total(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    struct seen s = {0};
    struct gr_cache c = {.pool = pool, .progress = see, .progress_user = &s};
    gr_cache_init(&c, dir, key);
    gr_cache_write(&c, block, BYTES);
    assert_string_equal(s.what, "store packed weights");
    assert_true(s.calls > 0 && s.last == BYTES && s.total == BYTES);
    assert_true(gr_cache_read(&c, out, BYTES));
    assert_string_equal(s.what, "read packed weights");
    assert_true(s.last == BYTES && s.total == BYTES);
}

/* ---- bad files ---- */

static void every_damaged_byte_of_the_header_is_noticed(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    struct gr_cache c;
    writes(dir, path);
    for (size_t at = 0; at < HEAD; at++) {
        flip(path, at, 1 << at % 8);
        if (reads(dir, &c) || c.note[0] == '\0') {
            fail_msg("byte %zu of the header", at);
        }
        flip(path, at, 1 << at % 8);
    }
    assert_true(reads(dir, &c));
}

static void fields_of_the_header_are_named(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        const char *text;
    } cases[] = {{0, "is not a file of packed weights"},
                 {8, "format version"},
                 {12, "byte order"},
                 {16, "header"},
                 {24, "header"},
                 {32, "header"},
                 {40, "header"},
                 {FIXED, "header"}};
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        writes(dir, path);
        flip(path, cases[i].at, 0x80);
        refused_then_rebuilt(dir, path, cases[i].text);
    }
}

static void random_damage_of_the_data_is_noticed(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    struct gr_cache c;
    uint32_t x = 99;
    writes(dir, path);
    for (int i = 0; i < 200; i++) {
        x = x * 1664525u + 1013904223u;
        const size_t at = i == 0 ? HEAD : i == 1 ? HEAD + BYTES - 1 : HEAD + (x >> 3) % BYTES;
        const int mask = 1 << (x & 7);
        flip(path, at, mask);
        if (reads(dir, &c) || strstr(c.note, "damaged") == NULL) {
            fail_msg("byte %zu", at);
        }
        flip(path, at, mask);
    }
    assert_true(reads(dir, &c));
    flip(path, HEAD + CHUNK, 1);
    refused_then_rebuilt(dir, path, "is damaged at byte 1052672");
}

static void exchanged_chunks_are_noticed(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    writes(dir, path);
    uint8_t *file = gr_test_read(path, NULL);
    memcpy(out, file + HEAD, CHUNK);
    memcpy(file + HEAD, file + HEAD + CHUNK, CHUNK);
    memcpy(file + HEAD + CHUNK, out, CHUNK);
    gr_test_write(path, file, HEAD + BYTES);
    free(file);
    refused_then_rebuilt(dir, path, "damaged");
}

static void a_file_of_another_length_is_rebuilt(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 47, HEAD - 1, HEAD, HEAD + 1, HEAD + CHUNK, HEAD + BYTES - 1, HEAD + BYTES + 1};
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        writes(dir, path);
        assert_int_equal(truncate(path, (off_t)sizes[i]), 0);
        refused_then_rebuilt(dir, path, "expected");
    }
}

static void foreign_files_are_rebuilt(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES], other[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    writes(dir, path);
    memset(out, '<', HEAD + BYTES);
    gr_test_write(path, out, HEAD + BYTES);
    refused_then_rebuilt(dir, path, "is not a file of packed weights");
    struct gr_cache c = cache_in(dir, "other weights"); /* good, and under our name */
    gr_cache_write(&c, block, BYTES);
    snprintf(other, sizeof other, "%s", c.path);
    assert_int_equal(rename(other, path), 0);
    refused_then_rebuilt(dir, path, "belongs to other weights");
    c = cache_in(dir, key); /* our key, another layout */
    gr_cache_write(&c, block, BYTES - 100);
    assert_int_equal(c.state, GR_CACHE_WRITTEN);
    refused_then_rebuilt(dir, path, "holds 2621343 bytes, expected 2621443");
}

/* ---- bad places ---- */

static void stays_unwritten(const char *dir, const char *text)
{
    struct gr_cache c;
    assert_false(reads(dir, &c));
    gr_cache_write(&c, block, BYTES);
    if (c.state != GR_CACHE_UNWRITTEN || strstr(c.note, text) == NULL) {
        fail_msg("expected '%s', found '%s', state %d", text, c.note, (int)c.state);
    }
}

static void what_is_not_a_file_is_left_alone(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    writes(dir, path);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    stays_unwritten(dir, "a directory");
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
    stays_unwritten(dir, "FIFO");
    assert_int_equal(remove(path), 0);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    struct gr_cache c;
    assert_false(reads(dir, &c));
    gr_cache_write(&c, block, BYTES); /* a link that leads nowhere is in nobody's way */
    assert_int_equal(c.state, GR_CACHE_WRITTEN);
}

static void a_bad_folder_is_survived(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir(), *file = gr_test_join(dir, "file");
    gr_test_write(file, "x", 1);
    stays_unwritten(file, "Not a directory");
    stays_unwritten(gr_test_join(file, "deeper"), "Not a directory");
    stays_unwritten("", "empty");
    char *long_name = malloc(GR_PATH_BYTES + 10);
    memset(long_name, 'a', GR_PATH_BYTES + 9);
    long_name[0] = '/';
    long_name[GR_PATH_BYTES + 9] = '\0';
    stays_unwritten(long_name, "too long");
    free(long_name);
    struct gr_cache c = cache_in(NULL, key);
    assert_int_equal(c.state, GR_CACHE_OFF);
}

/* Children use one thread: the thread sanitizer allows no new ones after a fork.
 *
 * Runs `body` in a child without special rights; its exit code. */
static int as_nobody(void (*body)(const char *dir), const char *dir)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct gr_err err;
        if (gr_pool_new(1, &pool, &err) != GR_OK || (geteuid() == 0 && seteuid(65534) != 0)) {
            _exit(3);
        }
        body(dir);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void expect(bool ok, int code)
{
    if (!ok) {
        _exit(code);
    }
}

static void read_only_body(const char *dir)
{
    struct gr_cache c = cache_in(dir, key);
    expect(gr_cache_read(&c, out, BYTES), 10); /* what is there is used */
    c = cache_in(dir, "other");
    expect(!gr_cache_read(&c, out, BYTES), 11);
    gr_cache_write(&c, block, BYTES);
    expect(c.state == GR_CACHE_UNWRITTEN && strstr(c.note, "Permission denied") != NULL, 12);
    c = cache_in(gr_test_join(dir, "below"), key);
    gr_cache_write(&c, block, BYTES);
    expect(c.state == GR_CACHE_UNWRITTEN && strstr(c.note, "Permission denied") != NULL, 13);
}

static void secret_body(const char *dir)
{
    struct gr_cache c = cache_in(dir, key);
    expect(!gr_cache_read(&c, out, BYTES), 20);
    expect(strstr(c.note, "Permission denied") != NULL, 21);
}

static void limited_body(const char *dir)
{
    struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, 30);
    struct gr_cache c = cache_in(dir, "limited");
    gr_cache_write(&c, block, BYTES);
    expect(c.state == GR_CACHE_UNWRITTEN && strstr(c.note, "are free") != NULL, 31);
}

static void missing_rights_are_survived(void **state)
{
    (void)state;
    char path[GR_PATH_BYTES];
    const char *dir = gr_test_temp_dir();
    assert_int_equal(chmod(dir, 0755), 0);
    writes(dir, path);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    int read_only = as_nobody(read_only_body, dir);
    assert_int_equal(chmod(path, 0000), 0);
    int secret = as_nobody(secret_body, dir);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(read_only, 0);
    assert_int_equal(secret, 0);
    assert_int_equal(as_nobody(limited_body, dir), 0);
    assert_int_equal(files_in(dir, ""), 1);
}

/* ---- several processes, killed processes ---- */

/* A child that reads and writes until it is stopped; exit code 0 after `rounds`. */
static pid_t spawn(const char *dir, int rounds)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0) {
        return pid;
    }
    struct gr_err err;
    expect(gr_pool_new(1, &pool, &err) == GR_OK, 40);
    for (int i = 0; i < rounds; i++) {
        struct gr_cache c = cache_in(dir, key);
        if (gr_cache_read(&c, out, BYTES)) {
            expect(memcmp(out, block, BYTES) == 0, 41);
        } else {
            expect(c.note[0] == '\0', 42); /* never a part of a file */
        }
        gr_cache_write(&c, block, BYTES);
        expect(c.state == GR_CACHE_WRITTEN, 43);
    }
    _exit(0);
}

static void processes_that_start_at_once_share_a_folder(void **state)
{
    (void)state;
    enum { CHILDREN = 3 };
    const char *dir = gr_test_temp_dir();
    pid_t pid[CHILDREN];
    for (int i = 0; i < CHILDREN; i++) {
        pid[i] = spawn(dir, 5);
    }
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    struct gr_cache c;
    assert_true(reads(dir, &c));
    assert_int_equal(files_in(dir, ""), 1);
}

static void a_kill_at_any_moment_leaves_a_good_file_or_none(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    struct gr_cache c;
    uint32_t x = 3;
    int found = 0;
    for (int i = 0; i < 24; i++) {
        pid_t pid = spawn(dir, 1000);
        x = x * 1664525u + 1013904223u;
        usleep(1000 + (x >> 16) % 20000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        found += reads(dir, &c);
        assert_string_equal(c.note, "");
        assert_int_equal(files_in(dir, ".tmp-"), 0); /* a start cleans up */
        if (i % 4 == 0 && c.state == GR_CACHE_WARM) {
            assert_int_equal(remove(c.path), 0);
        }
    }
    print_message("# %d of 24 kills left a file\n", found);
}

static void the_sweep_spares_living_writers_and_other_files(void **state)
{
    (void)state;
    const char *dir = gr_test_temp_dir();
    char target[GR_PATH_BYTES];
    struct gr_err err;
    struct gr_writer *w = NULL;
    snprintf(target, sizeof target, "%s", gr_test_join(dir, "packed-1"));
    gr_test_write(gr_test_join(dir, ".packed-2.tmp-1-0"), "x", 1);
    gr_test_write(gr_test_join(dir, ".golden.tmp-1-0"), "x", 1);
    gr_test_write(gr_test_join(dir, "packed-3.tmp-1-0"), "x", 1);
    assert_int_equal(symlink(target, gr_test_join(dir, ".packed-4.tmp-1-0")), 0);
    gr_test_ok(gr_writer_open(target, &w, &err), &err);
    gr_test_ok(gr_writer_write(w, "abc", 3, &err), &err);
    gr_writer_sweep(dir, "packed-");
    gr_test_ok(gr_writer_commit(w, &err), &err);
    assert_true(gr_test_exists(target));
    assert_false(gr_test_exists(gr_test_join(dir, ".packed-2.tmp-1-0")));
    assert_true(gr_test_exists(gr_test_join(dir, ".golden.tmp-1-0")));
    assert_true(gr_test_exists(gr_test_join(dir, "packed-3.tmp-1-0")));
    gr_writer_sweep(gr_test_join(dir, "absent"), "packed-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_stored_comes_back),
        cmocka_unit_test(the_folder_and_its_parents_are_made),
        cmocka_unit_test(other_keys_have_other_files),
        cmocka_unit_test(progress_names_the_step_and_ends_at_the_total),
        cmocka_unit_test(every_damaged_byte_of_the_header_is_noticed),
        cmocka_unit_test(fields_of_the_header_are_named),
        cmocka_unit_test(random_damage_of_the_data_is_noticed),
        cmocka_unit_test(exchanged_chunks_are_noticed),
        cmocka_unit_test(a_file_of_another_length_is_rebuilt),
        cmocka_unit_test(foreign_files_are_rebuilt),
        cmocka_unit_test(what_is_not_a_file_is_left_alone),
        cmocka_unit_test(a_bad_folder_is_survived),
        cmocka_unit_test(missing_rights_are_survived),
        cmocka_unit_test(processes_that_start_at_once_share_a_folder),
        cmocka_unit_test(a_kill_at_any_moment_leaves_a_good_file_or_none),
        cmocka_unit_test(the_sweep_spares_living_writers_and_other_files),
    };
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
