/* SPDX-License-Identifier: MIT */
/* src/backend/compare.c -- a node that has run, once more on another backend, from the sources that it had. */
#include "backend/compare.h"

#include <math.h>
#include <string.h>

#include "backend/internal.h"
#include "base/mem.h"

/* Memory of a root while the node runs. */
typedef struct held {
    const void *bytes;
    void *own; /* NULL: bytes are somebody else's */
} held;

struct qn_comparison {
    qn_backend *be;
    held sources[QN_MAX_SRC];
    qn_compared_value of[QN_MAX_SRC];
    const qn_node *node; /* whose sources are held; NULL: nobody's */
};

qn_status qn__comparison_create(const char *backend, int n_threads, qn_comparison **out, qn_error *err)
{
    int n = 0;
    qn_comparison *c = qn__calloc(1, sizeof(*c));
    if (!c) return QN_FAIL_NOMEM(err, sizeof(*c));
    const qn_status status =
        qn__backends_open(backend, &(qn_backend_options){.n_threads = n_threads}, 1, &c->be, &n, err);
    if (status != QN_OK) {
        if (n) c->be->type->close(c->be);
        qn__free(c);
        return status;
    }
    *out = c;
    return QN_OK;
}

static void let_go(qn_comparison *c)
{
    for (int i = 0; i < QN_MAX_SRC; i++) {
        qn__free(c->sources[i].own);
        c->sources[i] = (held){0};
    }
    c->node = NULL;
}

void qn__comparison_destroy(qn_comparison *c)
{
    if (!c) return;
    let_go(c);
    c->be->type->close(c->be);
    qn__free(c);
}

static qn_status download_root(const qn_exec *e, const qn_node *root, void **out, qn_error *err)
{
    const uint64_t bytes = (uint64_t)qn__node_bytes(root);
    uint64_t at;
    qn_buffer *buffer = qn__exec_memory(e, root, &at);
    *out = qn__alloc(bytes ? bytes : 1);
    if (!*out) return QN_FAIL_NOMEM(err, bytes);
    return bytes ? buffer->backend->type->download(buffer, at, *out, bytes, err) : QN_OK;
}

/* Weights stay where they are, if the host can read them there; the node may overwrite all else. */
static qn_status hold(const qn_exec *e, const qn_node *root, held *h, qn_error *err)
{
    if (qn__is_loose_const(root)) {
        h->bytes = root->host;
        return QN_OK;
    }
    if (root->op == QN_OP_param && !(root->flags & QN_NODE_mutable)) {
        uint64_t at;
        const qn_buffer *buffer = qn__exec_memory(e, root, &at);
        h->bytes = buffer->host ? (const uint8_t *)buffer->host + at : NULL;
        if (h->bytes) return QN_OK;
    }
    QN_TRY(download_root(e, root, &h->own, err));
    h->bytes = h->own;
    return QN_OK;
}

qn_status qn__comparison_before(qn_comparison *c, const qn_exec *e, const qn_node *n, qn_error *err)
{
    let_go(c);
    for (int i = 0; i < n->n_src; i++) {
        int k = 0;
        while (n->src[k]->root != n->src[i]->root) k++;
        if (k == i)
            QN_TRY(hold(e, n->src[i]->root, &c->sources[i], err));
        else
            c->sources[i].bytes = c->sources[k].bytes;
    }
    c->node = n;
    return QN_OK;
}

/* ---- values ---- */

/* All of a root as float32. The caller frees it. */
static qn_status floats(const qn_node *root, const void *bytes, float **out, qn_error *err)
{
    const int64_t n = qn_layout_numel(&root->layout);
    *out = qn__alloc((size_t)(n ? n : 1) * sizeof(float));
    if (!*out) return QN_FAIL_NOMEM(err, (size_t)n * sizeof(float));
    return qn__widen(root->dtype, bytes, *out, n, err);
}

static void range(const float *v, int64_t n, qn_compared_value *out)
{
    bool any = false;
    out->min = out->max = 0;
    out->n_not_finite = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            out->n_not_finite++;
            continue;
        }
        if (!any || v[i] < out->min) out->min = v[i];
        if (!any || v[i] > out->max) out->max = v[i];
        any = true;
    }
}

