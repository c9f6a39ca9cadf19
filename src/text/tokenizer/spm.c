/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/spm.c -- SentencePiece BPE (tokenizer.ggml.model "llama"): characters are joined to pieces, the
 * pair with the best score first; a character that stays alone and is no piece becomes its bytes. */
#include "text/tokenizer/models.h"
#include "text/utf8.h"

#include <string.h>

#define BLOCK_LEN 3 /* of U+2581 in UTF-8 */

static bool is_block(const char *s) { return memcmp(s, QN_UTF8_BLOCK, BLOCK_LEN) == 0; }

/* Whether some piece goes on with U+2581 after another character. */
static bool crosses_words(const qn_tokenizer *tok)
{
    for (int32_t id = 0; id < tok->n_tokens; id++) {
        const qn_piece *p = &tok->pieces[id];
        for (uint32_t i = 1; i + BLOCK_LEN <= p->len; i++)
            if (is_block(p->text + i) && (i < BLOCK_LEN || !is_block(p->text + i - BLOCK_LEN))) return true;
    }
    return false;
}

static qn_status load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    (void)file, (void)err;
    tok->strip_first = tok->add_space_prefix;
    tok->words_apart = !crosses_words(tok);
    qn__vocab_byte_tokens(tok, tok->special[QN_SPECIAL_unk]);
    return QN_OK;
}

typedef struct spelling {
    const qn_tokenizer *tok;
    const char *text;
} spelling;

/* Smaller for better scores; -0 and 0 are the same score. Scores are finite. */
static uint32_t priority_of(float score)
{
    uint32_t bits;
    score += 0.0f;
    memcpy(&bits, &score, sizeof bits);
    return bits >> 31 ? bits : ~(bits | 0x80000000u);
}

static bool pair(const void *ctx, const qn_symbol *left, const qn_symbol *right, uint32_t *priority, qn_token *id)
{
    const spelling *s = ctx;
    *id = qn__vocab_find_text(s->tok, s->text + left->pos, (size_t)left->len + right->len);
    if (*id == QN_TOKEN_NONE) return false;
    *priority = priority_of(s->tok->pieces[*id].score);
    return true;
}

static bool encode_word(qn_encoder *e, const char *s, size_t begin, size_t end)
{
    const qn_tokenizer *tok = e->tok;
    qn_merger *m = &e->merger;
    qn__merger_clear(m);
    for (size_t pos = begin; pos < end;) {
        const size_t n = qn__utf8_len(s + pos, end - pos);
        if (!qn__merger_add(m, (uint32_t)pos, (uint32_t)n, qn__vocab_find_text(tok, s + pos, n))) return false;
        pos += n;
    }
    if (!qn__merger_run(m, pair, &(spelling){tok, s})) return false;
    for (int32_t i = 0; i >= 0; i = m->symbols[i].next) {
        const qn_symbol *sym = &m->symbols[i];
        qn__emit(e, sym->id);
        for (uint32_t b = 0; sym->id == QN_TOKEN_NONE && b < sym->len; b++)
            qn__emit(e, tok->byte_token[(unsigned char)s[sym->pos + b]]);
    }
    return true;
}

/* The end of the word that begins at `pos`. A word may begin at a U+2581 after another character, where no pair can be
 * joined if no piece goes on there: then each word by itself gives the same ids, from a heap that fits into the cache.
 * Sequences are stepped over by their first byte, so that a broken one isn't cut either. */
static size_t word_end(const qn_tokenizer *tok, const char *s, size_t pos, size_t len)
{
    if (!tok->words_apart) return len;
    bool after_other = false;
    while (pos < len) {
        const bool block = len - pos >= BLOCK_LEN && is_block(s + pos);
        if (block && after_other) break;
        after_other = !block;
        pos += qn__utf8_len(s + pos, len - pos);
    }
    return pos;
}

static qn_status encode(qn_encoder *e, const char *text, size_t len, bool fresh, qn_error *err)
{
    const qn_tokenizer *tok = e->tok;
    qn__str_clear(&e->text);
    if (tok->add_space_prefix && fresh) qn__str_puts(&e->text, QN_UTF8_BLOCK);
    if (!qn__escape_spaces(&e->text, text, len)) return QN_FAIL_NOMEM(err, len);
    for (size_t begin = 0, end; begin < e->text.len; begin = end) {
        end = word_end(tok, e->text.data, begin, e->text.len);
        if (!encode_word(e, e->text.data, begin, end))
            return QN_FAIL(err, nomem, "out of memory: joining a text of %zu bytes", end - begin);
    }
    return QN_OK;
}

const qn_family qn__family_spm = {.load = load, .encode = encode, .bytes = qn__unescape_spaces};
