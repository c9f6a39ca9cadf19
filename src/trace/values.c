/* SPDX-License-Identifier: MIT */
/* src/trace/values.c -- what a trace has of values: the gates of experts, hashes of rows, and what rows were like. */
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

/* Step, node and count of a record whose elements take at least so many bytes each; there is one at least, so that what
 * is kept of a record is bounded by its bytes. */
static bool read_head(qn_trace_cursor *c, size_t each, uint64_t *step, int32_t *node, int32_t *n)
{
    *step = qn__trace_get(c);
    *node = (int32_t)qn__trace_get_up_to(c, INT32_MAX);
    const uint64_t count = qn__trace_get_up_to(c, (uint64_t)(c->end - c->p) / each);
    if (count < 1 || count > INT32_MAX) c->failed = true;
    *n = c->failed ? 0 : (int32_t)count;
    return !c->failed;
}

/* n elements as they stand; NULL: no memory, or they are not there. */
static const void *read_array(qn_trace *t, qn_trace_cursor *c, int32_t n, size_t size)
{
    const size_t bytes = (size_t)n * size;
    if (c->failed || (size_t)(c->end - c->p) < bytes) {
        c->failed = true;
        return NULL;
    }
    void *to = qn__arena_array(&t->arena, (size_t)n + 1, size);
    if (!to) return NULL;
    memcpy(to, c->p, bytes);
    c->p += bytes;
    return to;
}

