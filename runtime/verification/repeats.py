"""Determinism, and dependence on inputs: repeated calls give the same bits, and a changed input changes the
results.

Calls have fresh buffers, each between guard pages and with another pattern before, in one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dojoir.backends.backend import code
from dojoir.backends.host import split_target
from dojoir.backends.registry import backend_or_none
from dojoir.errors import Diagnostic, DojoError, RunError
from dojoir.ir.nodes import Kernel
from dojoir.meaning.interpreter import interpret
from dojoir.meaning.sizes import solve
from dojoir.proof.wellformed import prove
from dojoir.runtime.build.compiler import check_kernel, check_target
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.needs import check_memory
from dojoir.runtime.process.child import Outcome, raise_reported, run_child
from dojoir.runtime.process.subject import KernelSubject, subject_from_json
from dojoir.runtime.process.worker import Report
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.runtime.verification.trial import POISONS, attempt
from dojoir.support.frozen import dataclass
from dojoir.support.public import public


@dataclass(frozen=True)
class Repeats:
    """The digests of the results of each call, by the number of threads: equal where the bits were; of each output
    together. `ended` says how the process ended before it had done them all, None if it did not."""

    digests: Mapping[int, tuple[str, ...]]
    ended: str | None = None

    def differs(self, threads: int) -> bool:
        """Whether two calls on so many threads gave other bits."""
        return len(set(self.digests[threads])) > 1

    @property
    def depends_on_threads(self) -> bool:
        """Whether another number of threads gave other bits."""
        return len({each[0] for each in self.digests.values() if each}) > 1


@public
def repeats(
    kernel: Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int],
    threads: Sequence[int] = (1,),
    calls: int = 5,
    seed: int = 0,
    time_limit: float = 60.0,
    emulated: bool = False,
) -> Repeats:
    """Calls a kernel several times on the same inputs, with fresh buffers, on each number of threads, in a child
    process. Raises as `verify` does."""
    prove(check_kernel(kernel, "repeat"))
    target = check_target(target, emulated=emulated)
    full = solve(kernel, {}, sizes)
    check_memory(kernel, full)
    job = {
        "kind": "repeats",
        "subjects": [KernelSubject(kernel, target, count, emulated=emulated).to_json() for count in threads],
        "sizes": full,
        "seed": seed,
        "calls": calls,
    }
    outcome = run_child(job, time_limit)
    raise_reported(outcome)
    found: dict[int, list[str]] = {count: [] for count in threads}
    for message in outcome.messages:
        if "digest" in message:
            found[threads[message["subject"]]].append(message["digest"])
    return Repeats({count: tuple(each) for count, each in found.items()}, _ended(outcome))


@public
def ignored_inputs(
    kernel: Kernel,
    against: Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int],
    seed: int = 0,
    time_limit: float = 60.0,
    emulated: bool = False,
) -> dict[str, tuple[str, ...]]:
    """The inputs that a kernel ignores although its reference depends on them: by name, with the outputs that
    should have changed. `sizes` are small: the reference is interpreted. Raises as `verify` does, and RunError
    (`crash`) where the process does not come to its end."""
    prove(check_kernel(kernel, "repeat"))
    target = check_target(target, emulated=emulated)
    full = solve(kernel, {}, sizes)
    job = {
        "kind": "changed",
        "subject": KernelSubject(kernel, target, 1, emulated=emulated).to_json(),
        "sizes": full,
        "seed": seed,
    }
    outcome = run_child(job, time_limit)
    raise_reported(outcome)
    if outcome.ended is not None:
        raise RunError(Diagnostic("crash", f"the process {outcome.ended} while inputs were changed"))
    changed = {message["changed"]: set(message["outputs"]) for message in outcome.messages if "changed" in message}
    base, *others = _variants(kernel, full, seed)
    first = _means(against, base[1], full)
    wrong: dict[str, tuple[str, ...]] = {}
    for name, inputs in others:
        second = _means(against, inputs, full)
        if first is None or second is None:
            continue
        should = {out for out, bits in first.items() if bits != second[out]}
        missing = tuple(sorted(should - changed.get(name, set())))
        if missing and not changed.get(name):
            wrong[name] = missing
    return wrong


def _ended(outcome: Outcome) -> str | None:
    return outcome.ended


def _variants(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> list[tuple[str, dict[str, np.ndarray]]]:
    """Some inputs, and for each argument the same with another value of it."""
    base, other = (make_inputs(kernel, sizes, seed + more, "uniform") for more in (0, 1))
    return [("", base), *((name, {**base, name: other[name]}) for name in base)]


def _means(kernel: Kernel, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]) -> dict[str, bytes] | None:
    """The bits that a kernel gives by its meaning; None where it has none on such inputs."""
    try:
        return {
            name: value.tobytes()
            for name, value in interpret(kernel, inputs, precision="declared", **sizes).items()
        }
    except DojoError:
        return None


# -- in the child ------------------------------------------------------------------------------------------
def run_repeats(job: Mapping[str, Any], report: Report) -> None:
    """Calls each subject some times on the same inputs, and reports a digest of the results of each call."""
    for number, data in enumerate(job["subjects"]):
        compiled = _loaded(data)
        inputs = make_inputs(compiled.kernel, job["sizes"], job["seed"], "uniform")
        for call in range(job["calls"]):
            at_end, poison = call % 2 == 0, POISONS[call % len(POISONS)]
            outputs, _ = attempt(compiled, inputs, job["sizes"], at_end, poison)
            digest = hashlib.sha256()
            for name, bits in _bits(outputs).items():
                digest.update(name.encode() + b"\0" + bits)
            report({"subject": number, "digest": digest.hexdigest()})


def run_changed(job: Mapping[str, Any], report: Report) -> None:
    """Changes each input by itself, and reports which outputs are others then."""
    compiled = _loaded(job["subject"])
    first: dict[str, bytes] = {}
    for name, inputs in _variants(compiled.kernel, job["sizes"], job["seed"]):
        outputs, _ = attempt(compiled, inputs, job["sizes"], True, POISONS[0])
        bits = _bits(outputs)
        if not name:
            first = bits
        else:
            report({"changed": name, "outputs": [out for out in bits if bits[out] != first[out]]})


def _loaded(data: Mapping[str, Any]) -> Compiled:
    subject = subject_from_json(data)
    assert isinstance(subject, KernelSubject)
    compiled = subject.load()
    backend = backend_or_none(split_target(compiled.target)[0])
    if backend is not None and backend.is_device:
        on_host: Compiled = code(backend.on_host)(compiled)
        return on_host
    return compiled


def _bits(outputs: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(array).tobytes() for name, array in outputs.items()}
