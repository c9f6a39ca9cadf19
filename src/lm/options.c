/* SPDX-License-Identifier: MIT */
/* src/lm/options.c -- from options to a model: numbers go where the architecture's rows have them, and the rows say
 * what is possible. */
#include "base/str.h"
#include "lm/decoder.h"
#include <string.h>

/* ---- decoders of any architecture ---- */

/* Where options and hyperparameters have a number. */
typedef struct number_row {
    size_t option, field;
    bool real;
} number_row;
#define NUMBER(name, field) \
    { \
        offsetof(qn_decoder_options, name), offsetof(qn_hparams, field), false \
    }
#define REAL(name) \
    { \
        offsetof(qn_decoder_options, name), offsetof(qn_hparams, name), true \
    }
static const number_row numbers[] = {
    NUMBER(n_ctx, n_ctx_train),
    NUMBER(n_embd, n_embd),
    NUMBER(n_layer, n_layer),
    NUMBER(n_head, n_head),
    NUMBER(n_kv_head, n_kv_head),
    NUMBER(n_ff, n_ff),
    NUMBER(head_dim, n_embd_head_k),
    NUMBER(head_dim, n_embd_head_v),
    NUMBER(head_dim, n_rot),
    REAL(norm_eps),
    REAL(rope_base),
};

static double option_of(const qn_decoder_options *o, const number_row *row)
{
    int64_t whole;
    double real;
    memcpy(&whole, (const char *)o + row->option, sizeof whole);
    memcpy(&real, (const char *)o + row->option, sizeof real);
    return row->real ? real : (double)whole;
}

static const qn_hparam_row *row_of(const qn_arch *arch, size_t field)
{
    for (int i = 0; i < arch->n_hparams; i++)
        if (arch->hparams[i].field == field) return &arch->hparams[i];
    return NULL;
}

/* What an architecture has no row for, it does not have: a rope_base without rotation. */
static qn_status set_numbers(const qn_arch *arch, const qn_decoder_options *o, qn_hparams *hp, qn_error *err)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const qn_hparam_row *row = row_of(arch, numbers[i].field);
        const double value = option_of(o, &numbers[i]);
        if (!row || value == 0) continue;
        /* where a file must say how much of a head rotates, that is less than the head */
        if (numbers[i].field == offsetof(qn_hparams, n_rot) && row->required) continue;
        if (!(value >= row->lo && value <= row->hi))
            return QN_FAIL(err, invalid, "%s is %g; from %g to %g is expected", row->key, value, row->lo, row->hi);
        qn__hparam_set(hp, row, value);
    }
    for (const char *const *text = o->set; text && *text; text++) QN_TRY(qn__hparam_parse(arch, *text, hp, err));
    return QN_OK;
}

/* A tensor's name as `optional` has it. */
static const char *plain_name(const qn_tensor_row *row) { return row->name + (row->layer ? strlen("blk.%d.") : 0); }

static bool listed(const qn_decoder_options *o, const char *name)
{
    for (const char *const *text = o->optional; text && *text; text++)
        if (strcmp(*text, name) == 0) return true;
    return false;
}

static bool has(void *arg, const qn_tensor_row *row)
{
    const qn_decoder_options *o = arg;
    if (row->flags & W_TIED) return !o->tied;
    return !(row->flags & W_NO_SYNTH) || listed(o, plain_name(row));
}

static qn_status check_names(const qn_arch *arch, const qn_decoder_options *o, qn_error *err)
{
    char quoted[96];
    for (const char *const *text = o->optional; text && *text; text++) {
        bool known = false;
        for (int r = 0; r < arch->n_tensors && !known; r++) known = strcmp(plain_name(&arch->tensors[r]), *text) == 0;
        if (!known)
            return QN_FAIL(err, invalid, "%s has no tensor \"%s\"", arch->name,
                           qn__str_quote(quoted, sizeof quoted, *text, strlen(*text)));
    }
    return QN_OK;
}

