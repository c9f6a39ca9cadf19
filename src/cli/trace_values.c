/* SPDX-License-Identifier: MIT */
/* src/cli/trace_values.c -- what values were like, where a recording has it (--trace-values): summed up over the rows
 * of each node, in the order of computing. */
#include "cli/trace.h"
#include <math.h>
#include <stdlib.h>

typedef struct summing {
    const qn_trace_info *info;
    trace_values *to;
    int32_t **index; /* [n_plans]: by node, 1 + its row; NULL until it is needed */
} summing;

/* NULL: no memory. */
static trace_value_row *new_row(trace_values *v, const char *key)
{
    trace_row *named = trace_row_of(&v->keys, key);
    if (!named) return NULL;
    const size_t at = (size_t)(named - v->keys.rows);
    if (at < v->n) return &v->rows[at];
    if (v->n == v->cap) {
        const size_t cap = v->cap ? v->cap * 2 : 64;
        trace_value_row *rows = realloc(v->rows, cap * sizeof *rows);
        if (!rows) return NULL;
        v->rows = rows;
        v->cap = cap;
    }
    v->rows[v->n] = (trace_value_row){.min = (double)INFINITY, .max = -(double)INFINITY, .peak = -1, .channel = -1};
    return &v->rows[v->n++];
}

static trace_value_row *row_of(const summing *s, const qn_trace_plan *plan, int32_t node)
{
    char key[160];
    int p = 0;
    while (p < s->info->n_plans && s->info->plans[p] != plan) p++;
    if (!s->index[p]) s->index[p] = calloc((size_t)plan->n_nodes + 1, sizeof **s->index);
    if (!s->index[p]) return NULL;
    if (s->index[p][node]) return &s->to->rows[s->index[p][node] - 1];
    trace_node_key(&plan->nodes[node], key, sizeof key);
    trace_value_row *row = new_row(s->to, key);
    if (row) s->index[p][node] = 1 + (int32_t)(row - s->to->rows);
    return row;
}

static void add(trace_value_row *to, const qn_trace_value *v, uint32_t size)
{
    const double n = (double)size - (double)v->n_nan - (double)v->n_inf;
    to->n_rows++;
    to->n_nan += v->n_nan;
    to->n_inf += v->n_inf;
    to->n_zero += v->n_zero;
    if (n <= 0 || !isfinite(v->min) || !isfinite(v->max) || !isfinite(v->mean) || !isfinite(v->rms)) return;
    const double low = (double)v->min, high = (double)v->max, peak = high > -low ? high : -low;
    if (low < to->min) to->min = low;
    if (high > to->max) to->max = high;
    to->n_finite += n;
    to->sum += (double)v->mean * n;
    to->squares += (double)v->rms * (double)v->rms * n;
    if (peak <= to->peak) return;
    to->peak = peak;
    to->channel = v->channel;
}

bool trace_values_sum(const qn_trace *t, trace_values *out)
{
    qn_trace_info info;
    qn_trace_get_info(t, &info);
    *out = (trace_values){0};
    summing s = {&info, out, calloc((size_t)info.n_plans + 1, sizeof *s.index)};
    bool ok = s.index != NULL;
    for (int64_t i = 0; ok && i < info.n_steps; i++) {
        const qn_trace_step *step = &info.steps[i];
        for (int32_t k = 0; ok && k < step->n_values; k++) {
            const qn_trace_values *v = &step->values[k];
            trace_value_row *row = row_of(&s, step->plan, v->node);
            ok = row != NULL;
            for (int32_t r = 0; ok && r < v->n; r++) add(row, &v->rows[r], v->size);
        }
    }
    for (int p = 0; s.index && p < info.n_plans; p++) free(s.index[p]);
    free(s.index);
    if (!ok) trace_values_deinit(out);
    return ok;
}

void trace_values_deinit(trace_values *v)
{
    trace_table_deinit(&v->keys);
    free(v->rows);
    *v = (trace_values){0};
}

static double mean_of(const trace_value_row *r) { return r->n_finite > 0 ? r->sum / r->n_finite : (double)NAN; }
static double rms_of(const trace_value_row *r)
{
    return r->n_finite > 0 ? sqrt(r->squares / r->n_finite) : (double)NAN;
}

void trace_values_print(const trace_values *v, int32_t top)
{
    if (v->n == 0) return;
    printf("\n%-36s %8s %11s %11s %11s %11s %6s %6s %8s %8s\n", "value", "rows", "min", "max", "mean", "rms", "nan",
           "inf", "zero", "channel");
    for (size_t i = 0; i < v->n && i < (size_t)top; i++) {
        const trace_value_row *r = &v->rows[i];
        const bool known = r->n_finite > 0;
        printf("%-36.64s %8llu %11.4g %11.4g %11.4g %11.4g %6llu %6llu %8llu %8d\n", v->keys.rows[i].key,
               (unsigned long long)r->n_rows, known ? r->min : (double)NAN, known ? r->max : (double)NAN, mean_of(r),
               rms_of(r), (unsigned long long)r->n_nan, (unsigned long long)r->n_inf, (unsigned long long)r->n_zero,
               r->channel);
    }
    if (v->n > (size_t)top) printf("and %zu more (--top)\n", v->n - (size_t)top);
    printf("channel: where the greatest magnitude was\n");
}

static void put_number(FILE *out, const char *name, double x, bool known)
{
    if (known)
        fprintf(out, ", \"%s\": %.9g", name, x);
    else
        fprintf(out, ", \"%s\": null", name);
}

void trace_values_json(FILE *out, const trace_values *v)
{
    fprintf(out, ", \"values\": [");
    for (size_t i = 0; i < v->n; i++) {
        const trace_value_row *r = &v->rows[i];
        const bool known = r->n_finite > 0;
        fprintf(out, "%s\n  {\"name\": ", i ? "," : "");
        trace_put_json(out, v->keys.rows[i].key);
        fprintf(out, ", \"rows\": %llu", (unsigned long long)r->n_rows);
        put_number(out, "min", r->min, known);
        put_number(out, "max", r->max, known);
        put_number(out, "mean", mean_of(r), known);
        put_number(out, "rms", rms_of(r), known);
        fprintf(out, ", \"nan\": %llu, \"inf\": %llu, \"zero\": %llu, \"channel\": %d}", (unsigned long long)r->n_nan,
                (unsigned long long)r->n_inf, (unsigned long long)r->n_zero, r->channel);
    }
    fprintf(out, "]");
}
