/* SPDX-License-Identifier: MIT */
/* src/trace/paging.c -- what decoding would read from disk with less memory: the steps of a trace played by the rules
 * of base/paging.h, which are the engine's. */
#include "base/paging.h"
#include "base/error.h"
#include "trace/read.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_MATRICES = 4096, MOST_EXPERTS = 1024, MOST_BLOCKS = 1 << 24 }; /* more is hostile */

/* A matrix of experts. */
typedef struct matrix {
    int32_t file;
    uint64_t offset, one; /* of the first; bytes of one */
    qn_paging_experts set;
    int32_t layer;
} matrix;

/* Looked up by rows; `rows`: bytes of QN_PAGING_ROWS of them. */
typedef struct table {
    qn_trace_stretch at;
    uint64_t rows;
} table;

typedef struct file_size {
    int32_t id;
    uint64_t bytes;
} file_size;

typedef struct survey {
    const qn_trace *t;
    qn_paging need;
    uint64_t weights;                      /* bytes, as they are stored */
    QN_TRACE_LIST(qn_trace_stretch) whole; /* that a step uses, in whole blocks once their size is known */
    QN_TRACE_LIST(table) tables;
    QN_TRACE_LIST(file_size) files; /* by number */
    QN_TRACE_LIST(matrix) matrices;
    bool failed, unknown; /* no memory; ids of experts are not in the trace */
    /* while steps are played */
    size_t at;
    matrix *open; /* whose choice is being counted */
    const qn_trace_node *node;
    int32_t layer; /* that waited last */
    bool counts;
    double read, waits;
} survey;

/* ---- what a step uses ---- */

static matrix *find_matrix(survey *s, const qn_trace_touch *x)
{
    for (size_t i = 0; i < s->matrices.n; i++) { /* they come in the same order again and again */
        const size_t k = (s->at + i) % s->matrices.n;
        matrix *m = &s->matrices.at[k];
        if (m->file != x->file || m->offset != x->weight->offset) continue;
        s->at = k;
        return m;
    }
    return NULL;
}

static bool note_matrix(survey *s, const qn_trace_touch *x)
{
    const uint32_t n = x->node->cost.n_experts, used = x->node->cost.n_used;
    if (find_matrix(s, x)) return true;
    if (n > MOST_EXPERTS || s->matrices.n >= MOST_MATRICES) {
        s->unknown = true;
        return true;
    }
    matrix *m = QN_TRACE_MORE(&s->matrices);
    s->failed = !m;
    if (!m) return false;
    *m = (matrix){.file = x->file, .offset = x->weight->offset, .one = x->weight->bytes / n, .layer = x->node->layer};
    m->set = (qn_paging_experts){.n = (int32_t)n,
                                 .count = qn__calloc(n, sizeof *m->set.count),
                                 .seen = qn__calloc(n, sizeof *m->set.seen),
                                 .here = qn__calloc(n, 1)};
    s->failed = !m->set.count || !m->set.seen || !m->set.here;
    s->weights += x->weight->bytes;
    s->need.experts += x->weight->bytes;
    const uint64_t at_once = 3 * m->one * (used < n ? used : n);
    if (at_once > s->need.at_once) s->need.at_once = at_once;
    return !s->failed;
}

static bool note_table(survey *s, const qn_trace_touch *x)
{
    const qn_trace_node *w = x->weight;
    if (w->offset > UINT64_MAX - w->bytes) return true;
    table *new = QN_TRACE_MORE(&s->tables);
    s->failed = !new;
    if (!new) return false;
    new->at = (qn_trace_stretch){x->file, w->offset, w->offset + w->bytes};
    new->rows = qn__paging_rows(w->bytes, w->rank > 0 ? (uint64_t)w->shape[0] : 0);
    return true;
}

