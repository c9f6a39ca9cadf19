/* SPDX-License-Identifier: MIT */
/* src/base/error.c -- filling the caller's qn_error. The text is formatted apart and then copied, so that a message may
 * quote the error it replaces; control bytes become spaces, so it is always one line. */
#include "base/error.h"
#include "base/str.h"
#include <string.h>

const char *qn_version(void) { return QN_VERSION; }

static const struct {
    const char *name, *text;
} rows[] = {
/* clang-format off */
#define ROW(name, text) {#name, text},
    /* clang-format on */
    QN_STATUS_ROWS(ROW)
#undef ROW
};

const char *qn_status_name(qn_status status)
{
    return (unsigned)status < QN_STATUS_COUNT ? rows[status].name : "unknown";
}

const char *qn_status_text(qn_status status)
{
    return (unsigned)status < QN_STATUS_COUNT ? rows[status].text : "unknown";
}

/* A multi-byte character cut by the end of the buffer would make the text invalid UTF-8; it goes whole. */
static void store(char *dst, size_t size, const char *src)
{
    size_t n = strlen(src);
    if (n >= size) {
        n = size - 1;
        while (n > 0 && ((unsigned char)src[n] & 0xc0) == 0x80) n--;
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)src[i];
        dst[i] = c < 0x20 || c == 0x7f ? ' ' : src[i];
    }
    dst[n] = '\0';
}

qn_status qn__vfail(qn_error *err, qn_status status, const char *file, int line, const char *fmt, va_list args)
{
    QN_ASSERT(status != QN_OK);
    if (err != NULL) {
        char text[sizeof err->text + 4];
        qn__vformat(text, sizeof text, fmt, args);
        store(err->text, sizeof err->text, text);
        err->status = status;
        err->file = file;
        err->line = line;
    }
    return status;
}

qn_status qn__fail(qn_error *err, qn_status status, const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    qn__vfail(err, status, file, line, fmt, args);
    va_end(args);
    return status;
}

qn_status qn__prefix(qn_error *err, qn_status status, const char *fmt, ...)
{
    if (err != NULL && status != QN_OK) {
        char prefix[sizeof err->text], text[2 * sizeof err->text];
        va_list args;
        va_start(args, fmt);
        qn__vformat(prefix, sizeof prefix, fmt, args);
        va_end(args);
        const size_t n = strlen(prefix), m = strlen(err->text);
        memcpy(text, prefix, n);
        memcpy(text + n, ": ", 2);
        memcpy(text + n + 2, err->text, m < sizeof text - n - 3 ? m : sizeof text - n - 3);
        text[n + 2 + (m < sizeof text - n - 3 ? m : sizeof text - n - 3)] = '\0';
        store(err->text, sizeof err->text, text);
    }
    return status;
}
