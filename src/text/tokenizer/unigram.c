/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/unigram.c -- SentencePiece unigram (tokenizer.ggml.model "t5"): of all ways to cover the
 * normalised text with pieces, the one with the largest sum of scores (Viterbi, left to right). Sums are doubles, as in
 * the reference, and the first of two equal sums stays. */
#include "text/tokenizer/charsmap.h"
#include "text/tokenizer/models.h"
#include "text/tokenizer/trie.h"
#include "text/utf8.h"

#include <float.h>
#include <string.h>

struct qn_unigram {
    qn_charsmap map;
    double unknown; /* score of a character that no piece covers */
};

typedef struct best {
    double score;
    size_t from; /* where the last piece begins */
    qn_token id;
} best;

#define UNKNOWN_PENALTY 10.0f

/* How much longer normalised text may be. Compatibility decomposition makes 11 bytes of one at most (U+FDFA); a file
 * that asks for much more is after memory. */
#define MAX_GROWTH      ((size_t)64)
#define MAX_GROWTH_MORE ((size_t)4096)

static qn_status insert_pieces(qn_tokenizer *tok, qn_error *err)
{
    float lowest = FLT_MAX;
    for (int32_t id = 0; id < tok->n_tokens; id++) {
        const qn_piece *p = &tok->pieces[id];
        const bool covers = p->kind == QN_TOKEN_normal || p->kind == QN_TOKEN_user || p->kind == QN_TOKEN_unused;
        if (p->kind == QN_TOKEN_normal && p->score < lowest) lowest = p->score;
        if (covers && !qn__trie_insert(tok->trie, p->text, p->len, id))
            return QN_FAIL(err, nomem, "out of memory: the trie of %d pieces", tok->n_tokens);
    }
    tok->unigram->unknown = lowest - UNKNOWN_PENALTY;
    return QN_OK;
}

static qn_status load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    if (tok->special[QN_SPECIAL_unk] == QN_TOKEN_NONE)
        return QN_FAIL(err, format,
                       "tokenizer.ggml.unknown_token_id: this key is missing, and token 2, its default in a t5 "
                       "vocabulary, is too");
    tok->strip_first = tok->add_space_prefix || tok->squeeze_spaces;
    tok->unigram = qn__arena_alloc(&tok->arena, sizeof *tok->unigram);
    if (!tok->unigram) return QN_FAIL_NOMEM(err, sizeof *tok->unigram);
    tok->trie = qn__trie_create();
    if (!tok->trie) return QN_FAIL(err, nomem, "out of memory: an empty trie");
    QN_TRY(insert_pieces(tok, err));
    return qn__charsmap_load(tok, file, &tok->unigram->map, err);
}

static void unload(qn_tokenizer *tok) { qn__trie_destroy(tok->trie); }

/* ---- normalising ---- */

/* What a prefix of s becomes: a mapped prefix is replaced, a character stays, and a byte that begins none becomes
 * U+FFFD. (User-defined pieces are never normalised; they were cut out of the text before.) */
static qn_status normalize_prefix(const qn_charsmap *map, const char *s, size_t n, size_t *consumed, const char **to,
                                  size_t *to_len, qn_error *err)
{
    uint32_t cp;
    QN_TRY(qn__charsmap_find(map, s, n, consumed, to, to_len, err));
    if (*consumed) return QN_OK;
    *consumed = (size_t)qn__utf8_decode(s, n, &cp);
    *to = *consumed ? s : QN_UTF8_REPLACEMENT;
    *to_len = *consumed ? *consumed : 3;
    if (!*consumed) *consumed = 1;
    return QN_OK;
}

