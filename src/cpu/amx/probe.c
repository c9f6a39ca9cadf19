/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/probe.c -- the arithmetic peak of this level: four independent sums hide the latency. All operands are
 * ones, so that the sums count the work. */
#include "cpu/amx/amx.h"

/* count_NAME: n steps of four tile products, then n_rows products of one row. */
#define COUNT(name, sum_type, DOT) \
    static int64_t count_##name(int64_t n, int64_t n_rows, const void *ones) \
    { \
        sum_type sum[4][256]; \
        int64_t total = 0; \
        qn__tile_config(16); \
        QN_TILE_LOAD(4, ones, 64); \
        QN_TILE_LOAD(5, ones, 64); \
        QN_TILE_ZERO(0); \
        QN_TILE_ZERO(1); \
        QN_TILE_ZERO(2); \
        QN_TILE_ZERO(3); \
        for (; n > 0; n--) { \
            DOT(0, 4, 5); \
            DOT(1, 4, 5); \
            DOT(2, 4, 5); \
            DOT(3, 4, 5); \
        } \
        QN_TILE_STORE(0, sum[0], 64); \
        QN_TILE_STORE(1, sum[1], 64); \
        QN_TILE_STORE(2, sum[2], 64); \
        QN_TILE_STORE(3, sum[3], 64); \
        for (int t = 0; t < 4; t++) \
            for (int i = 0; i < 256; i++) total += (int64_t)sum[t][i]; \
        qn__tile_config(1); \
        QN_TILE_LOAD(4, ones, 64); \
        QN_TILE_LOAD(5, ones, 64); \
        QN_TILE_ZERO(0); \
        for (; n_rows > 0; n_rows--) DOT(0, 4, 5); \
        QN_TILE_STORE(0, sum[0], 64); \
        QN_TILE_RELEASE(); \
        for (int i = 0; i < 16; i++) total += (int64_t)sum[0][i]; \
        return total; \
    }
COUNT(int8, int32_t, QN_TILE_DOT)
COUNT(bf16, float, QN_TILE_DOT_BF16)

enum { ROW_INT8 = 16 * 64, ROW_BF16 = 16 * 32, ROWS = 4 * 16 }; /* multiply-adds of a row of A; rows of a step */

/* n <= 2^30: a sum counts to 2^20 at most, exact in a float too */
int64_t qn__amx_probe_int8(int64_t n)
{
    uint8_t ones[1024];
    memset(ones, 1, sizeof ones);
    const int64_t steps = n / (ROWS * ROW_INT8);
    return count_int8(steps, (n - steps * ROWS * ROW_INT8 + ROW_INT8 - 1) / ROW_INT8, ones);
}

int64_t qn__amx_probe_bf16(int64_t n)
{
    uint16_t ones[512];
    for (int i = 0; i < 512; i++) ones[i] = 0x3f80;
    const int64_t steps = n / (ROWS * ROW_BF16);
    return count_bf16(steps, (n - steps * ROWS * ROW_BF16 + ROW_BF16 - 1) / ROW_BF16, ones);
}
