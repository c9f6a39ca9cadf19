/* SPDX-License-Identifier: MIT */
/* quern/chat.h -- conversations: from messages to the text that a model reads, and from what it says to a message.
 *
 *     qn_chat_template *t; qn_prompt prompt; qn_token *ids; size_t n;
 *     qn_chat_template_load(qn_engine_file(engine), NULL, &t, &err);
 *     qn_chat_render(t, "[{\"role\": \"user\", \"content\": \"Hello\"}]", NULL, &prompt, &err);
 *     qn_prompt_tokenize(&prompt, qn_engine_tokenizer(engine), &ids, &n, &err);
 *
 * Messages, tools and options are JSON text, as OpenAI's clients send it: {"role", "content" (text, null or parts),
 * "tool_calls", "tool_call_id", "name", "reasoning_content"}. A member that is null is absent.
 *
 * Templates differ in what they want: arguments of a call as an object or as text, content as text or as parts, system
 * turns or none, one call a turn or several, reasoning under this name or that. What a template wants is found out by
 * rendering small conversations when it is loaded, and messages are brought into that form before they are rendered.
 *
 * Nothing can be forged: of each byte of a prompt it is known whether the template wrote it or a message, a tool or an
 * option; only what the template wrote can become a control token. */
#ifndef QUERN_CHAT_H
#define QUERN_CHAT_H

#include <quern/base.h>
#include <quern/gguf.h>
#include <quern/grammar.h>
#include <quern/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- templates ------------------------------------------------------------------------------- */

/* A compiled template (the Jinja that model files carry) and what it wants. Immutable: any number of threads render. */
typedef struct qn_chat_template qn_chat_template;

/* format, with line and column, for what is no template or uses what is not there (import, include, extends, an unknown
 * filter or test). The source is copied. */
QN_API qn_status qn_chat_template_create(const char *source, size_t len, qn_chat_template **out, qn_error *err);
/* The template of a file: tokenizer.chat_template, or tokenizer.chat_template.NAME (tool_use, rag ..). A file without
 * one gets the built-in "chatml" where its vocabulary has <|im_start|>, else "plain"; these two can be asked for by
 * name. invalid for another name that the file does not have. */
QN_API qn_status qn_chat_template_load(const qn_gguf *file, const char *name, qn_chat_template **out, qn_error *err);
QN_API void qn_chat_template_destroy(qn_chat_template *t);
/* Borrowed; terminated. */
QN_API const char *qn_chat_template_source(const qn_chat_template *t);

/* What the template puts around the model's thoughts, white space included; borrowed, not terminated. False where that
 * was not found out, or thoughts are messages of their own. */
QN_API bool qn_chat_template_thoughts(const qn_chat_template *t, qn_gguf_str *before, qn_gguf_str *behind);

/* What was found out. */
typedef struct qn_chat_needs {
    const char *origin;      /* "file", the name that was asked for, "chatml", "plain", or "source" */
    bool system;             /* system turns appear; otherwise their text goes before that of the first user's turn */
    bool late_system;        /* .. in mid-conversation too; otherwise they are joined to the first */
    bool developer;          /* the role developer appears; otherwise it becomes system */
    bool content_parts;      /* content must be a list of parts */
    bool tools;              /* names of tools appear */
    bool flat_tools;         /* .. when a tool is its function object, without {"type", "function"} around it */
    bool single_types;       /* .. and the type of a parameter is one, not a list */
    bool whole_tools;        /* .. and each has a description and parameters; those it lacks are given empty */
    bool empty_tools;        /* a conversation without tools is given an empty list of them, not none */
    bool calls;              /* calls of earlier turns appear */
    bool several_calls;      /* .. several in one turn; otherwise each gets a turn of its own */
    bool arguments_text;     /* arguments must be JSON text, not an object */
    bool call_content_null;  /* content beside calls must be null, not "" */
    bool short_ids;          /* ids of calls must have nine letters and digits (Mistral) */
    const char *reasoning;   /* the member that reasoning of earlier turns is read from; NULL: it does not appear */
    bool thinking_switch;    /* a prompt with enable_thinking and thinking is another one than with both off */
    const char *syntax;      /* how it writes calls (docs/CHAT.md); NULL: none was found */
    const char *call_open;   /* the mark that a call begins with; "" where it begins with nothing but the call */
    bool effort_switch;      /* a prompt with the reasoning_effort "low" is another one than with "high" */
    bool thought_or_content; /* of a turn with calls, reasoning or content but not both; then content is left out */
} qn_chat_needs;
QN_API void qn_chat_template_needs(const qn_chat_template *t, qn_chat_needs *out);

/* ---- rendering ------------------------------------------------------------------------------- */

