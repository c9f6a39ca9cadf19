/* SPDX-License-Identifier: MIT */
/* src/nn/containers.c -- Sequential and ModuleList: children named by their number. */
#include "nn/module.h"

#include <stdio.h>

static qn_tensor *sequential(qn_module *m, qn_tensor *const *x, int n)
{
    (void)n;
    qn_tensor *y = x[0];
    for (int i = 0; i < m->n_children; i++) {
        qn_tensor *next = qn_module_forward(m->children[i].module, y);
        if (i > 0) qn_release(y); /* what backward needs of it, the tape keeps */
        y = next;
    }
    return y;
}

static qn_tensor *no_forward(qn_module *m, qn_tensor *const *x, int n)
{
    (void)x, (void)n;
    QN_MODULE_FAIL(m, unsupported, "a list computes nothing; call its modules");
    return NULL;
}

static const qn_module_type sequential_type = {.name = "Sequential", .forward = sequential};
static const qn_module_type list_type = {.name = "ModuleList", .forward = no_forward};

qn_module *qn_module_append(qn_module *list, qn_module *m)
{
    char name[16];
    snprintf(name, sizeof name, "%d", qn_module_n_children(list));
    return qn_module_add_module(list, name, m);
}

/* Takes all over, whatever happens. */
static qn_module *filled(qn_module *list, qn_module *const *modules, int n)
{
    for (int i = 0; i < n; i++) (void)qn_module_append(list, modules[i]);
    return qn_module_ready(list);
}

qn_module *qn_nn_sequential(qn_context *c, qn_module *const *modules, int n)
{
    return filled(qn_module_create(c, &sequential_type), modules, n);
}
qn_module *qn_nn_module_list(qn_context *c, qn_module *const *modules, int n)
{
    return filled(qn_module_create(c, &list_type), modules, n);
}
