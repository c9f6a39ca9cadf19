/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/probe.c -- the peak of dot products of bytes: 32 multiply-adds an instruction, enough chains to hide
 * its latency. */
#include "cpu/avxvnni/avxvnni.h"

#include <immintrin.h>

enum { CHAINS = 8 };

int64_t qn__avxvnni_probe_int8(int64_t n)
{
    __m256i acc[CHAINS], u = _mm256_set1_epi8(1), w = u;
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm256_setzero_si256();
    __asm__ volatile("" : "+x"(u), "+x"(w));
    for (int64_t i = 0; i < n; i += 32 * CHAINS)
        for (int j = 0; j < CHAINS; j++) acc[j] = _mm256_dpbusd_avx_epi32(acc[j], u, w);

    int64_t total = 0;
    for (int j = 0; j < CHAINS; j++) {
        int32_t lane[8];
        _mm256_storeu_si256((__m256i *)(void *)lane, acc[j]);
        for (int i = 0; i < 8; i++) total += lane[i];
    }
    return total;
}
