/* SPDX-License-Identifier: MIT */
/* src/text/grammar/schema/emit.c -- sets of schemas as rules of a grammar: a rule for each set, and those that any
 * schema may need: a value, a string, white space. */
#include "text/grammar/schema/schema.h"

#define MAX_TOO_LARGE 3  /* places that are widened for their size: each costs tens of milliseconds */
#define MAX_INDENT    20 /* spaces; half as many tabs. A weak model likes to go on with them. */

/* ---- states and edges -------------------------------------------------------------------------------------- */

int32_t qn__emit_state(qn_schema *c) { return qn__grammar_state(c->g); }
void qn__emit_empty(qn_schema *c, int32_t from, int32_t to)
{
    if (from != to) qn__grammar_edge(c->g, from, (qn_edge){.kind = QN_EDGE_empty, .to = to});
}
void qn__emit_bytes(qn_schema *c, int32_t from, int32_t to, uint8_t lo, uint8_t hi)
{
    if (lo <= hi) qn__grammar_edge(c->g, from, (qn_edge){.kind = QN_EDGE_bytes, .lo = lo, .hi = hi, .to = to});
}
void qn__emit_call(qn_schema *c, int32_t from, int32_t to, int32_t rule)
{
    if (rule >= 0) qn__grammar_edge(c->g, from, (qn_edge){.kind = QN_EDGE_call, .to = to, .rule = rule});
}
void qn__emit_word(qn_schema *c, int32_t from, int32_t to, const char *word)
{
    for (; *word; word++) {
        const int32_t next = word[1] ? qn__emit_state(c) : to;
        qn__emit_bytes(c, from, next, (uint8_t)*word, (uint8_t)*word);
        from = next;
    }
}
void qn__emit_space(qn_schema *c, int32_t from, int32_t to)
{
    qn__emit_call(c, from, to, qn__general_rule(c, QN_GENERAL_space));
}

static int32_t begin_rule(qn_schema *c, int32_t *from, int32_t *to)
{
    const int32_t rule = qn__grammar_new_rule(c->g, "#", 1, 0);
    *from = qn__emit_state(c);
    *to = qn__emit_state(c);
    if (rule < 0 || *to < 0) return -1;
    c->g->rules[rule].begin = *from;
    c->g->rules[rule].end = *to;
    return rule;
}

/* ---- rules that any schema may need ------------------------------------------------------------------------- */

static void emit_spaces(qn_schema *c, int32_t from, int32_t to)
{
    static const struct {
        char c;
        int n;
    } indents[] = {{' ', MAX_INDENT}, {'\t', MAX_INDENT / 2}};
    const int32_t line = qn__emit_state(c);
    qn__emit_empty(c, from, to);
    qn__emit_bytes(c, from, to, ' ', ' ');
    qn__emit_bytes(c, from, line, '\n', '\n');
    qn__emit_empty(c, line, to);
    for (size_t i = 0; i < sizeof indents / sizeof *indents; i++) {
        int32_t here = line;
        for (int k = 0; k < indents[i].n; k++) {
            const int32_t next = qn__emit_state(c);
            qn__emit_bytes(c, here, next, (uint8_t)indents[i].c, (uint8_t)indents[i].c);
            qn__emit_empty(c, next, to);
            here = next;
        }
    }
}

static void hex_digits(qn_schema *c, int32_t from, int32_t to, int lo, int hi)
{
    if (lo <= 9) qn__emit_bytes(c, from, to, (uint8_t)('0' + lo), (uint8_t)('0' + (hi < 9 ? hi : 9)));
    if (hi < 10) return;
    const int first = lo < 10 ? 0 : lo - 10;
    qn__emit_bytes(c, from, to, (uint8_t)('a' + first), (uint8_t)('a' + hi - 10));
    qn__emit_bytes(c, from, to, (uint8_t)('A' + first), (uint8_t)('A' + hi - 10));
}

/* Numbers lo to hi as n hexadecimal digits. */
static void hex_range(qn_schema *c, int32_t from, int32_t to, uint32_t lo, uint32_t hi, int n)
{
    const int shift = 4 * (n - 1);
    const uint32_t rest = (1u << shift) - 1;
    int first = (int)(lo >> shift), last = (int)(hi >> shift);
    if (n == 1) {
        hex_digits(c, from, to, first, last);
        return;
    }
    if (first == last) {
        const int32_t mid = qn__emit_state(c);
        hex_digits(c, from, mid, first, first);
        hex_range(c, mid, to, lo & rest, hi & rest, n - 1);
        return;
    }
    if (lo & rest) {
        const int32_t mid = qn__emit_state(c);
        hex_digits(c, from, mid, first, first);
        hex_range(c, mid, to, lo & rest, rest, n - 1);
        first++;
    }
    const bool part = (hi & rest) != rest;
    if (first <= last - part) {
        const int32_t mid = qn__emit_state(c);
        hex_digits(c, from, mid, first, last - part);
        hex_range(c, mid, to, 0, rest, n - 1);
    }
    if (part) {
        const int32_t mid = qn__emit_state(c);
        hex_digits(c, from, mid, last, last);
        hex_range(c, mid, to, 0, hi & rest, n - 1);
    }
}

