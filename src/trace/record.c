/* SPDX-License-Identifier: MIT */
/* src/trace/record.c -- a recording: one at a time, of the process. The writer's thread alone empties the rings; it
 * looks ten times a second, and when a quarter of a ring is full, and takes what half a second has brought, or a
 * quarter of a ring. It needs a core that a computing thread has: each time it runs, all threads of a step wait for
 * that one. */
#include "base/append.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "trace/bytes.h"
#include "trace/clock.h"
#include "trace/encode.h"
#include "trace/sink.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 100, MOST_ROUNDS = 256 /* of reading what the kernel sampled, at the end */ };
#define FLUSH_NS INT64_C(500000000)
#define USAGE_NS INT64_C(90000000) /* between two rows of what the system counts */

typedef struct recorder {
    qn_trace_sink sink;
    qn_trace_encoder encoder;
    qn_trace_bytes bytes;
    qn_trace_packer *packer;
    qn_str block; /* packed */
    char *lists[4];
    qn_worker *worker;
    qn_bell *copied;
    qn_str *_Atomic copy_to; /* asked for, and not there yet */
    _Atomic bool stop;
    qn_str usage; /* rows that are not written yet */
    uint32_t n_usage;
    int64_t noted_ns; /* the last of them */
    uint64_t events, dropped;
    int64_t flushed_ns; /* the last clock reading written */
    bool over;          /* the sink takes no more */
    uint64_t own;       /* bytes allocated for it when it began, without what held() counts */
    uint64_t live;      /* by all else, the most that was seen */
} recorder;

static qn_mutex lock;
static qn_once once;
static recorder *now;
static _Atomic bool dump_wanted;

static void make_lock(void) { qn__mutex_init(&lock); }

/* ---- blocks ---- */

/* n_first: of it that is packed well. */
static bool pack(recorder *r, qn_trace_block b, const qn_str *raw, size_t n_first)
{
    qn__str_clear(&r->block);
    if (raw->failed || !qn__trace_pack(r->packer, &b, raw->data, raw->len, n_first, &r->block)) {
        r->dropped += b.count;
        return false;
    }
    return true;
}

static void emit_quick(recorder *r, qn_trace_block b, const qn_str *raw, size_t n_first, bool always)
{
    if (r->over || !pack(r, b, raw, n_first)) return;
    qn__trace_sink_put(&r->sink, r->block.data, r->block.len, always);
    if (r->sink.failed || r->sink.limited) {
        r->over = true;
        atomic_store_explicit(&qn__trace_generation, 0, memory_order_seq_cst);
    }
}

static void emit(recorder *r, qn_trace_block b, const qn_str *raw, bool always)
{
    emit_quick(r, b, raw, raw->len, always);
}

static void emit_clock(recorder *r)
{
    uint64_t ticks = 0;
    int64_t ns = 0;
    qn_str *raw = &r->encoder.raw;
    qn__trace_read_both(&ticks, &ns);
    qn__str_clear(raw);
    qn__put_varint(raw, ticks);
    qn__put_varint(raw, (uint64_t)ns);
    emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_clock, .count = 1}, raw, false);
    r->flushed_ns = ns;
}

static void put_pair(qn_str *s, const char *key, const char *value)
{
    qn__put_text(s, key, strlen(key));
    qn__put_text(s, value, strlen(value));
}

/* What alone was recorded: "ops linear*; layers 1; phases decode". False: all was. */
static bool put_filter(qn_str *s, const qn_trace_options *o)
{
    const char *const given[][2] = {{"ops", o->ops},
                                    {"layers", o->layers},
                                    {"tokens", o->tokens},
                                    {"phases", o->phases}};
    qn_str text = {0};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i][1]) qn__str_printf(&text, "%s%s %s", text.len ? "; " : "", given[i][0], given[i][1]);
    const bool any = text.len > 0 && !text.failed;
    if (any) put_pair(s, "filter", text.data);
    qn__str_deinit(&text);
    return any;
}

