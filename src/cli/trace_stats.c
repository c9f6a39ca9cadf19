/* SPDX-License-Identifier: MIT */
/* src/cli/trace_stats.c -- quern trace stats: a trace summed up, as text or JSON. */
#include "cli/trace.h"
#include <stddef.h>
#include <string.h>

static const char *const accounts[][2] = {
#define ROW(name, text) {#name, text},
    TRACE_ACCOUNT_ROWS(ROW)
#undef ROW
};

/* Of the threads' time that others may take before it is said that rates are theirs too. */
#define BUSY 0.05

static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }
/* Of the roofline: what it would take of what it took. */
static double roof(const trace_row *r)
{
    const double x = share(r->limit_ns, r->ns);
    return x < 1 ? x : 1;
}
static double rate(double amount, double ns) { return ns > 0 ? amount / ns : 0; }

static double total_of(const trace_sums *s)
{
    double total = 0;
    for (int i = 0; i < TRACE_ACCOUNTS; i++) total += s->account[i];
    return total;
}

/* ---- text ---- */

static void print_head(const qn_trace *t, const trace_sums *s)
{
    static const char *const keys[] = {"command", "cpu", "unix_time"};
    char safe[512];
    for (int i = 0; i < 2; i++) {
        const char *value = qn_trace_find_note(t, keys[i]);
        if (value) printf("%-10s %s\n", keys[i], trace_safe(safe, sizeof safe, value));
    }
    printf("%-10s %.3f s; %lld steps, %llu events of %d threads; %llu records lost\n", "recorded",
           (double)s->info.ns * 1e-9, (long long)s->info.n_steps, (unsigned long long)s->info.events, s->n_members,
           (unsigned long long)s->info.dropped);
    const double cost = s->info.event_ns * (double)s->info.events;
    printf("%-10s %.0f ns an event: %.2f %% of the threads' time\n", "its cost", s->info.event_ns,
           100 * share(cost, total_of(s)));
    if (!trace_is_one_team(s))
        printf("%-10s %d threads, up to %d of them in a step: each is counted in the steps that it computed in\n",
               "teams", s->n_threads, s->n_members);
    trace_print_lacks(stdout, s);
}

static void print_phases(const trace_sums *s)
{
    printf("\n%-8s %8s %8s %12s %12s %10s %12s\n", "phase", "steps", "tokens", "ms a step", "tokens/s", "GB/s",
           "weights/step");
    for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++) {
        const double n = (double)s->n_steps[i], ns = s->step_ns[i];
        if (n == 0) continue;
        printf("%-8s %8.0f %8llu %12.3f %12.2f ", qn_trace_phase_name(i), n, (unsigned long long)s->n_tokens[i],
               ns / n * 1e-6, rate((double)s->n_tokens[i], ns * 1e-9));
        if (s->lacks_nodes)
            printf("%23s\n", "not measured");
        else
            printf("%10.2f %9.3f MB\n", rate(s->bytes[i], ns), s->weight_bytes[i] / n * 1e-6);
    }
}

/* What the system counted between the first look at it and the last; -1: it doesn't say. */
static int64_t counted(const trace_sums *s, size_t field)
{
    if (s->info.n_usage < 2) return -1;
    const char *first = (const char *)&s->info.usage[0], *last = (const char *)&s->info.usage[s->info.n_usage - 1];
    const int64_t a = *(const int64_t *)(const void *)(first + field),
                  b = *(const int64_t *)(const void *)(last + field);
    return a < 0 || b < a ? -1 : b - a;
}

static const struct {
    const char *name, *text;
    size_t field;
} counts[] = {{"minor_faults", "page faults without reading", offsetof(qn_trace_usage, minor_faults)},
              {"major_faults", "page faults that waited for the disk", offsetof(qn_trace_usage, major_faults)},
              {"read_bytes", "bytes read from disk", offsetof(qn_trace_usage, read_bytes)},
              {"preemptions", "times a thread lost its core to others", offsetof(qn_trace_usage, preemptions)},
              {"waits", "times a thread slept", offsetof(qn_trace_usage, waits)},
              {"cpu_ns", "ns of processor time", offsetof(qn_trace_usage, cpu_ns)}};

static void print_counts(const trace_sums *s)
{
    printf("\nCounted by the system for the process, while it was recorded:\n");
    for (int i = 0; i < CLI_N(counts); i++) {
        const int64_t n = counted(s, counts[i].field);
        if (n >= 0)
            printf("%20lld  %s\n", (long long)n, counts[i].text);
        else
            printf("%20s  %s\n", "not measured", counts[i].text);
    }
}

