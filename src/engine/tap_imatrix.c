/* SPDX-License-Identifier: MIT */
/* src/engine/tap_imatrix.c -- imatrix=FILE: of what each product with a weight reads, sums of squares by channel and
 * how many vectors there were, as quantizers read them: WEIGHT.in_sum2 [matrices, channels] and WEIGHT.counts
 * [matrices, 1]. Of experts each counts what it was given. */
#include "engine/tap.h"

#include <stdio.h>
#include <string.h>

/* A product that reads a tapped value. Of experts it is noted at the experts' numbers or at what they read, whichever
 * is computed later: then both are there. */
typedef struct product {
    const char *weight, *x, *ids; /* x, ids: names; NULL for a product that all tokens share */
    int64_t n_mat, k;
    double *sums, *counts; /* [n_mat, k], [n_mat] */
    struct product *next;
} product;

static bool is_noted_at(const qn_node *n, const qn_node *value)
{
    const qn_node *x = qn__tap_computed(n->src[0]);
    if (n->op == QN_OP_linear) return n->src[0] == value || (qn__node_is_view(n->src[0]) && x == value);
    return n->op == QN_OP_linear_experts && value == (x->id > n->src[2]->id ? x : n->src[2]);
}

static qn_status add_product(qn_tap *tap, qn_tap_slot *slot, const qn_node *n, qn_error *err)
{
    const qn_node *w = n->src[1];
    const bool experts = n->op == QN_OP_linear_experts;
    qn_arena *arena = &tap->taps->arena;
    product *p = qn__arena_alloc(arena, sizeof *p);
    if (!p) return QN_FAIL_NOMEM(err, sizeof *p);
    p->k = w->layout.dim[w->layout.rank - 1];
    p->n_mat = experts ? w->layout.dim[0] : 1;
    p->weight = qn__arena_strdup(arena, w->name);
    p->x = experts ? qn__arena_strdup(arena, n->src[0]->name) : NULL;
    p->ids = experts ? qn__arena_strdup(arena, n->src[2]->name) : NULL;
    p->sums = qn__arena_alloc(arena, (size_t)(p->n_mat * p->k) * sizeof *p->sums);
    p->counts = qn__arena_alloc(arena, (size_t)p->n_mat * sizeof *p->counts);
    if (!p->weight || !p->sums || !p->counts || (experts && (!p->x || !p->ids)))
        return QN_FAIL_NOMEM(err, (size_t)(p->n_mat * p->k) * sizeof *p->sums);
    p->next = slot->state;
    slot->state = p;
    return QN_OK;
}

static qn_status match_imatrix(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node,
                               qn_error *err)
{
    for (int32_t i = node->id + 1; i < graph->n_nodes && slot->point->rows != QN_ROWS_none; i++) {
        const qn_node *n = graph->nodes[i];
        if (n->n_src >= 2 && is_noted_at(n, node) && n->src[1]->op == QN_OP_param)
            QN_TRY(add_product(tap, slot, n, err));
    }
    return QN_OK;
}

static void add_vector(product *p, int64_t mat, const float *x)
{
    for (int64_t i = 0; i < p->k; i++) p->sums[mat * p->k + i] += (double)x[i] * (double)x[i];
    p->counts[mat]++;
}

static const qn_node *find_node(const qn_graph *g, const char *name)
{
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->name, name)) return g->nodes[i];
    return NULL;
}

/* Rows of x: one for each expert of a token, or one for all of these. They are read beside the value that is tapped. */
static qn_status add_experts(qn_taps *t, product *p, const qn_tap_value *v, qn_error *err)
{
    const qn_exec *e = t->session->running;
    const qn_node *ids = find_node(qn__exec_graph(e), p->ids), *x = find_node(qn__exec_graph(e), p->x);
    float *rows = (float *)(void *)t->raw, *numbers = rows + t->n_values;
    if (!ids || !x || qn_layout_numel(&ids->layout) > t->n_values || qn_layout_numel(&x->layout) > t->n_values)
        return QN_FAIL(err, invalid, "%s is not what it was when it was tapped", p->x);
    QN_TRY(qn__exec_take(e, ids, numbers, rows, err));
    QN_TRY(qn__exec_take(e, x, rows, NULL, err));
    const int64_t used = ids->layout.dim[ids->layout.rank - 1],
                  row_size = qn_layout_numel(&x->layout) / x->layout.dim[0], step = row_size > p->k ? p->k : 0;
    for (int64_t r = 0; r < v->n_rows; r++) {
        int64_t row = 0; /* among all rows of the step */
        while (row < t->n_items && memcmp(&t->rows[row], &v->rows[r], sizeof v->rows[r]) != 0) row++;
        for (int64_t j = 0; j < used && row < t->n_items; j++)
            add_vector(p, (int64_t)numbers[row * used + j], rows + row * row_size + j * step);
    }
    return QN_OK;
}

static qn_status run_imatrix(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    for (product *p = slot->state; p; p = p->next) {
        if (p->ids) QN_TRY(add_experts(slot->tap->taps, p, v, err));
        for (int64_t i = 0; !p->ids && i < v->n_rows * v->row_size / p->k; i++) add_vector(p, 0, v->data + i * p->k);
    }
    return QN_OK;
}

/* ---- the file ---- */

static void declare(qn_gguf_writer *w, const product *p)
{
    char name[256];
    snprintf(name, sizeof name, "%s.in_sum2", p->weight);
    qn_gguf_declare(w, name, QN_DTYPE_F32, &qn_shape_of(p->n_mat, p->k));
    snprintf(name, sizeof name, "%s.counts", p->weight);
    qn_gguf_declare(w, name, QN_DTYPE_F32, &qn_shape_of(p->n_mat, 1));
}

static void write_numbers(qn_gguf_writer *w, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) qn_gguf_write_data(w, &(float){(float)x[i]}, sizeof(float));
}

static qn_status end_imatrix(qn_tap *tap, qn_error *err)
{
    qn_gguf_writer *w = NULL;
    const qn_gguf_str none = {"", 0};
    QN_TRY(qn_gguf_writer_create(tap->arg, &w, err));
    qn_gguf_write_str(w, "general.type", "imatrix");
    qn_gguf_write_strs(w, "imatrix.datasets", &none, 1);
    qn_gguf_write_u32(w, "imatrix.chunk_count", tap->taps->step <= UINT32_MAX ? (uint32_t)tap->taps->step : UINT32_MAX);
    qn_gguf_write_u32(w, "imatrix.chunk_size", (uint32_t)tap->taps->session->shape.n_batch);
    for (const qn_tap_slot *s = tap->slots; s; s = s->next_of_tap)
        for (const product *p = s->state; p; p = p->next) declare(w, p);
    for (const qn_tap_slot *s = tap->slots; s; s = s->next_of_tap)
        for (const product *p = s->state; p; p = p->next) {
            write_numbers(w, p->sums, p->n_mat * p->k);
            write_numbers(w, p->counts, p->n_mat);
        }
    return qn_gguf_writer_commit(w, err);
}

const qn_tap_type qn__tap_imatrix = {.match = match_imatrix, .run = run_imatrix, .end = end_imatrix};
