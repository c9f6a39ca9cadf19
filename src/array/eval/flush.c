/* SPDX-License-Identifier: MIT */
/* src/array/eval/flush.c -- running what is pending: the storages that somebody can see become outputs, the graph's
 * topology is the key of the compiled graph, and the memory of this time is bound to it. Nothing changes unless the run
 * begins. */
#include "array/array.h"

#include <string.h>

/* Kept in the compiled graph, in the order of ids. */
typedef struct slots {
    int32_t n_leaves, n_outputs;
    qn_node **leaves, **outputs;
} slots;

/* ---- the key: 128 bits of a hash of everything that shapes the graph. Two programs of a process would have to meet by
 * chance with odds of 2^-64 a pair per half; addresses, names and numbers are not in it. ---- */

typedef struct key {
    uint64_t a, b;
} key;

static inline uint64_t fold_product(uint64_t x, uint64_t y)
{
    const unsigned __int128 p = (unsigned __int128)x * y;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static inline void mix(key *k, uint64_t word)
{
    k->a = fold_product(k->a ^ word, UINT64_C(0x9e3779b97f4a7c15)) + UINT64_C(0xd1b54a32d192ed03);
    k->b = (k->b ^ word) * UINT64_C(0xff51afd7ed558ccd);
    k->b ^= k->b >> 29;
}

static void mix_bytes(key *k, const void *bytes, size_t n)
{
    const char *p = bytes;
    uint64_t word = 0;
    for (; n >= 8; n -= 8, p += 8) {
        memcpy(&word, p, 8);
        mix(k, word);
    }
    if (n == 0) return;
    word = 0;
    memcpy(&word, p, n);
    mix(k, word);
}

static void mix_layout(key *k, const qn_layout *l)
{
    mix(k, (uint64_t)l->rank << 56 ^ (uint64_t)l->offset);
    mix_bytes(k, l->dim, (size_t)l->rank * sizeof l->dim[0]);
    mix_bytes(k, l->stride, (size_t)l->rank * sizeof l->stride[0]);
}

static key key_of(const qn_graph *g)
{
    key k = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)};
    mix(&k, (uint64_t)g->n_nodes);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        const qn_op_info *info = qn__op_info(n->op);
        mix(&k, (uint64_t)n->op | (uint64_t)n->dtype << 16 | (uint64_t)n->n_src << 32 | (uint64_t)n->flags << 40 |
                    (uint64_t)(uint32_t)(n->hint + 1) << 56);
        for (int s = 0; s < n->n_src; s++) mix(&k, (uint64_t)(i - n->src[s]->id));
        /* others have theirs of these */
        if (info->kind == QN_KIND_leaf || info->kind == QN_KIND_view)
            mix_layout(&k, &n->layout);
        else if (info->attrs_bytes > sizeof(qn_no_attrs))
            mix_bytes(&k, n->attrs, info->attrs_bytes);
        else
            mix(&k, *(const uint32_t *)n->attrs);
        if (n->host != NULL) mix_bytes(&k, n->host, (size_t)qn__node_bytes(n));
    }
    return k;
}

/* ---- outputs ---- */

static bool is_update(const qn_node *n) { return qn__op_info(n->op)->kind == QN_KIND_update; }

static qn_status grow_outputs(qn_context *ctx, int32_t n, qn_error *err)
{
    if (n <= ctx->cap_outputs) return QN_OK;
    const int32_t cap = n < 64 ? 64 : n * 2;
    qn_storage **outputs = qn__realloc(ctx->outputs, (size_t)cap * sizeof *outputs);
    if (outputs == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *outputs);
    ctx->outputs = outputs;
    qn_memory **memory = qn__realloc(ctx->output_memory, (size_t)cap * sizeof *memory);
    if (memory == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *memory);
    ctx->output_memory = memory;
    ctx->cap_outputs = cap;
    return QN_OK;
}

/* Every storage with a pending value that is no update is seen by somebody, or it would be gone. Lists them by id of
 * their nodes; those that wait for another time are left out. */
