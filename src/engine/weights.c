/* SPDX-License-Identifier: MIT */
/* src/engine/weights.c -- weights go where they were placed. Those of a backend with memory of its own lie there in the
 * order of the file, in one piece if the device allows one of that size, and go up through four blocks of memory that
 * the device reads itself: threads fill them from the mapping while the others are on their way, so that neither the
 * disk nor the transfer waits for the other. */
#include "base/str.h"
#include "engine/engine.h"
#include "format/native.h"
#include <stdlib.h>
#include <string.h>

/* ---- one tensor ---- */

/* A copy in the backend's memory, swapped to this machine's byte order on the way. */
static qn_status copy_tensor(const qn_gguf *file, const qn_gguf_tensor *t, qn_backend *be, qn_buffer **out,
                             qn_error *err)
{
    const uint64_t bytes = t->size_bytes;
    QN_TRY(be->type->buffer_create(be, bytes, out, err));
    qn_status status = QN_OK;
    if (qn__gguf_is_native(file)) {
        status = be->type->upload(*out, 0, t->data, bytes, err);
    } else {
        void *native = qn__alloc(bytes);
        if (!native) status = QN_FAIL_NOMEM(err, bytes);
        if (status == QN_OK) status = qn__gguf_tensor_native(file, t, native, err);
        if (status == QN_OK) status = be->type->upload(*out, 0, native, bytes, err);
        qn__free(native);
    }
    if (status == QN_OK) return QN_OK;
    be->type->buffer_destroy(*out);
    *out = NULL;
    return status;
}

bool qn__weight_in_place(const qn_engine *e, const qn_backend *be)
{
    return be->type->buffer_wrap && qn__gguf_is_native(e->file);
}

qn_status qn__engine_place(const qn_gguf *file, const qn_gguf_tensor *t, qn_backend *be, qn_buffer **out, qn_error *err)
{
    return be->type->buffer_wrap && qn__gguf_is_native(file)
               ? be->type->buffer_wrap(be, t->data, t->size_bytes, out, err)
               : copy_tensor(file, t, be, out, err);
}

/* ---- is there that much? ---- */

bool qn__reads_now(qn_gguf_policy policy) { return policy == QN_GGUF_populate || policy == QN_GGUF_lock; }

static uint64_t padded(const qn_backend *be, const qn_weight *w)
{
    return qn__align_up(w->tensor->size_bytes ? w->tensor->size_bytes : 1, be->alignment);
}

uint64_t qn__weights_bytes(const qn_engine *e, int p)
{
    uint64_t bytes = 0;
    for (int i = 0; i < e->model->n_weights; i++)
        if (e->places[i] == p) bytes += padded(e->backends[p], &e->model->weights[i]);
    return bytes;
}

static qn_status check_devices(const qn_engine *e, qn_error *err)
{
    for (int p = 0; p < e->n_backends; p++) {
        const qn_backend *be = e->backends[p];
        if (!be->type->memory) continue;
        const uint64_t need = qn__weights_bytes(e, p), left = be->type->memory(be).left;
        char needed[32], there[32];
        if (need > left)
            return QN_FAIL(err, limit,
                           "%s: the weights placed there take %s, %s are free; put fewer layers there "
                           "(--gpu-layers N or auto)",
                           be->name, qn__str_bytes(needed, sizeof(needed), need),
                           qn__str_bytes(there, sizeof(there), left));
    }
    return QN_OK;
}

/* Copies and a policy that reads everything take memory at once: is there that much? */
static qn_status check_memory(const qn_engine *e, const qn_engine_options *options, qn_error *err)
{
    const qn_model *m = e->model;
    uint64_t copied = 0, read = 0;
    for (int i = 0; i < m->n_weights; i++) {
        const qn_backend *be = e->backends[e->places[i]];
        const uint64_t bytes = m->weights[i].tensor->size_bytes;
        if (qn__weight_in_place(e, be))
            read += bytes;
        else if (!be->type->memory)
            copied += bytes;
    }
    const uint64_t need = copied + (qn__reads_now(options->policy) ? read : 0),
                   most =
                       options->memory ? options->memory : UINT64_MAX, /* QN_MEMORY_AUTO is no less than what is free */
        limit = qn__memory_limit(options->memory_limit), have = limit < most ? limit : most;
    if (need <= have) return QN_OK;
    const char *by = most < limit ? " (memory)" : options->memory_limit ? " (memory_limit)" : "";
    char needed[32], left[32];
    return QN_FAIL(err, limit, "loading takes %s of memory, %s are free%s; %s",
                   qn__str_bytes(needed, sizeof(needed), need), qn__str_bytes(left, sizeof(left), have), by,
                   copied <= have ? "with the policy lazy the weights are read as they are needed"
                   : *by          ? "allow more, or take a smaller model"
                                  : "free memory, or take a smaller model");
}

