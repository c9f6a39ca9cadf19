/* SPDX-License-Identifier: MIT */
/* src/backend/compare.h -- a node that runs, once more on another backend. Called inside of an eval callback. */
#ifndef QN_BACKEND_COMPARE_H
#define QN_BACKEND_COMPARE_H

#include "backend/sched.h"
#include <quern/compare.h>

typedef struct qn_comparison qn_comparison;

qn_status qn__comparison_create(const char *backend, int n_threads, qn_comparison **out, qn_error *err);
void qn__comparison_destroy(qn_comparison *c);
/* Before the node runs: keeps its sources. */
qn_status qn__comparison_before(qn_comparison *c, const qn_exec *e, const qn_node *n, qn_error *err);
/* After it: runs it on the other backend, and compares. `why` holds the text of out->why, if the other refuses it.
 * n_tokens is the caller's. */
qn_status qn__comparison_after(qn_comparison *c, const qn_exec *e, const qn_node *n, qn_compared *out, qn_error *why,
                               qn_error *err);

#endif
