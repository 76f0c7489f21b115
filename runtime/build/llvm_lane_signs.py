"""Signs of lanes that LLVM takes from the wrong register, found in what it makes and compiled in another way.

On processors with AVX-512, LLVM 22 turns the signs of a vector's lanes into a mask (`vpmovd2m`) and the mask into
an integer (`kmov`), and its last pass (x86-compress-evex) makes one AVX instruction of the two (`vmovmskps`). Two
things it forgets. That instruction has no registers above the 15th: of `xmm17` the processor reads `xmm1`,
whatever is there (https://github.com/llvm/llvm-project/issues/191304). And where the next instruction both reads
and writes the mask, such as a shift, the mask is gone (https://github.com/llvm/llvm-project/issues/198197).

No option turns the pass off. So machine code with such an instruction in it is looked at as text, and where it is
wrong the module is compiled again without the instructions that write such masks. These are those of AVX512DQ for
32 and 64 bits and those of AVX512BW for bytes.
"""

from __future__ import annotations

import re

LACKING = ("", "-avx512dq", "-avx512dq,-avx512bw")
"""The features to leave out, one after the other, until the code is right. The last always is."""

_BYTES = re.compile(rb"(?:\xc5|\xc4.)[\x78\x79\x7c\x7d\xf8\xf9\xfc\xfd](?:\x50|\xd7)[\xc0-\xff]", re.DOTALL)
"""VEX, the code of vmovmskps and -pd or of vpmovmskb, two registers. Other bytes can look like it: then a text is
looked at in vain."""
_TAKEN = re.compile(r"^\s+v(?:movmskp[sd]|pmovmskb)\s+%[xy]mm(\d+),")
_LABEL = re.compile(r"^[^\s#][^#]*:")
_MASK = re.compile(r"%(k[0-7])\b")


def takes_signs(triple: str, code: bytes) -> bool:
    """Whether an object file can hold such an instruction, so that its text is to be looked at."""
    return triple.startswith(("x86_64", "i686")) and _BYTES.search(code) is not None


def is_wrong(assembly: str) -> bool:
    """Whether such an instruction of an assembly text (AT&T) has a register that it has not, or may have taken the
    place of a mask that is used after it."""
    lines = assembly.splitlines()
    for at, line in enumerate(lines):
        taken = _TAKEN.match(line)
        if taken and (int(taken[1]) > 15 or _mask_is_gone(lines, at + 1)):
            return True
    return False


def _mask_is_gone(lines: list[str], start: int) -> bool:
    """Whether the first instruction of the rest of a block that has a mask register reads it and writes it."""
    seen: set[str] = set()
    for line in lines[start:]:
        if _LABEL.match(line):
            break
        masks = _MASK.findall(line)
        if any(masks.count(mask) > 1 for mask in set(masks) - seen):
            return True
        seen.update(masks)
    return False


def without(features: str, lacking: str) -> str:
    """A list of features, less some."""
    return ",".join(part for part in (features, lacking) if part)
