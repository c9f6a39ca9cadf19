/* SPDX-License-Identifier: MIT */
/* src/graph/graph.h -- the one intermediate representation: a list of nodes in an order in which every source precedes
 * its user.
 *
 * Building is symbolic: a builder checks shapes and dtypes, records a node, and computes nothing. Errors are sticky:
 * after the first, builders keep returning a harmless node, and qn__graph_finish reports it. A graph owns all its nodes
 * (one arena). Values are float32 unless said otherwise; weights may be any real or block dtype; ids, positions and
 * spans are I32. */
#ifndef QN_GRAPH_GRAPH_H
#define QN_GRAPH_GRAPH_H

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include <quern/graph.h>
#include <quern/tensor.h>
#include <quern/trace.h>

#define QN_MAX_SRC 6

typedef enum qn_op {
#define QN_OP(name, kind, min, max, attrs, rule, inplace, follows, cost, formula) QN_OP_##name,
#include "graph/ops.def"
#undef QN_OP
    QN_OP_COUNT
} qn_op;

typedef enum qn_op_kind { QN_KIND_leaf, QN_KIND_view, QN_KIND_compute, QN_KIND_update, QN_KIND_transfer } qn_op_kind;

/* ---- attributes: one struct an op family; compared and hashed as bytes, so builders zero them first (no padding
 * holes) ---- */
typedef struct qn_no_attrs {
    int32_t none;
} qn_no_attrs;
/* relative to the root's memory */
typedef struct qn_view_attrs {
    qn_layout layout;
    int32_t pad_;
    int32_t pad2_;
} qn_view_attrs;
typedef struct qn_copy_attrs {
    int32_t dtype;
} qn_copy_attrs;
typedef struct qn_norm_attrs {
    double eps; /* rounded to F32 for x in F32 */
} qn_norm_attrs;
typedef struct qn_scale_attrs {
    float scale, bias;
} qn_scale_attrs;                                                      /* no bias is -0: adding that changes no bit */
typedef enum qn_rope_mode { QN_ROPE_NORM, QN_ROPE_NEOX } qn_rope_mode; /* pairs (2i, 2i+1), or (i, i + n_rot/2) */
typedef struct qn_rope_attrs {
    int32_t mode, n_rot;        /* only the first n_rot of a head's elements are rotated */
    float base;                 /* 10000 */
    float freq_scale;           /* 1; 1/factor for linear scaling */
    float ext_factor;           /* 0; 1 for YaRN (Peng et al. 2023) */
    float attn_factor;          /* 1: scales sine and cosine */
    float beta_fast, beta_slow; /* 32, 1 */
    int32_t n_ctx_orig;         /* of training, for YaRN */
    int32_t exact_bounds;       /* YaRN blends between fractional numbers of pairs, not between whole ones */
    /* M-RoPE (Wang et al. 2024): a position is four numbers, and pair i rotates by the one whose section it is in:
     * sections of so many pairs one behind the other, over again from their sum on. Interleaved: of pairs 0, 3, 6 ..
     * the first sections[0] are by the first number, of 1, 4, 7 .. by the second, of 2, 5, 8 .. by the third, the rest
     * by the fourth. All 0: a position is one number. Of text it is one number too: three times that, and 0. */
    int32_t sections[4], interleaved, of_text;
} qn_rope_attrs;
static inline bool qn__rope_in_sections(const qn_rope_attrs *a)
{
    return a->sections[0] > 0 || a->sections[1] > 0 || a->sections[2] > 0 || a->sections[3] > 0;
}
/* How many numbers a position is. */
static inline int qn__rope_numbers(const qn_rope_attrs *a) { return qn__rope_in_sections(a) && !a->of_text ? 4 : 1; }
typedef struct qn_slice_attrs {
    int32_t dim;
    int32_t accumulate;
    int64_t start;
} qn_slice_attrs;
/* Entries of a list that attention takes at a time, counted from the list's start: part of the definition of its
 * result, so that what is left out at a list's start is left out by whole tiles, or held free. */
enum { QN_ATTN_TILE = 128 };
typedef struct qn_attn_attrs {
    float scale;       /* of q.k; usually 1/sqrt(d) */
    float softcap;     /* 0 none; else s = cap * tanh(s / cap) */
    float alibi;       /* 0 none; else s = s - qn__alibi_slope(alibi, n_head, head) |position - the query's| */
    int32_t has_sinks; /* set by the builder */
} qn_attn_attrs;
/* ALiBi's (Press et al. 2022) of a head: 2^(-max_bias (head + 1) / n), n the greatest power of two up to n_head; of
 * heads from n on every other one of those that 2 n heads would have. */
