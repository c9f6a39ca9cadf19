/* SPDX-License-Identifier: MIT */
/* src/model/hparams.c -- hyperparameters: from metadata rows to checked numbers. */
#include "model/arch.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

void qn__hparam_set(qn_hparams *hp, const qn_hparam_row *row, double value)
{
    char *field = (char *)hp + row->field;
    const uint32_t u = row->kind == QN_HPARAM_u32 ? (uint32_t)value : 0;
    const float f = (float)value;
    if (row->kind == QN_HPARAM_u32)
        memcpy(field, &u, sizeof(u));
    else
        memcpy(field, &f, sizeof(f));
}

double qn__hparam_get(const qn_hparams *hp, const qn_hparam_row *row)
{
    const char *field = (const char *)hp + row->field;
    uint32_t u;
    float f;
    memcpy(&u, field, sizeof(u));
    memcpy(&f, field, sizeof(f));
    return row->kind == QN_HPARAM_u32 ? (double)u : (double)f;
}

/* A value, or an array of one value repeated (some writers give one number a layer). */
static qn_status read_number(const qn_gguf *file, const qn_gguf_kv *kv, const qn_hparam_row *row, double *out,
                             qn_error *err)
{
    for (uint64_t i = 0; i < kv->count; i++) {
        double value = 0;
        if (row->kind == QN_HPARAM_u32) {
            uint64_t u = 0;
            QN_TRY(qn_gguf_get_u64(file, kv, i, &u, err));
            value = (double)u;
        } else {
            QN_TRY(qn_gguf_get_f64(file, kv, i, &value, err));
        }
        if (i > 0 && value != *out)
            return QN_FAIL(err, unsupported,
                           "%s differs between layers (%g and %g); only models with alike layers are supported",
                           kv->key, *out, value);
        *out = value;
    }
    if (kv->count == 0)
        return QN_FAIL(err, format, "%s at offset %llu is an empty array, a number expected", kv->key,
                       (unsigned long long)kv->offset);
    return QN_OK;
}

static qn_status read_row(const qn_gguf *file, const qn_arch *arch, const qn_hparam_row *row, qn_hparams *hp,
                          qn_error *err)
{
    char key[192];
    snprintf(key, sizeof(key), "%s.%s", arch->name, row->key);
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    double value = row->fallback;
    if (!kv && row->required)
        return QN_FAIL(err, format, "%s is missing; a number from %g to %g is expected", key, row->lo, row->hi);
    if (kv) {
        QN_TRY(read_number(file, kv, row, &value, err));
        if (!(value >= row->lo && value <= row->hi))
            return QN_FAIL(err, format, "%s at offset %llu is %g; from %g to %g is expected", key,
                           (unsigned long long)kv->offset, value, row->lo, row->hi);
    }
    qn__hparam_set(hp, row, value);
    return QN_OK;
}

float qn__yarn_temperature(const qn_rope_attrs *rope)
{
    return rope->ext_factor != 0.0f ? 1.0f + 0.1f * logf(1.0f / rope->freq_scale) : 1.0f;
}

/* Linear scaling and YaRN (Peng et al. 2023); what a file asks for and we don't know is refused, not guessed. */
static qn_status read_rope(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp, qn_error *err)
{
    qn_rope_attrs *rope = &hp->rope;
    rope->mode = arch->rope_mode;
    rope->n_rot = (int32_t)hp->n_rot;
    rope->base = hp->rope_base;
    rope->freq_scale = 1.0f;
    rope->attn_factor = hp->rope_attn_factor;
    rope->beta_fast = 32.0f;
    rope->beta_slow = 1.0f;
    rope->n_ctx_orig = (int32_t)(hp->rope_ctx_orig ? hp->rope_ctx_orig : hp->n_ctx_train);

    char key[96];
    snprintf(key, sizeof(key), "%s." QN_ROPE_SCALING_TYPE, arch->name);
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    qn_gguf_str type = {"none", 4};
    if (kv) QN_TRY(qn_gguf_get_str(file, kv, 0, &type, err));
    bool linear = type.len == 6 && memcmp(type.data, "linear", 6) == 0;
    bool yarn = type.len == 4 && memcmp(type.data, "yarn", 4) == 0;
    bool none = type.len == 4 && memcmp(type.data, "none", 4) == 0;
    if (!kv && hp->rope_factor > 0.0f) linear = true; /* older files name only the factor */
    if (!linear && !yarn && !none) {
        char quoted[64];
        return QN_FAIL(err, unsupported, "%s is \"%s\"; none, linear and yarn are supported", key,
                       qn__str_quote(quoted, sizeof(quoted), type.data, type.len));
    }
    float factor = hp->rope_factor > 0.0f ? hp->rope_factor : 1.0f;
    if (yarn && factor < 1.0f)
        return QN_FAIL(err, format, "%s.rope.scaling.factor is %g; YaRN stretches a context, so at least 1 is expected",
                       arch->name, (double)factor);
    if (linear || yarn) rope->freq_scale = 1.0f / factor;
    if (yarn) rope->ext_factor = 1.0f; /* the op brings YaRN's attention temperature along */
    return QN_OK;
}

qn_status qn__hparams_read(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp, qn_error *err)
{
    memset(hp, 0, sizeof(*hp));
    for (int i = 0; i < arch->n_hparams; i++) QN_TRY(read_row(file, arch, &arch->hparams[i], hp, err));

    if (hp->n_expert)
        return QN_FAIL(err, unsupported, "%s.expert_count is %u; mixtures of experts are not supported yet", arch->name,
                       hp->n_expert);
    if (!hp->n_kv_head) hp->n_kv_head = hp->n_head;
    if (hp->n_head % hp->n_kv_head)
        return QN_FAIL(err, format, "%s.attention.head_count %u is not a multiple of head_count_kv %u", arch->name,
                       hp->n_head, hp->n_kv_head);
    if (!hp->n_embd_head_k || !hp->n_embd_head_v) {
        if (hp->n_embd % hp->n_head)
            return QN_FAIL(err, format,
                           "%s.embedding_length %u is not a multiple of attention.head_count %u, and "
                           "attention.key_length is not given",
                           arch->name, hp->n_embd, hp->n_head);
        if (!hp->n_embd_head_k) hp->n_embd_head_k = hp->n_embd / hp->n_head;
        if (!hp->n_embd_head_v) hp->n_embd_head_v = hp->n_embd / hp->n_head;
    }
    if (!hp->n_rot) hp->n_rot = hp->n_embd_head_k;
    if (hp->n_rot > hp->n_embd_head_k || hp->n_rot % 2)
        return QN_FAIL(err, format, "%s.rope.dimension_count is %u; an even number up to the head size %u is expected",
                       arch->name, hp->n_rot, hp->n_embd_head_k);
    return read_rope(file, arch, hp, err);
}
