/* SPDX-License-Identifier: MIT */
/* src/text/jinja/parse_expr.c -- expressions: condition, or, and, not, comparison, + -, ~, * / // %, **, unary, then
 * what follows a primary: .name [item] (call) |filter is test. */
#include "text/jinja/call.h"
#include "text/jinja/parser.h"

static qn_jnode *parse_or(qn_parser *p);
static qn_jnode *parse_unary(qn_parser *p, bool with_filter);

static bool enter(qn_parser *p)
{
    if (++p->depth <= QN_JINJA_MAX_DEPTH) return true;
    qn__jinja_bad(p->j, p->t->at, "nested more than %d deep", QN_JINJA_MAX_DEPTH);
    return false;
}

static qn_jnode *binary(qn_parser *p, qn_node_kind kind, int op, uint32_t at, qn_jnode *a, qn_jnode *b)
{
    qn_jnode *node = qn__jnode(p, kind, at);
    node->op = op;
    node->a = a;
    node->b = b;
    return qn__jnode_sealed(p, node);
}

qn_jnode *qn__parse_expression(qn_parser *p, bool with_condition)
{
    if (!enter(p)) return qn__jnode(p, QN_N_const, p->t->at);
    qn_jnode *value = parse_or(p);
    while (with_condition && qn__at_name(p, "if") && !qn__parse_failed(p)) {
        qn_jnode *node = qn__jnode(p, QN_N_cond, p->t->at);
        p->t++;
        node->a = value;
        node->b = parse_or(p);
        if (qn__take_name(p, "else")) node->c = qn__parse_expression(p, true);
        value = qn__jnode_sealed(p, node);
    }
    p->depth--;
    return value;
}

static qn_jnode *parse_not(qn_parser *p);

static qn_jnode *parse_and(qn_parser *p)
{
    qn_jnode *left = parse_not(p);
    while (qn__at_name(p, "and") && !qn__parse_failed(p)) {
        const uint32_t at = p->t++->at;
        left = binary(p, QN_N_and, 0, at, left, parse_not(p));
    }
    return left;
}

static qn_jnode *parse_or(qn_parser *p)
{
    qn_jnode *left = parse_and(p);
    while (qn__at_name(p, "or") && !qn__parse_failed(p)) {
        const uint32_t at = p->t++->at;
        left = binary(p, QN_N_or, 0, at, left, parse_and(p));
    }
    return left;
}

static int take_one(qn_parser *p, const char *const *ops, const int *codes, int n)
{
    for (int i = 0; i < n; i++)
        if (qn__take_op(p, ops[i])) return codes[i];
    return -1;
}

static qn_jnode *parse_power(qn_parser *p)
{
    qn_jnode *left = parse_unary(p, true);
    while (qn__at_op(p, "**") && !qn__parse_failed(p)) {
        const uint32_t at = p->t++->at;
        left = binary(p, QN_N_binary, QN_J_pow, at, left, parse_unary(p, true));
    }
    return left;
}

static qn_jnode *parse_product(qn_parser *p)
{
    static const char *const ops[] = {"*", "//", "/", "%"};
    static const int codes[] = {QN_J_mul, QN_J_floordiv, QN_J_div, QN_J_mod};
    qn_jnode *left = parse_power(p);
    for (int op; !qn__parse_failed(p);) {
        const uint32_t at = p->t->at;
        if ((op = take_one(p, ops, codes, 4)) < 0) break;
        left = binary(p, QN_N_binary, op, at, left, parse_power(p));
    }
    return left;
}

