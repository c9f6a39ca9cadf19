/* SPDX-License-Identifier: MIT */
/* src/trace/bytes.c -- see bytes.h. Rows are made at once and kept until a block is written; after the first look at a
 * file nothing is allocated. */
#include "trace/bytes.h"
#include "base/append.h"
#include "base/mem.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM      ((size_t)1 << 17) /* of rows */
#define FULL      (ROOM / 2)
#define MAX_UNITS 4096                /* stretches that a file is looked at by */
#define SLICE     ((size_t)32 << 20)  /* bytes that are looked at while nobody may unmap the file */
#define SWEEP_NS  INT64_C(100000000)  /* between two sweeps, at least, while the process reads from disk */
#define REST_NS   INT64_C(2000000000) /* while it doesn't: others read, and the kernel drops. 668 MB take 3 ms */
#define LOOK_NS   INT64_C(10000000)   /* of a sweep at a time, so that rings are emptied between */
#define LAST_NS   INT64_C(50000000)   /* of the last */

struct qn_trace_followed {
    qn_trace_mapped map;
    size_t unit, n_units, at; /* at: where the sweep stands */
    size_t page;
    uint32_t *pages;  /* [n_units] at the last look */
    bool whole, gone; /* it was looked at once; nothing more will be said */
};

/* ---- faults and lost cores ---- */

/* Whether a thread may be sampled at all, tried out on this one. */
static void say_how(qn_trace_bytes *b, bool samples)
{
    qn_samples s;
    if (!samples) {
        snprintf(b->how, sizeof b->how, "not sampled: nobody asked for it; counts of getrusage and /proc/self/io");
        return;
    }
    const int e = qn__samples_open(&s);
    qn__samples_close(&s);
    if (e == 0) {
        snprintf(b->how, sizeof b->how, "sampled by perf_event_open, each one of the threads that compute");
        return;
    }
    char level[16] = "";
    const int n = qn__read_small("/proc/sys/kernel/perf_event_paranoid", level, sizeof level);
    if (n > 0) level[strcspn(level, "\n")] = '\0';
    snprintf(b->how, sizeof b->how,
             "not sampled: perf_event_open says \"%s\"%s%s; counts of getrusage and /proc/self/io", strerror(e),
             n > 0 ? ", perf_event_paranoid is " : "", level);
}

bool qn__trace_bytes_init(qn_trace_bytes *b, bool samples)
{
    *b = (qn_trace_bytes){.looked_ns = qn__now_ns()};
    say_how(b, samples);
    return qn__str_reserve(&b->samples, ROOM) && qn__str_reserve(&b->residency, ROOM) &&
           qn__str_reserve(&b->incomplete, 512);
}

void qn__trace_bytes_deinit(qn_trace_bytes *b)
{
    qn__str_deinit(&b->samples);
    qn__str_deinit(&b->residency);
    qn__str_deinit(&b->incomplete);
    for (size_t i = 0; i < b->n_files; i++) qn__free(b->files[i].pages);
    qn__free(b->files);
}

uint64_t qn__trace_bytes_held(const qn_trace_bytes *b)
{
    uint64_t bytes = b->samples.cap + b->residency.cap + b->incomplete.cap + b->cap_files * sizeof(*b->files);
    for (size_t i = 0; i < b->n_files; i++) bytes += (b->files[i].n_units + 1) * sizeof(*b->files[i].pages);
    return bytes;
}

bool qn__trace_bytes_full(const qn_trace_bytes *b) { return b->samples.len > FULL || b->residency.len > FULL; }

void qn__trace_bytes_clear(qn_trace_bytes *b)
{
    qn__str_clear(&b->samples);
    qn__str_clear(&b->residency);
    b->n_samples = b->n_residency = 0;
    b->last_ns = b->last_offset = 0;
}

/* ns -1: it isn't known how long. */
static void put_row(qn_trace_bytes *b, const qn_trace_ring *r, int kind, int64_t begin, int64_t ns)
{
    qn__put_varint(&b->samples, r->lane);
    qn__put_signed(&b->samples, begin - b->last_ns);
    qn__put_varint(&b->samples, (uint64_t)kind);
    qn__put_varint(&b->samples, ns < 0 ? 0 : (uint64_t)ns + 1);
    b->last_ns = begin;
    b->n_samples++;
}

