"""What fails in a partition that is read to its end, and is mended: it goes on with the next node that starts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import price_app
import pytest
from cli_process import cli
from lanes import every
from node_world import Logs

from hosting import App, JsonLinesSink
from hosting.cli.wording import FAILED
from hosting.partitioned.beats import Profile
from hosting.partitioned.group import Group, read_group
from hosting.partitioned.node import Node
from hosting.partitioned.opening import open_group
from hosting.partitioned.places import Place
from hosting.partitioned.status import status_of
from hosting.partitioned.timing import Timing
from hosting.partitioned.words import Partition, Status

COUNT = 7


class Flushless(JsonLinesSink):
    """A sink whose `flush` fails until it is mended."""

    def flush(self) -> None:
        if not self._path.with_name("mended").exists():
            raise KeyError("no flush")
        super().flush()


def out(folder: Path, place: Place) -> Path:
    return folder / f"{place.partition.name}.jsonl"


def opening(folder: Path) -> Callable[[Place], Any]:
    return lambda place: JsonLinesSink(out(folder, place))


def encoding(folder: Path) -> Callable[[Place], Any]:
    def encode(value: int) -> int:
        if value == 4 and not (folder / "mended").exists():
            raise RuntimeError("the service is down")
        return value

    return lambda place: JsonLinesSink(out(folder, place), encode=encode)


def flushing(folder: Path) -> Callable[[Place], Any]:
    return lambda place: Flushless(out(folder, place))


def making(folder: Path) -> Callable[[Place], Any]:
    def make(place: Place) -> Any:
        if not (folder / "mended").exists():
            raise KeyError("no such folder")
        return JsonLinesSink(out(folder, place))

    return make


FAULTS = {"opened": opening, "encoded": encoding, "flushed": flushing, "made": making}


class World:
    """A group whose partitions end, with a sink each that fails until it is mended."""

    def __init__(self, folder: Path, fault: str, logs: Logs) -> None:
        self.folder, self.fault, self.logs = folder, fault, logs
        if fault == "opened":
            for name in logs.listed:
                (folder / f"{name}.jsonl").write_text("somebody's notes\n")

    def mend(self) -> None:
        (self.folder / "mended").touch()
        if self.fault == "opened":
            for name in self.logs.listed:
                (self.folder / f"{name}.jsonl").unlink()

    def run(self, **options: Any) -> Node:
        """Run a node until all partitions have ended; return it."""
        app = App(checkpoint_interval_s=0.05)
        source = app.source("logs", self.logs)
        app.query("same", source)
        app.sink("same", FAULTS[self.fault](self.folder))
        with closing(open_group(self.folder / "g", "g")) as shared:
            node = Node(app, *shared, group="g", timing=Timing(gather_s=0.0), **options)
            node.run(until_ended=True)
        return node

    def group(self) -> Group:
        with closing(open_group(self.folder / "g", "g")) as shared:
            document = shared.registry.load()[1]
        assert document is not None
        return read_group(document, name="g")

    def epochs(self) -> list[int]:
        group = self.group()
        assert {hold.status for hold in group.holds.values()} == {Status.TERMINATED}
        return [hold.epoch for _, hold in sorted(group.holds.items())]

    def written(self, name: str) -> list[Any]:
        rows = [json.loads(line) for line in (self.folder / f"{name}.jsonl").read_text().splitlines()]
        assert [row["id"] for row in rows] == list(range(len(rows)))
        return [row.get("value", "the end") for row in rows]


WHOLE = [*range(COUNT), "the end"]


def ended_logs(*names: str) -> Logs:
    logs = Logs(names)
    for name in names:
        logs.add(name, *range(COUNT), end=True)
    return logs


@pytest.mark.parametrize("fault", every(2, FAULTS))
def test_a_mended_sink_gets_the_rest_of_a_partition_that_has_ended(fault: str, tmp_path: Path) -> None:
    """Each start tries once, fails in words under one epoch more; mended it delivers, and is then left alone."""
    world = World(tmp_path, fault, ended_logs("a", "b"))
    for start in range(1, 2 if fault == "flushed" else 4):  # what was not flushed is found in the file at the next
        node = world.run()
        assert set(node.failing) == {Partition("logs", "a"), Partition("logs", "b")}, "such a node exits 3"
        assert world.epochs() == [start, start], "once in each start"
        assert status_of(world.group(), {}, {}).is_failing
    world.mend()
    node = world.run()
    assert not node.failing and not status_of(world.group(), {}, {}).is_failing
    assert world.written("a") == world.written("b") == WHOLE
    before = world.epochs()
    world.run()
    assert world.epochs() == before and world.written("a") == WHOLE, "it never opens again"


def test_a_query_that_has_failed_in_a_partition_that_has_ended(tmp_path: Path) -> None:
    """Each node that starts says so and exits with 3, until the query is mended: then it runs again, and ends there."""
    price_app.write_app(tmp_path)
    command = ("node", "app.py", "--store", "g", "--gather", "0", "--plain", "--until-ended")
    for _ in range(2):
        assert "mend its function" in cli(*command, cwd=tmp_path, code=FAILED).stderr
        assert "the next node that starts" in cli("status", "--store", "g", cwd=tmp_path, code=FAILED).stdout
    app = tmp_path / "app.py"
    app.write_text(app.read_text().replace("order == 2", "order == 40"))
    for _ in range(2):
        cli(*command, cwd=tmp_path)
        assert "the next node" not in cli("status", "--store", "g", cwd=tmp_path).stdout


def test_what_follows_such_a_partition_does_not_wait_for_its_sink(tmp_path: Path) -> None:
    """The child of a partition whose sink fails is read as soon as its parent was read."""
    logs = ended_logs("a")
    world = World(tmp_path, "made", logs)
    world.run()
    logs.list_also("child", parents=("a",))
    logs.add("child", *range(COUNT), end=True)
    world.run()
    assert world.epochs() == [2, 1]
    world.mend()
    world.run()
    assert world.written("a") == world.written("child") == WHOLE


def test_a_node_that_may_not_have_the_partition_leaves_it(tmp_path: Path) -> None:
    """Only a node that may own it opens it again; for another all has ended."""
    world = World(tmp_path, "made", ended_logs("a", "b"))
    world.run()
    world.mend()
    world.run(profile=Profile(partitions=frozenset({Partition("logs", "b")})))
    assert world.epochs() == [1, 2] and world.written("b") == WHOLE and not (tmp_path / "a.jsonl").exists()
    world.run()
    assert world.written("a") == WHOLE


def test_the_end_of_a_restarted_query_reaches_its_sink(tmp_path: Path) -> None:
    """The next node opens the partition again for it; until then and afterwards `status` says nothing that is false."""
    price_app.write_app(tmp_path, beside=price_app.SINK)
    command = ("node", "app.py", "--store", "g", "--gather", "0", "--plain", "--until-ended")
    cli(*command, cwd=tmp_path, code=FAILED)
    price_app.mend(tmp_path)
    cli("restart", "g", "prices", "--app", "app.py", cwd=tmp_path)
    shown = cli("status", "--store", "g", cwd=tmp_path).stdout
    assert "declare" not in shown and "the next node that starts" in shown
    cli(*command, cwd=tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [0, 1, 2] and "error" in rows[1] and rows[2]["completed"]
    assert "the next node that starts" not in cli("status", "--store", "g", cwd=tmp_path).stdout


def test_a_foreign_file_that_is_moved_away_as_told(tmp_path: Path) -> None:
    """The node says it until the file is moved, with exit code 3; then the sink has everything."""
    price_app.write_app(tmp_path, beside=price_app.SINK)
    price_app.mend(tmp_path)
    (tmp_path / "a.jsonl").write_text("notes\\n")
    command = ("node", "app.py", "--store", "g", "--gather", "0", "--plain", "--until-ended")
    for _ in range(2):
        assert "move this one away" in cli(*command, cwd=tmp_path, code=FAILED).stderr
    (tmp_path / "a.jsonl").rename(tmp_path / "notes.txt")
    cli(*command, cwd=tmp_path)
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 4
