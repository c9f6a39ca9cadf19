/* SPDX-License-Identifier: MIT */
/* src/model/memory.c -- see memory.h for what always holds. */
#include "model/memory.h"
#include "base/mem.h"
#include <string.h>

uint64_t qn__memory_bytes(const qn_kv_size *sizes, int32_t n_groups)
{
    uint64_t bytes = 2 * (uint64_t)sizes[0].n_seq * sizeof(int32_t);
    for (int32_t g = 0; g < n_groups; g++) bytes += qn__kv_bytes(&sizes[g]);
    return bytes;
}

qn_status qn__memory_init(qn_memory *m, const qn_kv_size *sizes, int32_t n_groups, qn_error *err)
{
    *m = (qn_memory){.least = qn__calloc((size_t)sizes[0].n_seq, sizeof(*m->least)),
                     .count = qn__calloc((size_t)sizes[0].n_seq, sizeof(*m->count))};
    qn_status status = m->least && m->count ? QN_OK : QN_FAIL_NOMEM(err, 2 * (size_t)sizes[0].n_seq * sizeof(int32_t));
    for (int32_t g = 0; g < n_groups && status == QN_OK; g++) {
        status = qn__kv_init(&m->kv[g], &sizes[g], err);
        if (status == QN_OK) m->n_groups = g + 1;
    }
    if (status != QN_OK) qn__memory_deinit(m);
    return status;
}

void qn__memory_deinit(qn_memory *m)
{
    for (int32_t g = 0; g < m->n_groups; g++) qn__kv_deinit(&m->kv[g]);
    qn__free(m->least);
    qn__free(m->count);
    *m = (qn_memory){0};
}

/* ---- what can be gone on from ---- */

static int32_t pos_at(const qn_memory *m, int32_t seq, int32_t i) { return m->kv->pos[qn__kv_list(m->kv, seq)[i]]; }

/* Does a token at position pos see nothing of what group g forgot, whose last entry has position `last`? */
static bool beyond(const qn_kv *kv, int32_t last, int32_t pos) { return (int64_t)last + kv->size.window <= pos; }

int32_t qn__memory_back(const qn_memory *m, int32_t seq)
{
    int64_t back = 0;
    for (int32_t g = 1; g < m->n_groups; g++) {
        const qn_kv *kv = &m->kv[g];
        const int64_t pos = kv->gone[seq] ? (int64_t)pos_at(m, seq, kv->gone[seq] - 1) + kv->size.window : 0;
        if (pos > back) back = pos;
    }
    return (int32_t)(back < INT32_MAX ? back : INT32_MAX);
}

bool qn__memory_sees(const qn_memory *m, int32_t seq, int32_t pos)
{
    for (int32_t g = 1; g < m->n_groups; g++) {
        const qn_kv *kv = &m->kv[g];
        if (kv->gone[seq] && !beyond(kv, pos_at(m, seq, kv->gone[seq] - 1), pos)) return false;
    }
    return true;
}

/* ---- a step ---- */

void qn__memory_begin(qn_memory *m) { memset(m->count, 0, (size_t)m->kv->size.n_seq * sizeof(*m->count)); }

void qn__memory_expect(qn_memory *m, int32_t seq, int32_t pos)
{
    if (m->count[seq]++ == 0 || pos < m->least[seq]) m->least[seq] = pos;
}

/* Entries of a list that must go for the step. */
static int32_t excess(const qn_memory *m, const qn_kv *kv, int32_t seq)
{
    const int64_t n = (int64_t)kv->len[seq] + m->count[seq] - kv->size.most;
    return m->count[seq] && n > 0 ? (int32_t)n : 0;
}

bool qn__memory_make_room(qn_memory *m, int32_t *seq)
{
    for (int32_t g = 1; g < m->n_groups; g++)
        for (int32_t q = 0; q < m->kv->size.n_seq; q++) {
            const qn_kv *kv = &m->kv[g];
            const int32_t n = excess(m, kv, q);
            *seq = q;
            if (n > 0 && (n > kv->len[q] || n > qn__kv_lower(kv, q, m->least[q] - kv->size.window + 1))) return false;
        }
    for (int32_t g = 1; g < m->n_groups; g++)
        for (int32_t q = 0; q < m->kv->size.n_seq; q++) {
            const int32_t n = excess(m, &m->kv[g], q);
            if (n > 0) qn__kv_forget(&m->kv[g], q, n);
        }
    return true;
}

