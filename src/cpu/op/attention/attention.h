/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/attention.h -- one tile of a list for a run of queries that read it: attention.c cuts,
 * attention_tile.c and attention_int.c compute, in the two ways that attention.c describes. */
#ifndef QN_CPU_OP_ATTENTION_H
#define QN_CPU_OP_ATTENTION_H

#include "cpu/op/row.h"

#include <string.h>

enum {
    QN_ATTN_TILE = 128, /* cells: part of what a result is, see attention.c */
    /* (query, head) pairs at once, at most; four vectors of lanes by six cells fill the registers */
    QN_ATTN_LANES = 64,
    QN_ATTN_ROWS = 256,  /* such pairs of a unit, at most: in integers, groups of up to LANES share what is unpacked */
    QN_ATTN_SLICE = 256, /* elements of a head at once */
    QN_ATTN_SKINNY = 8,  /* pairs: integers put cells and elements of V in lanes instead */
    /* cells unpacked at once, at most: with head size 64 they and the lanes' queries stay in L1 */
    QN_ATTN_UNPACK = 64,
};
#define QN_ATTN_INFINITY __builtin_inff()

/* A part of a head's rows of K or V: where cell 0 has it, from a cell to the next, and its length, in bytes. */
typedef struct qn_attn_rows {
    const uint8_t *base;
    int64_t cell_bytes, bytes;
} qn_attn_rows;

typedef struct qn_attn {
    const qn_task *t;
    const qn_attn_attrs *attrs;
    int64_t kv_head, first_head, n_heads; /* query heads [first_head, + n_heads) read it */
    /* KV heads whose rows are read side by side; more than one only where rows are few */
    int64_t first_kv, n_kv_heads;
    /* such, and the part of the tiles, that the worker reads next; next_part -1: nobody knows */
    int64_t next_kv, next_kv_heads, next_part;
    bool prefetched;                                /* memory was asked for the rows of these */
    int64_t first_value, n_values;                  /* the slice of the value rows */
    int64_t first_query, n_queries;                 /* all see a part of the same list */
    int64_t begin[QN_ATTN_ROWS], end[QN_ATTN_ROWS]; /* by query: the part of the list that counts */

    /* The group at hand; only integers know more than one. Lane l is row r = first_row + l: query r / n_heads and head
     * r % n_heads. */
    int64_t list, first_row, n_rows, n_lanes;
    int64_t n_unpack;  /* cells unpacked at once here */
    float *q;          /* [d, n_lanes] of a slice; few rows: [n_rows, d] */
    float *s;          /* [QN_ATTN_TILE, n_lanes] */
    float *rows;       /* rows of K or V; 16 results on their way */
    float *transposed; /* [slice, QN_ATTN_UNPACK], or any other rows in passing */
    /* What a tile gave, and what tiles gave so far: [n_values, n_lanes] and [n_lanes]. A row that saw nothing has sum
     * 0. */
    float *y, *max, *sum;
    float *total, *total_max, *total_sum;
    int32_t *first, *last; /* [n_lanes] by row: the cells of the tile that it sees */

    int64_t all_rows, group_rows; /* group_rows: of every group but the last */

    /* Integers only: the same of all groups, one behind the other. */
    float *all_total, *all_total_max, *all_total_sum;
    int32_t *all_first, *all_last;
    float *heads;                   /* of each KV head abreast: s, log_scale, weight, v16, q_scale, q16 */
    int64_t d_pad, n_pad;           /* elements of a slice of K, and of V, as multiples of 16 */
    int64_t first_block, end_block; /* blocks of 16 cells of the tile that some row of the group sees */
    bool skinny;                    /* cells and elements of V in lanes instead of rows */
    int16_t *q16;                   /* [d_pad / 2, n_lanes] pairs; few: [n_rows, d_pad] */
    int64_t k_cells;                /* cells of K at a time: all, or for one group some */
    int16_t *k16;                   /* [k_cells, d_pad] */
    int16_t *kt16;                  /* few: the same transposed, [d_pad / 2, k_cells] pairs */
    int16_t *v16;                   /* [QN_ATTN_TILE / 2, n_pad] pairs */
    int16_t *p16;                   /* [QN_ATTN_TILE / 2, n_lanes] pairs; few: [n_rows, QN_ATTN_TILE] */
    float *q_scale, *k_scale;       /* by row, by cell */
    float *log_scale, *weight;      /* of V, by cell */
    float *p_scale;                 /* [QN_ATTN_BLOCKS, n_lanes] */
    float *ones;                    /* few: [n_pad] */
    /* tiles are kept apart: where rows are few, y stays in the piece, as rows */
    bool kept;

    int32_t cell[QN_ATTN_TILE]; /* of the tile, absent ones left out */
    int64_t n_cells;
    const int32_t *next_cell; /* whose rows are read next: of the same tile, or in next_list */
    int32_t next_list[QN_ATTN_TILE];
    qn_attn_rows next_k, next_v;
    /* of these; memory was asked for so many; where that tile starts in the list, or -1 */
    int64_t n_next, n_prefetched, next_at;
    /* for how many it should have been by now, and what a step adds to that, in 1 / 256 */
    int64_t due, due_a_step;
    int64_t full_first, full_last; /* what every row that sees any sees */
} qn_attn;

/* How many rows of a unit fit into a thread's tile: 16 to QN_ATTN_LANES, or QN_ATTN_ROWS for integers. */
int64_t qn__attn_lanes(int64_t d, int64_t dv);
int64_t qn__attn_int_rows(int64_t d, int64_t dv);
void qn__attn_start(qn_attn *a, int64_t list);
void qn__attn_int_start(qn_attn *a, int64_t list);
/* How many KV heads may be read side by side where rows are few; 1 where a head comes in slices. */
int64_t qn__attn_int_kv_heads(int64_t d, int64_t dv);
/* The tile that starts at `at` in the list: fills y, max, sum. In integers: what all heads and groups share, then of a
 * KV head abreast a group by its first row; `choose` only points to what is theirs. */
void qn__attn_tile(qn_attn *a, int64_t at);
void qn__attn_int_tile(qn_attn *a, int64_t at);
void qn__attn_int_choose(qn_attn *a, int64_t head, int64_t first_row);
void qn__attn_int_group(qn_attn *a, int64_t head, int64_t first_row);
/* Both: which cells the tile has, and which of them the rows [0, n_rows) see. */
void qn__attn_cells(qn_attn *a, int64_t at, int64_t n_rows);
/* The cells of the tile at `at`, absent ones left out; returns how many. before, or NULL: how many are in front of each
 * of the `places`. */
int64_t qn__attn_list(const qn_attn *a, int64_t at, int32_t cell[QN_ATTN_TILE], int32_t before[QN_ATTN_TILE + 1],
                      int64_t *places);
/* Elements [from, from + n) of `n_cells` rows of K or V into the piece; rows lie n apart, rounded up to 16, and end in
 * zeros. */
void qn__attn_unpack(const qn_attn *a, const qn_view *kv, int64_t first, int64_t n_cells, int64_t from, int64_t n);

static inline int32_t qn__attn_int(const qn_view *v, int64_t i, int64_t j)
{
    int32_t x;
    memcpy(&x, v->data + (i * v->layout.stride[0] + j * v->layout.stride[1]) * 4, 4);
    return x;
}

#endif
