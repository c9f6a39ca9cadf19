/* SPDX-License-Identifier: MIT */
/* src/model/synth_types.c -- presets, and which type each tensor has under a mix. */
#include "model/synth.h"
#include <string.h>
#include <strings.h>

/* Shapes from the models' published configurations; and "tiny", of a megabyte, in rows that every format's blocks
 * divide: what tests are made of. QN_PRESET(name,         arch,    layers embd heads kv  head ff     vocab   ctx rope
 * tied, set) */
/* What synth writes has one length for all layers: the mean of 15 of 6144 and 20 of 12288, in whole blocks. */
#define GEMMA_4_E2B_FF 9728
/* clang-format off */
#define QN_PRESET_ROWS(QN_PRESET) \
    QN_PRESET("tinyllama-1.1b", "llama", 22, 2048, 32, 4, 64,  5632,  32000,  2048,   1e4f, false, NULL) \
    QN_PRESET("llama-3.2-1b",   "llama", 16, 2048, 32, 8, 64,  8192,  128256, 131072, 5e5f, true, NULL) \
    QN_PRESET("llama-3-8b",     "llama", 32, 4096, 32, 8, 128, 14336, 128256, 8192,   5e5f, false, NULL) \
    QN_PRESET("qwen2.5-0.5b",   "qwen2", 24, 896,  14, 2, 64,  4864,  151936, 32768,  1e6f, true, NULL) \
    QN_PRESET("qwen2.5-7b",     "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768,  1e6f, false, NULL) \
    QN_PRESET("qwen3-0.6b",     "qwen3", 28, 1024, 16, 8, 128, 3072,  151936, 40960,  1e6f, true, NULL) \
    QN_PRESET("qwen3-8b",       "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960,  1e6f, false, NULL) \
    QN_PRESET("gemma-3-1b",     "gemma3", 26, 1152, 4, 1, 256, 6912,  262144, 32768,  1e6f, true, \
              "attention.sliding_window=512") \
    QN_PRESET("gemma-4-e2b",    "gemma4", 35, 1536, 8, 1, 512, GEMMA_4_E2B_FF, 262144, 131072, 1e6f, true, \
              "attention.sliding_window=512 attention.sliding_window_pattern=5 attention.key_length_swa=256 " \
              "attention.value_length_swa=256 attention.shared_kv_layers=20 embedding_length_per_layer_input=256 " \
              "final_logit_softcapping=30") \
    QN_PRESET("phi-4-mini",     "phi3",  32, 3072, 24, 8, 128, 8192,  200064, 131072, 1e4f, true, \
              "rope.dimension_count=96 rope.scaling.original_context_length=4096") \
    QN_PRESET("deepseek-v2-lite", "deepseek2", 27, 2048, 16, 1, 192, 10944, 102400, 163840, 1e4f, false, \
              "attention.key_length=576 attention.value_length=512 attention.kv_lora_rank=512 " \
              "attention.key_length_mla=192 attention.value_length_mla=128 rope.dimension_count=64 " \
              "expert_count=64 expert_used_count=6 expert_shared_count=2 expert_feed_forward_length=1408 " \
              "leading_dense_block_count=1 expert_weights_scale=1 rope.scaling.type=yarn rope.scaling.factor=40 " \
              "rope.scaling.original_context_length=4096 rope.scaling.yarn_log_multiplier=0.0707") \
    QN_PRESET("olmoe-1b-7b",    "olmoe", 16, 2048, 16, 16, 128, 1024, 50304,  4096,   1e4f, false, \
              "expert_count=64 expert_used_count=8") \
    QN_PRESET("qwen3-30b-a3b",  "qwen3moe", 48, 2048, 32, 4, 128, 6144, 151936, 40960, 1e6f, false, \
              "expert_count=128 expert_used_count=8 expert_feed_forward_length=768") \
    QN_PRESET("gpt-oss-20b",    "gpt-oss", 24, 2880, 64, 8, 64, 2880, 201088, 131072, 1.5e5f, false, \
              "expert_count=32 expert_used_count=4 expert_feed_forward_length=2880 attention.sliding_window=128 " \
              "rope.scaling.type=yarn rope.scaling.factor=32 rope.scaling.original_context_length=4096") \
    QN_PRESET("bge-small",      "bert",  12, 384,  12, 12, 32, 1536,  30522,  512,    1e4f, true, NULL) \
    QN_PRESET("nomic-embed",    "nomic-bert", 12, 768, 12, 12, 64, 3072, 30528, 2048, 1e3f, true, NULL) \
    QN_PRESET("tiny",           "llama", 2,  256,  8,  2, 32,  256,   320,    256,    1e4f, false, NULL)
/* clang-format on */

static const qn_preset presets[] = {
/* clang-format off */
#define QN_PRESET(...) {__VA_ARGS__},
    /* clang-format on */
    QN_PRESET_ROWS(QN_PRESET)
#undef QN_PRESET
};
enum { N_PRESETS = sizeof(presets) / sizeof(presets[0]) };

const qn_preset *qn__preset_find(const char *name)
{
    for (int i = 0; i < N_PRESETS; i++)
        if (strcasecmp(presets[i].name, name) == 0) return &presets[i];
    return NULL;
}

