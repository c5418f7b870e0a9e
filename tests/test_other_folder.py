"""What was given as a relative path is where it was, whatever folder the program goes to afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import FileSource, JsonLinesSink, QueryEvaluator, SqliteTableSink
from hosting.partitioned.opening import open_group
from hosting.partitioned.words import Lease, Partition


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Work in a folder; what is returned goes to another one."""
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return lambda: os.chdir(tmp_path / "there")


def found(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.rglob("*"))


def test_an_evaluator_goes_on(tmp_path: Path, moved: Callable[[], None]) -> None:
    """Store, files that are followed, sinks and what is pushed: all go on, and nothing is written elsewhere."""
    (tmp_path / "here/in.jsonl").write_text("1\n2\n")
    with SqliteStore("store") as store, QueryEvaluator(store, checkpoint_interval_s=0.01, idle_s=0.1) as evaluator:
        evaluator.source("file", FileSource("in.jsonl", follow=True))
        evaluator.source("all", FileSource("*.jsonl", follow=True, timestamp=float))
        pushed = evaluator.push("n")
        for name in ("file", "all", "n"):
            evaluator.create(f"q {name}", rx.source(name).scan(lambda total, n: total + n, 0))
            evaluator.sink(f"q {name}", JsonLinesSink(f"{name}.out"))
            evaluator.sink(f"q {name}", SqliteTableSink("out.db", name))
        evaluator.start()
        pushed.push([1])
        evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) == 5)
        moved()
        pushed.push([2, 3])
        with (tmp_path / "here/in.jsonl").open("a") as file:
            file.write("3\n")
        evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) == 9)
        evaluator.checkpoint()
        assert evaluator.trouble is None
        assert [each.kind for each in evaluator.incidents.open()] == []
    for name in ("file", "all", "n"):
        assert len((tmp_path / f"here/{name}.out").read_text().splitlines()) == 3
    assert found(tmp_path / "there") == []
    with SqliteStore(tmp_path / "here/store") as store:
        assert store.generations()


def test_the_parts_of_a_group_go_on(tmp_path: Path, moved: Callable[[], None]) -> None:
    """Registry, offsets and the stores of partitions are where the group was opened."""
    opened = open_group("group", "flights")
    moved()
    version, _ = opened.registry.load()
    assert opened.registry.swap(version, b"{}", notice=False)
    opened.stores.open(Lease(Partition("n", "0"), owner=1, epoch=1)).close()
    opened.close()
    assert found(tmp_path / "there") == []
    assert (tmp_path / "here/group/partitions").is_dir()


def test_a_store_is_read_from_elsewhere(tmp_path: Path, moved: Callable[[], None]) -> None:
    """A reader that was opened by a relative path reads on."""
    SqliteStore("store").close()
    reader: Any = SqliteStore.read_only("store")
    moved()
    assert reader.recover() is None
    reader.close()
