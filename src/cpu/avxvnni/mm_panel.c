/* SPDX-License-Identifier: MIT */
/* src/cpu/avxvnni/mm_panel.c -- products of block formats with quantized columns (act.h): eight weight rows in the
 * lanes of a register.
 *
 * Eight rows are unpacked to bytes and transposed: vector i of a panel's w holds elements 4i to 4i+3 of every row,
 * so that four broadcast activations are multiplied with eight rows, and no sum crosses lanes. Two panels are
 * multiplied with four columns at a time: 6 loads for 8 products; one panel's 5 loads for 4 products are 10 % slower
 * (with 6 columns too). Panels are multiplied with all columns before the next are made. Weights are unsigned, u = w
 * + off, off = -(lowest w). */
#include "cpu/avxvnni/avxvnni.h"
#include "cpu/avx2/lanes.h"
#include "cpu/kernel/inline.h"
#include "cpu/kernel/block_ints.h"

#include <string.h>

enum { HALVES = 2, HALF = 8, ROWS = HALVES * HALF, COLS = 4, SLICE_32 = 16, SLICE_256 = 2 };

typedef struct panel32 {
    __m256i w[8];
    __m256i pair; /* 16-bit factors for a column's (zero, sum): -sum u, -off */
    __m256 d, m;
} panel32;
typedef struct panel256 {
    __m256i w[64];
    __m256i scale[16], min[8]; /* of sub-blocks 2i and 2i + 1, 16 bits each */
    __m256 z, d, m;            /* z: sum over j of scale_j (sum w over j) */
} panel256;

/* One block of a group of columns. */
typedef struct group32 {
    int8_t q[COLS][32];
    int16_t zero_sum[COLS][2];
    float d[COLS], d_sum[COLS];
} group32;
typedef struct group256 {
    int8_t q[COLS][256];
    int16_t sum_zero[COLS][16][2], sum16[COLS][16], sum32[COLS][8];
    float d[COLS], zero[COLS]; /* zero: -zero */
} group256;

static void put32(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act32 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group32 *g = group;
        memcpy(g->q[col], x->q, sizeof x->q);
        g->zero_sum[col][0] = x->zero;
        g->zero_sum[col][1] = x->sum;
        g->d[col] = x->d;
        g->d_sum[col] = x->d * (float)x->sum;
    }
}

static void put256(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act256 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group256 *g = group;
        memcpy(g->q[col], x->q, sizeof x->q);
        for (int i = 0; i < 16; i++) {
            g->sum_zero[col][i][0] = g->sum16[col][i] = x->sum[i];
            g->sum_zero[col][i][1] = (int16_t)x->zero;
        }
        for (int i = 0; i < 8; i++) g->sum32[col][i] = (int16_t)(x->sum[2 * i] + x->sum[2 * i + 1]);
        g->d[col] = x->d;
        g->zero[col] = (float)-x->zero;
    }
}

static const qn_mm_pack pack32 = {COLS, sizeof(group32), put32}, pack256 = {COLS, sizeof(group256), put256};

/* ---- unpacking ------------------------------------------------------------------------------- */

static inline __m128i load16(const void *p) { return _mm_loadu_si128(p); }

/* 32 bytes of each row, `stride` bytes between rows, transposed: lane r of out[i] is dword i of row r. */
static inline void transpose(const int8_t *rows, size_t stride, __m256i out[8])
{
    for (int h = 0; h < 2; h++) {
        __m256i v[4];
        for (size_t i = 0; i < 4; i++)
            v[i] = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(rows + i * stride + h * 16)),
                                           load16(rows + (i + 4) * stride + h * 16), 1);
        const __m256i ab0 = _mm256_unpacklo_epi32(v[0], v[1]), ab1 = _mm256_unpackhi_epi32(v[0], v[1]);
        const __m256i cd0 = _mm256_unpacklo_epi32(v[2], v[3]), cd1 = _mm256_unpackhi_epi32(v[2], v[3]);
        out[h * 4 + 0] = _mm256_unpacklo_epi64(ab0, cd0);
        out[h * 4 + 1] = _mm256_unpackhi_epi64(ab0, cd0);
        out[h * 4 + 2] = _mm256_unpacklo_epi64(ab1, cd1);
        out[h * 4 + 3] = _mm256_unpackhi_epi64(ab1, cd1);
    }
}

static inline __m256i pairs_to_words(__m256i x) { return _mm256_madd_epi16(x, _mm256_set1_epi16(1)); }

