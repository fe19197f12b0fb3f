/* SPDX-License-Identifier: Apache-2.0
 *
 * test_verify.c: checksums of a folder against a sums file, the Hub cache's blob names and a download's records. */
#include "gr_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/verify.h"

/* SHA-256 and git blob SHA-1 (git hash-object) of "hello\n" and of "world\n". */
#define HELLO "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
#define WORLD "e258d248fda94c63753607f7c4494ee0fcbe92f1a76bfdac795c9d84101eb317"
#define HELLO_GIT "ce013625030ba8dba906f756967f9e9ca394464a"
#define EMPTY_GIT "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"

struct log {
    char text[2048];
    struct gr_verify_counts counts;
    struct gr_err err;
    int progress_calls;
    uint64_t done, total;
};

static void note(void *user, const struct gr_verify_file *f)
{
    struct log *log = user;
    size_t n = strlen(log->text);
    snprintf(log->text + n, sizeof log->text - n, "%s=%s;", f->name, gr_verify_result_name(f->result));
    assert_true(f->expected != NULL || f->result == GR_VERIFY_UNKNOWN || f->result == GR_VERIFY_MISSING);
    assert_true((f->found == NULL) == (f->result == GR_VERIFY_MISSING));
    if (f->result == GR_VERIFY_OK) {
        assert_string_equal(f->expected, f->found);
        assert_int_equal(strlen(f->found), strcmp(f->kind, "git") == 0 ? 40 : 64);
    }
}

static void progress(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct log *log = user;
    assert_string_equal(what, "hash files");
    assert_true(done >= log->done);
    log->progress_calls++;
    log->done = done;
    log->total = total;
}

static enum gr_status verify(const char *dir, const char *sums, struct log *log)
{
    *log = (struct log){.text = ""};
    return gr_verify_dir(dir, sums, progress, log, note, log, &log->counts, &log->err);
}

static void put(const char *dir, const char *name, const char *text)
{
    gr_test_write(gr_test_join(dir, "%s", name), text, strlen(text));
}

static void a_folder_that_matches_its_sums_passes(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    struct log log;
    put(d, "a", "hello\n");
    assert_int_equal(mkdir(gr_test_join(d, "sub"), 0777), 0);
    put(d, "sub/b", "world\n");
    put(d, "SHA256SUMS", "# comment\n" HELLO "  a\r\n\n" WORLD " *./sub/b\n");
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_string_equal(log.text, "a=ok;sub/b=ok;");
    assert_int_equal(log.counts.ok, 2);
    assert_int_equal(log.counts.bytes, 12);
    assert_string_equal(log.counts.source, "sums file");
    assert_true(log.progress_calls >= 1);
    assert_int_equal(log.done, 12);
    assert_int_equal(log.total, 12);
}

static void one_flipped_bit_is_found(void **state)
{
    (void)state;
    enum { SIZE = 3 * 1024 * 1024 + 17 };
    const char *d = gr_test_temp_dir();
    static uint8_t bytes[SIZE];
    char hex[65], sums[128];
    struct log log;
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 131 + i / 997);
    }
    gr_test_sha256(bytes, SIZE, hex);
    snprintf(sums, sizeof sums, "%s  w\n", hex);
    put(d, "SHA256SUMS", sums);
    gr_test_write(gr_test_join(d, "w"), bytes, SIZE);
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    static const size_t places[] = {0, 1 << 20, SIZE - 1};
    for (size_t i = 0; i < 3; i++) {
        bytes[places[i]] ^= 4;
        gr_test_write(gr_test_join(d, "w"), bytes, SIZE);
        bytes[places[i]] ^= 4;
        assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
        assert_string_equal(log.text, "w=mismatch;");
        assert_non_null(strstr(log.err.msg, "1 files differ"));
        assert_non_null(strstr(log.err.msg, "first: w"));
    }
}

static void missing_and_unlisted_files_are_told_apart(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    struct log log;
    put(d, "a", "hello\n");
    put(d, "extra", "x");
    put(d, ".hidden", "x");
    put(d, "SHA256SUMS", HELLO "  a\n" HELLO "  gone\n" WORLD "  no/such/folder\n");
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    assert_string_equal(log.text, "a=ok;extra=unknown;gone=missing;no/such/folder=missing;");
    assert_int_equal(log.counts.missing, 2);
    assert_int_equal(log.counts.unknown, 1);
    assert_non_null(strstr(log.err.msg, "2 are missing; first: gone"));
}

