/* SPDX-License-Identifier: MIT */
/* src/cli/trace_sums.c -- a trace summed up: accounts, and tables by operation, layer and node.
 *
 * A node takes the time that thread 0 spends on it, waiting included; what it must touch and compute comes from its
 * plan. The roofline is the trace's own: the most bytes and operations in a second that any node with enough of them
 * came to, so shares are of what this machine did in this run. What lies in the processor's caches is read faster than
 * that: its share is all of it. */
#include "cli/trace.h"
#include <stdlib.h>
#include <string.h>

/* ---- tables ---- */

static size_t hash_of(const char *key)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    return (size_t)(h ^ h >> 29);
}

static bool grow_index(trace_table *t)
{
    const size_t cap = t->index_cap ? t->index_cap * 2 : 256;
    size_t *index = calloc(cap, sizeof *index);
    if (!index) return false;
    for (size_t i = 0; i < t->n; i++) {
        size_t at = hash_of(t->rows[i].key) % cap;
        while (index[at]) at = (at + 1) % cap;
        index[at] = i + 1;
    }
    free(t->index);
    t->index = index;
    t->index_cap = cap;
    return true;
}

trace_row *trace_row_find(const trace_table *t, const char *key)
{
    if (t->index_cap == 0) return NULL;
    for (size_t at = hash_of(key) % t->index_cap; t->index[at]; at = (at + 1) % t->index_cap)
        if (strcmp(t->rows[t->index[at] - 1].key, key) == 0) return &t->rows[t->index[at] - 1];
    return NULL;
}

trace_row *trace_row_of(trace_table *t, const char *key)
{
    trace_row *row = trace_row_find(t, key);
    if (row) return row;
    if (t->n * 2 >= t->index_cap && !grow_index(t)) return NULL;
    if (t->n == t->cap) {
        const size_t cap = t->cap ? t->cap * 2 : 64;
        trace_row *rows = realloc(t->rows, cap * sizeof *rows);
        if (!rows) return NULL;
        t->rows = rows;
        t->cap = cap;
    }
    row = &t->rows[t->n++];
    *row = (trace_row){0};
    snprintf(row->key, sizeof row->key, "%s", key);
    size_t at = hash_of(row->key) % t->index_cap;
    while (t->index[at]) at = (at + 1) % t->index_cap;
    t->index[at] = t->n;
    return row;
}

static bool add_time(trace_row *row, int64_t ns)
{
    if (row->count == row->cap) {
        const size_t cap = row->cap ? row->cap * 2 : 16;
        int64_t *each = realloc(row->each, cap * sizeof *each);
        if (!each) return false;
        row->each = each;
        row->cap = cap;
    }
    row->each[row->count++] = ns;
    return true;
}

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int by_time(const void *a, const void *b)
{
    const trace_row *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
    return strcmp(x->key, y->key);
}

/* The nearest rank: of few samples the 99th percentile is the greatest, never a lesser one. */
static int64_t percentile(const trace_row *r, uint64_t percent) { return r->each[(r->count * percent + 99) / 100 - 1]; }

/* The slowest first. */
static void settle(trace_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        trace_row *row = &t->rows[i];
        if (row->count == 0) continue;
        qsort(row->each, row->count, sizeof row->each[0], by_size);
        row->p50 = percentile(row, 50);
        row->p99 = percentile(row, 99);
        row->worst = row->each[row->count - 1];
    }
    if (t->n) qsort(t->rows, t->n, sizeof t->rows[0], by_time);
    if (t->index) memset(t->index, 0, t->index_cap * sizeof t->index[0]);
    for (size_t i = 0; i < t->n; i++) {
        size_t at = hash_of(t->rows[i].key) % t->index_cap;
        while (t->index[at]) at = (at + 1) % t->index_cap;
        t->index[at] = i + 1;
    }
}

void trace_table_deinit(trace_table *t)
{
    for (size_t i = 0; i < t->n; i++) free(t->rows[i].each);
    free(t->rows);
    free(t->index);
}

void trace_sums_deinit(trace_sums *s)
{
    trace_table_deinit(&s->ops);
    trace_table_deinit(&s->layers);
    trace_table_deinit(&s->nodes);
    free(s->step_account);
}

/* ---- the first walk: the roofline ---- */

static double bytes_of(const qn_trace_cost *c) { return c->weight_bytes + c->cache_bytes + c->act_bytes; }

/* A thread's, so far. */
typedef struct part {
    const qn_trace_step *step; /* of one that helps, the last in which it had a node */
    int64_t end;               /* of its last step */
    bool any;
} part;

