/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/encoder.h -- what one call of qn_tokenize writes to: the ids so far and scratch memory that every
 * family reuses from one stretch of text to the next. Failed allocations are sticky and reported once, at the end. */
#ifndef QN_TEXT_ENCODER_H
#define QN_TEXT_ENCODER_H

#include "text/tokenizer/merge.h"
#include "text/tokenizer/vocab.h"

typedef struct qn_splits { /* ends of consecutive stretches of a text, ascending */
    uint32_t *ends;
    size_t n, cap;
} qn_splits;

typedef struct qn_encoder {
    const qn_tokenizer *tok;
    qn_token *ids;
    size_t n, cap;
    bool failed;      /* an allocation did; what follows may be nonsense and is thrown away */
    qn_str text, aux; /* escaped or repaired text; a word's other spelling */
    qn_merger merger;
    qn_splits words, spare;
    void *match; /* pretok.c: PCRE2's working memory */
    void *best;  /* unigram.c: [best_cap] */
    size_t best_cap;
} qn_encoder;

void qn__encoder_deinit(qn_encoder *e);
void qn__emit(qn_encoder *e, qn_token id); /* QN_TOKEN_NONE gives nothing */
void qn__splits_add(qn_encoder *e, qn_splits *s, uint32_t end);
/* Raw text to ids, special tokens apart; the whole of qn_tokenize but for what is added at both ends. */
qn_status qn__encode_text(qn_encoder *e, const char *text, size_t len, const qn_tokenize_options *options,
                          qn_error *err);

#endif
