/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/bpe.c -- byte-level BPE (tokenizer.ggml.model "gpt2" and relatives): a pre-tokenizer cuts text
 * into words, each byte of a word is a symbol, and the merges join symbols in the order in which the file lists them.
 *
 * Pieces are spelled in the byte alphabet: the 188 printable bytes of Latin-1 stand for themselves, the other 68 for
 * U+0100 onwards. Rows of pretok.def with QN_PRETOK_raw spell them in UTF-8 instead and have <0xNN> for the rest. */
#include "text/tokenizer/models.h"
#include "text/tokenizer/pretok.h"
#include "text/utf8.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#define KEY "tokenizer.ggml."

typedef struct merge {
    qn_token left1; /* left + 1; 0 in a free slot */
    qn_token right, joined;
    uint32_t rank;
} merge;

struct qn_merges {
    merge *slots;
    size_t mask;
};

/* ---- the byte alphabet ---- */

static uint32_t letter_of(unsigned char b)
{
    if ((b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD)) return b;
    if (b <= 0x20) return 0x100u + b;
    return b == 0xAD ? 0x143u : 0x121u + (b - 0x7Fu);
}

static int byte_of(uint32_t cp)
{
    if (cp < 0x100) return letter_of((unsigned char)cp) == cp ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}

/* A piece with a character outside the alphabet is taken as it is spelled. */
static size_t bytes(const qn_tokenizer *tok, const qn_piece *piece, char *out)
{
    const unsigned flags = tok->pretok_row->flags;
    if (flags & QN_PRETOK_escape) return qn__unescape_spaces(tok, piece, out);
    size_t n = 0;
    for (size_t pos = 0; !(flags & QN_PRETOK_raw) && pos < piece->len;) {
        uint32_t cp;
        const int len = qn__utf8_decode(piece->text + pos, piece->len - pos, &cp);
        const int b = len ? byte_of(cp) : -1;
        if (b < 0) break;
        out[n++] = (char)b;
        pos += (size_t)len;
        if (pos == piece->len) return n;
    }
    memcpy(out, piece->text, piece->len);
    return piece->len;
}

/* ---- merges ---- */

static merge *slot_of(const struct qn_merges *t, qn_token left, qn_token right)
{
    const uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(h >> 24) & t->mask;
    while (t->slots[i].left1 && (t->slots[i].left1 != left + 1 || t->slots[i].right != right)) i = (i + 1) & t->mask;
    return &t->slots[i];
}

static qn_status no_token(const qn_gguf_kv *kv, uint64_t i, qn_gguf_str rule, const char *piece, size_t len,
                          qn_error *err)
{
    char whole[96], part[64];
    qn__str_quote(whole, sizeof whole, rule.data, rule.len);
    qn__str_quote(part, sizeof part, piece, len);
    return QN_FAIL(err, format,
                   QN_ENTRY "found \"%s\", but \"%s\" is none of " KEY "tokens; two tokens that join to a third "
                            "were expected",
                   QN_ENTRY_ARGS(kv, i), whole, part);
}

/* "left right": the first space that is not the first character divides them. */
static qn_status read_merge(const qn_tokenizer *tok, const qn_gguf *file, const qn_gguf_kv *kv, uint64_t i,
                            qn_str *scratch, merge *out, qn_error *err)
{
    qn_gguf_str rule;
    QN_TRY(qn_gguf_get_str(file, kv, i, &rule, err));
    const char *space = rule.len > 1 ? memchr(rule.data + 1, ' ', rule.len - 1) : NULL;
    if (!space) {
        char quoted[96];
        qn__str_quote(quoted, sizeof quoted, rule.data, rule.len);
        return QN_FAIL(err, format, QN_ENTRY "found \"%s\", two tokens with a space between them were expected",
                       QN_ENTRY_ARGS(kv, i), quoted);
    }
    const size_t n_left = (size_t)(space - rule.data), n_right = rule.len - n_left - 1;
    qn__str_clear(scratch);
    qn__str_append(scratch, rule.data, n_left);
    if (!qn__str_append(scratch, space + 1, n_right)) return QN_FAIL_NOMEM(err, rule.len);

    const qn_token left = qn__vocab_find(tok, rule.data, n_left), right = qn__vocab_find(tok, space + 1, n_right);
    out->joined = qn__vocab_find(tok, scratch->data, scratch->len);
    if (left == QN_TOKEN_NONE) return no_token(kv, i, rule, rule.data, n_left, err);
    if (right == QN_TOKEN_NONE) return no_token(kv, i, rule, space + 1, n_right, err);
    if (out->joined == QN_TOKEN_NONE) return no_token(kv, i, rule, scratch->data, scratch->len, err);
    out->left1 = left + 1;
    out->right = right;
    out->rank = (uint32_t)i;
    return QN_OK;
}

