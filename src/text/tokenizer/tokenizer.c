/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/tokenizer.c -- the tokenizer half of quern/text.h: choosing a family, creating, tokenizing,
 * looking things up. */
#include "text/grammar/token_trie.h"
#include "text/tokenizer/models.h"
#include "text/utf8.h"

#include <stdatomic.h>
#include <string.h>

static const qn_model_row models[] = {
#define B QN_MODEL_add_bos
#define E QN_MODEL_add_eos
#define S QN_MODEL_add_sep
#define P QN_MODEL_space_prefix
#define D QN_MODEL_drop_spaces
#define QN_TOKENIZER_MODEL(name, family, bos, eos, unk, sep, pad, flags) \
    {#name, &qn__family_##family, bos, eos, unk, sep, pad, flags},
#include "text/tokenizer/models.def"
#undef QN_TOKENIZER_MODEL
#undef B
#undef E
#undef S
#undef P
#undef D
};
#define N_MODELS (sizeof models / sizeof *models)

/* ---- creating ---- */

static qn_status choose_model(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    const char *name;
    char known[160] = "", quoted[64];
    QN_TRY(qn__key_str(tok, file, "tokenizer.ggml.model", &name, err));
    if (!name) return QN_FAIL(err, format, "tokenizer.ggml.model: this key is missing; the file has no tokenizer");
    for (size_t i = 0; i < N_MODELS; i++) {
        if (strcmp(models[i].name, name) == 0) {
            tok->model = &models[i];
            return QN_OK;
        }
        if (i) strcat(known, ", ");
        strcat(known, models[i].name);
    }
    return QN_FAIL(err, unsupported, "tokenizer.ggml.model \"%s\" is unknown; known are %s",
                   qn__str_quote(quoted, sizeof quoted, name, strlen(name)), known);
}

/* The token that a newline in raw text becomes; the padding token where it becomes none. */
static qn_status find_newline(qn_tokenizer *tok, qn_error *err)
{
    tok->nl = qn__vocab_find(tok, "\n", 1);
    if (tok->nl != QN_TOKEN_NONE && tok->pieces[tok->nl].kind == QN_TOKEN_user) return QN_OK;
    qn_encoder e = {.tok = tok};
    qn_status status = tok->model->family->encode(&e, "\n", 1, false, err);
    if (status == QN_OK && e.failed) status = QN_FAIL(err, nomem, "out of memory: the newline token");
    const bool found = status == QN_OK && e.n && e.ids[0] != tok->special[QN_SPECIAL_unk];
    tok->nl = found ? e.ids[0] : tok->special[QN_SPECIAL_pad];
    qn__encoder_deinit(&e);
    return status;
}

static qn_status load(qn_tokenizer *tok, const qn_gguf *file, qn_error *err)
{
    QN_TRY(choose_model(tok, file, err));
    QN_TRY(qn__vocab_load(tok, file, err));
    QN_TRY(tok->model->family->load(tok, file, err));
    QN_TRY(qn__vocab_detect(tok, file, err));
    QN_TRY(find_newline(tok, err));
    return qn__detok_measure(tok, err);
}

qn_status qn_tokenizer_create(const qn_gguf *file, qn_tokenizer **out, qn_error *err)
{
    static _Atomic uint64_t ids;
    qn_arena arena;
    qn__arena_init(&arena, 0);
    qn_tokenizer *tok = qn__arena_alloc(&arena, sizeof *tok);
    if (!tok) {
        qn__arena_deinit(&arena);
        return QN_FAIL_NOMEM(err, sizeof *tok);
    }
    tok->arena = arena;
    tok->id = atomic_fetch_add(&ids, 1) + 1;
    const qn_status status = load(tok, file, err);
    if (status != QN_OK)
        qn_tokenizer_destroy(tok);
    else
        *out = tok;
    return status;
}

qn_status qn_tokenizer_check(const qn_gguf *file, qn_error *err)
{
    qn_tokenizer tok = {0};
    qn__arena_init(&tok.arena, 0);
    qn_status status = choose_model(&tok, file, err);
    if (status == QN_OK && tok.model->family->check) status = tok.model->family->check(&tok, file, err);
    qn__arena_deinit(&tok.arena);
    return status;
}

void qn_tokenizer_destroy(qn_tokenizer *tok)
{
    if (!tok) return;
    qn__token_trie_destroy(tok->token_trie);
    if (tok->model && tok->model->family->unload) tok->model->family->unload(tok);
    qn_arena arena = tok->arena; /* it holds tok */
    qn__arena_deinit(&arena);
}

/* ---- tokenizing ---- */

static qn_status encode_all(qn_encoder *e, const char *text, size_t len, const qn_tokenize_options *options,
                            qn_error *err)
{
    const qn_tokenizer *tok = e->tok;
    const bool ends = !options->no_bos;
    if (ends && tok->add_bos) qn__emit(e, tok->special[QN_SPECIAL_bos]);
    QN_TRY(qn__encode_text(e, text, len, options, err));
    if (ends && tok->model->flags & QN_MODEL_add_sep) { /* such a text ends with a separator, never with eos */
        if (tok->add_sep) qn__emit(e, tok->special[QN_SPECIAL_sep]);
    } else if (ends && tok->add_eos) {
        qn__emit(e, tok->special[QN_SPECIAL_eos]);
    }
    return e->failed ? QN_FAIL(err, nomem, "out of memory: ids of a text of %zu bytes", len) : QN_OK;
}

static qn_status check_spans(const qn_tokenize_options *options, size_t len, qn_error *err)
{
    size_t end = 0;
    for (size_t i = 0; i < options->n_plain; i++) {
        const qn_span s = options->plain[i];
        if (s.begin < end || s.end < s.begin || s.end > len)
            return QN_FAIL(err, invalid, "plain span %zu is [%zu, %zu); spans ascend within the text's %zu bytes", i,
                           s.begin, s.end, len);
        end = s.end;
    }
    return QN_OK;
}

qn_status qn_tokenize(const qn_tokenizer *tok, const char *text, size_t len, const qn_tokenize_options *options,
                      qn_token **out, size_t *n, qn_error *err)
{
    static const qn_tokenize_options defaults;
    if (len > QN_TEXT_MAX_BYTES)
        return QN_FAIL(err, limit, "a text of %zu bytes; at most %zu are tokenized in one call", len,
                       QN_TEXT_MAX_BYTES);
    if (!options) options = &defaults;
    QN_TRY(check_spans(options, len, err));
    qn_encoder e = {.tok = tok};
    qn_status status = encode_all(&e, text, len, options, err);
    if (status == QN_OK && !e.ids && !(e.ids = qn__alloc(sizeof *e.ids))) status = QN_FAIL_NOMEM(err, sizeof *e.ids);
    if (status == QN_OK) {
        *out = e.ids;
        *n = e.n;
        e.ids = NULL;
    }
    qn__encoder_deinit(&e);
    return status;
}

/* ---- looking up ---- */

int32_t qn_tokenizer_n_tokens(const qn_tokenizer *tok) { return tok->n_tokens; }
const char *qn_tokenizer_model(const qn_tokenizer *tok) { return tok->model->name; }
const char *qn_tokenizer_pre(const qn_tokenizer *tok) { return tok->pre; }

const char *qn_tokenizer_piece(const qn_tokenizer *tok, qn_token id, size_t *len)
{
    if (!qn__id_ok(tok, id)) return NULL;
    if (len) *len = tok->pieces[id].len;
    return tok->pieces[id].text;
}

qn_token_kind qn_tokenizer_kind(const qn_tokenizer *tok, qn_token id)
{
    return qn__id_ok(tok, id) ? (qn_token_kind)tok->pieces[id].kind : QN_KIND_UNDEFINED;
}

float qn_tokenizer_score(const qn_tokenizer *tok, qn_token id)
{
    return qn__id_ok(tok, id) ? tok->pieces[id].score : 0.0f;
}
qn_token qn_tokenizer_find(const qn_tokenizer *tok, const char *piece, size_t len)
{
    return qn__vocab_find(tok, piece, len);
}
qn_token qn_tokenizer_bos(const qn_tokenizer *tok) { return tok->special[QN_SPECIAL_bos]; }
qn_token qn_tokenizer_eos(const qn_tokenizer *tok) { return tok->special[QN_SPECIAL_eos]; }
qn_token qn_tokenizer_eot(const qn_tokenizer *tok) { return tok->special[QN_SPECIAL_eot]; }
qn_token qn_tokenizer_unk(const qn_tokenizer *tok) { return tok->special[QN_SPECIAL_unk]; }

qn_token qn_tokenizer_fim(const qn_tokenizer *tok, qn_fim which)
{
    static const qn_special roles[] = {
        [QN_FIM_prefix] = QN_SPECIAL_fim_pre, [QN_FIM_suffix] = QN_SPECIAL_fim_suf,
        [QN_FIM_middle] = QN_SPECIAL_fim_mid, [QN_FIM_repo] = QN_SPECIAL_fim_rep,
        [QN_FIM_file] = QN_SPECIAL_fim_sep,
    };
    return (unsigned)which < sizeof(roles) / sizeof(roles[0]) ? tok->special[roles[which]] : QN_TOKEN_NONE;
}

qn_token qn_tokenizer_sep(const qn_tokenizer *tok) { return tok->special[QN_SPECIAL_sep]; }
qn_token qn_tokenizer_pad(const qn_tokenizer *tok) { return tok->special[QN_SPECIAL_pad]; }
qn_token qn_tokenizer_nl(const qn_tokenizer *tok) { return tok->nl; }
bool qn_tokenizer_is_eog(const qn_tokenizer *tok, qn_token id) { return qn__id_ok(tok, id) && tok->pieces[id].eog; }
bool qn_tokenizer_add_bos(const qn_tokenizer *tok) { return tok->add_bos; }
bool qn_tokenizer_add_eos(const qn_tokenizer *tok) { return tok->add_eos; }
size_t qn_tokenizer_max_piece(const qn_tokenizer *tok) { return tok->max_output; }
