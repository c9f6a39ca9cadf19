/* SPDX-License-Identifier: MIT */
/* src/engine/tap_stats.c -- stats, hash, trace, record and check: what values are like. */
#include "engine/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- stats ---- */

enum { TOP = 4 };
typedef struct stats {
    uint64_t n_rows, n, n_nan, n_inf, n_zero;
    double min, max, sum, squares; /* of the finite ones */
    double *channels;              /* [row_size] sums of squares; NULL where there are no rows */
} stats;

static qn_status match_stats(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err)
{
    (void)graph, (void)node;
    const size_t bytes = (size_t)slot->point->row_size * sizeof(double);
    stats *s = slot->state = qn__arena_alloc(&tap->taps->arena, sizeof *s);
    if (!s) return QN_FAIL_NOMEM(err, sizeof *s);
    s->min = (double)INFINITY;
    s->max = -(double)INFINITY;
    if (slot->point->rows == QN_ROWS_none) return QN_OK;
    s->channels = qn__arena_alloc(&tap->taps->arena, bytes + 1);
    return s->channels ? QN_OK : QN_FAIL_NOMEM(err, bytes);
}

static void add_row(stats *s, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)x[i];
        if (!isfinite(a)) {
            if (isnan(a))
                s->n_nan++;
            else
                s->n_inf++;
            continue;
        }
        if (a < s->min) s->min = a;
        if (a > s->max) s->max = a;
        s->n_zero += a == 0;
        s->sum += a;
        s->squares += a * a;
        if (s->channels) s->channels[i] += a * a;
    }
    s->n += (uint64_t)n;
    s->n_rows++;
}

static qn_status run_stats(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    (void)err;
    for (int64_t r = 0; r < v->n_rows; r++) add_row(slot->state, v->data + r * v->row_size, v->row_size);
    return QN_OK;
}

/* The greatest first; returns how many. */
static int top_channels(const stats *s, int64_t n, int64_t top[TOP])
{
    int n_top = 0;
    for (int64_t i = 0; s->channels && i < n; i++) {
        int at = n_top < TOP ? n_top++ : TOP;
        for (; at > 0 && s->channels[i] > s->channels[top[at - 1]]; at--)
            if (at < TOP) top[at] = top[at - 1];
        if (at < TOP) top[at] = i;
    }
    return n_top;
}

static void print_stats(const qn_tap_slot *slot, const char *comma, const char *line, qn_str *out)
{
    const stats *s = slot->state;
    int64_t top[TOP];
    const uint64_t finite = s->n - s->n_nan - s->n_inf;
    const double n = finite ? (double)finite : 1;
    qn__str_printf(out, "%s%s%llu%s", slot->point->name, comma, (unsigned long long)s->n_rows, comma);
    qn__str_printf(out, "%.6g%s%.6g%s%.6g%s%.6g%s", finite ? s->min : (double)NAN, comma, finite ? s->max : (double)NAN,
                   comma, s->sum / n, comma, sqrt(s->squares / n), comma);
    qn__str_printf(out, "%llu%s%llu%s%llu%s", (unsigned long long)s->n_nan, comma, (unsigned long long)s->n_inf, comma,
                   (unsigned long long)s->n_zero, comma);
    const int n_top = top_channels(s, slot->point->row_size, top);
    for (int i = 0; i < n_top; i++)
        qn__str_printf(out, "%s%lld:%.4g", i ? " " : "", (long long)top[i],
                       sqrt(s->channels[top[i]] / (double)(s->n_rows ? s->n_rows : 1)));
    qn__str_puts(out, line);
}

static void all_stats(const qn_tap *tap, const char *comma, qn_str *out)
{
    static const char *const heads[] = {"name", "rows", "min", "max", "mean", "rms", "nan", "inf", "zero", "channels"};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) qn__str_printf(out, "%s%s", i ? comma : "", heads[i]);
    qn__str_putc(out, '\n');
    for (const qn_tap_slot *slot = tap->slots; slot; slot = slot->next_of_tap) print_stats(slot, comma, "\n", out);
}

static void report_stats(const qn_tap *tap, qn_str *out) { all_stats(tap, "  ", out); }

static qn_status end_stats(qn_tap *tap, qn_error *err)
{
    qn_str text = {0};
    if (!*tap->arg) return QN_OK;
    all_stats(tap, ",", &text);
    const qn_status status = qn__tap_write_text(tap->arg, &text, err);
    qn__str_deinit(&text);
    return status;
}

const qn_tap_type qn__tap_stats = {.match = match_stats, .run = run_stats, .end = end_stats, .report = report_stats};

/* ---- hash ---- */

typedef struct hashed {
    uint64_t all, n_rows;
} hashed;

static qn_status open_hash(qn_tap *tap, qn_error *err)
{
    qn_str *lines = tap->state = qn__arena_alloc(&tap->taps->arena, sizeof *lines);
    if (!lines) return QN_FAIL_NOMEM(err, sizeof *lines);
    if (*tap->arg) qn__str_puts(lines, "name,token,position,sequence,hash\n");
    return lines->failed ? QN_FAIL_NOMEM(err, 64) : QN_OK;
}

static qn_status match_hash(qn_tap *tap, qn_tap_slot *slot, const qn_graph *graph, const qn_node *node, qn_error *err)
{
    (void)graph, (void)node;
    hashed *h = slot->state = qn__arena_alloc(&tap->taps->arena, sizeof *h);
    if (!h) return QN_FAIL_NOMEM(err, sizeof *h);
    h->all = QN_HASH_INIT;
    return QN_OK;
}