/* A pair of surrogates: the first one from lo to hi, the second likewise. */
static void surrogates(qn_schema *c, int32_t from, int32_t to, uint32_t high_lo, uint32_t high_hi, uint32_t low_lo,
                       uint32_t low_hi)
{
    const int32_t mid = qn__emit_state(c), second = qn__emit_state(c);
    if (high_lo > high_hi) return;
    hex_range(c, from, mid, 0xD800 + high_lo, 0xD800 + high_hi, 4);
    qn__emit_word(c, mid, second, "\\u");
    hex_range(c, second, to, 0xDC00 + low_lo, 0xDC00 + low_hi, 4);
}

/* Behind "\u". */
static void unicode_escapes(qn_schema *c, int32_t from, int32_t to, uint32_t lo, uint32_t hi)
{
    static const uint32_t parts[][2] = {{0, 0xD7FF}, {0xE000, 0xFFFF}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const uint32_t a = lo > parts[i][0] ? lo : parts[i][0], b = hi < parts[i][1] ? hi : parts[i][1];
        if (a <= b) hex_range(c, from, to, a, b, 4);
    }
    if (hi < 0x10000) return;
    const uint32_t a = (lo < 0x10000 ? 0x10000 : lo) - 0x10000, b = hi - 0x10000;
    const uint32_t first = a >> 10, last = b >> 10;
    if (first == last) {
        surrogates(c, from, to, first, first, a & 0x3FF, b & 0x3FF);
        return;
    }
    const uint32_t starts = (a & 0x3FF) != 0, ends = (b & 0x3FF) != 0x3FF;
    if (starts) surrogates(c, from, to, first, first, a & 0x3FF, 0x3FF);
    if (first + starts <= last - ends) surrogates(c, from, to, first + starts, last - ends, 0, 0x3FF);
    if (ends) surrogates(c, from, to, last, last, 0, b & 0x3FF);
}

/* One range, in a dialect. */
static void plain_range(qn_schema *c, int32_t from, int32_t to, int32_t *slash, uint32_t lo, uint32_t hi)
{
    const qn_dialect *d = c->dialect;
    uint32_t next = lo < 0x20 ? 0x20 : lo;
    for (const char *p = d->never; next <= hi; p++) {
        const uint32_t end = *p && (uint32_t)*p <= hi ? (uint32_t)*p : hi + 1;
        if (next < end && from >= 0 && to >= 0) qn__grammar_chars(c->g, from, to, next, end - 1);
        if (end + 1 > next) next = end + 1;
        if (!*p) break;
    }
    for (const char *p = "\t\n\r"; *p && d->lines; p++)
        if (lo <= (uint32_t)*p && (uint32_t)*p <= hi) qn__emit_bytes(c, from, to, (uint8_t)*p, (uint8_t)*p);
    for (const char *p = d->escapes; *p; p += 2) {
        if (lo > (uint32_t)*p || (uint32_t)*p > hi) continue;
        if (*slash < 0) {
            *slash = qn__emit_state(c);
            qn__emit_bytes(c, from, *slash, '\\', '\\');
        }
        qn__emit_bytes(c, *slash, to, (uint8_t)p[1], (uint8_t)p[1]);
    }
}

