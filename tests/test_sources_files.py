"""Files as sources: every format, partitioning, position and malformed input."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import random
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from lanes import Lane, at_each_commit, left_to_commits

from hosting.sources import FileSource, csv_records, lanes, lines
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.testing.sources import check_source

ROWS = [{"origin": ("JFK", "LGA", "EWR")[i * 7 % 3], "n": str(i), "note": f"note {i}"} for i in range(300)]


class Flight(NamedTuple):
    origin: str
    n: int


def write_csv(path: Path, rows: list[dict[str, str]] = ROWS) -> Path:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, rows: list[Any] = ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_parquet(path: Path, rows: list[dict[str, str]] = ROWS) -> Path:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=70)
    return path


def gzipped(path: Path) -> Path:
    target = path.with_name(path.name + ".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return target


def zipped(path: Path) -> Path:
    target = path.with_name(path.name + ".zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, path.name)
    return target


def read(source: FileSource, partition: str | None = None, at: int = 0) -> list[Any]:
    """Read a finite partition to its end."""
    reader = source.open(partition or source.partitions()[0], at)
    values: list[Any] = []
    try:
        while not (batch := reader.fetch(97)).ended:
            values += batch.values
        return [*values, *batch.values]
    finally:
        reader.close()


@pytest.fixture(params=["csv", "csv.gz", "csv.zip", "jsonl", "jsonl.gz", "parquet"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The same 300 rows in every format."""
    kind = request.param.split(".")
    plain = {"csv": write_csv, "jsonl": write_jsonl, "parquet": write_parquet}[kind[0]](tmp_path / f"rows.{kind[0]}")
    return {"gz": gzipped, "zip": zipped}[kind[1]](plain) if len(kind) > 1 else plain


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 100 bytes, so that small files have many chunks."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 100)


def test_every_format_gives_the_same_records(path: Path) -> None:
    """A file's partition is named after it and holds its records in order, whatever the format."""
    source = FileSource(path)
    assert source.partitions() == (path.name,)
    assert read(source) == ROWS


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("partition_by", [None, "origin", at_each_commit(lambda row: row["origin"])])
def test_conformance(path: Path, partition_by: Any) -> None:
    """Every format and partitioning keeps the promises of `Source`."""
    positions_max = 10 if Lane.fast_alone else 50
    check_source(lambda: FileSource(path, partition_by=partition_by), positions_max=positions_max)


@left_to_commits
@pytest.mark.usefixtures("small_blocks")
def test_conformance_when_sorted(path: Path) -> None:
    """A sorted source keeps them too."""
    check_source(lambda: FileSource(path, partition_by="origin", sort_by=lambda row: row["note"]), positions_max=10)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("at", [0, 1, 50, 99, 100])
def test_one_source_opened_again_and_again(path: Path, at: int) -> None:
    """The index that reading builds leads to the same records as reading from the start."""
    source = FileSource(path, partition_by="origin")
    expected = [row for row in ROWS if row["origin"] == "LGA"]
    for _ in range(3):
        assert read(source, "LGA", at) == expected[at:]


def test_keys_over_several_files(tmp_path: Path) -> None:
    """With keys, all files in the order of a pattern are one input; a position counts through them."""
    for number in range(3):
        write_csv(tmp_path / f"part{number}.csv", ROWS[number * 100 : (number + 1) * 100])
    source = FileSource(str(tmp_path / "part*.csv"), partition_by="origin")
    assert source.partitions() == ("EWR", "JFK", "LGA")
    jfk = [row for row in ROWS if row["origin"] == "JFK"]
    assert read(source, "JFK", 60) == jfk[60:]


def test_columns_types_and_parse(path: Path) -> None:
    """Columns are cut and converted, then parsed; the key column need not be among them."""
    source = FileSource(path, columns=["origin", "n"], types={"n": int}, parse=lambda r: Flight(**r))
    assert read(source) == [Flight(row["origin"], int(row["n"])) for row in ROWS]
    keyed = FileSource(path, columns=["n"], types={"n": int}, partition_by="origin")
    assert read(keyed, "JFK")[:2] == [{"n": 0}, {"n": 3}]


HEADERS = {
    "columns": ({"columns": ["a", "z"]}, "a,b\n", "has no column 'z'; it has a, b; name those in columns="),
    "types": ({"types": {"z": int}}, "a,b\n", "has no column 'z'; it has a, b; name those in types="),
    "semicolons": (
        {"types": {"b": int}},
        "a;b\n",
        "has no column 'b'; it has a;b; it separates by ';': write it with",
    ),
    "records": ({"columns": ["z"]}, "a,b\n1,2\n", "has no column 'z'"),
}


