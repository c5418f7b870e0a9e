"""An evaluator in a world that fails, and a model that says what must have come out.

Every turn the evaluator takes is written down with its events. After a crash those that it does not know any more are
struck out, and what its journal replays must be what was written down. The model takes the same turns in an engine that
was never saved, so each stream and each sink must hold exactly what that engine emits; and the turns together must
hold every input once, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import GeneratorSource, ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events, Output, Turn
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable
from reliable_rx.failpoints import ARMED
from reliable_rx.testing import check_ledger
from reliable_rx.testing.faults import Action, disk_full, raise_
from reliable_rx.testing.queries import compiled
from reliable_rx.testing.recipes import Recipe
from reliable_rx.testing.steps import add, bounded, fails_on_four

STEPS_MAX = 5_000
RETAINED_MAX = 10_000
OBSERVER = "whoever observes"
HOSTILE = "hostile"
GENERATED = 40

POINTS = (
    "journal.before_commit", "journal.after_commit", "log.before_commit", "log.after_commit",
    "checkpoint.before_commit", "checkpoint.mid_commit", "checkpoint.after_commit",
    "sink.before_flush", "sink.after_flush", "sink.before_acknowledge",
)  # fmt: skip

LIVE: list[Any] = []
"""What effects have done since somebody looked; a plan that is loaded again finds it by the module's name."""


def noted(value: Any) -> None:
    LIVE.append(value)


STATIC: dict[str, tuple[Any, str]] = {
    "totals": (rx.source("pushed").pipe(ops.scan(add, 0)), "fail"),
    "over": (rx.source("totals").pipe(ops.pairwise(), ops.map(bounded)), "fail"),
    "both": (rx.source("listed").pipe(ops.merge(rx.source("made")), ops.map(bounded), ops.scan(add, 0)), "fail"),
    "brief": (rx.source("pushed").pipe(ops.take(2)), "fail"),
    "noted": (rx.source("pushed").pipe(ops.do_action(noted, effects="live")), "fail"),
    "quiet": (rx.source("listed").pipe(ops.debounce(1.5)), "fail"),
    "skips": (rx.source("pushed").pipe(ops.map(fails_on_four), ops.scan(add, 0)), "skip"),
    "buries": (rx.source("pushed").pipe(ops.map(fails_on_four), ops.pairwise(), ops.map(bounded)), "dead_letter"),
}  # fmt: skip
"""Queries of the application: declared again at every start."""


class Forgetful(ListSource):
    """A source that takes its acknowledgements seriously: what has been acknowledged cannot be had again."""

    def __init__(self, values: list[Any], forgotten: list[int]) -> None:
        super().__init__(values, follow=True)
        self.forgotten = forgotten

    def open(self, partition: str, at: int, /) -> Any:
        assert at > self.forgotten[0], f"id {at} was acknowledged, and is wanted again"
        reader = super().open(partition, at)
        reader.acknowledge = self.forget  # type: ignore[method-assign]
        return reader

    def forget(self, n: int) -> None:
        self.forgotten[0] = max(self.forgotten[0], n)


class PositionSink:
    """Knows exactly what it has made durable; the rest dies with the process."""

    def __init__(self) -> None:
        self.durable: list[tuple[int, Any]] = []
        self.waiting: list[tuple[int, Any]] = []

    def open(self, stream: str, /) -> int | None:
        self.waiting = []
        return self.durable[-1][0] + 1 if self.durable else 0

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self.waiting += enumerate(values, first)

    def end(self, n: int, error: Exception | None, /) -> None:
        self.waiting.append((n, ("ended", str(error))))

    def flush(self) -> None:
        self.durable += self.waiting
        self.waiting = []

    def close(self) -> None: ...


