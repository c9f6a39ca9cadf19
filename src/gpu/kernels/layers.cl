/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/layers.cl -- norms, rotations, and rows by number. A group a row. */

typedef struct rms_room {
    span_room span;
    float x[1024], chain[16];
} rms_room;

/* What a row of n elements is scaled by: sums of squares in sixteen chains. Rows come by way of the room, so that all
 * work-items read them. All of a group call it. */
DEVICE float rms_scale(LOCAL rms_room *room, GLOBAL const float *x, int64_t n, float eps)
{
    const int64_t whole = n / 16 * 16;
    float sum = 0, lane[16];
    for (int64_t at = 0; at < whole; at += 1024) {
        const int len = whole - at < 1024 ? (int)(whole - at) : 1024;
        MEET();
        for (int i = LANE; i < len; i += WIDTH) room->x[i] = x[at + i];
        MEET();
        for (int i = LANE; LANE < 16 && i < len; i += 16) sum = fma(room->x[i], room->x[i], sum);
    }
    if (LANE < 16) {
        if (whole < n) sum = whole + LANE < n ? fma(x[whole + LANE], x[whole + LANE], sum) : sum + 0.0f;
        room->chain[LANE] = sum;
    }
    MEET();
    for (int j = 0; j < 16; j++) lane[j] = room->chain[j];
    return 1.0f / sqrt(sum_of_16(lane) / (float)n + eps);
}

/* A row as columns of products too, in blocks of `block`; 0: no. All of a launch have the same block: PoCL 3.1 does not
 * take barriers that only some groups reach. */
DEVICE void rms_row(LOCAL rms_room *room, GLOBAL const float *x, float scale, GLOBAL const float *w, int has_weight,
                    GLOBAL float *y, int64_t n, int block, GLOBAL uint8_t *q)
{
    for (int64_t at = 0; at < n; at += 256) {
        const int len = n - at < 256 ? (int)(n - at) : 256;
        for (int i = LANE; i < len; i += WIDTH) {
            const float v = has_weight ? x[at + i] * scale * w[at + i] : x[at + i] * scale;
            y[at + i] = v;
            room->span.v[i] = v;
        }
        if (block) {
            MEET();
            quantize_span(&room->span, block, len, q + at / block * ACT_BYTES(block));
        }
    }
}

/* Several jobs, or the rows of one as columns too, in the buffer q. */
KERNEL_10(rms_norm, qn_rms_sizes, y, x, w, q, y1, x1, w1, y2, x2, w2)
{
    IN_ROOM(rms_room, room);
    JOB()
    const qn_rows rows = OF_JOB(x);
    GLOBAL const float *x = AS_JOB(float, x, x1, x2) + row_at(&rows, group_);
    const int64_t n = OF_JOB(n);
    const float scale = rms_scale(room, x, n, OF_JOB(eps));
    rms_row(room, x, scale, AS_JOB(float, w, w1, w2), OF_JOB(has_weight), AS_JOB(float, y, y1, y2) + group_ * n, n,
            s.block, AS(uint8_t, q) + (s.block ? group_ * n / s.block * ACT_BYTES(s.block) : 0));
}

