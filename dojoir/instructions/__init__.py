"""The library of instructions: one `.dojo` file each, the text of what it does and how targets spell it.

A file of the same form in a directory that the environment variable DOJOIR_INSTRUCTIONS lists is found as well.
"""

from __future__ import annotations

import os

from dojoir.errors import ArgumentError, repr_of
from dojoir.grammar.instructions import find_instruction, instruction_names, load_instruction
from dojoir.ir.instruction import Instruction
from dojoir.proof.wellformed import prove
from dojoir.support.public import public


def names() -> list[str]:
    """The names of all instructions that are found here, in alphabetical order."""
    return instruction_names()


@public
def load(name: str | os.PathLike[str]) -> Instruction:
    """The instruction of that name, or in the file at a path that ends in `.dojo`, its body proved well-formed.

    Raises ArgumentError for an unknown one, ParseError or KernelError with the place of what is wrong in the text.
    """
    path = os.fspath(name)
    if len(path) > 255 and not path.endswith(".dojo"):
        raise ArgumentError(f"there is no instruction {repr_of(path)}", "unknown-instruction")
    instruction = load_instruction(path) if path.endswith(".dojo") else find_instruction(path)
    prove(instruction.body)
    return instruction


__all__ = ["Instruction", "load", "names"]
