/* SPDX-License-Identifier: MIT */
/* src/trace/looks.c -- what of files was in memory, look by look, summed up by tensor and by parts of a file. */
#include "base/error.h"
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

#define SWEEP_NS  INT64_C(50000000)
#define MAX_UNITS ((uint64_t)1 << 14) /* of a file that are believed: four thousand are written */

/* ---- the state of a file ---- */

const qn_trace_residency *const *qn__trace_looks_of(const qn_trace *t, int32_t file, size_t *n)
{
    size_t lo = 0, hi = t->looks.n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (t->looks.at[mid]->file < file)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (*n = 0; lo + *n < t->looks.n && t->looks.at[lo + *n]->file == file;) ++*n;
    return t->looks.n ? t->looks.at + lo : NULL;
}

bool qn__trace_state_init(const qn_trace *t, int32_t file, qn_trace_state *out)
{
    size_t n;
    const qn_trace_residency *const *looks = qn__trace_looks_of(t, file, &n);
    *out = (qn_trace_state){.file = file};
    for (size_t i = 0; i < n; i++) {
        const qn_trace_residency *r = looks[i];
        if (r->unit == 0) continue;
        if (out->unit == 0) {
            out->unit = r->unit;
            out->page = r->page;
        }
        if (r->unit == out->unit && r->first + r->n > out->n_units) out->n_units = r->first + r->n;
    }
    if (out->n_units > MAX_UNITS) out->n_units = MAX_UNITS;
    out->pages = qn__calloc((size_t)out->n_units + 1, sizeof *out->pages);
    out->seen = qn__calloc((size_t)out->n_units + 1, 1);
    if (out->pages && out->seen) return true;
    qn__trace_state_deinit(out);
    return false;
}

void qn__trace_state_deinit(qn_trace_state *s)
{
    qn__free(s->pages);
    qn__free(s->seen);
    s->pages = NULL;
    s->seen = NULL;
}

void qn__trace_state_put(qn_trace_state *s, const qn_trace_residency *r)
{
    if (r->file != s->file || r->unit != s->unit || r->first >= s->n_units) return;
    const uint64_t n = r->n < s->n_units - r->first ? r->n : s->n_units - r->first;
    memcpy(s->pages + r->first, r->pages, (size_t)n * sizeof *s->pages);
    memset(s->seen + r->first, 1, (size_t)n);
}

static const qn_trace_file *find_file(const qn_trace *t, int32_t id)
{
    for (size_t i = 0; i < t->files.n; i++)
        if (t->files.at[i].id == id) return &t->files.at[i];
    return NULL;
}

bool qn__trace_state_sum(const qn_trace *t, const qn_trace_state *s, uint64_t begin, uint64_t end, double *resident,
                         double *unused)
{
    const qn_trace_file *f = find_file(t, s->file);
    *resident = *unused = 0;
    if (!f || s->unit == 0) return false;
    if (end > f->bytes) end = f->bytes;
    for (uint64_t at = begin; at < end;) {
        const uint64_t i = at / s->unit, from = i * s->unit;
        if (i >= s->n_units || !s->seen[i]) return false;
        const uint64_t to = f->bytes - from < s->unit ? f->bytes : from + s->unit, stop = to < end ? to : end;
        const double there = (double)s->pages[i] * s->page,
                     share = there < (double)(to - from) ? there / (double)(to - from) : 1;
        *resident += share * (double)(stop - at);
        *unused += share * (double)qn__trace_untouched(t, s->file, at, stop);
        at = stop;
    }
    return true;
}

/* ---- tensors ---- */

static int by_place(const void *a, const void *b)
{
    const qn_trace_extent *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes); /* the larger first */
}

/* Which begins at or before this offset, last. */
static qn_trace_extent *extent_at(const qn_trace *t, int32_t file, uint64_t offset)
{
    size_t lo = 0, hi = t->extents.n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const qn_trace_extent *x = &t->extents.at[mid];
        if (x->file < file || (x->file == file && x->offset <= offset))
            lo = mid + 1;
        else
            hi = mid;
    }
    qn_trace_extent *x = lo > 0 ? &t->extents.at[lo - 1] : NULL;
    return x && x->file == file && offset - x->offset < x->bytes ? x : NULL;
}

/* Parameters of all plans that lie in files, each once. */
static bool gather(qn_trace *t)
{
    for (size_t p = 0; p < t->plans.n; p++) {
        const qn_trace_plan *plan = t->plans.at[p];
        for (int32_t i = 0; i < plan->n_nodes; i++) {
            const qn_trace_node *n = &plan->nodes[i];
            if (n->space != QN_TRACE_FILE || n->file < 0 || n->root != n->id || n->bytes == 0 || (n->flags & 2))
                continue;
            if (n->offset > UINT64_MAX - n->bytes) continue;
            qn_trace_extent *x = QN_TRACE_MORE(&t->extents);
            if (!x) return false;
            *x = (qn_trace_extent){.weight = n, .file = n->file, .order = -1, .offset = n->offset, .bytes = n->bytes};
        }
    }
    if (t->extents.n) qsort(t->extents.at, t->extents.n, sizeof t->extents.at[0], by_place);
    size_t n = 0;
    for (size_t i = 0; i < t->extents.n; i++) {
        const qn_trace_extent *x = &t->extents.at[i], *last = n ? &t->extents.at[n - 1] : NULL;
        if (last && last->file == x->file && x->offset - last->offset < last->bytes) continue;
        t->extents.at[n++] = *x;
    }
    t->extents.n = n;
    return true;
}