static inline __m256i sum_w(const __m256i *w, int n)
{
    __m256i s = _mm256_setzero_si256();
    for (int i = 0; i < n; i++) s = _mm256_add_epi16(s, _mm256_maddubs_epi16(_mm256_set1_epi8(1), w[i]));
    return pairs_to_words(s);
}

static inline void add_off(__m256i *w, int n, int off)
{
    if (off)
        for (int i = 0; i < n; i++) w[i] = _mm256_add_epi8(w[i], _mm256_set1_epi8((char)off));
}

#define LANES(out, type, set, expr) \
    do { \
        type lane_[HALF]; \
        for (int r = 0; r < HALF; r++) lane_[r] = (expr); \
        (out) = set((const void *)lane_); \
    } while (0)

static void panel_32(const qn_ints *rows, int off, int sub, int with_min, void *panel)
{
    panel32 *p = panel;
    (void)sub;
    transpose(rows->w, sizeof *rows, p->w);
    const __m256i minus =
        _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_add_epi32(sum_w(p->w, 8), _mm256_set1_epi32(32 * off)));
    p->pair = _mm256_blend_epi16(minus, _mm256_set1_epi16((short)-off), 0xaa);
    add_off(p->w, 8, off);
    LANES(p->d, float, _mm256_loadu_ps, rows[r].d);
    if (with_min) LANES(p->m, float, _mm256_loadu_ps, rows[r].m);
}

static void panel_256(const qn_ints *rows, int off, int sub, int with_min, void *panel)
{
    panel256 *p = panel;
    __m256i z = _mm256_setzero_si256();
    for (int i = 0; i < 8; i++) transpose(rows->w + i * 32, sizeof *rows, p->w + i * 8);
    for (int j = 0; j < 256 / sub; j++) {
        __m256i scale;
        LANES(scale, int32_t, _mm256_loadu_si256, rows[r].scale[j]);
        z = _mm256_add_epi32(z, _mm256_mullo_epi32(scale, sum_w(p->w + j * sub / 4, sub / 4)));
        p->scale[j] = scale;
    }
    add_off(p->w, 64, off);
    p->z = _mm256_cvtepi32_ps(z);
    LANES(p->d, float, _mm256_loadu_ps, rows[r].d);
    if (!with_min) return;
    LANES(p->m, float, _mm256_loadu_ps, rows[r].m);
    for (int i = 0; i < 128 / sub; i++)
        LANES(p->min[i], int32_t, _mm256_loadu_si256, rows[r].min[2 * i] | rows[r].min[2 * i + 1] << 16);
}

/* ---- multiplying: n blocks of each panel with n_cols columns of a group; sums: [COLS][ROWS] --- */

#define FOR_SUMS(c, h, n_cols) \
    UNROLL \
    for (int c = 0; c < n_cols; c++) UNROLL \
    for (int h = 0; h < HALVES; h++)

static inline __m256i word_of(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm256_set1_epi32(w);
}

/* s[c][h] += w[h][i] q[c][4i ...] over n vectors */
INLINE void dot(__m256i (*s)[HALVES], const __m256i *const w[HALVES], const int8_t *q, size_t q_stride, const int n,
                const int n_cols)
{
    UNROLL
    for (int i = 0; i < n; i++) {
        const __m256i u[HALVES] = {w[0][i], w[HALVES - 1][i]};
        UNROLL
        for (int c = 0; c < n_cols; c++) {
            const __m256i x = word_of(q + (size_t)c * q_stride + 4 * i);
            UNROLL
            for (int h = 0; h < HALVES; h++) s[c][h] = _mm256_dpbusd_avx_epi32(s[c][h], u[h], x);
        }
    }
}

typedef struct family {
    int sub, with_min, off;
} family;

INLINE void mac32(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const family f,
                  const int n_cols)
{
    const panel32 *p = panels;
    for (; n > 0; n--, p++, group = (const uint8_t *)group + stride) {
        const group32 *g = group;
        const panel32 *const half[HALVES] = {p, p + SLICE_32};
        __m256i s[COLS][HALVES];
        FOR_SUMS(c, h, n_cols) s[c][h] = _mm256_madd_epi16(half[h]->pair, word_of(g->zero_sum[c]));
        const __m256i *const w[HALVES] = {half[0]->w, half[HALVES - 1]->w};
        dot(s, w, g->q[0], sizeof g->q[0], 8, n_cols);
        FOR_SUMS(c, h, n_cols)
        {
            float *sum = sums + c * ROWS + h * HALF;
            __m256 acc = _mm256_load_ps(sum);
            acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(s[c][h]), _mm256_mul_ps(half[h]->d, _mm256_set1_ps(g->d[c])), acc);
            if (f.with_min) acc = _mm256_fmadd_ps(half[h]->m, _mm256_set1_ps(g->d_sum[c]), acc);
            _mm256_store_ps(sum, acc);
        }
    }
}

