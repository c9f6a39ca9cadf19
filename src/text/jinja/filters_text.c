/* SPDX-License-Identifier: MIT */
/* src/text/jinja/filters_text.c -- filters that give text, numbers from text, and JSON. */
#include "base/str.h"
#include "text/jinja/rows.h"
#include "text/utf8.h"

#include <math.h>

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

static int print_into(char *buf, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = qn__vformat(buf, size, fmt, args);
    va_end(args);
    return n;
}

/* The value as text; NULL after a failure. */
static const qn_vstr *self_text(qn_call *c)
{
    const qn_val v = qn__to_str(c->h, c->self);
    return c->h->status == QN_OK ? v.s : NULL;
}

/* ---- case and white space ---------------------------------------------------------------------- */

static qn_val changed(qn_call *c, qn_case how)
{
    const qn_vstr *s = self_text(c);
    return s ? qn__change_case(c->h, s, how) : nothing();
}
qn_val qn__filter_lower(qn_call *c) { return changed(c, QN_CASE_lower); }
qn_val qn__filter_upper(qn_call *c) { return changed(c, QN_CASE_upper); }
qn_val qn__filter_capitalize(qn_call *c) { return changed(c, QN_CASE_capital); }
qn_val qn__filter_string(qn_call *c) { return qn__to_str(c->h, c->self); }

/* Words begin behind white space, - ( { [ and <. */
qn_val qn__filter_title(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    qn_vbuf b = {.h = c->h};
    bool begins = true;
    for (uint32_t at = 0, n; s && at < s->n && c->h->status == QN_OK; at += n) {
        uint32_t cp;
        n = (uint32_t)qn__utf8_decode(s->data + at, s->n - at, &cp);
        const bool between = qn__py_space(cp) || (cp < 0x80 && strchr("-({[<", (int)cp));
        const qn_val one = qn__str_part(c->h, s, at, at + n);
        const qn_val v = c->h->status != QN_OK ? one
                         : between             ? one
                                               : qn__change_case(c->h, one.s, begins ? QN_CASE_upper : QN_CASE_lower);
        if (c->h->status == QN_OK) qn__buf_str(&b, v.s);
        begins = between;
    }
    return qn__buf_val(&b);
}

qn_val qn__filter_trim(qn_call *c)
{
    const qn_vstr *s = self_text(c), *chars = c->args[0].type == QN_VAL_none ? NULL : qn__arg_str(c, 0);
    return s ? qn__str_strip(c->h, s, chars, true, true) : nothing();
}

qn_val qn__filter_center(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    const int64_t width = qn__arg_int(c, 0, 80);
    if (!s) return nothing();
    const int64_t n = width > s->n_chars ? width - s->n_chars : 0, left = n / 2 + (n & width & 1);
    return qn__str_pad(c->h, s, left, n - left, NULL);
}

qn_val qn__filter_indent(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    const bool first = qn__arg_bool(c, 1, false), blank = qn__arg_bool(c, 2, false);
    const qn_val by = qn__is_text(c, 0)
                          ? c->args[0]
                          : qn__val_binary(c->r, QN_J_mul, qn__text_val(c->h, " "), qn__int(qn__arg_int(c, 0, 4)));
    if (!s || c->h->status != QN_OK) return nothing();
    /* jinja2 appends a newline, so that text that ends with one keeps it, and splits */
    qn_vbuf text = {.h = c->h}, b = {.h = c->h};
    qn__buf_str(&text, s);
    qn__buf_puts(&text, "\n");
    const qn_val whole = qn__buf_val(&text);
    const qn_vlist *lines = c->h->status == QN_OK ? qn__split_lines(c->h, whole.s, false) : NULL;
    for (uint32_t i = 0; lines && i < lines->n && c->h->status == QN_OK; i++) {
        const qn_vstr *line = lines->items[i].s;
        if (i) qn__buf_puts(&b, "\n");
        if (i == 0 ? first : blank || line->n) qn__buf_str(&b, by.s);
        qn__buf_str(&b, line);
    }
    return qn__buf_val(&b);
}

qn_val qn__filter_wordcount(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    int64_t words = 0;
    bool inside = false;
    for (uint32_t at = 0, n; s && at < s->n; at += n) {
        uint32_t cp;
        n = (uint32_t)qn__utf8_decode(s->data + at, s->n - at, &cp);
        const bool word = qn__py_word(cp);
        words += word && !inside;
        inside = word;
    }
    return qn__int(words);
}