typedef struct qn_chat_options {
    const char *tools;            /* JSON array of tools as OpenAI's; NULL: none */
    const char *documents;        /* JSON array, for templates that know documents; NULL: none */
    const char *kwargs;           /* JSON object of further variables (chat_template_kwargs); NULL: none */
    bool no_generation_prompt;    /* does not begin an assistant's turn at the end */
    bool continue_final_message;  /* the prompt ends with the last message's content, for the model to go on with */
    int thinking;                 /* > 0 on, < 0 off, 0: as the template has it: enable_thinking and thinking */
    const char *reasoning_effort; /* "low", "medium", "high"; NULL: as the template has it */
    const char *bos, *eos;        /* text of the vocabulary's tokens; NULL: empty */
    int64_t now;                  /* seconds since 1970 for templates that show the date, in UTC; 0: now, local time */
} qn_chat_options;

/* A text and which parts of it are not the template's. Freed with qn_prompt_deinit. */
typedef struct qn_prompt {
    char *text; /* terminated */
    size_t len;
    qn_span *plain; /* [n_plain] ascending: what came from messages, tools and options */
    size_t n_plain;
} qn_prompt;

/* messages: a JSON array. options may be NULL. On failure `out` is untouched: invalid where messages are not what they
 * should be (the text names the place, "messages[2].tool_calls[0].function.name: ..."); cancelled with the template's
 * own words where it refuses the conversation; limit for what would take more than 64 MiB or 10 million steps. */
QN_API qn_status qn_chat_render(const qn_chat_template *t, const char *messages, const qn_chat_options *options,
                                qn_prompt *out, qn_error *err);
QN_API void qn_prompt_deinit(qn_prompt *prompt);
/* The ids that the model reads: control tokens only where the template wrote them; the beginning-of-sequence token that
 * the file asks for unless the prompt begins with it. *out is freed with qn_free. */
QN_API qn_status qn_prompt_tokenize(const qn_prompt *prompt, const qn_tokenizer *tok, qn_token **out, size_t *n,
                                    qn_error *err);

/* ---- conversations to learn from ------------------------------------------------------------- */

/* A text that a model reads, and which bytes of it the assistant says: content, reasoning, calls, and the end of the
 * turn with whatever the template puts behind it. */
typedef struct qn_chat_sample {
    qn_prompt prompt;
    qn_span *said; /* [n_said] ascending */
    size_t n_said;
} qn_chat_sample;

/* conversation: a JSON object {"messages", "tools", "chat_template_kwargs"}, the last two if it has any: a line of a
 * file as OpenAI takes them for fine-tuning. A turn of the assistant's with "weight": 0 is not said. options may be
 * NULL; its tools count for nothing.
 *
 * What is said lies in the template's {% generation %} blocks, where it has one a turn. Otherwise it is what rendering
 * up to and with a turn has beyond the prompt for that turn. A template that shows earlier turns in another form gives
 * several samples: each turn is learnt in the form that it has when it is the last.
 *
 * *out is freed with qn_chat_samples_destroy. Fails as qn_chat_render does, and with invalid where the assistant says
 * nothing, or the template does not show tools or calls that are there. */
QN_API qn_status qn_chat_samples_create(const qn_chat_template *t, const char *conversation, size_t len,
                                        const qn_chat_options *options, qn_chat_sample **out, size_t *n, qn_error *err);
QN_API void qn_chat_samples_destroy(qn_chat_sample *samples, size_t n);

/* ---- reading an answer ------------------------------------------------------------------------- */

/* What a model says: reasoning, content and calls of tools, taken apart as it comes, in the syntax of its template
 * (qn_chat_needs.syntax; docs/CHAT.md shows them all).
 *
 *     qn_chat_reader *r; const qn_chat_event *e; size_t n;
 *     qn_chat_reader_create(t, tokenizer, tools, &prompt, &r, &err);
 *     while (.. a token ..) {
 *         qn_chat_reader_token(r, token, &e, &n, &err);
 *         for (size_t i = 0; i < n; i++)
 *             if (e[i].kind == QN_CHAT_content) fwrite(e[i].text, 1, e[i].len, stdout);
 *     }
 *     qn_chat_reader_finish(r, false, &e, &n, &err);
 *     qn_chat_reader_message(r, &json, &err);
 *
 * What cannot be read is content: no output is an error, and none is lost. A mark (<think>, <tool_call> ..) that the
 * vocabulary has as a token counts only as that token, so that a model can write about it; another counts as text. */
typedef struct qn_chat_reader qn_chat_reader;

typedef enum qn_chat_event_kind {
    QN_CHAT_content,   /* the next piece of the answer */
    QN_CHAT_reasoning, /* .. of the thoughts before it */
    QN_CHAT_call,      /* a call begins: the name of the tool, whole; its number is `call` */
    QN_CHAT_arguments, /* the next piece of its arguments' JSON text; also after other events than its own */
    QN_CHAT_call_end,  /* the call is whole: its arguments are a JSON object */
    QN_CHAT_no_call,   /* call `call` is broken and counts as none: its text follows as content, the next call gets its
                        * number. Whoever showed it already takes it back, or leaves it as it is */
    QN_CHAT_call_cut   /* the output was cut within call `call` */
} qn_chat_event_kind;

