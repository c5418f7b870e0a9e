"""Sinks that are pointed at what another stream's sink has written: refused by name, and nothing is lost or mixed."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from hosting.edges.sink_positions import label_of
from hosting.partitioned.lease_guard import LeaseGuard
from hosting.sinks.flushed_mark import read_mark
from reliable_rx.errors import CheckpointRefused, PositionUnavailable
from reliable_rx.reliable import Origin

STREAMS = ("a", "b")


def table(folder: Path, name: str) -> SqliteTableSink:
    return SqliteTableSink(folder / "out.db", name)


def rows(folder: Path, name: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return [[n, json.loads(value)] for n, value in database.execute(f"SELECT id, value FROM {name} ORDER BY id")]


def file(folder: Path, name: str) -> JsonLinesSink:
    return JsonLinesSink(folder / f"{name}.jsonl")


def lines(folder: Path, name: str) -> list[Any]:
    return [list(json.loads(line).values()) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


def of_node(folder: Path, name: str) -> Any:
    """Return the sink of a file as a node writes it."""
    place: Any = None
    found = file(folder, name)
    return LeaseGuard(found, place, lambda: True, label=label_of(found))


SINKS: dict[str, tuple[Callable[[Path, str], Any], Callable[[Path, str], list[Any]]]] = {
    "tables": (table, rows),
    "files": (file, lines),
    "files of nodes": (of_node, lines),
}


@pytest.fixture(params=SINKS)
def kind(request: pytest.FixtureRequest) -> Any:
    return SINKS[request.param]


def run(
    folder: Path,
    sinks: dict[str, Any],
    upto: int,
    *,
    kill: bool = False,
    late: bool = False,
    ended: bool = False,
    b: Any = None,
) -> dict[str, str]:
    """Give queries *a* and *b* the numbers below *upto*; return which streams have a failed sink, and why."""
    with SqliteStore(folder / "store") as store:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(list(range(upto)), follow=not ended))
        for name in STREAMS:
            query: Any = rx.source("n").map(lambda n, name=name: f"{name} {n}")
            if name == "b" and b is not None:
                query = rx.source("n").map(b).filter(lambda each: each is not None)
            evaluator.create(name, query)
        if late:
            evaluator.start()
        for stream, sink in sinks.items():
            evaluator.sink(stream, sink)
        evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= upto)
        evaluator.flush()
        evaluator.outlets.flush()
        evaluator.abandon() if kill else evaluator.__exit__(None, None, None)
        return {
            each.subject.partition(",")[0]: each.message for each in evaluator.incidents.open() if each.kind == "sink"
        }


def expected(name: str, upto: int) -> list[Any]:
    return [[n, f"{name} {n}"] for n in range(upto)]


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("times, begun", [(1, "stopped"), (3, "stopped"), (1, "killed")])
def test_two_sinks_that_were_exchanged(kind: Any, tmp_path: Path, times: int, begun: str, kill: bool) -> None:
    """Both are refused, however often it is tried; put back, each target has all of its own stream and nothing else.

    So they are behind a kill before the first checkpoint, which knows of no sink yet.
    """
    make, read = kind
    run(tmp_path, {name: make(tmp_path, name) for name in STREAMS}, 3, kill=begun == "killed")
    for upto in range(4, 4 + times):
        failed = run(tmp_path, {"a": make(tmp_path, "b"), "b": make(tmp_path, "a")}, upto, kill=kill)
        assert "stream 'b'" in failed["a"] and "stream 'a'" in failed["b"]
        assert [read(tmp_path, name) for name in STREAMS] == [expected(name, 3) for name in STREAMS]
    assert run(tmp_path, {name: make(tmp_path, name) for name in STREAMS}, 9) == {}
    assert [read(tmp_path, name) for name in STREAMS] == [expected(name, 9) for name in STREAMS]


def test_a_target_that_is_given_to_another_query(kind: Any, tmp_path: Path) -> None:
    """It is refused while the store knows whose it is; with a target of its own the query has all from then on."""
    make, read = kind
    run(tmp_path, {"a": make(tmp_path, "a")}, 3)
    assert "stream 'a'" in run(tmp_path, {"b": make(tmp_path, "a")}, 4)["b"]
    assert run(tmp_path, {"a": make(tmp_path, "a"), "b": make(tmp_path, "b")}, 6) == {}
    assert read(tmp_path, "a") == expected("a", 6)
    assert read(tmp_path, "b")[-1] == [5, "b 5"]


@pytest.mark.parametrize("make", [table, file])
def test_one_target_for_two_streams_is_refused_where_it_is_declared(make: Any, tmp_path: Path) -> None:
    """The sentence names the stream that has it."""
    with pytest.raises(ValueError, match=r"is that of another sink of stream 'a', and one alone may write it"):
        run(tmp_path, {name: make(tmp_path, "out") for name in STREAMS}, 3)


@pytest.mark.parametrize("late", [False, True], ids=["before the start", "while it runs"])
@pytest.mark.parametrize("uptos", [(12, 14, 40, 50), (30, 40)], ids=["has more than was emitted", "has less"])
def test_a_target_of_another_is_refused_in_every_run(kind: Any, tmp_path: Path, late: bool, uptos: Any) -> None:
    """However much of its own the stream has emitted by then, and whenever the sink is declared."""
    make, read = kind
    run(tmp_path, {"a": make(tmp_path, "a")}, 10, b=lambda n: f"b {n}" if n % 2 == 0 else None)
    for upto in uptos:
        failed = run(
            tmp_path, {"b": make(tmp_path, "a")}, upto, late=late, b=lambda n: f"b {n}" if n % 2 == 0 else None
        )
        assert "stream 'a'" in failed["b"], failed
        assert read(tmp_path, "a") == expected("a", 10)


def test_a_target_of_a_sink_that_failed_is_still_that_of_its_stream(kind: Any, tmp_path: Path) -> None:
    """Also in the run in which it was first written, of which no checkpoint knows yet."""
    make, read = kind
    with SqliteStore(tmp_path / "store") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(list(range(10)), follow=True))
        for name in STREAMS:
            evaluator.create(name, rx.source("n").map(lambda n, name=name: f"{name} {n}"))
        sink = make(tmp_path, "a")
        evaluator.sink("a", sink)
        evaluator.start()
        for _ in range(20):
            evaluator.step()
        evaluator.flush()
        evaluator.checkpoint()
        evaluator.outlets.all[0].take(ValueError("it is broken"), evaluator.streams["a"])
        sink.close()
        evaluator.sink("b", make(tmp_path, "a"))
        evaluator.step()
        assert "stream 'a'" in {each.subject: each.message for each in evaluator.incidents.open()}["b, sink 0"]
    assert read(tmp_path, "a") == expected("a", 10)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_a_target_that_was_given_away_while_it_was_empty(kind: Any, tmp_path: Path, kill: bool) -> None:
    """It is that of the stream whose ids it has; given back, it is refused in the name of that, and no start is."""
    make, read = kind
    none = {"b": lambda n: None}
    assert run(tmp_path, {"b": make(tmp_path, "out")}, 3, **none, kill=kill) == {}  # nothing for it
    assert run(tmp_path, {"a": make(tmp_path, "out")}, 9, **none, kill=kill) == {}
    has = read(tmp_path, "out")
    assert has and has[-1] == [has[-1][0], "a 8"]
    for upto in (12, 15):
        failed = run(tmp_path, {"b": make(tmp_path, "out")}, upto, b=lambda n: f"b {n}", kill=kill)
        assert "stream 'a'" in failed["b"]
    assert read(tmp_path, "out") == has


@pytest.mark.parametrize("is_moved", [False, True], ids=["linked", "moved"])
def test_a_target_that_is_called_otherwise(kind: Any, tmp_path: Path, is_moved: bool) -> None:
    """A path is not whose a file is: it goes by links, and with its folder."""
    make, read = kind
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    run(tmp_path, {"b": make(old, "out")}, 9)
    old.rename(new) if is_moved else new.symlink_to(old)
    for upto in (11, 13):
        assert "stream 'b'" in run(tmp_path, {"a": make(new, "out")}, upto)["a"]
        assert read(new, "out") == expected("b", 9)
    assert run(tmp_path, {"b": make(new, "out")}, 20) == {}
    assert read(new, "out") == expected("b", 20)


@pytest.mark.parametrize("streams", [("a", "b"), ("a", "a")], ids=["two streams", "one stream"])
def test_a_target_that_two_sinks_call_otherwise(kind: Any, tmp_path: Path, streams: tuple[str, str]) -> None:
    """One of them has it, whole, in this run and in all later ones; the other one fails by name and leaves no trace."""
    make, read = kind
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.symlink_to(old)
    with SqliteStore(tmp_path / "store") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(list(range(10)), follow=True))
        for name in STREAMS:
            evaluator.create(name, rx.source("n").map(lambda n, name=name: f"{name} {n}"))
        for name, folder in zip(streams, (old, new), strict=True):
            evaluator.sink(name, make(folder, "out"))
        evaluator.run(until=lambda: evaluator.events_in >= 10)
        evaluator.checkpoint()
        assert [each.subject[0] for each in evaluator.incidents.open() if each.kind == "sink"] == [streams[1]]
    assert read(old, "out") == expected("a", 10)
    assert run(tmp_path, {"a": make(old, "out")}, 20) == {}
    assert read(old, "out") == expected("a", 20)


@pytest.mark.parametrize("make", [table, file])
def test_a_target_of_another_partition_of_its_stream_is_refused(make: Any, tmp_path: Path) -> None:
    """On nodes it is told when it is fenced, which it is not: the writer of the partition goes on under its epoch."""

    def of(partition: str) -> Any:
        sink = make(tmp_path, "out")
        sink.claim(Origin("q", partition=partition, group="g"))
        return sink

    with closing(of("n/a")) as sink:
        sink.fence(3)
        assert sink.open("q") == 0
        sink.write(0, [1, 2])
        sink.flush()
        with closing(of("n/b")) as other, pytest.raises(CheckpointRefused, match="stream 'q' of n/a up to 1"):
            other.fence(9)
        sink.write(2, [3])
        sink.flush()
    with closing(of("n/a")) as again:
        again.fence(4)
        assert again.open("q") == 3


@pytest.mark.parametrize("make", [table, file])
@pytest.mark.parametrize("upto", [2, 3, 7])
@pytest.mark.parametrize("ended", [False, True], ids=["goes on", "ended"])
def test_a_target_of_another_store_is_refused(make: Any, tmp_path: Path, upto: int, ended: bool) -> None:
    """A new store counts anew: what another one wrote under the same ids is neither taken for its own nor mixed.

    It may be the wrong store, so the start is refused before anything is taken. Declared after that the sink fails by
    name, as in a notebook that is run again from the top with a store in memory.
    """
    read = rows if make is table else lines
    run(tmp_path, {"a": make(tmp_path, "a")}, 3, ended=ended)
    before = read(tmp_path, "a")
    shutil.rmtree(tmp_path / "store")
    run(tmp_path, {}, upto)
    with pytest.raises(PositionUnavailable, match=r"stream 'a' of store .* and belongs to another store"):
        run(tmp_path, {"a": make(tmp_path, "a"), "b": make(tmp_path, "b")}, upto)
    failed = run(tmp_path, {"a": make(tmp_path, "a"), "b": make(tmp_path, "b")}, upto, late=True)
    assert "belongs to another store" in failed["a"] and failed.keys() == {"a"}
    assert read(tmp_path, "a") == before and read(tmp_path, "b") == expected("b", upto)
    assert run(tmp_path, {"a": make(tmp_path, "new"), "b": make(tmp_path, "b")}, 9) == {}
    assert read(tmp_path, "new") == expected("a", 9) and read(tmp_path, "b") == expected("b", 9)


@pytest.mark.parametrize("streams", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("link", ["first", "second"])
def test_a_file_under_two_names_is_one_target(streams: tuple[str, str], link: str, tmp_path: Path) -> None:
    """By a link it is refused to another stream as by its own name, and what lies beside it lies beside the file."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "data" / "real.jsonl")
    names = ("link", "data/real") if link == "first" else ("data/real", "link")
    one, other = streams
    run(tmp_path, {one: file(tmp_path, names[0])}, 3)
    assert run(tmp_path, {other: file(tmp_path, names[1])}, 6).keys() == {other}
    assert lines(tmp_path, "link") == expected(one, 3)
    assert run(tmp_path, {one: file(tmp_path, names[1])}, 9) == {}
    assert lines(tmp_path, "data/real") == expected(one, 9)
    assert not list(tmp_path.glob("*.flushed")) and (tmp_path / "link.jsonl").is_symlink()


