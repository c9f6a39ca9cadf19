/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/charsmap.h -- SentencePiece's precompiled normalisation: a double array that finds the longest
 * prefix with a replacement, and the replacements, each ended by a zero byte. The bytes come from a file; every index
 * is checked when it is followed, because only a walk shows which nodes matter. */
#ifndef QN_TEXT_CHARSMAP_H
#define QN_TEXT_CHARSMAP_H

#include "text/tokenizer/vocab.h"

typedef struct qn_charsmap {
    const uint32_t *nodes;
    size_t n_nodes; /* 0: nothing is replaced */
    const char *replacements;
    size_t n_replacements; /* bytes */
} qn_charsmap;

/* Reads tokenizer.ggml.precompiled_charsmap into the arena; an absent key gives an empty map. */
qn_status qn__charsmap_load(qn_tokenizer *tok, const qn_gguf *file, qn_charsmap *out, qn_error *err);
/* The longest prefix of s that has a replacement: its length, and the replacement. 0 when there is none. */
qn_status qn__charsmap_find(const qn_charsmap *map, const char *s, size_t n, size_t *consumed, const char **to,
                            size_t *to_len, qn_error *err);

#endif
