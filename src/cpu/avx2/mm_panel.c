/* SPDX-License-Identifier: MIT */
/* src/cpu/avx2/mm_panel.c -- products of block formats with quantized columns (act.h), many columns at a time.
 *
 * Six panels of eight rows (mm_panel.h) are multiplied with one column at a time. The number of micro-operations
 * counts here, since no port is as busy as the front end. A product of 8 rows x 4 elements costs two (maddubs with
 * the weights in memory, and an addition) and a sixth of a broadcast; with weights in registers it would cost
 * another load for each group of columns. Panels are multiplied with all columns before the next are made. */
#include "cpu/avx2/avx2.h"
#include "cpu/avx2/lanes.h"
#include "cpu/avx2/mm_panel.h"
#include "cpu/kernel/inline.h"
#include "cpu/kernel/prefetch.h"
#include "quant/blocks.h"

#include <string.h>

enum { HALF = 8, PANELS = 6, ROWS = PANELS * HALF, COLS = 4, SLICE_32 = 8, SLICE_256 = 1 };

/* One block of a column. */
typedef struct column32 {
    uint8_t q[32];    /* q + 127 */
    int16_t shift[2]; /* -(zero + 127), twice */
    int16_t zero_sum[2];
    float d, d_sum;
} column32;
typedef struct column_words32 {
    int16_t q[32]; /* q - zero */
    float d;
} column_words32;
typedef struct group32 { /* one packing for all formats, so that neighbouring products share their input */
    column32 bytes[COLS];
    column_words32 words[COLS];
} group32;
typedef struct column256 {
    uint8_t q[256];   /* q + 127 */
    int16_t sum_q[8]; /* 8 times those of 32 */
    int16_t sum16[16], sum32[8];
    float d, zero; /* zero: -zero */
} column256;
typedef struct column_words256 {
    int16_t q[256];
    float d, zero;
} column_words256;

static void put32(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act32 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group32 *g = group;
        column32 *to = &g->bytes[col];
        for (int i = 0; i < 32; i++) to->q[i] = (uint8_t)(x->q[i] + 127);
        for (int i = 0; i < 32; i++) g->words[col].q[i] = (int16_t)(x->q[i] - x->zero);
        to->shift[0] = to->shift[1] = (int16_t)(-127 - x->zero);
        to->zero_sum[0] = x->zero;
        to->zero_sum[1] = x->sum;
        to->d = g->words[col].d = x->d;
        to->d_sum = x->d * (float)x->sum;
    }
}

static void put256(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    (void)col;
    for (const qn_act256 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        column256 *to = group;
        for (int i = 0; i < 256; i++) to->q[i] = (uint8_t)(x->q[i] + 127);
        memcpy(to->sum16, x->sum, sizeof to->sum16);
        for (int i = 0; i < 8; i++) {
            to->sum32[i] = (int16_t)(x->sum[2 * i] + x->sum[2 * i + 1]);
            to->sum_q[i] = (int16_t)(8 * (to->sum32[i] + 32 * x->zero));
        }
        to->d = x->d;
        to->zero = (float)-x->zero;
    }
}

static void put_words256(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    (void)col;
    for (const qn_act256 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        column_words256 *to = group;
        for (int i = 0; i < 256; i++) to->q[i] = x->q[i];
        to->d = x->d;
        to->zero = (float)-x->zero;
    }
}

static const qn_mm_pack pack32 = {COLS, sizeof(group32), put32}, pack256 = {1, sizeof(column256), put256},
                        pack_words256 = {1, sizeof(column_words256), put_words256};

/* ---- multiplying: n blocks of a column with n_panels panels; sums: [n_panels][HALF] ---------- */

static inline __m256i word_of(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm256_set1_epi32(w);
}
static inline __m256 real_of(const float *p) { return _mm256_broadcast_ss(p); }
static inline __m256i pairs_to_words(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }

/* Keeps the order of additions: compilers would multiply everything first, run out of registers and use memory. */
#define IN_ORDER(x) __asm__("" : "+x"(x))
#define EACH(r) \
    UNROLL \
    for (int r = 0; r < n_panels; r++)

