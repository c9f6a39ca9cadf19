/* SPDX-License-Identifier: MIT */
/* src/text/chat/derive_calls.c -- the marks of each syntax of calls, out of the turns of a probe. */
#include "text/chat/derive.h"

/* Where a literal that begins at s ends; 0: there is none. */
static size_t literal(qn_probe *p, qn_slice s, qn_literal_style style, bool call, bool raw)
{
    qn_literal l;
    qn_str out = {0};
    size_t used = 0;
    qn_sym *w = qn__arena_array(&p->arena, s.n + 1, sizeof *w);
    if (!w) return 0;
    for (size_t i = 0; i < s.n; i++) w[i] = (unsigned char)s.s[i];
    qn__literal_init(&l, style, call);
    l.quote = &p->t->found.marks[QN_MARK_quote];
    l.raw_strings = raw;
    const qn_literal_result result = qn__literal_read(&l, w, s.n, true, &used, &out);
    qn__str_deinit(&out);
    return result == QN_LITERAL_done ? used : 0;
}

/* A call in a turn: what stands before, its two ends, what follows. */
typedef struct span {
    qn_slice before, body, after;
} span;

/* The first of several marks, <..><..>. */
static size_t first_mark(qn_slice s)
{
    for (size_t i = 0; i + 1 < s.n; i++)
        if (s.s[i] == '>' && s.s[i + 1] == '<') return i + 1;
    return s.n;
}

/* Marks around calls: `first` from a turn with one, `between` from the end of a call to the beginning of the next in a
 * turn with several (nothing where there is no such turn), `last` behind the call, `last_of_two` behind the second. */
static bool set_around(qn_probe *p, qn_slice first, qn_slice between, qn_slice last, qn_slice last_of_two)
{
    qn_slice close = last, open = first;
    qn_slice section_open = {0}, section_close = {0};
    if (between.s) {
        const size_t shared = qn__common_suffix(first, between);
        open = qn__skip(first, first.n - shared);
        section_open = qn__less(first, shared);
        close = qn__less(between, qn__common_suffix(between, first));
        const size_t n = qn__common_prefix(last, close);
        close = qn__less(last, last.n - n);
        section_close = qn__skip(last, n);
        if (section_open.n && !section_close.n && last_of_two.s) /* some close it behind a second call only */
            section_close = qn__skip(last_of_two, qn__common_prefix(last_of_two, close));
    }
    return qn__set_mark(p, QN_MARK_between, between) && qn__set_mark(p, QN_MARK_section_open, section_open) &&
           qn__set_mark(p, QN_MARK_call_open, open) && qn__set_mark(p, QN_MARK_call_close, close) &&
           qn__set_mark(p, QN_MARK_section_close,
                        qn__less(section_close, section_close.n - first_mark(section_close))) &&
           qn__set_mark(p, QN_MARK_section_more, qn__skip(section_close, first_mark(section_close)));
}

/* What follows a call at the end of its turn, without the turn's own end. */
static qn_slice without_end(const qn_probe *p, qn_slice after)
{
    qn_slice end = {0};
    if (!after.s || !qn__find_word(p->turns[QN_PROBE_content], "qn-answer", NULL, &end)) return (qn_slice){0};
    return qn__less(after, qn__common_suffix(after, end));
}

/* Without marks of empty reasoning or content, which other marks stand for. */
static qn_slice without_frame(qn_probe *p, qn_slice s)
{
    static const qn_mark_id frame[] = {QN_MARK_think_open, QN_MARK_think_close};
    for (size_t i = 0; i < sizeof frame / sizeof *frame; i++) {
        const qn_mark *m = &p->t->found.marks[frame[i]];
        size_t at = 0, len;
        qn_sym w[256];
        while (at < s.n && qn__sym_is_space((unsigned char)s.s[at])) at++;
        size_t n = 0;
        for (; n < 256 && at + n < s.n; n++) w[n] = (unsigned char)s.s[at + n];
        if (m->n && qn__mark_match(m, w, n, true, "", 0, &len, NULL) == QN_WHOLE_MATCH) s = qn__skip(s, at + len);
    }
    return s;
}

/* ---- json ---------------------------------------------------------------------------------------------- */

static bool find_json(qn_probe *p, qn_slice turn, const char *name, span *out)
{
    qn_slice before, after;
    if (!turn.s || !qn__find_word(turn, name, &before, &after)) return false;
    for (size_t i = 0; i < before.n; i++) {
        if (turn.s[i] != '{' && turn.s[i] != '[') continue;
        const size_t n = literal(p, qn__skip(turn, i), QN_LITERAL_json, false, false);
        if (i + n <= before.n) continue;
        *out = (span){qn__less(turn, turn.n - i), {turn.s + i, n}, qn__skip(turn, i + n)};
        return true;
    }
    return false;
}

