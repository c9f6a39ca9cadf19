/* SPDX-License-Identifier: MIT */
/* src/cpu/program.c -- a segment compiled to a flat list of steps with every pointer resolved, and the walk over it.
 *
 * All threads of the team walk the same list. A phase that is worth sharing is handed out in chunks, with a barrier
 * behind it. Small phases are done by thread 0 alone and need a barrier only next to shared ones, so a chain of
 * small nodes costs none.
 *
 * A phase that finds a fault is the last one: thread 0 skips what it would do alone, and all threads leave at the
 * next barrier, where they agree on what came before it. */
#include "cpu/program.h"
#include "backend/values.h"

#include <string.h>

#include "base/metrics.h"

typedef struct phase {
    int64_t items, chunk;
    bool shared;
} phase;

/* How often one kind of operation was computed in this run, and how long that took thread 0. */
typedef struct tally {
    qn_op op;
    uint64_t count, ticks;
} tally;

typedef struct step {
    qn_task task; /* tile, phase, begin and end are the worker's */
    const qn_cpu_op *op;
    tally *tally; /* of its kind */
    phase phases[QN_CPU_MAX_PHASES];
    bool chooses; /* the first that reads these ids of experts */
} step;

struct qn_program {
    qn_cpu *cpu;
    int32_t n_steps;
    step *steps;
    tally *tallies; /* behind the steps */
    int32_t n_tallies;
    const qn_buffer *activations; /* whose memory the addresses point into */
    qn_fault fault;
};

/* ---- compiling ------------------------------------------------------------------------------- */

static qn_status memory_of(const qn_cpu *cpu, const qn_segment *segment, const qn_node *user, const qn_node *n,
                           uint8_t **out, qn_error *err)
{
    const qn_node *root = n->root;
    const qn_buffer *buffer = root->buffer ? root->buffer : segment->activations;
    *out = NULL;
    if (qn__value_is_unbound(root)) return QN_OK;
    QN_TRY(qn__value_check(&cpu->base, segment->activations, user, n, err));
    *out = (uint8_t *)buffer->host + (root->buffer ? root->buffer_offset : root->offset);
    return QN_OK;
}

static qn_status view_of(const qn_cpu *cpu, const qn_segment *segment, const qn_node *user, const qn_node *n,
                         qn_view *out, qn_error *err)
{
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    QN_TRY(memory_of(cpu, segment, user, n, &out->data, err));
    out->dtype = n->dtype;
    out->layout = n->layout;
    if (out->data) out->data += n->layout.offset / d->block_elems * d->block_bytes;
    out->layout.offset = 0;
    return QN_OK;
}

/* Checked builds use other chunk sizes, so that a result that depends on them shows. */
static int64_t chunk_in_this_build(int64_t chunk, int32_t seed)
{
#ifdef QN_CHECKED
    return 1 + (int64_t)((uint32_t)seed * UINT32_C(2654435761) >> 8) % chunk;
#else
    (void)seed;
    return chunk;
#endif
}

/* Into items of each phase, and chunks of these. */
static void divide(const qn_cpu *cpu, step *s)
{
    const qn_node *n = s->task.node;
    for (int p = 0; p < s->op->n_phases; p++) {
        phase *ph = &s->phases[p];
        ph->chunk = 1;
        ph->items = s->op->items(cpu->kernels, n, p, &ph->chunk);
        ph->chunk = chunk_in_this_build(ph->chunk, n->id + p);
        ph->shared = ph->items > ph->chunk;
    }
}

