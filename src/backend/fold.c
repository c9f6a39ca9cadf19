/* SPDX-License-Identifier: MIT */
/* src/backend/fold.c -- computes a node of constants at compile time. */
#include "backend/internal.h"

/* The backend that the node would run on, or else the first that takes it. */
static qn_backend *who_takes(const qn_sched *s, const qn_node *n, qn_error *err)
{
    const int first = n->hint >= 0 && n->hint < s->n_backends ? n->hint : 0;
    if (s->backends[first]->type->accepts(s->backends[first], n, err)) return s->backends[first];
    for (int i = 0; i < s->n_backends; i++)
        if (s->backends[i]->type->accepts(s->backends[i], n, NULL)) return s->backends[i];
    return NULL;
}

qn_status qn__fold_node(void *sched, const qn_node *n, void *dst, qn_error *err)
{
    const void *memory[QN_MAX_SRC];
    qn_backend *be = who_takes(sched, n, err);
    if (!be) return QN_STATUS_unsupported;
    for (int i = 0; i < n->n_src; i++) memory[i] = n->src[i]->root->host;
    return qn__node_alone(be, n, memory, dst, err);
}
