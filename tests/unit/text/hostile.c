/* SPDX-License-Identifier: MIT */
/* tests/unit/text/hostile.c -- vocabularies that don't fit together: each is refused with one line that names the key,
 * the index and what was expected; none takes memory out of proportion. A failing allocator at every N-th allocation of
 * loading, tokenizing and detokenizing gives a clean error and no leak; one tokenizer serves several threads. */
#include "unit/base/failing.h"

#include "base/thread.h"
#include "vocab_file.h"

#define KEY "tokenizer.ggml."

/* A vocabulary of each family, good unless `spoil` says otherwise. */
typedef struct plan {
    const char *model, *pre;
    size_t n_scores, n_types; /* SIZE_MAX: as many as tokens */
    const char *tokens[8];
    size_t n_tokens;
    const char *merges[4];
    size_t n_merges; /* SIZE_MAX: no such key */
    float first_score;
    unsigned char first_type;
    const unsigned char *charsmap;
    size_t n_charsmap;
    const char *id_key;
    uint32_t id;
} plan;

#define SCORED .n_scores = SIZE_MAX, .n_types = SIZE_MAX, .n_merges = SIZE_MAX
static const plan spm_plan = {.model = "llama",
                              SCORED,
                              .first_type = 2,
                              .n_tokens = 8,
                              .tokens = {"<unk>", "<s>", "</s>", "\342\226\201", "a", "b", "ab", "<0xC3>"}};
static const plan unigram_plan = {.model = "t5",
                                  SCORED,
                                  .first_type = 3,
                                  .n_tokens = 7,
                                  .tokens = {"<pad>", "</s>", "<unk>", "\342\226\201", "a", "b", "ab"}};
static const plan bpe_plan = {.model = "gpt2",
                              .pre = "llama-bpe",
                              .n_types = SIZE_MAX,
                              .first_type = 3,
                              .tokens = {"<|eot_id|>", "a", "b", "ab", "\304\240", "\304\240a"},
                              .n_tokens = 6,
                              .merges = {"a b", "\304\240 a"},
                              .n_merges = 2};
static const plan bert_plan = {.model = "bert",
                               .n_types = SIZE_MAX,
                               .n_merges = SIZE_MAX,
                               .first_type = 2,
                               .id_key = KEY "unknown_token_id",
                               .n_tokens = 4,
                               .tokens = {"[UNK]", "\342\226\201a", "b", "\342\226\201b"}};
static const plan rwkv_plan = {.model = "rwkv",
                               .n_types = SIZE_MAX,
                               .n_merges = SIZE_MAX,
                               .first_type = 3,
                               .tokens = {"<s>", "a", "\\n", "\\x00", "ab", "\\xc3\\xa9", "\\\\", " a"},
                               .n_tokens = 8};

static void build(vocab_file *f, const plan *p)
{
    vf_begin(f);
    if (p->model) vf_str(f, KEY "model", p->model);
    if (p->pre) vf_str(f, KEY "pre", p->pre);
    vf_strs(f, KEY "tokens", p->tokens, p->n_tokens);
    const size_t n_scores = p->n_scores == SIZE_MAX ? p->n_tokens : p->n_scores;
    if (n_scores) vf_array(f, KEY "scores", QN_GGUF_f32, n_scores);
    for (size_t i = 0; i < n_scores; i++) {
        const float score = i ? -(float)i : p->first_score;
        uint32_t bits;
        memcpy(&bits, &score, 4);
        vf_int(f, bits, 4);
    }
    const size_t n_types = p->n_types == SIZE_MAX ? p->n_tokens : p->n_types;
    vf_array(f, KEY "token_type", QN_GGUF_i32, n_types);
    for (size_t i = 0; i < n_types; i++) vf_int(f, i ? 1 : p->first_type, 4);
    if (p->n_merges != SIZE_MAX) vf_strs(f, KEY "merges", p->merges, p->n_merges);
    if (p->charsmap) vf_u8s(f, KEY "precompiled_charsmap", p->charsmap, p->n_charsmap);
    if (p->id_key) vf_u32(f, p->id_key, p->id);
}

static void refused(const plan *p, qn_status want, const char *part, const char *part_too)
{
    vocab_file f;
    qn_tokenizer *tok = NULL;
    qn_error err = {0};
    build(&f, p);
    const qn_status status = vf_open(&f, &tok, &err);
    if (status != want || err.status != want || !strstr(err.text, part) || !strstr(err.text, part_too) ||
        strchr(err.text, '\n'))
        fail_msg("status %s, \"%s\"; %s with \"%s\" and \"%s\" expected", qn_status_name(status), err.text,
                 qn_status_name(want), part, part_too);
    assert_null(tok);
}

