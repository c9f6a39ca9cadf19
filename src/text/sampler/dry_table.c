/* SPDX-License-Identifier: MIT */
/* src/text/sampler/dry_table.c -- what DRY's breakers are in a vocabulary: a walk over all its tokens, 40 ms for the
 * usual four and 128,256 tokens (Zen 3). A scratch keeps the tables that its samplers use, and the last few beside
 * them, so that a hundred answers to one request have one walk and one table. */
#include "text/sampler/sampler.h"
#include "base/error.h"
#include "text/tokenizer/vocab.h"

#define MAX_MATCHES (1 << 19) /* twice the largest vocabularies; a breaker that matches every token breaks all */
enum { KEPT = 2 };            /* tables that nobody uses */

bool qn__dry_same_tail(const qn_dry_table *t, const qn_dry_breaker *b, const qn_token *tail, size_t n)
{
    return (size_t)b->n_tail == n && (n == 0 || memcmp(t->tails + b->tail_at, tail, n * sizeof *tail) == 0);
}

static bool grow(void *array, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap) return true;
    const size_t more = need * 2 < 64 ? 64 : need * 2;
    void **at = array, *moved = qn__realloc(*at, more * size);
    if (!moved) return false;
    *at = moved;
    *cap = more;
    return true;
}

qn_status qn__dry_add_breaker(qn_dry_table *t, qn_token head, const qn_token *tail, size_t n_tail, qn_error *err)
{
    if (n_tail > QN_DRY_MAX_TAIL) n_tail = QN_DRY_MAX_TAIL;
    for (size_t i = t->n_breakers; i > 0 && t->breakers[i - 1].head == head; i--)
        if (qn__dry_same_tail(t, &t->breakers[i - 1], tail, n_tail)) return QN_OK;

    if (t->n_breakers >= MAX_MATCHES || t->n_tails + n_tail > MAX_MATCHES)
        return QN_FAIL(err, invalid, "sampler: dry_breakers match over %d times in the vocabulary", MAX_MATCHES);
    void *breakers = t->breakers, *tails = t->tails;
    const bool grown = grow(&breakers, &t->cap_breakers, t->n_breakers + 1, sizeof *t->breakers) &&
                       grow(&tails, &t->cap_tails, t->n_tails + n_tail, sizeof *t->tails);
    t->breakers = breakers;
    t->tails = tails;
    if (!grown)
        return QN_FAIL_NOMEM(err, (t->n_breakers + 1) * sizeof *t->breakers + (t->n_tails + n_tail) * sizeof *t->tails);

    t->breakers[t->n_breakers++] =
        (qn_dry_breaker){.head = head, .tail_at = (int32_t)t->n_tails, .n_tail = (int32_t)n_tail};
    if (n_tail > 0) memcpy(t->tails + t->n_tails, tail, n_tail * sizeof *tail);
    t->n_tails += n_tail;
    t->flags[head] |= QN_DRY_head | (n_tail == 0 ? QN_DRY_single : 0);
    return QN_OK;
}

/* A breaker breaks at every token whose text holds it, and at every token whose text ends in a beginning of it when the
 * tokens of the rest follow. */
static qn_status add_matches(qn_dry_table *t, const qn_tokenizer *tok, qn_token id, const char *word, size_t word_len,
                             const char *breaker, qn_error *err)
{
    const size_t len = strlen(breaker);

    if (memmem(word, word_len, breaker, len)) return qn__dry_add_breaker(t, id, NULL, 0, err);
    for (size_t at = word_len >= len ? word_len - len + 1 : 0; at < word_len; at++) {
        const size_t here = word_len - at;
        if (memcmp(word + at, breaker, here) != 0) continue;
        qn_token *tail;
        size_t n_tail;
        QN_TRY(qn_tokenize(tok, breaker + here, len - here, &(qn_tokenize_options){.no_bos = true, .no_special = true},
                           &tail, &n_tail, err));
        const qn_status status = qn__dry_add_breaker(t, id, tail, n_tail, err);
        qn_free(tail);
        QN_TRY(status);
    }
    return QN_OK;
}

/* The text of one token on its own, the bytes of an unfinished UTF-8 sequence included. -1: this id has none. */
static int64_t token_text(const qn_tokenizer *tok, qn_token id, char *buf, size_t size)
{
    qn_detok d = {.options = {.show_special = true, .keep_prefix = true}};
    const int64_t n = qn_detok_push(&d, tok, id, buf, size);

    if (n < 0 || (size_t)n + (size_t)d.n_pending > size) return n;
    memcpy(buf + n, d.pending, (size_t)d.n_pending);
    return n + d.n_pending;
}

