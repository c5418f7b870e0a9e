"""A sink's file that is taken away, and paths where none can be: the sink fails in a sentence, nothing is lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed, every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import CallbackSink, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from hosting.sinks import places
from reliable_rx.errors import CheckpointRefused, LeaseLost, PositionUnavailable, StoreUnavailable
from reliable_rx.reliable import Origin

RETAINED = 5


def ids_in(path: Path) -> list[int]:
    """Return the ids that a file of either kind has."""
    if path.suffix == ".jsonl":
        return [json.loads(line)["id"] for line in path.read_text().splitlines()]
    database = sqlite3.connect(path)
    try:
        return [row[0] for row in database.execute("SELECT id FROM t ORDER BY id")]
    finally:
        database.close()


def sink_at(path: Path) -> Any:
    return JsonLinesSink(path) if path.suffix == ".jsonl" else SqliteTableSink(path, "t")


class World:
    """A query with a sink, and another one that must not notice, over values that come."""

    def __init__(self, *sinks: Any, store: MemoryStore | None = None, count: int = 0) -> None:
        self.values = [*range(count)]
        self.noticed = dict(enumerate(self.values))
        self.evaluator = QueryEvaluator(store or MemoryStore(), background=False, retain_events=RETAINED)
        self.evaluator.source("n", ListSource(self.values, follow=True))
        for name in ("q", "other"):
            self.evaluator.create(name, rx.source("n").map(lambda n: n))
        for sink in sinks:
            self.evaluator.sink("q", sink)
        self.evaluator.sink("other", CallbackSink(self.noticed.__setitem__))
        self.evaluator.start()

    def take(self, count: int) -> None:
        """Have *count* more values come, and a checkpoint taken."""
        self.values += range(len(self.values), len(self.values) + count)
        self.settle()

    def settle(self) -> None:
        while self.evaluator.step():
            pass
        self.evaluator.checkpoint()
        assert list(self.noticed) == self.values, "the other query goes on"

    @property
    def told(self) -> dict[str, str]:
        return {each.subject: each.message for each in self.evaluator.statistics().incidents if each.kind == "sink"}

    @property
    def statuses(self) -> list[str]:
        return [each.status for each in self.evaluator.statistics().sinks[:-1]]


def delete(path: Path) -> None:
    path.unlink()


def move(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def move_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))


def delete_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def copy_and_truncate(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".old"))
    os.truncate(path, 0)


def replace(path: Path) -> None:
    beside = path.with_suffix(".new")
    shutil.copy(path, beside)
    beside.rename(path)


def cut(path: Path) -> None:
    os.truncate(path, 50)


TAKEN_AWAY = [delete, move, move_folder, delete_folder, copy_and_truncate, replace, cut]


@pytest.mark.parametrize("suffix", [".jsonl", ".db"])
@pytest.mark.parametrize("take_away, unflushed", crossed(TAKEN_AWAY, [0, 3], nightly=1))
def test_a_file_that_is_taken_away_is_told_and_nothing_is_acknowledged(
    tmp_path: Path, take_away: Callable[[Path], None], suffix: str, unflushed: int
) -> None:
    """The sink fails before it acknowledges anything more; the stream keeps what it lacks; all else goes on."""
    path = tmp_path / "folder" / f"out{suffix}"
    path.parent.mkdir()
    world = World(sink_at(path))
    world.take(20)
    assert ids_in(path) == [*range(20)]
    if unflushed:
        world.values += range(20, 20 + unflushed)
        world.evaluator.step()
    take_away(path)
    world.take(20)
    assert world.statuses == ["failed"]
    message = world.told["q, sink 0"]
    assert str(path) in message and ("deleted" in message or "replaced" in message or "cut to" in message), message
    kept = [value for part in world.evaluator.stream("q").read(20, 1000) for value in part.values]
    assert kept == world.values[20:], "what was not flushed is in the stream"
    world.evaluator.close()


@pytest.mark.parametrize("suffix", [".jsonl", ".db"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_file_that_is_put_back_is_gone_on_with(tmp_path: Path, suffix: str, restart: bool) -> None:
    """Reopened, or at the next start, the sink has every id once, in order."""
    path, store = tmp_path / f"out{suffix}", MemoryStore()
    world = World(sink_at(path), store=store)
    world.take(20)
    move(path)
    world.take(20)
    assert world.statuses == ["failed"]
    path.with_suffix(".old").rename(path)
    if restart:
        world.evaluator.close()
        world = World(sink_at(path), store=store.reopen(), count=40)
    else:
        world.evaluator.reopen("q")
    world.settle()
    world.take(5)
    assert (world.statuses, world.told) == (["open"], {})
    world.evaluator.close()
    assert ids_in(path) == [*range(45)]


def test_a_former_owner_is_told_that_it_is_one(tmp_path: Path) -> None:
    """A fenced file that the next owner has replaced is a lease that is lost, not a file that was taken away."""
    former, later = JsonLinesSink(tmp_path / "out.jsonl"), JsonLinesSink(tmp_path / "out.jsonl")
    former.fence(1)
    former.open("q")
    former.write(0, [1])
    later.fence(2)
    later.open("q")
    with pytest.raises(LeaseLost):
        former.flush()
    former.close()
    later.write(1, [2])
    later.flush()
    later.close()


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/null")


def loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("suffix", [".jsonl", ".db"])
@pytest.mark.parametrize("make", [folder, fifo, device, loop])
def test_what_is_no_file_fails_the_sink_at_its_opening(
    tmp_path: Path, make: Callable[[Path], None], suffix: str
) -> None:
    """No waiting mends it: the sink fails with a sentence, and no turn waits. With a file there it is opened again."""
    path = tmp_path / f"out{suffix}"
    make(path)
    world = World(sink_at(path))
    world.take(3)
    assert world.statuses == ["failed"] and str(path) in world.told["q, sink 0"]
    path.rmdir() if make is folder else path.unlink()
    world.evaluator.reopen("q")
    world.settle()
    assert (world.statuses, world.told) == (["open"], {})
    world.evaluator.close()
    assert ids_in(path) == [0, 1, 2]


@pytest.mark.parametrize("kind", [JsonLinesSink, lambda path: SqliteTableSink(path, "t")], ids=["jsonl", "db"])
@pytest.mark.parametrize("name", ["a" * 300, "a\0b", "\ud800", "file/out"], ids=ascii)
def test_a_name_that_no_file_can_have(tmp_path: Path, name: str, kind: Callable[[Path], Any]) -> None:
    """It is refused in a sentence of ours."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointRefused, match=r"path|name"):
        kind(tmp_path / name).open("q")