qn_status qn__decoder_plan(const qn_decoder_options *options, qn_model **out, qn_error *err)
{
    qn_decoder_options o = *options;
    char quoted[96];
    const char *name = o.arch ? o.arch : "llama";
    qn_model_plan p = {.arch = qn__arch_find(name), .has = has, .arg = &o};
    if (!p.arch)
        return QN_FAIL(err, invalid, "architecture \"%s\" is not known",
                       qn__str_quote(quoted, sizeof quoted, name, strlen(name)));
    if (o.n_vocab < 1 || o.n_vocab > 1 << 28)
        return QN_FAIL(err, invalid, "n_vocab is %lld; from 1 to %d is expected", (long long)o.n_vocab, 1 << 28);
    if (o.n_kv_head == 0) o.n_kv_head = o.n_head;
    if (o.head_dim == 0 && o.n_head > 0 && o.n_embd % o.n_head == 0) o.head_dim = o.n_embd / o.n_head;
    if (o.norm_eps == 0) o.norm_eps = 1e-5;
    qn__hparams_begin(p.arch, &p.given);
    p.given.n_vocab = (uint32_t)o.n_vocab;
    QN_TRY(set_numbers(p.arch, &o, &p.given, err));
    QN_TRY(check_names(p.arch, &o, err));
    return qn__model_plan(&p, out, err);
}

static qn_status from_file(const qn_gguf *file, qn_model **out, qn_error *err)
{
    QN_TRY(qn__model_load(file, 0, out, err));
    const qn_status status = qn__model_detach(*out, err);
    if (status == QN_OK) return QN_OK;
    qn__model_free(*out);
    *out = NULL;
    return status;
}

static qn_status check_training(const qn_decoder_options *o, qn_error *err)
{
    if (!(o->dropout_p >= 0 && o->dropout_p <= 1))
        return QN_FAIL(err, invalid, "dropout is %g; from 0 to 1 is expected", o->dropout_p);
    if (!(o->deviation >= 0 && o->deviation <= 1e6))
        return QN_FAIL(err, invalid, "the deviation of first weights is %g; from 0 to 1e6 is expected", o->deviation);
    return QN_OK;
}

static qn_module *make(qn_context *c, const qn_lm_type *type, const qn_decoder_options *o)
{
    qn_error err = {0};
    qn_model *model = NULL;
    qn_status status = check_training(o, &err);
    if (status == QN_OK) status = o->file ? from_file(o->file, &model, &err) : qn__decoder_plan(o, &model, &err);
    if (status == QN_OK) status = qn__lm_check(model, &err);
    if (status == QN_OK && model->hp.n_loops > 1)
        status = QN_FAIL(&err, unsupported, "layers are run %u times; a module runs each once", model->hp.n_loops);
    if (status == QN_OK) return qn__decoder_create(c, type, model, o);
    qn__model_free(model);
    (void)qn_context_fail(c, status, "%s: %s", type->top.name, err.text);
    return NULL;
}

qn_module *qn_nn_decoder(qn_context *c, const qn_decoder_options *options)
{
    return c && options ? make(c, &qn__lm_decoder, options) : NULL;
}

/* ---- Llama's options ---- */

enum { N_TEXTS = 8, TEXT_BYTES = 80 };

typedef struct llama_texts {
    char set[N_TEXTS][TEXT_BYTES];
    const char *set_list[N_TEXTS + 1], *optional[N_TEXTS + 1];
    int n_set, n_optional;
} llama_texts;

static void set_number(llama_texts *t, const char *key, double value)
{
    qn__format(t->set[t->n_set], TEXT_BYTES, "%s=%.9g", key, value);
    t->set_list[t->n_set] = t->set[t->n_set];
    t->n_set++;
}

static void add_optional(llama_texts *t, bool wanted, const char *name)
{
    if (wanted) t->optional[t->n_optional++] = name;
}

