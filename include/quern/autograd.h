/* SPDX-License-Identifier: MIT */
/* quern/autograd.h -- gradients.
 *
 *     qn_tensor *w = qn_requires_grad_(qn_zeros(c, qn_shape_of(3), QN_DTYPE_F32), true);
 *     qn_backward(loss);              w's gradient is qn_grad(w)
 *     bool was = qn_set_grad_enabled(c, false);
 *     qn_sub_(w, qn_mul_number(qn_grad(w), 0.1));
 *     qn_set_grad_enabled(c, was);
 *     qn_zero_grad(w);
 *
 * Semantics are PyTorch's. Leaves are tensors on which qn_requires_grad_ was called; gradients add up in them until
 * qn_zero_grad. backward records: forward, backward and the step of the optimizer become one compiled graph, run when
 * somebody looks. What a gradient needs is kept from when the operation was recorded until backward; it may not be
 * changed in place in between, which backward reports. A write into a part of a tensor, through a view, carries
 * gradients too: those of the part go where the new value came from, those of the rest where the old one did, and all
 * handles over that storage know. */
#ifndef QUERN_AUTOGRAD_H
#define QUERN_AUTOGRAD_H

#include <quern/array.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes t a leaf, or takes that away; the gradient that it has stays, until qn_zero_grad. Returns t, NULL on failure (t
 * is not real, or was computed from a leaf). */
QN_API qn_tensor *qn_requires_grad_(qn_tensor *t, bool requires_grad);
QN_API bool qn_requires_grad(const qn_tensor *t); /* a leaf, or computed from one */
QN_API bool qn_is_leaf(const qn_tensor *t);
/* The same values, of which backward knows nothing. */
QN_API qn_tensor *qn_detach(qn_tensor *t);

/* Whether operations are recorded for backward, from now on; gives what it was. */
QN_API bool qn_set_grad_enabled(qn_context *ctx, bool enabled);
QN_API bool qn_grad_enabled(const qn_context *ctx);

/* y = fn(arg, inputs), of which nothing but the inputs and y is kept for backward: fn is called again then, on tensors
 * of the same values, and has to do the same. Random numbers come the same again. It may use other tensors than its
 * inputs, parameters above all, but not look at values when it is called again, and what arg points to has to live
 * until backward. At most 6 inputs. */
typedef qn_tensor *(*qn_checkpoint_fn)(void *arg, qn_tensor *const *inputs, int n);
QN_API qn_tensor *qn_checkpoint(qn_checkpoint_fn fn, void *arg, qn_tensor *const *inputs, int n);

/* Adds d t / d leaf to the gradient of every leaf. t has one element. */
QN_API qn_status qn_backward(qn_tensor *t);
/* With the gradient of t given (NULL: 1); retain_graph keeps what another backward through the same operations needs.
 */
QN_API qn_status qn_backward_with(qn_tensor *t, qn_tensor *grad, bool retain_graph);
/* Borrowed; NULL while there is none. */
QN_API qn_tensor *qn_grad(const qn_tensor *t);
QN_API void qn_zero_grad(qn_tensor *t);                      /* takes it away, as set_to_none */
QN_API qn_status qn_set_grad(qn_tensor *t, qn_tensor *grad); /* shares the storage of grad */
QN_API void qn_retain_grad(qn_tensor *t);                    /* a tensor that is no leaf keeps its gradient too */

#ifdef __cplusplus
}
#endif
#endif