static void emit_notes(recorder *r, const qn_trace_options *o)
{
    qn_str s = {0}, text = {0};
    qn_machine machine;
    qn_machine_get(&machine);
    put_pair(&s, "quern", QN_VERSION);
    put_pair(&s, "cpu", machine.cpu_name);
    put_pair(&s, "clock", atomic_load_explicit(&qn__trace_ns, memory_order_relaxed) ? "clock_gettime" : "counter");
    qn__str_printf(&text, "%.2f", qn__trace_measure_event());
    if (!text.failed) put_pair(&s, "event_ns", text.data);
    qn__str_clear(&text);
    qn__str_printf(&text, "%lld", (long long)time(NULL));
    if (!text.failed) put_pair(&s, "unix_time", text.data);
    qn__str_clear(&text);
    qn__str_printf(&text, "%d", machine.physical_cores);
    if (!text.failed) put_pair(&s, "cores", text.data);
    put_pair(&s, "faults", r->bytes.how);
    const uint32_t n = put_filter(&s, o) ? 8 : 7;
    for (int i = 0; i < o->n_notes; i++) put_pair(&s, o->notes[i].key, o->notes[i].value);
    emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_notes, .count = n + (uint32_t)o->n_notes}, &s, true);
    qn__str_deinit(&s);
    qn__str_deinit(&text);
}

/* ---- what the system counts ---- */

static int64_t resident_bytes(void)
{
    char text[256], *at;
    if (qn__read_small("/proc/self/statm", text, sizeof text) <= 0) return -1;
    (void)strtoll(text, &at, 10);
    return strtoll(at, NULL, 10) * (int64_t)sysconf(_SC_PAGESIZE);
}

static int64_t ns_of(const struct timeval *t) { return (int64_t)t->tv_sec * 1000000000 + (int64_t)t->tv_usec * 1000; }

/* Bytes of what grows while it is recorded. */
static uint64_t held(const recorder *r)
{
    const qn_trace_encoder *e = &r->encoder;
    const qn_str *const strings[] = {&r->block,  &r->usage,  &r->sink.always, &e->choices, &e->gates,   &e->hashes,
                                     &e->counts, &e->values, &e->steps,       &e->marks,   &e->scratch, &e->raw};
    uint64_t bytes = qn__trace_bytes_held(&r->bytes);
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) bytes += strings[i]->cap;
    return bytes;
}

/* What the library has allocated, but for the recording. Read first: a ring that is made meanwhile is then the
 * recording's, and not taken for somebody's. */
static void note_live(recorder *r)
{
    const uint64_t live = QN_GAUGE_READ(live_bytes), own = r->own + held(r) + qn__trace_held();
    if (live > own && live - own > r->live) r->live = live - own;
}

/* A row, kept until there is a block to write. */
static void note_usage(recorder *r, bool at_once)
{
    const int64_t ns = qn__now_ns();
    if (!at_once && ns - r->noted_ns < USAGE_NS) return;
    r->noted_ns = ns;
    struct rusage u;
    int64_t row[7] = {-1, -1, -1, -1, -1, qn__trace_read_bytes(), resident_bytes()};
    if (getrusage(RUSAGE_SELF, &u) == 0) {
        row[0] = ns_of(&u.ru_utime) + ns_of(&u.ru_stime);
        row[1] = u.ru_minflt;
        row[2] = u.ru_majflt;
        row[3] = u.ru_nvcsw;
        row[4] = u.ru_nivcsw;
    }
    qn__put_varint(&r->usage, qn__trace_ticks());
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) qn__put_signed(&r->usage, row[i]);
    r->n_usage++;
}

static void emit_live(recorder *r)
{
    qn_str s = {0};
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)r->live);
    put_pair(&s, "live_bytes", text);
    if (!s.failed) emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_notes, .count = 1}, &s, true);
    qn__str_deinit(&s);
}

static void emit_usage(recorder *r)
{
    if (r->n_usage) emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_usage, .count = r->n_usage}, &r->usage, false);
    qn__str_clear(&r->usage);
    r->n_usage = 0;
}

