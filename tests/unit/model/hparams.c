/* SPDX-License-Identifier: MIT */
/* Hyperparameters from hostile files: what is missing, of another type, out of range or at odds with the rest is
 * refused with its key; what may be absent gets its default; values a layer are taken when they are equal. */
#include "load.h"

/* The one key that is written otherwise. */
static struct {
    const char *key;
    enum { ABSENT, AS_U32, AS_U64, AS_F32, AS_STR, AS_I32S, AS_F32S } how;
    uint64_t u;
    float f;
    const char *str;
    int32_t i32[4];
    float f32[4];
    uint64_t n;
} change;

static void write_change(qn_gguf_writer *w)
{
    switch (change.how) {
    case ABSENT: break;
    case AS_U32: qn_gguf_write_u32(w, change.key, (uint32_t)change.u); break;
    case AS_U64: qn_gguf_write_u64(w, change.key, change.u); break;
    case AS_F32: qn_gguf_write_f32(w, change.key, change.f); break;
    case AS_STR: qn_gguf_write_str(w, change.key, change.str); break;
    case AS_I32S: qn_gguf_write_array(w, change.key, QN_GGUF_i32, change.i32, change.n); break;
    case AS_F32S: qn_gguf_write_array(w, change.key, QN_GGUF_f32, change.f32, change.n); break;
    }
}

static bool change_key(qn_gguf_writer *w, const char *key)
{
    if (!change.key || strcmp(key, change.key) != 0) return false;
    write_change(w);
    return true;
}

static qn_status load_changed(const tiny *t, qn_hparams *hp, qn_error *err)
{
    tiny with = *t;
    with.key = change_key;
    return load_tiny(&with, 0, hp, err);
}

static const tiny plain = {0};

static void as_written(void **state)
{
    (void)state;
    qn_hparams hp;
    MUST(load_tiny(&(tiny){.n_layer = 3,
                           .n_embd = 48,
                           .n_head = 6,
                           .n_kv_head = 3,
                           .head = 10,
                           .n_ff = 64,
                           .n_vocab = 280,
                           .n_ctx = 77},
                   0, &hp, err));
    assert_int_equal(hp.n_layer, 3);
    assert_int_equal(hp.n_embd, 48);
    assert_int_equal(hp.n_head, 6);
    assert_int_equal(hp.n_kv_head, 3);
    assert_int_equal(hp.n_embd_head_k, 10);
    assert_int_equal(hp.n_embd_head_v, 10);
    assert_int_equal(hp.n_ff, 64);
    assert_int_equal(hp.n_vocab, 280);
    assert_int_equal(hp.n_ctx_train, 77);
    assert_int_equal(hp.n_rot, 10);
    assert_float_equal(hp.norm_eps, 1e-5f, 0);
    assert_float_equal(hp.rope.base, 10000, 0);
    assert_float_equal(hp.rope.freq_scale, 1, 0);
    assert_float_equal(hp.rope.ext_factor, 0, 0);
    assert_float_equal(hp.rope.attn_factor, 1, 0);
    assert_int_equal(hp.rope.n_rot, 10);
    assert_int_equal(hp.rope.n_ctx_orig, 77);
}

static void rope_mode_by_architecture(void **state)
{
    (void)state;
    qn_hparams hp;
    change.key = NULL;
    MUST(load_tiny(&(tiny){.arch = "llama"}, 0, &hp, err));
    assert_int_equal(hp.rope.mode, QN_ROPE_NORM);
    MUST(load_tiny(&(tiny){.arch = "qwen2"}, 0, &hp, err));
    assert_int_equal(hp.rope.mode, QN_ROPE_NEOX);
    MUST(load_tiny(&(tiny){.arch = "qwen3"}, 0, &hp, err));
    assert_int_equal(hp.rope.mode, QN_ROPE_NEOX);
}

static void required_keys(void **state)
{
    (void)state;
    static const char *const keys[] = {"llama.context_length",      "llama.embedding_length",
                                       "llama.block_count",         "llama.attention.head_count",
                                       "llama.feed_forward_length", "llama.attention.layer_norm_rms_epsilon"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        change.key = keys[i];
        change.how = ABSENT;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i], "missing");
    }
}