static qn_status match_vocabulary(qn_dry_table *t, int32_t n_vocab, const qn_tokenizer *tok, qn_error *err)
{
    const size_t size = qn_tokenizer_max_piece(tok) + 16;
    const int32_t n_tokens = qn_tokenizer_n_tokens(tok);
    char *buf = qn__alloc(size);
    qn_status status = QN_OK;

    if (!buf) return QN_FAIL_NOMEM(err, size);
    for (qn_token id = 0; id < n_tokens && id < n_vocab && status == QN_OK; id++) {
        const int64_t n = token_text(tok, id, buf, size);
        for (const char *b = t->texts; n > 0 && b < t->texts + t->n_texts && status == QN_OK; b += strlen(b) + 1)
            status = add_matches(t, tok, id, buf, (size_t)n, b, err);
    }
    qn__free(buf);
    return status;
}

static void destroy(qn_dry_table *t)
{
    if (!t) return;
    qn__free(t->texts);
    qn__free(t->flags);
    qn__free(t->breakers);
    qn__free(t->tails);
    qn__free(t);
}

static qn_status create(int32_t n_vocab, const char *const *breakers, const qn_tokenizer *tok, qn_dry_table **out,
                        qn_error *err)
{
    size_t n = 0;
    for (const char *const *b = breakers; *b; b++) n += strlen(*b) + 1;
    qn_dry_table *t = qn__calloc(1, sizeof *t);
    if (t) t->texts = qn__alloc(n + 1);
    if (t) t->flags = qn__calloc((size_t)n_vocab, sizeof *t->flags);
    if (!t || !t->texts || !t->flags) {
        destroy(t);
        return QN_FAIL_NOMEM(err, sizeof *t + n + (size_t)n_vocab);
    }
    t->tokenizer = tok ? tok->id : 0;
    for (const char *const *b = breakers; *b; b++) {
        const size_t len = strlen(*b) + 1;
        memcpy(t->texts + t->n_texts, *b, len);
        t->n_texts += len;
    }
    const qn_status status = tok ? match_vocabulary(t, n_vocab, tok, err) : QN_OK;
    if (status == QN_OK)
        *out = t;
    else
        destroy(t);
    return status;
}

static bool is_of(const qn_dry_table *t, const char *const *breakers, const qn_tokenizer *tok)
{
    size_t at = 0;
    if (t->tokenizer != (tok ? tok->id : 0)) return false;
    for (const char *const *b = breakers; *b; b++) {
        const size_t len = strlen(*b) + 1;
        if (t->n_texts - at < len || memcmp(t->texts + at, *b, len) != 0) return false;
        at += len;
    }
    return at == t->n_texts;
}

/* Under the lock. */
static qn_dry_table *find(qn_sampler_scratch *scratch, const char *const *breakers, const qn_tokenizer *tok)
{
    for (qn_dry_table **at = &scratch->tables; *at; at = &(*at)->next) {
        qn_dry_table *t = *at;
        if (!is_of(t, breakers, tok)) continue;
        *at = t->next;
        return t;
    }
    return NULL;
}

/* Under the lock: those asked for the longest time ago go. */
static void forget(qn_sampler_scratch *scratch)
{
    int n = 0;
    for (qn_dry_table **at = &scratch->tables; *at;) {
        qn_dry_table *t = *at;
        if (t->n_users || ++n <= KEPT) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        destroy(t);
    }
}

/* It is found without the lock, for which samplers that end would have to wait. Of two who find the same at a time the
 * second takes the first's. */
qn_status qn__dry_table(qn_sampler_scratch *scratch, const char *const *breakers, const qn_tokenizer *tok,
                        qn_dry_table **out, qn_error *err)
{
    qn_dry_table *mine = NULL;
    qn__mutex_lock(&scratch->lock);
    qn_dry_table *t = find(scratch, breakers, tok);
    if (!t) {
        qn__mutex_unlock(&scratch->lock);
        QN_TRY(create(scratch->cands.n_vocab, breakers, tok, &mine, err));
        qn__mutex_lock(&scratch->lock);
        t = find(scratch, breakers, tok);
    }
    if (!t) {
        t = mine;
        mine = NULL;
    }
    t->next = scratch->tables;
    scratch->tables = t;
    t->n_users++;
    forget(scratch);
    qn__mutex_unlock(&scratch->lock);
    destroy(mine);
    *out = t;
    return QN_OK;
}

void qn__dry_release(qn_sampler_scratch *scratch, qn_dry_table *table)
{
    qn__mutex_lock(&scratch->lock);
    table->n_users--;
    forget(scratch);
    qn__mutex_unlock(&scratch->lock);
}

void qn__dry_free_tables(qn_sampler_scratch *scratch)
{
    while (scratch->tables) {
        qn_dry_table *t = scratch->tables;
        scratch->tables = t->next;
        destroy(t);
    }
}
