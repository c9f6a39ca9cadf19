/* SPDX-License-Identifier: MIT */
/* A failing allocator under training: made whole or not at all; a step, an evaluation, a checkpoint, a resumption or an
 * export that fails has not happened, and tried again gives what it would have given. */
#include "failing.h"
#include <quern/train.h>

enum { STEPS = 4, DENSE = 120 };

static const qn_train_options options = {
    .n_layer = 1,
    .n_embd = 8,
    .n_head = 2,
    .n_kv_head = 1,
    .n_ff = 8,
    .n_ctx = 6,
    .n_vocab = 290,
    .n_batch = 2,
    .n_accum = 2,
    .n_steps = STEPS,
    .dropout = 0.1f,
    .seed = 3,
    .n_threads = 1,
};
static const char words[] =
    "the cat sat on a mat, and the dog sat on the cat; the mat was flat.\n the cat went, and so did that rat on the "
    "mat.\n"
    "a cat that sat on a rat that sat on a mat had a hat, and the hat was flat.\nthat was that, said the cat.\n";

/* The same from conversations. */
static const char talks[] = "talks";
static const char lines[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"the cat\"}, {\"role\": \"assistant\", \"content\": \"sat on "
    "the "
    "cat\"}, {\"role\": \"user\", \"content\": \"the\"}, {\"role\": \"assistant\", \"content\": \"cat\"}]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"at\"}, {\"role\": \"assistant\", \"content\": \"the cat\"}]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"on\"}, {\"role\": \"assistant\", \"content\": \"the\"}]}\n";

static qn_status make(qn_trainer **t, const char *base, qn_error *err)
{
    const qn_gguf_str text = {words, sizeof words - 1}, talk = {lines, sizeof lines - 1};
    qn_train_options o = options;
    if (base == talks) {
        o.n_vocab = 0, o.n_ctx = 48, o.eval_fraction = 0.34f;
        return qn_trainer_create_corpus(&o, NULL, &(qn_train_corpus){.texts = &talk, .n_texts = 1, .chat = true}, t,
                                        err);
    }
    if (!base) return qn_trainer_create(&o, &text, 1, t, err);
    o.n_layer = o.n_embd = o.n_head = o.n_kv_head = o.n_ff = o.n_vocab = 0;
    return qn_trainer_create_lora(&o, &(qn_lora_options){.base = base, .rank = 2, .targets = "blk.0.attn_*"}, &text, 1,
                                  t, err);
}

/* Most allocations come early, and are alike later: beyond DENSE, some are tried. */
static long next(long at) { return at < DENSE ? at + 1 : at + 1 + at / 16; }

/* ---- a whole life ---- */

static qn_status life(const char *base, qn_error *err)
{
    qn_trainer *t = NULL;
    qn_train_step step;
    qn_train_eval eval;
    qn_status status = make(&t, base, err);
    if (status == QN_OK) status = qn_trainer_step(t, &step, err);
    if (status == QN_OK) status = qn_trainer_evaluate(t, &eval, err);
    if (status == QN_OK) status = qn_trainer_save(t, tiny_path("life.safetensors"), err);
    if (status == QN_OK) status = qn_trainer_load(t, tiny_path("life.safetensors"), err);
    if (status == QN_OK)
        status = qn_trainer_export(t, tiny_path("life.gguf"), base && base != talks ? "F16" : "Q8_0", NULL, err);
    qn_trainer_destroy(t);
    return status;
}

static void lives(const char *what, const char *base)
{
    for (int all_after = 0; all_after < 2; all_after++) {
        long at = 0, n = 0, n_failed = 0;
        for (bool through = false; !through; at = next(at)) {
            qn_error err = {0};
            const long before = hook.live;
            hook_arm(at, all_after);
            const qn_status status = life(base, &err);
            through = hook.n <= at;
            n = hook.n;
            hook_arm(-1, false);
            if (hook.live != before)
                fail_msg("%s, allocation %ld: %ld blocks are out, %ld before (%s)", what, at, (long)hook.live, before,
                         err.text);
            if (status != QN_OK && (status != QN_STATUS_nomem || err.status != status || !err.text[0]))
                fail_msg("%s, allocation %ld: %s, \"%s\" (%s:%d)", what, at, qn_status_name(status), err.text, err.file,
                         err.line);
            if (status == QN_OK && !through && all_after)
                fail_msg("%s, allocation %ld and after: nothing failed", what, at);
            n_failed += status != QN_OK;
        }
        assert_true(n_failed > 50);
        if (all_after) printf("%s: %ld allocations\n", what, n);
    }
}

/* ---- a trainer that lives on ---- */

typedef enum work { STEP, EVALUATE, SAVE, LOAD, EXPORT, N_WORK } work;
static const char *const work_names[] = {"step", "evaluate", "save", "load", "export"};

static double step_of(qn_trainer *t)
{
    qn_train_step s;
    MUST(qn_trainer_step(t, &s, err));
    return s.loss + s.grad_norm;
}

static qn_status do_work(qn_trainer *t, work w, const char *base, double *out, qn_error *err)
{
    qn_train_step step = {0};
    qn_train_eval eval = {0};
    qn_status status = QN_OK;
    if (w == STEP)
        status = qn_trainer_step(t, &step, err);
    else if (w == EVALUATE)
        status = qn_trainer_evaluate(t, &eval, err);
    else if (w == SAVE)
        status = qn_trainer_save(t, tiny_path("new.safetensors"), err);
    else if (w == LOAD)
        status = qn_trainer_load(t, tiny_path("one.safetensors"), err);
    else
        status = qn_trainer_export(t, tiny_path("new.gguf"), base && base != talks ? "F16" : "Q8_0", "n", err);
    *out = step.loss + step.grad_norm + eval.loss;
    return status;
}

typedef struct outcome {
    double out, steps[3];
} outcome;

/* What the work gives and the steps after it, with that allocation missing at first; -1: none. False when it got
 * through without. */
static bool try_work(work w, const char *base, long at, bool all_after, const double after_none[2], outcome *o)
{
    qn_trainer *t = NULL;
    qn_error why = {0};
    qn_train_info before, after;
    MUST(make(&t, base, err));
    if (w == SAVE || w == EXPORT) (void)step_of(t);
    qn_trainer_get_info(t, &before);
    hook_arm(at, all_after);
    const qn_status status = do_work(t, w, base, &o->out, &why);
    const bool failed = at >= 0 && hook.n > at;
    hook_arm(-1, false);
    if (status != QN_OK) {
        if (status != QN_STATUS_nomem || !why.text[0])
            fail_msg("%s, allocation %ld: %s, \"%s\" (%s:%d)", work_names[w], at, qn_status_name(status), why.text,
                     why.file, why.line);
        qn_trainer_get_info(t, &after);
        assert_int_equal(after.step, before.step);
        if (at % 2 && w == LOAD) { /* as if nobody had tried */
            assert_true(step_of(t) == after_none[0]);
            assert_true(step_of(t) == after_none[1]);
        }
        MUST(do_work(t, w, base, &o->out, err));
    }
    for (int i = 0; i < (w == LOAD ? 2 : 3); i++) o->steps[i] = step_of(t);
    qn_trainer_destroy(t);
    return failed;
}

static void survivors(const char *base)
{
    qn_trainer *t = NULL;
    double none[2];
    MUST(make(&t, base, err));
    none[0] = step_of(t);
    MUST(qn_trainer_save(t, tiny_path("one.safetensors"), err));
    none[1] = step_of(t);
    qn_trainer_destroy(t);
    for (work w = STEP; w < N_WORK; w++) {
        outcome want = {0}, have;
        assert_false(try_work(w, base, -1, false, none, &want));
        for (int all_after = 0; all_after < 2; all_after++) {
            long at = all_after;
            for (have = (outcome){0}; try_work(w, base, at, all_after, none, &have); at = next(at) + 1) {
                if (memcmp(&have, &want, sizeof want) != 0)
                    fail_msg(
                        "%s, allocation %ld: %.9g, then %.9g %.9g %.9g, where %.9g, then %.9g %.9g %.9g are expected",
                        work_names[w], at, have.out, have.steps[0], have.steps[1], have.steps[2], want.out,
                        want.steps[0], want.steps[1], want.steps[2]);
            }
            assert_true(at > 2);
        }
    }
}

static char base_path[768];
static void from_nothing(void **state)
{
    (void)state;
    lives("a training", NULL);
    survivors(NULL);
}
static void conversations(void **state)
{
    (void)state;
    lives("conversations", talks);
    survivors(talks);
}
static void adapters(void **state)
{
    (void)state;
    snprintf(base_path, sizeof base_path, "%s", tiny_path("base.gguf"));
    MUST(tiny_write(base_path, &(tiny){.arch = "qwen2", .n_layer = 1, .n_embd = 32}, err));
    lives("an adapter", base_path);
    survivors(base_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(from_nothing), cmocka_unit_test(conversations),
                                       cmocka_unit_test(adapters)};
    return cmocka_run_group_tests(tests, hook_install, hook_remove);
}
