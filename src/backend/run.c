/* SPDX-License-Identifier: MIT */
/* src/backend/run.c -- running a compiled graph: inputs go up, steps are started in order, outputs come down. Setting,
 * running and getting allocate nothing. Nothing waits but getting, and a value on its way to the host. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"

static const qn_backend_type *type_at(const qn_exec *e, int32_t place) { return e->sched->backends[place]->type; }

/* ---- inputs -----------------------------------------------------------------------------------
 * Of a place with memory of its own all inputs lie in one block of its activations, and are gathered in a copy of it on
 * the host, which goes up when the graph runs. */

void qn__inputs_deinit(qn_exec *e)
{
    for (int p = 0; p < QN_MAX_PLACES; p++) {
        qn_input_block *b = &e->inputs[p];
        if (b->host) type_at(e, p)->host_free(e->sched->backends[p], b->host);
        if (b->sent) type_at(e, p)->event_destroy(b->sent);
        *b = (qn_input_block){0};
    }
}

static bool gathers(const qn_exec *e, int32_t place)
{
    return type_at(e, place)->send && !e->sched->activations[place]->buffer->host;
}

qn_status qn__inputs_init(qn_exec *e, qn_error *err)
{
    qn_input_block blocks[QN_MAX_PLACES] = {0};
    qn__inputs_deinit(e);
    for (int32_t i = 0; i < e->graph->n_nodes; i++) {
        const qn_node *n = e->graph->nodes[i];
        const bool is_input = n->op == QN_OP_input || (n->flags & QN_NODE_early);
        qn_input_block *b = &blocks[is_input ? n->place : 0];
        const uint64_t bytes = (uint64_t)qn__node_bytes(n);
        if (!is_input || bytes == 0) continue;
        if (b->bytes == 0) b->first = n->offset;
        /* the planner lays inputs out before all else, in the order of the graph */
        QN_ASSERT(n->offset >= b->first);
        b->bytes = n->offset + bytes - b->first;
    }
    for (int p = 0; p < e->sched->n_backends; p++) {
        if (!blocks[p].bytes || !gathers(e, p)) continue;
        void *host = NULL;
        QN_TRY(type_at(e, p)->host_alloc(e->sched->backends[p], blocks[p].bytes, &host, err));
        memset(host, 0, (size_t)blocks[p].bytes);
        e->inputs[p] = blocks[p];
        e->inputs[p].host = host;
        QN_TRY(type_at(e, p)->event_create(e->sched->backends[p], &e->inputs[p].sent, err));
    }
    return QN_OK;
}

static qn_status set_at(qn_exec *e, const qn_node *input, const void *data, uint64_t bytes, qn_error *err)
{
    qn_input_block *b = &e->inputs[input->place];
    if (bytes == 0) return QN_OK;
    if (b->host) {
        QN_TRY(qn__event_wait(b->sent, err));
        memcpy(b->host + (input->offset - b->first), data, (size_t)bytes);
        b->dirty = true;
        return QN_OK;
    }
    uint64_t at;
    qn_buffer *buffer = qn__exec_memory(e, input, &at);
    return buffer->backend->type->upload(buffer, at, data, bytes, err);
}

qn_status qn__exec_set(qn_exec *e, const qn_node *input, const void *data, uint64_t bytes, qn_error *err)
{
    QN_TRY(qn__exec_check_mine(e, "input", input, err));
    if (input->op != QN_OP_input)
        return QN_FAIL(err, invalid, "\"%s\" is a %s, no input", qn__title(input), qn_node_op_name(input));
    const uint64_t want = (uint64_t)qn__node_bytes(input);
    if (bytes != want)
        return QN_FAIL(err, invalid, "input \"%s\": %llu bytes given, %llu expected", qn__title(input),
                       (unsigned long long)bytes, (unsigned long long)want);
    for (const qn_node *n = input; n; n = n->twin) QN_TRY(set_at(e, n, data, bytes, err));
    return QN_OK;
}

/* Before the first node of the place. */
static qn_status send_inputs(qn_exec *e, int32_t place, qn_error *err)
{
    qn_input_block *b = &e->inputs[place];
    if (!b->dirty) return QN_OK;
    QN_TRY(type_at(e, place)->send(e->activations[place]->buffer, b->first, b->host, b->bytes, err));
    QN_TRY(type_at(e, place)->event_record(b->sent, err));
    b->dirty = false;
    return QN_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

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
    QN_TRY(qn__exec_check_mine(e, "output", output, err));
    if (!(output->flags & QN_NODE_output))
        return QN_FAIL(err, invalid, "\"%s\" is not marked as an output", qn__title(output));
    return read_value(e, output, data, offset, bytes, err);
}

