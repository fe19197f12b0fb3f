/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_kmd.c: a card behind the kernel driver, which support/kmd_shim.c plays: opening and what refuses it, identity, windows, who holds the card,
 * what is left when a process goes. */
#include "gr_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/blackhole/chip.h"
#include "device/blackhole/chip_identity.h"
#include "device/blackhole/chip_impl.h"

#define WORDS 4096
#define HELD UINT32_C(0x47800)

static const char *dir;

/* The card that node n is. */
static void card(int n, const char *words)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%d", dir, n);
    gr_test_write(path, words, strlen(words));
}

static int set_up(void **state)
{
    (void)state;
    dir = gr_test_temp_dir();
    return setenv("GR_TEST_KMD", dir, 1);
}

static const struct gr_chip_cfg node0;

static struct gr_chip *opened(const char *words)
{
    struct gr_chip *chip = NULL;
    struct gr_err err;
    card(0, words);
    gr_test_ok(gr_chip_open(&node0, &chip, &err), &err);
    return chip;
}

static void refused(const char *words, const char *part)
{
    struct gr_chip *chip = NULL;
    struct gr_err err = {0};
    card(0, words);
    assert_int_equal(gr_chip_open(&node0, &chip, &err), GR_ERR_DEVICE);
    assert_null(chip);
    if (strstr(err.msg, part) == NULL || strncmp(err.msg, "/dev/tenstorrent/0: ", 20) != 0 ||
        strchr(err.msg, '\n') != NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
    }
    /* The card stays usable. */
    gr_chip_close(opened(""));
}

static void identity_comes_from_driver_and_firmware(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    const struct gr_chip_identity *id = gr_chip_identity(chip);
    assert_false(gr_chip_is_sim(chip));
    assert_string_equal(id->node, "/dev/tenstorrent/0");
    assert_string_equal(id->board, "p150a");
    assert_true(id->board_id == UINT64_C(0x40000001234));
    assert_int_equal(id->columns, 12);
    assert_int_equal(id->channels, 8);
    assert_int_equal(id->firmware[0] << 24 | id->firmware[1] << 16 | id->firmware[2] << 8 | id->firmware[3],
                     0x12070000);
    assert_int_equal(id->driver[0] * 10000 + id->driver[1] * 100 + id->driver[2], 21001);
    assert_int_equal(id->aiclk_mhz, 1350);
    assert_int_equal(id->axiclk_mhz, 960);
    assert_int_equal(id->arcclk_mhz, 800);
    assert_int_equal(id->dram_mhz, 16000);
    assert_true(id->celsius == 45.5f);
    assert_string_equal(id->pci, "0000:c1:00.0");
    assert_string_equal(id->note, "");
    gr_chip_close(chip);
}

static void boards_have_the_names_of_their_serial_numbers(void **state)
{
    (void)state;
    assert_string_equal(gr_chip_board_name(UINT64_C(0x41) << 36 | 5), "p150b");
    assert_string_equal(gr_chip_board_name(UINT64_C(0x46) << 36), "p300c");
    assert_string_equal(gr_chip_board_name(UINT64_C(0x14) << 36), ""); /* a Wormhole board */
    struct gr_chip *chip = opened("board=99");
    assert_string_equal(gr_chip_identity(chip)->board, "unknown");
    gr_chip_close(chip);
}

static void what_cannot_work_is_refused_in_one_line(void **state)
{
    (void)state;
    refused("interface=1 driver=1.34.0", "tt-kmd 1.34.0 is too old: 2.0.0");
    refused("pci=401e", "not a Blackhole: PCI device 1e52:401e (a Wormhole), expected 1e52:b140");
    refused("open=13", "no permission");
    refused("open=2", "no such device");
    refused("open=11", "busy");
    refused("open=5", "Input/output error");
    refused("boot=1", "firmware is not up (status 0x00000001)");
    refused("table=0", "no telemetry table");
    refused("translated=0", "does not translate");
    refused("mute=34", "firmware 18.7.0 does not say which Tensix columns");
    refused("channels=7 board=43", "board p100a has 7 of 8 DRAM channels");
    refused("gone=1", "all ones");
    refused("fail=0:5", "does not tell what the card is: Input/output error");
    refused("fail=5:25", "no device node of the driver");
    refused("fail=5:22", "does not tell its version");
    refused("fail=8:19", "being reset or was taken out");
    refused("fail=11:12", "no window of 2 MiB: Cannot allocate memory");
    refused("fail=13:19", "the card was reset or taken out");
    refused("fail=15:5", "raising the clocks");
}

