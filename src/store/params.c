/* SPDX-License-Identifier: MIT */
/* src/store/params.c -- what Ollama keeps beside a model: a system prompt, and options as a JSON object. */
#include "format/gguf_file.h"
#include "format/json.h"
#include "store/store.h"
#include <string.h>

static qn_status named(qn_error *err, qn_status status, const char *path)
{
    char quoted[128];
    return status == QN_OK ? status
                           : qn__prefix(err, status, "%s", qn__str_quote(quoted, sizeof quoted, path, strlen(path)));
}

qn_status qn_store_read_system(const qn_store_model *model, char **out, qn_error *err)
{
    qn_arena arena;
    qn_str copy = {0};
    char *text = NULL;
    size_t n = 0;
    if (!model->system) {
        *out = NULL;
        return QN_OK;
    }
    qn__arena_init(&arena, 0);
    qn_status status = qn__store_read(model->system, QN_STORE_TEXT_BYTES, &arena, &text, &n, err);
    if (status == QN_OK && (qn__utf8_valid(text, n) < n || strlen(text) < n))
        status = QN_FAIL(err, format, "found bytes that are not text in UTF-8");
    if (status == QN_OK) {
        qn__str_append(&copy, text, n);
        char *taken = qn__str_take(&copy, NULL);
        if (!taken) status = QN_FAIL_NOMEM(err, n + 1);
        if (taken) *out = taken;
    }
    qn__str_deinit(&copy);
    qn__arena_deinit(&arena);
    return named(err, status, model->system);
}

/* One value that is no object: text decoded, anything else as it is written. */
static qn_status read_value(qn_json *j, const char *name, qn_arena *arena, qn_store_param_fn param, void *ctx)
{
    qn_json_str text;
    const char *value;
    while (j->pos < j->size && strchr(" \t\r\n", j->text[j->pos]) && j->text[j->pos]) j->pos++;
    if (j->pos < j->size && j->text[j->pos] == '"') {
        QN_TRY(qn__json_string(j, &text));
        value = qn__json_take(arena, &text, NULL);
    } else {
        const size_t begin = j->pos;
        QN_TRY(qn__json_skip(j));
        if (begin < j->size && strchr("{[n", j->text[begin]) && j->text[begin]) return QN_OK; /* nothing known is so */
        value = qn__arena_strndup(arena, j->text + begin, j->pos - begin);
    }
    if (!value) return QN_FAIL(j->err, nomem, "out of memory: options of a model");
    param(ctx, name, value);
    return QN_OK;
}

static qn_status read_list(qn_json *j, const char *name, qn_arena *arena, qn_store_param_fn param, void *ctx)
{
    bool more;
    QN_TRY(qn__json_open(j, '['));
    for (;;) {
        QN_TRY(qn__json_next(j, '[', &more));
        if (!more) return QN_OK;
        QN_TRY(read_value(j, name, arena, param, ctx));
    }
}

static qn_status read_all(qn_json *j, qn_arena *arena, qn_store_param_fn param, void *ctx)
{
    qn_json_str key;
    bool more;
    QN_TRY(qn__json_open(j, '{'));
    for (;;) {
        QN_TRY(qn__json_next(j, '{', &more));
        if (!more) return qn__json_end(j);
        QN_TRY(qn__json_key(j, &key));
        const char *name = qn__json_take(arena, &key, NULL);
        if (!name) return QN_FAIL_NOMEM(j->err, key.n + 1);
        while (j->pos < j->size && strchr(" \t\r\n", j->text[j->pos]) && j->text[j->pos]) j->pos++;
        if (j->pos < j->size && j->text[j->pos] == '[')
            QN_TRY(read_list(j, name, arena, param, ctx));
        else
            QN_TRY(read_value(j, name, arena, param, ctx));
    }
}

qn_status qn__params_parse(const char *text, size_t n, qn_store_param_fn param, void *ctx, qn_error *err)
{
    qn_arena arena;
    qn_json j;
    const size_t good = qn__utf8_valid(text, n);
    qn__json_init(&j, text, n, 0, "", err);
    strcpy(j.subject, "options");
    if (good < n) return QN_JSON_BAD(&j, format, good, "found bytes that are not UTF-8, expected JSON");
    qn__arena_init(&arena, 0);
    const qn_status status = read_all(&j, &arena, param, ctx);
    qn__arena_deinit(&arena);
    return status;
}

qn_status qn_store_read_params(const qn_store_model *model, qn_store_param_fn param, void *ctx, qn_error *err)
{
    qn_arena arena;
    char *text;
    size_t n;
    if (!model->params) return QN_OK;
    qn__arena_init(&arena, 0);
    qn_status status = qn__store_read(model->params, QN_STORE_TEXT_BYTES, &arena, &text, &n, err);
    if (status == QN_OK) status = qn__params_parse(text, n, param, ctx, err);
    qn__arena_deinit(&arena);
    return named(err, status, model->params);
}
