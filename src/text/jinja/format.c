/* SPDX-License-Identifier: MIT */
/* src/text/jinja/format.c -- Python's two ways to format: s % args, and s.format(..) with its format specifications. */
#include "base/str.h"
#include "text/jinja/rows.h"
#include "text/utf8.h"

#include <math.h>

#define MAX_WIDTH 10000

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

static int print_into(char *buf, size_t size, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = qn__vformat(buf, size, fmt, args);
    va_end(args);
    return n;
}

/* One field: [[fill]align][sign][#][0][width][,][.precision][kind]. */
typedef struct spec {
    qn_val fill; /* absent: a blank */
    char align;  /* < > ^ =, or 0: by kind */
    char sign;   /* + - blank, or 0 */
    bool alternate, zero;
    char group;           /* , _ or 0 */
    int width, precision; /* -1: none */
    char kind;            /* 0: none */
} spec;

static void put_padded(qn_vbuf *b, const qn_vstr *text, uint32_t sign, const spec *f, char align)
{
    const qn_vstr *fill = qn__given(f->fill) ? f->fill.s : &qn__blank;
    int64_t missing = f->width - (int64_t)text->n_chars;
    if (missing < 0) missing = 0;
    if (f->align) align = f->align;
    const int64_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    if (align == '=') qn__buf_part(b, text, 0, sign);
    qn__buf_repeat(b, fill, left);
    qn__buf_part(b, text, align == '=' ? sign : 0, text->n);
    qn__buf_repeat(b, fill, missing - left);
}

static void put_text(qn_vbuf *b, const qn_vstr *s, const spec *f, char align)
{
    qn_val v = {.type = QN_VAL_str, .s = s};
    if (f->precision >= 0 && (uint32_t)f->precision < s->n_chars)
        v = qn__str_part(b->h, s, 0, qn__str_byte(s, (uint32_t)f->precision));
    if (b->h->status == QN_OK) put_padded(b, v.s, 0, f, align);
}

/* digits with a separator every `every` from the right */
static void grouped(char *out, const char *digits, size_t n, char separator, int every)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (i && separator && (n - i) % (size_t)every == 0) out[k++] = separator;
        out[k++] = digits[i];
    }
    out[k] = '\0';
}

static void put_number(qn_vbuf *b, bool negative, const char *prefix, const char *digits, const spec *f)
{
    char text[1024];
    size_t n = 0;
    if (negative)
        text[n++] = '-';
    else if (f->sign == '+' || f->sign == ' ')
        text[n++] = f->sign;
    n += (size_t)print_into(text + n, sizeof text - n, "%s", prefix);
    const uint32_t sign = (uint32_t)n;
    print_into(text + n, sizeof text - n, "%s", digits);
    spec g = *f;
    if (f->zero && !f->align) {
        g.align = '=';
        if (!qn__given(g.fill)) g.fill = qn__text_val(b->h, "0");
    }
    const qn_val v = qn__text_val(b->h, text);
    if (b->h->status == QN_OK) put_padded(b, v.s, sign, &g, '>');
}

