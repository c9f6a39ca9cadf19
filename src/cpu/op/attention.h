/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention.h -- one tile of a list for a run of queries that read it: attention.c cuts, attention_tile.c computes. */
#ifndef QN_CPU_OP_ATTENTION_H
#define QN_CPU_OP_ATTENTION_H

#include "cpu/row.h"

#include <string.h>

enum {
    QN_ATTN_TILE = 256,   /* cells: part of what a result is, see attention.c */
    QN_ATTN_LANES = 64,   /* (query, head) pairs at once, at most; four vectors of lanes by six cells fill the registers */
    QN_ATTN_SLICE = 256,  /* elements of a head at once */
    QN_ATTN_PIECE = 64,   /* cells unpacked at once, at most: with head size 64 they and the lanes' queries stay in L1 */
};
#define QN_ATTN_INFINITY __builtin_inff()

typedef struct qn_attn {
    const qn_task *t;
    const qn_attn_attrs *attrs;
    int64_t kv_head, first_head, n_heads;
    int64_t first_value, n_values;             /* the slice of the value rows */
    int64_t first_query, n_queries;            /* all see a part of the same list */
    int64_t begin[QN_ATTN_LANES], end[QN_ATTN_LANES]; /* by query: the part of the list that counts */

    /* Set by qn__attn_start. Row r is query r / n_heads and head r % n_heads, and lane r. */
    int64_t list, n_rows, n_lanes;
    int64_t n_piece;                           /* cells unpacked at once here */
    float *q;                                  /* [d, n_lanes] of a slice; few rows: [n_rows, d] */
    float *s;                                  /* [QN_ATTN_TILE, n_lanes] */
    float *piece;                              /* [QN_ATTN_PIECE, slice] rows of K or V */
    float *turned;                             /* [slice, QN_ATTN_PIECE], or any other rows in passing */
    /* What a tile gave, and what tiles gave so far: [n_values, n_lanes] and [n_lanes]. A row that saw nothing has sum 0. */
    float *y, *max, *sum;
    float *total, *total_max, *total_sum;
    int32_t *first, *last;                     /* [n_lanes] by row: the cells of the tile that it sees */

    int32_t cell[QN_ATTN_TILE];                /* of the tile, absent ones left out */
    int64_t n_cells;
    int64_t full_first, full_last;             /* what every row that sees any sees */
} qn_attn;

/* How many lanes fit into a thread's tile: 16 to 64. */
int64_t qn__attn_lanes(int64_t d, int64_t dv);
void qn__attn_start(qn_attn *a, int64_t list);
/* The tile that starts at `at` in the list: fills y, max, sum. */
void qn__attn_tile(qn_attn *a, int64_t at);
/* y, max, sum into total, total_max, total_sum. */
void qn__attn_merge(qn_attn *a);
/* y or total as rows [n_rows, n_values]; valid until the next tile. */
float *qn__attn_rows(qn_attn *a, const float *y);

static inline int32_t qn__attn_int(const qn_view *v, int64_t i, int64_t j)
{
    int32_t x;
    memcpy(&x, v->data + (i * v->layout.stride[0] + j * v->layout.stride[1]) * 4, 4);
    return x;
}

#endif
