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

DEVICE bool is_real(int32_t format) { return format == QN_GPU_F32 || format == QN_GPU_F16 || format == QN_GPU_BF16; }

/* w, w + v, w + 2 v and on. */
KERNEL_2(count_up, qn_walk_sizes, y, x)
{
    const int64_t i = GROUP * WIDTH + LANE;
    if (i >= s.n) return;
    const int64_t r = (int64_t)((uint64_t)s.w + (uint64_t)i * (uint64_t)s.v);
    if (is_real(s.to))
        put_real(AS(uint8_t, y), s.to, i, (float)r);
    else
        put_whole(AS(uint8_t, y), s.to, i, r);
}

/* ---- writing by index ---- A work-item a line, so that what is written to one place comes in the index's order. */

DEVICE float real_meets(int32_t how, float a, float b)
{
    switch (how) {
    case QN_GPU_PLUS: return a + b;
    case QN_GPU_TIMES: return a * b;
    case QN_GPU_HIGHER: return isnan(a) || a > b ? a : b;
    case QN_GPU_LOWER: return isnan(a) || a < b ? a : b;
    default: return b;
    }
}

/* BOOL: or, and, or, and */
DEVICE int64_t whole_meets(int32_t how, int32_t format, int64_t a, int64_t b)
{
    const bool logic = format == QN_GPU_BOOL;
    switch (how) {
    case QN_GPU_PLUS: return logic ? a | b : (int64_t)((uint64_t)a + (uint64_t)b);
    case QN_GPU_TIMES: return logic ? a & b : (int64_t)((uint64_t)a * (uint64_t)b);
    case QN_GPU_HIGHER: return logic ? a | b : a > b ? a : b;
    case QN_GPU_LOWER: return logic ? a & b : a < b ? a : b;
    default: return b;
    }
}

KERNEL_3(scatter, qn_scatter_sizes, y, src, ids)
{
    const int64_t line = GROUP * WIDTH + LANE;
    int64_t at[3];
    if (line >= s.lines.n) return;
    walk(&s.lines, line, at);
    const int32_t format = s.lines.to, how = s.lines.choice;
    for (int64_t i = 0; i < s.n; i++) {
        const int64_t id = whole_at(AS(uint8_t, ids), s.lines.format[2], at[2] + i * s.id_step);
        const int64_t to = at[0] + id * s.y_step, from = at[1] + i * s.src_step;
        if (id < 0 || id >= s.size) continue;
        if (how == QN_GPU_SET)
            put_raw(AS(uint8_t, y), s.lines.what, to, raw_at(AS(uint8_t, src), s.lines.what, from));
        else if (is_real(format))
            put_real(AS(uint8_t, y), format, to,
                     real_meets(how, real_at(AS(uint8_t, y), format, to), real_at(AS(uint8_t, src), format, from)));
        else
            put_whole(AS(uint8_t, y), format, to,
                      whole_meets(how, format, whole_at(AS(uint8_t, y), format, to),
                                  whole_at(AS(uint8_t, src), format, from)));
    }
}

/* ---- products of two values ---- A work-item an element: floats in slices of 256, each one chain, added in order. */

KERNEL_4(matmul_real, qn_matmul_sizes, y, a, b, c)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    float acc = 0;
    if (i >= s.at.n) return;
    walk(&s.at, i, at);
    for (int64_t from = 0; from < s.k; from += 256) {
        float sum = 0;
        for (int64_t k = from; k < from + 256 && k < s.k; k++)
            sum = fma(real_at(AS(uint8_t, a), s.at.format[0], at[0] + k * s.a_step),
                      real_at(AS(uint8_t, b), s.at.format[1], at[1] + k * s.b_step), sum);
        acc = from ? acc + sum : sum;
    }
    if (s.at.p != 1) acc *= s.at.p;
    if (s.has_c) acc += s.at.q * real_at(AS(uint8_t, c), s.at.format[2], at[2]);
    put_real(AS(uint8_t, y), s.at.to, i, acc);
}

KERNEL_3(matmul_whole, qn_matmul_sizes, y, a, b)
{
    const int64_t i = GROUP * WIDTH + LANE;
    int64_t at[3];
    uint64_t sum = 0;
    if (i >= s.at.n) return;
    walk(&s.at, i, at);
    for (int64_t k = 0; k < s.k; k++)
        sum += (uint64_t)whole_at(AS(uint8_t, a), s.at.format[0], at[0] + k * s.a_step) *
               (uint64_t)whole_at(AS(uint8_t, b), s.at.format[1], at[1] + k * s.b_step);
    put_whole(AS(uint8_t, y), s.at.to, i, (int64_t)sum);
}

/* ---- from one plain format to another ---- */

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
