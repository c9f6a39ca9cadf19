/* SPDX-License-Identifier: MIT */
/* src/serve/logprobs.c -- probabilities of tokens, as JSON: OpenAI's form, which other dialects shorten. */
#include "serve/answers.h"

static json_t *bytes_of(const text *t)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->n; i++) json_array_append_new(list, json_integer((unsigned char)t->data[i]));
    return list;
}

/* A token as its bytes: may be part of a character. */
static void spell(choice *c, qn_token token)
{
    char *data = NULL;
    size_t n = 0;
    text_clear(&c->token_text);
    if (qn_detokenize(c->a->x->model->tok, &token, 1,
                      &(qn_detokenize_options){.show_special = true, .keep_prefix = true}, &data, &n, NULL) == QN_OK)
        text_put(&c->token_text, data, n);
    else
        text_lost();
    qn_free(data);
}

static json_t *logprob_json(choice *c, qn_token token, float logprob)
{
    spell(c, token);
    return json_pack("{s:o, s:f, s:o, s:i}", "token", json_text(c->token_text.data, c->token_text.n), "logprob",
                     (double)(logprob < -9999.0f ? -9999.0f : logprob), "bytes", bytes_of(&c->token_text), "id", token);
}

void choice_note_logprob(choice *c, const token_event *e, const qn_batch_logprob *tops)
{
    enum { EACH = 512 }; /* bytes that a token's JSON takes, four numbers and its bytes */
    if (!c->waiting) return;
    if (!c->a->q.stream) c->logprob_bytes += (size_t)(1 + e->n_top) * EACH;
    json_t *top = json_array(), *entry;
    for (int i = 0; i < e->n_top; i++)
        json_array_append_new(top, logprob_json(c, tops[e->top + i].token, tops[e->top + i].logprob));
    entry = logprob_json(c, e->token, e->logprob);
    json_object_set_new(entry, "top_logprobs", top);
    json_array_append_new(c->waiting, entry);
}
