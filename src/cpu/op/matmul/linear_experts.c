/* SPDX-License-Identifier: MIT */
/* src/cpu/op/matmul/linear_experts.c -- y[i,j] = x[i] w[ids[i,j]]^T (+ b[ids[i,j]]), straight from the weight's format.
 *
 * A place is one (token, slot) pair. Phase 0 converts each row of x once to the form that the weight's kernel takes,
 * and sorts the places by expert; phase 1 brings the columns of an expert together, packed where its product is a panel
 * kernel's; phase 2 multiplies tiles of an expert's rows with all of its columns, so that an expert that no token chose
 * is never read, and any other once. A single token's columns need no phase 1.
 * To the bit the result of a place is what `linear` gives for its column and its expert (dispatch.h), whatever the
 * other places are.
 *
 * A phase has a fixed number of items, so those of phase 2 are the most that there can be; the sort says how many
 * have work. */
#include "cpu/op/ops.h"
#include "cpu/op/pointwise/typed.h"

#include <limits.h>

/* Rows of a tile. A few columns: about TILES tiles in all, within bounds, since the first rows of a tile are not
 * prefetched. A panel kernel takes PANEL_ROWS at a time. */
enum { TILES = 16, TILE_ROWS_MIN = 64, TILE_ROWS_MAX = 1024, PANEL_ROWS = 32 };
enum { PREPARE = 2048, GATHER = 16 }; /* elements, and columns, that are worth handing out */

typedef struct plan {
    const qn_mm *mm;
    qn_mm_fn gemv;
    bool direct;                    /* rows of x are columns already */
    bool single;                    /* one token: columns stay where they are */
    bool panels;                    /* an expert may have enough columns for a panel kernel */
    int64_t n, u, k, e, m;          /* places: n u; experts: e */
    int64_t x_rows, slots, experts; /* experts: those that can have work */
    int64_t gemv_rows;              /* of a tile */
    int64_t blocks, col_bytes;      /* of a column */
    int64_t cols_at, sorted_at, bytes;
} plan;

/* What phase 0 finds, in scratch. Expert i of those that have work is expert[i]; its places are
 * slot[first[i] .. first[i + 1]), its tiles are those from tile[i] on, its columns lie at sorted + at[i]. */
typedef struct route {
    int64_t *n_experts, *first, *tile, *at; /* [1], [experts + 1], [experts + 1], [experts] */
    int32_t *expert, *slot, *count;         /* [experts], [slots], [e] */
    uint8_t *cols, *sorted;
} route;

static int64_t parts(int64_t x, int64_t size) { return (x + size - 1) / size; }
static int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t group_bytes(const plan *p, const qn_mm_pack *pack) { return p->blocks * (int64_t)pack->block_bytes; }

static plan plan_of(const qn_kernels *kernels, const qn_node *node)
{
    const qn_layout *x = &node->src[0]->layout, *w = &node->src[1]->layout, *ids = &node->src[2]->layout;
    plan p = {.mm = &kernels->mm[node->src[1]->dtype], .n = ids->dim[0], .u = ids->dim[1]};
    p.e = w->dim[0];
    p.m = w->dim[1];
    p.k = w->dim[2];
    p.gemv = qn__mm_gemv(kernels, p.mm);
    p.x_rows = qn__row_count(x);
    p.slots = p.n * p.u;
    p.experts = p.slots < p.e ? p.slots : p.e;
    p.single = p.n == 1;
    p.panels = !p.single && qn__mm_panel(p.mm, p.n);
    p.direct = p.mm->act == QN_ACT_f32 && qn__row_step(x) == 1;

    const int64_t rows = parts(p.m, parts(TILES, p.experts > 0 ? p.experts : 1) * 16) * 16;
    p.gemv_rows = rows < TILE_ROWS_MIN ? TILE_ROWS_MIN : rows > TILE_ROWS_MAX ? TILE_ROWS_MAX : rows;

    p.blocks = qn__act_blocks(p.mm->act, p.k);
    p.col_bytes = p.blocks * qn__act_block_bytes(p.mm->act);
    /* however the places fall, an expert's last group is the only one that is not full */
    int64_t a_column = p.col_bytes, a_group = 0;
    for (int i = 0; p.panels && i < QN_MM_PANELS; i++) {
        const qn_mm_pack *pack = p.mm->panel[i].fn ? p.mm->panel[i].pack : NULL;
        if (!pack) continue;
        const int64_t bytes = group_bytes(&p, pack), part = parts(bytes, pack->cols);
        if (a_column < part) a_column = part;
        if (a_group < bytes) a_group = bytes;
    }
    p.cols_at = aligned((3 * p.experts + 3) * 8 + (p.experts + p.slots + p.e) * 4);
    p.sorted_at = p.cols_at + aligned(p.direct ? 0 : p.x_rows * p.col_bytes);
    p.bytes = p.sorted_at + (p.single ? 0 : p.slots * a_column + p.experts * (a_group + 64));
    return p;
}

