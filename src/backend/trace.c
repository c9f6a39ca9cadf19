/* SPDX-License-Identifier: MIT */
/* src/backend/trace.c -- what a recording has of a compiled graph: its plan once, and each step. The plan's form is in
 * docs/FORMATS.md. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"

/* ---- the plan ---- */

static void put_name(qn_str *s, const char *name) { qn__put_text(s, name, strlen(name)); }

/* Space, file + 1, offset. */
static void put_memory(qn_str *s, const qn_exec *e, const qn_node *n)
{
    const qn_node *root = n->root;
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    const uint64_t within = (uint64_t)(n->layout.offset / d->block_elems * d->block_bytes);
    const qn_buffer *buffer = root->buffer;
    uint64_t offset = root->offset + within;
    int32_t file = -1;
    qn_trace_space space = QN_TRACE_NOWHERE;
    if (buffer) {
        offset = root->buffer_offset + within;
        space = QN_TRACE_RESIDENT;
        if (buffer->host) {
            uint64_t at;
            file = qn__trace_map_of((const uint8_t *)buffer->host + offset, &at);
            if (file >= 0) {
                space = QN_TRACE_FILE;
                offset = at;
            }
        }
    } else if (root->place >= 0 && root->op != QN_OP_param && e->activations[root->place]) {
        space = QN_TRACE_ACTIVATIONS;
    }
    qn__put_varint(s, (uint64_t)space);
    qn__put_varint(s, (uint64_t)(file + 1));
    qn__put_varint(s, offset);
}

static void put_cost(qn_str *s, const qn_node *n, const qn_trace_facts *facts)
{
    qn_trace_node_cost c = qn__node_cost(n);
    uint32_t sight = 0;
    if (c.sight && facts) {
        const char *name = n->src[c.sight - 1]->root->name;
        while (sight < (uint32_t)facts->n_sights && strcmp(facts->sight_names[sight], name) != 0) sight++;
        sight = sight < (uint32_t)facts->n_sights ? sight + 1 : 0;
    }
    const uint64_t numbers[] = {c.weight_bytes, c.cache_bytes,  c.act_bytes, c.ops,    c.cell_bytes,
                                c.cell_ops,     c.expert_bytes, c.n_experts, c.n_used, sight};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) qn__put_varint(s, numbers[i]);
}

static void put_node(qn_str *s, const qn_exec *e, const qn_node *n, int32_t last_use, bool shared,
                     const qn_trace_facts *facts)
{
    const bool computes = qn__computes(n) && !qn__assigned_already(n);
    put_name(s, qn_node_op_name(n));
    put_name(s, n->name);
    put_name(s, qn_dtype_get(n->dtype)->name);
    qn__put_signed(s, n->layer);
    qn__put_signed(s, n->place);
    qn__put_varint(s, ((n->flags & QN_NODE_output) ? 1u : 0) | ((n->flags & QN_NODE_mutable) ? 2u : 0) |
                          ((n->flags & QN_NODE_const) ? 4u : 0) | (computes ? 8u : 0) | (shared ? 16u : 0));
    qn__put_varint(s, (uint64_t)n->layout.rank);
    for (int i = 0; i < n->layout.rank; i++) qn__put_varint(s, (uint64_t)n->layout.dim[i]);
    qn__put_varint(s, (uint64_t)n->n_src);
    for (int i = 0; i < n->n_src; i++) qn__put_signed(s, n->id - n->src[i]->id);
    qn__put_signed(s, n->id - n->root->id);
    qn__put_signed(s, last_use);
    qn__put_varint(s, (uint64_t)qn__node_bytes(n));
    put_memory(s, e, n);
    qn__put_varint(s, n->scratch_offset);
    qn__put_varint(s, n->scratch_bytes);
    put_cost(s, n, facts);
}

/* By id of a root: its last reader; then by id of a node whether all threads compute it. Room for both. */
static void find_uses(const qn_exec *e, int32_t *last, uint8_t *shared)
{
    const qn_graph *g = e->graph;
    for (int32_t i = 0; i < g->n_nodes; i++) last[i] = g->nodes[i]->flags & QN_NODE_output ? g->n_nodes : i;
    for (int32_t i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_src; k++) {
            int32_t *at = &last[g->nodes[i]->src[k]->root->id];
            if (*at < i) *at = i;
        }
    memset(shared, 0, (size_t)g->n_nodes);
    for (int32_t i = 0; i < e->n_steps; i++) {
        const qn_step *step = &e->steps[i];
        const qn_backend_type *type = e->sched->backends[step->place]->type;
        for (int32_t k = 0; !step->transfer && type->is_shared && k < step->n_nodes; k++)
            shared[e->work[step->first + k]->id] = type->is_shared(step->program, k);
    }
}

