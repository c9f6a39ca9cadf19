/* SPDX-License-Identifier: MIT */
/* src/cpu/avx512/probe.c -- the peaks of this level: enough independent chains to hide every latency, on operands
 * that the compiler can't see through. All operands are ones, so that the accumulators count the work. */
#include "cpu/avx512/avx512.h"

#include <immintrin.h>
#include <string.h>

enum { CHAINS = 12 };

uint64_t qn__avx512_probe_read(const void *x, int64_t n)
{
    const uint8_t *p = x;
    __m512i a[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    int64_t i = 0;
    for (; i + 64 <= n; i += 64, p += 512)
        for (int j = 0; j < 8; j++) a[j % 4] = _mm512_xor_si512(a[j % 4], _mm512_loadu_si512(p + 64 * j));

    uint64_t word[8], sum = 0;
    _mm512_storeu_si512(word, _mm512_xor_si512(_mm512_xor_si512(a[0], a[1]), _mm512_xor_si512(a[2], a[3])));
    for (int j = 0; j < 8; j++) sum ^= word[j];
    for (; i < n; i++, p += 8) {
        memcpy(word, p, 8);
        sum ^= word[0];
    }
    return sum;
}

int64_t qn__avx512_probe_int8(int64_t n)
{
    __m512i acc[CHAINS], u = _mm512_set1_epi8(1), w = _mm512_set1_epi8(1);
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_setzero_si512();
    __asm__ volatile("" : "+v"(u), "+v"(w));
    for (int64_t i = 0; i < n; i += 64 * CHAINS)
        for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_dpbusd_epi32(acc[j], u, w);

    int64_t total = 0;
    for (int j = 0; j < CHAINS; j++) total += _mm512_reduce_add_epi32(acc[j]);
    return total;
}

int64_t qn__avx512_probe_f32(int64_t n)
{
    __m512 acc[CHAINS], u = _mm512_set1_ps(1), w = _mm512_set1_ps(1);
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_setzero_ps();
    __asm__ volatile("" : "+v"(u), "+v"(w));
    for (int64_t i = 0; i < n; i += 16 * CHAINS) /* n <= 2^30: a lane counts to 2^23 at most, exactly */
        for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_fmadd_ps(u, w, acc[j]);

    int64_t total = 0;
    for (int j = 0; j < CHAINS; j++)
        total += _mm512_reduce_add_epi64(_mm512_cvtps_epi64(_mm512_castps512_ps256(acc[j]))) +
                 _mm512_reduce_add_epi64(_mm512_cvtps_epi64(_mm512_extractf32x8_ps(acc[j], 1)));
    return total;
}
