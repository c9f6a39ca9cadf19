/* SPDX-License-Identifier: MIT */
/* src/text/sampler/params.c -- a sampler's parameters: defaults, ranges, and the order of the chain. */
#include "text/sampler/sampler.h"
#include "base/error.h"
#include "base/str.h"

#include <float.h>
#include <math.h>

#define TINY 1e-45 /* below the smallest positive float: a range that starts above 0 */

/* Valid: 0 (which means zero_means), [lo, hi], and `off`. */
typedef struct param_rule {
    const char *name;
    size_t offset;
    double zero_means, lo, hi, off;
    const char *expected;
} param_rule;
/* clang-format off */
#define RULE(field, ...) {#field, offsetof(qn_sampler_params, field), __VA_ARGS__}
/* clang-format on */
#define NO_OFF NAN

/* clang-format off */
static const param_rule float_rules[] = {
    /*   field               when 0  lowest    highest  off     in words */
    RULE(temperature,        0.8,    TINY,     FLT_MAX, NO_OFF, "a finite number above 0 (0 is said with greedy)"),
    RULE(dynatemp_range,     0,      0,        FLT_MAX, NO_OFF, "a finite number of at least 0"),
    RULE(dynatemp_exponent,  1,      TINY,     FLT_MAX, NO_OFF, "a finite number above 0"),
    RULE(top_p,              0.95,   TINY,     1,       NO_OFF, "above 0 and at most 1"),
    RULE(min_p,              0.05,   TINY,     1,       -1,     "above 0 and at most 1, or -1 for off"),
    RULE(typical_p,          1,      TINY,     1,       NO_OFF, "above 0 and at most 1"),
    RULE(top_n_sigma,        0,      TINY,     FLT_MAX, NO_OFF, "a finite number above 0"),
    RULE(xtc_probability,    0,      0,        1,       NO_OFF, "from 0 to 1"),
    RULE(xtc_threshold,      0.1,    TINY,     1,       NO_OFF, "above 0 and at most 1"),
    RULE(repeat_penalty,     1,      TINY,     FLT_MAX, NO_OFF, "a finite number above 0"),
    RULE(frequency_penalty,  0,      -FLT_MAX, FLT_MAX, NO_OFF, "a finite number"),
    RULE(presence_penalty,   0,      -FLT_MAX, FLT_MAX, NO_OFF, "a finite number"),
    RULE(dry_multiplier,     0,      0,        FLT_MAX, NO_OFF, "a finite number of at least 0"),
    RULE(dry_base,           1.75,   1,        FLT_MAX, NO_OFF, "a finite number of at least 1"),
    RULE(mirostat_tau,       5,      TINY,     FLT_MAX, NO_OFF, "a finite number above 0"),
    RULE(mirostat_eta,       0.1,    TINY,     FLT_MAX, NO_OFF, "a finite number above 0"),
};
static const param_rule int_rules[] = {
    RULE(top_k,              40,     1,        INT32_MAX,              -1, "at least 1, or -1 for off"),
    RULE(min_keep,           1,      1,        INT32_MAX,              NO_OFF, "at least 1"),
    RULE(penalty_last_n,     64,     -2,       QN_SAMPLER_MAX_HISTORY, NO_OFF,
        "1 to 1048576, -1 for all, or -2 for off"),
    RULE(dry_allowed_length, 2,      1,        INT32_MAX,              NO_OFF, "at least 1"),
    RULE(dry_last_n,         -1,     -1,       QN_SAMPLER_MAX_HISTORY, NO_OFF, "1 to 1048576, or -1 for all"),
    RULE(mirostat,           0,      0,        2,                      NO_OFF, "0, 1 or 2"),
    RULE(n_history,          0,      1,        QN_SAMPLER_MAX_HISTORY, NO_OFF, "1 to 1048576"),
};
/* clang-format on */
#undef RULE
_Static_assert(sizeof(int) == sizeof(int32_t), "the rules read `mirostat`, an int, as an int32_t");

