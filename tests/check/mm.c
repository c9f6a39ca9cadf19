/* SPDX-License-Identifier: MIT */
/* tests/check/mm.c -- the product of every weight format: near the exact one, the reference level's bits, and the same
 * bits whatever other rows and columns are computed in the call, one by one or packed in groups. Weights are random
 * bits, so every code and sub-scale occurs. */
#include "check.h"

#include "cpu/kernel/block_ints.h"

#include <stddef.h>

enum { SLOT_W, SLOT_X, SLOT_Y, SLOT_TILE, SLOT_SOURCE, SLOT_GROUPS };

typedef enum mm_way { WAY_gemv, WAY_streams, WAY_panel, WAY_COUNT = WAY_panel + QN_MM_PANELS } mm_way;
static const char *const ways[] = {"", ", streams", ", panel", ", second panel"};

typedef struct product {
    qn_dtype dtype;
    qn_act_kind act;
    mm_way way; /* the kernel that is used; `one` where the level has no such */
    int64_t k;
    int32_t rows, cols;
    size_t w_bytes, x_bytes; /* of a row, of a column; columns lie a little apart */
    uint8_t *w, *x;
    float *y, *tile, *source; /* source: the columns as floats [cols, k] */
    int64_t y_stride;
    bool magnitudes; /* columns differ, from 2^-110 to 2^114 */
} product;

/* ---- weights --------------------------------------------------------------------------------- */

/* ordinary: random, but for scales */
typedef enum bits { BITS_random, BITS_ordinary, BITS_00, BITS_ff, BITS_80, BITS_7f, BITS_COUNT } bits;

/* Where the binary16 scale of a format with a kernel of its own lies, and its second scale, that of minima. */
typedef struct scales {
    int d, m;
} scales;
static const scales scales_of[QN_DTYPE_COUNT] = {
#define AT(name, field)         (int)offsetof(qn_block_##name, field)
#define SCALE(name)             [QN_DTYPE_##name] = {AT(name, d), AT(name, d)}
#define SCALE_MIN(name, second) [QN_DTYPE_##name] = {AT(name, d), AT(name, second)}
    SCALE(Q4_0),           SCALE_MIN(Q4_1, m), SCALE(Q5_0),           SCALE_MIN(Q5_1, m),    SCALE(Q8_0), SCALE(IQ4_NL),
    SCALE_MIN(Q2_K, dmin), SCALE(Q3_K),        SCALE_MIN(Q4_K, dmin), SCALE_MIN(Q5_K, dmin), SCALE(Q6_K), SCALE(IQ4_XS),
#undef AT
#undef SCALE
#undef SCALE_MIN
};

/* They become 1 when the bits are not random. */
static void ordinary_scales(qn_dtype dtype, uint8_t *block)
{
    const uint16_t one = 0x3c00;
    if (dtype == QN_DTYPE_MXFP4) {
        block[0] = 127;
        return;
    }
    memcpy(block + scales_of[dtype].d, &one, 2);
    memcpy(block + scales_of[dtype].m, &one, 2);
}

/* One block of random bits whose values are finite and of ordinary size. */
static void random_block(check *t, qn_dtype dtype, uint8_t *block)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    float v[256];
    for (;;) {
        double max = 0;
        for (int i = 0; i < info->block_bytes; i++) block[i] = (uint8_t)check_random(t);
        qn__quant_get(dtype)->unpack(block, v, info->block_elems);
        for (int i = 0; i < info->block_elems; i++) max = fmax(max, isfinite(v[i]) ? fabs((double)v[i]) : INFINITY);
        if (max < 1e6) return;
    }
}

static void fill_weights(check *t, const product *p, bits kind)
{
    static const uint8_t fixed[] = {[BITS_00] = 0, [BITS_ff] = 0xff, [BITS_80] = 0x80, [BITS_7f] = 0x7f};
    const qn_dtype_info *info = qn_dtype_get(p->dtype);
    for (size_t at = 0; at < p->w_bytes * (size_t)p->rows; at += (size_t)info->block_bytes) {
        if (kind == BITS_random || kind == BITS_ordinary) {
            random_block(t, p->dtype, p->w + at);
            if (kind == BITS_ordinary) ordinary_scales(p->dtype, p->w + at);
            /* one of those that avx512 adds to exponents, both ends among them */
            if (kind == BITS_ordinary && p->dtype == QN_DTYPE_MXFP4) p->w[at] = (uint8_t)(110 + check_random(t) % 24);
        } else {
            memset(p->w + at, fixed[kind], (size_t)info->block_bytes);
            ordinary_scales(p->dtype, p->w + at);
        }
    }
}

