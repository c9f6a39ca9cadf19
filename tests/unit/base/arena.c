/* SPDX-License-Identifier: MIT */
/* tests/unit/base/arena.c -- arenas: alignment, zeroing, marks, reuse, self-containment, every N-th allocation failing.
 */
#include "base/mem.h"
#include "base/poison.h"
#include "failing.h"

static void aligned_and_zeroed(void **state)
{
    (void)state;
    qn_arena a;
    books_open(-1);
    qn__arena_init(&a, 0);
    for (size_t i = 0; i < 3000; i++) {
        const size_t align = (size_t)1 << (i % 13), size = i * 7 % 400;
        unsigned char *p = qn__arena_alloc_aligned(&a, size, align);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % align, 0);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t k = 0; k < size; k++) assert_int_equal(p[k], 0);
        memset(p, 0xEE, size);
    }
    assert_false(a.failed);
    qn__arena_deinit(&a);
    qn__arena_deinit(&a); /* twice is fine */
    qn__arena_deinit(NULL);
    books_close();
}

static void objects_do_not_overlap(void **state)
{
    (void)state;
    qn_arena a;
    enum { N = 500 };
    unsigned char *p[N];
    size_t size[N];
    qn__arena_init(&a, 512); /* many blocks, and objects larger than a block */
    for (size_t i = 0; i < N; i++) {
        size[i] = i * 37 % 1500;
        p[i] = qn__arena_alloc(&a, size[i]);
        memset(p[i], (int)(i & 0xff), size[i]);
    }
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(p[i][k], i & 0xff);
    }
    qn__arena_deinit(&a);
}

static void zeroed_struct_is_an_arena(void **state)
{
    (void)state;
    qn_arena a = {0};
    assert_non_null(qn__arena_alloc(&a, 100));
    qn__arena_deinit(&a);
}

static void arrays_grow(void **state)
{
    (void)state;
    enum { N = 1000 };
    for (long fail = -1; fail < 3; fail++) {
        qn_arena a;
        int32_t n = 0, cap = 0;
        short *array = NULL;
        qn__arena_init(&a, 0);
        books_open(fail);
        while (n < N && qn__arena_room(&a, &array, n, &cap, sizeof *array)) array[n] = (short)n, n++;
        assert_int_equal(n < N, fail >= 0 && books.n_failed > 0);
        assert_true(a.failed == (n < N) && n <= cap);
        for (int32_t i = 0; i < n; i++) assert_int_equal(array[i], i);
        cap = INT32_MAX; /* twice as many would be no number */
        a.failed = false;
        assert_true(qn__arena_room(&a, &array, INT32_MAX - 1, &cap, 1));
        assert_false(qn__arena_room(&a, &array, INT32_MAX, &cap, 1));
        assert_true(a.failed && cap == INT32_MAX);
        qn__arena_deinit(&a);
        books_close();
    }
}

static void text(void **state)
{
    (void)state;
    qn_arena a;
    qn__arena_init(&a, 64);
    assert_string_equal(qn__arena_strdup(&a, "abc"), "abc");
    assert_string_equal(qn__arena_strndup(&a, "abcdef", 3), "abc");
    assert_string_equal(qn__arena_strndup(&a, "ab", 100), "ab");
    assert_string_equal(qn__arena_strndup(&a, "ab", 0), "");
    assert_string_equal(qn__arena_printf(&a, "blk.%d.%s", 12, "attn_q"), "blk.12.attn_q");
    char *s = qn__arena_printf(&a, "%0*d", 5000, 7);
    assert_int_equal(strlen(s), 5000);
    assert_int_equal(s[4999], '7');
    qn__arena_deinit(&a);
}

static void overflow(void **state)
{
    (void)state;
    qn_arena a;
    qn__arena_init(&a, 0);
    assert_non_null(qn__arena_array(&a, 10, 10));
    assert_false(a.failed);
    assert_null(qn__arena_array(&a, SIZE_MAX / 2, 3));
    assert_true(a.failed);
    a.failed = false;
    assert_null(qn__arena_alloc(&a, SIZE_MAX));
    assert_true(a.failed);
    assert_null(qn__arena_alloc_aligned(&a, SIZE_MAX - 100, 4096));
    assert_non_null(qn__arena_alloc(&a, 8)); /* a failure is remembered but ends nothing */
    qn__arena_deinit(&a);
    assert_false(a.failed);
}