/* ---- up through blocks ---- */

enum { BLOCKS = 4, BLOCK_BYTES = 8 << 20 };

/* A piece of a backend's memory, and what lies in it: weights [n] in the order of the file. */
typedef struct piece {
    qn_weight *const *w;
    int n;
    uint64_t bytes;
    qn_buffer *buffer;
} piece;

typedef struct block {
    const piece *of;
    uint64_t from, bytes; /* of the piece */
    uint8_t *host;
    qn_event *sent;
    qn_worker *worker;
} block;

static void fill(void *arg)
{
    block *b = arg;
    const uint64_t to = b->from + b->bytes;
    for (int i = 0; i < b->of->n; i++) {
        const qn_weight *w = b->of->w[i];
        const uint64_t start = w->offset, end = start + w->tensor->size_bytes;
        if (end <= b->from || start >= to) continue;
        const uint64_t lo = start > b->from ? start : b->from, hi = end < to ? end : to;
        memcpy(b->host + (lo - b->from), (const uint8_t *)w->tensor->data + (lo - start), (size_t)(hi - lo));
    }
}

static void drop_blocks(qn_backend *be, block *blocks)
{
    (void)qn__backend_sync(be, NULL); /* they may be on their way */
    for (int i = 0; i < BLOCKS; i++) {
        qn__worker_destroy(blocks[i].worker);
        if (blocks[i].sent) be->type->event_destroy(blocks[i].sent);
        if (blocks[i].host) be->type->host_free(be, blocks[i].host);
    }
}

static qn_status make_blocks(qn_backend *be, block *blocks, int n, uint64_t bytes, qn_error *err)
{
    for (int i = 0; i < n; i++) {
        void *host = NULL;
        QN_TRY(be->type->host_alloc(be, bytes, &host, err));
        blocks[i].host = host;
        memset(host, 0, (size_t)bytes);
        QN_TRY(be->type->event_create(be, &blocks[i].sent, err));
        if (n > 1) QN_TRY(qn__worker_create(&blocks[i].worker, err));
    }
    return QN_OK;
}

/* Block k of the piece is filled by the thread of its block, when what was in that has gone up. */
static qn_status begin_block(block *b, const piece *p, uint64_t from, uint64_t size, qn_error *err)
{
    if (from >= p->bytes) return QN_OK;
    QN_TRY(qn__event_wait(b->sent, err));
    b->of = p;
    b->from = from;
    b->bytes = p->bytes - from < size ? p->bytes - from : size;
    if (b->worker) return qn__worker_submit(b->worker, fill, b, err);
    fill(b);
    return QN_OK;
}

static qn_status send_blocks(qn_backend *be, block *blocks, int n, uint64_t size, const piece *p, qn_error *err)
{
    for (int i = 0; i < n; i++) QN_TRY(begin_block(&blocks[i], p, (uint64_t)i * size, size, err));
    for (uint64_t from = 0, k = 0; from < p->bytes; from += size, k++) {
        block *b = &blocks[k % (uint64_t)n];
        if (b->worker) qn__worker_wait(b->worker);
        QN_TRY(be->type->send(p->buffer, from, b->host, b->bytes, err));
        QN_TRY(be->type->event_record(b->sent, err));
        QN_TRY(begin_block(b, p, from + (uint64_t)n * size, size, err));
    }
    return QN_OK;
}

