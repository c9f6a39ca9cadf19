/* SPDX-License-Identifier: MIT */
/* src/train/lora_model.c -- the base's forward pass with x a^T b^T beside the layers that learn. Only the pairs have
 * gradients; what comes before the first of them is computed without a tape. */
#include "lm/record.h"
#include "train/lora.h"
#include <quern/autograd.h>
#include <quern/ops.h>

typedef struct recording {
    qn_trainer *t;
    bool training;
} recording;

static qn_tensor *weight(void *host, const qn_weight *w) { return ((recording *)host)->t->lora->layers[w->index].w; }

static qn_tensor *beside(void *host, qn_tensor *y, qn_tensor *x, const qn_weight *w)
{
    const recording *rec = host;
    const qn_lora_base *base = rec->t->lora;
    const qn_lora_layer *l = &base->layers[w->index];
    if (!l->a) return y;
    if (rec->training && rec->t->o.dropout > 0) x = qn_dropout(x, (double)rec->t->o.dropout, true);
    qn_tensor *h = qn_mul_number(qn_linear(x, l->a, NULL), (double)(base->alpha / (float)base->rank));
    return qn_add(y, qn_linear(h, l->b, NULL));
}

static const qn_lm_host host = {.weight = weight, .beside = beside, .as_engine = true};

static qn_lm_pass pass(recording *rec)
{
    const qn_trainer *t = rec->t;
    return (qn_lm_pass){
        .type = &host, .host = rec, .model = t->lora->model, .ids = t->ids_in, .sees = t->sees_in, .n_ctx = t->o.n_ctx};
}

static qn_tensor *layer_again(void *arg, qn_tensor *const *inputs, int n)
{
    const qn_lora_step *step = arg;
    recording rec = {step->trainer, true};
    qn_lm_pass p = pass(&rec);
    (void)n;
    qn_stream s = {.x = qn__lm_value(inputs[0])};
    if (step->has_embd) s.embd = qn__lm_value(inputs[1]);
    if (step->has_inputs) s.inputs = qn__lm_value(inputs[1 + step->has_embd]);
    return qn__lm_tensor(qn__forward_layer(&qn__lm_recorder, &p, p.model, step->layer, &s));
}

qn_tensor *qn__lora_loss(qn_trainer *t, double divisor, bool training)
{
    recording rec = {t, training};
    qn_lm_pass p = pass(&rec);
    const qn_model *m = p.model;
    const qn_recorder *r = &qn__lm_recorder;
    qn_stream s = qn__forward_begin(r, &p, m);
    for (int i = 0; i < (int)m->hp.n_layer && s.x; i++) {
        qn_lora_step *step = &t->lora->steps[i];
        *step = (qn_lora_step){t, i, s.embd != NULL, s.inputs != NULL};
        qn_tensor *in[3] = {qn__lm_tensor(s.x)};
        int n_in = 1;
        if (s.embd) in[n_in++] = qn__lm_tensor(s.embd);
        if (s.inputs) in[n_in++] = qn__lm_tensor(s.inputs);
        s.x = training && t->o.grad_checkpointing ? qn__lm_value(qn_checkpoint(layer_again, step, in, n_in))
                                                  : qn__forward_layer(r, &p, m, i, &s);
    }
    if (!s.x) return NULL;
    qn_tensor *logits = qn__lm_tensor(qn__forward_logits(r, &p, m, s.x)); /* [batch, ctx, vocab] */
    const int64_t n = (int64_t)t->o.n_batch * t->o.n_ctx;
    if (!logits) return NULL;
    qn_tensor *sum =
        qn_cross_entropy(qn_view_as(logits, qn_shape_of(n, m->hp.n_vocab)), qn_view_as(t->targets_in, qn_shape_of(n)),
                         &(qn_cross_entropy_options){.ignore_index = -1, .reduction = QN_REDUCTION_SUM});
    return qn__train_scaled(t, sum, divisor);
}
