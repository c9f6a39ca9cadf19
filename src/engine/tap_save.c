/* SPDX-License-Identifier: MIT */
/* src/engine/tap_save.c -- save=DIR: DIR/NAME.npy grows by the rows of each step; DIR/rows.npy, and DIR/rows_out.npy
 * for values with a row a logit, are [rows, 3] I32: token, position, sequence. After every step the headers are right.
 */
#include "base/grow.h"
#include "base/thread.h"
#include "engine/tap.h"
#include "format/npy.h"
#include <string.h>

enum {
    MOST_OPEN = 200,     /* files at once; of more than that each is opened for each write */
    ROOM = 1 << 18,      /* bytes of rows that wait for the end of their step */
    MOST_LATER = 1 << 13 /* of one value: what is larger takes longer than the system call between two nodes */
};

typedef struct grown {
    const char *path;
    qn_dtype dtype;
    qn_shape shape; /* the first number grows */
    size_t header;  /* bytes */
    char *text;     /* the header; for this shape */
    char *file;     /* the header in the file; NULL: it has to be written */
    int64_t row_bytes;
    int fd; /* -1: not kept open, or not begun */
    bool begun;
    const char *rows; /* that wait */
    int64_t n_rows;
} grown;

typedef struct saved {
    qn_str header;
    int n_open;
    grown rows[QN_ROWS_KINDS];
    uint64_t step[QN_ROWS_KINDS]; /* whose rows are listed */
    char *room;                   /* [ROOM] */
    size_t used;
    grown *waiting[MOST_OPEN]; /* whose rows wait: all are open */
    int n_waiting;
    qn_pool_user *pool; /* writes them */
} saved;

static qn_status begin(qn_tap *tap, grown *g, const char *name, qn_dtype dtype, const qn_shape *row, qn_error *err)
{
    saved *s = tap->state;
    qn_shape most = {.rank = row->rank + 1, .dim = {INT64_MAX}};
    if (most.rank > QN_MAX_RANK)
        return QN_FAIL(err, unsupported, "%s has too many dimensions for a file of rows", name);
    for (int i = 0; i < row->rank; i++) most.dim[i + 1] = row->dim[i];
    *g = (grown){.path = qn__tap_path(&tap->taps->arena, tap->arg, name, ".npy"),
                 .dtype = dtype,
                 .shape = most,
                 .fd = -1};
    if (!g->path || !qn__npy_header(&s->header, dtype, &most, 0)) return QN_FAIL_NOMEM(err, 256);
    g->header = s->header.len;
    g->text = qn__arena_alloc(&tap->taps->arena, g->header);
    if (!g->text) return QN_FAIL_NOMEM(err, g->header);
    memcpy(g->text, s->header.data, g->header);
    g->shape.dim[0] = 0;
    g->row_bytes = qn_shape_numel(row) * 4; /* F32 or I32 */
    return QN_OK;
}

static qn_status open_file(saved *s, grown *g, int *fd, qn_error *err)
{
    if (g->fd >= 0) {
        *fd = g->fd;
        return QN_OK;
    }
    QN_TRY(qn__grow_open(g->path, !g->begun, fd, err));
    g->begun = true;
    if (s->n_open == MOST_OPEN) return QN_OK;
    s->n_open++;
    g->fd = *fd;
    return QN_OK;
}

/* Making the header anew takes longer than writing it: only its number of rows is another. */
static bool set_rows(saved *s, grown *g, int64_t n)
{
    qn_shape shape = g->shape;
    if (qn__npy_set_rows(g->text, n)) return true;
    shape.dim[0] = n;
    if (!qn__npy_header(&s->header, g->dtype, &shape, g->header)) return false;
    memcpy(g->text, s->header.data, g->header);
    return true;
}

/* Rows first: a header never counts what is not there. */
static qn_status write_rows(grown *g, int fd, const void *rows, int64_t n, qn_error *err)
{
    const uint64_t at = g->header + (uint64_t)(g->shape.dim[0] * g->row_bytes);
    const qn_grow_part parts[] = {{at, rows, (size_t)(n * g->row_bytes)}, {0, g->text, g->header}};
    QN_TRY(qn__grow_write(fd, g->path, parts, g->file ? 1 : 2, err));
    if (g->file)
        memcpy(g->file, g->text, g->header);
    else if (g->fd >= 0 && g->shape.dim[0] == 0)
        g->file = qn__grow_map(fd, g->header);
    g->shape.dim[0] += n;
    return QN_OK;
}

static qn_status append(saved *s, grown *g, const void *rows, int64_t n, qn_error *err)
{
    int fd;
    QN_TRY(open_file(s, g, &fd, err));
    qn_status status = set_rows(s, g, g->shape.dim[0] + n) ? QN_OK : QN_FAIL_NOMEM(err, 256);
    if (status == QN_OK) status = write_rows(g, fd, rows, n, err);
    if (g->fd < 0) {
        const qn_status closed = qn__grow_close(fd, g->path, status == QN_OK ? err : NULL);
        if (status == QN_OK) status = closed;
    }
    return status;
}

typedef struct writing {
    saved *s;
    qn_team *team;
    qn_mutex lock; /* of what follows */
    qn_status status;
    qn_error error;
} writing;

static void write_some(void *ctx, int member, int n_members)
{
    writing *w = ctx;
    int64_t i, end;
    (void)member, (void)n_members;
    while (qn__team_next(w->team, w->s->n_waiting, 1, &i, &end))
        for (; i < end; i++) {
            qn_error error;
            grown *g = w->s->waiting[i];
            const qn_status status = write_rows(g, g->fd, g->rows, g->n_rows, &error);
            if (status == QN_OK) continue;
            qn__mutex_lock(&w->lock);
            w->status = status;
            w->error = error;
            qn__mutex_unlock(&w->lock);
        }
}

