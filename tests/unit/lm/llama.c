/* SPDX-License-Identifier: MIT */
/* tests/unit/lm/llama.c -- what a trainer counts on: names, first values, and a step that, once it has been seen,
 * compiles and allocates nothing, in every precision. What it computes is under test in parity.c and
 * tests/golden/module.c. */
#include "unit/nn/rig.h"

#include <quern/autograd.h>
#include <quern/optim.h>

#include <unistd.h>

static const qn_llama_options tiny = {
    .n_vocab = 40, .n_ctx = 16, .n_embd = 16, .n_layer = 2, .n_head = 4, .n_kv_head = 2, .n_ff = 24};

typedef struct paths {
    char text[2048];
    double embd, down, norm;
} paths;
static double deviation_of(qn_tensor *t) { return qn_item(qn_std(qn_detach(t), QN_ALL, 0, false)); }
static bool note(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    paths *p = arg;
    (void)kind;
    snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%s ", path);
    if (strcmp(path, "token_embd.weight") == 0) p->embd = deviation_of(t);
    if (strcmp(path, "blk.1.ffn_down.weight") == 0) p->down = deviation_of(t);
    if (strcmp(path, "blk.1.ffn_norm.weight") == 0) p->norm = qn_item(qn_amin(qn_detach(t), QN_ALL, false));
    return true;
}

static void names(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *m = qn_nn_llama(c, &tiny);
    GOOD(c, m);
    paths p = {0};
    OK(c, qn_module_each_tensor(m, note, &p));
#define BLOCK(i) \
    "blk." #i ".attn_norm.weight blk." #i ".attn_q.weight blk." #i ".attn_k.weight blk." #i ".attn_v.weight blk." #i \
    ".attn_output.weight " \
    "blk." #i ".ffn_norm.weight blk." #i ".ffn_gate.weight blk." #i ".ffn_up.weight blk." #i ".ffn_down.weight "
    assert_string_equal(p.text, "token_embd.weight " BLOCK(0) BLOCK(1) "output_norm.weight output.weight ");
    assert_true(fabs(p.embd - 0.02) < 0.002 && fabs(p.down - 0.01) < 0.0015 && p.norm == 1);
    assert_int_equal(qn_module_n_elements(m, true),
                     2 * (16 * 16 * 2 + 8 * 16 * 2 + 3 * 16 * 24 + 2 * 16) + 2 * 40 * 16 + 16);
    SHAPE(qn_module_tensor(m, "blk.1.attn_k.weight"), 8, 16);

    qn_tensor *x = qn_from_data(c, (int32_t[]){1, 2, 3}, qn_shape_of(1, 3), QN_DTYPE_I32);
    SHAPE(qn_module_forward(m, x), 1, 3, 40);
    REFUSED(c, qn_module_forward(m, qn_ones(c, qn_shape_of(1, 3), F32)),
            "module Llama: index_select: ids is F32, I64 or I32 expected");
    qn_kv_cache *kv = qn_llama_cache(m, 1, 4);
    GOOD(c, kv);
    SHAPE(qn_llama_decode(m, x, kv), 1, 3, 40);
    REFUSED(c, qn_llama_decode(m, x, kv), "3 of 4 positions are taken, 3 more");
    assert_int_equal(qn_kv_cache_length(kv), 3);
    qn_kv_cache_destroy(kv);
    qn_module *other = qn_module_retain(qn_module_find(m, "blk.1"));
    qn_module_destroy(m);
    REFUSED(c, qn_module_forward(other, qn_ones(c, qn_shape_of(1, 3, 16), F32)),
            "the model that this layer belongs to is gone");
    REFUSED(c, qn_llama_decode(other, x, (qn_kv_cache *)other), "a Llama expected, this is a LlamaBlock");
    qn_module_destroy(other);
    qn_llama_options o = tiny;
    o.n_kv_head = 3;
    REFUSED(c, qn_nn_llama(c, &o),
            "Llama: llama.attention.head_count 4 is not a multiple of head_count_kv 3 in layer 0");
    o = tiny, o.n_ff = 0;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: feed_forward_length is 0; from 1 to");
    o = tiny, o.n_head = 3;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: llama.embedding_length 16 is not a multiple of attention.head_count 3");
    o = tiny, o.arch = "gpt9";
    REFUSED(c, qn_nn_llama(c, &o), "Llama: architecture \"gpt9\" is not known");
    o = tiny, o.arch = "gpt2", o.ff_bias = true;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: gpt2 has no tensor \"ffn_gate.bias\"");
    o = tiny, o.arch = "gpt2", o.rope_factor = 2;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: gpt2 has no hyperparameter \"rope.scaling.type\"");
    o = tiny, o.yarn = true, o.rope_factor = 0.5;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: llama.rope.scaling.factor is 0.5; YaRN");
    o = tiny, o.rope_factor = NAN;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: rope.scaling.factor is \"nan\"");
    o = tiny, o.dropout_p = 2;
    REFUSED(c, qn_nn_llama(c, &o), "Llama: dropout is 2; from 0 to 1");
    o = tiny, o.arch = "qwen3", o.qkv_bias = o.rope_factors = true;
    m = qn_nn_llama(c, &o);
    GOOD(c, m);
    EXPECT(qn_module_tensor(m, "rope_freqs.weight"), 1, 1);
    EXPECT(qn_module_tensor(m, "blk.1.attn_k.bias"), 0, 0, 0, 0, 0, 0, 0, 0);
    EXPECT(qn_module_tensor(m, "blk.0.attn_q_norm.weight"), 1, 1, 1, 1);
    assert_false(qn_requires_grad(qn_module_tensor(m, "rope_freqs.weight")));
    REFUSED(c, qn_module_forward(qn_module_find(m, "rope_freqs"), x), "compute nothing");
    qn_tensor *loss = qn_sum(qn_module_forward(m, x), QN_ALL, false);
    GOOD(c, loss);
    OK(c, qn_backward(loss));
    SHAPE(qn_grad(qn_module_tensor(m, "blk.1.attn_k.bias")), 8);
    assert_true(qn_item(qn_norm(qn_grad(qn_module_tensor(m, "blk.0.attn_v.bias")), 2, QN_ALL, false)) > 0);
    assert_true(qn_item(qn_norm(qn_grad(qn_module_tensor(m, "blk.0.attn_q_norm.weight")), 2, QN_ALL, false)) > 0);
    qn_module_destroy(m);
    context_end(c);
}