/* What is left out by the filter; NULL when nothing is. */
static uint8_t *skips_of(const qn_graph *g, const qn_trace_filter *f)
{
    if (!f->ops && !f->layers) return NULL;
    uint8_t *skip = qn__calloc((size_t)g->n_nodes, 1);
    for (int32_t i = 0; skip && i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        skip[i] = !qn__trace_in_names(f->ops, qn_node_op_name(n)) || !qn__trace_in_ranges(f->layers, n->layer, NULL);
    }
    return skip;
}

static bool is_of(const char *name, const char *role)
{
    const size_t n = strlen(role);
    return strncmp(name, role, n) == 0 && name[n] == '-';
}

/* Where products read the ids of the experts whose gates these are: 1 + its id, 0 nowhere. */
static int32_t ids_of(const qn_graph *g, const qn_node *gates, const char *ids_name)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (n->op == QN_OP_linear_experts && n->layer == gates->layer && is_of(n->src[2]->root->name, ids_name))
            return 1 + n->src[2]->root->id;
    }
    return 0;
}

/* NULL where there are no experts, or no memory: then gates are left out. */
static int32_t *gates_of(const qn_graph *g, const qn_trace_facts *f)
{
    int32_t *gates = NULL;
    for (int32_t i = 0; f && f->gates_name && i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (!is_of(n->name, f->gates_name) || n->dtype != QN_DTYPE_F32 || !qn__computes(n)) continue;
        if (!gates) gates = qn__calloc((size_t)g->n_nodes, sizeof(*gates));
        if (!gates) return NULL;
        gates[i] = ids_of(g, n, f->ids_name);
    }
    return gates;
}

static uint32_t record_plan(const qn_exec *e, const qn_trace_facts *facts)
{
    const qn_graph *g = e->graph;
    qn_str s = {0};
    if (g->n_nodes >= QN_TRACE_MAX_NODES) return 0;
    int32_t *last = qn__calloc((size_t)g->n_nodes + 1, sizeof(*last) + 1);
    if (!last) return 0;
    uint8_t *shared = (uint8_t *)(last + g->n_nodes);
    find_uses(e, last, shared);
    const uint32_t id = qn__trace_next_plan();
    qn__put_varint(&s, id);
    qn__put_varint(&s, (uint64_t)e->sched->n_backends);
    for (int p = 0; p < e->sched->n_backends; p++) {
        put_name(&s, e->sched->backends[p]->name);
        qn__put_varint(&s, e->plan.bytes[p]);
    }
    qn__put_varint(&s, (uint64_t)g->n_nodes);
    for (int32_t i = 0; i < g->n_nodes; i++) put_node(&s, e, g->nodes[i], last[i], shared[i], facts);
    qn__free(last);
    const bool failed = s.failed;
    qn__trace_submit(QN_TRACE_BLOB_plan, &s);
    return failed ? 0 : id;
}

/* ---- steps ---- */

/* Every sequence has one token: items of a sequence come one after the other. */
static qn_trace_phase phase_of(const qn_trace_facts *f)
{
    if (!f || f->n_tokens == 0) return QN_TRACE_PHASE_other;
    int32_t runs = 1, single = 0, length = 1;
    for (int32_t i = 1; i <= f->n_tokens; i++) {
        if (i < f->n_tokens && f->n_sights > 0 && f->spans[i * f->span_size] == f->spans[(i - 1) * f->span_size]) {
            length++;
            continue;
        }
        if (i < f->n_tokens && f->n_sights > 0) runs++;
        single += length == 1;
        length = 1;
    }
    if (f->n_sights == 0) return f->n_tokens == 1 ? QN_TRACE_PHASE_decode : QN_TRACE_PHASE_prompt;
    return single == runs ? QN_TRACE_PHASE_decode : single > 0 ? QN_TRACE_PHASE_mixed : QN_TRACE_PHASE_prompt;
}

static bool wanted(const qn_trace_filter *f, const qn_trace_facts *facts, qn_trace_phase phase)
{
    if (!qn__trace_in_names(f->phases, qn_trace_phase_name((int)phase))) return false;
    bool any = f->tokens == NULL;
    for (int32_t i = 0; !any && facts && i < facts->n_tokens; i++)
        any = qn__trace_in_ranges(f->tokens, facts->pos[i], NULL);
    return any;
}

