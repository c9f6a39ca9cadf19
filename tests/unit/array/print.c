/* SPDX-License-Identifier: MIT */
/* tests/unit/array/print.c -- tensors print as PyTorch prints them. */
#include "rig.h"

typedef struct print_case {
    qn_dtype dtype;
    qn_shape shape;
    double values[100];
    const char *text;
} print_case;

static const print_case cases[] = {
#include "print_cases.inc"
};

static qn_tensor *tensor_of(qn_context *c, const print_case *p)
{
    const int64_t n = qn_shape_numel(&p->shape);
    if (n > 100)
        return qn_view_as(qn_arange(c, p->values[0], p->values[0] + (p->values[1] - p->values[0]) * (double)n,
                                    p->values[1] - p->values[0], p->dtype),
                          p->shape);
    qn_tensor *t = qn_zeros(c, p->shape, p->dtype);
    char *at = qn_data(t);
    for (int64_t i = 0; i < n; i++) { /* element by element, through the API */
        qn_tensor *one = qn_full(c, QN_SCALAR, p->values[i], p->dtype);
        GOOD(c, one);
        memcpy(at + i * qn_dtype_get(p->dtype)->block_bytes, qn_data(one), (size_t)qn_dtype_get(p->dtype)->block_bytes);
        qn_release(one);
    }
    return t;
}

static void as_pytorch(void **state)
{
    (void)state;
    qn_context *c = context_new();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_tensor *t = tensor_of(c, &cases[i]);
        GOOD(c, t);
        char *text = qn_to_string(t);
        GOOD(c, text);
        const size_t n = strlen(cases[i].text) - 1;
        if (strlen(text) != n || memcmp(text, cases[i].text, n) != 0)
            fail_msg("case %zu:\n%s\nexpected\n%s", i, text, cases[i].text);
        qn_free(text);
    }
    context_end(c);
}

static void gradients_and_views(void **state)
{
    (void)state;
    qn_context *c = context_new();
    qn_tensor *x = qn_requires_grad_(qn_ones(c, qn_shape_of(2), F32), true);
    char *text = qn_to_string(x), *product = qn_to_string(qn_mul(x, x));
    assert_string_equal(text, "tensor([1., 1.], requires_grad=True)");
    assert_string_equal(product, "tensor([1., 1.], grad_fn=<mul>)");
    qn_free(text);
    qn_free(product);
    text = qn_to_string(qn_transpose(qn_view_as(qn_arange(c, 0, 4, 1, F32), qn_shape_of(2, 2)), 0, 1));
    assert_string_equal(text, "tensor([[0., 2.],\n        [1., 3.]])");
    qn_free(text);
    context_end(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_pytorch), cmocka_unit_test(gradients_and_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