/* Learns to count: the loss falls to nearly nothing. */
static void trains(void **state)
{
    (void)state;
    enum { BATCH = 4, N = 12, STEPS = 60 };
    qn_context *c = context_new();
    qn_llama_options o = tiny;
    o.tied = true;
    o.dropout_p = 0.05;
    qn_module *m = qn_nn_llama(c, &o);
    GOOD(c, m);
    qn_tensor *params[32], *moment[32];
    const int64_t n = qn_module_parameters(m, params, 32);
    assert_int_equal(n, 20);
    for (int64_t i = 0; i < n; i++) moment[i] = qn_keep(qn_zeros_like(params[i]));
    OK(c, qn_eval_all(c));
    double first = 0, last = 0;
    qn_metrics before = {0}, after;
    for (int step = 0; step < STEPS; step++) {
        if (step == 1) qn_metrics_snapshot(&before);
        int64_t in[BATCH * N], out[BATCH * N];
        for (int i = 0; i < BATCH * N; i++) {
            in[i] = (i / N * 7 + i % N + step * 3) % 40;
            out[i] = (in[i] + 1) % 40;
        }
        OK(c, qn_scope_begin(c));
        qn_tensor *x = qn_from_data(c, in, qn_shape_of(BATCH, N), QN_DTYPE_I64),
                  *y = qn_from_data(c, out, qn_shape_of(BATCH * N), QN_DTYPE_I64);
        qn_tensor *loss = qn_cross_entropy(qn_view_as(qn_module_forward(m, x), qn_shape_of(BATCH * N, 40)), y, NULL);
        GOOD(c, loss);
        OK(c, qn_backward(loss));
        const bool was = qn_set_grad_enabled(c, false);
        for (int64_t i = 0; i < n; i++) { /* signs of averaged gradients: enough to learn with */
            GOOD(c, qn_lerp_number(moment[i], qn_grad(params[i]), 0.1));
            GOOD(c, qn_copy_(moment[i], qn_lerp_number(moment[i], qn_grad(params[i]), 0.1)));
            GOOD(c, qn_add_(params[i], qn_mul_number(qn_sign(moment[i]), -0.01)));
        }
        qn_set_grad_enabled(c, was);
        qn_module_zero_grad(m);
        loss = qn_scope_end(c, loss);
        last = qn_item(loss);
        qn_release(loss);
        if (step == 0) first = last;
    }
    qn_metrics_snapshot(&after);
    printf("loss %g -> %g\n", first, last);
    assert_true(first > 3.4 && last < 0.5);
    assert_int_equal(after.plan_cache_misses, before.plan_cache_misses);
    assert_int_equal(after.allocs, before.allocs);
    for (int64_t i = 0; i < n; i++) qn_release(moment[i]);
    qn_module_destroy(m);
    context_end(c);
}

