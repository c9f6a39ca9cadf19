/* SPDX-License-Identifier: MIT */
/* src/text/jinja/parse.c -- statements, and compiling as a whole. What a template may not use (import, extends,
 * include, an unknown filter) is refused here, before anything is rendered. */
#include "base/str.h"
#include "text/jinja/jinja.h"
#include "text/jinja/parser.h"
#include "text/utf8.h"

qn_jnode *qn__jnode(qn_parser *p, qn_node_kind kind, uint32_t at)
{
    qn_jnode *node = qn__heap_alloc(&p->j->heap, sizeof *node);
    if (!node) {
        node = &p->dummy;
        *node = (qn_jnode){0};
    }
    node->kind = kind;
    node->at = at;
    return node;
}

qn_jnode *qn__jnode_sealed(qn_parser *p, qn_jnode *node)
{
    if (qn__parse_failed(p)) return node;
    const qn_jnode *children[4] = {node->a, node->b, node->c, node->d};
    int depth = 0;
    for (int i = 0; i < 4; i++)
        if (children[i] && children[i]->depth > depth) depth = children[i]->depth;
    for (int i = 0; i < node->n; i++)
        if (node->items[i] && node->items[i]->depth > depth) depth = node->items[i]->depth;
    for (int i = 0; node->args && i < node->args->n_positional + node->args->n_named; i++) {
        const int k = i - node->args->n_positional;
        const qn_jnode *x = k < 0 ? node->args->positional[i] : node->args->named[k];
        if (x->depth > depth) depth = x->depth;
    }
    node->depth = (uint16_t)(depth + 1);
    if (depth >= QN_JINJA_MAX_DEPTH) qn__jinja_bad(p->j, node->at, "nested more than %d deep", QN_JINJA_MAX_DEPTH);
    return node;
}

void qn__nodes_add(qn_parser *p, qn_nodes *l, qn_jnode *node)
{
    if (l->n == l->cap) {
        const int cap = l->cap ? 2 * l->cap : 4;
        qn_jnode **items = qn__heap_alloc(&p->j->heap, (size_t)cap * sizeof *items);
        if (!items) return;
        if (l->n) memcpy(items, l->items, (size_t)l->n * sizeof *items);
        l->items = items;
        l->cap = cap;
    }
    l->items[l->n++] = node;
}

/* ---- tokens ----------------------------------------------------------------------------------- */

bool qn__at_op(const qn_parser *p, const char *op) { return p->t->kind == QN_T_op && strcmp(p->t->op, op) == 0; }

bool qn__at_name(const qn_parser *p, const char *name)
{
    return p->t->kind == QN_T_name && p->t->n == strlen(name) && memcmp(p->j->source + p->t->at, name, p->t->n) == 0;
}

bool qn__take_op(qn_parser *p, const char *op)
{
    if (!qn__at_op(p, op)) return false;
    p->t++;
    return true;
}

bool qn__take_name(qn_parser *p, const char *name)
{
    if (!qn__at_name(p, name)) return false;
    p->t++;
    return true;
}

qn_jnode *qn__parse_error(qn_parser *p, const char *expected)
{
    static const char *const kinds[] = {
        [QN_T_data] = "text",
        [QN_T_block_begin] = "a tag",
        [QN_T_block_end] = "the end of the tag",
        [QN_T_variable_begin] = "a tag",
        [QN_T_variable_end] = "the end of the tag",
        [QN_T_end] = "the end of the template",
    };
    char quoted[64];
    const char *found = p->t->kind < sizeof kinds / sizeof *kinds ? kinds[p->t->kind] : NULL;
    if (found)
        qn__jinja_bad(p->j, p->t->at, "found %s, expected %s", found, expected);
    else
        qn__jinja_bad(p->j, p->t->at, "found '%s', expected %s",
                      qn__str_quote(quoted, sizeof quoted, p->j->source + p->t->at, p->t->n), expected);
    return qn__jnode(p, QN_N_const, p->t->at);
}

