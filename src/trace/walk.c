/* SPDX-License-Identifier: MIT */
/* src/trace/walk.c -- the events of a trace that is open, one by one; and what a step makes of a node's cost. */
#include "base/error.h"
#include "trace/read.h"
#include <string.h>

/* ---- rows of a block of events ---- */

bool qn__trace_rows_init(qn_trace_rows *r, const qn_trace_block *b, const uint8_t *raw)
{
    qn_trace_cursor c = {raw, raw + b->raw_bytes, false};
    *r = (qn_trace_rows){.left = b->count, .end = qn__trace_get(&c)};
    r->step = qn__trace_get(&c);
    r->member = qn__trace_get_signed(&c);
    for (int i = 0; i < QN_TRACE_COLUMNS; i++) {
        const uint64_t bytes = qn__trace_get_up_to(&c, (uint64_t)(c.end - c.p));
        if (c.failed || bytes > (uint64_t)(c.end - c.p)) return false;
        r->column[i] = (qn_trace_cursor){c.p, c.p + bytes, false};
        c.p += bytes;
    }
    return c.p == c.end && b->count <= QN_TRACE_MAX_ROWS;
}

bool qn__trace_rows_next(qn_trace_rows *r, qn_trace_row *out)
{
    qn_trace_cursor *c = r->column;
    if (r->left == 0) return false;
    out->kind = c[0].p < c[0].end ? *c[0].p++ : QN_TRACE_KIND_COUNT;
    r->id = (int64_t)((uint64_t)r->id + (uint64_t)qn__trace_get_signed(&c[1])); /* what leaves 64 bits is below 0 */
    out->id = r->id;
    out->begin = r->end + (uint64_t)qn__trace_get_signed(&c[2]);
    out->end = out->begin + qn__trace_get(&c[3]);
    out->waiting = qn__trace_get(&c[4]);
    if (out->kind >= QN_TRACE_KIND_COUNT || c[1].failed || c[2].failed || c[3].failed || c[4].failed) return false;
    if (out->id < 0 || out->id > INT32_MAX || out->end < out->begin) return false;
    r->end = out->end;
    if (out->kind == QN_TRACE_run) {
        r->step = out->waiting;
        r->member = out->id;
    }
    r->left--;
    return true;
}

bool qn__trace_rows_whole(const qn_trace_rows *r)
{
    for (int i = 0; i < QN_TRACE_COLUMNS; i++)
        if (r->column[i].p != r->column[i].end) return false;
    return r->left == 0;
}

/* ---- walking ---- */

typedef struct walk {
    qn_trace *t;
    qn_trace_event_fn fn;
    void *ctx;
    const qn_trace_lane *lane;
} walk;

static bool is_of_node(int kind) { return kind == QN_TRACE_node || kind == QN_TRACE_transfer; }

static bool tell(const walk *w, const qn_trace_row *row, const qn_trace_step *step)
{
    const qn_trace *t = w->t;
    qn_trace_event e = {.kind = row->kind, .lane = w->lane, .begin_ns = qn__trace_to_ns(t, row->begin)};
    e.ns = qn__trace_to_ns(t, row->end) - e.begin_ns;
    if (row->kind == QN_TRACE_step)
        e.step = qn__trace_find_step(t, row->waiting);
    else
        e.wait_ns = qn__trace_to_ns(t, row->begin + row->waiting) - e.begin_ns;
    if (is_of_node(row->kind)) {
        e.step = step;
        if (step && row->id < step->plan->n_nodes) e.node = &step->plan->nodes[row->id];
    }
    return w->fn(w->ctx, &e);
}

static bool walk_events(const walk *w, const qn_trace_block *b, const uint8_t *raw)
{
    qn_trace_rows rows;
    qn_trace_row row;
    if (!qn__trace_rows_init(&rows, b, raw)) return true;
    const qn_trace_step *step = qn__trace_find_step(w->t, rows.step);
    while (qn__trace_rows_next(&rows, &row)) {
        if (row.kind == QN_TRACE_run)
            step = qn__trace_find_step(w->t, rows.step);
        else if (!tell(w, &row, step))
            return false;
    }
    return true;
}

static bool walk_marks(const walk *w, const qn_trace_block *b, const uint8_t *raw)
{
    qn_trace_cursor c = {raw, raw + b->raw_bytes, false};
    for (uint32_t i = 0; i < b->count && !c.failed; i++) {
        char text[256];
        size_t n;
        const uint64_t begin = qn__trace_get(&c), ticks = qn__trace_get(&c);
        const char *said = qn__trace_get_text(&c, &n);
        if (n > sizeof text - 1) n = sizeof text - 1;
        memcpy(text, said, n);
        text[n] = '\0';
        qn_trace_event e = {.kind = QN_TRACE_mark, .lane = w->lane, .text = text};
        e.begin_ns = qn__trace_to_ns(w->t, begin);
        e.ns = qn__trace_to_ns(w->t, begin + ticks) - e.begin_ns;
        if (!w->fn(w->ctx, &e)) return false;
    }
    return true;
}

qn_status qn_trace_walk(qn_trace *t, qn_trace_event_fn fn, void *ctx, qn_error *err)
{
    walk w = {t, fn, ctx, NULL};
    qn_trace_block b;
    bool on = true, nomem = false;
    for (uint64_t at = QN_TRACE_FILE_BYTES; at < t->whole && on; at += QN_TRACE_BLOCK_BYTES + b.packed_bytes) {
        if (qn__trace_block_at(t->data, t->size, at, &b)) break; /* the file changed under us */
        if (b.kind != QN_TRACE_BLOCK_events && b.kind != QN_TRACE_BLOCK_marks) continue;
        const uint8_t *raw = qn__trace_raw(t, &b, at, &nomem);
        if (nomem) return QN_FAIL_NOMEM(err, b.raw_bytes);
        w.lane = qn__trace_find_lane(t, b.lane);
        if (raw && w.lane) on = (b.kind == QN_TRACE_BLOCK_events ? walk_events : walk_marks)(&w, &b, raw);
    }
    return QN_OK;
}

qn_trace_cost qn_trace_cost_of(const qn_trace_node *node, const qn_trace_step *step)
{
    const qn_trace_node_cost *c = &node->cost;
    qn_trace_cost out = {.weight_bytes = (double)c->weight_bytes,
                         .cache_bytes = (double)c->cache_bytes,
                         .act_bytes = (double)c->act_bytes,
                         .ops = (double)c->ops};
    if (c->sight > 0 && (int64_t)c->sight <= step->n_sights) {
        const qn_trace_sight *s = &step->sights[c->sight - 1];
        out.cache_bytes += (double)c->cell_bytes * (double)s->cells;
        out.ops += (double)c->cell_ops * (double)s->pairs;
    }
    if (c->n_experts > 0) out.weight_bytes += (double)c->expert_bytes * qn__trace_experts(node, step);
    return out;
}