static void emit_bytes(recorder *r)
{
    qn_trace_bytes *b = &r->bytes;
    if (b->n_samples)
        emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_samples, .count = b->n_samples}, &b->samples, false);
    if (b->n_residency)
        emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_residency, .count = b->n_residency}, &b->residency, false);
    qn__trace_bytes_clear(b);
    if (b->incomplete.len == 0) return;
    emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_notes, .count = 1}, &b->incomplete, true);
    qn__str_clear(&b->incomplete);
}

static void emit_blobs(recorder *r)
{
    static const uint16_t kinds[] = {
        [QN_TRACE_BLOB_plan] = QN_TRACE_BLOCK_plan, [QN_TRACE_BLOB_file] = QN_TRACE_BLOCK_file};
    qn_trace_blob *blobs = qn__trace_take_blobs();
    for (qn_trace_blob *b = blobs; b; b = b->next)
        emit(r, (qn_trace_block){.kind = kinds[b->kind], .count = 1}, &b->bytes, true);
    qn__trace_free_blobs(blobs);
}

static uint64_t pending(const qn_trace_ring *ring)
{
    return ring->limit - atomic_load_explicit(&ring->tail, memory_order_relaxed);
}

/* A ring's slots up to its limit, block by block. Where there is a block and more before its time, threads record more
 * than 30000 events a second: small models, which compute in the processor's caches and lose most to a writer beside
 * them. Deflating all takes 65 ns an event, the columns that repeat 2: in a hurry that is all, and what fills no block
 * waits. */
static void emit_ring(recorder *r, qn_trace_ring *ring, bool all)
{
    qn_trace_encoder *e = &r->encoder;
    const uint32_t lane = ring->lane;
    const bool hurry = pending(ring) >= QN_TRACE_MAX_ROWS;
    bool came = false; /* what a recording is made for */
    do {
        size_t n_alike = 0;
        qn__trace_encode(e, ring, ring->limit);
        const uint64_t dropped = atomic_load_explicit(&ring->dropped, memory_order_relaxed);
        if (e->n_steps)
            emit_quick(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_steps, .lane = lane, .count = e->n_steps}, &e->steps,
                       hurry ? 0 : e->steps.len, false);
        if (e->n_steps || e->n_marks) came = true;
        if (e->n_choices)
            emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_choices, .lane = lane, .count = e->n_choices}, &e->choices,
                 false);
        if (e->n_gates)
            emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_gates, .lane = lane, .count = e->n_gates}, &e->gates,
                 false);
        if (e->n_hashes)
            emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_hashes, .lane = lane, .count = e->n_hashes}, &e->hashes,
                 false);
        if (e->n_values)
            emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_values, .lane = lane, .count = e->n_values}, &e->values,
                 false);
        if (e->n_counts)
            emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_counts, .lane = lane, .count = e->n_counts}, &e->counts,
                 false);
        if (e->n_marks)
            emit(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_marks, .lane = lane, .count = e->n_marks}, &e->marks,
                 false);
        if (qn__trace_encode_events(e, &n_alike))
            emit_quick(
                r,
                (qn_trace_block){.kind = QN_TRACE_BLOCK_events, .lane = lane, .count = e->n_events, .dropped = dropped},
                &e->raw, hurry ? n_alike : e->raw.len, false);
        if (!r->over) r->events += e->n_events + e->n_marks;
        if (came) qn__trace_sink_commit(&r->sink);
        qn__trace_encoder_clear(e);
    } while (pending(ring) >= (hurry && !all ? QN_TRACE_MAX_ROWS : 1));
}

static uint64_t count_dropped(const recorder *r)
{
    uint64_t n = r->dropped + qn__trace_lost();
    for (const qn_trace_ring *ring = qn__trace_rings(); ring; ring = ring->next)
        n += atomic_load_explicit(&ring->dropped, memory_order_relaxed);
    return n;
}

