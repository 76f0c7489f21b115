"""What a GPU does that its emulation cannot show, each with a line: `python benchmarks/gpu_check.py`.

Kernels against the interpreter, tensors of PyTorch, CuPy and JAX, streams, graphs, faults and hangs in children,
and what a call costs the host. Ends with status 1 where something is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_texts as texts
import numpy as np

import dojoir

ROW = texts.softmax(1024, 256)
FLAT = texts.elementwise("relu", "x", "max($x, 0)", 1 << 20)
SMALL: dict[str, tuple[str, dict[str, int]]] = {
    "relu": (texts.elementwise("relu", "x", "max($x, 0)", 4096), {}),
    "gelu": (texts.elementwise("gelu", "x", "0.5 * $x * (1 + erf($x * 0.7071067811865476))", 4096), {}),
    "softmax": (texts.softmax(512, 128), {"N": 3}),
    "softmax, guarded": (texts.softmax(500, 128), {"N": 3}),
    "layernorm": (texts.layernorm(512, 128), {"N": 3}),
    "rmsnorm bf16": (texts.rmsnorm(512, 128, "bf16"), {"N": 3}),
    "transpose": (texts.transpose(), {"N": 128, "M": 64}),
    "jacobi": (texts.jacobi(300), {}),
    "total": (texts.total(32 * 128 * 12, 32, 128), {}),
    "row_mean": (texts.row_mean(500, 128), {"N": 3}),
    "column_mean": (texts.column_mean(256, 64), {"M": 512}),
    "gemv": (texts.gemv(512, 128), {"N": 3}),
    "cumsum": (texts.cumsum(512, 128), {"N": 3}),
    "matmul": (texts.matmul(128, 256, 32), {}),
}
GATHER = """kernel gather(N, M)
in  x: f32[M]
in  n: i32[N]
out y: f32[N]

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = x[n[32*{0} + {1}]]
"""
STEPS = """kernel steps(T, N)
in  x: f32[N]
out y: f32[N]
tmp a: f32[N]

