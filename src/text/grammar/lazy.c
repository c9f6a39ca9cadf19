/* SPDX-License-Identifier: MIT */
/* src/text/grammar/lazy.c -- a grammar that sleeps until its trigger comes. Asleep, any token can come but for those
 * that hold the end of a trigger and go on with what the grammar refuses; the end of what was said is kept for
 * triggers that come in pieces. */
#include "text/grammar/match.h"

#include <string.h>

#define MAX_TRIGGERS 64
#define MAX_LEN      255 /* bytes of a trigger */

typedef struct trigger {
    qn_token token; /* QN_TOKEN_NONE: text */
    int32_t len;    /* of the text */
    bool after;
    char text[MAX_LEN + 1];
} trigger;

struct qn_lazy_state {
    int32_t n;
    bool required, awake;
    int n_tail, n_max; /* n_max: of the tail, one byte less than the longest text has */
    char tail[MAX_LEN + 1];
    uint32_t *mask;
    qn_token *inside; /* [n_inside] tokens that hold all of a trigger's text and go on behind it */
    size_t n_inside, cap_inside;
    trigger triggers[];
};

bool qn__lazy_asleep(const qn_matcher *m) { return m->lazy && !m->lazy->awake; }
bool qn__lazy_may_end(const qn_matcher *m) { return !m->lazy->required; }

void qn__lazy_reset(qn_matcher *m)
{
    if (!m->lazy) return;
    m->lazy->awake = false;
    m->lazy->n_tail = 0;
}

void qn__lazy_destroy(qn_lazy_state *lazy)
{
    if (!lazy) return;
    qn__free(lazy->mask);
    qn__free(lazy->inside);
    qn__free(lazy);
}

/* ---- asleep ------------------------------------------------------------------------------------------ */

/* The trigger that ends where text[0..n) ends; the longest, if several do. */
static const trigger *ends_with(const qn_lazy_state *lazy, const char *text, size_t n)
{
    const trigger *best = NULL;
    for (int32_t i = 0; i < lazy->n; i++) {
        const trigger *t = &lazy->triggers[i];
        const size_t len = (size_t)t->len;
        if (t->token != QN_TOKEN_NONE || len > n || memcmp(text + n - len, t->text, len) != 0) continue;
        if (!best || t->len > best->len) best = t;
    }
    return best;
}

/* Where the grammar stands once the trigger has come. */
static qn_status wake(qn_matcher *m, const trigger *t, int32_t *to, qn_error *err)
{
    size_t n;
    *to = m->table->start;
    if (t->after) return QN_OK;
    if (t->token == QN_TOKEN_NONE) return qn__matcher_try_text(m, m->table->start, t->text, (size_t)t->len, to, err);
    const int32_t as_token =
        qn__table_step_token(m->table, m->table->start, t->token, qn_tokenizer_is_eog(m->tok, t->token));
    if (as_token == QN_UNKNOWN) return qn__table_failed(m->table, err);
    if (as_token >= 0) return *to = as_token, QN_OK;
    const char *piece = qn_tokenizer_piece(m->tok, t->token, &n); /* the text of a control token, too */
    return qn__matcher_try_text(m, m->table->start, piece, n, to, err);
}

/* What the text makes of a sleeping matcher. *to is QN_DEAD where it sleeps on, with `tail` as it is then. */
static qn_status listen(qn_matcher *m, const char *text, size_t len, int32_t *to, char *tail, int *n_tail,
                        qn_error *err)
{
    const qn_lazy_state *lazy = m->lazy;
    char window[2 * MAX_LEN + 2];
    int n = lazy->n_tail;
    memcpy(window, lazy->tail, (size_t)n);
    *to = QN_DEAD;
    for (size_t i = 0; i < len; i++) {
        window[n++] = text[i];
        const trigger *t = ends_with(lazy, window, (size_t)n);
        if (t) {
            QN_TRY(wake(m, t, to, err));
            return qn__matcher_try_text(m, *to, text + i + 1, len - i - 1, to, err);
        }
        if (n > 2 * MAX_LEN) {
            memmove(window, window + n - lazy->n_max, (size_t)lazy->n_max);
            n = lazy->n_max;
        }
    }
    *n_tail = n < lazy->n_max ? n : lazy->n_max;
    memcpy(tail, window + n - *n_tail, (size_t)*n_tail);
    return QN_OK;
}