static void pack_end(recorder *r, const char *why)
{
    qn_str *raw = &r->encoder.raw;
    qn__str_clear(raw);
    qn__put_text(raw, why, strlen(why));
    qn__put_varint(raw, r->events);
    qn__put_varint(raw, count_dropped(r));
    qn__put_varint(raw, qn__trace_steps());
    (void)pack(r, (qn_trace_block){.kind = QN_TRACE_BLOCK_end, .count = 1}, raw, raw->len);
}

/* ---- the writer ---- */

static bool note_head(qn_trace_ring *ring)
{
    ring->limit = atomic_load_explicit(&ring->head, memory_order_acquire);
    return pending(ring) > 0;
}

/* Heads first: what stands before them belongs to plans that have been submitted. */
static void drain(recorder *r, bool all)
{
    const int64_t time = qn__now_ns();
    qn_trace_ring *first = qn__trace_rings();
    bool any = false, waiting = false;
    for (qn_trace_ring *ring = first; ring; ring = ring->next) waiting = note_head(ring) || waiting;
    note_live(r);
    if (waiting || all) note_usage(r, all);
    bool sampled = qn__trace_bytes_sample(&r->bytes, first);
    qn__trace_bytes_look(&r->bytes, waiting, all);
    emit_blobs(r);
    for (qn_trace_ring *ring = first; ring; ring = ring->next) {
        const uint64_t n = pending(ring);
        if (n == 0 || (!all && n < QN_TRACE_MAX_ROWS && n <= ring->mask / 4 && time - ring->flushed_ns < FLUSH_NS))
            continue;
        emit_ring(r, ring, all);
        ring->flushed_ns = time;
        any = true;
    }
    if (any || all) {
        emit_usage(r);
        emit_clock(r);
    }
    if (any || all || qn__trace_bytes_full(&r->bytes)) emit_bytes(r);
    /* A full ring is two or three times what there is room for; threads may go on to write. */
    for (int i = 0; all && !sampled && i < MOST_ROUNDS; i++) {
        sampled = qn__trace_bytes_sample(&r->bytes, first);
        emit_bytes(r);
    }
    qn__trace_reap(sampled ? time : 0);
}

static void dump(recorder *r, const char *why)
{
    drain(r, true);
    pack_end(r, why);
    qn__trace_sink_dump(&r->sink, r->block.data, r->block.len);
}

/* For who waits for it in qn_trace_copy. */
static void copy(recorder *r, qn_str *to)
{
    drain(r, true);
    pack_end(r, "asked for");
    qn__trace_sink_copy(&r->sink, r->block.data, r->block.len, to);
    atomic_store_explicit(&r->copy_to, NULL, memory_order_release);
    qn__bell_ring(r->copied);
}

static void write_on(void *arg)
{
    recorder *r = arg;
    qn__thread_give_way();
    while (!atomic_load_explicit(&r->stop, memory_order_acquire)) {
        drain(r, false);
        if (atomic_exchange_explicit(&dump_wanted, false, memory_order_relaxed)) dump(r, "asked for");
        qn_str *to = atomic_load_explicit(&r->copy_to, memory_order_acquire);
        if (to) copy(r, to);
        if (r->encoder.slow) dump(r, "a slow step");
        r->encoder.slow = false;
        qn__trace_wait(LOOK_MS);
    }
}

/* ---- start, stop ---- */

static void recorder_destroy(recorder *r)
{
    if (!r) return;
    qn__worker_destroy(r->worker);
    qn__bell_destroy(r->copied);
    qn__trace_packer_destroy(r->packer);
    qn__trace_encoder_deinit(&r->encoder);
    qn__trace_bytes_deinit(&r->bytes);
    qn__trace_sink_deinit(&r->sink);
    qn__str_deinit(&r->block);
    qn__str_deinit(&r->usage);
    for (size_t i = 0; i < sizeof r->lists / sizeof r->lists[0]; i++) qn__free(r->lists[i]);
    qn__free(r);
}

