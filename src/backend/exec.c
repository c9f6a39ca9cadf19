/* SPDX-License-Identifier: MIT */
/* src/backend/exec.c -- a compiled graph: made ready, compiled against buffers, given inputs, run, asked for outputs.
 * Setting, running and getting allocate nothing. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"

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
    QN_TRY(qn__split_graph(s, g, err));
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
    qn_status status = QN_OK;
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
    return QN_OK;
}

static bool can_rebind(const qn_exec *e)
{
    for (int32_t i = 0; i < e->n_steps; i++)
        if (e->steps[i].program && !type_at(e, e->steps[i].place)->rebind) return false;
    return true;
}

static void rebind_programs(qn_exec *e, qn_activations *const *activations)
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
    rebind_programs(e, e->sched->activations);
    adopt_buffers(e);
}

void qn__exec_destroy(void *exec)
{
    qn_exec *e = exec;
    if (!e) return;
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
    qn__free(e);
}

/* ---- asking ---------------------------------------------------------------------------------- */

const qn_graph *qn__exec_graph(const qn_exec *e) { return e->graph; }
qn_graph *qn__exec_graph_to_tap(qn_exec *e) { return e->graph; }
const qn_pass_report *qn__exec_passes(const qn_exec *e) { return &e->passes; }
int qn__exec_n_segments(const qn_exec *e) { return e->n_segments; }
int qn__exec_n_transfers(const qn_exec *e) { return e->n_transfers; }

