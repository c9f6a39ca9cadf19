/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/encoder.c -- growing a call's arrays, and cutting special tokens out of raw text.
 *
 * Special tokens are found in the reference's order: the longest first, each at every place from left to right, in what
 * the longer ones left. That is not "the longest at the leftmost place", and the difference shows where two of them
 * overlap. */
#include "text/tokenizer/encoder.h"
#include "text/tokenizer/models.h"
#include "text/tokenizer/pretok.h"
#include "text/utf8.h"

#include <string.h>

void qn__encoder_deinit(qn_encoder *e)
{
    qn__free(e->ids);
    qn__str_deinit(&e->text);
    qn__str_deinit(&e->aux);
    qn__merger_deinit(&e->merger);
    qn__free(e->words.ends);
    qn__free(e->spare.ends);
    qn__free(e->best);
    if (e->match) qn__pretok_match_destroy(e->match);
    *e = (qn_encoder){0};
}

/* Room for one element more. */
static bool grow(void **array, size_t n, size_t *cap, size_t elem_bytes)
{
    if (n < *cap) return true;
    size_t bytes;
    const size_t want = *cap ? *cap * 2 : 64;
    void *p = want > *cap && qn__mul_size(want, elem_bytes, &bytes) ? qn__realloc(*array, bytes) : NULL;
    if (!p) return false;
    *array = p;
    *cap = want;
    return true;
}

void qn__emit(qn_encoder *e, qn_token id)
{
    if (id == QN_TOKEN_NONE) return;
    if (!grow((void **)&e->ids, e->n, &e->cap, sizeof *e->ids)) e->failed = true;
    if (!e->failed) e->ids[e->n++] = id;
}

void qn__splits_add(qn_encoder *e, qn_splits *s, uint32_t end)
{
    if (!grow((void **)&s->ends, s->n, &s->cap, sizeof *s->ends)) e->failed = true;
    if (!e->failed) s->ends[s->n++] = end;
}

bool qn__escape_spaces(qn_str *out, const char *s, size_t n)
{
    const char *const end = s + n;
    while (s < end) {
        const char *space = memchr(s, ' ', (size_t)(end - s));
        qn__str_append(out, s, (size_t)((space ? space : end) - s));
        if (!space) break;
        qn__str_append(out, QN_UTF8_BLOCK, 3);
        s = space + 1;
    }
    return !out->failed;
}

size_t qn__unescape_spaces(const qn_tokenizer *tok, const qn_piece *piece, char *out)
{
    (void)tok;
    size_t n = 0;
    for (uint32_t i = 0; i < piece->len;) {
        const bool block = piece->len - i >= 3 && memcmp(piece->text + i, QN_UTF8_BLOCK, 3) == 0;
        out[n++] = block ? ' ' : piece->text[i];
        i += block ? 3 : 1;
    }
    return n;
}

/* ---- special tokens ---- */

typedef struct fragment {
    uint32_t begin, end; /* of raw text; id is QN_TOKEN_NONE then */
    qn_token id;
} fragment;

typedef struct fragments {
    fragment *items;
    size_t n, cap;
    bool failed;
} fragments;

static void add(fragments *f, size_t begin, size_t end, qn_token id)
{
    if (!grow((void **)&f->items, f->n, &f->cap, sizeof *f->items)) f->failed = true;
    if (!f->failed) f->items[f->n++] = (fragment){(uint32_t)begin, (uint32_t)end, id};
}

/* What control tokens are looked for in. */
typedef struct haystack {
    const char *text;
    const qn_span *plain; /* [n_plain] ascending: no control token there */
    size_t n_plain;
} haystack;

/* Whether [left, right) touches a plain span. */
static bool in_plain(const haystack *h, size_t left, size_t right)
{
    size_t lo = 0, hi = h->n_plain; /* the first span that ends behind left */
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (h->plain[mid].end <= left)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < h->n_plain && h->plain[lo].begin < right;
}

/* The first occurrence in [from, end) that may be that token; NULL when there is none. */
static const char *find(const haystack *h, const qn_piece *piece, size_t from, size_t end)
{
    const bool anywhere = h->n_plain == 0 || (piece->kind == QN_TOKEN_user && !qn__is_mark(piece));
    const char *hit;
    while ((hit = memmem(h->text + from, end - from, piece->text, piece->len))) {
        const size_t at = (size_t)(hit - h->text);
        if (anywhere || !in_plain(h, at, at + piece->len)) break;
        from = at + 1;
    }
    return hit;
}

