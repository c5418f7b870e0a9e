"""Streams of another group, read live: over hand-overs, owners that do not know they are superseded, and crashes."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stream_writer_process import BUFFER_MAX, PARTITION, lease, shards, writer

import reliable_rx as rx
from checkpoint import MemoryStore, encode
from checkpoint.offsets import MemoryOffsets
from checkpoint.store import Checkpoint, StoreReader
from hosting import App, CallbackSink, GeneratorSource, ListSource, QueryEvaluator
from hosting.partitioned.folder_stores import FolderStores
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.readers import FarReader, Readers
from hosting.partitioned.sections import sections_of
from hosting.partitioned.stream_source import GroupStreamSource
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Epoch, Partition
from hosting.sources import Merge, Split
from reliable_rx.errors import LeaseLost, OffsetsLoading, PositionUnavailable, StoreUnavailable
from reliable_rx.reliable import Listing
from reliable_rx.testing import check_ledger, check_source

COUNT = 120
KEY = ("sums", "0")
READER = FarReader("reports", "sums", "sums")


class World:
    """A group that writes, one owner after the other and some at once; a group that reads, crashes and commits."""

    def __init__(self, root: str) -> None:
        self.stores = FolderStores(root)
        self.epoch = 0
        self.former: list[Any] = []
        self.offsets = MemoryOffsets(lambda group, partition: ("reader", 1))
        self.readers = Readers(self.offsets, [READER])
        self.take_over()
        self.own = MemoryStore()
        self.reader = self.make_reader()

    def take_over(self) -> None:
        """A new owner; the former one does not know."""
        self.epoch += 1
        store = self.stores.open(lease(self.epoch))
        source = GeneratorSource(lambda i, _: i, count=COUNT)
        self.writer = writer(store, source, background=False, checkpoint_interval_s=1e9)
        self.readers.hold(self.writer)
        self.writer.start()
        self.former.append((self.writer, store))

    def zombies(self) -> None:
        """Former owners go on: what they commit with outputs of their own is refused, and must not be seen."""
        phantom = encode(([-1, -2, -3], False, None))
        for evaluator, store in self.former[:-1]:
            number = evaluator.checkpointer.generation + 1
            late = Checkpoint(number, "full", evaluator.engine.number, b"", (b"",), 1)
            with pytest.raises(LeaseLost):
                store.commit(late, outputs={"sums": [(evaluator.stream("sums").next_id, 3, phantom)]})

    def make_reader(self) -> QueryEvaluator:
        reader = QueryEvaluator(self.own, background=False, checkpoint_interval_s=1e9, batch_events_max=7)
        reader.source("sums", GroupStreamSource(self.stores, shards, "sums"))
        reader.create("seen", rx.source("sums").map(lambda total: total))
        reader.create("count", rx.source("sums").count())
        return reader

    def commit(self) -> None:
        """Checkpoint, and then commit what is in it."""
        self.reader.checkpoint()
        self.offsets.commit("reports", {KEY: self.reader.intake.positions()[KEY]}, {KEY: ("reader", 1)})
        self.readers.tell(self.writer, "0")

    def crash(self) -> None:
        self.own = self.own.reopen()
        self.reader.intake.close()
        self.reader = self.make_reader()

    def close(self) -> None:
        self.reader.close()
        for evaluator, store in self.former:
            evaluator.abandon()
            store.close()


ACTIONS: dict[str, Callable[[World], object]] = {
    "write": lambda world: [world.writer.step() for _ in range(3)],
    "checkpoint": lambda world: world.writer.checkpoint(),
    "take over": World.take_over,
    "zombies": World.zombies,
    "read": lambda world: [world.reader.step() for _ in range(3)],
    "commit": World.commit,
    "crash": World.crash,
}


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([*ACTIONS, "write", "write", "checkpoint", "read", "commit"]), max_size=24))
def test_every_value_once_and_in_order(actions: list[str]) -> None:
    """Whoever owns the writing partition, and whatever former owners still try: the reader gets each sum once, then the
    end, though the writer keeps next to nothing for anybody else."""
    with tempfile.TemporaryDirectory() as root:
        world = World(root)
        for action in actions:
            ACTIONS[action](world)
        for _ in range(2 * COUNT):
            world.writer.step()
            world.reader.step()
            if world.reader.intake.all_ended:
                break
            world.writer.checkpoint()
        while world.reader.step():
            pass
        seen = [value for part in world.reader.stream("seen").read(0, 1000) for value in part.values]
        check_ledger([sum(range(n + 1)) for n in range(COUNT)], seen).check("the stream of the other group")
        assert [v for part in world.reader.stream("count").read(0, 9) for v in part.values] == [COUNT]
        world.close()


def outputs(values: list[int], *, before: MemoryStore | None = None) -> MemoryStore:
    """Make a store as an owner leaves it that has emitted *values*."""
    store = MemoryStore() if before is None else before
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource(values, follow=True))
    evaluator.create("sums", rx.source("n").map(lambda n: n))
    while evaluator.step():
        pass
    evaluator.checkpoint()
    return store


class Scripted:
    """Stores of epochs that change between one question and the next."""

    def __init__(self, stores: dict[int, Any], epochs: list[int]) -> None:
        self.stores, self.epochs = stores, epochs
        self.now = 0

    def newest(self, partition: Partition, /) -> Epoch:
        self.now = self.epochs.pop(0) if self.epochs else self.now
        return Epoch(self.now)

    def look(self, partition: Partition, /) -> StoreReader | None:
        store = self.stores[self.now]
        if isinstance(store, Exception):
            raise store
        return store


def read(stores: Any, at: int = 0, **options: Any) -> Any:
    return GroupStreamSource(stores, shards, "sums", **options).open("0", at)


def test_what_a_superseded_owner_wrote_does_not_count() -> None:
    """An epoch that is gone when the read is over has shown nothing: its successor's events come under the same ids."""
    phantom, real = outputs([1, 2, 66, 67]), outputs([1, 2, 3, 4])
    reader = read(Scripted({1: phantom, 2: real}, epochs=[1, 2]))
    assert list(reader.fetch(10).values) == [1, 2, 3, 4]
    steady = read(Scripted({1: phantom}, epochs=[1]))
    assert list(steady.fetch(10).values) == [1, 2, 66, 67]


