/* SPDX-License-Identifier: MIT */
/* src/graph/print/svg_place.c -- where items stand: the order in a rank by barycentres, then x by least squares, then y
 * by heights. The method is that of Sugiyama, Tagawa and Toda (1981); coordinates are the isotonic regression of what
 * each item's neighbours wish for it, which keeps the order and the gaps and is solved exactly by pooling violators. */
#include "graph/print/svg.h"
#include <stdlib.h>
#include <string.h>

#define ORDER_SWEEPS 12
#define PLACE_SWEEPS 24
#define GAP_X        18
#define GAP_BEND     8
#define GAP_Y        30

/* ---- neighbours and ranks ---- */

static void count_links(qn_svg *d)
{
    for (int32_t e = 0; e < d->n_edges; e++) {
        const int32_t *r = d->route + d->edges[e].first;
        for (int32_t k = 0; k + 1 < d->edges[e].count; k++) {
            d->down_at[r[k] + 2]++;
            d->up_at[r[k + 1] + 2]++;
        }
    }
    for (int32_t i = 1; i < d->n_items + 2; i++) {
        d->down_at[i] += d->down_at[i - 1];
        d->up_at[i] += d->up_at[i - 1];
    }
}

/* Afterwards the lists of item i begin at [i]: filling moves [i + 1] from their begin to their end. */
static qn_status link_items(qn_svg *d, qn_error *err)
{
    const size_t n = (size_t)d->n_items + 2, links = (size_t)d->n_route + 1;
    d->up_at = qn__arena_array(&d->arena, n, sizeof *d->up_at);
    d->down_at = qn__arena_array(&d->arena, n, sizeof *d->down_at);
    d->up = qn__arena_array(&d->arena, links, sizeof *d->up);
    d->down = qn__arena_array(&d->arena, links, sizeof *d->down);
    if (d->arena.failed) return QN_FAIL_NOMEM(err, 2 * (n + links) * sizeof *d->up);
    count_links(d);
    for (int32_t e = 0; e < d->n_edges; e++) {
        const int32_t *r = d->route + d->edges[e].first;
        for (int32_t k = 0; k + 1 < d->edges[e].count; k++) {
            d->down[d->down_at[r[k] + 1]++] = r[k + 1];
            d->up[d->up_at[r[k + 1] + 1]++] = r[k];
        }
    }
    return QN_OK;
}

static qn_status fill_ranks(qn_svg *d, qn_error *err)
{
    d->ranks = qn__arena_array(&d->arena, (size_t)d->n_ranks, sizeof *d->ranks);
    int32_t *all = qn__arena_array(&d->arena, (size_t)d->n_items + 1, sizeof *all);
    if (d->ranks == NULL || all == NULL) return QN_FAIL_NOMEM(err, (size_t)d->n_items * sizeof *all);
    for (int32_t i = 0; i < d->n_items; i++) d->ranks[d->items[i].rank].n_items++;
    for (int32_t r = 0; r < d->n_ranks; r++) {
        d->ranks[r].items = all;
        all += d->ranks[r].n_items;
        d->ranks[r].n_items = 0;
    }
    for (int32_t i = 0; i < d->n_items; i++) { /* in order of creation to begin with */
        qn_svg_rank *rank = &d->ranks[d->items[i].rank];
        d->items[i].order = rank->n_items;
        rank->items[rank->n_items++] = i;
        if (d->items[i].height > rank->height) rank->height = d->items[i].height;
    }
    return QN_OK;
}

/* ---- order ---- */

typedef struct sorted {
    double key;
    int32_t order, item;
} sorted;

static int by_key(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order; /* equal ones stay as they were */
}

/* Where it would stand if ranks were stretched to the same length, so that ranks of many and of few items compare. */
static double relative(const qn_svg *d, int32_t i)
{
    const qn_svg_item *it = &d->items[i];
    return (it->order + 0.5) / d->ranks[it->rank].n_items;
}

static void order_rank(qn_svg *d, int32_t r, bool by_upper, sorted *tmp)
{
    const int32_t *list = by_upper ? d->up : d->down, *at = by_upper ? d->up_at : d->down_at;
    qn_svg_rank *rank = &d->ranks[r];
    for (int32_t k = 0; k < rank->n_items; k++) {
        const int32_t i = rank->items[k];
        double sum = 0;
        for (int32_t j = at[i]; j < at[i + 1]; j++) sum += relative(d, list[j]);
        tmp[k] = (sorted){at[i + 1] > at[i] ? sum / (at[i + 1] - at[i]) : relative(d, i), k, i};
    }
    qsort(tmp, (size_t)rank->n_items, sizeof *tmp, by_key);
    for (int32_t k = 0; k < rank->n_items; k++) {
        rank->items[k] = tmp[k].item;
        d->items[tmp[k].item].order = k;
    }
}

static qn_status order_items(qn_svg *d, qn_error *err)
{
    sorted *tmp = qn__arena_array(&d->arena, (size_t)d->n_items + 1, sizeof *tmp);
    if (tmp == NULL) return QN_FAIL_NOMEM(err, (size_t)d->n_items * sizeof *tmp);
    for (int sweep = 0; sweep <= ORDER_SWEEPS; sweep++) { /* upwards first and last: chips hang on what is below them */
        for (int32_t r = 1; sweep % 2 != 0 && r < d->n_ranks; r++) order_rank(d, r, true, tmp);
        for (int32_t r = d->n_ranks - 2; sweep % 2 == 0 && r >= 0; r--) order_rank(d, r, false, tmp);
    }
    return QN_OK;
}