@pytest.mark.parametrize("follow", [False, True])
@pytest.mark.parametrize("which", HEADERS)
def test_a_header_without_the_columns_asked_for(tmp_path: Path, which: str, follow: bool) -> None:
    """Is told when the file is read first, whether or not there is a record, with what to do."""
    options, text, says = HEADERS[which]
    (tmp_path / "a.csv").write_text(text)
    reader = FileSource(tmp_path / "a.csv", follow=follow, **options).open("a.csv", 0)  # type: ignore[arg-type]
    with pytest.raises(SourceFailed, match=re.escape(says)):
        reader.fetch(1)
    reader.close()


def test_sort_by_is_stable(tmp_path: Path) -> None:
    """Records of equal keys stay in file order; positions count in sorted order."""
    source = FileSource(write_csv(tmp_path / "a.csv"), sort_by=lambda row: row["origin"])
    expected = sorted(ROWS, key=lambda row: row["origin"])
    assert read(source) == expected
    assert read(source, at=250) == expected[250:]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", [at_each_commit(seed) if seed % 8 else seed for seed in range(30)])
def test_csv_against_the_csv_module(tmp_path: Path, seed: int) -> None:
    """Quoted newlines, quotes, blank lines, stray quotes, CRLF and odd characters: as `csv.DictReader` reads them."""
    rng = random.Random(seed)
    pieces = ["a", '""', ",", "\n", "\r\n", " ", "\u2028", "\x0c", "é", "x" * 150]
    fields = lambda: '"' + "".join(rng.choices(pieces, k=rng.randrange(6))) + '"'  # noqa: E731
    plain = lambda: rng.choice(["1", "", 'b"c', "5\u2028", "ü", "z" * 90])  # noqa: E731
    end = rng.choice(["\n", "\r\n"])
    lines = [f"{rng.choice([fields, plain])()},{rng.choice([fields, plain])()}{end}" for _ in range(60)]
    lines.insert(rng.randrange(60), end)
    text = "\ufeffleft,right" + end + "".join(lines)
    text = text.removesuffix(end) if rng.random() < 0.5 else text
    path = tmp_path / "odd.csv"
    path.write_bytes(text.encode())
    expected = list(csv.DictReader(line + "\n" for line in text.removeprefix("\ufeff").split("\n")))
    check_source(lambda: FileSource(path), positions_max=70)
    assert read(FileSource(path)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n\n3\n", "line 4 (byte 9): 2 fields expected, 1 found"),
        ("a,b\n1,2\n3,4,5\n", "line 3 (byte 8): 2 fields expected, 3 found"),
        ('a,b\n1,"2\nx"\n"3,4\n', "line 4 (byte 12): a quoted field is never closed"),
        ('a,b\n1,"2"x\n', "line 2 (byte 4): ',' expected after '\"'"),
        ("a,b\n1,2\n\udcff,4\n", "line 3 (byte 8): 'utf-8' codec can't decode"),
        ("a,a\n1,2\n", "line 1: column 'a' appears twice"),
    ],
)
def test_malformed_csv(tmp_path: Path, text: str, message: str) -> None:
    """What comes before a malformed record is handed out; then the failure names file and line, each time."""
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    reader = FileSource(path).open("bad.csv", 0)
    with pytest.raises(SourceFailed, match=r"bad\.csv") as caught:
        while reader.fetch(10).values:
            pass
    assert message in str(caught.value)
    with pytest.raises(SourceFailed):
        reader.fetch(10)
    reader.close()


@pytest.mark.parametrize("bad", ["{", '{"a": 1} {"a": 2}', "\udcff", "nul"])
def test_malformed_json_lines(tmp_path: Path, bad: str) -> None:
    """Two good lines and a blank one come before the bad line 4."""
    path = tmp_path / "bad.jsonl"
    path.write_bytes(f'{{"a": 1}}\n\n{{"a": 2}}\n{bad}\n{{"a": 3}}\n'.encode(errors="surrogateescape"))
    reader = FileSource(path).open("bad.jsonl", 0)
    assert reader.fetch(10).values == [{"a": 1}, {"a": 2}]
    with pytest.raises(SourceFailed, match=r"line 4 \(byte 19\): not a line of JSON") as caught:
        reader.fetch(10)
    assert (caught.value.partition, caught.value.position) == ("bad.jsonl", 2)
    reader.close()


