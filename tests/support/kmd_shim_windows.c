/* SPDX-License-Identifier: Apache-2.0
 *
 * kmd_shim_windows.c: the windows of the kernel driver's stand-in (kmd_shim.c).
 *
 * A window is a mapping of the part of NODE.mem that it is aimed at. A rectangle's window is a scratch page: words that changed there are
 * copied to its tiles later, as late as a card may: a load through any window, and every request, comes after them, but stores through
 * other windows overtake them. For that, a scratch page is closed to access until the first store, which closes the file's other windows
 * until the first load; a store opens only the window that it goes through. (Loads through that one then see too little.) Which of the two
 * it was is told by x86 only; elsewhere nothing overtakes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "kmd_shim.h"

#define SCRATCH_FILL 0xA5 /* a word of four of these counts as not written */

enum { WINDOW_BASE = 1, LARGE_BASE = 1000, SMALL_MAX = 201 /* blackhole.c of tt-kmd: 202, one for itself */ };

static unsigned mapped; /* how often, since no file was open */
static struct sigaction before;

static struct window *window_of(struct file *f, uint32_t id)
{
    const uint32_t i = id - (id >= LARGE_BASE ? LARGE_BASE : WINDOW_BASE);
    return &f->windows[i < WINDOWS ? i : 0];
}

static uint64_t channel_of(uint32_t x, uint32_t y) { return (x == 18 ? 0 : 4) + (y - 12) / 3; }

static size_t bytes_of(const struct window *w) { return w->large ? LARGE : PAGE; }

/* Words [i, end) of the scratch page to every tile of the rectangle. */
static void spread_run(struct file *f, const struct window *w, const uint64_t *pages, int n, uint32_t i, uint32_t end)
{
    for (int p = 0; p < n; p++) {
        const size_t bytes = 4 * (size_t)(end - i);
        if (pwrite64(f->mem, w->scratch + i, bytes, (off64_t)(pages[p] * PAGE + 4 * (uint64_t)i)) != (ssize_t)bytes) {
            perror("kmd_shim");
        }
    }
}

static void spread(struct file *f, struct window *w)
{
    uint64_t pages[COLUMNS * ROWS];
    uint32_t untouched;
    int n = 0;
    memset(&untouched, SCRATCH_FILL, sizeof untouched);
    for (uint32_t x = w->at.x0; x <= w->at.x1; x++) {
        for (uint32_t y = w->at.y0; y <= w->at.y1; y++) {
            const uint64_t page = kmd_shim_page(x, y, w->at.addr, f);
            if (page != ONES_PAGE && n < COLUMNS * ROWS) {
                pages[n++] = page;
            }
        }
    }
    for (uint32_t i = 0, end; i < PAGE / 4; i = end + 1) {
        for (end = i; end < PAGE / 4 && w->scratch[end] != untouched; end++) {
        }
        if (end > i) {
            spread_run(f, w, pages, n, i, end);
            memset(w->scratch + i, SCRATCH_FILL, 4 * (size_t)(end - i));
        }
    }
}