/* The threads that computed write together: a system call takes longer than many a node of a small model. */
static qn_status step_saved(qn_tap *tap, qn_error *err)
{
    saved *s = tap->state;
    writing w = {.s = s, .team = qn__pool_team(s->pool)};
    if (s->n_waiting == 0) return QN_OK;
    for (int i = 0; i < s->n_waiting && w.status == QN_OK; i++) {
        const grown *g = s->waiting[i];
        if (!set_rows(s, s->waiting[i], g->shape.dim[0] + g->n_rows)) w.status = QN_FAIL_NOMEM(&w.error, 256);
    }
    if (w.status == QN_OK) {
        qn__mutex_init(&w.lock);
        qn__pool_run(s->pool, write_some, &w);
        qn__mutex_deinit(&w.lock);
    }
    for (int i = 0; i < s->n_waiting; i++) s->waiting[i]->n_rows = 0;
    s->n_waiting = 0;
    s->used = 0;
    if (w.status != QN_OK && err) *err = w.error;
    return w.status;
}

/* System calls one after the other take two thirds of what they take between nodes, and other threads wait for none. */
static qn_status save(qn_tap *tap, grown *g, const void *rows, int64_t n, qn_error *err)
{
    saved *s = tap->state;
    const size_t bytes = (size_t)(n * g->row_bytes);
    int fd;
    if (g->n_rows > 0) QN_TRY(step_saved(tap, err));
    if (g->fd < 0 && s->n_open < MOST_OPEN) QN_TRY(open_file(s, g, &fd, err));
    if (g->fd < 0 || bytes > MOST_LATER || bytes > ROOM - s->used) return append(s, g, rows, n, err);
    g->rows = memcpy(s->room + s->used, rows, bytes);
    g->n_rows = n;
    s->used += bytes;
    s->waiting[s->n_waiting++] = g;
    return QN_OK;
}

static qn_status open_save(qn_tap *tap, qn_error *err)
{
    static const char *const names[QN_ROWS_KINDS] = {
        [QN_ROWS_none] = NULL, [QN_ROWS_tokens] = "rows", [QN_ROWS_outputs] = "rows_out"};
    saved *s = tap->state = qn__arena_alloc(&tap->taps->arena, sizeof *s);
    if (!s) return QN_FAIL_NOMEM(err, sizeof *s);
    const qn_shape three = qn_shape_of(3);
    for (int k = 0; k < QN_ROWS_KINDS; k++) s->rows[k].fd = -1;
    QN_TRY(qn__pool_join(tap->taps->session->engine->info.n_threads, &s->pool, err));
    s->room = qn__arena_alloc(&tap->taps->arena, ROOM);
    if (!s->room) return QN_FAIL_NOMEM(err, ROOM);
    for (int k = 0; k < QN_ROWS_KINDS; k++)
        if (names[k]) QN_TRY(begin(tap, &s->rows[k], names[k], QN_DTYPE_I32, &three, err));
    return qn__folder_make(tap->arg, err);
}

static qn_status match_save(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err)
{
    (void)graph, (void)node;
    grown *g = slot->state = qn__arena_alloc(&tap->taps->arena, sizeof *g);
    if (!g) return QN_FAIL_NOMEM(err, sizeof *g);
    g->fd = -1;
    return begin(tap, g, slot->point->name, QN_DTYPE_F32, &slot->point->row, err);
}

static qn_status run_save(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    qn_tap *tap = slot->tap;
    saved *s = tap->state;
    const qn_tap_rows kind = slot->point->rows;
    _Static_assert(sizeof(qn_tap_row) == 3 * sizeof(int32_t), "rows are written as they are");
    if (kind != QN_ROWS_none && s->step[kind] != tap->taps->step) {
        s->step[kind] = tap->taps->step;
        QN_TRY(save(tap, &s->rows[kind], v->rows, v->n_rows, err));
    }
    return save(tap, slot->state, v->data, v->n_rows, err);
}

static qn_status close_file(grown *g, qn_error *err)
{
    if (!g || g->fd < 0) return QN_OK;
    const int fd = g->fd;
    qn__grow_unmap(g->file, g->header);
    g->file = NULL;
    g->fd = -1;
    return qn__grow_close(fd, g->path, err);
}

static qn_status end_save(qn_tap *tap, qn_error *err)
{
    saved *s = tap->state;
    qn_status status = QN_OK;
    for (int k = 0; s && k < QN_ROWS_KINDS; k++) {
        const qn_status one = close_file(&s->rows[k], status == QN_OK ? err : NULL);
        if (status == QN_OK) status = one;
    }
    for (qn_tap_slot *slot = tap->slots; slot; slot = slot->next_of_tap) {
        const qn_status one = close_file(slot->state, status == QN_OK ? err : NULL);
        if (status == QN_OK) status = one;
    }
    return status;
}

static void close_save(qn_tap *tap)
{
    saved *s = tap->state;
    (void)end_save(tap, NULL);
    if (!s) return;
    qn__str_deinit(&s->header);
    qn__pool_leave(s->pool);
}

const qn_tap_type qn__tap_save = {.open = open_save,
                                  .match = match_save,
                                  .run = run_save,
                                  .stepped = step_saved,
                                  .end = end_save,
                                  .close = close_save};
