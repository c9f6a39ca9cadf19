/* SPDX-License-Identifier: MIT */
/* src/text/chat/read_json.c -- calls as JSON objects that hold the name and the arguments, or arrays of such. */
#include "text/chat/reader.h"

enum { BEGIN, OBJECT, KEY, KEY_TEXT, COLON, VALUE, BEHIND };

/* What a literal gave, a string, without its quotes and escapes. */
static bool decoded(qn_chat_reader *r, qn_str *out)
{
    const qn_val v = qn__parse_json(&r->heap, r->json.data ? r->json.data : "", r->json.len, false);
    if (r->heap.status != QN_OK || !qn__is_str(v)) {
        if (r->heap.status != QN_STATUS_nomem) r->heap.status = QN_OK;
        return false;
    }
    qn__str_clear(out);
    return qn__str_append(out, v.s->data, v.s->n) && !memchr(v.s->data, '\0', v.s->n);
}

static bool announce(qn_chat_reader *r)
{
    if (r->announced) return true;
    return r->name.len && qn__read_announce(r);
}

/* Arguments go out as they come once the name is known. */
static bool give_arguments(qn_chat_reader *r)
{
    qn__str_append(&r->held, r->json.data ? r->json.data : "", r->json.len);
    qn__str_clear(&r->json);
    if (!r->name.len) return true;
    if (!announce(r)) return false;
    qn__answer_arguments(&r->answer, r->held.data ? r->held.data : "", r->held.len);
    qn__str_clear(&r->held);
    return true;
}

/* Arguments as JSON text within a string, null for none. */
static bool odd_arguments(qn_chat_reader *r)
{
    if (r->json.len == 4 && memcmp(r->json.data, "null", 4) == 0) {
        qn__str_clear(&r->json);
        qn__str_puts(&r->json, "{}");
        return true;
    }
    if (!r->json.len || r->json.data[0] != '"') return r->json.len && r->json.data[0] == '{';
    qn_str inner = {0};
    bool good = decoded(r, &inner);
    if (good && !inner.len) qn__str_puts(&inner, "{}");
    const qn_val v = good ? qn__parse_json(&r->heap, inner.data, inner.len, false) : qn__absent();
    good &= r->heap.status == QN_OK && v.type == QN_VAL_dict;
    if (r->heap.status != QN_STATUS_nomem) r->heap.status = QN_OK;
    qn__str_clear(&r->json);
    qn__str_append(&r->json, inner.data ? inner.data : "", inner.len);
    qn__str_deinit(&inner);
    return good;
}

enum { IS_OTHER, IS_NAME, IS_ARGUMENTS, IS_ID };
static int kind_of_key(const qn_chat_reader *r)
{
    const qn_found *f = r->found;
    if (!f->name_key) return IS_ARGUMENTS;
    if (strcmp(r->key.data, f->name_key) == 0) return IS_NAME;
    if (strcmp(r->key.data, "arguments") == 0 || strcmp(r->key.data, "parameters") == 0) return IS_ARGUMENTS;
    return strcmp(r->key.data, "id") == 0 ? IS_ID : IS_OTHER;
}

static void begin_literal(qn_chat_reader *r, int step)
{
    qn__literal_init(&r->literal, QN_LITERAL_json, false);
    qn__str_clear(&r->json);
    r->step = step;
}

static qn_step read_key(qn_chat_reader *r)
{
    const qn_literal_result result = qn__read_literal(r);
    if (result == QN_LITERAL_more) return QN_STEP_wait;
    if (result == QN_LITERAL_bad || !decoded(r, &r->key)) return QN_STEP_bad;
    if (!r->found->name_key) {
        qn__str_clear(&r->name);
        qn__str_append(&r->name, r->key.data, r->key.len);
    }
    r->step = COLON;
    return QN_STEP_on;
}

