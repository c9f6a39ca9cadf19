/* SPDX-License-Identifier: MIT */
/* tests/unit/cpu/backend.c -- the CPU backend as an object: opening, buffers, refusals at compile, failing allocations.
 */
#include "rig.h"

static void test_open(void **state)
{
    (void)state;
    qn_backend *be;
    qn_error error;
    for (int level = 0; level < QN_CPU_LEVEL_COUNT; level++) {
        char want[32];
        OK(qn__backend_cpu.open(&(qn_backend_options){.level = (qn_cpu_level)level, .level_set = true, .n_threads = 1},
                                &be, err));
        snprintf(want, sizeof(want), "cpu:%s", qn_cpu_level_name(qn__kernels_get((qn_cpu_level)level)->level));
        assert_string_equal(be->name, want);
        assert_int_equal(be->alignment, 64);
        qn__backend_cpu.close(be);
    }
    OK(qn__backend_cpu.open(NULL, &be, err));
    qn__backend_cpu.close(be);
    OK(qn__backend_cpu.open(&(qn_backend_options){.name = "mine"}, &be, err));
    assert_string_equal(be->name, "mine");
    qn__backend_cpu.close(be);
    qn__backend_cpu.close(NULL);
    assert_int_equal(qn__backend_cpu.open(&(qn_backend_options){.n_threads = -1}, &be, &error), QN_STATUS_invalid);
    assert_int_equal(qn__backend_cpu.open(&(qn_backend_options){.n_threads = 100000}, &be, &error), QN_STATUS_invalid);
    assert_int_equal(qn__backend_cpu.open(&(qn_backend_options){.level_set = true, .level = QN_CPU_LEVEL_COUNT}, &be,
                                          &error),
                     QN_STATUS_invalid);
    assert_ptr_equal(qn__backend_find("cpu"), &qn__backend_cpu);
}

static void test_buffers(void **state)
{
    (void)state;
    const qn_backend_type *type = &qn__backend_cpu;
    qn_backend *be;
    qn_buffer *b;
    qn_error error;
    char text[8] = "abcdefg", back[8] = {0};
    OK(type->open(&(qn_backend_options){.n_threads = 1}, &be, err));
    OK(type->buffer_create(be, 100, &b, err));
    assert_int_equal((uintptr_t)b->host % 64, 0);
    OK(type->upload(b, 92, text, 8, err));
    OK(type->download(b, 92, back, 8, err));
    assert_memory_equal(text, back, 8);
    assert_int_equal(type->upload(b, 93, text, 8, &error), QN_STATUS_invalid);
    assert_int_equal(type->download(b, UINT64_MAX, back, 8, &error), QN_STATUS_invalid);
    assert_int_equal(type->download(b, 4, back, UINT64_MAX, &error), QN_STATUS_invalid);
    type->buffer_destroy(b);

    OK(type->buffer_wrap(be, text, 8, &b, err));
    assert_ptr_equal(b->host, text);
    OK(type->download(b, 1, back, 3, err));
    assert_memory_equal(back, "bcd", 3);
    assert_int_equal(type->upload(b, 0, back, 1, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "read-only"));
    type->buffer_destroy(b);

    assert_int_equal(type->buffer_create(be, UINT64_MAX, &b, &error), QN_STATUS_nomem);
    type->buffer_destroy(NULL);
    type->close(be);
}

/* Compiles y = x + w by hand, without the scheduler's help. */
static qn_status compile_with(qn_backend *be, qn_buffer *activations, qn_buffer *w_buffer, int32_t place_of_x,
                              uint32_t scratch, uint64_t w_at, qn_error *error)
{
    qn_graph *g;
    qn_program *program = NULL;
    OK(qn__graph_create(&g, err));
    qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(4)),
            *w = qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(4), w_buffer, w_at, 0);
    qn_node *y = qn__add(g, x, w);
    x->place = place_of_x;
    y->place = 0;
    y->offset = 64;
    y->scratch_bytes = scratch;
    const qn_segment segment = {.nodes = &y, .n_nodes = 1, .activations = activations};
    const qn_status status = be->type->compile(be, &segment, &program, error);
    if (status == QN_OK) be->type->program_destroy(program);
    qn__graph_destroy(g);
    return status;
}

