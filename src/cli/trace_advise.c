/* SPDX-License-Identifier: MIT */
/* src/cli/trace_advise.c -- quern trace advise: what each option would give, worked out from a trace. Nothing is
 * estimated that the trace does not hold: where a figure is missing, it says which, and how to get it. */
#include "cli/trace.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A token of decoding, on average; bytes and times are -1 where they are not measured. A step has a token of each
 * sequence: what it takes is shared out. */
typedef struct decoding {
    int64_t n, n_tokens;              /* steps; their tokens */
    double ns, paging_ns, compute_ns; /* compute: without paging */
    double steady_ns; /* the same of the median step in the later half: without what comes once, and what others did */
    double read, touched;         /* bytes from disk, and of weights */
    double serial_ns;             /* of thread 0 alone */
    double shared_ns, memory_ns;  /* of all threads at nodes that they share; of these at those bound by memory */
    double wait_ns;               /* of a thread, at barriers */
    double lost_ns;               /* of a thread, while others had its core */
    double cache_ns, cache_bytes; /* of thread 0 at nodes that read the cache, where memory bounds them */
} decoding;

typedef struct advice {
    char option[96], how[640];
    double now_ns, now_least_ns, least_ns, most_ns; /* a token; now_least_ns: 0 where now_ns is all that it takes now */
} advice;

enum { MOST = 16 };
typedef struct advising {
    qn_trace *t;
    trace_sums s;
    trace_losses losses;
    decoding d;
    qn_trace_curves curves;
    trace_disk disk;
    bool all_cores;      /* have a thread that computes */
    uint64_t asked;      /* bytes of memory for the process; 0: nobody said */
    double seen;         /* most that was seen of the files in memory */
    trace_memory memory; /* what a token takes with so much */
    const char *cache_type;
    advice list[MOST];
    int n;
    char missing[MOST][320];
    int n_missing;
} advising;

static QN_PRINTF(2, 3) void miss(advising *a, const char *format, ...)
{
    va_list args;
    if (a->n_missing == MOST) return;
    va_start(args, format);
    vsnprintf(a->missing[a->n_missing++], sizeof a->missing[0], format, args);
    va_end(args);
}

static advice *more(advising *a)
{
    static advice spare;
    advice *x = a->n < MOST ? &a->list[a->n++] : &spare;
    *x = (advice){.now_ns = a->d.ns};
    return x;
}

/* ---- sums over steps of decoding ---- */

static bool is_decode(const qn_trace_step *s) { return s && s->phase == QN_TRACE_PHASE_decode && s->ns > 0; }

static bool add_event(void *ctx, const qn_trace_event *e)
{
    advising *a = ctx;
    decoding *d = &a->d;
    double lost[TRACE_LOSSES];
    if (e->kind != QN_TRACE_node || !e->node || !is_decode(e->step) || e->lane->member < 0) return true;
    trace_losses_in(&a->losses, e->lane, e->begin_ns, e->begin_ns + e->ns, lost);
    const qn_trace_cost c = qn_trace_cost_of(e->node, e->step);
    const double bytes = c.weight_bytes + c.cache_bytes + c.act_bytes;
    const bool memory = a->s.read_gb_s > 0 && bytes / a->s.read_gb_s >= (a->s.gops > 0 ? c.ops / a->s.gops : 0);
    double work = (double)(e->ns - e->wait_ns) - lost[TRACE_LOSS_paging] - lost[TRACE_LOSS_core];
    if (work < 0) work = 0;
    d->wait_ns += (double)e->wait_ns;
    d->lost_ns += lost[TRACE_LOSS_core];
    if (e->node->shared) {
        d->shared_ns += work;
        if (memory) d->memory_ns += work;
    }
    if (e->lane->member != 0) return true;
    if (!e->node->shared) d->serial_ns += work;
    d->cache_bytes += c.cache_bytes;
    if (memory && c.cache_bytes > c.act_bytes + c.weight_bytes) d->cache_ns += (double)(e->ns - e->wait_ns);
    return true;
}

