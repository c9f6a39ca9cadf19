/* SPDX-License-Identifier: MIT */
/* src/engine/pager_plan.c -- what stays and what is read again and again, out of the order in which a graph uses the
 * weights; and what each node of a graph needs. */
#include "base/log.h"
#include "base/str.h"
#include "engine/pager.h"
#include "format/gguf_file.h"

/* ---- what a graph uses ---- */

const qn_gguf_tensor *qn__pager_tensor(const qn_pager *p, const qn_node *param)
{
    const qn_engine *e = p->engine;
    if (param->op != QN_OP_param || !param->buffer || !((const qn_buffer *)param->buffer)->backend->type->pages)
        return NULL;
    for (int i = 0; i < e->model->n_weights; i++)
        if (e->buffers[i] == param->buffer)
            return e->buffers[i]->host == e->model->weights[i].tensor->data ? e->model->weights[i].tensor : NULL;
    return NULL;
}

uint64_t qn__pager_block_bytes(const qn_pager *p, int32_t block)
{
    const int32_t part = p->blocks[block].part;
    const uint64_t offset = (uint64_t)(block - p->first_block[part]) * p->block, size = p->maps[part]->size;
    return offset < size ? (size - offset < p->block ? size - offset : p->block) : 0;
}

/* How a node uses a source. */
typedef enum use_kind { USE_none, USE_whole, USE_rows, USE_experts } use_kind;

static use_kind kind_of(const qn_node *n, int src)
{
    if (n->op == QN_OP_linear_experts && src == 1) return USE_experts;
    return n->op == QN_OP_get_rows && src == 0 ? USE_rows : USE_whole;
}

static bool reads_files(const qn_node *n) { return n->root == n || n->root->op != QN_OP_param; }

/* Calls `fn` for each weight that each node reads. */
typedef bool (*use_fn)(qn_pager *p, void *ctx, qn_node *n, use_kind kind, const qn_gguf_tensor *t);
static bool each_use(qn_pager *p, const qn_graph *g, use_fn fn, void *ctx)
{
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        for (int k = 0; k < n->n_src && reads_files(n); k++) {
            const qn_gguf_tensor *t = qn__pager_tensor(p, n->src[k]->root);
            if (t && !fn(p, ctx, n, kind_of(n, k), t)) return false;
        }
    }
    return true;
}

static int32_t block_of(const qn_pager *p, const qn_gguf_tensor *t, uint64_t at)
{
    return p->first_block[t->part] + (int32_t)((t->file_offset + at) / p->block);
}

bool qn__pager_rows_alone(const qn_pager *p, const qn_gguf_tensor *table)
{
    return p->blocks[block_of(p, table, table->size_bytes / 2)].first < 0;
}

qn_page_experts *qn__pager_experts(const qn_pager *p, const qn_gguf_tensor *t)
{
    for (int32_t i = 0; i < p->n_experts; i++)
        if (p->experts[i].part == t->part && p->experts[i].offset == t->file_offset) return &p->experts[i];
    return NULL;
}

/* What the plan is made of. */
typedef struct survey {
    const qn_gguf_tensor **tables;
    int32_t n_tables, greediest;    /* blocks of a node in a layer */
    uint64_t expert_bytes, at_once; /* of a layer's choice for one token */
} survey;

static bool count_use(qn_pager *p, void *ctx, qn_node *n, use_kind kind, const qn_gguf_tensor *t)
{
    survey *s = ctx;
    s->n_tables += kind == USE_rows;
    p->n_experts += kind == USE_experts;
    (void)n;
    (void)t;
    return true;
}

static void note_experts(qn_pager *p, survey *s, const qn_node *n, const qn_gguf_tensor *t)
{
    const int64_t many = n->src[1]->layout.dim[0], used = n->src[2]->layout.dim[1];
    if (qn__pager_experts(p, t) || many < 1) return;
    qn_page_experts *x = &p->experts[p->n_experts++];
    *x = (qn_page_experts){.set.n = (int32_t)many,
                           .part = t->part,
                           .offset = t->file_offset,
                           .bytes = t->size_bytes / (uint64_t)many};
    const uint64_t at_once = 3 * x->bytes * (uint64_t)(used < many ? used : many);
    if (at_once > s->at_once) s->at_once = at_once;
    s->expert_bytes += t->size_bytes;
}

