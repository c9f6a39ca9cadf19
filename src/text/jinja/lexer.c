/* SPDX-License-Identifier: MIT */
/* src/text/jinja/lexer.c -- see lexer.h. Text is cut at {{ {% {#; a minus in a tag strips white space on its side, a
 * plus keeps it; otherwise a block's tag takes the spaces before it when it begins its line, and the newline behind
 * it. */
#include "text/jinja/lexer.h"
#include "base/str.h"
#include "text/utf8.h"

#include <math.h>

typedef struct lexer {
    qn_jinja *j;
    qn_jtokens *out;
    const char *s;
    uint32_t n, at;
    bool line_starting; /* what was read last ended with a newline */
} lexer;

qn_val qn__jinja_bad(qn_jinja *j, uint32_t at, const char *fmt, ...)
{
    char text[256];
    int line, column;
    va_list args;
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    qn__jinja_place(j, at, &line, &column);
    return qn__heap_fail(&j->heap, QN_STATUS_format, "template, line %d, column %d: %s", line, column, text);
}

static bool failed(const lexer *x) { return x->j->heap.status != QN_OK; }

static qn_jtoken *emit(lexer *x, qn_tok kind, uint32_t at, uint32_t n)
{
    qn_jtokens *t = x->out;
    if (failed(x)) return NULL;
    if (t->n == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 256;
        qn_jtoken *items = qn__heap_alloc(&x->j->heap, cap * sizeof *items);
        if (!items) return NULL;
        if (t->n) memcpy(items, t->items, t->n * sizeof *items);
        t->items = items;
        t->cap = cap;
    }
    t->items[t->n] = (qn_jtoken){.kind = kind, .at = at, .n = n};
    return &t->items[t->n++];
}

static void emit_data(lexer *x, uint32_t begin, uint32_t end)
{
    if (begin >= end) return;
    const qn_val v = qn__str_val(&x->j->heap, x->s + begin, end - begin, true);
    qn_jtoken *t = emit(x, QN_T_data, begin, end - begin);
    if (t) t->value = v;
}

/* The character before byte `at` is white space: its first byte; else `at`. */
static uint32_t space_before(const lexer *x, uint32_t begin, uint32_t at)
{
    uint32_t i = at, cp;
    if (i <= begin) return at;
    do i--;
    while (i > begin && ((unsigned char)x->s[i] & 0xC0) == 0x80);
    return qn__utf8_decode(x->s + i, at - i, &cp) && (qn__cp_is_space(cp) || (cp >= 0x1C && cp <= 0x1F)) ? i : at;
}

static uint32_t space_at(const lexer *x, uint32_t at)
{
    uint32_t cp;
    const int n = at < x->n ? qn__utf8_decode(x->s + at, x->n - at, &cp) : 0;
    return n && (qn__cp_is_space(cp) || (cp >= 0x1C && cp <= 0x1F)) ? (uint32_t)n : 0;
}

static void skip_spaces(lexer *x)
{
    for (uint32_t n; (n = space_at(x, x->at)) > 0;) x->at += n;
}

/* Text [begin, end) before a tag with that sign; a variable's tag is not stripped without one. */
static void data_before(lexer *x, uint32_t begin, uint32_t end, char sign, bool variable)
{
    uint32_t cut = end;
    if (sign == '-') {
        for (uint32_t i; (i = space_before(x, begin, cut)) < cut;) cut = i;
    } else if (sign != '+' && !variable) {
        uint32_t line = end;
        while (line > begin && x->s[line - 1] != '\n') line--;
        if (line > begin || x->line_starting) {
            uint32_t i = end, k;
            while (i > line && (k = space_before(x, line, i)) < i) i = k;
            if (i == line) cut = line;
        }
    }
    emit_data(x, begin, cut);
}

/* What follows the end of a block's tag or a comment, of which sign is the mark before it. */
static void after_block(lexer *x, char sign)
{
    if (sign == '-')
        skip_spaces(x);
    else if (sign != '+' && x->at < x->n && x->s[x->at] == '\n')
        x->at++;
    x->line_starting = x->at > 0 && x->s[x->at - 1] == '\n';
}

