/* SPDX-License-Identifier: MIT */
/* quern/trace.h -- recording where time goes, and reading what was recorded.
 *
 * One recording at a time, of the whole process: every session and tensor program that runs while it is on. Each thread
 * notes when a node ended, in memory of its own, without waiting for anybody; a thread of low priority writes it to a
 * file. A record that finds no room is dropped and counted. Results stay the same to the bit.
 *
 *     qn_trace_start("run.qtr", NULL, &err);
 *     ... qn_session_feed(...) ...
 *     qn_trace_stop(NULL, &err);
 *
 *     qn_trace *t;
 *     qn_trace_open("run.qtr", &t, &err);
 *     qn_trace_walk(t, print_event, NULL, &err);
 *     qn_trace_close(t);
 *
 * docs/FORMATS.md has the file byte for byte. */
#ifndef QUERN_TRACE_H
#define QUERN_TRACE_H

#include <quern/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is recorded: QN_TRACE_KIND(name, "what it is"). Numbers in files: append only. */
/* clang-format off */
#define QN_TRACE_KIND_ROWS(QN_TRACE_KIND) \
    QN_TRACE_KIND(run,      "a thread begins its part of a step (not shown by qn_trace_walk)") \
    QN_TRACE_KIND(node,     "a node of a graph, on one thread") \
    QN_TRACE_KIND(transfer, "a value copied to another backend") \
    QN_TRACE_KIND(step,     "one run of a compiled graph") \
    QN_TRACE_KIND(upload,   "inputs and lists of cells made ready for a step") \
    QN_TRACE_KIND(download, "results of a step read") \
    QN_TRACE_KIND(compile,  "a graph built, planned and compiled") \
    QN_TRACE_KIND(load,     "a model opened") \
    QN_TRACE_KIND(sample,   "a token chosen") \
    QN_TRACE_KIND(mark,     "of the caller's (qn_trace_mark, qn_trace_span)") \
    QN_TRACE_KIND(weights,  "a node waited for its weights to be read (qn_engine_options.memory)")
/* clang-format on */
#define QN_TRACE_KIND_ENUM(name, text) QN_TRACE_##name,
typedef enum qn_trace_kind { QN_TRACE_KIND_ROWS(QN_TRACE_KIND_ENUM) QN_TRACE_KIND_COUNT } qn_trace_kind;
#undef QN_TRACE_KIND_ENUM
QN_API const char *qn_trace_kind_name(int kind); /* "?" when there is none */

/* Phases of steps: prompt, several tokens of a sequence at once; decode, one token of each sequence; mixed, both;
 * other, what has no tokens: tensor programs, training, cells moved in the cache. Numbers in files: append only. */
/* clang-format off */
#define QN_TRACE_PHASE_ROWS(QN_TRACE_PHASE) \
    QN_TRACE_PHASE(other) QN_TRACE_PHASE(prompt) QN_TRACE_PHASE(decode) QN_TRACE_PHASE(mixed)
/* clang-format on */
#define QN_TRACE_PHASE_ENUM(name) QN_TRACE_PHASE_##name,
typedef enum qn_trace_phase { QN_TRACE_PHASE_ROWS(QN_TRACE_PHASE_ENUM) QN_TRACE_PHASE_COUNT } qn_trace_phase;
#undef QN_TRACE_PHASE_ENUM
QN_API const char *qn_trace_phase_name(int phase); /* "?" when there is none */

/* ---- recording ------------------------------------------------------------------------------- */

typedef struct qn_trace_note {
    const char *key, *value;
} qn_trace_note; /* UTF-8 */

typedef struct qn_trace_options {
    uint64_t limit_bytes; /* of the file: recording ends there; 0: no limit */
    uint64_t last_bytes;  /* not 0: keep about this much of the last records in memory, and write it when asked
                           * (qn_trace_dump), and on a slow step */
    float if_slow;        /* with last_bytes: write when a step takes so many times the median of its kind; 0: never */
    uint32_t ring_bytes;  /* a thread; 0: 3 MiB */
    /* Which steps and nodes; NULL: all. Lists with commas: patterns of operations ("linear*,attention"), layers
     * ("0,3-5,-1", -1 outside of layers), positions ("0-9,100-"), phases. */
    const char *ops, *layers, *tokens, *phases;
    bool no_tokens;             /* leave token ids out of the file */
    bool no_experts;            /* leave out which experts were chosen, and their gates */
    bool no_faults;             /* do not sample page faults and lost cores */
    const qn_trace_note *notes; /* about this run, for who reads it: "command", "model" */
    int n_notes;
} qn_trace_options;