/* How much larger than the value itself the terms may be that it is made of: the largest minimum, where blocks have
 * them. */
static double minimum(const product *p, const uint8_t *row, int64_t i)
{
    const scales at = scales_of[p->dtype];
    if (at.m == at.d) return 0;
    const qn_dtype_info *info = qn_dtype_get(p->dtype);
    uint16_t m;
    memcpy(&m, row + i / info->block_elems * info->block_bytes + at.m, 2);
    return fabs((double)qn__f16_to_f32(m)) * (info->block_elems == 32 ? 1 : p->dtype == QN_DTYPE_Q2_K ? 15 : 63);
}

/* ---- columns --------------------------------------------------------------------------------- */

static size_t column_bytes(qn_act_kind act, int64_t k)
{
    return (size_t)(qn__act_blocks(act, k) * qn__act_block_bytes(act));
}

static void prepare(check *t, product *p, check_fill_kind fill)
{
    check_fill(t, p->source, p->k * p->cols, fill);
    for (int64_t i = 0; p->magnitudes && i < p->k * p->cols; i++)
        p->source[i] = ldexpf(p->source[i], (int)(i / p->k % 17) * 14 - 110);
    for (int32_t c = 0; c < p->cols; c++)
        qn__act_put(t->kernels, p->act, p->x + (size_t)c * p->x_bytes, p->source + c * p->k, p->k);
}

/* Element i of column c, and in *size how large the numbers are that it is the difference of. */
static double activation(const product *p, int32_t c, int64_t i, double *size)
{
    const uint8_t *x = p->x + (size_t)c * p->x_bytes;
    double v;
    if (p->act == QN_ACT_f32) {
        v = ((const float *)(const void *)x)[i];
        *size = fabs(v);
    } else if (p->act == QN_ACT_bf16) {
        const uint16_t(*both)[2] = ((const qn_act_bf16 *)(const void *)x)[i / 32].x[i % 32 / 2];
        v = (double)qn__bf16_to_f32(both[0][i % 2]) + (double)qn__bf16_to_f32(both[1][i % 2]);
        *size = fabs(v);
    } else if (p->act == QN_ACT_512) {
        const qn_act512 *a = (const qn_act512 *)(const void *)x + i / 512;
        v = (double)a->x[0][i % 512] + (double)a->x[1][i % 512];
        *size = fabs(v);
    } else if (p->act == QN_ACT_32) {
        const qn_act32 *a = (const qn_act32 *)(const void *)x + i / 32;
        v = (double)a->d * (a->q[i % 32] - a->zero);
        *size = fabs(v);
    } else {
        const qn_act256 *a = (const qn_act256 *)(const void *)x + i / 256;
        v = (double)a->d * (a->q[i % 256] - a->zero);
        *size = a->d *
                (fabs((double)a->q[i % 256]) + fabs((double)a->zero)); /* the zero comes off at the end of the block */
    }
    return v;
}

static void setup(check *t, product *p, check_place place)
{
    const qn_dtype_info *info = qn_dtype_get(p->dtype);
    p->act = t->kernels->mm[p->dtype].act;
    p->w_bytes = (size_t)(p->k / info->block_elems * info->block_bytes);
    p->x_bytes = column_bytes(p->act, p->k) + 4;
    p->y_stride = p->rows + 3;
    p->w = check_buffer(t, SLOT_W, p->w_bytes * (size_t)p->rows, 1, place);
    p->x = check_buffer(t, SLOT_X, p->x_bytes * (size_t)p->cols - (p->cols ? 4 : 0), 4, place);
    p->y = check_floats(t, SLOT_Y, p->cols ? (p->cols - 1) * p->y_stride + p->rows : 0, place);
    p->tile = check_buffer(t, SLOT_TILE, QN_MM_TILE_BYTES, 64, place);
    p->source = check_floats(t, SLOT_SOURCE, p->k * p->cols, CHECK_AT_START);
}

