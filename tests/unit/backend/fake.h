/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/fake.h -- a backend for tests: memory that the host cannot touch (its buffers have host == NULL),
 * ops that it refuses on request, and books of everything that is asked of it. It computes a few ops, naively, and
 * compiles any. */
#ifndef QN_TEST_FAKE_H
#define QN_TEST_FAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/sched.h"
#include "base/mem.h"

#define OK(call) \
    do { \
        qn_error ok_err_ = {0}; \
        qn_error *err = &ok_err_; \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, ok_err_.text); \
    } while (0)

typedef struct fake {
    qn_backend base;
    bool refuses[QN_OP_COUNT];
    bool shows_host;                                        /* buffers have host pointers, as the CPU's do */
    uint64_t scratch_bytes;                                 /* asked for by every node */
    int fail_compile;                                       /* the n-th compile from now fails; 0 none */
    int n_buffers, n_programs;                              /* alive */
    int n_created, n_uploads, n_downloads, n_runs, n_nodes; /* so far */
} fake;

typedef struct fake_buffer {
    qn_buffer base;
    uint8_t *data;
} fake_buffer;

struct qn_program {
    fake *be;
    qn_node **nodes;
    int32_t n_nodes;
    qn_buffer *activations;
};

extern const qn_backend_type fake_type;

static inline qn_status fake_buffer_create(qn_backend *be, uint64_t bytes, qn_buffer **out, qn_error *err)
{
    fake *f = (fake *)be;
    fake_buffer *b = qn__calloc(1, sizeof(*b));
    if (!b) return QN_FAIL_NOMEM(err, sizeof(*b));
    b->data = qn__alloc((size_t)bytes);
    if (!b->data) {
        qn__free(b);
        return QN_FAIL_NOMEM(err, bytes);
    }
    memset(b->data, 0xCD, (size_t)bytes);
    b->base = (qn_buffer){.backend = be, .bytes = bytes, .host = f->shows_host ? b->data : NULL};
    f->n_buffers++;
    f->n_created++;
    *out = &b->base;
    return QN_OK;
}

static inline void fake_buffer_destroy(qn_buffer *buffer)
{
    fake_buffer *b = (fake_buffer *)buffer;
    ((fake *)buffer->backend)->n_buffers--;
    qn__free(b->data);
    qn__free(b);
}

static inline qn_status fake_upload(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return QN_FAIL(err, invalid, "fake upload out of range");
    if (bytes) memcpy(((fake_buffer *)buffer)->data + offset, src, (size_t)bytes);
    ((fake *)buffer->backend)->n_uploads++;
    return QN_OK;
}

static inline qn_status fake_download(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes,
                                      qn_error *err)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return QN_FAIL(err, invalid, "fake download out of range");
    if (bytes) memcpy(dst, ((const fake_buffer *)buffer)->data + offset, (size_t)bytes);
    ((fake *)buffer->backend)->n_downloads++;
    return QN_OK;
}

static inline bool fake_accepts(const qn_backend *be, const qn_node *node, qn_error *err)
{
    if (!((const fake *)be)->refuses[node->op]) return true;
    QN_FAIL(err, unsupported, "this fake refuses %s", qn_node_op_name(node));
    return false;
}

static inline uint64_t fake_scratch(const qn_backend *be, const qn_node *node)
{
    (void)node;
    return ((const fake *)be)->scratch_bytes;
}

static inline fake_buffer *fake_memory(const fake *f, qn_buffer *activations, const qn_node *n, uint64_t *at)
{
    const qn_node *root = n->root;
    fake_buffer *b = (fake_buffer *)(root->buffer ? root->buffer : activations);
    assert_ptr_equal(b->base.backend, &f->base); /* the scheduler must never mix memories */
    *at = (root->buffer ? root->buffer_offset : root->offset);
    return b;
}

static inline qn_status fake_compile(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err)
{
    fake *f = (fake *)be;
    if (f->fail_compile > 0 && --f->fail_compile == 0) return QN_FAIL(err, internal, "fake compile fails as asked");
    qn_program *p = qn__calloc(1, sizeof(*p));
    if (!p) return QN_FAIL_NOMEM(err, sizeof(*p));
    p->nodes = qn__calloc((size_t)segment->n_nodes, sizeof(*p->nodes));
    if (!p->nodes) {
        qn__free(p);
        return QN_FAIL_NOMEM(err, (size_t)segment->n_nodes * sizeof(*p->nodes));
    }
    memcpy(p->nodes, segment->nodes, (size_t)segment->n_nodes * sizeof(*p->nodes));
    p->be = f;
    p->n_nodes = segment->n_nodes;
    p->activations = segment->activations;
    for (int32_t i = 0; i < p->n_nodes; i++) {
        uint64_t at;
        assert_false(f->refuses[p->nodes[i]->op]);
        fake_memory(f, p->activations, p->nodes[i], &at);
        for (int k = 0; k < p->nodes[i]->n_src; k++) fake_memory(f, p->activations, p->nodes[i]->src[k], &at);
    }
    f->n_programs++;
    *out = p;
    return QN_OK;
}

static inline void fake_program_destroy(qn_program *p)
{
    p->be->n_programs--;
    qn__free(p->nodes);
    qn__free(p);
}

