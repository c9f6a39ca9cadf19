/* SPDX-License-Identifier: MIT */
/* src/cpu/amx/mm_panel.c -- products of super-blocks with many quantized columns (act.h), by tiles.
 *
 * A product of tiles, 16 columns x 16 rows x 64 bytes, takes 16 cycles where VNNI takes 128. Loading a tile takes 8
 * to 12 more, storing a tile of sums 12 to 15, and none of that overlaps on a core whose other hyperthread is busy.
 * So as much as possible is one sum: T of a whole super-block, of bytes scale * w, or where that does not fit a
 * byte, of two planes: scale * w = w[0] + 2^shift w[1]. Vector instructions convert sums to floats while tiles
 * multiply the next block. Two threads of a shared Sapphire Rapids, compared with avx512's panels: prompts of Q4_K_M
 * 1.3 times as fast, of Q3_K_M 2.2 times. mm_panel_32.c has blocks of 32. */
#include "cpu/amx/amx.h"
#include "cpu/avx512/mm_panel.h"
#include "cpu/avx512/panel_drive.h"
#include "cpu/kernel/inline.h"
#include "quant/blocks.h"

enum { ROWS = PANEL_ROWS, LANES = 16, COLS = 16 };
/* Columns from which on this is faster than avx512's panels, which are unpacked in a third of the time; of two threads,
 * tokens/s of prompts of 12, 24, 32 and 64 by those: 0.8, 0.8, 1.1, 1.2. */
enum { FROM = 29, FROM_EXACT = 17 };

/* One super-block of a group of columns. */
typedef struct group {
    int8_t q[4][COLS][64];     /* 64 elements of each column, then the next 64 */
    float d[COLS], zero[COLS]; /* zero: -zero */
    int16_t sum16[COLS][16], sum32[COLS][8];
} group;

static void put(void *to, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act256 *x = blocks; n > 0; n--, x++, to = (uint8_t *)to + stride) {
        group *g = to;
        for (int i = 0; i < 4; i++) memcpy(g->q[i][col], x->q + 64 * i, 64);
        for (int i = 0; i < 16; i++) g->sum16[col][i] = x->sum[i];
        for (int i = 0; i < 8; i++) g->sum32[col][i] = (int16_t)(x->sum[2 * i] + x->sum[2 * i + 1]);
        g->d[col] = x->d;
        g->zero[col] = (float)-x->zero;
    }
}

static const qn_mm_pack pack = {COLS, sizeof(group), put};

static inline __m512i word_of(const void *p)
{
    int32_t w;
    memcpy(&w, p, 4);
    return _mm512_set1_epi32(w);
}

/* ---- super-blocks: two panels with a group --------------------------------------------------- */

/* A super-block of sixteen rows, in two planes. */
typedef struct planes {
    __m512i w[2][64];
    __m512i min[8];
    __m512 z, d, m;
} planes;

typedef int32_t sums[4][COLS][LANES]; /* for the first panel, then for the second: one or two planes each */

/* A product of two panels with a group, and where its sums go. y: [COLS][ROWS] */
typedef struct unit {
    const void *panels;
    const group *g;
    float *y;
    sums *s;
} unit;

/* Multiplies elements [64 i, 64 i + 64) of one or two panels; w1, w3: second planes or NULL. */
INLINE void dot(const group *g, const int i, const __m512i *w0, const __m512i *w1, const __m512i *w2, const __m512i *w3,
                const int is_unsigned)
{
#define DOT(c, b) \
    do { \
        if (i == 0) QN_TILE_ZERO(c); \
        if (is_unsigned) \
            QN_TILE_DOT_U(c, 4, b); \
        else \
            QN_TILE_DOT(c, 4, b); \
    } while (0)
    QN_TILE_LOAD(4, g->q[i], 64);
    QN_TILE_LOAD(5, w0 + 16 * i, 64);
    QN_TILE_LOAD(6, w2 + 16 * i, 64);
    if (w1) QN_TILE_LOAD(7, w1 + 16 * i, 64);
    DOT(0, 5);
    if (w3) QN_TILE_LOAD(5, w3 + 16 * i, 64);
    DOT(2, 6);
    if (w1) DOT(1, 7);
    if (w3) DOT(3, 5);
#undef DOT
}

