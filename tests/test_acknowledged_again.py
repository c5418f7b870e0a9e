"""What a durable checkpoint covers is acknowledged to its source, also where a run ended between the two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
import spark_bridge
from checkpoint import MemoryStore
from checkpoint.format.codec import decode
from hosting import FileSource, GeneratorSource, ListSource, QueryEvaluator
from hosting.edges.egress import StreamSource
from hosting.sources.faults import FaultySource
from hosting.sources.polling import PolledSource, Want
from hosting.sources.shared import SharedSource
from hosting.sources.stored import StoredStreamSource
from reliable_rx.errors import StoreUnavailable
from reliable_rx.testing.faults import arm, raise_

COUNT = 12
ROWS = [{"n": n, "k": "ab"[n % 2]} for n in range(COUNT)]
Told = dict[tuple[str, str], int]


class World:
    """What outlives the runs of one app: its store, and what its source reads."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.store = MemoryStore()
        self.upstream = QueryEvaluator(MemoryStore(), background=False)
        self.upstream.source("n", ListSource(list(range(COUNT)), follow=True))
        self.upstream.create("up", rx.source("n").map(lambda n: n))
        while self.upstream.step():
            pass
        self.upstream.checkpoint()
        self.pushed = False

    def begin(self, **options: Any) -> tuple[QueryEvaluator, Told]:
        """Return the app, not started, and where it will be noted what its source is told."""
        evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, batch_events_max=2)
        if self.kind == "pushed":
            pushed = evaluator.push("s")
            if not self.pushed:
                pushed.push(list(range(COUNT)))
            self.pushed = True
        else:
            evaluator.source("s", KINDS[self.kind](self), **options)
        evaluator.create("q", rx.source("s").map(lambda value: value))
        told: Told = {}
        note_acknowledged(evaluator.intake.sources["s"], told)
        return evaluator, told

    def covered(self, evaluator: QueryEvaluator) -> Told:
        """Return the last id of each partition that is open and of which the checkpoint has something."""
        recovered = self.store.recover(strict=True)
        assert recovered is not None
        positions = decode(recovered.meta)["positions"]
        open_ = {key for key, each in evaluator.intake.partitions.items() if each.reader is not None}
        return {key: at - 1 for key, at in positions.items() if at and key in open_}


def note_acknowledged(source: Any, told: Told) -> None:
    """Have *told* know what the readers of *source* are told."""
    opens = source.open

    def opened(partition: str, at: int, /) -> Any:
        reader = opens(partition, at)
        acknowledges = reader.acknowledge

        def acknowledge(n: int, /) -> None:
            acknowledges(n)
            told["s", partition] = n

        reader.acknowledge = acknowledge
        return reader

    source.open = opened


def files(world: World, **options: Any) -> FileSource:
    path = world.folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return FileSource(path, follow=True, **options)


def publish(log: Path, batch: int) -> None:
    import pyarrow as pa

    from spark_bridge.micro_batch_log import append

    append(str(log), [pa.RecordBatch.from_pylist(ROWS)], batch=batch)


def spark_log(world: World) -> Any:
    log = world.folder / "log"
    if not log.exists():
        publish(log, 0)
    return spark_bridge.MicroBatchSource(log, reader="q")


KINDS: dict[str, Callable[[World], Any]] = {
    "list": lambda _: ListSource(ROWS, follow=True),
    "list that ends": lambda _: ListSource(ROWS),
    "generator": lambda _: GeneratorSource(lambda n, _: n, count=COUNT),
    "file": files,
    "file by key": lambda world: files(world, partition_by="k", partitions=["a", "b"]),
    "faulty": lambda world: FaultySource(files(world), ()),
    "polled": lambda world: PolledSource(files(world), Want(count_max=1)),
    "shared": lambda world: SharedSource(files(world)).named("q"),
    "stream": lambda world: StreamSource(world.upstream.stream("up"), subscriber="q"),
    "stored stream": lambda world: StoredStreamSource(world.upstream.store, "up", subscriber="q"),
    "spark log": spark_log,
    "pushed": lambda world: None,
}


def killed(evaluator: QueryEvaluator) -> None:
    """End it behind the commit of a checkpoint, before its source is told."""
    with (
        arm("checkpoint.before_acknowledge", raise_(RuntimeError("killed"))),
        pytest.raises(RuntimeError, match="killed"),
    ):
        evaluator.checkpoint()
    evaluator.abandon()


