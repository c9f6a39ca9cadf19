/* SPDX-License-Identifier: MIT */
/* tests/golden/module.c -- decoders as modules and the engine are two programs for one model: a file that either
 * writes, the other computes with the same logits. */
#include "engine/engine.h"
#include "unit/model/tiny.h"

#include <quern/autograd.h>
#include <quern/nn.h>
#include <quern/ops.h>

enum { N = 24, VOCAB = 300 };

static const qn_synth_options shapes[] = {
    {.n_layer = 2,
     .n_embd = 64,
     .n_head = 4,
     .n_kv_head = 2,
     .n_ff = 96,
     .n_vocab = VOCAB,
     .n_ctx = 64,
     .type = "F32",
     .seed = 3},
    {.n_layer = 1,
     .n_embd = 48,
     .n_head = 2,
     .n_ff = 64,
     .n_vocab = VOCAB,
     .n_ctx = 64,
     .type = "F32",
     .seed = 5,
     .tied = true,
     .n_embd_head = 32,
     .rope_base = 5e5f},
    {.n_layer = 2,
     .n_embd = 64,
     .n_head = 4,
     .n_kv_head = 2,
     .n_ff = 96,
     .n_vocab = VOCAB,
     .n_ctx = 64,
     .type = "Q8_0",
     .seed = 7},
    {.arch = "qwen2",
     .n_layer = 2,
     .n_embd = 64,
     .n_head = 4,
     .n_kv_head = 2,
     .n_ff = 96,
     .n_vocab = VOCAB,
     .n_ctx = 64,
     .type = "F32",
     .seed = 9},
    {.arch = "qwen3",
     .n_layer = 2,
     .n_embd = 64,
     .n_head = 4,
     .n_kv_head = 2,
     .n_ff = 96,
     .n_vocab = VOCAB,
     .n_ctx = 64,
     .type = "F32",
     .seed = 11,
     .n_embd_head = 24,
     .tied = true},
};

static void story(qn_token *tokens)
{
    for (int i = 0; i < N; i++) tokens[i] = (qn_token)((i * 7919 + i * i * 31 + 5) % VOCAB);
}

/* Logits of all N tokens by the engine, [N, VOCAB], or an encoder's hidden states, [N, n_embd], the rest 0. */
static void by_engine(const char *path, float *out)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_engine_info info;
    qn_token tokens[N];
    qn_batch_item items[N];
    story(tokens);
    for (int i = 0; i < N; i++) items[i] = (qn_batch_item){tokens[i], i, 0, true};
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, err));
    qn_engine_get_info(e, &info);
    const qn_session_options options = {
        .n_ctx = 64, .n_logits = N, .kv_type = QN_DTYPE_F32, .kv_type_set = true, .embeddings = info.encoder};
    MUST(qn_session_create(e, &options, &s, err));
    memset(out, 0, N * VOCAB * sizeof *out);
    if (info.encoder) {
        const qn_embedding_text text = {tokens, N};
        MUST(qn_session_embeddings(s, &text, 1, &(qn_embedding_options){.pooling = QN_POOLING_none}, out, err));
    } else {
        MUST(qn_session_decode(s, items, N, err));
        for (int i = 0; i < N; i++) memcpy(out + i * VOCAB, qn_session_logits(s, i), VOCAB * sizeof *out);
    }
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void need(qn_context *c, const void *p)
{
    if (p == NULL) fail_msg("%s", qn_context_error(c)->text);
}

static void expect_close(const float *a, const float *b, double bound)
{
    double largest = 0, off = 0;
    for (int i = 0; i < N * VOCAB; i++) {
        largest = fmax(largest, fabs(b[i]));
        off = fmax(off, fabs((double)a[i] - b[i]));
    }
    printf("logits up to %g, farthest off %g\n", largest, off);
    assert_true(largest > 0.01 && off <= bound * largest);
}

static void add_vocabulary(void *file, qn_gguf_writer *w) { qn_gguf_write_kvs(w, file, "tokenizer."); }

/* A file as a module, by Llama's options or as it is. */
static qn_module *module_of(qn_context *c, const qn_gguf *file, bool by_options)
{
    qn_llama_options o;
    if (!by_options) return qn_nn_decoder(c, &(qn_decoder_options){.file = file});
    MUST(qn_llama_options_read(file, &o, err));
    return qn_nn_llama(c, &o);
}

