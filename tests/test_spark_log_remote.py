"""A log in an object store: the same promises over fsspec, deaths between puts, and stores that would overwrite.

fsspec's own store in memory stands in for a real one: it creates exclusively, and its puts are whole.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from spark_log_world import Spark, table

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable
from reliable_rx.testing import check_source
from reliable_rx.testing.faults import ProcessDied
from spark_bridge import MicroBatchSource, readers, release
from spark_bridge.micro_batch_log import LogRefused, append, names
from spark_bridge.micro_batch_log.disk import new_log_disk
from spark_bridge.micro_batch_log.remote import RemoteLogDisk
from spark_bridge.micro_batch_log.retention import Held, acknowledge, register, retain
from spark_bridge.micro_batch_log.writer import LogWriter

fsspec = pytest.importorskip("fsspec")
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402

WAIT_S = 60.0
MANY = 6000


@pytest.fixture
def url() -> Iterator[str]:
    """Give a fresh place in fsspec's memory."""
    place = f"/logs-{uuid.uuid4().hex}"
    yield f"memory:/{place}"
    MemoryFileSystem().rm(place, recursive=True)


def test_batches_are_there_once_and_forgotten(url: str) -> None:
    """Inline and in objects of their own, again and with gaps; two readers, a release, what is acknowledged goes."""
    spark = Spark(url)
    spark.run(0, table(0), table(*range(1, MANY)))
    spark.run(2, table(MANY))
    assert spark.run(0, table(*range(1, MANY)), table(0)).again
    assert spark.numbers() == [*range(MANY + 1)]
    assert len(spark.files()) == 1
    source, other = MicroBatchSource(url), MicroBatchSource(url, reader="other")
    reader = source.open("0", 0)
    other.open("0", 0).close()
    assert [row["n"] for row in reader.fetch(10**6).values] == [*range(MANY + 1)]
    reader.acknowledge(MANY)
    assert source.bounds("0") == (0, MANY + 1)
    assert readers(url) == ["evaluator", "other"]
    release(url, "other")
    retain(spark.view())
    assert source.bounds("0") == (MANY, MANY + 1)
    assert not spark.files()


def test_it_keeps_the_promises_of_a_source(url: str) -> None:
    """What check_source asks holds at every position, over objects as over files."""
    for batch, rows in enumerate((range(20), [20], range(21, 24))):
        append(url, [table(*rows)], batch=batch)
    MicroBatchSource(url, reader="keeper").open("0", 0).close()
    check_source(lambda: MicroBatchSource(url), finite=False, positions_max=8)


def test_a_batch_wakes_a_reader(url: str) -> None:
    """There are no pipes: it looks."""
    append(url, [table(1)], batch=0)
    woken = threading.Event()
    with closing(MicroBatchSource(url).open("0", 1)) as reader:
        reader.on_available(woken.set)
        append(url, [table(7)], batch=1)
        assert woken.wait(WAIT_S)
        assert [each["n"] for each in reader.fetch(10).values] == [7]


def test_an_evaluator_reads_it(url: str) -> None:
    """Dropped without notice again and again while batches come; what its checkpoints cover is forgotten."""
    store, spark, seen = MemoryStore(), Spark(url), list[int]()
    query = rx.source("rows").pipe(ops.scan(lambda total, row: total + row["n"], 0))
    for lifetime in range(4):
        spark.run(lifetime, table(*range(lifetime * 10, lifetime * 10 + 10)))
        with QueryEvaluator(store, batch_events_max=4) as evaluator:
            evaluator.source("rows", MicroBatchSource(url))
            if not lifetime:
                evaluator.create("totals", query)
            evaluator.start()
            evaluator.step()
            if lifetime % 2:
                evaluator.checkpoint()
            if lifetime == 3:
                evaluator.run(until=lambda: evaluator.stream("totals").visible == 40)
                seen = [value for part in evaluator.stream("totals").read(0, 99) for value in part.values]
    assert seen == [sum(range(n + 1)) for n in range(40)]


class Dying(RemoteLogDisk):
    """A driver whose process dies before a change of the store, counted down."""

    left = -1

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise ProcessDied

    def create(self, name: str, data: bytes) -> None:
        self._count()
        super().create(name, data)

    def replace(self, name: str, data: bytes, *, durably: bool) -> None:
        self._count()
        super().replace(name, data, durably=durably)

    def remove(self, name: str) -> None:
        self._count()
        super().remove(name)

    def writing(self, name: str) -> Any:
        self._count()
        return super().writing(name)


