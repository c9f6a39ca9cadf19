/* SPDX-License-Identifier: MIT */
/* src/serve/metrics.c -- GET /metrics, as Prometheus reads it: requests, models, and what the library counts. Counters
 * of a model go on when it is loaded anew. */
#include "serve/routes.h"
#include <string.h>

/* What a label's value may not hold as it is. */
static void put_label(text *t, const char *value)
{
    for (; *value; value++) {
        if (*value == '\\' || *value == '"') text_puts(t, "\\");
        if (*value == '\n')
            text_puts(t, "\\n");
        else
            text_put(t, value, 1);
    }
}

static void head(text *t, const char *name, const char *kind, const char *help)
{
    text_printf(t, "# HELP quern_%s %s\n# TYPE quern_%s %s\n", name, help, name, kind);
}

static void plain(text *t, const char *name, const char *kind, const char *help, double value)
{
    head(t, name, kind, help);
    text_printf(t, "quern_%s %.17g\n", name, value);
}

/* ---- of each model ---- */

typedef struct row {
    text *t;
    const char *name;
    size_t offset; /* in qn_batcher_stats */
    enum { ROW_int32, ROW_uint64, ROW_double } type;
} row;

static double value_at(const qn_batcher_stats *b, const row *r)
{
    const void *at = (const char *)b + r->offset;
    return r->type == ROW_int32    ? *(const int32_t *)at
           : r->type == ROW_uint64 ? (double)*(const uint64_t *)at
                                   : *(const double *)at;
}

static void put_row(model *m, void *ctx)
{
    const row *r = ctx;
    qn_batcher_stats b = {0};
    if (m->state == MODEL_loaded && m->batcher) qn_batcher_get_stats(m->batcher, &b);
    if (m->state != MODEL_loaded && !m->past.n_requests) return; /* nothing to tell yet */
#define ADD(field) b.field += m->past.field;
    MODEL_COUNTERS(ADD)
#undef ADD
    text_printf(r->t, "quern_%s{model=\"", r->name);
    put_label(r->t, m->name);
    text_printf(r->t, "\"} %.17g\n", value_at(&b, r));
}

static void put_rows(text *t, server *s)
{
#define TYPE_OF(field) \
    _Generic(((qn_batcher_stats *)0)->field, int32_t : ROW_int32, uint64_t : ROW_uint64, double : ROW_double)
#define ROW(field, name, kind, help) \
    head(t, name, kind, help); \
    models_each(s, put_row, &(row){t, name, offsetof(qn_batcher_stats, field), TYPE_OF(field)});
#define COUNTER(field, help) ROW(field, #field "_total", "counter", help)
#define GAUGE(field, help)   ROW(field, #field, "gauge", help)
    COUNTER(n_requests, "answers asked of the model")
    COUNTER(n_ended, "of these, answers that ended, in whatever way")
    COUNTER(tokens_read, "tokens of prompts that were computed")
    COUNTER(tokens_reused, "tokens of prompts that were found in the cache")
    COUNTER(tokens_read_again, "tokens computed again after a stream was set back, or the context was full")
    COUNTER(tokens_generated, "tokens written")
    COUNTER(n_steps, "steps of the executor")
    COUNTER(n_stopped, "of these, steps that were stopped since somebody came or left")
    COUNTER(n_set_backs, "times that a stream gave its cells back")
    COUNTER(n_context_shifts, "times that an answer filled the context and went on")
    COUNTER(n_evictions, "cells of kept prefixes given up for room")
    COUNTER(busy_seconds, "seconds spent in steps")
    GAUGE(n_streams, "answers being written")
    GAUGE(n_queued, "answers that wait for a stream")
    GAUGE(n_paused, "answers that wait for a slow reader")
    GAUGE(n_cells, "cells of the context")
    GAUGE(n_stream_cells, "of these, cells of answers under way alone")
    GAUGE(n_shared_cells, "cells of answers under way that are kept for others too")
    GAUGE(n_cached_cells, "cells kept for others, which no answer uses now")
    GAUGE(n_free_cells, "cells that nothing holds")
    GAUGE(n_cached, "conversations kept")
    GAUGE(decode_seconds, "what a step without prompts takes, moving average")
    ROW(step_seconds, "step_under_way_seconds", "gauge", "how long the step under way has taken; 0: none")
#undef COUNTER
#undef GAUGE
#undef ROW
}