/* ---- weights of 16 bits, with masters in F32 ---- */

enum { MIXED_BATCH = 4, MIXED_N = 12, MIXED_STEPS = 40 };

/* First values as tests/oracle/mixed.py has them. */
static bool mixed_value(void *arg, const char *path, qn_tensor *t, qn_named_kind kind)
{
    (void)kind;
    const int rows = qn_rank(t);
    int layer = 0, s = strcmp(path, "output.weight") == 0 ? 2 : 1;
    static const char *const matrices[] = {"attn_q",   "attn_k", "attn_v",  "attn_output",
                                           "ffn_gate", "ffn_up", "ffn_down"};
    for (int i = 0; i < 7; i++) {
        if (sscanf(path, "blk.%d.", &layer) == 1 && strstr(path, matrices[i]) != NULL) s = 10 * (layer + 1) + i;
    }
    const bool was = qn_set_grad_enabled(arg, false);
    qn_tensor *value = rows < 2 ? qn_ones_like(t) : qn_mul_number(numbers(arg, qn_shape_get(t), s), 0.3);
    GOOD(arg, qn_copy_(t, value));
    qn_set_grad_enabled(arg, was);
    return true;
}

static qn_tensor *counting_loss(qn_context *c, qn_module *m, int step)
{
    int64_t in[MIXED_BATCH * MIXED_N], out[MIXED_BATCH * MIXED_N];
    for (int i = 0; i < MIXED_BATCH * MIXED_N; i++) {
        in[i] = (i / MIXED_N * 7 + i % MIXED_N + step * 3) % 40;
        out[i] = (in[i] + 1) % 40;
    }
    qn_tensor *x = qn_from_data(c, in, qn_shape_of(MIXED_BATCH, MIXED_N), QN_DTYPE_I64);
    qn_tensor *logits = qn_to(qn_view_as(qn_module_forward(m, x), qn_shape_of(MIXED_BATCH * MIXED_N, 40)), F32);
    return qn_cross_entropy(logits, qn_from_data(c, out, qn_shape_of(MIXED_BATCH * MIXED_N), QN_DTYPE_I64), NULL);
}

/* One training: its losses, which follow PyTorch's. In F16 the loss is scaled. */
static void mixed_case(qn_dtype dtype, const double *want, double tolerance)
{
    qn_context *c = context_new();
    qn_module *m = qn_nn_llama(c, &tiny);
    GOOD(c, m);
    OK(c, qn_module_each_tensor(m, mixed_value, c));
    OK(c, qn_module_to(m, dtype));
    qn_tensor *params[32];
    qn_optimizer *o = NULL;
    qn_error err = {0};
    const int n = (int)qn_module_parameters(m, params, 32);
    const qn_adam_options options = {.lr = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .weight_decay = 0.1};
    if (qn_adamw_create(&options, params, n, &o, &err) != QN_OK) fail_msg("%s", err.text);
    qn_loss_scaler scaler = {.scale = 1024};
    qn_metrics first = {0}, last;
    double most = 0;
    for (int step = 0; step < MIXED_STEPS; step++) {
        OK(c, qn_scope_begin(c));
        qn_tensor *loss = counting_loss(c, m, step);
        GOOD(c, loss);
        assert_int_equal(qn_dtype_of(qn_module_tensor(m, "blk.0.attn_q.weight")), dtype);
        OK(c, qn_backward(dtype == QN_DTYPE_F16 ? qn_loss_scaler_scale(&scaler, loss) : loss));
        if (dtype == QN_DTYPE_F16) OK(c, qn_loss_scaler_unscale(&scaler, o));
        GOOD(c, qn_optimizer_clip(o, 1));
        OK(c, dtype == QN_DTYPE_F16 ? qn_loss_scaler_step(&scaler, o, NULL) : qn_optimizer_step(o));
        qn_optimizer_zero_grad(o);
        loss = qn_scope_end(c, loss);
        const double have = qn_item(loss);
        most = fmax(most, fabs(have - want[step]));
        qn_release(loss);
        if (step == 0) qn_metrics_snapshot(&first);
    }
    qn_metrics_snapshot(&last);
    printf("%s: losses within %.2g of PyTorch's\n", qn_dtype_get(dtype)->name, most);
    if (!(most <= tolerance))
        fail_msg("%s: a loss is %g from PyTorch's, at most %g expected", qn_dtype_get(dtype)->name, most, tolerance);
    assert_int_equal(last.plan_cache_misses, first.plan_cache_misses);
    assert_int_equal(last.allocs, first.allocs);
    qn_optimizer_destroy(o);
    qn_module_destroy(m);
    context_end(c);
}

