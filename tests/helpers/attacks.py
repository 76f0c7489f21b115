"""Hostile texts, arguments, files and processes, by family (`fuzz.py`): what went wrong, and what was counted."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import hostile
from drawing import draw
from drawing.damage import PIECES, damage

import dojoir

Found = tuple[list[str], Counter[str]]

MOST_MEMORY = 12 << 30
"""Bytes of address space that a child may take."""

TEXTS = (
    "split(0, 4)", "split(@i, 2)", "tile(0, 0.0, 2, 2)", "join_scopes(0, 1)", "reuse_dims(t, 0)", "inline(t)",
    "cut(0, N - 1)", "stage(x, 0, in)", "vectorize(0)", "parallelize(@j)", "simplify", "default_schedule(avx2)",
    "try(split(0, 4))", "each(<scope>, unroll(.))", "swap_siblings(0)", 'add_guard(0, 1, "N >= 1")',
    "split(<writes t>, 4)", "set_extent(0, min(N, 4))", "label(0, i)", "repeat(peel(0))", "unsplit(0)",
    "place(t, reg)",
)  # fmt: skip
WORDS = (
    "(", ")", ",", "@", "<", ">", "0", "-1", "9" * 30, "0.0", "N", "t", "\0", "\n", "\u2028", "{0}", '"', "..",
    ";", "#", "not ", "in ", "<<", "split", "\ud800", "1e9", "//0", "%0", "**", "\\", "\U0001f600", "min(",
    "N*N", " ",
)  # fmt: skip


def case(family: str, random: Random) -> Found:
    """One case of a family, in a folder of its own: a wrong argument may be a right name of a file. What asks for
    more memory than MOST_MEMORY fails there, and nowhere else."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    os.chdir(tempfile.mkdtemp(prefix="dojoir-attack-"))
    return FAMILIES[family](random)


def outcome(what: str, act: Callable[[], object]) -> str | None:
    """What is wrong with what came of an act, or None: an answer or a clear DojoError."""
    began = time.process_time()
    try:
        act()
    except dojoir.DojoError as error:
        wrong = hostile.clear(error)
    except Exception as error:
        wrong = f"{type(error).__name__}: {str(error)[:300]}"
    else:
        wrong = None
    took = time.process_time() - began
    if wrong is None and took > 10:
        wrong = f"took {took:.1f} s"
    return None if wrong is None else f"{wrong}\n  {what}"


def arguments(random: Random) -> Found:
    call = hostile.draw(random)
    wrong = call.run()
    return ([f"{hostile.smaller(call)}: {wrong}"] if wrong else []), Counter(checks=1)


def move_texts(random: Random) -> Found:
    """Damaged texts of moves, pipelines and queries."""
    kernel = dojoir.parse(hostile.PAIR) if random.random() < 0.5 else draw("runnable", random, small=True)
    failures, counts = [], Counter[str]()
    for _ in range(20):
        text = random.choice(TEXTS)
        for _ in range(random.choice((1, 1, 2, 4))):
            a = random.randrange(len(text) + 1)
            b = min(len(text), a + random.randrange(5))
            text = text[:a] + random.choice((*WORDS, random.choice(PIECES), text[b:] + text[:a])) + text[b:]
        acts = {
            "check": lambda text=text: dojoir.check(kernel, text),
            "apply": lambda text=text: again(dojoir.apply(kernel, text)),
            "parse_pipeline": lambda text=text: dojoir.parse_pipeline(text),
            "find": lambda text=text: dojoir.find(kernel, text),
            "suggest": lambda text=text: dojoir.suggest(kernel, text),
        }
        for name, act in random.sample([*acts.items()], 2):
            counts["checks"] += 1
            wrong = outcome(f"{name} {text!r} on\n{dojoir.to_text(kernel)}", act)
            failures += [wrong] if wrong else []
    return failures, counts


def again(kernel: dojoir.Kernel) -> None:
    if dojoir.parse(dojoir.to_text(kernel)) != kernel:
        raise AssertionError("its text gives another kernel")


def damaged(data: bytes, random: Random) -> bytes:
    """Bytes that are not what they were."""
    at = random.randrange(len(data) + 1)
    match random.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + random.randbytes(1 + random.randrange(8)) + data[at + 1 :]
        case 2:
            flipped = bytearray(data or b"x")
            flipped[at % len(flipped)] ^= 1 << random.randrange(8)
            return bytes(flipped)
        case 3:
            return random.randbytes(random.randrange(200))
        case 4:
            return b""
    return data + data


RUN = """
import dojoir, numpy as np, sys
kernel = dojoir.parse(open(sys.argv[1]).read())
got = dojoir.optimize(kernel, sizes={"N": 100000}, threads=1).kernel
x = np.arange(8, dtype=np.float32)
for k in (kernel, got):
    assert dojoir.compile(k, threads=1).run({"x": x})["y"].tolist() == (2 * x + 1).tolist()
dojoir.runtime.ceilings(1) if "ceilings" in sys.argv else None
print("right")
"""


