/* SPDX-License-Identifier: MIT */
/* src/engine/pager.c -- a pager's life, and what is done around and in a run. All but changed in the turn of whoever
 * computes. */
#include "engine/pager.h"
#include "format/native.h"

static qn_status fill(qn_pager *p, qn_engine *e, qn_error *err)
{
    p->engine = e;
    p->n_parts = qn_gguf_n_parts(e->file);
    const qn_map **maps = qn__calloc((size_t)p->n_parts, sizeof(*maps));
    p->maps = maps;
    p->ring = qn__calloc(QN_PAGER_RING, sizeof(*p->ring));
    if (!maps || !p->ring) return QN_FAIL(err, nomem, "out of memory for %d requests to read", QN_PAGER_RING);
    for (int32_t i = 0; i < p->n_parts; i++) maps[i] = qn__gguf_map(e->file, i);
    p->block = qn__paging_block(e->info.weight_bytes);
    p->stale = true;
    return QN_OK;
}

qn_status qn__pager_create(qn_engine *e, qn_pager **out, qn_error *err)
{
    qn_pager *p = qn__calloc(1, sizeof(*p));
    if (!p) return QN_FAIL_NOMEM(err, sizeof(*p));
    qn__arena_init(&p->arena, 0);
    const qn_status status = fill(p, e, err);
    if (status != QN_OK) {
        qn__pager_destroy(p);
        return status;
    }
    *out = p;
    return QN_OK;
}

void qn__pager_destroy(qn_pager *p)
{
    if (!p) return;
    qn__pager_stop(p);
    qn__worker_destroy(p->worker);
    qn__arena_deinit(&p->arena);
    qn__free((void *)(uintptr_t)p->maps);
    qn__free(p->ring);
    qn__free(p);
}

void qn__pager_changed(qn_pager *p)
{
    if (p) atomic_store(&p->stale, true);
}

static void raise_to(_Atomic uint64_t *count, uint64_t x)
{
    if (atomic_load_explicit(count, memory_order_relaxed) < x) atomic_store_explicit(count, x, memory_order_release);
}

/* Blocks before `done` of this step go, and as many are read beyond as the window has, but at least to `need`. */
static void advance(qn_pager *p, int32_t done, int32_t need)
{
    const uint64_t gone = p->base + (uint64_t)done, want = p->base + (uint64_t)need, ahead = gone + (uint64_t)p->window;
    const uint64_t goal = want > ahead ? want : ahead;
    if (gone <= atomic_load_explicit(&p->released, memory_order_relaxed) &&
        goal <= atomic_load_explicit(&p->goal, memory_order_relaxed))
        return;
    raise_to(&p->released, gone);
    raise_to(&p->goal, goal);
    qn__pager_ring(p);
}

qn_status qn__pager_begin(qn_pager *p, qn_exec *exec, qn_error *err)
{
    if (!p) return QN_OK;
    qn_graph *g = qn__exec_graph_to_tap(exec);
    const uint64_t engines = qn__pager_engines();
    if (atomic_exchange(&p->stale, false) || p->engines != engines) {
        p->engines = engines;
        atomic_store(&p->opened, qn__pager_opened()); /* what the plan doesn't keep is dropped */
        qn__pager_stop(p);
        qn_status status = qn__pager_plan(p, g, err);
        if (status == QN_OK && p->active) status = qn__pager_start(p, err);
        if (status != QN_OK) {
            p->active = false;
            atomic_store(&p->stale, true);
            return status;
        }
    }
    if (g->paged != p->number) QN_TRY(qn__pager_mark(p, g, err));
    if (p->active && p->n_order) advance(p, 0, 0);
    return QN_OK;
}

bool qn__pager_works(const qn_pager *p) { return p && p->active; }

void qn__pager_use(void *pager, const qn_node *node, const void *ids)
{
    qn_pager *p = pager;
    qn_page_use *u = node->paged;
    advance(p, u->done, u->need);
    if (u->experts) qn__pager_choose(p, u, node, ids);
    if (u->need) qn__pager_wait(p, &p->read, p->base + (uint64_t)u->need);
    if (u->experts) qn__pager_wait(p, &p->served, u->experts->ticket);
}

/* What has been looked up in tables by rows: where nothing else of it is used. */
static void drop_tables(qn_pager *p, int32_t n_tokens)
{
    p->n_rows += n_tokens;
    if (p->n_rows < QN_PAGING_ROWS) return;
    p->n_rows = 0;
    for (int32_t i = 0; i < p->n_tables; i++) {
        const qn_gguf_tensor *t = p->tables[i];
        if (qn__pager_rows_alone(p, t)) qn__pager_push(p, true, t->part, t->file_offset, t->size_bytes);
    }
}

void qn__pager_end(qn_pager *p, int32_t n_tokens)
{
    if (!qn__pager_works(p)) return;
    qn__pager_settle(p);
    drop_tables(p, n_tokens);
    if (p->n_order == 0) return;
    p->base += (uint64_t)p->n_order;
    advance(p, 0, 0);
}

void qn__pager_get(const qn_pager *p, qn_engine_memory *out)
{
    *out = p->stats;
    for (int32_t i = 0; i < p->n_experts; i++) {
        out->expert_hits += p->experts[i].set.hits;
        out->expert_misses += p->experts[i].set.misses;
    }
    out->read_bytes = atomic_load_explicit(&p->read_bytes, memory_order_relaxed);
    out->dropped_bytes = atomic_load_explicit(&p->dropped_bytes, memory_order_relaxed);
}
