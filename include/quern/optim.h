/* SPDX-License-Identifier: MIT */
/* quern/optim.h -- optimizers, clipping, learning rates, loss scaling.
 *
 *     qn_optimizer *o;
 *     qn_adamw_create(&(qn_adam_options){.lr = 3e-4, .weight_decay = 0.1}, params, n_params, &o, &err);
 *     for (int64_t i = 0; i < n_steps; i++) {
 *         qn_scope_begin(c);
 *         qn_backward(loss_of(batch));
 *         qn_optimizer_clip(o, 1.0);
 *         qn_optimizer_set_lr(o, QN_EVERY_GROUP, qn_lr_at(&schedule, i));
 *         qn_optimizer_step(o);
 *         qn_optimizer_zero_grad(o);
 *         qn_scope_end(c, NULL);
 *         qn_eval_all(c);
 *     }
 *     qn_optimizer_destroy(o);
 *
 * Formulas are PyTorch's. A step is recorded like every operation: forward, backward and step run as one compiled graph
 * when somebody looks, and rates, decays and the number of the step may change without a new one. (Where everything
 * before it was looked at already, the step runs at once.) So a loop that looks once a step, after it and best when the
 * scope has ended, runs from the first step on the same graph, and from the second on it compiles and allocates
 * nothing. Parameters change in place, keep their memory, and nothing here is recorded for backward. Results do not
 * depend on the number of threads.
 *
 * Parameters are leaves that are contiguous, F32, F64, F16 or BF16. For a 16-bit one the optimizer keeps a master copy
 * in F32: that is what it steps, and the parameter is that rounded. Values that the parameter is given in between
 * (qn_copy_, qn_fill_, qn_module_load ..; not through qn_data) are what the next step starts from: the master takes
 * them where it does not round to them anyway. A parameter without a gradient is left out of a step, its state
 * untouched.
 *
 * Functions that return a qn_status and take no qn_error leave their error in the context; after one, nothing has
 * changed. */
#ifndef QUERN_OPTIM_H
#define QUERN_OPTIM_H

#include <quern/array.h>
#include <quern/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_optimizer qn_optimizer;

/* ---- making one ------------------------------------------------------------------------------ */

typedef struct qn_sgd_options {
    double lr; /* 0: 1e-3 */
    double momentum, dampening;
    double weight_decay; /* added to the gradient, times the parameter */
    bool nesterov;       /* wants momentum and no dampening */
    bool maximize;
} qn_sgd_options;

typedef struct qn_adam_options {
    double lr;           /* 0: 1e-3 */
    double beta1, beta2; /* 0: 0.9 and 0.999; negative: 0 */
    double eps;          /* 0: 1e-8 */
    double weight_decay; /* Adam: as for SGD; AdamW: the parameter shrinks by lr times this */
    bool amsgrad, maximize;
} qn_adam_options;

/* options may be NULL. The parameters belong to group 0; none twice. What was recorded so far in their context runs. */
QN_API qn_status qn_sgd_create(const qn_sgd_options *options, qn_tensor *const *params, int n, qn_optimizer **out,
                               qn_error *err);
QN_API qn_status qn_adam_create(const qn_adam_options *options, qn_tensor *const *params, int n, qn_optimizer **out,
                                qn_error *err);
QN_API qn_status qn_adamw_create(const qn_adam_options *options, qn_tensor *const *params, int n, qn_optimizer **out,
                                 qn_error *err);
/* Before the context of its parameters. */
QN_API void qn_optimizer_destroy(qn_optimizer *o);

/* More parameters, with a learning rate and a decay of their own; the number of the group comes out of `group` unless
 * NULL. */
QN_API qn_status qn_optimizer_add_group(qn_optimizer *o, qn_tensor *const *params, int n, double lr,
                                        double weight_decay, int *group);
#define QN_EVERY_GROUP (-1)
QN_API int qn_optimizer_n_groups(const qn_optimizer *o);
QN_API qn_status qn_optimizer_set_lr(qn_optimizer *o, int group, double lr);
QN_API double qn_optimizer_lr(const qn_optimizer *o, int group); /* NaN when there is no such group */
QN_API qn_status qn_optimizer_set_weight_decay(qn_optimizer *o, int group, double weight_decay);
QN_API double qn_optimizer_weight_decay(const qn_optimizer *o, int group);
QN_API int qn_optimizer_n_params(const qn_optimizer *o);
/* borrowed, in order of adding; NULL beyond */
QN_API qn_tensor *qn_optimizer_param(const qn_optimizer *o, int index);

/* ---- stepping -------------------------------------------------------------------------------- */

/* One step with the gradients that are there. */
QN_API qn_status qn_optimizer_step(qn_optimizer *o);
QN_API void qn_optimizer_zero_grad(qn_optimizer *o); /* qn_zero_grad of each parameter */
/* steps taken by the parameter that has taken most */
QN_API int64_t qn_optimizer_n_steps(const qn_optimizer *o);

/* The norm of all gradients together, 0-d F64, and the next step takes them times min(1, max_norm / (norm + 1e-6)):
 * gradients stay as they are and are read once, as the step reads them anyway. */
QN_API qn_tensor *qn_optimizer_clip(qn_optimizer *o, double max_norm);

