/* SPDX-License-Identifier: MIT */
/* src/text/chat/read_named.c -- calls as a name, then arguments: a JSON object or what stands for one, or the
 * parentheses of Python. */
#include "text/chat/reader.h"

enum { NAME, ARGUMENTS };

bool qn__is_name_symbol(qn_sym s)
{
    return (s >= 'a' && s <= 'z') || (s >= 'A' && s <= 'Z') || (s >= '0' && s <= '9') || s == '_' || s == '-' ||
           s == '.' || s == '/' || s == ':';
}

/* Up to what ends the name: the mark, or without one white space or `open`. */
static qn_step read_name(qn_chat_reader *r, qn_sym open)
{
    const qn_mark *mark = &r->marks[QN_MARK_name_end];
    size_t n, len, spaces = 0;
    const qn_sym *w = qn__window(r, &n);
    while (spaces < n && qn__sym_is_space(w[spaces])) spaces++;
    if (spaces == n) return QN_STEP_wait;
    const qn_match m = mark->n ? qn__mark_match(mark, w + spaces, n - spaces, r->end, "", 0, &len, NULL)
                       : w[spaces] == open && r->name.len ? QN_WHOLE_MATCH
                                                          : QN_NO_MATCH;
    if (m == QN_PART_MATCH) return QN_STEP_wait;
    if (m == QN_WHOLE_MATCH) {
        qn__read_take(r, spaces + (mark->n ? len : 0));
        if (!qn__read_announce(r)) return QN_STEP_bad;
        qn__literal_init(&r->literal,
                         open == '('       ? QN_LITERAL_python
                         : r->found->loose ? QN_LITERAL_loose
                                           : QN_LITERAL_json,
                         open == '(');
        r->literal.quote = &r->marks[QN_MARK_quote];
        r->literal.raw_strings = r->found->raw_strings;
        qn__str_clear(&r->json);
        r->step = ARGUMENTS;
        return QN_STEP_on;
    }
    if (!qn__is_name_symbol(w[spaces]) || (spaces && r->name.len) || r->name.len > 256) return QN_STEP_bad;
    qn__str_putc(&r->name, (char)w[spaces]);
    qn__read_take(r, spaces + 1);
    return QN_STEP_on;
}

qn_step qn__read_arguments(qn_chat_reader *r, qn_sym open)
{
    if (!r->has_arguments) {
        if (!qn__read_spaces(r)) return QN_STEP_wait;
        if (r->in[r->at] != open) return QN_STEP_bad;
        r->has_arguments = true;
    }
    qn__str_clear(&r->json);
    const qn_literal_result result = qn__read_literal(r);
    qn__answer_arguments(&r->answer, r->json.data, r->json.len);
    return result == QN_LITERAL_done ? QN_STEP_done : result == QN_LITERAL_bad ? QN_STEP_bad : QN_STEP_wait;
}

qn_step qn__read_named(qn_chat_reader *r) { return r->step == NAME ? read_name(r, '{') : qn__read_arguments(r, '{'); }
qn_step qn__read_python(qn_chat_reader *r) { return r->step == NAME ? read_name(r, '(') : qn__read_arguments(r, '('); }
