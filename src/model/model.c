/* SPDX-License-Identifier: MIT */
/* src/model/model.c -- binding a file's tensors to an architecture's slots. Reads the header only; no tensor byte is
 * touched. */
#include "model/arch.h"
#include <stdio.h>
#include <string.h>

static int64_t size_of(qn_dim_name dim, const qn_hparams *hp, const qn_layer_hp *l)
{
    const int64_t size[] = {0,
#define QN_DIM_SIZE(name, value) (int64_t)(value),
                            QN_DIM_ROWS(QN_DIM_SIZE)
#undef QN_DIM_SIZE
    };
    return size[dim];
}

qn_shape qn__tensor_row_shape(const qn_tensor_row *row, const qn_hparams *hp, const qn_layer_hp *l)
{
    qn_shape shape = {0};
    for (int i = 0; i < 4 && row->dim[i] != D_END; i++)
        shape.dim[shape.rank++] = size_of((qn_dim_name)row->dim[i], hp, l);
    return shape;
}

bool qn__tensor_row_in(const qn_tensor_row *row, const qn_hparams *hp, const qn_layer_hp *l)
{
    if (row->flags & W_EXPERTS && !l->experts) return false;
    if (row->flags & W_DENSE && l->experts) return false;
    if (row->flags & W_SHARED && !hp->n_expert_shared && !hp->n_ff_shexp) return false;
    const qn_shape shape = qn__tensor_row_shape(row, hp, l);
    for (int i = 0; i < shape.rank && row->flags & W_SIZED; i++)
        if (shape.dim[i] == 0) return false;
    return W_WHERE_OF(row) == D_END || size_of(W_WHERE_OF(row), hp, l) > 0;
}

static qn_status find_arch(const qn_gguf *file, const qn_arch **out, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, "general.architecture");
    if (!kv) return QN_FAIL(err, format, "general.architecture is missing: this GGUF file holds no model");
    qn_gguf_str name;
    QN_TRY(qn_gguf_get_str(file, kv, 0, &name, err));
    char copy[64];
    qn__str_quote(copy, sizeof(copy), name.data, name.len);
    *out = qn__arch_find(copy);
    if (*out) return QN_OK;
    int n = 0;
    (void)qn__archs(&n);
    return QN_FAIL(err, unsupported, "architecture \"%s\" is not supported; `quern synth --help` lists the %d that are",
                   copy, n);
}

/* Outermost dimensions of 1 may be left out. */
static bool same_shape(const qn_shape *have, const qn_shape *want)
{
    qn_shape less = *want;
    while (less.rank > have->rank && less.dim[0] == 1) {
        less.rank--;
        memmove(less.dim, less.dim + 1, (size_t)less.rank * sizeof less.dim[0]);
    }
    return qn_shape_equal(have, &less);
}

static qn_status check_tensor(const qn_tensor_row *row, const qn_gguf_tensor *t, const qn_shape *want, qn_error *err)
{
    char found[128], expected[128];
    if (!same_shape(&t->shape, want))
        return QN_FAIL(err, format, "tensor %s has shape %s; %s is expected", t->name,
                       qn_shape_print(&t->shape, found, sizeof(found)),
                       qn_shape_print(want, expected, sizeof(expected)));
    const qn_dtype_info *info = qn_dtype_get(t->dtype);
    const bool real = t->dtype == QN_DTYPE_F32 || t->dtype == QN_DTYPE_F16 || t->dtype == QN_DTYPE_BF16;
    if ((row->flags & W_VECTOR) && !real)
        return QN_FAIL(err, unsupported, "tensor %s is %s; norms and biases are F32, F16 or BF16", t->name, info->name);
    if (!real && info->class_ != QN_CLASS_block)
        return QN_FAIL(err, unsupported, "tensor %s is %s; a weight is F32, F16, BF16 or a block type", t->name,
                       info->name);
    return QN_OK;
}

