/* SPDX-License-Identifier: MIT */
/* src/engine/perplexity.c -- a text in chunks, what the model says of each token that counts, and what comes of that.
 * Rows of logits are read on the team, each into a place of its own; sums are formed in the order of the tokens, so
 * that they don't depend on threads. */
#include "engine/perplexity.h"
#include "engine/engine.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_CTX = 512, LEAST_CTX = 4 };
/* In a file what is less likely than this is not known, only that it is (SPAN in perplexity_file.c): llama-perplexity
 * leaves it out of the divergence, and so do we. */
static const double LEAST_LN = -16;

/* What a row says of the token that came. */
typedef struct row_score {
    double nll, base_nll, kld, p_difference;
    bool same_top;
} row_score;

typedef struct sums {
    double nll, nll2, base, base2, both, kld, kld2, p, p2, p4, same;
    int64_t n;
} sums;

typedef struct run {
    const qn_perplexity_options *o;
    qn_session *session, *base;
    qn_logprob_file file; /* of o->file */
    const qn_token *tokens;
    qn_token *own_tokens; /* of a file; NULL: the caller's */
    int32_t n_ctx, n_chunks, n_vocab, first, n_rows;
    qn_pool_user *pool;
    qn_batch_item *items;
    row_score *scores;         /* [n_rows] of a chunk */
    uint8_t *packed;           /* rows of a decode; NULL: nothing is saved */
    float *kld, *p_difference; /* [n_chunks, n_rows]; NULL: nothing is compared with */
    qn_writer *writer;
    sums sums;
    qn_perplexity_result *out;
    int32_t chunk, row, n; /* rows that are read now: row .. row + n of the chunk */
} run;

/* ---- a row ---- */

typedef struct row_norm {
    double max, lse; /* the largest logit, and ln of the sum of all exponentials */
    int32_t top;     /* the first of the largest */
} row_norm;

static row_norm norm_of(const float *x, int32_t n)
{
    row_norm r = {.max = (double)x[0]};
    double sum = 0;
    for (int32_t i = 1; i < n; i++)
        if ((double)x[i] > r.max) {
            r.max = (double)x[i];
            r.top = i;
        }
    for (int32_t i = 0; i < n; i++) sum += exp((double)x[i] - r.max);
    r.lse = r.max + log(sum);
    return r;
}

static void set_base(row_score *s, double ln_base, bool same_top)
{
    s->base_nll = -ln_base;
    s->p_difference = exp(-s->nll) - exp(ln_base);
    s->same_top = same_top;
}

static void compare_logits(const float *x, const row_norm *norm, const float *base, int32_t n, qn_token next,
                           row_score *s)
{
    const row_norm b = norm_of(base, n);
    for (int32_t i = 0; i < n; i++) {
        const double ln_q = (double)base[i] - b.lse, q = exp(ln_q);
        if (q > 0) s->kld += q * (ln_q - ((double)x[i] - norm->lse));
    }
    set_base(s, (double)base[next] - b.lse, b.top == norm->top);
}

static void compare_file(const float *x, const row_norm *norm, const qn_logprob_row *base, int32_t n, qn_token next,
                         row_score *s)
{
    int32_t top = 0;
    for (int32_t i = 0; i < n; i++) {
        const double ln_q = qn__logprob(base, i);
        if (qn__logprob_code(base, i) > qn__logprob_code(base, top)) top = i;
        if (ln_q > LEAST_LN) s->kld += exp(ln_q) * (ln_q - ((double)x[i] - norm->lse));
    }
    set_base(s, qn__logprob(base, next), top == norm->top);
}

