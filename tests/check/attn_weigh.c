/* SPDX-License-Identifier: MIT */
/* tests/check/attn_weigh.c -- scores to integer weights, lane by lane over ranges: near the exact ones, within the
 * limit on their sum, the reference level's bits; lanes without a range may hold anything and disturb nobody. */
#include "attn_weigh.h"

enum { LANES = 48, CELLS = 128 };

static void one_case(check *t, int64_t lanes, int64_t n, check_fill_kind fill, bool common)
{
    const int64_t blocks = (n + 15) / 16, n_p = (n + 1) / 2 * 2 * lanes;
    float *u = check_floats(t, 0, n * lanes, CHECK_AT_END), *weight = check_floats(t, 1, n, CHECK_AT_END);
    float *scale = check_floats(t, 2, blocks * lanes, CHECK_AT_END),
          *sums = check_floats(t, 3, 2 * lanes, CHECK_AT_END);
    int16_t *p = check_buffer(t, 4, (size_t)n_p * 2, 2, CHECK_AT_END), *ref_p = calloc((size_t)n_p + 1, 2);
    float *ref_scale = calloc((size_t)(blocks * lanes) + 1, 4), ref_sums[2 * LANES];
    int32_t *range = check_buffer(t, 5, (size_t)lanes * 8, 4, CHECK_AT_END), *begin = range, *end = range + lanes;
    int64_t full_begin = 0, full_end = n;
    check_where(t, "%lld lanes, %lld cells, fill %s, %s", (long long)lanes, (long long)n, check_fill_name(fill),
                common ? "common" : "apart");
    const int64_t middle = (int64_t)(check_random(t) % (uint64_t)n);
    for (int l = 0; l < lanes; l++) {
        begin[l] = end[l] = 0;
        if (l % 5 == 4) continue;
        begin[l] = common && l % 3 ? 0 : (int32_t)(check_random(t) % (uint64_t)(common ? middle + 1 : n));
        const int64_t from = common ? middle : begin[l];
        end[l] = common && l % 2 ? (int32_t)n : (int32_t)(from + 1 + (int64_t)(check_random(t) % (uint64_t)(n - from)));
        if (begin[l] > full_begin) full_begin = begin[l];
        if (end[l] < full_end) full_end = end[l];
    }
    if (full_begin > full_end) full_begin = full_end = 0;
    check_fill(t, u, n * lanes, fill);
    for (int64_t i = 0; i < n * lanes && fill == CHECK_FILL_random; i++) u[i] *= (float)(1 + i % 20);
    for (int64_t c = 0; c < n; c++) weight[c] = ldexpf(1, (int)(check_random(t) % 30));
    t->kernels->attn_weigh(p, scale, sums, sums + lanes, u, weight, lanes, n, full_begin, full_end, begin, end);
    check_intact(t);
    t->ref->attn_weigh(ref_p, ref_scale, ref_sums, ref_sums + lanes, u, weight, lanes, n, full_begin, full_end, begin,
                       end);
    for (int64_t l = 0; l < lanes; l++) {
        if (begin[l] >= end[l]) continue;
        check_same(t, sums + l, ref_sums + l, 1, "at level ref, the highest");
        check_same(t, sums + lanes + l, ref_sums + lanes + l, 1, "at level ref, the sum");
        if (isnan(ref_sums[lanes + l])) continue; /* the integers mean nothing */
        for (int64_t b = 0; b < blocks; b++)
            check_same(t, scale + b * lanes + l, ref_scale + b * lanes + l, 1, "at level ref, the scale");
        for (int64_t c = 0; c < n; c++) {
            const int64_t at = c / 2 * 2 * lanes + 2 * l + c % 2;
            if (p[at] != ref_p[at])
                check_fail(t, "lane %d, cell %d: %d, %d at level ref", (int)l, (int)c, p[at], ref_p[at]);
        }
        if (!check_fill_finite(fill)) continue;
        weighed_check(t, &(weighed){.n = n,
                                    .begin = begin[l],
                                    .end = end[l],
                                    .u = u + l,
                                    .u_step = lanes,
                                    .weight = weight,
                                    .max = sums[l],
                                    .sum = sums[lanes + l],
                                    .p = p + 2 * l,
                                    .p_step = 1,
                                    .pair_step = 2 * lanes,
                                    .scale = scale + l,
                                    .scale_step = lanes});
    }
    free(ref_p);
    free(ref_scale);
}

CHECK_KERNEL(attn_weigh)
{
    if (t->bench) {
        int32_t begin[64] = {0}, end[64];
        float max[64], sum[64], *u = check_floats(t, 0, CELLS * 64, CHECK_AT_START),
                                *scale = check_floats(t, 1, 8 * 64, CHECK_AT_START);
        float *weight = check_floats(t, 2, CELLS, CHECK_AT_START);
        int16_t *p = check_buffer(t, 4, CELLS * 64 * 2, 2, CHECK_AT_START);
        for (int l = 0; l < 64; l++) end[l] = CELLS;
        for (int c = 0; c < CELLS; c++) weight[c] = 1;
        check_fill(t, u, CELLS * 64, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "G scores/s", CELLS * 64,
                    t->kernels->attn_weigh(p, scale, max, sum, u, weight, 64, CELLS, 0, CELLS, begin, end));
        return;
    }
    static const int16_t cells[] = {1, 2, 3, 15, 16, 17, 31, 33, 100, CELLS};
    for (int64_t lanes = 16; lanes <= LANES; lanes += 16)
        for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
            for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
                for (int common = 0; common < 2; common++) one_case(t, lanes, cells[i], (check_fill_kind)fill, common);
}
