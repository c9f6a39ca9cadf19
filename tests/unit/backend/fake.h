/* SPDX-License-Identifier: MIT */
/* tests/unit/backend/fake.h -- a backend for tests: memory that the host cannot touch (its buffers have host == NULL),
 * ops that it refuses on request, and books of everything that is asked of it. It computes a few ops, naively, and
 * compiles any.
 * It is asynchronous, as a device is: run puts nodes into a queue and poisons their results, an upload puts a copy of
 * its bytes there; sync and download compute what is in it. At pace 0 nothing is computed before; at any other, each
 * call finds some more of the queue done, how much follows from the pace. */
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

enum { FAKE_QUEUE = 4096 };
typedef struct fake_job {
    qn_program *program; /* NULL: an upload */
    const qn_node *node;
    struct fake_buffer *to;
    uint64_t at, bytes;
    uint8_t *copy;
} fake_job;

typedef struct fake {
    qn_backend base;
    fake_job queue[FAKE_QUEUE];
    int n_queued, n_done;
    uint64_t pace;             /* state of the generator of delays; 0: the laziest */
    int n_too_soon;            /* things taken away while the queue needed them */
    int n_compiled, n_rebinds; /* so far */
    int fail_run;              /* the n-th run from now fails after it has started; 0 none */
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
    const qn_buffer *activations;
    struct fake_home *homes; /* of a fake that can rebind: where values lay when it was compiled or rebound */
    int n_homes;
};
typedef struct fake_home {
    const qn_node *root;
    fake_buffer *buffer;
    uint64_t at;
} fake_home;

static const qn_backend_type fake_type, fake_rebinding_type;

static inline void fake_tick(fake *f); /* some time passes */
static inline void fake_advance(fake *f, int n);
static inline bool fake_needs(const fake *f, const qn_buffer *buffer, uint64_t from, uint64_t to);

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
    fake *f = (fake *)buffer->backend;
    f->n_too_soon += fake_needs(f, buffer, 0, buffer->bytes);
    f->n_buffers--;
    qn__free(b->data);
    qn__free(b);
}

static inline qn_status fake_upload(qn_buffer *buffer, uint64_t offset, const void *src, uint64_t bytes, qn_error *err)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return QN_FAIL(err, invalid, "fake upload out of range");
    fake *f = (fake *)buffer->backend;
    fake_tick(f);
    f->n_uploads++;
    if (bytes == 0) return QN_OK;
    fake_job job = {.to = (fake_buffer *)buffer, .at = offset, .bytes = bytes, .copy = malloc((size_t)bytes)};
    assert_non_null(job.copy);
    memcpy(job.copy, src, (size_t)bytes);
    assert_true(f->n_queued < FAKE_QUEUE);
    f->queue[f->n_queued++] = job;
    fake_tick(f);
    return QN_OK;
}

static inline qn_status fake_download(const qn_buffer *buffer, uint64_t offset, void *dst, uint64_t bytes,
                                      qn_error *err)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return QN_FAIL(err, invalid, "fake download out of range");
    fake_advance((fake *)buffer->backend, FAKE_QUEUE);
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

static inline fake_buffer *fake_now(const fake *f, const qn_buffer *activations, const qn_node *n, uint64_t *at)
{
    const qn_node *root = n->root;
    fake_buffer *b = (fake_buffer *)(uintptr_t)(root->buffer ? root->buffer : activations);
    assert_ptr_equal(b->base.backend, &f->base); /* the scheduler must never mix memories */
    *at = (root->buffer ? root->buffer_offset : root->offset);
    return b;
}

static inline fake_buffer *fake_memory(const qn_program *p, const qn_node *n, uint64_t *at)
{
    if (!p->homes) return fake_now(p->be, p->activations, n, at);
    int i = 0;
    while (p->homes[i].root != n->root) i++;
    *at = p->homes[i].at;
    return p->homes[i].buffer;
}

static inline void fake_settle(qn_program *p)
{
    p->n_homes = 0;
    for (int32_t i = 0; i < p->n_nodes; i++) {
        for (int k = -1; k < p->nodes[i]->n_src; k++) {
            const qn_node *n = k < 0 ? p->nodes[i] : p->nodes[i]->src[k];
            fake_home home = {.root = n->root};
            home.buffer = fake_now(p->be, p->activations, n, &home.at);
            if (p->homes) p->homes[p->n_homes++] = home;
        }
    }
}

