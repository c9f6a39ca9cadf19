/* SPDX-License-Identifier: MIT */
/* src/text/utf8.h -- UTF-8 as tokenizers need it: strict decoding (no overlong forms, no surrogates, nothing above
 * U+10FFFF), so that whatever passes may be given to PCRE2 unchecked, and the lax length by the first byte alone. */
#ifndef QN_TEXT_UTF8_H
#define QN_TEXT_UTF8_H

#include "base/str.h"

#define QN_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */
#define QN_UTF8_BLOCK       "\xE2\x96\x81" /* U+2581, SentencePiece's visible space */

/* Bytes of the sequence at s and its code point; 0 when the bytes are not a whole valid sequence. */
int qn__utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes 1 to 4 bytes; cp must be a Unicode scalar value. */
int qn__utf8_encode(uint32_t cp, char *out);
/* Length that the first byte announces: 1 to 4, 1 for a byte that cannot begin a sequence; at most n. */
static inline size_t qn__utf8_len(const char *s, size_t n)
{
    static const uint8_t by_high_bits[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4};
    const size_t len = by_high_bits[(unsigned char)*s >> 4];
    return len < n ? len : n;
}
/* How many bytes at s form the beginning of a valid sequence that ends too early (a maximal subpart), or 1 for a byte
 * that begins none. Call it where qn__utf8_decode gave 0. *may_grow: bytes behind the end of the buffer could complete
 * it. */
size_t qn__utf8_broken(const char *s, size_t n, bool *may_grow);
/* The position of the first byte that is not part of a valid sequence; n when all are. */
size_t qn__utf8_valid_prefix(const char *s, size_t n);
/* Appends s with every byte of an invalid sequence replaced by U+FFFD, one for each byte (not one for each sequence:
 * that is what the byte-level tokenizers' reference does, and ids depend on it). False when memory runs out. */
bool qn__utf8_repair(qn_str *out, const char *s, size_t n);

/* Unicode's White_Space property. PCRE2's \s adds U+180E, so patterns don't use it (see pretok.c). */
bool qn__cp_is_space(uint32_t cp);
/* C's isspace in the "C" locale, on a byte. */
static inline bool qn__byte_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

#endif
