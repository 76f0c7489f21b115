"""Stores past the caches and fetches ahead: what they are lowered to, and that they change no result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from c_machine import Machine

import dojoir
from dojoir.codegen.emission import lower
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.lower.pipeline import lower as lower_to
from dojoir.codegen.lower.waits.fences import fenced
from dojoir.codegen.target import C, Target
from dojoir.errors import ToolchainError
from dojoir.runtime.build import c_toolchain

WIDE, NARROW = Target("llvm", 512, "mask", frozenset(), 32, architecture="x86_64"), Target("llvm", 128, "scalar")

DOUBLE = """kernel double(N, M)
in  x: f32[N, M]
out y: f32[N, M] stream

N
| M : v
| | y[{0}, {1}] = 2 * x[{0}, {1}]
"""


def shifted(values: np.ndarray, elements: int) -> np.ndarray:
    """The same values in an array that begins that many elements behind a cache line."""
    size = values.itemsize
    room = np.zeros(values.nbytes + 128 + elements * size, np.uint8)
    start = -room.ctypes.data % 64 + elements * size
    array = room[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    array[...] = values
    return array


def compiler() -> c_toolchain.Toolchain:
    try:
        return c_toolchain.find()
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)


def targets() -> list[str]:
    """The targets that run here."""
    try:
        c_toolchain.find()
    except ToolchainError:
        return ["llvm"]
    return ["llvm", "c"]


def stores(program: lir.Program) -> list[lir.Store]:
    return [stmt for stmt in statements(program.body) if isinstance(stmt, lir.Store)]


# -- results -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "bf16"])
def test_rows_that_begin_anywhere_have_no_effect_on_results(target: str, dtype: str) -> None:
    text = DOUBLE.replace("f32", dtype).replace("2 * x", "x")
    run = dojoir.compile(dojoir.parse(text), target)
    bits = {"f32": np.uint32, "f64": np.uint64, "i8": np.uint8, "bf16": np.uint16}[dtype]
    kind = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "bf16": np.uint16}[dtype]
    random = np.random.default_rng(0)
    for columns in (1, 15, 16, 17, 33, 100, 300, 1025):
        for shift in (0, 1, 15):
            x = (random.random((3, columns)) * 100).astype(kind)
            y = shifted(np.zeros_like(x), shift)
            run(x, y)
            assert np.array_equal(x.view(bits), y.view(bits)), (columns, shift)


FUSED = """kernel fused(N, M)
in    x: f32[N, M]
out   y: f32[N, M] stream
inout z: f32[N, M] stream
out   s: i32[N]
tmp   t: f32[N~, M] stream

N : p
| s[{0}] = 0
| M : v
| | t[{0}, {1}] = x[{0}, {1}] + 1
| | s[{0}] += i32(x[{0}, {1}])
| | if {1} >= 3
| | | z[{0}, {1}] = x[{0}, {1}]
| | y[{0}, {1}] = 2 * x[{0}, {1}] + t[{0}, {1}]
| M : v
| | z[{0}, {1}] += t[{0}, M - 1 - {1}]
"""
TILES = """kernel tiles(N, M)
in  x: f32[N, M]
out y: f32[N, M] stream