static route route_of(const plan *p, uint8_t *scratch)
{
    route r = {.n_experts = (int64_t *)(void *)scratch};
    r.first = r.n_experts + 1;
    r.tile = r.first + p->experts + 1;
    r.at = r.tile + p->experts + 1;
    r.expert = (int32_t *)(void *)(r.at + p->experts);
    r.slot = r.expert + p->experts;
    r.count = r.slot + p->slots;
    r.cols = scratch + p->cols_at;
    r.sorted = scratch + p->sorted_at;
    return r;
}

static bool accepts(const qn_kernels *kernels, const qn_node *node, qn_error *err)
{
    const qn_node *x = node->src[0], *w = node->src[1], *b = node->n_src > 3 ? node->src[3] : NULL;
    if (!qn__want_dtype(node, "x", x, QN_DTYPE_F32, err)) return false;
    if (!kernels->mm[w->dtype].gemv) {
        QN_FAIL(err, unsupported, "linear_experts: no product with weights in %s", qn_dtype_get(w->dtype)->name);
        return false;
    }
    if (!qn__want_loadable(kernels, node, "the weight", w, err) || !qn__want_dense_rows(node, "the weight", w, err))
        return false;
    const qn_layout *l = &w->layout;
    if ((l->dim[0] > 1 && l->stride[0] < 0) || (l->dim[1] > 1 && l->stride[1] < 0)) {
        QN_FAIL(err, unsupported, "linear_experts: the weight's rows lie in reverse order");
        return false;
    }
    const int64_t slots = qn_layout_numel(&node->src[2]->layout);
    if (slots > INT32_MAX || l->dim[0] > INT32_MAX || l->dim[1] > INT32_MAX) {
        QN_FAIL(err, limit, "linear_experts: %lld columns x %lld experts of %lld rows, at most %d each",
                (long long)slots, (long long)l->dim[0], (long long)l->dim[1], INT32_MAX);
        return false;
    }
    return !b ||
           (qn__want_dtype(node, "the bias", b, QN_DTYPE_F32, err) && qn__want_dense_rows(node, "the bias", b, err));
}

static int64_t panel_rows(const qn_mm_panel *panel) { return panel->rows > 0 ? panel->rows : PANEL_ROWS; }

static uint64_t scratch(const qn_kernels *kernels, const qn_node *node)
{
    return (uint64_t)plan_of(kernels, node).bytes;
}

static int64_t parts_of_column(const plan *p) { return p->direct ? 0 : parts(p->k, PREPARE); }

static int64_t items(const qn_kernels *kernels, const qn_node *node, int phase, int64_t *chunk)
{
    const plan p = plan_of(kernels, node);
    *chunk = 1;
    if (p.slots == 0) return 0;
    if (phase == 0) {
        *chunk = qn__chunk_of(4 * PREPARE, p.k);
        return 1 + p.x_rows * parts_of_column(&p);
    }
    if (phase == 1) {
        *chunk = GATHER;
        return p.single ? 0 : p.slots;
    }
    int64_t most = parts(p.m, p.gemv_rows);
    for (int i = 0; p.panels && i < QN_MM_PANELS; i++) {
        const int64_t tiles = p.mm->panel[i].fn ? parts(p.m, panel_rows(&p.mm->panel[i])) : 0;
        if (most < tiles) most = tiles;
    }
    return p.experts * most;
}

/* ---- phase 0 ---- */

/* Of an expert with so many columns. */
static const qn_mm_panel *panel_of(const plan *p, int64_t cols) { return p->panels ? qn__mm_panel(p->mm, cols) : NULL; }
static const qn_mm_pack *pack_of(const plan *p, int64_t cols)
{
    const qn_mm_panel *panel = panel_of(p, cols);
    return panel ? panel->pack : NULL;
}
static int64_t tile_rows(const plan *p, int64_t cols)
{
    const qn_mm_panel *panel = panel_of(p, cols);
    return panel ? panel_rows(panel) : p->gemv_rows;
}

static float *y_of(const qn_task *t, const plan *p, int64_t slot) { return (float *)(void *)t->dst.data + slot * p->m; }

static int64_t id_of(const qn_task *t, const plan *p, int64_t slot)
{
    const qn_layout *l = &t->src[2].layout;
    return qn__index_at(&t->src[2], slot / p->u * l->stride[0] + slot % p->u * l->stride[1]);
}

