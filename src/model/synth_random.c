/* SPDX-License-Identifier: MIT */
/* src/model/synth_random.c -- random weights at memory speed, and a made-up vocabulary. */
#include "model/synth.h"
#include "quant/blocks.h"
#include "quant/quant.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Elements packed once a dtype: 0.1 s for the slowest packer. A small model is not worth that, and needs no more. */
#define POOL_ELEMS       (1 << 19)
#define SMALL_POOL_ELEMS (1 << 17)
#define SMALL_MODEL      (1 << 22)
#define RUN_BYTES        (16 << 10) /* cut this long: enough for memcpy, short enough that rows differ */

uint64_t qn__synth_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct qn_random_pool {
    qn_dtype dtype;
    size_t bytes, block_bytes;
    uint8_t *data;
};

/* Sum of four uniform 16-bit numbers: near enough to normal, and the same on every machine. */
static float near_normal(uint64_t bits)
{
    const uint32_t sum = (uint32_t)(bits & 0xffff) + (uint32_t)(bits >> 16 & 0xffff) + (uint32_t)(bits >> 32 & 0xffff) +
                         (uint32_t)(bits >> 48);
    return ((float)sum - 131070.0f) * (1.0f / 37837.0f); /* standard deviation of the sum: 65536 * sqrt(4 / 12) */
}

/* ---- formats that only unpack ---- */

/* Where a block has its scale, a binary16; IQ1_M's is in four parts. */
static void put_scale(qn_dtype dtype, uint8_t *block, uint16_t d)
{
#define AT(name) [QN_DTYPE_##name] = offsetof(qn_block_##name, d)
    static const size_t at[QN_DTYPE_COUNT] = {AT(IQ1_S), AT(IQ2_XXS), AT(IQ2_XS), AT(IQ2_S), AT(IQ3_XXS), AT(IQ3_S)};
#undef AT
    if (dtype != QN_DTYPE_IQ1_M) {
        memcpy(block + at[dtype], &d, sizeof(d));
        return;
    }
    qn_block_IQ1_M *b = (qn_block_IQ1_M *)block;
    for (int i = 0; i < 4; i++) b->scales[i] = (uint16_t)((b->scales[i] & 0x0fff) | (d >> 4 * i & 15) << 12);
}

static void put_scales(qn_random_pool *pool, uint16_t d)
{
    for (size_t at = 0; at < pool->bytes; at += pool->block_bytes) put_scale(pool->dtype, pool->data + at, d);
}

/* Every pattern of bits is a block. With a scale of 1 their spread shows which one is needed. */
static qn_status fill_with_bits(qn_random_pool *pool, float stddev, uint64_t seed, float *values, int n, qn_error *err)
{
    for (size_t at = 0; at < pool->bytes; at += sizeof(uint64_t)) {
        const uint64_t word = qn__synth_random(&seed);
        const size_t left = pool->bytes - at;
        memcpy(pool->data + at, &word, left < sizeof(word) ? left : sizeof(word));
    }
    put_scales(pool, qn__f32_to_f16(1.0f));
    QN_TRY(qn_unpack(pool->dtype, pool->data, values, n, err));
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)values[i] * (double)values[i];
    put_scales(pool, qn__f32_to_f16((float)(stddev / sqrt(sum / n))));
    return QN_OK;
}

/* ---- the pool ---- */

static qn_status fill_packed(qn_random_pool *pool, float stddev, uint64_t seed, float *values, int n, qn_error *err)
{
    for (int i = 0; i < n; i++) values[i] = stddev * near_normal(qn__synth_random(&seed));
    return qn_pack(pool->dtype, values, pool->data, n / 1024, 1024, NULL, err);
}

qn_status qn__random_pool_create(qn_dtype dtype, float stddev, uint64_t n, uint64_t seed, qn_random_pool **out,
                                 qn_error *err)
{
    const int elems = n < SMALL_MODEL ? SMALL_POOL_ELEMS : POOL_ELEMS;
    const int64_t bytes = qn_dtype_row_bytes(dtype, elems);
    qn_random_pool *pool = qn__calloc(1, sizeof(*pool));
    float *values = qn__alloc((size_t)elems * sizeof(float));
    if (pool)
        *pool =
            (qn_random_pool){dtype, (size_t)bytes, (size_t)qn_dtype_get(dtype)->block_bytes, qn__alloc((size_t)bytes)};
    qn_status status = pool && values && pool->data ? QN_OK : QN_FAIL_NOMEM(err, bytes);
    if (status == QN_OK)
        status = (qn_dtype_can_pack(dtype) ? fill_packed : fill_with_bits)(pool, stddev, seed, values, elems, err);
    qn__free(values);
    if (status == QN_OK)
        *out = pool;
    else
        qn__random_pool_destroy(pool);
    return status;
}

