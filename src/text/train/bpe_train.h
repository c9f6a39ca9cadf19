/* SPDX-License-Identifier: MIT */
/* src/text/train/bpe_train.h -- the BPE trainer in parts: bpe_words.c counts the words and characters of the text,
 * bpe_script.c says which characters may stand together, bpe_join.c joins, bpe_train.c is the whole. vocab_write.c is
 * what comes after. */
#ifndef QN_TEXT_BPE_TRAIN_H
#define QN_TEXT_BPE_TRAIN_H

#include "base/error.h"
#include "base/mem.h"
#include <quern/text.h>

/* ---- words: each different word once, with its count ---- */

/* A word is an optional space and the characters up to the next one, in UTF-8; a newline is a word of its own.
 * A text without spaces is cut into words of this many bytes. */
#define QN_WORD_MAX_BYTES 4096

typedef struct qn_word {
    uint64_t count;
    size_t at; /* of its text */
    uint32_t len;
    uint32_t hash;
} qn_word;

#define QN_CHAR_PAGES (0x110000 >> 8)

typedef struct qn_words {
    qn_word *word;
    size_t n, cap;
    char *text;
    size_t text_len, text_cap;
    uint32_t *slots; /* [n_slots] word + 1; open addressing, a power of two */
    size_t n_slots;
    size_t max_bytes;
    uint64_t forget;                /* words of at most this count go next time that room is needed */
    uint64_t *chars[QN_CHAR_PAGES]; /* how often each code point was seen; pages of 256 where there is any */
    uint64_t n_seen;                /* characters */
    bool prefix, lines;             /* a space before each text; each line is a text */
} qn_words;

void qn__words_deinit(qn_words *w);
qn_status qn__words_add(qn_words *w, const char *text, size_t len, qn_error *err);

/* ---- scripts ---- */

#define QN_SCRIPT_ANY 255 /* stands beside every other */
typedef struct qn_scripts qn_scripts;
qn_status qn__scripts_create(qn_scripts **out, qn_error *err);
void qn__scripts_destroy(qn_scripts *s);
#define QN_SCRIPT_SAME 254 /* a combining mark: has the script of what it follows */
/* A number for the script of a character: equal for equal scripts, QN_SCRIPT_SAME or below it. */
uint8_t qn__script_of(const qn_scripts *s, uint32_t cp);

/* ---- symbols ---- */

#define QN_BPE_MAX_PIECE 256 /* characters */

typedef struct qn_bpe_symbol {
    char *text; /* as in the vocabulary: U+2581 for a space */
    uint32_t len;
    uint16_t n_chars;
    uint8_t first, last; /* scripts at both ends */
    bool space;          /* begins with one */
    bool alone;          /* joins nothing */
} qn_bpe_symbol;

typedef struct qn_bpe_letter {
    uint32_t cp;
    uint64_t count;
} qn_bpe_letter;

typedef struct qn_bpe_set {
    qn_arena arena;         /* texts of symbols */
    qn_bpe_letter *letters; /* [n_letters] characters that have a piece, most frequent first */
    size_t n_letters;
    qn_bpe_symbol *symbols; /* the letters in the same order, then what is joined from them */
    int32_t n_symbols, cap_symbols;
} qn_bpe_set;

/* Joins until the symbols are full or no pair is left. */
qn_status qn__bpe_join(qn_bpe_set *set, const qn_words *words, const qn_bpe_train_options *options, qn_error *err);

#endif
