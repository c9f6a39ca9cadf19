/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/run.c -- setting, running, watching, stopping and getting; in the background too; without an
 * allocation. */
#include "pair.h"

static void test_set_and_get_check(void **state)
{
    (void)state;
    qn_exec *e = compile(chain(4)), *other;
    qn_error error;
    float x[5] = {0};
    const qn_node *in = qn__exec_find(e, "x"), *y = qn__exec_find(e, "y");
    assert_null(qn__exec_find(e, "b"));
    assert_null(qn__exec_find(e, "nothing"));
    assert_int_equal(qn__exec_set(e, NULL, x, 16, &error), QN_STATUS_invalid);
    assert_int_equal(qn__exec_get(e, NULL, x, 0, 16, &error), QN_STATUS_invalid);
    assert_int_equal(qn__exec_set(e, in, x, 20, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "20 bytes given, 16 expected"));
    assert_int_equal(qn__exec_set(e, y, x, 16, &error), QN_STATUS_invalid);
    assert_int_equal(qn__exec_get(e, in, x, 0, 16, &error), QN_STATUS_invalid);
    assert_int_equal(qn__exec_get(e, y, x, 8, 12, &error), QN_STATUS_invalid);
    assert_int_equal(qn__exec_get(e, y, x, UINT64_MAX, 12, &error), QN_STATUS_invalid);
    OK(qn__exec_get(e, y, x, 16, 0, err));
    OK(qn__sched_compile(sched, chain(4), "k", 1, &other, err));
    assert_int_equal(qn__exec_set(other, in, x, 16, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "another graph"));
}

typedef struct stopper {
    int stop_at, calls, after;
    const qn_node *last;
} stopper;

static bool on_eval(void *ctx, const qn_node *node, bool after)
{
    stopper *s = ctx;
    if (after) assert_ptr_equal(s->last, node);
    s->last = node;
    s->after += after;
    return s->calls++ != s->stop_at;
}

static void test_eval_may_stop_anywhere(void **state)
{
    (void)state;
    const float x[3] = {1, 2, 3}, want[3] = {112, 113, 114};
    qn_exec *e = compile(chain(3));
    for (int stop_at = 0; stop_at < 7; stop_at++) {
        stopper s = {.stop_at = stop_at};
        qn_error error;
        set(e, "x", x, 3);
        const qn_status status = qn__exec_run(e, &(qn_run){.eval = on_eval, .eval_ctx = &s}, &error);
        assert_int_equal(status, stop_at < 6 ? QN_STATUS_cancelled : QN_OK);
        assert_int_equal(s.calls, stop_at < 6 ? stop_at + 1 : 6);
        if (status != QN_OK) assert_int_equal(A.n_queued + B.n_queued, 0); /* all that it started is over */
        OK(qn__exec_run(e, NULL, err));
        expect(e, "y", want, 3);
    }
}

typedef struct peeker {
    const qn_exec *e;
    int n_right;
} peeker;

static bool on_peek(void *ctx, const qn_node *node, bool after)
{
    peeker *p = ctx;
    float y[3] = {0}, add = node->place == 1 ? 11 : node->flags & QN_NODE_output ? 111 : 1;
    if (!after) return true;
    OK(qn__exec_peek(p->e, node, y, 0, 12, err));
    p->n_right += y[0] == 1 + add && y[2] == 3 + add;
    return true;
}

static void test_values_seen_on_the_way(void **state)
{
    (void)state;
    const float x[3] = {1, 2, 3};
    float y[3];
    qn_error error;
    qn_exec *e = compile(chain(3));
    peeker p = {.e = e};
    set(e, "x", x, 3);
    OK(qn__exec_run(e, &(qn_run){.eval = on_peek, .eval_ctx = &p}, err));
    assert_int_equal(p.n_right, 3);
    assert_int_equal(qn__exec_peek(e, qn__exec_find(e, "y"), y, 4, 12, &error), QN_STATUS_invalid);
}

static void test_times_by_node(void **state)
{
    (void)state;
    qn_exec *e = compile(chain(3));
    double ns[16] = {0};
    const float x[3] = {1, 2, 3};
    set(e, "x", x, 3);
    OK(qn__exec_run(e, &(qn_run){.node_ns = ns}, err));
    int measured = 0;
    for (int32_t i = 0; i < qn__exec_graph(e)->n_nodes; i++) measured += ns[i] > 0;
    assert_int_equal(measured, 5); /* three scales, two transfers */
}

static void test_runs_allocate_nothing(void **state)
{
    (void)state;
    const float x[3] = {1, 2, 3};
    float y[3];
    qn_exec *e = compile(chain(3));
    set(e, "x", x, 3);
    OK(qn__exec_run(e, NULL, err));
    const uint64_t allocs = QN_METRIC_READ(allocs), runs = QN_METRIC_READ(graph_runs);
    const int created = A.n_created + B.n_created;
    for (int i = 0; i < 10; i++) {
        set(e, "x", x, 3);
        OK(qn__exec_run(e, NULL, err));
        get(e, "y", y, 3);
    }
    assert_int_equal(QN_METRIC_READ(allocs), allocs);
    assert_int_equal(A.n_created + B.n_created, created);
    assert_int_equal(QN_METRIC_READ(graph_runs), runs + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_set_and_get_check), T(test_eval_may_stop_anywhere), T(test_values_seen_on_the_way),
        T(test_times_by_node),     T(test_runs_allocate_nothing),
    };
    RUN_AT_EVERY_PACE(tests);
}