static inline void fake_program_free(qn_program *p)
{
    qn__free(p->homes);
    qn__free(p->nodes);
    qn__free(p);
}

static inline qn_status fake_compile(qn_backend *be, const qn_segment *segment, qn_program **out, qn_error *err)
{
    fake *f = (fake *)be;
    if (f->fail_compile > 0 && --f->fail_compile == 0) return QN_FAIL(err, internal, "fake compile fails as asked");
    const size_t n = (size_t)segment->n_nodes;
    const bool keeps = be->type->rebind != NULL;
    qn_program *p = qn__calloc(1, sizeof(*p));
    if (!p) return QN_FAIL_NOMEM(err, sizeof(*p));
    p->nodes = qn__calloc(n, sizeof(*p->nodes));
    p->homes = keeps ? qn__calloc(n * (1 + QN_MAX_SRC), sizeof(*p->homes)) : NULL;
    if (!p->nodes || (keeps && !p->homes)) {
        fake_program_free(p);
        return QN_FAIL_NOMEM(err, n * sizeof(*p->nodes));
    }
    memcpy(p->nodes, segment->nodes, n * sizeof(*p->nodes));
    p->be = f;
    p->n_nodes = segment->n_nodes;
    p->activations = segment->activations;
    for (int32_t i = 0; i < p->n_nodes; i++) assert_false(f->refuses[p->nodes[i]->op]);
    fake_settle(p);
    f->n_programs++;
    f->n_compiled++;
    *out = p;
    return QN_OK;
}

static inline void fake_rebind(qn_program *p, const qn_buffer *activations)
{
    p->activations = activations;
    p->be->n_rebinds++;
    fake_settle(p);
}

static inline void fake_program_destroy(qn_program *p)
{
    for (int i = p->be->n_done; i < p->be->n_queued; i++) p->be->n_too_soon += p->be->queue[i].program == p;
    p->be->n_programs--;
    fake_program_free(p);
}

/* ---- computing: float32 (and I32 row numbers) only ---- */

static inline void *fake_at(const qn_program *p, const qn_node *n, int64_t element)
{
    uint64_t at;
    fake_buffer *b = fake_memory(p, n, &at);
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
        memset(((const fake_buffer *)p->activations)->data + n->scratch_offset, 0xEE, (size_t)n->scratch_bytes);
}

static inline bool fake_computes(const qn_node *n)
{
    return n->op == QN_OP_add || n->op == QN_OP_mul || n->op == QN_OP_scale || n->op == QN_OP_copy ||
           n->op == QN_OP_linear || n->op == QN_OP_set_rows;
}

static inline void fake_compute(const qn_program *p, const qn_node *n)
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
    } else { /* set_rows */
        const int64_t m = n->layout.dim[1];
        for (int64_t e = 0; e < qn_layout_numel(&n->src[1]->layout); e++) {
            const int32_t row = *(const int32_t *)fake_at(p, n->src[2], e / m);
            if (row >= 0 && row < n->layout.dim[0]) F(n, row * m + e % m) = F(n->src[1], e);
        }
    }
}

/* ---- the queue ---- */

static inline bool fake_meets(const qn_program *p, const qn_node *n, const qn_buffer *buffer, uint64_t from,
                              uint64_t to)
{
    uint64_t at;
    const fake_buffer *b = fake_memory(p, n, &at);
    return &b->base == buffer && at < to && from < at + (uint64_t)qn__node_bytes(n->root);
}

/* Whether a node in the queue reads or writes these bytes. */
static inline bool fake_needs(const fake *f, const qn_buffer *buffer, uint64_t from, uint64_t to)
{
    for (int i = f->n_done; i < f->n_queued; i++) {
        const fake_job *j = &f->queue[i];
        if (!j->program) {
            if (&j->to->base == buffer && j->at < to && from < j->at + j->bytes) return true;
            continue;
        }
        if (fake_meets(j->program, j->node, buffer, from, to)) return true;
        for (int k = 0; k < j->node->n_src; k++)
            if (fake_meets(j->program, j->node->src[k], buffer, from, to)) return true;
    }
    return false;
}

