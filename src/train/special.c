/* SPDX-License-Identifier: MIT */
/* src/train/special.c -- the vocabulary that is trained, and texts that spell its special tokens. */
#include "train/train.h"
#include <string.h>

static size_t special_at(const qn_special_token *special, int32_t n, const char *text, size_t left)
{
    size_t best = 0;
    for (int32_t i = 0; i < n; i++) {
        const size_t len = strlen(special[i].text);
        if (len > best && len <= left && memcmp(text, special[i].text, len) == 0) best = len;
    }
    return best;
}

size_t qn__special_next(const qn_special_token *special, int32_t n_special, const qn_gguf_str *text, size_t from,
                        size_t *len)
{
    bool first[256] = {false};
    for (int32_t i = 0; i < n_special; i++) first[(unsigned char)special[i].text[0]] = true;
    *len = 0;
    for (size_t at = from; n_special && at < text->len; at++)
        if (first[(unsigned char)text->data[at]] &&
            (*len = special_at(special, n_special, text->data + at, text->len - at)) > 0)
            return at;
    return text->len;
}

qn_status qn__special_add(const qn_special_token *special, int32_t n_special, const qn_gguf_str *text,
                          qn_bpe_trainer *bpe, qn_error *err)
{
    for (size_t at = 0; at < text->len;) {
        size_t len;
        const size_t end = qn__special_next(special, n_special, text, at, &len);
        if (end > at) QN_TRY(qn_bpe_trainer_add(bpe, text->data + at, end - at, err));
        at = end + len;
    }
    return QN_OK;
}

qn_status qn__special_tokenize(const qn_special_token *special, int32_t n_special, const qn_gguf_str *text,
                               const qn_tokenizer *tok, qn_token **out, size_t *n, qn_error *err)
{
    size_t len, count = 0, cap = 0;
    qn_span *plain = NULL;
    if (n_special == 0)
        return qn_tokenize(tok, text->data, text->len, &(qn_tokenize_options){.no_bos = true, .no_special = true}, out,
                           n, err);
    for (size_t at = 0; at < text->len; at += len) {
        const size_t end = qn__special_next(special, n_special, text, at, &len);
        if (count == cap) {
            cap = cap ? 2 * cap : 64;
            qn_span *more = qn__realloc(plain, cap * sizeof *more);
            if (!more) {
                qn__free(plain);
                return QN_FAIL_NOMEM(err, cap * sizeof *more);
            }
            plain = more;
        }
        if (end > at) plain[count++] = (qn_span){at, end};
        at = end;
    }
    const qn_tokenize_options options = {.no_bos = true, .plain = plain, .n_plain = count};
    const qn_status status = qn_tokenize(tok, text->data, text->len, &options, out, n, err);
    qn__free(plain);
    return status;
}

/* No space before the text: a prompt's first word is then the same token as that word at the beginning of a line. */
qn_bpe_train_options qn__train_vocab_options(const qn_train_source *s)
{
    return (qn_bpe_train_options){.n_tokens = s->o->n_vocab,
                                  .whole_text = true,
                                  .no_space_prefix = true,
                                  .split_digits = s->o->split_digits,
                                  .special = s->corpus->special,
                                  .n_special = s->corpus->n_special,
                                  .eos = s->corpus->eos};
}

qn_status qn__train_vocab_run(qn_train_data *d, const qn_train_source *s, qn_bpe_trainer *bpe, qn_error *err)
{
    QN_TRY(qn_bpe_trainer_run(bpe, &d->vocab, err));
    if (s->exact_vocab && d->vocab->n_tokens < s->o->n_vocab)
        return QN_FAIL(err, invalid, "vocab-size is %d; the text has pairs of pieces for %d tokens", s->o->n_vocab,
                       d->vocab->n_tokens);
    return QN_OK;
}
