/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_grammar.c -- GBNF source up to a zero byte, then an output under it, a byte a step: a token, or, as
 * text, the byte itself. The first byte of all is a set of switches (see below). A mask says of each token what
 * accepting it says, what is refused changes nothing, an output that must end has nothing to come. */
#include "require.h"
#include "../unit/text/vocab_file.h"
#include "text/grammar/match.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LAZY = 1, AFTER = 2, REQUIRED = 4, BY_TOKEN = 8, SMALL_TABLE = 16, TWO_MATCHERS = 32 };

static const char *const words[] = {"<unk>",    "<s>",      "</s>", "<|x|>", "aa",   "ab", "abc",
                                    "true",     "\"a",      "\":",  "\"}",   "[[",   "12", "\303\251",
                                    "\342\202", "\202\254", " a",   "aaaaa", "x\"y", "]]]"};
enum { N_TOKENS = LEN(words) + 256 };
static qn_tokenizer *tok;

static void make_tokenizer(void)
{
    vocab_file f;
    qn_error err = {0};
    char letter[4], piece[32];
    vf_begin(&f);
    vf_str(&f, "tokenizer.ggml.model", "gpt2");
    vf_str(&f, "tokenizer.ggml.pre", "default");
    vf_array(&f, "tokenizer.ggml.tokens", QN_GGUF_str, N_TOKENS);
    for (size_t i = 0; i < N_TOKENS; i++) {
        piece[0] = '\0';
        for (const char *p = i >= 4 && i < LEN(words) ? words[i] : ""; *p; p++)
            strcat(piece, vf_byte_letter((unsigned char)*p, letter));
        if (i < 4) strcpy(piece, words[i]);
        if (i >= LEN(words)) strcpy(piece, vf_byte_letter((int)(i - LEN(words)), letter));
        vf_text(&f, piece, strlen(piece));
    }
    vf_array(&f, "tokenizer.ggml.token_type", QN_GGUF_i32, N_TOKENS);
    for (int i = 0; i < N_TOKENS; i++) vf_int(&f, i == 0 ? 2 : i < 4 ? 3 : i == 11 ? 5 : 1, 4); /* [[ is unused */
    vf_array(&f, "tokenizer.ggml.merges", QN_GGUF_str, 0);
    vf_u32(&f, "tokenizer.ggml.eos_token_id", 2);
    if (vf_open(&f, &tok, &err) != QN_OK) fprintf(stderr, "%s\n", err.text);
    REQUIRE(tok);
}

static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status == QN_STATUS_format || status == QN_STATUS_limit || status == QN_STATUS_invalid);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text);
}

/* One step of m; false when the output is over. */
static bool step(qn_matcher *m, uint8_t b, bool text)
{
    const uint32_t *mask;
    qn_error err = {0};
    const qn_token id = b % N_TOKENS;
    const char byte = (char)b;
    if (m->table->full_bytes < QN_TABLE_FULL_BYTES) m->table->full_bytes = 4096;
    qn_status status = qn_matcher_mask(m, &mask, &err);
    if (status != QN_OK) {
        REQUIRE(status == QN_STATUS_limit);
        return false;
    }
    const bool end = qn_matcher_may_end(m), must = qn_matcher_must_end(m), awake = qn_matcher_awake(m);
    bool any = !mask;
    const uint32_t no_end = qn__table_names(m->table, 2) ? ~0u : ~4u;
    for (size_t w = 0; mask && w < (N_TOKENS + 31) / 32; w++) any |= mask[w] & (w == 0 ? no_end : ~0u);
    REQUIRE(any == !must && (!must || end));
    REQUIRE(!mask || (mask[0] >> 2 & 1) == end || qn__table_names(m->table, 2));
    const bool may = !mask || mask[id / 32] >> id % 32 & 1;
    if (text)
        status = qn_matcher_accept_text(m, &byte, 1, &err);
    else
        status = qn_matcher_accept(m, id, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        REQUIRE(end == qn_matcher_may_end(m) && must == qn_matcher_must_end(m) && awake == qn_matcher_awake(m));
    }
    if (!text && status != QN_STATUS_limit) REQUIRE(may == (status == QN_OK));
    return status != QN_STATUS_limit;
}

static void run(const qn_grammar *g, unsigned flags, const uint8_t *steps, size_t n)
{
    qn_matcher *m, *other = NULL;
    qn_error err = {0};
    qn_status status = qn_matcher_create(g, tok, &m, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        return;
    }
    if (flags & SMALL_TABLE) m->table->full_bytes = 4096;
    const qn_grammar_trigger trigger = {.text = flags & BY_TOKEN ? NULL : "aab", .token = 3, .after = flags & AFTER};
    const qn_lazy_options lazy = {.triggers = &trigger, .n_triggers = 1, .required = flags & REQUIRED};
    if (flags & LAZY && (status = qn_matcher_set_lazy(m, &lazy, &err)) != QN_OK) check_error(status, &err);
    if (flags & TWO_MATCHERS) REQUIRE(qn_matcher_create(g, tok, &other, &err) == QN_OK && other->table == m->table);
    for (size_t i = 0; i < n && i < 200; i++) {
        qn_matcher *at = other && i % 3 == 2 ? other : m;
        if (!step(at, steps[i], i % 5 == 4)) break;
        if (steps[i] == 0xFF) qn_matcher_reset(at);
    }
    qn_matcher_destroy(m);
    qn_matcher_destroy(other);
}

/* Many repetitions cost a tenth of a second each time; t_text_grammar has them. */
static bool repeats_much(const uint8_t *s, size_t n)
{
    for (size_t i = 0, digits = 0; i < n && s[i]; i++) {
        digits = s[i] >= '0' && s[i] <= '9' ? digits + 1 : 0;
        if (digits >= 3 && memchr(s, '{', i)) return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qn_grammar *g;
    qn_error err = {0};
    if (!tok) make_tokenizer();
    if (size < 1 || size > 4096 || repeats_much(data + 1, size - 1)) return 0;
    char *source = malloc(size);
    REQUIRE(source);
    memcpy(source, data + 1, size - 1);
    source[size - 1] = '\0';
    const size_t n = strlen(source);
    const qn_status status = qn_grammar_create(source, NULL, &g, &err);
    if (status == QN_OK)
        run(g, data[0], data + 1 + (n < size - 1 ? n + 1 : n), n < size - 1 ? size - n - 2 : 0);
    else
        check_error(status, &err);
    if (status == QN_OK) qn_grammar_destroy(g);
    free(source);
    return 0;
}