/* The record: see QN_TRACE_RECORD_step. */
static void record_step(uint32_t plan, const qn_trace_facts *f, qn_trace_phase phase, qn_exec_recording *r)
{
    const bool tokens = f && !qn__trace_get_filter()->no_tokens;
    qn_trace_step_head head = {.plan = plan, .phase = (int32_t)phase};
    qn_trace_part parts[3 + QN_TRACE_MAX_SIGHTS] = {{&head, sizeof head}};
    int n = 1;
    if (f) {
        const size_t each = (size_t)f->n_tokens * sizeof(int32_t);
        head.session = f->session;
        head.n_tokens = f->n_tokens;
        head.n_out = f->n_out;
        head.n_sights = f->n_sights < QN_TRACE_MAX_SIGHTS ? f->n_sights : QN_TRACE_MAX_SIGHTS;
        head.span_size = f->span_size;
        head.has_tokens = tokens;
        if (tokens) parts[n++] = (qn_trace_part){f->tokens, each};
        parts[n++] = (qn_trace_part){f->pos, each};
        for (int32_t k = 0; k < head.n_sights; k++)
            parts[n++] = (qn_trace_part){f->spans + (int64_t)k * f->n_rows * f->span_size, each * (size_t)f->span_size};
    }
    qn__trace_put_record(r->ring, QN_TRACE_RECORD_step, r->begin, r->trace.step, parts, n);
}

static bool has_experts(const qn_graph *g)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == QN_OP_linear_experts) return true;
    return false;
}

/* ---- experts on backends with memory of their own ---- */

/* n elements and the bytes they are made of; NULL: no memory. Grows with the largest step. */
static float *look_room(qn_exec_trace *t, int64_t n)
{
    if (n > t->n_looked) {
        float *more = qn__realloc(t->looked, (size_t)n * (sizeof(float) + sizeof(int64_t)));
        if (!more) return NULL;
        t->looked = more;
        t->n_looked = n;
    }
    return t->looked;
}

/* Ids are exact as float32: there are fewer than 2^24 experts. */
static void tell_ids(qn_trace_ring *r, const qn_node *ids, const float *x, int64_t n)
{
    enum { PART = 512 };
    int32_t some[PART];
    qn_trace_ids_head head = {.node = ids->root->id};
    for (int64_t i = 0; i < n; i++) {
        some[head.n_ids++] = (int32_t)x[i];
        if (head.n_ids < PART && i + 1 < n) continue;
        const qn_trace_part parts[] = {{&head, sizeof head}, {some, (size_t)head.n_ids * sizeof *some}};
        qn__trace_put_record(r, QN_TRACE_RECORD_ids, qn__trace_ticks(), 0, parts, 2);
        head.n_ids = 0;
    }
}

static void tell_gates(qn_trace_ring *r, int32_t ids, const float *x, int64_t n)
{
    enum { PART = 512 };
    for (int64_t i = 0; i < n; i += PART) {
        const qn_trace_gates_head head = {ids, (int32_t)(n - i < PART ? n - i : PART)};
        const qn_trace_part parts[] = {{&head, sizeof head}, {x + i, (size_t)head.n * sizeof *x}};
        qn__trace_put_record(r, QN_TRACE_RECORD_gates, qn__trace_ticks(), 0, parts, 2);
    }
}

/* The first product at its place that reads these ids: they are still there when it is done. */
static bool is_first_to_choose(const qn_exec *e, const qn_node *n)
{
    if (n->op != QN_OP_linear_experts || n->src[2]->layout.rank != 2) return false;
    for (int32_t i = 0; i < n->id; i++) {
        const qn_node *before = e->graph->nodes[i];
        if (before->op == QN_OP_linear_experts && before->place == n->place && before->src[2]->root == n->src[2]->root)
            return false;
    }
    return true;
}

/* What is not to be had is left out: a recording changes no run. */
static void look(void *ctx, const qn_node *n)
{
    qn_exec *e = ctx;
    const int32_t gates = e->trace.gates ? e->trace.gates[n->id] : 0;
    const qn_node *value = gates ? n : is_first_to_choose(e, n) ? n->src[2] : NULL;
    if (!value) return;
    const int64_t count = qn_layout_numel(&value->layout);
    float *x = look_room(&e->trace, count);
    qn_trace_ring *r = x && qn__exec_take(e, value, x, x + e->trace.n_looked, NULL) == QN_OK ? qn__trace_enter() : NULL;
    if (!r) return;
    if (gates)
        tell_gates(r, gates - 1, x, count);
    else
        tell_ids(r, value, x, count);
    qn__trace_leave();
}

