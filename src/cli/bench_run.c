/* SPDX-License-Identifier: MIT */
/* src/cli/bench_run.c -- one test: a session of the right size, its cache filled to the depth, one warm-up, timed
 * repetitions. Only the decodes are timed: filling, and taking out again what a repetition added, is not. */
#include "cli/bench.h"
#include <stdlib.h>
#include <string.h>

#define FILL_CHUNK 512
#define MAX_CELLS  (1 << 28)

typedef struct bench_run_state {
    qn_session *session;
    const bench_row *row;
    int32_t *tokens; /* [n_tokens] any ids of the vocabulary: what they are changes no speed */
    int32_t n_tokens;
    qn_batch_item *items;     /* [batch] */
    qn_embedding_text *texts; /* [batch] of an encoder, else NULL */
    float *embeddings;
    qn_error err;
} bench_run_state;

/* ---- preparing ---- */

static bool make_tokens(bench_run_state *s, int32_t n_vocab)
{
    uint64_t x = 0x9e3779b97f4a7c15u;
    s->n_tokens = s->row->prompt && s->row->n > FILL_CHUNK ? s->row->n : FILL_CHUNK;
    s->tokens = malloc((size_t)s->n_tokens * sizeof(*s->tokens));
    s->items = malloc((size_t)s->row->batch * sizeof(*s->items));
    if (!s->tokens || !s->items) return false;
    for (int32_t i = 0; i < s->n_tokens; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        s->tokens[i] = (int32_t)(x % (uint64_t)n_vocab);
    }
    return true;
}

/* Positions 0 .. depth-1 of sequence 0 are computed; the others get cells of their own with the same content: a shift
 * by one moves what is shared into copies, and what stands at a position changes no speed. */
static int fill(bench_run_state *s)
{
    const int32_t depth = s->row->depth;
    qn_status status = QN_OK;
    for (int32_t at = 0; at < depth && status == QN_OK; at += FILL_CHUNK) {
        if (cli_interrupted()) return CLI_INTERRUPTED;
        status = qn_session_feed(s->session, 0, s->tokens, (size_t)(depth - at < FILL_CHUNK ? depth - at : FILL_CHUNK),
                                 &s->err);
    }
    for (int32_t seq = 1; seq < s->row->batch && depth > 0 && status == QN_OK; seq++) {
        status = qn_session_seq_copy(s->session, 0, seq, 0, -1, &s->err);
        if (status == QN_OK) status = qn_session_seq_shift(s->session, seq, 0, -1, 1, &s->err);
    }
    return status == QN_OK ? CLI_OK : cli_fail_error(&s->err);
}

static int32_t start_of(const bench_run_state *s, int32_t seq)
{
    return s->row->depth + (s->row->depth > 0 && seq > 0); /* after fill's shift */
}

/* ---- one repetition ---- */

static int compute_prompt(bench_run_state *s)
{
    return qn_session_feed(s->session, 0, s->tokens, (size_t)s->row->n, &s->err) == QN_OK ? CLI_OK
                                                                                          : cli_fail_error(&s->err);
}

static int compute_texts(bench_run_state *s)
{
    return qn_session_embeddings(s->session, s->texts, s->row->batch, NULL, s->embeddings, &s->err) == QN_OK
               ? CLI_OK
               : cli_fail_error(&s->err);
}

static int compute_steps(bench_run_state *s)
{
    const int32_t batch = s->row->batch;
    for (int32_t step = 0; step < s->row->n; step++) {
        if (cli_interrupted()) return CLI_INTERRUPTED;
        for (int32_t seq = 0; seq < batch; seq++) {
            const int32_t token = s->tokens[(step * (int64_t)batch + seq) % s->n_tokens];
            s->items[seq] = (qn_batch_item){token, start_of(s, seq) + step, seq, true};
        }
        if (qn_session_decode(s->session, s->items, batch, &s->err) != QN_OK) return cli_fail_error(&s->err);
    }
    return CLI_OK;
}

/* What a window has forgotten is filled in anew. */
static int back_to_depth(bench_run_state *s)
{
    qn_status status = QN_OK;
    for (int32_t seq = 0; seq < s->row->batch && status == QN_OK; seq++)
        status = qn_session_seq_remove(s->session, seq, start_of(s, seq), -1, &s->err);
    if (status != QN_STATUS_state) return status == QN_OK ? CLI_OK : cli_fail_error(&s->err);
    for (int32_t seq = 0; seq < s->row->batch; seq++)
        if (qn_session_seq_remove(s->session, seq, 0, -1, &s->err) != QN_OK) return cli_fail_error(&s->err);
    return fill(s);
}

static uint64_t waited_ns(void)
{
    qn_metrics metrics;
    qn_metrics_snapshot(&metrics);
    return metrics.device_wait_ns;
}

/* host: of the time, what the host did not wait for a device, of a step or of a prompt. */
static int repeat(bench_run_state *s, double *seconds, double *host)
{
    const uint64_t waited = waited_ns();
    const int64_t start = cli_now_ns();
    const int status = s->texts ? compute_texts(s) : s->row->prompt ? compute_prompt(s) : compute_steps(s);
    *seconds = (double)(cli_now_ns() - start) * 1e-9;
    *host = (*seconds - (double)(waited_ns() - waited) * 1e-9) / (s->row->prompt ? 1 : s->row->n);
    if (status != CLI_OK || s->texts) return status;
    const int back = back_to_depth(s);
    return back == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : back;
}

