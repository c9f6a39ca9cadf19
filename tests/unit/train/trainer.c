/* SPDX-License-Identifier: MIT */
/* tests/unit/train/trainer.c -- training: the loss falls, the same losses come whatever the threads and wherever a run
 * is interrupted, only the first step allocates, and what is wrong is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <quern/engine.h>
#include <quern/gguf.h>
#include <quern/safetensors.h>
#include <quern/train.h>

#include "train/train.h"
#include "unit/base/failing.h"

enum { TEXT_BYTES = 12000 };

/* Words that follow each other by rule: there is something to learn. */
static qn_gguf_str make_text(void)
{
    static const char *const words[] = {"the ", "cat ",    "sat ",       "on a ",   "mat. ", "every ",
                                        "dog ", "barks\n", "at night, ", "softly ", "and "};
    static char text[TEXT_BYTES];
    size_t n = 0;
    uint32_t state = 5, at = 0;
    while (n < TEXT_BYTES - 16) {
        state = state * 1664525 + 1013904223;
        at = (at * 3 + 1 + (state >> 30)) % 11;
        n += (size_t)sprintf(text + n, "%s", words[at]);
    }
    return (qn_gguf_str){text, n};
}

static const qn_train_options tiny = {
    .n_layer = 2,
    .n_embd = 32,
    .n_head = 4,
    .n_kv_head = 2,
    .n_ctx = 24,
    .n_vocab = 300,
    .n_batch = 4,
    .n_accum = 2,
    .n_steps = 12,
    .dropout = 0.1f,
    .seed = 7,
    .n_threads = 1,
};

static qn_trainer *create(const qn_train_options *o)
{
    const qn_gguf_str text = make_text();
    qn_trainer *t = NULL;
    qn_error err;
    if (qn_trainer_create(o, &text, 1, &t, &err) != QN_OK) fail_msg("%s", err.text);
    return t;
}

static double step(qn_trainer *t)
{
    qn_train_step s;
    qn_error err;
    if (qn_trainer_step(t, &s, &err) != QN_OK) fail_msg("%s", err.text);
    return s.loss + s.grad_norm;
}

static double evaluate(qn_trainer *t)
{
    qn_train_eval e;
    qn_error err;
    if (qn_trainer_evaluate(t, &e, &err) != QN_OK) fail_msg("%s", err.text);
    return e.bits_per_byte;
}

/* Windows come in the order that the seed gives, in every version: a checkpoint goes on with the data it was at. Each
 * epoch shows every token once (but for the rest of a window), and another order. */
static void windows_of_a_seed(void **state)
{
    (void)state;
    qn_token tokens[50];
    int32_t order[7], ids[7], targets[7];
    qn_train_data d = {.tokens = tokens,
                       .n_tokens = 50,
                       .n_windows = 7,
                       .n_ctx = 7,
                       .seed = 3,
                       .epoch = -1,
                       .begin = 99,
                       .order = order};
    static const int first[2][7] = {{17, 2, 38, 9, 24, 31, 45}, {38, 10, 3, 17, 31, 46, 24}};
    for (int i = 0; i < 50; i++) tokens[i] = i;
    for (int epoch = 0; epoch < 2; epoch++) {
        int seen[50] = {0}, n = 0;
        for (int w = 0; w < 7; w++) {
            qn__train_window(&d, epoch * 7 + w, ids, targets, NULL);
            assert_int_equal(ids[0], 99);
            assert_int_equal(targets[0], first[epoch][w]);
            for (int i = 0; i < 7; i++) {
                assert_int_equal(targets[i], (targets[0] + i) % 50);
                if (i) assert_int_equal(ids[i], targets[i - 1]);
                n += seen[targets[i]]++ == 0;
            }
        }
        assert_int_equal(n, 49);
    }
}