/* ---- histograms ---- */

typedef struct series {
    text *t;
    const char *name;
    size_t offset; /* of the histogram in a model */
} series;

static void label_of(const model *m, text *label)
{
    text_puts(label, "model=\"");
    put_label(label, m->name);
    text_puts(label, "\"");
}

static void put_series(model *m, void *ctx)
{
    const series *r = ctx;
    text label = {0};
    pthread_mutex_lock(&m->server->events_lock);
    const histogram h = *(const histogram *)((const char *)m + r->offset);
    pthread_mutex_unlock(&m->server->events_lock);
    if (m->state != MODEL_loaded && !m->past.n_requests) return;
    label_of(m, &label);
    if (!label.failed) histogram_put(r->t, r->name, label.data, &h);
    text_deinit(&label);
}

/* The executor's own buckets. */
static void put_steps(model *m, void *ctx)
{
    double bounds[QN_BATCH_STEP_BUCKETS];
    qn_batcher_stats b = {0};
    text label = {0};
    if (m->state == MODEL_loaded && m->batcher) qn_batcher_get_stats(m->batcher, &b);
    if (m->state != MODEL_loaded && !m->past.n_requests) return;
    for (int i = 0; i < QN_BATCH_STEP_BUCKETS; i++) {
        bounds[i] = (double)(1 << i) / 4096;
        b.steps_within[i] += m->past.steps_within[i];
    }
    label_of(m, &label);
    if (!label.failed)
        histogram_put_buckets(ctx, "step_seconds", label.data, bounds, b.steps_within, QN_BATCH_STEP_BUCKETS,
                              b.n_steps + m->past.n_steps, b.busy_seconds + m->past.busy_seconds);
    text_deinit(&label);
}

static void put_histograms(text *t, server *s)
{
#define SERIES(field, name, help) \
    head(t, name, "histogram", help); \
    models_each(s, put_series, &(series){t, name, offsetof(model, field)});
    SERIES(first_token, "time_to_first_token_seconds",
           "from a request to its first token, loading and waiting included")
    SERIES(between, "time_between_tokens_seconds", "between two tokens of an answer")
    SERIES(queue, "queue_seconds", "how long an answer waited for a stream")
#undef SERIES
    head(t, "step_seconds", "histogram", "steps of the executor");
    models_each(s, put_steps, t);
}

static void put_bytes(model *m, void *ctx)
{
    text *t = ctx;
    if (m->state != MODEL_loaded) return;
    text_puts(t, "quern_model_bytes{model=\"");
    put_label(t, m->name);
    text_printf(t, "\"} %.17g\n", (double)atomic_load(&m->bytes));
}

static void count_waiting(model *m, void *ctx)
{
    for (const exchange *x = m->first; x; x = x->next_job) ++*(int *)ctx;
}

/* What the library counts for the whole process. */
static void put_library(text *t)
{
    char *all;
    if (qn_metrics_print(QN_METRICS_prometheus, &all, NULL) != QN_OK) {
        t->failed = true;
        return;
    }
    text_puts(t, all);
    qn_free(all);
}

void serve_metrics(exchange *x)
{
    server *s = x->server;
    int n_waiting = 0;
    text t = {0};
    models_each(s, count_waiting, &n_waiting);
    pthread_mutex_lock(&s->lock);
    const double n_exchanges = (double)s->n_exchanges;
    pthread_mutex_unlock(&s->lock);
    plain(&t, "http_requests_total", "counter", "HTTP requests", (double)atomic_load(&s->n_served));
    plain(&t, "http_requests", "gauge", "HTTP requests under way", n_exchanges);
    plain(&t, "http_requests_waiting", "gauge", "of these, requests that wait for a model to be loaded", n_waiting);
    plain(&t, "http_body_bytes", "gauge", "bodies in memory and what was made of them, and what of them was announced",
          (double)atomic_load(&s->body_bytes));
    head(&t, "model_bytes", "gauge", "what a loaded model takes, weights and sessions");
    models_each(s, put_bytes, &t);
    put_rows(&t, s);
    put_histograms(&t, s);
    put_library(&t);
    exchange_reply_type(x, 200, "text/plain; version=0.0.4", &t);
}
