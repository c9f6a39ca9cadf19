/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/keep.c -- the cache, growing buffers, reservation, dry runs, and every failure on the way. */
#include "pair.h"

#include "unit/graph/builders.h"

static void test_cache(void **state)
{
    (void)state;
    const uint64_t hits = QN_METRIC_READ(plan_cache_hits), misses = QN_METRIC_READ(plan_cache_misses);
    reopen(&(qn_sched_options){.cache_capacity = 2});
    qn_exec *e[3];
    for (int i = 0; i < 3; i++) {
        assert_null(qn__sched_find(sched, &i, sizeof(i)));
        OK(qn__sched_compile(sched, chain(3 + i), &i, sizeof(i), &e[i], err));
        assert_ptr_equal(qn__sched_find(sched, &i, sizeof(i)), e[i]);
    }
    assert_null(qn__sched_find(sched, &(int){0}, sizeof(int))); /* the oldest went */
    assert_ptr_equal(qn__sched_find(sched, &(int){1}, sizeof(int)), e[1]);
    assert_int_equal(QN_METRIC_READ(plan_cache_hits), hits + 4);
    assert_int_equal(QN_METRIC_READ(plan_cache_misses), misses + 4);

    reopen(&(qn_sched_options){.no_cache = true});
    OK(qn__sched_compile(sched, chain(3), "k", 1, &e[0], err));
    assert_null(qn__sched_find(sched, "k", 1));
    OK(qn__exec_run(e[0], NULL, err));
    OK(qn__sched_compile(sched, chain(3), "k", 1, &e[0], err));
    assert_int_equal(A.n_programs, 2); /* the one before is gone: a chain has two segments here */
}

static void run_chain(qn_exec *e, int64_t n)
{
    float x[64] = {0}, want[64];
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)(i * n);
        want[i] = x[i] + 111;
    }
    set(e, "x", x, n);
    OK(qn__exec_run(e, NULL, err));
    expect(e, "y", want, n);
}

static void test_buffers_grow(void **state)
{
    (void)state;
    qn_exec *small, *large;
    OK(qn__sched_compile(sched, chain(3), "s", 1, &small, err));
    const uint64_t before = qn__sched_reserved_bytes(sched);
    OK(qn__sched_compile(sched, chain(60), "l", 1, &large, err));
    assert_true(qn__sched_reserved_bytes(sched) > before);
    assert_int_equal(A.n_buffers, 2); /* the small graph keeps what it was compiled against */
    run_chain(large, 60);
    run_chain(small, 3); /* still right, without being looked up */
    run_chain(large, 60);
    A.fail_compile = 1;
    assert_ptr_equal(qn__sched_find(sched, "s", 1), small); /* compiling again fails: the old program stays */
    assert_int_equal(A.n_buffers, 2);
    run_chain(small, 3);
    assert_ptr_equal(qn__sched_find(sched, "s", 1), small);
    assert_int_equal(A.n_buffers, 1); /* compiled against the large one; the small buffer went */
    assert_int_equal(B.n_buffers, 1);
    run_chain(small, 3);
    run_chain(large, 60);
}

static void test_reserve(void **state)
{
    (void)state;
    OK(qn__sched_reserve(sched, chain(60), NULL, NULL, err));
    const uint64_t reserved = qn__sched_reserved_bytes(sched);
    const int created = A.n_created + B.n_created;
    assert_true(reserved > 3 * 60 * 4);
    for (int64_t n = 1; n <= 60; n++) {
        qn_exec *e;
        OK(qn__sched_compile(sched, chain(n), &n, sizeof(n), &e, err));
        run_chain(e, n);
    }
    assert_int_equal(qn__sched_reserved_bytes(sched), reserved);
    assert_int_equal(A.n_created + B.n_created, created);
}

static void test_dry_run(void **state)
{
    (void)state;
    qn_graph *g = chain(1000000);
    qn_plan plan;
    qn_str text = {0};
    on(g, 1); /* a model that is not loaded: its params have no buffers yet */
    qn_node *w = qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(5, 1000000), NULL, 0, 0);
    out(g, qn__linear(g, qn__reshape(g, g->nodes[0], qn_shape_of(1, 1000000)), w, NULL), "product");
    OK(qn__sched_dry_run(sched, g, &plan, NULL, &text, err));
    assert_int_equal(A.n_created + B.n_created, 0);
    assert_true(plan.bytes[0] >= 4000000 && plan.bytes[1] >= 4000000);
    assert_non_null(strstr(text.data, "linear \"product\" -> fake:b"));
    assert_int_equal(qn__sched_reserved_bytes(sched), 0);
    qn__str_deinit(&text);
    qn__graph_destroy(g);
}

