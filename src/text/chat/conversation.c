/* SPDX-License-Identifier: MIT */
/* src/text/chat/conversation.c -- lists of messages (quern/messages.h). Each is kept as a line of JSON that was read
 * back once: what is in the list can be rendered, or is refused by the template alone. */
#include "base/str.h"
#include "text/chat/chat.h"
#include "text/utf8.h"

#include <quern/messages.h>

typedef struct message {
    char *json; /* one allocation: the object, and behind its NUL the role */
    const char *role;
} message;

struct qn_messages {
    message *items;
    size_t n, cap;
};

qn_status qn_messages_create(qn_messages **out, qn_error *err)
{
    qn_messages *m = qn__calloc(1, sizeof *m);
    if (!m) return QN_FAIL_NOMEM(err, sizeof *m);
    *out = m;
    return QN_OK;
}

void qn_messages_destroy(qn_messages *m)
{
    if (!m) return;
    qn_messages_truncate(m, 0);
    qn__free(m->items);
    qn__free(m);
}

void qn_messages_truncate(qn_messages *m, size_t n)
{
    while (m->n > n) qn__free(m->items[--m->n].json);
}

size_t qn_messages_count(const qn_messages *m) { return m->n; }
const char *qn_messages_role(const qn_messages *m, size_t i) { return i < m->n ? m->items[i].role : NULL; }
const char *qn_messages_get(const qn_messages *m, size_t i) { return i < m->n ? m->items[i].json : NULL; }

/* ---- adding -------------------------------------------------------------------------------------- */

static qn_status reserve(qn_messages *m, size_t more, qn_error *err)
{
    if (m->n + more <= m->cap) return QN_OK;
    const size_t cap = (m->n + more) * 2;
    message *items = qn__alloc(cap * sizeof *items);
    if (!items) return QN_FAIL_NOMEM(err, cap * sizeof *items);
    if (m->n) memcpy(items, m->items, m->n * sizeof *items);
    qn__free(m->items);
    m->items = items;
    m->cap = cap;
    return QN_OK;
}

/* A checked object as a message of the list's. */
static qn_status make(qn_heap *h, qn_val object, message *out)
{
    const qn_val role = qn__member(object, "role");
    qn_vbuf b = {.h = h};
    qn__print_json(&b, object, &(qn_json_style){.indent = -1});
    const qn_val text = qn__buf_val(&b);
    if (h->status != QN_OK) return h->status;
    char *json = qn__alloc((size_t)text.s->n + 1 + role.s->n + 1);
    if (!json) return QN_FAIL_NOMEM(h->err, text.s->n);
    memcpy(json, text.s->data, text.s->n);
    json[text.s->n] = '\0';
    memcpy(json + text.s->n + 1, role.s->data, role.s->n);
    json[text.s->n + 1 + role.s->n] = '\0';
    *out = (message){json, json + text.s->n + 1};
    return QN_OK;
}

/* What a template that knows everything would refuse is refused here. */
static void check(qn_heap *h, qn_val list)
{
    static const qn_chat_needs all = {.system = true,
                                      .late_system = true,
                                      .developer = true,
                                      .tools = true,
                                      .calls = true,
                                      .several_calls = true,
                                      .reasoning = "reasoning_content"};
    (void)qn__chat_messages(h, &all, list);
}

static qn_status add(qn_messages *m, qn_heap *h, qn_val list)
{
    const size_t before = m->n;
    check(h, list);
    qn_status status = h->status;
    if (status == QN_OK) status = reserve(m, list.l->n, h->err);
    for (uint32_t i = 0; status == QN_OK && i < list.l->n; i++) {
        status = make(h, list.l->items[i], &m->items[m->n]);
        m->n += status == QN_OK;
    }
    if (status != QN_OK) qn_messages_truncate(m, before);
    return status;
}

static qn_val list_of_one(qn_heap *h, qn_val one)
{
    qn_vlist *l = qn__list_new(h, QN_LIST_list, 1);
    if (l) qn__list_add(h, l, one);
    return l ? qn__of_list(l) : qn__none();
}

qn_status qn_messages_add_json(qn_messages *m, const char *json, qn_error *err)
{
    qn_heap h;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, err);
    qn_val v = qn__parse_json(&h, json, strlen(json), false);
    if (h.status == QN_STATUS_invalid) qn__prefix(err, h.status, "messages");
    if (h.status == QN_OK && v.type == QN_VAL_dict) v = list_of_one(&h, v);
    const qn_status status = h.status == QN_OK ? add(m, &h, v) : h.status;
    qn__jinja_heap_deinit(&h);
    return status;
}

/* Text as a value: what is no UTF-8 is replaced. */
static qn_val text_val(qn_heap *h, const char *text)
{
    const size_t n = strlen(text);
    if (qn__utf8_valid_prefix(text, n) == n) return qn__str_val(h, text, n, false);
    qn_str s = {0};
    qn_val v = qn__none();
    if (qn__utf8_repair(&s, text, n))
        v = qn__str_val(h, s.data, s.len, false);
    else
        qn__heap_fail(h, QN_STATUS_nomem, "out of memory for a text of %zu bytes", n);
    qn__str_deinit(&s);
    return v;
}

static qn_status add_text(qn_messages *m, const char *role, const char *id, const char *text, qn_error *err)
{
    qn_heap h;
    qn__jinja_heap_init(&h, &(qn_jinja_options){0}, err);
    qn_vdict *d = qn__dict_new(&h);
    if (d) qn__put(&h, d, "role", text_val(&h, role));
    if (d && id) qn__put(&h, d, "tool_call_id", text_val(&h, id));
    if (d) qn__put(&h, d, "content", text_val(&h, text));
    const qn_val list = d ? list_of_one(&h, qn__of_dict(d)) : qn__none();
    const qn_status status = h.status == QN_OK ? add(m, &h, list) : h.status;
    qn__jinja_heap_deinit(&h);
    return status;
}

qn_status qn_messages_add(qn_messages *m, const char *role, const char *text, qn_error *err)
{
    return add_text(m, role, NULL, text, err);
}

qn_status qn_messages_add_result(qn_messages *m, const char *id, const char *text, qn_error *err)
{
    return add_text(m, "tool", id, text, err);
}

qn_status qn_messages_set(qn_messages *m, size_t i, const char *role, const char *text, qn_error *err)
{
    if (i >= m->n) return QN_FAIL(err, invalid, "there is no message %zu, there are %zu", i, m->n);
    QN_TRY(add_text(m, role, NULL, text, err));
    const message old = m->items[i];
    m->items[i] = m->items[m->n - 1];
    m->items[m->n - 1] = old;
    qn_messages_truncate(m, m->n - 1);
    return QN_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

static bool is_system(const message *m) { return strcmp(m->role, "system") == 0 || strcmp(m->role, "developer") == 0; }

qn_status qn_messages_json(const qn_messages *m, size_t first, char **out, qn_error *err)
{
    qn_str s = {0};
    bool leading = true, any = false;
    qn__str_putc(&s, '[');
    for (size_t i = 0; i < m->n; i++) {
        leading = leading && is_system(&m->items[i]);
        if (!leading && i < first) continue;
        if (any) qn__str_puts(&s, ", ");
        qn__str_puts(&s, m->items[i].json);
        any = true;
    }
    qn__str_putc(&s, ']');
    const size_t len = s.len;
    *out = s.failed ? NULL : qn__str_take(&s, NULL);
    if (*out) return QN_OK;
    qn__str_deinit(&s);
    return QN_FAIL_NOMEM(err, len);
}
