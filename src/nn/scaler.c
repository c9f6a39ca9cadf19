/* SPDX-License-Identifier: MIT */
/* src/nn/scaler.c -- loss scaling. The step divides as it reads, so gradients stay as they are; whether they are finite
 * shows in the sum of their squares, computed in double, which no finite gradients overflow. */
#include "nn/optim.h"

#include <quern/ops.h>

#include <math.h>

static void begin_round(qn_loss_scaler *s)
{
    if (s->scale == 0) s->scale = 65536;
    if (s->growth == 0) s->growth = 2;
    if (s->backoff == 0) s->backoff = 0.5;
    if (s->interval == 0) s->interval = 2000;
    s->round++;
    s->used = s->scale;
    s->good_before = s->good;
    s->trouble = false;
}

static bool is_unscaled(const qn_loss_scaler *s, const qn_optimizer *o)
{
    return o->scaler == s && o->round == s->round;
}

qn_tensor *qn_loss_scaler_scale(qn_loss_scaler *s, qn_tensor *loss)
{
    begin_round(s);
    return qn_mul_number(loss, s->used);
}

qn_status qn_loss_scaler_unscale(qn_loss_scaler *s, qn_optimizer *o)
{
    if (s->round == 0) begin_round(s);
    if (is_unscaled(s, o)) return QN_FAIL(qn__err(o->ctx), state, "loss scaler: the gradients are unscaled already");
    QN_TRY(qn_scope_begin(o->ctx));
    qn_tensor *sum = qn__optim_sum_of_squares(o);
    qn_status status = sum != NULL ? qn_eval(sum) : qn__status(o->ctx);
    if (status == QN_OK) {
        o->finite = isfinite(qn_item(sum));
        o->scaler = s;
        o->round = s->round;
        o->unscale = 1 / s->used;
        o->looked = true;
    }
    (void)qn_scope_end(o->ctx, NULL);
    return status;
}

/* From what the round began with, so that the steps of several optimizers adapt it once. */
static void adapt(qn_loss_scaler *s, bool finite)
{
    s->trouble |= !finite;
    s->good = s->trouble ? 0 : s->good_before + 1;
    s->scale = s->trouble ? s->used * s->backoff : s->used;
    if (s->good < s->interval) return;
    s->scale *= s->growth;
    s->good = 0;
}

qn_status qn_loss_scaler_step(qn_loss_scaler *s, qn_optimizer *o, bool *stepped)
{
    if (!is_unscaled(s, o)) QN_TRY(qn_loss_scaler_unscale(s, o));
    const bool finite = o->finite;
    if (finite)
        QN_TRY(qn_optimizer_step(o));
    else
        qn__optim_next(o);
    if (stepped != NULL) *stepped = finite;
    adapt(s, finite);
    return QN_OK;
}
