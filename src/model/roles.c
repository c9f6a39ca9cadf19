/* SPDX-License-Identifier: MIT */
/* src/model/roles.c -- unique names for all values of a graph, and the other names of those that have a role. */
#include "model/roles.h"

#include <stdio.h>
#include <string.h>

/* ---- the rows ---- */

static const qn_value_role roles[] = {
#define QN_ROLE(name, shape, text) {#name, "[" shape "]", text},
#define QN_ALIAS(alias, role, layers, whose)
#include "model/roles.def"
#undef QN_ROLE
#undef QN_ALIAS
    {NULL, NULL, NULL},
};

static const qn_value_alias aliases[] = {
#define QN_ROLE(name, shape, text)
#define QN_ALIAS(alias, role, layers, whose) {#alias, #role, layers, whose},
#include "model/roles.def"
#undef QN_ROLE
#undef QN_ALIAS
    {NULL, NULL, 0, NULL},
};
/* An alias is of a role. */
enum {
#define QN_ROLE(name, shape, text)
#define QN_ALIAS(alias, role, layers, whose) ALIAS_##alias##_##role##_IS = QN_ROLE_##role,
#include "model/roles.def"
#undef QN_ROLE
#undef QN_ALIAS
};

const qn_value_role *qn_value_roles(void) { return roles; }
const qn_value_alias *qn_value_aliases(void) { return aliases; }
const char *qn__role_name(qn_role role) { return roles[role].name; }

qn_node *qn__role(qn_graph *g, qn_node *n, qn_role role, int layer)
{
    if (!n || n->name[0]) return n;
    return layer < 0 ? qn__name(g, n, "%s", roles[role].name) : qn__name(g, n, "%s-%d", roles[role].name, layer);
}

/* ---- names for the rest ---- */

/* The part of a name before its layer and what was counted or computed: q of q.linear.2-3. */
static int base_length(const char *name) { return (int)strcspn(name, ".-"); }

/* Weights have their file's names, with dots and a layer of their own: they are nobody's step. */
static bool is_step(const qn_node *n) { return !n->name[0]; }

static void name_steps(qn_graph *g, int32_t *user)
{
    for (int32_t i = 0; i < g->n_nodes; i++) user[i] = -1;
    for (int32_t i = g->n_nodes - 1; i >= 0; i--) {
        qn_node *n = g->nodes[i];
        const char *op = qn__op_info(n->op)->name;
        if (is_step(n)) {
            const char *of = user[i] >= 0 ? g->nodes[user[i]]->name : op;
            const char *layer = n->layer >= 0 ? "-" : "";
            char number[16] = "";
            if (n->layer >= 0) snprintf(number, sizeof number, "%d", n->layer);
            qn__name(g, n, "%.*s.%s%s%s", base_length(of), of, op, layer, number);
        }
        for (int k = 0; k < n->n_src; k++) user[n->src[k]->id] = i;
    }
}

/* ---- counting ---- */

typedef struct seen {
    int32_t *slot; /* open addressing: ids, -1 empty */
    uint32_t mask;
} seen;

/* Enters the node; false when there is one of its name. */
static bool enter(const seen *t, const qn_graph *g, const qn_node *n)
{
    uint32_t at = (uint32_t)qn__hash(QN_HASH_INIT, n->name, strlen(n->name)) & t->mask;
    for (; t->slot[at] >= 0; at = (at + 1) & t->mask)
        if (!strcmp(g->nodes[t->slot[at]]->name, n->name)) return false;
    t->slot[at] = n->id;
    return true;
}

/* Before the layer, where there is one. */
static void count(qn_graph *g, qn_node *n, const seen *t)
{
    const char *name = n->name, *dash = n->op == QN_OP_param ? NULL : strrchr(name, '-');
    const int length = dash ? (int)(dash - name) : (int)strlen(name);
    for (int k = 2; g->error.status == QN_OK; k++) {
        qn__name(g, n, "%.*s.%d%s", length, name, k, name + length);
        if (enter(t, g, n)) return;
    }
}

static void name_once(qn_graph *g, const seen *t)
{
    memset(t->slot, 0xff, ((size_t)t->mask + 1) * sizeof *t->slot);
    for (int32_t i = 0; i < g->n_nodes && g->error.status == QN_OK; i++)
        if (!enter(t, g, g->nodes[i])) count(g, g->nodes[i], t);
}

void qn__name_rest(qn_graph *g)
{
    if (g->error.status != QN_OK) return;
    uint32_t size = 16; /* a power of two, at most half full */
    while (size < 2 * (uint32_t)g->n_nodes) size *= 2;
    int32_t *numbers = qn__alloc((size + (size_t)g->n_nodes) * sizeof *numbers);
    if (!numbers) {
        (void)QN_FAIL(&g->error, nomem, "out of memory: names of %d nodes", g->n_nodes);
        return;
    }
    name_steps(g, numbers);
    name_once(g, &(seen){numbers + g->n_nodes, size - 1});
    qn__free(numbers);
}

/* ---- aliases ---- */

/* Is the name that of a role in a layer (-1: in none)? */
static bool is_called(const char *name, const char *role, int layer)
{
    char want[96];
    if (layer < 0)
        snprintf(want, sizeof want, "%s", role);
    else
        snprintf(want, sizeof want, "%s-%d", role, layer);
    return !strcmp(name, want);
}

static bool has(const qn_graph *g, const char *role, int layer)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (is_called(g->nodes[i]->name, role, layer)) return true;
    return false;
}

/* A value may be called otherwise unless another is: by a row before this one, or because that is its own name. */
static bool is_free(const qn_graph *g, const qn_value_alias *a, int layer)
{
    if (has(g, a->alias, layer)) return false;
    for (const qn_value_alias *b = aliases; b < a; b++)
        if (!strcmp(a->alias, b->alias) && has(g, b->role, layer - b->layers)) return false;
    return true;
}

static int last_layer(const qn_graph *g)
{
    int last = -1;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->layer > last) last = g->nodes[i]->layer;
    return last;
}

bool qn__aliases(const qn_graph *g, const qn_node *n, qn_alias_fn each, void *ctx)
{
    char name[96];
    for (const qn_value_alias *a = aliases; a->alias; a++) {
        if (strncmp(n->name, a->role, strlen(a->role)) != 0 || !is_called(n->name, a->role, n->layer)) continue;
        const int layer = n->layer + a->layers;
        if ((a->layers && layer > last_layer(g)) || !is_free(g, a, layer)) continue;
        if (layer < 0)
            snprintf(name, sizeof name, "%s", a->alias);
        else
            snprintf(name, sizeof name, "%s-%d", a->alias, layer);
        if (each(ctx, name)) return true;
    }
    return false;
}

const qn_value_role *qn__role_of(const qn_node *n)
{
    if (n->op == QN_OP_input) return NULL;
    char role[96], name[96];
    snprintf(role, sizeof role, "%s", n->name);
    role[base_length(role)] = '\0';
    for (const qn_value_role *r = roles; r->name; r++) {
        if (strcmp(r->name, role) != 0) continue;
        if (n->layer >= 0)
            snprintf(name, sizeof name, "-%d", n->layer);
        else
            name[0] = '\0';
        const char *rest = n->name + strlen(role); /* a count, then the layer */
        if (*rest == '.' && rest[1] >= '2' && rest[1] <= '9') rest += 1 + strspn(rest + 1, "0123456789");
        return !*rest || !strcmp(rest, name) ? r : NULL;
    }
    return NULL;
}
