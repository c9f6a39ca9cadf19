/* SPDX-License-Identifier: MIT */
/* src/engine/tap.h -- taps on values of a session's graphs.
 *
 * A point is a value by its name; its slots are what the taps do there, in the order in which they were given. Points
 * are found when a tap is set, on a graph that is built for the question; compiled graphs are marked when they first
 * run with a set of taps (qn__taps_ready). What a tap needs in memory is taken when it is set. */
#ifndef QN_ENGINE_TAP_H
#define QN_ENGINE_TAP_H

#include "engine/engine.h"
#include <quern/tap.h>

typedef struct qn_tap qn_tap;
typedef struct qn_tap_slot qn_tap_slot;

/* Whose rows a value has. */
typedef enum qn_tap_rows { QN_ROWS_none, QN_ROWS_tokens, QN_ROWS_outputs, QN_ROWS_KINDS } qn_tap_rows;

typedef struct qn_tap_point {
    const char *name, *base; /* base: without count, operation and layer */
    int layer;
    qn_tap_rows rows;
    qn_shape row; /* of one row, or of the whole where it has none */
    int64_t row_size;
    qn_dtype dtype;
    bool resident; /* of memory that outlives a run */
    qn_tap_slot *slots;
    struct qn_tap_point *next;
} qn_tap_point;

/* What a tap does at one point; state is the action's. */
struct qn_tap_slot {
    qn_tap *tap;
    qn_tap_point *point;
    qn_tap_slot *next_of_point, *next_of_tap;
    void *state;
};

typedef struct qn_tap_type {
    bool changes; /* writes values back */
    /* Reads the argument; may be NULL, as all but run. */
    qn_status (*open)(qn_tap *tap, qn_error *err);
    /* One more point, whose shape may be refused; gives the slot its state. graph: the one that the point was found in.
     */
    qn_status (*match)(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err);
    qn_status (*run)(qn_tap_slot *slot, qn_tap_value *value, qn_error *err);
    qn_status (*stepped)(qn_tap *tap, qn_error *err); /* a run is over, or was stopped */
    qn_status (*end)(qn_tap *tap, qn_error *err);     /* writes what is left */
    void (*close)(qn_tap *tap);                       /* files; after end or instead */
    void (*report)(const qn_tap *tap, qn_str *out);
} qn_tap_type;
#define QN_TAP_ACTION(name, arg, text) extern const qn_tap_type qn__tap_##name;
#include "engine/taps.def"
#undef QN_TAP_ACTION

enum { QN_TAP_RANGES = 16 };
struct qn_tap {
    qn_taps *taps;
    const qn_tap_type *type;
    const char *pattern, *arg; /* arg: "" when there is none */
    struct {
        int32_t first, last;
    } ranges[QN_TAP_RANGES]; /* of positions */
    int n_ranges;            /* 0: all */
    qn_tap_slot *slots, *last_slot;
    void *state;
    qn_tap_fn fn; /* of qn_session_tap_fn */
    void *fn_ctx;
    bool fn_changes;
    qn_tap *next;
};

struct qn_taps {
    qn_arena arena;
    qn_session *session;
    qn_tap *first, *last;
    qn_tap_point *points;
    uint64_t set; /* counts the sets of taps of all sessions: which one marked a graph */
    float *values, *picked;
    uint8_t *raw;
    int64_t n_values;               /* room in each */
    qn_tap_row *rows, *picked_rows; /* [n_batch] */
    int32_t *picked_items;          /* [n_batch]: which of the step's tokens these are */
    const qn_node *at;              /* the value at hand */
    /* the step that runs */
    const qn_batch_item *items;
    int32_t n_items, n_outputs;
    uint64_t step;
    qn_error error; /* why a run was stopped */
};

/* Before a run of e: marks its nodes. After one that failed: the taps' own reason, if there is one. */
qn_status qn__taps_ready(qn_taps *t, qn_exec *e, const qn_batch_item *items, int32_t n, int32_t n_outputs,
                         qn_error *err);
bool qn__taps_run(void *ctx, const qn_node *node);
/* After a run, whatever came of it. */
qn_status qn__taps_stepped(qn_taps *t, qn_status status, qn_error *err);
qn_status qn__taps_why(const qn_taps *t, qn_status status, qn_error *err);
void qn__taps_destroy(qn_taps *t);
/* Whether this thread is in a caller's function that a run of the engine has called. */
bool qn__tap_calls(const qn_engine *engine);
/* Takes those of qn_session_tap_fn with this context away; others stay. */
void qn__taps_remove(qn_session *s, const void *ctx);

/* ---- tap_match.c ---- */
/* Calls `each` with every value of the graph that the pattern names; invalid, with names that come close or the pass
 * that removed it, when there is none. */
typedef qn_status (*qn_match_fn)(void *ctx, const qn_graph *g, qn_node *n, qn_error *err);
qn_status qn__tap_match(const qn_graph *g, const char *pattern, bool changes, qn_match_fn each, void *ctx,
                        qn_error *err);
bool qn__tap_has_wildcard(const char *pattern);
/* The node that computes what n looks at: n itself, or what is under a view. */
const qn_node *qn__tap_computed(const qn_node *n);
qn_tap_rows qn__tap_rows_of(const qn_graph *g, const qn_node *n, int32_t n_tokens, bool *scratch);

/* ---- tap_file.c ---- */
/* A .npy file of numbers as float32, in the arena; invalid where it is not one. */
qn_status qn__tap_read_npy(qn_arena *arena, const char *path, float **out, qn_shape *shape, qn_error *err);
/* A row of `slot`, or `*n` of them: what the shape of a file is. */
qn_status qn__tap_fit(const qn_tap_slot *slot, const char *path, const qn_shape *shape, int64_t *n, qn_error *err);
char *qn__tap_path(qn_arena *arena, const char *folder, const char *name, const char *end);
/* Lines of text as a file. */
qn_status qn__tap_write_text(const char *path, const qn_str *text, qn_error *err);

#endif
