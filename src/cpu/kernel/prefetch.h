/* SPDX-License-Identifier: MIT */
/* src/cpu/kernel/prefetch.h -- the weights of the next panel, fetched between the products of this one, evenly: where
 * they are asked for all at once, while this one is unpacked, unpacking the next waits for half of them (AVX2, Q4_K,
 * eight columns, from memory: 2.4 GB/s, evenly 3.3, not at all 1.7). */
#ifndef QN_CPU_KERNEL_PREFETCH_H
#define QN_CPU_KERNEL_PREFETCH_H

#include <stddef.h>
#include <stdint.h>

/* `bytes` of each of the rows [from, to) that begin at w, to L2. They need not be there: nothing is read. */
static inline void prefetch_rows(const uint8_t *w, size_t row_bytes, size_t bytes, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to; r++)
        for (size_t at = 0; at < bytes + 63; at += 64) __builtin_prefetch(w + (size_t)r * row_bytes + at, 0, 2);
}

#endif