const qn_node *qn__exec_find(const qn_exec *e, const char *name)
{
    for (int32_t i = 0; i < e->graph->n_nodes; i++) {
        const qn_node *n = e->graph->nodes[i];
        if ((n->op == QN_OP_input || (n->flags & QN_NODE_output)) && !strcmp(n->name, name)) return n;
    }
    return NULL;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

qn_buffer *qn__exec_memory(const qn_exec *e, const qn_node *n, uint64_t *offset)
{
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    const qn_node *root = n->root;
    *offset = (root->buffer ? root->buffer_offset : root->offset) +
              (uint64_t)(n->layout.offset / d->block_elems * d->block_bytes);
    return root->buffer ? root->buffer : e->activations[root->place]->buffer;
}

static qn_status check_mine(const qn_exec *e, const char *what, const qn_node *n, qn_error *err)
{
    if (!n) return QN_FAIL(err, invalid, "this graph has no such %s", what);
    if (n->id < 0 || n->id >= e->graph->n_nodes || e->graph->nodes[n->id] != n)
        return QN_FAIL(err, invalid, "%s \"%s\" belongs to another graph", what, qn__title(n));
    return QN_OK;
}

qn_status qn__exec_set(qn_exec *e, const qn_node *input, const void *data, uint64_t bytes, qn_error *err)
{
    QN_TRY(check_mine(e, "input", input, err));
    if (input->op != QN_OP_input)
        return QN_FAIL(err, invalid, "\"%s\" is a %s, no input", qn__title(input), qn_node_op_name(input));
    const uint64_t want = (uint64_t)qn__node_bytes(input);
    if (bytes != want)
        return QN_FAIL(err, invalid, "input \"%s\": %llu bytes given, %llu expected", qn__title(input),
                       (unsigned long long)bytes, (unsigned long long)want);
    uint64_t at;
    qn_buffer *buffer = qn__exec_memory(e, input, &at);
    return bytes ? buffer->backend->type->upload(buffer, at, data, bytes, err) : QN_OK;
}

static qn_status read_value(const qn_exec *e, const qn_node *n, void *data, uint64_t offset, uint64_t bytes,
                            qn_error *err)
{
    const uint64_t has = (uint64_t)qn__node_bytes(n);
    if (offset > has || bytes > has - offset)
        return QN_FAIL(err, invalid, "\"%s\": %llu bytes at %llu wanted, it has %llu", qn__title(n),
                       (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)has);
    uint64_t at;
    qn_buffer *buffer = qn__exec_memory(e, n, &at);
    return bytes ? buffer->backend->type->download(buffer, at + offset, data, bytes, err) : QN_OK;
}

qn_status qn__exec_get(const qn_exec *e, const qn_node *output, void *data, uint64_t offset, uint64_t bytes,
                       qn_error *err)
{
    QN_TRY(check_mine(e, "output", output, err));
    if (!(output->flags & QN_NODE_output))
        return QN_FAIL(err, invalid, "\"%s\" is not marked as an output", qn__title(output));
    return read_value(e, output, data, offset, bytes, err);
}

qn_status qn__exec_peek(const qn_exec *e, const qn_node *node, void *data, uint64_t offset, uint64_t bytes,
                        qn_error *err)
{
    QN_TRY(check_mine(e, "node", node, err));
    if (!qn_layout_is_contiguous(&node->layout))
        return QN_FAIL(err, unsupported, "\"%s\" is a strided view", qn__title(node));
    e->sched->backends[node->root->place]->type->sync(e->sched->backends[node->root->place]);
    return read_value(e, node, data, offset, bytes, err);
}

static bool written(const qn_node *n) { return (n->flags & (QN_NODE_mutable | QN_NODE_bound)) != 0; }

qn_status qn__exec_bind(qn_exec *e, qn_node *node, qn_buffer *buffer, uint64_t offset, qn_error *err)
{
    if (node->flags & QN_NODE_dead) return QN_OK; /* nothing reads it */
    if (node->buffer == buffer && node->buffer_offset == offset) return QN_OK;
    QN_TRY(check_mine(e, "value", node, err));
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

/* ---- running --------------------------------------------------------------------------------- */

static void count_move(const qn_node *t, uint64_t bytes)
{
    const qn_node *root = t->src[0]->root;
    QN_COUNT(transfers, 1);
    QN_COUNT(transfer_bytes, bytes);
    if (root->op == QN_OP_param && !(root->flags & QN_NODE_mutable)) QN_COUNT(weight_transfers, 1);
}

static qn_status move(qn_exec *e, const qn_node *t, qn_error *err)
{
    const uint64_t bytes = (uint64_t)qn__node_bytes(t);
    count_move(t, bytes);
    uint64_t from_at, to_at;
    qn_buffer *from = qn__exec_memory(e, t->src[0], &from_at), *to = qn__exec_memory(e, t, &to_at);
    from->backend->type->sync(from->backend);
    to->backend->type->sync(to->backend);
    if (bytes == 0) return QN_OK;
    if (to->host) return from->backend->type->download(from, from_at, (uint8_t *)to->host + to_at, bytes, err);
    if (from->host) return to->backend->type->upload(to, to_at, (const uint8_t *)from->host + from_at, bytes, err);
    QN_ASSERT(bytes <= e->sched->staging_bytes);
    QN_TRY(from->backend->type->download(from, from_at, e->sched->staging, bytes, err));
    return to->backend->type->upload(to, to_at, e->sched->staging, bytes, err);
}

static qn_status run_step(qn_exec *e, const qn_step *step, const qn_run *run, qn_error *err)
{
    if (!step->transfer) return type_at(e, step->place)->run(step->program, run, err);
    const int64_t start = run && run->node_ns ? qn__now_ns() : 0;
    const uint64_t began = run && run->trace ? qn__trace_begin() : 0;
    const qn_status status = move(e, step->transfer, err);
    if (began) qn__exec_record_transfer(step->transfer, run->trace, began);
    if (run && run->node_ns) run->node_ns[step->transfer->id] += (double)(qn__now_ns() - start);
    return status;
}

qn_status qn__exec_run(qn_exec *e, const qn_run *run, qn_error *err)
{
    const int64_t start = qn__now_ns();
    qn_status status = QN_OK;
    qn_exec_recording recording;
    recording.ring = NULL;
    if (qn__trace_on()) run = qn__exec_record(e, run, &recording);
    if (e->rebound) rebind_programs(e, e->activations);
    for (int32_t i = 0; i < e->n_steps && status == QN_OK; i++) status = run_step(e, &e->steps[i], run, err);
    for (int p = 0; p < e->sched->n_backends; p++) type_at(e, p)->sync(e->sched->backends[p]);
    if (recording.ring) qn__exec_recorded(e, &recording);
    QN_COUNT(graph_runs, 1);
    QN_COUNT(compute_ns, qn__now_ns() - start);
    return status;
}
