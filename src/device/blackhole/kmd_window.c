/* SPDX-License-Identifier: Apache-2.0
 *
 * kmd_window.c: windows of the kernel driver: allocate, map, aim, copy. Copies use aligned words only: the bus splits nothing, and registers must be
 * hit once and whole. */
#include "device/blackhole/kmd_window.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

/* Two cards with a window for each tile and a few more. */
enum { OPEN_MAX = 2 * (GR_CHIP_ROWS * GR_CHIP_COLUMNS_MAX + 4), LINE = 64 };

/* Windows that are open: a signal handler reads it. */
static _Atomic(uintptr_t) open_from[OPEN_MAX];
static _Atomic(uintptr_t) open_bytes[OPEN_MAX];

/* false: no room. A window that the handler did not know would pass for a damaged file. */
static bool note_open(const struct gr_kmd_window *w)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&open_from[i], &none, (uintptr_t)w->map)) {
            atomic_store(&open_bytes[i], (uintptr_t)w->bytes);
            return true;
        }
    }
    return false;
}

static void forget_open(const struct gr_kmd_window *w)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        if (atomic_load(&open_from[i]) == (uintptr_t)w->map) {
            atomic_store(&open_bytes[i], 0);
            atomic_store(&open_from[i], 0);
        }
    }
}

bool gr_kmd_window_has(const void *addr)
{
    for (int i = 0; i < OPEN_MAX; i++) {
        if ((uintptr_t)addr - atomic_load(&open_from[i]) < atomic_load(&open_bytes[i])) {
            return true;
        }
    }
    return false;
}

/* Stores that gather leave now; loads that may overlap do not run ahead of what was read before. The buffers are the CPU's, not a
 * window's: it is so for all windows at once. */
static void fence(void)
{
#if defined(__x86_64__)
    __builtin_ia32_mfence();
#else
    __sync_synchronize();
#endif
}

int gr_kmd_ioctl(int fd, unsigned long request, void *arg)
{
    int r;
    do {
        r = ioctl(fd, request, arg);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -1 : 0;
}

enum gr_status gr_kmd_window_open(struct gr_kmd_window *w, int fd, const char *node, uint64_t bytes, bool combining,
                                  struct gr_err *err)
{
    struct gr_kmd_allocate_window a = {.bytes = bytes};
    const unsigned mib = (unsigned)(bytes >> 20);
    if (gr_kmd_ioctl(fd, GR_KMD_ALLOCATE_WINDOW, &a) != 0) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: the driver gives no window of %u MiB: %s", node, mib, strerror(errno));
    }
    *w = (struct gr_kmd_window){.fd = fd, .node = node, .bytes = bytes, .combining = combining, .at = {.id = a.id}};
    void *map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)(combining ? a.offset_combining : a.offset_uncached));
    if (map == MAP_FAILED) {
        const int why = errno;
        (void)gr_kmd_ioctl(fd, GR_KMD_FREE_WINDOW, &a.id);
        return gr_fail(err, GR_ERR_DEVICE, "%s: mapping a window of %u MiB: %s", node, mib, strerror(why));
    }
    w->map = map;
    if (!note_open(w)) {
        gr_kmd_window_close(w);
        return gr_fail(err, GR_ERR_DEVICE, "%s: more than %d windows in one process", node, OPEN_MAX);
    }
    return GR_OK;
}

void gr_kmd_window_close(struct gr_kmd_window *w)
{
    if (w->map == NULL) {
        return;
    }
    forget_open(w);
    (void)munmap((void *)(uintptr_t)w->map, (size_t)w->bytes);
    w->map = NULL;
    (void)gr_kmd_ioctl(w->fd, GR_KMD_FREE_WINDOW, &w->at.id);
}

static enum gr_status aim(struct gr_kmd_window *w, struct gr_chip_rect r, bool multicast, uint8_t ordering,
                          uint64_t addr, struct gr_err *err)
{
    struct gr_kmd_aim_window a = {.id = w->at.id,
                                  .addr = addr - addr % w->bytes,
                                  .x1 = r.x1,
                                  .y1 = r.y1,
                                  .x0 = multicast ? r.x0 : 0,
                                  .y0 = multicast ? r.y0 : 0,
                                  .multicast = multicast,
                                  .ordering = ordering};
    if (w->aimed && a.addr == w->at.addr && a.x1 == w->at.x1 && a.y1 == w->at.y1 && a.x0 == w->at.x0 &&
        a.y0 == w->at.y0 && a.multicast == w->at.multicast) {
        return GR_OK;
    }
    w->aimed = false;
    if (gr_kmd_ioctl(w->fd, GR_KMD_AIM_WINDOW, &a) != 0) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: aiming a window at (%d, %d): %s%s", w->node, r.x1, r.y1,
                       strerror(errno), errno == ENODEV ? ": the card was reset or taken out" : "");
    }
    w->at = a;
    w->aimed = true;
    return GR_OK;
}

static size_t part(const struct gr_kmd_window *w, uint64_t addr, size_t bytes)
{
    const uint64_t n = w->bytes - addr % w->bytes;
    return n < bytes ? (size_t)n : bytes;
}

