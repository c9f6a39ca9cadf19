/* SPDX-License-Identifier: MIT */
/* src/engine/session_seq.c -- sequences: asking, removing, sharing, shifting, reusing a prefix. Only a shift moves
 * data. */
#include "engine/pager.h"

typedef struct qn_shift_key {
    int32_t kind, n, copy_v;
} qn_shift_key;

static qn_status check_seq(const qn_session *s, int32_t seq, qn_error *err)
{
    if (seq >= 0 && seq < s->shape.n_seq) return QN_OK;
    return QN_FAIL(err, invalid, "sequence %d; this session has 0 to %d", seq, s->shape.n_seq - 1);
}

static qn_status check_range(const qn_session *s, int32_t seq, int32_t p0, int32_t *p1, qn_error *err)
{
    QN_TRY(check_seq(s, seq, err));
    if (*p1 < 0) *p1 = INT32_MAX;
    if (p0 < 0 || p0 > *p1) return QN_FAIL(err, invalid, "positions %d to %d are no range", p0, *p1);
    return QN_OK;
}

const qn_engine *qn_session_engine(const qn_session *s) { return s->engine; }

int32_t qn_session_n_ctx(const qn_session *s) { return s->shape.n_ctx; }

int32_t qn_session_n_batch(const qn_session *s) { return s->shape.n_batch; }

int32_t qn_session_n_logits(const qn_session *s) { return s->started || s->shape.embeddings ? 0 : s->n_logits; }

const float *qn_session_logits(const qn_session *s, int32_t index)
{
    const int32_t n = qn_session_n_logits(s);
    if (index < 0) index += n;
    return index >= 0 && index < n ? s->logits + (size_t)index * s->engine->model->hp.n_vocab : NULL;
}

int32_t qn_session_seq_len(const qn_session *s, int32_t seq)
{
    return seq >= 0 && seq < s->shape.n_seq ? s->memory.kv->len[seq] : 0;
}

int32_t qn_session_seq_pos_max(const qn_session *s, int32_t seq)
{
    const int32_t len = qn_session_seq_len(s, seq);
    return len ? s->memory.kv->pos[qn__kv_list(s->memory.kv, seq)[len - 1]] : -1;
}

int32_t qn_session_free_cells(const qn_session *s) { return qn__kv_free(s->memory.kv); }

int32_t qn_session_seq_back(const qn_session *s, int32_t seq)
{
    return seq >= 0 && seq < s->shape.n_seq ? qn__memory_back(&s->memory, seq) : 0;
}

/* What a sequence would see next was forgotten. */
static qn_status forgotten(const qn_session *s, int32_t seq, qn_error *err)
{
    return QN_FAIL(err, state,
                   "layers with a window have forgotten what sequence %d would see next; it can go on from position "
                   "%d, or anew",
                   seq, qn__memory_back(&s->memory, seq));
}

qn_status qn_session_seq_remove(qn_session *s, int32_t seq, int32_t p0, int32_t p1, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_range(s, seq, p0, &p1, err));
    return qn__memory_remove(&s->memory, seq, p0, p1) ? QN_OK : forgotten(s, seq, err);
}

qn_status qn_session_seq_copy(qn_session *s, int32_t src, int32_t dst, int32_t p0, int32_t p1, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_range(s, src, p0, &p1, err));
    QN_TRY(check_seq(s, dst, err));
    if (src == dst) return QN_FAIL(err, invalid, "a sequence (%d) cannot be copied onto itself", src);
    return qn__memory_copy(&s->memory, src, dst, p0, p1) ? QN_OK : forgotten(s, src, err);
}

static void empty(qn_session *s, int32_t seq) { (void)qn__memory_remove(&s->memory, seq, 0, INT32_MAX); }

qn_status qn_session_seq_keep(qn_session *s, int32_t seq, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_seq(s, seq, err));
    for (int32_t q = 0; q < s->shape.n_seq; q++)
        if (q != seq) empty(s, q);
    return QN_OK;
}

/* Shift graphs come in a few sizes, so that they are compiled once: a power of two up to n_batch. */
static int32_t shift_size(const qn_session *s, int32_t n)
{
    int32_t size = 16;
    while (size < n) size *= 2;
    return size < s->shape.n_batch ? size : s->shape.n_batch;
}

static qn_status shift_exec(qn_session *s, int32_t n, bool copy_v, qn_exec **out, qn_error *err)
{
    const qn_shift_key key = {QN_KEY_shift, n, copy_v};
    *out = qn__sched_find(s->sched, &key, sizeof(key));
    if (*out) return QN_OK;
    qn_graph *graph = NULL;
    s->last = NULL; /* compiling may evict it */
    QN_TRY(qn__build_shift(s->engine->model, &s->kv_desc, n, copy_v, &graph, err));
    return qn__sched_compile(s->sched, graph, &key, sizeof(key), out, err);
}

