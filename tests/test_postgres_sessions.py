"""What a session in PostgreSQL was told when it began does not outlast that: the next attempt has another session."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import count

import psycopg
import pytest
from postgres_server import PostgresServer

from checkpoint import Checkpoint, PostgresStore
from checkpoint.offsets.postgres import PostgresOffsets
from checkpoint.postgres.connections import Connections
from hosting.partitioned.postgres_registry import PostgresRegistry
from reliable_rx.errors import CheckpointRefused, StoreUnavailable

OF_THE_SERVER = ("25006", "42501", "53100", "53200", "53400", "55P03", "57014", "58030")
"""What PostgreSQL says where it is read-only, forbids, has no disk, memory or other means, or gives up."""


def pid(connection: psycopg.Connection[object]) -> object:
    return connection.info.backend_pid


@pytest.mark.parametrize("state", OF_THE_SERVER)
def test_a_session_that_the_server_has_failed_is_not_used_again(state: str, postgres: PostgresServer) -> None:
    """Neither are those that wait beside it, which are as old: settings of a database are read by new ones only."""
    with closing(Connections(postgres.dsn)) as connections:
        with connections.use() as one, connections.use() as other:
            old = {pid(one), pid(other)}
        with pytest.raises(StoreUnavailable), connections.use() as failed:
            assert pid(failed) in old
            failed.execute(f"DO $$ BEGIN RAISE EXCEPTION 'so it is' USING ERRCODE = '{state}'; END $$".encode())
        with connections.use() as one, connections.use() as other:
            assert not old & {pid(one), pid(other)}


def test_a_session_that_was_asked_for_the_wrong_thing_is_kept(postgres: PostgresServer) -> None:
    """A value that does not fit is no reason to begin anew."""
    with closing(Connections(postgres.dsn)) as connections:
        with pytest.raises(ValueError), connections.use() as before:
            before.execute("SELECT 1 / 0")
        with connections.use() as after:
            assert pid(after) == pid(before)


def test_what_was_read_only_is_written_again(postgres: PostgresServer) -> None:
    """Whatever writes here is told so, and goes on by itself once the database may be written to."""
    dsn = postgres.new_database()
    database, log, positions = dsn.rpartition("/")[2], ("log", "0"), count(1)

    def admin(*statements: str) -> None:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())

    with ExitStack() as closed:
        store = closed.enter_context(PostgresStore(dsn, "s"))
        registry = closed.enter_context(closing(PostgresRegistry(dsn, "g")))
        offsets = closed.enter_context(closing(PostgresOffsets(dsn, lambda group, partition: ("me", 1))))
        writes: dict[str, Callable[[], object]] = {
            "journal": lambda: store.journal.append(store.journal.last_turn + 1, 1, b"a turn"),
            "checkpoint": lambda: store.commit(Checkpoint(1, "full", 1, b"meta", [b"state"], 2)),
            "log": lambda: store.log("in").append([b"pushed"]),
            "registry": lambda: registry.swap(registry.load()[0], b"document", notice=True),
            "offsets": lambda: offsets.commit("g", {log: next(positions)}, {log: ("me", 1)}),
        }
        offsets.claim("g", {log: ("me", 1)})
        for name in ("journal", "registry", "offsets"):
            writes[name]()
        admin(f"ALTER DATABASE {database} SET default_transaction_read_only = on",
              f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{database}'")  # fmt: skip
        for write in writes.values():
            with pytest.raises(StoreUnavailable, match="read-only"):
                write()
        admin(f"ALTER DATABASE {database} RESET default_transaction_read_only")
        for write in writes.values():
            try:
                write()
            except StoreUnavailable:  # a session that was made meanwhile: it is given up by this
                write()


def test_a_right_that_is_taken_away_is_told_as_that(postgres: PostgresServer) -> None:
    """To who may not use a schema nothing in it is there; it goes on by itself when it may be used again."""
    dsn, role = postgres.new_database(), f"r{uuid.uuid4().hex}"

    def admin(*statements: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for each in statements:
                connection.execute(each.encode())

    with closing(PostgresRegistry(dsn, "g")) as registry:
        registry.swap(0, b"document", notice=False)
    admin(f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA reliable_rx TO {role}",
          f"GRANT ALL ON ALL TABLES IN SCHEMA reliable_rx TO {role}")  # fmt: skip
    with closing(PostgresRegistry(dsn.replace("//rrx@", f"//{role}@"), "g")) as registry:
        asked: tuple[Callable[[], object], ...] = (
            registry.load, registry.age_s, lambda: registry.swap(registry.load()[0], b"document", notice=True)
        )  # fmt: skip
        for each in asked:
            each()
        admin(f"REVOKE USAGE ON SCHEMA reliable_rx FROM {role}")
        for each in asked:
            with pytest.raises(StoreUnavailable, match="GRANT USAGE ON SCHEMA"):
                each()
        admin(f"GRANT USAGE ON SCHEMA reliable_rx TO {role}")
        for each in asked:
            each()
        admin("DROP SCHEMA reliable_rx CASCADE")
        with pytest.raises(CheckpointRefused, match="restore"):
            registry.load()
    admin(f"DROP ROLE {role}")
