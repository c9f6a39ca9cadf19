/* SPDX-License-Identifier: MIT */
/* A failing allocator at every allocation of the whole road: open, create, tokenize, first decode, sample, text; with
 * every kind of tokenizer, on two backends, and with the model that comes along. */
#include "failing.h"
#include "engine/pager.h"
#include "unit/engine/adapter.h"
#include <quern/metrics.h>
#include <quern/train.h>

typedef struct road {
    const char *path;
    qn_engine_options options;
    const char *adapter; /* NULL: none */
} road;

static qn_status generate(qn_engine *e, qn_session *s, qn_sampler *sampler, qn_error *err)
{
    static const char text[] = "ka lo mi, Once upon a time\n";
    const qn_tokenizer *tok = qn_engine_tokenizer(e);
    qn_token *ids = NULL, next = -1;
    size_t n = 0, len = 0;
    char *back = NULL;
    qn_status status = qn_tokenize(tok, text, strlen(text), NULL, &ids, &n, err);
    if (status == QN_OK) status = qn_session_feed(s, 0, ids, n, err);
    if (status == QN_OK) status = qn_sampler_sample(sampler, qn_session_logits(s, -1), &next, err);
    if (status == QN_OK) qn_sampler_accept(sampler, next);
    if (status == QN_OK) status = qn_session_feed(s, 0, &next, 1, err);
    if (status == QN_OK) status = qn_detokenize(tok, ids, n, NULL, &back, &len, err);
    qn_free(ids);
    qn_free(back);
    return status;
}

static qn_status whole_road(void *ctx, qn_error *err)
{
    const road *r = ctx;
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_sampler *sampler = NULL;
    const qn_session_options so = {.n_ctx = 64, .n_batch = 8, .n_seq = 2};
    const qn_sampler_params params = {.seed = 1, .dry_multiplier = 0.5f, .repeat_penalty = 1.1f, .mirostat = 0};
    qn_status status = qn_engine_open(r->path, &r->options, &e, err);
    if (status == QN_OK) status = qn_session_create(e, &so, &s, err);
    qn_lora_use lora = {NULL, 1};
    if (status == QN_OK && r->adapter) status = qn_lora_open(e, r->adapter, &lora.lora, err);
    if (status == QN_OK && r->adapter) status = qn_session_set_loras(s, &lora, 1, err);
    qn_engine_info info = {0};
    if (status == QN_OK) qn_engine_get_info(e, &info);
    if (status == QN_OK) status = qn_sampler_create(&params, info.n_vocab, qn_engine_tokenizer(e), &sampler, err);
    if (status == QN_OK) status = generate(e, s, sampler, err);
    qn_sampler_destroy(sampler);
    qn_session_destroy(s);
    qn_engine_close(e);
    return status;
}

static void every_tokenizer(void **state)
{
    (void)state;
    static const char *const kinds[] = {"llama", "gpt2", "bert", "t5"};
    for (int k = 0; k < 4; k++) {
        road r = {.path = tiny_path("t.gguf"), .options = {.n_threads = 1}};
        MUST(tiny_write(r.path, &(tiny){.arch = tiny_archs[k % TINY_N_ARCHS], .tokenizer = kinds[k], .n_layer = 1},
                        err));
        fault_sweep(kinds[k], whole_road, NULL, &r);
    }
}

/* An encoder's: open, create, embeddings of two texts. */
static qn_status embed(void *ctx, qn_error *err)
{
    const road *r = ctx;
    static const qn_token tokens[] = {5, 9, 7, 8};
    static const qn_embedding_text texts[] = {{tokens, 4}, {tokens, 2}};
    static float out[4 * 64];
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_status status = qn_engine_open(r->path, &r->options, &e, err);
    if (status == QN_OK)
        status = qn_session_create(e, &(qn_session_options){.n_ctx = 64, .n_batch = 8, .embeddings = true}, &s, err);
    if (status == QN_OK)
        status = qn_session_embeddings(s, texts, 2, &(qn_embedding_options){.pooling = QN_POOLING_mean}, out, err);
    qn_session_destroy(s);
    qn_engine_close(e);
    return status;
}

/* One architecture of each kind: a window, experts, latent attention, both ways. */
static void every_kind(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        fault_fn road;
        void (*extra)(qn_gguf_writer *w);
    } kinds[] = {
        {"gemma3", whole_road, tiny_window},
        {"qwen3moe", whole_road, NULL},
        {"deepseek2", whole_road, NULL},
        {"bert", embed, NULL},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        road r = {.path = tiny_path("k.gguf"), .options = {.n_threads = 1}};
        MUST(tiny_write(r.path, &(tiny){.arch = kinds[k].arch, .extra = kinds[k].extra}, err));
        fault_sweep(kinds[k].arch, kinds[k].road, NULL, &r);
    }
}

/* What half of the weights leave, of a model that has been opened. */
static uint64_t half_of(const char *path)
{
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_engine_info info;
    qn_metrics m;
    MUST(qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, err));
    MUST(qn_session_create(e, &(qn_session_options){.n_ctx = 64, .n_batch = 8, .n_seq = 2}, &s, err));
    qn_metrics_snapshot(&m);
    qn_engine_get_info(e, &info);
    qn_session_destroy(s);
    qn_engine_close(e);
    /* what a session takes while it is made comes on top */
    return m.live_bytes + QN_PAGING_RESERVE + info.weight_bytes / 2 + (512 << 10);
}

