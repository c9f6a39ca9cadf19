/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/real.c -- binary16 and bfloat16 both ways, against NumPy and the gguf package (hashes) and against
 * the definition: all 65536 values come back, and every midpoint rounds to even. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fenv.h>
#include <float.h>
#include <math.h>

#include "base/error.h"
#include "blocks_random.h"
#include "quant/quant.h"
#include "unpack_figures.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static bool f16_is_nan(uint32_t h) { return (h & 0x7fff) > 0x7c00; }

static void f16_widens_to_the_bits_of_numpy(void **state)
{
    (void)state;
    uint64_t hash = 0;

    for (uint32_t h = 0; h < 65536; h++)
        hash = hash_bits(hash, f16_is_nan(h) ? 0 : bits_of(qn__f16_to_f32((uint16_t)h)), h);
    assert_true(hash == HASH_F16_TO_F32);
    assert_true(qn__f16_to_f32(0x7bff) == 65504);
    assert_true(qn__f16_to_f32(0x0001) == 0x1p-24f);
    assert_true(qn__f16_to_f32(0xfc00) == -INFINITY);
}

static void f16_nans_stay_quiet_nans(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        if (!f16_is_nan(h)) continue;
        const uint32_t u = bits_of(qn__f16_to_f32((uint16_t)h));
        assert_true((u & 0x7fc00000) == 0x7fc00000);
        assert_int_equal(u >> 31, h >> 15);
        assert_int_equal(u >> 13 & 0x1ff, h & 0x1ff);
        assert_int_equal(qn__f32_to_f16(float_of(u)), h | 0x200);
    }
    assert_int_equal(qn__f32_to_f16(float_of(0x7f800001)), 0x7e00); /* signalling, payload lost: still a NaN */
    assert_int_equal(qn__f32_to_f16(float_of(0xffbfffff)), 0xffff);
    assert_int_equal(qn__f32_to_bf16(float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(qn__f32_to_bf16(float_of(0xffffffff)), 0xffff);
}

static void narrowing_is_the_oracles(void **state)
{
    (void)state;
    uint64_t f16 = 0, bf16 = 0;

    for (size_t i = 0; i < 1 << 20; i++) {
        uint32_t u = (uint32_t)(random_word(5, i / 2) >> i % 2 * 32);
        if (i % 2) u = (u & 0x8fffffff) | 0x30000000; /* half of them near the range of binary16 */
        if ((u & 0x7fffffff) > 0x7f800000) u = 0;
        f16 = hash_bits(f16, qn__f32_to_f16(float_of(u)), i);
        bf16 = hash_bits(bf16, qn__f32_to_bf16(float_of(u)), i);
    }
    assert_true(f16 == HASH_F32_TO_F16);
    assert_true(bf16 == HASH_F32_TO_BF16);
}

/* Between neighbours a and b, the value at and around the midpoint. 65504 has the neighbour 65536, whose name is
 * infinity. */
static void check_rounding(uint16_t (*narrow)(float), float (*widen)(uint16_t), uint32_t h, float next)
{
    const float a = widen((uint16_t)h);
    const double middle = ((double)a + next) / 2;
    const uint32_t even = h & 1 ? h + 1 : h;

    assert_int_equal(narrow(a), h);
    assert_int_equal(narrow((float)middle), even);
    assert_int_equal(narrow(nextafterf((float)middle, 0)), h);
    assert_int_equal(narrow(nextafterf((float)middle, INFINITY)), h + 1);
    assert_int_equal(narrow(-(float)middle), even | 0x8000);
    assert_int_equal(narrow(-nextafterf((float)middle, 0)), h | 0x8000);
    assert_int_equal(narrow(nextafterf(next, 0)), h + 1);
}

static void midpoints_round_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++)
        check_rounding(qn__f32_to_f16, qn__f16_to_f32, h, h == 0x7bff ? 65536 : qn__f16_to_f32((uint16_t)(h + 1)));
    for (uint32_t h = 0; h < 0x7f7f; h++)
        check_rounding(qn__f32_to_bf16, qn__bf16_to_f32, h, qn__bf16_to_f32((uint16_t)(h + 1)));
    assert_int_equal(qn__f32_to_bf16(FLT_MAX), 0x7f80);
    assert_int_equal(qn__f32_to_bf16(float_of(0x7f7f7fff)), 0x7f7f);
    assert_int_equal(qn__f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(qn__f32_to_f16(-FLT_MAX), 0xfc00);
    assert_int_equal(qn__f32_to_f16(-FLT_MIN), 0x8000);
}

static void bf16_is_the_upper_half(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        assert_int_equal(bits_of(qn__bf16_to_f32((uint16_t)h)), h << 16);
        if ((h & 0x7fff) <= 0x7f80) assert_int_equal(qn__f32_to_bf16(float_of(h << 16)), h);
    }
}

static void the_rounding_mode_does_not_matter(void **state)
{
    (void)state;
    const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

    for (int m = 0; m < 3; m++) {
        assert_int_equal(fesetround(modes[m]), 0);
        const uint16_t up = qn__f32_to_f16(1.0005f), tiny = qn__f32_to_f16(0x1.8p-25f), bf = qn__f32_to_bf16(1.005f);
        const float sub = qn__f16_to_f32(0x83ff);
        fesetround(FE_TONEAREST);
        assert_int_equal(up, 0x3c01);
        assert_int_equal(tiny, 1);
        assert_int_equal(bf, 0x3f81);
        assert_true(sub == -1023 * 0x1p-24f);
    }
}

/* Rows of scalars through the public functions, from and to addresses that no float would have. */
static void scalar_rows(void **state)
{
    (void)state;
    enum { N = 301 };
    static const struct {
        qn_dtype dtype;
        float (*through)(uint16_t);
        uint16_t (*narrow)(float);
    } rows[] = {
        {QN_DTYPE_F32, NULL, NULL},
        {QN_DTYPE_F64, NULL, NULL},
        {QN_DTYPE_F16, qn__f16_to_f32, qn__f32_to_f16},
        {QN_DTYPE_BF16, qn__bf16_to_f32, qn__f32_to_bf16},
    };
    float x[N], y[N];
    unsigned char packed[N * 8 + 1];

    for (int i = 0; i < N; i++)
        x[i] = ((float)(random_word(6, (uint64_t)i) >> 40) - 0x1p23f) * (i % 3 ? 0x1p-20f : 0x1p-42f);
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        assert_true(qn_dtype_can_pack(rows[k].dtype));
        assert_int_equal(qn_pack(rows[k].dtype, x, packed + 1, 7, N / 7, NULL, NULL), QN_OK);
        assert_int_equal(qn_unpack(rows[k].dtype, packed + 1, y, N, NULL), QN_OK);
        for (int i = 0; i < N; i++)
            assert_int_equal(bits_of(y[i]), bits_of(rows[k].narrow ? rows[k].through(rows[k].narrow(x[i])) : x[i]));
    }
    const double wide[3] = {1e300, -1e-300, 0.1};
    assert_int_equal(qn_unpack(QN_DTYPE_F64, wide, y, 3, NULL), QN_OK);
    assert_true(y[0] == INFINITY && y[1] == 0 && signbit(y[1]) && y[2] == 0.1f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_widens_to_the_bits_of_numpy),
        cmocka_unit_test(f16_nans_stay_quiet_nans),
        cmocka_unit_test(narrowing_is_the_oracles),
        cmocka_unit_test(midpoints_round_to_even),
        cmocka_unit_test(bf16_is_the_upper_half),
        cmocka_unit_test(the_rounding_mode_does_not_matter),
        cmocka_unit_test(scalar_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
