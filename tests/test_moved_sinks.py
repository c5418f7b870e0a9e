"""A file that is declared as before, in a folder that was moved, is that one; any other new sink takes no place."""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import DataObject, booleans, data, integers, lists, sampled_from
from lanes import at_each_commit, examples

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.store import Store
from hosting import CallbackSink, JsonLinesSink, QueryEvaluator, SqliteTableSink
from hosting.edges.refused_sink import RefusedSink
from reliable_rx.errors import CheckpointRefused
from reliable_rx.reliable import Sink

BUFFER = 50


def rows_of_lines(folder: Path) -> list[int]:
    return [json.loads(each)["id"] for each in (folder / "out.jsonl").read_text().splitlines()]


def rows_of_table(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "out.db")) as database:
        return [n for (n,) in database.execute("SELECT id FROM numbers ORDER BY id")]


KINDS: dict[str, tuple[Callable[[Path], Sink], Callable[[Path], list[int]]]] = {
    "lines": (lambda folder: JsonLinesSink(folder / "out.jsonl"), rows_of_lines),
    "table": (lambda folder: SqliteTableSink(folder / "out.db", "numbers"), rows_of_table),
}


class Host:
    """An evaluator with a small buffer, and sinks for the one query that it has."""

    def __init__(self, store: Store, sinks: Sequence[Sink], *, late: Sequence[Sink] = (), retain: int = 10) -> None:
        self.evaluator = QueryEvaluator(
            store, background=False, checkpoint_interval_s=1e9, buffer_events_max=BUFFER, retain_events=retain
        )
        self.n = self.evaluator.push("n")
        self.evaluator.create("same", rx.source("n"))
        for sink in sinks:
            self.evaluator.sink("same", sink)
        self.evaluator.start()
        for sink in late:
            self.evaluator.sink("same", sink)
        self.settle()

    def feed(self, count: int) -> None:
        for value in range(count):
            self.n.push([value])
            self.settle()

    def settle(self) -> None:
        while self.evaluator.step():
            pass

    def said(self, kind: str = "holder") -> list[str]:
        return [each.message for each in self.evaluator.incidents.open() if each.kind == kind]

    def stop(self) -> None:
        self.evaluator.checkpoint()
        self.evaluator.close()