/* Closes and opens the windows to access, by what is under way. */
static void guard(struct file *f)
{
    bool any = false;
    for (int i = 0; i < WINDOWS; i++) {
        any = any || f->windows[i].under_way;
    }
    for (int i = 0; i < WINDOWS; i++) {
        const struct window *w = &f->windows[i];
        const bool open = w->multicast ? w->under_way : !any;
        if (w->map != NULL && mprotect(w->map, bytes_of(w), open ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) {
            perror("kmd_shim");
        }
    }
}

void kmd_shim_arrive(struct file *f)
{
    bool any = false;
    for (int i = 0; i < WINDOWS; i++) {
        struct window *w = &f->windows[i];
        if (w->under_way) {
            spread(f, w);
            w->under_way = false;
            any = true;
        }
    }
    if (any) {
        guard(f);
    }
}

static struct window *window_at(uintptr_t addr, struct file **f)
{
    for (int fd = 0; fd < FILES; fd++) {
        *f = kmd_shim_files[fd];
        for (int i = 0; *f != NULL && i < WINDOWS; i++) {
            struct window *w = &(*f)->windows[i];
            if (w->map != NULL && addr - (uintptr_t)w->map < bytes_of(w)) {
                return w;
            }
        }
    }
    return NULL;
}

static bool is_store(const ucontext_t *c)
{
#if defined(__x86_64__)
    return (c->uc_mcontext.gregs[REG_ERR] & 2) != 0; /* of the page fault's error code: a write */
#else
    (void)c;
    return false;
#endif
}

/* An access to a window that is closed; it is repeated afterwards. */
static void on_closed(int sig, siginfo_t *info, void *context)
{
    struct file *f = NULL;
    struct window *w = window_at((uintptr_t)info->si_addr, &f);
    const int saved = errno;
    if (w == NULL) {
        (void)sigaction(sig, &before, NULL); /* a fault like any other */
    } else if (w->multicast) {
        w->under_way = true;
        guard(f);
    } else if (is_store(context)) {
        mprotect(w->map, bytes_of(w), PROT_READ | PROT_WRITE);
    } else {
        kmd_shim_arrive(f);
    }
    errno = saved;
}

/* Again and again, for a test's frame takes the signal too. */
static void watch(void)
{
    struct sigaction ours = {.sa_sigaction = on_closed, .sa_flags = SA_SIGINFO | SA_NODEFER}, old;
    sigemptyset(&ours.sa_mask);
    if (sigaction(SIGSEGV, &ours, &old) == 0 && ((old.sa_flags & SA_SIGINFO) == 0 || old.sa_sigaction != on_closed)) {
        before = old;
    }
}

int kmd_shim_aim(struct file *f, const struct gr_kmd_aim_window *a)
{
    const bool large = a->id >= LARGE_BASE;
    struct window *w = window_of(f, a->id);
    const uint64_t bytes = large ? LARGE : PAGE;
    if (!w->taken || w->map == NULL || a->addr % bytes != 0 || a->zero != 0) {
        errno = EINVAL;
        return -1;
    }
    kmd_shim_arrive(f);
    w->multicast = false;
    w->at = *a;
    uint64_t off;
    const bool dram = a->x1 == 17 || a->x1 == 18;
    if (a->multicast) {
        w->scratch =
            kmd_shim_real_mmap(w->map, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (w->scratch == MAP_FAILED) {
            return -1;
        }
        memset(w->scratch, SCRATCH_FILL, PAGE);
        w->multicast = true;
        watch();
        return mprotect(w->map, PAGE, PROT_NONE);
    }
    if (dram && kmd_shim_number(f, "gone", 10, 0) == 0) {
        off = DRAM_PAGES * PAGE + channel_of(a->x1, a->y1) * LARGE + a->addr;
    } else {
        off = kmd_shim_page(a->x1, a->y1, a->addr, f) * PAGE;
    }
    return kmd_shim_real_mmap(w->map, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, f->mem,
                              off) == MAP_FAILED
               ? -1
               : 0;
}

int kmd_shim_allocate(struct file *f, struct gr_kmd_allocate_window *a)
{
    const bool large = a->bytes == LARGE;
    unsigned long free_ones = kmd_shim_number(f, "windows", 10, SMALL_MAX);
    if ((!large && a->bytes != PAGE) || a->zero != 0 || (large && kmd_shim_number(f, "large", 10, 1) == 0)) {
        errno = EINVAL;
        return -1;
    }
    for (uint32_t i = 0; i < WINDOWS; i++) {
        free_ones -= f->windows[i].taken && !f->windows[i].large && free_ones > 0;
    }
    for (uint32_t i = 0; i < WINDOWS && (large || free_ones > 0); i++) {
        if (!f->windows[i].taken) {
            f->windows[i] = (struct window){.taken = true, .large = large};
            a->id = i + (large ? LARGE_BASE : WINDOW_BASE);
            a->offset_uncached = (uint64_t)(i + 1) << 40;
            a->offset_combining = (uint64_t)(i + 1) << 40 | 1u << 20;
            return 0;
        }
    }
    errno = ENOMEM;
    return -1;
}

int kmd_shim_free(struct file *f, uint32_t id)
{
    struct window *w = window_of(f, id);
    errno = w->map != NULL ? EBUSY : EPERM;
    if (w->map != NULL || !w->taken) {
        return -1;
    }
    *w = (struct window){0};
    return 0;
}

void *kmd_shim_map(struct file *f, uint64_t off)
{
    struct window *w = &f->windows[(off >> 40) - 1];
    const int why = kmd_shim_from_nth(f, "map", ++mapped);
    if (why != 0) {
        errno = why;
        return MAP_FAILED;
    }
    w->map = kmd_shim_real_mmap(NULL, w->large ? LARGE : PAGE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return w->map;
}

void kmd_shim_unmap(void *at)
{
    for (int fd = 0; at != NULL && fd < FILES; fd++) {
        for (int i = 0; kmd_shim_files[fd] != NULL && i < WINDOWS; i++) {
            struct window *w = &kmd_shim_files[fd]->windows[i];
            if (w->map == at) {
                kmd_shim_arrive(kmd_shim_files[fd]);
                w->map = NULL;
            }
        }
    }
}

void kmd_shim_first_file(void) { mapped = 0; }
