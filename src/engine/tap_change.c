/* SPDX-License-Identifier: MIT */
/* src/engine/tap_change.c -- zero, scale, replace, add and patch: values that are changed. */
#include "base/dir.h"
#include "engine/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- zero and scale ---- */

static qn_status run_zero(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    (void)slot, (void)err;
    memset(v->data, 0, (size_t)(v->n_rows * v->row_size) * sizeof *v->data);
    v->changed = true;
    return QN_OK;
}

const qn_tap_type qn__tap_zero = {.changes = true, .run = run_zero};

static qn_status parse_factor(const char *text, float *out, qn_error *err)
{
    double x;
    char quoted[64];
    if (!qn__parse_f64(text, -(double)INFINITY, (double)INFINITY, &x) || !isfinite((float)x))
        return QN_FAIL(err, invalid, "tap: \"%s\" is no number that float32 holds",
                       qn__str_quote(quoted, sizeof quoted, text, strlen(text)));
    *out = (float)x;
    return QN_OK;
}

static qn_status open_scale(qn_tap *tap, qn_error *err)
{
    float *factor = tap->state = qn__arena_alloc(&tap->taps->arena, sizeof *factor);
    return factor ? parse_factor(tap->arg, factor, err) : QN_FAIL_NOMEM(err, sizeof *factor);
}

static qn_status run_scale(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    (void)err;
    const float factor = *(const float *)slot->tap->state;
    for (int64_t i = 0; i < v->n_rows * v->row_size; i++) v->data[i] *= factor;
    v->changed = true;
    return QN_OK;
}

const qn_tap_type qn__tap_scale = {.changes = true, .open = open_scale, .run = run_scale};

/* ---- rows of a file ---- */

/* n 0: one row for all; else the rows that come take one each, and later ones none. */
typedef struct source {
    const char *path;
    float *rows;
    qn_shape shape;
    qn_gguf *file; /* of a control vector: NULL for .npy */
    float factor;
} source;
typedef struct taken {
    const float *rows;
    int64_t n, at;
} taken;

/* The row for the next row of the value; NULL: it stays. */
static const float *next_row(taken *t, int64_t row_size)
{
    if (!t->rows || t->n == 0) return t->rows;
    return t->at < t->n ? t->rows + t->at++ * row_size : NULL;
}

static qn_status open_npy(qn_tap *tap, const char *path, qn_error *err)
{
    source *s = tap->state = qn__arena_alloc(&tap->taps->arena, sizeof *s);
    if (!s) return QN_FAIL_NOMEM(err, sizeof *s);
    s->path = path;
    s->factor = 1;
    return qn__tap_read_npy(&tap->taps->arena, path, &s->rows, &s->shape, err);
}

static qn_status match_rows(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err)
{
    (void)graph, (void)node;
    const source *s = tap->state;
    taken *t = slot->state = qn__arena_alloc(&tap->taps->arena, sizeof *t);
    if (!t) return QN_FAIL_NOMEM(err, sizeof *t);
    t->rows = s->rows;
    return qn__tap_fit(slot, s->path, &s->shape, &t->n, err);
}

static qn_status open_replace(qn_tap *tap, qn_error *err) { return open_npy(tap, tap->arg, err); }

static qn_status run_replace(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    (void)err;
    for (int64_t r = 0; r < v->n_rows; r++) {
        const float *from = next_row(slot->state, v->row_size);
        if (!from) break;
        memcpy(v->data + r * v->row_size, from, (size_t)v->row_size * sizeof *from);
        v->changed = true;
    }
    return QN_OK;
}

const qn_tap_type qn__tap_replace = {.changes = true, .open = open_replace, .match = match_rows, .run = run_replace};

/* ---- add ---- */

/* FILE, or FILE:X where there is no file of that whole name. */
static qn_status split_factor(qn_tap *tap, char **path, float *factor, qn_error *err)
{
    *factor = 1;
    *path = qn__arena_strdup(&tap->taps->arena, tap->arg);
    if (!*path) return QN_FAIL_NOMEM(err, strlen(tap->arg) + 1);
    char *colon = strrchr(*path, ':');
    if (!colon || qn__entry_at(*path).kind == QN_ENTRY_file) return QN_OK;
    *colon = '\0';
    return parse_factor(colon + 1, factor, err);
}

static bool is_gguf(const char *path)
{
    const size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".gguf");
}

static qn_status open_add(qn_tap *tap, qn_error *err)
{
    char *path;
    float factor;
    QN_TRY(split_factor(tap, &path, &factor, err));
    if (!is_gguf(path)) {
        QN_TRY(open_npy(tap, path, err));
        ((source *)tap->state)->factor = factor;
        return QN_OK;
    }
    source *s = tap->state = qn__arena_alloc(&tap->taps->arena, sizeof *s);
    if (!s) return QN_FAIL_NOMEM(err, sizeof *s);
    *s = (source){.path = path, .factor = factor};
    QN_TRY(qn_gguf_open(path, NULL, &s->file, err));
    for (size_t i = 0; i < qn_gguf_n_tensors(s->file); i++)
        if (!strncmp(qn_gguf_tensor_get(s->file, i)->name, "direction.", 10)) return QN_OK;
    return QN_FAIL(err, format, "'%.200s' has no tensor direction.N: it is no control vector", path);
}