/* ---- inside a tag ----------------------------------------------------------------------------- */

static bool is_name_start(const char *s, uint32_t n)
{
    (void)n;
    const unsigned char c = (unsigned char)*s;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static uint32_t digits(const lexer *x, uint32_t at)
{
    while (at < x->n && (is_digit(x->s[at]) || (x->s[at] == '_' && at + 1 < x->n && is_digit(x->s[at + 1])))) at++;
    return at;
}

static void lex_number(lexer *x)
{
    char text[64];
    const uint32_t begin = x->at;
    uint32_t end = digits(x, begin);
    bool real = false;
    int base = 10;
    if (x->s[begin] == '0' && begin + 1 < x->n && strchr("xXoObB", x->s[begin + 1])) {
        const char kind = x->s[begin + 1] | 0x20;
        base = kind == 'x' ? 16 : kind == 'o' ? 8 : 2;
        for (end = begin + 2; end < x->n; end++) {
            const char c = x->s[end] | 0x20;
            if (!(is_digit(x->s[end]) || (base == 16 && c >= 'a' && c <= 'f') || x->s[end] == '_')) break;
        }
    } else {
        const bool element = begin > 0 && x->s[begin - 1] == '.'; /* list.0.1 */
        if (!element && end + 1 < x->n && x->s[end] == '.' && is_digit(x->s[end + 1])) {
            real = true;
            end = digits(x, end + 1);
        }
        if (!element && end + 1 < x->n && (x->s[end] | 0x20) == 'e') {
            uint32_t e = end + 1;
            if (x->s[e] == '+' || x->s[e] == '-') e++;
            if (e < x->n && is_digit(x->s[e])) {
                real = true;
                end = digits(x, e);
            }
        }
    }
    size_t k = 0;
    for (uint32_t i = base == 10 ? begin : begin + 2; i < end && k < sizeof text - 1; i++)
        if (x->s[i] != '_') text[k++] = x->s[i];
    text[k] = '\0';
    qn_jtoken *t = emit(x, real ? QN_T_float : QN_T_int, begin, end - begin);
    x->at = end;
    if (!t) return;
    double f = 0;
    int64_t v = 0;
    bool ok = k < sizeof text - 1 && k > 0;
    if (real) {
        ok = ok && qn__read_float(&x->j->heap, text, &f);
    } else {
        for (const char *p = text; *p && ok; p++) {
            const int digit = is_digit(*p) ? *p - '0' : (*p | 0x20) - 'a' + 10;
            ok = digit < base && !__builtin_mul_overflow(v, (int64_t)base, &v) && !__builtin_add_overflow(v, digit, &v);
        }
    }
    t->value = real ? qn__float(f) : qn__int(v);
    if (!ok) qn__jinja_bad(x->j, begin, "the number %.40s is out of range", text);
}

/* Python's escapes. Returns how many bytes of the source were read, 0 when it is no escape. */
static uint32_t unescape(const char *s, uint32_t n, uint32_t *cp)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *p = n && s[0] ? strchr(from, s[0]) : NULL;
    if (p) return *cp = (unsigned char)to[p - from], 1;
    if (n && s[0] >= '0' && s[0] <= '7') {
        uint32_t i = 0;
        for (*cp = 0; i < 3 && i < n && s[i] >= '0' && s[i] <= '7'; i++) *cp = *cp * 8 + (uint32_t)(s[i] - '0');
        return i;
    }
    const uint32_t width = !n ? 0 : s[0] == 'x' ? 2 : s[0] == 'u' ? 4 : s[0] == 'U' ? 8 : 0;
    if (!width || n < width + 1) return 0;
    *cp = 0;
    for (uint32_t i = 1; i <= width; i++) {
        const char c = s[i], l = c | 0x20;
        const int digit = is_digit(c) ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
        if (digit < 0 || *cp > 0x10FFFF) return 0;
        *cp = *cp << 4 | (uint32_t)digit;
    }
    return *cp > 0x10FFFF || (*cp >= 0xD800 && *cp < 0xE000) ? 0 : width + 1;
}

