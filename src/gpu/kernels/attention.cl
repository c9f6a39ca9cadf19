/* SPDX-License-Identifier: MIT */
/* src/gpu/kernels/attention.cl -- softmax(scale q k^T) v over listed cells, tile by tile, as
 * cpu/op/attention/attention.c defines it to the bit. A group has one query, one head, and a slice of 256 values. */

#define TILE   128
#define BLOCKS 8
#define SLICE  256

/* The tile at hand: its cells without absent ones, and which of them the query sees. */
typedef struct tile_of_cells {
    int32_t n, first, last, cell[TILE], pos[TILE]; /* pos: with ALiBi */
} tile_of_cells;

DEVICE void find_cells(LOCAL tile_of_cells *t, GLOBAL const int32_t *list, const qn_attention_sizes *s, int32_t at,
                       int32_t begin, int32_t end)
{
    int32_t n = 0, first = -1, last = 0;
    for (int32_t j = 0; j < TILE && at + j < end; j++) {
        const int32_t c = list[(int64_t)(at + j) * s->list_entry];
        if (at + j >= begin && first < 0) first = n;
        if (s->has_slopes) t->pos[n] = list[(int64_t)s->n_lists * s->list_row + (int64_t)(at + j) * s->list_entry];
        if (c >= 0 && c < s->n_cells) t->cell[n++] = c;
    }
    last = n;
    t->n = n;
    t->first = first < 0 ? 0 : first;
    t->last = first < 0 ? 0 : last;
}

/* What the distance of a cell costs. */
DEVICE float distance_cost(LOCAL const tile_of_cells *t, const qn_attention_sizes *s, int32_t head, int32_t own,
                           int32_t c)
{
    return s->slope[head] * fabs((float)(int32_t)((uint32_t)t->pos[c] - (uint32_t)own));
}

/* What tiles so far add up to. */
typedef struct totals {
    float max, sum, y[SLICE / 64];
} totals;

DEVICE void merge(totals *all, float max, float sum, const float *y, int n)
{
    if (sum == 0) return;
    const float m = higher(all->max, max), a = exp_of(all->max - m), b = exp_of(max - m);
    all->max = m;
    all->sum = fma(sum, b, all->sum * a);
    for (int i = 0; i < n; i++) all->y[i] = fma(y[i], b, all->y[i] * a);
}

#define BEGIN() \
    const int32_t slices = (s.dv + SLICE - 1) / SLICE, slice = (int32_t)(GROUP % slices), \
                  head = (int32_t)(GROUP / slices % s.n_head), query = (int32_t)(GROUP / slices / s.n_head); \
    const int32_t from = slice * SLICE, n_values = s.dv - from < SLICE ? s.dv - from : SLICE, \
                  kv = head / (s.n_head / s.n_kv); \
    GLOBAL const int32_t *span = AS(int32_t, spans) + (int64_t)query * s.span_row; \
    const int32_t list = span[0], own = s.has_slopes ? span[3 * s.span_entry] : 0; \
    int32_t begin = span[s.span_entry], end = span[2 * s.span_entry]; \
    if (begin < 0) begin = 0; \
    if (end > s.capacity) end = s.capacity; \
    if (begin >= end || list < 0 || list >= s.n_lists) begin = end = 0; \
    GLOBAL const int32_t *entries = AS(int32_t, lists) + (end ? (int64_t)list * s.list_row : 0); \
    GLOBAL const float *q = AS(float, q) + (int64_t)query * s.q_query + (int64_t)head * s.q_head; \
    GLOBAL const uint8_t *k_rows = AS(uint8_t, k) + (int64_t)kv * s.k_head, \
                         *v_rows = AS(uint8_t, v) + (int64_t)kv * s.v_head; \
    const int64_t k_bytes = s.k_cell, v_bytes = s.v_cell; \
    totals all = {-INFINITE, 0, {0}}; \
    if (s.sink_stride >= 0) { \
        all.max = AS(float, sinks)[head * s.sink_stride]; \
        all.sum = 1; \
    }

#define END() \
    const float inverse = 1.0f / all.sum; \
    GLOBAL float *y = AS(float, y) + ((int64_t)query * s.n_head + head) * s.dv + from; \
    for (int32_t i = LANE, n = 0; i < n_values; i += WIDTH, n++) y[i] = all.sum != 0 ? all.y[n] * inverse : 0

/* ---- K and V in 16 bits or less: products of integers ---- */

DEVICE int to_i16(float x) { return x >= 32767 ? 32767 : x >= -32768 ? ROUND(x) : -32768; } /* NaN: -32768 */
DEVICE float power_of_2(int n) { return FLOAT((uint32_t)(n + 127) << 23); }