@pytest.mark.parametrize("make", [table, file])
@pytest.mark.parametrize("late", [False, True], ids=["from the start", "declared late"])
@pytest.mark.parametrize("written", [0, 2])
def test_what_nodes_have_written_is_refused_where_there_are_none(
    make: Any, late: bool, written: int, tmp_path: Path
) -> None:
    """No lease can be lost there: the sink fails alone, or the start is refused as for any other store's."""
    read = rows if make is table else lines
    with closing(make(tmp_path, "b")) as sink:
        sink.claim(Origin("b", partition="n/0", group="g"))
        sink.fence(1)
        sink.open("b")
        sink.write(0, list(range(written)))
        sink.flush()
    if written and not late:
        with pytest.raises(PositionUnavailable, match="in group 'g' up to 1, and belongs to another store"):
            run(tmp_path, {name: make(tmp_path, name) for name in STREAMS}, 3)
        return
    failed = run(tmp_path, {name: make(tmp_path, name) for name in STREAMS}, 3, late=late)
    assert failed.keys() == {"b"} and ("nodes" in failed["b"] or "group 'g'" in failed["b"])
    assert read(tmp_path, "a") == expected("a", 3)


def test_a_copy_of_a_store_goes_on_with_its_targets(kind: Any, tmp_path: Path) -> None:
    """It is the same store: one that was moved, or restored from a backup."""
    make, read = kind
    run(tmp_path, {"a": make(tmp_path, "a")}, 3)
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "copy").rename(tmp_path / "store")
    assert run(tmp_path, {"a": make(tmp_path, "a")}, 9) == {}
    assert read(tmp_path, "a") == expected("a", 9)


