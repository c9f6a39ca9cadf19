/* SPDX-License-Identifier: MIT */
/* src/base/error.h -- raising errors. `return QN_FAIL(err, invalid, "n is %d, at least 1 expected", n);` fills the
 * caller's qn_error (which may be NULL), remembers where, and yields the status. */
#ifndef QN_BASE_ERROR_H
#define QN_BASE_ERROR_H

#include <quern/base.h>
#include <stdarg.h>

qn_status qn__fail(qn_error *err, qn_status status, const char *file, int line, const char *fmt, ...) QN_PRINTF(5, 6);
qn_status qn__vfail(qn_error *err, qn_status status, const char *file, int line, const char *fmt, va_list args);

#define QN_FAIL(err, status, ...) qn__fail((err), QN_STATUS_##status, __FILE__, __LINE__, __VA_ARGS__)
/* The common case of a failed allocation, with the number of bytes. */
#define QN_FAIL_NOMEM(err, bytes) QN_FAIL(err, nomem, "out of memory: %zu bytes were asked for", (size_t)(bytes))

/* `QN_TRY(f(x, err))` returns the status of a failed call to the caller. */
#define QN_TRY(call) \
    do { \
        qn_status try_status_ = (call); \
        if (try_status_ != QN_OK) return try_status_; \
    } while (0)

/* Puts "prefix: " (formatted) before an error's text, for a caller that knows which file or tensor was at hand. */
qn_status qn__prefix(qn_error *err, qn_status status, const char *fmt, ...) QN_PRINTF(3, 4);

/* Our own bugs only; present in test builds (QN_CHECKED), gone in Release. Never a reaction to input. */
#ifdef QN_CHECKED
#include <assert.h>
#define QN_ASSERT(x) assert(x)
#else
#define QN_ASSERT(x) ((void)0)
#endif

#endif
