/* SPDX-License-Identifier: MIT */
/* src/model/hparams.c -- hyperparameters: from metadata rows to checked numbers. */
#include "model/arch.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static qn_status read_word(const qn_gguf *file, const qn_gguf_kv *kv, const qn_hparam_row *row, double *out,
                           qn_error *err)
{
    char quoted[64];
    qn_gguf_str text;
    QN_TRY(qn_gguf_get_str(file, kv, 0, &text, err));
    *out = qn__hparam_word(row, text.data, text.len);
    if (*out > 0) return QN_OK;
    return QN_FAIL(err, unsupported, "%s is \"%s\"; one of the words %s is expected", kv->key,
                   qn__str_quote(quoted, sizeof(quoted), text.data, text.len), row->words);
}

static qn_status read_count(const qn_gguf_kv *kv, const qn_hparam_row *row, double *out, qn_error *err)
{
    *out = (double)kv->count;
    if (kv->type == QN_GGUF_arr && *out >= row->lo && *out <= row->hi) return QN_OK;
    return QN_FAIL(err, format, "%s at offset %llu has %g elements; an array of %g to %g is expected", kv->key,
                   (unsigned long long)kv->offset, *out, row->lo, row->hi);
}

/* Element i of a value, checked. */
static qn_status read_element(const qn_gguf *file, const qn_gguf_kv *kv, const qn_hparam_row *row, uint64_t i,
                              double *out, qn_error *err)
{
    if (row->kind == QN_HPARAM_f32) {
        QN_TRY(qn_gguf_get_f64(file, kv, i, out, err));
    } else if (row->kind == QN_HPARAM_bool || kv->elem == QN_GGUF_bool) {
        bool truth = false;
        QN_TRY(qn_gguf_get_bool(file, kv, i, &truth, err));
        *out = truth;
    } else {
        uint64_t u = 0;
        QN_TRY(qn_gguf_get_u64(file, kv, i, &u, err));
        *out = (double)u;
    }
    if (*out >= row->lo && *out <= row->hi) return QN_OK;
    return QN_FAIL(err, format, "%s at offset %llu is %g; from %g to %g is expected", kv->key,
                   (unsigned long long)kv->offset, *out, row->lo, row->hi);
}

static qn_status read_four(const qn_gguf *file, const qn_gguf_kv *kv, const qn_hparam_row *row, double *out,
                           qn_error *err)
{
    uint32_t four[4];
    if (kv->count != 4)
        return QN_FAIL(err, format, "%s at offset %llu has %llu numbers, four expected", kv->key,
                       (unsigned long long)kv->offset, (unsigned long long)kv->count);
    for (uint64_t i = 0; i < 4; i++) {
        double value = 0;
        QN_TRY(read_element(file, kv, row, i, &value, err));
        four[i] = (uint32_t)value;
    }
    *out = qn__four_as_one(four);
    return QN_OK;
}

/* A value, or an array: of one value repeated (some writers give one number a layer), or of what layers differ in, of
 * which the greatest counts. */
static qn_status read_value(const qn_gguf *file, const qn_gguf_kv *kv, const qn_hparam_row *row, uint32_t n_layer,
                            double *out, qn_error *err)
{
    if (row->kind == QN_HPARAM_word) return read_word(file, kv, row, out, err);
    if (row->kind == QN_HPARAM_count) return read_count(kv, row, out, err);
    if (row->kind == QN_HPARAM_four) return read_four(file, kv, row, out, err);
    if (kv->count == 0)
        return QN_FAIL(err, format, "%s at offset %llu is an empty array, a number expected", kv->key,
                       (unsigned long long)kv->offset);
    if (row->of_layer && kv->type == QN_GGUF_arr && kv->count < n_layer)
        return QN_FAIL(err, format, "%s at offset %llu has %llu numbers, one for each of %u layers expected", kv->key,
                       (unsigned long long)kv->offset, (unsigned long long)kv->count, n_layer);
    for (uint64_t i = 0; i < kv->count; i++) {
        double value = 0;
        QN_TRY(read_element(file, kv, row, i, &value, err));
        if (i > 0 && value != *out && !row->of_layer)
            return QN_FAIL(err, unsupported, "%s differs between layers (%g and %g); here they have to be alike",
                           kv->key, *out, value);
        if (i == 0 || value > *out) *out = value;
    }
    return QN_OK;
}

const char *qn__hparam_key(const qn_arch *arch, const qn_hparam_row *row, char *out, size_t size)
{
    const bool whole = strncmp(row->key, "tokenizer.", 10) == 0 || strncmp(row->key, "xielu.", 6) == 0;
    snprintf(out, size, "%s%s%s", whole ? "" : arch->name, whole ? "" : ".", row->key);
    return out;
}