static void lex_string(lexer *x)
{
    const uint32_t begin = x->at;
    const char mark = x->s[x->at++];
    qn_vbuf b = {.h = &x->j->heap};
    for (;;) {
        const uint32_t from = x->at;
        while (x->at < x->n && x->s[x->at] != mark && x->s[x->at] != '\\') x->at++;
        qn__buf_add(&b, x->s + from, x->at - from, true);
        if (x->at >= x->n) {
            qn__jinja_bad(x->j, begin, "this string does not end");
            return;
        }
        if (x->s[x->at++] == mark) break;
        if (x->at < x->n && x->s[x->at] == '\n') { /* a line goes on */
            x->at++;
            continue;
        }
        uint32_t cp;
        char out[4];
        const uint32_t n = unescape(x->s + x->at, x->n - x->at, &cp);
        x->at += n;
        if (n)
            qn__buf_add(&b, out, (size_t)qn__utf8_encode(cp, out), true);
        else
            qn__buf_puts(&b, "\\");
    }
    const qn_val v = qn__buf_val(&b);
    qn_jtoken *t = emit(x, QN_T_string, begin, x->at - begin);
    if (t) t->value = v;
}

/* Up to the end of the tag: "}}" or "%}", where no bracket is open. */
static void lex_tag(lexer *x, char closing)
{
    static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
    char open[256];
    int depth = 0;
    const uint32_t begin = x->at - 2;
    while (!failed(x)) {
        skip_spaces(x);
        const uint32_t at = x->at, left = x->n - at;
        const char *s = x->s + at;
        if (left == 0) {
            qn__jinja_bad(x->j, begin, "this tag does not end");
            return;
        }
        const uint32_t sign = (*s == '-' || (*s == '+' && closing == '%')) ? 1 : 0;
        if (depth == 0 && left >= sign + 2 && s[sign] == closing && s[sign + 1] == '}') {
            emit(x, closing == '}' ? QN_T_variable_end : QN_T_block_end, at, sign + 2);
            x->at += sign + 2;
            if (closing == '%')
                after_block(x, sign ? *s : '\0');
            else {
                if (sign) skip_spaces(x);
                x->line_starting = x->s[x->at - 1] == '\n';
            }
            return;
        }
        if (is_name_start(s, left)) {
            uint32_t end = at;
            while (end < x->n && (is_name_start(x->s + end, x->n - end) || is_digit(x->s[end]))) end++;
            emit(x, QN_T_name, at, end - at);
            x->at = end;
        } else if (is_digit(*s)) {
            lex_number(x);
        } else if (*s == '"' || *s == '\'') {
            lex_string(x);
        } else {
            uint32_t n = strchr("+-/*%~[](){}><=.:|,;", *s) && *s ? 1 : 0;
            for (size_t i = 0; i < sizeof two / sizeof *two; i++)
                if (left >= 2 && memcmp(s, two[i], 2) == 0) n = 2;
            if (!n) {
                char quoted[24];
                qn__str_quote(quoted, sizeof quoted, s, qn__utf8_len(s, left));
                qn__jinja_bad(x->j, at, "unexpected character '%s'", quoted);
                return;
            }
            if (n == 1 && strchr("([{", *s)) {
                if (depth == (int)sizeof open) {
                    qn__jinja_bad(x->j, at, "brackets nested more than %d deep", (int)sizeof open);
                    return;
                }
                open[depth++] = *s == '(' ? ')' : *s == '[' ? ']' : '}';
            } else if (n == 1 && strchr(")]}", *s)) {
                if (depth == 0 || open[depth - 1] != *s) {
                    qn__jinja_bad(x->j, at, "unexpected '%c'", *s);
                    return;
                }
                depth--;
            }
            qn_jtoken *t = emit(x, QN_T_op, at, n);
            if (t) memcpy(t->op, s, n);
            x->at += n;
        }
    }
}

