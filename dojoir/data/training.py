"""Supervised tuning of a language model on chats, by TRL: the settings of a run as a file, what is wrong with them
before anything is learned, and the run itself."""

from __future__ import annotations

import importlib.util
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

import dojoir
from dojoir.cli.output import writing
from dojoir.data.dataset_lines import TrainingChat
from dojoir.evidence.bundle_reading import read_text
from dojoir.game.language import tiny_model, tokenizer_of
from dojoir.records.plain_data import from_text, from_toml
from dojoir.search.needs import needed
from dojoir.support.files import write_file
from dojoir.support.public import Count, Natural, Within, public

WHAT, EXTRA = "tuning on chats", "train"

TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message.content }}<end>{% endfor %}"
"""How a chat is one text for a model that is made here."""

SMOKE_STEPS, SMOKE_LENGTH = 20, 2048


@dataclass(frozen=True)
class Training:
    """The settings of supervised tuning. `chats` is what `dojoir dataset sft` wrote, `model` the folder of a model
    of transformers with safetensors, `output` the folder of the tuned one; paths are from where the command runs.
    Then steps of the optimiser, chats of a step, the learning rate, the most tokens of a chat, and a seed."""

    chats: str
    model: str
    output: str
    steps: Count = 200
    batch: Count = 4
    rate: Annotated[float, Within(above=True, most=1.0)] = 2e-5
    length: Count = 2048
    seed: Natural = 0


@dataclass(frozen=True)
class CheckedChats:
    """The chats of a training: how many, of how many kernels, and the tokens of the longest one. Then
    how many are too long and left out, since their answer would be cut off."""

    chats: int
    kernels: int
    longest: int
    left_out: int


