/* SPDX-License-Identifier: MIT */
/* src/nn/simple.c -- modules without parameters: activations, dropout, flatten, and any function of one tensor. */
#include "nn/module.h"

#include <stdio.h>

/* ---- activations: a type and a constructor a row ---- */

#define QN_ACTIVATION_DEFINE(word, type_name, of_x) \
    static qn_tensor *word##_forward(qn_module *m, qn_tensor *const *inputs, int n) \
    { \
        (void)m, (void)n; \
        qn_tensor *x = inputs[0]; \
        return of_x; \
    } \
    static const qn_module_type word##_type = {.name = type_name, .forward = word##_forward}; \
    qn_module *qn_nn_##word(qn_context *c) { return qn_module_create(c, &word##_type); }
QN_ACTIVATION_ROWS(QN_ACTIVATION_DEFINE)

/* ---- dropout ---- */

typedef struct dropout_state {
    double p;
} dropout_state;

static qn_tensor *dropout(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const dropout_state *s = m->state;
    return qn_dropout(x[0], s->p, m->training);
}

static void describe_dropout(const qn_module *m, char *text, size_t size)
{
    const dropout_state *s = m->state;
    snprintf(text, size, "p=%g", s->p);
}

static const qn_module_type dropout_type = {
    .name = "Dropout",
    .forward = dropout,
    .describe = describe_dropout,
    .state_bytes = sizeof(dropout_state),
};

qn_module *qn_nn_dropout(qn_context *c, double p)
{
    if (c == NULL) return NULL;
    if (!(p >= 0 && p <= 1)) {
        (void)qn_context_fail(c, QN_STATUS_invalid, "Dropout: p is %g, 0 to 1 expected", p);
        return NULL;
    }
    qn_module *m = qn_module_create(c, &dropout_type);
    if (m != NULL) ((dropout_state *)m->state)->p = p;
    return m;
}

/* ---- flatten ---- */

typedef struct flatten_state {
    int first, last;
} flatten_state;

static qn_tensor *flatten(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const flatten_state *s = m->state;
    return qn_flatten(x[0], s->first, s->last);
}

static void describe_flatten(const qn_module *m, char *text, size_t size)
{
    const flatten_state *s = m->state;
    snprintf(text, size, "%d, %d", s->first, s->last);
}

static const qn_module_type flatten_type = {
    .name = "Flatten",
    .forward = flatten,
    .describe = describe_flatten,
    .state_bytes = sizeof(flatten_state),
};

qn_module *qn_nn_flatten(qn_context *c, int first, int last)
{
    qn_module *m = qn_module_create(c, &flatten_type);
    if (m != NULL) *(flatten_state *)m->state = (flatten_state){first, last};
    return m;
}

/* ---- a function ---- */

typedef struct function_state {
    qn_tensor *(*fn)(void *arg, qn_tensor *x);
    void *arg;
    char name[64];
} function_state;

static qn_tensor *call(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    const function_state *s = m->state;
    return s->fn(s->arg, x[0]);
}

static void describe_function(const qn_module *m, char *text, size_t size)
{
    const function_state *s = m->state;
    snprintf(text, size, "%s", s->name);
}

static const qn_module_type function_type = {
    .name = "Function",
    .forward = call,
    .describe = describe_function,
    .state_bytes = sizeof(function_state),
};

qn_module *qn_nn_function(qn_context *c, const char *name, qn_tensor *(*fn)(void *arg, qn_tensor *x), void *arg)
{
    qn_module *m = qn_module_create(c, &function_type);
    if (m == NULL) return NULL;
    function_state *s = m->state;
    s->fn = fn;
    s->arg = arg;
    snprintf(s->name, sizeof s->name, "%s", name != NULL ? name : "");
    return m;
}