static bool note_use(qn_pager *p, void *ctx, qn_node *n, use_kind kind, const qn_gguf_tensor *t)
{
    survey *s = ctx;
    if (kind == USE_experts) note_experts(p, s, n, t);
    if (kind == USE_rows) s->tables[s->n_tables++] = t;
    if (kind != USE_whole || t->size_bytes == 0) return true;
    const int32_t from = block_of(p, t, 0), to = block_of(p, t, t->size_bytes - 1);
    for (int32_t b = from; b <= to; b++) {
        qn_page_block *block = &p->blocks[b];
        if (block->first < 0) block->first = n->id;
        block->last = n->id;
        block->top |= n->layer < 0;
    }
    if (n->layer >= 0 && to - from + 1 > s->greediest) s->greediest = to - from + 1;
    return true;
}

/* ---- what stays ---- */

static bool earlier(const void *ctx, size_t a, size_t b)
{
    const qn_pager *p = ctx;
    const int32_t x = p->order[a], y = p->order[b];
    return p->blocks[x].first != p->blocks[y].first ? p->blocks[x].first < p->blocks[y].first : x < y;
}

static void exchange(void *ctx, size_t a, size_t b)
{
    int32_t *order = ((qn_pager *)ctx)->order;
    const int32_t x = order[a];
    order[a] = order[b];
    order[b] = x;
}

typedef struct shares {
    uint64_t budget, kept; /* bytes */
} shares;

static bool keep(qn_pager *p, shares *s, int32_t block)
{
    const uint64_t bytes = qn__pager_block_bytes(p, block);
    if (p->blocks[block].kept || s->budget - s->kept < bytes) return false;
    p->blocks[block].kept = true;
    s->kept += bytes;
    return true;
}

/* All over a step: it would sit in the window for most of it. */
static bool lasts(const qn_pager *p, int32_t block, int32_t n_nodes)
{
    return p->blocks[block].last - p->blocks[block].first > n_nodes / 4;
}

static void keep_first(qn_pager *p, shares *s, int32_t n, int32_t n_nodes)
{
    uint64_t top = 0;
    for (int32_t i = 0; i < n; i++)
        if (p->blocks[p->order[i]].top) top += qn__pager_block_bytes(p, p->order[i]);
    for (int32_t i = 0; i < n; i++) {
        const int32_t b = p->order[i];
        if ((p->blocks[b].top && top <= s->budget / 2) || lasts(p, b, n_nodes)) (void)keep(p, s, b);
    }
}

/* The others' share of what is left, evenly over the step, so that the disk is never idle. */
static void keep_evenly(qn_pager *p, shares *s, int32_t n)
{
    uint64_t all = 0, seen = 0, before = 0, mine = 0;
    for (int32_t i = 0; i < n; i++)
        if (!p->blocks[p->order[i]].kept) all += qn__pager_block_bytes(p, p->order[i]);
    const uint64_t room = s->budget - s->kept;
    if (all == 0) return;
    bool yes = false;
    for (int32_t i = 0, of = 0; i < n; i++) {
        const int32_t b = p->order[i];
        if (p->blocks[b].kept) continue;
        seen += qn__pager_block_bytes(p, b);
        if (of++ % p->group == 0) {
            const uint64_t end = before + (uint64_t)p->group * p->block, group = end < all ? end : all;
            yes = (double)(mine + (group - before)) <= (double)room / (double)all * (double)group;
        }
        if (yes && keep(p, s, b)) mine += qn__pager_block_bytes(p, b);
        before = seen;
    }
    for (int32_t i = n - 1; i >= 0; i--) (void)keep(p, s, p->order[i]);
}

/* ---- the plan ---- */

