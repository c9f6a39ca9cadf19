/* SPDX-License-Identifier: MIT */
/* src/model/lora.c -- binding an adapter's pairs to a model's weights. */
#include "model/lora.h"
#include <string.h>

/* ---- metadata ---- */

static qn_status want_text(const qn_gguf *file, const char *key, const char *want, qn_error *err)
{
    char found[64];
    qn_gguf_str text;
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    if (!kv) return QN_FAIL(err, format, "%s is missing; \"%s\" is expected", key, want);
    QN_TRY(qn_gguf_get_str(file, kv, 0, &text, err));
    if (text.len == strlen(want) && memcmp(text.data, want, text.len) == 0) return QN_OK;
    qn__str_quote(found, sizeof(found), text.data, text.len);
    return QN_FAIL(err, format, "%s is \"%s\"; \"%s\" is expected", key, found, want);
}

static qn_status read_metadata(qn_adapter *a, const qn_model *m, qn_error *err)
{
    double alpha = 0;
    QN_TRY(want_text(a->file, "general.type", "adapter", err));
    QN_TRY(want_text(a->file, "adapter.type", "lora", err));
    QN_TRY(want_text(a->file, "general.architecture", m->arch->name, err));
    const qn_gguf_kv *kv = qn_gguf_kv_find(a->file, "adapter.lora.alpha");
    if (kv) QN_TRY(qn_gguf_get_f64(a->file, kv, 0, &alpha, err));
    if (!(alpha >= 0 && alpha <= 1e6))
        return QN_FAIL(err, format, "adapter.lora.alpha is %g; from 0 to 1e6 is expected", alpha);
    a->alpha = (float)alpha;
    return qn_gguf_kv_find(a->file, "adapter.alora.invocation_tokens")
               ? QN_FAIL(err, unsupported,
                         "the adapter acts from certain tokens on (adapter.alora.invocation_tokens); only those that "
                         "always act are supported")
               : QN_OK;
}

/* ---- pairs ---- */

bool qn__adapter_fits(const qn_model *m, const qn_weight *w)
{
    return w->shape.rank == 2 && !w->vector && w != m->top.tok_embd && w != m->top.pos_embd;
}

/* The weight that a tensor of the adapter is for, and which half it is. */
static qn_status find_weight(const qn_model *m, const qn_gguf_tensor *t, const qn_weight **w, bool *is_a, qn_error *err)
{
    const size_t len = strlen(t->name);
    *is_a = len > 7 && strcmp(t->name + len - 7, ".lora_a") == 0;
    if (!*is_a && !(len > 7 && strcmp(t->name + len - 7, ".lora_b") == 0))
        return QN_FAIL(err, format, "tensor %s is neither a .lora_a nor a .lora_b of a model's tensor", t->name);
    for (int i = 0; i < m->n_weights; i++) {
        *w = &m->weights[i];
        if (strlen((*w)->name) != len - 7 || memcmp((*w)->name, t->name, len - 7) != 0) continue;
        if (qn__adapter_fits(m, *w)) return QN_OK;
        return QN_FAIL(err, unsupported,
                       "tensor %s: %s is not the matrix of a linear layer, which is all that adapters may change",
                       t->name, (*w)->name);
    }
    return QN_FAIL(err, format, "tensor %s: the model has no %.*s; is the adapter another model's?", t->name,
                   (int)(len - 7), t->name);
}

/* a [r, in] and b [out, r]; r is checked when both are there. */
static qn_status check_half(const qn_gguf_tensor *t, const qn_weight *w, bool is_a, qn_error *err)
{
    char found[128], base[128];
    const qn_dtype_info *info = qn_dtype_get(t->dtype);
    const bool real = t->dtype == QN_DTYPE_F32 || t->dtype == QN_DTYPE_F16 || t->dtype == QN_DTYPE_BF16;
    if (!real && info->class_ != QN_CLASS_block)
        return QN_FAIL(err, unsupported, "tensor %s is %s; F32, F16, BF16 or a block type is expected", t->name,
                       info->name);
    if (t->shape.rank == 2 && t->shape.dim[is_a] == w->shape.dim[is_a]) return QN_OK;
    return QN_FAIL(err, format, "tensor %s has shape %s; for %s of %s %s%lld%s is expected", t->name,
                   qn_shape_print(&t->shape, found, sizeof(found)), w->name,
                   qn_shape_print(&w->shape, base, sizeof(base)), is_a ? "[r," : "[", (long long)w->shape.dim[is_a],
                   is_a ? "]" : ",r]");
}