/* Of the size at hand, written down when it is the first time; 0: it could not be. */
static uint32_t plan_of(qn_exec *e, const qn_trace_facts *facts, uint64_t generation)
{
    qn_exec_trace *t = &e->trace;
    if (t->generation != generation) {
        qn__free(t->skip);
        qn__free(t->gates);
        t->skip = skips_of(e->graph, qn__trace_get_filter());
        t->gates = qn__trace_get_filter()->no_experts ? NULL : gates_of(e->graph, facts);
        t->has_experts = !qn__trace_get_filter()->no_experts && has_experts(e->graph);
        t->generation = generation;
        t->n_plans = 0;
    }
    const int32_t n = t->n_plans < QN_EXEC_TRACED ? t->n_plans : QN_EXEC_TRACED;
    for (int32_t i = 0; i < n; i++)
        if (memcmp(t->plans[i].less, e->less, sizeof e->less) == 0) return t->plans[i].id;
    const int32_t at = t->n_plans++ % QN_EXEC_TRACED;
    memcpy(t->plans[at].less, e->less, sizeof e->less);
    t->plans[at].id = record_plan(e, facts);
    return t->plans[at].id;
}

const qn_run *qn__exec_record(qn_exec *e, const qn_run *run, qn_exec_recording *out)
{
    const qn_trace_facts *facts = run ? run->facts : NULL;
    const qn_trace_phase phase = phase_of(facts);
    out->ring = qn__trace_enter();
    if (!out->ring) return run;
    const uint64_t generation = atomic_load_explicit(&qn__trace_generation, memory_order_relaxed);
    const bool go = generation != 0 && wanted(qn__trace_get_filter(), facts, phase);
    const uint32_t plan = go ? plan_of(e, facts, generation) : 0;
    if (plan == 0) {
        qn__trace_leave();
        out->ring = NULL;
        return run;
    }
    qn__trace_put_counts(out->ring, 0);
    out->begin = qn__trace_ticks();
    out->trace = (qn_trace_run){.step = qn__trace_next_step(),
                                .skip = e->trace.skip,
                                .gates = e->trace.gates,
                                .no_experts = qn__trace_get_filter()->no_experts,
                                .look = e->trace.has_experts ? look : NULL,
                                .look_ctx = e};
    e->trace.step = out->trace.step;
    record_step(plan, facts, phase, out);
    out->run = run ? *run : (qn_run){0};
    out->run.trace = &out->trace;
    return &out->run;
}

void qn__exec_recorded(qn_exec *e, qn_exec_recording *r)
{
    e->trace.step = 0;
    qn__trace_put(r->ring, QN_TRACE_step, 0, r->begin, qn__trace_ticks(), r->trace.step);
    qn__trace_put_counts(r->ring, r->trace.step);
    qn__trace_leave();
}

void qn__exec_record_hashes(const qn_exec *e, const qn_node *node, const int32_t *items, const uint64_t *hashes,
                            int32_t n)
{
    if (e->trace.step == 0) return;
    qn_trace_ring *r = qn__trace_enter();
    if (!r) return;
    const qn_trace_hashes_head head = {node->id, n};
    const qn_trace_part parts[] = {{&head, sizeof head},
                                   {items, (size_t)n * sizeof *items},
                                   {hashes, (size_t)n * sizeof *hashes}};
    qn__trace_put_record(r, QN_TRACE_RECORD_hashes, qn__trace_ticks(), e->trace.step, parts, 3);
    qn__trace_leave();
}

void qn__exec_record_values(const qn_exec *e, const qn_node *node, const qn_trace_value *rows, int32_t n, int64_t size)
{
    if (e->trace.step == 0) return;
    qn_trace_ring *r = qn__trace_enter();
    if (!r) return;
    const qn_trace_values_head head = {node->id, n, size < UINT32_MAX ? (uint32_t)size : UINT32_MAX};
    const qn_trace_part parts[] = {{&head, sizeof head}, {rows, (size_t)n * sizeof *rows}};
    qn__trace_put_record(r, QN_TRACE_RECORD_values, qn__trace_ticks(), e->trace.step, parts, 2);
    qn__trace_leave();
}

void qn__exec_record_transfer(const qn_node *node, const qn_trace_run *trace, uint64_t begin)
{
    qn_trace_ring *r = qn__trace_enter();
    if (!r) return;
    if (!trace->skip || !trace->skip[node->id])
        qn__trace_put(r, QN_TRACE_transfer, (uint32_t)node->id, begin, qn__trace_ticks(), 0);
    qn__trace_leave();
}
