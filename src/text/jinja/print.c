/* SPDX-License-Identifier: MIT */
/* src/text/jinja/print.c -- Python's str() and repr(): what `{{ value }}` shows. */
#include "base/str.h"
#include "text/jinja/call.h"
#include "text/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <utf8proc.h>

#define MAX_DEPTH 200 /* of lists in lists; deeper ones are an error */

static int format(char *buf, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = qn__vformat(buf, size, fmt, args);
    va_end(args);
    return n;
}

bool qn__read_float(qn_heap *h, const char *text, double *f)
{
    double zero;
    if (qn__parse_f64(text, -HUGE_VAL, HUGE_VAL, f)) return true;
    /* is it no number, or one that is too large? With zeros for its digits it is in range. */
    const size_t n = strlen(text);
    char *zeros = qn__heap_alloc(h, n + 1);
    if (!zeros) return false;
    for (size_t i = 0; i < n; i++) zeros[i] = text[i] >= '0' && text[i] <= '9' ? '0' : text[i];
    *f = text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
    return qn__parse_f64(zeros, -HUGE_VAL, HUGE_VAL, &zero);
}

int qn__print_float(char *out, double f)
{
    if (isnan(f)) return (int)(strcpy(out, "nan"), 3);
    if (isinf(f)) return f > 0 ? (int)(strcpy(out, "inf"), 3) : (int)(strcpy(out, "-inf"), 4);
    char text[40], digits[24];
    for (int precision = 0; precision < 17; precision++) {
        double back;
        format(text, sizeof text, "%.*e", precision, f);
        if (qn__parse_f64(text, -HUGE_VAL, HUGE_VAL, &back) && back == f) break;
    }
    /* d.ddde+XX: sign, digits and exponent apart */
    const char *p = text;
    int n = 0, n_digits = 0;
    if (*p == '-') out[n++] = *p++;
    for (; *p != 'e'; p++)
        if (*p != '.') digits[n_digits++] = *p;
    int exponent = 0;
    const bool small = p[1] == '-';
    for (p += 2; *p; p++) exponent = 10 * exponent + (*p - '0');
    if (small) exponent = -exponent;
    while (n_digits > 1 && digits[n_digits - 1] == '0') n_digits--;
    if (exponent < -4 || exponent >= 16) {
        out[n++] = digits[0];
        if (n_digits > 1) out[n++] = '.';
        for (int i = 1; i < n_digits; i++) out[n++] = digits[i];
        return n + format(out + n, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        out[n++] = '0';
        out[n++] = '.';
        for (int i = -1; i > exponent; i--) out[n++] = '0';
        for (int i = 0; i < n_digits; i++) out[n++] = digits[i];
    } else {
        for (int i = 0; i <= exponent; i++) out[n++] = i < n_digits ? digits[i] : '0';
        out[n++] = '.';
        if (n_digits <= exponent + 1) out[n++] = '0';
        for (int i = exponent + 1; i < n_digits; i++) out[n++] = digits[i];
    }
    out[n] = '\0';
    return n;
}

/* str.isprintable of one character. */
static bool is_printable(uint32_t cp)
{
    if (cp == ' ') return true;
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c != UTF8PROC_CATEGORY_CC && c != UTF8PROC_CATEGORY_CF && c != UTF8PROC_CATEGORY_CS &&
           c != UTF8PROC_CATEGORY_CO && c != UTF8PROC_CATEGORY_CN && c != UTF8PROC_CATEGORY_ZL &&
           c != UTF8PROC_CATEGORY_ZP && c != UTF8PROC_CATEGORY_ZS;
}

static void quote(qn_vbuf *b, const qn_vstr *s)
{
    const bool two = memchr(s->data, '\'', s->n) && !memchr(s->data, '"', s->n);
    const char mark = two ? '"' : '\'';
    qn__buf_add(b, &mark, 1, true);
    for (uint32_t at = 0; at < s->n;) {
        uint32_t cp;
        char text[16];
        const int n = qn__utf8_decode(s->data + at, s->n - at, &cp);
        if (cp == '\\' || cp == (uint32_t)mark) {
            format(text, sizeof text, "\\%c", (char)cp);
        } else if (cp == '\n' || cp == '\r' || cp == '\t') {
            strcpy(text, cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t");
        } else if (!is_printable(cp)) {
            format(text, sizeof text, cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
        } else {
            memcpy(text, s->data + at, (size_t)n);
            text[n] = '\0';
        }
        qn__buf_like(b, text, strlen(text), s, at);
        at += (uint32_t)n;
    }
    qn__buf_add(b, &mark, 1, true);
}

static void print(qn_vbuf *b, qn_val v, bool repr, int depth);

static void print_list(qn_vbuf *b, const qn_vlist *l, int depth)
{
    char text[80];
    if (l->kind == QN_LIST_range) {
        format(text, sizeof text, l->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)", (long long)l->start,
               (long long)l->stop, (long long)l->step);
        qn__buf_puts(b, text);
        return;
    }
    static const char *const open[] = {"[", "(", "<generator object [", "dict_keys([", "dict_values([", "dict_items(["};
    static const char *const close[] = {"]", ")", "]>", "])", "])", "])"};
    qn__buf_puts(b, open[l->kind]);
    for (uint32_t i = 0; i < l->n && b->h->status == QN_OK; i++) {
        if (i) qn__buf_puts(b, ", ");
        print(b, l->items[i], true, depth + 1);
    }
    if (l->kind == QN_LIST_tuple && l->n == 1) qn__buf_puts(b, ",");
    qn__buf_puts(b, close[l->kind]);
}

static void print_dict(qn_vbuf *b, const qn_vdict *d, int depth)
{
    qn__buf_puts(b, "{");
    for (uint32_t i = 0; i < d->n && b->h->status == QN_OK; i++) {
        if (i) qn__buf_puts(b, ", ");
        print(b, d->keys[i], true, depth + 1);
        qn__buf_puts(b, ": ");
        print(b, d->values[i], true, depth + 1);
    }
    qn__buf_puts(b, "}");
}

static void print(qn_vbuf *b, qn_val v, bool repr, int depth)
{
    char text[40];
    if (depth > MAX_DEPTH) {
        QN_RAISE(b->h, "a value nested more than %d deep", MAX_DEPTH);
        return;
    }
    switch (v.type) {
    case QN_VAL_undefined: qn__buf_puts(b, repr ? "Undefined" : ""); return;
    case QN_VAL_absent:
    case QN_VAL_none: qn__buf_puts(b, "None"); return;
    case QN_VAL_bool: qn__buf_puts(b, v.b ? "True" : "False"); return;
    case QN_VAL_int:
        format(text, sizeof text, "%lld", (long long)v.i);
        qn__buf_puts(b, text);
        return;
    case QN_VAL_float:
        qn__print_float(text, v.f);
        qn__buf_puts(b, text);
        return;
    case QN_VAL_big: qn__buf_str(b, v.s); return;
    case QN_VAL_str:
        if (repr && v.s->markup) qn__buf_puts(b, "Markup(");
        if (repr)
            quote(b, v.s);
        else
            qn__buf_str(b, v.s);
        if (repr && v.s->markup) qn__buf_puts(b, ")");
        return;
    case QN_VAL_list: print_list(b, v.l, depth); return;
    case QN_VAL_dict: print_dict(b, v.d, depth); return;
    case QN_VAL_namespace:
        qn__buf_puts(b, "<Namespace ");
        print_dict(b, v.d, depth);
        qn__buf_puts(b, ">");
        return;
    case QN_VAL_macro:
        qn__buf_puts(b, "<Macro '");
        qn__buf_puts(b, ((const qn_macro *)v.p)->def->name);
        qn__buf_puts(b, "'>");
        return;
    default:
        qn__buf_puts(b, "<");
        qn__buf_puts(b, qn__type_name(v));
        qn__buf_puts(b, ">");
    }
}

void qn__val_print(qn_vbuf *b, qn_val v, bool repr) { print(b, v, repr, 0); }

qn_val qn__to_str(qn_heap *h, qn_val v)
{
    if (qn__is_str(v)) return v;
    qn_vbuf b = {.h = h};
    print(&b, v, false, 0);
    return qn__buf_val(&b);
}