void qn__expect_op(qn_parser *p, const char *op)
{
    char expected[16] = "'";
    if (qn__parse_failed(p) || qn__take_op(p, op)) return;
    strcat(strcat(expected, op), "'");
    qn__parse_error(p, expected);
}

void qn__expect_name(qn_parser *p, const char *name)
{
    if (!qn__parse_failed(p) && !qn__take_name(p, name)) qn__parse_error(p, name);
}

const char *qn__take_identifier(qn_parser *p, int *sym)
{
    if (p->t->kind != QN_T_name) {
        qn__parse_error(p, "a name");
        return "";
    }
    const int s = qn__jinja_symbol(p->j, p->j->source + p->t->at, p->t->n);
    if (sym) *sym = s;
    p->t++;
    return s >= 0 ? p->j->names[s] : "";
}

static void end_tag(qn_parser *p)
{
    if (qn__parse_failed(p)) return;
    if (p->t->kind == QN_T_block_end)
        p->t++;
    else
        qn__parse_error(p, "the end of the tag");
}

/* ---- statements ------------------------------------------------------------------------------- */

static qn_jnode *parse_until(qn_parser *p, const char *const *ends);

/* The body of a statement whose tag ends here, up to {% one of ends ..; the word itself is not taken. */
static qn_jnode *body(qn_parser *p, const char *const *ends)
{
    end_tag(p);
    return parse_until(p, ends);
}

static qn_jnode *simple_body(qn_parser *p, const char *end)
{
    qn_jnode *node = body(p, (const char *const[]){end, NULL});
    qn__expect_name(p, end);
    end_tag(p);
    return node;
}

