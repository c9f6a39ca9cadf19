/* SPDX-License-Identifier: MIT */
/* tests/unit/store/facts.c -- what metadata says, and what keys of the wrong type do not say. */
#include "store/store.h"
#include "unit/base/files.h"

static void facts_of(bool wrong, int file_type, qn_model_facts *out)
{
    qn_gguf_writer *w;
    qn_gguf *file;
    qn_error err;
    const char *path = in_scratch("facts.gguf");
    assert_int_equal(qn_gguf_writer_create(path, &w, &err), QN_OK);
    if (wrong)
        qn_gguf_write_u32(w, "general.name", 7);
    else
        qn_gguf_write_str(w, "general.name", "A\x1b[31mB");
    qn_gguf_write_str(w, "general.architecture", wrong ? "" : "llama");
    qn_gguf_write_str(w, "llama.context_length", wrong ? "many" : "many");
    qn_gguf_write_u64(w, "llama.block_count", 3);
    qn_gguf_write_array(w, "llama.attention.head_count_kv", QN_GGUF_u32, (const uint32_t[]){2, 8, 4}, 3);
    if (file_type >= 0) qn_gguf_write_u32(w, "general.file_type", (uint32_t)file_type);
    qn_gguf_write_strs(w, "tokenizer.ggml.tokens", (const qn_gguf_str[]){{"a", 1}, {"b", 1}}, 2);
    qn_gguf_declare(w, "t", QN_DTYPE_F16, &qn_shape_of(3, 5));
    qn_gguf_declare(w, "u", QN_DTYPE_F32, &qn_shape_of(2));
    const uint8_t zeros[30] = {0};
    qn_gguf_write_data(w, zeros, 30);
    qn_gguf_write_data(w, zeros, 8);
    assert_int_equal(qn_gguf_writer_commit(w, &err), QN_OK);
    assert_int_equal(qn_gguf_open(path, NULL, &file, &err), QN_OK);
    qn_model_read_facts(file, out);
    qn_gguf_close(file);
}

static void facts(void **state)
{
    (void)state;
    qn_model_facts f;
    scratch_make("t_store_facts");
    facts_of(false, 15, &f);
    assert_string_equal(f.kind, "model");
    assert_string_equal(f.name, "A\\x1b[31mB");
    assert_string_equal(f.arch, "llama");
    assert_string_equal(f.type, "Q4_K_M");
    assert_string_equal(f.license, "");
    assert_int_equal(f.n_params, 17);
    assert_int_equal(f.n_ctx_train, 0); /* a text is no number */
    assert_int_equal(f.n_layer, 3);
    assert_int_equal(f.n_kv_head, 8);
    assert_int_equal(f.n_vocab, 2);
    facts_of(false, 1024 + 7, &f);
    assert_string_equal(f.type, "Q8_0");
    facts_of(false, -1, &f);
    assert_string_equal(f.type, "F16"); /* most of its bytes */
    facts_of(false, 999, &f);
    assert_string_equal(f.type, "F16");
    facts_of(true, 0, &f);
    assert_string_equal(f.name, "");
    assert_string_equal(f.arch, "");
    assert_int_equal(f.n_layer, 0);
    remove_tree(scratch);
}

/* Small files of a store, of which one byte may be all. */
static void read_small_files(void **state)
{
    (void)state;
    qn_arena arena;
    qn_error err;
    scratch_make("t_store_read");
    qn__arena_init(&arena, 0);
    for (size_t size = 0; size < 4; size++) {
        const char *path = in_scratch("small");
        FILE *f = fopen(path, "wb");
        char *text = NULL;
        size_t n = 99;
        assert_non_null(f);
        assert_int_equal(fwrite("abc", 1, size, f), size);
        fclose(f);
        assert_int_equal(qn__store_read(path, 3, &arena, &text, &n, &err), QN_OK);
        assert_int_equal(n, size);
        assert_int_equal(strlen(text), size);
        assert_memory_equal(text, "abc", size);
        if (size > 0) assert_int_equal(qn__store_read(path, size - 1, &arena, &text, &n, &err), QN_STATUS_limit);
    }
    assert_int_equal(qn__store_read(in_scratch("none"), 3, &arena, &(char *){NULL}, &(size_t){0}, &err), QN_STATUS_io);
    qn__arena_deinit(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts), cmocka_unit_test(read_small_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
