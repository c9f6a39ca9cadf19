/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/pointwise.cl -- one work-item an element: sources of any strides, broadcast, in any plain format. */

/* Where element i of the result is in each source. */
DEVICE void walk(const qn_walk_sizes *s, int64_t i, int64_t at[3])
{
    at[0] = at[1] = at[2] = 0;
    for (int32_t d = s->rank - 1; d > 0; d--) {
        const int64_t index = i % s->dim[d];
        i /= s->dim[d];
        for (int k = 0; k < 3; k++) at[k] += index * s->stride[k][d];
    }
    for (int k = 0; k < 3; k++) at[k] += i * s->stride[k][0];
}

DEVICE float real_at(GLOBAL const uint8_t *x, int32_t format, int64_t i)
{
    switch (format) {
    case QN_GPU_F32: return ((GLOBAL const float *)x)[i];
    case QN_GPU_F16: return half_to_float(((GLOBAL const uint16_t *)x)[i]);
    default: /* BF16 */ return bf16_to_float(((GLOBAL const uint16_t *)x)[i]);
    }
}

DEVICE void put_real(GLOBAL uint8_t *y, int32_t format, int64_t i, float x)
{
    switch (format) {
    case QN_GPU_F32: ((GLOBAL float *)y)[i] = x; break;
    case QN_GPU_F16: ((GLOBAL uint16_t *)y)[i] = float_to_half(x); break;
    case QN_GPU_BF16: ((GLOBAL uint16_t *)y)[i] = float_to_bf16(x); break;
    default: /* BOOL */ y[i] = x != 0;
    }
}

DEVICE int64_t whole_at(GLOBAL const uint8_t *x, int32_t format, int64_t i)
{
    switch (format) {
    case QN_GPU_I8: return (int8_t)x[i];
    case QN_GPU_I16: return ((GLOBAL const int16_t *)x)[i];
    case QN_GPU_I32: return ((GLOBAL const int32_t *)x)[i];
    case QN_GPU_I64: return ((GLOBAL const int64_t *)x)[i];
    case QN_GPU_U8: return x[i];
    default: /* BOOL */ return x[i] != 0;
    }
}

DEVICE void put_whole(GLOBAL uint8_t *y, int32_t format, int64_t i, int64_t x)
{
    switch (format) {
    case QN_GPU_I8:
    case QN_GPU_U8: y[i] = (uint8_t)x; break;
    case QN_GPU_I16: ((GLOBAL uint16_t *)y)[i] = (uint16_t)x; break;
    case QN_GPU_I32: ((GLOBAL uint32_t *)y)[i] = (uint32_t)x; break;
    case QN_GPU_I64: ((GLOBAL int64_t *)y)[i] = x; break;
    default: /* BOOL */ y[i] = x != 0;
    }
}

KERNEL_4(pointwise_real, qn_walk_sizes, y, a, b, c)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    float r = 0;
    if (i >= s.n) return;
    walk(&s, i, at);
    const float a = real_at(AS(uint8_t, a), s.format[0], at[0]), b = real_at(AS(uint8_t, b), s.format[1], at[1]),
                c = real_at(AS(uint8_t, c), s.format[2], at[2]), p = s.p, q = s.q;
    switch (s.what) {
/* clang-format off */
#define ROW1(name, real) case QN_GPU_PW_##name: r = (float)(real); break;
#define ROW2(name, real, whole) case QN_GPU_PW_##name: r = (float)(real); break;
    QN_GPU_REAL_ROWS(ROW1) QN_GPU_NUMBER_ROWS(ROW2)
#undef ROW1
#undef ROW2
        /* clang-format on */
    }
    put_real(AS(uint8_t, y), s.to, i, r);
}

KERNEL_4(pointwise_whole, qn_walk_sizes, y, a, b, c)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3], r = 0;
    if (i >= s.n) return;
    walk(&s, i, at);
    const int64_t a = whole_at(AS(uint8_t, a), s.format[0], at[0]), b = whole_at(AS(uint8_t, b), s.format[1], at[1]),
                  c = whole_at(AS(uint8_t, c), s.format[2], at[2]), w = s.w, v = s.v;
    switch (s.what) {
/* clang-format off */
#define ROW1(name, whole) case QN_GPU_PW_##name: r = (int64_t)(whole); break;
#define ROW2(name, real, whole) case QN_GPU_PW_##name: r = (int64_t)(whole); break;
    QN_GPU_WHOLE_ROWS(ROW1) QN_GPU_NUMBER_ROWS(ROW2)
#undef ROW1
#undef ROW2
        /* clang-format on */
    }
    put_whole(AS(uint8_t, y), s.to, i, r);
}