static qn_status load_merges(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const bool required = !(tok->pretok_row->flags & QN_PRETOK_no_merges);
    const qn_gguf_kv *kv;
    QN_TRY(qn__key_array(file, KEY "merges", required, &kv, err));
    const uint64_t count = kv ? kv->count : 0;
    if (count > INT32_MAX / 4)
        return QN_FAIL(err, format, "%s at offset %llu: found %llu merges, at most %d were expected", kv->key,
                       (unsigned long long)kv->offset, (unsigned long long)count, INT32_MAX / 4);

    size_t n_slots = 16;
    while (n_slots < count * 2) n_slots *= 2;
    struct qn_merges *t = qn__arena_alloc(&tok->arena, sizeof *t);
    if (!t || !(t->slots = qn__arena_array(&tok->arena, n_slots, sizeof *t->slots)))
        return QN_FAIL_NOMEM(err, n_slots * sizeof *t->slots);
    t->mask = n_slots - 1;
    tok->merges = t;

    qn_str scratch = {0};
    qn_status status = QN_OK;
    for (uint64_t i = 0; i < count && status == QN_OK; i++) {
        merge m;
        status = read_merge(tok, file, kv, i, &scratch, &m, err);
        merge *slot = status == QN_OK ? slot_of(t, m.left1 - 1, m.right) : NULL;
        /* Of two equal rules the first one counts; letters never grow into a mark. */
        if (slot && !slot->left1 && !qn__is_mark(&tok->pieces[m.joined])) *slot = m;
    }
    qn__str_deinit(&scratch);
    return status;
}

/* ---- loading ---- */

static qn_status unknown_pretok(const char *name, qn_error *err)
{
    size_t n, len = 0;
    const qn_pretok_row *rows = qn__pretok_rows(&n);
    char known[400] = "", quoted[48];
    for (size_t i = 0; i < n; i++) {
        const size_t need = strlen(rows[i].name) + 2;
        if (len + need + 16 >= sizeof known) {
            snprintf(known + len, sizeof known - len, " and %zu more", n - i);
            break;
        }
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "", rows[i].name);
    }
    return QN_FAIL(err, unsupported, KEY "pre \"%s\" is unknown; known are %s",
                   qn__str_quote(quoted, sizeof quoted, name, strlen(name)), known);
}

/* Without the warnings that choosing gives. */
static qn_status check(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const char *name;
    QN_TRY(qn__key_str(tok, file, KEY "pre", &name, err));
    return !name || !*name || qn__pretok_find(name) ? QN_OK : unknown_pretok(name, err);
}

static qn_status choose_pretok(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const char *name;
    QN_TRY(qn__key_str(tok, file, KEY "pre", &name, err));
    if (strcmp(tok->model->name, "gemma4") == 0) name = "gemma4"; /* this model implies it, whatever the key says */
    if (!name || !*name) {
        qn__log(QN_LOG_warn,
                "the file has no " KEY "pre: using \"default\", which may not be what the model was trained with");
        name = "default";
    }
    tok->pretok_row = qn__pretok_find(name);
    if (!tok->pretok_row) return unknown_pretok(name, err);
    tok->pre = tok->pretok_row->name;
    return QN_OK;
}

static qn_status load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    QN_TRY(choose_pretok(tok, file, err));
    const unsigned flags = tok->pretok_row->flags;
    const bool said = qn_gguf_kv_find(file, KEY "add_bos_token");
    if (flags & QN_PRETOK_force_bos || (flags & QN_PRETOK_add_bos && !said)) tok->add_bos = true;
    if (tok->model->flags & QN_MODEL_drop_spaces && !qn_gguf_kv_find(file, KEY "normalizer.lowercase"))
        tok->lowercase = false;

    if (flags & QN_PRETOK_raw) {
        qn__vocab_byte_tokens(tok, QN_TOKEN_NONE);
    } else {
        for (int b = 0; b < 256; b++) {
            char letter[4];
            const int n = qn__utf8_encode(letter_of((unsigned char)b), letter);
            tok->byte_token[b] = qn__vocab_find(tok, letter, (size_t)n);
        }
    }
    QN_TRY(load_merges(tok, file, err));
    return qn__pretok_create(tok->pretok_row, true, &tok->pretok, err);
}

static void unload(qn_tokenizer *tok) { qn__pretok_destroy(tok->pretok); }

/* ---- encoding ---- */

static bool pair(const void *ctx, const qn_symbol *left, const qn_symbol *right, uint32_t *priority, qn_token *id)
{
    const qn_tokenizer *tok = ctx;
    if (left->id == QN_TOKEN_NONE || right->id == QN_TOKEN_NONE) return false;
    const merge *m = slot_of(tok->merges, left->id, right->id);
    *priority = m->rank;
    *id = m->joined;
    return m->left1 != 0;
}

