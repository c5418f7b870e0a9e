"""Parquet files: columns that are not there, damaged row groups, groups without rows, files that are written anew."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, QueryEvaluator
from hosting.sources import parquet_files
from reliable_rx.errors import PositionUnavailable, SourceFailed

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
N, GROUP, BATCH = 500, 200, 80


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "BATCH_ROWS", BATCH)


def rows(count: int = N) -> list[dict[str, Any]]:
    return [{"i": n, "s": f"text {n}"} for n in range(count)]


def write(path: Path, values: list[dict[str, Any]], **options: Any) -> Path:
    options = {"row_group_size": GROUP, "compression": "none", "use_dictionary": False, **options}
    parquet.write_table(pyarrow.Table.from_pylist(values), path, **options)
    return path


def spoil(path: Path, text: str) -> None:
    """Let the page with *text* be none: the length of the value before which it stands is another one."""
    data = bytearray(path.read_bytes())
    at = data.index(text.encode())
    data[at - 4 : at] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)


def read(source: FileSource, at: int = 0) -> list[Any]:
    with closing(source.open(source.partitions()[0], at)) as reader:
        found, ended = list[Any](), False
        while not ended:
            batch = reader.fetch(33)
            found += batch.values
            ended = batch.ended
    return found


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_column_that_is_not_there(tmp_path: Path, kind: str, policy: Any) -> None:
    """Whether others of `columns` are there or none, the file is refused with the names of all that it has."""
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("i,s\n1,a\n")
    else:
        write(path, rows(3))
    for options in ({"columns": ["zz"]}, {"columns": ["i", "zz"]}, {"types": {"zz": int}}, {"partition_by": "zz"}):
        source = FileSource(path, on_bad_record=policy, **options)  # type: ignore[arg-type]
        with pytest.raises(
            SourceFailed, match=rf"has no column 'zz'; it has i, s; name those in {next(iter(options))}="
        ):
            read(source)
    with pytest.raises(ValueError, match="columns names no column"):
        FileSource(path, columns=[])
    assert read(FileSource(path, columns=["i"], types={"s": str.upper, "i": str}))[0] == {
        "i": "0" if kind != "csv" else "1"
    }


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_a_row_group_that_cannot_be_read(tmp_path: Path, policy: Any) -> None:
    """Its rows from the damage on are bad records under their numbers, and the groups around it are read."""
    path = write(tmp_path / "a.parquet", rows())
    spoil(path, "text 350")
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", FileSource(path, on_bad_record=policy))
        evaluator.create("q", rx.source("n").map(lambda row: row["i"]))
        if policy == "fail":
            for _ in range(3):
                with pytest.raises(
                    SourceFailed, match=r"row \d+: its row group cannot be read.*is the file damaged"
                ) as caught:
                    evaluator.run()
            lost = range(caught.value.position, N)
        else:
            evaluator.run()
            assert evaluator.statistics().positions["n", path.name] == N
        seen = [value for part in evaluator.stream("q").read(0, N) for value in part.values]
        if policy != "fail":
            lost = range(len(seen) - (N - 2 * GROUP), 2 * GROUP)
        assert seen == [n for n in range(N) if n not in lost] and GROUP <= lost[0] <= 350
        letters = [value for part in evaluator.stream("n.dead_letters").read(0, N) for value in part.values]
        assert [letter.position for letter in letters] == ([*lost] if policy == "dead_letter" else [])
        assert all("a.parquet, row " in each.error and "row group cannot be read" in each.error for each in letters)


def test_groups_without_rows(tmp_path: Path) -> None:
    """They hold nothing, and end nothing."""
    table = pyarrow.Table.from_pylist(rows(10))
    with parquet.ParquetWriter(tmp_path / "a.parquet", table.schema) as writer:
        for begin, count in ((0, 0), (0, 4), (4, 0), (4, 0), (4, 6), (10, 0)):
            writer.write_table(table.slice(begin, count))
    for at in range(11):
        assert read(FileSource(tmp_path / "a.parquet"), at) == rows(10)[at:]


def test_a_file_without_columns(tmp_path: Path) -> None:
    """It has no rows; where columns are asked for it is refused."""
    parquet.write_table(pyarrow.table({}), tmp_path / "a.parquet")
    assert read(FileSource(tmp_path / "a.parquet")) == []
    with pytest.raises(SourceFailed, match="has no column 'i'; it has none"):
        read(FileSource(tmp_path / "a.parquet", columns=["i"]))


def test_values_of_every_kind(tmp_path: Path) -> None:
    """What is nested, empty or in a dictionary comes as it was written, from wherever reading begins."""
    values = [
        {"d": "ab"[n % 2], "l": [n] * (n % 3), "m": {"x": {"y": [None, n]}}, "b": bytes([n]), "e": None}
        for n in range(200)
    ]
    table = pyarrow.Table.from_pylist(values)
    table = table.set_column(0, "d", table["d"].dictionary_encode())
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=90)
    for at in (0, 1, 89, 90, 100, 199, 200):
        assert read(FileSource(tmp_path / "a.parquet"), at) == values[at:]
    assert read(FileSource(tmp_path / "a.parquet", columns=["m", "d"]), 150)[0] == {"m": values[150]["m"], "d": "a"}


def test_a_file_that_is_written_anew(tmp_path: Path) -> None:
    """With the same rows in other groups it is read on; with fewer rows or other columns it is refused."""
    path = write(tmp_path / "a.parquet", rows())
    source = FileSource(path)
    assert read(source) == rows()
    for size in (7, 64, N):
        write(path, rows(), row_group_size=size)
        for at in (80, 159, 200, 333):
            assert read(source, at) == rows()[at:]
    write(path, rows(90))
    with pytest.raises(PositionUnavailable, match="put the"):
        read(source, 400)
    write(path, [{"i": n} for n in range(N)])
    with pytest.raises(SourceFailed, match="no column 's'; it has i"):
        read(FileSource(path, columns=["s"]), 400)
