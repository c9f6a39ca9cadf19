/* SPDX-License-Identifier: MIT */
/* src/cpu/ref/convert.c -- conversions between float32 and the formats that values (not weights) take: halves, Q8_0
 * of the KV cache, and quantized activations. Halves use quant's own arithmetic. */
#include "cpu/ref/ref.h"
#include "quant/blocks.h"

#include <float.h>
#include <math.h>
#include <string.h>

void qn__ref_f16_to_f32(float *y, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = qn__f16_to_f32(x[i]);
}

void qn__ref_f32_to_f16(uint16_t *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = qn__f32_to_f16(x[i]);
}

void qn__ref_bf16_to_f32(float *y, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = qn__bf16_to_f32(x[i]);
}

void qn__ref_f32_to_bf16(uint16_t *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = qn__f32_to_bf16(x[i]);
}

void qn__ref_q8_0_to_f32(float *y, const void *x, int64_t n)
{
    const qn_block_Q8_0 *b = x;
    for (int64_t i = 0; i < n; i++) y[i] = qn__f16_to_f32(b[i / 32].d) * (float)b[i / 32].qs[i % 32];
}

/* NaN compares false and is skipped; `finite` tells. */
static void range_of(const float *x, int n, float *lo, float *hi, bool *finite)
{
    *lo = *hi = 0;
    *finite = true;
    for (int i = 0; i < n; i++) {
        if (x[i] < *lo) *lo = x[i];
        if (x[i] > *hi) *hi = x[i];
        *finite = *finite && isfinite(x[i]);
    }
}

static int rounded_within_127(float x)
{
    const long q = lrintf(x);
    return q < -127 ? -127 : q > 127 ? 127 : (int)q;
}

static void block_q8_0(qn_block_Q8_0 *b, const float *x)
{
    float lo, hi;
    bool finite;
    range_of(x, 32, &lo, &hi, &finite);
    const float max = hi > -lo ? hi : 0.0f - lo, d = max / 127.0f;
    memset(b, 0, sizeof *b);
    b->d = finite ? qn__f32_to_f16(d < 65504.0f ? d : 65504.0f) : 0x7e00;
    if (!finite || b->d == 0) return;

    const float inverse = 1.0f / qn__f16_to_f32(b->d);
    for (int i = 0; i < 32; i++) {
        const float scaled = x[i] * inverse; /* up to 4e31 where d was clamped to 65504 */
        b->qs[i] = (int8_t)rounded_within_127(scaled < -128.0f ? -128.0f : scaled > 128.0f ? 128.0f : scaled);
    }
}

void qn__ref_f32_to_q8_0(void *y, const float *x, int64_t n)
{
    qn_block_Q8_0 *b = y;
    for (int64_t i = 0; i < n; i += 32) block_q8_0(b++, x + i);
}

/* n: 32 or 256; sums of 16 each. */
static void block_act(const float *x, int n, float *d, int *zero, int8_t *q, int16_t *sum)
{
    float lo, hi;
    bool finite;
    range_of(x, n, &lo, &hi, &finite);
    *d = finite ? 0 : NAN;
    *zero = 0;
    memset(q, 0, (size_t)n);
    memset(sum, 0, (size_t)n / 16 * sizeof *sum);
    if (!finite || hi - lo < 0x1p-100f) return;

    *d = (0.5f * hi - 0.5f * lo) / 127.0f;
    const float inverse = 1.0f / *d;
    *zero = rounded_within_127(-127.0f - lo * inverse);
    for (int i = 0; i < n; i++) {
        const int v = (int)lrintf(x[i] * inverse) + *zero;
        q[i] = (int8_t)(v < -127 ? -127 : v > 127 ? 127 : v);
        sum[i / 16] = (int16_t)(sum[i / 16] + q[i] - *zero);
    }
}

void qn__ref_quantize_act32(qn_act32 *y, const float *x, int64_t n)
{
    for (; n > 0; y++, n -= 32, x += 32) {
        int16_t sum[2];
        int zero;
        block_act(x, 32, &y->d, &zero, y->q, sum);
        y->zero = (int16_t)zero;
        y->sum = (int16_t)(sum[0] + sum[1]);
    }
}

void qn__ref_quantize_act256(qn_act256 *y, const float *x, int64_t n)
{
    for (; n > 0; y++, n -= 256, x += 256) {
        int zero;
        block_act(x, 256, &y->d, &zero, y->q, y->sum);
        y->zero = zero;
    }
}

static uint16_t bf16_or_0(float x)
{
    return fabsf(x) < FLT_MIN ? (uint16_t)(signbit(x) ? 0x8000 : 0) : qn__f32_to_bf16(x);
}

void qn__ref_split_act512(qn_act512 *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < (n + 511) / 512 * 512; i++) {
        const float v = i < n ? x[i] : 0, x1 = qn__bf16_to_f32(bf16_or_0(v));
        y[i / 512].x[0][i % 512] = x1;
        y[i / 512].x[1][i % 512] = qn__bf16_to_f32(bf16_or_0(v - x1));
    }
}

void qn__ref_split_act_bf16(qn_act_bf16 *y, const float *x, int64_t n)
{
    for (int64_t i = 0; i < (n + 31) / 32 * 32; i++) {
        const float v = i < n ? x[i] : 0;
        uint16_t(*to)[2] = y[i / 32].x[i % 32 / 2];
        to[0][i % 2] = bf16_or_0(v);
        to[1][i % 2] = bf16_or_0(v - qn__bf16_to_f32(to[0][i % 2]));
    }
}