static qn_status compile_step(const qn_cpu *cpu, const qn_segment *segment, const qn_node *n, step *s, qn_error *err)
{
    if (!cpu->base.type->accepts(&cpu->base, n, err))
        return qn__prefix(err, QN_STATUS_unsupported, "%s can't run \"%s\"", cpu->base.name,
                          n->name[0] ? n->name : qn_node_op_name(n));
    qn_task *t = &s->task;
    s->op = qn__cpu_op(n->op);
    t->node = n;
    t->attrs = n->attrs;
    t->n_src = n->n_src;
    t->kernels = cpu->kernels;
    QN_TRY(view_of(cpu, segment, n, n, &t->dst, err));
    for (int i = 0; i < n->n_src; i++) QN_TRY(view_of(cpu, segment, n, n->src[i], &t->src[i], err));
    if (n->root->buffer && ((const qn_buffer *)n->root->buffer)->read_only)
        return QN_FAIL(err, invalid, "%s: \"%s\" would write into a read-only mapping", cpu->base.name, n->name);

    const uint64_t need = s->op->scratch ? s->op->scratch(cpu->kernels, n) : 0;
    const qn_buffer *buffer = segment->activations;
    if (need > n->scratch_bytes ||
        (need > 0 && (!buffer || n->scratch_offset > buffer->bytes || need > buffer->bytes - n->scratch_offset)))
        return QN_FAIL(err, invalid, "%s: \"%s\" needs %llu bytes of scratch, %llu planned", cpu->base.name, n->name,
                       (unsigned long long)need, (unsigned long long)n->scratch_bytes);
    t->scratch = need > 0 ? (uint8_t *)buffer->host + n->scratch_offset : NULL;

    QN_ASSERT(s->op->n_phases <= QN_CPU_MAX_PHASES);
    divide(cpu, s);
    return QN_OK;
}

/* ---- steps that share their preparation ---- Neighbours that read one source, such as the products for queries,
 * keys and values, prepare it (all phases but the last) once, in the scratch of the last of them. That memory must not
 * hold anything else between the first and the last step. The planner guarantees it for what is alive at the last step;
 * what dies before is a source or a result of the others, which is checked here. */

static bool disjoint(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
    return (uintptr_t)a + a_bytes <= (uintptr_t)b || (uintptr_t)b + b_bytes <= (uintptr_t)a;
}

static bool clear_of(const qn_view *v, const uint8_t *scratch, uint64_t bytes)
{
    const qn_dtype_info *d = qn_dtype_get(v->dtype);
    int64_t lo, hi;
    qn_layout_range(&v->layout, &lo, &hi);
    if (hi <= lo || !v->data) return true; /* memory that is bound later is never scratch */
    lo = lo / d->block_elems * d->block_bytes;
    hi = (hi + d->block_elems - 1) / d->block_elems * d->block_bytes;
    return disjoint(v->data + lo, (uint64_t)(hi - lo), scratch, bytes);
}

static bool follows(const qn_cpu *cpu, const step *a, const step *b)
{
    const qn_node *x = a->task.node, *y = b->task.node;
    const qn_cpu_shares_fn shares = qn__cpu_shares(x->op);
    return shares && x->op == y->op && x->src[0] == y->src[0] && shares(cpu->kernels, x, y);
}

static int32_t share_preparation(const qn_cpu *cpu, step *steps, int32_t n)
{
    int32_t n_shared = 0;
    for (int32_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && follows(cpu, &steps[first], &steps[end]); end++) {}
        uint8_t *scratch = steps[end - 1].task.scratch;
        const uint64_t bytes = steps[end - 1].task.node->scratch_bytes;
        bool safe = scratch != NULL;
        for (int32_t i = first; i < end && safe; i++) {
            const qn_task *t = &steps[i].task;
            safe = clear_of(&t->dst, scratch, bytes);
            for (int k = 0; k < t->n_src && safe; k++) safe = clear_of(&t->src[k], scratch, bytes);
        }
        for (int32_t i = first; i < end && safe; i++) {
            steps[i].task.scratch = scratch;
            if (i == first) continue;
            for (int p = 0; p + 1 < steps[i].op->n_phases; p++) steps[i].phases[p].items = 0;
            n_shared++;
        }
    }
    return n_shared;
}

static void rebind_view(qn_view *view, const qn_node *n, const qn_buffer *activations)
{
    const qn_node *root = n->root;
    if (qn__value_is_unbound(root)) return;
    const qn_buffer *buffer = root->buffer ? root->buffer : activations;
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    view->data = (uint8_t *)buffer->host + (root->buffer ? root->buffer_offset : root->offset) +
                 n->layout.offset / d->block_elems * d->block_bytes;
}

void qn__cpu_rebind(qn_program *program, const qn_buffer *activations)
{
    for (int32_t i = 0; i < program->n_steps; i++) {
        qn_task *t = &program->steps[i].task;
        rebind_view(&t->dst, t->node, activations);
        for (int k = 0; k < t->n_src; k++) rebind_view(&t->src[k], t->node->src[k], activations);
        if (t->scratch)
            t->scratch = (uint8_t *)activations->host + (t->scratch - (uint8_t *)program->activations->host);
    }
    program->activations = activations;
}