/* Where the cells of a shift lie and where they go, in one group. */
typedef struct moves {
    int32_t *src, *dst, n;
} moves;

/* The cells from `at` on, up to `size` of each group; entries past the last write nothing. */
static qn_status run_shift(qn_exec *e, qn_session *s, const moves *groups, int32_t at, int32_t size, int32_t delta,
                           qn_error *err)
{
    const uint64_t bytes = (uint64_t)size * sizeof(int32_t);
    for (int32_t g = 0; g < s->memory.n_groups; g++) {
        const qn_node *src = qn__exec_find(e, qn__src_names[g]), *dst = qn__exec_find(e, qn__dst_names[g]);
        for (int32_t i = 0; i < size; i++) {
            const bool there = at + i < groups[g].n;
            s->tokens[i] = there ? groups[g].src[at + i] : 0;
            s->rows[i] = there ? groups[g].dst[at + i] : -1;
        }
        if (src) QN_TRY(qn__exec_set(e, src, s->tokens, bytes, err)); /* NULL where no layer is in the group */
        if (dst) QN_TRY(qn__exec_set(e, dst, s->rows, bytes, err));
    }
    for (int32_t i = 0; i < size; i++) s->pos[i] = delta;
    const qn_node *by = qn__exec_find(e, "delta"); /* NULL where no layer rotates */
    if (by) QN_TRY(qn__exec_set(e, by, s->pos, bytes, err));
    QN_TRY(qn__exec_run(e, NULL, err));
    return qn__exec_wait(e, err); /* rare, and whoever called counts on the cells */
}

static bool rotates(const qn_model *m)
{
    for (uint32_t i = 0; i < m->hp.n_layer; i++)
        if (m->layers[i].spec.attn.turn != QN_TURN_none) return true;
    return false;
}

static bool shares(const qn_session *s, int32_t seq, int32_t p0, int32_t p1)
{
    for (int32_t g = 0; g < s->memory.n_groups; g++)
        if (qn__kv_shared(&s->memory.kv[g], seq, p0, p1) > 0) return true;
    return false;
}

/* Everything that can fail comes before the tables change; what follows only computes. cells: [n_groups, 2, n]. */
static qn_status shift(qn_session *s, int32_t seq, int32_t p0, int32_t p1, int32_t delta, int32_t n, int32_t *cells,
                       qn_error *err)
{
    const bool copy_v = shares(s, seq, p0, p1), computes = copy_v || rotates(s->engine->model);
    const int32_t size = shift_size(s, n);
    moves groups[QN_MAX_GROUPS];
    qn_exec *e = NULL;
    if (computes) QN_TRY(shift_exec(s, size, copy_v, &e, err));
    for (int32_t g = 0; g < s->memory.n_groups; g++) {
        groups[g] = (moves){cells + (int64_t)g * 2 * n, cells + ((int64_t)g * 2 + 1) * n, 0};
        groups[g].n = qn__kv_shift(&s->memory.kv[g], seq, p0, p1, delta, groups[g].src, groups[g].dst);
    }
    for (int32_t i = 0; i < n && computes; i += size) QN_TRY(run_shift(e, s, groups, i, size, delta, err));
    return QN_OK;
}

static qn_status check_shift(const qn_session *s, int32_t seq, int32_t p0, int32_t p1, int32_t delta, qn_error *err)
{
    if (s->engine->model->top.pos_embd)
        return QN_FAIL(err, unsupported, "positions of %s are learned: what is cached for one cannot move to another",
                       s->engine->model->arch->name);
    if (!qn__kv_can_shift(s->memory.kv, seq, p0, p1, delta))
        return QN_FAIL(err, invalid,
                       "positions %d to %d of sequence %d cannot move by %d: they would become negative or meet others",
                       p0, p1, seq, delta);
    if (!qn__memory_can_shift(&s->memory, seq, p0, p1, delta)) return forgotten(s, seq, err);
    for (int32_t g = 0; g < s->memory.n_groups; g++) {
        const qn_kv *kv = &s->memory.kv[g];
        const int32_t shared = qn__kv_shared(kv, seq, p0, p1);
        if (shared > qn__kv_free(kv))
            return QN_FAIL(err, limit,
                           "%d cells are shared with other sequences and must be copied to move, but only %d are free",
                           shared, qn__kv_free(kv));
    }
    return QN_OK;
}

