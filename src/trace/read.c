/* SPDX-License-Identifier: MIT */
/* src/trace/read.c -- a trace is opened: all blocks up to the first damage, with what doesn't change kept, and events
 * counted and looked through once, so that walking finds nothing wrong later. */
#include "trace/read.h"
#include "base/error.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *qn__trace_more(void **at, size_t *n, size_t *cap, size_t size)
{
    if (*n == *cap) {
        size_t bytes;
        const size_t more = *cap ? *cap * 2 : 16;
        void *moved = qn__mul_size(more, size, &bytes) ? qn__realloc(*at, bytes) : NULL;
        if (!moved) return NULL;
        *at = moved;
        *cap = more;
    }
    void *one = (char *)*at + (*n)++ * size;
    memset(one, 0, size);
    return one;
}

const uint8_t *qn__trace_raw(qn_trace *t, const qn_trace_block *b, uint64_t at, bool *nomem)
{
    const uint8_t *payload = t->data + at + QN_TRACE_BLOCK_BYTES;
    *nomem = false;
    if (b->method == 0) return payload;
    if (t->raw_cap < b->raw_bytes || !t->raw) {
        uint8_t *raw = qn__realloc(t->raw, b->raw_bytes + 1);
        *nomem = !raw;
        if (!raw) return NULL;
        t->raw = raw;
        t->raw_cap = b->raw_bytes;
    }
    return qn__trace_unpack(b, payload, t->raw, nomem) ? t->raw : NULL;
}

qn_trace_lane *qn__trace_find_lane(qn_trace *t, uint32_t id)
{
    for (size_t i = 0; i < t->lanes.n; i++)
        if (t->lanes.at[i].id == id) return &t->lanes.at[i];
    qn_trace_lane *lane = QN_TRACE_MORE(&t->lanes);
    if (lane) *lane = (qn_trace_lane){.id = id, .member = -1};
    return lane;
}

/* ---- blocks ---- */

