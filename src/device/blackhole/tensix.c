/* SPDX-License-Identifier: Apache-2.0
 *
 * tensix.c: starts, stops and watches programs on Tensix tiles. The images come from kernels/, one flat binary a core, linked to its place
 * in L1; without an rv32 compiler at build time there are none. */
#include "device/blackhole/tensix.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "device/blackhole/chip_impl.h"
#include "device/blackhole/kernel_images.h"
#include "device/blackhole/program.h"

enum {
    FIRST_CLOCKS = 16,
    MOST_CLOCKS = 2048
}; /* between polls: soon at first; few enough for a simulated chip to come back */
enum { STATE_CHARS = 160 };

static const char *const core_names[GR_CORES] = {"B", "N", "T0", "T1", "T2"};
static const uint32_t core_reset[GR_CORES] = {0x800, 0x40000, 0x1000, 0x2000, 0x4000};

#ifdef GR_HAVE_BH_KERNELS
#define IMAGE(name, core) [GR_CORE_##core] = {gr_embed_bh_##name##_##core, &gr_embed_bh_##name##_##core##_size}
static const struct gr_tensix_program programs[] = {
    {"interpret",
     {IMAGE(interpret, B), IMAGE(interpret, N), IMAGE(interpret, T0), IMAGE(interpret, T1), IMAGE(interpret, T2)}},
    {"hello", {IMAGE(hello, B), IMAGE(hello, N), IMAGE(hello, T0), IMAGE(hello, T1), IMAGE(hello, T2)}},
    {"memory", {IMAGE(memory, B)}},
};

bool gr_tensix_built(void) { return true; }

const struct gr_tensix_program *gr_tensix_find(const char *name)
{
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        if (strcmp(programs[i].name, name) == 0) {
            return &programs[i];
        }
    }
    return NULL;
}
#else
bool gr_tensix_built(void) { return false; }

const struct gr_tensix_program *gr_tensix_find(const char *name)
{
    (void)name;
    return NULL;
}
#endif

static enum gr_status put32(struct gr_chip *chip, struct gr_chip_rect r, uint64_t addr, uint32_t v, struct gr_err *err)
{
    return gr_chip_multicast(chip, r, addr, &v, sizeof v, err);
}

/* "jal x0, target" for L1 address 0, where core B always starts. target < 1 MiB, even. */
static uint32_t jump_to(uint32_t target)
{
    return 0x6Fu | (target & 0xFF000u) | (target >> 11 & 1u) << 20 | (target >> 1 & 0x3FFu) << 21;
}

/* The images, each filled up with zeros, which is its .bss. Returns through hold the cores without one. */
static enum gr_status put_images(struct gr_chip *chip, struct gr_chip_rect r, const struct gr_tensix_program *p,
                                 uint32_t *hold, struct gr_err *err)
{
    unsigned char image[GR_BH_CODE_BYTES];
    *hold = GR_TENSIX_RESET_ALL;
    for (int c = 0; c < GR_CORES; c++) {
        if (p->core[c].data == NULL) {
            continue;
        }
        const size_t n = *p->core[c].size;
        if (n > sizeof image) {
            return gr_fail(err, GR_ERR_DEVICE, "program %s: the image of core %s has %zu bytes, there is room for %zu",
                           p->name, core_names[c], n, sizeof image);
        }
        memcpy(image, p->core[c].data, n);
        memset(image + n, 0, sizeof image - n);
        GR_TRY(gr_chip_multicast(chip, r, GR_BH_CODE + (uint32_t)c * GR_BH_CODE_BYTES, image, sizeof image, err));
        *hold &= ~core_reset[c];
    }
    return GR_OK;
}