/* One range; `any_escape`: \u for characters that need none, too. */
static void char_range(qn_schema *c, int32_t from, int32_t to, int32_t *slash, uint32_t lo, uint32_t hi,
                       bool any_escape)
{
    static const uint32_t plain[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, QN_MAX_CP}};
    static const uint32_t escaped[][2] = {{0, 0x1F}, {0x22, 0x22}, {0x5C, 0x5C}, {0x7F, QN_MAX_CP}};
    static const char named[] = "\"\"\\\\//\bb\ff\nn\rr\tt";
    int32_t unicode = -1;
    if (c->dialect) {
        plain_range(c, from, to, slash, lo, hi);
        return;
    }
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        const uint32_t a = lo > plain[i][0] ? lo : plain[i][0], b = hi < plain[i][1] ? hi : plain[i][1];
        if (a <= b && from >= 0 && to >= 0) qn__grammar_chars(c->g, from, to, a, b);
    }
    const bool needs = any_escape || lo < 0x20 || hi >= 0x7F || (lo <= '"' && hi >= '"') || (lo <= '/' && hi >= '/') ||
                       (lo <= '\\' && hi >= '\\');
    if (!needs) return;
    if (*slash < 0) {
        *slash = qn__emit_state(c);
        qn__emit_bytes(c, from, *slash, '\\', '\\');
    }
    for (const char *p = named; *p; p += 2)
        if (lo <= (uint32_t)*p && (uint32_t)*p <= hi) qn__emit_bytes(c, *slash, to, (uint8_t)p[1], (uint8_t)p[1]);
    for (size_t i = 0; i < sizeof escaped / sizeof *escaped; i++) {
        uint32_t a = lo > escaped[i][0] ? lo : escaped[i][0], b = hi < escaped[i][1] ? hi : escaped[i][1];
        if (any_escape) a = lo, b = hi;
        if (a > b || (any_escape && i > 0)) continue;
        if (unicode < 0) {
            unicode = qn__emit_state(c);
            qn__emit_bytes(c, *slash, unicode, 'u', 'u');
        }
        unicode_escapes(c, unicode, to, a, b);
    }
}

void qn__emit_char(qn_schema *c, int32_t from, int32_t to, uint32_t cp)
{
    int32_t slash = -1;
    char_range(c, from, to, &slash, cp, cp, false);
}

/* A class of characters has a rule when it takes many states, made once. */
void qn__emit_chars(qn_schema *c, int32_t from, int32_t to, const qn_cp_ranges *set)
{
    int32_t slash = -1, begin, end;
    if (set->n == 1 && set->at[0][1] < 0x7F && set->at[0][0] >= 0x30 &&
        (set->at[0][0] > '\\' || set->at[0][1] < '\\')) {
        char_range(c, from, to, &slash, set->at[0][0], set->at[0][1], false);
        return;
    }
    if (set->n == 1 && set->at[0][0] == set->at[0][1]) {
        qn__emit_char(c, from, to, set->at[0][0]);
        return;
    }
    for (int32_t i = 0; i < c->n_classes; i++)
        if (c->classes[i].set->n == set->n &&
            memcmp(c->classes[i].set->at, set->at, (size_t)set->n * sizeof *set->at) == 0) {
            qn__emit_call(c, from, to, c->classes[i].rule);
            return;
        }
    const int32_t rule = begin_rule(c, &begin, &end);
    for (int32_t i = 0; i < set->n && rule >= 0; i++)
        char_range(c, begin, end, &slash, set->at[i][0], set->at[i][1], false);
    qn__emit_call(c, from, to, rule);
    qn_cp_ranges *kept = qn__schema_alloc(c, 1, sizeof *kept);
    if (!kept || !qn__schema_grow(c, &c->classes, c->n_classes, &c->cap_classes, sizeof *c->classes)) return;
    for (int32_t i = 0; i < set->n; i++)
        if (!qn__ranges_add(&c->arena, kept, set->at[i][0], set->at[i][1])) return;
    c->classes[c->n_classes].set = kept;
    c->classes[c->n_classes++].rule = rule;
}

static void free_char(qn_schema *c, int32_t from, int32_t to)
{
    int32_t slash = -1;
    char_range(c, from, to, &slash, 0, QN_MAX_CP, true);
}

static void free_string(qn_schema *c, int32_t from, int32_t to)
{
    const int32_t inside = qn__emit_state(c);
    qn__emit_quote(c, from, inside);
    qn__emit_call(c, inside, inside, qn__general_rule(c, QN_GENERAL_char));
    qn__emit_quote(c, inside, to);
}