/* The word as a piece would spell it; QN_TOKEN_NONE when none does. */
static qn_token whole_word(qn_encoder *e, const char *word, size_t len, bool raw)
{
    if (raw) return qn__vocab_find_text(e->tok, word, len);
    if (len > e->tok->max_len) return QN_TOKEN_NONE;
    qn__str_clear(&e->aux);
    for (size_t i = 0; i < len; i++) {
        char letter[4];
        qn__str_append(&e->aux, letter, (size_t)qn__utf8_encode(letter_of((unsigned char)word[i]), letter));
    }
    if (e->aux.failed) e->failed = true;
    return e->failed ? QN_TOKEN_NONE : qn__vocab_find_text(e->tok, e->aux.data, e->aux.len);
}

static bool all_newlines(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (s[i] != '\n') return false;
    return true;
}

static void encode_word(qn_encoder *e, const char *word, size_t len)
{
    const qn_tokenizer *tok = e->tok;
    const unsigned flags = tok->pretok_row->flags;
    const bool raw = flags & QN_PRETOK_raw;
    qn_merger *m = &e->merger;
    if (flags & QN_PRETOK_whole_words || (flags & QN_PRETOK_newlines && all_newlines(word, len))) {
        const qn_token id = whole_word(e, word, len, raw);
        if (id != QN_TOKEN_NONE) {
            qn__emit(e, id);
            return;
        }
    }
    qn__merger_clear(m);
    for (size_t pos = 0; pos < len;) {
        const size_t n = raw ? qn__utf8_len(word + pos, len - pos) : 1;
        const qn_token id = raw ? qn__vocab_find(tok, word + pos, n) : tok->byte_token[(unsigned char)word[pos]];
        if (!qn__merger_add(m, (uint32_t)pos, (uint32_t)n, id)) e->failed = true;
        if (e->failed) return;
        pos += n;
    }
    if (!qn__merger_run(m, pair, tok)) e->failed = true;
    if (e->failed) return;
    for (int32_t i = 0; i >= 0; i = m->symbols[i].next) {
        const qn_symbol *sym = &m->symbols[i];
        qn__emit(e, sym->id);
        for (uint32_t b = 0; raw && sym->id == QN_TOKEN_NONE && b < sym->len; b++)
            qn__emit(e, tok->byte_token[(unsigned char)word[sym->pos + b]]);
    }
}

/* A stretch of text into words; invalid UTF-8 becomes U+FFFD on the way. */
static qn_status encode_stretch(qn_encoder *e, const char *text, size_t len, qn_error *err)
{
    const bool escape = e->tok->pretok_row->flags & QN_PRETOK_escape;
    if (qn__utf8_valid_prefix(text, len) < len) {
        qn__str_clear(&e->aux);
        if (!qn__utf8_repair(&e->aux, text, len)) return QN_FAIL_NOMEM(err, len);
        text = e->aux.data;
        len = e->aux.len;
    }
    if (escape || text == e->aux.data) { /* aux will be needed for words */
        qn__str_clear(&e->text);
        if (escape ? !qn__escape_spaces(&e->text, text, len) : !qn__str_append(&e->text, text, len))
            return QN_FAIL_NOMEM(err, len);
        text = e->text.data;
        len = e->text.len;
    }
    QN_TRY(qn__pretok_split(e->tok->pretok, e, text, len, err));
    size_t begin = 0;
    for (size_t i = 0; i < e->words.n && !e->failed; i++) {
        encode_word(e, text + begin, e->words.ends[i] - begin);
        begin = e->words.ends[i];
    }
    return QN_OK;
}

/* White space divides and disappears. */
static qn_status encode_without_spaces(qn_encoder *e, const char *text, size_t len, qn_error *err)
{
    qn_str segment = {0};
    qn_status status = QN_OK;
    for (size_t pos = 0; status == QN_OK && pos <= len;) {
        uint32_t cp = 0xFFFD;
        const int n = qn__utf8_decode(text + pos, len - pos, &cp);
        if (pos == len || qn__cp_is_space(cp)) {
            if (segment.failed)
                status = QN_FAIL_NOMEM(err, segment.cap * 2);
            else if (segment.len)
                status = encode_stretch(e, segment.data, segment.len, err);
            qn__str_clear(&segment);
        } else {
            char utf8[4];
            if (e->tok->lowercase) cp = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
            qn__str_append(&segment, utf8, (size_t)qn__utf8_encode(cp, utf8));
        }
        pos += n ? (size_t)n : 1;
    }
    qn__str_deinit(&segment);
    return status;
}

static qn_status encode(qn_encoder *e, const char *text, size_t len, bool fresh, qn_error *err)
{
    (void)fresh;
    if (e->tok->model->flags & QN_MODEL_drop_spaces) return encode_without_spaces(e, text, len, err);
    return encode_stretch(e, text, len, err);
}

const qn_family qn__family_bpe = {.check = check, .load = load, .unload = unload, .encode = encode, .bytes = bytes};
