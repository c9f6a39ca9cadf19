/* SPDX-License-Identifier: MIT */
/* src/graph/plan/plan.c -- lifetimes, and offsets by best fit over a free list that coalesces.
 *
 * The graph is walked once in order. A value takes memory at its node and gives it back after its last reader; scratch
 * lives only at its node, and by then neither the sources nor the result may lie there. Nodes that are computed as one
 * give nothing back before the last of them. Inputs are laid out before
 * everything and, like outputs from where they are computed, are never given back. Params and updates take nothing.
 *
 * Free blocks are kept in order of offset, with no two touching and none touching the top, beyond which all is free.
 * Taking the smallest block that fits, and the top only when none does, takes 1.000 of the largest sum of values alive
 * at once on decoder graphs, and at worst 1.10 on graphs of random sizes and lifetimes (tests/unit/graph/plan.c); a
 * list holds a handful of blocks there. */
#include "graph/plan/plan.h"
#include "graph/internal.h"
#include <string.h>

#define FOREVER INT32_MAX

typedef struct block {
    uint64_t offset, size;
} block;
typedef struct space { /* one place's activation buffer */
    block *free;
    int32_t n_free;
    uint64_t top, peak, sum;
} space;

typedef struct planner {
    qn_graph *g;
    uint64_t align;
    int32_t *last;   /* by id of a root: its last reader, FOREVER when pinned */
    int32_t *expire; /* by id: head of the list of values whose last reader this is, -1 ends */
    int32_t *next;   /* by id of a root: the rest of that list */
    space spaces[QN_MAX_PLACES];
} planner;

/* ---- one place ---- */

static bool take(space *s, uint64_t size, uint64_t *offset)
{
    int32_t best = -1;
    for (int32_t i = 0; i < s->n_free; i++) {
        if (s->free[i].size >= size && (best < 0 || s->free[i].size < s->free[best].size)) best = i;
    }
    if (best < 0) {
        *offset = s->top;
        if (size > INT64_MAX - s->top) return false;
        s->top += size;
        if (s->top > s->peak) s->peak = s->top;
        return true;
    }
    block *b = &s->free[best];
    *offset = b->offset;
    b->offset += size;
    b->size -= size;
    if (b->size == 0) memmove(b, b + 1, (size_t)(--s->n_free - best) * sizeof *b);
    return true;
}

static void give(space *s, uint64_t offset, uint64_t size)
{
    int32_t low = 0, high = s->n_free; /* the first free block after it */
    while (low < high) {
        const int32_t mid = low + (high - low) / 2;
        if (s->free[mid].offset < offset)
            low = mid + 1;
        else
            high = mid;
    }
    block *after = s->free + low;
    const bool joins_before = low > 0 && after[-1].offset + after[-1].size == offset;
    const bool joins_after = low < s->n_free && offset + size == after->offset;
    if (joins_before && joins_after) {
        after[-1].size += size + after->size;
        memmove(after, after + 1, (size_t)(--s->n_free - low) * sizeof *after);
    } else if (joins_before) {
        after[-1].size += size;
    } else if (joins_after) {
        *after = (block){offset, size + after->size};
    } else {
        memmove(after + 1, after, (size_t)(s->n_free++ - low) * sizeof *after);
        *after = (block){offset, size};
    }
    const block *highest = &s->free[s->n_free - 1];
    if (highest->offset + highest->size == s->top) {
        s->top = highest->offset;
        s->n_free--;
    }
}

/* ---- one node ---- */

/* Does this node bring memory of its own into the activation buffer? */
static bool takes_memory(const qn_node *n)
{
    return n->root == n && n->op != QN_OP_param && !(n->flags & QN_NODE_bound);
}
/* Laid out before all else, and never given back. */
static bool lies_with_inputs(const qn_node *n) { return n->op == QN_OP_input || (n->flags & QN_NODE_early); }
static uint64_t laid_bytes(const planner *p, uint64_t bytes) { return (bytes + p->align - 1) & ~(p->align - 1); }