/* The caller's text of devices may be gone once there is a trainer. */
static void options_are_kept(void **state)
{
    (void)state;
    char backend[] = "cpu", arch[] = "llama";
    qn_train_options o = tiny;
    o.backend = backend;
    o.arch = arch;
    qn_trainer *t = create(&o);
    memset(backend, 'x', sizeof backend - 1);
    memset(arch, 'x', sizeof arch - 1);
    assert_string_equal(qn_trainer_options(t)->backend, "cpu");
    assert_string_equal(qn_trainer_options(t)->arch, "llama");
    qn_trainer_destroy(t);
}

/* A checkpoint written or read leaves no handles behind. */
static void checkpoints_leave_nothing(void **state)
{
    (void)state;
    const char *path = QN_BUILD_DIR "/t_train_trainer_handles.safetensors";
    qn_trainer *t = create(&tiny);
    qn_context_info first = {0}, now;
    (void)step(t);
    for (int i = 0; i < 3; i++) {
        qn_error err;
        if (qn_trainer_save(t, path, &err) != QN_OK) fail_msg("%s", err.text);
        if (qn_trainer_load(t, path, &err) != QN_OK) fail_msg("%s", err.text);
        qn_context_get_info(t->ctx, &now);
        if (i == 0) first = now;
        assert_int_equal(now.n_tensors, first.n_tensors);
        assert_int_equal(now.n_storages, first.n_storages);
    }
    unlink(path);
    qn_trainer_destroy(t);
}

static void learns(void **state)
{
    (void)state;
    qn_train_options o = tiny;
    o.n_steps = 60;
    o.lr = 5e-3f;
    o.dropout = 0;
    o.tied = true;
    qn_trainer *t = create(&o);
    const double before = evaluate(t);
    qn_metrics early, late;
    for (int i = 0; i < 60; i++) {
        if (i == 1) qn_metrics_snapshot(&early);
        (void)step(t);
    }
    qn_metrics_snapshot(&late);
    const double after = evaluate(t);
    qn_train_info info;
    qn_trainer_get_info(t, &info);
    printf("%.3f -> %.3f bits per byte\n", before, after);
    assert_true(before > 3 && after < before / 2);
    assert_int_equal(late.allocs, early.allocs);
    assert_int_equal(late.plan_cache_misses, early.plan_cache_misses);
    assert_int_equal(info.best_step, 60);
    assert_true(info.best_bits_per_byte == after);
    assert_int_equal(info.n_held_bytes + info.n_bytes, (int64_t)make_text().len);
    qn_error err;
    qn_train_step s;
    assert_int_equal(qn_trainer_step(t, &s, &err), QN_STATUS_state);
    qn_trainer_destroy(t);
}

/* The second step finds the first one's graphs and memory, also in a trainer that goes on from a file, and with
 * evaluations between. */
static void nothing_new_case(const qn_train_options *with, int n_accum, float dropout, float grad_clip, bool resumed)
{
    char path[] = QN_BUILD_DIR "/t_train_trainer_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    qn_train_options o = *with;
    o.n_accum = n_accum, o.dropout = dropout, o.grad_clip = grad_clip, o.n_threads = 2;
    qn_trainer *t = create(&o);
    qn_error err;
    if (resumed) {
        (void)step(t);
        if (qn_trainer_save(t, path, &err) != QN_OK) fail_msg("%s", err.text);
        qn_trainer_destroy(t);
        t = create(&o);
        if (qn_trainer_load(t, path, &err) != QN_OK) fail_msg("%s", err.text);
    }
    (void)step(t);
    qn_metrics first, last, evaluated;
    qn_metrics_snapshot(&first);
    (void)step(t);
    (void)step(t);
    qn_metrics_snapshot(&last);
    assert_int_equal(last.allocs, first.allocs);
    assert_int_equal(last.plan_cache_misses, first.plan_cache_misses);
    assert_int_equal(last.plan_cache_hits - first.plan_cache_hits, 2 * n_accum);
    /* the first evaluation makes its graph and room for the best weights, and no more comes */
    for (int i = 0; i < 5; i++) {
        (void)evaluate(t);
        if (i == 0) qn_metrics_snapshot(&evaluated);
        (void)step(t);
    }
    qn_metrics_snapshot(&last);
    assert_int_equal(last.allocs, evaluated.allocs);
    assert_int_equal(last.plan_cache_misses, evaluated.plan_cache_misses);
    qn_trainer_destroy(t);
    unlink(path);
}

