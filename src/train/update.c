/* SPDX-License-Identifier: MIT */
/* src/train/update.c -- AdamW over the weights in two groups, matrices, which decay, and vectors, which don't; the
 * gradient cut to a length. */
#include "train/train.h"
#include <math.h>

enum { MATRICES, VECTORS };

static float off(float value) { return value == 0 ? -1 : value; /* to the optimizer 0 is its default */ }

qn_status qn__train_optimizer_create(qn_trainer *t, qn_error *err)
{
    const qn_adam_options options = {.lr = (double)t->o.lr,
                                     .beta1 = (double)off(t->o.beta1),
                                     .beta2 = (double)off(t->o.beta2),
                                     .weight_decay = (double)t->o.weight_decay};
    qn_tensor **list = qn__arena_array(&t->arena, (size_t)t->n_params, sizeof *list);
    if (!list) return QN_FAIL_NOMEM(err, (size_t)t->n_params * sizeof *list);
    int n = 0;
    for (int32_t i = 0; i < t->n_params; i++)
        if (qn_rank(t->params[i].value) > 1) list[n++] = t->params[i].value;
    QN_TRY(qn_adamw_create(&options, list, n, &t->optimizer, err));
    n = 0;
    for (int32_t i = 0; i < t->n_params; i++)
        if (qn_rank(t->params[i].value) == 1) list[n++] = t->params[i].value;
    return qn_optimizer_add_group(t->optimizer, list, n, (double)t->o.lr, 0, NULL) == QN_OK ? QN_OK
                                                                                            : qn__train_failed(t, err);
}

void qn__train_set_decay(qn_trainer *t)
{
    (void)qn_optimizer_set_weight_decay(t->optimizer, MATRICES, (double)t->o.weight_decay);
    (void)qn_optimizer_set_weight_decay(t->optimizer, VECTORS, 0);
}

double qn__train_rate(const qn_trainer *t)
{
    const qn_lr_schedule schedule = {.kind = QN_LR_cosine,
                                     .lr = (double)t->o.lr,
                                     .min_lr = (double)t->o.min_lr,
                                     .total = t->n_steps,
                                     .warmup = t->o.n_warmup ? t->o.n_warmup : t->n_steps / 20};
    return qn_lr_at(&schedule, t->step);
}

qn_tensor *qn__train_update(qn_trainer *t)
{
    qn_tensor *norm = qn_optimizer_clip(t->optimizer, t->o.grad_clip > 0 ? (double)t->o.grad_clip : (double)INFINITY);
    if (!norm || qn_optimizer_set_lr(t->optimizer, QN_EVERY_GROUP, qn__train_rate(t)) != QN_OK) return NULL;
    if (qn_optimizer_step(t->optimizer) != QN_OK) return NULL;
    qn_optimizer_zero_grad(t->optimizer);
    return norm;
}
