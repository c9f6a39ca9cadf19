/* SPDX-License-Identifier: MIT */
/* src/text/chat/read_channels.c -- turns made of messages with headers (gpt-oss): <|channel|>NAME to=functions.TOOL
 * <|constrain|>json<|message|>. The channel tells reasoning from content, a recipient makes it a call; both stand in
 * any order, and a header that says neither is content. */
#include "text/chat/reader.h"

#define MAX_HEADER 512

static qn_match here(const qn_chat_reader *r, qn_mark_id id, size_t at, size_t *len)
{
    const qn_mark *m = &r->marks[id];
    return !m->n ? QN_NO_MATCH : qn__mark_match(m, r->in + r->at + at, r->n_in - r->at - at, r->end, "", 0, len, NULL);
}

/* Up to white space or a mark. */
static size_t word(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && s[i] != '<' && !qn__sym_is_space((unsigned char)s[i])) i++;
    return i;
}

/* What stands behind a mark in the header, or behind the mark's text up to `last`. */
static const char *behind(const qn_chat_reader *r, qn_mark_id id, char last, const char *header)
{
    const qn_mark *m = &r->marks[id];
    char text[128];
    int n = 0;
    if (!m->n || m->n >= (int)sizeof text) return NULL;
    for (; n < m->n && (!n || text[n - 1] != last); n++) text[n] = (char)(m->s[n] & 0xFF);
    text[n] = '\0';
    const char *hit = strstr(header, text);
    return hit ? hit + n : NULL;
}

/* What a whole header in r->raw leads to; the mark that ends it is taken. */
static qn_step end_header(qn_chat_reader *r)
{
    const char *header = r->raw.data, *end = header + r->raw.len;
    const char *channel = behind(r, QN_MARK_channel, 0, header), *recipient = behind(r, QN_MARK_recipient, 0, header);
    if (recipient && r->tools.type == QN_VAL_list) {
        qn__read_begin_call(r);
        qn__str_append(&r->name, recipient, word(recipient, (size_t)(end - recipient)));
        qn__literal_init(&r->literal, QN_LITERAL_json, false);
        return qn__read_announce(r) ? QN_STEP_on : QN_STEP_bad;
    }
    if (!channel || behind(r, QN_MARK_recipient, '=', header)) return QN_STEP_bad; /* to somebody else */
    const size_t n = word(channel, (size_t)(end - channel));
    const char *thought = r->found->thought_channel;
    r->state = n == strlen(thought) && memcmp(channel, thought, n) == 0 ? QN_READ_reasoning : QN_READ_content;
    r->lead = true;
    r->at_start = false;
    qn__str_clear(&r->raw);
    return QN_STEP_on;
}

/* Between messages: what begins a header, or content without one. */
qn_step qn__read_header(qn_chat_reader *r)
{
    static const qn_mark_id begins[] = {QN_MARK_channel, QN_MARK_recipient},
                            between[] = {QN_MARK_header, QN_MARK_message_end, QN_MARK_call_close};
    size_t len;
    bool part = false;
    if (!qn__read_spaces(r)) return QN_STEP_wait;
    for (size_t i = 0; i < sizeof between / sizeof *between && !r->in_header; i++) {
        const qn_match m = here(r, between[i], 0, &len);
        part |= m == QN_PART_MATCH;
        if (m != QN_WHOLE_MATCH) continue;
        r->at += len;
        qn__str_clear(&r->raw);
        return QN_STEP_on;
    }
    for (size_t i = 0; i < sizeof begins / sizeof *begins && !r->in_header; i++) {
        const qn_match m = here(r, begins[i], 0, &len);
        part |= m == QN_PART_MATCH;
        r->in_header |= m == QN_WHOLE_MATCH;
    }
    if (!r->in_header) return part ? QN_STEP_wait : QN_STEP_bad;
    const qn_match m = here(r, QN_MARK_message, 0, &len);
    if (m == QN_PART_MATCH) return QN_STEP_wait;
    qn__read_take(r, m == QN_WHOLE_MATCH ? len : 1);
    if (m == QN_WHOLE_MATCH) r->in_header = false;
    return m == QN_WHOLE_MATCH ? end_header(r) : r->raw.len > MAX_HEADER ? QN_STEP_bad : QN_STEP_on;
}

/* The arguments; a call's name stands in its header. */
qn_step qn__read_channels(qn_chat_reader *r) { return qn__read_arguments(r, '{'); }
