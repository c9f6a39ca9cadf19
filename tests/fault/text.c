/* SPDX-License-Identifier: MIT */
/* A failing allocator under tokenizers of every kind and samplers: creating, cutting text, joining it, drawing. The
 * survivor gives the same ids and text as before. */
#include "failing.h"

typedef struct work {
    qn_gguf *file;
    qn_tokenizer *tok;
    const char *text;
    size_t len;
    qn_token *want;
    size_t n_want;
    char *back;
} work;

static qn_status create_tokenizer(void *ctx, qn_error *err)
{
    const work *w = ctx;
    qn_tokenizer *tok = NULL;
    const qn_status status = qn_tokenizer_create(w->file, &tok, err);
    if (status != QN_OK) assert_null(tok);
    qn_tokenizer_destroy(tok);
    return status;
}

static qn_status tokenize(void *ctx, qn_error *err)
{
    const work *w = ctx;
    qn_token *ids = NULL;
    size_t n = 12345;
    const qn_status status = qn_tokenize(w->tok, w->text, w->len, NULL, &ids, &n, err);
    if (status != QN_OK) {
        assert_null(ids);
        assert_int_equal(n, 12345);
        return status;
    }
    assert_int_equal(n, w->n_want);
    assert_memory_equal(ids, w->want, n * sizeof(*ids));
    qn_free(ids);
    return status;
}

static qn_status detokenize(void *ctx, qn_error *err)
{
    const work *w = ctx;
    char *text = NULL;
    size_t len = 0;
    const qn_status status = qn_detokenize(w->tok, w->want, w->n_want, NULL, &text, &len, err);
    if (status == QN_OK)
        assert_string_equal(text, w->back);
    else
        assert_null(text);
    qn_free(text);
    return status;
}

static void same_ids(void *ctx)
{
    work *w = ctx;
    qn_error err;
    if (tokenize(w, &err) != QN_OK) fail_msg("%s", err.text);
}

static void sweep(const char *name, const char *path)
{
    /* Words, digits, emoji, bad UTF-8, a run that merges often, and a control token's text. */
    static const char text[] = "ka lo  mi'll 12345 \xf0\x9f\x90\x88\xff\xc3 "
                               "kalokalokalokalokalokalokalokalokalokalokalokalokalo\n\n</s><|end|> na";
    work w = {.text = text, .len = sizeof(text) - 1};
    char what[96];
    size_t n = 0;
    MUST(qn_gguf_open(path, NULL, &w.file, err));
    snprintf(what, sizeof(what), "%s, creating", name);
    fault_sweep(what, create_tokenizer, NULL, &w);
    MUST(qn_tokenizer_create(w.file, &w.tok, err));
    MUST(qn_tokenize(w.tok, w.text, w.len, NULL, &w.want, &w.n_want, err));
    MUST(qn_detokenize(w.tok, w.want, w.n_want, NULL, &w.back, &n, err));
    snprintf(what, sizeof(what), "%s, cutting", name);
    fault_sweep(what, tokenize, same_ids, &w);
    snprintf(what, sizeof(what), "%s, joining", name);
    fault_sweep(what, detokenize, same_ids, &w);
    qn_free(w.want);
    qn_free(w.back);
    qn_tokenizer_destroy(w.tok);
    qn_gguf_close(w.file);
}

static void made_up_vocabularies(void **state)
{
    (void)state;
    static const char *const kinds[] = {"llama", "gpt2", "bert", "t5"};
    for (int k = 0; k < 4; k++) {
        MUST(tiny_write(tiny_path("v.gguf"), &(tiny){.tokenizer = kinds[k], .n_layer = 1}, err));
        sweep(kinds[k], tiny_path("v.gguf"));
    }
}

static void trained_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"bert", "gpt-2", "llama-bpe", "rwkv", "spm", "unigram"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[512];
        snprintf(path, sizeof(path), QN_TESTS_DIR "/unit/text/vocab/%s.gguf", names[i]);
        sweep(names[i], path);
    }
}

/* ---- samplers ---- */

static const qn_logit_bias biases[] = {{3, 1.0f}, {7, -INFINITY}};
static const char *const breakers[] = {"\n", "ka", "lo mi", NULL};
static const qn_sampler_params params[] = {
    {.seed = 5},
    {.seed = 5, .greedy = true},
    {.seed = 5,
     .dry_multiplier = 0.8f,
     .dry_breakers = breakers,
     .repeat_penalty = 1.2f,
     .frequency_penalty = 0.1f,
     .logit_bias = biases,
     .n_logit_bias = 2,
     .xtc_probability = 0.5f,
     .typical_p = 0.9f,
     .top_n_sigma = 1,
     .dynatemp_range = 0.3f},
    {.seed = 5, .mirostat = 1},
    {.seed = 5, .mirostat = 2, .n_history = 128},
};

typedef struct drawer {
    qn_tokenizer *tok;
    const qn_sampler_params *p;
} drawer;

static qn_status draw(void *ctx, qn_error *err)
{
    const drawer *d = ctx;
    qn_sampler *s = NULL;
    float logits[RIG_VOCAB];
    qn_token id = 0;
    qn_status status = qn_sampler_create(d->p, RIG_VOCAB, d->tok, &s, err);
    if (status != QN_OK) assert_null(s);
    for (int i = 0; i < 20 && status == QN_OK; i++) {
        for (int k = 0; k < RIG_VOCAB; k++) logits[k] = (float)((k * 7919 + i * 31) % 97) / 10;
        status = qn_sampler_sample(s, logits, &id, err);
        if (status == QN_OK) qn_sampler_accept(s, id);
    }
    qn_sampler_destroy(s);
    return status;
}

static void samplers(void **state)
{
    (void)state;
    qn_gguf *file = NULL;
    drawer d = {0};
    MUST(tiny_write(tiny_path("v.gguf"), &(tiny){.n_layer = 1}, err));
    MUST(qn_gguf_open(tiny_path("v.gguf"), NULL, &file, err));
    MUST(qn_tokenizer_create(file, &d.tok, err));
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        char what[32];
        snprintf(what, sizeof(what), "sampler %zu", i);
        d.p = &params[i];
        fault_sweep(what, draw, NULL, &d);
    }
    qn_tokenizer_destroy(d.tok);
    qn_gguf_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_up_vocabularies), cmocka_unit_test(trained_vocabularies),
                                       cmocka_unit_test(samplers)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
