/* SPDX-License-Identifier: MIT */
/* src/backend/exec.c -- a compiled graph: made ready, compiled against buffers, bound to others. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"

static const qn_backend_type *type_at(const qn_exec *e, int32_t place) { return e->sched->backends[place]->type; }

/* Values that are computed in a param's memory move with it. */
static void move_lent(const qn_node *param)
{
    if (param->op != QN_OP_param) return;
    for (qn_node *y = param->lent; y; y = y->lent) {
        y->buffer = param->buffer;
        y->buffer_offset = param->buffer_offset + y->offset;
    }
}

/* ---- making ready ---------------------------------------------------------------------------- */

qn_status qn__exec_prepare(qn_sched *s, qn_exec *e, bool dry, qn_error *err)
{
    qn_graph *g = e->graph;
    e->sched = s;
    const qn_pass_options passes = {.off = s->options.passes_off, .fold = qn__fold_node, .fold_ctx = s};
    QN_TRY(qn__graph_finish(g, err));
    QN_TRY(qn__graph_optimize(g, &passes, &e->passes, err));
    QN_TRY(qn__place_nodes(s, g, dry, err));
    e->n_fallbacks = s->n_fallbacks;
    QN_TRY(qn__split_graph(s, g, err));
    QN_TRY(qn__bring_together(s, g, err));
#ifdef QN_CHECKED
    QN_TRY(qn__graph_verify(g, err));
#endif
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        n->scratch_bytes = qn__computes(n) ? type_at(e, n->place)->scratch(s->backends[n->place], n) : 0;
    }
    QN_TRY(qn__plan_make(g, s->n_backends, s->align, &e->plan, err));
    for (int32_t i = 0; i < g->n_nodes; i++) move_lent(g->nodes[i]);
#ifdef QN_CHECKED
    QN_TRY(qn__plan_verify(g, &e->plan, err));
#endif
    return qn__cut_steps(e, err);
}

/* Constants of one place lie in one buffer, which lives as long as the exec. */
static qn_status store_at(qn_exec *e, int32_t place, qn_error *err)
{
    qn_graph *g = e->graph;
    const qn_backend_type *type = type_at(e, place);
    uint64_t bytes = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        if (!qn__is_loose_const(n) || n->place != place) continue;
        n->buffer_offset = bytes;
        bytes = qn__align_up(bytes + (uint64_t)qn__node_bytes(n), e->sched->align);
    }
    if (bytes == 0) return QN_OK;
    QN_TRY(type->buffer_create(e->sched->backends[place], bytes, &e->constants[place], err));
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        if (!qn__is_loose_const(n) || n->place != place) continue;
        QN_TRY(type->upload(e->constants[place], n->buffer_offset, n->host, (uint64_t)qn__node_bytes(n), err));
        n->buffer = e->constants[place];
    }
    return QN_OK;
}

qn_status qn__exec_store_constants(qn_exec *e, qn_error *err)
{
    for (int32_t p = 0; p < e->sched->n_backends; p++) QN_TRY(store_at(e, p, err));
    return QN_OK;
}

/* ---- compiling ------------------------------------------------------------------------------- */

void qn__activations_release(qn_activations *a)
{
    if (!a || --a->users > 0) return;
    (void)qn__backend_sync(a->buffer->backend, NULL);
    a->buffer->backend->type->buffer_destroy(a->buffer);
    qn__free(a);
}

bool qn__exec_is_stale(const qn_exec *e)
{
    for (int p = 0; p < e->sched->n_backends; p++)
        if (e->activations[p] != e->sched->activations[p]) return true;
    return false;
}

static void drop_programs(const qn_exec *e, qn_program **programs)
{
    for (int32_t i = 0; i < e->n_steps; i++)
        if (programs[i]) type_at(e, e->steps[i].place)->program_destroy(programs[i]);
    qn__free(programs);
}

static void adopt_buffers(qn_exec *e)
{
    for (int p = 0; p < e->sched->n_backends; p++) {
        qn_activations *old = e->activations[p];
        e->activations[p] = e->sched->activations[p];
        if (e->activations[p]) e->activations[p]->users++;
        qn__activations_release(old);
    }
}

qn_status qn__exec_compile(qn_exec *e, qn_error *err)
{
    qn_sched *s = e->sched;
    qn_program **programs = qn__calloc((size_t)e->n_steps, sizeof(*programs));
    if (!programs) return QN_FAIL_NOMEM(err, (size_t)e->n_steps * sizeof(*programs));
    qn_status status = qn__exec_wait(e, err); /* the old ones may be in use */
    for (int32_t i = 0; i < e->n_steps && status == QN_OK; i++) {
        const qn_step *step = &e->steps[i];
        if (step->transfer) continue;
        const qn_segment segment = {.nodes = e->work + step->first,
                                    .n_nodes = step->n_nodes,
                                    .activations = s->activations[step->place]->buffer};
        status = type_at(e, step->place)->compile(s->backends[step->place], &segment, &programs[i], err);
    }
    if (status != QN_OK) {
        drop_programs(e, programs);
        return status;
    }
    for (int32_t i = 0; i < e->n_steps; i++) {
        qn_program *old = e->steps[i].program;
        e->steps[i].program = programs[i];
        programs[i] = old;
    }
    drop_programs(e, programs);
    adopt_buffers(e);
    return qn__inputs_init(e, err);
}

