/* SPDX-License-Identifier: MIT */
/* src/text/jinja/filters_pprint.c -- Python's pprint.pformat: repr() with sorted dicts where that fits in 80 columns;
 * else an element a line, and long strings in parts. */
#include "text/jinja/rows.h"
#include "text/utf8.h"

enum { WIDTH = 80, MAX_DEPTH = 200 /* as of repr */ };

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

static bool is_sequence(qn_val v)
{
    return v.type == QN_VAL_list && (v.l->kind == QN_LIST_list || v.l->kind == QN_LIST_tuple);
}

static bool has_order(qn_val a, qn_val b)
{
    if (is_sequence(a) && is_sequence(b) && a.l->kind == b.l->kind) {
        for (uint32_t i = 0; i < a.l->n && i < b.l->n; i++)
            if (!qn__val_equal(a.l->items[i], b.l->items[i])) return has_order(a.l->items[i], b.l->items[i]);
        return true;
    }
    return (qn__is_number(a) && qn__is_number(b)) || (qn__is_str(a) && qn__is_str(b));
}

/* Keys that Python does not order go by the names of their types. */
static int order_of_keys(qn_heap *h, qn_val a, qn_val b)
{
    return has_order(a, b) ? qn__val_compare(h, a, b) : strcmp(qn__type_name(a), qn__type_name(b));
}

/* v with every dict in it sorted. */
static qn_val sorted(qn_heap *h, qn_val v, int depth)
{
    if (depth > MAX_DEPTH) return QN_RAISE(h, "a value nested more than %d deep", MAX_DEPTH);
    if (is_sequence(v)) {
        qn_vlist *l = qn__list_new(h, v.l->kind, v.l->n);
        for (uint32_t i = 0; l && i < v.l->n && h->status == QN_OK; i++)
            qn__list_add(h, l, sorted(h, v.l->items[i], depth + 1));
        return l ? qn__of_list(l) : nothing();
    }
    if (v.type != QN_VAL_dict) return v;
    const uint32_t n = v.d->n;
    qn_vdict *d = qn__dict_new(h);
    qn_val *keys = d ? qn__heap_alloc(h, (4 * (size_t)n + 1) * sizeof *keys) : NULL;
    if (!keys) return nothing();
    qn_val *values = keys + n;
    if (n) memcpy(keys, v.d->keys, n * sizeof *keys);
    if (n) memcpy(values, v.d->values, n * sizeof *values);
    qn__val_sort(h, keys, values, values + n, n, false, order_of_keys);
    for (uint32_t i = 0; i < n && h->status == QN_OK; i++) qn__dict_set(h, d, keys[i], sorted(h, values[i], depth + 1));
    return qn__of_dict(d);
}

/* repr(v); NULL after a failure. */
static const qn_vstr *repr(qn_heap *h, qn_val v)
{
    qn_vbuf b = {.h = h};
    qn__val_print(&b, v, true);
    const qn_val text = qn__buf_val(&b);
    return h->status == QN_OK ? text.s : NULL;
}

static void new_line(qn_vbuf *b, int64_t indent)
{
    static const char blanks[] = "                                                                ";
    qn__buf_puts(b, "\n");
    for (int64_t n; indent > 0 && b->h->status == QN_OK; indent -= n) {
        n = indent < (int64_t)sizeof blanks - 1 ? indent : (int64_t)sizeof blanks - 1;
        qn__buf_add(b, blanks, (size_t)n, true);
    }
}

/* A word and the white space behind it. */
static uint32_t part_end(const qn_vstr *s, uint32_t at)
{
    for (int space = 0; space < 2; space++)
        for (uint32_t n; at < s->n; at += n) {
            uint32_t cp;
            n = (uint32_t)qn__utf8_decode(s->data + at, s->n - at, &cp);
            if (qn__py_space(cp) != space) break;
        }
    return at;
}

