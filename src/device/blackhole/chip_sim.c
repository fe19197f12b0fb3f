/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_sim.c: a chip inside the vendor's functional simulator, libttsim.so, seen as a PCIe device: configuration space and two memory
 * ranges (BARs) with address windows in them.
 *
 * The library is one per process: it is loaded and started once and stays until the process ends; open and close only take and leave it.
 * It ends the process with a line of its own when a program does what the hardware does not allow. Its clock stands still between calls
 * of gr_chip_run. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/chip_identity.h"
#include "device/blackhole/chip_impl.h"

#define BLACKHOLE_PCI_ID UINT32_C(0xB1401E52)
#define TILE_WINDOW (UINT64_C(2) << 20)       /* window 0, at the start of BAR 0 */
#define DRAM_WINDOW (UINT64_C(4) << 30)       /* window 202, at the start of BAR 4 */
#define WINDOW_REGISTERS UINT64_C(0x1FC00000) /* in BAR 0, 12 bytes a window */
#define DRAM_WINDOW_NUMBER 202
#define TRANSFER_MAX (UINT64_C(1) << 30) /* the library counts bytes in 32 bits */

enum { BAR0 = 0x10, BAR4 = 0x20 };

struct library {
    void *handle;
    void (*init)(void);
    uint32_t (*config_rd32)(uint32_t bdf, uint32_t offset);
    void (*mem_rd)(uint64_t paddr, void *dst, uint32_t size);
    void (*mem_wr)(uint64_t paddr, const void *src, uint32_t size);
    void (*clock)(uint32_t clocks);
    uint64_t bar0, bar4;
    bool api_1_10; /* has exactly the entry points of version 1.10.0, as far as a program can see */
    bool taken;
};

struct sim_chip {
    struct gr_chip base;
    uint64_t tile_key, dram_key; /* where the windows point; KEY_NONE: nowhere yet */
};
#define KEY_NONE UINT64_MAX

/* The process's simulator (one thread per chip, and one chip). */
static struct library lib;

static enum gr_status find(void *handle, const char *path, const char *name, void *fn, struct gr_err *err)
{
    void *p = dlsym(handle, name);
    if (p == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: no symbol %s: not a Blackhole build of ttsim 1.10.0", path, name);
    }
    memcpy(fn, &p, sizeof p); /* ISO C has no cast from object to function pointer */
    return GR_OK;
}

static uint64_t bar(const struct library *l, uint32_t offset)
{
    return (l->config_rd32(0, offset) & ~UINT32_C(15)) | (uint64_t)l->config_rd32(0, offset + 4) << 32;
}

static enum gr_status resolve(struct library *l, const char *path, struct gr_err *err)
{
    GR_TRY(find(l->handle, path, "libttsim_init", &l->init, err));
    GR_TRY(find(l->handle, path, "libttsim_pci_config_rd32", &l->config_rd32, err));
    GR_TRY(find(l->handle, path, "libttsim_pci_mem_rd_bytes", &l->mem_rd, err));
    GR_TRY(find(l->handle, path, "libttsim_pci_mem_wr_bytes", &l->mem_wr, err));
    GR_TRY(find(l->handle, path, "libttsim_clock", &l->clock, err));
    return GR_OK;
}

/* The library does not say its version. 1.10.0 exports these besides the ones above; the last two are announced to go. */
static bool exports_1_10(void *handle)
{
    static const char *const names[] = {"libttsim_exit", "libttsim_set_pci_dma_mem_callbacks",
                                        "libttsim_pci_config_wr32", "libttsim_tile_rd_bytes", "libttsim_tile_wr_bytes"};
    bool all = true;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        all = all && dlsym(handle, names[i]) != NULL;
    }
    return all;
}