/* ---- statistics ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of sorted values, between neighbours by their distance. */
static double quantile(const double *v, int n, double q)
{
    const double at = q * (n - 1);
    const int i = (int)at;
    return i + 1 < n ? v[i] + (at - i) * (v[i + 1] - v[i]) : v[n - 1];
}

static int measure(bench_run_state *s, int repetitions, cli_progress *progress, uint64_t *done, uint64_t total,
                   bench_row *row)
{
    double warm_up = 0, *speeds = malloc(2 * (size_t)repetitions * sizeof(*speeds));
    double *hosts = speeds ? speeds + repetitions : NULL;
    if (!speeds) return cli_no_memory("out of memory");
    int status = repeat(s, &warm_up, &hosts[0]);
    cli_progress_step(progress, ++*done, total);
    for (int i = 0; i < repetitions && status == CLI_OK; i++) {
        double seconds = 0;
        status = repeat(s, &seconds, &hosts[i]);
        speeds[i] = (double)row->n * row->batch / (seconds > 0 ? seconds : 1e-9);
        cli_progress_step(progress, ++*done, total);
    }
    if (status == CLI_OK) {
        qsort(speeds, (size_t)repetitions, sizeof(*speeds), compare);
        qsort(hosts, (size_t)repetitions, sizeof(*hosts), compare);
        row->host_us = 1e6 * quantile(hosts, repetitions, 0.5);
        row->tokens_per_second = quantile(speeds, repetitions, 0.5);
        row->spread =
            (quantile(speeds, repetitions, 0.75) - quantile(speeds, repetitions, 0.25)) / row->tokens_per_second;
    }
    free(speeds);
    return status;
}

/* ---- the test ---- */

/* As `quern embed` has it: batches of 512 tokens, or of one text. */
static qn_session_options options_of(const bench_row *row, const qn_engine_info *info, int32_t cells)
{
    if (!info->encoder) return (qn_session_options){.n_ctx = cells, .n_seq = row->batch};
    const int32_t least = cells < FILL_CHUNK ? cells : FILL_CHUNK, batch = row->n > least ? row->n : least;
    const int32_t n_seq = batch / row->n < row->batch ? batch / row->n : row->batch;
    return (qn_session_options){.n_ctx = batch, .n_batch = batch, .n_seq = n_seq, .embeddings = true};
}

static bool make_texts(bench_run_state *s, const qn_engine_info *info)
{
    s->texts = malloc((size_t)s->row->batch * sizeof(*s->texts));
    s->embeddings = malloc((size_t)s->row->batch * (size_t)info->n_embd_out * sizeof(*s->embeddings));
    if (!s->texts || !s->embeddings) return false;
    for (int32_t i = 0; i < s->row->batch; i++) s->texts[i] = (qn_embedding_text){s->tokens, s->row->n};
    return true;
}

/* What a chunk or a step costs, and the last chunk of a prompt. */
static int get_costs(bench_run_state *s, bench_row *row)
{
    const int32_t whole = row->at_once          ? row->at_once * row->n
                          : !row->prompt        ? row->batch
                          : row->n < row->chunk ? row->n
                                                : row->chunk;
    const int32_t rest = row->prompt && !row->at_once ? row->n % row->chunk : 0;
    if (qn_session_get_cost(s->session, whole, row->prompt ? 1 : whole, &row->whole, &s->err) != QN_OK ||
        qn_session_get_cost(s->session, rest ? rest : whole, 1, &row->rest, &s->err) != QN_OK)
        return cli_fail_error(&s->err);
    return CLI_OK;
}

int bench_run(qn_engine *engine, const cli_model_options *m, int repetitions, cli_progress *progress, uint64_t *done,
              uint64_t total, bench_row *row)
{
    qn_engine_info info;
    qn_metrics metrics;
    qn_engine_get_info(engine, &info);
    const int64_t cells = ((int64_t)row->depth + row->n) * row->batch;
    if (cells > MAX_CELLS)
        return cli_fail("%s: %d sequences of depth %d and %d tokens more need %lld cells; %d are possible", row->model,
                        row->batch, row->depth, row->n, (long long)cells, MAX_CELLS);
    if (info.encoder && row->depth > 0) return cli_fail("%s: an encoder has no depth", row->model);
    bench_run_state s = {.row = row};
    qn_metrics_reset(); /* the peak becomes what the engine holds */
    const qn_session_options options = options_of(row, &info, (int32_t)cells);
    int status = cli_create_session(engine, m, options, &s.session);
    if (status == CLI_OK) {
        row->chunk = qn_session_n_batch(s.session);
        row->load_seconds = info.load_seconds;
        row->load_gb_s = info.load_gb_s;
        row->at_once = info.encoder ? options.n_seq : 0;
        status = get_costs(&s, row);
    }
    if (status == CLI_OK) {
        status = make_tokens(&s, info.n_vocab) && (!info.encoder || make_texts(&s, &info))
                     ? fill(&s)
                     : cli_fail("out of memory for %d tokens; close other programs, or ask for less", row->n);
    }
    if (status == CLI_OK) status = measure(&s, repetitions, progress, done, total, row);
    qn_metrics_snapshot(&metrics);
    row->peak_bytes = metrics.peak_bytes;
    free(s.tokens);
    free(s.items);
    free(s.texts);
    free(s.embeddings);
    qn_session_destroy(s.session);
    return status;
}
