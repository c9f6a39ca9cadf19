/* SPDX-License-Identifier: MIT */
/* src/nn/optim.c -- optimizers: made, given parameters, asked. A state is made with its parameter and lies in memory
 * from then on, so that the first step records what every later one does. */
#include "nn/optim.h"

#include "base/mem.h"

#include <math.h>

/* ---- options --------------------------------------------------------------------------------- */

static qn_status check_rates(double lr, double weight_decay, qn_error *err)
{
    if (!(lr >= 0) || !isfinite(lr))
        return QN_FAIL(err, invalid, "optimizer: a learning rate of %g, a finite one of at least 0 expected", lr);
    if (!(weight_decay >= 0) || !isfinite(weight_decay)) {
        return QN_FAIL(err, invalid, "optimizer: a weight decay of %g, a finite one of at least 0 expected",
                       weight_decay);
    }
    return QN_OK;
}

static double or_default(double value, double usual) { return value == 0 ? usual : value < 0 ? 0 : value; }

static qn_status sgd_rules(const qn_sgd_options *o, qn_optim_rules *out, qn_error *err)
{
    *out = (qn_optim_rules){.momentum = o->momentum,
                            .dampening = o->dampening,
                            .nesterov = o->nesterov,
                            .maximize = o->maximize};
    if (!(o->momentum >= 0)) return QN_FAIL(err, invalid, "sgd: a momentum of %g, at least 0 expected", o->momentum);
    if (o->dampening != o->dampening) return QN_FAIL(err, invalid, "sgd: the dampening is NaN");
    if (!o->nesterov || (o->momentum > 0 && o->dampening == 0)) return QN_OK;
    return QN_FAIL(err, invalid, "sgd: Nesterov's momentum wants a momentum and no dampening, not %g and %g",
                   o->momentum, o->dampening);
}

static qn_status adam_rules(const qn_adam_options *o, qn_optim_rules *out, qn_error *err)
{
    *out = (qn_optim_rules){.beta1 = or_default(o->beta1, 0.9),
                            .beta2 = or_default(o->beta2, 0.999),
                            .eps = or_default(o->eps, 1e-8),
                            .amsgrad = o->amsgrad,
                            .maximize = o->maximize};
    if (out->beta1 < 1 && out->beta2 < 1 && out->eps >= 0) return QN_OK;
    return QN_FAIL(err, invalid, "adam: betas %g and %g, eps %g: betas below 1 expected", out->beta1, out->beta2,
                   out->eps);
}

/* What a call on the context that failed just now left there. */
static qn_status context_failed(const qn_context *ctx, qn_error *err)
{
    const qn_status status = qn__status(ctx);
    if (err == NULL) return status;
    *err = *ctx->latest;
    err->status = status;
    return status;
}