static void print_accounts(const trace_sums *s)
{
    const double total = total_of(s);
    printf("\nThe threads' time from the first step to the last, %.3f s:\n", total * 1e-9);
    for (int i = 0; i < TRACE_ACCOUNTS; i++)
        if (trace_account_known(s, i))
            printf("%7.2f %% %10.3f ms  %s\n", 100 * share(s->account[i], total), s->account[i] * 1e-6, accounts[i][1]);
        else
            printf("%9s %13s  %s\n", "", "not measured", accounts[i][1]);
}

static void print_table(const char *title, const trace_table *t, double whole, int32_t top)
{
    printf("\n%-36s %8s %10s %6s %9s %9s %8s %8s %6s %5s\n", title, "count", "ms", "%", "p50 us", "p99 us", "GB/s",
           "Gop/s", "roof", "wait");
    for (size_t i = 0; i < t->n && i < (size_t)top; i++) {
        const trace_row *r = &t->rows[i];
        printf("%-36.64s %8llu %10.3f %6.2f %9.2f %9.2f %8.2f %8.2f %4.0f %% %3.0f %%\n", r->key,
               (unsigned long long)r->count, r->ns * 1e-6, 100 * share(r->ns, whole), (double)r->p50 * 1e-3,
               (double)r->p99 * 1e-3, rate(r->bytes, r->ns), rate(r->ops, r->ns), 100 * roof(r),
               100 * share(r->wait_ns, r->ns));
    }
    if (t->n > (size_t)top) printf("and %zu more (--top)\n", t->n - (size_t)top);
}

static void print_text(qn_trace *t, const trace_sums *s, const trace_looks *looks, int32_t top)
{
    double whole = 0;
    for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++) whole += s->step_ns[i];
    print_head(t, s);
    print_phases(s);
    print_accounts(s);
    print_counts(s);
    printf("\nroofline of this trace: %.2f GB/s, %.2f Gop/s (the best of its nodes); shares are of it\n", s->read_gb_s,
           s->gops);
    if (s->info.sampled && s->account[TRACE_preempted] > BUSY * total_of(s))
        printf("others had the cores for %.0f %% of the threads' time: on a quiet machine it is higher\n",
               100 * share(s->account[TRACE_preempted], total_of(s)));
    print_table("operation", &s->ops, whole, top);
    print_table("layer", &s->layers, whole, top);
    print_table("node", &s->nodes, whole, top);
    trace_bytes_print(t, &s->info, top);
    trace_experts_print(&looks->experts);
    trace_values_print(&looks->values, top);
    if (s->lost_nodes)
        printf("\n%llu events belong to steps whose record was lost\n", (unsigned long long)s->lost_nodes);
}

/* ---- JSON ---- */

static void json_table(FILE *out, const char *name, const trace_table *t)
{
    fprintf(out, ", \"%s\": [", name);
    for (size_t i = 0; i < t->n; i++) {
        const trace_row *r = &t->rows[i];
        fprintf(out, "%s\n  {\"name\": ", i ? "," : "");
        trace_put_json(out, r->key);
        fprintf(
            out,
            ", \"count\": %llu, \"ns\": %.0f, \"wait_ns\": %.0f, \"p50_ns\": %lld, \"p99_ns\": %lld, \"max_ns\": %lld, "
            "\"bytes\": %.0f, \"weight_bytes\": %.0f, \"ops\": %.0f, \"roofline\": %.4f}",
            (unsigned long long)r->count, r->ns, r->wait_ns, (long long)r->p50, (long long)r->p99, (long long)r->worst,
            r->bytes, r->weight_bytes, r->ops, roof(r));
    }
    fprintf(out, "]");
}