static void read_row(const run *r, int32_t i)
{
    const int32_t row = r->row + i;
    const float *x = qn_session_logits(r->session, i);
    const qn_token next = r->tokens[(int64_t)r->chunk * r->n_ctx + r->first + row + 1];
    const row_norm norm = norm_of(x, r->n_vocab);
    row_score *s = &r->scores[row];
    *s = (row_score){.nll = norm.lse - (double)x[next]};
    if (r->packed)
        qn__logprob_pack(x, r->n_vocab, norm.max, norm.lse,
                         r->packed + (uint64_t)i * qn__logprob_row_bytes(r->n_vocab));
    if (r->base) {
        compare_logits(x, &norm, qn_session_logits(r->base, i), r->n_vocab, next, s);
    } else if (r->o->file) {
        const qn_logprob_row base = qn__logprob_file_row(&r->file, r->chunk, row);
        compare_file(x, &norm, &base, r->n_vocab, next, s);
    }
}

static void read_some(void *ctx, int member, int n_members)
{
    const run *r = ctx;
    (void)member;
    (void)n_members;
    for (int64_t begin, end; qn__team_next(qn__pool_team(r->pool), r->n, 1, &begin, &end);)
        for (; begin < end; begin++) read_row(r, (int32_t)begin);
}

/* ---- a chunk ---- */

static qn_token token_at(const run *r, int32_t i)
{
    const qn_tokenizer *tok = qn_engine_tokenizer(qn_session_engine(r->session));
    return i == 0 && qn_tokenizer_add_bos(tok) ? qn_tokenizer_bos(tok) : r->tokens[(int64_t)r->chunk * r->n_ctx + i];
}

static int32_t least_of(const run *r, int32_t of_session, int32_t of_base)
{
    return r->base && of_base < of_session ? of_base : of_session;
}

/* How many tokens from `at` on are computed at once: no more than a batch, and no more rows than there is room for. */
static int32_t part(const run *r, int32_t at)
{
    const int32_t n_batch = least_of(r, r->session->shape.n_batch, r->base ? r->base->shape.n_batch : 0),
                  n_logits = least_of(r, r->session->shape.n_logits, r->base ? r->base->shape.n_logits : 0),
                  left = r->n_ctx - 1 - at, before = at < r->first ? r->first - at : 0,
                  n = left < n_batch ? left : n_batch;
    return n - before > n_logits ? before + n_logits : n;
}

static qn_status run_part(run *r, int32_t at, int32_t n, qn_error *err)
{
    for (int32_t i = 0; i < n; i++) r->items[i] = (qn_batch_item){token_at(r, at + i), at + i, 0, at + i >= r->first};
    QN_TRY(qn_session_decode(r->session, r->items, n, err));
    if (r->base) QN_TRY(qn_session_decode(r->base, r->items, n, err));
    if (at + n <= r->first) return QN_OK;
    r->row = at < r->first ? 0 : at - r->first;
    r->n = at + n - r->first - r->row;
    qn__pool_run(r->pool, read_some, r);
    if (r->packed) qn__writer_put(r->writer, r->packed, (size_t)r->n * (size_t)qn__logprob_row_bytes(r->n_vocab));
    return QN_OK;
}

static qn_status empty(const run *r, qn_error *err)
{
    QN_TRY(qn_session_seq_remove(r->session, 0, 0, -1, err));
    return r->base ? qn_session_seq_remove(r->base, 0, 0, -1, err) : QN_OK;
}

static qn_status run_chunk(run *r, qn_error *err)
{
    for (int32_t at = 0, n; at < r->n_ctx - 1; at += n) {
        n = part(r, at);
        QN_TRY(run_part(r, at, n, err));
    }
    return empty(r, err);
}

static void add_chunk(run *r)
{
    sums *t = &r->sums;
    const int64_t at = (int64_t)r->chunk * r->n_rows;
    for (int32_t i = 0; i < r->n_rows; i++) {
        const row_score *s = &r->scores[i];
        const double p2 = s->p_difference * s->p_difference;
        t->nll += s->nll;
        t->nll2 += s->nll * s->nll;
        t->base += s->base_nll;
        t->base2 += s->base_nll * s->base_nll;
        t->both += s->nll * s->base_nll;
        t->kld += s->kld;
        t->kld2 += s->kld * s->kld;
        t->p += s->p_difference;
        t->p2 += p2;
        t->p4 += p2 * p2;
        t->same += s->same_top;
        if (!r->kld) continue;
        r->kld[at + i] = (float)s->kld;
        r->p_difference[at + i] = (float)s->p_difference;
    }
    t->n += r->n_rows;
}