/* Columns [c, c + cols) in groups; sets x and its strides. */
static void put_in_groups(check *t, const product *p, const qn_mm_pack *pack, int32_t c, int32_t cols, qn_mm_args *args)
{
    const int64_t blocks = qn__act_blocks(p->act, p->k);
    args->x_row_bytes = pack->block_bytes;
    args->x_block_bytes = (size_t)((cols + pack->cols - 1) / pack->cols) * pack->block_bytes;
    uint8_t *groups = check_buffer(t, SLOT_GROUPS, (size_t)blocks * args->x_block_bytes, 64, CHECK_AT_END);
    for (int32_t i = 0; i < cols && blocks > 0; i++)
        pack->put(groups + (size_t)(i / pack->cols) * pack->block_bytes, args->x_block_bytes, i % pack->cols,
                  p->x + (size_t)(c + i) * p->x_bytes, blocks);
    args->x = groups;
}

static qn_mm_fn kernel_of(const qn_mm *mm, mm_way way)
{
    return way >= WAY_panel ? mm->panel[way - WAY_panel].fn : way == WAY_streams ? mm->gemv_streams : mm->gemv;
}

static const qn_mm_pack *pack_of(const qn_mm *mm, mm_way way)
{
    return way >= WAY_panel ? mm->panel[way - WAY_panel].pack : NULL;
}

/* Rows [r, r + rows) and columns [c, c + cols) into y, `stride` apart. */
static void multiply(check *t, const qn_kernels *kernels, const product *p, int32_t r, int32_t rows, int32_t c,
                     int32_t cols, float *y, int64_t stride)
{
    const qn_mm *mm = &kernels->mm[p->dtype];
    qn_mm_args args = {
        .w = p->w + (size_t)r * p->w_bytes,
        .w_row_bytes = p->w_bytes,
        .x = p->x + (size_t)c * p->x_bytes,
        .x_row_bytes = p->x_bytes,
        .y = y,
        .y_stride = stride,
        .k = p->k,
        .rows = rows,
        .cols = cols,
        .tile = p->tile,
    };
    const qn_mm_fn fn = kernel_of(mm, p->way);
    if (fn && pack_of(mm, p->way)) put_in_groups(t, p, pack_of(mm, p->way), c, cols, &args);
    (fn ? fn : mm->gemv)(&args);
}

/* ---- columns of bfloat16 --------------------------------------------------------------------- */

static float or_0(float x) { return fabsf(x) < FLT_MIN ? copysignf(0, x) : x; }

/* What act.h defines, read once more. */
static float by_definition_512(const product *p, int32_t r, int32_t c)
{
    const qn_act512 *x = (const qn_act512 *)(const void *)(p->x + (size_t)c * p->x_bytes);
    const uint8_t *row = p->w + (size_t)r * p->w_bytes;
    float y = 0;
    for (int64_t at = 0; at < p->k; at += 512, x++) {
        float w[512] = {0}, part[2][512];
        qn__quant_get(p->dtype)->unpack(row + 2 * at, w, p->k - at < 512 ? p->k - at : 512);
        for (int i = 0; i < 512; i++) {
            uint32_t u;
            memcpy(&u, &w[i], 4);
            u &= 0xffff0000u;
            memcpy(&part[0][i], &u, 4);
            part[1][i] = w[i] - part[0][i];
        }
        for (int lane = 0; lane < 16; lane++)
            for (int p3 = 0; p3 < 3; p3++) {
                const float *w_part = part[p3 == 1], *x_part = x->x[p3 == 2];
                float chain[2] = {0, 0};
                for (int i = lane; i < 512; i += 16)
                    chain[i / 16 % 2] = or_0(fmaf(w_part[i], or_0(x_part[i]), chain[i / 16 % 2]));
                y = or_0(y + or_0(chain[0] + chain[1]));
            }
    }
    return y;
}

