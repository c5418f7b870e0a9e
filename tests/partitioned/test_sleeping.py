"""What is left of a partition where nothing happens: it listens, and lets go of everything when it wakes up."""

from __future__ import annotations

from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from hosting import FileSource, ListSource
from hosting.partitioned.sleeper import Sleeper
from reliable_rx.reliable import Batch, Reader


class Held:
    """A reader of a `ListSource` that counts among *open_ones* until it is closed, which may raise."""

    def __init__(self, inner: Reader, open_ones: list[Reader], *, raises: bool) -> None:
        self.inner, self.open_ones, self.raises = inner, open_ones, raises
        open_ones.append(self)

    def fetch(self, count_max: int) -> Batch:
        return self.inner.fetch(count_max)

    def close(self) -> None:
        self.open_ones.remove(self)
        self.inner.close()
        if self.raises:
            raise OSError("it is gone")


class Counted(ListSource):
    """One with three partitions; the first reader may raise when it is closed."""

    def __init__(self, *, raises: bool) -> None:
        super().__init__({"a": [1], "b": [2], "c": [3]})
        self.open_ones: list[Reader] = []
        self.raises = raises

    def open(self, partition: str, at: int, /) -> Reader:
        return Held(super().open(partition, at), self.open_ones, raises=self.raises and partition == "a")


@pytest.mark.parametrize("raises", [False, True])
def test_who_wakes_up_leaves_no_reader_open(raises: bool) -> None:
    """Each partition is listened to until the sleep ends, and then none is, though closing one of them raises."""
    source = Counted(raises=raises)
    places = {("n", partition): (source, 1) for partition in source.partitions()}
    sleeper = Sleeper(places, wake=lambda: None, timer_s=None)
    assert len(source.open_ones) == 3
    with pytest.raises(OSError, match="it is gone") if raises else nullcontext():
        sleeper.close()
    assert source.open_ones == []


def test_who_sleeps_waits_for_a_file_that_is_away(tmp_path: Path) -> None:
    """It sleeps on while the file is not there, and stirs when it is back and has more."""
    path = tmp_path / "in.jsonl"
    path.write_text("1\n")
    sleeper = Sleeper({("n", "in.jsonl"): (FileSource(path, follow=True), 1)}, wake=lambda: None, timer_s=None)
    path.rename(tmp_path / "away")
    assert not sleeper.stirs()
    (tmp_path / "away").rename(path)
    assert not sleeper.stirs()
    with path.open("a") as file:
        file.write("2\n")
    assert sleeper.stirs()
    sleeper.close()


def test_who_sleeps_stirs_when_its_file_is_replaced(tmp_path: Path) -> None:
    """The evaluator that wakes up tells that another file is in its place; asleep, nothing would be read for ever."""
    path = tmp_path / "in.jsonl"
    path.write_text("1\n")
    places = {("n", "in.jsonl"): (FileSource(path, follow=True), 1)}
    with closing(Sleeper(places, wake=lambda: None, timer_s=None)) as sleeper:
        assert not sleeper.stirs()
        path.rename(tmp_path / "rotated")
        path.write_text("2\n3\n")
        assert sleeper.stirs()
