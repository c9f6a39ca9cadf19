/* SPDX-License-Identifier: MIT */
/* src/model/arch/nanbeige.c
 * Nanbeige (2025): a Llama whose layers are run several times over, each time with a cache of its own. */
#include "model/arch/decoder.h"

static const qn_hparam_row hparams[] = {
    DECODER_HPARAMS(10000.0),
    U32_OR("num_loops", n_loops, 1, 1, 16),
    BOOL_OR("skip_loop_final_norm", bare_loops, 0),
};

static const qn_tensor_row tensors[] = {DECODER_TENSORS};

static void settle(qn_hparams *hp) { hp->n_layer *= hp->n_loops; }

const qn_arch qn__arch_nanbeige = {DECODER("nanbeige", QN_ROPE_NORM), .settle = settle};
