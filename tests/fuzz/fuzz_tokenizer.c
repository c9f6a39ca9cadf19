/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_tokenizer.c -- two programs in one; the first byte chooses.
 *
 * Even: the rest is text, for a small vocabulary of each family (second byte) and the options (third). Ids must be in
 * range, text must come back where the family promises it, and token by token it must be the same as all at once,
 * repaired. Odd: the rest is a GGUF file whose tokenizer is made, and used on fixed texts if it can be. */
#include "require.h"
#include "../unit/text/vocab_file.h"
#include "../unit/text/sentencepiece_figures.inc"
#include "../unit/text/wordpiece_figures.inc"
#include "text/utf8.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
#define KEY    "tokenizer.ggml."
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- vocabularies ---- */

/* What survives tokenizing and coming back, when no special token is parsed. */
typedef enum promise {
    NOTHING,
    REPAIRED, /* the text with U+FFFD for each broken byte */
    VALID,    /* valid UTF-8: a broken sequence may swallow the space behind it, which is U+2581 by then */
    BYTES     /* everything */
} promise;

typedef struct vocab {
    qn_tokenizer *tok;
    promise keeps;
    bool tidied; /* text all at once is made up afterwards, token by token it isn't */
} vocab;

static void add_spm(vocab_file *f)
{
    vf_str(f, KEY "model", "llama");
    vf_strs(f, KEY "tokens", spm_pieces, LEN(spm_pieces));
    vf_f32s(f, KEY "scores", spm_scores, LEN(spm_scores));
    vf_types(f, spm_types, LEN(spm_types));
    REQUIRE(spm_charsmap_size == 0 && spm_charsmap[0] == 0 && LEN(spm_strings) > 0);
}

static void add_unigram(vocab_file *f)
{
    vf_str(f, KEY "model", "t5");
    vf_strs(f, KEY "tokens", unigram_pieces, LEN(unigram_pieces));
    vf_f32s(f, KEY "scores", unigram_scores, LEN(unigram_scores));
    vf_types(f, unigram_types, LEN(unigram_types));
    vf_u8s(f, KEY "precompiled_charsmap", unigram_charsmap, unigram_charsmap_size);
    vf_bool(f, KEY "add_space_prefix", true);
    vf_bool(f, KEY "remove_extra_whitespaces", true);
    REQUIRE(LEN(unigram_strings) > 0);
}

static void add_wordpiece(vocab_file *f)
{
    vf_str(f, KEY "model", "bert");
    vf_strs(f, KEY "tokens", pieces, LEN(pieces));
    vf_u32(f, KEY "unknown_token_id", 1);
    REQUIRE(LEN(strings) + LEN(decoded) > 2 && n_special > 0);
}

static void add_bpe(vocab_file *f, const char *pre)
{
    static const char *const more[] = {"he", "th",   "the", "\304\240t",        "\304\240the",
                                       "aa", "aaaa", "12",  "\304\212\304\212", "\303\203\302\251"};
    static const char *const merges[] = {"h e", "t h",   "th e", "\304\240 t",        "\304\240t he",
                                         "a a", "aa aa", "1 2",  "\304\212 \304\212", "\303\203 \302\251"};
    char letter[4];
    vf_str(f, KEY "model", "gpt2");
    vf_str(f, KEY "pre", pre);
    vf_array(f, KEY "tokens", QN_GGUF_str, 256 + LEN(more));
    for (int b = 0; b < 256; b++) vf_text(f, vf_byte_letter(b, letter), strlen(vf_byte_letter(b, letter)));
    for (size_t i = 0; i < LEN(more); i++) vf_text(f, more[i], strlen(more[i]));
    vf_strs(f, KEY "merges", merges, LEN(merges));
}