def test_a_driver_that_dies_between_two_puts_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each change in turn, while blocks are put together as well; the batch runs again, and nothing is left."""
    monkeypatch.setattr(names, "SPANS", (4, 16))
    deaths = 0
    for count in range(1, 100):
        url = f"memory://logs-{uuid.uuid4().hex}"
        spark, disk = Spark(url), Dying(url)
        for batch in range(7):
            spark.run(batch, table(batch))
        monkeypatch.setattr("spark_log_world.new_log_disk", lambda place, disk=disk: disk)
        disk.left = count
        try:
            spark.run(7, table(*range(7, MANY)))
            died = False
        except ProcessDied:
            died = True
        disk.left = -1
        assert spark.numbers() in ([*range(7)], [*range(MANY)])
        spark.run(7, table(*range(7, MANY)))
        spark.run(8, table(MANY))
        assert spark.numbers() == [*range(MANY + 1)]
        for batch in range(9, 70):
            spark.run(batch, table(batch))
        assert len(spark.files()) <= 1
        monkeypatch.undo()
        monkeypatch.setattr(names, "SPANS", (4, 16))
        MemoryFileSystem().rm(url.removeprefix("memory:/"), recursive=True)
        deaths += died
        if not died:
            break
    assert deaths == 7  # the rows, the manifest, the block, and the four that it replaces


def test_a_reader_that_dies_while_it_forgets_leaves_a_log_that_can_be_read(url: str) -> None:
    """Before each removal in turn: what can be seen can be read, up to the end."""
    for count in range(1, 6):
        place = f"{url}/{count}"
        spark, disk = Spark(place), Dying(place)
        for batch in range(3):
            spark.run(batch, table(*range(batch * MANY, batch * MANY + MANY)))
        register(disk, "app", 0, 0, "rows", where="the log")
        acknowledge(disk, "app", 0, Held("rows", 2 * MANY))
        view = spark.view()
        view.disk = disk
        disk.left = count
        try:
            assert retain(view) == 2
            assert count > 4  # two manifests, two objects of rows
        except ProcessDied:
            assert count <= 4
        first, end = spark.view().bounds(0, "rows")
        assert end == 3 * MANY
        assert spark.numbers() == [*range(first, end)]


def test_of_two_drivers_one_is_told(url: str) -> None:
    """The conditional put lets one through."""
    spark = Spark(url)
    spark.run(0, table(0))
    slow = spark.wrote(1, table(1))
    view = spark.view()
    spark.run(1, table(1))
    writer = LogWriter(new_log_disk(url), where="the log")
    writer.view.newest = lambda: view.manifest(0)  # type: ignore[method-assign]  # it has looked before
    with pytest.raises(StoreUnavailable, match="another driver"):
        writer.commit(spark.query, 1, slow)
    assert spark.numbers() == [0, 1]


class Overwriting(MemoryFileSystem):  # type: ignore[misc]
    """As s3fs was in its first versions with exclusive creation: small objects are overwritten."""

    protocol = "overwriting"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, mode="overwrite")


class Looking(MemoryFileSystem):  # type: ignore[misc]
    """One that inherits the base class's way: look, then write."""

    protocol = "looking"
    pipe_file = fsspec.AbstractFileSystem.pipe_file


class Unknowing(MemoryFileSystem):  # type: ignore[misc]
    """One that is older than exclusive creation."""

    protocol = "unknowing"

    def pipe_file(self, path: str, value: bytes) -> None:
        raise AssertionError("never called")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Overwriting, "Overwriting overwrites what is there"),
        (Looking, "Looking only looks whether a file is there"),
        (Unknowing, "Unknowing knows no exclusive creation"),
    ],
)
def test_a_store_that_would_overwrite_is_refused(kind: Any, said: str) -> None:
    """Before anything is written, with what to use instead; and what was tried is taken away."""
    fsspec.register_implementation(kind.protocol, kind, clobber=True)
    with pytest.raises(LogRefused, match=f"{said}.*conditional puts"):
        append(f"{kind.protocol}://bucket/log", [table(1)], batch=0)
    assert not RemoteLogDisk(f"{kind.protocol}://bucket/log").names()


def test_trouble_with_a_store_is_no_other_error(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a client library raises, callers see that the store could not be had."""
    spark = Spark(url)
    spark.run(0, table(0))

    def lost(*_: Any, **__: Any) -> None:
        raise RuntimeError("no route to host")

    monkeypatch.setattr(MemoryFileSystem, "cat_file", lost)
    with pytest.raises(StoreUnavailable, match="no route to host"):
        spark.numbers()


def test_a_local_path_needs_no_fsspec(tmp_path: Path) -> None:
    """A directory, a file: URI and a local: one are the same log, by links and syncs."""
    append(tmp_path, [table(1)], batch=0)
    append(tmp_path.as_uri(), [table(2)], batch=1)
    append(f"local://{tmp_path}", [table(3)], batch=2)
    assert Spark(tmp_path).numbers() == [1, 2, 3]
