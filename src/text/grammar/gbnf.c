/* SPDX-License-Identifier: MIT */
/* src/text/grammar/gbnf.c -- GBNF to automata, in one pass: what is parsed is built at once, from a state to a state. A
 * repetition copies what it repeats by parsing it again. */
#include "base/str.h"
#include "text/grammar/grammar.h"
#include "text/utf8.h"

#include <string.h>

#define MAX_NESTING 200    /* of brackets */
#define MAX_REPEATS 100000 /* in {m,n}; the number of states bounds them before */
#define MAX_SOURCE  ((size_t)1 << 20)

typedef struct range {
    uint32_t lo, hi; /* characters */
} range;

typedef struct parser {
    qn_grammar *g;
    const char *s;
    size_t n, at;
    int depth;
    int64_t steps; /* what repetitions parse again is work, too */
    range *ranges; /* of the set that is read; the length of the grammar bounds them */
    int32_t cap_ranges;
    qn_error *err;
    qn_status status;
} parser;

static qn_status bad(parser *p, size_t at, const char *fmt, ...) QN_PRINTF(3, 4);
static qn_status bad(parser *p, size_t at, const char *fmt, ...)
{
    char text[200];
    int line = 1, column = 1;
    va_list args;
    if (p->status != QN_OK) return p->status;
    for (size_t i = 0; i < at && i < p->n; i++) {
        column = p->s[i] == '\n' ? 1 : column + (((unsigned char)p->s[i] & 0xC0) != 0x80);
        line += p->s[i] == '\n';
    }
    va_start(args, fmt);
    qn__vformat(text, sizeof text, fmt, args);
    va_end(args);
    return p->status = QN_FAIL(p->err, format, "grammar, line %d, column %d: %s", line, column, text);
}

static bool going(const parser *p) { return p->status == QN_OK && !p->g->failed; }
static char peek(const parser *p) { return p->at < p->n ? p->s[p->at] : '\0'; }

/* White space and comments; newlines too where the rule may go on. */
static void skip(parser *p, bool newlines)
{
    while (p->at < p->n) {
        const char c = p->s[p->at];
        if (c == '#')
            while (p->at < p->n && p->s[p->at] != '\n') p->at++;
        else if (c == ' ' || c == '\t' || c == '\r' || (newlines && c == '\n'))
            p->at++;
        else
            break;
    }
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t word(const parser *p)
{
    size_t n = 0;
    while (p->at + n < p->n && is_word(p->s[p->at + n])) n++;
    return n;
}

/* Whether a rule's definition begins here: a word and ::= */
static bool at_definition(const parser *p)
{
    parser q = *p;
    q.at += word(p);
    if (q.at == p->at) return false;
    skip(&q, true);
    return q.n - q.at >= 3 && memcmp(q.s + q.at, "::=", 3) == 0;
}

static uint32_t hex(parser *p, int digits)
{
    uint32_t v = 0;
    for (int i = 0; i < digits; i++, p->at++) {
        const char c = peek(p), l = c | 0x20;
        const int d = c >= '0' && c <= '9' ? c - '0' : l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
        if (d < 0) {
            bad(p, p->at, "expected %d hexadecimal digits", digits);
            return 0;
        }
        v = v << 4 | (uint32_t)d;
    }
    return v;
}

/* One character of a literal or set, an escape replaced. */
static uint32_t character(parser *p)
{
    static const char from[] = "nrt\\\"[]-^'/", to[] = "\n\r\t\\\"[]-^'/";
    uint32_t cp = 0;
    if (peek(p) != '\\') {
        const int n = qn__utf8_decode(p->s + p->at, p->n - p->at, &cp);
        if (!n) bad(p, p->at, "this is not UTF-8");
        p->at += (size_t)(n ? n : 1);
        return cp;
    }
    const size_t begin = p->at++;
    const char c = peek(p);
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit) return p->at++, (uint32_t)(unsigned char)to[hit - from];
    const int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits) {
        bad(p, begin, "an escape that is not known");
        return 0;
    }
    p->at++;
    cp = hex(p, digits);
    if (cp > 0x10FFFF || (cp >= 0xD800 && cp < 0xE000)) bad(p, begin, "this is no character");
    return cp;
}

static void char_edge(parser *p, int32_t from, int32_t to, uint32_t lo, uint32_t hi)
{
    if (going(p)) qn__grammar_chars(p->g, from, to, lo, hi);
}

static void empty_edge(parser *p, int32_t from, int32_t to)
{
    if (going(p)) qn__grammar_edge(p->g, from, (qn_edge){.kind = QN_EDGE_empty, .to = to});
}