/* The driver refuses from the n-th request of a kind on: one line or a note, and the card can be used by the next. */
static bool opens_when(const char *kind, int n)
{
    char words[64];
    struct gr_chip *chip = NULL;
    struct gr_err err = {.msg = ""};
    const uint32_t v = 1;
    snprintf(words, sizeof words, "%s:%d", kind, n);
    card(0, words);
    const bool opens = gr_chip_open(&node0, &chip, &err) == GR_OK;
    if (opens) {
        (void)gr_chip_write(chip, 1, 2, 0, &v, sizeof v, &err);
        gr_chip_close(chip);
    } else if (strncmp(err.msg, "/dev/tenstorrent/0: ", 20) != 0 || chip != NULL) {
        fail_msg("%s: \"%s\"", words, err.msg);
    }
    gr_chip_close(opened(""));
    return opens;
}

static void a_driver_that_fails_at_any_request_is_survived(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        bool does_without; /* opens all the same */
    } cases[] = {{"fail=0:5", false}, {"fail=5:5", false},   {"fail=8:5", false},  {"fail=11:12", false},
                 {"fail=12:5", true}, {"fail=13:19", false}, {"fail=14:22", true}, {"fail=15:5", false},
                 {"map=12", false},   {"open=24", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(opens_when(cases[i].kind, 1), cases[i].does_without);
        for (int n = 2; n <= 12; n++) {
            (void)opens_when(cases[i].kind, n);
        }
        assert_true(opens_when(cases[i].kind, 99));
    }
}

static void a_node_that_is_not_there_is_refused(void **state)
{
    (void)state;
    struct gr_chip *chip = NULL;
    struct gr_err err;
    const struct gr_chip_cfg cfg = {.id = 7};
    assert_int_equal(gr_chip_open(&cfg, &chip, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "/dev/tenstorrent/7: no such device"));
}

static void a_node_that_is_none_of_the_driver_is_refused(void **state)
{
    (void)state;
    struct gr_chip *chip = NULL;
    struct gr_err err;
    const struct gr_chip_cfg cfg = {.id = 8};
    char path[300];
    snprintf(path, sizeof path, "%s/8", dir);
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes to it: whoever waits for that hangs */
    assert_int_equal(gr_chip_open(&cfg, &chip, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "/dev/tenstorrent/8: is no device node of the driver tt-kmd"));
    unlink(path);
}

static void what_an_older_driver_lacks_is_a_note(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("fail=15:22");
    assert_non_null(strstr(gr_chip_identity(chip)->note, "clocks cannot be raised"));
    gr_chip_close(chip);
    chip = opened("fail=14:22");
    assert_non_null(strstr(gr_chip_identity(chip)->note, "keep running if this process is killed"));
    gr_chip_close(chip);
    chip = opened("aiclk=800");
    assert_non_null(strstr(gr_chip_identity(chip)->note, "stays at idle"));
    gr_chip_close(chip);
}

static void fill(uint32_t *words, uint32_t seed)
{
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = (i + seed) * 2654435761u;
    }
}

static void every_tile_has_memory_of_its_own(void **state)
{
    (void)state;
    static uint32_t words[WORDS], back[WORDS];
    struct gr_err err;
    struct gr_chip *chip = opened("columns=14");
    for (int x = 1; x <= 16; x += x == 7 ? 3 : 1) {
        for (int y = 2; y <= 11; y++) {
            fill(words, (uint32_t)(64 * x + y));
            gr_test_ok(gr_chip_write(chip, x, y, 0x2000, words, sizeof words, &err), &err);
        }
    }
    for (int x = 16; x >= 1; x -= x == 10 ? 3 : 1) {
        for (int y = 2; y <= 11; y++) {
            fill(words, (uint32_t)(64 * x + y));
            gr_test_ok(gr_chip_read(chip, x, y, 0x2000, back, sizeof back, &err), &err);
            assert_memory_equal(back, words, sizeof back);
        }
    }
    gr_chip_close(chip);
}

