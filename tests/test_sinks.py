"""Sinks: each notification once, through torn tails, full disks, failed commits and real kills."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import errno
import itertools
import json
import os
import random
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import pytest
from anybodys import Anybodys
from forked import Forked, script
from lanes import at_each_commit, every

from hosting.sinks import CallbackSink, JsonLinesSink, SqliteTableSink, json_lines, plain, sqlite_table, to_plain
from hosting.sinks.flushed_mark import FlushedMark
from reliable_rx import failpoints as probes
from reliable_rx.errors import CheckpointRefused, InternalError, PositionUnavailable, StoreOwned, StoreUnavailable
from reliable_rx.testing import check_sink
from reliable_rx.testing.hostile import ERRORS, Hostile


class Price(NamedTuple):
    symbol: str
    amount: float


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line, parse_int=number) for line in path.read_text().split("\n")[:-1]]


def number(text: str) -> int | str:
    """Read an integer; one of very many digits stays text."""
    return int(text) if len(text) < 4000 else text


def values_of(path: Path) -> list[tuple[int, Any]]:
    return [(record["id"], record["value"]) for record in lines_of(path) if "value" in record] if path.exists() else []


def rows_of(path: Path, query: str = "SELECT * FROM t ORDER BY id") -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def fill(sink: Any, values: list[Any]) -> None:
    """Open, write what is wanted of *values*, flush, close."""
    wanted = sink.open("s")
    sink.write(wanted, values[wanted:])
    sink.flush()
    sink.close()


@pytest.fixture
def kept_order() -> Iterator[None]:
    """Disarm what a test has armed."""
    yield
    probes.ARMED.clear()


def test_conformance(tmp_path: Path) -> None:
    """Both exactly-once sinks keep the promises of `Sink` through restarts at every id."""
    lines = tmp_path / "out.jsonl"
    check_sink(lambda: JsonLinesSink(lines), lambda: values_of(lines))
    check_sink(
        lambda: SqliteTableSink(tmp_path / "out.db", "t"),
        lambda: [(n, json.loads(text, parse_int=number)) for n, text in rows_of(tmp_path / "out.db")],
    )


def test_conformance_with_a_tail_torn_off(tmp_path: Path) -> None:
    """The file sink keeps them when each crash leaves half of a line."""
    path = tmp_path / "out.jsonl"

    def tear() -> None:
        with open(path, "ab") as file:
            file.write(b'{"id":99,"val')

    check_sink(lambda: JsonLinesSink(path), lambda: values_of(path), tear=tear)


def test_the_suite_finds_planted_bugs(tmp_path: Path) -> None:
    """`check_sink` refuses a sink that forgets a flush, doubles a value, or does not know its end."""

    class Doubling(JsonLinesSink):
        def open(self, stream: str, /) -> int | None:
            wanted = super().open(stream)
            self._next = max(0, self._next - 1)
            return wanted and wanted - 1

    class Forgetting(SqliteTableSink):
        def flush(self) -> None: ...

    class Endless(JsonLinesSink):
        def end(self, n: int, error: Exception | None, /) -> None: ...

    class Nosy(JsonLinesSink):
        def _check_gap(self, first: int) -> None: ...

    class Raw(JsonLinesSink):
        def _line(self, n: int, value: Any) -> str:
            return f'{{"id":{n},"value":{json.dumps(to_plain(value))}}}\n'

    class Half(JsonLinesSink):
        def write(self, first: int, values: Any, /) -> None:
            for n, value in enumerate(values, first):
                super().write(n, [value])
                self._length -= 1

    class Silent(JsonLinesSink):
        def skip(self, n: int, until: int, why: str, letter: Any, /) -> None:
            self._next = until

    class Misnaming(JsonLinesSink):
        def _line(self, n: int, value: Any) -> str:
            return super()._line(self._next, value)

    for kind in (Doubling, Endless, Nosy, Raw, Half, Silent, Misnaming, Anybodys):
        path = tmp_path / f"{kind.__name__}.jsonl"
        with pytest.raises(AssertionError):
            check_sink(lambda path=path, kind=kind: kind(path), lambda path=path: values_of(path))
    with pytest.raises(AssertionError):
        check_sink(lambda: Forgetting(tmp_path / "f.db", "t"), list)

    class Late(SqliteTableSink):
        def _to_rows(self, values: Any) -> Any:
            getters = self._getters or {"value": lambda value: value}
            return [(n, value) for n, value in enumerate(values, self._next)], getters

    with pytest.raises(AssertionError, match="can be flushed"):
        check_sink(lambda: Late(tmp_path / "l.db", "t"), lambda: rows_of(tmp_path / "l.db"), values=["a", "b"])


@pytest.mark.parametrize("mark", [at_each_commit(None), 0])
@pytest.mark.parametrize("ending", [at_each_commit(None), ValueError("bad\nday")])
def test_torn_at_every_byte(tmp_path: Path, ending: Exception | None, mark: int | None) -> None:
    """Cut at any byte, the file is opened behind its last whole line, completed, and equal to an untorn one."""
    values = [Price("A", 1.5), "two\nlines", {"é": [1, None]}]

    def finish(path: Path) -> None:
        sink = JsonLinesSink(path)
        wanted = sink.open("s")
        assert wanted is not None
        if wanted < 3:
            sink.write(wanted, values[wanted:])
        sink.end(3, ending)
        sink.flush()
        sink.close()

    whole = tmp_path / "whole.jsonl"
    finish(whole)
    data = whole.read_bytes()
    torn = tmp_path / "torn.jsonl"
    for size in range(len(data) + 1):
        for tail in (b"", b"\0\0\0"):
            torn.write_bytes(data[:size] + tail)
            torn.with_name("torn.jsonl.flushed").unlink(missing_ok=True)
            if mark is not None:
                with closing(FlushedMark(torn)) as beside:
                    beside.write(mark)
            finish(torn)
            assert torn.read_bytes() == data


def test_a_file_that_somebody_has_cut_is_said_to_be(tmp_path: Path) -> None:
    """What is gone was flushed: it is written again, and nobody is told of a power cut."""
    path = tmp_path / "out.jsonl"
    fill(JsonLinesSink(path), list(range(100)))
    whole = path.read_bytes()
    path.write_bytes(whole[:500])
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.close()
    assert f"was cut by somebody, from {len(whole):,} bytes to 500, in the midst of a line" in sink.remark
    fill(JsonLinesSink(path), list(range(100)))
    assert path.read_bytes() == whole


def test_a_hole_before_whole_lines(tmp_path: Path) -> None:
    """A power cut may lose an earlier page and keep a later one: the run of lines ends at the hole."""
    path = tmp_path / "out.jsonl"
    fill(JsonLinesSink(path), list(range(100)))
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(100, list(range(100, 1000)))
    sink.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(4096) + whole[8192:])
    sink = JsonLinesSink(path)
    wanted = sink.open("s")
    sink.close()
    assert wanted == whole[:4096].count(b"\n") > 100
    assert "were torn and never flushed" in sink.remark
    assert (
        path.with_name("out.jsonl.cut-1").read_bytes()
        == (whole[:4096] + bytes(4096) + whole[8192:])[path.stat().st_size :]
    )
    fill(JsonLinesSink(path), list(range(1000)))
    assert values_of(path) == list(enumerate(range(1000)))


def test_never_more_unsynced_than_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink syncs by itself before the unsynced tail outgrows what opening checks."""
    monkeypatch.setattr(json_lines, "UNSYNCED_BYTES_MAX", 200)
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd))[1])
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.open("s")
    synced.clear()
    for n in range(50):
        sink.write(n, [n])
        assert path.stat().st_size - (synced[-1] if synced else 0) <= 200
    sink.write(50, list(range(50, 100)))
    assert max(after - before for before, after in itertools.pairwise(synced)) <= 200
    sink.close()
    again = JsonLinesSink(path)
    assert again.open("s") == 100
    again.close()