/* ---- computing: float32 (and I32 row numbers) only ---- */

static inline void *fake_at(const qn_program *p, const qn_node *n, int64_t element)
{
    uint64_t at;
    fake_buffer *b = fake_memory(p->be, p->activations, n, &at);
    int64_t e = n->layout.offset; /* row-major element number to place */
    for (int i = n->layout.rank - 1; i >= 0; i--) {
        e += element % n->layout.dim[i] * n->layout.stride[i];
        element /= n->layout.dim[i];
    }
    assert_true(at + (uint64_t)e * 4 + 4 <= b->base.bytes);
    return b->data + at + (uint64_t)e * 4;
}
#define F(n, e) (*(float *)fake_at(p, (n), (e)))

static inline float fake_broadcast(const qn_program *p, const qn_node *n, const qn_node *dst, int64_t e)
{
    int64_t from = 0, step = 1;
    for (int i = dst->layout.rank - 1; i >= 0; i--) {
        const int k = i - (dst->layout.rank - n->layout.rank);
        const int64_t at = e % dst->layout.dim[i];
        e /= dst->layout.dim[i];
        if (k < 0) continue;
        if (n->layout.dim[k] > 1) from += at * step;
        step *= n->layout.dim[k];
    }
    return F(n, from);
}

static inline void fake_scribble(const qn_program *p, const qn_node *n)
{
    if (n->scratch_bytes)
        memset(((fake_buffer *)p->activations)->data + n->scratch_offset, 0xEE, (size_t)n->scratch_bytes);
}

static inline bool fake_compute(const qn_program *p, const qn_node *n)
{
    const int64_t total = qn_layout_numel(&n->layout);
    fake_scribble(p, n);
    if (n->op == QN_OP_add || n->op == QN_OP_mul) {
        for (int64_t e = 0; e < total; e++) {
            const float a = fake_broadcast(p, n->src[0], n, e), b = fake_broadcast(p, n->src[1], n, e);
            F(n, e) = n->op == QN_OP_add ? a + b : a * b;
        }
    } else if (n->op == QN_OP_scale || n->op == QN_OP_copy) {
        const qn_scale_attrs one = {1, -0.0f}, *a = n->op == QN_OP_scale ? n->attrs : &one;
        for (int64_t e = 0; e < total; e++) F(n, e) = a->scale * F(n->src[0], e) + a->bias;
    } else if (n->op == QN_OP_linear) {
        const int64_t k = n->src[1]->layout.dim[1], m = n->src[1]->layout.dim[0];
        for (int64_t e = 0; e < total; e++) {
            float sum = n->n_src > 2 ? F(n->src[2], e % m) : 0;
            for (int64_t i = 0; i < k; i++) sum += F(n->src[0], e / m * k + i) * F(n->src[1], e % m * k + i);
            F(n, e) = sum;
        }
    } else if (n->op == QN_OP_set_rows) {
        const int64_t m = n->layout.dim[1];
        for (int64_t e = 0; e < qn_layout_numel(&n->src[1]->layout); e++) {
            const int32_t row = *(const int32_t *)fake_at(p, n->src[2], e / m);
            if (row >= 0 && row < n->layout.dim[0]) F(n, row * m + e % m) = F(n->src[1], e);
        }
    } else {
        return false;
    }
    return true;
}

static inline qn_status fake_run(qn_program *p, const qn_run *run, qn_error *err)
{
    p->be->n_runs++;
    for (int32_t i = 0; i < p->n_nodes; i++) {
        const qn_node *n = p->nodes[i];
        if (run && run->eval && !run->eval(run->eval_ctx, n, false))
            return QN_FAIL(err, cancelled, "stopped at %%%d", n->id);
        if (!fake_compute(p, n)) return QN_FAIL(err, internal, "the fake does not compute %s", qn_node_op_name(n));
        p->be->n_nodes++;
        if (run && run->node_ns) run->node_ns[n->id] += 1;
        if (run && run->eval && !run->eval(run->eval_ctx, n, true))
            return QN_FAIL(err, cancelled, "stopped at %%%d", n->id);
    }
    return QN_OK;
}

static inline void fake_sync(qn_backend *be) { (void)be; }

#define FAKE_TYPE \
    { \
        .name = "fake", .buffer_create = fake_buffer_create, .buffer_destroy = fake_buffer_destroy, \
        .upload = fake_upload, .download = fake_download, .accepts = fake_accepts, .scratch = fake_scratch, \
        .compile = fake_compile, .program_destroy = fake_program_destroy, .run = fake_run, .sync = fake_sync \
    }

/* The registry's rows live in backends that this room may not see: here the fake stands in for each. */
#define QN_BACKEND(name) extern const qn_backend_type qn__backend_##name;
#include "backend/backends.def"
#undef QN_BACKEND
#define QN_BACKEND(name) const qn_backend_type qn__backend_##name = FAKE_TYPE;
#include "backend/backends.def"
#undef QN_BACKEND
const qn_backend_type fake_type = FAKE_TYPE;

static inline void fake_init(fake *f, const char *name)
{
    *f = (fake){.base = {.type = &fake_type, .alignment = 64}};
    snprintf(f->base.name, sizeof(f->base.name), "%s", name);
}

#endif
