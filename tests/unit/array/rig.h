/* SPDX-License-Identifier: MIT */
/* tests/unit/array/rig.h -- what the tests of tensors share. */
#ifndef QN_TEST_ARRAY_RIG_H
#define QN_TEST_ARRAY_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <quern/array.h>
#include <quern/autograd.h>
#include <quern/ops.h>

#define F32 QN_DTYPE_F32

static inline qn_context *context_new(void)
{
    qn_context *c = NULL;
    qn_error err = {0};
    if (qn_context_create(NULL, &c, &err) != QN_OK) fail_msg("%s", err.text);
    return c;
}

/* Ends the context; nothing may have failed in it. */
static inline void context_end(qn_context *c)
{
    if (qn_context_error(c)->status != QN_OK)
        fail_msg("%s (%s:%d)", qn_context_error(c)->text, qn_context_error(c)->file, qn_context_error(c)->line);
    qn_context_destroy(c);
}

#define GOOD(c, t) \
    do { \
        if ((t) == NULL) fail_msg("%s: %s", #t, qn_context_error(c)->text); \
    } while (0)
#define OK(c, call) \
    do { \
        if ((call) != QN_OK) fail_msg("%s: %s", #call, qn_context_error(c)->text); \
    } while (0)

/* The call fails, and the context says why with these words. */
#define REFUSED(c, t, words) \
    do { \
        qn_context_clear(c); \
        assert_null(t); \
        if (strstr(qn_context_error(c)->text, words) == NULL) fail_msg("%s: \"%s\"", #t, qn_context_error(c)->text); \
        qn_context_clear(c); \
    } while (0)

/* Row-major values, exactly. */
static inline void expect_values(qn_tensor *t, const double *want, int64_t n, const char *file, int line)
{
    if (t == NULL) fail_msg("%s:%d: no tensor", file, line);
    double *have = calloc((size_t)n + 1, sizeof *have);
    have[n] = 4.5; /* nothing is written past the last */
    if (qn_to_doubles(t, have, n) != QN_OK) fail_msg("%s:%d: %s", file, line, qn_context_error(qn_context_of(t))->text);
    for (int64_t i = 0; i < n; i++) {
        if (have[i] != want[i] && !(isnan(have[i]) && isnan(want[i])))
            fail_msg("%s:%d: element %lld is %g, %g expected", file, line, (long long)i, have[i], want[i]);
    }
    if (have[n] != 4.5) fail_msg("%s:%d: more than %lld elements written", file, line, (long long)n);
    free(have);
}
#define EXPECT(t, ...) \
    expect_values((t), (const double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), \
                  __FILE__, __LINE__)

static inline void expect_shape(const qn_tensor *t, qn_shape want, const char *file, int line)
{
    char a[192], b[192];
    const qn_shape have = qn_shape_get(t);
    if (!qn_shape_equal(&have, &want))
        fail_msg("%s:%d: %s, %s expected", file, line, qn_shape_print(&have, a, sizeof a),
                 qn_shape_print(&want, b, sizeof b));
}
#define SHAPE(t, ...) expect_shape((t), qn_shape_of(__VA_ARGS__), __FILE__, __LINE__)

static inline qn_tensor *f32(qn_context *c, qn_shape shape, const float *values)
{
    qn_tensor *t = qn_from_data(c, values, shape, F32);
    GOOD(c, t);
    return t;
}

#endif