@pytest.mark.parametrize("size", [10, 500])
def test_everything_unsynced_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """When the disk has nothing of what was unsynced but its length, the durable lines before it are found."""
    monkeypatch.setattr(json_lines, "UNSYNCED_BYTES_MAX", 200)
    path = tmp_path / "out.jsonl"
    values = ["x" * size] * 60
    fill(JsonLinesSink(path), values[:30])
    durable = path.stat().st_size
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(30, values[30 : 30 + max(1, 200 // (size + 30))])
    sink.close()
    data = path.read_bytes()
    path.write_bytes(data[:durable] + bytes(len(data) - durable))
    fill(JsonLinesSink(path), values)
    assert values_of(path) == list(enumerate(values))


def test_a_big_batch_that_fails_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch larger than what may be unsynced goes in line by line; given again after a failure, nothing doubles."""
    monkeypatch.setattr(json_lines, "UNSYNCED_BYTES_MAX", 50)
    real = json_lines._write_at
    calls = itertools.count()

    def write_at(file: Any, offset: int, data: bytes) -> None:
        if next(calls) in (3, 4, 7):
            real(file, offset, data[:5])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, offset, data)

    monkeypatch.setattr(json_lines, "_write_at", write_at)
    sink = JsonLinesSink(tmp_path / "out.jsonl")
    sink.open("s")
    values = list(range(20))
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            sink.write(0, values)
    sink.write(0, values)
    sink.flush()
    sink.close()
    assert values_of(tmp_path / "out.jsonl") == list(enumerate(values))


def test_values_are_in_the_file_before_flush(tmp_path: Path) -> None:
    """A reader of the file need not wait for a checkpoint."""
    sink = JsonLinesSink(tmp_path / "out.jsonl")
    sink.open("s")
    sink.write(0, ["a", "b"])
    assert values_of(tmp_path / "out.jsonl") == [(0, "a"), (1, "b")]
    sink.close()


@pytest.mark.parametrize("fails_after_bytes", [0, 1, 30, 59])
def test_a_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_after_bytes: int) -> None:
    """Half a batch, then no space: the same batch, cut otherwise, can be written when there is space again."""
    real = json_lines._write_at
    full = [True]

    def write_at(file: Any, offset: int, data: bytes) -> None:
        if full[0] and offset:
            real(file, offset, data[:fails_after_bytes])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file, offset, data)

    monkeypatch.setattr(json_lines, "_write_at", write_at)
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(0, ["a"])
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="No space left"):
            sink.write(1, ["b", "c", "d"])
    full[0] = False
    sink.write(1, ["b"])
    sink.flush()
    assert values_of(path) == [(0, "a"), (1, "b")]
    sink.write(2, ["c", "d"])
    sink.flush()
    sink.close()
    assert values_of(path) == list(enumerate("abcd"))


def test_a_failed_fsync_drops_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed fsync the cache may have lost what it marks clean: it is written again before the next."""
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(0, ["a"])
    sink.flush()
    durable = path.stat().st_size
    real = os.fsync

    def fsync(fd: int) -> None:
        with open(path, "r+b") as file:
            size = file.seek(0, 2)
            file.seek(durable)
            file.write(bytes(size - durable))
        monkeypatch.setattr(os, "fsync", real)
        raise OSError(errno.EIO, "Input/output error")

    sink.write(1, ["b", "c"])
    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(StoreUnavailable, match="made durable"):
        sink.flush()
    sink.write(3, ["d"])
    sink.flush()
    sink.close()
    assert values_of(path) == list(enumerate("abcd"))


@pytest.mark.parametrize(
    "content", ["hello\n", '{"name": 1}\n', "no newline", '[{"id":0}]', '{"id":"x","value":1}\n', "\n"]
)
def test_a_foreign_file_is_left_alone(tmp_path: Path, content: str) -> None:
    """A file that the sink did not write is refused and keeps every byte."""
    path = tmp_path / "precious.txt"
    path.write_text(content)
    with pytest.raises(CheckpointRefused, match=r"did not write|not written by this sink"):
        JsonLinesSink(path).open("s")
    assert path.read_text() == content


def test_a_file_has_one_writer(tmp_path: Path) -> None:
    """A second sink on the same file is refused while the first is open."""
    first, second = JsonLinesSink(tmp_path / "out.jsonl"), JsonLinesSink(tmp_path / "out.jsonl")
    first.open("s")
    with pytest.raises(StoreOwned, match="open in another sink"):
        second.open("s")
    first.close()
    assert second.open("s") == 0
    second.close()


def makers(tmp_path: Path) -> list[Callable[[], Any]]:
    return [lambda: JsonLinesSink(tmp_path / "o.jsonl"), lambda: SqliteTableSink(tmp_path / "o.db", "t")]


@pytest.mark.parametrize("which", [0, 1])
def test_gaps_repeats_and_misuse(tmp_path: Path, which: int) -> None:
    """Ids below the position are skipped, ids above it are refused, and nothing is written to a closed sink."""
    make = makers(tmp_path)[which]
    sink = make()
    with pytest.raises(InternalError):
        sink.flush()
    sink.open("s")
    with pytest.raises(InternalError):
        sink.open("s")
    with pytest.raises(PositionUnavailable, match="wants id 0 next and is given 1") as caught:
        sink.write(1, ["b"])
    assert (caught.value.wanted, caught.value.first) == (0, 1)
    sink.write(0, ["a", "b"])
    sink.write(0, ["a", "b", "c"])
    with pytest.raises(PositionUnavailable):
        sink.end(4, None)
    sink.end(3, None)
    sink.end(3, None)
    sink.flush()
    sink.close()
    sink = make()
    assert sink.open("s") == 4
    sink.close()


@pytest.mark.parametrize("which", [0, 1])
def test_a_value_that_cannot_be_written(tmp_path: Path, which: int) -> None:
    """It is named, and nothing of its batch is written."""
    sink = makers(tmp_path)[which]()
    sink.open("s")
    with pytest.raises(TypeError, match="object has no JSON form; give the sink encode=, which maps it to a dict"):
        sink.write(0, ["a", object(), "c"])
    with pytest.raises(
        TypeError, match=r"numpy.int64 has no JSON form; give the sink encode=, which maps it with its \.tolist\(\)"
    ):
        sink.write(0, ["a", numpy.int64(3)])
    sink.write(0, ["a"])
    sink.flush()
    sink.close()
    sink = makers(tmp_path)[which]()
    assert sink.open("s") == 1
    sink.close()


@pytest.mark.usefixtures("kept_order")
@pytest.mark.parametrize("which", [0, 1])
def test_probes_around_flush(tmp_path: Path, which: int) -> None:
    """`flush` passes both named places, in order."""
    passed: list[str] = []
    for name in ("sink.before_flush", "sink.after_flush"):
        probes.ARMED[name] = lambda name=name: passed.append(name)  # type: ignore[misc]
    fill(makers(tmp_path)[which](), ["a"])
    assert passed == ["sink.before_flush", "sink.after_flush"]


def test_errors_and_completion_in_the_file(tmp_path: Path) -> None:
    """The end line says how the stream ended."""
    for name, error in (("a", None), ("b", ValueError("bad day"))):
        sink = JsonLinesSink(tmp_path / name)
        sink.open("s")
        sink.write(0, [1])
        sink.end(1, error)
        sink.close()
    assert lines_of(tmp_path / "a")[1] == {"id": 1, "completed": True}
    assert lines_of(tmp_path / "b")[1] == {"id": 1, "error": "ValueError: bad day"}


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Leg:
    price: Price
    when: datetime.datetime


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Price("A", 1.5), {"symbol": "A", "amount": 1.5}),
        (
            Leg(Price("A", 2), datetime.datetime(2013, 1, 1)),
            {"price": {"symbol": "A", "amount": 2}, "when": "2013-01-01T00:00:00"},
        ),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset([("a", 1), ("b", 0)]), [["a", 1], ["b", 0]]),
        ({1, "a"}, ["a", 1]),
        (decimal.Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        (datetime.timedelta(minutes=1), 60.0),
        ({1: "a", None: "b", datetime.date(2013, 1, 2): "c"}, {"1": "a", "null": "b", "2013-01-02": "c"}),
        (collections.deque([1]), [1]),
        (Path("/a"), "/a"),
    ],
)
def test_plain_values(value: Any, plain: Any) -> None:
    """What Python holds has one JSON form, and it is deterministic."""
    assert to_plain(value) == plain
    json.dumps(to_plain(value))