#define REFUSED(base, change, status, part, part_too) \
    do { \
        plan p = base; \
        change; \
        refused(&p, QN_STATUS_##status, part, part_too); \
    } while (0)

static void misfits_are_refused(void **state)
{
    (void)state;
    REFUSED(spm_plan, p.model = NULL, format, KEY "model", "missing");
    REFUSED(spm_plan, p.model = "abacus", unsupported, "\"abacus\"", "llama, t5, gpt2");
    REFUSED(spm_plan, p.n_tokens = 0, format, KEY "tokens at offset ", "found 0 tokens");
    REFUSED(spm_plan, p.n_scores = 7, format, KEY "scores at offset ", "found 7 entries, 8 were");
    REFUSED(spm_plan, p.n_scores = 9, format, KEY "scores at offset ", "found 9 entries, 8 were");
    REFUSED(spm_plan, p.n_types = 7, format, KEY "token_type at offset ", "found 7 entries, 8 were");
    REFUSED(spm_plan, p.first_type = 7, format, KEY "token_type at offset ", ", entry 0: found type 7");
    REFUSED(spm_plan, p.first_type = 6, format, KEY "token_type at offset ",
            ", entry 0: found type byte for \"<unk>\"");
    REFUSED(spm_plan, p.first_score = 0.0f / 0.0f, format, KEY "scores at offset ", ", entry 0: found ");
    REFUSED(spm_plan, p.first_score = 1.0f / 0.0f, format, KEY "scores at offset ", ", entry 0: found ");
    REFUSED(spm_plan, p.tokens[6] = "b", format, KEY "tokens at offset ", ", entry 6: found \"b\", which is token 5");
    REFUSED(spm_plan, p.id_key = KEY "bos_token_id"; p.id = 8, format, KEY "bos_token_id", "0 to 7 were expected");
    REFUSED(spm_plan, p.id_key = KEY "fim_mid_token_id";
            p.id = 0x80000000u, format, KEY "fim_mid_token_id", "2147483648");
    REFUSED(bpe_plan, p.pre = "nobody-knows", unsupported, "\"nobody-knows\"", "llama-bpe");
    REFUSED(bpe_plan, p.n_merges = SIZE_MAX, format, KEY "merges", "missing");
    REFUSED(bpe_plan, p.merges[1] = "b zz", format, KEY "merges at offset ",
            ", entry 1: found \"b zz\", but \"zz\" is none of");
    REFUSED(bpe_plan, p.merges[0] = "zz a", format, KEY "merges at offset ",
            ", entry 0: found \"zz a\", but \"zz\" is none of");
    REFUSED(bpe_plan, p.merges[1] = "b a", format, KEY "merges at offset ",
            ", entry 1: found \"b a\", but \"ba\" is none of");
    REFUSED(bpe_plan, p.merges[1] = "ab", format, KEY "merges at offset ", ", entry 1: found \"ab\", two tokens");
    REFUSED(bpe_plan, p.merges[1] = "", format, KEY "merges at offset ", ", entry 1: found \"\", two tokens");
    REFUSED(bpe_plan, p.merges[1] = "a ", format, KEY "merges at offset ",
            ", entry 1: found \"a \", but \"\" is none of");
    REFUSED(bpe_plan, p.merges[1] = " a", format, KEY "merges at offset ", ", entry 1: found \" a\", two tokens");
    REFUSED(bert_plan, p.id_key = NULL, format, KEY "unknown_token_id", "missing");
    REFUSED(unigram_plan, p.n_tokens = 2, format, KEY "unknown_token_id", "missing");
}

static void wrong_types_are_refused(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { const char *key; qn_gguf_type type; const char *part; } cases[] = {
        {KEY "model", QN_GGUF_u32, KEY "model"},          {KEY "tokens", QN_GGUF_str, KEY "tokens"},
        {KEY "scores", QN_GGUF_f32, KEY "scores"},        {KEY "token_type", QN_GGUF_u32, KEY "token_type"},
        {KEY "bos_token_id", QN_GGUF_str, KEY "bos_token_id"}, {KEY "add_bos_token", QN_GGUF_u32, KEY "add_bos_token"},
        {"general.name", QN_GGUF_u32, "general.name"},    {KEY "pre", QN_GGUF_u32, KEY "pre"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        vocab_file f;
        qn_tokenizer *tok = NULL;
        qn_error err = {0};
        vf_begin(&f);
        if (strcmp(cases[i].key, KEY "model") != 0) vf_str(&f, KEY "model", "llama");
        if (strcmp(cases[i].key, KEY "tokens") != 0) vf_strs(&f, KEY "tokens", spm_plan.tokens, spm_plan.n_tokens);
        if (cases[i].type == QN_GGUF_str)
            vf_str(&f, cases[i].key, "text");
        else if (cases[i].type == QN_GGUF_u32)
            vf_u32(&f, cases[i].key, 3);
        else {
            vf_key(&f, cases[i].key, cases[i].type);
            vf_int(&f, 0, 4);
        }
        const qn_status status = vf_open(&f, &tok, &err);
        if (status != QN_STATUS_format || !strstr(err.text, cases[i].part)) fail_msg("%s: %s", cases[i].key, err.text);
    }
}

/* Nodes and replacements of a normaliser point wherever the file says. */
static void charsmaps_are_checked(void **state)
{
    (void)state;
    static const unsigned char too_short[] = {1, 0}, too_long[] = {8, 0, 0, 0, 1, 2, 3, 4},
                               odd[] = {3, 0, 0, 0, 1, 2, 3, 0};
    REFUSED(unigram_plan, p.charsmap = too_short; p.n_charsmap = 2, format, KEY "precompiled_charsmap", "expected");
    REFUSED(unigram_plan, p.charsmap = too_long; p.n_charsmap = 8, format, KEY "precompiled_charsmap", "8 bytes");
    REFUSED(unigram_plan, p.charsmap = odd; p.n_charsmap = 8, format, KEY "precompiled_charsmap", "multiple of 4");

    /* root -> 'a' (at 0 ^ 'a'), whose value node is missing, out of range, or names a replacement without an end */
    static const struct {
        uint32_t size, root, leaf, value;
        const char *part;
    } cases[] = {
        {98, 200u << 10, 0, 0, "node index"},
        {98, 0, 'a' | 1u << 8 | 300u << 10, 0, "value index"},
        {98, 0, 'a' | 1u << 8 | 1u << 10, 0x80000000u | 50, "replacement index"},
        {98, 0, 'a' | 1u << 8 | 1u << 10, 0x80000000u | 0, "has no end"},
    };
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        unsigned char blob[4 + 98 * 4 + 2] = {0};
        uint32_t words[99] = {98 * 4};
        words[1] = cases[c].root;
        words[1 + 'a'] = cases[c].leaf;
        words[1 + ('a' ^ 1)] = cases[c].value;
        for (size_t i = 0; i < 99; i++)
            for (int b = 0; b < 4; b++) blob[4 * i + (size_t)b] = (unsigned char)(words[i] >> 8 * b);
        blob[sizeof blob - 2] = blob[sizeof blob - 1] = 'x';
        plan p = unigram_plan;
        p.charsmap = blob;
        p.n_charsmap = sizeof blob;
        vocab_file f;
        qn_tokenizer *tok = NULL;
        qn_error err = {0};
        qn_token *ids;
        size_t n;
        build(&f, &p);
        qn_status status = vf_open(&f, &tok, &err); /* a newline is tokenized while loading */
        if (status == QN_OK) status = qn_tokenize(tok, "a", 1, NULL, &ids, &n, &err);
        if (status != QN_STATUS_format || !strstr(err.text, cases[c].part)) fail_msg("case %zu: %s", c, err.text);
        qn_tokenizer_destroy(tok);
    }
}

/* A normaliser that turns one byte into 300 must not take 300 times the memory. */
static void charsmaps_that_blow_up(void **state)
{
    (void)state;
    static unsigned char blob[4 + 98 * 4 + 301];
    blob[0] = 98 * 4 & 255;
    blob[1] = 98 * 4 >> 8;
    unsigned char *leaf = blob + 4 + 4 * 'a', *value = blob + 4 + 4 * ('a' ^ 1);
    leaf[0] = 'a';
    leaf[1] = 1 | 1 << 2; /* has a value, at 1 */
    value[3] = 0x80;
    memset(blob + 4 + 98 * 4, 'b', 300);
    plan p = unigram_plan;
    p.charsmap = blob;
    p.n_charsmap = sizeof blob;
    vocab_file f;
    qn_tokenizer *tok;
    qn_error err = {0};
    qn_token *ids;
    size_t n;
    char text[300];
    memset(text, 'a', sizeof text);
    build(&f, &p);
    if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_tokenize(tok, text, 10, NULL, &ids, &n, &err), QN_OK);
    assert_int_equal(n, 10 * 300 + 1);
    qn_free(ids);
    assert_int_equal(qn_tokenize(tok, text, sizeof text, NULL, &ids, &n, &err), QN_STATUS_limit);
    assert_non_null(strstr(err.text, "precompiled_charsmap"));
    qn_tokenizer_destroy(tok);
}

