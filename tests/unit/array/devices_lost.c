/* SPDX-License-Identifier: MIT */
/* tests/unit/array/devices_lost.c -- tensors on two devices of which a call fails: a status that says so, nothing is
 * left behind, and what lies with the host stays. On the stand-in for libcuda.so.1, which checks every call. */
#include "devices_rig.h"

#include "standin/standin.h"

enum { ROWS = 3, N = 8 };
static standin *card;
static void (*reset)(void);
static int told; /* calls before everything is given back, which has no status */

static const float *numbers(void)
{
    static float x[ROWS * N];
    for (int i = 0; i < ROWS * N; i++) x[i] = (float)(i % 7) / 4 - 0.5f;
    return x;
}

/* a on one device, b of it on the other, and back to the first. y [ROWS, ROWS] */
static qn_status compute(float *y, qn_error *err)
{
    qn_context *c = NULL;
    qn_status status =
        qn_context_create(&(qn_context_options){.backend = "cpu,cuda:0,cuda:1", .n_threads = 1}, &c, err);
    if (status == QN_OK) {
        qn_tensor *x = f32(c, qn_shape_of(ROWS, N), numbers()), *a = qn_to_device(x, "cuda:0"),
                  *square = qn_matmul(a, qn_transpose(a, 0, 1)), *other = qn_to_device(square, "cuda:1"),
                  *b = qn_softmax(qn_mul(other, other), 1), *all = qn_add(square, qn_to_device(b, "cuda:0"));
        if (!all || qn_to_host(all, y, ROWS * ROWS * sizeof *y) != QN_OK) {
            *err = *qn_context_error(c);
            status = err->status;
        }
    }
    told = card->calls;
    qn_context_destroy(c);
    return status;
}

static void kept_the_rules(void)
{
    if (card->n_wrong) fail_msg("%d breaches, the first: %s", card->n_wrong, card->wrong);
    assert_int_equal(card->live, 0);
    assert_int_equal(card->live_bytes, 0);
}

static void start(int fail_at, int code)
{
    reset();
    card->devices = 2;
    card->fail_at = fail_at;
    card->fail_code = code;
}

/* Whatever call fails, of either device. */
static void each_call_fails_once(void **state)
{
    (void)state;
    static const struct {
        int code;
        qn_status status;
    } codes[] = {{719, QN_STATUS_lost}, {2, QN_STATUS_nomem}, {999, QN_STATUS_unsupported}};
    float want[ROWS * ROWS], y[ROWS * ROWS];
    qn_error err = {0};
    if (!card) skip();
    start(0, 0);
    if (compute(want, &err) != QN_OK) fail_msg("%s", err.text);
    kept_the_rules();
    const int n = card->calls;
    assert_true(told > 60);
    for (int i = 1; i <= n; i++)
        for (int k = 0; k < 3; k++) {
            err = (qn_error){0};
            start(i, codes[k].code);
            const qn_status status = compute(y, &err);
            /* what can't run as a whole is tried in parts; a device that is gone is gone for those too */
            const bool in_parts = status == QN_OK && codes[k].status != QN_STATUS_lost;
#ifndef QN_CHECKED
            if (status == QN_OK) assert_memory_equal(y, want, sizeof y);
#endif
            if (status != codes[k].status && !in_parts && (status != QN_OK || i <= told))
                fail_msg("call %d of %d, code %d: status %d: %s", i, n, codes[k].code, status, err.text);
            if (status != QN_OK && (!strstr(err.text, "cuda") || strchr(err.text, '\n'))) fail_msg("%s", err.text);
            kept_the_rules();
        }
}

/* A device that is gone stays gone; the other one and the host go on. */
static void one_is_gone(void **state)
{
    (void)state;
    if (!card) skip();
    start(0, 0);
    qn_context *c = context_over("cpu,cuda:0,cuda:1");
    qn_tensor *x = f32(c, qn_shape_of(ROWS, N), numbers()), *a = qn_to_device(x, "cuda:0"),
              *b = qn_to_device(x, "cuda:1");
    float y[ROWS * N];
    OK(c, qn_to_host(a, y, sizeof y));
    OK(c, qn_to_host(b, y, sizeof y));
    card->fail_at = card->calls + 1;
    card->fail_code = 719;
    for (int i = 0; i < 3; i++) {
        qn_context_clear(c);
        qn_tensor *twice = qn_add(a, a);
        assert_int_equal(twice ? qn_to_host(twice, y, sizeof y) : qn_context_error(c)->status, QN_STATUS_lost);
        qn_release(twice);
        if (!strstr(qn_context_error(c)->text, "must be opened again")) fail_msg("%s", qn_context_error(c)->text);
    }
    qn_context_clear(c);
    OK(c, qn_to_host(b, y, sizeof y));
#ifndef QN_CHECKED
    assert_memory_equal(y, numbers(), sizeof y);
#endif
    OK(c, qn_to_host(qn_add(b, b), y, sizeof y));
    EXPECT_SAME(x, qn_mul_number(qn_mul_number(x, -1), -1));
    context_end(c);
    kept_the_rules();
}