static qn_status make_blocks(qn_pager *p, qn_error *err)
{
    p->first_block = qn__arena_array(&p->arena, (size_t)p->n_parts + 1, sizeof(*p->first_block));
    if (!p->first_block) return QN_FAIL(err, nomem, "out of memory for a plan of what stays in memory");
    uint64_t n = 0;
    for (int32_t i = 0; i < p->n_parts; i++) {
        p->first_block[i] = (int32_t)n;
        n += (p->maps[i]->size + p->block - 1) / p->block;
        if (n > INT32_MAX) return QN_FAIL(err, limit, "a file of %zu bytes has too many blocks", p->maps[i]->size);
    }
    p->first_block[p->n_parts] = p->n_blocks = (int32_t)n;
    p->blocks = qn__arena_array(&p->arena, n, sizeof(*p->blocks));
    p->order = qn__arena_array(&p->arena, n, sizeof(*p->order));
    p->keep = qn__arena_array(&p->arena, n, sizeof(*p->keep));
    if (!p->blocks || !p->order || !p->keep)
        return QN_FAIL(err, nomem, "out of memory for a plan of %llu blocks of weights", (unsigned long long)n);
    for (int32_t i = 0; i < p->n_parts; i++)
        for (int32_t b = p->first_block[i]; b < p->first_block[i + 1]; b++)
            p->blocks[b] = (qn_page_block){.part = i, .first = -1, .at = -1};
    return QN_OK;
}

static qn_status take_survey(qn_pager *p, const qn_graph *g, survey *s, qn_error *err)
{
    *s = (survey){0};
    p->n_experts = 0;
    (void)each_use(p, g, count_use, s);
    s->tables = qn__arena_array(&p->arena, (size_t)s->n_tables + 1, sizeof(qn_gguf_tensor *));
    p->experts = qn__arena_array(&p->arena, (size_t)p->n_experts + 1, sizeof(*p->experts));
    s->n_tables = p->n_experts = 0; /* while there are none, or no memory for them */
    if (!s->tables || !p->experts) return QN_FAIL(err, nomem, "out of memory for a plan of what stays in memory");
    (void)each_use(p, g, note_use, s);
    return QN_OK;
}

static qn_status divide_experts(qn_pager *p, const survey *s, uint64_t room, qn_error *err)
{
    for (int32_t i = 0; i < p->n_experts; i++) {
        qn_paging_experts *x = &p->experts[i].set;
        const size_t n = (size_t)x->n;
        x->slots = qn__paging_slots(room, s->expert_bytes, p->experts[i].bytes * n, x->n);
        x->count = qn__arena_array(&p->arena, n, sizeof(*x->count));
        x->seen = qn__arena_array(&p->arena, n, sizeof(*x->seen));
        x->here = qn__arena_array(&p->arena, n, 1);
        p->experts[i].early = qn__arena_array(&p->arena, n, sizeof(*p->experts[i].early));
        if (!x->count || !x->seen || !x->here || !p->experts[i].early)
            return QN_FAIL(err, nomem, "out of memory for the counts of %d experts", x->n);
        qn__paging_fill(x);
        for (int32_t id = x->n_here; id < x->n; id++) atomic_init(&p->experts[i].early[id], QN_PAGE_ASKED);
    }
    return QN_OK;
}

/* Blocks that a step uses, in order; their bytes. */
static uint64_t put_in_order(qn_pager *p)
{
    uint64_t bytes = 0;
    p->n_order = 0;
    for (int32_t b = 0; b < p->n_blocks; b++) {
        if (p->blocks[b].first < 0) continue;
        p->order[p->n_order++] = b;
        bytes += qn__pager_block_bytes(p, b);
    }
    qn__sort(p, (size_t)p->n_order, earlier, exchange);
    return bytes;
}

/* `order` becomes what is read again and again, `keep` what stays. */
static void part_order(qn_pager *p)
{
    const int32_t n = p->n_order;
    p->n_order = p->n_keep = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t b = p->order[i];
        if (p->blocks[b].kept) {
            p->keep[p->n_keep++] = b;
        } else {
            p->blocks[b].at = p->n_order;
            p->order[p->n_order++] = b;
        }
    }
}

