/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/resize.c -- one compiled graph at many sizes: the right values at each, whatever came before; and
 * graphs, or backends, that stay at their own. */
#include "pair.h"

#include "unit/graph/builders.h"

static int n_resized;
static void fake_resize(qn_program *p)
{
    (void)p; /* this fake reads layouts when it computes */
    n_resized++;
}
static const qn_backend_type resizing_type = FAKE_TYPE(.resize = fake_resize);

enum { N = 9, M = 5, WIDTH = 3 };

/* y = 4 x over x [n, WIDTH], and v = u + u over u [WIDTH, m], whose strides grow too; `more`: another node. */
static qn_graph *two_sizes(int64_t n, int64_t m, bool more)
{
    qn_graph *g = new_graph();
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(n, WIDTH));
    qn_node *u = qn__input(g, "u", QN_DTYPE_F32, &qn_shape_of(WIDTH, m));
    qn__graph_scope(g, -1, 1); /* on the other backend, and back */
    qn_node *y = qn__add(g, x, x), *v = qn__add(g, u, u);
    qn__graph_scope(g, -1, 0);
    y = qn__add(g, y, y);
    if (more) y = qn__add(g, y, y);
    qn__output(g, qn__name(g, y, "y"));
    qn__output(g, qn__name(g, v, "v"));
    return g;
}

static void check_at(qn_exec *e, int32_t n, int32_t m)
{
    float x[N * WIDTH], y[N * WIDTH], u[M * WIDTH], v[M * WIDTH];
    for (int32_t i = 0; i < n * WIDTH; i++) {
        x[i] = (float)(i + 10 * n);
        y[i] = 4 * x[i];
    }
    for (int32_t i = 0; i < m * WIDTH; i++) {
        u[i] = (float)(i * 3 - m);
        v[i] = 2 * u[i];
    }
    set(e, "x", x, n * WIDTH);
    set(e, "u", u, m * WIDTH);
    OK(qn__exec_run(e, NULL, err));
    expect(e, "y", y, n * WIDTH);
    expect(e, "v", v, m * WIDTH);
}

static void use(const qn_backend_type *a, const qn_backend_type *b)
{
    reopen(NULL);
    A.base.type = a;
    B.base.type = b;
}

static void every_size(void **state)
{
    (void)state;
    qn_exec *e;
    use(&resizing_type, &resizing_type);
    OK(qn__sched_compile(sched, two_sizes(N, M, false), "k", 1, &e, err));
    check_at(e, N, M);
    assert_false(qn__exec_resize(e, (int32_t[]){1, 0})); /* it doesn't know yet */
    OK(qn__exec_learn(e, 0, two_sizes(N - 1, M, false), err));
    assert_true(qn__exec_has_learnt(e, 0) && !qn__exec_has_learnt(e, 1));
    assert_true(qn__exec_resize(e, (int32_t[]){4, 0}));
    assert_false(qn__exec_resize(e, (int32_t[]){4, 1}));
    check_at(e, N - 4, M); /* as it was */
    OK(qn__exec_learn(e, 1, two_sizes(N, M - 1, false), err));
    const uint64_t allocs = QN_METRIC_READ(allocs);
    for (int32_t i = 0; i < 60; i++) {
        const int32_t less[] = {i * 5 % N, i * 7 % M};
        n_resized = 0;
        assert_true(qn__exec_resize(e, less));
        assert_true(i == 0 || n_resized > 0);
        check_at(e, N - less[0], M - less[1]);
        n_resized = 0;
        assert_true(qn__exec_resize(e, less));
        assert_int_equal(n_resized, 0); /* nothing to do */
    }
    assert_int_equal(QN_METRIC_READ(allocs), allocs);
    assert_ptr_equal(qn__sched_find(sched, "k", 1), e);
}

/* Another node, another constant, or a backend that cannot: the whole size it is. */
static void stays(void **state)
{
    (void)state;
    qn_exec *e;
    use(&resizing_type, &resizing_type);
    OK(qn__sched_compile(sched, two_sizes(N, M, false), "k", 1, &e, err));
    OK(qn__exec_learn(e, 0, two_sizes(N - 1, M, true), err));
    assert_true(qn__exec_has_learnt(e, 0));
    assert_false(qn__exec_resize(e, (int32_t[]){1, 0}));
    assert_true(qn__exec_resize(e, (int32_t[]){0, 0}));
    check_at(e, N, M);
    OK(qn__exec_learn(e, 1, two_sizes(N + 1, M, false), err)); /* that isn't less */
    assert_false(qn__exec_resize(e, (int32_t[]){0, 1}));
    check_at(e, N, M);
    for (int p = 0; p < 2; p++) {
        use(&resizing_type, p ? &fake_type : &resizing_type);
        OK(qn__sched_compile(sched, two_sizes(N, M, false), &p, sizeof p, &e, err));
        OK(qn__exec_learn(e, 0, two_sizes(N - 1, M, false), err));
        assert_int_equal(qn__exec_resize(e, (int32_t[]){2, 0}), !p);
        check_at(e, p ? N : N - 2, M);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {T(every_size), T(stays)};
    RUN_AT_EVERY_PACE(tests);
}
