/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/detok.c -- ids back to text, all at once or one by one.
 *
 * qn_detokenize gives the bytes that the tokens stand for, valid UTF-8 or not, so that text survives the round trip.
 * qn_detok_push serves a terminal or a stream: it repairs what is broken and holds back what may yet become whole. */
#include "text/tokenizer/models.h"
#include "text/utf8.h"

#include <string.h>

/* The bytes of a token, at most piece->len of them. */
static size_t output_of(const qn_tokenizer *tok, qn_token id, bool show_special, char *out)
{
    const qn_piece *p = &tok->pieces[id];
    if (p->kind == QN_TOKEN_normal) return tok->model->family->bytes(tok, p, out);
    if (p->kind == QN_TOKEN_unused || p->kind == QN_KIND_UNDEFINED) return 0;
    if ((p->kind == QN_TOKEN_control || p->kind == QN_TOKEN_unknown) && !show_special) return 0;
    const int byte = p->kind == QN_TOKEN_byte ? qn__byte_of_piece(p->text, p->len) : -1;
    if (byte >= 0) {
        out[0] = (char)byte;
        return 1;
    }
    memcpy(out, p->text, p->len);
    return p->len;
}

size_t qn__token_bytes(const qn_tokenizer *tok, qn_token id, char *out) { return output_of(tok, id, false, out); }

/* The same within a text: the space that the tokenizer put before the first word goes again. */
static size_t next_output(const qn_tokenizer *tok, qn_token id, const qn_detokenize_options *options, bool *started,
                          char *out)
{
    size_t n = output_of(tok, id, options->show_special, out);
    if (n && !*started) {
        *started = true;
        if (tok->strip_first && !options->keep_prefix && out[0] == ' ') memmove(out, out + 1, --n);
    }
    return n;
}

qn_status qn_detokenize(const qn_tokenizer *tok, const qn_token *ids, size_t n, const qn_detokenize_options *options,
                        char **out, size_t *len, qn_error *err)
{
    static const qn_detokenize_options defaults;
    qn_str text = {0};
    size_t total = 0;
    bool started = false;
    for (size_t i = 0; i < n; i++) {
        if (!qn__id_ok(tok, ids[i]))
            return QN_FAIL(err, invalid, "token %zu of %zu is %d, 0 to %d expected", i, n, ids[i], tok->n_tokens - 1);
        if (!qn__add_size(total, tok->pieces[ids[i]].len, &total)) return QN_FAIL_NOMEM(err, SIZE_MAX);
    }
    if (!qn__str_reserve(&text, total)) {
        qn__str_deinit(&text);
        return QN_FAIL_NOMEM(err, total);
    }
    for (size_t i = 0; i < n; i++)
        text.len += next_output(tok, ids[i], options ? options : &defaults, &started, text.data + text.len);
    text.data[text.len] = '\0';
    if (tok->model->family->tidy) tok->model->family->tidy(&text);
    char *result = qn__str_take(&text, len);
    if (!result) return QN_FAIL_NOMEM(err, total);
    *out = result;
    return QN_OK;
}

/* ---- one by one ---- */

/* One step of a repair: a valid sequence stays, a broken one becomes U+FFFD, and the beginning of one that more bytes
 * could complete has to wait. */
typedef struct step {
    size_t reads, writes;
    bool broken, waits;
} step;

static step next_step(const char *s, size_t n)
{
    uint32_t cp;
    step st = {0};
    st.reads = st.writes = (size_t)qn__utf8_decode(s, n, &cp);
    if (!st.reads) {
        st.reads = qn__utf8_broken(s, n, &st.waits);
        st.writes = 3;
        st.broken = true;
    }
    return st;
}

/* The room that repairing needs when the input lies at the end of the buffer and the output grows from its beginning.
 */
static size_t room_needed(const char *s, size_t n)
{
    size_t written = 0, room = n;
    for (size_t pos = 0; pos < n;) {
        const step st = next_step(s + pos, n - pos);
        if (st.waits) break;
        pos += st.reads;
        written += st.writes;
        if (written + n - pos > room) room = written + n - pos;
    }
    return room;
}

qn_status qn__detok_measure(qn_tokenizer *tok, qn_error *err)
{
    char *buf = qn__alloc(tok->max_len);
    if (!buf) return QN_FAIL_NOMEM(err, tok->max_len);
    for (qn_token id = 0; id < tok->n_tokens; id++) {
        size_t most = tok->pieces[id].len, repaired = 0;
        const size_t n = output_of(tok, id, true, buf);
        for (size_t pos = 0; pos < n;) {
            const step st = next_step(buf + pos, n - pos);
            pos += st.reads;
            repaired += st.writes;
        }
        if (repaired > most) most = repaired;
        if (most > tok->max_output) tok->max_output = most;
    }
    qn__free(buf);
    return QN_OK;
}

int64_t qn_detok_push(qn_detok *d, const qn_tokenizer *tok, qn_token id, char *buf, size_t size)
{
    if (!qn__id_ok(tok, id)) return -1;
    const size_t most = tok->pieces[id].len, n_pending = (size_t)d->n_pending;
    if (n_pending > 3 || size < most + n_pending) return -1;

    bool started = d->started;
    const size_t n = next_output(tok, id, &d->options, &started, buf + size - most);
    memmove(buf + size - n, buf + size - most, n);
    const size_t total = n_pending + n;
    char *s = buf + size - total;
    memcpy(s, d->pending, n_pending);
    if (room_needed(s, total) > size) return -1;

    size_t written = 0, pos = 0;
    while (pos < total) {
        const step st = next_step(s + pos, total - pos);
        if (st.waits) break;
        if (st.broken)
            memcpy(buf + written, QN_UTF8_REPLACEMENT, 3);
        else
            memmove(buf + written, s + pos, st.reads);
        written += st.writes;
        pos += st.reads;
    }
    d->started = started;
    d->n_pending = (int)(total - pos);
    memcpy(d->pending, s + pos, total - pos);
    return (int64_t)written;
}

int64_t qn_detok_finish(qn_detok *d, char *buf, size_t size)
{
    if (!d->n_pending) return 0;
    if (size < 3) return -1;
    memcpy(buf, QN_UTF8_REPLACEMENT, 3);
    d->n_pending = 0;
    return 3;
}
