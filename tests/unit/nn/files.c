/* SPDX-License-Identifier: MIT */
/* tests/unit/nn/files.c -- weights in files: what is saved comes back to the bit, and what does not fit is refused with
 * nothing changed. */
#include "rig.h"

#include <quern/gguf.h>
#include <quern/safetensors.h>
#include <unistd.h>

static char path[2][sizeof QN_BUILD_DIR + 64]; /* one of each format */

static int make_paths(void **state)
{
    (void)state;
    snprintf(path[0], sizeof path[0], QN_BUILD_DIR "/t_nn_files_%d.safetensors", (int)getpid());
    snprintf(path[1], sizeof path[1], QN_BUILD_DIR "/t_nn_files_%d.gguf", (int)getpid());
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(path[0]);
    unlink(path[1]);
    return 0;
}

#define SAVED(m, file, options) \
    do { \
        qn_error err_ = {0}; \
        if (qn_module_save((m), (file), (options), &err_) != QN_OK) fail_msg("%s", err_.text); \
    } while (0)
#define LOADED(m, file, options) \
    do { \
        qn_error err_ = {0}; \
        if (qn_module_load((m), (file), (options), &err_) != QN_OK) fail_msg("%s", err_.text); \
    } while (0)
#define NOT_LOADED(m, file, options, words) \
    do { \
        qn_error err_ = {0}; \
        assert_int_not_equal(qn_module_load((m), (file), (options), &err_), QN_OK); \
        if (strstr(err_.text, words) == NULL) fail_msg("\"%s\"", err_.text); \
        assert_int_equal(qn_context_error(qn_module_context(m))->status, QN_OK); \
    } while (0)

/* Every kind of tensor: F32, F16, BF16, F64, a scalar, integers. */
static qn_module *mixed(qn_context *c, bool fresh)
{
    qn_module *m =
        qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 64, 8, true), qn_nn_relu(c), qn_nn_linear(c, 8, 3, true),
                                       qn_nn_embedding(c, 5, 3, 0), qn_nn_conv2d(c, 2, 4, 3, 2, true, NULL)));
    GOOD(c, m);
    OK(c, qn_module_to(qn_module_child(m, 2), QN_DTYPE_BF16));
    OK(c, qn_module_to(qn_module_child(m, 3), QN_DTYPE_F64));
    OK(c, qn_module_to(qn_module_child(m, 4), QN_DTYPE_F16));
    GOOD(c, qn_module_add_parameter(m, "scale", qn_full(c, QN_SCALAR, fresh ? 0 : 1.25, F32)));
    GOOD(c, qn_module_add_buffer(m, "seen", qn_full(c, qn_shape_of(2), fresh ? 0 : 77, QN_DTYPE_I64)));
    GOOD(c, qn_module_add_buffer(m, "small", qn_full(c, qn_shape_of(3), fresh ? 0 : -5, QN_DTYPE_I8)));
    return m;
}

typedef struct against {
    qn_module *other;
    int n_same, n;
} against;
static bool compare(void *arg, const char *name, qn_tensor *t, qn_named_kind kind)
{
    against *a = arg;
    (void)kind;
    qn_tensor *other = qn_module_tensor(a->other, name);
    assert_non_null(other);
    a->n++;
    a->n_same += same_values(t, other) && qn_rank(t) == qn_rank(other);
    return true;
}

static bool all_same(qn_module *a, qn_module *b)
{
    against same = {.other = b};
    assert_int_equal(qn_module_each_tensor(a, compare, &same), QN_OK);
    return same.n > 0 && same.n == same.n_same;
}

static void identity(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        qn_context *c = context_new();
        qn_module *a = mixed(c, false), *b = mixed(c, true);
        assert_false(all_same(a, b));
        SAVED(a, path[f], NULL);
        qn_tensor *w = qn_module_tensor(b, "0.weight");
        LOADED(b, path[f], NULL);
        assert_true(all_same(a, b));
        assert_ptr_equal(qn_module_tensor(b, "0.weight"), w);
        assert_true(qn_requires_grad(w) && !qn_requires_grad(qn_module_tensor(b, "seen")));
        assert_int_equal(qn_rank(qn_module_tensor(b, "scale")), 0);
        qn_module_destroy(a);
        qn_module_destroy(b);
        context_end(c);
    }
}

