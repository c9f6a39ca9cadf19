/* SPDX-License-Identifier: MIT */
/* tests/unit/array/transposed.c -- what is done in tiles gives what is done element by element: copies of transposed
 * tensors, and softmax, sums and products along a dimension that is not the last, to the bit. */
#include "rig.h"

static qn_tensor *some(qn_context *c, qn_shape shape, qn_dtype dtype)
{
    const int64_t n = qn_shape_numel(&shape);
    return qn_to(qn_reshape(qn_sub_number(qn_remainder_number(
                                              qn_mul_number(qn_arange(c, 0, (double)n, 1, QN_DTYPE_F64), 37), 101),
                                          50),
                            shape),
                 dtype);
}

static void same(qn_tensor *a, qn_tensor *b, const char *what)
{
    const int64_t n = qn_numel(a);
    double *x = malloc((size_t)n * 8), *y = malloc((size_t)n * 8);
    const bool good = qn_numel(b) == n && qn_to_doubles(a, x, n) == QN_OK && qn_to_doubles(b, y, n) == QN_OK &&
                      memcmp(x, y, (size_t)n * 8) == 0;
    free(x);
    free(y);
    if (!good) fail_msg("%s differs", what);
}

static void copies(void **state)
{
    (void)state;
    static const qn_dtype types[] = {F32,          QN_DTYPE_F64, QN_DTYPE_F16, QN_DTYPE_I32,
                                     QN_DTYPE_I64, QN_DTYPE_U8,  QN_DTYPE_BOOL};
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        OK(c, qn_scope_begin(c));
        qn_tensor *x = some(c, qn_shape_of(3, 70, 131), types[i]), *y = some(c, qn_shape_of(8, 9, 10, 11), types[i]);
        qn_tensor *transposed[] = {qn_transpose(x, 1, 2),
                                   qn_permute_to(x, 2, 0, 1),
                                   qn_permute_to(x, 1, 2, 0),
                                   qn_transpose(qn_narrow(x, 2, 3, 100), 1, 2),
                                   qn_transpose(qn_slice(x, 1, 1, QN_END, 2), 1, 2),
                                   qn_permute_to(y, 3, 1, 0, 2),
                                   qn_permute_to(y, 0, 3, 2, 1),
                                   qn_transpose(qn_expand(qn_narrow(x, 1, 4, 1), qn_shape_of(3, 20, 131)), 1, 2)};
        for (size_t k = 0; k < sizeof transposed / sizeof *transposed; k++) {
            qn_tensor *copy = qn_clone(transposed[k]);
            assert_true(copy != NULL && qn_is_contiguous(copy));
            same(copy, transposed[k], "a copy"); /* the view is read element by element */
        }
        (void)qn_scope_end(c, NULL);
    }
    context_end(c);
}

typedef qn_tensor *(*along_fn)(qn_tensor *x, int dim);

static void along(void **state)
{
    (void)state;
    static const along_fn fns[] = {qn_softmax, qn_log_softmax, qn_cumsum, qn_cumprod};
    static const int64_t lengths[] = {1, 5, 64, 130, 600, 2048, 2100};
    qn_context *c = context_new();
    for (int type = 0; type < 4; type++) {
        const qn_dtype dtype = type == 0 ? F32 : type == 1 ? QN_DTYPE_F64 : type == 2 ? QN_DTYPE_I64 : QN_DTYPE_BF16;
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            OK(c, qn_scope_begin(c));
            qn_tensor *x = some(c, qn_shape_of(2, lengths[i], 75), dtype);
            for (int f = type == 2 ? 2 : 0; f < 4; f++) {
                qn_tensor *lanes = qn_transpose(fns[f](qn_contiguous(qn_transpose(x, 1, 2)), 2), 1, 2);
                same(fns[f](x, 1), lanes, "along the middle");
                same(fns[f](qn_transpose(x, 0, 1), 0), qn_transpose(lanes, 0, 1), "along the first of a view");
            }
            (void)qn_scope_end(c, NULL);
        }
    }
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies), cmocka_unit_test(along)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