static void nothing_new_from_step_2(void **state)
{
    (void)state;
    for (int n_accum = 1; n_accum <= 3; n_accum++) {
        nothing_new_case(&tiny, n_accum, 0, 1, false);
        nothing_new_case(&tiny, n_accum, 0.1f, -1, n_accum == 2);
        nothing_new_case(&tiny, n_accum, 0, 0.01f, true);
    }
    for (int lean = 1; lean < 4; lean++) {
        qn_train_options o = tiny;
        o.grad_checkpointing = lean & 1;
        o.bf16 = lean >> 1;
        nothing_new_case(&o, 2, 0.1f, 1, lean == 3);
    }
}

/* Three trainers: straight through, with three threads, and one that is left in the middle for another to go on. */
static void same_losses_of(const char *arch)
{
    char path[] = QN_BUILD_DIR "/t_train_trainer_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    qn_train_options o = tiny;
    o.arch = arch;
    qn_trainer *a = create(&o), *c = create(&o);
    o.n_threads = 3;
    qn_trainer *b = create(&o), *d = NULL;
    qn_error err;
    for (int i = 0; i < 12; i++) {
        if (i == 5) { /* in the middle of the second evaluation's stretch, with a best behind it */
            if (qn_trainer_save(c, path, &err) != QN_OK) fail_msg("%s", err.text);
            qn_trainer_destroy(c);
            c = NULL;
            d = create(&o);
            if (qn_trainer_load(d, path, &err) != QN_OK) fail_msg("%s", err.text);
            qn_train_info want, have; /* the best so far is back before anything is evaluated */
            qn_trainer_get_info(a, &want);
            qn_trainer_get_info(d, &have);
            assert_int_equal(have.best_step, want.best_step);
            assert_true(have.best_bits_per_byte == want.best_bits_per_byte && want.best_step > 0);
        }
        const double la = step(a), lb = step(b), lc = step(c ? c : d);
        assert_true(la == lb);
        assert_true(la == lc);
        if (i % 4 == 3) {
            const double ea = evaluate(a);
            assert_true(ea == evaluate(b));
            assert_true(ea == evaluate(c ? c : d));
        }
    }
    qn_train_info ia, id;
    qn_trainer_get_info(a, &ia);
    qn_trainer_get_info(d, &id);
    assert_int_equal(ia.best_step, id.best_step);
    assert_true(ia.best_bits_per_byte == id.best_bits_per_byte && ia.best_step > 0);
    assert_int_equal(ia.step, id.step);
    qn_trainer_destroy(a);
    qn_trainer_destroy(b);
    qn_trainer_destroy(d);
    unlink(path);
}

static void same_losses(void **state)
{
    (void)state;
    same_losses_of(NULL);
    same_losses_of("gemma2");
    same_losses_of("gpt2");
}

/* ---- less memory ---- */

static const qn_train_options deep = {
    .n_layer = 6,
    .n_embd = 32,
    .n_head = 4,
    .n_ctx = 64,
    .n_vocab = 300,
    .n_batch = 8,
    .n_steps = 12,
    .dropout = 0.1f,
    .seed = 7,
    .n_threads = 1,
};

enum { DEEP_STEPS = 5 };

/* Losses of steps, and the most memory that there was. */
static uint64_t losses_of(const qn_train_options *o, double *losses)
{
    qn_metrics m;
    qn_metrics_reset();
    qn_trainer *t = create(o);
    for (int i = 0; i < DEEP_STEPS; i++) losses[i] = step(t);
    losses[DEEP_STEPS] = evaluate(t);
    qn_metrics_snapshot(&m);
    qn_trainer_destroy(t);
    return m.peak_bytes;
}

