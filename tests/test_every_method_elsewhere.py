"""Every public method of sources, sinks, offset stores, deliveries and nodes, in every state and from everywhere.

As in `test_every_method`, for what does not hang on one evaluator: a call ends soon, works or raises one of our
errors, and afterwards the thing has what it must have and nothing is open. And every public class is in one of the
tables, or in a list of those that have no states.
"""

from __future__ import annotations

import importlib
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol, get_origin

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import test_every_method
from conditions import until
from lanes import at_each_commit, of_lane
from test_every_method import Calls, here, in_a_thread, is_method, noop, open_below, tried, twice, watched

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.offsets import DualOffsets, MemoryOffsets, SqliteOffsets
from checkpoint.offsets.store import Committed
from hosting import (
    App,
    CallbackSink,
    Deliveries,
    FileSource,
    GeneratorSource,
    JsonLinesSink,
    ListSource,
    Node,
    PushedStream,
    QueryEvaluator,
    SharedSource,
    SqliteTableSink,
    StoredStreamSource,
    StreamSource,
    Timing,
    open_group,
)
from hosting.partitioned.agent import Agent
from hosting.sources import FaultySource, KafkaSource, Stall
from hosting.sources.shared import SharedView
from hosting.sources.shared_partition import SharedReader
from reliable_rx.errors import ReliableRxError
from reliable_rx.reliable import DeadLetter, Origin
from spark_bridge import MicroBatchSink, MicroBatchSource
from spark_bridge.micro_batch_log import append

sys.path.insert(0, str(Path(__file__).with_name("kafka")))

VALUES = [0, 1, 2, 3, 4]
WAIT_S = 20.0
State = Callable[[Any], Any]


class Place(Protocol):
    """A thing and all around it: `meanwhile` is done while a call comes from a thread, `check` closes and looks."""

    def meanwhile(self) -> None: ...
    def check(self) -> None: ...


@dataclass
class Table:
    """What is tried: *make* it in a folder, put it into a state, call it."""

    kinds: list[type]
    make: Callable[[Path], Any]
    states: dict[str, State]
    calls: Calls
    inside: set[str] = field(default_factory=set)
    """What only the machinery around it calls, whose own tests play the states."""
    forks: bool = True
    """Whether it may be called in a child: native threads of a library do not live on there."""


# -- sources


class SourceWorld:
    """A source of five values, and a reader of it."""

    def __init__(self, folder: Path, source: Any, *, partition: str = "0", close: Callable[[], Any] = noop) -> None:
        self.folder, self.source, self.partition, self.close = folder, source, partition, close
        self.readers: list[Any] = []

    def open(self, at: int = 0) -> Any:
        self.readers.append(self.source.open(self.partition, at))
        return self.readers[-1]

    @property
    def reader(self) -> Any:
        return self.readers[0] if self.readers else self.open()

    def read(self, reader: Any) -> list[Any]:
        """Read to the end, or as far as there is something."""
        found: list[Any] = []

        def is_read() -> bool:
            batch = reader.fetch(2)
            found.extend(batch.values)
            return batch.ended or len(found) >= len(VALUES)

        until(is_read, "the five values")
        return [value["n"] if isinstance(value, dict) else value for value in found]

    def meanwhile(self) -> None:
        self.reader.fetch(1)

    def check(self) -> None:
        for reader in self.readers:
            tried(lambda w, reader=reader: reader.close(), self)  # type: ignore[misc]
        again = self.source.open(self.partition, 0)
        assert self.read(again) == VALUES
        again.close()
        self.close()


def csv(folder: Path) -> SourceWorld:
    (folder / "n.csv").write_text("n\n" + "".join(f"{n}\n" for n in VALUES))
    source = FileSource(folder / "n.csv", types={"n": int}, timestamp=lambda value: float(value["n"]))
    return SourceWorld(folder, source, partition="n.csv")


