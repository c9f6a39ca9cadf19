/* SPDX-License-Identifier: MIT */
/* A failing allocator under everything that reads and writes files: no half-written file, no temporary one, and what
 * stood there before still stands. */
#include "failing.h"
#include <quern/npy.h>

static int n_files;

static void nothing_new(void *ctx)
{
    (void)ctx;
    assert_int_equal(tiny_n_files(), n_files);
}

static const char *old_file(const char *name)
{
    FILE *f = fopen(tiny_path(name), "wb");
    assert_non_null(f);
    fputs("old", f);
    fclose(f);
    n_files = tiny_n_files();
    return tiny_path(name);
}

/* Untouched until the new one is whole. */
static void is_old_or_new(const char *path, bool renewed)
{
    char text[4] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(text, 1, 3, f), 3);
    fclose(f);
    if (renewed != (memcmp(text, "old", 3) != 0))
        fail_msg("%s %s", path, renewed ? "was not written" : "was touched by a failed write");
    if (renewed) (void)old_file(strrchr(path, '/') + 1);
}

static qn_status write_model(void *ctx, qn_error *err)
{
    const char *path = ctx;
    const qn_status status = tiny_write(path, &(tiny){.arch = "qwen3"}, err);
    is_old_or_new(path, status == QN_OK);
    return status;
}

static qn_status synth(void *ctx, qn_error *err)
{
    const char *path = ctx;
    const qn_synth_options o = {
        .arch = "qwen2", .n_layer = 1, .n_embd = 32, .n_head = 2, .n_ff = 32, .n_vocab = 300, .type = "Q8_0"};
    const qn_status status = qn_synth(path, &o, NULL, NULL, err);
    is_old_or_new(path, status == QN_OK);
    return status;
}

static char vocab_path[768];
static qn_status synth_with_vocabulary(void *ctx, qn_error *err)
{
    const char *path = ctx;
    const qn_synth_options o = {.n_layer = 1, .n_embd = 32, .n_head = 2, .n_ff = 32, .vocab = vocab_path};
    const qn_status status = qn_synth(path, &o, NULL, NULL, err);
    is_old_or_new(path, status == QN_OK);
    return status;
}

static qn_status write_array(void *ctx, qn_error *err)
{
    const char *path = ctx;
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    qn_npy_writer *w = NULL;
    qn_status status = qn_npy_writer_open(path, QN_DTYPE_F32, &qn_shape_of(2, 3), &w, err);
    if (status == QN_OK) {
        qn_npy_write(w, x, 6);
        status = qn_npy_writer_commit(w, err);
    }
    is_old_or_new(path, status == QN_OK);
    return status;
}

static void writing(void **state)
{
    (void)state;
    char path[768];
    MUST(tiny_write(tiny_path("vocab.gguf"), &(tiny){.tokenizer = "gpt2"}, err));
    snprintf(vocab_path, sizeof(vocab_path), "%s", tiny_path("vocab.gguf"));
    snprintf(path, sizeof(path), "%s", old_file("target"));
    fault_sweep("GGUF writer", write_model, nothing_new, path);
    fault_sweep("synth", synth, nothing_new, path);
    fault_sweep("synth with a vocabulary", synth_with_vocabulary, nothing_new, path);
    fault_sweep(".npy writer", write_array, nothing_new, path);
}

static qn_status read_model(void *ctx, qn_error *err)
{
    qn_gguf *file = NULL;
    qn_status status = qn_gguf_open(ctx, NULL, &file, err);
    if (status != QN_OK) {
        assert_null(file);
        return status;
    }
    status = qn_gguf_verify(file, NULL, NULL, err);
    if (status == QN_OK) status = qn_gguf_load(file, QN_GGUF_populate, NULL, NULL, err);
    qn_gguf_close(file);
    return status;
}

static void reading(void **state)
{
    (void)state;
    char path[768];
    snprintf(path, sizeof(path), "%s", tiny_path("r.gguf"));
    MUST(tiny_write(path, &(tiny){.type = QN_DTYPE_Q4_0, .n_embd = 64, .n_ff = 64}, err));
    fault_sweep("GGUF reader", read_model, NULL, path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(writing), cmocka_unit_test(reading)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
