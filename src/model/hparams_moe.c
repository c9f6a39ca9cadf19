/* SPDX-License-Identifier: MIT */
/* src/model/hparams_moe.c -- what a file's numbers say about mixtures of experts. */
#include "model/arch.h"
#include <stdio.h>

bool qn__is_mixture(const qn_hparams *hp, uint32_t i)
{
    const bool at_step =
        hp->moe_second_of ? i % hp->moe_second_of == 1 : hp->moe_step == 0 || i % hp->moe_step == hp->moe_step - 1;
    return hp->n_expert > 0 && i >= hp->n_layer_dense && at_step;
}

static bool has_tensor(const qn_gguf *file, const char *what, uint32_t layer)
{
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s.weight", layer, what);
    return qn_gguf_tensor_find(file, name) != NULL;
}

/* A file that lacks one tensor of a layer tells by the others what the layer is, so that the right one is missed. */
void qn__count_dense(const qn_gguf *file, const qn_arch *arch, qn_hparams *hp)
{
    if (!arch->dense_without_router || hp->n_layer_dense) return;
    uint32_t i = 0;
    while (i < hp->n_layer && !has_tensor(file, "ffn_gate_inp", i) &&
           (has_tensor(file, "ffn_gate", i) || has_tensor(file, "ffn_up", i) || has_tensor(file, "ffn_down", i)))
        i++;
    hp->n_layer_dense = i;
}

static bool has_mixtures(const qn_arch *arch)
{
    for (int i = 0; i < arch->n_tensors; i++)
        if (arch->tensors[i].flags & W_EXPERTS) return true;
    return false;
}

qn_status qn__check_experts(const qn_arch *arch, const qn_hparams *hp, qn_error *err)
{
    if (!hp->n_expert) return QN_OK;
    if (!has_mixtures(arch))
        return QN_FAIL(err, unsupported, "%s.expert_count is %u; this architecture is known without experts",
                       arch->name, hp->n_expert);
    if (hp->n_expert_used < 1 || hp->n_expert_used > hp->n_expert)
        return QN_FAIL(err, format, "%s.expert_used_count is %u; from 1 to expert_count %u is expected", arch->name,
                       hp->n_expert_used, hp->n_expert);
    if (hp->n_layer_dense > hp->n_layer)
        return QN_FAIL(err, format, "%s.leading_dense_block_count is %u; at most block_count %u is expected",
                       arch->name, hp->n_layer_dense, hp->n_layer);
    if (hp->n_expert_chunk && hp->n_expert % hp->n_expert_chunk)
        return QN_FAIL(err, format, "%s.experts_per_group is %u; a divisor of expert_count %u is expected", arch->name,
                       hp->n_expert_chunk, hp->n_expert);
    const uint32_t n = hp->n_expert_group, used = hp->n_expert_group_used;
    if (n < 2) return QN_OK;
    if (hp->n_expert % n || hp->n_expert / n < 2)
        return QN_FAIL(err, format, "%s.expert_group_count is %u; groups of at least 2 of the %u experts are expected",
                       arch->name, n, hp->n_expert);
    if (used < 1 || used > n || used * (hp->n_expert / n) < hp->n_expert_used)
        return QN_FAIL(err, format,
                       "%s.expert_group_used_count is %u; up to %u, and groups with %u experts together, are expected",
                       arch->name, used, n, hp->n_expert_used);
    return QN_OK;
}
