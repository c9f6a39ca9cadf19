/* SPDX-License-Identifier: MIT */
/* src/gpu/program.c -- a segment compiled to a list of launches with every value resolved, and sending them. */
#include "gpu/gpu.h"
#include "backend/values.h"
#include "base/metrics.h"

#include <string.h>

/* Where a value of a launch lies; resolved again when buffers change. */
typedef struct place {
    const qn_node *node; /* NULL: scratch of the step's node */
    int64_t from;
} place;

typedef struct planned {
    qn_gpu_launch launch;
    place at[QN_GPU_MAX_VALUES];
    const qn_node *user;
} planned;

/* A node of the segment: its launches end before `end`, and begin where those of the node before end. */
typedef struct span {
    const qn_node *node;
    int32_t end;
} span;

struct qn_program {
    qn_gpu *gpu;
    const qn_buffer *activations;
    planned *launches;
    int32_t n, cap;
    int32_t
        n_single; /* launches before it are of each node by itself, for who looks on; from it on, of runs of nodes */
    span *spans;  /* [n_nodes] */
    int32_t n_nodes;
    void *graph; /* the driver's, of all launches; NULL before the first run */
};

struct qn_gpu_builder {
    qn_program *program;
    const qn_node *node;
    bool nomem;
};

const qn_gpu_device_info *qn__gpu_info(const qn_gpu_builder *b) { return &b->program->gpu->info; }

void qn__gpu_launch(qn_gpu_builder *b, qn_gpu_kernel kernel, int64_t n_groups, const qn_gpu_value *values, int n_values,
                    const void *sizes, size_t n_sizes)
{
    qn_program *p = b->program;
    QN_ASSERT(n_values <= QN_GPU_MAX_VALUES && n_sizes <= QN_GPU_MAX_SIZES);
    if (n_groups <= 0 || b->nomem) return;
    if (p->n == p->cap) {
        const int32_t cap = p->cap ? 2 * p->cap : 64;
        planned *more = qn__realloc(p->launches, (size_t)cap * sizeof(*more));
        b->nomem = !more;
        if (!more) return;
        p->launches = more;
        p->cap = cap;
    }
    planned *to = &p->launches[p->n++];
    *to = (planned){.user = b->node,
                    .launch = {.kernel = kernel,
                               .n_values = n_values,
                               .n_sizes = n_sizes,
                               .n_groups = (uint64_t)n_groups,
                               .width = qn__gpu_kernel_width(kernel),
                               .room = qn__gpu_kernel_room(kernel)}};
    memcpy(to->launch.sizes, sizes, n_sizes);
    for (int i = 0; i < n_values; i++) to->at[i] = (place){values[i].node, values[i].from};
}

/* ---- where values lie ---- */

static void resolve(const qn_buffer *activations, planned *l)
{
    for (int i = 0; i < l->launch.n_values; i++) {
        const qn_node *n = l->at[i].node;
        const qn_buffer *buffer = activations;
        uint64_t offset = l->user->scratch_offset + (uint64_t)l->at[i].from;
        if (n) {
            const qn_dtype_info *d = qn_dtype_get(n->dtype);
            if (qn__value_is_unbound(n->root)) continue;
            buffer = n->root->buffer ? n->root->buffer : activations;
            offset = (n->root->buffer ? n->root->buffer_offset : n->root->offset) +
                     (uint64_t)(n->layout.offset / d->block_elems * d->block_bytes + l->at[i].from);
        }
        l->launch.memory[i] = buffer ? ((const qn_gpu_buffer *)buffer)->memory : NULL;
        l->launch.offset[i] = offset;
    }
}

static qn_status check_value(const qn_gpu *gpu, const qn_segment *segment, const qn_node *user, const qn_node *n,
                             qn_error *err)
{
    return qn__value_is_unbound(n->root) ? QN_OK : qn__value_check(&gpu->base, segment->activations, user, n, err);
}

static qn_status prepare(qn_gpu *gpu, const qn_gpu_launch *l, qn_error *err)
{
    return qn__gpu_noted(gpu, gpu->driver->prepare(gpu->device, l->kernel, err), err);
}