typedef struct summing {
    qn_trace *t;
    int32_t next; /* order of use */
} summing;

static bool sum_touch(void *ctx, const qn_trace_touch *touch)
{
    summing *s = ctx;
    qn_trace_extent *x = extent_at(s->t, touch->file, touch->offset);
    if (!x) return true;
    if (x->order < 0) x->order = s->next++;
    x->touched += touch->touched;
    return true;
}

static bool sum_looks(qn_trace *t)
{
    int32_t file = -1;
    qn_trace_state state = {.file = -1};
    double resident, unused;
    for (size_t i = 0; i < t->extents.n; i++) {
        qn_trace_extent *x = &t->extents.at[i];
        if (x->file != file) {
            qn__trace_state_deinit(&state);
            if (!qn__trace_state_init(t, x->file, &state)) return false;
            size_t n_looks;
            const qn_trace_residency *const *looks = qn__trace_looks_of(t, x->file, &n_looks);
            for (size_t k = 0; k < n_looks; k++) qn__trace_state_put(&state, looks[k]);
            file = x->file;
        }
        const bool known = qn__trace_state_sum(t, &state, x->offset, x->offset + x->bytes, &resident, &unused);
        x->resident = known ? (int64_t)resident : -1;
        x->unused = known ? (int64_t)unused : -1;
        x->grown = known ? 0 : -1;
    }
    qn__trace_state_deinit(&state);
    return true;
}

/* Of a unit that has more pages than at the look before: shared out over the tensors in it. */
static void grow_unit(qn_trace *t, int32_t file, uint64_t begin, uint64_t end, double bytes)
{
    for (uint64_t at = begin; at < end;) {
        qn_trace_extent *x = extent_at(t, file, at);
        uint64_t stop = end;
        if (x && x->offset + x->bytes < end) stop = x->offset + x->bytes;
        if (!x) { /* up to the next tensor */
            size_t lo = 0;
            for (size_t hi = t->extents.n; lo < hi;) {
                const size_t mid = lo + (hi - lo) / 2;
                const qn_trace_extent *m = &t->extents.at[mid];
                if (m->file < file || (m->file == file && m->offset <= at))
                    lo = mid + 1;
                else
                    hi = mid;
            }
            if (lo < t->extents.n && t->extents.at[lo].file == file && t->extents.at[lo].offset < end)
                stop = t->extents.at[lo].offset;
        }
        if (x && x->grown >= 0) x->grown += (int64_t)(bytes * (double)(stop - at) / (double)(end - begin));
        at = stop;
    }
}

static bool sum_growth(qn_trace *t)
{
    for (size_t f = 0; f < t->files.n; f++) {
        qn_trace_state s;
        size_t n;
        const qn_trace_file *file = &t->files.at[f];
        const qn_trace_residency *const *looks = qn__trace_looks_of(t, file->id, &n);
        if (n == 0) continue;
        if (!qn__trace_state_init(t, file->id, &s)) return false;
        for (size_t k = 0; k < n; k++) {
            for (uint32_t i = 0; looks[k]->unit == s.unit && i < looks[k]->n && looks[k]->first + i < s.n_units; i++) {
                const uint64_t u = looks[k]->first + i, begin = u * s.unit;
                const uint32_t now = looks[k]->pages[i];
                if (!s.seen[u] || now <= s.pages[u] || begin >= file->bytes) continue;
                const uint64_t end = file->bytes - begin < s.unit ? file->bytes : begin + s.unit;
                grow_unit(t, file->id, begin, end, (double)(now - s.pages[u]) * s.page);
            }
            qn__trace_state_put(&s, looks[k]);
        }
        qn__trace_state_deinit(&s);
    }
    return true;
}

static bool find_extents(qn_trace *t)
{
    summing s = {t, 0};
    t->extents.n = 0;
    if (!qn__trace_find_spans(t) || !gather(t)) return false;
    for (size_t i = 0; i < t->steps.n; i++) qn_trace_touches(&t->steps.at[i], sum_touch, &s);
    for (size_t i = 0; i < t->extents.n; i++) {
        qn_trace_extent *x = &t->extents.at[i];
        x->ever = x->bytes - qn__trace_untouched(t, x->file, x->offset, x->offset + x->bytes);
        x->faults = x->fault_ns = t->info.sampled ? 0 : -1;
    }
    for (size_t i = 0; t->info.sampled && i < t->faults.n; i++) {
        const qn_trace_fault *f = &t->faults.at[i];
        qn_trace_extent *x = f->file >= 0 ? extent_at(t, f->file, f->offset) : NULL;
        if (!x) continue;
        x->faults++;
        if (f->ns > 0 && x->fault_ns < INT64_MAX - f->ns) x->fault_ns += f->ns;
    }
    return sum_looks(t) && sum_growth(t);
}

