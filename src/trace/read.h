/* SPDX-License-Identifier: MIT */
/* src/trace/read.h -- inside the reader: a trace that is open. */
#ifndef QN_TRACE_READ_H
#define QN_TRACE_READ_H

#include "base/file.h"
#include "base/mem.h"
#include "trace/format.h"

typedef struct qn_trace_pair {
    uint64_t ticks;
    int64_t ns;
} qn_trace_pair;

/* Where a step's span stood. */
typedef struct qn_trace_end {
    uint64_t number, begin, end;
} qn_trace_end;

/* A record of ids. */
typedef struct qn_trace_chosen {
    uint64_t step, order;
    int32_t node, n;
    int32_t *ids;
} qn_trace_chosen;

/* A record of gates, or of hashes. */
typedef struct qn_trace_gated {
    uint64_t step, order;
    int32_t node, n;
    const float *gates;
} qn_trace_gated;
typedef struct qn_trace_hashed {
    uint64_t step, order;
    qn_trace_hashes what;
} qn_trace_hashed;

typedef struct qn_trace_valued {
    uint64_t step, order;
    qn_trace_values what;
} qn_trace_valued;

/* What the system had counted at the end of a step; of no step: before one began. */
typedef struct qn_trace_reading {
    uint64_t step;
    int64_t at_ns;
    qn_trace_counts c;
} qn_trace_reading;

/* Stretches of a file that some step touches: sorted, apart. */
typedef struct qn_trace_stretch {
    int32_t file;
    uint64_t begin, end;
} qn_trace_stretch;

/* An array that grows: n elements, room for cap. */
#define QN_TRACE_LIST(type) \
    struct { \
        type *at; \
        size_t n, cap; \
    }

struct qn_trace {
    qn_map map; /* of the file; its bytes may also be somebody's */
    const uint8_t *data;
    size_t size;
    qn_arena arena; /* plans, texts, what steps have */
    qn_trace_info info;
    uint64_t whole; /* bytes before the damage */
    char damage[320];
    bool ended; /* there is a last block */
    uint8_t *raw;
    size_t raw_cap;
    const char *why_ended;
    uint64_t last_ticks;
    int64_t start_ns;
    QN_TRACE_LIST(qn_trace_plan *) plans;
    QN_TRACE_LIST(qn_trace_step) steps; /* by number */
    QN_TRACE_LIST(qn_trace_end) ends;
    QN_TRACE_LIST(qn_trace_file) files;
    QN_TRACE_LIST(qn_trace_lane) lanes; /* by id */
    QN_TRACE_LIST(qn_trace_note) notes;
    QN_TRACE_LIST(qn_trace_pair) clock;
    QN_TRACE_LIST(qn_trace_usage) usage;   /* at_ns in ticks until all are there */
    QN_TRACE_LIST(qn_trace_chosen) chosen; /* by step */
    QN_TRACE_LIST(qn_trace_gated) gated;   /* by step */
    QN_TRACE_LIST(qn_trace_hashed) hashed; /* by step */
    QN_TRACE_LIST(qn_trace_valued) valued; /* by step */
    qn_trace_choice *choices;              /* of all steps */
    qn_trace_hashes *hashes;
    qn_trace_values *values;
    QN_TRACE_LIST(qn_trace_fault) faults; /* at_ns of CLOCK_MONOTONIC until all are there */
    QN_TRACE_LIST(qn_trace_pause) pauses;
    QN_TRACE_LIST(qn_trace_residency) residency;
    QN_TRACE_LIST(qn_trace_stretch) spans;           /* that steps touch; once they were asked for */
    QN_TRACE_LIST(const qn_trace_residency *) looks; /* by file and time, likewise */
    bool has_spans, has_extents;
    QN_TRACE_LIST(qn_trace_extent) extents;
    QN_TRACE_LIST(qn_trace_reading) readings; /* at_ns in ticks until all are there */
};

/* A trace of these bytes, which stay where they are until it is closed. */
qn_status qn__trace_read(const void *data, size_t size, qn_trace **out, qn_error *err);
/* Room for one more: a pointer to it, zeroed, or NULL. */
#define QN_TRACE_MORE(list) qn__trace_more((void **)(void *)&(list)->at, &(list)->n, &(list)->cap, sizeof *(list)->at)
void *qn__trace_more(void **at, size_t *n, size_t *cap, size_t size);

