/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/probe.c -- the peaks of portable C. All operands are ones, so that the accumulators count the work. */
#include "cpu/ref/ref.h"

#include <string.h>

/* The compiler must assume that memory changed: a loop over the same operands is not folded into a multiplication. */
#if defined(__GNUC__)
#define FORGET(p) __asm__ volatile("" : : "r"(p) : "memory")
#else
#define FORGET(p) ((void)*(volatile const char *)(p))
#endif

uint64_t qn__ref_probe_read(const void *x, int64_t n)
{
    const uint8_t *p = x;
    uint64_t a[8] = {0}, w[8];
    int64_t i = 0;
    for (; i + 8 <= n; i += 8, p += sizeof w) {
        memcpy(w, p, sizeof w);
        for (int j = 0; j < 8; j++) a[j] ^= w[j];
    }
    for (; i < n; i++, p += 8) {
        memcpy(w, p, 8);
        a[0] ^= w[0];
    }
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}

int64_t qn__ref_probe_int8(int64_t n)
{
    int8_t w[256], q[256];
    int32_t sum = 0;
    memset(w, 1, sizeof w);
    memset(q, 1, sizeof q);
    for (int64_t i = 0; i < n; i += 256) {
        FORGET(w);
        FORGET(q);
        for (int j = 0; j < 256; j++) sum += w[j] * q[j];
    }
    return sum;
}

int64_t qn__ref_probe_f32(int64_t n)
{
    float acc[32] = {0}, x[32];
    for (int j = 0; j < 32; j++) x[j] = 1;
    int64_t total = 0;
    for (int64_t i = 0; i < n; i += 32) {
        FORGET(x);
        for (int j = 0; j < 32; j++) acc[j] += x[j] * x[j];
        if (acc[0] < 0x1p20f && i + 32 < n) continue;
        for (int j = 0; j < 32; j++) { /* before a float stops counting */
            total += (int64_t)acc[j];
            acc[j] = 0;
        }
    }
    return total;
}

int64_t qn__ref_probe_bf16(int64_t n) { return qn__ref_probe_f32(n); } /* portable C has none */
