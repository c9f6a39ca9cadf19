/* SPDX-License-Identifier: MIT */
/* src/format/safetensors_index.c -- sharded models: NAME.safetensors.index.json has an object "weight_map" that gives
 * for each tensor the file it lies in. The files are opened from the index's own folder and nowhere else. */
#include "format/json.h"
#include "format/safetensors_file.h"
#include "base/str.h"
#include <string.h>

typedef struct weight {
    const char *name;  /* first, for the name index */
    const char *shard; /* file name */
    uint64_t at;
} weight;

typedef struct index_file {
    qn_json j;
    qn_safetensors *file;
    weight *weights;
    size_t n_weights, cap_weights;
    const char *shards[QN_SAFETENSORS_MAX_PARTS]; /* once each; in the order of the strings once all are known */
    int n_shards;
} index_file;

/* What makes a shard's name unusable, or NULL. A name with a slash could reach any file. */
static const char *shard_fault(const char *name, size_t len)
{
    const char *fault = qn__gguf_name_fault(name, len, 255);
    if (fault) return fault;
    if (memchr(name, '/', len) || memchr(name, '\\', len)) return "a slash";
    return name[0] == '.' ? "a dot at the start" : NULL;
}

static qn_status intern_shard(index_file *x, const qn_json_str *s, const char **out)
{
    size_t len = 0;
    char quoted[100];
    for (int i = x->n_shards; i-- > 0;) { /* neighbours mostly share theirs */
        if (strlen(x->shards[i]) != s->n || memcmp(x->shards[i], s->raw, s->n) != 0) continue;
        *out = x->shards[i];
        return QN_OK;
    }
    const char *name = qn__json_take(&x->file->arena, s, &len);
    if (!name) return QN_FAIL_NOMEM(x->j.err, s->n + 1);
    const char *fault = shard_fault(name, len);
    if (fault)
        return QN_JSON_BAD(&x->j, format, s->at,
                           "found %s in the file name \"%s\", expected the name of a file beside the index", fault,
                           qn__str_quote(quoted, sizeof quoted, name, len));
    for (int i = 0; i < x->n_shards; i++) { /* the same, spelled with escapes */
        if (strcmp(x->shards[i], name) != 0) continue;
        *out = x->shards[i];
        return QN_OK;
    }
    if (x->n_shards == QN_SAFETENSORS_MAX_PARTS)
        return QN_JSON_BAD(&x->j, limit, s->at, "found more files, expected at most %d", QN_SAFETENSORS_MAX_PARTS);
    x->shards[x->n_shards++] = name;
    *out = name;
    return QN_OK;
}

static qn_status read_weight(index_file *x, const qn_json_str *key)
{
    qn_json_str value;
    size_t len = 0;
    void *items = x->weights;
    QN_TRY(qn__gguf_grow(&items, &x->cap_weights, x->n_weights, sizeof *x->weights, x->j.err));
    x->weights = items;
    weight *w = &x->weights[x->n_weights];
    *w = (weight){.name = qn__json_take(&x->file->arena, key, &len), .at = key->at};
    if (!w->name) return QN_FAIL_NOMEM(x->j.err, key->n + 1);
    qn__gguf_subject(x->j.subject, "tensor", w->name, len < 200 ? len : 200);
    const char *fault = qn__gguf_name_fault(w->name, len, QN_SAFETENSORS_MAX_NAME);
    if (fault)
        return QN_JSON_BAD(&x->j, format, key->at,
                           "found %s in its name (%zu bytes), expected 1 to %d bytes of UTF-8 text", fault, len,
                           QN_SAFETENSORS_MAX_NAME);
    if (x->n_weights == QN_SAFETENSORS_MAX_TENSORS)
        return QN_JSON_BAD(&x->j, limit, key->at, "found more tensors, expected at most %zu",
                           QN_SAFETENSORS_MAX_TENSORS);
    QN_TRY(qn__json_string(&x->j, &value));
    QN_TRY(intern_shard(x, &value, &w->shard));
    x->n_weights++;
    return QN_OK;
}

static qn_status read_map(index_file *x)
{
    bool more;
    qn_json_str key;
    QN_TRY(qn__json_open(&x->j, '{'));
    for (;;) {
        QN_TRY(qn__json_next(&x->j, '{', &more));
        if (!more) return QN_OK;
        QN_TRY(qn__json_key(&x->j, &key));
        QN_TRY(read_weight(x, &key));
    }
}