static qn_status compile_node(qn_gpu_builder *b, const qn_segment *segment, const qn_node *n, qn_error *err)
{
    qn_gpu *gpu = b->program->gpu;
    if (!qn__gpu_accepts(&gpu->base, n, err))
        return qn__prefix(err, QN_STATUS_unsupported, "%s can't run \"%s\"", gpu->base.name,
                          n->name[0] ? n->name : qn_node_op_name(n));
    QN_TRY(check_value(gpu, segment, n, n, err));
    for (int i = 0; i < n->n_src; i++) QN_TRY(check_value(gpu, segment, n, n->src[i], err));
    const uint64_t need = qn__gpu_scratch(&gpu->base, n);
    const qn_buffer *buffer = segment->activations;
    if (need > n->scratch_bytes ||
        (need > 0 && (!buffer || n->scratch_offset > buffer->bytes || need > buffer->bytes - n->scratch_offset)))
        return QN_FAIL(err, invalid, "%s: \"%s\" needs %llu bytes of scratch, %llu planned", gpu->base.name, n->name,
                       (unsigned long long)need, (unsigned long long)n->scratch_bytes);
    b->node = n;
    const int32_t first = b->program->n;
    qn__gpu_op(n->op)->launch(b, n);
    if (b->nomem) return QN_FAIL(err, nomem, "out of memory while compiling for %s", gpu->base.name);
    b->program->spans[b->program->n_nodes++] = (span){n, b->program->n};
    for (int32_t i = first; i < b->program->n; i++) QN_TRY(prepare(gpu, &b->program->launches[i].launch, err));
    return QN_OK;
}

/* How many of the segment's nodes from i on the scheduler has laid out as one. */
static int32_t length_of_run(const qn_segment *segment, int32_t i)
{
    const qn_node *last = segment->nodes[i]->one_last;
    int32_t n = 1;
    while (last && segment->nodes[i + n - 1] != last && i + n < segment->n_nodes) n++;
    return n;
}

/* The same nodes once more, those that belong together as one. Each was checked by itself. */
static qn_status compile_runs(qn_gpu_builder *b, const qn_segment *segment, qn_error *err)
{
    qn_program *p = b->program;
    qn_gpu *gpu = p->gpu;
    p->n_single = p->n;
    for (int32_t i = 0; i < segment->n_nodes;) {
        const qn_node *first = segment->nodes[i];
        qn_gpu_run run;
        const int32_t n = length_of_run(segment, i);
        qn__gpu_find_run(segment->nodes + i, n, &run);
        QN_ASSERT(run.n == n);
        /* of a run the columns are in the scratch of its first product */
        b->node = run.n_products ? run.product[0] : first;
        if (run.n > 1)
            qn__gpu_launch_run(b, &run);
        else
            qn__gpu_op(first->op)->launch(b, first);
        i += run.n;
    }
    if (b->nomem) return QN_FAIL(err, nomem, "out of memory while compiling for %s", gpu->base.name);
    for (int32_t i = p->n_single; i < p->n; i++) QN_TRY(prepare(gpu, &p->launches[i].launch, err));
    return QN_OK;
}

static void drop_graph(qn_program *p)
{
    if (p->graph) p->gpu->driver->graph_destroy(p->gpu->device, p->graph);
    p->graph = NULL;
}

void qn__gpu_rebind(qn_program *program, const qn_buffer *activations)
{
    for (int32_t i = 0; i < program->n; i++) resolve(activations, &program->launches[i]);
    program->activations = activations;
    drop_graph(program);
}

void qn__gpu_program_destroy(qn_program *program)
{
    if (!program) return;
    drop_graph(program);
    qn__free(program->launches);
    qn__free(program->spans);
    qn__free(program);
}

qn_status qn__gpu_compile(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err)
{
    qn_program *program = qn__calloc(1, sizeof(*program));
    if (!program) return QN_FAIL_NOMEM(err, sizeof(*program));
    program->gpu = (qn_gpu *)be;
    qn_gpu_builder b = {.program = program};
    program->spans = qn__calloc((size_t)segment->n_nodes, sizeof(*program->spans));
    qn_status status = program->spans ? QN_OK : QN_FAIL_NOMEM(err, (size_t)segment->n_nodes * sizeof(*program->spans));
    for (int32_t i = 0; i < segment->n_nodes && status == QN_OK; i++)
        status = compile_node(&b, segment, segment->nodes[i], err);
    if (status == QN_OK) status = compile_runs(&b, segment, err);
    if (status != QN_OK) {
        qn__gpu_program_destroy(program);
        return status;
    }
    qn__gpu_rebind(program, segment->activations);
    *out = program;
    return QN_OK;
}

/* ---- running ---- */

