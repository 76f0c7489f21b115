"""Every move is taken back by its inverse, to the letter."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from drawing import draw
from inverses import taken_back

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.passes import MOVES
from dojoir.passes.base.move import Move

LIBRARY = ("softmax", "layernorm", "matmul", "maxpool2d", "jacobi2d")


def walked(kernel: Kernel, random: Random, steps: int, each: int) -> Iterator[str]:
    """Takes back some moves of each family, and goes on with one of them."""
    for _ in range(steps):
        families: dict[str, list[Move]] = {}
        for move in dojoir.candidates(kernel):
            families.setdefault(move.name, []).append(move)
        legal: list[Move] = []
        for name, moves in families.items():
            for move in random.sample(moves, min(each, len(moves))):
                made = taken_back(kernel, move)
                yield made
                if made == name:
                    legal.append(move)
        if not legal:
            return
        by_name = sorted({move.name for move in legal})
        name = random.choice(by_name)
        kernel = dojoir.apply(kernel, random.choice([move for move in legal if move.name == name]))


@pytest.mark.parametrize("name", LIBRARY)
def test_on_library_kernels(name: str) -> None:
    made = Counter(walked(dojoir.kernels.load(name), Random(name), steps=2, each=2))
    assert sum(made.values()) - made["not legal"] > 5


@pytest.mark.parametrize("seed", range(48, 60))
def test_on_random_kernels(seed: int) -> None:
    random = Random(seed)
    setting = "runnable" if seed % 2 else "tangled"
    made = Counter(walked(draw(setting, random), random, steps=2, each=1))
    assert sum(made.values()) > 0
    assert made["undecided"] <= 1


@pytest.mark.parametrize("kind", MOVES, ids=lambda kind: kind.name)
def test_on_the_example_of_each_move(kind: type[Move]) -> None:
    example = re.sub(r"^ *(>>>|\.\.\.) ?", "", kind.__doc__ or "", flags=re.MULTILINE)
    found = re.search(r"parse\(\'\'\'(.*?)\'\'\'\).*?apply\(k, ([\"'])(.*?)\2\)", example, re.DOTALL)
    assert found is not None
    text, move = found[1], found[3]
    kernel = dojoir.parse(text)
    assert dojoir.parse_move(move).name == kind.name
    assert taken_back(kernel, dojoir.parse_move(move)) == kind.name


DEAD = """kernel f(N)
where N >= 2
fp strict
in  x: f32[N]
out y: f32[N]
tmp t: f32[N, 4] order(1, 0)
tmp u: f32[N]

