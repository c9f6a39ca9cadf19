/* SPDX-License-Identifier: MIT */
/* src/trace/kernel.c -- reading what the kernel said while it was recorded: samples of faults and lost cores, what of
 * files was in memory, and counts at the ends of steps. */
#include "base/resident.h"
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

/* The lane's number, until lanes stand where they stay. */
static const qn_trace_lane *number_as_lane(uint32_t id) { return (const qn_trace_lane *)(uintptr_t)(id + UINT64_C(1)); }

/* Adds a difference; what leaves 63 bits is wrong. */
static int64_t add(qn_trace_cursor *c, int64_t last)
{
    int64_t sum;
    if (__builtin_add_overflow(last, qn__trace_get_signed(c), &sum) || sum < 0) c->failed = true;
    return c->failed ? 0 : sum;
}

static qn_trace_found read_fault(qn_trace *t, qn_trace_cursor *c, qn_trace_fault f, int64_t *offset)
{
    f.file = (int32_t)qn__trace_get_up_to(c, INT32_MAX) - 1;
    if (f.file >= 0) *offset = add(c, *offset);
    if (c->failed) return QN_TRACE_WRONG;
    if (f.file >= 0) f.offset = (uint64_t)*offset;
    qn_trace_fault *at = QN_TRACE_MORE(&t->faults);
    if (!at) return QN_TRACE_NOMEM;
    *at = f;
    return QN_TRACE_GOOD;
}

qn_trace_found qn__trace_read_samples_block(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    int64_t ns = 0, offset = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const uint32_t lane = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
        ns = add(c, ns);
        const int kind = (int)qn__trace_get_up_to(c, QN_TRACE_ROW_KINDS - 1);
        const int64_t took = (int64_t)qn__trace_get_up_to(c, INT64_MAX) - 1;
        if (c->failed || took > INT64_MAX - ns) return QN_TRACE_WRONG;
        if (kind == QN_TRACE_ROW_lost) {
            t->info.samples_lost += qn__trace_get(c);
        } else if (kind == QN_TRACE_ROW_preempted) {
            qn_trace_pause *at = QN_TRACE_MORE(&t->pauses);
            if (!at) return QN_TRACE_NOMEM;
            *at = (qn_trace_pause){number_as_lane(lane), ns, took < 0 ? 0 : took};
        } else {
            const qn_trace_found found =
                read_fault(t, c, (qn_trace_fault){number_as_lane(lane), ns, took, -1, kind == QN_TRACE_ROW_major, 0},
                           &offset);
            if (found != QN_TRACE_GOOD) return found;
        }
    }
    return c->p == c->end && !c->failed ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static void note_residency(qn_trace *t, int32_t file, int how)
{
    for (size_t i = 0; i < t->files.n; i++)
        if (t->files.at[i].id == file) t->files.at[i].residency = qn__residency_name(how);
}

