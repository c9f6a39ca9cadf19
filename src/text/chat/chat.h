/* SPDX-License-Identifier: MIT */
/* src/text/chat/chat.h -- what the parts of quern/chat.h share: messages brought into the form that a template wants
 * (messages.c), what it wants (probe.c), rendering (render.c), and what is learnt from conversations (samples.c). */
#ifndef QN_TEXT_CHAT_CHAT_H
#define QN_TEXT_CHAT_CHAT_H

#include "text/jinja/jinja.h"

#include <quern/chat.h>

/* Parsed messages -> those that a template with these needs is given. Raises in h. */
qn_val qn__chat_messages(qn_heap *h, const qn_chat_needs *needs, qn_val messages);
qn_val qn__chat_tools(qn_heap *h, const qn_chat_needs *needs, qn_val tools);
/* Renders messages that are in the template's form already, with the variables of `options`. */
qn_val qn__chat_run(const qn_chat_template *t, qn_heap *h, qn_val messages, qn_val tools,
                    const qn_chat_options *options);
/* The same with further variables (a dict, or absent), and a note of what is generated (NULL: none). */
qn_val qn__chat_run_with(const qn_chat_template *t, qn_heap *h, qn_val messages, qn_val tools,
                         const qn_chat_options *options, qn_val kwargs, qn_jinja_spans *generated);
/* A string as a prompt: a copy, and its bytes that are not trusted as spans. */
qn_status qn__chat_take(const qn_vstr *s, qn_prompt *out, qn_error *err);
/* "chatml" or "plain"; invalid for another name. */
qn_status qn__chat_built_in(const char *name, qn_chat_template **out, qn_error *err);
void qn__chat_probe(qn_chat_template *t);

static inline void qn__put(qn_heap *h, qn_vdict *d, const char *key, qn_val v)
{
    qn__dict_set(h, d, qn__text_val(h, key), v);
}
/* The member of a dict, absent where it has none or null. */
static inline qn_val qn__member(qn_val of, const char *key)
{
    qn_val v;
    return of.type == QN_VAL_dict && qn__dict_find(of.d, key, &v) && v.type != QN_VAL_none ? v : qn__absent();
}

#endif