@pytest.mark.parametrize("partition_by", [None, "origin", lambda row: row["origin"]])
def test_a_record_that_its_types_refuse(path: Path, partition_by: Any) -> None:
    """A failing conversion names place, column and content; the records before are handed out."""
    refused = "201"  # an LGA row

    def number(text: str) -> int:
        if text == refused:
            raise ValueError("no such number")
        return int(text)

    source = FileSource(
        path, types={"n": number}, partition_by=partition_by, partitions=("EWR", "JFK", "LGA") if partition_by else None
    )
    name = path.name if partition_by is None else next(r["origin"] for r in ROWS if r["n"] == refused)
    before = [r for r in ROWS[: int(refused)] if partition_by is None or r["origin"] == name]
    reader = source.open(name, 0)
    values: list[Any] = []
    with pytest.raises(SourceFailed, match=r"column 'n' holds '201'") as caught:
        while True:
            values += reader.fetch(50).values
    assert len(values) == len(before) == caught.value.position
    place = {"csv": "line 203", "jso": "line 202", "par": "row 202"}[path.name.split(".")[1][:3]]
    assert place in str(caught.value)
    reader.close()


def test_an_undeclared_key_is_never_dropped(path: Path) -> None:
    """A record that belongs to no declared partition is an error that names the key."""
    source = FileSource(path, partition_by="origin", partitions=["JFK", "LGA"])
    with pytest.raises(SourceFailed, match="'EWR' is no declared partition"):
        read(source, "JFK")


def test_one_reader_far_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that lags leaves the shared pass when too much waits for it, and loses nothing."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 200)
    monkeypatch.setattr(lanes, "BUFFERED_MAX", 10)
    monkeypatch.setattr("hosting.sources.files.BUFFERED_MAX", 10)
    source = FileSource(write_csv(tmp_path / "a.csv"), partition_by="origin")
    late = source.open("EWR", 0)
    some = list(late.fetch(3).values)
    assert len(read(source, "JFK")) == 100
    while not (batch := late.fetch(5)).ended:
        some += batch.values
    assert [*some, *batch.values] == [row for row in ROWS if row["origin"] == "EWR"]
    late.close()