/* PyTorch's clip_grad_norm_ and clip_grad_value_: the gradients themselves change. The norm before comes back, 0-d F64;
 * of order p (2 the usual, infinite for the greatest, 0: how many gradients are not 0 everywhere). Tensors without a
 * gradient count for nothing. Without any parameter there is no context for a norm: NULL. */
QN_API qn_tensor *qn_clip_grad_norm_(qn_tensor *const *params, int n, double max_norm, double p);
QN_API qn_status qn_clip_grad_value_(qn_tensor *const *params, int n, double value);

/* ---- saving and going on --------------------------------------------------------------------- */

/* All there is to know, to the bit: an optimizer made alike goes on from the file as this one would. A safetensors
 * file, written whole or not at all; `optimizer` of its metadata names the kind. load checks names, types and shapes
 * before it changes anything. */
QN_API qn_status qn_optimizer_save(qn_optimizer *o, const char *path, qn_error *err);
QN_API qn_status qn_optimizer_load(qn_optimizer *o, const char *path, qn_error *err);

/* The same as tensors, for files that hold more: number i of qn_optimizer_n_state, borrowed, and its name ("3.exp_avg";
 * at last "steps", I64, and "groups", F64: rate and decay of each), which lives until the next call. Once all of them
 * have been given other values (qn_set_data), qn_optimizer_state_set lets the optimizer go on from there. */
QN_API int qn_optimizer_n_state(const qn_optimizer *o);
QN_API qn_tensor *qn_optimizer_state(qn_optimizer *o, int index, const char **name);
QN_API qn_status qn_optimizer_state_set(qn_optimizer *o);

/* ---- learning rates: functions of the step and nothing else ---------------------------------- */

/* QN_LR(name, "the rate at step t of n, counted from the end of the warm-up"); lo is min_lr. */
/* clang-format off */
#define QN_LR_ROWS(QN_LR) \
    QN_LR(constant,    "lr") \
    QN_LR(linear,      "lr + (lo - lr) t / n") \
    QN_LR(cosine,      "lo + (lr - lo) (1 + cos(pi t / n)) / 2") \
    QN_LR(step,        "lr gamma^floor(t / every)") \
    QN_LR(exponential, "lr gamma^t") \
    QN_LR(one_cycle, \
        "by cosines from lr / div up to lr in the first part of the steps, then down to lr / div / final_div")
/* clang-format on */
typedef enum qn_lr_kind {
/* clang-format off */
#define QN_LR_ENUM(name, text) QN_LR_##name,
    QN_LR_ROWS(QN_LR_ENUM)
#undef QN_LR_ENUM
    QN_LR_COUNT
    /* clang-format on */
} qn_lr_kind;

typedef struct qn_lr_schedule {
    qn_lr_kind kind;
    double lr;     /* the highest */
    double min_lr; /* linear and cosine end there and stay; no schedule goes below it */
    /* the first steps climb linearly: step i has lr (i + 1) / (warmup + 1); not for one_cycle */
    int64_t warmup;
    int64_t total;               /* steps in all, the warm-up among them; linear, cosine and one_cycle want it */
    double gamma;                /* 0: 0.1 for step, 0.999 for exponential */
    int64_t every;               /* of step; 0: 1 */
    double part, div, final_div; /* of one_cycle; 0: 0.3, 25 and 1e4 */
} qn_lr_schedule;
/* Of step i, from 0 on; before the first step the rate of step 0. From `total` on, linear and cosine stay at min_lr and
 * one_cycle at the rate of its last step; constant, step and exponential know no end, as in PyTorch. NaN for a kind
 * that does not exist. */
QN_API double qn_lr_at(const qn_lr_schedule *schedule, int64_t step);

/* ---- loss scaling, for gradients in F16 ------------------------------------------------------ */

/* Gradients of 16 bits would vanish below 6e-8. The loss is multiplied by a scale that grows while all goes well and
 * falls when a gradient is not finite, in which case that step is left out:
 *
 *     qn_backward(qn_loss_scaler_scale(s, loss));
 *     qn_loss_scaler_unscale(s, o);            the next step of o divides by the scale; are all gradients finite?
 *     qn_optimizer_clip(o, 1.0);               the norm of what the step will take
 *     qn_loss_scaler_step(s, o, &stepped);     steps, or leaves it, and adapts the scale
 *
 * Several optimizers may step between two calls of qn_loss_scaler_scale. All divide by the scale of the last one, each
 * leaves out its own step only, and the scale adapts once, to all of them, as PyTorch's GradScaler does. */
typedef struct qn_loss_scaler {
    double scale;           /* of the next loss; 0: 65536 */
    double growth, backoff; /* 0: 2 and 0.5 */
    int64_t interval;       /* rounds without trouble before it grows; 0: 2000 */
    int64_t good;           /* such rounds so far */
    /* inside: the round that the last qn_loss_scaler_scale began, its scale, `good` before it, and whether a gradient
     * was not finite; 0 at first */
    int64_t round, good_before;
    double used;
    bool trouble;
} qn_loss_scaler;
QN_API qn_tensor *qn_loss_scaler_scale(qn_loss_scaler *s, qn_tensor *loss);
QN_API qn_status qn_loss_scaler_unscale(qn_loss_scaler *s, qn_optimizer *o);
QN_API qn_status qn_loss_scaler_step(qn_loss_scaler *s, qn_optimizer *o, bool *stepped); /* stepped may be NULL */

#ifdef __cplusplus
}
#endif
#endif
