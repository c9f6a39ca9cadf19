/* SPDX-License-Identifier: MIT */
/* src/engine/lens_attention.c -- what each head gives a token to look at, computed once more from what the attention
 * node reads: its attributes, queries, cached keys, lists and spans. So it is right for whatever a model's layers see,
 * and however they score it. In double precision. */
#include "engine/lens.h"
#include <math.h>
#include <string.h>

enum { Q, K, V, LISTS, SPANS, SINKS }; /* in the order of the node's sources */

/* The node's values as float32, in a buffer that is kept. */
static qn_status take(qn_lens *l, const qn_node *node, int which, qn_error *err)
{
    const int64_t n = qn_layout_numel(&node->layout);
    qn_lens_buffer *b = &l->of[which];
    if (n > b->n) {
        float *more = qn__realloc(b->x, (size_t)n * sizeof *more);
        if (!more) return QN_FAIL_NOMEM(err, (size_t)n * sizeof *more);
        b->x = more;
        b->n = n;
    }
    if (n > l->n_raw) {
        uint8_t *raw = qn__realloc(l->raw, (size_t)n * 8); /* no type takes more an element */
        if (!raw) return QN_FAIL_NOMEM(err, (size_t)n * 8);
        l->raw = raw;
        l->n_raw = n;
    }
    return qn__exec_take(l->session->running, node, b->x, l->raw, err);
}

/* What a head needs to know. */
typedef struct look {
    const qn_lens *l;
    const qn_kv *kv;
    const qn_attn_attrs *attrs;
    int64_t n_head, n_kv_head, d, dv, capacity, n_lists, span_size, n_cells;
} look;

