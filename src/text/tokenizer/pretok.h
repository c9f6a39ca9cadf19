/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/pretok.h -- pre-tokenizers: how a text is cut into words before byte-level BPE looks at each word
 * alone.
 *
 * A row of pretok.def names a value of tokenizer.ggml.pre and a split; a split is a short list of steps, each applied
 * to every stretch that the steps before left. What a pattern matches becomes a stretch of its own, and so does what
 * lies between two matches. Patterns are those of the models' own tokenizer files, run by PCRE2. */
#ifndef QN_TEXT_PRETOK_H
#define QN_TEXT_PRETOK_H

#include "text/tokenizer/encoder.h"

typedef enum qn_step_kind {
    QN_STEP_end,
    QN_STEP_regex,
    QN_STEP_threes,         /* a stretch of numbers only: groups of three, counted from the right */
    QN_STEP_decimal_threes, /* a stretch of decimal digits only, likewise */
    QN_STEP_runs_threes     /* every run of decimal digits inside a stretch, likewise; nothing else is cut */
} qn_step_kind;

typedef struct qn_step {
    qn_step_kind kind;
    const char *pattern;
} qn_step;
#define QN_MAX_STEPS 6

enum {
    QN_PRETOK_whole_words = 1, /* a word that is a piece is that piece, whatever merges would make of it */
    QN_PRETOK_add_bos = 2,     /* unless the file says otherwise */
    QN_PRETOK_force_bos = 4,   /* even if the file says otherwise */
    QN_PRETOK_raw = 8,         /* pieces are spelled in UTF-8, not in the byte alphabet; unknown bytes are <0xNN> */
    QN_PRETOK_escape = 16,     /* spaces are spelled U+2581 */
    QN_PRETOK_newlines = 32,   /* a run of newlines that is a piece is that piece */
    QN_PRETOK_no_merges = 64,  /* the merges key may be missing */
};

typedef struct qn_pretok_row {
    const char *name;
    const char *split; /* name of the split, for messages and tests */
    const qn_step *steps;
    unsigned flags;
} qn_pretok_row;

const qn_pretok_row *qn__pretok_find(const char *name); /* NULL */
const qn_pretok_row *qn__pretok_rows(size_t *n);

typedef struct qn_pretok qn_pretok;
/* `jit`: compile patterns to machine code where PCRE2 can; matches are the same either way. */
qn_status qn__pretok_create(const qn_pretok_row *row, bool jit, qn_pretok **out, qn_error *err);
void qn__pretok_destroy(qn_pretok *p);
/* Cuts valid UTF-8 into e->words. */
qn_status qn__pretok_split(const qn_pretok *p, qn_encoder *e, const char *text, size_t len, qn_error *err);
void qn__pretok_match_destroy(void *match); /* qn_encoder.match */

/* Expands \s and \S to Unicode's White_Space; false when memory runs out. Exposed for its test. */
bool qn__pretok_expand(qn_str *out, const char *pattern);

#endif
