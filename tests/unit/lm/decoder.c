/* SPDX-License-Identifier: MIT */
/* tests/unit/lm/decoder.c -- decoders of every architecture as modules: every parameter has a gradient, keeping less
 * for backward changes no bit of it, and what options cannot ask for is named. What they compute is under test in
 * tests/golden/module.c. */
#include "unit/nn/rig.h"

#include <quern/autograd.h>
#include <quern/engine.h>
#include <quern/nn.h>

enum { N = 6, VOCAB = 20, MAX_PARAMS = 96 };

static qn_decoder_options tiny(const char *arch)
{
    return (qn_decoder_options){.arch = arch,
                                .n_vocab = VOCAB,
                                .n_ctx = 16,
                                .n_embd = 16,
                                .n_layer = 2,
                                .n_head = 2,
                                .n_kv_head = 1,
                                .n_ff = 24,
                                .deviation = 0.3};
}

static qn_module *module_of(qn_context *c, const qn_decoder_options *o)
{
    qn_manual_seed(c, 4);
    qn_module *m = qn_nn_decoder(c, o);
    GOOD(c, m);
    return m;
}

/* What has no gradient is said when the module is made. */
static bool refused_as_mixture(qn_context *c, const char *arch)
{
    char text[128];
    qn_decoder_options o = tiny(arch);
    qn_module *m = qn_nn_decoder(c, &o);
    snprintf(text, sizeof text, "Decoder: this %s is a mixture of experts; linear_experts has no gradient", arch);
    if (!m && strcmp(qn_context_error(c)->text, text) != 0) fail_msg("%s: %s", arch, qn_context_error(c)->text);
    qn_context_clear(c);
    qn_module_destroy(m);
    return !m;
}

static void backward(qn_context *c, qn_module *m)
{
    const int32_t ids[2 * N] = {1, 2, 3, 4, 5, 6, 9, 8, 7, 3, 2, 1}, next[2 * N] = {2, 3, 4, 5, 6, 7, 8, 7, 6, 2, 1, 0};
    qn_tensor *x = qn_from_data(c, ids, qn_shape_of(2, N), QN_DTYPE_I32);
    qn_tensor *y = qn_from_data(c, next, qn_shape_of(2 * N), QN_DTYPE_I32);
    qn_tensor *logits = qn_module_forward(m, x);
    GOOD(c, logits);
    if (qn_dim(logits, 2) == 16) { /* an encoder's hidden states */
        OK(c, qn_backward(qn_sum(qn_mul(logits, numbers(c, qn_shape_of(2, N, 16), 7)), QN_ALL, false)));
        return;
    }
    SHAPE(logits, 2, N, VOCAB);
    OK(c, qn_backward(qn_cross_entropy(qn_view_as(logits, qn_shape_of(2 * N, VOCAB)), y, NULL)));
}

static const char *current;
static bool learns(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    if (kind == QN_NAMED_buffer) return true;
    qn_tensor *g = qn_grad(t);
    if (!g) fail_msg("%s: %s has no gradient", current, path);
    /* a bias of keys moves all scores of a query alike */
    const double size = qn_item(qn_norm(g, 2, QN_ALL, false));
    if (!(size > 0 || strstr(path, "attn_k.bias"))) fail_msg("%s: the gradient of %s is %g", current, path, size);
    ++*(int *)arg;
    return true;
}

static void every_architecture(void **state)
{
    (void)state;
    int n_archs = 0;
    for (const char *const *name = qn_architectures(); *name; name++) {
        qn_context *c = context_new();
        if (refused_as_mixture(c, *name)) {
            context_end(c);
            continue;
        }
        n_archs++;
        qn_decoder_options o = tiny(current = *name);
        qn_module *m = module_of(c, &o);
        backward(c, m);
        int n = 0;
        OK(c, qn_module_each_tensor(m, learns, &n));
        assert_true(n >= 10);
        o.grad_checkpointing = true;
        qn_module *again = module_of(c, &o);
        backward(c, again);
        qn_tensor *a[MAX_PARAMS], *b[MAX_PARAMS];
        assert_int_equal(qn_module_parameters(m, a, MAX_PARAMS), n);
        assert_int_equal(qn_module_parameters(again, b, MAX_PARAMS), n);
        for (int i = 0; i < n; i++) {
            if (!same_values(qn_grad(a[i]), qn_grad(b[i]))) fail_msg("%s: another gradient %d", *name, i);
        }
        qn_module_destroy(again);
        qn_module_destroy(m);
        context_end(c);
    }
    assert_true(n_archs >= 50);
}

static bool note(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    (void)t;
    snprintf((char *)arg + strlen(arg), 2048 - strlen(arg), "%s%s ", path, kind == QN_NAMED_buffer ? "!" : "");
    return true;
}

