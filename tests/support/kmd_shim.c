/* SPDX-License-Identifier: Apache-2.0
 *
 * kmd_shim.c: stands in for the kernel driver tt-kmd and a Blackhole card: open, ioctl, mmap and close of /dev/tenstorrent/N, for tests without a card.
 * Loaded with LD_PRELOAD, or linked into a test.
 *
 * The folder GR_TEST_KMD has one text file a node, "0", "1", ...: words name=value that change what the card is:
 *
 *     interface=2 driver=2.10.1      versions of the driver        pci=b140          PCI device id
 *     columns=12 channels=8          what works                    board=40          type in the serial number
 *     firmware=13040000 aiclk=1350   telemetry                     boot=5            status of the management firmware
 *     translated=1 table=1           0: no translation; no table   large=1           0: no 4 GiB windows
 *     windows=201                    small ones that a file can have
 *     mute=T                         telemetry tag T is missing     gone=1            every read gives ones
 *     fail=N:E:K                     request number N fails with errno E from the K-th on; without K always. Counted from an open of
 *     open=E:K map=E:K               the process that has none open; the same for open and mmap
 *
 * Memory of the chip is a file NODE.mem beside the node, made at the first open, so that it lives as long as the folder: tests look into
 * it after the process has ended. Windows are in kmd_shim_windows.c. Locks are locks of the node's file. */
#undef _FILE_OFFSET_BITS /* both names of each function are defined below; with it they would be one */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kmd_shim.h"

#define NODE_DIR "/dev/tenstorrent"
#define ARC_PAGES 0  /* pages of NODE.mem: scratch and registers, memory */
#define TILE_PAGES 4 /* two a tile: L1, registers */
#define MEM_BYTES (LARGE * 9)
#define REGISTERS UINT64_C(0xFFA00000)
#define NOC_ID UINT64_C(0x112148) /* in the page of registers */

enum { TAGS = 12, REQUESTS = 32 };

struct file *kmd_shim_files[FILES];
static int n_files;
static unsigned asked[REQUESTS], opened, left; /* how often, since no file was open */

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

static int real_open(const char *path, int flags, mode_t mode)
{
    int (*fn)(const char *, int, ...);
    *(void **)&fn = next("open64");
    return fn(path, flags, mode);
}

static int real_close(int fd)
{
    int (*fn)(int);
    *(void **)&fn = next("close");
    return fn(fd);
}

void *kmd_shim_real_mmap(void *at, size_t n, int prot, int flags, int fd, uint64_t off)
{
    void *(*fn)(void *, size_t, int, int, int, off64_t);
    *(void **)&fn = next("mmap64");
    return fn(at, n, prot, flags, fd, (off64_t)off);
}

/* Value of a word in the node's file, read anew every time: a test may change the card while it is open. */
static bool word_of(const struct file *f, const char *name, char *out, size_t size)
{
    char text[1024], *save = NULL;
    const int fd = real_open(f->node, O_RDONLY | O_CLOEXEC, 0);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        real_close(fd);
    }
    text[n > 0 ? n : 0] = '\0';
    for (char *w = strtok_r(text, " \n", &save); w != NULL; w = strtok_r(NULL, " \n", &save)) {
        const size_t len = strlen(name);
        if (strncmp(w, name, len) == 0 && w[len] == '=') {
            snprintf(out, size, "%s", w + len + 1);
            return true;
        }
    }
    return false;
}

unsigned long kmd_shim_number(const struct file *f, const char *name, int base, unsigned long otherwise)
{
    char v[64];
    return word_of(f, name, v, sizeof v) ? strtoul(v, NULL, base) : otherwise;
}

int kmd_shim_from_nth(const struct file *f, const char *name, unsigned nth)
{
    char v[64];
    unsigned from = 0;
    int why = 0;
    return word_of(f, name, v, sizeof v) && sscanf(v, "%d:%u", &why, &from) >= 1 && nth >= from ? why : 0;
}

/* ------------------------------------------------------------------------------------------------------------- the chip */

