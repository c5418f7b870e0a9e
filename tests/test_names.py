"""Names are refused where they are given, or else they can be stored; no query reads what is made of itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore, PostgresStore, SqliteStore
from checkpoint.offsets.memory import MemoryOffsets
from hosting import App, CallbackSink, ListSource, QueryEvaluator, SharedSource, StoredStreamSource, StreamSource
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events
from hosting.partitioned import MemberId, Partition
from hosting.partitioned.beats import Profile
from hosting.partitioned.group import Group, Seat, read_group
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.readers import FarReader
from hosting.partitioned.registry import MemoryRegistry
from hosting.partitioned.sections import listing_of, sections_of
from hosting.partitioned.stream_source import GroupStreamSource
from hosting.subscriptions.manager import Deliveries
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused, SourceFailed
from reliable_rx.event_time import event_time
from reliable_rx.names import ENDINGS, NAME_BYTES_MAX, check_name
from reliable_rx.reliable import Listing

NASTY: list[Any] = [
    "",
    "a\0b",
    "\ud800",
    "a\nb",
    "\x7f",
    "\x85",
    "a\u2028b",
    "x" * 70_000,
    "é" * 128,
    b"bytes",
    None,
    5,
    ["a"],
]
RESERVED = ["q.dead_letters", "q.late", "*"]


class Names(StrEnum):
    """Names that are strings of a class of their own."""

    ORDERS = "orders"


class Odd:
    """A source with one partition of any name."""

    def __init__(self, partition: Any) -> None:
        self.partition = partition

    def partitions(self) -> list[Any]:
        return [self.partition]

    def open(self, partition: str, at: int, /) -> Any:
        return ListSource([]).open("0", at)


def started() -> QueryEvaluator:
    evaluator = QueryEvaluator(MemoryStore())
    evaluator.source("n", ListSource([1]))
    evaluator.create("q", rx.source("n"))
    evaluator.start()
    return evaluator


def noop(*_: Any) -> None: ...


GIVEN: dict[str, Callable[[Any], Any]] = {
    "source": lambda name: QueryEvaluator(MemoryStore()).source(name, ListSource([1])),
    "push": lambda name: QueryEvaluator(MemoryStore()).push(name),
    "create": lambda name: QueryEvaluator(MemoryStore()).create(name, rx.source("n")),
    "create, running": lambda name: started().create(name, rx.source("n")),
    "App.source": lambda name: App().source(name, ListSource([1])),
    "App.push": lambda name: App().push(name),
    "App.query": lambda name: App().query(name, rx.source("n")),
}
"""What declares a name."""


TAKER: Any = None


class Deaf:
    """An observer of a stream."""

    on_next = on_error = on_completed = noop


def delivering(act: Callable[[Deliveries], Any]) -> None:
    with closing(Deliveries()) as deliveries:
        act(deliveries)


def is_text(name: Any) -> bool:
    return isinstance(name, str)


def node(*, group: str = "g", **profile: Any) -> Node:
    """A node that shares nothing with others."""
    app = App()
    app.query("q", app.source("n", ListSource([1])))
    shared: Any = MemoryRegistry(), MemoryOffsets(lambda *_: None), None
    return Node(app, *shared, group=group, profile=Profile(**profile))


NAMED: dict[str, Callable[[Any], Any]] = {
    "rx.source": rx.source,
    "sink": lambda name: QueryEvaluator(MemoryStore()).sink(name, CallbackSink(noop)),
    "stream": lambda name: started().stream(name),
    "subscriber": lambda name: started().stream("q").subscribe(Deaf(), name=name),
    "stream source": lambda name: StreamSource(started().stream("q"), subscriber=name),
    "stored, stream": lambda name: StoredStreamSource(MemoryStore(), name, subscriber="me"),
    "stored, subscriber": lambda name: StoredStreamSource(MemoryStore(), "q", subscriber=name),
    "holder": lambda name: started().stream("q").hold(name, 0),
    "log": lambda name: MemoryStore().log(name),
    "acknowledged stream": lambda name: MemoryStore().acknowledge(name, "me", 1),
    "acknowledging": lambda name: MemoryStore().acknowledge("q", name, 1),
    "deliveries, stream": lambda name: delivering(lambda each: each.subscribe(name, TAKER, name="me")),
    "deliveries, subscriber": lambda name: delivering(lambda each: each.subscribe("q", TAKER, name=name)),
    "deliveries, rule": lambda name: delivering(lambda each: each.implicit(name, bool, TAKER)),
    "shared": lambda name: SharedSource(ListSource([1])).named(name),
    "group": lambda name: open_group("", name),
    "node, group": lambda name: node(group=name),
    "node, instance": lambda name: node(instance=name),
    "node, tag": lambda name: node(tag=name),
    "node, room": lambda name: node(room=name),
    "node, partition": lambda name: node(partitions=frozenset({Partition("n", name if is_text(name) else "")})),
    "far reader, group": lambda name: FarReader(name, "n", "q"),
    "far reader, source": lambda name: FarReader("g", name if is_text(name) and name else "\n", "q"),
    "far reader, stream": lambda name: FarReader("g", "n", name),
    "group's stream": lambda name: GroupStreamSource(TAKER, list, name),
    "offsets": lambda name: MemoryOffsets(lambda *_: None).reset(name, {}),
}  # fmt: skip
"""What calls something by its name."""


UNNAMED: dict[str, list[Any]] = {
    "subscriber": [None],
    "stream source": [None],
    "node, instance": [None],
    "node, room": [None],
    "node, tag": [""],
}
"""By what takes a name: what says that there is none."""


@pytest.mark.parametrize("where", every(3, [*GIVEN, *NAMED]))
def test_what_cannot_be_stored_is_no_name(where: str) -> None:
    """Wherever a name is given, one that a store could not hold is refused at once, in a short sentence."""
    give = {**GIVEN, **NAMED}[where]
    for name in NASTY:
        if name in UNNAMED.get(where, ()):
            continue  # which means that it has none
        if where == "node, partition" and name == "é" * 128:
            continue  # which may be longer
        with pytest.raises((TypeError, ValueError)) as refused:
            give(name)
        assert type(refused.value) in (TypeError, ValueError), refused.value
        assert re.search("cannot be called|is named by a string|must be a str", str(refused.value)), refused.value
        assert len(str(refused.value).encode()) < 300


@pytest.mark.parametrize("where", GIVEN)
@pytest.mark.parametrize("name", every(3, RESERVED))
def test_the_names_of_other_streams_are_taken(where: str, name: str) -> None:
    """Nothing is declared under the name of the stream beside another query, with which its ids would be mixed."""
    with pytest.raises(ValueError, match="choose another"):
        GIVEN[where](name)


@given(st.text() | st.text(st.characters(codec="utf-8"), max_size=80))
def test_what_is_a_name_can_be_stored(name: str) -> None:
    """A name that is accepted goes through a checkpoint and a restart wherever it stands."""
    try:
        check_name("query", name)
    except ValueError:
        return
    store, values = MemoryStore(), [1, 2]
    for _ in range(2):
        with QueryEvaluator(store) as evaluator:
            evaluator.source(name, ListSource(values))
            pushed = evaluator.push(f"{name[:40]}+")
            evaluator.create(f"{name[:40]}-", rx.source(name).merge(rx.source(f"{name[:40]}+")))
            evaluator.start()
            evaluator.stream(f"{name[:40]}-").hold(name, 0)
            pushed.on_next(3)
            while evaluator.step():
                pass
            evaluator.checkpoint(full=True)
    assert evaluator.query(f"{name[:40]}-").emitted == 4


def test_a_string_of_another_class_is_a_name_like_its_value() -> None:
    """A member of an enumeration names what its value names, and no class of the application's comes into the store."""
    assert type(check_name("query", Names.ORDERS)) is str
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source(Names.ORDERS, ListSource([1]))
        evaluator.create("q", rx.source("orders"))
        evaluator.run()
        assert [type(each) for each in evaluator.intake.sources] == [str]


