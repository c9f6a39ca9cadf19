/* SPDX-License-Identifier: MIT */
/* src/serve/prompts.c -- see prompts.h. */
#include "serve/prompts.h"
#include <stdlib.h>
#include <string.h>

typedef struct ids {
    qn_token *data;
    size_t n, cap;
} ids;

static bool add(ids *to, const qn_token *from, size_t n, problem *p)
{
    if (to->n + n > to->cap) {
        qn_token *more = realloc(to->data, (to->n + n) * 2 * sizeof(*more));
        if (!more) return problem_set(p, 503, "", "out of memory");
        to->data = more;
        to->cap = (to->n + n) * 2;
    }
    if (n) memcpy(to->data + to->n, from, n * sizeof(*from));
    to->n += n;
    return true;
}

static bool add_id(ids *to, const model *m, const json_t *value, const char *path, problem *p)
{
    const qn_token id = (qn_token)json_integer_value(value);
    if (json_integer_value(value) < 0 || json_integer_value(value) >= m->info.n_vocab)
        return problem_set(p, 400, path, "token %lld is not in the vocabulary, which ends at %d",
                           (long long)json_integer_value(value), m->info.n_vocab - 1);
    return add(to, &id, 1, p);
}

static bool add_text(ids *to, const model *m, const json_t *value, bool special, bool first, const char *path,
                     problem *p)
{
    qn_token *more = NULL;
    size_t n = 0;
    qn_error err;
    const qn_tokenize_options o = {.no_bos = !first, .no_special = !special};
    if (qn_tokenize(m->tok, json_string_value(value), json_string_length(value), &o, &more, &n, &err) != QN_OK)
        return problem_error(p, path, &err);
    const bool good = add(to, more, n, p);
    qn_free(more);
    return good;
}

static bool one(ids *to, const model *m, const json_t *value, bool special, const char *path, problem *p)
{
    const json_t *item;
    char inner[96];
    size_t i;
    if (json_is_string(value)) return add_text(to, m, value, special, true, path, p);
    if (!json_is_array(value))
        return problem_set(p, 400, path, "found %s, expected text or a list of tokens", json_type_name(value));
    json_array_foreach(value, i, item)
    {
        snprintf(inner, sizeof(inner), "%s[%zu]", path, i);
        const bool good = json_is_integer(item) ? add_id(to, m, item, inner, p)
                          : json_is_string(item)
                              ? add_text(to, m, item, special, i == 0, inner, p)
                              : problem_set(p, 400, inner, "found %s, expected a token or text", json_type_name(item));
        if (!good) return false;
    }
    return true;
}

bool prompts_several(const json_t *value)
{
    const json_t *item;
    size_t i;
    bool all_text = true, any_list = false;
    json_array_foreach(value, i, item)
    {
        all_text = all_text && json_is_string(item);
        any_list = any_list || json_is_array(item);
    }
    return any_list || (all_text && json_array_size(value) > 0);
}

static bool read_one(ask *q, const model *m, const json_t *value, const char *path, problem *p)
{
    ids list = {0};
    const bool good = one(&list, m, value, q->special, path, p) && ask_add_prompt(q, list.data, list.n, p);
    free(list.data);
    return good;
}

bool prompts_read(ask *q, const model *m, const fields *f, const char *name, size_t most)
{
    const json_t *value = field_get(f, name), *item;
    char path[64];
    size_t i;
    if (!value) return field_wrong(f, name, "text or a list of tokens");
    if (!json_is_array(value) || !prompts_several(value)) return read_one(q, m, value, name, f->p);
    if (json_array_size(value) > most)
        return problem_set(f->p, 400, name, "%zu of them; %zu are possible", json_array_size(value), most);
    json_array_foreach(value, i, item)
    {
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        if (!read_one(q, m, item, path, f->p)) return false;
    }
    return true;
}

qn_token *prompts_ids(const model *m, const fields *f, const char *name, size_t *n)
{
    const json_t *value = field_array(f, name), *item;
    char path[64];
    size_t i;
    ids list = {0};
    if (!value) {
        field_wrong(f, name, "a list of tokens");
        return NULL;
    }
    qn_token none = 0;
    bool good = add(&list, &none, 1, f->p);
    list.n = 0;
    json_array_foreach(value, i, item)
    {
        snprintf(path, sizeof(path), "%s[%zu]", name, i);
        good = good && (json_is_integer(item)
                            ? add_id(&list, m, item, path, f->p)
                            : problem_set(f->p, 400, path, "found %s, expected a token", json_type_name(item)));
        if (!good) break;
    }
    *n = list.n;
    if (good) return list.data;
    free(list.data);
    return NULL;
}