def json_lines(folder: Path) -> SourceWorld:
    (folder / "n.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in VALUES))
    return SourceWorld(folder, FileSource(folder / "n.jsonl"), partition="n.jsonl")


def keyed(folder: Path) -> SourceWorld:
    (folder / "n.csv").write_text("k,n\n" + "".join(f"a,{n}\nb,{n}\n" for n in VALUES))
    source = FileSource(folder / "n.csv", types={"n": int}, partition_by="k", on_bad_record="skip")
    return SourceWorld(folder, source, partition="b")


def in_order(folder: Path) -> SourceWorld:
    (folder / "n.csv").write_text("n\n" + "".join(f"{n}\n" for n in reversed(VALUES)))
    source = FileSource(folder / "n.csv", types={"n": int}, sort_by=lambda value: value["n"])
    return SourceWorld(folder, source, partition="n.csv")


def parquet(folder: Path) -> SourceWorld:
    pq.write_table(pa.table({"n": VALUES}), folder / "n.parquet")  # type: ignore[no-untyped-call]
    return SourceWorld(folder, FileSource(folder / "n.parquet"), partition="n.parquet")


def in_a_list(folder: Path) -> SourceWorld:
    return SourceWorld(folder, ListSource(VALUES, timestamp=float))


def generated(folder: Path) -> SourceWorld:
    return SourceWorld(folder, GeneratorSource(lambda i, _: i, count=5, timestamp=float))


def faulty(folder: Path) -> SourceWorld:
    return SourceWorld(folder, FaultySource(ListSource(VALUES), [Stall(at=2, fetches=2)]))


def logged(folder: Path) -> SourceWorld:
    append(folder / "log", [pa.record_batch({"n": VALUES})], batch=0)
    return SourceWorld(folder, MicroBatchSource(folder / "log"))


def pushed(folder: Path) -> SourceWorld:
    store = SqliteStore(folder / "store")
    stream = PushedStream(store.log("in"), wake=noop)
    stream.push(VALUES)
    return SourceWorld(folder, stream, close=store.close)


def streamed(folder: Path) -> SourceWorld:
    evaluator = hosted(MemoryStore())
    return SourceWorld(folder, StreamSource(evaluator.stream("q"), subscriber="me"), close=evaluator.close)


def stored(folder: Path) -> SourceWorld:
    store = SqliteStore(folder / "store")
    hosted(store).close()
    return SourceWorld(folder, StoredStreamSource(store, "q", subscriber="me"), close=store.close)


def hosted(store: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, retain_events=100)
    evaluator.source("n", ListSource(VALUES))
    evaluator.create("q", rx.source("n"))
    evaluator.start()
    while evaluator.step():
        pass
    evaluator.checkpoint()
    return evaluator


@cache
def topic() -> Callable[[], Any]:
    """Make a topic of five records in a cluster of this process; return what makes a source of it."""
    from kafka_cluster import Cluster

    cluster = Cluster()
    name = cluster.topic()
    cluster.produce(name, VALUES)
    return lambda: cluster.source(name)


def from_kafka(folder: Path) -> SourceWorld:
    return SourceWorld(folder, topic()())


def shared(folder: Path) -> SourceWorld:
    return SourceWorld(folder, SharedSource(ListSource(VALUES), stream_of=lambda value: "even" if value % 2 else "odd"))


def viewed(folder: Path) -> SourceWorld:
    return SourceWorld(folder, SharedSource(ListSource(VALUES)).named("me"))


SOURCE_STATES: dict[str, State] = {
    "before": noop,
    "open": lambda w: w.open(),
    "running": lambda w: w.open().fetch(2),
    "ended": lambda w: w.read(w.open()),
    "closed": lambda w: (w.open().fetch(2), w.reader.close()),
    "beside": lambda w: (w.open().fetch(2), w.open(1).fetch(1)) if not is_alone(w) else w.open(),
}


def is_alone(w: SourceWorld) -> bool:
    """Whether a partition may be open once at a time."""
    return isinstance(w.source, (SharedView, StreamSource, StoredStreamSource, KafkaSource))


SOURCE: Calls = {
    "partitions": lambda w: w.source.partitions(),
    "open": lambda w: w.source.open(w.partition, 1).close(),
    "open nowhere": lambda w: w.source.open("nowhere", 0),
    "open behind": lambda w: w.source.open(w.partition, 10**6).fetch(1),
    "open before": lambda w: w.source.open(w.partition, -1),
    "bounds": lambda w: asked(w.source, "bounds", w.partition),
    "find": lambda w: asked(w.source, "find", w.partition, 2.0),
    "listing": lambda w: asked(w.source, "listing"),
    "extent": lambda w: asked(w.source, "extent", w.partition),
    "growth": lambda w: asked(w.source, "growth", w.partition, {str(w.folder / "n.csv"): 1}),
    "trouble": lambda w: getattr(w.source, "trouble", None),
    "is_drained": lambda w: asked(w.source, "is_drained"),
    "definition": lambda w: asked(w.source, "definition"),
    "numbering": lambda w: asked(w.source, "numbering"),
    "reader.fetch": lambda w: w.reader.fetch(1),
    "reader.fetch none": lambda w: w.reader.fetch(0),
    "reader.acknowledge": lambda w: w.reader.acknowledge(-1),
    "reader.on_available": lambda w: asked(w.reader, "on_available", noop),
    "reader.close": lambda w: w.reader.close(),
    # of a log alone
    "release": lambda w: asked(w.source, "release") if isinstance(w.source, MicroBatchSource) else None,
    "events": lambda w: getattr(w.source, "events", None),
    "end_of": lambda w: getattr(w.source, "end_of", None),
}
LOG_INSIDE = {"on_bell", "off_bell", "events", "end_of"}
SHARED: Calls = {
    "named": lambda w: w.source.named("somebody").open("0", 2).close(),
    "named oddly": lambda w: w.source.named(""),
    "release": lambda w: w.source.release("somebody"),
    "stream": lambda w: w.source.stream("even", name="somebody", partition="0").open("0", 0).close(),
    "stream of all": lambda w: w.source.stream("odd").open("0", 0).close(),
    "watch": lambda w: w.source.watch(noop),
    "unwatch": lambda w: w.source.unwatch(noop),
    "new_cache": lambda w: w.source.new_cache("0", 0),
    "partition": lambda w: w.source.partition("0"),
    "partitions": lambda w: w.source.partitions(),
    "open": lambda w: w.source.open("0", 1).close(),
    "fetch behind": lambda w: w.source.open("0", 9).fetch(1),
}
SHARED_READER_INSIDE = {"join", "leave", "part"}
READER: Calls = {
    "fetch": lambda w: w.reader.fetch(1),
    "acknowledge": lambda w: w.reader.acknowledge(1),
    "close": lambda w: w.reader.close(),
    "on_available": lambda w: w.reader.on_available(noop),
}


def asked(what: Any, name: str, *arguments: Any) -> Any:
    """Call a method that not all have."""
    method = getattr(what, name, None)
    return None if method is None else method(*arguments)


# -- sinks


class SinkWorld:
    """A sink at its place, and what the place has in the end."""

    def __init__(self, folder: Path, make: Callable[[], Any]) -> None:
        self.folder, self.make, self.sink = folder, make, make()
        self.next: Any = 0

    def begin(self) -> None:
        self.next = self.sink.open("s") or 0

    def write(self, *values: int) -> None:
        self.sink.write(self.next, [{"n": value} for value in values])
        self.next += len(values)

    def end(self) -> None:
        self.sink.end(self.next, None)
        self.next = None

    def meanwhile(self) -> None:
        """A sink has one writer: nothing else is done with it."""

    def check(self) -> None:
        tried(lambda w: w.sink.close(), self)
        assert not open_below(self.folder), "something is open though the sink is closed"
        again = self.make()
        if hasattr(again, "fence"):
            again.fence(9)
        at = again.open("s") or 0
        if self.next is not None:
            again.write(at, [{"n": 7}])
            again.flush()
        again.close()


SINK_STATES: dict[str, State] = {
    "before": noop,
    "fenced": lambda w: asked(w.sink, "fence", 1),
    "open": SinkWorld.begin,
    "fenced and open": lambda w: (asked(w.sink, "fence", 1), w.begin()),
    "written": lambda w: (w.begin(), w.write(1, 2)),
    "flushed": lambda w: (w.begin(), w.write(1, 2), w.sink.flush()),
    "closed": lambda w: (w.begin(), w.write(1, 2), w.sink.close()),
    "fenced and closed": lambda w: (asked(w.sink, "fence", 1), w.begin(), w.sink.close()),
    "failed": lambda w: taken_over(w),
}


def taken_over(w: SinkWorld) -> None:
    """Another one has fenced the place while this one has it open."""
    asked(w.sink, "fence", 1)
    w.begin()
    w.write(1)
    if hasattr(w.sink, "fence"):
        other = w.make()
        other.fence(5)
        other.close()


LETTER = DeadLetter("s", "", 0, {"n": 0}, "why", "trace")
SINK: Calls = {
    "target": lambda w: getattr(w.sink, "target", None),
    "label": lambda w: getattr(w.sink, "label", None),
    "keeps_letters": lambda w: getattr(w.sink, "keeps_letters", True),
    "fence": lambda w: asked(w.sink, "fence", 3),
    "open": lambda w: w.sink.open("s"),
    "claim": lambda w: asked(w.sink, "claim", Origin("s")),
    "stored_position": lambda w: w.sink.stored_position("s"),
    "write": lambda w: w.write(3),
    "write twice": lambda w: w.sink.write(0, [{"n": 1}]),
    "write a gap": lambda w: w.sink.write(w.next + 5, [{"n": 1}]),
    "end": lambda w: w.end(),
    "skip": lambda w: asked(w.sink, "skip", w.next, w.next + 1, "why", LETTER),
    "flush": lambda w: w.sink.flush(),
    "close": lambda w: w.sink.close(),
}


# -- offsets


class OffsetsWorld:
    """An offset store, and what was committed."""

    def __init__(self, folder: Path, make: Callable[[], Any], *, closes: bool = True) -> None:
        self.folder, self.make, self.closes = folder, make, closes
        self.offsets = make()

    def meanwhile(self) -> None:
        self.offsets.fetch("g")

    def check(self) -> None:
        if self.closes:
            tried(lambda w: w.offsets.close(), self)
            assert not open_below(self.folder), "something is open though the store is closed"
        again = self.make()
        again.claim("g", LEASES)
        again.commit("g", {P: 7}, LEASES)
        assert again.fetch("g")[P].position == 7
        asked(again, "close")


P = ("flights", "0")
LEASES = {P: ("me", 1)}
OFFSETS_STATES: dict[str, State] = {
    "before": noop,
    "committed": lambda w: (w.offsets.claim("g", LEASES), w.offsets.commit("g", {P: 3}, LEASES)),
    "closed": lambda w: (w.offsets.claim("g", LEASES), asked(w.offsets, "close")),
}
OFFSETS: Calls = {
    "fetch": lambda w: w.offsets.fetch("g"),
    "claim": lambda w: w.offsets.claim("g", LEASES),
    "commit": lambda w: w.offsets.commit("g", {P: 5}, LEASES),
    "commit for others": lambda w: w.offsets.commit("g", {P: 5}, {P: ("another", 9)}),
    "reset": lambda w: w.offsets.reset("g", {P: 1}),
    "delete": lambda w: w.offsets.delete("g"),
    "groups": lambda w: w.offsets.groups(),
    "load": lambda w: asked(w.offsets, "load"),
    "compact": lambda w: asked(w.offsets, "compact"),
    "charge": lambda w: asked(w.offsets, "charge", "g"),
    "charge_number": lambda w: asked(w.offsets, "charge_number", "g"),
    "adopt": lambda w: None if is_dual(w) else w.offsets.adopt("g", {P: Committed(2, 1, "me")}, exactly=False),
    "stored": lambda w: asked(w.offsets, "stored", "g"),
    "paired": lambda w: getattr(w.offsets, "paired", None),
    "where": lambda w: getattr(w.offsets, "where", None),
    "beside": lambda w: asked(w.offsets, "beside"),
    "close": lambda w: asked(w.offsets, "close"),
}
OFFSETS_INSIDE = {"put_in_charge", "crash"}


def is_dual(w: OffsetsWorld) -> bool:
    return isinstance(w.offsets, DualOffsets)


def authority(group: str, partition: Any) -> Any:
    return LEASES.get(partition)


def in_memory(folder: Path) -> OffsetsWorld:
    first = MemoryOffsets(authority)
    made: list[Any] = []

    def make() -> Any:
        made.append(first.beside() if made else first)
        return made[-1]

    return OffsetsWorld(folder, make)


def in_a_file(folder: Path) -> OffsetsWorld:
    return OffsetsWorld(folder, lambda: SqliteOffsets(folder, authority))


def in_two(folder: Path) -> OffsetsWorld:
    both = DualOffsets(MemoryOffsets(authority), MemoryOffsets(authority))
    return OffsetsWorld(folder, lambda: both, closes=False)


# -- deliveries


class Consumer:
    def __init__(self) -> None:
        self.records: list[Any] = []

    def deliver(self, records: Any, after: int, /) -> None:
        self.records += records

    def end(self, n: int, error: Exception | None, /) -> None: ...


class DeliveriesWorld:
    """Deliveries with a stored subscription, which has every value once however it is cut short."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.consumer = folder, MemoryStore(), Consumer()
        self.deliveries = Deliveries(store=self.store)
        self.shared = SharedSource(ListSource(VALUES), stream_of=str)

    def subscribe(self, name: str = "me") -> Any:
        return self.deliveries.subscribe("s", self.consumer, name=name, at=0)

    def offer(self) -> None:
        self.deliveries.offer("s", ListSource(VALUES))

    def meanwhile(self) -> None:
        self.deliveries.subscriptions("s")

    def deliver(self) -> None:
        subscription = self.subscribe()
        self.offer()
        assert self.deliveries.wait(lambda: subscription.status == "ended", timeout_s=WAIT_S)

    def check(self) -> None:
        tried(lambda w: w.deliveries.close(), self)
        went = [n for n, _ in self.consumer.records]
        assert went == sorted(set(went)), "each event was delivered once, in order"
        assert not [each for each in threading.enumerate() if each.name.startswith("deliveries ") and not each.daemon]


DELIVERIES_STATES: dict[str, State] = {
    "before": noop,
    "subscribed": DeliveriesWorld.subscribe,
    "offered": DeliveriesWorld.offer,
    "running": DeliveriesWorld.deliver,
    "followed": lambda w: w.deliveries.follow(w.shared),
    "closed": lambda w: (w.deliver(), w.deliveries.close()),
}
DELIVERIES: Calls = {
    "subscribe": lambda w: w.deliveries.subscribe("s", Consumer(), name="another", at=0),
    "subscribe again": lambda w: w.deliveries.subscribe("s", Consumer(), name="me"),
    "unsubscribe": lambda w: w.deliveries.unsubscribe("s", "me"),
    "implicit": lambda w: w.deliveries.implicit("rule", lambda name: True, lambda name: Consumer()),
    "subscriptions": lambda w: w.deliveries.subscriptions("s"),
    "offer": lambda w: w.deliveries.offer("s", ListSource(VALUES)),
    "withdraw": lambda w: w.deliveries.withdraw("s"),
    "follow": lambda w: w.deliveries.follow(w.shared),
    "unfollow": lambda w: w.deliveries.unfollow(w.shared),
    "wait": lambda w: w.deliveries.wait(lambda: True, timeout_s=1.0),
    "close": lambda w: w.deliveries.close(),
}


# -- nodes


class NodeWorld:
    """A node over two partitions, which are each read once by whoever comes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.got = folder, list[tuple[str, int]]()
        self.shared = open_group(folder, "g")
        self.node = self.made()
        self.thread: threading.Thread | None = None
        self.raised: list[BaseException] = []
        self.asked: list[Agent] = []

    def made(self) -> Node:
        app = App()
        app.query("q", app.source("n", ListSource({"a": VALUES, "b": VALUES}, follow=True)))
        app.sink("q", lambda place: CallbackSink(lambda n, value: self.got.append((place.partition, n))))
        return Node(app, *self.shared, group="g", timing=Timing(session_s=2.0, closing_s=5.0, gather_s=0.0))

    def start(self) -> None:
        def run() -> None:
            try:
                self.node.run()
            except BaseException as error:
                self.raised.append(error)

        self.thread = threading.Thread(target=run, name="the node", daemon=True)
        self.thread.start()

    def running(self) -> None:
        self.start()
        until(lambda: len(set(self.got)) == 2 * len(VALUES), "both partitions")

    def stopped(self) -> None:
        self.running()
        self.node.stop()
        self.join()

    def join(self) -> None:
        if self.thread is not None:
            self.thread.join(WAIT_S)
            assert not self.thread.is_alive(), "the node does not end"

    @property
    def agent(self) -> Any:
        return next(iter(self.node.agents.values()))

    def meanwhile(self) -> None:
        assert len(self.node.agents) <= 2

    def check(self) -> None:
        self.node.stop()
        if self.thread is None:
            with suppress(ReliableRxError, RuntimeError):
                self.node.run()
        self.join()
        assert not self.raised, self.raised
        self.shared.close()
        for partition in "ab":
            ids = [n for name, n in self.got if name == partition]
            assert list(dict.fromkeys(ids)) == [*range(len(set(ids)))], "in order, and nothing left out"


NODE_STATES: dict[str, State] = {
    "before": noop,
    "running": NodeWorld.running,
    "stopping": lambda w: (w.running(), w.node.stop()),
    "stopped": NodeWorld.stopped,
}
NODE: Calls = {
    "agents": lambda w: w.node.agents,
    "failing": lambda w: w.node.failing,
    "has_left": lambda w: w.node.has_left,
    "replaced": lambda w: w.node.replaced,
    "run": lambda w: (w.node.stop(), w.node.run()),
    "stop": lambda w: w.node.stop(),
}
AGENT_STATES: dict[str, State] = {"running": NodeWorld.running}
AGENT: Calls = {
    "asleep": lambda w: w.agent.asleep,
    "wake": lambda w: w.agent.wake(),
    "close": lambda w: w.agent.close(),
}
AGENT_INSIDE = {
    "abandon",
    "step",
    "tell_hang",
}  # the node's when it ends, and the crew's, one thread at a time: test_agents_end.py


# -- all of it


def sinks(make: Callable[[Path], Any]) -> Callable[[Path], SinkWorld]:
    return lambda folder: SinkWorld(folder, lambda: make(folder))


SCHEMA = pa.schema([("n", pa.int64())])
FILES = {"csv": csv, "json lines": json_lines, "keyed": keyed, "sorted": in_order, "parquet": parquet}
TABLES: dict[str, Table] = {
    **{name: Table([FileSource], make, SOURCE_STATES, SOURCE) for name, make in FILES.items()},
    "list": Table([ListSource], in_a_list, SOURCE_STATES, SOURCE),
    "generated": Table([GeneratorSource], generated, SOURCE_STATES, SOURCE),
    "faulty": Table([FaultySource], faulty, SOURCE_STATES, SOURCE),
    "log": Table([MicroBatchSource], logged, SOURCE_STATES, SOURCE, LOG_INSIDE, forks=False),
    "pushed": Table([], pushed, SOURCE_STATES, SOURCE),
    "stream": Table([StreamSource], streamed, SOURCE_STATES, SOURCE),
    "stored": Table([StoredStreamSource], stored, SOURCE_STATES, SOURCE),
    "kafka": Table([KafkaSource], from_kafka, SOURCE_STATES, SOURCE, forks=False),
    "shared": Table([SharedSource], shared, SOURCE_STATES, SHARED),
    "reader of a shared one": Table([SharedReader], shared, SOURCE_STATES, READER, SHARED_READER_INSIDE),
    "view of a shared one": Table([SharedView], viewed, SOURCE_STATES, SOURCE),
    "sink of lines": Table(
        [JsonLinesSink], sinks(lambda folder: JsonLinesSink(folder / "out.jsonl")), SINK_STATES, SINK
    ),
    "sink of a table": Table(
        [SqliteTableSink], sinks(lambda folder: SqliteTableSink(folder / "out.db", "t")), SINK_STATES, SINK,
        {"forget_in_child"},
    ),
    "sink of calls": Table([CallbackSink], sinks(lambda folder: CallbackSink(noop)), SINK_STATES, SINK),
    "sink of a log": Table(
        [MicroBatchSink], sinks(lambda folder: MicroBatchSink(folder / "log", SCHEMA)), SINK_STATES, SINK, forks=False
    ),
    "offsets in memory": Table([MemoryOffsets], in_memory, OFFSETS_STATES, OFFSETS, OFFSETS_INSIDE),
    "offsets in a file": Table([SqliteOffsets], in_a_file, OFFSETS_STATES, OFFSETS, OFFSETS_INSIDE),
    "offsets in two": Table([DualOffsets], in_two, OFFSETS_STATES, OFFSETS),
    "deliveries": Table([Deliveries], DeliveriesWorld, DELIVERIES_STATES, DELIVERIES),
    "node": Table([Node], NodeWorld, NODE_STATES, NODE, forks=False),
    "agent": Table([Agent], NodeWorld, AGENT_STATES, AGENT, AGENT_INSIDE, forks=False),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_every_public_method_has_a_call(name: str) -> None:
    """A public method that the table does not name is not tried in any state: name it, or say who alone calls it."""
    table = TABLES[name]
    public = {each for kind in table.kinds for each, _ in inspect.getmembers(kind, is_method) if each[0] != "_"}
    assert public - table.calls.keys() - table.inside == set()


def in_a_fork(call: Callable[[Any], Any], world: Any) -> None:
    """In a child of the process, which owns nothing of what it has."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(120)
        try:
            tried(call, world)
            os._exit(0)
        except BaseException:
            os._exit(4)
    _, status = os.waitpid(child, 0)
    assert os.WIFEXITED(status), "the child hung"
    assert os.WEXITSTATUS(status) == 0, "another error in the child"


FROM = {"here": here, "twice": twice, "thread": in_a_thread, "fork": in_a_fork}


def play(folder: Path, table: Table, state: str, name: str, origin: str) -> None:
    world: Place = table.make(folder)
    try:
        table.states[state](world)
        FROM[origin](table.calls[name], world)
    finally:
        world.check()
    assert not open_below(folder), "something is left open"


QUICK = ("list", "shared", "sink of lines", "sink of calls", "offsets in memory", "deliveries")
CASES = [
    pytest.param(name, origin) if origin == "here" and name in QUICK else at_each_commit(name, origin)
    for name, table in TABLES.items()
    for origin in FROM
    if origin != "fork" or table.forks
]


@pytest.mark.parametrize("name, origin", of_lane(CASES))
def test_every_method_in_every_state(name: str, origin: str, tmp_path: Path) -> None:
    """In whatever state and wherever from, a method ends soon, works or says why not, and nothing is lost or left."""
    table, wrong = TABLES[name], list[str]()
    for number, (state, call) in enumerate((state, call) for state in table.states for call in table.calls):
        folder = tmp_path / str(number)
        folder.mkdir()
        why = watched(lambda: play(folder, table, state, call, origin))  # it is called at once
        wrong += [f"{call} when {state}: {why}"] if why else []
    assert not wrong, "\n".join(wrong)


# -- every class

PACKAGES = (
    "reliable_rx", "hosting", "hosting.sources", "hosting.sinks", "hosting.partitioned", "hosting.bulk",
    "checkpoint", "checkpoint.offsets", "spark_bridge", "spark_bridge.keyed", "spark_bridge.micro_batch_log",
)  # fmt: skip
STATELESS = {
    "Query": "a frozen tree; nothing runs",
    "Inner": "a frozen tree; nothing runs",
    "KeyRing": "frozen keys",
    "HashRing": "a pure function of its names",
    "Assignor": "a pure function",
    "Emitted": "the rows of one batch, made and taken by one call of a bucket",
}
ELSEWHERE = {
    "QueryEngine": "single-threaded, behind the evaluator's lock: test_engine_*.py and the evaluator's table",
    "Committer": "of a node's loop alone: test_offsets_committer.py plays its states",
    "Migration": "test_offsets_dual.py and model/ play its phases",
    "PostgresStore": "needs a server: the contract in test_checkpoint_stores.py and test_checkpoint_postgres.py",
    "PostgresReader": "needs a server, as PostgresStore",
    "PostgresOffsets": "needs a server: test_offsets.py has it beside the others",
    "SqliteReader": "what `read_only` of the store's table returns; test_checkpoint_sqlite.py",
    "SparkCompanion": "needs Spark: spark/test_spark_operation.py",
    "Bucket": "called by Spark's worker alone, once per batch: test_spark_keyed.py",
    "KeyedQuery": "a frozen description: test_spark_keyed.py",
}


def public_classes() -> dict[str, type]:
    found: dict[str, type] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind) and get_origin(kind) is None and not kind.__module__.startswith("reactivex"):
                found[name] = kind
    return found


def is_data(kind: type) -> bool:
    """Whether *kind* is an error, a protocol, an enum or a record: it has no states of its own."""
    records = hasattr(kind, "__dataclass_fields__") or issubclass(kind, (tuple, BaseException))
    return records or getattr(kind, "_is_protocol", False) or hasattr(kind, "__members__")


def test_every_public_class_is_in_a_table() -> None:
    """Who makes a class public says in which states its methods are tried, or that it has none, or who plays them."""
    tried_here = {kind.__name__ for table in TABLES.values() for kind in table.kinds}
    tried_there = {kind.__name__ for kinds, _, _ in test_every_method.TABLES.values() for kind in kinds}
    known = tried_here | tried_there | STATELESS.keys() | ELSEWHERE.keys()
    classes = public_classes()
    assert {name for name, kind in classes.items() if not is_data(kind)} - known == set()
    assert STATELESS.keys() | ELSEWHERE.keys() <= classes.keys(), "a name in a list is that of no class"
    assert not (STATELESS.keys() | ELSEWHERE.keys()) & (tried_here | tried_there)
