"""LLVM's passes and code generator: the text of a module to an object file, here or in a helper process.

Every pass manager that llvmlite makes keeps some 80 KB for good, closed or not, and none can be used twice. So the
first modules are compiled in this process, and the others in a helper, which is replaced before it holds much: a
process that compiles kernels without end stays as large as it is. The helper ends when this process does, however
that ends, as the pipe it reads from does; a fork does not use the helper of its parent. Where there can be none,
or it fails, the module is compiled here after all, which also says what LLVM has against it."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import IO, TYPE_CHECKING

from dojoir.errors import ToolchainError
from dojoir.runtime.build.llvm_lane_signs import LACKING, is_wrong, takes_signs
from dojoir.runtime.build.llvm_lane_signs import without as without_features
from dojoir.runtime.build.llvm_masks import with_single_lanes_apart
from dojoir.support.frozen import dataclass

if TYPE_CHECKING:
    import subprocess
    from types import ModuleType
    from typing import Protocol

    class TargetMachine(Protocol):
        """The part of llvmlite's class of that name that is used here; llvmlite has no types."""

        def emit_object(self, module: object) -> bytes: ...
        def emit_assembly(self, module: object) -> str: ...


OPTIMISATION = 3
"""The level of LLVM's pass pipeline and of its code generator."""

PARTS = ("loop_vectorization", "loop_interleaving", "loop_unrolling", "slp_vectorization")
"""The parts of the pipeline that can be left out."""

HERE = 200
"""How many modules are compiled in this process before a helper is asked."""

HELPED = 500
"""How many modules a helper compiles before another one takes its place."""


@dataclass(frozen=True)
class Processor:
    """The processor that code is made for, in LLVM's words. `features` is its list, such as `+avx2,-avx512f`."""

    triple: str
    cpu: str
    features: str


def object_of(text: str, processor: Processor) -> bytes:
    """An LLVM module as an object file for a processor. Raises ToolchainError where LLVM refuses the text."""
    code = _helpers.asked(text, processor)
    return compiled_here(text, processor) if code is None else code


def compiled_here(text: str, processor: Processor, without: Sequence[str] = (), level: int = OPTIMISATION) -> bytes:
    """The same, in this process, without some of PARTS, or at another level of the pipeline."""
    llvm = binding()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ToolchainError(
            f"LLVM refused the generated code, which is a bug in dojoir; please report it: {error}", "llvm-refused"
        ) from None
    machine = _target_machine(processor)
    tuning = llvm.create_pipeline_tuning_options(level)
    for part in PARTS:
        setattr(tuning, part, part not in without)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    optimised = str(module)
    text = with_single_lanes_apart(optimised)
    for lacking in LACKING:
        if lacking or text is not optimised:  # the code generator changes the module that it is given
            module = llvm.parse_assembly(text)
        machine = _target_machine(replace(processor, features=without_features(processor.features, lacking)))
        code: bytes = machine.emit_object(module)
        if not takes_signs(processor.triple, code) or not is_wrong(
            machine.emit_assembly(llvm.parse_assembly(text))
        ):
            break
    return code


@cache
def binding() -> ModuleType:
    """llvmlite.binding, which takes a while to import, initialised for this machine."""
    llvm = importlib.import_module("llvmlite.binding")
    with contextlib.suppress(RuntimeError):  # newer versions need no call, and refuse it
        llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@cache
def _target_machine(processor: Processor) -> TargetMachine:
    target = binding().Target.from_triple(processor.triple)
    machine: TargetMachine = target.create_target_machine(
        cpu=processor.cpu, features=processor.features, opt=OPTIMISATION, reloc="pic", codemodel="default"
    )
    return machine


# -- the helper ----------------------------------------------------------------------------------------------
class _Helpers:
    """The modules that this process compiled, and the helper that it has then, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._helper: subprocess.Popen[bytes] | None = None
        self._served = 0

    def asked(self, text: str, processor: Processor) -> bytes | None:
        """The helper's result for a module; None where this process is to compile it itself."""
        with self._lock:
            if self._count < HERE:
                self._count += 1
                return None
            if self._served >= HELPED:
                self._stop()
            code = None
            try:
                helper = self._running()
                assert helper.stdin is not None and helper.stdout is not None
                _write(
                    helper.stdin, json.dumps([text, processor.triple, processor.cpu, processor.features]).encode()
                )
                code = _message_from(helper.stdout)
            except OSError:
                code = None
            finally:
                self._served += 1
                if code is None:  # it failed, or was left in the middle of an answer
                    self._stop()
            return code or None

    def _running(self) -> subprocess.Popen[bytes]:
        if self._helper is None:
            import subprocess

            if not sys.executable:
                raise FileNotFoundError
            path = [place or os.getcwd() for place in sys.path]
            self._helper = subprocess.Popen(
                [sys.executable, "-P", "-m", "dojoir.runtime.build.llvm_passes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                env=dict(os.environ, PYTHONPATH=os.pathsep.join(path)),
                start_new_session=True,
            )
            self._served = 0
        return self._helper

    def _stop(self) -> None:
        helper, self._helper, self._served = self._helper, None, 0
        if helper is not None:
            _close(helper)
            helper.kill()
            helper.wait()

    def stop(self) -> None:
        """Ends the helper, if there is one."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """In a fork: the helper is that of the parent."""
        self._lock = threading.Lock()
        helper, self._helper, self._served = self._helper, None, 0
        if helper is not None:
            _close(helper)
            helper.returncode = 0  # not a child of this process: there is nothing to wait for


def _close(helper: subprocess.Popen[bytes]) -> None:
    for pipe in (helper.stdin, helper.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


_helpers = _Helpers()
atexit.register(_helpers.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)


def _write(pipe: IO[bytes], data: bytes) -> None:
    left = memoryview(len(data).to_bytes(8, "little") + data)
    while left:
        left = left[pipe.write(left) or 0 :]


def _message_from(pipe: IO[bytes]) -> bytes | None:
    """A message; None at the end of the pipe."""
    head = _exactly(pipe, 8)
    return None if head is None else _exactly(pipe, int.from_bytes(head, "little"))


def _exactly(pipe: IO[bytes], count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = pipe.read(count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Compiles what is asked for until there is nothing more; no bytes for what LLVM refuses."""
    while (request := _message_from(requests)) is not None:
        text, *processor = json.loads(request)
        try:
            code = compiled_here(text, Processor(*processor))
        except ToolchainError:
            code = b""
        _write(answers, code)


if __name__ == "__main__":
    with (
        contextlib.suppress(BrokenPipeError),
        open(os.dup(0), "rb", buffering=0) as requests,
        open(os.dup(1), "wb", buffering=0) as answers,
    ):
        serve(requests, answers)
