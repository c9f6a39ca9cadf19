/* SPDX-License-Identifier: MIT */
/* src/format/gguf_memory.c -- a GGUF writer without a file, for a header that is read again at once: the same calls
 * declare it. */
#include "format/gguf_writer.h"

qn_status qn__gguf_writer_create_memory(qn_gguf_writer **out, qn_error *err)
{
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_gguf_writer *w = qn__arena_alloc(&arena, sizeof *w);
    if (!w) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *w);
    }
    *w = (qn_gguf_writer){.arena = arena, .alignment = QN_GGUF_DEFAULT_ALIGN};
    *out = w;
    return QN_OK;
}

qn_status qn__gguf_writer_take_header(qn_gguf_writer *w, qn_str *out, qn_error *err)
{
    if (qn__gguf_build_header(w, out)) qn__str_append(out, w->kv.data, w->kv.len);
    if (out->failed) QN_WRITER_FAIL(w, nomem, "out of memory: metadata of %zu bytes", w->kv.len);
    const qn_status status = w->to.error.status;
    if (status != QN_OK && err) *err = w->to.error;
    qn_gguf_writer_abort(w);
    return status;
}