/* ---- what comes of it ---- */

/* Variance, or covariance, of the means of n values. */
static double of_means(double product, double a, double b, int64_t n)
{
    return n > 1 ? (product / (double)n - a * b) / (double)(n - 1) : 0;
}

static double root(double x) { return x > 0 ? sqrt(x) : 0; }

static qn_measured mean_of(double sum, double squares, int64_t n)
{
    const double mean = sum / (double)n;
    return (qn_measured){mean, root(of_means(squares, mean, mean, n))};
}

static qn_measured exp_of(qn_measured x)
{
    const double value = exp(x.value);
    return (qn_measured){value, value * x.error};
}

/* Of a - b, where their means vary together by `cov`. */
static qn_measured minus(qn_measured a, qn_measured b, double cov)
{
    return (qn_measured){a.value - b.value, root(a.error * a.error + b.error * b.error - 2 * cov)};
}

static qn_measured root_of(qn_measured x)
{
    const double value = root(x.value);
    return (qn_measured){value, value > 0 ? x.error / (2 * value) : 0};
}

static void conclude(run *r)
{
    const sums *t = &r->sums;
    qn_perplexity_result *out = r->out;
    out->n_chunks_done = r->chunk + 1;
    out->n_tokens = t->n;
    out->nll = mean_of(t->nll, t->nll2, t->n);
    out->ppl = exp_of(out->nll);
    if (!out->compared) return;
    out->base_nll = mean_of(t->base, t->base2, t->n);
    out->base_ppl = exp_of(out->base_nll);
    const double cov = of_means(t->both, out->nll.value, out->base_nll.value, t->n),
                 errors = out->nll.error * out->base_nll.error;
    out->ln_ratio = minus(out->nll, out->base_nll, cov);
    out->ratio = exp_of(out->ln_ratio);
    out->difference = minus(out->ppl, out->base_ppl, out->ppl.value * out->base_ppl.value * cov);
    out->correlation = errors > 0 ? cov / errors : 0;
    out->kld = mean_of(t->kld, t->kld2, t->n);
    out->p_difference = mean_of(t->p, t->p2, t->n);
    out->p_rms = root_of(mean_of(t->p2, t->p4, t->n));
    out->same_top = mean_of(t->same, t->same, t->n);
}

