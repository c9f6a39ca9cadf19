/* SPDX-License-Identifier: MIT */
/* src/train/export.c -- the trained model as a GGUF file that loads wherever files of its architecture do. */
#include "lm/decoder.h"
#include "model/synth.h"
#include "train/train.h"
#include <stdio.h>
#include <string.h>

static void write_metadata(const qn_trainer *t, qn_gguf_writer *w, const qn_mix *mix, const char *name)
{
    qn_module_type_of(t->lm)->gguf(t->lm, w);
    if (name) qn_gguf_write_str(w, "general.name", name);
    qn_gguf_write_u32(w, "general.file_type", qn__mix_file_type(mix));
    qn_gguf_write_u32(w, "general.quantization_version", 2);
    qn_vocab_write(t->data.vocab, w);
    if (t->shape) qn_gguf_write_str(w, "tokenizer.chat_template", qn_chat_template_source(t->shape));
}

/* Norms and biases, some of which have a row a head. */
static bool is_vector(const qn_trainer *t, const char *name)
{
    const qn_model *m = qn__decoder_model(t->lm);
    for (int32_t i = 0; i < m->n_weights; i++)
        if (strcmp(m->weights[i].name, name) == 0) return m->weights[i].vector;
    return false;
}

/* A tied embedding is the output matrix, and gets the type of one. */
static qn_dtype dtype_of(const qn_trainer *t, const qn_mix *mix, const qn_train_param *p, const qn_shape *shape)
{
    int layer = -1;
    if (shape->rank < 2 || is_vector(t, p->name)) return QN_DTYPE_F32;
    (void)sscanf(p->name, "blk.%d.", &layer);
    const bool is_output = t->o.tied && strcmp(p->name, "token_embd.weight") == 0;
    const qn_dtype dtype = qn__mix_dtype(mix, is_output ? "output.weight" : p->name, layer, t->o.n_layer);
    const int64_t k = shape->dim[shape->rank - 1];
    if (k % qn_dtype_get(dtype)->block_elems == 0) return dtype;
    return k % 32 == 0 ? QN_DTYPE_Q8_0 : QN_DTYPE_F16;
}

static qn_status write_packed(qn_gguf_writer *w, const qn_train_param *p, qn_dtype dtype, const float *values,
                              int64_t rows, int64_t k, qn_error *err)
{
    const size_t bytes = (size_t)(qn_dtype_row_bytes(dtype, k) * rows);
    void *packed = qn__alloc(bytes);
    if (!packed) return QN_FAIL_NOMEM(err, bytes);
    qn_status status = qn_pack(dtype, values, packed, rows, k, NULL, err);
    if (status != QN_OK)
        status = qn__prefix(err, status, "%s", p->name);
    else
        qn_gguf_write_data(w, packed, bytes);
    qn__free(packed);
    return status;
}

static qn_status write_tensor(qn_trainer *t, qn_gguf_writer *w, const qn_mix *mix, const qn_train_param *p,
                              qn_error *err)
{
    const qn_shape shape = qn_shape_get(p->value);
    const qn_dtype dtype = dtype_of(t, mix, p, &shape);
    const int64_t k = shape.dim[shape.rank - 1], rows = qn_shape_numel(&shape) / k;
    const size_t bytes = (size_t)(qn_dtype_row_bytes(dtype, k) * rows);
    float *own = NULL;
    if (!t->has_best) {
        own = qn__alloc((size_t)(rows * k) * sizeof *own);
        if (!own) return QN_FAIL_NOMEM(err, (size_t)(rows * k) * sizeof *own);
    }
    qn_status status = own ? qn__train_values(t, p, own, err) : QN_OK;
    const float *values = own ? own : p->best;
    if (status == QN_OK && dtype == QN_DTYPE_F32)
        qn_gguf_write_data(w, values, bytes);
    else if (status == QN_OK)
        status = write_packed(w, p, dtype, values, rows, k, err);
    qn__free(own);
    return status;
}

qn_status qn_trainer_export(qn_trainer *t, const char *path, const char *type, const char *name, qn_error *err)
{
    if (t->lora) return qn__lora_export(t, path, type, name, err);
    const qn_mix *mix = qn__mix_find(type ? type : "F32", QN_MIX_packs);
    if (!mix) return QN_FAIL(err, unsupported, "type \"%.64s\" is no mix and no type that can be packed", type);
    qn_gguf_writer *w = NULL;
    QN_TRY(qn_gguf_writer_create(path, &w, err));
    write_metadata(t, w, mix, name);
    for (int32_t i = 0; i < t->n_params; i++) {
        const qn_shape shape = qn_shape_get(t->params[i].value);
        qn_gguf_declare(w, t->params[i].name, dtype_of(t, mix, &t->params[i], &shape), &shape);
    }
    qn_status status = qn_gguf_writer_status(w, err);
    for (int32_t i = 0; i < t->n_params && status == QN_OK; i++) {
        status = write_tensor(t, w, mix, &t->params[i], err);
        if (status == QN_OK) status = qn_gguf_writer_status(w, err);
    }
    if (status == QN_OK) return qn_gguf_writer_commit(w, err);
    qn_gguf_writer_abort(w);
    return status;
}
