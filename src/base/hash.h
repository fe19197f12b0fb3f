/* SPDX-License-Identifier: Apache-2.0
 *
 * hash.h: a 64-bit checksum at memory speed, against damage on the way and not against malice (digest.h is for that). Its
 * value depends on the machine's byte order. */
#ifndef GR_BASE_HASH_H
#define GR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Any change inside one aligned 8-byte word changes the result for certain, any other change with probability 1 - 2^-64.
 * seed: where the bytes stand, so that two pieces in each other's place are noticed. */
uint64_t gr_hash64(const void *bytes, size_t n, uint64_t seed);

#endif