/* What is no number comes last. */
static int by_value(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

static void quantiles(float *x, int64_t n, double *out)
{
    static const double part[] = {
#define QN_QUANTILE_PART(name, part) part,
        QN_QUANTILE_ROWS(QN_QUANTILE_PART)
#undef QN_QUANTILE_PART
    };
    qsort(x, (size_t)n, sizeof *x, by_value);
    for (int q = 0; q < QN_QUANTILE_COUNT; q++) {
        const double at = part[q] * (double)(n - 1), over = at - floor(at);
        const int64_t i = (int64_t)at;
        out[q] = over > 0 ? (1 - over) * (double)x[i] + over * (double)x[i + 1] : (double)x[i];
    }
}

/* ---- the whole ---- */

static qn_status check_session(const qn_session *s, const char *which, const run *r, qn_error *err)
{
    const qn_engine_info *info = &s->engine->info;
    QN_TRY(qn__session_idle(s, err));
    if (info->encoder || s->shape.embeddings)
        return QN_FAIL(err, unsupported, "perplexity needs logits, which %s%s does not have", which,
                       info->encoder ? " (an encoder)" : "'s session");
    if (s->engine->model->sees_ahead)
        return QN_FAIL(err, unsupported, "tokens of %s see what comes after them: it foretells nothing", which);
    if (info->n_vocab != r->n_vocab)
        return QN_FAIL(err, format, "the base has a vocabulary of %d tokens, the model one of %d", info->n_vocab,
                       r->n_vocab);
    if (r->n_ctx - 1 > s->shape.n_ctx)
        return QN_FAIL(err, limit, "chunks have %d tokens, the context of %s %d", r->n_ctx, which, s->shape.n_ctx);
    if (qn_session_seq_len(s, 0) > 0) return QN_FAIL(err, state, "sequence 0 of %s is not empty", which);
    return QN_OK;
}

static qn_status take_file(run *r, qn_error *err)
{
    const qn_perplexity_file_info *f = &r->file.info;
    if (f->n_vocab != r->n_vocab)
        return QN_FAIL(err, format, "%s is of a vocabulary of %d tokens, the model has one of %d", r->o->file,
                       f->n_vocab, r->n_vocab);
    if (r->o->n_ctx && r->o->n_ctx != f->n_ctx)
        return QN_FAIL(err, invalid, "chunks of %d tokens are asked for, %s has chunks of %d", r->o->n_ctx, r->o->file,
                       f->n_ctx);
    const int64_t n = (int64_t)f->n_ctx * f->n_chunks; /* as many are in the file */
    r->own_tokens = qn__alloc((size_t)n * sizeof *r->own_tokens);
    if (!r->own_tokens) return QN_FAIL_NOMEM(err, (size_t)n * sizeof *r->own_tokens);
    for (int64_t i = 0; i < n; i++) r->own_tokens[i] = qn__logprob_file_token(&r->file, i);
    r->tokens = r->own_tokens;
    r->n_ctx = f->n_ctx;
    r->n_chunks = f->n_chunks;
    return QN_OK;
}

static qn_status take_tokens(run *r, const qn_token *tokens, size_t n, qn_error *err)
{
    r->n_ctx = r->o->n_ctx ? r->o->n_ctx : DEFAULT_CTX;
    if (n < (size_t)r->n_ctx)
        return QN_FAIL(err, invalid, "the text has %zu tokens, a chunk %d; shorter chunks do with less", n, r->n_ctx);
    const size_t n_chunks = n / (size_t)r->n_ctx;
    r->n_chunks = n_chunks < INT32_MAX ? (int32_t)n_chunks : INT32_MAX;
    r->tokens = tokens;
    return QN_OK;
}

static qn_status take(run *r, const qn_token *tokens, size_t n, qn_error *err)
{
    const qn_perplexity_options *o = r->o;
    if (o->n_ctx && o->n_ctx < LEAST_CTX)
        return QN_FAIL(err, invalid, "chunks of %d tokens; %d at least are needed", o->n_ctx, LEAST_CTX);
    if (o->n_chunks < 0) return QN_FAIL(err, invalid, "n_chunks %d is negative", o->n_chunks);
    if (o->base && o->file) return QN_FAIL(err, invalid, "both a base and a file of log-probabilities");
    if (o->base == r->session) return QN_FAIL(err, invalid, "the base is the session itself");
    if (!o->file && !tokens) return QN_FAIL(err, invalid, "no tokens");
    if (o->file && tokens) return QN_FAIL(err, invalid, "tokens are in %s; there can be none beside it", o->file);
    QN_TRY(o->file ? take_file(r, err) : take_tokens(r, tokens, n, err));
    if (o->n_chunks && o->n_chunks < r->n_chunks) r->n_chunks = o->n_chunks;
    for (int64_t i = 0; i < (int64_t)r->n_chunks * r->n_ctx; i++)
        QN_TRY(qn__session_check_token(r->session, i, r->tokens[i], err));
    QN_TRY(check_session(r->session, "the model", r, err));
    if (r->base) QN_TRY(check_session(r->base, "the base", r, err));
    r->first = qn__chunk_first(r->n_ctx);
    r->n_rows = qn__chunk_rows(r->n_ctx);
    return QN_OK;
}

static bool alloc(void *to, uint64_t n, size_t size)
{
    void *p = n <= SIZE_MAX / size ? qn__alloc((size_t)n * size) : NULL;
    memcpy(to, &p, sizeof p);
    return p != NULL;
}

static qn_status make_room(run *r, qn_error *err)
{
    const uint64_t n = (uint64_t)r->n_chunks * (uint64_t)r->n_rows;
    const int32_t n_logits = r->session->shape.n_logits, at_once = n_logits < r->n_rows ? n_logits : r->n_rows;
    bool ok = alloc(&r->items, (uint64_t)r->session->shape.n_batch, sizeof *r->items) &&
              alloc(&r->scores, (uint64_t)r->n_rows, sizeof *r->scores);
    if (ok && r->out->compared) ok = alloc(&r->kld, n, sizeof *r->kld) && alloc(&r->p_difference, n, sizeof *r->kld);
    if (ok && r->o->save) ok = alloc(&r->packed, (uint64_t)at_once * qn__logprob_row_bytes(r->n_vocab), 1);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory for what %llu tokens get", (unsigned long long)n);
}

static qn_status run_all(run *r, qn_error *err)
{
    const qn_perplexity_options *o = r->o;
    for (r->chunk = 0; r->chunk < r->n_chunks; r->chunk++) {
        QN_TRY(run_chunk(r, err));
        add_chunk(r);
        conclude(r);
        if (r->writer && qn__writer_failed(r->writer)) return QN_OK; /* commit says why */
        if (o->each && !o->each(o->ctx, r->out))
            return QN_FAIL(err, cancelled, "cancelled after %d chunks", r->chunk + 1);
    }
    if (!r->out->compared) return QN_OK;
    quantiles(r->kld, r->sums.n, r->out->kld_at);
    quantiles(r->p_difference, r->sums.n, r->out->p_difference_at);
    return QN_OK;
}

static qn_status start(run *r, const qn_token *tokens, size_t n, qn_error *err)
{
    QN_TRY(take(r, tokens, n, err));
    r->out->n_chunks = r->n_chunks;
    r->out->compared = r->base || r->o->file;
    QN_TRY(make_room(r, err));
    QN_TRY(qn__pool_join(r->session->engine->info.n_threads, &r->pool, err));
    if (!r->o->save) return QN_OK;
    QN_TRY(qn__writer_open(r->o->save, &r->writer, err));
    qn__logprob_write_header(r->writer, &(qn_perplexity_file_info){r->n_ctx, r->n_chunks, r->n_vocab}, r->tokens);
    return QN_OK;
}

qn_status qn_perplexity(qn_session *session, const qn_token *tokens, size_t n, const qn_perplexity_options *options,
                        qn_perplexity_result *out, qn_error *err)
{
    static const qn_perplexity_options defaults;
    const qn_perplexity_options *o = options ? options : &defaults;
    run r = {.o = o, .session = session, .base = o->base, .n_vocab = session->engine->info.n_vocab, .out = out};
    *out = (qn_perplexity_result){0};
    if (o->file) QN_TRY(qn__logprob_file_open(o->file, &r.file, err));
    qn_status status = start(&r, tokens, n, err);
    if (status == QN_OK) {
        status = run_all(&r, err);
        if (status != QN_OK) (void)empty(&r, NULL);
    }
    if (status == QN_OK && r.writer)
        status = qn__writer_commit(r.writer, err);
    else
        qn__writer_abort(r.writer);
    qn__pool_leave(r.pool);
    if (o->file) qn__logprob_file_close(&r.file);
    void *const all[] = {r.own_tokens, r.items, r.scores, r.packed, r.kld, r.p_difference};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) qn__free(all[i]);
    return status;
}