qn_status qn__lazy_accept_text(qn_matcher *m, const char *text, size_t len, qn_error *err)
{
    int32_t to;
    QN_TRY(listen(m, text, len, &to, m->lazy->tail, &m->lazy->n_tail, err));
    m->lazy->awake = to >= 0;
    if (to >= 0) m->config = to;
    return QN_OK;
}

static const trigger *by_token(const qn_lazy_state *lazy, qn_token token)
{
    for (int32_t i = 0; i < lazy->n; i++)
        if (lazy->triggers[i].token == token) return &lazy->triggers[i];
    return NULL;
}

qn_status qn__lazy_accept(qn_matcher *m, qn_token token, qn_error *err)
{
    qn_lazy_state *lazy = m->lazy;
    const trigger *t = by_token(lazy, token);
    size_t n;
    if (t) {
        QN_TRY(wake(m, t, &m->config, err));
        lazy->awake = true;
        return QN_OK;
    }
    if (qn_tokenizer_is_eog(m->tok, token))
        return lazy->required ? QN_FAIL(err, invalid, "grammar: the output cannot end before it began") : QN_OK;
    QN_TRY(qn__matcher_bytes(m, token, &n, err));
    if (n == 0) lazy->n_tail = 0; /* what a control token stands between is not one text */
    return qn__lazy_accept_text(m, m->bytes, n, err);
}

/* Takes a token's bit if it would be refused. */
static qn_status hold_back(qn_matcher *m, qn_token token, int32_t *n, qn_error *err)
{
    char tail[MAX_LEN + 1];
    int n_tail;
    int32_t to;
    size_t len;
    if (by_token(m->lazy, token)) return QN_OK;
    QN_TRY(qn__matcher_bytes(m, token, &len, err));
    const qn_status status = listen(m, m->bytes, len, &to, tail, &n_tail, NULL);
    if (status == QN_OK) return QN_OK;
    if (status == QN_STATUS_nomem) return QN_FAIL(err, nomem, "out of memory: states of a grammar");
    m->lazy->mask[token / 32] &= ~(1u << token % 32);
    ++*n;
    return QN_OK;
}

qn_status qn__lazy_mask(qn_matcher *m, const uint32_t **mask, qn_error *err)
{
    qn_lazy_state *lazy = m->lazy;
    const size_t words = ((size_t)qn_tokenizer_n_tokens(m->tok) + 31) / 32;
    int32_t held = 0;
    if (!lazy->mask && !(lazy->mask = qn__alloc(words * sizeof *lazy->mask)))
        return QN_FAIL_NOMEM(err, words * sizeof *lazy->mask);
    memset(lazy->mask, 0xFF, words * sizeof *lazy->mask);
    for (qn_token t = 0; lazy->required && t < qn_tokenizer_n_tokens(m->tok); t++) {
        if (!qn_tokenizer_is_eog(m->tok, t) || by_token(lazy, t)) continue;
        lazy->mask[t / 32] &= ~(1u << t % 32);
        held++;
    }
    for (size_t i = 0; i < lazy->n_inside; i++) QN_TRY(hold_back(m, lazy->inside[i], &held, err));
    for (int32_t i = 0; i < lazy->n; i++) {
        const trigger *t = &lazy->triggers[i];
        if (t->token != QN_TOKEN_NONE) continue;
        for (int32_t k = 1; k < t->len && k <= lazy->n_tail; k++) { /* k bytes of it have come */
            size_t n;
            if (memcmp(lazy->tail + lazy->n_tail - k, t->text, (size_t)k) != 0) continue;
            const qn_token *ids = qn__token_trie_beginning(m->trie, t->text + k, (size_t)(t->len - k), &n);
            for (size_t j = 0; j < n; j++) QN_TRY(hold_back(m, ids[j], &held, err));
        }
    }
    *mask = held ? lazy->mask : NULL;
    return QN_OK;
}

