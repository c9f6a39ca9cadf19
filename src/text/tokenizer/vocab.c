/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/vocab.c -- tokens, scores, types, special ids and flags out of a GGUF header. Each count is
 * compared with the others before anything is allocated, and what is allocated is linear in the bytes that the file
 * really has. */
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY "tokenizer.ggml."

qn_status qn__key_bool(const qn_gguf *file, const char *key, bool *out, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    return kv ? qn_gguf_get_bool(file, kv, 0, out, err) : QN_OK;
}

qn_status qn__key_str(qn_tokenizer *tok, const qn_gguf *file, const char *key, const char **out, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    qn_gguf_str s;
    *out = NULL;
    if (!kv) return QN_OK;
    QN_TRY(qn_gguf_get_str(file, kv, 0, &s, err));
    *out = qn__arena_strndup(&tok->arena, s.data, s.len);
    return *out ? QN_OK : QN_FAIL_NOMEM(err, s.len + 1);
}

qn_status qn__key_array(const qn_gguf *file, const char *key, bool required, const qn_gguf_kv **kv, qn_error *err)
{
    *kv = qn_gguf_kv_find(file, key);
    if (!*kv && required)
        return QN_FAIL(err, format, "%s: this key is missing; a tokenizer of this kind needs it", key);
    if (*kv && (*kv)->type != QN_GGUF_arr)
        return QN_FAIL(err, format, "%s at offset %llu: found a single %s, an array was expected", key,
                       (unsigned long long)(*kv)->offset, qn_gguf_type_name((*kv)->type));
    return QN_OK;
}

/* ---- pieces ---- */

static uint32_t first_slot(const qn_tokenizer *tok, const char *piece, size_t len)
{
    const uint64_t h = qn__hash(QN_HASH_INIT, piece, len);
    return (uint32_t)(h ^ h >> 32) & tok->slot_mask;
}

static bool equals(const qn_piece *p, const char *piece, size_t len)
{
    return p->len == len && memcmp(p->text, piece, len) == 0;
}

qn_token qn__vocab_find(const qn_tokenizer *tok, const char *piece, size_t len)
{
    if (!len || len > tok->max_len) return QN_TOKEN_NONE;
    for (uint32_t i = first_slot(tok, piece, len);; i = (i + 1) & tok->slot_mask) {
        const uint32_t id = tok->slots[i];
        if (!id) return QN_TOKEN_NONE;
        if (equals(&tok->pieces[id - 1], piece, len)) return (qn_token)(id - 1);
    }
}

bool qn__is_mark(const qn_piece *piece)
{
    const char first = piece->text[0], last = piece->text[piece->len - 1];
    if (piece->kind != QN_TOKEN_user) return piece->kind == QN_TOKEN_control;
    return piece->len > 2 && ((first == '<' && last == '>') || (first == '[' && last == ']'));
}

qn_token qn__vocab_find_text(const qn_tokenizer *tok, const char *piece, size_t len)
{
    const qn_token id = qn__vocab_find(tok, piece, len);
    return id != QN_TOKEN_NONE && qn__is_mark(&tok->pieces[id]) ? QN_TOKEN_NONE : id;
}

static qn_status index_pieces(qn_tokenizer *tok, const qn_gguf_kv *kv, qn_error *err)
{
    size_t n_slots = 16;
    while (n_slots < (size_t)tok->n_tokens * 2) n_slots *= 2;
    tok->slots = qn__arena_array(&tok->arena, n_slots, sizeof *tok->slots);
    if (!tok->slots) return QN_FAIL_NOMEM(err, n_slots * sizeof *tok->slots);
    tok->slot_mask = (uint32_t)(n_slots - 1);

    for (int32_t id = 0; id < tok->n_tokens; id++) {
        const qn_piece *p = &tok->pieces[id];
        uint32_t i = first_slot(tok, p->text, p->len);
        for (; tok->slots[i]; i = (i + 1) & tok->slot_mask) {
            if (equals(&tok->pieces[tok->slots[i] - 1], p->text, p->len)) {
                char quoted[64];
                qn__str_quote(quoted, sizeof quoted, p->text, p->len);
                return QN_FAIL(err, format,
                               QN_ENTRY "found \"%s\", which is token %u already; all different were expected",
                               QN_ENTRY_ARGS(kv, id), quoted, tok->slots[i] - 1);
            }
        }
        tok->slots[i] = (uint32_t)id + 1;
    }
    return QN_OK;
}

