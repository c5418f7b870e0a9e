"""Small files that unpack to very much without a record: bounded memory, bounded work per call, whatever the policy."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from lanes import every, left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, ListSource, QueryEvaluator, SharedSource
from hosting.sources import lines
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import Rejected

BLOCK, RECORD, STRETCH = 1 << 12, 1 << 15, 1 << 16
BOMB = 3 << 20
UNITS: dict[str, tuple[bytes, bool]] = {
    "one line": (b"a", True),
    "spaces": (b" ", True),
    "zeros": (b"\0", True),
    "brackets": (b"[", True),
    "quotes": (b'"', True),
    "newlines": (b"\n", False),
    "ends of lines": (b"\r\n", False),
}
"""What is repeated, and whether that is one record that is too long; else it is none."""
PACKED = ("", ".gz", ".zip")
CASES = [*itertools.product(UNITS, ("csv", "jsonl"), PACKED)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"BLOCK_BYTES": BLOCK, "RECORD_BYTES_MAX": RECORD, "STRETCH_BYTES": STRETCH}.items():
        monkeypatch.setattr(lines, name, value)


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much has been read of files, in one number."""
    total, read = [0], lines.Lines._read

    def counted(self: lines.Lines, size: int) -> bytes:
        piece = read(self, size)
        total[0] += len(piece)
        return piece

    monkeypatch.setattr(lines.Lines, "_read", counted)
    return total


def write(folder: Path, kind: str, packed: str, content: Iterator[bytes]) -> Path:
    header = b"v\n" if kind == "csv" else b""
    path = folder / f"bomb.{kind}{packed}"
    if packed == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb", b"".join([header, *content]))
    else:
        with gzip.open(path, "wb", 1) if packed else open(path, "wb") as file:
            file.writelines([header, *content])
    return path


