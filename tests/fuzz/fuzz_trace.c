/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_trace.c -- the bytes as a recording: as they are; and as payloads (a byte kind, a byte rows, two
 * bytes length, the payload), which are put into blocks with the right checksums, so that what is behind those is
 * reached. What opens is walked whole, with every cost, and what it says of files is worked out. Damage is one line
 * that names a byte of the file. */
#include "require.h"
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static volatile double sink;

static bool touch(void *ctx, const qn_trace_event *e)
{
    uint64_t *n = ctx;
    REQUIRE(e->kind > QN_TRACE_run && e->kind < QN_TRACE_KIND_COUNT && e->lane);
    if (e->node) {
        REQUIRE(e->step && e->node->id < e->step->plan->n_nodes);
        const qn_trace_cost c = qn_trace_cost_of(e->node, e->step);
        sink += c.weight_bytes + c.ops + (double)strlen(e->node->name) + (double)strlen(e->node->op);
    }
    if (e->text) sink += (double)strlen(e->text);
    ++*n;
    return true;
}

static void use_step(const qn_trace_step *s)
{
    REQUIRE(s->plan && s->phase >= 0 && s->phase < QN_TRACE_PHASE_COUNT);
    for (int32_t i = 0; i < s->n_tokens; i++)
        sink += (double)s->pos[i] + (s->tokens ? s->tokens[i] : 0) + (s->seq ? s->seq[i] : 0);
    for (int32_t i = 0; i < s->n_sights; i++) sink += (double)s->sights[i].cells;
    for (int32_t i = 0; i < s->n_choices; i++) {
        REQUIRE(s->choices[i].n_distinct <= s->choices[i].n_ids);
        for (int32_t k = 0; k < s->choices[i].n_ids; k++)
            sink += s->choices[i].ids[k] + (double)(s->choices[i].gates ? s->choices[i].gates[k] : 0);
    }
    for (int32_t i = 0; i < s->n_values; i++) {
        const qn_trace_values *v = &s->values[i];
        REQUIRE(v->node >= 0 && v->node < s->plan->n_nodes && v->n > 0);
        for (int32_t k = 0; k < v->n; k++) {
            REQUIRE(v->rows[k].item >= -1 && v->rows[k].item < s->n_tokens);
            sink += (double)v->rows[k].n_nan + (double)v->rows[k].channel;
        }
    }
    for (int32_t i = 0; i < s->n_hashes; i++) {
        const qn_trace_hashes *h = &s->hashes[i];
        REQUIRE(h->node >= 0 && h->node < s->plan->n_nodes && h->n >= 0);
        for (int32_t k = 0; k < h->n; k++) sink += h->items[k] + (double)(h->hash[k] & 1);
    }
}

static void use_plan(const qn_trace_plan *p)
{
    for (int32_t i = 0; i < p->n_nodes; i++) {
        const qn_trace_node *n = &p->nodes[i];
        REQUIRE(n->id == i && n->root >= 0 && n->root <= i && n->place < p->n_places && n->last_use <= p->n_nodes);
        for (int32_t k = 0; k < n->n_src; k++) REQUIRE(n->src[k] >= 0 && n->src[k] <= i);
        for (int32_t k = 0; k < n->rank; k++) REQUIRE(n->shape[k] >= 0);
        sink += (double)strlen(n->name);
    }
}

static bool use_touch(void *ctx, const qn_trace_touch *touch)
{
    uint64_t *left = ctx;
    REQUIRE(touch->node && touch->weight && touch->bytes > 0 && touch->offset + touch->bytes > touch->offset);
    REQUIRE(touch->touched >= 0 && touch->touched <= (double)touch->bytes);
    return --*left > 0;
}