static void optional_keys(void **state)
{
    (void)state;
    qn_hparams hp;
    change.how = ABSENT;
    change.key = "llama.attention.head_count_kv"; /* as many as heads */
    MUST(load_changed(&(tiny){.n_kv_head = 4}, &hp, err));
    assert_int_equal(hp.n_kv_head, 4);
    change.key = "llama.attention.key_length"; /* n_embd / n_head = 8 */
    MUST(load_changed(&plain, &hp, err));
    assert_int_equal(hp.n_embd_head_k, 8);
    change.key = "llama.rope.freq_base";
    MUST(load_changed(&plain, &hp, err));
    assert_float_equal(hp.rope.base, 1e4f, 0);
    change.key = "qwen2.rope.freq_base";
    MUST(load_changed(&(tiny){.arch = "qwen2"}, &hp, err));
    assert_float_equal(hp.rope.base, 1e6f, 0);
}

static void wrong_integers(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "llama.context_length",         "llama.embedding_length",        "llama.block_count",
        "llama.attention.head_count",   "llama.attention.head_count_kv", "llama.attention.key_length",
        "llama.attention.value_length", "llama.feed_forward_length"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        change.key = keys[i];
        change.how = AS_U32;
        change.u = 0;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i], "is 0");
        change.u = UINT32_MAX;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i], "4.29497e+09");
        change.how = AS_U64;
        change.u = UINT64_MAX;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i]);
        change.how = AS_STR;
        change.str = "8";
        REFUSED(format, load_changed(&plain, NULL, err), keys[i], "str");
        change.how = AS_F32;
        change.f = 8;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i], "f32");
        change.how = AS_I32S;
        change.n = 1;
        change.i32[0] = -8;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i]);
        change.n = 0;
        REFUSED(format, load_changed(&plain, NULL, err), keys[i], "empty");
    }
}

static void wrong_floats(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        float bad[4];
    } rows[] = {
        {"llama.attention.layer_norm_rms_epsilon", {NAN, -1e-6f, 1.5f, INFINITY}},
        {"llama.rope.freq_base", {NAN, 0, -10000, INFINITY}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        change.key = rows[i].key;
        change.how = AS_F32;
        for (int k = 0; k < 4; k++) {
            change.f = rows[i].bad[k];
            REFUSED(format, load_changed(&plain, NULL, err), rows[i].key);
        }
        change.how = AS_STR;
        change.str = "1e-5";
        REFUSED(format, load_changed(&plain, NULL, err), rows[i].key, "str");
    }
}

static void numbers_for_each_layer(void **state)
{
    (void)state;
    qn_hparams hp;
    change.how = AS_I32S;
    change.n = 2;
    change.key = "llama.attention.head_count_kv";
    memcpy(change.i32, (int32_t[]){2, 2}, 8);
    MUST(load_changed(&plain, &hp, err));
    assert_int_equal(hp.n_kv_head, 2);
    change.i32[1] = 3;
    REFUSED(format, load_changed(&plain, NULL, err), "head_count 4", "head_count_kv 3", "layer 1");
    change.i32[1] = 0;
    REFUSED(format, load_changed(&plain, NULL, err), change.key, "is 0");
    change.n = 1; /* of two layers */
    REFUSED(format, load_changed(&plain, NULL, err), change.key, "1 numbers", "2 layers");
    change.n = 2;
    change.key = "llama.feed_forward_length";
    memcpy(change.i32, (int32_t[]){48, 48}, 8);
    MUST(load_changed(&plain, &hp, err));
    assert_int_equal(hp.n_ff, 48);
    change.i32[0] = 64;
    REFUSED(format, load_changed(&plain, NULL, err), "blk.0.ffn_gate.weight", "[64,32]");
    change.key = "llama.rope.freq_base";
    change.how = AS_F32S;
    memcpy(change.f32, (float[]){500, 500}, 8);
    MUST(load_changed(&plain, &hp, err));
    assert_float_equal(hp.rope.base, 500, 0);
    change.f32[1] = 600;
    REFUSED(unsupported, load_changed(&plain, NULL, err), change.key, "500", "600");
    change.f32[1] = NAN;
    REFUSED(format, load_changed(&plain, NULL, err), change.key);
    change.f32[0] = NAN;
    REFUSED(format, load_changed(&plain, NULL, err), change.key);
}

