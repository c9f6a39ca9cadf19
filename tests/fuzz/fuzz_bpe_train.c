/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_bpe_train.c -- the first two bytes are options, the third how often the rest, which is the text,
 * comes in two portions. Whatever the text is, the vocabulary makes a tokenizer, all pieces differ, no piece crosses a
 * space or a newline, and the text goes through the tokenizer. Broken promises trap; leaks and bad accesses are the
 * sanitizers' business. */
#include <quern/text.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"

static void check_vocab(const qn_vocab *v, const qn_bpe_train_options *o)
{
    REQUIRE(v->n_tokens <= o->n_tokens && v->n_covered <= v->n_seen);
    for (int32_t i = 0; i < v->n_tokens; i++) {
        const qn_gguf_str p = v->pieces[i];
        REQUIRE(p.len > 0 && p.data[p.len] == 0 && strlen(p.data) == p.len);
        if (v->kinds[i] != QN_TOKEN_normal) continue;
        for (size_t k = 1; k + 3 <= p.len; k++) REQUIRE(memcmp(p.data + k, "\xE2\x96\x81", 3) != 0);
        REQUIRE(p.len == 1 || !strchr(p.data, '\n'));
    }
}

static void use(const qn_vocab *v, const char *text, size_t len)
{
    qn_tokenizer *tok = NULL;
    qn_error err = {0};
    qn_token *ids;
    size_t n;
    const qn_status made = qn_vocab_tokenizer(v, &tok, &err); /* refuses a piece that comes twice */
    if (made != QN_OK) fprintf(stderr, "%s\n", err.text);
    REQUIRE(made == QN_OK);
    REQUIRE(qn_tokenize(tok, text, len, NULL, &ids, &n, NULL) == QN_OK);
    for (size_t i = 0; i < n; i++) REQUIRE(ids[i] >= 0 && ids[i] < v->n_tokens);
    qn_free(ids);
    qn_tokenizer_destroy(tok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || size > 1 << 16) return 0;
    const char *text = (const char *)data + 3;
    const size_t len = size - 3, cut = len * (data[2] >> 4) / 16;
    const qn_bpe_train_options options = {
        .n_tokens = 1 + data[1] * 4,
        .character_coverage = data[0] & 1 ? 0.9 : 1,
        .max_piece = data[0] & 2 ? 1 + data[2] % 16 : 0,
        .no_byte_fallback = data[0] & 4,
        .no_space_prefix = data[0] & 8,
        .split_digits = data[0] & 16,
        .join_scripts = data[0] & 32,
        .whole_text = data[0] & 64,
        .max_word_bytes = data[0] & 128 ? 600 : 0,
    };
    qn_vocab *v = NULL;
    qn_error err = {0};
    const qn_gguf_str texts[] = {{text, cut}, {text + cut, len - cut}, {text, len}};
    const qn_status status = qn_bpe_train(&options, texts, 1 + data[2] % 3, &v, &err);
    if (status != QN_OK) {
        REQUIRE(status == QN_STATUS_invalid && err.status == status && err.text[0] && !v);
        return 0;
    }
    check_vocab(v, &options);
    use(v, text, len);
    qn_vocab_destroy(v);
    return 0;
}
