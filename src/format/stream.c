/* SPDX-License-Identifier: MIT */
/* src/format/stream.c -- see stream.h. */
#include "format/stream.h"
#include "format/gguf_file.h"

#include <string.h>

bool qn__stream_put(qn_stream *s, qn_stream_tensor t, const void *bytes, size_t n)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    if (!t.name) {
        QN_STREAM_FAIL(s, state, "found %zu bytes of data after the last of %zu tensors, expected none", n,
                       t.n_tensors);
        return false;
    }
    if (n > t.size_bytes - s->written) {
        QN_STREAM_FAIL(s, invalid, "%s: found %llu bytes of data or more, expected %llu",
                       qn__gguf_subject(subject, "tensor", t.name, strlen(t.name)),
                       (unsigned long long)(s->written + n), (unsigned long long)t.size_bytes);
        return false;
    }
    qn__writer_put(s->out, bytes, n);
    s->written += n;
    return true;
}

qn_status qn__stream_status(const qn_stream *s, qn_error *err)
{
    if (!qn__stream_healthy(s)) {
        if (err) *err = s->error;
        return s->error.status;
    }
    if (qn__writer_failed(s->out)) return QN_FAIL(err, io, "writing failed; ending the file says why");
    return QN_OK;
}

qn_status qn__stream_commit(qn_stream *s, qn_stream_tensor t, qn_error *err)
{
    char subject[QN_GGUF_SUBJECT_BYTES];
    /* After a failed write the missing data is its consequence: what failed is what to tell. */
    if (t.name && !qn__writer_failed(s->out))
        QN_STREAM_FAIL(s, state, "%s: found %llu bytes of data at the end, expected %llu",
                       qn__gguf_subject(subject, "tensor", t.name, strlen(t.name)), (unsigned long long)s->written,
                       (unsigned long long)t.size_bytes);
    if (qn__stream_healthy(s)) return qn__writer_commit(s->out, err);
    if (err) *err = s->error;
    qn__writer_abort(s->out);
    return s->error.status;
}
