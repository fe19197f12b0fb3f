/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_tensix.c: the chip through its simulator: memory windows, multicast, starting and stopping programs on tiles, all five cores, and
 * one line for what cannot be. */
#include "gr_test.h"

#include <stdlib.h>
#include <string.h>

#include "bh_chip.h"
#include "device/blackhole/program.h"
#include "device/blackhole/tensix.h"

static struct gr_err err;

enum { DEADLINE_MS = 20000, L1_DATA = 0x20000 };

static uint32_t arg_addr(uint32_t word) { return GR_BH_ARGS + 4 * word; }

static uint32_t arg_of(struct gr_chip *chip, int x, int y, uint32_t word)
{
    uint32_t v = 0;
    gr_test_ok(gr_chip_read(chip, x, y, arg_addr(word), &v, sizeof v, &err), &err);
    return v;
}

static void l1_and_every_dram_channel_keep_what_is_written(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    uint8_t out[5000];
    uint8_t back[sizeof out];
    for (size_t i = 0; i < sizeof out; i++) {
        out[i] = (uint8_t)(i * 7);
    }
    gr_test_ok(gr_chip_write(chip, 1, 2, L1_DATA + 3, out, sizeof out, &err), &err);
    gr_test_ok(gr_chip_read(chip, 1, 2, L1_DATA + 3, back, sizeof back, &err), &err);
    assert_memory_equal(out, back, sizeof out);
    for (int ch = 0; ch < GR_CHIP_CHANNELS; ch++) {
        out[0] = (uint8_t)ch;
        gr_test_ok(gr_chip_dram_write(chip, ch, 0x1234567, out, sizeof out, &err), &err);
    }
    for (int ch = 0; ch < GR_CHIP_CHANNELS; ch++) { /* after all are written: channels that share memory would show */
        out[0] = (uint8_t)ch;
        gr_test_ok(gr_chip_dram_read(chip, ch, 0x1234567, back, sizeof back, &err), &err);
        assert_memory_equal(out, back, sizeof out);
    }
}

static void multicast_reaches_its_rectangle_and_nothing_else(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    const struct gr_chip_rect all = {1, 2, 16, 11};
    const struct gr_chip_rect part = {6, 3, 11, 4}; /* over the gap at x = 8, 9 */
    const uint32_t zero = 0;
    const uint32_t mark = 0xABCD1234;
    gr_test_ok(gr_chip_multicast(chip, all, L1_DATA, &zero, 4, &err), &err);
    gr_test_ok(gr_chip_multicast(chip, part, L1_DATA, &mark, 4, &err), &err);
    for (int y = 2; y <= 11; y++) {
        for (int x = 1; x <= 16; x++) {
            if (x == 8 || x == 9) {
                continue;
            }
            uint32_t v = 1;
            gr_test_ok(gr_chip_read(chip, x, y, L1_DATA, &v, 4, &err), &err);
            assert_int_equal(v, x >= part.x0 && x <= part.x1 && y >= part.y0 && y <= part.y1 ? mark : 0);
        }
    }
}

static void places_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    uint32_t v = 0;
    gr_test_fails(gr_chip_read(chip, 8, 2, 0, &v, 4, &err), &err, GR_ERR_DEVICE, "no Tensix tile at (8, 2)");
    gr_test_fails(gr_chip_write(chip, 17, 2, 0, &v, 4, &err), &err, GR_ERR_DEVICE, "no Tensix tile at (17, 2)");
    gr_test_fails(gr_chip_write(chip, 1, 12, 0, &v, 4, &err), &err, GR_ERR_DEVICE, "no Tensix tile at (1, 12)");
    gr_test_fails(gr_chip_multicast(chip, (struct gr_chip_rect){3, 2, 2, 2}, 0, &v, 4, &err), &err, GR_ERR_DEVICE,
                  "turned round");
    gr_test_fails(gr_chip_dram_write(chip, 8, 0, &v, 4, &err), &err, GR_ERR_DEVICE, "channel 8");
    gr_test_fails(gr_chip_dram_read(chip, 0, GR_CHIP_CHANNEL_BYTES - 2, &v, 4, &err), &err, GR_ERR_DEVICE, "outside");
}

/* Runs first: the library is loaded once for all. */
static void a_library_that_is_missing_strange_or_taken_is_one_line(void **state)
{
    struct gr_chip *chip = NULL;
    const struct gr_chip_cfg missing = {.sim = "/no/such/libttsim.so"}, strange = {.sim = "libm.so.6"},
                             good = {.sim = bh_simulator()};
    gr_test_fails(gr_chip_open(&missing, &chip, &err), &err, GR_ERR_DEVICE, "simulator: /no/such/libttsim.so");
    gr_test_fails(gr_chip_open(&strange, &chip, &err), &err, GR_ERR_DEVICE, "libm.so.6: no symbol libttsim_init");
    (void)bh_chip();
    gr_test_fails(gr_chip_open(&good, &chip, &err), &err, GR_ERR_DEVICE, "busy");
    (void)bh_chip_close(state);
    gr_test_fails(gr_chip_open(&missing, &chip, &err), &err, GR_ERR_DEVICE, "simulator: /no/such/libttsim.so");
    assert_null(chip);
}

