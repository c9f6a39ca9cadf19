/* SPDX-License-Identifier: MIT */
/* src/text/chat/messages.c -- messages as clients send them, checked, and brought into the form that a template wants.
 */
#include "text/chat/chat.h"

#include <stdio.h>

#define WHERE 96

static qn_val nothing(void) { return (qn_val){.type = QN_VAL_undefined}; }

/* Roles that templates know. Their names are trusted: some templates make control tokens of them ('<|' + role + '|>').
 */
static qn_val trusted_role(qn_heap *h, qn_val role)
{
    static const char *const known[] = {"system", "developer", "user", "assistant", "tool", "function", "ipython"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (qn__str_is(role, known[i])) return qn__text_val(h, known[i]);
    return role;
}

static bool has_role(qn_val message, const char *role) { return qn__str_is(qn__member(message, "role"), role); }

/* ---- content ----------------------------------------------------------------------------------- */

/* Text, null or parts -> text; absent where there is none. */
static qn_val text_of(qn_heap *h, qn_val content, const char *where)
{
    if (!qn__given(content) || qn__is_str(content)) return content;
    if (content.type != QN_VAL_list)
        return QN_RAISE(h, "%s.content: found %s, expected text, null or a list of parts", where,
                        qn__type_name(content));
    qn_vbuf b = {.h = h};
    for (uint32_t i = 0; i < content.l->n; i++) {
        const qn_val part = content.l->items[i], type = qn__member(part, "type"), text = qn__member(part, "text");
        if (qn__is_str(part)) {
            qn__buf_str(&b, part.s);
        } else if (part.type == QN_VAL_dict && qn__is_str(text) &&
                   (!qn__given(type) || (qn__is_str(type) && strstr(type.s->data, "text")))) {
            qn__buf_str(&b, text.s);
        } else {
            return QN_RAISE(h, "%s.content[%u]: found a part of type \"%.40s\"; only text can be given to this model",
                            where, i, qn__is_str(type) ? type.s->data : "?");
        }
    }
    return qn__buf_val(&b);
}

static qn_val as_parts(qn_heap *h, qn_val text)
{
    qn_vlist *l = qn__list_new(h, QN_LIST_list, 1);
    qn_vdict *part = qn__dict_new(h);
    if (!l || !part) return nothing();
    qn__put(h, part, "type", qn__text_val(h, "text"));
    qn__put(h, part, "text", text);
    qn__list_add(h, l, qn__of_dict(part));
    return qn__of_list(l);
}

static qn_val joined(qn_heap *h, qn_val a, qn_val b)
{
    qn_vbuf text = {.h = h};
    if (qn__is_str(a)) qn__buf_str(&text, a.s);
    if (qn__is_str(a) && a.s->n && qn__is_str(b) && b.s->n) qn__buf_puts(&text, "\n\n");
    if (qn__is_str(b)) qn__buf_str(&text, b.s);
    return qn__buf_val(&text);
}

/* ---- calls ------------------------------------------------------------------------------------- */

static qn_val arguments_of(qn_heap *h, qn_val given, bool as_text, const char *where)
{
    qn_val v = given;
    if (qn__is_str(v) && v.s->n) {
        v = qn__parse_json(h, v.s->data, v.s->n, v.s->trust == QN_TRUST_all);
        if (h->status == QN_STATUS_invalid) qn__prefix(h->err, h->status, "%s.function.arguments", where);
    }
    const bool lacks = !qn__given(v) || v.type == QN_VAL_none || (qn__is_str(v) && !v.s->n);
    if (h->status == QN_OK && lacks) {
        qn_vdict *none = qn__dict_new(h);
        v = none ? qn__of_dict(none) : nothing();
    }
    if (h->status != QN_OK) return nothing();
    if (v.type != QN_VAL_dict)
        return QN_RAISE(h, "%s.function.arguments: found %s, expected an object or its JSON text", where,
                        qn__type_name(v));
    if (!as_text) return v;
    if (qn__is_str(given) && !lacks) return given;
    qn_vbuf b = {.h = h};
    qn__print_json(&b, v, &(qn_json_style){.indent = -1});
    return qn__buf_val(&b);
}

/* Nine letters and digits that follow from the id. */
static qn_val short_id(qn_heap *h, qn_val id)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char out[9];
    bool fits = qn__is_str(id) && id.s->n == 9;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; qn__is_str(id) && i < id.s->n; i++) {
        const unsigned char c = (unsigned char)id.s->data[i];
        fits = fits && ((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'));
        hash = (hash ^ c) * UINT64_C(0x100000001b3);
    }
    if (fits) return id;
    for (int i = 0; i < 9; i++, hash /= 36) out[i] = letters[hash % 36];
    return qn__str_val(h, out, sizeof out, true);
}

static qn_val id_of(qn_heap *h, const qn_chat_needs *needs, qn_val given)
{
    return needs->short_ids && qn__given(given) ? short_id(h, given) : given;
}

static const char *found(qn_val v) { return qn__given(v) ? qn__type_name(v) : "nothing"; }

static qn_val call_of(qn_heap *h, const qn_chat_needs *needs, qn_val call, uint32_t i, const char *where)
{
    const qn_val function = qn__member(call, "function"), name = qn__member(function, "name");
    char at[WHERE + 32];
    snprintf(at, sizeof at, "%s.tool_calls[%u]", where, i);
    if (!qn__is_str(name))
        return QN_RAISE(h, "%s.function.name: found %s, expected the name of a tool", at, found(name));
    qn_vdict *out = qn__dict_new(h), *f = qn__dict_new(h);
    if (!out || !f) return nothing();
    const qn_val id = id_of(h, needs, qn__member(call, "id"));
    if (qn__given(id)) qn__put(h, out, "id", id);
    qn__put(h, out, "type", qn__text_val(h, "function"));
    qn__put(h, f, "name", name);
    qn__put(h, f, "arguments", arguments_of(h, qn__member(function, "arguments"), needs->arguments_text, at));
    qn__put(h, out, "function", qn__of_dict(f));
    return qn__of_dict(out);
}

/* ---- one message ------------------------------------------------------------------------------- */

static void copy_rest(qn_heap *h, qn_vdict *to, const qn_vdict *from)
{
    static const char *const own[] = {"role",     "content",   "tool_calls",       "tool_call_id",
                                      "thinking", "reasoning", "reasoning_content"};
    for (uint32_t i = 0; i < from->n; i++) {
        bool known = from->values[i].type == QN_VAL_none;
        for (size_t k = 0; k < sizeof own / sizeof *own; k++) known |= qn__str_is(from->keys[i], own[k]);
        if (!known) qn__dict_set(h, to, from->keys[i], from->values[i]);
    }
}

static qn_val message_of(qn_heap *h, const qn_chat_needs *needs, qn_val message, uint32_t i)
{
    static const char *const fields[] = {"reasoning_content", "reasoning", "thinking"};
    char where[WHERE];
    snprintf(where, sizeof where, "messages[%u]", i);
    const qn_val role = qn__member(message, "role"), calls = qn__member(message, "tool_calls");
    if (message.type != QN_VAL_dict)
        return QN_RAISE(h, "%s: found %s, expected an object", where, qn__type_name(message));
    if (!qn__is_str(role))
        return QN_RAISE(h, "%s.role: found %s, expected \"user\", \"assistant\" ..", where, found(role));
    if (qn__given(calls) && calls.type != QN_VAL_list)
        return QN_RAISE(h, "%s.tool_calls: found %s, expected a list", where, qn__type_name(calls));
    qn_vdict *d = qn__dict_new(h);
    if (!d) return nothing();
    qn__put(h, d, "role", trusted_role(h, role));
    qn_val content = text_of(h, qn__member(message, "content"), where);
    if (h->status != QN_OK) return nothing();
    const bool has_calls = qn__given(calls) && calls.l->n > 0;
    qn_val thought = qn__absent();
    for (size_t k = 0; k < sizeof fields / sizeof *fields && needs->reasoning && !qn__is_str(thought); k++)
        thought = qn__member(message, fields[k]);
    const bool thinks = qn__is_str(thought), either = has_calls && thinks && thought.s->n && needs->thought_or_content;
    if (!qn__given(content) || either) content = qn__text_val(h, "");
    if (has_calls && content.s->n == 0 && needs->call_content_null)
        content = qn__none();
    else if (needs->content_parts)
        content = as_parts(h, content);
    qn__put(h, d, "content", content);
    if (thinks) qn__put(h, d, needs->reasoning, thought);
    if (has_calls) {
        qn_vlist *l = qn__list_new(h, QN_LIST_list, calls.l->n);
        for (uint32_t k = 0; k < calls.l->n && h->status == QN_OK; k++)
            qn__list_add(h, l, call_of(h, needs, calls.l->items[k], k, where));
        if (l) qn__put(h, d, "tool_calls", qn__of_list(l));
    }
    const qn_val id = id_of(h, needs, qn__member(message, "tool_call_id"));
    if (qn__given(id)) qn__put(h, d, "tool_call_id", id);
    copy_rest(h, d, message.d);
    return qn__of_dict(d);
}

/* ---- the conversation -------------------------------------------------------------------------- */

/* A tool's result gets the name of the tool, which many templates show, from the call with its id. */
static void name_results(qn_heap *h, qn_vlist *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        const qn_val id = qn__member(l->items[i], "tool_call_id");
        if (!has_role(l->items[i], "tool") || !qn__given(id) || qn__given(qn__member(l->items[i], "name"))) continue;
        for (uint32_t k = i; k-- > 0;) {
            const qn_val calls = qn__member(l->items[k], "tool_calls");
            for (uint32_t c = 0; qn__given(calls) && c < calls.l->n; c++)
                if (qn__val_equal(qn__member(calls.l->items[c], "id"), id)) {
                    const qn_val name = qn__member(qn__member(calls.l->items[c], "function"), "name");
                    qn__put(h, l->items[i].d, "name", name);
                    k = 0;
                    break;
                }
        }
    }
}