/* The start of integer sums of sub-block j: -off * sum of q. */
INLINE __m256i start(const group256 *g, int c, int j, const family f)
{
    /* multiplied with (sum, zero) of 16 elements */
    const __m256i off = _mm256_set1_epi32((int)((uint32_t)(-f.off * 16) << 16 | (uint16_t)-f.off));
    if (f.off == 0) return _mm256_setzero_si256();
    if (f.sub == 16) return _mm256_madd_epi16(off, word_of(g->sum_zero[c][j]));
    const __m256i first = _mm256_madd_epi16(off, word_of(g->sum_zero[c][2 * j]));
    return _mm256_add_epi32(first, _mm256_madd_epi16(off, word_of(g->sum_zero[c][2 * j + 1])));
}

INLINE void mac256(const void *panels, const void *group, size_t stride, int64_t n, float *sums, const family f,
                   const int n_cols)
{
    const panel256 *p = panels;
    for (; n > 0; n--, p++, group = (const uint8_t *)group + stride) {
        const group256 *g = group;
        const panel256 *const half[HALVES] = {p, p + SLICE_256};
        __m256i t[COLS][HALVES];
        FOR_SUMS(c, h, n_cols) t[c][h] = _mm256_setzero_si256();
        for (int j = 0; j < 256 / f.sub; j++) {
            __m256i s[COLS][HALVES];
            const int at = j * f.sub / 4;
            UNROLL
            for (int c = 0; c < n_cols; c++) UNROLL
            for (int h = 0; h < HALVES; h++) s[c][h] = start(g, c, j, f);
            const __m256i *const w[HALVES] = {half[0]->w + at, half[HALVES - 1]->w + at};
            dot(s, w, g->q[0] + j * f.sub, sizeof g->q[0], f.sub / 4, n_cols);
            FOR_SUMS(c, h, n_cols) t[c][h] = _mm256_add_epi32(t[c][h], _mm256_mullo_epi32(s[c][h], half[h]->scale[j]));
        }
        FOR_SUMS(c, h, n_cols)
        {
            float *sum = sums + c * ROWS + h * HALF;
            const __m256 d = _mm256_set1_ps(g->d[c]), zero = _mm256_set1_ps(g->zero[c]);
            const __m256 s = _mm256_fmadd_ps(zero, half[h]->z, _mm256_cvtepi32_ps(t[c][h]));
            __m256 acc = _mm256_fmadd_ps(s, _mm256_mul_ps(half[h]->d, d), _mm256_load_ps(sum));
            if (f.with_min) {
                const uint8_t *pairs = f.sub == 16 ? (const uint8_t *)g->sum16[c] : (const uint8_t *)g->sum32[c];
                __m256i m = _mm256_setzero_si256();
                for (int i = 0; i < 128 / f.sub; i++)
                    m = _mm256_add_epi32(m, _mm256_madd_epi16(half[h]->min[i], word_of(pairs + 4 * i)));
                acc = _mm256_fnmadd_ps(_mm256_cvtepi32_ps(m), _mm256_mul_ps(half[h]->m, d), acc);
            }
            _mm256_store_ps(sum, acc);
        }
    }
}

typedef void (*mac_fn)(const void *panels, const void *group, size_t stride, int64_t n, float *sums);

#define MAC(kind, name, n_cols) \
    static void mac_##name##_##n_cols(const void *panels, const void *group, size_t stride, int64_t n, float *sums) \
    { \
        mac##kind(panels, group, stride, n, sums, family_##name, n_cols); \
    }
#define MACS(kind, name, sub, with_min, lo, hi) \
    static const family family_##name = {sub, with_min, -(lo)}; \
    MAC(kind, name, 1) \
    MAC(kind, name, 2) \
    MAC(kind, name, 3) \
    MAC(kind, name, 4) \
    static const mac_fn macs_##name[COLS] = {mac_##name##_1, mac_##name##_2, mac_##name##_3, mac_##name##_4};

/* ---- the product ----------------------------------------------------------------------------- */