@pytest.mark.parametrize("make", [table, file])
def test_who_names_no_store_is_of_the_stream_of_any(make: Any, tmp_path: Path) -> None:
    """A sink that is opened by hand goes on behind an evaluator, and an evaluator behind it; the store stays known."""
    run(tmp_path, {}, 3)
    with closing(make(tmp_path, "a")) as sink:
        sink.open("a")
        sink.write(0, ["a 0", "a 1"])
        sink.flush()
    assert run(tmp_path, {"a": make(tmp_path, "a")}, 4) == {}
    for stream, wanted in (("a", 4), ("b", None)):
        with closing(make(tmp_path, "a")) as sink:
            if wanted is None:
                with pytest.raises(CheckpointRefused, match="the ids of stream 'a'"):
                    sink.open(stream)
            else:
                assert sink.open(stream) == wanted
                sink.flush()
    shutil.rmtree(tmp_path / "store")
    with pytest.raises(PositionUnavailable, match="another store"):
        run(tmp_path, {"a": make(tmp_path, "a")}, 9)


def test_a_file_whose_mark_is_damaged_is_gone_on_with(tmp_path: Path) -> None:
    """What cannot be read of it says nothing: neither an origin that it is not, nor a refusal of its own."""
    run(tmp_path, {"a": file(tmp_path, "a")}, 3)
    origin = read_mark(tmp_path / "a.jsonl").origin
    assert origin is not None
    mark = tmp_path / "a.jsonl.flushed"
    whole = mark.read_bytes()
    for place in range(21, len(whole)):
        mark.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with closing(file(tmp_path, "a")) as sink:
            sink.claim(origin)
            assert sink.open("a") == 3
        assert read_mark(tmp_path / "a.jsonl").origin is None
    assert run(tmp_path, {"a": file(tmp_path, "a")}, 9) == {}
    assert lines(tmp_path, "a") == expected("a", 9) and read_mark(tmp_path / "a.jsonl").origin == origin