static qn_val plain_content(qn_val message)
{
    const qn_val content = qn__member(message, "content");
    return content.type == QN_VAL_list && content.l->n ? qn__member(content.l->items[0], "text") : content;
}

static void set_content(qn_heap *h, const qn_chat_needs *needs, qn_val message, qn_val text)
{
    qn__put(h, message.d, "content", needs->content_parts ? as_parts(h, text) : text);
}

/* System turns that stand too late, or have no place at all, go into an earlier one. */
static qn_vlist *place_system(qn_heap *h, const qn_chat_needs *needs, const qn_vlist *from)
{
    qn_vlist *l = qn__list_new(h, QN_LIST_list, from->n + 1);
    qn_val first = qn__absent(), text = qn__absent();
    for (uint32_t i = 0; l && i < from->n; i++) {
        const qn_val m = from->items[i];
        if (has_role(m, "developer") && !needs->developer) qn__put(h, m.d, "role", qn__text_val(h, "system"));
        const bool system = has_role(m, "system");
        if (!system || (needs->system && (needs->late_system || l->n == 0))) {
            if (system && l->n == 0) first = m;
            qn__list_add(h, l, m);
            continue;
        }
        text = joined(h, text, plain_content(m));
    }
    if (!l || !qn__given(text)) return l;
    if (needs->system && qn__given(first)) {
        set_content(h, needs, first, joined(h, plain_content(first), text));
        return l;
    }
    if (needs->system) { /* a turn of its own, before all */
        qn_vdict *d = qn__dict_new(h);
        qn_vlist *all = qn__list_new(h, QN_LIST_list, l->n + 1);
        if (!d || !all) return NULL;
        qn__put(h, d, "role", qn__text_val(h, "system"));
        set_content(h, needs, qn__of_dict(d), text);
        qn__list_add(h, all, qn__of_dict(d));
        for (uint32_t i = 0; i < l->n; i++) qn__list_add(h, all, l->items[i]);
        return all;
    }
    for (uint32_t i = 0; i < l->n; i++)
        if (has_role(l->items[i], "user")) {
            set_content(h, needs, l->items[i], joined(h, text, plain_content(l->items[i])));
            return l;
        }
    qn_vdict *d = qn__dict_new(h); /* nobody else said anything */
    if (!d) return NULL;
    qn__put(h, d, "role", qn__text_val(h, "user"));
    set_content(h, needs, qn__of_dict(d), text);
    qn__list_add(h, l, qn__of_dict(d));
    return l;
}

