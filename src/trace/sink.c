/* SPDX-License-Identifier: MIT */
/* src/trace/sink.c -- see sink.h. */
#include "trace/sink.h"
#include "base/append.h"
#include "base/log.h"
#include "base/mem.h"
#include "trace/format.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROOM (1 << 18) /* for plans and notes that are kept, to begin with */

static void fail(qn_trace_sink *s, const char *what, const char *why)
{
    if (s->failed) return;
    s->failed = true;
    snprintf(s->reason, sizeof s->reason, "%s: %.230s", what, why);
    qn__log(QN_LOG_warn, "the recording has ended early: %s", s->reason);
}

static void put(qn_trace_sink *s, const void *bytes, size_t n)
{
    if (s->failed || s->fd < 0) return;
    if (!qn__append_put(s->fd, bytes, n)) {
        fail(s, "writing", strerror(errno));
        return;
    }
    s->written += n;
}

qn_status qn__trace_sink_open(qn_trace_sink *s, const char *path, uint64_t limit, uint64_t last_bytes, qn_error *err)
{
    qn_str head = {0};
    *s = (qn_trace_sink){.fd = -1, .limit = limit, .path = qn__strdup(path)};
    if (!s->path) return QN_FAIL_NOMEM(err, strlen(path) + 1);
    qn__trace_pack_file_header(&head);
    qn_status status = head.failed ? QN_FAIL_NOMEM(err, QN_TRACE_FILE_BYTES) : QN_OK;
    if (status == QN_OK && last_bytes > 0) {
        s->kept = qn__alloc((size_t)last_bytes);
        s->kept_bytes = last_bytes;
        if (!s->kept || !qn__str_reserve(&s->always, ROOM)) status = QN_FAIL_NOMEM(err, last_bytes);
        qn__str_append(&s->always, head.data, head.len);
    } else if (status == QN_OK) {
        status = qn__append_open_beside(path, QN_TRACE_MAGIC, 8, &s->fd, &s->temp, err);
        if (status == QN_OK) {
            s->n_files = 1;
            put(s, head.data, head.len);
        }
    }
    qn__str_deinit(&head);
    if (status != QN_OK) qn__trace_sink_deinit(s);
    return status;
}

void qn__trace_sink_commit(qn_trace_sink *s)
{
    if (!s->temp || s->failed || s->limited) return;
    if (!qn__append_replace(s->temp, s->path)) {
        fail(s, "writing", strerror(errno));
        return;
    }
    qn__free(s->temp);
    s->temp = NULL;
}

/* Nothing came of it. */
static void discard(qn_trace_sink *s)
{
    if (!s->temp) return;
    unlink(s->temp);
    qn__free(s->temp);
    s->temp = NULL;
    s->n_files = 0;
    s->written = 0;
}

/* ---- the last blocks ---- */

static void copy_in(qn_trace_sink *s, uint64_t at, const void *bytes, size_t n)
{
    const uint64_t start = at % s->kept_bytes, room = s->kept_bytes - start;
    const size_t first = n < room ? n : (size_t)room;
    memcpy(s->kept + start, bytes, first);
    memcpy(s->kept, (const uint8_t *)bytes + first, n - first);
}

static void copy_out(const qn_trace_sink *s, uint64_t at, void *bytes, size_t n)
{
    const uint64_t start = at % s->kept_bytes, room = s->kept_bytes - start;
    const size_t first = n < room ? n : (size_t)room;
    memcpy(bytes, s->kept + start, first);
    memcpy((uint8_t *)bytes + first, s->kept, n - first);
}

static void keep(qn_trace_sink *s, const void *block, uint32_t n)
{
    if ((uint64_t)n + sizeof n > s->kept_bytes) return;
    while (s->used + n + sizeof n > s->kept_bytes) {
        uint32_t oldest;
        copy_out(s, s->from, &oldest, sizeof oldest);
        s->from += sizeof oldest + oldest;
        s->used -= sizeof oldest + oldest;
    }
    copy_in(s, s->from + s->used, &n, sizeof n);
    copy_in(s, s->from + s->used + sizeof n, block, n);
    s->used += sizeof n + n;
}

void qn__trace_sink_put(qn_trace_sink *s, const void *block, size_t n, bool always)
{
    if (s->kept) {
        if (always)
            qn__str_append(&s->always, block, n);
        else
            keep(s, block, (uint32_t)n);
        return;
    }
    if (s->limit && s->written + n + QN_TRACE_END_ROOM > s->limit) s->limited = true;
    if (!s->limited) put(s, block, n);
}

/* Into the file, or appended to `to`. */
static void put_kept(qn_trace_sink *s, qn_str *to)
{
    for (uint64_t at = 0; at < s->used;) {
        uint32_t n;
        copy_out(s, s->from + at, &n, sizeof n);
        at += sizeof n;
        const uint64_t start = (s->from + at) % s->kept_bytes, room = s->kept_bytes - start;
        const size_t first = n < room ? n : (size_t)room;
        if (to) {
            qn__str_append(to, s->kept + start, first);
            qn__str_append(to, s->kept, n - first);
        } else {
            put(s, s->kept + start, first);
            put(s, s->kept, n - first);
        }
        at += n;
    }
}

static void close_file(qn_trace_sink *s)
{
    if (s->fd >= 0 && !qn__append_close(s->fd)) fail(s, "closing", strerror(errno));
    s->fd = -1;
}

void qn__trace_sink_dump(qn_trace_sink *s, const void *end, size_t n)
{
    char path[4096];
    qn_error err;
    if (!s->kept || s->failed) return;
    const int len = s->n_files == 0 ? snprintf(path, sizeof path, "%s", s->path)
                                    : snprintf(path, sizeof path, "%s.%d", s->path, s->n_files + 1);
    if (len < 0 || (size_t)len >= sizeof path) {
        fail(s, "writing", "the path is too long");
    } else if (qn__append_open(path, QN_TRACE_MAGIC, 8, &s->fd, &err) != QN_OK) {
        fail(s, "writing", err.text);
    } else {
        s->n_files++;
        put(s, s->always.data, s->always.len);
        put_kept(s, NULL);
        put(s, end, n);
        close_file(s);
    }
}

void qn__trace_sink_copy(qn_trace_sink *s, const void *end, size_t n, qn_str *to)
{
    if (!qn__str_reserve(to, s->always.len + (size_t)s->used + n)) return;
    qn__str_append(to, s->always.data, s->always.len);
    put_kept(s, to);
    qn__str_append(to, end, n);
}

void qn__trace_sink_close(qn_trace_sink *s, const void *end, size_t n)
{
    put(s, end, n);
    close_file(s);
    discard(s);
}

void qn__trace_sink_deinit(qn_trace_sink *s)
{
    if (s->fd >= 0) qn__append_close(s->fd);
    discard(s);
    qn__free(s->path);
    qn__free(s->kept);
    qn__str_deinit(&s->always);
    s->path = NULL;
    s->kept = NULL;
    s->fd = -1;
}
