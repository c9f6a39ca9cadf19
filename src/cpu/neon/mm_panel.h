/* SPDX-License-Identifier: MIT */
/* src/cpu/neon/mm_panel.h -- products of block formats with quantized columns (act.h), eight rows with four columns
 * at a time, written once. Eight rows are unpacked to signed bytes, a slice of blocks at a time, and this panel is
 * multiplied with all columns before the next is made. A level's mm_panel.c defines FN(name) and
 *     RUN                        bytes of one column that are contiguous
 *     RV, CV                     the 32 sums of a tile are RV x CV vectors
 *     arrange(unit, v, rows)     16 bytes of each of rows 4v to 4v + 3 into a unit of eight rows (128 bytes)
 *     row_values(out, v, x)      values of rows 4v to 4v + 3 to where vectors of sums have their rows: out[RV][4]
 *     col_values(x, c)           values of four columns, as column vector c has them
 *     dot(s, w, q, n, wide)      s[RV][CV] += products over n units of rows and of columns; wide: see bytes.h
 *     tile_out(s, out)           the sums as out[column][row]
 * and then includes this. */
#include "cpu/neon/bytes.h"
#include "cpu/dispatch.h"

enum {
    ROWS = 8,
    COLS = 4,
    ROW_UNIT = ROWS * 16,
    COL_UNIT = COLS * 16,
    SLICE_32 = 16,
    SLICE_256 = 2, /* blocks of a panel: the panel and the blocks of a group fit an L1 of 32 KiB */
};

typedef struct panel32 {
    int8_t w[2 * ROW_UNIT];
    float d[RV][4], m[RV][4], z[RV][4]; /* z: sum of w */
} panel32;
typedef struct panel256 {
    int8_t w[16 * ROW_UNIT], min[ROW_UNIT];
    /* scale: integers; z: sum over j of scale_j (sum of w over j) */
    float scale[16][RV][4], d[RV][4], m[RV][4], z[RV][4];
} panel256;

/* One block of a group of columns. Sums over 16 elements (or 32 and zeros) are two bytes each, 128 high + low, so
 * that they can be multiplied like q. */
typedef struct group32 {
    int8_t q[2 * COL_UNIT];
    float d[COLS], zero[COLS], d_sum[COLS]; /* zero: -zero */
} group32;
typedef struct group256 {
    int8_t q[16 * COL_UNIT], high16[COL_UNIT], low16[COL_UNIT], high32[COL_UNIT], low32[COL_UNIT];
    float d[COLS], zero[COLS];
} group256;

/* ---- packing columns ------------------------------------------------------------------------- */

/* Element k of column `col` in units of four columns. */
static inline size_t place(int col, size_t k) { return k / RUN * (COLS * RUN) + (size_t)col * RUN + k % RUN; }

static inline void put_bytes(int8_t *units, int col, const int8_t *q, size_t n)
{
    for (size_t k = 0; k < n; k += RUN) memcpy(units + place(col, k), q + k, RUN);
}

static void put32(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act32 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group32 *g = group;
        put_bytes(g->q, col, x->q, sizeof x->q);
        g->d[col] = x->d;
        g->zero[col] = (float)-x->zero;
        g->d_sum[col] = x->d * (float)x->sum;
    }
}

static void put_sums(int8_t *high, int8_t *low, int col, int16x8_t a, int16x8_t b)
{
    const int16x8_t half = vdupq_n_s16(64), ha = vshrq_n_s16(vaddq_s16(a, half), 7),
                    hb = vshrq_n_s16(vaddq_s16(b, half), 7);
    const int8x16_t h = vcombine_s8(vmovn_s16(ha), vmovn_s16(hb));
    const int8x16_t l =
        vcombine_s8(vmovn_s16(vsubq_s16(a, vshlq_n_s16(ha, 7))), vmovn_s16(vsubq_s16(b, vshlq_n_s16(hb, 7))));
    int8_t bytes[2][16];
    vst1q_s8(bytes[0], h);
    vst1q_s8(bytes[1], l);
    put_bytes(high, col, bytes[0], 16);
    put_bytes(low, col, bytes[1], 16);
}

static void put256(void *group, size_t stride, int col, const void *blocks, int64_t n)
{
    for (const qn_act256 *x = blocks; n > 0; n--, x++, group = (uint8_t *)group + stride) {
        group256 *g = group;
        const int16x8_t a = vld1q_s16(x->sum), b = vld1q_s16(x->sum + 8);
        put_bytes(g->q, col, x->q, sizeof x->q);
        put_sums(g->high16, g->low16, col, a, b);
        put_sums(g->high32, g->low32, col, vpaddq_s16(a, b), vdupq_n_s16(0));
        g->d[col] = x->d;
        g->zero[col] = (float)-x->zero;
    }
}

