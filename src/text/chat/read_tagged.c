/* SPDX-License-Identifier: MIT */
/* src/text/chat/read_tagged.c -- calls whose name, keys and values stand between marks. Values are plain text: a tool's
 * schema says which of them are something else. */
#include "text/chat/reader.h"

enum { NAME, KEY, VALUE };
#define MAX_KEY 256

/* Of the marks that can stand at symbol `at`, the longest that does; PART where one could that is longer. */
static qn_match find_mark(const qn_chat_reader *r, size_t at, const qn_mark_id *ids, int n_ids, int *which, size_t *len)
{
    bool part = false;
    *which = -1;
    for (int i = 0; i < n_ids; i++) {
        const qn_mark *m = &r->marks[ids[i]];
        size_t one;
        if (!m->n) continue;
        const qn_match match = qn__mark_match(m, r->in + r->at + at, r->n_in - r->at - at, r->end,
                                              r->key.data ? r->key.data : "", r->key.len, &one, NULL);
        part |= match == QN_PART_MATCH;
        if (match != QN_WHOLE_MATCH || (*which >= 0 && one <= *len)) continue;
        *which = i;
        *len = one;
    }
    return part ? QN_PART_MATCH : *which >= 0 ? QN_WHOLE_MATCH : QN_NO_MATCH;
}

static qn_step end_call(qn_chat_reader *r)
{
    qn__answer_arguments(&r->answer, r->has_keys ? "}" : "{}", r->has_keys ? 1 : 2);
    return QN_STEP_done;
}

static void begin_key(qn_chat_reader *r)
{
    qn__str_clear(&r->key);
    r->step = KEY;
}

static qn_step read_name(qn_chat_reader *r)
{
    static const qn_mark_id ends[] = {QN_MARK_first_key, QN_MARK_no_keys};
    size_t n, len = 0, spaces = 0;
    int which;
    const qn_sym *w = qn__window(r, &n);
    while (spaces < n && qn__sym_is_space(w[spaces])) spaces++;
    if (spaces == n) return QN_STEP_wait;
    const qn_match m = find_mark(r, spaces, ends, 2, &which, &len);
    if (m == QN_PART_MATCH) return QN_STEP_wait;
    if (m == QN_WHOLE_MATCH) {
        qn__read_take(r, spaces + len);
        if (!qn__read_announce(r)) return QN_STEP_bad;
        begin_key(r);
        return which ? end_call(r) : QN_STEP_on;
    }
    if (!qn__is_name_symbol(w[spaces]) || (spaces && r->name.len) || r->name.len > MAX_KEY) return QN_STEP_bad;
    qn__str_putc(&r->name, (char)w[spaces]);
    qn__read_take(r, spaces + 1);
    return QN_STEP_on;
}

/* The variants of a value: text, text with special characters, others. */
static const qn_mark_id opens[] = {QN_MARK_string_open, QN_MARK_special_open, QN_MARK_other_open};
static const qn_mark_id closes[][2] = {{QN_MARK_string_next, QN_MARK_string_last},
                                       {QN_MARK_special_next, QN_MARK_special_last},
                                       {QN_MARK_other_next, QN_MARK_other_last}};

static void begin_value(qn_chat_reader *r)
{
    const qn_val schema = qn__schema_property(r->parameters, r->key.data, r->key.len);
    r->types = qn__schema_types(r->schema, schema);
    if (r->found->typed && r->variant != 2) r->types = QN_TYPE_string;
    if (r->found->typed && r->variant == 2) r->types = (r->types ? r->types : QN_TYPE_any) & ~QN_TYPE_string;
    r->value_schema = schema;
    qn_str out = {0};
    qn__str_puts(&out, r->has_keys ? ", \"" : "{\"");
    for (size_t i = 0; i < r->key.len; i++) qn__put_escaped(&out, (unsigned char)r->key.data[i]);
    qn__str_puts(&out, r->types == QN_TYPE_string ? "\": \"" : "\": ");
    qn__answer_arguments(&r->answer, out.data, out.len);
    r->failed |= out.failed;
    qn__str_deinit(&out);
    r->has_keys = true;
    r->skip_line = r->marks[opens[r->variant]].line_after;
    r->inner = 0;
    qn__str_clear(&r->held);
    r->step = VALUE;
}

static qn_step read_key(qn_chat_reader *r)
{
    size_t n, len = 0;
    int which;
    const qn_sym *w = qn__window(r, &n);
    const qn_match m = find_mark(r, 0, opens, 3, &which, &len);
    if (m == QN_PART_MATCH) return QN_STEP_wait;
    if (m == QN_WHOLE_MATCH) {
        if (!r->key.len) return QN_STEP_bad;
        qn__read_take(r, len);
        r->variant = which;
        begin_value(r);
        return QN_STEP_on;
    }
    if (w[0] == '\n' || !(w[0] & 0xFF) || r->key.len > MAX_KEY) return QN_STEP_bad;
    qn__str_putc(&r->key, (char)w[0]);
    qn__read_take(r, 1);
    return QN_STEP_on;
}

