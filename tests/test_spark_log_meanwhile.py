"""Who stands still at any moment of what it does with a log, while others go on, and then does the rest.

A driver that was thought dead, a machine that was suspended, a reader that is slow: nothing but what is on the disk
tells them what has happened meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import pytest
from lanes import at_each_commit, left_to_commits
from spark_log_world import WHERE, SimulatedLogDisk, State, commit, numbers_in, settled, seven_batches, ten

from reliable_rx.errors import PositionUnavailable, StoreUnavailable
from spark_bridge.micro_batch_log import compaction, names
from spark_bridge.micro_batch_log.cursor import Cursor
from spark_bridge.micro_batch_log.names import span_numbers
from spark_bridge.micro_batch_log.retention import Held, acknowledge, register, retain
from spark_bridge.micro_batch_log.view import LogView

Act = Callable[[SimulatedLogDisk], object]
taken_in = compaction._taken_in


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put together four manifests, and four of these."""
    monkeypatch.setattr(names, "SPANS", (4, 16))


@pytest.fixture(params=[False, at_each_commit(True)], ids=["small", "large"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether files of rows are too large for blocks of manifests, or are taken in."""
    if request.param:
        monkeypatch.setattr(compaction, "_taken_in", lambda view, manifests, room: taken_in(view, manifests, -1))
    return bool(request.param)


@pytest.fixture(scope="module")
def seven() -> State:
    """A log with seven batches, and a reader that has read none."""
    disk = SimulatedLogDisk(seven_batches())
    register(disk, "app", 0, 0, "rows", where=WHERE)
    return settled(disk)


class Interleaved(SimulatedLogDisk):
    """Lets others work before one of the things that are done with it, counted down."""

    def __init__(self, state: State, left: int, *meanwhile: Act) -> None:
        super().__init__(state)
        self.left, self.meanwhile = left, meanwhile
        self.on_operation = self.step

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            for act in self.meanwhile:
                act(self)

    def names(self) -> Sequence[str]:
        self.step()
        return super().names()

    def size(self, name: str) -> int | None:
        self.step()
        return super().size(name)

    def read(self, name: str) -> bytes | None:
        self.step()
        return super().read(name)


def at_every_moment(start: State, slow: Act, *meanwhile: Act) -> list[Interleaved]:
    """Return the logs in which *slow* stood still before its first, second, ... step, and came to its end."""
    found: list[Interleaved] = []
    while not found or found[-1].left <= 0:
        found.append(Interleaved(start, len(found) + 1, *meanwhile))
        slow(found[-1])
    return found[:-1]


def forget(upto: int, reader: str = "app") -> Act:
    """Return a reader that has all batches before *upto*, and forgets them."""

    def act(disk: SimulatedLogDisk) -> None:
        acknowledge(disk, reader, 0, Held("rows", 2 * upto))
        retain(LogView(disk, where=WHERE))

    return act


def drive(disk: SimulatedLogDisk, *, stop: int = 12) -> None:
    """Be another driver of the same query, which goes on where the first one stands."""
    for batch in range(7, stop):
        commit(disk, batch, attempt="3")


def write(disk: SimulatedLogDisk) -> None:
    """Be the driver that stands still; it may be told that it is one too many."""
    with contextlib.suppress(StoreUnavailable, FileNotFoundError):
        commit(disk, 7)


def check(disk: SimulatedLogDisk, acknowledged: int) -> None:
    """Find all rows that are not *acknowledged*, in order, now and when a driver has gone on; then all can go."""
    for stop in (0, 20):
        drive(disk, stop=stop)
        view = LogView(disk, where=WHERE)
        first, end = view.bounds(0, "rows")
        assert (first <= 2 * acknowledged, end >= 14) == (True, True), disk.left
        assert numbers_in(view) == ten(*range(first // 2, end // 2)), disk.left
    for reader in ("app", "other"):
        forget(19, reader)(disk)
    left = [numbers for name in disk.names() if (numbers := span_numbers(name)) is not None]
    assert (end, left) == (40, [range(19, 20)])


OTHERS: dict[str, tuple[int, list[Act]]] = {
    "driver": (0, [drive]),
    "reader in the block": (2, [forget(2)]),
    "reader of the block": (4, [forget(4)]),
    "reader behind the block": (6, [forget(6)]),
    "driver, then reader": (2, [drive, forget(2)]),
    "driver, then reader of all": (11, [drive, forget(11)]),
    "reader, then driver": (2, [forget(2), drive]),
    "reader of all, then driver": (5, [forget(5), drive]),
}
SAMPLE = ("reader, then driver",)


@left_to_commits
@pytest.mark.parametrize("who", [each if each in SAMPLE else at_each_commit(each) for each in OTHERS])
def test_a_driver_that_stood_still_takes_no_row(small: None, large: bool, seven: State, who: str) -> None:
    """What no reader has acknowledged is there, whole and in order, wherever in a batch it stood and who went on."""
    acknowledged, acts = OTHERS[who]
    for disk in at_every_moment(seven, write, *acts):
        check(disk, acknowledged)


@pytest.mark.parametrize("who", [at_each_commit("driver"), at_each_commit("reader"), "driver, then reader"])
def test_a_reader_that_stood_still_forgets_nothing_else(small: None, large: bool, seven: State, who: str) -> None:
    """A reader forgets, and stands still in it; another has read less, and the driver puts manifests together."""
    start = SimulatedLogDisk(seven)
    register(start, "other", 0, 0, "rows", where=WHERE)
    acts = [{"driver": drive, "reader": forget(3, "other")}[each] for each in who.split(", then ")]
    for disk in at_every_moment(settled(start), forget(6), *acts):
        check(disk, 3)


@left_to_commits
def test_a_slow_reader_reads_all_of_what_is_kept_for_it(small: None, large: bool, seven: State) -> None:
    """Wherever it stands when manifests move and their files go, it goes on with the next row, without an error."""
    found: list[list[int]] = []
    disks = at_every_moment(
        seven, lambda disk: found.append(numbers_in(LogView(disk, where=WHERE))), lambda disk: drive(disk, stop=30)
    )
    assert len(disks) > 30
    assert all(each == ten(*range(len(each) // 2)) and len(each) >= 14 for each in found)


def test_a_reader_for_which_nothing_is_kept_is_told(small: None, large: bool, seven: State) -> None:
    """Where batches are forgotten under it, it fails, and never goes on behind a gap."""
    found: list[list[int]] = []

    def read(disk: SimulatedLogDisk) -> None:
        view, rows = LogView(disk, where=WHERE), list[int]()
        found.append(rows)
        with contextlib.suppress(PositionUnavailable):
            cursor = Cursor(view, 0, "rows", 0)
            while (chunk := cursor.next()) is not None:
                rows += chunk.rows.column(0).to_pylist()
            assert len(rows) >= 14

    for disk in at_every_moment(seven, read, forget(5), drive):
        check(disk, 5)
    assert {len(each) for each in found} >= {0, 14}
    assert all(each == ten(*range(20))[: len(each)] for each in found)