class World:
    """One store, one evaluator after the other on it, inputs that outlive them, and the book of turns."""

    def __init__(
        self, folder: Path | None = None, *, batch_events_max: int = 3, retain_events: int = RETAINED_MAX
    ) -> None:
        self.folder = folder
        self.store: Any = MemoryStore() if folder is None else SqliteStore(folder)
        self.batch_events_max, self.retain_events = batch_events_max, retain_events
        self.now = 100.0
        self.listed: list[Any] = []
        self.forgotten = [-1]
        self.pushed: list[Any] = []
        self.doubtful: list[list[Any]] = []
        self.sinks = {name: PositionSink() for name in ("totals", "quiet", "buries.dead_letters")}
        self.turns: list[tuple[int, Turn, list[Output]]] = []
        self.acknowledged = 0
        self.seen: dict[str, list[tuple[int, Any]]] = {}
        self.known: dict[str, int] = {}
        self.evaluator = self.new_evaluator()

    # -- the life of an evaluator

    def new_evaluator(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, clock=lambda: self.now, checkpoint_interval_s=1e9,
            batch_events_max=self.batch_events_max, retain_events=self.retain_events,
        )  # fmt: skip
        self.input = evaluator.push("pushed")
        evaluator.source("listed", Forgetful(self.listed, self.forgotten))
        evaluator.source("made", GeneratorSource(lambda i, random: random.randrange(9), count=GENERATED, seed=3))
        for name, (query, policy) in STATIC.items():
            evaluator.create(name, query, policy=policy)
        for name, sink in self.sinks.items():
            evaluator.sink(name, sink)
        self.taken = 0
        take = evaluator.engine.take
        append = evaluator.streams.append

        def append_and_hold(outputs: list[Output]) -> None:
            append(outputs)
            self.hold(outputs)

        evaluator.streams.append = append_and_hold  # type: ignore[method-assign]
        evaluator.engine.take = lambda turn: self.note(evaluator.engine, turn, take)  # type: ignore[method-assign]
        return evaluator

    def note(self, engine: QueryEngine, turn: Turn, take: Callable[[Turn], list[Output]]) -> list[Output]:
        """Write down a turn and what it emitted; a turn that was known must be what it was."""
        LIVE.clear()
        outputs = take(turn)
        self.check_effects(engine, turn)
        kept = [Output(out.name, out.first, list(out.values), *out[3:]) for out in outputs if is_judged(out.name)]
        number = engine.number
        if not engine.replaying:  # what was taken under this number before a crash was not durable
            self.turns = [each for each in self.turns if each[0] < number]
        known = next((each for each in self.turns if each[0] == number), None)
        if known is not None:
            assert plain(turn) == plain(known[1]), f"turn {number} was {known[1]}, its replay is {turn}"
            assert list(map(plain, kept)) == list(map(plain, known[2])), f"turn {number} emitted {known[2]}, now {kept}"
        else:
            self.turns.append((number, turn, kept))
        return outputs

    def check_effects(self, engine: QueryEngine, turn: Turn) -> None:
        """An effect on the world happens once per event, and in no replay."""
        happens = isinstance(turn, Events) and turn.source == "pushed" and "noted" in engine.standing
        expected = list(turn.values) if happens and not engine.replaying else []  # type: ignore[union-attr]
        assert expected == LIVE, f"{turn} had the effects {LIVE}, not {expected}"

    def hold(self, outputs: Sequence[Output]) -> None:
        """Have the streams keep what whoever observes has not acknowledged."""
        for out in filter(is_output_judged, outputs):
            self.evaluator.stream(out.name).hold(OBSERVER, self.known.get(out.name, 0))

    def read_again(self) -> None:
        """Whoever observes has died: he reads from where he has acknowledged, and acknowledges what he knows now."""
        for name, stream in filter(is_item_judged, self.evaluator.streams.items()):
            known, seen = self.known.get(name, 0), self.seen.get(name, [])
            if len(seen) > known:
                again = list(records(stream, known))
                assert again[: len(seen) - known] == seen[known:], f"stream {name!r} was {seen[known:]}, now {again}"
                stream.acknowledge(OBSERVER, seen[-1][0])
                self.known[name] = len(seen)

    def start(self) -> None:
        """Start the evaluator and strike out what it does not know."""
        recovered: list[int] = []
        create = self.evaluator.creation._create

        def first_creation(*args: Any, **how: Any) -> None:
            if not recovered:
                recovered.append(self.recovered())
            create(*args, **how)

        self.evaluator.creation._create = first_creation  # type: ignore[method-assign]
        self.evaluator.start()
        self.evaluator.creation._create = create  # type: ignore[method-assign]
        self.read_again()

    def recovered(self) -> int:
        number = self.evaluator.engine.number
        assert number >= self.acknowledged, f"turn {self.acknowledged} was acknowledged, recovered only {number}"
        self.turns = [each for each in self.turns if each[0] <= number]
        assert not self.turns or self.turns[-1][0] == number
        ends = {out.name: out.next for _, _, outputs in self.turns for out in outputs}
        for name, seen in self.seen.items():
            assert not seen or seen[-1][0] < ends.get(name, 0), f"id {seen[-1][0]} of {name!r} was seen and is gone"
        return number

    def crash(self) -> None:
        """Kill it: the store keeps what was committed, everything else is gone."""
        ARMED.clear()
        self.observe()
        self.reopen()

    def reopen(self) -> None:
        """Let the next process find what was committed."""
        attempt = self.evaluator.checkpointer.attempt
        if attempt is not None and attempt.release is not None:
            attempt.release()  # a process that is killed holds off no garbage collector
        if self.folder is None:
            self.store = self.store.reopen()
        else:
            self.store.close()
            self.store = SqliteStore(self.folder)
        self.evaluator = self.new_evaluator()
        tail = self.tail()
        assert not tail or tail in self.doubtful, f"{tail} was never pushed"
        self.pushed += tail
        self.doubtful = []
        self.start()

    def tail(self) -> list[Any]:
        """Return what is in the log unacknowledged: a push that failed and was durable all the same."""
        assert self.input.end >= len(self.pushed), "an acknowledged value is gone"
        return list(self.input.open("0", len(self.pushed)).fetch(100).values)

    # -- what happens

    def push(self, values: list[Any]) -> None:
        try:
            self.input.push(values)
            self.pushed += values
            self.doubtful = []
        except StoreUnavailable:
            self.doubtful.append(values)

    def run(self, steps_max: int = STEPS_MAX) -> None:
        """Work until nothing moves."""
        for _ in range(steps_max):
            if not self.evaluator.step():
                break
        self.check_told()
        self.observe()

    def check_told(self) -> None:
        """Between two steps each thing that is wrong has an open incident, and nothing that is well has one."""
        evaluator = self.evaluator
        found = [(each.kind, each.subject) for each in evaluator.statistics().incidents]
        told = {kind: {subject for each, subject in found if each == kind} for kind, _ in found}
        standing = evaluator.engine.standing
        assert told.get("query", set()) == {name for name, each in standing.items() if each.status == "failed"}
        assert told.get("skipped", set()) <= {name for name, each in standing.items() if each.skipped}  # of this run
        assert bool(told.get("journal")) is (evaluator.journal_worker.trouble is not None)
        assert bool(told.get("sink")) is (evaluator.outlets.trouble is not None)
        assert bool(told.get("checkpoint")) is (evaluator.checkpointer.trouble is not None)

    def try_to(self, act: Callable[[], Any]) -> None:
        """Do something that needs the store."""
        try:
            act()
        except StoreUnavailable:
            return
        self.observe()

    def observe(self) -> None:
        """Note what can be seen from outside: from now on it must stay, whatever happens."""
        self.acknowledged = max(self.acknowledged, self.store.journal.last_turn)
        for name, stream in filter(is_item_judged, self.evaluator.streams.items()):
            seen = self.seen.setdefault(name, [])
            seen += records(stream, seen[-1][0] + 1 if seen else 0)

    # -- the judgement

    def finish(self) -> None:
        """Let everything come through, crash once more, and look."""
        ARMED.clear()
        self.run()
        self.evaluator.checkpoint()
        self.crash()
        self.run()
        self.now += 50.0
        self.run()
        self.evaluator.checkpoint()
        assert self.evaluator.trouble is None
        self.observe()
        self.check()

    def check(self) -> None:
        """Every input once, every output once, all in order."""
        for source, expected in (("pushed", self.pushed), ("listed", self.listed)):
            check_ledger(list(enumerate(expected)), self.events_of(source)).check(f"source {source!r}")
        check_ledger(list(range(GENERATED)), [n for n, _ in self.events_of("made")]).check("source 'made'")
        expected_outputs = self.shadow()
        for name in {*expected_outputs, *self.seen}:
            check_ledger(expected_outputs.get(name, []), self.seen.get(name, [])).check(f"stream {name!r}")
            if name in self.evaluator.streams:
                again = list(records(stream := self.evaluator.streams[name], stream.first))
                kept = [each for each in expected_outputs.get(name, []) if each[0] >= stream.first]
                assert len(kept) >= min(self.retain_events, len(expected_outputs.get(name, [])))
                check_ledger(kept, again).check(f"stream {name!r}, read again")
        for name, sink in self.sinks.items():
            check_ledger(expected_outputs.get(name, []), sink.durable).check(f"the sink of {name!r}")

    def events_of(self, source: str) -> list[tuple[int, Any]]:
        return [
            (turn.first + place, value)
            for _, turn, _ in self.turns
            if isinstance(turn, Events) and turn.source == source
            for place, value in enumerate(turn.values)
        ]

    def shadow(self) -> dict[str, list[tuple[int, Any]]]:
        """Take all turns in an engine that is never saved."""
        engine = QueryEngine()
        for source in ("pushed", "listed", "made"):
            engine.declare(source, ["0"])
        found: dict[str, list[tuple[int, Any]]] = {}
        for _, turn, _ in self.turns:
            for out in filter(is_output_judged, engine.take(compiled(engine, turn))):
                found.setdefault(out.name, []).extend(told(out.first, out.values, out.ended, out.error))
        return found


