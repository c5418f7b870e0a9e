"""An app of well-behaved queries with a hostile one among them, killed again and again: what the others must give.

The expected outputs of the others are those of an app that never had the hostile one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import GeneratorSource, ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.testing import check_ledger
from reliable_rx.testing.hostile import ACCUMULATORS, FUNCTIONS
from reliable_rx.testing.steps import add, third

NUMBERS = list(range(1, 21))
STEPS_MAX = 2_000
KILL, CRASH, CLOSE, FULL = "kill", "checkpoint and kill", "close", "full checkpoint and close"
ENDS = (KILL, CRASH, CLOSE, FULL)
OTHERS = {
    "sum": rx.source("n").pipe(ops.scan(add, 0)),
    "pairs": rx.source("n").pipe(ops.pairwise()),
    "groups": rx.source("n").pipe(ops.group_by(third), ops.flat_map(lambda group: group.pipe(ops.scan(add, 0)))),
    "over": rx.source("sum").pipe(ops.map(third)),
}


class Life(NamedTuple):
    """How many steps an evaluator takes at most, where there is something to do, and how it ends."""

    steps: int
    end: str


class HostileWorld:
    """One store, one evaluator after the other on it, and what was seen of the queries that are not hostile."""

    def __init__(
        self,
        hostile: Any,
        *,
        policy: str = "fail",
        strict: bool = True,
        batch: int = 3,
        clock: Any = None,
        made: Callable[[], Any] | None = None,
        is_pure: bool = True,
    ) -> None:
        self.hostile, self.policy, self.strict, self.batch, self.clock = hostile, policy, strict, batch, clock
        self.made, self.is_pure = made, is_pure
        self.store: Any = MemoryStore()
        self.seen: dict[str, list[tuple[int, Any]]] = {name: [] for name in OTHERS}

    def begin(self, *, with_hostile: bool = True) -> QueryEvaluator:
        """Open the store as the next process does."""
        evaluator = QueryEvaluator(
            self.store, background=False, batch_events_max=self.batch, strict=self.strict, checkpoint_interval_s=1e9
        )
        evaluator.source("n", ListSource(NUMBERS))
        made = self.made
        evaluator.source("made", GeneratorSource(lambda i, _: i if made is None or i % 5 else made(), count=20, seed=1))
        for name, query in OTHERS.items():
            evaluator.create(name, query)
        if with_hostile:
            evaluator.create("hostile", self.hostile, policy=self.policy, clock=self.clock)
            evaluator.create("behind", rx.source("hostile").pipe(ops.count()))
        evaluator.start()
        return evaluator

    def live(self, life: Life, *, with_hostile: bool = True) -> None:
        """Have one life after the other end as it may."""
        evaluator = self.begin(with_hostile=with_hostile)
        for _ in range(life.steps):
            if not evaluator.step():
                break
        if life.end in (CRASH, FULL):
            evaluator.checkpoint(full=life.end == FULL)
            assert evaluator.checkpointer.has_all, "a checkpoint that was waited for has the ends of queries, too"
        self.look(evaluator)
        if self.is_pure:
            assert not [each for each in evaluator.warnings if "gave other outputs" in each], evaluator.warnings
        if life.end in (KILL, CRASH):
            evaluator.abandon()
        else:
            evaluator.close()
        self.store = self.store.reopen()

    def finish(self) -> None:
        """Let all come through; then go on without the hostile query, and look once more."""
        self.live(Life(STEPS_MAX, CLOSE))
        evaluator = self.begin()
        evaluator.dispose("behind")
        evaluator.dispose("hostile")
        evaluator.checkpoint(full=True)
        assert evaluator.checkpointer.has_all
        evaluator.close()
        self.store = self.store.reopen()
        self.live(Life(STEPS_MAX, CLOSE), with_hostile=False)
        expected = expected_outputs()
        for name, seen in self.seen.items():
            check_ledger(expected[name], seen).check(f"query {name!r}")

    def look(self, evaluator: QueryEvaluator) -> None:
        """Read on what can be seen of the others, and what was seen again."""
        for name, seen in self.seen.items():
            stream = evaluator.stream(name)
            again = list(records(stream, stream.first))
            known = [each for each in seen if each[0] >= stream.first]
            assert again[: len(known)] == known, f"{name} was {known}, and is {again} now"
            seen += again[len(known) :]


def records(stream: Any, start: int) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    for part in stream.read(start, 100_000):
        found += enumerate(part.values, part.first)
        if part.ended:
            found.append((part.next - 1, "failed" if part.error else "completed"))
    return found


def expected_outputs() -> dict[str, Sequence[tuple[int, Any]]]:
    """Return what the others give where nothing is hostile."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(NUMBERS))
        for name, query in OTHERS.items():
            evaluator.create(name, query)
        evaluator.run()
        return {name: records(evaluator.stream(name), 0) for name in OTHERS}


STATES: dict[str, Callable[[Any], Any]] = {
    "buffer": lambda q: q.pipe(ops.buffer_with_count(50)),
    "distinct": lambda q: q.pipe(ops.distinct()),
    "changes": lambda q: q.pipe(ops.distinct_until_changed()),
    "least": lambda q: q.pipe(ops.min()),
    "groups": lambda q: q.pipe(ops.group_by(lambda v: v), ops.flat_map(lambda g: g.pipe(ops.count()))),
    "kept": lambda q: q.pipe(ops.group_by(lambda v: v), ops.to_list()),
    "notifications": lambda q: q.pipe(ops.materialize(), ops.to_list()),
    "later": lambda q: q.pipe(ops.delay(1e9)),
    "inner": lambda q: q.pipe(ops.flat_map(lambda v: rx.of(v).pipe(ops.delay(1e9)))),
    "shared": lambda q: q.pipe(ops.share(), ops.pairwise()),
    "windows": lambda q: q.pipe(ops.window_with_count(3), ops.flat_map(lambda w: w.pipe(ops.to_list()))),
    "replayed": lambda q: q.pipe(ops.replay(buffer_size=5), ops.ref_count()),
    "joined": lambda q: q.pipe(ops.combine_latest(q)),
}
"""Ways to keep what a query is given."""


@dataclass(frozen=True)
class HostileQuery:
    """A query that does something hostile to what it is given, and keeps the outcome in some state."""

    function: str
    state: str
    accumulates: bool = False

    def __call__(self, query: Any) -> Any:
        if self.accumulates:
            accumulate, seed = _ACCUMULATORS[self.function].make()
            return STATES[self.state](query.pipe(ops.scan(accumulate, seed)))
        return STATES[self.state](query.pipe(ops.map(_FUNCTIONS[self.function].make())))


_FUNCTIONS = {each.name: each for each in FUNCTIONS}
_ACCUMULATORS = {each.name: each for each in ACCUMULATORS}


def hostile_queries() -> SearchStrategy[HostileQuery]:
    """Return a strategy for hostile queries."""
    states = st.sampled_from(sorted(STATES))
    return st.one_of(
        st.builds(HostileQuery, st.sampled_from(sorted(_FUNCTIONS)), states),
        st.builds(HostileQuery, st.sampled_from(sorted(_ACCUMULATORS)), states, st.just(True)),
    )
