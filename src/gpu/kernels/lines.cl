/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/lines.cl -- what goes along lines of any stride: softmax, the best k, sums and extremes. A group a
 * line. */

/* Sixteen work-items: chain j sums the exponentials of elements j, j + 16 and on. */
KERNEL_2(softmax, qn_line_sizes, y, x)
{
    IN_ROOM(float, chain);
    int64_t at[3];
    float lane[16], max = -INFINITE, sum = 0;
    walk(&s.lines, GROUP, at);
    const int32_t from = s.lines.format[0], to = s.lines.to;
    for (int64_t i = LANE; i < s.n; i += 16) {
        const float v = real_at(AS(uint8_t, x), from, at[0] + i * s.x_step);
        if (v > max) max = v;
    }
    chain[LANE] = max;
    MEET();
    for (int j = 0; j < 16; j++)
        if (chain[j] > max) max = chain[j];
    max += 0.0f; /* no -0 */
    MEET();
    for (int64_t i = LANE; i < s.n; i += 16) sum += exp_of(real_at(AS(uint8_t, x), from, at[0] + i * s.x_step) - max);
    chain[LANE] = sum;
    MEET();
    for (int j = 0; j < 16; j++) lane[j] = chain[j];
    const float scale = 1 / sum_of_16(lane);
    for (int64_t i = LANE; i < s.n; i += 16)
        put_real(AS(uint8_t, y), to, at[1] + i * s.y_step,
                 exp_of(real_at(AS(uint8_t, x), from, at[0] + i * s.x_step) - max) * scale);
}

/* Numbers in the order of the elements, NaN above all. */
DEVICE uint64_t key_of(GLOBAL const uint8_t *x, int32_t format, int64_t i)
{
    if (!is_real(format)) return (uint64_t)whole_at(x, format, i) ^ (uint64_t)1 << 63;
    const float v = real_at(x, format, i) + 0.0f; /* -0 and 0 are equal */
    const uint32_t u = BITS(v);
    return isnan(v) ? ~(uint64_t)0 : u >> 31 ? (uint32_t)~u : u | 0x80000000;
}

/* The places of the s.k first in order, equal ones by place: each element counts those before it. */
KERNEL_2(topk, qn_line_sizes, y, x)
{
    int64_t at[3];
    walk(&s.lines, GROUP, at);
    const int32_t format = s.lines.format[0];
    for (int64_t i = LANE; i < s.n; i += WIDTH) {
        const uint64_t key = key_of(AS(uint8_t, x), format, at[0] + i * s.x_step);
        int64_t rank = 0;
        for (int64_t j = 0; j < s.n && rank < s.k; j++) {
            const uint64_t other = key_of(AS(uint8_t, x), format, at[0] + j * s.x_step);
            rank += (s.descending ? other > key : other < key) || (other == key && j < i);
        }
        if (rank < s.k) AS(int64_t, y)[at[1] + rank * s.y_step] = i;
    }
}

/* ---- reductions ---- 64 work-items a result: sums of floats in 64 chains, all else in any order. */

DEVICE int64_t element_of(const qn_reduce_sizes *s, int64_t from, int64_t i)
{
    int64_t at[3];
    walk(&s->reduced, i, at);
    return from + at[0];
}

KERNEL_2(reduce_sum, qn_reduce_sizes, y, x)
{
    IN_ROOM(float, chain);
    int64_t at[3];
    float sum = 0;
    walk(&s.kept, GROUP, at);
    for (int64_t i = LANE; i < s.reduced.n; i += 64)
        sum += real_at(AS(uint8_t, x), s.kept.format[0], element_of(&s, at[0], i));
    chain[LANE] = sum;
    MEET();
    if (LANE > 0) return;
    sum = sum_of_64(chain);
    put_real(AS(uint8_t, y), s.kept.to, GROUP, s.what == QN_GPU_MEAN ? sum / (float)s.reduced.n : sum);
}

typedef struct qn_best {
    uint64_t key;
    int64_t place;
} qn_best;

