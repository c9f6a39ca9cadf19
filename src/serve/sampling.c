/* SPDX-License-Identifier: MIT */
/* src/serve/sampling.c -- what requests of several dialects say of sampling and stopping, under the same names. */
#include "serve/answers.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BIASES = 4096 };
/* In the place of 0, which says to the library: drawn anew. It would be that of -1, which says so in requests. */
#define SEED_OF_0 UINT64_MAX

static bool temperature(ask *q, const fields *f)
{
    double x;
    if (!field_number(f, "temperature", 0, 1000, &x)) return f->p->status == 0;
    q->sampler.greedy = x == 0;
    if (x != 0) q->sampler.temperature = (float)x;
    return true;
}

static bool seed(ask *q, const fields *f)
{
    int64_t x;
    if (!field_integer(f, "seed", INT64_MIN, INT64_MAX, &x)) return f->p->status == 0;
    q->sampler.seed = x == -1 ? 0 : x ? (uint64_t)x : SEED_OF_0; /* -1: any, in llama-server's words */
    return true;
}

/* As it was asked, and k; whatever that is, it gives the same again. */
uint64_t ask_seed(const ask *q, int k)
{
    if (!q->sampler.seed) return 0;
    const uint64_t seed = (q->sampler.seed == SEED_OF_0 ? 0 : q->sampler.seed) + (uint64_t)k;
    return seed ? seed : SEED_OF_0;
}

