"""Calls that were made before are quick: what they take, refuse and compute is what the first call did."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import dojoir
from dojoir import ArgumentError, DojoError, RunError
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.sizes import solve
from dojoir.runtime.call.arguments import Signature
from dojoir.runtime.call.bound import BoundArguments
from dojoir.runtime.call.entry import MOST
from dojoir.runtime.call.fitting import MOST_PAIRS, fitting
from dojoir.runtime.call.layout import allocate
from dojoir.runtime.call.scalars import scalar_argument, takes_value

MIX = """
kernel mix(N, M)
where M >= 2
in  a: f32
in  x: f32[N, M]
in  w: f32[M] align 16
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = a * x[{0}, {1}] + w[{1}]
"""


def arrays(n: int = 3, m: int = 4) -> list[object]:
    w = np.empty(m + 4, np.float32)
    w = w[(-w.ctypes.data % 16) // 4 :][:m]
    w[:] = 1
    return [2.0, np.arange(n * m, dtype=np.float32).reshape(n, m), w, np.zeros((n, m), np.float32)]


def warmed(text: str = MIX, target: str = "llvm") -> dojoir.Compiled:
    """A compiled kernel whose calls are quick by now."""
    compiled = dojoir.compile(dojoir.parse(text), target)
    return warm(compiled, *arrays())


def warm(compiled: dojoir.Compiled, *given: object, **sizes: object) -> dojoir.Compiled:
    for _ in range(6):
        compiled(*given, **sizes)
    assert compiled._quick is not None
    return compiled


def quick(compiled: dojoir.Compiled, *given: object) -> bool:
    """Whether the quick call takes these arguments."""
    assert compiled._quick is not None
    return compiled._quick(*given) is None


def outcome(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(DojoError) as caught:
        call()
    return caught.value.diagnostic.code, caught.value.diagnostic.message


def replaced(i: int, value: object, n: int = 3, m: int = 4) -> list[object]:
    given = arrays(n, m)
    given[i] = value
    return given


def bad_calls() -> Iterator[list[object]]:
    """Arguments that a call refuses, most of them but a little away from those it knows."""
    x = np.zeros((3, 4), np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    room = np.zeros(100, np.float32)
    misaligned = np.zeros(3 * 4 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(3, 4)
    for value in ("2", None, True, 1e39, 10**400, -1e300, [2.0], np.zeros(1), 1j, np.float64(1e300)):
        yield replaced(0, value)
    for value in (
        x.astype(np.float64), x.astype(np.int32), x.T.copy().T, x[::-1], np.zeros((3, 8), np.float32)[:, ::2],
        np.zeros((3, 5), np.float32), np.zeros(12, np.float32), misaligned, None, [[1.0]], x.astype(">f4"),
        np.zeros((0, 4), np.float32),
    ):  # fmt: skip
        yield replaced(1, value)
        yield replaced(3, value)
    yield replaced(3, frozen)
    yield replaced(2, room[1 + (-room.ctypes.data % 16) // 4 :][:4])
    for low in (0, 11):
        given = arrays()
        given[1], given[3] = room[:12].reshape(3, 4), room[low : low + 12].reshape(3, 4)
        yield given
    yield arrays()[:3]
    yield [*arrays(), 3, 4]
    yield [*arrays(), 3, 4, None]


@pytest.mark.parametrize("number", range(len(list(bad_calls()))))
def test_errors_are_those_of_the_first_call(number: int) -> None:
    given = list(bad_calls())[number]
    cold = dojoir.compile(dojoir.parse(MIX))
    known = warmed()
    first = outcome(lambda: cold(*given))
    assert outcome(lambda: known(*given)) == first
    known(*arrays())
    assert outcome(lambda: known(*given)) == first  # it was not remembered either


def test_a_known_signature_is_quick_and_right() -> None:
    compiled = warmed()
    for seed in range(20):
        given = arrays()
        given[1] = np.random.default_rng(seed).standard_normal((3, 4), np.float32)
        given[0] = float(seed)
        assert quick(compiled, *given)
        compiled(*given)
        assert (given[3] == np.float32(seed) * given[1] + 1).all()  # type: ignore[operator]


def test_what_changes_in_an_array_itself_is_seen() -> None:
    compiled = warmed()
    given = arrays(3, 4)
    x = given[1]
    assert isinstance(x, np.ndarray)
    assert quick(compiled, *given)
    x.resize((4, 3), refcheck=False)
    assert not quick(compiled, *given)
    assert outcome(lambda: compiled(*given))[0] == "size-conflict"
    x.resize((3, 4), refcheck=False)
    compiled(*given)
    y = given[3]
    assert isinstance(y, np.ndarray)
    y.flags.writeable = False
    assert outcome(lambda: compiled(*given))[0] == "read-only"


def test_many_signatures_are_remembered_and_forgotten() -> None:
    compiled = warmed()
    for _ in range(3):
        for n in range(1, 3 * MOST):
            given = arrays(n, 5)
            for _ in range(2):
                compiled(*given)
                assert (given[3] == 2 * given[1] + 1).all()  # type: ignore[operator]
            assert quick(compiled, *given)


@pytest.mark.parametrize("dtype", sorted(name for name, one in DTYPES.items() if not one.is_nibble))
def test_scalars_pass_as_at_the_first_call(dtype: str) -> None:
    text = f"kernel copy(N)\nin a: {dtype}\nin b: {dtype}\nout y: {dtype}[N]\n\nN\n| y[{{0}}] = a\n"
    kernel = dojoir.parse(text)
    compiled = dojoir.compile(kernel)
    buffer = kernel.arguments[0]
    y = compiled.empty("y", N=2)
    one: object = True if dtype == "bool" else 1
    warm(compiled, one, one, y)
    values: list[object] = [0, 1, -1, 127, -128, 128, 255, 256, 2**15, 2**31 - 1, 2**31, -(2**31), 2**32, 2**53 + 1]
    values += [2**63 - 1, -(2**63), 2**63, 2**64 - 1, 0.0, -0.0, 0.1, 1e-46, 1e-45, 3.4028235677973366e38, 1e39]
    values += [3.4028234663852886e38, -3.5e38, float("inf"), 65504.0, 2**24 + 1, 2**25 + 2, 448.0, 0.3]
    values += [True, False, np.bool_(True), np.float32(0.1), np.float64(0.1), np.int32(-5), np.int64(2**40)]
    values += [np.uint8(3), np.float16(0.5), np.array(2.0)]
    for value in values * 2:
        try:
            expected = scalar_argument(buffer, value)
        except ArgumentError as error:
            assert outcome(lambda v=value: compiled(v, one, y)) == (error.diagnostic.code, error.diagnostic.message)
            continue
        y[...] = 0
        compiled(value, one, y)
        stored = np.array([expected], y.dtype) if dtype not in ("f16",) else np.array([expected], np.uint16)
        assert y[:1].tobytes() == stored.tobytes(), (value, y)


def test_sizes_by_name() -> None:
    text = "kernel repeat(N, T)\ninout x: f32[N]\n\nT\n| N\n| | x[{1}] += 1\n"
    compiled = dojoir.compile(dojoir.parse(text))
    x = np.zeros(2, np.float32)
    warm(compiled, x, T=2)
    x[:] = 0
    compiled(x, T=2)
    assert x.tolist() == [2, 2]
    compiled(x, T=np.int64(3))
    assert x.tolist() == [5, 5]
    compiled(x, T=1, N=2)
    assert x.tolist() == [6, 6]
    for sizes in ({"T": 0}, {"T": True}, {"T": 1.5}, {"T": None}, {"T": 1, "N": 3}, {"T": 1, "K": 1}, {}):
        first = outcome(lambda s=sizes: dojoir.compile(dojoir.parse(text))(x, **s))
        assert outcome(lambda s=sizes: compiled(x, **s)) == first
    assert outcome(lambda: compiled(x, None, 2, 1))[0] == "argument-count"


def test_sizes_that_the_kernel_cannot_bear_are_refused_after_those_it_can() -> None:
    text = "kernel far(T)\ninout x: f32[1]\n\nT\n| if 1099511627776*{0} >= 1\n| | x[0] += 1\n"
    compiled = dojoir.compile(dojoir.parse(text))
    x = np.zeros(1, np.float32)
    warm(compiled, x, T=2)
    assert outcome(lambda: compiled(x, T=2**30))[0] == "size-too-large"


def test_a_quick_call_that_fails_says_so() -> None:
    text = "kernel rows(N, V)\nin ids: i32[N]\nin w: f32[V]\nout y: f32[N]\n\nN\n| y[{0}] = w[ids[{0}]]\n"
    compiled = dojoir.compile(dojoir.parse(text))
    ids, w, y = np.zeros(2, np.int32), np.ones(3, np.float32), np.zeros(2, np.float32)
    warm(compiled, ids, w, y)
    ids[1] = 3
    assert compiled._quick is not None
    with pytest.raises(RunError, match="out of range") as caught:
        compiled(ids, w, y)
    assert caught.value.diagnostic.code == "index-out-of-range"


def test_the_written_out_checks_say_what_the_checks_say() -> None:
    """For every library kernel at random shapes, right and a little wrong, in memory that is and is not its own."""
    rng = random.Random(0)
    compared = refused = 0
    for name in dojoir.kernels.names():
        kernel = dojoir.kernels.load(name)
        for _ in range(12):
            sizes = {size: rng.randint(1, 9) for size in kernel.runtime_sizes}
            given = {size: n for size, n in sizes.items() if rng.random() < 0.2}
            if rng.random() < 0.1 and given:
                given[next(iter(given))] += 1
            found = both_checks(kernel, a_little_wrong(kernel, sizes, rng), given)
            compared, refused = compared + (found is not None), refused + (found is None)
    assert compared > 100
    assert refused > 100


def both_checks(kernel: dojoir.Kernel, arguments: list[object], given: dict[str, int]) -> BoundArguments | None:
    """What the checks of a call say, written out and one after the other; None where they refuse it."""
    try:
        written = fitting(kernel, frozenset(given))(arguments, given, {})
    except ArgumentError:  # an argument that cannot be looked at
        written = None
    try:
        found = Signature(kernel).bind(arguments, given, {})
    except ArgumentError:
        assert written is None, kernel.name
        return None
    assert written == found, kernel.name
    again = fitting(kernel, frozenset(given))(arguments, given, {found.fit.layouts: found.fit})
    assert again == found._replace(is_known=True)
    return found


def a_little_wrong(kernel: dojoir.Kernel, sizes: dict[str, int], rng: random.Random) -> list[object]:
    """Arguments of a kernel, some of them not as they should be."""
    made: list[object] = []
    for buffer in kernel.arguments:
        if takes_value(buffer):
            made.append(rng.choice([1, np.int32(2), *([1.5, np.float32(2)] if buffer.dtype.is_float else [])]))
            continue
        array = allocate(buffer, sizes)
        if rng.random() < 0.15 and array.ndim:
            wrong = [array[:-1], array[..., ::-1], np.zeros(array.shape, np.int8), array[None], array.T]
            array = rng.choice([*wrong, array.view(Tagged), array.view(array.dtype.newbyteorder())])
        if rng.random() < 0.05:
            array.flags.writeable = False
        if rng.random() < 0.05 and array.flags.c_contiguous:
            memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
            array = np.ndarray(array.shape, array.dtype, memory.data)
        alike = [one for one in made if isinstance(one, np.ndarray) and one.shape == array.shape]
        made.append(rng.choice(alike) if alike and rng.random() < 0.1 else array)
    return made


class Tagged(np.ndarray):
    """Arrays of a class of their own."""


@pytest.mark.parametrize("count", [5, 20])
def test_each_pair_of_arrays_is_held_apart_where_one_is_written(count: int) -> None:
    """Few pairs are written out one by one, many are not."""
    names = [f"x{i}" for i in range(count)]
    lines = [f"{'inout' if i % 2 else 'in'} {name}: f32[N]" for i, name in enumerate(names)]
    body = [f"| {name}[{{0}}] += 1" for name in names[1::2]]
    kernel = dojoir.parse("\n".join(["kernel many(N)", *lines, "", "N", *body]) + "\n")
    assert (len([i for i in range(count) for j in range(i) if i % 2 or j % 2]) > MOST_PAIRS) == (count == 20)
    memory = np.zeros(8 * count + 4, np.float32)
    apart = [memory[8 * i : 8 * i + 8] for i in range(count)]
    assert both_checks(kernel, [*apart], {}) is not None
    for i, j in itertools.permutations(range(count), 2):
        overlapped = {j, j + 1} & {*range(count)} - {i}
        found = both_checks(kernel, [*apart[:i], memory[8 * j + 4 : 8 * j + 12], *apart[i + 1 :]], {})
        assert (found is None) == any(i % 2 or k % 2 for k in overlapped), (i, j)


def test_scalars_of_kernels_are_taken_as_values() -> None:
    kernel = dojoir.parse(MIX)
    assert [takes_value(buffer) for buffer in kernel.arguments] == [True, False, False, False]
    assert solve(kernel, {"x": (3, 4)}) == {"N": 3, "M": 4}


# -- PyTorch -----------------------------------------------------------------------------------------------
def test_tensors_are_quick_and_checked() -> None:
    torch = pytest.importorskip("torch")
    text = "kernel twice(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = 2 * x[{0}]\n"
    compiled = dojoir.compile(dojoir.parse(text))
    x, y = torch.arange(8.0), torch.zeros(8)
    warm(compiled, x, y)
    assert quick(compiled, x, y)
    assert torch.equal(y, 2 * x)
    weight = torch.nn.Parameter(torch.ones(8))
    assert outcome(lambda: compiled(weight, y))[0] == "no-dlpack"
    with torch.no_grad():
        warm(compiled, weight, y)
        assert quick(compiled, weight, y)
    assert y.tolist() == [2.0] * 8
    assert not quick(compiled, weight, y)
    assert outcome(lambda: compiled(weight, y))[0] == "no-dlpack"
    assert outcome(lambda: compiled(x, y[:7]))[0] == "size-conflict"
    assert outcome(lambda: compiled(x, x))[0] == "overlap"
    assert outcome(lambda: compiled(x.double(), y))[0] == "bad-dtype"
    assert outcome(lambda: compiled(torch.zeros(16)[::2], y))[0] == "bad-stride"
    assert outcome(lambda: compiled(torch.empty(8, device="meta"), y))[0] in {"bad-device", "no-dlpack"}


def test_a_tensor_that_is_negated_when_read_is_refused() -> None:
    """Its memory holds the other sign: PyTorch hands it over by DLPack without a word."""
    torch = pytest.importorskip("torch")
    text = "kernel twice(N)\nin x: f32[N, 2]\nout y: f32[N]\n\nN\n| y[{0}] = 2 * x[{0}, 0]\n"
    compiled = dojoir.compile(dojoir.parse(text))
    y = torch.zeros(8)
    whole = torch.view_as_real(torch.ones(8, dtype=torch.complex64))
    negated = torch._neg_view(whole)
    assert negated.is_neg()
    code, message = outcome(lambda: compiled(negated, y))
    assert (code, "x.resolve_neg()" in message) == ("lazy-negation", True)
    warm(compiled, whole, y)
    assert outcome(lambda: compiled(negated, y))[0] == "lazy-negation"