/* In less memory than the weights take. */
static void less_memory(void **state)
{
    (void)state;
    static const tiny models[] = {{.n_layer = 6, .n_embd = 64, .n_ff = 512},
                                  {.arch = "qwen3moe", .n_layer = 8, .n_embd = 64, .n_ff = 512}};
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        qn_engine_memory memory;
        qn_engine *e = NULL;
        qn_session *s = NULL;
        road r = {.path = tiny_path("m.gguf"), .options = {.n_threads = 1}};
        MUST(tiny_write(r.path, &models[k], err));
        r.options.memory = half_of(r.path);
        MUST(qn_engine_open(r.path, &r.options, &e, err));
        MUST(qn_session_create(e, &(qn_session_options){.n_ctx = 64, .n_batch = 8, .n_seq = 2}, &s, err));
        for (int i = 0; i < 3; i++) MUST(qn_session_feed(s, 0, &(qn_token){5}, 1, err));
        qn_engine_get_memory(e, &memory);
        assert_true(memory.streamed_bytes > 0 || memory.expert_misses > 0);
        qn_session_destroy(s);
        qn_engine_close(e);
        fault_sweep(k ? "less memory, experts" : "less memory", whole_road, NULL, &r);
    }
}

/* Of a plan that failed nothing is left that the next, or whoever asks what came of it, would look at. The experts of
 * so many layers have an allocation of their own. */
static void plans_that_fail(void **state)
{
    (void)state;
    qn_engine *e = NULL;
    qn_session *s = NULL;
    qn_engine_memory memory = {0};
    const qn_session_options so = {.n_ctx = 64, .n_batch = 8, .n_seq = 2};
    qn_engine_options o = {.n_threads = 1};
    static const char *const set[] = {"expert_count=8", "expert_used_count=2", "expert_feed_forward_length=96", NULL};
    const char *path = tiny_path("p.gguf");
    const qn_synth_options model = {.arch = "qwen3moe",
                                    .n_layer = 64,
                                    .n_embd = 64,
                                    .n_head = 2,
                                    .n_ff = 64,
                                    .n_vocab = 300,
                                    .n_ctx = 64,
                                    .type = "F16",
                                    .set = set};
    MUST(qn_synth(path, &model, NULL, NULL, err));
    o.memory = half_of(path) + (2 << 20); /* of this many layers a session takes more while it is made */
    MUST(qn_engine_open(path, &o, &e, err));
    MUST(qn_session_create(e, &so, &s, err));
    MUST(qn_session_feed(s, 0, &(qn_token){5}, 1, err)); /* the graph is there: what follows is the plan alone */
    long n_failed = 0;
    bool through = false;
    for (long at = 0; !through; at++) {
        qn_error why = {0};
        MUST(qn_session_seq_remove(s, 0, 0, -1, err));
        qn__pager_changed(e->pager);
        hook_arm(at, false);
        const qn_status status = qn_session_feed(s, 0, &(qn_token){5}, 1, &why);
        through = hook.n <= at;
        hook_arm(-1, false);
        qn_engine_get_memory(e, &memory);
        assert_true(status == QN_OK || (status == QN_STATUS_nomem && why.text[0]));
        n_failed += status != QN_OK;
        assert_in_range(at, 0, 1000);
    }
    assert_true(n_failed >= 2 && memory.expert_misses > 0);
    qn_session_destroy(s);
    qn_engine_close(e);
}

static void two_backends(void **state)
{
    (void)state;
    static const qn_place_rule rules[] = {{"blk.1.*", 1}};
    road r = {.path = tiny_path("b.gguf"),
              .options = {.n_threads = 2, .backends = "cpu,cpu:ref", .rules = rules, .n_rules = 1, .strict = true}};
    MUST(tiny_write(r.path, &(tiny){0}, err));
    fault_sweep("two backends", whole_road, NULL, &r);
}

static qn_status merge(void *ctx, qn_error *err)
{
    const road *r = ctx;
    return qn_lora_export(r->path, &(qn_lora_file){r->adapter, 1}, 1, tiny_path("m.gguf"),
                          &(qn_lora_export_options){.type = "Q8_0", .n_threads = 2}, err);
}

static qn_status train(void *ctx, qn_error *err)
{
    const road *r = ctx;
    const qn_train_options o = {.n_ctx = 2, .n_batch = 1, .n_steps = 1, .n_threads = 1};
    const qn_gguf_str text = {"ka lo mi, ka lo mi, ka lo mi", 28};
    qn_trainer *t = NULL;
    qn_train_step step;
    qn_status status =
        qn_trainer_create_lora(&o, &(qn_lora_options){.base = r->path, .rank = 2, .targets = "blk.0.attn_q"}, &text, 1,
                               &t, err);
    if (status == QN_OK) status = qn_trainer_step(t, &step, err);
    if (status == QN_OK) status = qn_trainer_export(t, tiny_path("t.gguf"), "F16", NULL, err);
    qn_trainer_destroy(t);
    return status;
}

static void adapters(void **state)
{
    (void)state;
    static char base[768], path[768];
    snprintf(base, sizeof(base), "%s", tiny_path("l.gguf"));
    MUST(tiny_write(base, &(tiny){.n_layer = 1}, err));
    snprintf(path, sizeof(path), "%s", adapter_write(&(adapter){.path = base, .alpha = 4}));
    road r = {base, {.n_threads = 2}, path};
    fault_sweep("an adapter", whole_road, NULL, &r);
    fault_sweep("merging", merge, NULL, &r);
    fault_sweep("training", train, NULL, &r);
}

static void real_model(void **state)
{
    (void)state;
    road r = {.path = QN_TESTS_DIR "/../models/shakespeare.gguf", .options = {.n_threads = 1}};
    fault_sweep("shakespeare", whole_road, NULL, &r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_tokenizer), cmocka_unit_test(every_kind),
                                       cmocka_unit_test(less_memory),     cmocka_unit_test(plans_that_fail),
                                       cmocka_unit_test(two_backends),    cmocka_unit_test(adapters),
                                       cmocka_unit_test(real_model)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
