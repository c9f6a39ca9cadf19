/* SPDX-License-Identifier: MIT */
/* tests/unit/array/dlpack.c -- DLPack: this program is the other library. Addresses show that nothing is copied,
 * counters that every deleter is called once. */
#include "rig.h"

#include "array/io/dlpack.h"
#include "base/thread.h"
#include <quern/dlpack.h>

static int ended;
static void end_plain(struct DLManagedTensor *self)
{
    assert_ptr_equal(self->manager_ctx, &ended);
    ended++;
}
static void end_versioned(struct DLManagedTensorVersioned *self)
{
    assert_ptr_equal(self->manager_ctx, &ended);
    ended++;
}

static qn_dl_tensor strided(void *data, int ndim, int64_t *shape, int64_t *strides)
{
    return (qn_dl_tensor){.data = data,
                          .device = {QN_DL_CPU, 0},
                          .ndim = ndim,
                          .dtype = {QN_DL_FLOAT, 32, 1},
                          .shape = shape,
                          .strides = strides};
}

static void out(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = f32(c, qn_shape_of(2, 3), (float[]){1, 2, 3, 4, 5, 6}),
              *view = qn_transpose(qn_narrow(x, 1, 1, 2), 0, 1);
    qn_tensor *twice = qn_add(view, view);
    struct DLManagedTensor *m = qn_to_dlpack(view);
    GOOD(c, m);
    const qn_dl_tensor *d = &m->dl_tensor;
    assert_ptr_equal(d->data, (float *)qn_data(x) + 1);
    assert_true(d->ndim == 2 && d->shape[0] == 2 && d->shape[1] == 2 && d->strides[0] == 1 && d->strides[1] == 3 &&
                d->byte_offset == 0);
    assert_true(d->dtype.code == QN_DL_FLOAT && d->dtype.bits == 32 && d->dtype.lanes == 1 &&
                d->device.type == QN_DL_CPU);
    ((float *)d->data)[3] = 50;
    EXPECT(x, 1, 2, 3, 4, 50, 6);
    EXPECT(twice, 4, 10, 6, 12); /* recorded before it was written */
    struct DLManagedTensorVersioned *v = qn_to_dlpack_versioned(twice);
    GOOD(c, v);
    assert_true(v->version.major == 1 && v->flags == 0 && v->dl_tensor.ndim == 2 &&
                v->dl_tensor.data == qn_data(twice));
    v->deleter(v);
    GOOD(c, qn_mul_number_(x, 2));
    OK(c, qn_eval(x));
    assert_true(((float *)d->data)[0] == 4); /* what Quern writes is seen */
    qn_context_info before, after;
    qn_context_get_info(c, &before);
    qn_release(x);
    qn_release(view); /* the narrow view between them lives on in its scope */
    qn_context_get_info(c, &after);
    assert_int_equal(after.n_storages, before.n_storages);
    EXPECT(twice, 4, 10, 6, 12);
    context_end(c);
    assert_true(((float *)d->data)[3] == 100); /* the memory waits for its deleter */
    m->deleter(m);
}

static void out_types(void **state)
{
    (void)state;
    static const struct {
        qn_dtype dtype;
        uint8_t code, bits;
    } rows[] = {
        {QN_DTYPE_F16, 2, 16}, {QN_DTYPE_F32, 2, 32}, {QN_DTYPE_F64, 2, 64}, {QN_DTYPE_BF16, 4, 16},
        {QN_DTYPE_I8, 0, 8},   {QN_DTYPE_I16, 0, 16}, {QN_DTYPE_I32, 0, 32}, {QN_DTYPE_I64, 0, 64},
        {QN_DTYPE_U8, 1, 8},   {QN_DTYPE_BOOL, 6, 8},
    };
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_tensor *x = qn_ones(c, qn_shape_of(3), rows[i].dtype);
        struct DLManagedTensor *m = qn_to_dlpack(x);
        GOOD(c, m);
        assert_true(m->dl_tensor.dtype.code == rows[i].code && m->dl_tensor.dtype.bits == rows[i].bits &&
                    m->dl_tensor.dtype.lanes == 1);
        qn_tensor *back = qn_from_dlpack(c, m);
        assert_int_equal(qn_dtype_of(back), rows[i].dtype);
        assert_ptr_equal(qn_data(back), qn_data(x));
        EXPECT(back, 1, 1, 1);
    }
    qn_tensor *scalar = qn_scalar(c, 7, F32), *none = qn_zeros(c, qn_shape_of(0, 4), F32);
    struct DLManagedTensor *s = qn_to_dlpack(scalar), *n = qn_to_dlpack(none);
    GOOD(c, s);
    GOOD(c, n);
    assert_true(s->dl_tensor.ndim == 0 && *(float *)s->dl_tensor.data == 7 && n->dl_tensor.shape[0] == 0 &&
                n->dl_tensor.shape[1] == 4);
    s->deleter(s);
    n->deleter(n);
    REFUSED(c, qn_to_dlpack(qn_requires_grad_(qn_ones(c, qn_shape_of(2), F32), true)),
            "to_dlpack: the tensor requires a gradient");
    REFUSED(c, qn_to_dlpack(qn_empty(c, qn_shape_of(32), QN_DTYPE_Q8_0)), "packed");
    assert_null(qn_to_dlpack(NULL));
    context_end(c);
}