SUBSCRIBING = ["subscriber", "stream source", "stored, subscriber", "deliveries, subscriber", "deliveries, rule"]


@pytest.mark.parametrize("where", SUBSCRIBING)
@pytest.mark.parametrize("name", ["sink 0", "store me"])
def test_nobody_subscribes_under_the_name_of_a_sink(where: str, name: str) -> None:
    """What one acknowledges would be forgotten for the other."""
    with pytest.raises(ValueError, match="choose another beginning"):
        NAMED[where](name)


@pytest.mark.parametrize("name", ["\ud800", "", "a\n", 3])
def test_partitions_have_names_that_can_be_stored(name: Any) -> None:
    """A source that lists what cannot be stored, as a folder may, is refused with its name before anything is read."""
    with pytest.raises(SourceFailed, match="'n' lists a partition that has no usable name"):
        QueryEvaluator(MemoryStore()).source("n", Odd(name))


class Roomy(ListSource):
    """A source that says in which room its partitions are."""

    room: Any = "\ud800"

    def listing(self) -> list[Listing]:
        return [Listing("0", room=self.room)]


def test_rooms_have_names_that_can_be_stored() -> None:
    """What the group keeps of a partition is refused where it is listed."""
    with pytest.raises(SourceFailed, match="a partition that is in a room without a usable name: a room cannot be"):
        listing_of(Roomy([1]))


