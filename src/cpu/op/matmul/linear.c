/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/linear.c -- y = x w^T (+ b), straight from the weight's format.
 *
 * Phase 0 converts the columns (the rows of x) to the form that the weight's kernel takes: quantized activations,
 * packed in groups for a panel kernel, or floats with a fixed stride; nothing when they are that already. Phase 1
 * divides the weight into tiles of rows, and each tile is multiplied with all columns before the next is read:
 * weights are read from memory once a product, however many columns there are. */
#include "cpu/op/ops.h"
#include "cpu/op/row.h"

#include <limits.h>
#include <string.h>

/* Rows of a tile where one weight has few columns: about TILES tiles, within bounds (one column, Q2_K: 16 tiles
 * reach 72 % of the read bandwidth, 8 tiles 80 %, 4 tiles 71 %). A panel kernel takes PANEL_ROWS at a time, with
 * enough work for the finest division. */
enum { TILES = 8, TILE_ROWS_MIN = 64, TILE_ROWS_MAX = 1024, PANEL_ROWS = 32 };
enum { PREPARE = 2048 }; /* elements of a column converted at a time; a multiple of every block of act.h */

static int64_t n_columns(const qn_node *node) { return qn__row_count(&node->src[0]->layout); }

/* How this node's columns are passed to the kernel. */
typedef struct plan {
    const qn_mm *mm;
    qn_mm_fn fn;
    const qn_mm_pack *pack;      /* NULL: columns one after the other */
    const qn_mm_panel *panel;    /* NULL: by gemv */
    bool direct;                 /* floats, in place in x, with a stride of `stride` elements */
    int64_t k, cols, groups;     /* groups of columns: as many as columns without a pack */
    int64_t group_bytes, stride; /* group_bytes: of all its blocks */
} plan;

static int64_t blocks_bytes(qn_act_kind act, int64_t k) { return qn__act_blocks(act, k) * qn__act_block_bytes(act); }

static plan plan_of(const qn_kernels *kernels, const qn_node *node)
{
    const qn_layout *x = &node->src[0]->layout;
    plan p = {.mm = &kernels->mm[node->src[1]->dtype], .k = qn__row_size(x), .cols = n_columns(node)};
    p.panel = qn__mm_panel(p.mm, p.cols);
    p.fn = p.panel ? p.panel->fn : qn__mm_gemv(kernels, p.mm);
    p.pack = p.panel ? p.panel->pack : NULL;
    p.direct = p.mm->act == QN_ACT_f32 && !p.pack && qn__row_step(x) == 1 && qn__rows_uniform(x, &p.stride);
    p.groups = p.pack ? (p.cols + p.pack->cols - 1) / p.pack->cols : p.cols;
    p.group_bytes =
        p.pack ? qn__act_blocks(p.mm->act, p.k) * (int64_t)p.pack->block_bytes : blocks_bytes(p.mm->act, p.k);
    return p;
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_node *x = node->src[0], *w = node->src[1], *b = node->n_src > 2 ? node->src[2] : NULL;
    if (!qn__want_dtype(node, "x", x, QN_DTYPE_F32, err)) return false;
    if (!kernels->mm[w->dtype].gemv) {
        QN_FAIL(err, unsupported, "linear: no product with weights in %s", qn_dtype_get(w->dtype)->name);
        return false;
    }
    if (!qn__want_loadable(kernels, node, "the weight", w, err) || !qn__want_dense_rows(node, "the weight", w, err))
        return false;
    if (w->layout.dim[0] > 1 && w->layout.stride[0] < 0) {
        QN_FAIL(err, unsupported, "linear: the weight's rows lie in reverse order");
        return false;
    }
    if (n_columns(node) > INT32_MAX || w->layout.dim[0] > INT32_MAX) {
        QN_FAIL(err, limit, "linear: %lld columns x %lld rows, at most %d each", (long long)n_columns(node),
                (long long)w->layout.dim[0], INT32_MAX);
        return false;
    }
    return !b ||
           (qn__want_dtype(node, "the bias", b, QN_DTYPE_F32, err) && qn__want_dense_rows(node, "the bias", b, err));
}

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    const plan p = plan_of(kernels, node);
    return p.direct ? 0 : (uint64_t)p.groups * (uint64_t)p.group_bytes;
}

/* Bound by memory: rows in large tiles. */
static bool streams(const plan *p) { return !p->panel || p->cols < p->panel->streams; }

/* Few columns: some tiles for each thread, so that a slow thread can leave some to others; not many, since the first
 * rows of a tile are not prefetched (kernel/gemv.h). */
static int64_t tile_rows(const plan *p, const qn_node *node)
{
    if (!streams(p)) return p->panel->rows > 0 ? p->panel->rows : PANEL_ROWS;
    const int64_t rows = (node->src[1]->layout.dim[0] + TILES * 16 - 1) / (TILES * 16) * 16;
    return rows < TILE_ROWS_MIN ? TILE_ROWS_MIN : rows > TILE_ROWS_MAX ? TILE_ROWS_MAX : rows;
}

