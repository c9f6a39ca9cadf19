/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/schema.c -- a schema's way from text to rules, and its errors. */
#include "text/grammar/schema/schema.h"

#include <stdarg.h>

#define MAX_HEAP_BYTES ((size_t)24 << 20) /* of a document as values */
#define MAX_TEXT_BYTES ((size_t)1 << 20)
#define MAX_WIDENED    1000 /* nodes; what is compiled again and again would take too long */

/* ---- errors ---------------------------------------------------------------------------------------------- */

void qn__schema_fail(qn_schema *c, qn_status status, const char *fmt, ...)
{
    char text[300];
    va_list args;
    if (c->status != QN_OK) return;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    c->status = qn__fail(c->err, status, __FILE__, __LINE__, "schema: %s", text);
}

/* Puts text before what stands at *at in buf; false when there is no room. */
static bool put_before(char *buf, size_t *at, const char *text)
{
    const size_t n = strlen(text);
    if (*at < n + 4) return false;
    *at -= n;
    memcpy(buf + *at, text, n);
    return true;
}

/* "#/properties/a": the JSON pointer of a node, its beginning left out where it is long. */
static const char *pointer_of(const qn_schema *c, int32_t node, char *buf, size_t size)
{
    size_t at = size - 1;
    buf[at] = '\0';
    for (; node >= 0 && c->nodes[node].parent >= 0; node = c->nodes[node].parent) {
        const qn_schema_node *n = &c->nodes[node];
        char part[80] = "";
        if (n->key) {
            char escaped[64];
            size_t k = 0;
            for (uint32_t i = 0; i < n->key->n && k < sizeof escaped - 2; i++) {
                const char byte = n->key->data[i];
                escaped[k++] = byte == '~' || byte == '/' ? '~' : byte;
                if (byte == '~' || byte == '/') escaped[k++] = byte == '~' ? '0' : '1';
            }
            qn__str_quote(part, sizeof part, escaped, k);
        }
        char index[24] = "";
        if (n->index >= 0) {
            size_t k = sizeof index - 1;
            for (int32_t i = n->index; k == sizeof index - 1 || i; i /= 10) index[--k] = (char)('0' + i % 10);
            memmove(part, index + k, sizeof index - k);
        }
        if ((part[0] || n->key) && (!put_before(buf, &at, part) || !put_before(buf, &at, "/"))) break;
        if (!put_before(buf, &at, n->keyword) || !put_before(buf, &at, "/")) break;
    }
    if (node >= 0 && c->nodes[node].parent >= 0) memcpy(buf + (at -= 3), "...", 3);
    if (node < 0 || c->nodes[node].parent < 0) buf[--at] = '#';
    return buf + at;
}

/* keyword NULL: all of the node. */
static void refuse(qn_schema *c, int32_t node, const char *keyword, qn_status status, const char *text)
{
    char pointer[220];
    if (c->status != QN_OK || (c->options.widen && c->nodes[node].widened)) return;
    const char *where = pointer_of(c, node, pointer, sizeof pointer);
    if (!c->options.widen || status == QN_STATUS_nomem) {
        c->status = qn__fail(c->err, status, __FILE__, __LINE__, "schema, %s: %s", where, text);
        return;
    }
    qn_grammar *g = c->g;
    if (g->n_widened >= MAX_WIDENED) {
        qn__schema_fail(c, QN_STATUS_limit, "more than %d places in it are not supported", MAX_WIDENED);
        return;
    }
    const uint8_t bit = keyword ? qn__schema_left_out(keyword) : 0;
    if (!keyword || c->nodes[node].left_out & bit) /* or it was not that keyword alone */
        c->nodes[node].widened = true;
    c->nodes[node].left_out |= bit;
    c->restart = true;
    const bool room = qn__arena_room(&g->arena, &g->widened, g->n_widened, &g->cap_widened, sizeof *g->widened);
    const char *note = qn__arena_printf(&g->arena, "%s: %s", where, text);
    if (!note || !room)
        c->status = QN_FAIL(c->err, nomem, "out of memory: a JSON schema");
    else
        g->widened[g->n_widened++] = note;
}

void qn__schema_refuse(qn_schema *c, int32_t node, qn_status status, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    refuse(c, node, NULL, status, text);
}

void qn__schema_refuse_keyword(qn_schema *c, int32_t node, const char *keyword, qn_status status, const char *fmt, ...)
{
    char text[200];
    va_list args;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    refuse(c, node, keyword, status, text);
}