def test_a_group_opens_whatever_its_members_were_called() -> None:
    """What has been taken before names were checked is read, and shown until its member has gone."""
    profile = Profile(instance="a\nb", tag="x" * 70_000, room="\ud800")
    group = Group("g", members={MemberId("m"): Seat("t", profile)})
    assert read_group(group.to_bytes(), name="g").members[MemberId("m")].profile == profile


def named(value: Any, stream: str) -> Callable[[Any], Any]:
    return lambda x: rx.source(stream) if x == value else rx.of(x)


n: Any = rx.source("n")
RINGS: dict[str, dict[str, Any]] = {
    "itself": {"a": rx.source("a")},
    "two": {"a": n.merge(rx.source("b")), "b": rx.source("a")},
    "three": {"a": n.merge(rx.source("c")), "b": rx.source("a"), "c": rx.source("b").map(str)},
    "its own late events": {"a": n.merge(rx.source("a.late"))},
    "by way of dead letters": {"a": n.merge(rx.source("b")), "b": rx.source("a.dead_letters")},
}


@pytest.mark.parametrize("ring", RINGS)
def test_a_ring_is_refused_when_it_is_declared(ring: str) -> None:
    """Queries that read each other in a ring are refused by the declaration that closes it, alone and for a group."""
    evaluator, app = QueryEvaluator(MemoryStore()), App()
    app.source("n", ListSource([1]))
    *first, last = RINGS[ring].items()
    for name, query in first:
        evaluator.create(name, query)
    with pytest.raises(QueryRefused, match="come back to it for ever"):
        evaluator.create(*last)
    for name, query in RINGS[ring].items():
        app.query(name, query)
    with pytest.raises(QueryRefused, match="come back to it for ever"):
        sections_of(app)


def test_what_a_query_has_ceased_to_read_closes_no_ring() -> None:
    """Edits may turn round who reads whom."""
    engine, given = QueryEngine(), rx.source("n")
    engine.declare("n", ["0"])
    for name, query in [("a", given), ("b", rx.source("a")), ("b", given.map(str)), ("a", rx.source("b"))]:
        engine.take(engine.creation(name, query, time=0.0))
    assert {each.name: [*each.values] for each in engine.take(Events("n", "0", 0, [1], 1.0))} == {
        "a": ["1"], "b": ["1"],
    }  # fmt: skip


