/* SPDX-License-Identifier: MIT */
/* Binding tensors to slots: a missing, misshapen or mistyped one is named with what was expected; sizes that the file
 * cannot back are refused before anything is allocated for them; what is bound is the file's own bytes. */
#include "load.h"
#include "model/build.h"

static struct {
    const char *name;
    bool drop;
    int dtype;
    qn_shape shape;
} odd; /* dtype -1: as it should be */

static bool change_tensor(const char *name, qn_dtype *dtype, qn_shape *shape)
{
    if (strcmp(name, odd.name) != 0) return false;
    if (odd.dtype >= 0) *dtype = (qn_dtype)odd.dtype;
    if (odd.shape.rank) *shape = odd.shape;
    return odd.drop;
}

static bool other_arch(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "general.architecture") != 0) return false;
    if (odd.name) qn_gguf_write_str(w, key, odd.name);
    return true;
}

static bool arch_is_a_number(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "general.architecture") != 0) return false;
    qn_gguf_write_u32(w, key, 7);
    return true;
}

static void architectures(void **state)
{
    (void)state;
    odd.name = "mamba\n2";
    char count[32];
    snprintf(count, sizeof count, "the %d that are", TINY_N_ARCHS);
    REFUSED(unsupported, load_tiny(&(tiny){.key = other_arch}, 0, NULL, err), "\"mamba", count);
    odd.name = "llama2"; /* no prefix is enough */
    REFUSED(unsupported, load_tiny(&(tiny){.key = other_arch}, 0, NULL, err), "\"llama2\"");
    odd.name = "";
    REFUSED(unsupported, load_tiny(&(tiny){.key = other_arch}, 0, NULL, err), "\"\"", "quern synth");
    odd.name = NULL;
    REFUSED(format, load_tiny(&(tiny){.key = other_arch}, 0, NULL, err), "general.architecture is missing");
    REFUSED(format, load_tiny(&(tiny){.key = arch_is_a_number}, 0, NULL, err), "general.architecture", "u32");
    for (const char *const *name = qn_architectures(); *name; name++)
        MUST(load_tiny(&(tiny){.arch = *name}, 0, NULL, err));
}

static const struct {
    const char *arch, *name, *shape;
} needed[] = {
    {"llama", "output_norm.weight", "[32]"},      {"llama", "blk.0.attn_norm.weight", "[32]"},
    {"llama", "blk.1.attn_q.weight", "[32,32]"},  {"llama", "blk.0.attn_k.weight", "[16,32]"},
    {"llama", "blk.1.attn_v.weight", "[16,32]"},  {"llama", "blk.0.attn_output.weight", "[32,32]"},
    {"llama", "blk.1.ffn_norm.weight", "[32]"},   {"llama", "blk.0.ffn_gate.weight", "[48,32]"},
    {"llama", "blk.0.ffn_up.weight", "[48,32]"},  {"llama", "blk.1.ffn_down.weight", "[32,48]"},
    {"qwen2", "blk.1.attn_q.bias", "[32]"},       {"qwen2", "blk.0.attn_k.bias", "[16]"},
    {"qwen2", "blk.0.attn_v.bias", "[16]"},       {"qwen3", "blk.0.attn_q_norm.weight", "[8]"},
    {"qwen3", "blk.1.attn_k_norm.weight", "[8]"},
};
enum { N_NEEDED = sizeof(needed) / sizeof(needed[0]) };

static void missing(void **state)
{
    (void)state;
    for (int i = 0; i < N_NEEDED; i++) {
        odd = (__typeof__(odd)){needed[i].name, true, -1, {0}};
        REFUSED(format, load_tiny(&(tiny){.arch = needed[i].arch, .tensor = change_tensor}, 0, NULL, err),
                needed[i].name, "missing", needed[i].arch, needed[i].shape);
    }
    odd = (__typeof__(odd)){"token_embd.weight", true, -1, {0}};
    REFUSED(format, load_tiny(&(tiny){.tensor = change_tensor}, 0, NULL, err), "token_embd.weight", "missing");
}

static void misshapen(void **state)
{
    (void)state;
    const qn_shape wrong[] = {qn_shape_of(31), qn_shape_of(32, 33), qn_shape_of(2, 16, 32), qn_shape_of(32, 32, 1),
                              qn_shape_of(1)};
    static const char *const text[] = {"[31]", "[32,33]", "[2,16,32]", "[32,32,1]", "[1]"};
    for (int i = 0; i < N_NEEDED; i++)
        for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
            odd = (__typeof__(odd)){needed[i].name, false, -1, wrong[k]};
            REFUSED(format, load_tiny(&(tiny){.arch = needed[i].arch, .tensor = change_tensor}, 0, NULL, err),
                    needed[i].name, text[k], needed[i].shape);
        }
    odd = (__typeof__(odd)){"output.weight", false, -1, qn_shape_of(299, 32)};
    REFUSED(format, load_tiny(&(tiny){.tensor = change_tensor}, 0, NULL, err), "output.weight", "[299,32]", "[300,32]");
    odd = (__typeof__(odd)){"token_embd.weight", false, -1, qn_shape_of(300)};
    REFUSED(format, load_tiny(&(tiny){.tensor = change_tensor}, 0, NULL, err), "token_embd.weight", "[300]", "32");
    odd = (__typeof__(odd)){"token_embd.weight", false, -1, qn_shape_of(300, 31)};
    REFUSED(format, load_tiny(&(tiny){.tensor = change_tensor}, 0, NULL, err), "token_embd.weight", "[300,31]",
            "[300,32]");
}

