/* SPDX-License-Identifier: MIT */
/* tests/check/attn_pack_cells.h -- rows of a cache as int16: what attn_pack_k and attn_pack_v of the reference level
 * make of the same rows as floats, whatever their bytes are. */
#include "attn_pack.h"

enum { CELLS_N = 256, CELLS_MAX = 19, CELLS_EXIST = 24 };

typedef struct cells_case {
    int64_t n, row_bytes, cell_bytes;
    int32_t n_cells, *cell;
    uint8_t *base;
    float *x; /* the same rows as floats */
} cells_case;

typedef enum cells_kind { CELLS_NUMBERS, CELLS_ANY_BYTES, CELLS_EDGES, CELLS_KIND_COUNT } cells_kind;

/* 32 numbers of which the squares add up to `sum`, which is below 2^14: what random ones leave over is that of four
 * squares (Lagrange). */
static inline void numbers_of_square(check *t, int8_t q[32], int sum)
{
    for (int i = 0; i < 28; i++) {
        const int most = sum < 28 * 400 ? sum / 32 < 1 ? 0 : 1 + sum / 512 : 24,
                  x = most ? (int)(check_random(t) % (unsigned)most) : 0;
        q[i] = (int8_t)(x * x > sum ? 0 : x);
        sum -= q[i] * q[i];
    }
    for (int a = 0; a * a <= sum && a < 128; a++)
        for (int b = 0; b <= a && a * a + b * b <= sum; b++)
            for (int c = 0; c <= b && a * a + b * b + c * c <= sum; c++) {
                const int left = sum - a * a - b * b - c * c, d = (int)lrint(sqrt(left));
                if (d > c || d * d != left) continue;
                q[28] = (int8_t)a, q[29] = (int8_t)b, q[30] = (int8_t)c, q[31] = (int8_t)d;
                return;
            }
}

/* Rows of Q8_0 whose sum of squares is 2^14 but for what rounding makes of it (two blocks and more), or with 127 in
 * every block, and in some -128 too. */
static inline void edge_row(check *t, uint8_t *row, int64_t n, int e)
{
    static const uint16_t scale[] = {0x3c00, 0xbc01, 0x0001, 0x7bff, 0x2e66}; /* 1, about -1, 2^-24, 65504, about 0.1 */
    for (int64_t b = 0; b < n / 32; b++) {
        uint16_t d = scale[check_random(t) % 5];
        int8_t q[32];
        if (e % 2 || n < 64) {
            for (int i = 0; i < 32; i++) q[i] = (int8_t)((int)(check_random(t) % 255) - 127);
            q[check_random(t) % 32] = check_random(t) % 2 ? 127 : -127;
            if (e % 8 == 7 && b == n / 32 - 1) q[check_random(t) % 32] = -128;
        } else if (b == 0) {
            d = 0x3c00;
            numbers_of_square(t, q, (1 << 14) - 1);
        } else if (b == 1) {
            d = (uint16_t)(0x2800 + check_random(t) % 0x400); /* 2^-5 to 2^-4 */
            const float size = ldexpf(1 + (float)(d & 0x3ff) / 1024, -5);
            numbers_of_square(t, q, (int)lrintf(1 / (size * size)));
        } else {
            d = 0;
            memset(q, 0, sizeof(q));
        }
        memcpy(row + b * 34, &d, 2);
        memcpy(row + b * 34 + 2, q, 32);
    }
}

static inline cells_case cells_start(check *t, qn_dtype dtype, int64_t n, int32_t n_cells, cells_kind kind,
                                     check_place place)
{
    static float x[CELLS_MAX * CELLS_N];
    cells_case c = {.n = n, .row_bytes = qn_dtype_row_bytes(dtype, n), .n_cells = n_cells, .x = x};
    c.cell_bytes = c.row_bytes + 6;
    const size_t bytes = (size_t)((CELLS_EXIST - 1) * c.cell_bytes + c.row_bytes);
    c.base = check_buffer(t, 0, bytes, 2, place);
    c.cell = check_buffer(t, 1, (size_t)n_cells * 4, 4, CHECK_AT_END);
    check_where(t, "n %lld, %d cells, %s, place %d", (long long)n, n_cells,
                kind == CELLS_NUMBERS ? "numbers"
                : kind == CELLS_EDGES ? "edges"
                                      : "any bytes",
                place);
    for (size_t i = 0; i < bytes; i++) c.base[i] = (uint8_t)check_random(t);
    for (int e = 0; e < CELLS_EXIST && kind == CELLS_EDGES; e++) edge_row(t, c.base + e * c.cell_bytes, n, e);
    for (int e = 0; e < CELLS_EXIST && kind == CELLS_NUMBERS; e++) {
        float row[CELLS_N];
        const float size = ldexpf(1, e % 4 == 0 ? -e : e % 9);
        for (int64_t i = 0; i < n; i++) row[i] = e % 7 == 6 ? 0 : size * ((float)(check_random(t) % 2001) / 1000 - 1);
        qn__quant_get(dtype)->pack(row, c.base + e * c.cell_bytes, n, NULL);
    }
    for (int32_t i = 0; i < n_cells; i++) {
        c.cell[i] = (int32_t)(check_random(t) % CELLS_EXIST);
        qn__quant_get(dtype)->unpack(c.base + c.cell[i] * c.cell_bytes, x + i * n, n);
    }
    return c;
}

