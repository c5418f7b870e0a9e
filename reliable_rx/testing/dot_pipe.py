"""`check_dot_pipe`: a query cut at its dots into evaluators with durable streams between gives what it gives uncut.

``a.pipe(f).pipe(g)`` in one process and ``a.pipe(f)`` in one, a stream, ``.pipe(g)`` in another are the same query,
also when each evaluator dies whenever it likes and comes back from its store. Here they are stepped in one thread, by
a clock that stands still until nobody has anything to do, and killed between two steps or before the journal is
durable.

What is equal is what Rx promises. A part takes what the part before has emitted when it takes its turn, with all that
was emitted in one turn as one list; and what two inputs bring it at one instant has no order. So the question is put
to plain `reactivex` first: where a cut made of hot observables, fed before or after the other sources, already differs
from the uncut query, the example says nothing. Processing time is that of the turn: a part that is down, or behind,
sees its input later, and so do its operators of time. The clock that waits here is the condition for equal times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reliable_rx.errors import invariant
from reliable_rx.testing.faults import ProcessDied, arm
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, Timed
from reliable_rx.testing.needed import need_hypothesis
from reliable_rx.testing.oracle import comparable, compare
from reliable_rx.testing.queries import timed_streams
from reliable_rx.testing.recipes import Recipe, Step
from reliable_rx.testing.steps import Tools
from reliable_rx.testing.virtual_time import Build, Streams, run_plain

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from checkpoint.store import Store
    from hosting import QueryEvaluator
    from hosting.edges.egress import Stream

QUERY, BEFORE, READER = "query", "before", "next"
STEPS_MAX = 10_000
PATIENCE = 20
"""Actions, one behind the other, that a notification may cause without time passing."""
QUIET, KILL, DIE, CHECKPOINT, FULL = "quiet", "kill", "die", "checkpoint", "full"
ACTIONS = (QUIET, KILL, DIE, CHECKPOINT, FULL)
Parts = Sequence[Build]
"""The first is ``part(ops, rx, *sources)``, each other ``part(ops, rx, before, *sources)``."""
Deaths = Sequence[str]
"""What to do to whichever evaluator moves, step by step; `DIE` is a death before what it did is durable."""


@dataclass(frozen=True)
class Rest:
    """What stands behind a dot of a recipe."""

    steps: tuple[Step, ...]

    def __call__(self, ops: Any, rx: Any, before: Any, *sources: Any) -> Any:
        return Recipe(0, self.steps).cook(Tools(ops, rx, sources), before)


def cuts(recipe: Recipe) -> Iterator[Parts]:
    """Yield *recipe* cut at each of its dots, and at all of them.

    >>> from reliable_rx.testing.recipes import Recipe, Step
    >>> [len(parts) for parts in cuts(Recipe(0, (Step("map"), Step("scan"), Step("take"))))]
    [2, 2, 3]
    """
    steps = recipe.steps
    for dot in range(1, len(steps)):
        yield [Recipe(recipe.source, steps[:dot]), Rest(steps[dot:])]
    if len(steps) > 2:
        yield [Recipe(recipe.source, steps[:1]), *[Rest((step,)) for step in steps[1:]]]


def timeless(each: Timed) -> tuple[Any, ...]:
    return comparable(each)[1:]


class Played:
    """A stream as a replayable source: what has happened by now can be read, again and again."""

    def __init__(self, stream: Sequence[Timed], run: PipedRun) -> None:
        self.stream, self.run = stream, run

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def open(self, partition: str, at: int, /) -> PlayedReader:
        return PlayedReader(self, at)


class PlayedReader:
    """Reads a `Played`."""

    def __init__(self, source: Played, at: int) -> None:
        self.source, self.position = source, at

    def fetch(self, count_max: int, /) -> Any:
        from reliable_rx.reliable import Batch

        happened = [each for each in self.source.stream if each.time_s <= self.source.run.now]
        values = [each.value for each in happened if each.kind == NEXT]
        first = self.position
        self.position = min(first + count_max, len(values))
        last = happened[-1] if happened and self.position == len(values) else None
        ended = last is not None and last.kind != NEXT
        return Batch(first, values[first : self.position], ended, last.value if last and last.kind == ERROR else None)

    def acknowledge(self, n: int, /) -> None: ...

    def close(self) -> None: ...


class PipedRun:
    """One input through evaluators in a row, each with a store of its own, which die as *deaths* says."""

    def __init__(
        self, parts: Parts, streams: Streams, until_s: float, deaths: Deaths, open_store: Callable[[int], Store]
    ) -> None:
        self.parts = parts
        self.until_s = until_s
        self.deaths = iter(deaths)
        self.open_store = open_store
        self.now = 0.0
        self.streams = streams
        self.record: list[Timed] = []
        self.seen = 0
        self.action = next(self.deaths, QUIET)
        self.evaluators: list[QueryEvaluator] = []
        for number in range(len(parts)):
            self.evaluators.append(self.begin(number))

    def begin(self, number: int) -> QueryEvaluator:
        """Start, or recover, one evaluator."""
        from hosting import QueryEvaluator

        evaluator = QueryEvaluator(
            self.open_store(number), background=False, clock=lambda: self.now, checkpoint_interval_s=1e9,
            batch_events_max=3, retain_events=0,
        )  # fmt: skip
        for source, stream in enumerate(self.streams):
            evaluator.source(f"s{source}", Played(stream, self))
        if number:
            evaluator.source(BEFORE, self.stream_of(number - 1))
        evaluator.create(QUERY, self.query(number))
        evaluator.stream(QUERY).hold(READER, 0)
        evaluator.start()
        return evaluator

    def query(self, number: int) -> Any:
        import reliable_rx
        from reliable_rx import operators

        names = [BEFORE] * (number > 0) + [f"s{source}" for source in range(len(self.streams))]
        return self.parts[number](operators, reliable_rx, *map(reliable_rx.source, names))

    def stream_of(self, number: int) -> Any:
        """Return the output of an evaluator as a source, which is that of the next one when it has died."""
        from hosting import StreamSource

        run = self

        class Following(StreamSource):
            def __init__(self) -> None:
                self.subscriber = READER

            @property
            def stream(self) -> Stream:  # type: ignore[override]
                return run.evaluators[number].stream(QUERY)

        return Following()

    # -- living and dying

    def play(self) -> list[Timed]:
        """Play everything, and see that after a last death the same can be read again."""
        self.settle()
        while (time_s := self.next_time()) is not None and time_s <= self.until_s:
            self.now = time_s
            self.settle()
        self.kill(len(self.parts) - 1)
        again = list(self.read(len(self.parts) - 1, 0))
        invariant(list(map(timeless, again)) == list(map(timeless, self.record)), f"read again, it is {again}")
        for evaluator in self.evaluators:
            evaluator.close()
            evaluator.store.close()
        return self.record

    def next_time(self) -> float | None:
        """When something happens next."""
        events = [each.time_s for stream in self.streams for each in stream]
        dues = [evaluator.engine.timers.next_due() for evaluator in self.evaluators]
        return min((each for each in [*events, *dues] if each is not None and each > self.now), default=None)

    def settle(self) -> None:
        """Work until nothing moves, and note what came out."""
        for _ in range(STEPS_MAX):
            moved = [self.step(number) for number in range(len(self.parts))]
            if not any(moved):
                break
        else:
            invariant(False, f"evaluators have not come to rest in {STEPS_MAX:,} steps")
        news = list(self.read(len(self.parts) - 1, self.seen))
        self.record += news
        self.seen += len(news)

    def step(self, number: int) -> bool:
        """Let one evaluator work; if it did, do to it what the script says."""
        with arm("journal.before_commit", die) if self.action == DIE else nullcontext():
            moved = self.evaluators[number].step()
        moved = moved or self.evaluators[number].journal_worker.failure is not None
        if moved:
            action, self.action = self.action, next(self.deaths, QUIET)
            DO[action](self, number)
        return moved

    def kill(self, number: int) -> None:
        """Drop an evaluator as it is, and let the next one find what is in its store."""
        self.evaluators[number].store.close()
        self.evaluators[number] = self.begin(number)

    def read(self, number: int, start: int) -> Iterator[Timed]:
        """Yield what an evaluator has emitted, as if it were now."""
        for segment in list(self.evaluators[number].stream(QUERY).read(start, 1_000_000)):
            for value in segment.values:
                yield Timed(self.now, NEXT, value)
            if segment.ended:
                yield Timed(self.now, COMPLETED if segment.error is None else ERROR, segment.error)


def die() -> None:
    raise ProcessDied("before it was durable")


DO: dict[str, Callable[[PipedRun, int], object]] = {
    QUIET: lambda run, number: None,
    KILL: PipedRun.kill,
    DIE: PipedRun.kill,
    CHECKPOINT: lambda run, number: run.evaluators[number].checkpoint(),
    FULL: lambda run, number: run.evaluators[number].checkpoint(full=True),
}


def in_memory() -> Callable[[int], Store]:
    """Return what opens a store by number, and opens it again."""
    from checkpoint import MemoryStore

    stores: dict[int, MemoryStore] = {}

    def open_store(number: int) -> Store:
        stores[number] = stores[number].reopen() if number in stores else MemoryStore()
        return stores[number]

    return open_store


def run_piped(
    parts: Parts,
    streams: Streams,
    until_s: float,
    deaths: Deaths = (),
    *,
    open_store: Callable[[int], Store] | None = None,
) -> list[Timed]:
    """Play *streams* into *parts*, each in an evaluator of its own that dies as *deaths* says.

    *open_store* opens the store with a number, or opens it again; by default they are in memory.

    >>> from reliable_rx.testing import draw_marbles, parse_marbles
    >>> parts = [lambda ops, rx, s: s.pipe(ops.scan(max)), lambda ops, rx, before, s: before.pipe(ops.pairwise())]
    >>> [each.value for each in run_piped(parts, [parse_marbles("-1-2-1|")], 9, ["kill", "die", "checkpoint"])]
    [(1, 2), (2, 2), None]
    """
    return PipedRun(parts, streams, until_s, deaths, open_store or in_memory()).play()


def run_uncut(parts: Parts, streams: Streams, until_s: float) -> list[Timed]:
    """Play *streams* into the whole query on plain `reactivex`."""

    def build(ops: Any, rx: Any, *sources: Any) -> Any:
        query = parts[0](ops, rx, *sources)
        for part in parts[1:]:
            query = part(ops, rx, query, *sources)
        return query

    return run_plain(build, streams, until_s)


def run_cut(parts: Parts, streams: Streams, until_s: float, *, last: bool, drained: bool) -> list[Timed]:
    """The same with hot observables at the cuts, which at one time are played before the sources, or *last*.

    With *drained* each notification comes when all that is due by then has been done, otherwise those of one time come
    together.
    """
    patience = PATIENCE if drained else 0
    before = run_plain(parts[0], streams, until_s, patience=patience)
    for part in parts[1:]:

        def build(ops: Any, rx: Any, *given: Any, part: Any = part) -> Any:
            return part(ops, rx, given[-1], *given[:-1]) if last else part(ops, rx, *given)

        given = [*streams, before] if last else [before, *streams]
        before = run_plain(build, given, until_s, patience=patience)
    return before


def is_promised(parts: Parts, streams: Streams, until_s: float) -> bool:
    """Whether plain `reactivex` gives the same cut, however what happens at one time is ordered."""
    expected = list(map(comparable, run_uncut(parts, streams, until_s)))
    return all(
        list(map(comparable, run_cut(parts, streams, until_s, last=last, drained=drained))) == expected
        for last in (False, True)
        for drained in (False, True)
    )


def check_dot_pipe(
    parts: Parts | SearchStrategy[Parts],
    *,
    sources: int = 1,
    events_max: int = 8,
    gaps_s: Sequence[float] = (1.0, 3.0),
    horizon_s: float = 30.0,
    examples: int = 50,
    fresh: bool = True,
    open_stores: Callable[[], Callable[[int], Store]] | None = None,
) -> None:
    """Check that a query in *parts*, each in an evaluator that is killed at random, equals the whole on `reactivex`.

    *parts* are a function ``part(ops, rx, *sources)`` and, behind each dot, ``part(ops, rx, before, *sources)``, or a
      Hypothesis strategy for such lists; `cuts` cuts a recipe. Values, order, times and the end must be equal, where
      plain `reactivex` promises that (see `is_promised`). *open_stores* is called for each example (by default
      `in_memory`).

    >>> check_dot_pipe([lambda ops, rx, s: s.pipe(ops.scan(lambda a, x: a + x)),
    ...                 lambda ops, rx, before, s: before.pipe(ops.debounce(1.5))], examples=5)

    *Raises* `AssertionError` with the smallest example found.
    """
    need_hypothesis()
    from hypothesis import HealthCheck, assume, given, settings
    from hypothesis import strategies as st

    strategy = st.just(parts) if isinstance(parts, Sequence) else parts
    deaths = st.lists(st.sampled_from(ACTIONS), max_size=20)

    @settings(
        max_examples=examples, deadline=None, print_blob=True, derandomize=not fresh,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(strategy, timed_streams(sources, st.integers(0, 5), events_max, gaps_s), deaths)
    def equal(parts: Parts, streams: Streams, deaths: Deaths) -> None:
        until_s = max((each.time_s for stream in streams for each in stream), default=0.0) + horizon_s
        assume(is_promised(parts, streams, until_s))
        came = run_piped(parts, streams, until_s, deaths, open_store=(open_stores or in_memory)())
        compare(f"{parts}, killed by {deaths},", streams, run_uncut(parts, streams, until_s), came)

    equal()