static void every_core_of_the_grid_says_hello(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    const struct gr_chip_rect grid = {1, 2, 13, 11}; /* the 11 x 10 tiles of a shipped card */
    const uint32_t args[GR_HELLO_OUT + 4 * GR_CORES] = {[GR_HELLO_A] = 6, [GR_HELLO_B] = 9};
    gr_test_ok(gr_chip_multicast(chip, grid, GR_BH_ARGS, args, sizeof args, &err), &err);
    gr_test_ok(gr_tensix_start(chip, grid, gr_tensix_find("hello"), &err), &err);
    for (int y = 2; y <= 11; y++) {
        for (int x = 1; x <= 13; x++) {
            for (uint32_t c = 0; x != 8 && x != 9 && c < GR_CORES; c++) {
                const uint32_t out = GR_HELLO_OUT + 4 * c;
                gr_test_ok(gr_tensix_wait(chip, x, y, arg_addr(out), UINT32_MAX, GR_HELLO_SEEN + c, DEADLINE_MS, NULL,
                                          NULL, &err),
                           &err);
                assert_int_equal(arg_of(chip, x, y, out + 1), 54 + c);
                const uint32_t top = c <= GR_CORE_N ? 0xFFB02000u : 0xFFB01000u;
                assert_in_range(arg_of(chip, x, y, out + 2), top - 64, top - 4);
            }
        }
    }
    gr_test_ok(gr_tensix_stop(chip, grid, &err), &err);
}

static void the_memory_program_finds_nothing_on_a_good_chip(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    const struct gr_chip_rect one = {2, 3, 2, 3};
    for (int ch = 0; ch < GR_CHIP_CHANNELS; ch++) {
        const uint32_t args[] = {[GR_MEMORY_L1] = L1_DATA,
                                 [GR_MEMORY_L1_BYTES] = 16384,
                                 [GR_MEMORY_DRAM_XY] = gr_chip_dram_xy(ch, ch % 3),
                                 [GR_MEMORY_DRAM_LO] = 0x10000,
                                 [GR_MEMORY_DRAM_BYTES] = 12288,
                                 [GR_MEMORY_BLOCK] = 4096,
                                 [GR_MEMORY_SEED] = 17,
                                 [GR_MEMORY_FOUND] = 0};
        gr_test_ok(gr_chip_write(chip, 2, 3, GR_BH_ARGS, args, sizeof args, &err), &err);
        gr_test_ok(gr_tensix_start(chip, one, gr_tensix_find("memory"), &err), &err);
        gr_test_ok(gr_tensix_wait(chip, 2, 3, arg_addr(GR_MEMORY_DONE), UINT32_MAX, 1, DEADLINE_MS, NULL, NULL, &err),
                   &err);
        for (uint32_t i = GR_MEMORY_BAD_L1; i <= GR_MEMORY_FOUND; i++) {
            assert_int_equal(arg_of(chip, 2, 3, i), 0);
        }
        uint32_t word = 0; /* last written through NoC 1, with seed 18 */
        gr_test_ok(gr_chip_dram_read(chip, ch, 0x10000 + 8192, &word, sizeof word, &err), &err);
        assert_int_equal(word, (uint32_t)((0x10000u + 8192 + 18) * 2654435761u));
    }
}

static void a_program_that_does_not_come_is_reported_with_its_cores(void **state)
{
    (void)state;
    struct gr_chip *chip = bh_chip();
    const struct gr_chip_rect one = {3, 3, 3, 3};
    gr_test_ok(gr_tensix_start(chip, one, gr_tensix_find("hello"), &err), &err);
    gr_test_fails(gr_tensix_wait(chip, 3, 3, arg_addr(63), UINT32_MAX, 0x5A5A, 50, NULL, NULL, &err), &err,
                  GR_ERR_DEVICE, "tile (3, 3): no progress for 50 ms: B op 0: runs, N op 0: runs");
    gr_test_ok(gr_tensix_stop(chip, one, &err), &err);
}

static void closing_and_opening_again_gives_the_chip_back(void **state)
{
    struct gr_chip *chip = bh_chip();
    assert_true(gr_chip_is_sim(chip));
    assert_int_equal(gr_chip_identity(chip)->columns, 14);
    assert_string_equal(gr_chip_identity(chip)->node, "ttsim 1.10.0");
    assert_string_equal(gr_chip_identity(chip)->board, "p150a");
    assert_string_equal(gr_chip_identity(chip)->note, "");
    (void)bh_chip_close(state);
    every_core_of_the_grid_says_hello(state);
}

int main(void)
{
    if (bh_simulator() == NULL) {
        return GR_TEST_SKIPPED;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_missing_strange_or_taken_is_one_line),
        cmocka_unit_test(l1_and_every_dram_channel_keep_what_is_written),
        cmocka_unit_test(multicast_reaches_its_rectangle_and_nothing_else),
        cmocka_unit_test(places_that_do_not_exist_are_refused),
        cmocka_unit_test(every_core_of_the_grid_says_hello),
        cmocka_unit_test(the_memory_program_finds_nothing_on_a_good_chip),
        cmocka_unit_test(a_program_that_does_not_come_is_reported_with_its_cores),
        cmocka_unit_test(closing_and_opening_again_gives_the_chip_back),
    };
    return cmocka_run_group_tests(tests, NULL, bh_chip_close);
}