/* t[r] += sum over n vectors of w q, in 16 bits; `w` is in panel 0; the next panel is w_stride vectors on */
INLINE void dot(__m256i *t, const __m256i *w, const size_t w_stride, const uint8_t *q, const int n, const int n_panels)
{
    UNROLL
    for (int i = 0; i < n; i++) {
        const __m256i x = word_of(q + 4 * i);
        EACH(r)
        {
            t[r] = _mm256_add_epi16(t[r], _mm256_maddubs_epi16(x, w[(size_t)r * w_stride + (size_t)i]));
            IN_ORDER(t[r]);
        }
    }
}

/* s[r] += the same over words, n vectors of two elements, in 32 bits; `first`: from 0 */
INLINE void dot_words(__m256i *s, const __m256i *w, const size_t w_stride, const int16_t *q, const int n,
                      const int n_panels, const bool first)
{
    UNROLL
    for (int i = 0; i < n; i++) {
        const __m256i x = word_of(q + 2 * i);
        EACH(r)
        {
            const __m256i p = _mm256_madd_epi16(x, w[(size_t)r * w_stride + (size_t)i]);
            s[r] = first && i == 0 ? p : _mm256_add_epi32(s[r], p);
            IN_ORDER(s[r]);
        }
    }
}

typedef struct family {
    int sub, with_min, off, plain;
} family;

#define VECTORS(type) (sizeof(type) / sizeof(__m256i))

INLINE void mac_pair(const void *panels, const void *column, size_t stride, int64_t n, float *sums, const family f,
                     const int n_panels)
{
    __m256 acc[PANELS];
    EACH(r) acc[r] = _mm256_load_ps(sums + r * HALF);
    for (const qn_panel32 *p = panels; n > 0; n--, p += n_panels, column = (const uint8_t *)column + stride) {
        const column32 *c = column;
        __m256i t[PANELS];
        const __m256i shift = word_of(c->shift);
        EACH(r) t[r] = f.plain ? _mm256_mullo_epi16(shift, p[r].start) : p[r].start;
        dot(t, p->w, VECTORS(qn_panel32), c->q, 8, n_panels);
        const __m256i zero_sum = word_of(c->zero_sum);
        const __m256 d = real_of(&c->d), d_sum = real_of(&c->d_sum);
        EACH(r)
        {
            __m256i s = pairs_to_words(t[r]);
            if (!f.plain) s = _mm256_add_epi32(s, _mm256_madd_epi16(zero_sum, p[r].pair));
            acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s), _mm256_mul_ps(p[r].d, d), acc[r]);
            if (f.with_min) acc[r] = _mm256_fmadd_ps(p[r].m, d_sum, acc[r]);
        }
    }
    EACH(r) _mm256_store_ps(sums + r * HALF, acc[r]);
}

INLINE void mac_words32(const void *panels, const void *column, size_t stride, int64_t n, float *sums, const family f,
                        const int n_panels)
{
    (void)f;
    __m256 acc[PANELS];
    EACH(r) acc[r] = _mm256_load_ps(sums + r * HALF);
    for (const qn_words32 *p = panels; n > 0; n--, p += n_panels, column = (const uint8_t *)column + stride) {
        const column_words32 *c = column;
        __m256i s[PANELS];
        dot_words(s, p->w, VECTORS(qn_words32), c->q, 16, n_panels, true);
        const __m256 d = real_of(&c->d);
        EACH(r) acc[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s[r]), _mm256_mul_ps(p[r].d, d), acc[r]);
    }
    EACH(r) _mm256_store_ps(sums + r * HALF, acc[r]);
}

/* acc + (t - zero z) d_w d */
INLINE __m256 whole(const float *sum, __m256i t, __m256 zero, __m256 z, __m256 d_w, __m256 d)
{
    const __m256 s = _mm256_fmadd_ps(zero, z, _mm256_cvtepi32_ps(t));
    return _mm256_fmadd_ps(s, _mm256_mul_ps(d_w, d), _mm256_load_ps(sum));
}

