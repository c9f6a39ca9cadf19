/* SPDX-License-Identifier: MIT */
/* tests/unit/array/devices_rig.h -- contexts over two devices: two levels of the processor, which every build has; an
 * OpenCL device; the stand-in for libcuda.so.1 (tests/standin), which computes on the processor. */
#ifndef QN_TEST_ARRAY_DEVICES_RIG_H
#define QN_TEST_ARRAY_DEVICES_RIG_H

#include "rig.h"

#include "device.h"
#include "gpu/cuda.h"

#include <dlfcn.h>

enum { N_SIDES = 3 };
static const struct {
    const char *list, *device;
} sides[N_SIDES] = {{"cpu,cpu:ref", "cpu:ref"}, {"cpu,opencl", "opencl:0"}, {"cpu,cuda", "cuda:0"}};
static bool there[N_SIDES] = {true};

/* Under a sanitizer neither computes. */
static inline void find_sides(void)
{
    there[1] = device_works("opencl");
#ifndef QN_CHECKED
    there[2] = qn__cuda_image(&qn__cuda_kind) && dlopen(QN_BUILD_DIR "/standin/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
#endif
}

static inline qn_context *context_over(const char *list)
{
    qn_context *c = NULL;
    qn_error err = {0};
    if (qn_context_create(&(qn_context_options){.backend = list, .n_threads = 1}, &c, &err) != QN_OK)
        fail_msg("%s: %s", list, err.text);
    return c;
}

static inline int64_t fallbacks(const qn_context *c)
{
    qn_context_info info;
    qn_context_get_info(c, &info);
    return (int64_t)info.n_fallbacks;
}

/* The values of a are those of b, to the bit. */
static inline void expect_same(qn_tensor *a, qn_tensor *b, const char *what, int line)
{
    if (a == NULL || b == NULL) {
        const qn_context *c = qn_context_of(a != NULL ? a : b);
        fail_msg("line %d: %s: %s", line, what, c != NULL ? qn_context_error(c)->text : "no tensor");
    }
    const qn_shape shape = qn_shape_get(a), other = qn_shape_get(b);
    assert_true(qn_shape_equal(&shape, &other) && qn_dtype_of(a) == qn_dtype_of(b));
    const qn_dtype_info *info = qn_dtype_get(qn_dtype_of(a));
    const size_t bytes = (size_t)(qn_numel(a) / info->block_elems * info->block_bytes);
    char *x = malloc(bytes + 1), *y = malloc(bytes + 1);
    OK(qn_context_of(a), qn_to_host(a, x, bytes));
    OK(qn_context_of(b), qn_to_host(b, y, bytes));
    if (memcmp(x, y, bytes) != 0)
        fail_msg("line %d: %s on %s and on %s has other bits", line, what, qn_device_of(a), qn_device_of(b));
    free(x);
    free(y);
}
#define EXPECT_SAME(a, b)      expect_same((a), (b), #a, __LINE__)
#define EXPECT_DEVICE(t, name) assert_string_equal(qn_device_of(t), name)

#endif
