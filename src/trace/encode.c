/* SPDX-License-Identifier: MIT */
/* src/trace/encode.c -- see encode.h. Columns have their room from the beginning; steps and marks grow. */
#include "trace/encode.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

enum { KIND, ID, GAP, DURATION, WAITING };
static const size_t widest[QN_TRACE_COLUMNS] = {1, 5, 10, 6, 6}; /* bytes of a row */

bool qn__trace_encoder_init(qn_trace_encoder *e)
{
    bool ok = true;
    for (int i = 0; i < QN_TRACE_COLUMNS; i++) {
        e->column[i] = qn__alloc(QN_TRACE_MAX_ROWS * widest[i]);
        ok = ok && e->column[i];
    }
    ok = qn__str_reserve(&e->steps, 1 << 16) && ok;
    ok = qn__str_reserve(&e->marks, 1 << 12) && ok;
    ok = qn__str_reserve(&e->choices, 1 << 12) && ok;
    ok = qn__str_reserve(&e->gates, 1 << 12) && ok;
    ok = qn__str_reserve(&e->hashes, 1 << 12) && ok;
    ok = qn__str_reserve(&e->counts, 1 << 15) && ok;
    ok = qn__str_reserve(&e->values, 1 << 12) && ok;
    ok = qn__str_reserve(&e->scratch, 1 << 16) && ok;
    return qn__str_reserve(&e->raw, QN_TRACE_MAX_ROWS * 28 + 64) && ok;
}

void qn__trace_encoder_deinit(qn_trace_encoder *e)
{
    for (int i = 0; i < QN_TRACE_COLUMNS; i++) qn__free(e->column[i]);
    qn__str_deinit(&e->steps);
    qn__str_deinit(&e->marks);
    qn__str_deinit(&e->choices);
    qn__str_deinit(&e->gates);
    qn__str_deinit(&e->hashes);
    qn__str_deinit(&e->counts);
    qn__str_deinit(&e->values);
    qn__str_deinit(&e->scratch);
    qn__str_deinit(&e->raw);
}

static uint64_t zigzag(int64_t x) { return (uint64_t)x << 1 ^ (x < 0 ? UINT64_MAX : 0); }

/* The columns while a ring is read: no store of a byte can be one to these. */
typedef struct columns {
    uint8_t *kind, *id, *gap, *duration, *waiting; /* where the next row goes */
    int64_t last_id;
    uint64_t last_end;
} columns;

static uint8_t *put(uint8_t *at, uint64_t x)
{
    for (; x > 127; x >>= 7) *at++ = (uint8_t)(x | 128);
    *at++ = (uint8_t)x;
    return at;
}

static columns put_event(columns c, const qn_trace_slot *s)
{
    *c.kind++ = (uint8_t)s->kind;
    c.id = put(c.id, zigzag((int64_t)s->id - c.last_id));
    c.gap = put(c.gap, zigzag((int64_t)(s->begin - c.last_end)));
    c.duration = put(c.duration, s->duration);
    c.waiting = put(c.waiting, s->waiting);
    c.last_id = (int64_t)s->id;
    c.last_end = s->begin + s->duration;
    return c;
}

/* A block is empty when it is begun. */
static columns first_row(const qn_trace_encoder *e)
{
    return (columns){e->column[KIND], e->column[ID], e->column[GAP], e->column[DURATION], e->column[WAITING], 0,
                     e->base_end};
}

static void rows_put(qn_trace_encoder *e, const columns *c)
{
    const uint8_t *const at[QN_TRACE_COLUMNS] = {c->kind, c->id, c->gap, c->duration, c->waiting};
    for (int i = 0; i < QN_TRACE_COLUMNS; i++) e->used[i] = (size_t)(at[i] - e->column[i]);
    e->n_events = (uint32_t)e->used[KIND];
}

/* ---- slow steps ---- */

