"""Damaged texts."""

from __future__ import annotations

from random import Random

PIECES = (
    "|", "| ", "\n", "\t", "\r\n", "\x00", "\ufeff", "\u2028", "é", "{", "}", "{0}", "{9}", "[", "]", "(",
    ")", "@i", "@", "~", ":", ",", "=", "+=", "max=", "^=", "|=", "==", "<", "//", "%", "-", "*", "/",
    "and", "or", "not", "if", "in", "tmp", "kernel", "where", "fp", "inf", "nan", "min(", "exp(", "f16(", "N", "x",
    "0", "1e5", "1.", ".5", "9" * 30, "1e999", "#", " ", "order(1, 0)", "pad", "align 64",
)  # fmt: skip


def damage(text: str, random: Random) -> str:
    """A text with one to four damages."""
    for _ in range(random.choice((1, 1, 2, 4))):
        a, b = sorted((random.randrange(len(text) + 1), random.randrange(len(text) + 1)))
        near = min(a + random.randrange(8), len(text))
        match random.randrange(7):
            case 0:
                text = text[:a] + random.choice(PIECES) + text[a:]
            case 1:
                text = text[:a] + text[near:]
            case 2:
                text = text[:a] + text[a:near] + text[a:]
            case 3:
                text = text[:a] + chr(random.randrange(random.choice((128, 0x3000)))) + text[a + 1 :]
            case 4:
                lines = text.split("\n")
                i, j = random.randrange(len(lines)), random.randrange(len(lines))
                lines[i], lines[j] = lines[j], lines[i]
                text = "\n".join(lines)
            case 5:
                text = text[:b]
            case _:
                text = text[:a] + random.choice(PIECES) + text[near:]
    return text