static float by_definition(const product *p, int32_t r, int32_t c)
{
    if (p->act == QN_ACT_512) return by_definition_512(p, r, c);
    const qn_act_bf16 *x = (const qn_act_bf16 *)(const void *)(p->x + (size_t)c * p->x_bytes);
    const uint8_t *row = p->w + (size_t)r * p->w_bytes;
    float sum[2] = {0, 0};
    for (int64_t at = 0; at < p->k; at += 32, x++) {
        float w[32] = {0};
        qn__quant_get(p->dtype)->unpack(row + 2 * at, w, p->k - at < 32 ? p->k - at : 32);
        for (int part = 0; part < 2; part++) {
            float chain[2] = {0, 0};
            for (int i = 0; i < 32; i++)
                chain[i % 2] = or_0(fmaf(or_0(w[i]), or_0(qn__bf16_to_f32(x->x[i / 2][part][i % 2])), chain[i % 2]));
            sum[part] = or_0(sum[part] + or_0(chain[0] + chain[1]));
        }
    }
    return sum[0] + sum[1];
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static void verdict(check *t, const product *p)
{
    const size_t k = (size_t)p->k, n_x = k * (size_t)p->cols;
    float *w = malloc(k * sizeof *w + 1), *ref = malloc((size_t)p->rows * (size_t)p->cols * 4 + 1);
    double *w_size = malloc((k + 2 * n_x) * sizeof *w_size + 1), *x = w_size + k, *x_size = x + n_x;
    const bool split = p->act == QN_ACT_bf16 || p->act == QN_ACT_512;
    /* Where a block's d_w * d is subnormal it is off by FLT_TRUE_MIN / 2 for each of S < 2^20 (blocks of 32), 2^27: by
     * this for 16 elements. */
    const double lost = p->act == QN_ACT_32 ? 0x1p18 : 0x1p22;
    if (split)
        for (int32_t i = 0; i < p->rows * p->cols; i++) ref[i] = by_definition(p, i % p->rows, i / p->rows);
    else
        multiply(t, t->ref, p, 0, p->rows, 0, p->cols, ref, p->rows);
    for (int32_t c = 0; c < p->cols; c++)
        check_same(t, p->y + c * p->y_stride, ref + c * p->rows, p->rows, split ? "by the definition" : "at level ref");
    for (size_t i = 0; i < n_x; i++) x[i] = activation(p, (int32_t)(i / k), (int64_t)(i % k), &x_size[i]);
    for (int32_t r = 0; r < p->rows; r++) {
        const uint8_t *row = p->w + (size_t)r * p->w_bytes;
        qn__quant_get(p->dtype)->unpack(row, w, p->k);
        for (size_t i = 0; i < k; i++) w_size[i] = fabs((double)w[i]) + 2 * minimum(p, row, (int64_t)i);
        for (int32_t c = 0; c < p->cols; c++) {
            const double *with = x + (size_t)c * k, *with_size = x_size + (size_t)c * k;
            double want = 0, size = 0;
            for (size_t i = 0; i < k; i++) {
                want += w[i] * with[i];
                size += w_size[i] * with_size[i];
            }
            const bool blocks = p->act == QN_ACT_32 || p->act == QN_ACT_256;
            const double n = (double)(blocks ? p->k / 16 : p->k) + 4, least = split    ? 8 * FLT_MIN
                                                                              : blocks ? lost * FLT_TRUE_MIN
                                                                                       : FLT_TRUE_MIN;
            const double cut = p->act == QN_ACT_512 ? 0x1p-15 * size : 0; /* w2 x2 */
            check_close(t, p->y[c * p->y_stride + r], want, n * (FLT_EPSILON * size + least) + cut, c * p->rows + r);
        }
    }
    free(w);
    free(ref);
    free(w_size);
}

/* Rows and columns by themselves, and in other company, have the same bits. */
static void company(check *t, const product *p, bool each_column)
{
    float *y = malloc((size_t)p->rows * (size_t)p->cols * 4);
    for (int32_t c = 0; c < p->cols; c += each_column ? 1 : 1 + (int32_t)(check_random(t) % 16)) {
        multiply(t, t->kernels, p, 0, p->rows, c, 1, y, p->rows);
        check_same(t, y, p->y + c * p->y_stride, p->rows, "among all columns");
    }
    for (int times = 0; times < 3; times++) {
        const int32_t r = (int32_t)(check_random(t) % (uint64_t)p->rows),
                      c = (int32_t)(check_random(t) % (uint64_t)p->cols);
        const int32_t rows = 1 + (int32_t)(check_random(t) % (uint64_t)(p->rows - r));
        const int32_t cols = 1 + (int32_t)(check_random(t) % (uint64_t)(p->cols - c));
        multiply(t, t->kernels, p, r, rows, c, cols, y, rows);
        for (int32_t i = 0; i < cols; i++)
            check_same(t, y + i * rows, p->y + (c + i) * p->y_stride + r, rows, "among all rows");
    }
    free(y);
}

/* What lies between the columns of y stays as it was. */
static void gaps(check *t, const product *p)
{
    t->n_checks++;
    for (int32_t c = 0; c + 1 < p->cols; c++)
        for (int64_t r = p->rows; r < p->y_stride; r++) {
            uint32_t u;
            memcpy(&u, &p->y[c * p->y_stride + r], 4);
            if (u != 0xa5a5a5a5)
                check_fail(t, "row %lld of column %d was written, there are %d rows", (long long)r, c, p->rows);
        }
}

/* Another kernel's result, over columns that are prepared already: that of `one`. */
static void other(check *t, product *p, mm_way way, bool in_company)
{
    const size_t n = (size_t)((p->cols - 1) * p->y_stride + p->rows);
    float *one = malloc(n * sizeof *one);
    memcpy(one, p->y, n * sizeof *one);
    memset(p->y, 0xa5, n * sizeof *one);
    p->way = way;
    multiply(t, t->kernels, p, 0, p->rows, 0, p->cols, p->y, p->y_stride);
    check_intact(t);
    gaps(t, p);
    for (int32_t c = 0; c < p->cols; c++)
        check_same(t, p->y + c * p->y_stride, one + c * p->y_stride, p->rows, "column by column");
    if (in_company) company(t, p, false);
    check_intact(t);
    free(one);
}

static void one_case(check *t, product *p, bits kind, check_fill_kind fill, check_place place, bool each_column)
{
    check_where(t, "k %lld, %d rows, %d columns, bits %d, fill %s, place %d", (long long)p->k, p->rows, p->cols, kind,
                check_fill_name(fill), place);
    setup(t, p, place);
    fill_weights(t, p, kind);
    prepare(t, p, fill);
    p->way = WAY_gemv;
    multiply(t, t->kernels, p, 0, p->rows, 0, p->cols, p->y, p->y_stride);
    check_intact(t);
    if (p->rows == 0 || p->cols == 0) return;
    gaps(t, p);
    if (check_fill_finite(fill) && !p->magnitudes) verdict(t, p);
    if (each_column || place == CHECK_AT_END) company(t, p, each_column);
    check_intact(t);
    for (mm_way way = WAY_streams; way < WAY_COUNT; way++)
        if (kernel_of(&t->kernels->mm[p->dtype], way)) other(t, p, way, each_column || place == CHECK_AT_END);
}

/* ---- large sums ------------------------------------------------------------------------------ */

/* What act.h defines for one super-block after acc, read once more: T in whole numbers. */
static float one_super(const qn_ints *v, int sub, bool with_min, const qn_act256 *x, float acc, int64_t *largest)
{
    int64_t t = 0, z = 0, m = 0;
    for (int i = 0; i < 256; i++) {
        t += v->scale[i / sub] * v->w[i] * x->q[i];
        z += v->scale[i / sub] * v->w[i];
        if (with_min && i % 16 == 0) m += v->min[i / sub] * x->sum[i / 16];
        if (llabs(t) > *largest) *largest = llabs(t);
    }
    acc = fmaf(fmaf((float)-x->zero, (float)z, (float)t), v->d * x->d, acc);
    return with_min ? fmaf((float)m, -(v->m * x->d), acc) : acc;
}

/* Nearly all bits of weights are ones, scales positive where they have a sign, quanta near the highest: sums of a
 * super-block pass 2^24, where floats that were added to sub-block by sub-block would have been rounded more than once.
 */
static void large_sums(check *t, qn_dtype dtype)
{
    static const struct {
        qn_ints_fn ints;
        int sub;
        bool with_min;
    } format[QN_DTYPE_COUNT] = {
#define FORMAT(name, sub, with_min, lo, hi) [QN_DTYPE_##name] = {qn__ints_##name, sub, with_min},
        QN_INTS_256(FORMAT)
#undef FORMAT
    };
    if (!format[dtype].ints) return;
    enum { BLOCKS = 3, ROWS = 37, COLS = 64 };
    product p = {.dtype = dtype, .k = BLOCKS * 256, .rows = ROWS, .cols = COLS};
    const size_t bytes = (size_t)qn_dtype_get(dtype)->block_bytes;
    const float tops[] = {1, -1, 0.5f};
    int64_t largest = 0;
    float *want = malloc(ROWS * COLS * sizeof *want);
    check_where(t, "large sums");
    setup(t, &p, CHECK_AT_END);
    for (size_t at = 0; at < ROWS * p.w_bytes; at += bytes) {
        for (size_t i = 0; i < bytes; i++) p.w[at + i] = (uint8_t)(check_random(t) | check_random(t) | check_random(t));
        if (dtype == QN_DTYPE_Q6_K)
            for (size_t i = 0; i < 16; i++) p.w[at + offsetof(qn_block_Q6_K, scales) + i] &= 0x7f;
        ordinary_scales(dtype, p.w + at);
    }
    for (int32_t c = 0; c < COLS; c++) {
        float *x = p.source + c * p.k;
        for (int64_t i = 0; i < p.k; i++) x[i] = tops[c % 3] * (float)check_uniform(t, 0.8, 1);
        qn__act_put(t->kernels, p.act, p.x + (size_t)c * p.x_bytes, x, p.k);
    }
    for (int32_t r = 0; r < ROWS; r++)
        for (int32_t c = 0; c < COLS; c++) {
            const qn_act256 *x = (const qn_act256 *)(const void *)(p.x + (size_t)c * p.x_bytes);
            float *y = &want[c * ROWS + r];
            *y = 0;
            for (int64_t b = 0; b < BLOCKS; b++) {
                qn_ints v;
                format[dtype].ints(p.w + (size_t)r * p.w_bytes + (size_t)b * bytes, &v);
                *y = one_super(&v, format[dtype].sub, format[dtype].with_min, x + b, *y, &largest);
            }
        }
    t->n_checks++;
    if (largest < 1 << 24 && dtype != QN_DTYPE_Q2_K && dtype != QN_DTYPE_Q3_K) check_fail(t, "no sum passes 2^24");
    static const int32_t some[] = {1, 2, 3, 4, 5, 8, COLS};
    for (p.way = WAY_gemv; p.way < WAY_COUNT; p.way++)
        for (size_t i = 0; kernel_of(&t->kernels->mm[dtype], p.way) && i < sizeof some / sizeof some[0]; i++)
            for (int32_t c = 0; c + some[i] <= COLS; c += some[i]) {
                multiply(t, t->kernels, &p, 0, ROWS, c, some[i], p.y, ROWS);
                check_same(t, p.y, want + c * ROWS, (int64_t)some[i] * ROWS, "by the definition");
            }
    free(want);
}

/* A NaN or an infinity in a column is seen in all its results and in no other column's. */
static void damaged(check *t, product *p, bits kind)
{
    check_where(t, "a damaged column, bits %d", kind);
    setup(t, p, CHECK_AT_END);
    fill_weights(t, p, kind);
    prepare(t, p, CHECK_FILL_random);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        float *x = p->source + p->k; /* column 1 */
        x[17 % p->k] = bad[i];
        qn__act_put(t->kernels, p->act, p->x + p->x_bytes, x, p->k);
        for (p->way = WAY_gemv; p->way < WAY_COUNT; p->way++) {
            if (!kernel_of(&t->kernels->mm[p->dtype], p->way)) continue;
            multiply(t, t->kernels, p, 0, p->rows, 0, p->cols, p->y, p->y_stride);
            for (int32_t c = 0; c < p->cols; c++)
                for (int32_t r = 0; r < p->rows; r++) {
                    t->n_checks++;
                    if (isfinite(p->y[c * p->y_stride + r]) != (c != 1)) check_fail(t, "column %d, row %d", c, r);
                }
        }
    }
}