static qn_status bind_row(qn_model *m, const qn_tensor_row *row, int layer, qn_error *err)
{
    char name[96];
    if (row->layer)
        snprintf(name, sizeof(name), row->name, layer);
    else
        snprintf(name, sizeof(name), "%s", row->name);
    qn_weight **slot = (qn_weight **)((row->layer ? (char *)&m->layers[layer] : (char *)&m->top) + row->slot);
    const qn_layer_hp outside = qn__layer_hp(&m->hp, 0);
    const qn_layer_hp *hp = layer >= 0 ? &m->layers[layer].hp : &outside;
    if (!qn__tensor_row_in(row, &m->hp, hp)) return QN_OK;
    const qn_shape want = qn__tensor_row_shape(row, &m->hp, hp);
    if (qn_shape_numel(&want) == 0) return QN_OK; /* what this model does without */
    const qn_gguf_tensor *t = qn_gguf_tensor_find(m->file, name);
    if (!t) {
        if (row->flags & W_TIED) *slot = m->top.tok_embd;
        if (row->flags & (W_TIED | W_OPTIONAL)) return QN_OK;
        char text[128];
        return QN_FAIL(err, format, "tensor %s is missing; architecture %s needs it with shape %s", name, m->arch->name,
                       qn_shape_print(&want, text, sizeof(text)));
    }
    QN_TRY(check_tensor(row, t, &want, err));
    if (m->n_weights == m->max_weights) return QN_FAIL(err, internal, "tensor %s is asked for twice", name);
    qn_weight *w = &m->weights[m->n_weights];
    *w = (qn_weight){.name = t->name,
                     .dtype = t->dtype,
                     .shape = want,
                     .row = row,
                     .tensor = t,
                     .index = m->n_weights,
                     .vector = (row->flags & W_VECTOR) != 0};
    m->n_weights++;
    m->n_params += (uint64_t)qn_shape_numel(&t->shape);
    m->weight_bytes += t->size_bytes;
    *slot = w;
    return QN_OK;
}

static int32_t find_weight(const qn_model *m, int32_t first, const char *stem, size_t n)
{
    for (int32_t i = first; i < m->n_weights; i++) {
        const char *name = m->weights[i].name;
        if (strncmp(name, stem, n) == 0 && strcmp(name + n, ".weight") == 0) return i;
    }
    return -1;
}

static bool ends_with(const char *name, size_t n, const char *end, size_t *stem)
{
    const size_t len = strlen(end);
    if (n < len || memcmp(name + n - len, end, len) != 0) return false;
    *stem = n - len;
    return true;
}

/* The matrix that a norm or bias belongs to: "x.bias" and "x_norm.weight" to "x.weight" where there is one, any other
 * to the next matrix, or the last, of its layer. Weights from `first` on are one layer's, or those outside layers. */
static void pair_vectors(qn_model *m, int32_t first)
{
    int32_t matrix = m->top.tok_embd ? m->top.tok_embd->index : first;
    for (int32_t i = first; i < m->n_weights; i++)
        if (!m->weights[i].vector) matrix = i;
    for (int32_t i = m->n_weights; i-- > first;) {
        qn_weight *w = &m->weights[i];
        const size_t n = strlen(w->name);
        size_t stem;
        if (!w->vector) matrix = i;
        w->beside = matrix;
        if (!w->vector || !(ends_with(w->name, n, ".bias", &stem) || ends_with(w->name, n, "_norm.weight", &stem)))
            continue;
        const int32_t own = find_weight(m, first, w->name, stem);
        if (own >= 0 && !m->weights[own].vector) w->beside = own;
    }
}

static qn_status bind_rows(qn_model *m, int layer, qn_error *err)
{
    const int32_t first = m->n_weights;
    for (int r = 0; r < m->arch->n_tensors; r++)
        if (m->arch->tensors[r].layer == (layer >= 0)) QN_TRY(bind_row(m, &m->arch->tensors[r], layer, err));
    pair_vectors(m, first);
    return QN_OK;
}

/* The vocabulary's size is the embedding's: some files pad it beyond the tokenizer's. */
static qn_status read_n_vocab(qn_model *m, int32_t n_tokens, qn_error *err)
{
    const qn_gguf_tensor *t = qn_gguf_tensor_find(m->file, "token_embd.weight");
    if (!t) return QN_FAIL(err, format, "tensor token_embd.weight is missing; architecture %s needs it", m->arch->name);
    if (t->shape.rank != 2 || t->shape.dim[0] < 1 || t->shape.dim[0] > INT32_MAX) {
        char text[128];
        return QN_FAIL(err, format, "tensor token_embd.weight has shape %s; [n_vocab,%u] is expected",
                       qn_shape_print(&t->shape, text, sizeof(text)), m->hp.n_embd);
    }
    if (n_tokens > t->shape.dim[0])
        return QN_FAIL(err, format, "tokenizer.ggml.tokens has %d entries, but token_embd.weight only %lld rows",
                       n_tokens, (long long)t->shape.dim[0]);
    m->hp.n_vocab = (uint32_t)t->shape.dim[0];
    return QN_OK;
}

/* ---- specs ---- */

static int32_t find_group(qn_model *m, int32_t window)
{
    for (int32_t g = 0; g < m->n_groups; g++)
        if (m->windows[g] == window) return g;
    m->windows[m->n_groups] = window;
    return m->n_groups++;
}

bool qn__model_uses_group(const qn_model *m, int32_t g)
{
    for (int i = 0; i < m->n_sights; i++)
        if (m->group_of[i] == g) return true;
    return false;
}

