/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/mm_bf16.c -- products of BF16 weights with columns split into two bfloat16 (act.h), by tiles.
 *
 * A tile holds 16 rows of weights as they lie, and is multiplied with a group of 8 columns, both parts of each side
 * by side. Rows come in pairs of tiles, which two groups share. On a shared Sapphire Rapids, compared with avx512:
 * 256 columns 2.0 to 2.3 times as fast, 8 columns 2.8 to 3.7 times; one column from cache 30 to 40 GB/s a thread (13
 * to 18). F16 weights have to be split too; their chains have another order, which one column can compute without
 * tiles (mm_f16.c). */
#include "cpu/amx/amx.h"
#include "cpu/avx512/avx512.h"
#include "cpu/avx512/panel_drive.h"
#include "cpu/kernel/inline.h"

enum {
    TILE = 1024, /* bytes */
    COLS = 8,
    ROWS = PANEL_ROWS, /* of a pair of tiles */
    GROUPS = 2,        /* that a pair is multiplied with at a time */
    SLICE = 8,         /* blocks of 32 elements that many columns are multiplied with at a time */
    /* With few columns, rows are read as streams (kernel/gemv_streams.h), prefetched PREFETCH_BYTES ahead. One
     * column of 2048, GB/s from memory, with a stride of 1, 2, 4, 7, 8 rows: 17, 21.5, 23.8, 24.2, 22.6. */
    MAX_ROW_STRIDE = 7,
    PREFETCH_BYTES = 1024,
};

static void put(void *to, size_t stride, int col, const void *blocks, int64_t n)
{
    uint32_t(*group)[COLS][2] = to; /* a pair of elements: all columns, two parts each */
    for (const qn_act_bf16 *x = blocks; n > 0; n--, x++, group = (void *)((uint8_t *)group + stride))
        for (int i = 0; i < 16; i++) memcpy(group[i][col], x->x[i], sizeof x->x[i]);
}

static const qn_mm_pack pack = {COLS, TILE, put};

void qn__amx_split_act_bf16(qn_act_bf16 *y, const float *x, int64_t n)
{
    const __m512i pair = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    for (; n > 0; n -= 32, x += 32, y++) {
        const lanes v0 = l_load_n(x, n < 16 ? (int)n : 16, l_set(0)), v1 = l_load_n(x + 16,
                                                                                    n < 16   ? 0
                                                                                    : n < 32 ? (int)n - 16
                                                                                             : 16,
                                                                                    l_set(0));
        const __m512i high = (__m512i)_mm512_cvtne2ps_pbh(v1, v0);
        const __m512i h0 = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(high)), 16);
        const __m512i h1 = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(high, 1)), 16);
        const __m512i low =
            (__m512i)_mm512_cvtne2ps_pbh(l_sub(v1, _mm512_castsi512_ps(h1)), l_sub(v0, _mm512_castsi512_ps(h0)));
        _mm512_storeu_si512(y->x[0], _mm512_permutex2var_epi32(high, pair, low));
        _mm512_storeu_si512(y->x[8],
                            _mm512_permutex2var_epi32(high, _mm512_add_epi32(pair, _mm512_set1_epi32(8)), low));
    }
}

/* ---- a pair of tiles with groups ------------------------------------------------------------- */

/* Where pairs of tiles lie: bytes from pair to pair, from a pair's first tile to its second, from row to row. */
typedef struct pairs {
    const uint8_t *w;
    size_t step, second, row_bytes;
} pairs;

static pairs copied(const uint8_t *w) { return (pairs){w, 2 * TILE, TILE, 64}; }

/* Where columns lie: gemv takes one of them, the panel takes groups. */
typedef struct cols {
    const uint8_t *x;
    size_t row_bytes, block_bytes, group_bytes;
} cols;

/* The next block of a group comes from L2, and a tile load that waits stalls those behind it: prompts are 1.5 times
 * as fast with this. */
