"""A kernel to its text and back."""

from __future__ import annotations

from dojoir import parse, to_text
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel

N, M = Affine.size("N"), Affine.size("M")
ROW, COLUMN = Affine.iterator(0), Affine.iterator(1)


def assert_round_trip(kernel: Kernel) -> None:
    for names in (False, True):
        text = to_text(kernel, names)
        again = parse(text)
        assert again == kernel, text
        assert again.hash == kernel.hash, text
        assert to_text(again, names) == text