static void a_hidden_file_counts_when_it_is_listed(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    struct log log;
    put(d, ".gitattributes", "hello\n");
    put(d, "SHA256SUMS", HELLO "  .gitattributes\n");
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_string_equal(log.text, ".gitattributes=ok;");
}

static void a_sums_file_may_lie_elsewhere_and_escape_names(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir(), *other = gr_test_temp_dir();
    struct log log;
    put(d, "back\\slash", "hello\n");
    put(d, "line\nfeed", "world\n");
    put(other, "sums", "\\" HELLO "  back\\\\slash\n\\" WORLD "  line\\nfeed\n");
    assert_int_equal(verify(d, gr_test_join(other, "sums"), &log), GR_OK);
    assert_int_equal(log.counts.ok, 2);
    assert_int_equal(verify(d, gr_test_join(other, "none"), &log), GR_ERR_IO);
}

static void a_broken_sums_file_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "no checksum in it"},
        {"# nothing\n", "no checksum in it"},
        {HELLO "  a\nxyz\n", "line 2: expected 64 hex digits"},
        {HELLO " a\n", "line 1: expected 64 hex digits"},
        {"g" HELLO "  a\n", "line 1: expected 64 hex digits"},
        {HELLO "  \n", "line 1: expected 64 hex digits"},
        {HELLO "  ../a\n", "is not a name inside the folder"},
        {HELLO "  sub/../../a\n", "is not a name inside the folder"},
        {HELLO "  /etc/passwd\n", "is not a name inside the folder"},
        {"\\" HELLO "  a\\x\n", "unknown escape"},
        {HELLO "  a\n" HELLO "  ./a\n", "a is listed twice"},
    };
    const char *d = gr_test_temp_dir();
    put(d, "a", "hello\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct log log;
        put(d, "SHA256SUMS", cases[i].text);
        assert_int_equal(verify(d, NULL, &log), GR_ERR_FORMAT);
        if (strstr(log.err.msg, cases[i].message) == NULL) {
            fail_msg("case %zu: %s", i, log.err.msg);
        }
        assert_string_equal(log.text, "");
    }
}

/* .../blobs and .../snapshots/rev with links, as the Hub's tools lay them out. */
static const char *hub_folder(void)
{
    const char *d = gr_test_temp_dir();
    assert_int_equal(mkdir(gr_test_join(d, "blobs"), 0777), 0);
    assert_int_equal(mkdir(gr_test_join(d, "snapshots"), 0777), 0);
    assert_int_equal(mkdir(gr_test_join(d, "snapshots/rev"), 0777), 0);
    assert_int_equal(mkdir(gr_test_join(d, "snapshots/rev/sub"), 0777), 0);
    put(d, "blobs/" HELLO, "hello\n");
    put(d, "blobs/" HELLO_GIT, "hello\n");
    put(d, "blobs/" EMPTY_GIT, "");
    assert_int_equal(symlink("../../blobs/" HELLO, gr_test_join(d, "snapshots/rev/w.safetensors")), 0);
    assert_int_equal(symlink("../../blobs/" HELLO_GIT, gr_test_join(d, "snapshots/rev/config.json")), 0);
    assert_int_equal(symlink("../../../blobs/" EMPTY_GIT, gr_test_join(d, "snapshots/rev/sub/empty.txt")), 0);
    return d;
}

static void blob_names_of_the_hub_cache_are_checksums(void **state)
{
    (void)state;
    const char *d = hub_folder();
    struct log log;
    assert_int_equal(verify(gr_test_join(d, "snapshots/rev"), NULL, &log), GR_OK);
    assert_string_equal(log.text, "config.json=ok;sub/empty.txt=ok;w.safetensors=ok;");
    assert_string_equal(log.counts.source, "Hub cache");
}