float qn__alibi_slope(float max_bias, int64_t n_head, int64_t head);

/* ---- nodes ---- */
enum {
    QN_NODE_output = 1 << 0,  /* kept until the run ends and may be downloaded */
    QN_NODE_mutable = 1 << 1, /* a resident param: written by update nodes */
    QN_NODE_const = 1 << 2,   /* a param whose bytes never change and may be read at compile time: `host` is set */
    QN_NODE_dead = 1 << 3,    /* removed by a pass; qn__graph_compact drops it */
    /* an output whose memory comes from outside: `buffer`, set before every run (qn__exec_bind) */
    QN_NODE_bound = 1 << 4,
    QN_NODE_owned = 1 << 5, /* for the graph's builder; nothing here looks at it */
    QN_NODE_twin = 1 << 6,  /* an input that gets what another gets, see `twin` */
    QN_NODE_early = 1 << 7, /* a transfer of what follows from inputs alone: it lies among them and goes up with them */
};

struct qn_node {
    qn_op op;
    qn_dtype dtype;
    qn_layout layout;         /* over the memory of `root`; contiguous with offset 0 when root is the node itself */
    const void *attrs;        /* the op's struct */
    qn_node *src[QN_MAX_SRC]; /* NULL past n_src */
    int32_t n_src;
    int32_t id;    /* position in graph->nodes */
    qn_node *root; /* whose memory this is: itself, or for views and updates the source's root */
    uint32_t flags;
    int32_t layer;    /* -1 when outside layers */
    const char *name; /* "" when unnamed; graph-owned */
    /* param and bound only: where it lives. `buffer` is a qn_buffer of the backend layer, opaque here. */
    void *buffer;
    uint64_t buffer_offset; /* bytes */
    const void *host;       /* const params */
    /* filled in later */
    int32_t place; /* backend index, -1 undecided; written by the scheduler */
    int32_t hint;  /* backend index asked for by the builder, -1 none */
    /* bytes into the place's activation buffer, or into the lender's memory; written by the planner; roots only */
    uint64_t offset;
    uint64_t scratch_offset, scratch_bytes; /* of this node while it runs */
    /* Computed as one by its backend with others that follow one another: the first and the last of them; what they
     * read, make and need beside is in memory at the same time. NULL: by itself. Written by the scheduler. */
    qn_node *one_first, *one_last;
    /* A value that is only computed to be assigned to a part of a resident tensor is computed there: see plan/lend.c.
     */
    qn_node *lender; /* of such a value: the param */
    qn_node *lent;   /* of a param: the first such value; of a value: the param's next */
    qn_node *twin;   /* of an input: the same input in another place, NULL after the last; made by the scheduler */
    void *tapped;    /* for whoever runs the graph: set, a run calls qn_run.tap after this node */
    void *paged;     /* likewise: set, a run calls qn_run.page before it */
    /* of a dead node that had a name: the next of them, what stands in its place (NULL: nothing), the pass */
    qn_node *next_gone, *into;
    int32_t gone_by;
};

struct qn_graph {
    qn_arena arena;
    qn_node **nodes; /* topological order */
    int32_t n_nodes, cap_nodes;
    int32_t layer;       /* stamped on nodes built now */
    int32_t hint;        /* likewise */
    qn_error error;      /* sticky */
    qn_node *bad;        /* what builders return after a failure */
    qn_arena_mark start; /* of the empty graph */
    qn_node *gone;       /* what passes removed, newest first */
    uint64_t taps;       /* for whoever sets `tapped`: which set of taps that is of */
    uint64_t paged;      /* for whoever sets `paged`: of which plan */
    void *owner;         /* whatever the graph's builder keeps with it, in its arena */
};

