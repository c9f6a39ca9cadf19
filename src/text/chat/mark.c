/* SPDX-License-Identifier: MIT */
/* src/text/chat/mark.c -- marks: made of text, tied to a vocabulary, looked for. */
#include "text/chat/syntax.h"

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

size_t qn__mark_atom(const char *s, size_t n)
{
    size_t i = 0;
    if (!n) return 0;
    if (is_space(*s)) {
        while (i < n && is_space(s[i])) i++;
        return i;
    }
    if (*s == '<') {
        const char *end = memchr(s, '>', n);
        return end ? (size_t)(end - s) + 1 : n;
    }
    if (*s == '[' && n > 2) {
        for (i = 1 + (s[1] == '/'); i < n && ((s[i] >= 'A' && s[i] <= 'Z') || s[i] == '_' || s[i] == ' '); i++)
            continue;
        if (i > 2 && i < n && s[i] == ']') return i + 1;
    }
    for (i = 1; i < n && s[i] != '<' && s[i] != '[' && !is_space(s[i]); i++) continue;
    return i;
}

static bool word_at(const char *s, size_t n, const char *word)
{
    return word && *word && n >= strlen(word) && memcmp(s, word, strlen(word)) == 0;
}

bool qn__mark_make(qn_arena *arena, const char *s, size_t n, const char *id, const char *key, bool digits, qn_mark *out)
{
    size_t begin = 0, end = n;
    while (begin < n && is_space(s[begin])) begin++;
    while (end > begin && is_space(s[end - 1])) end--;
    *out = (qn_mark){.s = qn__arena_array(arena, end - begin + 1, sizeof *out->s),
                     .line_before = memchr(s, '\n', begin),
                     .line_after = memchr(s + end, '\n', n - end)};
    out->text = qn__arena_strndup(arena, s, n);
    out->n_text = (int)n;
    if (!out->s || !out->text) return false;
    for (size_t i = begin; i < end;) {
        qn_sym sym = (unsigned char)s[i];
        size_t used = 1;
        if (is_space(s[i])) {
            sym = QN_SYM_space;
            while (is_space(s[i + used])) used++;
        } else if (digits && s[i] >= '0' && s[i] <= '9') {
            sym = QN_SYM_digits;
            while (i + used < end && s[i + used] >= '0' && s[i + used] <= '9') used++;
        } else if (word_at(s + i, end - i, id)) {
            sym = QN_SYM_id;
            used = strlen(id);
        } else if (word_at(s + i, end - i, key)) {
            sym = QN_SYM_key;
            used = strlen(key);
        }
        out->s[out->n++] = sym;
        i += used;
    }
    return true;
}

/* ---- tied to a vocabulary ------------------------------------------------------------------------ */

static bool only_space(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_space(s[i])) return false;
    return true;
}

/* All marks as one text, a line each, what is not a byte as a blank. */
static bool join(const qn_mark *from, qn_str *text)
{
    for (int m = 0; m < QN_MARK_COUNT; m++) {
        for (int i = 0; i < from[m].n; i++) qn__str_putc(text, from[m].s[i] < 0x100 ? (char)from[m].s[i] : ' ');
        qn__str_putc(text, '\n');
    }
    return !text->failed;
}

/* The bytes [at, at + len) of the joined text get their bit. */
static void set_special(qn_mark *marks, size_t at, size_t len)
{
    size_t begin = 0;
    for (int m = 0; m < QN_MARK_COUNT; begin += (size_t)marks[m].n + 1, m++)
        for (int i = 0; i < marks[m].n; i++)
            if (begin + (size_t)i >= at && begin + (size_t)i < at + len && marks[m].s[i] < 0x100)
                marks[m].s[i] |= QN_SYM_special;
}

