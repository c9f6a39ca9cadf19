/* SPDX-License-Identifier: MIT */
/* src/array/autograd/rebase.c -- writes through one handle, and what they mean for the gradients of others over the
 * same storage.
 *
 * A write into a part is, to the tape, a strided_update: the whole as it was, with the new value in that part. It
 * becomes the storage's base_fn; every other handle finds out when it is used next, by the count of writes, and is from
 * then on a view of that. */
#include "array/autograd/tape.h"

#include <string.h>

/* Entries of views lie over the storage of what they are views of; all other entries made a storage. */
qn_auto *qn__auto_root(const qn_tensor *t)
{
    qn_auto *a = of(t)->grad_fn;
    while (a != NULL && !a->leaf && !a->again && a->op == QN_OP_view) a = a->src[0].to;
    return a;
}

static void set_edge(qn_edge *e, qn_auto *to, const qn_storage *s, const qn_layout *layout)
{
    *e = (qn_edge){.to = to != NULL ? qn__auto_ref(to) : NULL, .dtype = s->dtype, .place = s->place, .layout = *layout};
}

qn_auto *qn__auto_part(const qn_tensor *dst, qn_auto *value)
{
    const qn_storage *s = of(dst)->storage;
    qn_auto *root = qn__auto_root(dst), *a = qn__auto_new(of(dst)->ctx, QN_OP_strided_update);
    if (a == NULL) return NULL;
    const qn_strided_attrs attrs = {.layout = of(dst)->layout, .mode = QN_COMBINE_set};
    _Static_assert(sizeof attrs <= sizeof a->attrs, "attributes of a write fit an entry");
    memset(a->attrs, 0, sizeof a->attrs);
    memcpy(a->attrs, &attrs, sizeof attrs);
    a->n_src = 2;
    set_edge(&a->src[0], root, s, root != NULL ? &root->y.layout : &s->layout);
    set_edge(&a->src[1], value, s, &of(dst)->layout);
    a->y.dtype = s->dtype;
    a->y.place = s->place;
    a->y.layout = a->src[0].layout;
    return a;
}

static qn_auto *view_of_base(const qn_tensor *t)
{
    const qn_storage *s = of(t)->storage;
    qn_auto *a = qn__auto_new(of(t)->ctx, QN_OP_view);
    if (a == NULL) return NULL;
    const qn_view_attrs attrs = {.layout = of(t)->layout};
    memset(a->attrs, 0, sizeof a->attrs);
    memcpy(a->attrs, &attrs, sizeof attrs);
    a->n_src = 1;
    set_edge(&a->src[0], s->base_fn, s, &s->base_fn->y.layout);
    a->y.dtype = s->dtype;
    a->y.place = s->place;
    a->y.layout = of(t)->layout;
    return a;
}

bool qn__tape_refresh(qn_tensor *t)
{
    qn_storage *s = of(t)->storage;
    if (of(t)->ctx->grad_off) return true; /* nobody asks for it now */
    const bool own = of(t)->detached || (of(t)->grad_fn != NULL && of(t)->grad_fn->leaf);
    if (!own) {
        qn_auto *a = s->base_fn != NULL ? view_of_base(t) : NULL, *before = of(t)->grad_fn;
        if (a == NULL && s->base_fn != NULL) return false;
        of(t)->grad_fn = a;
        if (before != NULL) qn__auto_unref(before);
    }
    of(t)->rebased = s->rebased;
    return true;
}
