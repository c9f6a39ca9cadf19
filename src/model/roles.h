/* SPDX-License-Identifier: MIT */
/* src/model/roles.h -- what the values of a model's graph are called (roles.def). */
#ifndef QN_MODEL_ROLES_H
#define QN_MODEL_ROLES_H

#include "graph/graph.h"
#include <quern/tap.h>

typedef enum qn_role {
#define QN_ROLE(name, shape, text) QN_ROLE_##name,
#define QN_ALIAS(alias, role, layers, whose)
#include "model/roles.def"
#undef QN_ROLE
#undef QN_ALIAS
    QN_ROLE_COUNT
} qn_role;
const char *qn__role_name(qn_role role);

/* ROLE-LAYER, or ROLE where layer is -1. A node that has a name keeps it: it is what it was called first. */
qn_node *qn__role(qn_graph *g, qn_node *n, qn_role role, int layer);
/* Names what has none after the first value that is made of it, ROLE.OPERATION-LAYER, and counts what would come twice,
 * ROLE.2-LAYER. Once all nodes are there; errors are sticky. */
void qn__name_rest(qn_graph *g);

/* The row of a value's role, NULL where it has none: a step on the way to one, or an input or weight. */
const qn_value_role *qn__role_of(const qn_node *n);
/* Calls `each` with every other name of a value until it returns true, and returns that. */
typedef bool (*qn_alias_fn)(void *ctx, const char *alias);
bool qn__aliases(const qn_graph *g, const qn_node *n, qn_alias_fn each, void *ctx);

#endif
