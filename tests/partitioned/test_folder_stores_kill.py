"""Real owners: killed at every step of taking over, stopped inside their writes, taken over, and continued."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from folder_store_process import LOST, PARTITION, Owner, lease
from forked import Forked, script

from hosting.partitioned.folder_stores import FolderStores

APP = Path(__file__).with_name("folder_store_process.py")
WAIT_S = 60.0
STEPS = (
    "take_over.after_claim:kill", "take_over.mid_copy:kill@1", "take_over.mid_copy:kill@2", "take_over.mid_copy:kill@3",
    "take_over.before_rename:kill", "take_over.after_rename:kill", "take_over.fence:kill@1",
    "take_over.before_clean:kill",
)  # fmt: skip
# The fence is passed twice in each transaction, inside and behind: with three transactions for making the store, those
# of inputs, turns, checkpoints and truncation follow.
STOPS = (
    "journal.before_commit:stop@3", "journal.after_commit:stop@3", "log.before_commit:stop@2",
    "log.after_commit:stop@2",
    "checkpoint.before_commit:stop", "checkpoint.mid_commit:stop@2", "checkpoint.after_commit:stop",
    *(f"take_over.fence:stop@{number}" for number in range(1, 34)),
)  # fmt: skip


class Ledger:
    """What owners said: by turn, who was told that it is durable; and the end of the inputs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shown: dict[int, int] = {}
        self.inputs: dict[int, int] = {}

    def start(self, epoch: int, *, turns: int, faults: str = "", torn_at: int = 0) -> Forked:
        command = [str(APP), str(self.root), str(epoch), str(turns), str(torn_at)]
        return Forked(command, script, environment={"RELIABLE_RX_FAULTS": faults})

    def finish(self, process: Forked) -> int:
        with process:
            said, complaint = process.communicate(timeout=WAIT_S)
        assert process.returncode in (0, LOST, -signal.SIGKILL), complaint
        for word, number, epoch in map(str.split, said.splitlines()):
            if word != "lost":
                where = self.shown if word == "shown" else self.inputs
                assert int(number) not in where, f"{word} {number} was told twice"
                where[int(number)] = int(epoch)
        return process.returncode

    def check(self, epoch: int) -> None:
        """The next owner finds all that any owner was told, and one folder is left."""
        with FolderStores(self.root).open(lease(epoch)) as store:
            owner = Owner(store, epoch)
            assert {turn: owner.writers.get(turn) for turn in self.shown} == self.shown
            inputs = dict(enumerate(owner.inputs_written()))
            assert {number: inputs.get(number) for number in self.inputs} == self.inputs
            for _ in range(2):
                owner.write()
        assert os.listdir(self.root / "flights" / "JFK") == [str(epoch)]


def wait_until_stopped(process: Forked) -> None:
    """Wait until *process* has stopped itself."""
    deadline = time.monotonic() + WAIT_S
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def check_stopped(ledger: Ledger, faults: str = "", torn_at: int = 0) -> None:
    """Stop an owner, take over and go on, continue it: it is told, shows nothing more, and nothing of it is seen."""
    stopped = ledger.start(1, turns=12, faults=faults, torn_at=torn_at)
    try:
        wait_until_stopped(stopped)
        assert ledger.finish(ledger.start(2, turns=6)) == 0
        shown = dict(ledger.shown)
        stopped.send_signal(signal.SIGCONT)
        assert ledger.finish(stopped) == LOST
    finally:
        stopped.kill()
        stopped.wait(WAIT_S)
    assert set(shown.values()) == {2}
    assert FolderStores(ledger.root).newest(PARTITION) == 2
    ledger.check(3)


@pytest.mark.skipif(sys.platform != "linux", reason="reads from /proc whether a process is stopped")
class TestStopped:
    """SIGSTOP, a successor, SIGCONT."""

    def test_inside_a_checkpoint(self, tmp_path: Path) -> None:
        """Its transaction is open and its locks are held; nobody waits for it."""
        check_stopped(Ledger(tmp_path), "checkpoint.mid_commit:stop@2")

    @pytest.mark.slow
    @pytest.mark.parametrize("faults", STOPS)
    def test_anywhere(self, tmp_path: Path, faults: str) -> None:
        """At every place of a write and of the making of a store."""
        check_stopped(Ledger(tmp_path), faults)

    @pytest.mark.slow
    @pytest.mark.parametrize("at", [21, 25])
    def test_between_two_words_of_the_header(self, tmp_path: Path, at: int) -> None:
        """There a stopped writer holds up SQLite's readers too; its files are copied as they stand."""
        check_stopped(Ledger(tmp_path), torn_at=at)


def check_killed(ledger: Ledger, step: str, *, held: bool) -> None:
    first = ledger.start(1, turns=12, faults=f"journal.before_commit:{'stop' if held else 'kill'}@9")
    try:
        if held:
            wait_until_stopped(first)
        else:
            assert ledger.finish(first) == -signal.SIGKILL
        for epoch in (2, 3):
            ledger.finish(ledger.start(epoch, turns=5, faults=step))
        assert ledger.finish(ledger.start(4, turns=5)) == 0
    finally:
        first.send_signal(signal.SIGCONT)
        if held:
            assert ledger.finish(first) == LOST
    ledger.check(5)


@pytest.mark.slow
@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_every_step_of_taking_over(tmp_path: Path, step: str, held: bool) -> None:
    """Two successors are killed at the same step, from an owner that is dead or stopped; the third has everything."""
    check_killed(Ledger(tmp_path), step, held=held)
