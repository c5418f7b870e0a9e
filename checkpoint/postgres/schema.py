"""The tables in PostgreSQL: one schema for all stores of a database, made once, recognised ever after.

A store is a row of ``stores``; everything else of it is found by that row's id. *epoch* is the owner's, as leases count
them. *opening* counts every opening, and is what tells the present owner from all before: each transaction that
changes something begins with ``fence``, which shares a lock with the store's other transactions and fails if there has
been a later opening. Who opens takes that lock alone, so nothing of an older opening can be in progress or come after.
Rejected: locking the row (a write per transaction, and one more behind each pair of them), the id of the backend (it
changes with every connection).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reliable_rx.errors import CheckpointRefused, StoreUnavailable

if TYPE_CHECKING:
    import psycopg

FORMAT = 3
LOCKS = 0x52525831
"""The first half of the advisory locks of this library; the second is the id of a store."""
PRESENCE = 0x52525850
"""The same, of processes: whoever holds it is alive."""
_SCHEMA = (
    "CREATE SCHEMA IF NOT EXISTS reliable_rx",
    """CREATE TABLE stores (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind text NOT NULL, name text COLLATE "C" NOT NULL,
        epoch bigint NOT NULL, opening bigint NOT NULL, holder integer, held_by text,
        owner text NOT NULL, identity bytea NOT NULL, key_id bytea NOT NULL, key bytea, UNIQUE (kind, name))""",
    """CREATE TABLE generations (
        store integer, generation bigint, base bigint NOT NULL, manifest bytea NOT NULL,
        PRIMARY KEY (store, generation))""",
    """CREATE TABLE chunks (
        store integer, generation bigint, number integer, blob bytea NOT NULL,
        PRIMARY KEY (store, generation, number))""",
    """CREATE TABLE outputs (
        store integer, stream text COLLATE "C", first bigint, count bigint NOT NULL,
        blob bytea NOT NULL, PRIMARY KEY (store, stream, first))""",
    """CREATE TABLE turns (
        store integer, first bigint, count bigint NOT NULL, seal bytea NOT NULL,
        blob bytea NOT NULL, PRIMARY KEY (store, first))""",
    "CREATE TABLE turn_bases (store integer PRIMARY KEY, turn bigint NOT NULL, blob bytea NOT NULL)",
    """CREATE TABLE entries (
        store integer, log text COLLATE "C", first bigint, count bigint NOT NULL,
        blob bytea NOT NULL, PRIMARY KEY (store, log, first))""",
    """CREATE TABLE entry_bases (
        store integer, log text COLLATE "C", first bigint NOT NULL, blob bytea NOT NULL, PRIMARY KEY (store, log))""",
    """CREATE TABLE positions (
        store integer, stream text COLLATE "C", subscriber text COLLATE "C", n bigint NOT NULL, blob bytea NOT NULL,
        PRIMARY KEY (store, stream, subscriber))""",
    """CREATE TABLE offsets (
        store integer, number bigint, whole integer NOT NULL, blob bytea NOT NULL, PRIMARY KEY (store, number))""",
    """CREATE TABLE registry (
        name text PRIMARY KEY, version bigint NOT NULL, document bytea NOT NULL, written timestamptz NOT NULL)""",
    # Pickles of many small values hardly compress; trying takes longer than writing them.
    *(
        f"ALTER TABLE {each} ALTER COLUMN blob SET STORAGE EXTERNAL"
        for each in ("chunks", "outputs", "turns", "entries")
    ),
    f"""CREATE FUNCTION fence(integer, bigint) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock_shared({LOCKS}, $1);
            PERFORM FROM reliable_rx.stores WHERE id = $1 AND opening = $2;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'there has been a later opening' USING ERRCODE = 'RRX01';
            END IF;
        END $$""",
    "CREATE TABLE format (id integer PRIMARY KEY CHECK (id = 0), version integer NOT NULL)",
)
TABLES = ("generations", "chunks", "outputs", "turns", "turn_bases", "entries", "entry_bases", "positions", "offsets")
"""What the rows of a store are in, by its id."""


def make(connection: psycopg.Connection[Any]) -> None:
    """Make the tables if they are not there; refuse those of another format."""
    if not _is_ours(connection):
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", (LOCKS,))
            if not _is_ours(connection):
                for statement in _SCHEMA:
                    connection.execute(statement.encode())
                connection.execute("INSERT INTO format VALUES (0, %s)", (FORMAT,))


def look(connection: psycopg.Connection[Any]) -> None:
    """Refuse a database without the tables, or with those of another format."""
    if not _is_ours(connection):
        raise StoreUnavailable("there are no stores in this database; give the address of one that has some")


def _is_ours(connection: psycopg.Connection[Any]) -> bool:
    # Looked up in the catalogue: what a session has cached of names may be older than the lock it waited for.
    sql = "SELECT 1 FROM pg_tables WHERE schemaname = 'reliable_rx' AND tablename = 'format'"
    if not connection.execute(sql).fetchall():
        return False
    ((version,),) = connection.execute("SELECT version FROM reliable_rx.format").fetchall()
    if version == FORMAT:
        return True
    remedy = "upgrade reliable_rx" if version > FORMAT else "use the version that made them, or another database"
    what = f"the tables have format {version}, this version reads format {FORMAT}; {remedy}"
    raise CheckpointRefused(f"reliable_rx: {what}", what=what, where="schema reliable_rx")
