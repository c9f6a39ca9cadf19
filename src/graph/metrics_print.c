/* SPDX-License-Identifier: MIT */
/* src/graph/metrics_print.c -- all numbers of quern/metrics.h as text. */
#include "base/error.h"
#include "base/str.h"
#include "graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum unit { UNIT_one, UNIT_bytes, UNIT_ns } unit;
typedef struct number {
    const char *name, *text;
    uint64_t value;
    unit unit;
} number;
typedef struct timing {
    const char *name, *text;
    const qn_histogram *h;
} timing;
typedef struct rate {
    const char *name, *text;
    uint64_t bytes, ns;
} rate;

#define NUMBER(field, kind, what)      {#field, what, m->field, UNIT_##kind},
#define TIMING(field, what)            {#field, what, &m->field},
#define RATE(what, amount, time, text) {#what, text, m->amount, m->time},
#define N(a)                           (sizeof(a) / sizeof((a)[0]))

static int by_time(const void *a, const void *b)
{
    const qn_op_metrics *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns ? 1 : -1) : strcmp(x->op, y->op);
}

/* ---- JSON ---- */

static void put_numbers(qn_str *s, const char *what, const number *rows, size_t n)
{
    qn__str_printf(s, "  \"%s\": {", what);
    for (size_t i = 0; i < n; i++)
        qn__str_printf(s, "%s\n    \"%s\": %llu", i ? "," : "", rows[i].name, (unsigned long long)rows[i].value);
    qn__str_puts(s, "\n  },\n");
}

static void put_rates(qn_str *s, const rate *rows, size_t n)
{
    qn__str_puts(s, "  \"rates\": {");
    for (size_t i = 0; i < n; i++) {
        qn__str_printf(s, "%s\n    \"%s\": ", i ? "," : "", rows[i].name);
        if (rows[i].ns)
            qn__str_printf(s, "%.0f", (double)rows[i].bytes * 1e9 / (double)rows[i].ns);
        else
            qn__str_puts(s, "null");
    }
    qn__str_puts(s, "\n  },\n");
}

static void put_timings(qn_str *s, const timing *rows, size_t n)
{
    qn__str_puts(s, "  \"histograms\": {");
    for (size_t i = 0; i < n; i++) {
        const qn_histogram *h = rows[i].h;
        qn__str_printf(s, "%s\n    \"%s\": {\"count\": %llu, \"sum_ns\": %llu, \"buckets\": [", i ? "," : "",
                       rows[i].name, (unsigned long long)h->count, (unsigned long long)h->sum_ns);
        for (int k = 0; k < QN_HISTOGRAM_BUCKETS; k++) {
            if (k + 1 < QN_HISTOGRAM_BUCKETS)
                qn__str_printf(s, "%s[%llu, ", k ? ", " : "", (unsigned long long)(UINT64_C(1000) << k));
            else
                qn__str_puts(s, ", [null, ");
            qn__str_printf(s, "%llu]", (unsigned long long)h->bucket[k]);
        }
        qn__str_puts(s, "]}");
    }
    qn__str_puts(s, "\n  },\n");
}

static void print_json(qn_str *s, const qn_metrics *m, const qn_op_metrics *ops, int n_ops)
{
    const number counters[] = {QN_COUNTER_ROWS(NUMBER)}, gauges[] = {QN_GAUGE_ROWS(NUMBER)};
    const timing timings[] = {QN_HISTOGRAM_ROWS(TIMING)};
    const rate rates[] = {QN_RATE_ROWS(RATE)};
    qn__str_puts(s, "{\n");
    put_numbers(s, "counters", counters, N(counters));
    put_numbers(s, "gauges", gauges, N(gauges));
    put_rates(s, rates, N(rates));
    put_timings(s, timings, N(timings));
    qn__str_puts(s, "  \"ops\": [");
    for (int i = 0; i < n_ops; i++)
        qn__str_printf(s, "%s\n    {\"op\": \"%s\", \"count\": %llu, \"ns\": %llu}", i ? "," : "", ops[i].op,
                       (unsigned long long)ops[i].count, (unsigned long long)ops[i].ns);
    qn__str_puts(s, n_ops ? "\n  ]\n}\n" : "]\n}\n");
}

/* ---- Prometheus ---- */

static void head(qn_str *s, const char *name, const char *kind, const char *text)
{
    qn__str_printf(s, "# HELP quern_%s %s\n# TYPE quern_%s %s\n", name, text, name, kind);
}

