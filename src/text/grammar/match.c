/* SPDX-License-Identifier: MIT */
/* src/text/grammar/match.c -- a matcher's life and steps. A grammar keeps a table for each vocabulary that it was used
 * with lately; whoever uses one holds its mutex. */
#include "text/grammar/match.h"

#include <string.h>

#define MAX_IDLE_TABLES 2 /* that no matcher uses */

/* ---- tables of a grammar ------------------------------------------------------------------------------- */

/* Drops the last tables that nobody uses. */
static void drop_idle(qn_table_list *list)
{
    int idle = 0;
    for (qn_table **at = &list->first; *at;) {
        qn_table *t = *at;
        if (t->matchers || ++idle <= MAX_IDLE_TABLES) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        qn__table_destroy(t);
    }
}

/* The table of m's vocabulary, which m joins. */
static qn_status join_table(qn_matcher *m, qn_error *err)
{
    qn_table_list *list = (qn_table_list *)&m->grammar->tables; /* the one thing of a grammar that changes */
    const uint64_t id = qn__token_trie_id(m->trie);
    qn_status status = QN_OK;
    qn__mutex_lock(&list->mutex);
    qn_table **at = &list->first;
    while (*at && (*at)->trie_id != id) at = &(*at)->next;
    qn_table *t = *at;
    if (t)
        *at = t->next;
    else
        status = qn__table_create(m->grammar, m->tok, id, &t, err);
    if (status == QN_OK) {
        t->next = list->first; /* the one used last comes first */
        list->first = t;
        qn__mutex_lock(&t->mutex);
        m->table = t;
        m->config = t->start;
        m->next = t->matchers;
        m->place = &t->matchers;
        if (m->next) m->next->place = &m->next;
        t->matchers = m;
        qn__mutex_unlock(&t->mutex);
        drop_idle(list);
    }
    qn__mutex_unlock(&list->mutex);
    return status;
}

static void leave_table(qn_matcher *m)
{
    qn_table_list *list = (qn_table_list *)&m->grammar->tables;
    if (!m->table) return;
    qn__mutex_lock(&list->mutex);
    qn__mutex_lock(&m->table->mutex);
    *m->place = m->next;
    if (m->next) m->next->place = m->place;
    qn__mutex_unlock(&m->table->mutex);
    drop_idle(list);
    qn__mutex_unlock(&list->mutex);
}

void qn__grammar_drop_tables(qn_grammar *g)
{
    for (qn_table *t = g->tables.first, *next; t; t = next) {
        next = t->next;
        qn__table_destroy(t);
    }
    g->tables.first = NULL;
}

/* ---- a matcher's life ---------------------------------------------------------------------------------- */

qn_status qn_matcher_create(const qn_grammar *grammar, const qn_tokenizer *tok, qn_matcher **out, qn_error *err)
{
    qn_matcher *m = qn__calloc(1, sizeof *m);
    if (!m) return QN_FAIL_NOMEM(err, sizeof *m);
    m->grammar = grammar;
    m->tok = tok;
    qn_status status = qn__token_trie(tok, &m->trie, err);
    if (status == QN_OK) status = join_table(m, err);
    if (status == QN_OK)
        *out = m;
    else
        qn_matcher_destroy(m);
    return status;
}

void qn_matcher_destroy(qn_matcher *m)
{
    if (!m) return;
    leave_table(m);
    qn__lazy_destroy(m->lazy);
    qn__free(m->bytes);
    qn__free(m);
}

void qn_matcher_reset(qn_matcher *m)
{
    qn__mutex_lock(&m->table->mutex);
    m->config = m->table->start;
    qn__lazy_reset(m);
    qn__mutex_unlock(&m->table->mutex);
}

qn_status qn_matcher_set_lazy(qn_matcher *m, const qn_lazy_options *options, qn_error *err)
{
    qn_lazy_state *lazy;
    qn__mutex_lock(&m->table->mutex);
    qn_status status = qn__table_begin(m->table, err);
    if (status == QN_OK) status = qn__lazy_create(m, options, &lazy, err);
    if (status == QN_OK) {
        qn__lazy_destroy(m->lazy);
        m->lazy = lazy;
        m->config = m->table->start;
    }
    qn__mutex_unlock(&m->table->mutex);
    return status;
}

bool qn_matcher_awake(const qn_matcher *m) { return !qn__lazy_asleep(m); }

/* ---- steps --------------------------------------------------------------------------------------------- */

