/* SPDX-License-Identifier: MIT */
/* src/text/sampler/dry.c -- DRY: a token that would continue a sequence that the text already contains loses
 * multiplier * base^(length - allowed), length being that of the repeat so far. A repeat never reaches back over a
 * breaker.
 *
 * Lengths come from the Z algorithm on the reversed history: linear in the history, whatever it holds. */
#include "text/sampler/sampler.h"
#include "base/error.h"

#include <math.h>

#define MAX_MATCHES \
    (1 << 22) /* sixteen times the largest vocabularies; a breaker that matches every token breaks all */

static bool same_tail(const qn_dry *d, const qn_dry_breaker *b, const qn_token *tail, size_t n)
{
    return (size_t)b->n_tail == n && (n == 0 || memcmp(d->tails + b->tail_at, tail, n * sizeof *tail) == 0);
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

qn_status qn__dry_add_breaker(qn_dry *d, qn_token head, const qn_token *tail, size_t n_tail, qn_error *err)
{
    if (n_tail > QN_DRY_MAX_TAIL) n_tail = QN_DRY_MAX_TAIL;
    for (size_t i = d->n_breakers; i > 0 && d->breakers[i - 1].head == head; i--)
        if (same_tail(d, &d->breakers[i - 1], tail, n_tail)) return QN_OK;

    if (d->n_breakers >= MAX_MATCHES || d->n_tails + n_tail > MAX_MATCHES)
        return QN_FAIL(err, limit, "dry_breakers match over %d times in the vocabulary", MAX_MATCHES);
    void *breakers = d->breakers, *tails = d->tails;
    const bool grown = grow(&breakers, &d->cap_breakers, d->n_breakers + 1, sizeof *d->breakers) &&
                       grow(&tails, &d->cap_tails, d->n_tails + n_tail, sizeof *d->tails);
    d->breakers = breakers;
    d->tails = tails;
    if (!grown)
        return QN_FAIL_NOMEM(err, (d->n_breakers + 1) * sizeof *d->breakers + (d->n_tails + n_tail) * sizeof *d->tails);

    d->breakers[d->n_breakers++] =
        (qn_dry_breaker){.head = head, .tail_at = (int32_t)d->n_tails, .n_tail = (int32_t)n_tail};
    if (n_tail > 0) memcpy(d->tails + d->n_tails, tail, n_tail * sizeof *tail);
    d->n_tails += n_tail;
    d->flags[head] |= QN_DRY_head | (n_tail == 0 ? QN_DRY_single : 0);
    return QN_OK;
}

void qn__dry_deinit(qn_dry *d)
{
    qn__free(d->breakers);
    qn__free(d->tails);
}

/* A breaker breaks at every token whose text holds it, and at every token whose text ends in a beginning of it when the
 * tokens of the rest follow. */
static qn_status add_matches(qn_dry *d, const qn_tokenizer *tok, qn_token id, const char *word, size_t word_len,
                             const char *breaker, qn_error *err)
{
    const size_t len = strlen(breaker);

    if (memmem(word, word_len, breaker, len)) return qn__dry_add_breaker(d, id, NULL, 0, err);
    for (size_t at = word_len >= len ? word_len - len + 1 : 0; at < word_len; at++) {
        const size_t here = word_len - at;
        if (memcmp(word + at, breaker, here) != 0) continue;
        qn_token *tail;
        size_t n_tail;
        QN_TRY(qn_tokenize(tok, breaker + here, len - here, &(qn_tokenize_options){.no_bos = true, .no_special = true},
                           &tail, &n_tail, err));
        const qn_status status = qn__dry_add_breaker(d, id, tail, n_tail, err);
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

static qn_status match_vocabulary(qn_sampler *s, const char *const *breakers, const qn_tokenizer *tok, qn_error *err)
{
    const size_t size = qn_tokenizer_max_piece(tok) + 16;
    const int32_t n_tokens = qn_tokenizer_n_tokens(tok);
    char *buf = qn__alloc(size);
    qn_status status = QN_OK;

    if (!buf) return QN_FAIL_NOMEM(err, size);
    for (qn_token id = 0; id < n_tokens && id < s->cands->n_vocab && status == QN_OK; id++) {
        const int64_t n = token_text(tok, id, buf, size);
        for (const char *const *b = breakers; n > 0 && *b && status == QN_OK; b++)
            status = add_matches(&s->dry, tok, id, buf, (size_t)n, *b, err);
    }
    qn__free(buf);
    return status;
}

qn_status qn__sampler_init_dry(qn_sampler *s, const char *const *breakers, const qn_tokenizer *tok, qn_error *err)
{
    static const char *const usual[] = {"\n", ":", "\"", "*", NULL};
    const size_t n_vocab = (size_t)s->cands->n_vocab;
    qn_dry *d = &s->dry;

    if (d->window == 0) return QN_OK;
    d->repeats = qn__arena_array(&s->arena, (size_t)d->window, sizeof *d->repeats);
    d->longest = qn__arena_array(&s->arena, n_vocab, sizeof *d->longest);
    d->flags = qn__arena_array(&s->arena, n_vocab, sizeof *d->flags);
    if (!d->repeats || !d->longest || !d->flags)
        return QN_FAIL_NOMEM(err, (size_t)d->window * sizeof *d->repeats +
                                      n_vocab * (sizeof *d->longest + sizeof *d->flags));
    return tok ? match_vocabulary(s, breakers ? breakers : usual, tok, err) : QN_OK;
}

/* The longest breaker tail that follows position `at` of last[n], whose token is a head; -1 when none does. */
static int32_t tail_after(const qn_dry *d, const qn_token *last, int32_t n, int32_t at)
{
    size_t lo = 0, hi = d->n_breakers;
    int32_t longest = -1;

    while (lo < hi) { /* the first breaker of this head */
        const size_t mid = lo + (hi - lo) / 2;
        if (d->breakers[mid].head < last[at])
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < d->n_breakers && d->breakers[lo].head == last[at]; lo++) {
        const qn_dry_breaker *b = &d->breakers[lo];
        if (b->n_tail > longest && b->n_tail < n - at && same_tail(d, b, last + at + 1, (size_t)b->n_tail))
            longest = b->n_tail;
    }
    return longest;
}

/* How many of the newest tokens come after the newest breaker. */
static int32_t tokens_since_breaker(const qn_dry *d, const qn_token *last, int32_t n)
{
    if (d->n_breakers == 0) return n;
    for (int32_t at = n - 1; at >= 0; at--) {
        if (!(d->flags[last[at]] & QN_DRY_head)) continue;
        const int32_t tail = tail_after(d, last, n, at);
        if (tail >= 0) return n - 1 - at - tail;
    }
    return n;
}

/* z[k]: how many tokens before last[n - k] repeat the newest ones: last[n - k - i] == last[n - i] for i = 1 .. z[k]. */
static void find_repeats(const qn_token *last, int32_t n, int32_t *z)
{
    int32_t left = 0, right = 0; /* the match that reaches farthest back: [left, right) in reversed positions */

    z[0] = 0;
    for (int32_t k = 1; k < n; k++) {
        int32_t len = k < right ? z[k - left] : 0;
        if (k + len >= right) { /* nothing known beyond `right` */
            len = k < right ? right - k : 0;
            while (k + len < n && last[n - 1 - len] == last[n - 1 - k - len]) len++;
            left = k;
            right = k + len;
        }
        z[k] = len;
    }
}

static float penalise(const qn_sampler *s, float logit, int32_t length)
{
    const double over = (double)length - s->p.dry_allowed_length;
    return qn__sampler_penalised(s, logit, s->p.dry_multiplier * qn__pow(s->p.dry_base, over));
}

/* Lowers every candidate marked in `longest`; those of the dense form by the tokens after last[n - 1 - k]. */
static void apply(qn_sampler *s, const qn_token *last, int32_t n)
{
    const int32_t *longest = s->dry.longest;
    qn_cands *c = s->cands;

    if (c->form != QN_CANDS_dense) {
        for (size_t i = 0; i < c->n; i++) {
            const uint32_t id = qn__key_id(c->keys[i]);
            if (longest[id] > 0) c->keys[i] = qn__key(penalise(s, qn__key_logit(c->keys[i]), longest[id]), id);
        }
        if (c->form == QN_CANDS_by_logit) c->form = QN_CANDS_mixed;
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t length = s->dry.longest[last[i]];
        if (length == 0) continue;
        s->dry.longest[last[i]] = 0;
        const float old = c->dense[last[i]];
        if (c->form == QN_CANDS_dense && old > -INFINITY) qn__cands_set(c, last[i], penalise(s, old, length));
    }
}

void qn__sampler_dry(qn_sampler *s)
{
    qn_dry *d = &s->dry;
    const int32_t n = s->history.n < d->window ? s->history.n : d->window, allowed = s->p.dry_allowed_length;

    if (n <= allowed) return;
    const qn_token *last = qn__history_last(&s->history, n);
    const int32_t limit = tokens_since_breaker(d, last, n);
    if (limit < allowed) return;

    find_repeats(last, n, d->repeats);
    for (int32_t k = 1; k < n; k++) {
        const int32_t length = d->repeats[k] < limit ? d->repeats[k] : limit;
        const qn_token next = last[n - k]; /* what came after the earlier occurrence */
        if (length >= allowed && length > d->longest[next] && !(d->flags[next] & QN_DRY_single))
            d->longest[next] = length;
    }
    apply(s, last, n);
}