static void test_foreign_memory_is_refused(void **state)
{
    (void)state;
    const qn_backend_type *type = &qn__backend_cpu;
    qn_backend *one, *two;
    qn_buffer *mine, *theirs, *small;
    qn_error error;
    OK(type->open(&(qn_backend_options){.level_set = true, .level = QN_CPU_ref, .n_threads = 1}, &one, err));
    OK(type->open(&(qn_backend_options){.n_threads = 1, .name = "cpu:other"}, &two, err));
    OK(type->buffer_create(one, 256, &mine, err));
    OK(type->buffer_create(one, 70, &small, err));
    OK(type->buffer_create(two, 256, &theirs, err));
    OK(compile_with(one, mine, mine, 0, 0, 128, err));
    assert_int_equal(compile_with(one, mine, theirs, 0, 0, 128, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "may not read each other's buffers"));
    assert_non_null(strstr(error.text, "cpu:other"));
    assert_int_equal(compile_with(one, theirs, mine, 0, 0, 128, &error), QN_STATUS_invalid);
    assert_int_equal(compile_with(one, mine, mine, 1, 0, 128, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "may not read each other's buffers"));
    assert_int_equal(compile_with(one, mine, mine, 0, 0, 244, &error), QN_STATUS_invalid); /* ends past the buffer */
    assert_int_equal(compile_with(one, mine, mine, 0, 0, UINT64_MAX - 8, &error), QN_STATUS_invalid);
    assert_int_equal(compile_with(one, small, mine, 0, 0, 128, &error), QN_STATUS_invalid); /* y ends at 80 */
    type->buffer_destroy(mine);
    type->buffer_destroy(theirs);
    type->buffer_destroy(small);
    type->close(one);
    type->close(two);
}

static void test_mapped_weights_are_never_written(void **state)
{
    (void)state;
    static const float memory[16];
    qn_backend *be;
    qn_buffer *b;
    qn_sched *s;
    qn_graph *g;
    qn_exec *e;
    qn_error error;
    OK(qn__backend_cpu.open(&(qn_backend_options){.n_threads = 1}, &be, err));
    OK(qn__backend_cpu.buffer_wrap(be, memory, sizeof(memory), &b, err));
    OK(qn__sched_create(&be, 1, NULL, &s, err));
    OK(qn__graph_create(&g, err));
    qn_node *w = qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(4, 4), b, 0, QN_NODE_mutable);
    qn__output(g, qn__slice_update(g, w, qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(1, 4)), 0, 1, false));
    assert_int_equal(qn__sched_compile(s, g, NULL, 0, &e, &error), QN_STATUS_invalid);
    assert_non_null(strstr(error.text, "read-only"));
    qn__sched_destroy(s);
    qn__backend_cpu.buffer_destroy(b);
    qn__backend_cpu.close(be);
}

/* ---- the n-th allocation fails ---- */

static struct {
    long countdown;
    _Atomic long live;
} books;

static void *books_alloc(void *ctx, size_t size, size_t align)
{
    (void)ctx;
    void *p = NULL;
    if (books.countdown-- == 0 || posix_memalign(&p, align, size)) return NULL;
    memset(p, 0xA5, size);
    books.live++;
    return p;
}

static void books_release(void *ctx, void *ptr, size_t size)
{
    (void)ctx;
    memset(ptr, 0x5A, size);
    books.live--;
    free(ptr);
}

static qn_status everything(qn_error *err)
{
    qn_backend *be = NULL;
    qn_sched *s = NULL;
    qn_buffer *b = NULL;
    qn_graph *g;
    qn_exec *e;
    qn_status status = qn__backend_cpu.open(&(qn_backend_options){.n_threads = 2}, &be, err);
    if (status == QN_OK) status = qn__sched_create(&be, 1, NULL, &s, err);
    if (status == QN_OK) status = qn__backend_cpu.buffer_create(be, 64 * 64 * 4, &b, err);
    if (status == QN_OK) memset(b->host, 0, (size_t)b->bytes);
    if (status == QN_OK) status = qn__graph_create(&g, err);
    if (status == QN_OK) {
        qn_node *x = qn__input(g, "x", QN_DTYPE_F32, &qn_shape_of(2, 64));
        qn_node *w = qn__param(g, "w", QN_DTYPE_F32, &qn_shape_of(64, 64), b, 0, 0);
        qn__output(g, qn__silu(g, qn__linear(g, qn__rms_norm(g, x, NULL, 1e-5f), w, NULL)));
        status = qn__sched_compile(s, g, "k", 1, &e, err);
    }
    if (status == QN_OK) status = qn__exec_run(e, NULL, err);
    qn__sched_destroy(s);
    qn__backend_cpu.buffer_destroy(b);
    qn__backend_cpu.close(be);
    return status;
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    bool done = false;
    int n_failed = 0;
    for (long n = 0; !done; n++) {
        qn_error error = {0};
        books.countdown = n;
        books.live = 0;
        qn_set_allocator(&(qn_allocator){books_alloc, books_release, NULL});
        const qn_status status = everything(&error);
        done = books.countdown >= 0;
        qn_set_allocator(NULL);
        assert_int_equal(books.live, 0);
        assert_int_equal(status, done ? QN_OK : QN_STATUS_nomem);
        n_failed += !done;
    }
    assert_true(n_failed > 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_foreign_memory_is_refused),
        cmocka_unit_test(test_mapped_weights_are_never_written),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