/* The text of token i; an empty one gets a name that no text will match by chance, as the reference does. */
static qn_status read_piece(const qn_gguf *file, const qn_gguf_kv *kv, uint64_t i, char name[32], qn_gguf_str *s,
                            qn_error *err)
{
    QN_TRY(qn_gguf_get_str(file, kv, i, s, err));
    if (s->len > QN_TEXT_MAX_BYTES)
        return QN_FAIL(err, format, QN_ENTRY "found a token of %zu bytes, at most %zu were expected",
                       QN_ENTRY_ARGS(kv, i), s->len, QN_TEXT_MAX_BYTES);
    if (!s->len) {
        snprintf(name, 32, "[EMPTY_%llu]", (unsigned long long)i);
        *s = (qn_gguf_str){name, strlen(name)};
    }
    return QN_OK;
}

static qn_status load_pieces(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const qn_gguf_kv *kv;
    qn_gguf_str s;
    char name[32];
    size_t total = 0;

    QN_TRY(qn__key_array(file, KEY "tokens", true, &kv, err));
    if (!kv->count || kv->count > INT32_MAX / 4)
        return QN_FAIL(err, format, "%s at offset %llu: found %llu tokens, 1 to %d were expected", kv->key,
                       (unsigned long long)kv->offset, (unsigned long long)kv->count, INT32_MAX / 4);
    for (uint64_t i = 0; i < kv->count; i++) {
        QN_TRY(read_piece(file, kv, i, name, &s, err));
        total += s.len + 1; /* bounded by the file's size */
    }
    tok->n_tokens = (int32_t)kv->count;
    tok->pieces = qn__arena_array(&tok->arena, (size_t)tok->n_tokens, sizeof *tok->pieces);
    char *text = qn__arena_alloc(&tok->arena, total);
    if (!tok->pieces || !text) return QN_FAIL_NOMEM(err, total + (size_t)tok->n_tokens * sizeof *tok->pieces);

    for (int32_t id = 0; id < tok->n_tokens; id++) {
        QN_TRY(read_piece(file, kv, (uint64_t)id, name, &s, err));
        memcpy(text, s.data, s.len);
        text[s.len] = '\0';
        tok->pieces[id] = (qn_piece){.text = text, .len = (uint32_t)s.len, .kind = QN_TOKEN_normal};
        text += s.len + 1;
        if (s.len > tok->max_len) tok->max_len = s.len;
    }
    return index_pieces(tok, kv, err);
}

static qn_status check_count(const qn_tokenizer *tok, const qn_gguf_kv *kv, qn_error *err)
{
    if (kv->count == (uint64_t)tok->n_tokens) return QN_OK;
    return QN_FAIL(err, format,
                   "%s at offset %llu: found %llu entries, %d were expected, one for each of " KEY "tokens", kv->key,
                   (unsigned long long)kv->offset, (unsigned long long)kv->count, tok->n_tokens);
}

static qn_status load_scores(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const qn_gguf_kv *kv;
    double score;
    QN_TRY(qn__key_array(file, KEY "scores", false, &kv, err));
    if (!kv) return QN_OK;
    QN_TRY(check_count(tok, kv, err));
    for (int32_t id = 0; id < tok->n_tokens; id++) {
        QN_TRY(qn_gguf_get_f64(file, kv, (uint64_t)id, &score, err));
        if (!isfinite((float)score))
            return QN_FAIL(err, format, QN_ENTRY "found %g, a finite number was expected", QN_ENTRY_ARGS(kv, id),
                           score);
        tok->pieces[id].score = (float)score;
    }
    return QN_OK;
}

static qn_status load_types(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const qn_gguf_kv *kv;
    int64_t type;
    QN_TRY(qn__key_array(file, KEY "token_type", false, &kv, err));
    if (!kv) return QN_OK;
    QN_TRY(check_count(tok, kv, err));
    for (int32_t id = 0; id < tok->n_tokens; id++) {
        QN_TRY(qn_gguf_get_i64(file, kv, (uint64_t)id, &type, err));
        if (type < QN_KIND_UNDEFINED || type > QN_TOKEN_byte)
            return QN_FAIL(err, format, QN_ENTRY "found type %lld, 0 to %d were expected", QN_ENTRY_ARGS(kv, id),
                           (long long)type, QN_TOKEN_byte);
        qn_piece *p = &tok->pieces[id];
        p->kind = (uint8_t)type;
        if (type == QN_TOKEN_byte && qn__byte_of_piece(p->text, p->len) < 0) {
            char quoted[64];
            qn__str_quote(quoted, sizeof quoted, p->text, p->len);
            return QN_FAIL(err, format, QN_ENTRY "found type byte for \"%s\", a token like <0x0A> was expected",
                           QN_ENTRY_ARGS(kv, id), quoted);
        }
    }
    return QN_OK;
}

