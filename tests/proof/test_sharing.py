"""Two temporaries in one storage: what the users alone say is what the core says of the whole kernel."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.passes.base.move import Refusal
from dojoir.passes.engine.answer_keys import answer_keys
from dojoir.passes.engine.engine import is_legal
from dojoir.proof.check import answer, prove_by_core
from dojoir.proof.claim import Claim
from dojoir.proof.difference import told_apart
from dojoir.proof.patterns.sharing import takes_the_storage
from dojoir.support.memo import fresh_tables

LIVES = """kernel lives(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp a: f32[N, M]
tmp b: f32[N, M]
tmp c: f32[N, M]
tmp d: f32[N, M]
tmp e: f32[N]
tmp f: f32[N]

N
| M
| | a[{0}, {1}] = 2 * x[{0}, {1}]
N
| M
| | b[{0}, {1}] = a[{0}, {1}] + 1
N
| e[{0}] = 0
| M
| | e[{0}] += b[{0}, {1}]
N
| f[{0}] = -inf
| M
| | f[{0}] max= b[{0}, M - 1 - {1}]
N
| M
| | c[{0}, {1}] = f[{0}] * x[{0}, {1}] + e[{0}]
N
| M
| | d[{0}, {1}] = c[{0}, {1}] + x[{0}, M - 1 - {1}]
| M
| | y[{0}, {1}] = d[{0}, {1}]
"""

MARKED = """kernel marked(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp a: f32[M]
tmp b: f32[M]
tmp c: f32[M]

N : p
| M
| | a[{1}] = 2 * x[{0}, {1}]
| M
| | y[{0}, {1}] = a[{1}]
M
| b[{0}] = x[0, {0}]
M
| c[{0}] = b[{0}]
M
| y[0, {0}] = 2 * c[M - 1 - {0}]
"""

REUSED = """kernel reused(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N
| t[{0}] = 2 * x[{0}]
N
| t[{0}] = t[{0}] + x[N - 1 - {0}]
N
| t[{0}] = t[N - 1 - {0}] * 2
N
| y[{0}] = t[{0}] * t[{0}]
"""


def storage_moves(kernel: dojoir.Kernel) -> list[dojoir.Move]:
    names = [buffer.name for buffer in kernel.buffers if buffer.role == "tmp"]
    moves = [move for move in dojoir.candidates(kernel) if move.name in {"share_buffer", "unshare_buffer"}]
    kinds = {type(move) for move in moves}
    for kind in kinds:
        for name in names:
            moves += kind._further(kernel, name, dojoir.Machine("llvm"))
    moves += [dojoir.parse_move(f"share_buffer({b}, {a})") for a in names for b in names if a != b]
    return list(dict.fromkeys(moves))


@pytest.mark.parametrize("text", [LIVES, MARKED, REUSED], ids=["lives", "marked", "reused"])
def test_the_users_say_what_the_core_says_of_the_whole(text: str) -> None:
    kernel = dojoir.parse(text)
    verdicts = set()
    for move in storage_moves(kernel):
        try:
            done = move.rewrite(kernel)
        except (Refusal, dojoir.DojoError):
            continue
        expected = bool(prove_by_core(kernel, done.kernel, done.instances))
        assert told_apart(kernel, done.kernel, done.instances) is not None
        with fresh_tables():
            assert answer(kernel, done.kernel, done.instances).legal == expected, move
        assert is_legal(kernel, move) == bool(dojoir.check(kernel, move)) == expected, move
        if takes_the_storage(Claim(kernel, done.kernel, done.instances)):
            marks = {code for code in [prove_by_core(kernel, done.kernel, done.instances).code] if code}
            assert expected or marks <= {"shared-element", "carried-value"}, move
        verdicts.add((move.name, expected))
    assert len(verdicts) >= 2, "some are legal, and some are not"


def test_a_private_buffer_of_a_marked_scope_is_not_shared() -> None:
    kernel = dojoir.parse(MARKED)
    assert dojoir.check(kernel, "share_buffer(a, b)").code == "shared-element"
    plain = dojoir.parse(MARKED.replace(" : p", ""))
    assert dojoir.check(plain, "share_buffer(a, b)")


def test_two_operators_are_not_made_one_buffers_unseen() -> None:
    kernel = dojoir.parse(LIVES)
    move = dojoir.parse_move("share_buffer(e, f)")
    assert "apart" not in {key.kind for key in answer_keys(kernel, move)}


def test_pairs_that_are_used_apart_are_one_question() -> None:
    kernel = dojoir.parse(LIVES)
    found = {
        move: next((key for key in answer_keys(kernel, dojoir.parse_move(move)) if key.kind == "apart"), None)
        for move in ("share_buffer(a, c)", "share_buffer(d, b)", "share_buffer(a, b)", "share_buffer(c, d)")
    }
    assert found["share_buffer(a, c)"] == found["share_buffer(d, b)"] is not None
    assert found["share_buffer(a, b)"] is None and found["share_buffer(c, d)"] is None
