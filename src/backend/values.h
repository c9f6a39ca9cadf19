/* SPDX-License-Identifier: MIT */
/* src/backend/values.h -- where the values of a segment lie, for a backend that compiles it: what every backend checks
 * of buffers and nodes before it touches their memory. */
#ifndef QN_BACKEND_VALUES_H
#define QN_BACKEND_VALUES_H

#include "backend/backend.h"

static inline qn_status qn__buffer_check_range(const qn_buffer *buffer, uint64_t offset, uint64_t bytes, qn_error *err)
{
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return QN_OK;
    return QN_FAIL(err, invalid, "%s: bytes %llu to %llu of a buffer of %llu", buffer->backend->name,
                   (unsigned long long)offset, (unsigned long long)(offset + bytes), (unsigned long long)buffer->bytes);
}

/* A param or an output whose memory is bound before each run (qn_backend_type.rebind). */
static inline bool qn__value_is_unbound(const qn_node *root)
{
    return !root->buffer && (root->op == QN_OP_param || (root->flags & QN_NODE_bound));
}

/* That `user` may touch n: it lies in a buffer of this backend, and within it. Of a value that isn't unbound. */
static inline qn_status qn__value_check(const qn_backend *be, const qn_buffer *activations, const qn_node *user,
                                        const qn_node *n, qn_error *err)
{
    const qn_node *root = n->root;
    const qn_buffer *buffer = root->buffer ? root->buffer : activations;
    const bool lost = !root->buffer && root->place != user->place;
    if (lost || !buffer || buffer->backend != be)
        return QN_FAIL(err, invalid,
                       "%s: %s \"%s\" needs \"%s\", which lies in %s: backends may not read each other's buffers",
                       be->name, qn_node_op_name(user), user->name, n->name[0] ? n->name : qn_node_op_name(n),
                       lost || !buffer ? "another backend's activations" : buffer->backend->name);
    const uint64_t start = root->buffer ? root->buffer_offset : root->offset;
    int64_t lo, hi;
    qn_layout_range(&n->layout, &lo, &hi);
    if (lo == hi) return QN_OK; /* nothing is touched, wherever it lies */
    const qn_dtype_info *d = qn_dtype_get(n->dtype);
    const uint64_t bytes = (uint64_t)(hi / d->block_elems * d->block_bytes);
    if (lo < 0 || start > buffer->bytes || bytes > buffer->bytes - start)
        return QN_FAIL(err, invalid, "%s: %s \"%s\" ends %llu bytes past %llu in a buffer of %llu", be->name,
                       qn_node_op_name(n), n->name, (unsigned long long)bytes, (unsigned long long)start,
                       (unsigned long long)buffer->bytes);
    return QN_OK;
}

#endif