typedef struct adding {
    trace_sums *s;
    trace_losses losses;
    part *parts;               /* [info.n_lanes] */
    trace_table peaks, others; /* a row a node of a plan: of thread 0, and of those that help it */
    bool failed;
} adding;

static bool add_row(trace_table *t, const char *key, const qn_trace_event *e, const qn_trace_cost *c, double limit_ns)
{
    trace_row *row = trace_row_of(t, key);
    if (!row || !add_time(row, e->ns)) return false;
    row->ns += (double)e->ns;
    row->wait_ns += (double)e->wait_ns;
    row->bytes += bytes_of(c);
    row->weight_bytes += c->weight_bytes;
    row->ops += c->ops;
    row->limit_ns += limit_ns;
    return true;
}

/* Its end is not in the file: what it took is not known, so that no rate may have its bytes. */
static bool is_cut(const qn_trace_step *step) { return step && step->ns < 0; }

static bool note_rate(void *ctx, const qn_trace_event *e)
{
    adding *a = ctx;
    char key[64];
    if (e->lane->member + 1 > a->s->n_members) a->s->n_members = e->lane->member + 1;
    if (!e->node || e->kind != QN_TRACE_node || e->ns <= 0 || is_cut(e->step)) return true;
    const qn_trace_cost c = qn_trace_cost_of(e->node, e->step);
    snprintf(key, sizeof key, "%u %d", e->step->plan->id, e->node->id);
    a->failed = !add_row(e->lane->member == 0 ? &a->peaks : &a->others, key, e, &c, 0);
    return !a->failed;
}

/* A node must read so many weights for its rate to tell of the memory (small ones lie in caches), and compute so much.
 * The first of these that any node comes to counts. */
static const double enough_bytes[] = {4 << 20, 256 << 10, 16 << 10, 1};
static const double enough_ops[] = {1e7, 1e6, 1e5, 1};
enum { TIERS = CLI_N(enough_bytes) };

/* What a node takes: the median, by the clock of the thread that had more to do. Where others have the cores too, a
 * thread that comes late finds the work done, and its own time is next to nothing. */
static double usual_ns(const adding *a, const trace_row *r)
{
    const trace_row *other = trace_row_find(&a->others, r->key);
    const int64_t ns = other && other->p50 > r->p50 ? other->p50 : r->p50;
    return ns > 0 ? (double)ns : 1;
}

/* The best of the nodes. */
static void find_peaks(adding *a)
{
    double read[TIERS] = {0}, compute[TIERS] = {0};
    settle(&a->peaks);
    settle(&a->others);
    for (size_t k = 0; k < a->peaks.n; k++) {
        const trace_row *r = &a->peaks.rows[k];
        const double n = (double)r->count, ns = usual_ns(a, r);
        for (int i = 0; i < TIERS; i++) {
            if (r->weight_bytes / n >= enough_bytes[i] && r->bytes / n / ns > read[i]) read[i] = r->bytes / n / ns;
            if (r->ops / n >= enough_ops[i] && r->ops / n / ns > compute[i]) compute[i] = r->ops / n / ns;
        }
    }
    for (int i = TIERS - 1; i >= 0; i--) {
        if (read[i] > 0) a->s->read_gb_s = read[i];
        if (compute[i] > 0) a->s->gops = compute[i];
    }
}

/* ---- the second ---- */

void trace_node_key(const qn_trace_node *n, char *to, size_t size)
{
    char safe[128];
    if (n->name[0])
        snprintf(to, size, "%s", trace_safe(safe, sizeof safe, n->name));
    else if (n->layer >= 0)
        snprintf(to, size, "%s %d, layer %d", trace_safe(safe, sizeof safe, n->op), n->id, n->layer);
    else
        snprintf(to, size, "%s %d", trace_safe(safe, sizeof safe, n->op), n->id);
}

static bool add_node(trace_sums *s, const qn_trace_event *e, const qn_trace_cost *c, double limit_ns)
{
    char key[160], safe[64], layer[32] = "outside of layers";
    trace_node_key(e->node, key, sizeof key);
    if (e->node->layer >= 0) snprintf(layer, sizeof layer, "%d", e->node->layer);
    return add_row(&s->ops, trace_safe(safe, sizeof safe, e->node->op), e, c, limit_ns) &&
           add_row(&s->layers, layer, e, c, limit_ns) && add_row(&s->nodes, key, e, c, limit_ns);
}

/* Into the account of the whole, and of the step. */
static void put(trace_sums *s, const qn_trace_event *e, trace_account account, double ns)
{
    s->account[account] += ns;
    if (s->step_account && e->step) s->step_account[e->step - s->info.steps][account] += ns;
}

