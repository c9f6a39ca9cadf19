/* SPDX-License-Identifier: MIT */
/* src/graph/passes/passes.h -- how a pass is written.
 *
 * A pass walks the nodes once, in order. For each it first calls qn__pass_resolve, which points the sources at whatever
 * replaced them; then it may rewrite the node in place (the node keeps its name, flags and users) or replace it by an
 * earlier node. Ids are positions throughout a pass: removed nodes are only marked, the caller compacts. No pass
 * removes an output, an input or an update, but dce may remove unneeded inputs.
 *
 * Reading later than before is where a pass could change a result: a resident tensor may have been updated in between.
 * Whoever moves a read asks qn__pass_may_read_later first. */
#ifndef QN_GRAPH_PASSES_H
#define QN_GRAPH_PASSES_H

#include "graph/internal.h"

typedef struct qn_pass_ctx {
    qn_graph *g;
    const qn_pass_options *options;
    qn_node **alias;      /* by id: what the node was replaced by; NULL: it stands */
    int64_t *shift;       /* by id: elements by which the memory under the node moved when its root was replaced */
    int32_t *last_update; /* by id of a root: the last update of its memory, -1 none */
    int32_t *scratch;     /* 4 * n_nodes + 16 numbers for the pass itself, contents undefined */
    int32_t changed;
    int32_t pass;
} qn_pass_ctx;

#define QN_PASS_FN(name, text) qn_status qn__pass_##name(qn_pass_ctx *ctx, qn_error *err);
QN_PASS_ROWS(QN_PASS_FN)
#undef QN_PASS_FN

/* Sources, root and, when the memory under a view moved, the view's layout. */
qn_status qn__pass_resolve(qn_pass_ctx *ctx, qn_node *n, qn_error *err);
/* Users of n will use `with`, an earlier node of the same values, instead. With a root that is replaced by a row-major
 * view, the users' views move along. */
void qn__pass_replace(qn_pass_ctx *ctx, qn_node *n, qn_node *with);
/* n goes; `into`, NULL or the node that computes it from now on, is what to look at instead. */
void qn__pass_remove(qn_pass_ctx *ctx, qn_node *n, qn_node *into);
/* May something at any later position read `n`, which is now read at position `id`? */
bool qn__pass_may_read_later(const qn_pass_ctx *ctx, const qn_node *n, int32_t id);
/* Users of every node, an output flag counting as one; into `count`, n_nodes numbers. */
void qn__pass_count_users(const qn_pass_ctx *ctx, int32_t *count);

#endif
