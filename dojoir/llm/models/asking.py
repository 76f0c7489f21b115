"""Asking a model: within the budget, again where a server fails, and from the chat where it stands there."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import dojoir
from dojoir.llm.models.chat import Chat, Exchange
from dojoir.llm.models.exchange import Message, Model, ModelError, Question, Reply
from dojoir.search.budget import Ledger

FIRST_WAIT, LONGEST_WAIT = 0.5, 120.0
"""Seconds that are waited after the first failure, twice as long after each other one; and the most that a server
may ask to wait."""

LEAST_TOKENS = 256
"""With fewer tokens left than that for an answer nothing is asked."""


@dataclass(frozen=True)
class Prices:
    """The prices of a million tokens, read and written, in the money that the budget is in."""

    read: float
    written: float

    def of(self, tokens_in: int, tokens_out: int) -> float:
        """The price of an exchange."""
        return (tokens_in * self.read + tokens_out * self.written) / 1e6


class Asker:
    """Asks for a search. `model` makes the model when it is first needed: a chat that is replayed needs none.
    `attempts` is how often a question is asked at most, `timeout` the seconds of one attempt."""

    def __init__(
        self,
        model: Callable[[], Model],
        chat: Chat,
        ledger: Ledger,
        *,
        prices: Prices | None = None,
        attempts: int = 5,
        timeout: float = 120.0,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Raises ArgumentError, `bad-arguments`, for a budget of money without prices."""
        if ledger.budget.money is not None and prices is None:
            message = "a budget of money needs the prices of a million tokens: give prices (read, written)"
            raise dojoir.ArgumentError(message, "bad-arguments")
        self._make, self.chat, self.ledger, self.prices = model, chat, ledger, prices
        self.attempts, self.timeout, self.sleep = attempts, timeout, sleep

    @cached_property
    def model(self) -> Model:
        """The model. Raises DojoError where it cannot be made."""
        return self._make()

    def ask(self, question: Question, round: int, at: tuple[str, ...], asked: tuple[Message, ...]) -> Reply:
        """The reply to a question of a round about the state after the moves `at`; `asked` are the messages that
        are new. Raises ModelError where there is none, and where the budget is spent."""
        known = self.chat.next()
        if known is not None:
            return self._counted(known, len(known.attempts) + 1)
        if not self.chat.live:
            raise ModelError("the chat that is replayed has no more exchanges")
        question = self._affordable(question)
        begun, failures = time.monotonic(), list[str]()
        reply, failed = None, ""
        while reply is None:
            self._check()
            self.ledger.calls += 1
            try:
                reply = self.model.ask(question, min(self.timeout, max(0.1, self._seconds_left())))
            except ModelError as error:
                failures.append(error.reason)
                failed = self._waited(error, len(failures))
                if failed:
                    break
        seconds = round_seconds(time.monotonic() - begun)
        before = failures[:-1] if reply is None else failures
        exchange = Exchange(round, at, asked, reply, failed, tuple(before), seconds)
        self.chat.add(exchange)
        return self._counted(exchange, 0)

    def _counted(self, exchange: Exchange, calls: int) -> Reply:
        """The reply of an exchange, whose tokens are counted; the calls of one that stood in a chat, too."""
        self.ledger.calls += calls
        if exchange.reply is None:
            raise ModelError(exchange.failed)
        self.ledger.tokens += exchange.reply.tokens_in + exchange.reply.tokens_out
        if self.prices is not None:
            self.ledger.money += self.prices.of(exchange.reply.tokens_in, exchange.reply.tokens_out)
        return exchange.reply

    def _waited(self, error: ModelError, failures: int) -> str:
        """Waits for another attempt; why there is none otherwise."""
        if not error.again:
            return f"the model failed: {error.reason}"
        if failures >= self.attempts:
            return f"the model failed {failures} times, at last: {error.reason}"
        wait = FIRST_WAIT * 2.0 ** (failures - 1) if error.wait is None else error.wait
        left = self._seconds_left()
        if wait > min(LONGEST_WAIT, left):
            end = f", and {max(0.0, left):.3g} s are left" if left < LONGEST_WAIT else ""
            return f"the model failed: {error.reason}; it is to be asked again in {wait:.3g} s{end}"
        self.sleep(wait)
        spent = self.ledger.spent_on_models()
        return "" if spent is None else f"the budget is spent: {spent}; the model failed: {error.reason}"

    def _check(self) -> None:
        """Raises ModelError where the budget is spent."""
        spent = self.ledger.spent_on_models() or self.ledger.spent()
        if spent is not None:
            raise ModelError(f"the budget is spent: {spent}")

    def _affordable(self, question: Question) -> Question:
        """The question with an answer no longer than the budget allows. Raises ModelError where that is too
        short."""
        self._check()
        budget, most, reads = self.ledger.budget, float(question.most_tokens), question.about_tokens
        if budget.tokens is not None:
            most = min(most, budget.tokens - self.ledger.tokens - reads)
        if budget.money is not None and self.prices is not None and self.prices.written > 0:
            left = budget.money - self.ledger.money - self.prices.of(reads, 0)
            most = min(most, left * 1e6 / self.prices.written)
        if most < min(LEAST_TOKENS, question.most_tokens):
            what = f"about {reads} tokens to ask with"
            raise ModelError(f"the budget is spent: too little is left of it for {what} and an answer")
        return replace(question, most_tokens=math.floor(most))

    def _seconds_left(self) -> float:
        ledger = self.ledger
        limit = ledger.budget.seconds
        return math.inf if limit is None else limit - ledger.reserve - ledger.seconds


def round_seconds(seconds: float) -> float:
    """To a millisecond."""
    return round(seconds, 3)