INLINE void leave(sums *s, const int n_planes)
{
    QN_TILE_STORE(0, (*s)[0], 64);
    if (n_planes > 1) QN_TILE_STORE(1, (*s)[1], 64);
    QN_TILE_STORE(2, (*s)[2], 64);
    if (n_planes > 1) QN_TILE_STORE(3, (*s)[3], 64);
}

/* Values of a panel that all columns share. */
typedef struct scales {
    __m512 z, d, m;
    __m512i min[8];
} scales;

/* From T of both panels to y, for one column. */
INLINE void add(const __m512i t[2], const scales w[2], const group *g, int c, float *y, const int n_min)
{
    const __m512 d = _mm512_set1_ps(g->d[c]), zero = _mm512_set1_ps(g->zero[c]);
    __m512 acc[2];
    __m512i m[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    UNROLL
    for (int h = 0; h < 2; h++) {
        const __m512 s = _mm512_fmadd_ps(zero, w[h].z, _mm512_cvtepi32_ps(t[h]));
        acc[h] = _mm512_fmadd_ps(s, _mm512_mul_ps(w[h].d, d), _mm512_load_ps(y + h * LANES));
    }
    if (n_min > 0) {
        const uint8_t *pairs = n_min == 8 ? (const uint8_t *)g->sum16[c] : (const uint8_t *)g->sum32[c];
        UNROLL
        for (int i = 0; i < n_min; i++) {
            const __m512i x = word_of(pairs + 4 * i);
            UNROLL
            for (int h = 0; h < 2; h++) m[h] = _mm512_dpwssd_epi32(m[h], w[h].min[i], x);
        }
        UNROLL
        for (int h = 0; h < 2; h++)
            acc[h] = _mm512_fnmadd_ps(_mm512_cvtepi32_ps(m[h]), _mm512_mul_ps(w[h].m, d), acc[h]);
    }
    UNROLL
    for (int h = 0; h < 2; h++) _mm512_store_ps(y + h * LANES, acc[h]);
}

INLINE __m512i planes_t(const sums *s, int h, int c, const int shift)
{
    const __m512i high = _mm512_slli_epi32(_mm512_load_si512((*s)[2 * h + 1][c]), (unsigned)shift);
    return _mm512_add_epi32(high, _mm512_load_si512((*s)[2 * h][c]));
}

INLINE __m512i panels_t(const sums *s, int h, int c, const int sign)
{
    const __m512i sum = _mm512_load_si512((*s)[2 * h][c]);
    return sign > 0 ? sum : _mm512_sub_epi32(_mm512_setzero_si512(), sum);
}

/* One column of a group. */
INLINE void fetch_column(const group *g, int c, const int n_min)
{
    UNROLL
    for (int i = 0; i < 4; i++) __builtin_prefetch(g->q[i][c]);
    if (n_min == 8 && c % 2 == 0) __builtin_prefetch(g->sum16[c]);
    if (n_min == 4 && c % 4 == 0) __builtin_prefetch(g->sum32[c]);
}

/* Defines step_NAME(unit or NULL, previous unit or NULL): tiles multiply the unit while vectors finish the previous
 * one. */
#define STEP(name, type, W0, W1, n_planes, is_unsigned, made, arg, n_min) \
    static void step_##name(const unit *u, const unit *before, int n_cols) \
    { \
        scales w[2]; \
        const type *p = u ? u->panels : before->panels; \
        UNROLL \
        for (int h = 0; h < 2; h++) { \
            w[h].z = p[h].z; \
            w[h].d = p[h].d; \
            if (n_min > 0) w[h].m = p[h].m; \
            UNROLL \
            for (int i = 0; i < n_min; i++) w[h].min[i] = p[h].min[i]; \
        } \
        UNROLL \
        for (int i = 0; i < 4; i++) { \
            if (u) dot(u->g, i, p[0].W0, W1(p[0]), p[1].W0, W1(p[1]), is_unsigned); \
            for (int c = 4 * i; before && c < 4 * i + 4 && c < n_cols; c++) { \
                __m512i t[2]; \
                if (u) fetch_column(u->g + 1, c, n_min); \
                UNROLL \
                for (int h = 0; h < 2; h++) t[h] = made##_t((const sums *)before->s, h, c, arg); \
                add(t, w, before->g, c, before->y + c * ROWS, n_min); \
            } \
        } \
        if (u) leave(u->s, n_planes); \
    }
#define SECOND(p) (p).w[1]
#define NONE(p)   NULL

/* ---- planes ---------------------------------------------------------------------------------- */

INLINE __m512i scale_of(const qn_panel256 *p, int j) { return _mm512_cvtps_epi32(p->scale[j]); }

/* w has at most 5 bits, scales 6 bits without a sign: planes of w times three bits of the scale; products stay below
 * 256 in both bytes of a word. */
static void planes_unsigned(const qn_panel256 *p, planes *to)
{
    for (int j = 0; j < 8; j++) {
        const __m512i scale = scale_of(p, j), both = _mm512_or_si512(scale, _mm512_slli_epi32(scale, 16));
        const __m512i low = _mm512_and_si512(both, _mm512_set1_epi16(7)), high = _mm512_srli_epi16(both, 3);
        for (int i = 8 * j; i < 8 * j + 8; i++) {
            to->w[0][i] = _mm512_mullo_epi16(p->w[i], low);
            to->w[1][i] = _mm512_mullo_epi16(p->w[i], high);
        }
    }
}

/* |scale * w| is at most 2^12: planes of its lowest seven bits and of the bits above. */
static void planes_signed(const qn_panel256 *p, planes *to, const int sub)
{
    const __m512i low8 = _mm512_set1_epi16(0xff), low7 = _mm512_set1_epi8(127);
    for (int j = 0; j < 256 / sub; j++) {
        const __m512i scale = scale_of(p, j),
                      both = _mm512_mask_mov_epi16(scale, 0xaaaaaaaa, _mm512_slli_epi32(scale, 16));
        for (int i = sub / 4 * j; i < sub / 4 * (j + 1); i++) {
            const __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(p->w[i], 8), 8),
                          odd = _mm512_srai_epi16(p->w[i], 8);
            const __m512i x = _mm512_mullo_epi16(even, both), y = _mm512_mullo_epi16(odd, both);
            to->w[0][i] = _mm512_and_si512(_mm512_ternarylogic_epi32(low8, x, _mm512_slli_epi16(y, 8), 0xca), low7);
            to->w[1][i] = _mm512_ternarylogic_epi32(low8, _mm512_srai_epi16(x, 7), _mm512_slli_epi16(y, 1), 0xca);
        }
    }
}

