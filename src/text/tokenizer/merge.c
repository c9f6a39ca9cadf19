/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/merge.c -- see merge.h. */
#include "text/tokenizer/merge.h"
#include "base/mem.h"

void qn__merger_deinit(qn_merger *m)
{
    qn__free(m->symbols);
    qn__free(m->heap);
    *m = (qn_merger){0};
}

void qn__merger_clear(qn_merger *m) { m->n = m->n_heap = 0; }

static bool grow(void **array, size_t *cap, size_t elem_bytes)
{
    size_t bytes;
    const size_t want = *cap ? *cap * 2 : 64;
    if (want < *cap || !qn__mul_size(want, elem_bytes, &bytes)) return false;
    void *p = qn__realloc(*array, bytes);
    if (!p) return false;
    *array = p;
    *cap = want;
    return true;
}

bool qn__merger_add(qn_merger *m, uint32_t pos, uint32_t len, qn_token id)
{
    if (m->n == INT32_MAX) return false;
    if (m->n == m->cap && !grow((void **)&m->symbols, &m->cap, sizeof *m->symbols)) return false;
    const int32_t i = (int32_t)m->n++;
    m->symbols[i] = (qn_symbol){.pos = pos, .len = len, .prev = i - 1, .next = -1, .id = id};
    if (i) m->symbols[i - 1].next = i;
    return true;
}

static void sift_down(qn_candidate_pair *heap, size_t n, size_t i)
{
    const qn_candidate_pair item = heap[i];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && heap[child + 1].key < heap[child].key) child++;
        if (heap[child].key >= item.key) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = item;
}

static void sift_up(qn_candidate_pair *heap, size_t i)
{
    const qn_candidate_pair item = heap[i];
    while (i) {
        const size_t parent = (i - 1) / 2;
        if (heap[parent].key <= item.key) break;
        heap[i] = heap[parent];
        i = parent;
    }
    heap[i] = item;
}

/* Puts the pair (left, right) behind the heap when it may be joined; the caller restores the order. */
static bool consider(qn_merger *m, int32_t left, int32_t right, qn_pair_fn pair, const void *ctx, bool *added)
{
    uint32_t priority;
    qn_token id;
    *added = false;
    if (left < 0 || right < 0 || !pair(ctx, &m->symbols[left], &m->symbols[right], &priority, &id)) return true;
    if (m->n_heap == m->heap_cap && !grow((void **)&m->heap, &m->heap_cap, sizeof *m->heap)) return false;
    m->heap[m->n_heap++] = (qn_candidate_pair){
        .key = (uint64_t)priority << 32 | (uint32_t)left,
        .len = m->symbols[left].len + m->symbols[right].len,
        .right = right,
        .id = id,
    };
    *added = true;
    return true;
}

bool qn__merger_run(qn_merger *m, qn_pair_fn pair, const void *ctx)
{
    bool added;
    for (size_t i = 1; i < m->n; i++)
        if (!consider(m, (int32_t)i - 1, (int32_t)i, pair, ctx, &added)) return false;
    for (size_t i = m->n_heap / 2; i-- > 0;) sift_down(m->heap, m->n_heap, i);

    while (m->n_heap) {
        const qn_candidate_pair top = m->heap[0];
        m->heap[0] = m->heap[--m->n_heap];
        if (m->n_heap) sift_down(m->heap, m->n_heap, 0);

        /* Lengths only grow, or fall to 0 when a symbol is joined: the sum is the old one only if both are as they
         * were. */
        const int32_t l = (int32_t)(uint32_t)top.key;
        qn_symbol *left = &m->symbols[l], *right = &m->symbols[top.right];
        if (!left->len || !right->len || left->len + right->len != top.len) continue;
        left->len = top.len;
        left->id = top.id;
        left->next = right->next;
        right->len = 0;
        if (right->next >= 0) m->symbols[right->next].prev = l;

        if (!consider(m, left->prev, l, pair, ctx, &added)) return false;
        if (added) sift_up(m->heap, m->n_heap - 1);
        if (!consider(m, l, left->next, pair, ctx, &added)) return false;
        if (added) sift_up(m->heap, m->n_heap - 1);
    }
    return true;
}
