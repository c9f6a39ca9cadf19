/* SPDX-License-Identifier: MIT */
/* src/cli/trace_hashes.c -- quern trace diff: the first value that differs, where both recordings have hashes
 * (--trace-hash). */
#include "cli/trace.h"

static int32_t token_of(const qn_trace_difference *d)
{
    return d->item >= 0 && d->step->tokens ? d->step->tokens[d->item] : -1;
}

static void print_text(const qn_trace_difference *d)
{
    char name[160], op[64];
    if (d->compared == 0) {
        printf("no values to compare: one of the two, or both, have no hashes of the same rows (--trace-hash)\n");
        return;
    }
    if (d->alone) printf("%llu rows of values are in one of the two only\n", (unsigned long long)d->alone);
    if (!d->node) {
        printf("%llu rows of values have the same bits\n", (unsigned long long)d->compared);
        return;
    }
    printf("%llu of %llu rows of values differ; the first is %s (%s", (unsigned long long)d->differ,
           (unsigned long long)d->compared, trace_safe(name, sizeof name, d->node->name),
           trace_safe(op, sizeof op, d->node->op));
    if (d->node->layer >= 0) printf(", layer %d", d->node->layer);
    printf(") in step %llu", (unsigned long long)d->step->number);
    if (token_of(d) >= 0) printf(", for token %d", token_of(d));
    if (d->item >= 0)
        printf(" at position %d of sequence %d", d->step->pos[d->item], d->step->seq ? d->step->seq[d->item] : 0);
    printf("\n");
}

static void print_json(const qn_trace_difference *d)
{
    printf("\"values\": {\"compared\": %llu, \"differ\": %llu, \"alone\": %llu, \"first\": ",
           (unsigned long long)d->compared, (unsigned long long)d->differ, (unsigned long long)d->alone);
    if (!d->node) {
        printf("null}, ");
        return;
    }
    printf("{\"name\": ");
    trace_put_json(stdout, d->node->name);
    printf(", \"op\": ");
    trace_put_json(stdout, d->node->op);
    printf(", \"layer\": %d, \"step\": %llu, \"position\": %d, \"sequence\": %d, \"token\": %d}}, ", d->node->layer,
           (unsigned long long)d->step->number, d->item >= 0 ? d->step->pos[d->item] : -1,
           d->item >= 0 && d->step->seq ? d->step->seq[d->item] : -1, token_of(d));
}

int trace_diff_values(const qn_trace *a, const qn_trace *b, bool json)
{
    qn_trace_difference d;
    qn_error err;
    if (qn_trace_compare_values(a, b, &d, &err) != QN_OK) return cli_fail_error(&err);
    if (d.compared == 0 && d.alone == 0) return CLI_OK;
    (json ? print_json : print_text)(&d);
    return CLI_OK;
}