/* The key whose value is the name; false where neither key nor value is. */
static bool find_name_key(qn_probe *p, qn_slice body)
{
    qn_found *f = &p->t->found;
    qn_heap h;
    bool found = false;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, NULL);
    qn_val v = qn__parse_json(&h, body.s, body.n, true);
    f->name_key = NULL;
    if (v.type == QN_VAL_list && v.l->n) v = v.l->items[0];
    for (uint32_t i = 0; h.status == QN_OK && v.type == QN_VAL_dict && i < v.d->n && !found; i++) {
        if (qn__str_is(v.d->values[i], QN_PROBE_NAME)) {
            f->name_key = qn__arena_strndup(&p->t->arena, v.d->keys[i].s->data, v.d->keys[i].s->n);
            found = f->name_key;
        }
        found |= qn__str_is(v.d->keys[i], QN_PROBE_NAME);
    }
    qn__jinja_heap_deinit(&h);
    return found;
}

/* The parts of the first object in the text, whose name is that; *end: where it ends. */
static bool cut_object(qn_probe *p, qn_slice s, const char *name, qn_slice parts[3], size_t *begin, size_t *end)
{
    const char *object = memchr(s.s, '{', s.n);
    qn_slice open, rest;
    if (!object) return false;
    *begin = (size_t)(object - s.s);
    const qn_slice whole = qn__skip(s, *begin);
    const size_t n = literal(p, whole, QN_LITERAL_json, false, false);
    *end = *begin + n;
    if (!n || !qn__find_word(qn__less(whole, whole.n - n), name, &open, &rest)) return false;
    const char *arguments = memchr(rest.s, '{', rest.n);
    if (!arguments) return false;
    const size_t mid = (size_t)(arguments - rest.s),
                 used = literal(p, qn__skip(rest, mid), QN_LITERAL_json, false, false);
    parts[0] = open;
    parts[1] = qn__less(rest, rest.n - mid);
    parts[2] = qn__skip(rest, mid + used);
    return used;
}

/* How exactly objects are written, for grammars; not needed for reading. */
static bool set_object(qn_probe *p, qn_slice body, qn_slice two)
{
    qn_slice parts[3], other[3];
    size_t begin, end, begin2, end2;
    const bool array = p->t->found.array;
    if (!cut_object(p, body, QN_PROBE_NAME, parts, &begin, &end)) return true;
    if (!qn__set_mark(p, QN_MARK_object_open, parts[0]) || !qn__set_mark(p, QN_MARK_object_mid, parts[1]) ||
        !qn__set_mark(p, QN_MARK_object_close, parts[2]))
        return false;
    if (!array) return true;
    if (!qn__set_mark(p, QN_MARK_array_open, qn__less(body, body.n - begin)) ||
        !qn__set_mark(p, QN_MARK_array_close, qn__skip(body, end)))
        return false;
    if (!two.s || !cut_object(p, two, QN_PROBE_NAME, other, &begin, &end)) return true;
    two = qn__skip(two, end);
    return !cut_object(p, two, QN_PROBE_NAME2, other, &begin2, &end2) ||
           qn__set_mark(p, QN_MARK_array_sep, qn__less(two, two.n - begin2));
}

bool qn__derive_json(qn_probe *p)
{
    span one, two;
    qn_slice between = {0}, last_of_two = {0};
    if (!find_json(p, p->turns[QN_PROBE_call], QN_PROBE_NAME, &one) || !find_name_key(p, one.body)) return false;
    qn_found *f = &p->t->found;
    f->array = *one.body.s == '[';
    if (!f->array && find_json(p, p->turns[QN_PROBE_two_calls], QN_PROBE_NAME, &two) &&
        find_json(p, two.after, QN_PROBE_NAME2, &two)) {
        between = two.before;
        last_of_two = without_end(p, two.after);
    }
    if (!set_object(p, one.body,
                    f->array && find_json(p, p->turns[QN_PROBE_two_calls], QN_PROBE_NAME, &two) ? two.body
                                                                                                : (qn_slice){0}))
        return false;
    const qn_slice first = without_frame(p, one.before);
    if (!set_around(p, first, between, qn__less(one.after, p->end), last_of_two)) return false;
    f->bare = !f->marks[QN_MARK_call_open].n && !f->marks[QN_MARK_section_open].n;
    return true;
}

/* ---- a name, then arguments --------------------------------------------------------------------------------- */