static void describe(const qn_llama_options *o, llama_texts *t, qn_decoder_options *out)
{
    const double factor = o->rope_factor != 0 ? o->rope_factor : 1, attn = o->rope_attn_factor;
    *t = (llama_texts){0};
    if (o->yarn || factor != 1 || (attn != 0 && attn != 1)) {
        t->set_list[t->n_set++] = o->yarn ? "rope.scaling.type=yarn" : "rope.scaling.type=linear";
        set_number(t, "rope.scaling.factor", factor);
        if (attn != 0) set_number(t, "rope.scaling.attn_factor", attn);
        set_number(t, "rope.scaling.original_context_length", (double)(o->n_ctx_orig ? o->n_ctx_orig : o->n_ctx));
    }
    add_optional(t, o->qkv_bias, "attn_q.bias");
    add_optional(t, o->qkv_bias, "attn_k.bias");
    add_optional(t, o->qkv_bias, "attn_v.bias");
    add_optional(t, o->out_bias, "attn_output.bias");
    add_optional(t, o->ff_bias, "ffn_gate.bias");
    add_optional(t, o->ff_bias, "ffn_up.bias");
    add_optional(t, o->ff_bias, "ffn_down.bias");
    add_optional(t, o->rope_factors, "rope_freqs.weight");
    *out = (qn_decoder_options){
        .arch = o->arch,
        .n_vocab = o->n_vocab,
        .n_ctx = o->n_ctx,
        .n_embd = o->n_embd,
        .n_layer = o->n_layer,
        .n_head = o->n_head,
        .n_ff = o->n_ff,
        .n_kv_head = o->n_kv_head,
        .head_dim = o->head_dim,
        .norm_eps = o->norm_eps,
        .rope_base = o->rope_base,
        .tied = o->tied,
        .set = t->set_list,
        .optional = t->optional,
        .dropout_p = o->dropout_p,
        .grad_checkpointing = o->grad_checkpointing,
        .deviation = o->deviation,
    };
}

qn_module *qn_nn_llama(qn_context *c, const qn_llama_options *options)
{
    llama_texts texts;
    qn_decoder_options o;
    if (!c || !options) return NULL;
    describe(options, &texts, &o);
    return make(c, &qn__lm_llama, &o);
}

/* ---- and back ---- */

static qn_llama_options options_of(const qn_model *m)
{
    const qn_hparams *hp = &m->hp, *given = &m->given;
    const qn_layer *l = &m->layers[0];
    return (qn_llama_options){
        .n_vocab = hp->n_vocab,
        .n_ctx = hp->n_ctx_train,
        .n_embd = hp->n_embd,
        .n_layer = hp->n_layer,
        .n_head = hp->n_head,
        .n_ff = hp->n_ff,
        .n_kv_head = hp->n_kv_head,
        .head_dim = hp->n_embd_head_k,
        .norm_eps = (double)hp->norm_eps,
        .rope_base = (double)hp->rope_base,
        .tied = m->top.out == m->top.tok_embd,
        .arch = m->arch->name,
        .qkv_bias = l->attn_q_bias,
        .out_bias = l->attn_out_bias,
        .ff_bias = l->ffn_gate_bias,
        .rope_factors = m->top.rope_freqs,
        .rope_factor = given->rope_scaling == QN_ROPE_SCALING_none ? 0 : (double)given->rope_factor,
        .yarn = given->rope_scaling == QN_ROPE_SCALING_yarn,
        .rope_attn_factor = given->rope_attn_factor != 1 ? (double)given->rope_attn_factor : 0,
        .n_ctx_orig = given->rope_ctx_orig,
    };
}

/* Do both compute the same? Of the same architecture. */
static bool alike(const qn_model *a, const qn_model *b)
{
    qn_hparams x = a->hp, y = b->hp;
    x.rope_scaling = y.rope_scaling; /* the ways to say the same; hp.rope has what is meant */
    x.rope_factor = y.rope_factor;
    x.rope_ctx_orig = y.rope_ctx_orig;
    if (memcmp(&x, &y, sizeof x) != 0 || a->n_weights != b->n_weights) return false;
    for (uint32_t i = 0; i < x.n_layer; i++)
        if (memcmp(&a->layers[i].hp, &b->layers[i].hp, sizeof a->layers[i].hp) != 0) return false;
    for (int32_t i = 0; i < a->n_weights; i++)
        if (strcmp(a->weights[i].name, b->weights[i].name) != 0) return false;
    return true;
}

qn_status qn_llama_options_read(const qn_gguf *file, qn_llama_options *out, qn_error *err)
{
    qn_model *m = NULL, *again = NULL;
    llama_texts texts;
    qn_decoder_options o;
    QN_TRY(qn__model_load(file, 0, &m, err));
    const qn_llama_options options = options_of(m);
    describe(&options, &texts, &o);
    qn_status status = qn__decoder_plan(&o, &again, err);
    if (status == QN_OK && !alike(m, again))
        status = QN_FAIL(err, unsupported, "this %s has what qn_llama_options cannot say; qn_nn_decoder takes the file",
                         m->arch->name);
    qn__model_free(again);
    qn__model_free(m);
    if (status == QN_OK) *out = options;
    return status;
}