INLINE void prefetch_group(const uint8_t *x)
{
    UNROLL
    for (int i = 0; i < TILE / 64; i++) _mm_prefetch((const char *)x + 64 * i, _MM_HINT_T0);
}

INLINE void prefetch_tile_rows(const uint8_t *row, size_t row_bytes)
{
    UNROLL
    for (int i = 0; i < ROWS / 2; i++) _mm_prefetch((const char *)row + (size_t)i * row_bytes, _MM_HINT_T0);
}

#define SUM(i) (sums + (i)*16 * (row_bytes / 4))
#define GROUP(g, x_tile, sum0, sum1) \
    do { \
        QN_TILE_LOAD(x_tile, x + g * group_bytes, row_bytes); \
        if (row_bytes == 64) prefetch_group(x + g * group_bytes + block_bytes); \
        QN_TILE_DOT_BF16(sum0, 4, x_tile); \
        QN_TILE_DOT_BF16(sum1, 5, x_tile); \
    } while (0)

/* Multiplies n pairs of tiles with one or two groups. sums: 32 rows of row_bytes for each group; they start at 0 if
 * `first`. from_memory: prefetch rows. */
INLINE void mac(const pairs *from, const cols *at, int64_t n, float *sums, bool first, bool from_memory,
                const int n_groups)
{
    const size_t row_bytes = at->row_bytes, group_bytes = at->group_bytes, block_bytes = at->block_bytes;
    const uint8_t *x = at->x, *w = from->w;
    if (first) {
        QN_TILE_ZERO(0);
        QN_TILE_ZERO(1);
        if (n_groups > 1) QN_TILE_ZERO(2);
        if (n_groups > 1) QN_TILE_ZERO(3);
    } else {
        QN_TILE_LOAD(0, SUM(0), row_bytes);
        QN_TILE_LOAD(1, SUM(1), row_bytes);
        if (n_groups > 1) QN_TILE_LOAD(2, SUM(2), row_bytes);
        if (n_groups > 1) QN_TILE_LOAD(3, SUM(3), row_bytes);
    }
    for (; n > 0; n--, w += from->step, x += block_bytes) {
        QN_TILE_LOAD(4, w, from->row_bytes);
        if (from_memory) prefetch_tile_rows(w + PREFETCH_BYTES, from->row_bytes);
        QN_TILE_LOAD(5, w + from->second, from->row_bytes);
        GROUP(0, 6, 0, 1);
        if (n_groups > 1) GROUP(1, 7, 2, 3);
        if (from_memory) prefetch_tile_rows(w + from->second + PREFETCH_BYTES, from->row_bytes);
    }
    QN_TILE_STORE(0, SUM(0), row_bytes);
    QN_TILE_STORE(1, SUM(1), row_bytes);
    if (n_groups > 1) QN_TILE_STORE(2, SUM(2), row_bytes);
    if (n_groups > 1) QN_TILE_STORE(3, SUM(3), row_bytes);
}

static void mac1(const pairs *from, const cols *at, int64_t n, float *sums, bool first, bool from_memory)
{
    mac(from, at, n, sums, first, from_memory, 1);
}

static void mac2(const pairs *from, const cols *at, int64_t n, float *sums, bool first, bool from_memory)
{
    mac(from, at, n, sums, first, from_memory, 2);
}

/* Copies elements [at, at + n) of 32 rows to pairs of tiles, padded with zeros; past the end the last row repeats. */
static void copy(const qn_mm_args *a, int32_t first_row, int32_t row_stride, int64_t at, int64_t n, uint8_t *to)
{
    for (int32_t r = first_row; r < first_row + ROWS * row_stride; r += row_stride, to += 64) {
        const uint8_t *w = a->w + (size_t)(r < a->rows ? r : a->rows - 1) * a->w_row_bytes + 2 * at;
        uint8_t *line = to;
        int64_t left = n;
        for (; left >= 32; left -= 32, w += 64, line += 2 * TILE) _mm512_store_si512(line, _mm512_loadu_si512(w));
        if (left > 0) _mm512_store_si512(line, _mm512_maskz_loadu_epi16(_bzhi_u32(~0u, (unsigned)left), w));
    }
}