static const qn_gguf_kv *find(const qn_gguf *file, const qn_arch *arch, const qn_hparam_row *row, char key[192])
{
    return qn_gguf_kv_find(file, qn__hparam_key(arch, row, key, 192));
}

static qn_status read_row(const qn_gguf *file, const qn_arch *arch, const qn_hparam_row *row, qn_hparams *hp,
                          qn_error *err)
{
    char key[192];
    const qn_gguf_kv *kv = find(file, arch, row, key);
    double value = row->fallback;
    if (!kv && row->required)
        return QN_FAIL(err, format, "%s is missing; a number from %g to %g is expected", key, row->lo, row->hi);
    if (kv) QN_TRY(read_value(file, kv, row, hp->n_layer, &value, err));
    /* an array's booleans are the layers' own */
    if (!kv || row->kind != QN_HPARAM_pattern || kv->type != QN_GGUF_arr) qn__hparam_set(hp, row, value);
    return QN_OK;
}

/* ---- layers ---- */

static void set_of_layer(qn_layer_hp *l, const qn_hparam_row *row, double value)
{
    const uint32_t u = row->kind != QN_HPARAM_f32 ? (uint32_t)value : 0;
    const float f = (float)value;
    memcpy((char *)l + row->of_layer - 1, row->kind != QN_HPARAM_f32 ? (const void *)&u : &f, 4);
}

static void settle_heads(const qn_hparams *hp, qn_layer_hp *l)
{
    const bool window = l->windowed && hp->n_window;
    l->d_k = window && hp->n_embd_head_k_window ? hp->n_embd_head_k_window : hp->n_embd_head_k;
    l->d_v = window && hp->n_embd_head_v_window ? hp->n_embd_head_v_window : hp->n_embd_head_v;
    if (!hp->n_lora_kv) return;
    l->n_kv_head = hp->n_embd_head_k_mla ? 1 : l->n_head;
    if (!hp->n_embd_head_k_mla) return;
    l->d_k = hp->n_lora_kv + hp->n_rot; /* c, and what is rotated */
    l->d_v = hp->n_lora_kv;
}

qn_layer_hp qn__layer_hp(const qn_hparams *hp, uint32_t i)
{
    const uint32_t full = hp->sees_all_first ? 0 : hp->windowed - 1;
    qn_layer_hp l = {.n_head = hp->n_head,
                     .n_kv_head = hp->n_kv_head ? hp->n_kv_head : hp->n_head,
                     .n_ff = hp->n_ff,
                     .windowed = hp->windowed == 0 || i % hp->windowed != full,
                     .experts = qn__is_mixture(hp, i),
                     .expert_limit = hp->expert_limit,
                     .shared_limit = hp->shared_limit,
                     .xielu_n = hp->xielu_n,
                     .xielu_p = hp->xielu_p,
                     .xielu_beta = hp->xielu_beta,
                     .xielu_eps = hp->xielu_eps,
                     .sparse = hp->sparse};
    settle_heads(hp, &l);
    return l;
}

qn_status qn__layer_hp_read(const qn_gguf *file, const qn_arch *arch, const qn_hparams *hp, uint32_t i,
                            qn_layer_hp *out, qn_error *err)
{
    *out = qn__layer_hp(hp, i);
    for (int r = 0; r < arch->n_hparams; r++) {
        const qn_hparam_row *row = &arch->hparams[r];
        char key[192];
        const qn_gguf_kv *kv = row->of_layer ? find(file, arch, row, key) : NULL;
        double value = 0;
        if (!kv || kv->type != QN_GGUF_arr) continue;
        QN_TRY(read_element(file, kv, row, i, &value, err));
        set_of_layer(out, row, value);
    }
    settle_heads(hp, out);
    return qn__layer_hp_check(arch, out, i, err);
}

qn_status qn__layer_hp_check(const qn_arch *arch, const qn_layer_hp *out, uint32_t i, qn_error *err)
{
    if (out->n_kv_head && out->n_head % out->n_kv_head == 0) return QN_OK;
    return QN_FAIL(err, format, "%s.attention.head_count %u is not a multiple of head_count_kv %u in layer %u",
                   arch->name, out->n_head, out->n_kv_head, i);
}

float qn__yarn_temperature(const qn_rope_attrs *rope)
{
    return rope->ext_factor != 0.0f ? 1.0f + 0.1f * logf(1.0f / rope->freq_scale) : 1.0f;
}