#define VALUES(...) ((const double[MIXED_STEPS]){__VA_ARGS__})
/* in 1e-5; PyTorch's F16 and BF16 are 290 and 460 away from its F32 */
enum { TOLERANCE_F32 = 1, TOLERANCE_F16 = 300, TOLERANCE_BF16 = 600 };

static void mixed_precision(void **state)
{
    (void)state;
#define MIXED(dtype, losses) mixed_case(QN_DTYPE_##dtype, losses, TOLERANCE_##dtype * 1e-5);
#include "mixed_figures.inc"
#undef MIXED
}

/* Keys and values each enter the cache by one node, and the cache is not copied. */
static void check_kv_writes(qn_context *c)
{
    char *text = NULL;
    int n = 0;
    OK(c, qn_context_print_graph(c, QN_NEXT_RUN, QN_GRAPH_text, &text));
    for (const char *p = text; (p = strstr(p, " set_rows(")) != NULL; p++) n++;
    assert_int_equal(n, 2);
    assert_null(strstr(text, " index_add("));
    assert_null(strstr(text, " assign("));
    qn_free(text);
}

/* One attention module in steps, two sequences at once, against all at once. */
static void cached_attention(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *factors = qn_from_data(c, (float[]){1, 2}, qn_shape_of(2), F32);
    qn_module *m = qn_nn_mha(c, &(qn_mha_options){.embd = 16,
                                                  .heads = 4,
                                                  .kv_heads = 2,
                                                  .is_causal = true,
                                                  .bias = true,
                                                  .rope = &(qn_rope_options){.factors = factors}});
    GOOD(c, m);
    const qn_kv_options room = {.n_layers = 1, .batch = 2, .heads = 2, .head_dim = 4, .capacity = 9};
    qn_kv_cache *kv = qn_kv_cache_create(c, &room);
    GOOD(c, kv);
    qn_tensor *x = numbers(c, qn_shape_of(2, 9, 16), 1), *want = qn_detach(qn_module_forward(m, x));
    SHAPE(want, 2, 9, 16);
    OK(c, qn_eval_all(c));
    for (int at = 0, n; at < 9; at += n) {
        n = at == 0 ? 4 : at < 7 ? 3 : 2;
        qn_tensor *y = qn_mha_forward_cached(m, qn_narrow(x, 1, at, n), kv, 0);
        GOOD(c, y);
        qn_tensor *off = qn_amax(qn_abs(qn_sub(qn_detach(y), qn_narrow(want, 1, at, n))), QN_ALL, false);
        check_kv_writes(c);
        assert_true(qn_item(off) < 1e-6);
    }
    REFUSED(c, qn_mha_forward_cached(m, qn_narrow(x, 1, 0, 1), kv, 0), "9 of 9 positions are taken, 1 more");
    qn_kv_cache_truncate(kv, 0);
    REFUSED(c, qn_mha_forward_cached(m, qn_narrow(x, 1, 0, 1), kv, 1),
            "keys [2,1,2,4] and values [2,1,2,4] of layer 1 do not fit a cache of 1 layers");
    REFUSED(c, qn_mha_forward_cached(m, qn_narrow(qn_narrow(x, 0, 0, 1), 1, 0, 1), kv, 0), "that takes [2,1,2,4]");
    assert_int_equal(qn_kv_cache_length(kv), 0);
    qn_module *other = qn_nn_linear(c, 16, 16, true);
    REFUSED(c, qn_mha_forward_cached(other, qn_narrow(x, 1, 0, 1), kv, 0),
            "a MultiheadAttention expected, this is a Linear");
    assert_null(qn_mha_forward_cached(NULL, x, kv, 0));
    assert_null(qn_mha_forward_cached(m, x, NULL, 0));
    qn_module_destroy(other);
    qn_kv_cache_destroy(kv);
    REFUSED(c, qn_kv_cache_create(c, &(qn_kv_options){.n_layers = 1, .batch = 2, .heads = 2, .head_dim = 4}),
            "kv_cache: size 3 is 0");
    qn_module_destroy(m);
    REFUSED(c, qn_nn_mha(c, (&(qn_mha_options){.embd = 10, .heads = 4})), "10 elements, 4 heads");
    REFUSED(c, qn_nn_feed_forward(c, (&(qn_ffn_options){.dim = 4, .hidden = 6, .activation = "mish"})),
            "activation \"mish\" is not known");
    REFUSED(c, qn_nn_group_norm(c, 4, 6, 0, true), "6 channels do not divide into 4 groups");
    context_end(c);
}

