/* SPDX-License-Identifier: MIT */
/* bench/layers.c -- what a step of training a small language model is made of besides attention: forward, and forward
 * with gradients, in microseconds, as tensor programs run them. bench/layers.py times the same in PyTorch.
 *
 *     bench_layers [THREADS]     the best of 30 each */
#include "base/thread.h"

#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/ops.h>

#include <stdio.h>
#include <stdlib.h>

enum {
    BATCH = 8,
    CONTEXT = 256,
    TOKENS = BATCH * CONTEXT,
    EMBD = 256,
    FF = 768,
    VOCAB = 2048,
    HEADS = 8,
    D = EMBD / HEADS
};

typedef struct inputs {
    qn_tensor *x, *w, *b, *h, *h2, *logits, *ids, *table, *heads;
} inputs;

static qn_tensor *rms_norm(const inputs *in) { return qn_rms_norm(in->x, in->w, 1e-5); }
static qn_tensor *layer_norm(const inputs *in) { return qn_layer_norm(in->x, 1, in->w, in->b, 1e-5); }
static qn_tensor *rope(const inputs *in) { return qn_rope(in->heads, NULL, NULL); }
static qn_tensor *rope_neox(const inputs *in) { return qn_rope(in->heads, NULL, &(qn_rope_options){.neox = true}); }
static qn_tensor *swiglu(const inputs *in) { return qn_swiglu(in->h, in->h2); }
static qn_tensor *gelu(const inputs *in) { return qn_gelu(in->h, false); }
static qn_tensor *cross_entropy(const inputs *in) { return qn_cross_entropy(in->logits, in->ids, NULL); }
static qn_tensor *embedding(const inputs *in) { return qn_embedding(in->table, in->ids); }
static qn_tensor *add(const inputs *in) { return qn_add(in->x, in->x); }
static qn_tensor *mse(const inputs *in) { return qn_mse_loss(in->h, in->h2, QN_REDUCTION_MEAN); }
static qn_tensor *softmax(const inputs *in) { return qn_softmax(in->logits, -1); }

static const struct {
    const char *name;
    qn_tensor *(*run)(const inputs *in);
} table[] = {
    {"rms_norm", rms_norm},
    {"layer_norm", layer_norm},
    {"rope", rope},
    {"rope neox", rope_neox},
    {"swiglu", swiglu},
    {"gelu", gelu},
    {"cross_entropy", cross_entropy},
    {"embedding", embedding},
    {"add", add},
    {"mse_loss", mse},
    {"softmax", softmax},
};

static qn_context *c;

static void check(bool good)
{
    if (good) return;
    fprintf(stderr, "bench_layers: %s\n", qn_context_error(c)->text);
    exit(1);
}

static qn_tensor *leaf(qn_tensor *t) { return qn_keep(qn_requires_grad_(t, true)); }

static void clear(const inputs *in)
{
    qn_tensor *const all[] = {in->x, in->w, in->b, in->h, in->h2, in->logits, in->table, in->heads};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) qn_zero_grad(all[i]);
}

static double measure(qn_tensor *(*run)(const inputs *in), const inputs *in, qn_tensor *dy, bool back)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 30; i++) {
        const int64_t begin = qn__now_ns();
        check(qn_scope_begin(c) == QN_OK);
        const bool was = qn_set_grad_enabled(c, back);
        qn_tensor *y = run(in);
        if (back) check(y != NULL && qn_backward_with(y, qn_rank(y) > 0 ? dy : NULL, false) == QN_OK);
        if (back) qn_release(y);
        check(qn_eval_all(c) == QN_OK);
        (void)qn_set_grad_enabled(c, was);
        (void)qn_scope_end(c, NULL);
        const int64_t spent = qn__now_ns() - begin;
        if (spent < best) best = spent;
        clear(in);
    }
    return (double)best * 1e-3;
}

int main(int argc, char **argv)
{
    qn_error err = {0};
    const qn_context_options options = {.n_threads = argc > 1 ? atoi(argv[1]) : 0};
    if (qn_context_create(&options, &c, &err) != QN_OK) {
        fprintf(stderr, "bench_layers: %s\n", err.text);
        return 1;
    }
    const inputs in = {
        .x = leaf(qn_randn(c, qn_shape_of(TOKENS, EMBD), QN_DTYPE_F32)),
        .w = leaf(qn_randn(c, qn_shape_of(EMBD), QN_DTYPE_F32)),
        .b = leaf(qn_randn(c, qn_shape_of(EMBD), QN_DTYPE_F32)),
        .h = leaf(qn_randn(c, qn_shape_of(TOKENS, FF), QN_DTYPE_F32)),
        .h2 = leaf(qn_randn(c, qn_shape_of(TOKENS, FF), QN_DTYPE_F32)),
        .logits = leaf(qn_randn(c, qn_shape_of(TOKENS, VOCAB), QN_DTYPE_F32)),
        .ids = qn_keep(qn_randint(c, 0, VOCAB, qn_shape_of(TOKENS), QN_DTYPE_I64)),
        .table = leaf(qn_randn(c, qn_shape_of(VOCAB, EMBD), QN_DTYPE_F32)),
        .heads = leaf(qn_randn(c, qn_shape_of(BATCH, CONTEXT, HEADS, D), QN_DTYPE_F32)),
    };
    check(qn_eval_all(c) == QN_OK);
    printf("%-16s %10s %10s\n", "us", "forward", "both");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        qn_tensor *y = table[i].run(&in),
                  *dy = qn_keep(qn_randn(c, y != NULL ? qn_shape_get(y) : QN_SCALAR, QN_DTYPE_F32));
        check(y != NULL && qn_eval_all(c) == QN_OK);
        qn_release(y);
        const double forward = measure(table[i].run, &in, dy, false), both = measure(table[i].run, &in, dy, true);
        printf("%-16s %10.0f %10.0f\n", table[i].name, forward, both);
        qn_release(dy);
    }
    qn_context_destroy(c);
    return 0;
}
