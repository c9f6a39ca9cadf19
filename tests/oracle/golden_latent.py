# SPDX-License-Identifier: MIT
"""Latent attention as NumPy computes it in float64, for golden_model.py: keys and values are made of c again for every position, as
the authors' papers define it, whatever a file's matrices look like."""
import numpy as np


def head_size(model):
    return model.get("attention.key_length_mla", model.head)


def score_factor(model):
    """What YaRN does to scores instead of to what is rotated; 0 where it does the latter."""
    log = model.get("rope.scaling.yarn_log_multiplier", 0)
    return (1 + log * np.log(model.factor)) ** 2 if model.scaling == "yarn" and log else 0


def latent(model, x, p, product, norm, turn):
    """Queries, keys and values [n, n_head, ..] of layer p."""
    w, n, rank, turned = model.w, len(x), model.get("attention.kv_lora_rank"), model.n_rot
    rest = head_size(model) - turned
    if p + "attn_q.weight" in w:
        q = product(x, p + "attn_q.weight")
    else:
        q = product(norm(product(x, p + "attn_q_a.weight"), p + "attn_q_a_norm.weight"), p + "attn_q_b.weight")
    q = q.reshape(n, -1, rest + turned)
    n_head = q.shape[1]
    both = product(x, p + "attn_kv_a_mqa.weight")
    c, shared = norm(both[:, :rank], p + "attn_kv_a_norm.weight"), model.rope(both[:, None, rank:], turn)
    if p + "attn_kv_b.weight" in w:
        b = w[p + "attn_kv_b.weight"].reshape(n_head, -1, rank)
        of_k, of_v = b[:, :rest], b[:, rest:]
    else:
        of_k, of_v = w[p + "attn_k_b.weight"].transpose(0, 2, 1), w[p + "attn_v_b.weight"]
    k = np.concatenate([np.einsum("nr,hdr->nhd", c, of_k), shared.repeat(n_head, 1)], -1)
    q = np.concatenate([q[..., :rest], model.rope(q[..., rest:], turn)], -1)
    return q, k, np.einsum("nr,hdr->nhd", c, of_v)