static qn_status find_sight(qn_model *m, qn_layer *l, qn_error *err)
{
    const qn_sight *s = &l->spec.attn.sight;
    for (l->sight = 0; l->sight < m->n_sights; l->sight++)
        if (m->sights[l->sight].kind == s->kind && m->sights[l->sight].size == s->size) return QN_OK;
    if (m->n_sights == QN_MAX_SIGHTS)
        return QN_FAIL(err, unsupported, "layers see in more than %d different ways", QN_MAX_SIGHTS);
    m->group_of[m->n_sights] = find_group(m, qn__sight_reach(s));
    m->sights[m->n_sights++] = *s;
    m->sees_ahead = m->sees_ahead || qn__sees_ahead(s);
    return QN_OK;
}

/* A layer without keys and values of its own reads those of the last one that has them and sees as much. */
static qn_status find_kv(qn_model *m, int i, qn_error *err)
{
    qn_layer *l = &m->layers[i];
    const int n_own = (int)m->hp.n_layer - (int)m->hp.n_kv_shared;
    l->kv_of = i;
    if (i < n_own) {
        if (l->attn_kv_a || l->attn_qkv || (l->attn_q && l->attn_k && (l->attn_v || l->spec.attn.v_of_k))) return QN_OK;
        return QN_FAIL(err, format, "blk.%d has no attn_qkv.weight, and not all of attn_q, attn_k and attn_v", i);
    }
    for (int of = n_own - 1; of >= 0; of--) {
        const qn_layer_hp *hp = &m->layers[of].hp;
        if (hp->windowed != l->hp.windowed) continue;
        if (hp->n_kv_head != l->hp.n_kv_head || hp->d_k != l->hp.d_k || hp->d_v != l->hp.d_v)
            return QN_FAIL(err, format, "blk.%d has %u KV heads of %u, and blk.%d, whose keys it reads, %u of %u", i,
                           l->hp.n_kv_head, l->hp.d_k, of, hp->n_kv_head, hp->d_k);
        l->kv_of = of;
        return QN_OK;
    }
    return QN_FAIL(err, format,
                   "%s.attention.shared_kv_layers is %u of %u layers: blk.%d has no keys of its own, and no layer "
                   "before those sees as it does",
                   m->arch->name, m->hp.n_kv_shared, m->hp.n_layer, i);
}

static qn_status find_slopes(qn_model *m, qn_layer *l, qn_error *err)
{
    const uint32_t n = l->hp.n_head;
    float *slopes = l->spec.attn.alibi > 0 ? qn__arena_array(&m->arena, n, sizeof *slopes) : NULL;
    l->slopes = slopes;
    if (l->spec.attn.alibi <= 0) return QN_OK;
    m->alibi = true;
    if (!slopes) return QN_FAIL_NOMEM(err, n * sizeof *slopes);
    for (uint32_t h = 0; h < n; h++) slopes[h] = qn__alibi_slope(l->spec.attn.alibi, n, h);
    return QN_OK;
}

/* The architecture's block, then what the file's numbers say, then what the architecture says of this layer. */
static qn_status describe(qn_model *m, int i, qn_error *err)
{
    const qn_hparams *hp = &m->hp;
    qn_layer *l = &m->layers[i];
    qn_attn_spec *attn = &l->spec.attn;
    l->spec = m->arch->block;
    if (hp->residual_scale != 0) l->spec.residual_scale = hp->residual_scale;
    if (hp->parallel) l->spec.parallel = true;
    if (hp->attn_scale != 0) attn->scale = hp->attn_scale;
    attn->v_scale = hp->value_scale;
    attn->softcap = hp->attn_softcap;
    attn->alibi = hp->attn_alibi;
    attn->clamp = hp->qkv_clamp;
    attn->heat = hp->attn_heat;
    attn->heat_floor = (int32_t)(hp->attn_heat_floor ? hp->attn_heat_floor : (uint32_t)hp->rope.n_ctx_orig);
    if (!hp->causal) attn->sight.kind = QN_SIGHT_both;
    if (hp->n_window && l->hp.windowed) {
        attn->sight = attn->sight.kind == QN_SIGHT_all ? (qn_sight){QN_SIGHT_window, (int32_t)hp->n_window}
                                                       : (qn_sight){QN_SIGHT_both_window, (int32_t)hp->n_window / 2};
        attn->turn = QN_TURN_window;
    }
    qn_moe_spec *moe = &l->spec.moe;
    if (hp->expert_gating) moe->score = (qn_moe_score)(hp->expert_gating - 1);
    if (hp->expert_norm) moe->normalise = true;
    moe->scale = hp->expert_scale;
    moe->n_chunk = (int32_t)hp->n_expert_chunk;
    moe->chunk_scale = hp->chunk_scale;
    moe->limit = l->hp.expert_limit;
    moe->shared_limit = l->hp.shared_limit;
    moe->n_used = (int32_t)hp->n_expert_used;
    moe->n_group = (int32_t)hp->n_expert_group;
    moe->n_group_used = (int32_t)hp->n_expert_group_used;
    l->spec.ffn.xielu.n = l->hp.xielu_n;
    l->spec.ffn.xielu.p = l->hp.xielu_p;
    l->spec.ffn.xielu.beta = l->hp.xielu_beta;
    l->spec.ffn.xielu.eps = l->hp.xielu_eps;
    l->spec.ffn.sparse = l->hp.sparse;
    const int n_once = (int)qn__n_stored(&m->hp);
    l->spec.norm_out = (i + 1) % n_once == 0 && i + 1 < (int)hp->n_layer && !hp->bare_loops;
    if (m->arch->layer) m->arch->layer(m, l, i);
    QN_TRY(find_slopes(m, l, err));
    QN_TRY(find_kv(m, i, err));
    return find_sight(m, l, err);
}

