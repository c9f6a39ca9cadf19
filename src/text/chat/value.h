/* SPDX-License-Identifier: MIT */
/* src/text/chat/value.h -- types that a tool's schema gives to values that are written as plain text. */
#ifndef QN_TEXT_CHAT_VALUE_H
#define QN_TEXT_CHAT_VALUE_H

#include "base/str.h"
#include "text/chat/chat.h"

#define QN_VALUE_MAX_REFS 8

enum {
    QN_TYPE_string = 1,
    QN_TYPE_number = 2,
    QN_TYPE_boolean = 4,
    QN_TYPE_object = 8,
    QN_TYPE_array = 16,
    QN_TYPE_null = 32,
    QN_TYPE_any = 63
};
/* What `schema` allows, a part of `root`: a set of QN_TYPE_*; 0: unknown. */
int qn__schema_types(qn_val root, qn_val schema);
qn_val qn__schema_follow(qn_val root, qn_val schema);  /* what its $ref stands for; absent: nothing */
qn_val qn__schema_resolve(qn_val root, qn_val schema); /* .. and the $ref of that, QN_VALUE_MAX_REFS times at most */
qn_val qn__schema_property(qn_val schema, const char *key, size_t n); /* what it says of a member; absent: nothing */
/* Appends JSON: the value of one of these types that the text stands for, else the text as a string. */
void qn__value_json(qn_str *out, const char *text, size_t n, int types);

#endif