bool qn__schema_step(qn_schema *c)
{
    if (++c->steps > QN_SCHEMA_MAX_STEPS)
        qn__schema_fail(c, QN_STATUS_limit, "its anyOf, oneOf and allOf have too many combinations");
    return qn__schema_going(c);
}

static void check_memory(qn_schema *c, bool ok)
{
    if (!ok && c->status == QN_OK) c->status = QN_FAIL(c->err, nomem, "out of memory: a JSON schema");
    if (c->arena.used_bytes > MAX_HEAP_BYTES) qn__schema_fail(c, QN_STATUS_limit, "it takes too much memory");
}

void *qn__schema_alloc(qn_schema *c, size_t count, size_t size)
{
    void *p = c->status == QN_OK ? qn__arena_array(&c->arena, count, size) : NULL;
    check_memory(c, p != NULL);
    return p;
}

bool qn__schema_grow(qn_schema *c, void *array, int32_t n, int32_t *cap, size_t size)
{
    const bool ok = c->status == QN_OK && qn__arena_room(&c->arena, array, n, cap, size);
    check_memory(c, ok);
    return ok;
}

/* ---- from a schema to rules ---------------------------------------------------------------------------------- */

/* How far a grammar had come, to go back there when a node was widened. */
typedef struct mark {
    int32_t n_states, n_edges, n_rules;
} mark;

static void forget(qn_schema *c, mark at, int32_t rule)
{
    qn_grammar *g = c->g;
    g->n_states = at.n_states;
    g->failed = false; /* if it was, a node was widened that made too many states */
    g->n_edges = at.n_edges;
    g->n_rules = at.n_rules;
    g->rules[rule].begin = g->rules[rule].end = -1;
    for (int32_t i = 0; i < c->n_nodes; i++) {
        c->nodes[i].state = 0;
        c->nodes[i].shapes = NULL;
    }
    c->n_sets = c->n_queue = c->n_classes = 0;
    c->set_slots = NULL;
    c->n_set_slots = 0;
    memset(c->general, 0, sizeof c->general);
    c->restart = false;
}

/* {"type": [..]} */
static int32_t type_node(qn_schema *c, const char *const *types, uint32_t n)
{
    qn_val *values = qn__schema_alloc(c, n + 3, sizeof *values);
    qn_vstr *texts = qn__schema_alloc(c, n + 1, sizeof *texts);
    qn_vdict *d = qn__schema_alloc(c, 1, sizeof *d);
    qn_vlist *list = qn__schema_alloc(c, 1, sizeof *list);
    if (!values || !texts || !d || !list) return -1;
    for (uint32_t i = 0; i <= n; i++) {
        const char *text = i < n ? types[i] : "type";
        const uint32_t len = (uint32_t)strlen(text);
        texts[i] = (qn_vstr){.data = text, .n = len, .n_chars = len};
        values[i] = (qn_val){.type = QN_VAL_str, .s = &texts[i]};
    }
    *list = (qn_vlist){.items = values, .n = n, .cap = n};
    values[n + 1] = qn__of_list(list);
    *d = (qn_vdict){.keys = &values[n], .values = &values[n + 1], .n = 1, .cap = 1};
    values[n + 2] = qn__of_dict(d);
    return qn__schema_read(c, &values[n + 2]);
}

qn_status qn__schema_open(qn_grammar *g, const qn_val *root, const qn_schema_options *options,
                          const qn_dialect *dialect, qn_schema **out, qn_error *err)
{
    static const char *const object[] = {"object"}, *const others[] = {"null", "boolean", "number", "array", "object"};
    static const qn_schema_options none;
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_schema *c = qn__arena_alloc(&arena, sizeof *c);
    *out = c;
    if (!c) {
        qn__arena_deinit(&arena);
        return QN_FAIL(err, nomem, "out of memory: a JSON schema");
    }
    *c = (qn_schema){.arena = arena, .g = g, .options = options ? *options : none, .dialect = dialect, .err = err};
    qn__schema_read(c, root);
    c->object = c->options.object ? type_node(c, object, 1) : -1;
    c->others = type_node(c, others, sizeof others / sizeof *others);
    return c->status;
}

void qn__schema_close(qn_schema *c)
{
    if (!c) return;
    qn_arena arena = c->arena;
    qn__arena_deinit(&arena);
}

/* What a rule took is given back, but for the work: that is counted over the whole document. */
static void put_back(qn_schema *c, const qn_schema *before, qn_arena_mark memory)
{
    const qn_schema after = *c;
    *c = *before;
    c->arena = after.arena;
    c->status = after.status;
    c->steps = after.steps;
    qn__arena_reset(&c->arena, memory);
}

