/* SPDX-License-Identifier: MIT */
/* src/cli/trace.h -- quern trace: what its actions share. */
#ifndef QN_CLI_TRACE_H
#define QN_CLI_TRACE_H

#include "cli/cli.h"
#include <quern/trace.h>

typedef struct trace_options {
    bool json, csv, chrome, perfetto;
    const char *out, *memory, *lens;
    const char *disk; /* GB/s, or "measure" */
    int32_t top;
} trace_options;

/* ---- trace.c ---- */
/* Opens it; what is damaged is said on standard error, and *damaged set. */
int trace_open(const char *path, qn_trace **out, bool *damaged);
/* Bytes of the character at `text`, 0 where it is no UTF-8, or a control, which could harm a terminal. */
size_t trace_harmless(const char *text);
/* A text of a model or a caller with what could harm a terminal or a table shown as \xNN. */
const char *trace_safe(char *buf, size_t size, const char *text);
/* Text as a JSON string: always valid UTF-8, quotes and controls escaped. */
void trace_put_json(FILE *out, const char *text);

/* ---- actions: files are the arguments after the action ---- */
int trace_stats(const trace_options *o, const char *const *files);
int trace_export(const trace_options *o, const char *const *files);
int trace_diff(const trace_options *o, const char *const *files);
int trace_report(const trace_options *o, const char *const *files);
int trace_watch(const trace_options *o, const char *const *files);
int trace_advise(const trace_options *o, const char *const *files);

/* ---- trace_hashes.c ---- */
/* Says which value differs first, where both have hashes. */
int trace_diff_values(const qn_trace *a, const qn_trace *b, bool json);

/* ---- trace_experts.c ---- */

typedef struct trace_expert_layer {
    int32_t layer, n_experts, n_used, n_touched, hottest;
    uint64_t n_tokens;
    uint64_t *use;          /* [n_experts] how many tokens chose it */
    double *gates;          /* [n_experts] sums of its gates; 0 where they were not recorded */
    double entropy;         /* bits, of how use is shared out */
    double balance;         /* 2^entropy / n_experts: 1 when all are used alike */
    double overlap, chance; /* of a token's experts those that its neighbour chose too; if each chose by itself */
    /* while summing up: the token before */
    uint64_t shared, n_pairs;
    const int32_t *last;
    int32_t last_n, last_seq, last_pos;
    uint32_t last_session;
} trace_expert_layer;
enum { TRACE_HOTTEST = 3 }; /* 1, 5, 10 % */
typedef struct trace_experts {
    trace_expert_layer *layers;
    int n_layers; /* 0: none, or not recorded */
    double hottest[TRACE_HOTTEST];
    bool failed;
} trace_experts;
bool trace_experts_sum(const qn_trace *t, trace_experts *out); /* false: no memory */
void trace_experts_deinit(trace_experts *e);
void trace_experts_print(const trace_experts *e);
void trace_experts_json(FILE *out, const trace_experts *e);

/* ---- trace_export.c ---- */
/* A file by way of another name, so that a full disk leaves no half; "-" is standard output. */
int trace_write_file(const char *path, int (*write)(void *ctx, FILE *out), void *ctx);

/* ---- trace_losses.c ---- */
typedef enum trace_loss_kind { TRACE_LOSS_paging, TRACE_LOSS_core, TRACE_LOSSES } trace_loss_kind;
typedef struct trace_loss trace_loss;
typedef struct trace_loss_lane trace_loss_lane;
typedef struct trace_losses {
    const qn_trace_lane *first;
    trace_loss_lane *lanes;
    int n;
} trace_losses;
bool trace_losses_init(const qn_trace_info *info, trace_losses *out); /* false: no memory */
void trace_losses_deinit(trace_losses *x);
/* Of this thread's time from begin to end, ns. */
void trace_losses_in(const trace_losses *x, const qn_trace_lane *lane, int64_t begin, int64_t end, double *lost);

/* ---- trace_bytes.c ---- */
typedef struct trace_byte_sums {
    const qn_trace_extent *extents; /* [n] */
    int64_t n, n_used, jumps;       /* tensors; that steps use; places where the order of use leaves the file's */
    double touched, ever;
    int64_t read, faults, fault_ns; /* -1: not measured */
} trace_byte_sums;
void trace_bytes_sum(qn_trace *t, const qn_trace_info *info, trace_byte_sums *out);
double trace_touched_in(const qn_trace_step *step);
/* Bytes touched against bytes read, waste, order: for stats. */
void trace_bytes_print(qn_trace *t, const qn_trace_info *info, int32_t top);
void trace_bytes_json(FILE *out, qn_trace *t, const qn_trace_info *info); /* ", "bytes": {..}" */

/* ---- trace_command.c ---- */
/* On a line of its own; of NULL nothing. */
void trace_print_command(const char *command, const char *option);

/* ---- trace_memory.c ---- */
/* Bytes in a ns; 0: not known. */
typedef struct trace_disk {
    double ahead, fault, around, scattered; /* as qn_disk_rates has them */
    double cpu;                             /* ns of processor time to read a byte ahead */
    uint64_t read_ahead;                    /* bytes */
    const char *from;                       /* where the figures come from */
} trace_disk;
/* asked: a number of GB/s, or "measure"; NULL: nothing is known. */
int trace_disk_init(const qn_trace_info *info, const char *asked, trace_disk *out);
/* With `memory` bytes for the process a token takes.. ns; 0 where it isn't known. */
typedef struct trace_memory {
    uint64_t memory;
    qn_trace_paging paging;
    double alone_ns, kept_ns; /* left to the kernel; with --memory */
    double alone_least_ns;    /* the least of what that may be, where alone_ns is the most */
    double lost_ns;           /* of it taken from who computes, by reading */
} trace_memory;
/* compute_ns: a token's, without paging; all_cores: each has a thread that computes. */
qn_status trace_memory_cost(qn_trace *t, const trace_disk *disk, uint64_t memory, double compute_ns, bool all_cores,
                            trace_memory *out, qn_error *err);