static void between_modules(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *a = mixed(c, false), *b = mixed(c, true);
    qn_error err = {0};
    assert_int_equal(qn_module_load_from(b, a, false, &err), QN_OK);
    assert_true(all_same(a, b));
    assert_false(qn_shares_storage(qn_module_tensor(a, "0.weight"), qn_module_tensor(b, "0.weight")));
    qn_module *l = qn_nn_linear(c, 64, 8, false);
    assert_int_equal(qn_module_load_from(l, qn_module_child(a, 0), false, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "1 not in the module (the first is \"bias\")"));
    assert_int_equal(qn_module_load_from(l, qn_module_child(a, 0), true, &err), QN_OK);
    assert_true(same_values(qn_module_tensor(l, "weight"), qn_module_tensor(a, "0.weight")));
    qn_module_destroy(l);
    qn_module_destroy(a);
    qn_module_destroy(b);
    context_end(c);
}

/* PyTorch's module.to(device), there and back. */
static void between_contexts(void **state)
{
    (void)state;
    qn_context *c = context_new(), *ref = NULL;
    qn_error err = {0};
    assert_int_equal(qn_context_create(&(qn_context_options){.backend = "cpu:ref", .n_threads = 1}, &ref, &err), QN_OK);
    qn_module *a = mixed(c, false), *b = mixed(ref, true), *back = mixed(c, true);
    assert_int_equal(qn_module_load_from(b, a, false, &err), QN_OK);
    assert_ptr_equal(qn_context_of(qn_module_tensor(b, "0.weight")), ref);
    assert_true(qn_requires_grad(qn_module_tensor(b, "0.weight")) && qn_is_leaf(qn_module_tensor(b, "0.weight")));
    assert_true(all_same(a, b));
    assert_int_equal(qn_module_load_from(back, b, false, &err), QN_OK);
    qn_module_destroy(b);
    context_end(ref);
    assert_true(all_same(a, back));
    qn_module_destroy(a);
    qn_module_destroy(back);
    context_end(c);
}

/* One parameter with two names is stored once, and loads under either. */
static void tied(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        qn_context *c = context_new();
        qn_module *m = qn_nn_sequential(c, QN_MODULES(qn_nn_embedding(c, 6, 4, -1), qn_nn_linear(c, 4, 6, false)));
        qn_tensor *w = qn_module_tensor(m, "0.weight"), *was = qn_clone(qn_detach(w));
        OK(c, qn_module_set_tensor(m, "1.weight", w));
        SAVED(m, path[f], NULL);
        GOOD(c, qn_init_zeros_(w));
        LOADED(m, path[f], NULL);
        assert_true(same_values(w, was) && qn_module_tensor(m, "1.weight") == w);
        qn_module *only = qn_nn_sequential(c, QN_MODULES(qn_nn_relu(c), qn_nn_linear(c, 4, 6, false)));
        GOOD(c, qn_init_constant_(qn_module_tensor(only, "1.weight"), 3));
        SAVED(only, path[f], NULL);
        LOADED(m, path[f], NULL); /* as 1.weight only */
        assert_true(same_values(w, qn_module_tensor(only, "1.weight")) && qn_module_tensor(m, "1.weight") == w);
        qn_module_destroy(only);
        qn_module_destroy(m);
        context_end(c);
    }
}

typedef struct notes {
    char text[512];
} notes;
static void take_note(void *arg, qn_load_note note, const char *name)
{
    notes *n = arg;
    snprintf(n->text + strlen(n->text), sizeof n->text - strlen(n->text), "%c%s ", note == QN_LOAD_missing ? '-' : '+',
             name);
}

