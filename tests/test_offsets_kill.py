"""An offset store among real processes that are killed, and on files as a power loss may leave them.

Run as a program, this file is a member that commits and says on its output what was answered:
``python test_offsets_kill.py WHERE MEMBER``, with faults armed from the environment.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from postgres_server import PostgresServer

from checkpoint.offsets import DualOffsets, Migration, PostgresOffsets, SqliteOffsets
from reliable_rx.errors import CheckpointRefused
from reliable_rx.testing.faults import ProcessDied, arm, arm_from_environment, nth, raise_

P, Q = ("flights", "0"), ("flights", "1")
POINTS = [
    "offsets.before_commit", "offsets.mid_commit", "offsets.after_commit", "offsets.between",
    "offsets.mid_compaction", "offsets.after_compaction", "offsets.migrating",
]  # fmt: skip


def leases(group: str, partition: tuple[str, str]) -> tuple[str, int]:
    """Every member has its own partition."""
    return partition[1], 1


def open_one(where: str, name: str) -> SqliteOffsets | PostgresOffsets:
    if where.startswith("postgresql://"):
        return PostgresOffsets(where, leases, name=name, compact_rows=20)
    return SqliteOffsets(Path(where) / name, leases, compact_rows=20)


def work(where: str, member: str) -> None:
    """Commit for ever through both stores, and migrate, back and forth, on the way."""
    old, new = (open_one(where, name) for name in ("old", "new"))
    both, partition, lease = DualOffsets(new, old), ("flights", member), (member, 1)
    migration = Migration(old, new, lambda group: {member: "dual"})
    position = both.fetch("g").get(partition, (0,))[0]
    os.write(1, b"read %d\n" % position)
    while True:
        position += 1
        assert both.commit("g", {partition: position}, {partition: lease}) == {partition: None}
        os.write(1, b"done %d\n" % position)
        if member == "0" and position % 10 == 0:
            (migration.migrate if position // 50 % 2 else migration.rollback)("g")


def start(where: str, member: str, faults: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "RELIABLE_RX_FAULTS": faults}
    command = [sys.executable, __file__, where, member]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_between_write_and_answer(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Two processes commit to the same two stores, one migrates; both are killed at named points and at any moment.

    What the next life reads is what was answered last, or the one commit that was under way.
    """
    where = request.getfixturevalue("postgres").new_database() if kind == "postgres" else str(tmp_path)
    answered = {"0": 0, "1": 0}
    counts = (1, 30) if kind == "sqlite" else (3,)  # over the network a round takes longer
    rounds = [f"{point}:kill@{n}" for point in POINTS for n in counts] + [""] * 3
    random.shuffle(rounds)
    for faults in rounds:
        lives = {member: start(where, member, faults if member == "0" else "") for member in answered}
        if faults:
            lives["0"].wait(timeout=60)
        else:
            time.sleep(random.uniform(0.3, 0.8))
            lives["0"].kill()
        lives["1"].kill()
        for member, process in lives.items():
            said, complaint = process.communicate(timeout=60)
            assert process.returncode == -signal.SIGKILL, complaint
            answered[member] = check(said, answered[member])
    assert min(answered.values()) > (100 if kind == "sqlite" else 20)


@pytest.mark.slow
def test_whoever_is_stopped_in_a_commit_holds_nobody_up(postgres: PostgresServer) -> None:
    """A process stopped inside its transaction is ended by the next; continued, it learns that nothing was promised."""
    where = postgres.new_database()
    stopped = start(where, "0", "offsets.mid_commit:stop@3")
    deadline = time.monotonic() + 60
    while Path(f"/proc/{stopped.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.01)
    try:
        with closing(open_one(where, "old")) as old, closing(open_one(where, "new")) as new:
            both = DualOffsets(new, old)
            assert both.commit("g", {Q: 5}, {Q: ("1", 1)}) == {Q: None}
            stopped.send_signal(signal.SIGCONT)
            said, complaint = stopped.communicate(timeout=60)
            answered = check(said, 0)
            assert stopped.returncode == 1 and "StoreUnavailable" in complaint.splitlines()[-1]
            assert both.fetch("g")[P].position in (answered, answered + 1)
    finally:
        stopped.kill()
        stopped.communicate()


def check(said: str, answered: int) -> int:
    for word, number in (line.split() for line in said.splitlines() if line):
        if word == "read":
            assert int(number) in (answered, answered + 1)
        else:
            assert int(number) > answered
        answered = int(number)
    return answered


def as_left_by_a_power_loss(files: Path, copy: Path, kept_bytes: int) -> None:
    """Copy the store with only so many bytes of the write-ahead log."""
    shutil.copytree(files, copy)
    (copy / "offsets.sqlite-shm").unlink(missing_ok=True)
    with open(copy / "offsets.sqlite-wal", "rb+") as file:
        file.truncate(kept_bytes)


def read(directory: Path) -> dict[tuple[str, str], int]:
    with SqliteOffsets(directory, leases) as store:
        return {partition: committed.position for partition, committed in store.fetch("g").items()}


@pytest.mark.parametrize("compacts", [False, True])
def test_a_power_loss_in_the_midst_of_a_write(tmp_path: Path, compacts: bool) -> None:
    """S17: however much of the last write reached the disk, what was answered is there, whole, or the next one is."""
    files, held = tmp_path / "store", {P: ("0", 1), Q: ("1", 1)}
    wal = files / "offsets.sqlite-wal"
    with SqliteOffsets(files, leases) as store:
        for position in range(5):
            store.commit("g", {P: position, Q: position}, held)
        answered = wal.stat().st_size
        if compacts:
            store.compact()
        else:
            store.commit("g", {P: 5, Q: 5}, held)
        after = wal.stat().st_size
        cuts = sorted({answered, after, *(random.randint(answered, after) for _ in range(12))})
        for number, kept_bytes in enumerate(cuts):
            as_left_by_a_power_loss(files, copy := tmp_path / str(number), kept_bytes)
            found = read(copy)
            assert found in ({P: 4, Q: 4}, {P: 5, Q: 5}) and (not compacts or found == {P: 4, Q: 4})
    assert after > answered and found == read(files)


def test_damage_is_refused(tmp_path: Path) -> None:
    """A byte that changed in a row is found when the log is read."""
    with SqliteOffsets(tmp_path, leases) as store:
        store.commit("g", {P: 5}, {P: ("0", 1)})
    with sqlite3.connect(tmp_path / "offsets.sqlite") as connection:
        ((blob,),) = connection.execute("SELECT blob FROM offsets").fetchall()
        connection.execute("UPDATE offsets SET blob = ?", (blob[:-40] + bytes([blob[-40] ^ 1]) + blob[-39:],))
    connection.close()
    with pytest.raises(CheckpointRefused, match="seal does not match"):
        SqliteOffsets(tmp_path, leases)


@pytest.mark.parametrize("point", ["offsets.before_commit", "offsets.mid_commit", "offsets.after_commit"])
def test_a_process_that_dies_in_a_commit(tmp_path: Path, point: str) -> None:
    """The next process reads what was answered, or the commit that was under way, and goes on."""
    with SqliteOffsets(tmp_path, leases) as store:
        store.commit("g", {P: 5}, {P: ("0", 1)})
        with arm(point, nth(1, raise_(ProcessDied()))), pytest.raises(ProcessDied):
            store.commit("g", {P: 6}, {P: ("0", 1)})
    assert read(tmp_path) == {P: 6 if point == "offsets.after_commit" else 5}


if __name__ == "__main__":
    arm_from_environment()
    work(sys.argv[1], sys.argv[2])
