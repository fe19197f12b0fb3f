/* SPDX-License-Identifier: Apache-2.0
 *
 * chip_kmd.c: a Blackhole card behind the kernel driver tt-kmd, version 2 or later.
 *
 * One process of this program holds a card at a time: lock 63 of the driver, which works across containers. For every tile there is a file
 * of its own besides the one in use, whose closing makes the driver put the tile in reset: so a process that is killed leaves no core running. What
 * other software does with the card at the same time is not seen.
 *
 * Aiming a window is a request to the driver, so bulk data has a window for each tile that is aimed once, as long as the driver has
 * enough. */
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/blackhole/chip_identity.h"
#include "device/blackhole/chip_impl.h"
#include "device/blackhole/kmd_window.h"

#define NODE_DIR "/dev/tenstorrent"
#define TENSIX_NOC_ID UINT64_C(0xFFB20148)   /* own coordinate: never all ones */
#define ARC_BOOT_STATUS UINT64_C(0x80030408) /* as in chip_identity.c */

enum { PCI_VENDOR = 0x1E52, PCI_BLACKHOLE = 0xB140, PCI_WORMHOLE = 0x401E };
enum { INTERFACE = 2, LOCK_INDEX = 63 };
enum { IDLE_MHZ = 800, CLOCK_WAIT_MS = 300, CLOCK_POLL_MS = 10 }; /* AICLK_IDLE_VAL of tt-umd 0.9.9 */
enum { BULK_BYTES = 64 };                                         /* a line: what stores gather to */
enum { SLEEP_CLOCKS = 512, SLEEP_NS = 5000 };
enum { TILES_MAX = GR_CHIP_ROWS * GR_CHIP_COLUMNS_MAX };
/* Flags and registers; bulk data to one tile, to a rectangle; anything to DRAM. */
enum sent { WORDS = 1, TO_ONE = 2, TO_MANY = 4, TO_DRAM = 8 };

struct kmd_chip {
    struct gr_chip base;
    int fd;
    struct gr_kmd_window tile, bulk, dram; /* 2 MiB, uncached and with stores that combine; 4 GiB, the same */
    struct gr_kmd_window own[TILES_MAX];   /* as bulk, each of one tile from its first bulk data to the end */
    bool no_more;                          /* the driver refused one of those: bulk takes the place of the rest */
    unsigned on_the_way;                   /* enum sent: what was written and nothing read since */
    int on_close[TILES_MAX], n_on_close;
};

static void add_note(struct gr_chip_identity *id, const char *text)
{
    const size_t used = strlen(id->note);
    snprintf(id->note + used, sizeof id->note - used, "%s%s", used > 0 ? "; " : "", text);
}

/* ------------------------------------------------------------------------------------------------------------------ opening */

static enum gr_status open_node(struct kmd_chip *c, struct gr_err *err)
{
    const char *node = c->base.id.node;
    /* O_APPEND: asks for no clocks or power before SET_POWER_STATE. O_NONBLOCK: does not wait for a process that holds it with O_EXCL. */
    c->fd = open(node, O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    if (c->fd >= 0) {
        return GR_OK;
    }
    switch (errno) {
    case ENOENT:
    case ENXIO:
    case ENODEV:
    case ENOTDIR:
        return gr_fail(err, GR_ERR_DEVICE,
                       "%s: no such device: is the card in this machine and the driver (tt-kmd 2.0.0 or later) loaded?",
                       node);
    case EACCES:
    case EPERM:
        return gr_fail(
            err, GR_ERR_DEVICE,
            "%s: no permission: this user must be able to read and write it (udev rule of tt-kmd, or --device)", node);
    case EAGAIN:
    case EBUSY:
        return gr_fail(err, GR_ERR_DEVICE, "%s: busy: another process holds it alone", node);
    default:
        return gr_fail(err, GR_ERR_DEVICE, "%s: %s", node, strerror(errno));
    }
}

static enum gr_status check_driver(struct kmd_chip *c, struct gr_err *err)
{
    struct gr_chip_identity *id = &c->base.id;
    struct gr_kmd_driver_info d = {.room = sizeof d - sizeof d.room};
    if (gr_kmd_ioctl(c->fd, GR_KMD_DRIVER_INFO, &d) != 0) {
        return errno == ENOTTY
                   ? gr_fail(err, GR_ERR_DEVICE, "%s: is no device node of the driver tt-kmd", id->node)
                   : gr_fail(err, GR_ERR_DEVICE,
                             "%s: the driver does not tell its version (%s): tt-kmd 2.0.0 or later is needed", id->node,
                             strerror(errno));
    }
    id->driver[0] = d.major;
    id->driver[1] = d.minor;
    id->driver[2] = d.patch;
    if (d.interface < INTERFACE) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: driver tt-kmd %u.%u.%u is too old: 2.0.0 or later is needed", id->node,
                       d.major, d.minor, d.patch);
    }
    return GR_OK;
}