typedef struct format {
    int block, slice; /* elements; blocks of a slice */
    size_t block_bytes, panel_bytes;
    qn_ints_fn ints;
    void (*panel)(const qn_ints *rows, int off, int sub, int with_min, void *panel);
    const family *family;
    const mac_fn *macs;
} format;

enum {
    PANELS_BYTES = HALVES * SLICE_256 * sizeof(panel256),
    COLS_MAX = (QN_MM_TILE_BYTES - PANELS_BYTES) / (ROWS * 4) / COLS * COLS, /* columns whose sums fit the tile */
};
_Static_assert(HALVES *SLICE_32 * sizeof(panel32) <= PANELS_BYTES && PANELS_BYTES % 32 == 0, "panels of either kind");

/* Unpacks n blocks from block b on; rows past the end repeat the last and are not stored. */
static void unpack_slice(const qn_mm_args *a, const format *f, int32_t first_row, int64_t b, int64_t n, uint8_t *panels)
{
    qn_ints rows[HALF];
    for (int h = 0; h < HALVES; h++)
        for (int64_t i = 0; i < n; i++) {
            for (int r = 0; r < HALF; r++) {
                const int32_t row = first_row + h * HALF + r, at = row < a->rows ? row : a->rows - 1;
                f->ints(a->w + (size_t)at * a->w_row_bytes + (size_t)(b + i) * f->block_bytes, &rows[r]);
            }
            f->panel(rows, f->family->off, f->family->sub, f->family->with_min,
                     panels + (size_t)(h * f->slice + i) * f->panel_bytes);
        }
}

static void row_panel(const qn_mm_args *a, const format *f, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    const int32_t n_rows = a->rows - first_row < ROWS ? a->rows - first_row : ROWS;
    const int64_t n_blocks = a->k / f->block;
    uint8_t *panels = (uint8_t *)a->tile;
    float *sums = (float *)(void *)(panels + PANELS_BYTES);

    memset(sums, 0, (size_t)n_cols * ROWS * sizeof *sums);
    for (int64_t b = 0; b < n_blocks; b += f->slice) {
        const int64_t n = n_blocks - b < f->slice ? n_blocks - b : f->slice;
        unpack_slice(a, f, first_row, b, n, panels);
        const uint8_t *group =
            (const uint8_t *)a->x + (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)b * a->x_block_bytes;
        for (int32_t c = 0; c < n_cols; c += COLS, group += a->x_row_bytes)
            f->macs[n_cols - c < COLS ? n_cols - c - 1 : COLS - 1](panels, group, a->x_block_bytes, n,
                                                                   sums + (size_t)c * ROWS);
    }
    for (int32_t c = 0; c < n_cols; c++)
        memcpy(a->y + (first_col + c) * a->y_stride + first_row, sums + (size_t)c * ROWS,
               (size_t)n_rows * sizeof *sums);
}

static void mm(const qn_mm_args *a, const format *f)
{
    for (int64_t c = 0; c < a->cols; c += COLS_MAX) {
        const int64_t n_cols = a->cols - c < COLS_MAX ? a->cols - c : COLS_MAX;
        for (int64_t r = 0; r < a->rows; r += ROWS) row_panel(a, f, (int32_t)r, (int32_t)c, (int32_t)n_cols);
    }
}

#define PRODUCT(name, kind, sub, with_min, lo, hi) \
    MACS(kind, name, sub, with_min, lo, hi) \
    static void mm_##name(const qn_mm_args *a) \
    { \
        static const format f = { \
            kind,           SLICE_##kind, sizeof(qn_block_##name), sizeof(panel##kind), qn__ints_##name, panel_##kind, \
            &family_##name, macs_##name, \
        }; \
        mm(a, &f); \
    }
#define FORMAT(name, sub, with_min, lo, hi) PRODUCT(name, 32, sub, with_min, lo, hi)
QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) PRODUCT(name, 256, sub, with_min, lo, hi)
QN_INTS_256(FORMAT)
#undef FORMAT

static void set(qn_mm *slot, qn_mm_fn fn, const qn_mm_pack *pack)
{
    slot->panel[0] = (qn_mm_panel){.fn = fn, .pack = pack, .from = 1};
}

void qn__avxvnni_mm_panel_init(qn_kernels *kernels)
{
#define FORMAT(name, sub, with_min, lo, hi) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack32);
    QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack256);
    QN_INTS_256(FORMAT)
#undef FORMAT
}