/* ---- every allocation fails once ---- */

static const plan *const plans[] = {&spm_plan, &unigram_plan, &bpe_plan, &bert_plan, &rwkv_plan};

static qn_status whole_life(const qn_gguf *file, qn_error *err)
{
    static const char text[] = "<s> ab a\303\251b\n <|eot_id|>[UNK]\377 b ab";
    qn_tokenizer *tok;
    qn_token *ids;
    char *back;
    size_t n, len;
    qn_status status = qn_tokenizer_create(file, &tok, err);
    if (status != QN_OK) return status;
    status = qn_tokenize(tok, text, sizeof text - 1, NULL, &ids, &n, err);
    if (status == QN_OK) {
        status = qn_detokenize(tok, ids, n, NULL, &back, &len, err);
        if (status == QN_OK) qn_free(back);
        qn_free(ids);
    }
    qn_tokenizer_destroy(tok);
    return status;
}

static void failing_allocations(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(plans); k++) {
        vocab_file f;
        build(&f, plans[k]);
        vf_finish(&f);
        int n_nomem = 0;
        for (long at = 0;; at++) {
            qn_gguf *file;
            qn_error err = {0};
            books_open(-1);
            assert_int_equal(qn_gguf_open_memory(f.data, f.len, NULL, &file, NULL), QN_OK);
            books.countdown = at;
            const qn_status status = whole_life(file, &err);
            const bool failed = books.n_failed > 0;
            books.countdown = -1;
            qn_gguf_close(file);
            books_close();
            if (!failed) {
                assert_int_equal(status, QN_OK);
                assert_true(n_nomem > 8);
                break;
            }
            /* Success is fine where there is another way: a string grows by less, a pattern goes without machine code.
             */
            if (status == QN_OK) continue;
            n_nomem++;
            assert_int_equal(status, QN_STATUS_nomem);
            assert_int_equal(err.status, QN_STATUS_nomem);
            assert_true(err.text[0] != '\0');
        }
        free(f.data);
    }
}