typedef struct qn_trace_summary {
    uint64_t events, dropped, steps, bytes; /* written, lost, begun, of the file or all files */
    int n_files;                            /* written; with last_bytes 0 when nothing asked for it; 0 too when there
                                             * was no step and no mark, and another recording is at the path */
    bool failed;                            /* the file could not be written to its end; `reason` says why */
    bool limited;                           /* limit_bytes was reached */
    char reason[256];
    bool any_node; /* false: no step came, or none of its nodes was to be recorded */
} qn_trace_summary;

/* Starts the recording into the file at path, which is made anew; a recording that is there stays until the first step
 * or mark has been recorded, and where there is none. With last_bytes nothing is written yet, and what is
 * written later goes to path, path.2, path.3 .. Options may be NULL and are copied. state when a recording is on,
 * invalid when a list is none, io when the file cannot be made. A disk that is full later ends the recording, is logged
 * once, and fails nothing else. Thread-safe. */
QN_API qn_status qn_trace_start(const char *path, const qn_trace_options *options, qn_error *err);
/* Waits for steps under way, writes what is left, closes the file. summary may be NULL. state when no recording is on,
 * and inside of a callback of a run. Whether writing went well is in the summary, not in the status. */
QN_API qn_status qn_trace_stop(qn_trace_summary *summary, qn_error *err);
QN_API bool qn_trace_is_on(void);
/* With last_bytes: writes what is kept, soon, from another thread. May be called in a signal handler. */
QN_API void qn_trace_dump(void);
/* With last_bytes: what is kept now, as the bytes of a file; the caller frees *out with qn_free. Waits for the writer,
 * some 20 ms. state when no recording keeps the last, nomem. Thread-safe; not inside of a callback of a run. */
QN_API qn_status qn_trace_copy(char **out, size_t *n, qn_error *err);
/* A mark at this time on this thread, of at most 255 bytes. Costs a load when no recording is on. */
QN_API void qn_trace_mark(const char *text);
/* A span of this thread: from what qn_trace_time returned to now. */
QN_API uint64_t qn_trace_time(void); /* 0 when no recording is on; then qn_trace_span does nothing */
QN_API void qn_trace_span(qn_trace_kind kind, const char *text, uint64_t begin); /* text of marks; else NULL */

/* ---- reading --------------------------------------------------------------------------------- */

/* All is borrowed from the trace and ends with it. Texts are as the model or the caller had them: any bytes. */
typedef struct qn_trace qn_trace;

/* What a node must touch and compute at least, as coefficients; qn_trace_cost_of multiplies them with a step's. */
typedef struct qn_trace_node_cost {
    uint64_t weight_bytes; /* read whatever the tokens are; of a table the rows that are looked up */
    uint64_t cache_bytes;  /* likewise, of resident memory that nodes write: the cache */
    uint64_t act_bytes;    /* of activations, read and written */
    uint64_t ops;          /* arithmetic; a multiplication and an addition are two */
    uint64_t cell_bytes;   /* of the cache, for each cell that is seen */
    uint64_t cell_ops;     /* for each cell and token that sees it */
    uint64_t expert_bytes; /* of weights, for each expert that is chosen */
    uint32_t n_experts, n_used,
        sight; /* experts there are, choices in this step; the step's sight that counts the cells */
} qn_trace_node_cost;

typedef enum qn_trace_space { QN_TRACE_NOWHERE, QN_TRACE_ACTIVATIONS, QN_TRACE_FILE, QN_TRACE_RESIDENT } qn_trace_space;

