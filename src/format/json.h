/* SPDX-License-Identifier: MIT */
/* src/format/json.h -- walking a JSON text (RFC 8259) that is hostile until checked: values are asked for in the order
 * in which they stand, nothing is built, and memory is only what the caller keeps. The text must be valid UTF-8
 * already. Errors say where: "LABEL: SUBJECT, offset N: found ..., expected ...". */
#ifndef QN_FORMAT_JSON_H
#define QN_FORMAT_JSON_H

#include "format/gguf_file.h"

#define QN_JSON_MAX_DEPTH 32 /* of values that nobody asked for and that are skipped */

typedef struct qn_json {
    const char *text;
    size_t size, pos;
    size_t base;       /* of text in its file, for messages */
    bool first;        /* right behind an opening bracket */
    const char *label; /* "NAME: " or "" */
    qn_error *err;
    char subject[QN_GGUF_SUBJECT_BYTES]; /* what is being read */
} qn_json;

/* A string as it stands between its quotes, escapes checked but not yet replaced. Decoding never makes it longer. */
typedef struct qn_json_str {
    const char *raw;
    size_t n;
    size_t at; /* in the file */
} qn_json_str;

void qn__json_init(qn_json *j, const char *text, size_t size, size_t base, const char *label, qn_error *err);
/* Takes an opening bracket, '{' or '['; then next is asked before each member, and after the last one says no. */
qn_status qn__json_open(qn_json *j, char bracket);
qn_status qn__json_next(qn_json *j, char bracket, bool *more);
qn_status qn__json_key(qn_json *j, qn_json_str *key); /* a member's name and the colon behind it */
qn_status qn__json_string(qn_json *j, qn_json_str *out);
qn_status qn__json_u64(qn_json *j, uint64_t *out); /* a number without sign, fraction and exponent */
qn_status qn__json_skip(qn_json *j);               /* any value */
qn_status qn__json_end(qn_json *j);                /* nothing but white space is left */

/* Writes the decoded bytes to out, which has room for s->n, and returns their number. */
size_t qn__json_decode(const qn_json_str *s, char *out);
/* The decoded string, terminated, in the arena; *len may be NULL. */
char *qn__json_take(qn_arena *arena, const qn_json_str *s, size_t *len);
bool qn__json_equals(const qn_json_str *s, const char *text);
/* Raises "found WHAT IS THERE, expected EXPECTED" at the present position. */
qn_status qn__json_unexpected(qn_json *j, const char *expected);
#define QN_JSON_BAD(j, status, offset, ...) \
    QN_GGUF_BAD((j)->err, status, (j)->label, (j)->subject, (offset), __VA_ARGS__)

#endif
