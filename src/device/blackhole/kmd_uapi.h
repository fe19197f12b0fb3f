/* SPDX-License-Identifier: Apache-2.0
 *
 * kmd_uapi.h: what the kernel driver tt-kmd (github.com/tenstorrent/tt-kmd, file ioctl.h, read at version 2.10.1) understands: request
 * numbers and the layout of their arguments. Written from that description; only what this program uses.
 *
 * Arguments are one struct: what goes in, then what comes out. Fields named `zero` must be 0. */
#ifndef GR_BLACKHOLE_KMD_UAPI_H
#define GR_BLACKHOLE_KMD_UAPI_H

#include <stdint.h>

/* _IO(0xFA, n): the number alone, no size. */
#define GR_KMD_IOCTL(n) (0xFA00ul | (n))
#define GR_KMD_DEVICE_INFO GR_KMD_IOCTL(0)
#define GR_KMD_DRIVER_INFO GR_KMD_IOCTL(5)
#define GR_KMD_LOCK GR_KMD_IOCTL(8)
#define GR_KMD_ALLOCATE_WINDOW GR_KMD_IOCTL(11)
#define GR_KMD_FREE_WINDOW GR_KMD_IOCTL(12)
#define GR_KMD_AIM_WINDOW GR_KMD_IOCTL(13)
#define GR_KMD_ON_CLOSE GR_KMD_IOCTL(14) /* SET_NOC_CLEANUP */
#define GR_KMD_POWER GR_KMD_IOCTL(15)    /* since 2.6.0 (tt-umd 0.9.9, kmd_versions.hpp) */

struct gr_kmd_device_info {
    uint32_t room; /* bytes of what follows */
    uint32_t bytes;
    uint16_t vendor, device, subsystem_vendor, subsystem;
    uint16_t bus_dev_fn; /* function 2:0, device 7:3, bus 15:8 */
    uint16_t max_dma_log2, domain, zero;
};

struct gr_kmd_driver_info {
    uint32_t room, bytes;
    uint32_t interface;          /* 1 or 2 */
    uint8_t major, minor, patch; /* of the driver */
    uint8_t zero;
};

enum { GR_KMD_LOCK_TAKE = 0, GR_KMD_LOCK_TEST = 2 };
enum { GR_KMD_LOCK_MINE = 1, GR_KMD_LOCK_HELD = 2 }; /* bits of value after TEST */
/* One of 64 advisory locks a device, given back when the file is closed. 0..15 stand for Ethernet cores by convention. */
struct gr_kmd_lock {
    uint32_t room, operation;
    uint8_t index, zero[3];
    uint8_t value, zero2[3];
};

struct gr_kmd_allocate_window {
    uint64_t bytes; /* 2 MiB or 4 GiB */
    uint64_t zero;
    uint32_t id, zero2;
    uint64_t offset_uncached, offset_combining; /* for mmap */
    uint64_t zero3;
};

enum { GR_KMD_ORDER_RELAXED = 0, GR_KMD_ORDER_STRICT = 1 };
struct gr_kmd_aim_window {
    uint32_t id, zero;
    uint64_t addr;           /* a multiple of the window's size */
    uint16_t x1, y1, x0, y0; /* one tile: x1, y1, the others 0 */
    uint8_t noc, multicast, ordering, linked, static_vc, zero2[3];
    uint32_t zero3[2];
    uint64_t zero4;
};

/* One 32-bit write that the driver does when this file is closed, however the process ends. */
struct gr_kmd_on_close {
    uint32_t bytes, zero; /* of this struct */
    uint8_t enabled, x, y, noc;
    uint32_t zero2;
    uint64_t addr, data;
};

enum { GR_KMD_POWER_AICLK = 1, GR_KMD_POWER_DRAM = 2, GR_KMD_POWER_TENSIX = 4, GR_KMD_POWER_FLAGS = 3 };
/* What this file wants; the driver takes the highest of all files. A file opened with O_APPEND wants nothing until it says so. */
struct gr_kmd_power {
    uint32_t bytes, zero; /* of this struct */
    uint8_t zero2;
    uint8_t valid; /* number of flags that count, 3:0 */
    uint16_t flags;
    uint16_t settings[14];
};

_Static_assert(sizeof(struct gr_kmd_device_info) == 24, "as the driver counts");
_Static_assert(sizeof(struct gr_kmd_driver_info) == 16, "as the driver counts");
_Static_assert(sizeof(struct gr_kmd_lock) == 16, "as the driver counts");
_Static_assert(sizeof(struct gr_kmd_allocate_window) == 48, "as the driver counts");
_Static_assert(sizeof(struct gr_kmd_aim_window) == 48, "as the driver counts");
_Static_assert(sizeof(struct gr_kmd_on_close) == 32, "as the driver counts");
_Static_assert(sizeof(struct gr_kmd_power) == 40, "as the driver counts");

#endif
