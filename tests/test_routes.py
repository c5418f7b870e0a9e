"""Who is handed an event: readers by key, groups whose functions ask for their key, and streams that are there once."""

from __future__ import annotations

from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Dispose, Events, Output, Tick
from reliable_rx import operators as ops


def odd(n: int) -> int:
    return n % 2


def engine(**queries: Any) -> QueryEngine:
    made = QueryEngine()
    made.declare("n", ["0"])
    for name, query in queries.items():
        made.take(made.creation(name, query, time=0.0))
    return made


def told(outputs: list[Output]) -> dict[str, list[Any]]:
    return {out.name: list(out.values) for out in outputs}


def test_readers_by_key_come_and_go() -> None:
    """Of several that read one key each is handed its events, whoever else is disposed of; no table stays empty."""
    host = engine(**{name: rx.source("n").pipe(ops.where_key(odd, 1), ops.map(str)) for name in "abc"})
    names = ["a", "b", "c"]
    for number, gone in enumerate(["b", "a", "c", None]):
        assert told(host.take(Events("n", "0", number, [number], 1.0))) == (
            {name: [str(number)] for name in names} if odd(number) else {}
        )
        if gone is not None:
            assert told(host.take(Events("n", "0", 9, [9], 1.0))) == {name: ["9"] for name in names}
            host.take(Dispose(gone, 1.0))
            names.remove(gone)
    assert all(not route.keyed and not route.picky for route in host.routes.values())


def test_one_reader_of_all_and_one_by_key() -> None:
    """Events that are turns of their own reach both, as they do together."""
    for singly in (False, True):
        host = engine(every=rx.source("n").map(str), some=rx.source("n").pipe(ops.where_key(odd, 1), ops.map(str)))
        assert told(host.take(Events("n", "0", 0, [1, 2, 3], 1.0, singly=singly))) == {
            "every": ["1", "2", "3"],
            "some": ["1", "3"],
        }


def test_functions_that_a_timer_calls_are_answered_by_their_group() -> None:
    """`g.key` inside a function is the key of the group whose timer is due, not of the one that was fed last."""
    host = engine(
        q=rx.source("n").group_by(odd).flat_map(lambda g: g.pipe(ops.delay(1.0), ops.map(lambda n: (g.key, n))))
    )
    host.take(Events("n", "0", 0, [1, 2, 3, 4], 1.0))
    assert told(host.take(Tick(3.0)))["q"] == [(1, 1), (1, 3), (0, 2), (0, 4)]


def test_functions_of_a_timer_itself_are_answered_by_their_group() -> None:
    """The same of what decides how long a sequence goes on, which nothing but its own timer asks."""

    def lengths(g: Any) -> Any:
        return rx.generate_with_relative_time(0, lambda n: n <= g.key, lambda n: n + 1, lambda n: 1.0)

    host = engine(q=rx.source("n").group_by(odd).flat_map(lengths))
    host.take(Events("n", "0", 0, [1, 2], 1.0))
    found = [value for time in (2.0, 3.0, 4.0, 5.0) for value in told(host.take(Tick(time))).get("q", [])]
    assert sorted(found) == [0, 0, 1]


def test_a_stream_is_there_once() -> None:
    """Asking for it again, also while it is read, gives the one that has the ids and the subscribers."""
    got: list[Any] = []
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", rx.source("n").map(odd))
        evaluator.sink("q", CallbackSink(lambda n, value: got.append((n, value))))
        stream = evaluator.stream("q")
        assert evaluator.streams.open("q", 7) is stream  # as another thread may that has asked at the same time
        while evaluator.step():
            assert evaluator.stream("q") is stream
    assert got == [(0, 1), (1, 0), (2, 1)]


def test_a_checkpoint_is_due_while_a_sink_has_not_been_flushed() -> None:
    """Also where no turn has been taken since the last: outputs may have become visible while that was under way."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", rx.source("n").map(odd))
        evaluator.sink("q", CallbackSink(lambda n, value: None))
        evaluator.run()
        evaluator.checkpoint()
        assert evaluator.checkpointer.has_all
        evaluator.outlets.all[0].flushed -= 1
        assert not evaluator.checkpointer.has_all