qn_status qn_session_seq_shift(qn_session *s, int32_t seq, int32_t p0, int32_t p1, int32_t delta, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_range(s, seq, p0, &p1, err));
    const int32_t n = qn__kv_lower(s->memory.kv, seq, p1) - qn__kv_lower(s->memory.kv, seq, p0);
    if (n <= 0 || delta == 0) return QN_OK;
    QN_TRY(check_shift(s, seq, p0, p1, delta, err));
    const size_t bytes = (size_t)n * 2 * sizeof(int32_t) * (size_t)s->memory.n_groups;
    int32_t *cells = qn__alloc(bytes);
    if (!cells) return QN_FAIL_NOMEM(err, bytes);
    qn__turns_take(&s->engine->turns, &s->turn);
    const qn_status status = shift(s, seq, p0, p1, delta, n, cells, err);
    qn__pager_give_turn(s->engine, &s->turn);
    qn__free(cells);
    return status;
}

/* The cell at place i of a sequence holds position i and that token. */
static bool holds(const qn_kv *kv, int32_t seq, size_t i, qn_token token)
{
    const int32_t cell = qn__kv_list(kv, seq)[i];
    return kv->pos[cell] == (int32_t)i && kv->token[cell] == token;
}

static size_t common_prefix(const qn_kv *kv, int32_t seq, const qn_token *tokens, size_t n)
{
    size_t k = 0;
    while (k + 1 < n && k < (size_t)kv->len[seq] && holds(kv, seq, k, tokens[k])) k++;
    return k;
}

/* Keeps the first k tokens; none, when a window has forgotten what the next one would see. */
static size_t keep_prefix(qn_session *s, int32_t seq, size_t k)
{
    if (qn__memory_remove(&s->memory, seq, (int32_t)k, INT32_MAX)) return k;
    empty(s, seq);
    return 0;
}

qn_status qn_session_reuse(qn_session *s, int32_t seq, const qn_token *tokens, size_t n, size_t *kept, qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_seq(s, seq, err));
    *kept = keep_prefix(s, seq, common_prefix(s->memory.kv, seq, tokens, n));
    return QN_OK;
}

/* The longest run of the sequence at places after `from` that equals the beginning of want[0 .. n), in one pass
 * (Knuth, Morris, Pratt): *at is its place. border[i] is the length of the longest proper prefix of want[0 .. i] that
 * is also its end. */
static size_t longest_run(const qn_kv *kv, int32_t seq, size_t from, const qn_token *want, size_t n, int32_t *border,
                          size_t *at)
{
    const size_t len = (size_t)kv->len[seq];
    size_t best = 0, k = 0;
    border[0] = 0;
    for (size_t i = 1; i < n; i++) {
        while (k && want[i] != want[k]) k = (size_t)border[k - 1];
        k += want[i] == want[k];
        border[i] = (int32_t)k;
    }
    k = 0;
    for (size_t i = from + 1; i < len; i++) {
        while (k && (k == n || !holds(kv, seq, i, want[k]))) k = (size_t)border[k - 1];
        k += holds(kv, seq, i, want[k]);
        if (k <= best) continue;
        best = k;
        *at = i + 1 - k;
    }
    return best;
}

qn_status qn_session_reuse_shift(qn_session *s, int32_t seq, const qn_token *tokens, size_t n, size_t *kept,
                                 qn_error *err)
{
    QN_TRY(qn__session_idle(s, err));
    QN_TRY(check_seq(s, seq, err));
    const size_t k = common_prefix(s->memory.kv, seq, tokens, n);
    size_t run = 0, at = 0;
    if (n > k + 1 && k < (size_t)s->memory.kv->len[seq] && !s->engine->model->top.pos_embd) {
        int32_t *border = qn__alloc((n - 1 - k) * sizeof *border);
        if (!border) return QN_FAIL_NOMEM(err, (n - 1 - k) * sizeof *border);
        run = longest_run(s->memory.kv, seq, k, tokens + k, n - 1 - k, border, &at);
        qn__free(border);
    }
    if (run < QN_REUSE_MIN_RUN) return qn_session_reuse(s, seq, tokens, n, kept, err);
    /* what lies between goes first: positions may not meet */
    if (!qn__memory_remove(&s->memory, seq, (int32_t)(at + run), INT32_MAX))
        return qn_session_reuse(s, seq, tokens, n, kept, err);
    (void)qn__memory_remove(&s->memory, seq, (int32_t)k, (int32_t)at);
    const qn_status status =
        qn_session_seq_shift(s, seq, (int32_t)at, (int32_t)(at + run), (int32_t)k - (int32_t)at, err);
    if (status == QN_OK) {
        *kept = k + run;
        return QN_OK;
    }
    const size_t left = keep_prefix(s, seq, k);
    if (status != QN_STATUS_state) return status;
    *kept = left; /* moved there, the run's end would see what is forgotten */
    return QN_OK;
}
