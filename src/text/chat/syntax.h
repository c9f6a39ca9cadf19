/* SPDX-License-Identifier: MIT */
/* src/text/chat/syntax.h -- how a model writes its turns: marks (mark.c) and the syntax between them, found by
 * rendering probes (derive.c).
 *
 * Text to be read is a row of symbols: bytes, those of a control token with a bit of their own, so that the same
 * characters written as plain text are something else. */
#ifndef QN_TEXT_CHAT_SYNTAX_H
#define QN_TEXT_CHAT_SYNTAX_H

#include "base/str.h"
#include "text/chat/chat.h"

typedef uint16_t qn_sym;
enum {
    QN_SYM_special = 0x100, /* | byte: of a control token */
    QN_SYM_space = 0x200,   /* the rest only in marks. Any white space, or none */
    QN_SYM_digits,
    QN_SYM_id, /* an id of the call */
    QN_SYM_key /* the key that stood before */
};
#define QN_MARK_MAX_SPACE 64 /* longer white space is not part of a mark, so that looking for one takes linear time */
#define QN_MARK_MAX_WORD  64

#define QN_BARE_TAG       "<|python_tag|>" /* may stand before a call that has no mark */

typedef enum qn_mark_id {
#define QN_MARK(name, text) QN_MARK_##name,
#include "text/chat/marks.def"
#undef QN_MARK
    QN_MARK_COUNT
} qn_mark_id;

/* Begins and ends with something else than white space. */
typedef struct qn_mark {
    qn_sym *s;
    int n;
    bool line_before, line_after; /* a newline stood there, which is not part of what the mark bounds */
    const char *text;             /* [n_text] as it was rendered, white space around it too: what a grammar asks for */
    int n_text;
} qn_mark;

typedef struct qn_syntax qn_syntax;

/* What was found; in the arena of the template. */
typedef struct qn_found {
    const qn_syntax *syntax; /* NULL: no calls */
    qn_mark marks[QN_MARK_COUNT];
    const char *name_key;        /* json; NULL: the name is the key of the arguments */
    bool array;                  /* json: calls are elements */
    bool bare;                   /* no mark stands before a call */
    bool thinks;                 /* the template shows or mentions reasoning */
    bool spaced;                 /* a space stands before content */
    bool raw_strings;            /* python: nothing is escaped in an argument that is a string */
    bool loose;                  /* named: keys have no quotes, strings stand between marks */
    bool typed;                  /* tagged: string_open and other_open tell texts from other values */
    bool digits;                 /* named: what follows the name counts the calls */
    const char *thought_channel; /* channels: whose messages are reasoning; NULL: another syntax */
    bool nested;                 /* tagged: lists and objects are tags within tags */
} qn_found;

struct qn_chat_template {
    qn_jinja *jinja;
    char *source;
    char origin[32];
    qn_chat_needs needs;
    qn_arena arena; /* of what was found */
    qn_found found;
};

typedef enum qn_match { QN_NO_MATCH, QN_PART_MATCH, QN_WHOLE_MATCH } qn_match;
/* Whether w[0 .. n) begins with the mark, or (unless at the end of all input) could with more symbols. */
qn_match qn__mark_match(const qn_mark *m, const qn_sym *w, size_t n, bool end, const char *key, size_t key_len,
                        size_t *len, size_t id[2]);
/* The length of the first part of a text: white space, <..>, [..], or what comes before one of them. */
size_t qn__mark_atom(const char *s, size_t n);
/* A text as a mark: white space within is any, `id` and `key` (NULL: none) stand for themselves. */
bool qn__mark_make(qn_arena *arena, const char *s, size_t n, const char *id, const char *key, bool digits,
                   qn_mark *out);
/* A copy in which the bytes of the vocabulary's special tokens have their bit; *ids (in the arena) are these tokens. */
qn_status qn__marks_for(qn_arena *arena, const qn_mark *from, const qn_tokenizer *tok, qn_mark *to, qn_token **ids,
                        size_t *n_ids, qn_error *err);

static inline bool qn__sym_is_space(qn_sym s) { return s == ' ' || (s >= '\t' && s <= '\r'); }

/* Finds out how the template writes its turns. nomem only. */
qn_status qn__chat_derive(qn_chat_template *t, qn_error *err);

#endif