static void test_create_checks(void **state)
{
    (void)state;
    qn_backend *twice[] = {&A.base, &A.base};
    qn_sched *s;
    qn_error error;
    const uint64_t created = QN_METRIC_READ(sched_created);
    assert_int_equal(qn__sched_create(twice, 2, NULL, &s, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "fake:a"));
    assert_int_equal(qn__sched_create(twice, 0, NULL, &s, &error), QN_STATUS_invalid);
    assert_int_equal(qn__sched_create(twice, 9, NULL, &s, &error), QN_STATUS_invalid);
    assert_int_equal(QN_METRIC_READ(sched_created), created);
    OK(qn__sched_create(twice, 1, NULL, &s, err));
    assert_int_equal(QN_METRIC_READ(sched_created), created + 1);
    qn__sched_destroy(s);
    qn__sched_destroy(NULL);
}

static void test_broken_graph(void **state)
{
    (void)state;
    qn_graph *g = new_graph();
    out(g, qn__add(g, input(g, "x", 3), input(g, "z", 4)), "y"); /* sticky */
    qn_exec *e;
    qn_error error;
    assert_int_equal(qn__sched_compile(sched, g, NULL, 0, &e, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "add"));
}

static void test_empty_graph(void **state)
{
    (void)state;
    qn_exec *e = compile(new_graph());
    OK(qn__exec_run(e, NULL, err));
    assert_int_equal(qn__exec_n_segments(e), 0);
}

static struct {
    long countdown, live;
} books;

static void *books_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    if (books.countdown-- == 0) return NULL;
    void *p = NULL;
    if (posix_memalign(&p, align, size)) return NULL;
    memset(p, 0xA5, size);
    books.live++;
    return p;
}

static void books_release(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    memset(ptr, 0x5A, size);
    books.live--;
    free(ptr);
}

static qn_graph *graph_with_everything(qn_buffer *kv, qn_status *status, qn_error *err)
{
    const float c[2] = {1, 2};
    qn_graph *g;
    *status = qn__graph_create(&g, err);
    if (*status != QN_OK) return NULL;
    on(g, 0);
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(2, 2)),
            *rows = qn__input(g, "rows", QN_DTYPE_I32, &qn_shape_of(2));
    qn_node *k = qn__scale(g, qn__const(g, "c", QN_DTYPE_F32, &qn_shape_of(2), c), 3, 1);
    qn_node *u = qn__set_rows(g, qn__param(g, "kv", QN_DTYPE_F32, &qn_shape_of(4, 2), kv, 0, QN_NODE_mutable),
                              qn__add(g, x, k), rows);
    on(g, 1);
    qn_node *t = qn__permute(g, qn__mul(g, u, k), (int[]){1, 0}, 2);
    on(g, 0);
    out(g, qn__add(g, shift(g, t, 2), qn__permute(g, u, (int[]){1, 0}, 2)), "y");
    out(g, t, "t");
    return g;
}

static qn_status everything(qn_error *err)
{
    qn_backend *backends[] = {&A.base, &B.base};
    qn_sched *s = NULL;
    qn_buffer *kv = NULL;
    qn_exec *e;
    qn_status status = qn__sched_create(backends, 2, NULL, &s, err);
    if (status == QN_OK) status = fake_buffer_create(&A.base, 32, &kv, err);
    for (int i = 0; i < 3 && status == QN_OK; i++) {
        qn_graph *g = graph_with_everything(kv, &status, err);
        if (status != QN_OK) break;
        if (i == 0) {
            status = qn__sched_reserve(s, g, NULL, NULL, err);
            continue;
        }
        status = qn__sched_compile(s, g, &i, i == 1 ? sizeof(i) : 0, &e, err);
        if (status == QN_OK) status = qn__exec_run(e, NULL, err);
    }
    qn__sched_destroy(s);
    if (kv) fake_buffer_destroy(kv);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    qn__sched_destroy(sched);
    sched = NULL;
    bool done = false;
    int n_failed = 0;
    for (long n = 0; !done; n++) {
        qn_error error = {0};
        books.countdown = n;
        books.live = 0;
        qn_set_allocator(&(qn_allocator){books_alloc, books_release, NULL});
        const qn_status status = everything(&error);
        done = books.countdown >= 0; /* it never came to the n-th */
        qn_set_allocator(NULL);
        assert_int_equal(books.live, 0);
        assert_int_equal(A.n_buffers + B.n_buffers + A.n_programs + B.n_programs, 0);
        assert_int_equal(status, done ? QN_OK : QN_STATUS_nomem);
        if (!done) assert_true(error.text[0] != 0);
        n_failed += !done;
    }
    assert_true(n_failed > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_cache),         T(test_buffers_grow), T(test_reserve),     T(test_dry_run),
        T(test_create_checks), T(test_broken_graph), T(test_empty_graph), T(test_every_allocation_may_fail),
    };
    RUN_AT_EVERY_PACE(tests);
}