/* Layers computed again in backward give the same losses, to the bit, in less memory; a run may change over to that. */
static void grad_checkpointing(void **state)
{
    (void)state;
    char path[] = QN_BUILD_DIR "/t_train_trainer_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    double kept[DEEP_STEPS + 1], again[DEEP_STEPS + 1];
    qn_train_options o = deep;
    const uint64_t all = losses_of(&o, kept);
    qn_trainer *t = create(&o);
    qn_error err;
    for (int i = 0; i < 2; i++) (void)step(t);
    if (qn_trainer_save(t, path, &err) != QN_OK) fail_msg("%s", err.text);
    qn_trainer_destroy(t);
    o.grad_checkpointing = true;
    const uint64_t less = losses_of(&o, again);
    printf("%.2f MiB, with grad-checkpointing %.2f\n", (double)all / (1 << 20), (double)less / (1 << 20));
    assert_memory_equal(kept, again, sizeof kept);
    assert_true((double)less < 0.65 * (double)all);
    t = create(&o);
    if (qn_trainer_load(t, path, &err) != QN_OK) fail_msg("%s", err.text);
    for (int i = 2; i < DEEP_STEPS; i++) assert_true(step(t) == kept[i]);
    qn_trainer_destroy(t);
    unlink(path);
}

/* In BF16 the loss falls as it does in F32, the file of an interrupted run has the masters, and one of another type is
 * refused. */
static void bf16(void **state)
{
    (void)state;
    char path[] = QN_BUILD_DIR "/t_train_trainer_XXXXXX", model[] = QN_BUILD_DIR "/t_train_trainer_bf16.gguf";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    qn_train_options o = tiny;
    o.n_steps = 60, o.lr = 5e-3f;
    qn_trainer *a = create(&o);
    o.bf16 = true;
    qn_trainer *b = create(&o), *c = create(&o), *d = NULL;
    qn_error err;
    double most = 0, before = 0, after = 0;
    for (int i = 0; i < 60; i++) {
        qn_train_step sa, sb, sc;
        assert_int_equal(qn_trainer_step(a, &sa, &err), QN_OK);
        assert_int_equal(qn_trainer_step(b, &sb, &err), QN_OK);
        if (i == 7) {
            if (qn_trainer_save(c, path, &err) != QN_OK) fail_msg("%s", err.text);
            d = create(&o);
            if (qn_trainer_load(d, path, &err) != QN_OK) fail_msg("%s", err.text);
        }
        if (i < 12) {
            assert_int_equal(qn_trainer_step(d ? d : c, &sc, &err), QN_OK);
            assert_true(sc.loss == sb.loss && sc.grad_norm == sb.grad_norm);
        }
        most = fmax(most, fabs(sa.loss - sb.loss));
        if (i == 0) before = sb.loss;
        after = sb.loss;
    }
    printf("BF16: loss %.3f -> %.3f, at most %.4f from F32's\n", before, after, most);
    assert_true(most > 0 && most < 0.02 && after < 0.5 * before);
    assert_int_equal(qn_trainer_load(a, path, &err), QN_STATUS_format);
    assert_non_null(strstr(err.text, "is BF16 [300,32], F32 [300,32] expected"));
    assert_true(fabs(evaluate(a) - evaluate(b)) < 0.02);
    for (int best = 0; best < 2; best++) { /* of the last weights, and of the best */
        qn_gguf *f = NULL;
        if (qn_trainer_export(best ? b : d, model, "BF16", NULL, &err) != QN_OK) fail_msg("%s", err.text);
        if (qn_gguf_open(model, NULL, &f, &err) != QN_OK) fail_msg("%s", err.text);
        const qn_gguf_tensor *w = qn_gguf_tensor_find(f, "blk.0.attn_q.weight");
        assert_int_equal(w->dtype, QN_DTYPE_BF16);
        const uint16_t *x = w->data;
        int n_zero = 0;
        for (int i = 0; i < 32 * 32; i++) n_zero += (x[i] & 0x7fff) < 0x3000 || (x[i] & 0x7fff) > 0x4100; /* 5e-10, 8 */
        assert_true(n_zero < 8);
        qn_gguf_close(f);
    }
    qn_trainer *const all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) qn_trainer_destroy(all[i]);
    unlink(path);
    unlink(model);
}