/* With huge pages the kernel reads two blocks for one that is missing: the second of them must be of use. */
static qn_map_use use_of_block(const qn_pager *p, int32_t b)
{
    const bool next = b + 1 < p->n_blocks && p->blocks[b + 1].part == p->blocks[b].part && p->blocks[b + 1].first >= 0;
    return next ? QN_MAP_whole : QN_MAP_alone;
}

/* How the kernel shall read what it reads by itself: whole blocks; of tables a page at a time. What was here and shall
 * not stay goes. */
static void advise(qn_pager *p)
{
    for (int32_t b = 0; b < p->n_blocks; b++) {
        const int32_t part = p->blocks[b].part;
        const uint64_t offset = (uint64_t)(b - p->first_block[part]) * p->block;
        if (p->blocks[b].first >= 0) qn__map_advise(p->maps[part], offset, p->block, use_of_block(p, b));
        if (p->blocks[b].at >= 0) qn__map_drop(p->maps[part], offset, p->block);
    }
    for (int32_t i = 0; i < p->n_experts; i++) {
        const qn_page_experts *x = &p->experts[i];
        if (x->set.slots < x->set.n) qn__map_drop(p->maps[x->part], x->offset, x->bytes * (uint64_t)x->set.n);
    }
    for (int32_t i = 0; i < p->n_tables; i++) {
        const qn_gguf_tensor *t = p->tables[i];
        if (!qn__pager_rows_alone(p, t)) continue;
        qn__map_advise(p->maps[t->part], t->file_offset, t->size_bytes, QN_MAP_rows);
        qn__map_drop(p->maps[t->part], t->file_offset, t->size_bytes); /* what came with the header */
    }
}

static void say(const qn_pager *p)
{
    char keeps[32], reads[32], window[32];
    const qn_engine_memory *m = &p->stats;
    qn__log(QN_LOG_info, "of the weights %s stay in memory, %s are read for each step, %s ahead",
            qn__str_bytes(keeps, sizeof(keeps), m->kept_bytes), qn__str_bytes(reads, sizeof(reads), m->streamed_bytes),
            qn__str_bytes(window, sizeof(window), m->window_bytes));
}

static void reset_counts(qn_pager *p)
{
    atomic_store(&p->goal, 0);
    atomic_store(&p->released, 0);
    atomic_store(&p->read, 0);
    atomic_store(&p->pushed, 0);
    atomic_store(&p->served, 0);
    p->base = p->dropped = p->submitted = 0;
    p->kept = p->filled = p->n_rows = 0;
    p->unsettled = NULL;
}

/* Blocks are put in the order of use for it. */
static qn_paging needs(qn_pager *p, const survey *s)
{
    qn_paging x = {.block = p->block,
                   .whole = put_in_order(p),
                   .experts = s->expert_bytes,
                   .at_once = s->at_once,
                   .greediest = s->greediest};
    x.budget = qn__pager_part(p->engine);
    for (int32_t i = 0; i < p->n_tables; i++) {
        const qn_gguf_tensor *t = p->tables[i];
        if (!qn__pager_rows_alone(p, t)) continue;
        x.tables += t->size_bytes;
        x.rows += qn__paging_rows(t->size_bytes, (uint64_t)t->shape.dim[0]);
    }
    return x;
}

qn_status qn__pager_plan(qn_pager *p, const qn_graph *g, qn_error *err)
{
    survey s;
    qn__pager_get(p, &p->stats);
    p->n_experts = 0;
    qn__arena_deinit(&p->arena);
    qn__arena_init(&p->arena, 0);
    p->active = false;
    p->number++;
    reset_counts(p);
    QN_TRY(make_blocks(p, err));
    QN_TRY(take_survey(p, g, &s, err));
    p->tables = s.tables;
    p->n_tables = s.n_tables;
    const qn_paging need = needs(p, &s);
    const qn_paging_share share = qn__paging_share(&need);
    p->stats.budget_bytes = need.budget;
    p->stats.kept_bytes = need.whole + need.experts + need.tables;
    p->stats.streamed_bytes = p->stats.window_bytes = p->stats.expert_bytes = 0;
    if (share.fits) return QN_OK;

    p->window = share.window;
    p->group = share.group;
    shares sh = {.budget = share.keep};
    keep_first(p, &sh, p->n_order, g->n_nodes);
    keep_evenly(p, &sh, p->n_order);
    QN_TRY(divide_experts(p, &s, sh.budget - sh.kept, err));
    part_order(p);
    if (p->window > p->n_order) p->window = p->n_order;
    p->stats.kept_bytes = sh.kept;
    p->stats.streamed_bytes = need.whole - sh.kept;
    p->stats.window_bytes = share.window_bytes;
    for (int32_t i = 0; i < p->n_experts; i++)
        p->stats.expert_bytes += p->experts[i].bytes * (uint64_t)p->experts[i].set.slots;
    advise(p);
    say(p);
    p->active = true;
    return QN_OK;
}

