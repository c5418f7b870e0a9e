"""A group's document that is not what was written is refused, by every registry that outlives its process."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cli_process import cli
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import share_of
from postgres_server import PostgresServer

from checkpoint import KeyRing
from hosting.partitioned.group import Group, Hold, read_group, read_leases
from hosting.partitioned.opening import open_group
from hosting.partitioned.postgres_registry import PostgresRegistry
from hosting.partitioned.registry import Registry
from hosting.partitioned.sqlite_registry import SqliteRegistry
from hosting.partitioned.words import Epoch, MemberId, Partition, Status
from reliable_rx.errors import CheckpointRefused

JFK = Partition("flights", "JFK")
Edit = Callable[[bytes], bytes]


class Stored:
    """A registry on disk, and the way past it to its rows."""

    def __init__(self, make: Callable[..., Registry], sql: Callable[[str, tuple[Any, ...]], list[Any]]) -> None:
        self.make, self.sql, self.name = make, sql, uuid.uuid4().hex

    def open(self, keys: KeyRing | None = None) -> Registry:
        return self.make(self.name, keys=keys)

    def blob(self) -> bytes:
        ((found,),) = self.sql("SELECT document FROM registry WHERE name = ?", (self.name,))
        return bytes(found)

    def put(self, blob: bytes) -> None:
        self.sql("UPDATE registry SET document = ? WHERE name = ?", (blob, self.name))


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    if request.param == "sqlite":
        path = tmp_path / "registry.sqlite"

        def in_file(sql: str, given: tuple[Any, ...]) -> list[Any]:
            with closing(sqlite3.connect(path)) as database, database:
                return database.execute(sql, given).fetchall()

        return Stored(lambda name, keys=None: SqliteRegistry(path, name, keys=keys), in_file)
    server: PostgresServer = request.getfixturevalue("postgres")

    def in_database(sql: str, given: tuple[Any, ...]) -> list[Any]:
        with psycopg.connect(server.dsn, options="-c search_path=reliable_rx") as connection:
            done = connection.execute(sql.replace("?", "%s").encode(), given)
            return done.fetchall() if done.description else []

    return Stored(lambda name, keys=None: PostgresRegistry(server.dsn, name, keys=keys), in_database)


def document(name: str, status: Status = Status.OPEN) -> bytes:
    return Group(name, holds={JFK: Hold(status, MemberId("n-1"), Epoch(3))}).to_bytes()


def refused(registry: Registry) -> str:
    """Load, and return why that was refused."""
    with pytest.raises(CheckpointRefused) as error:
        registry.load()
    assert "restore" in error.value.message
    return error.value.message


EDITS: dict[str, Edit] = {
    "a word in it": lambda blob: blob.replace(b'"open"', b'"wait"'),
    "a longer word in it": lambda blob: blob.replace(b'"open"', b'"terminated"'),
    "nothing is left": lambda blob: b"",
    "half is left": lambda blob: blob[: len(blob) // 2],
    "something behind it": lambda blob: blob + b" ",
    "written without a seal": lambda blob: document("g"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_document_is_refused(stored: Stored, edit: str) -> None:
    """By who has it open and by who opens it, before anything in it is parsed, in words that say what to do."""
    with closing(stored.open()) as registry:
        assert registry.swap(0, document(stored.name), notice=False)
        before = stored.blob()
        assert EDITS[edit](before) != before
        stored.put(EDITS[edit](before))
        assert "the document of group" in refused(registry)
        with pytest.raises(CheckpointRefused), closing(stored.open()) as another:
            another.load()
        stored.put(before)
        assert registry.load() == (1, document(stored.name))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=share_of(50))
@given(data=st.data())
def test_any_flipped_bit_is_refused(stored: Stored, data: st.DataObject) -> None:
    """Wherever it is."""
    stored.name = uuid.uuid4().hex
    with closing(stored.open()) as registry:
        registry.swap(0, document(stored.name), notice=False)
        blob = bytearray(stored.blob())
        blob[data.draw(st.integers(0, len(blob) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        stored.put(bytes(blob))
        refused(registry)


def test_a_genuine_document_of_another_time_or_group_is_refused(stored: Stored) -> None:
    """One that is brought back from before, stands under another number, or is another group's."""
    with closing(stored.open()) as registry:
        registry.swap(0, document(stored.name), notice=False)
        first = stored.blob()
        registry.swap(1, document(stored.name, Status.TERMINATED), notice=False)
        second = stored.blob()
        stored.put(first)
        assert "it is from number 1 and stands where 2 should be" in refused(registry)
        stored.put(second)
        stored.sql("UPDATE registry SET version = 7 WHERE name = ?", (stored.name,))
        assert "it is from number 2 and stands where 7 should be" in refused(registry)
        mine, stored.name = stored.name, uuid.uuid4().hex
        with closing(stored.open()) as another:
            another.swap(0, document(stored.name), notice=False)
            stored.put(first)
            assert f"it belongs to another store (owner {mine}" in refused(another)


def test_with_a_key_nothing_forged_is_obeyed(stored: Stored) -> None:
    """What is sealed without the key is refused; the key rotates with the next document."""
    old, new = KeyRing(b"an old key of ours"), KeyRing(b"a new key of ours!", older=(b"an old key of ours",))
    with closing(stored.open(old)) as registry:
        registry.swap(0, document(stored.name), notice=False)
    with pytest.raises(CheckpointRefused, match="key ring"), closing(stored.open()) as forger:
        forger.load()
    with closing(stored.open(new)) as registry:
        assert registry.load() == (1, document(stored.name))
        registry.swap(1, document(stored.name), notice=False)
        with pytest.raises(CheckpointRefused, match="key ring"), closing(stored.open(old)) as late:
            late.load()


@pytest.mark.parametrize("damaged", [b"", b"[]", b"{}", b"{", b"null", b"\xff", b'{"format": 7}', b"[" * 100_000])
def test_a_document_that_cannot_be_read_is_refused_with_what_to_do(damaged: bytes) -> None:
    """Whatever lies behind a seal: none is an error of Python's."""
    for read in (read_group, read_leases):
        with pytest.raises(CheckpointRefused, match="restore"):
            read(damaged, name="g")


def test_status_and_nodes_say_what_to_do(tmp_path: Path) -> None:
    """The commands end with one sentence; nothing is changed."""
    with closing(open_group(tmp_path, "g")) as opened:
        opened.registry.swap(0, document("g"), notice=False)
    path = tmp_path / "registry.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        ((blob,),) = database.execute("SELECT document FROM registry").fetchall()
        database.execute("UPDATE registry SET document = ?", (blob.replace(b'"open"', b'"wait"'),))
    shown = cli("status", "--store", tmp_path, cwd=tmp_path, code=1)
    assert "restore this file with its -wal" in shown.stderr and "Traceback" not in shown.stderr
