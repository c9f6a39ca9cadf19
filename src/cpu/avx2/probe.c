/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/probe.c -- the peaks of this level: enough independent chains to hide every latency, on operands that
 * the compiler can't see through. All operands are ones, so that the accumulators count the work. */
#include "cpu/avx2/avx2.h"

#include <immintrin.h>
#include <string.h>

enum { CHAINS = 12 };

uint64_t qn__avx2_probe_read(const void *x, int64_t n)
{
    const uint8_t *p = x;
    __m256i a[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
    int64_t i = 0;
    for (; i + 32 <= n; i += 32, p += 256)
        for (int j = 0; j < 8; j++)
            a[j % 4] = _mm256_xor_si256(a[j % 4], _mm256_loadu_si256((const void *)(p + 32 * j)));

    uint64_t word[4], sum = 0;
    _mm256_storeu_si256((__m256i *)(void *)word,
                        _mm256_xor_si256(_mm256_xor_si256(a[0], a[1]), _mm256_xor_si256(a[2], a[3])));
    for (int j = 0; j < 4; j++) sum ^= word[j];
    for (; i < n; i++, p += 8) {
        memcpy(word, p, 8);
        sum ^= word[0];
    }
    return sum;
}

/* As products of nibbles do: byte products are added in 16 bits eight times, then widened. */
int64_t qn__avx2_probe_int8(int64_t n)
{
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i acc = _mm256_setzero_si256(), w[4];
    for (int j = 0; j < 4; j++) w[j] = _mm256_set1_epi8(1);
    for (int64_t i = 0; i < n; i += 256) {
        __m256i half[2];
        for (int j = 0; j < 2; j++) {
            __asm__ volatile("" : "+x"(w[0]), "+x"(w[1]), "+x"(w[2]), "+x"(w[3]));
            const __m256i s = _mm256_add_epi16(_mm256_maddubs_epi16(w[0], w[1]), _mm256_maddubs_epi16(w[1], w[2]));
            const __m256i t = _mm256_add_epi16(_mm256_maddubs_epi16(w[2], w[3]), _mm256_maddubs_epi16(w[3], w[0]));
            half[j] = _mm256_add_epi16(s, t);
        }
        acc = _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_add_epi16(half[0], half[1]), ones));
    }

    int32_t lane[8];
    int64_t total = 0;
    _mm256_storeu_si256((__m256i *)(void *)lane, acc);
    for (int j = 0; j < 8; j++) total += lane[j];
    return total;
}

int64_t qn__avx2_probe_f32(int64_t n)
{
    __m256 acc[CHAINS], u = _mm256_set1_ps(1), w = _mm256_set1_ps(1);
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm256_setzero_ps();
    __asm__ volatile("" : "+x"(u), "+x"(w));
    for (int64_t i = 0; i < n; i += 8 * CHAINS) /* n <= 2^30: a lane counts to 2^24 at most, exactly */
        for (int j = 0; j < CHAINS; j++) acc[j] = _mm256_fmadd_ps(u, w, acc[j]);

    int64_t total = 0;
    for (int j = 0; j < CHAINS; j++) {
        float lane[8];
        _mm256_storeu_ps(lane, acc[j]);
        for (int i = 0; i < 8; i++) total += (int64_t)lane[i];
    }
    return total;
}
