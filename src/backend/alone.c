/* SPDX-License-Identifier: MIT */
/* src/backend/alone.c -- computes one node by itself, on the road that every node takes: buffers, compile, run,
 * download. For constants at compile time, and for comparing backends. */
#include "backend/internal.h"

#include "base/mem.h"

typedef struct alone {
    qn_backend *be;
    qn_node node; /* the node; its sources are the copies below */
    qn_node src[QN_MAX_SRC], root[QN_MAX_SRC];
    qn_buffer *buffer[QN_MAX_SRC]; /* of a root that comes more than once the first has it */
    qn_buffer *activations;
    qn_program *program;
} alone;

/* What another node has computed is memory here, as a param's is. */
static qn_status load_root(alone *a, int i, const qn_node *root, const void *bytes, qn_error *err)
{
    const uint64_t n = (uint64_t)qn__node_bytes(root);
    qn_node *r = &a->root[i];
    *r = *root;
    if (root->op != QN_OP_param) {
        r->op = QN_OP_param;
        r->flags = 0;
        r->n_src = 0;
        r->attrs = NULL;
    }
    r->root = r;
    r->lender = r->lent = NULL;
    r->place = a->node.place;
    r->buffer_offset = 0;
    QN_TRY(a->be->type->buffer_create(a->be, n ? n : 1, &a->buffer[i], err));
    r->buffer = a->buffer[i];
    return a->be->type->upload(a->buffer[i], 0, bytes, n, err);
}

static qn_status load_sources(alone *a, const qn_node *n, const void *const *memory, qn_error *err)
{
    for (int i = 0; i < n->n_src; i++) {
        int k = 0;
        while (n->src[k]->root != n->src[i]->root) k++;
        if (k == i) QN_TRY(load_root(a, i, n->src[i]->root, memory[i], err));
        if (n->src[i]->root == n->src[i]) {
            a->node.src[i] = &a->root[k];
            continue;
        }
        qn_node *view = &a->src[i];
        *view = *n->src[i];
        view->op = QN_OP_view; /* an update's too: what it has written is there */
        view->src[0] = view->root = &a->root[k];
        view->n_src = 1;
        view->place = a->node.place;
        a->node.src[i] = view;
    }
    if (n->root != n) a->node.root = a->node.src[0]->root;
    return QN_OK;
}

static qn_status compute(alone *a, void *dst, qn_error *err)
{
    const qn_backend_type *type = a->be->type;
    const bool updates = a->node.root != &a->node;
    const uint64_t bytes = (uint64_t)qn__node_bytes(a->node.root), own = updates ? 0 : bytes;
    a->node.scratch_bytes = type->scratch(a->be, &a->node);
    a->node.scratch_offset = qn__align_up(own ? own : 1, a->be->alignment);
    QN_TRY(type->buffer_create(a->be, a->node.scratch_offset + a->node.scratch_bytes, &a->activations, err));

    qn_node *const nodes[] = {&a->node};
    const qn_segment segment = {.nodes = nodes, .n_nodes = 1, .activations = a->activations};
    QN_TRY(type->compile(a->be, &segment, &a->program, err));
    QN_TRY(type->run(a->program, NULL, err));
    return type->download(updates ? a->buffer[0] : a->activations, 0, dst, bytes, err);
}

qn_status qn__node_alone(qn_backend *be, const qn_node *n, const void *const *memory, void *dst, qn_error *err)
{
    const qn_backend_type *type = be->type;
    alone a = {.be = be, .node = *n};
    a.node.root = &a.node;
    a.node.place = 0;
    a.node.offset = 0;
    a.node.flags &= ~(uint32_t)QN_NODE_bound;
    a.node.buffer = NULL;
    a.node.tapped = NULL;
    a.node.lender = NULL;

    qn_status status = load_sources(&a, n, memory, err);
    if (status == QN_OK) status = compute(&a, dst, err);
    if (status != QN_OK) (void)qn__backend_sync(be, NULL); /* what was started still uses what goes now */
    if (a.program) type->program_destroy(a.program);
    if (a.activations) type->buffer_destroy(a.activations);
    for (int i = 0; i < n->n_src; i++)
        if (a.buffer[i]) type->buffer_destroy(a.buffer[i]);
    return status;
}