def closed(evaluator: QueryEvaluator) -> None:
    """Close it in order, when a checkpoint was committed that it has not looked at yet."""
    evaluator.checkpointer.is_overdue = True
    while (attempt := evaluator.checkpointer.attempt) is None or not attempt.settled:
        evaluator.step()
    evaluator.close()


@pytest.mark.parametrize("end", [killed, closed])
@pytest.mark.parametrize("steps", [2, 50])
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_run_tells_what_the_last_one_did_not(
    kind: str, steps: int, end: Callable[[QueryEvaluator], None], tmp_path: Path
) -> None:
    """A run that finds nothing new and takes no checkpoint tells its source all that the checkpoint covers."""
    world = World(tmp_path, kind)
    first, told = world.begin()
    for _ in range(steps):
        first.step()
    end(first)
    assert not told
    world.store = world.store.reopen()
    second, told = world.begin()
    second.start()
    covered = world.covered(second)
    assert covered or steps == 50, "the checkpoint covers some of it"
    assert told == covered
    second.close()


@pytest.mark.parametrize("kind", ["spark log", "pushed"])
def test_what_was_covered_is_forgotten(kind: str, tmp_path: Path) -> None:
    """A durable log drops it: a micro-batch log at the start, a pushed one a checkpoint later."""
    world = World(tmp_path, kind)
    first, _ = world.begin()
    first.start()
    if kind == "spark log":
        publish(tmp_path / "log", 1)
    while first.step():
        pass
    killed(first)
    world.store = world.store.reopen()
    second, _ = world.begin()
    second.start()
    source: Any = second.intake.sources["s"]
    if kind == "pushed":
        source.push([COUNT])
        while second.step():
            pass
        second.checkpoint()
    assert source.bounds("0")[0] >= COUNT - 1
    second.close()


def test_a_start_at_a_later_position_is_told_when_a_checkpoint_has_it(tmp_path: Path) -> None:
    """What lies before it is never read: before the checkpoint nothing is told, with it all before the position."""
    world = World(tmp_path, "list")
    first, told = world.begin(start=COUNT)
    first.start()
    assert not told
    killed(first)
    world.store = world.store.reopen()
    second, told = world.begin(start=COUNT)
    second.start()
    assert told == {("s", "0"): COUNT - 1}
    second.close()


def test_what_a_source_cannot_forget_at_the_start_it_is_told_with_the_next_checkpoint(tmp_path: Path) -> None:
    """Its refusal is an incident until then, as that of any other time is."""
    world = World(tmp_path, "list")
    first, _ = world.begin()
    for _ in range(50):
        first.step()
    killed(first)
    world.store = world.store.reopen()
    second, told = world.begin()
    source: Any = second.intake.sources["s"]
    fails, opens = [True], source.open

    def opened(partition: str, at: int, /) -> Any:
        reader = opens(partition, at)
        acknowledges = reader.acknowledge
        reader.acknowledge = lambda n: raises() if fails else acknowledges(n)
        return reader

    def raises() -> None:
        raise StoreUnavailable("it is away")

    source.open = opened
    second.start()
    assert [each.kind for each in second.statistics().incidents] == ["source keeps"]
    fails.clear()
    second.checkpoint()
    assert told == {("s", "0"): COUNT - 1} and not second.statistics().incidents
    second.close()


class Forgetful(ListSource):
    """Its readers take no id that they have not fetched themselves."""

    def open(self, partition: str, position: int) -> Any:
        reader = super().open(partition, position)

        class Own:
            def __getattr__(self, name: str) -> Any:
                return getattr(reader, name)

            def acknowledge(self, n: int) -> None:
                if n < position:
                    raise KeyError(n)

        return Own()


def test_a_source_that_cannot_be_told_stops_nothing() -> None:
    """Whatever it raises: an incident names it until it can be told."""
    store = MemoryStore()
    for count in (3, 4):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", Forgetful(range(count), follow=True))
        evaluator.create("q", rx.source("n"))
        evaluator.start()
        told = [each.message for each in evaluator.incidents.open()]
        assert [("KeyError" in each and "does not forget" in each) for each in told] == [True] * (count - 3)
        while evaluator.step():
            pass
        evaluator.checkpoint()
        assert evaluator.stream("q").visible == count and not evaluator.incidents.open()
        evaluator.close()
        store = store.reopen()
