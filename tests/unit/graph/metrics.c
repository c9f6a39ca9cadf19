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

/* metrics_print.c: what stands where; the forms are read by others in tests/oracle/metrics.py. */
static void printed(void **state)
{
    (void)state;
    char *json = NULL, *text = NULL;
    qn_metrics_reset();
    qn_op_metrics_reset();
    qn__op_count(QN_OP_add, 2, 70);
    qn__op_count(QN_OP_linear, 5, 1500000000);
    QN_COUNT(read_bytes, 3000);
    QN_COUNT(read_ns, 2000);
    QN_OBSERVE(sample, 1001);
    QN_OBSERVE(sample, 1000000000);
    assert_int_equal(qn_metrics_print(QN_METRICS_json, &json, NULL), QN_OK);
    assert_int_equal(qn_metrics_print(QN_METRICS_prometheus, &text, NULL), QN_OK);
    static const char *const in_json[] = {
        "\"read_bytes\": 3000,",
        "\"read_ns\": 2000,",
        "\"read\": 1500000000,",
        "\"write\": null,",
        "\"sample\": {\"count\": 2, \"sum_ns\": 1000001001, \"buckets\": [[1000, 0], [2000, 1], [4000, 0], ",
        "[1048576000, 1], ",
        "[null, 0]]}",
        "\"ops\": [\n    {\"op\": \"linear\", \"count\": 5, \"ns\": 1500000000},\n    {\"op\": \"add\", \"count\": 2, "
        "\"ns\": 70}\n  ]\n}\n"};
    static const char *const in_text[] = {
        "# TYPE quern_read_bytes_total counter\nquern_read_bytes_total 3000\n",
        "quern_read_seconds_total 0.000002000\n",
        "quern_read_bytes_per_second 1500000000\n",
        "quern_write_bytes_per_second NaN\n",
        "quern_sample_seconds_bucket{le=\"1e-06\"} 0\nquern_sample_seconds_bucket{le=\"2e-06\"} 1\n",
        "quern_sample_seconds_bucket{le=\"0.524288\"} 1\nquern_sample_seconds_bucket{le=\"1.048576\"} 2\n",
        "quern_sample_seconds_bucket{le=\"+Inf\"} 2\nquern_sample_seconds_sum 1.000001001\nquern_sample_seconds_count "
        "2\n",
        "quern_op_runs_total{op=\"linear\"} 5\nquern_op_runs_total{op=\"add\"} 2\n",
        "quern_op_seconds_total{op=\"linear\"} 1.500000000\n"};
    for (size_t i = 0; i < sizeof in_json / sizeof in_json[0]; i++)
        if (!strstr(json, in_json[i])) fail_msg("no %s in %s", in_json[i], json);
    for (size_t i = 0; i < sizeof in_text / sizeof in_text[0]; i++)
        if (!strstr(text, in_text[i])) fail_msg("no %s in %s", in_text[i], text);
    qn_free(json);
    qn_free(text);
}

/* Operations for which there is no room go on as they were. */
static void taken(void **state)
{
    (void)state;
    qn_op_metrics rows[2];
    qn_op_metrics_reset();
    qn__op_count(QN_OP_add, 1, 7);
    qn__op_count(QN_OP_linear, 3, 100);
    assert_int_equal(qn_op_metrics_take(rows, 1), 2);
    const char *first = rows[0].op;
    assert_int_equal(qn_op_metrics_take(rows, 2), 1);
    assert_string_not_equal(rows[0].op, first);
    assert_int_equal(qn_op_metrics_take(rows, 2), 0);
}

static void *no_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx, (void)size, (void)align;
    return NULL;
}

static void no_release(void *ctx, void *ptr, size_t size) { (void)ctx, (void)ptr, (void)size; }

static void no_memory(void **state)
{
    (void)state;
    char *text = NULL;
    qn_error err = {0};
    qn_set_allocator(&(qn_allocator){no_alloc, no_release, NULL});
    const qn_status status = qn_metrics_print(QN_METRICS_json, &text, &err);
    qn_set_allocator(NULL);
    assert_int_equal(status, QN_STATUS_nomem);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals), cmocka_unit_test(from_threads), cmocka_unit_test(printed),
        cmocka_unit_test(taken),  cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