static void mistyped(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        qn_dtype dtype;
    } rows[] = {
        {"output_norm.weight", QN_DTYPE_Q8_0}, {"blk.0.attn_norm.weight", QN_DTYPE_Q8_0},
        {"output_norm.weight", QN_DTYPE_F64},  {"blk.1.ffn_norm.weight", QN_DTYPE_I32},
        {"token_embd.weight", QN_DTYPE_I8},    {"blk.0.attn_q.weight", QN_DTYPE_I32},
        {"blk.0.attn_v.weight", QN_DTYPE_F64}, {"blk.1.ffn_down.weight", QN_DTYPE_I64},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        odd = (__typeof__(odd)){rows[i].name, false, (int)rows[i].dtype, {0}};
        REFUSED(unsupported, load_tiny(&(tiny){.tensor = change_tensor}, 0, NULL, err), rows[i].name,
                qn_dtype_get(rows[i].dtype)->name);
    }
    /* What is fine: norms in 16 bits, matrices in any real or block type. */
    static const struct {
        const char *name;
        qn_dtype dtype;
    } good[] = {
        {"output_norm.weight", QN_DTYPE_F16},   {"blk.0.ffn_norm.weight", QN_DTYPE_BF16},
        {"blk.0.attn_q.weight", QN_DTYPE_BF16}, {"blk.0.attn_q.weight", QN_DTYPE_Q4_0},
        {"token_embd.weight", QN_DTYPE_Q8_0},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        odd = (__typeof__(odd)){good[i].name, false, (int)good[i].dtype, {0}};
        MUST(load_tiny(&(tiny){.tensor = change_tensor}, 0, NULL, err));
    }
}

/* The embedding says how large the vocabulary is; it may be padded beyond the tokenizer's, not be smaller. */
static void vocabulary(void **state)
{
    (void)state;
    qn_hparams hp;
    MUST(load_tiny(&(tiny){0}, 300, &hp, err));
    assert_int_equal(hp.n_vocab, 300);
    MUST(load_tiny(&(tiny){0}, 299, &hp, err));
    assert_int_equal(hp.n_vocab, 300);
    REFUSED(format, load_tiny(&(tiny){0}, 301, NULL, err), "tokenizer.ggml.tokens", "301", "token_embd.weight", "300");
}

static uint32_t claimed_layers;
static bool claim_layers(qn_gguf_writer *w, const char *key)
{
    if (strcmp(key, "llama.block_count") != 0) return false;
    qn_gguf_write_u32(w, key, claimed_layers);
    return true;
}

static void layers_against_tensors(void **state)
{
    (void)state;
    claimed_layers = 3; /* one more than there are */
    REFUSED(format, load_tiny(&(tiny){.key = claim_layers}, 0, NULL, err), "blk.2.attn_norm.weight", "missing");
    claimed_layers = 4096;
    qn_metrics metrics;
    qn_metrics_reset();
    qn_metrics_snapshot(&metrics);
    const uint64_t before = metrics.live_bytes;
    REFUSED(format, load_tiny(&(tiny){.key = claim_layers}, 0, NULL, err), "llama.block_count is 4096", "21 tensors");
    qn_metrics_snapshot(&metrics);
    assert_true(metrics.peak_bytes < before + (1 << 20)); /* tables of 4096 layers would take 11 MB */
    claimed_layers = 1;                                   /* fewer than there are: the rest is left alone */
    MUST(load_tiny(&(tiny){.key = claim_layers}, 0, NULL, err));
}

static void tied_output(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        const char *path = tiny_path("tied.gguf");
        qn_gguf *file = NULL;
        qn_model *m = NULL;
        MUST(tiny_write(path, &(tiny){.tied = tied}, err));
        MUST(qn_gguf_open(path, NULL, &file, err));
        MUST(qn__model_load(file, 0, &m, err));
        assert_int_equal(m->top.out == m->top.tok_embd, tied);
        assert_int_equal(m->n_weights, (int)qn_gguf_n_tensors(file));
        uint64_t bytes = 0, n = 0;
        for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
            bytes += qn_gguf_tensor_get(file, i)->size_bytes;
            n += (uint64_t)qn_shape_numel(&qn_gguf_tensor_get(file, i)->shape);
        }
        assert_int_equal(m->weight_bytes, bytes);
        assert_int_equal(m->n_params, n);
        assert_ptr_equal(m->layers[1].ffn_down->tensor, qn_gguf_tensor_find(file, "blk.1.ffn_down.weight"));
        assert_ptr_equal(m->layers[0].attn_q->tensor, qn_gguf_tensor_find(file, "blk.0.attn_q.weight"));
        assert_null(m->layers[0].attn_q_bias);
        qn__model_free(m);
        qn_gguf_close(file);
    }
}

