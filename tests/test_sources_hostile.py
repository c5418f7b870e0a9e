"""Files with records that cannot be read: in every format, under every policy, wherever reading begins."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lanes import crossed, examples

from hosting.sources import FileSource, lines
from reliable_rx.errors import PositionUnavailable, ReliableRxError, SourceFailed
from reliable_rx.reliable import Rejected
from reliable_rx.testing import hostile
from reliable_rx.testing.sources import check_source

POLICIES = ("skip", "dead_letter")
LONG = 3000
"""The longest record in these tests."""


class Odd(Exception):
    """Takes two arguments, and its text cannot be had."""

    def __init__(self, one: Any, two: Any) -> None:
        super().__init__(one, two)

    def __str__(self) -> str:
        raise RuntimeError("no text either")


def odd_int(text: Any) -> int:
    """Read a number, and raise what functions of the world raise."""
    if text == "odd":
        raise Odd(1, 2)
    if text == "exit":
        raise SystemExit(3)
    if text == "deep":
        raise RecursionError("too deep")
    return int(text)


CSV: dict[str, tuple[bytes, list[str]]] = {
    "empty": (b"", []),
    "header only": (b"a,b", []),
    "blank lines": (b"\n\n\na,b\n\n1,x\n\r\n\n2,y\n\n", ["1x", "2y"]),
    "mark and quoted header": (b'\xef\xbb\xbf"a","b"\n1,x\n', ["1x"]),
    "a mark in the middle": (b"a,b\n\xef\xbb\xbf1,x\n2,y\n", ["\ufeff1x", "2y"]),
    "missing and double columns": (b"a,b\n1\n2,y\n3,z,z\n4,u\n", ["2y", "4u"]),
    "bad bytes": (b"a,b\n1,\xff\n2,y\n\xc3,\n3,z\n", ["2y", "3z"]),
    "bad bytes in quotes over lines": (b'a,b\n1,"x\n\xff\n,"\n2,y\n', ["2y"]),
    "nothing but bad": (b"a,b\n\xff\n\xfe\xff\n", []),
    "null bytes": (b"a,b\n1,x\n\x00,\x00\n3,z\n", ["1x", "\0\0", "3z"]),
    "stray quote": (b'a,b\n1,"x"y\n2,y\n', ["2y"]),
    "a quote never closed": (b'a,b\n1,x\n2,"y\n3,z\n4,u\n', ["1x", "3z", "4u"]),
    "a quote never closed, and one that is": (b'a,b\n2,"y\n3,z\n4,"u"\n5,v\n', ["3z", "4u", "5v"]),
    "old ends of lines": (b"a,b\n1,x\r2,y\r\n3,z\r\n", ["3z"]),
    "odd ends of lines": ("a,b\r\n1,x\u2028\r\n2,y\x0c\x0b\n3,z\x85\n".encode(), ["1x\u2028", "2y\x0c\x0b", "3z\x85"]),
    "a record without newline": (b"a,b\n1,x\n2", ["1x"]),
    "a long field": (b"a,b\n1,x\n2," + b"y" * 2900 + b"\n3,z\n", ["1x", "2" + "y" * 2900, "3z"]),
    "a field that is too long": (b"a,b\n1,x\n2," + b"y" * 5000 + b"\n3,z\n", ["1x", "3z"]),
    "too long at the end": (b"a,b\n1,x\n2," + b"y" * 5000, ["1x"]),
    "too long over lines": (b'a,b\n1,x\n2,"' + b"y,y\n" * 1500 + b'"\n3,z\n', ["1x"] + ["yy"] * 1499 + ["3z"]),
    "numbers": (b"a,b\n1e5,x\n" + b"9" * 2000 + b",y\nodd,z\nexit,z\ndeep,z\n5,v\n", ["9" * 2000 + "y", "5v"]),
}  # fmt: skip
JSON: dict[str, tuple[bytes, list[Any]]] = {
    "empty": (b"", []),
    "blank lines": (b"\n\r\n\n1\n\n2", [1, 2]),
    "a mark": (b'\xef\xbb\xbf{"a": 1}\n2\n', [{"a": 1}, 2]),
    "only a mark": (b"\xef\xbb\xbf", []),
    "half a mark": (b"\xef\xbb", []),
    "deep": (b"1\n" + b"[" * 1200 + b"]" * 1200 + b"\n2\n", [1, 2]),
    "so deep that it depends": (b"[" * 500 + b"]" * 500 + b"\n2\n", ["deep", 2]),
    "deep and open": (b"1\n" + b"[" * 2900 + b"\n" + b'{"a":' * 550 + b"\n2\n", [1, 2]),
    "numbers": (
        b"1" + b"0" * 400 + b"\n" + b"9" * 2900 + b"\n1e999\nNaN\n-Infinity\n2\n",
        [10**400, "huge", "inf", "nan", "-inf", 2],
    ),
    "surrogates": (b'"\\ud800"\n"\xed\xa0\x80"\n2\n', ["\ud800", 2]),
    "bad bytes": (b"1\n\xff\n\x00\n2\n", [1, 2]),
    "ends of lines": ('"\u2028\x85"\r\n1\r2\r\n3\r\r\n'.encode(), ["\u2028\x85", 3]),
    "not a value": (b'{"a": 1} {"a": 2}\n{"a"\n  \n2\n', [2]),
    "too long": (b'1\n"' + b"y" * 5000 + b'"\n2\n', [1, 2]),
    "too long and no end": (b"1\n" + b"y" * 9000, [1]),
    "nothing but bad": (b"{\n{\n", []),
}  # fmt: skip


@pytest.fixture(autouse=True)
def short_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "RECORD_BYTES_MAX", LONG)


def told(value: Any) -> Any:
    """What two readings of a record have in common, as text where it is too large to show."""
    if isinstance(value, int) and value > 10**1000:
        return "huge"
    if isinstance(value, float):
        return str(value)
    depth = 0
    while isinstance(value, list) and value:
        value, depth = value[0], depth + 1
    return "deep" if depth else value


def events(source: FileSource, partition: str | None = None, at: int = 0) -> list[tuple[int, Any]]:
    """Read a partition to its end: values and what was rejected, by id."""
    found: list[tuple[int, Any]] = []
    with closing(source.open(partition or source.partitions()[0], at)) as reader:
        ended = False
        while not ended:
            batch = reader.fetch(7)
            found += [(each.position, each) for each in batch.rejected] + list(enumerate(batch.values, batch.first))
            ended = batch.ended
    return found


def check_file(make: Callable[..., FileSource], good: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold a file to all promises: of a source, of its policy, and that blocks do not show."""
    try:
        found = events(make(on_bad_record="fail"))
    except ReliableRxError as error:
        assert isinstance(error, SourceFailed) and error.source and "; " in str(error)
        found = []
    assert [told(value) for _, value in found] == good[: len(found)]
    whole = events(make(on_bad_record="skip"))
    assert [told(value) for _, value in whole if not isinstance(value, Rejected)] == good
    assert [n for n, _ in whole] == list(range(len(whole)))
    for size in (1, 13, 100):
        monkeypatch.setattr(lines, "BLOCK_BYTES", size)
        for policy in POLICIES:
            assert repr(events(make(on_bad_record=policy))) == repr(whole), f"in blocks of {size} bytes"
            for at in {1, len(whole) // 2, len(whole) - 1, len(whole)} & {*range(len(whole) + 1)}:
                assert repr(events(make(on_bad_record=policy), at=at)) == repr(whole[at:])
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)
    if all(isinstance(value, Rejected) or value == value for _, value in whole) and len(whole) < 100:
        check_source(lambda: make(on_bad_record="skip"), positions_max=5)