/* Loads and starts the library, or finds that it is there already. */
static enum gr_status load(const char *path, struct gr_err *err)
{
    struct library l = {.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL)};
    if (l.handle == NULL) {
        return gr_fail(err, GR_ERR_DEVICE, "simulator: %s", dlerror());
    }
    enum gr_status st = resolve(&l, path, err);
    if (st == GR_OK && lib.handle != NULL && lib.handle != l.handle) {
        st = gr_fail(err, GR_ERR_DEVICE, "%s: this process runs another simulator already", path);
    }
    if (st != GR_OK || lib.handle != NULL) {
        dlclose(l.handle); /* one reference of the first load stays */
        return st;
    }
    l.api_1_10 = exports_1_10(l.handle);
    l.init();
    lib = l;
    return GR_OK;
}

static void put_window(uint32_t number, const uint32_t *words)
{
    for (uint32_t i = 0; i < 3; i++) {
        lib.mem_wr(lib.bar0 + WINDOW_REGISTERS + 12 * number + 4 * i, &words[i], 4);
    }
}

/* Words of a 2 MiB window: address >> 21 in 43 bits, then x_end, y_end, x_start, y_start in 6 bits each, NoC 2, multicast 1, ordering 2
 * (1: strict). Start is left 0 for one tile. */
static void aim_tile(struct sim_chip *c, struct gr_chip_rect r, bool multicast, uint64_t addr)
{
    const uint64_t page = addr / TILE_WINDOW;
    const uint64_t key = page << 25 | (uint64_t)multicast << 24 | (uint64_t)r.x0 << 18 | (uint64_t)r.y0 << 12 |
                         (uint64_t)r.x1 << 6 | r.y1;
    if (key == c->tile_key) {
        return;
    }
    uint32_t w[3] = {(uint32_t)page, (uint32_t)(page >> 32) & 0x7FF, 1u << 6};
    w[1] |= (uint32_t)r.x1 << 11 | (uint32_t)r.y1 << 17;
    if (multicast) {
        w[1] |= (uint32_t)r.x0 << 23 | ((uint32_t)r.y0 & 7) << 29;
        w[2] |= (uint32_t)r.y0 >> 3 | 1u << 5;
    }
    put_window(0, w);
    c->tile_key = key;
}

/* A 4 GiB window: address >> 32, then as above. */
static void aim_dram(struct sim_chip *c, int x, int y, uint64_t addr)
{
    const uint64_t page = addr / DRAM_WINDOW;
    const uint64_t key = page << 12 | (uint64_t)x << 6 | (uint64_t)y;
    if (key == c->dram_key) {
        return;
    }
    const uint32_t w[3] = {(uint32_t)page, (uint32_t)x | (uint32_t)y << 6, 0};
    put_window(DRAM_WINDOW_NUMBER, w);
    c->dram_key = key;
}

static uint32_t part(uint64_t addr, uint64_t window, size_t bytes)
{
    uint64_t n = window - addr % window;
    n = n < bytes ? n : bytes;
    return (uint32_t)(n < TRANSFER_MAX ? n : TRANSFER_MAX);
}

static void write_tiles(struct sim_chip *c, struct gr_chip_rect r, bool multicast, uint64_t addr, const void *src,
                        size_t bytes)
{
    for (const unsigned char *s = src; bytes > 0;) {
        const uint32_t n = part(addr, TILE_WINDOW, bytes);
        aim_tile(c, r, multicast, addr);
        lib.mem_wr(lib.bar0 + addr % TILE_WINDOW, s, n);
        s += n;
        addr += n;
        bytes -= n;
    }
}

static struct gr_chip_rect one(int x, int y) { return (struct gr_chip_rect){0, 0, (uint8_t)x, (uint8_t)y}; }

static enum gr_status sim_write(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                                struct gr_err *err)
{
    (void)err;
    write_tiles((struct sim_chip *)chip, one(x, y), false, addr, src, bytes);
    return GR_OK;
}

