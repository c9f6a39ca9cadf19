/* SPDX-License-Identifier: MIT */
/* src/model/memory.h -- what the sequences of a session remember: one table of cells for each group of layers.
 *
 * Group 0 has every position, whether a layer reads it or not: it says what a sequence holds. A list of another group
 * is the end of the sequence's list there; what is missing before it is counted in `gone`. Whatever computes a token
 * asks first whether all that it sees is held, so a token's logits never depend on what was forgotten. */
#ifndef QN_MODEL_MEMORY_H
#define QN_MODEL_MEMORY_H

#include "model/arch.h"
#include "model/kv.h"

typedef struct qn_memory {
    qn_kv kv[QN_MAX_GROUPS];
    int32_t n_groups;
    int32_t *least, *count; /* [n_seq] of a step: the first position of a sequence, and its number of tokens */
} qn_memory;

uint64_t qn__memory_bytes(const qn_kv_size *sizes, int32_t n_groups); /* what init allocates */
qn_status qn__memory_init(qn_memory *m, const qn_kv_size *sizes, int32_t n_groups, qn_error *err);
void qn__memory_deinit(qn_memory *m);

/* The first position from which the sequence can go on when all from there on is removed; 0 when nothing that it holds
 * was forgotten. */
int32_t qn__memory_back(const qn_memory *m, int32_t seq);
/* Is all that a token of that position sees held? */
bool qn__memory_sees(const qn_memory *m, int32_t seq, int32_t pos);

/* Room for a token of the step that begins, of the given position; then for all of them: the oldest entries are
 * forgotten as far as it takes and no token of the step sees them. False when that is not enough, which a sequence
 * whose tokens come in order never meets; *seq is then the sequence. */
void qn__memory_begin(qn_memory *m);
void qn__memory_expect(qn_memory *m, int32_t seq, int32_t pos);
bool qn__memory_make_room(qn_memory *m, int32_t *seq);
/* A cell in each group, rows[group * stride]; false, and nothing added, when the position is taken or no cell is free.
 */
bool qn__memory_add(qn_memory *m, int32_t seq, int32_t pos, qn_token token, int32_t *rows, int64_t stride);

/* These refuse (false) when what the sequence would see next was forgotten. Ranges are [p0, p1). A list that ends
 * empty forgets nothing. */
bool qn__memory_remove(qn_memory *m, int32_t seq, int32_t p0, int32_t p1);
bool qn__memory_copy(qn_memory *m, int32_t src, int32_t dst, int32_t p0, int32_t p1);
bool qn__memory_can_shift(const qn_memory *m, int32_t seq, int32_t p0, int32_t p1, int32_t delta);
/* Removes what was just added, whatever was forgotten. */
void qn__memory_take_back(qn_memory *m, int32_t seq, int32_t pos);

#endif