def python(code: str, *arguments: str, cache: Path, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    environment = os.environ | {"DOJOIR_CACHE": str(cache)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def pair_file(folder: Path) -> str:
    path = folder / "pair.dojo"
    path.write_text(hostile.PAIR)
    return str(path)


def caches(random: Random) -> Found:
    """A cache that was filled, then had files damaged or replaced by folders, links and devices."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache = folder / "cache"
        first = python(RUN, pair_file(folder), cache=cache)
        if first.stdout != "right\n":
            return [f"with an empty cache: {first.stderr[-500:]}"], Counter(checks=1)
        files = sorted(path for path in cache.rglob("*") if path.is_file())
        done = []
        for path in files if random.random() < 0.7 else random.sample(files, 1):
            data, how = path.read_bytes(), random.randrange(9)
            done.append(f"{path.relative_to(cache)}:{how}")
            if how < 6:
                path.write_bytes(damaged(data, random))
                continue
            path.unlink()
            if how == 6:
                path.mkdir()
            elif how == 7:
                path.symlink_to(random.choice((str(path), "/dev/zero", "/dev/full", "/nonexistent")))
            else:
                other = random.choice(files)
                path.write_bytes(other.read_bytes() if other.is_file() else data[::-1])
        began = time.monotonic()
        second = python(RUN, pair_file(folder), cache=cache)
        if second.stdout != "right\n" or time.monotonic() - began > 120:
            return [f"a damaged cache {done}: {second.returncode} {second.stderr[-500:]}"], Counter(
                checks=len(done)
            )
        return [], Counter(checks=len(done))


def hostile_json(random: Random, data: object) -> object:
    """Plain data with a part replaced, taken out or put twice."""
    if isinstance(data, dict) and data and random.random() < 0.8:
        key = random.choice([*data])
        match random.randrange(4):
            case 0:
                return {k: v for k, v in data.items() if k != key}
            case 1:
                return {**data, key: random.choice(JSONS)}
        return {**data, key: hostile_json(random, data[key])}
    if isinstance(data, list) and data and random.random() < 0.8:
        at = random.randrange(len(data))
        match random.randrange(4):
            case 0:
                return data[:at] + data[at + 1 :]
            case 1:
                return [*data[:at], random.choice(JSONS), *data[at:]]
            case 2:
                return [*data, *data]
        return [*data[:at], hostile_json(random, data[at]), *data[at + 1 :]]
    if isinstance(data, str) and random.random() < 0.8:
        return damage(data, random)
    return random.choice(JSONS)


JSONS: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    10**400,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "a\0b",
    "\ud800",
    [],
    {},
    [0],
    ["split(0, 4)"],
    "split(0, 4)",
    {"N": 1},
    [[]],
    [None],
    "9" * 5000,
    ["x"] * 50,
    [10**30],
)


def traces(random: Random) -> Found:
    kernel = dojoir.parse(hostile.PAIR)
    trace = dojoir.Trace(kernel)
    for _ in range(random.randrange(4)):
        legal = dojoir.moves(trace.kernel, seconds=2)
        if legal:
            trace.apply(random.choice(legal))
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "trace.json")
        for _ in range(20):
            data = hostile_json(random, trace.to_json())
            raw = json.dumps(data).encode()
            if random.random() < 0.3:
                raw = damaged(raw, random)
            path.write_bytes(raw)

            def load() -> None:
                found = dojoir.Trace.load(path)
                if not found.is_safe or not dojoir.certify(found):
                    raise AssertionError("a damaged trace gave what is not proved")

            wrong = outcome(f"Trace.load of {raw[:600]!r}", load) or outcome(
                f"Trace.from_json of {str(data)[:600]}", lambda data=data: dojoir.Trace.from_json(data)
            )
            failures += [wrong] if wrong else []
    return failures, Counter(checks=40)


SCHEDULE = """\
# kernel: pair
# targets: llvm avx512
# when: N >= 64, N % 16 == 0
# needs: vector_bytes >= 16
split(@i, 4)
vectorize(1)
"""


def stored(random: Random) -> Found:
    kernel = dojoir.parse(hostile.PAIR)
    failures: list[str] = []
    own = sorted(Path(dojoir.schedules.__file__).parent.glob("*.moves"))
    with tempfile.TemporaryDirectory() as name:
        for number in range(10):
            folder = Path(name, str(number))
            folder.mkdir()
            text = SCHEDULE if random.random() < 0.6 else random.choice(own).read_text()
            raw = damage(text, random).encode("utf-8", "surrogatepass")
            if random.random() < 0.2:
                raw = damaged(raw, random)
            (folder / random.choice(("pair.moves", "a b.moves", "pair.single.moves"))).write_bytes(raw)

            def take(folder: Path = folder) -> None:
                trace = dojoir.optimize(kernel, "llvm", sizes={"N": 4096}, folders=[folder], threads=1)
                if not dojoir.certify(trace):
                    raise AssertionError("a damaged schedule gave what is not proved")

            wrong = outcome(f"optimize with {raw!r}", take)
            failures += [wrong] if wrong else []
    return failures, Counter(checks=10)


WRITE = """
import dojoir, sys
kernel = dojoir.parse(open(sys.argv[1]).read())
trace = dojoir.Trace(kernel).then("split(@i, 4)")
print("ready", flush=True)
n = 0
while True:
    n += 1
    dojoir.support.files.write_file(sys.argv[2] + "/file", ("old", "new")[n % 2] * 100_000)
    trace.save(sys.argv[2] + "/trace.json")
    if n % 3 == 0:
        dojoir.write_library([trace], sys.argv[2] + "/library", check=False)
        dojoir.compile(dojoir.parse(open(sys.argv[1]).read().replace("* 2", f"* {n}")), threads=1)
"""


def kills(random: Random) -> Found:
    """A process that is killed while it writes leaves whole files, and a cache that works."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = pair_file(folder)
        environment = os.environ | {"DOJOIR_CACHE": str(folder / "cache")}
        command = [sys.executable, "-c", WRITE, source, name]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(random.uniform(0.0, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        failures = []
        text = (folder / "file").read_text() if (folder / "file").exists() else "old" * 100_000
        if text not in ("old" * 100_000, "new" * 100_000):
            failures.append(f"a file that was written by half: {len(text)} characters")
        if (folder / "trace.json").exists():
            wrong = outcome("Trace.load after a kill", lambda: dojoir.Trace.load(folder / "trace.json").replay())
            failures += [wrong] if wrong else []
        library = folder / "library"
        if library.exists():
            manifest = json.loads((library / "manifest.json").read_text())
            lacking = {file for file in manifest["files"] if not (library / file).is_file()}
        else:
            lacking = set()
        if lacking:
            failures.append(f"a library by half: {sorted(p.name for p in library.iterdir())}")
        after = python(RUN, source, cache=folder / "cache")
        if after.stdout != "right\n":
            failures.append(f"after a kill: {after.stderr[-500:]}")
        return failures, Counter(checks=4)


def forks(random: Random) -> Found:
    """A child of a fork gets right results on every target, after a call in the parent or without."""
    target = random.choice([t for t in ("llvm", "c", "avx512", "avx2") if runs(t)])
    source = hostile.PAIR.replace("N @i", "N : p @i").replace("N @j", "N : p @j")
    code = (
        "import dojoir, numpy as np, os, signal, sys\n"
        f"run = dojoir.compile(dojoir.parse({source!r}), {target!r}, threads={random.choice((1, 2, 3))})\n"
        "x = np.arange(100_000, dtype=np.float32)\n"
        f"early = {random.random() < 0.8}\n"
        "right = lambda: np.array_equal(run.run({'x': x})['y'], 2 * x + 1)\n"
        "assert not early or right()\n"
        f"for _ in range({random.choice((1, 3))}):\n"
        "    pid = os.fork()\n"
        "    if not pid:\n"
        "        signal.alarm(60)\n"
        f"        if {random.random() < 0.4}:\n"
        "            inner = os.fork()\n"
        "            if inner:\n"
        "                os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))\n"
        "        os._exit(0 if right() and right() else 3)\n"
        "    assert os.waitpid(pid, 0)[1] == 0, 'child'\n"
        "assert right()\n"
        "print('right')\n"
    )
    with tempfile.TemporaryDirectory() as name:
        done = python(code, cache=Path(name))
    wrong = (
        [] if done.stdout == "right\n" else [f"fork on {target}: {done.returncode} {done.stderr[-400:]}\n{code}"]
    )
    return wrong, Counter(checks=1)


def runs(target: str) -> bool:
    if target not in _RUNS:
        try:
            dojoir.compile(dojoir.parse(hostile.PAIR), target)
            _RUNS[target] = True
        except dojoir.ToolchainError:
            _RUNS[target] = False
    return _RUNS[target]


_RUNS: dict[str, bool] = {}


def names(random: Random) -> Found:
    """Kernels, sizes, buffers and labels called as what the headers declare are C that a compiler takes."""
    from identifiers import header_identifiers, takes

    known = header_identifiers()
    target = random.choice(("c", "avx512"))
    picked = random.sample(known, min(len(known), 60))
    wrong = takes(target, picked)
    return [f"{target}: {one}" for one in wrong], Counter(checks=len(picked))


FAMILIES: dict[str, Callable[[Random], Found]] = {
    "arguments": arguments, "moves": move_texts, "caches": caches, "traces": traces, "schedules": stored,
    "kills": kills, "forks": forks, "names": names,
}  # fmt: skip
