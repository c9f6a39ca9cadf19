/* SPDX-License-Identifier: MIT */
/* src/cli/trace_report_parts.c -- the parts of a report's data. What the page computes of it (bytes and operations of a
 * node in a step, times by name) it computes as trace_sums.c and qn_trace_cost_of do; tests compare the two. */
#include "cli/trace_report.h"
#include <stdlib.h>
#include <string.h>

void trace_bytes_put(trace_bytes *b, const void *data, size_t n)
{
    if (b->failed || n == 0) return;
    if (b->cap - b->n < n) {
        size_t cap = b->cap ? b->cap : 256;
        while (cap - b->n < n && cap <= SIZE_MAX / 2) cap *= 2;
        uint8_t *at = cap - b->n < n ? NULL : realloc(b->at, cap);
        b->failed = !at;
        if (!at) return;
        b->at = at;
        b->cap = cap;
    }
    memcpy(b->at + b->n, data, n);
    b->n += n;
}

static void put_number(trace_bytes *b, uint64_t x)
{
    uint8_t out[10];
    size_t n = 0;
    for (; x >= 128; x >>= 7) out[n++] = (uint8_t)(x | 128);
    out[n++] = (uint8_t)x;
    trace_bytes_put(b, out, n);
}

static uint64_t zigzag(int64_t x) { return x < 0 ? ~((uint64_t)x << 1) : (uint64_t)x << 1; }

void trace_column_put(trace_column *c, int64_t value)
{
    if (c->kind == TRACE_COLUMN_number)
        put_number(&c->data, value > 0 ? (uint64_t)value : 0);
    else if (c->kind == TRACE_COLUMN_signed)
        put_number(&c->data, zigzag(value));
    else
        put_number(&c->data, zigzag((int64_t)((uint64_t)value - (uint64_t)c->last)));
    c->last = value;
    c->n++;
}

void trace_column_put_text(trace_column *c, const char *text, size_t n)
{
    put_number(&c->data, n);
    trace_bytes_put(&c->data, text, n);
    c->n++;
}

void trace_column_put_float(trace_column *c, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint8_t out[] = {(uint8_t)bits, (uint8_t)(bits >> 8), (uint8_t)(bits >> 16), (uint8_t)(bits >> 24)};
    trace_bytes_put(&c->data, out, sizeof out);
    c->n++;
}

void trace_part_add(trace_part *p, trace_column *columns, int n)
{
    for (int i = 0; i < n; i++) {
        trace_column *c = &columns[i];
        const char kind = (char)c->kind;
        put_number(&p->data, strlen(c->name));
        trace_bytes_put(&p->data, c->name, strlen(c->name));
        trace_bytes_put(&p->data, &kind, 1);
        put_number(&p->data, c->n);
        put_number(&p->data, c->data.n);
        trace_bytes_put(&p->data, c->data.at, c->data.n);
        p->data.failed |= c->data.failed;
        free(c->data.at);
        c->data = (trace_bytes){0};
        c->n = 0;
    }
}

/* What is larger than a page's numbers can say exactly is cut off there: nothing real is. */
static int64_t wide(uint64_t x) { return x < UINT64_C(1) << 53 ? (int64_t)x : INT64_C(1) << 53; }

/* ---- overview ---- */