/* ---- coordinates ---- */

static double gap_between(const qn_svg_item *a, const qn_svg_item *b)
{
    const double gap = a->node == NULL || b->node == NULL ? GAP_BEND : GAP_X;
    return (a->width + b->width) / 2.0 + gap;
}

#define MAX_HEEDED 31

/* Boxes heed boxes first: if lines that pass by and chips beside pulled too, each would push all below a little aside.
 */
static bool heeds(const qn_svg_item *self, const qn_svg_item *other)
{
    return self->node == NULL || (other->node != NULL && !other->chip);
}

static int gather(const qn_svg *d, int32_t i, const int32_t *list, const int32_t *at, bool all, double *x, int n)
{
    for (int32_t j = at[i]; j < at[i + 1] && n < MAX_HEEDED; j++) {
        if (!all && !heeds(&d->items[i], &d->items[list[j]])) continue;
        const double value = d->items[list[j]].x;
        int k = n++;
        for (; k > 0 && x[k - 1] > value; k--) x[k] = x[k - 1];
        x[k] = value;
    }
    return n;
}

/* The median of the neighbours above (1), below (2) or both (3), of the others when there are none. A mean would drift:
 * layer after layer the same few lines would pull to the same side. */
static double wish(const qn_svg *d, int32_t i, int sides)
{
    double x[MAX_HEEDED];
    int n = 0;
    for (int all = 0; all < 2 && n == 0; all++) {
        for (int any = 0; any < 2 && n == 0; any++) {
            if (any || (sides & 1)) n = gather(d, i, d->up, d->up_at, all, x, n);
            if (any || (sides & 2)) n = gather(d, i, d->down, d->down_at, all, x, n);
        }
    }
    return n > 0 ? (x[(n - 1) / 2] + x[n / 2]) / 2 : d->items[i].x;
}

typedef struct pool {
    double sum, weight;
    int32_t count;
} pool;

/* Minimises the sum of weight * (x - wish)^2 under x[k+1] - x[k] >= gap. With the gaps subtracted the x must only
 * ascend. */
static void place_rank(qn_svg *d, const qn_svg_rank *rank, int sides, pool *pools)
{
    int32_t n = 0;
    double offset = 0;
    for (int32_t k = 0; k < rank->n_items; k++) {
        const qn_svg_item *it = &d->items[rank->items[k]];
        const double weight = it->node == NULL ? 0.01 : it->chip ? 0.0005 : 1; /* who gives way to whom */
        if (k > 0) offset += gap_between(&d->items[rank->items[k - 1]], it);
        pools[n++] = (pool){weight * (wish(d, rank->items[k], sides) - offset), weight, 1};
        while (n > 1 && pools[n - 2].sum * pools[n - 1].weight > pools[n - 1].sum * pools[n - 2].weight) {
            pools[n - 2].sum += pools[n - 1].sum;
            pools[n - 2].weight += pools[n - 1].weight;
            pools[n - 2].count += pools[n - 1].count;
            n--;
        }
    }
    offset = 0;
    for (int32_t p = 0, k = 0; p < n; p++) {
        for (int32_t j = 0; j < pools[p].count; j++, k++) {
            if (k > 0) offset += gap_between(&d->items[rank->items[k - 1]], &d->items[rank->items[k]]);
            d->items[rank->items[k]].x = pools[p].sum / pools[p].weight + offset;
        }
    }
}

static qn_status place_items(qn_svg *d, qn_error *err)
{
    pool *pools = qn__arena_array(&d->arena, (size_t)d->n_items + 1, sizeof *pools);
    if (pools == NULL) return QN_FAIL_NOMEM(err, (size_t)d->n_items * sizeof *pools);
    for (int sweep = 0; sweep < PLACE_SWEEPS; sweep++) {
        const int sides = sweep >= PLACE_SWEEPS - 6 ? 3 : sweep % 2 == 0 ? 1 : 2;
        for (int32_t k = 0; k < d->n_ranks; k++) {
            place_rank(d, &d->ranks[sweep % 2 == 0 ? k : d->n_ranks - 1 - k], sides, pools);
        }
    }
    return QN_OK;
}

static void measure(qn_svg *d)
{
    double left = 0, y = 0;
    for (int32_t i = 0; i < d->n_items; i++) {
        const double edge = d->items[i].x - d->items[i].width / 2.0;
        if (i == 0 || edge < left) left = edge;
    }
    for (int32_t r = 0; r < d->n_ranks; r++) {
        d->ranks[r].y = y;
        y += d->ranks[r].height + (d->ranks[r].n_items > 0 ? GAP_Y : 0);
    }
    for (int32_t i = 0; i < d->n_items; i++) {
        qn_svg_item *it = &d->items[i];
        const qn_svg_rank *rank = &d->ranks[it->rank];
        it->x -= left;
        it->y = rank->y + (it->chip ? rank->height - it->height : 0); /* chips close to what they belong to */
        if (it->node == NULL) it->height = rank->height;
        if (it->x + it->width / 2.0 > d->width) d->width = it->x + it->width / 2.0;
    }
    d->height = y;
}

qn_status qn__svg_place(qn_svg *d, qn_error *err)
{
    QN_TRY(link_items(d, err));
    QN_TRY(fill_ranks(d, err));
    QN_TRY(order_items(d, err));
    QN_TRY(place_items(d, err));
    measure(d);
    return QN_OK;
}