static void put32(const struct file *f, uint64_t at, uint32_t v)
{
    if (pwrite64(f->mem, &v, sizeof v, (off64_t)at) != (ssize_t)sizeof v) {
        perror("kmd_shim");
    }
}

uint64_t kmd_shim_page(uint32_t x, uint32_t y, uint64_t addr, const struct file *f)
{
    const uint32_t column = x < 8 ? x - X0 : x - X0 - 2;
    if (kmd_shim_number(f, "gone", 10, 0) != 0) {
        return ONES_PAGE;
    }
    if (x == 8 && y == 0) {
        return addr == 0x80000000 ? ARC_PAGES : addr == 0x10000000 ? ARC_PAGES + 1 : ONES_PAGE;
    }
    if (x >= X0 && x != 8 && x != 9 && column < kmd_shim_number(f, "columns", 10, 12) && y >= Y0 && y < Y0 + ROWS) {
        const uint64_t first = TILE_PAGES + 2 * (uint64_t)(column * ROWS + (y - Y0));
        return addr == 0 ? first : addr == REGISTERS ? first + 1 : ONES_PAGE;
    }
    return ONES_PAGE;
}

static void fill_telemetry(const struct file *f)
{
    const uint64_t memory = (ARC_PAGES + 1) * PAGE, tags = 0x100, values = 0x200;
    const unsigned long board = kmd_shim_number(f, "board", 16, 0x40), mute = kmd_shim_number(f, "mute", 10, 0);
    const uint32_t list[TAGS][2] = {
        {1, (uint32_t)(board << 4)},
        {2, 0x00001234},
        {11, 45u << 16 | 0x8000},
        {14, (uint32_t)kmd_shim_number(f, "aiclk", 10, 1350)},
        {15, 960},
        {16, 800},
        {23, 16000},
        {28, (uint32_t)kmd_shim_number(f, "firmware", 16, 0x12070000)},
        {32, 77},
        {34, (1u << kmd_shim_number(f, "columns", 10, 12)) - 1},
        {36, (1u << kmd_shim_number(f, "channels", 10, 8)) - 1},
        {4000, 1}, /* one that readers do not know */
    };
    uint32_t n = 0;
    for (uint32_t i = 0; i < TAGS; i++) {
        if (list[i][0] != mute) {
            put32(f, memory + tags + 8 + 4 * n, list[i][0] | i << 16); /* values keep their places */
            put32(f, memory + values + 4 * i, list[i][1]);
            n++;
        }
    }
    put32(f, memory + tags, 1);
    put32(f, memory + tags + 4, n);
    put32(f, 0x30408, (uint32_t)kmd_shim_number(f, "boot", 10, 5));
    put32(f, 0x30430, 0x10000000 + (uint32_t)values);
    put32(f, 0x30434, kmd_shim_number(f, "table", 10, 1) != 0 ? 0x10000000 + (uint32_t)tags : 0);
    put32(f, 0x50100, (uint32_t)kmd_shim_number(f, "translated", 10, 1) << 14);
}