N @i
| if {i} >= 1
| | t[{i}, 0] = x[{i}]
| | t[{i}, 1] = t[{i}, 0] + 1
| | u[{i}] = x[{i} - 1]
| y[{i}] = x[{i}]
| if {i} < 1
| | u[{i}] = 0
| 4 : u @j
| | t[{i}, {j}] = 0
| | if {j} < 2
| | | t[{i}, {j}] += min(x[{i}], 1)
N
| t[{0}, 3] = y[{0}]
"""


def test_what_is_deleted_is_in_the_text_of_the_inverse() -> None:
    k = dojoir.parse(DEAD)
    move = dojoir.parse_move("delete_temporary(t)")
    assert taken_back(k, move) == "delete_temporary"
    back = move.inverse(k)
    assert str(back) == (
        'restore_temporary("tmp t: f32[N, 4] order(1, 0)", 2, 0.0.0, 0.0.1, 0.3, 1, "t[{0}, 0] = x[{0}]", '
        '"t[{0}, 1] = t[{0}, 0] + 1", '
        '"4 : u @j; | t[{0}, {1}] = 0; | if {1} < 2; | | t[{0}, {1}] += min(x[{0}], 1)", '
        '"N; | t[{0}, 3] = y[{0}]")'
    )
    trace = dojoir.Trace(k)
    trace.apply(move)
    trace.apply(str(back))
    assert dojoir.to_text(trace.kernel) == dojoir.to_text(k)
    assert dojoir.Trace.from_json(trace.to_json()).kernel == k
    assert dojoir.certify(trace)


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ('restore_temporary("tmp t: f32[N]", 9)', "bad-position"),
        ('restore_temporary("tmp t: f32[N]", 2, 0.9.1, "t[0] = 1")', "unknown-place"),
        ('restore_temporary("tmp t: f32[N]", 2, 7, "t[0] = 1")', "bad-position"),
        ('restore_temporary("tmp x: f32[N]", 2)', "bad-text"),
        ('restore_temporary("out t: f32[N]", 2)', "bad-text"),
        ('restore_temporary("tmp t: f32[N]", 2, 1, "t[0] = 1; t[1] = 2")', "bad-text"),
        ('restore_temporary("tmp t: f32[N]", 2, 1, "t[q] = 1")', "bad-text"),
        ('restore_temporary("tmp t: f32[N]", 2, 1, "y[0] = 1")', "another-form"),
        ('restore_temporary("tmp t: f32[N]", 2, 1, "t[N] = 1")', "out-of-bounds"),
        ('restore_temporary("tmp t: f32[N]", 2, 1, "t[0] += 1")', "read-before-write"),
    ],
)
def test_what_cannot_be_put_in(move: str, code: str) -> None:
    k = dojoir.parse("kernel f(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    verdict = dojoir.check(k, move)
    assert not verdict
    assert verdict.code == code, str(verdict)


def test_labels_are_given_back() -> None:
    k = dojoir.parse("kernel f(N)\nin x: f32[N]\nout y: f32[N]\nN @i\n| y[{i}] = x[{i}]\n")
    move = dojoir.parse_move("label(@i, rows)")
    renamed = dojoir.apply(k, move)
    assert str(renamed).splitlines()[4] == "N @rows"
    assert dojoir.to_text(dojoir.apply(renamed, move.inverse(k))) == dojoir.to_text(k)
    assert dojoir.check(k, "label(0, i)").code == "no-change"


def test_a_layout_is_written_in_one_way() -> None:
    text = "kernel f(N)\nin  x: f32[N, 4]\nout y: f32[N, 4]\ntmp t: f32[N, 4]"
    body = "\n\nN\n| 4\n| | t[{0}, {1}] = x[{0}, {1}]\n| | y[{0}, {1}] = t[{0}, {1}]\n"
    plain, written = dojoir.parse(text + body), dojoir.parse(text + " order(0, 1) pad(0, 0)" + body)
    assert written == plain
    assert written.hash == plain.hash


HEAD = """kernel f(N)
where N >= 3
in  x: f32[N]
out y: f32[N]
"""


@pytest.mark.parametrize(
    ("body", "move", "codes"),
    [
        pytest.param(
            "1\n| y[{0}] = 2 * x[{0}]\nN - 1\n| y[{0} + 1] = 3 * x[{0} + 1]\n",
            "join_ranges(0, 1, 1)",
            {"another-form"},
            id="ranges with different bodies",
        ),
        pytest.param(
            "2\n| y[{0}] = 2 * x[{0}]\nN - 1\n| y[{0} + 1] = 2 * x[{0} + 1]\n",
            "join_ranges(0, 1, 1)",
            {"another-form"},
            id="ranges that overlap",
        ),
        pytest.param(
            "y[0] = 2 * x[1]\nN - 1\n| y[{0} + 1] = 2 * x[{0} + 1]\n",
            "unpeel(1)",
            {"another-form"},
            id="what is not the first iteration",
        ),
        pytest.param(
            "(N + 3) // 4\n| 4\n| | if 4*{0} + {1} < N\n| | | y[4*{0} + {1}] = x[4*{0} + {1}]\n",
            "unsplit(0, N)",
            {"another-form"},
            id="a nest that split does not give",
        ),
        pytest.param(
            "tmp t: f32[N]\ntmp u: f32[N]\nN\n| t[{0}] = x[{0}]\nN\n| u[{0}] = 2 * x[{0}]\n"
            "N\n| y[{0}] = t[{0}] + u[{0}]\n",
            "share_buffer(t, u)",
            {"wrong-value", "lost-value"},
            id="sharing between values that live at the same time",
        ),
        pytest.param(
            "tmp t: f32[N]\ntmp u: f32[N + 1]\nN\n| t[{0}] = x[{0}]\nN + 1\n| u[{0}] = 2\n"
            "N\n| y[{0}] = t[{0}] + u[{0}]\n",
            "share_buffer(t, u)",
            {"different-buffers"},
            id="sharing between different dimensions",
        ),
        pytest.param(
            "tmp t: f32[N]\nN\n| t[{0}] = x[{0}]\nN\n| t[{0}] = t[{0}] + 1\nN\n| y[{0}] = t[{0}]\n",
            "unshare_buffer(t, u, 3, 1)",
            {"wrong-value", "lost-value", "read-before-write"},
            id="parting a write from its read",
        ),
        pytest.param(
            "tmp t: f32[N]\nN\n| t[{0}] = 2 * x[{0}]\nN\n| y[{0}] = 2 * x[{0}] + 1\n",
            "extract(1.0, 1, t[N - 1 - {0}])",
            {"another-form"},
            id="a read of another element",
        ),
        pytest.param(
            "tmp t: f32[N]\nN\n| y[{0}] = 2 * x[{0}] + 1\nN\n| t[{0}] = 2 * x[{0}]\n",
            "extract(0.0, 1, t[{0}])",
            {"uninitialized-read", "read-before-write", "unwritten-read"},
            id="a read before the value is there",
        ),
        pytest.param(
            "2\n| y[{0}] = x[{0}]\nN - 2\n| y[{0} + 2] = x[{0}]\n",
            "set_extent(0, 3)",
            {"extra-instance"},
            id="one iteration more",
        ),
        pytest.param(
            "tmp t: f32[3]\ny[0] = 0\nN @i\n| y[{0}] = x[{0}]\n3\n| t[{0}] = x[2 - {0}]\nN - 2 @j\n"
            "| 3\n| | y[{j} + {1}] = 2 * t[{1}]\n",
            "unstage(@j, t)",
            {"not-staged"},
            id="a copy in reverse",
        ),
        pytest.param(
            "tmp c: f32[N]\nN\n| c[{0}] = x[{0}] + 1\nN\n| c[{0}] = 2 * x[{0}]\nN\n| y[{0}] = c[{0}]\n",
            "unstage(1, c)",
            {"still-used"},
            id="a copy that is also used elsewhere",
        ),
        pytest.param(
            "tmp p: f32[4]\nN\n| y[{0}] = 0\n4\n| p[{0}] = 1\nN @i\n| p[{0} % 4] += x[{0}]\n4\n| y[0] += p[{0}]\n",
            "merge_reduction(@i, p)",
            {"another-form"},
            id="partial results that begin with one",
        ),
        pytest.param("N\n| y[{0}] = x[{0}]\n", "peel(0)", {"legal"}, id="a scope that runs at least three times"),
        pytest.param(
            "y[0] = 0\nN - 3\n| y[{0}] = x[{0}]\nN\n| y[{0}] = x[{0}]\n", "peel(1)", {"may-not-run"},
            id="a scope that may not run",
        ),
    ],
)  # fmt: skip
def test_what_an_inverse_refuses(body: str, move: str, codes: set[str]) -> None:
    kernel = dojoir.parse(HEAD + body)
    dojoir.prove(kernel)
    verdict = dojoir.check(kernel, move)
    assert verdict.code in codes, str(verdict)
    assert (verdict.status == "legal") == (codes == {"legal"})