KERNEL_2(reduce_best, qn_reduce_sizes, y, x)
{
    IN_ROOM(qn_best, all);
    int64_t at[3];
    qn_best best = {0, -1};
    const bool least = s.what == QN_GPU_LEAST || s.what == QN_GPU_LEAST_PLACE;
    walk(&s.kept, GROUP, at);
    for (int64_t i = LANE; i < s.reduced.n; i += 64) {
        uint64_t key = key_of(AS(uint8_t, x), s.kept.format[0], element_of(&s, at[0], i));
        if (least && (key != ~(uint64_t)0 || !is_real(s.kept.format[0]))) key = ~key;
        if (best.place < 0 || key > best.key) {
            best.key = key;
            best.place = i;
        }
    }
    all[LANE] = best;
    MEET();
    if (LANE > 0) return;
    for (int j = 1; j < 64; j++)
        if (all[j].place >= 0 &&
            (all[j].key > best.key || (all[j].key == best.key && all[j].place < best.place)))
            best = all[j];
    if (s.what == QN_GPU_GREATEST_PLACE || s.what == QN_GPU_LEAST_PLACE) {
        AS(int64_t, y)[GROUP] = best.place;
        return;
    }
    const int64_t from = element_of(&s, at[0], best.place);
    if (is_real(s.kept.format[0]))
        put_real(AS(uint8_t, y), s.kept.to, GROUP, real_at(AS(uint8_t, x), s.kept.format[0], from) + 0.0f);
    else
        put_whole(AS(uint8_t, y), s.kept.to, GROUP, whole_at(AS(uint8_t, x), s.kept.format[0], from));
}

/* Sums and products of integers wrap; how many are not 0. */
KERNEL_2(reduce_count, qn_reduce_sizes, y, x)
{
    IN_ROOM(uint64_t, all);
    int64_t at[3];
    uint64_t sum = s.what == QN_GPU_PRODUCT;
    walk(&s.kept, GROUP, at);
    for (int64_t i = LANE; i < s.reduced.n; i += 64) {
        const int64_t from = element_of(&s, at[0], i);
        const bool counts = s.what == QN_GPU_COUNT || s.what == QN_GPU_ANY || s.what == QN_GPU_ALL;
        const bool there = is_real(s.kept.format[0]) ? real_at(AS(uint8_t, x), s.kept.format[0], from) != 0
                                                     : whole_at(AS(uint8_t, x), s.kept.format[0], from) != 0;
        if (counts)
            sum += there;
        else if (s.what == QN_GPU_PRODUCT)
            sum *= (uint64_t)whole_at(AS(uint8_t, x), s.kept.format[0], from);
        else
            sum += (uint64_t)whole_at(AS(uint8_t, x), s.kept.format[0], from);
    }
    all[LANE] = sum;
    MEET();
    if (LANE > 0) return;
    for (int j = 1; j < 64; j++) sum = s.what == QN_GPU_PRODUCT ? sum * all[j] : sum + all[j];
    const bool yes = s.what == QN_GPU_ALL ? sum == (uint64_t)s.reduced.n : sum != 0;
    put_whole(AS(uint8_t, y), s.kept.to, GROUP, s.what == QN_GPU_ANY || s.what == QN_GPU_ALL ? yes : (int64_t)sum);
}

/* ---- variances: of one block, in double beyond the sums ---- */

#ifdef HAVE_DOUBLE
KERNEL_2(reduce_var, qn_reduce_sizes, y, x)
{
    IN_ROOM(float, chain);
    int64_t at[3];
    float sum = 0;
    walk(&s.kept, GROUP, at);
    const double n = (double)s.reduced.n;
    for (int64_t i = LANE; i < s.reduced.n; i += 64)
        sum += real_at(AS(uint8_t, x), s.kept.format[0], element_of(&s, at[0], i));
    chain[LANE] = sum;
    MEET();
    const double exact = (double)sum_of_64(chain) / n;
    const float mean = (float)exact;
    MEET();
    sum = 0;
    for (int64_t i = LANE; i < s.reduced.n; i += 64) {
        const float v = real_at(AS(uint8_t, x), s.kept.format[0], element_of(&s, at[0], i)) - mean;
        sum = fma(v, v, sum);
    }
    chain[LANE] = sum;
    MEET();
    if (LANE > 0) return;
    const float squares = sum_of_64(chain);
    const double off = exact - (double)mean;
    double all = (double)squares - n * off * off;
    if (!isfinite(squares) && isfinite(mean)) { /* beyond the range of floats */
        all = 0;
        for (int64_t i = 0; i < s.reduced.n; i++) {
            const double v = (double)real_at(AS(uint8_t, x), s.kept.format[0], element_of(&s, at[0], i)) - exact;
            all += v * v;
        }
    }
    const double freedom = n - (double)s.correction, var = (all < 0 ? 0 : all) / (freedom > 0 ? freedom : 0);
    put_real(AS(uint8_t, y), s.kept.to, GROUP, (float)(s.what == QN_GPU_DEVIATION ? DOUBLE_SQRT(var) : var));
}
#endif