static qn_status send_piece(qn_backend *be, const piece *p, qn_error *err)
{
    block blocks[BLOCKS] = {0};
    const uint64_t size = p->bytes < BLOCK_BYTES ? p->bytes : BLOCK_BYTES, all = (p->bytes + size - 1) / size;
    const int n = all < BLOCKS ? (int)all : BLOCKS;
    qn_status status = make_blocks(be, blocks, n, size, err);
    if (status == QN_OK) status = send_blocks(be, blocks, n, size, p, err);
    for (int i = 0; i < n; i++)
        if (blocks[i].worker) qn__worker_wait(blocks[i].worker);
    drop_blocks(be, blocks);
    return status;
}

/* ---- all of them ---- */

static int by_place_in_file(const void *a, const void *b)
{
    const uint8_t *x = (*(qn_weight *const *)a)->tensor->data, *y = (*(qn_weight *const *)b)->tensor->data;
    return (x > y) - (x < y);
}

static qn_status copy_natively(qn_engine *e, const piece *p, qn_error *err)
{
    for (int i = 0; i < p->n; i++) {
        const qn_gguf_tensor *t = p->w[i]->tensor;
        void *native = qn__alloc(t->size_bytes ? t->size_bytes : 1);
        if (!native) return QN_FAIL_NOMEM(err, t->size_bytes);
        qn_status status = qn__gguf_tensor_native(e->file, t, native, err);
        if (status == QN_OK)
            status = p->buffer->backend->type->upload(p->buffer, p->w[i]->offset, native, t->size_bytes, err);
        qn__free(native);
        QN_TRY(status);
    }
    return QN_OK;
}

/* As many weights as one buffer may hold; they get their offsets. */
static piece take_piece(const qn_backend *be, qn_weight *const *w, int n)
{
    const uint64_t most = be->type->memory ? be->type->memory(be).largest : UINT64_MAX;
    piece p = {.w = w};
    for (; p.n < n; p.n++) {
        const uint64_t bytes = padded(be, w[p.n]);
        if (p.n > 0 && bytes > most - (p.bytes < most ? p.bytes : most)) break;
        w[p.n]->offset = p.bytes;
        p.bytes += bytes;
    }
    return p;
}

static qn_status load_copies(qn_engine *e, int place, qn_weight **w, int n, qn_error *err)
{
    qn_backend *be = e->backends[place];
    qsort(w, (size_t)n, sizeof(*w), by_place_in_file);
    for (int i = 0; i < n;) {
        piece p = take_piece(be, w + i, n - i);
        QN_TRY(be->type->buffer_create(be, p.bytes, &p.buffer, err));
        e->buffers[w[i]->index] = p.buffer;
        for (int k = 0; k < p.n; k++) {
            w[i + k]->buffer = p.buffer;
            e->info.copied_bytes += w[i + k]->tensor->size_bytes;
        }
        QN_TRY(be->type->send && qn__gguf_is_native(e->file) ? send_piece(be, &p, err) : copy_natively(e, &p, err));
        i += p.n;
    }
    return qn__backend_sync(be, err);
}

static qn_status load_place(qn_engine *e, int place, qn_weight **w, qn_error *err)
{
    qn_backend *be = e->backends[place];
    int n = 0;
    for (int i = 0; i < e->model->n_weights; i++)
        if (e->places[i] == place) w[n++] = &e->model->weights[i];
    if (!qn__weight_in_place(e, be)) return load_copies(e, place, w, n, err);
    for (int i = 0; i < n; i++) {
        QN_TRY(be->type->buffer_wrap(be, w[i]->tensor->data, w[i]->tensor->size_bytes, &e->buffers[w[i]->index], err));
        w[i]->buffer = e->buffers[w[i]->index];
    }
    return QN_OK;
}

qn_status qn__engine_load(qn_engine *e, const qn_engine_options *options, qn_error *err)
{
    const size_t n = (size_t)e->model->n_weights;
    QN_TRY(check_memory(e, options, err));
    QN_TRY(check_devices(e, err));
    e->buffers = qn__arena_array(&e->arena, n, sizeof(*e->buffers));
    qn_weight **w = qn__alloc((n ? n : 1) * sizeof(*w));
    qn_status status = e->buffers && w ? QN_OK : QN_FAIL(err, nomem, "out of memory while placing %zu weights", n);
    for (int p = 0; status == QN_OK && p < e->n_backends; p++) status = load_place(e, p, w, err);
    qn__free(w);
    return status;
}
