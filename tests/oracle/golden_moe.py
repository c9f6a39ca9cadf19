# SPDX-License-Identifier: MIT
"""A mixture of experts as NumPy computes it in float64, for golden_model.py: what the keys of a file say, and what its architecture's
authors do where no key says it."""
import numpy as np

SOFTMAX, SIGMOID, CHOSEN, SQRT_SOFTPLUS = 1, 2, 3, 4  # as expert_gating_func counts
HALVES = set("""qwen2moe qwen3moe olmoe glm4moe dots1 bailingmoe2 hunyuan-moe phimoe dbrx minimax-m2 exaone-moe mellum mimo2
    gpt-oss afmoe laguna step35 hy_v3 smallthinker grok qwen3vlmoe grovemoe deepseek2-ocr llada-moe rnd1""".split())
PERIOD = {"exaone-moe": 4, "mellum": 4, "gpt-oss": 2, "llama4": 4, "afmoe": 4, "laguna": 4, "step35": 4, "cohere2moe": 4, "smallthinker": 4}
WINDOW = {"smallthinker": 4096}  # whatever the file says
FULL_FIRST = set("laguna step35 cohere2moe smallthinker".split())  # of the layers of a period the first sees all
EXACT_BOUNDS = {"gpt-oss"}  # of YaRN
GATES = {"afmoe": "sigmoid", "step35": "sigmoid", "laguna": "softplus"}  # of attention
AFTER_TURN = {"hunyuan-moe"}
POST_IS_NEXT = {"glm4moe", "gpt-oss"}
GATING = {a: SIGMOID for a in "glm4moe mimo2 minimax-m2 afmoe laguna step35 hy_v3 cohere2moe smallthinker".split()}
GATING["llama4"] = SIGMOID
GATING["gpt-oss"] = CHOSEN  # where there is no such key: SOFTMAX, or this
NORMALISED = set("llama mimo2 qwen3moe granitemoe hunyuan-moe ernie4_5-moe phimoe dbrx minimax-m2 mellum smallthinker arctic grok qwen3vlmoe grovemoe rnd1 gemma4".split())  # without expert_weights_norm


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


SCORE = {SOFTMAX: softmax, SIGMOID: sigmoid, CHOSEN: lambda x: x, SQRT_SOFTPLUS: lambda x: np.sqrt(np.log1p(np.exp(x)))}


def in_groups(by, n, used):
    """Minus infinity for experts outside the groups whose two best are best."""
    groups = by.reshape(len(by), n, -1)
    best = np.sort(groups, -1)[..., -2:].sum(-1)
    kept = np.zeros((len(by), n), bool)
    np.put_along_axis(kept, np.argsort(-best, -1, kind="stable")[:, :used], True, -1)
    return np.where(kept[..., None], groups, -np.inf).reshape(by.shape)


def route(model, logits, bias):
    """Ids and gates [n, used] of a router's logits [n, n_expert]."""
    a, get = model.arch, model.get
    gating = get("expert_gating_func", 0) or GATING.get(a, SOFTMAX)
    probs = SCORE[gating](logits)
    by = (logits if a == "llama4" else probs) + bias
    if get("expert_group_count", 0) > 1:
        by = in_groups(by, get("expert_group_count"), get("expert_group_used_count"))
    ids = np.argsort(-by, -1, kind="stable")[:, :get("expert_used_count")]
    gates = np.take_along_axis(probs, ids, -1)
    if gating == CHOSEN:
        gates = softmax(gates)
    if get("expert_weights_norm", a in NORMALISED):
        gates = gates / gates.sum(-1, keepdims=True)
    return ids, gates * (get("expert_weights_scale", 0) or 1)


def gated(model, act, gate, up, limit=0):
    if model.arch == "gpt-oss":
        gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
        return gate * sigmoid(1.702 * gate) * (up + 1)
    return np.minimum(act(gate), limit) * np.clip(up, -limit, limit) if limit else act(gate) * up


def of_layer(model, p, key):
    """A number, or an array with one for each layer; p: "blk.N."."""
    value = model.get(key, 0)
    return value[int(p.split(".")[1])] if isinstance(value, (list, np.ndarray)) else value


def gate_attention(model, o, g):
    """Attention [n, heads * d] times a factor an element, or a head."""
    f = sigmoid(g) if GATES[model.arch] == "sigmoid" else np.log1p(np.exp(g))
    return o * f.repeat(o.shape[1] // f.shape[1], 1)


def mixture(model, x, p, act, rounded, router=None):
    """Layer p's experts over x [n, n_embd]; rounded(x, name): what a product's input becomes."""
    w = model.w

    def product(y, name, e=None):
        at = (lambda t: t) if e is None else (lambda t: t[e])
        bias = w.get(p + name + ".bias")
        return rounded(y, p + name + ".weight") @ at(w[p + name + ".weight"]).T + (0 if bias is None else at(bias))

    logits = product(x if router is None else router, "ffn_gate_inp")
    ids, gates = route(model, logits, w.get(p + "exp_probs_b.bias", w.get(p + "exp_probs_b", 0)))
    out, ones = np.zeros_like(x), np.ones(logits.shape[1])
    for t in range(len(x)):
        for e, gate in zip(ids[t], gates[t]):
            row = x[t:t + 1] * (gate if model.arch == "llama4" else 1)  # its gates multiply what goes in
            limit = of_layer(model, p, "swiglu_clamp_exp")
            if p + "ffn_gate_up_exps.weight" in w:
                y = gated(model, act, *np.split(product(row, "ffn_gate_up_exps", e), 2, -1), limit)
            else:
                up = product(row, "ffn_up_exps", e)
                y = gated(model, act, product(row, "ffn_gate_exps", e), up, limit) if p + "ffn_gate_exps.weight" in w else act(up)
            out[t] += (1 if model.arch == "llama4" else gate) * product(y, "ffn_down_exps", e)[0] * w.get(p + "ffn_down_exps.scale", ones)[e]
            if model.get("experts_per_group"):  # GroveMoE (Wu et al. 2025): neighbours share a small expert
                c = e // model.get("experts_per_group")
                y = product(gated(model, act, product(row, "ffn_gate_chexps", c), product(row, "ffn_up_chexps", c)), "ffn_down_chexps", c)
                out[t] += model.get("expert_group_scale") * gate * y[0]
    if p + "ffn_up_shexp.weight" in w:
        y = product(gated(model, act, product(x, "ffn_gate_shexp"), product(x, "ffn_up_shexp"), of_layer(model, p, "swiglu_clamp_shexp")), "ffn_down_shexp")
        if p + "ffn_gate_inp_shexp.weight" in w:
            y = y * sigmoid(x @ w[p + "ffn_gate_inp_shexp.weight"])[:, None]
        out = (out + y) / (2 if model.arch == "cohere2moe" else 1)
    return out
