/* SPDX-License-Identifier: MIT */
/* src/engine/pager_experts.c -- which experts stay: as many of each matrix as it has room for, those that were chosen
 * most often. All in the thread that computes; numbers of experts out of range are the operation's to refuse. */
#include "engine/pager.h"

enum { HERE = 1, GOING = 2 };

static void request(qn_pager *p, qn_page_experts *x, int64_t id, bool drop)
{
    qn__pager_push(p, drop, x->part, x->offset + (uint64_t)id * x->bytes, x->bytes);
}

static void age(qn_page_experts *x)
{
    if (x->chosen < (uint64_t)QN_PAGER_AGE * (uint64_t)x->n_experts) return;
    for (int32_t i = 0; i < x->n_experts; i++) x->count[i] /= 2;
    x->chosen = 0;
}

/* The one of those here that was chosen least often and is not of this choice; -1: none. */
static int32_t coldest(const qn_page_experts *x)
{
    int32_t best = -1;
    for (int32_t i = 0; i < x->n_experts; i++)
        if (x->here[i] == HERE && x->seen[i] != x->stamp && (best < 0 || x->count[i] < x->count[best])) best = i;
    return best;
}

/* Room for one that is read now: it goes afterwards where there is none. */
static void admit(qn_pager *p, qn_page_experts *x, int64_t id)
{
    x->here[id] = HERE;
    if (++x->n_here <= x->slots) return;
    const int32_t out = coldest(x);
    x->n_here--;
    if (out < 0 || x->count[out] >= x->count[id]) {
        x->here[id] = HERE | GOING;
        return;
    }
    x->here[out] = 0;
    request(p, x, out, true);
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
    x->stamp++;
    age(x);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = number_at(ids, data, i);
        if (id < 0 || id >= x->n_experts) continue;
        x->count[id]++;
        x->chosen++;
        x->seen[id] = x->stamp;
    }
    for (int64_t id = 0; id < x->n_experts; id++) {
        if (x->seen[id] != x->stamp) continue;
        if (x->here[id]) {
            p->stats.expert_hits++;
            continue;
        }
        p->stats.expert_misses++;
        admit(p, x, id);
        request(p, x, id, false);
    }
    x->ticket = atomic_load_explicit(&p->pushed, memory_order_relaxed);
}

void qn__pager_settle(qn_pager *p)
{
    for (qn_page_use *u = p->unsettled; u; u = u->next) {
        qn_page_experts *x = u->experts;
        for (int32_t i = 0; i < x->n_experts; i++) {
            if (!(x->here[i] & GOING)) continue;
            x->here[i] = 0;
            request(p, x, i, true);
        }
    }
    p->unsettled = NULL;
}

void qn__pager_choose(qn_pager *p, qn_page_use *use, const qn_node *node, const void *ids)
{
    if (!use->leads) return;
    qn__pager_settle(p);
    for (qn_page_use *u = use; u; u = u->next) choose(p, u->experts, node->src[2], ids);
    p->unsettled = use;
}