qn_status qn__mark_outputs(qn_context *ctx, int32_t *n_outputs, qn_error *err)
{
    int32_t n = 0, at = 0;
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) n += !s->aside && !is_update(s->value);
    QN_TRY(grow_outputs(ctx, n, err));
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) {
        if (s->aside || is_update(s->value)) continue;
        s->value->flags |= QN_NODE_output | QN_NODE_bound;
        s->value->buffer = s; /* until the walk below; a pending graph's buffers mean nothing else */
    }
    for (int32_t i = 0; i < ctx->graph->n_nodes; i++) {
        qn_node *node = ctx->graph->nodes[i];
        node->flags &= ~(uint32_t)QN_NODE_owned;
        if (!(node->flags & QN_NODE_bound)) continue;
        ctx->outputs[at++] = node->buffer;
        node->buffer = NULL;
    }
    QN_ASSERT(at == n);
    *n_outputs = n;
    return QN_OK;
}

/* As before, so that another attempt may come. */
void qn__unmark_outputs(qn_context *ctx)
{
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) {
        s->value->flags &= ~(uint32_t)(QN_NODE_output | QN_NODE_bound);
        s->value->flags |= QN_NODE_owned;
    }
}

/* ---- compiling ---- */

/* NULL: of a number that no part needed yet. */
static void home_of(const qn_context *ctx, const qn_leaf *leaf, qn_buffer **buffer, uint64_t *offset)
{
    const qn_memory *m = leaf->storage != NULL ? leaf->storage->memory : ctx->number_memory[leaf->place];
    *buffer = m != NULL ? m->buffer : NULL;
    *offset = leaf->storage != NULL ? 0 : leaf->offset;
}

static qn_status clone_with_slots(qn_context *ctx, int32_t n_outputs, const uint8_t *part, qn_graph **out,
                                  qn_error *err)
{
    qn_graph *g = NULL;
    QN_TRY(qn__graph_clone(ctx->graph, &g, err));
    slots *s = qn__arena_alloc(&g->arena, sizeof *s);
    if (s != NULL) {
        *s = (slots){.n_leaves = ctx->n_leaves, .n_outputs = n_outputs};
        s->leaves = qn__arena_array(&g->arena, (size_t)ctx->n_leaves, sizeof *s->leaves);
        s->outputs = qn__arena_array(&g->arena, (size_t)n_outputs, sizeof *s->outputs);
    }
    if (s == NULL || s->leaves == NULL || s->outputs == NULL) {
        qn__graph_destroy(g);
        return QN_FAIL(err, nomem, "out of memory: a graph of %d nodes", ctx->graph->n_nodes);
    }
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        qn_buffer *buffer;
        qn_node *n = s->leaves[i] = g->nodes[ctx->leaves[i].node->id];
        home_of(ctx, &ctx->leaves[i], &buffer, &n->buffer_offset);
        n->buffer = buffer;
    }
    for (int32_t i = 0; i < n_outputs; i++) s->outputs[i] = g->nodes[ctx->outputs[i]->value->id];
    for (int32_t i = 0; i < g->n_nodes && part != NULL; i++) {
        if (!part[i]) g->nodes[i]->flags |= QN_NODE_dead;
    }
    g->owner = s;
    *out = g;
    return QN_OK;
}

/* A part of the pending graph is compiled for once. */
static qn_status compiled(qn_context *ctx, int32_t n_outputs, const uint8_t *part, qn_exec **out, qn_error *err)
{
    const key k = key_of(ctx->graph);
    *out = part == NULL ? qn__sched_find(ctx->sched, &k, sizeof k) : NULL;
    if (*out != NULL) return QN_OK;
    ctx->look.last = NULL; /* it may make room */
    qn_graph *g = NULL;
    QN_TRY(clone_with_slots(ctx, n_outputs, part, &g, err));
    return qn__sched_compile(ctx->sched, g, &k, part == NULL ? sizeof k : 0, out, err);
}

/* ---- running ---- */