void qn__random_pool_destroy(qn_random_pool *pool)
{
    if (!pool) return;
    qn__free(pool->data);
    qn__free(pool);
}

void qn__random_pool_fill(qn_random_pool *pool, uint64_t *state, void *dst, size_t bytes)
{
    const size_t run_blocks = RUN_BYTES / pool->block_bytes, n_blocks = pool->bytes / pool->block_bytes;
    uint8_t *to = dst;
    while (bytes) {
        const size_t run = run_blocks * pool->block_bytes < bytes ? run_blocks * pool->block_bytes : bytes;
        const size_t from = (size_t)(qn__synth_random(state) % (n_blocks - run_blocks)) * pool->block_bytes;
        memcpy(to, pool->data + from, run);
        to += run;
        bytes -= run;
    }
}

/* ---- vocabulary ---- */

/* Words count upwards in a base of syllables, so none comes twice. Two letters each: a tokenizer builds a word by
 * merging pairs, and every step on the way must be a word too. */
static int make_word(char *buf, size_t size, uint32_t number)
{
    static const char *const syllables[] = {"ka", "lo", "mi", "te", "na", "su", "ro", "ve",
                                            "da", "pi", "hu", "ge", "to", "wa", "ri", "bo"};
    size_t len = (size_t)snprintf(buf, size, "%s", number % 2 ? "\xe2\x96\x81" : "");
    for (number /= 2; len + 4 < size; number /= 16) {
        len += (size_t)snprintf(buf + len, size - len, "%s", syllables[number % 16]);
        if (number < 16) break;
    }
    return (int)len;
}

void qn__synth_vocab(qn_gguf_writer *w, int32_t n, qn_arena *arena)
{
    qn_gguf_str *pieces = qn__arena_array(arena, (size_t)n, sizeof(*pieces));
    float *scores = qn__arena_array(arena, (size_t)n, sizeof(*scores));
    int32_t *types = qn__arena_array(arena, (size_t)n, sizeof(*types));
    if (!pieces || !scores || !types) return; /* the arena's failure is sticky and checked by the caller */
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    for (int32_t i = 0; i < n; i++) {
        char text[64];
        int len = 0;
        types[i] = i == 0 ? QN_TOKEN_unknown : i < 3 ? QN_TOKEN_control : i < 259 ? QN_TOKEN_byte : QN_TOKEN_normal;
        scores[i] = i < 259 ? 0.0f : -(float)(i - 259);
        if (i < 3)
            len = snprintf(text, sizeof(text), "%s", special[i]);
        else if (i < 259)
            len = snprintf(text, sizeof(text), "<0x%02X>", (unsigned)(i - 3));
        /* the blank, so that no text needs it as bytes */
        else if (i == 259)
            len = snprintf(text, sizeof(text), "%s", "\xe2\x96\x81");
        else
            len = make_word(text, sizeof(text), (uint32_t)(i - 260));
        char *copy = qn__arena_strndup(arena, text, (size_t)len);
        if (!copy) return;
        pieces[i] = (qn_gguf_str){copy, (size_t)len};
    }
    qn_gguf_write_str(w, "tokenizer.ggml.model", "llama");
    qn_gguf_write_str(w, "tokenizer.ggml.pre", "default");
    qn_gguf_write_strs(w, "tokenizer.ggml.tokens", pieces, (uint64_t)n);
    qn_gguf_write_array(w, "tokenizer.ggml.scores", QN_GGUF_f32, scores, (uint64_t)n);
    qn_gguf_write_array(w, "tokenizer.ggml.token_type", QN_GGUF_i32, types, (uint64_t)n);
    qn_gguf_write_u32(w, "tokenizer.ggml.bos_token_id", 1);
    qn_gguf_write_u32(w, "tokenizer.ggml.eos_token_id", 2);
    qn_gguf_write_u32(w, "tokenizer.ggml.unknown_token_id", 0);
    qn_gguf_write_bool(w, "tokenizer.ggml.add_bos_token", true);
}
