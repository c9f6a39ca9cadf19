/* SPDX-License-Identifier: MIT */
/* src/array/autograd/tape.c -- recording how values were made. Values that a gradient needs are kept by a reference to
 * their storage, with the version they had: what is overwritten before backward is found out there, as in PyTorch. */
#include "array/autograd/tape.h"
#include <quern/autograd.h>

#include <string.h>

/* ---- entries ---- */

static void link_newest(qn_auto *a)
{
    qn_context *ctx = a->ctx;
    a->newer = NULL;
    a->older = ctx->tape_newest;
    if (a->older != NULL)
        a->older->newer = a;
    else
        ctx->tape_oldest = a;
    ctx->tape_newest = a;
}

static void unlink_entry(qn_auto *a)
{
    qn_context *ctx = a->ctx;
    if (a->newer != NULL)
        a->newer->older = a->older;
    else
        ctx->tape_newest = a->older;
    if (a->older != NULL)
        a->older->newer = a->newer;
    else
        ctx->tape_oldest = a->newer;
}

void qn__auto_drop_kept(qn_auto *a)
{
    for (int i = 0; i < a->n_src; i++) {
        if (a->src[i].kept != NULL) qn__storage_unref(a->src[i].kept);
        a->src[i].kept = NULL;
    }
    if (a->y.kept == NULL) return;
    if (a->y.kept->keeper == a) a->y.kept->keeper = NULL;
    qn__storage_unref(a->y.kept);
    a->y.kept = NULL;
}

/* Chains are as long as programs: no recursion. */
void qn__auto_unref(qn_auto *a)
{
    if (--a->refs > 0) return;
    unlink_entry(a);
    a->newer = NULL;
    for (qn_auto *dead = a; dead != NULL;) {
        qn_auto *d = dead;
        dead = d->newer;
        for (int i = 0; i < d->n_src; i++) {
            qn_auto *to = d->src[i].to;
            if (to == NULL || --to->refs > 0) continue;
            unlink_entry(to);
            to->newer = dead;
            dead = to;
        }
        qn__auto_drop_kept(d);
        if (d->grad != NULL) qn_release(d->grad);
        qn__slab_put(&d->ctx->autos, d);
    }
}

qn_auto *qn__auto_new(qn_context *ctx, qn_op op)
{
    qn_auto *a = qn__slab_get(ctx, &ctx->autos);
    if (a == NULL) return NULL;
    a->ctx = ctx;
    a->refs = 1;
    a->op = op;
    a->leaf = a->released = a->retain = a->again = a->keeps_result = a->keeps_own = false;
    a->n_src = 0;
    a->dy = NULL;
    a->grad = NULL;
    a->delivery = QN_DELIVERED_none;
    a->y.kept = NULL;
    link_newest(a);
    return a;
}

qn_auto *qn__auto_leaf(qn_context *ctx, const qn_tensor *t)
{
    qn_auto *a = qn__auto_new(ctx, QN_OP_input);
    if (a == NULL) return NULL;
    a->leaf = true;
    a->y.dtype = of(t)->storage->dtype;
    a->y.place = qn__place_of(t);
    a->y.layout = of(t)->layout;
    return a;
}

void qn__auto_edge(qn_edge *e, const qn_tensor *t, bool keep)
{
    e->to = of(t)->grad_fn != NULL ? qn__auto_ref(of(t)->grad_fn) : NULL;
    e->kept = keep ? qn__storage_ref(of(t)->storage) : NULL;
    e->version = of(t)->storage->version;
    e->dtype = of(t)->storage->dtype;
    e->place = qn__place_of(t);
    e->layout = of(t)->layout;
}

/* What has to be kept: bits of QN_KEEP. */
static uint32_t keeps(qn_op op, qn_tensor *const *src, int n_src)
{
    const qn_grad_row *row = qn__grad_row(op);
    uint32_t bits = 0;
    for (int i = 0; i < n_src; i++) {
        if (of(src[i])->grad_fn != NULL) bits |= row->keeps[i < 2 ? i : 2];
    }
    return bits;
}

