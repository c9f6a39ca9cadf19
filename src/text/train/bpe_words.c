/* SPDX-License-Identifier: MIT */
/* src/text/train/bpe_words.c -- text to counted words. Memory is that of the different words and has a bound: when it
 * is reached, the words seen once are forgotten, then those seen up to three times, up to seven, and so on. */
#include "text/train/bpe_train.h"
#include "text/utf8.h"

#include <string.h>

void qn__words_deinit(qn_words *w)
{
    for (size_t i = 0; i < QN_CHAR_PAGES; i++) qn__free(w->chars[i]);
    qn__free(w->word);
    qn__free(w->text);
    qn__free(w->slots);
    *w = (qn_words){0};
}

static qn_status count_char(qn_words *w, uint32_t cp, qn_error *err)
{
    uint64_t **page = &w->chars[cp >> 8];
    if (!*page) *page = qn__calloc(256, sizeof **page);
    if (!*page) return QN_FAIL_NOMEM(err, 256 * sizeof **page);
    (*page)[cp & 255]++;
    w->n_seen++;
    return QN_OK;
}

/* ---- the table ---- */

static void put_slot(qn_words *w, size_t word)
{
    size_t i = w->word[word].hash & (w->n_slots - 1);
    while (w->slots[i]) i = (i + 1) & (w->n_slots - 1);
    w->slots[i] = (uint32_t)word + 1;
}

static qn_status rehash(qn_words *w, size_t n_slots, qn_error *err)
{
    uint32_t *slots = qn__calloc(n_slots, sizeof *slots);
    if (!slots) return QN_FAIL_NOMEM(err, n_slots * sizeof *slots);
    qn__free(w->slots);
    w->slots = slots;
    w->n_slots = n_slots;
    for (size_t i = 0; i < w->n; i++) put_slot(w, i);
    return QN_OK;
}

static void forget_rare(qn_words *w)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < w->n; i++) {
        qn_word word = w->word[i];
        if (word.count <= w->forget) continue;
        memmove(w->text + at, w->text + word.at, word.len);
        word.at = at;
        at += word.len;
        w->word[n++] = word;
    }
    w->n = n;
    w->text_len = at;
    memset(w->slots, 0, w->n_slots * sizeof *w->slots);
    for (size_t i = 0; i < n; i++) put_slot(w, i);
}

static size_t bytes_used(const qn_words *w) { return w->text_len + w->n * (sizeof *w->word + 2 * sizeof *w->slots); }

/* Doubles what is full, or forgets when that would pass the limit. */
static qn_status make_room(qn_words *w, size_t len, qn_error *err)
{
    while (w->n > 0 && bytes_used(w) + len > w->max_bytes / 2) { /* doubling may reach the other half */
        forget_rare(w);
        if (bytes_used(w) + len > w->max_bytes / 4) w->forget = 2 * w->forget + 1;
    }
    if (w->n == w->cap) {
        const size_t cap = w->cap ? 2 * w->cap : 1024;
        qn_word *grown = qn__realloc(w->word, cap * sizeof *grown);
        if (!grown) return QN_FAIL_NOMEM(err, cap * sizeof *grown);
        w->word = grown;
        w->cap = cap;
    }
    if (w->text_len + len > w->text_cap) {
        const size_t cap = 2 * w->text_cap + len + 4096;
        char *grown = qn__realloc(w->text, cap);
        if (!grown) return QN_FAIL_NOMEM(err, cap);
        w->text = grown;
        w->text_cap = cap;
    }
    return 2 * (w->n + 1) > w->n_slots ? rehash(w, w->n_slots ? 2 * w->n_slots : 4096, err) : QN_OK;
}

static qn_status add_word(qn_words *w, const char *text, size_t len, qn_error *err)
{
    if (len == 0) return QN_OK;
    const uint64_t h = qn__hash(QN_HASH_INIT, text, len);
    const uint32_t hash = (uint32_t)(h ^ h >> 32);
    for (size_t i = hash & (w->n_slots - 1); w->n_slots && w->slots[i]; i = (i + 1) & (w->n_slots - 1)) {
        qn_word *word = &w->word[w->slots[i] - 1];
        if (word->hash != hash || word->len != len || memcmp(w->text + word->at, text, len) != 0) continue;
        word->count++;
        return QN_OK;
    }
    QN_TRY(make_room(w, len, err));
    memcpy(w->text + w->text_len, text, len);
    w->word[w->n] = (qn_word){.count = 1, .at = w->text_len, .len = (uint32_t)len, .hash = hash};
    w->text_len += len;
    put_slot(w, w->n++);
    return QN_OK;
}

/* ---- the text ---- */

typedef struct open_word {
    char text[QN_WORD_MAX_BYTES];
    size_t len;
} open_word;

static qn_status end_word(qn_words *w, open_word *o, qn_error *err)
{
    const size_t len = o->len;
    o->len = 0;
    return add_word(w, o->text, len, err);
}

/* Puts a character to the word; white space is ' ', that of the text and U+2581 alike. */
static qn_status put_char(qn_words *w, open_word *o, const char *s, size_t n, uint32_t cp, qn_error *err)
{
    const bool alone = cp == '\n';
    if (cp == ' ' || alone || o->len + n > sizeof o->text) QN_TRY(end_word(w, o, err));
    memcpy(o->text + o->len, s, n);
    o->len += n;
    QN_TRY(count_char(w, cp, err));
    return alone ? end_word(w, o, err) : QN_OK;
}

static qn_status add_text(qn_words *w, open_word *o, const char *s, size_t len, qn_error *err)
{
    if (len == 0) return QN_OK;
    if (w->prefix) QN_TRY(put_char(w, o, " ", 1, ' ', err));
    for (size_t i = 0; i < len;) {
        uint32_t cp = (unsigned char)s[i];
        const int n = cp < 0x80 ? 1 : qn__utf8_decode(s + i, len - i, &cp);
        if (n == 0 || cp == 0) { /* no piece holds it, so nothing is joined over it */
            QN_TRY(end_word(w, o, err));
            i++;
            continue;
        }
        if (cp == 0x2581)
            QN_TRY(put_char(w, o, " ", 1, ' ', err));
        else
            QN_TRY(put_char(w, o, s + i, (size_t)n, cp, err));
        i += (size_t)n;
    }
    return end_word(w, o, err);
}

qn_status qn__words_add(qn_words *w, const char *text, size_t len, qn_error *err)
{
    open_word *o = qn__alloc(sizeof *o);
    qn_status status = QN_OK;
    if (!o) return QN_FAIL_NOMEM(err, sizeof *o);
    o->len = 0;
    if (!w->lines) status = add_text(w, o, text, len, err);
    while (w->lines && status == QN_OK && len > 0) {
        const char *end = memchr(text, '\n', len);
        const size_t n = end ? (size_t)(end - text) : len;
        status = add_text(w, o, text, n, err);
        len -= end ? n + 1 : n;
        text += end ? n + 1 : n;
    }
    qn__free(o);
    return status;
}