/* The whole does not depend on how rows came in steps. */
static qn_status run_hash(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    hashed *h = slot->state;
    qn_str *lines = slot->tap->state;
    for (int64_t r = 0; r < v->n_rows; r++, h->n_rows++) {
        const float *row = v->data + r * v->row_size;
        const size_t bytes = (size_t)v->row_size * sizeof *row;
        h->all = qn__hash(h->all, row, bytes);
        if (!*slot->tap->arg) continue;
        const qn_tap_row of = v->rows ? v->rows[r] : (qn_tap_row){-1, -1, -1};
        qn__str_printf(lines, "%s,%d,%d,%d,%016llx\n", v->name, of.token, of.pos, of.seq,
                       (unsigned long long)qn__hash(QN_HASH_INIT, row, bytes));
    }
    return lines->failed ? QN_FAIL(err, nomem, "out of memory for the hashes of %s", v->name) : QN_OK;
}

static void report_hash(const qn_tap *tap, qn_str *out)
{
    for (const qn_tap_slot *slot = tap->slots; slot; slot = slot->next_of_tap) {
        const hashed *h = slot->state;
        qn__str_printf(out, "%s  %llu rows  %016llx\n", slot->point->name, (unsigned long long)h->n_rows,
                       (unsigned long long)h->all);
    }
}

static qn_status end_hash(qn_tap *tap, qn_error *err)
{
    return *tap->arg ? qn__tap_write_text(tap->arg, tap->state, err) : QN_OK;
}

static void close_hash(qn_tap *tap)
{
    if (tap->state) qn__str_deinit(tap->state);
}

const qn_tap_type qn__tap_hash = {.open = open_hash,
                                  .match = match_hash,
                                  .run = run_hash,
                                  .end = end_hash,
                                  .close = close_hash,
                                  .report = report_hash};

/* ---- trace ---- */

/* Of a value without rows one of the whole. */
static qn_status run_trace(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    enum { PART = 64 };
    int32_t items[PART], n = 0;
    uint64_t hashes[PART];
    const qn_taps *t = slot->tap->taps;
    (void)err;
    for (int64_t r = 0; r < v->n_rows; r++) {
        items[n] = v->rows ? t->picked_items[r] : -1;
        hashes[n++] = qn__hash(QN_HASH_INIT, v->data + r * v->row_size, (size_t)v->row_size * sizeof *v->data);
        if (n < PART && r + 1 < v->n_rows) continue;
        qn__exec_record_hashes(t->session->running, t->at, items, hashes, n);
        n = 0;
    }
    return QN_OK;
}

const qn_tap_type qn__tap_trace = {.run = run_trace};

/* ---- record ---- */

static qn_trace_value look_at(const float *x, int64_t n)
{
    qn_trace_value v = {.min = NAN, .max = NAN, .mean = NAN, .rms = NAN, .channel = -1};
    double min = (double)INFINITY, max = -(double)INFINITY, sum = 0, squares = 0, most = -1;
    int64_t n_finite = 0;
    for (int64_t i = 0; i < n; i++) {
        const double a = (double)x[i];
        if (!isfinite(a)) {
            v.n_nan += isnan(a) != 0;
            continue;
        }
        n_finite++;
        if (a < min) min = a;
        if (a > max) max = a;
        sum += a;
        squares += a * a;
        v.n_zero += a == 0;
        if (fabs(a) > most) {
            most = fabs(a);
            v.channel = (int32_t)i;
        }
    }
    v.n_inf = (uint32_t)(n - n_finite) - v.n_nan;
    if (n_finite == 0) return v;
    v.min = (float)min;
    v.max = (float)max;
    v.mean = (float)(sum / (double)n_finite);
    v.rms = (float)sqrt(squares / (double)n_finite);
    return v;
}

/* Of a value without rows one of the whole. */
static qn_status run_record(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    enum { PART = 32 };
    qn_trace_value rows[PART];
    int32_t n = 0;
    const qn_taps *t = slot->tap->taps;
    (void)err;
    for (int64_t r = 0; r < v->n_rows; r++) {
        rows[n] = look_at(v->data + r * v->row_size, v->row_size);
        rows[n++].item = v->rows ? t->picked_items[r] : -1;
        if (n < PART && r + 1 < v->n_rows) continue;
        qn__exec_record_values(t->session->running, t->at, rows, n, v->row_size);
        n = 0;
    }
    return QN_OK;
}

const qn_tap_type qn__tap_record = {.run = run_record};

/* ---- check ---- */

/* Scores of experts are -infinity outside the best groups: so they are not chosen. */
static bool may_be_lowest(const qn_tap_point *p) { return !strcmp(p->base, "ffn_moe_probs_masked"); }

static qn_status found(const qn_tap_slot *slot, const qn_tap_value *v, int64_t r, int64_t i, qn_error *err)
{
    const float x = v->data[r * v->row_size + i];
    const char *what = isnan(x) ? "NaN" : x > 0 ? "infinity" : "-infinity";
    char layer[24] = "";
    if (slot->point->layer >= 0) snprintf(layer, sizeof layer, " (layer %d)", slot->point->layer);
    if (!v->rows) return QN_FAIL(err, invalid, "%s%s: element %lld is %s", v->name, layer, (long long)i, what);
    return QN_FAIL(err, invalid, "%s%s: element %lld is %s, for token %d at position %d of sequence %d", v->name, layer,
                   (long long)i, what, v->rows[r].token, v->rows[r].pos, v->rows[r].seq);
}

static qn_status run_check(qn_tap_slot *slot, qn_tap_value *v, qn_error *err)
{
    for (int64_t i = 0; i < v->n_rows * v->row_size; i++) {
        if (isfinite(v->data[i]) || (v->data[i] == -INFINITY && may_be_lowest(slot->point))) continue;
        return found(slot, v, i / v->row_size, i % v->row_size, err);
    }
    return QN_OK;
}

const qn_tap_type qn__tap_check = {.run = run_check};
