"""Whether asynchronous copies have landed before they are read or written over: proved from the text of the kernel.

A copy has two acts. Its issue is where it stands; barriers separate that from what is done before, as if it were a
store (`barrier_proof`). Its landing is the first wait behind which its group must be there: groups end at commits,
and a wait that leaves so many on their way has let all before these land. Whatever thread does anything to the
element behind the issue does it behind such a wait, which stands in front of a barrier of the block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import islpy as isl

from dojoir.codegen.lower.waits.acts import Act, LaunchedPart, Reading, launches_of
from dojoir.codegen.lower.waits.barrier_proof import BEFORE, STEP_LIMIT, BarrierProof, Unseparated
from dojoir.codegen.lower.waits.landings import NONE, Landings, waiting_for_all
from dojoir.codegen.lower.waits.places_to_wait import Position
from dojoir.ir.nodes import Kernel
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass

COMMITS = 2 * BEFORE
"""How long before a child the commit is that stands before it: a wait there is for what is committed there."""


def landed(kernel: Kernel, warp: int, landings: Landings) -> Landings:
    """`landings` where they are proved, else the same copies where threads wait for all of them; and where that is
    not proved either, none."""
    tried = (landings, waiting_for_all(landings)) if landings.copies else ()
    return next((one for one in tried if not any(unlanded(kernel, warp, one))), NONE)


def unlanded(kernel: Kernel, warp: int, landings: Landings) -> Iterator[Unseparated]:
    """The pairs of an asynchronous copy and an access to its element before it has landed, or a write to its source
    in the same launch, on a machine whose warps have `warp` threads."""
    reading = Reading(kernel, warp)
    for launch in launches_of(kernel):
        yield from _Flight(BarrierProof(reading, launch, ()), landings).left()


@dataclass(frozen=True)
class _Flight:
    """The copies of one launch."""

    proof: BarrierProof
    landings: Landings

    @property
    def launch(self) -> LaunchedPart:
        return self.proof.launch

    def left(self) -> Iterator[Unseparated]:
        """The pairs that no wait separates."""
        sites, landings = self.proof.kernel.sites, self.landings
        acts = tuple(self.proof.reading.acts(self.launch))
        copies = [act for act in acts if sites[act.number].path in landings.copies]
        try:
            with limited_in_part(STEP_LIMIT):
                waits = list(self._waits()) if copies else []
        except (StepLimitReached, isl.Error):
            waits = []
        for one in copies:
            for other in acts:
                if one.access.buffer == other.access.buffer and not (
                    one.writes and self._landed(one, other, waits)
                ):
                    yield Unseparated(one.access.buffer, sites[one.number].path, sites[other.number].path)

    def _landed(self, one: Act, other: Act, waits: Iterable[_Wait]) -> bool:
        try:
            with limited_in_part(STEP_LIMIT):
                return self._are_apart(one, other, waits)
        except (StepLimitReached, isl.Error):
            return False

    def _are_apart(self, one: Act, other: Act, waits: Iterable[_Wait]) -> bool:
        """Whether all that an act does to an element behind a copy is behind a wait that has let it land."""
        proof = self.proof
        mine, its = (proof.sets.map(proof.times(act, name).text) for act, name in ((one, "a"), (other, "b")))
        pairs = proof.pairs(one, other, proof.of_one_block(one, other))
        left = pairs.intersect(mine.lex_lt_union_map(its))
        for passed, landed in waits:
            if left.is_empty():
                return True
            left = left.subtract(mine.lex_lt_union_map(landed).apply_range(passed.lex_lt_union_map(its)))
        return bool(left.is_empty())

    def _waits(self) -> Iterator[_Wait]:
        """The waits of the block: when each is passed, and the time of the last commit whose group has landed
        then."""
        commits = [
            self._passed(f"c{n}", at, COMMITS) for n, at in enumerate(self.landings.commits) if self._holds(at)
        ]
        if not commits:
            return
        ends = self.proof.sets.map(*commits)
        times = ends.range()
        before = times.lex_gt_union_set(times).lexmax()
        for n, (at, count) in enumerate(self.landings.waits.items()):
            if self._holds(at):
                passed = self.proof.sets.map(self._passed(f"w{n}", at, BEFORE))
                landed = passed.lex_gt_union_map(ends).apply_range(ends).lexmax()
                for _ in range(count):
                    landed = landed.apply_range(before)
                yield passed, landed

    def _passed(self, name: str, at: Position, early: int) -> str:
        path, child = at
        return self.proof.passed(name, path, self.proof.reading.time((*path, int(child)), -early))

    def _holds(self, at: Position) -> bool:
        """Whether a place is one of all threads of a block of the launch."""
        here = (*at[0], int(at[1]))
        return self.launch.holds(here) and not self.proof.reading.digits(here)


_Wait = tuple[isl.UnionMap, isl.UnionMap]
