/* SPDX-License-Identifier: MIT */
/* src/format/names.c -- the sorted name index, and the sort under it. */
#include "format/gguf_file.h"
#include "base/str.h"
#include <string.h>

static void sift_down(void *ctx, size_t root, size_t n, qn_less_fn less, qn_swap_fn swap)
{
    for (;;) {
        size_t child = 2 * root + 1;
        if (child >= n) return;
        if (child + 1 < n && less(ctx, child, child + 1)) child++;
        if (!less(ctx, root, child)) return;
        swap(ctx, root, child);
        root = child;
    }
}

void qn__sort(void *ctx, size_t n, qn_less_fn less, qn_swap_fn swap)
{
    for (size_t i = n / 2; i-- > 0;) sift_down(ctx, i, n, less, swap);
    for (size_t end = n; end-- > 1;) {
        swap(ctx, 0, end);
        sift_down(ctx, 0, end, less, swap);
    }
}

static int slot_order(const qn_name_slot *a, const qn_name_slot *b)
{
    if (a->hash != b->hash) return a->hash < b->hash ? -1 : 1;
    return strcmp(a->name, b->name);
}

static bool slot_less(const void *ctx, size_t a, size_t b)
{
    const qn_name_slot *slot = ctx;
    const int order = slot_order(&slot[a], &slot[b]);
    return order != 0 ? order < 0 : slot[a].item < slot[b].item;
}

static void slot_swap(void *ctx, size_t a, size_t b)
{
    qn_name_slot *slot = ctx;
    const qn_name_slot tmp = slot[a];
    slot[a] = slot[b];
    slot[b] = tmp;
}

qn_status qn__names_build(qn_name_index *index, qn_arena *arena, const void *items, size_t stride, size_t n,
                          qn_error *err)
{
    *index = (qn_name_index){0};
    if (n == 0) return QN_OK;
    qn_name_slot *slot = qn__arena_array(arena, n, sizeof *slot);
    if (!slot) return QN_FAIL_NOMEM(err, n * sizeof *slot);
    for (size_t i = 0; i < n; i++) {
        const char *name;
        memcpy(&name, (const char *)items + i * stride, sizeof name);
        slot[i] = (qn_name_slot){qn__hash(QN_HASH_INIT, name, strlen(name)), name, (uint32_t)i};
    }
    qn__sort(slot, n, slot_less, slot_swap);
    *index = (qn_name_index){slot, n};
    return QN_OK;
}

bool qn__names_twice(const qn_name_index *index, uint32_t *first, uint32_t *second)
{
    for (size_t i = 1; i < index->n; i++) {
        if (slot_order(&index->slot[i - 1], &index->slot[i]) != 0) continue;
        *first = index->slot[i - 1].item;
        *second = index->slot[i].item;
        return true;
    }
    return false;
}

int64_t qn__names_find(const qn_name_index *index, const char *name)
{
    const qn_name_slot want = {qn__hash(QN_HASH_INIT, name, strlen(name)), name, 0};
    size_t low = 0, high = index->n;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const int order = slot_order(&index->slot[mid], &want);
        if (order == 0) return index->slot[mid].item;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return -1;
}
