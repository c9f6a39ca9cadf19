/* SPDX-License-Identifier: MIT */
/* src/nn/optim_step.c -- one step, recorded for all parameters or for none: when something fails, what was recorded
 * goes and every storage has the value that it had. */
#include "nn/optim_step.h"

#include <quern/ops.h>

static void remember(qn_optim_step *s, const qn_tensor *t)
{
    s->o->undo[s->n_undo++] = (qn_optim_undo){of(t)->storage, of(t)->storage->value};
}

bool qn__optim_update(qn_optim_step *s, qn_tensor *t, qn_op op, const void *attrs, qn_tensor *const *src, int n_src)
{
    remember(s, t);
    if (qn__update(t, op, attrs, src, n_src)) return true;
    s->n_undo--;
    return false;
}

/* Latest first: a storage may have been written twice. */
static void take_back(qn_optim_step *s)
{
    while (s->n_undo > 0) {
        const qn_optim_undo *u = &s->o->undo[--s->n_undo];
        u->storage->value = u->value;
        u->storage->version--;
        if (u->value == NULL) qn__storage_unlist(u->storage);
    }
}

/* Numbers of the parameter's group for its next step: mostly those of the parameter before. */
static bool numbers_for(qn_optim_step *s, const qn_optim_slot *slot)
{
    double numbers[QN_OPTIM_NUMBERS] = {0};
    const qn_optimizer *o = s->o;
    if (s->group == slot->group && s->step == slot->step + 1) return true;
    o->method->numbers(o, &o->groups[slot->group], slot->step + 1, numbers);
    s->numbers =
        qn__from_data_at(o->ctx, qn__place_of_host(o->ctx), numbers, qn_shape_of(QN_OPTIM_NUMBERS), QN_DTYPE_F64);
    s->group = slot->group;
    s->step = slot->step + 1;
    return s->numbers != NULL;
}

/* The parameter takes the value of its master copy. */
static bool follow(qn_optim_step *s, qn_optim_slot *slot)
{
    if (slot->target == slot->param) return true;
    qn_node *wide = qn__node_of(slot->target);
    const qn_copy_attrs attrs = {(int32_t)of(slot->param)->storage->dtype};
    qn_node *narrow = wide != NULL ? qn__node_op(s->o->ctx, QN_OP_copy, &attrs, &wide, 1) : NULL;
    remember(s, slot->param);
    if (qn__store(slot->param, narrow)) return true;
    s->n_undo--;
    return false;
}

static bool agrees(const qn_optim_slot *slot)
{
    const qn_storage *p = of(slot->param)->storage;
    return slot->target == slot->param || (slot->storage == p->number && slot->version == p->version);
}

void qn__optim_agree(qn_optim_slot *slot)
{
    slot->storage = of(slot->param)->storage->number;
    slot->version = of(slot->param)->storage->version;
}

/* Somebody gave the parameter values, which the next follow would undo: the master takes them. Where it rounds to what
 * is there it stays, so that a parameter that was only restored loses nothing. */
static bool lead(qn_optim_step *s, qn_optim_slot *slot)
{
    qn_tensor *master = slot->target;
    const bool was = qn_set_grad_enabled(s->o->ctx, false);
    qn_tensor *same = qn_eq(qn_to(master, qn_dtype_of(slot->param)), slot->param);
    qn_tensor *taken = qn_where(same, master, qn_to(slot->param, qn_dtype_of(master)));
    qn_set_grad_enabled(s->o->ctx, was);
    if (taken == NULL) return false;
    remember(s, master);
    if (qn__store(master, qn__node_of(taken))) return true;
    s->n_undo--;
    return false;
}

static bool record(qn_optim_step *s)
{
    qn_optimizer *o = s->o;
    /* before any write of this step: parameters may be parts of one storage */
    for (int i = 0; i < o->n_slots; i++)
        if (!agrees(&o->slots[i])) o->slots[i].storage = 0;
    for (int i = 0; i < o->n_slots; i++) {
        qn_optim_slot *slot = &o->slots[i];
        qn_tensor *grad = qn_grad(slot->param);
        if (grad == NULL) continue;
        if (slot->storage == 0 && !lead(s, slot)) return false;
        if (!numbers_for(s, slot) || !o->method->record(s, slot, grad) || !follow(s, slot)) return false;
    }
    return true;
}

void qn__optim_next(qn_optimizer *o)
{
    qn_release(o->factor);
    o->factor = NULL;
    o->unscale = 1;
    o->looked = false;
    o->scaler = NULL;
}

/* Gradients that somebody looked at lie there, and at most a norm waits: then the step waits for nobody either. Left to
 * the next look it would become part of the next step's graph, and the second graph of a loop would not be the first
 * again. */
static qn_status run_now(qn_optim_step *s, qn_mark m)
{
    qn_context *ctx = s->o->ctx;
    const uint32_t epoch = ctx->epoch;
    const qn_status status = qn__flush_whole(ctx); /* some parameters' steps without the others' would be none */
    if (status == QN_OK || ctx->epoch != epoch) return status;
    take_back(s);
    qn__roll_back(ctx, m);
    return status;
}

qn_status qn_optimizer_step(qn_optimizer *o)
{
    qn_context *ctx = o->ctx;
    if (!qn__make_room(ctx)) return qn__status(ctx);
    QN_TRY(qn_scope_begin(ctx));
    const qn_mark m = qn__mark(ctx);
    qn_optim_step s = {.o = o, .factor = o->factor != NULL ? o->factor : o->one, .group = -1};
    const bool good = record(&s);
    const qn_status status = good ? QN_OK : qn__status(ctx);
    (void)qn_scope_end(ctx, NULL);
    if (!good) {
        take_back(&s);
        qn__roll_back(ctx, m);
        return status;
    }
    const bool now = m.n_nodes == 0 || o->looked;
    if (now) QN_TRY(run_now(&s, m));
    for (int i = 0; i < o->n_slots; i++) {
        qn_optim_slot *slot = &o->slots[i];
        const bool stepped = qn_grad(slot->param) != NULL;
        slot->step += stepped;
        if (stepped || slot->storage != 0) qn__optim_agree(slot);
    }
    if (now) qn__optim_settle(o);
    qn__optim_next(o);
    return QN_OK;
}

void qn__optim_settle(qn_optimizer *o)
{
    for (int i = 0; i < o->n_slots; i++) o->slots[i].settled = o->slots[i].step;
}

void qn__optim_discard(qn_optimizer *o)
{
    for (int i = 0; i < o->n_slots; i++) {
        o->slots[i].step = o->slots[i].settled;
        o->slots[i].storage = 0; /* the next step looks */
    }
    qn__optim_next(o);
    qn__discard(o->ctx);
}