static void put_fault(qn_trace_bytes *b, const qn_trace_ring *r, int kind, int64_t begin, int64_t ns, uint64_t address)
{
    uint64_t offset = 0;
    const int32_t file = qn__trace_map_at(address, begin, &offset);
    put_row(b, r, kind, begin, ns);
    qn__put_varint(&b->samples, (uint64_t)(file + 1));
    if (file < 0) return;
    qn__put_signed(&b->samples, (int64_t)offset - b->last_offset);
    b->last_offset = (int64_t)offset;
}

static void served(qn_trace_bytes *b, qn_trace_ring *r, int kind, const qn_sample *s)
{
    const bool known = r->fault_ns != 0 && s->ns >= r->fault_ns;
    put_fault(b, r, kind, known ? r->fault_ns : s->ns, known ? s->ns - r->fault_ns : -1, known ? r->fault_at : s->at);
    r->fault_ns = 0;
}

static void take(qn_trace_bytes *b, qn_trace_ring *r, const qn_sample *s)
{
    switch (s->kind) {
    case QN_SAMPLE_fault:
        if (r->fault_ns) put_fault(b, r, QN_TRACE_ROW_minor, r->fault_ns, -1, r->fault_at);
        r->fault_ns = s->ns;
        r->fault_at = s->at;
        break;
    case QN_SAMPLE_minor: served(b, r, QN_TRACE_ROW_minor, s); break;
    case QN_SAMPLE_major: served(b, r, QN_TRACE_ROW_major, s); break;
    case QN_SAMPLE_out: r->out_ns = s->ns; break;
    case QN_SAMPLE_in:
        if (r->out_ns && s->ns >= r->out_ns) put_row(b, r, QN_TRACE_ROW_preempted, r->out_ns, s->ns - r->out_ns);
        r->out_ns = 0;
        break;
    case QN_SAMPLE_lost:
        put_row(b, r, QN_TRACE_ROW_lost, s->ns, -1);
        qn__put_varint(&b->samples, s->at);
        r->fault_ns = r->out_ns = 0;
        break;
    }
}

/* One thread is enough to know that not all are there. */
static void tell_incomplete(qn_trace_bytes *b, const qn_trace_ring *r)
{
    char text[256];
    if (b->told || strncmp(b->how, "sampled", 7) != 0) return;
    b->told = true;
    const int n = snprintf(text, sizeof text, "at least one thread of them is not sampled, number %u: \"%s\"", r->lane,
                           strerror(r->samples_error));
    qn__put_text(&b->incomplete, "faults_incomplete", 17);
    qn__put_text(&b->incomplete, text, (size_t)n);
}

static bool sample(qn_trace_bytes *b, qn_trace_ring *r)
{
    qn_sample some[256];
    if (r->samples_error) tell_incomplete(b, r);
    while (b->samples.len <= ROOM - 16384) {
        const size_t n = qn__trace_read_samples(r, some, sizeof some / sizeof some[0]);
        if (n == 0) return true;
        for (size_t i = 0; i < n; i++) take(b, r, &some[i]);
    }
    return false;
}

bool qn__trace_bytes_sample(qn_trace_bytes *b, qn_trace_ring *first)
{
    bool all = true;
    for (qn_trace_ring *ring = first; ring; ring = ring->next) all = sample(b, ring) && all;
    return all;
}

/* ---- what is in memory ---- */

static void put_stretch(qn_trace_bytes *b, const qn_trace_followed *f, size_t first, size_t n, const uint32_t *pages)
{
    uint32_t last = 0;
    qn__put_varint(&b->residency, (uint64_t)qn__now_ns());
    qn__put_varint(&b->residency, (uint64_t)f->map.id);
    qn__put_varint(&b->residency, (uint64_t)f->map.residency);
    qn__put_varint(&b->residency, f->page);
    qn__put_varint(&b->residency, f->unit);
    qn__put_varint(&b->residency, first);
    qn__put_varint(&b->residency, n);
    for (size_t i = 0; i < n; i++) {
        qn__put_signed(&b->residency, (int64_t)pages[i] - last);
        last = pages[i];
    }
    b->n_residency++;
}