def bomb(folder: Path, unit: str, kind: str, packed: str) -> Path:
    data = UNITS[unit][0]
    return write(folder, kind, packed, iter([b"1\n2\n", data * (BOMB // len(data)), b"\n3\n"]))


def number(value: Any) -> int:
    return int(value["v"] if isinstance(value, dict) else value)


class Limits:
    """Asserts after each call that it read little, and at the end that little was held."""

    def __init__(self, read_bytes: list[int]) -> None:
        self.read_bytes = read_bytes
        tracemalloc.start()

    def call(self, action: Callable[[], Any]) -> Any:
        before = self.read_bytes[0]
        try:
            return action()
        finally:
            assert self.read_bytes[0] - before <= 8 * STRETCH, "the work of one call is bounded"
            assert tracemalloc.get_traced_memory()[1] < BOMB // 2, "no line is held whole"

    def __enter__(self) -> Limits:
        return self

    def __exit__(self, *_: object) -> None:
        tracemalloc.stop()


@pytest.mark.parametrize("case", every(46, CASES, commits=23), ids=" ".join)
@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_bomb_is_passed_over_in_little_steps(
    tmp_path: Path, case: tuple[str, str, str], policy: Any, read_bytes: list[int]
) -> None:
    """It is one bad record or none, wherever reading begins; what is before and behind it is read."""
    path, unit = bomb(tmp_path, *case), case[0]
    is_record = UNITS[unit][1]
    whole = 4 if is_record else 3
    for at in range(whole + 1):
        values: list[tuple[int, int]] = []
        rejected: list[Rejected] = []
        source = FileSource(path, on_bad_record=policy)
        with Limits(read_bytes) as limits, closing(source.open(path.name, at)) as reader:
            ended = False
            while not ended:
                batch = limits.call(lambda: reader.fetch(7)) if at < 3 else reader.fetch(7)
                values += [(n, number(value)) for n, value in enumerate(batch.values, batch.first)]
                rejected += batch.rejected
                ended = batch.ended
                assert ended or values or rejected or batch.coming
        assert values == [each for each in [(0, 1), (1, 2), (whole - 1, 3)] if each[0] >= at]
        assert [each.position for each in rejected] == ([2] if is_record and at <= 2 else [])
        for each in rejected:
            assert "it has more than 32,768 bytes" in each.error and len(each.value) < 70_000


@pytest.mark.parametrize("case", every(10, CASES, commits=5), ids=" ".join)
def test_a_bomb_is_named_in_little_memory(tmp_path: Path, case: tuple[str, str, str], read_bytes: list[int]) -> None:
    """Where it fails the source, file, line, limit and remedy are said, after the records before it."""
    path, (unit, kind, _) = bomb(tmp_path, *case), case
    with Limits(read_bytes) as limits, closing(FileSource(path).open(path.name, 0)) as reader:
        assert [number(value) for value in limits.call(lambda: reader.fetch(9)).values] == [1, 2]
        for _ in range(2) if UNITS[unit][1] else ():
            with pytest.raises(SourceFailed) as caught:
                limits.call(lambda: reader.fetch(9))
            line, byte = (4, 6) if kind == "csv" else (3, 4)
            assert f"{path}, line {line} (byte {byte}): it has more than 32,768 bytes" in str(caught.value)
            assert "on_bad_record='skip'" in str(caught.value)


@pytest.mark.parametrize("packed", PACKED)
def test_a_line_behind_a_bomb_is_counted(tmp_path: Path, packed: str, read_bytes: list[int]) -> None:
    """A run that skipped it and now fails names a later record by its line, without holding the long one."""
    path = write(tmp_path, "jsonl", packed, iter([b"1\n", b"a" * BOMB, b"\n2\nodd\n"]))
    with Limits(read_bytes), closing(FileSource(path).open(path.name, 2)) as reader:
        assert list(reader.fetch(1).values) == [2]
        with pytest.raises(SourceFailed, match=r"line 4 \(byte 3,145,733\)"):
            reader.fetch(1)
        assert tracemalloc.get_traced_memory()[1] < BOMB // 2


@pytest.mark.parametrize("rows", [b"1\n", b'""\n', b'a,"b"\n'])
@pytest.mark.parametrize("packed", every(3, PACKED))
def test_a_quote_that_is_never_closed(tmp_path: Path, rows: bytes, packed: str) -> None:
    """Its line is one bad record, and the many short ones behind it are not taken at once."""
    path = write(tmp_path, "csv", packed, iter([b'1\n"\n', rows * (BOMB // len(rows) // 4)]))
    with closing(FileSource(path, on_bad_record="skip").open(path.name, 0)) as reader:
        tracemalloc.start()
        try:
            for _ in range(20):
                reader.fetch(7)
            assert tracemalloc.get_traced_memory()[1] < 40 * RECORD
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_no_header_for_long(tmp_path: Path, end: bytes, read_bytes: list[int]) -> None:
    """Empty lines before the header are passed over in steps as well."""
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", 1) as file:
        file.writelines([end * (BOMB // len(end)), b"v\n1\n2\n"])
    source = FileSource(path)
    with Limits(read_bytes) as limits, closing(source.open(path.name, 0)) as reader:
        values: list[Any] = []
        while len(values) < 2:
            values += limits.call(lambda: reader.fetch(9)).values
    with closing(source.open(path.name, 1)) as reader:
        assert [number(value) for value in reader.fetch(9).values] == [2]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_line_that_grows_for_ever(tmp_path: Path, kind: str) -> None:
    """In a file that is followed it fails the source once it is too long, and has not to end for that."""
    path = write(tmp_path, kind, "", iter([b"1\n"]))
    with closing(FileSource(path, follow=True).open(path.name, 0)) as reader:
        assert [number(value) for value in reader.fetch(9).values] == [1]
        with path.open("ab") as file:
            file.write(b"a" * RECORD)
        assert not reader.fetch(9).values
        with path.open("ab") as file:
            file.write(b"a" * BLOCK)
        with pytest.raises(SourceFailed, match="it has more than 32,768 bytes"):
            reader.fetch(9)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_line_that_grows_is_waited_for(tmp_path: Path, kind: str) -> None:
    """In a file that is followed one that is left out says that there is no more for now, until it has its end."""
    path = write(tmp_path, kind, "", iter([b"1\n", b"a" * 2 * RECORD]))
    with closing(FileSource(path, follow=True, on_bad_record="skip").open(path.name, 0)) as reader:
        assert [number(value) for value in reader.fetch(9).values] == [1]
        batches = [reader.fetch(9) for _ in range(3)]
        assert [(each.coming, *each.values) for each in batches] == [(False,)] * 3
        with path.open("ab") as file:
            file.write(b"a\n2\n")
        batches = [reader.fetch(9) for _ in range(3)]
        assert [number(value) for each in batches for value in each.values] == [2]


def run(store: MemoryStore, source: Any, steps_max: int | None) -> tuple[bool, list[int]]:
    """Take steps on *store* until there is nothing to do; return whether it came so far, and what is visible."""
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", source)
        evaluator.source("m", ListSource([{"v": n} for n in range(10, 20)]))
        evaluator.create("q", rx.source("n").map(number))
        evaluator.create("r", rx.source("m").map(number))
        evaluator.start()
        steps = 0
        while steps != steps_max and (
            evaluator.step() or (isinstance(source, SharedSource) and not evaluator.finished)
        ):
            steps += 1
        evaluator.flush()
        seen = [value for part in evaluator.stream("q").read(0, 100) for value in part.values]
        assert steps_max is not None or evaluator.query("r").status == "completed"
        return steps != steps_max, seen


@pytest.mark.parametrize("case", every(38, CASES, commits=19), ids=" ".join)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_steps_and_restarts(tmp_path: Path, case: tuple[str, str, str], shared: bool) -> None:
    """A step goes on with it while there is more of the file, and a start in the middle of it makes the same of it."""
    path, unit = bomb(tmp_path, *case), case[0]

    def make(policy: Any = "skip") -> Any:
        source = FileSource(path, on_bad_record=policy)
        return SharedSource(source) if shared else source

    assert run(MemoryStore(), make(), None)[1] == [1, 2, 3]
    for steps in (1, 3):
        store, has_ended, tries = MemoryStore(), False, 0
        while not has_ended:
            tries += 1
            has_ended, seen = run(store, make(), steps if tries < 4 else None)
            store.crash()
            store = store.reopen()
        assert seen == [1, 2, 3]
    if UNITS[unit][1]:
        store = MemoryStore()
        with pytest.raises(SourceFailed, match="it has more than 32,768 bytes"):
            run(store, make("fail"), None)
        store.crash()
        assert run(store.reopen(), make(), None)[1] == [1, 2, 3]


@left_to_commits
def test_many_bad_records_leave_steps_short(tmp_path: Path) -> None:
    """A step does not last until the last of the records that are left out: it takes a bounded part of them."""
    path = write(tmp_path, "jsonl", "", iter([b"x\n" * 40_000, b"1\n"]))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", FileSource(path, on_bad_record="skip"))
        evaluator.create("q", rx.source("n"))
        evaluator.start()
        steps = 0
        while evaluator.step():
            steps += 1
        assert steps > 2  # of sixteen reads of a thousand records; how many come behind them depends on the clock
        assert [value for part in evaluator.stream("q").read(0, 9) for value in part.values] == [1]
