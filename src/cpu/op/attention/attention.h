/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention.h -- one tile of a list for a run of queries that read it: attention.c divides the
 * work, attention_tile.c (in floats) and attention_int.c (in integers) compute. A row is a (query, head) pair. */
#ifndef QN_CPU_OP_ATTENTION_H
#define QN_CPU_OP_ATTENTION_H

#include "cpu/op/row.h"

#include <string.h>

enum {
    QN_ATTN_LANES = 64,  /* rows at a time, at most: four vectors of lanes by six cells fill the registers */
    QN_ATTN_ROWS = 256,  /* rows of a unit, at most: in integers, groups of up to LANES share what is unpacked */
    QN_ATTN_SLICE = 256, /* elements of a head at a time */
    QN_ATTN_SKINNY = 8,  /* rows; in integers, up to this many rows put cells and elements of V in lanes instead */
    QN_ATTN_UNPACK = 64, /* cells unpacked at a time, at most: head size 64 and the queries stay in L1 */
};
#define QN_ATTN_INFINITY __builtin_inff()

/* What is computed: a run of queries that read one list, and the tile and the group of rows at hand. */
typedef struct qn_attn_geometry {
    int64_t list;
    int64_t first_query, n_queries;
    int64_t begin[QN_ATTN_ROWS], end[QN_ATTN_ROWS]; /* by query: the part of the list that it sees */
    int64_t first_kv, n_kv_heads;                   /* KV heads of the item; more than one only where rows are few */
    int64_t kv_head, first_head, n_heads; /* the KV head at hand; query heads [first_head, + n_heads) read it */
    int64_t first_value, n_values;        /* the slice of the value rows */
    int64_t all_rows, group_rows;         /* group_rows: of every group but the last */
    bool skinny;                          /* cells and elements of V in lanes instead of rows */
    bool kept;                            /* a tile's result goes to scratch, not to `total` */

    /* The group at hand; only integers have more than one. Lane l is row r = first_row + l: query r / n_heads and head
     * r % n_heads. */
    int64_t first_row, n_rows, n_lanes;

    /* The tile at hand: its cells, without absent ones, and which of them every row sees that sees any. */
    int32_t cell[QN_ATTN_TILE];
    int32_t pos[QN_ATTN_TILE]; /* with ALiBi: their positions */
    int64_t n_cells;
    int64_t full_first, full_last;

    int64_t n_unpack;               /* floats: cells unpacked at a time */
    int64_t k_cells;                /* integers: cells of K at a time; all of the tile, or some for a single group */
    int64_t d_pad, n_pad;           /* integers: elements of a slice of K, and of V, as multiples of 16 */
    int64_t first_block, end_block; /* integers: blocks of 16 cells of the tile that some row of the group sees */
} qn_attn_geometry;

/* Parts of the thread's tile. attention_tile.c and attention_int.c list their sizes. */
typedef struct qn_attn_scratch {
    float *q;          /* [d, n_lanes] of a slice; few rows: [n_rows, d] */
    float *s;          /* [QN_ATTN_TILE, n_lanes]; integers and skinny: [n_rows, QN_ATTN_TILE] */
    float *rows;       /* unpacked rows of K or V; or 16 rows of results; integers, skinny and kept: y as rows */
    float *transposed; /* [slice, QN_ATTN_UNPACK], or other rows */
    /* Of a tile, and of tiles so far: [n_values, n_lanes] and [n_lanes]. A row that saw nothing has sum 0. */
    float *y, *max, *sum;
    float *total, *total_max, *total_sum;
    int32_t *first, *last; /* [n_lanes]: the cells of the tile that a row sees */

    /* Integers: the same of all groups, one after the other. */
    float *all_total, *all_total_max, *all_total_sum;
    int32_t *all_first, *all_last;
    float *heads;     /* what each KV head of the item has: s, log_scale, weight, v16, q_scale, q16 */
    int16_t *q16;     /* [d_pad / 2, n_lanes] pairs; skinny: [n_rows, d_pad] */
    int16_t *k16;     /* [k_cells, d_pad] */
    int16_t *kt16;    /* skinny: the same transposed, [d_pad / 2, k_cells] pairs */
    int16_t *v16;     /* [QN_ATTN_TILE / 2, n_pad] pairs */
    int16_t *p16;     /* [QN_ATTN_TILE / 2, n_lanes] pairs; skinny: [n_rows, QN_ATTN_TILE] */
    float *q_scale;   /* by row */
    float *k_scale;   /* by cell */
    float *log_scale; /* of V, by cell */
    float *weight;    /* of V, by cell */
    float *p_scale;   /* [QN_ATTN_BLOCKS, n_lanes] */
    float *ones;      /* skinny: [n_pad] */
} qn_attn_scratch;

