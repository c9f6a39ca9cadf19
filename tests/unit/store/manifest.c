/* SPDX-License-Identifier: MIT */
/* tests/unit/store/manifest.c -- Ollama's manifests, and the options beside a model. */
#include "store/store.h"
#include "unit/base/failing.h"
#include <stdio.h>

#define HASH      "0123456789abcdefABCDEF0123456789abcdefABCDEF0123456789abcdef0123"
#define LAYER(d)  "{\"mediaType\":\"application/vnd.ollama.image.model\",\"digest\":\"" d "\",\"size\":12}"
#define LAYERS(x) "{\"schemaVersion\":2,\"config\":{\"a\":[1,{}]},\"layers\":[" x "]}"

static qn_status parse(const char *text, qn_arena *arena, qn_manifest *m, qn_error *err)
{
    return qn__manifest_parse(text, strlen(text), "", arena, m, err);
}

static void digests(void **state)
{
    (void)state;
    static const char *const bad[] = {
        LAYERS(LAYER("")),
        LAYERS(LAYER("sha256:")),
        LAYERS(LAYER("sha256:../../../../../../../../../../../../../../../../../../../etc/passw")),
        LAYERS(LAYER("sha512:" HASH)),
        LAYERS(LAYER("sha256:" HASH "0")),
        LAYERS(LAYER("sha256/" HASH)),
        LAYERS(LAYER("sha256:g123456789abcdefABCDEF0123456789abcdefABCDEF0123456789abcdef0123")),
        LAYERS("{\"mediaType\":\"application/vnd.ollama.image.model\"}"),
    };
    qn_arena arena;
    qn_manifest m;
    qn_error err;
    qn__arena_init(&arena, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(parse(i ? LAYERS(LAYER("sha256-" HASH)) : LAYERS(LAYER("sha256:" HASH)), &arena, &m, &err),
                         QN_OK);
        assert_int_equal(m.n, 1);
        assert_string_equal(m.layers[0].type, "model");
        assert_string_equal(m.layers[0].hash, "0123456789abcdefabcdef0123456789abcdefabcdef0123456789abcdef0123");
        assert_int_equal(m.layers[0].bytes, 12);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(parse(bad[i], &arena, &m, &err), QN_OK);
        assert_string_equal(m.layers[0].hash, "");
    }
    qn__arena_deinit(&arena);
}

static void shapes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n; /* layers; -1: refused */
    } rows[] = {
        {LAYERS(""), 0},
        {LAYERS("{},{\"mediaType\":\"text/plain\"},{\"mediaType\":\"application/vnd.ollama.image.system\",\"x\":[[]]}"),
         1},
        {"{\"layers\":[],\"layers\":[{\"mediaType\":\"application/vnd.ollama.image.x\"}]}", 1},
        {"", -1},
        {"{}", -1},
        {"[]", -1},
        {"{\"layers\":{}}", -1},
        {"{\"layers\":[1]}", -1},
        {"{\"layers\":[{\"size\":-1}]}", -1},
        {"{\"layers\":[{\"size\":1e3}]}", -1},
        {"{\"layers\":[{\"digest\":7}]}", -1},
        {"{\"layers\":[]} x", -1},
        {"{\"layers\":[]", -1},
        {"{\"a\":\"\xff\",\"layers\":[]}", -1},
    };
    qn_arena arena;
    qn_manifest m;
    qn_error err;
    qn__arena_init(&arena, 0);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const qn_status status = parse(rows[i].text, &arena, &m, &err);
        if ((status == QN_OK) != (rows[i].n >= 0)) fail_msg("%s: %s", rows[i].text, status ? err.text : "accepted");
        if (status == QN_OK) assert_int_equal(m.n, rows[i].n);
        if (status != QN_OK) assert_int_equal(status, QN_STATUS_format);
    }
    qn__arena_deinit(&arena);
}

typedef struct seen {
    char text[256];
} seen;

static void note(void *ctx, const char *name, const char *value)
{
    seen *s = ctx;
    const size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s=%s;", name, value);
}

static void params(void **state)
{
    (void)state;
    static const struct {
        const char *text, *seen; /* NULL: refused */
    } rows[] = {
        {"{}", ""},
        {" { \"temperature\" : 0.60 , \"stop\":[\"<a>\",\"\\n\\u00e9\"],\"b\":true,\"n\":null,\"o\":{\"x\":1}} ",
         "temperature=0.60;stop=<a>;stop=\n\xc3\xa9;b=true;"},
        {"{\"a\":-1e5,\"l\":[1,[2],{\"x\":3},null,false]}", "a=-1e5;l=1;l=false;"},
        {"{\"s\":\"\"}", "s=;"},
        {"", NULL},
        {"[]", NULL},
        {"{\"a\":}", NULL},
        {"{\"a\":[}", NULL},
        {"{\"a\":1,}", NULL},
        {"{\"a\":01}", NULL},
        {"{\"a\":\"\xff\"}", NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        seen s = {""};
        qn_error err;
        const qn_status status = qn__params_parse(rows[i].text, strlen(rows[i].text), note, &s, &err);
        if ((status == QN_OK) != (rows[i].seen != NULL))
            fail_msg("%s: %s", rows[i].text, status ? err.text : "accepted");
        if (status == QN_OK) assert_string_equal(s.text, rows[i].seen);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(digests), cmocka_unit_test(shapes), cmocka_unit_test(params)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