/* Sums over n pairs of sub-blocks of a panel's values for those. */
INLINE __m256i dot_pairs(const int16_t *sums, const __m256i *pairs, const int n)
{
    __m256i m = _mm256_madd_epi16(word_of(sums), pairs[0]);
    UNROLL
    for (int i = 1; i < n; i++) m = _mm256_add_epi32(m, _mm256_madd_epi16(word_of(sums + 2 * i), pairs[i]));
    return m;
}

/* acc - M dmin_w d */
INLINE __m256 less_minima(__m256 acc, const qn_panel256 *p, const int16_t *sums, const int n, __m256 d)
{
    const __m256i m = dot_pairs(sums, p->min, n);
    return _mm256_fnmadd_ps(_mm256_cvtepi32_ps(m), _mm256_mul_ps(p->m, d), acc);
}

INLINE void mac_super(const void *panels, const void *column, size_t stride, int64_t n, float *sums, const family f,
                      const int n_panels)
{
    for (const qn_panel256 *p = panels; n > 0; n--, p += n_panels, column = (const uint8_t *)column + stride) {
        const column256 *c = column;
        __m256i T[PANELS];
        EACH(r) T[r] = f.off ? dot_pairs(c->sum_q, p[r].pair, 4) : _mm256_setzero_si256();
        for (int j = 0; j < 256 / f.sub; j++) {
            __m256i t[PANELS];
            EACH(r) t[r] = p[r].start[j];
            dot(t, p->w + j * (f.sub / 4), VECTORS(qn_panel256), c->q + j * f.sub, f.sub / 4, n_panels);
            EACH(r) T[r] = _mm256_add_epi32(T[r], _mm256_madd_epi16(t[r], p[r].scale[j]));
        }
        const __m256 d = real_of(&c->d), zero = real_of(&c->zero);
        EACH(r)
        {
            float *sum = sums + r * HALF;
            __m256 acc = whole(sum, T[r], zero, p[r].z, p[r].d, d);
            if (f.with_min) acc = less_minima(acc, p + r, f.sub == 16 ? c->sum16 : c->sum32, 128 / f.sub, d);
            _mm256_store_ps(sum, acc);
        }
    }
}

INLINE void mac_exact(const void *panels, const void *column, size_t stride, int64_t n, float *sums, const family f,
                      const int n_panels)
{
    for (const qn_panel256 *p = panels; n > 0; n--, p += n_panels, column = (const uint8_t *)column + stride) {
        const column256 *c = column;
        __m256i T[PANELS];
        EACH(r) T[r] = p[r].start[0];
        for (int j = 0; j < 16; j++) {
            __m256i t[PANELS];
            const __m256i x = word_of(c->q + j * 16);
            EACH(r) t[r] = _mm256_maddubs_epi16(x, p[r].w[j * 4]);
            dot(t, p->w + j * 4 + 1, VECTORS(qn_panel256), c->q + j * 16 + 4, 3, n_panels);
            EACH(r) T[r] = _mm256_add_epi32(T[r], _mm256_madd_epi16(t[r], p[r].scale[j]));
        }
        const __m256 d = real_of(&c->d), zero = real_of(&c->zero);
        EACH(r)
        {
            float *sum = sums + r * HALF;
            __m256 acc = whole(sum, T[r], zero, p[r].z, p[r].d, d);
            if (f.with_min) acc = less_minima(acc, p + r, c->sum16, 8, d);
            _mm256_store_ps(sum, acc);
        }
    }
}

INLINE void mac_words256(const void *panels, const void *column, size_t stride, int64_t n, float *sums, const family f,
                         const int n_panels)
{
    (void)f;
    for (const qn_words256 *p = panels; n > 0; n--, p += n_panels, column = (const uint8_t *)column + stride) {
        const column_words256 *c = column;
        __m256i T[PANELS];
        EACH(r) T[r] = _mm256_setzero_si256();
        for (int j = 0; j < 8; j++)
            dot_words(T, p->w + j * 16, VECTORS(qn_words256), c->q + j * 32, 16, n_panels, false);
        const __m256 d = real_of(&c->d), zero = real_of(&c->zero);
        EACH(r) _mm256_store_ps(sums + r * HALF, whole(sums + r * HALF, T[r], zero, p[r].z, p[r].d, d));
    }
}

