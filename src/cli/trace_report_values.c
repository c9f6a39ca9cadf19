/* SPDX-License-Identifier: MIT */
/* src/cli/trace_report_values.c -- the parts of a report's data that are about values: what rows were like, and what
 * quern lens has said of the same prompt. */
#include "cli/trace_report.h"
#include <jansson.h>
#include <string.h>

enum { VALUE_step, VALUE_node, VALUE_size, VALUE_rows, VALUE_item, VALUE_sums, VALUE_counts = VALUE_sums + 4 };
enum { VALUE_COLUMNS = VALUE_counts + 4 };

static void put_rows(const qn_trace_values *v, trace_column *c)
{
    for (int32_t i = 0; i < v->n; i++) {
        const qn_trace_value *r = &v->rows[i];
        const float sums[] = {r->min, r->max, r->mean, r->rms};
        const int64_t counts[] = {r->n_nan, r->n_inf, r->n_zero, r->channel};
        trace_column_put(&c[VALUE_item], r->item);
        for (int k = 0; k < CLI_N(sums); k++) trace_column_put_float(&c[VALUE_sums + k], sums[k]);
        for (int k = 0; k < CLI_N(counts); k++) trace_column_put(&c[VALUE_counts + k], counts[k]);
    }
}

bool trace_part_values(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column columns[VALUE_COLUMNS] = {
        {.name = "step", .kind = TRACE_COLUMN_step},   {.name = "node", .kind = TRACE_COLUMN_step},
        {.name = "size", .kind = TRACE_COLUMN_number}, {.name = "rows", .kind = TRACE_COLUMN_number},
        {.name = "item", .kind = TRACE_COLUMN_step},   {.name = "min", .kind = TRACE_COLUMN_float},
        {.name = "max", .kind = TRACE_COLUMN_float},   {.name = "mean", .kind = TRACE_COLUMN_float},
        {.name = "rms", .kind = TRACE_COLUMN_float},   {.name = "nan", .kind = TRACE_COLUMN_number},
        {.name = "inf", .kind = TRACE_COLUMN_number},  {.name = "zero", .kind = TRACE_COLUMN_number},
        {.name = "channel", .kind = TRACE_COLUMN_step}};
    for (int64_t i = 0; i < info->n_steps; i++)
        for (int32_t k = 0; k < info->steps[i].n_values; k++) {
            const qn_trace_values *v = &info->steps[i].values[k];
            const int64_t values[] = {i, v->node, v->size, v->n};
            for (int j = 0; j < CLI_N(values); j++) trace_column_put(&columns[j], values[j]);
            put_rows(v, columns);
        }
    if (columns[0].n) trace_part_add(p, columns, CLI_N(columns));
    return true;
}

bool trace_part_lens(trace_report_source *s, trace_part *p)
{
    trace_column column = {.name = "json", .kind = TRACE_COLUMN_text};
    if (!s->lens) return true;
    trace_column_put_text(&column, s->lens, s->n_lens);
    trace_part_add(p, &column, 1);
    return true;
}

/* Whether it is what quern lens --json writes; the page looks at what is in it. */
static bool is_lens(const char *text, size_t n)
{
    json_t *all = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    const bool good = json_integer_value(json_object_get(all, "lens")) == 1 &&
                      json_is_array(json_object_get(all, "layers")) && json_is_array(json_object_get(all, "tokens"));
    json_decref(all);
    return good;
}

int trace_report_read_lens(trace_report_source *s, const char *path)
{
    enum { MOST = 1 << 28 };
    if (!path) return CLI_OK;
    s->lens = cli_read_text(path, MOST, &s->n_lens);
    if (!s->lens) return CLI_FAILED;
    if (is_lens(s->lens, s->n_lens)) return CLI_OK;
    return cli_fail("--lens %s: this is not what quern lens --json writes", path);
}
