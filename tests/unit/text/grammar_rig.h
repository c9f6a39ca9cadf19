/* SPDX-License-Identifier: MIT */
/* tests/unit/text/grammar_rig.h -- a small vocabulary for tests of grammars: some words, then all bytes. */
#ifndef QN_TEST_GRAMMAR_RIG_H
#define QN_TEST_GRAMMAR_RIG_H

#include "../base/failing.h"

#include "vocab_file.h"

#include <quern/grammar.h>
#include <stdio.h>

static qn_tokenizer *tok; /* bytes, and some words of several */

static const char *const words[] = {"<unk>",     "<s>",      "</s>", "<|x|>", "true", "false", "tr",  "ue",
                                    "null",      "{\"",      "\":",  "\"}",   "12",   "ab",    "abc", "\342\202\254",
                                    "b\303\251", "\303\251", ", ",   " ",     "yes",  "no",    "[[",  "]]"};
#define N_WORDS ((int)ARRAY_LEN(words))

static inline int make_tokenizer(void **state)
{
    (void)state;
    vocab_file f;
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "llama");
    vf_array(&f, "tokenizer.ggml.tokens", QN_GGUF_str, (uint64_t)N_WORDS + 256);
    for (int i = 0; i < N_WORDS; i++) {
        char piece[32];
        const char *space = strchr(words[i], ' ');
        if (space) /* as SentencePiece spells it */
            snprintf(piece, sizeof piece, "%.*s\342\226\201%s", (int)(space - words[i]), words[i], space + 1);
        vf_text(&f, space ? piece : words[i], strlen(space ? piece : words[i]));
    }
    for (int i = 0; i < 256; i++) {
        char byte[8];
        snprintf(byte, sizeof byte, "<0x%02X>", i);
        vf_text(&f, byte, 6);
    }
    vf_array(&f, "tokenizer.ggml.token_type", QN_GGUF_i32, (uint64_t)N_WORDS + 256);
    for (int i = 0; i < N_WORDS + 256; i++) vf_int(&f, i == 0 ? 2 : i < 4 ? 3 : i < N_WORDS ? 1 : 6, 4);
    qn_error err;
    if (vf_open(&f, &tok, &err) == QN_OK) return 0;
    print_message("%s\n", err.text);
    return -1;
}

static inline int free_tokenizer(void **state)
{
    (void)state;
    qn_tokenizer_destroy(tok);
    return 0;
}

static inline qn_matcher *matcher_of(const char *gbnf, qn_grammar **g)
{
    qn_matcher *m;
    qn_error err;
    if (qn_grammar_create(gbnf, NULL, g, &err) != QN_OK) fail_msg("%s: %s", gbnf, err.text);
    if (qn_matcher_create(*g, tok, &m, &err) != QN_OK) fail_msg("%s: %s", gbnf, err.text);
    return m;
}

static inline bool bit(const uint32_t *mask, qn_token t) { return mask[t / 32] >> t % 32 & 1; }

#endif