/* A turn with several calls becomes turns with one, each followed by its result. */
static qn_vlist *one_call_a_turn(qn_heap *h, const qn_chat_needs *needs, const qn_vlist *from)
{
    qn_vlist *l = qn__list_new(h, QN_LIST_list, from->n);
    bool *used = qn__heap_alloc(h, from->n + 1);
    for (uint32_t i = 0; l && used && i < from->n && h->status == QN_OK; i++) {
        const qn_val m = from->items[i], calls = qn__member(m, "tool_calls");
        if (used[i]) continue;
        if (!qn__given(calls) || calls.l->n < 2) {
            qn__list_add(h, l, m);
            continue;
        }
        for (uint32_t k = 0; k < calls.l->n && h->status == QN_OK; k++) {
            qn_vdict *turn = qn__dict_new(h);
            qn_vlist *one = qn__list_new(h, QN_LIST_list, 1);
            if (!turn || !one) return NULL;
            for (uint32_t f = 0; f < m.d->n; f++) qn__dict_set(h, turn, m.d->keys[f], m.d->values[f]);
            qn__list_add(h, one, calls.l->items[k]);
            qn__put(h, turn, "tool_calls", qn__of_list(one));
            if (k) set_content(h, needs, qn__of_dict(turn), qn__text_val(h, ""));
            if (k && needs->call_content_null) qn__put(h, turn, "content", qn__none());
            qn__list_add(h, l, qn__of_dict(turn));
            const qn_val id = qn__member(calls.l->items[k], "id");
            for (uint32_t r = i + 1; r < from->n && has_role(from->items[r], "tool"); r++) {
                const qn_val of = qn__member(from->items[r], "tool_call_id");
                if (used[r] || (qn__given(of) && qn__given(id) && !qn__val_equal(of, id))) continue;
                qn__list_add(h, l, from->items[r]);
                used[r] = true;
                break;
            }
        }
    }
    return l;
}

