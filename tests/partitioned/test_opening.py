"""One word opens a group: a directory or a database, and what is committed there is decided by its leases."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from cli_process import cli
from postgres_server import PostgresServer

from hosting.partitioned.assign.sticky import sticky
from hosting.partitioned.beats import Beat
from hosting.partitioned.coordinator import Coordinator
from hosting.partitioned.opening import open_group
from hosting.partitioned.shared import Shared
from hosting.partitioned.words import Epoch, Lease, Partition, Shard
from reliable_rx.errors import CheckpointRefused

JFK = Partition("flights", "JFK")


@pytest.fixture(params=["directory", "database"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "directory":
        return str(tmp_path / "group")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.new_database()


def granted(shared: Shared) -> Lease:
    """Join the group as its only node, and be given its only partition."""
    shared.shards_changed([Shard(JFK)])
    member = shared.beat(Beat(number=1, token="t"), 0.0).member
    for number in range(2, 100):
        shared.beat(Beat(number=number, token="t", member=member), number * 1.0)
        shared.tick(number * 1.0)
        lease = shared.lease(JFK)
        if lease is not None:
            return lease
    raise AssertionError("nothing was granted")


def test_a_group_lives_where_it_was_opened(where: str) -> None:
    """Registry, positions and stores are of one group: what is written through one opening is read through another."""
    with closing(open_group(where, "g")) as one, closing(open_group(where, "g")) as other:
        lease = granted(Shared(one.registry, Coordinator("g", sticky)))
        held = {("flights", "JFK"): (str(lease.owner), int(lease.epoch))}
        assert other.offsets.commit("g", {("flights", "JFK"): 7}, held) == {("flights", "JFK"): None}
        assert one.offsets.fetch("g")["flights", "JFK"].position == 7
        with one.stores.open(lease) as store:
            store.journal.append(1, 1, b"a turn")
        assert other.stores.newest(JFK) == lease.epoch
        reader = other.stores.look(JFK)
        assert reader is not None
        with reader:
            assert list(reader.journal.read(0)) == [(1, 1, b"a turn")]


def test_only_the_holder_of_a_lease_commits(where: str) -> None:
    """A lease of another epoch, of another owner, of another group, and one that nobody ever had are fenced off."""
    with closing(open_group(where, "g")) as opened:
        partition, vector = ("flights", "JFK"), {("flights", "JFK"): 7}
        assert opened.offsets.commit("g", vector, {partition: ("me", 1)})[partition] is not None
        lease = granted(Shared(opened.registry, Coordinator("g", sticky)))
        for group, owner, epoch in (
            ("g", str(lease.owner), Epoch(lease.epoch + 1)),
            ("g", "another", lease.epoch),
            ("another", str(lease.owner), lease.epoch),
        ):
            refusal = opened.offsets.commit(group, vector, {partition: (owner, epoch)})[partition]
            assert refusal is not None and refusal.reason == "fenced"
        assert opened.offsets.fetch("g") == {}


DAMAGES: dict[str, Callable[[Path], object]] = {
    "its file is gone": lambda path: path.unlink(),
    "its file is empty": lambda path: path.write_bytes(b""),
    "its newest pages are gone": lambda path: path.write_bytes(path.read_bytes()[:4096]),
    "its document is gone": lambda path: changed(path, "DELETE FROM registry"),
    "its table is gone": lambda path: changed(path, "DROP TABLE registry"),
}


def changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(statement)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_registry_that_has_lost_its_group_is_not_made_anew(damage: str, tmp_path: Path) -> None:
    """Where stores of the group are, its epochs are lost: opening is refused in words, and changes nothing."""
    with closing(open_group(tmp_path, "g")) as opened:
        lease = granted(Shared(opened.registry, Coordinator("g", sticky)))
        opened.stores.open(lease).close()
    path = tmp_path / "registry.sqlite"
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    DAMAGES[damage](path)
    before = path.read_bytes() if path.exists() else b""
    for _ in range(2):
        with pytest.raises(CheckpointRefused) as refused:
            open_group(tmp_path, "g")
        assert "disk is well" not in str(refused.value) and "restore" in str(refused.value)
        assert not path.exists() or path.read_bytes() == before
    for named in (["--group", "g"], []):
        shown = cli("status", "--store", tmp_path, *named, cwd=tmp_path, code=1 if path.exists() else 2)
        assert "disk is well" not in shown.stderr and ("restore" in shown.stderr or not path.exists())
    shutil.rmtree(tmp_path / "partitions")
    path.unlink(missing_ok=True)
    open_group(tmp_path, "g").close()


def test_a_group_without_a_name_is_refused(tmp_path: Path) -> None:
    """An empty name is an error before anything is made."""
    with pytest.raises(ValueError, match=r"a group cannot be called .*empty"):
        open_group(tmp_path / "none", "")
    assert not (tmp_path / "none").exists()
