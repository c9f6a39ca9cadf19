/* SPDX-License-Identifier: MIT */
/* quern's made-up models: every preset has its published numbers, a mix gives each tensor its type, the same seed gives
 * the same bytes, memory stays bounded however large the file, and nothing is left behind by what fails. */
#include "load.h"
#include "base/file.h"
#include "model/synth.h"
#include <math.h>

/* Small enough to write in a moment, whatever the preset. */
static const qn_synth_options small = {
    .arch = "llama", .n_layer = 2, .n_embd = 64, .n_head = 4, .n_kv_head = 2, .n_ff = 96, .n_vocab = 300, .n_ctx = 64};

static char *read_file(const char *path, size_t *n)
{
    char *data = NULL;
    MUST(qn__read_all(path, 1 << 30, &data, n, err));
    return data;
}

static uint64_t meta_u64(const qn_gguf *file, const char *arch, const char *key)
{
    char full[128];
    uint64_t value = 0;
    snprintf(full, sizeof(full), "%s.%s", arch, key);
    MUST(qn_gguf_get_u64(file, qn_gguf_kv_find(file, full), 0, &value, err));
    return value;
}

/* The figures of the models' config.json files: hidden_size, num_attention_heads, num_key_value_heads, head_dim,
 * intermediate_size, vocab_size, rope_theta, tie_word_embeddings. Written with fewer layers and a small vocabulary,
 * which is all that takes room. */
