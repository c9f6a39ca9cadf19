/* SPDX-License-Identifier: MIT */
/* src/base/str.h -- a growable byte string with a sticky failure, and small text helpers. After any failed append
 * `failed` is set, further appends do nothing, and the content so far stays valid and terminated. */
#ifndef QN_BASE_STR_H
#define QN_BASE_STR_H

#include <quern/base.h>
#include <stdarg.h>

typedef struct qn_str {
    char *data; /* NULL while empty, else NUL-terminated */
    size_t len, cap;
    bool failed;
} qn_str;

void qn__str_deinit(qn_str *s);
void qn__str_clear(qn_str *s); /* keeps the memory */
bool qn__str_reserve(qn_str *s, size_t cap);
bool qn__str_append(qn_str *s, const void *bytes, size_t n);
bool qn__str_puts(qn_str *s, const char *text);
bool qn__str_putc(qn_str *s, char c);
bool qn__str_printf(qn_str *s, const char *fmt, ...) QN_PRINTF(2, 3);
char *qn__str_take(qn_str *s, size_t *len); /* the caller frees with qn_free; NULL when failed; never NULL for empty */

/* vsnprintf and snprintf in the C locale whatever the host program's locale is; buf is terminated when size > 0. */
int qn__vformat(char *buf, size_t size, const char *fmt, va_list args) QN_PRINTF(3, 0);
int qn__format(char *buf, size_t size, const char *fmt, ...) QN_PRINTF(3, 4);

bool qn__glob_match(const char *pattern, const char *text); /* `*` any run, `?` one byte */
/* Copies at most `size - 1` bytes of `text` with control bytes, quotes and invalid UTF-8 shown as \xNN, so that a
 * hostile name from a file cannot garble a terminal or a log. Cuts with "..." . Returns buf. */
const char *qn__str_quote(char *buf, size_t size, const char *text, size_t n);
/* 1536 -> "1.5 KiB". Returns buf; 32 bytes do. */
const char *qn__str_bytes(char *buf, size_t size, uint64_t bytes);
/* Whole-string decimal parses: false on empty, trailing characters, overflow or a value outside [lo, hi]. No locale. */
bool qn__parse_i64(const char *text, int64_t lo, int64_t hi, int64_t *out);
bool qn__parse_f64(const char *text, double lo, double hi, double *out); /* refuses NaN */
/* FNV-1a, 64 bit; chain by passing the previous value, start with QN_HASH_INIT. */
#define QN_HASH_INIT UINT64_C(0xcbf29ce484222325)
uint64_t qn__hash(uint64_t h, const void *bytes, size_t n);

#endif
