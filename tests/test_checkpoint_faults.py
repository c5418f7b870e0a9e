"""The fault kit does what it says, our file protocol survives every crash state, and known-bad ones are condemned."""

from __future__ import annotations

import errno
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from lanes import left_to_commits

from checkpoint.format.envelope import KeyRing
from checkpoint.sqlite.files import create_durably, read_or_create
from checkpoint.sqlite.parts import make_files
from checkpoint.sqlite.store import SqliteStore
from reliable_rx.failpoints import ARMED, probe
from reliable_rx.testing.faults import (
    SimulatedDisk,
    arm,
    arm_from_environment,
    check_file_protocol,
    disk_full,
    nth,
    raise_,
)

NEW = b"the new content"


@pytest.mark.parametrize("before", [{}, {"file": b"old content"}, {"file.new": b"left over"}])
def test_our_file_protocol_survives(before: dict[str, bytes]) -> None:
    """In every state a power loss may leave the file is whole or what it was, and running it again mends it."""
    looked_at = check_file_protocol(lambda disk: create_durably(disk, "file", NEW), name="file", before=before)
    assert looked_at > 100


def test_the_key_file_survives() -> None:
    """So does the key file, whose content is new at each attempt: once it was returned, it stays."""
    check_file_protocol(lambda disk: read_or_create(disk, "file", lambda: secrets.token_bytes(32)), name="file")


def in_place(disk: SimulatedDisk) -> None:
    disk.write("file", NEW)
    disk.sync("file")
    disk.sync_directory()


def without_file_sync(disk: SimulatedDisk) -> None:
    disk.write("beside", NEW)
    disk.rename("beside", "file")
    disk.sync_directory()


def without_directory_sync(disk: SimulatedDisk) -> None:
    disk.write("beside", NEW)
    disk.sync("beside")
    disk.rename("beside", "file")


def synced_too_late(disk: SimulatedDisk) -> None:
    disk.write("beside", NEW)
    disk.rename("beside", "file")
    disk.sync("file")
    disk.sync_directory()


def trusting_what_is_there(disk: SimulatedDisk) -> None:
    if disk.read("file") is None:
        create_durably(disk, "file", NEW)


@pytest.mark.parametrize("before", [{}, {"file": b"old content"}])
@pytest.mark.parametrize("protocol", [in_place, without_file_sync, without_directory_sync, synced_too_late])
def test_known_bad_protocols_are_condemned(protocol: Callable[[SimulatedDisk], None], before: dict[str, bytes]) -> None:
    """Overwriting in place and each forgotten or late sync leave a state that gives them away."""
    with pytest.raises(AssertionError, match="power loss"):
        check_file_protocol(protocol, name="file", before=before)


def test_a_file_seen_but_not_durable_is_condemned() -> None:
    """Relying on a file that a killed process had renamed but not synced is found."""
    with pytest.raises(AssertionError, match="called done"):
        check_file_protocol(trusting_what_is_there, name="file")


def test_the_simulated_disk_reorders_and_tears() -> None:
    """Unsynced names are there or not, one by one; unsynced content is old, torn, zero or whole."""
    disk = SimulatedDisk({"a": b"A"})
    disk.write("b", b"xy")
    disk.rename("a", "c")
    states = disk.crash_states()
    for state in ({"a": b"A"}, {"c": b"A"}, {"a": b"A", "b": b"x"}, {"c": b"A", "b": b"\0\0"}, {"c": b"A", "b": b"xy"}):
        assert state in states
    disk.sync("b")
    disk.sync_directory()
    assert disk.crash_states() == [{"c": b"A", "b": b"xy"}]
    disk.remove("c")
    assert {"b": b"xy"} in disk.crash_states() and len(disk.crash_states()) == 2


def test_arming_is_undone() -> None:
    """What was armed before is armed again afterwards, and nothing stays armed."""
    outer, inner = raise_(KeyError("outer")), raise_(KeyError("inner"))
    with arm("here", outer):
        with arm("here", inner), pytest.raises(KeyError, match="inner"):
            probe("here")
        with pytest.raises(KeyError, match="outer"):
            probe("here")
        probe("elsewhere")
    assert "here" not in ARMED


def test_full_disks_and_counting() -> None:
    """Both kinds of full disk raise what the real one does; `nth` fails on that call only."""
    with arm("here", nth(2, disk_full())):
        probe("here")
        with pytest.raises(sqlite3.OperationalError, match="disk is full"):
            probe("here")
        probe("here")
    with arm("here", disk_full(by_sqlite=False)), pytest.raises(OSError) as caught:
        probe("here")
    assert caught.value.errno == errno.ENOSPC


PROGRAM = """
from reliable_rx.failpoints import probe
from reliable_rx.testing.faults import arm_from_environment
arm_from_environment()
for number in range(5):
    print(number, flush=True)
    probe("here")
"""


def test_a_process_is_killed_from_its_environment() -> None:
    """A started process dies by SIGKILL at exactly the named call."""
    environment = {**os.environ, "RELIABLE_RX_FAULTS": "there:error,here:kill@3"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "0\n1\n2\n")


@pytest.mark.parametrize("fault", ["here", "here:explode", "here:kill@x", ":kill"])
def test_unknown_faults_are_refused(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault that is not understood is an error, not a test that tests nothing."""
    monkeypatch.setenv("RELIABLE_RX_FAULTS", fault)
    with pytest.raises(ValueError, match="is not name:action"):
        arm_from_environment()


@left_to_commits
def test_a_store_half_made_is_made(tmp_path: Path) -> None:
    """Whatever a power loss leaves of the making of a store's files, the next opening has a store, empty and whole."""
    keys, seen = KeyRing(bytes(32)), set[tuple[tuple[str, bytes], ...]]()
    disk = SimulatedDisk({})
    disk.on_operation = lambda: seen.update(tuple(sorted(state.items())) for state in disk.crash_states())
    make_files(disk, keys)
    assert {name for state in seen for name, _ in state} > {"checkpoint.sqlite", "checkpoint.sqlite.new"}
    for number, state in enumerate(seen):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in state:
            (folder / name).write_bytes(content)
        with SqliteStore(folder, keys=keys) as store:
            assert store.recover() is None and store.journal.last_turn == 0
            store.journal.append(1, 1, b"a turn")
        SqliteStore(folder, keys=keys).close()
    for made in disk.crash_states():
        assert {"checkpoint.sqlite", "journal.sqlite", "log.sqlite"} <= made.keys()