typedef struct qn_op_info {
    const char *name;
    qn_op_kind kind;
    int min_src, max_src;
    size_t attrs_bytes;
    /* Fills n->dtype and n->layout from sources and attrs; says what does not fit ("linear: [4,3] x [5,2]: inner sizes
     * ..."). */
    qn_status (*rule)(qn_node *n, qn_error *err);
    bool inplace;
    int follows; /* the source whose resident memory decides the place; -1 none */
    /* Adds what the node must touch and compute at least; `sight` is 1 + the source that says what is seen. */
    void (*cost)(const qn_node *n, qn_trace_node_cost *c);
    const char *formula;
} qn_op_info;
const qn_op_info *qn__op_info(qn_op op);
/* A product or quotient, whose second source may be one number (0-d) in F32 where the first is F16 or BF16. */
bool qn__op_scales(qn_op op);
/* What the node must touch and compute, in the units of its row of ops.def. All 0 for leaves and views. */
qn_trace_node_cost qn__node_cost(const qn_node *n);
/* For backends: `count` nodes of this op took `ns`; see qn_op_metrics_snapshot. */
void qn__op_count(qn_op op, uint64_t count, uint64_t ns);

qn_status qn__graph_create(qn_graph **out, qn_error *err); /* counts a graph_build */
void qn__graph_destroy(qn_graph *g);
/* Empty again, errors forgotten; its memory stays for the next graph, so that building the same again allocates
 * nothing. */
void qn__graph_reset(qn_graph *g);
/* The same nodes under the same ids in a graph of their own: what is compiled is consumed. Leaves keep their buffers;
 * `owner` is NULL. */
qn_status qn__graph_clone(const qn_graph *g, qn_graph **out, qn_error *err);
/* The sticky error, or OK. Call once when building ends. */
qn_status qn__graph_finish(qn_graph *g, qn_error *err);
/* Stamps `layer` and a placement hint on nodes built from now on (-1, -1: none). */
void qn__graph_scope(qn_graph *g, int layer, int hint);
/* printf-style name for the node; returns it, so that builders nest. */
qn_node *qn__name(qn_graph *g, qn_node *n, const char *fmt, ...) QN_PRINTF(3, 4);
void qn__output(qn_graph *g, qn_node *n);
/* The generic recorder under every builder; attrs may be NULL for all-zero. */
qn_node *qn__op(qn_graph *g, qn_op op, const void *attrs, qn_node *const *src, int n_src);

/* ---- builders ---- */
qn_node *qn__input(qn_graph *g, const char *name, qn_dtype dtype, const qn_shape *shape);
qn_node *qn__param(qn_graph *g, const char *name, qn_dtype dtype, const qn_shape *shape, void *buffer, uint64_t offset,
                   uint32_t flags); /* mutable and output are possible */
/* a view; -1 infers; sticky error when strides forbid it */
qn_node *qn__reshape(qn_graph *g, qn_node *x, qn_shape shape);
qn_node *qn__permute(qn_graph *g, qn_node *x, const int *dims, int n_dims);           /* a view */
qn_node *qn__narrow(qn_graph *g, qn_node *x, int dim, int64_t start, int64_t length); /* a view */
qn_node *qn__expand(qn_graph *g, qn_node *x, qn_shape shape);                         /* a view: sizes of 1 repeated */
qn_node *qn__copy(qn_graph *g, qn_node *x, qn_dtype dtype);
qn_node *qn__get_rows(qn_graph *g, qn_node *table, qn_node *ids);
qn_node *qn__linear(qn_graph *g, qn_node *x, qn_node *w, qn_node *b);  /* b may be NULL */
qn_node *qn__linear_input(qn_graph *g, qn_node *y, qn_node *w);        /* y w, the gradient of linear to x */
qn_node *qn__rms_norm(qn_graph *g, qn_node *x, qn_node *w, float eps); /* w may be NULL */
qn_node *qn__add(qn_graph *g, qn_node *a, qn_node *b);
qn_node *qn__mul(qn_graph *g, qn_node *a, qn_node *b);
qn_node *qn__scale(qn_graph *g, qn_node *x, float scale, float bias);
qn_node *qn__silu(qn_graph *g, qn_node *x);
qn_node *qn__swiglu(qn_graph *g, qn_node *gate, qn_node *up);
/* x [n,heads,d], pos I32 [n], with four numbers [n,4], factors F32 [n_rot/2] or NULL */
qn_node *qn__rope(qn_graph *g, qn_node *x, qn_node *pos, qn_node *factors, const qn_rope_attrs *attrs);
/* dst mutable [n_rows,m], x [n,m] f32, rows I32 [n] */
qn_node *qn__set_rows(qn_graph *g, qn_node *dst, qn_node *x, qn_node *rows);
qn_node *qn__slice_update(qn_graph *g, qn_node *dst, qn_node *x, int dim, int64_t start, bool accumulate);
/* Attention over a cache of cells in which sequences may lie scattered and share cells.
 *   q      [n, n_head, d] f32      k [n_cells, n_kv_head, d], v [n_cells, n_kv_head, dv]: any KV dtype, resident
 *   lists  I32 [n_lists, capacity]: cell numbers of a sequence in order of position; with ALiBi [2 n_lists, capacity]:
 *          below the lists, in the same order, the positions of their entries
 *   spans  I32 [n, 3]: for each query (list row, first, end): it sees entries first .. end - 1 of that list; none give
 *          zeros. With ALiBi [n, 4]: the query's own position too
 *   sinks  [n_head] f32, or NULL: for each head the score of a key more that every query sees, whose value is zeros
 * -> [n, n_head * dv] f32. Head h reads KV head h / (n_head / n_kv_head). Keys are taken in list order in tiles of a
 * fixed size, so a query's result depends on nothing but its own list. */