static void literal(parser *p, int32_t from, int32_t to)
{
    const size_t begin = p->at++;
    int32_t here = from;
    while (going(p) && peek(p) != '"') {
        if (p->at >= p->n) {
            bad(p, begin, "this text does not end");
            return;
        }
        const uint32_t cp = character(p);
        const int32_t next = qn__grammar_state(p->g);
        char_edge(p, here, next, cp, cp);
        here = next;
    }
    p->at++;
    empty_edge(p, here, to);
}

static void swap_ranges(range *a, range *b)
{
    const range c = *a;
    *a = *b;
    *b = c;
}

/* Of the heap r[n], largest first, all but r[at] stands right. */
static void sift(range *r, int32_t at, int32_t n)
{
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && r[child + 1].lo > r[child].lo) child++;
        if (r[child].lo <= r[at].lo) return;
        swap_ranges(&r[at], &r[child]);
    }
}

/* In order, and those that overlap made one: of ASCII at most 128 are left, of others the number of states bounds how
 * many. A heap sort: a set can have a million of them, the largest first. Returns how many are left. */
static int32_t in_order(range *r, int32_t n)
{
    int32_t kept = 0;
    for (int32_t i = n / 2; i-- > 0;) sift(r, i, n);
    for (int32_t i = n; i-- > 1;) {
        swap_ranges(&r[0], &r[i]);
        sift(r, 0, i);
    }
    for (int32_t i = 0; i < n; i++) {
        if (!kept || r[i].lo > r[kept - 1].hi)
            r[kept++] = r[i];
        else if (r[i].hi > r[kept - 1].hi)
            r[kept - 1].hi = r[i].hi;
    }
    return kept;
}

static void set(parser *p, int32_t from, int32_t to)
{
    int32_t n = 0;
    const size_t begin = p->at++;
    const bool negated = peek(p) == '^';
    if (negated) p->at++;
    while (going(p) && peek(p) != ']') {
        if (p->at >= p->n) {
            bad(p, begin, "this set does not end");
            return;
        }
        const size_t at = p->at;
        uint32_t lo = character(p), hi = lo;
        if (peek(p) == '-' && p->at + 1 < p->n && p->s[p->at + 1] != ']') {
            p->at++;
            hi = character(p);
            if (hi < lo) bad(p, at, "this range ends before it begins");
        }
        if (!qn__arena_room(&p->g->arena, &p->ranges, n, &p->cap_ranges, sizeof *p->ranges)) p->g->failed = true;
        if (going(p)) p->ranges[n++] = (range){lo, hi};
    }
    p->at++;
    if (!going(p)) return;
    p->steps += n / 8; /* a large set that is repeated is sorted again each time */
    n = in_order(p->ranges, n);
    uint32_t next = 0;
    for (int32_t i = 0; i < n && going(p); i++) {
        const range r = p->ranges[i];
        if (!negated) char_edge(p, from, to, r.lo, r.hi);
        if (negated && r.lo > next) char_edge(p, from, to, next, r.lo - 1);
        next = r.hi + 1;
    }
    if (negated && next <= 0x10FFFF) char_edge(p, from, to, next, 0x10FFFF);
}

/* A token as such: <its text>, <[its id]>; behind ! any other token. */
static void token(parser *p, int32_t from, int32_t to)
{
    const size_t begin = p->at;
    const bool negated = peek(p) == '!';
    if (negated) p->at++;
    if (peek(p) != '<') {
        bad(p, begin, "expected a token, !<..>");
        return;
    }
    const size_t open = p->at++;
    int64_t id = -1;
    const char *name = p->s + open;
    if (peek(p) == '[') {
        name = NULL;
        for (p->at++; peek(p) >= '0' && peek(p) <= '9' && id < (1 << 24); p->at++)
            id = 10 * (id < 0 ? 0 : id) + (peek(p) - '0');
        if (id < 0 || id >= 1 << 24 || peek(p) != ']') bad(p, begin, "expected the number of a token, <[123]>");
        p->at++;
    } else {
        while (p->at < p->n && peek(p) != '>' && peek(p) != '\n') p->at++;
    }
    if (going(p) && peek(p) != '>') bad(p, begin, "this token does not end");
    if (going(p) && name && p->at == open + 1) bad(p, begin, "a token without a name");
    p->at++;
    if (!going(p)) return;
    const int32_t at = qn__grammar_token(p->g, name, p->at - open, (qn_token)id);
    const qn_edge edge = {.kind = negated ? QN_EDGE_not_token : QN_EDGE_token, .to = to, .rule = at};
    if (going(p)) qn__grammar_edge(p->g, from, edge);
}

static void alternatives(parser *p, int32_t from, int32_t to, bool nested);