@pytest.mark.parametrize("value", [b"bytes", object(), {(1, 2): 3}, {1: "a", "1": "b"}])
def test_values_without_a_json_form(value: Any) -> None:
    """They are refused with a remedy, not guessed."""
    with pytest.raises(TypeError, match="JSON form"):
        to_plain(value)


def test_encode(tmp_path: Path) -> None:
    """A function of one's own decides what goes into the file."""
    fill(JsonLinesSink(tmp_path / "o", encode=lambda v: v.decode()), [b"a"])
    assert values_of(tmp_path / "o") == [(0, "a")]


def test_columns_of_a_table(tmp_path: Path) -> None:
    """Columns come from the first value, from names, or from functions; odd types become text."""
    path = tmp_path / "o.db"
    odd = [{"big": 1 << 70, "when": datetime.date(2013, 1, 1), "set": {2, 1}, "raw": b"x", "yes": True}]
    fill(SqliteTableSink(path, "fields"), [Price("A", 1.5), Price("B", 2.0)])
    fill(SqliteTableSink(path, "names", columns=["amount"]), [Price("A", 1.5)])
    fill(SqliteTableSink(path, "functions", columns={"twice": lambda v: v * 2}), [21])
    fill(SqliteTableSink(path, "odd"), odd)
    fill(SqliteTableSink(path, 'json "quoted"'), [[1, 2], "x"])
    assert rows_of(path, "SELECT id, symbol, amount FROM fields") == [(0, "A", 1.5), (1, "B", 2.0)]
    assert rows_of(path, "SELECT * FROM names") == [(0, 1.5)]
    assert rows_of(path, "SELECT twice FROM functions") == [(42,)]
    assert rows_of(path, "SELECT * FROM odd") == [(0, str(1 << 70), "2013-01-01", "[1,2]", b"x", 1)]
    assert rows_of(path, 'SELECT value FROM "json ""quoted"""') == [("[1,2]",), ('"x"',)]