/* ---- the product ----------------------------------------------------------------------------- */

enum {
    PAIRS_BYTES = SLICE * 2 * TILE,
    SUMS_FLOATS = ROWS * 2 * COLS, /* of a group */
    GROUPS_MAX = (QN_MM_TILE_BYTES - PAIRS_BYTES) / (SUMS_FLOATS * 4) / GROUPS * GROUPS,
    STREAMS = 32, /* from this many columns on, weights are copied and shared */
};

/* y[c][r] = the sum of both parts, for rows first_row, first_row + row_stride, ... */
static void finish(const qn_mm_args *a, int32_t first_row, int32_t row_stride, int32_t first_col, int n_groups,
                   const float *sums)
{
    float y[ROWS][2 * COLS] __attribute__((aligned(64))), both[2 * COLS];
    const int32_t left = (a->rows - first_row + row_stride - 1) / row_stride, n_rows = left < ROWS ? left : ROWS;
    for (int g = 0; g < n_groups; g += 2, first_col += 2 * COLS) {
        const int n_cols = a->cols - first_col < 2 * COLS ? a->cols - first_col : 2 * COLS;
        float *to = a->y + first_col * a->y_stride + first_row;
        for (int h = 0; h < 2 && g + h < n_groups; h++)
            for (int r = 0; r < ROWS; r += 2, sums += 4 * COLS) {
                lanes p1, p2;
                l_part(l_load(sums), l_load(sums + 2 * COLS), &p1, &p2);
                l_store(both, l_add(p1, p2));
                memcpy(y[r] + h * COLS, both, COLS * 4);
                memcpy(y[r + 1] + h * COLS, both + COLS, COLS * 4);
            }
        if (row_stride == 1) qn__avx512_transpose_f32(to, a->y_stride, y[0], 2 * COLS, n_rows, n_cols);
        for (int c = 0; c < n_cols && row_stride > 1; c++)
            for (int r = 0; r < n_rows; r++) to[c * a->y_stride + r * row_stride] = y[r][c];
    }
}

/* The same for one column: two numbers a row. */
static void finish_gemv(const qn_mm_args *a, int32_t first_row, int32_t row_stride, const float *sums, float *y)
{
    for (int32_t r = first_row, i = 0; i < ROWS && r < a->rows; i++, r += row_stride)
        y[r] = sums[2 * i] + sums[2 * i + 1];
}

/* Many columns: 32 rows are multiplied with all of them before the next 32, which are prefetched between groups. */
static void some_rows(const qn_mm_args *a, const void *none, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    uint8_t *tiles = (uint8_t *)a->tile;
    float *sums = (float *)(void *)(tiles + PAIRS_BYTES);
    const int n_groups = (n_cols + COLS - 1) / COLS;
    const pairs from = copied(tiles);
    (void)none;

    for (int64_t b = 0; 32 * b < a->k; b += SLICE) {
        const int64_t left = a->k - 32 * b, n = left < 32 * SLICE ? left : 32 * SLICE;
        const uint8_t *next = n == left ? a->w + (size_t)(first_row + ROWS) * a->w_row_bytes
                                        : a->w + (size_t)first_row * a->w_row_bytes + 2 * (size_t)(32 * b + n);
        cols at = {(const uint8_t *)a->x + (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)b * a->x_block_bytes,
                   64, a->x_block_bytes, a->x_row_bytes};
        copy(a, first_row, 1, 32 * b, n, tiles);
        for (int g = 0; g < n_groups; g += GROUPS, at.x += GROUPS * a->x_row_bytes) {
            const int some = n_groups - g < GROUPS ? n_groups - g : GROUPS;
            panel_prefetch_rows(a, next, 64 * SLICE, ROWS * g / n_groups, ROWS * (g + some) / n_groups);
            (some > 1 ? mac2 : mac1)(&from, &at, (n + 31) / 32, sums + g * SUMS_FLOATS, b == 0, false);
        }
    }
    finish(a, first_row, 1, first_col, n_groups, sums);
}