bool trace_part_overview(trace_report_source *s, trace_part *p)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    trace_looks looks = {0};
    bool ok = out && trace_looks_sum(s->trace, &looks);
    if (ok) trace_put_stats(out, s->trace, &s->sums, &looks);
    trace_looks_deinit(&looks);
    if (!out) return false;
    ok = ok && !ferror(out);
    ok = fclose(out) == 0 && ok;
    trace_column columns[] = {
        {.name = "stats", .kind = TRACE_COLUMN_text},        {.name = "path", .kind = TRACE_COLUMN_text},
        {.name = "file", .kind = TRACE_COLUMN_text},         {.name = "file_id", .kind = TRACE_COLUMN_number},
        {.name = "file_bytes", .kind = TRACE_COLUMN_number}, {.name = "kinds", .kind = TRACE_COLUMN_text},
        {.name = "phases", .kind = TRACE_COLUMN_text},       {.name = "accounts", .kind = TRACE_COLUMN_text},
        {.name = "account_texts", .kind = TRACE_COLUMN_text}};
    static const char *const accounts[][2] = {
#define ROW(name, words) {#name, words},
        TRACE_ACCOUNT_ROWS(ROW)
#undef ROW
    };
    if (ok) trace_column_put_text(&columns[0], text, n);
    trace_column_put_text(&columns[1], s->path, strlen(s->path));
    for (int i = 0; i < s->sums.info.n_files; i++) {
        const qn_trace_file *f = &s->sums.info.files[i];
        trace_column_put_text(&columns[2], f->path, strlen(f->path));
        trace_column_put(&columns[3], f->id);
        trace_column_put(&columns[4], wide(f->bytes));
    }
    for (int i = 0; i < QN_TRACE_KIND_COUNT; i++)
        trace_column_put_text(&columns[5], qn_trace_kind_name(i), strlen(qn_trace_kind_name(i)));
    for (int i = 0; i < QN_TRACE_PHASE_COUNT; i++)
        trace_column_put_text(&columns[6], qn_trace_phase_name(i), strlen(qn_trace_phase_name(i)));
    for (int i = 0; i < TRACE_ACCOUNTS; i++)
        for (int k = 0; k < 2; k++) trace_column_put_text(&columns[7 + k], accounts[i][k], strlen(accounts[i][k]));
    trace_part_add(p, columns, CLI_N(columns));
    free(text);
    return ok;
}

/* ---- steps ---- */

enum { STEP_number, STEP_begin, STEP_ns, STEP_plan, STEP_session, STEP_phase, STEP_tokens, STEP_out, STEP_sights };
enum { STEP_cells = STEP_sights + 1, STEP_pairs, STEP_pos, STEP_seq, STEP_has_tokens, STEP_token, STEP_account };

static int64_t plan_index(const qn_trace_info *info, const qn_trace_plan *plan)
{
    for (int i = 0; i < info->n_plans; i++)
        if (info->plans[i] == plan) return i;
    return 0;
}

static void put_step(const trace_report_source *s, const qn_trace_step *step, trace_column *c)
{
    const int64_t values[] = {wide(step->number), step->begin_ns, step->ns,       plan_index(&s->sums.info, step->plan),
                              step->session,      step->phase,    step->n_tokens, step->n_out,
                              step->n_sights};
    for (int i = 0; i < CLI_N(values); i++) trace_column_put(&c[i], values[i]);
    for (int32_t i = 0; i < step->n_sights; i++) {
        trace_column_put(&c[STEP_cells], wide(step->sights[i].cells));
        trace_column_put(&c[STEP_pairs], wide(step->sights[i].pairs));
    }
    trace_column_put(&c[STEP_has_tokens], step->tokens != NULL);
    for (int32_t i = 0; i < step->n_tokens; i++) {
        trace_column_put(&c[STEP_pos], step->pos[i]);
        trace_column_put(&c[STEP_seq], step->seq ? step->seq[i] : -1);
        trace_column_put(&c[STEP_token], step->tokens ? step->tokens[i] : -1);
    }
}

/* The time before a step, in ns; where steps overlap, less than nothing, so that the sum is what no step fills. */
static double gap_before(const qn_trace_step *step, int64_t *last)
{
    const int64_t end = step->ns < 0 ? *last : step->begin_ns + step->ns, later = end > *last ? end : *last;
    const double gap = step->ns < 0 ? 0 : (double)(later - *last - step->ns);
    *last = later;
    return gap;
}

