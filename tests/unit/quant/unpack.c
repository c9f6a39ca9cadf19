/* SPDX-License-Identifier: MIT */
/* tests/unit/quant/unpack.c -- every block format unpacks random blocks to the very bits of an independent program, and
 * qn_unpack refuses what it should. Every row of QN_DTYPE_ROWS of class block needs a figure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/error.h"
#include "blocks_random.h"
#include "quant/blocks.h"
#include "quant/quant.h"
#include "unpack_figures.h"

/* Where a block has binary16 numbers that must stay finite: the high byte of each. IQ1_M's is spread over its scales.
 */
#define HIGH(name, field) (int)offsetof(qn_block_##name, field) + 1
static const struct scale_bytes {
    qn_dtype dtype;
    int offset[2];
    /* clang-format off */
} scale_bytes[] = {
    {QN_DTYPE_Q4_0, {HIGH(Q4_0, d), -1}},           {QN_DTYPE_Q4_1, {HIGH(Q4_1, d), HIGH(Q4_1, m)}},
    {QN_DTYPE_Q5_0, {HIGH(Q5_0, d), -1}},           {QN_DTYPE_Q5_1, {HIGH(Q5_1, d), HIGH(Q5_1, m)}},
    {QN_DTYPE_Q8_0, {HIGH(Q8_0, d), -1}},           {QN_DTYPE_Q2_K, {HIGH(Q2_K, d), HIGH(Q2_K, dmin)}},
    {QN_DTYPE_Q3_K, {HIGH(Q3_K, d), -1}},           {QN_DTYPE_Q4_K, {HIGH(Q4_K, d), HIGH(Q4_K, dmin)}},
    {QN_DTYPE_Q5_K, {HIGH(Q5_K, d), HIGH(Q5_K, dmin)}}, {QN_DTYPE_Q6_K, {HIGH(Q6_K, d), -1}},
    {QN_DTYPE_IQ2_XXS, {HIGH(IQ2_XXS, d), -1}},     {QN_DTYPE_IQ2_XS, {HIGH(IQ2_XS, d), -1}},
    {QN_DTYPE_IQ2_S, {HIGH(IQ2_S, d), -1}},         {QN_DTYPE_IQ3_XXS, {HIGH(IQ3_XXS, d), -1}},
    {QN_DTYPE_IQ3_S, {HIGH(IQ3_S, d), -1}},         {QN_DTYPE_IQ1_S, {HIGH(IQ1_S, d), -1}},
    {QN_DTYPE_IQ1_M, {HIGH(IQ1_M, scales[3]), -1}}, {QN_DTYPE_IQ4_NL, {HIGH(IQ4_NL, d), -1}},
    {QN_DTYPE_IQ4_XS, {HIGH(IQ4_XS, d), -1}},       {QN_DTYPE_TQ1_0, {HIGH(TQ1_0, d), -1}},
    {QN_DTYPE_TQ2_0, {HIGH(TQ2_0, d), -1}},
};
/* clang-format on */

static unsigned char blocks[RANDOM_BLOCKS * 256 + 1];
static float values[RANDOM_BLOCKS * 256];

/* Fills `to` with random blocks of finite scales; returns their number of elements. */
static int64_t random_blocks(qn_dtype dtype, unsigned char *to)
{
    const qn_dtype_info *info = qn_dtype_get(dtype);

    random_bytes((uint64_t)info->gguf_id, to, (size_t)RANDOM_BLOCKS * (size_t)info->block_bytes);
    for (size_t k = 0; k < sizeof scale_bytes / sizeof scale_bytes[0]; k++) {
        for (int i = 0; i < 2 && scale_bytes[k].dtype == dtype; i++) {
            if (scale_bytes[k].offset[i] < 0) continue;
            for (int b = 0; b < RANDOM_BLOCKS; b++) to[b * info->block_bytes + scale_bytes[k].offset[i]] &= 0xbf;
        }
    }
    return (int64_t)RANDOM_BLOCKS * info->block_elems;
}

static const struct unpack_figure *find_figure(const char *name)
{
    for (size_t k = 0; k < sizeof unpack_figures / sizeof unpack_figures[0]; k++)
        if (strcmp(unpack_figures[k].name, name) == 0) return &unpack_figures[k];
    return NULL;
}

static void unpacks_to_the_bits_of_the_oracle(void **state)
{
    (void)state;
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        qn_error err = {0};

        if (info->class_ != QN_CLASS_block) continue;
        const struct unpack_figure *figure = find_figure(info->name);
        if (!figure) fail_msg("%s has no figure", info->name);
        for (int misaligned = 0; misaligned < 2; misaligned++) {
            const int64_t n = random_blocks((qn_dtype)d, blocks + misaligned);
            assert_int_equal(qn_unpack((qn_dtype)d, blocks + misaligned, values, n, &err), QN_OK);
            if (hash_floats(values, (size_t)n) != figure->hash)
                fail_msg("%s, misaligned by %d: the values differ from the oracle's", info->name, misaligned);
        }
    }
}

