/* SPDX-License-Identifier: Apache-2.0
 *
 * test_bh_hazards.c: the SFPU instructions in T1's image against the rules for what may follow a multiply-add (kernels/sfpu.h). The
 * simulator has no timing: it would run code that a chip computes otherwise. */
#include "gr_test.h"

#include <string.h>

#include "device/blackhole/tensix.h"

enum opcode {
    LOAD = 0x70,
    LOADI = 0x71,
    STORE = 0x72,
    IADD = 0x79,
    SHFT = 0x7a,
    SETEXP = 0x82,
    MAD = 0x84,
    ADD = 0x85,
    MUL = 0x86,
    ENCC = 0x8a,
    CONFIG = 0x91,
    SWAP = 0x92,
    ARECIP = 0x99
};
enum { NONE = 99 }; /* no register */

/* Registers of an instruction. `unseen`: read without the hardware's noticing that they are not ready. */
struct use {
    unsigned written, seen[3], unseen[2];
};

static unsigned field(uint32_t word, int at) { return word >> at & 15; }

/* False for an instruction that these rules do not know. */
static bool use_of(uint32_t word, struct use *u)
{
    const unsigned d = field(word, 4), c = field(word, 8), mode = field(word, 0);
    *u = (struct use){NONE, {NONE, NONE, NONE}, {NONE, NONE}};
    u->written = d;
    switch (word >> 24) {
    case LOAD:
    case LOADI:
        u->written = field(word, 20);
        return true;
    case STORE:
        u->written = NONE;
        u->seen[0] = field(word, 20);
        return true;
    case MAD:
    case ADD:
    case MUL:
        u->seen[0] = field(word, 16), u->seen[1] = field(word, 12), u->seen[2] = c;
        return mode < 4; /* no register by number in L7 */
    case IADD:
        u->seen[0] = c;
        u->unseen[0] = d;
        return true;
    case SHFT: /* by an immediate, of itself or (4) of another */
        u->seen[0] = mode & 4 ? c : NONE;
        u->unseen[0] = mode & 4 ? NONE : d;
        return mode & 1;
    case SETEXP:
        u->seen[0] = c;
        u->seen[1] = mode == 1 ? NONE : d;
        return true;
    case ARECIP:
        u->seen[0] = c;
        return mode == 0;
    case SWAP:
        u->unseen[0] = c, u->unseen[1] = d;
        return mode != 0;
    case CONFIG:
        u->unseen[0] = 0;
        return true;
    case ENCC:
        u->written = NONE;
        return true;
    default:
        return false;
    }
}

static bool is_multiply_add(uint32_t word) { return word >> 24 >= MAD && word >> 24 <= MUL; }

/* What an instruction gets wrong that comes right behind the multiply-add `before`; NULL: nothing. */
static const char *wrong(uint32_t before, const struct use *now, bool multiply_add)
{
    struct use then;
    (void)use_of(before, &then);
    const unsigned r = then.written;
    if (r == now->unseen[0] || r == now->unseen[1]) {
        return "reads what the one before computes";
    }
    if (r == now->written && !multiply_add) {
        return "writes the register of the one before, at the same time";
    }
    if (r == now->seen[0] || r == now->seen[1] || r == now->seen[2]) {
        return "waits for the one before, which tools/bh_cost does not count";
    }
    return NULL;
}

static void nothing_reads_a_multiply_add_before_it_is_done(void **state)
{
    (void)state;
    if (!gr_tensix_built()) {
        gr_test_skip(GR_TENSIX_NOT_BUILT);
    }
    const struct gr_tensix_program *p = gr_tensix_find("interpret");
    const unsigned char *image = p->core[GR_CORE_T1].data;
    uint32_t before = 0;
    int multiply_adds = 0;
    for (size_t at = 0; at + 4 <= *p->core[GR_CORE_T1].size; at += 4) {
        uint32_t code;
        memcpy(&code, image + at, sizeof code);
        if ((code & 3) == 3) {
            continue; /* the core's own: pushes nothing, or loads of immediates */
        }
        const uint32_t word = code >> 2 | code << 30;
        if (word >> 24 >= LOAD && word >> 24 <= ARECIP) {
            struct use now;
            if (!use_of(word, &now)) {
                fail_msg("instruction 0x%08x at %zu: add its registers to this test", word, at);
            }
            const char *fault = is_multiply_add(before) ? wrong(before, &now, is_multiply_add(word)) : NULL;
            if (fault != NULL) {
                fail_msg("0x%08x at %zu %s", word, at, fault);
            }
            multiply_adds += is_multiply_add(word);
        }
        before = word;
    }
    assert_true(multiply_adds > 50); /* the image was understood */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_reads_a_multiply_add_before_it_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