qn_status qn__exec_peek(const qn_exec *e, const qn_node *node, void *data, uint64_t offset, uint64_t bytes,
                        qn_error *err)
{
    QN_TRY(qn__exec_check_mine(e, "node", node, err));
    if (!qn_layout_is_contiguous(&node->layout))
        return QN_FAIL(err, unsupported, "\"%s\" is a strided view", qn__title(node));
    QN_TRY(qn__backend_sync(e->sched->backends[node->root->place], err));
    return read_value(e, node, data, offset, bytes, err);
}

/* ---- running --------------------------------------------------------------------------------- */

/* What the host has computed of inputs goes up with them. */
static qn_status gather(qn_exec *e, const qn_node *t, const qn_buffer *from, uint64_t from_at, qn_error *err)
{
    qn_input_block *b = &e->inputs[t->place];
    QN_TRY(qn__event_wait(b->sent, err));
    memcpy(b->host + (t->offset - b->first), (const uint8_t *)from->host + from_at, (size_t)qn__node_bytes(t));
    b->dirty = true;
    return QN_OK;
}

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
    uint64_t from_at, to_at;
    qn_buffer *from = qn__exec_memory(e, t->src[0], &from_at), *to = qn__exec_memory(e, t, &to_at);
    const bool goes_with_inputs = (t->flags & QN_NODE_early) && e->inputs[t->place].host && from->host;
    if (bytes > 0 && goes_with_inputs) return gather(e, t, from, from_at, err);
    count_move(t, bytes);
    if (bytes == 0) return QN_OK;
    if (to->host) { /* whoever computes there may still read what was in it */
        QN_TRY(qn__backend_sync(to->backend, err));
        return from->backend->type->download(from, from_at, (uint8_t *)to->host + to_at, bytes, err);
    }
    if (from->host) {
        QN_TRY(qn__backend_sync(from->backend, err));
        return to->backend->type->upload(to, to_at, (const uint8_t *)from->host + from_at, bytes, err);
    }
    if (to->backend->type == from->backend->type && to->backend->type->copy) {
        const qn_status status = to->backend->type->copy(to, to_at, from, from_at, bytes, err);
        if (status != QN_STATUS_unsupported) return status;
    }
    QN_ASSERT(bytes <= e->sched->staging_bytes);
    QN_TRY(from->backend->type->download(from, from_at, e->sched->staging, bytes, err));
    return to->backend->type->upload(to, to_at, e->sched->staging, bytes, err);
}

static qn_status run_step(qn_exec *e, const qn_step *step, const qn_run *run, qn_error *err)
{
    if (!step->transfer) {
        QN_TRY(send_inputs(e, step->place, err));
        return type_at(e, step->place)->run(step->program, run, err);
    }
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
    if (qn__trace_on() && !qn__trace_paused()) run = qn__exec_record(e, run, &recording);
    if (e->rebound) qn__exec_rebind_programs(e, e->activations);
    for (int32_t i = 0; i < e->n_steps && status == QN_OK; i++) status = run_step(e, &e->steps[i], run, err);
    if (status != QN_OK) (void)qn__exec_wait(e, NULL); /* what was started is over when a run fails */
    if (recording.ring) qn__exec_recorded(e, &recording);
    QN_COUNT(graph_runs, 1);
    const int64_t took = qn__now_ns() - start;
    QN_COUNT(compute_ns, took);
    QN_OBSERVE(graph_run, took);
    return status;
}

static bool has_steps(const qn_exec *e, int32_t place)
{
    for (int32_t i = 0; i < e->n_steps; i++)
        if (e->steps[i].place == place) return true;
    return false;
}

/* A device that has no part in it may be gone. */
qn_status qn__exec_wait(const qn_exec *e, qn_error *err)
{
    qn_status status = QN_OK;
    for (int p = 0; p < e->sched->n_backends; p++) {
        if (!has_steps(e, p)) continue;
        const qn_status one = qn__backend_sync(e->sched->backends[p], status == QN_OK ? err : NULL);
        if (status == QN_OK) status = one;
    }
    return status;
}
