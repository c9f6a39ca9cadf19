/* SPDX-License-Identifier: MIT */
/* src/trace/bytes.h -- where bytes come from, as the kernel says it while a recording is on: page faults and lost cores
 * of the threads that compute, and what of the mapped files is in memory. Of the writer's thread alone. */
#ifndef QN_TRACE_BYTES_H
#define QN_TRACE_BYTES_H

#include "trace/format.h"

typedef struct qn_trace_followed qn_trace_followed;
typedef struct qn_trace_bytes {
    qn_str samples, residency; /* rows, as docs/FORMATS.md has them */
    uint32_t n_samples, n_residency;
    int64_t last_ns; /* of the row before, in this block */
    int64_t last_offset;
    qn_str incomplete; /* a note that is to be written: which threads are not sampled, and why */
    bool told;
    uint32_t told_lane;
    char how[256]; /* where faults come from, in words */
    qn_trace_followed *files;
    size_t n_files, cap_files;
    int32_t last_id;      /* of the files that are known */
    size_t at_file;       /* where the sweep stands; n_files: none is under way */
    int64_t allowance_ns; /* 1 % of the time so far, less what sweeps took */
    int64_t looked_ns, swept_ns;
    int64_t swept_read; /* read_bytes of the process at the last sweep */
} qn_trace_bytes;

bool qn__trace_bytes_init(qn_trace_bytes *b, bool samples); /* samples: faults are asked for */
void qn__trace_bytes_deinit(qn_trace_bytes *b);
/* Takes the samples of all rings. False: there are more than there is room for; call again after
 * qn__trace_bytes_clear. */
bool qn__trace_bytes_sample(qn_trace_bytes *b, qn_trace_ring *first);
/* What is in memory, where it has changed: at most 1 % of this thread's time, but the first look at a file, and the
 * last of all. `active`: something was recorded since. */
void qn__trace_bytes_look(qn_trace_bytes *b, bool active, bool last);
bool qn__trace_bytes_full(const qn_trace_bytes *b);     /* the rows should be written now */
uint64_t qn__trace_bytes_held(const qn_trace_bytes *b); /* bytes that it has allocated */
void qn__trace_bytes_clear(qn_trace_bytes *b);

#endif
