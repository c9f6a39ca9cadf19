/* SPDX-License-Identifier: MIT */
/* src/cli/trace_diff.c -- quern trace diff: two traces by the names of their nodes, time and bytes an occurrence;
 * and the first value that differs. */
#include "cli/trace.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct pair {
    const char *key;
    double ns[2], bytes[2]; /* an occurrence */
    double count[2];
    double change; /* of the whole: (b - a) times how often b has it */
} pair;

static int by_change(const void *a, const void *b)
{
    const double x = fabs(((const pair *)a)->change), y = fabs(((const pair *)b)->change);
    return (x < y) - (x > y);
}

static void fill(pair *p, const trace_row *row, int side)
{
    if (!row || row->count == 0) return;
    p->count[side] = (double)row->count;
    p->ns[side] = row->ns / (double)row->count;
    p->bytes[side] = row->bytes / (double)row->count;
}

/* All names of both; NULL: no memory. */
static pair *compare(trace_table *a, trace_table *b, size_t *n)
{
    pair *pairs = calloc(a->n + b->n + 1, sizeof *pairs);
    *n = 0;
    for (size_t i = 0; pairs && i < a->n; i++) {
        pair *p = &pairs[(*n)++];
        p->key = a->rows[i].key;
        fill(p, &a->rows[i], 0);
        fill(p, trace_row_find(b, p->key), 1);
    }
    for (size_t i = 0; pairs && i < b->n; i++) {
        if (trace_row_find(a, b->rows[i].key)) continue;
        pair *p = &pairs[(*n)++];
        p->key = b->rows[i].key;
        fill(p, &b->rows[i], 1);
    }
    for (size_t i = 0; i < *n; i++)
        pairs[i].change = pairs[i].ns[1] * pairs[i].count[1] - pairs[i].ns[0] * pairs[i].count[0];
    if (pairs) qsort(pairs, *n, sizeof *pairs, by_change);
    return pairs;
}

static void print_text(const char *title, const pair *pairs, size_t n, int32_t top)
{
    printf("\n%-36s %9s %9s %10s %10s %8s %12s %12s\n", title, "count a", "count b", "a us", "b us", "b/a", "a bytes",
           "b bytes");
    for (size_t i = 0; i < n && i < (size_t)top; i++) {
        const pair *p = &pairs[i];
        printf("%-36.64s %9.0f %9.0f %10.2f %10.2f ", p->key, p->count[0], p->count[1], p->ns[0] * 1e-3,
               p->ns[1] * 1e-3);
        if (p->ns[0] > 0 && p->ns[1] > 0)
            printf("%8.3f", p->ns[1] / p->ns[0]);
        else
            printf("%8s", "-");
        printf(" %12.0f %12.0f\n", p->bytes[0], p->bytes[1]);
    }
}

static void print_json(const char *name, const pair *pairs, size_t n, bool first)
{
    printf("%s\"%s\": [", first ? "" : ", ", name);
    for (size_t i = 0; i < n; i++) {
        const pair *p = &pairs[i];
        printf("%s\n  {\"name\": ", i ? "," : "");
        trace_put_json(stdout, p->key);
        printf(", \"count\": [%.0f, %.0f], \"ns\": [%.1f, %.1f], \"bytes\": [%.0f, %.0f]}", p->count[0], p->count[1],
               p->ns[0], p->ns[1], p->bytes[0], p->bytes[1]);
    }
    printf("]");
}

static int print(const trace_options *o, qn_trace *const t[2], trace_sums *s)
{
    trace_table *tables[][2] = {{&s[0].ops, &s[1].ops}, {&s[0].layers, &s[1].layers}, {&s[0].nodes, &s[1].nodes}};
    static const char *const names[][2] = {{"operation", "operations"}, {"layer", "layers"}, {"node", "nodes"}};
    if (o->json) printf("{");
    const int values = trace_diff_values(t[0], t[1], o->json);
    if (values != CLI_OK) return values;
    for (int i = 0; i < CLI_N(tables); i++) {
        size_t n;
        pair *pairs = compare(tables[i][0], tables[i][1], &n);
        if (!pairs) return cli_no_memory("out of memory for the comparison");
        if (o->json)
            print_json(names[i][1], pairs, n, i == 0);
        else
            print_text(names[i][0], pairs, n, o->top);
        free(pairs);
    }
    if (o->json) printf("}\n");
    return cli_finish_output();
}

static void print_phases(const trace_sums *s)
{
    printf("%-8s %12s %12s %8s\n", "phase", "a ms/step", "b ms/step", "b/a");
    for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++) {
        if (!s[0].n_steps[i] || !s[1].n_steps[i]) continue;
        const double a = s[0].step_ns[i] / (double)s[0].n_steps[i], b = s[1].step_ns[i] / (double)s[1].n_steps[i];
        printf("%-8s %12.3f %12.3f %8.3f\n", qn_trace_phase_name(i), a * 1e-6, b * 1e-6, a > 0 ? b / a : 0);
    }
}

int trace_diff(const trace_options *o, const char *const *files)
{
    qn_trace *t[2] = {NULL, NULL};
    trace_sums s[2];
    bool damaged[2] = {false, false};
    int status = CLI_OK, n = 0;
    for (int i = 0; i < 2 && status == CLI_OK; i++) {
        status = trace_open(files[i], &t[i], &damaged[i]);
        if (status == CLI_OK) status = trace_sum(t[i], false, &s[i]);
        n += status == CLI_OK;
    }
    if (status == CLI_OK && !o->json) print_phases(s);
    if (status == CLI_OK) status = print(o, t, s);
    for (int i = 0; i < n; i++) trace_sums_deinit(&s[i]);
    for (int i = 0; i < 2; i++) qn_trace_close(t[i]);
    return status == CLI_OK && (damaged[0] || damaged[1]) ? CLI_FAILED : status;
}