/* ---- ids and flags ---- */

static const struct {
    const char *key, *older;
} special_keys[QN_SPECIAL_COUNT] = {
/* clang-format off */
#define ROW(name, key, older) {KEY key, older[0] ? KEY older : NULL},
    /* clang-format on */
    QN_SPECIAL_ROWS(ROW)
#undef ROW
};

static qn_status load_special(qn_tokenizer *tok, const qn_gguf *file, const char *key, qn_token *id, qn_error *err)
{
    const qn_gguf_kv *kv = qn_gguf_kv_find(file, key);
    int64_t value;
    if (!kv) return QN_OK;
    QN_TRY(qn_gguf_get_i64(file, kv, 0, &value, err));
    if (value == -1 || value == UINT32_MAX) { /* how some converters say that there is none */
        *id = QN_TOKEN_NONE;
        return QN_OK;
    }
    if (value < 0 || value >= tok->n_tokens)
        return QN_FAIL(err, format, "%s at offset %llu: found token %lld, 0 to %d were expected", key,
                       (unsigned long long)kv->offset, (long long)value, tok->n_tokens - 1);
    *id = (qn_token)value;
    return QN_OK;
}

static qn_status load_ids(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const qn_model_row *m = tok->model;
    for (int i = 0; i < QN_SPECIAL_COUNT; i++) tok->special[i] = QN_TOKEN_NONE;
    tok->special[QN_SPECIAL_bos] = m->bos;
    tok->special[QN_SPECIAL_eos] = m->eos;
    tok->special[QN_SPECIAL_unk] = m->unk;
    tok->special[QN_SPECIAL_sep] = m->sep;
    tok->special[QN_SPECIAL_pad] = m->pad;
    for (int i = 0; i < QN_SPECIAL_COUNT; i++) {
        if (tok->special[i] >= tok->n_tokens) tok->special[i] = QN_TOKEN_NONE;
        if (special_keys[i].older) QN_TRY(load_special(tok, file, special_keys[i].older, &tok->special[i], err));
        QN_TRY(load_special(tok, file, special_keys[i].key, &tok->special[i], err));
    }
    return QN_OK;
}

static qn_status load_flags(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const unsigned flags = tok->model->flags;
    tok->add_bos = flags & QN_MODEL_add_bos;
    tok->add_eos = flags & QN_MODEL_add_eos;
    tok->add_sep = flags & QN_MODEL_add_sep;
    tok->add_space_prefix = flags & QN_MODEL_space_prefix;
    tok->lowercase = true;
    QN_TRY(qn__key_bool(file, KEY "add_bos_token", &tok->add_bos, err));
    QN_TRY(qn__key_bool(file, KEY "add_eos_token", &tok->add_eos, err));
    QN_TRY(qn__key_bool(file, KEY "add_sep_token", &tok->add_sep, err));
    QN_TRY(qn__key_bool(file, KEY "add_space_prefix", &tok->add_space_prefix, err));
    QN_TRY(qn__key_bool(file, KEY "remove_extra_whitespaces", &tok->squeeze_spaces, err));
    QN_TRY(qn__key_bool(file, KEY "normalizer.lowercase", &tok->lowercase, err));
    tok->strip_accents = tok->lowercase;
    return qn__key_bool(file, KEY "normalizer.strip_accents", &tok->strip_accents, err);
}

qn_status qn__vocab_load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    tok->pre = "";
    QN_TRY(load_pieces(tok, file, err));
    QN_TRY(load_scores(tok, file, err));
    QN_TRY(load_types(tok, file, err));
    QN_TRY(load_ids(tok, file, err));
    return load_flags(tok, file, err);
}

/* ---- bytes ---- */

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

int qn__byte_of_piece(const char *text, size_t len)
{
    if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const int high = hex(text[3]), low = hex(text[4]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

void qn__vocab_byte_tokens(qn_tokenizer *tok, qn_token otherwise)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        const char byte = (char)b;
        snprintf(name, sizeof name, "<0x%02X>", b);
        qn_token id = qn__vocab_find(tok, name, 6);
        if (id == QN_TOKEN_NONE) id = qn__vocab_find(tok, &byte, 1);
        tok->byte_token[b] = id == QN_TOKEN_NONE ? otherwise : id;
    }
}
