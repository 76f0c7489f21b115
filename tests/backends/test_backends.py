"""The registry of targets: every one is complete, and a package installed beside dojoir adds one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dojoir
from dojoir.backends.registry import GROUP, OURS

PYTHON = '''\
"""Target python: a kernel without temporaries as Python, run by the interpreter that runs dojoir."""

import ctypes
import re

import numpy as np

import dojoir
from dojoir.runtime.call.layout import place, storage_bytes

BACKEND = dojoir.backends.backend.Backend(
    "python",
    "Python, for reading",
    emit="dojoir_python:emit",
    compile="dojoir_python:compile_kernel",
    way="dojoir_python:way",
    marks=frozenset(),
    lacks=frozenset({"bf16"}),
)


def emit(kernel, name, cpu):
    names = [*(buffer.name for buffer in kernel.arguments), *kernel.runtime_sizes]
    lines = [f"def {kernel.name}({', '.join(names)}):"]
    for line in dojoir.to_text(kernel).partition("\\n\\n")[2].splitlines():
        depth, text = 0, line
        while text.startswith("| "):
            depth, text = depth + 1, text[2:]
        text = re.sub(r"\\{(\\d+)\\}", r"i\\1", text)
        if "=" not in text:
            extent = re.split(r" [:@]", text)[0]
            text = f"for i{depth} in range({extent}):"
        lines.append("    " * (depth + 1) + text)
    return "\\n".join(lines) + "\\n"


def compile_kernel(kernel, name, threads, cpu):
    source = emit(kernel, name, cpu)
    names = {}
    exec(source, names)

    def function(*values):
        count = len(kernel.arguments)
        sizes = dict(zip(kernel.runtime_sizes, map(int, values[count:])))
        arrays = []
        for buffer, address in zip(kernel.arguments, values):
            memory = (ctypes.c_uint8 * storage_bytes(buffer, sizes)).from_address(int(address))
            arrays.append(place(np.frombuffer(memory, np.uint8), buffer, sizes))
        names[kernel.name](*arrays, *sizes.values())
        return 0

    return dojoir.Compiled(kernel, name, 1, source, function, names, ())


def way(name):
    return "in this interpreter"
'''

USE = """\
import json, sys
import numpy as np
import dojoir

kernel = dojoir.kernels.load("matmul")
found = {
    "targets": dict(dojoir.TARGETS),
    "source": dojoir.emit(kernel, "python"),
    "machine": dojoir.machine_for("python") == dojoir.machine_for("llvm"),
    "ways": {way.target: [way.runs, way.problem] for way in dojoir.doctor(measure=False).targets},
}
a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
found["c"] = dojoir.compile(kernel, "python").run({"a": a, "b": b})["c"].tolist()
sizes = {"N": 3, "M": 4, "K": 5}
report = dojoir.verify(kernel, target="python", seeds=1, sizes=sizes, distributions=["normal"])
found["verified"] = report.ok, str(report)
best = dojoir.optimize(kernel, "python")
found["optimized"] = len(list(best.moves)) > 0
found["measured"] = dojoir.measure(kernel, "python", budget=0.2, with_ceilings=False, sizes=sizes).seconds > 0
errors = []
for call in (
    lambda: dojoir.emit(kernel, "broken"),
    lambda: dojoir.compile(kernel, "pythn"),
    lambda: dojoir.emit(dojoir.parse(BF16), "python"),
):
    try:
        call()
    except dojoir.DojoError as error:
        errors.append(str(error))
found["errors"] = errors
print(json.dumps(found))
"""
BF16 = '''BF16 = """
kernel copy(N)
in  x: bf16[N]
out y: bf16[N]

N
| y[{0}] = x[{0}]
"""
'''


@pytest.fixture
def beside(tmp_path: Path) -> dict[str, str]:
    """An environment with packages that add a backend, one that works and one that does not."""
    for package, entries in (("dojoir_python", "python = dojoir_python:BACKEND"), ("broken", "broken = nowhere:B")):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entries}\n")
    (tmp_path / "dojoir_python.py").write_text(PYTHON)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}


def test_a_package_adds_a_target(beside: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BF16 + USE], env=beside, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found["targets"]) == [*OURS, "python"]
    assert found["targets"]["python"] == "Python, for reading"
    assert "for i1 in range(M):" in found["source"]
    assert found["c"] == [[3.0] * 4, [12.0] * 4]
    assert found["machine"] and found["optimized"] and found["measured"]
    assert found["verified"][0], found["verified"][1]
    assert found["ways"]["python"] == ["in this interpreter", ""]
    assert "cannot be loaded: ModuleNotFoundError" in found["ways"]["broken"][1]
    broken, typing_error, narrow = found["errors"]
    assert "bad-backend" in broken and "nowhere" in broken
    assert "did you mean 'python'" in typing_error
    assert "target python has no bf16, the type of x" in narrow


def test_the_command_line_lists_and_uses_it(beside: dict[str, str], tmp_path: Path) -> None:
    main = "import sys; from dojoir.cli import main; sys.exit(main())"
    text = tmp_path / "relu.dojo"
    text.write_text(str(dojoir.kernels.load("relu")))
    for arguments in (["--list-targets"], [str(text), "--emit", "python"]):
        command = [sys.executable, "-c", main, *arguments]
        done = subprocess.run(command, env=beside, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert ("python  Python, for reading" in done.stdout) or ("def relu(x, y, N):" in done.stdout), done.stdout


@pytest.mark.parametrize("name", OURS)
def test_a_backend_says_what_it_takes(name: str) -> None:
    backend = OURS[name]
    assert {"p", "v", "u"} <= backend.marks
    assert ("gx" in backend.marks) == ("shared" in backend.storage) == backend.is_device
    assert backend.name == name and dojoir.TARGETS[name] == backend.about
    assert dojoir.machine_for(name).kind == ("gpu" if backend.is_device else "cpu")


def test_an_unknown_target_is_refused_with_the_nearest() -> None:
    relu = dojoir.kernels.load("relu")
    with pytest.raises(dojoir.ArgumentError, match=r"there is no target 'avx51'; did you mean 'avx512'|avx512"):
        dojoir.emit(relu, "avx51")
    with pytest.raises(dojoir.ArgumentError, match="target c is no GPU: emulated=True runs cuda and hip"):
        dojoir.compile(relu, "c", emulated=True)
