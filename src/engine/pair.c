/* SPDX-License-Identifier: MIT */
/* src/engine/pair.c -- a query and a text as what a reranker reads: by the file's own template, or one behind the other
 * with the tokens between them that the vocabulary asks for. */
#include "base/str.h"
#include "engine/engine.h"
#include "text/tokenizer/models.h"
#include <string.h>

/* The template's text with both filled in, in one pass: what stands in the one is not looked at for the other. What is
 * filled in is plain text. */
typedef struct filled {
    qn_str text;
    qn_span plain[8];
    size_t n_plain;
} filled;

static qn_status fill(filled *f, qn_gguf_str source, qn_gguf_str query, qn_gguf_str text, qn_error *err)
{
    const struct {
        const char *name;
        qn_gguf_str value;
    } rows[] = {{"{query}", query}, {"{document}", text}};
    for (size_t i = 0; i < source.len;) {
        size_t r = 0;
        while (r < 2 && !(source.len - i >= strlen(rows[r].name) &&
                          memcmp(source.data + i, rows[r].name, strlen(rows[r].name)) == 0))
            r++;
        if (r == 2) {
            (void)qn__str_putc(&f->text, source.data[i++]);
            continue;
        }
        if (f->n_plain == sizeof f->plain / sizeof f->plain[0])
            return QN_FAIL(err, unsupported, "tokenizer.chat_template.rerank has more than %zu places to fill in",
                           f->n_plain);
        f->plain[f->n_plain].begin = f->text.len;
        (void)qn__str_append(&f->text, rows[r].value.data, rows[r].value.len);
        f->plain[f->n_plain++].end = f->text.len;
        i += strlen(rows[r].name);
    }
    return f->text.failed ? QN_FAIL(err, nomem, "out of memory: a pair of %zu and %zu bytes", query.len, text.len)
                          : QN_OK;
}

static qn_status by_template(const qn_tokenizer *tok, qn_gguf_str source, qn_gguf_str query, qn_gguf_str text,
                             qn_token **out, size_t *n, qn_error *err)
{
    filled f = {0};
    qn_status status = fill(&f, source, query, text, err);
    const qn_tokenize_options options = {.no_bos = true, .plain = f.plain, .n_plain = f.n_plain};
    if (status == QN_OK) status = qn_tokenize(tok, f.text.data, f.text.len, &options, out, n, err);
    qn__str_deinit(&f.text);
    return status;
}

/* WordPiece ends a text with its separator; others end it with eos, and may ask for a separator besides. */
static qn_status joined(const qn_tokenizer *tok, const qn_token *a, size_t n_a, const qn_token *b, size_t n_b,
                        qn_token **out, size_t *n, qn_error *err)
{
    const bool wordpiece = tok->model->flags & QN_MODEL_add_sep;
    const qn_token sep = tok->special[QN_SPECIAL_sep], eos = tok->special[QN_SPECIAL_eos];
    const bool ends = wordpiece ? tok->add_sep : tok->add_eos;
    const qn_token end = wordpiece || eos == QN_TOKEN_NONE ? sep : eos;
    qn_token *ids = qn__alloc((n_a + n_b + 4) * sizeof *ids);
    if (!ids) return QN_FAIL_NOMEM(err, (n_a + n_b + 4) * sizeof *ids);
    size_t k = 0;
    if (tok->add_bos) ids[k++] = tok->special[QN_SPECIAL_bos];
    memcpy(ids + k, a, n_a * sizeof *ids);
    k += n_a;
    if (ends) ids[k++] = end;
    if (!wordpiece && tok->add_sep && sep != QN_TOKEN_NONE) ids[k++] = sep;
    memcpy(ids + k, b, n_b * sizeof *ids);
    k += n_b;
    if (ends) ids[k++] = end;
    *out = ids;
    *n = k;
    return QN_OK;
}

qn_status qn_engine_tokenize_pair(const qn_engine *e, qn_gguf_str query, qn_gguf_str text, qn_token **out, size_t *n,
                                  qn_error *err)
{
    static const qn_tokenize_options plain = {.no_bos = true, .no_special = true};
    const qn_gguf_kv *kv = qn_gguf_kv_find(e->file, "tokenizer.chat_template.rerank");
    if (kv) {
        qn_gguf_str source;
        QN_TRY(qn_gguf_get_str(e->file, kv, 0, &source, err));
        return by_template(e->tok, source, query, text, out, n, err);
    }
    qn_token *a = NULL, *b = NULL;
    size_t n_a = 0, n_b = 0;
    qn_status status = qn_tokenize(e->tok, query.data, query.len, &plain, &a, &n_a, err);
    if (status == QN_OK) status = qn_tokenize(e->tok, text.data, text.len, &plain, &b, &n_b, err);
    if (status == QN_OK) status = joined(e->tok, a, n_a, b, n_b, out, n, err);
    qn__free(a);
    qn__free(b);
    return status;
}