static qn_status read_object(index_file *x)
{
    bool more, has_map = false;
    qn_json_str key;
    QN_TRY(qn__json_open(&x->j, '{'));
    for (;;) {
        strcpy(x->j.subject, "index");
        QN_TRY(qn__json_next(&x->j, '{', &more));
        if (!more) break;
        QN_TRY(qn__json_key(&x->j, &key));
        if (!qn__json_equals(&key, "weight_map")) {
            QN_TRY(qn__json_skip(&x->j));
            continue;
        }
        if (has_map) return QN_JSON_BAD(&x->j, format, key.at, "found \"weight_map\" again, expected it once");
        has_map = true;
        QN_TRY(read_map(x));
    }
    QN_TRY(qn__json_end(&x->j));
    if (!has_map || x->n_weights == 0)
        return QN_JSON_BAD(&x->j, format, (uint64_t)0, "found no tensors, expected an object \"weight_map\" of them");
    return QN_OK;
}

static bool shard_less(const void *ctx, size_t a, size_t b)
{
    const char *const *shards = ctx;
    return strcmp(shards[a], shards[b]) < 0;
}

static void shard_swap(void *ctx, size_t a, size_t b)
{
    const char **shards = ctx, *tmp = shards[a];
    shards[a] = shards[b];
    shards[b] = tmp;
}

static qn_status open_shards(index_file *x, const char *path)
{
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    qn__sort(x->shards, (size_t)x->n_shards, shard_less, shard_swap);
    for (int i = 0; i < x->n_shards; i++) {
        const char *shard = qn__arena_printf(&x->file->arena, "%.*s%s", folder, path, x->shards[i]);
        if (!shard) return QN_FAIL_NOMEM(x->j.err, strlen(path) + strlen(x->shards[i]));
        const qn_status status = qn__safetensors_add_part(x->file, shard, x->j.err);
        if (status != QN_OK) return qn__prefix(x->j.err, status, "part %d of %d", i + 1, x->n_shards);
    }
    return qn__safetensors_name(x->file, x->j.err);
}

/* Every tensor lies where the index says. Tensors of the shards that it does not name are there all the same. */
static qn_status check_weights(index_file *x)
{
    qn_name_index index;
    uint32_t first, second;
    QN_TRY(qn__names_build(&index, &x->file->arena, x->weights, sizeof *x->weights, x->n_weights, x->j.err));
    if (qn__names_twice(&index, &first, &second)) {
        const weight *w = &x->weights[second];
        qn__gguf_subject(x->j.subject, "tensor", w->name, strlen(w->name));
        return QN_JSON_BAD(&x->j, format, w->at, "found the same name as at offset %llu, expected each name once",
                           (unsigned long long)x->weights[first].at);
    }
    for (size_t i = 0; i < x->n_weights; i++) {
        const weight *w = &x->weights[i];
        const qn_safetensors_tensor *t = qn_safetensors_tensor_find(x->file, w->name);
        if (t && strcmp(x->shards[t->part], w->shard) == 0) continue;
        qn__gguf_subject(x->j.subject, "tensor", w->name, strlen(w->name));
        return QN_JSON_BAD(&x->j, format, w->at, "found it in %.80s%s, expected it in %.80s",
                           t ? "" : "none of the files", t ? x->shards[t->part] : "", w->shard);
    }
    return QN_OK;
}

static qn_status read_text(index_file *x, const char *path)
{
    const size_t good = qn__utf8_valid(x->j.text, x->j.size);
    if (good != x->j.size)
        return QN_JSON_BAD(&x->j, format, (uint64_t)good, "found byte 0x%02x, expected UTF-8",
                           (unsigned char)x->j.text[good]);
    QN_TRY(read_object(x));
    QN_TRY(open_shards(x, path));
    return check_weights(x);
}

qn_status qn__safetensors_read_index(qn_safetensors *file, const char *path, qn_error *err)
{
    char *text;
    size_t size;
    const char *label = qn__file_label(&file->arena, path);
    index_file *x = qn__calloc(1, sizeof *x);
    if (!label || !x) {
        qn__free(x);
        return QN_FAIL_NOMEM(err, sizeof *x);
    }
    qn_status status = qn__read_all(path, QN_SAFETENSORS_MAX_INDEX, &text, &size, err);
    if (status == QN_OK) {
        qn__json_init(&x->j, text, size, 0, label, err);
        strcpy(x->j.subject, "index");
        x->file = file;
        status = read_text(x, path);
        qn__free(x->weights);
        qn_free(text);
    }
    qn__free(x);
    return status;
}