static qn_status launch_all(qn_program *p, int32_t from, int32_t to, qn_error *err)
{
    qn_gpu *gpu = p->gpu;
    for (int32_t i = from; i < to; i++)
        QN_TRY(qn__gpu_noted(gpu, gpu->driver->launch(gpu->device, &p->launches[i].launch, err), err));
    return QN_OK;
}

/* One node, done before somebody looks. */
static qn_status run_node(qn_program *p, int32_t k, const qn_run *run, qn_trace_ring *ring, qn_error *err)
{
    qn_gpu *gpu = p->gpu;
    const qn_node *n = p->spans[k].node;
    const int32_t begin = k ? p->spans[k - 1].end : 0, end = p->spans[k].end;
    const int64_t start = qn__now_ns();
    const uint64_t began = ring ? qn__trace_ticks() : 0;
    QN_TRY(launch_all(p, begin, end, err));
    QN_COUNT(launches, end - begin);
    QN_COUNT(kernel_tasks, 1);
    QN_TRY(qn__gpu_noted(gpu, gpu->driver->finish(gpu->device, err), err));
    if (ring && !(run->trace->skip && run->trace->skip[n->id]))
        qn__trace_put(ring, QN_TRACE_node, (uint32_t)n->id, began, qn__trace_ticks(), 0);
    if (run->node_ns) run->node_ns[n->id] += (double)(qn__now_ns() - start);
    return QN_OK;
}

static qn_status run_nodes(qn_program *p, const qn_run *run, qn_trace_ring *ring, qn_error *err)
{
    for (int32_t k = 0; k < p->n_nodes; k++) {
        const qn_node *n = p->spans[k].node;
        bool go = !run->eval || run->eval(run->eval_ctx, n, false);
        if (go) QN_TRY(run_node(p, k, run, ring, err));
        if (go && ring && run->trace->look) run->trace->look(run->trace->look_ctx, n);
        go = go && (!run->tap || !n->tapped || run->tap(run->tap_ctx, n));
        if (go && (!run->eval || run->eval(run->eval_ctx, n, true))) continue;
        if (run->stopped) *run->stopped = n->id;
        return QN_FAIL(err, cancelled, "stopped by a callback at node %d, %s \"%s\"", n->id, qn_node_op_name(n),
                       n->name);
    }
    return QN_OK;
}

/* One node at a time, for a callback, a tap, the clock or a recording. */
static qn_status run_slowly(qn_program *p, const qn_run *run, qn_error *err)
{
    qn_trace_ring *ring = run->trace ? qn__trace_enter() : NULL;
    if (ring) {
        const uint64_t now = qn__trace_ticks();
        qn__trace_put(ring, QN_TRACE_run, 0, now, now, run->trace->step);
    }
    const qn_status status = run_nodes(p, run, ring, err);
    if (ring) qn__trace_leave();
    return status;
}

/* Noted once, and anew when addresses have changed. */
static qn_status capture(qn_program *p, qn_error *err)
{
    qn_gpu *gpu = p->gpu;
    QN_TRY(qn__gpu_noted(gpu, gpu->driver->capture_begin(gpu->device, err), err));
    const qn_status status = launch_all(p, p->n_single, p->n, err);
    const qn_status end = gpu->driver->capture_end(gpu->device, &p->graph, status == QN_OK ? err : NULL);
    if (status != QN_OK && end == QN_OK) drop_graph(p);
    if (status != QN_OK || end != QN_OK) return qn__gpu_noted(gpu, status != QN_OK ? status : end, err);
    QN_COUNT(captures, 1);
    return QN_OK;
}

static bool is_watched(const qn_program *p, const qn_run *run)
{
    if (!run) return false;
    if (run->eval || run->node_ns || run->trace) return true;
    for (int32_t i = 0; run->tap && i < p->n_nodes; i++)
        if (p->spans[i].node->tapped) return true;
    return false;
}

qn_status qn__gpu_run(qn_program *p, const qn_run *run, qn_error *err)
{
    qn_gpu *gpu = p->gpu;
    QN_TRY(qn__gpu_there(gpu, err));
    if (is_watched(p, run)) return run_slowly(p, run, err);
    QN_COUNT(kernel_tasks, p->n_nodes);
    if (!gpu->info.captures || p->n == p->n_single) {
        QN_COUNT(launches, p->n - p->n_single);
        return launch_all(p, p->n_single, p->n, err);
    }
    if (!p->graph) QN_TRY(capture(p, err));
    QN_COUNT(launches, 1);
    return qn__gpu_noted(gpu, gpu->driver->replay(gpu->device, p->graph, err), err);
}