qn_jnode *qn__parse_target(qn_parser *p, bool with_namespace)
{
    qn_nodes names = {0};
    const uint32_t at = p->t->at;
    bool comma = false;
    while (!qn__parse_failed(p)) {
        qn_jnode *one;
        if (qn__take_op(p, "(")) {
            one = qn__parse_target(p, false);
            qn__expect_op(p, ")");
        } else {
            one = qn__jnode(p, QN_N_name, p->t->at);
            one->name = qn__take_identifier(p, &one->sym);
            if (with_namespace && qn__take_op(p, ".")) {
                qn_jnode *attr = qn__jnode(p, QN_N_attr, one->at);
                attr->a = qn__jnode_sealed(p, one);
                attr->name = qn__take_identifier(p, NULL);
                one = attr;
            }
            qn__jnode_sealed(p, one);
        }
        if (!qn__at_op(p, ",") && !comma) return one;
        qn__nodes_add(p, &names, one);
        comma = qn__take_op(p, ",");
        if (!comma || (p->t->kind != QN_T_name && !qn__at_op(p, "(")) || qn__at_name(p, "in")) break;
    }
    qn_jnode *node = qn__jnode(p, QN_N_tuple, at);
    node->items = names.items;
    node->n = names.n;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_if(qn_parser *p, uint32_t at)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    qn_jnode *node = qn__jnode(p, QN_N_if, at);
    node->a = qn__parse_tuple(p, false, false);
    node->b = body(p, ends);
    if (qn__at_name(p, "elif")) {
        const uint32_t again = p->t++->at;
        if (++p->depth > QN_JINJA_MAX_DEPTH) qn__jinja_bad(p->j, again, "more than %d branches", QN_JINJA_MAX_DEPTH);
        node->c = parse_if(p, again);
        p->depth--;
        return qn__jnode_sealed(p, node);
    }
    if (qn__take_name(p, "else")) node->c = body(p, (const char *const[]){"endif", NULL});
    qn__expect_name(p, "endif");
    end_tag(p);
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_for(qn_parser *p, uint32_t at)
{
    qn_jnode *node = qn__jnode(p, QN_N_for, at);
    node->target = qn__parse_target(p, false);
    qn__expect_name(p, "in");
    node->a = qn__parse_tuple(p, false, false);
    if (qn__take_name(p, "if")) node->d = qn__parse_expression(p, true);
    node->flag = qn__take_name(p, "recursive");
    p->loops++;
    node->b = body(p, (const char *const[]){"endfor", "else", NULL});
    p->loops--;
    if (qn__take_name(p, "else")) node->c = body(p, (const char *const[]){"endfor", NULL});
    qn__expect_name(p, "endfor");
    end_tag(p);
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_set(qn_parser *p, uint32_t at)
{
    qn_jnode *node = qn__jnode(p, QN_N_set, at);
    node->target = qn__parse_target(p, true);
    if (qn__take_op(p, "=")) {
        node->a = qn__parse_tuple(p, true, false);
        end_tag(p);
        return qn__jnode_sealed(p, node);
    }
    node->kind = QN_N_set_block;
    if (qn__at_op(p, "|")) node->a = qn__parse_filters(p, NULL, false);
    node->b = simple_body(p, "endset");
    return qn__jnode_sealed(p, node);
}

/* (a, b=1, ..) of a macro or a call block. */
static void parse_signature(qn_parser *p, qn_macro_def *m)
{
    qn_nodes defaults = {0};
    int cap = 0;
    qn__expect_op(p, "(");
    while (!qn__at_op(p, ")") && !qn__parse_failed(p)) {
        if (m->n_params) qn__expect_op(p, ",");
        if (m->n_params == cap) {
            int *more = qn__heap_alloc(&p->j->heap, (size_t)(2 * cap + 4) * sizeof *more);
            if (!more) return;
            if (cap) memcpy(more, m->params, (size_t)cap * sizeof *more);
            m->params = more;
            cap = 2 * cap + 4;
        }
        qn__take_identifier(p, &m->params[m->n_params++]);
        if (qn__take_op(p, "="))
            qn__nodes_add(p, &defaults, qn__parse_expression(p, true));
        else if (defaults.n)
            qn__jinja_bad(p->j, p->t->at, "a parameter without a default behind one with");
    }
    qn__expect_op(p, ")");
    m->defaults = defaults.items;
    m->n_defaults = defaults.n;
}

static void macro_body(qn_parser *p, qn_macro_def *m, const char *end)
{
    const int loops = p->loops;
    const bool caller = p->uses_caller, varargs = p->uses_varargs, kwargs = p->uses_kwargs;
    p->loops = 0;
    p->uses_caller = p->uses_varargs = p->uses_kwargs = false;
    m->body = simple_body(p, end);
    m->takes_caller = p->uses_caller;
    m->takes_varargs = p->uses_varargs;
    m->takes_kwargs = p->uses_kwargs;
    p->loops = loops;
    p->uses_caller = caller;
    p->uses_varargs = varargs;
    p->uses_kwargs = kwargs;
}

static qn_jnode *parse_macro(qn_parser *p, uint32_t at)
{
    qn_jnode *node = qn__jnode(p, QN_N_macro, at);
    qn_macro_def *m = node->macro = qn__heap_alloc(&p->j->heap, sizeof *m);
    if (!m) return node;
    m->name = qn__take_identifier(p, &node->sym);
    parse_signature(p, m);
    macro_body(p, m, "endmacro");
    node->depth = m->body ? m->body->depth : 0;
    return node;
}

static qn_jnode *parse_call(qn_parser *p, uint32_t at)
{
    qn_jnode *node = qn__jnode(p, QN_N_call_block, at);
    qn_macro_def *m = node->macro = qn__heap_alloc(&p->j->heap, sizeof *m);
    if (!m) return node;
    m->name = "caller";
    if (qn__at_op(p, "(")) parse_signature(p, m);
    node->a = qn__parse_expression(p, true);
    if (node->a->kind != QN_N_call) qn__jinja_bad(p->j, at, "a call block needs a call");
    macro_body(p, m, "endcall");
    return node;
}

static qn_jnode *parse_filter_block(qn_parser *p, uint32_t at)
{
    qn_jnode *node = qn__jnode(p, QN_N_filter_block, at);
    node->a = qn__parse_filters(p, NULL, true);
    node->b = simple_body(p, "endfilter");
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_generation(qn_parser *p, uint32_t at)
{
    qn_jnode *node = qn__jnode(p, QN_N_scope, at);
    const int loops = p->loops;
    p->loops = 0;
    node->b = simple_body(p, "endgeneration");
    p->loops = loops;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_with(qn_parser *p, uint32_t at)
{
    qn_nodes items = {0};
    qn_jnode *node = qn__jnode(p, QN_N_with, at);
    while (!qn__parse_failed(p) && p->t->kind != QN_T_block_end) {
        if (items.n) qn__expect_op(p, ",");
        qn__nodes_add(p, &items, qn__parse_target(p, false));
        qn__expect_op(p, "=");
        qn__nodes_add(p, &items, qn__parse_expression(p, true));
    }
    node->b = simple_body(p, "endwith");
    node->items = items.items;
    node->n = items.n;
    return qn__jnode_sealed(p, node);
}

static qn_jnode *parse_jump(qn_parser *p, uint32_t at, qn_node_kind kind)
{
    if (!p->loops) qn__jinja_bad(p->j, at, "%s outside of a loop", kind == QN_N_break ? "break" : "continue");
    end_tag(p);
    return qn__jnode_sealed(p, qn__jnode(p, kind, at));
}
static qn_jnode *parse_break(qn_parser *p, uint32_t at) { return parse_jump(p, at, QN_N_break); }
static qn_jnode *parse_continue(qn_parser *p, uint32_t at) { return parse_jump(p, at, QN_N_continue); }

static const struct {
    const char *word;
    qn_jnode *(*parse)(qn_parser *p, uint32_t at); /* NULL: refused by name */
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call},
    {"filter", parse_filter_block},
    {"break", parse_break},
    {"continue", parse_continue},
    {"generation", parse_generation},
    {"with", parse_with},
    {"import", NULL},
    {"from", NULL},
    {"include", NULL},
    {"extends", NULL},
    {"block", NULL},
    {"autoescape", NULL},
    {"trans", NULL},
    {"do", NULL},
};

static qn_jnode *parse_statement(qn_parser *p)
{
    const uint32_t at = p->t->at;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!qn__at_name(p, statements[i].word)) continue;
        if (!statements[i].parse) {
            qn__jinja_bad(p->j, at, "'%s' is not supported in chat templates", statements[i].word);
            break;
        }
        p->t++;
        return statements[i].parse(p, at);
    }
    return qn__parse_error(p, "a statement");
}

static qn_jnode *parse_until(qn_parser *p, const char *const *ends)
{
    qn_nodes list = {0};
    qn_jnode *block = qn__jnode(p, QN_N_block, p->t->at);
    if (++p->depth > QN_JINJA_MAX_DEPTH) qn__jinja_bad(p->j, p->t->at, "nested more than %d deep", QN_JINJA_MAX_DEPTH);
    while (!qn__parse_failed(p) && p->t->kind != QN_T_end) {
        qn_jnode *node;
        if (p->t->kind == QN_T_data) {
            node = qn__jnode(p, QN_N_text, p->t->at);
            node->value = p->t++->value;
            qn__jnode_sealed(p, node);
        } else if (p->t->kind == QN_T_variable_begin) {
            node = qn__jnode(p, QN_N_output, p->t->at);
            p->t++;
            node->a = qn__parse_tuple(p, true, false);
            if (p->t->kind == QN_T_variable_end)
                p->t++;
            else
                qn__parse_error(p, "the end of the tag");
            qn__jnode_sealed(p, node);
        } else {
            p->t++; /* {% */
            for (const char *const *end = ends; end && *end; end++)
                if (qn__at_name(p, *end)) goto done;
            node = parse_statement(p);
        }
        qn__nodes_add(p, &list, node);
    }
    if (ends && !qn__parse_failed(p)) qn__parse_error(p, ends[0]);
done:
    p->depth--;
    block->items = list.items;
    block->n = list.n;
    return qn__jnode_sealed(p, block);
}

/* ---- the whole -------------------------------------------------------------------------------- */

int qn__jinja_find_symbol(const qn_jinja *j, const char *name)
{
    for (int i = 0; i < j->n_names; i++)
        if (strcmp(j->names[i], name) == 0) return i;
    return -1;
}

int qn__jinja_symbol(qn_jinja *j, const char *name, size_t n)
{
    for (int i = 0; i < j->n_names; i++)
        if (strlen(j->names[i]) == n && memcmp(j->names[i], name, n) == 0) return i;
    if (j->n_names == j->cap_names) {
        const int cap = j->cap_names ? 2 * j->cap_names : 64;
        const char **names = qn__heap_alloc(&j->heap, (size_t)cap * sizeof *names);
        if (!names) return -1;
        if (j->n_names) memcpy(names, j->names, (size_t)j->n_names * sizeof *names);
        j->names = names;
        j->cap_names = cap;
    }
    char *copy = qn__heap_alloc(&j->heap, n + 1);
    if (!copy) return -1;
    memcpy(copy, name, n);
    j->names[j->n_names] = copy;
    return j->n_names++;
}

void qn__jinja_place(const qn_jinja *j, uint32_t at, int *line, int *column)
{
    *line = *column = 1;
    for (uint32_t i = 0; i < at && i < j->n; i++) {
        if (j->source[i] == '\n') {
            ++*line;
            *column = 1;
        } else {
            *column += ((unsigned char)j->source[i] & 0xC0) != 0x80;
        }
    }
}

/* As jinja2: every kind of newline becomes \n, and one at the very end goes. */
static void copy_source(qn_jinja *j, const char *source, size_t n)
{
    j->source = qn__heap_alloc(&j->heap, n + 2);
    if (!j->source) return;
    for (size_t i = 0; i < n; i++) {
        if (source[i] == '\r') {
            if (i + 1 < n && source[i + 1] == '\n') i++;
            j->source[j->n++] = '\n';
        } else {
            j->source[j->n++] = source[i];
        }
    }
    if (j->n && j->source[j->n - 1] == '\n') j->n--;
    j->source[j->n] = '\0';
}

static void compile(qn_jinja *j, const char *source, size_t n)
{
    static const char *const own[] = {
#define QN_JINJA_SYM(name) #name,
        QN_JINJA_SYMS(QN_JINJA_SYM)
#undef QN_JINJA_SYM
    };
    const size_t valid = qn__utf8_valid_prefix(source, n);
    if (n > QN_JINJA_MAX_SOURCE) {
        qn__heap_fail(&j->heap, QN_STATUS_limit, "a template of %zu bytes; at most %zu are read", n,
                      QN_JINJA_MAX_SOURCE);
        return;
    }
    if (valid < n) {
        qn__heap_fail(&j->heap, QN_STATUS_format, "template, byte %zu: this is not UTF-8", valid);
        return;
    }
    for (int i = 0; i < QN_SYM_COUNT; i++) qn__jinja_symbol(j, own[i], strlen(own[i]));
    copy_source(j, source, n);
    qn_jtokens tokens = {0};
    if (j->heap.status == QN_OK) qn__jinja_lex(j, &tokens);
    if (j->heap.status != QN_OK) return;
    qn_parser p = {.j = j, .t = tokens.items};
    j->root = parse_until(&p, NULL);
}

qn_status qn__jinja_compile(const char *source, size_t n, qn_jinja **out, qn_error *err)
{
    qn_jinja *j = qn__calloc(1, sizeof *j);
    if (!j) return QN_FAIL_NOMEM(err, sizeof *j);
    qn__arena_init(&j->heap.arena, 0);
    j->heap.max_bytes = QN_JINJA_MAX_BYTES;
    j->heap.err = err;
    compile(j, source, n);
    const qn_status status = j->heap.status;
    j->heap.err = NULL;
    if (status == QN_OK)
        *out = j;
    else
        qn__jinja_destroy(j);
    return status;
}

void qn__jinja_destroy(qn_jinja *j)
{
    if (!j) return;
    qn__arena_deinit(&j->heap.arena);
    qn__free(j);
}