static bool more_files(qn_trace_bytes *b)
{
    if (b->n_files < b->cap_files) return true;
    const size_t cap = b->cap_files ? b->cap_files * 2 : 8;
    qn_trace_followed *files = qn__realloc(b->files, cap * sizeof(*files));
    if (!files) return false;
    b->files = files;
    b->cap_files = cap;
    return true;
}

static void follow(qn_trace_bytes *b, const qn_trace_mapped *m)
{
    const long asked = sysconf(_SC_PAGESIZE);
    const size_t page = asked > 0 ? (size_t)asked : 4096, least = m->bytes / MAX_UNITS + 1;
    qn_trace_followed f = {.map = *m, .unit = (least + page - 1) / page * page, .page = page};
    f.n_units = (m->bytes + f.unit - 1) / f.unit;
    if (m->residency == QN_RESIDENCY_unknown) {
        put_stretch(b, &f, 0, 0, NULL);
        return;
    }
    f.pages = qn__calloc(f.n_units + 1, sizeof(*f.pages));
    if (!f.pages || !more_files(b)) {
        qn__free(f.pages);
        f.map.residency = QN_RESIDENCY_unknown;
        put_stretch(b, &f, 0, 0, NULL);
        return;
    }
    if (b->at_file == b->n_files) b->at_file++;
    b->files[b->n_files++] = f;
}

/* One slice; false: nothing is left of the file. */
static bool sweep_slice(qn_trace_bytes *b, qn_trace_followed *f)
{
    uint32_t now[256];
    size_t n = f->n_units - f->at;
    if (n > sizeof now / sizeof now[0]) n = sizeof now / sizeof now[0];
    if (n > 1 && n * f->unit > SLICE) n = SLICE / f->unit > 0 ? SLICE / f->unit : 1;
    if (n == 0 || f->gone) return false;
    f->gone = !qn__trace_map_resident(&f->map, f->at * f->unit, f->unit, n, now);
    if (f->gone) return false;
    size_t first = 0, end = n;
    while (f->whole && first < n && now[first] == f->pages[f->at + first]) first++;
    while (f->whole && end > first && now[end - 1] == f->pages[f->at + end - 1]) end--;
    if (end > first) put_stretch(b, f, f->at + first, end - first, now + first);
    memcpy(f->pages + f->at, now, n * sizeof now[0]);
    f->at += n;
    return true;
}

static bool all_looked_at(const qn_trace_bytes *b)
{
    for (size_t i = 0; i < b->n_files; i++)
        if (!b->files[i].whole && !b->files[i].gone) return false;
    return true;
}

static void sweep(qn_trace_bytes *b, int64_t until)
{
    while (b->at_file < b->n_files && qn__now_ns() < until && b->residency.len < ROOM - 16384) {
        qn_trace_followed *f = &b->files[b->at_file];
        if (sweep_slice(b, f)) continue;
        f->whole = true;
        f->at = 0;
        b->at_file++;
    }
}

void qn__trace_bytes_look(qn_trace_bytes *b, bool active, bool last)
{
    qn_trace_mapped m;
    const int64_t now = qn__now_ns(), has_read = qn__trace_read_bytes();
    const int64_t rest = has_read < 0 || has_read != b->swept_read ? SWEEP_NS : REST_NS;
    b->allowance_ns += (now - b->looked_ns) / 100;
    if (b->allowance_ns > LOOK_NS) b->allowance_ns = LOOK_NS;
    b->looked_ns = now;
    for (; qn__trace_map_next(b->last_id, &m); b->last_id = m.id) follow(b, &m);
    const bool fresh = !all_looked_at(b), may = b->allowance_ns > 0, idle = b->at_file == b->n_files;
    if (last || (idle && (fresh || (active && may && now - b->swept_ns >= rest)))) {
        for (size_t i = 0; i < b->n_files; i++) b->files[i].at = 0;
        b->at_file = 0;
        b->swept_ns = now;
        b->swept_read = has_read;
    }
    if (b->at_file == b->n_files || !(fresh || may || last)) return;
    sweep(b, now + (last ? LAST_NS : LOOK_NS));
    b->allowance_ns -= qn__now_ns() - now;
}