/* With a cache: first 9 tokens, then one at a time. */
static void in_steps(qn_context *c, qn_module *m, qn_tensor *x, const qn_token *tokens, const float *have)
{
    static float again[N * VOCAB];
    qn_kv_cache *kv = qn_decoder_cache(m, 1, 40);
    need(c, kv);
    qn_metrics before = {0}, after;
    for (int at = 0; at < N; at += at == 0 ? 9 : 1) {
        if (at == 11) qn_metrics_snapshot(&before); /* two steps have shown what a step is */
        need(c, qn_scope_begin(c) == QN_OK ? c : NULL);
        const int n = at == 0 ? 9 : 1;
        qn_tensor *part = qn_decoder_decode(m, qn_from_data(c, tokens + at, qn_shape_of(1, n), QN_DTYPE_I32), kv);
        need(c, part);
        assert_int_equal(qn_to_host(part, again + at * VOCAB, (size_t)n * VOCAB * sizeof *again), QN_OK);
        (void)qn_scope_end(c, NULL);
    }
    qn_metrics_snapshot(&after);
    expect_close(again, have, 1e-5);
    assert_int_equal(qn_kv_cache_length(kv), N);
    assert_int_equal(after.plan_cache_misses, before.plan_cache_misses);
    assert_int_equal(after.allocs, before.allocs);
    /* back to 20, and the same tokens again */
    qn_kv_cache_truncate(kv, 20);
    qn_tensor *y = qn_decoder_decode(m, qn_narrow(x, 1, 20, 4), kv);
    need(c, y);
    assert_int_equal(qn_to_host(y, again + 20 * VOCAB, 4 * VOCAB * sizeof *again), QN_OK);
    expect_close(again, have, 1e-5);
    assert_null(qn_decoder_decode(m, x, kv));
    assert_non_null(strstr(qn_context_error(c)->text, "kv_cache: 24 of 40 positions are taken, 24 more do not fit"));
    assert_int_equal(qn_kv_cache_length(kv), 24);
    qn_context_clear(c);
    qn_kv_cache_destroy(kv);
}

static bool sees_ahead(const char *path)
{
    qn_engine *e = NULL;
    MUST(qn_engine_open(path, NULL, &e, err));
    const bool ahead = e->model->sees_ahead;
    qn_engine_close(e);
    return ahead;
}

/* A file by the engine, by the module, and by the engine again from what the module saved. */
static void both_ways(const char *path, bool by_options)
{
    qn_gguf *file = NULL;
    qn_context *c = NULL;
    MUST(qn_gguf_open(path, NULL, &file, err));
    MUST(qn_context_create(NULL, &c, err));
    qn_module *m = module_of(c, file, by_options);
    need(c, m);
    MUST(qn_module_load(m, path, &(qn_load_options){.as_stored = true}, err));

    static float want[N * VOCAB], have[N * VOCAB], again[N * VOCAB];
    qn_token tokens[N];
    story(tokens);
    by_engine(path, want);
    qn_set_grad_enabled(c, false);
    qn_tensor *x = qn_from_data(c, tokens, qn_shape_of(1, N), QN_DTYPE_I32), *y = qn_module_forward(m, x);
    need(c, y);
    memset(have, 0, sizeof have);
    assert_int_equal(qn_to_host(y, have, (size_t)qn_numel(y) * sizeof *have), QN_OK);
    expect_close(have, want, 2e-5);

    if (qn_dim(y, 2) == VOCAB && !sees_ahead(path)) in_steps(c, m, x, tokens, have);

    /* out again: the engine computes with it to the bit what it did */
    path = tiny_path("saved.gguf");
    MUST(qn_module_save(m, path, &(qn_save_options){.metadata = add_vocabulary, .arg = file}, err));
    by_engine(path, again);
    assert_memory_equal(again, want, sizeof want);
    qn_module_destroy(m);
    qn_context_destroy(c);
    qn_gguf_close(file);
}