/* Which layers see a window: every n-th not, or as an array says; and what such a layer is. */
static void write_window(qn_gguf_writer *w)
{
    qn_gguf_write_u32(w, "gemma2.attention.sliding_window", 9);
    if (change.how == AS_U32) qn_gguf_write_u32(w, "gemma2.attention.sliding_window_pattern", (uint32_t)change.u);
    if (change.how == AS_I32S)
        qn_gguf_write_array(w, "gemma2.attention.sliding_window_pattern", QN_GGUF_bool, (uint8_t[]){0, 0, 1, 0},
                            change.n);
}

static uint32_t windows(qn_model **model)
{
    const char *path = tiny_path("windows.gguf");
    qn_gguf *file = NULL;
    uint32_t seen = 0;
    MUST(tiny_write(path, &(tiny){.arch = "gemma2", .n_layer = 4, .extra = write_window}, err));
    MUST(qn_gguf_open(path, NULL, &file, err));
    MUST(qn__model_load(file, 0, model, err));
    for (int i = 0; i < 4; i++) {
        const qn_layer *l = &(*model)->layers[i];
        const qn_sight sight = (*model)->sights[l->sight];
        const bool window = sight.kind == QN_SIGHT_window;
        assert_true(window ? sight.size == 9 : sight.kind == QN_SIGHT_all);
        assert_int_equal(l->spec.attn.turn, window ? QN_TURN_window : QN_TURN_full);
        seen |= (uint32_t)window << i;
    }
    assert_int_equal((*model)->n_sights, seen == 0 || seen == 15 ? 1 : 2);
    qn__model_free(*model);
    qn_gguf_close(file);
    return seen;
}

static void windowed_layers(void **state)
{
    (void)state;
    qn_model *model = NULL;
    change.key = NULL;
    change.how = ABSENT; /* every second */
    assert_int_equal(windows(&model), 5);
    change.how = AS_U32;
    static const uint32_t want[] = {15, 0, 5, 11, 7, 15};
    for (change.u = 0; change.u < 6; change.u++) assert_int_equal(windows(&model), want[change.u]);
    change.how = AS_I32S;
    change.n = 4;
    assert_int_equal(windows(&model), 4);
}

/* Booleans, and words that are none of those that are known. */
static void write_truth(qn_gguf_writer *w)
{
    if (change.how == AS_STR)
        qn_gguf_write_str(w, "gptneox.use_parallel_residual", change.str);
    else
        qn_gguf_write_bool(w, "gptneox.use_parallel_residual", change.u != 0);
}

static void truths(void **state)
{
    (void)state;
    qn_hparams hp;
    const tiny neox = {.arch = "gptneox", .n_kv_head = 4, .extra = write_truth};
    change.how = AS_U32;
    for (change.u = 0; change.u < 2; change.u++) {
        MUST(load_tiny(&neox, 0, &hp, err));
        assert_int_equal(hp.parallel, change.u);
    }
    change.how = AS_STR;
    change.str = "yes";
    REFUSED(format, load_tiny(&neox, 0, NULL, err), "gptneox.use_parallel_residual", "bool");
    /* what no key says: of 40 layers it has ALiBi */
    for (int n_layer = 39; n_layer <= 40; n_layer++) {
        MUST(load_tiny(&(tiny){.arch = "baichuan", .n_layer = n_layer, .n_embd = 32}, 0, &hp, err));
        assert_int_equal(hp.attn_alibi != 0, n_layer == 40);
    }
}

/* Numbers that are fine alone but not together. */
static void at_odds(void **state)
{
    (void)state;
    change.key = NULL;
    REFUSED(format, load_changed(&(tiny){.n_head = 4, .n_kv_head = 3}, NULL, err), "head_count 4", "head_count_kv 3");
    REFUSED(format, load_changed(&(tiny){.n_head = 4, .n_kv_head = 8}, NULL, err), "head_count 4", "head_count_kv 8");
    change.key = "llama.attention.value_length";
    change.how = ABSENT;
    REFUSED(format, load_changed(&(tiny){.n_embd = 33, .n_head = 4}, NULL, err), "embedding_length 33", "4");
    change.key = NULL;
    REFUSED(format, load_changed(&(tiny){.head = 7}, NULL, err), "rope.dimension_count", "7");
}

