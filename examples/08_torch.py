"""A kernel as an operator of PyTorch: in a model that is trained, eager and compiled.

    python examples/08_torch.py

Needs PyTorch: `pip install 'dojoir[torch]'`. `torch.compile` needs a C++ compiler.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable

import torch

import dojoir

FORWARD = """
kernel softplus(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = max(x[{0}, {1}], 0) + log(1 + exp(-abs(x[{0}, {1}])))
"""

BACKWARD = """
kernel softplus_backward(N, M)
in  x: f32[N, M]
in  grad_y: f32[N, M]
out grad_x: f32[N, M]

N
| M
| | grad_x[{0}, {1}] = grad_y[{0}, {1}] * sigmoid(x[{0}, {1}])
"""


def model(activation: torch.nn.Module) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 32), activation, torch.nn.Linear(32, 1))


def train(net: torch.nn.Module, steps: int) -> list[float]:
    """The losses of learning a product."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(128, 4, generator=generator)
    target = x[:, :1] * x[:, 1:2]
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(net(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main(steps: int = 200) -> None:
    forward = dojoir.optimize(dojoir.parse(FORWARD))  # a trace: its last kernel is compiled
    backward = dojoir.optimize(dojoir.parse(BACKWARD))
    by_hand = dojoir.torch.op(forward, "examples::softplus", backward)
    softplus = dojoir.torch.op(
        forward, "examples::softplus_auto", "auto", dtypes=("bf16",)
    )  # the gradient of the text

    class Softplus(torch.nn.Module):
        def __init__(self, operator: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.operator = operator

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.operator(x)

    runs = {"PyTorch's own": model(torch.nn.Softplus()), "backward given": model(Softplus(by_hand))}
    runs["auto"] = model(Softplus(softplus))
    if shutil.which("g++"):
        runs["compiled"] = torch.compile(model(Softplus(softplus)), fullgraph=True)
    losses = {name: train(net, steps) for name, net in runs.items()}
    for name, its in losses.items():
        print(f"{name:15} loss {its[0]:.4f} -> {its[-1]:.4f}")
    own = losses.pop("PyTorch's own")
    apart = max(abs(a - b) for its in losses.values() for a, b in zip(its, own, strict=True))
    print(f"at most {apart:.1e} apart")

    x = torch.randn(2, 3, 8).bfloat16()  # another type, and more dimensions
    print(softplus(x).shape, softplus(x).dtype)
    try:
        softplus(torch.zeros(4, 32, dtype=torch.float64))
    except dojoir.ArgumentError as error:
        print(error)


if __name__ == "__main__":
    main()