/* ---- the product ----------------------------------------------------------------------------- */

typedef struct format {
    size_t block_bytes;
    void (*unpack)(const uint8_t *const *row, size_t at, void *panels, int half);
    void (*step)(const unit *u, const unit *before, int n_cols);
} format;

enum {
    PANELS_BYTES = 2 * (sizeof(planes) > sizeof(qn_panel256) ? sizeof(planes) : sizeof(qn_panel256)),
    COLS_MAX = (QN_MM_TILE_BYTES - PANELS_BYTES) / (ROWS * 4) / COLS * COLS, /* columns whose sums fit the tile */
};

static void row_panel(const qn_mm_args *a, const void *which, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    const format *f = which;
    const int64_t n_blocks = a->k / 256;
    float *y = (float *)(void *)((uint8_t *)a->tile + PANELS_BYTES);
    sums s[2] __attribute__((aligned(64)));
    const uint8_t *row[2][LANES];
    for (int h = 0; h < 2; h++) panel_rows(a, first_row + h * LANES, row[h]);
    panel_clear(y, (int64_t)n_cols * ROWS);
    /* Once for all groups: configuring tiles for a last one that is not full takes as long as multiplying the columns
     * that it lacks, whatever they hold. */
    if (n_cols < COLS) qn__tile_config(n_cols);

    for (int64_t b = 0; b < n_blocks; b++) {
        const uint8_t *next = b + 1 == n_blocks
                                  ? a->w + (size_t)(first_row + ROWS) * a->w_row_bytes
                                  : a->w + (size_t)first_row * a->w_row_bytes + (size_t)(b + 1) * f->block_bytes;
        const uint8_t *x =
            (const uint8_t *)a->x + (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)b * a->x_block_bytes;
        unit pair[2];
        int n = 0; /* units started */
        for (int h = 0; h < 2; h++) f->unpack(row[h], (size_t)b * f->block_bytes, a->tile, h);
        for (int32_t c = 0; c < n_cols; c += COLS, x += a->x_row_bytes) {
            const int some = n_cols - c < COLS ? n_cols - c : COLS;
            panel_prefetch_rows(a, next, f->block_bytes, ROWS * c / n_cols, ROWS * (c + some) / n_cols);
            pair[n & 1] = (unit){a->tile, (const void *)x, y + (size_t)c * ROWS, &s[n & 1]};
            f->step(&pair[n & 1], n > 0 ? &pair[~n & 1] : NULL, COLS);
            n++;
        }
        f->step(NULL, &pair[~n & 1], n_cols % COLS ? n_cols % COLS : COLS);
    }
    if (n_cols < COLS) qn__tile_config(COLS);
    for (int32_t c = 0; c < n_cols; c += 8) {
        const int some = n_cols - c < 8 ? n_cols - c : 8;
        if (c == 0) panel_fetch_y(a, first_row, first_col, some);
        if (c + 8 < n_cols) panel_fetch_y(a, first_row, first_col + c + 8, n_cols - c - 8 < 8 ? n_cols - c - 8 : 8);
        panel_store(a, first_row, first_col + c, some, y + (size_t)c * ROWS);
    }
}