/* ---- less than it takes ---- */

static void same_files(const char *a, const char *b)
{
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    char x[4096], y[4096];
    size_t n;
    assert_true(f && g);
    do {
        n = fread(x, 1, sizeof x, f);
        assert_int_equal(fread(y, 1, sizeof y, g), n);
        assert_memory_equal(x, y, n);
    } while (n > 0);
    fclose(f);
    fclose(g);
}

static void save(qn_trainer *t, const char *path)
{
    qn_error err;
    if (qn_trainer_save(t, path, &err) != QN_OK) fail_msg("%s", err.text);
}

#define LEAN_PATH(name) QN_BUILD_DIR "/t_train_trainer_lean_" name ".safetensors"

/* Wherever memory ends in a step, all of the trainer is as it was, and tried again with memory the step is the one that
 * it would have been. */
static void lean_case(qn_train_options o)
{
    qn_error err;
    qn_trainer *t = create(&o);
    (void)step(t);
    save(t, LEAN_PATH("before"));
    const double loss = step(t);
    save(t, LEAN_PATH("after"));
    qn_trainer_destroy(t);
    int n_failed = 0;
    qn_status status = QN_STATUS_nomem;
    for (double room = 256 << 10; status != QN_OK; room *= 1.1) {
        qn_train_step s;
        books_open(-1);
        t = create(&o);
        if (qn_trainer_load(t, LEAN_PATH("before"), &err) != QN_OK) fail_msg("%s", err.text);
        books.limit = books.bytes + (long long)room;
        status = qn_trainer_step(t, &s, &err);
        books.limit = 0;
        if (status != QN_OK) {
            if (status != QN_STATUS_nomem) fail_msg("%.0f bytes: %s", room, err.text);
            save(t, LEAN_PATH("have"));
            same_files(LEAN_PATH("before"), LEAN_PATH("have"));
            assert_true(step(t) == loss);
            n_failed++;
        } else {
            assert_true(s.loss + s.grad_norm == loss);
        }
        save(t, LEAN_PATH("have"));
        same_files(LEAN_PATH("after"), LEAN_PATH("have"));
        qn_trainer_destroy(t);
        books_close();
    }
    printf("%d steps out of memory\n", n_failed);
    assert_true(n_failed > 10);
    unlink(LEAN_PATH("before"));
    unlink(LEAN_PATH("after"));
    unlink(LEAN_PATH("have"));
}

static void steps_out_of_memory(void **state)
{
    (void)state;
    qn_train_options o = deep;
    o.n_layer = 4, o.n_embd = 64, o.n_ctx = 32;
    o.lr = o.min_lr = 1e-3f; /* a file has the rate of the last attempt */
    lean_case(o);
    o.n_accum = 2, o.bf16 = true;
    lean_case(o);
}

static void refused(const qn_train_options *o, const char *text, qn_status want, const char *words)
{
    const qn_gguf_str one = {text, strlen(text)};
    qn_trainer *t = NULL;
    qn_error err = {0};
    assert_int_equal(qn_trainer_create(o, &one, 1, &t, &err), want);
    assert_null(t);
    if (!strstr(err.text, words)) fail_msg("\"%s\" lacks \"%s\"", err.text, words);
}

