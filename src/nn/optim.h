/* SPDX-License-Identifier: MIT */
/* src/nn/optim.h -- inside the optimizers. Numbers that change from step to step are elements of a small tensor made
 * for the step; everything else about a method is in its row. */
#ifndef QN_NN_OPTIM_H
#define QN_NN_OPTIM_H

#include "array/array.h"
#include <quern/optim.h>

#define QN_OPTIM_STATES 3 /* names of the rows of a state, at most */

/* What a method is made with; fields that it has no use for are 0. */
typedef struct qn_optim_rules {
    double momentum, dampening, beta1, beta2, eps;
    bool nesterov, maximize, amsgrad;
} qn_optim_rules;

typedef struct qn_optim_slot {
    qn_tensor *param;  /* retained */
    qn_tensor *target; /* what is stepped: the parameter, or its master copy in F32 */
    qn_tensor *state;  /* [rows, elements] of the target's dtype; NULL when there are no rows */
    /* The parameter when the master agreed with it last: its storage's number (0: nobody knows) and version. Where they
     * are others, somebody has given it values since. */
    uint64_t storage;
    uint32_t version;
    int64_t step;    /* steps taken */
    int64_t settled; /* of those, what qn__optim_discard leaves */
    int32_t group;
} qn_optim_slot;

typedef struct qn_optim_group {
    double lr, weight_decay;
} qn_optim_group;

typedef struct qn_optim_step qn_optim_step; /* see optim_step.c */
typedef struct qn_optim_method {
    const char *name;
    const char *states[QN_OPTIM_STATES];  /* names of the rows, as PyTorch has them */
    int (*rows)(const qn_optim_rules *r); /* of a state */
    bool coupled;                         /* weight decay is part of the gradient */
    void (*numbers)(const qn_optimizer *o, const qn_optim_group *g, int64_t step, double *out); /* of step 1, 2, .. */
    bool (*record)(qn_optim_step *s, qn_optim_slot *slot, qn_tensor *grad);
} qn_optim_method;
extern const qn_optim_method qn__method_sgd, qn__method_adam, qn__method_adamw;

#define QN_OPTIM_WRITES 4 /* by a step for one parameter, at most: master taken, state, master stepped, parameter */

/* The value of a storage before a step wrote it. */
typedef struct qn_optim_undo {
    qn_storage *storage;
    qn_node *value;
} qn_optim_undo;

struct qn_optimizer {
    qn_context *ctx;
    const qn_optim_method *method;
    qn_optim_rules rules;
    qn_optim_group *groups;
    qn_optim_slot *slots;
    qn_optim_undo *undo; /* [QN_OPTIM_WRITES * n_slots] */
    int32_t n_groups, n_slots, cap_groups, cap_slots;
    qn_tensor *one;    /* 0-d F64 */
    qn_tensor *factor; /* 0-d F64 of the next step, NULL for 1 */
    double unscale;    /* the next step takes gradients times this too */
    bool looked;       /* the gradients that it takes are computed */
    /* who divides its gradients, in which round of its own, and whether all are finite; NULL: nobody */
    const qn_loss_scaler *scaler;
    int64_t round;
    bool finite;
    qn_tensor *steps, *settings; /* for qn_optimizer_state, NULL until asked for */
    qn_tensor *lent;             /* the row that qn_optimizer_state gave last */
    char name[64];
};

/* Ends what holds for one step only. */
void qn__optim_next(qn_optimizer *o);
/* Nothing of what is pending in the context happens, nor any step since the last qn__optim_settle: for whoever recorded
 * all of it, and could not run it. */
void qn__optim_discard(qn_optimizer *o);
/* What was stepped so far has been run. */
void qn__optim_settle(qn_optimizer *o);
/* Its master agrees with its parameter now. */
void qn__optim_agree(qn_optim_slot *s);
/* The sum of squares of the gradients that are there, 0-d F64; NULL on failure. */
qn_tensor *qn__optim_sum_of_squares(const qn_optimizer *o);

#endif
