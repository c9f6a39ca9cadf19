/* SPDX-License-Identifier: MIT */
/* src/trace/touch.c -- which bytes of files a step must touch, from its plan, its tokens and the experts it chose. */
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

typedef struct telling {
    const qn_trace_step *step;
    const qn_trace_node *node;
    qn_trace_touch_fn fn;
    void *ctx;
    bool on;
} telling;

static void tell(telling *w, const qn_trace_node *weight, uint64_t offset, uint64_t bytes, double touched, bool part)
{
    if (!w->on || bytes == 0 || offset > UINT64_MAX - bytes) return;
    const qn_trace_touch touch = {w->node, weight, weight->file, part, offset, bytes, touched};
    w->on = w->fn(w->ctx, &touch);
}

static void tell_whole(telling *w, const qn_trace_node *n) { tell(w, n, n->offset, n->bytes, (double)n->bytes, false); }

static bool in_file(const qn_trace_node *n) { return n->space == QN_TRACE_FILE && n->file >= 0 && !(n->flags & 2); }

/* ids: which of the n slices; NULL: it isn't known, `touched` bytes of them are. */
static void tell_slices(telling *w, const qn_trace_node *weight, uint64_t n, const int32_t *ids, int32_t n_ids,
                        double touched)
{
    const uint64_t one = n ? weight->bytes / n : 0;
    if (!ids || one == 0) {
        const double most = (double)weight->bytes;
        tell(w, weight, weight->offset, weight->bytes, touched < most ? touched : most, true);
        return;
    }
    for (int32_t i = 0; i < n_ids && w->on; i++)
        if (ids[i] >= 0 && (uint64_t)ids[i] < n)
            tell(w, weight, weight->offset + one * (uint64_t)ids[i], one, (double)one, true);
}