static void bytes_that_are_no_whole_words_leave_their_neighbours_alone(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_chip *chip = opened("");
    for (unsigned at = 0; at < 9; at++) {
        for (unsigned n = 1; n < 24; n++) {
            unsigned char expected[40], got[40], part[24];
            memset(expected, 0x11, sizeof expected);
            memset(part, 0x7E, sizeof part);
            gr_test_ok(gr_chip_write(chip, 2, 5, 0x4000, expected, sizeof expected, &err), &err);
            gr_test_ok(gr_chip_write(chip, 2, 5, 0x4000 + at, part, n, &err), &err);
            memcpy(expected + at, part, n);
            gr_test_ok(gr_chip_read(chip, 2, 5, 0x4000, got, sizeof got, &err), &err);
            assert_memory_equal(got, expected, sizeof got);
            gr_test_ok(gr_chip_read(chip, 2, 5, 0x4000 + at, got, n, &err), &err);
            assert_memory_equal(got, part, n);
        }
    }
    gr_chip_close(chip);
}

static void a_rectangle_reaches_its_tiles_and_no_others(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_chip *chip = opened("columns=12");
    const struct gr_chip_rect r = {6, 3, 11, 5};
    const uint32_t zero[2] = {0}, value[2] = {0x12345678, 0x9ABCDEF0};
    const struct gr_chip_rect all = {1, 2, 14, 11};
    gr_test_ok(gr_chip_multicast(chip, all, 0x8000, zero, sizeof zero, &err), &err);
    gr_test_ok(gr_chip_multicast(chip, r, 0x8000, value, sizeof value, &err), &err);
    for (int x = 1; x <= 14; x += x == 7 ? 3 : 1) {
        for (int y = 2; y <= 11; y++) {
            uint32_t got[2];
            const bool inside = x >= 6 && x <= 11 && y >= 3 && y <= 5;
            gr_test_ok(gr_chip_read(chip, x, y, 0x8000, got, sizeof got, &err), &err);
            assert_memory_equal(got, inside ? value : zero, sizeof got);
        }
    }
    assert_int_equal(gr_chip_multicast(chip, r, 0x8000, value, 6, &err), GR_ERR_DEVICE);
    gr_chip_close(chip);
}

/* Bulk data and single words go through two windows: what is written later counts. */
static void a_word_after_a_block_stays(void **state)
{
    (void)state;
    const struct gr_chip_rect all = {1, 2, 14, 11};
    static uint32_t block[WORDS], back[WORDS];
    struct gr_err err;
    struct gr_chip *chip = opened("");
    fill(block, 77);
    uint32_t word = 1, got = 0;
    gr_test_ok(gr_chip_write(chip, 3, 4, 0x2004, &word, sizeof word, &err), &err);
    gr_test_ok(gr_chip_multicast(chip, all, 0x2000, block, sizeof block, &err), &err);
    word = 2;
    gr_test_ok(gr_chip_write(chip, 3, 4, 0x2004, &word, sizeof word, &err), &err);
    gr_test_ok(gr_chip_read(chip, 3, 4, 0x2004, &got, sizeof got, &err), &err);
    assert_int_equal(got, 2);
    block[1] = 2;
    gr_test_ok(gr_chip_read(chip, 3, 4, 0x2000, back, sizeof back, &err), &err);
    assert_memory_equal(back, block, sizeof back);
    gr_chip_close(chip);
}