static qn_status check_ranges(const char *what, const char *list, qn_error *err)
{
    bool valid = true;
    if (list) (void)qn__trace_in_ranges(list, 0, &valid);
    return valid ? QN_OK
                 : QN_FAIL(err, invalid,
                           "%s \"%s\": numbers and ranges with commas between are expected, such as 0,3-5,8-", what,
                           list);
}

static qn_status check_phases(const char *list, qn_error *err)
{
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        bool known = false;
        for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++) {
            const char *name = qn_trace_phase_name(i);
            known = known || (strlen(name) == n && strncmp(p, name, n) == 0);
        }
        if (!known)
            return QN_FAIL(err, invalid, "there is no phase \"%.*s\"; there are prompt, decode, mixed and other",
                           (int)(n < 64 ? n : 64), p);
        p += n + (p[n] == ',');
    }
    return QN_OK;
}

static qn_status create(recorder *r, const char *path, const qn_trace_options *o, qn_trace_filter *f, qn_error *err)
{
    const char *given[] = {o->ops, o->layers, o->tokens, o->phases};
    const char **to[] = {&f->ops, &f->layers, &f->tokens, &f->phases};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++) {
        if (!given[i]) continue;
        *to[i] = r->lists[i] = qn__strdup(given[i]);
        if (!r->lists[i]) return QN_FAIL_NOMEM(err, strlen(given[i]) + 1);
    }
    r->encoder.if_slow = o->last_bytes ? o->if_slow : 0;
    if (!qn__trace_encoder_init(&r->encoder) || !qn__trace_bytes_init(&r->bytes, !o->no_faults) ||
        !qn__str_reserve(&r->block, 1 << 19) || !qn__str_reserve(&r->usage, 1 << 13))
        return QN_FAIL_NOMEM(err, (size_t)1 << 20);
    QN_TRY(qn__trace_packer_create(&r->packer, err));
    QN_TRY(qn__bell_create(&r->copied, err));
    QN_TRY(qn__worker_create(&r->worker, err));
    return qn__trace_sink_open(&r->sink, path, o->limit_bytes, o->last_bytes, err);
}

/* Under the lock. */
static qn_status start(const char *path, const qn_trace_options *o, qn_error *err)
{
    if (now) return QN_FAIL(err, state, "a recording is on already");
    QN_TRY(check_ranges("layers", o->layers, err));
    QN_TRY(check_ranges("tokens", o->tokens, err));
    QN_TRY(check_phases(o->phases, err));
    if (o->last_bytes && o->last_bytes < (UINT64_C(1) << 20))
        return QN_FAIL(err, invalid, "the last %llu bytes are too few to keep; at least 1 MiB",
                       (unsigned long long)o->last_bytes);
    const uint64_t before = QN_GAUGE_READ(live_bytes);
    recorder *r = qn__calloc(1, sizeof(*r));
    if (!r) return QN_FAIL_NOMEM(err, sizeof(*r));
    r->sink.fd = -1;
    qn_trace_filter filter = {.no_tokens = o->no_tokens, .no_experts = o->no_experts, .no_faults = o->no_faults};
    qn_status status = create(r, path, o, &filter, err);
    if (status == QN_OK) {
        atomic_store_explicit(&qn__trace_ns, !qn__trace_counter_is_clock(), memory_order_relaxed);
        atomic_store_explicit(&dump_wanted, false, memory_order_relaxed);
        emit_notes(r, o);
        emit_clock(r);
        const uint64_t grown = before + held(r), live = QN_GAUGE_READ(live_bytes);
        r->own = live > grown ? live - grown : 0;
        status = qn__trace_open_rings(&filter, o->ring_bytes, err);
    }
    if (status == QN_OK) note_usage(r, true);
    if (status == QN_OK) status = qn__worker_submit(r->worker, write_on, r, err);
    if (status != QN_OK) {
        recorder_destroy(r);
        return status;
    }
    now = r;
    return QN_OK;
}

