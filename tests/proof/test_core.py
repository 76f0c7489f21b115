"""The trusted core: what it consists of, how long it is, and that nothing quicker is part of it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest
from asked import Source
from checked import checked_kernel
from faults import FAULTS
from rooms import MODULES, module_of, ours, sources
from styled import code_lines
from walks import MARK_CODES, draw_moves

import dojoir
from dojoir.grammar import parse_affine
from dojoir.passes.base.move import Refusal
from dojoir.passes.storage.staging import Stage
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import first_failure, form_errors
from dojoir.proof.explain.verdicts import check
from dojoir.proof.patterns.pattern_table import PATTERNS, Pattern
from dojoir.sets.limits import StepLimitReached, limited

MOST = 2270
"""How many lines of code the core may have, each file of `proof` that it imports counted in."""

MOST_TRUSTED = 8100
"""How many lines the core and what it stands on may have together, as docs/checker.md says."""

BESIDE = ("sets", "ir", "types", "rules", "support", "errors")
"""What else a verdict rests on, besides isl, sympy for the rules of algebra, and the tests of these rules."""


@cache
def files() -> dict[str, Path]:
    return {module_of(path): path for part in ("dojoir", "grammar") for path in sources(part)}


def reached(starts: set[str], within: str = "") -> set[str]:
    """The modules that some import, one through another, whose names begin in a way."""
    known, found = files(), set[str]()
    todo = [*starts]
    while todo:
        module = todo.pop()
        if module in found or module not in known or not module.startswith(within):
            continue
        found.add(module)
        todo += [other for _, other in ours(known[module])]
    return found


def test_the_core_is_short_enough_to_be_read() -> None:
    known = files()
    core = reached({"dojoir.proof.core.check"}, "dojoir.proof")
    lengths = {module: code_lines(Source(known[module])) for module in sorted(core)}
    beside = {
        room: sum(code_lines(Source(known[m])) for m in reached(core) - core if m.startswith(f"dojoir.{room}"))
        for room in BESIDE
    }
    for module, length in lengths.items():
        print(f"{length:5} {module.removeprefix('dojoir.')}")
    print(f"{sum(lengths.values()):5} the core\nbeside it:")
    for room, length in beside.items():
        print(f"{length:5} {room}")
    assert all({module} <= MODULES for module in core)
    print(f"{sum(lengths.values()) + sum(beside.values()):5} in all")
    assert sum(lengths.values()) <= MOST
    assert sum(lengths.values()) + sum(beside.values()) <= MOST_TRUSTED
    others = {m for m in reached(core) - core if not m.startswith(tuple(f"dojoir.{room}" for room in BESIDE))}
    assert {m.split(".")[1] for m in others} <= {"grammar"}, "the rules of algebra are texts, and nothing else is"


def test_the_core_imports_nothing_that_is_there_for_speed_or_for_words() -> None:
    rooms = ("patterns", "refute", "slice", "check", "wellformed", "way", "explain", "verdict")
    outside = tuple(f"dojoir.proof.{room}" for room in rooms)
    assert not [m for m in reached({"dojoir.proof.core.check"}) if m.startswith(outside)]


def rewrites(random: Random) -> list[Claim]:
    """Claims that moves make some steps into a walk, legal or not, and mutants of them."""
    kernel = checked_kernel(random, 0.9)
    for move in draw_moves(kernel, random, random.choice((0, 0, 1, 3))):
        kernel = dojoir.apply(kernel, move) if dojoir.check(kernel, move) else kernel
    found = []
    copies = list(Stage.candidates(kernel))
    for move in (*draw_moves(kernel, random, 9), *random.sample(copies, min(3, len(copies)))):
        try:
            done = move.rewrite(kernel)
        except (Refusal, dojoir.DojoError):
            continue
        if done.instances.rule is None:
            wrong = (fault(done, random) for fault in random.sample(FAULTS, 3))
            made = [Claim(kernel, one.kernel, one.instances).forth for one in (done, *wrong) if one is not None]
            found += [claim for claim in made if is_fit(claim)]
    return found


@cache
def claims() -> tuple[Claim, ...]:
    return tuple(claim for number in range(60) for claim in rewrites(Random(f"patterns {number}")))


def is_fit(claim: Claim) -> bool:
    """Whether a claim may be asked: its first kernel is well-formed, and its certificate fits."""
    try:
        dojoir.prove(claim.before)
    except dojoir.KernelError:
        return False
    return first_failure(form_errors(claim)) is None


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.name)
def test_a_pattern_says_yes_only_where_the_core_does(pattern: Pattern) -> None:
    """It answers for the values: marks, and what may fail or is touched, the core asks after them."""
    seen = 0
    for claim in claims():
        try:
            with limited(3_000_000):
                if not pattern.holds(claim):
                    continue
                seen += 1
                verdict = check(claim)
        except StepLimitReached:
            continue
        assert verdict or verdict.code in {*MARK_CODES, "may-fail", "touches"}, (
            f"{verdict}\n{claim.before}\n{claim.after}"
        )
    assert len(claims()) > 500
    assert seen or pattern.name in {"recomputed", "inlining", "split_dim", "sharing"}


CHAINS = (
    "N\n| min(N, 5 - {0})\n| | a[4*{0} + 3*{1} + 1] = 2 * a[4*{0} + 3*{1}]",
    "N\n| (N + 3) // 4\n| | {0} + 1\n| | | a[3*{1} + 4] = 2 * a[3*{1}]",
    "M\n| N\n| | a[4*{0} + 3*{1} + 1] = 2 * a[4*{0} + 3*{1}]",
    "(N + 3) // 4\n| 4\n| | 2\n| | | a[{0} + 4*{1} + {2}] = 2 * x[0]",
    "N // 3\n| {0} + 1\n| | N\n| | | 5\n| | | | a[2*{0} + 2*{1} + {3}] += 2 * x[0]",
)
"""Loops in which what works on a copy hands most of it on, from iteration to iteration, in no affine chain."""


@pytest.mark.parametrize("body", CHAINS)
def test_a_chain_of_copies_without_an_affine_closure(body: str) -> None:
    header = "kernel f(N, M)\ninout a: f32[40*N + 40*M + 40]\nin x: f32[N]\nwhere N <= M\n"
    kernel = dojoir.parse(f"{header}{body}\n")
    place = "0.0.0" if body.count("|") > 4 else "0.0"
    done = dojoir.parse_move(f"stage({place}, a, c, inout)").rewrite(kernel)
    said = check(Claim(kernel, done.kernel, done.instances))
    assert said or said.code == "touches", said  # asked last: the elements between those that are written
    last = done.kernel.sites[-1]
    wrong = replace(last.statement, value=replace(last.statement.value, indices=(parse_affine("0", kernel, 0),)))
    other = done.kernel.replace_node(last.path, wrong)
    refused = check(Claim(kernel, other, done.instances))
    assert refused.code in {"stray-value", "wrong-value", "lost-value", "read-before-write"}, refused


def test_two_operators_on_one_array_keep_their_order() -> None:
    """Where each works on a copy, the order of neither counts there: no pattern may say yes."""
    kernel = dojoir.parse("kernel f(N)\nin x: i32[N]\nout a: i32\na = 0\nN\n| a += x[{0}]\nN\n| a max= x[{0}]\n")
    for place in ("1", "2"):
        done = dojoir.parse_move(f"stage({place}, a, c, inout)").rewrite(kernel)
        claim = Claim(kernel, done.kernel, done.instances)
        held = [pattern.name for pattern in PATTERNS if pattern.holds(claim)]
        assert check(claim) or not held