/* One symbol, without what repeats it. */
static void symbol(parser *p, int32_t from, int32_t to)
{
    const size_t at = p->at, n = word(p);
    if (++p->steps > 4 * QN_GRAMMAR_MAX_STATES) p->g->failed = true;
    if (!going(p)) return;
    switch (peek(p)) {
    case '"': literal(p, from, to); return;
    case '[': set(p, from, to); return;
    case '<':
    case '!': token(p, from, to); return;
    case '.':
        p->at++;
        char_edge(p, from, to, 0, 0x10FFFF);
        return;
    case '(':
        if (++p->depth > MAX_NESTING) bad(p, at, "brackets nested more than %d deep", MAX_NESTING);
        p->at++;
        skip(p, true);
        alternatives(p, from, to, true);
        if (going(p) && peek(p) != ')') bad(p, at, "this bracket does not end");
        p->at++;
        p->depth--;
        return;
    default: break;
    }
    if (!n) {
        char quoted[24];
        const size_t left = p->n - p->at;
        if (!left)
            bad(p, at, "the grammar ends, expected a symbol");
        else
            bad(p, at, "found '%s', expected a symbol",
                qn__str_quote(quoted, sizeof quoted, p->s + p->at, qn__utf8_len(p->s + p->at, left)));
        return;
    }
    const int32_t rule = qn__grammar_rule(p->g, p->s + at, n, (uint32_t)at);
    p->at += n;
    if (going(p)) qn__grammar_edge(p->g, from, (qn_edge){.kind = QN_EDGE_call, .to = to, .rule = rule});
}

static int64_t number(parser *p)
{
    int64_t v = 0;
    const size_t begin = p->at;
    while (peek(p) >= '0' && peek(p) <= '9') {
        v = 10 * v + (p->s[p->at++] - '0');
        if (v > MAX_REPEATS) {
            bad(p, begin, "more than %d repetitions", MAX_REPEATS);
            return 0;
        }
    }
    return p->at == begin ? -1 : v;
}

/* What stands behind a symbol: * + ? {m,n}. max -1: no end. False when there is nothing. */
static bool repetition(parser *p, int64_t *min, int64_t *max)
{
    const char c = peek(p);
    const size_t at = p->at;
    if (c == '*' || c == '+' || c == '?') {
        p->at++;
        *min = c == '+';
        *max = c == '?' ? 1 : -1;
        return true;
    }
    if (c != '{') return false;
    p->at++;
    skip(p, true);
    *min = number(p);
    skip(p, true);
    *max = *min;
    if (peek(p) == ',') {
        p->at++;
        skip(p, true);
        *max = number(p);
        skip(p, true);
    } else if (*min < 0) {
        bad(p, at, "expected {m}, {m,}, {,n} or {m,n}");
    }
    if (*min < 0) *min = 0;
    if (going(p) && peek(p) != '}') bad(p, at, "expected {m}, {m,}, {,n} or {m,n}");
    if (*max >= 0 && *max < *min) bad(p, at, "at most %lld of at least %lld", (long long)*max, (long long)*min);
    p->at++;
    return true;
}

static bool repeats(parser *p)
{
    const char c = peek(p);
    return going(p) && (c == '*' || c == '+' || c == '?' || c == '{');
}

static void part(parser *p, int32_t from, int32_t to, int n_repetitions);

/* A repetition, of what is made already between `from` and `first`: a symbol that begins at `begin` and so many
 * repetitions of it before this one. */
static void again(parser *p, size_t begin, int n_before, int32_t from, int32_t first, int32_t to)
{
    int64_t min = 1, max = 1;
    repetition(p, &min, &max);
    skip(p, p->depth > 0);
    if (!going(p)) return;
    const size_t end = p->at;
    int32_t here = first; /* behind the first copy */
    int64_t done = 1;
    if (min == 0) empty_edge(p, from, to);
    if (max == 0) return; /* the copy leads nowhere */
    for (; done < min && going(p); done++) {
        const int32_t next = qn__grammar_state(p->g);
        p->at = begin;
        part(p, here, next, n_before);
        here = next;
    }
    empty_edge(p, here, to);
    if (max < 0) { /* once more and again */
        const int32_t loop = qn__grammar_state(p->g), back = qn__grammar_state(p->g);
        empty_edge(p, here, loop);
        p->at = begin;
        part(p, loop, back, n_before);
        empty_edge(p, back, to);
        empty_edge(p, back, loop);
    }
    for (; done < max && going(p); done++) {
        const int32_t next = qn__grammar_state(p->g);
        p->at = begin;
        part(p, here, next, n_before);
        empty_edge(p, next, to);
        here = next;
    }
    p->at = end;
}