static void describe(const qn_node *n, qn_compared_value *out)
{
    *out = (qn_compared_value){.name = n->name,
                               .op = qn_node_op_name(n),
                               .layer = n->layer,
                               .dtype = n->dtype,
                               .shape = qn_layout_shape(&n->layout)};
}

/* Floats in their order as whole numbers. */
static int64_t rank_of(float f)
{
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits < 0 ? (int64_t)INT32_MIN - bits : bits;
}

static uint64_t ulps_between(float a, float b)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : UINT64_MAX;
    const int64_t x = rank_of(a), y = rank_of(b);
    return (uint64_t)(x < y ? y - x : x - y);
}

static bool same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

static void differ(const float *a, const float *b, qn_compared *out)
{
    for (int64_t i = 0; i < out->n; i++) {
        if (isfinite(a[i]) && fabs(a[i]) > out->largest) out->largest = fabs(a[i]);
        if (same_bits(a[i], b[i])) continue;
        const bool finite = isfinite(a[i]) && isfinite(b[i]);
        const double distance = finite ? fabs((double)a[i] - b[i]) : INFINITY;
        const uint64_t ulps = ulps_between(a[i], b[i]);
        out->n_differ++;
        if (ulps > out->ulps) out->ulps = ulps;
        if (out->at >= 0 && distance <= out->distance) continue;
        out->at = i;
        out->distance = distance;
        out->first = a[i];
        out->second = b[i];
    }
}

static qn_status ranges_of_sources(qn_comparison *c, const qn_node *n, qn_error *err)
{
    for (int i = 0; i < n->n_src; i++) {
        float *v = NULL;
        const qn_node *root = n->src[i]->root;
        const qn_status status = floats(root, c->sources[i].bytes, &v, err);
        if (status == QN_OK) range(v, qn_layout_numel(&root->layout), &c->of[i]);
        qn__free(v);
        QN_TRY(status);
    }
    return QN_OK;
}

static qn_status compare(qn_comparison *c, const qn_node *n, const void *mine, const void *theirs, qn_compared *out,
                         qn_error *err)
{
    float *a = NULL, *b = NULL;
    out->n = qn_layout_numel(&n->root->layout);
    qn_status status = floats(n->root, mine, &a, err);
    if (status == QN_OK) status = floats(n->root, theirs, &b, err);
    if (status == QN_OK) {
        range(a, out->n, &out->value);
        differ(a, b, out);
        if (out->n_differ) status = ranges_of_sources(c, n, err);
    }
    qn__free(a);
    qn__free(b);
    return status;
}

static qn_status run_again(qn_comparison *c, const qn_exec *e, const qn_node *n, qn_compared *out, qn_error *err)
{
    const void *memory[QN_MAX_SRC];
    const uint64_t bytes = (uint64_t)qn__node_bytes(n->root);
    void *mine = NULL, *theirs = qn__alloc(bytes ? bytes : 1);
    for (int i = 0; i < n->n_src; i++) memory[i] = c->sources[i].bytes;
    qn_status status = theirs ? QN_OK : QN_FAIL_NOMEM(err, bytes);
    if (status == QN_OK) status = qn__node_alone(c->be, n, memory, theirs, err);
    if (status == QN_OK) status = download_root(e, n->root, &mine, err);
    if (status == QN_OK) status = compare(c, n, mine, theirs, out, err);
    qn__free(mine);
    qn__free(theirs);
    return status;
}

qn_status qn__comparison_after(qn_comparison *c, const qn_exec *e, const qn_node *n, qn_compared *out, qn_error *why,
                               qn_error *err)
{
    qn_status status = QN_OK;
    QN_ASSERT(c->node == n);
    *out = (qn_compared){.at = -1, .sources = c->of, .n_sources = n->n_src};
    describe(n, &out->value);
    for (int i = 0; i < n->n_src; i++) describe(n->src[i], &c->of[i]);
    if (c->be->type->accepts(c->be, n, why))
        status = run_again(c, e, n, out, err);
    else
        out->why = why->text;
    let_go(c);
    return status;
}