static qn_trace_found read_notes(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const char *key = qn__trace_keep_text(t, c), *value = qn__trace_keep_text(t, c);
        if (c->failed) return QN_TRACE_WRONG;
        qn_trace_note *note = key && value ? QN_TRACE_MORE(&t->notes) : NULL;
        if (!note) return QN_TRACE_NOMEM;
        *note = (qn_trace_note){key, value};
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static qn_trace_found read_file(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    (void)b;
    const int32_t id = (int32_t)qn__trace_get_up_to(c, INT32_MAX);
    const uint64_t bytes = qn__trace_get(c);
    const char *path = qn__trace_keep_text(t, c);
    if (c->failed || c->p != c->end) return QN_TRACE_WRONG;
    qn_trace_file *file = path ? QN_TRACE_MORE(&t->files) : NULL;
    if (!file) return QN_TRACE_NOMEM;
    *file = (qn_trace_file){id, bytes, path, "unknown"};
    return QN_TRACE_GOOD;
}

static const qn_trace_plan *find_plan(const qn_trace *t, uint32_t id)
{
    for (size_t i = t->plans.n; i-- > 0;)
        if (t->plans.at[i]->id == id) return t->plans.at[i];
    return NULL;
}

static qn_trace_found read_step(qn_trace *t, qn_trace_cursor *c)
{
    qn_trace_step s = {.ns = -1};
    s.number = qn__trace_get(c);
    const uint64_t begin = qn__trace_get(c);
    s.plan = find_plan(t, (uint32_t)qn__trace_get_up_to(c, UINT32_MAX));
    s.session = (uint32_t)qn__trace_get_up_to(c, UINT32_MAX);
    s.phase = (int32_t)qn__trace_get_up_to(c, QN_TRACE_PHASE_COUNT - 1);
    s.n_tokens = (int32_t)qn__trace_get_up_to(c, (uint64_t)(c->end - c->p));
    s.n_out = (int32_t)qn__trace_get_up_to(c, INT32_MAX);
    s.n_sights = (int32_t)qn__trace_get_up_to(c, (uint64_t)(c->end - c->p));
    const bool has_tokens = qn__trace_get_up_to(c, 1) != 0;
    if (c->failed || !s.plan) return QN_TRACE_WRONG;
    bool ok = true;
    if (has_tokens) ok = (s.tokens = qn__trace_read_column(t, c, s.n_tokens)) != NULL;
    ok = (s.pos = qn__trace_read_column(t, c, s.n_tokens)) != NULL && ok;
    ok = (s.seq = qn__trace_read_column(t, c, s.n_sights > 0 ? s.n_tokens : 0)) != NULL && ok;
    if (s.n_sights == 0) s.seq = NULL;
    qn_trace_sight *sights = qn__arena_array(&t->arena, (size_t)s.n_sights + 1, sizeof(*sights));
    for (int32_t i = 0; sights && i < s.n_sights; i++) {
        sights[i].cells = qn__trace_get(c);
        sights[i].pairs = qn__trace_get(c);
    }
    s.sights = sights;
    if (!ok || !sights) return QN_TRACE_NOMEM;
    if (c->failed) return QN_TRACE_WRONG;
    qn_trace_step *step = QN_TRACE_MORE(&t->steps);
    if (!step) return QN_TRACE_NOMEM;
    *step = s;
    step->begin_ns = (int64_t)begin; /* in ticks until all are there */
    return QN_TRACE_GOOD;
}

static qn_trace_found read_steps(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const qn_trace_found found = read_step(t, c);
        if (found != QN_TRACE_GOOD) return found;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static qn_trace_found read_events(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    qn_trace_rows rows;
    qn_trace_row row;
    qn_trace_lane *lane = qn__trace_find_lane(t, b->lane);
    if (!lane) return QN_TRACE_NOMEM;
    if (!qn__trace_rows_init(&rows, b, c->p)) return QN_TRACE_WRONG;
    while (qn__trace_rows_next(&rows, &row)) {
        if (row.end > t->last_ticks) t->last_ticks = row.end;
        if (row.kind == QN_TRACE_run) {
            lane->member = (int32_t)row.id;
        } else {
            lane->events++;
            t->info.events++;
        }
        if (row.kind != QN_TRACE_step) continue;
        qn_trace_end *end = QN_TRACE_MORE(&t->ends);
        if (!end) return QN_TRACE_NOMEM;
        *end = (qn_trace_end){row.waiting, row.begin, row.end};
    }
    lane->dropped = b->dropped;
    return qn__trace_rows_whole(&rows) ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static qn_trace_found read_marks(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    qn_trace_lane *lane = qn__trace_find_lane(t, b->lane);
    if (!lane) return QN_TRACE_NOMEM;
    for (uint32_t i = 0; i < b->count; i++) {
        size_t n;
        (void)qn__trace_get(c);
        (void)qn__trace_get(c);
        (void)qn__trace_get_text(c, &n);
        if (c->failed) return QN_TRACE_WRONG;
        lane->events++;
        t->info.events++;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static qn_trace_found read_clock(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    (void)b;
    const uint64_t ticks = qn__trace_get(c), ns = qn__trace_get_up_to(c, INT64_MAX);
    if (c->failed || c->p != c->end) return QN_TRACE_WRONG;
    const qn_trace_pair *last = t->clock.n ? &t->clock.at[t->clock.n - 1] : NULL;
    if (last && (ticks <= last->ticks || (int64_t)ns < last->ns)) return QN_TRACE_GOOD;
    qn_trace_pair *pair = QN_TRACE_MORE(&t->clock);
    if (!pair) return QN_TRACE_NOMEM;
    *pair = (qn_trace_pair){ticks, (int64_t)ns};
    return QN_TRACE_GOOD;
}

static qn_trace_found read_usage(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    for (uint32_t i = 0; i < b->count; i++) {
        qn_trace_usage u = {.at_ns = (int64_t)qn__trace_get_up_to(c, INT64_MAX)};
        int64_t *const to[] = {&u.cpu_ns,      &u.minor_faults, &u.major_faults,  &u.waits,
                               &u.preemptions, &u.read_bytes,   &u.resident_bytes};
        for (size_t k = 0; k < sizeof to / sizeof to[0]; k++) *to[k] = qn__trace_get_signed(c);
        if (c->failed) return QN_TRACE_WRONG;
        qn_trace_usage *at = QN_TRACE_MORE(&t->usage);
        if (!at) return QN_TRACE_NOMEM;
        *at = u;
    }
    return c->p == c->end ? QN_TRACE_GOOD : QN_TRACE_WRONG;
}

static qn_trace_found read_end(qn_trace *t, const qn_trace_block *b, qn_trace_cursor *c)
{
    (void)b;
    t->why_ended = qn__trace_keep_text(t, c);
    (void)qn__trace_get(c); /* events: those that were lost in a ring of the last are not here */
    t->info.dropped = qn__trace_get(c);
    (void)qn__trace_get(c);
    if (c->failed || c->p != c->end) return QN_TRACE_WRONG;
    t->ended = true;
    return t->why_ended ? QN_TRACE_GOOD : QN_TRACE_NOMEM;
}

static qn_trace_found (*const readers[QN_TRACE_BLOCK_KINDS])(qn_trace *, const qn_trace_block *, qn_trace_cursor *) = {
    [QN_TRACE_BLOCK_notes] = read_notes,
    [QN_TRACE_BLOCK_file] = read_file,
    [QN_TRACE_BLOCK_plan] = qn__trace_read_plan,
    [QN_TRACE_BLOCK_steps] = read_steps,
    [QN_TRACE_BLOCK_events] = read_events,
    [QN_TRACE_BLOCK_marks] = read_marks,
    [QN_TRACE_BLOCK_clock] = read_clock,
    [QN_TRACE_BLOCK_end] = read_end,
    [QN_TRACE_BLOCK_usage] = read_usage,
    [QN_TRACE_BLOCK_choices] = qn__trace_read_choices,
    [QN_TRACE_BLOCK_gates] = qn__trace_read_gates,
    [QN_TRACE_BLOCK_hashes] = qn__trace_read_hashes,
    [QN_TRACE_BLOCK_samples] = qn__trace_read_samples_block,
    [QN_TRACE_BLOCK_residency] = qn__trace_read_residency,
    [QN_TRACE_BLOCK_counts] = qn__trace_read_counts,
    [QN_TRACE_BLOCK_values] = qn__trace_read_values,
};

/* NULL, or what is wrong at t->whole; *nomem: memory was short. */
static const char *read_block(qn_trace *t, bool *nomem)
{
    qn_trace_block b;
    const char *wrong = qn__trace_block_at(t->data, t->size, t->whole, &b);
    if (wrong) return wrong;
    if (b.kind < QN_TRACE_BLOCK_KINDS && readers[b.kind]) {
        const uint8_t *raw = qn__trace_raw(t, &b, t->whole, nomem);
        if (!raw) return "the block can't be unpacked";
        qn_trace_cursor c = {raw, raw + b.raw_bytes, false};
        const qn_trace_found found = readers[b.kind](t, &b, &c);
        *nomem = found == QN_TRACE_NOMEM;
        if (found != QN_TRACE_GOOD) return "the block says what can't be";
    } /* else of a later minor version: left out */
    t->whole += QN_TRACE_BLOCK_BYTES + b.packed_bytes;
    return NULL;
}

/* ---- the whole ---- */

static uint32_t word(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static qn_status check_header(const qn_trace *t, qn_error *err)
{
    const uint8_t *p = t->data;
    if (t->size < QN_TRACE_FILE_BYTES || memcmp(p, QN_TRACE_MAGIC, 8) != 0)
        return QN_FAIL(err, format, "this is no trace of quern: it doesn't begin with \"QNTRACE\"");
    if (word(p + 12) == 0x04030201u)
        return QN_FAIL(err, format, "the trace has the other byte order; this version reads little endian");
    if (word(p + 8) != QN_TRACE_VERSION || word(p + 12) != QN_TRACE_ORDER)
        return QN_FAIL(err, format, "the trace is of version %u; this version of quern reads version %u", word(p + 8),
                       QN_TRACE_VERSION);
    return QN_OK;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = ((const qn_trace_step *)a)->number, y = ((const qn_trace_step *)b)->number;
    return (x > y) - (x < y);
}

static int by_end_number(const void *a, const void *b)
{
    const uint64_t x = ((const qn_trace_end *)a)->number, y = ((const qn_trace_end *)b)->number;
    return (x > y) - (x < y);
}

static int by_lane(const void *a, const void *b)
{
    const uint32_t x = ((const qn_trace_lane *)a)->id, y = ((const qn_trace_lane *)b)->id;
    return (x > y) - (x < y);
}

int64_t qn__trace_to_ns(const qn_trace *t, uint64_t ticks)
{
    size_t lo = 0, hi = t->clock.n; /* the last pair at or before it */
    while (hi - lo > 1) {
        const size_t mid = lo + (hi - lo) / 2;
        if (t->clock.at[mid].ticks <= ticks)
            lo = mid;
        else
            hi = mid;
    }
    if (t->clock.n == 0) return 0;
    if (lo + 1 == t->clock.n && lo > 0) lo--;
    const qn_trace_pair *a = &t->clock.at[lo], *b = t->clock.n > 1 ? a + 1 : a;
    const double rate = b->ticks > a->ticks ? (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks) : 1;
    const double past = ticks >= a->ticks ? (double)(ticks - a->ticks) : -(double)(a->ticks - ticks);
    const double ns = past * rate;
    if (ns > 4e18 || ns < -4e18) return 0;
    return a->ns - t->start_ns + (int64_t)ns;
}

const qn_trace_step *qn__trace_find_step(const qn_trace *t, uint64_t number)
{
    const qn_trace_step wanted = {.number = number};
    return t->steps.n ? bsearch(&wanted, t->steps.at, t->steps.n, sizeof wanted, by_number) : NULL;
}

static bool settle(qn_trace *t)
{
    qn_trace_info *info = &t->info;
    if (t->steps.n) qsort(t->steps.at, t->steps.n, sizeof t->steps.at[0], by_number);
    if (t->ends.n) qsort(t->ends.at, t->ends.n, sizeof t->ends.at[0], by_end_number);
    if (t->lanes.n) qsort(t->lanes.at, t->lanes.n, sizeof t->lanes.at[0], by_lane);
    t->start_ns = t->clock.n ? t->clock.at[0].ns : 0;
    size_t at = 0;
    for (size_t i = 0; i < t->steps.n; i++) {
        qn_trace_step *s = &t->steps.at[i];
        while (at < t->ends.n && t->ends.at[at].number < s->number) at++;
        s->begin_ns = qn__trace_to_ns(t, (uint64_t)s->begin_ns);
        if (at == t->ends.n || t->ends.at[at].number != s->number) continue;
        s->begin_ns = qn__trace_to_ns(t, t->ends.at[at].begin);
        s->ns = qn__trace_to_ns(t, t->ends.at[at].end) - s->begin_ns;
    }
    for (size_t i = 0; i < t->usage.n; i++) t->usage.at[i].at_ns = qn__trace_to_ns(t, (uint64_t)t->usage.at[i].at_ns);
    if (!qn__trace_settle_choices(t) || !qn__trace_settle_values(t)) return false;
    qn__trace_settle_kernel(t);
    info->n_usage = (int64_t)t->usage.n;
    info->usage = t->usage.at;
    info->n_plans = (int)t->plans.n;
    info->n_files = (int)t->files.n;
    info->n_lanes = (int)t->lanes.n;
    info->n_notes = (int)t->notes.n;
    info->n_steps = (int64_t)t->steps.n;
    info->plans = (const qn_trace_plan *const *)t->plans.at;
    info->steps = t->steps.at;
    info->files = t->files.at;
    info->lanes = t->lanes.at;
    info->notes = t->notes.at;
    info->start_monotonic = t->start_ns;
    info->ns = t->clock.n ? t->clock.at[t->clock.n - 1].ns - t->start_ns : 0;
    if (!t->ended)
        for (size_t i = 0; i < t->lanes.n; i++) info->dropped += t->lanes.at[i].dropped;
    const char *clock = qn_trace_find_note(t, "clock"), *event = qn_trace_find_note(t, "event_ns");
    info->end = t->ended ? t->why_ended : NULL;
    info->counter = clock && strcmp(clock, "counter") == 0;
    if (!event || !qn__parse_f64(event, 0, 1e9, &info->event_ns)) info->event_ns = 0;
    return true;
}

static qn_status read_all(qn_trace *t, qn_error *err)
{
    bool nomem = false;
    const char *wrong = NULL;
    QN_TRY(check_header(t, err));
    t->whole = QN_TRACE_FILE_BYTES;
    while (t->whole < t->size && !wrong) wrong = read_block(t, &nomem);
    if (!nomem) nomem = !settle(t);
    if (nomem) return QN_FAIL(err, nomem, "out of memory while reading a trace of %zu bytes", t->size);
    if (!wrong && !t->ended) wrong = "the end is missing: the recording was not stopped";
    if (wrong)
        snprintf(t->damage, sizeof t->damage, "at byte %llu of %zu: %s", (unsigned long long)t->whole, t->size, wrong);
    return QN_OK;
}

qn_status qn__trace_read(const void *data, size_t size, qn_trace **out, qn_error *err)
{
    qn_trace *t = qn__calloc(1, sizeof(*t));
    if (!t) return QN_FAIL_NOMEM(err, sizeof(*t));
    qn__arena_init(&t->arena, 0);
    t->data = data;
    t->size = size;
    const qn_status status = read_all(t, err);
    if (status != QN_OK) {
        qn_trace_close(t);
        return status;
    }
    *out = t;
    return QN_OK;
}

qn_status qn_trace_open(const char *path, qn_trace **out, qn_error *err)
{
    qn_map map;
    QN_TRY(qn__map_open(path, &map, err));
    const qn_status status = qn__trace_read(map.data, map.size, out, err);
    if (status == QN_OK) {
        (*out)->map = map;
        return QN_OK;
    }
    qn__map_close(&map);
    return qn__prefix(err, status, "%s", path);
}

void qn_trace_close(qn_trace *t)
{
    if (!t) return;
    qn__map_close(&t->map);
    qn__arena_deinit(&t->arena);
    qn__free(t->raw);
    qn__free(t->plans.at);
    qn__free(t->steps.at);
    qn__free(t->ends.at);
    qn__free(t->files.at);
    qn__free(t->lanes.at);
    qn__free(t->notes.at);
    qn__free(t->clock.at);
    qn__free(t->usage.at);
    qn__free(t->chosen.at);
    qn__free(t->faults.at);
    qn__free(t->pauses.at);
    qn__free(t->residency.at);
    qn__free(t->readings.at);
    qn__free(t->spans.at);
    qn__free(t->looks.at);
    qn__free(t->extents.at);
    qn__free(t->choices);
    qn__free(t->gated.at);
    qn__free(t->hashed.at);
    qn__free(t->hashes);
    qn__free(t->valued.at);
    qn__free(t->values);
    qn__free(t);
}

const char *qn_trace_damage(const qn_trace *t) { return t->damage[0] ? t->damage : NULL; }
void qn_trace_get_info(const qn_trace *t, qn_trace_info *out) { *out = t->info; }

const char *qn_trace_find_note(const qn_trace *t, const char *key)
{
    for (size_t i = 0; i < t->notes.n; i++)
        if (strcmp(t->notes.at[i].key, key) == 0) return t->notes.at[i].value;
    return NULL;
}