typedef struct int_room {
    tile_of_cells t;
    float chain[16], u[TILE], weight[TILE], log_scale[TILE], block_max[BLOCKS], block_scale[BLOCKS], block_w[BLOCKS];
    int16_t q[SLICE], p[TILE];
} int_room;

/* Elements [at, at + n) of the query: returns the scale. */
DEVICE float pack_query(LOCAL int_room *r, GLOBAL const float *q, float scale, int n)
{
    float lane[16], highest = 0;
    MEET(); /* the room is free */
    if (LANE < 16) {
        float sum = 0;
        for (int i = LANE; i < n; i += 16) sum = fma(q[i] * scale, q[i] * scale, sum);
        r->chain[LANE] = sum;
    }
    MEET();
    for (int j = 0; j < 16; j++) lane[j] = r->chain[j];
    const float square = sum_of_16(lane);
    const bool good = square < 0x1p126f;
    for (int i = 0; i < n && good; i++) highest = higher(fabs(q[i] * scale), highest);
    const float g = higher(higher(sqrt(square) * (1 / QN_ATTN_Q_LENGTH), highest * (1 / 32767.0f)), 0x1p-60f);
    for (int i = LANE; i < n; i += WIDTH) r->q[i] = good ? (int16_t)to_i16(q[i] * scale * (1 / g)) : (int16_t)0;
    MEET();
    return good ? g : NO_NUMBER;
}

/* q.k of one cell's row as integers, and the row's scale. */
DEVICE float score_of(LOCAL const int16_t *q, GLOBAL const uint8_t *k, int32_t format, int64_t at, int n, float *scale)
{
    float lane[16];
    for (int j = 0; j < 16; j++) lane[j] = 0;
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < 16; j++) {
            const float x = i + j < n ? element(k, format, at + i + j) : 0;
            lane[j] = i + j < n ? fma(x, x, lane[j]) : lane[j] + 0.0f;
        }
    const float square = sum_of_16(lane);
    const bool good = square < 0x1p126f;
    const int power = good ? (29 - ((int)(BITS(square) >> 23) - 127)) >> 1 : 0;
    const float up = power_of_2(power);
    uint32_t sum = 0; /* unsigned: sums of rows that are not used may wrap */
    for (int i = 0; i < n; i++) sum += (uint32_t)(q[i] * to_i16(element(k, format, at + i) * up));
    *scale = good ? power_of_2(-power) : NO_NUMBER;
    return (float)(int32_t)sum;
}

