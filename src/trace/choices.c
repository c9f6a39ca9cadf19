/* SPDX-License-Identifier: MIT */
/* src/trace/choices.c -- which experts were chosen: records of ids in a trace, joined into one list a step and node. */
#include "trace/read.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int32_t *qn__trace_read_column(qn_trace *t, qn_trace_cursor *c, int32_t n)
{
    int32_t *x = qn__arena_array(&t->arena, (size_t)n + 1, sizeof(*x));
    int64_t last = 0;
    for (int32_t i = 0; x && i < n; i++) {
        const int64_t more = qn__trace_get_signed(c);
        if (__builtin_add_overflow(last, more, &last) || last < INT32_MIN || last > INT32_MAX) c->failed = true;
        if (c->failed) break;
        x[i] = (int32_t)last;
    }
    return x;
}

qn_trace_found qn__trace_read_choices(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_chosen one = {.step = qn__trace_get(c), .order = t->chosen.n};
        one.node = (int32_t)qn__trace_get_up_to(c, INT32_MAX);
        one.n = (int32_t)qn__trace_get_up_to(c, (uint64_t)(c->end - c->p));
        if (c->failed) return QN_TRACE_WRONG;
        one.ids = qn__trace_read_column(t, c, one.n);
        if (c->failed) return QN_TRACE_WRONG;
        qn_trace_chosen *at = one.ids ? QN_TRACE_MORE(&t->chosen) : NULL;
        if (!at) return QN_TRACE_NOMEM;
        *at = one;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static int by_place(const void *a, const void *b)
{
    const qn_trace_chosen *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_id(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Records first .. end of one step and node, one behind the other. */
static bool join(qn_trace *t, size_t first, size_t end, qn_trace_choice *out)
{
    const qn_trace_chosen *at = t->chosen.at;
    int64_t n = 0;
    for (size_t i = first; i < end; i++) n += at[i].n;
    if (n > INT32_MAX / 2) n = 0;
    int32_t *ids = qn__arena_array(&t->arena, (size_t)n + 1, sizeof(*ids)), *sorted = qn__alloc(((size_t)n + 1) * 4);
    *out = (qn_trace_choice){.node = at[first].node, .n_ids = (int32_t)n, .ids = ids};
    if (ids && sorted && n > 0) {
        int64_t to = 0;
        for (size_t i = first; i < end; to += at[i++].n) memcpy(ids + to, at[i].ids, (size_t)at[i].n * sizeof(*ids));
        memcpy(sorted, ids, (size_t)n * sizeof(*ids));
        qsort(sorted, (size_t)n, sizeof(*ids), by_id);
        out->n_distinct = 1;
        for (int64_t i = 1; i < n; i++) out->n_distinct += sorted[i] != sorted[i - 1];
    }
    const bool ok = ids && sorted;
    qn__free(sorted);
    return ok;
}

bool qn__trace_settle_choices(qn_trace *t)
{
    const size_t n = t->chosen.n;
    size_t step = 0, n_choices = 0;
    if (n == 0) return true;
    qsort(t->chosen.at, n, sizeof t->chosen.at[0], by_place);
    t->choices = qn__calloc(n, sizeof *t->choices);
    if (!t->choices) return false;
    for (size_t i = 0, end; i < n; i = end) {
        const qn_trace_chosen *one = &t->chosen.at[i];
        for (end = i + 1; end < n && t->chosen.at[end].step == one->step && t->chosen.at[end].node == one->node;
             end++) {}
        while (step < t->steps.n && t->steps.at[step].number < one->step) step++;
        if (step == t->steps.n) break;
        qn_trace_step *s = &t->steps.at[step];
        if (s->number != one->step) continue;
        if (!join(t, i, end, &t->choices[n_choices])) return false;
        if (s->n_choices++ == 0) s->choices = &t->choices[n_choices];
        n_choices++;
    }
    return true;
}

double qn__trace_experts(const qn_trace_node *node, const qn_trace_step *step)
{
    const qn_trace_node_cost *c = &node->cost;
    const int32_t ids = node->n_src > 2 ? step->plan->nodes[node->src[2]].root : -1;
    for (int32_t i = 0; i < step->n_choices; i++)
        if (step->choices[i].node == ids) return step->choices[i].n_distinct;
    return c->n_experts * (1 - pow(1 - 1.0 / c->n_experts, c->n_used));
}