typedef void (*mac_fn)(const void *panels, const void *column, size_t stride, int64_t n, float *sums);

/* ---- the product ----------------------------------------------------------------------------- */

typedef struct format {
    int block, slice, cols;                                    /* elements; blocks of a slice; columns of a group */
    size_t block_bytes, panel_bytes, column_bytes, columns_at; /* the last: columns of a group */
    qn_panel_fn unpack;
    const mac_fn *macs; /* with 1 to PANELS panels */
} format;

enum {
    PANELS_BYTES = PANELS * SLICE_32 * sizeof(qn_words32),
    COLS_MAX = (QN_MM_TILE_BYTES - PANELS_BYTES) / (ROWS * 4) / COLS * COLS, /* columns whose sums fit the tile */
};
_Static_assert(sizeof(qn_panel32) <= sizeof(qn_words32) && PANELS_BYTES % 32 == 0, "panels of any kind");
_Static_assert(PANELS *SLICE_256 * sizeof(qn_words256) <= PANELS_BYTES, "panels of any kind");
_Static_assert(sizeof(qn_panel256) <= sizeof(qn_words256), "panels of any kind");

/* Unpacks n blocks from block b on; rows past the end repeat the last and are not stored. */
static void unpack_slice(const qn_mm_args *a, const format *f, int32_t first_row, int n_panels, int64_t b, int64_t n,
                         uint8_t *panels)
{
    for (int p = 0; p < n_panels; p++) {
        const uint8_t *row[HALF];
        for (int r = 0; r < HALF; r++) {
            const int32_t at = first_row + p * HALF + r;
            row[r] = a->w + (size_t)(at < a->rows ? at : a->rows - 1) * a->w_row_bytes;
        }
        for (int64_t i = 0; i < n; i++)
            f->unpack(row, (size_t)(b + i) * f->block_bytes, panels + (size_t)(i * n_panels + p) * f->panel_bytes);
    }
}

/* Clears the sums of a column. Not memset, which would be a call. */
static void clear(float *sums)
{
    for (int i = 0; i < ROWS; i += HALF) {
        __m256 none = _mm256_setzero_ps();
        IN_ORDER(none);
        _mm256_store_ps(sums + i, none);
    }
}

static void store(float *y, int32_t n_rows, const float *sums)
{
    if (n_rows < ROWS)
        memcpy(y, sums, (size_t)n_rows * sizeof *sums);
    else
        for (int i = 0; i < ROWS; i += HALF) _mm256_storeu_ps(y + i, _mm256_load_ps(sums + i));
}

/* Prefetches y: its columns are far apart, so that each store would wait for its line. */
static void fetch(const float *y, int32_t n_rows)
{
    for (int32_t r = 0; r < n_rows; r += 16) __builtin_prefetch(y + r, 1);
    __builtin_prefetch(y + n_rows - 1, 1);
}

static void row_panel(const qn_mm_args *a, const format *f, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    const int32_t n_rows = a->rows - first_row < ROWS ? a->rows - first_row : ROWS;
    const int64_t n_blocks = a->k / f->block, n_most = n_blocks < f->slice ? n_blocks : f->slice;
    const int n_panels = (n_rows + HALF - 1) / HALF;
    uint8_t *panels = (uint8_t *)a->tile;
    float *sums = (float *)(void *)(panels + PANELS_BYTES);

    for (int64_t b = 0; b < n_blocks || b == 0; b += f->slice) {
        const int64_t n = n_blocks - b < f->slice ? n_blocks - b : f->slice;
        const bool last = b + n == n_blocks;
        const uint8_t *next = last ? a->w + (size_t)(first_row + ROWS) * a->w_row_bytes
                                   : a->w + (size_t)first_row * a->w_row_bytes + (size_t)(b + n) * f->block_bytes;
        int32_t fetched = 0; /* rows of it */
        unpack_slice(a, f, first_row, n_panels, b, n, panels);
        const uint8_t *group =
            (const uint8_t *)a->x + (size_t)(first_col / f->cols) * a->x_row_bytes + (size_t)b * a->x_block_bytes;
        for (int32_t c = 0; c < n_cols; c++) {
            const int at = c % f->cols;
            float *sum = sums + (size_t)c * ROWS, *y = a->y + (first_col + c) * a->y_stride + first_row;
            if (b == 0) clear(sum);
            if (last) fetch(y, n_rows);
            for (; fetched * n_cols < ROWS * (c + 1); fetched++)
                prefetch_rows(next, a->w_row_bytes, (size_t)n_most * f->block_bytes, fetched, fetched + 1);
            f->macs[n_panels - 1](panels, group + f->columns_at + (size_t)at * f->column_bytes, a->x_block_bytes, n,
                                  sum);
            if (last) store(y, n_rows, sum);
            if (at == f->cols - 1) group += a->x_row_bytes;
        }
    }
}