/* ---- elements as they are ---- */

DEVICE uint64_t raw_at(GLOBAL const uint8_t *x, int32_t bytes, int64_t i)
{
    switch (bytes) {
    case 1: return x[i];
    case 2: return ((GLOBAL const uint16_t *)x)[i];
    case 4: return ((GLOBAL const uint32_t *)x)[i];
    default: return ((GLOBAL const uint64_t *)x)[i];
    }
}

DEVICE void put_raw(GLOBAL uint8_t *y, int32_t bytes, int64_t i, uint64_t x)
{
    switch (bytes) {
    case 1: y[i] = (uint8_t)x; break;
    case 2: ((GLOBAL uint16_t *)y)[i] = (uint16_t)x; break;
    case 4: ((GLOBAL uint32_t *)y)[i] = (uint32_t)x; break;
    default: ((GLOBAL uint64_t *)y)[i] = x;
    }
}

/* From any layout to any other: y's is stride[1]. */
KERNEL_2(move, qn_walk_sizes, y, x)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.n) return;
    walk(&s, i, at);
    put_raw(AS(uint8_t, y), s.what, at[1], raw_at(AS(uint8_t, x), s.what, at[0]));
}

/* where: the elements of a or b by a condition; masked_fill, whose b is the number w; full, all of them w. */
KERNEL_4(choose, qn_walk_sizes, y, cond, a, b)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.n) return;
    walk(&s, i, at);
    const bool yes = s.choice != QN_GPU_FULL && AS(uint8_t, cond)[at[0]] != 0;
    uint64_t r = (uint64_t)s.w;
    if (s.choice == QN_GPU_WHERE)
        r = yes ? raw_at(AS(uint8_t, a), s.what, at[1]) : raw_at(AS(uint8_t, b), s.what, at[2]);
    else if (s.choice == QN_GPU_MASKED && !yes)
        r = raw_at(AS(uint8_t, a), s.what, at[1]);
    put_raw(AS(uint8_t, y), s.what, i, r);
}

/* Elements of x by indices along one dimension of w places, v elements apart; 0 where one is out of range. */
KERNEL_3(gather, qn_walk_sizes, y, x, ids)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.n) return;
    walk(&s, i, at);
    const int64_t id = whole_at(AS(uint8_t, ids), s.format[1], at[1]);
    put_raw(AS(uint8_t, y), s.what, i, id >= 0 && id < s.w ? raw_at(AS(uint8_t, x), s.what, at[0] + id * s.v) : 0);
}

/* ---- from one plain format to another ---- */

DEVICE bool is_real(int32_t format) { return format == QN_GPU_F32 || format == QN_GPU_F16 || format == QN_GPU_BF16; }

/* Towards zero; what I32 and I64 cannot hold saturates, NaN gives 0. */
DEVICE int64_t to_whole(float x, int32_t to)
{
    if (to == QN_GPU_BOOL) return x != 0;
    const float top = to == QN_GPU_I32 ? 0x1p31f : 0x1p63f;
    if (x >= top) return to == QN_GPU_I32 ? 0x7fffffff : 0x7fffffffffffffff;
    if (x <= -top) return to == QN_GPU_I32 ? -0x7fffffff - 1 : -0x7fffffffffffffff - 1;
    return isnan(x) ? 0 : (int64_t)x;
}

KERNEL_2(convert, qn_walk_sizes, y, x)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (i >= s.n) return;
    walk(&s, i, at);
    const int32_t from = s.format[0];
    if (is_real(from)) {
        const float v = real_at(AS(uint8_t, x), from, at[0]);
        if (is_real(s.to))
            put_real(AS(uint8_t, y), s.to, i, v);
        else
            put_whole(AS(uint8_t, y), s.to, i, to_whole(v, s.to));
        return;
    }
    const int64_t v = whole_at(AS(uint8_t, x), from, at[0]);
    if (is_real(s.to))
        put_real(AS(uint8_t, y), s.to, i, (float)v);
    else
        put_whole(AS(uint8_t, y), s.to, i, v);
}