/* What accounts have outside of steps is shared out by the time before each, so that a column's sum is the account. */
static void put_accounts(const trace_report_source *s, trace_column *c)
{
    const qn_trace_info *info = &s->sums.info;
    double rest[TRACE_ACCOUNTS], gaps = 0;
    int64_t last = s->sums.first_ns;
    memcpy(rest, s->sums.account, sizeof rest);
    for (int64_t i = 0; i < info->n_steps; i++) {
        for (int k = 0; k < TRACE_ACCOUNTS; k++) rest[k] -= s->sums.step_account[i][k];
        gaps += gap_before(&info->steps[i], &last);
    }
    last = s->sums.first_ns;
    for (int64_t i = 0; i < info->n_steps; i++) {
        const double gap = gap_before(&info->steps[i], &last), share = gaps > 0 ? gap / gaps : i == 0;
        for (int k = 0; k < TRACE_ACCOUNTS; k++)
            trace_column_put(&c[k], trace_account_known(&s->sums, k)
                                        ? (int64_t)(s->sums.step_account[i][k] + share * rest[k])
                                        : 0);
    }
}

bool trace_part_steps(trace_report_source *s, trace_part *p)
{
    trace_column columns[STEP_account + TRACE_ACCOUNTS] = {
        {.name = "number", .kind = TRACE_COLUMN_step},     {.name = "begin", .kind = TRACE_COLUMN_step},
        {.name = "ns", .kind = TRACE_COLUMN_signed},       {.name = "plan", .kind = TRACE_COLUMN_number},
        {.name = "session", .kind = TRACE_COLUMN_number},  {.name = "phase", .kind = TRACE_COLUMN_number},
        {.name = "n_tokens", .kind = TRACE_COLUMN_number}, {.name = "n_out", .kind = TRACE_COLUMN_number},
        {.name = "n_sights", .kind = TRACE_COLUMN_number}, {.name = "cells", .kind = TRACE_COLUMN_step},
        {.name = "pairs", .kind = TRACE_COLUMN_step},      {.name = "pos", .kind = TRACE_COLUMN_step},
        {.name = "seq", .kind = TRACE_COLUMN_step},        {.name = "has_tokens", .kind = TRACE_COLUMN_number},
        {.name = "token", .kind = TRACE_COLUMN_step}};
    static const char *const accounts[] = {
#define ROW(name, words) "account_" #name,
        TRACE_ACCOUNT_ROWS(ROW)
#undef ROW
    };
    for (int i = 0; i < TRACE_ACCOUNTS; i++)
        columns[STEP_account + i] = (trace_column){.name = accounts[i], .kind = TRACE_COLUMN_signed};
    for (int64_t i = 0; i < s->sums.info.n_steps; i++) put_step(s, &s->sums.info.steps[i], columns);
    put_accounts(s, columns + STEP_account);
    trace_part_add(p, columns, CLI_N(columns));
    return true;
}

/* ---- plans ---- */

/* Numbers of a node that the page gets as they are: NUMBER(name, kind, value). */
#define NODE_ROWS(NUMBER) \
    NUMBER(layer, signed, n->layer) \
    NUMBER(place, signed, n->place) \
    NUMBER(flags, number, n->flags | (unsigned)n->computes << 3 | (unsigned)n->shared << 4) \
    NUMBER(rank, number, n->rank) \
    NUMBER(n_src, number, n->n_src) \
    NUMBER(root, step, n->root) \
    NUMBER(last_use, step, n->last_use) \
    NUMBER(bytes, number, wide(n->bytes)) \
    NUMBER(space, number, n->space) \
    NUMBER(file, signed, n->file) \
    NUMBER(offset, step, wide(n->offset)) \
    NUMBER(scratch, step, wide(n->scratch)) \
    NUMBER(scratch_bytes, number, wide(n->scratch_bytes)) \
    NUMBER(weight_bytes, number, wide(n->cost.weight_bytes)) \
    NUMBER(cache_bytes, number, wide(n->cost.cache_bytes)) \
    NUMBER(act_bytes, number, wide(n->cost.act_bytes)) \
    NUMBER(ops, number, wide(n->cost.ops)) \
    NUMBER(cell_bytes, number, wide(n->cost.cell_bytes)) \
    NUMBER(cell_ops, number, wide(n->cost.cell_ops)) \
    NUMBER(expert_bytes, number, wide(n->cost.expert_bytes)) \
    NUMBER(n_experts, number, n->cost.n_experts) \
    NUMBER(n_used, number, n->cost.n_used) \
    NUMBER(sight, number, n->cost.sight)