KERNEL_7(attention_int, qn_attention_sizes, y, q, k, v, lists, spans, sinks)
{
    IN_ROOM(int_room, r);
    BEGIN();
    for (int32_t at = begin / TILE * TILE; at < end; at += TILE) {
        MEET();
        if (LANE == 0) find_cells(&r->t, entries, &s, at, begin, end);
        MEET();
        const int32_t first = r->t.first, last = r->t.last;
        if (first >= last) continue;

        for (int32_t c = first + LANE; c < last; c += WIDTH) { /* scales of V */
            GLOBAL const uint8_t *row = v_rows + r->t.cell[c] * v_bytes;
            uint32_t highest = 0;
            for (int32_t i = 0; i < n_values; i++) {
                const uint32_t u = BITS(element(row, s.v_format, from + i)) & 0x7fffffff;
                highest = u > highest ? u : highest;
            }
            const int exponent = (int)((highest + 0x100) >> 23) - 127; /* 2^15 - 1/2 would leave int16 */
            const int power = exponent >= 64 ? 0 : exponent < -26 ? 40 : 14 - exponent;
            r->weight[c] = exponent >= 64 ? NO_NUMBER : power_of_2(power);
            r->log_scale[c] = exponent >= 64 ? NO_NUMBER : (float)-power * QN_ATTN_LN2;
            r->u[c] = s.softcap > 0 ? 0 : r->log_scale[c];
        }
        for (int32_t e = 0; e < s.d || e == 0; e += SLICE) {
            const int32_t n = s.d - e < SLICE ? s.d - e : SLICE;
            const float g = pack_query(r, q + e, s.scale, n);
            for (int32_t c = first + LANE; c < last; c += WIDTH) {
                float h;
                const float dot = score_of(r->q, k_rows + r->t.cell[c] * k_bytes, s.k_format, e, n, &h);
                r->u[c] = fma(dot, g * h, r->u[c]);
            }
        }
        for (int32_t c = first + LANE; c < last; c += WIDTH) {
            if (s.softcap > 0) r->u[c] = s.softcap * tanh_of(r->u[c] / s.softcap) + r->log_scale[c];
            if (s.has_slopes) r->u[c] -= distance_cost(&r->t, &s, head, own, c);
        }
        MEET();

        for (int32_t b = LANE; b < BLOCKS; b += WIDTH) {
            float m = -INFINITE;
            for (int32_t c = 16 * b; c < 16 * b + 16 && c < last; c++)
                if (c >= first) m = higher(r->u[c], m);
            r->block_max[b] = m + 0.0f; /* no -0 */
        }
        MEET();
        float max = -INFINITE, sums[16];
        for (int32_t b = 0; b < BLOCKS; b++) max = higher(r->block_max[b], max);
        for (int32_t b = LANE; b < BLOCKS; b += WIDTH) {
            float e[16];
            const float w = exp_of(r->block_max[b] - max);
            for (int32_t c = 0; c < 16; c++) {
                const bool seen = 16 * b + c >= first && 16 * b + c < last;
                e[c] = seen ? exp_of(r->u[16 * b + c] - r->block_max[b]) : 0;
                if (seen) r->u[16 * b + c] = e[c];
            }
            const float step = higher(sum_of_16(e) * (1 / QN_ATTN_P_SUM), 1 / QN_ATTN_P_MAX), up = 1 / step;
            r->block_w[b] = w;
            r->block_scale[b] = w * step;
            for (int32_t c = 0; c < 16; c++) r->p[16 * b + c] = (int16_t)BITS(fma(e[c], up, 0x1.8p23f));
        }
        MEET();
        if (LANE < 16) {
            float sum = 0;
            for (int32_t b = 0; b < BLOCKS; b++) {
                const int32_t c = 16 * b + LANE;
                if (c >= first && c < last) sum = fma(r->u[c], r->weight[c] * r->block_w[b], sum);
            }
            r->chain[LANE] = sum;
        }
        MEET();
        for (int j = 0; j < 16; j++) sums[j] = r->chain[j];

        float y[SLICE / 64];
        int n = 0;
        for (int32_t i = LANE; i < n_values; i += WIDTH, n++) {
            y[n] = 0;
            for (int32_t b = first / 16; b < (last + 15) / 16; b++) {
                uint32_t sum = 0;
                for (int32_t c = 16 * b; c < 16 * b + 16; c++) {
                    if (c < first || c >= last) continue;
                    const float up = isnan(r->weight[c]) ? 1 : r->weight[c];
                    sum += (uint32_t)(r->p[c] *
                                      to_i16(element(v_rows + r->t.cell[c] * v_bytes, s.v_format, from + i) * up));
                }
                y[n] = fma((float)(int32_t)sum, r->block_scale[b], y[n]);
            }
        }
        merge(&all, max, sum_of_16(sums), y, n);
    }
    END();
}

/* ---- K or V in floats ---- */

typedef struct float_room {
    tile_of_cells t;
    float max, sum, p[TILE];
} float_room;

KERNEL_7(attention_float, qn_attention_sizes, y, q, k, v, lists, spans, sinks)
{
    IN_ROOM(float_room, r);
    BEGIN();
    for (int32_t at = begin / TILE * TILE; at < end; at += TILE) {
        MEET();
        if (LANE == 0) find_cells(&r->t, entries, &s, at, begin, end);
        MEET();
        const int32_t first = r->t.first, last = r->t.last;
        if (first >= last) continue;
        for (int32_t c = first + LANE; c < last; c += WIDTH) {
            GLOBAL const uint8_t *row = k_rows + r->t.cell[c] * k_bytes;
            float sum = 0;
            for (int32_t i = 0; i < s.d; i++) sum = fma(q[i] * s.scale, element(row, s.k_format, i), sum);
            if (s.softcap > 0) sum = s.softcap * tanh_of(sum / s.softcap);
            if (s.has_slopes) sum -= distance_cost(&r->t, &s, head, own, c);
            r->p[c] = sum;
        }
        MEET();
        if (LANE == 0) {
            float m = -INFINITE, sum = 0;
            for (int32_t c = first; c < last; c++) m = higher(r->p[c], m);
            m += 0.0f; /* no -0 */
            for (int32_t c = first; c < last; c++) {
                r->p[c] = exp_of(r->p[c] - m);
                sum += r->p[c];
            }
            r->max = m;
            r->sum = sum;
        }
        MEET();
        float y[SLICE / 64];
        int n = 0;
        for (int32_t i = LANE; i < n_values; i += WIDTH, n++) {
            y[n] = 0;
            for (int32_t c = first; c < last; c++)
                y[n] = fma(element(v_rows + r->t.cell[c] * v_bytes, s.v_format, from + i), r->p[c], y[n]);
        }
        merge(&all, r->max, r->sum, y, n);
    }
    END();
}
