/* SPDX-License-Identifier: MIT */
/* src/train/conversations.c -- lines of conversations to rows: rendered, a vocabulary of what was rendered, tokens,
 * which of them the assistant says, and the longest cut. */
#include "base/str.h"
#include "train/train.h"
#include <stdio.h>
#include <string.h>

typedef struct line_samples {
    qn_chat_sample *item;
    size_t n;
    bool held;
} line_samples;

typedef struct loader {
    qn_train_data *d;
    const qn_train_source *s;
    const qn_tokenizer *tok;
    char bos[256], eos[256]; /* what templates see of them */
    line_samples *lines;
    size_t n_lines;
    qn_train_talk *talks[2]; /* to learn from, held out */
    int64_t n_talks[2], cap[2];
    int64_t n_said[2], n_bytes[2]; /* by the assistant */
    int64_t n_ended;               /* turns that a token ends at which generation stops */
    qn_error *err;
} loader;

/* ---- lines ---- */

static bool is_blank(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", text[i]) || !text[i]) return false;
    return true;
}

/* The next line that is not empty from *at on; false at the end. *number counts all lines. */
static bool next_line(const qn_gguf_str *text, size_t *at, size_t *number, qn_gguf_str *line)
{
    while (*at < text->len) {
        const char *from = text->data + *at, *end = memchr(from, '\n', text->len - *at);
        const size_t n = end ? (size_t)(end - from) : text->len - *at;
        *at += n + 1;
        ++*number;
        *line = (qn_gguf_str){from, n};
        if (!is_blank(from, n)) return true;
    }
    return false;
}

static size_t count_lines(const qn_gguf_str *text)
{
    size_t n = 0, number = 0;
    qn_gguf_str line;
    for (size_t at = 0; next_line(text, &at, &number, &line);) n++;
    return n;
}

static void name_of(const loader *l, size_t text, char *out, size_t size)
{
    const char *const *names = l->s->corpus->names;
    if (names)
        snprintf(out, size, "%.200s", names[text]);
    else
        snprintf(out, size, "text %zu", text + 1);
}

/* The samples of every line of a text; the last lines are held out. */
static qn_status load_text(loader *l, size_t index)
{
    qn_gguf_str whole = l->s->corpus->texts[index];
    const qn_gguf_str *text = &whole;
    const qn_chat_options options = {.bos = l->bos, .eos = l->eos};
    if (whole.len >= 3 && memcmp(whole.data, "\xef\xbb\xbf", 3) == 0) whole.data += 3, whole.len -= 3; /* a BOM */
    const size_t n = count_lines(text);
    const size_t learnt = n - (size_t)((double)n * (double)l->s->o->eval_fraction);
    size_t at = 0, number = 0;
    char name[256];
    qn_gguf_str line;
    line_samples *more = qn__realloc(l->lines, (l->n_lines + n + 1) * sizeof *more);
    if (!more) return QN_FAIL_NOMEM(l->err, (l->n_lines + n + 1) * sizeof *more);
    l->lines = more;
    for (size_t i = 0; i < n && next_line(text, &at, &number, &line); i++) {
        line_samples *s = &l->lines[l->n_lines];
        *s = (line_samples){.held = i >= learnt};
        const qn_status status =
            qn_chat_samples_create(l->s->shape, line.data, line.len, &options, &s->item, &s->n, l->err);
        if (status == QN_STATUS_nomem) return status;
        name_of(l, index, name, sizeof name);
        if (status != QN_OK) return qn__prefix(l->err, status, "%s:%zu", name, number);
        l->n_lines++;
        *(s->held ? &l->d->n_held_conversations : &l->d->n_conversations) += 1;
    }
    return QN_OK;
}

/* ---- the vocabulary ---- */

static qn_status train_vocab(loader *l)
{
    static const char *const own[] = {"<unk>", "<s>", "</s>"};
    const qn_train_corpus *c = l->s->corpus;
    const qn_bpe_train_options options = qn__train_vocab_options(l->s);
    qn_bpe_trainer *bpe = NULL;
    /* cut at the tokens that every vocabulary has, too: a template may write them */
    const int32_t n = c->n_special + 3;
    qn_special_token *cuts = qn__calloc((size_t)n, sizeof *cuts);
    if (!cuts) return QN_FAIL_NOMEM(l->err, (size_t)n * sizeof *cuts);
    for (int32_t i = 0; i < n; i++) cuts[i] = i < 3 ? (qn_special_token){own[i], QN_TOKEN_control} : c->special[i - 3];
    qn_status status = qn_bpe_trainer_create(&options, &bpe, l->err);
    for (size_t i = 0; i < l->n_lines && status == QN_OK; i++) {
        const line_samples *s = &l->lines[i];
        for (size_t k = 0; k < s->n && !s->held && status == QN_OK; k++) {
            const qn_gguf_str text = {s->item[k].prompt.text, s->item[k].prompt.len};
            status = qn__special_add(cuts, n, &text, bpe, l->err);
        }
    }
    if (status == QN_OK) status = qn__train_vocab_run(l->d, l->s, bpe, l->err);
    qn_bpe_trainer_destroy(bpe);
    qn__free(cuts);
    return status;
}

