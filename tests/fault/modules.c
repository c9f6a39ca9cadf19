/* SPDX-License-Identifier: MIT */
/* tests/fault/modules.c -- modules with an allocation missing: made, saved, loaded and computed cleanly or not at all,
 * and a module that lives on has the values it had. */
#include "failing.h"

#include <quern/autograd.h>
#include <quern/nn.h>
#include <quern/ops.h>

static char path[2][128];

static qn_status told(const qn_context *c, qn_error *err)
{
    *err = *qn_context_error(c);
    return err->status != QN_OK ? err->status : QN_STATUS_internal;
}

static qn_module *model(qn_context *c)
{
    return qn_nn_sequential(c, QN_MODULES(qn_nn_embedding(c, 5, 8, 1),
                                          qn_nn_mha(c, &(qn_mha_options){.embd = 8, .heads = 2, .bias = true}),
                                          qn_nn_layer_norm(c, qn_shape_of(8), 0, true, true),
                                          qn_nn_linear(c, 8, 2, true)));
}

static qn_status whole_life(void *ctx, qn_error *err)
{
    const int format = *(int *)ctx;
    static const int64_t tokens[] = {0, 1, 4};
    qn_context *c = NULL;
    qn_status status = qn_context_create(&(qn_context_options){.n_threads = 1}, &c, err);
    if (status != QN_OK) return status;
    qn_module *m = model(c),
              *l = m != NULL
                       ? qn_nn_llama(c,
                                     &(qn_llama_options){
                                         .n_vocab = 5, .n_ctx = 4, .n_embd = 8, .n_layer = 1, .n_head = 2, .n_ff = 8})
                       : NULL;
    char *text = l != NULL ? qn_module_to_string(m) : NULL;
    if (text == NULL) status = told(c, err);
    qn_free(text);
    if (status == QN_OK) status = qn_module_save(m, path[format], NULL, err);
    if (status == QN_OK) status = qn_module_load(m, path[format], NULL, err);
    if (status == QN_OK) {
        qn_tensor *x = qn_from_data(c, tokens, qn_shape_of(1, 3), QN_DTYPE_I64), *y = qn_module_forward(m, x),
                  *z = qn_module_forward(l, x);
        qn_kv_cache *kv = qn_llama_cache(l, 1, 0);
        qn_tensor *d = qn_llama_decode(l, x, kv);
        qn_tensor *loss = qn_add(qn_sum(y, QN_ALL, false), qn_sum(z, QN_ALL, false));
        if (d == NULL || loss == NULL || qn_backward(loss) != QN_OK || qn_eval(loss) != QN_OK ||
            qn_module_n_elements(m, false) < 0 || qn_module_to(m, QN_DTYPE_F64) != QN_OK)
            status = told(c, err);
        qn_kv_cache_destroy(kv);
    }
    qn_module_destroy(m);
    qn_module_destroy(l);
    qn_context_destroy(c);
    return status;
}

static void life(void **state)
{
    (void)state;
    for (int format = 0; format < 2; format++)
        fault_sweep(format ? "a life, with GGUF" : "a life, with safetensors", whole_life, NULL, &format);
}

/* A decoder from options, backward and step by step, saved, and made again of the file. */
static qn_status decoder_life(void *ctx, qn_error *err)
{
    const char *arch = ctx;
    static const int32_t tokens[] = {0, 1, 4};
    static const char *const set[] = {"attention.sliding_window=2", NULL};
    static const char *const optional[] = {"attn_output.bias", NULL};
    qn_context *c = NULL;
    qn_gguf *file = NULL;
    qn_status status = qn_context_create(&(qn_context_options){.n_threads = 1}, &c, err);
    if (status != QN_OK) return status;
    const qn_decoder_options options = {.arch = arch,
                                        .n_vocab = 5,
                                        .n_ctx = 4,
                                        .n_embd = 8,
                                        .n_layer = 1,
                                        .n_head = 2,
                                        .n_ff = 8,
                                        .set = set,
                                        .optional = optional};
    qn_module *m = qn_nn_decoder(c, &options), *again = NULL;
    qn_tensor *x = qn_from_data(c, tokens, qn_shape_of(1, 3), QN_DTYPE_I32);
    qn_kv_cache *kv = m != NULL ? qn_decoder_cache(m, 1, 0) : NULL;
    qn_tensor *loss = m != NULL ? qn_sum(qn_module_forward(m, x), QN_ALL, false) : NULL;
    qn_tensor *step = kv != NULL ? qn_decoder_decode(m, x, kv) : NULL;
    if (step == NULL || loss == NULL || qn_backward(loss) != QN_OK || qn_eval_all(c) != QN_OK) status = told(c, err);
    if (status == QN_OK) status = qn_module_save(m, path[1], NULL, err);
    if (status == QN_OK) status = qn_gguf_open(path[1], NULL, &file, err);
    if (status == QN_OK && (again = qn_nn_decoder(c, &(qn_decoder_options){.file = file})) == NULL)
        status = told(c, err);
    qn_gguf_close(file);
    if (status == QN_OK) status = qn_module_load(again, path[1], NULL, err);
    qn_kv_cache_destroy(kv);
    qn_module_destroy(again);
    qn_module_destroy(m);
    qn_context_destroy(c);
    return status;
}

