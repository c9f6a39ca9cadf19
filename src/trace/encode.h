/* SPDX-License-Identifier: MIT */
/* src/trace/encode.h -- what stands in a ring becomes rows of blocks. */
#ifndef QN_TRACE_ENCODE_H
#define QN_TRACE_ENCODE_H

#include "trace/format.h"

/* Durations of the last steps of a phase, for finding slow ones. */
enum { QN_TRACE_RECENT = 64 };
typedef struct qn_trace_recent {
    uint64_t ticks[QN_TRACE_RECENT]; /* a token */
    int n, next;
} qn_trace_recent;

typedef struct qn_trace_encoder {
    uint8_t *column[QN_TRACE_COLUMNS]; /* each with room for QN_TRACE_MAX_ROWS rows */
    size_t used[QN_TRACE_COLUMNS];
    uint32_t n_events, n_steps, n_marks;
    uint64_t base_end, base_step; /* ticks; a number */
    int32_t base_member;
    qn_str choices, gates, hashes, counts, values;
    uint32_t n_choices, n_gates, n_hashes, n_counts, n_values;
    qn_str steps, marks, scratch, raw; /* rows; a record taken out of the ring; a block before it is packed */
    qn_trace_step_head last;           /* of the ring at hand */
    qn_trace_recent recent[QN_TRACE_PHASE_COUNT];
    float if_slow;
    bool slow;     /* a step was: until somebody clears it */
    bool any_node; /* came, ever */
} qn_trace_encoder;

bool qn__trace_encoder_init(qn_trace_encoder *e);
void qn__trace_encoder_deinit(qn_trace_encoder *e);
/* Takes slots from the ring's tail up to `limit`, until a block is full. Afterwards `raw`-forms are made by the three
 * below, and reset by qn__trace_encoder_clear. */
void qn__trace_encode(qn_trace_encoder *e, qn_trace_ring *r, uint64_t limit);
/* The payload of the block of events, in e->raw. *n_alike: bytes at its beginning that are nearly the same step by
 * step; what follows are times, which deflate takes little from. */
bool qn__trace_encode_events(qn_trace_encoder *e, size_t *n_alike);
void qn__trace_encoder_clear(qn_trace_encoder *e);

#endif