qn_status qn__matcher_try_text(qn_matcher *m, int32_t from, const char *text, size_t len, int32_t *to, qn_error *err)
{
    for (size_t i = 0; i < len; i++) {
        int32_t next = qn__table_step(m->table, from, (uint8_t)text[i]);
        if (next == QN_UNKNOWN && m->table->failure == QN_TABLE_FULL && qn__table_collect(m->table, &from, 1))
            next = qn__table_step(m->table, from, (uint8_t)text[i]);
        if (next == QN_UNKNOWN) return qn__table_failed(m->table, err);
        if (next == QN_DEAD)
            return QN_FAIL(err, invalid, "grammar: byte %zu (0x%02x) of the text cannot come there", i,
                           (uint8_t)text[i]);
        from = next;
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

qn_status qn__matcher_try_token(qn_matcher *m, qn_token token, int32_t *to, qn_error *err)
{
    qn_table *t = m->table;
    size_t n = 0;
    QN_TRY(qn__matcher_bytes(m, token, &n, err));
    const bool named = qn__table_names(t, token);
    if (n && !named && !m->grammar->n_tokens) return qn__matcher_try_text(m, m->config, m->bytes, n, to, err);
    int32_t at[2] = {QN_DEAD, QN_DEAD}; /* where it stands, and where the text leads */
    if (named) n = 0;
    const qn_status as_text = n ? qn__matcher_try_text(m, m->config, m->bytes, n, &at[1], err) : QN_STATUS_invalid;
    at[0] = m->config;
    if (as_text != QN_OK && as_text != QN_STATUS_invalid) return as_text;
    const bool is_eog = qn_tokenizer_is_eog(m->tok, token);
    int32_t as_token = qn__table_step_token(t, at[0], token, is_eog);
    if (as_token == QN_UNKNOWN && t->failure == QN_TABLE_FULL && qn__table_collect(t, at, at[1] < 0 ? 1 : 2))
        as_token = qn__table_step_token(t, at[0], token, is_eog);
    if (as_token == QN_UNKNOWN) return qn__table_failed(t, err);
    if (as_token < 0 && n) return as_text == QN_OK ? (*to = at[1], QN_OK) : as_text;
    if (as_token < 0)
        return QN_FAIL(err, invalid, "grammar: token %d %s", token, named ? "cannot come there" : "is no text");
    const int32_t both = qn__table_unite(t, as_token, at[1]);
    if (both < 0) return qn__table_failed(t, err);
    *to = both;
    return QN_OK;
}

static qn_status accept_text(qn_matcher *m, const char *text, size_t len, qn_error *err)
{
    int32_t to;
    QN_TRY(qn__table_begin(m->table, err));
    if (qn__lazy_asleep(m)) return qn__lazy_accept_text(m, text, len, err);
    QN_TRY(qn__matcher_try_text(m, m->config, text, len, &to, err));
    m->config = to;
    return QN_OK;
}

qn_status qn_matcher_accept_text(qn_matcher *m, const char *text, size_t len, qn_error *err)
{
    qn__mutex_lock(&m->table->mutex);
    const qn_status status = accept_text(m, text, len, err);
    qn__mutex_unlock(&m->table->mutex);
    return status;
}

static bool may_end(const qn_matcher *m)
{
    return qn__lazy_asleep(m) ? qn__lazy_may_end(m) : m->table->s.configs[m->config].may_end;
}

static qn_status accept(qn_matcher *m, qn_token token, qn_error *err)
{
    int32_t to;
    if (token < 0 || token >= qn_tokenizer_n_tokens(m->tok))
        return QN_FAIL(err, invalid, "grammar: token %d of %d", token, qn_tokenizer_n_tokens(m->tok));
    QN_TRY(qn__table_begin(m->table, err));
    if (qn__lazy_asleep(m)) return qn__lazy_accept(m, token, err);
    if (qn_tokenizer_is_eog(m->tok, token) && !qn__table_names(m->table, token))
        return may_end(m) ? QN_OK : QN_FAIL(err, invalid, "grammar: the output cannot end here");
    QN_TRY(qn__matcher_try_token(m, token, &to, err));
    m->config = to;
    return QN_OK;
}

qn_status qn_matcher_accept(qn_matcher *m, qn_token token, qn_error *err)
{
    qn__mutex_lock(&m->table->mutex);
    const qn_status status = accept(m, token, err);
    qn__mutex_unlock(&m->table->mutex);
    return status;
}

bool qn_matcher_may_end(const qn_matcher *m)
{
    qn__mutex_lock(&m->table->mutex);
    const bool may = may_end(m);
    qn__mutex_unlock(&m->table->mutex);
    return may;
}

bool qn_matcher_must_end(const qn_matcher *m)
{
    qn__mutex_lock(&m->table->mutex);
    const bool must = !qn__lazy_asleep(m) && m->table->s.configs[m->config].n == 0;
    qn__mutex_unlock(&m->table->mutex);
    return must;
}

static qn_status mask_of(qn_matcher *m, const uint32_t **mask, qn_error *err)
{
    qn_table *t = m->table;
    QN_TRY(qn__table_begin(t, err));
    if (qn__lazy_asleep(m)) return qn__lazy_mask(m, mask, err);
    if (!t->s.configs[m->config].mask && !qn__matcher_make_mask(m)) return qn__table_failed(t, err);
    *mask = t->s.configs[m->config].mask;
    return QN_OK;
}

qn_status qn_matcher_mask(qn_matcher *m, const uint32_t **mask, qn_error *err)
{
    qn__mutex_lock(&m->table->mutex);
    const qn_status status = mask_of(m, mask, err);
    qn__mutex_unlock(&m->table->mutex);
    return status;
}