static bool find_named(qn_probe *p, qn_slice turn, const char *name, char open, qn_literal_style style, span *out,
                       qn_slice *name_end)
{
    qn_slice before, after;
    if (!turn.s || !qn__find_word(turn, name, &before, &after)) return false;
    const char *bracket = memchr(after.s, open, after.n);
    if (!bracket) return false;
    *name_end = qn__less(after, after.n - (size_t)(bracket - after.s));
    const qn_slice from = qn__skip(after, name_end->n);
    const size_t n = literal(p, from, style, open == '(', p->t->found.raw_strings);
    *out = (span){before, qn__less(from, from.n - n), qn__skip(from, n)};
    return n && qn__find_word(out->body, QN_PROBE_KEY, NULL, NULL);
}

static bool derive_named(qn_probe *p, char open, qn_literal_style style)
{
    span one, two;
    qn_slice name_end, name_end2, between = {0}, last_of_two = {0};
    qn_found *f = &p->t->found;
    if (!find_named(p, p->turns[QN_PROBE_call], QN_PROBE_NAME, open, style, &one, &name_end)) return false;
    if (find_named(p, p->turns[QN_PROBE_two_calls], QN_PROBE_NAME, open, style, &two, &name_end2) &&
        find_named(p, two.after, QN_PROBE_NAME2, open, style, &two, &name_end2)) {
        between = two.before;
        last_of_two = without_end(p, two.after);
        f->digits = name_end.n != name_end2.n || memcmp(name_end.s, name_end2.s, name_end.n) != 0;
    }
    const qn_slice first = without_frame(p, one.before), last = qn__less(one.after, p->end);
    if (!qn__set_mark(p, QN_MARK_name_end, name_end)) return false;
    if (open == '(') /* calls stand in a list */
        return qn__set_mark(p, QN_MARK_section_open, first) && qn__set_mark(p, QN_MARK_call_sep, between) &&
               qn__set_mark(p, QN_MARK_section_close, last);
    return set_around(p, first, between, last, last_of_two);
}

/* ---- messages with headers ------------------------------------------------------------------------------- */

/* <mark>word<mark> */
static bool split_header(qn_slice s, qn_slice *open, qn_slice *channel, qn_slice *close)
{
    while (s.n && qn__sym_is_space((unsigned char)*s.s)) s = qn__skip(s, 1);
    *open = qn__less(s, s.n - qn__mark_atom(s.s, s.n));
    s = qn__skip(s, open->n);
    *channel = qn__less(s, s.n - qn__mark_atom(s.s, s.n));
    *close = qn__skip(s, channel->n);
    return open->n && channel->n && close->n && *open->s == '<' && *channel->s != '<' && *close->s == '<' &&
           qn__mark_atom(close->s, close->n) == close->n;
}

bool qn__derive_channels(qn_probe *p)
{
    const qn_slice thought =
        p->turns[QN_PROBE_thought].s ? p->turns[QN_PROBE_thought] : p->turns[QN_PROBE_thought_call];
    qn_slice open, channel, close, open2, final, close2, s, end;
    if (!thought.s || !qn__find_word(thought, "qn-thought", &s, &end) || !split_header(s, &open, &channel, &close))
        return false;
    if (!qn__find_word(p->turns[QN_PROBE_content], "qn-answer", &s, NULL) || !split_header(s, &open2, &final, &close2))
        return false;
    if (qn__common_prefix(open, open2) != open.n || qn__common_prefix(close, close2) != close.n) return false;
    if (!derive_named(p, '{', QN_LITERAL_json)) return false;
    /* the recipient is what stands before the name in its part of the header */
    if (!qn__find_word(p->turns[QN_PROBE_call], QN_PROBE_NAME, &s, NULL)) return false;
    size_t from = s.n;
    while (from && s.s[from - 1] != '>' && !qn__sym_is_space((unsigned char)s.s[from - 1])) from--;
    if (from == s.n) return false;
    p->t->found.thought_channel = qn__arena_strndup(&p->t->arena, channel.s, channel.n);
    return p->t->found.thought_channel && qn__set_mark(p, QN_MARK_channel, open) &&
           qn__set_mark(p, QN_MARK_message, close) && qn__set_mark(p, QN_MARK_recipient, qn__skip(s, from)) &&
           qn__set_mark(p, QN_MARK_message_end, qn__less(end, end.n - qn__mark_atom(end.s, end.n)));
}

bool qn__derive_named(qn_probe *p)
{
    qn_found *f = &p->t->found;
    qn_slice key, value, quote;
    if (derive_named(p, '{', QN_LITERAL_json)) return true;
    if (!qn__find_word(p->turns[QN_PROBE_call], QN_PROBE_KEY, NULL, &key)) return false;
    if (!qn__find_word(key, QN_PROBE_TEXT, &quote, &value) || !quote.n || *quote.s != ':') return false;
    f->loose = true;
    return qn__set_mark(p, QN_MARK_quote, qn__skip(quote, 1)) && derive_named(p, '{', QN_LITERAL_loose);
}

