/* SPDX-License-Identifier: Apache-2.0
 *
 * mem.c: checked sizes, and anonymous mappings aligned to 2 MiB so that the kernel can back them with huge pages.
 * A build with the address sanitizer takes them from the heap instead: of mappings it would see no overrun. */
#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FROM_HEAP 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FROM_HEAP 1
#endif
#endif
#ifndef FROM_HEAP
#define FROM_HEAP 0
#endif

enum { HUGE = 2 << 20, SMALL = 4096 };

bool gr_size_mul(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }

bool gr_size_add(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

/* What is really mapped for a request: whole pages, at least one. */
static size_t mapped_bytes(size_t bytes) { return bytes == 0 ? SMALL : (bytes + SMALL - 1) / SMALL * SMALL; }

enum gr_status gr_big_alloc(size_t bytes, const char *what, void **out, struct gr_err *err)
{
    size_t total;
    if (bytes > SIZE_MAX - SMALL || !gr_size_add(mapped_bytes(bytes), HUGE, &total)) {
        return gr_fail(err, GR_ERR_NOMEM, "%s: %zu bytes are more than this machine can address", what, bytes);
    }
    if (FROM_HEAP) {
        void *block = NULL;
        /* Above its own limit the sanitizer ends the process instead of refusing. */
        if (bytes > (size_t)1 << 38 || posix_memalign(&block, HUGE, bytes == 0 ? 1 : bytes) != 0) {
            return gr_fail(err, GR_ERR_NOMEM, "%s: no memory for %zu bytes", what, bytes);
        }
        memset(block, 0, bytes);
        *out = block;
        return GR_OK;
    }
    size_t size = mapped_bytes(bytes);
    uint8_t *p = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return gr_fail_errno(err, GR_ERR_NOMEM, errno, "%s: no memory for %zu bytes (%.1f MiB)", what, bytes,
                             (double)bytes / 1048576.0);
    }
    size_t head = (HUGE - (size_t)((uintptr_t)p % HUGE)) % HUGE;
    size_t tail = total - head - size;
    if (head > 0) {
        (void)munmap(p, head);
    }
    if (tail > 0) {
        (void)munmap(p + head + size, tail);
    }
    (void)madvise(p + head, size, MADV_HUGEPAGE); /* advice: a kernel without huge pages is no fault */
    *out = p + head;
    return GR_OK;
}

void gr_big_free(void *p, size_t bytes)
{
    if (FROM_HEAP) {
        free(p);
    } else if (p != NULL) {
        (void)munmap(p, mapped_bytes(bytes));
    }
}

void gr_big_drop(void *p, size_t n)
{
    const uintptr_t first = ((uintptr_t)p + SMALL - 1) / SMALL * SMALL, end = ((uintptr_t)p + n) / SMALL * SMALL;
    if (!FROM_HEAP && end > first) {
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
    }
}
