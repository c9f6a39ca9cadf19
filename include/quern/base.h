/* SPDX-License-Identifier: MIT */
/* quern/base.h -- what every other Quern header stands on: statuses, errors, the allocator hook, the log hook and,
 * by quern/metrics.h, counters.
 *
 * Conventions that hold in every public header:
 *  - A function that can fail returns a `qn_status` and takes a `qn_error *err` as its last parameter. `err` belongs to
 * the caller, may be NULL, and is written only on failure. Output parameters are untouched on failure unless said
 * otherwise.
 *  - Verbs carry ownership: open/close an OS resource, create/destroy a handle, init/deinit the caller's storage; get
 * and find borrow (the result lives as long as the object asked). Every close/destroy/deinit accepts NULL or a zeroed
 * object.
 *  - An options struct whose bytes are all zero means "all defaults".
 *  - Shapes are outermost dimension first. `n_` counts things, `_bytes` sizes memory, strides are in elements.
 *  - Text is UTF-8 and NUL-terminated where a `const char *` is passed without a length.
 *  - Threads: unless a comment says otherwise, one object may be used by one thread at a time; different objects are
 *    independent. Loaded models are immutable and may be shared by any number of threads. */
#ifndef QUERN_BASE_H
#define QUERN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define QN_API
#else
#define QN_API __attribute__((visibility("default")))
#endif
#if defined(__GNUC__)
#define QN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define QN_PRINTF(fmt, args)
#endif

/* "0.1.0" */
QN_API const char *qn_version(void);

/* ---- status and error ------------------------------------------------------------------------ */

/* QN_STATUS(name, "what it means to a user"); row order is enum order and never changes. */
/* clang-format off */
#define QN_STATUS_ROWS(QN_STATUS) \
    QN_STATUS(ok,          "success") \
    QN_STATUS(nomem,       "out of memory") \
    QN_STATUS(invalid,     "an argument is out of range or makes no sense") \
    QN_STATUS(format,      "a file's content is damaged or not what it claims to be") \
    QN_STATUS(io,          "the operating system refused to read or write") \
    QN_STATUS(unsupported, "valid, but not something this build knows") \
    QN_STATUS(limit,       "a documented limit was exceeded") \
    QN_STATUS(state,       "the object is not in a state that allows this") \
    QN_STATUS(cancelled,   "a callback asked to stop") \
    QN_STATUS(internal,    "a bug in Quern") \
    QN_STATUS(lost,        "a device is gone: what was computed with it must be opened again")
/* clang-format on */

typedef enum qn_status {
/* clang-format off */
#define QN_STATUS_ENUM(name, text) QN_STATUS_##name,
    QN_STATUS_ROWS(QN_STATUS_ENUM)
#undef QN_STATUS_ENUM
    QN_STATUS_COUNT
    /* clang-format on */
} qn_status;
#define QN_OK QN_STATUS_ok

/* The text is one line without a final full stop or newline: what failed, what was found, what was expected. */
typedef struct qn_error {
    qn_status status;
    char text[512];
    const char *file; /* where it was raised: static strings */
    int line;
} qn_error;

/* "nomem" / "out of memory"; an unknown status gives "unknown". Static strings. */
QN_API const char *qn_status_name(qn_status status);
QN_API const char *qn_status_text(qn_status status);

/* ---- allocator hook -------------------------------------------------------------------------- */

/* All of Quern's memory, that of the libraries under it included where they offer a hook, comes from here. `alloc`
 * returns memory aligned to `align` (a power of two, at least 16) or NULL; `release` gets the same size back. Both may
 * be called from any thread. */
typedef struct qn_allocator {
    void *(*alloc)(void *ctx, size_t size, size_t align);
    void (*release)(void *ctx, void *ptr, size_t size);
    void *ctx;
} qn_allocator;

/* Replaces the process-wide allocator; NULL brings back the default. Call it while no Quern object exists. */
QN_API void qn_set_allocator(const qn_allocator *allocator);

/* Buffers that Quern hands over to the caller ("free with qn_free") come from the hook too. NULL is fine. */
QN_API void qn_free(void *ptr);

/* ---- log hook -------------------------------------------------------------------------------- */

typedef enum qn_log_level { QN_LOG_debug, QN_LOG_info, QN_LOG_warn, QN_LOG_error } qn_log_level;

/* `line` has no newline and lives only during the call, which may come from any thread. Without a hook the library is
 * silent. */
typedef void (*qn_log_fn)(void *ctx, qn_log_level level, const char *line);
QN_API void qn_set_log(qn_log_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif

#include <quern/metrics.h>
#endif