static void bad_options(void **state)
{
    (void)state;
    const char *text = make_text().data;
    qn_train_options o = tiny;
    refused(&o, "", QN_STATUS_invalid, "empty");
    o.n_vocab = 0;
    refused(&o, "too short", QN_STATUS_invalid, "a window (ctx) is 24");
    o.n_vocab = 5000;
    refused(&o, text, QN_STATUS_invalid, "vocab-size is 5000");
#define WITH(field_value, words) (o = tiny, o.field_value, refused(&o, text, QN_STATUS_invalid, words))
    WITH(n_embd = 30, "embd is 30");
    WITH(n_kv_head = 3, "kv-heads is 3");
    WITH(n_layer = -1, "layers is -1");
    WITH(n_layer = 1000, "layers is 1000");
    WITH(lr = 100, "lr is 100");
    WITH(lr = NAN, "lr is");
    WITH(min_lr = 1, "min-lr is 1");
    WITH(dropout = 1, "dropout is 1");
    WITH(n_threads = 1000, "threads is 1000");
    WITH(arch = "llama9", "architecture \"llama9\" is not known");
    o = tiny, o.arch = "olmoe";
    refused(&o, text, QN_STATUS_unsupported, "this olmoe is a mixture of experts; linear_experts has no gradient");
    o.arch = "bert";
    refused(&o, text, QN_STATUS_unsupported, "bert has no output matrix");
    o = tiny;
    o.n_embd = 16384, o.n_ff = 65536, o.n_layer = 256, o.n_head = 128, o.n_kv_head = 128;
    refused(&o, text, QN_STATUS_limit, "this machine has");
    o = tiny;
    o.eval_fraction = -1;
    qn_trainer *t = create(&o);
    qn_train_eval e;
    qn_error err;
    assert_int_equal(qn_trainer_evaluate(t, &e, &err), QN_STATUS_state);
    assert_int_equal(qn_trainer_export(t, "/nonexistent/x.gguf", NULL, NULL, &err), QN_STATUS_io);
    assert_int_equal(qn_trainer_export(t, QN_BUILD_DIR "/t_train_trainer_x.gguf", "Q9", NULL, &err),
                     QN_STATUS_unsupported);
    qn_trainer_destroy(t);
}

/* Listed are those of which a trainer can be made, and no others. */
static void architectures_are_those_that_train(void **state)
{
    (void)state;
    int n = 0, n_listed = 0;
    for (const char *const *name = qn_train_architectures(); *name; name++) n_listed++;
    for (const char *const *name = qn_architectures(); *name; name++) {
        const char *const *listed = qn_train_architectures();
        while (*listed && strcmp(*listed, *name) != 0) listed++;
        qn_train_options o = tiny;
        o.arch = *name;
        const qn_gguf_str text = make_text();
        qn_trainer *t = NULL;
        qn_error err = {0};
        const qn_status status = qn_trainer_create(&o, &text, 1, &t, &err);
        if ((status == QN_OK) != (*listed != NULL))
            fail_msg("%s is %slisted: %s", *name, *listed ? "" : "not ", status == QN_OK ? "it trains" : err.text);
        qn_trainer_destroy(t);
        n += status == QN_OK;
    }
    assert_int_equal(n, n_listed);
    assert_true(n > 40);
}

/* ---- whose a checkpoint is ---- */

#define OLD_PATH QN_BUILD_DIR "/t_train_trainer_old.safetensors"
#define NEW_PATH QN_BUILD_DIR "/t_train_trainer_new.safetensors"

static qn_trainer *adapter(const char *base, int32_t rank, float alpha, const char *targets)
{
    const qn_train_options o = {.n_ctx = 24, .n_batch = 4, .n_steps = 12, .n_threads = 1};
    const qn_gguf_str text = make_text();
    qn_trainer *t = NULL;
    qn_error err;
    const qn_lora_options lora = {.base = base, .rank = rank, .alpha = alpha, .targets = targets};
    if (qn_trainer_create_lora(&o, &lora, &text, 1, &t, &err) != QN_OK) fail_msg("%s", err.text);
    return t;
}

static qn_trainer *shaped(const char *template, const qn_special_token *special)
{
    const qn_gguf_str text = make_text();
    const qn_train_corpus c = {
        .texts = &text, .n_texts = 1, .chat_template = template, .special = special, .n_special = special != NULL};
    qn_trainer *t = NULL;
    qn_error err;
    if (qn_trainer_create_corpus(&tiny, NULL, &c, &t, &err) != QN_OK) fail_msg("%s", err.text);
    return t;
}