def is_judged(name: str) -> bool:
    """Whether the outputs of a query count: what a hostile one gives is its own affair."""
    return not name.startswith(HOSTILE)


def is_output_judged(out: Output) -> bool:
    return is_judged(out.name)


def is_item_judged(item: tuple[str, Any]) -> bool:
    return is_judged(item[0])


def plain(turn: Any) -> tuple[Any, ...]:
    """What two turns or outputs must have in common."""
    fields = [each for each in turn if not hasattr(each, "nodes")]
    return (type(turn).__name__, *[list(f) if isinstance(f, (list, tuple)) else repr(f) for f in fields])


def records(stream: Any, start: int) -> Iterator[tuple[int, Any]]:
    for segment in list(stream.read(start, 1_000_000)):
        yield from told(segment.first, segment.values, segment.ended, segment.error)


def told(first: int, values: Sequence[Any], ended: bool, error: Exception | None) -> Iterator[tuple[int, Any]]:
    yield from enumerate(values, first)
    if ended:
        yield first + len(values), ("ended", str(error))


def query_of(recipe: Recipe) -> Any:
    """Host a recipe over the two live inputs and another query's stream."""
    return recipe(ops, rx, rx.source("pushed"), rx.source("listed"), rx.source("totals"))


def full_at(point: str) -> Action:
    """Let the disk be full at *point*, in the words that are spoken there."""
    return raise_(StoreUnavailable("the disk of the sink is full")) if point.startswith("sink") else disk_full()