/* What the slowest thread lost to paging: others waited for it. */
static double paging_of(const advising *a, const qn_trace_step *s)
{
    double most = 0;
    for (int i = 0; i < a->s.info.n_lanes; i++) {
        double lost[TRACE_LOSSES];
        if (a->s.info.lanes[i].member < 0) continue;
        trace_losses_in(&a->losses, &a->s.info.lanes[i], s->begin_ns, s->begin_ns + s->ns, lost);
        if (lost[TRACE_LOSS_paging] > most) most = lost[TRACE_LOSS_paging];
    }
    return most;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The disk's rate is that of steps that waited for it. */
static void sum_steps(advising *a, double *compute)
{
    const qn_trace_info *info = &a->s.info;
    decoding *d = &a->d;
    double disk_bytes = 0, disk_ns = 0;
    int64_t n_read = 0; /* tokens */
    for (int64_t i = 0; i < info->n_steps; i++) {
        const qn_trace_step *s = &info->steps[i];
        if (s->ns <= 0) continue;
        const double paging = paging_of(a, s);
        if (info->sampled && s->read_bytes > 0) {
            disk_bytes += (double)s->read_bytes;
            disk_ns += paging;
        }
        if (!is_decode(s)) continue;
        compute[d->n++] = ((double)s->ns - paging) / (double)(s->n_tokens > 0 ? s->n_tokens : 1);
        d->n_tokens += s->n_tokens;
        d->ns += (double)s->ns;
        d->paging_ns += paging;
        d->touched += trace_touched_in(s);
        if (s->read_bytes < 0) continue;
        d->read += (double)s->read_bytes;
        n_read += s->n_tokens;
    }
    if (a->disk.fault == 0 && disk_bytes >= 1 << 20 && disk_ns > 0) {
        a->disk.ahead = a->disk.fault = a->disk.around = a->disk.scattered = disk_bytes / disk_ns;
        a->disk.from = "bytes read in steps, by the time that their slowest thread spent in page faults";
    }
    const double n = d->n_tokens > 0 ? (double)d->n_tokens : 1, members = a->s.n_members > 0 ? a->s.n_members : 1;
    d->read = n_read > 0 ? d->read / (double)n_read : -1;
    double *const sums[] = {&d->ns,        &d->paging_ns, &d->touched,  &d->serial_ns,
                            &d->shared_ns, &d->memory_ns, &d->cache_ns, &d->cache_bytes};
    for (int i = 0; i < CLI_N(sums); i++) *sums[i] /= n;
    d->wait_ns /= n * members;
    d->lost_ns /= n * members;
    d->compute_ns = info->sampled ? d->ns - d->paging_ns : d->read == 0 ? d->ns : -1;
    const int64_t half = d->n / 2, left = d->n - half;
    qsort(compute + half, (size_t)left, sizeof *compute, by_size);
    d->steady_ns = d->compute_ns < 0 || left == 0 ? d->compute_ns : compute[half + left / 2];
}

/* Of the cache its type; what was seen of the files in memory at once. */
static qn_status sum_memory(advising *a, qn_error *err)
{
    const qn_trace_info *info = &a->s.info;
    for (int i = 0; i < info->n_plans; i++) {
        const qn_trace_plan *p = info->plans[i];
        for (int32_t k = 0; k < p->n_nodes; k++) {
            const qn_trace_node *n = &p->nodes[k];
            if (n->space != QN_TRACE_RESIDENT || n->root != n->id) continue;
            if ((n->flags & 2) && strncmp(n->name, "cache_k", 7) == 0) a->cache_type = n->dtype;
        }
    }
    const char *note = qn_trace_find_note(a->t, "cores");
    a->all_cores = note && a->s.n_members >= atoi(note);
    const qn_trace_extent *x;
    int64_t n;
    const qn_status status = qn_trace_get_extents(a->t, &x, &n, err);
    if (status != QN_OK) return status;
    for (int64_t i = 0; i < n; i++) a->seen += x[i].resident > 0 ? (double)x[i].resident : 0;
    return QN_OK;
}

/* ---- actions ---- */

static double read_at(const advising *a, qn_trace_policy policy, double memory)
{
    return a->curves.n_tokens > 0 ? qn_trace_curve_at(&a->curves, policy, memory) / (double)a->curves.n_tokens : 0;
}

static qn_status cost_at(const advising *a, double memory, trace_memory *out, qn_error *err)
{
    return trace_memory_cost(a->t, &a->disk, memory < 9e18 ? (uint64_t)memory : UINT64_MAX, a->d.steady_ns,
                             a->all_cores, out, err);
}

static qn_status advise_memory(advising *a, qn_error *err)
{
    const bool reads = a->d.read > 0.01 * a->d.touched, asked = a->asked > 0;
    trace_memory *m = &a->memory;
    qn_status status = cost_at(a, (double)a->asked, m, err);
    if (status != QN_OK) return status;
    const double others = (double)(m->paging.taken_bytes + m->paging.reserve_bytes);
    if (a->curves.n_steps == 0 || m->paging.n_tokens == 0) {
        miss(a, "--memory: it takes two steps of decoding at least that read weights from a file");
        return QN_OK;
    }
    if (a->d.compute_ns < 0) {
        miss(a, "--memory: how long a token takes without paging: faults were not sampled, and steps read from disk");
        return QN_OK;
    }
    if (a->disk.fault == 0) {
        miss(a,
             "--memory: how fast the disk is: no step waited for it. --disk measure measures it, --disk X says it in "
             "GB/s");
        return QN_OK;
    }
    if (!asked && !reads) return QN_OK; /* all of it is in memory */
    if (!asked && a->seen <= 0) {
        miss(a, "--memory: how much memory there is: nobody says what of the file was in it. --memory SIZE says it");
        return QN_OK;
    }
    if (!asked && (status = cost_at(a, a->seen + others, m, err)) != QN_OK) return status;
    if (m->paging.expert_bytes < 0) {
        miss(a, "--memory: which experts were chosen is not in the trace");
        return QN_OK;
    }
    if (m->memory < m->paging.least_bytes) {
        miss(a, "--memory: %.1f MB are too few: caches, activations, the program and reading weights take %.1f MB",
             (double)m->memory * 1e-6, (double)m->paging.least_bytes * 1e-6);
        return QN_OK;
    }
    advice *x = more(a);
    snprintf(x->option, sizeof x->option, "--memory %.0fM", floor((double)m->memory / (1 << 20)));
    if (asked) x->now_ns = m->alone_ns;
    if (asked && m->alone_least_ns < 0.999 * m->alone_ns) x->now_least_ns = m->alone_least_ns;
    x->least_ns = x->most_ns = m->kept_ns;
    int n =
        snprintf(x->how, sizeof x->how,
                 "%.1f MB for weights (%s), %.1f MB for caches, activations and the program; a token then reads %.1f "
                 "MB ahead, at %.2f GB/s, while %.2f ms of computing go on%s: the longer of both",
                 (double)m->paging.budget_bytes * 1e-6, asked ? "given" : "what of the file was in memory",
                 others * 1e-6, m->paging.ahead_bytes * 1e-6, a->disk.ahead, (a->d.steady_ns + m->lost_ns) * 1e-6,
                 m->lost_ns > 0 ? ", with the processor time of reading" : "");
    if (m->paging.expert_bytes > 0)
        n += snprintf(x->how + n, sizeof x->how - (size_t)n, "; then %.1f MB of experts at %.2f GB/s",
                      m->paging.expert_bytes * 1e-6, a->disk.scattered);
    snprintf(x->how + n, sizeof x->how - (size_t)n, "; without it %.1f MB by page faults%s",
             (asked ? m->paging.kernel_bytes : a->d.read) * 1e-6, asked ? ", one after the other" : "");
    return QN_OK;
}

/* Work of nodes that threads share is divided anew; what one thread does alone stays, and so does waiting. What memory
 * bounds may not get faster by more threads; a machine that others use stays as busy. */
static void advise_threads(advising *a)
{
    const decoding *d = &a->d;
    const char *note = qn_trace_find_note(a->t, "cores");
    const int cores = note ? atoi(note) : 0, now = a->s.n_members;
    if (!trace_is_one_team(&a->s)) {
        miss(a, "-t: the steps were computed by teams of other sizes, or by several teams at once");
        return;
    }
    if (now < 1 || d->shared_ns <= 0) return;
    if (!a->s.info.sampled) {
        miss(a, "-t: for how long others had the threads' cores");
        return;
    }
    if (cores < 1) miss(a, "-t: how many cores the machine has");
    const double fixed = d->compute_ns - d->shared_ns / now - d->wait_ns - d->lost_ns; /* alone, and between nodes */
    const double alone = fixed > d->serial_ns ? fixed : d->serial_ns;
    const double busy = 1 + d->lost_ns / (alone + d->shared_ns / now);
    for (int t = 1; t <= cores && t <= 256; t++) {
        if (t == now) continue;
        const double least = busy * (alone + d->shared_ns / t),
                     most = busy * (alone + d->memory_ns / (t < now ? t : now) + (d->shared_ns - d->memory_ns) / t) +
                            (t > 1 ? d->wait_ns : 0);
        const bool ends = t == 1 || t == now - 1 || t == now + 1 || t == cores;
        if (!ends || least + d->paging_ns > 0.99 * d->ns) continue;
        advice *x = more(a);
        snprintf(x->option, sizeof x->option, "-t %d", t);
        x->least_ns = least + d->paging_ns;
        x->most_ns = most + d->paging_ns;
        snprintf(
            x->how, sizeof x->how,
            "a token has %.2f ms of one thread alone and %.2f ms that threads share (%.2f ms of it bound by memory), "
            "divided by %d instead of %d; waiting at barriers (%.2f ms now) and memory decide between both ends; a "
            "thread is taken to lose its core for as "
            "large a part of its time as now (%.2f ms)",
            alone * 1e-6, d->shared_ns * 1e-6, d->memory_ns * 1e-6, t, now, d->wait_ns * 1e-6, d->lost_ns * 1e-6);
    }
}

static void advise_cache(advising *a)
{
    const decoding *d = &a->d;
    if (!a->cache_type || d->cache_bytes <= 0 || d->cache_ns <= 0) return;
    const double bits = strcmp(a->cache_type, "F16") == 0 || strcmp(a->cache_type, "BF16") == 0 ? 16
                        : strcmp(a->cache_type, "F32") == 0                                     ? 32
                                                                                                : 0;
    const double saved = bits > 0 ? d->cache_ns * (1 - 8.5 / bits) : 0;
    if (saved < 0.01 * d->ns) return;
    advice *x = more(a);
    snprintf(x->option, sizeof x->option, "--kv-type Q8_0");
    x->least_ns = d->ns - saved;
    x->most_ns = d->ns;
    snprintf(x->how, sizeof x->how,
             "nodes that wait for the cache take %.2f ms a token for %.2f MB of %s; Q8_0 has 8.5 bits instead of %.0f. "
             "That is "
             "the most it can give: unpacking is not in the trace. Values change",
             d->cache_ns * 1e-6, d->cache_bytes * 1e-6, a->cache_type, bits);
}

static void advise_order(advising *a)
{
    trace_byte_sums b;
    trace_bytes_sum(a->t, &a->s.info, &b);
    if (b.n_used < 2 || b.jumps * 8 < b.n_used || a->d.read <= 0) return;
    miss(a,
         "quern reorder: a step jumps %lld times in the file, and 0 times in one by order of use; what a jump costs "
         "this "
         "disk is not in the trace",
         (long long)b.jumps);
}

static double gain(const advice *x) { return (x->now_ns - (x->least_ns + x->most_ns) / 2) / x->now_ns; }

static int by_gain(const void *a, const void *b)
{
    const double x = gain(a), y = gain(b);
    return (x < y) - (x > y);
}

static void keep_gains(advising *a)
{
    int n = 0;
    for (int i = 0; i < a->n; i++)
        if (gain(&a->list[i]) > 0.01) a->list[n++] = a->list[i];
    a->n = n;
    qsort(a->list, (size_t)a->n, sizeof a->list[0], by_gain);
}

/* ---- text ---- */

/* Without memory for all of it: as far as it is. */
static qn_status print_curves(const advising *a, qn_error *err)
{
    const qn_trace_curves *c = &a->curves;
    const double others = (double)(a->memory.paging.taken_bytes + a->memory.paging.reserve_bytes);
    const bool rates = a->disk.fault > 0 && a->d.compute_ns > 0;
    qn_status status = QN_OK;
    trace_memory m;
    if (c->n_steps == 0) return QN_OK;
    printf("\nWith less memory for weights, a token reads from disk (%lld steps of decoding, blocks of %.0f KiB):\n",
           (long long)c->n_steps, (double)c->block_bytes / 1024);
    printf("%10s", "MB");
    for (int p = 0; p < QN_TRACE_POLICY_COUNT; p++) printf(" %10s MB", qn_trace_policy_name(p));
    if (rates) printf(" %14s %14s", "tokens/s alone", "with --memory");
    printf("\n");
    static const int points[] = {32, 30, 29, 24, 16, 10, 0};
    for (int i = 0; i < CLI_N(points) && status == QN_OK; i++) {
        const double memory = (double)c->memory[points[i]];
        printf("%10.1f", memory * 1e-6);
        for (int p = 0; p < QN_TRACE_POLICY_COUNT; p++)
            printf(" %10.2f   ", read_at(a, (qn_trace_policy)p, memory) * 1e-6);
        if (rates) status = cost_at(a, memory + others, &m, err);
        if (rates && status == QN_OK && m.kept_ns > 0) printf(" %14.2f %14.2f", 1e9 / m.alone_ns, 1e9 / m.kept_ns);
        printf("\n");
    }
    return status;
}

static void print_rates(double least_ns, double most_ns)
{
    if (most_ns > least_ns * 1.001) printf("%.2f to ", 1e9 / most_ns);
    printf("%.2f", 1e9 / least_ns);
}

static qn_status print_text(const advising *a, qn_error *err)
{
    const decoding *d = &a->d;
    trace_print_lacks(stdout, &a->s);
    printf("A token takes %.3f ms: %.2f tokens/s (%lld steps of decoding, ", d->ns * 1e-6, 1e9 / d->ns,
           (long long)d->n);
    if (d->n_tokens != d->n) printf("%.2f tokens a step, ", (double)d->n_tokens / (double)d->n);
    printf("%d threads)\n", a->s.n_members);
    if (a->s.info.sampled)
        printf("of it %.3f ms for page faults; threads were without a core for %.3f ms\n", d->paging_ns * 1e-6,
               d->lost_ns * 1e-6);
    if (d->read >= 0)
        printf("it reads %.3f MB from disk and touches %.3f MB of weights\n", d->read * 1e-6, d->touched * 1e-6);
    if (a->disk.fault > 0 && a->disk.read_ahead)
        printf("the disk gives %.3f GB/s to who reads ahead, %.3f to page faults in their order, %.3f out of it, each "
               "with %.0f KiB around it, %.3f to pieces here and there (%s)\n",
               a->disk.ahead, a->disk.fault, a->disk.around, (double)a->disk.read_ahead / 1024, a->disk.scattered,
               a->disk.from);
    else if (a->disk.fault > 0)
        printf("the disk gives %.3f GB/s (%s)\n", a->disk.fault, a->disk.from);
    if (a->n == 0) printf("\nNo option would give more than 1 %%, as far as this trace tells.\n");
    for (int i = 0; i < a->n; i++) {
        const advice *x = &a->list[i];
        printf("\n%d. %s: ", i + 1, x->option);
        print_rates(x->least_ns, x->most_ns);
        printf(" tokens/s instead of ");
        print_rates(x->now_least_ns > 0 ? x->now_least_ns : x->now_ns, x->now_ns);
        printf("\n");
        trace_print_command(qn_trace_find_note(a->t, "command"), x->option);
        printf("   %s\n", x->how);
    }
    const qn_status status = print_curves(a, err);
    for (int i = 0; i < a->n_missing; i++) printf("%snot measured: %s\n", i == 0 ? "\n" : "", a->missing[i]);
    return status;
}

/* ---- JSON ---- */

static void put(const char *name, double x)
{
    if (x < 0)
        printf(", \"%s\": null", name);
    else
        printf(", \"%s\": %.6g", name, x);
}

static void print_prediction(const advising *a)
{
    const trace_disk *d = &a->disk;
    const trace_memory *m = &a->memory;
    if (!a->asked || d->fault <= 0 || m->kept_ns <= 0) return;
    printf(", \"disk\": {\"from\": \"%s\"", d->from);
    put("ahead_gb_s", d->ahead);
    put("fault_gb_s", d->fault);
    put("around_gb_s", d->around);
    put("scattered_gb_s", d->scattered);
    put("cpu_s_gb", d->cpu);
    put("read_ahead_bytes", (double)d->read_ahead);
    printf("}, \"memory\": {\"bytes\": %llu", (unsigned long long)m->memory);
    put("kernel_bytes", m->paging.kernel_bytes);
    put("kernel_jump_bytes", m->paging.kernel_jump_bytes);
    put("kernel_ms", m->alone_ns * 1e-6);
    put("kernel_least_ms", m->alone_least_ns * 1e-6);
    put("least_bytes", (double)m->paging.least_bytes);
    put("kept_bytes", (double)m->paging.kept_bytes);
    put("window_bytes", (double)m->paging.window_bytes);
    put("ahead_bytes", m->paging.ahead_bytes);
    put("expert_bytes", m->paging.expert_bytes);
    put("lost_ms", m->lost_ns * 1e-6);
    put("ms", m->kept_ns * 1e-6);
    printf("}");
}

static void print_json(const advising *a)
{
    const decoding *d = &a->d;
    const qn_trace_curves *c = &a->curves;
    printf("{\"end\": ");
    if (a->s.info.end)
        trace_put_json(stdout, a->s.info.end);
    else
        printf("null");
    printf(", \"filter\": ");
    if (a->s.filter)
        trace_put_json(stdout, a->s.filter);
    else
        printf("null");
    printf(", \"steps\": %lld, \"tokens\": %lld, \"threads\": %d", (long long)d->n, (long long)d->n_tokens,
           a->s.n_members);
    put("ms", d->ns * 1e-6);
    put("paging_ms", a->s.info.sampled ? d->paging_ns * 1e-6 : -1);
    put("compute_ms", d->compute_ns < 0 ? -1 : d->compute_ns * 1e-6);
    put("steady_ms", d->steady_ns < 0 ? -1 : d->steady_ns * 1e-6);
    put("read_bytes", d->read);
    put("touched_bytes", d->touched);
    put("disk_gb_s", a->disk.fault > 0 ? a->disk.fault : -1);
    put("other_bytes", (double)(a->memory.paging.taken_bytes + a->memory.paging.reserve_bytes));
    print_prediction(a);
    printf(", \"advice\": [");
    for (int i = 0; i < a->n; i++) {
        const advice *x = &a->list[i];
        printf("%s\n  {\"option\": \"%s\", \"now_ms\": %.6g, \"expected_ms\": [%.6g, %.6g], \"gain\": %.4f, \"how\": ",
               i ? "," : "", x->option, x->now_ns * 1e-6, x->least_ns * 1e-6, x->most_ns * 1e-6, gain(x));
        trace_put_json(stdout, x->how);
        printf("}");
    }
    printf("], \"not_measured\": [");
    for (int i = 0; i < a->n_missing; i++) {
        printf("%s", i ? ", " : "");
        trace_put_json(stdout, a->missing[i]);
    }
    printf("], \"curves\": {\"block_bytes\": %llu, \"steps\": %lld, \"tokens\": %lld, \"touched\": %.0f, \"memory\": [",
           (unsigned long long)c->block_bytes, (long long)c->n_steps, (long long)c->n_tokens, c->touched);
    for (int k = 0; k < QN_TRACE_CURVE_POINTS && c->n_steps > 0; k++)
        printf("%s%llu", k ? ", " : "", (unsigned long long)c->memory[k]);
    printf("]");
    for (int p = 0; p < QN_TRACE_POLICY_COUNT; p++) {
        printf(", \"%s\": [", qn_trace_policy_name(p));
        for (int k = 0; k < QN_TRACE_CURVE_POINTS && c->n_steps > 0; k++)
            printf("%s%.0f", k ? ", " : "", c->read[p][k]);
        printf("]");
    }
    printf("}}\n");
}

/* ---- the action ---- */

static int work_out(advising *a, const trace_options *o)
{
    qn_error err;
    if (qn_trace_walk(a->t, add_event, a, &err) != QN_OK ||
        qn_trace_get_curves(a->t, QN_TRACE_PHASE_decode, &a->curves, &err) != QN_OK)
        return cli_fail_error(&err);
    double *compute = malloc(((size_t)a->s.info.n_steps + 1) * sizeof *compute);
    if (!compute) return cli_no_memory("out of memory for the steps of the trace");
    sum_steps(a, compute);
    free(compute);
    if (a->s.lacks_nodes) {
        char safe[256];
        return cli_fail("recorded were only %s: advice needs all nodes; record without --trace-ops and --trace-layers",
                        trace_safe(safe, sizeof safe, a->s.filter));
    }
    if (a->d.n == 0) return cli_fail("the trace has no whole step of decoding: there is nothing to advise on");
    if (sum_memory(a, &err) != QN_OK || advise_memory(a, &err) != QN_OK) return cli_fail_error(&err);
    advise_threads(a);
    advise_cache(a);
    advise_order(a);
    keep_gains(a);
    if (o->json)
        print_json(a);
    else if (print_text(a, &err) != QN_OK)
        return cli_fail_error(&err);
    return cli_finish_output();
}

int trace_advise(const trace_options *o, const char *const *files)
{
    advising *a = calloc(1, sizeof *a);
    bool damaged = false;
    uint64_t memory = 0;
    if (!a) return cli_no_memory("out of memory");
    int status = CLI_OK;
    if (o->memory && (!cli_parse_size(o->memory, &memory) || memory == 0))
        status = cli_bad_usage("--memory: \"%.32s\" is no size; sizes are like 800M or 6.5G", o->memory);
    a->asked = memory;
    if (status == CLI_OK) status = trace_open(files[0], &a->t, &damaged);
    if (status == CLI_OK) status = trace_sum(a->t, false, &a->s);
    if (status == CLI_OK) {
        status = trace_disk_init(&a->s.info, o->disk, &a->disk);
        if (status == CLI_OK && !trace_losses_init(&a->s.info, &a->losses))
            status = cli_no_memory("out of memory for the threads of the trace");
        if (status == CLI_OK) status = work_out(a, o);
        trace_losses_deinit(&a->losses);
        trace_sums_deinit(&a->s);
    }
    qn_trace_close(a->t);
    free(a);
    return status == CLI_OK && damaged ? CLI_FAILED : status;
}