@pytest.mark.parametrize("make", [table, file])
def test_a_start_that_is_refused_leaves_no_trace(make: Any, tmp_path: Path) -> None:
    """What does not say whose it is does so only once it is written: behind a wrong store the right one goes on."""
    read = rows if make is table else lines
    run(tmp_path, {"a": make(tmp_path, "a")}, 3)
    if make is table:
        with closing(sqlite3.connect(tmp_path / "out.db")) as database:
            database.execute("UPDATE reliable_rx_sinks SET origin = ''")
            database.commit()
    else:
        (tmp_path / "a.jsonl.flushed").unlink()
    (tmp_path / "store").rename(tmp_path / "right")
    with pytest.raises(PositionUnavailable, match="already has 3 ids"):
        run(tmp_path, {"a": make(tmp_path, "a")}, 2)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "right").rename(tmp_path / "store")
    assert run(tmp_path, {"a": make(tmp_path, "a")}, 9) == {}
    assert read(tmp_path, "a") == expected("a", 9)


def test_a_target_that_was_emptied_is_anybodys(tmp_path: Path) -> None:
    """What has no ids has none of another stream."""
    run(tmp_path, {name: file(tmp_path, name) for name in STREAMS}, 3)
    for each in tmp_path.glob("*.jsonl*"):
        each.unlink()
    assert run(tmp_path, {"a": file(tmp_path, "b"), "b": file(tmp_path, "a")}, 6) == {}


class Posted:
    """A sink into a service, which does not say what it has; `target` is its address."""

    def __init__(self, got: list[Any]) -> None:
        self.target, self.got = "http://127.0.0.1/events", got

    def open(self, stream: str, /) -> int | None:
        return None

    def write(self, first: int, values: Any, /) -> None:
        self.got += values

    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def test_a_service_may_serve_many_streams(tmp_path: Path) -> None:
    """Nothing in it is anybody's place: only what says itself which ids it has is one stream's alone."""
    got: list[Any] = []
    for upto in (3, 5):
        assert run(tmp_path, {name: Posted(got) for name in STREAMS}, upto) == {}
    assert sorted(got) == [f"{name} {n}" for name in STREAMS for n in range(5)]
