/* SPDX-License-Identifier: MIT */
/* src/cpu/op/attention/sdpa_parts.c -- packing, scores and masks, see sdpa.h. */
#include "cpu/op/attention/sdpa.h"

#include "cpu/op/ops.h"

#include <math.h>

static int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

qn_sdpa_geo qn__sdpa_geo(const qn_node *node)
{
    const qn_sdpa_sizes s = qn__sdpa_sizes(&node->src[0]->layout, &node->src[1]->layout, &node->src[2]->layout);
    return (qn_sdpa_geo){
        .s = s,
        .parts = qn__sdpa_parts(&s),
        .attrs = node->attrs,
        .group = s.kv_heads > 0 ? s.heads / s.kv_heads : 0,
        .dp = up(s.d, 16),
        .dvp = up(s.dv, 16),
        .panels = (s.m + QN_SDPA_PANEL - 1) / QN_SDPA_PANEL,
    };
}

void qn__sdpa_cut(qn_sdpa_geo *g, int64_t rows, int64_t floats)
{
    const int64_t most = QN_MM_TILE_BYTES / 4 / floats;
    g->rows = rows < most ? rows : most;
    g->blocks = (g->s.n + g->rows - 1) / g->rows;
}

void qn__sdpa_rows(const qn_task *t, const qn_view *v, int64_t batch, int64_t head, int64_t row, int64_t n, float scale,
                   float *dst, int64_t stride)
{
    const int64_t size = v->layout.dim[3];
    for (int64_t r = 0; r < n; r++, dst += stride) {
        int64_t step;
        const uint8_t *from = qn__sdpa_row(v, batch, head, row + r, &step);
        if (step != 1) qn__move(4, dst, 1, from, step, size);
        t->kernels->mul_scale_f32(dst, step != 1 ? dst : (const float *)(const void *)from, NULL, scale, size);
        if (size < stride) memset(dst + size, 0, (size_t)(stride - size) * 4);
    }
}

void qn__sdpa_panel(const qn_task *t, const qn_view *v, int64_t batch, int64_t head, int64_t panel, float *dst)
{
    const int64_t first = panel * QN_SDPA_PANEL, size = v->layout.dim[3], left = v->layout.dim[2] - first;
    const int64_t n = left < QN_SDPA_PANEL ? left : QN_SDPA_PANEL;
    int64_t step;
    const uint8_t *from = qn__sdpa_row(v, batch, head, first, &step);
    if (step == 1) {
        t->kernels->transpose_f32(dst, QN_SDPA_PANEL, (const float *)(const void *)from, v->layout.stride[2], n, size);
    } else {
        for (int64_t i = 0; i < size; i++)
            qn__move(4, dst + i * QN_SDPA_PANEL, 1, from + i * step * 4, v->layout.stride[2], n);
    }
    if (n < QN_SDPA_PANEL)
        for (int64_t i = 0; i < size; i++) memset(dst + i * QN_SDPA_PANEL + n, 0, (size_t)(QN_SDPA_PANEL - n) * 4);
}

void qn__sdpa_scores(const qn_task *t, const float *a, int64_t a_stride, int64_t rows, const float *panels,
                     int64_t size, int64_t key, int64_t n, float *y)
{
    for (int64_t done = 0; done < n; done += QN_SDPA_PANEL) {
        const int64_t lanes = n - done < QN_SDPA_PANEL ? up(n - done, 16) : QN_SDPA_PANEL;
        t->kernels->outer_f32(&(qn_outer){
            .y = y + done,
            .a = a,
            .b = panels + (key + done) * size,
            .y_stride = QN_SDPA_TILE,
            .a_out = a_stride,
            .a_in = 1,
            .b_stride = QN_SDPA_PANEL,
            .n_lanes = lanes,
            .n_out = rows,
            .n_in = size,
            .mode = QN_OUTER_set,
        });
    }
}

void qn__sdpa_refine(const qn_task *t, const qn_sdpa_geo *g, const qn_view *mask, int64_t batch, int64_t head,
                     int64_t i, int64_t j, int64_t n, float *s, float *tanh)
{
    const float cap = (float)g->attrs->softcap;
    if (cap > 0) {
        float room[QN_SDPA_TILE], *to = tanh ? tanh : room;
        t->kernels->mul_scale_f32(s, s, NULL, 1.0f / cap, n);
        t->kernels->tanh_f32(to, s, n);
        t->kernels->mul_scale_f32(s, to, NULL, cap, n);
    }
    if (!g->attrs->has_mask) return;
    int64_t step;
    const uint8_t *p = qn__sdpa_mask(mask, batch, head, i, j, &step);
    if (mask->dtype == QN_DTYPE_BOOL) {
        for (int64_t c = 0; c < n; c++)
            if (!p[c * step]) s[c] = -INFINITY;
    } else if (step == 1) {
        t->kernels->add_f32(s, s, (const float *)(const void *)p, n);
    } else {
        for (int64_t c = 0; c < n; c++) s[c] += ((const float *)(const void *)p)[c * step];
    }
}