def test_a_table_goes_on_with_its_columns(tmp_path: Path) -> None:
    """Opened again, the table's columns hold; other ones are refused, and so is a table of somebody else."""
    path = tmp_path / "o.db"
    fill(SqliteTableSink(path, "t"), [Price("A", 1.5)])
    fill(SqliteTableSink(path, "t"), [Price("A", 1.5), Price("B", 2.0)])
    assert rows_of(path) == [(0, "A", 1.5), (1, "B", 2.0)]
    with pytest.raises(CheckpointRefused, match="has the columns id, symbol, amount, not id, price"):
        SqliteTableSink(path, "t", columns=["price"]).open("s")
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE theirs (a)")
    database.commit()
    database.close()
    with pytest.raises(CheckpointRefused, match="was not made by this sink"):
        SqliteTableSink(path, "theirs").open("s")


def test_names_that_clash(tmp_path: Path) -> None:
    """A column called id is the table's own; the remedy is named."""
    sink = SqliteTableSink(tmp_path / "o.db", "t")
    sink.open("s")
    with pytest.raises(ValueError, match="give columns="):
        sink.write(0, [{"Id": 1}])
    sink.close()
    with pytest.raises(ValueError, match="cannot name a table"):
        SqliteTableSink(tmp_path / "o.db", "reliable_rx_sinks")