typedef struct qn_attn_sources {
    qn_node *q, *k, *v, *lists, *spans, *sinks;
} qn_attn_sources;
qn_node *qn__attention(qn_graph *g, const qn_attn_sources *src, const qn_attn_attrs *attrs);

/* ---- checking, refining ---- */
/* Order, arities, shapes by rule again, root and alias consistency; no read of what an update of a resident has
 * overwritten since (an update writes all that its destination covers), an update reads nothing of what it writes, and
 * no mutable param shares memory of its buffer with another param. */
qn_status qn__graph_verify(const qn_graph *g, qn_error *err);
void qn__graph_compact(qn_graph *g);      /* drops dead nodes, renumbers ids */
int64_t qn__node_bytes(const qn_node *n); /* of the root's memory for roots, of the elements for views */
bool qn__node_is_view(const qn_node *n);  /* shares memory and computes nothing */

/* Passes: rows in quern/graph.h, in pass order. A graph goes in and comes out; numerics unchanged (bit for bit). */
/* Computes one node whose sources are all const params, row-major, into dst (row-major, node dtype). Node and sources
 * live only during the call. unsupported leaves the node as it is; any other failure is that of optimize. */
typedef qn_status (*qn_fold_fn)(void *ctx, const qn_node *n, void *dst, qn_error *err);
/* What the passes did: statistics by pass, and of each operation how many nodes there are more (fewer) after it. */
typedef struct qn_pass_report {
    qn_pass_stats stats[QN_PASS_COUNT];
    int32_t ops[QN_PASS_COUNT][QN_OP_COUNT];
    uint32_t off;
} qn_pass_report;
typedef struct qn_pass_options {
    uint32_t off;    /* bit 1 << QN_PASS_x switches x off */
    qn_fold_fn fold; /* NULL: constants are not computed, only rearranged */
    void *fold_ctx;
} qn_pass_options;
/* report may be NULL. Verifies between passes in checked builds. After a failure the graph is fit to be destroyed only.
 */
qn_status qn__graph_optimize(qn_graph *g, const qn_pass_options *options, qn_pass_report *report, qn_error *err);

qn_status qn__check_passes_off(uint32_t off, qn_error *err); /* of a user */
/* What stands in the place of one of graph->gone now; NULL: nothing. */
const qn_node *qn__node_into(const qn_node *gone);
/* The table of a report: a line a pass. */
void qn__passes_print(const qn_pass_report *report, qn_str *out);

/* ---- printing: see quern/graph.h for the formats ---- */
typedef struct qn_print_options {
    int layer;                      /* only this layer; -1 the whole graph */
    bool by_layer_only;             /* use `layer` */
    const double *node_ns;          /* n_nodes measured times, or NULL */
    const double *node_bytes;       /* n_nodes, what each touches; NULL: as qn__node_cost has it */
    qn_graph_color color;           /* by time: node_ns is there */
    const char *const *place_names; /* indexed by place; NULL prints numbers */
    const char *title;
} qn_print_options;
qn_status qn__graph_print(const qn_graph *g, qn_graph_format format, const qn_print_options *options, qn_str *out,
                          qn_error *err);

/* Builders of one family of operations each. */
#include "graph/ops/pointwise.h"
#include "graph/ops/reduce.h"
#include "graph/ops/matmul.h"
#include "graph/ops/index.h"
#include "graph/ops/optim.h"
#include "graph/ops/conv.h"
#include "graph/ops/sdpa.h"
#include "graph/ops/layers.h"

#endif