static int by_size(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void step_ended(qn_trace_encoder *e, uint64_t ticks)
{
    uint64_t sorted[QN_TRACE_RECENT];
    if (e->if_slow <= 0) return;
    qn_trace_recent *r = &e->recent[e->last.phase];
    ticks /= (uint64_t)(e->last.n_tokens > 0 ? e->last.n_tokens : 1);
    if (r->n >= 8) {
        memcpy(sorted, r->ticks, (size_t)r->n * sizeof sorted[0]);
        qsort(sorted, (size_t)r->n, sizeof sorted[0], by_size);
        if ((double)ticks > (double)e->if_slow * (double)sorted[r->n / 2]) e->slow = true;
    }
    r->ticks[r->next] = ticks;
    r->next = (r->next + 1) % QN_TRACE_RECENT;
    if (r->n < QN_TRACE_RECENT) r->n++;
}

/* ---- records ---- */

static void copy_out(qn_trace_encoder *e, const qn_trace_ring *r, uint64_t at, size_t bytes)
{
    qn__str_clear(&e->scratch);
    for (size_t done = 0; done < bytes; at++) {
        const size_t left = bytes - done, n = left < sizeof(qn_trace_slot) ? left : sizeof(qn_trace_slot);
        qn__str_append(&e->scratch, &r->slots[at & r->mask], n);
        done += n;
    }
}

static void put_column(qn_str *s, const int32_t *x, int32_t n, int stride)
{
    int32_t last = 0;
    for (int32_t i = 0; i < n; i++) {
        qn__put_signed(s, (int64_t)x[(int64_t)i * stride] - last);
        last = x[(int64_t)i * stride];
    }
}

/* Cells that are seen, those that several tokens of a sequence see once; and what all tokens see. */
static void put_sight(qn_str *s, const int32_t *spans, int32_t n, int32_t size)
{
    uint64_t cells = 0, pairs = 0;
    for (int32_t i = 0, end; i < n; i = end) {
        int32_t lo = INT32_MAX, hi = INT32_MIN;
        for (end = i; end < n && spans[end * size] == spans[i * size]; end++) {
            const int32_t first = spans[end * size + 1], last = spans[end * size + 2];
            if (last <= first) continue;
            pairs += (uint64_t)(last - first);
            if (first < lo) lo = first;
            if (last > hi) hi = last;
        }
        if (hi > lo) cells += (uint64_t)((int64_t)hi - lo);
    }
    qn__put_varint(s, cells);
    qn__put_varint(s, pairs);
}

static void step_record(qn_trace_encoder *e, const qn_trace_slot *slot)
{
    qn_trace_step_head h;
    memcpy(&h, e->scratch.data, sizeof h);
    const int32_t *tokens = (const int32_t *)(const void *)(e->scratch.data + sizeof h);
    const int32_t *pos = h.has_tokens ? tokens + h.n_tokens : tokens, *spans = pos + h.n_tokens;
    qn_str *s = &e->steps;
    qn__put_varint(s, slot->waiting);
    qn__put_varint(s, slot->begin);
    qn__put_varint(s, h.plan);
    qn__put_varint(s, h.session);
    qn__put_varint(s, (uint64_t)h.phase);
    qn__put_varint(s, (uint64_t)h.n_tokens);
    qn__put_varint(s, (uint64_t)h.n_out);
    qn__put_varint(s, (uint64_t)h.n_sights);
    qn__put_varint(s, h.has_tokens ? 1 : 0);
    if (h.has_tokens) put_column(s, tokens, h.n_tokens, 1);
    put_column(s, pos, h.n_tokens, 1);
    if (h.n_sights > 0) put_column(s, spans, h.n_tokens, h.span_size);
    for (int32_t k = 0; k < h.n_sights; k++)
        put_sight(s, spans + (int64_t)k * h.n_tokens * h.span_size, h.n_tokens, h.span_size);
    e->last = h;
    e->n_steps++;
}

static void mark_record(qn_trace_encoder *e, const qn_trace_slot *slot)
{
    qn__put_varint(&e->marks, slot->begin);
    qn__put_varint(&e->marks, slot->waiting); /* its duration */
    qn__put_text(&e->marks, e->scratch.data, e->scratch.len);
    e->n_marks++;
}

/* The step is the ring's that is in force. */
static void ids_record(qn_trace_encoder *e, uint64_t step)
{
    qn_trace_ids_head h;
    memcpy(&h, e->scratch.data, sizeof h);
    qn__put_varint(&e->choices, step);
    qn__put_varint(&e->choices, (uint64_t)h.node);
    qn__put_varint(&e->choices, (uint64_t)h.n_ids);
    put_column(&e->choices, (const int32_t *)(const void *)(e->scratch.data + sizeof h), h.n_ids, 1);
    e->n_choices++;
}

static void gates_record(qn_trace_encoder *e, uint64_t step)
{
    qn_trace_gates_head h;
    memcpy(&h, e->scratch.data, sizeof h);
    qn__put_varint(&e->gates, step);
    qn__put_varint(&e->gates, (uint64_t)h.node);
    qn__put_varint(&e->gates, (uint64_t)h.n);
    qn__str_append(&e->gates, e->scratch.data + sizeof h, (size_t)h.n * sizeof(float));
    e->n_gates++;
}

static void hashes_record(qn_trace_encoder *e, const qn_trace_slot *slot)
{
    qn_trace_hashes_head h;
    memcpy(&h, e->scratch.data, sizeof h);
    const char *items = e->scratch.data + sizeof h;
    qn__put_varint(&e->hashes, slot->waiting);
    qn__put_varint(&e->hashes, (uint64_t)h.node);
    qn__put_varint(&e->hashes, (uint64_t)h.n);
    put_column(&e->hashes, (const int32_t *)(const void *)items, h.n, 1);
    qn__str_append(&e->hashes, items + (size_t)h.n * sizeof(int32_t), (size_t)h.n * sizeof(uint64_t));
    e->n_hashes++;
}

/* The numbers of a row as they stand: four F32, four of 32 bits. */
static void values_record(qn_trace_encoder *e, const qn_trace_slot *slot)
{
    qn_trace_values_head h;
    memcpy(&h, e->scratch.data, sizeof h);
    const char *rows = e->scratch.data + sizeof h;
    qn_str *s = &e->values;
    int32_t last = 0;
    qn__put_varint(s, slot->waiting);
    qn__put_varint(s, (uint64_t)h.node);
    qn__put_varint(s, h.size);
    qn__put_varint(s, (uint64_t)h.n);
    for (int32_t i = 0; i < h.n; i++) {
        qn_trace_value v;
        memcpy(&v, rows + (size_t)i * sizeof v, sizeof v);
        const float sums[] = {v.min, v.max, v.mean, v.rms};
        const uint32_t counts[] = {v.n_nan, v.n_inf, v.n_zero, (uint32_t)v.channel};
        qn__put_signed(s, (int64_t)v.item - last);
        qn__str_append(s, sums, sizeof sums);
        qn__str_append(s, counts, sizeof counts);
        last = v.item;
    }
    e->n_values++;
}

static void counts_record(qn_trace_encoder *e, const qn_trace_slot *slot)
{
    qn_trace_counts c;
    memcpy(&c, e->scratch.data, sizeof c);
    const int64_t row[] = {c.minor_faults, c.major_faults, c.waits, c.preemptions, c.read_bytes};
    qn__put_varint(&e->counts, slot->waiting);
    qn__put_varint(&e->counts, slot->begin);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) qn__put_signed(&e->counts, row[i]);
    e->n_counts++;
}

