/* SPDX-License-Identifier: MIT */
/* src/cpu/op/reduce/reduce.c -- the walk of every reduction, see reduce.h.
 *
 * Many results: an item is a run of them, and each is reduced from its first block to its last. Few and long ones:
 * phase 0 computes the states of blocks in scratch, phase 1 merges them. Where results are contiguous in the source
 * and reduced elements are not (sums of columns), a tile of columns is reduced at once. */
#include "cpu/op/reduce/reduce.h"

#include "cpu/op/pointwise/numbers.h"
#include "cpu/op/row.h"

#include <string.h>

enum { COLUMNS = 128, FEW = 64, MAX_STATES = 1 << 16 };

typedef struct shape {
    qn_layout kept, reduced; /* the source's dimensions, parted; offsets 0 */
    int64_t n_results, n_reduced, n_blocks;
} shape;

static shape shape_of(const qn_layout *x, uint32_t dims)
{
    shape s = {.n_results = 1, .n_reduced = 1};
    for (int i = 0; i < x->rank; i++) {
        qn_layout *l = dims >> i & 1 ? &s.reduced : &s.kept;
        l->dim[l->rank] = x->dim[i];
        l->stride[l->rank++] = x->stride[i];
    }
    for (int i = 0; i < s.kept.rank; i++) s.n_results *= s.kept.dim[i];
    for (int i = 0; i < s.reduced.rank; i++) s.n_reduced *= s.reduced.dim[i];
    s.n_blocks = (s.n_reduced + QN_RED_BLOCK - 1) / QN_RED_BLOCK;
    return s;
}

static shape node_shape(const qn_node *n)
{
    return shape_of(&n->src[0]->layout, ((const qn_reduce_attrs *)n->attrs)->dims);
}

/* Are blocks shared among threads? */
static bool by_blocks(const shape *s) { return s->n_results < FEW && s->n_blocks > 4; }

bool qn__red_accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    (void)kernels; /* the shape rule has checked everything */
    (void)node;
    (void)err;
    return true;
}

/* Enough for fewer results too, whose blocks are shared where those of these are not: what is reserved for a batch is
 * enough for every smaller one. */
uint64_t qn__red_scratch(const qn_kernels *kernels, const qn_node *node)
{
    (void)kernels;
    shape s = node_shape(node);
    if (s.n_results >= FEW) s.n_results = FEW - 1;
    return by_blocks(&s) ? (uint64_t)(s.n_results * s.n_blocks) * sizeof(qn_red_state) : 0;
}

int64_t qn__red_items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    (void)kernels;
    const shape s = node_shape(node);
    *chunk = 1;
    if (phase == 0) {
        *chunk = 4;
        return by_blocks(&s) ? s.n_results * s.n_blocks : 0;
    }
    if (!by_blocks(&s)) *chunk = qn__chunk_of(4 * QN_RED_BLOCK, s.n_reduced);
    if (*chunk < 32 && s.kept.rank > 0 && s.kept.stride[s.kept.rank - 1] == 1) *chunk = 32; /* columns, together */
    return s.n_results;
}

/* ---- one result ------------------------------------------------------------------------------ */

typedef struct reducer {
    const qn_task *t;
    const qn_red *op;
    shape s;
    qn_number kind;
} reducer;

static reducer reducer_of(const qn_task *t, const qn_red *op)
{
    const shape s = shape_of(&t->src[0].layout, ((const qn_reduce_attrs *)t->attrs)->dims);
    return (reducer){t, op, s, qn__number_of(t->src[0].dtype)};
}

/* Offset of a result's reduced elements, in elements. */
static int64_t result_at(const shape *s, int64_t result)
{
    int64_t at = 0;
    for (int i = s->kept.rank - 1; i >= 0; i--) {
        at += result % s->kept.dim[i] * s->kept.stride[i];
        result /= s->kept.dim[i];
    }
    return at;
}

static void reduce_block(const reducer *r, qn_walk *w, int64_t block, qn_red_state *state)
{
    const int64_t at = block * QN_RED_BLOCK, left = r->s.n_reduced - at, n = left < QN_RED_BLOCK ? left : QN_RED_BLOCK;
    const void *x = qn__walk_load(r->t->kernels, w, at, n, r->t->tile);
    *state = (qn_red_state){0};
    r->op->block[r->kind](r->t, x, n, at, state);
}

static qn_walk walk_of_result(const reducer *r, int64_t result)
{
    qn_layout l = r->s.reduced;
    l.offset = result_at(&r->s, result);
    return qn__walk_layout(&r->t->src[0], &l);
}