static qn_step read_value(qn_chat_reader *r)
{
    const int kind = kind_of_key(r);
    if (kind == IS_ARGUMENTS && !r->has_arguments && r->literal.phase == 0 && !r->json.len && r->name.len) {
        /* Where a call turns out to be none must not depend on how much of the object has come. An object within a list
         * is none: the list's bracket is in json. */
        if (!qn__read_spaces(r)) return QN_STEP_wait;
        if (r->in[r->at] == '{' && !announce(r)) return QN_STEP_bad;
    }
    const qn_literal_result result = qn__read_literal(r);
    if (result == QN_LITERAL_bad) return QN_STEP_bad;
    if (kind == IS_ARGUMENTS && (r->has_arguments || (r->json.len && r->json.data[0] == '{'))) {
        r->has_arguments = true;
        if (!give_arguments(r)) return QN_STEP_bad;
    }
    if (result == QN_LITERAL_more) return QN_STEP_wait;
    r->step = BEHIND;
    if (kind == IS_NAME) return !r->announced && decoded(r, &r->name) ? QN_STEP_on : QN_STEP_bad;
    if (kind == IS_ID) qn__str_clear(&r->id);
    if (kind == IS_ID && r->json.data[0] == '"') decoded(r, &r->id);
    if (kind != IS_ARGUMENTS || r->has_arguments) return QN_STEP_on;
    r->has_arguments = true;
    return odd_arguments(r) && give_arguments(r) ? QN_STEP_on : QN_STEP_bad;
}

/* Behind the object's last bracket. */
static qn_step end_object(qn_chat_reader *r)
{
    qn__str_clear(&r->json);
    if (!r->has_arguments && r->found->bare) return QN_STEP_bad;
    if (!r->has_arguments) qn__str_puts(&r->json, "{}");
    if (!r->name.len || !give_arguments(r)) return QN_STEP_bad;
    qn__answer_id(&r->answer, r->id.data, r->id.len);
    return QN_STEP_done;
}

qn_step qn__read_json(qn_chat_reader *r)
{
    if (r->step == KEY_TEXT) return read_key(r);
    if (r->step == VALUE) return read_value(r);
    if (!qn__read_spaces(r)) return QN_STEP_wait;
    const qn_sym s = r->in[r->at];
    switch (r->step) {
    case BEGIN:
        if (!r->in_array && s != '{' && s != '[') return QN_STEP_bad;
        if (r->in_array && s != ',' && s != ']') return QN_STEP_bad;
        r->step = s == '{' ? KEY : OBJECT;
        r->in_array = s == '[' || s == ',';
        break;
    case OBJECT:
        if (s != '{') return QN_STEP_bad;
        r->step = KEY;
        break;
    case KEY:
        if (s != '"') return QN_STEP_bad;
        begin_literal(r, KEY_TEXT);
        return QN_STEP_on;
    case COLON:
        if (s != ':' || (r->has_arguments && kind_of_key(r) == IS_ARGUMENTS)) return QN_STEP_bad;
        begin_literal(r, VALUE);
        break;
    default: /* BEHIND */
        if (s != '}' && s != ',') return QN_STEP_bad;
        r->step = KEY;
    }
    const bool ends_array = r->step == OBJECT && s == ']', ends_object = r->step == KEY && s == '}';
    qn__read_take(r, 1);
    return ends_array ? QN_STEP_done : ends_object ? end_object(r) : QN_STEP_on;
}

/* ---- calls without a mark ------------------------------------------------------------------------------- */

qn_match qn__bare_match(const qn_chat_reader *r, size_t at, size_t *len)
{
    static const char tag[] = QN_BARE_TAG;
    const qn_sym *w = r->in + at;
    const size_t n = r->n_in - at;
    size_t used = 0;
    while (used < n && tag[used] && (w[used] & 0xFF) == (unsigned char)tag[used]) used++;
    if (used < n && tag[used]) used = 0;
    if (used && !tag[used])
        while (used < n && qn__sym_is_space(w[used]) && used < sizeof tag + QN_MARK_MAX_SPACE) used++;
    if (used == n) return r->end ? QN_NO_MATCH : QN_PART_MATCH;
    *len = used;
    return w[used] == '{' || w[used] == '[' ? QN_WHOLE_MATCH : QN_NO_MATCH;
}

bool qn__read_next_bare(qn_chat_reader *r, size_t spaces, bool *waits)
{
    const size_t left = r->n_in - r->at;
    size_t n = spaces;
    if (!r->found->bare || n == left || r->in[r->at + n] != ';') return false;
    for (n++; n < left && qn__sym_is_space(r->in[r->at + n]) && n < spaces + QN_MARK_MAX_SPACE;) n++;
    *waits = n == left && !r->end;
    if (n == left || r->in[r->at + n] != '{') return false;
    qn__read_begin_call(r);
    qn__read_take(r, n);
    return true;
}