typedef struct qn_trace_node {
    const char *op, *name, *dtype; /* name: "" when it has none */
    int32_t id, layer, place;      /* layer -1 outside layers */
    uint32_t flags;                /* 1 output, 2 written resident param, 4 constant */
    bool computes, shared;         /* a backend runs it; all threads take part */
    int32_t rank, n_src, root, last_use;
    const int64_t *shape; /* [rank], outermost first */
    const int32_t *src;   /* [n_src], ids */
    uint64_t bytes;       /* of the value */
    int32_t space, file;  /* qn_trace_space; file: number of the file, -1 */
    uint64_t offset;      /* in the place's activations, or in the file */
    uint64_t scratch, scratch_bytes;
    qn_trace_node_cost cost;
} qn_trace_node;

typedef struct qn_trace_plan {
    uint32_t id;
    int32_t n_nodes, n_places;
    const qn_trace_node *nodes;  /* by id */
    const char *const *places;   /* [n_places] names of backends */
    const uint64_t *place_bytes; /* [n_places] of activations, as planned */
} qn_trace_plan;

typedef struct qn_trace_sight {
    uint64_t cells, pairs; /* cells that are seen; over all tokens, the cells that each sees */
} qn_trace_sight;

/* Which experts were chosen, by the node that computed the ids: [n_tokens, n_ids / n_tokens], each token's best first;
 * n_distinct of them differ. */
typedef struct qn_trace_choice {
    int32_t node, n_ids, n_distinct;
    const int32_t *ids;
    const float *gates; /* [n_ids]: what the experts' results are multiplied by; NULL: not recorded */
} qn_trace_choice;

/* Hashes of a value's bits (the tap "trace" of quern/tap.h), one a row. Two runs that differ, differ first where their
 * hashes do. Several of a node follow each other. */
typedef struct qn_trace_hashes {
    int32_t node, n;
    const int32_t *items; /* [n] which of the step's tokens the row is of; -1: it is the whole value */
    const uint64_t *hash; /* [n] */
} qn_trace_hashes;

/* What a row of a value was like (the tap "record" of quern/tap.h); sums are of its finite elements. */
typedef struct qn_trace_value {
    int32_t item;              /* which of the step's tokens it is of; -1: it is the whole value */
    float min, max, mean, rms; /* NaN where no element is finite */
    uint32_t n_nan, n_inf, n_zero;
    int32_t channel; /* of the greatest magnitude; -1 where no element is finite */
} qn_trace_value;
/* Several of a node follow each other. */
typedef struct qn_trace_values {
    int32_t node, n;
    uint32_t size;              /* elements of a row */
    const qn_trace_value *rows; /* [n] */
} qn_trace_values;

typedef struct qn_trace_step {
    uint64_t number;
    const qn_trace_plan *plan;
    uint32_t session; /* 0: none */
    int32_t phase, n_tokens, n_out, n_sights;
    const int32_t *tokens;          /* [n_tokens]; NULL where they were left out */
    const int32_t *pos, *seq;       /* [n_tokens] */
    const qn_trace_sight *sights;   /* [n_sights] */
    const qn_trace_choice *choices; /* [n_choices]; 0: no experts, or not recorded */
    const qn_trace_hashes *hashes;  /* [n_hashes], in the order of computing */
    const qn_trace_values *values;  /* [n_values], likewise */
    int32_t n_choices, n_hashes, n_values;
    int64_t begin_ns, ns; /* from the trace's start; ns -1: its end is not in the file */
    /* Counted by the system for the whole process since the step before it ended (or the first began); -1: not
     * measured, as for steps of less than two milliseconds, which come too close. */
    int64_t read_bytes, faults, preemptions;
} qn_trace_step;

typedef struct qn_trace_file {
    int32_t id;
    uint64_t bytes;
    const char *path;
    const char *residency; /* who said what of it is in memory: "cachestat", "mincore"; "unknown": nobody */
} qn_trace_file;

typedef struct qn_trace_lane {
    uint32_t id, thread; /* thread: the system's number */
    int32_t member;      /* of its team, -1 when it never ran a graph */
    uint64_t events, dropped;
} qn_trace_lane;