/* A symbol and what repeats it, so many times or (-1) as often as there is one: "a"?* is ("a"?)*. */
static void part(parser *p, int32_t from, int32_t to, int n_repetitions)
{
    const size_t begin = p->at;
    int32_t here = qn__grammar_state(p->g);
    symbol(p, from, here);
    skip(p, p->depth > 0);
    for (int n = 0; n != n_repetitions && repeats(p); n++) {
        const int32_t next = qn__grammar_state(p->g);
        again(p, begin, n, from, here, next);
        here = next;
    }
    if (going(p)) empty_edge(p, here, to);
}

static void alternatives(parser *p, int32_t from, int32_t to, bool nested)
{
    for (bool more = true; more && going(p);) {
        int32_t here = qn__grammar_state(p->g);
        empty_edge(p, from, here);
        for (;;) {
            skip(p, nested);
            const char c = peek(p);
            if (!going(p) || c == '|' || c == ')' || c == '\0' || (c == '\n' && !nested)) break;
            const int32_t next = qn__grammar_state(p->g);
            part(p, here, next, -1);
            here = next;
        }
        empty_edge(p, here, to);
        if (!nested) { /* a line that begins with | goes on with the rule */
            parser q = *p;
            skip(&q, true);
            if (peek(&q) == '|') p->at = q.at;
        }
        more = peek(p) == '|';
        if (more) p->at++;
        if (more) skip(p, true);
    }
}

static void rule(parser *p)
{
    const size_t at = p->at, n = word(p);
    if (!at_definition(p)) {
        bad(p, at, "expected a rule, name ::= ..");
        return;
    }
    const int32_t r = qn__grammar_rule(p->g, p->s + at, n, (uint32_t)at);
    p->at += n;
    skip(p, true);
    p->at += 3;
    skip(p, true);
    if (!going(p)) return;
    if (p->g->rules[r].begin >= 0) {
        bad(p, at, "rule \"%.*s\" is defined twice", (int)(n < 60 ? n : 60), p->s + at);
        return;
    }
    const int32_t begin = qn__grammar_state(p->g), end = qn__grammar_state(p->g);
    p->g->rules[r].begin = begin;
    p->g->rules[r].end = end;
    alternatives(p, begin, end, false);
    skip(p, false);
    if (going(p) && peek(p) != '\n' && p->at < p->n) bad(p, p->at, "found '%c', expected the end of the rule", peek(p));
    skip(p, true);
}

qn_status qn__grammar_add_gbnf(qn_grammar *g, const char *gbnf, qn_error *err)
{
    parser parsing = {.g = g, .s = gbnf, .n = strlen(gbnf), .err = err}, *p = &parsing;
    const size_t valid = qn__utf8_valid_prefix(p->s, p->n);
    if (p->n > MAX_SOURCE)
        return QN_FAIL(p->err, limit, "a grammar of %zu bytes; at most %zu are read", p->n, MAX_SOURCE);
    if (valid < p->n) return bad(p, valid, "this is not UTF-8");
    skip(p, true);
    while (going(p) && p->at < p->n) rule(p);
    if (p->status != QN_OK) return p->status;
    if (p->steps > 4 * QN_GRAMMAR_MAX_STATES)
        return QN_FAIL(err, limit, "the grammar has more than %d states: repetitions are too many",
                       QN_GRAMMAR_MAX_STATES);
    return qn__grammar_failure(g, err);
}

qn_status qn__grammar_complete(qn_grammar *g, const char *root, const char *gbnf, qn_error *err)
{
    parser place = {.g = g, .s = gbnf ? gbnf : "", .n = gbnf ? strlen(gbnf) : 0, .err = err}, *p = &place;
    for (int32_t r = 0; r < g->n_rules; r++)
        if (g->rules[r].begin < 0) return bad(p, g->rules[r].at, "rule \"%.60s\" is not defined", g->rules[r].name);
    const int32_t n = g->n_rules;
    g->root = qn__grammar_rule(g, root, strlen(root), 0);
    if (g->root == n || g->root < 0) return QN_FAIL(err, format, "grammar: there is no rule \"%.60s\"", root);
    int32_t cycle;
    QN_TRY(qn__grammar_analyse(g, &cycle, err));
    if (cycle >= 0)
        return bad(p, g->rules[cycle].at, "rule \"%.60s\" begins with itself; put what repeats behind something else",
                   g->rules[cycle].name);
    return QN_OK;
}

qn_status qn_grammar_create(const char *gbnf, const char *root, qn_grammar **out, qn_error *err)
{
    qn_grammar *g = qn__grammar_new(err);
    if (!g) return QN_STATUS_nomem;
    qn_status status = qn__grammar_add_gbnf(g, gbnf, err);
    if (status == QN_OK) status = qn__grammar_complete(g, root ? root : "root", gbnf, err);
    if (status == QN_OK)
        *out = g;
    else
        qn_grammar_destroy(g);
    return status;
}