/* ---- trace_sums.c: what stats, diff and watch are made of ---- */

/* Of a kind of node: all of an operation, a layer, a name. */
typedef struct trace_row {
    char key[160];
    uint64_t count;                                         /* events of member 0 */
    double ns, wait_ns, bytes, weight_bytes, ops, limit_ns; /* limit_ns: what the roofline would take */
    int64_t *each;                                          /* [count] durations, sorted when summed up */
    size_t cap;
    int64_t p50, p99, worst;
} trace_row;

typedef struct trace_table {
    trace_row *rows;
    size_t n, cap;
    size_t *index; /* hash of keys to row + 1 */
    size_t index_cap;
} trace_table;

/* Where the threads' time of a phase's steps went, in ns. */
#define TRACE_ACCOUNT_ROWS(ROW) \
    ROW(memory, "bound by memory: nodes that the roofline says wait for bytes") \
    ROW(arithmetic, "bound by arithmetic: nodes that compute longer than they read") \
    ROW(serial, "others wait while one thread works alone") \
    ROW(slowest, "waiting at barriers for the slowest") \
    ROW(paging, "page faults: waiting for bytes from disk, and mapping them") \
    ROW(preempted, "pre-empted: others had the core") \
    ROW(transfers, "values copied between backends") \
    ROW(around, "the first thread between nodes, and before and after them") \
    ROW(outside, "outside of graphs: inputs, results, compiling, sampling, printing")
#define TRACE_ACCOUNT_ENUM(name, text) TRACE_##name,
typedef enum trace_account { TRACE_ACCOUNT_ROWS(TRACE_ACCOUNT_ENUM) TRACE_ACCOUNTS } trace_account;
#undef TRACE_ACCOUNT_ENUM

typedef struct trace_sums {
    qn_trace_info info;
    int32_t n_members;                       /* threads that computed a step, at most */
    int32_t n_threads;                       /* that computed in any: several teams have more than n_members */
    uint64_t n_helped[QN_TRACE_PHASE_COUNT]; /* over all steps, threads that computed beside the first */
    uint64_t n_steps[QN_TRACE_PHASE_COUNT], n_tokens[QN_TRACE_PHASE_COUNT];
    double step_ns[QN_TRACE_PHASE_COUNT], bytes[QN_TRACE_PHASE_COUNT], weight_bytes[QN_TRACE_PHASE_COUNT];
    const char *filter; /* what alone was recorded; NULL: all was */
    bool lacks_nodes, lacks_steps;
    int64_t first_ns, last_ns; /* of all steps */
    double account[TRACE_ACCOUNTS];
    double (*step_account)[TRACE_ACCOUNTS]; /* [info.n_steps], without what is outside of steps; NULL: not asked for */
    double kind_ns[QN_TRACE_KIND_COUNT];
    uint64_t kind_count[QN_TRACE_KIND_COUNT];
    uint64_t node_events, node_ns, lost_nodes; /* all lanes; events whose node is not known */
    uint64_t n_cut, cut_nodes;                 /* steps whose end is not in the file, and their events: in no sum */
    double read_gb_s, gops;                    /* the roofline: the best that nodes of this trace came to */
    trace_table ops, layers, nodes;
} trace_sums;
/* Two walks; the caller frees with trace_sums_deinit. */
int trace_sum(qn_trace *t, bool by_step, trace_sums *out);
void trace_sums_deinit(trace_sums *s);
/* An account that isn't known: the system doesn't tell, or the recording leaves out what it is made of. */
bool trace_account_known(const trace_sums *s, int account);
/* Whether one team of the same threads computed all steps that have tokens. */
bool trace_is_one_team(const trace_sums *s);
/* Says what the recording lacks, at its end or because it was filtered, a line each; nothing where it has all. */
void trace_print_lacks(FILE *out, const trace_sums *s);
/* The key of a node's row: its name, or its operation, number and layer; safe to print. */
void trace_node_key(const qn_trace_node *n, char *to, size_t size);
trace_row *trace_row_find(const trace_table *t, const char *key); /* NULL when there is none */

/* NULL: no memory. Rows move when one is added. */
trace_row *trace_row_of(trace_table *t, const char *key);
void trace_table_deinit(trace_table *t);

/* ---- trace_values.c ---- */
/* Of a node: all rows of all steps that were recorded. */
typedef struct trace_value_row {
    uint64_t n_rows, n_nan, n_inf, n_zero;
    double n_finite, sum, squares, min, max, peak; /* of finite elements; peak: the greatest magnitude */
    int32_t channel;                               /* where that was; -1: nowhere */
} trace_value_row;
typedef struct trace_values {
    trace_table keys;
    trace_value_row *rows; /* one for each key, in the order of computing */
    size_t n, cap;
} trace_values;
bool trace_values_sum(const qn_trace *t, trace_values *out); /* false: no memory */
void trace_values_deinit(trace_values *v);
void trace_values_print(const trace_values *v, int32_t top);
void trace_values_json(FILE *out, const trace_values *v); /* ", "values": [..]" */

/* ---- trace_stats.c ---- */
/* What is neither times nor bytes. */
typedef struct trace_looks {
    trace_experts experts;
    trace_values values;
} trace_looks;
bool trace_looks_sum(const qn_trace *t, trace_looks *out); /* false: no memory */
void trace_looks_deinit(trace_looks *x);
/* The whole of it, as JSON. */
void trace_put_stats(FILE *out, qn_trace *t, const trace_sums *s, const trace_looks *looks);

#endif