/* Pieces in UTF-8 and all byte tokens. */
static void add_raw(vocab_file *f, const char *model)
{
    static const char *const more[] = {"a",  "b",    "\342\226\201", "\342\226\201a", "ab",
                                       "\n", "\n\n", "\303\251",     "<turn|>"};
    static const char *const merges[] = {"\342\226\201 a", "a b"};
    vf_str(f, KEY "model", model);
    vf_str(f, KEY "pre", "whitespace");
    vf_array(f, KEY "tokens", QN_GGUF_str, 256 + LEN(more));
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        vf_text(f, name, 6);
    }
    for (size_t i = 0; i < LEN(more); i++) vf_text(f, more[i], strlen(more[i]));
    vf_array(f, KEY "token_type", QN_GGUF_i32, 256 + LEN(more));
    for (size_t i = 0; i < 256 + LEN(more); i++) vf_int(f, i < 256 ? 6 : 1, 4);
    vf_strs(f, KEY "merges", merges, LEN(merges));
}

static void add_rwkv(vocab_file *f)
{
    static const char *const more[] = {"the ", "he", "\\n\\n", "\\xe2\\x96", "aaa"};
    vf_str(f, KEY "model", "rwkv");
    vf_array(f, KEY "tokens", QN_GGUF_str, 256 + LEN(more));
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "\\x%02x", b);
        vf_text(f, name, 4);
    }
    for (size_t i = 0; i < LEN(more); i++) vf_text(f, more[i], strlen(more[i]));
}

/* clang-format off */
#define BPE_ROWS(X) \
    X("default") X("gpt-2") X("llama-bpe") X("qwen35") X("jais-2") X("deepseek-llm") X("deepseek-coder") \
    X("deepseek-v3") \
    X("youtu") X("viking") X("tekken") X("chameleon") X("gpt-4o") X("tiny_aya") X("kimi-k2") X("superbpe") \
    X("bailingmoe") \
    X("seed-coder") X("afmoe") X("laguna") X("exaone-moe") X("minicpm5") X("falcon") X("starcoder")
/* clang-format on */

static vocab vocabs[64];
static int n_vocabs;

static void add_vocab(vocab_file *f, promise keeps, bool tidied)
{
    qn_error err = {0};
    vocab *v = &vocabs[n_vocabs++];
    if (vf_open(f, &v->tok, &err) != QN_OK) fprintf(stderr, "%s\n", err.text);
    REQUIRE(v->tok);
    v->keeps = keeps;
    v->tidied = tidied;
}

static void make_vocabs(void)
{
#define ADD(keeps, tidied, ...) \
    do { \
        vocab_file f; \
        vf_begin(&f); \
        __VA_ARGS__; \
        add_vocab(&f, keeps, tidied); \
    } while (0)
#define ADD_BPE(pre) ADD(REPAIRED, false, add_bpe(&f, pre));
    ADD(VALID, false, add_spm(&f));
    ADD(NOTHING, false, add_unigram(&f));
    ADD(NOTHING, true, add_wordpiece(&f));
    ADD(BYTES, false, add_rwkv(&f));
    ADD(REPAIRED, false, add_raw(&f, "gemma4"));
    ADD(NOTHING, false, add_raw(&f, "whitespace"));
    BPE_ROWS(ADD_BPE)
}

/* ---- checks ---- */

static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status != QN_OK && status < QN_STATUS_COUNT && status != QN_STATUS_internal);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text);
}

/* One U+FFFD for each broken sequence (as a terminal shows it), or for each of its bytes (as byte-level BPE does). */
static char *repaired(const char *text, size_t len, bool each_byte, size_t *out_len)
{
    char *out = malloc(3 * len + 1);
    uint32_t cp;
    bool may_grow;
    size_t n = 0;
    REQUIRE(out);
    for (size_t pos = 0; pos < len;) {
        size_t step = (size_t)qn__utf8_decode(text + pos, len - pos, &cp);
        if (step) {
            memcpy(out + n, text + pos, step);
            n += step;
        } else {
            step = each_byte ? 1 : qn__utf8_broken(text + pos, len - pos, &may_grow);
            memcpy(out + n, QN_UTF8_REPLACEMENT, 3);
            n += 3;
        }
        pos += step;
    }
    *out_len = n;
    return out;
}

static bool contains(const char *text, size_t len, const char *part)
{
    return memmem(text, len, part, strlen(part)) != NULL;
}