static qn_jnode *parse_concat(qn_parser *p)
{
    qn_nodes parts = {0};
    const uint32_t at = p->t->at;
    qn_jnode *first = parse_product(p);
    if (!qn__at_op(p, "~")) return first;
    qn__nodes_add(p, &parts, first);
    while (qn__take_op(p, "~") && !qn__parse_failed(p)) qn__nodes_add(p, &parts, parse_product(p));
    qn_jnode *node = qn__jnode(p, QN_N_concat, at);
    node->items = parts.items;
    node->n = parts.n;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_sum(qn_parser *p)
{
    static const char *const ops[] = {"+", "-"};
    static const int codes[] = {QN_J_add, QN_J_sub};
    qn_jnode *left = parse_concat(p);
    for (int op; !qn__parse_failed(p);) {
        const uint32_t at = p->t->at;
        if ((op = take_one(p, ops, codes, 2)) < 0) break;
        left = binary(p, QN_N_binary, op, at, left, parse_concat(p));
    }
    return left;
}

static qn_jnode *parse_compare(qn_parser *p)
{
    static const char *const ops[] = {"==", "!=", "<=", ">=", "<", ">"};
    static const int codes[] = {QN_J_eq, QN_J_ne, QN_J_le, QN_J_ge, QN_J_lt, QN_J_gt};
    int list[64], n = 0;
    qn_nodes operands = {0};
    const uint32_t at = p->t->at;
    qn_jnode *first = parse_sum(p);
    while (!qn__parse_failed(p)) {
        int op = take_one(p, ops, codes, 6);
        if (op < 0 && qn__take_name(p, "in")) op = QN_J_in;
        if (op < 0 && qn__at_name(p, "not") && p->t[1].kind == QN_T_name) {
            p->t++;
            if (qn__at_name(p, "in"))
                p->t++, op = QN_J_not_in;
            else
                p->t--;
        }
        if (op < 0) break;
        if (n == 64) qn__jinja_bad(p->j, p->t->at, "more than 64 comparisons in a row");
        list[n++ & 63] = op;
        qn__nodes_add(p, &operands, parse_sum(p));
    }
    if (!n) return first;
    qn_jnode *node = qn__jnode(p, QN_N_compare, at);
    node->a = first;
    node->items = operands.items;
    node->n = n;
    node->ops = qn__heap_alloc(&p->j->heap, (size_t)n * sizeof *node->ops);
    if (node->ops) memcpy(node->ops, list, (size_t)n * sizeof *node->ops);
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_not(qn_parser *p)
{
    if (!qn__at_name(p, "not")) return parse_compare(p);
    qn_jnode *node = qn__jnode(p, QN_N_unary, p->t->at);
    if (!enter(p)) return node;
    p->t++;
    node->op = QN_J_not;
    node->a = parse_not(p);
    p->depth--;
    return qn__jnode_sealed(p, node);
}

/* ---- primaries -------------------------------------------------------------------------------- */

static qn_jnode *constant(qn_parser *p, qn_val v)
{
    qn_jnode *node = qn__jnode(p, QN_N_const, p->t->at);
    node->value = v;
    p->t++;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_strings(qn_parser *p)
{
    qn_jnode *node = constant(p, p->t->value);
    while (p->t->kind == QN_T_string && !qn__parse_failed(p)) {
        qn_vbuf b = {.h = &p->j->heap};
        if (qn__is_str(node->value)) qn__buf_str(&b, node->value.s);
        if (qn__is_str(p->t->value)) qn__buf_str(&b, p->t->value.s);
        node->value = qn__buf_val(&b);
        p->t++;
    }
    return node;
}

static qn_jnode *parse_list(qn_parser *p)
{
    qn_nodes items = {0};
    qn_jnode *node = qn__jnode(p, QN_N_list, p->t->at);
    qn__expect_op(p, "[");
    while (!qn__at_op(p, "]") && !qn__parse_failed(p)) {
        if (items.n) qn__expect_op(p, ",");
        if (qn__at_op(p, "]")) break;
        qn__nodes_add(p, &items, qn__parse_expression(p, true));
    }
    qn__expect_op(p, "]");
    node->items = items.items;
    node->n = items.n;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_dict(qn_parser *p)
{
    qn_nodes items = {0};
    qn_jnode *node = qn__jnode(p, QN_N_dict, p->t->at);
    qn__expect_op(p, "{");
    while (!qn__at_op(p, "}") && !qn__parse_failed(p)) {
        if (items.n) qn__expect_op(p, ",");
        if (qn__at_op(p, "}")) break;
        qn__nodes_add(p, &items, qn__parse_expression(p, true));
        qn__expect_op(p, ":");
        qn__nodes_add(p, &items, qn__parse_expression(p, true));
    }
    qn__expect_op(p, "}");
    node->items = items.items;
    node->n = items.n;
    return qn__jnode_sealed(p, node);
}

qn_jnode *qn__parse_tuple(qn_parser *p, bool with_condition, bool may_be_empty)
{
    qn_nodes items = {0};
    const uint32_t at = p->t->at;
    bool comma = false;
    while (!qn__parse_failed(p)) {
        const bool end = p->t->kind == QN_T_variable_end || p->t->kind == QN_T_block_end || qn__at_op(p, ")") ||
                         qn__at_name(p, "recursive");
        if (end && (comma || may_be_empty)) break;
        qn__nodes_add(p, &items, qn__parse_expression(p, with_condition));
        if (!qn__take_op(p, ",")) break;
        comma = true;
    }
    if (!comma && items.n) return items.items[0];
    qn_jnode *node = qn__jnode(p, QN_N_tuple, at);
    node->items = items.items;
    node->n = items.n;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_name(qn_parser *p)
{
    static const char *const words[] = {"true", "True", "false", "False", "none", "None"};
    for (int i = 0; i < 6; i++)
        if (qn__at_name(p, words[i])) return constant(p, i < 4 ? qn__bool(i < 2) : qn__none());
    qn_jnode *node = qn__jnode(p, QN_N_name, p->t->at);
    node->name = qn__take_identifier(p, &node->sym);
    p->uses_caller |= node->sym == QN_SYM_caller;
    p->uses_varargs |= node->sym == QN_SYM_varargs;
    p->uses_kwargs |= node->sym == QN_SYM_kwargs;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_primary(qn_parser *p)
{
    switch (p->t->kind) {
    case QN_T_name: return parse_name(p);
    case QN_T_string: return parse_strings(p);
    case QN_T_int:
    case QN_T_float: return constant(p, p->t->value);
    default: break;
    }
    qn_jnode *node;
    if (!enter(p)) return qn__jnode(p, QN_N_const, p->t->at);
    if (qn__at_op(p, "[")) {
        node = parse_list(p);
    } else if (qn__at_op(p, "{")) {
        node = parse_dict(p);
    } else if (qn__take_op(p, "(")) {
        node = qn__parse_tuple(p, true, true);
        qn__expect_op(p, ")");
    } else {
        node = qn__parse_error(p, "an expression");
    }
    p->depth--;
    return node;
}

/* ---- what follows a primary ------------------------------------------------------------------- */

static qn_jnode *parse_slice(qn_parser *p, qn_jnode *of, uint32_t at)
{
    qn_jnode *part[3] = {0};
    int n = 0;
    bool colon = false;
    while (n < 3 && !qn__parse_failed(p)) {
        if (!qn__at_op(p, ":") && !qn__at_op(p, "]") && !qn__at_op(p, ",")) part[n] = qn__parse_expression(p, true);
        if (!qn__take_op(p, ":")) break;
        colon = true;
        n++;
    }
    qn_jnode *node = qn__jnode(p, colon ? QN_N_slice : QN_N_item, at);
    node->a = of;
    if (!colon && !part[0]) return qn__parse_error(p, "an index");
    if (!colon) {
        node->b = part[0];
        return qn__jnode_sealed(p, node);
    }
    qn_nodes list = {0};
    for (int i = 0; i < 3; i++) qn__nodes_add(p, &list, part[i]);
    node->items = list.items;
    node->n = 3;
    return qn__jnode_sealed(p, node);
}

qn_jnode *qn__parse_postfix(qn_parser *p, qn_jnode *node)
{
    while (!qn__parse_failed(p)) {
        const uint32_t at = p->t->at;
        if (qn__take_op(p, ".")) {
            if (p->t->kind == QN_T_int) {
                qn_jnode *index = constant(p, p->t->value);
                node = binary(p, QN_N_item, 0, at, node, index);
                continue;
            }
            qn_jnode *attr = qn__jnode(p, QN_N_attr, at);
            attr->a = node;
            attr->name = qn__take_identifier(p, NULL);
            node = qn__jnode_sealed(p, attr);
        } else if (qn__take_op(p, "[")) {
            node = parse_slice(p, node, at);
            qn__expect_op(p, "]");
        } else if (qn__at_op(p, "(")) {
            qn_jnode *call = qn__jnode(p, QN_N_call, at);
            call->a = node;
            call->args = qn__parse_args(p);
            node = qn__jnode_sealed(p, call);
        } else {
            break;
        }
    }
    return node;
}

qn_args *qn__parse_args(qn_parser *p)
{
    qn_args *args = qn__heap_alloc(&p->j->heap, sizeof *args);
    qn_nodes positional = {0}, named = {0};
    const char **names = NULL;
    int cap = 0;
    if (!enter(p)) return args;
    qn__expect_op(p, "(");
    for (bool first = true; args && !qn__at_op(p, ")") && !qn__parse_failed(p); first = false) {
        if (!first) qn__expect_op(p, ",");
        if (qn__at_op(p, ")")) break;
        if (qn__take_op(p, "**")) {
            args->star_star = qn__parse_expression(p, true);
        } else if (qn__take_op(p, "*")) {
            args->star = qn__parse_expression(p, true);
        } else if (p->t->kind == QN_T_name && p->t[1].kind == QN_T_op && strcmp(p->t[1].op, "=") == 0) {
            if (named.n == cap) {
                const char **more = qn__heap_alloc(&p->j->heap, (size_t)(2 * cap + 4) * sizeof *more);
                if (!more) break;
                if (cap) memcpy(more, names, (size_t)cap * sizeof *more);
                names = more;
                cap = 2 * cap + 4;
            }
            names[named.n] = qn__take_identifier(p, NULL);
            p->t++;
            qn__nodes_add(p, &named, qn__parse_expression(p, true));
        } else {
            if (named.n || args->star_star) qn__jinja_bad(p->j, p->t->at, "a positional argument behind a named one");
            qn__nodes_add(p, &positional, qn__parse_expression(p, true));
        }
    }
    qn__expect_op(p, ")");
    p->depth--;
    if (args) {
        args->positional = positional.items;
        args->n_positional = positional.n;
        args->names = names;
        args->named = named.items;
        args->n_named = named.n;
    }
    return args;
}

/* a.b.c as one name: filters and tests may have dots. */
static const char *dotted_name(qn_parser *p, uint32_t *at)
{
    *at = p->t->at;
    const char *name = qn__take_identifier(p, NULL);
    if (name && qn__at_op(p, ".")) qn__jinja_bad(p->j, *at, "\"%s.\": names with dots are not known", name);
    return name;
}

qn_jnode *qn__parse_filters(qn_parser *p, qn_jnode *node, bool begun)
{
    while ((begun || qn__take_op(p, "|")) && !qn__parse_failed(p)) {
        uint32_t at;
        begun = false;
        const char *name = dotted_name(p, &at);
        if (!name) break;
        qn_jnode *filter = qn__jnode(p, QN_N_filter, at);
        filter->a = node;
        filter->filter = qn__filter_find(name);
        if (!filter->filter) qn__jinja_bad(p->j, at, "no filter named '%.60s'", name);
        if (qn__at_op(p, "(")) filter->args = qn__parse_args(p);
        node = qn__jnode_sealed(p, filter);
    }
    return node;
}

static bool begins_argument(const qn_parser *p)
{
    const qn_tok kind = p->t->kind;
    if (kind == QN_T_string || kind == QN_T_int || kind == QN_T_float) return true;
    if (kind == QN_T_op) return qn__at_op(p, "(") || qn__at_op(p, "[") || qn__at_op(p, "{");
    return kind == QN_T_name && !qn__at_name(p, "else") && !qn__at_name(p, "or") && !qn__at_name(p, "and") &&
           !qn__at_name(p, "is");
}

static qn_jnode *parse_test(qn_parser *p, qn_jnode *node)
{
    uint32_t at;
    qn_jnode *test = qn__jnode(p, QN_N_test, p->t->at);
    p->t++;
    const bool negated = qn__take_name(p, "not");
    const char *name = dotted_name(p, &at);
    if (!name) return test;
    test->a = node;
    test->test = qn__test_find(name);
    if (!test->test) qn__jinja_bad(p->j, at, "no test named '%.60s'", name);
    if (qn__at_op(p, "(")) {
        test->args = qn__parse_args(p);
    } else if (begins_argument(p)) {
        qn_nodes list = {0};
        qn__nodes_add(p, &list, qn__parse_postfix(p, parse_primary(p)));
        test->args = qn__heap_alloc(&p->j->heap, sizeof *test->args);
        if (test->args) *test->args = (qn_args){.positional = list.items, .n_positional = list.n};
    }
    qn__jnode_sealed(p, test);
    if (!negated) return test;
    qn_jnode *negation = qn__jnode(p, QN_N_unary, test->at);
    negation->op = QN_J_not;
    negation->a = test;
    return qn__jnode_sealed(p, negation);
}

static qn_jnode *parse_unary(qn_parser *p, bool with_filter)
{
    qn_jnode *node;
    if (!enter(p)) return qn__jnode(p, QN_N_const, p->t->at);
    if (qn__at_op(p, "-") || qn__at_op(p, "+")) {
        node = qn__jnode(p, QN_N_unary, p->t->at);
        node->op = qn__at_op(p, "-") ? QN_J_neg : QN_J_pos;
        p->t++;
        node->a = parse_unary(p, false);
        qn__jnode_sealed(p, node);
    } else {
        node = parse_primary(p);
    }
    node = qn__parse_postfix(p, node);
    while (with_filter && !qn__parse_failed(p)) {
        if (qn__at_op(p, "|"))
            node = qn__parse_filters(p, node, false);
        else if (qn__at_name(p, "is"))
            node = parse_test(p, node);
        else if (qn__at_op(p, "("))
            node = qn__parse_postfix(p, node);
        else
            break;
    }
    p->depth--;
    return node;
}
