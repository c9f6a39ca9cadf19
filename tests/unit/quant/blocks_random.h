/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/blocks_random.h -- random bytes and a hash of floats; tests/oracle/quant_unpack.py has the same two.
 */
#ifndef QN_TEST_QUANT_BLOCKS_RANDOM_H
#define QN_TEST_QUANT_BLOCKS_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Enough to see every entry of the largest grid (2048) some sixteen times. */
#define RANDOM_BLOCKS 1024

/* The n-th number of splitmix64. */
static inline uint64_t random_word(uint64_t seed, uint64_t n)
{
    uint64_t z = seed + (n + 1) * 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline void random_bytes(uint64_t seed, unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(random_word(seed, i / 8) >> i % 8 * 8);
}

/* Sum, over all floats, of a random number that bits and place pick. */
static inline uint64_t hash_bits(uint64_t hash, uint32_t bits, size_t place)
{
    return hash + random_word(bits | (uint64_t)place << 32, 0);
}

static inline uint64_t hash_floats(const float *x, size_t n)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        hash = hash_bits(hash, bits, i);
    }
    return hash;
}

#endif
