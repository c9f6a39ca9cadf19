/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/special_tokens.c -- roles by spelling, which tokens end a generation, and which are looked for in
 * raw text. */
#include "text/tokenizer/vocab.h"
#include "text/tokenizer/models.h"

#include <string.h>
#include <strings.h>

static qn_token find(const qn_tokenizer *tok, const char *piece) { return qn__vocab_find(tok, piece, strlen(piece)); }

static void detect_roles(qn_tokenizer *tok)
{
    static const struct {
        qn_special role;
        const char *piece;
    } rows[] = {
/* clang-format off */
#define QN_KNOWN_ROLE(role, piece) {QN_SPECIAL_##role, piece},
/* clang-format on */
#define QN_KNOWN_END(piece)
#define QN_KNOWN_SHOWN(piece)
#define QN_KNOWN_NO_END(piece, with, with_too, kind)
#include "text/tokenizer/special_tokens.def"
#undef QN_KNOWN_ROLE
#undef QN_KNOWN_END
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (tok->special[rows[i].role] != QN_TOKEN_NONE) continue;
        const qn_token id = find(tok, rows[i].piece);
        if (id == QN_TOKEN_NONE) continue;
        tok->special[rows[i].role] = id;
        tok->pieces[id].kind = QN_TOKEN_control;
    }
}

static void mark_end(qn_tokenizer *tok, qn_token id)
{
    if (id != QN_TOKEN_NONE) tok->pieces[id].eog = true;
}

static void detect_ends(qn_tokenizer *tok)
{
    static const char *const ends[] = {
#define QN_KNOWN_ROLE(role, piece)
#define QN_KNOWN_END(piece) piece,
#include "text/tokenizer/special_tokens.def"
#undef QN_KNOWN_SHOWN
#undef QN_KNOWN_END
    };
    static const char *const shown[] = {
#define QN_KNOWN_END(piece)
#define QN_KNOWN_SHOWN(piece) piece,
#include "text/tokenizer/special_tokens.def"
#undef QN_KNOWN_SHOWN
#undef QN_KNOWN_NO_END
    };
    static const struct {
        const char *piece, *with, *with_too;
        qn_token_kind kind;
    } not_ends[] = {
#define QN_KNOWN_SHOWN(piece)
/* clang-format off */
#define QN_KNOWN_NO_END(piece, with, with_too, kind) {piece, with, with_too, QN_TOKEN_##kind},
/* clang-format on */
#include "text/tokenizer/special_tokens.def"
    };
    static const qn_special roles[] = {QN_SPECIAL_fim_pad, QN_SPECIAL_fim_rep, QN_SPECIAL_fim_sep,
                                       QN_SPECIAL_eos,     QN_SPECIAL_eot,     QN_SPECIAL_eom};
    qn_token id;

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if ((id = find(tok, ends[i])) == QN_TOKEN_NONE) continue;
        tok->pieces[id].kind = QN_TOKEN_control;
        mark_end(tok, id);
    }
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if ((id = find(tok, shown[i])) != QN_TOKEN_NONE) tok->pieces[id].kind = QN_TOKEN_user;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) mark_end(tok, tok->special[roles[i]]);
    for (size_t i = 0; i < sizeof not_ends / sizeof *not_ends; i++) {
        const qn_token a = find(tok, not_ends[i].with), b = find(tok, not_ends[i].with_too);
        if ((id = find(tok, not_ends[i].piece)) == QN_TOKEN_NONE || a == QN_TOKEN_NONE || b == QN_TOKEN_NONE) continue;
        tok->pieces[id].eog = false;
        tok->pieces[id].kind = (uint8_t)not_ends[i].kind;
    }
}

/* ---- white space that special tokens swallow: files don't say it, so models are recognised by name ---- */

static void set_strip(qn_tokenizer *tok, const char *piece, bool left, bool right)
{
    const qn_token id = find(tok, piece);
    if (id == QN_TOKEN_NONE) return;
    tok->pieces[id].lstrip = left;
    tok->pieces[id].rstrip = right;
}

static bool contains_any(const char *text, const char *const *words)
{
    for (; text && *words; words++)
        if (strcasestr(text, *words)) return true;
    return false;
}

static qn_status detect_strip(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    static const char *const jina[] = {"jina-v2-de", "jina-v2-es", "jina-v2-code", NULL};
    static const char *const mask_archs[] = {"nomic-bert-moe", "jina-bert-v3", NULL};
    static const char *const phi3[] = {"phi-3", "phi3", NULL};
    static const char *const modern_bert[] = {"modern-bert", NULL};
    const char *name, *arch, *pre;
    QN_TRY(qn__key_str(tok, file, "general.name", &name, err));
    QN_TRY(qn__key_str(tok, file, "general.architecture", &arch, err));
    QN_TRY(qn__key_str(tok, file, "tokenizer.ggml.pre", &pre, err));

    if (contains_any(pre, jina) || contains_any(arch, mask_archs)) {
        set_strip(tok, "<mask>", true, false);
    } else if (contains_any(name, phi3)) {
        for (int32_t i = 0; i < tok->n_parsed; i++) tok->pieces[tok->parsed[i]].rstrip = true;
        set_strip(tok, "</s>", false, true);
        set_strip(tok, "<unk>", false, false);
        set_strip(tok, "<s>", false, false);
        set_strip(tok, "<|endoftext|>", false, false);
    } else if (contains_any(name, modern_bert)) {
        set_strip(tok, "[MASK]", true, false);
    }
    return QN_OK;
}

/* ---- tokens looked for in raw text ---- */

static bool goes_before(const qn_tokenizer *tok, qn_token a, qn_token b)
{
    const uint32_t la = tok->pieces[a].len, lb = tok->pieces[b].len;
    return la != lb ? la > lb : a < b;
}

/* A heap sort: no memory, and no quadratic case for a file to provoke. */
static void sift(const qn_tokenizer *tok, qn_token *ids, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && goes_before(tok, ids[child], ids[child + 1])) child++;
        if (!goes_before(tok, ids[i], ids[child])) break;
        const qn_token t = ids[i];
        ids[i] = ids[child];
        ids[child] = t;
    }
}

static void sort_longest_first(const qn_tokenizer *tok, qn_token *ids, size_t n)
{
    for (size_t i = n / 2; i-- > 0;) sift(tok, ids, n, i);
    for (size_t end = n; end > 1;) {
        const qn_token t = ids[--end];
        ids[end] = ids[0];
        ids[0] = t;
        sift(tok, ids, end, 0);
    }
}

static bool is_parsed(const qn_piece *p)
{
    return p->kind == QN_TOKEN_control || p->kind == QN_TOKEN_user || p->kind == QN_TOKEN_unknown;
}

qn_status qn__vocab_detect(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    detect_roles(tok);
    detect_ends(tok);
    size_t n = 0;
    for (int32_t id = 0; id < tok->n_tokens; id++) n += is_parsed(&tok->pieces[id]);
    tok->parsed = qn__arena_array(&tok->arena, n ? n : 1, sizeof *tok->parsed);
    if (!tok->parsed) return QN_FAIL_NOMEM(err, n * sizeof *tok->parsed);
    for (int32_t id = 0; id < tok->n_tokens; id++)
        if (is_parsed(&tok->pieces[id])) tok->parsed[tok->n_parsed++] = id;
    sort_longest_first(tok, tok->parsed, n);
    return detect_strip(tok, file, err);
}