static int64_t parts_of_column(const plan *p) { return (p->k + PREPARE - 1) / PREPARE; }

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    const plan p = plan_of(kernels, node);
    if (phase == 0) {
        *chunk = qn__chunk_of(4 * PREPARE, p.k * (p.pack ? p.pack->cols : 1));
        return p.direct ? 0 : p.groups * parts_of_column(&p);
    }
    const int64_t m = node->src[1]->layout.dim[0], rows = tile_rows(&p, node);
    *chunk = 1;
    return p.cols > 0 ? (m + rows - 1) / rows : 0;
}

/* Elements [at, at + n) of column c. */
static void prepare_part(const qn_task *t, const plan *p, int64_t c, int64_t at, int64_t n)
{
    const int64_t step = qn__row_step(&t->src[0].layout);
    const uint8_t *x = qn__row_at(&t->src[0], c);
    const float *from = (const float *)(const void *)x + at;
    if (step != 1) {
        qn__row_load(t->kernels, QN_DTYPE_F32, x, step, at, n, t->tile);
        from = t->tile;
    }
    if (!p->pack) {
        qn__act_put(t->kernels, p->mm->act, t->scratch + c * p->group_bytes + blocks_bytes(p->mm->act, at), from, n);
        return;
    }
    uint8_t *group =
        t->scratch + (qn__act_blocks(p->mm->act, at) * p->groups + c / p->pack->cols) * (int64_t)p->pack->block_bytes;
    void *blocks = t->tile + PREPARE;
    qn__act_put(t->kernels, p->mm->act, blocks, from, n);
    p->pack->put(group, (size_t)p->groups * p->pack->block_bytes, (int)(c % p->pack->cols), blocks,
                 qn__act_blocks(p->mm->act, n));
}
_Static_assert(3 * PREPARE * 4 <= QN_MM_TILE_BYTES, "a part as floats, and in any of the forms of act.h");

static void prepare(const qn_task *t)
{
    const plan p = plan_of(t->kernels, t->node);
    const int64_t parts = parts_of_column(&p), n_cols = p.pack ? p.pack->cols : 1;
    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t first = item / parts * n_cols, at = item % parts * PREPARE,
                      n = p.k - at < PREPARE ? p.k - at : PREPARE;
        for (int64_t c = first; c < first + n_cols && c < p.cols; c++) prepare_part(t, &p, c, at, n);
    }
}

static void add_bias(const qn_task *t, int64_t row, int64_t rows, int64_t cols, int64_t m)
{
    const float *b = (const float *)(const void *)t->src[2].data + row;
    for (int64_t c = 0; c < cols; c++) {
        float *y = (float *)(void *)t->dst.data + c * m + row;
        t->kernels->add_f32(y, y, b, rows);
    }
}

static void product(const qn_task *t)
{
    const plan p = plan_of(t->kernels, t->node);
    const qn_view *w = &t->src[1];
    const int64_t m = w->layout.dim[0], rows = tile_rows(&p, t->node);
    const int64_t w_row_bytes =
        m > 1 ? qn__elems_bytes(w->dtype, w->layout.stride[0]) : qn_dtype_row_bytes(w->dtype, p.k);

    for (int64_t item = t->begin; item < t->end; item++) {
        const int64_t tile = !streams(&p) ? item : qn__in_ranges(item, (m + rows - 1) / rows, t->n_members);
        const int64_t first = tile * rows, n = m - first < rows ? m - first : rows;
        float *y = (float *)(void *)t->dst.data + first; /* [cols, m] from row `first` on */
        const qn_mm_args args = {
            .w = w->data + first * w_row_bytes,
            .w_row_bytes = (size_t)w_row_bytes,
            .x = p.direct ? t->src[0].data : t->scratch,
            .x_row_bytes = p.direct ? (size_t)p.stride * 4
                           : p.pack ? p.pack->block_bytes
                                    : (size_t)p.group_bytes,
            .x_block_bytes = p.pack ? (size_t)p.groups * p.pack->block_bytes : 0,
            .y = y,
            .y_stride = m,
            .k = p.k,
            .rows = (int32_t)n,
            .cols = (int32_t)p.cols,
            .tile = t->tile,
        };
        if (p.k > 0)
            p.fn(&args);
        else
            for (int64_t c = 0; c < p.cols; c++) memset(y + c * m, 0, (size_t)n * 4);
        if (t->n_src > 2) add_bias(t, first, n, p.cols, m);
    }
}

static void run(const qn_task *t)
{
    if (t->phase == 0)
        prepare(t);
    else
        product(t);
}

bool qn__cpu_linear_shares(const qn_kernels *kernels, const qn_node *a, const qn_node *b)
{
    const plan p = plan_of(kernels, a), q = plan_of(kernels, b);
    return !p.direct && !q.direct && p.mm->act == q.mm->act && p.pack == q.pack;
}

const qn_cpu_op qn__cpu_op_linear = {QN_OP_linear, accepts, scratch, 2, items, run};
