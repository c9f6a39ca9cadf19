/* SPDX-License-Identifier: MIT */
/* tests/unit/graph/metrics.c -- what operations cost: totals by operation, also from several threads at once, without
 * an allocation. */
#include "common.h"

#include "base/metrics.h"
#include "base/thread.h"

static const qn_op_metrics *row(const qn_op_metrics *rows, int n, const char *op)
{
    for (int i = 0; i < n; i++)
        if (strcmp(rows[i].op, op) == 0) return &rows[i];
    return NULL;
}

static void totals(void **state)
{
    (void)state;
    qn_op_metrics rows[QN_OP_COUNT];
    qn_op_metrics_reset();
    assert_int_equal(qn_op_metrics_snapshot(rows, QN_OP_COUNT), 0); /* only what ran is told */
    const uint64_t allocs = QN_METRIC_READ(allocs);
    qn__op_count(QN_OP_linear, 3, 100);
    qn__op_count(QN_OP_add, 1, 7);
    qn__op_count(QN_OP_linear, 2, 50);
    assert_int_equal(QN_METRIC_READ(allocs), allocs);
    assert_int_equal(qn_op_metrics_snapshot(rows, QN_OP_COUNT), 2);
    assert_int_equal(row(rows, 2, "linear")->count, 5);
    assert_int_equal(row(rows, 2, "linear")->ns, 150);
    assert_int_equal(row(rows, 2, "add")->count, 1);
    assert_int_equal(row(rows, 2, "add")->ns, 7);
    assert_null(row(rows, 2, "mul"));
    rows[1].op = "untouched";
    assert_int_equal(qn_op_metrics_snapshot(rows, 1), 2); /* counted whole, filled as far as there is room */
    assert_string_equal(rows[1].op, "untouched");
    assert_int_equal(qn_op_metrics_snapshot(NULL, 0), 2);
    qn_op_metrics_reset();
    assert_int_equal(qn_op_metrics_snapshot(NULL, 0), 0);
}

static void count(void *ctx, int member, int n_members)
{
    (void)ctx, (void)member, (void)n_members;
    for (int i = 0; i < 100000; i++) qn__op_count(QN_OP_mul, 1, 2);
}

static void from_threads(void **state)
{
    (void)state;
    qn_team *team = NULL;
    qn_op_metrics got;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 4}, &team, NULL), QN_OK);
    qn_op_metrics_reset();
    qn__team_run(team, count, NULL);
    assert_int_equal(qn_op_metrics_snapshot(&got, 1), 1);
    assert_string_equal(got.op, "mul");
    assert_int_equal(got.count, 400000);
    assert_int_equal(got.ns, 800000);
    qn__team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals),
        cmocka_unit_test(from_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
