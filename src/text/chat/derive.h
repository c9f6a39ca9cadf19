/* SPDX-License-Identifier: MIT */
/* src/text/chat/derive.h -- probes: turns that a template rendered, and the marks found in them. */
#ifndef QN_TEXT_CHAT_DERIVE_H
#define QN_TEXT_CHAT_DERIVE_H

#include "text/chat/reader.h"

typedef struct qn_slice {
    const char *s; /* NULL: nothing */
    size_t n;
} qn_slice;

/* Nine letters and digits, which Mistral's templates ask for. */
#define QN_PROBE_ID    "callqnid1"
#define QN_PROBE_NAME  "qn_tool1"
#define QN_PROBE_NAME2 "qn_tool2"
#define QN_PROBE_KEY   "qn_arg"
#define QN_PROBE_KEY2  "qn_brg"
#define QN_PROBE_TEXT  "qn-value1"
#define QN_PROBE_TEXT2 "qn-value2"

/* Turns of an assistant: two_* with two arguments or calls, special with characters that mean something. */
typedef enum qn_probe_turn {
    QN_PROBE_content,
    QN_PROBE_thought,
    QN_PROBE_call,
    QN_PROBE_content_call,
    QN_PROBE_thought_call,
    QN_PROBE_no_arguments,
    QN_PROBE_two_arguments,
    QN_PROBE_numbers,
    QN_PROBE_special,
    QN_PROBE_two_calls,
    QN_PROBE_COUNT
} qn_probe_turn;

typedef struct qn_probe {
    qn_chat_template *t;
    qn_arena arena;                 /* of the texts */
    qn_slice turns[QN_PROBE_COUNT]; /* from the end of what begins a turn to the end of the text */
    qn_slice header;                /* that beginning, behind what the user said */
    qn_slice prompt;                /* what follows it where the model goes on */
    size_t end;                     /* bytes at the end of the turns with calls that are not theirs: the turn's end */
} qn_probe;

/* How much of `a` is shared with b at its beginning or end, in whole parts; white space is like white space. */
size_t qn__common_prefix(qn_slice a, qn_slice b);
size_t qn__common_suffix(qn_slice a, qn_slice b);
bool qn__find_word(qn_slice in, const char *word, qn_slice *before, qn_slice *after); /* either may be NULL */
static inline qn_slice qn__skip(qn_slice s, size_t n) { return (qn_slice){n ? s.s + n : s.s, s.n - n}; }
static inline qn_slice qn__less(qn_slice s, size_t n) { return (qn_slice){s.s, s.n - n}; }
bool qn__set_mark(qn_probe *p, qn_mark_id id, qn_slice text);

/* The marks of one syntax; false: it is another. */
#define QN_SYNTAX(name, example) bool qn__derive_##name(qn_probe *p);
#include "text/chat/syntaxes.def"
#undef QN_SYNTAX

#endif
