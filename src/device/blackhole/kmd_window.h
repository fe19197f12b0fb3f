/* SPDX-License-Identifier: Apache-2.0
 *
 * kmd_window.h: a window of the card's PCI memory that the kernel driver aims at an address of a tile, or of all tiles of a rectangle. */
#ifndef GR_BLACKHOLE_KMD_WINDOW_H
#define GR_BLACKHOLE_KMD_WINDOW_H

#include "device/blackhole/chip.h"
#include "device/blackhole/kmd_uapi.h"

#define GR_KMD_WINDOW_SMALL (UINT64_C(2) << 20)
#define GR_KMD_WINDOW_LARGE (UINT64_C(4) << 30)

struct gr_kmd_window {
    int fd;           /* of the node, the caller's */
    const char *node; /* for messages, the caller's */
    volatile unsigned char *map;
    uint64_t bytes;
    bool combining, aimed;
    struct gr_kmd_aim_window at; /* id, and where it points */
};

/* ioctl that goes on after a signal; 0 or -1 with errno. */
int gr_kmd_ioctl(int fd, unsigned long request, void *arg);

/* combining: stores gather to 64 bytes on their way to the card and loads overlap (bulk data), else each goes out as it is (registers). GR_ERR_DEVICE:
 * none is free, or the card has none of this size. Zero-initialise *w; gr_kmd_window_close is safe on it at any time. */
enum gr_status gr_kmd_window_open(struct gr_kmd_window *w, int fd, const char *node, uint64_t bytes, bool combining,
                                  struct gr_err *err);
void gr_kmd_window_close(struct gr_kmd_window *w);
/* addr lies in an open window of this process. For the handler of SIGBUS: the driver takes windows away when the card is reset. */
bool gr_kmd_window_has(const void *addr);

/* To the tile of the rectangle, or with multicast to all of them: then addr and bytes are multiples of 4. wide: 64-bit stores are allowed (memory; not
 * registers). Bytes beside a word of 4 are read and written back. Nothing still gathers on return, but only a read says that it has arrived. */
enum gr_status gr_kmd_window_write(struct gr_kmd_window *w, struct gr_chip_rect r, bool multicast, bool wide,
                                   uint64_t addr, const void *src, size_t bytes, struct gr_err *err);
enum gr_status gr_kmd_window_read(struct gr_kmd_window *w, int x, int y, bool wide, uint64_t addr, void *dst,
                                  size_t bytes, struct gr_err *err);

#endif
