/* SPDX-License-Identifier: MIT */
/* tests/unit/tensor/view.c -- views against NumPy's answers (layout_cases.inc, made by tests/oracle/layout.py), and
 * what no array can show: aliasing, messages, layouts and sizes made up by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <quern/tensor.h>
#include <stdio.h>
#include <string.h>

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

enum op {
    OP_view,
    OP_permute,
    OP_transpose,
    OP_squeeze,
    OP_unsqueeze,
    OP_expand,
    OP_narrow,
    OP_select,
    OP_slice,
    OP_flip
};

static const char *const op_names[] = {"view",   "permute", "transpose", "squeeze", "unsqueeze",
                                       "expand", "narrow",  "select",    "slice",   "flip"};

typedef struct view_case {
    enum op op;
    qn_layout in;
    int n_args;
    int64_t arg[10];
    bool ok;
    qn_layout want;
} view_case;

static const view_case cases[] = {
#include "layout_cases.inc"
};

static qn_status apply(const view_case *c, const qn_layout *in, qn_layout *out, qn_error *err)
{
    const int64_t *a = c->arg;
    const int dim = (int)a[0];
    qn_shape shape = {.rank = c->n_args};
    int dims[10] = {0};
    memcpy(shape.dim, a, sizeof shape.dim);
    for (int i = 0; i < c->n_args; i++) dims[i] = (int)a[i];
    switch (c->op) {
    case OP_view: return qn_layout_view(in, &shape, out, err);
    case OP_permute: return qn_layout_permute(in, dims, c->n_args, out, err);
    case OP_transpose: return qn_layout_transpose(in, dim, (int)a[1], out, err);
    case OP_squeeze: return qn_layout_squeeze(in, dim, out, err);
    case OP_unsqueeze: return qn_layout_unsqueeze(in, dim, out, err);
    case OP_expand: return qn_layout_expand(in, &shape, out, err);
    case OP_narrow: return qn_layout_narrow(in, dim, a[1], a[2], out, err);
    case OP_select: return qn_layout_select(in, dim, a[1], out, err);
    case OP_slice: return qn_layout_slice(in, dim, a[1], a[2], a[3], out, err);
    case OP_flip: return qn_layout_flip(in, dim, out, err);
    }
    return QN_STATUS_internal;
}

/* Equal as far as any element can tell: the stride of a dimension of size 1 and the place of an empty tensor say
 * nothing. */
static bool same(const qn_layout *a, const qn_layout *b)
{
    const qn_shape sa = qn_layout_shape(a), sb = qn_layout_shape(b);
    if (!qn_shape_equal(&sa, &sb)) return false;
    if (qn_layout_numel(a) == 0) return true;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] > 1 && a->stride[i] != b->stride[i]) return false;
    }
    return a->offset == b->offset;
}

static void print_layout(const char *what, const qn_layout *l)
{
    print_error("%s rank %d offset %lld:", what, l->rank, (long long)l->offset);
    for (int i = 0; i < l->rank && i < QN_MAX_RANK; i++)
        print_error(" %lld/%lld", (long long)l->dim[i], (long long)l->stride[i]);
    print_error("\n");
}

static void as_numpy_does(void **state)
{
    (void)state;
    assert_true(ARRAY_LEN(cases) >= 150);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const view_case *c = &cases[i];
        const qn_layout untouched = {.rank = 1, .dim = {7}, .stride = {77}, .offset = 777};
        qn_layout out = untouched, alias = c->in;
        qn_error err = {0};
        const qn_status status = apply(c, &c->in, &out, &err);
        bool good = c->ok ? status == QN_OK && same(&out, &c->want) : status == QN_STATUS_invalid;
        if (!c->ok) { /* nothing written, and a message that begins with the operation */
            good = good && memcmp(&out, &untouched, sizeof out) == 0;
            good = good && strncmp(err.text, op_names[c->op], strlen(op_names[c->op])) == 0;
        } else {
            for (int d = out.rank; d < QN_MAX_RANK; d++) good = good && out.dim[d] == 0;
        }
        const qn_status in_place = apply(c, &alias, &alias, NULL);
        good = good && in_place == status && memcmp(&alias, c->ok ? &out : &c->in, sizeof alias) == 0;
        if (!good) {
            print_layout("input", &c->in);
            print_layout("wanted", &c->want);
            print_layout("found", &out);
            fail_msg("case %zu, %s: status %d, %s", i, op_names[c->op], status, err.text);
        }
    }
}

/* Every element of a view lies in the range, and its ends are reached: brute force over the oracle's own layouts. */
static void range_by_enumeration(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const qn_layout *l = &cases[i].in;
        int64_t begin, end, lowest = INT64_MAX, highest = INT64_MIN;
        const int64_t n = qn_layout_numel(l);
        for (int64_t e = 0; e < n; e++) {
            int64_t rest = e, at = l->offset;
            for (int d = l->rank - 1; d >= 0; d--) {
                at += rest % l->dim[d] * l->stride[d];
                rest /= l->dim[d];
            }
            if (at < lowest) lowest = at;
            if (at > highest) highest = at;
        }
        qn_layout_range(l, &begin, &end);
        assert_true(n == 0 ? begin == 0 && end == 0 : begin == lowest && end == highest + 1);
    }
}