qn_val qn__filter_replace(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    const qn_val old = qn__to_str(c->h, c->args[0]), by = qn__to_str(c->h, c->args[1]);
    if (!s || c->h->status != QN_OK) return nothing();
    return qn__str_replace(c->h, s, old.s, by.s, qn__arg_int(c, 2, -1));
}

qn_val qn__filter_truncate(qn_call *c)
{
    static const qn_vstr dots = {.data = "...", .n = 3, .n_chars = 3, .trust = QN_TRUST_all};
    const qn_vstr *s = self_text(c), *end = qn__is_text(c, 2) ? c->args[2].s : &dots;
    const int64_t length = qn__arg_int(c, 0, 255), leeway = qn__arg_int(c, 3, 5);
    if (!s) return nothing();
    if (length < end->n_chars)
        return QN_RAISE(c->h, "expected length >= %u, got %lld", end->n_chars, (long long)length);
    if (leeway < 0) return QN_RAISE(c->h, "expected leeway >= 0, got %lld", (long long)leeway);
    if (s->n_chars <= length + leeway) return (qn_val){.type = QN_VAL_str, .s = s};
    uint32_t cut = qn__str_byte(s, (uint32_t)(length - end->n_chars));
    if (!qn__arg_bool(c, 1, false)) /* the last word goes */
        for (uint32_t i = cut; i > 0; i--)
            if (s->data[i - 1] == ' ') {
                cut = i - 1;
                break;
            }
    qn_vbuf b = {.h = c->h};
    qn__buf_part(&b, s, 0, cut);
    qn__buf_str(&b, end);
    return qn__buf_val(&b);
}

/* ---- HTML and URLs ----------------------------------------------------------------------------- */

static qn_val marked(qn_val v)
{
    if (qn__is_str(v)) ((qn_vstr *)v.s)->markup = true;
    return v;
}

qn_val qn__html_escape(qn_heap *h, const qn_vstr *s)
{
    static const char from[] = "&<>'\"", *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    qn_vbuf b = {.h = h};
    for (uint32_t at = 0; at < s->n && h->status == QN_OK; at++) {
        const char *p = s->data[at] ? strchr(from, s->data[at]) : NULL;
        if (p)
            qn__buf_like(&b, to[p - from], strlen(to[p - from]), s, at);
        else
            qn__buf_part(&b, s, at, at + 1);
    }
    if (!b.data) qn__buf_puts(&b, "");
    return marked(qn__buf_val(&b));
}

qn_val qn__filter_safe(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    qn_vstr *copy = s ? qn__heap_alloc(c->h, sizeof *copy) : NULL;
    if (!copy) return nothing();
    *copy = *s;
    copy->markup = true;
    return (qn_val){.type = QN_VAL_str, .s = copy};
}

qn_val qn__filter_escape(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    return !s || s->markup ? c->self : qn__html_escape(c->h, s);
}

qn_val qn__filter_forceescape(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    return s ? qn__html_escape(c->h, s) : nothing();
}

qn_val qn__filter_striptags(qn_call *c)
{
    static const struct {
        const char *name, *text;
    } entities[] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}, {"&#34;", "\""}};
    const qn_vstr *s = self_text(c);
    qn_vbuf b = {.h = c->h};
    bool space = false;
    if (!s) return nothing();
    for (uint32_t at = 0; at < s->n && c->h->status == QN_OK;) {
        const char *rest = s->data + at, *end = NULL;
        if (*rest == '<') {
            const bool comment = s->n - at >= 4 && memcmp(rest, "<!--", 4) == 0;
            end = comment ? memmem(rest, s->n - at, "-->", 3) : memchr(rest, '>', s->n - at);
            if (end) {
                at = (uint32_t)(end - s->data) + (comment ? 3 : 1);
                continue;
            }
        }
        uint32_t cp, n = (uint32_t)qn__utf8_decode(rest, s->n - at, &cp);
        if (qn__py_space(cp)) {
            space = true;
            at += n;
            continue;
        }
        if (space && b.n) qn__buf_puts(&b, " ");
        space = false;
        bool entity = false;
        for (size_t i = 0; i < sizeof entities / sizeof *entities && !entity; i++) {
            const size_t len = strlen(entities[i].name);
            if (s->n - at < len || memcmp(rest, entities[i].name, len) != 0) continue;
            qn__buf_like(&b, entities[i].text, 1, s, at);
            at += (uint32_t)len;
            entity = true;
        }
        if (entity) continue;
        qn__buf_part(&b, s, at, at + n);
        at += n;
    }
    return qn__buf_val(&b);
}