bool qn__tape_keeps(const qn_context *ctx, qn_op op, qn_tensor *const *src, int n_src, int source)
{
    return !ctx->grad_off && (keeps(op, src, n_src) >> source & 1);
}

/* The entry of an operation whose result is y's shape and dtype. */
static qn_auto *entry_of(qn_context *ctx, const qn_tensor *y, qn_op op, const void *attrs, qn_tensor *const *src,
                         int n_src)
{
    const size_t bytes = qn__op_info(op)->attrs_bytes;
    const uint32_t kept = keeps(op, src, n_src);
    if (bytes > sizeof((qn_auto *)0)->attrs) {
        (void)QN_FAIL(qn__err(ctx), internal, "%s: %zu bytes of attributes do not fit a tape entry",
                      qn__op_info(op)->name, bytes);
        return NULL;
    }
    qn_auto *a = qn__auto_new(ctx, op);
    if (a == NULL) return NULL;
    a->n_src = n_src;
    if (attrs != NULL)
        memcpy(a->attrs, attrs, bytes);
    else
        memset(a->attrs, 0, bytes);
    for (int i = 0; i < n_src; i++) qn__auto_edge(&a->src[i], src[i], kept >> i & 1);
    a->y.dtype = of(y)->storage->dtype;
    a->y.place = qn__place_of(y);
    a->y.layout = of(y)->layout;
    a->keeps_result = (kept & QN_KEEP_y) != 0;
    a->keeps_own = (kept & QN_KEEP_own) != 0;
    return a;
}

static void keep_result(qn_auto *a, const qn_tensor *y)
{
    if (!a->keeps_result) return;
    a->y.kept = qn__storage_ref(of(y)->storage);
    a->y.version = of(y)->storage->version;
    if (!a->keeps_own) return;
    of(y)->storage->keeper = a;
    of(y)->storage->has_own = true;
}

bool qn__tape_save(qn_storage *s)
{
    qn_auto *a = s->keeper;
    qn_node *x = qn__node_at(s, &s->layout);
    if (x != NULL) x = qn__node_op(s->ctx, QN_OP_copy, &(qn_copy_attrs){(int32_t)s->dtype}, &x, 1);
    qn_tensor *copy = qn__tensor_of(s->ctx, x);
    if (copy == NULL) return false;
    a->y.kept = qn__storage_ref(of(copy)->storage);
    a->y.version = a->y.kept->version;
    s->keeper = NULL;
    qn__storage_unref(s);
    qn_release(copy);
    return true;
}

bool qn__tape_wanted(const qn_context *ctx, qn_tensor *const *src, int n_src)
{
    if (ctx->grad_off) return false;
    for (int i = 0; i < n_src; i++) {
        if (of(src[i])->grad_fn != NULL) return true;
    }
    return false;
}

bool qn__tape_record(qn_tensor *y, qn_op op, const void *attrs, qn_tensor *const *src, int n_src)
{
    if (!qn__is_real(of(y)->storage->dtype)) return true; /* integers and truth values have no gradient */
    qn_auto *a = entry_of(of(y)->ctx, y, op, attrs, src, n_src);
    if (a == NULL) return false;
    keep_result(a, y);
    of(y)->grad_fn = a;
    of(y)->rebased = of(y)->storage->rebased;
    return true;
}

void qn__tape_share(qn_tensor *to, const qn_tensor *from)
{
    if (of(from)->grad_fn == NULL) return;
    of(to)->grad_fn = qn__auto_ref(of(from)->grad_fn);
    of(to)->rebased = of(from)->rebased;
}

/* ---- writing ---- */