static void messages_name_both_shapes(void **state)
{
    (void)state;
    qn_layout t, out;
    qn_error err;
    assert_int_equal(qn_layout_contiguous(&qn_shape_of(2, 3), &t, NULL), QN_OK);
    qn_layout_transpose(&t, 0, 1, &t, NULL);
    qn_layout_view(&t, &qn_shape_of(6), &out, &err);
    assert_string_equal(err.text, "view: [3,2] with strides [1,3] cannot become [6] without a copy, use reshape");
    qn_layout_view(&t, &qn_shape_of(4, -1), &out, &err);
    assert_string_equal(err.text, "view: [3,2] with 6 elements cannot become [4,-1]");
    qn_layout_expand(&t, &qn_shape_of(3, 4), &out, &err);
    assert_string_equal(
        err.text, "expand: [3,2] cannot become [3,4], only dimensions of size 1 stretch and new ones go in front");
    qn_layout_narrow(&t, -1, 1, 2, &out, &err);
    assert_string_equal(err.text, "narrow: start 1 and length 2 leave dimension 1 of [3,2]");
    qn_layout_select(&t, 0, -4, &out, &err);
    assert_string_equal(err.text, "select: index -4 is out of range for dimension 0 of [3,2]");
    qn_layout_flip(&t, 2, &out, &err);
    assert_string_equal(err.text, "flip: dimension 2 is out of range for [3,2], -2 to 1 were expected");
}

/* Numbers that no array holds: nothing overflows (UndefinedBehaviorSanitizer watches), and nonsense is refused. */
static void made_up_layouts(void **state)
{
    (void)state;
    qn_layout out;
    qn_error err;
    const int64_t huge = INT64_C(1) << 62;
    const qn_layout bad[] = {
        {.rank = 9},
        {.rank = -1},
        {.rank = 2, .dim = {2, -3}, .stride = {3, 1}},
        {.rank = 2, .dim = {huge, 4}, .stride = {4, 1}},      /* too many elements */
        {.rank = 2, .dim = {3, 3}, .stride = {INT64_MAX, 1}}, /* reaches too far */
        {.rank = 2, .dim = {2, 2}, .stride = {INT64_MIN, 1}},
        {.rank = 1, .dim = {2}, .stride = {-3}, .offset = INT64_MIN + 1},
        {.rank = 1, .dim = {5}, .stride = {1}, .offset = INT64_MAX - 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        for (int op = OP_view; op <= OP_flip; op++) {
            const view_case c = {.op = (enum op)op, .n_args = 2, .arg = {0, 1, 1, 1}};
            assert_int_equal(apply(&c, &bad[i], &out, &err), QN_STATUS_invalid);
        }
    }
    qn_layout wide = {.rank = 1, .dim = {1}, .stride = {INT64_MAX}},
              empty = {.rank = 2, .dim = {0, 5}, .stride = {1, INT64_MAX}};
    for (int op = OP_view; op <= OP_flip; op++) { /* strange but harmless: a stride that is never taken */
        const view_case c = {.op = (enum op)op,
                             .n_args = 1,
                             .arg = {op == OP_view || op == OP_expand, 0, 1, INT64_MAX}};
        apply(&c, &wide, &out, &err);
        const view_case d = {.op = (enum op)op,
                             .n_args = 2,
                             .arg = {1, op == OP_view || op == OP_permute ? 0 : 3, 2, INT64_MAX}};
        apply(&d, &empty, &out, &err);
    }
    const qn_layout one = {.rank = 1, .dim = {1}, .stride = {1}};
    assert_int_equal(qn_layout_expand(&one, &qn_shape_of(huge), &out, &err), QN_OK); /* the most elements */
    assert_true(out.dim[0] == huge && out.stride[0] == 0);
    assert_int_equal(qn_layout_expand(&one, &qn_shape_of(huge, 2), &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_view(&one, &qn_shape_of(huge, huge), &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_view(&one, &(qn_shape){.rank = 9}, &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_view(&one, &(qn_shape){.rank = -1}, &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_expand(&one, &(qn_shape){.rank = 9}, &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_view(&one, &qn_shape_of(INT64_MIN), &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_transpose(&one, INT32_MIN, 0, &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_unsqueeze(&one, INT32_MAX, &out, &err), QN_STATUS_invalid);
    assert_int_equal(qn_layout_unsqueeze(&one, INT32_MIN, &out, &err), QN_STATUS_invalid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_numpy_does),
        cmocka_unit_test(range_by_enumeration),
        cmocka_unit_test(messages_name_both_shapes),
        cmocka_unit_test(made_up_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