/* Cuts every occurrence of a piece out of the raw fragments of `from`; false, and `to` unused, when there is none. */
static bool cut(const haystack *h, const qn_piece *piece, qn_token id, const fragments *from, fragments *to)
{
    const char *const text = h->text;
    bool any = false;
    for (size_t i = 0; i < from->n; i++) {
        const fragment f = from->items[i];
        size_t begin = f.begin, end = f.end;
        const char *hit;
        while (f.id == QN_TOKEN_NONE && begin < end && (hit = find(h, piece, begin, end))) {
            size_t left = (size_t)(hit - text), right = left + piece->len;
            if (!any) {
                any = true;
                to->n = 0;
                for (size_t j = 0; j < i; j++) add(to, from->items[j].begin, from->items[j].end, from->items[j].id);
            }
            while (piece->lstrip && left > begin && qn__byte_is_space(text[left - 1])) left--;
            while (piece->rstrip && right < end && qn__byte_is_space(text[right])) right++;
            if (left > begin) add(to, begin, left, QN_TOKEN_NONE);
            add(to, 0, 0, id);
            begin = right;
        }
        if (any && (f.id != QN_TOKEN_NONE || begin < end)) add(to, begin, end, f.id);
    }
    return any;
}

/* Which bytes and which pairs of neighbouring bytes occur: most special tokens need one that doesn't, so that their
 * search never begins. */
typedef struct occurring {
    bool bytes[256];
    uint64_t pairs[65536 / 64];
} occurring;

static void note_occurring(occurring *o, const char *text, size_t len)
{
    const unsigned char *u = (const unsigned char *)text;
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < len; i++) {
        o->bytes[u[i]] = true;
        if (i + 1 < len) o->pairs[u[i] << 2 | u[i + 1] >> 6] |= UINT64_C(1) << (u[i + 1] & 63);
    }
}

static bool may_occur(const occurring *o, const qn_piece *piece)
{
    const unsigned char *u = (const unsigned char *)piece->text;
    if (!o->bytes[u[0]]) return false;
    for (uint32_t i = 0; i + 1 < piece->len; i++)
        if (!(o->pairs[u[i] << 2 | u[i + 1] >> 6] >> (u[i + 1] & 63) & 1)) return false;
    return true;
}

static bool partition(const qn_tokenizer *tok, const char *text, size_t len, const qn_tokenize_options *options,
                      fragments *out)
{
    const haystack h = {text, options->plain, options->n_plain};
    occurring present;
    fragments spare = {0};
    add(out, 0, len, QN_TOKEN_NONE);
    note_occurring(&present, text, len);
    for (int32_t i = 0; i < tok->n_parsed && !out->failed; i++) {
        const qn_piece *piece = &tok->pieces[tok->parsed[i]];
        if (piece->len > len || (options->no_special && piece->kind != QN_TOKEN_user) || !may_occur(&present, piece))
            continue;
        if (!cut(&h, piece, tok->parsed[i], out, &spare)) continue;
        const fragments t = *out;
        *out = spare;
        spare = t;
    }
    qn__free(spare.items);
    return !out->failed;
}

qn_status qn__encode_text(qn_encoder *e, const char *text, size_t len, const qn_tokenize_options *options,
                          qn_error *err)
{
    fragments list = {0};
    qn_status status = QN_OK;
    bool fresh = true;
    if (!len) return QN_OK;
    if (!partition(e->tok, text, len, options, &list))
        status = QN_FAIL(err, nomem, "out of memory: special tokens in a text of %zu bytes", len);
    for (size_t i = 0; i < list.n && status == QN_OK; i++) {
        const fragment f = list.items[i];
        if (f.id == QN_TOKEN_NONE)
            status = e->tok->model->family->encode(e, text + f.begin, f.end - f.begin, fresh, err);
        else
            qn__emit(e, f.id);
        fresh = f.id != QN_TOKEN_NONE;
        if (status == QN_OK && e->failed)
            status = QN_FAIL(err, nomem, "out of memory: ids of a text of %zu bytes", len);
    }
    qn__free(list.items);
    return status;
}
