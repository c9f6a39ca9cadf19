/* SPDX-License-Identifier: MIT */
/* src/store/manifest.c -- the manifests of Ollama's models (those of container images): JSON with a list of layers,
 * each a media type, the digest of a blob and its size. What else stands in one is passed over. */
#include "format/gguf_file.h"
#include "format/json.h"
#include "store/store.h"
#include <string.h>

#define PREFIX "application/vnd.ollama.image."

/* "sha256:" or "sha256-" and 64 hexadecimal digits; everything else gives "": a digest becomes a file's name. */
static void read_digest(const qn_json_str *s, char hash[65])
{
    hash[0] = '\0';
    if (s->n != 71 || memcmp(s->raw, "sha256", 6) != 0 || !strchr(":-", s->raw[6])) return;
    for (size_t i = 0; i < 64; i++) {
        const char c = s->raw[7 + i], lower = c >= 'A' && c <= 'F' ? (char)(c + 32) : c;
        if (!(lower >= '0' && lower <= '9') && !(lower >= 'a' && lower <= 'f')) {
            hash[0] = '\0';
            return;
        }
        hash[i] = lower;
    }
    hash[64] = '\0';
}

static qn_status read_layer(qn_json *j, qn_arena *arena, qn_layer *layer)
{
    qn_json_str key, text;
    bool more;
    QN_TRY(qn__json_open(j, '{'));
    for (;;) {
        QN_TRY(qn__json_next(j, '{', &more));
        if (!more) return QN_OK;
        QN_TRY(qn__json_key(j, &key));
        if (qn__json_equals(&key, "mediaType")) {
            QN_TRY(qn__json_string(j, &text));
            layer->type = qn__json_take(arena, &text, NULL);
            if (!layer->type) return QN_FAIL_NOMEM(j->err, text.n + 1);
        } else if (qn__json_equals(&key, "digest")) {
            QN_TRY(qn__json_string(j, &text));
            read_digest(&text, layer->hash);
        } else if (qn__json_equals(&key, "size")) {
            QN_TRY(qn__json_u64(j, &layer->bytes));
        } else {
            QN_TRY(qn__json_skip(j));
        }
    }
}

static qn_status add_layer(qn_manifest *m, const qn_layer *layer, qn_arena *arena, size_t *cap, qn_error *err)
{
    if (m->n == *cap) {
        *cap = *cap ? *cap * 2 : 8;
        qn_layer *more = qn__arena_array(arena, *cap, sizeof *more);
        if (!more) return QN_FAIL_NOMEM(err, *cap * sizeof *more);
        if (m->n) memcpy(more, m->layers, m->n * sizeof *more);
        m->layers = more;
    }
    m->layers[m->n++] = *layer;
    return QN_OK;
}

static qn_status read_layers(qn_json *j, qn_arena *arena, qn_manifest *m)
{
    size_t cap = 0;
    bool more;
    m->layers = NULL;
    m->n = 0;
    QN_TRY(qn__json_open(j, '['));
    for (;;) {
        qn_layer layer = {0};
        QN_TRY(qn__json_next(j, '[', &more));
        if (!more) return QN_OK;
        QN_TRY(read_layer(j, arena, &layer));
        if (!layer.type || strncmp(layer.type, PREFIX, strlen(PREFIX)) != 0) continue;
        layer.type += strlen(PREFIX);
        QN_TRY(add_layer(m, &layer, arena, &cap, j->err));
    }
}

qn_status qn__manifest_parse(const char *text, size_t n, const char *label, qn_arena *arena, qn_manifest *out,
                             qn_error *err)
{
    qn_json j;
    qn_json_str key;
    bool more, found = false;
    qn_manifest m = {0};
    const size_t good = qn__utf8_valid(text, n);
    qn__json_init(&j, text, n, 0, label, err);
    strcpy(j.subject, "manifest");
    if (good < n) return QN_JSON_BAD(&j, format, good, "found bytes that are not UTF-8, expected JSON");
    QN_TRY(qn__json_open(&j, '{'));
    for (;;) {
        QN_TRY(qn__json_next(&j, '{', &more));
        if (!more) break;
        QN_TRY(qn__json_key(&j, &key));
        if (qn__json_equals(&key, "layers")) {
            QN_TRY(read_layers(&j, arena, &m));
            found = true;
        } else {
            QN_TRY(qn__json_skip(&j));
        }
    }
    QN_TRY(qn__json_end(&j));
    if (!found) return QN_JSON_BAD(&j, format, n, "found no \"layers\", expected a list of them");
    *out = m;
    return QN_OK;
}