/* NaN is in no range. */
static bool in_range(const param_rule *r, double v) { return v == 0 || v == r->off || (v >= r->lo && v <= r->hi); }

static qn_status apply_rules(qn_sampler_params *p, qn_error *err)
{
    for (size_t i = 0; i < sizeof float_rules / sizeof *float_rules; i++) {
        const param_rule *r = &float_rules[i];
        float *v = (float *)(void *)((char *)p + r->offset);
        if (!in_range(r, *v)) return QN_FAIL(err, invalid, "sampler: %s is %g, %s expected", r->name, *v, r->expected);
        if (*v == 0) *v = (float)r->zero_means;
    }
    for (size_t i = 0; i < sizeof int_rules / sizeof *int_rules; i++) {
        const param_rule *r = &int_rules[i];
        int32_t *v = (int32_t *)(void *)((char *)p + r->offset);
        if (!in_range(r, *v))
            return QN_FAIL(err, invalid, "sampler: %s is %d, %s expected", r->name, (int)*v, r->expected);
        if (*v == 0) *v = (int32_t)r->zero_means;
    }
    return QN_OK;
}

/* The windows of the two links that look back must fit the history. Where one side is a default, it gives way. */
static qn_status fit_history(qn_sampler_params *p, bool default_last_n, qn_error *err)
{
    if (p->n_history == 0) {
        p->n_history = p->penalty_last_n > p->dry_last_n ? p->penalty_last_n : p->dry_last_n;
        if (p->n_history < QN_SAMPLER_HISTORY) p->n_history = QN_SAMPLER_HISTORY;
    }
    if (default_last_n && p->penalty_last_n > p->n_history) p->penalty_last_n = p->n_history;
    if (p->penalty_last_n > p->n_history)
        return QN_FAIL(err, invalid, "sampler: penalty_last_n is %d, at most n_history (%d) expected",
                       (int)p->penalty_last_n, (int)p->n_history);
    if (p->dry_last_n > p->n_history)
        return QN_FAIL(err, invalid, "sampler: dry_last_n is %d, at most n_history (%d) expected", (int)p->dry_last_n,
                       (int)p->n_history);
    if (p->penalty_last_n == -1) p->penalty_last_n = p->n_history;
    if (p->dry_last_n == -1) p->dry_last_n = p->n_history;
    return QN_OK;
}

static qn_status check_bias(const qn_sampler_params *p, int32_t n_vocab, qn_error *err)
{
    if (p->n_logit_bias < 0 || p->n_logit_bias > n_vocab)
        return QN_FAIL(err, invalid, "sampler: n_logit_bias is %d, 0 to the size of the vocabulary (%d) expected",
                       (int)p->n_logit_bias, (int)n_vocab);
    if (p->n_logit_bias > 0 && !p->logit_bias)
        return QN_FAIL(err, invalid, "sampler: logit_bias is NULL, %d entries expected", (int)p->n_logit_bias);
    for (int32_t i = 0; i < p->n_logit_bias; i++) {
        const qn_logit_bias *b = &p->logit_bias[i];
        if (b->token < 0 || b->token >= n_vocab)
            return QN_FAIL(err, invalid, "sampler: logit_bias[%d].token is %d, 0 to %d expected", (int)i, (int)b->token,
                           (int)n_vocab - 1);
        if (!(b->bias <= FLT_MAX))
            return QN_FAIL(err, invalid, "sampler: logit_bias[%d].bias is %g, a finite number or -inf expected", (int)i,
                           b->bias);
    }
    return QN_OK;
}

static qn_status check_breakers(const char *const *breakers, qn_error *err)
{
    for (size_t i = 0; breakers && breakers[i]; i++) {
        const size_t len = strnlen(breakers[i], QN_DRY_MAX_BYTES + 1);
        if (i == QN_DRY_MAX_BREAKERS)
            return QN_FAIL(err, invalid, "sampler: dry_breakers has more than the %d entries expected",
                           QN_DRY_MAX_BREAKERS);
        if (len == 0 || len > QN_DRY_MAX_BYTES)
            return QN_FAIL(err, invalid, "sampler: dry_breakers[%zu] has %s bytes, 1 to %d expected", i,
                           len == 0 ? "0" : "too many", QN_DRY_MAX_BYTES);
    }
    return QN_OK;
}

