/* SPDX-License-Identifier: MIT */
/* src/cli/trace_losses.c -- time of threads that compute which went into page faults, or while others had their core:
 * of any stretch of a thread's time, how much. Stretches of a thread never overlap; what was lost while a page came is
 * paging. */
#include "cli/trace.h"
#include <stdlib.h>

struct trace_loss {
    int64_t begin, end;
    trace_loss_kind kind;
    double before[TRACE_LOSSES]; /* lost up to `begin` */
};

struct trace_loss_lane {
    trace_loss *at;
    size_t n, cap;
};

static bool add(trace_loss_lane *l, int64_t begin, int64_t end, trace_loss_kind kind)
{
    if (end <= begin) return true;
    if (l->n == l->cap) {
        const size_t cap = l->cap ? l->cap * 2 : 64;
        trace_loss *at = realloc(l->at, cap * sizeof *at);
        if (!at) return false;
        l->at = at;
        l->cap = cap;
    }
    l->at[l->n++] = (trace_loss){.begin = begin, .end = end, .kind = kind};
    return true;
}

static trace_loss_lane *lane_of(const trace_losses *x, const qn_trace_lane *lane)
{
    return lane ? &x->lanes[lane - x->first] : NULL;
}

/* Faults come in order of time, so do pauses: a second list behind the first. */
static bool add_pauses(const trace_losses *x, const qn_trace_info *info, size_t *n_faults)
{
    size_t *next = calloc((size_t)x->n + 1, sizeof *next);
    bool ok = next != NULL;
    for (int64_t i = 0; ok && i < info->n_pauses; i++) {
        const qn_trace_pause *p = &info->pauses[i];
        trace_loss_lane *l = lane_of(x, p->lane);
        if (!l) continue;
        size_t *k = &next[l - x->lanes];
        int64_t from = p->at_ns;
        const int64_t end = p->at_ns + p->ns;
        while (*k < n_faults[l - x->lanes] && l->at[*k].end <= from) ++*k;
        for (size_t j = *k; ok && j < n_faults[l - x->lanes] && l->at[j].begin < end; j++) {
            const trace_loss fault = l->at[j];
            ok = add(l, from, fault.begin, TRACE_LOSS_core);
            from = fault.end;
        }
        ok = ok && add(l, from, end, TRACE_LOSS_core);
    }
    free(next);
    return ok;
}

static int by_begin(const void *a, const void *b)
{
    const trace_loss *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void sum_up(trace_loss_lane *l)
{
    double sum[TRACE_LOSSES] = {0};
    int64_t end = INT64_MIN;
    if (l->n) qsort(l->at, l->n, sizeof *l->at, by_begin);
    for (size_t i = 0; i < l->n; i++) {
        trace_loss *x = &l->at[i];
        if (x->begin < end) x->begin = end < x->end ? end : x->end;
        if (x->end > end) end = x->end;
        for (int k = 0; k < TRACE_LOSSES; k++) x->before[k] = sum[k];
        sum[x->kind] += (double)(x->end - x->begin);
    }
}

bool trace_losses_init(const qn_trace_info *info, trace_losses *out)
{
    *out = (trace_losses){.first = info->lanes, .n = info->n_lanes};
    out->lanes = calloc((size_t)out->n + 1, sizeof *out->lanes);
    size_t *n_faults = calloc((size_t)out->n + 1, sizeof *n_faults);
    bool ok = out->lanes && n_faults;
    for (int64_t i = 0; ok && i < info->n_faults; i++) {
        const qn_trace_fault *f = &info->faults[i];
        trace_loss_lane *l = lane_of(out, f->lane);
        if (!l || f->ns <= 0) continue;
        const int64_t last = l->n ? l->at[l->n - 1].end : INT64_MIN;
        ok = add(l, f->at_ns > last ? f->at_ns : last, f->at_ns + f->ns, TRACE_LOSS_paging);
        n_faults[l - out->lanes] = l->n;
    }
    ok = ok && add_pauses(out, info, n_faults);
    free(n_faults);
    for (int i = 0; ok && i < out->n; i++) sum_up(&out->lanes[i]);
    if (!ok) trace_losses_deinit(out);
    return ok;
}

void trace_losses_deinit(trace_losses *x)
{
    for (int i = 0; x->lanes && i < x->n; i++) free(x->lanes[i].at);
    free(x->lanes);
    x->lanes = NULL;
}

/* What was lost before `ns`. */
static void lost_before(const trace_loss_lane *l, int64_t ns, double *lost)
{
    size_t lo = 0, hi = l->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (l->at[mid].begin < ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (int k = 0; k < TRACE_LOSSES; k++) lost[k] = lo > 0 ? l->at[lo - 1].before[k] : 0;
    if (lo == 0) return;
    const trace_loss *x = &l->at[lo - 1];
    lost[x->kind] += (double)((ns < x->end ? ns : x->end) - x->begin);
}

void trace_losses_in(const trace_losses *x, const qn_trace_lane *lane, int64_t begin, int64_t end, double *lost)
{
    double before[TRACE_LOSSES];
    const trace_loss_lane *l = lane_of(x, lane);
    lost_before(l, end, lost);
    lost_before(l, begin, before);
    for (int k = 0; k < TRACE_LOSSES; k++) lost[k] = end > begin ? lost[k] - before[k] : 0;
}
