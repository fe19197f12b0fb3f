/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_windows.c: the windows through which bulk data goes to the tiles of a card: how often they are aimed, what happens when the
 * driver has few, that data is where it belongs whatever the windows do, and that a lost card is recognised at each of them. */
#include "gr_test.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/blackhole/chip.h"
#include "device/blackhole/kmd_window.h"
#include "kmd_shim.h"

enum { GRID = ROWS * COLUMNS, ROUNDS = 20, SOME = 30, BLOCK_WORDS = 64, AREA_WORDS = 256, STEPS = 1500 };
#define AREA 0x4000u /* in L1 */

static const char *dir;
static const struct gr_chip_cfg node0;
static const struct gr_chip_rect all = {1, 2, 16, 11};

static int set_up(void **state)
{
    (void)state;
    dir = gr_test_temp_dir();
    return setenv("GR_TEST_KMD", dir, 1);
}

static const char *file_of_card(const char *ending) { return gr_test_join(dir, "0%s", ending); }

/* The whole grid of 140 tiles, and what opening wrote has arrived. */
static struct gr_chip *opened(const char *words)
{
    struct gr_chip *chip = NULL;
    struct gr_err err;
    char text[100];
    snprintf(text, sizeof text, "columns=14 %s", words);
    gr_test_write(file_of_card(""), text, strlen(text));
    gr_test_ok(gr_chip_open(&node0, &chip, &err), &err);
    uint32_t word;
    gr_test_ok(gr_chip_read(chip, 1, 2, 0, &word, sizeof word, &err), &err);
    return chip;
}

static int x_of(int tile) { return tile / ROWS < 7 ? tile / ROWS + 1 : tile / ROWS + 3; }
static int y_of(int tile) { return tile % ROWS + 2; }

static void put(struct gr_chip *chip, int tile, uint32_t addr, const uint32_t *words, size_t n)
{
    struct gr_err err;
    gr_test_ok(gr_chip_write(chip, x_of(tile), y_of(tile), addr, words, 4 * n, &err), &err);
}

static void put_many(struct gr_chip *chip, struct gr_chip_rect r, uint32_t addr, const uint32_t *words, size_t n)
{
    struct gr_err err;
    gr_test_ok(gr_chip_multicast(chip, r, addr, words, 4 * n, &err), &err);
}

static void holds(struct gr_chip *chip, int tile, uint32_t addr, const uint32_t *words, size_t n)
{
    uint32_t back[AREA_WORDS];
    struct gr_err err;
    gr_test_ok(gr_chip_read(chip, x_of(tile), y_of(tile), addr, back, 4 * n, &err), &err);
    if (memcmp(back, words, 4 * n) != 0) {
        fail_msg("tile %d does not hold what was written to 0x%x", tile, addr);
    }
}

static void fill(uint32_t *words, uint32_t seed)
{
    for (uint32_t i = 0; i < BLOCK_WORDS; i++) {
        words[i] = (i + 1000 * seed) * 2654435761u;
    }
}

static unsigned aims(void) { return kmd_shim_asked(GR_KMD_AIM_WINDOW); }

/* A block to each of the first tiles, every round another; they hold the last. Returns how often a window was aimed for that. */
static unsigned aims_of_rounds(struct gr_chip *chip)
{
    uint32_t block[BLOCK_WORDS];
    const unsigned before = aims();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int t = 0; t < SOME; t++) {
            fill(block, round * GRID + (uint32_t)t);
            put(chip, t, AREA, block, BLOCK_WORDS);
        }
    }
    const unsigned used = aims() - before;
    for (int t = 0; t < SOME; t++) {
        fill(block, (ROUNDS - 1) * GRID + (uint32_t)t);
        holds(chip, t, AREA, block, BLOCK_WORDS);
    }
    return used;
}

static void a_tile_is_aimed_at_once(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    assert_int_equal(aims_of_rounds(chip), SOME);
    const unsigned before = aims();
    assert_int_equal(aims_of_rounds(chip), 0);
    assert_int_equal(aims(), before); /* nor for what was read back */
    assert_int_equal(kmd_shim_asked(GR_KMD_ALLOCATE_WINDOW), 3 + SOME);
    gr_chip_close(chip);
}

/* The driver has five small windows: two are taken at the start, three tiles get one. */
static void a_driver_with_few_windows_is_asked_no_more(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("windows=5");
    assert_string_equal(gr_chip_identity(chip)->note, "");
    assert_int_equal(aims_of_rounds(chip), 3 + ROUNDS * (SOME - 3));
    assert_int_equal(aims_of_rounds(chip), ROUNDS * (SOME - 3));
    assert_int_equal(kmd_shim_asked(GR_KMD_ALLOCATE_WINDOW), 3 + 3 + 1);
    gr_chip_close(chip);
    assert_int_equal(kmd_shim_left(), 0);
    assert_int_equal(kmd_shim_asked(GR_KMD_FREE_WINDOW), 3 + 3);
    chip = opened("windows=2");
    assert_int_equal(aims_of_rounds(chip), ROUNDS * SOME);
    gr_chip_close(chip);
}