/* Of a node or a transfer: what was lost in it has left the thread's account with the step (take_part). */
static double lost_in(const adding *a, const qn_trace_event *e)
{
    double lost[TRACE_LOSSES];
    trace_losses_in(&a->losses, e->lane, e->begin_ns, e->begin_ns + e->ns, lost);
    return lost[TRACE_LOSS_paging] + lost[TRACE_LOSS_core];
}

/* Lost time is working time first, then waiting: which of them it was isn't recorded. */
static void account_node(adding *a, const qn_trace_event *e, bool memory)
{
    trace_sums *s = a->s;
    const double work = (double)(e->ns - e->wait_ns), lost = lost_in(a, e), of_work = lost < work ? lost : work;
    put(s, e, memory ? TRACE_memory : TRACE_arithmetic, work - of_work);
    put(s, e, TRACE_slowest, (double)e->wait_ns - (lost - of_work));
    put(s, e, e->lane->member == 0 ? TRACE_around : TRACE_serial, lost - (double)e->ns);
    s->node_events++;
    s->node_ns += (uint64_t)e->ns;
}

/* The thread is outside of graphs from its last step to this one, and in `account` throughout it, until its nodes say
 * more. What it lost goes to accounts of its own. Each thread is counted from its first step to its last, and in the
 * steps that it took part in: teams of other sizes, and several at once, have threads and times of their own. */
static void take_part(adding *a, const qn_trace_event *e, int64_t begin, int64_t ns, trace_account account)
{
    trace_sums *s = a->s;
    part *p = &a->parts[e->lane - s->info.lanes];
    double lost[TRACE_LOSSES];
    if (p->any && begin > p->end) {
        trace_losses_in(&a->losses, e->lane, p->end, begin, lost);
        s->account[TRACE_paging] += lost[TRACE_LOSS_paging];
        s->account[TRACE_preempted] += lost[TRACE_LOSS_core];
        s->account[TRACE_outside] += (double)(begin - p->end) - lost[TRACE_LOSS_paging] - lost[TRACE_LOSS_core];
    }
    const int64_t from = p->any && p->end > begin ? p->end : begin, end = begin + ns > from ? begin + ns : from;
    trace_losses_in(&a->losses, e->lane, from, end, lost);
    put(s, e, TRACE_paging, lost[TRACE_LOSS_paging]);
    put(s, e, TRACE_preempted, lost[TRACE_LOSS_core]);
    put(s, e, account, (double)(end - from) - lost[TRACE_LOSS_paging] - lost[TRACE_LOSS_core]);
    s->n_threads += !p->any;
    p->any = true;
    p->end = end;
}

/* Of a thread that helps: its first node in a step. */
static void account_helper(adding *a, const qn_trace_event *e)
{
    part *p = &a->parts[e->lane - a->s->info.lanes];
    if (e->lane->member <= 0 || p->step == e->step) return;
    p->step = e->step;
    take_part(a, e, e->step->begin_ns, e->step->ns, TRACE_serial);
    a->s->n_helped[e->step->phase]++;
}

static void account_step(adding *a, const qn_trace_event *e)
{
    trace_sums *s = a->s;
    take_part(a, e, e->begin_ns, e->ns, TRACE_around);
    if (s->last_ns == INT64_MIN || e->begin_ns < s->first_ns) s->first_ns = e->begin_ns;
    if (e->begin_ns + e->ns > s->last_ns) s->last_ns = e->begin_ns + e->ns;
    if (!e->step) return;
    s->n_steps[e->step->phase]++;
    s->n_tokens[e->step->phase] += (uint64_t)e->step->n_tokens;
    s->step_ns[e->step->phase] += (double)e->ns;
}

static bool add_event(void *ctx, const qn_trace_event *e)
{
    adding *a = ctx;
    trace_sums *s = a->s;
    s->kind_ns[e->kind] += (double)e->ns;
    s->kind_count[e->kind]++;
    if (is_cut(e->step)) {
        s->cut_nodes += e->kind == QN_TRACE_node;
        return true;
    }
    if (e->kind == QN_TRACE_step) account_step(a, e);
    if (e->kind == QN_TRACE_transfer) {
        const double ns = (double)e->ns - lost_in(a, e);
        put(s, e, TRACE_transfers, ns);
        put(s, e, TRACE_around, -ns);
    }
    if (e->kind != QN_TRACE_node) return true;
    if (!e->node) {
        s->lost_nodes++;
        return true;
    }
    const qn_trace_cost c = qn_trace_cost_of(e->node, e->step);
    const double read = s->read_gb_s > 0 ? bytes_of(&c) / s->read_gb_s : 0, compute = s->gops > 0 ? c.ops / s->gops : 0;
    account_helper(a, e);
    account_node(a, e, read >= compute);
    if (e->lane->member != 0) return true;
    s->bytes[e->step->phase] += bytes_of(&c);
    s->weight_bytes[e->step->phase] += c.weight_bytes;
    a->failed = !add_node(s, e, &c, read > compute ? read : compute);
    return !a->failed;
}