/* What the system counts for the process, read some 50 times a second while there are events. -1: not measured. */
typedef struct qn_trace_usage {
    int64_t at_ns;  /* from the trace's start */
    int64_t cpu_ns; /* of all threads */
    int64_t minor_faults, major_faults;
    int64_t waits, preemptions; /* context switches, asked for and not */
    int64_t read_bytes;         /* from disk (/proc/self/io) */
    int64_t resident_bytes;     /* of the process */
} qn_trace_usage;

/* A page fault of a thread that computes, as the kernel sampled it. */
typedef struct qn_trace_fault {
    const qn_trace_lane *lane; /* NULL: of a thread without events in the file */
    int64_t at_ns, ns;         /* ns: until it was served, waiting for the disk included; -1: not known */
    int32_t file;              /* -1: other memory */
    bool major;                /* counted as one that waited for the disk; others may have waited for read-ahead */
    uint64_t offset;           /* in the file, of the byte that was asked for */
} qn_trace_fault;

/* A thread that computes lost its core to others, though it could have gone on. */
typedef struct qn_trace_pause {
    const qn_trace_lane *lane; /* NULL: likewise */
    int64_t at_ns, ns;
} qn_trace_pause;

/* What of a stretch of a file was in memory: n units of `unit` bytes from number `first` on. What is not told again
 * has not changed, as far as the recorder looked. */
typedef struct qn_trace_residency {
    int64_t at_ns;
    int32_t file;
    uint32_t n, page; /* page: its bytes */
    uint64_t unit, first;
    const uint32_t *pages; /* [n] of each unit */
} qn_trace_residency;

typedef struct qn_trace_event {
    int kind; /* qn_trace_kind */
    const qn_trace_lane *lane;
    const qn_trace_step *step; /* NULL outside of steps, or when its record was dropped */
    const qn_trace_node *node; /* of node and transfer; else, or when its step's record was dropped, NULL */
    const char *text;          /* of a mark; else NULL */
    int64_t begin_ns, ns;      /* from the trace's start */
    int64_t wait_ns;           /* of it at barriers */
} qn_trace_event;

/* Reads the whole file once. It stays open and mapped until it is closed. What is damaged: everything before the damage
 * is there, and qn_trace_damage says where it is. format when the file is no trace, or of a newer version or the other
 * byte order, by name. Memory is bounded by the file's size (some 300 times it at most). Not thread-safe, any number at
 * once. */
QN_API qn_status qn_trace_open(const char *path, qn_trace **out, qn_error *err);
QN_API void qn_trace_close(qn_trace *trace); /* NULL is fine */
/* NULL: the file is whole. Else one line: the offset and what is missing or wrong. A recording that was not stopped
 * (killed) has no end, which is damage too. */
QN_API const char *qn_trace_damage(const qn_trace *trace);

typedef struct qn_trace_info {
    int n_plans, n_files, n_lanes, n_notes;
    int64_t n_steps;
    uint64_t events, dropped; /* events of all lanes; those lost */
    int64_t ns;               /* from the first clock reading to the last */
    int64_t start_monotonic;  /* CLOCK_MONOTONIC of time 0, in ns */
    bool counter;             /* times are the processor's counter, not clock_gettime */
    double event_ns;          /* what recording an event takes, measured at the start */
    const qn_trace_plan *const *plans;
    const qn_trace_step *steps; /* in the order of begin */
    const qn_trace_file *files;
    const qn_trace_lane *lanes;
    const qn_trace_note *notes;
    const qn_trace_usage *usage; /* [n_usage], in order of time */
    int64_t n_usage;
    /* Where bytes come from; the note "faults" says in words how that is known. In order of time. */
    bool sampled;                 /* faults and pauses are: without, there are none of them here, which tells nothing */
    uint64_t samples_lost;        /* that found no room in the kernel's memory */
    const qn_trace_fault *faults; /* [n_faults] */
    const qn_trace_pause *pauses; /* [n_pauses] */
    const qn_trace_residency *residency; /* [n_residency] */
    int64_t n_faults, n_pauses, n_residency;
    int64_t read_bytes; /* from disk, by the process, from the first reading to the last; -1: not measured */
    const char *end;    /* why it ended: "stopped", "its size was limited", "asked for", "a slow step"; NULL: no end */
} qn_trace_info;
QN_API void qn_trace_get_info(const qn_trace *trace, qn_trace_info *out);
QN_API const char *qn_trace_find_note(const qn_trace *trace, const char *key); /* NULL when there is none */