/* The reprs of as much of a line as fits in `width`, less `allowance` for the end of its last part. */
static void break_line(qn_heap *h, qn_vlist *chunks, const qn_vstr *line, int64_t width, int64_t allowance)
{
    uint32_t begin = 0;
    for (uint32_t at = 0, end; at < line->n && h->status == QN_OK; at = end) {
        end = part_end(line, at);
        if (end == line->n) width -= allowance;
        const qn_val candidate = qn__str_part(h, line, begin, end);
        const qn_vstr *text = h->status == QN_OK ? repr(h, candidate) : NULL;
        if (!text || text->n_chars <= width || begin == at) continue;
        const qn_val whole = qn__str_part(h, line, begin, at);
        if (h->status == QN_OK) text = repr(h, whole);
        if (h->status == QN_OK) qn__list_add(h, chunks, (qn_val){.type = QN_VAL_str, .s = text});
        begin = at;
    }
    const qn_val rest = qn__str_part(h, line, begin, line->n);
    const qn_vstr *text = h->status == QN_OK ? repr(h, rest) : NULL;
    if (text) qn__list_add(h, chunks, (qn_val){.type = QN_VAL_str, .s = text});
}

static void put_string(qn_vbuf *b, const qn_vstr *s, int64_t indent, int64_t allowance, bool alone)
{
    qn_heap *h = b->h;
    indent += alone;
    allowance += alone;
    const qn_vlist *lines = qn__split_lines(h, s, true);
    qn_vlist *chunks = qn__list_new(h, QN_LIST_list, 0);
    for (uint32_t i = 0; lines && chunks && i < lines->n && h->status == QN_OK; i++) {
        const int64_t less = i + 1 == lines->n ? allowance : 0;
        const qn_vstr *line = repr(h, lines->items[i]);
        if (line && line->n_chars <= WIDTH - indent - less)
            qn__list_add(h, chunks, (qn_val){.type = QN_VAL_str, .s = line});
        else if (line)
            break_line(h, chunks, lines->items[i].s, WIDTH - indent, less);
    }
    if (h->status != QN_OK) return;
    alone = alone && chunks->n > 1;
    if (alone) qn__buf_puts(b, "(");
    for (uint32_t i = 0; i < chunks->n && h->status == QN_OK; i++) {
        if (i) new_line(b, indent);
        qn__buf_str(b, chunks->items[i].s);
    }
    if (alone) qn__buf_puts(b, ")");
}

/* v begins at column `indent`, and `allowance` characters come behind it. */
static void put(qn_vbuf *b, qn_val v, int64_t indent, int64_t allowance, int level)
{
    const bool sequence = is_sequence(v), tuple = sequence && v.l->kind == QN_LIST_tuple;
    const qn_vstr *text = repr(b->h, v);
    if (!text) return;
    if (text->n_chars <= WIDTH - indent - allowance ||
        !(sequence || v.type == QN_VAL_dict || (qn__is_str(v) && v.s->n && !v.s->markup))) {
        qn__buf_str(b, text);
        return;
    }
    if (qn__is_str(v)) {
        put_string(b, v.s, indent, allowance, level == 0);
        return;
    }
    const char *const close = !sequence ? "}" : !tuple ? "]" : v.l->n == 1 ? ",)" : ")";
    const uint32_t n = sequence ? v.l->n : v.d->n;
    allowance += (int64_t)strlen(close);
    indent++;
    qn__buf_puts(b, !sequence ? "{" : tuple ? "(" : "[");
    for (uint32_t i = 0; i < n && b->h->status == QN_OK; i++) {
        const int64_t after = i + 1 == n ? allowance : 1;
        if (i) qn__buf_puts(b, ",");
        if (i) new_line(b, indent);
        if (sequence) {
            put(b, v.l->items[i], indent, after, level + 1);
            continue;
        }
        const qn_vstr *key = repr(b->h, v.d->keys[i]);
        if (!key) return;
        qn__buf_str(b, key);
        qn__buf_puts(b, ": ");
        put(b, v.d->values[i], indent + key->n_chars + 2, after, level + 1);
    }
    qn__buf_puts(b, close);
}

qn_val qn__filter_pprint(qn_call *c)
{
    qn_vbuf b = {.h = c->h};
    const qn_val v = sorted(c->h, c->self, 0);
    if (c->h->status == QN_OK) put(&b, v, 0, 0, 0);
    return qn__buf_val(&b);
}
