/* SPDX-License-Identifier: MIT */
/* src/text/sampler/select.c -- radix sort and radix select on 64-bit keys: linear whatever the logits are, so that a
 * model cannot make sampling slow. */
#include "text/sampler/select.h"

#define INSERTION_MAX 48 /* below, insertion sort is faster than the passes' fixed cost (about 2 microseconds) */

static void insertion_sort(uint64_t *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint64_t key = keys[i];
        size_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) keys[j] = keys[j - 1];
        keys[j] = key;
    }
}

void qn__keys_sort(uint64_t *keys, uint64_t *scratch, size_t n, int low_bit)
{
    uint32_t count[8][256];
    uint64_t *from = keys, *to = scratch;

    if (n <= INSERTION_MAX) {
        insertion_sort(keys, n);
        return;
    }
    const int first = low_bit / 8;
    memset(count, 0, sizeof count);
    for (size_t i = 0; i < n; i++)
        for (int b = first; b < 8; b++) count[b][keys[i] >> (8 * b) & 255]++;

    for (int b = first; b < 8; b++) {
        uint32_t *c = count[b], at = 0;
        if (c[from[0] >> (8 * b) & 255] == n) continue; /* all alike in this byte */
        for (int d = 0; d < 256; d++) {
            const uint32_t here = c[d];
            c[d] = at;
            at += here;
        }
        for (size_t i = 0; i < n; i++) to[c[from[i] >> (8 * b) & 255]++] = from[i];
        uint64_t *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys) memcpy(keys, from, n * sizeof *keys);
}

static void swap_keys(uint64_t *a, uint64_t *b)
{
    const uint64_t t = *a;
    *a = *b;
    *b = t;
}

/* Each round looks at the next 11 bits: finds the digit in which the k-th key falls, moves smaller digits before it and
 * larger ones behind, and goes on among the keys that share it. Six rounds at most, each over fewer keys. */
void qn__keys_select(uint64_t *keys, size_t n, size_t k)
{
    for (int shift = 53; k < n; shift -= 11) {
        uint32_t count[2048];
        size_t below = 0, digit = 0;
        if (shift < 0) shift = 0;

        memset(count, 0, sizeof count);
        for (size_t i = 0; i < n; i++) count[keys[i] >> shift & 2047]++;
        while (below + count[digit] < k) below += count[digit++];

        size_t lo = 0, hi = n;
        for (size_t i = 0; i < hi;) {
            const size_t d = keys[i] >> shift & 2047;
            if (d < digit)
                swap_keys(&keys[lo++], &keys[i++]);
            else if (d > digit)
                swap_keys(&keys[i], &keys[--hi]);
            else
                i++;
        }
        keys += below; /* [below, hi) share the digit */
        n = hi - below;
        k -= below;
        if (shift == 0) return;
    }
}