#define LETTER(name, letter, text) letter,
static const char letters[] = {QN_SAMPLER_ROWS(LETTER) '\0'};
#undef LETTER

/* Names of llama.cpp's that are not the rows'. */
static const struct {
    const char *alias, *name;
} aliases[] = {
    {"typ_p", "typical_p"}, {"typ", "typical_p"},    {"typical", "typical_p"},
    {"nucleus", "top_p"},   {"temp", "temperature"},
};

char qn_sampler_letter(const char *text, size_t len)
{
#define NAME(name, letter, text) #name,
    static const char *const names[] = {QN_SAMPLER_ROWS(NAME)};
#undef NAME
    char name[32];
    if (len == 1 && *text && strchr(letters, *text)) return *text;
    if (len >= sizeof(name)) return 0;
    for (size_t i = 0; i < len; i++) name[i] = text[i] == '-' ? '_' : text[i];
    name[len] = '\0';
    const char *wanted = name;
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (strcmp(name, aliases[i].alias) == 0) wanted = aliases[i].name;
    for (size_t i = 0; i < QN_SAMPLER_COUNT; i++)
        if (strcmp(wanted, names[i]) == 0) return letters[i];
    return 0;
}

/* Greedy wants the largest logit, so only what changes logits matters; mirostat brings its own truncation. */
static bool runs(const qn_sampler_params *p, qn_sampler_link link)
{
    if (p->greedy) return link == QN_SAMPLER_penalties || link == QN_SAMPLER_dry;
    if (p->mirostat > 0) return link == QN_SAMPLER_penalties || link == QN_SAMPLER_temperature;
    return true;
}

static qn_status make_chain(qn_sampler *s, const char *order, qn_error *err)
{
    bool seen[QN_SAMPLER_COUNT] = {false};

    if (!order) order = letters;
    for (size_t i = 0; order[i]; i++) {
        const char *at = strchr(letters, order[i]);
        char shown[8];
        qn__str_quote(shown, sizeof shown, &order[i], 1);
        if (!at)
            return QN_FAIL(err, invalid, "sampler: order has the letter \"%s\", one of \"%s\" expected", shown,
                           letters);
        const qn_sampler_link link = (qn_sampler_link)(at - letters);
        if (seen[link])
            return QN_FAIL(err, invalid, "sampler: order has the letter \"%s\" twice, each at most once expected",
                           shown);
        seen[link] = true;
        if (runs(&s->p, link)) s->chain[s->n_chain++] = link;
    }
    return QN_OK;
}

static bool in_chain(const qn_sampler *s, qn_sampler_link link)
{
    for (int i = 0; i < s->n_chain; i++)
        if (s->chain[i] == link) return true;
    return false;
}

qn_status qn__sampler_resolve(const qn_sampler_params *in, int32_t n_vocab, qn_sampler *s, qn_error *err)
{
    qn_sampler_params *p = &s->p;

    *p = *in;
    QN_TRY(apply_rules(p, err));
    QN_TRY(fit_history(p, in->penalty_last_n == 0, err));
    QN_TRY(check_bias(p, n_vocab, err));
    QN_TRY(check_breakers(p->dry_breakers, err));
    QN_TRY(make_chain(s, p->order, err));

    const bool penalises = p->repeat_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0;
    s->counts.window = penalises && p->penalty_last_n > 0 && in_chain(s, QN_SAMPLER_penalties) ? p->penalty_last_n : 0;
    s->dry.window = p->dry_multiplier > 0 && in_chain(s, QN_SAMPLER_dry) ? p->dry_last_n : 0;
    return QN_OK;
}
