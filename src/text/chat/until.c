/* SPDX-License-Identifier: MIT */
/* src/text/chat/until.c -- rules for literal text and for any text up to a mark. */
#include "text/chat/constrain.h"

#include "text/chat/derive.h"
#include "text/utf8.h"

/* The token that stands at s, of those that marks are made of; QN_TOKEN_NONE: plain text does. */
static qn_token token_at(const qn_constrain *c, const char *s, size_t n, size_t *len)
{
    qn_token best = QN_TOKEN_NONE;
    *len = 0;
    for (size_t i = 0; i < c->reader->n_mark_tokens; i++) {
        size_t m;
        const char *piece = qn_tokenizer_piece(c->tok, c->reader->mark_tokens[i], &m);
        if (m <= *len || m > n || memcmp(s, piece, m) != 0) continue;
        best = c->reader->mark_tokens[i];
        *len = m;
    }
    return best;
}

qn_token qn__mark_token(const qn_constrain *c, const char *s, size_t n)
{
    size_t len;
    const qn_token token = token_at(c, s, n, &len);
    return len == n ? token : QN_TOKEN_NONE;
}

static void put_char(qn_constrain *c, char byte)
{
    if (byte == '"' || byte == '\\')
        PUT(c, "\\%c", byte);
    else if (byte == '\n')
        PUT(c, "\\n");
    else if ((unsigned char)byte < 0x20)
        PUT(c, "\\x%02x", (unsigned char)byte);
    else
        qn__str_putc(&c->text, byte);
}

/* Where a wildcard stands at s: an id of a call, or digits that count calls. Its length in the text. */
static size_t wildcard(const char *s, size_t n, size_t at, bool digits, const char **rule)
{
    static const char before[] = "id\": \"";
    size_t len = 0;
    *rule = "call-id";
    if (n - at >= strlen(QN_PROBE_ID) && memcmp(s + at, QN_PROBE_ID, strlen(QN_PROBE_ID)) == 0)
        return strlen(QN_PROBE_ID);
    if (at >= sizeof before - 1 && memcmp(s + at - (sizeof before - 1), before, sizeof before - 1) == 0) {
        while (at + len < n && s[at + len] != '"') len++;
        return len;
    }
    *rule = "call-number";
    while (digits && at + len < n && s[at + len] >= '0' && s[at + len] <= '9') len++;
    return len;
}

void qn__put_literal(qn_constrain *c, const char *s, size_t n, bool digits)
{
    bool open = false;
    for (size_t at = 0; at < n;) {
        size_t len;
        const char *rule;
        const qn_token token = token_at(c, s + at, n - at, &len);
        const size_t wild = token == QN_TOKEN_NONE ? wildcard(s, n, at, digits, &rule) : 0;
        if ((token != QN_TOKEN_NONE || wild) && open) {
            PUT(c, "\" ");
            open = false;
        }
        if (token != QN_TOKEN_NONE) {
            PUT(c, "<[%d]> ", token);
            at += len;
        } else if (wild) {
            PUT(c, "%s ", rule);
            at += wild;
        } else {
            if (!open) PUT(c, "\"");
            open = true;
            put_char(c, s[at++]);
        }
    }
    if (open) PUT(c, "\" ");
}

void qn__put_mark(qn_constrain *c, qn_mark_id id)
{
    const qn_mark *m = &c->found->marks[id];
    if (m->n_text) qn__put_literal(c, m->text, (size_t)m->n_text, c->found->digits && id == QN_MARK_name_end);
}

/* ---- any text up to a text ------------------------------------------------------------------------------ */

enum { MAX_END = 64 };

/* After matching `state` characters of the end, and then cp: how many match now. */
static int next_state(const uint32_t *end, int state, uint32_t cp)
{
    for (int len = state + 1; len > 0; len--) { /* the longest beginning of `end` that the text now ends with */
        if (end[len - 1] != cp) continue;
        bool good = true;
        for (int i = 0; i < len - 1 && good; i++) good = end[i] == end[state - (len - 1) + i];
        if (good) return len;
    }
    return 0;
}

/* Characters of two texts, ascending and each once. */
static int distinct(const uint32_t *a, int n_a, const uint32_t *b, int n_b, uint32_t sorted[2 * MAX_END])
{
    int m = 0;
    for (int k = 0; k < n_a + n_b; k++) {
        const uint32_t cp = k < n_a ? a[k] : b[k - n_a];
        int at = 0;
        while (at < m && sorted[at] < cp) at++;
        if (at < m && sorted[at] == cp) continue;
        memmove(sorted + at + 1, sorted + at, (size_t)(m - at) * sizeof *sorted);
        sorted[at] = cp;
        m++;
    }
    return m;
}

/* Edges for all characters that text has but those. */
static void others(qn_grammar *g, int32_t from, int32_t to, const uint32_t *sorted, int m)
{
    uint32_t next = 0x20;
    for (int k = 0; k < m; k++) {
        if (sorted[k] > next) qn__grammar_chars(g, from, to, next, sorted[k] - 1);
        if (sorted[k] >= next) next = sorted[k] + 1;
    }
    qn__grammar_chars(g, from, to, next, 0x10FFFF);
    for (const char *p = "\t\n\r"; *p; p++) {
        bool own = false;
        for (int k = 0; k < m; k++) own |= sorted[k] == (uint32_t)*p;
        if (!own) qn__grammar_chars(g, from, to, (uint32_t)*p, (uint32_t)*p);
    }
}