/* A block's values depend on that block alone, and nothing past them is written. */
static void unpacks_block_by_block(void **state)
{
    (void)state;
    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);

        if (info->class_ != QN_CLASS_block) continue;
        const int64_t n = random_blocks((qn_dtype)d, blocks);
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, n, NULL), QN_OK);
        for (int b = 0; b < 9; b++) {
            float one[257];
            one[info->block_elems] = 12345;
            assert_int_equal(qn_unpack((qn_dtype)d, blocks + b * info->block_bytes, one, info->block_elems, NULL),
                             QN_OK);
            assert_memory_equal(one, values + b * info->block_elems, sizeof(float) * (size_t)info->block_elems);
            assert_true(one[info->block_elems] == 12345);
        }
    }
}

static void refuses(void **state)
{
    (void)state;
    qn_error err = {0};

    for (int d = 0; d < QN_DTYPE_COUNT; d++) {
        const qn_dtype_info *info = qn_dtype_get((qn_dtype)d);
        const bool unpacks = info->class_ == QN_CLASS_real || info->class_ == QN_CLASS_block;

        assert_int_equal(qn__quant_get((qn_dtype)d)->unpack != NULL, unpacks);
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, 0, &err), unpacks ? QN_OK : QN_STATUS_unsupported);
        if (!unpacks) {
            assert_non_null(strstr(err.text, info->name));
            assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, 256, &err), QN_STATUS_unsupported);
            continue;
        }
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, -info->block_elems, &err), QN_STATUS_invalid);
        assert_int_equal(qn_unpack((qn_dtype)d, NULL, values, info->block_elems, &err), QN_STATUS_invalid);
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, NULL, info->block_elems, &err), QN_STATUS_invalid);
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, INT64_MAX / 256 * 256, &err), QN_STATUS_invalid);
        if (info->block_elems == 1) continue;
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, info->block_elems + 1, &err), QN_STATUS_invalid);
        assert_non_null(strstr(err.text, info->name));
        assert_int_equal(qn_unpack((qn_dtype)d, blocks, values, info->block_elems / 2, NULL), QN_STATUS_invalid);
    }
    assert_int_equal(qn_unpack(QN_DTYPE_COUNT, blocks, values, 256, &err), QN_STATUS_unsupported);
    assert_int_equal(qn_unpack((qn_dtype)-1, blocks, values, 256, &err), QN_STATUS_unsupported);
}

/* The functions that kernels read scales with, against the unpacked values: y = (y at q) in blocks with one code set.
 */
static void scale_readers_agree_with_unpack(void **state)
{
    (void)state;
    float y[256];
    qn_block_Q4_K q4;
    qn_block_Q3_K q3;
    qn_block_IQ4_XS iq4;

    for (int i = 0; i < 50; i++) {
        random_bytes(1000 + (uint64_t)i, q4.scales, sizeof q4.scales);
        q4.d = qn__f32_to_f16(1), q4.dmin = qn__f32_to_f16(0.5f);
        memset(q4.qs, 0x33, sizeof q4.qs);
        assert_int_equal(qn_unpack(QN_DTYPE_Q4_K, &q4, y, 256, NULL), QN_OK);
        for (int s = 0; s < 8; s++) {
            int scale, min;
            qn__k4_scale_min(q4.scales, s, &scale, &min);
            assert_in_range(scale, 0, 63);
            assert_in_range(min, 0, 63);
            assert_true(y[32 * s + 31] == 3.0f * (float)scale - 0.5f * (float)min);
        }
        random_bytes(2000 + (uint64_t)i, q3.scales, sizeof q3.scales);
        q3.d = qn__f32_to_f16(2);
        memset(q3.qs, 0xff, sizeof q3.qs);
        memset(q3.hmask, 0, sizeof q3.hmask);
        assert_int_equal(qn_unpack(QN_DTYPE_Q3_K, &q3, y, 256, NULL), QN_OK);
        for (int s = 0; s < 16; s++) assert_true(y[16 * s + 15] == -2.0f * (float)qn__q3_k_scale(q3.scales, s));

        random_bytes(3000 + (uint64_t)i, (unsigned char *)&iq4, sizeof iq4);
        iq4.d = qn__f32_to_f16(1);
        memset(iq4.qs, 0x88, sizeof iq4.qs);
        assert_int_equal(qn_unpack(QN_DTYPE_IQ4_XS, &iq4, y, 256, NULL), QN_OK);
        for (int s = 0; s < 8; s++) assert_true(y[32 * s] == (float)(qn__iq4_xs_scale(&iq4, s) * qn__iq4_values[8]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unpacks_to_the_bits_of_the_oracle),
        cmocka_unit_test(unpacks_block_by_block),
        cmocka_unit_test(refuses),
        cmocka_unit_test(scale_readers_agree_with_unpack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