/* ---- between tags ----------------------------------------------------------------------------- */

/* The next "{{", "{%" or "{#" from `at` on; n when there is none. */
static uint32_t next_tag(const lexer *x, uint32_t at)
{
    for (; at + 1 < x->n; at++) {
        const char *hit = memchr(x->s + at, '{', x->n - at - 1);
        if (!hit) break;
        at = (uint32_t)(hit - x->s);
        if (x->s[at + 1] == '{' || x->s[at + 1] == '%' || x->s[at + 1] == '#') return at;
    }
    return x->n;
}

/* At "{%": "{%- word -%}" and nothing else: its length, and the signs; else 0. */
static uint32_t lone_word(const lexer *x, uint32_t at, const char *word, char *before, char *after)
{
    lexer y = *x;
    y.at = at + 2;
    *before = *after = '\0';
    if (y.at < y.n && (y.s[y.at] == '-' || y.s[y.at] == '+')) *before = y.s[y.at++];
    skip_spaces(&y);
    const size_t len = strlen(word);
    if (y.n - y.at < len || memcmp(y.s + y.at, word, len) != 0) return 0;
    y.at += (uint32_t)len;
    skip_spaces(&y);
    if (y.at < y.n && (y.s[y.at] == '-' || y.s[y.at] == '+')) *after = y.s[y.at++];
    if (y.n - y.at < 2 || y.s[y.at] != '%' || y.s[y.at + 1] != '}') return 0;
    return y.at + 2 - at;
}

static void lex_raw(lexer *x, uint32_t begin)
{
    char before, after;
    for (uint32_t at = x->at; at + 1 < x->n; at++) {
        if (x->s[at] != '{' || x->s[at + 1] != '%') continue;
        const uint32_t n = lone_word(x, at, "endraw", &before, &after);
        if (!n) continue;
        data_before(x, x->at, at, before, false);
        x->at = at + n;
        after_block(x, after);
        return;
    }
    qn__jinja_bad(x->j, begin, "raw without endraw");
}

void qn__jinja_lex(qn_jinja *j, qn_jtokens *out)
{
    lexer x = {.j = j, .out = out, .s = j->source, .n = (uint32_t)j->n, .line_starting = true};
    while (x.at < x.n && !failed(&x)) {
        const uint32_t begin = x.at, tag = next_tag(&x, begin);
        if (tag == x.n) {
            emit_data(&x, begin, x.n);
            break;
        }
        const char kind = x.s[tag + 1];
        char sign = tag + 2 < x.n && (x.s[tag + 2] == '-' || x.s[tag + 2] == '+') ? x.s[tag + 2] : '\0', after;
        const uint32_t raw = kind == '%' ? lone_word(&x, tag, "raw", &sign, &after) : 0;
        data_before(&x, begin, tag, sign, kind == '{');
        if (raw) {
            x.at = tag + raw;
            if (after == '-') skip_spaces(&x);
            x.line_starting = x.s[x.at - 1] == '\n';
            lex_raw(&x, tag);
            continue;
        }
        x.at = tag + 2 + (sign != '\0');
        if (kind == '#') {
            const char *end = x.n > x.at ? memmem(x.s + x.at, x.n - x.at, "#}", 2) : NULL;
            if (!end) {
                qn__jinja_bad(j, tag, "this comment does not end");
                break;
            }
            const uint32_t at = (uint32_t)(end - x.s);
            const char last = at > x.at ? x.s[at - 1] : '\0';
            x.at = at + 2;
            after_block(&x, last == '-' || last == '+' ? last : '\0');
            continue;
        }
        emit(&x, kind == '{' ? QN_T_variable_begin : QN_T_block_begin, tag, x.at - tag);
        x.line_starting = false;
        lex_tag(&x, kind == '{' ? '}' : '%');
    }
    emit(&x, QN_T_end, x.n, 0);
}
