/* SPDX-License-Identifier: MIT */
/* src/serve/infill.c -- POST /infill: what belongs between a prefix and a suffix, as llama-server has it:
 *
 *     [repo]myproject\n[file]NAME\n TEXT ..[file]filename\n[prefix] INPUT_PREFIX PROMPT [suffix] INPUT_SUFFIX [middle]
 *
 * with the tokens of the vocabulary; where it has none for files, a line stands before each text. Nothing is cut. */
#include "serve/native.h"
#include "serve/routes.h"
#include <string.h>

typedef struct parts {
    ask *q;
    const model *m;
    problem *p;
} parts;

static bool put_token(const parts *to, qn_fim which)
{
    const qn_token id = qn_tokenizer_fim(to->m->tok, which);
    return id == QN_TOKEN_NONE || ask_extend_prompt(to->q, &id, 1, to->p);
}

/* Text of a file: no control tokens in it. */
static bool put_text(const parts *to, const char *words, size_t n, const char *path)
{
    qn_token *ids = NULL;
    size_t n_ids = 0;
    qn_error err;
    const qn_tokenize_options o = {.no_bos = true, .no_special = true};
    if (qn_tokenize(to->m->tok, words, n, &o, &ids, &n_ids, &err) != QN_OK) return problem_error(to->p, path, &err);
    const bool good = ask_extend_prompt(to->q, ids, n_ids, to->p);
    qn_free(ids);
    return good;
}

static bool put_field(const parts *to, const fields *f, const char *name)
{
    const json_t *value = field_get(f, name);
    if (!value) return true;
    if (!json_is_string(value)) return field_wrong(f, name, "text");
    return put_text(to, json_string_value(value), json_string_length(value), name);
}

static bool put_file(const parts *to, const json_t *item, const char *path)
{
    static const char snippet[] = "\n\n--- snippet ---\n\n";
    const json_t *name = json_object_get(item, "filename"), *words = json_object_get(item, "text");
    if (!json_is_string(words)) return problem_set(to->p, 400, path, "expected {\"filename\", \"text\"}");
    if (qn_tokenizer_fim(to->m->tok, QN_FIM_file) == QN_TOKEN_NONE) {
        if (!put_text(to, snippet, sizeof(snippet) - 1, path)) return false;
    } else {
        text head = {0};
        text_printf(&head, "%s\n", json_is_string(name) ? json_string_value(name) : "tmp");
        const bool good = !head.failed && put_token(to, QN_FIM_file) && put_text(to, head.data, head.n, path);
        text_deinit(&head);
        if (!good) return false;
    }
    return put_text(to, json_string_value(words), json_string_length(words), path);
}

static bool put_extra(const parts *to, const fields *f)
{
    static const char project[] = "myproject\n", current[] = "filename\n";
    const json_t *extra = field_array(f, "input_extra"), *item;
    char path[48];
    size_t i;
    if (f->p->status) return false;
    if (qn_tokenizer_fim(to->m->tok, QN_FIM_repo) != QN_TOKEN_NONE &&
        !(put_token(to, QN_FIM_repo) && put_text(to, project, sizeof(project) - 1, "")))
        return false;
    json_array_foreach(extra, i, item)
    {
        snprintf(path, sizeof(path), "input_extra[%zu]", i);
        if (!put_file(to, item, path)) return false;
    }
    return qn_tokenizer_fim(to->m->tok, QN_FIM_file) == QN_TOKEN_NONE ||
           (put_token(to, QN_FIM_file) && put_text(to, current, sizeof(current) - 1, ""));
}

bool infill_can(const model *m)
{
    return qn_tokenizer_fim(m->tok, QN_FIM_prefix) != QN_TOKEN_NONE &&
           qn_tokenizer_fim(m->tok, QN_FIM_suffix) != QN_TOKEN_NONE &&
           qn_tokenizer_fim(m->tok, QN_FIM_middle) != QN_TOKEN_NONE;
}

static bool begin_prompt(const parts *to)
{
    const qn_token bos = qn_tokenizer_bos(to->m->tok);
    if (!ask_add_prompt(to->q, NULL, 0, to->p)) return false;
    return !qn_tokenizer_add_bos(to->m->tok) || bos == QN_TOKEN_NONE || ask_extend_prompt(to->q, &bos, 1, to->p);
}

bool infill_prompt(ask *q, const model *m, const fields *f)
{
    const parts to = {q, m, f->p};
    return begin_prompt(&to) && put_token(&to, QN_FIM_prefix) && put_field(&to, f, "prompt") &&
           put_token(&to, QN_FIM_suffix) && put_field(&to, f, "suffix") && put_token(&to, QN_FIM_middle);
}

static bool read_ask(ask *q, exchange *x, problem *p)
{
    const model *m = x->model;
    const parts to = {q, m, p};
    q->body = exchange_parse(x, p);
    if (!q->body) return false;
    const fields f = {q->body, "", p};
    if (!infill_can(m))
        return problem_set(p, 501, "model", "%s has no tokens for a prefix, a suffix and what lies between", m->name);
    if (!native_options(q, x, &f) || !begin_prompt(&to)) return false;
    return put_extra(&to, &f) && put_token(&to, QN_FIM_prefix) && put_field(&to, &f, "input_prefix") &&
           put_field(&to, &f, "prompt") && put_token(&to, QN_FIM_suffix) && put_field(&to, &f, "input_suffix") &&
           put_token(&to, QN_FIM_middle);
}

void serve_infill(exchange *x) { ask_serve(x, read_ask); }