static bool start_parts(adding *a)
{
    const qn_trace_info *info = &a->s->info;
    a->parts = calloc((size_t)info->n_lanes + 1, sizeof *a->parts);
    return a->parts && trace_losses_init(info, &a->losses);
}

static qn_status sum_events(qn_trace *t, adding *a, qn_error *err)
{
    trace_sums *s = a->s;
    qn_status status = qn_trace_walk(t, note_rate, a, err);
    find_peaks(a);
    if (status == QN_OK && !a->failed) status = qn_trace_walk(t, add_event, a, err);
    if (status != QN_OK || a->failed) return status;
    settle(&s->ops);
    settle(&s->layers);
    settle(&s->nodes);
    return status;
}

/* Operations and layers come first in the recorder's words. */
static void find_filter(const qn_trace *t, trace_sums *s)
{
    const char *f = s->filter = qn_trace_find_note(t, "filter");
    if (!f) return;
    s->lacks_nodes = strncmp(f, "ops ", 4) == 0 || strncmp(f, "layers ", 7) == 0;
    s->lacks_steps = !s->lacks_nodes || strstr(f, "; tokens ") || strstr(f, "; phases ");
}

bool trace_account_known(const trace_sums *s, int account)
{
    if (account == TRACE_paging || account == TRACE_preempted) return s->info.sampled;
    return account == TRACE_outside ? !s->lacks_steps : !s->lacks_nodes;
}

bool trace_is_one_team(const trace_sums *s)
{
    const int32_t members = s->n_members > 0 ? s->n_members : 1;
    uint64_t helpers = 0, steps = 0;
    if (s->n_threads > members) return false;
    /* of a recording that isn't whole, a thread may lack what others have */
    if (s->filter || !s->info.end || strcmp(s->info.end, "stopped") != 0 || s->info.dropped) return true;
    for (int i = QN_TRACE_PHASE_other + 1; i < QN_TRACE_PHASE_COUNT; i++) {
        helpers += s->n_helped[i];
        steps += s->n_steps[i];
    }
    return helpers == steps * (uint64_t)(members - 1);
}

void trace_print_lacks(FILE *out, const trace_sums *s)
{
    char safe[512];
    if (s->filter)
        fprintf(out, "recorded were only %s: %s%s%s not measured\n", trace_safe(safe, sizeof safe, s->filter),
                s->lacks_nodes ? "accounts and rates that need all nodes" : "",
                s->lacks_nodes && s->lacks_steps ? ", and " : "",
                s->lacks_nodes && s->lacks_steps ? "the time outside of graphs, are"
                : s->lacks_steps                 ? "the time outside of graphs is"
                                                 : " are");
    static const char limited[] = "its size was limited"; /* as the recorder says it */
    if (s->info.end && strcmp(s->info.end, limited) == 0)
        fprintf(out, "the recording ended early: %s (--trace-limit); what came later is not in it\n", limited);
    if (s->n_cut)
        fprintf(out, "%llu step%s without an end in the file, with %llu events of nodes: not in the sums\n",
                (unsigned long long)s->n_cut, s->n_cut == 1 ? " is" : "s are", (unsigned long long)s->cut_nodes);
}

int trace_sum(qn_trace *t, bool by_step, trace_sums *out)
{
    qn_error err;
    adding a = {.s = out};
    *out = (trace_sums){.last_ns = INT64_MIN};
    qn_trace_get_info(t, &out->info);
    find_filter(t, out);
    for (int64_t i = 0; i < out->info.n_steps; i++) out->n_cut += is_cut(&out->info.steps[i]);
    if (by_step) out->step_account = calloc((size_t)out->info.n_steps + 1, sizeof *out->step_account);
    a.failed = (by_step && !out->step_account) || !start_parts(&a);
    const qn_status status = a.failed ? QN_OK : sum_events(t, &a, &err);
    trace_table_deinit(&a.peaks);
    trace_table_deinit(&a.others);
    trace_losses_deinit(&a.losses);
    free(a.parts);
    if (status == QN_OK && !a.failed) return CLI_OK;
    trace_sums_deinit(out);
    return status != QN_OK ? cli_fail_error(&err) : cli_no_memory("out of memory for the tables of the trace");
}