static qn_status compute(qn_tensor *t, qn_error *err)
{
    return qn_eval(t) == QN_OK ? QN_OK : context_failed(of(t)->ctx, err);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static qn_status check_param(const qn_optimizer *o, const qn_tensor *p, int index, qn_error *err)
{
    if (p == NULL) return QN_FAIL(err, invalid, "optimizer: parameter %d is NULL", index);
    if (!LIVE(p)) return QN_FAIL(err, invalid, "optimizer: parameter %d is over: its handle was released", index);
    if (of(p)->ctx != o->ctx) return QN_FAIL(err, invalid, "optimizer: parameter %d belongs to another context", index);
    if (of(p)->grad_fn == NULL || !qn_is_leaf(p)) {
        return QN_FAIL(err, invalid, "optimizer: parameter %d is no leaf that requires a gradient", index);
    }
    if (!qn_is_contiguous(p)) return QN_FAIL(err, invalid, "optimizer: parameter %d is not contiguous", index);
    for (int i = 0; i < o->n_slots; i++) {
        if (of(o->slots[i].param)->grad_fn == of(p)->grad_fn)
            return QN_FAIL(err, invalid, "optimizer: parameter %d is there already, as number %d", index, i);
    }
    return QN_OK;
}

static void drop_slot(qn_optim_slot *s)
{
    if (s->target != s->param) qn_release(s->target);
    qn_release(s->state);
    qn_release(s->param);
    *s = (qn_optim_slot){0};
}

/* Its tensors are computed by now or lie in memory as they are. */
static qn_status fill_slot(qn_optimizer *o, qn_optim_slot *s, qn_tensor *p, qn_error *err)
{
    qn_context *ctx = o->ctx;
    const qn_dtype wide = qn_dtype_of(p) == QN_DTYPE_F64 ? QN_DTYPE_F64 : QN_DTYPE_F32;
    const int rows = o->method->rows(&o->rules);
    *s = (qn_optim_slot){.param = qn_retain(p), .target = p};
    if (wide != qn_dtype_of(p) && qn_dtype_of(p) != QN_DTYPE_F32) s->target = qn_keep(qn_to(qn_detach(p), wide));
    if (s->target != NULL && rows > 0) { /* the state lies with its parameter */
        const int32_t was = qn__place_swap(ctx, qn__place_of(p));
        s->state = qn_keep(qn_zeros(ctx, qn_shape_of(rows, qn_numel(p)), wide));
        qn__place_swap(ctx, was);
    }
    return s->target != NULL && (rows == 0 || s->state != NULL) ? QN_OK : context_failed(ctx, err);
}

static qn_status grow(qn_optimizer *o, int n, qn_error *err)
{
    if (o->n_groups == o->cap_groups) {
        const int32_t cap = o->cap_groups * 2 + 4;
        qn_optim_group *groups = qn__realloc(o->groups, (size_t)cap * sizeof *groups);
        if (groups == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *groups);
        o->groups = groups;
        o->cap_groups = cap;
    }
    if (n > INT32_MAX / 16 - o->n_slots) return QN_FAIL(err, limit, "optimizer: %d more parameters are too many", n);
    const int32_t cap = o->n_slots + n;
    if (cap <= o->cap_slots) return QN_OK;
    qn_optim_slot *slots = qn__realloc(o->slots, (size_t)cap * sizeof *slots);
    if (slots == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * sizeof *slots);
    o->slots = slots;
    qn_optim_undo *undo = qn__realloc(o->undo, (size_t)cap * QN_OPTIM_WRITES * sizeof *undo);
    if (undo == NULL) return QN_FAIL_NOMEM(err, (size_t)cap * QN_OPTIM_WRITES * sizeof *undo);
    o->undo = undo;
    o->cap_slots = cap;
    return QN_OK;
}

static qn_status fill_slots(qn_optimizer *o, qn_tensor *const *params, int n, qn_error *err)
{
    const int32_t first = o->n_slots;
    for (int i = 0; i < n; i++) {
        QN_TRY(check_param(o, params[i], i, err));
        qn_optim_slot *s = &o->slots[o->n_slots++];
        const qn_status status = fill_slot(o, s, params[i], err);
        if (status != QN_OK) return qn__prefix(err, status, "optimizer: parameter %d", i);
        s->group = o->n_groups;
    }
    for (int32_t i = first; i < o->n_slots; i++) { /* one run computes them all */
        QN_TRY(compute(o->slots[i].param, err));
        QN_TRY(compute(o->slots[i].target, err));
        if (o->slots[i].state != NULL) QN_TRY(compute(o->slots[i].state, err));
        qn__optim_agree(&o->slots[i]);
    }
    return QN_OK;
}

static qn_status add_params(qn_optimizer *o, qn_tensor *const *params, int n, double lr, double weight_decay,
                            qn_error *err)
{
    const int32_t before = o->n_slots;
    if (n < 0 || (n > 0 && params == NULL)) return QN_FAIL(err, invalid, "optimizer: %d parameters", n);
    QN_TRY(check_rates(lr, weight_decay, err));
    QN_TRY(grow(o, n, err));
    if (qn_scope_begin(o->ctx) != QN_OK) return context_failed(o->ctx, err);
    const bool was = qn_set_grad_enabled(o->ctx, false);
    const qn_status status = fill_slots(o, params, n, err);
    qn_set_grad_enabled(o->ctx, was);
    (void)qn_scope_end(o->ctx, NULL);
    if (status != QN_OK) {
        while (o->n_slots > before) drop_slot(&o->slots[--o->n_slots]);
        return status;
    }
    o->groups[o->n_groups++] = (qn_optim_group){lr, weight_decay};
    return QN_OK;
}

/* ---- making and ending ----------------------------------------------------------------------- */

static qn_status create(const qn_optim_method *method, const qn_optim_rules *rules, double lr, double weight_decay,
                        qn_tensor *const *params, int n, qn_optimizer **out, qn_error *err)
{
    if (n <= 0 || params == NULL || !LIVE(params[0]))
        return QN_FAIL(err, invalid, "%s: there are no parameters", method->name);
    qn_optimizer *o = qn__calloc(1, sizeof *o);
    if (o == NULL) return QN_FAIL_NOMEM(err, sizeof *o);
    *o = (qn_optimizer){.ctx = of(params[0])->ctx, .method = method, .rules = *rules, .unscale = 1};
    qn__context_hold(o->ctx);
    o->one = qn_keep(qn__from_data_at(o->ctx, qn__place_of_host(o->ctx), &(double){1}, QN_SCALAR, QN_DTYPE_F64));
    const qn_status status =
        o->one != NULL ? add_params(o, params, n, lr == 0 ? 1e-3 : lr, weight_decay, err) : context_failed(o->ctx, err);
    if (status != QN_OK) {
        qn_optimizer_destroy(o);
        return status;
    }
    *out = o;
    return QN_OK;
}

qn_status qn_sgd_create(const qn_sgd_options *options, qn_tensor *const *params, int n, qn_optimizer **out,
                        qn_error *err)
{
    const qn_sgd_options o = options != NULL ? *options : (qn_sgd_options){0};
    qn_optim_rules rules;
    QN_TRY(sgd_rules(&o, &rules, err));
    return create(&qn__method_sgd, &rules, o.lr, o.weight_decay, params, n, out, err);
}

static qn_status create_adam(const qn_optim_method *method, const qn_adam_options *options, qn_tensor *const *params,
                             int n, qn_optimizer **out, qn_error *err)
{
    const qn_adam_options o = options != NULL ? *options : (qn_adam_options){0};
    qn_optim_rules rules;
    QN_TRY(adam_rules(&o, &rules, err));
    return create(method, &rules, o.lr, o.weight_decay, params, n, out, err);
}

qn_status qn_adam_create(const qn_adam_options *options, qn_tensor *const *params, int n, qn_optimizer **out,
                         qn_error *err)
{
    return create_adam(&qn__method_adam, options, params, n, out, err);
}

qn_status qn_adamw_create(const qn_adam_options *options, qn_tensor *const *params, int n, qn_optimizer **out,
                          qn_error *err)
{
    return create_adam(&qn__method_adamw, options, params, n, out, err);
}

void qn_optimizer_destroy(qn_optimizer *o)
{
    if (o == NULL) return;
    for (int i = 0; i < o->n_slots; i++) drop_slot(&o->slots[i]);
    qn__optim_next(o);
    qn_release(o->one);
    qn_release(o->steps);
    qn_release(o->settings);
    qn_release(o->lent);
    qn__free(o->groups);
    qn__free(o->slots);
    qn__free(o->undo);
    qn__context_let_go(o->ctx);
    qn__free(o);
}

qn_status qn_optimizer_add_group(qn_optimizer *o, qn_tensor *const *params, int n, double lr, double weight_decay,
                                 int *group)
{
    qn_error err = {0};
    const qn_status status = add_params(o, params, n, lr, weight_decay, &err);
    if (status == QN_OK && group != NULL) *group = o->n_groups - 1;
    if (err.status != QN_OK) *qn__err(o->ctx) = err;
    return status;
}

/* ---- questions and settings ------------------------------------------------------------------ */

int qn_optimizer_n_groups(const qn_optimizer *o) { return o->n_groups; }
int qn_optimizer_n_params(const qn_optimizer *o) { return o->n_slots; }

qn_tensor *qn_optimizer_param(const qn_optimizer *o, int index)
{
    return index >= 0 && index < o->n_slots ? o->slots[index].param : NULL;
}

static bool has_group(const qn_optimizer *o, int group) { return group >= 0 && group < o->n_groups; }
double qn_optimizer_lr(const qn_optimizer *o, int group) { return has_group(o, group) ? o->groups[group].lr : NAN; }
double qn_optimizer_weight_decay(const qn_optimizer *o, int group)
{
    return has_group(o, group) ? o->groups[group].weight_decay : NAN;
}

static qn_status set(qn_optimizer *o, int group, double value, bool decay)
{
    qn_error *err = qn__err(o->ctx);
    if (group != QN_EVERY_GROUP && !has_group(o, group))
        return QN_FAIL(err, invalid, "optimizer: group %d of %d", group, o->n_groups);
    QN_TRY(check_rates(decay ? 0 : value, decay ? value : 0, err));
    for (int i = 0; i < o->n_groups; i++) {
        if (group != QN_EVERY_GROUP && group != i) continue;
        *(decay ? &o->groups[i].weight_decay : &o->groups[i].lr) = value;
    }
    return QN_OK;
}

qn_status qn_optimizer_set_lr(qn_optimizer *o, int group, double lr) { return set(o, group, lr, false); }
qn_status qn_optimizer_set_weight_decay(qn_optimizer *o, int group, double weight_decay)
{
    return set(o, group, weight_decay, true);
}

int64_t qn_optimizer_n_steps(const qn_optimizer *o)
{
    int64_t n = 0;
    for (int i = 0; i < o->n_slots; i++) n = o->slots[i].step > n ? o->slots[i].step : n;
    return n;
}

void qn_optimizer_zero_grad(qn_optimizer *o)
{
    for (int i = 0; i < o->n_slots; i++) qn_zero_grad(o->slots[i].param);
}
