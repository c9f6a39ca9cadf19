/* SPDX-License-Identifier: MIT */
/* src/text/grammar/match.c -- running a grammar. Where an output stands is a set of stacks: a state on top, and below
 * it the states to go on with when a rule ends. Stacks are kept once each as linked nodes, sets of them once each as
 * configurations; what a byte makes of a configuration is computed once. So a long output in a small grammar becomes
 * table look-ups. When the tables grow too large they are emptied, but for where the output stands. */
#include "text/grammar/match.h"

#include <string.h>

#define MAX_NODES   (1 << 20)
#define MAX_CONFIGS (1 << 15)
#define MAX_BYTES   ((size_t)48 << 20) /* of transitions and masks */

/* ---- growing arrays -------------------------------------------------------------------------------- */

static bool room(void *array, int32_t n, int32_t *cap, size_t size)
{
    void *old;
    if (n < *cap) return true;
    const int32_t more = *cap ? 2 * *cap : 256;
    memcpy(&old, array, sizeof old);
    void *p = qn__realloc(old, (size_t)more * size);
    if (!p) return false;
    memcpy(array, &p, sizeof p);
    *cap = more;
    return true;
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

static uint32_t hash2(uint32_t a, uint32_t b) { return (a * 0x9E3779B1u ^ b) * 0x85EBCA6Bu; }

static bool rehash_nodes(qn_matcher *m)
{
    const uint32_t n = m->n_node_slots ? 2 * m->n_node_slots : 1024;
    int32_t *slots = qn__calloc(n, sizeof *slots);
    if (!slots) return false;
    qn__free(m->node_slots);
    m->node_slots = slots;
    m->n_node_slots = n;
    for (int32_t i = 0; i < m->n_nodes; i++) {
        const uint32_t at = hash2((uint32_t)m->nodes[i].state, (uint32_t)m->nodes[i].parent) >> 7 & (n - 1);
        m->nodes[i].next = slots[at];
        slots[at] = i + 1;
    }
    return true;
}

/* The stack of `state` over `parent`; -1 after a failure. */
static int32_t node_of(qn_matcher *m, int32_t state, int32_t parent)
{
    if ((uint32_t)m->n_nodes >= m->n_node_slots && !rehash_nodes(m)) return m->nomem = true, -1;
    const uint32_t at = hash2((uint32_t)state, (uint32_t)parent) >> 7 & (m->n_node_slots - 1);
    for (int32_t i = m->node_slots[at]; i; i = m->nodes[i - 1].next)
        if (m->nodes[i - 1].state == state && m->nodes[i - 1].parent == parent) return i - 1;
    const int32_t depth = parent < 0 ? 0 : m->nodes[parent].depth + 1;
    if (depth > QN_GRAMMAR_MAX_DEPTH) return m->too_deep = true, -1;
    if (!room(&m->nodes, m->n_nodes, &m->cap_nodes, sizeof *m->nodes)) return m->nomem = true, -1;
    m->nodes[m->n_nodes] = (qn_stack_node){.state = state, .parent = parent, .depth = depth, .next = m->node_slots[at]};
    m->node_slots[at] = m->n_nodes + 1;
    return m->n_nodes++;
}

/* ---- closures: every stack that can be reached without a byte ----------------------------------------- */

static void push(qn_matcher *m, int32_t state, int32_t parent)
{
    const int32_t node = node_of(m, state, parent);
    if (node < 0 || m->nodes[node].stamp == m->stamp) return;
    m->nodes[node].stamp = m->stamp;
    if (!room(&m->work, m->n_work, &m->cap_work, sizeof *m->work)) {
        m->nomem = true;
        return;
    }
    m->work[m->n_work++] = node;
}

static void close_all(qn_matcher *m)
{
    const qn_grammar *g = m->grammar;
    while (m->n_work > 0 && !m->nomem && !m->too_deep) {
        const int32_t id = m->work[--m->n_work];
        const int32_t state = m->nodes[id].state, parent = m->nodes[id].parent;
        bool has_bytes = false;
        if (g->is_end[state]) {
            if (parent < 0)
                m->new_may_end = true;
            else
                push(m, m->nodes[parent].state, m->nodes[parent].parent);
            continue;
        }
        for (int32_t e = g->first[state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            if (edge->kind != QN_EDGE_empty && edge->kind != QN_EDGE_call) {
                has_bytes = true;
            } else if (edge->kind == QN_EDGE_empty) {
                push(m, edge->to, parent);
            } else {
                const int32_t below = edge->lo ? parent : node_of(m, edge->to, parent);
                if (edge->lo || below >= 0) push(m, g->rules[edge->rule].begin, below);
            }
        }
        if (!has_bytes) continue;
        if (!room(&m->set, m->n_set, &m->cap_set, sizeof *m->set)) {
            m->nomem = true;
            return;
        }
        m->set[m->n_set++] = id;
    }
}

static void begin_set(qn_matcher *m)
{
    m->stamp++;
    m->n_set = m->n_work = 0;
    m->new_may_end = m->too_deep = false;
}

/* ---- configurations ---------------------------------------------------------------------------------- */

static bool rehash_configs(qn_matcher *m)
{
    const uint32_t n = m->n_config_slots ? 2 * m->n_config_slots : 256;
    int32_t *slots = qn__calloc(n, sizeof *slots);
    if (!slots) return false;
    qn__free(m->config_slots);
    m->config_slots = slots;
    m->n_config_slots = n;
    for (int32_t i = 0; i < m->n_configs; i++) {
        qn_config *c = &m->configs[i];
        c->next = slots[c->hash & (n - 1)];
        slots[c->hash & (n - 1)] = i + 1;
    }
    return true;
}

static void sort_set(int32_t *a, int32_t n)
{
    for (int32_t gap = n / 2; gap > 0; gap /= 2) /* Shell's: sets are small */
        for (int32_t i = gap; i < n; i++) {
            const int32_t v = a[i];
            int32_t k = i;
            for (; k >= gap && a[k - gap] > v; k -= gap) a[k] = a[k - gap];
            a[k] = v;
        }
}

/* The configuration that m->set is; QN_DEAD when it is empty and cannot end, QN_UNKNOWN after a failure. */
static int32_t config_of_set(qn_matcher *m)
{
    if (m->nomem || m->too_deep) return QN_UNKNOWN;
    if (m->n_set == 0 && !m->new_may_end) return QN_DEAD;
    sort_set(m->set, m->n_set);
    uint32_t hash = m->new_may_end;
    for (int32_t i = 0; i < m->n_set; i++) hash = hash2(hash, (uint32_t)m->set[i]) + (hash >> 15);
    if ((uint32_t)m->n_configs >= m->n_config_slots && !rehash_configs(m)) return m->nomem = true, QN_UNKNOWN;
    const uint32_t at = hash & (m->n_config_slots - 1);
    for (int32_t i = m->config_slots[at]; i; i = m->configs[i - 1].next) {
        const qn_config *c = &m->configs[i - 1];
        if (c->hash == hash && c->n == m->n_set && c->may_end == m->new_may_end &&
            memcmp(m->members + c->begin, m->set, (size_t)c->n * sizeof *m->set) == 0)
            return i - 1;
    }
    while (m->cap_members < m->n_members + m->n_set)
        if (!room(&m->members, m->cap_members, &m->cap_members, sizeof *m->members)) return m->nomem = true, QN_UNKNOWN;
    if (!room(&m->configs, m->n_configs, &m->cap_configs, sizeof *m->configs)) return m->nomem = true, QN_UNKNOWN;
    if (m->n_set) memcpy(m->members + m->n_members, m->set, (size_t)m->n_set * sizeof *m->set);
    m->configs[m->n_configs] = (qn_config){
        .begin = m->n_members, .n = m->n_set, .hash = hash, .may_end = m->new_may_end, .next = m->config_slots[at]};
    m->n_members += m->n_set;
    m->config_slots[at] = m->n_configs + 1;
    return m->n_configs++;
}

int32_t qn__matcher_step(qn_matcher *m, int32_t config, uint8_t byte)
{
    const qn_grammar *g = m->grammar;
    if (!m->configs[config].to) {
        int32_t *to = qn__alloc(256 * sizeof *to);
        if (!to) return m->nomem = true, QN_UNKNOWN;
        for (int i = 0; i < 256; i++) to[i] = QN_UNKNOWN;
        m->configs[config].to = to;
        m->cached_bytes += 256 * sizeof *to;
    }
    int32_t next = m->configs[config].to[byte];
    if (next != QN_UNKNOWN) return next;
    begin_set(m);
    for (int32_t i = 0; i < m->configs[config].n && !m->nomem; i++) {
        const qn_stack_node top = m->nodes[m->members[m->configs[config].begin + i]];
        for (int32_t e = g->first[top.state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            if (edge->kind == QN_EDGE_bytes && byte >= edge->lo && byte <= edge->hi) push(m, edge->to, top.parent);
        }
    }
    close_all(m);
    next = config_of_set(m);
    if (next != QN_UNKNOWN) m->configs[config].to[byte] = next;
    return next;
}

int32_t qn__matcher_step_token(qn_matcher *m, int32_t config, qn_token token)
{
    const qn_grammar *g = m->grammar;
    begin_set(m);
    for (int32_t i = 0; i < m->configs[config].n && g->n_tokens && !m->nomem; i++) {
        const qn_stack_node top = m->nodes[m->members[m->configs[config].begin + i]];
        for (int32_t e = g->first[top.state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            const bool is = edge->kind == QN_EDGE_token, is_not = edge->kind == QN_EDGE_not_token;
            if ((is || is_not) && is == (m->tokens[edge->rule] == token)) push(m, edge->to, top.parent);
        }
    }
    close_all(m);
    return config_of_set(m);
}

/* Both at once. */
static int32_t united(qn_matcher *m, int32_t a, int32_t b)
{
    if (a < 0 || b < 0) return a < 0 ? b : a;
    begin_set(m);
    for (int k = 0; k < 2; k++) {
        const qn_config c = m->configs[k ? b : a];
        m->new_may_end |= c.may_end;
        for (int32_t i = 0; i < c.n && !m->nomem; i++) {
            const qn_stack_node top = m->nodes[m->members[c.begin + i]];
            push(m, top.state, top.parent);
        }
    }
    close_all(m);
    return config_of_set(m);
}

/* ---- a matcher's life ---------------------------------------------------------------------------------- */

static void empty_tables(qn_matcher *m)
{
    for (int32_t i = 0; i < m->n_configs; i++) {
        qn__free(m->configs[i].to);
        qn__free(m->configs[i].mask);
    }
    m->n_configs = m->n_members = m->n_nodes = 0;
    m->cached_bytes = 0;
    if (m->config_slots) memset(m->config_slots, 0, m->n_config_slots * sizeof *m->config_slots);
    if (m->node_slots) memset(m->node_slots, 0, m->n_node_slots * sizeof *m->node_slots);
}

qn_status qn__matcher_failure(qn_matcher *m, qn_error *err)
{
    const bool deep = m->too_deep;
    m->too_deep = false;
    if (deep) return QN_FAIL(err, limit, "grammar: rules are nested more than %d deep", QN_GRAMMAR_MAX_DEPTH);
    m->nomem = false;
    return QN_FAIL(err, nomem, "out of memory: states of a grammar");
}

static qn_status to_beginning(qn_matcher *m, qn_error *err)
{
    const qn_grammar *g = m->grammar;
    begin_set(m);
    push(m, g->rules[g->root].begin, -1);
    close_all(m);
    const int32_t config = config_of_set(m);
    if (config == QN_UNKNOWN) return qn__matcher_failure(m, err);
    if (config == QN_DEAD) return QN_FAIL(err, invalid, "grammar: nothing at all can be said by it");
    m->config = m->start = config;
    return QN_OK;
}

/* Which tokens of this vocabulary the grammar names. */
static qn_status resolve_tokens(qn_matcher *m, qn_error *err)
{
    const qn_grammar *g = m->grammar;
    m->tokens = qn__calloc((size_t)g->n_tokens + 1, sizeof *m->tokens);
    if (!m->tokens) return QN_FAIL_NOMEM(err, (size_t)g->n_tokens * sizeof *m->tokens);
    for (int32_t i = 0; i < g->n_tokens; i++) {
        const qn_grammar_token *t = &g->tokens[i];
        m->tokens[i] = t->name ? qn_tokenizer_find(m->tok, t->name, strlen(t->name)) : t->id;
        if (t->name && m->tokens[i] == QN_TOKEN_NONE)
            return QN_FAIL(err, invalid, "grammar: the vocabulary has no token %.60s", t->name);
        if (m->tokens[i] >= qn_tokenizer_n_tokens(m->tok))
            return QN_FAIL(err, invalid, "grammar: token <[%d]> of %d", m->tokens[i], qn_tokenizer_n_tokens(m->tok));
    }
    return QN_OK;
}

qn_status qn_matcher_create(const qn_grammar *grammar, const qn_tokenizer *tok, qn_matcher **out, qn_error *err)
{
    qn_matcher *m = qn__calloc(1, sizeof *m);
    if (!m) return QN_FAIL_NOMEM(err, sizeof *m);
    m->grammar = grammar;
    m->tok = tok;
    qn_status status = resolve_tokens(m, err);
    if (status == QN_OK) status = qn__token_trie_create(tok, &m->trie, err);
    if (status == QN_OK) status = to_beginning(m, err);
    if (status == QN_OK)
        *out = m;
    else
        qn_matcher_destroy(m);
    return status;
}

void qn_matcher_destroy(qn_matcher *m)
{
    if (!m) return;
    empty_tables(m);
    qn__token_trie_destroy(m->trie);
    qn__lazy_destroy(m->lazy);
    qn__free(m->tokens);
    qn__free(m->configs);
    qn__free(m->members);
    qn__free(m->nodes);
    qn__free(m->config_slots);
    qn__free(m->node_slots);
    qn__free(m->work);
    qn__free(m->set);
    qn__free(m->bytes);
    qn__free(m);
}

void qn_matcher_reset(qn_matcher *m)
{
    m->config = m->start;
    qn__lazy_reset(m);
}

/* Copies a stack into emptied tables, from the bottom up; `old` holds what was there. */
static int32_t keep_stack(qn_matcher *m, const qn_stack_node *old, int32_t node, int32_t *kept)
{
    int32_t path = node, below = -1;
    int32_t n = 0;
    for (; path >= 0 && kept[path] < 0; path = old[path].parent) n++;
    below = path < 0 ? -1 : kept[path];
    for (int32_t i = n; i > 0; i--) { /* the i-th from the top */
        int32_t at = node;
        for (int32_t k = 1; k < i; k++) at = old[at].parent;
        below = node_of(m, old[at].state, below);
        if (below < 0) return -1;
        kept[at] = below;
    }
    return below;
}

/* Empties the tables when they are too large, and stands where it stood. */
static qn_status tidy(qn_matcher *m, qn_error *err)
{
    if (m->n_nodes < MAX_NODES && m->n_configs < MAX_CONFIGS && m->cached_bytes < MAX_BYTES) return QN_OK;
    const qn_config at = m->configs[m->config];
    const int32_t n_old = m->n_nodes;
    qn_stack_node *old = qn__alloc((size_t)n_old * sizeof *old);
    int32_t *kept = qn__alloc((size_t)n_old * sizeof *kept), *tops = qn__alloc(((size_t)at.n + 1) * sizeof *tops);
    qn_status status = old && kept && tops ? QN_OK : QN_FAIL(err, nomem, "out of memory: states of a grammar");
    if (status == QN_OK) {
        memcpy(old, m->nodes, (size_t)n_old * sizeof *old);
        memcpy(tops, m->members + at.begin, (size_t)at.n * sizeof *tops);
        for (int32_t i = 0; i < n_old; i++) kept[i] = -1;
        empty_tables(m);
        status = to_beginning(m, err);
        begin_set(m);
        for (int32_t i = 0; i < at.n && status == QN_OK; i++) {
            const int32_t node = keep_stack(m, old, tops[i], kept);
            if (node < 0 || !room(&m->set, m->n_set, &m->cap_set, sizeof *m->set)) status = qn__matcher_failure(m, err);
            if (status == QN_OK) m->set[m->n_set++] = node;
        }
        m->new_may_end = at.may_end;
        const int32_t config = status == QN_OK ? config_of_set(m) : QN_UNKNOWN;
        if (status == QN_OK && config < 0) status = qn__matcher_failure(m, err);
        if (status == QN_OK) m->config = config;
    }
    qn__free(old);
    qn__free(kept);
    qn__free(tops);
    return status;
}

qn_status qn__matcher_try_text(qn_matcher *m, int32_t from, const char *text, size_t len, int32_t *to, qn_error *err)
{
    for (size_t i = 0; i < len; i++) {
        from = qn__matcher_step(m, from, (uint8_t)text[i]);
        if (from == QN_UNKNOWN) return qn__matcher_failure(m, err);
        if (from == QN_DEAD)
            return QN_FAIL(err, invalid, "grammar: byte %zu (0x%02x) of the text cannot come there", i,
                           (uint8_t)text[i]);
    }
    *to = from;
    return QN_OK;
}

qn_status qn__matcher_bytes(qn_matcher *m, qn_token token, size_t *n, qn_error *err)
{
    const size_t most = qn_tokenizer_max_piece(m->tok) + 8;
    if (!m->bytes && !(m->bytes = qn__alloc(most))) return QN_FAIL_NOMEM(err, most);
    *n = qn__token_bytes(m->tok, token, m->bytes);
    return QN_OK;
}

static bool is_named(const qn_matcher *m, qn_token token)
{
    for (int32_t i = 0; i < m->grammar->n_tokens; i++)
        if (m->tokens[i] == token) return true;
    return false;
}

qn_status qn__matcher_try_token(qn_matcher *m, int32_t from, qn_token token, int32_t *to, qn_error *err)
{
    const int32_t as_token = qn__matcher_step_token(m, from, token);
    int32_t as_text = QN_DEAD;
    size_t n = 0;
    if (as_token == QN_UNKNOWN) return qn__matcher_failure(m, err);
    QN_TRY(qn__matcher_bytes(m, token, &n, err));
    if (n && !is_named(m, token)) {
        const qn_status status = qn__matcher_try_text(m, from, m->bytes, n, &as_text, err);
        if (status != QN_OK && (as_token < 0 || status != QN_STATUS_invalid)) return status;
    } else if (as_token < 0) {
        return QN_FAIL(err, invalid, "grammar: token %d is no text%s", token, n ? " where the grammar names it" : "");
    }
    const int32_t both = united(m, as_token, as_text);
    if (both < 0) return qn__matcher_failure(m, err);
    *to = both;
    return QN_OK;
}

qn_status qn_matcher_accept_text(qn_matcher *m, const char *text, size_t len, qn_error *err)
{
    QN_TRY(tidy(m, err));
    if (qn__lazy_asleep(m)) return qn__lazy_accept_text(m, text, len, err);
    return qn__matcher_try_text(m, m->config, text, len, &m->config, err);
}

qn_status qn_matcher_accept(qn_matcher *m, qn_token token, qn_error *err)
{
    if (token < 0 || token >= qn_tokenizer_n_tokens(m->tok))
        return QN_FAIL(err, invalid, "grammar: token %d of %d", token, qn_tokenizer_n_tokens(m->tok));
    QN_TRY(tidy(m, err));
    if (qn__lazy_asleep(m)) return qn__lazy_accept(m, token, err);
    if (qn_tokenizer_is_eog(m->tok, token) && !is_named(m, token)) {
        if (m->configs[m->config].may_end) return QN_OK;
        return QN_FAIL(err, invalid, "grammar: the output cannot end here");
    }
    return qn__matcher_try_token(m, m->config, token, &m->config, err);
}

bool qn_matcher_may_end(const qn_matcher *m)
{
    return qn__lazy_asleep(m) ? qn__lazy_may_end(m) : m->configs[m->config].may_end;
}

bool qn_matcher_must_end(const qn_matcher *m) { return !qn__lazy_asleep(m) && m->configs[m->config].n == 0; }

/* What can come as a token and not as text. */
static void mask_tokens(const qn_matcher *m, int32_t config, uint32_t *bits)
{
    const qn_grammar *g = m->grammar;
    const int32_t n = qn_tokenizer_n_tokens(m->tok);
    const qn_config *c = &m->configs[config];
    if (!g->n_tokens) return;
    for (int32_t i = 0; i < g->n_tokens; i++) bits[m->tokens[i] / 32] &= ~(1u << m->tokens[i] % 32);
    for (int32_t i = 0; i < c->n; i++) {
        for (int32_t e = g->first[m->nodes[m->members[c->begin + i]].state]; e >= 0; e = g->edges[e].next) {
            const qn_edge *edge = &g->edges[e];
            if (edge->kind != QN_EDGE_token && edge->kind != QN_EDGE_not_token) continue;
            const qn_token it = m->tokens[edge->rule];
            if (edge->kind == QN_EDGE_token) bits[it / 32] |= 1u << it % 32;
            for (qn_token t = 0; edge->kind == QN_EDGE_not_token && t < n; t++)
                if (t != it && !qn_tokenizer_is_eog(m->tok, t)) bits[t / 32] |= 1u << t % 32;
        }
    }
}

qn_status qn_matcher_mask(qn_matcher *m, const uint32_t **mask, qn_error *err)
{
    QN_TRY(tidy(m, err));
    if (qn__lazy_asleep(m)) return qn__lazy_mask(m, mask, err);
    const size_t words = ((size_t)qn_tokenizer_n_tokens(m->tok) + 31) / 32;
    if (!m->configs[m->config].mask) {
        uint32_t *bits = qn__calloc(words, sizeof *bits);
        if (!bits) return QN_FAIL_NOMEM(err, words * sizeof *bits);
        if (!qn__token_trie_mask(m->trie, m, m->config, bits)) {
            qn__free(bits);
            return qn__matcher_failure(m, err);
        }
        for (qn_token t = 0; m->configs[m->config].may_end && t < qn_tokenizer_n_tokens(m->tok); t++)
            if (qn_tokenizer_is_eog(m->tok, t)) bits[t / 32] |= 1u << t % 32;
        mask_tokens(m, m->config, bits);
        m->configs[m->config].mask = bits;
        m->cached_bytes += words * sizeof *bits;
    }
    *mask = m->configs[m->config].mask;
    return QN_OK;
}
