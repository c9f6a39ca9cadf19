# SPDX-License-Identifier: MIT
# One linear layer with a low-rank adapter, as PEFT computes it (y = x W^T + b + alpha / r * (x A^T) B^T), three steps of AdamW by PyTorch:
# tests/unit/train/lora_figures.inc. python3 tests/oracle/lora.py > tests/unit/train/lora_figures.inc
import torch

torch.manual_seed(11)
N, IN, OUT, R, ALPHA = 5, 6, 4, 2, 3.0


def put(name, t):
    values = ", ".join(f"{v:.9g}" for v in t.detach().flatten().tolist())
    print(f"static const float {name}[] = {{{values}}};")


x = torch.randn(N, IN)
w, b = torch.randn(OUT, IN), torch.randn(OUT)
target = torch.randn(N, OUT)
lora_a = torch.nn.Parameter(torch.randn(R, IN) * 0.3)
lora_b = torch.nn.Parameter(torch.randn(OUT, R) * 0.3)
print("/* SPDX-License-Identifier: MIT */")
print("/* Made by tests/oracle/lora.py with PyTorch", torch.__version__.split("+")[0], "*/")
print(f"enum {{ N = {N}, IN = {IN}, OUT = {OUT}, RANK = {R} }};")
print(f"#define ALPHA {ALPHA}")
for name, t in (("x_in", x), ("w_in", w), ("bias_in", b), ("target_in", target), ("a_in", lora_a), ("b_in", lora_b)):
    put(name, t)


def forward():
    y = torch.nn.functional.linear(x, w, b) + torch.nn.functional.linear(torch.nn.functional.linear(x, lora_a), lora_b) * (ALPHA / R)
    return y


optimizer = torch.optim.AdamW([lora_a, lora_b], lr=0.05, betas=(0.9, 0.95), weight_decay=0.0)
put("y_out", forward())
losses = []
for step in range(3):
    optimizer.zero_grad()
    loss = ((forward() - target) ** 2).mean()
    loss.backward()
    losses.append(loss)
    if step == 0:
        put("da_out", lora_a.grad)
        put("db_out", lora_b.grad)
    optimizer.step()
put("losses_out", torch.stack(losses))
put("a_out", lora_a)
put("b_out", lora_b)