/* ---- what each node of a graph needs ---- */

typedef struct marking {
    qn_graph *graph;
    int32_t *last; /* [n_order] the last node of this graph that uses it, -1 */
    bool failed;
} marking;

static bool note_last(qn_pager *p, void *ctx, qn_node *n, use_kind kind, const qn_gguf_tensor *t)
{
    marking *m = ctx;
    if (kind != USE_whole || t->size_bytes == 0) return true;
    for (int32_t b = block_of(p, t, 0), to = block_of(p, t, t->size_bytes - 1); b <= to; b++)
        if (p->blocks[b].at >= 0) m->last[p->blocks[b].at] = n->id;
    return true;
}

static qn_page_use *use_of(marking *m, qn_node *n)
{
    if (!n->paged) n->paged = qn__arena_alloc(&m->graph->arena, sizeof(qn_page_use));
    m->failed |= !n->paged;
    return n->paged;
}

static bool mark_use(qn_pager *p, void *ctx, qn_node *n, use_kind kind, const qn_gguf_tensor *t)
{
    marking *m = ctx;
    if (kind == USE_experts) {
        qn_page_use *u = use_of(m, n);
        if (!u) return false;
        u->experts = qn__pager_experts(p, t);
        u->ids = n->src[2]->root;
        return true;
    }
    if (kind != USE_whole || t->size_bytes == 0) return true;
    int32_t need = 0;
    for (int32_t b = block_of(p, t, 0), to = block_of(p, t, t->size_bytes - 1); b <= to; b++)
        if (p->blocks[b].at + 1 > need) need = p->blocks[b].at + 1;
    if (need == 0) return true;
    qn_page_use *u = use_of(m, n);
    if (u && need > u->need) u->need = need;
    return u != NULL;
}

/* Nodes of one choice hang together; what is behind a node for good; ids in order of nodes. */
static void finish_uses(qn_pager *p, const marking *m)
{
    const qn_graph *g = m->graph;
    int32_t done = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_page_use *u = g->nodes[i]->paged;
        if (!u) continue;
        while (done < p->n_order && m->last[done] < i) done++;
        u->done = done;
        u->leads = u->experts != NULL;
        for (int32_t k = i - 1; k >= 0 && u->leads; k--) {
            qn_page_use *before = g->nodes[k]->paged;
            if (!before || before->ids != u->ids) continue;
            before->next = u;
            u->leads = false;
        }
    }
}

qn_status qn__pager_mark(qn_pager *p, qn_graph *g, qn_error *err)
{
    marking m = {.graph = g};
    for (int32_t i = 0; i < g->n_nodes; i++) /* of an earlier plan: the memory is the graph's, and used again */
        if (g->nodes[i]->paged) *(qn_page_use *)g->nodes[i]->paged = (qn_page_use){0};
    if (p->active) {
        m.last = qn__alloc(((size_t)p->n_order + 1) * sizeof(*m.last));
        for (int32_t i = 0; m.last && i < p->n_order; i++) m.last[i] = -1;
        const bool good = m.last && each_use(p, g, note_last, &m) && each_use(p, g, mark_use, &m);
        if (good) finish_uses(p, &m);
        qn__free(m.last);
        if (!good) {
            for (int32_t i = 0; i < g->n_nodes; i++) g->nodes[i]->paged = NULL;
            return QN_FAIL(err, nomem, "out of memory for what the nodes of a graph need");
        }
    }
    g->paged = p->number;
    return QN_OK;
}