static void in(void **state)
{
    (void)state;
    qn_context *c = context_new();
    float memory[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t shape[2] = {2, 3}, strides[2] = {1, 2}, backwards[2] = {-3, -1};
    ended = 0;
    struct DLManagedTensor m = {strided(memory, 2, shape, strides), &ended, end_plain};
    m.dl_tensor.byte_offset = 4;
    qn_tensor *x = qn_from_dlpack(c, &m), *row = qn_select(x, 0, 1);
    assert_ptr_equal(qn_data(x), memory + 1);
    EXPECT(x, 1, 3, 5, 2, 4, 6);
    GOOD(c, qn_mul_number_(row, 10));
    OK(c, qn_eval(row));
    assert_true(memory[2] == 20 && memory[4] == 40 && memory[6] == 60 && memory[1] == 1);
    qn_release(x);
    assert_int_equal(ended, 0);
    qn_release(row);
    assert_int_equal(ended, 1);

    struct DLManagedTensorVersioned v = {
        {1, 3}, &ended, end_versioned, QN_DL_READ_ONLY, strided(memory + 5, 2, shape, backwards)};
    x = qn_from_dlpack_versioned(c, &v);
    GOOD(c, x);
    assert_ptr_equal(qn_data(x), memory + 5);
    EXPECT(x, 5, 40, 3, 20, 1, 0);
    EXPECT(qn_add_number(x, 1), 6, 41, 4, 21, 2, 1);
    REFUSED(c, qn_add_number_(x, 1), "read-only");
    REFUSED(c, qn_to_dlpack(x), "read-only");
    struct DLManagedTensorVersioned *again = qn_to_dlpack_versioned(x);
    GOOD(c, again);
    assert_true(again->flags == QN_DL_READ_ONLY && again->dl_tensor.strides[0] == -3 &&
                again->dl_tensor.data == memory + 5);
    struct DLManagedTensorVersioned plain = {{1, 0}, NULL, NULL, 0, strided(memory, 2, shape, NULL)};
    EXPECT(qn_from_dlpack_versioned(c, &plain), 0, 1, 20, 3, 40, 5); /* row-major, and nobody to tell when it ends */
    context_end(c);
    assert_int_equal(ended, 1); /* what is out again holds it */
    again->deleter(again);
    assert_int_equal(ended, 2);
}

static void refused(void **state)
{
    (void)state;
    qn_context *c = context_new();
    float memory[8] = {0};
    int64_t shape[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1}, bad[2] = {-2, 3}, huge[2] = {INT64_MAX / 2, INT64_MAX / 2};
    ended = 0;
    const struct DLManagedTensor good = {strided(memory, 2, shape, NULL), &ended, end_plain};
    struct DLManagedTensor m;
#define TRY(words, ...) \
    do { \
        m = good; \
        __VA_ARGS__; \
        REFUSED(c, qn_from_dlpack(c, &m), words); \
    } while (0)
    TRY("CUDA device 0, which this context does not have", m.dl_tensor.device.type = 2);
    TRY("rank 9", m.dl_tensor.ndim = 9);
    TRY("rank -1", m.dl_tensor.ndim = -1);
    TRY("rank 2 without a shape", m.dl_tensor.shape = NULL);
    TRY("code 5, 64 bits", m.dl_tensor.dtype.code = 5; m.dl_tensor.dtype.bits = 64);
    TRY("4 lanes", m.dl_tensor.dtype.lanes = 4);
    TRY("[-2,3]", m.dl_tensor.shape = bad);
    TRY("is no shape", m.dl_tensor.shape = huge; m.dl_tensor.strides = huge);
    TRY("reach beyond", m.dl_tensor.strides = huge);
    TRY("no memory", m.dl_tensor.data = NULL);
    TRY("no multiple of 4", m.dl_tensor.byte_offset = 2);
    struct DLManagedTensorVersioned v = {{2, 0}, &ended, end_versioned, 0, strided(memory, 2, shape, NULL)};
    REFUSED(c, qn_from_dlpack_versioned(c, &v), "version 2.0");
    assert_null(qn_from_dlpack(c, NULL));
    assert_int_equal(ended, 0); /* still the caller's */
    context_end(c);
}

/* Contexts hand one memory around, and everything ends in whatever order. */
static void chains(void **state)
{
    (void)state;
    float memory[2] = {1, 2};
    int64_t shape[1] = {2};
    ended = 0;
    struct DLManagedTensor m = {strided(memory, 1, shape, NULL), &ended, end_plain};
    qn_context *a = context_new(), *b = context_new();
    qn_tensor *x = qn_from_dlpack(a, &m), *y = qn_from_dlpack(b, qn_to_dlpack(x)),
              *z = qn_from_dlpack(a, qn_to_dlpack(y));
    struct DLManagedTensor *last = qn_to_dlpack(z);
    GOOD(a, last);
    assert_ptr_equal(last->dl_tensor.data, memory);
    context_end(a);
    context_end(b);
    assert_int_equal(ended, 0);
    last->deleter(last);
    assert_int_equal(ended, 1);
}

enum { MANY = 64 };
typedef struct givers {
    struct DLManagedTensor *out[4][MANY];
    qn_context *c;
} givers;

/* Member 0 keeps using the context while the others give back. */
static void give(void *arg, int member, int n)
{
    givers *g = arg;
    (void)n;
    for (int i = 0; i < MANY; i++) {
        if (member == 0) qn_release(qn_ones(g->c, qn_shape_of(100), F32));
        g->out[member][i]->deleter(g->out[member][i]);
    }
}

static void threads(void **state)
{
    (void)state;
    qn_team *team = NULL;
    assert_int_equal(qn__team_create(&(qn_team_options){.n_threads = 4}, &team, NULL), QN_OK);
    for (int destroyed = 0; destroyed < 2; destroyed++) {
        static givers g;
        g.c = context_new();
        for (int i = 0; i < 4 * MANY; i++) {
            qn_tensor *x = qn_ones(g.c, qn_shape_of(100), F32);
            g.out[i / MANY][i % MANY] = qn_to_dlpack(x);
            GOOD(g.c, g.out[i / MANY][i % MANY]);
            qn_release(x);
        }
        qn_context_info info;
        qn_context_get_info(g.c, &info);
        assert_int_equal(info.n_storages, 4 * MANY);
        if (!destroyed) {
            qn__team_run(team, give, &g);
            qn_context_trim(g.c);
            qn_context_get_info(g.c, &info);
            assert_true(info.n_storages == 0 && info.live_bytes < 4096 * 100 && info.idle_bytes == 0);
            context_end(g.c);
        } else { /* the last to come ends the context */
            for (int i = 0; i < MANY; i++) g.out[0][i]->deleter(g.out[0][i]);
            for (int i = 0; i < MANY; i++) {
                qn_tensor *x = qn_ones(g.c, qn_shape_of(100), F32);
                g.out[0][i] = qn_to_dlpack(x);
            }
            context_end(g.c);
            g.c = context_new();
            qn__team_run(team, give, &g);
            context_end(g.c);
        }
    }
    qn__team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out),     cmocka_unit_test(out_types), cmocka_unit_test(in),
        cmocka_unit_test(refused), cmocka_unit_test(chains),    cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