def test_deleted_rows_do_not_move_the_position(tmp_path: Path) -> None:
    """Whoever prunes the table does not make the sink forget where it is."""
    path = tmp_path / "o.db"
    fill(SqliteTableSink(path, "t"), ["a", "b"])
    database = sqlite3.connect(path)
    database.execute("DELETE FROM t")
    database.commit()
    database.close()
    fill(SqliteTableSink(path, "t"), ["a", "b", "c"])
    assert rows_of(path) == [(2, '"c"')]


def test_the_end_of_a_table(tmp_path: Path) -> None:
    """The end lies in the registry, in the transaction of the last rows."""
    sink = SqliteTableSink(tmp_path / "o.db", "t")
    sink.open("s")
    sink.write(0, ["a"])
    sink.end(1, ValueError("bad day"))
    sink.flush()
    sink.close()
    registry = rows_of(tmp_path / "o.db", "SELECT name, stream, next_id, ended_id, error FROM reliable_rx_sinks")
    assert registry == [("t", "s", 2, 1, "ValueError: bad day")]


@pytest.mark.parametrize("has_end", [False, True], ids=["rows follow", "with the end"])
@pytest.mark.parametrize("statement", ["BEGIN IMMEDIATE", "CREATE TABLE", "INSERT", "UPDATE", "COMMIT", "after COMMIT"])
def test_a_database_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, has_end: bool) -> None:
    """Whichever statement fails, even a COMMIT that has happened, the next flush neither loses nor doubles."""
    path = tmp_path / "o.db"
    failing = [False]

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> Any:
            hit = failing[0] and sql.lstrip().startswith(statement.removeprefix("after "))
            if hit and not statement.startswith("after"):
                raise sqlite3.OperationalError("disk I/O error")
            result = super().execute(sql, *args)
            if hit:
                raise sqlite3.OperationalError("disk I/O error")
            return result

        def executemany(self, sql: str, *args: Any) -> Any:
            if failing[0] and sql.startswith(statement):
                raise sqlite3.OperationalError("disk I/O error")
            return super().executemany(sql, *args)

    real = sqlite3.connect
    monkeypatch.setattr(sqlite_table.sqlite3, "connect", lambda *a, **k: real(*a, factory=Failing, **k))
    sink = SqliteTableSink(path, "t")
    sink.open("s")
    sink.write(0, ["a", "b"])

    def write_rest() -> None:
        sink.write(2, ["c"])
        sink.end(3, ValueError("bad day"))

    if has_end:
        write_rest()
    failing[0] = True
    with pytest.raises(StoreUnavailable, match="disk I/O error"):
        sink.flush()
    failing[0] = False
    if not has_end:
        write_rest()
    sink.flush()
    sink.close()
    monkeypatch.undo()
    assert rows_of(path) == [(0, '"a"'), (1, '"b"'), (2, '"c"')]
    registry = rows_of(path, "SELECT next_id, ended_id, error, made FROM reliable_rx_sinks")
    assert registry == [(4, 3, "ValueError: bad day", 1)]