typedef struct qn_chat_event {
    qn_chat_event_kind kind;
    int call;         /* of the four about calls: 0, 1 .. */
    const char *text; /* len bytes of UTF-8, whole characters, not terminated */
    size_t len;
} qn_chat_event;

/* tok: of the model, outlives the reader; NULL where only text is read. tools: those of the conversation, JSON as in
 * qn_chat_options; they give untyped arguments their types; NULL: nothing is read as a call. prompt: what the model
 * read before, which may be past its turn's beginning, within reasoning for example; NULL: the turn's beginning. t
 * outlives the reader; tools and prompt need not. Used by one thread at a time. */
QN_API qn_status qn_chat_reader_create(const qn_chat_template *t, const qn_tokenizer *tok, const char *tools,
                                       const qn_prompt *prompt, qn_chat_reader **out, qn_error *err);
QN_API void qn_chat_reader_destroy(qn_chat_reader *reader);
/* The next token (one that ends a generation gives nothing), or the next bytes of text (of a reader without tokenizer;
 * any bytes, broken UTF-8 becomes U+FFFD). *events, [*n], is borrowed until the next call. What could be the beginning
 * of a mark waits for what follows. nomem is final: such a reader can only be destroyed. invalid for a token that the
 * vocabulary does not have. */
QN_API qn_status qn_chat_reader_token(qn_chat_reader *reader, qn_token token, const qn_chat_event **events, size_t *n,
                                      qn_error *err);
QN_API qn_status qn_chat_reader_text(qn_chat_reader *reader, const char *text, size_t len, const qn_chat_event **events,
                                     size_t *n, qn_error *err);
/* A mark says that a call has begun, and its name has not come yet: cut here, what there is of it would be content,
 * marks included. Who shows answers to people may leave it out. */
QN_API bool qn_chat_reader_begins_call(const qn_chat_reader *reader);
/* The output is over; cut: not by the model, but by a limit. A call that is not whole then is QN_CHAT_call_cut, or
 * where its name has not come, or the model ended it, content. Once. */
QN_API qn_status qn_chat_reader_finish(qn_chat_reader *reader, bool cut, const qn_chat_event **events, size_t *n,
                                       qn_error *err);
/* All of it so far as a message of OpenAI's API: {"role": "assistant", "content", "reasoning_content", "tool_calls":
 * [{"id", "type": "function", "function": {"name", "arguments"}}]}. content is null where there is none, the others are
 * absent. A call that was cut has "cut": true and what came of its arguments. *json is freed with qn_free. */
QN_API qn_status qn_chat_reader_message(const qn_chat_reader *reader, char **json, qn_error *err);

/* ---- holding an answer to a form --------------------------------------------------------------- */

typedef struct qn_chat_constraint {
    const char *tools;           /* JSON, those of the conversation; NULL: none */
    const char *tool_choice;     /* "auto" (NULL), "none", "required", or the name of a tool */
    bool single_call;            /* one call, not several */
    const char *response_schema; /* a JSON schema that content satisfies; NULL: any content */
    bool no_reasoning;           /* thinking is off (qn_chat_options.thinking < 0): the answer begins at once */
    bool loose_response;         /* what of response_schema cannot be held is left out, as of a tool not strict */
} qn_chat_constraint;

/* A grammar for the answer to that prompt, in the model's own syntax of calls. Reasoning, where the model may reason or
 * is within it, stays free; what comes after is held:
 *
 *     required, or a name    calls, of any tool or of that one, and nothing else
 *     auto                   content as it comes; from a call's mark on, a call
 *     none                   content in which no call's mark comes
 *     with response_schema   content is JSON by the schema; with auto it may be calls instead
 *
 * Arguments satisfy the tool's schema. Of a tool with "strict": true whatever cannot be held is an error; of others it
 * is widened (qn_grammar_n_widened). A call that begins with no mark (Llama 3) is known by how its JSON begins: with
 * the name of a tool, or with a key that calls have; with auto and none content does not begin so. Where turns are
 * messages with headers (gpt-oss), a recipient in a header is the mark: with auto it is a tool that there is, with none
 * there is no recipient. *out is NULL where nothing is to be held. tok may be NULL: all marks are text then. prompt as
 * for a reader.
 *
 * invalid for tools that are none and a choice that is not among them; unsupported where a choice is forced and the
 * template's syntax was not found, or with the keyword that cannot be held; and as qn_grammar_create_schema. */
QN_API qn_status qn_chat_grammar_create(const qn_chat_template *t, const qn_tokenizer *tok, const qn_prompt *prompt,
                                        const qn_chat_constraint *options, qn_grammar **out, qn_error *err);

#ifdef __cplusplus
}
#endif
#endif