/* Events in the order of the file: each lane's in order of their ends. false from the function ends the walk, which is
 * no error. */
typedef bool (*qn_trace_event_fn)(void *ctx, const qn_trace_event *event);
QN_API qn_status qn_trace_walk(qn_trace *trace, qn_trace_event_fn fn, void *ctx, qn_error *err);

/* What the node must touch and compute in this step. Without the ids of its experts: as many of them as are chosen on
 * average when all are as likely. */
typedef struct qn_trace_cost {
    double weight_bytes, cache_bytes, act_bytes, ops;
} qn_trace_cost;
QN_API qn_trace_cost qn_trace_cost_of(const qn_trace_node *node, const qn_trace_step *step);

/* ---- bytes of files: what steps must touch, what was in memory, what less memory would cost ---- */

/* A stretch of a file that a node must read in a step. Of tables the rows of the step's tokens, of experts the slices
 * that were chosen, one by one. Where the trace lacks the ids it is the whole of them, and `touched` says how many
 * bytes of it there are, wherever. */
typedef struct qn_trace_touch {
    const qn_trace_node *node, *weight; /* that computes; that is read */
    int32_t file;
    bool part; /* rows or slices: other steps of the plan touch others */
    uint64_t offset, bytes;
    double touched; /* of the bytes */
} qn_trace_touch;
/* In the order of use; false from the function ends it. */
typedef bool (*qn_trace_touch_fn)(void *ctx, const qn_trace_touch *touch);
QN_API void qn_trace_touches(const qn_trace_step *step, qn_trace_touch_fn fn, void *ctx);

/* A tensor in a file, summed up over all steps. */
typedef struct qn_trace_extent {
    const qn_trace_node *weight;
    int32_t file;
    int32_t order;          /* in which steps use them first, from 0 */
    uint64_t offset, bytes; /* in the order of offsets they stand */
    double touched;         /* bytes, over all steps */
    uint64_t ever;          /* bytes of it that some step touched; where it isn't known which, all */
    int64_t resident;       /* bytes in memory at the last look; -1: not measured. A unit that is partly there is shared
                             * out evenly */
    int64_t unused;         /* of them those that no step touched; -1 */
    int64_t grown;          /* bytes that came into memory between looks; -1 */
    int64_t faults, fault_ns; /* -1: not sampled */
} qn_trace_extent;
/* All tensors that steps read from files. They are the trace's; worked out when they are first asked for. nomem. */
QN_API qn_status qn_trace_get_extents(qn_trace *trace, const qn_trace_extent **out, int64_t *n, qn_error *err);

/* A part of a file in some steps. */
typedef struct qn_trace_cell {
    double touched;  /* bytes, summed up over the steps */
    double resident; /* in memory at the last look before their end; -1: not measured */
    double unused;   /* of them those that no step of the trace touches; -1 */
    double grown;    /* that came into memory from the last look before they began to the first after; -1 */
    int64_t faults;  /* of threads that compute, meanwhile; -1: not sampled */
} qn_trace_cell;
/* The file from offset on cut into n_cells of `bytes` each, in the steps first .. end-1 of qn_trace_info.steps. */
QN_API qn_status qn_trace_get_cells(qn_trace *trace, int32_t file, uint64_t offset, uint64_t bytes, int32_t n_cells,
                                    int64_t first, int64_t end, qn_trace_cell *out, qn_error *err);

/* Which bytes stay in memory when there is too little of it: QN_TRACE_POLICY(name, "what it is"). */
/* clang-format off */
#define QN_TRACE_POLICY_ROWS(QN_TRACE_POLICY) \
    QN_TRACE_POLICY(keep_first, "what is used first in a step and fits is kept; the rest is read each time") \
    QN_TRACE_POLICY(lru,        "what was not used for the longest time goes: near to what the kernel does") \
    QN_TRACE_POLICY(lfu,        "what was used least often goes") \
    QN_TRACE_POLICY(optimal,    "what will not be used for the longest time goes, or isn't kept: no policy is better")
