/* SPDX-License-Identifier: MIT */
/* src/backend/split.c -- brings every value to where it is needed, and cuts the order of nodes into steps.
 *
 * Consecutive nodes of one backend are a stretch. What a stretch needs from elsewhere is copied before its first node:
 * all of it was computed before, since nothing else runs meanwhile; so a transfer that is in the graph already begins
 * one. A value is copied once to a place, however many nodes read it there. Resident memory changes from update to
 * update, but each update is a node of its own and so a value of its own: a reader of a later state gets a later copy,
 * and one of an earlier state was copied before the update, because its stretch began before it. */
#include "backend/internal.h"

#include <string.h>

#include "base/mem.h"

typedef struct moved {
    qn_node *dense;             /* a row-major copy of a strided view, at home */
    qn_node *at[QN_MAX_PLACES]; /* the value in other places */
    uint32_t soon;              /* by place: it will be moved there before the present stretch */
    bool listed;
} moved;

typedef struct sources {
    qn_node *src[QN_MAX_SRC];
} sources;

typedef struct split {
    qn_sched *s;
    qn_graph *g;
    qn_node **old; /* the order so far, [n_old]; ids are indices */
    int32_t n_old;
    qn_node **moved_aside; /* [n_old] */
    moved *moved;          /* [n_old] */
    sources *sources;      /* [n_old]: as they were, before what is brought over took their places */
    qn_node **order;       /* the new order */
    int32_t n_order, cap_order;
    bool failed;
} split;

static void list(split *p, qn_node *n)
{
    if (p->n_order == p->cap_order) {
        const int32_t cap = p->cap_order * 2 + 64;
        qn_node **grown = qn__realloc(p->order, (size_t)cap * sizeof(*grown));
        if (!grown) {
            p->failed = true;
            return;
        }
        p->order = grown;
        p->cap_order = cap;
    }
    p->order[p->n_order++] = n;
}

static qn_node *list_new(split *p, const qn_node *like, qn_node *n, int32_t place)
{
    if (n == p->g->bad) return n;
    n->place = place;
    n->layer = like->layer;
    n->hint = -1;
    list(p, n);
    return n;
}

/* Lists a node of the old order, with the views and leaves that it stands on. */
static void list_old(split *p, qn_node *n)
{
    if (n->id >= p->n_old || p->moved[n->id].listed) return;
    p->moved[n->id].listed = true;
    for (int i = 0; i < n->n_src; i++) {
        const qn_op_kind kind = qn__op_info(n->src[i]->op)->kind;
        if (kind == QN_KIND_view || kind == QN_KIND_leaf) list_old(p, n->src[i]);
    }
    list(p, n);
}

/* As the value that it is of, with the place behind it. */
static qn_node *name_at(split *p, const qn_node *like, qn_node *n, int32_t place)
{
    return like->name[0] ? qn__name(p->g, n, "%s@%s", like->name, p->s->backends[place]->name) : n;
}

static qn_node *dense_copy(split *p, qn_node *n)
{
    moved *m = &p->moved[n->id];
    if (!m->dense) {
        list_old(p, n);
        m->dense = list_new(p, n, qn__copy(p->g, n, n->dtype), n->root->place);
        name_at(p, n, m->dense, n->root->place);
    }
    return m->dense;
}

/* A constant has no home: each place gets one of its own over the same host bytes. */
static qn_node *constant_at(split *p, qn_node *n, int32_t place)
{
    qn_node *root = n->root;
    moved *m = &p->moved[root->id];
    if (!m->at[place]) {
        const qn_shape shape = qn_layout_shape(&root->layout);
        qn_node *twin = list_new(p, root, qn__param(p->g, root->name, root->dtype, &shape, NULL, 0, 0), place);
        twin->flags |= QN_NODE_const;
        twin->host = root->host;
        m->at[place] = name_at(p, root, twin, place);
    }
    if (n == root) return m->at[place];
    const qn_view_attrs attrs = {.layout = n->layout};
    return name_at(p, n, list_new(p, n, qn__op(p->g, QN_OP_view, &attrs, &m->at[place], 1), place), place);
}

