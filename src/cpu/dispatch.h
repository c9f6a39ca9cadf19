/* SPDX-License-Identifier: MIT */
/* src/cpu/dispatch.h -- the dispatch table of the CPU backend: small kernels (kernel/kernels.def), and matrix
 * products by weight format.
 *
 * A level's table starts as a copy of its base level's and replaces what it does better, so every slot is always
 * filled. The table is chosen once, when a backend opens, and kept in that backend: two levels can be open at once.
 *
 * The definition of a matrix product. It holds at every level and for any number of columns, so that neither threads
 * nor batch size change a bit:
 *  - Weights in F32, F16 and BF16, and in block formats without an integer kernel (unpacked a tile at a time): k is cut
 *    into slices of QN_MM_SLICE elements. A slice is one chain sum = fma(x[k], w[k], sum), from 0, in the order of k;
 *    slices are added in order.
 *  - Weights in BF16 and F16 at a level whose row says QN_ACT_bf16 or QN_ACT_512: columns are split into two bfloat16
 *    (backend/numbers/act.h). Here levels differ in the last bits; it is 1.5 to 3 times as fast with many columns.
 *  - Block formats with an integer kernel: columns are quantized to blocks of 32 or 256 (backend/numbers/act.h). */
#ifndef QN_CPU_DISPATCH_H
#define QN_CPU_DISPATCH_H

#include "backend/numbers/act.h"
#include "backend/numbers/attention.h"
#include "quant/quant.h"
#include <quern/machine.h>
#include <quern/tensor.h>

#include <string.h>

/* outer_f32: y[o][l] = sum over i of a(o, i) * b[i][l]: for each (o, l) one chain of fused multiply-adds in the
 * order of i. */
typedef enum qn_outer_mode {
    QN_OUTER_set,   /* the chain starts at 0 */
    QN_OUTER_go_on, /* at y */
    QN_OUTER_add,   /* at 0, and its end is added to y */
} qn_outer_mode;
typedef struct qn_outer {
    float *y;       /* [n_out, n_lanes] */
    const float *a; /* a(o, i) = a[o * a_out + i * a_in]; one of the two is 1 */
    const float *b; /* [n_in, n_lanes] */
    int64_t y_stride, a_out, a_in, b_stride;
    int64_t n_lanes; /* a multiple of 16 */
    int64_t n_out, n_in;
    qn_outer_mode mode;
} qn_outer;

/* outer_i16: y[o][l] = fma((float)sum, out_scale[o] * lane_scale[l], z), where sum is over i of a(o, i) . b[i][l];
 * both are pairs of int16, and . is the sum of two products. The caller guarantees that no sum leaves int32, so that
 * the order of additions does not matter. */
typedef struct qn_outer_i16 {
    float *y;                /* [n_out, n_lanes] */
    const int16_t *a;        /* a(o, i) is the pair at a + 2 * (o * a_out + i * a_in); one of the two is 1 */
    const int16_t *b;        /* [n_in, n_lanes] pairs */
    const float *out_scale;  /* [n_out], or NULL for ones */
    const float *out_start;  /* [n_out]: z; NULL: z is the old y[o][l]. Only with an out_scale */
    const float *lane_scale; /* [n_lanes] */
    int64_t y_stride, a_out, a_in, b_stride; /* the last three in pairs */
    int64_t n_lanes;                         /* a multiple of 16 */
    int64_t n_out, n_in;
} qn_outer_i16;

/* Attention in integers: attn_pack_q and the rows after it. */
enum { QN_ATTN_BLOCKS = 8 }; /* of 16 cells */

/* outer_f64: the same as outer_f32 in double; a may have any strides. */
typedef struct qn_outer_f64 {
    double *y;       /* [n_out, n_lanes] */
    const double *a; /* a(o, i) = a[o * a_out + i * a_in] */
    const double *b; /* [n_in, n_lanes] */
    int64_t y_stride, a_out, a_in, b_stride;
    int64_t n_lanes; /* a multiple of 8 */
    int64_t n_out, n_in;
    qn_outer_mode mode;
} qn_outer_f64;

/* y[c][r] for `rows` weight rows and `cols` columns. */
typedef struct qn_mm_args {
    const uint8_t *w; /* first weight row; any alignment */
    size_t w_row_bytes;
    const void *x;        /* gemv: first column; panel with a pack: first group of columns */
    size_t x_row_bytes;   /* from a column, or a group, to the next */
    size_t x_block_bytes; /* with a pack: from a block of a group to its next */
    float *y;             /* y[c * y_stride + r] */
    int64_t y_stride;
    int64_t k;          /* a multiple of the weight's block; 0 gives zeros */
    int32_t rows, cols; /* 0 is nothing to do */
    float *tile;        /* QN_MM_TILE_BYTES of this thread's own, aligned to 64 bytes */
} qn_mm_args;
#define QN_MM_TILE_BYTES (256 * 1024)
/* Elements of k that float products sum in one chain; a multiple of every block size. */
#define QN_MM_SLICE      256
typedef void (*qn_mm_fn)(const struct qn_mm_args *args);

/* The stride between the rows that one kernel call reads: `most`, or less where fewer than that many groups of rows
 * are left. Rows an even number of pages apart would share a few sets of a cache, so such a stride is made odd. */
static inline int32_t qn__row_stride(const qn_mm_args *a, int32_t groups, int32_t most)
{
    const int32_t stride = groups < 1 ? 1 : groups < most ? groups : most;
    return stride > 1 && stride % 2 == 0 && a->w_row_bytes % 4096 == 0 ? stride - 1 : stride;
}