enum { NODE_key, NODE_op, NODE_dtype, NODE_shape, NODE_src, NODE_numbers };

static void put_node(const qn_trace_node *n, trace_column *c)
{
    char key[160];
    trace_node_key(n, key, sizeof key);
    trace_column_put_text(&c[NODE_key], key, strlen(key));
    trace_column_put_text(&c[NODE_op], n->op, strlen(n->op));
    trace_column_put_text(&c[NODE_dtype], n->dtype, strlen(n->dtype));
    for (int32_t i = 0; i < n->rank; i++) trace_column_put(&c[NODE_shape], wide((uint64_t)n->shape[i]));
    for (int32_t i = 0; i < n->n_src; i++) trace_column_put(&c[NODE_src], n->src[i]);
    trace_column *number = &c[NODE_numbers];
#define NUMBER(name, kind, value) trace_column_put(number++, value);
    NODE_ROWS(NUMBER)
#undef NUMBER
}

bool trace_part_plans(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column plans[] = {{.name = "plan", .kind = TRACE_COLUMN_number},
                            {.name = "n_nodes", .kind = TRACE_COLUMN_number},
                            {.name = "n_places", .kind = TRACE_COLUMN_number},
                            {.name = "place_name", .kind = TRACE_COLUMN_text},
                            {.name = "place_bytes", .kind = TRACE_COLUMN_number}};
    trace_column nodes[] = {{.name = "key", .kind = TRACE_COLUMN_text},
                            {.name = "op", .kind = TRACE_COLUMN_text},
                            {.name = "dtype", .kind = TRACE_COLUMN_text},
                            {.name = "shape", .kind = TRACE_COLUMN_number},
                            {.name = "src", .kind = TRACE_COLUMN_step},
#define NUMBER(id, form, value) {.name = #id, .kind = TRACE_COLUMN_##form},
                            NODE_ROWS(NUMBER)
#undef NUMBER
    };
    for (int i = 0; i < info->n_plans; i++) {
        const qn_trace_plan *plan = info->plans[i];
        trace_column_put(&plans[0], plan->id);
        trace_column_put(&plans[1], plan->n_nodes);
        trace_column_put(&plans[2], plan->n_places);
        for (int32_t k = 0; k < plan->n_places; k++) {
            trace_column_put_text(&plans[3], plan->places[k], strlen(plan->places[k]));
            trace_column_put(&plans[4], wide(plan->place_bytes[k]));
        }
        for (int32_t k = 0; k < plan->n_nodes; k++) put_node(&plan->nodes[k], nodes);
    }
    trace_part_add(p, plans, CLI_N(plans));
    trace_part_add(p, nodes, CLI_N(nodes));
    return true;
}

/* ---- choices, usage ---- */

bool trace_part_choices(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column columns[] = {{.name = "step", .kind = TRACE_COLUMN_step},
                              {.name = "node", .kind = TRACE_COLUMN_step},
                              {.name = "n_ids", .kind = TRACE_COLUMN_number},
                              {.name = "n_distinct", .kind = TRACE_COLUMN_number},
                              {.name = "id", .kind = TRACE_COLUMN_number},
                              {.name = "has_gates", .kind = TRACE_COLUMN_number},
                              {.name = "gate", .kind = TRACE_COLUMN_float}};
    for (int64_t i = 0; i < info->n_steps; i++) {
        for (int32_t k = 0; k < info->steps[i].n_choices; k++) {
            const qn_trace_choice *choice = &info->steps[i].choices[k];
            const int64_t values[] = {i, choice->node, choice->n_ids, choice->n_distinct};
            for (int j = 0; j < CLI_N(values); j++) trace_column_put(&columns[j], values[j]);
            for (int32_t j = 0; j < choice->n_ids; j++) trace_column_put(&columns[4], choice->ids[j]);
            trace_column_put(&columns[5], choice->gates != NULL);
            for (int32_t j = 0; choice->gates && j < choice->n_ids; j++)
                trace_column_put_float(&columns[6], choice->gates[j]);
        }
    }
    if (columns[0].n) trace_part_add(p, columns, CLI_N(columns));
    return true;
}

