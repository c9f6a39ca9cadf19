/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_schema.c -- the first byte is options, the second a seed, the rest a JSON schema. Whatever it is, it
 * is refused with a line of text or becomes a grammar in which some token can always follow where an output cannot end,
 * and what is drawn by it and ends is JSON, or a value written in one of the other ways that models have. Broken
 * promises trap; leaks and bad accesses are the sanitizers' business. */
#include "text/grammar/grammar.h"
#include "text/jinja/value.h"

#include <quern/grammar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"

#define MAX_TOKENS 60

enum { WIDEN = 1, OBJECT = 2, WHOLE_FRACTIONS = 4, DIALECT = 8 }; /* and which, in the next two bits */

static const qn_dialect dialects[] = {
    {.null = "None", .yes = "True", .no = "False", .quote = "'", .token = QN_TOKEN_NONE, .never = "'\\", .escapes = ""},
    {.null = "None",
     .yes = "True",
     .no = "False",
     .quote = "'",
     .token = QN_TOKEN_NONE,
     .never = "'\\",
     .escapes = "''\\\\\nn"},
    {.null = "null",
     .yes = "true",
     .no = "false",
     .quote = "<|\"|>",
     .token = QN_TOKEN_NONE,
     .never = "<",
     .escapes = "",
     .lines = true,
     .bare_keys = true},
};

static qn_tokenizer *tok;
static qn_grammar *json;
static qn_matcher *any;

static void set_up(void)
{
    static const char text[] = "{\"name\": \"a\", \"b\": [1, 2.5e3, true, false, null], \"c\": {\"\": \"\\u00e9\\n\"}}";
    const qn_bpe_train_options options = {.n_tokens = 300};
    const qn_gguf_str texts[] = {{text, sizeof text - 1}};
    qn_vocab *v;
    REQUIRE(qn_bpe_train(&options, texts, 1, &v, NULL) == QN_OK);
    REQUIRE(qn_vocab_tokenizer(v, &tok, NULL) == QN_OK);
    qn_vocab_destroy(v);
    REQUIRE(qn_grammar_create_schema("true", NULL, &json, NULL) == QN_OK);
    REQUIRE(qn_matcher_create(json, tok, &any, NULL) == QN_OK);
}

/* A token of the mask, by chance; -1: none. */
static qn_token draw(const uint32_t *mask, uint32_t *seed)
{
    const int32_t n = qn_tokenizer_n_tokens(tok);
    *seed = *seed * 1664525u + 1013904223u;
    const int32_t from = (int32_t)((*seed >> 8) % (uint32_t)n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t t = (from + i) % n;
        if (mask[t / 32] >> t % 32 & 1) return t;
    }
    return -1;
}

static void generate(const qn_grammar *g, uint32_t seed, bool is_json)
{
    qn_matcher *m;
    const uint32_t *mask;
    qn_error err = {0};
    REQUIRE(qn_matcher_create(g, tok, &m, &err) == QN_OK);
    qn_matcher_reset(any);
    for (int i = 0; i < MAX_TOKENS; i++) {
        const bool may_end = qn_matcher_may_end(m);
        REQUIRE(!may_end || !is_json || qn_matcher_may_end(any));
        REQUIRE(qn_matcher_mask(m, &mask, &err) == QN_OK);
        const qn_token t = draw(mask, &seed);
        REQUIRE(t >= 0);
        if (qn_tokenizer_is_eog(tok, t)) {
            REQUIRE(may_end);
            break;
        }
        REQUIRE(qn_matcher_accept(m, t, &err) == QN_OK);
        REQUIRE(!is_json || qn_matcher_accept(any, t, &err) == QN_OK);
    }
    qn_matcher_destroy(m);
}

static qn_status create_in(const qn_dialect *d, const char *text, const qn_schema_options *options, qn_grammar **out,
                           qn_error *err)
{
    qn_heap heap = {.max_bytes = 4 << 20, .err = err};
    qn_grammar *g = qn__grammar_new(err);
    REQUIRE(g);
    qn__arena_init(&heap.arena, 0);
    const qn_val value = qn__parse_json(&heap, text, strlen(text), false);
    qn_status status = heap.status;
    if (status == QN_OK) status = qn__grammar_add_schema(g, "root", &value, options, d, NULL, err);
    if (status == QN_OK) status = qn__grammar_complete(g, "root", NULL, err);
    qn__arena_deinit(&heap.arena);
    if (status == QN_OK)
        *out = g;
    else
        qn_grammar_destroy(g);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 1 << 16) return 0;
    if (!tok) set_up();
    char *text = malloc(size - 1);
    if (!text) return 0;
    memcpy(text, data + 2, size - 2);
    text[size - 2] = '\0';
    const qn_schema_options options = {.widen = data[0] & WIDEN,
                                       .object = data[0] & OBJECT,
                                       .whole_fractions = data[0] & WHOLE_FRACTIONS};
    const bool is_json = !(data[0] & DIALECT);
    qn_grammar *g = NULL;
    qn_error err = {0};
    const qn_dialect *d = &dialects[(data[0] >> 4) % (sizeof dialects / sizeof *dialects)];
    const qn_status status =
        is_json ? qn_grammar_create_schema(text, &options, &g, &err) : create_in(d, text, &options, &g, &err);
    free(text);
    if (status != QN_OK) {
        REQUIRE(err.status == status && err.text[0] && !strchr(err.text, '\n') && !g);
        REQUIRE(status == QN_STATUS_format || status == QN_STATUS_limit || status == QN_STATUS_invalid ||
                (status == QN_STATUS_unsupported && !options.widen));
        return 0;
    }
    for (int32_t i = 0; i < qn_grammar_n_widened(g); i++) REQUIRE(options.widen && qn_grammar_widened(g, i)[0] == '#');
    generate(g, data[1], is_json);
    qn_grammar_destroy(g);
    return 0;
}