/* Tensors as files name them; those that may lack when asked for. */
static void names(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_decoder_options o = tiny("phi3");
    o.n_layer = 1, o.tied = true;
    char text[2048] = "";
    qn_module *m = module_of(c, &o);
    OK(c, qn_module_each_tensor(m, note, text));
    assert_string_equal(text, "token_embd.weight blk.0.attn_norm.weight blk.0.attn_q.weight blk.0.attn_k.weight "
                              "blk.0.attn_v.weight blk.0.attn_output.weight blk.0.ffn_norm.weight blk.0.ffn_up.weight "
                              "blk.0.ffn_down.weight output_norm.weight ");
    SHAPE(qn_module_tensor(m, "blk.0.ffn_up.weight"), 48, 16);
    REFUSED(c, qn_llama_decode(qn_module_find(m, "blk"), qn_ones(c, qn_shape_of(1, 1), F32), (qn_kv_cache *)m),
            "a Llama expected, this is a ModuleList");
    qn_module_destroy(m);
    o.optional =
        (const char *const[]){"rope_factors_long.weight", "rope_factors_short.weight", "attn_output.bias", NULL};
    m = module_of(c, &o);
    text[0] = '\0';
    OK(c, qn_module_each_tensor(m, note, text));
    assert_non_null(strstr(text, "blk.0.attn_output.weight blk.0.attn_output.bias blk.0.ffn_norm"));
    assert_non_null(strstr(text, "output_norm.weight rope_factors_long.weight! rope_factors_short.weight! "));
    SHAPE(qn_module_tensor(m, "rope_factors_long.weight"), 4);
    qn_module_destroy(m);

    o = tiny("gpt2");
    m = module_of(c, &o);
    SHAPE(qn_module_tensor(m, "position_embd.weight"), 16, 16);
    SHAPE(qn_module_tensor(m, "blk.1.attn_qkv.bias"), 32);
    char *listing = qn_module_to_string(m);
    assert_non_null(strstr(listing, "Decoder(gpt2, vocab=20, ctx=16, heads=2, kv_heads=1"));
    assert_non_null(strstr(listing, "attn_norm): LayerNorm("));
    assert_non_null(strstr(listing, "position_embd): Embedding("));
    qn_free(listing);
    qn_module_destroy(m);
    context_end(c);
}

static void refusals(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_decoder_options o = tiny("gemma2");
    o.optional = (const char *const[]){"attn_sinks.weight", NULL};
    REFUSED(c, qn_nn_decoder(c, &o), "Decoder: gemma2 has no tensor \"attn_sinks.weight\"");
    o = tiny("gemma2");
    o.set = (const char *const[]){"attention.sliding_window=4", "expert_used=3", NULL};
    REFUSED(c, qn_nn_decoder(c, &o), "Decoder: gemma2 has no hyperparameter \"expert_used\"");
    o.set = (const char *const[]){"attention.sliding_window", NULL};
    REFUSED(c, qn_nn_decoder(c, &o), "\"attention.sliding_window\" is no hyperparameter; KEY=VALUE");
    o = tiny("gemma2"), o.n_vocab = 0;
    REFUSED(c, qn_nn_decoder(c, &o), "n_vocab is 0; from 1 to");
    o = tiny("gemma2"), o.n_layer = 5000;
    REFUSED(c, qn_nn_decoder(c, &o), "block_count is 5000; from 1 to 4096");
    o = tiny("gemma2"), o.n_ctx = 0;
    REFUSED(c, qn_nn_decoder(c, &o), "context_length is 0; from 1 to");
    o = tiny("gemma2"), o.deviation = -1;
    REFUSED(c, qn_nn_decoder(c, &o), "the deviation of first weights is -1");
    o = tiny("llama");
    o.set = (const char *const[]){"expert_count=4", "expert_used_count=2", NULL};
    REFUSED(c, qn_nn_decoder(c, &o), "Decoder: this llama is a mixture of experts; linear_experts has no gradient");
    o = tiny("gemma2");
    qn_module *m = module_of(c, &o);
    REFUSED(c, qn_module_forward(m, qn_ones(c, qn_shape_of(3), QN_DTYPE_I32)), "tokens are not [batch,n]");
    REFUSED(c, qn_module_forward(qn_module_find(m, "blk.1"), qn_ones(c, qn_shape_of(1, 2, 15), F32)),
            "module blk.1 DecoderBlock: the input is not [batch,n,16]");
    qn_module_destroy(m);
    o.set = (const char *const[]){"attention.causal=0", NULL};
    m = module_of(c, &o);
    SHAPE(qn_module_forward(m, qn_ones(c, qn_shape_of(1, 3), QN_DTYPE_I32)), 1, 3, VOCAB);
    REFUSED(c, qn_decoder_cache(m, 1, 0), "tokens see what comes after them");
    REFUSED(c, qn_decoder_decode(m, qn_ones(c, qn_shape_of(1, 3), QN_DTYPE_I32), NULL), "decode: the cache is NULL");
    qn_module_destroy(m);
    assert_null(qn_nn_decoder(c, NULL));
    assert_null(qn_nn_decoder(NULL, &o));
    assert_null(qn_decoder_cache(NULL, 1, 1));
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_architecture), cmocka_unit_test(names),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