qn_status qn__marks_for(qn_arena *arena, const qn_mark *from, const qn_tokenizer *tok, qn_mark *to, qn_token **ids,
                        size_t *n_ids, qn_error *err)
{
    qn_str text = {0};
    qn_token *found = NULL;
    size_t n = 0, at = 0;
    *n_ids = 0;
    for (int m = 0; m < QN_MARK_COUNT; m++) {
        to[m] = from[m];
        to[m].s = qn__arena_array(arena, (size_t)from[m].n + 1, sizeof *to[m].s);
        if (!to[m].s) return QN_FAIL_NOMEM(err, (size_t)from[m].n * sizeof *to[m].s);
        if (from[m].n) memcpy(to[m].s, from[m].s, (size_t)from[m].n * sizeof *to[m].s);
    }
    if (!tok) return QN_OK;
    qn_status status = join(from, &text) ? QN_OK : QN_FAIL_NOMEM(err, text.len + 1);
    if (status == QN_OK)
        status = qn_tokenize(tok, text.data, text.len, &(qn_tokenize_options){.no_bos = true}, &found, &n, err);
    if (status == QN_OK && !(*ids = qn__arena_array(arena, n + 1, sizeof **ids)))
        status = QN_FAIL_NOMEM(err, n * sizeof **ids);
    for (size_t i = 0; i < n && status == QN_OK; i++) {
        size_t len;
        const qn_token_kind kind = qn_tokenizer_kind(tok, found[i]);
        const char *piece = qn_tokenizer_piece(tok, found[i], &len);
        if ((kind != QN_TOKEN_control && kind != QN_TOKEN_user) || only_space(piece, len)) continue;
        /* in order, and what lies between two of them holds no other */
        size_t hit = at;
        while (hit + len <= text.len && memcmp(text.data + hit, piece, len) != 0) hit++;
        if (hit + len > text.len) continue;
        set_special(to, hit, len);
        (*ids)[(*n_ids)++] = found[i];
        at = hit + len;
    }
    qn_free(found);
    qn__str_deinit(&text);
    return status;
}

/* ---- looked for ---------------------------------------------------------------------------------- */

static bool is_digit(qn_sym s) { return s >= '0' && s <= '9'; }
static bool is_letter(qn_sym s) { return (s >= 'a' && s <= 'z') || (s >= 'A' && s <= 'Z'); }
static bool is_id(qn_sym s) { return is_digit(s) || is_letter(s) || s == '_' || s == '-' || s == '.' || s == ':'; }

static size_t run(const qn_sym *w, size_t n, size_t at, bool (*is)(qn_sym), size_t max)
{
    size_t i = 0;
    while (at + i < n && i < max && is(w[at + i])) i++;
    return i;
}

qn_match qn__mark_match(const qn_mark *m, const qn_sym *w, size_t n, bool end, const char *key, size_t key_len,
                        size_t *len, size_t id[2])
{
    size_t at = 0;
    qn_sym s = 0;
    for (int i = 0; i < m->n; i++) {
        s = m->s[i];
        if (s == QN_SYM_key) {
            for (size_t k = 0; k < key_len; k++, at++) {
                if (at == n) return end ? QN_NO_MATCH : QN_PART_MATCH;
                if ((w[at] & 0xFF) != (unsigned char)key[k]) return QN_NO_MATCH;
            }
            continue;
        }
        if (s == QN_SYM_space) {
            at += run(w, n, at, qn__sym_is_space, QN_MARK_MAX_SPACE);
        } else if (s >= QN_SYM_special << 1) {
            const size_t used = run(w, n, at, s == QN_SYM_digits ? is_digit : is_id, QN_MARK_MAX_WORD);
            if (!used && at < n) return QN_NO_MATCH;
            if (s == QN_SYM_id && id) id[0] = at, id[1] = at + used;
            at += used;
        } else {
            if (at == n) return end ? QN_NO_MATCH : QN_PART_MATCH;
            if (w[at++] != s) return QN_NO_MATCH;
            continue;
        }
        if (at == n && !end) return QN_PART_MATCH; /* it may go on */
    }
    if (is_letter(s)) { /* a word ends with its last letter */
        if (at == n && !end) return QN_PART_MATCH;
        if (at < n && is_id(w[at]) && w[at] != ':') return QN_NO_MATCH;
    }
    *len = at;
    return QN_WHOLE_MATCH;
}
