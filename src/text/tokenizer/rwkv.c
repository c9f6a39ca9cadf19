/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/rwkv.c -- RWKV's tokenizer (tokenizer.ggml.model "rwkv"): at each place the longest piece, nothing
 * else. The file spells pieces with escapes (\n \t \r \xNN, a backslash before anything else), because they are bytes,
 * not text. */
#include "text/tokenizer/models.h"
#include "text/tokenizer/trie.h"

static int hex(char c) { return c >= 'a' ? c - 'a' + 10 : c >= 'A' ? c - 'A' + 10 : c - '0'; }

static size_t bytes(const qn_tokenizer *tok, const qn_piece *piece, char *out)
{
    (void)tok;
    const char *s = piece->text, *const end = s + piece->len;
    size_t n = 0;
    while (s < end) {
        if (*s != '\\' || s + 1 == end) {
            out[n++] = *s++;
            continue;
        }
        const char c = s[1];
        s += 2;
        if (c == 'x' && end - s >= 2) {
            out[n++] = (char)((hex(s[0]) & 15) << 4 | (hex(s[1]) & 15));
            s += 2;
        } else {
            out[n++] = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
    }
    return n;
}

static qn_status load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    (void)file;
    char *buf = qn__alloc(tok->max_len);
    tok->trie = qn__trie_create();
    bool ok = buf && tok->trie;
    for (int32_t id = 0; ok && id < tok->n_tokens; id++) {
        const size_t n = bytes(tok, &tok->pieces[id], buf);
        if (n) ok = qn__trie_insert(tok->trie, buf, n, id);
    }
    qn__free(buf);
    return ok ? QN_OK : QN_FAIL(err, nomem, "out of memory: the trie of %d pieces", tok->n_tokens);
}

static void unload(qn_tokenizer *tok) { qn__trie_destroy(tok->trie); }

/* The longest piece that is no mark: those are found before, or may not be found here. */
static qn_token longest(const qn_tokenizer *tok, const char *text, size_t len, size_t *n)
{
    qn_token id = qn__trie_longest(tok->trie, text, len, n);
    while (id != QN_TOKEN_NONE && qn__is_mark(&tok->pieces[id])) id = qn__trie_longest(tok->trie, text, *n - 1, n);
    return id;
}

static qn_status encode(qn_encoder *e, const char *text, size_t len, bool fresh, qn_error *err)
{
    (void)fresh, (void)err;
    for (size_t pos = 0, n; pos < len && !e->failed; pos += n) {
        const qn_token id = longest(e->tok, text + pos, len - pos, &n);
        qn__emit(e, id != QN_TOKEN_NONE ? id : e->tok->special[QN_SPECIAL_unk]);
        if (!n) n = 1;
    }
    return QN_OK;
}

const qn_family qn__family_rwkv = {.load = load, .unload = unload, .encode = encode, .bytes = bytes};