/* Ordinary numbers where the format packs: subnormal products of random bits would be timed otherwise. */
static void bench_weights(check *t, const product *p, int32_t rows)
{
    const product some = {.dtype = p->dtype, .k = p->k, .rows = rows, .w_bytes = p->w_bytes, .w = p->w};
    if (!qn__quant_get(p->dtype)->pack) {
        fill_weights(t, &some, BITS_random);
        return;
    }
    float *x = malloc((size_t)p->k * sizeof(float));
    check_fill(t, x, p->k, CHECK_FILL_random);
    for (int32_t r = 0; r < rows; r++) qn__quant_get(p->dtype)->pack(x, p->w + (size_t)r * p->w_bytes, p->k, NULL);
    free(x);
}

static void bench(check *t, qn_dtype dtype)
{
    /* 48 MiB of weights for one column: they come from memory. A panel that stays in cache for many. */
    const int64_t k = 4096, row_bytes = qn_dtype_row_bytes(dtype, k), big = (48 << 20) / row_bytes;
    const bool slow = t->kernels->level == QN_CPU_ref;
    product p = {.dtype = dtype, .k = k, .rows = slow ? 64 : (int32_t)big, .cols = 1};
    setup(t, &p, CHECK_AT_START);
    bench_weights(t, &p, 16);
    for (int32_t r = 16; r < p.rows; r++)
        memcpy(p.w + (size_t)r * p.w_bytes, p.w + (size_t)(r % 16) * p.w_bytes, p.w_bytes);
    prepare(t, &p, CHECK_FILL_random);
    char what[64];
    for (p.way = WAY_gemv; p.way < WAY_panel; p.way++) {
        if (!kernel_of(&t->kernels->mm[dtype], p.way)) continue;
        snprintf(what, sizeof what, "%s, 1 column%s", t->row, ways[p.way]);
        CHECK_BENCH(t, what, "GB/s of weights", (double)row_bytes * p.rows,
                    multiply(t, t->kernels, &p, 0, p.rows, 0, 1, p.y, p.y_stride));
    }

    static const int32_t many[] = {4, 16, 128, 512};
    for (size_t i = 0; i < (slow ? 1 : sizeof many / sizeof many[0]); i++) {
        p.rows = 64;
        p.cols = many[i];
        setup(t, &p, CHECK_AT_START);
        bench_weights(t, &p, p.rows);
        prepare(t, &p, CHECK_FILL_random);
        for (mm_way way = WAY_gemv; way < WAY_COUNT; way++) {
            const qn_mm *mm = &t->kernels->mm[dtype];
            qn_mm_args args = {
                .w = p.w,
                .w_row_bytes = p.w_bytes,
                .x = p.x,
                .x_row_bytes = p.x_bytes,
                .y = p.y,
                .y_stride = p.y_stride,
                .k = k,
                .rows = p.rows,
                .cols = p.cols,
                .tile = p.tile,
            };
            if (!kernel_of(mm, way) || (way < WAY_panel && p.cols > 16 && mm->panel[0].fn)) continue; /* nobody would */
            if (pack_of(mm, way)) put_in_groups(t, &p, pack_of(mm, way), 0, p.cols, &args);
            snprintf(what, sizeof what, "%s, %d columns%s", t->row, p.cols, ways[way]);
            CHECK_BENCH(t, what, "Gop/s", 2.0 * (double)k * p.rows * p.cols, kernel_of(mm, way)(&args));
        }
    }
}

