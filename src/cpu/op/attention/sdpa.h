/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/sdpa.h -- what attention over whole tensors and its gradient share: sizes, which keys a row
 * sees, masks, and how keys and values are packed for products in float32.
 *
 * Scores exist for a block of rows and a tile of keys at a time. Tiles start at multiples of QN_SDPA_TILE and are
 * processed in order; sums are those of the kernels, in their fixed order: a result depends on the shapes alone. */
#ifndef QN_CPU_OP_SDPA_H
#define QN_CPU_OP_SDPA_H

#include "cpu/op/pointwise/typed.h"

enum {
    QN_SDPA_TILE = 128,       /* keys */
    QN_SDPA_PANEL = 64,       /* keys in a packed panel: the lanes of one product */
    QN_SDPA_MAX_SIZE = 16384, /* of a row of q, k or v, so that the rows of a block fit the thread's tile */
};

typedef struct qn_sdpa_geo {
    qn_sdpa_sizes s;
    qn_sdpa_parts parts;
    const qn_sdpa_attrs *attrs;
    int64_t group;        /* heads of q to a head of k */
    int64_t dp, dvp;      /* d, dv rounded up to whole lanes */
    int64_t panels;       /* of one head's keys */
    int64_t rows, blocks; /* rows of q in a block; blocks of a head */
} qn_sdpa_geo;
qn_sdpa_geo qn__sdpa_geo(const qn_node *node);
/* Sets the rows of a block: as many as given, or as fit when each takes `floats`. */
void qn__sdpa_cut(qn_sdpa_geo *g, int64_t rows, int64_t floats);

/* The row of a source [batch, heads, rows, size]; *step: stride of its elements. */
static inline const uint8_t *qn__sdpa_row(const qn_view *v, int64_t batch, int64_t head, int64_t row, int64_t *step)
{
    const qn_layout *l = &v->layout;
    *step = l->dim[3] > 1 ? l->stride[3] : 1;
    return v->data + (batch * l->stride[0] + head * l->stride[1] + row * l->stride[2]) * qn__elem_bytes(v->dtype);
}

/* The keys [*lo, *hi) that row i sees, masks aside. */
static inline void qn__sdpa_sees(const qn_sdpa_geo *g, int64_t i, int64_t *lo, int64_t *hi)
{
    const int64_t window = g->attrs->window;
    *hi = g->attrs->causal && i + 1 < g->s.m ? i + 1 : g->s.m;
    *lo = window > 0 && i + 1 > window ? i + 1 - window : 0;
    if (*lo > *hi) *lo = *hi;
}

/* The mask's element (batch, head, i, j); *step: stride in j, 0 where there is only one. */
static inline const uint8_t *qn__sdpa_mask(const qn_view *mask, int64_t batch, int64_t head, int64_t i, int64_t j,
                                           int64_t *step)
{
    const qn_layout *l = &mask->layout;
    const int64_t at[] = {batch, head, i, j};
    int64_t elem = 0;
    for (int k = 0; k < 4; k++) elem += l->dim[k] > 1 ? at[k] * l->stride[k] : 0;
    *step = l->dim[3] > 1 ? l->stride[3] : 0;
    return qn__elem_at(mask, elem);
}

/* ---- float32 ---- */

/* Packs rows of a source as floats, [n, stride], scaled, padded with zeros. */
void qn__sdpa_rows(const qn_task *t, const qn_view *v, int64_t batch, int64_t head, int64_t row, int64_t n, float scale,
                   float *dst, int64_t stride);
/* Packs keys [64 panel, ..) of a source transposed: [size, QN_SDPA_PANEL], zeros past the last key. */
void qn__sdpa_panel(const qn_task *t, const qn_view *v, int64_t batch, int64_t head, int64_t panel, float *dst);
/* Multiplies `rows` rows a [rows, a_stride] with the panels that hold keys [key, key + n), key a multiple of
 * QN_SDPA_PANEL -> y [rows, QN_SDPA_TILE]. `size` numbers are summed. */
void qn__sdpa_scores(const qn_task *t, const float *a, int64_t a_stride, int64_t rows, const float *panels,
                     int64_t size, int64_t key, int64_t n, float *y);
/* Caps and masks row i's scores s of keys [j, j + n). `tanh` gets tanh(s / cap), or is NULL. */
void qn__sdpa_refine(const qn_task *t, const qn_sdpa_geo *g, const qn_view *mask, int64_t batch, int64_t head,
                     int64_t i, int64_t j, int64_t n, float *s, float *tanh);

/* ---- F64: sdpa_wide.c, one item a (batch, head), or for the gradient a (batch, kv head) ---- */
void qn__sdpa_wide(const qn_task *t, const qn_sdpa_geo *g, int64_t item);
void qn__sdpa_back_wide(const qn_task *t, const qn_sdpa_geo *g, int64_t item);

#endif