static enum gr_status check_board(struct kmd_chip *c, struct gr_err *err)
{
    struct gr_chip_identity *id = &c->base.id;
    struct gr_kmd_device_info d = {.room = sizeof d - sizeof d.room};
    if (gr_kmd_ioctl(c->fd, GR_KMD_DEVICE_INFO, &d) != 0) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: the driver does not tell what the card is: %s", id->node,
                       strerror(errno));
    }
    snprintf(id->pci, sizeof id->pci, "%04x:%02x:%02x.%x", d.domain, d.bus_dev_fn >> 8, d.bus_dev_fn >> 3 & 31u,
             d.bus_dev_fn & 7u);
    if (d.vendor != PCI_VENDOR || d.device != PCI_BLACKHOLE) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: not a Blackhole: PCI device %04x:%04x%s, expected %04x:%04x", id->node,
                       d.vendor, d.device, d.vendor == PCI_VENDOR && d.device == PCI_WORMHOLE ? " (a Wormhole)" : "",
                       PCI_VENDOR, PCI_BLACKHOLE);
    }
    return GR_OK;
}

static enum gr_status lock(struct kmd_chip *c, uint32_t operation, uint8_t *value, struct gr_err *err)
{
    struct gr_kmd_lock l = {.room = sizeof l.value + sizeof l.zero2, .operation = operation, .index = LOCK_INDEX};
    if (gr_kmd_ioctl(c->fd, GR_KMD_LOCK, &l) != 0) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: the driver's lock: %s%s", c->base.id.node, strerror(errno),
                       errno == ENODEV ? ": the card is being reset or was taken out" : "");
    }
    *value = l.value;
    return GR_OK;
}

static enum gr_status take_lock(struct kmd_chip *c, int n, struct gr_err *err)
{
    uint8_t mine = 0;
    GR_TRY(lock(c, GR_KMD_LOCK_TAKE, &mine, err));
    if (mine != 1) {
        return gr_fail(
            err, GR_ERR_DEVICE,
            "%s: busy: another gr00t holds the card (/proc/driver/tenstorrent/%d/pids lists who has it open)",
            c->base.id.node, n);
    }
    return GR_OK;
}

/* The large windows need a large BAR 4, which some firmware (BIOS) does not give; small ones do everything, slower. */
static enum gr_status open_windows(struct kmd_chip *c, struct gr_err *err)
{
    const char *node = c->base.id.node;
    struct gr_err large;
    GR_TRY(gr_kmd_window_open(&c->tile, c->fd, node, GR_KMD_WINDOW_SMALL, false, err));
    GR_TRY(gr_kmd_window_open(&c->bulk, c->fd, node, GR_KMD_WINDOW_SMALL, true, err));
    if (gr_kmd_window_open(&c->dram, c->fd, node, GR_KMD_WINDOW_LARGE, true, &large) != GR_OK) {
        GR_TRY(gr_kmd_window_open(&c->dram, c->fd, node, GR_KMD_WINDOW_SMALL, true, err));
        add_note(&c->base.id, "no 4 GiB window (BAR 4 too small, or all in use): uploads are slower");
    }
    return GR_OK;
}