static void mm(const qn_mm_args *a, const format *f) { qn__amx_mm(a, f, row_panel, ROWS, COLS_MAX); }

#define PLANES(name, make, is_unsigned, shift, n_min) \
    static void unpack_##name(const uint8_t *const *row, size_t at, void *panels, int half) \
    { \
        qn_panel256 p; \
        planes *to = (planes *)panels + half; \
        qn__avx512_panel_##name(row, at, &p); \
        make; \
        for (int i = 0; i < n_min; i++) to->min[i] = p.min[i]; \
        to->z = p.z; \
        to->d = p.d; \
        if (n_min > 0) to->m = p.m; \
    } \
    STEP(name, planes, w[0], SECOND, 2, is_unsigned, planes, shift, n_min) \
    static const format format_##name = {sizeof(qn_block_##name), unpack_##name, step_##name}; \
    static void mm_##name(const qn_mm_args *a) { mm(a, &format_##name); }
/* clang-format off */
PLANES(Q4_K, planes_unsigned(&p, to), 1, 3, 4)
PLANES(Q5_K, planes_unsigned(&p, to), 1, 3, 4)
PLANES(Q6_K, planes_signed(&p, to, 16), 0, 7, 0)
PLANES(IQ4_XS, planes_signed(&p, to, 32), 0, 7, 0)
/* clang-format on */

#define EXACT(name, sign, n_min) \
    static void unpack_##name(const uint8_t *const *row, size_t at, void *panels, int half) \
    { \
        qn__avx512_panel_##name(row, at, (qn_panel256 *)panels + half); \
    } \
    STEP(name, qn_panel256, w, NONE, 1, 0, panels, sign, n_min) \
    static const format format_##name = {sizeof(qn_block_##name), unpack_##name, step_##name}; \
    static void mm_##name(const qn_mm_args *a) { mm(a, &format_##name); }
EXACT(Q2_K, 1, 8)
EXACT(Q3_K, -1, 0)

void qn__amx_mm_panel_init(qn_kernels *kernels)
{
#define SET(name, least) \
    kernels->mm[QN_DTYPE_##name].panel[1] = (qn_mm_panel){.fn = mm_##name, .pack = &pack, .from = least};
#define FORMAT(name, sub, with_min) SET(name, FROM)
    QN_PANEL_FORMATS_256(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min) SET(name, FROM_EXACT)
    QN_PANEL_FORMATS_EXACT(FORMAT)
#undef FORMAT
#undef SET
}
