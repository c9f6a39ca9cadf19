/* SPDX-License-Identifier: MIT */
/* tests/check/attn_soften.c -- highest score, exponentials and their sum, lane by lane over ranges: near the exact
 * ones, the reference level's bits; lanes without a range may hold anything and disturb nobody. */
#include "check.h"

enum { LANES = 48, CELLS = 70 };

typedef struct ranges {
    int32_t begin[LANES], end[LANES];
    int64_t full_begin, full_end;
} ranges;

/* Ranges that all hold a common part, or none; every fifth lane is empty. */
static ranges random_ranges(check *t, int64_t n, bool common)
{
    ranges g = {.full_begin = 0, .full_end = n};
    const int64_t middle = n > 0 ? (int64_t)(check_random(t) % (uint64_t)n) : 0;
    for (int l = 0; l < LANES; l++) {
        if (l % 5 == 4 || n == 0) continue;
        g.begin[l] = (int32_t)(check_random(t) % (uint64_t)(common ? middle + 1 : n));
        const int64_t from = common ? middle : g.begin[l];
        g.end[l] = (int32_t)(from + 1 + (int64_t)(check_random(t) % (uint64_t)(n - from)));
        if (g.begin[l] > g.full_begin) g.full_begin = g.begin[l];
        if (g.end[l] < g.full_end) g.full_end = g.end[l];
    }
    if (g.full_begin > g.full_end) g.full_begin = g.full_end = 0;
    return g;
}

static void one_case(check *t, int64_t lanes, int64_t n, check_fill_kind fill, bool common)
{
    ranges g = random_ranges(t, n, common);
    float *s = check_floats(t, 0, n * lanes, CHECK_AT_END), *old = malloc((size_t)(n * lanes) * 4 + 4),
          ref[CELLS * LANES];
    float *max = check_floats(t, 1, lanes, CHECK_AT_END), *sum = check_floats(t, 2, lanes, CHECK_AT_END);
    float ref_max[LANES] = {0}, ref_sum[LANES] = {0};
    int32_t *begin = check_buffer(t, 3, (size_t)lanes * 4, 4, CHECK_AT_END),
            *end = check_buffer(t, 4, (size_t)lanes * 4, 4, CHECK_AT_END);
    check_where(t, "%lld lanes, %lld cells, fill %s, full %lld to %lld", (long long)lanes, (long long)n,
                check_fill_name(fill), (long long)g.full_begin, (long long)g.full_end);
    memcpy(begin, g.begin, (size_t)lanes * 4);
    memcpy(end, g.end, (size_t)lanes * 4);
    check_fill(t, old, n * lanes, fill);
    /* some vanish */
    for (int64_t i = 0; i < n * lanes && fill == CHECK_FILL_random; i++) old[i] *= (float)(1 + i % 40);
    if (n) memcpy(s, old, (size_t)(n * lanes) * 4);
    memcpy(ref, old, (size_t)(n * lanes) * 4);
    t->kernels->attn_soften(s, lanes, n, g.full_begin, g.full_end, begin, end, max, sum);
    check_intact(t);
    t->ref->attn_soften(ref, lanes, n, g.full_begin, g.full_end, g.begin, g.end, ref_max, ref_sum);
    for (int64_t l = 0; l < lanes; l++) {
        if (g.begin[l] >= g.end[l]) continue;
        check_same(t, max + l, ref_max + l, 1, "at level ref, the highest");
        check_same(t, sum + l, ref_sum + l, 1, "at level ref, the sum");
        double highest = -INFINITY, total = 0;
        for (int64_t c = g.begin[l]; c < g.end[l]; c++) highest = fmax(highest, (double)old[c * lanes + l]);
        for (int64_t c = 0; c < n; c++) {
            check_same(t, s + c * lanes + l, ref + c * lanes + l, 1, "at level ref");
            if (!check_fill_finite(fill)) continue;
            const bool in = c >= g.begin[l] && c < g.end[l];
            const double e = in ? exp((double)(old[c * lanes + l] - (float)highest)) : 0;
            check_close(t, s[c * lanes + l], e, 1e-7 * e + (in ? 1.2e-38 : 0), c * lanes + l);
            total += e;
        }
        if (check_fill_finite(fill)) check_close(t, sum[l], total, (double)n * FLT_EPSILON * total, l);
    }
    free(old);
}

CHECK_KERNEL(attn_soften)
{
    if (t->bench) {
        int32_t begin[64] = {0}, end[64];
        float max[64], sum[64], *s = check_floats(t, 0, 256 * 64, CHECK_AT_START);
        for (int l = 0; l < 64; l++) end[l] = 256;
        check_fill(t, s, 256 * 64, CHECK_FILL_random);
        CHECK_BENCH(t, t->row, "G scores/s", 256 * 64,
                    t->kernels->attn_soften(s, 64, 256, 0, 256, begin, end, max, sum));
        return;
    }
    static const int16_t cells[] = {0, 1, 2, 3, 5, 16, 33, CELLS};
    for (int64_t lanes = 16; lanes <= LANES; lanes += 16)
        for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++)
            for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
                for (int common = 0; common < 2; common++) one_case(t, lanes, cells[i], (check_fill_kind)fill, common);
}
