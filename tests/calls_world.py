"""An evaluator whose calls go to a service that the test plays by hand, with the service's own ledger.

The service gives every call a serial number of its own and answers with it, so that an element whose call was made
again can be told from one whose recorded answer was used again. What it knows survives every crash. It notices a call
for which there is no durable turn, and one whose answer is already in the journal.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode
from hosting import ListSource, QueryEvaluator
from hosting.engine.turns import Answer
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import ARMED
from reliable_rx.runtime.calling import Call


def element(value: Any) -> Any:
    """Stands for the coroutine: the service here is asked by what it would have been called with."""
    return value


class Service:
    """Outside: it remembers every call and every answer."""

    def __init__(self) -> None:
        self.serials = count()
        self.calls: list[tuple[Any, int]] = []
        self.recorded: dict[Any, Any] = {}

    def call(self, value: Any) -> int:
        assert value not in self.recorded, f"{value} is called again, but its answer was journalled"
        serial = next(self.serials)
        self.calls.append((value, serial))
        return serial


class CallsWorld:
    """One store, one service, one evaluator after the other."""

    def __init__(self, *, concurrency: int, ordered: bool, policy: str = "fail", batch: int = 3) -> None:
        self.options = {"concurrency": concurrency, "ordered": ordered}
        self.policy, self.batch, self.was_ordered = policy, batch, ordered
        self.store: Any = MemoryStore()
        self.service = Service()
        self.events: list[int] = []
        self.seen: list[Any] = []
        self.now = 100.0
        self.begin()

    # -- the life of an evaluator

    def begin(self) -> None:
        evaluator = self.evaluator = QueryEvaluator(
            self.store, background=False, clock=lambda: self.now, checkpoint_interval_s=1e9, batch_events_max=self.batch
        )
        self.pending: dict[Call, tuple[Any, int]] = {}
        self.asked_in: dict[Call, int] = {}
        self.answered_in: list[tuple[int, Any, Any]] = []
        evaluator.source("n", ListSource(self.events, follow=True))
        evaluator.create("q", self.query(), policy=self.policy)
        evaluator.calls.begin = self.called  # type: ignore[method-assign]
        evaluator.calls.cancel = self.pending.pop  # type: ignore[method-assign, assignment]
        take = evaluator.engine.take

        def noting(turn: Any) -> Any:
            engine = evaluator.engine
            if type(turn) is Answer and turn.call in engine.calls.askers:
                value = engine.calls.request(turn.call)[0]()
                self.answered_in.append((engine.number + 1, value, turn.payload))
            self.note_asked()
            outputs = take(turn)
            self.note_asked()
            return outputs

        evaluator.engine.take = noting  # type: ignore[method-assign]

    def note_asked(self) -> None:
        """Remember with which turn a call came up, or with which a recovery had it."""
        for call in self.evaluator.engine.calls.askers:
            self.asked_in.setdefault(call, self.evaluator.engine.number)

    def query(self) -> Any:
        return rx.source("n").pipe(ops.map_async(element, **self.options))  # type: ignore[arg-type]

    def called(self, call: Call) -> None:
        """The evaluator makes a call."""
        assert self.asked_in.get(call, 0) <= self.store.journal.last_turn, "a call for a turn that is not durable"
        value: Any = self.evaluator.engine.calls.request(call)[0]()
        self.pending[call] = (value, self.service.call(value))

    def crash(self) -> None:
        ARMED.clear()
        self.observe()
        attempt = self.evaluator.checkpointer.attempt
        if attempt is not None and attempt.release is not None:
            attempt.release()  # the garbage collector, which a new process would have
        self.store = self.store.reopen()
        self.begin()
        self.try_to(self.evaluator.start)
        self.observe()

    # -- what happens

    def try_to(self, act: Any) -> None:
        try:
            act()
        except StoreUnavailable:
            return
        self.observe()

    def run(self, steps_max: int = 1000) -> None:
        for _ in range(steps_max):
            if not self.evaluator.step():
                break
        self.observe()

    def answer(self, place: int, *, fails: bool = False) -> None:
        """Let a call that is in flight be answered."""
        if self.pending:
            call = sorted(self.pending)[place % len(self.pending)]
            value, serial = self.pending.pop(call)
            error = ValueError(f"{value} {serial}") if fails else None
            self.evaluator.calls._answered(call, (value, serial), error)

    def edit(self, **options: Any) -> None:
        self.options.update(options)
        self.was_ordered = self.was_ordered and self.options["ordered"]
        self.try_to(lambda: self.evaluator.create("q", self.query(), policy=self.policy))

    def observe(self) -> None:
        """Note what is durable and what is visible: from now on it must stay."""
        last = self.store.journal.last_turn
        for number, value, payload in self.answered_in:
            if number <= last:
                assert self.service.recorded.setdefault(value, payload) == payload, f"{value} has two answers"
        assert len(self.evaluator.engine.calls.askers) <= 3
        values = self.read("q")
        assert values[: len(self.seen)] == self.seen
        self.seen = values

    def read(self, name: str) -> list[Any]:
        return [value for part in self.evaluator.stream(name).read(0, 100_000) for value in part.values]

    # -- the judgement

    def finish(self) -> None:
        """Let every call be answered, crash once more, and compare what came out with what the service says."""
        ARMED.clear()
        self.run()
        while self.pending:
            self.answer(0)
            self.run()
        self.try_to(self.evaluator.checkpoint)
        self.crash()
        self.run()
        self.check()

    def check(self) -> None:
        found = self.read("q")
        failed = [letter.value for letter in self.read("q.dead_letters")]
        assert sorted([value for value, _ in found] + failed) == list(range(len(self.events)))
        if self.was_ordered:
            assert found == sorted(found)
        answers = {value: decode(payload) for value, payload in self.service.recorded.items()}
        assert found == [answers[value][0] for value, _ in found]
        assert all(answers[value][1] is not None for value in failed)
        assert not self.evaluator.engine.calls.askers and not self.evaluator.engine.calls.full