static enum gr_status raise_clocks(struct kmd_chip *c, struct gr_err *err)
{
    struct gr_kmd_power p = {.bytes = sizeof p,
                             .valid = GR_KMD_POWER_FLAGS,
                             .flags = GR_KMD_POWER_AICLK | GR_KMD_POWER_DRAM | GR_KMD_POWER_TENSIX};
    if (gr_kmd_ioctl(c->fd, GR_KMD_POWER, &p) != 0) {
        if (errno != EINVAL && errno != ENOTTY && errno != EOPNOTSUPP) {
            return gr_fail(err, GR_ERR_DEVICE, "%s: raising the clocks: %s", c->base.id.node, strerror(errno));
        }
        add_note(&c->base.id, "clocks cannot be raised: a driver before tt-kmd 2.6.0, or old firmware");
        return GR_OK;
    }
    uint32_t mhz = 0;
    for (int waited = 0; waited < CLOCK_WAIT_MS; waited += CLOCK_POLL_MS) {
        GR_TRY(gr_chip_aiclk(&c->base, &mhz, err));
        if (mhz > IDLE_MHZ) {
            return GR_OK;
        }
        gr_clock_sleep(CLOCK_POLL_MS);
    }
    add_note(&c->base.id, "the Tensix clock stays at idle");
    return GR_OK;
}

static void close_files(struct kmd_chip *c)
{
    while (c->n_on_close > 0) {
        (void)close(c->on_close[--c->n_on_close]);
    }
}