/* Bytes of a live object are never poisoned; those after the mark are. */
static void marks(void **state)
{
    (void)state;
    qn_arena a;
    qn__arena_init(&a, 256);
    char *kept = qn__arena_strdup(&a, "kept");
    const qn_arena_mark m = qn__arena_get_mark(&a);
    const size_t used = a.used_bytes;
    unsigned char *gone = qn__arena_alloc(&a, 32);
    memset(gone, 1, 32);
    for (int i = 0; i < 50; i++) qn__arena_alloc(&a, 100);
    qn__arena_reset(&a, m);
    assert_string_equal(kept, "kept");
    assert_int_equal(a.used_bytes, used);
#if defined(QN_CHECKED)
#ifdef QN_HAVE_ASAN
    assert_int_equal(__asan_address_is_poisoned(gone), 1);
    assert_int_equal(__asan_address_is_poisoned(gone + 31), 1);
    assert_int_equal(__asan_address_is_poisoned(kept), 0);
#else
    for (int i = 0; i < 32; i++) assert_int_equal(gone[i], QN_POISON_BYTE);
#endif
#endif
    unsigned char *again = qn__arena_alloc(&a, 32);
    assert_ptr_equal(again, gone);
    for (int i = 0; i < 32; i++) assert_int_equal(again[i], 0);
    qn__arena_deinit(&a);
}

/* The same work after a reset asks the allocator for nothing, objects of odd sizes included. */
static void steady_state_allocates_nothing(void **state)
{
    (void)state;
    qn_arena a;
    books_open(-1);
    qn__arena_init(&a, 1024);
    const qn_arena_mark empty = qn__arena_get_mark(&a);
    long after_first = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < 200; i++) assert_non_null(qn__arena_alloc(&a, i * i % 3001));
        if (round == 0) after_first = books.n_alloc;
        assert_int_equal(books.n_alloc, after_first);
        qn__arena_reset(&a, empty);
        assert_int_equal(a.used_bytes, 0);
    }
    assert_int_equal(books.n_release, 0);
    qn__arena_deinit(&a);
    books_close();
}

typedef struct owner {
    qn_arena arena;
    int value;
} owner;

/* The house rule: an object's arena is kept in the object, which is the arena's first allocation. */
static void owner_lives_inside(void **state)
{
    (void)state;
    books_open(-1);
    qn_arena a;
    qn__arena_init(&a, 0);
    owner *o = qn__arena_alloc(&a, sizeof *o);
    o->arena = a;
    for (int i = 0; i < 1000; i++) qn__arena_alloc(&o->arena, 100);
    qn__arena_deinit(&o->arena);
    books_close();
}

static void every_allocation_fails_once(void **state)
{
    (void)state;
    long n = 0;
    for (bool done = false; !done; n++) {
        assert_true(n < 100);
        books_open(n);
        qn_arena a;
        qn__arena_init(&a, 128);
        bool any_null = false;
        for (size_t i = 0; i < 30; i++) any_null |= qn__arena_alloc(&a, 60 + i) == NULL;
        any_null |= qn__arena_printf(&a, "%200d", 1) == NULL;
        any_null |= qn__arena_strdup(&a, "text") == NULL;
        assert_int_equal(a.failed, any_null);
        assert_int_equal(books.n_failed, any_null ? 1 : 0);
        done = books.n_failed == 0;
        qn__arena_deinit(&a);
        books_close();
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(aligned_and_zeroed),
        cmocka_unit_test(objects_do_not_overlap),
        cmocka_unit_test(zeroed_struct_is_an_arena),
        cmocka_unit_test(arrays_grow),
        cmocka_unit_test(text),
        cmocka_unit_test(overflow),
        cmocka_unit_test(marks),
        cmocka_unit_test(steady_state_allocates_nothing),
        cmocka_unit_test(owner_lives_inside),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