/* How a level's panel kernels want many columns to be packed: in groups of `cols` columns side by side, all groups'
 * first blocks, then all groups' second blocks. A kernel that takes a few blocks at a time then reads memory
 * sequentially. */
typedef struct qn_mm_pack {
    int cols;           /* columns in a group; the last group of a product may be partly empty */
    size_t block_bytes; /* one block of a whole group, a multiple of 4 */
    /* Packs blocks [0, n) of one column (qn_act32 or its like) as column `col` of a group; `stride` bytes between
     * blocks. */
    void (*put)(void *group, size_t stride, int col, const void *blocks, int64_t n);
} qn_mm_pack;

/* A kernel for many columns, which unpacks weights once for all of them. */
typedef struct qn_mm_panel {
    qn_mm_fn fn;            /* NULL: there is none */
    const qn_mm_pack *pack; /* how it wants its columns packed; NULL: as gemv does */
    int from;               /* columns */
    int rows;               /* how many it wants at a time; 0: any number */
    int streams;            /* with fewer columns than this it is bound by memory and splits rows as gemv does */
} qn_mm_panel;
enum { QN_MM_PANELS = 2 };

/* The product of one weight format. A column is float[k], qn_act32[k / 32], qn_act256[k / 256], qn_act_bf16[(k + 31)
 * / 32] or qn_act512[(k + 511) / 512]. */
typedef struct qn_mm {
    qn_act_kind act;
    /* columns one after the other; correct for any number of them; NULL for dtypes that are no weights */
    qn_mm_fn gemv;
    qn_mm_fn gemv_streams; /* the same, reading rows as streams of their own (kernel/gemv_streams.h), or NULL */
    qn_mm_panel panel[QN_MM_PANELS]; /* for columns from which on each is the fastest, in rising order */
} qn_mm;

/* How attention reads the rows of a cache in one format: the kernels of these names. */
typedef struct qn_kv_rows {
    void (*gather)(float *y, int64_t y_stride, const void *base, int64_t cell_bytes, const int32_t *cell,
                   int64_t n_cells, int64_t n);
    void (*pack_k)(int16_t *y, float *scale, const void *base, int64_t cell_bytes, const int32_t *cell, int64_t n_cells,
                   int64_t n);
    void (*pack_v)(int16_t *y, float *log_scale, float *weight, const void *base, int64_t cell_bytes,
                   const int32_t *cell, int64_t n_cells, int64_t n);
} qn_kv_rows;

typedef struct qn_kernels {
    qn_cpu_level level;
#define QN_KERNEL(name, bound, ret, params) ret(*name) params;
#include "cpu/kernel/kernels.def"
#undef QN_KERNEL
    qn_mm mm[QN_DTYPE_COUNT];
    bool many_streams;             /* qn_machine's: prefer gemv_streams to gemv */
    int outer_lanes;               /* lanes in a row of b that outer_f32 is fastest with: 16 or 64 */
    qn_kv_rows kv[QN_DTYPE_COUNT]; /* NULL: rows are unpacked one by one */
    /* quant's unpack, or a faster one with the same bits; NULL for integers and booleans */
    qn_unpack_fn unpack[QN_DTYPE_COUNT];
} qn_kernels;

/* Converts n elements of a column to the form `act` (backend/numbers/act.h). n is a multiple of the form's block, or
 * less at the end of a column where the form allows it. */
static inline void qn__act_put(const qn_kernels *kernels, qn_act_kind act, void *to, const float *x, int64_t n)
{
    if (act == QN_ACT_32)
        kernels->quantize_act32(to, x, n);
    else if (act == QN_ACT_256)
        kernels->quantize_act256(to, x, n);
    else if (act == QN_ACT_bf16)
        kernels->split_act_bf16(to, x, n);
    else if (act == QN_ACT_512)
        kernels->split_act512(to, x, n);
    else if (n > 0)
        memcpy(to, x, (size_t)n * sizeof *x);
}

/* The product with few columns that is faster on this machine. */
static inline qn_mm_fn qn__mm_gemv(const qn_kernels *kernels, const qn_mm *mm)
{
    return kernels->many_streams && mm->gemv_streams ? mm->gemv_streams : mm->gemv;
}

/* The panel kernel that multiplies so many columns fastest; NULL: gemv. */
static inline const qn_mm_panel *qn__mm_panel(const qn_mm *mm, int64_t cols)
{
    const qn_mm_panel *panel = NULL;
    for (int i = 0; i < QN_MM_PANELS; i++)
        if (mm->panel[i].fn && cols >= mm->panel[i].from) panel = &mm->panel[i];
    return panel;
}

/* Fills the tables of all levels for a machine that runs `levels` (bit l: level l). A missing level is the best one
 * below it. */
void qn__kernels_build(qn_kernels tables[QN_CPU_LEVEL_COUNT], unsigned levels, bool many_streams);
/* The table of a level, built once. A level that the machine lacks gives the best one below it. Thread-safe. */
const qn_kernels *qn__kernels_get(qn_cpu_level level);

/* One function a level, in its folder: replaces the slots that the level does better. */
#define QN_CPU_LEVEL_INIT(name, base, needs) void qn__kernels_init_##name(qn_kernels *kernels);
QN_CPU_LEVEL_ROWS(QN_CPU_LEVEL_INIT)
#undef QN_CPU_LEVEL_INIT

#endif
