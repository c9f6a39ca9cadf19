/* SPDX-License-Identifier: MIT */
/* src/text/chat/literal.c -- a pushdown automaton over symbols: what it has read is valid JSON so far, or bad. */
#include "text/chat/literal.h"

#include "text/utf8.h"

enum { VALUE, STRING, ESCAPE, HEX, NUMBER, WORD, KEY, BARE_KEY, COLON, NEXT, BEGIN, DONE };
#define CALL '\x80' /* the bracket of a call, whose elements have keys; no byte of ASCII, so no input is it */

void qn__literal_init(qn_literal *l, qn_literal_style style, bool call)
{
    *l = (qn_literal){.style = style};
    if (!call) return;
    l->stack[l->depth++] = CALL;
    l->phase = BEGIN;
    l->fresh = true;
}

void qn__put_escaped(qn_str *out, unsigned char c)
{
    static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    if (c >= 0x20 && c != '"' && c != '\\') {
        qn__str_putc(out, (char)c);
        return;
    }
    for (const char *p = named; *p; p += 2)
        if (c == (unsigned char)*p) {
            qn__str_putc(out, '\\');
            qn__str_putc(out, p[1]);
            return;
        }
    qn__str_printf(out, "\\u%04x", c);
}

/* ---- numbers and words --------------------------------------------------------------------------- */

/* States of -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?; the next one, or -1. */
enum { N_SIGN, N_FIRST, N_ZERO, N_WHOLE, N_POINT, N_FRACTION, N_E, N_E_SIGN, N_EXPONENT };
static int number_step(int state, int c)
{
    const bool digit = c >= '0' && c <= '9', e = c == 'e' || c == 'E';
    switch (state) {
    case N_SIGN:
        if (c == '-') return N_FIRST;
        /* fall through */
    case N_FIRST: return c == '0' ? N_ZERO : digit ? N_WHOLE : -1;
    case N_WHOLE:
        if (digit) return N_WHOLE;
        /* fall through */
    case N_ZERO: return c == '.' ? N_POINT : e ? N_E : -1;
    case N_POINT: return digit ? N_FRACTION : -1;
    case N_FRACTION: return digit ? N_FRACTION : e ? N_E : -1;
    case N_E:
        if (c == '+' || c == '-') return N_E_SIGN;
        /* fall through */
    default: return digit ? N_EXPONENT : -1;
    }
}
static bool number_ends(int state)
{
    return state == N_ZERO || state == N_WHOLE || state == N_FRACTION || state == N_EXPONENT;
}

static const char *word_value(const qn_literal *l)
{
    static const char *const words[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < (l->style == QN_LITERAL_json ? 3 : sizeof words / sizeof *words); i++)
        if (strcmp(l->word, words[i][0]) == 0) return words[i][1];
    return NULL;
}

