/* SPDX-License-Identifier: MIT */
/* Training adapters and running them: what the trainer computes is what the engine computes, before the first step and
 * after the last; the loss falls over bases of every kind; from the second step on nothing is allocated; threads and an
 * interruption change no bit. */
#include "unit/engine/adapter.h"
#include <quern/train.h>

static char text[6000];

/* Two sentences in turn, so that there is something to learn. */
static void write_text(void)
{
    size_t n = 0;
    for (int i = 0; n + 80 < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n,
                              i % 3 ? "the cat sat on the mat.\n" : "a dog ran to the old house.\n");
}

static qn_gguf_str whole_text(void) { return (qn_gguf_str){text, strlen(text)}; }

enum { CTX = 32, FRACTION = 5 }; /* one part in five is held out */

static qn_trainer *trainer_of(const char *base, int n_threads, const char *targets)
{
    qn_trainer *t = NULL;
    const qn_train_options o = {.n_ctx = CTX,
                                .n_batch = 3,
                                .n_steps = 24,
                                .lr = 2e-2f,
                                .eval_fraction = 1.0f / FRACTION,
                                .seed = 3,
                                .n_threads = n_threads};
    const qn_gguf_str texts[] = {whole_text()};
    MUST(qn_trainer_create_lora(&o, &(qn_lora_options){.base = base, .rank = 4, .alpha = 6, .targets = targets}, texts,
                                1, &t, err));
    return t;
}

/* Mean of -ln p over the held-out text, window by window, by the engine. */
static double engine_loss(const char *base, const char *adapter_path)
{
    qn_engine *e = NULL;
    qn_token *ids = NULL;
    size_t n = 0;
    qn_lora_use use = {NULL, 1};
    MUST(qn_engine_open(base, &(qn_engine_options){.n_threads = 1}, &e, err));
    if (adapter_path) MUST(qn_lora_open(e, adapter_path, &use.lora, err));
    const qn_session_options o = {.n_ctx = CTX,
                                  .n_batch = CTX,
                                  .n_logits = CTX,
                                  .kv_type = QN_DTYPE_F32,
                                  .kv_type_set = true,
                                  .loras = &use,
                                  .n_loras = adapter_path != NULL};
    qn_session *s = rig_session(e, o);
    const char *held = strchr(text + (size_t)((double)strlen(text) * (1 - (double)(1.0f / FRACTION))), '\n') + 1;
    const qn_tokenizer *tok = qn_engine_tokenizer(e);
    qn_engine_info info;
    qn_engine_get_info(e, &info);
    MUST(qn_tokenize(tok, held, strlen(held), &(qn_tokenize_options){.no_bos = true, .no_special = true}, &ids, &n,
                     err));
    double sum = 0;
    for (size_t at = 0; at < n; at += CTX) {
        const int k = n - at < CTX ? (int)(n - at) : CTX;
        qn_batch_item items[CTX];
        for (int i = 0; i < k; i++)
            items[i] = (qn_batch_item){i ? ids[at + (size_t)i - 1] : qn_tokenizer_bos(tok), i, 0, true};
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        rig_decode(s, items, k);
        for (int i = 0; i < k; i++) {
            const float *x = qn_session_logits(s, i);
            double total = 0;
            for (int v = 0; v < info.n_vocab; v++) total += exp((double)x[v]);
            sum += log(total) - (double)x[ids[at + (size_t)i]];
        }
    }
    qn_free(ids);
    qn_session_destroy(s);
    qn_engine_close(e);
    return sum / (double)n;
}

static void near(double a, double b, double most, const char *what)
{
    if (!(fabs(a - b) <= most * fabs(b))) fail_msg("%s: %.9g, %.9g expected", what, a, b);
}

static double held_loss(qn_trainer *t)
{
    qn_train_eval eval;
    MUST(qn_trainer_evaluate(t, &eval, err));
    return eval.loss;
}

/* The base alone, then the adapter: the trainer's loss is the engine's. `most`: what a base in few bits costs by
 * rounding activations apart. */
static void learns(const char *what, const tiny *model, const char *targets, double most)
{
    static char base[768];
    snprintf(base, sizeof base, "%s", tiny_path("base.gguf"));
    const char *out = tiny_path("adapter.gguf");
    MUST(tiny_write(base, model, err));
    qn_trainer *t = trainer_of(base, 2, targets);
    const double first = held_loss(t);
    near(first, engine_loss(base, NULL), most, what);
    qn_metrics early, late;
    for (int i = 0; i < 24; i++) {
        qn_train_step step;
        MUST(qn_trainer_step(t, &step, err));
        if (i == 0) qn_metrics_snapshot(&early);
    }
    qn_metrics_snapshot(&late);
    assert_int_equal(late.allocs, early.allocs);
    assert_int_equal(late.plan_cache_misses, early.plan_cache_misses);
    const double last = held_loss(t);
    if (!(last < 0.8 * first)) fail_msg("%s: the loss went from %g to %g only", what, first, last);
    MUST(qn_trainer_export(t, out, NULL, "an adapter", err));
    near(last, engine_loss(base, out), most, what);
    const qn_lora_file file = {out, 1};
    const char *merged = tiny_path("merged.gguf");
    MUST(qn_lora_export(base, &file, 1, merged, &(qn_lora_export_options){.type = "F32", .n_threads = 1}, err));
    near(last, engine_loss(merged, NULL), 10 * most, what);
    MUST(qn_trainer_export(t, out, "F16", NULL, err));
    near(last, engine_loss(base, out), most + 2e-3, what);
    REFUSED(unsupported, qn_trainer_export(t, out, "Q8_0", NULL, err), "Q8_0", "F16");
    qn_trainer_destroy(t);
}