/* Appends to e->text, spaces spelled U+2581. */
static qn_status normalize(qn_encoder *e, const char *text, size_t len, qn_error *err)
{
    const qn_tokenizer *tok = e->tok;
    bool in_word = false, prefixed = false;
    for (size_t pos = 0; pos < len && !e->text.failed;) {
        const char *to;
        size_t consumed, n;
        QN_TRY(normalize_prefix(&tok->unigram->map, text + pos, len - pos, &consumed, &to, &n, err));
        pos += consumed;
        if (e->text.len + n > MAX_GROWTH * len + MAX_GROWTH_MORE)
            return QN_FAIL(err, limit, "tokenizer.ggml.precompiled_charsmap: %zu bytes of text become more than %zu",
                           pos, MAX_GROWTH * len + MAX_GROWTH_MORE);
        for (size_t i = 0; i < n; i++) {
            if (to[i] != ' ') {
                if (!in_word && ((tok->add_space_prefix && !prefixed) || tok->squeeze_spaces)) {
                    qn__str_puts(&e->text, QN_UTF8_BLOCK);
                    prefixed = true;
                }
                in_word = true;
                qn__str_putc(&e->text, to[i]);
            } else {
                in_word = false;
                if (!tok->squeeze_spaces) qn__str_puts(&e->text, QN_UTF8_BLOCK);
            }
        }
    }
    /* Blanks alone have the space before the first word too, as SentencePiece gives it. */
    if (e->text.len > 0 && tok->add_space_prefix && !prefixed) qn__str_puts(&e->text, QN_UTF8_BLOCK);
    if (e->text.failed) return QN_FAIL_NOMEM(err, e->text.cap * 2);
    return QN_OK;
}

/* ---- the best path ---- */

static void offer(best *b, double score, size_t from, qn_token id)
{
    if (score > b->score) *b = (best){score, from, id};
}

/* best[i]: how to cover the first i bytes. */
static void find_best(const qn_tokenizer *tok, const char *s, size_t n, best *b)
{
    const qn_token unk = tok->special[QN_SPECIAL_unk];
    b[0] = (best){0, 0, unk};
    for (size_t i = 1; i <= n; i++) b[i] = (best){-DBL_MAX, 0, unk};

    for (size_t pos = 0; pos < n;) {
        const size_t char_len = qn__utf8_len(s + pos, n - pos);
        bool covered = false;
        uint32_t node = QN_TRIE_ROOT;
        for (size_t end = pos; end < n; end++) {
            node = qn__trie_step(tok->trie, node, s[end]);
            if (node == QN_TRIE_DEAD) break;
            const qn_token id = tok->trie->values[node];
            if (id == QN_TOKEN_NONE) continue;
            if (end + 1 - pos == char_len) covered = true;
            const qn_piece *p = &tok->pieces[id];
            if (qn__is_mark(p)) continue;
            /* Scores are log probabilities; 0 makes a user-defined piece win. */
            offer(&b[end + 1], b[pos].score + (p->kind == QN_TOKEN_user ? 0.0 : (double)p->score), pos, id);
        }
        if (!covered) offer(&b[pos + char_len], b[pos].score + tok->unigram->unknown, pos, unk);
        pos += char_len;
    }
}

static qn_status encode(qn_encoder *e, const char *text, size_t len, bool fresh, qn_error *err)
{
    (void)fresh;
    qn__str_clear(&e->text);
    QN_TRY(normalize(e, text, len, err));
    const size_t n = e->text.len;
    if (!n) return QN_OK;
    if (n + 1 > e->best_cap) {
        qn__free(e->best);
        e->best_cap = 0;
        e->best = qn__alloc((n + 1) * sizeof(best));
        if (!e->best) return QN_FAIL_NOMEM(err, (n + 1) * sizeof(best));
        e->best_cap = n + 1;
    }
    best *b = e->best;
    find_best(e->tok, e->text.data, n, b);

    const qn_token unk = e->tok->special[QN_SPECIAL_unk];
    const size_t first = e->n;
    bool was_unknown = false;
    for (size_t pos = n; pos > 0; pos = b[pos].from) { /* from the end; a run of unknown characters is one token */
        const bool unknown = b[pos].id == unk;
        if (!unknown || !was_unknown) qn__emit(e, b[pos].id);
        was_unknown = unknown;
    }
    for (size_t i = first, j = e->n; i + 1 < j; i++) {
        const qn_token t = e->ids[i];
        e->ids[i] = e->ids[--j];
        e->ids[j] = t;
    }
    return QN_OK;
}

const qn_family qn__family_unigram = {.load = load, .unload = unload, .encode = encode, .bytes = qn__unescape_spaces};