@dataclass(frozen=True)
class Trained:
    """A training that has ended: the loss of each step, and the folder; empty where nothing was kept."""

    losses: tuple[float, ...]
    output: str

    @property
    def has_learned(self) -> bool:
        """Whether the mean loss of the last quarter is below that of the first."""
        part = max(1, len(self.losses) // 4)
        return sum(self.losses[-part:]) < sum(self.losses[:part])


@public
def read_training(path: str | Path) -> Training:
    """The settings in a file of TOML. Raises ArgumentError, `bad-record` with the field, `cannot-read`."""
    return from_toml(Training, read_text(Path(path)), str(path))


def chats_of(settings: Training) -> list[TrainingChat]:
    """The chats to learn from. Raises ArgumentError, `bad-record` with the line, `empty-dataset`, and `not-train`
    for a chat of a split that nothing may be trained on."""
    lines = read_text(Path(settings.chats)).splitlines()
    found = [from_text(TrainingChat, line, f"{settings.chats}:{number}") for number, line in enumerate(lines, 1)]
    if not found:
        raise dojoir.ArgumentError(f"{settings.chats} has no chats", "empty-dataset")
    for number, chat in enumerate(found, 1):
        if chat.split != "train":
            raise dojoir.ArgumentError(
                f"{settings.chats}:{number} is of the split {chat.split}, which no model is trained on: write the "
                f"chats of the split train alone", "not-train",
            )  # fmt: skip
        if len(chat.messages) < 2 or chat.messages[-1].role != "assistant":
            raise dojoir.ArgumentError(f"{settings.chats}:{number}: no answer ends the chat", "bad-record")
    return found


@public
def check_training(settings: Training) -> CheckedChats:
    """Holds settings to what they name, and learns nothing: chats, model, tokenizer, packages, the folder of the
    result. Raises ArgumentError as `chats_of`, `bad-model`, `cannot-write`; ToolchainError, `missing-package`."""
    chats = chats_of(settings)
    for package in ("torch", "transformers", "datasets", "trl"):
        if importlib.util.find_spec(package) is None:
            needed(package, EXTRA, WHAT)
    words = _tokenizer(settings.model)
    lengths = [_length(chat, words) for chat in chats]
    folder = Path(settings.output).resolve().parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise dojoir.ArgumentError(
            f"cannot write {settings.output}: {folder} is no folder to write in", "cannot-write"
        )
    if Path(settings.output).is_file():
        raise dojoir.ArgumentError(f"cannot write {settings.output}: it is a file, not a folder", "cannot-write")
    kernels = len({chat.kernel for chat in chats})
    left_out = sum(length > settings.length for length in lengths)
    if left_out == len(chats):
        raise dojoir.ArgumentError(f"all chats have more than length = {settings.length} tokens", "empty-dataset")
    return CheckedChats(len(chats), kernels, max(lengths), left_out)


@public
def train(settings: Training, progress: Callable[[int, float], object] = lambda *_: None) -> Trained:
    """Tunes the model on the answers of the chats, and writes it with its tokenizer to `settings.output`. Raises as
    `check_training` does."""
    chats = chats_of(settings)
    model_class = needed("transformers", EXTRA, WHAT).AutoModelForCausalLM
    words = _tokenizer(settings.model)
    try:
        model = model_class.from_pretrained(settings.model, local_files_only=True, use_safetensors=True)
    except Exception as error:
        raise _bad_model(settings.model, error) from None
    return _learned(settings, chats, model, words, settings.output, progress)


@public
def smoke(settings: Training, progress: Callable[[int, float], object] = lambda *_: None) -> Trained:
    """The same way for SMOKE_STEPS steps of a tiny model that is made here; keeps nothing. Raises as `train` does,
    but for the model."""
    chats = chats_of(settings)
    words = tokenizer_of([message.content for chat in chats for message in chat.messages], EXTRA, WHAT)
    words.chat_template = TEMPLATE
    model = tiny_model(len(words), 32, Random(settings.seed).randrange(1 << 31), positions=SMOKE_LENGTH)
    small = Training(settings.chats, "", "", SMOKE_STEPS, settings.batch, 5e-3, SMOKE_LENGTH, settings.seed)
    return _learned(small, chats, model, words, "", progress)


def _learned(
    settings: Training,
    chats: list[TrainingChat],
    model: Any,
    words: Any,
    output: str,
    progress: Callable[[int, float], object],
) -> Trained:
    trl, datasets = needed("trl", EXTRA, WHAT), needed("datasets", EXTRA, WHAT)
    transformers: Any = needed("transformers", EXTRA, WHAT)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    losses: list[float] = []

    def noted(_: object, __: object, state: Any, ___: object, logs: Mapping[str, Any], **____: object) -> None:
        if "loss" in logs:
            losses.append(float(logs["loss"]))
            progress(int(state.global_step), losses[-1])

    tells = type("Tells", (transformers.TrainerCallback,), {"on_log": noted})
    rows = [
        {"prompt": _messages(chat)[:-1], "completion": _messages(chat)[-1:]}
        for chat in chats if _length(chat, words) <= settings.length
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # libraries warn of each other
        given = trl.SFTConfig(
            output_dir=folder, max_steps=settings.steps, per_device_train_batch_size=settings.batch,
            learning_rate=settings.rate, max_length=settings.length, seed=settings.seed, logging_steps=1,
            save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=not _has_gpu(), bf16=_has_gpu(),
        )  # fmt: skip
        file = Path(folder) / "rows.jsonl"
        write_file(file, "".join(f"{json.dumps(row)}\n" for row in rows))
        datasets.disable_progress_bars()
        data = datasets.Dataset.from_json(str(file), cache_dir=folder)
        trainer = trl.SFTTrainer(
            model=model, args=given, train_dataset=data, processing_class=words, callbacks=[tells()]
        )
        trainer.remove_callback(transformers.PrinterCallback)  # writes to stdout, where the answer is
        trainer.train()
    if output:
        with writing(output):
            os.makedirs(output, exist_ok=True)
            trainer.model.save_pretrained(output)
            words.save_pretrained(output)
    return Trained(tuple(losses), output)


def _length(chat: TrainingChat, words: Any) -> int:
    """The tokens of a chat."""
    return len(words.apply_chat_template(_messages(chat), tokenize=True)["input_ids"])


def _messages(chat: TrainingChat) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.content} for one in chat.messages]


def _tokenizer(path: str) -> Any:
    """The tokenizer of a model, which has a template for chats. Raises ArgumentError, `bad-model`."""
    if not Path(path).is_dir():
        raise dojoir.ArgumentError(f"there is no folder {path!r} with a model of transformers", "bad-model")
    try:
        words = needed("transformers", EXTRA, WHAT).AutoTokenizer.from_pretrained(path, local_files_only=True)
    except dojoir.ToolchainError:
        raise
    except Exception as error:
        raise _bad_model(path, error) from None
    if not list(Path(path).glob("*.safetensors")):
        raise dojoir.ArgumentError(f"the model in {path} has no weights as safetensors", "bad-model")
    if not words.chat_template:
        raise dojoir.ArgumentError(
            f"the tokenizer in {path} has no template for chats: take a model that was made for them", "bad-model"
        )
    return words


def _bad_model(path: str, error: Exception) -> dojoir.ArgumentError:
    return dojoir.ArgumentError(
        f"{path} is no model that can be tuned: {' '.join(str(error).split())[:300]}", "bad-model"
    )


def _has_gpu() -> bool:
    return bool(needed("torch", EXTRA, WHAT).cuda.is_available())
