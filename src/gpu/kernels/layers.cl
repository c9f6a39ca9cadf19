/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/layers.cl -- norms, rotations, and rows by number. A group a row. */

DEVICE int64_t row_at(const qn_rows *rows, int64_t r)
{
    return r / rows->inner * rows->outer + r % rows->inner * rows->stride;
}

/* Sums of squares in sixteen chains. */
KERNEL_3(rms_norm, qn_norm_sizes, y, x, w)
{
    IN_ROOM(float, chain);
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, GROUP);
    GLOBAL const float *w = AS(float, w);
    GLOBAL float *y = AS(float, y) + GROUP * s.n;
    const int64_t whole = s.n / 16 * 16;
    float sum = 0, lane[16];
    for (int64_t i = LANE; i < whole; i += 16) sum = fma(x[i], x[i], sum);
    if (whole < s.n) sum = whole + LANE < s.n ? fma(x[whole + LANE], x[whole + LANE], sum) : sum + 0.0f;
    chain[LANE] = sum;
    MEET();
    for (int j = 0; j < 16; j++) lane[j] = chain[j];
    const float scale = 1.0f / sqrt(sum_of_16(lane) / (float)s.n + s.eps);
    for (int64_t i = LANE; i < s.n; i += WIDTH) y[i] = s.has_weight ? x[i] * scale * w[i] : x[i] * scale;
}

/* Of 64 chains. */
DEVICE float sum_of_64(LOCAL const float *chain)
{
    float lane[16];
    for (int j = 0; j < 16; j++) lane[j] = (chain[j] + chain[32 + j]) + (chain[16 + j] + chain[48 + j]);
    return sum_of_16(lane);
}

KERNEL_4(layer_norm, qn_norm_sizes, y, x, w, b)
{
    IN_ROOM(float, chain);
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, GROUP);
    GLOBAL float *y = AS(float, y) + GROUP * s.n;
    float sum = 0;
    for (int64_t i = LANE; i < s.n; i += 64) sum += x[i];
    chain[LANE] = sum;
    MEET();
    const float mean = sum_of_64(chain) / (float)s.n;
    MEET();
    sum = 0;
    for (int64_t i = LANE; i < s.n; i += 64) sum = fma(x[i] - mean, x[i] - mean, sum);
    chain[LANE] = sum;
    MEET();
    const float scale = 1.0f / sqrt(sum_of_64(chain) / (float)s.n + s.eps);
    for (int64_t i = LANE; i < s.n; i += 64) {
        const float v = (x[i] - mean) * scale;
        y[i] = !s.has_weight ? v : s.has_bias ? fma(v, AS(float, w)[i], AS(float, b)[i]) : v * AS(float, w)[i];
    }
}

/* A group a head. */
KERNEL_3(rope_apply, qn_rope_sizes, y, x, table)
{
    const int64_t row = GROUP;
    const int64_t token = s.heads_first ? row / (s.heads * s.tokens) * s.tokens + row % s.tokens : row / s.heads;
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, row);
    GLOBAL const float *cos_sin = AS(float, table) + row_at(&s.table, token % s.n_table);
    GLOBAL float *y = AS(float, y) + row * s.d;
    const int64_t n_pairs = s.n_rot / 2;
    for (int64_t i = LANE; i < n_pairs; i += WIDTH) {
        const int64_t first = s.neox ? i : 2 * i, second = s.neox ? i + n_pairs : 2 * i + 1;
        const float c = cos_sin[2 * i], sine = s.back ? -cos_sin[2 * i + 1] : cos_sin[2 * i + 1];
        const float x0 = x[first], x1 = x[second];
        y[first] = fma(x0, c, -(x1 * sine));
        y[second] = fma(x1, c, x0 * sine);
    }
    for (int64_t i = s.n_rot + LANE; i < s.d; i += WIDTH) y[i] = x[i];
}

/* An id out of range gives zeros. */
KERNEL_3(get_rows, qn_get_rows_sizes, y, table, ids)
{
    const int64_t id = whole_at(AS(uint8_t, ids), s.id_format, row_at(&s.ids, GROUP));
    const bool there = id >= 0 && id < s.n_rows;
    GLOBAL const uint8_t *row = AS(uint8_t, table) + (there ? id * s.table_bytes : 0);
    for (int64_t i = LANE; i < s.m; i += WIDTH)
        AS(float, y)[GROUP * s.m + i] = there ? element(row, s.format, i) : 0.0f;
}

/* A block of Q8_0: d is the greatest magnitude / 127; one that is not finite counts as 0. */
DEVICE float finite_or_0(float x) { return isfinite(x) ? x : 0; }

DEVICE void pack_q8_0(GLOBAL const float *x, GLOBAL uint8_t *to)
{
    float lo = 0, hi = 0;
    for (int i = 0; i < 32; i++) {
        const float v = finite_or_0(x[i]);
        if (v < lo) lo = v;
        if (v > hi) hi = v;
    }
    const float max = hi > -lo ? hi : 0.0f - lo, d = max / 127.0f;
    const uint16_t bits = float_to_half(d < 65504.0f ? d : 65504.0f);
    const float inverse = 1.0f / half_to_float(bits);
    to[0] = (uint8_t)bits;
    to[1] = (uint8_t)(bits >> 8);
    for (int i = 0; i < 32; i++) {
        const float v = finite_or_0(x[i]) * inverse;
        const int q = bits == 0 ? 0 : ROUND(v < -128.0f ? -128.0f : v > 128.0f ? 128.0f : v);
        to[2 + i] = (uint8_t)(q < -127 ? -127 : q > 127 ? 127 : q);
    }
}

/* A group a row of x. Of several that name one row the last is written. */
KERNEL_3(set_rows, qn_set_rows_sizes, dst, x, rows)
{
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, GROUP);
    const int64_t row = whole_at(AS(uint8_t, rows), s.id_format, row_at(&s.ids, GROUP));
    bool skip = row < 0 || row >= s.n_rows;
    for (int64_t i = GROUP + 1; i < s.n && !skip; i++)
        skip = whole_at(AS(uint8_t, rows), s.id_format, row_at(&s.ids, i)) == row;
    if (skip) return;
    GLOBAL uint8_t *dst = AS(uint8_t, dst) + row * s.dst_bytes;
    for (int64_t i = LANE; i < s.m && s.block_bytes == 0; i += WIDTH) put_real(dst, s.format, i, x[i]);
    for (int64_t b = LANE; b < s.m / 32 && s.block_bytes > 0; b += WIDTH) {
        if (s.format == QN_GPU_Q8_0)
            pack_q8_0(x + 32 * b, dst + 34 * b);
        else
            pack_block(x + 32 * b, s.format, dst + s.block_bytes * b);
    }
}