const char *const *qn_synth_presets(void)
{
    static const char *const names[] = {
#define QN_PRESET(name, ...) name,
        QN_PRESET_ROWS(QN_PRESET)
#undef QN_PRESET
            NULL,
    };
    return names;
}

/* The mixes of the llama.cpp quantizer: a base type, a better one for the output and for the values and down
 * projections of some layers. `file_type` is the number that general.file_type stores. */
struct qn_mix {
    const char *name;
    qn_dtype base, output, sensitive;
    uint32_t file_type;
};

/* MIX(name, base, output, sensitive, file_type) */
/* clang-format off */
#define QN_MIX_ROWS(MIX) \
    MIX(Q2_K,    Q2_K,    Q6_K, Q3_K,    10) \
    MIX(Q3_K_M,  Q3_K,    Q6_K, Q4_K,    12) \
    MIX(Q4_K_S,  Q4_K,    Q6_K, Q4_K,    14) \
    MIX(Q4_K_M,  Q4_K,    Q6_K, Q6_K,    15) \
    MIX(Q5_K_S,  Q5_K,    Q6_K, Q5_K,    16) \
    MIX(Q5_K_M,  Q5_K,    Q6_K, Q6_K,    17) \
    MIX(F32,     F32,     F32,  F32,     0) \
    MIX(F16,     F16,     F16,  F16,     1) \
    MIX(BF16,    BF16,    BF16, BF16,    32) \
    MIX(Q4_0,    Q4_0,    Q6_K, Q4_0,    2) \
    MIX(Q4_1,    Q4_1,    Q6_K, Q4_1,    3) \
    MIX(Q5_0,    Q5_0,    Q6_K, Q5_0,    8) \
    MIX(Q5_1,    Q5_1,    Q6_K, Q5_1,    9) \
    MIX(Q8_0,    Q8_0,    Q8_0, Q8_0,    7) \
    MIX(Q3_K,    Q3_K,    Q6_K, Q3_K,    11) \
    MIX(Q4_K,    Q4_K,    Q6_K, Q4_K,    14) \
    MIX(Q5_K,    Q5_K,    Q6_K, Q5_K,    16) \
    MIX(Q6_K,    Q6_K,    Q6_K, Q6_K,    18) \
    MIX(IQ4_NL,  IQ4_NL,  Q6_K, IQ4_NL,  25) \
    MIX(IQ4_XS,  IQ4_XS,  Q6_K, IQ4_XS,  30) \
    MIX(MXFP4,   MXFP4,   Q8_0, MXFP4,   38) \
    MIX(NVFP4,   NVFP4,   Q8_0, NVFP4,   39) \
    MIX(TQ1_0,   TQ1_0,   Q6_K, TQ1_0,   36) \
    MIX(TQ2_0,   TQ2_0,   Q6_K, TQ2_0,   37) \
    MIX(IQ1_S,   IQ1_S,   Q6_K, IQ1_S,   24) \
    MIX(IQ1_M,   IQ1_M,   Q6_K, IQ1_M,   31) \
    MIX(IQ2_XXS, IQ2_XXS, Q6_K, IQ2_XXS, 19) \
    MIX(IQ2_XS,  IQ2_XS,  Q6_K, IQ2_XS,  20) \
    MIX(IQ2_S,   IQ2_S,   Q6_K, IQ2_S,   28) \
    MIX(IQ3_XXS, IQ3_XXS, Q6_K, IQ3_XXS, 23) \
    MIX(IQ3_S,   IQ3_S,   Q6_K, IQ3_S,   26)
/* clang-format on */

static const qn_mix mixes[] = {
#define QN_MIX(name, base, output, sensitive, file_type) \
    {#name, QN_DTYPE_##base, QN_DTYPE_##output, QN_DTYPE_##sensitive, file_type},
    QN_MIX_ROWS(QN_MIX)
#undef QN_MIX
};

const char *const *qn_synth_types(void)
{
    static const char *const names[] = {
#define QN_MIX(name, ...) #name,
        QN_MIX_ROWS(QN_MIX)
#undef QN_MIX
            NULL,
    };
    return names;
}

const qn_mix *qn__mix_find(const char *name, qn_mix_use use)
{
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
        if (strcasecmp(mixes[i].name, name) == 0)
            return use == QN_MIX_any || qn_dtype_can_pack(mixes[i].base) ? &mixes[i] : NULL;
    return NULL;
}

uint32_t qn__mix_file_type(const qn_mix *mix) { return mix->file_type; }

/* The first and last eighth of the layers, and every third between them, get more bits. */
static bool sensitive_layer(int layer, int n_layer)
{
    return layer < n_layer / 8 || layer >= 7 * n_layer / 8 || (layer - n_layer / 8) % 3 == 2;
}

qn_dtype qn__mix_dtype(const qn_mix *mix, const char *tensor, int layer, int n_layer)
{
    if (strcmp(tensor, "output.weight") == 0) return mix->output;
    const bool sensitive =
        strstr(tensor, "attn_v.weight") || strstr(tensor, "ffn_down.weight") || strstr(tensor, "ffn_down_exps.weight");
    return sensitive && sensitive_layer(layer, n_layer) ? mix->sensitive : mix->base;
}