/* Does t show all that gradients know of its storage? */
static bool covers(const qn_tensor *t)
{
    const qn_auto *root = qn__auto_root(t);
    const qn_layout *base = root != NULL ? &root->y.layout : &of(t)->storage->layout, *l = &of(t)->layout;
    return l->offset == 0 && qn_layout_is_contiguous(l) && qn_layout_numel(l) == qn_layout_numel(base);
}

bool qn__tape_writable(const qn_tensor *t, const char *op, qn_tensor *const *src, int n_src)
{
    qn_context *ctx = of(t)->ctx;
    if (qn__is_read_only(of(t)->storage)) {
        (void)QN_FAIL(qn__err(ctx), state, "%s: the memory of this tensor is read-only", op);
        return false;
    }
    if (ctx->grad_off) return true;
    const qn_auto *root = qn__auto_root(t);
    if (root != NULL && root->leaf) {
        (void)QN_FAIL(qn__err(ctx), state,
                      "%s: %s that requires a gradient cannot be written in place while gradients are recorded", op,
                      root == of(t)->grad_fn ? "a leaf" : "a view of a leaf");
        return false;
    }
    if ((of(t)->grad_fn == NULL && !qn__tape_wanted(ctx, src, n_src)) || qn__is_whole(t)) return true;
    const qn_storage *s = of(t)->storage;
    const qn_layout *base = root != NULL ? &root->y.layout : &s->layout;
    if (!of(t)->detached && base->offset == 0 && qn_layout_is_contiguous(base) &&
        (s->has_own || qn_layout_numel(base) == qn_layout_numel(&s->layout)))
        return true;
    (void)QN_FAIL(qn__err(ctx), unsupported,
                  "%s: a write into a part of this tensor cannot carry a gradient; clone it first", op);
    return false;
}

/* The storage's value came to be by `whole` from now on; dst has that of `a`. Takes over the references of both. */
static void take_over(qn_tensor *dst, qn_auto *a, qn_auto *whole, bool part)
{
    qn_storage *s = of(dst)->storage;
    if (!of(dst)->detached) {
        qn_auto *before = s->base_fn;
        s->base_fn = whole != NULL && !part ? qn__auto_ref(whole) : whole;
        s->rebased++;
        if (before != NULL) qn__auto_unref(before);
    }
    if (part) { /* dst is a view of the whole: made when somebody asks */
        if (a != NULL) qn__auto_unref(a);
        return;
    }
    qn_auto *before = of(dst)->grad_fn;
    of(dst)->grad_fn = a;
    of(dst)->rebased = s->rebased;
    if (before != NULL) qn__auto_unref(before);
}

bool qn__tape_store(qn_tensor *dst, qn_node *y, qn_op op, const void *attrs, qn_tensor *const *src, int n_src)
{
    qn_context *ctx = of(dst)->ctx;
    qn_auto *a = NULL;
    const bool wanted = qn__tape_wanted(ctx, src, n_src) && qn__is_real(of(dst)->storage->dtype),
               follows = wanted || (!ctx->grad_off && of(dst)->grad_fn != NULL), part = follows && !covers(dst);
    if (wanted) {
        a = entry_of(ctx, dst, op, attrs, src, n_src);
        if (a == NULL) return false;
    }
    qn_auto *whole = part ? qn__auto_part(dst, a) : a;
    if ((part && whole == NULL) || !qn__store(dst, y)) {
        if (part && whole != NULL) qn__auto_unref(whole);
        if (a != NULL) qn__auto_unref(a);
        return false;
    }
    if (a != NULL) keep_result(a, dst);
    if (follows) take_over(dst, a, whole, part);
    return true;
}

/* ---- flags ---- */

bool qn_set_grad_enabled(qn_context *ctx, bool enabled)
{
    if (ctx == NULL) return false;
    const bool was = !ctx->grad_off;
    ctx->grad_off = !enabled;
    return was;
}