/* ---- keys that tiny.h does not write ---- */

static struct {
    float factor, attn;
    const char *type;
    uint32_t n_rot, n_expert, ctx_orig, n_used;
    const char *arch;
} rope;
static void write_extra(qn_gguf_writer *w)
{
    if (rope.type) qn_gguf_write_str(w, "llama.rope.scaling.type", rope.type);
    if (rope.factor != 0) qn_gguf_write_f32(w, "llama.rope.scaling.factor", rope.factor);
    if (rope.attn != 0) qn_gguf_write_f32(w, "llama.rope.scaling.attn_factor", rope.attn);
    if (rope.n_rot) qn_gguf_write_u32(w, "llama.rope.dimension_count", rope.n_rot);
    if (rope.ctx_orig) qn_gguf_write_u32(w, "llama.rope.scaling.original_context_length", rope.ctx_orig);
    char key[64];
    snprintf(key, sizeof key, "%s.expert_count", rope.arch ? rope.arch : "llama");
    if (rope.n_expert) qn_gguf_write_u32(w, key, rope.n_expert);
    if (rope.n_used) qn_gguf_write_u32(w, "llama.expert_used_count", rope.n_used);
}
static const tiny with_extra = {.extra = write_extra};
#define EXTRA(...) (memset(&rope, 0, sizeof(rope)), memcpy(&rope, &(__typeof__(rope)){__VA_ARGS__}, sizeof(rope)))

static void rotated_elements(void **state)
{
    (void)state;
    qn_hparams hp;
    EXTRA(.n_rot = 4);
    MUST(load_tiny(&with_extra, 0, &hp, err));
    assert_int_equal(hp.rope.n_rot, 4);
    EXTRA(.n_rot = 10);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.rope.dimension_count is 10", "8");
    EXTRA(.n_rot = 5);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.rope.dimension_count is 5", "even");
    EXTRA(.n_rot = 1);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.rope.dimension_count", "is 1");
}

static void rope_scaling(void **state)
{
    (void)state;
    qn_hparams hp;
    EXTRA(.factor = 4, .type = "linear");
    MUST(load_tiny(&with_extra, 0, &hp, err));
    assert_float_equal(hp.rope.freq_scale, 0.25f, 0);
    assert_float_equal(hp.rope.ext_factor, 0, 0);
    assert_float_equal(qn__yarn_temperature(&hp.rope), 1, 0);

    EXTRA(.factor = 4); /* older files name only the factor */
    MUST(load_tiny(&with_extra, 0, &hp, err));
    assert_float_equal(hp.rope.freq_scale, 0.25f, 0);

    EXTRA(.factor = 4, .type = "none");
    MUST(load_tiny(&with_extra, 0, &hp, err));
    assert_float_equal(hp.rope.freq_scale, 1, 0);

    EXTRA(.factor = 4, .type = "yarn", .attn = 1.5f, .ctx_orig = 32);
    MUST(load_tiny(&with_extra, 0, &hp, err));
    assert_float_equal(hp.rope.freq_scale, 0.25f, 0);
    assert_float_equal(hp.rope.ext_factor, 1, 0);
    /* The op multiplies by 1 + 0.1 ln 4 itself: once is what the paper asks for. */
    assert_float_equal(hp.rope.attn_factor, 1.5f, 0);
    assert_float_equal(qn__yarn_temperature(&hp.rope), 1.1386294f, 1e-6f);
    assert_int_equal(hp.rope.n_ctx_orig, 32);

    EXTRA(.factor = 0.5f, .type = "yarn");
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.rope.scaling.factor is 0.5");
    EXTRA(.factor = 4, .type = "longrope");
    REFUSED(unsupported, load_tiny(&with_extra, 0, NULL, err), "llama.rope.scaling.type", "\"longrope\"", "linear",
            "yarn");
    EXTRA(.factor = 4, .type = "");
    REFUSED(unsupported, load_tiny(&with_extra, 0, NULL, err), "llama.rope.scaling.type");
    EXTRA(.factor = -1);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.rope.scaling.factor", "-1");
    EXTRA(.factor = NAN);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.rope.scaling.factor");
}