static void strictness(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        qn_context *c = context_new();
        qn_module *a = qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 3, 4, true), qn_nn_linear(c, 4, 2, false)));
        qn_module *b = qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 3, 4, false), qn_nn_linear(c, 4, 2, true)));
        SAVED(a, path[f], NULL);
        qn_tensor *w = qn_module_tensor(b, "0.weight"), *was = qn_clone(qn_detach(w));
        notes n = {0};
        const qn_load_options strict = {.note = take_note, .arg = &n};
        NOT_LOADED(b, path[f], &strict,
                   "1 missing (the first is \"1.bias\"), 1 not in the module (the first is \"0.bias\")");
        assert_string_equal(n.text, "-1.bias +0.bias ");
        assert_true(same_values(w, was));
        n = (notes){0};
        LOADED(b, path[f], (&(qn_load_options){.lenient = true, .note = take_note, .arg = &n}));
        assert_string_equal(n.text, "-1.bias +0.bias ");
        assert_true(same_values(w, qn_module_tensor(a, "0.weight")));

        qn_module *wide = qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 3, 4, true), qn_nn_linear(c, 4, 3, false)));
        was = qn_clone(qn_detach(qn_module_tensor(wide, "0.weight")));
        NOT_LOADED(wide, path[f], (&(qn_load_options){.lenient = true}), "tensor 1.weight: [2,4], [3,4] expected");
        assert_true(same_values(qn_module_tensor(wide, "0.weight"), was));
        qn_module_add_buffer(a, "n", qn_zeros(c, qn_shape_of(1), F32));
        SAVED(a, path[f], NULL);
        qn_module *whole = qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 3, 4, true), qn_nn_linear(c, 4, 2, false)));
        qn_module_add_buffer(whole, "n", qn_zeros(c, qn_shape_of(1), QN_DTYPE_I32));
        NOT_LOADED(whole, path[f], NULL, "tensor n: F32, I32 expected");
        qn_module_destroy(a);
        qn_module_destroy(b);
        qn_module_destroy(wide);
        qn_module_destroy(whole);
        context_end(c);
    }
    qn_context *c = context_new();
    qn_module *a = qn_nn_linear(c, 3, 4, true);
    qn_error err = {0};
    NOT_LOADED(a, QN_BUILD_DIR "/there-is-no-such-file.gguf", NULL, "No such file");
    assert_int_equal(qn_module_save(a, QN_BUILD_DIR "/t_nn_files.bin", NULL, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "ends in .gguf or .safetensors"));
    assert_int_equal(qn_module_save(a, QN_BUILD_DIR "/no-such-folder/x.gguf", NULL, &err), QN_STATUS_io);
    qn_module_destroy(a);
    context_end(c);
}

static qn_dtype to_q8(void *arg, const char *name, const qn_tensor *t)
{
    (void)arg, (void)name;
    return qn_rank(t) == 2 ? QN_DTYPE_Q8_0 : QN_DTYPE_F16;
}
static void title(void *arg, qn_gguf_writer *w) { qn_gguf_write_str(w, "general.name", arg); }

/* Packed on the way out; on the way in unpacked, or frozen as they are. */
static void block_formats(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *a = qn_nn_linear(c, 64, 8, true), *b = qn_nn_linear(c, 64, 8, true),
              *frozen = qn_nn_linear(c, 64, 8, true);
    SAVED(a, path[1], (&(qn_save_options){.dtype_of = to_q8, .metadata = title, .arg = "a layer"}));
    LOADED(b, path[1], NULL);
    qn_tensor *w = qn_module_tensor(b, "weight");
    assert_true(qn_dtype_of(w) == F32 && qn_requires_grad(w) && !same_values(w, qn_module_tensor(a, "weight")));
    qn_tensor *off = qn_abs(qn_sub(qn_detach(w), qn_detach(qn_module_tensor(a, "weight"))));
    assert_true(qn_item(qn_amax(off, QN_ALL, false)) <= 0.125 / 127 / 2 * 1.01); /* weights are within 1/sqrt(64) */
    LOADED(frozen, path[1], (&(qn_load_options){.as_stored = true}));
    assert_int_equal(qn_dtype_of(qn_module_tensor(frozen, "weight")), QN_DTYPE_Q8_0);
    assert_int_equal(qn_dtype_of(qn_module_tensor(frozen, "bias")), QN_DTYPE_F16);
    assert_false(qn_requires_grad(qn_module_tensor(frozen, "weight")));
    assert_true(qn_requires_grad(qn_module_tensor(frozen, "bias")));
    OK(c, qn_module_requires_grad_(frozen, false));
    OK(c, qn_module_to(frozen, F32)); /* the bias; blocks stay */
    qn_tensor *x = numbers(c, qn_shape_of(3, 64), 2), *y = qn_module_forward(frozen, x),
              *want = qn_module_forward(b, x);
    GOOD(c, y);
    assert_true(qn_item(qn_amax(qn_abs(qn_sub(y, qn_detach(want))), QN_ALL, false)) < 0.02);
    /* what is frozen is saved as it is */
    SAVED(frozen, path[1], NULL);
    qn_gguf *file = NULL;
    assert_int_equal(qn_gguf_open(path[1], NULL, &file, NULL), QN_OK);
    assert_int_equal(qn_gguf_tensor_find(file, "weight")->dtype, QN_DTYPE_Q8_0);
    assert_int_equal(qn_gguf_n_kv(file), 1);
    assert_string_equal(qn_gguf_kv_get(file, 0)->key, "general.architecture");
    qn_gguf_close(file);
    qn_error err = {0};
    assert_int_not_equal(qn_module_save(frozen, path[0], NULL, &err), QN_OK); /* no blocks in safetensors */
    qn_module *narrow = qn_nn_linear(c, 20, 2, true);
    assert_int_equal(qn_module_save(narrow, path[1], &(qn_save_options){.dtype_of = to_q8}, &err), QN_STATUS_invalid);
    assert_non_null(strstr(err.text, "tensor weight: rows of [2,20] do not divide into blocks of 32 for Q8_0"));
    qn_module_destroy(narrow);
    qn_module_destroy(a);
    qn_module_destroy(b);
    qn_module_destroy(frozen);
    context_end(c);
}