qn_status qn_trace_get_extents(qn_trace *t, const qn_trace_extent **out, int64_t *n, qn_error *err)
{
    if (!t->has_extents && !find_extents(t)) return QN_FAIL(err, nomem, "out of memory for the tensors of a trace");
    t->has_extents = true;
    *out = t->extents.at;
    *n = (int64_t)t->extents.n;
    return QN_OK;
}

/* ---- parts of a file ---- */

typedef struct filling {
    int32_t file, n;
    uint64_t offset, bytes;
    qn_trace_cell *cells;
} filling;

static bool fill_touch(void *ctx, const qn_trace_touch *touch)
{
    const filling *f = ctx;
    const uint64_t begin = touch->offset > f->offset ? touch->offset : f->offset;
    const uint64_t end = touch->offset + touch->bytes;
    if (touch->file != f->file || end <= begin) return true;
    for (uint64_t i = (begin - f->offset) / f->bytes; i < (uint64_t)f->n; i++) {
        const uint64_t lo = f->offset + i * f->bytes, from = lo > begin ? lo : begin,
                       to = lo + f->bytes < end ? lo + f->bytes : end;
        if (from >= to) break;
        f->cells[i].touched += touch->touched * (double)(to - from) / (double)touch->bytes;
    }
    return true;
}

static void sum_cells(const qn_trace *t, const qn_trace_state *s, const filling *f, bool before)
{
    for (int32_t i = 0; i < f->n; i++) {
        qn_trace_cell *c = &f->cells[i];
        double resident, unused;
        const uint64_t at = f->offset + (uint64_t)i * f->bytes;
        const bool known = qn__trace_state_sum(t, s, at, at + f->bytes, &resident, &unused);
        if (before) {
            c->grown = known ? resident : -1;
            continue;
        }
        c->resident = known ? resident : -1;
        c->unused = known ? unused : -1;
    }
}

static void grow_cells(const qn_trace *t, const qn_trace_state *s, const filling *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        qn_trace_cell *c = &f->cells[i];
        double resident, unused;
        const uint64_t at = f->offset + (uint64_t)i * f->bytes;
        if (c->grown < 0 || !qn__trace_state_sum(t, s, at, at + f->bytes, &resident, &unused))
            c->grown = -1;
        else
            c->grown = resident > c->grown ? resident - c->grown : 0;
    }
}

/* The looks up to the steps' begin, up to their end, and the first one behind. */
static void fill_looks(const qn_trace *t, qn_trace_state *s, const filling *f, int64_t begin, int64_t end)
{
    size_t k = 0, n;
    const qn_trace_residency *const *looks = qn__trace_looks_of(t, f->file, &n);
    for (; k < n && looks[k]->at_ns <= begin; k++) qn__trace_state_put(s, looks[k]);
    sum_cells(t, s, f, true);
    for (; k < n && looks[k]->at_ns <= end; k++) qn__trace_state_put(s, looks[k]);
    sum_cells(t, s, f, false);
    const int64_t after = k < n ? looks[k]->at_ns : 0; /* one sweep, whose rows come together */
    for (; k < n && looks[k]->at_ns - after < SWEEP_NS; k++) qn__trace_state_put(s, looks[k]);
    grow_cells(t, s, f);
}

qn_status qn_trace_get_cells(qn_trace *t, int32_t file, uint64_t offset, uint64_t bytes, int32_t n_cells, int64_t first,
                             int64_t end, qn_trace_cell *out, qn_error *err)
{
    qn_trace_state s;
    filling f = {file, n_cells, offset, bytes, out};
    if (bytes == 0 || n_cells <= 0 || first < 0 || end <= first || end > t->info.n_steps ||
        bytes > (UINT64_MAX / 2) / (uint64_t)n_cells || offset > UINT64_MAX / 2)
        return QN_FAIL(err, invalid, "no such part of a file, or no such steps");
    if (!qn__trace_find_spans(t) || !qn__trace_state_init(t, file, &s))
        return QN_FAIL(err, nomem, "out of memory for the parts of a file");
    for (int32_t i = 0; i < n_cells; i++) out[i] = (qn_trace_cell){.faults = t->info.sampled ? 0 : -1};
    for (int64_t i = first; i < end; i++) qn_trace_touches(&t->steps.at[i], fill_touch, &f);
    const int64_t begin_ns = t->steps.at[first].begin_ns, last = t->steps.at[end - 1].ns,
                  end_ns = t->steps.at[end - 1].begin_ns + (last > 0 ? last : 0);
    fill_looks(t, &s, &f, begin_ns, end_ns);
    qn__trace_state_deinit(&s);
    for (size_t i = 0; t->info.sampled && i < t->faults.n; i++) {
        const qn_trace_fault *x = &t->faults.at[i];
        if (x->file != file || x->at_ns < begin_ns || x->at_ns > end_ns || x->offset < offset) continue;
        if ((x->offset - offset) / bytes < (uint64_t)n_cells) out[(x->offset - offset) / bytes].faults++;
    }
    return QN_OK;
}
