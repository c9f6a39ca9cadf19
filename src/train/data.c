/* SPDX-License-Identifier: MIT */
/* src/train/data.c -- the text: a part held out, a vocabulary of the rest, tokens, and the windows of an epoch in their
 * order. The tokens are a ring: an epoch begins at a random place in it, so that windows are cut differently each time.
 */
#include "base/str.h"
#include "train/train.h"
#include <string.h>

/* clang-format off */
#define WHOLE_TEXT (qn_tokenize_options){.no_bos = true, .no_special = true}
/* clang-format on */

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
static qn_status append(const qn_tokenizer *tok, const char *text, size_t len, qn_token end, qn_token **to, int64_t *n,
                        qn_error *err)
{
    qn_token *ids;
    size_t count;
    QN_TRY(qn_tokenize(tok, text, len, &WHOLE_TEXT, &ids, &count, err));
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

static qn_status train_vocab(qn_train_data *d, const qn_train_options *o, bool exact, const qn_gguf_str *texts,
                             size_t n_texts, qn_error *err)
{
    qn_bpe_trainer *bpe = NULL;
    /* No space before the text: a prompt's first word is then the same token as that word at the beginning of a line.
     */
    const qn_bpe_train_options options = {.n_tokens = o->n_vocab, .whole_text = true, .no_space_prefix = true};
    QN_TRY(qn_bpe_trainer_create(&options, &bpe, err));
    qn_status status = QN_OK;
    for (size_t i = 0; i < n_texts && status == QN_OK; i++)
        status = qn_bpe_trainer_add(bpe, texts[i].data, cut_of(&texts[i], (double)o->eval_fraction), err);
    if (status == QN_OK) status = qn_bpe_trainer_run(bpe, &d->vocab, err);
    qn_bpe_trainer_destroy(bpe);
    if (status == QN_OK && exact && d->vocab->n_tokens < o->n_vocab)
        status = QN_FAIL(err, invalid, "vocab-size is %d; the text has pairs of pieces for %d tokens", o->n_vocab,
                         d->vocab->n_tokens);
    return status;
}

static qn_status tokenize(qn_train_data *d, const qn_train_options *o, const qn_tokenizer *tok,
                          const qn_gguf_str *texts, size_t n_texts, qn_error *err)
{
    const qn_token bos = qn_tokenizer_bos(tok), eos = qn_tokenizer_eos(tok);
    qn_status status = QN_OK;
    d->n_vocab = qn_tokenizer_n_tokens(tok);
    d->begin = bos != QN_TOKEN_NONE ? bos : eos != QN_TOKEN_NONE ? eos : 0;
    for (size_t i = 0; i < n_texts && status == QN_OK; i++) {
        const size_t cut = cut_of(&texts[i], (double)o->eval_fraction), rest = texts[i].len - cut;
        if (cut == 0) continue;
        status = append(tok, texts[i].data, cut, eos, &d->tokens, &d->n_tokens, err);
        if (status == QN_OK && rest > 0)
            status = append(tok, texts[i].data + cut, rest, QN_TOKEN_NONE, &d->held, &d->n_held, err);
        d->n_bytes += (int64_t)cut;
        d->n_held_bytes += (int64_t)rest;
    }
    return status;
}

static qn_status tokenize_own(qn_train_data *d, const qn_train_options *o, bool exact, const qn_gguf_str *texts,
                              size_t n_texts, qn_error *err)
{
    qn_tokenizer *tok = NULL;
    QN_TRY(train_vocab(d, o, exact, texts, n_texts, err));
    QN_TRY(qn_vocab_tokenizer(d->vocab, &tok, err));
    const qn_status status = tokenize(d, o, tok, texts, n_texts, err);
    qn_tokenizer_destroy(tok);
    return status;
}

qn_status qn__train_data_init(qn_train_data *d, const qn_train_options *o, bool exact_vocab, const qn_tokenizer *tok,
                              const qn_gguf_str *texts, size_t n_texts, qn_error *err)
{
    *d = (qn_train_data){.n_ctx = o->n_ctx, .seed = o->seed, .epoch = -1};
    size_t bytes = 0;
    for (size_t i = 0; i < n_texts; i++) bytes += texts[i].len;
    if (bytes == 0) return QN_FAIL(err, invalid, "the text is empty");
    if (tok)
        QN_TRY(tokenize(d, o, tok, texts, n_texts, err));
    else
        QN_TRY(tokenize_own(d, o, exact_vocab, texts, n_texts, err));
    if (d->n_tokens < o->n_ctx)
        return QN_FAIL(err, invalid, "the text has %lld tokens to learn from; a window (ctx) is %d",
                       (long long)d->n_tokens, o->n_ctx);
    d->n_windows = d->n_tokens / o->n_ctx;
    if (d->n_windows > INT32_MAX)
        return QN_FAIL(err, limit, "the text has %lld windows; at most %d are possible", (long long)d->n_windows,
                       INT32_MAX);
    d->order = qn__alloc((size_t)d->n_windows * sizeof *d->order);
    if (!d->order) return QN_FAIL_NOMEM(err, (size_t)d->n_windows * sizeof *d->order);
    d->hash = qn__hash(QN_HASH_INIT, d->tokens, (size_t)d->n_tokens * sizeof *d->tokens);
    d->hash = qn__hash(d->hash, d->held, (size_t)d->n_held * sizeof *d->held);
    return QN_OK;
}

void qn__train_data_deinit(qn_train_data *d)
{
    qn_vocab_destroy(d->vocab);
    qn__free(d->tokens);
    qn__free(d->held);
    qn__free(d->order);
}

static void begin_epoch(qn_train_data *d, int64_t epoch)
{
    uint64_t state = d->seed ^ (uint64_t)(epoch + 1) * UINT64_C(0xd6e8feb86659fd93);
    d->epoch = epoch;
    d->offset = below(&state, d->n_tokens);
    for (int64_t i = 0; i < d->n_windows; i++) d->order[i] = (int32_t)i;
    for (int64_t i = d->n_windows - 1; i > 0; i--) {
        const int64_t k = below(&state, i + 1);
        const int32_t other = d->order[k];
        d->order[k] = d->order[i];
        d->order[i] = other;
    }
}

void qn__train_window(qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets)
{
    if (index / d->n_windows != d->epoch) begin_epoch(d, index / d->n_windows);
    int64_t at = (d->offset + (int64_t)d->order[index % d->n_windows] * d->n_ctx) % d->n_tokens;
    for (int32_t i = 0; i < d->n_ctx; i++) {
        targets[i] = d->tokens[at];
        ids[i] = i ? targets[i - 1] : d->begin;
        if (++at == d->n_tokens) at = 0;
    }
}

int64_t qn__held_window(const qn_train_data *d, int64_t index, int32_t *ids, int32_t *targets)
{
    const int64_t at = index * d->n_ctx, left = at < d->n_held ? d->n_held - at : 0,
                  n = left < d->n_ctx ? left : d->n_ctx;
    for (int32_t i = 0; i < d->n_ctx; i++) {
        targets[i] = i < n ? d->held[at + i] : -1;
        ids[i] = i == 0 || i > n ? d->begin : targets[i - 1];
    }
    return n;
}
