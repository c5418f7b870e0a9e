"""A micro-batch log after a power loss or a kill at any moment: a batch is whole or not there, and comes once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from spark_log_world import QUERY, SimulatedLogDisk, numbers_in, task_file, task_inline

from reliable_rx.testing.faults import ProcessDied
from spark_bridge.micro_batch_log.manifest import Part
from spark_bridge.micro_batch_log.retention import Held, acknowledge, held, register, retain
from spark_bridge.micro_batch_log.view import LogView
from spark_bridge.micro_batch_log.writer import LogWriter

State = Mapping[str, bytes]
WHERE = "the log"


def batch_of(disk: SimulatedLogDisk, batch: int, *, attempt: str = "1") -> list[Part]:
    ten = 10 * batch
    return [task_file(disk, batch, 0, ten, ten + 1, attempt=attempt), task_inline(1, ten + 2)]


def commit(disk: SimulatedLogDisk, batch: int, *, attempt: str = "1") -> None:
    """Run one batch whole, tasks and driver, as Spark does and does again."""
    LogWriter(disk, where=WHERE).commit(QUERY, batch, batch_of(disk, batch, attempt=attempt))


def rows_of(*batches: int) -> list[int]:
    return [10 * batch + n for batch in batches for n in range(3)]


def two_batches() -> State:
    disk = SimulatedLogDisk({})
    for batch in (0, 1):
        commit(disk, batch)
    return settled(disk)


def settled(disk: SimulatedLogDisk) -> State:
    disk.sync_directory()
    (state,) = unique(disk.crash_states())
    return state


def unique(states: Sequence[State]) -> list[State]:
    return list({tuple(sorted(state.items())): state for state in states}.values())


def every_crash(protocol: Callable[[SimulatedLogDisk], Any], start: State) -> tuple[list[State], list[State]]:
    """Return what a power loss in the midst of *protocol* may leave, and what one after it may."""
    disk, midst = SimulatedLogDisk(start), list[State]()
    disk.on_operation = lambda: midst.extend(disk.crash_states())
    protocol(disk)
    return unique(midst), unique(disk.crash_states())


def read(state: State) -> list[int]:
    return numbers_in(LogView(SimulatedLogDisk(state), where=WHERE))


def test_a_batch_is_whole_or_not_there_after_any_power_loss() -> None:
    """From every state that a power loss leaves, a reader reads whole batches; once committed, the batch stays."""
    midst, after = every_crash(lambda disk: commit(disk, 2), two_batches())
    assert len(midst) > 10
    assert {len(read(state)) for state in midst} == {6, 9}
    assert all(read(state) in (rows_of(0, 1), rows_of(0, 1, 2)) for state in midst)
    assert [read(state) for state in after] == [rows_of(0, 1, 2)] * len(after)


def test_a_batch_that_runs_again_after_any_power_loss_is_there_once() -> None:
    """Spark runs the batch again, with files of other names; the rows are there once, and no stray file is left."""
    midst, _ = every_crash(lambda disk: commit(disk, 2), two_batches())
    for state in midst:
        disk = SimulatedLogDisk(state)
        commit(disk, 2, attempt="2")
        commit(disk, 3)
        final = settled(disk)
        assert read(final) == rows_of(0, 1, 2, 3)
        assert sum(name.startswith("rows-") for name in final) == 4
        assert not [name for name in final if name.endswith(".new")]


def test_a_batch_that_runs_again_after_a_kill_at_any_moment_is_there_once() -> None:
    """The process dies after each operation in turn; what the system holds in memory is all there."""
    for operations in count(1):
        disk = SimulatedLogDisk(two_batches())

        def die(disk: SimulatedLogDisk = disk, operations: int = operations) -> None:
            if len(disk.operations) == operations:
                raise ProcessDied

        disk.on_operation = die
        try:
            commit(disk, 2)
        except ProcessDied:
            disk.on_operation = lambda: None
            commit(disk, 2, attempt="2")
            assert {tuple(read(state)) for state in disk.crash_states()} == {tuple(rows_of(0, 1, 2))}
        else:
            break
    assert operations > 8


def three_batches_read_up_to(position: int) -> State:
    disk = SimulatedLogDisk(two_batches())
    commit(disk, 2)
    register(disk, "app", 0, 0, "rows", where=WHERE)
    acknowledge(disk, "app", 0, Held("rows", position))
    disk.sync("reader-app-0")
    return settled(disk)


def test_forgetting_never_leaves_a_batch_without_its_rows() -> None:
    """Whatever of the removals a power loss keeps, what can be seen can be read, up to the end, and ids stay."""
    midst, after = every_crash(lambda disk: retain(LogView(disk, where=WHERE)), three_batches_read_up_to(6))
    kept = [rows_of(*range(first, 3)) for first in range(3)]
    assert {tuple(read(state)) for state in midst} >= {tuple(kept[0]), tuple(kept[2])}
    for state in [*midst, *after]:
        view = LogView(SimulatedLogDisk(state), where=WHERE)
        first, end = view.bounds(0, "rows")
        assert (end, read(state)) == (9, kept[first // 3])


def test_what_forgetting_left_behind_is_swept() -> None:
    """Rows whose manifest is gone are removed by a driver, sooner or later: here by the 64th batch."""
    midst, _ = every_crash(lambda disk: retain(LogView(disk, where=WHERE)), three_batches_read_up_to(6))
    strays = max(midst, key=lambda state: sum(n.startswith("rows-") for n in state) - len(read(state)) // 3)
    assert sum(n.startswith("rows-") for n in strays) > len(read(strays)) // 3
    disk = SimulatedLogDisk(strays)
    for batch in range(3, 65):
        commit(disk, batch)
    view = LogView(disk, where=WHERE)
    assert sum(n.startswith("rows-") for n in disk.names()) == len(view.numbers())


@pytest.mark.parametrize("positions", [(3,), (3, 6)])
def test_a_power_loss_never_takes_a_reader_or_moves_it_forward(positions: tuple[int, ...]) -> None:
    """A reader that has registered is known for good; its position may go back, and is never one it did not give."""

    def protocol(disk: SimulatedLogDisk) -> None:
        for position in positions:
            acknowledge(disk, "app", 0, Held("rows", position))

    disk = SimulatedLogDisk({})
    register(disk, "app", 0, 0, "rows", where=WHERE)
    (start,) = unique(disk.crash_states())  # durable without anyone else's sync
    midst, after = every_crash(protocol, start)
    for state in [*midst, *after]:
        found = held(SimulatedLogDisk(state), "app", 0)
        assert found is not None
        assert found.next in (0, *positions)
