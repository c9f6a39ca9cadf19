/* SPDX-License-Identifier: MIT */
/* src/model/kv.c -- see kv.h for what always holds. */
#include "model/kv.h"
#include "base/mem.h"
#include <string.h>

static int32_t least(int64_t a, int64_t b) { return (int32_t)(a < b ? a : b); }

qn_kv_size qn__kv_size(int32_t window, int32_t n_ctx, int32_t n_batch, int32_t n_seq, int32_t n_ends)
{
    if (window == 0) return (qn_kv_size){.n_seq = n_seq, .n_cells = n_ctx, .most = n_ctx, .row = n_ctx};
    /* What the first token of a step sees, and the step. No group has more cells than the sequences have positions. */
    const int64_t most = (int64_t)window + n_batch + QN_KV_BACK, end = (int64_t)window + QN_KV_BACK;
    return (qn_kv_size){.window = window,
                        .n_seq = n_seq,
                        .n_cells = least(most * n_seq + end * n_ends, n_ctx),
                        .most = least(most, n_ctx),
                        .row = least(most, n_ctx) + QN_ATTN_TILE - 1};
}

uint64_t qn__kv_bytes(const qn_kv_size *size)
{
    const uint64_t cell = sizeof(int32_t) + sizeof(qn_token) + sizeof(uint16_t) + sizeof(bool);
    return (uint64_t)size->n_cells * cell + (uint64_t)size->n_seq * ((uint64_t)size->row + 4) * sizeof(int32_t);
}

qn_status qn__kv_init(qn_kv *kv, const qn_kv_size *size, qn_error *err)
{
    const size_t n_cells = (size_t)size->n_cells, n_seq = (size_t)size->n_seq;
    *kv = (qn_kv){.size = *size};
    kv->pos = qn__calloc(n_cells, sizeof(*kv->pos));
    kv->token = qn__calloc(n_cells, sizeof(*kv->token));
    kv->refs = qn__calloc(n_cells, sizeof(*kv->refs));
    kv->kept = qn__calloc(n_cells, sizeof(*kv->kept));
    kv->rows = qn__calloc((size_t)size->row * n_seq, sizeof(*kv->rows));
    kv->len = qn__calloc(n_seq, sizeof(*kv->len));
    kv->gone = qn__calloc(n_seq, sizeof(*kv->gone));
    kv->dirty_lo = qn__calloc(n_seq, sizeof(*kv->dirty_lo));
    kv->dirty_hi = qn__calloc(n_seq, sizeof(*kv->dirty_hi));
    if (kv->pos && kv->token && kv->refs && kv->kept && kv->rows && kv->len && kv->gone && kv->dirty_lo && kv->dirty_hi)
        return QN_OK;
    qn__kv_deinit(kv);
    return QN_FAIL(err, nomem, "out of memory for the tables of %d KV cells and %d sequences (%llu bytes)",
                   size->n_cells, size->n_seq, (unsigned long long)qn__kv_bytes(size));
}

void qn__kv_deinit(qn_kv *kv)
{
    qn__free(kv->pos);
    qn__free(kv->token);
    qn__free(kv->refs);
    qn__free(kv->kept);
    qn__free(kv->rows);
    qn__free(kv->len);
    qn__free(kv->gone);
    qn__free(kv->dirty_lo);
    qn__free(kv->dirty_hi);
    *kv = (qn_kv){0};
}

void qn__kv_clear(qn_kv *kv)
{
    const size_t bytes = (size_t)kv->size.n_seq * sizeof(int32_t);
    memset(kv->refs, 0, (size_t)kv->size.n_cells * sizeof(*kv->refs));
    memset(kv->kept, 0, (size_t)kv->size.n_cells * sizeof(*kv->kept));
    memset(kv->len, 0, bytes);
    memset(kv->gone, 0, bytes);
    memset(kv->dirty_lo, 0, bytes);
    memset(kv->dirty_hi, 0, bytes);
    kv->n_used = kv->n_kept = kv->n_both = kv->next = 0;
}

