/* SPDX-License-Identifier: MIT */
/* src/train/data.c -- the text: a part held out, a vocabulary of the rest, tokens, and the windows of an epoch in their
 * order. The tokens are a ring: an epoch begins at a random place in it, so that windows are cut differently each time.
 */
#include "base/str.h"
#include "train/train.h"
#include <string.h>

uint64_t qn__train_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Below n, the small excess of low numbers (n / 2^64) ignored. */
static int64_t below(uint64_t *state, int64_t n)
{
    return (int64_t)((unsigned __int128)qn__train_random(state) * (uint64_t)n >> 64);
}

/* Where the part that is held out begins: after the end of a line where there is one, never inside a character. */
static size_t cut_of(const qn_gguf_str *text, double fraction)
{
    if (fraction <= 0) return text->len;
    size_t cut = (size_t)((double)text->len * (1 - fraction));
    if (cut >= text->len) return text->len;
    const char *line = memchr(text->data + cut, '\n', text->len - cut);
    if (line && line + 1 < text->data + text->len) return (size_t)(line + 1 - text->data);
    while (cut < text->len && ((unsigned char)text->data[cut] & 0xc0) == 0x80) cut++;
    return cut;
}

/* Appends a text's tokens to an array. */
static qn_status append(const qn_train_source *s, const qn_tokenizer *tok, const qn_gguf_str *text, qn_token end,
                        qn_token **to, int64_t *n, qn_error *err)
{
    qn_token *ids;
    size_t count;
    QN_TRY(qn__special_tokenize(s->corpus->special, s->corpus->n_special, text, tok, &ids, &count, err));
    const size_t bytes = ((size_t)*n + count + 1) * sizeof **to;
    qn_token *more = qn__realloc(*to, bytes);
    if (more) {
        *to = more;
        memcpy(more + *n, ids, count * sizeof *ids);
        *n += (int64_t)count;
        if (end != QN_TOKEN_NONE) more[(*n)++] = end;
    }
    qn_free(ids);
    return more ? QN_OK : QN_FAIL_NOMEM(err, bytes);
}

static qn_status train_vocab(qn_train_data *d, const qn_train_source *s, qn_error *err)
{
    const qn_train_corpus *c = s->corpus;
    const qn_bpe_train_options options = qn__train_vocab_options(s);
    qn_bpe_trainer *bpe = NULL;
    QN_TRY(qn_bpe_trainer_create(&options, &bpe, err));
    qn_status status = QN_OK;
    for (size_t i = 0; i < c->n_texts && status == QN_OK; i++) {
        const qn_gguf_str part = {c->texts[i].data, cut_of(&c->texts[i], (double)s->o->eval_fraction)};
        status = qn__special_add(c->special, c->n_special, &part, bpe, err);
    }
    if (status == QN_OK) status = qn__train_vocab_run(d, s, bpe, err);
    qn_bpe_trainer_destroy(bpe);
    return status;
}

static qn_status tokenize(qn_train_data *d, const qn_train_source *s, const qn_tokenizer *tok, qn_error *err)
{
    const qn_token bos = qn_tokenizer_bos(tok), eos = qn_tokenizer_eos(tok);
    qn_status status = QN_OK;
    d->n_vocab = qn_tokenizer_n_tokens(tok);
    d->begin = bos != QN_TOKEN_NONE ? bos : eos != QN_TOKEN_NONE ? eos : 0;
    for (size_t i = 0; i < s->corpus->n_texts && status == QN_OK; i++) {
        const qn_gguf_str *text = &s->corpus->texts[i];
        const size_t cut = cut_of(text, (double)s->o->eval_fraction), rest = text->len - cut;
        if (cut == 0) continue;
        status = append(s, tok, &(qn_gguf_str){text->data, cut}, eos, &d->tokens, &d->n_tokens, err);
        if (status == QN_OK && rest > 0)
            status = append(s, tok, &(qn_gguf_str){text->data + cut, rest}, QN_TOKEN_NONE, &d->held, &d->n_held, err);
        d->n_bytes += (int64_t)cut;
        d->n_held_bytes += (int64_t)rest;
    }
    return status;
}

static qn_status load_texts(qn_train_data *d, const qn_train_source *s, qn_error *err)
{
    qn_tokenizer *own = NULL;
    if (!s->tok) {
        QN_TRY(train_vocab(d, s, err));
        QN_TRY(qn_vocab_tokenizer(d->vocab, &own, err));
    }
    const qn_status status = tokenize(d, s, s->tok ? s->tok : own, err);
    qn_tokenizer_destroy(own);
    QN_TRY(status);
    if (d->n_tokens < d->n_ctx)
        return QN_FAIL(err, invalid, "the text has %lld tokens to learn from; a window (ctx) is %d",
                       (long long)d->n_tokens, d->n_ctx);
    d->n_windows = d->n_tokens / d->n_ctx;
    d->n_held_windows = (d->n_held + d->n_ctx - 1) / d->n_ctx;
    d->text_hash = qn__hash(QN_HASH_INIT, d->tokens, (size_t)d->n_tokens * sizeof *d->tokens);
    d->text_hash = qn__hash(d->text_hash, d->held, (size_t)d->n_held * sizeof *d->held);
    return QN_OK;
}