static void decoders(void **state)
{
    (void)state;
    fault_sweep("a decoder", decoder_life, NULL, "gemma2");
}

/* ---- a module that lives on ---- */

typedef struct survivor {
    qn_context *c;
    qn_module *m, *other;
    int what;
} survivor;

static qn_status change(void *ctx, qn_error *err)
{
    survivor *s = ctx;
    qn_status status = QN_OK;
    qn_context_clear(s->c);
    if (s->what == 0)
        status = qn_module_load(s->m, path[0], NULL, err);
    else if (s->what == 1 || s->what == 3)
        status = qn_module_load_from(s->m, s->other, false, err);
    else
        status = qn_module_to(s->m, QN_DTYPE_F64);
    if (status != QN_OK && s->what == 2) status = told(s->c, err);
    return status;
}

static bool all_are(void *arg, const char *name, qn_tensor *t, qn_named_kind kind)
{
    double x[64];
    (void)name, (void)kind;
    assert_int_equal(qn_to_doubles(t, x, qn_numel(t)), QN_OK);
    for (int64_t i = 0; i < qn_numel(t); i++) {
        if (x[i] != *(double *)arg)
            fail_msg("%s: element %lld is %g, %g expected", name, (long long)i, x[i], *(double *)arg);
    }
    return true;
}
static bool fill(void *arg, const char *name, qn_tensor *t, qn_named_kind kind)
{
    (void)name, (void)kind;
    assert_non_null(qn_init_constant_(t, *(double *)arg));
    return true;
}

/* Either all that it had or all that it was given. */
static void survivors(void **state)
{
    (void)state;
    double one = 1, two = 2;
    for (int what = 0; what < 4; what++) { /* 3: from a module of another context */
        for (long at = 0;; at++) {
            survivor s = {.what = what};
            qn_context *there = NULL;
            qn_error err = {0};
            assert_int_equal(qn_context_create(&(qn_context_options){.n_threads = 1}, &s.c, &err), QN_OK);
            if (what == 3)
                assert_int_equal(qn_context_create(&(qn_context_options){.backend = "cpu:ref", .n_threads = 1}, &there,
                                                   &err),
                                 QN_OK);
            s.m = model(s.c), s.other = model(there ? there : s.c);
            assert_true(s.m != NULL && s.other != NULL);
            assert_int_equal(qn_module_each_tensor(s.other, fill, &two), QN_OK);
            assert_int_equal(qn_module_each_tensor(s.m, fill, what == 2 ? &two : &one), QN_OK);
            assert_int_equal(qn_module_save(s.other, path[0], NULL, &err), QN_OK);
            hook_arm(at, false);
            const qn_status status = change(&s, &err);
            const bool through = hook.n <= at;
            hook_arm(-1, false);
            if (status != QN_OK && (status != QN_STATUS_nomem || err.text[0] == '\0'))
                fail_msg("%d, allocation %ld: %s \"%s\"", what, at, qn_status_name(status), err.text);
            qn_context_clear(s.c);
            assert_int_equal(qn_module_each_tensor(s.m, all_are, status == QN_OK || what == 2 ? &two : &one), QN_OK);
            assert_int_equal(qn_dtype_of(qn_module_tensor(s.m, "0.weight")),
                             what == 2 && status == QN_OK ? QN_DTYPE_F64 : QN_DTYPE_F32);
            qn_module_destroy(s.m);
            qn_module_destroy(s.other);
            qn_context_destroy(s.c);
            qn_context_destroy(there);
            if (through) break;
        }
    }
}

int main(void)
{
    snprintf(path[0], sizeof path[0], "/tmp/quern-fault-%d.safetensors", (int)getpid());
    snprintf(path[1], sizeof path[1], "/tmp/quern-fault-%d.gguf", (int)getpid());
    const struct CMUnitTest tests[] = {cmocka_unit_test(life), cmocka_unit_test(decoders), cmocka_unit_test(survivors)};
    const int failed = cmocka_run_group_tests(tests, hook_install, hook_remove);
    unlink(path[0]);
    unlink(path[1]);
    return failed;
}
