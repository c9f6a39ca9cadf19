/* SPDX-License-Identifier: MIT */
/* src/engine/tap_match.c -- which values a pattern names; and when it names none, why. */
#include "engine/tap.h"
#include "model/roles.h"

#include <stdio.h>
#include <string.h>

bool qn__tap_has_wildcard(const char *pattern) { return strpbrk(pattern, "*?") != NULL; }

const qn_node *qn__tap_computed(const qn_node *n)
{
    while (qn__node_is_view(n)) n = n->src[0];
    return n;
}

static bool alias_matches(void *ctx, const char *alias) { return qn__glob_match(ctx, alias); }

static bool matches(const qn_graph *g, const qn_node *n, const char *pattern)
{
    return qn__glob_match(pattern, n->name) || qn__aliases(g, n, alias_matches, (void *)pattern);
}

/* NULL when there is a value to tap. */
static const char *refusal(const qn_node *n, bool changes)
{
    const qn_node *from = qn__tap_computed(n);
    const qn_op_kind kind = qn__op_info(from->op)->kind;
    if (from->op == QN_OP_input) return "is an input";
    if (from->op == QN_OP_empty) return "is memory that is written later, with no values of its own";
    if (from->op == QN_OP_param) return "is a weight or a cache, not a value that is computed";
    if (kind == QN_KIND_transfer || strchr(n->name, '@')) return "is a copy for another backend: tap the value itself";
    if (changes && n->root->op == QN_OP_param) return "lies in the cache: change what is written there";
    if (changes && n->dtype != QN_DTYPE_F32) return "holds no float32 and can only be looked at";
    return NULL;
}

/* A wildcard leaves out views without a role, the same numbers under another shape, and the whole cache, of which a
 * step writes a few rows. */
static bool left_out(const qn_node *n, const char *pattern)
{
    const bool repeats = qn__node_is_view(n) && !qn__role_of(n);
    return qn__tap_has_wildcard(pattern) && (repeats || n->root->op == QN_OP_param);
}

/* ---- what comes close ---- */

enum { WORD = 64 };
static int distance(const char *a, const char *b)
{
    int row[WORD + 1];
    const int na = (int)strnlen(a, WORD), nb = (int)strnlen(b, WORD);
    for (int j = 0; j <= nb; j++) row[j] = j;
    for (int i = 1; i <= na; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            const int above = row[j], change = corner + (a[i - 1] != b[j - 1]);
            row[j] = above + 1 < change ? above + 1 : change;
            if (row[j - 1] + 1 < row[j]) row[j] = row[j - 1] + 1;
            corner = above;
        }
    }
    return row[nb];
}

typedef struct near {
    const char *word;
    char best[3][WORD + 1];
    int far[3], n;
} near;

static bool consider(void *ctx, const char *name)
{
    near *c = ctx;
    int far = distance(c->word, name), at = c->n < 3 ? c->n++ : 3;
    while (at > 0 && far < c->far[at - 1]) {
        if (at < 3) {
            memcpy(c->best[at], c->best[at - 1], sizeof c->best[0]);
            c->far[at] = c->far[at - 1];
        }
        at--;
    }
    if (at < 3) {
        (void)snprintf(c->best[at], sizeof c->best[0], "%s", name);
        c->far[at] = far;
    }
    return false;
}

static qn_status no_match(const qn_graph *g, const char *pattern, qn_error *err)
{
    char quoted[WORD + 1];
    near c = {.word = pattern};
    qn__str_quote(quoted, sizeof quoted, pattern, strlen(pattern));
    for (const qn_node *n = g->gone; n; n = n->next_gone) {
        if (n->op == QN_OP_param || !qn__glob_match(pattern, n->name)) continue;
        const qn_node *into = qn__node_into(n);
        const char *pass = qn_pass_name((qn_pass)n->gone_by);
        return QN_FAIL(err, invalid, "tap \"%s\": %s is removed by pass %s%s%s; --no-pass %s keeps it", quoted, n->name,
                       pass, into ? " and is now in " : "", into ? into->name : "", pass);
    }
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const qn_node *n = g->nodes[i];
        if (refusal(n, false) || left_out(n, "*")) continue;
        (void)consider(&c, n->name);
        (void)qn__aliases(g, n, consider, &c);
    }
    return QN_FAIL(err, invalid,
                   "tap \"%s\" matches no value of this model; close are %s, %s, %s ('quern graph --names')", quoted,
                   c.best[0], c.best[1], c.best[2]);
}

qn_status qn__tap_match(const qn_graph *g, const char *pattern, bool changes, qn_match_fn each, void *ctx,
                        qn_error *err)
{
    const qn_node *refused = NULL;
    int n_found = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        qn_node *n = g->nodes[i];
        if (left_out(n, pattern) || !matches(g, n, pattern)) continue;
        if (refusal(n, changes)) {
            refused = n;
            continue;
        }
        QN_TRY(each(ctx, g, n, err));
        n_found++;
    }
    if (n_found) return QN_OK;
    if (!refused) return no_match(g, pattern, err);
    return QN_FAIL(err, invalid, "tap \"%.64s\": %s %s", pattern, refused->name, refusal(refused, changes));
}

/* ---- rows ---- */

static bool is_called(const qn_node *n, const char *name) { return n->op == QN_OP_input && !strcmp(n->name, name); }

/* scratch: 2 * n_nodes. */
qn_tap_rows qn__tap_rows_of(const qn_graph *g, const qn_node *n, int32_t n_tokens, bool *scratch)
{
    bool *input = scratch, *outputs = scratch + g->n_nodes;
    for (int32_t i = 0; i <= n->id; i++) {
        const qn_node *x = g->nodes[i];
        input[i] = x->op == QN_OP_input;
        outputs[i] = is_called(x, "out_ids");
        for (int k = 0; k < x->n_src; k++) {
            input[i] |= input[x->src[k]->id];
            outputs[i] |= outputs[x->src[k]->id];
        }
    }
    if (!input[n->id] || n->root->op == QN_OP_param || n->layout.rank < 1) return QN_ROWS_none;
    if (outputs[n->id]) return QN_ROWS_outputs;
    return n->layout.dim[0] == n_tokens ? QN_ROWS_tokens : QN_ROWS_none;
}