/* Edges for all characters: those of the end lead on, all others back to the beginning. */
static void build(qn_constrain *c, int32_t rule, const uint32_t *end, int n, bool whole, bool ends)
{
    int32_t states[MAX_END + 1];
    uint32_t sorted[2 * MAX_END];
    const int m = distinct(end, n, NULL, 0, sorted);
    qn_grammar *g = c->g;
    for (int i = 0; i <= n; i++) states[i] = qn__grammar_state(g);
    const int32_t last = qn__grammar_state(g);
    if (g->failed) return;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < m; k++) {
            const int to = next_state(end, i, sorted[k]);
            if (to < n || whole) qn__grammar_chars(g, states[i], to == n ? last : states[to], sorted[k], sorted[k]);
        }
        others(g, states[i], states[0], sorted, m);
        if (ends) qn__grammar_edge(g, states[i], (qn_edge){.kind = QN_EDGE_empty, .to = last});
    }
    g->rules[rule].begin = states[0];
    g->rules[rule].end = last;
}

static int characters(qn_slice s, uint32_t cps[MAX_END])
{
    int m = 0;
    for (size_t at = 0; at < s.n && m < MAX_END; m++) {
        const int len = qn__utf8_decode(s.s + at, s.n - at, &cps[m]);
        at += (size_t)(len ? len : 1);
    }
    return m;
}

/* A rule "tN", and a reference to it; -1 after a failure. */
static int32_t text_rule(qn_constrain *c)
{
    const int number = qn__constrain_rule(c);
    qn_str s = {0};
    PUT(c, "t%d ", number);
    qn__str_printf(&s, "t%d", number);
    const int32_t rule = s.failed ? -1 : qn__grammar_rule(c->g, s.data, s.len, 0);
    qn__str_deinit(&s);
    if (rule < 0) qn__constrain_fail(c, QN_STATUS_nomem, "no memory");
    return rule;
}

static void put_text_rule(qn_constrain *c, const char *end, size_t n, bool whole, bool ends)
{
    uint32_t cps[MAX_END];
    const int m = characters((qn_slice){end, n}, cps);
    const int32_t rule = text_rule(c);
    if (rule >= 0) build(c, rule, cps, m, whole, ends);
}

/* A state for each pair of how many characters of one and of the other the text ends with. */
void qn__put_without(qn_constrain *c, qn_slice one, qn_slice other)
{
    uint32_t a[MAX_END], b[MAX_END], sorted[2 * MAX_END];
    size_t len;
    if (token_at(c, other.s, other.n, &len) != QN_TOKEN_NONE) other.n = 0; /* which text never is */
    const int n_a = characters(one, a), n_b = characters(other, b), m = distinct(a, n_a, b, n_b, sorted);
    const int high = n_a ? n_a : 1, wide = n_b ? n_b : 1;
    const int32_t rule = text_rule(c);
    int32_t *states = qn__heap_alloc(&c->reader->heap, (size_t)(high * wide) * sizeof *states);
    qn_grammar *g = c->g;
    for (int i = 0; states && i < high * wide; i++) states[i] = qn__grammar_state(g);
    const int32_t last = qn__grammar_state(g);
    if (!qn__constrain_heap(c) || rule < 0 || g->failed) return;
    for (int i = 0; i < high * wide; i++) {
        for (int k = 0; k < m; k++) {
            const int x = n_a ? next_state(a, i / wide, sorted[k]) : 0,
                      y = n_b ? next_state(b, i % wide, sorted[k]) : 0;
            if (x < high && y < wide) qn__grammar_chars(g, states[i], states[x * wide + y], sorted[k], sorted[k]);
        }
        others(g, states[i], states[0], sorted, m);
        qn__grammar_edge(g, states[i], (qn_edge){.kind = QN_EDGE_empty, .to = last});
    }
    g->rules[rule].begin = states[0];
    g->rules[rule].end = last;
}

void qn__put_until(qn_constrain *c, const char *end, size_t n, bool ends)
{
    size_t len;
    const qn_token token = token_at(c, end, n, &len);
    if (token != QN_TOKEN_NONE) {
        PUT(c, "!<[%d]>* ", token);
        if (!ends) PUT(c, "<[%d]> ", token);
        if (!ends) qn__put_literal(c, end + len, n - len, false);
        return;
    }
    size_t at = 1; /* a token within it tells the text from any other */
    while (at < n && token_at(c, end + at, n - at, &len) == QN_TOKEN_NONE) at++;
    if (at < n && !ends) {
        PUT(c, "[\\t\\n\\r\\x20-\\U0010FFFF]* ");
        qn__put_literal(c, end, n, false);
    } else {
        put_text_rule(c, end, n, !ends, ends);
    }
}
