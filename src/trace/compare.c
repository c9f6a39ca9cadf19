/* SPDX-License-Identifier: MIT */
/* src/trace/compare.c -- the first value that differs between two recordings, by the hashes of rows. */
#include "base/error.h"
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *name;
    int32_t seq, pos; /* -1: the whole value */
    size_t order;     /* in which it was computed */
    uint64_t hash;
    const qn_trace_step *step;
    const qn_trace_node *node;
    int32_t item;
} row;
typedef struct rows {
    row *at;
    size_t n;
} rows;

static int by_place(const row *x, const row *y)
{
    const int name = strcmp(x->name, y->name);
    if (name) return name;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    return (x->pos > y->pos) - (x->pos < y->pos);
}

static int by_place_and_order(const void *a, const void *b)
{
    const row *x = a, *y = b;
    const int place = by_place(x, y);
    return place ? place : (x->order > y->order) - (x->order < y->order);
}

static void add(rows *r, const qn_trace_step *step, const qn_trace_hashes *h)
{
    for (int32_t i = 0; i < h->n; i++) {
        const int32_t item = h->items[i];
        if (item >= step->n_tokens) continue;
        const bool whole = item < 0;
        r->at[r->n] = (row){.name = step->plan->nodes[h->node].name,
                            .seq = whole || !step->seq ? -1 : step->seq[item],
                            .pos = whole ? -1 : step->pos[item],
                            .order = r->n,
                            .hash = h->hash[i],
                            .step = step,
                            .node = &step->plan->nodes[h->node],
                            .item = whole ? -1 : item};
        r->n++;
    }
}

/* In the order of places. false: no memory. */
static bool collect(const qn_trace *t, rows *r)
{
    const qn_trace_info info = t->info;
    size_t n = 0;
    for (int64_t s = 0; s < info.n_steps; s++)
        for (int32_t i = 0; i < info.steps[s].n_hashes; i++) n += (size_t)info.steps[s].hashes[i].n;
    *r = (rows){.at = qn__calloc(n + 1, sizeof *r->at)};
    if (!r->at) return false;
    for (int64_t s = 0; s < info.n_steps; s++)
        for (int32_t i = 0; i < info.steps[s].n_hashes; i++) add(r, &info.steps[s], &info.steps[s].hashes[i]);
    if (r->n) qsort(r->at, r->n, sizeof *r->at, by_place_and_order);
    return true;
}

static qn_trace_difference compare(const rows *a, const rows *b)
{
    qn_trace_difference d = {0};
    const row *first = NULL;
    size_t i = 0, k = 0;
    while (i < a->n && k < b->n) {
        const int place = by_place(&a->at[i], &b->at[k]);
        if (place) {
            d.alone++;
            if (place < 0)
                i++;
            else
                k++;
            continue;
        }
        const row *one = &a->at[i++];
        d.compared++;
        if (one->hash == b->at[k++].hash) continue;
        d.differ++;
        if (!first || one->order < first->order) first = one;
    }
    d.alone += a->n - i + b->n - k;
    if (!first) return d;
    d.step = first->step;
    d.node = first->node;
    d.item = first->item;
    return d;
}

qn_status qn_trace_compare_values(const qn_trace *a, const qn_trace *b, qn_trace_difference *out, qn_error *err)
{
    rows r[2] = {{0}};
    const bool ok = collect(a, &r[0]) && collect(b, &r[1]);
    if (ok) *out = compare(&r[0], &r[1]);
    for (int i = 0; i < 2; i++) qn__free(r[i].at);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory for the hashes of two traces");
}