static void check_stream(const qn_tokenizer *tok, const qn_token *ids, size_t n, const qn_detokenize_options *options,
                         const char *whole, size_t len)
{
    const size_t size = qn_tokenizer_max_piece(tok) + 8;
    size_t want_len, at = 0;
    char *want = repaired(whole, len, false, &want_len), *buf = malloc(size);
    qn_detok d = {.options = *options};
    REQUIRE(buf);
    for (size_t i = 0; i <= n; i++) {
        const int64_t got = i < n ? qn_detok_push(&d, tok, ids[i], buf, size) : qn_detok_finish(&d, buf, size);
        REQUIRE(got >= 0 && at + (size_t)got <= want_len && memcmp(want + at, buf, (size_t)got) == 0);
        at += (size_t)got;
    }
    REQUIRE(at == want_len);
    free(buf);
    free(want);
}

/* A file of a stranger may hold a normaliser that points nowhere. Which texts meet it depends on the options: what is a
 * special token in one is plain text in another. */
static void use_text(const vocab *v, const char *text, size_t len, unsigned flags, bool may_refuse)
{
    const qn_tokenize_options options = {.no_bos = flags & 1, .no_special = flags & 2};
    const qn_detokenize_options back_options = {.show_special = flags & 4, .keep_prefix = flags & 8};
    qn_token *ids;
    size_t n, back_len;
    char *back;
    qn_error err = {0};
    const qn_status status = qn_tokenize(v->tok, text, len, &options, &ids, &n, &err);
    if (status != QN_OK && may_refuse) {
        check_error(status, &err);
        return;
    }
    REQUIRE(status == QN_OK && ids);
    for (size_t i = 0; i < n; i++) REQUIRE(ids[i] >= 0 && ids[i] < qn_tokenizer_n_tokens(v->tok));
    REQUIRE(qn_detokenize(v->tok, ids, n, &back_options, &back, &back_len, NULL) == QN_OK && back[back_len] == '\0');
    if (!v->tidied) check_stream(v->tok, ids, n, &back_options, back, back_len);

    const bool plain = (flags & 15) == 3 && !contains(text, len, "\342\226\201") && !contains(text, len, "<sep>") &&
                       !contains(text, len, "[U1");
    const bool promised = v->keeps == BYTES || (v->keeps == VALID && qn__utf8_valid_prefix(text, len) == len);
    if (plain && promised) REQUIRE(back_len == len && memcmp(back, text, len) == 0);
    if (plain && v->keeps == REPAIRED) {
        size_t want_len;
        char *want = repaired(text, len, true, &want_len);
        REQUIRE(back_len == want_len && memcmp(back, want, want_len) == 0);
        free(want);
    }
    qn_free(back);
    qn_free(ids);
}

static void use_file(const uint8_t *data, size_t size)
{
    static const char *const texts[] = {"",
                                        "Hello world",
                                        " the  a\n\n12345 \303\251\342\202\254 ab",
                                        "<s>[INST] x </s>",
                                        "\377\360\237",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    qn_gguf *file;
    qn_error err = {0};
    vocab v = {0};
    qn_status status = qn_gguf_open_memory(data, size, &(qn_gguf_options){.metadata_only = true}, &file, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        return;
    }
    status = qn_tokenizer_create(file, &v.tok, &err);
    qn_gguf_close(file);
    if (status != QN_OK) {
        check_error(status, &err);
        return;
    }
    v.tidied = strcmp(qn_tokenizer_model(v.tok), "bert") == 0;
    for (int32_t id = -1; id <= qn_tokenizer_n_tokens(v.tok) && id < 1000; id++) {
        size_t len = 0;
        const char *piece = qn_tokenizer_piece(v.tok, id, &len);
        REQUIRE(!piece || qn_tokenizer_find(v.tok, piece, len) == id);
        (void)(qn_tokenizer_is_eog(v.tok, id) || qn_tokenizer_kind(v.tok, id) || qn_tokenizer_score(v.tok, id) > 0);
    }
    for (size_t i = 0; i < LEN(texts); i++)
        for (unsigned flags = 0; flags < 4; flags++) use_text(&v, texts[i], strlen(texts[i]), flags | (i & 12), true);
    qn_tokenizer_destroy(v.tok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!n_vocabs) make_vocabs();
    if (size && data[0] % 2)
        use_file(data + 1, size - 1);
    else if (size >= 3)
        use_text(&vocabs[data[1] % n_vocabs], (const char *)data + 3, size - 3, data[2], false);
    return 0;
}