static check_fill_kind any_finite(check *t) { return (check_fill_kind)(check_random(t) % CHECK_FILL_huge); }

void check_mm(check *t, qn_dtype dtype)
{
    if (t->bench) {
        bench(t, dtype);
        return;
    }
    static const int32_t shapes[][2] = {{0, 3},  {3, 0},  {1, 1},  {3, 2},  {4, 7}, {8, 3},
                                        {15, 1}, {16, 1}, {17, 5}, {33, 9}, {5, 19}};
    static const int64_t sizes[] = {0, 1, 2, 7, 15, 16, 17, 31, 33, 100, 257, 1000};
    const int64_t block = qn_dtype_get(dtype)->block_elems;
    product p = {.dtype = dtype};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
            if (sizes[i] * block > 2304) continue;
            p.k = sizes[i] * block;
            p.rows = shapes[s][0];
            p.cols = shapes[s][1];
            one_case(t, &p, BITS_random, any_finite(t), (check_place)(s % CHECK_PLACE_COUNT), false);
        }
    /* Longer than any tile, with odd rests. */
    p.k = 16641 / block * block;
    p.rows = 5;
    for (p.cols = 1; p.cols <= 3; p.cols += 2) one_case(t, &p, BITS_random, CHECK_FILL_random, CHECK_AT_END, false);
    for (int fill = 0; fill < CHECK_FILL_COUNT; fill++)
        for (int kind = 0; kind < (block > 1 && t->kernels->mm[dtype].act != QN_ACT_f32 ? BITS_COUNT : 1); kind++) {
            p = (product){.dtype = dtype, .k = block == 1 ? 77 : block == 32 ? 96 : block, .rows = 9, .cols = 11};
            one_case(t, &p, (bits)kind, (check_fill_kind)fill, CHECK_SHIFTED, false);
        }
    for (p.cols = 1; p.cols <= 70; p.cols++) {
        p.k = block == 1 ? 50 : block == 32 ? 64 : block;
        p.rows = 5;
        one_case(t, &p, BITS_random, CHECK_FILL_random, CHECK_AT_END, true);
    }
    p = (product){.dtype = dtype, .k = block == 1 ? 37 : block, .rows = 2, .cols = 1100}; /* more than any chunk */
    one_case(t, &p, BITS_random, CHECK_FILL_random, CHECK_AT_END, false);
    p = (product){.dtype = dtype, .k = block == 1 ? 50 : 2 * block, .rows = 19, .cols = 6};
    damaged(t, &p, BITS_random);
    if (block > 1) damaged(t, &p, BITS_ordinary);
    if (t->kernels->mm[dtype].act == QN_ACT_32) {
        p = (product){.dtype = dtype, .k = 96, .rows = 33, .cols = 17, .magnitudes = true};
        one_case(t, &p, BITS_ordinary, CHECK_FILL_random, CHECK_AT_END, false);
    }
    large_sums(t, dtype);
}

