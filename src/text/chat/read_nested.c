/* SPDX-License-Identifier: MIT */
/* src/text/chat/read_nested.c -- values that are tags within tags: an object is a tag for each key, a list a tag for
 * each element, and everything else is text whose type the schema knows. */
#include "text/chat/reader.h"

#define MAX_DEPTH 32

typedef struct nested {
    qn_val root; /* of the schema */
    qn_mark open, named,
        close; /* before a key, behind it, and what ends its value: from close to named, with the key */
    const qn_sym *w;
    size_t n, at;
} nested;

static bool here(const nested *t, const qn_mark *m, const char *key, size_t key_len, size_t *len)
{
    return m->n && qn__mark_match(m, t->w + t->at, t->n - t->at, true, key, key_len, len, NULL) == QN_WHOLE_MATCH;
}

static void skip_space(nested *t)
{
    while (t->at < t->n && qn__sym_is_space(t->w[t->at])) t->at++;
}

static bool value(nested *t, const char *key, size_t key_len, qn_val schema, int depth, qn_str *out);

/* A tag's name, behind t->open; false: it has no end. */
static bool name(nested *t, qn_str *out)
{
    size_t len;
    qn__str_clear(out);
    for (; t->at < t->n; t->at++) {
        if (here(t, &t->named, "", 0, &len)) {
            t->at += len;
            return out->len;
        }
        qn__str_putc(out, (char)t->w[t->at]);
    }
    return false;
}

static bool children(nested *t, const char *key, size_t key_len, qn_val schema, int depth, qn_str *out)
{
    const int types = qn__schema_types(t->root, schema);
    schema = qn__schema_resolve(t->root, schema);
    const qn_val items = qn__member(schema, "items");
    qn_str inner = {0}, tag = {0};
    bool good = true, list = !types || (types & QN_TYPE_array);
    const size_t begin = t->at;
    size_t len;
    for (int pass = list ? 0 : 1; pass < 2; pass++) { /* as a list, unless another tag than item comes */
        qn__str_clear(&inner);
        t->at = begin;
        good = true;
        for (bool first = true; good && !here(t, &t->close, key, key_len, &len); first = false) {
            if (t->at == t->n && !key_len) break;
            good = here(t, &t->open, "", 0, &len);
            if (!good) break;
            t->at += len;
            good = name(t, &tag) && (pass || strcmp(tag.data, "item") == 0);
            if (!good) break;
            const qn_val of = pass ? qn__schema_property(schema, tag.data, tag.len) : items;
            if (!first) qn__str_puts(&inner, ", ");
            if (pass) {
                qn__str_putc(&inner, '"');
                for (size_t i = 0; i < tag.len; i++) qn__put_escaped(&inner, (unsigned char)tag.data[i]);
                qn__str_puts(&inner, "\": ");
            }
            good = value(t, tag.data, tag.len, of, depth + 1, &inner);
            skip_space(t);
        }
        if (good && inner.len) {
            qn__str_puts(out, pass ? "{" : "[");
            qn__str_append(out, inner.data, inner.len);
            qn__str_puts(out, pass ? "}" : "]");
            break;
        }
    }
    good &= inner.len > 0;
    out->failed |= inner.failed || tag.failed;
    qn__str_deinit(&inner);
    qn__str_deinit(&tag);
    return good;
}

/* What stands before the mark that ends `key`, which is taken. */
static bool value(nested *t, const char *key, size_t key_len, qn_val schema, int depth, qn_str *out)
{
    size_t len;
    const size_t begin = t->at;
    if (depth > MAX_DEPTH) return false;
    char *own = qn__alloc(key_len + 1); /* the caller's changes */
    if (!own) {
        out->failed = true;
        return false;
    }
    memcpy(own, key, key_len);
    skip_space(t);
    bool good = true;
    if (here(t, &t->open, "", 0, &len) && !here(t, &t->close, own, key_len, &len)) {
        good = children(t, own, key_len, schema, depth, out);
    } else {
        qn_str text = {0};
        t->at = begin;
        while (t->at < t->n && !here(t, &t->close, own, key_len, &len)) qn__str_putc(&text, (char)t->w[t->at++]);
        qn__value_json(out, text.data ? text.data : "", text.len, qn__schema_types(t->root, schema));
        out->failed |= text.failed;
        qn__str_deinit(&text);
    }
    if (good && key_len) {
        good = here(t, &t->close, own, key_len, &len);
        if (good) t->at += len;
    }
    qn__free(own);
    return good;
}

bool qn__nested_json(qn_chat_reader *r, qn_str *out)
{
    const qn_mark *next = &r->found->marks[QN_MARK_string_next], *named = &r->found->marks[QN_MARK_string_open];
    int at = 0;
    while (at < next->n && next->s[at] != QN_SYM_key) at++;
    const int behind = at + 1 + named->n;
    size_t len;
    if (behind >= next->n) return false;
    qn_sym *w = qn__alloc((r->held.len + 1) * sizeof *w);
    if (!w) {
        out->failed = true;
        return true;
    }
    for (size_t i = 0; i < r->held.len; i++) w[i] = (unsigned char)r->held.data[i];
    nested t = {.root = r->schema,
                .open = {.s = next->s + behind, .n = next->n - behind},
                .named = *named,
                .close = {.s = next->s, .n = behind},
                .w = w,
                .n = r->held.len};
    qn_str inner = {0};
    skip_space(&t);
    bool good = here(&t, &t.open, "", 0, &len) && children(&t, "", 0, r->value_schema, 0, &inner) && t.at == t.n;
    if (good) qn__str_append(out, inner.data, inner.len);
    out->failed |= inner.failed;
    qn__str_deinit(&inner);
    qn__free(w);
    return good;
}