static void unbind(qn_exec *e)
{
    const slots *s = qn__exec_graph(e)->owner;
    for (int32_t i = 0; i < s->n_leaves; i++) (void)qn__exec_bind(e, s->leaves[i], NULL, 0, NULL);
    for (int32_t i = 0; i < s->n_outputs; i++) (void)qn__exec_bind(e, s->outputs[i], NULL, 0, NULL);
}

static qn_status bind_leaves(qn_context *ctx, qn_exec *e, qn_error *err)
{
    const slots *s = qn__exec_graph(e)->owner;
    for (int32_t i = 0; i < s->n_leaves; i++) {
        qn_buffer *buffer;
        uint64_t offset;
        home_of(ctx, &ctx->leaves[i], &buffer, &offset);
        QN_TRY(qn__exec_bind(e, s->leaves[i], buffer, offset, err));
    }
    return QN_OK;
}

/* To every device that computes with some of them: one that is gone or full fails only the parts that need it. */
static qn_status send_numbers(qn_context *ctx, const uint8_t *part, qn_error *err)
{
    const uint64_t bytes = (uint64_t)ctx->n_numbers * QN_NUMBER_BYTES;
    bool wanted[QN_MAX_PLACES] = {0};
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        const qn_leaf *leaf = &ctx->leaves[i];
        wanted[leaf->place] |= leaf->storage == NULL && (part == NULL || part[leaf->node->id]);
    }
    for (int p = 0; p < ctx->n_backends; p++) {
        if (!wanted[p]) continue;
        qn_memory **m = &ctx->number_memory[p];
        if (*m == NULL) QN_TRY(qn__memory_get(ctx, p, QN_MAX_NUMBERS * QN_NUMBER_BYTES, m, err));
        QN_TRY(ctx->backends[p]->type->upload((*m)->buffer, 0, ctx->numbers, bytes, err));
    }
    return QN_OK;
}

static void drop_memory(qn_context *ctx, int32_t n)
{
    for (int32_t i = 0; i < n; i++) qn__memory_put(ctx, ctx->output_memory[i]);
}

static qn_status bind_outputs(qn_context *ctx, qn_exec *e, qn_error *err)
{
    const slots *s = qn__exec_graph(e)->owner;
    for (int32_t i = 0; i < s->n_outputs; i++) {
        qn_node *n = s->outputs[i];
        qn_status status =
            qn__memory_get(ctx, ctx->outputs[i]->place, (uint64_t)qn__node_bytes(n), &ctx->output_memory[i], err);
        if (status != QN_OK) {
            drop_memory(ctx, i);
            return status;
        }
        status = qn__exec_bind(e, n, ctx->output_memory[i]->buffer, 0, err);
        if (status != QN_OK) {
            drop_memory(ctx, i + 1);
            return status;
        }
    }
    return QN_OK;
}

/* The pending graph is over. A run that stopped on the way computed what comes before `stopped`, as the program wrote
 * it down, and nothing after: there memory holds what it held, and values that were still to have memory are lost. -1:
 * nobody knows how far it came. */
static void settle(qn_context *ctx, const qn_exec *e, int32_t n_outputs, int32_t stopped)
{
    for (int32_t i = 0; i < n_outputs; i++) {
        qn_storage *s = ctx->outputs[i];
        s->lost = ((const slots *)qn__exec_graph(e)->owner)->outputs[i]->id >= stopped;
        if (!s->lost)
            s->memory = ctx->output_memory[i];
        else
            qn__memory_put(ctx, ctx->output_memory[i]);
    }
    while (ctx->pending != NULL) {
        qn_storage *s = ctx->pending;
        if (stopped < 0) s->lost = true;
        s->value = NULL;
        s->aside = false;
        qn__storage_unlist(s);
    }
    for (int32_t i = 0; i < ctx->n_leaves; i++) {
        qn_storage *s = ctx->leaves[i].storage;
        if (s == NULL) continue;
        s->leaf = NULL;
        qn__storage_unref(s);
    }
    ctx->n_leaves = ctx->n_numbers = 0;
    ctx->epoch++;
    qn__graph_reset(ctx->graph);
}