static double dot(const float *a, const float *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

static int64_t cell_at(const look *a, int64_t list, int64_t entry)
{
    const int64_t cell = (int64_t)a->l->of[LISTS].x[list * a->capacity + entry];
    return cell >= 0 && cell < a->n_cells ? cell : -1;
}

static double score(const look *a, int64_t head, int64_t row, int64_t list, int64_t entry, int64_t cell)
{
    const float *q = a->l->of[Q].x + (row * a->n_head + head) * a->d;
    const int64_t kv_head = head / (a->n_head / a->n_kv_head);
    double s = (double)a->attrs->scale * dot(q, a->l->of[K].x + (cell * a->n_kv_head + kv_head) * a->d, a->d);
    if (a->attrs->softcap > 0) s = (double)a->attrs->softcap * tanh(s / (double)a->attrs->softcap);
    if (a->attrs->alibi > 0) {
        const double own = (double)a->l->of[SPANS].x[row * a->span_size + 3],
                     pos = (double)a->l->of[LISTS].x[(a->n_lists / 2 + list) * a->capacity + entry];
        s -= (double)qn__alibi_slope(a->attrs->alibi, a->n_head, head) * fabs(pos - own);
    }
    return s;
}

/* The weights of the entries that a query sees, at their places in its list. */
static void weigh(const look *a, int64_t head, int64_t row, int64_t list, int64_t first, int64_t end)
{
    double *w = a->l->weights;
    const float *sinks = a->attrs->has_sinks ? a->l->of[SINKS].x : NULL;
    double max = sinks ? (double)sinks[head] : -(double)INFINITY, sum = 0;
    for (int64_t i = first; i < end; i++) {
        const int64_t cell = cell_at(a, list, i);
        const double s = cell < 0 ? -(double)INFINITY : score(a, head, row, list, i, cell);
        w[i] = s;
        if (s > max) max = s;
    }
    if (!(max > -(double)INFINITY)) max = 0; /* nothing is seen */
    if (sinks) sum = exp((double)sinks[head] - max);
    for (int64_t i = first; i < end; i++) sum += exp(w[i] - max);
    for (int64_t i = first; i < end; i++) w[i] = sum > 0 ? exp(w[i] - max) / sum : 0;
}

/* Against what the node has. */
static void compare(const look *a, qn_lens_heads *h, int64_t head, int64_t list, int64_t first, int64_t end,
                    const float *have)
{
    const int64_t kv_head = head / (a->n_head / a->n_kv_head);
    for (int64_t j = 0; j < a->dv; j++) {
        double y = 0;
        for (int64_t i = first; i < end; i++) {
            const int64_t cell = cell_at(a, list, i);
            if (cell < 0) continue;
            y += a->l->weights[i] * (double)a->l->of[V].x[(cell * a->n_kv_head + kv_head) * a->dv + j];
        }
        const double x = (double)have[head * a->dv + j];
        h->off += (y - x) * (y - x);
        h->square += x * x;
    }
}

static void look_at_row(const look *a, qn_lens_heads *h, int64_t row, int32_t pos, const float *have)
{
    const float *span = a->l->of[SPANS].x + row * a->span_size;
    const int64_t list = (int64_t)span[0], first = (int64_t)span[1];
    const int64_t end = (int64_t)span[2] < a->capacity ? (int64_t)span[2] : a->capacity, n = a->l->info.n_tokens;
    for (int64_t head = 0; head < a->n_head; head++) {
        float *to = h->rows + (head * n + pos) * n;
        weigh(a, head, row, list, first, end);
        for (int64_t i = first; i < end; i++) {
            const int64_t cell = cell_at(a, list, i);
            const int32_t of = cell >= 0 ? a->kv->pos[cell] : -1;
            if (of >= 0 && of < n) to[of] = (float)a->l->weights[i];
        }
        compare(a, h, head, list, first, end, have);
    }
}

static qn_status make_rows(qn_lens *l, qn_lens_heads *h, int64_t n_head, int64_t capacity, qn_error *err)
{
    const size_t n = (size_t)l->info.n_tokens;
    if (!h->rows) {
        h->rows = qn__calloc((size_t)n_head * n * n, sizeof(float));
        if (!h->rows) return QN_FAIL_NOMEM(err, (size_t)n_head * n * n * sizeof(float));
        h->n = (int32_t)n_head;
    }
    double *weights = qn__realloc(l->weights, (size_t)capacity * sizeof *weights);
    if (!weights) return QN_FAIL_NOMEM(err, (size_t)capacity * sizeof *weights);
    l->weights = weights;
    return QN_OK;
}

qn_status qn__lens_attention(void *ctx, qn_tap_value *v, qn_error *err)
{
    qn_lens *l = ctx;
    const qn_session *s = l->session;
    const qn_node *node = qn__tap_computed(s->taps->at);
    const int32_t at = v->layer - l->info.first_layer;
    if (at < 0 || at >= l->n_kept || node->op != QN_OP_attention || !v->rows) return QN_OK;
    qn_lens_heads *h = &l->heads[at];
    for (int i = 0; i < node->n_src; i++) QN_TRY(take(l, node->src[i], i, err));
    const qn_layout *q = &node->src[Q]->layout, *k = &node->src[K]->layout, *lists = &node->src[LISTS]->layout;
    const qn_model *m = s->engine->model;
    const look a = {.l = l,
                    .kv = &s->memory.kv[s->kv_desc.layers[m->layers[v->layer].kv_of].group],
                    .attrs = node->attrs,
                    .n_head = q->dim[1],
                    .n_kv_head = k->dim[1],
                    .d = q->dim[2],
                    .dv = node->src[V]->layout.dim[2],
                    .capacity = lists->dim[1],
                    .n_lists = lists->dim[0],
                    .span_size = node->src[SPANS]->layout.dim[1],
                    .n_cells = k->dim[0]};
    QN_TRY(make_rows(l, h, a.n_head, a.capacity, err));
    for (int64_t r = 0; r < v->n_rows; r++)
        if (v->rows[r].seq == 0 && v->rows[r].pos >= 0 && v->rows[r].pos < l->info.n_tokens)
            look_at_row(&a, h, s->taps->picked_items[r], v->rows[r].pos, v->data + r * v->row_size);
    return QN_OK;
}

/* ---- asking ---- */

static const qn_lens_heads *heads_of(const qn_lens *l, int32_t layer)
{
    const bool here = l->heads && layer >= l->info.first_layer && layer < l->info.end_layer;
    return here ? &l->heads[layer - l->info.first_layer] : NULL;
}

int32_t qn_lens_n_heads(const qn_lens *l, int32_t layer)
{
    const qn_lens_heads *h = heads_of(l, layer);
    return h ? h->n : 0;
}

const float *qn_lens_attention(const qn_lens *l, int32_t layer, int32_t head)
{
    const qn_lens_heads *h = heads_of(l, layer);
    return h && head >= 0 && head < h->n ? h->rows + (int64_t)head * l->info.n_tokens * l->info.n_tokens : NULL;
}

double qn_lens_attention_error(const qn_lens *l, int32_t layer)
{
    const qn_lens_heads *h = heads_of(l, layer);
    return !h || h->n == 0 ? 0 : h->square > 0 ? h->off / h->square : h->off;
}