/* A number goes to a device with the part that computes with it: one that is waiting for a device that is gone, or that
 * nobody will read any more, does not keep the host from computing. */
static void numbers_for_one_that_is_gone(void **state)
{
    (void)state;
    if (!card) skip();
    for (int released = 0; released < 2; released++) {
        start(0, 0);
        qn_context *c = context_over("cpu,cuda:0");
        qn_tensor *b = f32(c, qn_shape_of(ROWS, N), numbers()), *a = qn_to_device(b, "cuda:0");
        float y[ROWS * N];
        OK(c, qn_eval_all(c));
        card->fail_at = card->calls + 1;
        card->fail_code = 719;
        assert_int_equal(qn_to_host(a, y, sizeof y), QN_STATUS_lost);
        qn_context_clear(c);
        qn_tensor *twice = qn_mul_number(a, 2), *sum = qn_add(b, b);
        GOOD(c, twice);
        if (released) qn_release(twice);
        OK(c, qn_to_host(sum, y, sizeof y));
#ifndef QN_CHECKED
        for (int i = 0; i < ROWS * N; i++) assert_true(y[i] == 2 * numbers()[i]);
#endif
        EXPECT_SAME(qn_mul_number(b, 2), sum);
        if (!released) assert_int_equal(qn_to_host(twice, y, sizeof y), QN_STATUS_lost);
        qn_context_clear(c);
        context_end(c);
        kept_the_rules();
    }
}

static uint64_t idle(const qn_context *c)
{
    qn_context_info info;
    qn_context_get_info(c, &info);
    return info.idle_bytes;
}

/* What waits on a device for storages of its size is given back when there is no room for another size, or for what a
 * graph computes in. */
static void a_full_device_gives_back_what_waits(void **state)
{
    (void)state;
    if (!card) skip();
    for (int k = 0; k < 2; k++) {
        start(0, 0);
        card->memory_bytes = UINT64_C(64) << 20;
        qn_context *c = context_over("cpu,cuda:0");
        OK(c, qn_set_default_device(c, "cuda:0"));
        qn_tensor *x = qn_ones(c, qn_shape_of(4 << 20), F32), *first = qn_empty(c, qn_shape_of(8 << 20), F32);
        OK(c, qn_eval(x));
        GOOD(c, first);
        qn_release(first);
        assert_true(idle(c) >= (UINT64_C(32) << 20));
        if (k == 0)
            GOOD(c, qn_empty(c, qn_shape_of(7 << 20), F32));
        else
            OK(c, qn_eval(qn_sum(qn_cat((qn_tensor *const[]){x, x}, 2, 0), QN_ALL, false)));
        assert_true(idle(c) < (UINT64_C(32) << 20));
        qn_context_trim(c);
        REFUSED(c, qn_empty(c, qn_shape_of(20 << 20), F32), "needed");
        context_end(c);
        kept_the_rules();
    }
}

/* As much may wait as is in use, on that device. */
static void what_is_in_use_elsewhere_does_not_count(void **state)
{
    (void)state;
    if (!card) skip();
    start(0, 0);
    qn_context *c = context_over("cpu,cuda:0");
    GOOD(c, qn_empty(c, qn_shape_of(64 << 20), F32));
    OK(c, qn_set_default_device(c, "cuda:0"));
    qn_tensor *t[3];
    for (int i = 0; i < 3; i++) GOOD(c, t[i] = qn_empty(c, qn_shape_of(12 << 20), F32));
    for (int i = 0; i < 3; i++) qn_release(t[i]);
    assert_true(idle(c) <= UINT64_C(96) << 20 && idle(c) > 0);
    context_end(c);
    kept_the_rules();
}

static int open_standin(void **state)
{
    (void)state;
    standin *(*get)(void) = NULL;
    void *lib =
        qn__cuda_image(&qn__cuda_kind) ? dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!lib) return 0;
    *(void **)(void *)&get = dlsym(lib, "standin_state");
    *(void **)(void *)&reset = dlsym(lib, "standin_reset");
    card = get();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails_once), cmocka_unit_test(one_is_gone),
                                       cmocka_unit_test(numbers_for_one_that_is_gone),
                                       cmocka_unit_test(a_full_device_gives_back_what_waits),
                                       cmocka_unit_test(what_is_in_use_elsewhere_does_not_count)};
    return cmocka_run_group_tests(tests, open_standin, NULL);
}