static qn_status check_pair(const qn_lora_pair *pair, const qn_weight *w, qn_error *err)
{
    char a[128], b[128];
    const qn_weight *half = pair->a.tensor ? &pair->a : &pair->b;
    if (!pair->a.tensor || !pair->b.tensor)
        return QN_FAIL(err, format, "tensor %s: its other half %s.lora_%c is missing", half->name, w->name,
                       pair->a.tensor ? 'b' : 'a');
    if (pair->a.shape.dim[0] == pair->b.shape.dim[1]) return QN_OK;
    return QN_FAIL(err, format,
                   "%s.lora_a has shape %s and lora_b %s; the rank, the first of a and the last of b, must agree",
                   w->name, qn_shape_print(&pair->a.shape, a, sizeof(a)), qn_shape_print(&pair->b.shape, b, sizeof(b)));
}

static qn_status bind(qn_adapter *a, const qn_model *m, qn_error *err)
{
    QN_TRY(read_metadata(a, m, err));
    a->of = qn__arena_array(&a->arena, (size_t)m->n_weights, sizeof(*a->of));
    if (!a->of) return QN_FAIL(err, nomem, "out of memory while binding an adapter to %d weights", m->n_weights);
    a->n_weights = m->n_weights;
    for (size_t i = 0; i < qn_gguf_n_tensors(a->file); i++) {
        const qn_gguf_tensor *t = qn_gguf_tensor_get(a->file, i);
        const qn_weight *w = NULL;
        bool is_a = false;
        QN_TRY(find_weight(m, t, &w, &is_a, err));
        QN_TRY(check_half(t, w, is_a, err));
        qn_lora_pair *pair = &a->of[w->index];
        *(is_a ? &pair->a : &pair->b) =
            (qn_weight){.name = t->name, .dtype = t->dtype, .shape = t->shape, .tensor = t, .index = -1};
    }
    for (int i = 0; i < m->n_weights; i++) {
        const qn_lora_pair *pair = &a->of[i];
        if (!pair->a.tensor && !pair->b.tensor) continue;
        QN_TRY(check_pair(pair, &m->weights[i], err));
        a->n_pairs++;
        if (pair->a.shape.dim[0] > INT32_MAX)
            return QN_FAIL(err, limit, "%s has rank %lld; %d at most", pair->a.name, (long long)pair->a.shape.dim[0],
                           INT32_MAX);
        if (pair->a.shape.dim[0] > a->max_rank) a->max_rank = (int32_t)pair->a.shape.dim[0];
    }
    return a->n_pairs ? QN_OK : QN_FAIL(err, format, "the adapter has no tensors");
}

qn_status qn__adapter_load(const qn_model *m, const qn_gguf *file, qn_adapter **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_adapter *a = qn__arena_alloc(&arena, sizeof(*a));
    if (!a) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof(*a));
    }
    a->arena = arena;
    a->file = file;
    const qn_status status = bind(a, m, err);
    if (status == QN_OK)
        *out = a;
    else
        qn__adapter_free(a);
    return status;
}

void qn__adapter_free(qn_adapter *a)
{
    if (!a) return;
    qn_arena arena = a->arena; /* the adapter lies inside it */
    qn__arena_deinit(&arena);
}

float qn__adapter_factor(const qn_adapter *a, const qn_lora_pair *pair)
{
    return a->alpha > 0 ? a->alpha / (float)pair->a.shape.dim[0] : 1.0f;
}