void trace_put_stats(FILE *out, qn_trace *t, const trace_sums *s, const trace_looks *looks)
{
    fprintf(out, "{\"notes\": {");
    for (int i = 0; i < s->info.n_notes; i++) {
        fprintf(out, "%s", i ? ", " : "");
        trace_put_json(out, s->info.notes[i].key);
        fprintf(out, ": ");
        trace_put_json(out, s->info.notes[i].value);
    }
    fprintf(out, "}, \"damage\": ");
    if (qn_trace_damage(t))
        trace_put_json(out, qn_trace_damage(t));
    else
        fprintf(out, "null");
    fprintf(out, ", \"end\": ");
    if (s->info.end)
        trace_put_json(out, s->info.end);
    else
        fprintf(out, "null");
    fprintf(out, ", \"filter\": ");
    if (s->filter)
        trace_put_json(out, s->filter);
    else
        fprintf(out, "null");
    fprintf(out, ", \"cut_steps\": %llu, \"cut_nodes\": %llu, \"all_threads\": %d, \"one_team\": %s",
            (unsigned long long)s->n_cut, (unsigned long long)s->cut_nodes, s->n_threads,
            trace_is_one_team(s) ? "true" : "false");
    fprintf(
        out,
        ", \"ns\": %lld, \"steps\": %lld, \"events\": %llu, \"dropped\": %llu, \"threads\": %d, \"node_events\": %llu, "
        "\"node_ns\": %llu, \"lost_nodes\": %llu, \"event_ns\": %.2f, \"read_gb_s\": %.4f, \"gops\": %.4f",
        (long long)s->info.ns, (long long)s->info.n_steps, (unsigned long long)s->info.events,
        (unsigned long long)s->info.dropped, s->n_members, (unsigned long long)s->node_events,
        (unsigned long long)s->node_ns, (unsigned long long)s->lost_nodes, s->info.event_ns, s->read_gb_s, s->gops);
    fprintf(out, ", \"accounts_ns\": {");
    for (int i = 0; i < TRACE_ACCOUNTS; i++)
        fprintf(out, trace_account_known(s, i) ? "%s\"%s\": %.0f" : "%s\"%s\": null", i ? ", " : "", accounts[i][0],
                s->account[i]);
    fprintf(out, "}, \"system\": {");
    for (int i = 0; i < CLI_N(counts); i++) {
        const int64_t n = counted(s, counts[i].field);
        fprintf(out, n >= 0 ? "%s\"%s\": %lld" : "%s\"%s\": null", i ? ", " : "", counts[i].name, (long long)n);
    }
    fprintf(out, "}, \"kinds\": {");
    for (int i = 0; i < QN_TRACE_KIND_COUNT; i++)
        fprintf(out, "%s\"%s\": {\"count\": %llu, \"ns\": %.0f}", i ? ", " : "", qn_trace_kind_name(i),
                (unsigned long long)s->kind_count[i], s->kind_ns[i]);
    fprintf(out, "}, \"phases\": {");
    for (int i = 0, n = 0; i < QN_TRACE_PHASE_COUNT; i++)
        if (s->n_steps[i]) {
            fprintf(out, "%s\"%s\": {\"steps\": %llu, \"tokens\": %llu, \"ns\": %.0f, ", n++ ? ", " : "",
                    qn_trace_phase_name(i), (unsigned long long)s->n_steps[i], (unsigned long long)s->n_tokens[i],
                    s->step_ns[i]);
            fprintf(out,
                    s->lacks_nodes ? "\"bytes\": null, \"weight_bytes\": null}"
                                   : "\"bytes\": %.0f, \"weight_bytes\": %.0f}",
                    s->bytes[i], s->weight_bytes[i]);
        }
    fprintf(out, "}");
    json_table(out, "operations", &s->ops);
    json_table(out, "layers", &s->layers);
    json_table(out, "nodes", &s->nodes);
    trace_bytes_json(out, t, &s->info);
    trace_experts_json(out, &looks->experts);
    trace_values_json(out, &looks->values);
    fprintf(out, "}\n");
}

bool trace_looks_sum(const qn_trace *t, trace_looks *out)
{
    *out = (trace_looks){0};
    const bool ok = trace_experts_sum(t, &out->experts) && trace_values_sum(t, &out->values);
    if (!ok) trace_looks_deinit(out);
    return ok;
}

void trace_looks_deinit(trace_looks *x)
{
    trace_experts_deinit(&x->experts);
    trace_values_deinit(&x->values);
}

int trace_stats(const trace_options *o, const char *const *files)
{
    qn_trace *t = NULL;
    trace_sums s;
    bool damaged = false;
    int status = trace_open(files[0], &t, &damaged);
    trace_looks looks = {0};
    if (status == CLI_OK) status = trace_sum(t, false, &s);
    if (status == CLI_OK) {
        if (!trace_looks_sum(t, &looks))
            status = cli_no_memory("out of memory for the experts and values of the trace");
        else if (o->json)
            trace_put_stats(stdout, t, &s, &looks);
        else
            print_text(t, &s, &looks, o->top);
        trace_sums_deinit(&s);
        trace_looks_deinit(&looks);
        if (status == CLI_OK) status = cli_finish_output();
    }
    qn_trace_close(t);
    return status == CLI_OK && damaged ? CLI_FAILED : status;
}
