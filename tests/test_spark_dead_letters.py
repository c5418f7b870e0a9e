"""Records that a source cannot read, on their way past Spark: told by their task, and rows of another read."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting import FileSource
from reliable_rx.testing.hostile import RECORDS
from spark_bridge.feeds import feed_of, ranges
from spark_bridge.options import read_options

COUNT, BAD = 40, (0, 5, 6, 7, 19, 20, 39)
SCHEMA = pa.schema([("n", pa.int64())])
SOURCES: dict[str, Any] = {}


def dead() -> FileSource:
    return FileSource(SOURCES["path"], on_bad_record="dead_letter")


def skip() -> FileSource:
    return FileSource(SOURCES["path"], on_bad_record="skip")


def fail() -> FileSource:
    return FileSource(SOURCES["path"])


def write(path: Path, bad: Any, line: bytes = b"{broken") -> None:
    SOURCES["path"] = path
    path.write_bytes(b"\n".join(line if n in bad else json.dumps({"n": n}).encode() for n in range(COUNT)) + b"\n")


def read(policy: str, rows_per_task: int, **more: str) -> dict[int, dict[str, Any]]:
    """Return the rows of all tasks by their ids, each of which comes once."""
    feed = feed_of(read_options({"source": f"{__name__}:{policy}", **more}, streaming=False))
    ((partition, (first, end)),) = feed.bounds().items()
    found: dict[int, dict[str, Any]] = {}
    for ids in ranges({partition: first}, {partition: end}, rows_per_task):
        for numbers, rows in feed.batches(ids, feed.schema() or SCHEMA):
            for n, row in zip(numbers, rows.to_pylist(), strict=True):
                assert n not in found and ids.start <= n < ids.end
                found[n] = row
    return found


@pytest.mark.parametrize("policy", ["dead", "skip"])
@pytest.mark.parametrize("rows_per_task", [1, 6, 1000])
def test_records_that_are_no_rows_are_told(
    policy: str, rows_per_task: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every record that was left out is in a count of a warning of its task, the last with its position and why."""
    write(tmp_path / "r.jsonl", BAD)
    with caplog.at_level(logging.WARNING, "reliable_rx"):
        rows = read(policy, rows_per_task)
    assert [row["n"] for row in rows.values()] == [n for n in range(COUNT) if n not in BAD]
    told = [each.getMessage() for each in caplog.records if "could not be read" in each.getMessage()]
    tasks = [list(range(at, min(at + rows_per_task, COUNT))) for at in range(0, COUNT, rows_per_task)]
    mine = [[n for n in task if n in BAD] for task in tasks]
    assert len(told) == sum(1 for each in mine if each)
    for text, bad in zip(told, filter(None, mine), strict=True):
        assert f"{len(bad)} record" in text and f"the last, at {bad[-1]}: " in text
        assert ("deadLetters" if policy == "dead" else "left out") in text


@given(bad=st.sets(st.integers(0, COUNT - 1)), rows_per_task=st.integers(1, COUNT), line=st.sampled_from(RECORDS[6:9]))
def test_dead_letters_are_what_the_rows_lack(
    bad: set[int], rows_per_task: int, line: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows and dead letters together are every id once, however the read is cut into tasks."""
    write(tmp_path_factory.mktemp("read") / "r.jsonl", bad, line)
    rows, letters = read("dead", rows_per_task), read("dead", rows_per_task, deadLetters="true")
    assert set(letters) == bad
    assert set(rows) == set(range(COUNT)) - bad
    assert all(letter["error"] and isinstance(letter["value"], str) for letter in letters.values())


@pytest.mark.parametrize("policy", ["skip", "fail"])
def test_a_read_that_would_find_none_is_refused(policy: str, tmp_path: Path) -> None:
    """Where there are no dead letters, asking for them says so and what to do."""
    write(tmp_path / "r.jsonl", BAD)
    with pytest.raises(ValueError, match=f"on_bad_record='{policy}', so that it has no dead letters: give it 'dead_"):
        read(policy, 10, deadLetters="true")
    with pytest.raises(ValueError, match="option deadLetters is of option source"):
        read_options({"path": "/x", "deadLetters": "true"}, streaming=False)


def test_the_two_reads_have_offsets_of_their_own(tmp_path: Path) -> None:
    """A checkpoint of one is not taken for one of the other, and dead letters acknowledge nothing."""
    write(tmp_path / "r.jsonl", BAD)
    source = f"{__name__}:dead"
    rows = feed_of(read_options({"source": source}, streaming=True))
    letters = feed_of(read_options({"source": source, "deadLetters": "true"}, streaming=True))
    assert rows.id != letters.id
    letters.acknowledge({"0": 10})