static double furthest(qn_tensor *a, qn_tensor *b)
{
    qn_tensor *off = qn_abs(qn_sub(qn_to(qn_detach(a), QN_DTYPE_F64), qn_to(qn_detach(b), QN_DTYPE_F64)));
    return qn_item(qn_amax(off, QN_ALL, false));
}

/* Step by step as all at once, in each type; the cache of a run in F64 serves one in F32 afterwards. */
static void cached_in_every_type(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        double most;
    } types[] = {{F32, 1e-6}, {QN_DTYPE_F16, 2e-3}, {QN_DTYPE_BF16, 2e-2}, {QN_DTYPE_F64, 1e-14}, {F32, 1e-6}};
    qn_context *c = context_new();
    qn_manual_seed(c, 5);
    qn_module *m = qn_nn_mha(
        c, &(qn_mha_options){.embd = 16, .heads = 4, .kv_heads = 2, .is_causal = true, .rope = &(qn_rope_options){0}});
    qn_module *llama = qn_nn_llama(c, &tiny);
    const qn_kv_options room = {.n_layers = 1, .batch = 2, .heads = 2, .head_dim = 4, .capacity = 9};
    qn_kv_cache *kv = qn_kv_cache_create(c, &room), *llama_kv = qn_llama_cache(llama, 1, 9);
    qn_tensor *ids = qn_from_data(c, (int32_t[]){1, 2, 3, 7, 8}, qn_shape_of(1, 5), QN_DTYPE_I32);
    GOOD(c, m);
    GOOD(c, llama);
    GOOD(c, kv);
    GOOD(c, llama_kv);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const qn_dtype dtype = types[i].dtype;
        OK(c, qn_module_to(m, dtype));
        OK(c, qn_module_to(llama, dtype));
        qn_kv_cache_truncate(kv, 0);
        qn_kv_cache_truncate(llama_kv, 0);
        qn_tensor *x = qn_to(numbers(c, qn_shape_of(2, 9, 16), 1), dtype), *want = qn_module_forward(m, x);
        qn_tensor *logits = qn_module_forward(llama, ids);
        GOOD(c, want);
        GOOD(c, logits);
        for (int at = 0, n; at < 9; at += n) {
            n = at == 0 ? 4 : at < 7 ? 3 : 2;
            qn_tensor *y = qn_mha_forward_cached(m, qn_narrow(x, 1, at, n), kv, 0);
            GOOD(c, y);
            assert_int_equal(qn_dtype_of(y), dtype);
            const double off = furthest(y, qn_narrow(want, 1, at, n));
            if (!(off <= types[i].most)) fail_msg("%s: off by %g", qn_dtype_get(dtype)->name, off);
        }
        for (int at = 0; at < 5; at += 3) {
            qn_tensor *part = qn_narrow(ids, 1, at, at == 0 ? 3 : 2), *y = qn_llama_decode(llama, part, llama_kv);
            GOOD(c, y);
            assert_int_equal(qn_dtype_of(y), dtype);
            const double off = furthest(y, qn_narrow(logits, 1, at, qn_dim(part, 1)));
            if (!(off <= types[i].most)) fail_msg("llama, %s: off by %g", qn_dtype_get(dtype)->name, off);
        }
    }
    qn_kv_cache_destroy(llama_kv);
    qn_kv_cache_destroy(kv);
    qn_module_destroy(llama);
    qn_module_destroy(m);
    context_end(c);
}