/* form NULL: values as the dialect writes them, else strings of that form. */
static qn_status add_rule(qn_schema *c, const char *name, const qn_val *at, bool others, const qn_text_form *form,
                          bool *empty)
{
    qn_grammar *g = c->g;
    const qn_schema before = *c;
    const qn_arena_mark memory = qn__arena_get_mark(&c->arena);
    const int32_t node = at ? qn__schema_node_at(c, at) : -1, rule = qn__grammar_rule(g, name, strlen(name), 0);
    const mark here = {g->n_states, g->n_edges, g->n_rules};
    int32_t nodes[3], n = 0;
    bool ends = true;
    if (c->status != QN_OK) return c->status;
    if (rule < 0) return c->status = qn__grammar_failure(g, c->err);
    if (g->rules[rule].begin >= 0)
        return c->status = QN_FAIL(c->err, invalid, "grammar: rule \"%.60s\" is defined twice", name);
    if (node >= 0) nodes[n++] = node;
    if (node == 0 && c->object >= 0) nodes[n++] = c->object;
    if (others) nodes[n++] = c->others;
    do {
        forget(c, here, rule);
        const int32_t from = qn__emit_state(c), to = qn__emit_state(c), set = qn__schema_set(c, nodes, n);
        if (to < 0 || set < 0) continue;
        g->rules[rule].begin = from;
        g->rules[rule].end = to;
        if (form)
            qn__emit_texts(c, set, form, from, to);
        else
            qn__emit_values(c, set, from, to);
    } while (c->status == QN_OK && c->restart);
    if (c->status == QN_OK) c->status = qn__grammar_failure(g, c->err);
    if (c->status == QN_OK) c->status = qn__grammar_trim(g, rule, here.n_states, here.n_edges, &ends, c->err);
    if (empty) *empty = !ends;
    if (c->status == QN_OK && !ends && !empty)
        qn__schema_fail(c, QN_STATUS_invalid, "no %s can satisfy it", form ? "text" : "value");
    put_back(c, &before, memory);
    return c->status;
}

qn_status qn__schema_rule(qn_schema *c, const char *name, const qn_val *at, bool others, bool *empty)
{
    return add_rule(c, name, at, others, NULL, empty);
}

qn_status qn__schema_texts(qn_schema *c, const char *name, const qn_val *at, const qn_text_form *form, bool *empty)
{
    return add_rule(c, name, at, false, form, empty);
}

qn_status qn__grammar_add_schema(qn_grammar *g, const char *name, const qn_val *schema,
                                 const qn_schema_options *options, const qn_dialect *dialect, bool *empty,
                                 qn_error *err)
{
    qn_schema *c;
    qn_status status = qn__schema_open(g, schema, options, dialect, &c, err);
    if (status == QN_OK) status = qn__schema_rule(c, name, schema, false, empty);
    qn__schema_close(c);
    return status;
}

qn_status qn_grammar_create_schema(const char *schema, const qn_schema_options *options, qn_grammar **out,
                                   qn_error *err)
{
    const size_t n = strlen(schema);
    if (n > MAX_TEXT_BYTES)
        return QN_FAIL(err, limit, "a JSON schema of %zu bytes; at most %zu are read", n, MAX_TEXT_BYTES);
    qn_grammar *g = qn__grammar_new(err);
    if (!g) return QN_STATUS_nomem;
    qn_heap heap = {.max_bytes = MAX_HEAP_BYTES, .err = err};
    qn__arena_init(&heap.arena, 0);
    const qn_val value = qn__parse_json(&heap, schema, n, false);
    qn_status status = heap.status;
    if (status == QN_STATUS_limit) QN_FAIL(err, limit, "schema: it takes more than %zu MiB", MAX_HEAP_BYTES >> 20);
    if (status == QN_STATUS_invalid) { /* a template cannot compute it; of a file it is the form */
        if (err) err->status = QN_STATUS_format;
        status = qn__prefix(err, QN_STATUS_format, "schema");
    }
    if (status == QN_OK) status = qn__grammar_add_schema(g, "root", &value, options, NULL, NULL, err);
    if (status == QN_OK) status = qn__grammar_complete(g, "root", NULL, err);
    qn__arena_deinit(&heap.arena);
    if (status == QN_OK)
        *out = g;
    else
        qn_grammar_destroy(g);
    return status;
}

int32_t qn_grammar_n_widened(const qn_grammar *g) { return g->n_widened; }
const char *qn_grammar_widened(const qn_grammar *g, int32_t i)
{
    return i >= 0 && i < g->n_widened ? g->widened[i] : NULL;
}
