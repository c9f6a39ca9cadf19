/* SPDX-License-Identifier: MIT */
/* tests/unit/text/chat_grammar.h -- tools, a vocabulary for a template, and whether a grammar takes an answer. */
#ifndef QN_TEST_CHAT_GRAMMAR_H
#define QN_TEST_CHAT_GRAMMAR_H

#include "../base/failing.h"

#include "reader.h"
#include "text/chat/reader.h"
#include "vocab_file.h"

#include <quern/grammar.h>
#include <stdio.h>

#define TOOLS \
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"description\": \"D\", \"parameters\": {\"type\": " \
    "\"object\", " \
    "\"properties\": {\"a\": {\"type\": \"integer\"}, \"s\": {\"type\": \"string\"}, \"u\": {\"type\": \"string\", " \
    "\"enum\": [\"km\", " \
    "\"mi\"]}, \"l\": {\"type\": \"array\", \"items\": {\"type\": \"boolean\"}}}, \"required\": [\"a\", \"u\"], " \
    "\"additionalProperties\": false}}}, {\"type\": \"function\", \"function\": {\"name\": \"now\", \"description\": " \
    "\"D\", \"parameters\": " \
    "{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": false}}}, {\"type\": \"function\", " \
    "\"function\": {\"name\": \"say\", \"description\": \"D\", \"strict\": true, \"parameters\": " \
    "{\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}, \"to\": {\"type\": \"object\", " \
    "\"properties\": {\"n\": {\"type\": \"integer\"}}, \"required\": [\"n\"], \"additionalProperties\": false}}, " \
    "\"required\": [\"text\"], \"additionalProperties\": false}}}]"
#define TOOL_OF(schema) \
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true, \"parameters\": {\"type\": " \
    "\"object\", " \
    "\"properties\": {\"a\": " schema "}}}}]"

/* Bytes, and as control tokens the marks of the template in pointed brackets. */
static inline qn_tokenizer *vocabulary(const qn_chat_template *t, bool with_marks, int *n_marks)
{
    char marks[64][64] = {"<unk>", "<s>", "</s>"};
    int n = 3;
    for (int i = 0; i < QN_MARK_COUNT && with_marks; i++) {
        const qn_mark *m = &t->found.marks[i];
        for (size_t at = 0; m->text && at < (size_t)m->n_text;) {
            const size_t len = qn__mark_atom(m->text + at, (size_t)m->n_text - at);
            bool known =
                len >= 63 || m->text[at] != '<' || m->text[at + len - 1] != '>' || memchr(m->text + at, '=', len);
            for (int k = 0; k < n && !known; k++)
                known = strlen(marks[k]) == len && memcmp(marks[k], m->text + at, len) == 0;
            if (!known && n < 64) memcpy(marks[n++], m->text + at, len);
            at += len;
        }
    }
    vocab_file f;
    qn_tokenizer *tok;
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "llama");
    vf_array(&f, "tokenizer.ggml.tokens", QN_GGUF_str, (uint64_t)n + 256);
    for (int i = 0; i < n; i++) vf_text(&f, marks[i], strlen(marks[i]));
    for (int i = 0; i < 256; i++) {
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", i);
        vf_text(&f, byte, 6);
    }
    vf_array(&f, "tokenizer.ggml.token_type", QN_GGUF_i32, (uint64_t)n + 256);
    for (int i = 0; i < n + 256; i++) vf_int(&f, i == 0 ? 2 : i < n ? 3 : 6, 4);
    vf_u32(&f, "tokenizer.ggml.eos_token_id", 2);
    vf_bool(&f, "tokenizer.ggml.add_space_prefix", false);
    assert_int_equal(vf_open(&f, &tok, NULL), QN_OK);
    *n_marks = n;
    return tok;
}

/* Whether a grammar takes a whole answer. */
static inline bool takes(const qn_chat_template *t, const qn_tokenizer *tok, const char *prompt,
                         const qn_chat_constraint *c, const char *text)
{
    qn_grammar *g;
    qn_matcher *m;
    qn_error err;
    const qn_prompt p = {.text = (char *)prompt, .len = strlen(prompt)};
    if (qn_chat_grammar_create(t, tok, &p, c, &g, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_matcher_create(g, tok, &m, &err), QN_OK);
    const bool good = qn_matcher_accept_text(m, text, strlen(text), NULL) == QN_OK && qn_matcher_may_end(m);
    qn_matcher_destroy(m);
    qn_grammar_destroy(g);
    return good;
}

#endif