/* An input goes up to every place that reads it. */
static qn_node *input_at(split *p, qn_node *n, int32_t place)
{
    qn_node *root = n->root;
    moved *m = &p->moved[root->id];
    if (!m->at[place]) {
        const qn_shape shape = qn_layout_shape(&root->layout);
        qn_node *twin = qn__input(p->g, root->name, root->dtype, &shape);
        list_old(p, root);
        m->at[place] = name_at(p, root, list_new(p, root, twin, place), place);
        if (twin == p->g->bad) return twin;
        twin->flags |= QN_NODE_twin;
        twin->twin = root->twin;
        root->twin = twin;
    }
    if (n == root) return m->at[place];
    const qn_view_attrs attrs = {.layout = n->layout};
    return name_at(p, n, list_new(p, n, qn__op(p->g, QN_OP_view, &attrs, &m->at[place], 1), place), place);
}

/* It has no home that it would be copied from. */
static bool is_everywhere(const qn_node *n) { return qn__is_loose_const(n->root) || n->root->op == QN_OP_input; }

/* It is computed wherever it is read, rather than copied, if what it is computed of is there too. */
static bool can_be_at(const split *p, const qn_node *n, int32_t place)
{
    if (n->root != n || !qn__is_early(n)) return false;
    for (int i = 0; i < n->n_src; i++)
        if (!qn__is_loose_const(n->src[i]->root) && n->src[i]->root->op != QN_OP_input) return false;
    return p->s->backends[place]->type->accepts(p->s->backends[place], n, NULL);
}

static qn_node *value_at(split *p, qn_node *n, int32_t place);

static qn_node *computed_at(split *p, qn_node *n, int32_t place)
{
    qn_node *src[QN_MAX_SRC];
    for (int i = 0; i < n->n_src; i++) {
        src[i] = p->sources[n->id].src[i];
        if (src[i]->root->place == place)
            list_old(p, src[i]);
        else
            src[i] = value_at(p, src[i], place);
    }
    qn_node *twin = qn__op(p->g, n->op, n->attrs, src, n->n_src);
    return name_at(p, n, list_new(p, n, twin, place), place);
}

static bool must_be_packed(const qn_node *n)
{
    qn_layout l = n->layout;
    l.offset = 0;
    return !qn_layout_is_contiguous(&l);
}

/* The value that a view looks at, if the view can look at a dense copy of it just as well, and that copy is there
 * already or costs no more than one of the view itself; else NULL. */
static qn_node *seen_through(const split *p, qn_node *view, int32_t place)
{
    qn_node *u = view;
    while (qn__node_is_view(u)) u = u->src[0];
    int64_t lo, hi;
    qn_layout_range(&view->layout, &lo, &hi);
    const int64_t n = qn_layout_numel(&u->layout), first = u->layout.offset;
    if (u == view || must_be_packed(u) || lo < first || hi > first + n) return NULL;
    const bool there = p->moved[u->id].at[place] || (p->moved[u->id].soon >> place & 1);
    return there || qn_layout_numel(&view->layout) >= n ? u : NULL;
}

static qn_node *transfer_of(split *p, qn_node *n, int32_t place)
{
    list_old(p, n);
    qn_node *from = p->moved[n->id].dense ? p->moved[n->id].dense : n;
    qn_node *t = list_new(p, n, qn__op(p->g, QN_OP_transfer, NULL, &from, 1), place);
    if (t != p->g->bad && n->root == n && qn__is_early(n) && !p->s->backends[n->place]->type->send)
        t->flags |= QN_NODE_early;
    return name_at(p, n, t, place);
}