/* ---- tokens ---- */

/* How many of the ids are those of the text up to `end`, too: what a tokenizer makes of a beginning may differ in its
 * last tokens from what it makes of the whole. */
static qn_status tokens_until(const loader *l, const qn_prompt *p, size_t end, const qn_token *ids, size_t n,
                              size_t *out)
{
    qn_prompt part = {.text = p->text, .len = end, .plain = p->plain, .n_plain = 0};
    size_t cut = 0;
    while (part.n_plain < p->n_plain && p->plain[part.n_plain].begin < end) part.n_plain++;
    if (part.n_plain) { /* the last may reach beyond */
        cut = p->plain[part.n_plain - 1].end;
        if (cut > end) p->plain[part.n_plain - 1].end = end;
    }
    qn_token *some;
    size_t n_some, k = 0;
    const qn_status status = qn_prompt_tokenize(&part, l->tok, &some, &n_some, l->err);
    if (part.n_plain) p->plain[part.n_plain - 1].end = cut;
    if (status != QN_OK) return status;
    while (k < n && k < n_some && ids[k] == some[k]) k++;
    qn_free(some);
    *out = k;
    return QN_OK;
}

/* Of what the template puts behind the end of a turn nothing is said. */
static size_t last_end(const loader *l, const qn_token *ids, size_t begin, size_t end)
{
    for (size_t i = end; i-- > begin;)
        if (qn_tokenizer_is_eog(l->tok, ids[i])) return i + 1;
    return end;
}

static qn_status count_bytes(loader *l, const qn_token *ids, size_t n, int which)
{
    char *text;
    size_t len;
    QN_TRY(qn_detokenize(l->tok, ids, n, &(qn_detokenize_options){.show_special = true}, &text, &len, l->err));
    qn_free(text);
    l->n_bytes[which] += (int64_t)len;
    return QN_OK;
}

/* Marks what is said in turns that fit, and gives the length of what is kept: up to the last of them. 0: none. */
static qn_status mark(loader *l, const qn_chat_sample *s, const qn_token *ids, size_t n, uint8_t *said, int which,
                      size_t *kept)
{
    const size_t most = (size_t)l->d->n_ctx + 1;
    *kept = 0;
    for (size_t i = 0; i < s->n_said; i++) {
        size_t begin, end = n;
        QN_TRY(tokens_until(l, &s->prompt, s->said[i].begin, ids, n, &begin));
        if (s->said[i].end < s->prompt.len) QN_TRY(tokens_until(l, &s->prompt, s->said[i].end, ids, n, &end));
        end = last_end(l, ids, begin, end);
        if (begin == 0) begin = 1; /* nothing comes before the first token */
        if (end > most) {
            l->d->n_cut += *kept > 0;
            l->d->n_left_out += *kept == 0;
            return QN_OK;
        }
        if (end <= begin) continue;
        memset(said + begin, 1, end - begin);
        l->n_said[which] += (int64_t)(end - begin);
        l->n_ended += qn_tokenizer_is_eog(l->tok, ids[end - 1]);
        QN_TRY(count_bytes(l, ids + begin, end - begin, which));
        *kept = end;
    }
    return QN_OK;
}

static qn_status add_sample(loader *l, const qn_chat_sample *s, int which)
{
    qn_token *ids;
    size_t n, kept = 0;
    QN_TRY(qn_prompt_tokenize(&s->prompt, l->tok, &ids, &n, l->err));
    uint8_t *said = qn__calloc(n + 1, 1);
    qn_status status = said ? mark(l, s, ids, n, said, which, &kept) : QN_FAIL_NOMEM(l->err, n + 1);
    if (status == QN_OK && kept > 0 && l->n_talks[which] == l->cap[which]) {
        const int64_t cap = l->cap[which] ? 2 * l->cap[which] : 256;
        qn_train_talk *more = qn__realloc(l->talks[which], (size_t)cap * sizeof *more);
        if (!more) status = QN_FAIL_NOMEM(l->err, (size_t)cap * sizeof *more);
        if (more) l->talks[which] = more, l->cap[which] = cap;
    }
    if (status != QN_OK || kept == 0) {
        qn_free(ids);
        qn__free(said);
        return status;
    }
    l->talks[which][l->n_talks[which]++] = (qn_train_talk){ids, said, (int32_t)kept};
    if (!which) l->d->n_fed += (int64_t)kept - 1;
    return QN_OK;
}