static void url_quote(qn_vbuf *b, const qn_vstr *s, bool query)
{
    static const char hex[] = "0123456789ABCDEF";
    for (uint32_t at = 0; at < s->n && b->h->status == QN_OK; at++) {
        const unsigned char u = (unsigned char)s->data[at];
        const char out[3] = {'%', hex[u >> 4], hex[u & 15]};
        const bool plain = (u >= '0' && u <= '9') || ((u | 0x20) >= 'a' && (u | 0x20) <= 'z') ||
                           (u && strchr("_.-~", u)) || (u == '/' && !query);
        if (plain && u < 0x80)
            qn__buf_part(b, s, at, at + 1);
        else if (u == ' ' && query)
            qn__buf_like(b, "+", 1, s, at);
        else
            qn__buf_like(b, out, 3, s, at);
    }
}

qn_val qn__filter_urlencode(qn_call *c)
{
    qn_vbuf b = {.h = c->h};
    const bool pairs = c->self.type == QN_VAL_dict || c->self.type == QN_VAL_list;
    if (!pairs) {
        const qn_vstr *s = self_text(c);
        if (s) url_quote(&b, s, false);
        return qn__buf_val(&b);
    }
    qn_call items = {.r = c->r, .h = c->h, .self = c->self};
    const qn_vlist *l = qn__val_iterate(c->h, c->self.type == QN_VAL_dict ? qn__method_dict_items(&items) : c->self);
    for (uint32_t i = 0; l && i < l->n && c->h->status == QN_OK; i++) {
        const qn_vlist *pair = qn__val_iterate(c->h, l->items[i]);
        if (!pair || pair->n != 2) return QN_RAISE(c->h, "urlencode needs pairs");
        const qn_val key = qn__to_str(c->h, pair->items[0]), value = qn__to_str(c->h, pair->items[1]);
        if (c->h->status != QN_OK) break;
        if (i) qn__buf_puts(&b, "&");
        url_quote(&b, key.s, true);
        qn__buf_puts(&b, "=");
        url_quote(&b, value.s, true);
    }
    return qn__buf_val(&b);
}

qn_val qn__filter_xmlattr(qn_call *c)
{
    qn_vbuf b = {.h = c->h};
    if (c->self.type != QN_VAL_dict) return QN_RAISE(c->h, "xmlattr needs a dict");
    for (uint32_t i = 0; i < c->self.d->n && c->h->status == QN_OK; i++) {
        const qn_val v = c->self.d->values[i];
        if (v.type == QN_VAL_none || qn__is_undefined(v)) continue;
        const qn_val key = qn__to_str(c->h, c->self.d->keys[i]), text = qn__to_str(c->h, v);
        if (c->h->status != QN_OK) break;
        for (const char *p = key.s->data; *p; p++)
            if (strchr(" \t\n\r\f\v/>=", *p)) return QN_RAISE(c->h, "invalid character in attribute name");
        const qn_val name = qn__html_escape(c->h, key.s), value = qn__html_escape(c->h, text.s);
        if (c->h->status != QN_OK) break;
        if (b.n || qn__arg_bool(c, 0, true)) qn__buf_puts(&b, " ");
        qn__buf_str(&b, name.s);
        qn__buf_puts(&b, "=\"");
        qn__buf_str(&b, value.s);
        qn__buf_puts(&b, "\"");
    }
    return qn__buf_val(&b);
}

/* ---- numbers ----------------------------------------------------------------------------------- */

qn_val qn__filter_abs(qn_call *c)
{
    const qn_val v = c->self;
    if (!qn__is_number(v)) return QN_RAISE(c->h, "bad operand type for abs(): '%s'", qn__type_name(v));
    if (v.type == QN_VAL_float) return qn__float(fabs(v.f));
    return qn__integer(v) < 0 ? qn__val_binary(c->r, QN_J_sub, qn__int(0), v) : qn__int(qn__integer(v));
}