@pytest.mark.parametrize("name, packed", crossed(CSV, ["", ".gz"], nth=2))
def test_every_csv(tmp_path: Path, name: str, packed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Good records come, once, in order, under the same ids whatever is asked; bad ones are refused in our words."""
    data, good = CSV[name]
    path = tmp_path / f"rows.csv{packed}"
    path.write_bytes(gzip.compress(data) if packed else data)
    types = {"a": odd_int} if name == "numbers" else {}

    def make(**options: Any) -> FileSource:
        return FileSource(
            path, types=types, parse=lambda row: f"{row['a']}{row['b']}" if len(row) == 2 else row, **options
        )

    if name == "numbers":
        types["a"] = lambda text: str(odd_int(text))  # type: ignore[assignment, return-value]
    check_file(make, good, monkeypatch)


@pytest.mark.parametrize("name, packed", crossed(JSON, ["", ".gz"], nth=2))
def test_every_json_file(tmp_path: Path, name: str, packed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for JSON lines."""
    data, good = JSON[name]
    path = tmp_path / f"rows.jsonl{packed}"
    path.write_bytes(gzip.compress(data) if packed else data)
    check_file(lambda **options: FileSource(path, **options), good, monkeypatch)


def test_fields_over_128_kilobytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser's own limit is not ours."""
    monkeypatch.undo()
    path = tmp_path / "rows.csv"
    path.write_text(f'a,b\n1,{"x" * 300_000}\n2,"{"y" * 300_000}"\n')
    assert [len(value["b"]) for _, value in events(FileSource(path))] == [300_000, 300_000]


def test_a_bomb_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that is one huge line when unpacked is one bad record, and never held whole."""
    monkeypatch.undo()
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(b"[" * (1 << 20))
        file.write(b"\n1\n")
    monkeypatch.setattr(lines, "RECORD_BYTES_MAX", 1 << 20)
    (_, bad), (n, value) = events(FileSource(path, on_bad_record="skip"))
    assert (n, value) == (1, 1) and len(bad.value) < 100_000
    assert "it has more than 1,048,576 bytes" in bad.error


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_other_encodings_are_named(tmp_path: Path, mark: bytes, kind: str) -> None:
    """A file in UTF-16 is no file of bad records: it is refused, with how to convert it, whatever the policy."""
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(mark + "a,b\n1,2\n".encode("utf-16-le"))
    policy: Any
    for policy in ("fail", *POLICIES):
        with pytest.raises(SourceFailed, match=r"UTF-16.*iconv"):
            events(FileSource(path, on_bad_record=policy))


def test_what_is_no_file(tmp_path: Path) -> None:
    """Pipes and folders are refused in words, at once and where they take the place of a file later."""
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    with pytest.raises(SourceFailed, match=r"is no regular file .* write it into a file first"):
        FileSource(pipe)
    for make in (lambda path: path.mkdir(), os.mkfifo):
        path = tmp_path / f"later{make is os.mkfifo}.jsonl"
        path.write_text("1\n")
        source = FileSource(path)
        path.unlink()
        make(path)
        with pytest.raises(SourceFailed, match=r"is a directory|is no regular file"):
            events(source)


def test_a_followed_file_that_is_replaced(tmp_path: Path) -> None:
    """Another file in its place is not read on behind what was read of the first."""
    path = tmp_path / "rows.jsonl"
    path.write_text("1\n")
    reader = FileSource(path, follow=True).open(path.name, 0)
    assert reader.fetch(10).values == [1]
    other = tmp_path / "other"
    other.write_text("1\n2\n3\n")
    other.rename(path)
    with pytest.raises(SourceFailed, match="has been replaced"):
        reader.fetch(10)
    reader.close()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_followed_file_grows_by_bad_records(tmp_path: Path, kind: str) -> None:
    """What is appended byte by byte is the same as what is found whole, too long lines included."""
    data, good = CSV["a field that is too long"] if kind == "csv" else JSON["too long"]
    path = tmp_path / f"rows.{kind}"
    path.touch()

    def make() -> FileSource:
        return FileSource(path, follow=True, on_bad_record="skip")

    reader = make().open(path.name, 0)
    found: list[Any] = []
    with open(path, "ab", buffering=0) as file:
        for at in range(0, len(data), 50):
            file.write(data[at : at + 50])
            batch = reader.fetch(100)
            found += [each.position for each in batch.rejected] + list(batch.values)
    reader.close()
    assert len(found) == len(good) + 1
    again = make().open(path.name, 0)
    first, second = again.fetch(100), again.fetch(100)
    assert found == [*first.values, *(each.position for each in second.rejected), *second.values]
    again.close()


def test_records_without_a_key(tmp_path: Path) -> None:
    """With keys, what has none and what has an undeclared one is the first partition's, in the order of the file."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"k": "y", "n": 1}\n{\n{"k": "x", "n": 2}\n{"n": 3}\n{"k": "z"}\n7\n{"k": "x", "n": 4}\n')

    def make(**options: Any) -> FileSource:
        return FileSource(path, partition_by="k", partitions=["x", "y"], on_bad_record="dead_letter", **options)

    assert [type(value).__name__ for _, value in events(make(), "x")] == [
        "Rejected", "dict", "Rejected", "Rejected", "Rejected", "dict"
    ]  # fmt: skip
    assert [value["n"] for _, value in events(make(), "y")] == [1]
    assert "'z' is no declared partition" in events(make(), "x")[4 - 1][1].error
    check_source(make)
    found = FileSource(path, partition_by=lambda row: row["k"], on_bad_record="skip")
    assert found.partitions() == ("x", "y", "z")
    check_source(lambda: FileSource(path, partition_by=lambda row: row["k"], on_bad_record="skip"))
    path.write_text("{\n{\n")
    with pytest.raises(SourceFailed, match="none of the 2 records"):
        FileSource(path, partition_by="k", on_bad_record="skip").partitions()