/* Places of an expert stay in their order. Those without an expert are the last. */
static void sort_places(const qn_task *t, const plan *p)
{
    const int32_t strict = ((const qn_strict_attrs *)t->attrs)->strict;
    const route r = route_of(p, t->scratch);
    memset(r.count, 0, (size_t)p->e * sizeof *r.count);
    for (int64_t i = 0; i < p->slots; i++) {
        const int64_t id = id_of(t, p, i);
        if (id >= 0 && id < p->e) {
            r.count[id]++;
            continue;
        }
        if (strict != QN_STRICT_not) qn__bad_index(t, strict, 0, id, p->e);
    }
    int64_t n = 0, first = 0, tile = 0, at = 0;
    for (int64_t e = 0; e < p->e; e++) {
        const int64_t cols = r.count[e];
        if (cols == 0) continue;
        r.expert[n] = (int32_t)e;
        r.first[n] = first;
        r.tile[n] = tile;
        r.at[n++] = at;
        r.count[e] = (int32_t)first;
        first += cols;
        tile += parts(p->m, tile_rows(p, cols));
        const qn_mm_pack *pack = pack_of(p, cols);
        at += aligned(pack ? parts(cols, pack->cols) * group_bytes(p, pack) : cols * p->col_bytes);
    }
    *r.n_experts = n;
    r.first[n] = first;
    r.tile[n] = tile;
    for (int64_t i = 0; i < p->slots; i++) {
        const int64_t id = id_of(t, p, i);
        r.slot[id >= 0 && id < p->e ? r.count[id]++ : first++] = (int32_t)i;
    }
}

static void prepare(const qn_task *t, const plan *p)
{
    const int64_t n_parts = parts_of_column(p), step = qn__row_step(&t->src[0].layout);
    for (int64_t item = t->begin; item < t->end; item++) {
        if (item == 0) {
            sort_places(t, p);
            continue;
        }
        const int64_t row = (item - 1) / n_parts, at = (item - 1) % n_parts * PREPARE,
                      n = p->k - at < PREPARE ? p->k - at : PREPARE;
        const uint8_t *x = qn__row_at(&t->src[0], row);
        const float *from = (const float *)(const void *)x + at;
        if (step != 1) {
            qn__row_load(t->kernels, QN_DTYPE_F32, x, step, at, n, t->tile);
            from = t->tile;
        }
        uint8_t *to = route_of(p, t->scratch).cols + row * p->col_bytes;
        qn__act_put(t->kernels, p->mm->act, to + qn__act_blocks(p->mm->act, at) * qn__act_block_bytes(p->mm->act), from,
                    n);
    }
}

/* ---- phase 1 ---- */

static const uint8_t *column(const qn_task *t, const plan *p, const route *r, int64_t slot)
{
    const int64_t row = p->x_rows == p->n ? slot / p->u : slot;
    return p->direct ? qn__row_at(&t->src[0], row) : r->cols + row * p->col_bytes;
}

/* The greatest i < n with list[i] <= x. */
static int64_t find(const int64_t *list, int64_t n, int64_t x)
{
    int64_t lo = 0;
    while (n > 1) {
        const int64_t half = n / 2;
        if (list[lo + half] <= x) lo += half;
        n -= half;
    }
    return lo;
}

static void bring_together(const qn_task *t, const plan *p)
{
    const route r = route_of(p, t->scratch);
    const int64_t n = *r.n_experts, end = r.first[n] < t->end ? r.first[n] : t->end;
    if (t->begin >= end) return;
    int64_t i = find(r.first, n, t->begin);
    for (int64_t item = t->begin; item < end; item++) {
        if (item >= r.first[i + 1]) i++;
        const int64_t cols = r.first[i + 1] - r.first[i], c = item - r.first[i];
        const uint8_t *from = column(t, p, &r, r.slot[item]);
        const qn_mm_pack *pack = pack_of(p, cols);
        if (!pack) {
            memcpy(r.sorted + r.at[i] + c * p->col_bytes, from, (size_t)p->col_bytes);
            continue;
        }
        const size_t stride = (size_t)parts(cols, pack->cols) * pack->block_bytes;
        uint8_t *group = r.sorted + r.at[i] + c / pack->cols * (int64_t)pack->block_bytes;
        pack->put(group, stride, (int)(c % pack->cols), from, p->blocks);
    }
}

/* ---- phase 2 ---- */

/* Rows [row, row + rows) of expert i, times its columns. Results of several columns are made side by side and then
 * taken to their places. */