/* Linear scaling and YaRN (Peng et al. 2023); what a file asks for and we don't know is refused, not guessed. */
static qn_status settle_rope(const qn_arch *arch, qn_hparams *hp, qn_error *err)
{
    qn_rope_attrs *rope = &hp->rope;
    rope->mode = arch->rope_mode;
    rope->n_rot = (int32_t)hp->n_rot;
    rope->base = hp->rope_base;
    rope->freq_scale = 1.0f;
    rope->attn_factor = 1.0f;
    rope->beta_fast = 32.0f;
    rope->beta_slow = 1.0f;
    rope->n_ctx_orig = (int32_t)(hp->rope_ctx_orig ? hp->rope_ctx_orig : hp->n_ctx_train);
    for (int i = 0; i < 4; i++) rope->sections[i] = (int32_t)hp->rope_sections[i];
    rope->of_text = qn__rope_in_sections(rope);
    hp->rope_window = *rope;
    if (hp->rope_base_window > 0) hp->rope_window.base = hp->rope_base_window;
    if (hp->n_rot_window) hp->rope_window.n_rot = (int32_t)hp->n_rot_window;

    rope->attn_factor = hp->rope_attn_factor;
    if (hp->rope_beta_fast > 0) rope->beta_fast = hp->rope_beta_fast;
    if (hp->rope_beta_slow > 0) rope->beta_slow = hp->rope_beta_slow;
    const bool yarn = hp->rope_scaling == QN_ROPE_SCALING_yarn;
    /* older files name only the factor */
    const bool linear = hp->rope_scaling == QN_ROPE_SCALING_linear || hp->rope_scaling == QN_ROPE_SCALING_unset;
    const float factor = hp->rope_factor > 0.0f ? hp->rope_factor : 1.0f;
    if (yarn && factor < 1.0f)
        return QN_FAIL(err, format, "%s.rope.scaling.factor is %g; YaRN stretches a context, so at least 1 is expected",
                       arch->name, (double)factor);
    if (linear || yarn) rope->freq_scale = 1.0f / factor;
    if (yarn) rope->ext_factor = 1.0f; /* the op brings YaRN's attention temperature along */
    for (int i = 0; i < 4; i++)
        if (hp->rope_sections[i] > hp->n_rot / 2)
            return QN_FAIL(err, format, "%s.rope.dimension_sections has %u pairs in section %d; %u pairs are rotated",
                           arch->name, hp->rope_sections[i], i, hp->n_rot / 2);
    if (yarn && hp->rope_log_factor > 0) rope->attn_factor /= 1.0f + 0.1f * hp->rope_log_factor * logf(factor);
    return QN_OK;
}

static qn_status check_rot(const qn_arch *arch, const char *which, uint32_t n_rot, uint32_t head, qn_error *err)
{
    if (n_rot <= head && n_rot % 2 == 0) return QN_OK;
    return QN_FAIL(err, format, "%s.rope.dimension_count%s is %u; an even number up to the head size %u is expected",
                   arch->name, which, n_rot, head);
}

static qn_status check_latent(const qn_arch *arch, const qn_hparams *hp, qn_error *err)
{
    if (!hp->n_lora_kv) return QN_OK;
    if (!hp->n_embd_head_k_mla != !hp->n_embd_head_v_mla)
        return QN_FAIL(err, format, "%s.attention.key_length_mla is %u and value_length_mla is %u; both are expected",
                       arch->name, hp->n_embd_head_k_mla, hp->n_embd_head_v_mla);
    if (hp->n_rot < qn__latent_head(hp)) return QN_OK;
    return QN_FAIL(err, format, "%s.rope.dimension_count is %u; less than the head size %lld is expected", arch->name,
                   hp->n_rot, (long long)qn__latent_head(hp));
}

qn_status qn__hparams_read(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp, qn_error *err)
{
    memset(hp, 0, sizeof(*hp));
    for (int i = 0; i < arch->n_hparams; i++) QN_TRY(read_row(file, arch, &arch->hparams[i], hp, err));
    qn__count_dense(file, arch, hp);
    return QN_OK;
}

qn_status qn__hparams_settle(const qn_arch *arch, qn_hparams *hp, qn_error *err)
{
    if (hp->n_layer_nextn >= hp->n_layer)
        return QN_FAIL(err, format, "%s.nextn_predict_layers is %u; fewer than block_count %u are expected", arch->name,
                       hp->n_layer_nextn, hp->n_layer);
    hp->n_layer -= hp->n_layer_nextn;
    QN_TRY(qn__check_experts(arch, hp, err));
    if (!hp->n_kv_head) hp->n_kv_head = hp->n_head;
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
    if (hp->n_embd_head_k_window && !hp->n_rot_window) hp->n_rot_window = hp->n_embd_head_k_window;
    QN_TRY(check_rot(arch, "", hp->n_rot, hp->n_embd_head_k, err));
    QN_TRY(check_rot(arch, "_swa", hp->n_rot_window,
                     hp->n_embd_head_k_window ? hp->n_embd_head_k_window : hp->n_embd_head_k, err));
    QN_TRY(check_latent(arch, hp, err));
    QN_TRY(settle_rope(arch, hp, err));
    if (arch->settle) arch->settle(hp);
    return arch->check ? arch->check(hp, err) : QN_OK;
}