static void a_window_that_cannot_be_mapped_is_done_without(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("map=12:6");
    assert_int_equal(aims_of_rounds(chip), 2 + ROUNDS * (SOME - 2));
    gr_chip_close(chip);
    assert_int_equal(kmd_shim_left(), 0);
}

static void closing_frees_what_was_allocated(void **state)
{
    (void)state;
    uint32_t block[BLOCK_WORDS];
    fill(block, 1);
    for (int time = 0; time < 4; time++) { /* the table of open windows would be full after the second */
        struct gr_chip *chip = opened("");
        for (int t = 0; t < GRID; t++) {
            put(chip, t, AREA, block, BLOCK_WORDS);
        }
        put_many(chip, all, AREA, block, BLOCK_WORDS);
        gr_chip_close(chip);
        assert_int_equal(kmd_shim_asked(GR_KMD_ALLOCATE_WINDOW), 3 + GRID);
        assert_int_equal(kmd_shim_asked(GR_KMD_FREE_WINDOW), 3 + GRID);
        assert_int_equal(kmd_shim_left(), 0);
    }
}

static void a_rectangle_and_tiles_in_turn_are_aimed_at_once(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    uint32_t block[BLOCK_WORDS], other[BLOCK_WORDS];
    const unsigned before = aims();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(block, round);
        fill(other, round + 100);
        put_many(chip, all, AREA, block, BLOCK_WORDS);
        put(chip, 7, AREA + 8, other, 16);
    }
    assert_int_equal(aims() - before,
                     3); /* the rectangle, the tile, and where it is read whether the last has arrived */
    memcpy(block + 2, other, 64);
    holds(chip, 7, AREA, block, BLOCK_WORDS);
    gr_chip_close(chip);
}

/* Data, a look at a flag, a flag, a wait for one: what was read anyway need not be read again. */
static void a_read_that_was_wanted_does_for_order(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    uint32_t block[BLOCK_WORDS];
    const unsigned before = aims();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fill(block, round);
        put(chip, 7, AREA, block, BLOCK_WORDS);
        holds(chip, 7, AREA, block, 1);
        put(chip, 7, AREA, &round, 1);
        holds(chip, 7, AREA, &round, 1);
    }
    assert_int_equal(aims() - before, 2);
    gr_chip_close(chip);
}

/* The window of flags is aimed at the tile already: no request to the driver holds the flag back. Where the stand-in delivers data at once,
 * the two aims that reading takes show that something was read. */
static void a_flag_waits_for_the_data_before_it(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    struct gr_err err;
    uint32_t block[BLOCK_WORDS], flag = 1;
    fill(block, 9);
    put(chip, 7, AREA, block, BLOCK_WORDS);
    put_many(chip, all, AREA, block, BLOCK_WORDS);
    for (int kind = 0; kind < 3; kind++, flag++) {
        holds(chip, 7, AREA, block, 1);
        const unsigned before = aims();
        if (kind == 0) {
            put_many(chip, all, AREA, block, BLOCK_WORDS);
        } else if (kind == 1) {
            put(chip, 7, AREA, block, BLOCK_WORDS);
        } else {
            gr_test_ok(gr_chip_dram_write(chip, 0, 0, block, sizeof block, &err), &err);
        }
        put(chip, 7, AREA, &flag, 1);
        assert_int_equal(aims() - before, kind < 2 ? 2 : 3); /* the DRAM's window had no aim yet */
        block[0] = flag;
        holds(chip, 7, AREA, block, BLOCK_WORDS);
    }
    gr_chip_close(chip);
}

/* ------------------------------------------------------------------------------------------------------------------ what the tiles hold */

static uint32_t held[GRID][AREA_WORDS];

