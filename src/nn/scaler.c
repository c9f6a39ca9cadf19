/* SPDX-License-Identifier: MIT */
/* src/nn/scaler.c -- loss scaling. The step divides as it reads, so gradients stay as they are; whether they are finite
 * shows in the sum of their squares, computed in double, which no finite gradients overflow. */
#include "nn/optim.h"

#include <quern/ops.h>

#include <math.h>

static void defaults(qn_loss_scaler *s)
{
    if (s->scale == 0) s->scale = 65536;
    if (s->growth == 0) s->growth = 2;
    if (s->backoff == 0) s->backoff = 0.5;
    if (s->interval == 0) s->interval = 2000;
}

qn_tensor *qn_loss_scaler_scale(qn_loss_scaler *s, qn_tensor *loss)
{
    defaults(s);
    s->unscaled = false;
    return qn_mul_number(loss, s->scale);
}

qn_status qn_loss_scaler_unscale(qn_loss_scaler *s, qn_optimizer *o)
{
    defaults(s);
    if (s->unscaled) return QN_FAIL(qn__err(o->ctx), state, "loss scaler: the gradients are unscaled already");
    QN_TRY(qn_scope_begin(o->ctx));
    qn_tensor *sum = qn__optim_sum_of_squares(o);
    qn_status status = sum != NULL ? qn_eval(sum) : qn__status(o->ctx);
    if (status == QN_OK) {
        s->finite = isfinite(qn_item(sum));
        s->unscaled = true;
        o->unscale = 1 / s->scale;
        o->looked = true;
    }
    (void)qn_scope_end(o->ctx, NULL);
    return status;
}

qn_status qn_loss_scaler_step(qn_loss_scaler *s, qn_optimizer *o, bool *stepped)
{
    if (!s->unscaled) QN_TRY(qn_loss_scaler_unscale(s, o));
    const bool finite = s->finite;
    if (finite)
        QN_TRY(qn_optimizer_step(o));
    else
        qn__optim_next(o);
    if (stepped != NULL) *stepped = finite;
    s->unscaled = false;
    s->good = finite ? s->good + 1 : 0;
    if (!finite) s->scale *= s->backoff;
    if (s->good < s->interval) return QN_OK;
    s->scale *= s->growth;
    s->good = 0;
    return QN_OK;
}