static void relayout(qn_view *view, const qn_node *n, const qn_buffer *activations)
{
    view->layout = n->layout;
    view->layout.offset = 0;
    rebind_view(view, n, activations);
}

void qn__cpu_resize(qn_program *program)
{
    uint8_t *memory = program->activations ? program->activations->host : NULL;
    for (int32_t i = 0; i < program->n_steps; i++) {
        step *s = &program->steps[i];
        qn_task *t = &s->task;
        relayout(&t->dst, t->node, program->activations);
        for (int k = 0; k < t->n_src; k++) relayout(&t->src[k], t->node->src[k], program->activations);
#ifdef QN_CHECKED
        QN_ASSERT(!s->op->scratch || s->op->scratch(program->cpu->kernels, t->node) <= t->node->scratch_bytes);
#endif
        t->scratch = t->node->scratch_bytes > 0 ? memory + t->node->scratch_offset : NULL;
        divide(program->cpu, s);
    }
    (void)share_preparation(program->cpu, program->steps, program->n_steps);
}

void qn__cpu_program_destroy(qn_program *program)
{
    if (!program) return;
    qn__free(program->steps);
    qn__free(program);
}

static bool is_first_to_choose(const qn_segment *segment, int32_t i)
{
    const qn_node *n = segment->nodes[i];
    if (n->op != QN_OP_linear_experts || n->src[2]->layout.rank != 2) return false;
    if (n->src[2]->dtype != QN_DTYPE_I32 && n->src[2]->dtype != QN_DTYPE_I64) return false;
    for (int32_t k = 0; k < i; k++) {
        const qn_node *before = segment->nodes[k];
        if (before->op == QN_OP_linear_experts && before->src[2]->root == n->src[2]->root) return false;
    }
    return true;
}

static tally *tally_of(qn_program *program, qn_op op)
{
    int32_t i = 0;
    while (i < program->n_tallies && program->tallies[i].op != op) i++;
    if (i == program->n_tallies) program->tallies[program->n_tallies++].op = op;
    return &program->tallies[i];
}

