/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/probe.c -- the arithmetic peak of this level: four independent sums hide the latency. All operands are ones, so that the
 * sums count the work. */
#include "cpu/amx/amx.h"

enum { ROW_DOT = 16 * 64 }; /* multiply-adds of a row of A */

/* n steps of four products of tiles, then n_rows products of one row. */
static int64_t count(int64_t n, int64_t n_rows)
{
    uint8_t ones[1024];
    int32_t sum[4][256];
    int64_t total = 0;
    memset(ones, 1, sizeof ones);
    qn__tile_config(16);
    QN_TILE_LOAD(4, ones, 64);
    QN_TILE_LOAD(5, ones, 64);
    QN_TILE_ZERO(0);
    QN_TILE_ZERO(1);
    QN_TILE_ZERO(2);
    QN_TILE_ZERO(3);
    for (; n > 0; n--) {
        QN_TILE_DOT(0, 4, 5);
        QN_TILE_DOT(1, 4, 5);
        QN_TILE_DOT(2, 4, 5);
        QN_TILE_DOT(3, 4, 5);
    }
    QN_TILE_STORE(0, sum[0], 64);
    QN_TILE_STORE(1, sum[1], 64);
    QN_TILE_STORE(2, sum[2], 64);
    QN_TILE_STORE(3, sum[3], 64);
    for (int t = 0; t < 4; t++)
        for (int i = 0; i < 256; i++) total += sum[t][i];

    qn__tile_config(1);
    QN_TILE_LOAD(4, ones, 64);
    QN_TILE_LOAD(5, ones, 64);
    QN_TILE_ZERO(0);
    for (; n_rows > 0; n_rows--) QN_TILE_DOT(0, 4, 5);
    QN_TILE_STORE(0, sum[0], 64);
    QN_TILE_RELEASE();
    for (int i = 0; i < 16; i++) total += sum[0][i];
    return total;
}

int64_t qn__amx_probe_int8(int64_t n) /* n <= 2^30: a sum counts to 2^20 at most */
{
    const int64_t step = 4 * 16 * ROW_DOT, steps = n / step;
    return count(steps, (n - steps * step + ROW_DOT - 1) / ROW_DOT);
}