static qn_dtype matrices_of_16_bits(void *arg, const char *path, const qn_tensor *t)
{
    (void)arg;
    (void)path;
    return qn_rank(t) > 1 ? QN_DTYPE_F16 : F32;
}

/* A file of F16 has norms and biases in F32; as stored, it runs in F16. */
static void biases_as_stored(void **state)
{
    (void)state;
    char path[sizeof QN_BUILD_DIR + 64];
    snprintf(path, sizeof path, QN_BUILD_DIR "/t_lm_llama_%d.gguf", (int)getpid());
    qn_context *c = context_new();
    qn_error err = {0};
    qn_manual_seed(c, 6);
    qn_llama_options o = tiny;
    o.arch = "qwen2";
    o.qkv_bias = true;
    qn_module *wide = qn_nn_llama(c, &o), *half = qn_nn_llama(c, &o);
    GOOD(c, wide);
    GOOD(c, half);
    const bool was = qn_set_grad_enabled(c, false);
    GOOD(c, qn_copy_(qn_module_tensor(wide, "blk.0.attn_q.bias"), numbers(c, qn_shape_of(16), 3)));
    qn_set_grad_enabled(c, was);
    if (qn_module_save(wide, path, &(qn_save_options){.dtype_of = matrices_of_16_bits}, &err) != QN_OK)
        fail_msg("%s", err.text);
    if (qn_module_load(half, path, &(qn_load_options){.as_stored = true}, &err) != QN_OK) fail_msg("%s", err.text);
    assert_int_equal(qn_dtype_of(qn_module_tensor(half, "blk.0.attn_q.weight")), QN_DTYPE_F16);
    assert_int_equal(qn_dtype_of(qn_module_tensor(half, "blk.0.attn_q.bias")), F32);
    qn_tensor *ids = qn_from_data(c, (int32_t[]){1, 2, 3, 7, 8}, qn_shape_of(1, 5), QN_DTYPE_I32);
    qn_tensor *want = qn_module_forward(wide, ids), *have = qn_module_forward(half, ids);
    GOOD(c, want);
    GOOD(c, have);
    assert_int_equal(qn_dtype_of(have), QN_DTYPE_F16);
    assert_true(furthest(have, want) < 2e-3);
    qn_module_destroy(half);
    qn_module_destroy(wide);
    context_end(c);
    unlink(path);
}

/* Two sequences in a row, with a mask that keeps them apart: each gets the logits that it has alone. */
static void sequences_share_a_row(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_manual_seed(c, 5);
    qn_module *m = qn_nn_llama(c, &tiny);
    GOOD(c, m);
    const int32_t ids[] = {1, 2, 3, 7, 8};
    uint8_t sees[25] = {0};
    for (int i = 0; i < 5; i++)
        for (int k = i < 3 ? 0 : 3; k <= i; k++) sees[i * 5 + k] = 1;
    qn_tensor *x = qn_from_data(c, ids, qn_shape_of(1, 5), QN_DTYPE_I32);
    qn_tensor *mask = qn_from_data(c, sees, qn_shape_of(1, 1, 5, 5), QN_DTYPE_BOOL);
    qn_tensor *both = qn_module_forward_n(m, (qn_tensor *[]){x, mask}, 2);
    qn_tensor *blind = qn_module_forward(m, x);
    GOOD(c, both);
    for (int part = 0; part < 2; part++) {
        const int64_t from = part ? 3 : 0, n = part ? 2 : 3;
        qn_tensor *alone = qn_module_forward(m, qn_narrow(x, 1, from, n));
        GOOD(c, alone);
        const double off = qn_item(qn_amax(qn_abs(qn_sub(qn_narrow(both, 1, from, n), alone)), QN_ALL, false));
        const double seen = qn_item(qn_amax(qn_abs(qn_sub(qn_narrow(blind, 1, from, n), alone)), QN_ALL, false));
        if (!(off < 1e-6)) fail_msg("part %d is off by %g", part, off);
        assert_true(part ? seen > 1e-5 : seen < 1e-6); /* without the mask the second sees the first */
    }
    qn_module_destroy(m);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(sequences_share_a_row),
        cmocka_unit_test(trains),
        cmocka_unit_test(mixed_precision),
        cmocka_unit_test(cached_attention),
        cmocka_unit_test(cached_in_every_type),
        cmocka_unit_test(biases_as_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