static void free_number(qn_schema *c, int32_t from, int32_t to, bool integer)
{
    const int32_t first = qn__emit_state(c), whole = qn__emit_state(c), end = qn__emit_state(c);
    const int32_t point = qn__emit_state(c), fraction = qn__emit_state(c);
    qn__emit_empty(c, from, first);
    qn__emit_bytes(c, from, first, '-', '-');
    qn__emit_bytes(c, first, end, '0', '0');
    qn__emit_bytes(c, first, whole, '1', '9');
    qn__emit_bytes(c, whole, whole, '0', '9');
    qn__emit_empty(c, whole, end);
    qn__emit_empty(c, end, to);
    if (integer && !c->options.whole_fractions) return;
    qn__emit_bytes(c, end, point, '.', '.');
    qn__emit_bytes(c, point, fraction, '0', integer ? '0' : '9');
    qn__emit_bytes(c, fraction, fraction, '0', integer ? '0' : '9');
    qn__emit_empty(c, fraction, to);
    if (integer) return;
    const int32_t power = qn__emit_state(c), sign = qn__emit_state(c), digits = qn__emit_state(c);
    qn__emit_empty(c, end, power);
    qn__emit_empty(c, fraction, power);
    for (const char *p = "eE"; *p; p++) qn__emit_bytes(c, power, sign, (uint8_t)*p, (uint8_t)*p);
    for (const char *p = "+-"; *p; p++) qn__emit_bytes(c, sign, digits, (uint8_t)*p, (uint8_t)*p);
    qn__emit_empty(c, sign, digits);
    const int32_t more = qn__emit_state(c);
    qn__emit_bytes(c, digits, more, '0', '9');
    qn__emit_bytes(c, more, more, '0', '9');
    qn__emit_empty(c, more, to);
}

static void bare_name(qn_schema *c, int32_t from, int32_t to)
{
    static const uint32_t ranges[][2] = {{'a', 'z'}, {'A', 'Z'}, {'_', '_'}, {0x80, QN_MAX_CP},
                                         {'0', '9'}, {'-', '-'}, {'.', '.'}};
    const int32_t more = qn__emit_state(c);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && more >= 0; i++) {
        if (i < 4) qn__grammar_chars(c->g, from, more, ranges[i][0], ranges[i][1]);
        qn__grammar_chars(c->g, more, more, ranges[i][0], ranges[i][1]);
    }
    qn__emit_empty(c, more, to);
}

/* Members between brackets: any number of values, or of strings and values. */
static void free_members(qn_schema *c, int32_t from, int32_t to, char open, char close)
{
    const int32_t begin = qn__emit_state(c), first = qn__emit_state(c), member = qn__emit_state(c);
    const int32_t behind = qn__emit_state(c), last = qn__emit_state(c), next = qn__emit_state(c);
    int32_t value = member;
    qn__emit_bytes(c, from, begin, (uint8_t)open, (uint8_t)open);
    qn__emit_space(c, begin, first);
    qn__emit_bytes(c, first, to, (uint8_t)close, (uint8_t)close);
    qn__emit_empty(c, first, member);
    if (open == '{') {
        const int32_t colon = qn__emit_state(c), space = qn__emit_state(c);
        value = qn__emit_state(c);
        if (c->dialect && c->dialect->bare_keys)
            bare_name(c, member, colon);
        else
            qn__emit_call(c, member, colon, qn__general_rule(c, QN_GENERAL_string));
        qn__emit_bytes(c, colon, space, ':', ':');
        qn__emit_space(c, space, value);
    }
    qn__emit_call(c, value, behind, qn__general_rule(c, QN_GENERAL_value));
    qn__emit_space(c, behind, last);
    qn__emit_bytes(c, last, to, (uint8_t)close, (uint8_t)close);
    qn__emit_bytes(c, behind, next, ',', ',');
    qn__emit_space(c, next, member);
}

static void any_value(qn_schema *c, int32_t from, int32_t to)
{
    static const qn_general_rule kinds[] = {QN_GENERAL_object, QN_GENERAL_array, QN_GENERAL_string, QN_GENERAL_number};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) qn__emit_call(c, from, to, qn__general_rule(c, kinds[i]));
    qn__emit_bool(c, true, from, to);
    qn__emit_bool(c, false, from, to);
    qn__emit_null(c, from, to);
}

int32_t qn__general_rule(qn_schema *c, qn_general_rule which)
{
    int32_t from, to;
    if (c->general[which]) return c->general[which] - 1;
    const int32_t rule = begin_rule(c, &from, &to);
    c->general[which] = rule + 1; /* before its body: a value may hold values */
    if (rule < 0) return -1;
    switch (which) {
    case QN_GENERAL_value: any_value(c, from, to); break;
    case QN_GENERAL_number:
    case QN_GENERAL_integer: free_number(c, from, to, which == QN_GENERAL_integer); break;
    case QN_GENERAL_string: free_string(c, from, to); break;
    case QN_GENERAL_array: free_members(c, from, to, '[', ']'); break;
    case QN_GENERAL_object: free_members(c, from, to, '{', '}'); break;
    case QN_GENERAL_char: free_char(c, from, to); break;
    default: emit_spaces(c, from, to); break;
    }
    return rule;
}

/* ---- sets ---------------------------------------------------------------------------------------------------- */

