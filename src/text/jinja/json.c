/* SPDX-License-Identifier: MIT */
/* src/text/jinja/json.c -- JSON to values and back, as Python's json module reads and writes it. */
#include "base/str.h"
#include "text/jinja/value.h"
#include "text/utf8.h"

#include <math.h>

#define MAX_DEPTH 200

/* ---- writing ---------------------------------------------------------------------------------- */

static int escape(char *out, uint32_t cp, bool ascii)
{
    static const char *const hex = "0123456789abcdef";
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *p = named; *p; p += 2)
        if (cp == (uint32_t)*p) return out[0] = '\\', out[1] = p[1], 2;
    if (cp >= 0x20 && !(ascii && cp >= 0x7F)) return 0;
    uint32_t units[2] = {cp, 0};
    if (cp >= 0x10000) {
        units[0] = 0xD800 + ((cp - 0x10000) >> 10);
        units[1] = 0xDC00 + ((cp - 0x10000) & 0x3FF);
    }
    int n = 0;
    for (int i = 0; i < (cp >= 0x10000 ? 2 : 1); i++) {
        out[n++] = '\\';
        out[n++] = 'u';
        for (int shift = 12; shift >= 0; shift -= 4) out[n++] = hex[units[i] >> shift & 15];
    }
    return n;
}

static void write_string(qn_vbuf *b, const qn_vstr *s, bool ascii)
{
    qn__buf_puts(b, "\"");
    uint32_t begin = 0;
    for (uint32_t at = 0; at < s->n;) {
        uint32_t cp;
        char text[16];
        const uint32_t n = (uint32_t)qn__utf8_decode(s->data + at, s->n - at, &cp);
        const int escaped = escape(text, cp, ascii);
        if (escaped) {
            qn__buf_part(b, s, begin, at);
            qn__buf_like(b, text, (size_t)escaped, s, at);
            begin = at + n;
        }
        at += n;
    }
    qn__buf_part(b, s, begin, s->n);
    qn__buf_puts(b, "\"");
}

static void new_line(qn_vbuf *b, const qn_json_style *style, int depth)
{
    if (style->indent < 0 && !style->indent_text) return;
    qn__buf_puts(b, "\n");
    for (int i = 0; i < depth; i++) {
        if (style->indent_text) qn__buf_str(b, style->indent_text);
        for (int j = 0; !style->indent_text && j < style->indent && b->h->status == QN_OK; j++) qn__buf_puts(b, " ");
    }
}

static void put_comma(qn_vbuf *b, const qn_json_style *style)
{
    if (style->comma)
        qn__buf_str(b, style->comma);
    else
        qn__buf_puts(b, style->indent < 0 && !style->indent_text ? ", " : ",");
}

static void write_value(qn_vbuf *b, qn_val v, const qn_json_style *style, int depth);

static void write_float(qn_vbuf *b, double f)
{
    char text[32];
    qn__print_float(text, f);
    qn__buf_puts(b, isnan(f) ? "NaN" : isinf(f) ? f > 0 ? "Infinity" : "-Infinity" : text);
}

static void write_key(qn_vbuf *b, qn_val key, const qn_json_style *style)
{
    if (qn__is_str(key)) {
        write_string(b, key.s, style->ascii);
        return;
    }
    if (!qn__is_number(key) && key.type != QN_VAL_none && key.type != QN_VAL_big) {
        QN_RAISE(b->h, "keys must be str, int, float, bool or None, not %s", qn__type_name(key));
        return;
    }
    qn__buf_puts(b, "\"");
    write_value(b, key, style, 0);
    qn__buf_puts(b, "\"");
}

/* Indices of entries in the order of their keys. */
static uint32_t *sorted(qn_heap *h, const qn_vdict *d)
{
    uint32_t *order = qn__heap_alloc(h, (d->n + 1) * sizeof *order);
    for (uint32_t i = 0; order && i < d->n; i++) {
        uint32_t at = i;
        for (; at > 0 && qn__val_compare(h, d->keys[order[at - 1]], d->keys[i]) > 0; at--) order[at] = order[at - 1];
        order[at] = i;
    }
    return order;
}

static void write_dict(qn_vbuf *b, const qn_vdict *d, const qn_json_style *style, int depth)
{
    const uint32_t *order = style->sort_keys ? sorted(b->h, d) : NULL;
    qn__buf_puts(b, "{");
    for (uint32_t i = 0; i < d->n && b->h->status == QN_OK; i++) {
        const uint32_t at = order ? order[i] : i;
        if (i) put_comma(b, style);
        new_line(b, style, depth + 1);
        write_key(b, d->keys[at], style);
        if (style->colon)
            qn__buf_str(b, style->colon);
        else
            qn__buf_puts(b, ": ");
        write_value(b, d->values[at], style, depth + 1);
    }
    if (d->n) new_line(b, style, depth);
    qn__buf_puts(b, "}");
}