/* Reads of whole lines, of what is before and behind them, and across the border of two small windows. */
static void blocks_at_any_place_are_copied_whole(void **state)
{
    (void)state;
    static unsigned char all[1024], part[1024], back[1024];
    const uint64_t border = UINT64_C(2) << 20;
    struct gr_err err;
    struct gr_chip *chip = opened("large=0");
    for (size_t i = 0; i < sizeof all; i++) {
        all[i] = (unsigned char)(i * 37 + i / 256);
    }
    gr_test_ok(gr_chip_write(chip, 2, 5, 0x4000, all, sizeof all, &err), &err);
    gr_test_ok(gr_chip_dram_write(chip, 3, border - 512, all, sizeof all, &err), &err);
    for (size_t at = 0; at < 132; at += 4) {
        for (size_t n = 60; n < 204; n += 4) {
            gr_test_ok(gr_chip_read(chip, 2, 5, 0x4000 + at, back, n, &err), &err);
            assert_memory_equal(back, all + at, n);
            gr_test_ok(gr_chip_dram_read(chip, 3, border - 140 + at, back, n + at % 3, &err), &err);
            assert_memory_equal(back, all + 512 - 140 + at, n + at % 3);
            memset(part, 0xC3, n);
            gr_test_ok(gr_chip_write(chip, 2, 5, 0x4000 + at, part, n, &err), &err);
            gr_test_ok(gr_chip_read(chip, 2, 5, 0x4000, back, 512, &err), &err);
            assert_memory_equal(back, all, at);
            assert_memory_equal(back + at, part, n);
            assert_memory_equal(back + at + n, all + at + n, 512 - at - n);
            gr_test_ok(gr_chip_write(chip, 2, 5, 0x4000 + at, all + at, n, &err), &err);
        }
    }
    gr_chip_close(chip);
}

static void tiles_beyond_the_harvested_columns_are_refused(void **state)
{
    (void)state;
    struct gr_err err;
    uint32_t v = 0;
    struct gr_chip *chip = opened("columns=11");
    gr_test_ok(gr_chip_read(chip, 13, 2, 0, &v, sizeof v, &err), &err);
    assert_int_equal(gr_chip_read(chip, 14, 2, 0, &v, sizeof v, &err), GR_ERR_DEVICE);
    assert_int_equal(gr_chip_read(chip, 8, 0, 0, &v, sizeof v, &err), GR_ERR_DEVICE);
    gr_chip_close(chip);
}

static void channels_hold_what_was_written_through(const char *words, const char *note)
{
    static uint32_t out[WORDS], in[WORDS];
    const uint64_t at[] = {0, (UINT64_C(2) << 20) - 4096, UINT64_C(3) << 30 | 0x1234 << 2};
    struct gr_err err;
    struct gr_chip *chip = opened(words);
    assert_true(strncmp(gr_chip_identity(chip)->note, note, strlen(note)) == 0);
    for (int pass = 0; pass < 2; pass++) {
        for (int c = 0; c < 8; c++) {
            for (unsigned i = 0; i < 3; i++) {
                fill(out, (uint32_t)(10 * c) + i);
                if (pass == 0) {
                    gr_test_ok(gr_chip_dram_write(chip, c, at[i], out, sizeof out, &err), &err);
                } else {
                    gr_test_ok(gr_chip_dram_read(chip, c, at[i], in, sizeof in, &err), &err);
                    assert_memory_equal(in, out, sizeof in);
                }
            }
        }
    }
    gr_chip_close(chip);
}

static void dram_channels_are_apart(void **state)
{
    (void)state;
    channels_hold_what_was_written_through("", "");
}

static void small_windows_do_when_there_are_no_large_ones(void **state)
{
    (void)state;
    channels_hold_what_was_written_through("large=0", "no 4 GiB window");
}

static void data_of_ones_is_data_but_a_chip_of_ones_is_gone(void **state)
{
    (void)state;
    struct gr_err err;
    struct gr_chip *chip = opened("");
    const uint32_t ones = UINT32_MAX;
    uint32_t v = 0;
    gr_test_ok(gr_chip_write(chip, 3, 3, 0x9000, &ones, sizeof ones, &err), &err);
    gr_test_ok(gr_chip_read(chip, 3, 3, 0x9000, &v, sizeof v, &err), &err);
    gr_test_ok(gr_chip_dram_write(chip, 1, 64, &ones, sizeof ones, &err), &err);
    gr_test_ok(gr_chip_dram_read(chip, 1, 64, &v, sizeof v, &err), &err);
    card(0, "gone=1");
    assert_int_equal(gr_chip_read(chip, 4, 3, 0x9000, &v, sizeof v, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "(4, 3) answers all ones"));
    assert_int_equal(gr_chip_dram_read(chip, 2, 64, &v, sizeof v, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "all ones"));
    gr_chip_close(chip);
}