def test_sorted_files(tmp_path: Path) -> None:
    """What cannot be read has no place in an order, and comes last."""
    path = tmp_path / "rows.jsonl"
    path.write_text("3\n{\n1\n[\n2\n")

    def make() -> FileSource:
        return FileSource(path, sort_by=lambda n: n, on_bad_record="dead_letter")

    assert [told(value) for _, value in events(make())][:3] == [1, 2, 3]
    assert [each.error.split(":")[0] for _, each in events(make())[3:]] == ["rows.jsonl, byte 2", "rows.jsonl, byte 6"]
    check_source(make)


def test_odd_parquet(tmp_path: Path) -> None:
    """Rows without a form in Python are bad records; damaged and ambiguous files are refused in our words."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    late = pa.array([0, 2**60, 1], pa.int64()).cast(pa.timestamp("us"))
    parquet.write_table(pa.table({"at": late, "n": [1, 2, 3]}), path)
    good = [value["n"] for _, value in events(FileSource(path, on_bad_record="skip")) if isinstance(value, dict)]
    assert good == [1, 3]
    with pytest.raises(SourceFailed, match="row 2"):
        events(FileSource(path))
    check_source(lambda: FileSource(path, on_bad_record="dead_letter"))
    parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["n", "n"]), path)
    with pytest.raises(SourceFailed, match="column 'n' appears twice"):
        events(FileSource(path))
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[:-5], whole[:20] + b"\xff" * 20 + whole[40:], b"PAR1" + b"\xff" * 50 + b"PAR1"):
        path.write_bytes(damaged)
        with pytest.raises(SourceFailed):
            events(FileSource(path))


@examples(300)
@example(pieces=[b"\r"], size=1, at=1)
@given(
    pieces=st.lists(
        st.sampled_from(
            [b"1", b",", b"\n", b"\r", b"\r\n", b'"', b'""', b"\xff", b"\xc3\xa9", b"\x00", b"y" * 40, b"1,2\n"]
        ),
        max_size=40,
    ),
    size=st.integers(1, 60),
    at=st.integers(0, 20),
)
def test_csv_of_pieces(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], size: int, at: int) -> None:
    """However odd, what a file holds depends neither on the size of blocks nor on where reading began."""
    path = tmp_path_factory.mktemp("pieces") / "rows.csv"
    path.write_bytes(b"a,b\n" + b"".join(pieces))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "RECORD_BYTES_MAX", 60)
        whole = events(FileSource(path, on_bad_record="skip"))
        patch.setattr(lines, "BLOCK_BYTES", size)
        assert events(FileSource(path, on_bad_record="skip")) == whole
        if at > len(whole):
            with pytest.raises(PositionUnavailable):
                events(FileSource(path, on_bad_record="skip"), at=at)
        else:
            source = FileSource(path, on_bad_record="skip")
            assert events(source, at=at) == whole[at:] == events(source, at=at)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@examples(150)
@given(records=st.lists(hostile.records(), max_size=8), size=st.sampled_from([1, 100, 65_536]))
def test_files_of_hostile_records(
    kind: str, tmp_path_factory: pytest.TempPathFactory, records: list[bytes], size: int
) -> None:
    """Lines as they may come: each is read or refused, the same in every block, and never in a raw error."""
    path = tmp_path_factory.mktemp("hostile") / f"rows.{kind}"
    path.write_bytes((b"a,b\n" if kind == "csv" else b"1\n") + b"\n".join(records))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "RECORD_BYTES_MAX", 150_000)
        whole = repr(events(FileSource(path, on_bad_record="skip")))
        patch.setattr(lines, "BLOCK_BYTES", size)
        assert repr(events(FileSource(path, on_bad_record="dead_letter"))) == whole
        with suppress(SourceFailed):
            assert repr(events(FileSource(path))) == whole


def changed_and_parsed(row: Any) -> int:
    """Read a record as many do: out of the dictionary that one is given."""
    number = row.pop("n")
    inner = row.setdefault("seen", [])
    assert not inner, "each record is read once"
    inner.append(number)
    if row.get("bad"):
        raise KeyError(number)
    return int(number)


@pytest.mark.parametrize("keyed", [False, True])
def test_functions_that_change_what_they_are_given(tmp_path: Path, keyed: bool) -> None:
    """A bad record spoils none of those around it, and is told as it is in the file, though functions changed it."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"n": n, "bad": n % 5 == 4}) + "\n" for n in range(20)))
    options: dict[str, Any] = {"partition_by": lambda n: "all", "partitions": ["all"]} if keyed else {}

    def make(policy: Any) -> FileSource:
        return FileSource(path, parse=changed_and_parsed, on_bad_record=policy, **options)

    found = events(make("dead_letter"))
    assert [value for _, value in found if not isinstance(value, Rejected)] == [n for n in range(20) if n % 5 != 4]
    assert [value.value for _, value in found if isinstance(value, Rejected)] == [
        {"n": n, "bad": True} for n in range(4, 20, 5)
    ]
    reader = make("fail").open(make("fail").partitions()[0], 0)
    assert reader.fetch(100).values == [0, 1, 2, 3]
    with pytest.raises(SourceFailed, match=r"line 5 .*KeyError: 4"):
        reader.fetch(100)
    reader.close()
