/* SPDX-License-Identifier: MIT */
/* tests/unit/engine/check.c -- whether a build runs a file is said of its header as opening it would say it. */
#include "rig.h"

/* A copy of `from` without the key and the tensor named, with `arch`, `tokenizer` and `pre` where they are given. */
typedef struct change {
    const char *arch, *tokenizer, *pre, *without_key, *without_tensor;
} change;

static void write_changed(const char *path, const qn_gguf *from, const change *c)
{
    qn_gguf_writer *w = NULL;
    MUST(qn_gguf_writer_create(path, &w, err));
    const struct {
        const char *key, *value;
    } texts[] = {{"general.architecture", c->arch},
                 {"tokenizer.ggml.model", c->tokenizer},
                 {"tokenizer.ggml.pre", c->pre},
                 {c->without_key, NULL}};
    for (size_t i = 0; i < qn_gguf_n_kv(from); i++) {
        const qn_gguf_kv *kv = qn_gguf_kv_get(from, i);
        bool copy = true;
        for (size_t k = 0; k < 4; k++)
            if (texts[k].key && strcmp(kv->key, texts[k].key) == 0) copy = k < 3 && !texts[k].value;
        if (copy) qn_gguf_write_kv(w, from, kv);
    }
    for (size_t k = 0; k < 3; k++)
        if (texts[k].value) qn_gguf_write_str(w, texts[k].key, texts[k].value);
    for (int data = 0; data < 2; data++)
        for (size_t i = 0; i < qn_gguf_n_tensors(from); i++) {
            const qn_gguf_tensor *t = qn_gguf_tensor_get(from, i);
            if (c->without_tensor && strcmp(t->name, c->without_tensor) == 0) continue;
            if (data)
                qn_gguf_write_data(w, t->data, t->size_bytes);
            else
                qn_gguf_declare(w, t->name, t->dtype, &t->shape);
        }
    MUST(qn_gguf_writer_commit(w, err));
}

static void as_opening_says(void **state)
{
    (void)state;
    static const struct {
        change c;
        qn_status status;
        const char *text;
    } rows[] = {
        {{.pre = "qwen2"}, QN_OK, ""},
        {{.arch = "gpt1"}, QN_STATUS_unsupported, "gpt1"},
        {{.tokenizer = "cuneiform"}, QN_STATUS_unsupported, "cuneiform"},
        {{.tokenizer = "gpt2", .pre = "no-such-pre"}, QN_STATUS_unsupported, "no-such-pre"},
        {{.without_tensor = "blk.1.attn_q.weight"}, QN_STATUS_format, "blk.1.attn_q.weight"},
        {{.without_key = "llama.block_count"}, QN_STATUS_format, "block_count"},
        {{.without_key = "general.architecture"}, QN_STATUS_format, "general.architecture"},
        {{.without_key = "tokenizer.ggml.model"}, QN_STATUS_format, "tokenizer.ggml.model"},
    };
    const char *path = tiny_path("check.gguf");
    qn_gguf *from = NULL, *file = NULL;
    MUST(tiny_write(tiny_path("from.gguf"), &(tiny){.arch = "llama"}, err));
    MUST(qn_gguf_open(tiny_path("from.gguf"), NULL, &from, err));
    MUST(qn_engine_check(from, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_error said = {0};
        qn_engine *e = NULL;
        write_changed(path, from, &rows[i].c);
        MUST(qn_gguf_open(path, NULL, &file, err));
        const qn_status status = qn_engine_check(file, &said);
        if (status != rows[i].status || !strstr(said.text, rows[i].text)) fail_msg("row %zu: %s", i, said.text);
        const bool about_tokens = strstr(rows[i].text, "tokenizer") || rows[i].c.tokenizer;
        assert_int_equal(qn_tokenizer_check(file, &said), about_tokens ? status : QN_OK);
        qn_gguf_close(file);
        const qn_status opened = qn_engine_open(path, &(qn_engine_options){.n_threads = 1}, &e, &said);
        assert_int_equal(opened, status);
        qn_engine_close(e);
    }
    qn_gguf_close(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_opening_says)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