static void trainer_and_engine_agree(void **state)
{
    (void)state;
    learns("llama", &(tiny){0}, NULL, 1e-5);
    learns("qwen2", &(tiny){.arch = "qwen2", .n_layer = 1}, "blk.*,output", 1e-5);
    learns("qwen3, tied", &(tiny){.arch = "qwen3", .tied = true}, NULL, 1e-5);
    learns("F16", &(tiny){.type = QN_DTYPE_F16}, "*.ffn_*", 1e-4);
    learns("Q8_0", &(tiny){.type = QN_DTYPE_Q8_0, .n_ff = 64}, NULL, 5e-3);
    learns("Q4_K", &(tiny){.type = QN_DTYPE_Q4_K, .n_layer = 1, .n_embd = 256, .head = 64, .n_ff = 256}, "blk.*.attn_*",
           5e-3);
}

/* One run on one thread; one on three, interrupted in the middle: the same losses and the same file. */
static const char *extra_arch;
static void write_extra(qn_gguf_writer *w)
{
    char key[128];
    snprintf(key, sizeof key, "%s.attention.sliding_window", extra_arch);
    qn_gguf_write_u32(w, key, 9);
    snprintf(key, sizeof key, "%s.attention.clamp_kqv", extra_arch);
    qn_gguf_write_f32(w, key, 0.5f);
    snprintf(key, sizeof key, "%s.attention.temperature_scale", extra_arch);
    qn_gguf_write_f32(w, key, 0.2f);
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", extra_arch);
    qn_gguf_write_u32(w, key, 8);
}

/* What the specs hold has gradients, and both recorders make the same of it: windows, caps, clamps, norms anywhere. */
static void every_architecture(void **state)
{
    (void)state;
    static char base[768];
    for (int a = 0; a < TINY_N_ARCHS; a++) {
        if (tiny_sees_ahead(tiny_archs[a])) continue;
        extra_arch = tiny_archs[a];
        snprintf(base, sizeof base, "%s", tiny_path("base.gguf"));
        const bool mixture = tiny_hp(&(tiny){0}, qn__arch_find(extra_arch)).n_expert;
        MUST(tiny_write(base, &(tiny){.arch = extra_arch, .n_layer = 4, .extra = mixture ? NULL : write_extra}, err));
        if (mixture) {
            qn_trainer *none = NULL;
            const qn_train_options o = {.n_ctx = CTX};
            REFUSED(unsupported,
                    qn_trainer_create_lora(&o, &(qn_lora_options){.base = base}, &(qn_gguf_str){text, strlen(text)}, 1,
                                           &none, err),
                    "linear_experts", "gradient");
            continue;
        }
        qn_trainer *t = trainer_of(base, 1, NULL);
        const double first = held_loss(t);
        near(first, engine_loss(base, NULL), 1e-5, extra_arch);
        for (int i = 0; i < 2; i++) MUST(qn_trainer_step(t, &(qn_train_step){0}, err));
        const double last = held_loss(t);
        if (!(last < first)) fail_msg("%s: the loss went from %g to %g", extra_arch, first, last);
        const char *out = tiny_path("adapter.gguf");
        MUST(qn_trainer_export(t, out, NULL, NULL, err));
        near(last, engine_loss(base, out), 1e-5, extra_arch);
        qn_trainer_destroy(t);
    }
}

