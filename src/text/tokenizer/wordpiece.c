/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/wordpiece.c -- WordPiece (tokenizer.ggml.model "bert"): text is cleaned and cut into words, and
 * each word is covered from the left by the longest pieces; a word that can't be covered is one unknown token.
 *
 * Pieces that begin a word carry U+2581, the others nothing ("##" is gone in GGUF files). Cleaning is that of the
 * models' own tokenizer: control characters and U+FFFD vanish, CJK characters and punctuation stand alone, and where
 * the vocabulary is uncased, canonical decomposition (NFD) loses its nonspacing marks and letters become lower case. */
#include "text/tokenizer/models.h"
#include "text/tokenizer/trie.h"
#include "text/utf8.h"

#include <string.h>
#include <utf8proc.h>

static qn_status load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    (void)file;
    if (tok->special[QN_SPECIAL_unk] == QN_TOKEN_NONE)
        return QN_FAIL(err, format,
                       "tokenizer.ggml.unknown_token_id: this key is missing, and token 100, its default in a "
                       "bert vocabulary, is too");
    tok->strip_first = true;
    tok->trie = qn__trie_create();
    bool ok = tok->trie != NULL;
    for (int32_t id = 0; ok && id < tok->n_tokens; id++)
        ok = qn__trie_insert(tok->trie, tok->pieces[id].text, tok->pieces[id].len, id);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory: the trie of %d pieces", tok->n_tokens);
}

static void unload(qn_tokenizer *tok) { qn__trie_destroy(tok->trie); }

/* ---- words ---- */

/* Blocks that the models' tokenizer treats as ideographs. U+2B820 to U+2B91F, the head of extension E, is missing
 * there. */
static bool is_cjk(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } blocks[] = {
        {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
        {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F},
    };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (cp >= blocks[i].first && cp <= blocks[i].last) return true;
    return false;
}

static bool is_control(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CS ||
           c == UTF8PROC_CATEGORY_CO;
}

/* Unicode punctuation, and what of ASCII is neither letter, digit, space nor control. */
static bool is_punctuation(uint32_t cp)
{
    if (cp < 0x80)
        return (cp > 0x20 && cp < '0') || (cp > '9' && cp < 'A') || (cp > 'Z' && cp < 'a') || (cp > 'z' && cp < 0x7F);
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

/* Covers the word in e->text, U+2581 before it, and begins the next one. */
static void end_word(qn_encoder *e)
{
    const size_t len = e->text.len, first = e->n;
    if (e->text.failed) e->failed = true;
    if (len <= 3 || e->failed) return;
    for (size_t pos = 0, n; pos < len; pos += n) {
        const qn_token id = qn__trie_longest(e->tok->trie, e->text.data + pos, len - pos, &n);
        if (id == QN_TOKEN_NONE) {
            e->n = first;
            qn__emit(e, e->tok->special[QN_SPECIAL_unk]);
            break;
        }
        qn__emit(e, id);
    }
    e->text.len = 3;
    e->text.data[3] = '\0';
}

static void add_char(qn_encoder *e, uint32_t cp)
{
    char utf8[4];
    qn__str_append(&e->text, utf8, (size_t)qn__utf8_encode(cp, utf8));
}

static void add_alone(qn_encoder *e, uint32_t cp)
{
    end_word(e);
    add_char(e, cp);
    end_word(e);
}

/* One code point of the cleaned text: decomposed, folded, put into its word. */
static void add_folded(qn_encoder *e, uint32_t cp)
{
    utf8proc_int32_t parts[8] = {(utf8proc_int32_t)cp};
    utf8proc_ssize_t n = 1;
    if (e->tok->strip_accents) {
        n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 8, UTF8PROC_DECOMPOSE, NULL);
        if (n < 1 || n > 8) { /* no canonical decomposition is longer than 4 */
            parts[0] = (utf8proc_int32_t)cp;
            n = 1;
        }
    }
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        if (e->tok->strip_accents && utf8proc_category(parts[i]) == UTF8PROC_CATEGORY_MN) continue;
        const uint32_t folded = (uint32_t)(e->tok->lowercase ? utf8proc_tolower(parts[i]) : parts[i]);
        if (is_punctuation(folded))
            add_alone(e, folded);
        else
            add_char(e, folded);
    }
}

static qn_status encode(qn_encoder *e, const char *text, size_t len, bool fresh, qn_error *err)
{
    (void)fresh;
    qn__str_clear(&e->text);
    if (!qn__str_puts(&e->text, QN_UTF8_BLOCK)) return QN_FAIL_NOMEM(err, 4);
    for (size_t pos = 0; pos < len && !e->failed;) {
        uint32_t cp = 0;
        const int n = qn__utf8_decode(text + pos, len - pos, &cp);
        pos += n ? (size_t)n : 1;
        if (cp == '\t' || cp == '\n' || cp == '\r') {
            end_word(e);
        } else if (!n || !cp || cp == 0xFFFD || is_control(cp)) {
            continue;
        } else if (qn__cp_is_space(cp)) {
            end_word(e);
        } else if (is_cjk(cp)) {
            end_word(e);
            add_folded(e, cp);
            end_word(e);
        } else {
            add_folded(e, cp);
        }
    }
    end_word(e);
    return QN_OK;
}

/* ---- back to text ---- */

static bool is_closing(char c) { return c == '.' || c == ',' || c == '!' || c == '?'; }

/* A piece that begins a word brings the space before it, but not before a closing mark. */
static size_t bytes(const qn_tokenizer *tok, const qn_piece *piece, char *out)
{
    const size_t n = qn__unescape_spaces(tok, piece, out);
    if (n < 2 || out[0] != ' ' || !is_closing(out[1])) return n;
    memmove(out, out + 1, n - 1);
    return n - 1;
}

/* Whether the space before text[i] goes: before closing marks, and before 's 'm 're 've. */
static bool closes_up(const char *text, size_t n, size_t i)
{
    if (is_closing(text[i])) return true;
    if (text[i] != '\'' || i + 1 >= n) return false;
    const char a = text[i + 1], b = i + 2 < n ? text[i + 2] : '\0';
    return a == 's' || a == 'm' || ((a == 'r' || a == 'v') && b == 'e');
}

/* What a tokenizer of words did to apostrophes and closing marks, undone by rule: " ' " loses both spaces first. */
static void tidy(qn_str *text)
{
    char *s = text->data;
    size_t n = 0;
    if (!s) return;
    for (size_t i = 0; i < text->len; i++) {
        const bool alone = s[i] == ' ' && i + 2 < text->len && s[i + 1] == '\'' && s[i + 2] == ' ';
        if (alone) {
            s[n++] = '\'';
            i += 2;
        } else {
            s[n++] = s[i];
        }
    }
    const size_t len = n;
    n = 0;
    for (size_t i = 0; i < len; i++)
        if (s[i] != ' ' || i + 1 == len || !closes_up(s, len, i + 1)) s[n++] = s[i];
    text->len = n;
    s[n] = '\0';
}

const qn_family qn__family_wordpiece = {.load = load, .unload = unload, .encode = encode, .bytes = bytes, .tidy = tidy};
