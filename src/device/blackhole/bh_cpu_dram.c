/* SPDX-License-Identifier: Apache-2.0
 *
 * bh_cpu_dram.c: the DRAM channels of the CPU machine. Knows to 64 bytes what was written, so that a stream that runs past its end is a
 * fault. */
#include <stdlib.h>
#include <string.h>

#include "device/blackhole/bh_cpu.h"

#define PAGE_BYTES (UINT64_C(4) << 20)
#define CHANNEL_BYTES (UINT64_C(4) << 30)
enum { UNIT = 64, UNITS = 65536 /* of a page */, PAGES = 1024 /* of a channel */ };

struct gr_bh_dram_page {
    uint64_t written[UNITS / 64]; /* a bit a unit */
    _Alignas(64) uint8_t bytes[PAGE_BYTES];
};

void gr_bh_dram_free(struct gr_bh_dram *d)
{
    for (int c = 0; c < GR_BH_CHANNELS; c++) {
        for (int p = 0; d->page[c] && p < PAGES; p++) {
            free(d->page[c][p]);
        }
        free(d->page[c]);
        d->page[c] = NULL;
    }
}

static enum gr_status page_of(struct gr_bh_dram *d, int channel, uint64_t number, struct gr_bh_dram_page **out,
                              struct gr_err *err)
{
    if (!d->page[channel]) {
        d->page[channel] = calloc(PAGES, sizeof(struct gr_bh_dram_page *));
    }
    if (d->page[channel] && !d->page[channel][number]) {
        struct gr_bh_dram_page *p = aligned_alloc(64, sizeof *p);
        if (p) {
            memset(p->written, 0, sizeof p->written);
        }
        d->page[channel][number] = p;
    }
    if (!d->page[channel] || !d->page[channel][number]) {
        return gr_fail(err, GR_ERR_NOMEM, "DRAM channel %d: out of memory", channel);
    }
    *out = d->page[channel][number];
    return GR_OK;
}

enum gr_status gr_bh_dram_write(struct gr_bh_dram *d, int channel, uint64_t addr, const void *src, size_t bytes,
                                struct gr_err *err)
{
    if (channel < 0 || channel >= GR_BH_CHANNELS || addr > CHANNEL_BYTES || bytes > CHANNEL_BYTES - addr) {
        return gr_fail(err, GR_ERR_DEVICE, "DRAM channel %d has no %zu bytes at 0x%llx", channel, bytes,
                       (unsigned long long)addr);
    }
    const uint8_t *from = src;
    while (bytes) {
        struct gr_bh_dram_page *p = NULL;
        GR_TRY(page_of(d, channel, addr / PAGE_BYTES, &p, err));
        size_t at = (size_t)(addr % PAGE_BYTES), n = PAGE_BYTES - at;
        n = n < bytes ? n : bytes;
        memcpy(p->bytes + at, from, n);
        for (size_t u = at / UNIT; u <= (at + n - 1) / UNIT; u++) {
            p->written[u / 64] |= UINT64_C(1) << u % 64;
        }
        from += n;
        addr += n;
        bytes -= n;
    }
    return GR_OK;
}

static bool written(const struct gr_bh_dram_page *p, size_t at, size_t bytes)
{
    for (size_t u = at / UNIT; u <= (at + bytes - 1) / UNIT; u++) {
        if (!(p->written[u / 64] >> u % 64 & 1)) {
            return false;
        }
    }
    return true;
}

const uint8_t *gr_bh_dram_read(const struct gr_bh_dram *d, int channel, uint64_t addr, size_t bytes, uint8_t *scratch)
{
    if (addr > CHANNEL_BYTES || bytes > CHANNEL_BYTES - addr || !d->page[channel]) {
        return NULL;
    }
    for (size_t copied = 0; copied < bytes;) {
        uint64_t a = addr + copied;
        const struct gr_bh_dram_page *p = d->page[channel][a / PAGE_BYTES];
        size_t at = (size_t)(a % PAGE_BYTES), n = PAGE_BYTES - at;
        n = n < bytes - copied ? n : bytes - copied;
        if (!p || !written(p, at, n)) {
            return NULL;
        }
        if (n == bytes) {
            return p->bytes + at;
        }
        memcpy(scratch + copied, p->bytes + at, n);
        copied += n;
    }
    return scratch;
}

int gr_bh_dram_channel(uint32_t xy)
{
    uint32_t x = xy & 63u, y = xy >> 6;
    if ((x != 17 && x != 18) || y < 12 || y >= 24) {
        return -1;
    }
    return (int)((y - 12) / 3 + (x == 17 ? 4 : 0));
}
