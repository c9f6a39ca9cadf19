/* SPDX-License-Identifier: MIT */
/* src/store/facts.c -- what a file's metadata says of its model. A key of the wrong type counts as absent: these are
 * words for people, and what computing needs is checked where it is used. */
#include "store/store.h"
#include <stdio.h>
#include <string.h>

static void text_of(const qn_gguf *file, const char *key, char *out, size_t size)
{
    qn_gguf_str text;
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    if (kv && kv->type == QN_GGUF_str && qn_gguf_get_str(file, kv, 0, &text, NULL) == QN_OK)
        qn__str_quote(out, size, text.data, text.len);
}

/* Of an array (values of layers that differ) the largest of the first ones. */
static uint64_t number_of(const qn_gguf *file, const char *key)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    uint64_t value, most = 0;
    for (uint64_t i = 0; kv && i < kv->count && i < 1024; i++)
        if (qn_gguf_get_u64(file, kv, i, &value, NULL) == QN_OK && value > most) most = value;
    return most;
}

static uint64_t number_of_arch(const qn_gguf *file, const char *arch, const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    return number_of(file, key);
}

static const char *file_type(uint64_t id)
{
    static const struct {
        uint64_t id;
        const char *name;
    } rows[] = {
#define QN_FILE_TYPE(id, name) {id, name},
#include "store/file_types.def"
#undef QN_FILE_TYPE
    };
    id &= ~UINT64_C(1024); /* "guessed", not said by who made the file */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].id == id) return rows[i].name;
    return NULL;
}

/* The type of most of the weights, for a file that does not say which mix it is. */
static const char *most_used(const qn_gguf *file)
{
    uint64_t bytes[QN_DTYPE_COUNT] = {0};
    int best = -1;
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(file, i);
        bytes[t->dtype] += t->size_bytes;
        if (best < 0 || bytes[t->dtype] > bytes[best]) best = (int)t->dtype;
    }
    return best < 0 ? "" : qn_dtype_get((qn_dtype)best)->name;
}

void qn_model_read_facts(const qn_gguf *file, qn_model_facts *out)
{
    qn_model_facts f = {0};
    text_of(file, "general.type", f.kind, sizeof f.kind);
    text_of(file, "general.name", f.name, sizeof f.name);
    text_of(file, "general.architecture", f.arch, sizeof f.arch);
    text_of(file, "general.license", f.license, sizeof f.license);
    text_of(file, "tokenizer.ggml.model", f.tokenizer, sizeof f.tokenizer);
    if (!f.kind[0]) strcpy(f.kind, "model");
    const char *type =
        qn_gguf_kv_find(file, "general.file_type") ? file_type(number_of(file, "general.file_type")) : NULL;
    snprintf(f.type, sizeof f.type, "%s", type ? type : most_used(file));
    for (size_t i = 0; i < qn_gguf_n_tensors(file); i++)
        f.n_params += (uint64_t)qn_shape_numel(&qn_gguf_tensor_get(file, i)->shape);
    f.n_ctx_train = number_of_arch(file, f.arch, "context_length");
    f.n_layer = number_of_arch(file, f.arch, "block_count");
    f.n_embd = number_of_arch(file, f.arch, "embedding_length");
    f.n_head = number_of_arch(file, f.arch, "attention.head_count");
    f.n_kv_head = number_of_arch(file, f.arch, "attention.head_count_kv");
    f.n_expert = number_of_arch(file, f.arch, "expert_count");
    f.n_vocab = number_of_arch(file, f.arch, "vocab_size");
    const qn_gguf_kv *tokens = qn_gguf_kv_find(file, "tokenizer.ggml.tokens");
    if (tokens && tokens->type == QN_GGUF_arr) f.n_vocab = tokens->count;
    *out = f;
}