static void put_integer(qn_vbuf *b, qn_val v, const spec *f)
{
    char digits[80], shown[200];
    const int64_t i = qn__integer(v);
    uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const char kind = f->kind | 0x20;
    const unsigned base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
    size_t n = sizeof digits;
    do {
        digits[--n] = (f->kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[u % base];
        u /= base;
    } while (u);
    size_t count = sizeof digits - n;
    while (f->precision > (int)count && n > 0) digits[--n] = '0', count++;
    grouped(shown, digits + n, count, f->group, base == 10 ? 3 : 4);
    const char *prefix = !f->alternate || base == 10 ? ""
                         : f->kind == 'X'            ? "0X"
                         : base == 16                ? "0x"
                         : base == 8                 ? "0o"
                                                     : "0b";
    put_number(b, i < 0, prefix, shown, f);
}

static void put_real(qn_vbuf *b, double x, const spec *f)
{
    char digits[512], shown[700];
    const bool negative = signbit(x) && !isnan(x);
    const int precision = f->precision < 0 ? 6 : f->precision > 100 ? 100 : f->precision;
    x = fabs(x);
    const char kind = f->kind ? f->kind : 'r';
    if (isnan(x) || isinf(x)) {
        spec g = *f;
        g.zero = false;
        strcpy(digits, isnan(x) ? "nan" : "inf");
        if (kind == 'F' || kind == 'E' || kind == 'G') strcpy(digits, isnan(x) ? "NAN" : "INF");
        put_number(b, negative, "", digits, &g);
        return;
    }
    if (kind == 'r' && f->precision < 0) {
        qn__print_float(digits, x);
    } else {
        const char c = kind == 'r' ? 'g' : kind == '%' ? 'f' : kind == 'n' ? 'g' : kind;
        char fmt[8] = {'%', '.', '*', c, '\0'};
        if (f->alternate) memcpy(fmt, (char[]){'%', '#', '.', '*', c, '\0'}, 6);
        if (x > 1e300 && (c | 0x20) == 'f') x = 1e300;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        print_into(digits, sizeof digits - 2, fmt, (c | 0x20) == 'g' && precision == 0 ? 1 : precision,
                   kind == '%' ? x * 100 : x);
#pragma GCC diagnostic pop
        if (kind == 'r' && !strpbrk(digits, ".en")) strcat(digits, ".0");
        if (kind == '%') strcat(digits, "%");
    }
    const size_t whole = strcspn(digits, ".eE%");
    grouped(shown, digits, whole, f->group, 3);
    strcat(shown, digits + whole);
    put_number(b, negative, "", shown, f);
}

/* ---- s % args ----------------------------------------------------------------------------------- */

static qn_val next_arg(qn_run *r, qn_val args, uint32_t *used)
{
    const bool tuple = args.type == QN_VAL_list && args.l->kind == QN_LIST_tuple;
    const uint32_t n = tuple ? args.l->n : 1;
    if (*used >= n) return QN_RAISE(r->h, "not enough arguments for format string");
    return tuple ? args.l->items[(*used)++] : (++*used, args);
}

static qn_val as_integer(qn_run *r, qn_val v, char kind)
{
    if (qn__is_integer(v)) return v;
    if (v.type == QN_VAL_float && (kind == 'd' || kind == 'i' || kind == 'u') && fabs(v.f) < 9e18)
        return qn__int((int64_t)v.f);
    return QN_RAISE(r->h, "%%%c format: a real number is required, not %s", kind, qn__type_name(v));
}

static void put_percent(qn_run *r, qn_vbuf *b, qn_val v, spec *f)
{
    qn_vbuf repr = {.h = r->h};
    qn_val text;
    switch (f->kind) {
    case 's': text = qn__to_str(r->h, v); break;
    case 'r':
    case 'a':
        qn__val_print(&repr, v, true);
        text = qn__buf_val(&repr);
        break;
    case 'c':
        if (qn__is_str(v) && v.s->n_chars == 1) {
            text = v;
        } else if (qn__is_integer(v) && qn__integer(v) >= 0 && qn__integer(v) < 0xD800) {
            char out[4];
            text = qn__str_val(r->h, out, (size_t)qn__utf8_encode((uint32_t)qn__integer(v), out), true);
        } else {
            text = QN_RAISE(r->h, "%%c requires int or char");
        }
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        v = as_integer(r, v, f->kind);
        if (r->h->status == QN_OK) put_integer(b, v, f);
        return;
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        if (!qn__is_number(v))
            QN_RAISE(r->h, "must be real number, not %s", qn__type_name(v));
        else
            put_real(b, qn__real(v), f);
        return;
    default: QN_RAISE(r->h, "unsupported format character '%c'", f->kind); return;
    }
    if (r->h->status == QN_OK) put_text(b, text.s, f, '>');
}

static int small_number(const qn_vstr *s, uint32_t *at)
{
    int n = 0;
    while (*at < s->n && s->data[*at] >= '0' && s->data[*at] <= '9') {
        n = n * 10 + (s->data[(*at)++] - '0');
        if (n > MAX_WIDTH) n = MAX_WIDTH;
    }
    return n;
}

/* An argument for markup: its text, escaped unless it is markup. markupsafe wraps arguments in an object that can be
 * text and numbers, but no index, which %x and %c need. */
static qn_val escaped_arg(qn_run *r, qn_val v, spec *f)
{
    if (f->kind != 's' && f->kind != 'r' && f->kind != 'a')
        return strchr("diueEfFgG", f->kind) ? v : QN_RAISE(r->h, "%%%c format: a number is required", f->kind);
    qn_vbuf text = {.h = r->h};
    const bool markup = f->kind == 's' && qn__is_str(v) && v.s->markup;
    qn__val_print(&text, v, f->kind != 's');
    f->kind = 's';
    const qn_val shown = qn__buf_val(&text);
    return markup || r->h->status != QN_OK ? shown : qn__html_escape(r->h, shown.s);
}

qn_val qn__str_percent(qn_run *r, const qn_vstr *s, qn_val args)
{
    qn_vbuf b = {.h = r->h};
    uint32_t used = 0, begin = 0;
    bool by_name = false;
    for (uint32_t at = 0; at < s->n && r->h->status == QN_OK;) {
        if (s->data[at] != '%') {
            at++;
            continue;
        }
        qn__buf_part(&b, s, begin, at++);
        spec f = {.fill = qn__absent(), .precision = -1};
        qn_val v = qn__absent();
        if (at < s->n && s->data[at] == '(') {
            const char *end = memchr(s->data + at, ')', s->n - at);
            if (!end) return QN_RAISE(r->h, "incomplete format key");
            if (args.type != QN_VAL_dict) return QN_RAISE(r->h, "format requires a mapping");
            const qn_val key = qn__str_part(r->h, s, at + 1, (uint32_t)(end - s->data));
            by_name = true;
            if (r->h->status != QN_OK) return nothing();
            if (!qn__dict_get(args.d, key, &v)) return QN_RAISE(r->h, "format: no key '%.60s'", key.s->data);
            at = (uint32_t)(end - s->data) + 1;
        }
        for (; at < s->n && strchr("-+ #0", s->data[at]); at++) {
            const char c = s->data[at];
            if (c == '-') f.align = '<';
            if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
            f.alternate |= c == '#';
            f.zero |= c == '0';
        }
        if (at < s->n && s->data[at] == '*') {
            const qn_val w = next_arg(r, args, &used);
            f.width = qn__is_integer(w) && qn__integer(w) < MAX_WIDTH ? (int)qn__integer(w) : 0;
            at++;
        } else {
            f.width = small_number(s, &at);
        }
        if (at < s->n && s->data[at] == '.') {
            at++;
            f.precision = small_number(s, &at);
        }
        while (at < s->n && (s->data[at] == 'l' || s->data[at] == 'h' || s->data[at] == 'L')) at++;
        if (at >= s->n) return QN_RAISE(r->h, "incomplete format");
        f.kind = s->data[at++];
        begin = at;
        if (f.kind == '%') {
            qn__buf_puts(&b, "%");
            continue;
        }
        if (!qn__given(v)) v = next_arg(r, args, &used);
        if (r->h->status == QN_OK && s->markup) v = escaped_arg(r, v, &f);
        if (r->h->status == QN_OK) put_percent(r, &b, v, &f);
    }
    if (r->h->status != QN_OK) return nothing();
    const bool tuple = args.type == QN_VAL_list && args.l->kind == QN_LIST_tuple;
    const bool rest = tuple ? used < args.l->n : !used && args.type != QN_VAL_dict && args.type != QN_VAL_list;
    if (rest && !by_name) return QN_RAISE(r->h, "not all arguments converted during string formatting");
    qn__buf_part(&b, s, begin, s->n);
    const qn_val v = qn__buf_val(&b);
    if (s->markup && qn__is_str(v)) ((qn_vstr *)v.s)->markup = true;
    return v;
}

/* ---- s.format(..) -------------------------------------------------------------------------------- */

static bool parse_spec(qn_run *r, const qn_vstr *s, spec *f)
{
    uint32_t at = 0;
    *f = (spec){.fill = qn__absent(), .precision = -1};
    if (s->n) {
        const uint32_t n = (uint32_t)qn__utf8_len(s->data, s->n);
        if (n < s->n && strchr("<>=^", s->data[n])) {
            f->fill = qn__str_part(r->h, s, 0, n);
            f->align = s->data[n];
            at = n + 1;
        } else if (strchr("<>=^", s->data[0])) {
            f->align = s->data[0];
            at = 1;
        }
    }
    if (at < s->n && strchr("+- ", s->data[at])) f->sign = s->data[at++];
    if (at < s->n && s->data[at] == '#') f->alternate = true, at++;
    if (at < s->n && s->data[at] == '0') f->zero = true, at++;
    f->width = small_number(s, &at);
    if (at < s->n && (s->data[at] == ',' || s->data[at] == '_')) f->group = s->data[at++];
    if (at < s->n && s->data[at] == '.') {
        at++;
        f->precision = small_number(s, &at);
    }
    if (at < s->n) f->kind = s->data[at++];
    if (at < s->n) QN_RAISE(r->h, "Invalid format specifier '%.60s'", s->data);
    return r->h->status == QN_OK;
}

static void put_formatted(qn_run *r, qn_vbuf *b, qn_val v, const qn_vstr *text)
{
    spec f;
    if (!parse_spec(r, text, &f)) return;
    const bool number = v.type == QN_VAL_float || v.type == QN_VAL_int || (v.type == QN_VAL_bool && f.kind);
    if (qn__is_str(v) && (!f.kind || f.kind == 's')) {
        if (f.zero && !f.align) f.align = '<', f.fill = qn__text_val(r->h, "0");
        if (f.align == '=' || f.sign) QN_RAISE(r->h, "'=' alignment and signs are for numbers");
        if (r->h->status == QN_OK) put_text(b, v.s, &f, '<');
    } else if (number && qn__is_integer(v) && (!f.kind || strchr("dboxXn", f.kind))) {
        if (f.precision >= 0) QN_RAISE(r->h, "Precision not allowed in integer format specifier");
        put_integer(b, v, &f);
    } else if (number && (!f.kind || strchr("eEfFgGn%", f.kind))) {
        put_real(b, qn__real(v), &f);
    } else if (!text->n) {
        const qn_val s = qn__to_str(r->h, v);
        if (r->h->status == QN_OK) qn__buf_str(b, s.s);
    } else {
        QN_RAISE(r->h, "Unknown format code '%c' for object of type '%s'", f.kind, qn__type_name(v));
    }
}

/* "0.name[key]" of a field. */
static qn_val field_value(qn_run *r, const qn_vstr *s, uint32_t at, uint32_t end, const qn_argv *argv, int *automatic)
{
    uint32_t name = at;
    while (name < end && s->data[name] != '.' && s->data[name] != '[') name++;
    const qn_val key = qn__str_part(r->h, s, at, name);
    qn_val v = nothing();
    int64_t i = -1;
    if (r->h->status != QN_OK) return nothing();
    if (name == at)
        i = (*automatic)++;
    else if (!qn__parse_i64(key.s->data, 0, INT32_MAX, &i))
        i = -1;
    if (i >= 0) {
        if (i >= argv->n)
            return QN_RAISE(r->h, "Replacement index %lld out of range for positional args tuple", (long long)i);
        v = argv->positional[i];
    } else if (!argv->named || !qn__dict_get(argv->named, key, &v)) {
        return QN_RAISE(r->h, "format: no argument '%.60s'", key.s->data);
    }
    for (at = name; at < end && r->h->status == QN_OK;) {
        const bool attr = s->data[at] == '.';
        uint32_t to = ++at;
        while (to < end && (attr ? s->data[to] != '.' && s->data[to] != '[' : s->data[to] != ']')) to++;
        const qn_val part = qn__str_part(r->h, s, at, to);
        if (r->h->status != QN_OK) break;
        if (attr)
            v = qn__get_attr(r, v, part.s->data);
        else
            v = qn__get_item(r, v, qn__parse_i64(part.s->data, 0, INT64_MAX, &i) ? qn__int(i) : part);
        at = attr ? to : to + 1;
    }
    return v;
}

static uint32_t field_end(const qn_vstr *s, uint32_t at)
{
    for (int depth = 1; at < s->n; at++) {
        depth += (s->data[at] == '{') - (s->data[at] == '}');
        if (!depth) return at;
    }
    return s->n;
}

static qn_val format(qn_run *r, const qn_vstr *s, const qn_argv *argv, int *automatic, int depth)
{
    qn_vbuf b = {.h = r->h};
    if (depth > 2) return QN_RAISE(r->h, "Max string recursion exceeded");
    for (uint32_t at = 0; at < s->n && r->h->status == QN_OK;) {
        const char c = s->data[at];
        if (c != '{' && c != '}') {
            qn__buf_part(&b, s, at, at + 1);
            at++;
            continue;
        }
        if (at + 1 < s->n && s->data[at + 1] == c) {
            qn__buf_part(&b, s, at, at + 1);
            at += 2;
            continue;
        }
        if (c == '}') return QN_RAISE(r->h, "Single '}' encountered in format string");
        const uint32_t end = field_end(s, at + 1);
        if (end >= s->n) return QN_RAISE(r->h, "expected '}' before end of string");
        uint32_t name_end = at + 1;
        while (name_end < end && s->data[name_end] != '!' && s->data[name_end] != ':') name_end++;
        qn_val v = field_value(r, s, at + 1, name_end, argv, automatic);
        uint32_t spec_at = name_end;
        if (name_end < end && s->data[name_end] == '!') {
            const char how = name_end + 1 < end ? s->data[name_end + 1] : '\0';
            qn_vbuf repr = {.h = r->h};
            spec_at = name_end + 2;
            if (how != 's' && how != 'r' && how != 'a') return QN_RAISE(r->h, "Unknown conversion specifier");
            qn__val_print(&repr, v, how != 's');
            v = qn__buf_val(&repr);
        }
        if (spec_at < end && s->data[spec_at] == ':') spec_at++;
        if (r->h->status != QN_OK) break;
        qn_val spec_text = qn__str_part(r->h, s, spec_at, end);
        if (r->h->status == QN_OK && memchr(spec_text.s->data, '{', spec_text.s->n))
            spec_text = format(r, spec_text.s, argv, automatic, depth + 1);
        if (r->h->status == QN_OK) put_formatted(r, &b, v, spec_text.s);
        at = end + 1;
    }
    return qn__buf_val(&b);
}

qn_val qn__str_format(qn_run *r, const qn_vstr *s, const qn_argv *argv)
{
    int automatic = 0;
    return format(r, s, argv, &automatic, 1);
}