static uint32_t any(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

static void put_somewhere(struct gr_chip *chip, uint32_t *seed, bool many)
{
    uint32_t words[AREA_WORDS];
    const uint32_t at = any(seed, AREA_WORDS),
                   n = 1 + any(seed, any(seed, 2) == 0 ? 4 : AREA_WORDS - at) % (AREA_WORDS - at);
    const int t0 = (int)any(seed, GRID), t1 = many ? (int)any(seed, GRID) : t0;
    const int c0 = t0 / ROWS < t1 / ROWS ? t0 : t1, c1 = t0 + t1 - c0;
    const int r0 = t0 % ROWS < t1 % ROWS ? t0 : t1, r1 = t0 + t1 - r0;
    for (uint32_t i = 0; i < n; i++) {
        words[i] = any(seed, UINT32_MAX);
    }
    if (many) {
        const struct gr_chip_rect r = {(uint8_t)x_of(c0), (uint8_t)y_of(r0), (uint8_t)x_of(c1), (uint8_t)y_of(r1)};
        put_many(chip, r, AREA + 4 * at, words, n);
    } else {
        put(chip, t0, AREA + 4 * at, words, n);
    }
    for (int c = c0 / ROWS; c <= c1 / ROWS; c++) {
        for (int r = r0 % ROWS; r <= r1 % ROWS; r++) {
            memcpy(held[ROWS * c + r] + at, words, 4 * n);
        }
    }
}

/* Words and blocks to tiles and rectangles in any order, over each other, some of them read in between. */
static void data_is_where_it_belongs_with(const char *words)
{
    struct gr_chip *chip = opened(words);
    uint32_t seed = 77;
    memset(held, 0, sizeof held);
    put_many(chip, all, AREA, held[0], AREA_WORDS);
    for (int i = 0; i < STEPS; i++) {
        put_somewhere(chip, &seed, any(&seed, 4) == 0);
        if (any(&seed, 4) == 0) {
            const uint32_t t = any(&seed, GRID), at = any(&seed, AREA_WORDS);
            holds(chip, (int)t, AREA + 4 * at, held[t] + at, 1 + any(&seed, AREA_WORDS - at));
        }
    }
    for (int t = 0; t < GRID; t++) {
        holds(chip, t, AREA, held[t], AREA_WORDS);
    }
    gr_chip_close(chip);
}

static void data_is_where_it_belongs(void **state)
{
    (void)state;
    data_is_where_it_belongs_with("");
    data_is_where_it_belongs_with("windows=50");
    data_is_where_it_belongs_with("windows=2");
    data_is_where_it_belongs_with("large=0 windows=12");
}

/* ------------------------------------------------------------------------------------------------------------------ a lost card */

static sigjmp_buf lost;
static volatile sig_atomic_t known, unknown;

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    (void)sig;
    (void)context;
    known += gr_kmd_window_has(info->si_addr);
    unknown += !gr_kmd_window_has(info->si_addr);
    siglongjmp(lost, 1);
}

/* As in cli/main.c, which asks gr_kmd_window_has whether it was the card or a file. */
static void a_lost_card_is_recognised_at_every_window(void **state)
{
    (void)state;
    struct gr_chip *chip = opened("");
    uint32_t block[BLOCK_WORDS];
    struct gr_err err;
    struct sigaction sa = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO}, old;
    fill(block, 5);
    for (int t = 0; t < GRID; t++) {
        put(chip, t, AREA, block, BLOCK_WORDS);
    }
    struct stat st;
    assert_int_equal(stat(file_of_card(".mem"), &st), 0);
    assert_int_equal(truncate(file_of_card(".mem"), 0), 0); /* the driver takes the windows away */
    assert_int_equal(sigaction(SIGBUS, &sa, &old), 0);
    known = unknown = 0;
    for (volatile int t = 0; t < GRID; t = t + 1) {
        if (sigsetjmp(lost, 1) == 0) {
            (void)gr_chip_read(chip, x_of(t), y_of(t), AREA, block, sizeof block, &err);
        }
    }
    sigaction(SIGBUS, &old, NULL);
    assert_int_equal(known, GRID);
    assert_int_equal(unknown, 0);
    assert_false(gr_kmd_window_has(block));
    assert_int_equal(truncate(file_of_card(".mem"), st.st_size), 0); /* or closing would be found out too */
    gr_chip_close(chip);
    assert_int_equal(kmd_shim_left(), 0);
    assert_int_equal(unlink(file_of_card(".mem")), 0);
    gr_chip_close(opened(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tile_is_aimed_at_once),
        cmocka_unit_test(a_driver_with_few_windows_is_asked_no_more),
        cmocka_unit_test(a_window_that_cannot_be_mapped_is_done_without),
        cmocka_unit_test(closing_frees_what_was_allocated),
        cmocka_unit_test(a_rectangle_and_tiles_in_turn_are_aimed_at_once),
        cmocka_unit_test(a_read_that_was_wanted_does_for_order),
        cmocka_unit_test(a_flag_waits_for_the_data_before_it),
        cmocka_unit_test(data_is_where_it_belongs),
        cmocka_unit_test(a_lost_card_is_recognised_at_every_window),
    };
    return cmocka_run_group_tests(tests, set_up, gr_test_temp_clean);
}
