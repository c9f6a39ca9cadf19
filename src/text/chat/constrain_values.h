/* SPDX-License-Identifier: MIT */
/* src/text/chat/constrain_values.h -- what arguments have in common, however they are written. Schemas are known by
 * where they stand in c->root: NULL says nothing. */
#ifndef QN_TEXT_CHAT_CONSTRAIN_VALUES_H
#define QN_TEXT_CHAT_CONSTRAIN_VALUES_H

#include "text/chat/constrain.h"

typedef struct qn_property {
    qn_val key;
    const qn_val *at; /* its schema */
    bool required;
    int value;   /* its rule */
    int variant; /* tagged: 0 text, 1 text with special characters, 2 other */
} qn_property;

/* Those that a schema names, then others that it requires, by its additionalProperties; NULL after a failure. */
qn_property *qn__properties_of(qn_constrain *c, qn_val schema, int *n);
bool qn__none_required(const qn_property *p, int from, int n);

static inline qn_val qn__said_at(const qn_val *at) { return at ? *at : qn__absent(); }
const qn_val *qn__place_of(qn_val schema, const char *keyword); /* of the schema under a keyword */
/* A strict tool's schema has no other keywords. */
void qn__check_strict(qn_constrain *c, qn_val schema, const char *const *words, size_t n);
#define QN_CHECK_STRICT(c, schema, words) qn__check_strict(c, schema, words, sizeof(words) / sizeof *(words))
/* Whether a $ref leads to a schema and stands alone, so that what it leads to is all that is said; or there is none. */
bool qn__only_refers(const qn_constrain *c, qn_val schema);
/* Any text does for it: what is read as something else is that rightly. */
bool qn__any_text_does(const qn_constrain *c, const qn_val *at);
/* A strict tool's value where texts stand as they are: "( jN | jM ) ", up to what begins with the n bytes of `end`.
 * only_text: nothing else may stand there. */
void qn__put_text_or_other(qn_constrain *c, const qn_val *at, int types, bool only_text, const char *end, size_t n);
/* Arguments between marks: the rule's number. */
int qn__tagged_rule(qn_constrain *c, qn_val schema);

#endif