enum gr_status gr_tensix_start(struct gr_chip *chip, struct gr_chip_rect r, const struct gr_tensix_program *p,
                               struct gr_err *err)
{
    static const unsigned char zeros[GR_BH_CODE - GR_BH_STATUS];
    uint32_t hold = 0;
    uint32_t seen = 0;
    GR_TRY(gr_tensix_stop(chip, r, err));
    GR_TRY(put_images(chip, r, p, &hold, err));
    GR_TRY(gr_chip_multicast(chip, r, GR_BH_STATUS, zeros, sizeof zeros, err));
    GR_TRY(put32(chip, r, GR_BH_HOLD, hold, err));
    GR_TRY(put32(chip, r, 0, jump_to(GR_BH_CODE), err));
    /* Writes may be on their way still: one that is read back is there, and so are those before it. */
    GR_TRY(gr_chip_read(chip, r.x1, r.y1, 0, &seen, sizeof seen, err));
    if (seen != jump_to(GR_BH_CODE)) {
        return gr_fail(err, GR_ERR_DEVICE,
                       "%s: tile (%d, %d): L1 does not hold what was written: 0x%08x instead of 0x%08x",
                       gr_chip_identity(chip)->node, r.x1, r.y1, seen, jump_to(GR_BH_CODE));
    }
    return put32(chip, r, GR_TENSIX_SOFT_RESET, GR_TENSIX_RESET_ALL & ~core_reset[GR_CORE_B], err);
}

enum gr_status gr_tensix_stop(struct gr_chip *chip, struct gr_chip_rect r, struct gr_err *err)
{
    return put32(chip, r, GR_TENSIX_SOFT_RESET, GR_TENSIX_RESET_ALL, err);
}

enum gr_status gr_tensix_wait(struct gr_chip *chip, int x, int y, uint32_t addr, uint32_t mask, uint32_t value,
                              unsigned deadline_ms, gr_tensix_idle_fn idle, void *user, struct gr_err *err)
{
    uint32_t clocks = FIRST_CLOCKS;
    uint32_t before = 0;
    double last = gr_clock_ms();
    for (bool first = true;; first = false) {
        uint32_t word = 0;
        GR_TRY(gr_chip_read(chip, x, y, addr, &word, sizeof word, err));
        if ((word & mask) == value) {
            return GR_OK;
        }
        const double now = gr_clock_ms();
        if (idle != NULL ? idle(user, word) : first || word != before) {
            last = now;
        } else if (now - last > deadline_ms) {
            char state[STATE_CHARS];
            gr_tensix_state(chip, x, y, state, sizeof state);
            return gr_fail(err, GR_ERR_DEVICE, "%s: tile (%d, %d): no progress for %u ms: %s",
                           gr_chip_identity(chip)->node, x, y, deadline_ms, state);
        }
        before = word;
        gr_chip_run(chip, clocks);
        clocks = clocks < MOST_CLOCKS ? clocks + clocks / 2 : MOST_CLOCKS;
    }
}

static const char *wait_name(uint32_t wait)
{
    static const char *const names[GR_BH_W_COUNT] = {
        [GR_BH_W_RUN] = "runs",      [GR_BH_W_LIMIT] = "host",       [GR_BH_W_DEPEND] = "earlier op",
        [GR_BH_W_CHUNK] = "weights", [GR_BH_W_SPACE] = "ring space", [GR_BH_W_READ] = "DRAM",
        [GR_BH_W_PACKED] = "packer", [GR_BH_W_ACK] = "write acks",   [GR_BH_W_BARRIER] = "barrier",
        [GR_BH_W_CONFIG] = "set-up", [GR_BH_W_MATH] = "products",
    };
    return wait < GR_BH_W_COUNT ? names[wait] : "?";
}

void gr_tensix_state(struct gr_chip *chip, int x, int y, char *text, size_t size)
{
    struct gr_err ignored;
    uint32_t reset = 0;
    uint32_t status[GR_CORES] = {0};
    if (gr_chip_read(chip, x, y, GR_TENSIX_SOFT_RESET, &reset, sizeof reset, &ignored) != GR_OK ||
        gr_chip_read(chip, x, y, GR_BH_STATUS, status, sizeof status, &ignored) != GR_OK) {
        snprintf(text, size, "the tile does not answer");
        return;
    }
    size_t used = 0;
    for (int c = 0; c < GR_CORES; c++) {
        const char *comma = c == 0 ? "" : ", ";
        const int n = (reset & core_reset[c]) != 0
                          ? snprintf(text + used, size - used, "%s%s in reset", comma, core_names[c])
                          : snprintf(text + used, size - used, "%s%s op %u: %s", comma, core_names[c], status[c] >> 8,
                                     wait_name(status[c] & 0xFF));
        if (n < 0 || (size_t)n >= size - used) {
            return;
        }
        used += (size_t)n;
    }
}
