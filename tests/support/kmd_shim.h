/* SPDX-License-Identifier: Apache-2.0
 *
 * kmd_shim.h: the two halves of the kernel driver's stand-in (kmd_shim.c: card, requests, libc; kmd_shim_windows.c: windows), and what a
 * test that is linked with it can ask. */
#ifndef GR_KMD_SHIM_H
#define GR_KMD_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/blackhole/kmd_uapi.h"

#define PAGE (UINT64_C(2) << 20) /* of the chip's address space: a small window */
#define LARGE (UINT64_C(4) << 30)
#define ONES_PAGE 2               /* of NODE.mem: what is not there */
#define DRAM_PAGES (LARGE / PAGE) /* the first channel begins at 4 GiB */

enum { FILES = 512, WINDOWS = 210, X0 = 1, Y0 = 2, ROWS = 10, COLUMNS = 14 };

struct window {
    bool taken, large, multicast;
    bool under_way; /* a rectangle's: something was stored that its tiles do not have */
    void *map;
    uint32_t *scratch;
    struct gr_kmd_aim_window at;
};
struct file {
    char node[512];
    int mem;
    struct gr_kmd_on_close on_close;
    struct window windows[WINDOWS];
};

/* How often a request (GR_KMD_...) was made, failed ones too, since the last open of the process that had none open. */
unsigned kmd_shim_asked(unsigned long request);
/* Windows that were not freed when their file was closed for the last time, since then. */
unsigned kmd_shim_left(void);

/* kmd_shim.c */
extern struct file *kmd_shim_files[FILES]; /* by descriptor; copies share one */
void *kmd_shim_real_mmap(void *at, size_t n, int prot, int flags, int fd, uint64_t off);
unsigned long kmd_shim_number(const struct file *f, const char *name, int base, unsigned long otherwise);
/* The errno E of a word E:K when this is the K-th time or a later one, else 0. */
int kmd_shim_from_nth(const struct file *f, const char *name, unsigned nth);
/* Page of NODE.mem behind an address of a tile. */
uint64_t kmd_shim_page(uint32_t x, uint32_t y, uint64_t addr, const struct file *f);

/* kmd_shim_windows.c */
void kmd_shim_first_file(void);
int kmd_shim_allocate(struct file *f, struct gr_kmd_allocate_window *a);
int kmd_shim_free(struct file *f, uint32_t id);
int kmd_shim_aim(struct file *f, const struct gr_kmd_aim_window *a);
void *kmd_shim_map(struct file *f, uint64_t off);
void kmd_shim_unmap(void *at); /* any address: most are nobody's window */
/* Whatever was stored has arrived on return. */
void kmd_shim_arrive(struct file *f);

#endif