qn_trace_found qn__trace_read_residency(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_residency r = {.at_ns = (int64_t)qn__trace_get_up_to(c, INT64_MAX)};
        r.file = (int32_t)qn__trace_get_up_to(c, INT32_MAX);
        const int how = (int)qn__trace_get_up_to(c, QN_RESIDENCY_mincore);
        r.page = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
        r.unit = qn__trace_get_up_to(c, UINT32_MAX);
        r.first = qn__trace_get_up_to(c, UINT32_MAX);
        r.n = (uint32_t)qn__trace_get_up_to(c, (uint64_t)(c->end - c->p));
        if (c->failed) return QN_TRACE_WRONG;
        uint32_t *pages = qn__arena_array(&t->arena, (size_t)r.n + 1, sizeof(*pages));
        if (!pages) return QN_TRACE_NOMEM;
        int64_t last = 0;
        for (uint32_t k = 0; k < r.n; k++) {
            last = add(c, last);
            if (c->failed || last > UINT32_MAX) return QN_TRACE_WRONG;
            pages[k] = (uint32_t)last;
        }
        r.pages = pages;
        note_residency(t, r.file, how);
        if (r.n == 0) continue;
        qn_trace_residency *at = QN_TRACE_MORE(&t->residency);
        if (!at) return QN_TRACE_NOMEM;
        *at = r;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

qn_trace_found qn__trace_read_counts(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_reading r = {.step = qn__trace_get(c), .at_ns = (int64_t)qn__trace_get_up_to(c, INT64_MAX)};
        int64_t *const to[] = {&r.c.minor_faults, &r.c.major_faults, &r.c.waits, &r.c.preemptions, &r.c.read_bytes};
        for (size_t k = 0; k < sizeof to / sizeof to[0]; k++) *to[k] = qn__trace_get_signed(c);
        if (c->failed) return QN_TRACE_WRONG;
        qn_trace_reading *at = QN_TRACE_MORE(&t->readings);
        if (!at) return QN_TRACE_NOMEM;
        *at = r;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

/* ---- when all are there ---- */

static int by_fault_time(const void *a, const void *b)
{
    const qn_trace_fault *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_pause_time(const void *a, const void *b)
{
    const int64_t x = ((const qn_trace_pause *)a)->at_ns, y = ((const qn_trace_pause *)b)->at_ns;
    return (x > y) - (x < y);
}

static int by_residency_time(const void *a, const void *b)
{
    const qn_trace_residency *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

static int by_reading_time(const void *a, const void *b)
{
    const qn_trace_reading *x = a, *y = b;
    if (x->at_ns != y->at_ns) return x->at_ns < y->at_ns ? -1 : 1;
    return (x->step > y->step) - (x->step < y->step);
}

static const qn_trace_lane *lane_of(const qn_trace *t, const qn_trace_lane *number)
{
    const uint32_t id = (uint32_t)((uintptr_t)number - 1);
    size_t lo = 0, hi = t->lanes.n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (t->lanes.at[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < t->lanes.n && t->lanes.at[lo].id == id ? &t->lanes.at[lo] : NULL;
}

static int64_t more_than(int64_t now, int64_t before)
{
    return now < 0 || before < 0 || now < before ? -1 : now - before;
}

/* Between two readings that have one step's end between them: that step's. */
static void settle_step(qn_trace *t, const qn_trace_reading *before, const qn_trace_reading *r)
{
    qn_trace_step *s = (qn_trace_step *)(uintptr_t)qn__trace_find_step(t, r->step);
    if (!s || (before->step != 0 && before->step + 1 != r->step) ||
        (before->step == 0 && before->at_ns > s->begin_ns + 1000))
        return;
    const int64_t minor = more_than(r->c.minor_faults, before->c.minor_faults),
                  major = more_than(r->c.major_faults, before->c.major_faults);
    s->read_bytes = more_than(r->c.read_bytes, before->c.read_bytes);
    s->preemptions = more_than(r->c.preemptions, before->c.preemptions);
    s->faults = minor < 0 || major < 0 || minor > INT64_MAX - major ? -1 : minor + major;
}

static void settle_readings(qn_trace *t)
{
    const size_t n = t->readings.n;
    qn_trace_reading *r = t->readings.at;
    t->info.read_bytes = -1;
    for (size_t i = 0; i < t->steps.n; i++)
        t->steps.at[i].read_bytes = t->steps.at[i].faults = t->steps.at[i].preemptions = -1;
    for (size_t i = 0; i < n; i++) r[i].at_ns = qn__trace_to_ns(t, (uint64_t)r[i].at_ns);
    if (n) qsort(r, n, sizeof *r, by_reading_time);
    for (size_t i = 1; i < n; i++)
        if (r[i].step != 0) settle_step(t, &r[i - 1], &r[i]);
    if (t->usage.n > 1)
        t->info.read_bytes = more_than(t->usage.at[t->usage.n - 1].read_bytes, t->usage.at[0].read_bytes);
}

void qn__trace_settle_kernel(qn_trace *t)
{
    qn_trace_info *info = &t->info;
    for (size_t i = 0; i < t->faults.n; i++) {
        qn_trace_fault *f = &t->faults.at[i];
        f->at_ns -= t->start_ns;
        f->lane = lane_of(t, f->lane);
    }
    for (size_t i = 0; i < t->pauses.n; i++) {
        qn_trace_pause *p = &t->pauses.at[i];
        p->at_ns -= t->start_ns;
        p->lane = lane_of(t, p->lane);
    }
    for (size_t i = 0; i < t->residency.n; i++) t->residency.at[i].at_ns -= t->start_ns;
    if (t->faults.n) qsort(t->faults.at, t->faults.n, sizeof t->faults.at[0], by_fault_time);
    if (t->pauses.n) qsort(t->pauses.at, t->pauses.n, sizeof t->pauses.at[0], by_pause_time);
    if (t->residency.n) qsort(t->residency.at, t->residency.n, sizeof t->residency.at[0], by_residency_time);
    settle_readings(t);
    const char *how = qn_trace_find_note(t, "faults");
    info->sampled = how && strncmp(how, "sampled", 7) == 0;
    info->faults = t->faults.at;
    info->pauses = t->pauses.at;
    info->residency = t->residency.at;
    info->n_faults = (int64_t)t->faults.n;
    info->n_pauses = (int64_t)t->pauses.n;
    info->n_residency = (int64_t)t->residency.n;
}
