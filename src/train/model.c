/* SPDX-License-Identifier: MIT */
/* src/train/model.c -- the model that is trained, a decoder as a module, whose weights are named as in GGUF files; and
 * its loss. */
#include "lm/decoder.h"
#include "train/lora.h"
#include <pthread.h>
#include <quern/engine.h>
#include <quern/ops.h>

static qn_decoder_options decoder_of(const qn_trainer *t)
{
    const qn_train_options *o = &t->o;
    return (qn_decoder_options){
        .arch = o->arch,
        .n_vocab = t->data.n_vocab,
        .n_ctx = o->n_ctx,
        .n_embd = o->n_embd,
        .n_layer = o->n_layer,
        .n_head = o->n_head,
        .n_kv_head = o->n_kv_head,
        .n_ff = o->n_ff,
        .rope_base = (double)o->rope_base,
        .tied = o->tied,
        .dropout_p = (double)o->dropout,
        .grad_checkpointing = o->grad_checkpointing,
    };
}

qn_status qn__lm_trainable(const qn_model *m, qn_error *err)
{
    if (!m->top.out) return QN_FAIL(err, unsupported, "%s has no output matrix to train logits of", m->arch->name);
    if (m->sees_ahead)
        return QN_FAIL(err, unsupported,
                       "tokens of this %s see what comes after them; training predicts the next token", m->arch->name);
    return qn__lm_check(m, err);
}

/* ---- which architectures ---- */

enum { MAX_ARCHS = 512 };
static const char *trainable[MAX_ARCHS + 1];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* By a small model of each, planned and never made. */
static void find_trainable(void)
{
    int n = 0;
    for (const char *const *name = qn_architectures(); *name && n < MAX_ARCHS; name++) {
        qn_train_options o;
        qn_model *m = NULL;
        if (qn__train_resolve(&(qn_train_options){.arch = *name, .n_vocab = 512}, &o, NULL) != QN_OK) continue;
        const qn_trainer t = {.o = o, .data.n_vocab = o.n_vocab};
        const qn_decoder_options options = decoder_of(&t);
        if (qn__decoder_plan(&options, &m, NULL) == QN_OK && qn__lm_trainable(m, NULL) == QN_OK) trainable[n++] = *name;
        qn__model_free(m);
    }
}

const char *const *qn_train_architectures(void)
{
    pthread_once(&once, find_trainable);
    return trainable;
}

/* ---- the model ---- */

qn_status qn__lm_plan(qn_trainer *t, qn_error *err)
{
    const qn_decoder_options options = decoder_of(t);
    qn_model *m = NULL;
    QN_TRY(qn__decoder_plan(&options, &m, err));
    const qn_status status = qn__lm_trainable(m, err);
    t->n_weights = (int64_t)m->n_params;
    qn__model_free(m);
    return status;
}

static bool add_param(void *arg, const char *path, qn_tensor *tensor, qn_named_kind kind)
{
    qn_trainer *t = arg;
    (void)kind; /* it has no buffers */
    t->params[t->n_params++] = (qn_train_param){.name = qn__arena_strdup(&t->arena, path), .value = tensor};
    return true;
}

qn_status qn__lm_create(qn_trainer *t, qn_error *err)
{
    const qn_train_options *o = &t->o;
    const qn_decoder_options options = decoder_of(t);
    qn_manual_seed(t->ctx, o->seed);
    t->lm = qn_nn_decoder(t->ctx, &options);
    if (t->lm && o->bf16 && qn_module_to(t->lm, QN_DTYPE_BF16) != QN_OK) return qn__train_failed(t, err);
    const int64_t n = t->lm ? qn_module_parameters(t->lm, NULL, 0) : -1;
    if (n < 0) return qn__train_failed(t, err);
    t->params = qn__arena_array(&t->arena, (size_t)n, sizeof *t->params);
    if (!t->params) return QN_FAIL_NOMEM(err, (size_t)n * sizeof *t->params);
    if (qn_module_each_tensor(t->lm, add_param, t) != QN_OK) return qn__train_failed(t, err);
    return t->arena.failed ? QN_FAIL_NOMEM(err, 64) : QN_OK;
}

qn_tensor *qn__lm_loss(qn_trainer *t, double divisor, bool training)
{
    qn_module_train(t->lm, training);
    qn_tensor *const inputs[] = {t->ids_in, t->sees_in};
    qn_tensor *logits = qn_module_forward_n(t->lm, inputs, 2); /* [batch, ctx, vocab] */
    if (!logits) return NULL;
    if (t->o.bf16) logits = qn_to(logits, QN_DTYPE_F32); /* as everywhere: losses are summed in F32 */
    qn_tensor *loss = qn_cross_entropy(qn_flatten(logits, 0, 1), qn_flatten(t->targets_in, 0, 1),
                                       &(qn_cross_entropy_options){.ignore_index = -1, .reduction = QN_REDUCTION_SUM});
    return qn__train_scaled(t, loss, divisor);
}
