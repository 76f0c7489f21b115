"""Kernels and moves as vectors, for what learns.

`hash` needs nothing but NumPy and is the same on every machine: words of the text and paths in its tree are hashed
to signed places. `lm:PATH` is a language model, by the mean of its last hidden states.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

import dojoir
from dojoir.ir.text import canonical_text
from dojoir.search.needs import needed
from dojoir.support.public import Count, public

SIZE = 512
"""How long the vector of `hash` is."""

MOVE_SIZE = 64
"""How long the vector of a move is."""

LONGEST_RUN = 3
"""Up to how many words in a row count as one feature."""

Vector = np.ndarray[tuple[int], np.dtype[np.float32]]
Rows = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class Encoder(Protocol):
    """A kernel as a vector of `size` numbers between -1 and 1."""

    @property
    def size(self) -> int: ...

    def encode(self, kernel: dojoir.Kernel) -> Vector: ...


@lru_cache(maxsize=1 << 16)
def place_of(feature: str, size: int) -> tuple[int, int]:
    """Where a feature counts, and with which sign: by BLAKE2, which is the same everywhere."""
    number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "little")
    return (number >> 1) % size, 1 if number & 1 else -1


def hashed(features: Iterable[str], size: int) -> Vector:
    """Features counted at their places, as a vector of length 1. Sums are of whole numbers, so that the order of
    the features and the machine do not matter."""
    counts = np.zeros(size, np.int64)
    for feature in features:
        place, sign = place_of(feature, size)
        counts[place] += sign
    norm = math.sqrt(int((counts * counts).sum()))
    return (counts / max(norm, 1.0)).astype(np.float32)


def words(text: str) -> list[str]:
    """The words of a text by the lexer of kernels, without white space and comments."""
    from dojoir.highlight import DojoLexer

    return [value for kind, value in DojoLexer().get_tokens(text) if value.strip() and "Comment" not in str(kind)]


def runs_of(found: list[str]) -> Iterator[str]:
    """Every run of up to LONGEST_RUN words."""
    for length in range(1, LONGEST_RUN + 1):
        for i in range(len(found) - length + 1):
            yield " ".join(found[i : i + length])


def tree_paths(text: str) -> Iterator[str]:
    """For each line of the tree the way to it from the root, and its depth."""
    way: list[str] = []
    for line in text.partition("\n\n")[2].splitlines():
        body = line.lstrip("| ")
        depth = line[: len(line) - len(body)].count("|")
        del way[depth:]
        way.append(body)
        yield f"depth {depth} {body}"
        yield "path " + " > ".join(way[-2:])
        yield f"path {depth} " + " > ".join(word.split(" ")[0] for word in way)


class HashEncoder:
    """Runs of words and paths of the tree, hashed with signs to `size` places. Equal texts have equal vectors, on
    every machine and in every process."""

    @public
    def __init__(self, size: Count = SIZE) -> None:
        self._size = size
        self._kept: dict[str, Vector] = {}

    @property
    def size(self) -> int:
        return self._size

    def encode(self, kernel: dojoir.Kernel) -> Vector:
        """The vector of a kernel, of length 1. Labels and names of iterators do not count."""
        found = self._kept.get(kernel.hash)
        if found is None:
            text = canonical_text(kernel)
            found = hashed([*runs_of(words(text)), *tree_paths(text)], self._size)
            found.flags.writeable = False
            if len(self._kept) >= 10_000:
                self._kept.clear()
            self._kept[kernel.hash] = found
        return found


class ModelEncoder:
    """A language model from a folder or hub: the mean of its last hidden states over the words of the text, brought
    to length 1. Weights are read from safetensors only; a model with pickled weights alone is refused."""

    def __init__(self, path: str, longest: int = 1024) -> None:
        transformers = needed("transformers", "learn", "an encoder by a language model")
        self._torch = needed("torch", "learn", "an encoder by a language model")
        needed("safetensors", "learn", "an encoder by a language model")
        try:
            self._tokens = transformers.AutoTokenizer.from_pretrained(path, trust_remote_code=False)
            self._model = transformers.AutoModel.from_pretrained(
                path, use_safetensors=True, trust_remote_code=False
            )
        except (OSError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            raise dojoir.ArgumentError(
                f"no model with weights as safetensors could be read from {path}: {reason}", "bad-model"
            ) from None
        self._model.eval()
        self._longest = min(longest, int(getattr(self._model.config, "max_position_embeddings", longest)))

    @property
    def size(self) -> int:
        return int(self._model.config.hidden_size)

    def encode(self, kernel: dojoir.Kernel) -> Vector:
        """The vector of a kernel, of length 1; what is beyond the longest text of the model does not count."""
        text = canonical_text(kernel)
        given: Any = self._tokens(text, return_tensors="pt", truncation=True, max_length=self._longest)
        with self._torch.no_grad():
            states = self._model(
                input_ids=given["input_ids"], attention_mask=given["attention_mask"]
            ).last_hidden_state[0]
        mask = given["attention_mask"][0].to(states.dtype)[:, None]
        mean = ((states * mask).sum(0) / mask.sum().clamp(min=1)).double().numpy()
        vector: Vector = (mean / max(float(np.sqrt((mean * mean).sum())), 1e-12)).astype(np.float32)
        return vector


def encoder(name: str = "hash") -> Encoder:
    """The encoder of a name: `hash`, or `lm:PATH`. Raises ArgumentError, `bad-model`, where the model cannot be
    read or is none, ToolchainError where a package is missing."""
    if name == "hash":
        return HashEncoder()
    kind, colon, path = str(name).partition(":")
    if kind == "lm" and colon and path:
        return ModelEncoder(path)
    raise dojoir.ArgumentError(f"there is no encoder '{name}': it is hash, or lm:PATH", "bad-model")


def move_row(kernel: dojoir.Kernel, move: dojoir.Move) -> Vector:
    """A move as MOVE_SIZE numbers: its name, its text, its arguments, the lines that it touches, and what is
    around the first of them, hashed. The last eight are how many places it names, how deep and how high the first
    is. Then how many statements and marked scopes are in it and how many marked ones around it, and the logarithms
    of the largest and smallest number."""
    found = [f"move {move.name}", f"move {move.name}", str(move)]  # the name counts twice
    numbers: list[int] = []
    for value in move.arguments():
        for one in value if isinstance(value, tuple) else (value,):
            if isinstance(one, int):
                numbers.append(one)
                found.append(f"{move.name} {one}")
    paths: list[tuple[int, ...]] = []
    for place in move.places():
        try:
            paths.append(kernel.path(place))
        except dojoir.DojoError:
            continue
    for path in paths:
        line = lines_of(kernel)[path]
        found += [f"at {line}", f"{move.name} at {line.split(' ')[0]}", f"depth {len(path)}"]
    found += [f"{move.name} {word}" for word in map(str, move.arguments()) if word in kernel.declared]
    shape = shape_at(kernel, paths[0]) if paths else (0, 0, 0, 0, 0)
    found += [f"{move.name} shape {number} {min(value, 3)}" for number, value in enumerate(shape)]
    row = np.zeros(MOVE_SIZE, np.float32)
    row[:-8] = hashed(found, MOVE_SIZE - 8)
    row[-8] = min(len(move.places()), 4) / 4
    row[-7:-2] = [value / 8 for value in shape]
    row[-2:] = [math.log2(1 + max(0, bound)) / 16 for bound in (max(numbers, default=0), min(numbers, default=0))]
    return np.clip(row, -1, 1)


@lru_cache(maxsize=1 << 10)
def pass_row(text: str, family: str) -> Vector:
    """A pass with its parameters as MOVE_SIZE numbers, as `move_row` has them: its family, its text, and the
    logarithms of its largest and smallest number."""
    found = [f"pass {family}", f"pass {family}", text]
    numbers = [int(word) for word in re.findall(r"\d+", text)]
    row = np.zeros(MOVE_SIZE, np.float32)
    row[:-8] = hashed([*found, *(f"{family} {number}" for number in numbers)], MOVE_SIZE - 8)
    row[-2:] = [math.log2(1 + bound) / 16 for bound in (max(numbers, default=0), min(numbers, default=0))]
    return np.clip(row, -1, 1)


@lru_cache(maxsize=1 << 14)
def shape_at(kernel: dojoir.Kernel, path: tuple[int, ...]) -> tuple[int, int, int, int, int]:
    """How deep a node is and how high, how many statements it has and how many marked scopes, and how many marked
    ones are around it."""
    lines = lines_of(kernel)
    inside = {way: line for way, line in lines.items() if way[: len(path)] == path}
    around = [lines[path[:end]] for end in range(1, len(path))]
    return (
        len(path),
        max(map(len, inside)) - len(path),
        sum("=" in line for line in inside.values()),
        sum(" : " in line for line in inside.values()),
        sum(" : " in line for line in around),
    )


@lru_cache(maxsize=1 << 8)
def lines_of(kernel: dojoir.Kernel) -> dict[tuple[int, ...], str]:
    """The line of each node, as the canonical text has it."""
    found: dict[tuple[int, ...], str] = {}
    way: list[int] = []
    for line in canonical_text(kernel).partition("\n\n")[2].splitlines():
        body = line.lstrip("| ")
        depth = line[: len(line) - len(body)].count("|")
        way[depth:] = [way[depth] + 1 if len(way) > depth else 0]
        found[tuple(way)] = body
    return found