void qn__discard(qn_context *ctx)
{
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) s->lost |= s->memory == NULL;
    settle(ctx, NULL, 0, 0);
}

void qn__lose_aside(qn_context *ctx)
{
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) s->lost |= s->aside;
}

/* Up to where nothing can fail any more but by values. */
static qn_status make_ready(qn_context *ctx, const uint8_t *part, int32_t *n_outputs, qn_exec **e, qn_error *err)
{
    QN_TRY(qn__mark_outputs(ctx, n_outputs, err));
    qn_status status = send_numbers(ctx, part, err);
    if (status == QN_OK) {
        status = compiled(ctx, *n_outputs, part, e, err);
        if (qn__memory_wants(status) && qn__memory_trim(ctx)) status = compiled(ctx, *n_outputs, part, e, err);
    }
    if (status == QN_OK) status = bind_leaves(ctx, *e, err);
    if (status == QN_OK) status = bind_outputs(ctx, *e, err);
    if (status == QN_OK) return QN_OK;
    if (*e != NULL) unbind(*e);
    qn__unmark_outputs(ctx);
    return status;
}

qn_status qn__flush_part(qn_context *ctx, const uint8_t *part, bool only_try, bool *began, qn_error *err)
{
    int32_t n_outputs, stopped = INT32_MAX;
    qn_exec *e = NULL;
    *began = false;
    QN_TRY(make_ready(ctx, part, &n_outputs, &e, err));
    bool undone = only_try;
    const qn_status status = only_try ? QN_OK : qn__look_run(ctx, e, &stopped, &undone, err);
    unbind(e);
    if (undone) {
        drop_memory(ctx, n_outputs);
        qn__unmark_outputs(ctx);
        *began = !only_try;
        return status;
    }
    *began = true;
    ctx->n_runs++;
    ctx->n_fallbacks += (uint64_t)qn__exec_n_fallbacks(e);
    if (part != NULL && status == QN_OK) {
        qn__settle_part(ctx, part, n_outputs);
        return QN_OK;
    }
    qn__lose_aside(ctx);
    settle(ctx, e, n_outputs, status != QN_OK && stopped == INT32_MAX ? -1 : stopped);
    return status;
}

/* Not while something else goes on. */
static qn_status may_run(qn_context *ctx, qn_error *err)
{
    if (ctx->look.running != NULL)
        return QN_FAIL(err, state, "a value was looked at inside the evaluation callback; qn_context_read_node reads");
    if (ctx->in_backward) {
        ctx->looked = true;
        return QN_FAIL(err, state,
                       "checkpoint: a value was looked at while the function was called again for backward");
    }
    return QN_OK;
}

qn_status qn__flush_for(qn_context *ctx, const qn_storage *wanted, bool all)
{
    qn_error *err = qn__err(ctx);
    QN_TRY(may_run(ctx, err));
    bool began = false;
    const bool waiting = qn__any_aside(ctx);
    if (ctx->pending == NULL) { /* nobody sees anything of what was recorded */
        settle(ctx, NULL, 0, 0);
        return QN_OK;
    }
    if (waiting) return qn__flush_apart(ctx, wanted, all, err);
    qn_error why = {0};
    const qn_status status = qn__flush_part(ctx, NULL, false, &began, &why);
    if (status == QN_OK) return QN_OK;
    if (!began) return qn__flush_apart(ctx, wanted, all, err);
    *err = why;
    return status;
}

qn_status qn__flush(qn_context *ctx) { return qn__flush_for(ctx, NULL, true); }

qn_status qn__flush_whole(qn_context *ctx)
{
    qn_error *err = qn__err(ctx), why = {0};
    bool began;
    QN_TRY(may_run(ctx, err));
    (void)qn__any_aside(ctx);
    if (ctx->pending == NULL) return qn__flush(ctx);
    for (qn_storage *s = ctx->pending; s != NULL; s = s->next) s->aside = false;
    const qn_status status = qn__flush_part(ctx, NULL, false, &began, &why);
    if (status != QN_OK) *err = why;
    return status;
}