static void experts(void **state)
{
    (void)state;
    EXTRA(.n_expert = 8);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.expert_used_count is 0", "1 to expert_count 8");
    EXTRA(.n_expert = 8, .n_used = 9);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "llama.expert_used_count is 9", "1 to expert_count 8");
    EXTRA(.n_expert = 8, .n_used = 2);
    REFUSED(format, load_tiny(&with_extra, 0, NULL, err), "blk.0.ffn_gate_inp.weight is missing", "[8,32]");
    EXTRA(.n_expert = 8, .arch = "qwen3");
    REFUSED(unsupported, load_tiny(&(tiny){.arch = "qwen3", .extra = write_extra}, 0, NULL, err),
            "qwen3.expert_count is 8", "without experts");
}

static struct {
    const char *key;
    uint32_t value;
} mixture[2];

static void write_mixture(qn_gguf_writer *w)
{
    for (int i = 0; i < 2 && mixture[i].key; i++) {
        char key[96];
        snprintf(key, sizeof key, "bailingmoe2.%s", mixture[i].key);
        qn_gguf_write_u32(w, key, mixture[i].value);
    }
}

static bool no_experts(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "qwen3moe.expert_count") != 0) return false;
    qn_gguf_write_u32(w, key, 0);
    return true;
}

/* Numbers that are fine one by one: two layers, two of six experts. */
static void experts_at_odds(void **state)
{
    (void)state;
    static const struct {
        const char *key, *other, *says;
        uint32_t value, other_value;
    } cases[] = {
        {"leading_dense_block_count", NULL, "at most block_count 2", 3, 0},
        {"nextn_predict_layers", NULL, "fewer than block_count 2", 2, 0},
        {"expert_group_count", NULL, "at least 2 of the 6 experts", 4, 0},
        {"expert_group_count", NULL, "at least 2 of the 6 experts", 6, 0},
        {"expert_group_used_count", "expert_group_count", "up to 3, and groups with 2 experts", 0, 3},
        {"expert_group_used_count", "expert_group_count", "up to 3, and groups with 2 experts", 4, 3},
        {"expert_gating_func", NULL, "from 0 to 4 is expected", 5, 0},
    };
    const tiny t = {.arch = "bailingmoe2", .extra = write_mixture};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mixture[0] = (__typeof__(mixture[0])){cases[i].key, cases[i].value};
        mixture[1] = (__typeof__(mixture[0])){cases[i].other, cases[i].other_value};
        REFUSED(format, load_tiny(&t, 0, NULL, err), cases[i].key, cases[i].says);
    }
    qn_hparams hp;
    mixture[0] = (__typeof__(mixture[0])){"nextn_predict_layers", 1};
    mixture[1].key = NULL;
    MUST(load_tiny(&t, 0, &hp, err));
    assert_int_equal(hp.n_layer, 1);
    REFUSED(format, load_tiny(&(tiny){.arch = "qwen3moe", .key = no_experts}, 0, NULL, err), "qwen3moe.expert_count",
            "is 0; from 1 to 65536");
}

/* MiniCPM's files from before there were keys for its factors. */
static void factors_that_no_key_says(void **state)
{
    (void)state;
    qn_hparams hp;
    MUST(load_tiny(&(tiny){.arch = "minicpm", .n_layer = 4, .n_embd = 64, .head = 16}, 0, &hp, err));
    assert_float_equal(hp.embd_scale, 12, 0);
    assert_float_equal(hp.residual_scale, 0.7f, 1e-7f);
    assert_float_equal(hp.logit_scale, 4, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_written),
        cmocka_unit_test(rope_mode_by_architecture),
        cmocka_unit_test(required_keys),
        cmocka_unit_test(optional_keys),
        cmocka_unit_test(wrong_integers),
        cmocka_unit_test(wrong_floats),
        cmocka_unit_test(numbers_for_each_layer),
        cmocka_unit_test(windowed_layers),
        cmocka_unit_test(truths),
        cmocka_unit_test(at_odds),
        cmocka_unit_test(rotated_elements),
        cmocka_unit_test(rope_scaling),
        cmocka_unit_test(experts),
        cmocka_unit_test(experts_at_odds),
        cmocka_unit_test(factors_that_no_key_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
