/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/layers.cl -- element by element, norms, rotations, and rows by number. */

KERNEL_3(pointwise, qn_pointwise_sizes, y, a, b)
{
    const int64_t i = GROUP * WIDTH + LANE;
    if (i >= s.n) return;
    const float x = AS(float, a)[i], z = AS(float, b)[i];
    float r;
    switch (s.what) {
    case QN_GPU_ADD: r = x + z; break;
    case QN_GPU_MUL: r = x * z; break;
    case QN_GPU_SCALE: r = fma(s.a, x, s.b); break;
    case QN_GPU_SILU: r = x / (1.0f + exp_of(-x)); break;
    default: r = x / (1.0f + exp_of(-x)) * z; break;
    }
    AS(float, y)[i] = r;
}

/* A value of any layout, dense and row-major. */
KERNEL_2(copy, qn_copy_sizes, y, x)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at = 0, left = i;
    if (i >= s.n) return;
    for (int d = 7; d >= 0; d--) {
        at += left % s.dim[d] * s.stride[d];
        left /= s.dim[d];
    }
    switch (s.raw) {
    case 1: AS(uint8_t, y)[i] = AS(uint8_t, x)[at]; break;
    case 2: AS(uint16_t, y)[i] = AS(uint16_t, x)[at]; break;
    case 4: AS(uint32_t, y)[i] = AS(uint32_t, x)[at]; break;
    case 8: AS(uint64_t, y)[i] = AS(uint64_t, x)[at]; break;
    default: {
        const float v = element(AS(uint8_t, x), s.from, at);
        if (s.to == QN_GPU_F32)
            AS(float, y)[i] = v;
        else
            AS(uint16_t, y)[i] = s.to == QN_GPU_F16 ? float_to_half(v) : float_to_bf16(v);
    }
    }
}

/* A group a row; sums of squares in sixteen chains. */
KERNEL_3(rms_norm, qn_norm_sizes, y, x, w)
{
    IN_ROOM(float, chain);
    GLOBAL const float *x = AS(float, x) + GROUP * s.x_stride;
    GLOBAL const float *w = AS(float, w);
    GLOBAL float *y = AS(float, y) + GROUP * s.y_stride;
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

/* A group a head. */
KERNEL_3(rope_apply, qn_rope_sizes, y, x, table)
{
    const int64_t row = GROUP;
    const int64_t token = s.heads_first ? row / (s.heads * s.tokens) * s.tokens + row % s.tokens : row / s.heads;
    GLOBAL const float *x = AS(float, x) + row * s.x_stride;
    GLOBAL const float *cos_sin = AS(float, table) + token % s.n_table * s.table_stride;
    GLOBAL float *y = AS(float, y) + row * s.y_stride;
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

/* A group a row of the result. An id out of range gives zeros. */
KERNEL_3(get_rows, qn_get_rows_sizes, y, table, ids)
{
    const int32_t id = AS(int32_t, ids)[GROUP * s.id_stride];
    GLOBAL const uint8_t *row = AS(uint8_t, table) + elements_bytes(s.format, (int64_t)id * s.table_stride);
    for (int64_t i = LANE; i < s.m; i += WIDTH)
        AS(float, y)[GROUP * s.m + i] = id >= 0 && id < s.n_rows ? element(row, s.format, i) : 0.0f;
}

/* A group a row of x. Of several that name one row the last is written. */
KERNEL_3(set_rows, qn_set_rows_sizes, dst, x, rows)
{
    GLOBAL const int32_t *rows = AS(int32_t, rows);
    GLOBAL const float *x = AS(float, x) + GROUP * s.x_stride;
    const int32_t row = rows[GROUP * s.row_stride];
    bool skip = row < 0 || row >= s.n_rows;
    for (int64_t i = GROUP + 1; i < s.n && !skip; i++) skip = rows[i * s.row_stride] == row;
    for (int64_t i = LANE; i < s.m && !skip; i += WIDTH) {
        const int64_t at = row * s.dst_stride + i;
        if (s.format == QN_GPU_F32)
            AS(float, dst)[at] = x[i];
        else
            AS(uint16_t, dst)[at] = s.format == QN_GPU_F16 ? float_to_half(x[i]) : float_to_bf16(x[i]);
    }
}