static void put(const reducer *r, int64_t result, const qn_red_state *state)
{
    const qn_dtype to = r->t->dst.dtype;
    const int64_t bytes = qn_dtype_get(to)->block_bytes;
    double real = 0;
    int64_t whole = 0;
    r->op->finish(r->t, state, r->s.n_reduced, &real, &whole);
    const float f = (float)real;
    const void *const numbers[QN_NUM_COUNT] = {&f, &real, &whole};
    const void *x = numbers[qn__number_of(to)];
    uint8_t *y = r->t->dst.data + result * bytes;
    if (qn__number_is(to))
        memcpy(y, x, (size_t)bytes);
    else
        qn__narrow_to(r->t->kernels, to, x, 1, y);
}

static void merge(const reducer *r, int64_t block, qn_red_state *all, const qn_red_state *next)
{
    if (block == 0)
        *all = *next;
    else
        r->op->merge(r->t, all, next);
}

static void reduce_one(const reducer *r, int64_t result)
{
    qn_walk w = walk_of_result(r, result);
    qn_red_state all = {0}, next;
    for (int64_t block = 0; block < r->s.n_blocks; block++) {
        reduce_block(r, &w, block, &next);
        merge(r, block, &all, &next);
    }
    put(r, result, &all);
}

/* ---- columns --------------------------------------------------------------------------------- */

static bool has_columns(const reducer *r)
{
    const qn_layout *k = &r->s.kept;
    return r->op->columns && r->t->src[0].dtype == QN_DTYPE_F32 && k->rank > 0 && k->stride[k->rank - 1] == 1 &&
           k->dim[k->rank - 1] >= 8 && r->s.n_reduced >= 2;
}

/* Results [result, result + n), which are contiguous. */
static void reduce_columns(const reducer *r, int64_t result, int64_t n)
{
    qn_red_state all[COLUMNS], next[COLUMNS];
    const float *rows[QN_RED_BLOCK];
    const qn_layout *l = &r->s.reduced;
    const float *x = (const float *)(const void *)r->t->src[0].data + result_at(&r->s, result);
    int64_t index[QN_MAX_RANK] = {0}, at = 0;

    for (int64_t block = 0; block < r->s.n_blocks; block++) {
        const int64_t left = r->s.n_reduced - block * QN_RED_BLOCK, n_rows = left < QN_RED_BLOCK ? left : QN_RED_BLOCK;
        for (int64_t i = 0; i < n_rows; i++) {
            rows[i] = x + at;
            for (int d = l->rank - 1; d >= 0; d--) {
                at += l->stride[d];
                if (++index[d] < l->dim[d]) break;
                at -= l->stride[d] * l->dim[d];
                index[d] = 0;
            }
        }
        memset(next, 0, (size_t)n * sizeof next[0]);
        r->op->columns(r->t, rows, n_rows, n, r->t->tile, next);
        for (int64_t c = 0; c < n; c++) merge(r, block, &all[c], &next[c]);
    }
    for (int64_t c = 0; c < n; c++) put(r, result + c, &all[c]);
}

static void run_results(const reducer *r, int64_t begin, int64_t end)
{
    const qn_layout *k = &r->s.kept;
    const int64_t row = k->rank ? k->dim[k->rank - 1] : 1;
    const bool columns = has_columns(r);
    for (int64_t i = begin, n; i < end; i += n) {
        n = 1;
        if (columns) {
            n = row - i % row;
            n = n < end - i ? n : end - i;
            n = n < COLUMNS ? n : COLUMNS;
        }
        if (columns)
            reduce_columns(r, i, n);
        else
            reduce_one(r, i);
    }
}

/* ---- phases ---------------------------------------------------------------------------------- */

void qn__red_run(const qn_task *t, const qn_red *op)
{
    const reducer r = reducer_of(t, op);
    qn_red_state *states = (qn_red_state *)(void *)t->scratch; /* [results, blocks] */
    if (!by_blocks(&r.s)) {
        run_results(&r, t->begin, t->end);
        return;
    }
    for (int64_t i = t->begin; i < t->end; i++) {
        if (t->phase == 0) {
            qn_walk w = walk_of_result(&r, i / r.s.n_blocks);
            reduce_block(&r, &w, i % r.s.n_blocks, &states[i]);
            continue;
        }
        qn_red_state all = {0};
        for (int64_t b = 0; b < r.s.n_blocks; b++) merge(&r, b, &all, &states[i * r.s.n_blocks + b]);
        put(&r, i, &all);
    }
}