bool trace_part_usage(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column columns[] = {
        {.name = "at", .kind = TRACE_COLUMN_step},           {.name = "cpu_ns", .kind = TRACE_COLUMN_step},
        {.name = "minor_faults", .kind = TRACE_COLUMN_step}, {.name = "major_faults", .kind = TRACE_COLUMN_step},
        {.name = "waits", .kind = TRACE_COLUMN_step},        {.name = "preemptions", .kind = TRACE_COLUMN_step},
        {.name = "read_bytes", .kind = TRACE_COLUMN_step},   {.name = "resident_bytes", .kind = TRACE_COLUMN_step}};
    for (int64_t i = 0; i < info->n_usage; i++) {
        const qn_trace_usage *u = &info->usage[i];
        const int64_t values[] = {u->at_ns, u->cpu_ns,      u->minor_faults, u->major_faults,
                                  u->waits, u->preemptions, u->read_bytes,   u->resident_bytes};
        for (int k = 0; k < CLI_N(values); k++) trace_column_put(&columns[k], values[k]);
    }
    if (columns[0].n) trace_part_add(p, columns, CLI_N(columns));
    return true;
}

/* ---- where bytes come from ---- */

static int64_t lane_index(const qn_trace_info *info, const qn_trace_lane *lane)
{
    return lane ? lane - info->lanes : -1;
}

/* There when faults were sampled, even if there was none. */
bool trace_part_faults(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column columns[] = {{.name = "lane", .kind = TRACE_COLUMN_signed},
                              {.name = "at", .kind = TRACE_COLUMN_step},
                              {.name = "ns", .kind = TRACE_COLUMN_signed},
                              {.name = "file", .kind = TRACE_COLUMN_signed},
                              {.name = "major", .kind = TRACE_COLUMN_number},
                              {.name = "offset", .kind = TRACE_COLUMN_step},
                              {.name = "lost", .kind = TRACE_COLUMN_number}};
    if (!info->sampled) return true;
    for (int64_t i = 0; i < info->n_faults; i++) {
        const qn_trace_fault *f = &info->faults[i];
        const int64_t values[] = {lane_index(info, f->lane), f->at_ns, f->ns, f->file, f->major, wide(f->offset)};
        for (int k = 0; k < CLI_N(values); k++) trace_column_put(&columns[k], values[k]);
    }
    trace_column_put(&columns[6], wide(info->samples_lost));
    trace_part_add(p, columns, CLI_N(columns));
    return true;
}

bool trace_part_pauses(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column columns[] = {{.name = "lane", .kind = TRACE_COLUMN_signed},
                              {.name = "at", .kind = TRACE_COLUMN_step},
                              {.name = "ns", .kind = TRACE_COLUMN_signed}};
    if (!info->sampled) return true;
    for (int64_t i = 0; i < info->n_pauses; i++) {
        const int64_t values[] = {lane_index(info, info->pauses[i].lane), info->pauses[i].at_ns, info->pauses[i].ns};
        for (int k = 0; k < CLI_N(values); k++) trace_column_put(&columns[k], values[k]);
    }
    trace_part_add(p, columns, CLI_N(columns));
    return true;
}

bool trace_part_residency(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    trace_column columns[] = {{.name = "at", .kind = TRACE_COLUMN_step},
                              {.name = "file", .kind = TRACE_COLUMN_signed},
                              {.name = "n", .kind = TRACE_COLUMN_number},
                              {.name = "page", .kind = TRACE_COLUMN_number},
                              {.name = "unit", .kind = TRACE_COLUMN_number},
                              {.name = "first", .kind = TRACE_COLUMN_number},
                              {.name = "pages", .kind = TRACE_COLUMN_number}};
    for (int64_t i = 0; i < info->n_residency; i++) {
        const qn_trace_residency *r = &info->residency[i];
        const int64_t values[] = {r->at_ns, r->file, r->n, r->page, wide(r->unit), wide(r->first)};
        for (int k = 0; k < CLI_N(values); k++) trace_column_put(&columns[k], values[k]);
        for (uint32_t k = 0; k < r->n; k++) trace_column_put(&columns[6], r->pages[k]);
    }
    if (columns[0].n) trace_part_add(p, columns, CLI_N(columns));
    return true;
}