static uint64_t hash_text(uint64_t h, const char *text) { return text ? qn__hash(h, text, strlen(text) + 1) : h; }

static uint64_t hash_special(uint64_t h, const qn_train_corpus *c)
{
    h = hash_text(h, c->eos);
    for (int32_t i = 0; i < c->n_special; i++) h = hash_text(h, c->special[i].text);
    return h;
}

qn_status qn__train_data_init(qn_train_data *d, const qn_train_source *s, qn_error *err)
{
    const qn_train_corpus *c = s->corpus;
    *d = (qn_train_data){.n_ctx = s->o->n_ctx, .seed = s->o->seed, .epoch = -1, .chat = c->chat};
    size_t bytes = 0;
    for (size_t i = 0; i < c->n_texts; i++) bytes += c->texts[i].len;
    if (bytes == 0) return QN_FAIL(err, invalid, "the text is empty");
    QN_TRY(c->chat ? qn__conversations_load(d, s, err) : load_texts(d, s, err));
    /* what the file that comes out holds beside weights */
    d->template_hash = hash_text(QN_HASH_INIT, c->chat_template);
    d->special_hash = hash_special(QN_HASH_INIT, c);
    d->joined_hash = hash_special(hash_text(d->text_hash, c->chat_template), c);
    if (d->n_windows > INT32_MAX)
        return QN_FAIL(err, limit, "the text has %lld windows; at most %d are possible", (long long)d->n_windows,
                       INT32_MAX);
    d->order = qn__alloc((size_t)d->n_windows * sizeof *d->order);
    return d->order ? QN_OK : QN_FAIL_NOMEM(err, (size_t)d->n_windows * sizeof *d->order);
}

void qn__train_data_deinit(qn_train_data *d)
{
    qn_vocab_destroy(d->vocab);
    qn__free(d->tokens);
    qn__free(d->held);
    qn__free(d->order);
    qn__rows_deinit(&d->rows);
    qn__rows_deinit(&d->held_rows);
}

static void begin_epoch(qn_train_data *d, int64_t epoch)
{
    uint64_t state = d->seed ^ (uint64_t)(epoch + 1) * UINT64_C(0xd6e8feb86659fd93);
    d->epoch = epoch;
    d->offset = below(&state, d->chat ? d->n_windows : d->n_tokens);
    for (int64_t i = 0; i < d->n_windows; i++) d->order[i] = (int32_t)i;
    for (int64_t i = d->n_windows - 1; i > 0; i--) {
        const int64_t k = below(&state, i + 1);
        const int32_t other = d->order[k];
        d->order[k] = d->order[i];
        d->order[i] = other;
    }
}

/* Which of its epoch's windows the index-th since the beginning is. */
static int64_t shuffled(qn_train_data *d, int64_t index)
{
    if (index / d->n_windows != d->epoch) begin_epoch(d, index / d->n_windows);
    return d->order[index % d->n_windows];
}

static void copy_row(const qn_train_rows *rows, int64_t row, int32_t n_ctx, int32_t *ids, int32_t *targets,
                     int32_t *part)
{
    const size_t at = (size_t)row * (size_t)n_ctx, bytes = (size_t)n_ctx * sizeof *ids;
    memcpy(ids, rows->ids + at, bytes);
    memcpy(targets, rows->targets + at, bytes);
    memcpy(part, rows->part + at, bytes);
}

void qn__train_window(qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets, int32_t *part)
{
    const int64_t window = shuffled(d, index);
    if (d->chat) {
        copy_row(&d->rows, window, d->n_ctx, ids, targets, part);
        return;
    }
    int64_t at = (d->offset + window * d->n_ctx) % d->n_tokens;
    for (int32_t i = 0; i < d->n_ctx; i++) {
        targets[i] = d->tokens[at];
        ids[i] = i ? targets[i - 1] : d->begin;
        if (++at == d->n_tokens) at = 0;
    }
}

double qn__train_learnt(qn_train_data *d, int64_t index, int64_t n)
{
    if (!d->chat) return (double)n * d->n_ctx;
    double sum = 0;
    for (int64_t i = index; i < index + n; i++) sum += d->rows.n_learnt[shuffled(d, i)];
    return sum;
}

void qn__held_window(const qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets, int32_t *part)
{
    if (d->chat && index < d->held_rows.n) {
        copy_row(&d->held_rows, index, d->n_ctx, ids, targets, part);
        return;
    }
    const int64_t at = index * d->n_ctx, left = !d->chat && at < d->n_held ? d->n_held - at : 0,
                  n = left < d->n_ctx ? left : d->n_ctx;
    for (int32_t i = 0; i < d->n_ctx; i++) {
        targets[i] = i < n ? d->held[at + i] : -1;
        ids[i] = i == 0 || i > n ? d->begin : targets[i - 1];
        if (d->chat) part[i] = -1;
    }
}
