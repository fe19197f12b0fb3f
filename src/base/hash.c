/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.c: eight independent lanes of xor, multiply, shift; every step is a bijection of the lane for a given word and of the
 * word for a given lane, so that one changed word cannot be forgotten. Eight lanes hide the latency of the multiply. */
#include "base/hash.h"

#include <string.h>

enum { LANES = 8, WORD = 8, STRIPE = LANES * WORD };

/* Odd, bits spread evenly: 2^64 / golden ratio; and the constant of Stafford's 13th variant of the MurmurHash3 finaliser. */
static const uint64_t mul_a = 0x9e3779b97f4a7c15u, mul_b = 0xbf58476d1ce4e5b9u;

static inline uint64_t step(uint64_t lane, uint64_t word)
{
    lane = (lane ^ word) * mul_a;
    return lane ^ lane >> 32;
}

static inline uint64_t load(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

uint64_t gr_hash64(const void *bytes, size_t n, uint64_t seed)
{
    const uint8_t *p = bytes;
    uint64_t lane[LANES], h = seed ^ (uint64_t)n * mul_b;
    for (int i = 0; i < LANES; i++) {
        lane[i] = step(h, (uint64_t)i + 1);
    }
    size_t left = n;
    for (; left >= STRIPE; left -= STRIPE, p += STRIPE) {
        for (int i = 0; i < LANES; i++) {
            lane[i] = step(lane[i], load(p + (size_t)i * WORD));
        }
    }
    for (int i = 0; left > 0; i++) {
        uint8_t word[WORD] = {0};
        size_t take = left < WORD ? left : WORD;
        memcpy(word, p, take);
        lane[i] = step(lane[i], load(word));
        left -= take;
        p += take;
    }
    for (int i = 0; i < LANES; i++) {
        h = step(h, lane[i]) * mul_b;
        h ^= h >> 29;
    }
    return h;
}