qn_status qn_trace_start(const char *path, const qn_trace_options *options, qn_error *err)
{
    static const qn_trace_options defaults;
    qn__once(&once, make_lock);
    qn__mutex_lock(&lock);
    const qn_status status = start(path, options ? options : &defaults, err);
    qn__mutex_unlock(&lock);
    return status;
}

static void finish(recorder *r, qn_trace_summary *out)
{
    const bool kept = r->sink.kept != NULL;
    drain(r, true);
    emit_live(r);
    const uint64_t dropped = count_dropped(r);
    if (kept && atomic_exchange_explicit(&dump_wanted, false, memory_order_relaxed)) dump(r, "asked for");
    if (kept && r->encoder.slow) dump(r, "a slow step");
    pack_end(r, r->sink.limited ? "its size was limited" : "stopped");
    qn__trace_sink_close(&r->sink, r->block.data, r->block.len);
    if (!out) return;
    *out = (qn_trace_summary){.events = r->events,
                              .dropped = dropped,
                              .steps = qn__trace_steps(),
                              .bytes = r->sink.written,
                              .n_files = r->sink.n_files,
                              .failed = r->sink.failed,
                              .limited = r->sink.limited,
                              .any_node = r->encoder.any_node};
    memcpy(out->reason, r->sink.reason, sizeof out->reason);
}

qn_status qn_trace_stop(qn_trace_summary *summary, qn_error *err)
{
    qn__once(&once, make_lock);
    qn__mutex_lock(&lock);
    recorder *r = now;
    qn_status status = r ? qn__trace_shut(err) : QN_FAIL(err, state, "no recording is on");
    if (status == QN_OK) {
        atomic_store_explicit(&r->stop, true, memory_order_release);
        qn__trace_wake();
        qn__worker_wait(r->worker);
        finish(r, summary);
        qn__trace_close_rings();
        recorder_destroy(r);
        now = NULL;
    }
    qn__mutex_unlock(&lock);
    return status;
}

bool qn_trace_is_on(void) { return qn__trace_on(); }
void qn_trace_dump(void) { atomic_store_explicit(&dump_wanted, true, memory_order_relaxed); }

/* The lock keeps the recorder here, and others who want a copy away. */
qn_status qn_trace_copy(char **out, size_t *n, qn_error *err)
{
    qn_str s = {0};
    qn_status status = QN_OK;
    qn__once(&once, make_lock);
    qn__mutex_lock(&lock);
    recorder *r = now;
    if (r && r->sink.kept) {
        atomic_store_explicit(&r->copy_to, &s, memory_order_release);
        qn__trace_wake();
        while (atomic_load_explicit(&r->copy_to, memory_order_acquire)) qn__bell_wait(r->copied, 1000);
    } else {
        status = QN_FAIL(err, state, "no recording keeps what was last");
    }
    qn__mutex_unlock(&lock);
    char *bytes = status == QN_OK ? qn__str_take(&s, n) : NULL;
    if (status == QN_OK && !bytes) return QN_FAIL_NOMEM(err, s.len);
    if (status == QN_OK) *out = bytes;
    return status;
}

/* The ring is there before the time is taken: making it is 3 MiB that are written for the first time. */
uint64_t qn_trace_time(void)
{
    if (!qn__trace_on() || !qn__trace_enter()) return 0;
    qn__trace_leave();
    return qn__trace_ticks();
}

void qn_trace_span(qn_trace_kind kind, const char *text, uint64_t begin)
{
    if (begin == 0) return;
    if (kind != QN_TRACE_mark) {
        qn__trace_end(kind, begin);
        return;
    }
    const uint64_t end = qn__trace_ticks();
    qn_trace_ring *r = qn__trace_enter();
    if (!r) return;
    const size_t n = text ? strlen(text) : 0;
    const qn_trace_part part = {text ? text : "", n < 255 ? n : 255};
    qn__trace_put_record(r, QN_TRACE_RECORD_mark, begin, end > begin ? end - begin : 0, &part, 1);
    qn__trace_leave();
}

void qn_trace_mark(const char *text) { qn_trace_span(QN_TRACE_mark, text, qn_trace_time()); }
