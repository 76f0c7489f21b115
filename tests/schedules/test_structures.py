"""Structures of the caller: tried on each nest, taken where they fit, refused with a reason elsewhere."""

from pathlib import Path

import pytest

import dojoir
from dojoir.cli import main
from dojoir.passes import load_passes, named_pass

FILE = '''
import dojoir

@dojoir.passes.named_pass
def halves(trace: dojoir.Trace, nest: str, machine: dojoir.Machine) -> None:
    """Cuts a loop over N in two."""
    place = dojoir.one(trace.kernel, f"{nest} extent N").place
    trace.apply(f"cut({place}, N // 2)")
    trace.apply(f"label({place}, {machine.kind})")

@dojoir.passes.named_pass
def no_structure(trace: dojoir.Trace) -> None:
    """Takes no place."""
'''
KERNEL = """kernel two(N, M)
in  x: f32[N]
in  z: f32[M]
out y: f32[N]
out w: f32[M]

N
| y[{0}] = x[{0}] + 1
M
| w[{0}] = z[{0}] + 1
"""


@pytest.fixture
def own(tmp_path: Path) -> dict[str, dojoir.Pass]:
    (tmp_path / "own.py").write_text(FILE)
    return load_passes(tmp_path / "own.py")


def test_a_structure_is_taken_for_the_nest_that_it_fits(own: dict[str, dojoir.Pass]) -> None:
    kernel = dojoir.parse(KERNEL)
    made = dojoir.plan(kernel, structures=[own["halves"]])
    assert made.best.name == "halves, then default_schedule"
    assert [str(move) for move in made.best.trace.moves][:2] == ["cut(0, N // 2)", "label(0, cpu)"]
    own_ones = [one for one in made.tried if one.structure == "halves"]
    assert {one.nest: bool(one.refusal) for one in own_ones} == {"0": False, "1": True}
    assert dojoir.optimize(kernel, structures=[own["halves"]]).kernel == made.best.trace.kernel
    assert dojoir.certify(made.best.trace) and made.options[1].name == "default_schedule"
    assert dojoir.optimize(kernel).kernel != made.best.trace.kernel  # nothing is kept of it


def test_a_trace_is_optimized_with_structures_too(own: dict[str, dojoir.Pass]) -> None:
    trace = dojoir.Trace(dojoir.parse(KERNEL))
    trace.apply("label(1, m)")
    moves = dojoir.optimize(trace, structures=[own["halves"]]).moves
    assert [str(move) for move in moves][:2] == ["label(1, m)", "cut(0, N // 2)"]


def test_what_fits_nothing_leaves_the_options_as_they_are(own: dict[str, dojoir.Pass]) -> None:
    kernel = dojoir.parse("kernel k(M)\nin x: f32[M]\nout y: f32[M]\nM\n| y[{0}] = x[{0}]\n")
    made = dojoir.plan(kernel, structures=[own["halves"]])
    assert [one.name for one in made.options] == [one.name for one in dojoir.plan(kernel).options]
    assert "extent N" in made.tried[0].refusal


def test_the_planner_for_gpus_tries_them_by_its_model(own: dict[str, dojoir.Pass]) -> None:
    @named_pass
    def one_block(trace: dojoir.Trace, nest: str) -> None:
        """Each iteration is a block of one thread."""
        trace.apply(f"bind({nest}, gx)")

    kernel = dojoir.parse(KERNEL).specialize(N=1 << 16, M=1 << 16)
    made = dojoir.plan(kernel, "cuda", structures=[one_block, own["halves"]])
    tried = {one.structure: one for one in made.tried if one.nest == "0"}
    assert tried["one_block"].seconds > min(one.seconds for one in tried.values() if one.seconds is not None)
    assert tried["halves"].refusal and "rules" in tried
    assert made.best.trace.kernel == dojoir.optimize(kernel, "cuda").kernel  # the model takes another


def test_a_structure_that_the_model_says_is_fastest_is_taken() -> None:
    @named_pass
    def quads(trace: dojoir.Trace, nest: str) -> None:
        """As the rules do it, with blocks of another size."""
        dojoir.PASSES["structure"].given(nest, "rules")(trace)
        trace.apply(f"label({nest}, mine)")

    relu = dojoir.kernels.load("relu").specialize(N=1 << 24)
    made = dojoir.plan(relu, "cuda", structures=[quads])
    assert made.best.trace.kernel.at("0").label == "mine"


def test_what_takes_no_place_is_no_structure(own: dict[str, dojoir.Pass]) -> None:
    with pytest.raises(dojoir.ArgumentError, match="takes the place of a nest alone"):
        dojoir.plan(dojoir.parse(KERNEL), structures=[own["no_structure"]])
    with pytest.raises(dojoir.ArgumentError, match="structures"):
        dojoir.optimize(dojoir.parse(KERNEL), structures=["halves"])  # type: ignore[list-item]


def test_the_shell_takes_them_by_name(
    own: dict[str, dojoir.Pass], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.dojo").write_text(KERNEL)
    given = [str(tmp_path / "k.dojo"), "--load", str(tmp_path / "own.py"), "--structure"]
    assert main([*given, "halves", "--plan"]) == 0
    assert "* " in (out := capsys.readouterr().out) and "halves, then default_schedule" in out
    assert main([*given, "halves", "-O", "--why"]) == 0
    shown = capsys.readouterr()
    assert "N // 2" in shown.out and "halves, else default_schedule" in shown.err
    assert main([*given, "halve", "--plan"]) == 1
    assert "did you mean 'halves'?" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path / "k.dojo"), "--structure", "halves", "--plan"])
    assert ended.value.code == 2 and "--load" in capsys.readouterr().err
