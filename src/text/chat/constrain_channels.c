/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain_channels.c -- turns made of messages with headers (gpt-oss), held while content is free: any
 * message may come, in any channel; one with a recipient is a call of a tool that there is. */
#include "text/chat/constrain.h"

/* What a header may have before the form of the content: <|channel|>commentary <|constrain|>json<|message|>. No
 * template shows it, since what they render of earlier turns lacks it. */
static const char form_mark[] = "<|constrain|>";

static qn_slice text_of(const qn_constrain *c, qn_mark_id id)
{
    return (qn_slice){c->found->marks[id].text, (size_t)c->found->marks[id].n_text};
}

/* The recipient's mark up to its last sign: what says that there is a recipient, whoever it is. */
static qn_slice sign_of(qn_slice recipient)
{
    const char *sign = memchr(recipient.s, '=', recipient.n);
    return sign ? (qn_slice){recipient.s, (size_t)(sign - recipient.s) + 1} : recipient;
}

/* Rules "words", a header's text between its marks, "inner", one of the marks, and "header", what stands behind the
 * first of them up to the next part that matters. */
static void header_rules(qn_constrain *c, qn_slice sign)
{
    const size_t n = sizeof form_mark - 1;
    const qn_token form = c->tok ? qn_tokenizer_find(c->tok, form_mark, n) : QN_TOKEN_NONE;
    const bool token = form != QN_TOKEN_NONE && qn_tokenizer_kind(c->tok, form) == QN_TOKEN_control;
    PUT(c, "\nwords ::= ");
    qn__put_without(c, sign, text_of(c, QN_MARK_message));
    PUT(c, "\ninner ::= ");
    qn__put_mark(c, QN_MARK_channel);
    PUT(c, "| ");
    if (token)
        PUT(c, "<[%d]> ", form);
    else
        qn__put_literal(c, form_mark, n, false);
    PUT(c, "\nheader ::= words ( inner words )* ");
}

/* Rule "call-to": behind the sign of a recipient, up to the end of the turn. */
static void call_rules(qn_constrain *c, const qn_constrain_tool *tools, int n, qn_slice rest, bool several)
{
    PUT(c, "\ncall-header ::= ( [ \\t\\r\\n] words | inner words )? ( inner words )* ");
    qn__put_mark(c, QN_MARK_message);
    PUT(c, "\ncall-to ::= ");
    qn__put_literal(c, rest.s, rest.n, false);
    PUT(c, "( ");
    for (int i = 0; i < n; i++) {
        if (i) PUT(c, "| ");
        qn__put_literal(c, tools[i].name.s->data, tools[i].name.s->n, false);
        PUT(c, "call-header j%d ", tools[i].arguments);
    }
    PUT(c, ") ");
    qn__put_last(c, QN_MARK_call_close);
    if (!several) return;
    PUT(c, "( ");
    qn__put_mark(c, QN_MARK_header);
    PUT(c, "messages )? ");
}

bool qn__channel_rules(qn_constrain *c, const qn_constrain_tool *tools, int n_tools, bool several)
{
    const qn_chat_reader *r = c->reader;
    const qn_slice recipient = text_of(c, QN_MARK_recipient), sign = sign_of(recipient),
                   end = text_of(c, QN_MARK_message_end);
    const bool within = r->state == QN_READ_content || r->state == QN_READ_reasoning;
    if ((!within && r->state != QN_READ_header) || !sign.n || !end.n) return false;
    if (r->in_header && r->raw.data && memmem(r->raw.data, r->raw.len, sign.s, sign.n)) return false;
    header_rules(c, sign);
    if (n_tools) call_rules(c, tools, n_tools, qn__skip(recipient, sign.n), several);
    /* behind a message's header */
    PUT(c, "\nbody ::= ");
    qn__put_until(c, end.s, end.n, true);
    if (!qn__is_eog_mark(c, end.s, end.n)) {
        PUT(c, "| ");
        qn__put_until(c, end.s, end.n, false);
        PUT(c, "( ");
        qn__put_mark(c, QN_MARK_header);
        PUT(c, "messages )? ");
    }
    /* behind the mark that begins a header */
    PUT(c, "\nbegun ::= header ");
    qn__put_mark(c, QN_MARK_message);
    PUT(c, "body ");
    if (n_tools) {
        PUT(c, "| header ");
        qn__put_literal(c, sign.s, sign.n, false);
        PUT(c, "call-to ");
    }
    PUT(c, "\nmessages ::= [ \\n]? ( ");
    qn__put_mark(c, QN_MARK_channel);
    PUT(c, "begun ");
    if (n_tools) {
        PUT(c, "| ");
        qn__put_literal(c, sign.s, sign.n, false);
        PUT(c, "call-to ");
    }
    PUT(c, ") \nnow ::= %s", within ? "body" : r->in_header ? "begun" : "messages");
    return true;
}