/* ---- threads ---- */

typedef struct shared {
    const qn_tokenizer *tok;
    _Atomic int n_wrong;
} shared;

static void work(void *ctx, int member, int n_members)
{
    shared *s = ctx;
    (void)n_members;
    qn_token *first = NULL;
    size_t n_first = 0;
    for (int i = 0; i < 200; i++) {
        static const char text[] = "a ab b aab <s> ab a\303\251b\n\n ba \377";
        qn_token *ids;
        char *back;
        size_t n, len;
        if (qn_tokenize(s->tok, text + member % 3, sizeof text - 1 - (size_t)(member % 3), NULL, &ids, &n, NULL) !=
            QN_OK)
            s->n_wrong++;
        if (qn_detokenize(s->tok, ids, n, NULL, &back, &len, NULL) != QN_OK) s->n_wrong++;
        if (first && (n != n_first || memcmp(ids, first, n * sizeof *ids) != 0)) s->n_wrong++;
        qn_free(back);
        if (first)
            qn_free(ids);
        else
            first = ids, n_first = n;
    }
    qn_free(first);
}

static void shared_by_threads(void **state)
{
    (void)state;
    qn_team *team;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 4}, &team, NULL), QN_OK);
    for (size_t k = 0; k < ARRAY_LEN(plans); k++) {
        vocab_file f;
        qn_tokenizer *tok;
        qn_error err = {0};
        build(&f, plans[k]);
        if (vf_open(&f, &tok, &err) != QN_OK) fail_msg("%s", err.text);
        shared s = {.tok = tok};
        qn__team_run(team, work, &s);
        assert_int_equal(s.n_wrong, 0);
        qn_tokenizer_destroy(tok);
    }
    qn__team_destroy(team);
}

/* RWKV's pieces are bytes behind escapes; the longest one wins, a byte that none covers gives nothing. */
static void longest_piece_wins(void **state)
{
    (void)state;
    vocab_file f;
    qn_tokenizer *tok;
    qn_token *ids;
    char *back;
    size_t n, len;
    static const char text[] = "aab\0\n\303\251\\ a\377";
    static const qn_token want[] = {1, 4, 3, 2, 5, 6, 7};
    build(&f, &rwkv_plan);
    assert_int_equal(vf_open(&f, &tok, NULL), QN_OK);
    assert_int_equal(qn_tokenize(tok, text, sizeof text - 1, NULL, &ids, &n, NULL), QN_OK);
    assert_int_equal(n, ARRAY_LEN(want));
    assert_memory_equal(ids, want, sizeof want);
    assert_int_equal(qn_detokenize(tok, ids, n, NULL, &back, &len, NULL), QN_OK);
    assert_int_equal(len, sizeof text - 2);
    assert_memory_equal(back, text, len);
    qn_free(back);
    qn_free(ids);
    qn_tokenizer_destroy(tok);
}

int main(void)
{
    /* clang-format off */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_refused),   cmocka_unit_test(wrong_types_are_refused),
        cmocka_unit_test(charsmaps_are_checked), cmocka_unit_test(charsmaps_that_blow_up),
        cmocka_unit_test(failing_allocations),   cmocka_unit_test(shared_by_threads),
        cmocka_unit_test(longest_piece_wins),
    };
    /* clang-format on */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
