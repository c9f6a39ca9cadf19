/* SPDX-License-Identifier: MIT */
/* tests/fuzz/fuzz_files.c -- files that programs are handed besides models: .npy arrays, LoRA adapters for a small
 * model, checkpoints of a small training, log-probabilities of a text. The first byte says what: n, a, c, p are a good
 * file of that kind with the edits that the rest describes, N, A, C, P the rest as it is. What opens is used; what does
 * not leaves one line and everything as it was. Broken promises trap; leaks and bad accesses are the sanitizers'
 * business. */
#include <quern/array.h>
#include <quern/engine.h>
#include <quern/npy.h>
#include <quern/perplexity.h>
#include <quern/train.h>

#include "require.h"
#include "../unit/format/npy_whole.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE_LIMIT = 1 << 20 };
typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

static struct {
    qn_context *ctx;
    qn_trainer *trainer;
    qn_engine *engine;
    qn_session *session;
    bytes npy, adapter, checkpoint, logprobs; /* good ones */
} made;

/* ---- once: a text, a trainer of it, its export as the base of an adapter ---- */

static char folder[] = "/tmp/fuzz_files.XXXXXX";

static char *path_of(const char *name)
{
    static char path[2][64];
    static int turn;
    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static bytes taken(const char *name)
{
    bytes b = {malloc(SIZE_LIMIT), 0};
    FILE *f = fopen(path_of(name), "rb");
    REQUIRE(f && b.data);
    b.size = fread(b.data, 1, SIZE_LIMIT, f);
    REQUIRE(b.size > 0 && b.size < SIZE_LIMIT / 2);
    fclose(f);
    (void)unlink(path_of(name));
    return b;
}

static void must(qn_status status, const qn_error *err)
{
    if (status != QN_OK) fprintf(stderr, "%s\n", err->text);
    REQUIRE(status == QN_OK);
}

static void make_all(void)
{
    static const char *const words[] = {"the ", "cat ",    "sat ",       "on a ",   "mat. ", "every ",
                                        "dog ", "barks\n", "at night, ", "softly ", "and "};
    static char text[4096];
    const qn_train_options tiny = {.n_layer = 1,
                                   .n_embd = 16,
                                   .n_head = 2,
                                   .n_ctx = 8,
                                   .n_vocab = 288,
                                   .n_batch = 2,
                                   .n_steps = 4,
                                   .n_threads = 1};
    const qn_train_options more = {.n_ctx = 8, .n_batch = 2, .n_steps = 4, .n_threads = 1};
    qn_error err = {0};
    qn_trainer *lora;
    qn_train_step step;
    qn_train_eval eval;
    uint32_t state = 5;
    size_t n = 0;
    while (n < sizeof text - 16) {
        state = state * 1664525 + 1013904223;
        n += (size_t)sprintf(text + n, "%s", words[(state >> 16) % 11]);
    }
    const qn_gguf_str str = {text, n};
    REQUIRE(mkdtemp(folder));
    must(qn_trainer_create(&tiny, &str, 1, &made.trainer, &err), &err);
    must(qn_trainer_step(made.trainer, &step, &err), &err);
    must(qn_trainer_evaluate(made.trainer, &eval, &err), &err);
    must(qn_trainer_save(made.trainer, path_of("c"), &err), &err);
    must(qn_trainer_export(made.trainer, path_of("base"), NULL, NULL, &err), &err);
    const qn_lora_options options = {.base = path_of("base"), .rank = 2};
    must(qn_trainer_create_lora(&more, &options, &str, 1, &lora, &err), &err);
    must(qn_trainer_step(lora, &step, &err), &err);
    must(qn_trainer_export(lora, path_of("a"), NULL, NULL, &err), &err);
    qn_trainer_destroy(lora);
    must(qn_engine_open(path_of("base"), &(qn_engine_options){.n_threads = 1}, &made.engine, &err), &err);
    must(qn_context_create(&(qn_context_options){.n_threads = 1}, &made.ctx, &err), &err);
    qn_tensor *t = qn_arange(made.ctx, 0, 6, 1, QN_DTYPE_F32), *shaped = qn_view_as(t, qn_shape_of(2, 3));
    REQUIRE(shaped && qn_save_npy(shaped, path_of("n")) == QN_OK);
    qn_release(shaped);
    qn_release(t);
    made.checkpoint = taken("c");
    made.adapter = taken("a");
    made.npy = taken("n");
    qn_token ids[24];
    qn_perplexity_result result;
    for (int i = 0; i < 24; i++) ids[i] = i * 11;
    must(qn_session_create(made.engine, &(qn_session_options){.n_ctx = 8, .n_logits = 4}, &made.session, &err), &err);
    must(qn_perplexity(made.session, ids, 24, &(qn_perplexity_options){.n_ctx = 8, .save = path_of("p")}, &result,
                       &err),
         &err);
    made.logprobs = taken("p");
    (void)unlink(path_of("base"));
    (void)rmdir(folder);
}

/* ---- each ---- */

static void check_error(qn_status status, const qn_error *err)
{
    REQUIRE(status != QN_OK && status < QN_STATUS_COUNT && status != QN_STATUS_internal && status != QN_STATUS_nomem);
    REQUIRE(err->status == status && err->text[0] && !strchr(err->text, '\n') && strlen(err->text) < sizeof err->text);
}

static void use_npy(const uint8_t *data, size_t size, const char *path)
{
    qn_npy array;
    qn_error err = {0};
    qn_context_clear(made.ctx);
    qn_tensor *t = qn_load_npy(made.ctx, path);
    const qn_status status = qn__npy_parse(data, size, "x", SIZE_LIMIT, &array, &err);
    REQUIRE((t != NULL) == (status == QN_OK));
    if (t == NULL) {
        check_error(status, &err);
        check_error(qn_context_error(made.ctx)->status, qn_context_error(made.ctx));
        return;
    }
    REQUIRE(qn_dtype_of(t) == array.dtype && qn_numel(t) == qn_shape_numel(&array.shape) && array.bytes <= size);
    const qn_shape shape = qn_shape_get(t);
    REQUIRE(qn_shape_equal(&shape, &array.shape));
    char *text = qn_to_string(t);
    REQUIRE(text);
    qn_free(text);
    qn__npy_deinit(&array);
    qn_release(t);
}

static void use_adapter(const char *path)
{
    qn_lora *lora = NULL;
    qn_lora_info info;
    qn_error err = {0};
    const qn_status status = qn_lora_open(made.engine, path, &lora, &err);
    if (status != QN_OK) {
        check_error(status, &err);
        REQUIRE(!lora);
        return;
    }
    qn_lora_get_info(lora, &info);
    REQUIRE(info.n_pairs >= 0 && info.max_rank >= 0 && info.bytes <= SIZE_LIMIT && info.alpha >= 0);
    qn_lora_close(lora);
}

static void use_checkpoint(const char *path)
{
    qn_train_info before, after;
    qn_error err = {0};
    qn_trainer_get_info(made.trainer, &before);
    const qn_status status = qn_trainer_load(made.trainer, path, &err);
    qn_trainer_get_info(made.trainer, &after);
    REQUIRE(after.step >= 0 && after.best_step >= 0 && after.best_step <= after.step);
    if (status == QN_OK) return;
    check_error(status, &err);
    REQUIRE(after.step == before.step && after.best_step == before.best_step);
}

static void use_logprobs(const char *path)
{
    qn_perplexity_file_info info;
    qn_perplexity_result r;
    qn_error err = {0};
    const qn_status status = qn_perplexity_file_get_info(path, &info, &err);
    const qn_status run = qn_perplexity(made.session, NULL, 0, &(qn_perplexity_options){.file = path}, &r, &err);
    REQUIRE(qn_session_seq_len(made.session, 0) == 0);
    if (status != QN_OK) REQUIRE(run == status);
    if (run != QN_OK) {
        check_error(run, &err);
        return;
    }
    REQUIRE(info.n_ctx <= 9 && info.n_chunks == r.n_chunks_done && r.compared && r.n_tokens > 0 && r.ppl.value > 0);
}

/* Edits of four bytes: where (two), what, with what. */
static bytes edited(bytes from, const uint8_t *edits, size_t size)
{
    bytes b = {malloc(from.size + 64), from.size};
    REQUIRE(b.data);
    memcpy(b.data, from.data, from.size);
    for (size_t i = 0; i + 4 <= size && i < 4 * 32 && b.size > 0; i += 4) {
        const size_t at = ((size_t)edits[i] << 8 | edits[i + 1]) % b.size, rest = b.size - at,
                     cut = edits[i + 3] < rest ? edits[i + 3] : rest;
        switch (edits[i + 2] % 4) {
        case 0: b.data[at] = edits[i + 3]; break;
        case 1:
            memmove(b.data + at + 1, b.data + at, rest);
            b.data[at] = edits[i + 3];
            b.size++;
            break;
        case 2:
            memmove(b.data + at, b.data + at + cut, rest - cut);
            b.size -= cut;
            break;
        default: b.size = at; break;
        }
    }
    return b;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!made.ctx) make_all();
    if (size == 0) return 0;
    const int kind = tolower(data[0]);
    const bytes *good = kind == 'n'   ? &made.npy
                        : kind == 'a' ? &made.adapter
                        : kind == 'c' ? &made.checkpoint
                        : kind == 'p' ? &made.logprobs
                                      : NULL;
    if (!good) return 0;
    bytes b = data[0] == kind ? edited(*good, data + 1, size - 1)
                              : edited((bytes){(uint8_t *)(uintptr_t)(data + 1), size - 1}, NULL, 0);
    char path[32];
    const int fd = memfd_create("fuzz", 0);
    REQUIRE(fd >= 0 && write(fd, b.data, b.size) == (ssize_t)b.size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (kind == 'n')
        use_npy(b.data, b.size, path);
    else if (kind == 'a')
        use_adapter(path);
    else if (kind == 'p')
        use_logprobs(path);
    else
        use_checkpoint(path);
    close(fd);
    free(b.data);
    return 0;
}