/* The file loads, or is refused in these words. Ends the trainer. */
static void belongs(qn_trainer *t, const char *path, const char *text)
{
    qn_error err = {0};
    const qn_status status = qn_trainer_load(t, path, &err);
    if (text ? status != QN_STATUS_invalid || !strstr(err.text, text) : status != QN_OK)
        fail_msg("%s, \"%s\", where \"%s\" is expected", qn_status_name(status), err.text, text ? text : "");
    qn_trainer_destroy(t);
}

/* The file as it was written when one hash stood for all. */
static void write_old(const qn_trainer *t, const char *from, const char *to)
{
    static const char *const keys[] = {"format", "options", "step"};
    char hash[32];
    qn_safetensors *f = NULL;
    qn_safetensors_writer *w = NULL;
    assert_int_equal(qn_safetensors_open(from, NULL, &f, NULL), QN_OK);
    assert_int_equal(qn_safetensors_writer_create(to, &w, NULL), QN_OK);
    for (int i = 0; i < 3; i++) qn_safetensors_write_meta(w, keys[i], qn_safetensors_meta_find(f, keys[i])->value);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)t->data.joined_hash);
    qn_safetensors_write_meta(w, "text", hash);
    const size_t n = qn_safetensors_n_tensors(f);
    for (size_t i = 0; i < n; i++) {
        const qn_safetensors_tensor *x = qn_safetensors_tensor_get(f, i);
        qn_safetensors_declare(w, x->name, x->dtype, &x->shape);
    }
    for (size_t i; (i = qn_safetensors_writer_next(w)) < n;) {
        const qn_safetensors_tensor *x = qn_safetensors_tensor_get(f, i);
        qn_safetensors_write_data(w, x->data, x->size_bytes);
    }
    assert_int_equal(qn_safetensors_writer_commit(w, NULL), QN_OK);
    qn_safetensors_close(f);
}

/* What differs is named, and bases of one shape and size, whose norms are all 1, are not one. */
static void whose_a_checkpoint_is(void **state)
{
    (void)state;
    static const char *const bases[] = {QN_BUILD_DIR "/t_train_trainer_1.gguf", QN_BUILD_DIR "/t_train_trainer_2.gguf"};
    static const qn_special_token end[] = {{"<|end|>", QN_TOKEN_control}}, other[] = {{"<|fin|>", QN_TOKEN_control}};
    qn_error err;
    for (int i = 0; i < 2; i++) {
        qn_train_options o = tiny;
        o.seed += (uint64_t)i;
        qn_trainer *t = create(&o);
        if (qn_trainer_export(t, bases[i], "F32", NULL, &err) != QN_OK) fail_msg("%s", err.text);
        qn_trainer_destroy(t);
    }
    qn_trainer *t = adapter(bases[0], 4, 8, NULL);
    (void)step(t);
    if (qn_trainer_save(t, NEW_PATH, &err) != QN_OK) fail_msg("%s", err.text);
    write_old(t, NEW_PATH, OLD_PATH);
    qn_trainer_destroy(t);
    belongs(adapter(bases[0], 4, 8, NULL), NEW_PATH, NULL);
    belongs(adapter(bases[1], 4, 8, NULL), NEW_PATH, "belongs to another base model");
    belongs(adapter(bases[0], 8, 8, NULL), NEW_PATH, "other options: lora-r is 8, 4 in the checkpoint");
    belongs(adapter(bases[0], 4, 16, NULL), NEW_PATH, "other options: lora-alpha is 16, 8 in the checkpoint");
    belongs(adapter(bases[0], 4, 8, "*.attn_q"), NEW_PATH, "other layers (lora-targets)");
    belongs(adapter(bases[0], 4, 8, NULL), OLD_PATH, NULL);
    belongs(adapter(bases[0], 4, 16, NULL), OLD_PATH,
            "another text, or to another base model, chat template or lora-alpha");

    t = shaped("{{ bos_token }}", end);
    if (qn_trainer_save(t, NEW_PATH, &err) != QN_OK) fail_msg("%s", err.text);
    write_old(t, NEW_PATH, OLD_PATH);
    qn_trainer_destroy(t);
    belongs(shaped("{{ bos_token }}", end), NEW_PATH, NULL);
    belongs(shaped("{{ eos_token }}", end), NEW_PATH, "belongs to another chat template");
    belongs(shaped(NULL, end), NEW_PATH, "belongs to another chat template");
    belongs(shaped("{{ bos_token }}", other), NEW_PATH, "belongs to other special tokens");
    belongs(shaped("{{ bos_token }}", end), OLD_PATH, NULL);
    belongs(shaped("{{ bos_token }}", other), OLD_PATH, "another text, chat template or other special tokens");
    for (int i = 0; i < 2; i++) unlink(bases[i]);
    unlink(NEW_PATH);
    unlink(OLD_PATH);
}