qn_status qn__cpu_compile(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err)
{
    qn_program *program = qn__calloc(1, sizeof(*program));
    if (!program) return QN_FAIL_NOMEM(err, sizeof(*program));
    program->cpu = (qn_cpu *)be;
    program->n_steps = segment->n_nodes;
    program->activations = segment->activations;
    program->steps = qn__calloc((size_t)segment->n_nodes, sizeof(step) + sizeof(tally));
    if (program->steps) program->tallies = (tally *)(void *)(program->steps + segment->n_nodes);
    qn_status status = program->steps ? QN_OK : QN_FAIL_NOMEM(err, (size_t)segment->n_nodes * sizeof(step));
    for (int32_t i = 0; i < segment->n_nodes && status == QN_OK; i++) {
        status = compile_step(program->cpu, segment, segment->nodes[i], &program->steps[i], err);
        program->steps[i].task.fault = &program->fault;
        program->steps[i].chooses = is_first_to_choose(segment, i);
        program->steps[i].tally = tally_of(program, segment->nodes[i]->op);
    }
    if (status != QN_OK) {
        qn__cpu_program_destroy(program);
        return status;
    }
    QN_COUNT(inputs_shared, share_preparation(program->cpu, program->steps, program->n_steps));
    *out = program;
    return QN_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static void note(const qn_task *t, qn_fault found)
{
    qn_fault *f = t->fault;
    int32_t expected = 0;
    while (!atomic_compare_exchange_weak_explicit(&f->busy, &expected, 1, memory_order_acquire, memory_order_relaxed))
        expected = 0;
    const int32_t at = atomic_load_explicit(&f->at, memory_order_relaxed);
    if (t->at < at || (t->at == at && (found.dim < f->dim || (found.dim == f->dim && found.index < f->index)))) {
        f->call = found.call;
        f->what = found.what;
        f->dim = found.dim;
        f->index = found.index;
        f->size = found.size;
        f->stopped = found.stopped;
        atomic_store_explicit(&f->at, t->at, memory_order_relaxed);
    }
    atomic_store_explicit(&f->busy, 0, memory_order_release);
}

static const char *caller(const qn_task *t, int32_t strict)
{
    return strict == QN_STRICT_self ? qn_node_op_name(t->node) : qn__strict_name(strict);
}

void qn__bad_index(const qn_task *t, int32_t strict, int dim, int64_t index, int64_t size)
{
    note(t, (qn_fault){.call = caller(t, strict), .dim = dim, .index = index, .size = size});
}

void qn__bad_value(const qn_task *t, int32_t strict, const char *what)
{
    note(t, (qn_fault){.call = caller(t, strict), .what = what});
}

/* Was there a fault in this phase or before? Behind a barrier after that phase all threads see the same. */
static bool faulty(const qn_fault *f, int32_t at) { return atomic_load_explicit(&f->at, memory_order_relaxed) <= at; }

typedef struct walk {
    const qn_program *program;
    int32_t from, to; /* steps */
    double *node_ns;
    const qn_trace_run *trace; /* NULL: not recorded */
    const qn_run *run;         /* NULL: nothing is asked */
} walk;

/* Recording, by one thread: `now` is the last reading, where one node ends and the next begins. */
typedef struct record {
    qn_trace_ring *ring; /* NULL: none */
    const uint8_t *skip;
    uint64_t now, begin, waiting;
    bool fresh; /* `now` is that of this moment */
} record;

/* Numbers of a step's phases, and of what comes behind the last: whoever leaves that phase's barrier late must not take
 * a tap's stop for a fault of the phase, and leave where others go on. */
enum { FAULTS_A_STEP = QN_CPU_MAX_PHASES + 1 };

/* Thread 0 does that alone, so a barrier comes before the next phase that is shared. */
static void tapped(const walk *w, const step *s, qn_task *t, int32_t i)
{
    t->at = i * FAULTS_A_STEP + QN_CPU_MAX_PHASES;
    if (!faulty(t->fault, t->at) && !w->run->tap(w->run->tap_ctx, s->task.node)) note(t, (qn_fault){.stopped = true});
}

/* Thread 0 looks, behind every node but the last; others see it behind the next barrier. */
static void stop_if_unwanted(const walk *w, qn_task *t, int32_t i)
{
    if (i + 1 == w->to || !atomic_load_explicit(w->run->unwanted, memory_order_relaxed)) return;
    t->at = i * FAULTS_A_STEP + QN_CPU_MAX_PHASES;
    note(t, (qn_fault){.stopped = true});
}

static void run_phase(qn_team *team, const step *s, qn_task *t, int p, int member)
{
    const phase *ph = &s->phases[p];
    t->phase = p;
    if (ph->shared) {
        while (qn__team_next(team, ph->items, ph->chunk, &t->begin, &t->end)) s->op->run(t);
    } else if (member == 0 && !faulty(t->fault, t->at)) {
        t->begin = 0;
        t->end = ph->items;
        s->op->run(t);
    }
}

/* Thread 0 looks once a step: one ends where the next begins. */
static uint64_t count_step(const step *s, uint64_t start)
{
    const uint64_t now = qn__ticks();
    s->tally->count++;
    s->tally->ticks += now - start;
    return now;
}

/* A barrier; what is waited there is the node's that is at hand. */
static void meet(qn_team *team, record *r)
{
    if (!r->ring) {
        qn__team_barrier(team);
        return;
    }
    const uint64_t start = qn__trace_ticks();
    qn__team_barrier(team);
    r->now = qn__trace_ticks();
    r->waiting += r->now - start;
    r->fresh = true;
}

/* Others than thread 0 begin a node when they have met: what they wait for before is thread 0's work on others. */
static void begin_node(record *r, int member)
{
    if (!r->ring || member == 0) return;
    if (r->fresh) r->begin = r->now; /* else it goes on from one shared node to the next */
    r->waiting = 0;
}

/* `ticks`: what thread 0 has read at this moment. */
static void end_node(record *r, const step *s, int member, bool took_part, uint64_t ticks)
{
    const int32_t id = s->task.node->id;
    if (!r->ring || !took_part) return;
    if (!r->fresh)
        r->now = member == 0 && !atomic_load_explicit(&qn__trace_ns, memory_order_relaxed) ? ticks : qn__trace_ticks();
    if (!r->skip || !r->skip[id]) qn__trace_put(r->ring, QN_TRACE_node, (uint32_t)id, r->begin, r->now, r->waiting);
    r->begin = r->now;
    r->waiting = 0;
    r->fresh = false;
}

/* The experts that this run chose, as the first node that reads them finds them: of one type or the other, any layout.
 */
static void tell_choices(const record *r, const step *s)
{
    enum { PART = 512 };
    const qn_view *v = &s->task.src[2];
    int32_t ids[PART];
    qn_trace_ids_head head = {.node = s->task.node->src[2]->root->id};
    const qn_layout *l = &v->layout;
    const int64_t rows = l->dim[0], used = l->dim[1];
    for (int64_t i = 0; i < rows * used; i++) {
        const int64_t at = i / used * l->stride[0] + i % used * l->stride[1];
        ids[head.n_ids++] = v->dtype == QN_DTYPE_I32 ? ((const int32_t *)(const void *)v->data)[at]
                                                     : (int32_t)((const int64_t *)(const void *)v->data)[at];
        if (head.n_ids < PART && i + 1 < rows * used) continue;
        const qn_trace_part parts[] = {{&head, sizeof head}, {ids, (size_t)head.n_ids * sizeof ids[0]}};
        qn__trace_put_record(r->ring, QN_TRACE_RECORD_ids, r->now, 0, parts, 2);
        head.n_ids = 0;
    }
}

/* Gates, as they are made: [tokens, experts of each]. */
static void tell_gates(const record *r, const step *s, int32_t ids)
{
    enum { PART = 512 };
    const qn_view *v = &s->task.dst;
    const float *gates = (const float *)(const void *)v->data;
    const int64_t n = qn_layout_numel(&v->layout);
    for (int64_t i = 0; i < n; i += PART) {
        const qn_trace_gates_head head = {ids, (int32_t)(n - i < PART ? n - i : PART)};
        const qn_trace_part parts[] = {{&head, sizeof head}, {gates + i, (size_t)head.n * sizeof *gates}};
        qn__trace_put_record(r->ring, QN_TRACE_RECORD_gates, r->now, 0, parts, 2);
    }
}

static void tell_experts(const qn_trace_run *trace, const record *r, const step *s)
{
    const int32_t ids = trace->gates ? trace->gates[s->task.node->id] : 0;
    if (s->chooses && !trace->no_experts) tell_choices(r, s);
    if (ids) tell_gates(r, s, ids - 1);
}

static void walk_on(const walk *w, record *r, int member, int n_members)
{
    qn_cpu *cpu = w->program->cpu;
    qn_team *team = qn__pool_team(cpu->pool);
    bool alone = false; /* thread 0 has worked alone since the last barrier */
    uint64_t ticks = member == 0 ? qn__ticks() : 0;
    qn_task t;

    for (int32_t i = w->from; i < w->to; i++) {
        const step *s = &w->program->steps[i];
        const int64_t start = w->node_ns && member == 0 ? qn__now_ns() : 0;
        bool took_part = member == 0;
        t = s->task;
        t.n_members = n_members;
        t.at = i * FAULTS_A_STEP;
        if (w->run && w->run->page && s->task.node->paged) {
            if (member == 0) w->run->page(w->run->page_ctx, s->task.node, t.n_src > 2 ? t.src[2].data : NULL);
            alone = true; /* others wait for what thread 0 waits for */
        }
        t.tile = (float *)(void *)(cpu->tiles + (size_t)member * (QN_MM_TILE_BYTES + QN_TASK_SIDE_BYTES));
        for (int p = 0; p < s->op->n_phases; p++) {
            const phase *ph = &s->phases[p];
            if (ph->items == 0) continue;
            t.at = i * FAULTS_A_STEP + p;
            if (ph->shared && alone) {
                meet(team, r);
                if (faulty(t.fault, t.at - 1)) return; /* others may be at this phase already */
            }
            if (ph->shared && !took_part) begin_node(r, member);
            took_part = took_part || ph->shared;
            r->fresh = false;
            run_phase(team, s, &t, p, member);
            if (ph->shared) {
                meet(team, r);
                if (faulty(t.fault, t.at)) return;
            }
            alone = !ph->shared;
        }
        const bool skipped = member == 0 && faulty(t.fault, t.at); /* behind a stop that others don't see yet */
        if (member == 0 && !skipped) ticks = count_step(s, ticks);
        end_node(r, s, member, took_part && !skipped, ticks);
        if (member == 0 && r->ring && !skipped) tell_experts(w->trace, r, s);
        if (w->node_ns && member == 0) w->node_ns[s->task.node->id] += (double)(qn__now_ns() - start);
        if (member == 0 && !skipped && w->run && w->run->unwanted) stop_if_unwanted(w, &t, i);
        if (!w->run || !w->run->tap || !s->task.node->tapped) continue;
        alone = true;
        if (member != 0) continue;
        tapped(w, s, &t, i);
        ticks = qn__ticks();
        if (r->ring) r->now = qn__trace_ticks(); /* no node took that time */
    }
}

static void walk_steps(void *ctx, int member, int n_members)
{
    const walk *w = ctx;
    record r = {.ring = w->trace ? qn__trace_enter() : NULL};
    if (r.ring) {
        r.skip = w->trace->skip;
        r.begin = r.now = qn__trace_ticks();
        qn__trace_put(r.ring, QN_TRACE_run, (uint32_t)member, r.now, r.now, w->trace->step);
    }
    walk_on(w, &r, member, n_members);
    if (r.ring) qn__trace_leave();
}

/* Hands the tallies over; ticks become shares of the time that the clock measured. */
static void count_run(qn_program *program, double ns, double ticks)
{
    const double ns_a_tick = ticks > 0 ? ns / ticks : 0;
    for (int32_t i = 0; i < program->n_tallies; i++) {
        tally *k = &program->tallies[i];
        if (k->count) qn__op_count(k->op, k->count, (uint64_t)((double)k->ticks * ns_a_tick));
        k->count = k->ticks = 0;
    }
}

static void walk_range(qn_program *program, int32_t from, int32_t to, const qn_run *run)
{
    walk w = {program, from, to, run ? run->node_ns : NULL, run ? run->trace : NULL, run};
    const int64_t start = qn__now_ns();
    const uint64_t ticks = qn__ticks();
    qn__pool_run(program->cpu->pool, walk_steps, &w);
    count_run(program, (double)(qn__now_ns() - start), (double)(qn__ticks() - ticks));
}

static qn_status fault_error(const qn_program *program, const qn_run *run, qn_error *err)
{
    const qn_fault *f = &program->fault;
    if (run && run->stopped)
        *run->stopped =
            program->steps[atomic_load_explicit(&f->at, memory_order_relaxed) / FAULTS_A_STEP].task.node->id;
    if (f->stopped) return QN_FAIL(err, cancelled, run->unwanted ? "stopped" : "stopped by a tap");
    if (f->what) return QN_FAIL(err, invalid, "%s: %s", f->call, f->what);
    return QN_FAIL(err, invalid, "%s: index %lld is out of range for dimension %d of size %lld", f->call,
                   (long long)f->index, f->dim, (long long)f->size);
}

bool qn__cpu_is_shared(const qn_program *program, int32_t i)
{
    const step *s = &program->steps[i];
    bool shared = false;
    for (int p = 0; p < s->op->n_phases; p++) shared = shared || (s->phases[p].items > 0 && s->phases[p].shared);
    return shared;
}

qn_status qn__cpu_run(qn_program *program, const qn_run *run, qn_error *err)
{
    qn_fault *f = &program->fault;
    atomic_store_explicit(&f->at, INT32_MAX, memory_order_relaxed);
    if (!run || !run->eval) {
        walk_range(program, 0, program->n_steps, run);
        QN_COUNT(kernel_tasks, program->n_steps);
        return faulty(f, INT32_MAX - 1) ? fault_error(program, run, err) : QN_OK;
    }
    for (int32_t i = 0; i < program->n_steps; i++) {
        const qn_node *n = program->steps[i].task.node;
        bool go = run->eval(run->eval_ctx, n, false);
        if (go) {
            walk_range(program, i, i + 1, run);
            QN_COUNT(kernel_tasks, 1);
            if (faulty(f, INT32_MAX - 1)) return fault_error(program, run, err);
            go = run->eval(run->eval_ctx, n, true);
        }
        const bool unwanted = go && run->unwanted && atomic_load_explicit(run->unwanted, memory_order_relaxed);
        if ((!go || unwanted) && run->stopped) *run->stopped = n->id;
        if (unwanted) return QN_FAIL(err, cancelled, "stopped");
        if (!go)
            return QN_FAIL(err, cancelled, "stopped by a callback at node %d, %s \"%s\"", n->id, qn_node_op_name(n),
                           n->name);
    }
    return QN_OK;
}