/* "compute_ns" -> "compute_seconds_total", "allocs" -> "allocs_total". */
static void put_counter(qn_str *s, const number *row)
{
    char name[64];
    const size_t n = strlen(row->name);
    const bool time = row->unit == UNIT_ns;
    snprintf(name, sizeof(name), "%.*s%s_total", (int)(time ? n - 3 : n), row->name, time ? "_seconds" : "");
    head(s, name, "counter", row->text);
    if (time)
        qn__str_printf(s, "quern_%s %.9f\n", name, (double)row->value * 1e-9);
    else
        qn__str_printf(s, "quern_%s %llu\n", name, (unsigned long long)row->value);
}

static void put_gauge(qn_str *s, const number *row)
{
    head(s, row->name, "gauge", row->text);
    qn__str_printf(s, "quern_%s %llu\n", row->name, (unsigned long long)row->value);
}

static void put_rate(qn_str *s, const rate *row)
{
    char name[64], text[128];
    snprintf(name, sizeof(name), "%s_bytes_per_second", row->name);
    snprintf(text, sizeof(text), "bytes a second %s, on average", row->text);
    head(s, name, "gauge", text);
    if (row->ns)
        qn__str_printf(s, "quern_%s %.0f\n", name, (double)row->bytes * 1e9 / (double)row->ns);
    else
        qn__str_printf(s, "quern_%s NaN\n", name);
}

static void put_timing(qn_str *s, const timing *row)
{
    char name[64];
    uint64_t below = 0;
    snprintf(name, sizeof(name), "%s_seconds", row->name);
    head(s, name, "histogram", row->text);
    for (int k = 0; k < QN_HISTOGRAM_BUCKETS; k++) {
        below += row->h->bucket[k];
        if (k + 1 < QN_HISTOGRAM_BUCKETS)
            qn__str_printf(s, "quern_%s_bucket{le=\"%.10g\"} %llu\n", name, (double)(UINT64_C(1) << k) * 1e-6,
                           (unsigned long long)below);
    }
    qn__str_printf(s, "quern_%s_bucket{le=\"+Inf\"} %llu\nquern_%s_sum %.9f\nquern_%s_count %llu\n", name,
                   (unsigned long long)below, name, (double)row->h->sum_ns * 1e-9, name, (unsigned long long)below);
}

static void put_ops(qn_str *s, const qn_op_metrics *ops, int n)
{
    head(s, "op_runs_total", "counter", "nodes of an operation that a backend computed");
    for (int i = 0; i < n; i++)
        qn__str_printf(s, "quern_op_runs_total{op=\"%s\"} %llu\n", ops[i].op, (unsigned long long)ops[i].count);
    head(s, "op_seconds_total", "counter", "what those nodes took");
    for (int i = 0; i < n; i++)
        qn__str_printf(s, "quern_op_seconds_total{op=\"%s\"} %.9f\n", ops[i].op, (double)ops[i].ns * 1e-9);
}

static void print_prometheus(qn_str *s, const qn_metrics *m, const qn_op_metrics *ops, int n_ops)
{
    const number counters[] = {QN_COUNTER_ROWS(NUMBER)}, gauges[] = {QN_GAUGE_ROWS(NUMBER)};
    const timing timings[] = {QN_HISTOGRAM_ROWS(TIMING)};
    const rate rates[] = {QN_RATE_ROWS(RATE)};
    for (size_t i = 0; i < N(counters); i++) put_counter(s, &counters[i]);
    for (size_t i = 0; i < N(gauges); i++) put_gauge(s, &gauges[i]);
    for (size_t i = 0; i < N(rates); i++) put_rate(s, &rates[i]);
    for (size_t i = 0; i < N(timings); i++) put_timing(s, &timings[i]);
    put_ops(s, ops, n_ops);
}

qn_status qn_metrics_print(qn_metrics_format format, char **out, qn_error *err)
{
    qn_metrics m;
    qn_op_metrics ops[QN_OP_COUNT];
    qn_str s = {0};
    qn_metrics_snapshot(&m);
    const int n = qn_op_metrics_snapshot(ops, QN_OP_COUNT);
    qsort(ops, (size_t)n, sizeof(ops[0]), by_time);
    (format == QN_METRICS_json ? print_json : print_prometheus)(&s, &m, ops, n);
    char *text = qn__str_take(&s, NULL);
    if (!text) return QN_FAIL_NOMEM(err, 1 << 14);
    *out = text;
    return QN_OK;
}