bool qn_grad_enabled(const qn_context *ctx) { return ctx != NULL && !ctx->grad_off; }
/* A handle knows late what writes through others have made of it. */
static const qn_auto *fn_of(const qn_tensor *t)
{
    return LIVE(t) && qn__tape_fresh((qn_tensor *)(uintptr_t)t) ? of(t)->grad_fn : NULL;
}
bool qn_requires_grad(const qn_tensor *t) { return fn_of(t) != NULL; }
bool qn_is_leaf(const qn_tensor *t) { return LIVE(t) && (fn_of(t) == NULL || of(t)->grad_fn->leaf); }

/* Whose gradient it is: as in PyTorch that stays while a leaf requires none. */
static qn_auto *holder(const qn_tensor *t) { return of(t)->grad_fn != NULL ? of(t)->grad_fn : of(t)->frozen; }
qn_tensor *qn_grad(const qn_tensor *t) { return LIVE(t) && holder(t) != NULL ? holder(t)->grad : NULL; }

qn_tensor *qn_requires_grad_(qn_tensor *t, bool requires_grad)
{
    if (!LIVE(t) || !qn__tape_fresh(t)) return NULL;
    if ((of(t)->grad_fn != NULL) == requires_grad) return t;
    if (of(t)->grad_fn != NULL) {
        if (!of(t)->grad_fn->leaf) {
            (void)QN_FAIL(qn__err(of(t)->ctx), state,
                          "requires_grad_: only leaves can stop requiring a gradient; use detach");
            return NULL;
        }
        if (of(t)->frozen != NULL) qn__auto_unref(of(t)->frozen);
        of(t)->frozen = of(t)->grad_fn;
        of(t)->grad_fn = NULL;
        return t;
    }
    if (!qn__is_real(of(t)->storage->dtype)) {
        (void)QN_FAIL(qn__err(of(t)->ctx), invalid, "requires_grad_: only real tensors have gradients, this one is %s",
                      qn_dtype_get(of(t)->storage->dtype)->name);
        return NULL;
    }
    of(t)->grad_fn = of(t)->frozen != NULL ? of(t)->frozen : qn__auto_leaf(of(t)->ctx, t);
    of(t)->frozen = NULL;
    if (of(t)->grad_fn == NULL) return NULL;
    of(t)->rebased = of(t)->storage->rebased;
    return t;
}

qn_tensor *qn_detach(qn_tensor *t)
{
    qn_tensor *v = LIVE(t) ? qn__tensor_alias(t, &of(t)->layout) : NULL;
    if (v != NULL) of(v)->detached = true;
    return v;
}

void qn_retain_grad(qn_tensor *t)
{
    if (fn_of(t) != NULL) of(t)->grad_fn->retain = true;
}

void qn_zero_grad(qn_tensor *t)
{
    if (!LIVE(t) || holder(t) == NULL || holder(t)->grad == NULL) return;
    qn_release(holder(t)->grad);
    holder(t)->grad = NULL;
}

qn_status qn_set_grad(qn_tensor *t, qn_tensor *grad)
{
    if (t == NULL || grad == NULL) return QN_STATUS_invalid; /* same_context says the rest */
    qn_context *ctx = qn__same_context("set_grad", (qn_tensor *[]){t, grad}, 2);
    if (ctx == NULL) return QN_STATUS_invalid;
    const qn_shape a = qn_layout_shape(&of(t)->layout), b = qn_layout_shape(&of(grad)->layout);
    if (of(t)->grad_fn == NULL || !qn_shape_equal(&a, &b) || of(t)->storage->dtype != of(grad)->storage->dtype) {
        return QN_FAIL(qn__err(ctx), invalid,
                       "set_grad: the tensor must require a gradient, and the gradient have its shape and dtype");
    }
    /* always whole: backward counts on it */
    qn_tensor *own = qn__is_whole(grad) ? qn_detach(grad) : qn__tensor_of(ctx, qn__node_of(grad));
    if (own == NULL) return qn__status(ctx);
    qn_zero_grad(t);
    of(t)->grad_fn->grad = qn_keep(own);
    return QN_OK;
}