static bool note(void *ctx, const qn_trace_touch *x)
{
    survey *s = ctx;
    if (x->part && x->node->cost.n_experts > 0) return note_matrix(s, x);
    if (x->part) return note_table(s, x);
    qn_trace_stretch *whole = QN_TRACE_MORE(&s->whole);
    s->failed = !whole;
    if (whole) *whole = (qn_trace_stretch){x->file, x->offset, x->offset + x->bytes};
    return whole != NULL;
}

static bool note_greediest(void *ctx, const qn_trace_touch *x)
{
    survey *s = ctx;
    const uint64_t n = (x->offset + x->bytes - 1) / s->need.block - x->offset / s->need.block + 1;
    if (!x->part && x->node->layer >= 0 && n < MOST_BLOCKS && (int32_t)n > s->need.greediest)
        s->need.greediest = (int32_t)n;
    return true;
}

static int by_place(const void *a, const void *b)
{
    const qn_trace_stretch *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int by_table(const void *a, const void *b)
{
    const table *x = a, *y = b;
    const int order = by_place(&x->at, &y->at);
    return order ? order : (x->at.end < y->at.end) - (x->at.end > y->at.end);
}

static int by_number(const void *a, const void *b)
{
    const file_size *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

/* Each table once. A trace may have as many nodes as it likes: nothing here looks through a list for each of them. */
static void merge_tables(survey *s)
{
    size_t kept = 0;
    table *const at = s->tables.at;
    if (s->tables.n) qsort(at, s->tables.n, sizeof *at, by_table);
    for (size_t i = 0; i < s->tables.n; i++)
        if (kept == 0 || by_place(&at[kept - 1].at, &at[i].at) != 0) at[kept++] = at[i];
    s->tables.n = kept;
}

static bool note_files(survey *s)
{
    for (size_t i = 0; i < s->t->files.n; i++) {
        file_size *f = QN_TRACE_MORE(&s->files);
        s->failed = !f;
        if (!f) return false;
        *f = (file_size){s->t->files.at[i].id, s->t->files.at[i].bytes};
    }
    if (s->files.n) qsort(s->files.at, s->files.n, sizeof s->files.at[0], by_number);
    return true;
}

static const file_size *find_file(const survey *s, int32_t id)
{
    const file_size key = {.id = id};
    return s->files.n ? bsearch(&key, s->files.at, s->files.n, sizeof key, by_number) : NULL;
}

/* Sorted and apart, widened to whole blocks; their bytes. */
static uint64_t merge(survey *s, uint64_t block)
{
    uint64_t sum = 0;
    size_t kept = 0;
    qn_trace_stretch *const at = s->whole.at;
    for (size_t i = 0; i < s->whole.n && block > 1; i++) {
        const file_size *f = find_file(s, at[i].file);
        at[i].begin -= at[i].begin % block;
        if (at[i].end % block && at[i].end <= UINT64_MAX - block) at[i].end += block - at[i].end % block;
        if (f && at[i].end > f->bytes && f->bytes > at[i].begin) at[i].end = f->bytes; /* the last is shorter */
    }
    if (s->whole.n) qsort(at, s->whole.n, sizeof *at, by_place);
    for (size_t i = 0; i < s->whole.n; i++) {
        if (kept && at[kept - 1].file == at[i].file && at[kept - 1].end >= at[i].begin) {
            if (at[i].end > at[kept - 1].end) at[kept - 1].end = at[i].end;
            continue;
        }
        at[kept++] = at[i];
    }
    s->whole.n = kept;
    for (size_t i = 0; i < kept; i++) sum += at[i].end - at[i].begin;
    return sum;
}

/* As bsearch asks: 0 where the first, of one byte, lies in the second. */
static int by_being_in(const void *a, const void *b)
{
    const qn_trace_stretch *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin >= y->end;
}

/* Once they are merged. */
static bool is_whole(const survey *s, int32_t file, uint64_t offset)
{
    const qn_trace_stretch key = {file, offset, offset};
    return s->whole.n && bsearch(&key, s->whole.at, s->whole.n, sizeof key, by_being_in);
}

static void take_survey(survey *s, const qn_trace_step *step)
{
    qn_trace_touches(step, note, s);
    if (s->failed || !note_files(s)) return;
    s->weights += merge(s, 1);
    merge_tables(s);
    for (size_t i = 0; i < s->tables.n; i++) {
        const qn_trace_stretch *x = &s->tables.at[i].at;
        const bool alone = !is_whole(s, x->file, x->begin + (x->end - x->begin) / 2);
        s->need.tables += alone ? x->end - x->begin : 0;
        s->need.rows += alone ? s->tables.at[i].rows : 0;
    }
    s->weights += s->need.tables;
    s->need.block = qn__paging_block(s->weights);
    s->need.whole = merge(s, s->need.block);
    qn_trace_touches(step, note_greediest, s);
}

/* ---- experts ---- */

static void tell(void *ctx, int32_t expert, bool drop)
{
    (void)ctx;
    (void)expert;
    (void)drop;
}

static void end_choice(survey *s)
{
    matrix *m = s->open;
    s->open = NULL;
    if (!m) return;
    const uint64_t before = m->set.misses;
    qn__paging_choice_end(&m->set, tell, NULL);
    qn__paging_settle(&m->set, tell, NULL);
    if (m->set.misses == before || !s->counts) return;
    s->read += (double)(m->set.misses - before) * (double)m->one;
    s->waits += s->layer != m->layer;
    s->layer = m->layer;
}

/* All numbers of a choice follow each other. */
static bool play_touch(void *ctx, const qn_trace_touch *x)
{
    survey *s = ctx;
    if (!x->part || x->node->cost.n_experts == 0) return true;
    matrix *m = find_matrix(s, x);
    if (!m || x->bytes != m->one) {
        s->unknown = true;
        return true;
    }
    if (m != s->open || x->node != s->node) {
        end_choice(s);
        qn__paging_choice_begin(&m->set);
        s->open = m;
        s->node = x->node;
    }
    qn__paging_choice_count(&m->set, (int64_t)((x->offset - m->offset) / m->one));
    return true;
}

/* All steps; `half` of those of decoding are not counted, nor are others. Returns the tokens of those that are. */
static int64_t play(survey *s, int64_t half)
{
    int64_t k = 0, n_tokens = 0;
    for (size_t i = 0; i < s->t->steps.n; i++) {
        const qn_trace_step *step = &s->t->steps.at[i];
        const bool decodes = step->phase == QN_TRACE_PHASE_decode && step->ns > 0;
        s->counts = decodes && k >= half;
        k += decodes;
        s->layer = -1;
        if (s->counts) n_tokens += step->n_tokens;
        if (s->matrices.n) qn_trace_touches(step, play_touch, s);
        end_choice(s);
    }
    return n_tokens;
}

/* ---- all of it ---- */

/* What the library had allocated: as the trace says, else activations and cache of the plan that has most. */
static uint64_t taken_in(const qn_trace *t)
{
    const char *note = qn_trace_find_note(t, "live_bytes");
    uint64_t most = 0;
    if (note) return strtoull(note, NULL, 10);
    for (size_t i = 0; i < t->plans.n; i++) {
        const qn_trace_plan *p = t->plans.at[i];
        uint64_t bytes = 0;
        for (int32_t k = 0; k < p->n_places; k++) bytes += p->place_bytes[k];
        for (int32_t k = 0; k < p->n_nodes; k++)
            if (p->nodes[k].space == QN_TRACE_RESIDENT && p->nodes[k].root == k) bytes += p->nodes[k].bytes;
        if (bytes > most) most = bytes;
    }
    return most;
}

static void work_out(survey *s, int64_t n_steps, qn_trace_paging *out)
{
    const qn_paging_share share = qn__paging_share(&s->need);
    const uint64_t block = s->need.block,
                   keep = share.keep < s->need.whole ? share.keep / block * block : s->need.whole;
    out->fits = share.fits;
    out->kept_bytes = keep;
    out->window_bytes = share.window_bytes;
    out->ahead_bytes = share.fits ? 0 : (double)(s->need.whole - keep);
    for (size_t i = 0; i < s->matrices.n; i++) {
        matrix *m = &s->matrices.at[i];
        const uint64_t all = m->one * (uint64_t)m->set.n;
        m->set.slots = share.fits ? m->set.n : qn__paging_slots(share.keep - keep, s->need.experts, all, m->set.n);
    }
    for (size_t i = 0; i < s->matrices.n; i++) qn__paging_fill(&s->matrices.at[i].set);
    out->n_tokens = play(s, n_steps / 2);
    const double n = out->n_tokens > 0 ? (double)out->n_tokens : 1;
    out->expert_bytes = s->unknown ? -1 : share.fits ? 0 : s->read / n;
    out->expert_waits = s->unknown ? -1 : share.fits ? 0 : s->waits / n;
}

static void survey_deinit(survey *s)
{
    for (size_t i = 0; i < s->matrices.n; i++) {
        qn__free(s->matrices.at[i].set.count);
        qn__free(s->matrices.at[i].set.seen);
        qn__free(s->matrices.at[i].set.here);
    }
    qn__free(s->whole.at);
    qn__free(s->tables.at);
    qn__free(s->files.at);
    qn__free(s->matrices.at);
}

/* Where nearly all fits, a few MB decide: the program may have its pages in that memory or not, and some on the active
 * list or none. */
static bool play_kernel(qn_trace *t, uint64_t memory, uint64_t read_ahead, qn_trace_paging *out)
{
    const uint64_t room = memory > out->taken_bytes ? memory - out->taken_bytes : 0;
    const uint64_t rooms[] = {room, room > QN_PAGING_LATER ? room - QN_PAGING_LATER : 0};
    static const uint64_t active[] = {0, (uint64_t)16 << 20};
    for (int i = 0; i < 4; i++) {
        qn_trace_kernel k;
        if (!qn__trace_play_kernel(t, read_ahead, rooms[i / 2], active[i % 2], &k)) return false;
        if (i == 0 || k.bytes > out->kernel_bytes) {
            out->kernel_bytes = k.bytes;
            out->kernel_jump_bytes = k.jumps;
        }
        if (i == 0 || k.bytes < out->kernel_least_bytes) {
            out->kernel_least_bytes = k.bytes;
            out->kernel_least_jump_bytes = k.jumps;
        }
    }
    return true;
}

qn_status qn_trace_get_paging(qn_trace *t, uint64_t memory, uint64_t read_ahead, qn_trace_paging *out, qn_error *err)
{
    survey s = {.t = t};
    const qn_trace_step *last = NULL;
    int64_t n_steps = 0;
    *out = (qn_trace_paging){.taken_bytes = taken_in(t), .reserve_bytes = QN_PAGING_RESERVE};
    const uint64_t taken = out->taken_bytes + out->reserve_bytes;
    out->budget_bytes = s.need.budget = memory > taken ? memory - taken : 0;
    for (size_t i = 0; i < t->steps.n; i++) {
        if (t->steps.at[i].phase != QN_TRACE_PHASE_decode || t->steps.at[i].ns <= 0) continue;
        last = &t->steps.at[i];
        n_steps++;
    }
    if (last) take_survey(&s, last);
    bool ok = !s.failed;
    if (ok && n_steps > 1 && s.weights > 0) {
        work_out(&s, n_steps, out);
        ok = play_kernel(t, memory, read_ahead, out);
    }
    if (ok) out->least_bytes = out->taken_bytes + qn__paging_least(s.weights, QN_PAGING_RESERVE);
    survey_deinit(&s);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory for what a trace would read with less memory");
}
