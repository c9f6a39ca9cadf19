/* SPDX-License-Identifier: MIT */
/* src/model/synth.h -- what the parts of synth share: presets, type mixes, and the pool that random weights are cut
 * from. */
#ifndef QN_MODEL_SYNTH_H
#define QN_MODEL_SYNTH_H

#include "model/arch.h"
#include <quern/engine.h>

/* A published configuration. */
typedef struct qn_preset {
    const char *name, *arch;
    int32_t n_layer, n_embd, n_head, n_kv_head, n_embd_head, n_ff, n_vocab, n_ctx;
    float rope_base;
    bool tied;
    const char *set; /* "KEY=VALUE KEY=VALUE ..": more hyperparameters; NULL: none */
} qn_preset;
const qn_preset *qn__preset_find(const char *name); /* NULL */

/* The dtype of one tensor under a type or a mix; layer is -1 outside layers. */
typedef struct qn_mix qn_mix;
/* A mix's name or a dtype's; NULL. QN_MIX_packs: only what numbers can be packed into. */
typedef enum qn_mix_use { QN_MIX_packs, QN_MIX_any } qn_mix_use;
const qn_mix *qn__mix_find(const char *name, qn_mix_use use);
qn_dtype qn__mix_dtype(const qn_mix *mix, const char *tensor, int layer, int n_layer);
uint32_t qn__mix_file_type(const qn_mix *mix); /* general.file_type */

/* Packed random rows of one dtype: tensors are cut from it at random block boundaries, so writing runs at the speed of
 * memory whatever packing costs, and memory stays bounded. A format that only unpacks gets blocks of random bits, whose
 * scale is chosen for the standard deviation. The bytes are the same on every machine. n: elements of the model. */
typedef struct qn_random_pool qn_random_pool;
qn_status qn__random_pool_create(qn_dtype dtype, float stddev, uint64_t n, uint64_t seed, qn_random_pool **out,
                                 qn_error *err);
void qn__random_pool_destroy(qn_random_pool *pool);
void qn__random_pool_fill(qn_random_pool *pool, uint64_t *state, void *dst, size_t bytes); /* whole blocks */

uint64_t qn__synth_random(uint64_t *state); /* splitmix64 */
/* A vocabulary of n SentencePiece tokens: specials, all bytes, then made-up words with falling scores. */
void qn__synth_vocab(qn_gguf_writer *w, int32_t n, qn_arena *arena);

#endif