static uint32_t reset_word(int x, int y)
{
    struct gr_chip_identity id;
    struct gr_err err;
    bool busy;
    uint32_t v = 0;
    char path[300];
    gr_test_ok(gr_chip_peek(&node0, &id, &busy, &err),
               &err); /* as an onlooker: opening for work would stop the tiles */
    snprintf(path, sizeof path, "%s/0.mem", dir);
    const int fd = open(path, O_RDONLY);
    const int column = x < 8 ? x - 1 : x - 3;
    const off_t page = 4 + 2 * (off_t)(10 * column + y - 2) + 1; /* kmd_shim.c */
    assert_int_equal(pread(fd, &v, sizeof v, (page << 21) + 0x1121B0), (ssize_t)sizeof v);
    close(fd);
    return v;
}

static void run_tile(struct gr_chip *chip, int x, int y)
{
    struct gr_err err;
    const uint32_t run = 0x47000;
    uint32_t seen = 0;
    gr_test_ok(gr_chip_write(chip, x, y, GR_TENSIX_SOFT_RESET, &run, sizeof run, &err), &err);
    gr_test_ok(gr_chip_read(chip, x, y, GR_TENSIX_SOFT_RESET, &seen, sizeof seen, &err), &err);
    assert_int_equal(seen, run);
}

static void opening_and_closing_hold_every_tile_in_reset(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    assert_int_equal(reset_word(1, 2), HELD);
    assert_int_equal(reset_word(14, 11), HELD);
    run_tile(chip, 1, 2);
    assert_int_equal(reset_word(1, 2), 0x47000);
    gr_chip_close(chip);
    assert_int_equal(reset_word(1, 2), HELD);
}

/* In a child: the card is opened, tiles run, and the process ends without closing. */
static void a_process_that_dies_leaves_no_tile_running(void **state)
{
    (void)state;
    card(0, "");
    const pid_t child = fork();
    if (child == 0) {
        struct gr_chip *chip = NULL;
        struct gr_err err;
        const uint32_t run = 0x47000;
        exit(gr_chip_open(&node0, &chip, &err) != GR_OK ||
             gr_chip_multicast(chip, (struct gr_chip_rect){1, 2, 14, 11}, GR_TENSIX_SOFT_RESET, &run, sizeof run,
                               &err) != GR_OK);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    for (int x = 1; x <= 14; x += x == 7 ? 3 : 1) {
        assert_int_equal(reset_word(x, 2), HELD);
        assert_int_equal(reset_word(x, 11), HELD);
    }
    gr_chip_close(opened(""));
}

static void one_process_holds_a_card(void **state)
{
    (void)state;
    struct gr_chip *chip = opened(""), *second = NULL;
    struct gr_chip_identity id;
    struct gr_err err;
    bool busy = false;
    run_tile(chip, 2, 2);
    assert_int_equal(gr_chip_open(&node0, &second, &err), GR_ERR_DEVICE);
    assert_non_null(strstr(err.msg, "busy: another gr00t holds the card"));
    assert_int_equal(reset_word(2, 2), 0x47000); /* the holder is not disturbed */
    gr_test_ok(gr_chip_peek(&node0, &id, &busy, &err), &err);
    assert_true(busy);
    assert_string_equal(id.board, "p150a");
    assert_int_equal(reset_word(2, 2), 0x47000);
    gr_chip_close(chip);
    gr_test_ok(gr_chip_peek(&node0, &id, &busy, &err), &err);
    assert_false(busy);
}

static void a_look_tells_what_was_learnt_before_the_fault(void **state)
{
    (void)state;
    struct gr_chip_identity id;
    struct gr_err err;
    bool busy = true;
    card(0, "interface=1 driver=1.29.0");
    assert_int_equal(gr_chip_peek(&node0, &id, &busy, &err), GR_ERR_DEVICE);
    assert_false(busy);
    assert_int_equal(id.driver[1], 29);
    assert_string_equal(id.node, "/dev/tenstorrent/0");
}

/* The kernel closes the files of a dying process from the lowest on: what stops its tiles must be closed before what lets others in. */
static void the_file_with_the_lock_has_the_highest_number(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    bool first = true;
    int files = 0;
    for (int fd = 511; fd > 2; fd--) {
        char link[40], path[300] = "";
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 63, .l_len = 1};
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, path, sizeof path - 1);
        if (n > 2 && strcmp(path + n - 2, "/0") == 0) {
            assert_int_equal(fcntl(fd, F_OFD_GETLK, &l), 0);
            assert_int_equal(l.l_type, first ? F_UNLCK : F_WRLCK); /* one's own lock is in nobody's way */
            first = false;
            files++;
        }
    }
    assert_int_equal(files, 121);
    gr_chip_close(chip);
}

