"""Which partition a stream belongs to."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hosting import FileSource
from hosting.sources import HashRing


@given(st.text(), st.integers(1, 50))
def test_every_stream_has_a_partition(stream: str, count: int) -> None:
    """Whatever a stream is called, it belongs to one of the partitions, and another ring of them says the same."""
    ring = HashRing(count)
    assert ring.partition_of(stream) in ring.partitions
    assert HashRing(ring.partitions).partition_of(stream) == ring.partition_of(stream)


def test_where_streams_live_stays_so() -> None:
    """These are a format: a log that was written by them is read by them."""
    ring = HashRing()
    assert "".join(map(ring.partition_of, ["", "a", "b", "JFK", "LGA", "EWR", "Ä", "\ud800"])) == "06763241"
    assert HashRing(["x", "y"]).partition_of("JFK") == "y"


def test_streams_are_spread() -> None:
    """Of ten thousand streams every partition of 100 has between 60 and 140, four times the spread of chance."""
    counts = Counter(HashRing(100).partition_of(f"stream {number}") for number in range(10_000))
    assert len(counts) == 100 and 60 <= min(counts.values()) <= max(counts.values()) <= 140


def test_a_file_is_read_by_partitions_of_many_streams(tmp_path: Path) -> None:
    """Each partition has the whole of its streams, in order, and nothing of others."""
    ring, path = HashRing(3), tmp_path / "flights.jsonl"
    flights = [{"carrier": f"c{number % 10}", "n": number} for number in range(100)]
    path.write_text("".join(json.dumps(each) + "\n" for each in flights))
    source = FileSource(path, partition_by=lambda each: ring.partition_of(each["carrier"]), partitions=ring.partitions)
    for partition in ring.partitions:
        wanted = [each for each in flights if ring.partition_of(str(each["carrier"])) == partition]
        assert list(source.open(partition, 0).fetch(1_000).values) == wanted and wanted


@pytest.mark.parametrize("partitions", [0, [], ["a", "a"]])
def test_a_ring_needs_partitions(partitions: object) -> None:
    """None, or one twice, is refused when it is made."""
    with pytest.raises(ValueError, match="needs partitions, each once"):
        HashRing(partitions)  # type: ignore[arg-type]
