/* SPDX-License-Identifier: MIT */
/* quern/tap.h -- the values of a model's graph: what they are called.
 *
 * Every value has a name, and no two have the same: ROLE-LAYER ("ffn_out-3"), or ROLE outside layers ("logits"). What
 * is computed on the way to such a value is called after it and its operation ("q.linear-3"); what would come twice is
 * counted ("q.view-3", "q.view.2-3"). Weights have their names in the file, inputs their own. Names are the same
 * whatever the batch and the backends are; a value that was copied to another backend has that behind an @
 * ("ffn_res-3@cpu:ref"). A pass may remove a value; the name of what stays is its own as before. */
#ifndef QUERN_TAP_H
#define QUERN_TAP_H

#include <quern/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_value_role {
    const char *name;
    const char *shape; /* "[n, n_embd]"; n: tokens of a step */
    const char *text;
} qn_value_role;
/* What others call the value of a role; in a layer that is so many higher: what TransformerLens calls resid_pre of
 * layer 4 is ffn_res-3. Of several rows with one alias the first counts whose role the layer has. */
typedef struct qn_value_alias {
    const char *alias, *role;
    int layers;
    const char *whose;
} qn_value_alias;
/* In the order of computing; the last row's name is NULL. */
QN_API const qn_value_role *qn_value_roles(void);
QN_API const qn_value_alias *qn_value_aliases(void);
/* The values of the graph that computes n_tokens at once, a line each: name, type and shape, other names, what it is;
 * then those that passes removed. *out is freed with qn_free. */
QN_API qn_status qn_session_print_values(qn_session *session, int32_t n_tokens, int layer, char **out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
