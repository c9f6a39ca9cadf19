/* SPDX-License-Identifier: MIT */
/* src/model/kv.h -- bookkeeping of one group of the cache: which cell holds which position of which sequence. No tensor
 * data here.
 *
 * A group is the layers that remember alike: all positions, or those that a window looks back on. A cell is a row of
 * each of these layers' caches. A sequence is a list of cells in order of position; a cell may stand in several lists
 * (a shared prefix). A query sees a span of its own list, so what it computes depends on nothing but its sequence.
 *
 * A window's group forgets the oldest entries of a list. Attention divides lists into tiles, so the entries that stay
 * keep their places within tiles: the list at hand begins gone % QN_ATTN_TILE places into its row, and what lies in
 * these places is in no span.
 *
 * The tree of prefixes (model/prefix_tree.h) holds cells beside the lists: it keeps them.
 *
 * Invariants: lists are strictly increasing in position; refs[c] is the number of lists that hold c, and one more where
 * it is kept; n_used counts cells with refs > 0, n_kept those that are kept, n_both those of them that a list holds
 * too; what stands in a row is the number of a cell. Nothing allocates after init. */
#ifndef QN_MODEL_KV_H
#define QN_MODEL_KV_H

#include "base/error.h"
#include "graph/graph.h"
#include <quern/text.h>

/* Of the last tokens of a sequence so many can be taken back and computed again, however small the batch is: a window's
 * group has cells for them. */
#define QN_KV_BACK 64

typedef struct qn_kv_size {
    int32_t window; /* positions that a token sees, its own among them; 0: all */
    int32_t n_seq, n_cells;
    int32_t most; /* entries of a list */
    int32_t row;  /* places of a list: entries, and up to a tile of what was forgotten */
} qn_kv_size;
/* n_batch: the most tokens that one step adds to a sequence. n_ends: of prefixes that are kept, whose windows have
 * cells beside those of the sequences. */
qn_kv_size qn__kv_size(int32_t window, int32_t n_ctx, int32_t n_batch, int32_t n_seq, int32_t n_ends);

typedef struct qn_kv {
    qn_kv_size size;
    int32_t n_used, n_kept, n_both;
    int32_t *pos;                 /* [n_cells] */
    qn_token *token;              /* [n_cells] */
    uint16_t *refs;               /* [n_cells] */
    bool *kept;                   /* [n_cells] */
    int32_t *rows;                /* [n_seq, row] */
    int32_t *len;                 /* [n_seq] */
    int32_t *gone;                /* [n_seq] entries that the sequence has before the first of its list: forgotten */
    int32_t *dirty_lo, *dirty_hi; /* [n_seq] places of the row that changed since they were set to 0: lo < hi */
    int32_t next;                 /* where the search for a free cell goes on */
} qn_kv;

uint64_t qn__kv_bytes(const qn_kv_size *size); /* what init allocates */
qn_status qn__kv_init(qn_kv *kv, const qn_kv_size *size, qn_error *err);
void qn__kv_deinit(qn_kv *kv);
void qn__kv_clear(qn_kv *kv);

static inline int32_t *qn__kv_row(const qn_kv *kv, int32_t seq) { return kv->rows + (int64_t)seq * kv->size.row; }
/* The place of a list's first entry. */
static inline int32_t qn__kv_start(const qn_kv *kv, int32_t seq) { return kv->gone[seq] % QN_ATTN_TILE; }
static inline int32_t *qn__kv_list(const qn_kv *kv, int32_t seq) { return qn__kv_row(kv, seq) + qn__kv_start(kv, seq); }
static inline int32_t qn__kv_free(const qn_kv *kv) { return kv->size.n_cells - kv->n_used; }
/* Index of the first entry with position >= pos. */
int32_t qn__kv_lower(const qn_kv *kv, int32_t seq, int32_t pos);

/* Takes a free cell for (token, pos) of seq and puts it in its list; returns the cell, or -1 when none is free, the
 * list is full or pos is taken. */
int32_t qn__kv_add(qn_kv *kv, int32_t seq, int32_t pos, qn_token token);
/* Positions [p0, p1); returns the number of entries that went. */
int32_t qn__kv_remove(qn_kv *kv, int32_t seq, int32_t p0, int32_t p1);
/* The oldest n entries: the sequence has them still, the group does not. */
void qn__kv_forget(qn_kv *kv, int32_t seq, int32_t n);
/* Sets how many entries the sequence has before the list's first. */
void qn__kv_set_gone(qn_kv *kv, int32_t seq, int32_t gone);
/* Shares; dst must be another sequence and is emptied first. gone: of what is copied. */
void qn__kv_copy(qn_kv *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1, int32_t gone);
/* The list of a sequence that is empty: cells in order of position, `gone` entries before them forgotten. */
void qn__kv_share(qn_kv *kv, int32_t seq, const int32_t *cells, int32_t n, int32_t gone);
/* Entry i becomes another cell of the same position and token. */
void qn__kv_exchange(qn_kv *kv, int32_t seq, int32_t i, int32_t cell);
/* Keeps a cell that a list holds and nobody keeps; lets go of one that is kept. */
void qn__kv_keep(qn_kv *kv, int32_t cell);
void qn__kv_let_go(qn_kv *kv, int32_t cell);
/* Would moving [p0,p1) by delta keep positions >= 0 and free of collisions with entries outside the range? */
bool qn__kv_can_shift(const qn_kv *kv, int32_t seq, int32_t p0, int32_t p1, int32_t delta);
/* Number of entries of [p0,p1) that other sequences hold too. */
int32_t qn__kv_shared(const qn_kv *kv, int32_t seq, int32_t p0, int32_t p1);
/* Moves them: entry i of the range goes from cell src[i] to dst[i] (another one when it was shared). src and dst have
 * room for the range; returns its size. Needs qn__kv_can_shift and enough free cells for the shared ones. The data must
 * follow. */
int32_t qn__kv_shift(qn_kv *kv, int32_t seq, int32_t p0, int32_t p1, int32_t delta, int32_t *src, int32_t *dst);

#endif