static const char *synthesized(int number)
{
    char name[32];
    snprintf(name, sizeof name, "made-%d.gguf", number);
    const char *path = tiny_path(name);
    MUST(qn_synth(path, &shapes[number], NULL, NULL, err));
    return path;
}

static void untied(void **state)
{
    (void)state;
    both_ways(synthesized(0), true);
}
static void tied(void **state)
{
    (void)state;
    both_ways(synthesized(1), true);
}
static void packed(void **state)
{
    (void)state;
    both_ways(synthesized(2), true);
}
static void qwen2(void **state)
{
    (void)state;
    both_ways(synthesized(3), true);
}
static void qwen3(void **state)
{
    (void)state;
    both_ways(synthesized(4), true);
}

/* ---- every architecture, from its file alone ---- */

/* What a window, a softcap or a factor may be, and that no layer is a mixture, where the architecture has such a key.
 */
static const char *const wishes[] = {
    "attention.sliding_window=5",
    "attn_logit_softcapping=20",
    "final_logit_softcapping=10",
    "attention.clamp_kqv=0.5",
    "logit_scale=0.5",
    "residual_scale=0.5",
    "embedding_scale=3",
    "leading_dense_block_count=2",
};

/* Is it a module? Not a mixture, whose products have no gradient, and not where layers are run again. */
static bool learns(const char *path)
{
    qn_gguf *file = NULL;
    qn_model *m = NULL;
    MUST(qn_gguf_open(path, NULL, &file, err));
    MUST(qn__model_load(file, 0, &m, err));
    bool dense = m->hp.n_loops <= 1;
    for (uint32_t i = 0; i < m->hp.n_layer; i++) dense = dense && !m->layers[i].ffn_gate_inp;
    qn__model_free(m);
    qn_gguf_close(file);
    return dense;
}

static void every_architecture(void **state)
{
    (void)state;
    const char *path = tiny_path("arch.gguf");
    int n_archs = 0;
    for (int a = 0; a < TINY_N_ARCHS; a++) {
        const qn_arch *arch = qn__arch_find(tiny_archs[a]);
        const char *set[sizeof wishes / sizeof *wishes + 1] = {0};
        int n = 0;
        for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++) {
            qn_hparams hp = {0};
            if (qn__hparam_parse(arch, wishes[k], &hp, NULL) == QN_OK) set[n++] = wishes[k];
        }
        printf("%s: %d\n", arch->name, n);
        MUST(qn_synth(path,
                      &(qn_synth_options){.arch = arch->name,
                                          .n_layer = 2,
                                          .n_embd = 48,
                                          .n_head = 4,
                                          .n_kv_head = 2,
                                          .n_ff = 64,
                                          .n_vocab = VOCAB,
                                          .n_ctx = 64,
                                          .type = "F32",
                                          .seed = 3 + (uint64_t)a,
                                          .spread = 0.1f,
                                          .optional = a % 2,
                                          .set = set},
                      NULL, NULL, err));
        if (!learns(path)) continue;
        n_archs++;
        both_ways(path, false);
    }
    assert_true(n_archs >= 50);
}

/* ---- what no synthetic model has: biases everywhere, RoPE scaled in each way ---- */

static bool fill(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    qn_context *c = arg;
    if (strstr(path, ".bias") != NULL) need(c, qn_init_normal_(t, 0, 0.3));
    if (kind == QN_NAMED_buffer) need(c, qn_copy_(t, qn_linspace(c, 1, 4, qn_numel(t), QN_DTYPE_F32)));
    return true;
}