/* float(v), false where that is none. */
static bool to_real(qn_heap *h, qn_val v, double *f)
{
    if (v.type == QN_VAL_big) return qn__read_float(h, v.s->data, f);
    if (qn__is_number(v)) return *f = qn__real(v), true;
    if (!qn__is_str(v)) return false;
    const qn_val text = qn__str_strip(h, v.s, NULL, true, true);
    if (h->status != QN_OK) return false;
    static const struct {
        const char *name;
        double value;
    } words[] = {{"inf", HUGE_VAL}, {"infinity", HUGE_VAL}, {"nan", NAN}};
    const char *p = text.s->data + (text.s->data[0] == '-' || text.s->data[0] == '+');
    for (int i = 0; i < 3; i++)
        if (strcasecmp(p, words[i].name) == 0)
            return *f = text.s->data[0] == '-' ? -words[i].value : words[i].value, true;
    return qn__read_float(h, text.s->data, f);
}

qn_val qn__filter_float(qn_call *c)
{
    double f;
    if (to_real(c->h, c->self, &f)) return qn__float(f);
    return qn__given(c->args[0]) ? c->args[0] : qn__float(0);
}

/* int(text, base), false when that is none. */
static bool parse_integer(const char *p, int64_t base, int64_t *out)
{
    int64_t v = 0;
    const bool negative = *p == '-';
    if (*p == '-' || *p == '+') p++;
    if (*p == '0' && p[1]) {
        const char kind = p[1] | 0x20;
        const int64_t own = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        if (own && (base == own || base == 0)) {
            base = own;
            p += 2;
        }
    }
    if (base == 0) base = 10;
    if (!*p) return false;
    for (bool digit_before = false; *p; p++) {
        const char l = *p | 0x20;
        const int digit = *p >= '0' && *p <= '9' ? *p - '0' : l >= 'a' && l <= 'z' ? l - 'a' + 10 : 99;
        if (*p == '_' && digit_before && p[1] && p[1] != '_') {
            digit_before = false;
            continue;
        }
        if (digit >= base) return false;
        digit_before = true;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, negative ? -digit : digit, &v))
            return false;
    }
    *out = v;
    return true;
}

qn_val qn__filter_int(qn_call *c)
{
    const qn_val otherwise = qn__given(c->args[0]) ? c->args[0] : qn__int(0);
    int64_t v;
    double f;
    if (qn__is_integer(c->self)) return qn__int(qn__integer(c->self));
    if (c->self.type == QN_VAL_big) return c->self;
    if (c->self.type == QN_VAL_float) {
        f = c->self.f;
        if (isinf(f)) return QN_RAISE(c->h, "cannot convert float infinity to integer");
    } else if (qn__is_str(c->self)) {
        const qn_val text = qn__str_strip(c->h, c->self.s, NULL, true, true);
        if (c->h->status != QN_OK) return nothing();
        if (parse_integer(text.s->data, qn__arg_int(c, 1, 10), &v)) return qn__int(v);
        if (!qn__parse_f64(text.s->data, -HUGE_VAL, HUGE_VAL, &f)) return otherwise;
    } else {
        return otherwise;
    }
    return f > -9.2e18 && f < 9.2e18 ? qn__int((int64_t)f) : otherwise;
}

/* To 10^digits, ties to even, as an integer. */
static qn_val round_integer(qn_call *c, int64_t v, int64_t digits)
{
    if (digits < -19) return qn__int(0); /* 10^20 is more than twice any of them */
    __int128 unit = 1;
    for (; digits < 0; digits++) unit *= 10;
    __int128 whole = v / unit;
    const __int128 rest = v % unit, twice = rest < 0 ? -2 * rest : 2 * rest;
    if (twice > unit || (twice == unit && whole % 2)) whole += v < 0 ? -1 : 1;
    whole *= unit;
    if (whole < INT64_MIN || whole > INT64_MAX) return QN_RAISE(c->h, "an integer beyond 64 bits");
    return qn__int((int64_t)whole);
}