uint32_t qn__n_label(const qn_model *m)
{
    return m->top.cls_out ? m->hp.n_label : m->top.cls ? (uint32_t)m->top.cls->shape.dim[0] : 0;
}

/* Tensors that every layer has. */
static size_t n_needed(const qn_arch *arch)
{
    size_t n = 0;
    for (int r = 0; r < arch->n_tensors; r++)
        n += arch->tensors[r].layer && !(arch->tensors[r].flags & (W_OPTIONAL | W_EXPERTS | W_DENSE | W_SHARED)) &&
             W_WHERE_OF(&arch->tensors[r]) == D_END;
    return n;
}

/* A file that has not even half of what its layers need cannot be right; saying so early bounds what is allocated by
 * the file's size. */
static qn_status make_room(qn_model *m, qn_error *err)
{
    const size_t n = qn_gguf_n_tensors(m->file), needed = n_needed(m->arch);
    if (qn__n_stored(&m->hp) > n / (needed > 2 ? needed / 2 : 1))
        return QN_FAIL(err, format, "%s.block_count is %u, but the file has only %zu tensors; a layer needs %zu",
                       m->arch->name, qn__n_stored(&m->hp), n, needed);
    m->layers = qn__arena_array(&m->arena, m->hp.n_layer, sizeof(*m->layers));
    m->weights = qn__arena_array(&m->arena, n, sizeof(*m->weights));
    m->max_weights = (int32_t)n;
    return m->layers && m->weights ? QN_OK
                                   : QN_FAIL(err, nomem, "out of memory while binding %u layers", m->hp.n_layer);
}

static qn_status load(qn_model *m, int32_t n_tokens, qn_error *err)
{
    QN_TRY(find_arch(m->file, &m->arch, err));
    QN_TRY(qn__hparams_read(m->file, m->arch, &m->given, err));
    m->hp = m->given;
    QN_TRY(qn__hparams_settle(m->arch, &m->hp, err));
    QN_TRY(read_n_vocab(m, n_tokens, err));
    QN_TRY(make_room(m, err));
    QN_TRY(bind_rows(m, -1, err));
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        if (i < qn__n_stored(&m->hp)) {
            QN_TRY(qn__layer_hp_read(m->file, m->arch, &m->hp, i, &m->layers[i].hp, err));
            QN_TRY(bind_rows(m, (int)i, err));
        } else {
            m->layers[i] = m->layers[i - qn__n_stored(&m->hp)];
        }
        QN_TRY(describe(m, (int)i, err));
        const qn_layer *l = &m->layers[i];
        const bool gated = l->ffn_gate_exps || l->spec.ffn.plain;
        if (l->ffn_down_exps && !l->ffn_gate_up_exps && !(l->ffn_up_exps && gated))
            return QN_FAIL(err, format,
                           "blk.%u has no ffn_gate_up_exps.weight, and not both of ffn_gate_exps and ffn_up_exps", i);
    }
    return QN_OK;
}

qn_status qn__model_load(const qn_gguf *file, int32_t n_vocab, qn_model **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_model *m = qn__arena_alloc(&arena, sizeof(*m));
    if (!m) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof(*m));
    }
    m->arena = arena;
    m->file = file;
    m->n_groups = 1;
    qn_status status = load(m, n_vocab, err);
    if (status != QN_OK) {
        qn__model_free(m);
        return status;
    }
    *out = m;
    return QN_OK;
}

void qn__model_free(qn_model *m)
{
    if (!m) return;
    qn_arena arena = m->arena; /* the model lies inside it */
    qn__arena_deinit(&arena);
}
