"""Every number of bf16 through each conversion to a narrow type, on a target: `python every_bf16.py cuda`.

All 65,536 codes, NaN and infinities with them, go through the text's conversions; what the target gives is compared
with the interpreter, code by code, and NaN with NaN.
"""

from __future__ import annotations

import sys

import numpy as np

import dojoir
from dojoir.meaning.bits import to_floats

TYPES = ("f4e2m1", "f8e4m3", "f8e5m2", "f8e8m0", "f16", "i8", "u8")
WAYS = ("sat({0}, v)", "{0}(v)", "round_away({0}, v)", "round_to_zero({0}, v)")


def texts() -> dict[str, str]:
    """A kernel for each conversion that the language has, by what it does."""
    found = {}
    for kind in TYPES:
        for way in WAYS:
            value = way.format(kind).replace("v)", "f32(x[{0}]))")
            text = f"kernel every(N = 65536)\nin x: bf16[N]\nout y: {kind}[N]\n\nN\n| y[{{0}}] = {value}\n"
            try:
                dojoir.prove(dojoir.parse(text))
            except dojoir.DojoError:
                continue
            found[way.format(kind)] = text
    return found


def differing(text: str, target: str) -> int:
    """How many codes the target gives otherwise than the interpreter."""
    kernel = dojoir.parse(text)
    given = {"x": np.arange(65536, dtype=np.uint16)}
    expected = np.asarray(dojoir.interpret(kernel, given)["y"])
    found = np.asarray(dojoir.compile(dojoir.optimize(kernel, target).kernel, target).run(given)["y"])
    dtype = kernel.buffer("y").dtype
    differ = expected != found
    if dtype.is_float:
        differ &= ~(np.isnan(to_floats(expected, dtype)) & np.isnan(to_floats(found, dtype)))
    return int(np.count_nonzero(differ))


def main() -> int:
    target, wrong = sys.argv[1] if len(sys.argv) > 1 else "llvm", 0
    for name, text in texts().items():
        count = differing(text, target)
        wrong += count > 0
        print(f"{name}: {count} of 65536 differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