bool qn__memory_add(qn_memory *m, int32_t seq, int32_t pos, qn_token token, int32_t *rows, int64_t stride)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const int32_t cell = rows[g * stride] = qn__kv_add(&m->kv[g], seq, pos, token);
        if (cell >= 0) continue;
        while (g-- > 0) qn__kv_remove(&m->kv[g], seq, pos, pos + 1);
        return false;
    }
    return true;
}

void qn__memory_take_back(qn_memory *m, int32_t seq, int32_t pos)
{
    for (int32_t g = 0; g < m->n_groups; g++) qn__kv_remove(&m->kv[g], seq, pos, pos + 1);
}

/* ---- sequences ---- */

/* Entries [lo, hi) of a sequence, by position. */
typedef struct range {
    int32_t lo, hi;
} range;

static range range_of(const qn_memory *m, int32_t seq, int32_t p0, int32_t p1)
{
    const range r = {qn__kv_lower(m->kv, seq, p0), qn__kv_lower(m->kv, seq, p1)};
    return r.lo < r.hi ? r : (range){r.lo, r.lo};
}

/* How many of a range group g forgot. */
static int32_t gone_of(const qn_kv *kv, int32_t seq, range r)
{
    const int32_t gone = kv->gone[seq], end = r.hi < gone ? r.hi : gone;
    return end > r.lo ? end - r.lo : 0;
}

bool qn__memory_remove(qn_memory *m, int32_t seq, int32_t p0, int32_t p1)
{
    const range r = range_of(m, seq, p0, p1);
    const bool back = r.hi == m->kv->len[seq] && r.lo > 0 && r.lo < r.hi; /* the rest goes on at p0 */
    for (int32_t g = 1; g < m->n_groups && back; g++) {
        const qn_kv *kv = &m->kv[g];
        const int32_t gone = kv->gone[seq] < r.lo ? kv->gone[seq] : r.lo;
        if (gone && !beyond(kv, pos_at(m, seq, gone - 1), p0)) return false;
    }
    for (int32_t g = 1; g < m->n_groups; g++) {
        qn_kv *kv = &m->kv[g];
        const int32_t gone = kv->gone[seq] - gone_of(kv, seq, r);
        qn__kv_remove(kv, seq, p0, p1);
        qn__kv_set_gone(kv, seq, gone);
    }
    qn__kv_remove(m->kv, seq, p0, p1);
    return true;
}

bool qn__memory_copy(qn_memory *m, int32_t src, int32_t dst, int32_t p0, int32_t p1)
{
    const range r = range_of(m, src, p0, p1);
    for (int32_t g = 1; g < m->n_groups; g++) {
        const qn_kv *kv = &m->kv[g];
        const int32_t n = gone_of(kv, src, r);
        if (n && !beyond(kv, pos_at(m, src, r.lo + n - 1), pos_at(m, src, r.hi - 1) + 1)) return false;
    }
    for (int32_t g = 0; g < m->n_groups; g++) qn__kv_copy(&m->kv[g], src, dst, p0, p1, gone_of(&m->kv[g], src, r));
    return true;
}

bool qn__memory_can_shift(const qn_memory *m, int32_t seq, int32_t p0, int32_t p1, int32_t delta)
{
    const range r = range_of(m, seq, p0, p1);
    const int32_t last = m->kv->len[seq] - 1;
    for (int32_t g = 1; g < m->n_groups; g++) {
        const qn_kv *kv = &m->kv[g];
        const int32_t i = kv->gone[seq] - 1; /* the last that was forgotten */
        if (i < 0) continue;
        const int32_t end = pos_at(m, seq, last) + (last < r.hi ? delta : 0);
        if (!beyond(kv, pos_at(m, seq, i) + (i >= r.lo && i < r.hi ? delta : 0), end + 1)) return false;
    }
    return true;
}