bool trace_part_extents(trace_report_source *s, trace_part *p)
{
    const qn_trace_extent *extents;
    int64_t n;
    trace_column columns[] = {
        {.name = "file", .kind = TRACE_COLUMN_signed},     {.name = "offset", .kind = TRACE_COLUMN_step},
        {.name = "touched", .kind = TRACE_COLUMN_number},  {.name = "ever", .kind = TRACE_COLUMN_number},
        {.name = "resident", .kind = TRACE_COLUMN_signed}, {.name = "unused", .kind = TRACE_COLUMN_signed},
        {.name = "grown", .kind = TRACE_COLUMN_signed},    {.name = "faults", .kind = TRACE_COLUMN_signed}};
    if (qn_trace_get_extents(s->trace, &extents, &n, NULL) != QN_OK) return false;
    for (int64_t i = 0; i < n; i++) {
        const qn_trace_extent *e = &extents[i];
        const int64_t values[] = {e->file,       wide(e->offset), wide((uint64_t)e->touched),
                                  wide(e->ever), e->resident,     e->unused,
                                  e->grown,      e->faults};
        for (int k = 0; k < CLI_N(values); k++) trace_column_put(&columns[k], values[k]);
    }
    if (n) trace_part_add(p, columns, CLI_N(columns));
    return true;
}

/* Of decoding, or of all steps where there is none. */
bool trace_part_curves(trace_report_source *s, trace_part *p)
{
    static const char *const texts[] = {
#define ROW(name, words) words,
        QN_TRACE_POLICY_ROWS(ROW)
#undef ROW
    };
    qn_trace_curves c;
    trace_column columns[] = {
        {.name = "policy", .kind = TRACE_COLUMN_text},    {.name = "text", .kind = TRACE_COLUMN_text},
        {.name = "memory", .kind = TRACE_COLUMN_step},    {.name = "read", .kind = TRACE_COLUMN_step},
        {.name = "steps", .kind = TRACE_COLUMN_number},   {.name = "tokens", .kind = TRACE_COLUMN_number},
        {.name = "touched", .kind = TRACE_COLUMN_number}, {.name = "used", .kind = TRACE_COLUMN_number}};
    const int phase = s->sums.n_steps[QN_TRACE_PHASE_decode] > 1 ? QN_TRACE_PHASE_decode : -1;
    if (qn_trace_get_curves(s->trace, phase, &c, NULL) != QN_OK) return false;
    if (c.n_steps == 0) return true;
    for (int i = 0; i < QN_TRACE_POLICY_COUNT; i++) {
        trace_column_put_text(&columns[0], qn_trace_policy_name(i), strlen(qn_trace_policy_name(i)));
        trace_column_put_text(&columns[1], texts[i], strlen(texts[i]));
        for (int k = 0; k < QN_TRACE_CURVE_POINTS; k++) trace_column_put(&columns[3], wide((uint64_t)c.read[i][k]));
    }
    for (int k = 0; k < QN_TRACE_CURVE_POINTS; k++) trace_column_put(&columns[2], wide(c.memory[k]));
    const int64_t values[] = {c.n_steps, c.n_tokens, wide((uint64_t)c.touched), wide(c.used_bytes)};
    for (int i = 0; i < CLI_N(values); i++) trace_column_put(&columns[4 + i], values[i]);
    trace_part_add(p, columns, CLI_N(columns));
    return true;
}