bool ask_sampling(ask *q, const fields *f)
{
    double number;
    int64_t integer;
#define SAMPLING(kind, name, field, lo, hi, zero) \
    if (field_##kind(f, name, lo, hi, &kind)) \
        q->sampler.field = kind != 0 ? (__typeof__(q->sampler.field))kind : (zero);
#include "serve/sampling.def"
#undef SAMPLING
    if (q->sampler.top_n_sigma < 0) q->sampler.top_n_sigma = 0;
    return temperature(q, f) && seed(q, f) && f->p->status == 0;
}

static bool add_stop(ask *q, const char *s, const char *path, problem *p)
{
    const size_t n = strlen(s);
    if (n > MAX_STOP_BYTES)
        return problem_set(p, 400, path, "a stop string of %zu bytes; %d are possible", n, MAX_STOP_BYTES);
    if (n) q->stop[q->n_stop++] = s;
    return true;
}

bool ask_stops(ask *q, const fields *f, const char *name)
{
    char path[64], place[192];
    const json_t *value = field_get(f, name), *item;
    size_t i;
    if (!value) return true;
    if (json_is_string(value)) {
        const char *one;
        if (!field_string(f, name, &one)) return false;
        return q->n_stop == MAX_STOPS || add_stop(q, one, field_path(f, name, place, sizeof(place)), f->p);
    }
    if (!field_array(f, name)) return false;
    json_array_foreach(value, i, item)
    {
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        field_path(f, path, place, sizeof(place));
        const char *s = json_string_value(item);
        if (!s || strlen(s) != json_string_length(item))
            return problem_set(f->p, 400, place, "found %s, expected text",
                               s ? "a NUL character" : json_type_name(item));
        if (q->n_stop == MAX_STOPS) return problem_set(f->p, 400, place, "more than %d stop strings", MAX_STOPS);
        if (!add_stop(q, s, place, f->p)) return false;
    }
    return true;
}

/* ---- biases ---- */

static bool add_bias(ask *q, const model *m, int64_t token, double bias, const char *path, problem *p)
{
    if (token < 0 || token >= m->info.n_vocab)
        return problem_set(p, 400, path, "token %lld is not in the vocabulary, which ends at %d", (long long)token,
                           m->info.n_vocab - 1);
    if (q->sampler.n_logit_bias == MAX_BIASES) return problem_set(p, 400, path, "more than %d biases", MAX_BIASES);
    qn_logit_bias *more = realloc(q->bias, ((size_t)q->sampler.n_logit_bias + 1) * sizeof(*more));
    if (!more) return problem_set(p, 503, path, "out of memory");
    more[q->sampler.n_logit_bias++] = (qn_logit_bias){(qn_token)token, (float)bias};
    q->sampler.logit_bias = q->bias = more;
    return true;
}

/* Each token of a text. */
static bool add_biases(ask *q, const model *m, const char *words, size_t n, double bias, const char *path, problem *p)
{
    qn_token *ids = NULL;
    size_t n_ids = 0;
    qn_error err;
    const qn_tokenize_options o = {.no_bos = true, .no_special = true};
    if (qn_tokenize(m->tok, words, n, &o, &ids, &n_ids, &err) != QN_OK) return problem_error(p, path, &err);
    bool good = true;
    for (size_t i = 0; i < n_ids && good; i++) good = add_bias(q, m, ids[i], bias, path, p);
    qn_free(ids);
    return good;
}

static bool bias_value(const json_t *value, double *out, const char *path, problem *p)
{
    if (json_is_false(value))
        *out = -INFINITY; /* llama-server's word for never */
    else if (json_is_number(value))
        *out = json_number_value(value);
    else
        return problem_set(p, 400, path, "found %s, expected a number", json_type_name(value));
    if (*out <= -100) *out = -INFINITY; /* OpenAI's */
    return !(*out > 1e6) || problem_set(p, 400, path, "%g is too large", *out);
}

/* The server's own biases stay; the request's come behind them. */
static bool own_biases(ask *q, problem *p)
{
    const int32_t n = q->sampler.n_logit_bias;
    if (q->bias || !n) return true;
    q->bias = malloc((size_t)n * sizeof(*q->bias));
    if (!q->bias) return problem_set(p, 503, "", "out of memory");
    memcpy(q->bias, q->sampler.logit_bias, (size_t)n * sizeof(*q->bias));
    q->sampler.logit_bias = q->bias;
    return true;
}

bool ask_ban(ask *q, qn_token token, problem *p)
{
    qn_logit_bias *more;
    if (!own_biases(q, p)) return false;
    more = realloc(q->bias, ((size_t)q->sampler.n_logit_bias + 1) * sizeof(*more));
    if (!more) return problem_set(p, 503, "", "out of memory");
    more[q->sampler.n_logit_bias++] = (qn_logit_bias){token, -INFINITY};
    q->sampler.logit_bias = q->bias = more;
    return true;
}

/* {"15043": 1.5, "Hello": -1}, or [[15043, 1.5], [2, false], ["Hello", -1]]. */
bool ask_bias(ask *q, const model *m, const fields *f)
{
    const json_t *map = field_get(f, "logit_bias"), *value;
    const char *name;
    char path[96], *end;
    size_t i;
    double bias;
    if (!map) return true;
    if (!own_biases(q, f->p)) return false;
    if (json_is_array(map)) {
        json_array_foreach(map, i, value)
        {
            snprintf(path, sizeof(path), "logit_bias[%zu]", i);
            const json_t *token = json_array_get(value, 0), *by = json_array_get(value, 1);
            const bool words = json_is_string(token);
            if ((!json_is_integer(token) && !words) || !by)
                return problem_set(f->p, 400, path, "expected a pair of a token, by its number or as text, and a bias");
            if (!bias_value(by, &bias, path, f->p)) return false;
            if (words ? !add_biases(q, m, json_string_value(token), json_string_length(token), bias, path, f->p)
                      : !add_bias(q, m, json_integer_value(token), bias, path, f->p))
                return false;
        }
        return true;
    }
    if (!json_is_object(map)) return field_wrong(f, "logit_bias", "an object");
    json_object_foreach((json_t *)map, name, value)
    {
        snprintf(path, sizeof(path), "logit_bias.%.40s", name);
        const long long token = strtoll(name, &end, 10);
        const bool words = end == name || *end;
        if (!bias_value(value, &bias, path, f->p)) return false;
        if (words ? !add_biases(q, m, name, strlen(name), bias, path, f->p) : !add_bias(q, m, token, bias, path, f->p))
            return false;
    }
    return true;
}