/* Places [lo, end of the list) may differ from what was last uploaded. */
static void touch_places(qn_kv *kv, int32_t seq, int32_t lo)
{
    if (kv->dirty_lo[seq] >= kv->dirty_hi[seq] || lo < kv->dirty_lo[seq]) kv->dirty_lo[seq] = lo;
    kv->dirty_hi[seq] = qn__kv_start(kv, seq) + kv->len[seq];
    if (kv->dirty_lo[seq] > kv->dirty_hi[seq]) kv->dirty_lo[seq] = kv->dirty_hi[seq];
}

/* Entries [lo, len). */
static void touch(qn_kv *kv, int32_t seq, int32_t lo) { touch_places(kv, seq, qn__kv_start(kv, seq) + lo); }

static void add_ref(qn_kv *kv, int32_t cell)
{
    if (kv->refs[cell]++ == 1 && kv->kept[cell]) kv->n_both++;
}

static void drop_ref(qn_kv *kv, int32_t cell)
{
    if (--kv->refs[cell] == 0) kv->n_used--;
    if (kv->refs[cell] == 1 && kv->kept[cell]) kv->n_both--;
}

/* The next free cell from where the last search ended, so that a sequence's cells mostly follow each other in memory.
 */
static int32_t take_cell(qn_kv *kv)
{
    if (kv->n_used == kv->size.n_cells) return -1;
    while (kv->refs[kv->next]) kv->next = kv->next + 1 == kv->size.n_cells ? 0 : kv->next + 1;
    const int32_t cell = kv->next;
    kv->next = cell + 1 == kv->size.n_cells ? 0 : cell + 1;
    kv->n_used++;
    kv->refs[cell] = 1;
    return cell;
}