/* The management firmware writes its table at every open; tiles keep what they hold. */
static bool open_chip(struct file *f)
{
    char path[600];
    snprintf(path, sizeof path, "%s.mem", f->node);
    struct stat st;
    const bool fresh = stat(path, &st) != 0;
    f->mem = real_open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (f->mem < 0 || ftruncate64(f->mem, (off64_t)MEM_BYTES) != 0) {
        return false;
    }
    fill_telemetry(f);
    if (fresh) {
        static unsigned char ones[PAGE];
        memset(ones, 0xFF, sizeof ones);
        if (pwrite64(f->mem, ones, sizeof ones, (off64_t)(ONES_PAGE * PAGE)) != (ssize_t)sizeof ones) {
            return false;
        }
        for (uint32_t i = 0; i < COLUMNS * ROWS; i++) {
            const uint32_t column = i / ROWS, x = column < 7 ? column + X0 : column + X0 + 2, y = i % ROWS + Y0;
            put32(f, (TILE_PAGES + 2 * (uint64_t)i + 1) * PAGE + NOC_ID, x | y << 6);
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------- requests */

static int lock_node(int fd, struct gr_kmd_lock *l)
{
    struct flock k = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = l->index, .l_len = 1};
    if (l->operation == GR_KMD_LOCK_TEST) {
        l->value = fcntl(fd, F_OFD_GETLK, &k) == 0 && k.l_type != F_UNLCK ? GR_KMD_LOCK_HELD : 0;
    } else {
        l->value = fcntl(fd, F_OFD_SETLK, &k) == 0;
    }
    return 0;
}

static int driver_info(const struct file *f, struct gr_kmd_driver_info *d)
{
    char v[64];
    unsigned major = 2, minor = 10, patch = 1;
    if (word_of(f, "driver", v, sizeof v)) {
        sscanf(v, "%u.%u.%u", &major, &minor, &patch);
    }
    *d = (struct gr_kmd_driver_info){.bytes = 12,
                                     .interface = (uint32_t)kmd_shim_number(f, "interface", 10, 2),
                                     .major = (uint8_t)major,
                                     .minor = (uint8_t)minor,
                                     .patch = (uint8_t)patch};
    return 0;
}

static bool told_to_fail(const struct file *f, unsigned long request)
{
    char v[64];
    unsigned n = 0, from = 0;
    int why = 0;
    const unsigned nth = ++asked[_IOC_NR(request) % REQUESTS];
    if (word_of(f, "fail", v, sizeof v) && sscanf(v, "%u:%d:%u", &n, &why, &from) >= 2 && request == GR_KMD_IOCTL(n) &&
        nth >= from) {
        errno = why;
        return true;
    }
    return false;
}

static int serve(struct file *f, int fd, unsigned long request, void *arg)
{
    if (told_to_fail(f, request)) {
        return -1;
    }
    switch (request) {
    case GR_KMD_DEVICE_INFO:
        *(struct gr_kmd_device_info *)arg =
            (struct gr_kmd_device_info){.bytes = 20,
                                        .vendor = 0x1E52,
                                        .device = (uint16_t)kmd_shim_number(f, "pci", 16, 0xB140),
                                        .bus_dev_fn = 0xC100};
        return 0;
    case GR_KMD_DRIVER_INFO:
        return driver_info(f, arg);
    case GR_KMD_LOCK:
        return lock_node(fd, arg);
    case GR_KMD_ALLOCATE_WINDOW:
        return kmd_shim_allocate(f, arg);
    case GR_KMD_FREE_WINDOW:
        return kmd_shim_free(f, *(const uint32_t *)arg);
    case GR_KMD_AIM_WINDOW:
        return kmd_shim_aim(f, arg);
    case GR_KMD_ON_CLOSE:
        f->on_close = *(struct gr_kmd_on_close *)arg;
        return 0;
    case GR_KMD_POWER: {
        const struct gr_kmd_power *p = arg;
        errno = EINVAL;
        return p->bytes == sizeof *p && p->zero == 0 && p->zero2 == 0 ? 0 : -1;
    }
    default:
        errno = EINVAL;
        return -1;
    }
}

unsigned kmd_shim_asked(unsigned long request) { return asked[_IOC_NR(request) % REQUESTS]; }

unsigned kmd_shim_left(void) { return left; }

/* What the driver does when the last copy of a file goes. */
static void end_file(struct file *f)
{
    kmd_shim_arrive(f);
    const struct gr_kmd_on_close *a = &f->on_close;
    if (a->enabled) {
        const uint64_t page = kmd_shim_page(a->x, a->y, a->addr - a->addr % PAGE, f);
        put32(f, page * PAGE + a->addr % PAGE, (uint32_t)a->data);
    }
    for (int i = 0; i < WINDOWS; i++) {
        left += f->windows[i].taken;
    }
    real_close(f->mem);
    free(f);
    n_files--;
}

/* The process ends: what it stored has arrived long ago, then its files are closed from the lowest on. A copy with a higher number keeps one open. */
__attribute__((destructor)) static void end_all(void)
{
    for (int fd = 0; fd < FILES; fd++) {
        if (kmd_shim_files[fd] != NULL) {
            kmd_shim_arrive(kmd_shim_files[fd]);
        }
    }
    for (int fd = 0; fd < FILES; fd++) {
        struct file *f = kmd_shim_files[fd];
        for (int i = fd; f != NULL && i < FILES; i++) {
            kmd_shim_files[i] = kmd_shim_files[i] == f ? NULL : kmd_shim_files[i];
        }
        if (f != NULL) {
            end_file(f);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------- libc */

static bool redirect(const char *path, char *out, size_t size)
{
    const char *dir = getenv("GR_TEST_KMD");
    const size_t n = strlen(NODE_DIR);
    if (dir == NULL || strncmp(path, NODE_DIR, n) != 0 || (path[n] != '\0' && path[n] != '/')) {
        return false;
    }
    snprintf(out, size, "%s%s", dir, path + n);
    return true;
}

static int open_any(const char *path, int flags, mode_t mode)
{
    char real[512];
    if (!redirect(path, real, sizeof real)) {
        return real_open(path, flags, mode);
    }
    struct stat st;
    if (stat(real, &st) == 0 && !S_ISREG(st.st_mode)) { /* no node of the driver */
        return real_open(real, flags, mode);
    }
    struct file *f = calloc(1, sizeof *f);
    const int fd = real_open(real, O_RDWR | O_CLOEXEC, 0);
    if (f == NULL || fd < 0 || fd >= FILES) {
        free(f);
        return fd;
    }
    snprintf(f->node, sizeof f->node, "%s", real);
    if (n_files == 0) {
        memset(asked, 0, sizeof asked);
        opened = left = 0;
        kmd_shim_first_file();
    }
    const int why = kmd_shim_from_nth(f, "open", ++opened);
    if (why != 0 || !open_chip(f)) {
        real_close(fd);
        free(f);
        errno = why != 0 ? why : EIO;
        return -1;
    }
    kmd_shim_files[fd] = f;
    n_files++;
    return fd;
}

/* The rest takes the place of libc's. */
#pragma GCC visibility push(default)

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return open_any(path, flags, mode);
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list ap;
    va_start(ap, request);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    if (fd >= 0 && fd < FILES && kmd_shim_files[fd] != NULL) {
        return serve(kmd_shim_files[fd], fd, request, arg);
    }
    int (*fn)(int, unsigned long, ...);
    *(void **)&fn = next("ioctl");
    return fn(fd, request, arg);
}

int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    va_start(ap, cmd);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    int (*fn)(int, int, ...);
    *(void **)&fn = next("fcntl64");
    const int r = fn(fd, cmd, arg);
    if ((cmd == F_DUPFD_CLOEXEC || cmd == F_DUPFD) && fd >= 0 && fd < FILES && r >= 0 && r < FILES) {
        kmd_shim_files[r] = kmd_shim_files[fd];
    }
    return r;
}

int close(int fd)
{
    struct file *f = fd >= 0 && fd < FILES ? kmd_shim_files[fd] : NULL;
    if (f != NULL) {
        bool shared = false;
        kmd_shim_files[fd] = NULL;
        for (int i = 0; i < FILES; i++) {
            shared = shared || kmd_shim_files[i] == f;
        }
        if (!shared) {
            end_file(f);
        }
    }
    return real_close(fd);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return fd >= 0 && fd < FILES && kmd_shim_files[fd] != NULL
               ? kmd_shim_map(kmd_shim_files[fd], (uint64_t)off)
               : kmd_shim_real_mmap(at, n, prot, flags, fd, (uint64_t)off);
}

int munmap(void *at, size_t n)
{
    kmd_shim_unmap(at);
    int (*fn)(void *, size_t);
    *(void **)&fn = next("munmap");
    return fn(at, n);
}

DIR *opendir(const char *path)
{
    char real[512];
    DIR *(*fn)(const char *);
    *(void **)&fn = next("opendir");
    return fn(redirect(path, real, sizeof real) ? real : path);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t off) __attribute__((alias("mmap")));

#pragma GCC visibility pop