static void the_same_bits(void **state)
{
    (void)state;
    const char *base = tiny_path("base.gguf"), *saved = tiny_path("saved.safetensors"),
               *outs[2] = {tiny_path("a.gguf"), tiny_path("b.gguf")};
    double losses[24];
    MUST(tiny_write(base, &(tiny){.type = QN_DTYPE_Q8_0, .n_ff = 64}, err));
    for (int run = 0; run < 2; run++) {
        qn_trainer *t = trainer_of(base, 1 + 2 * run, NULL);
        for (int i = 0; i < 24; i++) {
            qn_train_step step;
            if (run && i == 11) {
                MUST(qn_trainer_save(t, saved, err));
                qn_trainer_destroy(t);
                t = trainer_of(base, 2, NULL);
                MUST(qn_trainer_load(t, saved, err));
            }
            MUST(qn_trainer_step(t, &step, err));
            if (run) assert_memory_equal(&step.loss, &losses[i], sizeof step.loss);
            losses[i] = step.loss;
        }
        MUST(qn_trainer_export(t, outs[run], NULL, NULL, err));
        qn_trainer_destroy(t);
    }
    qn_gguf *f[2];
    for (int i = 0; i < 2; i++) MUST(qn_gguf_open(outs[i], NULL, &f[i], err));
    assert_int_equal(qn_gguf_n_tensors(f[0]), 2 * 2 * 7);
    for (size_t i = 0; i < qn_gguf_n_tensors(f[0]); i++) {
        const qn_gguf_tensor *a = qn_gguf_tensor_get(f[0], i), *b = qn_gguf_tensor_find(f[1], a->name);
        assert_memory_equal(a->data, b->data, a->size_bytes);
    }
    for (int i = 0; i < 2; i++) qn_gguf_close(f[i]);
    qn_trainer *other = NULL;
    const qn_train_options o = {
        .n_ctx = CTX, .n_batch = 3, .n_steps = 24, .lr = 2e-2f, .eval_fraction = 1.0f / FRACTION, .seed = 3};
    const qn_gguf_str texts[] = {whole_text()};
    MUST(qn_trainer_create_lora(&o, &(qn_lora_options){.base = base, .rank = 4, .alpha = 7}, texts, 1, &other, err));
    REFUSED(invalid, qn_trainer_load(other, saved, err), "lora-alpha is 7, 6 in the checkpoint");
    qn_trainer_destroy(other);
}

static void refused(void **state)
{
    (void)state;
    const char *base = tiny_path("base.gguf");
    const qn_gguf_str texts[] = {whole_text()};
    qn_trainer *t = NULL;
    MUST(tiny_write(base, &(tiny){0}, err));
#define WITH(options, lora) \
    qn_trainer_create_lora(&(qn_train_options)options, &(qn_lora_options)lora, texts, 1, &t, err)
/* clang-format off */
#define ARGS(...) {__VA_ARGS__}
    /* clang-format on */
    REFUSED(invalid, WITH(ARGS(.n_layer = 3), ARGS(.base = base)), "layers is the base's");
    REFUSED(invalid, WITH(ARGS(.n_vocab = 300), ARGS(.base = base)), "vocab-size is the base's");
    REFUSED(invalid, WITH(ARGS(.tied = true), ARGS(.base = base)), "tied is the base's");
    REFUSED(invalid, WITH(ARGS(.n_ctx = 129), ARGS(.base = base)), "ctx is 129", "128");
    REFUSED(invalid, WITH(ARGS(0), ARGS(.base = base, .rank = -1)), "rank is -1");
    REFUSED(invalid, WITH(ARGS(0), ARGS(.base = base, .alpha = -1)), "alpha is -1");
    REFUSED(invalid, WITH(ARGS(0), ARGS(.base = base, .targets = "attn_q,blk.9.*")), "attn_q,blk.9.*", "blk.0.attn_q");
    REFUSED(invalid, WITH(ARGS(0), ARGS(.base = base, .targets = "token_embd,*norm")), "no linear layer");
    REFUSED(invalid, WITH(ARGS(0), ARGS(.rank = 4)), "base");
    REFUSED(io, WITH(ARGS(0), ARGS(.base = "/nonexistent/base.gguf")), "base.gguf");
    const char *adapter_file = adapter_write(&(adapter){.path = base});
    qn_error error = {0};
    assert_int_not_equal(qn_trainer_create_lora(&(qn_train_options){0}, &(qn_lora_options){.base = adapter_file}, texts,
                                                1, &t, &error),
                         QN_OK);
    assert_non_null(strstr(error.text, "adapter-"));
    qn_lora_options only = {.base = base, .rank = 2, .targets = "output,*.1.attn_?"};
    MUST(qn_trainer_create_lora(&(qn_train_options){.n_ctx = CTX, .n_batch = 1, .n_steps = 1}, &only, texts, 1, &t,
                                err));
    qn_train_info info;
    qn_trainer_get_info(t, &info);
    assert_int_equal(info.n_params, 2 * ((300 + 32) + (32 + 32) + 2 * (16 + 32)));
    assert_int_equal(info.n_vocab, 300);
    qn_trainer_destroy(t);
    /* without a context of one's own: the base's, up to 256 */
    MUST(qn_trainer_create_lora(&(qn_train_options){.n_batch = 1, .n_steps = 1}, &only, texts, 1, &t, err));
    assert_int_equal(qn_trainer_options(t)->n_ctx, 128);
    qn_trainer_destroy(t);
}

int main(void)
{
    write_text();
    const struct CMUnitTest tests[] = {cmocka_unit_test(trainer_and_engine_agree), cmocka_unit_test(every_architecture),
                                       cmocka_unit_test(the_same_bits), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