/* y = norm(x), z = other + y, and the norm of z; the last of them as columns too. */
KERNEL_8(norm_sum, qn_norm_sum_sizes, y, x, w, z, other, y1, w1, q)
{
    IN_ROOM(rms_room, room);
    GLOBAL const float *x = AS(float, x) + row_at(&s.x, GROUP), *w = AS(float, w),
                       *other = AS(float, other) + GROUP * s.n;
    GLOBAL float *y = AS(float, y) + GROUP * s.n, *z = AS(float, z) + GROUP * s.n;
    GLOBAL uint8_t *q = AS(uint8_t, q) + (s.block ? GROUP * s.n / s.block * ACT_BYTES(s.block) : 0);
    const float scale = rms_scale(room, x, s.n, s.eps[0]);
    for (int64_t at = 0; at < s.n; at += 256) {
        const int len = s.n - at < 256 ? (int)(s.n - at) : 256;
        for (int i = LANE; i < len; i += WIDTH) {
            const float v = s.has_weight[0] ? x[at + i] * scale * w[at + i] : x[at + i] * scale;
            const float sum = other[at + i] + v;
            y[at + i] = v;
            z[at + i] = sum;
            room->span.v[i] = sum;
        }
        if (s.block && !s.has_next) {
            MEET();
            quantize_span(&room->span, s.block, len, q + at / s.block * ACT_BYTES(s.block));
        }
    }
    if (s.has_next) {
        MEET_ALL(); /* z is there */
        const float of_sum = rms_scale(room, z, s.n, s.eps[1]);
        rms_row(room, z, of_sum, AS(float, w1), s.has_weight[1], AS(float, y1) + GROUP * s.n, s.n, s.block, q);
    }
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

DEVICE void turn_head(GLOBAL const float *x, GLOBAL const float *cos_sin, GLOBAL float *y, const qn_rope_sizes *s)
{
    const int64_t n_pairs = s->n_rot / 2;
    for (int64_t i = LANE; i < n_pairs; i += WIDTH) {
        const int64_t first = s->neox ? i : 2 * i, second = s->neox ? i + n_pairs : 2 * i + 1;
        const float c = cos_sin[2 * i], sine = s->back ? -cos_sin[2 * i + 1] : cos_sin[2 * i + 1];
        const float x0 = x[first], x1 = x[second];
        y[first] = fma(x0, c, -(x1 * sine));
        y[second] = fma(x1, c, x0 * sine);
    }
    for (int64_t i = s->n_rot + LANE; i < s->d; i += WIDTH) y[i] = x[i];
}

/* A group a head. */
KERNEL_7(rope_apply, qn_rope_sizes, y, x, table, y1, x1, y2, x2)
{
    JOB()
    const qn_rows rows = OF_JOB(x);
    const int64_t row = group_, heads = OF_JOB(heads);
    const int64_t token = s.heads_first ? row / (heads * s.tokens) * s.tokens + row % s.tokens : row / heads;
    turn_head(AS_JOB(float, x, x1, x2) + row_at(&rows, row),
              AS(float, table) + row_at(&s.table, token % s.n_table), AS_JOB(float, y, y1, y2) + row * s.d, &s);
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

/* Row `at` of x [n, m] into the row of dst that ids names. Of several that name one row the last is written. */
DEVICE void write_row(GLOBAL const float *x, GLOBAL const uint8_t *ids, GLOBAL uint8_t *dst, int64_t at, int64_t m,
                      int64_t n, int64_t n_rows, int64_t dst_bytes, const qn_rows *from, const qn_rows *id_at,
                      int32_t format, int32_t id_format, int32_t block_bytes)
{
    const int64_t row = whole_at(ids, id_format, row_at(id_at, at));
    bool skip = row < 0 || row >= n_rows;
    for (int64_t i = at + 1; i < n && !skip; i++) skip = whole_at(ids, id_format, row_at(id_at, i)) == row;
    if (skip) return;
    x += row_at(from, at);
    dst += row * dst_bytes;
    for (int64_t i = LANE; i < m && block_bytes == 0; i += WIDTH) put_real(dst, format, i, x[i]);
    for (int64_t b = LANE; b < m / 32 && block_bytes > 0; b += WIDTH) {
        if (format == QN_GPU_Q8_0)
            pack_q8_0(x + 32 * b, dst + 34 * b);
        else
            pack_block(x + 32 * b, format, dst + block_bytes * b);
    }
}

/* A group a row of x. */
KERNEL_9(set_rows, qn_set_rows_sizes, dst, x, rows, dst1, x1, rows1, dst2, x2, rows2)
{
    JOB()
    const qn_rows from = OF_JOB(x), ids = OF_JOB(ids);
    write_row(AS_JOB(float, x, x1, x2), AS_JOB(uint8_t, rows, rows1, rows2), AS_JOB(uint8_t, dst, dst1, dst2), group_,
              OF_JOB(m), OF_JOB(n), OF_JOB(n_rows), OF_JOB(dst_bytes), &from, &ids, OF_JOB(format), OF_JOB(id_format),
              OF_JOB(block_bytes));
}

/* A group a head of the queries; then one a token's keys, and one its values. */
KERNEL_10(turn_write, qn_turn_write_sizes, q_to, q, table, k_to, k, k_cache, k_rows, v, v_cache, v_rows)
{
    const int64_t heads = s.turn.heads[0], kv_heads = s.turn.heads[1], at = GROUP - s.turn.groups[0],
                  n = s.write.n[0];
    if (at < 0)
        turn_head(AS(float, q) + row_at(&s.turn.x[0], GROUP),
                  AS(float, table) + row_at(&s.turn.table, GROUP / heads % s.turn.n_table),
                  AS(float, q_to) + GROUP * s.turn.d, &s.turn);
    for (int64_t h = at * kv_heads; at >= 0 && at < n && h < (at + 1) * kv_heads; h++)
        turn_head(AS(float, k) + row_at(&s.turn.x[1], h),
                  AS(float, table) + row_at(&s.turn.table, at % s.turn.n_table), AS(float, k_to) + h * s.turn.d,
                  &s.turn);
    MEET_ALL(); /* all groups come here: PoCL 3.1 does not take what only some reach */
    if (at >= 0 && at < n)
        write_row(AS(float, k_to), AS(uint8_t, k_rows), AS(uint8_t, k_cache), at, s.write.m[0], n,
                  s.write.n_rows[0], s.write.dst_bytes[0], &s.write.x[0], &s.write.ids[0], s.write.format[0],
                  s.write.id_format[0], s.write.block_bytes[0]);
    if (at >= n)
        write_row(AS(float, v), AS(uint8_t, v_rows), AS(uint8_t, v_cache), at - n, s.write.m[1], s.write.n[1],
                  s.write.n_rows[1], s.write.dst_bytes[1], &s.write.x[1], &s.write.ids[1], s.write.format[1],
                  s.write.id_format[1], s.write.block_bytes[1]);
}

/* y = f(a, b), and z = y c where there is c; the last of them as columns of products. A group a span of 256 elements of
 * a row. */
DEVICE float gate_of(int32_t what, float a, float b, float p)
{
    switch (what) {
    case QN_GPU_PW_swiglu: return silu_of(a) * b;
    case QN_GPU_PW_mul: return a * b;
    case QN_GPU_PW_silu: return silu_of(a);
    case QN_GPU_PW_gelu: return gelu_of(a, p != 0);
    default: /* relu */ return clamped(a, 0, INFINITE);
    }
}

KERNEL_6(gate, qn_gate_sizes, y, a, b, z, c, q)
{
    IN_ROOM(span_room, room);
    const int64_t spans = (s.k + 255) / 256, row = GROUP / spans, at = GROUP % spans * 256;
    const int len = s.k - at < 256 ? (int)(s.k - at) : 256;
    GLOBAL const float *a = AS(float, a) + row_at(&s.a, row) + at, *b = AS(float, b) + row_at(&s.b, row) + at,
                       *c = AS(float, c) + row_at(&s.c, row) + at;
    GLOBAL float *y = AS(float, y) + row * s.k + at, *z = AS(float, z) + row * s.k + at;
    for (int i = LANE; i < len; i += WIDTH) {
        float v = gate_of(s.what, a[i], b[i], s.p);
        y[i] = v;
        if (s.has_c) z[i] = v = v * c[i];
        room->v[i] = v;
    }
    MEET();
    quantize_span(room, s.block, len, AS(uint8_t, q) + (row * s.k + at) / s.block * ACT_BYTES(s.block));
}