static void presets(void **state)
{
    (void)state;
    static const struct {
        const char *name, *arch;
        int layers, embd, head, kv, dim, ff, vocab, ctx;
        double rope;
        bool tied;
        int written_embd; /* 0: embd; experts of a layer are many, and have the width that the preset says */
    } rows[] = {
        {"tinyllama-1.1b", "llama", 22, 2048, 32, 4, 64, 5632, 32000, 2048, 1e4, false, 0},
        {"llama-3.2-1b", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 5e5, true, 0},
        {"llama-3-8b", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 8192, 5e5, false, 0},
        {"qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768, 1e6, true, 0},
        {"qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e6, false, 0},
        {"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960, 1e6, true, 0},
        {"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 1e6, false, 0},
        {"gemma-3-1b", "gemma3", 26, 1152, 4, 1, 256, 6912, 262144, 32768, 1e6, true, 0},
        {"gemma-4-e2b", "gemma4", 35, 1536, 8, 1, 512, 9728, 262144, 131072, 1e6, true, 0},
        {"phi-4-mini", "phi3", 32, 3072, 24, 8, 128, 8192, 200064, 131072, 1e4, true, 0},
        {"deepseek-v2-lite", "deepseek2", 27, 2048, 16, 1, 576, 10944, 102400, 163840, 1e4, false, 0},
        {"olmoe-1b-7b", "olmoe", 16, 2048, 16, 16, 128, 1024, 50304, 4096, 1e4, false, 0},
        {"qwen3-30b-a3b", "qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, 40960, 1e6, false, 64},
        {"gpt-oss-20b", "gpt-oss", 24, 2880, 64, 8, 64, 2880, 201088, 131072, 1.5e5, false, 64},
        {"bge-small", "bert", 12, 384, 12, 12, 32, 1536, 30522, 512, 0, true, 0},
        {"nomic-embed", "nomic-bert", 12, 768, 12, 12, 64, 3072, 30528, 2048, 1e3, true, 0},
        {"tiny", "llama", 2, 256, 8, 2, 32, 256, 320, 256, 1e4, false, 0},
    };
    int n = 0;
    while (qn_synth_presets()[n]) n++;
    assert_int_equal(n, (int)(sizeof(rows) / sizeof(rows[0])));
    for (int i = 0; i < n; i++) {
        const qn_preset *p = qn__preset_find(rows[i].name);
        assert_non_null(p);
        assert_int_equal(p->n_layer, rows[i].layers);
        assert_int_equal(p->n_vocab, rows[i].vocab);
        assert_int_equal(p->n_embd, rows[i].embd);
        const int embd = rows[i].written_embd ? rows[i].written_embd : rows[i].embd;
        const char *path = tiny_path("preset.gguf");
        qn_gguf *file = NULL;
        qn_model *m = NULL;
        double rope = 0;
        char key[64];
        MUST(qn_synth(path,
                      &(qn_synth_options){.preset = rows[i].name,
                                          .n_layer = 1,
                                          .n_embd = rows[i].written_embd,
                                          .n_embd_head = rows[i].written_embd ? rows[i].dim : 0,
                                          .n_ff = 64,
                                          .n_vocab = 300,
                                          .type = "Q4_0"},
                      NULL, NULL, err));
        MUST(qn_gguf_open(path, NULL, &file, err));
        MUST(qn__model_load(file, 300, &m, err)); /* every tensor that the architecture needs, in shape */
        assert_string_equal(m->arch->name, rows[i].arch);
        assert_int_equal(meta_u64(file, rows[i].arch, "embedding_length"), embd);
        assert_int_equal(meta_u64(file, rows[i].arch, "attention.head_count"), rows[i].head);
        assert_int_equal(meta_u64(file, rows[i].arch, "attention.head_count_kv"), rows[i].kv);
        assert_int_equal(meta_u64(file, rows[i].arch, "attention.key_length"), rows[i].dim);
        assert_int_equal(meta_u64(file, rows[i].arch, "context_length"), rows[i].ctx);
        assert_int_equal(meta_u64(file, rows[i].arch, "feed_forward_length"), 64);
        snprintf(key, sizeof(key), "%s.rope.freq_base", rows[i].arch);
        const qn_gguf_kv *base = qn_gguf_kv_find(file, key); /* none where positions are learned */
        if (base) MUST(qn_gguf_get_f64(file, base, 0, &rope, err));
        assert_float_equal(rope, rows[i].rope, 0);
        assert_int_equal(qn_gguf_tensor_find(file, "output.weight") == NULL, rows[i].tied);
        const qn_gguf_tensor *q = qn_gguf_tensor_find(file, "blk.0.attn_q.weight");
        const qn_gguf_tensor *qkv = qn_gguf_tensor_find(file, "blk.0.attn_qkv.weight");
        const bool short_head = m->hp.n_embd_head_k_window && m->layers[0].hp.windowed;
        const int head = m->hp.n_lora_kv ? 192 : short_head ? 256 : rows[i].dim; /* cached: c and what is rotated */
        const int n_heads = rows[i].head + (q ? 0 : 2 * rows[i].kv);
        assert_true(qn_shape_equal(q ? &q->shape : &qkv->shape, &qn_shape_of(n_heads * head, embd)));
        assert_int_equal(p->n_ff, rows[i].ff);
        qn__model_free(m);
        qn_gguf_close(file);
        unlink(path);
    }
}

/* Of gemma-4-e2b's 35 layers 20 read the keys of others; of fewer as many as leave a layer of each sight before them.
 */
static void slices(void **state)
{
    (void)state;
    static const struct {
        int32_t n_layer;
        uint32_t shared;
    } rows[] = {{1, 0}, {5, 0}, {6, 1}, {7, 2}, {14, 8}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = tiny_path("slice.gguf");
        qn_gguf *file = NULL;
        qn_model *m = NULL;
        MUST(qn_synth(path,
                      &(qn_synth_options){.preset = "gemma-4-e2b",
                                          .n_layer = rows[i].n_layer,
                                          .n_embd = 64,
                                          .n_embd_head = 16,
                                          .n_ff = 32,
                                          .n_vocab = 300,
                                          .type = "F16"},
                      NULL, NULL, err));
        MUST(qn_gguf_open(path, NULL, &file, err));
        MUST(qn__model_load(file, 300, &m, err));
        assert_int_equal(m->hp.n_kv_shared, rows[i].shared);
        qn__model_free(m);
        qn_gguf_close(file);
        unlink(path);
    }
}

static void same_seed_same_file(void **state)
{
    (void)state;
    for (int a = 0; a < TINY_N_ARCHS; a++) {
        char *data[3];
        size_t n[3];
        for (int i = 0; i < 3; i++) {
            qn_synth_options o = small;
            o.arch = tiny_archs[a];
            o.seed = i == 2 ? 8 : 7;
            MUST(qn_synth(tiny_path("s.gguf"), &o, NULL, NULL, err));
            data[i] = read_file(tiny_path("s.gguf"), &n[i]);
        }
        assert_int_equal(n[0], n[1]);
        assert_int_equal(n[0], n[2]);
        assert_memory_equal(data[0], data[1], n[0]);
        size_t differ = 0;
        for (size_t i = 0; i < n[0]; i++) differ += data[0][i] != data[2][i];
        assert_true(differ > n[0] / 2);
        for (int i = 0; i < 3; i++) qn_free(data[i]);
    }
    unlink(tiny_path("s.gguf"));
}

/* Mean, spread and finiteness of what was drawn, by tensor; no two rows alike. */
static void numbers(void **state)
{
    (void)state;
    qn_gguf *file = NULL;
    qn_synth_options o = small;
    o.type = "F32";
    o.arch = "qwen3";
    o.n_embd = 256;
    MUST(qn_synth(tiny_path("n.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(tiny_path("n.gguf"), NULL, &file, err));
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        const float *x = t->data;
        const int64_t n = qn_shape_numel(&t->shape);
        double sum = 0, square = 0;
        assert_int_equal(t->dtype, QN_DTYPE_F32);
        for (int64_t k = 0; k < n; k++) {
            assert_true(isfinite(x[k]));
            sum += x[k];
            square += (double)x[k] * x[k];
        }
        const double mean = sum / (double)n, spread = sqrt(square / (double)n - mean * mean);
        if (t->shape.rank == 1) {
            assert_true(fabs(mean - 1) < 0.05 && spread < 0.05 && spread > 0.01);
            continue;
        }
        if (fabs(mean) > 0.0004 || fabs(spread - 0.02) > 0.001)
            fail_msg("%s: mean %g, spread %g", t->name, mean, spread);
        const int64_t row = t->shape.dim[1];
        for (int64_t r = 1; r < t->shape.dim[0]; r++)
            assert_memory_not_equal(x + r * row, x + (r - 1) * row, (size_t)row * 4);
    }
    qn_gguf_close(file);
    unlink(tiny_path("n.gguf"));
}

/* What a mix gives each tensor; K-quants need rows of 256. Sensitive layers of 8 under llama.cpp's rule: the first and
 * last eighth, and every third between. */
static void mixes(void **state)
{
    (void)state;
    /* clang-format off */
    static const struct { const char *type; qn_dtype base, output, sensitive; uint64_t file_type; } rows[] = {
        {NULL, QN_DTYPE_F16, QN_DTYPE_F16, QN_DTYPE_F16, 1},
        {"F32", QN_DTYPE_F32, QN_DTYPE_F32, QN_DTYPE_F32, 0},
        {"BF16", QN_DTYPE_BF16, QN_DTYPE_BF16, QN_DTYPE_BF16, 32},
        {"q8_0", QN_DTYPE_Q8_0, QN_DTYPE_Q8_0, QN_DTYPE_Q8_0, 7},
        {"Q4_0", QN_DTYPE_Q4_0, QN_DTYPE_Q6_K, QN_DTYPE_Q4_0, 2},
        {"Q4_K_M", QN_DTYPE_Q4_K, QN_DTYPE_Q6_K, QN_DTYPE_Q6_K, 15},
        {"Q5_K_M", QN_DTYPE_Q5_K, QN_DTYPE_Q6_K, QN_DTYPE_Q6_K, 17},
        {"Q3_K_M", QN_DTYPE_Q3_K, QN_DTYPE_Q6_K, QN_DTYPE_Q4_K, 12},
        {"Q2_K", QN_DTYPE_Q2_K, QN_DTYPE_Q6_K, QN_DTYPE_Q3_K, 10},
        {"Q6_K", QN_DTYPE_Q6_K, QN_DTYPE_Q6_K, QN_DTYPE_Q6_K, 18},
        {"IQ4_XS", QN_DTYPE_IQ4_XS, QN_DTYPE_Q6_K, QN_DTYPE_IQ4_XS, 30},
    };
    /* clang-format on */
    static const bool sensitive[8] = {true, false, false, true, false, false, true, true};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        qn_gguf *file = NULL;
        uint64_t file_type = 99;
        qn_synth_options o = {
            .n_layer = 8, .n_embd = 256, .n_head = 4, .n_ff = 256, .n_vocab = 300, .type = rows[i].type};
        MUST(qn_synth(tiny_path("m.gguf"), &o, NULL, NULL, err));
        MUST(qn_gguf_open(tiny_path("m.gguf"), NULL, &file, err));
        MUST(qn_gguf_verify(file, NULL, NULL, err));
        MUST(qn_gguf_get_u64(file, qn_gguf_kv_find(file, "general.file_type"), 0, &file_type, err));
        assert_int_equal(file_type, rows[i].file_type);
        assert_int_equal(qn_gguf_tensor_find(file, "output.weight")->dtype, rows[i].output);
        assert_int_equal(qn_gguf_tensor_find(file, "token_embd.weight")->dtype, rows[i].base);
        assert_int_equal(qn_gguf_tensor_find(file, "output_norm.weight")->dtype, QN_DTYPE_F32);
        for (int l = 0; l < 8; l++) {
            char name[64];
            snprintf(name, sizeof(name), "blk.%d.attn_v.weight", l);
            assert_int_equal(qn_gguf_tensor_find(file, name)->dtype, sensitive[l] ? rows[i].sensitive : rows[i].base);
            snprintf(name, sizeof(name), "blk.%d.ffn_down.weight", l);
            assert_int_equal(qn_gguf_tensor_find(file, name)->dtype, sensitive[l] ? rows[i].sensitive : rows[i].base);
            snprintf(name, sizeof(name), "blk.%d.attn_q.weight", l);
            assert_int_equal(qn_gguf_tensor_find(file, name)->dtype, rows[i].base);
        }
        qn_gguf_close(file);
    }
    /* Rows that no K-quant's blocks divide fall back to Q8_0, and to F16 where not even 32 does. */
    qn_gguf *file = NULL;
    qn_synth_options o = small;
    o.type = "Q4_K_M";
    o.n_ff = 72;
    MUST(qn_synth(tiny_path("m.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(tiny_path("m.gguf"), NULL, &file, err));
    assert_int_equal(qn_gguf_tensor_find(file, "blk.0.attn_q.weight")->dtype, QN_DTYPE_Q8_0);
    assert_int_equal(qn_gguf_tensor_find(file, "blk.0.ffn_down.weight")->dtype, QN_DTYPE_F16);
    qn_gguf_close(file);
    unlink(tiny_path("m.gguf"));
}

static void tokenizer_of_another_file(void **state)
{
    (void)state;
    qn_gguf *from = NULL, *file = NULL;
    qn_synth_options o = small;
    MUST(tiny_write(tiny_path("vocab.gguf"), &(tiny){.tokenizer = "gpt2", .n_vocab = 311}, err));
    o.vocab = tiny_path("vocab.gguf");
    o.n_vocab = 0;
    MUST(qn_synth(tiny_path("v.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(o.vocab, NULL, &from, err));
    MUST(qn_gguf_open(tiny_path("v.gguf"), NULL, &file, err));
    int n = 0;
    for (size_t i = 0; i < qn_gguf_n_kv(from); i++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(from, i), *copy = qn_gguf_kv_find(file, kv->key);
        if (strncmp(kv->key, "tokenizer.", 10) != 0) continue;
        n++;
        assert_non_null(copy);
        assert_int_equal(copy->type, kv->type);
        assert_int_equal(copy->elem, kv->elem);
        assert_int_equal(copy->count, kv->count);
    }
    assert_true(n > 5);
    assert_int_equal(qn_gguf_tensor_find(file, "token_embd.weight")->shape.dim[0], 311);
    qn_gguf_close(file);
    qn_gguf_close(from);

    o.vocab = "/nonexistent/v.gguf";
    REFUSED(io, qn_synth(tiny_path("v.gguf"), &o, NULL, NULL, err), "/nonexistent/v.gguf");
    qn_gguf_writer *w = NULL;
    MUST(qn_gguf_writer_create(tiny_path("bare.gguf"), &w, err));
    qn_gguf_write_str(w, "general.architecture", "llama");
    MUST(qn_gguf_writer_commit(w, err));
    o.vocab = tiny_path("bare.gguf");
    REFUSED(format, qn_synth(tiny_path("v.gguf"), &o, NULL, NULL, err), "bare.gguf", "tokenizer.ggml.tokens");
}

/* The made-up vocabulary is a tokenizer: words come back as they went in, and no piece is there twice. */
static void made_up_vocabulary(void **state)
{
    (void)state;
    qn_gguf *file = NULL;
    qn_tokenizer *tok = NULL;
    qn_synth_options o = small;
    o.n_vocab = 5000;
    MUST(qn_synth(tiny_path("t.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(tiny_path("t.gguf"), NULL, &file, err));
    MUST(qn_tokenizer_create(file, &tok, err));
    assert_int_equal(qn_tokenizer_n_tokens(tok), 5000);
    for (qn_token id = 0; id < 5000; id++) {
        size_t len = 0;
        const char *piece = qn_tokenizer_piece(tok, id, &len);
        assert_int_equal(qn_tokenizer_find(tok, piece, len), id);
    }
    static const char text[] = "kalo mi te  vebox, \xf0\x9f\x90\x88 na!";
    qn_token *ids = NULL;
    size_t n = 0, len = 0;
    char *back = NULL;
    MUST(qn_tokenize(tok, text, sizeof(text) - 1, NULL, &ids, &n, err));
    MUST(qn_detokenize(tok, ids, n, NULL, &back, &len, err));
    assert_int_equal(ids[0], qn_tokenizer_bos(tok));
    assert_string_equal(back, text);
    qn_free(back);
    qn_free(ids);
    qn_tokenizer_destroy(tok);
    qn_gguf_close(file);
    unlink(tiny_path("t.gguf"));
}

/* ---- what goes wrong ---- */

static qn_status try_synth(qn_synth_options o, qn_error *err)
{
    const int before = tiny_n_files();
    const qn_status status = qn_synth(tiny_path("x.gguf"), &o, NULL, NULL, err);
    assert_int_equal(tiny_n_files(), before);
    return status;
}

static void refusals(void **state)
{
    (void)state;
    REFUSED(invalid, try_synth((qn_synth_options){.preset = "gpt-5"}, err), "gpt-5", "tinyllama-1.1b", "qwen3-8b");
    REFUSED(invalid, try_synth((qn_synth_options){0}, err), "layers");
    REFUSED(unsupported, try_synth((qn_synth_options){.preset = "qwen3-0.6b", .arch = "mamba"}, err), "mamba");
    REFUSED(unsupported, try_synth((qn_synth_options){.preset = "qwen3-0.6b", .type = "Q9_K"}, err), "Q9_K");
    REFUSED(unsupported, try_synth((qn_synth_options){.preset = "qwen3-0.6b", .type = "I32"}, err), "I32");
    assert_null(qn__mix_find("IQ2_XS", QN_MIX_packs)); /* only unpacks */
    qn_synth_options o = small;
#define WITH(field, value, status, ...) \
    o = small, o.field = (value); \
    REFUSED(status, try_synth(o, err), __VA_ARGS__)
    WITH(n_layer, -1, invalid, "layers", "-1");
    WITH(n_layer, 5000, invalid, "layers", "4096");
    WITH(n_embd, 1 << 21, invalid, "embedding");
    WITH(n_embd, 63, invalid, "63", "4");
    WITH(n_kv_head, 8, invalid, "KV heads");
    WITH(n_kv_head, 3, invalid, "4", "3");
    WITH(n_embd_head, 7, invalid, "7");
    WITH(n_ff, INT32_MIN, invalid, "feed-forward");
    WITH(n_vocab, 259, invalid, "259", "260");
    WITH(n_vocab, INT32_MAX, invalid, "vocabulary");
    WITH(n_ctx, -4, invalid, "context");
    WITH(spread, -0.5f, invalid, "spread", "-0.5");
    WITH(spread, NAN, invalid, "spread", "nan");
#define SET(text, ...) WITH(set, ((const char *const[]){text, NULL}), invalid, __VA_ARGS__)
    SET("rope.scaling.factor", "rope.scaling.factor", "KEY=VALUE");
    SET("=4", "=4", "KEY=VALUE");
    SET("rope.scaling.factor=", "KEY=VALUE");
    SET("rope.scaling.factr=4", "llama", "rope.scaling.factr");
    SET("rope.scaling.factor=4x", "4x", "1e+06");
    SET("rope.scaling.factor=-1", "-1", "from 0");
    SET("rope.scaling.factor=nan", "nan");
    SET("rope.dimension_count=2.5", "2.5", "whole");
    SET("rope.dimension_count=18", "18", "16");
    SET("rope.dimension_count=7", "7", "16");
    SET("attention.key_length=7", "7");
    SET("attention.head_count_kv=3", "3");
#undef SET
#undef WITH
}

static void full_disk(void **state)
{
    (void)state;
    if (access("/dev/full", W_OK) != 0) skip();
    REFUSED(io, qn_synth("/dev/full", &small, NULL, NULL, err), "/dev/full", "No space left");
    qn_synth_options o = small;
    o.n_embd = 1024;
    o.n_ff = 8192; /* 60 MB: it must not be computed to the end */
    uint64_t done = 0;
    qn_metrics before, after;
    qn_metrics_snapshot(&before);
    REFUSED(io, qn_synth("/dev/full", &o, NULL, &done, err), "No space left");
    qn_metrics_snapshot(&after);
    assert_int_equal(after.live_bytes, before.live_bytes);
}

typedef struct watch {
    uint64_t calls, stop_at, last, total;
    bool back;
} watch;
static bool progress(void *ctx, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    w->back |= done < w->last || (w->total && total != w->total) || done > total;
    w->last = done;
    w->total = total;
    return ++w->calls != w->stop_at;
}

static void progress_and_cancel(void **state)
{
    (void)state;
    watch w = {0};
    const int files = tiny_n_files();
    qn_synth_options o = small;
    o.arch = "qwen3"; /* whose last tensor is a vector */
    MUST(qn_synth(tiny_path("p.gguf"), &o, progress, &w, err));
    assert_true(w.calls >= 10 && !w.back);
    assert_int_equal(w.last, w.total);
    qn_gguf *file = NULL;
    uint64_t bytes = 0;
    MUST(qn_gguf_open(tiny_path("p.gguf"), NULL, &file, err));
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) bytes += qn_gguf_tensor_get(file, i)->size_bytes;
    assert_int_equal(w.total, bytes);
    qn_gguf_close(file);
    unlink(tiny_path("p.gguf"));
    for (uint64_t stop = 1; stop <= w.calls; stop += 5) {
        watch cut = {.stop_at = stop};
        qn_metrics before, after;
        qn_metrics_snapshot(&before);
        REFUSED(cancelled, qn_synth(tiny_path("p.gguf"), &o, progress, &cut, err), "cancelled");
        qn_metrics_snapshot(&after);
        assert_int_equal(cut.calls, stop);
        assert_int_equal(after.live_bytes, before.live_bytes);
        assert_int_equal(tiny_n_files(), files);
    }
}

/* One type's pool (half a million numbers, and these packed), a megabyte on its way, a vocabulary: not the file. */
static void bounded_memory(void **state)
{
    (void)state;
    qn_metrics before, after;
    qn_synth_options o = small;
    o.n_layer = 4;
    o.n_embd = 1024;
    o.n_head = 8;
    o.n_ff = 2560;
    qn_metrics_reset();
    qn_metrics_snapshot(&before);
    MUST(qn_synth(tiny_path("b.gguf"), &o, NULL, NULL, err));
    qn_metrics_snapshot(&after);
    qn_gguf *file = NULL;
    MUST(qn_gguf_open(tiny_path("b.gguf"), NULL, &file, err));
    assert_true(qn_gguf_file_bytes(file) > 60 << 20);
    assert_true(after.peak_bytes - before.live_bytes < 6 << 20);
    qn_gguf_close(file);
    unlink(tiny_path("b.gguf"));
}

static void tied(void **state)
{
    (void)state;
    qn_gguf *file = NULL;
    qn_synth_options o = small;
    o.tied = true;
    MUST(qn_synth(tiny_path("tied.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(tiny_path("tied.gguf"), NULL, &file, err));
    assert_null(qn_gguf_tensor_find(file, "output.weight"));
    qn_gguf_close(file);
    /* A preset's own word holds when its sizes are overridden. */
    o = (qn_synth_options){
        .preset = "llama-3.2-1b", .n_layer = 1, .n_embd = 64, .n_head = 4, .n_kv_head = 2, .n_ff = 64, .n_vocab = 300};
    MUST(qn_synth(tiny_path("tied.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(tiny_path("tied.gguf"), NULL, &file, err));
    assert_null(qn_gguf_tensor_find(file, "output.weight"));
    qn_gguf_close(file);
    unlink(tiny_path("tied.gguf"));
}

/* Tensors that a file may leave out, biases and RoPE factors, are written when asked for, and only then. */
static void optional_tensors(void **state)
{
    (void)state;
    static const char *const names[] = {"rope_freqs.weight", "blk.0.attn_q.bias", "blk.1.attn_output.bias",
                                        "blk.1.ffn_down.bias"};
    for (int asked = 0; asked < 2; asked++) {
        qn_gguf *file = NULL;
        qn_model *m = NULL;
        qn_synth_options o = small;
        o.optional = asked;
        o.spread = 0.1f;
        MUST(qn_synth(tiny_path("o.gguf"), &o, NULL, NULL, err));
        MUST(qn_gguf_open(tiny_path("o.gguf"), NULL, &file, err));
        MUST(qn__model_load(file, 300, &m, err));
        for (int i = 0; i < 4; i++) {
            const qn_gguf_tensor *t = qn_gguf_tensor_find(file, names[i]);
            assert_int_equal(t != NULL, asked);
            /* Factors lie around 1, where angles stay angles; biases around 0, as wide as what they are added to. */
            const float *x = t ? t->data : NULL;
            double largest = 0;
            for (int64_t k = 0; t && k < t->shape.dim[0]; k++)
                largest = fmax(largest, fabs((double)x[k] - (i == 0 ? 1 : 0)));
            if (t) assert_true(largest > (i == 0 ? 0.02 : 0.12) && largest <= (i == 0 ? 0.05 : 0.25));
        }
        qn__model_free(m);
        qn_gguf_close(file);
    }
    unlink(tiny_path("o.gguf"));
}

/* Every type that weights can have is written, the ones that only unpack too, with the spread that is asked for. */
static void every_type(void **state)
{
    (void)state;
    static float values[256 * 256];
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        const bool weights =
            info->class_ == QN_CLASS_block || d == QN_DTYPE_F32 || d == QN_DTYPE_F16 || d == QN_DTYPE_BF16;
        if (!weights) continue;
        qn_gguf *file = NULL;
        MUST(qn_synth(tiny_path("e.gguf"), &(qn_synth_options){.preset = "tiny", .spread = 0.1f, .type = info->name},
                      NULL, NULL, err));
        MUST(qn_gguf_open(tiny_path("e.gguf"), NULL, &file, err));
        const qn_gguf_tensor *t = qn_gguf_tensor_find(file, "blk.1.attn_q.weight");
        assert_int_equal(t->dtype, d);
        MUST(qn_unpack(t->dtype, t->data, values, 256 * 256, err));
        double sum = 0, square = 0;
        for (int k = 0; k < 256 * 256; k++) sum += (double)values[k], square += (double)values[k] * (double)values[k];
        const double mean = sum / 65536, spread = sqrt(square / 65536 - mean * mean);
        /* two bits cannot keep a spread, nor do they have a zero in the middle */
        if (!(fabs(mean) < 0.01 && spread > 0.08 && spread < 0.12))
            fail_msg("%s: mean %g, spread %g", info->name, mean, spread);
        qn_gguf_close(file);
    }
    unlink(tiny_path("e.gguf"));
}

/* What no option names is set by its key, and comes back as it was set; the shapes follow. */
static void set_by_key(void **state)
{
    (void)state;
    qn_gguf *file = NULL;
    qn_hparams hp;
    qn_synth_options o = small;
    o.set = (const char *const[]){"rope.scaling.type=yarn",
                                  "rope.scaling.factor=4",
                                  "rope.scaling.original_context_length=16",
                                  "rope.dimension_count=8",
                                  "attention.value_length=24",
                                  "attention.layer_norm_rms_epsilon=1e-3",
                                  NULL};
    MUST(qn_synth(tiny_path("k.gguf"), &o, NULL, NULL, err));
    MUST(qn_gguf_open(tiny_path("k.gguf"), NULL, &file, err));
    MUST(qn__hparams_read(file, qn__arch_find("llama"), &hp, err));
    MUST(qn__hparams_settle(qn__arch_find("llama"), &hp, err));
    assert_float_equal(hp.rope.freq_scale, 0.25f, 0);
    assert_float_equal(hp.rope.ext_factor, 1, 0);
    assert_int_equal(hp.rope.n_ctx_orig, 16);
    assert_int_equal(hp.rope.n_rot, 8);
    assert_float_equal(hp.norm_eps, 1e-3f, 0);
    assert_true(qn_shape_equal(&qn_gguf_tensor_find(file, "blk.0.attn_output.weight")->shape, &qn_shape_of(64, 96)));
    assert_null(qn_gguf_kv_find(file, "llama.rope.scaling.attn_factor")); /* nobody gave it */
    qn_gguf_close(file);
    unlink(tiny_path("k.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optional_tensors),
        cmocka_unit_test(every_type),
        cmocka_unit_test(set_by_key),
        cmocka_unit_test(presets),
        cmocka_unit_test(slices),
        cmocka_unit_test(same_seed_same_file),
        cmocka_unit_test(numbers),
        cmocka_unit_test(mixes),
        cmocka_unit_test(tokenizer_of_another_file),
        cmocka_unit_test(made_up_vocabulary),
        cmocka_unit_test(refusals),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(progress_and_cancel),
        cmocka_unit_test(bounded_memory),
        cmocka_unit_test(tied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
