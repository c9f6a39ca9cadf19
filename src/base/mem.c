/* SPDX-License-Identifier: MIT */
/* src/base/mem.c -- the allocator hook. Every block carries a header just before the pointer that the caller sees; what
 * the hook gave out is `lead` bytes earlier, so any alignment costs no more than one extra unit of it. Counted bytes
 * are what the hook was asked for, headers included: the figures that an operating system would agree with. */
#include "base/error.h"
#include "base/mem.h"
#include "base/metrics.h"
#include <stdlib.h>
#include <string.h>

typedef struct header {
    size_t total; /* as asked from the hook */
    size_t lead;  /* from the hook's pointer to the caller's; also the block's alignment */
    uint64_t magic;
} header;

#define MAGIC_LIVE UINT64_C(0x717565726e2b2b2b)
#define MAGIC_DEAD UINT64_C(0x717565726e2d2d2d)

_Static_assert(sizeof(header) <= QN_ALIGN_CPU, "the header must fit before a block of the plain alignment");

static void *default_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    void *p = NULL;
    return posix_memalign(&p, align, size) == 0 ? p : NULL;
}

static void default_release(void *ctx, void *ptr, size_t size)
{
    (void)ctx, (void)size;
    free(ptr);
}

static const qn_allocator system_allocator = {default_alloc, default_release, NULL};
static qn_allocator hook = {default_alloc, default_release, NULL};

void qn_set_allocator(const qn_allocator *allocator) { hook = allocator != NULL ? *allocator : system_allocator; }
void qn_free(void *ptr) { qn__free(ptr); }

bool qn__mul_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

bool qn__add_size(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static void count_alloc(size_t total)
{
    QN_COUNT(allocs, 1);
    const uint64_t live = atomic_fetch_add_explicit(&qn__gauges.live_bytes, total, memory_order_relaxed) + total;
    uint64_t peak = QN_GAUGE_READ(peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak_explicit(&qn__gauges.peak_bytes, &peak, live,
                                                                 memory_order_relaxed, memory_order_relaxed)) {}
}

static header *header_of(void *ptr) { return (header *)((char *)ptr - sizeof(header)); }

void *qn__alloc_aligned(size_t size, size_t align)
{
    QN_ASSERT(align != 0 && (align & (align - 1)) == 0);
    const size_t lead = align < QN_ALIGN_CPU ? QN_ALIGN_CPU : align;
    size_t total;
    if (!qn__add_size(size, lead, &total) || total > PTRDIFF_MAX) return NULL;
    char *raw = hook.alloc(hook.ctx, total, lead);
    if (raw == NULL) return NULL;
    QN_ASSERT(((uintptr_t)raw & (lead - 1)) == 0);
    count_alloc(total);
    *header_of(raw + lead) = (header){total, lead, MAGIC_LIVE};
    return raw + lead;
}

void *qn__alloc(size_t size) { return qn__alloc_aligned(size, QN_ALIGN_CPU); }

void *qn__calloc(size_t count, size_t size)
{
    size_t n;
    void *p = qn__mul_size(count, size, &n) ? qn__alloc(n) : NULL;
    if (p != NULL) memset(p, 0, n);
    return p;
}

void *qn__realloc(void *ptr, size_t size)
{
    if (ptr == NULL) return qn__alloc(size);
    const header *h = header_of(ptr);
    QN_ASSERT(h->magic == MAGIC_LIVE);
    const size_t cap = h->total - h->lead;
    if (size <= cap && size >= cap / 2) return ptr; /* a small cut is not worth a copy */
    void *fresh = qn__alloc_aligned(size, h->lead);
    if (fresh == NULL) return NULL;
    memcpy(fresh, ptr, cap < size ? cap : size);
    qn__free(ptr);
    return fresh;
}

void qn__free(void *ptr)
{
    if (ptr == NULL) return;
    header *h = header_of(ptr);
    QN_ASSERT(h->magic == MAGIC_LIVE);
    const size_t total = h->total;
    char *raw = (char *)ptr - h->lead;
    h->magic = MAGIC_DEAD;
    QN_COUNT(frees, 1);
    QN_GAUGE_SUB(live_bytes, total);
    hook.release(hook.ctx, raw, total);
}

char *qn__strdup(const char *s)
{
    const size_t n = strlen(s) + 1;
    char *copy = qn__alloc(n);
    if (copy != NULL) memcpy(copy, s, n);
    return copy;
}