typedef struct placing {
    char asked[256];
    const char *answer, *for_path;
} placing;
static const char *place(void *arg, const char *name, const qn_tensor_info *info)
{
    placing *p = arg;
    char shape[64];
    snprintf(p->asked + strlen(p->asked), sizeof p->asked - strlen(p->asked), "%s %s%s %llu; ", name,
             qn_dtype_get(info->dtype)->name, qn_shape_print(&info->shape, shape, sizeof shape),
             (unsigned long long)info->size_bytes);
    return p->for_path == NULL || strcmp(p->for_path, name) == 0 ? p->answer : NULL;
}
static const char *renamed(void *arg, const char *name, char *text, size_t size)
{
    (void)arg;
    if (strcmp(name, "bias") == 0) return NULL;
    snprintf(text, size, "0.%s", name);
    return text;
}

static void placed(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_module *a = qn_nn_sequential(c, QN_MODULES(qn_nn_linear(c, 3, 4, true), qn_nn_linear(c, 4, 2, false)));
    for (int f = 0; f < 2; f++) {
        SAVED(a, path[f], NULL);
        placing p = {.answer = "cpu"};
        LOADED(a, path[f], (&(qn_load_options){.place = place, .arg = &p}));
        assert_string_equal(p.asked, "0.weight F32[4,3] 48; 0.bias F32[4] 16; 1.weight F32[2,4] 32; ");
        p = (placing){.answer = "warp", .for_path = "1.weight"};
        NOT_LOADED(a, path[f], (&(qn_load_options){.place = place, .arg = &p}),
                   "tensor 1.weight: place: this context has no device \"warp\"; it has cpu");
        p.answer = "cpu:nosuchlevel";
        NOT_LOADED(a, path[f], (&(qn_load_options){.place = place, .arg = &p}), "has no device \"cpu:nosuchlevel\"");
        qn_module *l = qn_nn_linear(c, 3, 4, true);
        LOADED(l, path[f], (&(qn_load_options){.name_in_file = renamed, .lenient = true}));
        assert_true(same_values(qn_module_tensor(l, "weight"), qn_module_tensor(a, "0.weight")));
        assert_false(same_values(qn_module_tensor(l, "bias"), qn_module_tensor(a, "0.bias")));
        qn_module_destroy(l);
    }
    qn_module_destroy(a);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identity), cmocka_unit_test(between_modules), cmocka_unit_test(between_contexts),
        cmocka_unit_test(tied),     cmocka_unit_test(strictness),      cmocka_unit_test(block_formats),
        cmocka_unit_test(placed),
    };
    return cmocka_run_group_tests(tests, make_paths, remove_files);
}