@pytest.mark.parametrize("killed", [at_each_commit(False), True], ids=["stopped", "killed"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_that_was_moved_is_no_other_app(
    kind: str, killed: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its sinks go on in the moved files, each id once; one line says so once, and nothing is ever let go."""
    make, rows = KINDS[kind]
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with SqliteStore(old / "st") as store:
        host = Host(store, [make(old)])
        host.feed(20)
        host.evaluator.checkpoint()
        host.feed(7)
        if killed:
            shutil.copytree(old, new, ignore=lambda folder, names: {each for each in names if "lock" in each})
        host.stop()
    if killed:
        shutil.rmtree(old)
    else:
        old.rename(new)
    for number in range(2):
        caplog.clear()
        with caplog.at_level(logging.INFO, "reliable_rx"), SqliteStore(new / "st") as store:
            host = Host(store, [make(new)])
            host.feed(2 * BUFFER)
            assert not host.said() and not host.said("sink")
            assert len(host.evaluator.query("same").holders) == 1
            host.stop()
        told = [each.getMessage() for each in caplog.records if "is now" in each.getMessage()]
        assert len(told) == (number == 0), told
        assert all(str(each) in line for line in told for each in (old, new))
    assert rows(new) == list(range(27 + 4 * BUFFER))


def test_a_file_that_is_not_there_any_more_is_not_taken_for_the_same(tmp_path: Path) -> None:
    """Class and target of both are named, and the whole command; the old file goes on when it is declared again."""
    folder = tmp_path / "my store"
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    with SqliteStore(folder) as store:
        host = Host(store, [JsonLinesSink(old)], retain=1000)
        host.feed(20)
        host.stop()
    with SqliteStore(folder) as store:
        host = Host(store, [JsonLinesSink(new)], retain=1000)
        host.feed(5)
        (said,) = host.said()
        assert f"a JsonLinesSink to {old}, which has what is below id 20" in said
        assert f"a JsonLinesSink to {new}, which has what is below id 0" in said
        assert f"`reliable-rx release '{folder}' same 'sink 0'`" in said
        host.stop()
    with SqliteStore(folder) as store:
        host = Host(store, [JsonLinesSink(old), JsonLinesSink(new)], retain=1000)
        assert not host.said()
        host.stop()
    for each in (old, new):
        assert [json.loads(line)["id"] for line in each.read_text().splitlines()] == list(range(25))


class Books:
    """What functions were called with."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def sink(self, name: str) -> CallbackSink:
        def take(n: int, value: Any) -> None:
            self.ids.append(n)

        take.__qualname__ = name
        return CallbackSink(take)


@pytest.mark.parametrize("late", [False, True])
def test_a_renamed_function_misses_nothing_and_takes_no_place(late: bool) -> None:
    """It begins where the old one was, which keeps its place, is named, and gets what it lacks when it is back.

    Declared after the start it begins at 0, as the old one may be declared yet.
    """
    books, store = {"mail": Books(), "post": Books()}, MemoryStore()
    for name in ("mail", "post", "post"):
        store = store.reopen()
        sinks = [books[name].sink(name)]
        host = Host(store, [], late=sinks) if late else Host(store, sinks)
        host.feed(10)
        said = host.said()
        assert len(said) == (name == "post")
        assert all("a CallbackSink to test_moved_sinks.mail, which has what is below id 10" in each for each in said)
        assert all("let it go with" in each for each in said)
        host.stop()
    host = Host(store.reopen(), [books["post"].sink("post"), books["mail"].sink("mail")])
    assert not host.said()
    assert books["mail"].ids == list(range(30)) and books["post"].ids == list(range(0 if late else 10, 30))


def test_a_renamed_function_that_is_killed_misses_nothing() -> None:
    """It is called again with what no checkpoint knows that it has had; once let go, the old one is told no more."""
    books, store = Books(), MemoryStore()
    for number, name in enumerate(("mail", "notify", "notify", "post", "post")):
        store = store.reopen()
        host = Host(store, [books.sink(name)])
        for each in list(host.evaluator.stream("same").absent):
            host.evaluator.holders.release("same", each)
        assert not host.said()
        host.feed(5)
        if number % 2 == 0:
            host.evaluator.checkpoint()
        host.feed(5)  # and is killed
    new = [n for place, n in enumerate(books.ids) if n not in books.ids[:place]]
    assert new == list(range(50))


def test_a_mistaken_path_is_told_until_it_is_let_go(tmp_path: Path) -> None:
    """A file that could not be opened may come back, and its place is kept; the right one gets all."""
    store, wrong, right = MemoryStore(), tmp_path / "folder", tmp_path / "out"
    wrong.mkdir()
    host = Host(store, [JsonLinesSink(wrong)])
    host.feed(20)
    assert len(host.said("sink")) == 1
    host.stop()
    host = Host(store := store.reopen(), [JsonLinesSink(right)])
    (said,) = host.said()
    assert f"a JsonLinesSink to {wrong}, which has what is below id 0" in said
    host.evaluator.holders.release("same", "sink 0")
    host.feed(5)
    host.stop()
    host = Host(store.reopen(), [JsonLinesSink(right)])
    assert not host.said()
    host.stop()
    assert [json.loads(line)["id"] for line in right.read_text().splitlines()] == list(range(25))


@pytest.mark.parametrize("names", [("a/out", "b/out"), ("a/out", "a/other")])
def test_streams_that_exchange_their_files_write_neither(names: tuple[str, str]) -> None:
    """Neither file was moved, however much each has; and a file of another name is another file."""
    files, store = [Content(name) for name in names], MemoryStore()
    for exchanged in (False, True):
        store = store.reopen()
        with QueryEvaluator(store, background=False) as evaluator:
            n = evaluator.push("n")
            for name, each in zip(("plus", "minus"), files[::-1] if exchanged else files, strict=True):
                evaluator.create(name, rx.source("n"))
                evaluator.sink(name, FileOf(each))
            evaluator.start()
            n.push([1, 2, 3])
            while evaluator.step():
                pass
            kinds = sorted(each.kind for each in evaluator.incidents.open())
            assert kinds == ["holder", "holder", "sink", "sink"] * exchanged
    assert [each.ids for each in files] == [[0, 1, 2]] * 2


@pytest.mark.parametrize("is_known", [True, False])
def test_a_sink_that_could_not_be_made_is_declared_all_the_same(is_known: bool) -> None:
    """In a group: its own error is told, nothing else; once it can be made it gets all, and nothing else is kept."""
    books, store = Books(), MemoryStore()
    for makes in (is_known, False, False, True, True):
        store = store.reopen()
        host = Host(store, [books.sink("mail") if makes else RefusedSink(ValueError("no such folder"))], retain=1)
        host.feed(5)
        assert not host.said() and bool(host.said("sink")) != makes
        assert not makes or len(host.evaluator.query("same").holders) == 1
        host.stop()
    assert books.ids == list(range(25))


def test_each_sink_that_could_not_be_made_says_why() -> None:
    """Also where several of a stream could not: each has a place, and all that is lacking is had once they are made."""
    books, store = [Books(), Books()], MemoryStore()
    host = Host(store, [RefusedSink(ValueError(why)) for why in ("no folder", "no key")], retain=1)
    host.feed(5)
    assert [why in said for why, said in zip(("no folder", "no key"), host.said("sink"), strict=True)] == [True, True]
    host.stop()
    host = Host(store.reopen(), [each.sink(name) for each, name in zip(books, ("mail", "post"), strict=True)], retain=1)
    host.feed(5)
    assert not host.said() and not host.said("sink")
    assert [each.ids for each in books] == [list(range(10))] * 2
    assert len(host.evaluator.query("same").holders) == 2
    host.stop()


@dataclass
class Content:
    """A file that has a name now, and keeps what is written to it."""

    path: str
    ids: list[int] = field(default_factory=list)
    stream: str = ""


class FileOf:
    """A sink into a `Content`, which knows what it has, and of which stream."""

    def __init__(self, content: Content) -> None:
        self.content, self.target = content, content.path

    def open(self, stream: str, /) -> int | None:
        if self.content.ids and self.content.stream != stream:
            raise CheckpointRefused(f"it is of {self.content.stream}", what="another stream's", where=self.target)
        self.content.stream = stream
        return len(self.content.ids)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self.content.ids.extend(range(first, first + len(values)))

    def end(self, n: int, error: Exception | None, /) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


@examples(300)
@given(data())
def test_files_that_come_go_and_move_have_each_id_once(draw: DataObject) -> None:
    """Over stops and kills: whichever files an app declares, under whichever names, each goes on where it was."""
    files, store, total = [Content(f"/old/{name}") for name in "abc"], MemoryStore(), 0
    host = Host(store, [FileOf(each) for each in files], retain=1)
    host.stop()
    for number in range(draw.draw(integers(2, 6))):
        for each in files:
            if draw.draw(booleans()):  # into a folder where nothing was, under any name
                each.path = f"/{number}/{files.index(each)}/{draw.draw(sampled_from('abcd'))}"
        here = draw.draw(lists(sampled_from(range(3)), unique=True))
        late = [each for each in here if draw.draw(integers(0, 3)) == 0]
        store = store.reopen()
        host = Host(
            store,
            [FileOf(files[each]) for each in here if each not in late],
            late=[FileOf(files[each]) for each in late],
            retain=1,
        )
        count = draw.draw(integers(0, 4))
        host.feed(count)
        total += count
        assert not host.said("sink"), (here, files)
        assert len(host.said()) >= 3 - len(here) or total == 0
        for at in here:
            assert files[at].ids == list(range(total)), (at, files)
        if draw.draw(booleans()):
            host.stop()
        elif draw.draw(booleans()):
            host.evaluator.checkpoint()