/* A norm or a bias lies on the backend of the matrix that it belongs to, or of the next one. */
static void vectors_beside_matrices(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"qwen2", "blk.1.attn_q.bias", "blk.1.attn_q.weight"},
        {"qwen2", "blk.1.attn_k.bias", "blk.1.attn_k.weight"},
        {"qwen2", "blk.0.attn_v.bias", "blk.0.attn_v.weight"},
        {"qwen3", "blk.0.attn_q_norm.weight", "blk.0.attn_q.weight"},
        {"qwen3", "blk.1.attn_k_norm.weight", "blk.1.attn_k.weight"},
        {"qwen3", "blk.1.attn_norm.weight", "blk.1.attn_q.weight"},
        {"llama", "blk.0.ffn_norm.weight", "blk.0.ffn_gate.weight"},
        {"llama", "output_norm.weight", "output.weight"},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const char *path = tiny_path("beside.gguf");
        qn_gguf *file = NULL;
        qn_model *m = NULL;
        int found = 0;
        MUST(tiny_write(path, &(tiny){.arch = rows[r][0]}, err));
        MUST(qn_gguf_open(path, NULL, &file, err));
        MUST(qn__model_load(file, 0, &m, err));
        for (int32_t i = 0; i < m->n_weights; i++) {
            if (strcmp(m->weights[i].name, rows[r][1]) != 0) continue;
            assert_string_equal(m->weights[m->weights[i].beside].name, rows[r][2]);
            found++;
        }
        assert_int_equal(found, 1);
        qn__model_free(m);
        qn_gguf_close(file);
    }
}

/* Every architecture's graphs are built without its weights' bytes: shapes fit, and every weight is used. */
static void graphs(void **state)
{
    (void)state;
    for (const char *const *arch = qn_architectures(); *arch; arch++) {
        const char *path = tiny_path("graph.gguf");
        qn_gguf *file = NULL;
        qn_model *m = NULL;
        qn_graph *g = NULL;
        qn_kv_layer layers[2] = {{0}};
        qn_kv_desc kv = {.layers = layers, .type = QN_DTYPE_F16};
        MUST(tiny_write(path, &(tiny){.arch = *arch}, err));
        MUST(qn_gguf_open(path, NULL, &file, err));
        MUST(qn__model_load(file, 0, &m, err));
        qn__kv_groups(m, 64, 7, 3, 0, &kv);
        MUST(qn__build_decode(m, &kv, &(qn_decode_spec){.n_tokens = 7, .n_out = 2, .hidden = !m->top.out}, &g, err));
        MUST(qn__graph_verify(g, err));
        int n_weights = 0, n_updates = 0;
        const qn_node *logits = NULL;
        for (int i = 0; i < g->n_nodes; i++) {
            const qn_node *n = g->nodes[i];
            n_weights += n->op == QN_OP_param && strncmp(n->name, "cache", 5) != 0 && strcmp(n->name, "lists") != 0;
            n_updates += n->op == QN_OP_set_rows;
            if (n->flags & QN_NODE_output) logits = n;
        }
        assert_int_equal(n_weights, m->n_weights);
        assert_int_equal(n_updates, 4); /* keys and values of two layers */
        assert_non_null(logits);
        assert_string_equal(logits->name, m->top.out ? "logits" : "hidden");
        const qn_shape shape = qn_layout_shape(&logits->layout);
        assert_true(qn_shape_equal(&shape, &qn_shape_of(2, m->top.out ? 300 : 32)));
        qn__graph_destroy(g);
        int n_turned = 0;
        for (uint32_t i = 0; i < m->hp.n_layer; i++) n_turned += m->layers[i].spec.attn.turn != QN_TURN_none;
        for (int copy_v = 0; copy_v < 2; copy_v++) {
            MUST(qn__build_shift(m, &kv, 16, copy_v, &g, err));
            MUST(qn__graph_verify(g, err));
            n_updates = 0;
            for (int i = 0; i < g->n_nodes; i++) n_updates += g->nodes[i]->op == QN_OP_set_rows;
            assert_int_equal(n_updates, copy_v ? 4 : n_turned);
            qn__graph_destroy(g);
        }
        qn__model_free(m);
        qn_gguf_close(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures), cmocka_unit_test(missing),
        cmocka_unit_test(misshapen),     cmocka_unit_test(mistyped),
        cmocka_unit_test(vocabulary),    cmocka_unit_test(layers_against_tensors),
        cmocka_unit_test(tied_output),   cmocka_unit_test(vectors_beside_matrices),
        cmocka_unit_test(graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