/* Of a node of the old order. */
static qn_node *value_at(split *p, qn_node *n, int32_t place)
{
    QN_ASSERT(n->id < p->n_old);
    moved *m = &p->moved[n->id];
    qn_node *u = m->dense ? NULL : seen_through(p, n, place);
    if (m->at[place]) return m->at[place];
    if (qn__is_loose_const(n->root)) {
        m->at[place] = constant_at(p, n, place);
    } else if (n->root->op == QN_OP_input) {
        m->at[place] = input_at(p, n, place);
    } else if (can_be_at(p, n, place)) {
        m->at[place] = computed_at(p, n, place);
    } else if (u) {
        qn_node *there = value_at(p, u, place);
        qn_view_attrs attrs = {.layout = n->layout};
        attrs.layout.offset -= u->layout.offset;
        m->at[place] = list_new(p, n, qn__op(p->g, QN_OP_view, &attrs, &there, 1), place);
        name_at(p, n, m->at[place], place);
    } else {
        m->at[place] = transfer_of(p, n, place);
    }
    return m->at[place];
}

/* ---- what a stretch does about each source from elsewhere ---- */

static void announce(split *p, qn_node *user, qn_node **src)
{
    qn_node *u = seen_through(p, *src, user->place);
    if (!u && !qn__node_is_view(*src)) u = *src;
    if (u) p->moved[u->id].soon |= 1u << user->place;
}

/* Only dense memory moves: a strided part of a value is packed first. */
static void copy_at_home(split *p, qn_node *user, qn_node **src)
{
    qn_node *n = *src;
    if (must_be_packed(n) && !is_everywhere(n) && !p->moved[n->id].at[user->place] && !seen_through(p, n, user->place))
        dense_copy(p, n);
}

static void bring_over(split *p, qn_node *user, qn_node **src)
{
    if (!can_be_at(p, *src, user->place)) *src = value_at(p, *src, user->place);
}

static void compute_there(split *p, qn_node *user, qn_node **src)
{
    if (can_be_at(p, *src, user->place)) *src = value_at(p, *src, user->place);
}

static void for_sources(split *p, int32_t from, int32_t to, void (*act)(split *p, qn_node *user, qn_node **src))
{
    for (int32_t i = from; i < to; i++) {
        qn_node *n = p->old[i];
        for (int k = 0; k < n->n_src && qn__computes(n); k++)
            if (n->src[k]->root->place != n->place) act(p, n, &n->src[k]);
    }
}

/* Nodes [from, to) of the old order all run on one place, leaves and views aside. */
static void emit_stretch(split *p, int32_t from, int32_t to)
{
    for_sources(p, from, to, announce);
    for_sources(p, from, to, copy_at_home); /* before transfers, so that copies join the stretch that ends here */
    for_sources(p, from, to, bring_over);
    for_sources(p, from, to, compute_there); /* after transfers, so that it joins the stretch that begins here */
    for (int32_t i = from; i < to; i++) {
        qn_node *n = p->old[i];
        list_old(p, n);
        if ((n->flags & QN_NODE_output) && must_be_packed(n)) { /* outputs are read as plain bytes */
            qn_node *c = dense_copy(p, n);
            if (c == p->g->bad) continue;
            c->name = n->name;
            c->flags |= QN_NODE_output;
            n->flags &= ~(uint32_t)QN_NODE_output;
        }
    }
}

/* What follows from ids alone comes first where it is computed on the host: it goes up with the inputs, and no stretch
 * of a device is cut for it. Nothing writes what it reads. */
static void early_first(split *p)
{
    int32_t n = 0;
    qn_node **rest = p->moved_aside;
    int32_t n_rest = 0;
    bool devices = false;
    for (int i = 0; i < p->s->n_backends; i++) devices |= p->s->backends[i]->type->send != NULL;
    if (!devices) return;
    for (int32_t i = 0; i < p->n_old; i++) {
        if (qn__is_early(p->old[i]) && !p->s->backends[p->old[i]->place]->type->send)
            p->old[n++] = p->old[i];
        else
            rest[n_rest++] = p->old[i];
    }
    memcpy(p->old + n, rest, (size_t)n_rest * sizeof(*rest));
}