static bool can_rebind(const qn_exec *e)
{
    for (int32_t i = 0; i < e->n_steps; i++)
        if (e->steps[i].program && !type_at(e, e->steps[i].place)->rebind) return false;
    return true;
}

void qn__exec_rebind_programs(qn_exec *e, qn_activations *const *activations)
{
    for (int32_t i = 0; i < e->n_steps; i++) {
        const qn_step *step = &e->steps[i];
        if (step->program && type_at(e, step->place)->rebind)
            type_at(e, step->place)->rebind(step->program, activations[step->place]->buffer);
    }
    e->rebound = false;
}

void qn__exec_refresh(qn_exec *e)
{
    if (!can_rebind(e)) {
        (void)qn__exec_compile(e, NULL); /* when that fails, the old programs are as right as they were */
        return;
    }
    qn__exec_rebind_programs(e, e->sched->activations);
    adopt_buffers(e);
}

void qn__exec_destroy(void *exec)
{
    qn_exec *e = exec;
    if (!e) return;
    (void)qn__exec_wait(e, NULL); /* programs and constants may be in use */
    qn__inputs_deinit(e);
    for (int32_t i = 0; i < e->n_steps; i++)
        if (e->steps[i].program) type_at(e, e->steps[i].place)->program_destroy(e->steps[i].program);
    for (int p = 0; p < QN_MAX_PLACES; p++) {
        if (e->constants[p]) type_at(e, p)->buffer_destroy(e->constants[p]);
        qn__activations_release(e->activations[p]);
    }
    for (int a = 0; a < QN_EXEC_AXES; a++) qn__free(e->axes[a].stretches);
    qn__graph_destroy(e->graph);
    qn__free(e->trace.skip);
    qn__free(e->trace.gates);
    qn__free(e->trace.looked);
    qn__free(e);
}

/* ---- asking ---------------------------------------------------------------------------------- */

const qn_graph *qn__exec_graph(const qn_exec *e) { return e->graph; }
qn_graph *qn__exec_graph_to_tap(qn_exec *e) { return e->graph; }
const qn_pass_report *qn__exec_passes(const qn_exec *e) { return &e->passes; }
int qn__exec_n_segments(const qn_exec *e) { return e->n_segments; }
int qn__exec_n_transfers(const qn_exec *e) { return e->n_transfers; }
int qn__exec_n_fallbacks(const qn_exec *e) { return e->n_fallbacks; }

const qn_node *qn__exec_find(const qn_exec *e, const char *name)
{
    for (int32_t i = 0; i < e->graph->n_nodes; i++) {
        const qn_node *n = e->graph->nodes[i];
        if (n->flags & QN_NODE_twin) continue;
        if ((n->op == QN_OP_input || (n->flags & QN_NODE_output)) && !strcmp(n->name, name)) return n;
    }
    return NULL;
}

/* ---- where values lie ------------------------------------------------------------------------ */

qn_buffer *qn__exec_memory(const qn_exec *e, const qn_node *n, uint64_t *offset)
{
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    const qn_node *root = n->root;
    *offset = (root->buffer ? root->buffer_offset : root->offset) +
              (uint64_t)(n->layout.offset / d->block_elems * d->block_bytes);
    return root->buffer ? root->buffer : e->activations[root->place]->buffer;
}

qn_status qn__exec_check_mine(const qn_exec *e, const char *what, const qn_node *n, qn_error *err)
{
    if (!n) return QN_FAIL(err, invalid, "this graph has no such %s", what);
    if (n->id < 0 || n->id >= e->graph->n_nodes || e->graph->nodes[n->id] != n)
        return QN_FAIL(err, invalid, "%s \"%s\" belongs to another graph", what, qn__title(n));
    return QN_OK;
}

static bool written(const qn_node *n) { return (n->flags & (QN_NODE_mutable | QN_NODE_bound)) != 0; }

qn_status qn__exec_bind(qn_exec *e, qn_node *node, qn_buffer *buffer, uint64_t offset, qn_error *err)
{
    if (node->flags & QN_NODE_dead) return QN_OK; /* nothing reads it */
    if (node->buffer == buffer && node->buffer_offset == offset) return QN_OK;
    QN_TRY(qn__exec_check_mine(e, "value", node, err));
    if (node->op != QN_OP_param && !(node->flags & QN_NODE_bound))
        return QN_FAIL(err, invalid, "\"%s\" is neither a param nor a bound output", qn__title(node));
    if (!buffer) {
        node->buffer = NULL;
        move_lent(node);
        return QN_OK;
    }
    const uint64_t bytes = (uint64_t)qn__node_bytes(node);
    if (buffer->backend != e->sched->backends[node->place])
        return QN_FAIL(err, invalid, "\"%s\" lies on %s, the buffer on %s", qn__title(node),
                       e->sched->backends[node->place]->name, buffer->backend->name);
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return QN_FAIL(err, invalid, "\"%s\": %llu bytes at %llu of a buffer of %llu", qn__title(node),
                       (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)buffer->bytes);
    if (buffer->read_only && written(node))
        return QN_FAIL(err, invalid, "\"%s\" would be written into a read-only mapping", qn__title(node));
    node->buffer = buffer;
    node->buffer_offset = offset;
    move_lent(node);
    e->rebound = true;
    return QN_OK;
}
