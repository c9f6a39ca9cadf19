/* SPDX-License-Identifier: MIT */
/* src/base/mem.h -- the only way to memory: the allocator hook and arenas.
 * Nothing above base/ calls malloc. Every size that comes from a file or a user passes through the overflow-checked
 * forms. */
#ifndef QN_BASE_MEM_H
#define QN_BASE_MEM_H

#include <quern/base.h>

#define QN_ALIGN_CPU 64  /* one cache line and one AVX-512 register */
#define QN_ALIGN_GPU 256 /* CUDA's and OpenCL's transfer and binding granularity */

static inline size_t qn__align_up(size_t n, size_t align) { return (n + align - 1) & ~(align - 1); }
/* False on overflow; *out untouched then. */
bool qn__mul_size(size_t a, size_t b, size_t *out);
bool qn__add_size(size_t a, size_t b, size_t *out);

/* Memory from the hook. NULL when there is none (size 0 gives a valid pointer). The size is kept in a header before the
 * block, so qn__free and qn__realloc need no size. Contents of qn__alloc are undefined, qn__calloc's are zero.
 * Alignment of the plain forms is QN_ALIGN_CPU. */
void *qn__alloc(size_t size);
void *qn__alloc_aligned(size_t size, size_t align);
void *qn__calloc(size_t count, size_t size);
void *qn__realloc(void *ptr, size_t size); /* the old block stays valid on failure */
void qn__free(void *ptr);
char *qn__strdup(const char *s);

/* ---- arena: many small objects with one lifetime. The owner of an arena is usually its first allocation. ---- */
typedef struct qn_arena_block qn_arena_block;
typedef struct qn_arena {
    qn_arena_block *head; /* newest block */
    /* blocks that a reset emptied, kept for reuse: scratch in a steady state allocates nothing */
    qn_arena_block *spare;
    size_t block_bytes; /* size of a fresh block; 0 means 16 KiB */
    size_t used_bytes;  /* sum over live allocations, alignment included */
    bool failed;        /* sticky: set when an allocation failed, for builders that check once at the end */
} qn_arena;
typedef struct qn_arena_mark {
    qn_arena_block *head;
    size_t used;
    size_t used_bytes;
} qn_arena_mark;

void qn__arena_init(qn_arena *arena, size_t block_bytes);
void qn__arena_deinit(qn_arena *arena);
void *qn__arena_alloc(qn_arena *arena, size_t size); /* 16-byte aligned, zeroed; NULL on failure */
void *qn__arena_alloc_aligned(qn_arena *arena, size_t size, size_t align);
void *qn__arena_array(qn_arena *arena, size_t count, size_t size); /* zeroed; NULL on overflow too */
/* Room for one more than the n elements, of *cap, of the array that the pointer at `array` points to: twice as many in
 * a new place; what was there stays in the arena. False: no memory, and all is as before. */
bool qn__arena_room(qn_arena *arena, void *array, int32_t n, int32_t *cap, size_t size);
char *qn__arena_strdup(qn_arena *arena, const char *s);
char *qn__arena_strndup(qn_arena *arena, const char *s, size_t n);
char *qn__arena_printf(qn_arena *arena, const char *fmt, ...) QN_PRINTF(2, 3);
qn_arena_mark qn__arena_get_mark(const qn_arena *arena);
/* ends what came after; poisoned in checked builds */
void qn__arena_reset(qn_arena *arena, qn_arena_mark mark);

#endif
