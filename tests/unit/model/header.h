/* SPDX-License-Identifier: MIT */
/* tests/unit/model/header.h -- headers of tiny models in memory, row by row of an architecture: any key and any tensor
 * can be left out, replaced or misshaped. Shapes follow from the keys that were written, where these can be read. */
#ifndef QN_TEST_MODEL_HEADER_H
#define QN_TEST_MODEL_HEADER_H

#include "format/gguf_writer.h"
#include "model/arch.h"
#include <stdio.h>
#include <string.h>

enum { HEADER_VOCAB = 40, HEADER_MAX_LAYERS = 8 };

typedef struct header {
    const qn_arch *arch;
    /* Told before a key or a tensor is written; true: it has been seen to, or is left out. May be NULL. */
    bool (*key)(void *arg, qn_gguf_writer *w, const char *key, const qn_hparam_row *row);
    bool (*tensor)(void *arg, const qn_tensor_row *row, const char *name, qn_dtype *dtype, qn_shape *shape);
    void *arg;
    uint64_t most_bytes; /* of the tensors' data, those beyond are left out; 0: any */
    uint64_t bytes;      /* what they have */
} header;

/* The numbers of a model of two layers. */
static inline qn_hparams header_numbers(const qn_arch *arch)
{
    qn_hparams hp = {.n_layer = 2,
                     .n_embd = 32,
                     .n_head = 4,
                     .n_kv_head = 2,
                     .n_embd_head_k = 8,
                     .n_embd_head_v = 8,
                     .n_ff = 48,
                     .n_vocab = HEADER_VOCAB,
                     .n_ctx_train = 64,
                     .norm_eps = 1e-5f,
                     .rope_base = 10000};
    qn__hparams_fill(&hp, arch);
    return hp;
}

static inline void header_keys(const header *h, qn_gguf_writer *w)
{
    const qn_hparams hp = header_numbers(h->arch);
    qn_gguf_write_str(w, "general.architecture", h->arch->name);
    for (int i = 0; i < h->arch->n_hparams; i++) {
        const qn_hparam_row *row = &h->arch->hparams[i];
        const double value = qn__hparam_get(&hp, row);
        char key[192];
        (void)qn__hparam_key(h->arch, row, key, sizeof key);
        if (h->key && h->key(h->arg, w, key, row)) continue;
        if (value != 0 || row->required) qn__hparam_write(w, key, row, value);
    }
}

/* A vocabulary of single letters. */
static inline void header_tokens(qn_gguf_writer *w)
{
    static char text[HEADER_VOCAB][8];
    static qn_gguf_str pieces[HEADER_VOCAB];
    static float scores[HEADER_VOCAB];
    static int32_t types[HEADER_VOCAB];
    for (int i = 0; i < HEADER_VOCAB; i++) {
        snprintf(text[i], sizeof text[i], i < 3 ? "<%c>" : "%c", i < 3 ? "use"[i] : '0' + i);
        pieces[i] = (qn_gguf_str){text[i], strlen(text[i])};
        types[i] = i == 0 ? 2 : i < 3 ? 3 : 1;
        scores[i] = (float)-i;
    }
    qn_gguf_write_str(w, "tokenizer.ggml.model", "llama");
    qn_gguf_write_strs(w, "tokenizer.ggml.tokens", pieces, HEADER_VOCAB);
    qn_gguf_write_array(w, "tokenizer.ggml.token_type", QN_GGUF_i32, types, HEADER_VOCAB);
    qn_gguf_write_array(w, "tokenizer.ggml.scores", QN_GGUF_f32, scores, HEADER_VOCAB);
    qn_gguf_write_u32(w, "tokenizer.ggml.eos_token_id", 2);
}

static inline bool header_take(qn_gguf_writer *w, qn_str *bytes, qn_gguf **file)
{
    if (qn__gguf_writer_take_header(w, bytes, NULL) != QN_OK) return false;
    return qn_gguf_open_memory(bytes->data, bytes->len, &(qn_gguf_options){.metadata_only = true}, file, NULL) == QN_OK;
}

/* What a reader makes of the keys; NULL: nothing. */
static inline qn_gguf *header_read(const header *h, qn_str *bytes, qn_hparams *hp)
{
    qn_gguf_writer *w = NULL;
    qn_gguf *file = NULL;
    if (qn__gguf_writer_create_memory(&w, NULL) != QN_OK) return NULL;
    header_keys(h, w);
    if (header_take(w, bytes, &file) && qn__hparams_read(file, h->arch, hp, NULL) == QN_OK &&
        qn__hparams_settle(h->arch, hp, NULL) == QN_OK) {
        hp->n_vocab = HEADER_VOCAB;
        return file;
    }
    qn_gguf_close(file);
    return NULL;
}

static inline void header_declare(header *h, qn_gguf_writer *w, const qn_tensor_row *row, int layer,
                                  const qn_hparams *hp, const qn_layer_hp *l)
{
    char name[96];
    if (row->layer)
        snprintf(name, sizeof name, row->name, layer);
    else
        snprintf(name, sizeof name, "%s", row->name);
    qn_shape shape = qn__tensor_row_shape(row, hp, l);
    qn_dtype dtype = QN_DTYPE_F32;
    if (qn_shape_numel(&shape) == 0 || (h->tensor && h->tensor(h->arg, row, name, &dtype, &shape))) return;
    const qn_dtype_info *info = qn_dtype_get(dtype);
    double bytes = (double)info->block_bytes / info->block_elems;
    for (int i = 0; i < shape.rank; i++) bytes *= (double)shape.dim[i];
    bytes += 64; /* to what it is aligned to */
    if (h->most_bytes && (double)h->bytes + bytes > (double)h->most_bytes) return;
    h->bytes += (uint64_t)bytes;
    qn_gguf_declare(w, name, dtype, &shape);
}

static inline void header_tensors(header *h, qn_gguf_writer *w)
{
    qn_str bytes = {0};
    qn_hparams hp;
    qn_gguf *keys = header_read(h, &bytes, &hp);
    if (!keys) {
        hp = header_numbers(h->arch);
        hp.n_rot = hp.n_embd_head_k;
    }
    const int n = qn__n_stored(&hp) < HEADER_MAX_LAYERS ? (int)qn__n_stored(&hp) : HEADER_MAX_LAYERS;
    for (int layer = -1; layer < n; layer++) {
        qn_layer_hp l = qn__layer_hp(&hp, layer < 0 ? 0 : (uint32_t)layer);
        if (keys && layer >= 0) (void)qn__layer_hp_read(keys, h->arch, &hp, (uint32_t)layer, &l, NULL);
        for (int r = 0; r < h->arch->n_tensors; r++) {
            const qn_tensor_row *row = &h->arch->tensors[r];
            if (row->layer == (layer >= 0) && qn__tensor_row_in(row, &hp, &l))
                header_declare(h, w, row, layer, &hp, &l);
        }
    }
    qn_gguf_close(keys);
    qn__str_deinit(&bytes);
}

/* The header's bytes, to be freed; tensors that may lack are left out unless `tensor` writes them. */
static inline qn_status header_build(header *h, bool tokens, qn_str *out, qn_error *err)
{
    qn_gguf_writer *w = NULL;
    h->bytes = 0;
    QN_TRY(qn__gguf_writer_create_memory(&w, err));
    header_keys(h, w);
    if (tokens) header_tokens(w);
    header_tensors(h, w);
    return qn__gguf_writer_take_header(w, out, err);
}

#endif