(N + 3) // 4
| (M + 31) // 32
| | min(4, N - 4*{0}) : u
| | | min(32, M - 32*{1}) : v
| | | | y[4*{0} + {2}, 32*{1} + {3}] = 3 * x[4*{0} + {2}, 32*{1} + {3}]
"""
FETCHED = """kernel fetched(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
in  i: i32[K]
out c: f32[N, M] stream

N : p, prefetch(c, 1)
| M : v
| | c[{0}, {1}] = 0
| K : prefetch(b, 4), prefetch(a, 16)
| | M : v, prefetch(b, 64)
| | | c[{0}, {2}] += a[{0}, {1}] * b[{1}, {2}] + b[i[{1}], {2}]
"""


@pytest.mark.parametrize("target", targets())
@pytest.mark.parametrize("text", [FUSED, TILES, FETCHED], ids=["fused", "tiles", "fetched"])
def test_results_are_those_without_hints(text: str, target: str) -> None:
    plain = dojoir.parse(text.replace(" stream", ""))
    kernel = dojoir.parse(text)
    random = np.random.default_rng(1)
    for n, m in ((1, 1), (3, 17), (9, 70), (5, 600)):
        inputs: dict[str, np.ndarray] = {}
        for buffer in kernel.arguments:
            if buffer.role != "out":
                shape = tuple(dim.extent.evaluate({"N": n, "M": m, "K": 5}) for dim in buffer.dims)
                values = random.integers(0, 5, shape)
                inputs[buffer.name] = values.astype(np.int32 if buffer.name == "i" else np.float32)
        sizes = {"N": n, "M": m, "K": 5}
        given = {name: sizes[name] for name in kernel.runtime_sizes}
        expected = dojoir.interpret(plain, {k: v.copy() for k, v in inputs.items()}, **given)
        found = dojoir.compile(kernel, target).run({k: v.copy() for k, v in inputs.items()}, **given)
        for name, values in expected.items():
            assert np.array_equal(values, found[name]), (name, n, m)


@pytest.mark.parametrize("text", [DOUBLE, FUSED, TILES, FETCHED], ids=["double", "fused", "tiles", "fetched"])
def test_printed_c_does_nothing_undefined(text: str, tmp_path: Path) -> None:
    kernel = dojoir.parse(text)
    machine = Machine(compiler(), tmp_path)
    sizes = {name: {"N": 3, "M": 300, "K": 5}[name] for name in kernel.runtime_sizes}
    arrays: dict[str, np.ndarray] = {}
    for buffer in kernel.arguments:
        shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
        arrays[buffer.name] = np.ones(shape, np.int32 if buffer.dtype.name == "i32" else np.float32)
    machine.check_warnings(dojoir.emit(kernel, "c"))
    status, _ = machine.run_checked(lower(kernel, "c"), arrays, **sizes)
    assert status == 0


# -- what is streamed --------------------------------------------------------------------------------------
def test_whole_vectors_are_streamed_behind_the_alignment() -> None:
    program = lower_to(dojoir.parse(DOUBLE), WIDE)
    streamed = [store for store in stores(program) if store.streaming]
    assert [store.value.type for store in streamed] == [lir.Type(streamed[0].value.type.dtype, 32)]
    rest = [store for store in stores(program) if not store.streaming]
    assert len(rest) == 2  # the lanes before the alignment, and those at the end
    assert all(store.mask is not None for store in rest)


def test_without_masks_the_iterations_before_run_one_by_one() -> None:
    program = lower_to(dojoir.parse(DOUBLE), NARROW)
    kinds = [(store.streaming, store.value.type.lanes) for store in stores(program)]
    assert kinds == [(False, 1), (True, 4), (False, 1)]


def test_a_second_store_asks_at_run_time() -> None:
    text = DOUBLE.replace("\n\nN", "\nout z: f32[N, M] stream\n\nN") + "| | z[{0}, {1}] = x[{0}, {1}]\n"
    program = lower_to(dojoir.parse(text), WIDE)
    asked = [stmt for stmt in statements(program.body) if isinstance(stmt, lir.If) and stmt.otherwise]
    assert [store.streaming for store in stores(program) if store.streaming] == [True, True]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y[{0}, {1}] =", "y[{0}, M - 1 - {1}] ="),
        ("out y: f32[N, M] stream", "out y: f32[N, M] order(1, 0) stream"),
        ("| M : v", "| M"),
        ("stream", ""),
    ],
    ids=["reversed", "strided", "no lanes", "not streamed"],
)
def test_what_is_not_a_contiguous_vector_is_stored_plainly(old: str, new: str) -> None:
    program = lower_to(dojoir.parse(DOUBLE.replace(old, new)), WIDE)
    assert not any(store.streaming for store in stores(program))
    assert not any(isinstance(stmt, lir.Fence) for stmt in statements(program.body))


def test_vectors_that_no_hardware_streams_are_stored_plainly() -> None:
    text = DOUBLE.replace("M", "12").replace("12)", ")").replace("double(N, )", "double(N)")
    program = lower_to(dojoir.parse(text), WIDE)
    assert [(s.streaming, s.value.type.lanes) for s in stores(program)] == [(False, 12)]


def test_a_compiler_s_lanes_are_streamed_in_blocks() -> None:
    program = lower_to(dojoir.parse(DOUBLE), C)
    assert [stmt.buffer for stmt in statements(program.body) if isinstance(stmt, lir.Stream)] == ["y"]
    source = dojoir.emit(dojoir.parse(DOUBLE), "c")
    assert "stream(&y[" in source
    assert source.count("stream_fence();") == 1


def test_what_a_condition_on_data_leaves_alone_is_not_streamed_over() -> None:
    """A block of results has no value for an element that the condition leaves as it was."""
    text = DOUBLE.replace("out y", "inout y").replace("= 2 * x[{0}, {1}]", "= 2 * x[{0}, {1}] if x[{0}, {1}] > 0")
    kernel = dojoir.parse(text)
    x = np.tile(np.array([[1.0, -1.0, -2.0, 4.0]], np.float32), (3, 25))
    y = np.full_like(x, 7.0)
    for target in targets():
        got = dojoir.compile(kernel, target).run({"x": x, "y": y.copy()})["y"]
        np.testing.assert_array_equal(got, np.where(x > 0, 2 * x, y))


def test_the_machine_code_streams() -> None:
    binding = pytest.importorskip("llvmlite.binding")
    if not binding.get_default_triple().startswith("x86_64"):
        pytest.skip("the names of instructions are those of x86")
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(), opt=3
    )
    text = DOUBLE.replace("| M : v", "| M : v, prefetch(x, 512)")
    assembly = machine.emit_assembly(binding.parse_assembly(dojoir.emit(dojoir.parse(text), "llvm")))
    assert "movntps" in assembly
    assert "movnti" not in assembly
    assert "sfence" in assembly
    assert "prefetcht0" in assembly


# -- fences ------------------------------------------------------------------------------------------------
def _stream(name: str) -> lir.Stmt:
    zero = lir.Const(lir.INDEX, 0)
    return lir.Stream(name, zero, "from", zero)


def _threads(*body: lir.Stmt) -> lir.Parallel:
    return lir.Parallel(lir.Var(lir.INDEX, "p"), lir.Const(lir.INDEX, 4), (), body)


def _loop(*body: lir.Stmt) -> lir.For:
    zero = lir.Const(lir.INDEX, 0)
    return lir.For(lir.Var(lir.INDEX, "i"), zero, zero, 1, body)


def _shape(body: tuple[lir.Stmt, ...]) -> Iterator[str]:
    for stmt in body:
        match stmt:
            case lir.Stream(name):
                yield name
            case lir.Fence():
                yield "|"
            case lir.For(body=inner):
                yield f"({' '.join(_shape(inner))})"
            case lir.Parallel(body=inner, epilogue=epilogue):
                yield f"<{' '.join(_shape((*inner, *epilogue)))}>"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ((), ""),
        ((_loop(),), "()"),
        ((_loop(_stream("a")), _stream("b")), "(a) b |"),
        ((_threads(_stream("a")),), "<a |>"),
        ((_stream("a"), _threads(), _threads(_stream("b"))), "a | <> <b |>"),
        ((_stream("a"), _threads(), _stream("b")), "a | <> b |"),
        ((_loop(_threads(), _stream("a")),), "(<> a |)"),
        ((_loop(_stream("a"), _threads(_stream("b"))),), "(a | <b |>)"),
    ],
)
def test_fences_stand_where_other_threads_may_look(body: tuple[lir.Stmt, ...], shape: str) -> None:
    assert " ".join(_shape(fenced(body))) == shape


# -- fetches -----------------------------------------------------------------------------------------------
def fetches(text: str, target: Target = WIDE) -> list[lir.Prefetch]:
    program = lower_to(dojoir.parse(text), target)
    return [stmt for stmt in statements(program.body) if isinstance(stmt, lir.Prefetch)]


def test_a_vector_fetches_its_lines() -> None:
    text = DOUBLE.replace(" stream", "").replace("N, M]", "N, 64]").replace("N, M)", "N)")
    text = text.replace("| M : v", "| 64 : v, prefetch(x, 64)")
    found = fetches(text)
    assert [(fetch.buffer, fetch.write) for fetch in found] == [("x", False)] * 4
    assert {fetch.write for fetch in fetches(text.replace("prefetch(x", "prefetch(y"))} == {True}


def test_accesses_to_one_line_are_fetched_once() -> None:
    text = "kernel f(N)\nin x: f32[N + 2]\nout y: f32[N]\nN : v, prefetch(x, 64)\n"
    text += "| y[{0}] = x[{0}] + x[{0} + 1] + x[{0} + 2] + x[0]\n"
    body = [stmt for stmt in lower_to(dojoir.parse(text), WIDE).body if isinstance(stmt, lir.For)]
    assert len([s for s in statements((body[0],)) if isinstance(s, lir.Prefetch)]) == 2  # 32 lanes are two lines


def test_a_scope_around_fetches_what_its_scopes_will_touch_line_by_line() -> None:
    text = DOUBLE.replace(" stream", "").replace("N\n|", "N : prefetch(x, 2)\n|")
    program = lower_to(dojoir.parse(text), WIDE)
    loop = next(stmt for stmt in statements(program.body) if isinstance(stmt, lir.For))
    first = loop.body[0]
    assert isinstance(first, lir.For)
    assert first.step == 16
    assert isinstance(first.body[0], lir.Prefetch)


def test_a_fetch_that_has_nothing_to_fetch_is_an_error() -> None:
    text = (
        "kernel f(N)\nin x: f32[4]\nin i: i32[N]\nout y: f32[N]\nN : prefetch(x, 2)\n| y[{0}] = x[i[{0}]] + x[1]\n"
    )
    with pytest.raises(dojoir.KernelError, match="the same elements") as caught:
        dojoir.prove(dojoir.parse(text))
    assert caught.value.diagnostic.code == "idle-hint"


# -- the moves ---------------------------------------------------------------------------------------------
def test_the_moves_are_listed_where_they_help_and_taken_back() -> None:
    kernel = dojoir.parse(DOUBLE.replace(" stream", ""))
    listed = [str(move) for move in dojoir.moves(kernel)]
    fetched = [f"prefetch(0.0, {name}, {distance})" for name in "xy" for distance in (128, 512, 1024, 4096)]
    wanted = [*fetched, "stream(y)", "stream_large(y, 33554432)"]
    assert [move for move in listed if move.startswith(("stream", "prefetch"))] == wanted
    for text in ("stream(y)", "prefetch(0.0, x, 128)"):
        move = dojoir.parse_move(text)
        after = dojoir.apply(kernel, move)
        back = move.inverse(kernel)
        assert dojoir.apply(after, back) == kernel
        assert dojoir.apply(kernel, back.inverse(after)) == after


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("stream(x)", "not-streamed"),
        ("unstream(y)", "no-change"),
        ("unprefetch(0, x)", "no-hint"),
        ("prefetch(0, x, 0)", "bad-hint"),
        ("prefetch(0, t, 4)", "unused-hint"),
        ("prefetch(0.0, t, 4)", "unused-hint"),
        ("prefetch(1, t, 4)", "idle-hint"),
        ("stream(t)", "legal"),
        ("prefetch(0, x, 4)", "legal"),
    ],
)
def test_what_the_moves_refuse(move: str, code: str) -> None:
    text = DOUBLE.replace(" stream", "").replace("\n\nN", "\ntmp t: f32[4]\n\nN") + "N\n| t[1] = 3\n"
    verdict = dojoir.check(dojoir.parse(text), move)
    assert verdict.code == code


def test_a_streamed_temporary_stays_in_memory() -> None:
    text = DOUBLE.replace("\n\nN", "\ntmp t: f32[4] stream\n\nN") + "4\n| t[{0}] = 3\n"
    verdict = dojoir.check(dojoir.parse(text), "place(t, reg)")
    assert verdict.code == "streamed"
    assert "unstream(t)" in str(verdict)


# -- where an array is large -------------------------------------------------------------------------------
LARGE = """kernel large(N, M)
in  x: f32[N, M]
out y: f32[N, M] stream 4096
out z: f64[M] stream 100
out s: f32[N]

N
| s[{0}] = 0
| M : v
| | y[{0}, {1}] = 2 * x[{0}, {1}]
| | s[{0}] += x[{0}, {1}]
M : v
| z[{0}] = f64(x[N - 1, {0}])
"""


def streaming(kernel: dojoir.Kernel) -> list[lir.Store]:
    return [store for store in stores(lower_to(kernel, WIDE)) if store.streaming]


def test_what_is_large_is_streamed_and_asked_at_the_call() -> None:
    program = lower_to(dojoir.parse(LARGE), WIDE)
    asked = [s for s in statements(program.body) if isinstance(s, lir.If) and s.otherwise]
    written = [
        [any(t.streaming for t in statements(side) if isinstance(t, lir.Store)) for side in (s.then, s.otherwise)]
        for s in asked
    ]
    assert written.count([True, False]) == 2, "one version of each loop streams"
    for m, found in ((8, set()), (16, {"z"}), (512, {"y", "z"})):
        fixed = dojoir.parse(LARGE.replace("large(N, M)", f"large(N = 2, M = {m})"))
        assert {store.buffer for store in streaming(fixed)} == found, m


@pytest.mark.parametrize("target", targets())
def test_both_versions_give_the_same(target: str) -> None:
    """Of all sizes: what is large and long is streamed."""
    kernel = dojoir.parse(LARGE)
    plain = dojoir.parse(LARGE.replace(" stream 4096", "").replace(" stream 100", ""))
    run = dojoir.compile(kernel, target)
    random = np.random.default_rng(3)
    for n, m in ((1, 1), (3, 12), (3, 13), (2, 511), (2, 512), (2, 513), (5, 1037)):
        x = random.integers(-9, 9, (n, m)).astype(np.float32)
        expected = dojoir.interpret(plain, {"x": x})
        for name, values in run.run({"x": x}).items():
            assert np.array_equal(values, expected[name]), (name, n, m)


def test_the_move_and_its_text() -> None:
    kernel = dojoir.parse(DOUBLE.replace(" stream", ""))
    made = dojoir.apply(kernel, "stream_large(y, 4096)")
    assert "out y: f32[N, M] stream 4096" in str(made)
    assert dojoir.parse(str(made)) == made
    trace = dojoir.Trace(kernel)
    trace.apply("stream_large(y, 4096)")
    trace.apply("unstream(y)")
    assert trace.kernel == kernel
    assert str(trace.moves[1].inverse(made)) == "stream_large(y, 4096)"
    assert dojoir.check(kernel, "stream_large(y, 1)").code == "not-streamed"
    assert dojoir.check(kernel, f"stream_large(y, {1 << 63})").code == "not-streamed"
    assert dojoir.check(made, "stream_large(y, 4096)").code == "no-change"
    trace = dojoir.Trace(made)
    trace.apply("stream(y)")
    assert str(trace.moves[0].inverse(made)) == "stream_large(y, 4096)"
    trace.undo()
    trace.apply("stream_large(y, 64)")
    assert str(trace.moves[0].inverse(made)) == "stream_large(y, 4096)"
    for wrong in ("stream 0", "stream(4096)", f"stream {1 << 63}", "stream(1, 2)"):
        with pytest.raises(dojoir.KernelError) as raised:
            dojoir.parse(DOUBLE.replace("stream", wrong))
        assert raised.value.diagnostic.code == "bad-attribute", wrong