def test_rows_held_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a flush for long, rows are committed by themselves."""
    monkeypatch.setattr(sqlite_table, "ROWS_HELD_MAX", 10)
    sink = SqliteTableSink(tmp_path / "o.db", "t")
    sink.open("s")
    for n in range(25):
        sink.write(n, [n])
        assert len(sink._rows) <= 10
    sink.close()
    assert len(rows_of(tmp_path / "o.db")) == 20


def test_callback() -> None:
    """Ids count on from the first; the end is told once."""
    seen: list[Any] = []
    sink = CallbackSink(lambda n, value: seen.append((n, value)), lambda n, error: seen.append((n, "end", error)))
    assert sink.open("s") is None
    sink.write(3, "ab")
    sink.end(5, None)
    sink.flush()
    sink.close()
    assert seen == [(3, "a"), (4, "b"), (5, "end", None)]
    CallbackSink(print).end(0, None)


WRITER = """
import itertools, sys
from hosting.sinks import JsonLinesSink, SqliteTableSink
kind, path = sys.argv[1:]
sink = JsonLinesSink(path) if kind == "lines" else SqliteTableSink(path, "t")
n = sink.open("s")
print("open", n, flush=True)
for turn in itertools.count():
    size = 1 + (n * 7) % 50
    sink.write(n, [{"n": i, "pad": "x" * (i % 90)} for i in range(n, n + size)])
    n += size
    if turn % 3 == 0:
        sink.flush()
        print("flushed", n, flush=True)