static enum gr_status sim_multicast(struct gr_chip *chip, struct gr_chip_rect r, uint64_t addr, const void *src,
                                    size_t bytes, struct gr_err *err)
{
    (void)err;
    write_tiles((struct sim_chip *)chip, r, true, addr, src, bytes);
    return GR_OK;
}

static enum gr_status sim_read(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                               struct gr_err *err)
{
    (void)err;
    for (unsigned char *d = dst; bytes > 0;) {
        const uint32_t n = part(addr, TILE_WINDOW, bytes);
        aim_tile((struct sim_chip *)chip, one(x, y), false, addr);
        lib.mem_rd(lib.bar0 + addr % TILE_WINDOW, d, n);
        d += n;
        addr += n;
        bytes -= n;
    }
    return GR_OK;
}

static enum gr_status sim_dram_write(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                                     struct gr_err *err)
{
    (void)err;
    for (const unsigned char *s = src; bytes > 0;) {
        const uint32_t n = part(addr, DRAM_WINDOW, bytes);
        aim_dram((struct sim_chip *)chip, x, y, addr);
        lib.mem_wr(lib.bar4 + addr % DRAM_WINDOW, s, n);
        s += n;
        addr += n;
        bytes -= n;
    }
    return GR_OK;
}

static enum gr_status sim_dram_read(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                                    struct gr_err *err)
{
    (void)err;
    for (unsigned char *d = dst; bytes > 0;) {
        const uint32_t n = part(addr, DRAM_WINDOW, bytes);
        aim_dram((struct sim_chip *)chip, x, y, addr);
        lib.mem_rd(lib.bar4 + addr % DRAM_WINDOW, d, n);
        d += n;
        addr += n;
        bytes -= n;
    }
    return GR_OK;
}

static void sim_run(struct gr_chip *chip, uint32_t clocks)
{
    (void)chip;
    lib.clock(clocks);
}

static void sim_close(struct gr_chip *chip)
{
    lib.taken = false;
    free(chip);
}

static const struct gr_chip_ops sim_ops = {
    .write = sim_write,
    .read = sim_read,
    .multicast = sim_multicast,
    .dram_write = sim_dram_write,
    .dram_read = sim_dram_read,
    .run = sim_run,
    .close = sim_close,
};

static void identify(struct gr_chip_identity *id)
{
    *id = (struct gr_chip_identity){.sim = true, .columns = GR_CHIP_COLUMNS_MAX, .channels = GR_CHIP_CHANNELS};
    strcpy(id->node, lib.api_1_10 ? "ttsim 1.10.0" : "ttsim");
    if (!lib.api_1_10) {
        strcpy(id->note,
               "the simulator is not version 1.10.0: its entry points differ, results were not checked with it");
    }
}

enum gr_status gr_chip_sim_open(const struct gr_chip_cfg *cfg, struct gr_chip **out, struct gr_err *err)
{
    if (lib.taken) {
        return gr_fail(err, GR_ERR_DEVICE,
                       "simulator: busy: this process has it open already, and there is one per process");
    }
    GR_TRY(load(cfg->sim, err));
    const uint32_t id = lib.config_rd32(0, 0);
    if (id != BLACKHOLE_PCI_ID) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: simulates another chip (PCI id %08x, expected %08x)", cfg->sim, id,
                       BLACKHOLE_PCI_ID);
    }
    lib.bar0 = bar(&lib, BAR0);
    lib.bar4 = bar(&lib, BAR4);
    struct sim_chip *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the simulated chip");
    }
    c->base.ops = &sim_ops;
    c->tile_key = KEY_NONE;
    c->dram_key = KEY_NONE;
    identify(&c->base.id);
    if (lib.api_1_10) { /* another version may end the process where this one answers */
        const enum gr_status st = gr_chip_identify(&c->base, err);
        if (st != GR_OK) {
            free(c);
            return st;
        }
    }
    lib.taken = true;
    *out = &c->base;
    return GR_OK;
}