static void foreign_checkpoints(void **state)
{
    (void)state;
    char path[] = QN_BUILD_DIR "/t_train_trainer_XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    qn_error err;
    qn_train_options o = tiny;
    qn_trainer *a = create(&o);
    assert_int_equal(qn_trainer_save(a, path, &err), QN_OK);
    o.n_head = 8;
    qn_trainer *b = create(&o);
    const double first = step(b);
    assert_int_equal(qn_trainer_load(b, path, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "heads is 8, 4 in the checkpoint"));
    o = tiny;
    o.seed = 8;
    qn_trainer *c = create(&o);
    assert_int_equal(qn_trainer_load(c, path, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "seed is 8, 7 in the checkpoint"));
    const qn_gguf_str text = make_text(), shorter = {text.data, text.len - 3};
    qn_trainer *d = NULL, *e = create(&(qn_train_options){.n_layer = 2,
                                                          .n_embd = 32,
                                                          .n_head = 8,
                                                          .n_kv_head = 2,
                                                          .n_ctx = 24,
                                                          .n_vocab = 300,
                                                          .n_batch = 4,
                                                          .n_accum = 2,
                                                          .n_steps = 12,
                                                          .dropout = 0.1f,
                                                          .seed = 7,
                                                          .n_threads = 1});
    assert_int_equal(qn_trainer_create(&tiny, &shorter, 1, &d, &err), QN_OK);
    assert_int_equal(qn_trainer_load(d, path, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "another text"));
    assert_true(step(e) == first); /* b's failed load left nothing behind in it, and e is what b was */
    assert_true(step(e) == step(b));
    if (truncate(path, 20000) != 0) fail_msg("truncate");
    assert_int_equal(qn_trainer_load(a, path, &err), QN_STATUS_format);
    assert_int_equal(qn_trainer_load(a, "/nonexistent", &err), QN_STATUS_io);
    assert_int_equal(qn_trainer_save(a, "/nonexistent/x", &err), QN_STATUS_io);
    close(fd);
    unlink(path);
    qn_trainer_destroy(a);
    qn_trainer_destroy(b);
    qn_trainer_destroy(c);
    qn_trainer_destroy(d);
    qn_trainer_destroy(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_of_a_seed),
        cmocka_unit_test(learns),
        cmocka_unit_test(nothing_new_from_step_2),
        cmocka_unit_test(same_losses),
        cmocka_unit_test(bad_options),
        cmocka_unit_test(architectures_are_those_that_train),
        cmocka_unit_test(whose_a_checkpoint_is),
        cmocka_unit_test(foreign_checkpoints),
        cmocka_unit_test(grad_checkpointing),
        cmocka_unit_test(bf16),
        cmocka_unit_test(options_are_kept),
        cmocka_unit_test(checkpoints_leave_nothing),
        cmocka_unit_test(steps_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