static inline void fake_advance(fake *f, int n)
{
    for (; n > 0 && f->n_done < f->n_queued; n--) {
        const fake_job *j = &f->queue[f->n_done++];
        if (!j->program) {
            memcpy(j->to->data + j->at, j->copy, (size_t)j->bytes);
            free(j->copy);
            continue;
        }
        fake_compute(j->program, j->node);
        f->n_nodes++;
    }
    if (f->n_done == f->n_queued) f->n_done = f->n_queued = 0;
}

static inline void fake_tick(fake *f)
{
    if (f->pace == 0) return;
    f->pace = f->pace * 6364136223846793005u + 1442695040888963407u;
    fake_advance(f, (int)(f->pace >> 33) % (f->n_queued - f->n_done + 1));
}

static inline qn_status fake_sync(qn_backend *be, qn_error *err)
{
    (void)err;
    fake_advance((fake *)be, FAKE_QUEUE);
    return QN_OK;
}

/* What is found where a result belongs before it is computed is not what an earlier run has left there. */
static inline void fake_poison(qn_program *p, const qn_node *n)
{
    uint64_t at;
    fake_buffer *b = fake_memory(p, n, &at);
    const uint64_t bytes = (uint64_t)qn__node_bytes(n);
    if (n->root != n || fake_needs(p->be, &b->base, at, at + bytes)) return;
    for (int k = 0; k < n->n_src; k++)
        if (fake_meets(p, n->src[k], &b->base, at, at + bytes)) return;
    memset(b->data + at, 0xCD, (size_t)bytes);
}

static inline qn_status fake_run(qn_program *p, const qn_run *run, qn_error *err)
{
    fake *f = p->be;
    f->n_runs++;
    for (int32_t i = 0; i < p->n_nodes; i++) {
        const qn_node *n = p->nodes[i];
        if (run && run->eval && !run->eval(run->eval_ctx, n, false))
            return QN_FAIL(err, cancelled, "stopped at %%%d", n->id);
        if (!fake_computes(n)) return QN_FAIL(err, internal, "the fake does not compute %s", qn_node_op_name(n));
        assert_true(f->n_queued < FAKE_QUEUE);
        fake_poison(p, n);
        f->queue[f->n_queued++] = (fake_job){.program = p, .node = n};
        fake_tick(f);
        if (run && run->node_ns) run->node_ns[n->id] += 1;
        if (run && run->eval && !run->eval(run->eval_ctx, n, true))
            return QN_FAIL(err, cancelled, "stopped at %%%d", n->id);
    }
    if (f->fail_run > 0 && --f->fail_run == 0) return QN_FAIL(err, internal, "fake run fails as asked");
    return QN_OK;
}

#define FAKE_TYPE(...) \
    { \
        .name = "fake", .buffer_create = fake_buffer_create, .buffer_destroy = fake_buffer_destroy, \
        .upload = fake_upload, .download = fake_download, .accepts = fake_accepts, .scratch = fake_scratch, \
        .compile = fake_compile, .program_destroy = fake_program_destroy, .run = fake_run, .sync = fake_sync, \
        __VA_ARGS__ \
    }

/* The registry's rows live in backends that this room may not see: here the fake stands in for each. Weak, since every
 * test of the room has them. */
#define QN_BACKEND(name) extern const qn_backend_type qn__backend_##name;
#include "backend/backends.def"
#undef QN_BACKEND
#define QN_BACKEND(name) __attribute__((weak)) const qn_backend_type qn__backend_##name = FAKE_TYPE();
#include "backend/backends.def"
#undef QN_BACKEND
static const qn_backend_type fake_type = FAKE_TYPE(), fake_rebinding_type = FAKE_TYPE(.rebind = fake_rebind);

static inline void fake_init(fake *f, const char *name)
{
    *f = (fake){.base = {.type = &fake_type, .alignment = 64}};
    snprintf(f->base.name, sizeof(f->base.name), "%s", name);
}

#endif