static qn_status add_samples(loader *l)
{
    for (size_t i = 0; i < l->n_lines; i++)
        for (size_t k = 0; k < l->lines[i].n; k++) QN_TRY(add_sample(l, &l->lines[i].item[k], l->lines[i].held));
    return QN_OK;
}

/* ---- all of it ---- */

static void piece_of(const qn_tokenizer *tok, qn_token id, char *out, size_t size)
{
    size_t len = 0;
    const char *piece = id == QN_TOKEN_NONE ? NULL : qn_tokenizer_piece(tok, id, &len);
    snprintf(out, size, "%.*s", (int)(len < size ? len : 0), piece ? piece : "");
}

static uint64_t hash_rows(uint64_t h, const qn_train_rows *r, int32_t n_ctx)
{
    const size_t bytes = (size_t)r->n * (size_t)n_ctx * sizeof *r->ids;
    if (r->n == 0) return h;
    h = qn__hash(h, r->ids, bytes);
    h = qn__hash(h, r->targets, bytes);
    return qn__hash(h, r->part, bytes);
}

static qn_status load(loader *l, qn_tokenizer **own)
{
    qn_train_data *d = l->d;
    const qn_train_corpus *c = l->s->corpus;
    snprintf(l->bos, sizeof l->bos, "<s>");
    snprintf(l->eos, sizeof l->eos, "%s", c->eos ? c->eos : "</s>");
    if (l->tok) piece_of(l->tok, qn_tokenizer_bos(l->tok), l->bos, sizeof l->bos);
    if (l->tok) piece_of(l->tok, qn_tokenizer_eos(l->tok), l->eos, sizeof l->eos);
    for (size_t i = 0; i < c->n_texts; i++) QN_TRY(load_text(l, i));
    if (d->n_conversations == 0) return QN_FAIL(l->err, invalid, "there is no conversation to learn from");
    if (!l->tok) {
        QN_TRY(train_vocab(l));
        QN_TRY(qn_vocab_tokenizer(d->vocab, own, l->err));
        l->tok = *own;
    }
    d->n_vocab = qn_tokenizer_n_tokens(l->tok);
    QN_TRY(add_samples(l));
    if (l->n_talks[0] == 0)
        return QN_FAIL(l->err, invalid, "no conversation's first answer ends within ctx, which is %d", d->n_ctx);
    if (l->n_ended == 0)
        return QN_FAIL(l->err, invalid,
                       "the template ends no turn with a token that ends a generation: the model would never stop "
                       "(special tokens and eos say which one it is)");
    QN_TRY(qn__talks_pack(l->talks[0], l->n_talks[0], d->n_ctx, &d->rows, l->err));
    QN_TRY(qn__talks_pack(l->talks[1], l->n_talks[1], d->n_ctx, &d->held_rows, l->err));
    d->n_windows = d->rows.n;
    d->n_held_windows = d->held_rows.n;
    d->n_tokens = l->n_said[0], d->n_bytes = l->n_bytes[0];
    d->n_held = l->n_said[1], d->n_held_bytes = l->n_bytes[1];
    d->text_hash = hash_rows(hash_rows(QN_HASH_INIT, &d->rows, d->n_ctx), &d->held_rows, d->n_ctx);
    return QN_OK;
}

qn_status qn__conversations_load(qn_train_data *d, const qn_train_source *s, qn_error *err)
{
    loader *l = qn__calloc(1, sizeof *l);
    qn_tokenizer *own = NULL;
    if (!l) return QN_FAIL_NOMEM(err, sizeof *l);
    *l = (loader){.d = d, .s = s, .tok = s->tok, .err = err};
    const qn_status status = load(l, &own);
    for (size_t i = 0; i < l->n_lines; i++) qn_chat_samples_destroy(l->lines[i].item, l->lines[i].n);
    for (int w = 0; w < 2; w++) {
        for (int64_t i = 0; i < l->n_talks[w]; i++) {
            qn_free(l->talks[w][i].ids);
            qn__free(l->talks[w][i].said);
        }
        qn__free(l->talks[w]);
    }
    qn__free(l->lines);
    qn_tokenizer_destroy(own);
    qn__free(l);
    return status;
}