/* Multiplies 32 rows with few groups, blocks [b, b + n). */
static void groups(const pairs *from, const cols *columns, int n_groups, int64_t b, int64_t n, float *sums,
                   bool from_memory)
{
    cols at = *columns;
    at.x += (size_t)b * at.block_bytes;
    for (int g = 0; g < n_groups; g += GROUPS, at.x += GROUPS * at.group_bytes)
        (n_groups - g > 1 ? mac2 : mac1)(from, &at, n, sums + g * ROWS * (int64_t)(at.row_bytes / 4), b == 0,
                                         from_memory && g == 0);
}

/* Rows r, r + row_stride, ... with few columns, or with one whose results go to y. Tiles are loaded from the weights
 * as they lie; the rest of a row, and rows past the end, are copied. */
static void skinny_rows(const qn_mm_args *a, const cols *columns, int n_groups, float *y, int32_t r, int32_t row_stride)
{
    uint8_t *tiles = (uint8_t *)a->tile;
    float *sums = (float *)(void *)(tiles + PAIRS_BYTES);
    const size_t row_bytes = (size_t)row_stride * a->w_row_bytes;
    const pairs rows = {a->w + (size_t)r * a->w_row_bytes, 64, 16 * row_bytes, row_bytes}, rest = copied(tiles);
    const int64_t whole = r + (ROWS - 1) * row_stride < a->rows ? a->k / 32 : 0;
    if (whole > 0) groups(&rows, columns, n_groups, 0, whole, sums, true);
    for (int64_t b = whole; 32 * b < a->k; b += SLICE) {
        const int64_t left = a->k - 32 * b, n = left < 32 * SLICE ? left : 32 * SLICE;
        copy(a, r, row_stride, 32 * b, n, tiles);
        groups(&rest, columns, n_groups, b, (n + 31) / 32, sums, false);
    }
    if (y)
        finish_gemv(a, r, row_stride, sums, y);
    else
        finish(a, r, row_stride, 0, n_groups, sums);
}

static void stream(const qn_mm_args *a, const cols *columns, int n_groups, float *y)
{
    int32_t row_stride;
    for (int32_t r = 0; r < a->rows; r += row_stride * ROWS) {
        row_stride = qn__row_stride(a, (a->rows - r) / ROWS, MAX_ROW_STRIDE);
        for (int32_t i = 0; i < row_stride; i++) skinny_rows(a, columns, n_groups, y, r + i, row_stride);
    }
}

static void panel(const qn_mm_args *a)
{
    if (a->cols >= STREAMS || a->k == 0) {
        qn__amx_mm(a, NULL, some_rows, ROWS, GROUPS_MAX * COLS);
        return;
    }
    const cols at = {a->x, 64, a->x_block_bytes, a->x_row_bytes};
    qn__tile_config(16);
    stream(a, &at, (a->cols + COLS - 1) / COLS, NULL);
    QN_TILE_RELEASE();
}

static void gemv(const qn_mm_args *a)
{
    if (a->k == 0) {
        qn__amx_mm(a, NULL, some_rows, ROWS, COLS);
        return;
    }
    qn__tile_config_narrow(8);
    for (int32_t c = 0; c < a->cols; c++) {
        const cols at = {(const uint8_t *)a->x + (size_t)c * a->x_row_bytes, 8, sizeof(qn_act_bf16), 0};
        stream(a, &at, 1, a->y + c * a->y_stride);
    }
    QN_TILE_RELEASE();
}

void qn__amx_mm_bf16_init(qn_kernels *kernels)
{
    kernels->split_act_bf16 = qn__amx_split_act_bf16;
    kernels->mm[QN_DTYPE_BF16] = (qn_mm){.act = QN_ACT_bf16,
                                         .gemv = gemv,
                                         .panel = {{panel, &pack, .from = 2, .rows = ROWS, .streams = STREAMS}}};
}