/* ---- setting up -------------------------------------------------------------------------------------- */

static qn_status set_trigger(const qn_matcher *m, const qn_grammar_trigger *from, trigger *to, size_t i, qn_error *err)
{
    const size_t len = from->text ? strlen(from->text) : 0;
    *to = (trigger){.token = from->token, .after = from->after};
    if (!from->text) {
        if (from->token >= 0 && from->token < qn_tokenizer_n_tokens(m->tok)) return QN_OK;
        return QN_FAIL(err, invalid, "grammar trigger %zu: token %d of %d", i, from->token,
                       qn_tokenizer_n_tokens(m->tok));
    }
    if (len < 1 || len > MAX_LEN)
        return QN_FAIL(err, invalid, "grammar trigger %zu: a text of %zu bytes, 1 to %d expected", i, len, MAX_LEN);
    to->token = qn_tokenizer_find(m->tok, from->text, len);
    const qn_token_kind kind = qn_tokenizer_kind(m->tok, to->token);
    if (kind == QN_TOKEN_control || kind == QN_TOKEN_user) return QN_OK;
    to->token = QN_TOKEN_NONE;
    to->len = (int32_t)len;
    memcpy(to->text, from->text, len);
    return QN_OK;
}

/* A token that holds a trigger's whole text before its end. */
static bool found_inside(void *ctx, qn_token id)
{
    qn_lazy_state *lazy = ctx;
    if (lazy->n_inside == lazy->cap_inside) {
        const size_t more = lazy->cap_inside ? 2 * lazy->cap_inside : 16;
        qn_token *p = qn__realloc(lazy->inside, more * sizeof *p);
        if (!p) return false;
        lazy->inside = p;
        lazy->cap_inside = more;
    }
    lazy->inside[lazy->n_inside++] = id;
    return true;
}

static qn_status find_inside(const qn_matcher *m, qn_lazy_state *lazy, qn_error *err)
{
    for (int32_t i = 0; i < lazy->n; i++) {
        const trigger *t = &lazy->triggers[i];
        if (t->token == QN_TOKEN_NONE && !qn__token_trie_inside(m->trie, t->text, (size_t)t->len, found_inside, lazy))
            return QN_FAIL(err, nomem, "out of memory: grammar triggers");
    }
    return QN_OK;
}

qn_status qn__lazy_create(qn_matcher *m, const qn_lazy_options *options, qn_lazy_state **out, qn_error *err)
{
    qn_lazy_state *lazy;
    if (options->n_triggers < 1 || options->n_triggers > MAX_TRIGGERS)
        return QN_FAIL(err, invalid, "%d grammar triggers, 1 to %d expected", options->n_triggers, MAX_TRIGGERS);
    const size_t size = sizeof *lazy + (size_t)options->n_triggers * sizeof *lazy->triggers;
    lazy = qn__calloc(1, size);
    if (!lazy) return QN_FAIL_NOMEM(err, size);
    qn_status status = QN_OK;
    lazy->n = options->n_triggers;
    lazy->required = options->required;
    for (int32_t i = 0; i < lazy->n && status == QN_OK; i++) {
        trigger *t = &lazy->triggers[i];
        int32_t to;
        status = set_trigger(m, &options->triggers[i], t, (size_t)i, err);
        if (t->len - 1 > lazy->n_max) lazy->n_max = t->len - 1;
        if (status != QN_OK) break;
        status = wake(m, t, &to, err);
        if (status == QN_STATUS_invalid)
            status = QN_FAIL(err, invalid, "grammar trigger %d: the grammar does not begin with it", i);
    }
    if (status == QN_OK) status = find_inside(m, lazy, err);
    if (status != QN_OK) {
        qn__lazy_destroy(lazy);
        return status;
    }
    *out = lazy;
    return QN_OK;
}