/* Calls WITH for every shape, as `c`. */
#define CELLS_EACH(t, dtype, WITH) \
    for (int64_t n_ = qn_dtype_get(dtype)->block_elems > 16 ? 32 : 16; n_ <= CELLS_N; \
         n_ += n_ < 128 ? n_ < 64 ? 16 + 16 * (n_ % 32 == 0) : 32 : 128) \
        for (int32_t cells_ = 0; cells_ <= CELLS_MAX; cells_ += cells_ < 2 ? 1 : cells_ == 2 ? 14 : 3) \
            for (int place_ = 0; place_ < CHECK_PLACE_COUNT; place_++) \
                for (int kind_ = 0; kind_ < ((dtype) == QN_DTYPE_Q8_0 ? CELLS_KIND_COUNT : CELLS_EDGES); kind_++) { \
                    const cells_case c = cells_start(t, dtype, n_, cells_, (cells_kind)kind_, (check_place)place_); \
                    WITH; \
                }

typedef void (*pack_k_cells_fn)(int16_t *y, float *scale, const void *base, int64_t cell_bytes, const int32_t *cell,
                                int64_t n_cells, int64_t n);
typedef void (*pack_v_cells_fn)(int16_t *y, float *log_scale, float *weight, const void *base, int64_t cell_bytes,
                                const int32_t *cell, int64_t n_cells, int64_t n);

static inline void pack_k_cells_case(check *t, pack_k_cells_fn fn, const cells_case *c)
{
    static int16_t want[CELLS_MAX * CELLS_N];
    float want_scale[CELLS_MAX + 1], *scale = check_floats(t, 3, c->n_cells, CHECK_AT_END);
    int16_t *y = check_buffer(t, 2, (size_t)(c->n_cells * c->n) * 2, 2, CHECK_AT_END);
    fn(y, scale, c->base, c->cell_bytes, c->cell, c->n_cells, c->n);
    check_intact(t);
    t->ref->attn_pack_k(want, want_scale, c->x, c->n_cells, c->n);
    check_same(t, scale, want_scale, c->n_cells, "of floats, the scale");
    for (int32_t i = 0; i < c->n_cells; i++)
        if (!isnan(scale[i])) pack_same(t, y + i * c->n, want + i * c->n, c->n); /* or the integers mean nothing */
}

static inline void pack_v_cells_case(check *t, pack_v_cells_fn fn, const cells_case *c)
{
    static int16_t want[(CELLS_MAX + 1) * CELLS_N];
    const int64_t n = c->n;
    float want_log[CELLS_MAX + 1], want_weight[CELLS_MAX + 1];
    float *log_scale = check_floats(t, 3, c->n_cells, CHECK_AT_END),
          *weight = check_floats(t, 4, c->n_cells, CHECK_AT_END);
    int16_t *y = check_buffer(t, 2, (size_t)((c->n_cells + 1) / 2 * 2 * n) * 2, 2, CHECK_AT_END);
    fn(y, log_scale, weight, c->base, c->cell_bytes, c->cell, c->n_cells, n);
    check_intact(t);
    t->ref->attn_pack_v(want, want_log, want_weight, c->x, c->n_cells, n);
    check_same(t, log_scale, want_log, c->n_cells, "of floats, the logarithm");
    check_same(t, weight, want_weight, c->n_cells, "of floats, the weight");
    for (int32_t i = 0; i < (c->n_cells + 1) / 2 * 2; i++)
        for (int64_t j = 0; j < n && (i == c->n_cells || !isnan(weight[i])); j++) {
            const int64_t at = i / 2 * 2 * n + 2 * j + i % 2;
            if (y[at] != want[at]) check_fail(t, "cell %d: %d, %d of floats", i, y[at], want[at]);
        }
}

#define CELLS_BENCH(t, dtype, ...) \
    do { \
        const int64_t bytes_ = qn_dtype_row_bytes(dtype, 64); \
        uint8_t *base = check_buffer(t, 0, (size_t)(64 * bytes_), 2, CHECK_AT_START); \
        int16_t *y = check_buffer(t, 1, 64 * 64 * 2, 2, CHECK_AT_START); \
        int32_t cell[64]; \
        float scale[64], weight[64]; \
        memset(base, 0, (size_t)(64 * bytes_)); \
        (void)weight; \
        for (int i = 0; i < 64; i++) cell[i] = i; \
        CHECK_BENCH(t, t->row, "G elements/s", 64 * 64, __VA_ARGS__); \
    } while (0)

static inline void pack_k_cells_check(check *t, pack_k_cells_fn fn, qn_dtype dtype)
{
    if (t->bench)
        CELLS_BENCH(t, dtype, fn(y, scale, base, bytes_, cell, 64, 64));
    else
        CELLS_EACH(t, dtype, pack_k_cells_case(t, fn, &c));
}

static inline void pack_v_cells_check(check *t, pack_v_cells_fn fn, qn_dtype dtype)
{
    if (t->bench)
        CELLS_BENCH(t, dtype, fn(y, scale, weight, base, bytes_, cell, 64, 64));
    else
        CELLS_EACH(t, dtype, pack_v_cells_case(t, fn, &c));
}