static void write_list(qn_vbuf *b, const qn_vlist *l, const qn_json_style *style, int depth)
{
    qn__buf_puts(b, "[");
    for (uint32_t i = 0; i < l->n && b->h->status == QN_OK; i++) {
        if (i) put_comma(b, style);
        new_line(b, style, depth + 1);
        write_value(b, l->items[i], style, depth + 1);
    }
    if (l->n) new_line(b, style, depth);
    qn__buf_puts(b, "]");
}

static void write_value(qn_vbuf *b, qn_val v, const qn_json_style *style, int depth)
{
    if (depth > MAX_DEPTH) {
        QN_RAISE(b->h, "a value nested more than %d deep", MAX_DEPTH);
        return;
    }
    switch (v.type) {
    case QN_VAL_none: qn__buf_puts(b, "null"); return;
    case QN_VAL_bool: qn__buf_puts(b, v.b ? "true" : "false"); return;
    case QN_VAL_int:
    case QN_VAL_big: qn__val_print(b, v, false); return;
    case QN_VAL_float: write_float(b, v.f); return;
    case QN_VAL_str: write_string(b, v.s, style->ascii); return;
    case QN_VAL_dict: write_dict(b, v.d, style, depth); return;
    case QN_VAL_list:
        if (v.l->kind <= QN_LIST_tuple) {
            write_list(b, v.l, style, depth);
            return;
        }
        break;
    default: break;
    }
    QN_RAISE(b->h, "Object of type %s is not JSON serializable", qn__type_name(v));
}

void qn__print_json(qn_vbuf *b, qn_val v, const qn_json_style *style) { write_value(b, v, style, 0); }

/* ---- reading ---------------------------------------------------------------------------------- */

typedef struct reader {
    qn_heap *h;
    const char *text;
    size_t n, at;
    bool trusted;
} reader;

static qn_val bad(reader *r, const char *expected)
{
    if (r->at >= r->n) return QN_RAISE(r->h, "JSON, offset %zu: the text ends, expected %s", r->at, expected);
    char quoted[24];
    const size_t left = r->n - r->at;
    qn__str_quote(quoted, sizeof quoted, r->text + r->at, qn__utf8_len(r->text + r->at, left));
    return QN_RAISE(r->h, "JSON, offset %zu: found '%s', expected %s", r->at, quoted, expected);
}

static void skip_space(reader *r)
{
    for (; r->at < r->n; r->at++) {
        const char c = r->text[r->at];
        if (c != ' ' && c != '\n' && c != '\t' && c != '\r') break;
    }
}

static bool take(reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (r->n - r->at < n || memcmp(r->text + r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static int32_t hex4(reader *r)
{
    int32_t v = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->n ? r->text[r->at] : '\0';
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            bad(r, "four hexadecimal digits");
            return -1;
        }
        v = v << 4 | digit;
    }
    return v;
}

/* Behind the backslash. Half a surrogate pair, which UTF-8 does not have, becomes U+FFFD. */
static void read_escape(reader *r, qn_vbuf *b)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = r->at < r->n ? r->text[r->at] : '\0';
    const char *p = c ? strchr(from, c) : NULL;
    char out[4];
    if (p) {
        r->at++;
        qn__buf_add(b, &to[p - from], 1, r->trusted);
        return;
    }
    if (c != 'u') {
        bad(r, "an escape");
        return;
    }
    r->at++;
    int32_t cp = hex4(r);
    if (cp >= 0xD800 && cp < 0xDC00 && r->n - r->at >= 2 && r->text[r->at] == '\\' && r->text[r->at + 1] == 'u') {
        const size_t back = r->at;
        r->at += 2;
        const int32_t low = hex4(r);
        if (low >= 0xDC00 && low < 0xE000)
            cp = 0x10000 + ((cp - 0xD800) << 10) + (low - 0xDC00);
        else
            r->at = back;
    }
    if (cp < 0) return;
    if (cp >= 0xD800 && cp < 0xE000) cp = 0xFFFD;
    qn__buf_add(b, out, (size_t)qn__utf8_encode((uint32_t)cp, out), r->trusted);
}