/* direction.LAYER; a layer without one stays as it is. */
static qn_status match_add(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err)
{
    const source *s = tap->state;
    char name[32];
    if (!s->file) return match_rows(tap, slot, graph, node, err);
    taken *t = slot->state = qn__arena_alloc(&tap->taps->arena, sizeof *t);
    if (!t) return QN_FAIL_NOMEM(err, sizeof *t);
    if (slot->point->layer < 0) return QN_OK;
    snprintf(name, sizeof name, "direction.%d", slot->point->layer);
    const qn_gguf_tensor *x = qn_gguf_tensor_find(s->file, name);
    if (!x) return QN_OK;
    if (x->dtype != QN_DTYPE_F32 || qn_gguf_big_endian(s->file))
        return QN_FAIL(err, unsupported, "'%.200s': %s is %s; little-endian F32 is expected", s->path, name,
                       qn_dtype_get(x->dtype)->name);
    QN_TRY(qn__tap_fit(slot, s->path, &x->shape, &t->n, err));
    t->rows = x->data;
    return QN_OK;
}

/* Nothing added must change no bit, of a -0 either. */
static qn_status run_add(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    (void)err;
    const float factor = ((const source *)slot->tap->state)->factor;
    for (int64_t r = 0; r < v->n_rows && factor != 0; r++) {
        const float *from = next_row(slot->state, v->row_size);
        float *to = v->data + r * v->row_size;
        if (!from) break;
        for (int64_t i = 0; i < v->row_size; i++) to[i] += factor * from[i];
        v->changed = true;
    }
    return QN_OK;
}

static void close_add(qn_tap *tap)
{
    const source *s = tap->state;
    if (s) qn_gguf_close(s->file);
}

const qn_tap_type qn__tap_add = {
    .changes = true, .open = open_add, .match = match_add, .run = run_add, .close = close_add};

/* ---- patch ---- */

typedef struct patch {
    float *rows[QN_ROWS_KINDS]; /* [n, 3]: token, position, sequence */
    int64_t n[QN_ROWS_KINDS];
} patch;
typedef struct patched {
    const float *data;
    int64_t n, at; /* rows; where the next is looked for first */
} patched;

static qn_status open_patch(qn_tap *tap, qn_error *err)
{
    patch *p = tap->state = qn__arena_alloc(&tap->taps->arena, sizeof *p);
    return p ? QN_OK : QN_FAIL_NOMEM(err, sizeof *p);
}

static qn_status read_rows(qn_tap *tap, qn_tap_rows kind, qn_error *err)
{
    patch *p = tap->state;
    qn_arena *arena = &tap->taps->arena;
    qn_shape shape;
    if (p->rows[kind]) return QN_OK;
    const char *path = qn__tap_path(arena, tap->arg, kind == QN_ROWS_outputs ? "rows_out" : "rows", ".npy");
    if (!path) return QN_FAIL_NOMEM(err, 256);
    QN_TRY(qn__tap_read_npy(arena, path, &p->rows[kind], &shape, err));
    if (shape.rank != 2 || shape.dim[1] != 3)
        return QN_FAIL(err, format, "'%.200s' is no list of rows that a tap has saved: [rows, 3] is expected", path);
    p->n[kind] = shape.dim[0];
    return QN_OK;
}

static qn_status match_patch(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err)
{
    (void)graph, (void)node;
    const qn_tap_rows kind = slot->point->rows;
    const patch *p = tap->state;
    qn_arena *arena = &tap->taps->arena;
    patched *s = slot->state = qn__arena_alloc(arena, sizeof *s);
    const char *path = qn__tap_path(arena, tap->arg, slot->point->name, ".npy");
    qn_shape shape;
    float *data;
    if (!s || !path) return QN_FAIL_NOMEM(err, 256);
    if (kind == QN_ROWS_none)
        return QN_FAIL(err, invalid, "tap: %s has no row for each token, and can't be patched", slot->point->name);
    QN_TRY(read_rows(tap, kind, err));
    QN_TRY(qn__tap_read_npy(arena, path, &data, &shape, err));
    QN_TRY(qn__tap_fit(slot, path, &shape, &s->n, err));
    if (s->n != p->n[kind])
        return QN_FAIL(err, format, "'%.200s' has %lld rows, the list of rows beside it %lld", path, (long long)s->n,
                       (long long)p->n[kind]);
    s->data = data;
    return QN_OK;
}

/* Of the same sequence and position; mostly the one behind the last. */
static const float *find_row(const patch *p, qn_tap_rows kind, patched *s, const qn_tap_row *row, int64_t row_size)
{
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t at = (s->at + i) % s->n;
        const float *of = p->rows[kind] + at * 3;
        if (of[1] != (float)row->pos || of[2] != (float)row->seq) continue;
        s->at = at + 1;
        return s->data + at * row_size;
    }
    return NULL;
}

static qn_status run_patch(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    (void)err;
    for (int64_t r = 0; r < v->n_rows; r++) {
        const float *from = find_row(slot->tap->state, slot->point->rows, slot->state, &v->rows[r], v->row_size);
        if (!from) continue;
        memcpy(v->data + r * v->row_size, from, (size_t)v->row_size * sizeof *from);
        v->changed = true;
    }
    return QN_OK;
}

const qn_tap_type qn__tap_patch = {.changes = true, .open = open_patch, .match = match_patch, .run = run_patch};