/* The rule for any value of a type, or any integer; -1 where the shape says more. */
static int32_t free_rule(qn_schema *c, const qn_schema_shape *s)
{
    static const int rules[QN_JSON_N_TYPES] = {
        -1, -1, QN_GENERAL_number, QN_GENERAL_string, QN_GENERAL_array, QN_GENERAL_object};
    qn_schema_shape without = *s;
    without.integer = false;
    if (rules[s->type] < 0 || !qn__shape_is_free(&without)) return -1;
    return qn__general_rule(c, s->integer ? QN_GENERAL_integer : (qn_general_rule)rules[s->type]);
}

int32_t qn__set_rule(qn_schema *c, int32_t set)
{
    int32_t from, to;
    if (set < 0 || c->g->failed) return -1;
    if (c->sets[set].n == 0) return qn__general_rule(c, QN_GENERAL_value);
    if (c->sets[set].rule >= 0) return c->sets[set].rule;
    const qn_schema_shapes *shapes = qn__set_shapes(c, set);
    if (!shapes) return -1;
    if (shapes->n == 1 && free_rule(c, &shapes->at[0]) >= 0) return free_rule(c, &shapes->at[0]);
    if (!qn__schema_grow(c, &c->queue, c->n_queue, &c->cap_queue, sizeof *c->queue)) return -1;
    const int32_t rule = begin_rule(c, &from, &to);
    c->sets[set].rule = rule;
    if (rule >= 0) c->queue[c->n_queue++] = set;
    return rule;
}

void qn__emit_set(qn_schema *c, int32_t set, int32_t from, int32_t to)
{
    qn__emit_call(c, from, to, qn__set_rule(c, set));
}

static void emit_shape(qn_schema *c, const qn_schema_shape *s, int32_t from, int32_t to)
{
    switch (s->type) {
    case QN_JSON_null: qn__emit_null(c, from, to); break;
    case QN_JSON_boolean:
        qn__emit_bool(c, true, from, to);
        qn__emit_bool(c, false, from, to);
        break;
    case QN_JSON_number: qn__emit_number(c, s, from, to); break;
    case QN_JSON_string: qn__emit_string(c, s, from, to); break;
    case QN_JSON_array: qn__emit_array(c, s, from, to); break;
    default: qn__emit_object(c, s, from, to); break;
    }
}

/* A grammar that became too large is the fault of a keyword of the shape that was made last: of a number, the largest,
 * else of what there is. */
static void refuse_size(qn_schema *c, const qn_schema_shape *s)
{
    static const char *const counts[] = {"minLength", "maxLength", "minItems", "maxItems"};
    static const char *const others[] = {"pattern", "format", "prefixItems", "properties", "minimum", "maximum"};
    const char *name = NULL;
    double most = 0;
    if (!c->g->failed || c->g->n_states < QN_GRAMMAR_MAX_STATES || !qn__schema_going(c)) return;
    if (++c->n_too_large > MAX_TOO_LARGE) return; /* qn__grammar_failure says it */
    for (size_t i = 0; i < sizeof others / sizeof *others && !name; i++)
        if (qn__schema_get(c, s->node, others[i])) name = others[i];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const qn_val *v = qn__schema_get(c, s->node, counts[i]);
        if (!v || !qn__is_number(*v) || qn__real(*v) < 100 || qn__real(*v) < most) continue;
        name = counts[i];
        most = qn__real(*v);
    }
    qn__schema_refuse(c, s->node, QN_STATUS_limit, "%s%sthe grammar has more than %d states", name ? name : "",
                      name ? ": " : "", QN_GRAMMAR_MAX_STATES);
}

static void emit_body(qn_schema *c, int32_t set, int32_t from, int32_t to)
{
    const qn_schema_shapes *shapes = qn__set_shapes(c, set);
    if (!shapes) return;
    const qn_val **literals = qn__schema_alloc(c, (size_t)shapes->n + 1, sizeof *literals);
    int32_t n_literals = 0;
    for (int32_t i = 0; literals && i < shapes->n && qn__schema_going(c) && !c->g->failed; i++) {
        const qn_schema_shape *s = &shapes->at[i];
        if (s->literal)
            literals[n_literals++] = s->literal;
        else
            emit_shape(c, s, from, to);
        refuse_size(c, s);
    }
    if (literals) qn__emit_literals(c, literals, n_literals, from, to);
}

void qn__emit_values(qn_schema *c, int32_t set, int32_t from, int32_t to)
{
    qn__emit_set(c, set, from, to);
    for (int32_t i = 0; i < c->n_queue && qn__schema_going(c) && !c->g->failed; i++) {
        const qn_rule *r = &c->g->rules[c->sets[c->queue[i]].rule];
        emit_body(c, c->queue[i], r->begin, r->end);
    }
}