static const qn_mm_pack pack32 = {COLS, sizeof(group32), put32}, pack256 = {COLS, sizeof(group256), put256};

/* ---- unpacking rows -------------------------------------------------------------------------- */

/* Four rows of a panel, `step` bytes apart. */
#define PANEL_32(name, wide, with_min) \
    static void panel_##name(const uint8_t *w, size_t step, void *panel, int v) \
    { \
        panel32 *p = panel; \
        int8x16_t x[2][4]; \
        int32x4_t sums[4]; \
        head32 h; \
        head_##name(w, step, &h); \
        UNROLL \
        for (int r = 0; r < 4; r++) { \
            int8x16_t u[2]; \
            w32_##name(w + (size_t)r * step, u); \
            x[0][r] = u[0]; \
            x[1][r] = u[1]; \
            sums[r] = wide ? sums_32(u) : sums_16(vaddq_s8(u[0], u[1])); \
        } \
        arrange(p->w, v, x[0]); \
        arrange(p->w + ROW_UNIT, v, x[1]); \
        row_values(p->d, v, h.d); \
        if (with_min) row_values(p->m, v, h.m); \
        row_values(p->z, v, vcvtq_f32_s32(sum_each(sums))); \
    }

#define PANEL_256(name, sub, wide, with_min) \
    static void panel_##name(const uint8_t *w, size_t step, void *panel, int v) \
    { \
        panel256 *p = panel; \
        int8x16_t scales[4], mins[4]; \
        int32x4_t scale[16], z = vdupq_n_s32(0); \
        head32 h; \
        head_##name(w, step, &h); \
        row_values(p->d, v, h.d); \
        if (with_min) row_values(p->m, v, h.m); \
        UNROLL \
        for (int r = 0; r < 4; r++) { \
            subs s; \
            subs_##name(w + (size_t)r * step, &s); \
            scales[r] = s.scale; \
            if (with_min) mins[r] = s.min; \
        } \
        if (with_min) arrange(p->min, v, mins); \
        rows_to_lanes(scales, scale); \
        for (int j = 0; j < 256 / sub; j++) row_values(p->scale[j], v, vreinterpretq_f32_s32(scale[j])); \
        for (int c = 0; c < 8 / STEP_##name; c++) UNROLL \
        for (int i = 0; i < STEP_##name; i++) { \
            const int j = c * STEP_##name + i; \
            int8x16_t x[2][4]; \
            int32x4_t sums[2][4]; \
            UNROLL \
            for (int r = 0; r < 4; r++) { \
                int8x16_t u[2]; \
                w32_##name(w + (size_t)r * step, c, i, u); \
                x[0][r] = u[0]; \
                x[1][r] = u[1]; \
                sums[0][r] = sub == 16 ? sums_16(u[0]) : wide ? sums_32(u) : sums_16(vaddq_s8(u[0], u[1])); \
                if (sub == 16) sums[1][r] = sums_16(u[1]); \
            } \
            arrange(p->w + 2 * j * ROW_UNIT, v, x[0]); \
            arrange(p->w + (2 * j + 1) * ROW_UNIT, v, x[1]); \
            z = vmlaq_s32(z, sum_each(sums[0]), scale[j * 32 / sub]); \
            if (sub == 16) z = vmlaq_s32(z, sum_each(sums[1]), scale[2 * j + 1]); \
        } \
        row_values(p->z, v, vcvtq_f32_s32(z)); \
    }

/* ---- multiplying: n blocks of a panel with those of a group of columns ----------------------- */

#define TILE(v, c) \
    UNROLL \
    for (int v = 0; v < RV; v++) UNROLL \
    for (int c = 0; c < CV; c++)

typedef float tile_sums[RV][CV][4]; /* of a tile */

INLINE void mac32(const panel32 *p, const uint8_t *group, size_t stride, int64_t n, tile_sums total, const int wide,
                  const int with_min)
{
    float32x4_t acc[RV][CV];
    TILE(v, c) acc[v][c] = vld1q_f32(total[v][c]);
    for (; n > 0; n--, p++, group += stride) {
        const group32 *g = (const void *)group;
        const float32x4_t col_d = vld1q_f32(g->d), col_zero = vld1q_f32(g->zero);
        int32x4_t s[RV][CV];
        TILE(v, c) s[v][c] = vdupq_n_s32(0);
        dot(s, p->w, g->q, 2, wide);
        TILE(v, c)
        { /* S stays below 2^24: exact as a float */
            const float32x4_t all = vfmaq_f32(vcvtq_f32_s32(s[v][c]), vld1q_f32(p->z[v]), col_values(col_zero, c));
            acc[v][c] = vfmaq_f32(acc[v][c], all, vmulq_f32(vld1q_f32(p->d[v]), col_values(col_d, c)));
        }
        if (with_min) {
            const float32x4_t d_sum = vld1q_f32(g->d_sum);
            TILE(v, c) acc[v][c] = vfmaq_f32(acc[v][c], vld1q_f32(p->m[v]), col_values(d_sum, c));
        }
    }
    TILE(v, c) vst1q_f32(total[v][c], acc[v][c]);
}

INLINE void mac256(const panel256 *p, const uint8_t *group, size_t stride, int64_t n, tile_sums total, const int sub,
                   const int wide, const int with_min)
{
    for (; n > 0; n--, p++, group += stride) {
        const group256 *g = (const void *)group;
        const int units = sub / 16;
        int32x4_t t[RV][CV], s[RV][CV];
        float32x4_t acc[RV][CV];
        TILE(v, c) t[v][c] = vdupq_n_s32(0);
        for (int j = 0; j < 16 / units; j++) {
            TILE(v, c) s[v][c] = vdupq_n_s32(0);
            dot(s, p->w + j * units * ROW_UNIT, g->q + j * units * COL_UNIT, units, wide);
            TILE(v, c) t[v][c] = vmlaq_s32(t[v][c], s[v][c], vreinterpretq_s32_f32(vld1q_f32(p->scale[j][v])));
        }
        const float32x4_t col_d = vld1q_f32(g->d), col_zero = vld1q_f32(g->zero);
        TILE(v, c)
        {
            const float32x4_t all = vfmaq_f32(vcvtq_f32_s32(t[v][c]), vld1q_f32(p->z[v]), col_values(col_zero, c));
            acc[v][c] = vfmaq_f32(vld1q_f32(total[v][c]), all, vmulq_f32(vld1q_f32(p->d[v]), col_values(col_d, c)));
        }
        if (with_min) {
            TILE(v, c) s[v][c] = vdupq_n_s32(0);
            dot(s, p->min, sub == 16 ? g->high16 : g->high32, 1, false);
            TILE(v, c) s[v][c] = vshlq_n_s32(s[v][c], 7);
            dot(s, p->min, sub == 16 ? g->low16 : g->low32, 1, false);
            TILE(v, c)
            acc[v][c] =
                vfmsq_f32(acc[v][c], vcvtq_f32_s32(s[v][c]), vmulq_f32(vld1q_f32(p->m[v]), col_values(col_d, c)));
        }
        TILE(v, c) vst1q_f32(total[v][c], acc[v][c]);
    }
}

/* ---- the product ----------------------------------------------------------------------------- */

typedef struct format {
    int block, slice; /* elements; blocks of a slice */
    size_t block_bytes, panel_bytes;
    void (*panel)(const uint8_t *w, size_t step, void *panel, int v);
    void (*mac)(const void *panels, const uint8_t *group, size_t stride, int64_t n, tile_sums total);
} format;

enum {
    BYTES_32 = SLICE_32 * sizeof(panel32),
    BYTES_256 = SLICE_256 * sizeof(panel256),
    PANELS_BYTES = ((BYTES_32 > BYTES_256 ? BYTES_32 : BYTES_256) + 63) / 64 * 64,
    GROUPS_MAX = (QN_MM_TILE_BYTES - PANELS_BYTES) / sizeof(tile_sums), /* groups whose sums fit the tile */
};
_Static_assert(PANELS_BYTES < QN_MM_TILE_BYTES / 8, "most of the tile is for sums");

/* Unpacks blocks [b, b + n) of eight rows from first_row on. Rows past the end repeat the last one and are not
 * stored. */
static void unpack_slice(const qn_mm_args *a, const format *f, int32_t first_row, int64_t b, int64_t n, uint8_t *panels)
{
    uint8_t few[4][sizeof(qn_block_Q6_K)];
    for (int64_t i = b; i < b + n; i++, panels += f->panel_bytes)
        for (int v = 0; v < 2; v++) {
            const int32_t row = first_row + 4 * v;
            const uint8_t *w = a->w + (size_t)i * f->block_bytes;
            if (row + 4 <= a->rows) {
                f->panel(w + (size_t)row * a->w_row_bytes, a->w_row_bytes, panels, v);
                continue;
            }
            for (int32_t r = 0; r < 4; r++)
                memcpy(few[r], w + (size_t)(row + r < a->rows ? row + r : a->rows - 1) * a->w_row_bytes,
                       f->block_bytes);
            f->panel(few[0], sizeof few[0], panels, v);
        }
}
_Static_assert(sizeof(qn_block_Q6_K) >= sizeof(qn_block_Q5_K) && sizeof(qn_block_Q6_K) >= sizeof(qn_block_IQ4_XS),
               "the largest block");

static void row_panel(const qn_mm_args *a, const format *f, int32_t first_row, int32_t first_col, int32_t n_cols)
{
    const int32_t n_rows = a->rows - first_row < ROWS ? a->rows - first_row : ROWS;
    const int64_t n_blocks = a->k / f->block, n_groups = (n_cols + COLS - 1) / COLS;
    uint8_t *panels = (uint8_t *)a->tile;
    tile_sums *total = (tile_sums *)(void *)(panels + PANELS_BYTES);

    memset(total, 0, (size_t)n_groups * sizeof *total);
    for (int64_t b = 0; b < n_blocks; b += f->slice) {
        const int64_t n = n_blocks - b < f->slice ? n_blocks - b : f->slice;
        unpack_slice(a, f, first_row, b, n, panels);
        const uint8_t *group =
            (const uint8_t *)a->x + (size_t)(first_col / COLS) * a->x_row_bytes + (size_t)b * a->x_block_bytes;
        for (int64_t i = 0; i < n_groups; i++, group += a->x_row_bytes)
            f->mac(panels, group, a->x_block_bytes, n, total[i]);
    }
    for (int32_t c = 0; c < n_cols; c += COLS) {
        float out[COLS][ROWS];
        tile_out(total[c / COLS], out);
        for (int32_t i = 0; i < COLS && c + i < n_cols; i++)
            memcpy(a->y + (first_col + c + i) * a->y_stride + first_row, out[i], (size_t)n_rows * sizeof(float));
    }
}

static void mm(const qn_mm_args *a, const format *f)
{
    const int64_t some = (int64_t)GROUPS_MAX * COLS;
    for (int64_t c = 0; c < a->cols; c += some)
        for (int64_t r = 0; r < a->rows; r += ROWS)
            row_panel(a, f, (int32_t)r, (int32_t)c, (int32_t)(a->cols - c < some ? a->cols - c : some));
}

#define MM(name, kind) \
    static void mm_##name(const qn_mm_args *a) \
    { \
        static const format f = {kind,         SLICE_##kind, sizeof(qn_block_##name), sizeof(panel##kind), \
                                 panel_##name, mac_##name}; \
        mm(a, &f); \
    }
#define FORMAT(name, sub, with_min, lo, hi) \
    PANEL_32(name, WIDE(lo, hi), with_min) \
    static void mac_##name(const void *panels, const uint8_t *group, size_t stride, int64_t n, tile_sums total) \
    { \
        mac32(panels, group, stride, n, total, WIDE(lo, hi), with_min); \
    } \
    MM(name, 32)
QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) \
    PANEL_256(name, sub, WIDE(lo, hi), with_min) \
    static void mac_##name(const void *panels, const uint8_t *group, size_t stride, int64_t n, tile_sums total) \
    { \
        mac256(panels, group, stride, n, total, sub, WIDE(lo, hi), with_min); \
    } \
    MM(name, 256)
QN_INTS_256(FORMAT)
#undef FORMAT

static void set(qn_mm *slot, qn_mm_fn fn, const qn_mm_pack *pack)
{
    slot->panel[0].fn = fn;
    slot->panel[0].pack = pack;
    slot->panel[0].from = 2;
}

void FN(mm_panel_init)(qn_kernels *kernels)
{
#define FORMAT(name, sub, with_min, lo, hi) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack32);
    QN_INTS_32(FORMAT)
#undef FORMAT
#define FORMAT(name, sub, with_min, lo, hi) set(&kernels->mm[QN_DTYPE_##name], mm_##name, &pack256);
    QN_INTS_256(FORMAT)
#undef FORMAT
}
