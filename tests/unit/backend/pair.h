/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/pair.h -- a scheduler over two fakes, fake:a and fake:b, and short ways to build graphs for it,
 * run and check them. */
#ifndef QN_TEST_PAIR_H
#define QN_TEST_PAIR_H

#include "fake.h"

#include "base/metrics.h"

static fake A, B;
static qn_sched *sched;
static int n_logged;
static char logged[512];
static uint64_t pace; /* of the fakes that setup makes */

static inline void on_log(void *ctx, qn_log_level level, const char *line)
{
    (void)ctx;
    if (level < QN_LOG_warn) return;
    n_logged++;
    snprintf(logged, sizeof(logged), "%s", line);
}

static inline void open_with(const qn_sched_options *options)
{
    qn_backend *backends[] = {&A.base, &B.base};
    OK(qn__sched_create(backends, 2, options, &sched, err));
}

static inline int setup(void **state)
{
    (void)state;
    fake_init(&A, "fake:a");
    fake_init(&B, "fake:b");
    A.pace = pace;
    B.pace = pace * 3;
    n_logged = 0;
    qn_set_log(on_log, NULL);
    open_with(NULL);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    qn__sched_destroy(sched);
    sched = NULL;
    qn_set_log(NULL, NULL);
    assert_int_equal(A.n_too_soon + B.n_too_soon, 0);
    return A.n_programs || B.n_programs; /* buffers of the tests themselves are counted by them */
}

static inline void reopen(const qn_sched_options *options)
{
    qn__sched_destroy(sched);
    open_with(options);
}

/* ---- building blocks ---- */

static inline qn_buffer *buffer_of(fake *f, const float *values, int64_t n)
{
    qn_buffer *b = NULL;
    OK(fake_buffer_create(&f->base, (uint64_t)n * 4, &b, err));
    if (values) OK(fake_upload(b, 0, values, (uint64_t)n * 4, err));
    return b;
}

static inline qn_graph *new_graph(void)
{
    qn_graph *g = NULL;
    OK(qn__graph_create(&g, err));
    return g;
}

static inline qn_node *input(qn_graph *g, const char *name, int64_t n)
{
    return qn__input(g, name, QN_DTYPE_F32, &qn_shape_of(n));
}
static inline qn_node *shift(qn_graph *g, qn_node *x, float by) { return qn__scale(g, x, 1, by); }

/* Nodes built from now on ask for this backend. */
static inline void on(qn_graph *g, int place) { qn__graph_scope(g, -1, place); }

static inline qn_exec *compile(qn_graph *g)
{
    qn_exec *e = NULL;
    OK(qn__sched_compile(sched, g, NULL, 0, &e, err));
    return e;
}

static inline void set(qn_exec *e, const char *name, const float *x, int64_t n)
{
    const qn_node *in = qn__exec_find(e, name);
    assert_non_null(in);
    OK(qn__exec_set(e, in, x, (uint64_t)n * 4, err));
}

static inline void get(qn_exec *e, const char *name, float *y, int64_t n)
{
    const qn_node *out = qn__exec_find(e, name);
    assert_non_null(out);
    assert_int_equal(qn__node_bytes(out), n * 4);
    OK(qn__exec_get(e, out, y, 0, (uint64_t)n * 4, err));
}

static inline void expect(qn_exec *e, const char *name, const float *want, int64_t n)
{
    float y[64];
    get(e, name, y, n);
    for (int64_t i = 0; i < n; i++)
        if (y[i] != want[i]) fail_msg("%s[%d]: %g, %g expected", name, (int)i, (double)y[i], (double)want[i]);
}

static inline int32_t place_of(const qn_exec *e, const char *name)
{
    const qn_graph *g = qn__exec_graph(e);
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op != QN_OP_transfer && !strcmp(g->nodes[i]->name, name)) return g->nodes[i]->place;
    fail_msg("no node named %s", name);
    return -1;
}

static inline void out(qn_graph *g, qn_node *n, const char *name) { qn__output(g, qn__name(g, n, "%s", name)); }

/* x -> a (on A) -> b (on B) -> c (on A), each adding a digit; y = c */
static inline qn_graph *chain(int64_t n)
{
    qn_graph *g = new_graph();
    on(g, 0);
    qn_node *x = input(g, "x", n), *a = qn__name(g, shift(g, x, 1), "a");
    on(g, 1);
    qn_node *b = qn__name(g, shift(g, a, 10), "b");
    on(g, 0);
    out(g, shift(g, b, 100), "y");
    return g;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* At the laziest pace, and at some at which parts of the queue are done earlier. */
#define RUN_AT_EVERY_PACE(tests) \
    int failed = 0; \
    for (pace = 0; pace < 4; pace++) failed += cmocka_run_group_tests(tests, NULL, NULL); \
    return failed

#endif