@pytest.mark.parametrize("ring", RINGS)
def test_a_ring_is_refused_when_a_query_is_edited(ring: str) -> None:
    """No edit of a running query closes a ring; what was there goes on without it."""
    evaluator = started_on(MemoryStore(), dict.fromkeys(RINGS[ring], n))
    with pytest.raises(QueryRefused, match="come back to it for ever"):
        evaluator.create_many(RINGS[ring])
    evaluator.run()
    assert evaluator.query("a").status == "completed" or ring == "its own late events"
    evaluator.close()


def test_a_ring_with_what_a_store_has_is_refused() -> None:
    """The app's next version closes no ring with a query that it does not declare, and that the store still has."""
    store = MemoryStore()
    with started_on(store, {"a": n, "b": rx.source("a")}):
        pass
    with pytest.raises(QueryRefused, match="'a' reads 'b', which reads 'a'"):
        started_on(store, {"a": rx.source("b")})


def started_on(store: MemoryStore, queries: dict[str, Any]) -> QueryEvaluator:
    evaluator = QueryEvaluator(store)
    evaluator.source("n", ListSource(list(range(5))))
    for name, query in queries.items():
        evaluator.create(name, query)
    evaluator.start()
    return evaluator


@pytest.mark.parametrize("clock", [None, event_time(float, lateness_s=0.0)])
def test_a_ring_by_way_of_a_value_fails_its_query(clock: Any, tmp_path: Path) -> None:
    """A selector that names a stream which reads its own query fails that query, in every replay at the same turn."""
    found: list[Any] = []
    for cut in range(8):
        with contextlib.ExitStack() as stack:
            for last in (False, True):
                store = stack.enter_context(SqliteStore(tmp_path / f"{cut}"))
                evaluator = QueryEvaluator(store, batch_events_max=1, background=False)
                evaluator.source("n", ListSource([1, 2, 3, 4]))
                evaluator.create("a", n.pipe(ops.flat_map(named(3, "b"))), clock=clock)
                evaluator.create("b", rx.source("a").map(float), clock=clock)
                evaluator.create("other", n)
                if last:
                    evaluator.run()
                    found.append([
                        [value for part in evaluator.stream(name).read(0, 10) for value in part.values]
                        for name in ("a", "b", "other")
                    ])  # fmt: skip
                    assert "come back to it for ever" in evaluator.query("a").error
                else:
                    for _ in range(cut):
                        evaluator.step()
                        evaluator.flush()
                        if cut % 2:
                            evaluator.checkpoint()
                evaluator.close()
                store.close()
    assert found == [[[1, 2], [1.0, 2.0], [1, 2, 3, 4]]] * 8


def test_what_selectors_read_is_forgotten_with_them() -> None:
    """A stream that a selector no longer reads may read its query later; what is counted follows from what is open."""
    evaluator = QueryEvaluator(MemoryStore())
    pushed = evaluator.push("n")
    inner = n.pipe(ops.flat_map(lambda x: rx.source("a")))
    evaluator.create_many({"a": n, "b": inner, "c": rx.source("a").pipe(ops.scan(max))})
    pushed.on_next(1)
    while evaluator.step():
        pass
    with pytest.raises(QueryRefused, match="'a' reads 'b', which reads 'a'"):
        evaluator.create("a", rx.source("b"))
    pushed.on_completed()
    evaluator.run()
    assert evaluator.engine.readers.chosen == {}
    evaluator.close()