static void scaled(void **state)
{
    (void)state;
    const qn_llama_options base = {.n_vocab = VOCAB,
                                   .n_ctx = 64,
                                   .n_embd = 64,
                                   .n_layer = 2,
                                   .n_head = 4,
                                   .n_kv_head = 2,
                                   .n_ff = 96,
                                   .deviation = 0.1};
    qn_gguf *vocabulary = NULL;
    MUST(qn_gguf_open(synthesized(0), NULL, &vocabulary, err));
    for (int what = 0; what < 5; what++) {
        qn_llama_options o = base;
        if (what == 0 || what == 4) o.qkv_bias = o.out_bias = o.ff_bias = true;
        if (what == 1) o.rope_factor = 4;
        if (what == 2) o.yarn = true, o.rope_factor = 4, o.n_ctx_orig = 16, o.rope_attn_factor = 0.9;
        if (what >= 3) o.rope_factors = true;
        if (what == 4) o.arch = "qwen2", o.rope_factor = 2;
        qn_context *c = NULL;
        MUST(qn_context_create(NULL, &c, err));
        qn_manual_seed(c, 17 + (uint64_t)what);
        qn_module *m = qn_nn_llama(c, &o);
        need(c, m);
        assert_int_equal(qn_module_each_tensor(m, fill, c), QN_OK);
        const char *path = tiny_path("scaled.gguf");
        MUST(qn_module_save(m, path, &(qn_save_options){.metadata = add_vocabulary, .arg = vocabulary}, err));
        qn_module_destroy(m);
        qn_context_destroy(c);
        qn_gguf *saved = NULL;
        qn_llama_options back;
        MUST(qn_gguf_open(path, NULL, &saved, err));
        MUST(qn_llama_options_read(saved, &back, err));
        qn_gguf_close(saved);
        assert_string_equal(back.arch, o.arch ? o.arch : "llama");
        assert_true(back.qkv_bias == o.qkv_bias && back.out_bias == o.out_bias && back.ff_bias == o.ff_bias);
        assert_true(back.yarn == o.yarn && back.rope_factors == o.rope_factors && back.rope_factor == o.rope_factor);
        assert_true(back.n_ctx_orig == (o.rope_factor > 0 ? o.yarn ? 16 : 64 : 0));
        both_ways(path, true);
    }
    qn_gguf_close(vocabulary);
}

/* ---- what no module can be made of ---- */

static void refused(const char *arch, const char *scaling, double factor, const char *words)
{
    const char *path = tiny_path("refused.gguf");
    qn_gguf_writer *w = NULL;
    qn_gguf *file = NULL;
    qn_llama_options o;
    qn_error why = {0};
    MUST(qn_gguf_writer_create(path, &w, err));
    qn_gguf_write_str(w, "general.architecture", arch);
    if (scaling != NULL) qn_gguf_write_str(w, "llama.rope.scaling.type", scaling);
    qn_gguf_write_f32(w, "llama.rope.scaling.factor", (float)factor);
    qn_gguf_write_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    for (const char *const *key =
             (const char *const[]){"context_length", "embedding_length", "block_count", "feed_forward_length",
                                   "attention.head_count", "vocab_size", NULL};
         *key != NULL; key++) {
        char full[64];
        snprintf(full, sizeof full, "llama.%s", *key);
        qn_gguf_write_u32(w, full, 2 + 2 * (key[0][0] == 'e'));
    }
    MUST(qn_gguf_writer_commit(w, err));
    MUST(qn_gguf_open(path, NULL, &file, err));
    qn_context *c = NULL;
    MUST(qn_context_create(NULL, &c, err));
    assert_null(qn_nn_decoder(c, &(qn_decoder_options){.file = file}));
    if (strstr(qn_context_error(c)->text, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", qn_context_error(c)->text, words);
    qn_context_destroy(c);
    assert_int_not_equal(qn_llama_options_read(file, &o, &why), QN_OK);
    if (strstr(why.text, words) == NULL) fail_msg("\"%s\" lacks \"%s\"", why.text, words);
    qn_gguf_close(file);
}

static void refusals(void **state)
{
    (void)state;
    refused("gpt9", NULL, 1, "architecture \"gpt9\" is not supported");
    refused("llama", "longrope", 1, "llama.rope.scaling.type is \"longrope\"; one of the words none linear yarn");
    refused("llama", "yarn", 0.5, "llama.rope.scaling.factor is 0.5; YaRN stretches a context");
    refused("llama", "linear", -3, " is -3; from 0 to");
    refused("llama", NULL, INFINITY, "llama.rope.scaling.factor at offset");
    refused("llama", NULL, 1, "tensor token_embd.weight is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(untied),   cmocka_unit_test(tied),
                                       cmocka_unit_test(packed),   cmocka_unit_test(qwen2),
                                       cmocka_unit_test(qwen3),    cmocka_unit_test(scaled),
                                       cmocka_unit_test(refusals), cmocka_unit_test(every_architecture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