qn_val qn__chat_messages(qn_heap *h, const qn_chat_needs *needs, qn_val messages)
{
    if (h->status != QN_OK) return nothing();
    if (messages.type != QN_VAL_list)
        return QN_RAISE(h, "messages: found %s, expected a list", qn__type_name(messages));
    if (messages.l->n == 0) return QN_RAISE(h, "messages: the list is empty, expected at least one message");
    qn_vlist *l = qn__list_new(h, QN_LIST_list, messages.l->n);
    for (uint32_t i = 0; l && i < messages.l->n && h->status == QN_OK; i++)
        qn__list_add(h, l, message_of(h, needs, messages.l->items[i], i));
    if (h->status != QN_OK) return nothing();
    name_results(h, l);
    l = place_system(h, needs, l);
    if (l && !needs->several_calls) l = one_call_a_turn(h, needs, l);
    return l && h->status == QN_OK ? qn__of_list(l) : nothing();
}

/* Of several types the first that is not null: for templates that can't show a list of them. */
static qn_val one_type(qn_val types)
{
    for (uint32_t i = 0; i < types.l->n; i++)
        if (!qn__str_is(types.l->items[i], "null")) return types.l->items[i];
    return types;
}

/* Without members that are null: clients send "description": null, and templates join it to text. */
static qn_val tidied(qn_heap *h, const qn_chat_needs *needs, qn_val v, int depth)
{
    if (depth > 100 || h->status != QN_OK) return v;
    if (v.type == QN_VAL_list) {
        qn_vlist *l = qn__list_new(h, QN_LIST_list, v.l->n);
        for (uint32_t i = 0; l && i < v.l->n; i++) qn__list_add(h, l, tidied(h, needs, v.l->items[i], depth + 1));
        return l ? qn__of_list(l) : nothing();
    }
    if (v.type != QN_VAL_dict) return v;
    qn_vdict *d = qn__dict_new(h);
    for (uint32_t i = 0; d && i < v.d->n; i++) {
        const qn_val key = v.d->keys[i], value = v.d->values[i];
        if (value.type == QN_VAL_none) continue;
        const bool types = needs->single_types && value.type == QN_VAL_list && qn__str_is(key, "type");
        qn__dict_set(h, d, key, types ? one_type(value) : tidied(h, needs, value, depth + 1));
    }
    return d ? qn__of_dict(d) : nothing();
}

static void put_absent(qn_heap *h, qn_vdict *d, const char *key, qn_val v)
{
    if (!qn__dict_find(d, key, &(qn_val){0})) qn__put(h, d, key, v);
}

/* A tool with all that a template may join to text without asking whether it is there. */
static void complete(qn_heap *h, qn_vdict *tool)
{
    qn_val parameters = qn__member(qn__of_dict(tool), "parameters");
    put_absent(h, tool, "description", qn__text_val(h, ""));
    if (parameters.type != QN_VAL_dict) {
        qn_vdict *d = qn__dict_new(h);
        if (!d) return;
        parameters = qn__of_dict(d);
        put_absent(h, tool, "parameters", parameters);
    }
    qn_vdict *properties = qn__dict_new(h);
    if (!properties) return;
    put_absent(h, parameters.d, "type", qn__text_val(h, "object"));
    put_absent(h, parameters.d, "properties", qn__of_dict(properties));
}

qn_val qn__chat_tools(qn_heap *h, const qn_chat_needs *needs, qn_val tools)
{
    if (!qn__given(tools) || tools.type == QN_VAL_none || h->status != QN_OK) return qn__none();
    if (tools.type != QN_VAL_list) return QN_RAISE(h, "tools: found %s, expected a list", qn__type_name(tools));
    if (!tools.l->n) return qn__none();
    qn_vlist *l = qn__list_new(h, QN_LIST_list, tools.l->n);
    for (uint32_t i = 0; l && i < tools.l->n && h->status == QN_OK; i++) {
        const qn_val tool = tools.l->items[i], function = qn__member(tool, "function");
        const qn_val named = qn__given(function) ? function : tool;
        const qn_val name = qn__member(named, "name");
        if (!qn__is_str(name))
            return QN_RAISE(h, "tools[%u].function.name: found %s, expected the name of a tool", i, found(name));
        qn_val out = tidied(h, needs, named, 0);
        if (needs->whole_tools && out.type == QN_VAL_dict) complete(h, out.d);
        if (!needs->flat_tools) {
            qn_vdict *d = qn__dict_new(h);
            if (!d) return nothing();
            qn__put(h, d, "type", qn__text_val(h, "function"));
            qn__put(h, d, "function", out);
            out = qn__of_dict(d);
        }
        qn__list_add(h, l, out);
    }
    return l ? qn__of_list(l) : nothing();
}
