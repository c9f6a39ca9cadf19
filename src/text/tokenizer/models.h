/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/models.h -- a family of tokenizers is a table of three functions; a row of models.def names one
 * family and the defaults that go with tokenizer.ggml.model. */
#ifndef QN_TEXT_MODELS_H
#define QN_TEXT_MODELS_H

#include "text/tokenizer/encoder.h"
#include "text/tokenizer/vocab.h"

typedef struct qn_family {
    /* Whether this family can do what the file's keys ask for, nothing being loaded yet; NULL: always. */
    qn_status (*check)(qn_tokenizer *tok, const qn_gguf *file, qn_error *err);
    /* After the vocabulary is in place: what else this family reads from the file. Frees nothing on failure; unload
     * does. */
    qn_status (*load)(qn_tokenizer *tok, const qn_gguf *file, qn_error *err);
    void (*unload)(qn_tokenizer *tok); /* what the arena doesn't hold; may be NULL */
    /* Appends the ids of a stretch of raw text (len > 0, any bytes). `fresh`: it begins the text or
     * follows a special token. */
    qn_status (*encode)(qn_encoder *e, const char *text, size_t len, bool fresh, qn_error *err);
    /* The bytes that a normal token stands for; at most piece->len go to `out`. */
    size_t (*bytes)(const qn_tokenizer *tok, const qn_piece *piece, char *out);
    void (*tidy)(qn_str *text); /* what happens to a whole detokenized text; may be NULL */
} qn_family;

#define QN_FAMILY_DECLARE(name) extern const qn_family qn__family_##name;
/* clang-format off */
QN_FAMILY_DECLARE(spm)
QN_FAMILY_DECLARE(unigram)
QN_FAMILY_DECLARE(bpe)
QN_FAMILY_DECLARE(wordpiece)
QN_FAMILY_DECLARE(rwkv)
/* clang-format on */
#undef QN_FAMILY_DECLARE

typedef struct qn_model_row {
    const char *name;
    const qn_family *family;
    qn_token bos, eos, unk, sep, pad;
    unsigned flags;
} qn_model_row;
enum {
    QN_MODEL_add_bos = 1,
    QN_MODEL_add_eos = 2,
    QN_MODEL_add_sep = 4,
    QN_MODEL_space_prefix = 8,
    QN_MODEL_drop_spaces = 16
};

/* detok.c: finds max_output. */
qn_status qn__detok_measure(qn_tokenizer *tok, qn_error *err);
/* The bytes that a token adds to a text, at most qn_tokenizer_max_piece of them; 0 for control tokens. */
size_t qn__token_bytes(const qn_tokenizer *tok, qn_token id, char *out);
/* Appends s with U+2581 for each space; false when memory runs out. */
bool qn__escape_spaces(qn_str *out, const char *s, size_t n);
/* U+2581 becomes a space, everything else stays: SentencePiece's spelling of a piece. */
size_t qn__unescape_spaces(const qn_tokenizer *tok, const qn_piece *piece, char *out);

#endif
