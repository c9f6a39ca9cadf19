# SPDX-License-Identifier: MIT
"""What tests/golden/values.c compares a recording with: which experts each token of a mixture chose, best first, and their gates, in
NumPy in float64 (the forward pass of taps.py).

    build/t_golden_values --write MODEL.gguf && python tests/oracle/values.py MODEL.gguf > tests/golden/values_figures.inc
"""
import sys

from taps import Model, show, wrapped


def main(path):
    model = Model(path)
    values = model.forward([(i * i * 31 + i * 97 + 1) % 320 for i in range(8)])
    print("/* tests/golden/values_figures.inc -- written by tests/oracle/values.py. A row a layer: ids, gates; [tokens, used]. */")
    for i in range(model.n_layer):
        ids, gates = values[f"ffn_moe_topk-{i}"], values[f"ffn_moe_weights-{i}"]
        print("{{" + ", ".join(str(x) for x in ids.ravel()) + "},")
        wrapped("    {", gates.ravel(), "}},")


main(*sys.argv[1:])