/* clang-format on */
#define QN_TRACE_POLICY_ENUM(name, text) QN_TRACE_POLICY_##name,
typedef enum qn_trace_policy { QN_TRACE_POLICY_ROWS(QN_TRACE_POLICY_ENUM) QN_TRACE_POLICY_COUNT } qn_trace_policy;
#undef QN_TRACE_POLICY_ENUM
QN_API const char *qn_trace_policy_name(int policy); /* "?" when there is none */

/* What each policy would read from disk, with so much memory for weights: files cut into blocks, the steps' blocks in
 * the order of use, in the last steps of the trace (as many as make 32768 uses, two at least). Of the first of those
 * steps nothing is counted. */
enum { QN_TRACE_CURVE_POINTS = 33 };
typedef struct qn_trace_curves {
    uint64_t block_bytes, used_bytes;       /* of a block; of all blocks that steps use */
    int64_t n_steps, n_tokens;              /* that are counted; 0: there are too few, and no curves */
    double touched;                         /* bytes in them, in whole pages */
    uint64_t memory[QN_TRACE_CURVE_POINTS]; /* bytes, from 0 to used_bytes */
    double read[QN_TRACE_POLICY_COUNT][QN_TRACE_CURVE_POINTS]; /* bytes read from disk, in all counted steps */
} qn_trace_curves;
/* Of steps of this phase alone (-1: all). */
QN_API qn_status qn_trace_get_curves(qn_trace *trace, int phase, qn_trace_curves *out, qn_error *err);
/* At any size of memory, between the points; bytes in all counted steps. */
QN_API double qn_trace_curve_at(const qn_trace_curves *curves, qn_trace_policy policy, double memory);

/* What a token of decoding would read from disk if the process had `memory` bytes in all: left to the kernel, and with
 * qn_engine_options.memory, by the engine's own rules. The steps of the trace are played, and the second half of them
 * is counted: what is read once, when a model is opened, is in neither. */
typedef struct qn_trace_paging {
    int64_t n_tokens; /* that are counted; 0: too few steps of decoding read weights from a file, and the rest is 0 */
    uint64_t taken_bytes;   /* allocated by the library: caches, activations, vocabulary, graphs */
    uint64_t reserve_bytes; /* program, stacks, page tables: what qn_engine_options.memory leaves them */
    uint64_t budget_bytes;  /* what both leave for weights */
    double kernel_bytes;    /* read by page faults, each with read_ahead bytes around it, as Linux keeps pages */
    bool fits;              /* qn_engine_options.memory has nothing to do */
    uint64_t kept_bytes, window_bytes;
    double ahead_bytes;  /* read ahead of their use */
    double expert_bytes; /* of experts that were chosen and not there; -1: the trace lacks which were chosen */
    double expert_waits; /* layers that had to wait for some; -1 */
    /* Where nearly all fits, a few MB of the process's other pages decide whether nothing is read for a token or all:
     * kernel_bytes is the most of what they may lead to, this is the least. */
    double kernel_least_bytes;
    double kernel_jump_bytes, kernel_least_jump_bytes; /* of them read for a page that does not follow the last one */
    uint64_t least_bytes; /* with less, qn_engine_options.memory refuses sessions like these */
} qn_trace_paging;
/* read_ahead: what the kernel reads for a page that is missing (qn_disk_rates); 0: no more than is touched. nomem. */
QN_API qn_status qn_trace_get_paging(qn_trace *trace, uint64_t memory, uint64_t read_ahead, qn_trace_paging *out,
                                     qn_error *err);

/* Of two recordings with hashes. Rows are matched by name, sequence and position, so batches may be of different sizes;
 * of a row that was computed several times the first with the first. */
typedef struct qn_trace_difference {
    uint64_t compared, differ, alone; /* rows of both, those that differ, those of one of the two only */
    /* the first that differs, of `a`: in the order of computing. NULL: none does */
    const qn_trace_step *step;
    const qn_trace_node *node;
    int32_t item; /* which of the step's tokens; -1: the whole value */
} qn_trace_difference;
QN_API qn_status qn_trace_compare_values(const qn_trace *a, const qn_trace *b, qn_trace_difference *out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