qn_trace_found qn__trace_read_gates(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_gated one = {.order = t->gated.n};
        if (!read_head(c, sizeof(float), &one.step, &one.node, &one.n)) return QN_TRACE_WRONG;
        one.gates = read_array(t, c, one.n, sizeof(float));
        if (c->failed) return QN_TRACE_WRONG;
        qn_trace_gated *at = one.gates ? QN_TRACE_MORE(&t->gated) : NULL;
        if (!at) return QN_TRACE_NOMEM;
        *at = one;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

qn_trace_found qn__trace_read_hashes(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_hashed one = {.order = t->hashed.n};
        qn_trace_hashes *h = &one.what;
        if (!read_head(c, 1 + sizeof(uint64_t), &one.step, &h->node, &h->n)) return QN_TRACE_WRONG;
        h->items = qn__trace_read_column(t, c, h->n);
        if (!h->items) return QN_TRACE_NOMEM;
        h->hash = read_array(t, c, h->n, sizeof(uint64_t));
        if (c->failed) return QN_TRACE_WRONG;
        qn_trace_hashed *at = h->hash ? QN_TRACE_MORE(&t->hashed) : NULL;
        if (!at) return QN_TRACE_NOMEM;
        *at = one;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

/* Four F32 and four of 32 bits, little endian. */
enum { VALUE_BYTES = 32 };

static bool read_value(qn_trace_cursor *c, int64_t *item, qn_trace_value *out)
{
    float sums[4];
    uint32_t counts[4];
    if (__builtin_add_overflow(*item, qn__trace_get_signed(c), item)) c->failed = true;
    if (c->failed || *item < -1 || *item > INT32_MAX || c->end - c->p < VALUE_BYTES) return false;
    memcpy(sums, c->p, sizeof sums);
    memcpy(counts, c->p + sizeof sums, sizeof counts);
    c->p += VALUE_BYTES;
    *out = (qn_trace_value){(int32_t)*item, sums[0],   sums[1],   sums[2],           sums[3],
                            counts[0],      counts[1], counts[2], (int32_t)counts[3]};
    return true;
}

qn_trace_found qn__trace_read_values(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_valued one = {.step = qn__trace_get(c), .order = t->valued.n};
        qn_trace_values *v = &one.what;
        v->node = (int32_t)qn__trace_get_up_to(c, INT32_MAX);
        v->size = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
        v->n = (int32_t)qn__trace_get_up_to(c, (uint64_t)(c->end - c->p) / (1 + VALUE_BYTES));
        if (c->failed || v->n < 1) return QN_TRACE_WRONG;
        qn_trace_value *rows = qn__arena_array(&t->arena, (size_t)v->n, sizeof *rows);
        if (!rows) return QN_TRACE_NOMEM;
        int64_t item = 0;
        for (int32_t k = 0; k < v->n; k++)
            if (!read_value(c, &item, &rows[k])) return QN_TRACE_WRONG;
        v->rows = rows;
        qn_trace_valued *at = QN_TRACE_MORE(&t->valued);
        if (!at) return QN_TRACE_NOMEM;
        *at = one;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

/* ---- to whom they belong ---- */

static int by_place(const void *a, const void *b)
{
    const qn_trace_gated *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_step(const void *a, const void *b)
{
    const qn_trace_hashed *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

static qn_trace_choice *choice_of(qn_trace *t, uint64_t number, int32_t node)
{
    const qn_trace_step *step = qn__trace_find_step(t, number);
    for (int32_t i = 0; step && i < step->n_choices; i++)
        if (step->choices[i].node == node) return &t->choices[step->choices - t->choices + i];
    return NULL;
}

/* Records first .. end are of one choice, unless some of them or of the ids were lost. */
static bool join(qn_trace *t, size_t first, size_t end)
{
    int64_t n = 0;
    const qn_trace_gated *at = t->gated.at;
    qn_trace_choice *choice = choice_of(t, at[first].step, at[first].node);
    for (size_t i = first; i < end; i++) n += at[i].n;
    if (!choice || choice->n_ids != n) return true;
    float *gates = qn__arena_array(&t->arena, (size_t)n + 1, sizeof(*gates));
    if (!gates) return false;
    choice->gates = gates;
    for (size_t i = first; i < end; gates += at[i++].n) memcpy(gates, at[i].gates, (size_t)at[i].n * sizeof(*gates));
    return true;
}

static bool settle_gates(qn_trace *t)
{
    if (t->gated.n == 0) return true;
    qsort(t->gated.at, t->gated.n, sizeof t->gated.at[0], by_place);
    for (size_t i = 0, end; i < t->gated.n; i = end) {
        const qn_trace_gated *one = &t->gated.at[i];
        for (end = i + 1; end < t->gated.n && t->gated.at[end].step == one->step && t->gated.at[end].node == one->node;
             end++) {}
        if (!join(t, i, end)) return false;
    }
    return true;
}

static bool settle_hashes(qn_trace *t)
{
    const size_t n = t->hashed.n;
    size_t n_hashes = 0;
    if (n == 0) return true;
    qsort(t->hashed.at, n, sizeof t->hashed.at[0], by_step);
    t->hashes = qn__calloc(n, sizeof *t->hashes);
    if (!t->hashes) return false;
    for (size_t i = 0, step = 0; i < n; i++) {
        const qn_trace_hashed *one = &t->hashed.at[i];
        while (step < t->steps.n && t->steps.at[step].number < one->step) step++;
        if (step == t->steps.n) break;
        qn_trace_step *s = &t->steps.at[step];
        if (s->number != one->step || one->what.node >= s->plan->n_nodes) continue;
        if (s->n_hashes++ == 0) s->hashes = &t->hashes[n_hashes];
        t->hashes[n_hashes++] = one->what;
    }
    return true;
}

static int by_step_too(const void *a, const void *b)
{
    const qn_trace_valued *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return (x->order > y->order) - (x->order < y->order);
}

/* Rows that say they are of a token that the step has not are nobody's. */
static bool fits(const qn_trace_step *s, const qn_trace_values *v)
{
    if (v->node >= s->plan->n_nodes) return false;
    for (int32_t i = 0; i < v->n; i++)
        if (v->rows[i].item >= s->n_tokens) return false;
    return true;
}

static bool settle_rows(qn_trace *t)
{
    const size_t n = t->valued.n;
    size_t n_values = 0;
    if (n == 0) return true;
    qsort(t->valued.at, n, sizeof t->valued.at[0], by_step_too);
    t->values = qn__calloc(n, sizeof *t->values);
    if (!t->values) return false;
    for (size_t i = 0; i < n; i++) {
        const qn_trace_valued *one = &t->valued.at[i];
        qn_trace_step *s = (qn_trace_step *)(uintptr_t)qn__trace_find_step(t, one->step);
        if (!s || !fits(s, &one->what)) continue;
        if (s->n_values++ == 0) s->values = &t->values[n_values];
        t->values[n_values++] = one->what;
    }
    return true;
}

bool qn__trace_settle_values(qn_trace *t) { return settle_gates(t) && settle_hashes(t) && settle_rows(t); }