/* ---- a ring ---- */

static void take_record(qn_trace_encoder *e, const qn_trace_slot *slot, uint64_t step)
{
    if (e->scratch.failed) return;
    if (slot->id == QN_TRACE_RECORD_step) step_record(e, slot);
    if (slot->id == QN_TRACE_RECORD_mark) mark_record(e, slot);
    if (slot->id == QN_TRACE_RECORD_ids) ids_record(e, step);
    if (slot->id == QN_TRACE_RECORD_gates) gates_record(e, step);
    if (slot->id == QN_TRACE_RECORD_hashes) hashes_record(e, slot);
    if (slot->id == QN_TRACE_RECORD_counts) counts_record(e, slot);
    if (slot->id == QN_TRACE_RECORD_values) values_record(e, slot);
}

void qn__trace_encode(qn_trace_encoder *e, qn_trace_ring *r, uint64_t limit)
{
    uint64_t at = atomic_load_explicit(&r->tail, memory_order_relaxed);
    e->base_end = at == limit ? 0 : r->slots[at & r->mask].begin;
    e->base_step = r->run;
    e->base_member = r->member;
    columns c = first_row(e);
    while (at < limit && c.kind < e->column[KIND] + QN_TRACE_MAX_ROWS) {
        const qn_trace_slot *slot = &r->slots[at & r->mask];
        if (slot->kind == QN_TRACE_SLOT_record) {
            const size_t bytes = slot->duration;
            copy_out(e, r, at + 1, bytes);
            take_record(e, slot, r->run);
            at += 1 + (bytes + sizeof *slot - 1) / sizeof *slot;
            continue;
        }
        c = put_event(c, slot);
        if (slot->kind == QN_TRACE_run) {
            r->run = slot->waiting;
            r->member = (int32_t)slot->id;
        } else if (slot->kind == QN_TRACE_step) {
            step_ended(e, slot->duration);
        }
        at++;
    }
    rows_put(e, &c);
    if (!e->any_node) e->any_node = memchr(e->column[KIND], QN_TRACE_node, e->n_events) != NULL;
    atomic_store_explicit(&r->tail, at, memory_order_release);
}

bool qn__trace_encode_events(qn_trace_encoder *e, size_t *n_alike)
{
    qn__str_clear(&e->raw);
    qn__put_varint(&e->raw, e->base_end);
    qn__put_varint(&e->raw, e->base_step);
    qn__put_signed(&e->raw, e->base_member);
    for (int i = 0; i < QN_TRACE_COLUMNS; i++) {
        qn__put_varint(&e->raw, e->used[i]);
        qn__str_append(&e->raw, e->column[i], e->used[i]);
        if (i == ID) *n_alike = e->raw.len;
    }
    return !e->raw.failed;
}

void qn__trace_encoder_clear(qn_trace_encoder *e)
{
    memset(e->used, 0, sizeof e->used);
    e->n_events = e->n_steps = e->n_marks = e->n_choices = e->n_gates = e->n_hashes = e->n_counts = e->n_values = 0;
    qn__str_clear(&e->choices);
    qn__str_clear(&e->gates);
    qn__str_clear(&e->hashes);
    qn__str_clear(&e->counts);
    qn__str_clear(&e->values);
    qn__str_clear(&e->steps);
    qn__str_clear(&e->marks);
}
