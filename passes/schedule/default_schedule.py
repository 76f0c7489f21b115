"""`default_schedule`: a decent kernel for any input, by rule and without a search."""

from __future__ import annotations

from types import MappingProxyType

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import Sizes
from dojoir.passes.schedule.forms.plain import settle
from dojoir.passes.schedule.plan.planner import plan


def default_schedule(trace: Trace, machine: Machine | str = "host", *, sizes: Sizes = MappingProxyType({})) -> None:
    """Makes a decent kernel of any input, by structures that are recognised by facts, each where it is legal.

    Sums that are written out become accumulations first; dead temporaries and conditions that always hold go away.
    For a CPU structures then come by their roles (`cpu/structures.py`), each on the kernel that those before it
    made:

    - *skew*: what a window adds at shifted places is summed up at each place, a nest with a condition on a rest
      becomes one for each residue, and where something is clamped along a row, or a condition is on its ends, these
      are cut off. Then sweeps over rows that are made again
      and again, as of a stencil over time, go through the rows together, unless a core's caches hold the
      arrays, or rows are independent and there are several cores. Rows whose elements wait for the one before
      and for the row before come into flight together.
    - *turn*: scopes of one iteration go away, and each nest gets scalars of its own. Then the two scopes of a
      recurrence along a row are exchanged.
    - *cut*: triangles become blocks of rows. Before that the same work gets one form, however it is written.
      Tiles by hand and temporaries that are read once go away. Conditions of windows go inside of all scopes,
      and those of triangles become bounds. Sums go inside of what they sum up for, along rows, and are
      counted from 0. Each product gets a nest of its own, with the rows of its result outside, and what it
      divides by for each of its terms is computed before; other adjacent scopes are fused. A function that
      two loops of a row ask is kept in a row.
    - *tile*: products of matrices, convolutions and windows get a register tile, with the shared panel or the
      filters packed. Sums that are known to be long, for one core, go in blocks that a cache holds; products that
      are known to have one column go through their rows as they lie in memory.
    - *abreast*: rows that lie where data say are summed in registers. Rows go side by side whose sums share a
      factor, or whose elements wait for those before them, unless they are known to be few. What is computed once
      for a block of a row is computed for all blocks side by side.
    - *collapse*, *registers*: dimensions of temporaries whose elements are not needed at the same time are
      collapsed, and small temporaries are in registers.
    - *parts*: sums into one element get parts, and running values, where there are cores to share them, blocks.
    - *interchange*: the innermost scope steps through memory by one element; what reads along one dimension and
      writes along another goes through a small square.
    - *lanes*: scopes that step by one element run in lanes, or those around the innermost ones if these do not, or
      only add up.
    - *hints*: outputs that are larger than the last cache are streamed (where sizes are not known the kernel
      asks for them when it runs), and the next row is fetched in a pass that takes long for each element.
    - *cores*: the outermost scope that allows it, and runs often enough, is shared out over the cores.

    Where all sizes are known, one of these structures is left out, or all are, if the model of the machine says
    that the kernel is clearly faster so (`plan/planner.py`).

    For a GPU each nest of independent scopes becomes a grid, by the structure that the model of the machine says is
    fastest (`plan/planner.py`).

    `machine` is one, or a name: this one (`host`), a processor's (`znver3`), a typical one of an instruction set
    (`avx2`), or a GPU (`cuda`, `hip`). It gives the bytes of a vector, the registers, the first cache and the
    number of cores. `sizes` are those that the kernel will mostly run at, as far as they are known. Others are
    large. The moves are the same for the same text, machine and sizes. They never fail on a well-formed kernel.
    Raises ArgumentError for an unknown name.

    >>> import dojoir
    >>> trace = dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.kernels.load("softmax"))
    >>> print(trace.kernel)
    kernel softmax(N, M)
    in  x: f32[N, M]
    out y: f32[N, M] stream 16777216
    tmp m: f32[N~] reg
    tmp e: f32[N~, M]
    tmp s: f32[N~] reg
    <BLANKLINE>
    N : p @i
    | m[{i}] = -inf
    | M : v @j
    | | m[{i}] max= x[{i}, {j}]
    | s[{i}] = 0
    | M : v, prefetch(x, 4096) @k
    | | e[{i}, {k}] = exp(x[{i}, {k}] - m[{i}])
    | | s[{i}] += e[{i}, {k}]
    | M : v @l
    | | y[{i}, {l}] = e[{i}, {l}] / s[{i}]
    <BLANKLINE>
    """
    machine = machine if isinstance(machine, Machine) else machine_named(machine)
    settle(trace)
    plan(trace, machine, sizes)