static qn_status check_place(const planner *p, const qn_node *n, int n_places, qn_error *err)
{
    char text[QN_NODE_TEXT];
    if ((takes_memory(n) || n->scratch_bytes > 0) && (n->place < 0 || n->place >= n_places)) {
        return QN_FAIL(err, invalid, "%s has place %d, 0 to %d expected", qn__node_text(n, text), n->place,
                       n_places - 1);
    }
    if (qn__node_bytes(n) < 0 || (uint64_t)qn__node_bytes(n) > INT64_MAX - p->align ||
        n->scratch_bytes > INT64_MAX - p->align) {
        return QN_FAIL(err, limit, "%s takes more than 2^63 bytes", qn__node_text(n, text));
    }
    return QN_OK;
}

/* May the result of `n` be written over its source 0, whose memory nobody reads afterwards? */
static bool goes_in_place(const planner *p, const qn_node *n)
{
    if (!qn__op_info(n->op)->inplace || n->one_last) return false;
    const qn_node *s = n->src[0], *root = s->root;
    if (!takes_memory(root) || lies_with_inputs(root) || p->last[root->id] != n->id || root->place != n->place)
        return false;
    if (s->dtype != n->dtype || s->layout.offset != 0 || !qn__row_major(&s->layout)) return false;
    const qn_shape a = qn_layout_shape(&s->layout), b = qn_layout_shape(&n->layout);
    if (!qn_shape_equal(&a, &b) || qn__node_bytes(root) != qn__node_bytes(n)) return false;
    for (int k = 1; k < n->n_src; k++) {
        if (n->src[k]->root == root) return false;
    }
    return true;
}

static qn_status place_bytes(planner *p, const qn_node *n, uint64_t bytes, uint64_t *offset, qn_error *err)
{
    space *s = &p->spaces[n->place];
    *offset = 0;
    if (bytes == 0) return QN_OK;
    const uint64_t size = laid_bytes(p, bytes);
    if (take(s, size, offset) && size <= INT64_MAX - s->sum) {
        s->sum += size;
        return QN_OK;
    }
    char text[QN_NODE_TEXT];
    return QN_FAIL(err, limit, "the values of place %d, up to %s, take more than 2^63 bytes", n->place,
                   qn__node_text(n, text));
}

static void release(planner *p, const qn_node *n, uint64_t offset, uint64_t bytes)
{
    if (bytes > 0) give(&p->spaces[n->place], offset, laid_bytes(p, bytes));
}

static qn_status lay_out(planner *p, qn_node *n, qn_plan *plan, qn_error *err)
{
    int32_t reused = -1; /* the value that this one overwrites */
    if (takes_memory(n) && !lies_with_inputs(n)) {
        plan->n_values++;
        if (goes_in_place(p, n)) {
            const uint64_t bytes = laid_bytes(p, (uint64_t)qn__node_bytes(n));
            space *s = &p->spaces[n->place];
            reused = n->src[0]->root->id;
            n->offset = n->src[0]->root->offset;
            plan->n_inplace++;
            s->sum = bytes <= INT64_MAX - s->sum ? s->sum + bytes : INT64_MAX;
        } else {
            QN_TRY(place_bytes(p, n, (uint64_t)qn__node_bytes(n), &n->offset, err));
        }
    }
    QN_TRY(place_bytes(p, n, n->scratch_bytes, &n->scratch_offset, err));
    if (!n->one_last) release(p, n, n->scratch_offset, n->scratch_bytes);
    for (int32_t i = n->one_last == n ? n->one_first->id : n->id + 1; i <= n->id; i++) {
        const qn_node *m = p->g->nodes[i];
        if (m->one_last == n) release(p, m, m->scratch_offset, m->scratch_bytes);
    }
    for (int32_t i = p->expire[n->id]; i >= 0; i = p->next[i]) {
        const qn_node *v = p->g->nodes[i];
        if (i != reused) release(p, v, v->offset, (uint64_t)qn__node_bytes(v));
    }
    return QN_OK;
}

/* ---- the whole ---- */

