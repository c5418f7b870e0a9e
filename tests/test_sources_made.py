"""Sources that need no files: sequences, the seeded generator, scripted faults; and the suite that checks sources."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hosting.sources import End, Error, Fail, FaultySource, GeneratorSource, ListSource, Stall
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Batch
from reliable_rx.testing.sources import check_source


def draw(i: int, rng: random.Random) -> tuple[int, float, int]:
    """Take as many random numbers as the last one says, so that records depend on how much is drawn."""
    return i, rng.gauss(0, 1), sum(rng.randrange(9) for _ in range(rng.randrange(5)))


def generator(**options: Any) -> GeneratorSource:
    return GeneratorSource(draw, **{"partitions": 2, "count": 200, "seed": 3, **options})


def test_conformance() -> None:
    """All of them keep the promises of `Source`."""
    check_source(lambda: ListSource({"a": [1, 2, 3], "b": []}))
    check_source(generator, positions_max=200)
    check_source(lambda: generator(count=None), finite=False, events_max=300)
    check_source(lambda: generator(faults=[Stall(at=7, fetches=3), End(partition="1", at=70)]))
    check_source(lambda: generator(faults=[Error(at=70)]))


def test_a_record_depends_on_seed_partition_and_number_only() -> None:
    """S20: however it is fetched, record i is the same; another seed or partition gives others."""
    whole = list(generator().open("0", 0).fetch(500).values)
    reader = generator().open("0", 0)
    assert [v for size in range(1, 30) for v in reader.fetch(size).values] == whole
    assert list(generator(count=None).open("0", 0).fetch(200).values) == whole
    assert list(generator(seed=4).open("0", 0).fetch(200).values) != whole
    assert list(generator().open("1", 0).fetch(200).values) != whole


def test_generated_records_stay_the_same_for_ever() -> None:
    """These numbers are a format: a store may hold positions in them."""
    values = GeneratorSource(lambda i, rng: int(rng.random() * 1000), seed=1).open("0", 62).fetch(4).values
    assert values == [596, 797, 738, 452]


def test_a_function_for_each_partition() -> None:
    """A mapping names the partitions."""
    source = GeneratorSource({"even": lambda i, _: 2 * i, "odd": lambda i, _: 2 * i + 1})
    assert source.partitions() == ("even", "odd")
    assert source.open("odd", 3).fetch(2).values == [7, 9]


def test_the_script_of_faults() -> None:
    """Each fault strikes at its record, as often as it says, also over readers opened again."""
    source = FaultySource(ListSource([*"abcdef"]), [Fail(at=2, times=2), Stall(at=3), Stall(at=4), End(at=5)])
    reader = source.open("0", 0)
    assert reader.fetch(9) == Batch(0, [*"ab"])
    for _ in range(2):
        with pytest.raises(SourceFailed, match="scripted failure before record 2"):
            reader.fetch(9)
        reader = source.open("0", 2)
    batches = [reader.fetch(9) for _ in range(6)]
    assert [(b.first, list(b.values), b.ended) for b in batches] == [
        (2, ["c"], False), (3, [], False), (3, ["d"], False), (4, [], False), (4, ["e"], False), (5, [], True),
    ]  # fmt: skip


def test_a_scripted_error_ends_the_partition() -> None:
    """It comes in place of its record, again on every fetch and on every replay."""
    source = GeneratorSource(lambda i, _: i, faults=[Error(at=2, message="sensor gone")])
    for at in (0, 1, 2):
        reader = source.open("0", at)
        assert list(reader.fetch(10).values) == list(range(at, 2))
        assert [str(reader.fetch(10).error) for _ in range(2)] == ["sensor gone"] * 2


def test_a_list_that_grows() -> None:
    """With follow, what is appended follows; without, the end is the end."""
    values = [1]
    reader = ListSource(values, follow=True).open("0", 0)
    assert reader.fetch(5) == Batch(0, [1])
    values.append(2)
    assert reader.fetch(5) == Batch(1, [2])


def test_what_is_refused_at_once() -> None:
    """What can be read only once is no source; positions and partitions must exist."""
    with pytest.raises(TypeError, match="read again after a crash: give a list"):
        ListSource(iter([1]))  # type: ignore[arg-type]
    with pytest.raises(PositionUnavailable):
        ListSource([1]).open("0", 2)
    with pytest.raises(PositionUnavailable):
        generator().open("0", 201)
    with pytest.raises(SourceFailed, match="no partition 'x'"):
        generator().open("x", 0)
    with pytest.raises(ValueError, match="names no partition"):
        FaultySource(ListSource([1]), [End(partition="x", at=0)])
    with pytest.raises(ValueError, match="names that differ"):
        GeneratorSource(draw, partitions=0)


class Planted(ListSource):
    """A source with a bug that the suite must find."""

    def __init__(self, bug: str) -> None:
        super().__init__({"a": list(range(50)), "b": list(range(100, 150))})
        self.bug = bug
        self.shared: Any = None
        self.acknowledged = -1

    def open(self, partition: str, at: int, /) -> Any:
        if self.bug == "shared" and self.shared is not None:
            return self.shared
        self.shared = PlantedReader(super().open(partition, at), self, at)
        return self.shared


class PlantedReader:
    def __init__(self, reader: Any, source: Planted, at: int) -> None:
        self.reader, self.source, self.bug, self.at = reader, source, source.bug, at
        self.close = reader.close

    def acknowledge(self, n: int, /) -> None:
        if self.bug == "acknowledge":
            self.reader.fetch(1)

    def fetch(self, count_max: int, /) -> Batch:
        batch = self.reader.fetch(count_max + (self.bug == "too many"))
        if self.bug == "repeat" and self.at == 17 and batch.values:
            return Batch(batch.first, [batch.values[0]] * len(batch.values), batch.ended)
        if self.bug == "ids" and batch.first > 5:
            return Batch(batch.first + 1, batch.values, batch.ended)
        if self.bug == "no end":
            return Batch(batch.first, batch.values)
        return batch


@pytest.mark.parametrize("bug", ["shared", "acknowledge", "too many", "repeat", "ids", "no end"])
def test_the_suite_finds_planted_bugs(bug: str) -> None:
    """`check_source` refuses a source with any of these bugs, and accepts it without."""
    check_source(lambda: Planted("none"))
    with pytest.raises(AssertionError, match="broken promise"):
        check_source(lambda: Planted(bug))
