/* SPDX-License-Identifier: MIT */
/* tests/check/quantize.c -- what act.h says of a quantized block, against arithmetic in double. */
#include "quantize.h"

static void verdict(check *t, const quantize_row *row, const float *x, const quantized *a)
{
    double lo = 0, hi = 0;
    bool finite = true;
    for (int i = 0; i < row->block; i++) {
        finite = finite && isfinite(x[i]);
        lo = fmin(lo, x[i]);
        hi = fmax(hi, x[i]);
    }
    const double range = hi - lo;
    const bool zeros = !finite || range < 0x1p-100;
    const double d = !finite ? NAN : zeros ? 0 : range / 254;
    check_close(t, a->d, d, 2 * FLT_EPSILON * d, -1);
    check_close(t, a->zero, zeros ? 0 : -127 - lo / d, 0.5001, -2);
    int sum[16] = {0};
    for (int i = 0; i < row->block; i++) {
        const int q = a->q[i] - a->zero;
        sum[i / row->summed] += q;
        check_close(t, a->q[i], 0, 127, i);
        if (zeros)
            check_close(t, q, 0, 0, i);
        else
            check_close(t, a->d * (double)q, x[i], (0.5 + 1e-4) * d, i);
        if (x[i] == 0) check_close(t, q, 0, 0, i);
    }
    for (int i = 0; i < row->block / row->summed; i++) check_close(t, a->sum[i], sum[i], 0, -3 - i);
}

static void one_case(check *t, const quantize_row *row, int64_t n, check_fill_kind fill, check_place place)
{
    const size_t bytes = (size_t)(n / row->block) * row->bytes;
    float *x = check_floats(t, 0, n, place);
    uint8_t *y = check_buffer(t, 1, bytes, 4, place), *ref = check_buffer(t, 2, bytes, 4, place);
    check_fill(t, x, n, fill);
    for (int64_t i = 0; i < n && fill == CHECK_FILL_random; i += 7) x[i] = 0;
    row->quantize(t->kernels, y, x, n);
    row->quantize(t->ref, ref, x, n);
    check_intact(t);
    for (int64_t b = 0; b < n / row->block; b++) {
        const uint8_t *mine = y + (size_t)b * row->bytes, *other = ref + (size_t)b * row->bytes;
        quantized got, want;
        row->read(mine, &got);
        row->read(other, &want);
        check_same(t, &got.d, &want.d, 1, "at level ref, a scale");
        check_same_bytes(t, mine + sizeof(float), other + sizeof(float), row->bytes - sizeof(float), "at level ref");
        verdict(t, row, x + b * row->block, &got);
    }
}

void check_quantize(check *t, const quantize_row *row)
{
    if (t->bench) {
        float *x = check_floats(t, 0, CHECK_BENCH_N, CHECK_AT_START);
        uint8_t *y = check_buffer(t, 1, CHECK_BENCH_N / (size_t)row->block * row->bytes, 4, CHECK_AT_START);
        check_fill(t, x, CHECK_BENCH_N, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "GB/s", CHECK_BENCH_N * (4 + (double)row->bytes / row->block),
                    row->quantize(t->kernels, y, x, CHECK_BENCH_N));
        return;
    }
    for (const int64_t *n = check_sizes_32; *n >= 0; n++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int place = 0; place < CHECK_PLACE_COUNT; place++)
                for (int times = 0; times < 4; times++) {
                    const int64_t blocks = *n / 32 * row->block > 4096 ? *n / row->block : *n / 32;
                    check_where(t, "%lld blocks, fill %s, place %d", (long long)blocks,
                                check_fill_name((check_fill_kind)fill), place);
                    one_case(t, row, blocks * row->block, (check_fill_kind)fill, (check_place)place);
                }
}