/* What the kernel said, and what is made of it. */
static void use_bytes(qn_trace *t, const qn_trace_info *info)
{
    const qn_trace_extent *x;
    int64_t n;
    qn_error err;
    qn_trace_curves curves;
    qn_trace_cell cells[5];
    for (int64_t i = 0; i < info->n_faults; i++) {
        const qn_trace_fault *f = &info->faults[i];
        REQUIRE(f->ns >= -1 && f->file >= -1 && (i == 0 || info->faults[i - 1].at_ns <= f->at_ns));
        REQUIRE(!f->lane || (f->lane >= info->lanes && f->lane < info->lanes + info->n_lanes));
    }
    for (int64_t i = 0; i < info->n_pauses; i++) REQUIRE(info->pauses[i].ns >= 0);
    for (int64_t i = 0; i < info->n_residency; i++)
        for (uint32_t k = 0; k < info->residency[i].n; k++) sink += info->residency[i].pages[k];
    for (int i = 0; i < info->n_files; i++) sink += (double)strlen(info->files[i].residency);
    for (int64_t i = 0; i < info->n_steps; i++) {
        uint64_t left = 10000;
        REQUIRE(info->steps[i].read_bytes >= -1 && info->steps[i].faults >= -1 && info->steps[i].preemptions >= -1);
        qn_trace_touches(&info->steps[i], use_touch, &left);
    }
    REQUIRE(qn_trace_get_extents(t, &x, &n, &err) == QN_OK);
    for (int64_t i = 0; i < n; i++) {
        REQUIRE(x[i].ever <= x[i].bytes && x[i].touched >= 0 && x[i].unused <= x[i].resident);
        REQUIRE(x[i].resident <= (int64_t)(x[i].bytes < INT64_MAX ? x[i].bytes : INT64_MAX));
    }
    for (int i = 0; i < info->n_files && info->n_steps > 0; i++) {
        REQUIRE(qn_trace_get_cells(t, info->files[i].id, 0, info->files[i].bytes / 5 + 1, 5, 0, info->n_steps, cells,
                                   &err) == QN_OK ||
                err.text[0]);
        for (int k = 0; k < 5; k++) sink += cells[k].touched;
        if (i > 8) break;
    }
    if (info->n_steps > 2) return; /* each plays the same again */
    REQUIRE(qn_trace_get_curves(t, -1, &curves, &err) == QN_OK);
    for (uint64_t memory = 1; memory < UINT64_MAX / 4096; memory *= 4096) {
        qn_trace_paging p;
        REQUIRE(qn_trace_get_paging(t, memory, memory, &p, &err) == QN_OK);
        REQUIRE(p.n_tokens >= 0 && p.kernel_bytes >= 0 && p.ahead_bytes >= 0 && p.expert_bytes >= -1);
    }
    for (int k = 0; k < QN_TRACE_CURVE_POINTS && curves.n_steps > 0; k++)
        for (int p = 0; p < QN_TRACE_POLICY_COUNT; p++)
            REQUIRE(curves.read[p][k] >= 0 && curves.read[p][k] <= curves.touched);
}

static void read_trace(const uint8_t *data, size_t size)
{
    qn_trace *t = NULL;
    qn_trace_info info;
    qn_error err = {0};
    uint64_t n = 0;
    const qn_status status = qn__trace_read(data, size, &t, &err);
    if (status != QN_OK) {
        REQUIRE(status == QN_STATUS_format && err.text[0] && !strchr(err.text, '\n') && !t);
        return;
    }
    const char *damage = qn_trace_damage(t);
    REQUIRE(!damage || (strncmp(damage, "at byte ", 8) == 0 && !strchr(damage, '\n')));
    REQUIRE(!damage || strtoull(damage + 8, NULL, 10) <= size);
    qn_trace_get_info(t, &info);
    for (int i = 0; i < info.n_plans; i++) use_plan(info.plans[i]);
    for (int64_t i = 0; i < info.n_steps; i++) use_step(&info.steps[i]);
    for (int i = 0; i < info.n_notes; i++) REQUIRE(qn_trace_find_note(t, info.notes[i].key));
    REQUIRE(qn_trace_walk(t, touch, &n, &err) == QN_OK);
    REQUIRE(n <= info.events);
    REQUIRE(damage || n == info.events);
    qn_trace_difference d;
    if (qn_trace_compare_values(t, t, &d, &err) == QN_OK) REQUIRE(d.differ == 0 && d.alone == 0 && !d.node);
    use_bytes(t, &info);
    qn_trace_close(t);
}

static void put(uint8_t *at, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(x >> (8 * i));
}

/* A block around the payload; how long it is. */
static size_t wrap(uint8_t *to, int kind, int rows, const uint8_t *payload, size_t n)
{
    memset(to, 0, QN_TRACE_BLOCK_BYTES);
    put(to, QN_TRACE_BLOCK_MAGIC, 4);
    put(to + 4, (uint64_t)kind, 2);
    put(to + 12, (uint64_t)rows, 4);
    put(to + 16, n, 4);
    put(to + 20, n, 4);
    memcpy(to + QN_TRACE_BLOCK_BYTES, payload, n);
    put(to + 32, crc32(crc32(0, NULL, 0), payload, (uInt)n), 4);
    put(to + 36, crc32(crc32(0, NULL, 0), to, 36), 4);
    return QN_TRACE_BLOCK_BYTES + n;
}

static void read_payloads(const uint8_t *data, size_t size)
{
    uint8_t *file = malloc(16 + size * 12 + QN_TRACE_BLOCK_BYTES);
    if (!file) return;
    memcpy(file, QN_TRACE_MAGIC, 8);
    put(file + 8, QN_TRACE_VERSION, 4);
    put(file + 12, QN_TRACE_ORDER, 4);
    size_t used = 16;
    for (size_t at = 0; at + 4 <= size;) {
        const size_t said = data[at + 2] | (size_t)data[at + 3] << 8, left = size - at - 4,
                     n = said < left ? said : left;
        used += wrap(file + used, data[at], data[at + 1], data + at + 4, n);
        at += 4 + n;
    }
    read_trace(file, used);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_trace(data, size);
    read_payloads(data, size);
    return 0;
}
