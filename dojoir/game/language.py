"""A small language model of kernels, trained on walks over the library: an encoder that knows the language."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import dojoir
from dojoir.cli.output import writing
from dojoir.ir.text import canonical_text
from dojoir.search.needs import needed

WORDS = 2000
"""The most words of its vocabulary."""

LENGTH = 256
"""How many words of a text are learned at a time."""

WHAT = "learning an encoder"


def walks(names: Sequence[str], count: int, rng: Random, length: int = 6) -> list[str]:
    """The canonical texts of kernels on random walks of legal moves, about `count` of them."""
    found: list[str] = []
    while len(found) < count:
        trace = dojoir.Trace(dojoir.kernels.load(rng.choice(list(names))))
        found.append(canonical_text(trace.kernel))
        for _ in range(length):
            drawn = dojoir.search.draw(trace.kernel, rng, 1, "llvm")
            if not drawn:
                break
            trace.apply(drawn[0])
            found.append(canonical_text(trace.kernel))
    return found[:count]


def train_encoder(
    path: str,
    *,
    kernels: Sequence[str] = (),
    steps: int = 300,
    width: int = 128,
    seed: int = 0,
    texts: int = 500,
    progress: Callable[[int, float], object] | None = None,
) -> list[float]:
    """Trains a causal model on texts and writes it with its tokenizer into a folder, weights as safetensors, so
    that `lm:PATH` reads it; gives the loss of each step. Raises ToolchainError where a package is missing,
    ArgumentError where the folder cannot be written or there is no such kernel."""
    needed("safetensors", "learn", WHAT)
    rng = Random(seed)
    given = walks(kernels or dojoir.kernels.names(), texts, rng)
    words = tokenizer_of(given)
    model = tiny_model(len(words), width, seed)
    torch: Any = needed("torch", "learn", WHAT)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        losses = _trained(torch, model, [words(text)["input_ids"] + [1] for text in given], steps, rng, progress)
    with writing(path):
        os.makedirs(path, exist_ok=True)
        model.save_pretrained(path)
        words.save_pretrained(path)
    return losses


def tokenizer_of(texts: Sequence[str], extra: str = "learn", what: str = WHAT) -> Any:
    """A tokenizer of up to WORDS parts of words, learned from some texts (byte pair encoding). Raises
    ToolchainError where a package of an extra is missing."""
    transformers, tokenizers = needed("transformers", extra, what), needed("tokenizers", extra, what)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    special = ["<unk>", "<end>"]
    tokenizer.train_from_iterator(
        texts, tokenizers.trainers.BpeTrainer(vocab_size=WORDS, special_tokens=special, show_progress=False)
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<end>", pad_token="<end>"
    )


def tiny_model(words: int, width: int, seed: int, positions: int = 1024) -> Any:
    """An untrained causal model of two layers, the same for the same seed. Raises ToolchainError where a package is
    missing."""
    torch, transformers = needed("torch", "learn", WHAT), needed("transformers", "learn", WHAT)
    config = transformers.GPT2Config(
        vocab_size=words, n_positions=positions, n_embd=width, n_layer=2, n_head=max(1, width // 32),
        bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return transformers.GPT2LMHeadModel(config)


def _trained(
    torch: Any,
    model: Any,
    texts: list[list[int]],
    steps: int,
    rng: Random,
    progress: Callable[[int, float], object] | None,
) -> list[float]:
    """Adam on batches of pieces of the texts."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses: list[float] = []
    for step in range(steps):
        pieces = []
        for _ in range(8):
            text = rng.choice(texts)
            begin = rng.randrange(max(1, len(text) - LENGTH))
            pieces.append(text[begin : begin + LENGTH])
        longest = max(map(len, pieces))
        ids = torch.tensor([piece + [1] * (longest - len(piece)) for piece in pieces])
        lengths = torch.tensor([len(piece) for piece in pieces])
        is_text = torch.arange(longest)[None] < lengths[:, None]
        found = model(input_ids=ids, attention_mask=is_text.long(), labels=ids.masked_fill(~is_text, -100))
        optimizer.zero_grad()
        found.loss.backward()
        optimizer.step()
        losses.append(float(found.loss.detach()))
        if progress is not None:
            progress(step + 1, losses[-1])
    return losses
