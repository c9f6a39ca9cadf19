/* SPDX-License-Identifier: MIT */
/* src/text/grammar/table_life.c -- tables come, grow full, and go. A table that is full starts anew with nothing but
 * where its matchers stand. */
#include "text/grammar/match.h"

#include <string.h>

static void store_deinit(qn_store *s)
{
    for (int32_t i = 0; i < s->n_configs; i++) {
        qn__free(s->configs[i].to);
        qn__free(s->configs[i].mask);
    }
    qn__free(s->frames);
    qn__free(s->returns);
    qn__free(s->items);
    qn__free(s->configs);
    qn__free(s->members);
    qn__free(s->frame_slots);
    qn__free(s->item_slots);
    qn__free(s->config_slots);
    *s = (qn_store){0};
}

void qn__table_destroy(qn_table *t)
{
    if (!t) return;
    store_deinit(&t->s);
    qn__mutex_deinit(&t->mutex);
    qn__free(t->tokens);
    qn__free(t->work);
    qn__free(t->set);
    qn__free(t->calls);
    qn__free(t->found);
    qn__free(t->call_of);
    qn__free(t->rule_of_rank);
    qn__free(t->open_ranks);
    qn__free(t);
}

/* Which tokens of this vocabulary the grammar names. */
static qn_status resolve_tokens(qn_table *t, const qn_tokenizer *tok, qn_error *err)
{
    const qn_grammar *g = t->grammar;
    for (int32_t i = 0; i < g->n_tokens; i++) {
        const qn_grammar_token *named = &g->tokens[i];
        t->tokens[i] = named->name ? qn_tokenizer_find(tok, named->name, strlen(named->name)) : named->id;
        if (named->name && t->tokens[i] == QN_TOKEN_NONE)
            return QN_FAIL(err, invalid, "grammar: the vocabulary has no token %.60s", named->name);
        if (t->tokens[i] >= qn_tokenizer_n_tokens(tok))
            return QN_FAIL(err, invalid, "grammar: token <[%d]> of %d", t->tokens[i], qn_tokenizer_n_tokens(tok));
    }
    return QN_OK;
}

qn_status qn__table_create(const qn_grammar *g, const qn_tokenizer *tok, uint64_t trie_id, qn_table **out,
                           qn_error *err)
{
    const size_t rules = (size_t)g->n_rules;
    qn_table *t = qn__calloc(1, sizeof *t);
    if (!t) return QN_FAIL_NOMEM(err, sizeof *t);
    t->grammar = g;
    t->trie_id = trie_id;
    t->full_bytes = QN_TABLE_FULL_BYTES;
    t->mask_bytes = ((size_t)qn_tokenizer_n_tokens(tok) + 31) / 32 * sizeof(uint32_t);
    qn__mutex_init(&t->mutex);
    t->tokens = qn__calloc((size_t)g->n_tokens + 1, sizeof *t->tokens);
    t->call_of = qn__calloc(rules, sizeof *t->call_of);
    t->rule_of_rank = qn__calloc(rules, sizeof *t->rule_of_rank);
    t->open_ranks = qn__calloc(rules / 64 + 1, sizeof *t->open_ranks);
    qn_status status = QN_OK;
    if (!t->tokens || !t->call_of || !t->rule_of_rank || !t->open_ranks)
        status = QN_FAIL_NOMEM(err, rules * 2 * sizeof *t->call_of);
    for (size_t r = 0; r < rules && status == QN_OK; r++) t->rule_of_rank[g->rules[r].rank] = (int32_t)r;
    if (status == QN_OK) status = resolve_tokens(t, tok, err);
    if (status == QN_OK && !qn__table_keep(t, NULL, NULL, 0)) status = qn__table_failed(t, err);
    if (status == QN_OK)
        *out = t;
    else
        qn__table_destroy(t);
    return status;
}

qn_status qn__table_failed(qn_table *t, qn_error *err)
{
    const qn_table_failure why = t->failure;
    t->failure = QN_FINE;
    t->effort = 0;
    if (why == QN_TOO_DEEP)
        return QN_FAIL(err, limit, "grammar: rules are nested more than %d deep", QN_GRAMMAR_MAX_DEPTH);
    if (why == QN_TOO_MUCH || why == QN_TABLE_FULL)
        return QN_FAIL(err, limit, "grammar: there are too many ways to read this output");
    return QN_FAIL(err, nomem, "out of memory: states of a grammar");
}

/* Where matchers stand, then `also`. */
static int32_t gather(const qn_table *t, const int32_t *also, int32_t n_also, int32_t *configs)
{
    int32_t n = 0;
    for (const qn_matcher *m = t->matchers; m; m = m->next, n++)
        if (configs) configs[n] = m->config;
    for (int32_t i = 0; i < n_also; i++, n++)
        if (configs) configs[n] = also[i];
    return n;
}

bool qn__table_collect(qn_table *t, int32_t *also, int32_t n_also)
{
    const int32_t n = gather(t, also, n_also, NULL), start = t->start;
    int32_t *was = qn__alloc(2 * ((size_t)n + 1) * sizeof *was), *is = was ? was + n : NULL;
    qn_store old = t->s;
    if (!was) {
        t->failure = QN_NO_MEMORY;
        return false;
    }
    gather(t, also, n_also, was);
    memcpy(is, was, (size_t)n * sizeof *is);
    t->failure = QN_FINE;
    t->s = (qn_store){0};
    if (!qn__table_keep(t, &old, is, n)) {
        store_deinit(&t->s);
        t->s = old;
        t->start = start;
        qn__free(was);
        return false;
    }
    for (int32_t i = 0; i < n; i++) { /* a mask that was lent stays where it is */
        qn_config *from = &old.configs[was[i]], *to = &t->s.configs[is[i]];
        if (!from->mask || to->mask) continue;
        to->mask = from->mask;
        from->mask = NULL;
        t->s.row_bytes += t->mask_bytes;
    }
    n_also = n - n_also;
    int32_t i = 0;
    for (qn_matcher *m = t->matchers; m; m = m->next) m->config = is[i++];
    for (; i < n; i++) also[i - n_also] = is[i];
    store_deinit(&old);
    qn__free(was);
    t->kept_bytes = qn__table_bytes(t);
    return true;
}

qn_status qn__table_begin(qn_table *t, qn_error *err)
{
    t->failure = QN_FINE;
    t->effort = 0;
    if (qn__table_bytes(t) < QN_TABLE_SOFT_BYTES + t->kept_bytes || qn__table_collect(t, NULL, 0)) return QN_OK;
    return qn__table_failed(t, err);
}