/* The block's raw bytes, or NULL: *nomem says whether memory was short. They hold until the next. */
const uint8_t *qn__trace_raw(qn_trace *t, const qn_trace_block *b, uint64_t at, bool *nomem);
int64_t qn__trace_to_ns(const qn_trace *t, uint64_t ticks);
const qn_trace_step *qn__trace_find_step(const qn_trace *t, uint64_t number);
qn_trace_lane *qn__trace_find_lane(qn_trace *t, uint32_t id); /* made when it is new; NULL: no memory */

/* What a block of events says, row by row. */
typedef struct qn_trace_rows {
    qn_trace_cursor column[QN_TRACE_COLUMNS];
    uint32_t left;
    int64_t id;
    uint64_t end;
    uint64_t step; /* in force */
    int64_t member;
} qn_trace_rows;
typedef struct qn_trace_row {
    int kind;
    int64_t id;
    uint64_t begin, end, waiting;
} qn_trace_row;
bool qn__trace_rows_init(qn_trace_rows *r, const qn_trace_block *b, const uint8_t *raw);
bool qn__trace_rows_next(qn_trace_rows *r, qn_trace_row *out); /* false: no more, or wrong */
bool qn__trace_rows_whole(const qn_trace_rows *r);             /* at the end: there was what was said, no more */

/* ---- choices.c ---- */
typedef enum qn_trace_found { QN_TRACE_GOOD, QN_TRACE_WRONG, QN_TRACE_NOMEM } qn_trace_found;
qn_trace_found qn__trace_read_choices(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
/* Gives steps their choices; false: no memory. */
bool qn__trace_settle_choices(qn_trace *t);
/* How many experts the node reads in this step. */
double qn__trace_experts(const qn_trace_node *node, const qn_trace_step *step);
/* n signed differences; NULL: no memory. */
int32_t *qn__trace_read_column(qn_trace *t, qn_trace_cursor *c, int32_t n);

/* ---- values.c ---- */
qn_trace_found qn__trace_read_gates(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
qn_trace_found qn__trace_read_hashes(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
qn_trace_found qn__trace_read_values(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
/* Gives choices their gates, and steps their hashes and values; false: no memory. After qn__trace_settle_choices. */
bool qn__trace_settle_values(qn_trace *t);

/* ---- kernel.c ---- */
qn_trace_found qn__trace_read_samples_block(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
qn_trace_found qn__trace_read_residency(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
qn_trace_found qn__trace_read_counts(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
void qn__trace_settle_kernel(qn_trace *t); /* when lanes and steps stand where they stay */

/* ---- pagecache.c ---- */
/* What the kernel would read for a token, in the later half of the steps of decoding, with `room` for the file's bytes,
 * if a page that is missing comes with `block` bytes around it (0: with what is used), and others had `active` bytes on
 * the active list before. `jumps`: of the bytes those for a page that does not follow the one that was used before. No
 * bytes if there are too few steps. False: no memory. */
typedef struct qn_trace_kernel {
    double bytes, jumps;
} qn_trace_kernel;
bool qn__trace_play_kernel(qn_trace *t, uint64_t block, uint64_t room, uint64_t active, qn_trace_kernel *out);

/* ---- touch.c ---- */
bool qn__trace_find_spans(qn_trace *t); /* once, into t->spans; false: no memory */
/* Bytes of [begin, end) that no step touches. */
uint64_t qn__trace_untouched(const qn_trace *t, int32_t file, uint64_t begin, uint64_t end);

/* ---- looks.c ---- */
/* What of files was in memory, from the first look on. */
typedef struct qn_trace_state {
    int32_t file;
    uint64_t unit, n_units;
    double page;
    uint32_t *pages; /* [n_units] */
    uint8_t *seen;   /* [n_units] looked at */
} qn_trace_state;
/* The looks at a file, in order of time; *n of them. */
const qn_trace_residency *const *qn__trace_looks_of(const qn_trace *t, int32_t file, size_t *n);
bool qn__trace_state_init(const qn_trace *t, int32_t file,
                          qn_trace_state *out); /* false: no memory; unit 0: no looks */
void qn__trace_state_deinit(qn_trace_state *s);
void qn__trace_state_put(qn_trace_state *s, const qn_trace_residency *r);
/* Bytes of [begin, end) in memory, and of them those that no step touches; false: not all of it was looked at. */
bool qn__trace_state_sum(const qn_trace *t, const qn_trace_state *s, uint64_t begin, uint64_t end, double *resident,
                         double *unused);

/* ---- plans.c ---- */
qn_trace_found qn__trace_read_plan(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c);
char *qn__trace_keep_text(qn_trace *t, qn_trace_cursor *c); /* "" when c fails; NULL: no memory */

#endif