/* ---- unpacking ------------------------------------------------------------------------------- */

void check_unpack(check *t, qn_dtype dtype)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);
    if (t->bench) {
        const int64_t n = 16384;
        uint8_t *w = check_buffer(t, SLOT_W, (size_t)qn_dtype_row_bytes(dtype, n), 1, CHECK_AT_START);
        float *y = check_floats(t, SLOT_Y, n, CHECK_AT_START);
        for (int64_t at = 0; at < qn_dtype_row_bytes(dtype, n); at += info->block_bytes) random_block(t, dtype, w + at);
        CHECK_BENCH(t, t->row, "G elements/s", n, t->kernels->unpack[dtype](w, y, n));
        return;
    }
    for (const int64_t *blocks = check_sizes; *blocks >= 0; blocks++)
        for (int place = 0; place < CHECK_PLACE_COUNT && *blocks * info->block_elems <= 8192; place++) {
            const int64_t n = *blocks * info->block_elems;
            const size_t bytes = (size_t)(*blocks * info->block_bytes);
            uint8_t *w = check_buffer(t, SLOT_W, bytes, 1, (check_place)place);
            float *y = check_floats(t, SLOT_Y, n, (check_place)place),
                  *want = check_floats(t, SLOT_X, n, (check_place)place);
            check_where(t, "%lld blocks, place %d", (long long)*blocks, place);
            for (size_t i = 0; i < bytes; i++) w[i] = (uint8_t)check_random(t); /* NaN and infinite scales too */
            t->kernels->unpack[dtype](w, y, n);
            qn__quant_get(dtype)->unpack(w, want, n);
            check_intact(t);
            check_same(t, y, want, n, "by quant");
        }
}