static void mm(const qn_mm_args *a, const format *f)
{
    for (int64_t c = 0; c < a->cols; c += COLS_MAX) {
        const int64_t n_cols = a->cols - c < COLS_MAX ? a->cols - c : COLS_MAX;
        for (int64_t r = 0; r < a->rows; r += ROWS) row_panel(a, f, (int32_t)r, (int32_t)c, (int32_t)n_cols);
    }
}

#define MAC(name, mac, n_panels) \
    static void mac_##name##_##n_panels(const void *panels, const void *column, size_t stride, int64_t n, float *sums) \
    { \
        mac(panels, column, stride, n, sums, family_##name, n_panels); \
    }
#define PRODUCT(name, kind, panel, column, n_cols, columns_at, mac, ...) \
    static const family family_##name = {__VA_ARGS__}; \
    MAC(name, mac, 1) \
    MAC(name, mac, 2) \
    MAC(name, mac, 3) MAC(name, mac, 4) MAC(name, mac, 5) MAC(name, mac, 6) static void mm_##name(const qn_mm_args *a) \
    { \
        static const mac_fn macs[PANELS] = {mac_##name##_1, mac_##name##_2, mac_##name##_3, \
                                            mac_##name##_4, mac_##name##_5, mac_##name##_6}; \
        static const format f = {kind,          SLICE_##kind,   n_cols,     sizeof(qn_block_##name), \
                                 sizeof(panel), sizeof(column), columns_at, qn__avx2_panel_##name, \
                                 macs}; \
        mm(a, &f); \
    }
#define FORMAT(name, ...) PRODUCT(name, 32, qn_panel32, column32, COLS, 0, mac_pair, __VA_ARGS__)
QN_PANEL_FORMATS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) PRODUCT(name, 256, qn_panel256, column256, 1, 0, mac_super, __VA_ARGS__)
QN_PANEL_FORMATS_256(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) PRODUCT(name, 256, qn_panel256, column256, 1, 0, mac_exact, __VA_ARGS__)
QN_PANEL_FORMATS_EXACT(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) \
    PRODUCT(name, 32, qn_words32, column_words32, COLS, offsetof(group32, words), mac_words32, __VA_ARGS__)
QN_WORDS_FORMATS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) PRODUCT(name, 256, qn_words256, column_words256, 1, 0, mac_words256, __VA_ARGS__)
QN_WORDS_FORMATS_256(FORMAT)
#undef FORMAT

static void set(qn_mm *slot, qn_mm_fn fn, const qn_mm_pack *pack)
{
    slot->panel[0] = (qn_mm_panel){.fn = fn, .pack = pack, .from = 1, .rows = ROWS};
}

void qn__avx2_mm_panel_init(qn_kernels *kernels)
{
#define FORMAT(name, ...) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack32);
    QN_PANEL_FORMATS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack256);
    QN_PANEL_FORMATS_256(FORMAT)
    QN_PANEL_FORMATS_EXACT(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack32);
    QN_WORDS_FORMATS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, ...) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack_words256);
    QN_WORDS_FORMATS_256(FORMAT)
#undef FORMAT
}
