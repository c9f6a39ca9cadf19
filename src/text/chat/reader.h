/* SPDX-License-Identifier: MIT */
/* src/text/chat/reader.h -- an answer being read. Symbols wait in `in` until it is certain what they are (reader.c);
 * within a call the row of its syntax reads on (read_*.c); answer.c keeps what was read. */
#ifndef QN_TEXT_CHAT_READER_H
#define QN_TEXT_CHAT_READER_H

#include "text/chat/literal.h"
#include "text/chat/value.h"

typedef struct qn_read_call {
    char *name, *id; /* id NULL: one is made up */
    qn_str arguments;
    bool whole, cut;
} qn_read_call;

/* What was read: all of it, and the events since the last push. */
typedef struct qn_answer {
    qn_str content, reasoning;
    qn_read_call *calls;
    int n_calls, cap_calls;
    qn_str bytes; /* of the events */
    qn_chat_event *events;
    size_t *begins; /* [n_events] where each one's bytes begin */
    size_t n_events, cap_events;
    bool failed; /* no memory */
} qn_answer;

void qn__answer_deinit(qn_answer *a);
void qn__answer_clear_events(qn_answer *a);
/* Events with their texts; false after a failure. */
bool qn__answer_events(qn_answer *a, const qn_chat_event **events, size_t *n);
void qn__answer_text(qn_answer *a, qn_chat_event_kind kind, const char *text, size_t n); /* content, reasoning */
void qn__answer_call(qn_answer *a, const char *name, size_t n);
void qn__answer_id(qn_answer *a, const char *id, size_t n); /* of the last call */
void qn__answer_arguments(qn_answer *a, const char *text, size_t n);
void qn__answer_end_call(qn_answer *a, qn_chat_event_kind how); /* call_end, no_call, call_cut */

typedef enum qn_read_state {
    QN_READ_content,
    QN_READ_reasoning,
    QN_READ_call,
    QN_READ_after,
    QN_READ_header
} qn_read_state;

struct qn_chat_reader {
    qn_arena arena; /* holds this struct too */
    const qn_found *found;
    const qn_tokenizer *tok;
    qn_mark marks[QN_MARK_COUNT];
    qn_token *mark_tokens; /* those that marks are made of */
    size_t n_mark_tokens;
    qn_heap heap;
    qn_val tools; /* a list, or none */
    qn_answer answer;
    uint64_t seed;             /* of made-up ids */
    bool starts[QN_SYM_space]; /* what marks that matter in content and reasoning begin with */

    qn_sym *in; /* [at, n_in) is still to be read */
    size_t at, n_in, cap_in;
    bool end;           /* nothing more comes */
    bool failed;        /* no memory */
    bool several_calls; /* the template shows several in a turn: for grammars */
    bool quiet;         /* what is read is the prompt's */
    qn_detok detok;
    char utf8[4]; /* text: an unfinished character */
    int n_utf8;
    char *piece; /* [max_piece] bytes of a token */
    size_t piece_bytes;

    qn_read_state state;
    bool at_start; /* of the turn: nothing but white space and marks came */
    bool lead;     /* newlines that come now are dropped */

    /* the call under way */
    bool announced;             /* its name was */
    qn_str raw;                 /* what was read of it, content should it be none */
    int step;                   /* of its syntax; 0 is the beginning */
    qn_str name, id, key, held; /* held: arguments that came before the name, a value that is not text */
    qn_literal literal;
    qn_str json;       /* what a literal gave */
    qn_val schema;     /* its tool's, which its $refs mean */
    qn_val parameters; /* what that says of the arguments */
    bool in_header, in_array, has_arguments, has_keys;
    int variant;    /* of tagged values */
    int types;      /* of the value */
    int inner;      /* tags with its key that are open within it */
    bool skip_line; /* a newline that comes now is not the value's */
    qn_val value_schema;
};

/* How a step went. */
typedef enum qn_step { QN_STEP_wait, QN_STEP_on, QN_STEP_done, QN_STEP_bad } qn_step;

struct qn_syntax {
    const char *name, *example;
    qn_step (*read)(qn_chat_reader *r); /* a step in a call, from behind call_open */
};
#define QN_SYNTAX(name, example) qn_step qn__read_##name(qn_chat_reader *r);
#include "text/chat/syntaxes.def"
#undef QN_SYNTAX

static inline const qn_sym *qn__window(const qn_chat_reader *r, size_t *n)
{
    *n = r->n_in - r->at;
    return r->in + r->at;
}
void qn__read_begin_call(qn_chat_reader *r);
/* Whether a call without a mark may begin here: JSON, or Llama's tag, as a token or as text, and then JSON. */
qn_match qn__bare_match(const qn_chat_reader *r, size_t at, size_t *len);
/* Behind `spaces` after such a call: a semicolon and the next one, which begins then. */
bool qn__read_next_bare(qn_chat_reader *r, size_t spaces, bool *waits);
qn_step qn__read_header(qn_chat_reader *r); /* a step in a header of the syntax channels */
qn_step qn__read_arguments(qn_chat_reader *r, qn_sym open);
/* Takes symbols of the call under way. */
void qn__read_take(qn_chat_reader *r, size_t n);
/* Reads on in the literal; what it gives is added to r->json. */
qn_literal_result qn__read_literal(qn_chat_reader *r);
size_t qn__read_spaces(qn_chat_reader *r); /* takes white space, returns how much of the window is left */
/* The name of the call is in r->name. false: it is none that a tool could have. */
bool qn__read_announce(qn_chat_reader *r);
bool qn__is_name_symbol(qn_sym s);
/* The value in r->held, tags within tags, appended as JSON; false where it has none. */
bool qn__nested_json(qn_chat_reader *r, qn_str *out);

#endif