static void damaged_and_absent_blobs_are_found(void **state)
{
    (void)state;
    const char *d = hub_folder();
    struct log log;
    put(d, "blobs/" HELLO, "hellp\n");
    assert_int_equal(unlink(gr_test_join(d, "blobs/" HELLO_GIT)), 0);
    put(d, "snapshots/rev/notes", "mine");
    assert_int_equal(verify(gr_test_join(d, "snapshots/rev"), NULL, &log), GR_ERR_CHECK);
    assert_string_equal(log.text, "config.json=missing;notes=unknown;sub/empty.txt=ok;w.safetensors=mismatch;");
    assert_non_null(strstr(log.err.msg, "1 files differ from their checksum, 1 are missing; first: config.json"));
}

#define COMMIT "11c5a3d5811f50298f278a704980280950aedb10\n"
#define TIME "\n1712656091.123\n"
#define RECORDS ".cache/huggingface/download"

/* A folder with three files, as the Hub's client leaves it after a download into it. */
static const char *download_folder(void)
{
    static const char *const folders[] = {"sub", ".cache", ".cache/huggingface", RECORDS, RECORDS "/sub"};
    const char *d = gr_test_temp_dir();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        assert_int_equal(mkdir(gr_test_join(d, "%s", folders[i]), 0777), 0);
    }
    put(d, "config.json", "hello\n");
    put(d, "w.safetensors", "world\n");
    put(d, "sub/empty.txt", "");
    put(d, RECORDS "/config.json.metadata", COMMIT HELLO_GIT TIME);
    put(d, RECORDS "/config.json.lock", "");
    put(d, RECORDS "/w.safetensors.metadata", COMMIT WORLD TIME);
    put(d, RECORDS "/sub/empty.txt.metadata", COMMIT EMPTY_GIT TIME);
    return d;
}

static void records_of_a_download_are_checksums(void **state)
{
    (void)state;
    const char *d = download_folder();
    struct log log;
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_string_equal(log.text, "config.json=ok;sub/empty.txt=ok;w.safetensors=ok;");
    assert_string_equal(log.counts.source, "Hub download");
    assert_int_equal(log.counts.bytes, 12);
    put(d, RECORDS "/config.json.metadata", "11C5A3D5811F50298F278A704980280950AEDB10\r\n" HELLO_GIT "\r\n1712656091");
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_int_equal(log.counts.ok, 3);
}

static void damaged_and_absent_files_of_a_download_are_found(void **state)
{
    (void)state;
    const char *d = download_folder();
    struct log log;
    put(d, "w.safetensors", "worle\n");
    put(d, "notes", "mine");
    assert_int_equal(unlink(gr_test_join(d, "config.json")), 0);
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    assert_string_equal(log.text, "config.json=missing;notes=unknown;sub/empty.txt=ok;w.safetensors=mismatch;");
    assert_non_null(strstr(log.err.msg, "1 files differ from their checksum, 1 are missing; first: config.json"));
    put(d, "config.json", "world\n");
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    assert_int_equal(log.counts.mismatch, 2);
}

static void a_malformed_record_counts_as_none(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "\n",
        "\n\n\n",
        "x",
        HELLO_GIT,
        COMMIT,                           /* cut short */
        COMMIT HELLO_GIT,                 /* without a time */
        COMMIT HELLO_GIT "\n\n",          /* an empty time */
        COMMIT HELLO_GIT "\nyesterday\n", /* no number */
        COMMIT HELLO_GIT TIME "\n",       /* a fourth line */
        COMMIT HELLO_GIT "0" TIME,        /* 41 digits */
        COMMIT "\"" HELLO_GIT "\"" TIME,  /* quoted */
        COMMIT "ge013625030ba8dba906f756967f9e9ca394464a" TIME,
        "main\n" HELLO_GIT TIME, /* a branch */
        HELLO_GIT TIME,          /* no commit */
    };
    const char *d = download_folder();
    struct log log;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(d, RECORDS "/config.json.metadata", cases[i]);
        assert_int_equal(verify(d, NULL, &log), GR_OK);
        if (strcmp(log.text, "config.json=unknown;sub/empty.txt=ok;w.safetensors=ok;") != 0) {
            fail_msg("case %zu: %s", i, log.text);
        }
    }
    static const char nul[] = COMMIT HELLO_GIT TIME "\0";
    const char *record = gr_test_join(d, RECORDS "/config.json.metadata");
    gr_test_write(record, nul, sizeof nul);
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_int_equal(log.counts.unknown, 1);
    static char large[8192];
    memset(large, '1', sizeof large);
    memcpy(large, nul, sizeof nul - 3);
    gr_test_write(record, large, sizeof large);
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_int_equal(log.counts.unknown, 1);
    assert_int_equal(unlink(record), 0);
    assert_int_equal(mkfifo(record, 0666), 0); /* and links to nowhere: no regular file */
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_int_equal(log.counts.unknown, 1);
    assert_int_equal(unlink(record), 0);
    assert_int_equal(symlink("nowhere", record), 0);
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_int_equal(log.counts.unknown, 1);
}

