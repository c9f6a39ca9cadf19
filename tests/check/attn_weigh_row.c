/* SPDX-License-Identifier: MIT */
/* tests/check/attn_weigh_row.c -- the same with cells side by side: near the exact weights, and the bits that
 * attn_weigh gives at the reference level. */
#include "attn_weigh.h"

CHECK_KERNEL(attn_weigh_row)
{
    enum { CELLS = 128, WHOLE = 128 };
    float *u = check_floats(t, 0, WHOLE, CHECK_AT_END), *weight = check_floats(t, 1, WHOLE, CHECK_AT_END);
    float *scale = check_floats(t, 2, QN_ATTN_BLOCKS, CHECK_AT_END), max, sum;
    int16_t *p = check_buffer(t, 3, WHOLE * 2, 2, CHECK_AT_END);
    if (t->bench) {
        check_fill(t, u, WHOLE, CHECK_FILL_random);
        for (int c = 0; c < WHOLE; c++) weight[c] = 1;
        CHECK_BENCH(t, t->row, "G scores/s", WHOLE,
                    t->kernels->attn_weigh_row(p, scale, &max, &sum, u, weight, CELLS, 0, CELLS));
        return;
    }
    static const int16_t cells[] = {1, 2, 3, 15, 16, 17, 31, 33, 100, CELLS};
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
        for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
            for (int round = 0; round < 6; round++) {
                const int64_t n = cells[i];
                const int32_t begin = round ? (int32_t)(check_random(t) % (uint64_t)n) : 0;
                const int32_t end = round ? begin + 1 + (int32_t)(check_random(t) % (uint64_t)(n - begin)) : (int32_t)n;
                float wide[CELLS][16], ref_scale[QN_ATTN_BLOCKS][16] = {{0}}, ref_max[16], ref_sum[16];
                int16_t ref_p[CELLS / 2][16][2] = {{{0}}};
                int32_t begins[16], ends[16];
                check_where(t, "%lld cells, %d to %d, fill %s", (long long)n, begin, end,
                            check_fill_name((check_fill_kind)fill));
                check_fill(t, u, WHOLE, (check_fill_kind)fill);
                for (int64_t c = 0; c < WHOLE; c++) {
                    u[c] *= fill == CHECK_FILL_random ? (float)(1 + c % 20) : 1;
                    weight[c] = ldexpf(1, (int)(check_random(t) % 30));
                    for (int l = 0; l < 16; l++) wide[c][l] = u[c];
                }
                for (int l = 0; l < 16; l++) {
                    begins[l] = begin;
                    ends[l] = end;
                }
                t->kernels->attn_weigh_row(p, scale, &max, &sum, u, weight, n, begin, end);
                check_intact(t);
                t->ref->attn_weigh(ref_p[0][0], ref_scale[0], ref_max, ref_sum, wide[0], weight, 16, n, begin, end,
                                   begins, ends);
                check_same(t, &max, ref_max + 3, 1, "lane by lane, the highest");
                check_same(t, &sum, ref_sum + 3, 1, "lane by lane, the sum");
                if (isnan(sum)) continue; /* the integers mean nothing */
                for (int b = 0; b < QN_ATTN_BLOCKS; b++)
                    check_same(t, scale + b, ref_scale[b] + 3, 1, "lane by lane, the scale");
                for (int64_t c = 0; c < (n + 15) / 16 * 16; c++)
                    if (p[c] != ref_p[c / 2][3][c % 2])
                        check_fail(t, "cell %d: %d, %d lane by lane", (int)c, p[c], ref_p[c / 2][3][c % 2]);
                if (check_fill_finite((check_fill_kind)fill))
                    weighed_check(t, &(weighed){.n = n,
                                                .begin = begin,
                                                .end = end,
                                                .u = u,
                                                .u_step = 1,
                                                .weight = weight,
                                                .max = max,
                                                .sum = sum,
                                                .p = p,
                                                .p_step = 1,
                                                .pair_step = 2,
                                                .scale = scale,
                                                .scale_step = 1});
            }
}
