/* SPDX-License-Identifier: MIT */
/* src/base/arena.c -- bump allocation in blocks. Blocks form a stack from newest to oldest; only the newest is bumped.
 * What a reset empties stays in `spare`, oldest first, so that a program that repeats itself finds the same blocks in
 * the same order. Bytes beyond a block's `used` are poisoned in checked builds. */
#include "base/error.h"
#include "base/mem.h"
#include "base/poison.h"
#include "base/str.h"
#include <string.h>

#define BLOCK_BYTES 16384 /* one allocation in some hundreds of small objects, yet little waste in a small arena */
#define ALIGN       16

struct qn_arena_block {
    qn_arena_block *next; /* older, or the next spare */
    size_t size, used;    /* of data[] */
    _Alignas(QN_ALIGN_CPU) char data[];
};

void qn__arena_init(qn_arena *arena, size_t block_bytes) { *arena = (qn_arena){.block_bytes = block_bytes}; }

static void free_list(qn_arena_block *b)
{
    while (b != NULL) {
        qn_arena_block *next = b->next;
        QN_SHOW(b->data, b->size);
        qn__free(b);
        b = next;
    }
}

void qn__arena_deinit(qn_arena *arena)
{
    if (arena == NULL) return;
    qn_arena_block *head = arena->head, *spare = arena->spare;
    *arena = (qn_arena){.block_bytes = arena->block_bytes}; /* before the blocks go: the arena may lie in one of them */
    free_list(head);
    free_list(spare);
}

/* Bytes of padding and object at the end of `used`, or false when they don't fit. */
static bool fits(const qn_arena_block *b, size_t size, size_t align, size_t *pad)
{
    const uintptr_t at = (uintptr_t)(b->data + b->used);
    *pad = (size_t)(-at & (uintptr_t)(align - 1));
    const size_t left = b->size - b->used;
    return *pad <= left && size <= left - *pad;
}

static qn_arena_block *push_block(qn_arena *arena, size_t size, size_t align)
{
    size_t pad, need, total;
    for (qn_arena_block **at = &arena->spare; *at != NULL; at = &(*at)->next) {
        qn_arena_block *b = *at;
        if (!fits(b, size, align, &pad)) continue;
        *at = b->next;
        b->next = arena->head;
        return arena->head = b;
    }
    if (!qn__add_size(size, align > QN_ALIGN_CPU ? align : 0, &need)) return NULL;
    const size_t usual = arena->block_bytes != 0 ? arena->block_bytes : BLOCK_BYTES;
    if (need < usual) need = usual;
    if (!qn__add_size(need, sizeof(qn_arena_block), &total)) return NULL;
    qn_arena_block *b = qn__alloc(total);
    if (b == NULL) return NULL;
    *b = (qn_arena_block){.next = arena->head, .size = need};
    qn__poison(b->data, need);
    return arena->head = b;
}

void *qn__arena_alloc_aligned(qn_arena *arena, size_t size, size_t align)
{
    QN_ASSERT(align != 0 && (align & (align - 1)) == 0);
    if (align < ALIGN) align = ALIGN;
    size_t pad = 0;
    qn_arena_block *b = arena->head;
    if (b == NULL || !fits(b, size, align, &pad)) {
        b = push_block(arena, size, align);
        if (b == NULL || !fits(b, size, align, &pad)) {
            arena->failed = true;
            return NULL;
        }
    }
    char *p = b->data + b->used + pad;
    b->used += pad + size;
    arena->used_bytes += pad + size;
    QN_SHOW(p, size);
    memset(p, 0, size);
    return p;
}

void *qn__arena_alloc(qn_arena *arena, size_t size) { return qn__arena_alloc_aligned(arena, size, ALIGN); }

void *qn__arena_array(qn_arena *arena, size_t count, size_t size)
{
    size_t n;
    if (!qn__mul_size(count, size, &n)) {
        arena->failed = true;
        return NULL;
    }
    return qn__arena_alloc(arena, n);
}

bool qn__arena_room(qn_arena *arena, void *array, int32_t n, int32_t *cap, size_t size)
{
    void *old;
    if (n < *cap) return true;
    if (*cap > INT32_MAX / 2) return arena->failed = true, false;
    const int32_t more = *cap ? 2 * *cap : 16;
    void *p = qn__arena_array(arena, (size_t)more, size);
    if (!p) return false;
    memcpy(&old, array, sizeof old);
    if (n) memcpy(p, old, (size_t)n * size);
    memcpy(array, &p, sizeof p);
    *cap = more;
    return true;
}

char *qn__arena_strndup(qn_arena *arena, const char *s, size_t n)
{
    const char *end = memchr(s, '\0', n);
    const size_t len = end != NULL ? (size_t)(end - s) : n;
    char *copy = len < SIZE_MAX ? qn__arena_alloc(arena, len + 1) : NULL;
    if (copy != NULL) memcpy(copy, s, len);
    return copy;
}

char *qn__arena_strdup(qn_arena *arena, const char *s) { return qn__arena_strndup(arena, s, strlen(s)); }

char *qn__arena_printf(qn_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = qn__vformat(NULL, 0, fmt, args);
    va_end(args);
    char *text = n >= 0 ? qn__arena_alloc(arena, (size_t)n + 1) : NULL;
    if (text == NULL) {
        arena->failed = true;
        return NULL;
    }
    va_start(args, fmt);
    qn__vformat(text, (size_t)n + 1, fmt, args);
    va_end(args);
    return text;
}

qn_arena_mark qn__arena_get_mark(const qn_arena *arena)
{
    return (qn_arena_mark){arena->head, arena->head != NULL ? arena->head->used : 0, arena->used_bytes};
}

static void cut_block(qn_arena_block *b, size_t used)
{
    QN_ASSERT(used <= b->used);
    QN_SHOW(b->data + used, b->used - used); /* padding between objects was hidden */
    qn__poison(b->data + used, b->used - used);
    b->used = used;
}

void qn__arena_reset(qn_arena *arena, qn_arena_mark mark)
{
    while (arena->head != mark.head) {
        qn_arena_block *b = arena->head;
        QN_ASSERT(b != NULL); /* the mark is from another arena, or from a state that a reset has already left */
        if (b == NULL) return;
        arena->head = b->next;
        cut_block(b, 0);
        b->next = arena->spare;
        arena->spare = b;
    }
    if (arena->head != NULL) cut_block(arena->head, mark.used);
    arena->used_bytes = mark.used_bytes;
}