@pytest.mark.parametrize("sink, number", every_of(21, product([".jsonl", ".db"], sorted(errno.errorcode)), commits=7))
def test_each_errno_fails_or_is_waited_for(
    tmp_path: Path, number: int, sink: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waiting does not mend fails; all else is tried again."""

    def stat(path: Any) -> Any:
        raise OSError(number, os.strerror(number), str(path))

    expected: type[Exception] = CheckpointRefused if number in places.PERMANENT else StoreUnavailable
    monkeypatch.setattr("hosting.sinks.places.os.stat", stat)
    if number == errno.ENOENT:
        return  # there is no file yet
    with pytest.raises(expected, match=r"cannot be opened.*; "):
        sink_at(tmp_path / f"out{sink}").open("q")


@pytest.mark.parametrize("sink", [".jsonl", ".db"])
def test_a_folder_that_is_missing_is_made(tmp_path: Path, sink: str) -> None:
    """Each sink that writes a file makes the folders of its path, so that no query waits for one that never comes."""
    made = sink_at(tmp_path / "no" / "such" / f"out{sink}")
    made.open("q")
    made.close()
    assert (tmp_path / "no" / "such" / f"out{sink}").is_file()


def test_what_is_mended_by_waiting_is_waited_for() -> None:
    """These are never called permanent; nor is a folder that is gone."""
    names = (
        "ENOSPC",
        "EIO",
        "EDQUOT",
        "EINTR",
        "ESTALE",
        "ENOENT",
        "EMFILE",
        "ENFILE",
        "ENOMEM",
        "EAGAIN",
        "ETIMEDOUT",
    )
    assert not places.PERMANENT & {getattr(errno, name) for name in names}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [1, -float("inf")], {"a": float("nan")}], ids=str)
@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_every_line_is_json_for_other_readers(tmp_path: Path, value: Any, policy: Any) -> None:
    """NaN and the infinities are no JSON: they are dealt with as values that cannot be written."""

    def strict(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, value, 2]))
        evaluator.create("q", rx.source("n").map(lambda n: n))
        evaluator.sink("q", JsonLinesSink(tmp_path / "out.jsonl"), on_error=policy)
        evaluator.run()
        told = [each.message for each in evaluator.statistics().incidents]
    lines = [json.loads(line, parse_constant=strict) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(lines) == (1 if policy == "fail" else 4)
    assert len(told) == 1 and "encode=" in told[0]


def test_a_callback_that_has_raised_once_is_opened_again() -> None:
    """A sink that failed goes on from what it has had durably, in the running program; others are left as they are."""
    calls: list[tuple[int, int]] = []
    is_well = False

    def on_next(n: int, value: int) -> None:
        if not is_well and n >= 2:
            raise RuntimeError("503")
        calls.append((n, value))

    world = World(CallbackSink(on_next), CallbackSink(lambda n, value: None))
    world.take(2)
    world.take(3)
    assert world.statuses == ["failed", "open"] and "evaluator.reopen" in world.told["q, sink 0"]
    world.evaluator.reopen("q")
    world.settle()
    assert world.statuses == ["failed", "open"], "it is not well yet"
    is_well = True
    world.evaluator.reopen("q")
    world.settle()
    world.take(2)
    assert (world.statuses, world.told) == (["open", "open"], {})
    assert calls == [(n, n) for n in range(7)]
    with pytest.raises(KeyError, match="did you mean 'other'"):
        world.evaluator.reopen("othr")
    world.evaluator.close()


def test_a_sleeping_host_is_woken_for_a_sink() -> None:
    """One that is declared or opened again while it runs is written at once, and not when something else comes."""
    world, woken = World(CallbackSink(lambda n, value: None)), list[None]()
    world.evaluator.lifecycle.on_wake = lambda: woken.append(None)
    calls: list[Callable[[], None]] = [
        lambda: world.evaluator.sink("q", CallbackSink(lambda n, value: None)),
        lambda: world.evaluator.reopen("q"),
    ]
    for call in calls:
        woken.clear()
        call()
        assert woken
    world.evaluator.close()


@pytest.mark.parametrize("make", [folder, fifo])
def test_what_a_sink_has_that_did_not_open_is_not_claimed(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Its position is not known then: the report names no id from which on it would lack something."""
    make(tmp_path / "out.jsonl")
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("q", rx.source("n"))
        evaluator.sink("q", sink_at(tmp_path / "out.jsonl"))
        evaluator.run()
        (incident,) = evaluator.statistics().incidents
        assert "what it has cannot be told" in incident.message and "from id" not in incident.message


@pytest.mark.parametrize("suffix", [".jsonl", ".sqlite"])
def test_a_file_that_is_gone_at_a_start_is_told(tmp_path: Path, suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is written again from what its stream has, and a line of the log says that it was gone."""
    path, store = tmp_path / f"out{suffix}", MemoryStore()
    first = World(sink_at(path), store=store)
    first.take(3)
    first.evaluator.close()
    assert "durable in it" not in caplog.text
    for each in tmp_path.glob("out*"):
        each.unlink()
    second = World(sink_at(path), store=store.reopen(), count=3)
    second.settle()
    second.evaluator.close()
    assert ids_in(path) == [0, 1, 2]
    assert "has 0 of the 3 ids that were durable in it" in caplog.text


@pytest.mark.parametrize("name", ["q.jsonl", "q.sqlite"])
def test_a_start_that_is_refused_leaves_no_sink_open(name: str, tmp_path: Path) -> None:
    """Those that were open by then are closed, so that another evaluator may write there while the first is kept."""
    foreign, taken = JsonLinesSink(tmp_path / "foreign.jsonl"), tmp_path / name
    foreign.claim(Origin("other", store="another"))
    foreign.open("other")
    foreign.write(0, [7])
    foreign.flush()
    foreign.close()
    with QueryEvaluator(MemoryStore(), background=False) as refused:
        refused.source("n", ListSource([1, 2], follow=True))
        for query, sink in {"q": sink_at(taken), "other": JsonLinesSink(tmp_path / "foreign.jsonl")}.items():
            refused.create(query, rx.source("n"))
            refused.sink(query, sink)
        with pytest.raises(PositionUnavailable):
            refused.start()
        world = World(sink_at(taken), count=2)
        world.settle()
        world.evaluator.close()
    assert ids_in(taken) == [0, 1]


class Closing(CallbackSink):
    """A sink that counts how often it is closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("fails", [False, True])
def test_a_sink_is_closed_once(fails: bool) -> None:
    """When it fails, or with the evaluator."""
    sink = Closing(lambda n, value: {}[value] if fails else None)
    world = World(sink)
    world.take(2)
    assert (world.statuses, sink.closed) == (["failed" if fails else "open"], int(fails))
    world.evaluator.close()
    assert sink.closed == 1


@pytest.mark.parametrize("lacks", ["the folder", "the file"])
def test_a_database_without_rights_fails_its_sink_alone(
    tmp_path: Path, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says only that it cannot be opened or written, which might be mended by waiting: nobody would go on."""
    path, access = tmp_path / "out.db", os.access
    path.write_bytes(b"")
    without = str(path if lacks == "the file" else tmp_path)
    monkeypatch.setattr("hosting.sinks.places.os.access", lambda p, mode: str(p) != without and access(p, mode))
    got: list[Any] = []
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", rx.source("n").map(abs))
        evaluator.sink("q", SqliteTableSink(path, "t"))
        evaluator.sink("q", CallbackSink(lambda n, value: got.append(value)))
        evaluator.run()
        (failed,) = [each for each in evaluator.incidents.open() if each.kind == "sink"]
    assert got[:2] == [1, 2] and "Permission denied" in failed.message and without in failed.message