"""


def kill_while_writing(kind: str, path: Path, rng: random.Random) -> tuple[int, int]:
    """Run the writer until it has flushed a few times, kill it; return where it began and what it said was flushed."""
    writer = path.with_name("writer.py")
    writer.write_text(WRITER)
    with Forked([str(writer), kind, str(path)], script) as process:
        opened = int(process.stdout.readline().split()[1])
        flushed = opened
        for line in itertools.islice(process.stdout, rng.randrange(1, 12)):
            flushed = int(line.split()[1])
        process.send_signal(signal.SIGKILL)
        rest = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    return opened, int(rest[-1].split()[1]) if rest else flushed


def check_kills(kind: str, path: Path, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    flushed_before = 0
    for _ in range(kills):
        opened, flushed = kill_while_writing(kind, path, rng)
        assert opened >= flushed_before
        flushed_before = flushed
    sink: Any = JsonLinesSink(path) if kind == "lines" else SqliteTableSink(path, "t")
    end = sink.open("s")
    sink.close()
    assert end >= flushed_before
    expected = [(n, n, "x" * (n % 90)) for n in range(end)]
    if kind == "lines":
        assert [(n, v["n"], v["pad"]) for n, v in values_of(path)] == expected
    else:
        assert rows_of(path) == expected


@pytest.mark.parametrize("kind", ["lines", "table"])
def test_killed_while_writing(tmp_path: Path, kind: str) -> None:
    """A real SIGKILL in the middle of writes: every id once, nothing lost that was flushed."""
    check_kills(kind, tmp_path / "out", 3, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lines", "table"])
def test_killed_while_writing_many_times(tmp_path: Path, kind: str) -> None:
    """The same, fifty times over."""
    check_kills(kind, tmp_path / "out", 50, 2)


@pytest.mark.parametrize("hostile", every(3, ERRORS, commits=1), ids=repr)
@pytest.mark.parametrize("which", [at_each_commit(0), 1])
def test_any_error_may_be_the_end(tmp_path: Path, which: int, hostile: Hostile) -> None:
    """Whatever it says of itself, the end is written, and the sink knows it."""
    sink = makers(tmp_path)[which]()
    sink.open("s")
    sink.write(0, ["a"])
    sink.end(1, hostile.make())
    sink.flush()
    sink.close()
    sink = makers(tmp_path)[which]()
    assert sink.open("s") == 2
    sink.close()


def test_types_made_at_run_time_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of each type of value that a sink has seen is bounded."""
    most = len(plain._CONVERTERS) + 5
    monkeypatch.setattr(plain, "_TYPES_MAX", most)
    for number in range(20):
        assert to_plain(type(f"Made{number}", (int,), {})(3)) == 3
    assert len(plain._CONVERTERS) <= most + 1
