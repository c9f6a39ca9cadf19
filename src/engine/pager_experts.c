/* SPDX-License-Identifier: MIT */
/* src/engine/pager_experts.c -- which experts stay: as many of each matrix as it has room for, those that were chosen
 * most often (base/paging.h). All in the thread that computes; with the one that reads it shares qn_page_experts.early.
 * Numbers of experts out of range are the operation's to refuse. */
#include "engine/pager.h"

typedef struct asking {
    qn_pager *pager;
    const qn_page_experts *experts;
} asking;

/* What fill_some (pager_read.c) has read is not asked for again, and what it has not begun need not be dropped. */
static void request(void *ctx, int32_t id, bool drop)
{
    const asking *a = ctx;
    const qn_page_experts *x = a->experts;
    const int was = atomic_exchange(&x->early[id], QN_PAGE_ASKED);
    if (was == QN_PAGE_UNREAD && drop) return;
    if (was == QN_PAGE_READ && !drop) return;
    if (was == QN_PAGE_READING && !drop) { /* no bytes: served when that read is done, which is what is waited for */
        qn__pager_push(a->pager, false, x->part, x->offset, 0);
        return;
    }
    qn__pager_push(a->pager, drop, x->part, x->offset + (uint64_t)id * x->bytes, x->bytes);
}

static int64_t number_at(const qn_node *ids, const void *data, int64_t i)
{
    const qn_layout *l = &ids->layout;
    const int64_t at = i / l->dim[1] * l->stride[0] + i % l->dim[1] * l->stride[1];
    return ids->dtype == QN_DTYPE_I32 ? ((const int32_t *)data)[at] : ((const int64_t *)data)[at];
}

static void choose(qn_pager *p, qn_page_experts *x, const qn_node *ids, const void *data)
{
    const int64_t n = ids->layout.dim[0] * ids->layout.dim[1];
    qn__paging_choice_begin(&x->set);
    for (int64_t i = 0; i < n; i++) qn__paging_choice_count(&x->set, number_at(ids, data, i));
    qn__paging_choice_end(&x->set, request, &(asking){p, x});
    x->ticket = atomic_load_explicit(&p->pushed, memory_order_relaxed);
}

void qn__pager_settle(qn_pager *p)
{
    for (qn_page_use *u = p->unsettled; u; u = u->next)
        qn__paging_settle(&u->experts->set, request, &(asking){p, u->experts});
    p->unsettled = NULL;
}

void qn__pager_choose(qn_pager *p, qn_page_use *use, const qn_node *node, const void *ids)
{
    if (!use->leads) return;
    qn__pager_settle(p);
    for (qn_page_use *u = use; u; u = u->next) choose(p, u->experts, node->src[2], ids);
    p->unsettled = use;
}