qn_val qn__filter_round(qn_call *c)
{
    const int64_t digits = qn__arg_int(c, 0, 0);
    const qn_vstr *method = qn__is_text(c, 1) ? c->args[1].s : NULL;
    char text[400];
    double f;
    if (method && strcmp(method->data, "common") && strcmp(method->data, "ceil") && strcmp(method->data, "floor"))
        return QN_RAISE(c->h, "method must be common, ceil or floor");
    const bool common = !method || strcmp(method->data, "common") == 0;
    if (c->self.type == QN_VAL_big && common && digits >= 0) return c->self;
    if (!qn__is_number(c->self)) return QN_RAISE(c->h, "type %s cannot be rounded", qn__type_name(c->self));
    if (c->self.type != QN_VAL_float && common) return round_integer(c, qn__integer(c->self), digits);
    if (digits < -300 || digits > 300) return c->self;
    const double x = qn__real(c->self), power = pow(10, (double)digits);
    if (!common) return qn__float((method->data[0] == 'f' ? floor(x * power) : ceil(x * power)) / power);
    if (digits < 0 || !isfinite(x)) return qn__float(nearbyint(x * power) / power);
    print_into(text, sizeof text, "%.*f", (int)digits, x); /* correctly rounded, ties of the decimal to even */
    return qn__parse_f64(text, -HUGE_VAL, HUGE_VAL, &f) ? qn__float(f) : c->self;
}

qn_val qn__filter_filesizeformat(qn_call *c)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    char text[64];
    const bool two = qn__arg_bool(c, 0, false);
    const double base = two ? 1024 : 1000;
    double unit = base, bytes;
    if (!to_real(c->h, c->self, &bytes)) return QN_RAISE(c->h, "'%s' object is no number", qn__type_name(c->self));
    if (bytes == -HUGE_VAL) return QN_RAISE(c->h, "cannot convert float infinity to integer");
    if (bytes == 1) return qn__text_val(c->h, "1 Byte");
    if (bytes < base) {
        print_into(text, sizeof text, "%.0f Bytes", trunc(bytes));
        return qn__text_val(c->h, text);
    }
    int i = 0;
    for (; i < 7 && !(bytes < unit * base); i++) unit *= base;
    print_into(text, sizeof text, "%.1f %s", base * bytes / (unit * base), two ? binary[i] : decimal[i]);
    return qn__text_val(c->h, text);
}

/* ---- JSON and formats -------------------------------------------------------------------------- */

qn_val qn__filter_tojson(qn_call *c)
{
    qn_json_style style = {.indent = -1, .ascii = qn__arg_bool(c, 0, false), .sort_keys = qn__arg_bool(c, 3, false)};
    const qn_val indent = c->args[1];
    if (qn__is_integer(indent)) {
        const int64_t n = qn__integer(indent);
        style.indent = n < 0 ? 0 : n > 1000 ? 1000 : (int)n;
    } else if (qn__is_str(indent)) {
        style.indent_text = indent.s;
    }
    if (qn__given(c->args[2]) && c->args[2].type != QN_VAL_none) {
        const qn_vlist *l = qn__val_iterate(c->h, c->args[2]);
        if (!l || l->n != 2 || !qn__is_str(l->items[0]) || !qn__is_str(l->items[1]))
            return QN_RAISE(c->h, "separators are two strings");
        style.comma = l->items[0].s;
        style.colon = l->items[1].s;
    }
    qn_vbuf b = {.h = c->h};
    qn__print_json(&b, c->self, &style);
    return qn__buf_val(&b);
}

qn_val qn__filter_from_json(qn_call *c)
{
    if (c->r->options->strict) return QN_RAISE(c->h, "No filter named 'from_json'.");
    if (!qn__is_str(c->self)) return QN_RAISE(c->h, "from_json needs a string, not %s", qn__type_name(c->self));
    return qn__parse_json(c->h, c->self.s->data, c->self.s->n, c->self.s->trust == QN_TRUST_all);
}

qn_val qn__filter_format(qn_call *c)
{
    const qn_vstr *s = self_text(c);
    if (!s) return nothing();
    if (c->all->n && c->all->named && c->all->named->n)
        return QN_RAISE(c->h, "can't handle positional and keyword arguments at the same time");
    if (c->all->named && c->all->named->n) return qn__str_percent(c->r, s, qn__of_dict(c->all->named));
    qn_vlist *l = qn__list_new(c->h, QN_LIST_tuple, c->all->n);
    for (uint32_t i = 0; l && i < c->all->n; i++) qn__list_add(c->h, l, c->all->positional[i]);
    return l ? qn__str_percent(c->r, s, qn__of_list(l)) : nothing();
}