int32_t qn__kv_lower(const qn_kv *kv, int32_t seq, int32_t pos)
{
    const int32_t *list = qn__kv_list(kv, seq);
    int32_t lo = 0, hi = kv->len[seq];
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (kv->pos[list[mid]] < pos)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int32_t qn__kv_add(qn_kv *kv, int32_t seq, int32_t pos, qn_token token)
{
    int32_t *list = qn__kv_list(kv, seq);
    const int32_t at = qn__kv_lower(kv, seq, pos), len = kv->len[seq];
    if (len == kv->size.most || (at < len && kv->pos[list[at]] == pos)) return -1;
    const int32_t cell = take_cell(kv);
    if (cell < 0) return -1;
    memmove(list + at + 1, list + at, (size_t)(len - at) * sizeof(*list));
    list[at] = cell;
    kv->len[seq] = len + 1;
    kv->pos[cell] = pos;
    kv->token[cell] = token;
    touch(kv, seq, at);
    return cell;
}

int32_t qn__kv_remove(qn_kv *kv, int32_t seq, int32_t p0, int32_t p1)
{
    int32_t *list = qn__kv_list(kv, seq);
    const int32_t lo = qn__kv_lower(kv, seq, p0), hi = qn__kv_lower(kv, seq, p1), len = kv->len[seq];
    if (lo >= hi) return 0;
    for (int32_t i = lo; i < hi; i++) drop_ref(kv, list[i]);
    memmove(list + lo, list + hi, (size_t)(len - hi) * sizeof(*list));
    kv->len[seq] = len - (hi - lo);
    touch(kv, seq, lo);
    return hi - lo;
}

void qn__kv_forget(qn_kv *kv, int32_t seq, int32_t n)
{
    int32_t *row = qn__kv_row(kv, seq);
    const int32_t end = qn__kv_start(kv, seq) + n; /* of what goes */
    for (int32_t at = end - n; at < end; at++) drop_ref(kv, row[at]);
    kv->gone[seq] += n;
    kv->len[seq] -= n;
    if (end < QN_ATTN_TILE) return; /* what stays lies where it lay */
    memmove(qn__kv_list(kv, seq), row + end, (size_t)kv->len[seq] * sizeof(*row));
    touch_places(kv, seq, 0);
}

void qn__kv_set_gone(qn_kv *kv, int32_t seq, int32_t gone)
{
    const int32_t *list = qn__kv_list(kv, seq);
    if (kv->gone[seq] == gone) return;
    kv->gone[seq] = gone;
    memmove(qn__kv_list(kv, seq), list, (size_t)kv->len[seq] * sizeof(*list));
    touch_places(kv, seq, 0);
}

void qn__kv_copy(qn_kv *kv, int32_t src, int32_t dst, int32_t p0, int32_t p1, int32_t gone)
{
    qn__kv_remove(kv, dst, 0, INT32_MAX);
    qn__kv_set_gone(kv, dst, gone);
    const int32_t lo = qn__kv_lower(kv, src, p0), hi = qn__kv_lower(kv, src, p1);
    const int32_t *from = qn__kv_list(kv, src);
    int32_t *to = qn__kv_list(kv, dst);
    for (int32_t i = lo; i < hi; i++) {
        to[i - lo] = from[i];
        add_ref(kv, from[i]);
    }
    kv->len[dst] = hi > lo ? hi - lo : 0;
    touch_places(kv, dst, 0);
}

void qn__kv_share(qn_kv *kv, int32_t seq, const int32_t *cells, int32_t n, int32_t gone)
{
    QN_ASSERT(kv->len[seq] == 0 && n <= kv->size.most);
    kv->gone[seq] = gone;
    for (int32_t i = 0; i < n; i++) add_ref(kv, cells[i]);
    memcpy(qn__kv_list(kv, seq), cells, (size_t)n * sizeof(*cells));
    kv->len[seq] = n;
    touch_places(kv, seq, 0);
}

void qn__kv_exchange(qn_kv *kv, int32_t seq, int32_t i, int32_t cell)
{
    int32_t *entry = qn__kv_list(kv, seq) + i;
    QN_ASSERT(kv->pos[*entry] == kv->pos[cell] && kv->token[*entry] == kv->token[cell]);
    add_ref(kv, cell);
    drop_ref(kv, *entry);
    *entry = cell;
    touch(kv, seq, i);
}

void qn__kv_keep(qn_kv *kv, int32_t cell)
{
    QN_ASSERT(kv->refs[cell] > 0 && !kv->kept[cell]);
    kv->refs[cell]++;
    kv->kept[cell] = true;
    kv->n_kept++;
    kv->n_both++;
}

void qn__kv_let_go(qn_kv *kv, int32_t cell)
{
    QN_ASSERT(kv->kept[cell]);
    kv->n_both -= kv->refs[cell] > 1;
    kv->kept[cell] = false;
    kv->n_kept--;
    drop_ref(kv, cell);
}

bool qn__kv_can_shift(const qn_kv *kv, int32_t seq, int32_t p0, int32_t p1, int32_t delta)
{
    const int32_t *list = qn__kv_list(kv, seq);
    const int32_t lo = qn__kv_lower(kv, seq, p0), hi = qn__kv_lower(kv, seq, p1), len = kv->len[seq];
    if (lo >= hi) return true;
    const int64_t first = (int64_t)kv->pos[list[lo]] + delta, last = (int64_t)kv->pos[list[hi - 1]] + delta;
    if (first < 0 || last > INT32_MAX - 2) return false;
    /* The order of a list never changes: what moves must stay between its neighbours. */
    return (lo == 0 || first > kv->pos[list[lo - 1]]) && (hi == len || last < kv->pos[list[hi]]);
}

int32_t qn__kv_shared(const qn_kv *kv, int32_t seq, int32_t p0, int32_t p1)
{
    const int32_t *list = qn__kv_list(kv, seq);
    const int32_t lo = qn__kv_lower(kv, seq, p0), hi = qn__kv_lower(kv, seq, p1);
    int32_t n = 0;
    for (int32_t i = lo; i < hi; i++) n += kv->refs[list[i]] > 1;
    return n;
}

int32_t qn__kv_shift(qn_kv *kv, int32_t seq, int32_t p0, int32_t p1, int32_t delta, int32_t *src, int32_t *dst)
{
    int32_t *list = qn__kv_list(kv, seq);
    const int32_t lo = qn__kv_lower(kv, seq, p0), hi = qn__kv_lower(kv, seq, p1);
    for (int32_t i = lo; i < hi; i++) {
        const int32_t cell = list[i];
        src[i - lo] = dst[i - lo] = cell;
        if (kv->refs[cell] > 1) {
            const int32_t own = take_cell(kv);
            QN_ASSERT(own >= 0);
            kv->pos[own] = kv->pos[cell];
            kv->token[own] = kv->token[cell];
            drop_ref(kv, cell);
            list[i] = dst[i - lo] = own;
        }
        kv->pos[list[i]] += delta;
    }
    if (lo < hi) touch(kv, seq, lo);
    return hi > lo ? hi - lo : 0;
}
