/* SPDX-License-Identifier: MIT */
/* src/nn/modes.c -- what is done to all of a tree: training or not, gradients wanted or given up, dtypes. */
#include "nn/module.h"

void qn_module_train(qn_module *m, bool training)
{
    if (m == NULL) return;
    m->training = training;
    for (int i = 0; i < m->n_children; i++) qn_module_train(m->children[i].module, training);
}

bool qn_module_is_training(const qn_module *m) { return m != NULL && m->training; }

qn_status qn_module_requires_grad_(qn_module *m, bool requires_grad)
{
    if (m == NULL) return QN_STATUS_invalid;
    for (int i = 0; i < m->n_tensors; i++) {
        const qn_named *t = &m->tensors[i];
        if (t->kind != QN_NAMED_parameter || !qn__is_real(qn_dtype_of(t->tensor))) continue;
        if (qn_requires_grad_(t->tensor, requires_grad) == NULL) return qn__status(m->ctx);
    }
    for (int i = 0; i < m->n_children; i++) QN_TRY(qn_module_requires_grad_(m->children[i].module, requires_grad));
    return QN_OK;
}

void qn_module_zero_grad(qn_module *m)
{
    if (m == NULL) return;
    for (int i = 0; i < m->n_tensors; i++) qn_zero_grad(m->tensors[i].tensor);
    for (int i = 0; i < m->n_children; i++) qn_module_zero_grad(m->children[i].module);
}

/* ---- other tensors in the place of all that there are ---- */

typedef struct change {
    qn_dtype dtype; /* QN_DTYPE_COUNT: as it is */
    int place;      /* -1: where it is */
} change;

static bool changes(const change *c, const qn_tensor *t)
{
    if (c->place >= 0) return qn__place_of(t) != c->place;
    return qn__is_real(qn_dtype_of(t)) && qn_dtype_of(t) != c->dtype;
}

/* A leaf that wants what t wants. */
static qn_tensor *changed(const change *c, qn_tensor *t)
{
    qn_tensor *values = qn_detach(t), *y = NULL;
    if (values != NULL) y = c->place >= 0 ? qn__to_place(values, c->place) : qn_to(values, c->dtype);
    qn_release(values);
    if (y == NULL || !qn_requires_grad(t) || qn_requires_grad_(y, true) != NULL) return y;
    qn_release(y);
    return NULL;
}

/* All are made before one of them changes. */
static qn_status change_all(qn_module *m, const change *c)
{
    qn_listing l;
    qn_status status = qn__listing_init(m, &l, qn__err(m->ctx));
    qn_tensor **made = status == QN_OK ? qn__calloc((size_t)l.n + 1, sizeof *made) : NULL;
    if (status == QN_OK && made == NULL) status = QN_FAIL_NOMEM(qn__err(m->ctx), (size_t)l.n * sizeof *made);
    for (int64_t i = 0; status == QN_OK && i < l.n; i++) {
        qn_tensor *t = l.items[i].slot->tensor;
        if (l.items[i].first != i || !changes(c, t)) continue;
        made[i] = changed(c, t);
        if (made[i] == NULL) status = qn__status(m->ctx);
    }
    for (int64_t i = 0; made != NULL && i < l.n; i++) {
        if (made[i] == NULL) continue;
        if (status == QN_OK) (void)qn_become(l.items[i].slot->tensor, made[i]);
        qn_release(made[i]);
    }
    qn__free(made);
    qn__listing_deinit(&l);
    return status;
}

qn_status qn_module_to(qn_module *m, qn_dtype dtype)
{
    if (m == NULL) return QN_STATUS_invalid;
    if (!qn__is_real(dtype)) {
        return qn_context_fail(m->ctx, QN_STATUS_invalid, "%s: modules convert to real dtypes, not to %s",
                               m->type->name, qn_dtype_get(dtype)->name);
    }
    return change_all(m, &(change){.dtype = dtype, .place = -1});
}

qn_status qn_module_to_device(qn_module *m, const char *device)
{
    if (m == NULL) return QN_STATUS_invalid;
    if (device == NULL)
        return qn_context_fail(m->ctx, QN_STATUS_invalid, "%s: there is no device to go to", m->type->name);
    const int place = qn__place_find(m->ctx, "module_to_device", device, qn__err(m->ctx));
    return place < 0 ? QN_STATUS_invalid : change_all(m, &(change){.dtype = QN_DTYPE_COUNT, .place = place});
}
