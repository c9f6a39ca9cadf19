/* SPDX-License-Identifier: MIT */
/* bench/record.c -- what recording costs, and what writing in place costs beside a new tensor.
 *
 *     bench_record [THREADS]     nanoseconds an operation recorded, the best of 30; milliseconds of add and add_ on 4M
 *                                floats, the best of 30, run in turn, and their ratio */
#include "base/thread.h"

#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/ops.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 30, OPS = 4000, N = 4 << 20 };

static double least(double a, double b) { return a < b ? a : b; }

/* Nothing of it is ever seen, so nothing is computed: recording is all there is. */
static double record(qn_context *c, qn_tensor *a, qn_tensor *b)
{
    const int64_t start = qn__now_ns();
    if (qn_scope_begin(c) != QN_OK) return 0;
    for (int i = 0; i < OPS; i++) (void)qn_add(a, b);
    (void)qn_scope_end(c, NULL);
    const double ns = (double)(qn__now_ns() - start) / OPS;
    (void)qn_eval_all(c);
    return ns;
}

static double run(qn_tensor *a, qn_tensor *b, bool in_place)
{
    const int64_t start = qn__now_ns();
    qn_tensor *y = in_place ? qn_add_(a, b) : qn_add(a, b);
    (void)qn_eval(y);
    const double ms = (double)(qn__now_ns() - start) * 1e-6;
    if (!in_place) qn_release(y);
    return ms;
}

int main(int argc, char **argv)
{
    qn_context *c;
    qn_error err = {0};
    if (qn_context_create(&(qn_context_options){.n_threads = argc > 1 ? atoi(argv[1]) : 0}, &c, &err) != QN_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    qn_tensor *a = qn_rand(c, qn_shape_of(4), QN_DTYPE_F32), *b = qn_rand(c, qn_shape_of(4), QN_DTYPE_F32);
    qn_tensor *x = qn_rand(c, qn_shape_of(N), QN_DTYPE_F32), *y = qn_rand(c, qn_shape_of(N), QN_DTYPE_F32);
    double plain = 1e9, taped = 1e9, add = 1e9, add_ = 1e9;
    (void)qn_eval_all(c);
    for (int i = 0; i < ROUNDS; i++) {
        plain = least(plain, record(c, a, b));
        (void)qn_requires_grad_(a, true);
        taped = least(taped, record(c, a, b));
        (void)qn_requires_grad_(a, false);
        add = least(add, run(x, y, false));
        add_ = least(add_, run(x, y, true));
    }
    printf("record %.0f ns, with gradients %.0f ns\n", plain, taped);
    printf("add %.3f ms, add_ %.3f ms: %.2f\n", add, add_, add_ / add);
    qn_context_destroy(c);
    return 0;
}
