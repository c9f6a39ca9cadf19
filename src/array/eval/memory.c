/* SPDX-License-Identifier: MIT */
/* src/array/eval/memory.c -- memory of storages. What is given back waits, by size, for the next storage of that size;
 * what waits on a device never exceeds what is in use there by more than IDLE_BYTES, so a context holds at most about
 * twice what it needs. Where there is no memory for another size, what waits there is given back. */
#include "array/array.h"
#include "base/metrics.h"

#define IDLE_BYTES (UINT64_C(64) << 20)

/* Four sizes an octave: at most a quarter of a block is unused. */
static int class_of(uint64_t bytes, uint64_t *rounded)
{
    if (bytes <= 256) {
        *rounded = 256;
        return 0;
    }
    const int octave = 63 - __builtin_clzll(bytes - 1);   /* 8 or more */
    const uint64_t quarter = (bytes - 1) >> (octave - 2); /* 4 to 7 */
    *rounded = (quarter + 1) << (octave - 2);
    return (octave - 8) * 4 + (int)(quarter - 4) + 1;
}

static void destroy(qn_context *ctx, qn_memory *m)
{
    m->buffer->backend->type->buffer_destroy(m->buffer);
    if (m->deleter != NULL) m->deleter(m->arg);
    qn__slab_put(&ctx->memories, m);
}

/* Was there anything? */
static bool trim(qn_context *ctx, int place)
{
    const bool any = ctx->idle_bytes[place] > 0;
    for (int c = QN_MEMORY_CLASSES - 1; c >= 0; c--) {
        while (ctx->idle[place][c] != NULL) {
            qn_memory *m = ctx->idle[place][c];
            ctx->idle[place][c] = m->next;
            ctx->idle_bytes[place] -= m->buffer->bytes;
            destroy(ctx, m);
        }
    }
    return any;
}

bool qn__memory_trim(qn_context *ctx)
{
    bool any = false;
    for (int p = 0; p < ctx->n_backends; p++) any |= trim(ctx, p);
    return any;
}

static qn_status create(qn_context *ctx, int place, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    qn_backend *be = ctx->backends[place];
    qn_error why = {0};
    qn_status status = be->type->buffer_create(be, bytes, out, &why);
    if (qn__memory_wants(status) && trim(ctx, place)) {
        why = (qn_error){0};
        status = be->type->buffer_create(be, bytes, out, &why);
    }
    if (status != QN_OK && err != NULL) *err = why;
    return status;
}

qn_status qn__memory_get(qn_context *ctx, int place, uint64_t bytes, qn_memory **out, qn_error *err)
{
    uint64_t size;
    qn__exports_collect(ctx);
    if (bytes > INT64_MAX / 2)
        return QN_FAIL(err, nomem, "out of memory: %llu bytes were asked for", (unsigned long long)bytes);
    const int class = class_of(bytes, &size);
    if (class >= QN_MEMORY_CLASSES)
        return QN_FAIL(err, nomem, "out of memory: %llu bytes were asked for", (unsigned long long)bytes);
    qn_memory *m = ctx->idle[place][class];
    if (m != NULL) {
        ctx->idle[place][class] = m->next;
        ctx->idle_bytes[place] -= m->buffer->bytes;
        ctx->live_bytes[place] += m->buffer->bytes;
        QN_COUNT(pool_hits, 1);
        *out = m;
        return QN_OK;
    }
    m = qn__slab_get(ctx, &ctx->memories);
    if (m == NULL) return QN_FAIL_NOMEM(err, sizeof *m);
    *m = (qn_memory){.place = place, .class_ = class};
    const qn_status status = create(ctx, place, size, &m->buffer, err);
    if (status != QN_OK) {
        qn__slab_put(&ctx->memories, m);
        return status;
    }
    ctx->live_bytes[place] += size;
    *out = m;
    return QN_OK;
}

void qn__memory_put(qn_context *ctx, qn_memory *m)
{
    const uint64_t bytes = m->buffer->bytes;
    if (m->class_ < 0) {
        destroy(ctx, m);
        return;
    }
    const int place = m->place;
    ctx->live_bytes[place] -= bytes;
    if (ctx->idle_bytes[place] + bytes > ctx->live_bytes[place] + IDLE_BYTES) {
        destroy(ctx, m);
        return;
    }
    m->next = ctx->idle[place][m->class_];
    ctx->idle[place][m->class_] = m;
    ctx->idle_bytes[place] += bytes;
}