def test_a_store_that_is_being_taken_over_is_waited_for() -> None:
    """It cannot be opened for a while; when that lasts it is an error, and a damaged store is one at once."""
    away = StoreUnavailable("being taken over")
    stores = Scripted({1: outputs([1, 2]), 2: away}, epochs=[2])
    reader = read(stores)
    assert reader.fetch(10).values == ()
    stores.stores[2] = outputs([1, 2, 3])
    assert list(reader.fetch(10).values) == [1, 2, 3]
    with pytest.raises(StoreUnavailable):
        read(Scripted({1: away}, epochs=[1]), patience_s=0.0).fetch(1)


def test_what_was_forgotten_is_an_error_and_not_a_gap() -> None:
    """A reader behind what the writer holds, or before it, is told so; a partition without a store has nothing yet."""
    stores = Scripted({1: outputs([1, 2, 3])}, epochs=[1])
    with pytest.raises(PositionUnavailable, match=r"holds ids 0 to 3 .*not 7.*FarReader"):
        read(stores, 7).fetch(1)
    assert read(Scripted({}, epochs=[0])).fetch(5).values == ()
    for stores in (Scripted({}, epochs=[0]), Scripted({1: MemoryStore()}, epochs=[1])):  # nobody, or nothing written
        assert read(stores).bounds() == (0, 0)


def test_streams_that_ended_keep_the_promises_of_a_source(tmp_path: Path) -> None:
    """`check_source` holds for partitions of a group that are over."""
    stores = FolderStores(tmp_path)
    with stores.open(lease(1)) as store:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2, 3, 4]))
        evaluator.create("sums", rx.source("n").scan(lambda total, n: total + n, 0))
        evaluator.run()
        evaluator.checkpoint()
        evaluator.close()
    check_source(lambda: GroupStreamSource(stores, shards, "sums"))
    assert GroupStreamSource(stores, shards, "sums").bounds("0") == (0, 4)
    assert GroupStreamSource(stores, shards, "sums").listing() == [Listing("0")]