N // 256 + 1 : gx
| min(256, N - 256*{0}) : bx
| | a[256*{0} + {1}] = x[256*{0} + {1}]
T
| N // 256 + 1 : gx
| | min(256, N - 256*{1}) : bx
| | | a[256*{1} + {2}] = 0.5 * a[256*{1} + {2}] + 1
N // 256 + 1 : gx
| min(256, N - 256*{0}) : bx
| | y[256*{0} + {1}] = a[256*{0} + {1}]
"""
SOFTPLUS = """kernel softplus(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = max(x[{0}, {1}], 0) + log(1 + exp(-abs(x[{0}, {1}])))
"""
SLOPE = """kernel softplus_backward(N, M)
in  x: f32[N, M]
in  grad_y: f32[N, M]
out grad_x: f32[N, M]

N
| M
| | grad_x[{0}, {1}] = grad_y[{0}, {1}] * sigmoid(x[{0}, {1}])
"""
LARGE = """kernel large(N)
in  x: f32[N, 76800]
out y: f32[N, 76800]
tmp t: f32[76800] shared

N : gx
| 1024 : bx
| | 75
| | | t[75*{1} + {2}] = x[{0}, 75*{1} + {2}]
| 1024 : bx
| | 75
| | | y[{0}, 75*{1} + {2}] = t[1024*{2} + {1}]
"""
LONG = """kernel long(N)
out y: f32

y = 0
N
| N
| | y = 0.5 * y + 1
"""
FAULT = """
import sys; sys.path[:0] = {path!r}
import dojoir
compiled = dojoir.compile(dojoir.parse({text!r}), "cuda")
compiled.run_at(dict(x=1 << 40, y=1 << 41), {{}})
compiled.driver.wait(0)
"""

LINES: list[tuple[str, str, str]] = []


def check(name: str, work: Callable[[], str]) -> None:
    """Runs a check, prints what it found at once and keeps it for the table."""
    start = time.perf_counter()
    try:
        found, mark = work(), "ok"
    except Exception as error:
        found, mark = f"{type(error).__name__}: {str(error)[:400]}", "WRONG"
    LINES.append((mark, name, found))
    print(f"{mark:5} {name}: {found} ({time.perf_counter() - start:.1f} s)", flush=True)


def meaning(name: str) -> str:
    text, sizes = SMALL[name]
    kernel = dojoir.parse(text)
    inputs = dojoir.random_inputs(kernel, {}, seed=int(time.time()), **sizes)
    found = dojoir.compile(kernel, "cuda").run(inputs, **sizes)
    worst = 0.0
    for output, expected in dojoir.interpret(kernel, inputs, **sizes).items():
        a, b = (np.asarray(v).astype(np.float64) for v in (found[output], expected))
        if np.asarray(expected).dtype == np.uint16:
            a, b = (
                (np.asarray(v).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
                for v in (found[output], expected)
            )
        worst = max(worst, float(np.linalg.norm(a - b) / np.linalg.norm(b)))
    assert worst < (5e-3 if "bf16" in name else 1e-5), worst
    return f"off by {worst:.1e} of the norm"


def tensors() -> str:
    import torch

    compiled = dojoir.compile(dojoir.parse(ROW), "cuda")
    x = torch.randn(64, 1024, device="cuda")
    y = torch.full_like(x, float("nan"))
    compiled(x, y)
    torch.testing.assert_close(y, x.softmax(-1))
    result = compiled.run({"x": x})["y"]
    torch.testing.assert_close(result, y)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        z = torch.full_like(x, float("nan"))
        compiled(x, z)
    side.synchronize()
    torch.testing.assert_close(z, y)
    shifted = torch.randn(64 * 1024 + 1, device="cuda")[1:].view(64, 1024)
    compiled(shifted, z)
    torch.testing.assert_close(z, shifted.softmax(-1))
    return "current stream, side stream, run, an address that is no multiple of 16"


def graphs() -> str:
    import torch

    compiled: Any = dojoir.compile(dojoir.parse(STEPS), "cuda")
    x = torch.randn(5000, device="cuda")
    y = torch.empty_like(x)
    call = compiled.bind(x, y, T=10)
    call()
    torch.cuda.synchronize()
    expected = y.clone()
    graph = torch.cuda.CUDAGraph()
    y.fill_(float("nan"))
    with torch.cuda.graph(graph):
        call()
    assert bool(y.isnan().all()), "it ran while it was captured"
    graph.replay()
    torch.testing.assert_close(y, expected)
    y.fill_(float("nan"))
    own = compiled.graph(x, y, T=10)
    torch.cuda.synchronize()
    own()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, expected)
    return "12 launches captured by torch.cuda.graph and by compiled.graph"


def operators() -> str:
    """`dojoir.torch.op`: eager, with a gradient, in torch.compile, in a graph, on a side stream, misaligned."""
    import torch

    softplus = dojoir.torch.op(dojoir.parse(SOFTPLUS), "dojoir_check::softplus", dojoir.parse(SLOPE))
    x = torch.randn(300, 257, device="cuda", requires_grad=True)
    softplus(x).sum().backward()
    torch.testing.assert_close(x.grad, x.sigmoid())
    torch.library.opcheck(softplus, (x,))
    given = x.detach()
    wanted = 2 * torch.nn.functional.softplus(given + 1)
    compiled = torch.compile(lambda a: softplus(a + 1) * 2, fullgraph=True)
    torch.testing.assert_close(compiled(given), wanted)
    reduced = torch.compile(lambda a: softplus(a + 1) * 2, fullgraph=True, mode="reduce-overhead")
    for _ in range(4):
        torch.testing.assert_close(reduced(given).clone(), wanted)
    still = given.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        softplus(still)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = softplus(still)
    still.copy_(given + 3)
    graph.replay()
    torch.testing.assert_close(recorded, torch.nn.functional.softplus(given + 3))
    shifted = torch.randn(301, device="cuda")[1:].view(3, 100)
    torch.testing.assert_close(softplus(shifted), torch.nn.functional.softplus(shifted))
    mixed = dojoir.torch.op(dojoir.kernels.load("bias_relu"), "dojoir_check::bias_relu")
    try:
        mixed(torch.ones(4, 8, device="cuda"), torch.ones(8))
    except (dojoir.ArgumentError, RuntimeError) as error:
        refused = type(error).__name__
    else:
        raise AssertionError("a tensor of the CPU was taken beside one of the GPU")
    step = dojoir.torch.op(dojoir.parse(STEPS), "dojoir_check::steps")
    once, twice = step(given[0], T=1), step(given[0], T=2)  # with a workspace
    torch.testing.assert_close(once, 0.5 * given[0] + 1)
    torch.testing.assert_close(twice, 0.5 * once + 1)
    return f"eager, gradient, opcheck, torch.compile twice, graph, misaligned, {refused}, a workspace"


def shared() -> str:
    """More shared memory than a block has is an error before anything runs; what comes after works."""
    try:
        dojoir.compile(dojoir.parse(LARGE), "cuda")
    except dojoir.DojoError as error:
        return f"{error.diagnostic.code}; then relu {meaning('relu')}"
    raise AssertionError("300 KiB of shared memory were taken")


def shell() -> str:
    """`--check`, `--time` and `--doctor` of the command."""
    path = Path(tempfile.mkdtemp()) / "softmax.dojo"
    path.write_text(texts.softmax(1024, 256), encoding="utf-8")
    found = []
    for more in (["--check"], ["--time", "-s", "N=1024"], ["--doctor"]):
        command = [sys.executable, "-m", "dojoir.cli", *([] if more == ["--doctor"] else [str(path)]), "--target"]
        done = subprocess.run([*command, "cuda", *more], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-400:]
        lines = [line.strip() for line in done.stdout.splitlines() if "cuda" in line]
        assert lines, done.stdout[-400:]
        found.append(lines[0])
    return " | ".join(found)


def libraries() -> str:
    found = []
    compiled: Any = dojoir.compile(dojoir.parse(ROW), "cuda")
    x = np.random.default_rng(0).standard_normal((8, 1024)).astype(np.float32)
    expected = np.exp(x - x.max(1, keepdims=True))
    expected /= expected.sum(1, keepdims=True)
    import cupy

    given = cupy.asarray(x)
    out = cupy.empty_like(given)
    compiled(given, out)
    np.testing.assert_allclose(cupy.asnumpy(out), expected, rtol=1e-5)
    found.append("CuPy by DLPack")
    ours = compiled.run({"x": given})["y"]
    np.testing.assert_allclose(cupy.asnumpy(cupy.asarray(ours)), expected, rtol=1e-5)
    import torch

    np.testing.assert_allclose(torch.as_tensor(ours, device="cuda").cpu().numpy(), expected, rtol=1e-5)
    found.append("results as CuPy and torch arrays")
    try:
        import jax

        array = jax.device_put(x)
        compiled(array, out)
        np.testing.assert_allclose(cupy.asnumpy(out), expected, rtol=1e-5)
        found.append("JAX")
    except ImportError:
        found.append("no JAX")
    for wrong in (x, torch.from_numpy(x)):
        try:
            compiled(wrong, out)
        except dojoir.ArgumentError:
            continue
        raise AssertionError("an array of the CPU was taken")
    return ", ".join(found)


def gathers() -> str:
    import torch

    compiled = dojoir.compile(dojoir.parse(GATHER), "cuda")
    x, y = torch.randn(100, device="cuda"), torch.empty(50, device="cuda")
    n = torch.randint(0, 100, (50,), dtype=torch.int32, device="cuda")
    compiled(x, n, y)
    torch.testing.assert_close(y, x[n.long()])
    n[7] = 100
    try:
        compiled(x, n, y)
    except dojoir.RunError as error:
        return error.diagnostic.code
    raise AssertionError("an index out of range was not told")


def verified() -> str:
    report = dojoir.verify(dojoir.parse(texts.layernorm(512, 128)), target="cuda", seeds=(0,))
    assert report.ok, report
    return str(report).splitlines()[0]


def measured() -> str:
    kernel = dojoir.parse(texts.softmax(4096, 256))
    found = []
    for hot in (False, True):
        result = dojoir.measure(kernel, "cuda", hot=hot, N=4096, baseline="y.copy_(x.softmax(-1))")
        found.append(str(result))
        assert result.baseline is not None and result.baseline.difference < 1e-4, result.baseline
    return "; ".join(found)


def hang() -> str:
    start = time.perf_counter()
    report = dojoir.verify(
        dojoir.parse(LONG), target="cuda", sizes={"N": 3_000_000}, time_limit=8, inputs=None, seeds=(0,)
    )
    assert not report.ok
    return f"{report.reason} after {time.perf_counter() - start:.0f} s"


def fault() -> str:
    path = [str(Path(__file__).parent), *sys.path]
    code = FAULT.format(path=path, text=FLAT)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    words = done.stderr.strip().splitlines()[-1]
    assert "device-error" in words, words
    return words[:160]


def cost() -> str:
    import torch

    compiled: Any = dojoir.compile(dojoir.parse(texts.elementwise("relu", "x", "max($x, 0)", 1024)), "cuda")
    x = torch.randn(1024, device="cuda")
    y = torch.empty_like(x)
    calls = {
        "bound": compiled.bind(x, y),
        "unbound": lambda: compiled(x, y),
        "torch": lambda: torch.relu_(y),
    }
    found = []
    for name, call in calls.items():
        best = float("inf")
        for _ in range(5):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(500):
                call()
            best = min(best, (time.perf_counter() - start) / 500)
        torch.cuda.synchronize()
        found.append(f"{name} {best * 1e6:.1f} µs")
    return ", ".join(found)


def alive() -> str:
    return meaning("relu")


def main() -> None:
    for name in SMALL:
        check(name, lambda name=name: meaning(name))
    works = (tensors, graphs, operators, libraries, gathers, verified, measured, fault, hang, shared, shell, cost)
    for work in (*works, alive):
        check(work.__name__, work)
    print("\n".join(f"{mark:5} {name:18} {found.splitlines()[0][:110]}" for mark, name, found in LINES))
    sys.exit(any(mark != "ok" for mark, _, _ in LINES))


if __name__ == "__main__":
    main()