/* Bytes inside one word. */
static size_t put_part(volatile unsigned char *to, const unsigned char *from, size_t n)
{
    const size_t at = (uintptr_t)to % 4;
    volatile uint32_t *word = (volatile uint32_t *)(to - at);
    uint32_t v = *word;
    n = n < 4 - at ? n : 4 - at;
    memcpy((unsigned char *)&v + at, from, n);
    *word = v;
    return n;
}

static void put(volatile unsigned char *to, const unsigned char *from, size_t n, bool wide)
{
    while (n > 0) {
        size_t step = 4;
        if ((uintptr_t)to % 4 != 0 || n < 4) {
            step = put_part(to, from, n);
        } else if (wide && (uintptr_t)to % 8 == 0 && n >= 8) {
            uint64_t v;
            step = sizeof v;
            memcpy(&v, from, sizeof v);
            *(volatile uint64_t *)to = v;
        } else {
            uint32_t v;
            memcpy(&v, from, sizeof v);
            *(volatile uint32_t *)to = v;
        }
        to += step;
        from += step;
        n -= step;
    }
}

/* A load is a way to the card and back, so the widest that every CPU of the architecture has. */
typedef uint64_t quad __attribute__((vector_size(16)));

static void get(unsigned char *to, const volatile unsigned char *from, size_t n, bool wide)
{
    while (n > 0) {
        const size_t at = (uintptr_t)from % 4;
        size_t step = 4 - at < n ? 4 - at : n;
        if (wide && (uintptr_t)from % sizeof(quad) == 0 && n >= sizeof(quad)) {
            const quad v = *(const volatile quad *)from;
            step = sizeof v;
            memcpy(to, &v, sizeof v);
        } else if (wide && (uintptr_t)from % 8 == 0 && n >= 8) {
            const uint64_t v = *(const volatile uint64_t *)from;
            step = sizeof v;
            memcpy(to, &v, sizeof v);
        } else {
            const uint32_t v = *(const volatile uint32_t *)(from - at);
            memcpy(to, (const unsigned char *)&v + at, step);
        }
        to += step;
        from += step;
        n -= step;
    }
}

/* Whole lines through a window whose stores combine: of SSE4.1's streaming loads the first goes to the card for all 64 bytes. Returns the bytes
 * taken: none without them. */
static size_t get_lines(unsigned char *to, const volatile unsigned char *from, size_t n)
{
    size_t taken = 0;
#if defined(__x86_64__)
    if ((uintptr_t)from % LINE == 0 && __builtin_cpu_supports("sse4.1")) {
        for (n -= n % LINE; taken < n; taken += sizeof(quad)) {
            quad v;
            __asm__ volatile("movntdqa %1, %0" : "=x"(v) : "m"(*(const volatile quad *)(from + taken)));
            memcpy(to + taken, &v, sizeof v);
        }
    }
#else
    (void)to;
    (void)from;
    (void)n;
#endif
    return taken;
}

enum gr_status gr_kmd_window_write(struct gr_kmd_window *w, struct gr_chip_rect r, bool multicast, bool wide,
                                   uint64_t addr, const void *src, size_t bytes, struct gr_err *err)
{
    if (multicast && (addr % 4 != 0 || bytes % 4 != 0)) {
        return gr_fail(err, GR_ERR_DEVICE, "%s: %zu bytes at 0x%llx to many tiles: not whole words", w->node, bytes,
                       (unsigned long long)addr);
    }
    for (const unsigned char *s = src; bytes > 0;) {
        const size_t n = part(w, addr, bytes);
        GR_TRY(aim(w, r, multicast, w->bytes == GR_KMD_WINDOW_SMALL ? GR_KMD_ORDER_STRICT : GR_KMD_ORDER_RELAXED, addr,
                   err));
        put(w->map + addr % w->bytes, s, n, wide);
        s += n;
        addr += n;
        bytes -= n;
        if (w->combining) {
            fence(); /* before the window is aimed at something else, and before anybody is told */
        }
    }
    return GR_OK;
}

enum gr_status gr_kmd_window_read(struct gr_kmd_window *w, int x, int y, bool wide, uint64_t addr, void *dst,
                                  size_t bytes, struct gr_err *err)
{
    const struct gr_chip_rect r = {.x1 = (uint8_t)x, .y1 = (uint8_t)y};
    for (unsigned char *d = dst; bytes > 0;) {
        const size_t n = part(w, addr, bytes);
        GR_TRY(
            aim(w, r, false, w->bytes == GR_KMD_WINDOW_SMALL ? GR_KMD_ORDER_STRICT : GR_KMD_ORDER_RELAXED, addr, err));
        const volatile unsigned char *from = w->map + addr % w->bytes;
        size_t lines = 0;
        if (w->combining) {
            fence();
            lines = get_lines(d, from, n);
        }
        get(d + lines, from + lines, n - lines, wide);
        d += n;
        addr += n;
        bytes -= n;
    }
    return GR_OK;
}