static void end_value(qn_chat_reader *r)
{
    qn_str out = {0};
    if (r->types == QN_TYPE_string)
        qn__str_putc(&out, '"');
    else if (!r->found->nested || !qn__nested_json(r, &out))
        qn__value_json(&out, r->held.data ? r->held.data : "", r->held.len, r->types);
    qn__answer_arguments(&r->answer, out.data, out.len);
    r->failed |= out.failed;
    qn__str_deinit(&out);
}

/* n symbols of the value. */
static void put_value(qn_chat_reader *r, size_t n)
{
    qn_str out = {0};
    const bool text = r->types == QN_TYPE_string;
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)r->in[r->at + i];
        if (text)
            qn__put_escaped(&out, c);
        else
            qn__str_putc(&r->held, (char)c);
    }
    if (text) qn__answer_arguments(&r->answer, out.data, out.len);
    r->failed |= out.failed;
    qn__str_deinit(&out);
    qn__read_take(r, n);
}

/* Of tags within tags those with the value's own key are counted: the first that closes may be an inner one's. PART
 * where one could stand here, WHOLE where one does, or where the value goes on for another reason. */
static qn_match inner_tag(qn_chat_reader *r, size_t at, size_t *len)
{
    enum { MOST = 128 };
    qn_sym open[MOST];
    const qn_mark *next = &r->marks[QN_MARK_string_next], *named = &r->marks[QN_MARK_string_open];
    const size_t left = r->n_in - r->at - at;
    int key = 0, n = 0;
    while (key < next->n && next->s[key] != QN_SYM_key) key++;
    const int behind = key + 1 + named->n; /* a tag's end, and then another's beginning */
    if (behind >= next->n || next->n - key + 1 > MOST) return QN_NO_MATCH;
    for (int i = behind; i < next->n; i++) open[n++] = next->s[i];
    open[n++] = QN_SYM_key;
    for (int i = 0; i < named->n; i++) open[n++] = named->s[i];
    for (int ends = 0; ends <= (r->inner > 0); ends++) {
        const qn_mark m = {.s = ends ? next->s : open, .n = ends ? behind : n};
        const qn_match match =
            qn__mark_match(&m, r->in + r->at + at, left, r->end, r->key.data ? r->key.data : "", r->key.len, len, NULL);
        if (match == QN_WHOLE_MATCH) r->inner += ends ? -1 : 1;
        if (match != QN_NO_MATCH) return match;
    }
    *len = 1;
    return r->inner > 0 ? QN_WHOLE_MATCH : QN_NO_MATCH;
}

static qn_step read_value(qn_chat_reader *r)
{
    const qn_mark_id *ends = closes[r->variant];
    size_t n, len = 0, plain = 0;
    int which = -1;
    const qn_sym *w = qn__window(r, &n);
    if (r->skip_line) {
        r->skip_line = false;
        if (w[0] == '\n') return qn__read_take(r, 1), QN_STEP_on;
    }
    qn_match m = QN_NO_MATCH;
    const bool nests = r->found->nested && r->types != QN_TYPE_string;
    for (; plain < n && m == QN_NO_MATCH; plain++) {
        if (nests) m = inner_tag(r, plain, &len);
        if (m == QN_PART_MATCH) break;
        if (m == QN_WHOLE_MATCH) {
            m = QN_NO_MATCH;
            plain += len - 1;
            continue;
        }
        const bool line = w[plain] == '\n' && (r->marks[ends[0]].line_before || r->marks[ends[1]].line_before);
        if (line && plain + 1 == n && !r->end) m = QN_PART_MATCH;
        if (line && plain + 1 < n) m = find_mark(r, plain + 1, ends, 2, &which, &len);
        if (m == QN_WHOLE_MATCH) len++;
        if (m == QN_NO_MATCH) m = find_mark(r, plain, ends, 2, &which, &len);
        if (m != QN_NO_MATCH) break;
    }
    if (plain) {
        put_value(r, plain);
        return QN_STEP_on;
    }
    if (m == QN_PART_MATCH) return QN_STEP_wait;
    qn__read_take(r, len);
    end_value(r);
    if (which) return end_call(r);
    begin_key(r);
    return QN_STEP_on;
}

qn_step qn__read_tagged(qn_chat_reader *r)
{
    return r->step == NAME ? read_name(r) : r->step == KEY ? read_key(r) : read_value(r);
}