/* A part of a head's rows of K or V in bytes: where cell 0 has it, the stride between cells, and its length. */
typedef struct qn_attn_rows {
    const uint8_t *base;
    int64_t cell_bytes, bytes;
} qn_attn_rows;

/* What the thread reads next: prefetched evenly while the tile at hand is computed. Only integers, and skinny. */
typedef struct qn_attn_prefetch {
    bool warm;                          /* the rows of the item at hand were prefetched during the item before */
    int64_t first_kv, n_kv_heads, part; /* the next item; part -1: unknown */
    int64_t at;                         /* where its tile starts in the list, or -1 */
    const int32_t *cell;                /* its cells: those of the tile at hand, or `cells` */
    int32_t cells[QN_ATTN_TILE];
    qn_attn_rows k, v;
    int64_t n, n_done;         /* cells; how many of them are prefetched */
    int64_t due, due_per_step; /* how many should be by now, and what a step adds, in 1 / 256 */
} qn_attn_prefetch;

typedef struct qn_attn {
    const qn_task *t;
    const qn_attn_attrs *attrs;
    qn_attn_geometry geo;
    qn_attn_scratch mem;
    qn_attn_prefetch next;
} qn_attn;

/* For the lists of scratch: ROW(name, floats). */
#define QN_ATTN_SIZE(name, n) +(n)
#define QN_ATTN_TAKE(name, n) a->mem.name = (void *)next, next += (n);

/* How many rows of a unit fit the thread's tile: 16 to QN_ATTN_LANES, for integers to QN_ATTN_ROWS. */
int64_t qn__attn_lanes(int64_t d, int64_t dv);
int64_t qn__attn_int_rows(int64_t d, int64_t dv);
void qn__attn_start(qn_attn *a, int64_t list);
void qn__attn_int_start(qn_attn *a, int64_t list);
/* How many KV heads an item may have where rows are few; 1 where a head comes in slices. */
int64_t qn__attn_int_kv_heads(int64_t d, int64_t dv);
/* What all tiles of the node's rows are merged into, before the first: sinks, or nothing. */
void qn__attn_begin(const qn_attn *a, float *max, float *sum, int64_t n_lanes);
/* Computes the tile that starts at `at` in the list: y, max, sum. In integers: first what all heads and groups
 * share, then, for a KV head `kv` of the item, one group by its first row. `choose` only sets the pointers for that
 * head and group. */
void qn__attn_tile(qn_attn *a, int64_t at);
void qn__attn_int_tile(qn_attn *a, int64_t at);
void qn__attn_int_choose(qn_attn *a, int64_t kv, int64_t first_row);
void qn__attn_int_group(qn_attn *a, int64_t kv, int64_t first_row);
/* Both: sets the cells of the tile, and which of them the rows [0, n_rows) see. */
void qn__attn_cells(qn_attn *a, int64_t at, int64_t n_rows);
/* The cells of the tile at `at`, without absent ones; returns how many. before, or NULL: the number of cells in
 * front of each of the `places` of the list. */
int64_t qn__attn_list(const qn_attn *a, int64_t at, int32_t cell[QN_ATTN_TILE], int32_t before[QN_ATTN_TILE + 1],
                      int64_t *places);
/* s = softcap * tanh(s / softcap), for a run of n scores. */
void qn__attn_bend(const qn_attn *a, float *s, int64_t n);
/* With ALiBi: subtracts from the scores of cells [from, to) of the group at hand what their distance costs. */
void qn__attn_distance(qn_attn *a, int64_t from, int64_t to);
/* Unpacks elements [from, from + n) of `n_cells` rows of K or V to mem.rows, n apart, rounded up to 16, padded with
 * zeros. */
void qn__attn_unpack(const qn_attn *a, const qn_view *kv, int64_t first, int64_t n_cells, int64_t from, int64_t n);

/* The sink of a head, or NULL. */
static inline const float *qn__attn_sink(const qn_task *t, int64_t head)
{
    if (!((const qn_attn_attrs *)t->attrs)->has_sinks) return NULL;
    return (const float *)(const void *)t->src[5].data + head * t->src[5].layout.stride[0];
}

/* With ALiBi positions follow the lists. */
static inline int64_t qn__attn_n_lists(const qn_task *t)
{
    return t->src[3].layout.dim[0] / (((const qn_attn_attrs *)t->attrs)->alibi > 0 ? 2 : 1);
}

static inline int32_t qn__attn_int(const qn_view *v, int64_t i, int64_t j)
{
    int32_t x;
    memcpy(&x, v->data + (i * v->layout.stride[0] + j * v->layout.stride[1]) * 4, 4);
    return x;
}

#endif
