/* SPDX-License-Identifier: MIT */
/* src/nn/optim_methods.c -- the methods, one row each: what their state is, the numbers of a step, and the operations
 * that make it. Formulas and the numbers' rounding are PyTorch's: corrections are computed in double and used in the
 * parameter's type. */
#include "nn/optim_step.h"

#include <math.h>

static double sign_of(const qn_optimizer *o) { return (o->rules.maximize ? -1 : 1) * o->unscale; }

/* ---- SGD ------------------------------------------------------------------------------------- */

static int sgd_rows(const qn_optim_rules *r) { return r->momentum != 0; }

static void sgd_numbers(const qn_optimizer *o, const qn_optim_group *g, int64_t step, double *out)
{
    out[QN_OPTIM_sign] = sign_of(o);
    out[QN_OPTIM_decay] = g->weight_decay;
    out[QN_SGD_momentum] = o->rules.momentum;
    out[QN_SGD_share] = step == 1 ? 1 : 1 - o->rules.dampening; /* the first buffer is the gradient */
    out[QN_SGD_rate] = g->lr;
}

static bool record_sgd(qn_optim_step *s, qn_optim_slot *slot, qn_tensor *grad)
{
    qn_tensor *p = slot->target, *b = slot->state;
    const bool decays = s->o->groups[slot->group].weight_decay != 0;
    if (b == NULL) {
        return qn__optim_update(s, p, QN_OP_sgd_step, &(qn_sgd_attrs){QN_SGD_plain},
                                (qn_tensor *[]){grad, s->numbers, s->factor}, 3);
    }
    if (!qn__optim_update(s, b, QN_OP_sgd_momentum, NULL, (qn_tensor *[]){grad, s->numbers, s->factor, p}, 3 + decays))
        return false;
    if (!s->o->rules.nesterov) {
        return qn__optim_update(s, p, QN_OP_sgd_step, &(qn_sgd_attrs){QN_SGD_buffered},
                                (qn_tensor *[]){b, s->numbers, s->factor}, 3);
    }
    return qn__optim_update(s, p, QN_OP_sgd_step, &(qn_sgd_attrs){QN_SGD_nesterov},
                            (qn_tensor *[]){grad, s->numbers, s->factor, b}, 4);
}

const qn_optim_method qn__method_sgd = {"sgd", {"momentum_buffer"}, sgd_rows, true, sgd_numbers, record_sgd};

/* ---- Adam and AdamW -------------------------------------------------------------------------- */

static int adam_rows(const qn_optim_rules *r) { return r->amsgrad ? 3 : 2; }

static void adam_numbers(const qn_optimizer *o, const qn_optim_group *g, int64_t step, double *out)
{
    const qn_optim_rules *r = &o->rules;
    const bool coupled = o->method->coupled;
    out[QN_OPTIM_sign] = sign_of(o);
    out[QN_OPTIM_decay] = coupled ? g->weight_decay : 0;
    out[QN_ADAM_beta1] = r->beta1;
    out[QN_ADAM_beta2] = r->beta2;
    out[QN_ADAM_rate] = g->lr / (1 - pow(r->beta1, (double)step));
    out[QN_ADAM_root] = sqrt(1 - pow(r->beta2, (double)step));
    out[QN_ADAM_eps] = r->eps;
    out[QN_ADAM_keep] = coupled ? 1 : 1 - g->lr * g->weight_decay;
}

static bool record_adam(qn_optim_step *s, qn_optim_slot *slot, qn_tensor *grad)
{
    qn_tensor *p = slot->target, *state = slot->state;
    const bool decays = s->o->method->coupled && s->o->groups[slot->group].weight_decay != 0;
    return qn__optim_update(s, state, QN_OP_adam_moments, NULL, (qn_tensor *[]){grad, s->numbers, s->factor, p},
                            3 + decays) &&
           qn__optim_update(s, p, QN_OP_adam_step, NULL, (qn_tensor *[]){state, s->numbers}, 2);
}

/* clang-format off */
#define STATES {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
/* clang-format on */
const qn_optim_method qn__method_adam = {"adam", STATES, adam_rows, true, adam_numbers, record_adam};
const qn_optim_method qn__method_adamw = {"adamw", STATES, adam_rows, false, adam_numbers, record_adam};
