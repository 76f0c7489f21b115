"""The expected results of a kernel on given inputs, and their tolerance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path

import numpy as np

from dojoir.errors import RunError, ToolchainError
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.bits import to_floats
from dojoir.meaning.interpreter import Interpreter
from dojoir.meaning.packed import unpacked
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.default_schedule import default_schedule
from dojoir.runtime.build import c_toolchain
from dojoir.runtime.call.layout import array_shape
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.process.child import Run, raise_reported, run_child
from dojoir.runtime.process.subject import KernelSubject
from dojoir.runtime.verification.compare import Expected
from dojoir.runtime.verification.comparison_rules import ComparisonRule, rules_of
from dojoir.runtime.verification.sample_sizes import count_instances
from dojoir.runtime.verification.tolerance import Bounded, bounded
from dojoir.runtime.verification.trial import load_arrays, save_arrays
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import temporary_folder

INTERPRETED_INSTANCES = 300_000
"""How many statements the interpreter is given; the reference is compiled for more."""

AS_WRITTEN_INSTANCES = 200_000_000
"""How many statements a compiled reference runs as its text has them; one with more is scheduled first."""


@dataclass(frozen=True)
class Oracle:
    """The reference for runs of `kernel` on `target`. `time_limit` is for one compiled run, which is a job for
    `run`. `used` collects, for the report, what the answers came from."""

    kernel: Kernel
    target: str
    time_limit: float
    run: Run = run_child
    used: set[str] = field(default_factory=set)

    def expected(self, sizes: Mapping[str, int], inputs: Mapping[str, np.ndarray]) -> dict[str, Expected]:
        """Every output, by name."""
        fixed = [name for name, rule in self.rules.items() if rule is ComparisonRule.EXACT]
        declared: Mapping[str, np.ndarray] = {}
        results: Mapping[str, np.ndarray] = {}
        all_fixed = len(fixed) == len(self.rules)
        if count_instances(self.kernel, sizes, INTERPRETED_INSTANCES) <= INTERPRETED_INSTANCES:
            self.used.add("the interpreter" if all_fixed else "the interpreter in f64")
            # first that whose errors name lines of the reference
            declared = self._declared.run(inputs, sizes)
            if not all_fixed:
                results = self._interpreted.run(self._exact_inputs(inputs), sizes)
        else:
            how = "the same meaning compiled" if all_fixed else "the same meaning compiled in f64"
            scheduled = ", scheduled" if self._is_long(sizes) else ""
            self.used.add(f"{how} for {self._other_target}{scheduled}")
            if not all_fixed:
                results = self._run_compiled(self._bounded.kernel, self._exact_inputs(inputs), sizes)
            if fixed:
                once = self._run_compiled(self.kernel, inputs, sizes)
                declared = {name: once[name] for name in fixed}
        return {
            buffer.name: self._expected_of(buffer, results, declared, sizes)
            for buffer in self.kernel.arguments
            if buffer.role != "in"
        }

    def _expected_of(
        self,
        buffer: Buffer,
        results: Mapping[str, np.ndarray],
        declared: Mapping[str, np.ndarray],
        sizes: Mapping[str, int],
    ) -> Expected:
        own: np.ndarray | None = None
        rule = self.rules[buffer.name]
        if buffer.name in declared and (buffer.dtype.is_float or rule is ComparisonRule.EXACT):
            own = _whole(buffer, unpacked(buffer, declared[buffer.name]), sizes)
            own = to_floats(own, buffer.dtype) if buffer.dtype.is_float else own
        if rule is ComparisonRule.EXACT:
            assert own is not None
            return Expected(own, None, None, rule)
        bounds = _as_f64(results.get(self._bounded.errors.get(buffer.name, "")))
        return Expected(_whole(buffer, results[buffer.name], sizes), bounds, own, rule)

    @cached_property
    def rules(self) -> dict[str, ComparisonRule]:
        """How each output is compared."""
        return rules_of(self.kernel)

    @cached_property
    def _bounded(self) -> Bounded:
        return bounded(self.kernel)

    @cached_property
    def _declared(self) -> Interpreter:
        return Interpreter(self.kernel)

    @cached_property
    def _interpreted(self) -> Interpreter:
        return Interpreter(self._bounded.kernel)

    @cached_property
    def _other_target(self) -> str:
        """The target that is not tested, if there is one: errors of one code generator are not in both."""
        if self.target.partition("@")[0] != "llvm":
            return "llvm"
        try:
            c_toolchain.find()
        except ToolchainError:
            return "llvm"
        return "c"

    def _exact_inputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs of the kernel with bounds: floats as f64, and what it wants to know of each `inout`."""
        exact: dict[str, np.ndarray] = {}
        for name, array in inputs.items():
            buffer = self.kernel.buffer(name)
            has_bits = buffer.dtype.is_float and not takes_value(buffer)
            array = unpacked(buffer, array)
            exact[name] = to_floats(array, buffer.dtype) if has_bits else array
            if buffer.role == "inout":
                if name in self._bounded.errors:
                    exact[self._bounded.errors[name]] = np.zeros(array.shape)
                for zero in self._bounded.zeros.get(name, ()):
                    exact[zero] = np.zeros(array.shape)
                if name in self._bounded.sums:
                    exact[self._bounded.sums[name]] = np.where(np.isfinite(exact[name]), np.abs(exact[name]), 0.0)
        return exact

    def _is_long(self, sizes: Mapping[str, int]) -> bool:
        """Whether the reference would run for minutes as it is written: a schedule is made of it then. Its moves
        are proved, it is built for another target than the kernel under test, and that kernel is compared with the
        interpreter at small sizes. An error of the proof would have to give both the same wrong result."""
        return count_instances(self.kernel, sizes, AS_WRITTEN_INSTANCES) > AS_WRITTEN_INSTANCES

    def _run_compiled(
        self, kernel: Kernel, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int]
    ) -> dict[str, np.ndarray]:
        with temporary_folder() as folder:
            source, out = str(Path(folder, "inputs")), str(Path(folder, "outputs"))
            save_arrays(source, inputs)
            run = {"inputs": source, "outputs": out, "sizes": dict(sizes), "at_end": True, "poison": 0}
            subject = KernelSubject(kernel, self._other_target, 1)
            if self._is_long(sizes):
                subject = KernelSubject(_scheduled(kernel, sizes), self._other_target)
            job = {"kind": "trial", "subject": subject.to_json(), "runs": [run]}
            outcome = self.run(job, self.time_limit)
            raise_reported(outcome)
            error = next((m["error"] for m in outcome.messages if "error" in m), None)
            if outcome.ended is not None or error is not None:
                raise RunError(
                    f"the reference of kernel {self.kernel.name} {error or outcome.ended}: verify at smaller sizes",
                    "no-reference",
                )
            return load_arrays(out)


def _scheduled(kernel: Kernel, sizes: Mapping[str, int]) -> Kernel:
    """A kernel as the rules schedule it for this machine."""
    trace = Trace(kernel)
    default_schedule(trace, "host", sizes=sizes)
    return trace.kernel


def _whole(buffer: Buffer, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """A result with all dimensions: those of flat arguments have fewer."""
    return array if buffer.flat is None else array.reshape(array_shape(buffer, sizes))


def _as_f64(array: np.ndarray | None) -> np.ndarray | None:
    return None if array is None else array.astype(np.float64, copy=False)
