/* SPDX-License-Identifier: MIT */
/* src/text/sampler/dry.c -- DRY: a token that would continue a sequence that the text already contains loses
 * multiplier * base^(length - allowed), length being that of the repeat so far. A repeat never reaches back over a
 * breaker.
 *
 * Lengths come from the Z algorithm on the reversed history: linear in the history, whatever it holds. */
#include "text/sampler/sampler.h"
#include "base/error.h"

#include <math.h>

void qn__dry_deinit(qn_dry *d)
{
    if (d->table) qn__dry_release(d->home, d->table);
    d->table = NULL;
}

qn_status qn__sampler_init_dry(qn_sampler *s, const char *const *breakers, const qn_tokenizer *tok, qn_error *err)
{
    static const char *const usual[] = {"\n", ":", "\"", "*", NULL}, *const none[] = {NULL};
    const size_t n_vocab = (size_t)s->cands->n_vocab;
    qn_dry *d = &s->dry;

    if (d->window == 0) return QN_OK;
    d->repeats = qn__arena_array(&s->arena, (size_t)d->window, sizeof *d->repeats);
    d->longest = qn__arena_array(&s->arena, n_vocab, sizeof *d->longest);
    if (!d->repeats || !d->longest)
        return QN_FAIL_NOMEM(err, (size_t)d->window * sizeof *d->repeats + n_vocab * sizeof *d->longest);
    d->home = s->scratch;
    return qn__dry_table(d->home, !tok ? none : breakers ? breakers : usual, tok, &d->table, err);
}

/* The longest breaker tail that follows position `at` of last[n], whose token is a head; -1 when none does. */
static int32_t tail_after(const qn_dry_table *d, const qn_token *last, int32_t n, int32_t at)
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
        if (b->n_tail > longest && b->n_tail < n - at && qn__dry_same_tail(d, b, last + at + 1, (size_t)b->n_tail))
            longest = b->n_tail;
    }
    return longest;
}

/* How many of the newest tokens come after the newest breaker. */
static int32_t tokens_since_breaker(const qn_dry_table *d, const qn_token *last, int32_t n)
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
    const int32_t limit = tokens_since_breaker(d->table, last, n);
    if (limit < allowed) return;

    find_repeats(last, n, d->repeats);
    for (int32_t k = 1; k < n; k++) {
        const int32_t length = d->repeats[k] < limit ? d->repeats[k] : limit;
        const qn_token next = last[n - k]; /* what came after the earlier occurrence */
        if (length >= allowed && length > d->longest[next] && !(d->table->flags[next] & QN_DRY_single))
            d->longest[next] = length;
    }
    apply(s, last, n);
}