static int by_id(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sorted, each once, into `to` of n; how many they are. */
static int32_t distinct(const int32_t *ids, int32_t n, int32_t *to)
{
    int32_t kept = 0;
    memcpy(to, ids, (size_t)n * sizeof *to);
    qsort(to, (size_t)n, sizeof *to, by_id);
    for (int32_t i = 0; i < n; i++)
        if (kept == 0 || to[i] != to[kept - 1]) to[kept++] = to[i];
    return kept;
}

static void tell_distinct(telling *w, const qn_trace_node *weight, uint64_t n, const int32_t *ids, int32_t n_ids,
                          double touched)
{
    int32_t few[64], *sorted = n_ids <= 64 ? few : qn__alloc((size_t)n_ids * sizeof *sorted);
    if (ids && n_ids > 0 && sorted)
        tell_slices(w, weight, n, sorted, distinct(ids, n_ids, sorted), touched);
    else
        tell_slices(w, weight, n, NULL, 0, touched);
    if (sorted != few) qn__free(sorted);
}

static void tell_experts(telling *w, const qn_trace_plan *plan)
{
    const qn_trace_node *n = w->node;
    const int32_t chosen = n->n_src > 2 ? plan->nodes[n->src[2]].root : -1;
    const qn_trace_choice *c = NULL;
    for (int32_t i = 0; i < w->step->n_choices && !c; i++)
        if (w->step->choices[i].node == chosen) c = &w->step->choices[i];
    const double share = qn__trace_experts(n, w->step) / n->cost.n_experts;
    for (int32_t k = 0; k < n->n_src; k++) {
        const qn_trace_node *src = &plan->nodes[n->src[k]];
        if (!in_file(src)) continue;
        if (k == 1 || k == 3)
            tell_distinct(w, src, n->cost.n_experts, c ? c->ids : NULL, c ? c->n_ids : 0, share * (double)src->bytes);
        else
            tell_whole(w, src);
    }
}

/* A table of which rows are looked up: those of the step's tokens or positions. */
static void tell_rows(telling *w, const qn_trace_plan *plan, const qn_trace_node *table, double touched)
{
    const qn_trace_step *s = w->step;
    const int32_t *ids = NULL;
    for (int32_t k = 1; k < w->node->n_src; k++) {
        const char *name = plan->nodes[plan->nodes[w->node->src[k]].root].name;
        if (strcmp(name, "tokens") == 0) ids = s->tokens;
        if (strcmp(name, "pos") == 0) ids = s->pos;
    }
    tell_distinct(w, table, table->rank > 0 ? (uint64_t)table->shape[0] : 0, ids, s->n_tokens, touched);
}

static void tell_node(telling *w, const qn_trace_plan *plan)
{
    const qn_trace_node *n = w->node;
    double whole = 0;
    for (int32_t k = 0; k < n->n_src; k++) {
        const qn_trace_node *src = &plan->nodes[n->src[k]];
        if (in_file(src)) whole += (double)src->bytes;
    }
    if (whole == 0) return;
    if (n->cost.n_experts > 0) {
        tell_experts(w, plan);
        return;
    }
    const double touched = (double)n->cost.weight_bytes;
    for (int32_t k = 0; k < n->n_src && w->on; k++) {
        const qn_trace_node *src = &plan->nodes[n->src[k]];
        if (!in_file(src)) continue;
        if (k == 0 && touched < whole)
            tell_rows(w, plan, src, touched > whole - (double)src->bytes ? touched - (whole - (double)src->bytes) : 0);
        else
            tell_whole(w, src);
    }
}

void qn_trace_touches(const qn_trace_step *step, qn_trace_touch_fn fn, void *ctx)
{
    telling w = {step, NULL, fn, ctx, true};
    for (int32_t i = 0; i < step->plan->n_nodes && w.on; i++) {
        w.node = &step->plan->nodes[i];
        if (w.node->computes) tell_node(&w, step->plan);
    }
}

/* ---- stretches that some step touches ---- */

typedef struct gathering {
    qn_trace *t;
    bool again; /* the plan was seen: only what differs from step to step */
    bool failed;
} gathering;

static bool gather(void *ctx, const qn_trace_touch *touch)
{
    gathering *g = ctx;
    if (g->again && !touch->part) return true;
    qn_trace_stretch *s = QN_TRACE_MORE(&g->t->spans);
    g->failed = !s;
    if (s) *s = (qn_trace_stretch){touch->file, touch->offset, touch->offset + touch->bytes};
    return s != NULL;
}

static int by_begin(const void *a, const void *b)
{
    const qn_trace_stretch *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void merge(qn_trace *t)
{
    size_t n = 0;
    qn_trace_stretch *s = t->spans.at;
    if (t->spans.n) qsort(s, t->spans.n, sizeof *s, by_begin);
    for (size_t i = 0; i < t->spans.n; i++) {
        if (n > 0 && s[n - 1].file == s[i].file && s[i].begin <= s[n - 1].end) {
            if (s[i].end > s[n - 1].end) s[n - 1].end = s[i].end;
        } else {
            s[n++] = s[i];
        }
    }
    t->spans.n = n;
}

enum { MERGE_AT = 1 << 16 };

static int by_file(const void *a, const void *b)
{
    const qn_trace_residency *x = *(const qn_trace_residency *const *)a, *y = *(const qn_trace_residency *const *)b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x > y) - (x < y); /* they stand in order of time */
}

static bool sort_looks(qn_trace *t)
{
    t->looks.n = 0;
    for (size_t i = 0; i < t->residency.n; i++) {
        const qn_trace_residency **at = QN_TRACE_MORE(&t->looks);
        if (!at) return false;
        *at = &t->residency.at[i];
    }
    if (t->looks.n) qsort(t->looks.at, t->looks.n, sizeof t->looks.at[0], by_file);
    return true;
}

bool qn__trace_find_spans(qn_trace *t)
{
    gathering g = {.t = t};
    if (t->has_spans) return true;
    if (!sort_looks(t)) return false;
    t->spans.n = 0;
    size_t merge_at = MERGE_AT;
    for (size_t i = 0; i < t->steps.n && !g.failed; i++) {
        g.again = false; /* of a few plans, so a short look back finds it */
        for (size_t k = i; k-- > 0 && i - k < 64 && !g.again;) g.again = t->steps.at[k].plan == t->steps.at[i].plan;
        qn_trace_touches(&t->steps.at[i], gather, &g);
        if (t->spans.n < merge_at) continue;
        merge(t);
        merge_at = t->spans.n * 2 > MERGE_AT ? t->spans.n * 2 : MERGE_AT;
    }
    merge(t);
    t->has_spans = !g.failed;
    return t->has_spans;
}

uint64_t qn__trace_untouched(const qn_trace *t, int32_t file, uint64_t begin, uint64_t end)
{
    size_t lo = 0, hi = t->spans.n; /* the first that ends behind begin */
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const qn_trace_stretch *s = &t->spans.at[mid];
        if (s->file < file || (s->file == file && s->end <= begin))
            lo = mid + 1;
        else
            hi = mid;
    }
    uint64_t touched = 0;
    for (size_t i = lo; i < t->spans.n && t->spans.at[i].file == file && t->spans.at[i].begin < end; i++) {
        const qn_trace_stretch *s = &t->spans.at[i];
        const uint64_t from = s->begin > begin ? s->begin : begin, to = s->end < end ? s->end : end;
        touched += to - from;
    }
    return end - begin - touched;
}
