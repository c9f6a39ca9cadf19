/* SPDX-License-Identifier: MIT */
/* src/model/kv.h -- bookkeeping of the KV cache: which cell holds which position of which sequence. No tensor data
 * here.
 *
 * A cell is a row of every layer's K and V. A sequence is a list of cells in order of position; a cell may stand in
 * several lists (a shared prefix). A query sees a prefix of its own list, so what it computes depends on nothing but
 * its sequence. Invariants: lists are strictly increasing in position; refs[c] is the number of lists that hold c;
 * n_used counts cells with refs > 0. Nothing allocates after init. */
#ifndef QN_MODEL_KV_H
#define QN_MODEL_KV_H

#include "base/error.h"
#include <quern/text.h>

typedef struct qn_kv {
    int32_t n_cells, n_seq, n_used;
    int32_t *pos;                 /* [n_cells] */
    qn_token *token;              /* [n_cells] */
    uint16_t *refs;               /* [n_cells] */
    int32_t *list;                /* [n_seq, n_cells] */
    int32_t *len;                 /* [n_seq] */
    int32_t *dirty_lo, *dirty_hi; /* [n_seq] entries of the list that changed since qn__kv_clean: lo < hi */
    int32_t next;                 /* where the search for a free cell goes on */
} qn_kv;

uint64_t qn__kv_bytes(int32_t n_cells, int32_t n_seq); /* what init allocates */
qn_status qn__kv_init(qn_kv *kv, int32_t n_cells, int32_t n_seq, qn_error *err);
void qn__kv_deinit(qn_kv *kv);
void qn__kv_clear(qn_kv *kv);

static inline int32_t *qn__kv_list(const qn_kv *kv, int32_t seq) { return kv->list + (int64_t)seq * kv->n_cells; }
/* Index of the first entry with position >= pos. */
int32_t qn__kv_lower(const qn_kv *kv, int32_t seq, int32_t pos);

/* Takes a free cell for (token, pos) of seq and puts it in its list; returns the cell, or -1 when none is free or pos
 * is taken. */
int32_t qn__kv_add(qn_kv *kv, int32_t seq, int32_t pos, qn_token token);
/* Positions [p0, p1); returns the number of entries that went. */
int32_t qn__kv_remove(qn_kv *kv, int32_t seq, int32_t p0, int32_t p1);
/* Shares; dst must be another sequence and is emptied first. */
void qn__kv_copy(qn_kv *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1);
/* Would moving [p0,p1) by delta keep positions >= 0 and free of collisions with entries outside the range? */
bool qn__kv_can_shift(const qn_kv *kv, int32_t seq, int32_t p0, int32_t p1, int32_t delta);
/* Number of entries of [p0,p1) that other sequences hold too. */
int32_t qn__kv_shared(const qn_kv *kv, int32_t seq, int32_t p0, int32_t p1);
/* Moves them: entry i of the range goes from cell src[i] to dst[i] (another one when it was shared). src and dst have
 * room for the range; returns its size. Needs qn__kv_can_shift and enough free cells for the shared ones. The data must
 * follow. */
int32_t qn__kv_shift(qn_kv *kv, int32_t seq, int32_t p0, int32_t p1, int32_t delta, int32_t *src, int32_t *dst);

#endif