static void find_lifetimes(planner *p, qn_plan *plan)
{
    qn_graph *g = p->g;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        p->last[i] = lies_with_inputs(n) ? FOREVER : i; /* a value that nobody reads is still written */
        p->expire[i] = -1;
        for (int k = 0; k < n->n_src; k++) {
            int32_t *last = &p->last[n->src[k]->root->id];
            if (*last < i) *last = i;
        }
        if (n->flags & QN_NODE_output) p->last[n->root->id] = FOREVER;
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *reader = p->last[i] == FOREVER ? NULL : g->nodes[p->last[i]];
        if (reader && reader->one_last) p->last[i] = reader->one_last->id;
    }
    qn__plan_lend(g, p->last, plan);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (!takes_memory(g->nodes[i]) || p->last[i] == FOREVER) continue;
        p->next[i] = p->expire[p->last[i]];
        p->expire[p->last[i]] = i;
    }
}

/* A list never holds more blocks than there are values and scratches of the place, and one. */
static qn_status prepare(planner *p, qn_graph *g, int n_places, uint64_t align, qn_error *err)
{
    const size_t n = (size_t)g->n_nodes;
    size_t n_blocks[QN_MAX_PLACES], total = 0;
    *p = (planner){.g = g, .align = align};
    for (int i = 0; i < n_places; i++) n_blocks[i] = 1;
    for (size_t i = 0; i < n; i++) {
        const qn_node *node = g->nodes[i];
        QN_TRY(check_place(p, node, n_places, err));
        if (takes_memory(node)) n_blocks[node->place]++;
        if (node->scratch_bytes > 0) n_blocks[node->place]++;
    }
    for (int i = 0; i < n_places; i++) total += n_blocks[i];
    const size_t bytes = total * sizeof(block) + 3 * n * sizeof(int32_t);
    block *blocks = qn__alloc(bytes); /* n is at most QN_MAX_NODES: no overflow */
    if (blocks == NULL) return QN_FAIL_NOMEM(err, bytes);
    p->last = (int32_t *)(blocks + total);
    p->expire = p->last + n;
    p->next = p->expire + n;
    for (int i = 0; i < n_places; i++) {
        p->spaces[i].free = blocks;
        blocks += n_blocks[i];
    }
    return QN_OK;
}

static qn_status assign(planner *p, qn_plan *plan, qn_error *err)
{
    qn_graph *g = p->g;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        if (g->nodes[i]->lender == NULL) g->nodes[i]->offset = 0;
        g->nodes[i]->scratch_offset = 0;
    }
    find_lifetimes(p, plan);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        if (!lies_with_inputs(n)) continue;
        plan->n_values++;
        QN_TRY(place_bytes(p, n, (uint64_t)qn__node_bytes(n), &n->offset, err));
    }
    for (int32_t i = 0; i < g->n_nodes; i++) QN_TRY(lay_out(p, g->nodes[i], plan, err));
    return QN_OK;
}

qn_status qn__plan_make(qn_graph *g, int n_places, uint64_t align, qn_plan *out, qn_error *err)
{
    if (n_places < 1 || n_places > QN_MAX_PLACES) {
        return QN_FAIL(err, invalid, "%d places, 1 to %d expected", n_places, QN_MAX_PLACES);
    }
    if (align == 0 || (align & (align - 1)) != 0 || align > (UINT64_C(1) << 32)) {
        return QN_FAIL(err, invalid, "alignment %llu, a power of two up to 2^32 expected", (unsigned long long)align);
    }
    planner p;
    qn_plan plan = {.n_places = n_places};
    qn__graph_compact(g);
    QN_TRY(prepare(&p, g, n_places, align, err));
    const qn_status status = assign(&p, &plan, err);
    for (int i = 0; i < n_places; i++) {
        plan.bytes[i] = p.spaces[i].peak;
        plan.sum_bytes[i] = p.spaces[i].sum;
    }
    qn__free(p.spaces[0].free);
    if (status == QN_OK) *out = plan;
    return status;
}