static qn_val read_string(reader *r)
{
    qn_vbuf b = {.h = r->h};
    for (r->at++; r->h->status == QN_OK;) {
        const size_t begin = r->at;
        while (r->at < r->n && r->text[r->at] != '"' && r->text[r->at] != '\\' && (unsigned char)r->text[r->at] >= 0x20)
            r->at++;
        const size_t n = r->at - begin;
        const bool ends = r->at < r->n && r->text[r->at] == '"';
        if (ends) r->at++;
        if (ends && !b.data) return qn__str_val(r->h, r->text + begin, n, r->trusted);
        qn__buf_add(&b, r->text + begin, n, r->trusted);
        if (ends) break;
        if (r->at >= r->n || r->text[r->at] != '\\') return bad(r, "the end of a string");
        r->at++;
        read_escape(r, &b);
    }
    return qn__buf_val(&b);
}

static size_t digits(reader *r)
{
    const size_t begin = r->at;
    while (r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9') r->at++;
    return r->at - begin;
}

static qn_val read_number(reader *r)
{
    const size_t begin = r->at;
    bool whole = true;
    if (take(r, "-") && take(r, "Infinity")) return qn__float(-HUGE_VAL);
    if (!take(r, "0") && !digits(r)) return bad(r, "a value");
    if (r->at < r->n && r->text[r->at] == '.') {
        whole = false;
        r->at++;
        if (!digits(r)) return bad(r, "digits");
    }
    if (r->at < r->n && (r->text[r->at] == 'e' || r->text[r->at] == 'E')) {
        whole = false;
        r->at++;
        if (!take(r, "+")) take(r, "-");
        if (!digits(r)) return bad(r, "digits");
    }
    const size_t n = r->at - begin;
    char *text = qn__heap_alloc(r->h, n + 1);
    int64_t i;
    double f;
    if (!text) return (qn_val){.type = QN_VAL_undefined};
    memcpy(text, r->text + begin, n);
    if (whole && qn__parse_i64(text, INT64_MIN, INT64_MAX, &i)) return qn__int(i);
    if (whole) {
        qn_val big = qn__str_val(r->h, text, n, r->trusted);
        if (qn__is_str(big)) big.type = QN_VAL_big;
        return big;
    }
    return qn__read_float(r->h, text, &f) ? qn__float(f) : bad(r, "a number");
}

static qn_val read_value(reader *r, int depth);

static qn_val read_list(reader *r, int depth)
{
    qn_vlist *l = qn__list_new(r->h, QN_LIST_list, 0);
    r->at++;
    skip_space(r);
    if (take(r, "]")) return l ? qn__of_list(l) : qn__none();
    while (r->h->status == QN_OK) {
        qn__list_add(r->h, l, read_value(r, depth + 1));
        skip_space(r);
        if (take(r, "]")) break;
        if (!take(r, ",")) bad(r, "a comma or the end of the array");
    }
    return l ? qn__of_list(l) : qn__none();
}

static qn_val read_dict(reader *r, int depth)
{
    qn_vdict *d = qn__dict_new(r->h);
    r->at++;
    skip_space(r);
    if (take(r, "}")) return d ? qn__of_dict(d) : qn__none();
    while (r->h->status == QN_OK) {
        skip_space(r);
        if (r->at >= r->n || r->text[r->at] != '"') return bad(r, "a name in quotes");
        const qn_val key = read_string(r);
        skip_space(r);
        if (!take(r, ":")) return bad(r, "a colon");
        qn__dict_set(r->h, d, key, read_value(r, depth + 1));
        skip_space(r);
        if (take(r, "}")) break;
        if (!take(r, ",")) bad(r, "a comma or the end of the object");
    }
    return d ? qn__of_dict(d) : qn__none();
}

static qn_val read_value(reader *r, int depth)
{
    skip_space(r);
    if (depth > MAX_DEPTH) return QN_RAISE(r->h, "JSON, offset %zu: nested more than %d deep", r->at, MAX_DEPTH);
    if (r->at >= r->n) return bad(r, "a value");
    if (r->text[r->at] == '"') return read_string(r);
    if (r->text[r->at] == '[') return read_list(r, depth);
    if (r->text[r->at] == '{') return read_dict(r, depth);
    if (take(r, "null")) return qn__none();
    if (take(r, "true")) return qn__bool(true);
    if (take(r, "false")) return qn__bool(false);
    if (take(r, "NaN")) return qn__float(NAN);
    if (take(r, "Infinity")) return qn__float(HUGE_VAL);
    return read_number(r);
}

qn_val qn__parse_json(qn_heap *h, const char *text, size_t n, bool trusted)
{
    const size_t valid = qn__utf8_valid_prefix(text, n);
    if (valid < n) return QN_RAISE(h, "JSON, offset %zu: this is not UTF-8", valid);
    reader r = {.h = h, .text = text, .n = n, .trusted = trusted};
    const qn_val v = read_value(&r, 0);
    skip_space(&r);
    if (h->status == QN_OK && r.at < n) return bad(&r, "the end of the text");
    return v;
}