def test_letters_can_be_read_before_the_first_one_is_there() -> None:
    """A query may read the dead letters of another, which begin with the first event that it cannot digest."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([1, 0, 2]))
        evaluator.create("a", n.map(lambda x: 1 / x), policy="dead_letter")
        evaluator.create("bad", rx.source("a.dead_letters").map(lambda letter: letter.value))
        evaluator.run()
        assert [value for part in evaluator.stream("bad").read(0, 10) for value in part.values] == [0]


def test_a_name_that_is_nearly_right_is_recognised() -> None:
    """A message about an unknown name says which one was meant, and which there are."""
    evaluator = started_on(MemoryStore(), {"orders": n})
    for ask in (evaluator.query, evaluator.stream, evaluator.dispose):
        with pytest.raises(KeyError, match="did you mean 'orders'"):
            ask("ordres")
    with pytest.raises(QueryRefused, match="did you mean 'orders'"):
        evaluator.create("q", rx.source("order"))
    evaluator.close()


def test_the_name_of_a_store_in_a_database_is_checked() -> None:
    """It is refused before the database is asked."""
    for name in ["", "a\0b", "\ud800", "a\nb", "x" * 70_000]:
        with pytest.raises(ValueError, match="a store cannot be called"):
            PostgresStore("postgresql://127.0.0.1:1/x", name)


def test_the_longest_name() -> None:
    """A name of as many bytes as are allowed is one, in whatever script."""
    assert check_name("query", "é" * (NAME_BYTES_MAX // 2)) == "é" * (NAME_BYTES_MAX // 2)


n = rx.source("n")
NEVER_THERE: dict[str, tuple[dict[str, dict[str, Any]], str, str]] = {
    "the policy is another": ({"q": {}}, "q.dead_letters", "policy of 'q' is 'fail'.*give it policy='dead_letter'"),
    "there is no clock": ({"q": {}}, "q.late", "'q' sets no late events aside, as it has no event_time.*late='side'"),
    "the clock drops them": ({"q": {"clock": event_time(float)}}, "q.late", "its clock has late='drop'.*late='side'"),
    "a source has none": ({}, "n.late", "'n' is a source, and only queries have late events"),
    "a letter is missing": ({"q": {"policy": "dead_letter"}}, "q.dead_leters", "did you mean 'q.dead_letters'"),
    "another letter": ({"q": {"clock": event_time(float, late="side")}}, "q.lat", "did you mean 'q.late'"),
}


@pytest.mark.parametrize("case", NEVER_THERE)
def test_a_side_stream_that_will_never_have_anything_is_refused(case: str, caplog: pytest.LogCaptureFixture) -> None:
    """To a query that reads it, at the start; a sink of it is told of, and who asks for it is told."""
    queries, stream, said = NEVER_THERE[case]
    for start_first in (False, True):
        with QueryEvaluator(MemoryStore(), background=False) as evaluator:
            evaluator.source("n", ListSource([1.0], follow=True))
            for name, how in queries.items():
                evaluator.create(name, n, **how)
            if start_first:
                evaluator.start()
            caplog.clear()
            with contextlib.suppress(KeyError) if stream.endswith(ENDINGS) else pytest.raises(KeyError, match=said):
                evaluator.stream(stream)
                assert re.search(said, caplog.text)
            evaluator.sink(stream, CallbackSink(print))
            while evaluator.step():
                pass
            (incident,) = evaluator.incidents.open()
            assert incident.kind == ("sink idle" if stream.endswith(ENDINGS) else "sink") and re.search(
                said, incident.message
            )
            with pytest.raises(QueryRefused, match=said):
                evaluator.create("reads", rx.source(stream))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1.0]))
        for name, how in queries.items():
            evaluator.create(name, n, **how)
        evaluator.create("reads", rx.source(stream))
        with pytest.raises(QueryRefused, match=said):
            evaluator.start()


@pytest.mark.parametrize("clock", [None, event_time(float, lateness_s=0.0)])
def test_a_source_that_a_selector_names_and_nobody_has_is_told_of(clock: Any) -> None:
    """At once, with its name and those that there are, until a query of that name is there or the reader is gone."""
    numbers = [1.0, 2.0, 3.0]
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(numbers, follow=True))
        evaluator.create("by", n.pipe(ops.flat_map(lambda x: rx.source("doubeld"))), clock=clock)
        while evaluator.step():
            pass
        (incident,) = evaluator.incidents.open()
        assert (incident.kind, incident.subject, incident.level) == ("unknown source", "by", "error")
        assert "'doubeld', but no source or query has that name; there are: by, n" in incident.message
        if clock is None:
            evaluator.create("doubeld", n.map(lambda x: x * 2))
        else:
            evaluator.dispose("by")
        evaluator.reporter._look_at = 0.0
        evaluator.step()
        assert evaluator.incidents.open() == ()