/* What a transfer brings stays where it was computed, too: nothing is brought back for those who read it there. */
static void know_origins(split *p)
{
    for (int32_t i = 0; i < p->n_old; i++) {
        qn_node *n = p->old[i];
        if (n->op == QN_OP_transfer) p->moved[n->id].at[n->src[0]->root->place] = n->src[0];
    }
}

static void emit_all(split *p)
{
    early_first(p);
    know_origins(p);
    for (int32_t from = 0, to; from < p->n_old; from = to) {
        int32_t place = -1;
        for (to = from; to < p->n_old; to++) {
            if (p->old[to]->op == QN_OP_transfer && to > from) break; /* what it brings is computed before */
            if (!qn__computes(p->old[to])) continue;
            if (place >= 0 && p->old[to]->place != place) break;
            place = p->old[to]->place;
        }
        emit_stretch(p, from, to);
    }
}

qn_status qn__split_graph(qn_sched *s, qn_graph *g, qn_error *err)
{
    split p = {.s = s, .g = g, .n_old = g->n_nodes};
    const size_t n = (size_t)g->n_nodes;
    p.old = qn__calloc(2 * n, sizeof(*p.old));
    p.moved_aside = p.old ? p.old + n : NULL;
    p.moved = qn__calloc(n, sizeof(*p.moved));
    p.sources = qn__calloc(n, sizeof(*p.sources));
    qn_status status = QN_OK;
    if (!p.old || !p.moved || !p.sources)
        status = QN_FAIL_NOMEM(err, n * (2 * sizeof(*p.old) + sizeof(*p.moved) + sizeof(*p.sources)));
    if (status == QN_OK) {
        if (n > 0) memcpy(p.old, g->nodes, n * sizeof(*p.old));
        for (size_t i = 0; i < n; i++)
            for (int k = 0; k < p.old[i]->n_src; k++) p.sources[i].src[k] = p.old[i]->src[k];
        qn__graph_scope(g, -1, -1);
        emit_all(&p);
        status = qn__graph_finish(g, err);
    }
    if (status == QN_OK && p.failed) status = QN_FAIL_NOMEM(err, (size_t)p.n_order * sizeof(*p.order));
    if (status == QN_OK && p.n_order != g->n_nodes)
        status = QN_FAIL(err, internal, "the split lists %d nodes of %d", p.n_order, g->n_nodes);
    for (int32_t i = 0; status == QN_OK && i < p.n_order; i++) {
        g->nodes[i] = p.order[i];
        g->nodes[i]->id = i;
    }
    qn__free(p.order);
    qn__free(p.sources);
    qn__free(p.moved);
    qn__free(p.old);
    return status;
}

/* ---- steps ----------------------------------------------------------------------------------- */

qn_status qn__cut_steps(qn_exec *e, qn_error *err)
{
    qn_graph *g = e->graph;
    const size_t n = (size_t)g->n_nodes;
    int32_t n_work = 0;
    e->work = qn__arena_array(&g->arena, n, sizeof(*e->work));
    e->steps = qn__arena_array(&g->arena, n, sizeof(*e->steps));
    if (!e->work || !e->steps) return QN_FAIL_NOMEM(err, n * (sizeof(*e->work) + sizeof(*e->steps)));

    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *node = g->nodes[i];
        qn_step *last = e->n_steps ? &e->steps[e->n_steps - 1] : NULL;
        if (node->op == QN_OP_transfer) {
            e->steps[e->n_steps++] = (qn_step){.place = node->place, .transfer = node};
            e->n_transfers++;
        } else if (qn__computes(node) && !qn__assigned_already(node)) {
            if (!last || last->transfer || last->place != node->place) {
                last = &e->steps[e->n_steps++];
                *last = (qn_step){.place = node->place, .first = n_work};
                e->n_segments++;
            }
            e->work[n_work++] = node;
            last->n_nodes++;
        }
    }
    return QN_OK;
}
