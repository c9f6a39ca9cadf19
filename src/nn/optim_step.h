/* SPDX-License-Identifier: MIT */
/* src/nn/optim_step.h -- a step while it is recorded. */
#ifndef QN_NN_OPTIM_STEP_H
#define QN_NN_OPTIM_STEP_H

#include "nn/optim.h"

struct qn_optim_step {
    qn_optimizer *o;
    qn_tensor *numbers, *factor;
    int32_t n_undo;
    int32_t group; /* whose numbers they are, -1 nobody's */
    int64_t step;  /* and of which step */
};

/* t = op(t, src ..) in place, remembered so that a step that fails later can take it back. */
bool qn__optim_update(qn_optim_step *s, qn_tensor *t, qn_op op, const void *attrs, qn_tensor *const *src, int n_src);

#endif