static void tile_product(const qn_task *t, const plan *p, const route *r, int64_t i, int64_t row, int64_t rows)
{
    const qn_view *w = &t->src[1];
    const int64_t cols = r->first[i + 1] - r->first[i], e = r->expert[i];
    const qn_mm_panel *panel = panel_of(p, cols);
    const qn_mm_pack *pack = panel ? panel->pack : NULL;
    const int64_t row_bytes =
        p->m > 1 ? qn__elems_bytes(w->dtype, w->layout.stride[1]) : qn_dtype_row_bytes(w->dtype, p->k);
    const int64_t n_groups = pack ? parts(cols, pack->cols) : cols, group_cols = pack ? pack->cols : 1;
    int64_t most = QN_TASK_SIDE_BYTES / 4 / rows / group_cols * group_cols; /* columns at a time */
    if (p->single) most = 1;
    float *side = t->tile + QN_MM_TILE_BYTES / 4;
    const float *bias =
        t->n_src > 3 ? (const float *)(const void *)(t->src[3].data) + e * t->src[3].layout.stride[0] + row : NULL;

    qn_mm_args args = {
        .w = w->data + (p->e > 1 ? qn__elems_bytes(w->dtype, w->layout.stride[0]) * e : 0) + row * row_bytes,
        .w_row_bytes = (size_t)row_bytes,
        .x_row_bytes = pack ? pack->block_bytes : (size_t)p->col_bytes,
        .x_block_bytes = pack ? (size_t)n_groups * pack->block_bytes : 0,
        .k = p->k,
        .rows = (int32_t)rows,
        .tile = t->tile,
    };
    for (int64_t c = 0; c < cols; c += most) {
        const int64_t n = cols - c < most ? cols - c : most;
        const int32_t *slot = r->slot + r->first[i] + c;
        args.cols = (int32_t)n;
        args.x =
            p->single ? column(t, p, r, slot[0]) : r->sorted + r->at[i] + c / group_cols * (int64_t)args.x_row_bytes;
        args.y = n > 1 ? side : y_of(t, p, slot[0]) + row;
        args.y_stride = n > 1 ? rows : p->m;
        if (p->k == 0)
            for (int64_t j = 0; j < n; j++) memset(args.y + j * args.y_stride, 0, (size_t)rows * sizeof(float));
        else
            (panel ? panel->fn : p->gemv)(&args);
        for (int64_t j = 0; j < n; j++) {
            float *y = y_of(t, p, slot[j]) + row;
            const float *from = args.y + j * args.y_stride;
            if (bias)
                t->kernels->add_f32(y, from, bias, rows);
            else if (y != from)
                memcpy(y, from, (size_t)rows * sizeof(float));
        }
    }
}
_Static_assert(QN_TASK_SIDE_BYTES / 4 / TILE_ROWS_MAX >= 1, "a column of a tile");

static void product(const qn_task *t, const plan *p)
{
    const route r = route_of(p, t->scratch);
    const int64_t n = *r.n_experts, n_tiles = r.tile[n];
    if (t->begin == 0)
        for (int64_t i = r.first[n]; i < p->slots; i++) memset(y_of(t, p, r.slot[i]), 0, (size_t)p->m * sizeof(float));
    for (int64_t item = t->begin; item < t->end && item < n_tiles; item++) {
        const int64_t tile = qn__in_ranges(item, n_tiles, t->n_members), i = find(r.tile, n, tile);
        const int64_t rows = tile_rows(p, r.first[i + 1] - r.first[i]), row = (tile - r.tile[i]) * rows;
        tile_product(t, p, &r, i, row, p->m - row < rows ? p->m - row : rows);
    }
}

static void run(const qn_task *t)
{
    static void (*const phases[])(const qn_task *t, const plan *p) = {prepare, bring_together, product};
    const plan p = plan_of(t->kernels, t->node);
    phases[t->phase](t, &p);
}

static bool same_panels(const qn_mm *a, const qn_mm *b)
{
    for (int i = 0; i < QN_MM_PANELS; i++) {
        const qn_mm_panel *p = &a->panel[i], *q = &b->panel[i];
        if (!p->fn != !q->fn || p->pack != q->pack || p->from != q->from || p->rows != q->rows) return false;
    }
    return true;
}

/* Other experts' rows may have another size; tiles, which only phase 2 reads, would then differ. */
bool qn__cpu_linear_experts_shares(const qn_kernels *kernels, const qn_node *a, const qn_node *b)
{
    const plan p = plan_of(kernels, a), q = plan_of(kernels, b);
    return a->src[2] == b->src[2] && p.mm->act == q.mm->act && same_panels(p.mm, q.mm) && p.e == q.e && p.m == q.m &&
           p.panels == q.panels &&
           ((const qn_strict_attrs *)a->attrs)->strict == ((const qn_strict_attrs *)b->attrs)->strict;
}

const qn_cpu_op qn__cpu_op_linear_experts = {QN_OP_linear_experts, accepts, scratch, 3, items, run};