def test_a_reader_that_lags_stops_the_writer_and_is_kept_for() -> None:
    """Declared, never seen: nothing is forgotten, and the turns stop when the buffer is full; a commit lets them go
    on. An offset store that cannot be read lets nothing go."""
    offsets = MemoryOffsets(lambda group, partition: ("reader", 1))
    readers = Readers(offsets, [READER, FarReader("reports", "sums", "another section's")])
    store = MemoryStore()
    evaluator = writer(store, GeneratorSource(lambda i, _: i, count=10 * BUFFER_MAX), background=False)
    readers.hold(evaluator)
    while evaluator.step():
        readers.tell(evaluator, "0")
    evaluator.checkpoint()
    assert BUFFER_MAX < evaluator.stream("sums").next_id <= BUFFER_MAX + 50
    bounds = store.bounds("sums")
    assert bounds is not None
    assert bounds[0] == 0

    class Loading:
        def fetch(self, group: str, partitions: Any) -> Any:
            raise OffsetsLoading("still loading", where="memory")

    Readers(Loading(), [READER]).tell(evaluator, "0")  # type: ignore[arg-type]
    assert not evaluator.step()
    for commit in (300, 600, 900):
        offsets.commit("reports", {KEY: commit}, {KEY: ("reader", 1)})
        readers.tell(evaluator, "0")
        while evaluator.step():
            pass
        evaluator.checkpoint()
        assert evaluator.stream("sums").next_id > BUFFER_MAX + commit - 50
    bounds = store.bounds("sums")
    assert bounds is not None
    assert 0 < bounds[0] <= 900


def test_two_groups_one_behind_the_other(tmp_path: Path) -> None:
    """A group reads the streams of another, partition by partition, while it writes: splits and merges go through both,
    each event comes out once, in the order of the lineage, and both groups end."""
    script = [Split(partition="p", at=30, into=("a", "b")), Merge(ends={"a": 10, "b": 20}, into="m")]
    ends, got = {"p": 30, "a": 10, "b": 20, "m": 40}, list[tuple[str, int, int]]()
    first, second = App(checkpoint_interval_s=0.05, retain_events=1), App(checkpoint_interval_s=0.05)
    source = GeneratorSource(lambda i, _: i, partitions=("p",), script=script, count=40)
    first.query("doubled", first.source("n", source).map(lambda n: n * 2))
    (section,) = sections_of(first)
    here, there = open_group(tmp_path, "first"), open_group(tmp_path, "second")
    doubled = second.source("doubled", GroupStreamSource(here.stores, section.shards, "doubled"))
    second.query("tenfold", doubled.map(lambda n: n * 5))
    second.sink("tenfold", lambda place: CallbackSink(lambda n, value: got.append((place.partition.name, n, value))))
    quick = {"timing": Timing(gather_s=0.0), "period_s": 0.2, "commit_interval_s": 0.05}
    nodes = [
        Node(first, *here, group="first", readers=[FarReader("second", "doubled", "doubled")], **quick),
        Node(second, *there, group="second", **quick),
    ]  # fmt: skip
    threads = [threading.Thread(target=node.run, kwargs={"until_ended": True}) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for node in nodes:
        node.stop()
    assert not any(thread.is_alive() for thread in threads)
    assert sorted(got) == sorted((name, n, 10 * n) for name, end in ends.items() for n in range(end))
    order = [name for name, _, _ in got]
    assert order.index("m") > max(place for place, name in enumerate(order) if name in "ab")
    assert order[: ends["p"]] == ["p"] * ends["p"]
    here.close()
    there.close()


@pytest.mark.slow
def test_processes_that_are_killed_and_stopped_while_somebody_reads(tmp_path: Path) -> None:
    """Owners are killed, or stopped and continued when they are superseded; the reader in another process sees every
    value once, in order, while they write."""
    count, seen, stopped = 4000, list[int](), list[subprocess.Popen[str]]()
    reader = GroupStreamSource(FolderStores(tmp_path), shards, "sums").open("0", 0)
    epoch, process = 1, start(tmp_path, 1, count)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        batch = reader.fetch(100)
        seen += batch.values
        if batch.ended:
            break
        if len(seen) >= epoch * count // 6 and epoch < 5:
            process.send_signal(signal.SIGSTOP if epoch % 2 else signal.SIGKILL)
            stopped.append(process)
            epoch += 1
            process = start(tmp_path, epoch, count)
            for each in stopped:
                each.send_signal(signal.SIGCONT)
    for each in [*stopped, process]:
        each.kill()
        each.communicate()
    reader.close()
    check_ledger([sum(range(n + 1)) for n in range(count)], seen).check("what was read live")
    assert FolderStores(tmp_path).newest(PARTITION) == epoch == 5


def start(root: Path, epoch: int, count: int) -> subprocess.Popen[str]:
    script = Path(__file__).with_name("stream_writer_process.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(root), str(epoch), str(count)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process