def test_partitions_share_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all keys in turn opens the file once."""
    opened: list[Path] = []
    original = lines.open_bytes
    monkeypatch.setattr(lines, "open_bytes", lambda path: (opened.append(path), original(path))[1])
    source = FileSource(write_csv(tmp_path / "a.csv"), partition_by="origin", partitions=["EWR", "JFK", "LGA"])
    readers = {name: source.open(name, 0) for name in source.partitions()}
    counts = dict.fromkeys(readers, 0)
    for _, (name, reader) in itertools.product(range(15), readers.items()):
        counts[name] += len(reader.fetch(10).values)
    for reader in readers.values():
        reader.close()
    assert (set(counts.values()), len(opened)) == ({100}, 1)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_follow_byte_by_byte(tmp_path: Path, kind: str) -> None:
    """A line appended one byte at a time is a record when its newline has come, and not before."""
    rows = [{"a": "1", "b": "two\nlines"}, {"a": "é", "b": 'q"'}, {"a": "", "b": "x"}]
    whole = (write_csv if kind == "csv" else write_jsonl)(tmp_path / f"whole.{kind}", rows).read_bytes()
    path = tmp_path / f"grows.{kind}"
    path.touch()
    reader = FileSource(path, follow=True).open(path.name, 0)
    seen: list[Any] = []
    with open(path, "ab", buffering=0) as file:
        for count in range(len(whole)):
            file.write(whole[count : count + 1])
            batch = reader.fetch(10)
            assert not batch.ended
            seen += batch.values
            assert seen == rows[: len(seen)]
            assert not batch.values or whole[count : count + 1] == b"\n"
    assert seen == rows
    assert reader.fetch(10).values == []
    reader.close()
    again = FileSource(path, follow=True)
    check_source(lambda: again, finite=False)


def test_follow_with_keys(tmp_path: Path) -> None:
    """Lines appended to the last file reach the partition of their key."""
    path = write_jsonl(tmp_path / "a.jsonl", [{"k": "x", "n": 1}])
    source = FileSource(path, partition_by="k", partitions=["x", "y"], follow=True)
    readers = [source.open("x", 0), source.open("y", 0)]
    assert [reader.fetch(5).values for reader in readers] == [[{"k": "x", "n": 1}], []]
    with open(path, "a") as file:
        file.write('{"k": "y", "n": 2}\n{"k": "x", "n": 3}\n')
    assert [reader.fetch(5).values for reader in readers] == [[{"k": "x", "n": 3}], [{"k": "y", "n": 2}]]
    for reader in readers:
        reader.close()


@pytest.mark.parametrize("follow", [False, True])
def test_a_file_that_has_shrunk(tmp_path: Path, follow: bool) -> None:
    """A position behind the end of a shorter file is unavailable, in a new process and in the same."""
    path = write_csv(tmp_path / "a.csv")
    source = FileSource(path, follow=follow)
    reader = source.open("a.csv", 0)
    assert len(reader.fetch(500).values) == 300
    path.write_text("origin,n,note\nJFK,1,x\n")
    if follow:
        with pytest.raises(PositionUnavailable):
            reader.fetch(1)
    reader.close()
    for again in (source, FileSource(path, follow=follow)):
        reader = again.open("a.csv", 200)
        with pytest.raises(PositionUnavailable):
            reader.fetch(1)
        reader.close()


def test_damaged_compression(tmp_path: Path) -> None:
    """A gzip file cut short gives what it has, then says that it is damaged."""
    path = gzipped(write_csv(tmp_path / "a.csv"))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(SourceFailed, match="is it damaged or cut short"):
        read(FileSource(path))


def test_empty_files(tmp_path: Path) -> None:
    """An empty file has no records and ends at once."""
    for name in ("a.csv", "a.jsonl"):
        (tmp_path / name).touch()
        assert read(FileSource(tmp_path / name)) == []
        assert FileSource(tmp_path / name, partition_by="origin").partitions() == ()


def test_what_is_refused_at_once(tmp_path: Path) -> None:
    """Missing files and options that do not fit together are named when the source is made."""
    path = write_csv(tmp_path / "a.csv")
    (tmp_path / "b").mkdir()
    other = write_csv(tmp_path / "b" / "a.csv")
    for bad, words in [
        (tmp_path / "c.csv", "there is no file"),
        (tmp_path / "*.x", "no file matches"),
        (tmp_path, "directory"),
    ]:
        with pytest.raises(SourceFailed, match=words):
            FileSource(bad)
    with pytest.raises(ValueError, match=r"two files are named 'a\.csv'"):
        FileSource([path, other])
    with pytest.raises(ValueError, match="partitions names keys"):
        FileSource(path, partitions=["a"])
    with pytest.raises(ValueError, match="follow works on plain"):
        FileSource(gzipped(path), follow=True)
    with pytest.raises(ValueError, match="follow never has them all"):
        FileSource(path, follow=True, sort_by=str)
    with pytest.raises(ValueError, match="tells no format"):
        (tmp_path / "data.bin").touch()
        FileSource(tmp_path / "data.bin")
    with pytest.raises(SourceFailed, match="no column 'origen'; it has origin, n, note"):
        FileSource(path, partition_by="origen").partitions()
    with pytest.raises(SourceFailed, match=r"has no partition 'b\.csv'"):
        FileSource(path).open("b.csv", 0)


def test_marks_lie_evenly_however_many_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index thins itself out where it is heavy: its marks stay as far apart at the end as at the beginning."""
    monkeypatch.setattr(lanes, "MARKS_WEIGHT_MAX", 1_000)
    marks, last = lanes.Marks(), 3_000
    for offset in range(last + 1):
        marks.add(0, offset, {"": offset})
    for wanted in (0, 100, last // 2, last):
        mark = marks.before({"": wanted})
        assert wanted < 16 or (mark is not None and wanted - mark.offset <= 16)


def test_a_record_that_is_too_long_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind it in the same block is read."""
    monkeypatch.setattr(lines, "RECORD_BYTES_MAX", 20)
    long = b'"' + b"x" * 30 + b'",1\n'
    rows = list(csv_records.cut_rows(b"a,b\n" + long + b"c,d\n" + long))
    assert [row for _, _, row in rows if isinstance(row, list)] == [["a", "b"], ["c", "d"]]
    assert [(start, end) for start, end, _ in rows] == [(0, 4), (4, 39), (39, 43), (43, 78)]


def test_a_file_that_is_followed_has_no_end_to_be_remembered(tmp_path: Path) -> None:
    """Whether it has grown since is no question: only of one that was read to its end its size is kept."""
    path = write_csv(tmp_path / "a.csv")
    for follow in (False, True):
        source = FileSource(path, follow=follow)
        reader = source.open(path.name, 0)
        for _ in range(3):
            reader.fetch(1_000)
        assert source.extent(path.name) == (None if follow else {str(path): path.stat().st_size})
        reader.close()