bool trace_part_difference(const trace_report_source *a, const trace_report_source *b, trace_part *p)
{
    qn_trace_difference d;
    trace_column columns[] = {{.name = "compared", .kind = TRACE_COLUMN_number},
                              {.name = "differ", .kind = TRACE_COLUMN_number},
                              {.name = "alone", .kind = TRACE_COLUMN_number},
                              {.name = "step", .kind = TRACE_COLUMN_number},
                              {.name = "key", .kind = TRACE_COLUMN_text}};
    if (qn_trace_compare_values(a->trace, b->trace, &d, NULL) != QN_OK) return false;
    if (d.compared == 0) return true;
    trace_column_put(&columns[0], wide(d.compared));
    trace_column_put(&columns[1], wide(d.differ));
    trace_column_put(&columns[2], wide(d.alone));
    if (d.node) {
        char key[160];
        trace_node_key(d.node, key, sizeof key);
        trace_column_put(&columns[3], wide(d.step->number));
        trace_column_put_text(&columns[4], key, strlen(key));
    }
    trace_part_add(p, columns, CLI_N(columns));
    return true;
}

/* ---- events ---- */

enum { EVENT_kind, EVENT_step, EVENT_node, EVENT_gap, EVENT_ns, EVENT_wait, EVENT_COLUMNS };

/* Lanes' blocks come in any order; the page gets each lane's behind each other. */
typedef struct lane_events {
    trace_column column[EVENT_COLUMNS], mark;
    int64_t end;
} lane_events;

typedef struct gathering {
    const qn_trace_info *info;
    lane_events *lanes;
} gathering;

static void start_lane(lane_events *l)
{
    static const char *const names[] = {"kind", "step", "node", "gap", "ns", "wait"};
    for (int i = 0; i < EVENT_COLUMNS; i++)
        l->column[i] = (trace_column){.name = names[i], .kind = TRACE_COLUMN_number};
    l->column[EVENT_step].kind = l->column[EVENT_node].kind = TRACE_COLUMN_step;
    l->column[EVENT_gap].kind = TRACE_COLUMN_signed;
    l->mark = (trace_column){.name = "mark", .kind = TRACE_COLUMN_text};
}

static bool gather(void *ctx, const qn_trace_event *e)
{
    const gathering *g = ctx;
    lane_events *l = &g->lanes[e->lane - g->info->lanes];
    const int64_t values[] = {
        e->kind,   e->step ? e->step - g->info->steps : -1, e->node ? e->node->id : -1, e->begin_ns - l->end, e->ns,
        e->wait_ns};
    for (int i = 0; i < EVENT_COLUMNS; i++) trace_column_put(&l->column[i], values[i]);
    l->end = e->begin_ns + e->ns;
    if (e->kind == QN_TRACE_mark) trace_column_put_text(&l->mark, e->text, strlen(e->text));
    return !l->column[EVENT_ns].data.failed;
}

bool trace_part_events(trace_report_source *s, trace_part *p)
{
    const qn_trace_info *info = &s->sums.info;
    gathering g = {info, calloc((size_t)info->n_lanes + 1, sizeof *g.lanes)};
    trace_column lanes[] = {{.name = "lane", .kind = TRACE_COLUMN_number},
                            {.name = "thread", .kind = TRACE_COLUMN_number},
                            {.name = "member", .kind = TRACE_COLUMN_signed},
                            {.name = "events", .kind = TRACE_COLUMN_number},
                            {.name = "dropped", .kind = TRACE_COLUMN_number}};
    if (!g.lanes) return false;
    for (int i = 0; i < info->n_lanes; i++) start_lane(&g.lanes[i]);
    const bool ok = qn_trace_walk(s->trace, gather, &g, NULL) == QN_OK;
    for (int i = 0; i < info->n_lanes; i++) {
        const qn_trace_lane *lane = &info->lanes[i];
        const int64_t values[] = {lane->id, lane->thread, lane->member, (int64_t)g.lanes[i].column[0].n,
                                  wide(lane->dropped)};
        for (int k = 0; k < CLI_N(values); k++) trace_column_put(&lanes[k], values[k]);
    }
    trace_part_add(p, lanes, CLI_N(lanes));
    for (int i = 0; i < info->n_lanes; i++) { /* columns of the same names follow each other: a lane each */
        trace_part_add(p, g.lanes[i].column, EVENT_COLUMNS);
        trace_part_add(p, &g.lanes[i].mark, 1);
    }
    free(g.lanes);
    return ok;
}