static bool reset_on_close(struct kmd_chip *c, int column, int row)
{
    const int x = GR_CHIP_X0 + column;
    struct gr_kmd_on_close a = {.bytes = sizeof a,
                                .enabled = 1,
                                .x = (uint8_t)(x < GR_CHIP_GAP0 ? x : x + 2),
                                .y = (uint8_t)(GR_CHIP_Y0 + row),
                                .addr = GR_TENSIX_SOFT_RESET,
                                .data = GR_TENSIX_RESET_ALL};
    const int fd = open(c->base.id.node, O_RDWR | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    c->on_close[c->n_on_close++] = fd;
    return gr_kmd_ioctl(fd, GR_KMD_ON_CLOSE, &a) == 0;
}

/* One write per file is what the driver offers, so a file per tile. The file with the lock gets the highest number: a dying process closes its files
 * from the lowest on, and the next owner must not see tiles stop that it has started. */
static void arm_resets(struct kmd_chip *c)
{
    bool armed = true;
    for (int i = 0; i < GR_CHIP_ROWS * c->base.id.columns && armed; i++) {
        armed = reset_on_close(c, i / GR_CHIP_ROWS, i % GR_CHIP_ROWS);
    }
    int top = c->fd;
    for (int i = 0; i < c->n_on_close; i++) {
        top = c->on_close[i] > top ? c->on_close[i] : top;
    }
    const int last = armed ? fcntl(c->fd, F_DUPFD_CLOEXEC, top + 1) : -1;
    if (last < 0) {
        close_files(c);
        add_note(&c->base.id,
                 "tiles keep running if this process is killed (old driver, or too few open files allowed)");
        return;
    }
    (void)close(c->fd);
    c->fd = c->tile.fd = c->bulk.fd = c->dram.fd = last;
    for (int i = 0; i < TILES_MAX; i++) {
        c->own[i].fd = last;
    }
}

/* ------------------------------------------------------------------------------------------------------------------ access */

static bool all_ones(const void *p, size_t bytes)
{
    const unsigned char *b = p;
    size_t i = 0;
    while (i < bytes && b[i] == 0xFF) {
        i++;
    }
    return i == bytes;
}

/* A chip that is gone answers every read with ones. Some data is nothing but ones too: a word that never is decides. */
static enum gr_status check_alive(struct kmd_chip *c, int x, int y, uint64_t addr, struct gr_err *err)
{
    uint32_t word = UINT32_MAX;
    GR_TRY(gr_kmd_window_read(&c->tile, x, y, false, addr, &word, sizeof word, err));
    return word != UINT32_MAX ? GR_OK : gr_chip_gone(&c->base.id, x, y, err);
}

static bool is_l1(uint64_t addr) { return addr < GR_TENSIX_L1_BYTES; }

/* Through the window whose stores combine: nobody waits for a single word of it, as for a flag or a register. */
static bool is_bulk(uint64_t addr, size_t bytes)
{
    return is_l1(addr) && bytes >= BULK_BYTES && addr % 4 == 0 && bytes % 4 == 0;
}

/* Bulk data of one tile: its own window, whose 2 MiB reach all of L1, or when the driver has no more the one for all. A tile keeps its
 * window until the end, and the driver is not asked again. */
static struct gr_kmd_window *window_of(struct kmd_chip *c, int x, int y)
{
    const int column = x < GR_CHIP_GAP0 ? x - GR_CHIP_X0 : x - GR_CHIP_X0 - 2;
    const int n = column * GR_CHIP_ROWS + y - GR_CHIP_Y0;
    assert(x >= GR_CHIP_X0 && y >= GR_CHIP_Y0 && y < GR_CHIP_Y0 + GR_CHIP_ROWS && n < TILES_MAX); /* chip.c looked */
    struct gr_kmd_window *w = &c->own[n];
    if (w->map == NULL && !c->no_more) {
        struct gr_err ignored; /* a card that is gone is found by who uses the other window */
        c->no_more = gr_kmd_window_open(w, c->fd, c->base.id.node, GR_KMD_WINDOW_SMALL, true, &ignored) != GR_OK;
    }
    return w->map != NULL ? w : &c->bulk;
}

/* Whatever was written is where it belongs before what comes next says so, or is written over it: writes through different windows may
 * overtake each other on the NoC, a read comes back after all writes before it (tt-isa-documentation, PCI Express tile, ordering modes).
 *
 * One read does for any number of windows, and through any of them: the PCI Express tile keeps it back until every write before it was
 * acknowledged by its tile, but for writes through windows for posted writes, and none here is one. That the writes came to the PCI
 * Express tile before the read is the fence's work (kmd_window.c): it follows each piece of bulk data and empties what the CPU gathered
 * for any window. */
static enum gr_status settle(struct kmd_chip *c, unsigned before, struct gr_err *err)
{
    if ((c->on_the_way & before) == 0) {
        return GR_OK;
    }
    c->on_the_way = 0;
    return check_alive(c, GR_CHIP_X0, GR_CHIP_Y0, TENSIX_NOC_ID, err);
}

/* Flags and registers wait for all bulk data. Bulk data waits for what took another window and may be for the same place: a core that is
 * put in reset must not meet its next program, a tile's data must not be lost under a rectangle's. DRAM is another place. What goes to one
 * tile alone always takes the same window, whose order is strict, and no other tile's does: these windows do not wait for each other. */
static enum gr_status write_tiles(struct kmd_chip *c, struct gr_chip_rect r, bool multicast, uint64_t addr,
                                  const void *src, size_t bytes, struct gr_err *err)
{
    if (!is_bulk(addr, bytes)) {
        GR_TRY(settle(c, TO_ONE | TO_MANY | TO_DRAM, err));
        c->on_the_way |= WORDS;
        return gr_kmd_window_write(&c->tile, r, multicast, is_l1(addr), addr, src, bytes, err);
    }
    GR_TRY(settle(c, WORDS | (multicast ? TO_ONE : TO_MANY), err));
    c->on_the_way |= multicast ? TO_MANY : TO_ONE;
    struct gr_kmd_window *w = multicast ? &c->bulk : window_of(c, r.x1, r.y1);
    return gr_kmd_window_write(w, r, multicast, true, addr, src, bytes, err);
}

static enum gr_status kmd_write(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                                struct gr_err *err)
{
    const struct gr_chip_rect r = {.x1 = (uint8_t)x, .y1 = (uint8_t)y};
    return write_tiles((struct kmd_chip *)chip, r, false, addr, src, bytes, err);
}

static enum gr_status kmd_multicast(struct gr_chip *chip, struct gr_chip_rect r, uint64_t addr, const void *src,
                                    size_t bytes, struct gr_err *err)
{
    return write_tiles((struct kmd_chip *)chip, r, true, addr, src, bytes, err);
}

static enum gr_status kmd_read(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                               struct gr_err *err)
{
    struct kmd_chip *c = (struct kmd_chip *)chip;
    const bool arc = x == GR_ARC_X && y == GR_ARC_Y;
    struct gr_kmd_window *w = !arc && is_bulk(addr, bytes) ? window_of(c, x, y) : &c->tile;
    GR_TRY(gr_kmd_window_read(w, x, y, w != &c->tile, addr, dst, bytes, err));
    if (w == &c->tile) {
        c->on_the_way = 0; /* as in settle */
    }
    return all_ones(dst, bytes) ? check_alive(c, x, y, arc ? ARC_BOOT_STATUS : TENSIX_NOC_ID, err) : GR_OK;
}

static enum gr_status kmd_dram_write(struct gr_chip *chip, int x, int y, uint64_t addr, const void *src, size_t bytes,
                                     struct gr_err *err)
{
    struct kmd_chip *c = (struct kmd_chip *)chip;
    const struct gr_chip_rect r = {.x1 = (uint8_t)x, .y1 = (uint8_t)y};
    c->on_the_way |= TO_DRAM;
    return gr_kmd_window_write(&c->dram, r, false, true, addr, src, bytes, err);
}

static enum gr_status kmd_dram_read(struct gr_chip *chip, int x, int y, uint64_t addr, void *dst, size_t bytes,
                                    struct gr_err *err)
{
    struct kmd_chip *c = (struct kmd_chip *)chip;
    GR_TRY(gr_kmd_window_read(&c->dram, x, y, true, addr, dst, bytes, err));
    return all_ones(dst, bytes) ? check_alive(c, GR_ARC_X, GR_ARC_Y, ARC_BOOT_STATUS, err) : GR_OK;
}

/* The card runs by itself: short waits are a poll across the bus anyway, longer ones give the CPU away. */
static void kmd_run(struct gr_chip *chip, uint32_t clocks)
{
    (void)chip;
    if (clocks >= SLEEP_CLOCKS) {
        const struct timespec pause = {.tv_nsec = SLEEP_NS};
        (void)nanosleep(&pause, NULL);
    }
}

static void kmd_close(struct gr_chip *chip)
{
    struct kmd_chip *c = (struct kmd_chip *)chip;
    for (int i = 0; i < TILES_MAX; i++) {
        gr_kmd_window_close(&c->own[i]);
    }
    gr_kmd_window_close(&c->dram);
    gr_kmd_window_close(&c->bulk);
    gr_kmd_window_close(&c->tile);
    close_files(c);
    if (c->fd >= 0) {
        (void)close(c->fd); /* last: it has the lock */
    }
    free(c);
}

static const struct gr_chip_ops kmd_ops = {
    .write = kmd_write,
    .read = kmd_read,
    .multicast = kmd_multicast,
    .dram_write = kmd_dram_write,
    .dram_read = kmd_dram_read,
    .run = kmd_run,
    .close = kmd_close,
};

static enum gr_status new_chip(const struct gr_chip_cfg *cfg, struct kmd_chip **out, struct gr_err *err)
{
    struct kmd_chip *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return gr_fail(err, GR_ERR_NOMEM, "out of memory for the card");
    }
    c->base.ops = &kmd_ops;
    c->fd = -1;
    *out = c;
    const char *dir = cfg->node_dir != NULL ? cfg->node_dir : NODE_DIR;
    const int n = snprintf(c->base.id.node, sizeof c->base.id.node, "%s/%d", dir, cfg->id);
    if (n < 0 || (size_t)n >= sizeof c->base.id.node) {
        return gr_fail(err, GR_ERR_DEVICE, "%.40s...: the folder's name is too long", dir);
    }
    return GR_OK;
}