bool qn__derive_python(qn_probe *p)
{
    static const char want[] = "\\qn-value1"; /* what an escaped backslash does not give */
    qn_found *f = &p->t->found;
    const qn_slice special = p->turns[QN_PROBE_special];
    f->raw_strings =
        special.s && qn__find_word(special, want, NULL, NULL) && !qn__find_word(special, "\\\\qn-value1", NULL, NULL);
    return derive_named(p, '(', QN_LITERAL_python);
}

/* ---- marks around keys and values ---------------------------------------------------------------------------- */

/* The marks of a variant, from a turn with two arguments; `rest`: what follows the call in it. */
static bool set_values(qn_probe *p, qn_probe_turn turn, const char *a, const char *b, qn_mark_id open, size_t rest)
{
    qn_slice s = p->turns[turn], to_value, to_key, last;
    if (!s.s || !qn__find_word(s, QN_PROBE_KEY, NULL, &s) || !qn__find_word(s, a, &to_value, &s)) return false;
    if (!qn__find_word(s, QN_PROBE_KEY2, &to_key, &s) || !qn__find_word(s, b, NULL, &last) || last.n < rest)
        return false;
    last = qn__less(last, rest);
    if (open == QN_MARK_string_open) {
        qn_found *f = &p->t->found;
        f->nested = qn__find_word(to_key, QN_PROBE_KEY, NULL, NULL);
    }
    if (!qn__set_mark(p, open, to_value) || !qn__set_mark(p, open + 1, to_key)) return false;
    /* the last value's mark has the name of the second key */
    char *text = qn__arena_strndup(&p->arena, last.s, last.n);
    for (char *at = text; at && p->t->found.nested && (at = strstr(at, QN_PROBE_KEY2));)
        memcpy(at, QN_PROBE_KEY, strlen(QN_PROBE_KEY));
    return text && qn__set_mark(p, open + 2, (qn_slice){text, last.n});
}

static bool same_mark(const qn_mark *a, const qn_mark *b)
{
    return a->n == b->n && (a->n == 0 || memcmp(a->s, b->s, (size_t)a->n * sizeof *a->s) == 0);
}

bool qn__derive_tagged(qn_probe *p)
{
    qn_found *f = &p->t->found;
    const qn_slice one = p->turns[QN_PROBE_call], two = p->turns[QN_PROBE_two_calls],
                   none = p->turns[QN_PROBE_no_arguments];
    qn_slice first, first_key, value, last, between = {0}, tail;
    if (!qn__find_word(one, QN_PROBE_NAME, &first, &tail) || !qn__find_word(tail, QN_PROBE_KEY, &first_key, &value))
        return false;
    if (!qn__find_word(value, QN_PROBE_TEXT, NULL, &last)) return false;
    last = qn__less(last, p->end);
    first = without_frame(p, first);
    if (two.s && qn__find_word(two, QN_PROBE_TEXT, NULL, &between))
        qn__find_word(between, QN_PROBE_NAME2, &between, NULL);
    if (!set_around(p, first, between, last, (qn_slice){0})) return false;
    /* a call's end is part of the marks behind its name and values */
    const size_t after =
        between.s ? qn__common_prefix(last, qn__less(between, qn__common_suffix(between, first))) : last.n;
    const size_t rest = last.n - after + p->end;
    if (between.s && !qn__set_mark(p, QN_MARK_between,
                                   qn__skip(between, qn__common_prefix(between, qn__less(last, last.n - after)))))
        return false;
    if (!set_values(p, QN_PROBE_two_arguments, QN_PROBE_TEXT, QN_PROBE_TEXT2, QN_MARK_string_open, rest)) return false;
    if (!qn__set_mark(p, QN_MARK_first_key, first_key) || !qn__set_mark(p, QN_MARK_call_close, (qn_slice){0}))
        return false;
    if (none.s && qn__find_word(none, QN_PROBE_NAME, NULL, &tail) && tail.n >= rest)
        qn__set_mark(p, QN_MARK_no_keys, qn__less(tail, rest));
    qn_mark *m = f->marks;
    if (set_values(p, QN_PROBE_numbers, "471101", "471102", QN_MARK_other_open, rest) &&
        !same_mark(&m[QN_MARK_other_open], &m[QN_MARK_string_open]))
        f->typed = true;
    else
        m[QN_MARK_other_open] = m[QN_MARK_other_next] = m[QN_MARK_other_last] = (qn_mark){0};
    if (!set_values(p, QN_PROBE_special, "<&\n'\\" QN_PROBE_TEXT, "<&\n'\\" QN_PROBE_TEXT2, QN_MARK_special_open,
                    rest) ||
        same_mark(&m[QN_MARK_special_open], &m[QN_MARK_string_open]))
        m[QN_MARK_special_open] = m[QN_MARK_special_next] = m[QN_MARK_special_last] = (qn_mark){0};
    return true;
}