static bool is_letter(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_name(int c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c >= 0x80; }

/* ---- brackets -------------------------------------------------------------------------------------- */

static char top(const qn_literal *l) { return l->depth ? l->stack[l->depth - 1] : '\0'; }
static bool has_keys(const qn_literal *l) { return top(l) == '}' || top(l) == CALL; }

static void after_value(qn_literal *l) { l->phase = l->depth ? NEXT : DONE; }

static bool open_bracket(qn_literal *l, char close, qn_str *out)
{
    if (l->depth == QN_LITERAL_MAX_DEPTH) return false;
    l->stack[l->depth++] = close;
    qn__str_putc(out, close == '}' ? '{' : '[');
    l->phase = close == '}' ? KEY : VALUE;
    l->fresh = true;
    return true;
}

static bool close_bracket(qn_literal *l, char c, qn_str *out)
{
    if (top(l) != c && !(top(l) == CALL && c == ')')) return false;
    qn__str_putc(out, has_keys(l) ? '}' : ']');
    l->depth--;
    l->fresh = false;
    after_value(l);
    return true;
}

/* ---- strings ----------------------------------------------------------------------------------------- */

static void begin_string(qn_literal *l, char quote, bool is_key, qn_str *out)
{
    l->quote_char = quote;
    l->is_key = is_key;
    l->raw = l->raw_strings && l->depth == 1 && !is_key;
    l->phase = STRING;
    qn__str_putc(out, '"');
}

static void end_string(qn_literal *l, qn_str *out)
{
    qn__str_putc(out, '"');
    if (l->is_key)
        l->phase = COLON;
    else
        after_value(l);
}

static void put_code(qn_literal *l, qn_str *out)
{
    char text[4];
    if (l->code >= 0xD800 && l->code < 0xDC00) { /* the first half of a pair, as JSON writes it */
        if (l->high) qn__str_puts(out, QN_UTF8_REPLACEMENT);
        l->high = l->code;
        return;
    }
    if (l->high && l->code >= 0xDC00 && l->code < 0xE000)
        l->code = 0x10000 + ((l->high - 0xD800) << 10) + (l->code - 0xDC00);
    l->high = 0;
    if (l->code > 0x10FFFF || (l->code >= 0xD800 && l->code < 0xE000)) l->code = 0xFFFD;
    const int n = qn__utf8_encode(l->code, text);
    for (int i = 0; i < n; i++) qn__put_escaped(out, (unsigned char)text[i]);
}

/* Behind a backslash; false where it is none that the style knows. */
static bool escape(qn_literal *l, int c, qn_str *out)
{
    static const char from[] = "\"\\/bfnrt", python[] = "abfnrtv\\'\"/", to[] = "\a\b\f\n\r\t\v\\'\"/";
    const char *p = c && c < 0x80 ? strchr(python, c) : NULL;
    l->phase = STRING;
    if (l->style == QN_LITERAL_json) {
        if (c != 'u' && (c >= 0x80 || !c || !strchr(from, c))) return false;
        qn__str_putc(out, '\\');
        qn__str_putc(out, (char)c);
        if (c != 'u') return true;
        l->phase = HEX;
        l->escape = 4;
        return true;
    }
    if (c == 'u' || c == 'x' || c == 'U') {
        l->phase = HEX;
        l->escape = c == 'u' ? 4 : c == 'x' ? 2 : 8;
        l->code = 0;
    } else if (p) {
        qn__put_escaped(out, (unsigned char)to[p - python]);
    } else if (c != '\n') { /* one that Python does not know stays */
        qn__put_escaped(out, '\\');
        qn__put_escaped(out, (unsigned char)c);
    }
    return true;
}

static bool hex(qn_literal *l, int c, qn_str *out)
{
    const int low = c | 0x20, v = c >= '0' && c <= '9' ? c - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
    if (v < 0) return false;
    l->escape--;
    if (!l->escape) l->phase = STRING;
    if (l->style == QN_LITERAL_json) {
        qn__str_putc(out, (char)c);
        return true;
    }
    l->code = l->code << 4 | (uint32_t)v;
    if (!l->escape) put_code(l, out);
    return true;
}

static size_t spaces(const qn_sym *w, size_t n, size_t at)
{
    while (at < n && qn__sym_is_space(w[at])) at++;
    return at;
}

/* Whether the quote at w[0] ends an argument that is not escaped: what follows is another argument, or the end of the
 * call. 0 no, 1 yes, -1 it is not known yet. */
static int ends_raw(const qn_sym *w, size_t n, bool end)
{
    enum { FAR = 256 };
    const int unknown = end ? 0 : -1;
    if (n > FAR) n = FAR;
    size_t at = spaces(w, n, 1);
    if (at == n) return n == FAR ? 0 : unknown;
    const bool last = w[at] == ')';
    if (!last && w[at] != ',') return 0;
    at = spaces(w, n, at + 1);
    if (at == n) return last && end ? 1 : n == FAR ? 0 : unknown;
    if (last && w[at] == ']') return 1;
    if (last && w[at] != ',') return 0;
    if (last) at = spaces(w, n, at + 1);
    const size_t begin = at;
    while (at < n && w[at] < 0x100 && is_name(w[at])) at++;
    if (at == n) return n == FAR ? 0 : unknown;
    return at > begin && w[at] == (last ? '(' : '=');
}

/* One step within a string; symbols used, 0: more are needed. */
static size_t in_string(qn_literal *l, const qn_sym *w, size_t n, bool end, qn_str *out)
{
    const unsigned char c = (unsigned char)w[0];
    size_t len;
    if (!l->quote_char) {
        const qn_match m = qn__mark_match(l->quote, w, n, end, "", 0, &len, NULL);
        if (m == QN_PART_MATCH) return 0;
        if (m == QN_WHOLE_MATCH) return end_string(l, out), len;
        qn__put_escaped(out, c);
        return 1;
    }
    if (w[0] == (qn_sym)l->quote_char) {
        const int ends = l->raw ? ends_raw(w, n, end) : 1;
        if (ends < 0) return 0;
        if (ends) return end_string(l, out), 1;
        qn__put_escaped(out, c);
        return 1;
    }
    if (l->raw && c == '\\' && (n == 1 ? !end : w[1] == (qn_sym)l->quote_char)) {
        if (n == 1) return 0;
        const int ends = ends_raw(w + 1, n - 1, end);
        if (ends < 0) return 0;
        qn__put_escaped(out, ends ? '\\' : (unsigned char)w[1]);
        return ends ? 1 : 2;
    }
    if (c == '\\' && !l->raw) {
        l->phase = ESCAPE;
        return 1;
    }
    if (l->style == QN_LITERAL_json && c >= 0x20)
        qn__str_putc(out, (char)c);
    else
        qn__put_escaped(out, c);
    return 1;
}

/* ---- between values -------------------------------------------------------------------------------------- */

/* A comma that nothing follows is good Python: it is written with what does. JSON's is written at once, so that its
 * white space stays where it was. */
static void put_comma(qn_literal *l, qn_str *out)
{
    if (l->depth && !l->fresh && l->style != QN_LITERAL_json && (l->phase == KEY || !has_keys(l)))
        qn__str_puts(out, ", ");
    l->fresh = false;
}

static bool begin_value(qn_literal *l, qn_sym s, qn_str *out)
{
    if (l->phase == VALUE) put_comma(l, out);
    if (s == '{' || s == '[') return open_bracket(l, s == '{' ? '}' : ']', out);
    if (s == '(' && l->style == QN_LITERAL_python) return open_bracket(l, ')', out);
    if (s == '"' || (s == '\'' && l->style != QN_LITERAL_json)) return begin_string(l, (char)s, false, out), true;
    if (s < 0x80 && is_letter(s)) {
        l->phase = WORD;
        l->n_word = 1;
        l->word[0] = (char)s;
        l->word[1] = '\0';
        return true;
    }
    l->number = s < 0x80 ? number_step(N_SIGN, s) : -1;
    if (l->number < 0) return false;
    qn__str_putc(out, (char)s);
    l->phase = NUMBER;
    return true;
}

static bool begin_key(qn_literal *l, qn_sym s, qn_str *out)
{
    put_comma(l, out);
    if (top(l) != CALL && (s == '"' || (s == '\'' && l->style != QN_LITERAL_json)))
        return begin_string(l, (char)s, true, out), true;
    if ((top(l) != CALL && l->style != QN_LITERAL_loose) || s >= 0x100 || !is_name(s)) return false;
    l->phase = BARE_KEY;
    qn__str_putc(out, '"');
    qn__put_escaped(out, (unsigned char)s);
    return true;
}

/* A number or word that ends here. */
static bool end_scalar(qn_literal *l, qn_str *out)
{
    const char *value = l->phase == WORD ? word_value(l) : NULL;
    if (l->phase == WORD ? !value : !number_ends(l->number)) return false;
    if (value) qn__str_puts(out, value);
    after_value(l);
    return true;
}

/* One step outside of strings: whether that symbol may come; *step 0: it is still to be read. */
static bool outside(qn_literal *l, qn_sym s, size_t *step, qn_str *out)
{
    const bool json = l->style == QN_LITERAL_json;
    const char c = s < 0x80 ? (char)s : '\0';
    int next;
    switch (l->phase) {
    case NUMBER:
        next = c ? number_step(l->number, c) : -1;
        *step = next >= 0;
        if (next < 0) return end_scalar(l, out);
        l->number = next;
        qn__str_putc(out, c);
        return true;
    case WORD:
        *step = c && is_letter(c) && l->n_word + 1 < (int)sizeof l->word;
        if (!*step) return end_scalar(l, out);
        l->word[l->n_word++] = c;
        l->word[l->n_word] = '\0';
        return true;
    case BARE_KEY:
        *step = s < 0x100 && is_name(s);
        if (*step) return qn__put_escaped(out, (unsigned char)s), true;
        qn__str_putc(out, '"');
        l->phase = COLON;
        return true;
    }
    if (qn__sym_is_space(s)) {
        if (json && l->depth) qn__str_putc(out, c == '\v' || c == '\f' ? ' ' : c); /* JSON knows four of them */
        return true;
    }
    switch (l->phase) {
    case KEY:
    case VALUE: /* an empty bracket; Python has a comma before the end of others, too */
        if (l->depth && (l->fresh || !json) && (l->phase == KEY || !has_keys(l)) && close_bracket(l, c, out))
            return true;
        return l->phase == KEY ? begin_key(l, s, out) : begin_value(l, s, out);
    case COLON:
        if (c != (top(l) == CALL ? '=' : ':')) return false;
        qn__str_puts(out, json ? ":" : ": ");
        l->phase = VALUE;
        return true;
    case NEXT:
        if (c != ',') return close_bracket(l, c, out);
        if (json) qn__str_putc(out, ',');
        l->phase = has_keys(l) ? KEY : VALUE;
        return true;
    default: /* BEGIN: the parenthesis of a call */
        qn__str_putc(out, '{');
        l->phase = KEY;
        return c == '(';
    }
}

/* A mark that begins a string; true: it took *step symbols, 0 of them where more must come first. */
static bool marked_string(qn_literal *l, const qn_sym *w, size_t n, bool end, size_t *step, qn_str *out)
{
    if (!l->quote || !l->quote->n || (l->phase != VALUE && l->phase != KEY)) return false;
    *step = 0;
    const qn_match m = qn__mark_match(l->quote, w, n, end, "", 0, step, NULL);
    if (m == QN_NO_MATCH) return false;
    if (m == QN_PART_MATCH) return true;
    put_comma(l, out);
    begin_string(l, '\0', l->phase == KEY, out);
    return true;
}

qn_literal_result qn__literal_read(qn_literal *l, const qn_sym *w, size_t n, bool end, size_t *used, qn_str *out)
{
    bool good = true;
    *used = 0;
    while (*used < n && good && l->phase != DONE) {
        const qn_sym *here = w + *used;
        size_t step = 1;
        bool waits = false;
        if (l->phase == STRING) {
            step = in_string(l, here, n - *used, end, out);
            waits = !step;
        } else if (l->phase == ESCAPE) {
            good = escape(l, *here & 0xFF, out);
        } else if (l->phase == HEX) {
            good = hex(l, *here & 0xFF, out);
        } else if (marked_string(l, here, n - *used, end, &step, out)) {
            waits = !step;
        } else {
            step = 1;
            good = outside(l, *here, &step, out);
        }
        if (waits) break;
        *used += step;
    }
    if (end && *used == n && (l->phase == NUMBER || l->phase == WORD)) good = end_scalar(l, out);
    return !good ? QN_LITERAL_bad : l->phase == DONE ? QN_LITERAL_done : QN_LITERAL_more;
}
