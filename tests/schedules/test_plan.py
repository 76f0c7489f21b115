"""`dojoir.plan`: the options of `optimize`, what each costs and why others do not fit."""

import json
import re
from importlib.resources import files
from typing import Any

import jsonschema
import pytest

import dojoir
from dojoir.cli import main

SIZES = {"N": 256, "M": 256, "K": 64}


@pytest.mark.parametrize(
    ("name", "target"), [("matmul", "cuda"), ("relu", "hip"), ("softmax", "llvm"), ("transpose", "c")]
)
def test_the_best_option_is_what_optimize_returns(name: str, target: str) -> None:
    kernel = dojoir.kernels.load(name)
    known = {size: SIZES.get(size, 64) for size in kernel.runtime_sizes}
    made = dojoir.plan(kernel, target, sizes=known)
    assert made.best.trace.kernel == dojoir.optimize(kernel, target, sizes=known).kernel
    assert made.best in made.options and made.options[-1].trace.kernel == kernel


def test_a_gpu_has_options_with_costs_and_structures_with_reasons() -> None:
    made = dojoir.plan(dojoir.kernels.load("matmul").specialize(**SIZES), "cuda")
    planned = [one for one in made.options if one.seconds is not None]
    assert planned and made.floor is not None and all(one.seconds >= made.floor for one in planned)
    refused = [one for one in made.tried if one.seconds is None]
    assert {"large_tiles", "rules"} <= {one.structure for one in made.tried}
    assert refused and all(one.refusal for one in refused)
    text = str(made)
    assert "* " in text and all(one.structure in text for one in made.tried)


def test_an_option_whose_code_is_refused_says_why() -> None:
    text = """kernel t(N)
in x: f32[N, 99840]
out y: f32[N, 99840]
tmp s: f32[N~, 99840] shared
N : gx
| 256 : bx
| | 390
| | | s[{0}, 390*{1} + {2}] = x[{0}, 390*{1} + {2}]
| | | y[{0}, 390*{1} + {2}] = s[{0}, 390*{1} + {2}] * 2
"""
    made = dojoir.plan(dojoir.parse(text), "cuda")
    assert all("shared" in one.refusal for one in made.options)
    assert made.best is made.options[-1]


def test_the_driver_prints_a_plan_and_its_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["library:relu", "--plan", "--target", "cuda", "-s", "N=4096"]) == 0
    assert "structure" in capsys.readouterr().out
    assert main(["library:relu", "--plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    schema = json.loads(files("dojoir.cli").joinpath("answers.schema.json").read_text())
    jsonschema.validate(found, schema)
    assert found["plan"]["moves"] == [
        str(move) for move in dojoir.plan(dojoir.kernels.load("relu")).best.trace.moves
    ]


@pytest.mark.parametrize("call", [dojoir.optimize, dojoir.plan, dojoir.schedules.choose])
@pytest.mark.parametrize(
    ("sizes", "code", "says"),
    [
        ({"Q": 3}, "unknown-size", "no runtime size 'Q'; its runtime sizes: N, M"),
        ({"N": 0}, "bad-size", "size N must be an integer of at least 1, not 0"),
        ({"N": -4}, "bad-size", "not -4"),
        ({"N": 1 << 63}, "bad-size", "size N"),
        ({"N": 1.5}, "bad-arguments", "a dict of texts to integers"),
        ({"N": True}, "bad-arguments", "a dict of texts to integers"),
    ],
)
def test_sizes_that_a_kernel_does_not_have_are_told(call: Any, sizes: dict[str, Any], code: str, says: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=re.escape(says)) as error:
        call(dojoir.kernels.load("softmax"), sizes=sizes)
    assert error.value.diagnostic.code == code
