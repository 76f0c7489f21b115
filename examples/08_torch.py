"""A kernel as an operator of PyTorch: in a model that is trained, eager and compiled.

    python examples/08_torch.py

Needs PyTorch: `pip install 'dojoir[torch]'`. `torch.compile` needs a C++ compiler.
"""

from __future__ import annotations

import shutil

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
    softplus = dojoir.torch.op(forward, "examples::softplus", backward)

    class Softplus(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = softplus(x)
            return result

    runs = {"PyTorch's own": model(torch.nn.Softplus()), "the operator": model(Softplus())}
    if shutil.which("g++"):
        runs["compiled"] = torch.compile(model(Softplus()), fullgraph=True)
    losses = {name: train(net, steps) for name, net in runs.items()}
    for name, its in losses.items():
        print(f"{name:15} loss {its[0]:.4f} -> {its[-1]:.4f}")
    own = losses.pop("PyTorch's own")
    apart = max(abs(a - b) for its in losses.values() for a, b in zip(its, own, strict=True))
    print(f"at most {apart:.1e} apart")

    try:
        softplus(torch.zeros(4, 32).t())
    except dojoir.ArgumentError as error:
        print(error)


if __name__ == "__main__":
    main()