static int open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 512; fd++) {
        n += fcntl(fd, F_GETFD) != -1;
    }
    return n;
}

static void nothing_stays_open(void **state)
{
    (void)state;
    struct gr_chip *chip = NULL;
    struct gr_err err;
    const int before = open_files();
    gr_chip_close(opened(""));
    assert_int_equal(open_files(), before);
    card(0, "channels=7");
    assert_int_equal(gr_chip_open(&node0, &chip, &err), GR_ERR_DEVICE);
    assert_int_equal(open_files(), before);
}

static void few_allowed_files_are_a_note(void **state)
{
    (void)state;
    struct rlimit old, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few = old;
    few.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct gr_chip *chip = opened("");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_non_null(strstr(gr_chip_identity(chip)->note, "too few open files"));
    gr_chip_close(chip);
}

static void cards_are_listed_in_order(void **state)
{
    (void)state;
    int ids[4];
    card(10, "");
    card(2, "");
    char path[300];
    snprintf(path, sizeof path, "%s/by-id", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(gr_chip_list(dir, ids, 4), 3);
    assert_int_equal(ids[0] * 10000 + ids[1] * 100 + ids[2], 210);
    assert_int_equal(gr_chip_list(NULL, ids, 2), 2); /* the usual folder, redirected */
    assert_int_equal(gr_chip_list("/nowhere", ids, 4), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity_comes_from_driver_and_firmware),
        cmocka_unit_test(boards_have_the_names_of_their_serial_numbers),
        cmocka_unit_test(what_cannot_work_is_refused_in_one_line),
        cmocka_unit_test(a_driver_that_fails_at_any_request_is_survived),
        cmocka_unit_test(a_node_that_is_not_there_is_refused),
        cmocka_unit_test(a_node_that_is_none_of_the_driver_is_refused),
        cmocka_unit_test(what_an_older_driver_lacks_is_a_note),
        cmocka_unit_test(every_tile_has_memory_of_its_own),
        cmocka_unit_test(bytes_that_are_no_whole_words_leave_their_neighbours_alone),
        cmocka_unit_test(a_rectangle_reaches_its_tiles_and_no_others),
        cmocka_unit_test(a_word_after_a_block_stays),
        cmocka_unit_test(blocks_at_any_place_are_copied_whole),
        cmocka_unit_test(tiles_beyond_the_harvested_columns_are_refused),
        cmocka_unit_test(dram_channels_are_apart),
        cmocka_unit_test(small_windows_do_when_there_are_no_large_ones),
        cmocka_unit_test(data_of_ones_is_data_but_a_chip_of_ones_is_gone),
        cmocka_unit_test(opening_and_closing_hold_every_tile_in_reset),
        cmocka_unit_test(a_process_that_dies_leaves_no_tile_running),
        cmocka_unit_test(one_process_holds_a_card),
        cmocka_unit_test(a_look_tells_what_was_learnt_before_the_fault),
        cmocka_unit_test(the_file_with_the_lock_has_the_highest_number),
        cmocka_unit_test(nothing_stays_open),
        cmocka_unit_test(few_allowed_files_are_a_note),
        cmocka_unit_test(cards_are_listed_in_order),
    };
    return cmocka_run_group_tests(tests, set_up, gr_test_temp_clean);
}