static void a_sums_file_goes_before_links_and_links_before_records(void **state)
{
    (void)state;
    const char *d = download_folder();
    struct log log;
    put(d, RECORDS "/config.json.metadata", COMMIT WORLD TIME);
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    assert_int_equal(mkdir(gr_test_join(d, ".cache/blobs"), 0777), 0);
    put(d, ".cache/blobs/" HELLO_GIT, "hello\n");
    assert_int_equal(unlink(gr_test_join(d, "config.json")), 0);
    assert_int_equal(symlink(".cache/blobs/" HELLO_GIT, gr_test_join(d, "config.json")), 0);
    assert_int_equal(verify(d, NULL, &log), GR_OK);
    assert_string_equal(log.text, "config.json=ok;sub/empty.txt=ok;w.safetensors=ok;");
    assert_string_equal(log.counts.source, "Hub cache");
    put(d, "SHA256SUMS", WORLD "  config.json\n");
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    assert_string_equal(log.text, "config.json=mismatch;sub/empty.txt=unknown;w.safetensors=unknown;");
    assert_string_equal(log.counts.source, "sums file");
}

static void a_folder_without_any_checksum_does_not_pass(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    struct log log;
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    put(d, "a", "hello\n");
    assert_int_equal(symlink("elsewhere/" HELLO, gr_test_join(d, "link")), 0); /* not a blobs folder */
    assert_int_equal(verify(d, NULL, &log), GR_ERR_CHECK);
    assert_string_equal(log.counts.source, "none");
    assert_string_equal(log.text, "a=unknown;link=missing;"); /* a link to nowhere is a fault in any case */
    assert_int_equal(verify(gr_test_join(d, "none"), NULL, &log), GR_ERR_FORMAT);
}

static void callbacks_may_be_absent(void **state)
{
    (void)state;
    const char *d = gr_test_temp_dir();
    struct gr_verify_counts counts;
    struct gr_err err;
    put(d, "a", "hello\n");
    put(d, "SHA256SUMS", HELLO "  a\n");
    gr_test_ok(gr_verify_dir(d, NULL, NULL, NULL, NULL, NULL, &counts, &err), &err);
    assert_int_equal(counts.ok, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_matches_its_sums_passes),
        cmocka_unit_test(one_flipped_bit_is_found),
        cmocka_unit_test(missing_and_unlisted_files_are_told_apart),
        cmocka_unit_test(a_hidden_file_counts_when_it_is_listed),
        cmocka_unit_test(a_sums_file_may_lie_elsewhere_and_escape_names),
        cmocka_unit_test(a_broken_sums_file_is_refused_with_its_line),
        cmocka_unit_test(blob_names_of_the_hub_cache_are_checksums),
        cmocka_unit_test(damaged_and_absent_blobs_are_found),
        cmocka_unit_test(records_of_a_download_are_checksums),
        cmocka_unit_test(damaged_and_absent_files_of_a_download_are_found),
        cmocka_unit_test(a_malformed_record_counts_as_none),
        cmocka_unit_test(a_sums_file_goes_before_links_and_links_before_records),
        cmocka_unit_test(a_folder_without_any_checksum_does_not_pass),
        cmocka_unit_test(callbacks_may_be_absent),
    };
    return cmocka_run_group_tests(tests, NULL, gr_test_temp_clean);
}
