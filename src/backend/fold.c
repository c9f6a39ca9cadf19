/* SPDX-License-Identifier: MIT */
/* src/backend/fold.c -- computes a node of constants at compile time, on the road that every node takes: buffers,
 * compile, run, download. */
#include "backend/internal.h"

#include "base/mem.h"

typedef struct fold {
    qn_backend *be;
    qn_node node; /* the node, alone: its sources are the copies below */
    qn_node src[QN_MAX_SRC];
    qn_buffer *buffer[QN_MAX_SRC];
    qn_buffer *activations;
    qn_program *program;
} fold;

/* The backend that the node would run on, or else the first that takes it. */
static qn_backend *who_takes(const qn_sched *s, const qn_node *n, qn_error *err)
{
    const int first = n->hint >= 0 && n->hint < s->n_backends ? n->hint : 0;
    if (s->backends[first]->type->accepts(s->backends[first], n, err)) return s->backends[first];
    for (int i = 0; i < s->n_backends; i++)
        if (s->backends[i]->type->accepts(s->backends[i], n, NULL)) return s->backends[i];
    return NULL;
}

static qn_status load_sources(fold *f, const qn_node *n, qn_error *err)
{
    const qn_backend_type *type = f->be->type;
    for (int i = 0; i < n->n_src; i++) {
        const uint64_t bytes = (uint64_t)qn__node_bytes(n->src[i]->root);
        QN_TRY(type->buffer_create(f->be, bytes ? bytes : 1, &f->buffer[i], err));
        QN_TRY(type->upload(f->buffer[i], 0, n->src[i]->root->host, bytes, err));
        f->src[i] = *n->src[i];
        f->src[i].root = &f->src[i];
        f->src[i].buffer = f->buffer[i];
        f->src[i].buffer_offset = 0;
        f->src[i].place = f->node.place;
        f->node.src[i] = &f->src[i];
    }
    return QN_OK;
}

static qn_status compute(fold *f, void *dst, qn_error *err)
{
    const qn_backend_type *type = f->be->type;
    const uint64_t bytes = (uint64_t)qn__node_bytes(&f->node);
    f->node.scratch_bytes = type->scratch(f->be, &f->node);
    f->node.scratch_offset = qn__align_up(bytes ? bytes : 1, f->be->alignment);
    QN_TRY(type->buffer_create(f->be, f->node.scratch_offset + f->node.scratch_bytes, &f->activations, err));

    qn_node *const nodes[] = {&f->node};
    const qn_segment segment = {.nodes = nodes, .n_nodes = 1, .activations = f->activations};
    QN_TRY(type->compile(f->be, &segment, &f->program, err));
    QN_TRY(type->run(f->program, NULL, err));
    return type->download(f->activations, 0, dst, bytes, err);
}

qn_status qn__fold_node(void *sched, const qn_node *n, void *dst, qn_error *err)
{
    fold f = {.node = *n};
    f.be = who_takes(sched, n, err);
    if (!f.be) return QN_STATUS_unsupported;
    f.node.root = &f.node;
    f.node.place = 0;
    f.node.offset = 0;

    qn_status status = load_sources(&f, n, err);
    if (status == QN_OK) status = compute(&f, dst, err);
    const qn_backend_type *type = f.be->type;
    if (status != QN_OK) (void)qn__backend_sync(f.be, NULL); /* what was started still uses what goes now */
    if (f.program) type->program_destroy(f.program);
    if (f.activations) type->buffer_destroy(f.activations);
    for (int i = 0; i < n->n_src; i++)
        if (f.buffer[i]) type->buffer_destroy(f.buffer[i]);
    return status;
}
