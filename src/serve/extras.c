/* SPDX-License-Identifier: MIT */
/* src/serve/extras.c -- what llama-server takes in requests of OpenAI's form and its own, beyond what others take: what
 * a full context keeps, the order of samplers, DRY's breakers, no end of text, what is told meanwhile. What of it
 * cannot be honoured is said. */
#include "serve/answers.h"
#include <stdlib.h>
#include <string.h>

void ask_most(ask *q, int64_t n)
{
    q->only_reads = n == 0;
    q->max_tokens = n > 0 ? (int)n : n == 0 ? 1 : 0;
}

bool ask_limits(ask *q, const fields *f)
{
    static const char *const names[] = {"n_predict", "max_tokens", "max_completion_tokens"};
    int64_t n;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (field_integer(f, names[i], -1, INT32_MAX, &n)) ask_most(q, n);
    return f->p->status == 0;
}

/* A value that asks for nothing is none. */
static bool asks(const fields *f, const char *name)
{
    const json_t *value = field_get(f, name);
    return value && !json_is_false(value) && (!json_is_number(value) || json_number_value(value) > 0) &&
           (!json_is_array(value) || json_array_size(value));
}

/* What other numbers would come of is refused; what editors send with every request, and what bounds an answer or
 * leaves out a part of it, is passed over and told. */
static bool cannot(exchange *x, const fields *f)
{
    static const char *const passed[] = {"n_indent", "t_max_predict_ms", "response_fields"};
    for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
        if (asks(f, passed[i])) exchange_ignores(x, passed[i]);
    return !asks(f, "post_sampling_probs") ||
           problem_set(f->p, 400, "post_sampling_probs", "this server cannot do that");
}

/* ---- the order of samplers ---- */

static bool add_sampler(ask *q, char letter, const char *path, const char *name, problem *p)
{
    const size_t n = strlen(q->order);
    if (!letter) return problem_set(p, 400, path, "\"%.40s\" is no sampler", name);
    if (strchr(q->order, letter)) return problem_set(p, 400, path, "\"%.40s\" comes twice", name);
    q->order[n] = letter;
    q->order[n + 1] = '\0';
    return true;
}

/* Names in a list, or letters. */
static bool order(ask *q, exchange *x, const fields *f)
{
    const json_t *value = field_get(f, "samplers"), *item;
    char path[48], letter[2] = "";
    const char *all;
    size_t i;
    if (!value) return true;
    q->has_order = true;
    if (json_is_string(value)) {
        if (!field_string(f, "samplers", &all)) return false;
        for (; *all; all++) {
            *letter = *all;
            if (!add_sampler(q, qn_sampler_letter(all, 1), "samplers", letter, f->p)) return false;
        }
        return true;
    }
    if (!field_array(f, "samplers")) return false;
    json_array_foreach(value, i, item)
    {
        snprintf(path, sizeof(path), "samplers[%zu]", i);
        const char *name = json_string_value(item);
        if (!name) return problem_set(f->p, 400, path, "found %s, expected text", json_type_name(item));
        const char sampler = qn_sampler_letter(name, json_string_length(item));
        if (!sampler || strchr(q->order, sampler)) { /* of another version of theirs, or there already */
            exchange_leaves_out(x, path, name);
            continue;
        }
        if (!add_sampler(q, sampler, path, name, f->p)) return false;
    }
    return true;
}

/* ---- DRY ---- */

/* How many: each is looked for in the whole vocabulary, and may match a part of it. */
static bool breakers(ask *q, const fields *f)
{
    enum { MOST_BREAKERS = 64 };
    const json_t *list = field_array(f, "dry_sequence_breakers"), *item;
    char path[64];
    size_t i;
    if (!list) return f->p->status == 0;
    if (json_array_size(list) > MOST_BREAKERS)
        return problem_set(f->p, 400, "dry_sequence_breakers", "there are %zu, at most %d expected",
                           json_array_size(list), MOST_BREAKERS);
    q->breakers = calloc(json_array_size(list) + 1, sizeof(*q->breakers));
    if (!q->breakers) return problem_set(f->p, 503, "", "out of memory");
    json_array_foreach(list, i, item)
    {
        snprintf(path, sizeof(path), "dry_sequence_breakers[%zu]", i);
        const char *s = json_string_value(item);
        if (!s || strlen(s) != json_string_length(item))
            return problem_set(f->p, 400, path, "found %s, expected text",
                               s ? "a NUL character" : json_type_name(item));
        q->breakers[i] = s;
    }
    return true;
}

/* ---- all of it ---- */

static bool ignore_eos(ask *q, const model *m, const fields *f)
{
    bool on = false;
    (void)field_bool(f, "ignore_eos", &on);
    for (qn_token id = 0; on && id < m->info.n_vocab; id++)
        if (qn_tokenizer_is_eog(m->tok, id) && !ask_ban(q, id, f->p)) return false;
    return f->p->status == 0;
}

bool ask_extras(ask *q, exchange *x, const fields *f)
{
    int64_t n;
    bool cache = true;
    if (field_bool(f, "cache_prompt", &cache)) q->no_cache = !cache;
    if (field_integer(f, "n_keep", -1, INT32_MAX - 1, &n)) q->n_keep = (int)n;
    if (field_integer(f, "n_discard", 0, INT32_MAX, &n)) q->n_discard = (int)n;
    if (field_string(f, "grammar", &q->gbnf) && !*q->gbnf) q->gbnf = NULL;
    (void)field_bool(f, "return_progress", &q->progress);
    (void)field_bool(f, "timings_per_token", &q->timings);
    return f->p->status == 0 && cannot(x, f) && order(q, x, f) && breakers(q, f) && ignore_eos(q, x->model, f);
}