static enum gr_status look(struct kmd_chip *c, struct gr_err *err)
{
    GR_TRY(open_node(c, err));
    GR_TRY(check_driver(c, err));
    return check_board(c, err);
}

static enum gr_status start(struct kmd_chip *c, int n, struct gr_err *err)
{
    GR_TRY(look(c, err));
    GR_TRY(take_lock(c, n, err));
    GR_TRY(open_windows(c, err));
    GR_TRY(gr_chip_identify(&c->base, err));
    GR_TRY(gr_chip_check_channels(&c->base.id, err));
    GR_TRY(raise_clocks(c, err));
    GR_TRY(gr_chip_identify(&c->base, err)); /* with the clock of now */
    arm_resets(c);
    return GR_OK;
}

enum gr_status gr_chip_kmd_open(const struct gr_chip_cfg *cfg, struct gr_chip **out, struct gr_err *err)
{
    struct kmd_chip *c = NULL;
    enum gr_status st = new_chip(cfg, &c, err);
    if (st == GR_OK) {
        st = start(c, cfg->id, err);
    }
    if (st != GR_OK) {
        if (c != NULL) {
            kmd_close(&c->base);
        }
        return st;
    }
    *out = &c->base;
    return GR_OK;
}

enum gr_status gr_chip_peek(const struct gr_chip_cfg *cfg, struct gr_chip_identity *id, bool *busy, struct gr_err *err)
{
    struct kmd_chip *c = NULL;
    uint8_t held = 0;
    *id = (struct gr_chip_identity){0};
    *busy = false;
    enum gr_status st = new_chip(cfg, &c, err);
    if (st == GR_OK) {
        st = look(c, err);
    }
    if (st == GR_OK) {
        st = lock(c, GR_KMD_LOCK_TEST, &held, err);
    }
    if (st == GR_OK) {
        st = gr_kmd_window_open(&c->tile, c->fd, c->base.id.node, GR_KMD_WINDOW_SMALL, false, err);
    }
    if (st == GR_OK) {
        st = gr_chip_identify(&c->base, err);
    }
    if (c != NULL) {
        *id = c->base.id;
        *busy = (held & GR_KMD_LOCK_HELD) != 0;
        kmd_close(&c->base);
    }
    return st;
}

/* ------------------------------------------------------------------------------------------------------------------ listing */

static int by_number(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* -1: not a number. by-id/ and the like are skipped. */
static int node_number(const char *name)
{
    int n = 0;
    for (const char *p = name; *p != '\0'; p++) {
        if (!isdigit((unsigned char)*p) || n > 99999) {
            return -1;
        }
        n = 10 * n + (*p - '0');
    }
    return name[0] != '\0' ? n : -1;
}

int gr_chip_list(const char *node_dir, int *ids, int max)
{
    DIR *dir = opendir(node_dir != NULL ? node_dir : NODE_DIR);
    int n = 0;
    if (dir == NULL) {
        return 0;
    }
    for (const struct dirent *e = readdir(dir); e != NULL && n < max; e = readdir(dir)) {
        const int id = node_number(e->d_name);
        if (id >= 0) {
            ids[n++] = id;
        }
    }
    closedir(dir);
    qsort(ids, (size_t)n, sizeof *ids, by_number);
    return n;
}
